//! What compiled functions take and give: tensors, and containers made of tensors.
//!
//! A [`TensorTree`] has *leaves*. Tensor leaves are what the compiled code reads and writes; static
//! leaves (numbers, flags, strings) are part of the program, like a size or a branch, so a call
//! with another value is a call of another program. Everything that is not a tensor is the
//! *structure*: two values have the same structure when only their tensors can differ.

use crate::tensor::Tensor;
use std::collections::BTreeMap;

/// A value made of tensors.
///
/// Implemented for [`Tensor`], tuples of up to twelve, arrays, `Vec`, `Option`, `Box`,
/// `BTreeMap<String, _>`, and the static leaves `bool`, `i32`, `i64`, `u64`, `usize`, `f32`, `f64`
/// and `String`. `#[derive(TensorTree)]` implements it for structs and enums of these. A `HashMap`
/// has no order of its own and is not a tree; use a `BTreeMap`.
///
/// ```
/// use straightline::{Tensor, TensorTree};
///
/// #[derive(TensorTree)]
/// struct Batch {
///     ids: Tensor,
///     masks: Vec<Tensor>,
///     causal: bool,
/// }
///
/// let row = Tensor::from_slice(&[1f32, 2.0], &[2])?;
/// let batch = Batch { ids: row.clone(), masks: vec![row.clone(), row], causal: true };
/// let mut leaves = 0;
/// batch.visit(&mut |_| leaves += 1);
/// assert_eq!(leaves, 3);
///
/// let other = Batch { ids: batch.ids.clone(), masks: batch.masks.clone(), causal: false };
/// assert_eq!(other.matches(&batch).as_deref(), Some("field `causal`: false, was true"));
/// # Ok::<(), straightline::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `TensorTree`: compiled functions take and give tensors and containers of tensors",
    label = "not made of tensors, numbers, flags and strings that the compiler can see",
    note = "derive it for your own struct or enum: `#[derive(straightline::TensorTree)]`"
)]
pub trait TensorTree: Sized {
    /// Calls `f` with every tensor, always in the same order.
    fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Tensor));

    /// A value of the same structure whose tensors are what `f` makes of this one's, called in the
    /// order of [`visit`](TensorTree::visit). Static leaves are cloned.
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self;

    /// `None` if both have the same structure and equal static leaves; otherwise what differs,
    /// where `other` is the earlier one: `element 1: length 2, was 3`. Tensors are not compared.
    fn matches(&self, other: &Self) -> Option<String>;
}

impl TensorTree for Tensor {
    #[inline]
    fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Tensor)) {
        f(self);
    }

    #[inline]
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        f(self)
    }

    #[inline]
    fn matches(&self, _other: &Self) -> Option<String> {
        None
    }
}

/// A type without tensors, whose values are compared by `$same`.
macro_rules! static_leaf {
    ($($ty:ty: |$a:ident, $b:ident| $same:expr;)+) => {$(
        impl TensorTree for $ty {
            #[inline]
            fn visit<'a>(&'a self, _f: &mut dyn FnMut(&'a Tensor)) {}

            #[inline]
            fn map(&self, _f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
                self.clone()
            }

            #[inline]
            fn matches(&self, other: &Self) -> Option<String> {
                let ($a, $b) = (self, other);
                if $same {
                    None
                } else {
                    Some(format!("{self:?}, was {other:?}"))
                }
            }
        }
    )+};
}

// Floats are compared by their bits: equal NaNs match, and -0 differs from 0.
static_leaf! {
    bool: |a, b| a == b;
    i32: |a, b| a == b;
    i64: |a, b| a == b;
    u64: |a, b| a == b;
    usize: |a, b| a == b;
    f32: |a, b| a.to_bits() == b.to_bits();
    f64: |a, b| a.to_bits() == b.to_bits();
    String: |a, b| a == b;
}

macro_rules! tuple {
    ($($name:ident $index:tt),*) => {
        impl<$($name: TensorTree),*> TensorTree for ($($name,)*) {
            #[allow(unused_variables, reason = "the empty tuple has no elements")]
            #[inline]
            fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Tensor)) {
                $(self.$index.visit(f);)*
            }

            #[allow(unused_variables, clippy::unused_unit, reason = "the empty tuple has no elements")]
            #[inline]
            fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
                ($(TensorTree::map(&self.$index, f),)*)
            }

            #[allow(unused_variables, reason = "the empty tuple has no elements")]
            #[inline]
            fn matches(&self, other: &Self) -> Option<String> {
                $(
                    if let Some(what) = self.$index.matches(&other.$index) {
                        return Some(format!("element {}: {what}", $index));
                    }
                )*
                None
            }
        }
    };
}

tuple!();
tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);

/// The first element in which two sequences of one length differ.
fn elements_match<T: TensorTree>(new: &[T], old: &[T]) -> Option<String> {
    let pairs = new.iter().zip(old).enumerate();
    pairs.filter_map(|(i, (a, b))| Some(format!("element {i}: {}", a.matches(b)?))).next()
}

impl<T: TensorTree, const N: usize> TensorTree for [T; N] {
    #[inline]
    fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Tensor)) {
        for element in self {
            element.visit(f);
        }
    }

    #[inline]
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        std::array::from_fn(|i| TensorTree::map(&self[i], f))
    }

    #[inline]
    fn matches(&self, other: &Self) -> Option<String> {
        elements_match(self, other)
    }
}

impl<T: TensorTree> TensorTree for Vec<T> {
    #[inline]
    fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Tensor)) {
        for element in self {
            element.visit(f);
        }
    }

    #[inline]
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.iter().map(|element| TensorTree::map(element, f)).collect()
    }

    #[inline]
    fn matches(&self, other: &Self) -> Option<String> {
        if self.len() != other.len() {
            return Some(format!("length {}, was {}", self.len(), other.len()));
        }
        elements_match(self, other)
    }
}

impl<T: TensorTree> TensorTree for Option<T> {
    #[inline]
    fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Tensor)) {
        if let Some(value) = self {
            value.visit(f);
        }
    }

    #[inline]
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.as_ref().map(|value| TensorTree::map(value, f))
    }

    #[inline]
    fn matches(&self, other: &Self) -> Option<String> {
        match (self, other) {
            (Some(new), Some(old)) => new.matches(old),
            (None, None) => None,
            (Some(_), None) => Some("Some, was None".to_owned()),
            (None, Some(_)) => Some("None, was Some".to_owned()),
        }
    }
}

impl<T: TensorTree> TensorTree for Box<T> {
    #[inline]
    fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Tensor)) {
        T::visit(self, f);
    }

    #[inline]
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        Box::new(T::map(self, f))
    }

    #[inline]
    fn matches(&self, other: &Self) -> Option<String> {
        T::matches(self, other)
    }
}

impl<T: TensorTree> TensorTree for BTreeMap<String, T> {
    #[inline]
    fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Tensor)) {
        for value in self.values() {
            value.visit(f);
        }
    }

    #[inline]
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.iter().map(|(key, value)| (key.clone(), TensorTree::map(value, f))).collect()
    }

    #[inline]
    fn matches(&self, other: &Self) -> Option<String> {
        if let Some(key) = self.keys().find(|key| !other.contains_key(*key)) {
            return Some(format!("key {key:?} is new"));
        }
        if let Some(key) = other.keys().find(|key| !self.contains_key(*key)) {
            return Some(format!("key {key:?} is missing"));
        }
        // The keys are equal and sorted, so the values pair up.
        let mut pairs = self.iter().zip(other.values());
        pairs.find_map(|((key, new), old)| Some(format!("key {key:?}: {}", new.matches(old)?)))
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
