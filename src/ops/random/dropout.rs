//! Dropout in its forms: of elements and of whole features, plain and for SELU networks.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Dims, Scalar};

pub(crate) fn native_dropout(x: &Tensor, p: f64, train: Option<bool>) -> Result<(Tensor, Tensor)> {
    if x.numel() == 0 {
        return Ok((x.clone(), aten::empty_like(x, None, None, None, None, None)?));
    }
    let bools = Some(DType::Bool);
    if !train.unwrap_or(true) {
        let mask = aten::ones_like(x, bools, None, None, None, None)?;
        return Ok((aten::clone(x, None)?, mask));
    }
    ensure!(
        x.dtype().is_floating(),
        "result type float32 can't be cast to the desired output type {}",
        x.dtype().torch_name()
    );
    let keep = 1.0 - p;
    let scale = if keep == 0.0 { 0.0 } else { 1.0 / keep };
    let mask = aten::empty_like(x, bools, None, None, None, None)?;
    aten::bernoulli_float_(&mask, keep, None)?;
    let out = aten::mul_tensor(x, &mask)?;
    // in place: the product's layout is the result's
    Ok((aten::mul_scalar_(&out, Scalar::Float(scale))?, mask))
}

/// What of dropout is for whole features, and what keeps mean and variance of a SELU's result.
#[derive(Clone, Copy)]
struct Kind {
    feature: bool,
    alpha: bool,
}

/// The factor and the summand that dropout applies; `None` where it leaves the tensor as it is,
/// `Some((zeros, None))` where nothing is kept.
fn terms(x: &Tensor, p: f64, train: bool, kind: Kind) -> Result<Option<(Tensor, Option<Tensor>)>> {
    ensure!((0.0..=1.0).contains(&p), "dropout probability has to be between 0 and 1, but got {p}");
    if p == 0.0 || !train || x.numel() == 0 {
        return Ok(None);
    }
    if p == 1.0 {
        let zero = aten::zeros(&[], Some(x.dtype()), None, Some(x.device()), None)?;
        return Ok(Some((zero, None)));
    }
    let noise = if kind.feature {
        let &[n, c, ..] = x.sizes() else {
            return Err(Error::runtime(
                "Feature dropout requires at least 2 dimensions in the input",
            ));
        };
        let mut sizes = Dims::from_elem(1, x.dim());
        (sizes[0], sizes[1]) = (n, c);
        aten::new_empty(x, &sizes, None, None, None, None)?
    } else {
        aten::empty_like(x, None, None, None, None, None)?
    };
    aten::bernoulli_float_(&noise, 1.0 - p, None)?;
    if !kind.alpha {
        aten::div_scalar_(&noise, Scalar::Float(1.0 - p))?;
        return Ok(Some((noise, None)));
    }
    const ALPHA: f64 = 1.758_099_340_847_376_6;
    let a = 1.0 / ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)).sqrt();
    let shift = aten::sub_scalar(&noise, Scalar::Int(1), Scalar::Int(1))?;
    aten::mul_scalar_(&shift, Scalar::Float(ALPHA * a))?;
    aten::add_scalar_(&shift, Scalar::Float(ALPHA * a * p), Scalar::Int(1))?;
    aten::mul_scalar_(&noise, Scalar::Float(a))?;
    Ok(Some((noise, Some(shift))))
}

fn of_kind(x: &Tensor, p: f64, train: bool, kind: Kind) -> Result<Tensor> {
    Ok(match terms(x, p, train, kind)? {
        None => x.clone(),
        Some((factor, None)) => aten::mul_tensor(x, &factor)?,
        Some((factor, Some(shift))) => {
            aten::add_tensor(&aten::mul_tensor(x, &factor)?, &shift, Scalar::Int(1))?
        }
    })
}

fn in_place(x: &Tensor, p: f64, train: bool, kind: Kind) -> Result<Tensor> {
    if let Some((factor, shift)) = terms(x, p, train, kind)? {
        aten::mul_tensor_(x, &factor)?;
        if let Some(shift) = shift {
            aten::add_tensor_(x, &shift, Scalar::Int(1))?;
        }
    }
    Ok(x.clone())
}

macro_rules! dropouts {
    ($($name:ident $inplace:ident $feature:expr, $alpha:expr);* $(;)?) => {$(
        pub(crate) fn $name(x: &Tensor, p: f64, train: bool) -> Result<Tensor> {
            of_kind(x, p, train, Kind { feature: $feature, alpha: $alpha })
        }
        pub(crate) fn $inplace(x: &Tensor, p: f64, train: bool) -> Result<Tensor> {
            in_place(x, p, train, Kind { feature: $feature, alpha: $alpha })
        }
    )*};
}
dropouts!(
    dropout dropout_ false, false;
    feature_dropout feature_dropout_ true, false;
    alpha_dropout alpha_dropout_ false, true;
    feature_alpha_dropout feature_alpha_dropout_ true, true;
);
