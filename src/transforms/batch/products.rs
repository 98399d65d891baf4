//! Products of matrices.

use super::given::{Call, Results};
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

fn one(t: Tensor) -> Result<Option<Results>> {
    Ok(Some(vec![Value::Tensor(t)]))
}

/// One product of a larger matrix where one side is shared, else a product for each sample.
pub(super) fn mm(call: &Call<'_>) -> Result<Option<Results>> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    if a.dim() != 2 || b.dim() != 2 {
        return Ok(None);
    }
    let (n, m) = (a.sizes()[0], b.sizes()[1]);
    let size = call.size;
    match (call.front(a)?, call.front(b)?) {
        (Some(a), None) => {
            let rows = aten::reshape(&a, &[size * n, a.sizes()[2]])?;
            one(aten::reshape(&aten::mm(&rows, b)?, &[size, n, m])?)
        }
        (None, Some(b)) => {
            let inner = b.sizes()[1];
            let columns = aten::reshape(&aten::permute(&b, &[1, 0, 2])?, &[inner, size * m])?;
            let product = aten::reshape(&aten::mm(a, &columns)?, &[n, size, m])?;
            one(aten::permute(&product, &[1, 0, 2])?)
        }
        (Some(a), Some(b)) => one(aten::bmm(&a, &b)?),
        (None, None) => Ok(None),
    }
}

pub(super) fn bmm(call: &Call<'_>) -> Result<Option<Results>> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    if a.dim() != 3 || b.dim() != 3 {
        return Ok(None);
    }
    let fold = |t: &Tensor| {
        let t = call.expanded(t)?;
        let s = t.sizes();
        aten::reshape(&t, &[s[0] * s[1], s[2], s[3]])
    };
    let product = aten::bmm(&fold(a)?, &fold(b)?)?;
    let (n, m) = (product.sizes()[1], product.sizes()[2]);
    one(aten::reshape(&product, &[call.size, a.sizes()[0], n, m])?)
}

pub(super) fn mv(call: &Call<'_>) -> Result<Option<Results>> {
    let (a, v) = (call.tensor(0)?, call.tensor(1)?);
    if a.dim() != 2 || v.dim() != 1 {
        return Ok(None);
    }
    match (call.front(a)?, call.front(v)?) {
        (Some(a), None) => {
            let (size, n, k) = (a.sizes()[0], a.sizes()[1], a.sizes()[2]);
            let rows = aten::reshape(&a, &[size * n, k])?;
            one(aten::reshape(&aten::mv(&rows, v)?, &[size, n])?)
        }
        (None, Some(v)) => one(aten::mm(&v, &aten::t(a)?)?),
        (Some(a), Some(v)) => one(aten::squeeze_dim(&aten::bmm(&a, &aten::unsqueeze(&v, 2)?)?, 2)?),
        (None, None) => Ok(None),
    }
}

pub(super) fn dot(call: &Call<'_>) -> Result<Option<Results>> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    if a.dim() != 1 || b.dim() != 1 {
        return Ok(None);
    }
    match (call.front(a)?, call.front(b)?) {
        (Some(a), None) => one(aten::mv(&a, b)?),
        (None, Some(b)) => one(aten::mv(&b, a)?),
        (Some(a), Some(b)) => {
            let (a, b) = (aten::unsqueeze(&a, 1)?, aten::unsqueeze(&b, 2)?);
            one(aten::reshape(&aten::bmm(&a, &b)?, &[call.size])?)
        }
        (None, None) => Ok(None),
    }
}

/// `beta * self + alpha * product`, at the layer.
pub(super) fn added(call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    if call.schema.is_mutable() || !call.tensor(0)?.dtype().is_floating() {
        // numbers that are no integers would promote
        return Ok(None);
    }
    let (own, a, b) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let product = match &*call.name {
        "addmm" => aten::mm(a, b)?,
        "addmv" => aten::mv(a, b)?,
        _ => aten::bmm(a, b)?,
    };
    let scalar = |name: &str| {
        let at = call.position(name).and_then(|at| call.args.get(at));
        at.and_then(Value::as_scalar).unwrap_or(Scalar::Int(1))
    };
    let (beta, alpha) = (scalar("beta"), scalar("alpha"));
    let product = match alpha.as_f64() == 1.0 {
        true => product,
        false => aten::mul_scalar(&product, alpha)?,
    };
    if beta.as_f64() == 0.0 {
        return Ok(Some(vec![product.into()]));
    }
    let own = if beta.as_f64() == 1.0 { own.clone() } else { aten::mul_scalar(own, beta)? };
    Ok(Some(vec![aten::add_tensor(&product, &own, Scalar::Int(1))?.into()]))
}
