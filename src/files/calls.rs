//! What the functions do that a pickle may call.

use super::globals::{DTypeName, Global};
use super::pickle::{Done, Machine, Node, Storage, Tensor, Value};

impl Machine<'_> {
    /// The parts of a tuple or a list.
    fn parts(&self, value: Value) -> Option<&[Value]> {
        match value {
            Value::Node(number) => match self.nodes.get(number as usize)? {
                Node::Tuple(parts) | Node::List(parts) => Some(parts),
                _ => None,
            },
            _ => None,
        }
    }

    /// What `function(*arguments)` would be.
    pub(super) fn call(&mut self, function: Value, arguments: Value) -> Done<Value> {
        let Value::Global(function) = function else {
            return Err(self.malformed("what is called is no function"));
        };
        let Some(arguments) = self.parts(arguments) else {
            return Err(self.malformed("the arguments of a call are no tuple"));
        };
        // no function takes more: lists of others may be long, and are not copied
        let count = arguments.len();
        let mut first = [Value::None; 8];
        first.iter_mut().zip(arguments).for_each(|(to, from)| *to = *from);
        let wrong = self.malformed("a function is called with arguments that it does not take");
        match function {
            Global::OrderedDict | Global::Dict if count == 0 => self.node(Node::Dict(Vec::new())),
            Global::OrderedDict | Global::Dict if count == 1 => self.dict_of(first[0]),
            Global::DefaultDict if count <= 1 => self.node(Node::Dict(Vec::new())),
            Global::Set if count == 0 => self.node(Node::Set(Vec::new())),
            Global::Set if count == 1 => {
                let parts = self.parts(first[0]).ok_or(wrong)?.len();
                self.charge(parts)?;
                let parts = self.parts(first[0]).unwrap_or_default().to_vec();
                self.node(Node::Set(parts))
            }
            Global::Size if count == 1 => match self.parts(first[0]) {
                Some(_) => Ok(first[0]),
                None => Err(wrong),
            },
            Global::Encode => match (first[0], first[1]) {
                (Value::Text(text), Value::Text(_)) if count == 2 => self.node(Node::Latin1(text)),
                _ => Err(wrong),
            },
            Global::ByteArray if count == 0 => self.node(Node::Bytes(&[])),
            Global::ByteArray => match first[0] {
                Value::Node(number)
                    if count == 1
                        && matches!(
                            self.nodes.get(number as usize),
                            Some(Node::Bytes(_) | Node::Latin1(_))
                        ) =>
                {
                    Ok(first[0])
                }
                _ => Err(wrong),
            },
            Global::Device => match (first[0], first[1]) {
                (Value::Text(text), _) if count == 1 => self.node(Node::Constant(text)),
                (Value::Text(text), Value::Int(number)) if count == 2 => {
                    self.node(Node::Device(text, number))
                }
                _ => Err(wrong),
            },
            Global::Layout => match first[0] {
                Value::Text(text) if count == 1 => self.node(Node::Constant(text)),
                _ => Err(wrong),
            },
            Global::Tensor2 if (6..=7).contains(&count) => {
                let storage = self.storage(first[0])?;
                let dtype = storage.dtype.ok_or(wrong)?;
                self.tensor(storage, dtype, &first, first[6])
            }
            Global::Tensor3 if (7..=8).contains(&count) => {
                let storage = self.storage(first[0])?;
                let Value::Global(Global::DType(dtype)) = first[6] else { return Err(wrong) };
                self.tensor(storage, dtype, &first, first[7])
            }
            Global::Parameter if (1..=4).contains(&count) => match first[0] {
                Value::Node(number)
                    if matches!(
                        self.nodes.get(number as usize),
                        Some(Node::Tensor(_) | Node::Dead(_))
                    ) =>
                {
                    Ok(first[0])
                }
                _ => Err(wrong),
            },
            // rebuild(type, function, type, arguments, state): attributes are left out
            Global::FromType if count == 4 => match (first[0], first[1]) {
                (
                    Value::Global(
                        Global::Tensor2 | Global::Tensor3 | Global::Parameter | Global::Dead(_),
                    ),
                    Value::Global(Global::Tensor | Global::Parameter),
                ) => self.call(first[0], first[2]),
                _ => Err(wrong),
            },
            Global::Dead(what) => self.node(Node::Dead(what)),
            _ => Err(wrong),
        }
    }

    /// A dict of pairs.
    fn dict_of(&mut self, pairs: Value) -> Done<Value> {
        let wrong = self.malformed("a dict is made of what are no pairs");
        if let Value::Node(number) = pairs
            && let Some(Node::Dict(items)) = self.nodes.get(number as usize)
        {
            let count = items.len();
            self.charge(count)?;
            let Some(Node::Dict(items)) = self.nodes.get(number as usize) else {
                return Err(wrong);
            };
            let items = items.clone();
            return self.node(Node::Dict(items));
        }
        let count = self.parts(pairs).ok_or(wrong)?.len();
        self.charge(count)?;
        let mut items = Vec::new();
        for pair in self.parts(pairs).unwrap_or_default() {
            match self.parts(*pair) {
                Some(&[key, value]) => items.push((key, value)),
                _ => return Err(self.malformed("a dict is made of what are no pairs")),
            }
        }
        self.node(Node::Dict(items))
    }

    fn storage(&self, value: Value) -> Done<Storage> {
        if let Value::Node(number) = value
            && let Some(Node::Storage(storage)) = self.nodes.get(number as usize)
        {
            return Ok(*storage);
        }
        Err(self.malformed("a tensor is made of what is no storage"))
    }

    /// `(storage, offset, sizes, strides, requires_grad, hooks, ..)` and what else is known of it.
    fn tensor(
        &mut self,
        storage: Storage,
        dtype: DTypeName,
        arguments: &[Value; 8],
        more: Value,
    ) -> Done<Value> {
        let wrong = self.malformed("a tensor is made with arguments that it does not have");
        let [_, offset, sizes, strides, ..] = *arguments;
        let (Value::Int(offset), Some(_), Some(_)) =
            (offset, self.parts(sizes), self.parts(strides))
        else {
            return Err(wrong);
        };
        let [conj, neg] = self.bits(more)?;
        let tensor = Tensor { storage, dtype, offset, sizes, strides, conj, neg };
        self.node(Node::Tensor(Box::new(tensor)))
    }

    /// Whether the memory of a tensor has to be conjugated, and negated, to be its value.
    fn bits(&self, more: Value) -> Done<[bool; 2]> {
        let mut bits = [false; 2];
        let wrong = self.malformed("a tensor has facts that are not known");
        let Value::Node(number) = more else {
            return match more {
                Value::None => Ok(bits),
                _ => Err(wrong),
            };
        };
        let Some(Node::Dict(items)) = self.nodes.get(number as usize) else { return Err(wrong) };
        // there are two facts, and a shared list of more is not gone through for each tensor
        if items.len() > 8 {
            return Err(wrong);
        }
        for (key, value) in items {
            let (Value::Text(key), Value::Bool(value)) = (*key, *value) else { return Err(wrong) };
            match self.texts.get(key as usize).copied() {
                Some("conj") => bits[0] = value,
                Some("neg") => bits[1] = value,
                _ => return Err(wrong),
            }
        }
        Ok(bits)
    }

    /// `("storage", type, key, location, elements)`.
    pub(super) fn persistent(&mut self, value: Option<Value>) -> Done<()> {
        let wrong = self.malformed("what is kept outside of the pickle is no storage");
        let Some(
            &[Value::Text(kind), Value::Global(dtype), Value::Text(key), _, Value::Int(elements)],
        ) = value.and_then(|v| self.parts(v))
        else {
            return Err(wrong);
        };
        if self.texts.get(kind as usize).copied() != Some("storage") || elements < 0 {
            return Err(wrong);
        }
        let dtype = match dtype {
            Global::Storage(dtype) => Some(dtype),
            Global::UntypedStorage => None,
            _ => return Err(wrong),
        };
        self.push(Node::Storage(Storage { dtype, key, elements }))
    }
}
