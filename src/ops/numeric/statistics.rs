//! Quantiles, covariances, and means without NaN.

use super::sub;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Scalar};

// ---- quantiles --------------------------------------------------------------------------------

/// What is between two neighbours, where a part falls between them.
#[derive(Clone, Copy, PartialEq)]
enum Interpolation {
    Linear,
    Lower,
    Higher,
    Midpoint,
    Nearest,
}

impl Interpolation {
    fn of(name: &str) -> Result<Interpolation> {
        Ok(match name {
            "linear" => Interpolation::Linear,
            "lower" => Interpolation::Lower,
            "higher" => Interpolation::Higher,
            "midpoint" => Interpolation::Midpoint,
            "nearest" => Interpolation::Nearest,
            _ => {
                return Err(Error::value(format!(
                    "quantile() interpolation must be one of linear, lower, higher, midpoint or \
                     nearest, but got {name}"
                )));
            }
        })
    }
}

struct Call<'a> {
    name: &'static str,
    x: &'a Tensor,
    dim: Option<i64>,
    keepdim: bool,
    how: Interpolation,
    ignores_nan: bool,
}

impl Call<'_> {
    /// The places of parts among sorted elements, where these have NaN behind everything else.
    fn ranks(&self, sorted: &Tensor, q: &Tensor) -> Result<Tensor> {
        let last = sorted.sizes().last().copied().unwrap_or(1) - 1;
        let nan = aten::isnan(sorted)?;
        if !self.ignores_nan {
            let ranks = aten::mul_scalar(q, Scalar::Int(last))?;
            // one NaN is enough, and the last element is one if any is
            let any = aten::any_dim(&nan, -1, true)?;
            let mut sizes = any.sizes().to_vec();
            if let (Some(end), Some(parts)) = (sizes.last_mut(), q.sizes().last()) {
                *end = *parts;
            }
            let ranks = aten::expand(&ranks, &sizes, false)?;
            return aten::masked_fill_scalar(&ranks, &any, Scalar::Int(last));
        }
        let numbers = aten::logical_not(&nan)?;
        let numbers = aten::sum_dim_int_list(&numbers, Some(&[-1]), true, None)?;
        let numbers = aten::sub_scalar(&numbers, Scalar::Int(1), Scalar::Int(1))?;
        let ranks = aten::mul_tensor(q, &numbers)?;
        // without a number, the first NaN
        aten::masked_fill_scalar(&ranks, &aten::lt_scalar(&ranks, Scalar::Int(0))?, Scalar::Int(0))
    }

    fn at(&self, q: &Tensor) -> Result<Tensor> {
        let (name, x) = (self.name, self.x);
        ensure_dtype!(
            matches!(x.dtype(), DType::F32 | DType::F64),
            "{name}() input tensor must be either float or double dtype, and this is {}",
            x.dtype()
        );
        ensure_shape!(x.numel() > 0, "{name}() input tensor must be non-empty");
        ensure_shape!(q.dim() <= 1, "{name}() q must be a scalar or 1D tensor");
        ensure_dtype!(
            x.dtype() == q.dtype(),
            "{name}() q tensor must be same dtype as the input tensor"
        );
        // the dimension last, or all of it as one
        let (moved, kept) = match self.dim {
            None => (aten::reshape(x, &[-1])?, vec![1; x.dim()]),
            Some(dim) if x.dim() == 0 => {
                wrap_dim(dim, 0)?;
                (aten::reshape(x, &[-1])?, vec![])
            }
            Some(dim) => {
                let d = wrap_dim(dim, x.dim())?;
                let mut kept = x.sizes().to_vec();
                if self.keepdim {
                    kept[d] = 1;
                } else {
                    kept.remove(d);
                }
                (aten::movedim_int(x, d as i64, -1)?, kept)
            }
        };
        let sorted = aten::sort(&moved, -1, false)?.0;
        let flat = aten::reshape(q, &[-1])?;
        let ranks = self.ranks(&sorted, &flat)?;
        let whole = |t: &Tensor| aten::to_dtype(t, DType::I64, false, false, None);
        let pick = |at: &Tensor| aten::gather(&sorted, -1, &whole(at)?, false);
        let found = match self.how {
            Interpolation::Lower => pick(&aten::floor(&ranks)?)?,
            Interpolation::Higher => pick(&aten::ceil(&ranks)?)?,
            Interpolation::Nearest => pick(&aten::round(&ranks)?)?,
            Interpolation::Linear | Interpolation::Midpoint => {
                let below = aten::floor(&ranks)?;
                let above = aten::ceil(&ranks)?;
                let (low, high) = (pick(&below)?, pick(&above)?);
                match self.how {
                    Interpolation::Midpoint => {
                        let half = aten::full_like(
                            &ranks,
                            Scalar::Float(0.5),
                            None,
                            None,
                            None,
                            None,
                            None,
                        )?;
                        aten::lerp_tensor(&low, &high, &half)?
                    }
                    _ => aten::lerp_tensor(&low, &high, &sub(&ranks, &below)?)?,
                }
            }
        };
        let mut shape = kept;
        if self.dim.is_none() && !self.keepdim {
            shape.clear();
        }
        if q.dim() == 0 {
            return aten::reshape(&aten::squeeze_dim(&found, -1)?, &shape);
        }
        shape.insert(0, q.sizes()[0]);
        aten::reshape(&aten::movedim_int(&found, -1, 0)?, &shape)
    }

    fn at_number(&self, q: f64) -> Result<Tensor> {
        if !(0.0..=1.0).contains(&q) {
            return Err(Error::value(format!(
                "{}() q must be in the range [0, 1] but got {q}",
                self.name
            )));
        }
        let dtype = Some(self.x.dtype());
        let q = aten::scalar_tensor(Scalar::Float(q), dtype, None, Some(self.x.device()), None)?;
        self.at(&q)
    }

    fn at_tensor(&self, q: &Tensor) -> Result<Tensor> {
        let inside = aten::logical_and(
            &aten::ge_scalar(q, Scalar::Int(0))?,
            &aten::le_scalar(q, Scalar::Int(1))?,
        )?;
        let message = format!("{}() q values must be in the range [0, 1]", self.name);
        aten::_assert_async_msg(&aten::all(&inside)?, &message)?;
        self.at(q)
    }
}

macro_rules! quantiles {
    ($($tensor:ident $scalar:ident $name:literal $ignores_nan:literal),*) => {$(
        pub(crate) fn $tensor(x: &Tensor, q: &Tensor, dim: Option<i64>, keepdim: bool, how: &str) -> Result<Tensor> {
            let how = Interpolation::of(how)?;
            Call { name: $name, x, dim, keepdim, how, ignores_nan: $ignores_nan }.at_tensor(q)
        }

        pub(crate) fn $scalar(x: &Tensor, q: f64, dim: Option<i64>, keepdim: bool, how: &str) -> Result<Tensor> {
            let how = Interpolation::of(how)?;
            Call { name: $name, x, dim, keepdim, how, ignores_nan: $ignores_nan }.at_number(q)
        }
    )*};
}
quantiles!(quantile quantile_scalar "quantile" false, nanquantile nanquantile_scalar "nanquantile" true);

// ---- covariances ------------------------------------------------------------------------------

/// A weight for each observation.
fn weights(given: Option<&Tensor>, observations: i64, what: &str, whole: bool) -> Result<()> {
    let Some(w) = given else { return Ok(()) };
    ensure_shape!(
        w.dim() <= 1,
        "cov(): expected {what} to have one or fewer dimensions but got {what} with {} dimensions",
        w.dim()
    );
    let floating = w.dtype().is_floating();
    let fits = if whole { !floating && !w.dtype().is_complex() } else { floating };
    ensure_dtype!(
        fits,
        "cov(): expected {what} to have {} dtype but got {what} with {} dtype",
        if whole { "integral" } else { "floating point" },
        w.dtype()
    );
    ensure_shape!(
        w.numel() == observations,
        "cov(): expected {what} to have the same numel as there are observations in the input but got \
         {} != {observations}",
        w.numel()
    );
    let positive = aten::all(&aten::ge_scalar(w, Scalar::Int(0))?)?;
    aten::_assert_async_msg(&positive, &format!("cov(): {what} cannot be negative"))
}

/// Rows are variables, columns observations.
pub(crate) fn cov(
    x: &Tensor,
    correction: i64,
    fweights: Option<&Tensor>,
    aweights: Option<&Tensor>,
) -> Result<Tensor> {
    ensure_shape!(
        x.dim() <= 2,
        "cov(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        x.dim()
    );
    ensure_dtype!(x.dtype() != DType::Bool, "cov(): bool dtype is not supported for input");
    let x = if x.dim() < 2 { aten::reshape(x, &[1, -1])? } else { x.clone() };
    let observations = x.sizes()[1];
    weights(fweights, observations, "fweights", true)?;
    weights(aweights, observations, "aweights", false)?;
    let w = match (fweights, aweights) {
        (Some(f), Some(a)) => Some(aten::mul_tensor(f, a)?),
        (Some(w), None) | (None, Some(w)) => Some(w.clone()),
        (None, None) => None,
    };
    let weighted = |x: &Tensor| match &w {
        Some(w) => aten::mul_tensor(x, w),
        None => Ok(x.clone()),
    };
    let sum = match &w {
        Some(w) => aten::sum(w, None)?,
        None => {
            let n = Scalar::Int(observations);
            aten::scalar_tensor(n, Some(DType::I64), None, Some(x.device()), None)?
        }
    };
    if w.is_some() {
        let some = aten::ne_scalar(&sum, Scalar::Int(0))?;
        aten::_assert_async_msg(&some, "cov(): weights sum to zero, can't be normalized")?;
    }
    let total = aten::sum_dim_int_list(&weighted(&x)?, Some(&[1]), false, None)?;
    let mean = aten::div_tensor(&total, &sum)?;
    let less = |by: Scalar| aten::sub_scalar(&sum, by, Scalar::Int(1));
    let divisor = match (&w, aweights) {
        (Some(w), Some(a)) if correction != 0 => {
            let squares = aten::sum(&aten::mul_tensor(w, a)?, None)?;
            let by = aten::div_tensor(&aten::mul_scalar(&squares, Scalar::Int(correction))?, &sum)?;
            sub(&sum, &by)?
        }
        _ => less(Scalar::Int(correction))?,
    };
    let divisor = aten::clamp(&divisor, Some(Scalar::Int(0)), None)?;
    let centred = sub(&x, &aten::unsqueeze(&mean, 1)?)?;
    let other = aten::conj(&aten::transpose_int(&weighted(&centred)?, 0, 1)?)?;
    // weights of more bits than the observations promote what they are multiplied with
    let dtype = DType::promote(centred.dtype(), other.dtype());
    let same = |t: &Tensor| aten::to_dtype(t, dtype, false, false, None);
    let products = aten::mm(&same(&centred)?, &same(&other)?)?;
    aten::squeeze(&aten::div_tensor(&products, &divisor)?)
}

pub(crate) fn corrcoef(x: &Tensor) -> Result<Tensor> {
    ensure_shape!(
        x.dim() <= 2,
        "corrcoef(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        x.dim()
    );
    let c = cov(x, 1, None, None)?;
    if c.dim() == 0 {
        return aten::div_tensor(&c, &c);
    }
    let variances = aten::diag(&c, 0)?;
    let variances = if c.dtype().is_complex() { aten::real(&variances)? } else { variances };
    let deviations = aten::sqrt(&variances)?;
    let c = aten::div_tensor(&c, &aten::reshape(&deviations, &[-1, 1])?)?;
    let c = aten::div_tensor(&c, &aten::reshape(&deviations, &[1, -1])?)?;
    // rounding may leave the range
    let clipped = |t: &Tensor| aten::clamp(t, Some(Scalar::Int(-1)), Some(Scalar::Int(1)));
    if c.dtype().is_complex() {
        return aten::complex(&clipped(&aten::real(&c)?)?, &clipped(&aten::imag(&c)?)?);
    }
    clipped(&c)
}

/// The mean of what is a number.
pub(crate) fn nanmean(
    x: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    ensure_dtype!(
        x.dtype().is_floating() || x.dtype().is_complex(),
        "nanmean(): expected input to have floating point or complex dtype but got {}",
        x.dtype()
    );
    let numbers = aten::logical_not(&aten::isnan(&aten::detach(x)?)?)?;
    let numbers = aten::sum_dim_int_list(&numbers, dim, keepdim, None)?;
    aten::div_tensor(&aten::nansum(x, dim, keepdim, dtype)?, &numbers)
}
