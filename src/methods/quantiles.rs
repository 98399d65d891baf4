//! Quantiles, covariances, distances, and statistics that come in pairs.

use crate::error::{Error, Result};
use crate::tensor::literal;
use crate::tensor::{Int, Literal, Tensor};
use std::panic::Location;
use straightline_catalog::DType;

/// The positions, among the sorted elements along a dimension, between which parts of them lie, and
/// how far.
fn ranks(parts: &[f64], of: &Tensor, dim: i64) -> Result<(Tensor, Tensor, Tensor)> {
    let (dtype, size) = (of.dtype(), of.size(dim)?);
    ensure_dtype!(
        matches!(dtype, DType::F32 | DType::F64),
        "quantile() input tensor must be either float or double dtype, and this is {dtype}"
    );
    if let Some(q) = parts.iter().find(|q| !(0.0..=1.0).contains(*q)) {
        return Err(Error::value(format!(
            "quantile() q values must be in the range [0, 1], and this is {q}"
        )));
    }
    ensure_shape!(size != 0, "quantile() input tensor must be non-empty");
    let last = (size - 1) as f64;
    let at = parts.iter().map(|q| match dtype {
        // rounded as PyTorch's are
        DType::F32 => f64::from(*q as f32 * last as f32),
        _ => q * last,
    });
    let at: Vec<f64> = at.collect();
    let whole = |f: fn(f64) -> f64| -> Vec<i64> { at.iter().map(|x| f(*x) as i64).collect() };
    let between: Vec<f64> = at.iter().map(|x| x - x.floor()).collect();
    let there = |t: Tensor| match of.device().is_cpu() {
        true => Ok(t),
        false => t.to_device(of.device()),
    };
    Ok((
        there(Tensor::from_vec(whole(f64::floor), -1)?)?,
        there(Tensor::from_vec(whole(f64::ceil), -1)?)?,
        there(Tensor::with(dtype).literal(between)?)?,
    ))
}

impl Tensor {
    /// The values below which these parts of all elements lie, between 0 and 1, interpolated
    /// linearly, as `torch.quantile` does: a number gives a 0-dim tensor, several give one of as
    /// many elements. NaN where an element is.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([4.0, 1.0, 3.0, 2.0])?;
    /// assert_eq!(x.quantile(0.5)?.item::<f32>()?, 2.5);
    /// assert_eq!(x.quantile([0.0, 0.25, 1.0])?.to_vec::<f32>()?, [1.0, 1.75, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Integers, no elements, and parts that are not between 0 and 1.
    #[track_caller]
    pub fn quantile(&self, q: impl Literal) -> Result<Tensor> {
        self.flatten()?.quantile_dim(q, 0)
    }

    /// [`Tensor::quantile`] along a dimension. Several parts make a dimension in front.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    /// assert_eq!(x.quantile_dim(0.5, 1)?.to_vec::<f32>()?, [2.0, 5.0]);
    /// assert_eq!(x.quantile_keepdim([0.0, 1.0], 1)?.shape(), [2, 2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::quantile`].
    #[track_caller]
    pub fn quantile_dim(&self, q: impl Literal, dim: impl Int) -> Result<Tensor> {
        self.quantile_over(q, dim, false)
    }

    /// [`Tensor::quantile_dim`], whose dimensions stay, with size 1.
    ///
    /// ```
    /// use straightline::tensor;
    /// assert_eq!(tensor([[1.0, 2.0]])?.quantile_keepdim([0.0, 1.0], 1)?.shape(), [2, 1, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn quantile_keepdim(&self, q: impl Literal, dim: impl Int) -> Result<Tensor> {
        self.quantile_over(q, dim, true)
    }

    #[track_caller]
    fn quantile_over(&self, q: impl Literal, dim: impl Int, keepdim: bool) -> Result<Tensor> {
        let at = Location::caller();
        self.quantile_of(q, dim, keepdim)
            .map_err(|e| e.with_call("quantile", [self]).with_location(at))
    }

    #[track_caller]
    fn quantile_of(&self, q: impl Literal, dim: impl Int, keepdim: bool) -> Result<Tensor> {
        let (parts, several) = literal::list(&q)
            .ok_or_else(|| Error::shape("quantile() q must be a number or a list of numbers"))?;
        let (low, high, between) = ranks(&parts, self, dim.to_i64())?;
        let sorted = self.movedim(dim.to_i64(), -1)?.sort(-1, false)?.0;
        // NaN is sorted last, and one is enough
        let last = sorted.select(-1, -1)?;
        let sorted = sorted.masked_fill(&last.isnan()?.unsqueeze(-1)?, f64::NAN)?;
        let (low, high) = (sorted.index_select(-1, &low)?, sorted.index_select(-1, &high)?);
        let found = low.lerp(&high, between)?;
        let found = match (keepdim, dim.to_i64() < 0) {
            (false, _) => found,
            // the parts lie behind
            (true, true) => found.unsqueeze(-2)?.movedim(-2, dim.to_i64() - 1)?,
            (true, false) => found.unsqueeze(-2)?.movedim(-2, dim.to_i64())?,
        };
        match several {
            false => found.squeeze_dim(-1),
            true => found.movedim(-1, 0),
        }
    }

    /// The covariances of variables, a row each, over observations, a column each: divided by one
    /// less than these, as `torch.cov` does.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])?;
    /// assert_eq!(x.cov()?.to_vec::<f32>()?, [1.0, -1.0, -1.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// More than two dimensions.
    #[track_caller]
    pub fn cov(&self) -> Result<Tensor> {
        let x = match self.dim() {
            0 | 1 => self.reshape((1, -1))?,
            2 => self.clone(),
            n => {
                let e = Error::shape(format!(
                    "cov(): expected input to have two or fewer dimensions but got an input with {n} dimensions"
                ));
                return Err(e.with_call("cov", [self]).with_location(Location::caller()));
            }
        };
        let n = x.size(1)?;
        let x = match x.dtype().is_floating() || x.dtype().is_complex() {
            true => x,
            false => x.to_dtype(crate::default_dtype())?,
        };
        let centred = x.sub(&x.mean_keepdim(1)?)?;
        let sums = centred.matmul(&centred.adjoint()?)?;
        let covariances = sums.div((n - 1).max(0) as f64)?;
        match self.dim() {
            2 => Ok(covariances),
            _ => covariances.reshape(()),
        }
    }

    /// [`Tensor::cov`], each divided by the deviations of its two variables: from -1 to 1, as
    /// `torch.corrcoef` does.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])?;
    /// straightline::assert_close(&x.corrcoef()?, &tensor([[1.0, -1.0], [-1.0, 1.0]])?)?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// More than two dimensions.
    #[track_caller]
    pub fn corrcoef(&self) -> Result<Tensor> {
        let c = self.cov()?;
        if c.dim() == 0 {
            return c.div(&c);
        }
        let deviations = c.diag()?.sqrt()?;
        c.div(&deviations.unsqueeze(1)?)?.div(&deviations)?.clamp(-1, 1)
    }
}
