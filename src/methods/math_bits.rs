//! Lazy negation and conjugation, resolved.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;

impl Tensor {
    /// The tensor itself, or a copy where it is lazily negated. See [`aten::resolve_neg`].
    ///
    /// ```
    /// use straightline::{Tensor, ops::aten};
    /// let x = Tensor::from_vec([1f32], 1)?;
    /// assert!(x.resolve_neg()?.is_same(&x));
    /// assert!(!aten::_neg_view(&x)?.resolve_neg()?.is_neg());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn resolve_neg(&self) -> Result<Tensor> {
        aten::resolve_neg(self)
    }

    /// The conjugate: of a real tensor, itself. See [`aten::conj`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_vec([1f32], 1)?;
    /// assert!(x.conj()?.is_same(&x));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn conj(&self) -> Result<Tensor> {
        aten::conj(self)
    }

    /// The tensor itself, or a copy where it is lazily conjugated. See [`aten::resolve_conj`].
    #[track_caller]
    pub fn resolve_conj(&self) -> Result<Tensor> {
        aten::resolve_conj(self)
    }
}
