//! Functionalisation: programs with views and in-place writes become programs without.
//!
//! Each tensor that the captured function sees is a *wrapper*: it has the shape of the tensor that
//! eager execution would have, and holds the functional value that stands for its contents now.
//! Wrappers that alias share an [`Alias`], which holds the value of the base; a view remembers the
//! chain of view operators from the base to itself.
//!
//! - A functional operator runs on the values, and its results are new bases.
//! - A view operator runs on the value, and its result shares the base.
//! - An in-place operator runs its functional form; the new value is pushed through the inverse of
//!   the view chain into the base, and the base's generation goes up. A wrapper whose generation is
//!   behind replays its chain when it is next read.
//!
//! The rules are those of `torch._functionalize` (c10 semantics, section 9); values below are
//! traced tensors, so every step is recorded.

use super::inverse::inverse_view;
use super::tracer;
use crate::dispatch::{
    DispatchKey, DispatchKeySet, ExcludeGuard, Kernel, OperatorHandle, Stack, Value, operator,
};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::tensor::storage::Storage;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use straightline_passes::ir::schema::FunctionSchema;
use straightline_passes::ir::{Dims, layout};

/// A tensor that the function met and that was not made by it.
#[derive(Clone)]
pub(crate) struct Leaf {
    /// The tensor itself.
    pub(crate) real: Tensor,
    /// What stands for it.
    pub(crate) wrapper: Tensor,
    /// An argument; otherwise a parameter.
    pub(crate) input: bool,
    /// Made from data while capturing: writes to it are not seen by later calls.
    pub(crate) made_inside: bool,
}

/// The leaves of the capture on this thread, in the order of their nodes.
#[derive(Default)]
pub(crate) struct Leaves {
    by_id: HashMap<usize, usize>,
    pub(crate) list: Vec<Leaf>,
}

thread_local! {
    static LEAVES: RefCell<Leaves> = RefCell::default();
}

/// Forgets the leaves that the capture has met.
pub(crate) fn take_leaves() -> Leaves {
    LEAVES.take()
}

/// The leaves so far: arguments first, then parameters, each in order.
pub(crate) fn leaves() -> Vec<Leaf> {
    LEAVES.with_borrow(|l| l.list.clone())
}

/// The leaf that a tensor is: the real tensor itself or its wrapper.
pub(crate) fn find_leaf(t: &Tensor) -> Option<Leaf> {
    LEAVES.with_borrow(|l| {
        l.list
            .iter()
            .find(|leaf| leaf.wrapper.is_same(t) || (!leaf.input && leaf.real.is_same(t)))
            .cloned()
    })
}

/// Shared by all wrappers of one memory.
struct Alias {
    base: Mutex<Base>,
}

struct Base {
    value: Tensor,
    generation: u64,
}

/// One view operator of a chain: the operator and its arguments after the tensor.
#[derive(Clone)]
struct ViewStep {
    op: OperatorHandle,
    args: Vec<Value>,
}

/// What a wrapper carries.
struct Wrapper {
    alias: Arc<Alias>,
    chain: Vec<ViewStep>,
    current: Mutex<Base>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wrapper_of(t: &Tensor) -> Option<&Wrapper> {
    t.extra().and_then(|e| e.downcast_ref::<Wrapper>())
}

/// Whether the tensor is a wrapper of the capture on this thread.
pub(crate) fn is_wrapper(t: &Tensor) -> bool {
    wrapper_of(t).is_some()
}

fn build(value: &Tensor, storage: Storage, offset: i64, wrapper: Wrapper) -> Tensor {
    let t = Tensor::build_with(
        storage,
        value.dtype(),
        value.device(),
        Dims::from_slice(value.sizes()),
        Dims::from_slice(value.strides()),
        offset,
        DispatchKeySet::for_device(value.device().kind),
        Some(Arc::new(wrapper)),
    );
    if value.is_wrapped_number() {
        t.into_wrapped_number()
    } else {
        t
    }
}

/// A wrapper that is a base of its own.
pub(crate) fn wrap(value: &Tensor) -> Tensor {
    let extent = layout::storage_extent(value.sizes(), value.strides(), 0);
    let storage = Storage::without_data(extent as usize * value.dtype().size());
    let alias = Arc::new(Alias {
        base: Mutex::new(Base {
            value: value.clone(),
            generation: 0,
        }),
    });
    build(
        value,
        storage,
        0,
        Wrapper {
            alias,
            chain: Vec::new(),
            current: Mutex::new(Base {
                value: value.clone(),
                generation: 0,
            }),
        },
    )
}

/// Wraps a real tensor: an argument, or one that the function closes over.
pub(crate) fn wrap_leaf(real: &Tensor, input: bool) -> Result<Tensor> {
    if real.has_math_bits() {
        return Err(Error::compile(
            "a captured function cannot use a tensor with the negative, conjugate or zero bit: \
             resolve it with `clone()` first",
        ));
    }
    // An argument is a leaf of its own even when the function also closes over that tensor: a
    // later call may bring another one.
    let known = |l: &Leaves| Some(l.list[*l.by_id.get(&real.id())?].wrapper.clone());
    if let (false, Some(found)) = (input, LEAVES.with_borrow(known)) {
        return Ok(found);
    }
    let value = LEAVES.with_borrow(|l| {
        let same_kind = l.list.iter().filter(|leaf| leaf.input == input).count();
        let name = format!("{}{same_kind}", if input { "x" } else { "p" });
        tracer::with_recording(|r| Ok(r.leaf(&name, real, input)))
    })?;
    let wrapper = wrap(&value);
    LEAVES.with_borrow_mut(|l| {
        if !input {
            l.by_id.insert(real.id(), l.list.len());
        }
        l.list.push(Leaf {
            real: real.clone(),
            wrapper: wrapper.clone(),
            input,
            made_inside: real.made_during_capture() == tracer::current(),
        });
    });
    Ok(wrapper)
}

/// The functional value of what the captured function holds.
pub(crate) fn unwrap(t: &Tensor) -> Result<Tensor> {
    let Some(w) = wrapper_of(t) else {
        // not seen before: a tensor that the function closes over
        return unwrap(&wrap_leaf(t, false)?);
    };
    let (base, generation) = {
        let b = lock(&w.alias.base);
        (b.value.clone(), b.generation)
    };
    let mut current = lock(&w.current);
    if current.generation < generation {
        let mut value = base;
        for step in &w.chain {
            value = step.apply(&value)?;
        }
        *current = Base { value, generation };
    }
    Ok(current.value.clone())
}

/// Whether the memory behind a wrapper has been written.
pub(crate) fn is_written(t: &Tensor) -> bool {
    wrapper_of(t).is_some_and(|w| lock(&w.alias.base).generation > 0)
}

impl ViewStep {
    fn apply(&self, value: &Tensor) -> Result<Tensor> {
        let mut stack = vec![Value::Tensor(value.clone())];
        stack.extend(self.args.iter().cloned());
        self.op.call_boxed(&mut stack)?;
        match stack.pop() {
            Some(Value::Tensor(t)) => Ok(t),
            _ => Err(Error::compile(format!(
                "view operator `{}` did not return a tensor",
                self.op.name()
            ))),
        }
    }
}

/// Stores a new value in a wrapper and, through the inverse of its views, in its base.
fn commit(t: &Tensor, new: Tensor) -> Result<()> {
    let w =
        wrapper_of(t).ok_or_else(|| Error::compile("a write to a tensor that is not wrapped"))?;
    let mut values = vec![lock(&w.alias.base).value.clone()];
    for step in &w.chain[..w.chain.len().saturating_sub(1)] {
        let value = step.apply(&values[values.len() - 1])?;
        values.push(value);
    }
    let mut value = new.clone();
    for (step, base) in w.chain.iter().zip(&values).rev() {
        value = inverse_view(&step.op.name().to_string(), &step.args, base, &value)?;
    }
    let generation = {
        let mut b = lock(&w.alias.base);
        b.value = value;
        b.generation += 1;
        b.generation
    };
    *lock(&w.current) = Base {
        value: new,
        generation,
    };
    Ok(())
}

/// The fallback kernel at the `Functionalize` key.
pub(crate) fn kernel() -> Kernel {
    Kernel::boxed(|op, keys, stack| {
        // modes and wrapper tensors handle the call as they would in eager execution, and what
        // they call comes here again
        if super::handle_captured(op, keys, stack)? {
            return Ok(());
        }
        let schema = op.schema().ok_or_else(|| {
            Error::compile(format!(
                "`{}` has no schema, so it cannot be functionalised",
                op.name()
            ))
        })?;
        if is_composite(op) {
            // without tensor arguments no autograd key has taken it apart yet
            op.call_boxed_for_key(DispatchKey::CompositeImplicitAutograd, stack)
        } else if schema.is_mutable() {
            write(op, schema, stack)
        } else if schema.is_view() {
            view(op, schema, stack)
        } else {
            functional(op, schema, stack)
        }
    })
}

/// Whether the operator is defined by calls of other operators only.
fn is_composite(op: OperatorHandle) -> bool {
    op.has_kernel(DispatchKey::CompositeImplicitAutograd)
        && !op.has_kernel(DispatchKey::CPU)
        && !op.has_kernel(DispatchKey::Meta)
}

/// Excludes this key and those above it (but not the tracer) for the calls below.
fn below() -> ExcludeGuard {
    ExcludeGuard::new(DispatchKey::Functionalize)
}

fn unwrap_value(v: &Value) -> Result<Value> {
    Ok(match v {
        Value::Tensor(t) => Value::Tensor(unwrap(t)?),
        Value::TensorList(l) => Value::TensorList(l.iter().map(unwrap).collect::<Result<_>>()?),
        Value::OptionalTensorList(l) => Value::OptionalTensorList(
            l.iter()
                .map(|t| t.as_ref().map(unwrap).transpose())
                .collect::<Result<_>>()?,
        ),
        other => other.clone(),
    })
}

fn wrap_value(v: &Value) -> Value {
    match v {
        Value::Tensor(t) => Value::Tensor(wrap(t)),
        Value::TensorList(l) => Value::TensorList(l.iter().map(wrap).collect()),
        other => other.clone(),
    }
}

fn functional(op: OperatorHandle, schema: &FunctionSchema, stack: &mut Stack) -> Result<()> {
    let args = stack.split_off(stack.len() - schema.args.len());
    let _guard = below();
    let mut inner = args.iter().map(unwrap_value).collect::<Result<Stack>>()?;
    op.call_boxed(&mut inner)?;
    stack.extend(inner.iter().map(wrap_value));
    Ok(())
}

fn view(op: OperatorHandle, schema: &FunctionSchema, stack: &mut Stack) -> Result<()> {
    let args = stack.split_off(stack.len() - schema.args.len());
    let Some(Value::Tensor(of)) = args.first() else {
        return Err(Error::compile(format!(
            "view operator `{}` must take the viewed tensor first",
            op.name()
        )));
    };
    let guard = below();
    let value = unwrap(of)?;
    let source = if is_wrapper(of) {
        of.clone()
    } else {
        wrap_leaf(of, false)?
    };
    let step = ViewStep {
        op,
        args: args[1..].to_vec(),
    };
    let viewed = step.apply(&value)?;
    drop(guard);
    let w = wrapper_of(&source)
        .ok_or_else(|| Error::compile("a view of a tensor that is not wrapped"))?;
    let mut chain = w.chain.clone();
    chain.push(step);
    let generation = lock(&w.alias.base).generation;
    let wrapper = Wrapper {
        alias: w.alias.clone(),
        chain,
        current: Mutex::new(Base {
            value: viewed.clone(),
            generation,
        }),
    };
    // The wrapper looks like the view that eager execution makes: sizes and strides of the value;
    // where it begins in memory is not known to the functional program and not needed.
    let extent = layout::storage_extent(viewed.sizes(), viewed.strides(), 0);
    let storage = Storage::without_data(extent as usize * viewed.dtype().size());
    stack.push(Value::Tensor(build(&viewed, storage, 0, wrapper)));
    Ok(())
}

/// The functional form of an in-place operator, with what its arguments become.
fn functional_form(op: OperatorHandle, args: &[Value]) -> Result<(OperatorHandle, Vec<Value>)> {
    let name = op.name();
    let text = name.to_string();
    let special = match text.as_str() {
        "aten::zero_" => Some(("aten::fill.Scalar", vec![Value::Int(0)])),
        "aten::pow_.Tensor" => Some(("aten::pow.Tensor_Tensor", args[1..].to_vec())),
        "aten::pow_.Scalar" => Some(("aten::pow.Tensor_Scalar", args[1..].to_vec())),
        _ => None,
    };
    let (target, rest) = match special {
        Some((target, rest)) => (target.to_string(), rest),
        None => {
            let base = name.name.strip_suffix('_').ok_or_else(|| {
                Error::not_implemented(format!(
                    "`{text}` writes its arguments and has no functional form that capture knows"
                ))
            })?;
            let target = if name.overload.is_empty() {
                base.to_string()
            } else {
                format!("{base}.{}", name.overload)
            };
            (target, args[1..].to_vec())
        }
    };
    let target = operator(&target).map_err(|_| {
        Error::not_implemented(format!(
            "`{text}` cannot be captured: there is no functional operator `{target}`; define it, or \
             write the function without the in-place call"
        ))
    })?;
    let mut all = vec![args[0].clone()];
    all.extend(rest);
    Ok((target, all))
}

fn write(op: OperatorHandle, schema: &FunctionSchema, stack: &mut Stack) -> Result<()> {
    let args = stack.split_off(stack.len() - schema.args.len());
    let written: Vec<usize> = (0..args.len())
        .filter(|i| schema.args[*i].is_write())
        .collect();
    let (&[0], Some(Value::Tensor(target))) = (&written[..], args.first()) else {
        return Err(Error::not_implemented(format!(
            "`{}` writes arguments other than its first, which capture does not support: use the \
             functional operator",
            op.name()
        )));
    };
    let _guard = below();
    let wrapper = if is_wrapper(target) {
        target.clone()
    } else {
        wrap_leaf(target, false)?
    };
    let inner = args.iter().map(unwrap_value).collect::<Result<Vec<_>>>()?;
    // the in-place operator's own checks: shape, dtype, overlap
    tracer::run_meta(op, &inner)?;
    let (form, mut inner) = functional_form(op, &inner)?;
    form.call_boxed(&mut inner)?;
    let Some(Value::Tensor(new)) = inner.pop() else {
        return Err(Error::compile(format!(
            "`{}` did not return a tensor",
            form.name()
        )));
    };
    commit(&wrapper, in_shape_of(&wrapper, new)?)?;
    stack.push(Value::Tensor(wrapper));
    Ok(())
}

/// The functional result in the dtype and sizes of the written tensor.
fn in_shape_of(target: &Tensor, new: Tensor) -> Result<Tensor> {
    use crate::ops::aten;
    let mut new = new;
    if new.dtype() != target.dtype() {
        new = aten::_to_copy(&new, Some(target.dtype()), None, None, None, false, None)?;
    }
    if new.sizes() != target.sizes() {
        return Err(Error::shape(format!(
            "output with shape {:?} doesn't match the broadcast shape {:?}",
            target.sizes(),
            new.sizes()
        )));
    }
    Ok(new)
}
