//! Math bits: a tensor that stands for the negation or the conjugate of its memory, or for zeros
//! without any.
//!
//! The bit is a dispatch key on the tensor, so operators resolve it before they compute. Code that
//! reads memory past the dispatcher calls [`Tensor::resolved`]; there is no access to the pointer
//! of such memory.

use super::Tensor;
use super::watcher;
use straightline_catalog::{DispatchKey, DispatchKeySet};

/// The keys that are bits.
const BITS: DispatchKeySet =
    DispatchKeySet::of(&[DispatchKey::Conjugate, DispatchKey::Negative, DispatchKey::ZeroTensor]);

impl Tensor {
    /// Whether the tensor stands for the negation of its memory.
    ///
    /// ```
    /// use straightline::{Tensor, ops::aten};
    /// let x = Tensor::from_vec([1f32, -2.0], 2)?;
    /// let n = aten::_neg_view(&x)?;
    /// assert!(n.is_neg() && n.shares_storage_with(&x));
    /// assert_eq!(n.to_vec::<f32>()?, [-1.0, 2.0]);
    /// assert!(!n.add(1)?.is_neg());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[inline]
    pub fn is_neg(&self) -> bool {
        self.key_set().has(DispatchKey::Negative) || self.is_captured() && watcher::bits(self).0
    }

    /// Whether the tensor stands for the conjugate of its memory.
    #[inline]
    pub fn is_conj(&self) -> bool {
        self.key_set().has(DispatchKey::Conjugate) || self.is_captured() && watcher::bits(self).1
    }

    /// Whether a captured function holds the tensor in place of one with values.
    #[inline]
    fn is_captured(&self) -> bool {
        self.key_set().has(DispatchKey::Functionalize)
    }

    /// The tensor with the conjugate bit, the negative bit, or both.
    pub(crate) fn with_math_bits(&self, conj: bool, neg: bool) -> Tensor {
        let mut keys = self.key_set() - BITS;
        if conj {
            keys = keys.add(DispatchKey::Conjugate);
        }
        if neg {
            keys = keys.add(DispatchKey::Negative);
        }
        self.with_keys(keys)
    }

    /// Whether the tensor stands for zeros and has no memory (`aten::_efficientzerotensor`).
    #[inline]
    pub fn is_zerotensor(&self) -> bool {
        self.key_set().has(DispatchKey::ZeroTensor)
    }

    /// Whether the tensor has a math bit, so that values and memory may differ.
    #[inline]
    pub(crate) fn has_math_bits(&self) -> bool {
        !self.math_bits().is_empty()
    }

    /// The math-bit keys of the tensor.
    pub(crate) fn math_bits(&self) -> DispatchKeySet {
        self.key_set() & BITS
    }

    /// The memory as it is.
    pub(crate) fn without_math_bits(&self) -> Tensor {
        self.with_keys(self.key_set() - BITS)
    }
}
