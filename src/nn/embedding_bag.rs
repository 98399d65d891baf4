//! Sums of vectors that are looked up by number.

use super::init;
use super::module::Layer;
use super::parameter::Parameter;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Int, Tensor};
use straightline_catalog::DType;

/// How the vectors of a bag become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BagMode {
    /// Their sum.
    Sum,
    /// Their mean.
    #[default]
    Mean,
    /// The largest element of each column.
    Max,
}

/// What an [`EmbeddingBag`] can be told.
///
/// ```
/// use straightline::nn::{BagMode, EmbeddingBag, EmbeddingBagOptions};
/// let options = EmbeddingBagOptions::default().mode(BagMode::Sum).padding(0);
/// let bags = EmbeddingBag::new_with(10, 3, options)?;
/// assert_eq!(bags.weight.i(0)?.to_vec::<f32>()?, [0.0; 3]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EmbeddingBagOptions {
    mode: BagMode,
    include_last_offset: bool,
    padding: Option<i64>,
}

impl EmbeddingBagOptions {
    /// How vectors become one; their mean.
    #[must_use]
    pub fn mode(mut self, mode: BagMode) -> Self {
        self.mode = mode;
        self
    }

    /// Whether the last offset is where the last bag ends; no, and it begins there.
    #[must_use]
    pub fn include_last_offset(mut self, include: bool) -> Self {
        self.include_last_offset = include;
        self
    }

    /// The vector of this number (from the end where negative) is zero, gets no gradient and does
    /// not count.
    #[must_use]
    pub fn padding(mut self, index: impl Int) -> Self {
        self.padding = Some(index.to_i64());
        self
    }
}

/// A table of vectors, of which bags are put together: [`Embedding`](super::Embedding), and then a
/// sum, mean or maximum, at once.
///
/// ```
/// use straightline::nn::{EmbeddingBag, Layer};
/// use straightline::tensor;
/// let bags = EmbeddingBag::new(10, 3)?;
/// assert_eq!(bags.forward(&tensor([[1, 2], [4, 4]])?)?.sizes(), [2, 3]);
/// // bags of 1 and 3 numbers, by where they begin
/// let y = bags.forward_with(&tensor([1, 2, 4, 5])?, Some(&tensor([0, 1])?), None)?;
/// assert_eq!(y.sizes(), [2, 3]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, straightline_derive::Module)]
pub struct EmbeddingBag {
    /// `[count, width]`.
    pub weight: Parameter,
    #[module(skip)]
    options: EmbeddingBagOptions,
}

impl EmbeddingBag {
    /// `count` vectors of `width` normally distributed numbers, of which means are taken.
    #[track_caller]
    pub fn new(count: impl Int, width: impl Int) -> Result<EmbeddingBag> {
        EmbeddingBag::new_with(count, width, EmbeddingBagOptions::default())
    }

    /// With [`EmbeddingBagOptions`].
    ///
    /// # Errors
    /// There is no vector of the padding's number.
    #[track_caller]
    pub fn new_with(
        count: impl Int,
        width: impl Int,
        options: EmbeddingBagOptions,
    ) -> Result<EmbeddingBag> {
        let (count, mut options) = (count.to_i64(), options);
        if let Some(padding) = options.padding {
            ensure_value!(
                (-count..count).contains(&padding),
                "padding_idx must be within num_embeddings"
            );
            options.padding = Some(padding.rem_euclid(count));
        }
        let weight = init::normal_(&Tensor::empty([count, width.to_i64()])?, 0.0, 1.0)?;
        if let Some(padding) = options.padding {
            weight.select(0, padding)?.zero_()?;
        }
        Ok(EmbeddingBag { weight: Parameter::new(&weight)?, options })
    }

    /// Bags of numbers: rows of `[bags, numbers]`, or parts of `[numbers]` that begin at offsets.
    /// Each vector is multiplied by its weight, of the sizes of the numbers, in a sum.
    ///
    /// # Errors
    /// Offsets of rows or none of a list; weights where it is no sum.
    #[track_caller]
    pub fn forward_with(
        &self,
        numbers: &Tensor,
        offsets: Option<&Tensor>,
        weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        let o = &self.options;
        if let Some(weights) = weights {
            ensure_value!(
                weights.sizes() == numbers.sizes(),
                "embedding_bag: If per_sample_weights ({:?}) is not None, then it must have the same shape as the input ({:?})",
                weights.sizes(),
                numbers.sizes()
            );
            ensure_not_implemented!(
                o.mode == BagMode::Sum,
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum'"
            );
        }
        let mode = match o.mode {
            BagMode::Sum => 0,
            BagMode::Mean => 1,
            BagMode::Max => 2,
        };
        let (list, begins) = match (numbers.dim(), offsets) {
            (2, Some(_)) => {
                return Err(crate::Error::value(
                    "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences",
                ));
            }
            (2, None) => {
                let (bags, each) = (numbers.size(0)?, numbers.size(1)?);
                let last = i64::from(o.include_last_offset);
                let begins: Vec<i64> = (0..bags + last).map(|bag| bag * each).collect();
                (numbers.flatten()?, Tensor::from_slice(&begins, &[bags + last])?)
            }
            (1, Some(offsets)) => (numbers.clone(), offsets.clone()),
            (1, None) => {
                return Err(crate::Error::value("offsets has to be a 1D Tensor but got None"));
            }
            (dims, _) => {
                return Err(crate::Error::value(format!(
                    "input has to be 1D or 2D Tensor, but got Tensor of dimension {dims}"
                )));
            }
        };
        let begins =
            begins.to_dtype(if list.dtype() == DType::I32 { DType::I32 } else { DType::I64 })?;
        let weights = weights.map(Tensor::flatten).transpose()?;
        let all = aten::embedding_bag_padding_idx(
            &self.weight,
            &list,
            &begins,
            false,
            mode,
            false,
            weights.as_ref(),
            o.include_last_offset,
            o.padding,
        )?;
        Ok(all.0)
    }
}

impl Layer for EmbeddingBag {
    /// Each row is a bag.
    #[track_caller]
    fn forward(&self, numbers: &Tensor) -> Result<Tensor> {
        self.forward_with(numbers, None, None)
    }
}
