//! Convolutions: which of them the plan computes itself, and what is folded into them.

use super::layout::{Strided, resolve};
use super::loops::{BinaryOp, Follow};
use super::matmul::{activation, is_at_hand};
use super::program::{Def, OpaqueCall, Program, V};
use crate::ir::args::{self, Arguments};
use crate::ir::{DType, Dims, Op, layout};

/// The arguments of a call of a convolution, as values.
pub(crate) fn args_of(call: &OpaqueCall) -> Option<args::convolution<V>> {
    if call.op != Op::convolution {
        return None;
    }
    args::convolution::read(&call.args, |i| call.inputs[*i as usize])
}

/// Where the elements of `v` lie, unless a copy will be made of it.
fn lies(p: &Program, v: V, stored: &dyn Fn(&Program, V) -> Dims) -> Option<Strided> {
    resolve(p, v, &|v| stored(p, v))
}

/// Whether the kernel finds the elements of `v` row by row.
fn is_dense(p: &Program, v: V, stored: &dyn Fn(&Program, V) -> Dims) -> bool {
    let strides = lies(p, v, stored).map_or_else(|| stored(p, v), |s| s.strides);
    layout::is_contiguous(p.sizes(v), &strides)
}

/// Whether `v`, of the sizes of a convolution's result, is one element for each channel, side by
/// side.
fn is_of_channels(p: &Program, v: V, stored: &dyn Fn(&Program, V) -> Dims) -> bool {
    let sizes = p.sizes(v);
    let Some(Strided { base, strides, .. }) = lies(p, v, stored) else { return false };
    !matches!(p.def(base), Def::Const(_))
        && p.numel(base) < p.numel(v)
        && sizes
            .iter()
            .zip(&strides)
            .enumerate()
            .all(|(d, (n, s))| *n == 1 || *s == i64::from(d == 1))
}

/// Marks the calls of convolutions that the plan computes itself: of floats that are row-major. What
/// is done to their results alone is folded into them, but for values that are `pinned`, which must
/// exist as they are. `stored` gives the strides of a value in memory.
pub(crate) fn take(
    p: &mut Program,
    live: &[bool],
    pinned: &dyn Fn(V) -> bool,
    stored: &dyn Fn(&Program, V) -> Dims,
) {
    let uses = p.uses(live);
    for call in 0..p.calls.len() {
        let Some(args) = args_of(&p.calls[call]) else { continue };
        let [result] = p.calls[call].results[..] else { continue };
        let operands = [Some(args.input), Some(args.weight), args.bias];
        let plain = !args.transposed
            && live[result.i()]
            && matches!(p.dtype(result), DType::F32 | DType::F64)
            && (3..=5).contains(&p.sizes(result).len())
            && p.numel(result) > 0
            && is_dense(p, result, stored)
            && operands
                .into_iter()
                .flatten()
                .all(|v| p.dtype(v) == p.dtype(result) && p.numel(v) > 0 && is_dense(p, v, stored));
        if !plain {
            continue;
        }
        let mut follow = Vec::new();
        let mut head = result;
        while let [user] = uses[head.i()][..] {
            if pinned(head) || !is_dense(p, user, stored) {
                break;
            }
            let next = match *p.def(user) {
                Def::Unary(op, _) => activation(op).map(Follow::Activation),
                Def::Binary(op @ (BinaryOp::Mul | BinaryOp::Add), a, b) if a != b => {
                    let other = if a == head { b } else { a };
                    match op {
                        _ if is_of_channels(p, other, stored) => Some(match op {
                            BinaryOp::Mul => Follow::Scale(other),
                            _ => Follow::Shift(other),
                        }),
                        BinaryOp::Add
                            if is_at_hand(p, other, &uses) && is_dense(p, other, stored) =>
                        {
                            Some(Follow::Add(other))
                        }
                        _ => None,
                    }
                }
                _ => None,
            };
            let Some(next) = next else { break };
            follow.push(next);
            head = user;
        }
        if head != result {
            p.values[head.i()].def = Def::Extern { call: call as u32, index: 0 };
        }
        let call = &mut p.calls[call];
        call.follow = Some(follow);
        call.results[0] = head;
    }
}
