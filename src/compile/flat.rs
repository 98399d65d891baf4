//! Trees as compiled code sees them: wrapper tensors are looked through.
//!
//! A wrapper's inner tensors take its place among the leaves; around them it is structure, like a
//! `Vec` or a flag (`__tensor_flatten__` and `__tensor_unflatten__` of AOTAutograd).

use super::tree::TensorTree;
use crate::modes::subclass;
use crate::tensor::Tensor;

/// Calls `f` with every tensor that is not a wrapper, and whether there are wrappers.
#[inline]
pub(super) fn visit<'a, T: TensorTree>(tree: &'a T, f: &mut dyn FnMut(&'a Tensor)) -> bool {
    let mut wrapped = false;
    tree.visit(&mut |t| {
        if subclass::is_subclass(t) {
            wrapped = true;
            subclass::visit(t, f);
        } else {
            f(t);
        }
    });
    wrapped
}

/// The same tree made of other tensors, wrappers around them rebuilt; `f` is called in the order
/// of [`visit`].
pub(super) fn map<T: TensorTree>(tree: &T, f: &mut dyn FnMut(&Tensor) -> Tensor) -> T {
    tree.map(&mut |t| {
        if subclass::is_subclass(t) {
            subclass::map(t, f)
        } else {
            f(t)
        }
    })
}

/// In what the structure differs from an earlier one, wrappers included.
pub(super) fn difference<T: TensorTree>(new: &T, old: &T) -> Option<String> {
    if let Some(what) = new.matches(old) {
        return Some(what);
    }
    let (mut now, mut was) = (Vec::new(), Vec::new());
    new.visit(&mut |t| now.push(t));
    old.visit(&mut |t| was.push(t));
    let pairs = now.iter().zip(was).enumerate();
    pairs
        .filter_map(|(i, (a, b))| Some(format!("tensor {i}: {}", subclass::difference(a, b)?)))
        .next()
}
