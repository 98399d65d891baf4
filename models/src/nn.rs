//! Layers that the models share.

use super::{Source, weight};
use straightline::ops::aten;
use straightline::{Result, Tensor};

/// `x w^T + b`.
pub struct Linear {
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    /// Reads `NAME.weight` (outputs, inputs) and `NAME.bias` (outputs).
    pub fn load(source: Source<'_>, name: &str, outputs: i64, inputs: i64) -> Result<Linear> {
        Ok(Linear {
            weight: weight(source, &format!("{name}.weight"), &[outputs, inputs])?,
            bias: weight(source, &format!("{name}.bias"), &[outputs])?,
        })
    }

    /// The layer on a tensor.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.linear(&self.weight, Some(&self.bias))
    }
}

/// Normalisation over the last dimension, then scale and shift.
pub struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    epsilon: f64,
}

impl LayerNorm {
    /// Reads `NAME.weight` and `NAME.bias`.
    pub fn load(source: Source<'_>, name: &str, width: i64, epsilon: f64) -> Result<LayerNorm> {
        Ok(LayerNorm {
            weight: weight(source, &format!("{name}.weight"), &[width])?,
            bias: weight(source, &format!("{name}.bias"), &[width])?,
            epsilon,
        })
    }

    /// The layer on a tensor.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let width = self.weight.sizes();
        x.layer_norm_with(width, Some(&self.weight), Some(&self.bias), self.epsilon)
    }
}

/// `[batch, length, heads * d]` to `[batch, heads, length, d]`, as a view.
pub fn split_heads(x: &Tensor, heads: i64) -> Result<Tensor> {
    let (batch, length, width) = (x.size(0)?, x.size(1)?, x.size(2)?);
    x.view([batch, length, heads, width / heads])?.transpose(1, 2)
}

/// The inverse of [`split_heads`].
pub fn merge_heads(x: &Tensor) -> Result<Tensor> {
    let (batch, heads, length, d) = (x.size(0)?, x.size(1)?, x.size(2)?, x.size(3)?);
    x.transpose(1, 2)?.reshape([batch, length, heads * d])
}

/// `softmax(q k^T * scale [+ mask]) v`, written out.
pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    scale: f64,
    mask: Option<&Tensor>,
) -> Result<Tensor> {
    let mut scores = q.matmul(&k.transpose(-1, -2)?)? * scale;
    if let Some(mask) = mask {
        scores = &scores + mask;
    }
    scores.softmax(-1)?.matmul(v)
}

/// A square convolution of images, without bias; padded with zeros.
pub struct Conv {
    weight: Tensor,
    stride: i64,
}

impl Conv {
    /// Reads `NAME.weight` (outputs, inputs, size, size).
    pub fn load(
        source: Source<'_>,
        name: &str,
        (inputs, outputs): (i64, i64),
        size: i64,
        stride: i64,
    ) -> Result<Conv> {
        let sizes = [outputs, inputs, size, size];
        Ok(Conv { weight: weight(source, &format!("{name}.weight"), &sizes)?, stride })
    }

    /// The layer on a tensor.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        // as many zeros as keep the sizes at stride 1
        let padding = self.weight.size(2)? / 2;
        let (stride, padding) = ([self.stride; 2], [padding; 2]);
        aten::conv2d(x, &self.weight, None, &stride, &padding, &[1, 1], 1)
    }
}

/// Normalisation of channels by statistics of the training, then scale and shift.
pub struct BatchNorm {
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
}

impl BatchNorm {
    /// Reads `NAME.weight`, `NAME.bias`, `NAME.running_mean` and `NAME.running_var`.
    pub fn load(source: Source<'_>, name: &str, channels: i64) -> Result<BatchNorm> {
        let mut part = |part: &str| weight(source, &format!("{name}.{part}"), &[channels]);
        Ok(BatchNorm {
            weight: part("weight")?,
            bias: part("bias")?,
            mean: part("running_mean")?,
            variance: part("running_var")?,
        })
    }

    /// The layer on a tensor.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let affine = (Some(&self.weight), Some(&self.bias));
        let running = (Some(&self.mean), Some(&self.variance));
        aten::batch_norm(x, affine.0, affine.1, running.0, running.1, false, 0.1, 1e-5, false)
    }
}
