//! The kind of a tensor, by its dispatch keys: plain memory, sparse, quantized or nested.

use super::Tensor;
use super::watcher::{self, StandsFor};
use crate::error::{Error, ErrorKind};
use straightline_catalog::DispatchKey;
use straightline_catalog::{DType, Layout};

impl Tensor {
    /// How the elements are laid out.
    ///
    /// ```
    /// use straightline::{Layout, Tensor};
    /// let x = Tensor::from_slice(&[0f32, 2.0], &[1, 2])?;
    /// assert_eq!(x.layout(), Layout::Strided);
    /// assert_eq!(x.to_sparse()?.layout(), Layout::Sparse);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn layout(&self) -> Layout {
        let keys = self.key_set();
        if keys.has(DispatchKey::Sparse) {
            Layout::Sparse
        } else if keys.has(DispatchKey::SparseCsr) {
            Layout::SparseCsr
        } else if keys.has(DispatchKey::MkldnnCPU) {
            Layout::Mkldnn
        } else {
            Layout::Strided
        }
    }

    /// Whether this is a tensor in coordinate form.
    pub fn is_sparse(&self) -> bool {
        self.key_set().has(DispatchKey::Sparse)
    }

    /// Whether this is a tensor in compressed-row form.
    pub fn is_sparse_csr(&self) -> bool {
        self.key_set().has(DispatchKey::SparseCsr)
    }

    /// Whether the elements are integers with a scale.
    pub fn is_quantized(&self) -> bool {
        self.key_set().has(DispatchKey::Quantized)
    }

    /// Whether this is a batch of tensors of different sizes.
    pub fn is_nested(&self) -> bool {
        self.key_set().has(DispatchKey::NestedTensor)
    }

    /// The kind of a tensor that is not plain memory, and how to convert it.
    pub(crate) fn kind_without_memory(&self) -> Option<(&'static str, &'static str)> {
        let keys = self.key_set();
        [
            (
                DispatchKey::Sparse,
                "a sparse tensor in coordinate form",
                "call an operator that has a sparse kernel, or `to_dense` first",
            ),
            (
                DispatchKey::SparseCsr,
                "a sparse tensor in compressed-row form",
                "call an operator that has a sparse kernel, or `to_dense` first",
            ),
            (
                DispatchKey::Quantized,
                "a quantized tensor",
                "call an operator that has a quantized kernel, or `dequantize` (or `int_repr`) first",
            ),
            (
                DispatchKey::NestedTensor,
                "a nested tensor",
                "call an operator that has a nested kernel, or `to_padded_tensor` (or `unbind`) first",
            ),
        ]
        .into_iter()
        .find(|(key, ..)| keys.has(*key))
        .map(|(_, what, instead)| (what, instead))
    }

    /// The error for reading the memory of a tensor that has none of its own.
    #[cold]
    pub(crate) fn no_memory_error(&self, what: &str) -> Error {
        if self.is_neg() || self.is_conj() || self.is_zerotensor() {
            return Error::runtime(
                "a kernel was given a tensor with the negative, conjugate or zero bit, which stands for other \
                 values than its memory has: call the operator instead of redispatching past those \
                 keys, or resolve the tensor with `copied()`",
            );
        }
        let data_dependent = || Error::new(ErrorKind::DataDependent { what: what.into() });
        let plain = self.device().is_cpu() && self.extra().is_none();
        let captures = watcher::capture().is_some();
        let (tensor, instead) = match (self.kind_without_memory(), watcher::stands_for(self)) {
            (Some((tensor, instead)), _) => (tensor.to_string(), instead),
            // of what a captured function works on, the twin without memory: see below
            (None, _) if self.device().is_meta() && !captures => {
                return Error::device(format!(
                    "{what} on a meta tensor: it has a shape and no data; make the tensor on `cpu` to compute with it"
                ));
            }
            (None, StandsFor::Elsewhere(e)) => return e,
            (None, StandsFor::Value) => return data_dependent(),
            (None, _) if plain || self.is_fake() || captures => return data_dependent(),
            (None, StandsFor::Inside(name)) => (
                format!("a wrapper tensor, a `{name}`"),
                "call an operator that its handler answers with a plain tensor, or take the tensors inside \
                 out with `subclass::of`",
            ),
            (None, StandsFor::Nothing) => (
                format!("a tensor whose data the backend of `{}` holds", self.device()),
                "call an operator that this backend has a kernel for, or move the tensor to `cpu` first",
            ),
        };
        Error::new(ErrorKind::Opaque { what: what.into(), tensor, instead })
    }
}

/// The error for requesting dense memory of a quantized dtype.
#[cold]
pub(super) fn quantized_memory(dtype: DType) -> Error {
    Error::dtype(format!(
        "plain tensors have no dtype {}: quantized integers need a scale and a zero point, so make the tensor \
         with `quantize_per_tensor` or `quantize_per_channel`. An operator without a kernel for quantized operands ends \
         here, too: `dequantize` them first",
        dtype.torch_name()
    ))
}
