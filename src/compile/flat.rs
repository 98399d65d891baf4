//! Trees as compiled code sees them: wrapper tensors are replaced by what they wrap.
//!
//! A wrapper's inner tensors, and the dense parts of a sparse, quantized or nested tensor, take its
//! place among the leaves; around them it is structure, like a `Vec` or a flag
//! (`__tensor_flatten__` and `__tensor_unflatten__` of AOTAutograd).

use super::tree::TensorTree;
use crate::dispatch::DispatchKeySet;
use crate::modes::{functionalize, subclass};
use crate::ops::kinds;
use crate::tensor::Tensor;

/// Calls `f` with every tensor that is not a wrapper, and whether there are wrappers.
#[inline]
pub(super) fn visit<'a, T: TensorTree>(tree: &'a T, mut f: impl FnMut(&'a Tensor)) -> bool {
    let mut wrapped = false;
    tree.visit(&mut |t| {
        if is_structure(t) {
            wrapped = true;
            visit_inside(t, &mut f);
        } else {
            f(t);
        }
    });
    wrapped
}

/// The same tree made of other tensors, wrappers around them rebuilt; `f` is called in the order
/// of [`visit`].
#[inline]
pub(super) fn map<T: TensorTree>(tree: &T, mut f: impl FnMut(&Tensor) -> Tensor) -> T {
    tree.map(&mut |t| {
        if is_structure(t) { map_inside(t, &mut f) } else { f(t) }
    })
}

/// Whether a tensor is looked through: wrapper tensors, and those of other kinds that are made of
/// dense parts.
#[inline]
pub(super) fn is_structure(t: &Tensor) -> bool {
    // one look at plain tensors: compiled calls ask this of each argument and each result
    let keys = t.key_set() & (kinds::KINDS | DispatchKeySet::PYTHON);
    !keys.is_empty() && is_looked_through(t)
}

#[cold]
fn is_looked_through(t: &Tensor) -> bool {
    subclass::is_subclass(t) || kinds::has_parts(t)
}

fn visit_inside<'a>(t: &'a Tensor, f: &mut dyn FnMut(&'a Tensor)) {
    subclass::visit(t, &mut |t: &'a Tensor| match kinds::parts(t) {
        Some(parts) => parts.into_iter().for_each(&mut *f),
        None => f(t),
    });
}

fn map_inside(t: &Tensor, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Tensor {
    subclass::map(t, &mut |t: &Tensor| match kinds::parts(t) {
        Some(parts) => kinds::with_parts(t, parts.into_iter().map(&mut *f).collect()),
        None => f(t),
    })
}

fn difference_of(new: &Tensor, old: &Tensor) -> Option<String> {
    subclass::difference(new, old).or_else(|| {
        let (mut now, mut was) = (Vec::new(), Vec::new());
        subclass::visit(new, &mut |t| now.push(t));
        subclass::visit(old, &mut |t| was.push(t));
        let mut pairs = now.into_iter().zip(was);
        pairs.find_map(|(new, old)| kinds::difference(new, old))
    })
}

/// How the structure differs from an earlier one, wrappers included.
pub(super) fn difference<T: TensorTree>(new: &T, old: &T) -> Option<String> {
    if let Some(what) = new.matches(old) {
        return Some(what);
    }
    let (mut now, mut was) = (Vec::new(), Vec::new());
    new.visit(&mut |t| now.push(t));
    old.visit(&mut |t| was.push(t));
    let pairs = now.iter().zip(was).enumerate();
    pairs.filter_map(|(i, (a, b))| Some(format!("tensor {i}: {}", difference_of(a, b)?))).next()
}

/// A wrapper among the results that the function did not make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handed {
    /// This argument, counted without looking through wrappers.
    Argument(usize),
    /// A closed-over wrapper, which the template holds.
    ClosedOver,
}

/// For each tensor of the result, wrappers not looked through, whether it is an old wrapper; empty
/// if there is none.
pub(super) fn handed_through<I: TensorTree, O: TensorTree>(
    stand_ins: &I,
    output: &O,
) -> Vec<Option<Handed>> {
    let (mut given, mut handed) = (Vec::new(), Vec::new());
    stand_ins.visit(&mut |t| given.push(t));
    output.visit(&mut |t| {
        handed.push(if is_structure(t) { old_wrapper(t, &given) } else { None });
    });
    if handed.iter().all(Option::is_none) {
        handed.clear();
    }
    handed
}

fn old_wrapper(t: &Tensor, given: &[&Tensor]) -> Option<Handed> {
    if let Some(i) = given.iter().position(|g| g.is_same(t)) {
        return Some(Handed::Argument(i));
    }
    let mut outside = true;
    visit_inside(t, &mut |inner| {
        let made_here = functionalize::is_wrapper(inner) || inner.made_during_capture().is_some();
        outside &= !made_here;
    });
    outside.then_some(Handed::ClosedOver)
}

/// `template` made of the tensors that were computed.
#[inline]
pub(super) fn fill<O: TensorTree>(template: &O, mut results: impl Iterator<Item = Tensor>) -> O {
    map(template, |stand_in: &Tensor| results.next().unwrap_or_else(|| stand_in.clone()))
}

/// The result of a call: `template` made of the tensors that were computed, with old wrappers
/// handed back unchanged.
#[inline]
pub(super) fn rebuild<I: TensorTree, O: TensorTree>(
    template: &O,
    handed: &[Option<Handed>],
    inputs: &I,
    mut results: impl Iterator<Item = Tensor>,
) -> O {
    if handed.is_empty() {
        return fill(template, results);
    }
    let mut next = |stand_in: &Tensor| results.next().unwrap_or_else(|| stand_in.clone());
    let mut arguments = Vec::new();
    inputs.visit(&mut |t| arguments.push(t));
    let mut at = handed.iter();
    template.map(&mut |t| {
        let old = at.next().copied().flatten();
        let rebuilt = map_inside(t, &mut next);
        match old {
            Some(Handed::Argument(i)) => arguments.get(i).map_or(rebuilt, |t| (*t).clone()),
            Some(Handed::ClosedOver) => t.clone(),
            None => rebuilt,
        }
    })
}
