//! A pickle machine that builds plain data and descriptions of tensors, and nothing else.
//!
//! A pickle is a program: it names functions of Python and has them called. This machine knows the
//! names that `torch.save` writes for tensors and containers ([`Global`]), and what these do is
//! written here; every other name is refused where it stands, and nothing is imported or called.
//!
//! What a program builds is a graph of [`Node`]s which refer to each other by number, so that what it
//! uses twice is there once. Each instruction adds at most one node, or moves what is on the stack,
//! and the few that copy are counted: time and memory are linear in the length of the program.

use super::error::FileReason;
use super::globals::{DTypeName, Dead, Global};
use std::collections::HashMap;

/// A value. What is larger than a number is in the lists of [`Pickle`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// The number of a text; equal texts have one number.
    Text(u32),
    Global(Global),
    Node(u32),
}

/// A value with parts.
#[derive(Debug)]
pub(super) enum Node<'a> {
    Tuple(Vec<Value>),
    List(Vec<Value>),
    /// In the order in which they were set; of equal keys, the last one counts.
    Dict(Vec<(Value, Value)>),
    Set(Vec<Value>),
    Bytes(&'a [u8]),
    /// Bytes that are written as a text, one for each character.
    Latin1(u32),
    /// An integer that does not fit 64 bits.
    Long(i128),
    /// A text that stands for something of PyTorch's, such as a device.
    Constant(u32),
    /// A device and its number.
    Device(u32, i64),
    Storage(Storage),
    Tensor(Box<Tensor>),
    /// A tensor of a kind that cannot be read, by what it is.
    Dead(Dead),
}

/// The bytes of tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage {
    /// Its dtype, or none of its own.
    pub(super) dtype: Option<DTypeName>,
    /// The text that names its entry.
    pub(super) key: u32,
    /// How many elements it has; bytes, if it has no dtype.
    pub(super) elements: i64,
}

/// A tensor. Lists of sizes and strides may be shared by many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor {
    pub(super) storage: Storage,
    /// The dtype, as PyTorch calls it.
    pub(super) dtype: DTypeName,
    pub(super) offset: i64,
    pub(super) sizes: Value,
    pub(super) strides: Value,
    pub(super) conj: bool,
    pub(super) neg: bool,
}

/// What a program has built.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    pub(super) texts: Vec<&'a str>,
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) root: Value,
    /// How much work may be done on it: a number that grows with the program's length.
    pub(super) budget: usize,
}

impl Pickle<'_> {
    /// A text by its number.
    pub(super) fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).copied().unwrap_or_default()
    }

    /// A node by its number.
    pub(super) fn node(&self, number: u32) -> Option<&Node<'_>> {
        self.nodes.get(number as usize)
    }
}

/// Runs a program.
pub(super) fn run(program: &[u8]) -> Result<Pickle<'_>, FileReason> {
    let mut machine = Machine {
        program,
        at: 0,
        began: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        texts: Vec::new(),
        numbers: HashMap::new(),
        nodes: Vec::new(),
        budget: budget(program.len()),
    };
    let root = loop {
        machine.began = machine.at;
        if let Some(root) = machine.step()? {
            break root;
        }
    };
    let Machine { texts, nodes, .. } = machine;
    Ok(Pickle { texts, nodes, root, budget: budget(program.len()) })
}

/// How many values may be made of a program: one for each of its bytes would do if nothing were used
/// twice, and what is used twice in earnest is names and lists of settings.
fn budget(bytes: usize) -> usize {
    bytes.saturating_mul(4).saturating_add(1 << 16)
}

/// The machine: a stack, what the program remembers, and what it has made.
pub(super) struct Machine<'a> {
    program: &'a [u8],
    at: usize,
    /// Where the instruction that runs begins.
    began: usize,
    stack: Vec<Value>,
    /// How long the stack was at each mark that is open.
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
    pub(super) texts: Vec<&'a str>,
    numbers: HashMap<&'a str, u32>,
    pub(super) nodes: Vec<Node<'a>>,
    budget: usize,
}

pub(super) type Done<T> = Result<T, FileReason>;

impl<'a> Machine<'a> {
    /// One instruction; the result, if it was the last one.
    fn step(&mut self) -> Done<Option<Value>> {
        let [opcode] = self.fixed()?;
        match opcode {
            b'.' => return self.pop().map(Some),
            // the protocol, whose instructions are told apart anyway
            0x80 => drop(self.fixed::<1>()?),
            // a frame: so many bytes follow
            0x95 => {
                let length = self.length64()?;
                if length > self.program.len() - self.at {
                    return Err(self.ends());
                }
            }
            b'(' => self.marks.push(self.stack.len()),
            b'0' => {
                if self.marks.last() == Some(&self.stack.len()) {
                    self.marks.pop();
                } else {
                    self.pop()?;
                }
            }
            b'1' => drop(self.marked()?),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            b'N' => self.stack.push(Value::None),
            0x88 => self.stack.push(Value::Bool(true)),
            0x89 => self.stack.push(Value::Bool(false)),
            b'J' => {
                let number = i32::from_le_bytes(self.fixed()?);
                self.stack.push(Value::Int(number.into()));
            }
            b'K' => {
                let [number] = self.fixed()?;
                self.stack.push(Value::Int(number.into()));
            }
            b'M' => {
                let number = u16::from_le_bytes(self.fixed()?);
                self.stack.push(Value::Int(number.into()));
            }
            0x8a => {
                let [length] = self.fixed()?;
                self.long(length.into())?;
            }
            0x8b => {
                let length = self.length32()?;
                self.long(length)?;
            }
            b'G' => {
                let number = f64::from_be_bytes(self.fixed()?);
                self.stack.push(Value::Float(number));
            }
            0x8c => {
                let [length] = self.fixed()?;
                self.text(length.into())?;
            }
            b'X' => {
                let length = self.length32()?;
                self.text(length)?;
            }
            0x8d => {
                let length = self.length64()?;
                self.text(length)?;
            }
            // the text of Python 2, which PyTorch's old files have
            b'U' => {
                let [length] = self.fixed()?;
                self.text(length.into())?;
            }
            b'T' => {
                let length = self.length32()?;
                self.text(length)?;
            }
            b'C' => {
                let [length] = self.fixed()?;
                self.bytes(length.into())?;
            }
            b'B' => {
                let length = self.length32()?;
                self.bytes(length)?;
            }
            0x8e | 0x96 => {
                let length = self.length64()?;
                self.bytes(length)?;
            }
            b')' => self.push(Node::Tuple(Vec::new()))?,
            b']' => self.push(Node::List(Vec::new()))?,
            b'}' => self.push(Node::Dict(Vec::new()))?,
            0x8f => self.push(Node::Set(Vec::new()))?,
            b't' => {
                let parts = self.marked()?;
                self.push(Node::Tuple(parts))?;
            }
            0x85..=0x87 => {
                let parts = self.popped(usize::from(opcode - 0x84))?;
                self.push(Node::Tuple(parts))?;
            }
            0x91 => {
                let parts = self.marked()?;
                self.push(Node::Set(parts))?;
            }
            b'a' => {
                let parts = self.popped(1)?;
                self.list()?.extend(parts);
            }
            b'e' => {
                let parts = self.marked()?;
                self.list()?.extend(parts);
            }
            b's' => {
                let parts = self.popped(2)?;
                self.set_items(&parts)?;
            }
            b'u' => {
                let parts = self.marked()?;
                self.set_items(&parts)?;
            }
            0x90 => {
                let parts = self.marked()?;
                match self.top_node()? {
                    Node::Set(set) => set.extend(parts),
                    _ => return Err(self.malformed("values are added to what is no set")),
                }
            }
            b'q' => {
                let [place] = self.fixed()?;
                self.remember(place.into())?;
            }
            b'r' => {
                let place = u32::from_le_bytes(self.fixed()?);
                self.remember(place)?;
            }
            0x94 => {
                let place = self.memo.len() as u32;
                self.remember(place)?;
            }
            b'h' => {
                let [place] = self.fixed()?;
                self.recall(place.into())?;
            }
            b'j' => {
                let place = u32::from_le_bytes(self.fixed()?);
                self.recall(place)?;
            }
            b'c' => {
                let module = self.line()?;
                let name = self.line()?;
                self.global(module, name)?;
            }
            0x93 => {
                let parts = self.popped(2)?;
                let &[Value::Text(module), Value::Text(name)] = &*parts else {
                    return Err(self.malformed("the name of a function is no text"));
                };
                let texts = &self.texts;
                let text = |n: u32| texts.get(n as usize).copied().unwrap_or_default();
                let (module, name) = (text(module), text(name));
                self.global(module, name)?;
            }
            b'R' | 0x81 => {
                let parts = self.popped(2)?;
                let &[function, arguments] = &*parts else { return Err(self.ends()) };
                let made = self.call(function, arguments)?;
                self.stack.push(made);
            }
            b'b' => {
                self.popped(1)?;
                match self.top_node()? {
                    // attributes of a dict, such as the versions of modules in a state dict
                    Node::Dict(_) => {}
                    _ => return Err(self.malformed("a state is given to what has none")),
                }
            }
            b'Q' => {
                let parts = self.popped(1)?;
                self.persistent(parts.first().copied())?;
            }
            _ => {
                let at = self.began as u64;
                return Err(FileReason::Instruction { opcode, at });
            }
        }
        Ok(None)
    }

    /// The program is not what a pickle is.
    #[cold]
    pub(super) fn malformed(&self, what: &'static str) -> FileReason {
        FileReason::Pickle { what, at: self.began as u64 }
    }

    #[cold]
    fn ends(&self) -> FileReason {
        self.malformed("the program ends within an instruction")
    }

    fn take(&mut self, bytes: usize) -> Done<&'a [u8]> {
        let program: &'a [u8] = self.program;
        let taken = program.get(self.at..).and_then(|rest| rest.get(..bytes));
        let taken = taken.ok_or_else(|| self.ends())?;
        self.at += bytes;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Done<[u8; N]> {
        let taken = self.take(N)?;
        taken.first_chunk().copied().ok_or_else(|| self.ends())
    }

    fn length32(&mut self) -> Done<usize> {
        Ok(u32::from_le_bytes(self.fixed()?) as usize)
    }

    fn length64(&mut self) -> Done<usize> {
        let length = u64::from_le_bytes(self.fixed()?);
        usize::try_from(length).map_err(|_| self.ends())
    }

    /// A line, without its end.
    fn line(&mut self) -> Done<&'a str> {
        let program: &'a [u8] = self.program;
        let rest = program.get(self.at..).unwrap_or_default();
        let Some(length) = rest.iter().position(|b| *b == b'\n') else { return Err(self.ends()) };
        let line = self.take(length)?;
        self.at += 1;
        std::str::from_utf8(line).map_err(|_| self.malformed("a name is not UTF-8"))
    }

    pub(super) fn push(&mut self, node: Node<'a>) -> Done<()> {
        let value = self.node(node)?;
        self.stack.push(value);
        Ok(())
    }

    pub(super) fn node(&mut self, node: Node<'a>) -> Done<Value> {
        let Ok(number) = u32::try_from(self.nodes.len()) else {
            return Err(self.malformed("there are more values than can be numbered"));
        };
        self.nodes.push(node);
        Ok(Value::Node(number))
    }

    fn text(&mut self, length: usize) -> Done<()> {
        let bytes = self.take(length)?;
        let text = std::str::from_utf8(bytes).map_err(|_| self.malformed("a text is not UTF-8"))?;
        let number = match self.numbers.get(text) {
            Some(number) => *number,
            None => {
                // there are fewer texts than bytes, of which there may be more
                let Ok(number) = u32::try_from(self.texts.len()) else {
                    return Err(self.malformed("there are more texts than can be numbered"));
                };
                self.texts.push(text);
                self.numbers.insert(text, number);
                number
            }
        };
        self.stack.push(Value::Text(number));
        Ok(())
    }

    fn bytes(&mut self, length: usize) -> Done<()> {
        let bytes = self.take(length)?;
        self.push(Node::Bytes(bytes))
    }

    /// An integer of any length, of which 128 bits are kept.
    fn long(&mut self, length: usize) -> Done<()> {
        let bytes = self.take(length)?;
        let sign = bytes.last().is_some_and(|b| *b >= 0x80);
        let fill = if sign { 0xff } else { 0 };
        let mut all = [fill; 16];
        for (i, byte) in bytes.iter().enumerate() {
            match all.get_mut(i) {
                Some(place) => *place = *byte,
                None if *byte == fill => {}
                None => return Err(self.malformed("an integer has more than 128 bits")),
            }
        }
        let number = i128::from_le_bytes(all);
        if (number < 0) != sign {
            return Err(self.malformed("an integer has more than 128 bits"));
        }
        match i64::try_from(number) {
            Ok(number) => self.stack.push(Value::Int(number)),
            Err(_) => self.push(Node::Long(number))?,
        }
        Ok(())
    }

    /// How much of the stack is above the last mark.
    fn free(&self) -> usize {
        self.stack.len() - self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Done<Value> {
        match self.free() {
            0 => Err(self.malformed("there is nothing on the stack")),
            _ => self.stack.pop().ok_or_else(|| self.ends()),
        }
    }

    /// So many values, the last of which is on top.
    fn popped(&mut self, count: usize) -> Done<Vec<Value>> {
        match self.free() < count {
            true => Err(self.malformed("there is not enough on the stack")),
            false => Ok(self.stack.split_off(self.stack.len() - count)),
        }
    }

    /// All values above the last mark.
    fn marked(&mut self) -> Done<Vec<Value>> {
        let Some(mark) = self.marks.pop() else {
            return Err(self.malformed("there is no mark"));
        };
        Ok(self.stack.split_off(mark))
    }

    fn top(&self) -> Done<Value> {
        match self.stack.last() {
            Some(value) if self.free() > 0 => Ok(*value),
            _ => Err(self.malformed("there is nothing on the stack")),
        }
    }

    fn top_node(&mut self) -> Done<&mut Node<'a>> {
        let top = self.top()?;
        let refusal = self.malformed("the value on the stack has no parts");
        match top {
            Value::Node(number) => self.nodes.get_mut(number as usize).ok_or(refusal),
            _ => Err(refusal),
        }
    }

    fn list(&mut self) -> Done<&mut Vec<Value>> {
        let refusal = self.malformed("values are appended to what is no list");
        match self.top_node()? {
            Node::List(list) => Ok(list),
            _ => Err(refusal),
        }
    }

    fn set_items(&mut self, parts: &[Value]) -> Done<()> {
        let refusal = self.malformed("items are set of what is no dict");
        if !parts.len().is_multiple_of(2) {
            return Err(self.malformed("a key has no value"));
        }
        let Node::Dict(dict) = self.top_node()? else { return Err(refusal) };
        let pairs = parts.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)));
        dict.extend(pairs);
        Ok(())
    }

    fn remember(&mut self, place: u32) -> Done<()> {
        let top = self.top()?;
        self.memo.insert(place, top);
        Ok(())
    }

    fn recall(&mut self, place: u32) -> Done<()> {
        match self.memo.get(&place) {
            Some(value) => {
                self.stack.push(*value);
                Ok(())
            }
            None => Err(self.malformed("a value is used that was never remembered")),
        }
    }

    /// Counts values that are copied.
    pub(super) fn charge(&mut self, values: usize) -> Done<()> {
        match self.budget.checked_sub(values) {
            Some(rest) => {
                self.budget = rest;
                Ok(())
            }
            None => Err(FileReason::Expands { bytes: self.program.len() as u64 }),
        }
    }

    fn global(&mut self, module: &str, name: &str) -> Done<()> {
        match Global::find(module, name) {
            Some(global) => {
                self.stack.push(Value::Global(global));
                Ok(())
            }
            None => {
                let shown = |text: &str| text.chars().take(200).collect::<String>();
                let name = format!("{}.{}", shown(module), shown(name));
                Err(FileReason::Refused { name, at: self.began as u64 })
            }
        }
    }
}
