//! Numbers against those that PyTorch recorded.

use super::facts::Statistics;
use super::trouble::Trouble;
use straightline::{DType, Tensor};

pub(super) fn values(t: &Tensor) -> Result<Vec<f64>, Trouble> {
    Ok(t.detach()?.to_dtype(DType::F64)?.flatten()?.to_vec::<f64>()?)
}

/// That a number is another one, up to `allowed`.
pub(super) fn number(
    at: impl FnOnce() -> String,
    found: f64,
    expected: f64,
    allowed: f64,
) -> Result<(), Trouble> {
    let off = (found - expected).abs();
    // a NaN is not near anything
    if off <= allowed {
        Ok(())
    } else {
        Err(Trouble::Differs { at: at(), found, expected, off, allowed })
    }
}

/// That no element is further off than `allowed` says, given the largest one that is expected.
pub(super) fn tensor(
    at: &str,
    found: &Tensor,
    expected: &Tensor,
    allowed: impl FnOnce(f64) -> f64,
) -> Result<(), Trouble> {
    if found.sizes() != expected.sizes() {
        return Err(Trouble::Shape(format!(
            "{at} has sizes {:?}, PyTorch's {:?}",
            found.sizes(),
            expected.sizes()
        )));
    }
    let (found, expected) = (values(found)?, values(expected)?);
    let largest = expected.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
    let allowed = allowed(largest);
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        number(|| format!("element {i} of {at}"), *found, *expected, allowed)?;
    }
    Ok(())
}

/// That all elements are near by `allclose`'s rule.
pub(super) fn close(
    at: &str,
    found: &Tensor,
    expected: &Tensor,
    rtol: f64,
    atol: f64,
) -> Result<(), Trouble> {
    let (found, expected) = (values(found)?, values(expected)?);
    if found.len() != expected.len() {
        return Err(Trouble::Shape(format!(
            "{at} has {} elements, PyTorch's {}",
            found.len(),
            expected.len()
        )));
    }
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let allowed = atol + rtol * expected.abs();
        number(|| format!("element {i} of {at}"), *found, *expected, allowed)?;
    }
    Ok(())
}

/// The norm, and the first and last elements.
pub(super) fn statistics(
    at: &str,
    found: &Tensor,
    expected: &Statistics,
    relative: f64,
    absolute: f64,
) -> Result<(), Trouble> {
    let values = values(found)?;
    let l2 = values.iter().map(|v| v * v).sum::<f64>().sqrt();
    let allowed = relative * expected.l2 + 1e-12;
    number(|| format!("the norm of {at}"), l2, expected.l2, allowed)?;
    let (first, last) = (&expected.first, &expected.last);
    if first.len() > values.len() || last.len() > values.len() {
        return Err(Trouble::Shape(format!("{at} has {} elements only", values.len())));
    }
    let ends = first.iter().zip(&values).chain(last.iter().rev().zip(values.iter().rev()));
    for (expected, found) in ends {
        number(|| format!("an element of {at}"), *found, *expected, absolute)?;
    }
    Ok(())
}
