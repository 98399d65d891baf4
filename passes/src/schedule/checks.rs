//! Checks on data that eager code makes and a kernel might leave out.
//!
//! A gather checks the indices that it reads, an integer division its divisors; but a kernel computes only the elements
//! that somebody needs. What is computed in part, or not at all, is checked here by a value of its own: a fold over
//! everything that eager code would have looked at, which somebody always needs.

use super::loops::{BinaryOp, ReduceOp};
use super::program::{Bounds, Def, Place, Program, V};
use crate::ir::DType;
use crate::ir::effects::Effects;
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

/// Values that are there when every check has passed which computing `v` makes.
pub(super) fn check(p: &mut Program, v: V) -> SmallVec<[V; 1]> {
    let node = p.get(v).node;
    let lowered = std::mem::replace(&mut p.node, node);
    let made = checks(p, v);
    p.node = lowered;
    made
}

fn checks(p: &mut Program, v: V) -> SmallVec<[V; 1]> {
    match p.def(v).clone() {
        Def::Gather {
            src,
            index,
            dims,
            bounds,
        } => {
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
    let read = Def::Gather {
        src,
        index,
        dims: vec![None],
        bounds,
    };
    let read = p.push(DType::I64, &sizes, read);
    fold(p, read)
}

/// One number that needs every element.
fn fold(p: &mut Program, src: V) -> V {
    let dims: SmallVec<[usize; 2]> = (0..p.sizes(src).len()).collect();
    if dims.is_empty() {
        let dtype = p.dtype(src);
        return p.push(dtype, &[], Def::Copy(src));
    }
    let def = Def::Reduce {
        op: ReduceOp::Max,
        src,
        dims,
    };
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

/// Checks of values that are not computed whole, where these are the values that must be there.
pub(super) fn lost(graph: &Graph, p: &mut Program, roots: &BTreeSet<V>) -> Vec<V> {
    let known = p.values.len();
    let failing = failing(graph, p, 0..known);
    if failing.is_empty() {
        return Vec::new();
    }
    let whole = whole(p, roots);
    let lost = failing.into_iter().filter(|v| !whole[v.i()]);
    let mut made = Vec::new();
    for v in lost.collect::<Vec<_>>() {
        made.extend(check(p, v));
    }
    made
}

/// Which values are computed element by element, all of them: those that must be there, and what these need all of.
fn whole(p: &Program, roots: &BTreeSet<V>) -> Vec<bool> {
    let mut whole = vec![false; p.values.len()];
    let mut live = vec![false; p.values.len()];
    for v in roots {
        whole[v.i()] = true;
        live[v.i()] = true;
    }
    // operands have smaller numbers than their users
    for i in (0..p.values.len()).rev() {
        if !live[i] {
            continue;
        }
        let v = V(i as u32);
        let def = p.def(v);
        // what no kernel computes in place is in memory from end to end
        let stored = match def {
            Def::Pieces { element, .. } => element.is_none(),
            Def::Matmul(_) | Def::Extern { .. } | Def::Scatter(_) => true,
            _ => false,
        };
        whole[i] |= stored || p.get(v).barrier;
        for o in p.operands(v) {
            live[o.i()] = true;
            let needs_all = match def {
                Def::View { .. } | Def::Reshape(_) => shows_all(p, v),
                Def::Gather { index, .. } => o == *index,
                _ => true,
            };
            whole[o.i()] |= whole[i] && needs_all;
        }
    }
    whole
}
