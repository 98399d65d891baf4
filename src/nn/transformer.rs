//! A transformer's encoder: layers one after another.

use super::attention::{AttentionMask, TransformerEncoderLayer};
use super::module::{Layer, Module};
use super::norm::LayerNorm;
use crate::error::Result;
use crate::tensor::{Int, Tensor};

/// Layers one after another that begin with the same values, and perhaps a normalisation.
///
/// ```
/// use straightline::nn::{Layer, LayerNorm, Module, TransformerEncoder, TransformerEncoderLayer};
/// use straightline::Tensor;
/// let layer = TransformerEncoderLayer::new(16, 4)?;
/// let encoder = TransformerEncoder::new(&layer, 2)?.with_norm(LayerNorm::new(16)?);
/// assert_eq!(encoder.forward(&Tensor::randn([5, 2, 16])?)?.sizes(), [5, 2, 16]);
/// let state = encoder.state_dict()?;
/// assert!(state.contains_key("layers.1.self_attn.in_proj_weight") && state.contains_key("norm.bias"));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct TransformerEncoder {
    /// The layers.
    pub layers: Vec<TransformerEncoderLayer>,
    /// What the last one's results go through.
    pub norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// So many copies of a layer, each with parameters of its own.
    ///
    /// # Errors
    /// A negative number of layers.
    #[track_caller]
    pub fn new(layer: &TransformerEncoderLayer, count: impl Int) -> Result<TransformerEncoder> {
        let count = count.to_i64();
        ensure_value!(count >= 0, "num_layers must not be negative, got {count}");
        let layers = (0..count).map(|_| layer.deep_copy()).collect::<Result<_>>()?;
        Ok(TransformerEncoder { layers, norm: None })
    }

    /// With a normalisation after the last layer, as layers that normalise first need it.
    #[must_use]
    pub fn with_norm(mut self, norm: LayerNorm) -> Self {
        self.norm = Some(norm);
        self
    }

    /// The layers where an attention may not look at everything.
    ///
    /// ```
    /// use straightline::nn::{AttentionMask, TransformerEncoder, TransformerEncoderLayer};
    /// use straightline::{DType, Tensor};
    /// let encoder = TransformerEncoder::new(&TransformerEncoderLayer::new(8, 2)?, 2)?;
    /// let later = Tensor::ones([5, 5])?.triu_with(1)?.to_dtype(DType::Bool)?;
    /// let mask = AttentionMask { positions: Some(&later), ..AttentionMask::default() };
    /// assert_eq!(encoder.forward_masked(&Tensor::randn([5, 1, 8])?, mask)?.sizes(), [5, 1, 8]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn forward_masked(&self, x: &Tensor, mask: AttentionMask<'_>) -> Result<Tensor> {
        let mut x = x.clone();
        for layer in &self.layers {
            x = layer.forward_masked(&x, mask)?;
        }
        match &self.norm {
            Some(norm) => norm.forward(&x),
            None => Ok(x),
        }
    }
}

impl Layer for TransformerEncoder {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_masked(x, AttentionMask::default())
    }
}
