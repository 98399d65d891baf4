//! `Negative` and `Conjugate`: tensors that stand for the negation or conjugate of their memory.
//!
//! One fallback serves both keys, and `ZeroTensor` as well. It reads the schema: a view passes the
//! bit on, any other operator gets arguments that are resolved, and a written argument gets the
//! result copied back, through its bit.

#[cfg(test)]
mod tests;

use crate::dispatch::{
    DispatchKey, DispatchKeySet, Kernel, Library, OperatorHandle, Stack, Value, hold_arguments,
};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::schema::FunctionSchema;
use straightline_catalog::{modes_of, rules};

/// One of the keys.
#[derive(Clone, Copy)]
pub(super) struct MathBit {
    pub(super) key: DispatchKey,
    /// What tensors with the bit are called in errors.
    pub(super) name: &'static str,
    /// The tensor without the bit.
    pub(super) resolve: fn(&Tensor) -> Result<Tensor>,
    /// Why a tensor with the bit must not be written, if so.
    pub(super) immutable: Option<&'static str>,
}

const NEGATIVE: MathBit = MathBit {
    key: DispatchKey::Negative,
    name: "negative",
    resolve: aten::resolve_neg,
    immutable: None,
};

const CONJUGATE: MathBit = MathBit {
    key: DispatchKey::Conjugate,
    name: "conjugate",
    resolve: aten::resolve_conj,
    immutable: None,
};

/// How an operator treats its annotated arguments.
enum Aliasing {
    /// It has none.
    Plain,
    /// It writes them.
    Writes,
    /// It makes views of them.
    Views,
    /// Some of each.
    Mixed,
}

fn aliasing(schema: &FunctionSchema) -> Aliasing {
    let annotated = schema.args.iter().filter_map(|a| a.alias.as_ref());
    let (mut writes, mut views) = (false, false);
    for a in annotated {
        if a.write {
            writes = true;
        } else {
            views = true;
        }
    }
    match (writes, views) {
        (false, false) => Aliasing::Plain,
        (true, false) => Aliasing::Writes,
        (false, true) => Aliasing::Views,
        (true, true) => Aliasing::Mixed,
    }
}

impl MathBit {
    fn has(&self, t: &Tensor) -> bool {
        t.key_set().has(self.key)
    }

    /// The fallback kernel at the key.
    pub(super) fn fallback(self) -> Kernel {
        Kernel::boxed(move |op, keys, stack| self.run(op, keys, stack))
    }

    fn unsupported(&self, op: OperatorHandle, what: &str) -> Error {
        Error::not_implemented(format!(
            "`{}` {what}, which a tensor with the {} bit does not support: resolve the tensor with \
             `copied()` first",
            op.name(),
            self.name
        ))
    }

    fn run(&self, op: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
        let below = keys & DispatchKeySet::full_after(self.key);
        let Some(schema) = op.schema() else {
            return Err(self.unsupported(op, "has no schema"));
        };
        match aliasing(schema) {
            Aliasing::Views => return op.redispatch_boxed(below, stack),
            Aliasing::Mixed => {
                return Err(self.unsupported(op, "both writes arguments and makes views of them"));
            }
            Aliasing::Plain | Aliasing::Writes => {}
        }
        let base = stack.len().saturating_sub(schema.args.len());
        let given = stack[base..].to_vec();
        let _whole = hold_arguments(schema, &given)?;
        let mut written: Option<(Tensor, Tensor)> = None;
        for (value, arg) in stack[base..].iter_mut().zip(&schema.args) {
            match value {
                Value::Tensor(t) if self.has(t) => {
                    let resolved = if arg.is_write() {
                        if let Some(why) = self.immutable {
                            return Err(Error::runtime(why));
                        }
                        if written.is_some() {
                            return Err(self.unsupported(op, "writes several arguments"));
                        }
                        let copy = (self.resolve)(t)?;
                        written = Some((t.clone(), copy.clone()));
                        copy
                    } else {
                        (self.resolve)(t)?
                    };
                    *t = resolved;
                }
                Value::TensorList(list) if list.iter().any(|t| self.has(t)) => {
                    if arg.is_write() {
                        return Err(self.unsupported(op, "writes a list of tensors"));
                    }
                    for t in list.iter_mut().filter(|t| self.has(t)) {
                        *t = (self.resolve)(t)?;
                    }
                }
                Value::OptionalTensorList(list) => {
                    for t in list.iter_mut().flatten().filter(|t| self.has(t)) {
                        *t = (self.resolve)(t)?;
                    }
                }
                _ => {}
            }
        }
        op.redispatch_boxed(below, stack)?;
        if let Some((original, copy)) = written {
            // the result goes where the caller expects it, through the bit
            original.copy_(&copy)?;
            for value in &mut stack[base..] {
                if matches!(value, Value::Tensor(t) if t.is_same(&copy)) {
                    *value = Value::Tensor(original.clone());
                }
            }
        }
        Ok(())
    }
}

/// Registers the fallbacks.
pub(super) fn register() -> Result<()> {
    for bit in [CONJUGATE, NEGATIVE] {
        let mut library = Library::fallbacks(bit.key)?;
        library.fallback(bit.fallback())?;
        library.leak();
    }
    Ok(())
}

/// The kernels that an operator of this name gets: it falls through where it passes bits on, or
/// understands them.
pub(super) fn kernels_of(name: &str) -> Vec<(DispatchKey, Kernel)> {
    let key = |bit: &rules::MathBit| match bit {
        rules::MathBit::Conjugate => Some(DispatchKey::Conjugate),
        rules::MathBit::Negative => Some(DispatchKey::Negative),
        rules::MathBit::Zero => None,
    };
    let keys = modes_of(name).math_bits.iter().filter_map(key);
    keys.map(|key| (key, Kernel::fallthrough())).collect()
}
