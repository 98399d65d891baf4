//! Tensors without memory of their own: a shape, a key set, and a payload that kernels understand.
//!
//! Tensors of external backends, wrapper subclasses and sparse tensors are all tensors to the
//! dispatcher; only the kernels at their keys know what they hold (c10's `OpaqueTensorImpl`).

use super::Tensor;
use super::shape::Parts;
use super::storage::Storage;
use crate::error::{Error, Result};
use std::any::Any;
use std::sync::Arc;
use straightline_catalog::DispatchKeySet;
use straightline_catalog::{DType, Device, Dims, layout};

/// Makes tensors that carry a payload instead of memory; [`Tensor::opaque`] starts one.
///
/// Sizes, dtype and device are what callers see. Strides are row-major and the keys those of a
/// dense tensor of the device, unless set.
///
/// ```
/// use straightline::dispatch::DispatchKey;
/// use straightline::{DType, Device, DeviceType, Tensor};
///
/// struct Handle(u32);
///
/// let device = Device::new(DeviceType::PrivateUse1);
/// let t = Tensor::opaque(Handle(7), &[2, 3], DType::F32, device).build()?;
/// assert_eq!(t.sizes(), [2, 3]);
/// assert!(t.key_set().has(DispatchKey::PrivateUse1));
/// assert_eq!(t.payload::<Handle>().map(|h| h.0), Some(7));
/// // the data is the backend's business
/// assert!(t.to_vec::<f32>().is_err());
/// # Ok::<(), straightline::Error>(())
/// ```
#[must_use = "`build` makes the tensor"]
pub struct OpaqueBuilder {
    payload: Arc<dyn Any + Send + Sync>,
    sizes: Dims,
    strides: Option<Dims>,
    dtype: DType,
    device: Device,
    keys: DispatchKeySet,
}

impl std::fmt::Debug for OpaqueBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpaqueBuilder")
            .field("sizes", &self.sizes.as_slice())
            .field("dtype", &self.dtype)
            .field("device", &self.device)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

impl OpaqueBuilder {
    /// The strides that callers see.
    pub fn strides(mut self, strides: &[i64]) -> Self {
        self.strides = Some(Dims::from_slice(strides));
        self
    }

    /// The dispatch keys, all of them, instead of those of a dense tensor of the device.
    pub fn keys(mut self, keys: DispatchKeySet) -> Self {
        self.keys = keys;
        self
    }

    /// Makes the tensor.
    ///
    /// # Errors
    ///
    /// A negative size, more elements than can be counted, or strides of another length.
    pub fn build(self) -> Result<Tensor> {
        super::check_sizes(&self.sizes)?;
        let strides = match self.strides {
            Some(s) if s.len() != self.sizes.len() => {
                return Err(Error::shape(format!(
                    "{} strides for {} sizes: an opaque tensor needs one for each",
                    s.len(),
                    self.sizes.len()
                )));
            }
            Some(s) => s,
            None => layout::contiguous_strides(&self.sizes),
        };
        let negative = strides.iter().any(|s| *s < 0);
        let bytes = layout::checked_extent(&self.sizes, &strides, 0)
            .filter(|_| !negative)
            .and_then(|n| n.checked_mul(self.dtype.size()))
            .ok_or_else(|| {
                Error::shape(format!(
                    "strides {:?} are negative or reach further than can be addressed",
                    strides.as_slice()
                ))
            })?;
        Ok(Tensor::build_with(
            Storage::without_data(bytes),
            self.dtype,
            self.device,
            self.sizes,
            strides,
            0,
            self.keys,
            Some(self.payload),
        ))
    }
}

impl Tensor {
    /// Begins a tensor that carries `payload` instead of memory: for backends and wrappers whose
    /// kernels know what to do with it. See [`OpaqueBuilder`].
    pub fn opaque<T: Any + Send + Sync>(
        payload: T,
        sizes: &[i64],
        dtype: DType,
        device: Device,
    ) -> OpaqueBuilder {
        OpaqueBuilder {
            payload: Arc::new(payload),
            sizes: Dims::from_slice(sizes),
            strides: None,
            dtype,
            device,
            keys: DispatchKeySet::for_device(device.kind),
        }
    }

    /// An opaque tensor whose sizes may be -1 in a dimension whose size varies, as in a batch of
    /// different sizes.
    pub(crate) fn irregular<T: Any + Send + Sync>(
        sizes: &[i64],
        numel: i64,
        dtype: DType,
        device: Device,
        keys: DispatchKeySet,
        payload: T,
    ) -> Tensor {
        let parts = Parts {
            storage: Storage::without_data(0),
            dtype,
            device,
            keys,
            offset: 0,
            numel,
            contiguous: false,
            wrapped_number: false,
            extra: Some(Arc::new(payload)),
        };
        // without strides, as PyTorch's
        Tensor::place(parts, sizes, &Dims::from_elem(0, sizes.len()))
    }

    /// The payload of an opaque tensor, if it is a `T`.
    pub fn payload<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.extra().and_then(|e| e.downcast_ref())
    }

    /// The same tensor with another payload: shape and keys are shared.
    pub(crate) fn with_payload<T: Any + Send + Sync>(&self, payload: T) -> Tensor {
        let parts = Parts {
            storage: Storage::without_data(0),
            dtype: self.0.dtype,
            device: self.0.device,
            keys: self.key_set(),
            offset: 0,
            numel: self.numel(),
            contiguous: self.is_contiguous(),
            wrapped_number: false,
            extra: Some(Arc::new(payload)),
        };
        Tensor::place(parts, self.sizes(), self.strides())
    }

    /// The payload, sizes and strides of this tensor at a place in the storage of another one, of
    /// which it is a view, so that questions about shared memory are answered as for the payloads.
    pub(crate) fn placed_in(&self, of: &Tensor, offset: i64) -> Tensor {
        Tensor::build_with(
            of.storage().clone(),
            self.0.dtype,
            self.0.device,
            self.sizes(),
            self.strides(),
            offset,
            self.key_set(),
            self.extra().cloned(),
        )
    }

    /// The same tensor with other dispatch keys: shape, memory and payload are shared.
    pub(crate) fn with_keys(&self, keys: DispatchKeySet) -> Tensor {
        let t = Tensor::build_with(
            self.storage().clone(),
            self.0.dtype,
            self.0.device,
            self.sizes(),
            self.strides(),
            self.storage_offset(),
            keys,
            self.extra().cloned(),
        );
        if self.is_wrapped_number() { t.into_wrapped_number() } else { t }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use straightline_catalog::DispatchKey;

    #[test]
    fn a_bad_shape_is_an_error() {
        let build = |sizes: &[i64], strides: Option<&[i64]>| {
            let b = Tensor::opaque((), sizes, DType::F32, Device::META);
            match strides {
                Some(s) => b.strides(s).build(),
                None => b.build(),
            }
        };
        assert!(build(&[2, -1], None).is_err());
        assert!(build(&[i64::MAX, 2], None).is_err());
        assert!(build(&[2, 2], Some(&[1])).is_err());
        assert!(build(&[2, 2], Some(&[i64::MAX, 1])).is_err());
        assert!(build(&[2, 2], Some(&[-2, 1])).is_err());
        assert_eq!(build(&[2, 2], Some(&[1, 2])).unwrap().strides(), [1, 2]);
    }

    #[test]
    fn other_keys_keep_memory_and_payload() {
        let t = Tensor::from_vec([1f32, 2.0], 2).unwrap();
        let n = t.with_keys(t.key_set().add(DispatchKey::Negative));
        assert!(n.shares_storage_with(&t) && n.key_set().has(DispatchKey::Negative));
        let o = Tensor::opaque(5u8, &[], DType::F32, Device::META).build().unwrap();
        assert_eq!(o.with_keys(DispatchKeySet::EMPTY).payload::<u8>(), Some(&5));
    }
}
