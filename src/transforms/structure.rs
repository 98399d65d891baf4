//! What transformed functions take and give: tensors in tuples, lists and maps.

use crate::error::Result;
use crate::tensor::Tensor;
use std::collections::BTreeMap;

/// Tensors in a structure: a tensor, tuples, arrays, vectors, options and maps of such. A function
/// of several arguments takes a tuple; what it is not transformed over it can close over.
///
/// ```
/// use straightline::{Tensor, func::grad, tensor};
/// let f = |(w, x): &(Tensor, Tensor)| w.mul(x)?.sum();
/// let (dw, dx) = grad(f)(&(tensor([2.0])?, tensor([3.0])?))?;
/// assert_eq!((dw.to_vec::<f32>()?, dx.to_vec::<f32>()?), (vec![3.0], vec![2.0]));
/// # Ok::<(), straightline::Error>(())
/// ```
pub trait Structure: Sized {
    /// Passes on each tensor, always in the same order.
    fn visit<'t>(&'t self, each: &mut dyn FnMut(&'t Tensor));

    /// The same structure of other tensors, in the order of [`Structure::visit`].
    ///
    /// # Errors
    ///
    /// The first error of `f`.
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self>;
}

/// The tensors of a structure.
pub(super) fn leaves<S: Structure>(s: &S) -> Vec<Tensor> {
    let mut all = Vec::new();
    s.visit(&mut |t| all.push(t.clone()));
    all
}

/// The structure with other tensors, as many as it has.
pub(super) fn rebuilt<S: Structure>(s: &S, tensors: Vec<Tensor>) -> Result<S> {
    let mut tensors = tensors.into_iter();
    // one for each; the tensor itself could only stay if there were fewer
    s.map(&mut |t| Ok(tensors.next().unwrap_or_else(|| t.clone())))
}

impl Structure for Tensor {
    fn visit<'t>(&'t self, each: &mut dyn FnMut(&'t Tensor)) {
        each(self);
    }

    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
        f(self)
    }
}

impl<S: Structure> Structure for Vec<S> {
    fn visit<'t>(&'t self, each: &mut dyn FnMut(&'t Tensor)) {
        self.iter().for_each(|s| s.visit(each));
    }

    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
        self.iter().map(|s| s.map(f)).collect()
    }
}

impl<S: Structure, const N: usize> Structure for [S; N] {
    fn visit<'t>(&'t self, each: &mut dyn FnMut(&'t Tensor)) {
        self.iter().for_each(|s| s.visit(each));
    }

    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
        let all: Vec<S> = self.iter().map(|s| s.map(f)).collect::<Result<_>>()?;
        all.try_into().map_err(|_| crate::Error::runtime("an array changed its length"))
    }
}

impl<S: Structure> Structure for Option<S> {
    fn visit<'t>(&'t self, each: &mut dyn FnMut(&'t Tensor)) {
        self.iter().for_each(|s| s.visit(each));
    }

    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
        self.as_ref().map(|s| s.map(f)).transpose()
    }
}

impl<K: Ord + Clone, S: Structure> Structure for BTreeMap<K, S> {
    fn visit<'t>(&'t self, each: &mut dyn FnMut(&'t Tensor)) {
        self.values().for_each(|s| s.visit(each));
    }

    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
        self.iter().map(|(k, s)| Ok((k.clone(), s.map(f)?))).collect()
    }
}

macro_rules! tuples {
    ($($($t:ident)*;)*) => {$(
        impl<$($t: Structure),*> Structure for ($($t,)*) {
            #[allow(non_snake_case, unused_variables, reason = "one form for all lengths")]
            fn visit<'t>(&'t self, each: &mut dyn FnMut(&'t Tensor)) {
                let ($($t,)*) = self;
                $($t.visit(each);)*
            }

            #[allow(non_snake_case, unused_variables, clippy::unused_unit, reason = "one form for all lengths")]
            fn map(&self, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
                let ($($t,)*) = self;
                Ok(($($t.map(f)?,)*))
            }
        }
    )*};
}

tuples! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}
