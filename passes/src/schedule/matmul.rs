//! Matrix products: what is folded into them, and their operands as strided views.

use super::layout::resolve;
use super::loops::{Activation, BinaryOp, BufferView, Matmul, UnaryOp};
use super::program::{Def, Program, Source, V};
use crate::ir::view::Affine;
use crate::ir::view::view_strides;
use crate::ir::{DType, Dims, layout};

pub(crate) fn activation(op: UnaryOp) -> Option<Activation> {
    Some(match op {
        UnaryOp::Relu => Activation::Relu,
        UnaryOp::GeluErf => Activation::GeluErf,
        UnaryOp::GeluTanh => Activation::GeluTanh,
        UnaryOp::Silu => Activation::Silu,
        UnaryOp::Tanh => Activation::Tanh,
        UnaryOp::Sigmoid => Activation::Sigmoid,
        _ => return None,
    })
}

/// The value below views that read it in full, in order.
fn below_reshapes(p: &Program, mut v: V) -> V {
    while let Def::Reshape(src) = p.def(v) {
        v = *src;
    }
    v
}

/// Whether `v` is the same along all dimensions but the last.
pub(crate) fn is_row(p: &Program, v: V) -> bool {
    match p.def(v) {
        Def::View { src, map } => {
            let last = p.sizes(v).len() - 1;
            // a source of one dimension (others of size 1), indexed by the last dimension only
            let lone = p.sizes(*src).iter().filter(|s| **s != 1).count() <= 1;
            lone && map.iter().all(|m| m.base == 0 && m.terms.iter().all(|t| *t == (last, 1)))
        }
        // one row, or as many elements as the last dimension
        _ => p.numel(v) == p.sizes(v).last().copied().unwrap_or(1),
    }
}

/// Whether `v` will lie in memory anyway, so that adding it in the product's epilogue costs no
/// extra kernel.
pub(crate) fn is_at_hand(p: &Program, v: V, uses: &[Vec<V>]) -> bool {
    let base = below_reshapes(p, v);
    match p.def(base) {
        Def::Source { .. } | Def::Matmul(_) | Def::Extern { .. } => true,
        def => !def.is_view() && !matches!(def, Def::Const(_)) && uses[base.i()].len() > 1,
    }
}

/// Folds bias, activation and residual into products if the intermediate values have no other user.
/// `pinned` values are results of the function: they must exist as they are. `stored` gives the
/// strides of a value in memory.
pub(crate) fn fold_epilogues(
    p: &mut Program,
    live: &[bool],
    pinned: &dyn Fn(V) -> bool,
    stored: &dyn Fn(&Program, V) -> Dims,
) {
    let uses = p.uses(live);
    let products: Vec<V> =
        (0..p.values.len() as u32).map(V).filter(|v| matches!(p.def(*v), Def::Matmul(_))).collect();
    for m in products {
        let Def::Matmul(product) = p.def(m) else {
            continue;
        };
        // half types round after each operation: folding would skip roundings
        if !matches!(p.dtype(m), DType::F32 | DType::F64) {
            continue;
        }
        let mut product = product.clone();
        let columns = p.sizes(m).last().copied();
        let (mut head, mut end) = (m, m);
        // whether the elements of a value, where they lie, are rows and columns of the product
        let fits = |p: &Program, v: V| match resolve(p, v, &|v| stored(p, v)) {
            Some(s) => view_strides(p.sizes(v), &s.strides, p.sizes(m)).is_some(),
            // a copy will be made
            None => true,
        };
        // the last value folded, and the operations in order: bias < activation < residual
        let mut stage = 0;
        while let [user] = uses[head.i()][..] {
            if pinned(head) {
                break;
            }
            let def = p.def(user).clone();
            if !def.is_view() && !fits(p, user) {
                break;
            }
            match def {
                Def::Reshape(_) if p.sizes(user).last().copied() == columns => {
                    head = user;
                    continue;
                }
                Def::Unary(op, _) if stage < 2 => {
                    let Some(act) = activation(op) else { break };
                    product.activation = act;
                    stage = 2;
                }
                Def::Binary(BinaryOp::Add, a, b) if a != b => {
                    let other = if a == head { b } else { a };
                    let row = is_row(p, other) && !matches!(p.def(other), Def::Const(_));
                    if row && stage < 1 {
                        product.bias = Some(other);
                        stage = 1;
                    } else if stage < 3
                        && (!row || Some(p.numel(user)) == columns)
                        && is_at_hand(p, other, &uses)
                        && fits(p, other)
                    {
                        product.residual = Some(other);
                        stage = 3;
                    } else {
                        break;
                    }
                }
                _ => break,
            }
            head = user;
            end = user;
        }
        if end != m {
            p.values[end.i()].def = Def::Matmul(product.clone());
        }
        if let Some((copy, strides)) = permuted_copy(p, end, &uses, pinned)
            && let Some(strides) = view_strides(p.sizes(end), &strides, p.sizes(m))
        {
            product.strides = Some(strides);
            p.values[copy.i()].def = Def::Matmul(product);
        }
    }
}

/// A row-major copy of `v` in another order of dimensions that is all that is needed of `v`, and
/// the strides of `v` in it: a product can be written there at once.
fn permuted_copy(
    p: &Program,
    v: V,
    uses: &[Vec<V>],
    pinned: &dyn Fn(V) -> bool,
) -> Option<(V, Dims)> {
    let mut chain = vec![v];
    loop {
        let here = *chain.last()?;
        let [user] = uses[here.i()][..] else {
            return None;
        };
        if pinned(here) || p.numel(user) != p.numel(v) {
            return None;
        }
        chain.push(user);
        match p.def(user) {
            Def::Reshape(_) => {}
            Def::View { map, .. } if map.iter().all(|m| m.base == 0 && is_plain(m)) => {}
            // results have the layout that eager gives them: leave those alone
            Def::Copy(_) if !pinned(user) => break,
            _ => return None,
        }
    }
    // from the copy back to the product
    let copy = *chain.last()?;
    let mut strides = layout::contiguous_strides(p.sizes(copy));
    for at in chain.iter().skip(1).rev() {
        strides = match p.def(*at) {
            Def::Reshape(src) => view_strides(p.sizes(*at), &strides, p.sizes(*src))?,
            Def::View { src, map } => map
                .iter()
                .zip(p.sizes(*src))
                .map(|(m, _)| m.terms.first().map_or(0, |t| strides[t.0]))
                .collect(),
            _ => strides,
        };
    }
    // each element has exactly one place
    (!layout::may_overlap(p.sizes(v), &strides)).then_some((copy, strides))
}

fn is_plain(at: &Affine) -> bool {
    matches!(at.terms[..], [] | [(_, 1)])
}

/// Whether the operand is read from a parameter or a constant.
pub(crate) fn is_weight(p: &Program, base: V) -> bool {
    matches!(p.def(base), Def::Source { source: Source::Parameter(_) | Source::Constant(_), .. })
}

/// Merges batch dimensions: two of them where they lie as one, and all of them into the rows where
/// every batch multiplies the same `b`.
pub(crate) fn flatten(mut m: Matmul) -> Matmul {
    while m.out.sizes.len() > 3 {
        let rest = [Some(&m.a), Some(&m.b), Some(&m.out), m.residual.as_ref()];
        let one = |v: &BufferView| {
            v.sizes[0] == 1 || v.sizes[1] == 1 || v.strides[0] == v.strides[1] * v.sizes[1]
        };
        if !rest.into_iter().flatten().all(one) {
            return m;
        }
        let squash = |v: &mut BufferView| {
            let stride = if v.sizes[1] == 1 { v.strides[0] } else { v.strides[1] };
            let size = v.sizes.remove(0) * v.sizes[0];
            v.strides.remove(0);
            (v.sizes[0], v.strides[0]) = (size, stride);
        };
        squash(&mut m.a);
        squash(&mut m.b);
        squash(&mut m.out);
        if let Some(r) = &mut m.residual {
            squash(r);
        }
    }
    if m.out.sizes.len() != 3 {
        return m;
    }
    let (batch, rows) = (m.out.sizes[0], m.out.sizes[1]);
    let mergeable = |v: &BufferView| rows == 1 || v.strides[0] == v.strides[1] * v.sizes[1];
    let whole = batch == 1
        || (m.b.strides[0] == 0
            && mergeable(&m.a)
            && mergeable(&m.out)
            && m.residual.as_ref().is_none_or(mergeable));
    if !whole {
        return m;
    }
    let squash = |v: &mut BufferView| {
        let row_stride = match rows == 1 && batch > 1 {
            true => v.strides[0],
            false => v.strides[1],
        };
        v.sizes = Dims::from_slice(&[batch * rows, v.sizes[2]]);
        v.strides = Dims::from_slice(&[row_stride, v.strides[2]]);
    };
    squash(&mut m.a);
    squash(&mut m.out);
    if let Some(r) = &mut m.residual {
        squash(r);
    }
    m.b.sizes.remove(0);
    m.b.strides.remove(0);
    m
}
