//! Products of half types that are widened on the way in and rounded on the way out: `addmm` is written
//! so, since its sum is rounded once, after the addend. The product of halves does the same within one
//! step, and reads a weight as it was packed.

use super::loops::{Activation, BinaryOp};
use super::matmul::is_row;
use super::program::{Def, Product, Program, V};
use crate::ir::DType;

/// Takes `narrow(wide(a) @ wide(b) + wide(row))` as one product of halves, where nothing in between has
/// another user or is `pinned`; whether there was one.
pub(crate) fn products(p: &mut Program, live: &[bool], pinned: &dyn Fn(V) -> bool) -> bool {
    if !p.values.iter().any(|v| matches!(v.dtype, DType::F16 | DType::BF16)) {
        return false;
    }
    let uses = p.uses(live);
    let mut found = false;
    for m in (0..p.values.len() as u32).map(V) {
        let Some((end, product)) = narrowed(p, m, &uses, pinned) else { continue };
        p.values[end.i()].def = Def::Matmul(Box::new(product));
        found = true;
    }
    found
}

fn narrowed(
    p: &mut Program,
    m: V,
    uses: &[Vec<V>],
    pinned: &dyn Fn(V) -> bool,
) -> Option<(V, Product)> {
    let Def::Matmul(product) = p.def(m) else { return None };
    let &Product { a, b, bias: None, activation: Activation::None, residual: None, .. } =
        &**product
    else {
        return None;
    };
    let only_user = |v: V| match uses[v.i()][..] {
        [user] if !pinned(v) => Some(user),
        _ => None,
    };
    let sum = only_user(m)?;
    let Def::Binary(BinaryOp::Add, x, y) = *p.def(sum) else { return None };
    let end = only_user(sum)?;
    let half = p.dtype(end);
    let rounds = matches!(p.def(end), Def::Cast(_)) && matches!(half, DType::F16 | DType::BF16);
    let addend = if x == m { y } else { x };
    if !rounds || x == y || !is_row(p, addend) {
        return None;
    }
    let before = |p: &Program, v: V| match p.def(v) {
        Def::Cast(src) if p.dtype(*src) == half => Some(*src),
        _ => None,
    };
    let (a, b) = (before(p, a)?, before(p, b)?);
    let row = match p.def(addend).clone() {
        Def::Cast(_) => before(p, addend)?,
        // the same view of what was widened
        Def::View { src, map } if uses[addend.i()].len() == 1 && !pinned(addend) => {
            let src = before(p, src)?;
            let value = &mut p.values[addend.i()];
            (value.dtype, value.def) = (half, Def::View { src, map });
            addend
        }
        _ => return None,
    };
    let product = Product {
        a,
        b,
        bias: Some(row),
        activation: Activation::None,
        residual: None,
        strides: None,
    };
    Some((end, product))
}
