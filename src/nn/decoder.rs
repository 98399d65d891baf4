//! A transformer's decoder, and encoder and decoder together.

use super::activation::Dropout;
use super::attention::{
    AttentionMask, MultiheadAttention, TransformerEncoderLayer, TransformerOptions,
};
use super::init;
use super::linear::Linear;
use super::module::{Layer, Module};
use super::norm::LayerNorm;
use super::transformer::TransformerEncoder;
use crate::error::Result;
use crate::tensor::{Int, Tensor};
use straightline_catalog::DType;

/// What the attentions of a decoder do not look at: that of the sequence to itself, and that to what
/// the encoder gives, which is called memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecoderMask<'a> {
    /// For the attention to itself.
    pub own: AttentionMask<'a>,
    /// For the attention to the memory.
    pub memory: AttentionMask<'a>,
}

/// Attention of a sequence to itself, attention to a memory, then two linear layers, each with
/// normalisation, dropout and a way around.
///
/// ```
/// use straightline::{Tensor, nn::TransformerDecoderLayer};
/// let layer = TransformerDecoderLayer::new(16, 4)?;
/// let (x, memory) = (Tensor::randn([5, 2, 16])?, Tensor::randn([7, 2, 16])?);
/// assert_eq!(layer.forward(&x, &memory)?.sizes(), [5, 2, 16]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct TransformerDecoderLayer {
    /// The attention to itself.
    pub self_attn: MultiheadAttention,
    /// The attention to the memory.
    pub multihead_attn: MultiheadAttention,
    /// The first linear layer.
    pub linear1: Linear,
    dropout: Dropout,
    /// The second one.
    pub linear2: Linear,
    /// The normalisation of the first attention.
    pub norm1: LayerNorm,
    /// That of the second.
    pub norm2: LayerNorm,
    /// That of the linear layers.
    pub norm3: LayerNorm,
    #[module(skip)]
    options: TransformerOptions,
}

impl TransformerDecoderLayer {
    /// With vectors of `width` numbers, which the heads divide.
    #[track_caller]
    pub fn new(width: impl Int, heads: impl Int) -> Result<TransformerDecoderLayer> {
        TransformerDecoderLayer::new_with(width, heads, TransformerOptions::default())
    }

    /// With [`TransformerOptions`].
    ///
    /// # Errors
    /// The heads do not divide the width; a dropout outside of 0 to 1.
    #[track_caller]
    pub fn new_with(
        width: impl Int,
        heads: impl Int,
        options: TransformerOptions,
    ) -> Result<TransformerDecoderLayer> {
        let (width, heads, o) = (width.to_i64(), heads.to_i64(), options);
        let attention = || -> Result<MultiheadAttention> {
            let made = MultiheadAttention::new(width, heads)?;
            Ok(made.batch_first(o.batch_first).dropout(o.dropout))
        };
        let norm = || LayerNorm::new_with(width, o.eps, true);
        Ok(TransformerDecoderLayer {
            self_attn: attention()?,
            multihead_attn: attention()?,
            linear1: Linear::new(width, o.hidden)?,
            dropout: Dropout::new(o.dropout)?,
            linear2: Linear::new(o.hidden, width)?,
            norm1: norm()?,
            norm2: norm()?,
            norm3: norm()?,
            options: o,
        })
    }

    /// The layer on a sequence and a memory, all of which it sees.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, memory: &Tensor) -> Result<Tensor> {
        self.forward_masked(x, memory, DecoderMask::default())
    }

    /// The layer where an attention may not look at everything.
    #[track_caller]
    pub fn forward_masked(
        &self,
        x: &Tensor,
        memory: &Tensor,
        mask: DecoderMask<'_>,
    ) -> Result<Tensor> {
        let own =
            |x: &Tensor| self.dropout.forward(&self.self_attn.forward_masked(x, x, x, mask.own)?);
        let other = |x: &Tensor| {
            let y = self.multihead_attn.forward_masked(x, memory, memory, mask.memory)?;
            self.dropout.forward(&y)
        };
        let feed = |x: &Tensor| {
            let hidden = (self.options.activation)(&self.linear1.forward(x)?)?;
            let hidden = self.dropout.forward(&hidden)?;
            self.dropout.forward(&self.linear2.forward(&hidden)?)
        };
        if self.options.norm_first {
            let x = x.add(own(&self.norm1.forward(x)?)?)?;
            let x = x.add(other(&self.norm2.forward(&x)?)?)?;
            x.add(feed(&self.norm3.forward(&x)?)?)
        } else {
            let x = self.norm1.forward(&x.add(own(x)?)?)?;
            let x = self.norm2.forward(&x.add(other(&x)?)?)?;
            self.norm3.forward(&x.add(feed(&x)?)?)
        }
    }
}

/// Decoder layers one after another that begin with the same values, and perhaps a normalisation.
///
/// ```
/// use straightline::nn::{LayerNorm, TransformerDecoder, TransformerDecoderLayer};
/// use straightline::Tensor;
/// let layer = TransformerDecoderLayer::new(16, 4)?;
/// let decoder = TransformerDecoder::new(&layer, 2)?.with_norm(LayerNorm::new(16)?);
/// let (x, memory) = (Tensor::randn([5, 2, 16])?, Tensor::randn([7, 2, 16])?);
/// assert_eq!(decoder.forward(&x, &memory)?.sizes(), [5, 2, 16]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct TransformerDecoder {
    /// The layers.
    pub layers: Vec<TransformerDecoderLayer>,
    /// What the last one's results go through.
    pub norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// So many copies of a layer, each with parameters of its own.
    ///
    /// # Errors
    /// A negative number of layers.
    #[track_caller]
    pub fn new(layer: &TransformerDecoderLayer, count: impl Int) -> Result<TransformerDecoder> {
        let count = count.to_i64();
        ensure_value!(count >= 0, "num_layers must not be negative, got {count}");
        let layers = (0..count).map(|_| layer.deep_copy()).collect::<Result<_>>()?;
        Ok(TransformerDecoder { layers, norm: None })
    }

    /// With a normalisation after the last layer.
    #[must_use]
    pub fn with_norm(mut self, norm: LayerNorm) -> Self {
        self.norm = Some(norm);
        self
    }

    /// The layers on a sequence and a memory, all of which they see.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, memory: &Tensor) -> Result<Tensor> {
        self.forward_masked(x, memory, DecoderMask::default())
    }

    /// The layers where an attention may not look at everything.
    #[track_caller]
    pub fn forward_masked(
        &self,
        x: &Tensor,
        memory: &Tensor,
        mask: DecoderMask<'_>,
    ) -> Result<Tensor> {
        let mut x = x.clone();
        for layer in &self.layers {
            x = layer.forward_masked(&x, memory, mask)?;
        }
        match &self.norm {
            Some(norm) => norm.forward(&x),
            None => Ok(x),
        }
    }
}

/// Encoder and decoder of PyTorch's `nn.Transformer`, each with a normalisation behind it.
///
/// ```
/// use straightline::nn::{Transformer, TransformerOptions};
/// use straightline::Tensor;
/// let options = TransformerOptions::default().hidden(32).batch_first(true);
/// let model = Transformer::new_with(16, 4, 2, 2, options)?;
/// let (source, target) = (Tensor::randn([2, 7, 16])?, Tensor::randn([2, 5, 16])?);
/// assert_eq!(model.forward(&source, &target)?.sizes(), [2, 5, 16]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct Transformer {
    /// What makes the memory of a source.
    pub encoder: TransformerEncoder,
    /// What makes the result of a target and a memory.
    pub decoder: TransformerDecoder,
}

impl Transformer {
    /// With vectors of `width` numbers, which the heads divide, and six layers each.
    #[track_caller]
    pub fn new(width: impl Int, heads: impl Int) -> Result<Transformer> {
        Transformer::new_with(width, heads, 6, 6, TransformerOptions::default())
    }

    /// With numbers of encoder and decoder layers, and [`TransformerOptions`]. Matrices begin as
    /// Xavier's, as PyTorch's do.
    ///
    /// # Errors
    /// As those of the layers.
    #[track_caller]
    pub fn new_with(
        width: impl Int,
        heads: impl Int,
        encoders: impl Int,
        decoders: impl Int,
        options: TransformerOptions,
    ) -> Result<Transformer> {
        let (width, heads) = (width.to_i64(), heads.to_i64());
        let norm = || LayerNorm::new_with(width, options.eps, true);
        let layer = TransformerEncoderLayer::new_with(width, heads, options)?;
        let encoder = TransformerEncoder::new(&layer, encoders)?.with_norm(norm()?);
        let layer = TransformerDecoderLayer::new_with(width, heads, options)?;
        let decoder = TransformerDecoder::new(&layer, decoders)?.with_norm(norm()?);
        let model = Transformer { encoder, decoder };
        for p in model.parameters().iter().filter(|p| p.dim() > 1) {
            init::xavier_uniform_(p, 1.0)?;
        }
        Ok(model)
    }

    /// The decoder on a target and on what the encoder makes of a source, all of which they see.
    #[track_caller]
    pub fn forward(&self, source: &Tensor, target: &Tensor) -> Result<Tensor> {
        self.forward_masked(source, target, AttentionMask::default(), DecoderMask::default())
    }

    /// The same where attentions may not look at everything.
    #[track_caller]
    pub fn forward_masked(
        &self,
        source: &Tensor,
        target: &Tensor,
        mask: AttentionMask<'_>,
        decoder: DecoderMask<'_>,
    ) -> Result<Tensor> {
        let memory = self.encoder.forward_masked(source, mask)?;
        self.decoder.forward_masked(target, &memory, decoder)
    }

    /// A mask of positions by which each sees itself and those before it only: `[length, length]`,
    /// `true` above the diagonal.
    ///
    /// ```
    /// use straightline::nn::Transformer;
    /// let mask = Transformer::later_positions(2)?;
    /// assert_eq!(mask.to_vec2::<bool>()?, [[false, true], [false, false]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[doc(alias = "generate_square_subsequent_mask")]
    pub fn later_positions(length: impl Int) -> Result<Tensor> {
        let length = length.to_i64();
        Tensor::ones([length, length])?.triu_with(1)?.to_dtype(DType::Bool)
    }
}
