//! Wrapper tensors that carry their own handler (`__torch_dispatch__` of a subclass).
//!
//! A wrapper has a shape, a dtype, a device and the `Python` key, and no memory. Any operator that
//! meets one calls its handler, which works on the tensors inside. `compile()` looks through a
//! wrapper: its inner tensors are what the graph takes and gives.

use super::call::{Call, Outcome};
use super::{rules, short_type_name};
use crate::dispatch::{DispatchKey, DispatchKeySet, Value};
use crate::error::Result;
use crate::tensor::Tensor;
use std::any::{Any, TypeId};
use std::sync::Arc;
use straightline_catalog::{DType, Device};

/// What a wrapper tensor holds, and what operators do when they meet one. [`wrap`] makes the
/// tensor.
///
/// After all modes, each type of wrapper among a call's arguments is asked once, in the order of
/// the arguments; the keys above `Python` are excluded while its handler runs.
///
/// ```
/// use straightline::modes::{Call, Outcome, TensorSubclass, subclass};
/// use straightline::{Result, Tensor, compile};
///
/// /// Stands for `data * scale` without computing it.
/// struct Scaled {
///     data: Tensor,
///     scale: f64,
/// }
///
/// impl TensorSubclass for Scaled {
///     fn dispatch(&self, mut call: Call<'_>) -> Result<Outcome> {
///         if call.is("aten::neg") {
///             let scale = -self.scale;
///             return Ok(scaled(self.data.clone(), scale)?.into());
///         }
///         // everything else works on the real values
///         let mut failed = Ok(());
///         call.map_tensors(|t| match subclass::of::<Scaled>(t) {
///             Some(s) => s.data.mul(s.scale).unwrap_or_else(|e| {
///                 failed = Err(e);
///                 t.clone()
///             }),
///             None => t.clone(),
///         });
///         failed?;
///         Ok(call.forward()?.into())
///     }
///
///     fn inner(&self) -> Vec<&Tensor> {
///         vec![&self.data]
///     }
///
///     fn with_inner(&self, inner: Vec<Tensor>) -> Self {
///         Scaled { data: inner[0].clone(), scale: self.scale }
///     }
///
///     fn same_context(&self, other: &Self) -> bool {
///         self.scale == other.scale
///     }
/// }
///
/// fn scaled(data: Tensor, scale: f64) -> Result<Tensor> {
///     subclass::wrap_like(Scaled { data: data.clone(), scale }, &data)
/// }
///
/// let x = scaled(Tensor::from_vec([1f32, 2.0], 2)?, 10.0)?;
/// let y = x.neg()?; // still scaled
/// assert_eq!(subclass::of::<Scaled>(&y).map(|s| s.scale), Some(-10.0));
/// assert_eq!((&y + &y).to_vec::<f32>()?, [-20.0, -40.0]);
///
/// // compiled, the graph takes the inner tensor
/// let f = compile(|x: &Tensor| x.neg()?.add(x));
/// assert_eq!(f.call(&x)?.to_vec::<f32>()?, [0.0, 0.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub trait TensorSubclass: Any + Send + Sync {
    /// Handles a call. `self` is what the first tensor of this type among the arguments holds.
    /// [`Outcome::NotImplemented`] leaves the call to the next type of wrapper.
    fn dispatch(&self, call: Call<'_>) -> Result<Outcome>;

    /// The tensors inside, always as many and in the same order (`__tensor_flatten__`).
    fn inner(&self) -> Vec<&Tensor>;

    /// The same wrapper around other tensors (`__tensor_unflatten__`), in the order of
    /// [`inner`](TensorSubclass::inner).
    fn with_inner(&self, inner: Vec<Tensor>) -> Self
    where
        Self: Sized;

    /// Whether two wrappers differ in their inner tensors only. What else they hold is part of the
    /// program: a compiled function makes another variant for another context.
    fn same_context(&self, other: &Self) -> bool
    where
        Self: Sized;

    /// The name in messages.
    fn name(&self) -> String {
        short_type_name::<Self>()
    }
}

/// A wrapper of any type.
pub(super) trait AnySubclass: Send + Sync {
    fn run(&self, call: Call<'_>) -> Result<Outcome>;
    fn inner_tensors(&self) -> Vec<&Tensor>;
    fn rebuilt(&self, inner: Vec<Tensor>) -> Arc<dyn AnySubclass>;
    fn same(&self, other: &dyn AnySubclass) -> bool;
    fn describe(&self) -> String;
    fn as_any(&self) -> &dyn Any;
}

impl<S: TensorSubclass> AnySubclass for S {
    fn run(&self, call: Call<'_>) -> Result<Outcome> {
        match rules::find::<S>(call.op()) {
            Some(rule) => rule(self, call),
            None => self.dispatch(call),
        }
    }

    fn inner_tensors(&self) -> Vec<&Tensor> {
        self.inner()
    }

    fn rebuilt(&self, inner: Vec<Tensor>) -> Arc<dyn AnySubclass> {
        Arc::new(self.with_inner(inner))
    }

    fn same(&self, other: &dyn AnySubclass) -> bool {
        let other = other.as_any().downcast_ref::<S>();
        other.is_some_and(|o| self.same_context(o))
    }

    fn describe(&self) -> String {
        self.name()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The payload of a wrapper tensor.
struct Payload(Arc<dyn AnySubclass>);

fn payload(t: &Tensor) -> Option<&Payload> {
    t.payload::<Payload>()
}

/// A wrapper tensor of these sizes, dtype and device, with row-major strides and the keys of a
/// dense tensor of the device, `Python` and `PythonTLSSnapshot`.
///
/// # Errors
///
/// A negative size, or more elements than can be counted.
pub fn wrap<S: TensorSubclass>(
    subclass: S,
    sizes: &[i64],
    dtype: DType,
    device: Device,
) -> Result<Tensor> {
    Tensor::opaque(Payload(Arc::new(subclass)), sizes, dtype, device)
        .keys(DispatchKeySet::for_device(device.kind) | DispatchKeySet::PYTHON)
        .build()
}

/// [`wrap`] with the sizes, strides, dtype and device of another tensor.
///
/// # Errors
///
/// The other tensor has overlapping or negative strides that a wrapper cannot have.
pub fn wrap_like<S: TensorSubclass>(subclass: S, like: &Tensor) -> Result<Tensor> {
    Tensor::opaque(Payload(Arc::new(subclass)), like.sizes(), like.dtype(), like.device())
        .strides(like.strides())
        .keys(DispatchKeySet::for_device(like.device().kind) | DispatchKeySet::PYTHON)
        .build()
}

/// What a wrapper tensor holds, if it is an `S`.
pub fn of<S: TensorSubclass>(t: &Tensor) -> Option<&S> {
    payload(t)?.0.as_any().downcast_ref()
}

/// The name of a wrapper tensor's type, for messages.
pub(crate) fn name_of(t: &Tensor) -> Option<String> {
    payload(t).map(|p| p.0.describe())
}

/// Whether a tensor is a wrapper of any type.
pub fn is_subclass(t: &Tensor) -> bool {
    t.key_set().has(DispatchKey::Python) && payload(t).is_some()
}

/// The handlers among a call's arguments: one of each type, in order.
pub(super) fn handlers(args: &[Value]) -> Vec<Arc<dyn AnySubclass>> {
    let mut types: Vec<TypeId> = Vec::new();
    let mut found = Vec::new();
    for p in args.iter().flat_map(Value::tensors).filter_map(payload) {
        let ty = p.0.as_any().type_id();
        if !types.contains(&ty) {
            types.push(ty);
            found.push(p.0.clone());
        }
    }
    found
}

/// Calls `f` with the tensors that a tensor is made of in the end: itself, or those inside.
pub(crate) fn visit<'a>(t: &'a Tensor, f: &mut dyn FnMut(&'a Tensor)) {
    match payload(t) {
        Some(p) => {
            for inner in p.0.inner_tensors() {
                visit(inner, f);
            }
        }
        None => f(t),
    }
}

/// The same tensor made of other tensors, `f` called in the order of [`visit`].
pub(crate) fn map(t: &Tensor, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Tensor {
    let Some(p) = payload(t) else {
        return f(t);
    };
    let inner = p.0.inner_tensors().into_iter().map(|t| map(t, f)).collect();
    Tensor::opaque(Payload(p.0.rebuilt(inner)), t.sizes(), t.dtype(), t.device())
        .strides(t.strides())
        .keys(t.key_set())
        .build()
        .expect("the shape is that of a tensor")
}

/// In what, inner tensors apart, a tensor differs from an earlier one.
pub(crate) fn difference(new: &Tensor, old: &Tensor) -> Option<String> {
    let kind = |p: Option<&Payload>| match p {
        Some(p) => format!("a `{}`", p.0.describe()),
        None => "a plain tensor".into(),
    };
    let (now, was) = (payload(new), payload(old));
    let (Some(a), Some(b)) = (now, was) else {
        let differ = now.is_some() != was.is_some();
        return differ.then(|| format!("{}, was {}", kind(now), kind(was)));
    };
    if !a.0.same(&*b.0) {
        return Some(if a.0.as_any().type_id() == b.0.as_any().type_id() {
            format!("{} with another context", kind(now))
        } else {
            format!("{}, was {}", kind(now), kind(was))
        });
    }
    if (new.sizes(), new.strides(), new.dtype(), new.device())
        != (old.sizes(), old.strides(), old.dtype(), old.device())
    {
        return Some(format!("{} of another shape", kind(now)));
    }
    let (a, b) = (a.0.inner_tensors(), b.0.inner_tensors());
    if a.len() != b.len() {
        return Some(format!("{} tensors inside, was {}", a.len(), b.len()));
    }
    a.iter().zip(&b).find_map(|(a, b)| difference(a, b))
}
