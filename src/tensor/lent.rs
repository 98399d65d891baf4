//! Tensors whose memory is lent by somebody else, for one call at a time.
//!
//! A tensor over memory of others costs two allocations. A call that is given a hundred parameters
//! by address makes none: the tensors of an earlier call, which nobody else has, are given the new
//! addresses.

use super::storage::Storage;
use super::{Tensor, check_sizes};
use crate::error::Result;
use std::ptr::NonNull;
use straightline_catalog::{DType, Device, layout};

/// A tensor of the CPU as other libraries describe it: an address, and where elements lie from there.
///
/// ```
/// use straightline::{DType, tensor::RawTensor};
/// let theirs = [1f32, 2.0, 3.0, 4.0];
/// let raw = RawTensor::read_only(theirs.as_ptr().cast(), DType::F32, &[2, 2], &[1, 2]);
/// assert_eq!(raw.bytes(), Some(16));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RawTensor<'a> {
    /// The first element; whatever it is where there are none.
    pub data: *mut u8,
    /// The element type.
    pub dtype: DType,
    /// The size of each dimension.
    pub sizes: &'a [i64],
    /// The stride of each dimension, in elements.
    pub strides: &'a [i64],
    /// Whether the memory must not be written.
    pub is_read_only: bool,
}

impl<'a> RawTensor<'a> {
    /// One that may be written.
    pub fn new(data: *mut u8, dtype: DType, sizes: &'a [i64], strides: &'a [i64]) -> RawTensor<'a> {
        RawTensor { data, dtype, sizes, strides, is_read_only: false }
    }

    /// One that may not be written.
    pub fn read_only(
        data: *const u8,
        dtype: DType,
        sizes: &'a [i64],
        strides: &'a [i64],
    ) -> RawTensor<'a> {
        RawTensor { data: data.cast_mut(), dtype, sizes, strides, is_read_only: true }
    }

    /// The bytes that it reaches from its first element on; `None` if they are more than there can be.
    pub fn bytes(&self) -> Option<usize> {
        let bytes = layout::storage_bytes(self.dtype.size(), self.sizes, self.strides, 0);
        (bytes <= isize::MAX as usize).then_some(bytes)
    }

    /// # Errors
    /// What no tensor can be made of.
    fn check(&self) -> Result<usize> {
        check_sizes(self.sizes)?;
        if self.dtype.is_quantized() {
            return Err(super::kind::quantized_memory(self.dtype));
        }
        ensure_shape!(
            self.sizes.len() == self.strides.len() && self.strides.iter().all(|s| *s >= 0),
            "sizes {:?} and strides {:?} make no tensor: each dimension has a stride, which is not negative",
            self.sizes,
            self.strides
        );
        let bytes = self.bytes();
        let bytes = bytes.ok_or_else(|| {
            crate::Error::shape(format!(
                "sizes {:?} with strides {:?} reach further than memory does",
                self.sizes, self.strides
            ))
        })?;
        ensure!(
            bytes == 0 || self.data.addr().is_multiple_of(super::external::alignment(self.dtype)),
            "memory at {:?} is not aligned to elements of {}: pass a copy",
            self.data,
            self.dtype
        );
        ensure!(
            bytes == 0 || !self.data.is_null(),
            "the tensor has no memory (it is a fake one, or of a device): pass one that has values"
        );
        Ok(bytes)
    }
}

impl Tensor {
    /// A tensor over memory that is lent.
    ///
    /// # Safety
    ///
    /// Until [`Tensor::end_loan`] the memory is as `ExternalMemory::new` wants it.
    pub(crate) unsafe fn lent(raw: &RawTensor<'_>) -> Result<Tensor> {
        let bytes = raw.check()?;
        let data = NonNull::new(raw.data).unwrap_or(NonNull::dangling());
        // SAFETY: the caller's contract; what is read only is read until the loan ends.
        let storage = unsafe { Storage::lend(data, bytes) }?;
        if raw.is_read_only {
            storage.begin_read_only();
        }
        Ok(Tensor::build(storage, raw.dtype, Device::CPU, raw.sizes, raw.strides, 0))
    }

    /// Gives a tensor whose loan has ended other memory of the same geometry. Whether that was
    /// possible.
    ///
    /// # Safety
    ///
    /// As [`Tensor::lent`], which made the tensor.
    pub(crate) unsafe fn lend_again(&self, raw: &RawTensor<'_>) -> bool {
        let storage = self.storage();
        let fits = self.dtype() == raw.dtype
            && self.lies_as(raw.sizes, raw.strides)
            && self.is_nobody_elses()
            && raw.data.addr().is_multiple_of(super::external::alignment(raw.dtype));
        let (true, Some(data)) = (fits, NonNull::new(raw.data)) else { return false };
        // SAFETY: nobody else has the storage, and it has as many bytes; the caller's contract.
        unsafe { storage.lend_again(data) };
        if raw.is_read_only {
            storage.begin_read_only();
        }
        true
    }

    /// Whether there is no other handle of it or its memory.
    pub(crate) fn is_nobody_elses(&self) -> bool {
        self.handles() == 1 && self.storage().is_unshared() && !self.is_reshaped()
    }

    /// [`Tensor::end_loan`] in place, where nobody has kept anything; otherwise `false`, and it goes on.
    #[inline]
    pub(crate) fn end_loan_in_place(&self) -> bool {
        let ends = self.is_nobody_elses();
        if ends && self.storage().is_read_only() {
            self.storage().end_read_only();
        }
        ends
    }

    /// Ends a loan. If anybody has kept the tensor or its memory, theirs is a copy from now on, and
    /// this is no tensor that can be lent again: `None`.
    pub(crate) fn end_loan(self) -> Option<Tensor> {
        if self.storage().is_read_only() {
            self.storage().end_read_only();
        }
        if self.is_nobody_elses() {
            return Some(self);
        }
        let storage = self.storage().clone();
        drop(self);
        storage.reclaim();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(of: &mut [f32]) -> RawTensor<'static> {
        RawTensor::new(of.as_mut_ptr().cast(), DType::F32, &[2], &[1])
    }

    #[test]
    fn a_tensor_is_lent_again_and_again() {
        let (mut a, mut b) = ([1f32, 2.0], [3f32, 4.0]);
        // SAFETY: the arrays live as long as the loans.
        unsafe {
            let t = Tensor::lent(&raw(&mut a)).unwrap();
            assert_eq!(t.to_vec::<f32>().unwrap(), [1.0, 2.0]);
            let t = t.end_loan().unwrap();
            assert!(t.lend_again(&raw(&mut b)));
            t.add_(1).unwrap();
            let kept = t.clone();
            assert!(t.end_loan().is_none());
            kept.add_(1).unwrap();
            assert_eq!(kept.to_vec::<f32>().unwrap(), [5.0, 6.0]);
            assert!(!kept.lend_again(&RawTensor { sizes: &[1], ..raw(&mut a) }));
        }
        assert_eq!((a, b), ([1.0, 2.0], [4.0, 5.0]));
    }

    #[test]
    fn what_is_read_only_stays_so() {
        let (mut a, mut b) = ([1f32, 2.0], [3f32, 4.0]);
        // SAFETY: the arrays live as long as the loans.
        unsafe {
            let fixed = |of: &mut [f32]| RawTensor { is_read_only: true, ..raw(of) };
            let t = Tensor::lent(&fixed(&mut a)).unwrap();
            assert!(t.add_(1).is_err());
            let t = t.end_loan().unwrap();
            assert!(t.lend_again(&raw(&mut b)) && t.add_(1).is_ok());
            let t = t.end_loan().unwrap();
            assert!(t.lend_again(&fixed(&mut b)) && t.add_(1).is_err());
            assert_eq!(t.to_vec::<f32>().unwrap(), [4.0, 5.0]);
            let kept = t.narrow(0, 1, 1).unwrap();
            assert!(t.end_loan().is_none());
            b[1] = 9.0;
            assert_eq!(kept.add_(1).unwrap().to_vec::<f32>().unwrap(), [6.0]);
            assert_eq!(b, [4.0, 9.0]);
        }
    }

    #[test]
    fn what_is_no_tensor_is_refused() {
        let mut a = [1f32, 2.0];
        let good = raw(&mut a);
        for bad in [
            RawTensor { sizes: &[-2], ..good },
            RawTensor { strides: &[-1], ..good },
            RawTensor { strides: &[1, 1], ..good },
            RawTensor { sizes: &[i64::MAX, 3], strides: &[i64::MAX, 1], ..good },
            RawTensor { data: std::ptr::null_mut(), ..good },
            RawTensor { data: good.data.wrapping_add(1), ..good },
            RawTensor { dtype: DType::QInt8, ..good },
        ] {
            // SAFETY: nothing is read.
            assert!(unsafe { Tensor::lent(&bad) }.is_err(), "{bad:?}");
        }
        let empty = RawTensor { data: std::ptr::null_mut(), sizes: &[0], ..good };
        // SAFETY: nothing is read.
        let empty = unsafe { Tensor::lent(&empty) }.unwrap();
        assert_eq!(empty.sum().unwrap().item::<f32>().unwrap(), 0.0);
    }
}
