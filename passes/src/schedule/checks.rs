//! Data checks that eager code makes and a fused kernel might skip.
//!
//! A gather checks the indices that it reads, an integer division its divisors; but a kernel
//! computes only the elements that are needed. A value that is computed only in part, or not at
//! all, is checked here by a separate value: a fold over everything that eager code would have
//! read, which is always computed.

use super::loops::{BinaryOp, ReduceOp};
use super::program::{Bounds, Def, Place, Program, V};
use crate::ir::DType;
use crate::ir::Effects;
use crate::ir::graph::Graph;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::ops::Range;

/// Whether computing the value fails for some data, as the call that it comes from does.
fn fails(graph: &Graph, p: &Program, v: V) -> bool {
    let checked = |bounds: Bounds| bounds != Bounds::Listed;
    let fails = match p.def(v) {
        Def::Gather { bounds, .. } => checked(*bounds),
        Def::Scatter(s) => checked(s.bounds),
        Def::Binary(op, _, by) => is_checked_division(p, *op, *by),
        _ => false,
    };
    let may_fail = |n| graph.effects(n).has(Effects::MAY_FAIL);
    fails && p.numel(v) > 0 && p.get(v).node.is_some_and(may_fail)
}

fn is_checked_division(p: &Program, op: BinaryOp, by: V) -> bool {
    let number = match p.def(by) {
        Def::Const(c) => c.as_f64() != 0.0,
        _ => false,
    };
    op.is_division() && p.dtype(by).is_integral() && !number
}

/// The values among these whose computation may fail.
pub(super) fn failing(graph: &Graph, p: &Program, among: Range<usize>) -> Vec<V> {
    let values = among.map(|i| V(i as u32));
    values.filter(|v| fails(graph, p, *v)).collect()
}

/// Values whose existence implies that every check made in computing `v` has passed.
pub(super) fn check(p: &mut Program, v: V) -> SmallVec<[V; 1]> {
    let node = p.get(v).node;
    let lowered = std::mem::replace(&mut p.node, node);
    let made = checks(p, v);
    p.node = lowered;
    made
}

fn checks(p: &mut Program, v: V) -> SmallVec<[V; 1]> {
    match p.def(v).clone() {
        Def::Gather { src, index, dims, bounds } => {
            let which = dims.iter().position(Option::is_none).unwrap_or(0);
            let size = p.sizes(src)[which];
            SmallVec::from_iter([indices(p, index, size, bounds)])
        }
        Def::Scatter(s) => {
            let sizes = p.get(v).sizes.clone();
            let mut made = SmallVec::new();
            for (place, size) in s.places.iter().zip(&sizes) {
                if let Place::Indexed(index) = place {
                    made.push(indices(p, *index, *size, s.bounds));
                }
            }
            made
        }
        _ => SmallVec::from_iter([fold(p, v)]),
    }
}

/// Reads positions by indices, so that these are checked.
fn indices(p: &mut Program, mut index: V, size: i64, bounds: Bounds) -> V {
    while shows_all(p, index) {
        index = p.operands(index)[0];
    }
    let src = p.push(DType::I64, &[size], Def::Position(0));
    let sizes = p.get(index).sizes.clone();
    let read = Def::Gather { src, index, dims: vec![None], bounds };
    let read = p.push(DType::I64, &sizes, read);
    fold(p, read)
}

/// A single number that depends on every element.
fn fold(p: &mut Program, src: V) -> V {
    let dims: SmallVec<[usize; 2]> = (0..p.sizes(src).len()).collect();
    if p.numel(src) == 1 {
        // nothing to fold: a reduction needs a loop
        let one = p.reshape(src, &[]);
        let dtype = p.dtype(src);
        return p.push(dtype, &[], Def::Copy(one));
    }
    let def = Def::Reduce { op: ReduceOp::Max, src, dims };
    p.push(p.dtype(src), &[], def)
}

/// Whether a view shows every element of what it views.
fn shows_all(p: &Program, v: V) -> bool {
    match p.def(v) {
        Def::Reshape(_) => true,
        Def::View { src, map } => {
            let mut used = BTreeSet::new();
            (map.iter().zip(p.sizes(*src))).all(|(m, n)| match &m.terms[..] {
                [] => *n == 1,
                [(dim, step)] => {
                    let all = (*step == 1 && m.base == 0) || (*step == -1 && m.base == n - 1);
                    all && p.sizes(v)[*dim] == *n && used.insert(*dim)
                }
                _ => false,
            })
        }
        _ => false,
    }
}

/// A set of dimensions, one bit each.
type Dimensions = u64;

/// Checks of values that are not computed completely, given the values that must exist.
pub(super) fn lost(graph: &Graph, p: &mut Program, roots: &BTreeSet<V>) -> Vec<V> {
    let known = p.values.len();
    let failing = failing(graph, p, 0..known);
    if failing.is_empty() {
        return Vec::new();
    }
    // with more dimensions than there are bits, everything is checked
    let countable = (p.values.iter()).all(|v| v.sizes.len() < Dimensions::BITS as usize);
    let open = match countable {
        true => open_dimensions(p, roots),
        false => vec![None; known],
    };
    let lost = failing.into_iter().filter(|v| match (open[v.i()], p.def(*v)) {
        (None, _) => true,
        (Some(open), Def::Gather { index: by, .. } | Def::Binary(_, _, by)) => {
            depends_on(p, *by) & open != 0
        }
        (Some(_), _) => false,
    });
    let mut made = Vec::new();
    for v in lost.collect::<Vec<_>>() {
        made.extend(check(p, v));
    }
    made
}

/// The dimensions along which a value's elements may differ.
fn depends_on(p: &Program, v: V) -> Dimensions {
    let sizes = p.sizes(v);
    let bits = |dims: &mut dyn Iterator<Item = usize>| {
        dims.fold(0, |bits: Dimensions, d| bits | Dimensions::from(true) << d)
    };
    match p.def(v) {
        Def::Const(_) => 0,
        Def::View { map, .. } => bits(&mut map.iter().flat_map(|m| &m.terms).map(|t| t.0)),
        _ => bits(&mut (0..sizes.len()).filter(|d| sizes[*d] != 1)),
    }
}

/// For each needed value, the dimensions along which some positions may not be needed; empty for a
/// value that must exist or is needed element by element.
fn open_dimensions(p: &Program, roots: &BTreeSet<V>) -> Vec<Option<Dimensions>> {
    let mut open: Vec<Option<Dimensions>> = vec![None; p.values.len()];
    for v in roots {
        open[v.i()] = Some(0);
    }
    // operands have smaller numbers than their users
    for i in (0..p.values.len()).rev() {
        let Some(mut mine) = open[i] else { continue };
        let v = V(i as u32);
        // nothing is computed for a value without elements
        if p.numel(v) == 0 {
            continue;
        }
        // a value that is not computed in place is in memory completely
        let stored = match p.def(v) {
            Def::Pieces { element, .. } => element.is_none(),
            Def::Matmul(_) | Def::Extern { .. } | Def::Scatter(_) => true,
            _ => p.get(v).barrier,
        };
        if stored {
            mine = 0;
        }
        for (position, o) in p.operands(v).into_iter().enumerate() {
            let theirs = of_operand(p, v, position, o, mine);
            let known = &mut open[o.i()];
            // each user by itself says what is computed
            if known.is_none_or(|k| theirs.count_ones() < k.count_ones()) {
                *known = Some(theirs);
            }
        }
    }
    open
}

/// The open dimensions of an operand of a value whose own are these.
fn of_operand(p: &Program, v: V, position: usize, o: V, open: Dimensions) -> Dimensions {
    let is_open = |d: usize| open >> d & 1 == 1;
    let mut theirs = 0;
    match p.def(v) {
        Def::View { map, .. } => {
            let mut used: Dimensions = 0;
            for (d, (m, n)) in map.iter().zip(p.sizes(o)).enumerate() {
                let all = match &m.terms[..] {
                    [] => *n == 1,
                    [(k, step)] => {
                        let runs = (*step == 1 && m.base == 0) || (*step == -1 && m.base == n - 1);
                        let fresh = used >> *k & 1 == 0 && !is_open(*k);
                        used |= Dimensions::from(true) << *k;
                        runs && fresh && p.sizes(v)[*k] == *n
                    }
                    _ => false,
                };
                theirs |= Dimensions::from(!all) << d;
            }
        }
        Def::Gather { dims, .. } if position == 0 => {
            for (d, from) in dims.iter().enumerate() {
                theirs |= Dimensions::from(from.is_none_or(is_open)) << d;
            }
        }
        Def::Reduce { dims, .. } | Def::ArgReduce { dims, .. } => {
            let kept = (0..p.sizes(o).len()).filter(|d| !dims.contains(d));
            for (k, d) in kept.enumerate() {
                theirs |= Dimensions::from(is_open(k)) << d;
            }
        }
        Def::Matmul(_) | Def::Extern { .. } | Def::Scatter(_) => {}
        // elements in another order, or of other sizes
        Def::Reshape(_) | Def::Pieces { .. } if p.sizes(o) != p.sizes(v) => {
            theirs = if open == 0 { 0 } else { Dimensions::MAX };
        }
        _ => theirs = open,
    }
    theirs
}
