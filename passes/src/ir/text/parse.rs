//! Tokens to a graph.

use super::error::{ParseError, ParseErrorKind as Kind};
use super::lex::{Token, tokens};
use crate::ir::Effects;
use crate::ir::control;
use crate::ir::graph::{Constant, Graph, NodeId, TextPlace, ValueRef};
use crate::ir::subgraph::Subgraph;
use crate::ir::{Arg, TensorMeta};
use crate::ir::{DType, Device, Dims, Layout, MemoryFormat, Op, Scalar, layout, similar_operators};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ops::Range;

type Result<T> = std::result::Result<T, ParseError>;

/// A value's name as written, and whether it was quoted: `%"0"` is a name, `%0` is a number.
type Name = (String, bool);

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, Range<usize>)>,
    at: usize,
    graph: Graph,
    values: HashMap<Name, ValueRef>,
    /// How many graphs this one is an argument in.
    depth: usize,
}

/// How deep graphs may be nested: a text that nests them without end must not end the stack.
const DEEPEST: usize = 64;

fn ensure_shallow(p: &Parser<'_>) -> Result<()> {
    match p.depth < DEEPEST {
        true => Ok(()),
        false => Err(p.expected("no graph here: graphs are nested at most 64 deep")),
    }
}

/// Reads a whole text.
pub(super) fn graph(text: &str) -> Result<Graph> {
    let mut p = Parser {
        text,
        tokens: tokens(text)?,
        at: 0,
        graph: Graph::new(),
        values: HashMap::new(),
        depth: 0,
    };
    // the operators that are given graphs are none of the catalogue's
    control::ops();
    p.graph()?;
    match p.peek() {
        Token::End => Ok(p.graph),
        _ => Err(p.expected("the end of the text after the graph's `}`")),
    }
}

impl Parser<'_> {
    /// `graph(...) { ... }`.
    fn graph(&mut self) -> Result<()> {
        self.word("graph", "`graph`")?;
        self.mark('(', "`(` after `graph`")?;
        if !self.eat(')') {
            loop {
                self.argument()?;
                if self.eat(')') {
                    break;
                }
                self.mark(',', "`,` or `)` after an input")?;
            }
        }
        self.mark('{', "`{` before the graph's body")?;
        while !self.is_word("return") {
            self.statement()?;
        }
        self.returns()?;
        self.mark('}', "`}` after `return`")
    }

    /// A graph that is an argument: its values are its own.
    fn subgraph(&mut self) -> Result<Subgraph> {
        ensure_shallow(self)?;
        let outer = (std::mem::take(&mut self.graph), std::mem::take(&mut self.values));
        self.depth += 1;
        let done = self.graph();
        self.depth -= 1;
        let graph = std::mem::replace(&mut self.graph, outer.0);
        self.values = outer.1;
        done.map(|()| Subgraph::new(graph))
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn next(&mut self) -> Token {
        let t = self.tokens[self.at].0.clone();
        if t != Token::End {
            self.at += 1;
        }
        t
    }

    /// An error about the token at `position`.
    fn error_at(&self, position: usize, kind: Kind) -> ParseError {
        let span = &self.tokens[position].1;
        ParseError::at(self.text, span.start, span.end, kind)
    }

    fn expected(&self, what: &str) -> ParseError {
        let kind = Kind::Expected { expected: what.to_string(), found: self.peek().describe() };
        self.error_at(self.at, kind)
    }

    fn is_mark(&self, c: char) -> bool {
        *self.peek() == Token::Mark(c)
    }

    fn eat(&mut self, c: char) -> bool {
        let yes = self.is_mark(c);
        if yes {
            self.at += 1;
        }
        yes
    }

    fn mark(&mut self, c: char, what: &str) -> Result<()> {
        if self.eat(c) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn is_word(&self, w: &str) -> bool {
        matches!(self.peek(), Token::Word(have) if have == w)
    }

    fn word(&mut self, w: &str, what: &str) -> Result<()> {
        if self.is_word(w) {
            self.at += 1;
            Ok(())
        } else {
            Err(self.expected(what))
        }
    }

    fn value_name(&mut self, what: &str) -> Result<Name> {
        match self.next() {
            Token::Value(name, quoted) => Ok((name, quoted)),
            _ => {
                self.at = self.at.saturating_sub(usize::from(*self.peek() != Token::End));
                Err(self.expected(what))
            }
        }
    }

    /// Records a definition whose name is the token at `position`.
    fn define(&mut self, name: Name, position: usize, value: ValueRef) -> Result<()> {
        // a name that needs no quotes is the same name with them
        let name = canonical(name);
        if self.values.contains_key(&name) {
            let shown = self.tokens[position].0.describe();
            let kind = Kind::DuplicateValue(shown.trim_matches('`').to_string());
            return Err(self.error_at(position, kind));
        }
        self.values.insert(name, value);
        Ok(())
    }

    fn use_value(&mut self) -> Result<ValueRef> {
        let position = self.at;
        let name = self.value_name("a value such as `%x`")?;
        match self.values.get(&canonical(name)) {
            Some(v) => Ok(*v),
            None => {
                let shown = self.tokens[position].0.describe();
                let kind = Kind::UnknownValue(shown.trim_matches('`').to_string());
                Err(self.error_at(position, kind))
            }
        }
    }

    fn argument(&mut self) -> Result<()> {
        let parameter = self.is_word("param");
        self.at += usize::from(parameter);
        let position = self.at;
        let name = self.value_name("an input such as `%x: f32[2,3]`")?;
        self.mark(':', "`:` and a type after the name")?;
        let meta = self.meta()?;
        let value = if parameter {
            self.graph.parameter(&name.0, meta)
        } else {
            self.graph.input(&name.0, meta)
        };
        if is_number(&name) {
            self.graph.node_mut(value.node).name = None;
        }
        self.place(value.node, position);
        self.define(name, position, value)
    }

    /// Records where the statement of a node begins.
    fn place(&mut self, node: NodeId, position: usize) {
        let (line, column) = super::error::place(self.text, self.tokens[position].1.start);
        self.graph.node_mut(node).provenance.text = Some(TextPlace { line, column });
    }

    fn integer(&mut self, what: &str) -> Result<i64> {
        match self.peek() {
            Token::Number(n) if is_integer(n) => {
                let n = n.clone();
                match n.parse() {
                    Ok(i) => {
                        self.at += 1;
                        Ok(i)
                    }
                    Err(_) => Err(self.error_at(self.at, Kind::NumberTooLarge(n))),
                }
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Integers up to the closing mark.
    fn dims(&mut self, close: char, what: &str) -> Result<Dims> {
        let mut dims = Dims::new();
        if self.eat(close) {
            return Ok(dims);
        }
        loop {
            dims.push(self.integer(what)?);
            if self.eat(close) {
                return Ok(dims);
            }
            self.mark(',', &format!("`,` or `{close}` after {what}"))?;
        }
    }

    fn dtype(&mut self) -> Result<DType> {
        match self.peek() {
            Token::Word(w) => match DType::from_name(w) {
                Some(d) => {
                    self.at += 1;
                    Ok(d)
                }
                None => Err(self.error_at(self.at, Kind::UnknownDType(w.clone()))),
            },
            _ => Err(self.expected("a dtype such as `f32`")),
        }
    }

    /// `f32[2,3]{1,2} @cuda:0`.
    fn meta(&mut self) -> Result<TensorMeta> {
        let dtype = self.dtype()?;
        self.mark('[', "`[` and the sizes after the dtype")?;
        let position = self.at;
        let sizes = self.dims(']', "a size")?;
        if let Some(i) = sizes.iter().position(|s| *s < 0) {
            return Err(self.error_at(position + 2 * i, Kind::NegativeSize(sizes[i])));
        }
        let count = sizes.iter().try_fold(1i64, |n, s| n.checked_mul((*s).max(1)));
        if count.is_none() {
            let kind = Kind::TooManyElements(sizes.to_vec());
            return Err(self.error_at(position, kind));
        }
        let position = self.at;
        let strides = if self.eat('{') {
            self.dims('}', "a stride")?
        } else {
            layout::contiguous_strides(&sizes)
        };
        if strides.len() != sizes.len() {
            let kind = Kind::StrideCount { sizes: sizes.len(), strides: strides.len() };
            return Err(self.error_at(position, kind));
        }
        let device = if self.eat('@') { self.device()? } else { Device::CPU };
        Ok(TensorMeta { dtype, sizes, strides, device })
    }

    /// `cuda` or `cuda:0`.
    fn device(&mut self) -> Result<Device> {
        let position = self.at;
        let Token::Word(mut name) = self.peek().clone() else {
            return Err(self.expected("a device such as `cuda:0`"));
        };
        self.at += 1;
        if self.is_mark(':')
            && let Some((Token::Number(n), _)) = self.tokens.get(self.at + 1)
        {
            name = format!("{name}:{n}");
            self.at += 2;
        }
        (name.parse()).map_err(|_| self.error_at(position, Kind::UnknownDevice(name)))
    }

    /// `%3: f32[2], %4: i64[2] = aten::max.dim(...)`.
    fn statement(&mut self) -> Result<()> {
        let start = self.at;
        let mut names: SmallVec<[(Name, usize); 1]> = SmallVec::new();
        let mut metas: SmallVec<[TensorMeta; 1]> = SmallVec::new();
        if matches!(self.peek(), Token::Value(..)) {
            loop {
                let position = self.at;
                names.push((self.value_name("a result such as `%0`")?, position));
                self.mark(':', "`:` and a type after the name")?;
                metas.push(self.meta()?);
                if self.eat('=') {
                    break;
                }
                self.mark(',', "`=` and a call, or `,` and a further result")?;
            }
        }
        let value = if self.is_word("constant") && metas.len() == 1 {
            self.at += 1;
            let meta = metas.pop().expect("the length was checked");
            let value = self.constant(&meta)?;
            self.graph.constant(value, meta)
        } else {
            self.call(metas)?
        };
        for (index, (name, position)) in names.into_iter().enumerate() {
            if index == 0 && !is_number(&name) {
                self.graph.node_mut(value.node).name = Some(name.0.as_str().into());
            }
            let value = ValueRef { node: value.node, index: index as u32 };
            self.define(name, position, value)?;
        }
        self.place(value.node, start);
        Ok(())
    }

    fn constant(&mut self, meta: &TensorMeta) -> Result<Constant> {
        let position = self.at;
        if !self.eat('[') {
            return Ok(Constant::Splat(self.scalar("a number or a list of numbers")?));
        }
        let mut elements = Vec::new();
        while !self.eat(']') {
            if !elements.is_empty() {
                self.mark(',', "`,` or `]` after an element")?;
            }
            elements.push(self.scalar("a number")?);
        }
        if elements.len() as i64 != meta.numel() {
            let kind = Kind::ElementCount { expected: meta.numel(), found: elements.len() };
            return Err(self.error_at(position, kind));
        }
        Ok(Constant::Elements(elements))
    }

    fn call(&mut self, results: SmallVec<[TensorMeta; 1]>) -> Result<ValueRef> {
        let position = self.at;
        let op = match self.peek() {
            Token::Word(w) if w.contains("::") => w.clone(),
            _ if results.len() == 1 => {
                return Err(self.expected("an operator such as `aten::add.Tensor`, or `constant`"));
            }
            _ => {
                return Err(
                    self.expected("a statement such as `%0: f32[2] = aten::relu(%x)`, or `return`")
                );
            }
        };
        let Some(op) = Op::named(&op) else {
            let similar = similar_operators(&op);
            return Err(self.error_at(position, Kind::UnknownOperator { name: op, similar }));
        };
        self.at += 1;
        self.mark('(', "`(` after the operator")?;
        let mut given = Vec::new();
        let mut positions = Vec::new();
        if !self.eat(')') {
            loop {
                positions.push(self.at);
                given.push(self.arg()?);
                if self.eat(')') {
                    break;
                }
                self.mark(',', "`,` or `)` after an argument")?;
            }
        }
        let given = given.iter().map(|(n, a)| (n.as_deref(), a.clone()));
        let args = op.arguments(given.collect()).map_err(|(at, e)| {
            let at = at.map_or(position, |i| positions[i]);
            self.error_at(at, Kind::Argument(e))
        })?;
        let value = self.graph.complete_call(op, args, results);
        if let Some(effects) = self.effects()? {
            self.graph.set_effects(value.node, effects);
        }
        Ok(value)
    }

    /// `!random !may_fail`.
    fn effects(&mut self) -> Result<Option<Effects>> {
        let mut all = None;
        while self.eat('!') {
            let effect = match self.peek() {
                Token::Word(w) => Effects::from_name(w),
                _ => None,
            };
            let Some(effect) = effect else {
                let names = Effects::NAMES.map(|n| format!("`{}`", n.0));
                return Err(self.expected(&format!("an effect: {}", names.join(", "))));
            };
            self.at += 1;
            all = Some(all.unwrap_or(Effects::PURE) | effect);
        }
        Ok(all)
    }

    /// `%x`, `[%x, none]` or `name=value`.
    fn arg(&mut self) -> Result<(Option<String>, Arg<ValueRef>)> {
        match self.peek() {
            Token::Value(..) => Ok((None, Arg::Tensor(self.use_value()?))),
            Token::Mark('[') => {
                self.at += 1;
                Ok((None, Arg::Tensors(self.tensors()?)))
            }
            Token::Word(name) => {
                let name = name.clone();
                self.at += 1;
                self.mark('=', "`=` and a value after the argument's name")?;
                Ok((Some(name), self.arg_value()?))
            }
            _ => Err(self.expected("an argument: `%x`, `[%x, %y]` or `name=value`")),
        }
    }

    /// The rest of a list of tensors.
    fn tensors(&mut self) -> Result<Vec<Option<ValueRef>>> {
        let mut list = Vec::new();
        while !self.eat(']') {
            if !list.is_empty() {
                self.mark(',', "`,` or `]` after a tensor of a list")?;
            }
            if self.is_word("none") {
                self.at += 1;
                list.push(None);
            } else {
                list.push(Some(self.use_value()?));
            }
        }
        Ok(list)
    }

    fn arg_value(&mut self) -> Result<Arg<ValueRef>> {
        let value = match self.peek().clone() {
            Token::Value(..) => return Ok(Arg::Tensor(self.use_value()?)),
            Token::Number(_) | Token::Complex(..) => {
                return Ok(Arg::Scalar(self.scalar("a number")?));
            }
            Token::Mark('[') => {
                self.at += 1;
                return self.list();
            }
            Token::Str(s) => Arg::Str(s),
            Token::Word(w) => match w.as_str() {
                "none" => Arg::None,
                "true" | "false" | "inf" | "nan" => {
                    return Ok(Arg::Scalar(self.scalar("a number")?));
                }
                word if let Some(l) = Layout::from_name(word) => Arg::Layout(l),
                "graph" => return Ok(Arg::Graph(self.subgraph()?)),
                "contiguous_format" => Arg::MemoryFormat(MemoryFormat::Contiguous),
                "preserve_format" => Arg::MemoryFormat(MemoryFormat::Preserve),
                "channels_last" => Arg::MemoryFormat(MemoryFormat::ChannelsLast),
                "channels_last_3d" => Arg::MemoryFormat(MemoryFormat::ChannelsLast3d),
                "floats" | "bools" => {
                    self.at += 1;
                    self.mark('[', "`[]` after the kind of an empty list")?;
                    self.mark(']', "`]`: only an empty list names its kind")?;
                    return Ok(if w == "floats" {
                        Arg::Floats(Vec::new())
                    } else {
                        Arg::Bools(Vec::new())
                    });
                }
                _ if DType::from_name(&w).is_some() => return Ok(Arg::DType(self.dtype()?)),
                _ if w.parse::<Device>().is_ok() => return Ok(Arg::Device(self.device()?)),
                _ => return Err(self.expected(VALUE)),
            },
            _ => return Err(self.expected(VALUE)),
        };
        self.at += 1;
        Ok(value)
    }

    /// The rest of a named list: integers, floats, booleans or tensors by its elements.
    fn list(&mut self) -> Result<Arg<ValueRef>> {
        let start = self.at - 1;
        if matches!(self.peek(), Token::Value(..)) || self.is_word("none") {
            return Ok(Arg::Tensors(self.tensors()?));
        }
        let mut list = Vec::new();
        while !self.eat(']') {
            if !list.is_empty() {
                self.mark(',', "`,` or `]` after an element")?;
            }
            list.push(self.scalar("a number")?);
        }
        let count = |f: fn(&Scalar) -> bool| list.iter().filter(|s| f(s)).count();
        let bools = count(|s| matches!(s, Scalar::Bool(_)));
        if bools == 0 {
            Ok(if count(|s| matches!(s, Scalar::Float(_))) > 0 {
                Arg::Floats(list.iter().map(|s| s.as_f64()).collect())
            } else {
                Arg::Ints(list.iter().map(|s| s.as_i64()).collect())
            })
        } else if bools == list.len() {
            Ok(Arg::Bools(list.iter().map(|s| s.as_bool()).collect()))
        } else {
            Err(self.error_at(start, Kind::MixedList))
        }
    }

    fn scalar(&mut self, what: &str) -> Result<Scalar> {
        let value = match self.peek() {
            Token::Number(n) if is_integer(n) => return Ok(Scalar::Int(self.integer(what)?)),
            Token::Number(n) | Token::Word(n) if float(n).is_some() => {
                Scalar::Float(float(n).unwrap_or_default())
            }
            Token::Complex(re, im) => Scalar::Complex(*re, *im),
            Token::Word(w) if w == "true" || w == "false" => Scalar::Bool(w == "true"),
            _ => return Err(self.expected(what)),
        };
        self.at += 1;
        Ok(value)
    }

    fn returns(&mut self) -> Result<()> {
        let start = self.at;
        self.at += 1;
        let mut values = Vec::new();
        if matches!(self.peek(), Token::Value(..)) {
            loop {
                values.push(self.use_value()?);
                if !self.eat(',') {
                    break;
                }
            }
        }
        let output = self.graph.set_outputs(&values);
        self.place(output, start);
        Ok(())
    }
}

const VALUE: &str = "a value: a number, a list, `none`, a string, a dtype, a device, a layout, \
a memory format or a graph";

fn is_integer(n: &str) -> bool {
    n.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit())
}

fn float(n: &str) -> Option<f64> {
    match n {
        "inf" | "nan" | "-inf" => n.parse().ok(),
        "-nan" => Some(f64::NAN),
        _ if n.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => n.parse().ok(),
        _ => None,
    }
}

/// Whether a name is the number of an unnamed value.
fn is_number(name: &Name) -> bool {
    !name.1 && super::print::is_number(&name.0)
}

fn canonical(name: Name) -> Name {
    let needs_quotes = super::print::needs_quotes(&name.0);
    let quoted = name.1 && needs_quotes;
    (name.0, quoted)
}
