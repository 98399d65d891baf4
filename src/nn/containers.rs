//! Modules that are made of modules: lists, maps, layers one after another; and settings, which
//! are modules without parts.

use super::module::{Layer, Module, Visitor, VisitorMut};
use super::parameter::Parameter;
use crate::error::Result;
use crate::tensor::Tensor;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use straightline_catalog::{DType, Device, Dims, Scalar};

/// PyTorch's name for a `Vec` of modules, whose parts are called `0`, `1`, ...
pub type ModuleList<M> = Vec<M>;

/// PyTorch's name for a map of modules, whose parts are called by their keys.
pub type ModuleDict<M> = BTreeMap<String, M>;

/// PyTorch's name for a `Vec` of parameters, which are called `0`, `1`, ...
///
/// ```
/// use straightline::nn::{Module, Parameter, ParameterList};
/// use straightline::Tensor;
/// let weights: ParameterList = vec![Parameter::new(&Tensor::ones([2])?)?];
/// assert_eq!(weights.named_parameters()[0].0, "0");
/// # Ok::<(), straightline::Error>(())
/// ```
pub type ParameterList = Vec<Parameter>;

/// PyTorch's name for a map of parameters, which are called by their keys.
pub type ParameterDict = BTreeMap<String, Parameter>;

macro_rules! settings {
    ($($ty:ty),+) => {$(
        impl Module for $ty {
            fn visit<'a>(&'a self, _visitor: &mut Visitor<'a, '_>) {}

            fn visit_mut(&mut self, _visitor: &mut VisitorMut<'_>) {}
        }
    )+};
}
settings!((), bool, i32, i64, u32, u64, usize, f32, f64, String, Scalar, DType, Device, Dims);

impl<T: ?Sized> Module for PhantomData<T> {
    fn visit<'a>(&'a self, _visitor: &mut Visitor<'a, '_>) {}

    fn visit_mut(&mut self, _visitor: &mut VisitorMut<'_>) {}
}

macro_rules! numbered {
    ($($(const $n:ident)? $ty:ty),+) => {$(
        impl<M: Module $(, const $n: usize)?> Module for $ty {
            fn visit<'a>(&'a self, visitor: &mut Visitor<'a, '_>) {
                for (i, part) in self.iter().enumerate() {
                    visitor.child(&i.to_string(), part);
                }
            }

            fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
                for part in self {
                    visitor.child(part);
                }
            }
        }
    )+};
}
numbered!(Vec<M>, const N [M; N]);

impl<M: Module> Module for BTreeMap<String, M> {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a, '_>) {
        for (name, part) in self {
            visitor.child(name, part);
        }
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        for part in self.values_mut() {
            visitor.child(part);
        }
    }
}

impl<M: Module> Module for Option<M> {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a, '_>) {
        if let Some(part) = self {
            visitor.child("", part);
        }
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        if let Some(part) = self {
            visitor.child(part);
        }
    }
}

impl<M: Module + ?Sized> Module for Box<M> {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a, '_>) {
        visitor.child("", &**self);
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        visitor.child(&mut **self);
    }
}

macro_rules! tuple {
    ($($name:ident $index:tt),+) => {
        impl<$($name: Module),+> Module for ($($name,)+) {
            fn visit<'a>(&'a self, visitor: &mut Visitor<'a, '_>) {
                $(visitor.child(stringify!($index), &self.$index);)+
            }

            fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
                $(visitor.child(&mut self.$index);)+
            }
        }
    };
}
tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);

/// Layers one after another, called `0`, `1`, ... or by names of one's own.
///
/// ```
/// use straightline::nn::{Layer, Linear, Module, Relu, Sequential};
/// use straightline::Tensor;
/// let net = Sequential::new().add(Linear::new(4, 8)?).add(Relu).add_named("head", Linear::new(8, 2)?);
/// assert_eq!(net.forward(&Tensor::ones([5, 4])?)?.sizes(), [5, 2]);
/// let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["0.weight", "0.bias", "head.weight", "head.bias"]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Default)]
pub struct Sequential {
    layers: Vec<(String, Box<dyn Stored>)>,
}

/// A layer of a `Sequential`, which can be cloned without its type being known.
trait Stored: Layer + Send + Sync {
    fn cloned(&self) -> Box<dyn Stored>;
}

impl<L: Layer + Clone + Send + Sync + 'static> Stored for L {
    fn cloned(&self) -> Box<dyn Stored> {
        Box::new(self.clone())
    }
}

impl Sequential {
    /// No layers, which is the identity.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// With one more layer, called by its number.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "layers are added, not numbers")]
    pub fn add(self, layer: impl Layer + Clone + Send + Sync + 'static) -> Sequential {
        let name = self.layers.len().to_string();
        self.add_named(name, layer)
    }

    /// With one more layer, called by this name.
    #[must_use]
    pub fn add_named(
        mut self,
        name: impl Into<String>,
        layer: impl Layer + Clone + Send + Sync + 'static,
    ) -> Sequential {
        self.layers.push((name.into(), Box::new(layer)));
        self
    }

    /// How many layers there are.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }
}

impl Clone for Sequential {
    fn clone(&self) -> Self {
        let layers = self.layers.iter();
        Sequential { layers: layers.map(|(name, l)| (name.clone(), (**l).cloned())).collect() }
    }
}

impl std::fmt::Debug for Sequential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.layers.iter().map(|(name, _)| name);
        f.debug_tuple("Sequential").field(&names.collect::<Vec<_>>()).finish()
    }
}

impl Module for Sequential {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a, '_>) {
        for (name, layer) in &self.layers {
            visitor.child(name, &**layer);
        }
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        for (_, layer) in &mut self.layers {
            visitor.child(&mut **layer);
        }
    }
}

impl Layer for Sequential {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.layers.iter().try_fold(x.clone(), |x, (_, layer)| layer.forward(&x))
    }
}

/// A function as a layer without parameters.
///
/// ```
/// use straightline::nn::{Lambda, Layer, Sequential};
/// use straightline::Tensor;
/// let net = Sequential::new().add(Lambda(|x: &Tensor| x.mul(2.0)));
/// assert_eq!(net.forward(&Tensor::ones([1])?)?.to_vec::<f32>()?, [2.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lambda<F>(pub F);

impl<F: Fn(&Tensor) -> Result<Tensor>> Module for Lambda<F> {
    fn visit<'a>(&'a self, _visitor: &mut Visitor<'a, '_>) {}

    fn visit_mut(&mut self, _visitor: &mut VisitorMut<'_>) {}
}

impl<F: Fn(&Tensor) -> Result<Tensor>> Layer for Lambda<F> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (self.0)(x)
    }
}
