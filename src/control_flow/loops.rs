//! `while_loop`, `scan` and `map`.

use super::call::{self, Outcome, Scan};
use super::cond::check_predicate;
use super::error::ControlFlowError;
use super::function::{
    Named, called, captured, filled, is_captured, located, same_structure, tensors,
};
use super::gradient::has_gradient;
use crate::autograd::captured::leaf;
use crate::compile::{Arguments, TensorTree};
use crate::error::{Error, Result};
use crate::modes::{FakeTensorMode, functionalize};
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::watcher::Line;
use std::panic::Location;
use straightline_catalog::TensorMeta;
use straightline_passes::ir::control;

const WHILE: &str = "while_loop";
const SCAN: &str = "scan";
const MAP: &str = "map";

/// Calls `body_fn` on what it returned the time before, beginning with `carried`, as long as `cond_fn`
/// returns true (PyTorch's `while_loop`).
///
/// `body_fn` returns what it takes: the same structure, with tensors of the same dtypes and sizes, each a
/// tensor of its own. `cond_fn` returns one truth value. Both may close over tensors, and write neither
/// those nor what they are given.
///
/// Eagerly autograd records the turns. In a compiled function the loop stays one call, and has no gradient,
/// as in PyTorch: a function in which one is wanted runs eagerly and says so in its events.
///
/// ```
/// use straightline::control_flow::while_loop;
/// use straightline::{Tensor, compile, tensor};
/// let power = compile(|(n, x): (&Tensor, &Tensor)| {
///     let start = (n.clone(), x.mul(0)?.add(1)?);
///     let turn = |(n, y): &(Tensor, Tensor)| Ok((n.sub(1)?, y.mul(x)?));
///     Ok(while_loop(|(n, _)| n.gt(0), turn, &start)?.1)
/// });
/// assert_eq!(power.call((&tensor(3)?, &tensor([2, 10])?))?.to_vec::<i64>()?, [8, 1000]);
/// assert_eq!(power.call((&tensor(0)?, &tensor([2, 10])?))?.to_vec::<i64>()?, [1, 1]);
/// assert_eq!(power.variants(), 1);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// Those of the functions; [`ControlFlowError`] for a condition that is no truth value and for a body that
/// does not return what it takes; within [`vmap`](crate::func::vmap), a condition that differs among samples.
#[track_caller]
pub fn while_loop<C: TensorTree>(
    cond_fn: impl Fn(&C) -> Result<Tensor>,
    body_fn: impl Fn(&C) -> Result<C>,
    carried: impl Arguments<C>,
) -> Result<C> {
    let at = Location::caller();
    let cond_named = Named { op: WHILE, function: "cond_fn" };
    let named = Named { op: WHILE, function: "body_fn" };
    let next = |now: &C| -> Result<C> {
        let made = called(at, named, &tensors(now), || body_fn(now))?;
        same_structure(named, "its argument", &made, now)?;
        Ok(made)
    };
    carried.with(|carried| {
        let all = tensors(carried);
        if located(at, is_captured(WHILE, &all))? {
            let metas: Vec<TensorMeta> = all.iter().map(|t| Outcome::of(t).meta).collect();
            let handed = || -> Result<C> {
                let inside = metas.iter().map(functionalize::handed);
                Ok(filled(carried, &inside.collect::<Result<Vec<_>>>()?))
            };
            let (cond, ()) = functionalize::subgraph(true, || {
                let now = handed()?;
                let (results, pred) = captured(at, cond_named, || cond_fn(&now))?;
                check_predicate(WHILE, &pred)?;
                Ok((results, ()))
            })?;
            let (body, ()) = functionalize::subgraph(true, || {
                let now = handed()?;
                let (results, made) = captured(at, named, || body_fn(&now))?;
                same_structure(named, "its argument", &made, &now)?;
                Ok((results, ()))
            })?;
            let results = call::while_loop([cond, body], &all, &metas, at);
            return Ok(filled(carried, &located(at, results)?));
        }
        let goes_on = |now: &C| -> Result<bool> {
            let pred = called(at, cond_named, &tensors(now), || cond_fn(now))?;
            located(at, check_predicate(WHILE, &pred))?;
            if crate::transforms::is_batched(&pred) {
                let why = "its condition differs among the samples, which have to stop together: compute `where` of the \
                           condition in the body, and stop when no sample goes on";
                let e = ControlFlowError::Batched { op: WHILE, why };
                return Err(Error::from(e).with_location(at));
            }
            located(at, pred.item::<bool>())
        };
        if !goes_on(carried)? {
            let copies = all.iter().map(|t| aten::clone(t, None));
            return Ok(filled(carried, &copies.collect::<Result<Vec<_>>>()?));
        }
        let mut now = located(at, next(carried))?;
        while goes_on(&now)? {
            now = located(at, next(&now))?;
        }
        Ok(now)
    })
}

/// Calls `combine_fn` on what is carried, beginning with `init`, and on one slice of `xs` along `dim` after
/// the other; gives what is carried at last, and the further results of all calls, stacked along `dim`
/// (PyTorch's `scan`). With `reverse` the last slice comes first; results stay beside their slices.
///
/// `combine_fn` returns what is carried next, which has the structure of `init` with tensors of the same
/// dtypes and sizes, and further results; each is a tensor of its own. It may close over tensors, and
/// writes neither those nor what it is given.
///
/// In a compiled function the scan stays one call, which runs the code of `combine_fn` for each slice, and
/// its gradient is a scan the other way round.
///
/// ```
/// use straightline::control_flow::scan;
/// use straightline::{Tensor, compile, tensor};
/// let running = compile(|x: &Tensor| {
///     let add = |sum: &Tensor, x: &Tensor| {
///         let sum = sum.add(x)?;
///         Ok((sum.clone(), sum.copied()?))
///     };
///     scan(add, &tensor(0.0)?, x, 0, false)
/// });
/// let (total, sums) = running.call(&tensor([1.0, 2.0, 3.0])?)?;
/// assert_eq!(total.item::<f32>()?, 6.0);
/// assert_eq!(sums.to_vec::<f32>()?, [1.0, 3.0, 6.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// Those of the function; [`ControlFlowError`] if `init` or `xs` has no tensors, if slices do not go
/// together, or if the function does not return what it should.
#[track_caller]
pub fn scan<C: TensorTree, X: TensorTree, Y: TensorTree>(
    combine_fn: impl Fn(&C, &X) -> Result<(C, Y)>,
    init: impl Arguments<C>,
    xs: impl Arguments<X>,
    dim: i64,
    reverse: bool,
) -> Result<(C, Y)> {
    let at = Location::caller();
    let named = Named { op: SCAN, function: "combine_fn" };
    init.with(|init| {
        xs.with(|xs| {
            if tensors(init).is_empty() {
                let what = "scan() operator requires init leaves.".into();
                let e = ControlFlowError::Slices { op: SCAN, what };
                return Err(Error::from(e).with_location(at));
            }
            scanned(named, at, combine_fn, init, xs, (dim, reverse))
        })
    })
}

/// Calls `f` on each slice of `xs` along the first dimension, and stacks the results (PyTorch's `map`).
/// `extra` is given to each call as it is.
///
/// It is a [`scan`] that carries nothing.
///
/// ```
/// use straightline::control_flow::map;
/// use straightline::{Tensor, compile, tensor};
/// let rows = compile(|(x, w): (&Tensor, &Tensor)| map(|row, w| row.mul(w)?.sum(), x, w));
/// let (x, w) = (tensor([[1.0, 2.0], [3.0, 4.0]])?, tensor([1.0, 10.0])?);
/// assert_eq!(rows.call((&x, &w))?.to_vec::<f32>()?, [21.0, 43.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// As [`scan`]; there are no slices.
#[track_caller]
pub fn map<X: TensorTree, E: TensorTree, Y: TensorTree>(
    f: impl Fn(&X, &E) -> Result<Y>,
    xs: impl Arguments<X>,
    extra: impl Arguments<E>,
) -> Result<Y> {
    let at = Location::caller();
    let named = Named { op: MAP, function: "f" };
    xs.with(|xs| {
        extra.with(|extra| {
            let none = tensors(xs).iter().any(|x| x.sizes().first() == Some(&0));
            if none {
                let what = "Leading dimensions of mapped xs cannot be 0.".into();
                let e = ControlFlowError::Slices { op: MAP, what };
                return Err(Error::from(e).with_location(at));
            }
            let each = |(): &(), x: &X| Ok(((), f(x, extra)?));
            Ok(scanned(named, at, each, &(), xs, (0, false))?.1)
        })
    })
}

/// The dimension to scan, and how many slices it has.
fn slices(op: &'static str, xs: &[Tensor], dim: i64) -> Result<(usize, i64)> {
    let refused = |what: String| Error::from(ControlFlowError::Slices { op, what });
    let first = xs.first().ok_or_else(|| refused("there are no tensors to scan".into()))?;
    let rank = first.dim() as i64;
    let at = if dim < 0 { dim + rank } else { dim };
    ensure_index!(
        (0..rank).contains(&at),
        "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
        -rank.max(1),
        rank.max(1) - 1
    );
    if xs.iter().any(|x| (x.dim() as i64) <= at) {
        return Err(refused("All xs leaves must have at least 'dim + 1' dimensions".into()));
    }
    let at = at as usize;
    let count = first.sizes()[at];
    if xs.iter().any(|x| x.sizes()[at] != count) {
        return Err(refused("All xs leaves must have the same scan dimension size".into()));
    }
    Ok((at, count))
}

fn scanned<C: TensorTree, X: TensorTree, Y: TensorTree>(
    named: Named,
    at: Line,
    combine_fn: impl Fn(&C, &X) -> Result<(C, Y)>,
    init: &C,
    xs: &X,
    (dim, reverse): (i64, bool),
) -> Result<(C, Y)> {
    let (carried, all) = (tensors(init), tensors(xs));
    let (dim, count) = located(at, slices(named.op, &all, dim))?;
    let operands: Vec<Tensor> = carried.iter().chain(&all).cloned().collect();
    let checked =
        |now: &C, made: &(C, Y)| same_structure(named, "what it is given to carry", &made.0, now);
    // stacked slices, with the dimension where that of the operands was
    let placed = |t: &Tensor| match dim == 0 || dim >= t.dim() {
        true => Ok(t.clone()),
        false => aten::movedim_int(t, 0, dim as i64),
    };
    if located(at, is_captured(named.op, &operands))? {
        let front = |x: &Tensor| match dim {
            0 => Ok(x.clone()),
            _ => aten::movedim_int(x, dim as i64, 0),
        };
        let front = all.iter().map(front).collect::<Result<Vec<_>>>()?;
        let (body, (made, outcomes)) = functionalize::subgraph(true, || {
            // what is carried may come to want a gradient in any turn
            let now = carried.iter().map(|t| {
                let inside = functionalize::handed(&Outcome::of(t).meta)?;
                Ok(leaf(&inside, has_gradient(&t.meta())))
            });
            let now = filled(init, &now.collect::<Result<Vec<_>>>()?);
            let slices = front.iter().map(|x| {
                let meta = control::slice(&x.meta());
                let meta = meta.ok_or_else(|| Error::compile("a slice of a number"))?;
                Ok(leaf(&functionalize::handed(&meta)?, x.requires_grad()))
            });
            let slices = filled(xs, &slices.collect::<Result<Vec<_>>>()?);
            let (results, made) = captured(at, named, || combine_fn(&now, &slices))?;
            checked(&now, &made)?;
            let outcomes: Vec<Outcome> = results.iter().map(Outcome::of).collect();
            Ok((results, (made, outcomes)))
        })?;
        let ends = carried.len();
        let call = Scan { body, carried, xs: front, count, outcomes, reverse, at };
        let results = located(at, call::scan(call))?;
        let ys = results[ends..].iter().map(placed).collect::<Result<Vec<_>>>()?;
        return Ok((filled(init, &results[..ends]), filled(&made.1, &ys)));
    }
    if count == 0 {
        return empty(named, at, &combine_fn, init, xs, dim);
    }
    let mut now: Option<C> = None;
    let mut made: Vec<Y> = Vec::new();
    for step in 0..count {
        let i = if reverse { count - 1 - step } else { step };
        let slices = all.iter().map(|x| aten::select_int(x, dim as i64, i));
        let slices = filled(xs, &slices.collect::<Result<Vec<_>>>()?);
        let carried = now.as_ref().unwrap_or(init);
        let given: Vec<Tensor> = tensors(carried).into_iter().chain(tensors(&slices)).collect();
        let both = called(at, named, &given, || combine_fn(carried, &slices))?;
        located(at, checked(carried, &both))?;
        if let Some(first) = made.first() {
            located(at, same_structure(named, "an earlier call", &both.1, first))?;
        }
        now = Some(both.0);
        made.push(both.1);
    }
    if reverse {
        made.reverse();
    }
    let each: Vec<Vec<Tensor>> = made.iter().map(tensors).collect();
    let stacked = (0..each[0].len()).map(|k| {
        let of: Vec<Tensor> = each.iter().map(|ys| ys[k].clone()).collect();
        placed(&aten::stack(&of, 0)?)
    });
    let stacked = stacked.collect::<Result<Vec<_>>>()?;
    let ys = filled(&made[0], &stacked);
    Ok((now.unwrap_or_else(|| filled(init, &carried)), ys))
}

/// A scan of no slices: what is carried stays as it is, and the further results have no slices either.
fn empty<C: TensorTree, X: TensorTree, Y: TensorTree>(
    named: Named,
    at: Line,
    combine_fn: &impl Fn(&C, &X) -> Result<(C, Y)>,
    init: &C,
    xs: &X,
    dim: usize,
) -> Result<(C, Y)> {
    let (carried, all) = (tensors(init), tensors(xs));
    // the sizes of what the function returns, without data
    let ys = {
        let mode = FakeTensorMode::allow_non_fake_inputs();
        let fake = |t: &Tensor| mode.from_tensor(t);
        let now = carried.iter().map(fake).collect::<Result<Vec<_>>>()?;
        let slices = all.iter().map(|x| {
            let mut sizes = x.sizes().to_vec();
            sizes.remove(dim);
            fake(&aten::zeros(&sizes, Some(x.dtype()), None, Some(x.device()), None)?)
        });
        let slices = filled(xs, &slices.collect::<Result<Vec<_>>>()?);
        let now = filled(init, &now);
        let _fake = mode.push();
        let made = combine_fn(&now, &slices)?;
        located(at, same_structure(named, "what it is given to carry", &made.0, &now))?;
        made.1
    };
    let none = tensors(&ys).into_iter().map(|y| {
        let mut sizes = y.sizes().to_vec();
        sizes.insert(dim.min(sizes.len()), 0);
        aten::zeros(&sizes, Some(y.dtype()), None, Some(y.device()), None)
    });
    let none = none.collect::<Result<Vec<_>>>()?;
    let carried = carried.iter().map(|t| aten::clone(t, None)).collect::<Result<Vec<_>>>()?;
    Ok((filled(init, &carried), filled(&ys, &none)))
}
