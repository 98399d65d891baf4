//! Initial values: each function fills a tensor in place, as the one of its name in
//! `torch.nn.init` does, from the default generator and without being recorded.
//!
//! ```
//! use straightline::{Tensor, nn::init};
//! let w = Tensor::empty([64, 32])?;
//! init::xavier_uniform_(&w, 1.0)?;
//! let bound = (6.0f32 / 96.0).sqrt();
//! assert!(w.abs()?.max()?.item::<f32>()? <= bound);
//! # Ok::<(), straightline::Error>(())
//! ```

use crate::autograd::no_grad;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Scalar};

/// Which number of connections keeps its variance: those that arrive, or those that leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fan {
    /// Inputs of an output: the variance is kept going forward.
    #[default]
    In,
    /// Outputs of an input: the variance is kept going backward.
    Out,
}

/// What follows a layer, for [`gain`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Nonlinearity {
    /// Nothing, or a convolution.
    Linear,
    /// A sigmoid.
    Sigmoid,
    /// A tanh.
    Tanh,
    /// A ReLU.
    Relu,
    /// A leaky ReLU of this slope.
    LeakyRelu(f64),
    /// A SELU.
    Selu,
}

/// By how much a nonlinearity shrinks the standard deviation (PyTorch's `calculate_gain`).
///
/// ```
/// use straightline::nn::init::{Nonlinearity, gain};
/// assert_eq!(gain(Nonlinearity::Tanh), 5.0 / 3.0);
/// ```
pub fn gain(nonlinearity: Nonlinearity) -> f64 {
    match nonlinearity {
        Nonlinearity::Linear | Nonlinearity::Sigmoid => 1.0,
        Nonlinearity::Tanh => 5.0 / 3.0,
        Nonlinearity::Relu => 2f64.sqrt(),
        Nonlinearity::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
        Nonlinearity::Selu => 0.75,
    }
}

/// The numbers of inputs of an output and of outputs of an input, of a weight `[out, in, ..]`.
///
/// ```
/// use straightline::{Tensor, nn::init};
/// assert_eq!(init::fans(&Tensor::empty([8, 3, 5, 5])?)?, (75, 200));
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// The tensor has less than two dimensions.
pub fn fans(t: &Tensor) -> Result<(i64, i64)> {
    let [outputs, inputs, field @ ..] = t.sizes() else {
        return Err(crate::Error::value(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions",
        ));
    };
    let field: i64 = field.iter().product();
    Ok((inputs * field, outputs * field))
}

/// Equally likely numbers from `from` to `to`.
#[track_caller]
pub fn uniform_(t: &Tensor, from: f64, to: f64) -> Result<Tensor> {
    no_grad(|| t.uniform_(from, to))
}

/// Normally distributed numbers.
#[track_caller]
pub fn normal_(t: &Tensor, mean: f64, std: f64) -> Result<Tensor> {
    no_grad(|| t.normal_(mean, std))
}

/// Normally distributed numbers within `min..max`: all are drawn anew until none falls outside, and
/// the first of each that does not is kept. It reads data, so it cannot be captured.
///
/// ```
/// use straightline::{Tensor, nn::init};
/// let t = init::trunc_normal_(&Tensor::empty([100])?, 0.0, 1.0, -0.5, 0.5)?;
/// assert!(t.abs()?.max()?.item::<f32>()? <= 0.5);
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn trunc_normal_(t: &Tensor, mean: f64, std: f64, min: f64, max: f64) -> Result<Tensor> {
    let below = |x: f64| -> Result<f64> {
        let x = Tensor::with(DType::F64).literal((x - mean) / std / 2f64.sqrt())?;
        Ok((1.0 + x.erf()?.item::<f64>()?) / 2.0)
    };
    let likely = below(max)? - below(min)? > 0.3;
    let peak = -0.5 * ((min.max(mean.min(max)) - mean) / std).powi(2);
    // numbers, and which of them are refused
    let draw = || -> Result<(Tensor, Tensor)> {
        if likely {
            let drawn = t.empty_like()?.normal_(mean, std)?;
            let outside = drawn.lt(min)?.logical_or(drawn.gt(max)?)?;
            return Ok((drawn, outside));
        }
        let drawn = t.empty_like()?.uniform_(min, max)?;
        let density = drawn.sub(mean)?.div(std)?.square()?.mul(-0.5)?.sub(peak)?;
        let outside = t.empty_like()?.uniform_(0.0, 1.0)?.log()?.gt(density)?;
        Ok((drawn, outside))
    };
    no_grad(|| {
        let (mut drawn, mut outside) = draw()?;
        while outside.any()?.item::<bool>()? {
            let (again, refused) = draw()?;
            drawn = outside.where_cond(&again, &drawn)?;
            outside = outside.logical_and(refused)?;
        }
        t.copy_(drawn)
    })
}

/// One number.
#[track_caller]
pub fn constant_(t: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
    let value = value.into();
    no_grad(|| t.fill_(value))
}

/// Zeros.
#[track_caller]
pub fn zeros_(t: &Tensor) -> Result<Tensor> {
    no_grad(|| t.zero_())
}

/// Ones.
#[track_caller]
pub fn ones_(t: &Tensor) -> Result<Tensor> {
    constant_(t, 1.0)
}

/// A matrix with ones on its diagonal.
///
/// # Errors
/// The tensor is no matrix.
#[track_caller]
pub fn eye_(t: &Tensor) -> Result<Tensor> {
    ensure_value!(t.dim() == 2, "Only tensors with 2 dimensions are supported");
    no_grad(|| {
        t.zero_()?;
        t.diagonal()?.fill_(1.0)
    })?;
    Ok(t.clone())
}

/// Glorot's uniform distribution: variance `gain^2 * 2 / (inputs + outputs)`.
#[track_caller]
pub fn xavier_uniform_(t: &Tensor, gain: f64) -> Result<Tensor> {
    let (inputs, outputs) = fans(t)?;
    let bound = 3f64.sqrt() * (gain * (2.0 / (inputs + outputs) as f64).sqrt());
    uniform_(t, -bound, bound)
}

/// Glorot's normal distribution.
#[track_caller]
pub fn xavier_normal_(t: &Tensor, gain: f64) -> Result<Tensor> {
    let (inputs, outputs) = fans(t)?;
    normal_(t, 0.0, gain * (2.0 / (inputs + outputs) as f64).sqrt())
}

/// He's uniform distribution: variance `gain^2 / fan`.
///
/// ```
/// use straightline::{Tensor, nn::init::{self, Fan, Nonlinearity}};
/// let w = init::kaiming_uniform_(&Tensor::empty([4, 6])?, Fan::In, Nonlinearity::Relu)?;
/// assert!(w.abs()?.max()?.item::<f32>()? <= 1.0);
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn kaiming_uniform_(t: &Tensor, fan: Fan, nonlinearity: Nonlinearity) -> Result<Tensor> {
    if t.numel() == 0 {
        return Ok(t.clone());
    }
    let bound = 3f64.sqrt() * kaiming(t, fan, nonlinearity)?;
    uniform_(t, -bound, bound)
}

/// He's normal distribution.
#[track_caller]
pub fn kaiming_normal_(t: &Tensor, fan: Fan, nonlinearity: Nonlinearity) -> Result<Tensor> {
    if t.numel() == 0 {
        return Ok(t.clone());
    }
    let std = kaiming(t, fan, nonlinearity)?;
    normal_(t, 0.0, std)
}

fn kaiming(t: &Tensor, fan: Fan, nonlinearity: Nonlinearity) -> Result<f64> {
    let (inputs, outputs) = fans(t)?;
    let fan = match fan {
        Fan::In => inputs,
        Fan::Out => outputs,
    };
    Ok(gain(nonlinearity) / (fan as f64).sqrt())
}

/// A random matrix with orthonormal rows or columns, times a gain; dimensions after the first count
/// as one.
///
/// ```
/// use straightline::{Tensor, nn::init};
/// let w = init::orthogonal_(&Tensor::empty([3, 5])?, 1.0)?;
/// straightline::assert_close(&w.matmul(w.t()?)?, &Tensor::eye(3)?)?;
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// The tensor has less than two dimensions.
#[track_caller]
pub fn orthogonal_(t: &Tensor, gain: f64) -> Result<Tensor> {
    ensure_value!(t.dim() >= 2, "Only tensors with 2 or more dimensions are supported");
    if t.numel() == 0 {
        return Ok(t.clone());
    }
    let rows = t.size(0)?;
    let columns = t.numel() / rows;
    no_grad(|| {
        let random = Tensor::with(t).empty([rows, columns])?.normal_(0.0, 1.0)?;
        let random = if rows < columns { random.t()? } else { random };
        let (q, r) = aten::linalg_qr(&random, "reduced")?;
        // with the signs of R's diagonal all orthogonal matrices are equally likely
        let q = q.mul(r.diagonal()?.sign()?)?;
        let q = if rows < columns { q.t()? } else { q };
        t.copy_(q.reshape(t.sizes())?)?;
        t.mul_(gain)
    })
}

/// Zeros, but normally distributed numbers in a random part of each column, the part that
/// `sparsity` leaves.
///
/// # Errors
/// The tensor is no matrix.
#[track_caller]
pub fn sparse_(t: &Tensor, sparsity: f64, std: f64) -> Result<Tensor> {
    ensure_value!(t.dim() == 2, "Only tensors with 2 dimensions are supported");
    let (rows, columns) = (t.size(0)?, t.size(1)?);
    let zeros = (sparsity * rows as f64).ceil() as i64;
    no_grad(|| {
        t.normal_(0.0, std)?;
        for column in 0..columns {
            let chosen = Tensor::randperm(rows)?.narrow(0, 0, zeros.clamp(0, rows))?;
            t.select(1, column)?.index_fill_(0, &chosen, 0.0)?;
        }
        Ok(t.clone())
    })
}

/// Convolution weights that leave each channel as it is.
///
/// ```
/// use straightline::{Tensor, nn::init};
/// let w = init::dirac_(&Tensor::empty([2, 2, 3])?)?;
/// let x = Tensor::randn([1, 2, 7])?;
/// straightline::assert_close(&x.conv1d(&w, None, 1, 1)?, &x)?;
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// The tensor has not three, four or five dimensions.
#[track_caller]
pub fn dirac_(t: &Tensor) -> Result<Tensor> {
    ensure_value!(
        (3..=5).contains(&t.dim()),
        "Only tensors with 3, 4, or 5 dimensions are supported"
    );
    no_grad(|| {
        t.zero_()?;
        for channel in 0..t.size(0)?.min(t.size(1)?) {
            let mut kernel = t.select(0, channel)?.select(0, channel)?;
            while kernel.dim() > 0 {
                kernel = kernel.select(0, kernel.size(0)? / 2)?;
            }
            kernel.fill_(1.0)?;
        }
        Ok(t.clone())
    })
}

/// How linear layers and convolutions begin: the weight, then the bias.
pub(super) fn affine(weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    kaiming_uniform_(weight, Fan::In, Nonlinearity::LeakyRelu(5f64.sqrt()))?;
    if let Some(bias) = bias {
        let (inputs, _) = fans(weight)?;
        if inputs > 0 {
            let bound = 1.0 / (inputs as f64).sqrt();
            uniform_(bias, -bound, bound)?;
        }
    }
    Ok(())
}
