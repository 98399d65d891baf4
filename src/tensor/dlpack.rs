//! DLPack: tensors from and to other libraries, in memory.
//!
//! The C structures are those of DLPack 1.x (`dlpack.h`); both forms of a managed tensor are there,
//! the one with a version and the one from before. Tensors are on the CPU.
//!
//! ```
//! use straightline::{dlpack, tensor};
//! let x = tensor([[1.0, 2.0], [3.0, 4.0]])?;
//! let managed = dlpack::export(x)?;
//! // ... another library takes it, and gives it back some time ...
//! // SAFETY: the tensor that was made just now, which nobody else has taken.
//! let y = unsafe { dlpack::import(managed) }?;
//! assert_eq!(y.to_vec2::<f32>()?, [[1.0, 2.0], [3.0, 4.0]]);
//! # Ok::<(), straightline::Error>(())
//! ```

use super::Tensor;
use super::external::{External, ExternalMemory};
use super::lent::RawTensor;
use crate::error::{Error, Result};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use straightline_catalog::{DType, layout};

/// `DLPackVersion`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Version {
    /// Another one means another layout of the structures.
    pub major: u32,
    /// Additions.
    pub minor: u32,
}

/// What [`export`] writes.
pub const VERSION: Version = Version { major: 1, minor: 1 };

/// `DLDevice`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct DLDevice {
    /// 1 is the CPU, 2 CUDA, 3 memory of the CPU that CUDA has pinned.
    pub device_type: i32,
    /// Its number.
    pub device_id: i32,
}

/// The CPU.
pub const CPU: DLDevice = DLDevice { device_type: 1, device_id: 0 };

/// `DLDataType`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct DLDataType {
    /// 0 integers, 1 unsigned ones, 2 floats, 4 bfloat, 5 complex numbers, 6 bool.
    pub code: u8,
    /// Of one lane.
    pub bits: u8,
    /// 1 but for vectors.
    pub lanes: u16,
}

impl DLDataType {
    /// The type of this crate.
    ///
    /// # Errors
    /// There is none such: its name.
    pub fn dtype(self) -> Result<DType> {
        let known = match (self.code, self.bits, self.lanes) {
            (0, 8, 1) => Some(DType::I8),
            (0, 16, 1) => Some(DType::I16),
            (0, 32, 1) => Some(DType::I32),
            (0, 64, 1) => Some(DType::I64),
            (1, 8, 1) => Some(DType::U8),
            (2, 16, 1) => Some(DType::F16),
            (2, 32, 1) => Some(DType::F32),
            (2, 64, 1) => Some(DType::F64),
            (4, 16, 1) => Some(DType::BF16),
            (5, 64, 1) => Some(DType::C64),
            (5, 128, 1) => Some(DType::C128),
            (6, 8, 1) => Some(DType::Bool),
            _ => None,
        };
        known.ok_or_else(|| {
            let DLDataType { code, bits, lanes } = self;
            let kind = match code {
                0 => "integers",
                1 => "unsigned integers",
                2 | 7..=17 => "floating point numbers",
                4 => "bfloat numbers",
                5 => "complex numbers",
                6 => "truth values",
                _ => "elements",
            };
            let lanes = if lanes == 1 { String::new() } else { format!(" in vectors of {lanes}") };
            Error::dtype(format!(
                "a tensor of {kind} of {bits} bits{lanes} (DLPack code {code}) is not supported: convert it to one of uint8, \
                 int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128, bool"
            ))
        })
    }

    /// The type of DLPack's.
    ///
    /// # Errors
    /// Quantized integers, which mean nothing without scale and zero point.
    pub fn of(dtype: DType) -> Result<DLDataType> {
        let (code, bits) = match dtype {
            DType::I8 => (0, 8),
            DType::I16 => (0, 16),
            DType::I32 => (0, 32),
            DType::I64 => (0, 64),
            DType::U8 => (1, 8),
            DType::F16 => (2, 16),
            DType::F32 => (2, 32),
            DType::F64 => (2, 64),
            DType::BF16 => (4, 16),
            DType::C64 => (5, 64),
            DType::C128 => (5, 128),
            DType::Bool => (6, 8),
            DType::QInt8 | DType::QUInt8 | DType::QInt32 => {
                return Err(super::kind::quantized_memory(dtype));
            }
        };
        Ok(DLDataType { code, bits, lanes: 1 })
    }
}

/// `DLTensor`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DLTensor {
    /// The memory.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DLDevice,
    /// How many dimensions there are.
    pub ndim: i32,
    /// The elements.
    pub dtype: DLDataType,
    /// As many sizes as dimensions; may be null if there are none.
    pub shape: *mut i64,
    /// As many strides, in elements; null for row-major order.
    pub strides: *mut i64,
    /// Where the first element is from `data` on.
    pub byte_offset: u64,
}

impl DLTensor {
    /// One that says nothing, to be filled.
    pub const fn empty() -> DLTensor {
        DLTensor {
            data: ptr::null_mut(),
            device: CPU,
            ndim: 0,
            dtype: DLDataType { code: 0, bits: 0, lanes: 0 },
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        }
    }

    /// The geometry, for a call of [`Compiled::call_external`](crate::Compiled::call_external). Strides
    /// that are left out go into `row_major`.
    ///
    /// # Errors
    /// Another device than the CPU, a dtype that this crate does not have, more than 64 dimensions.
    ///
    /// # Safety
    ///
    /// `shape` and `strides` are as said, for as long as the result lives.
    pub unsafe fn raw<'a>(
        &'a self,
        row_major: &'a mut SmallVec<[i64; 5]>,
    ) -> Result<RawTensor<'a>> {
        ensure_device!(
            matches!(self.device.device_type, 1 | 3),
            "the tensor is on DLPack's device {} (number {}), and only memory of the CPU is read: move it there first",
            self.device.device_type,
            self.device.device_id
        );
        let dtype = self.dtype.dtype()?;
        let rank = usize::try_from(self.ndim).ok().filter(|n| *n <= 64);
        let rank =
            rank.ok_or_else(|| Error::shape(format!("{} dimensions are no tensor's", self.ndim)))?;
        let sizes: &[i64] = match rank {
            0 => &[],
            _ if self.shape.is_null() => return Err(Error::shape("a DLPack tensor has no shape")),
            // SAFETY: the caller's contract.
            n => unsafe { std::slice::from_raw_parts(self.shape, n) },
        };
        let strides: &[i64] = match rank {
            0 => &[],
            _ if self.strides.is_null() => {
                row_major.clear();
                row_major.extend(layout::contiguous_strides(sizes).iter().copied());
                row_major
            }
            // SAFETY: the caller's contract.
            n => unsafe { std::slice::from_raw_parts(self.strides, n) },
        };
        let at = usize::try_from(self.byte_offset)
            .map_err(|_| Error::shape("a DLPack tensor begins beyond its memory"))?;
        let data = match self.data.is_null() {
            true => ptr::null_mut(),
            false => self.data.cast::<u8>().wrapping_add(at),
        };
        Ok(RawTensor::new(data, dtype, sizes, strides))
    }
}

/// `DLManagedTensorVersioned`.
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensorVersioned {
    /// Which layout this is.
    pub version: Version,
    /// The producer's.
    pub manager_ctx: *mut c_void,
    /// Gives it back; null if there is nothing to do.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// 1 read only, 2 a copy, 4 padded.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// The memory must not be written.
pub const READ_ONLY: u64 = 1;
/// The memory is a copy that was made for this.
pub const IS_COPIED: u64 = 2;

/// `DLManagedTensor`, from before versions.
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The producer's.
    pub manager_ctx: *mut c_void,
    /// Gives it back; null if there is nothing to do.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// Gives a tensor of another library back, on whichever thread.
struct Versioned(NonNull<DLManagedTensorVersioned>);
// SAFETY: DLPack lets deleters be called from any thread.
unsafe impl Send for Versioned {}
// SAFETY: nothing of it is used but by `drop`.
unsafe impl Sync for Versioned {}

impl Drop for Versioned {
    fn drop(&mut self) {
        // SAFETY: it is ours since `import` took it.
        unsafe {
            if let Some(deleter) = self.0.as_ref().deleter {
                deleter(self.0.as_ptr());
            }
        }
    }
}

/// The same from before versions.
struct Unversioned(NonNull<DLManagedTensor>);
// SAFETY: as above.
unsafe impl Send for Unversioned {}
// SAFETY: as above.
unsafe impl Sync for Unversioned {}

impl Drop for Unversioned {
    fn drop(&mut self) {
        // SAFETY: it is ours since `import_unversioned` took it.
        unsafe {
            if let Some(deleter) = self.0.as_ref().deleter {
                deleter(self.0.as_ptr());
            }
        }
    }
}

/// A tensor of another library, without a copy. It is taken whatever happens: its deleter is called
/// when the last tensor over it is gone, or before an error is returned. What is marked as read only
/// can not be written ([`ErrorKind::ReadOnly`](crate::ErrorKind::ReadOnly)).
///
/// # Errors
/// Another major version; what is on another device than the CPU; a dtype that this crate does not
/// have; negative strides; memory to write that is not aligned to its elements.
///
/// # Safety
///
/// `managed` was made as DLPack says, and is the caller's to give. Its memory is as
/// [`ExternalMemory::new`] wants it until the deleter is called.
pub unsafe fn import(managed: NonNull<DLManagedTensorVersioned>) -> Result<Tensor> {
    let owner = Versioned(managed);
    // SAFETY: the caller's contract; the first field is the same in all versions.
    let Version { major, minor } = unsafe { (*managed.as_ptr()).version };
    ensure_type!(
        major == VERSION.major,
        "the tensor is of DLPack {major}.{minor}, and version {} is read",
        VERSION.major
    );
    // SAFETY: the caller's contract.
    let (tensor, flags) = unsafe { ((*managed.as_ptr()).dl_tensor, (*managed.as_ptr()).flags) };
    // SAFETY: as above.
    unsafe { over(&tensor, flags & READ_ONLY != 0, Box::new(owner)) }
}

/// [`import`] of a tensor from before versions, which calls may write.
///
/// # Errors
/// As [`import`].
///
/// # Safety
///
/// As [`import`].
pub unsafe fn import_unversioned(managed: NonNull<DLManagedTensor>) -> Result<Tensor> {
    let owner = Unversioned(managed);
    // SAFETY: the caller's contract.
    let tensor = unsafe { (*managed.as_ptr()).dl_tensor };
    // SAFETY: as above.
    unsafe { over(&tensor, false, Box::new(owner)) }
}

/// # Safety
///
/// The tensor is as DLPack says until `owner` is dropped.
unsafe fn over(
    tensor: &DLTensor,
    read_only: bool,
    owner: Box<dyn std::any::Any + Send + Sync>,
) -> Result<Tensor> {
    let mut row_major = SmallVec::new();
    // SAFETY: the caller's contract.
    let raw = unsafe { tensor.raw(&mut row_major) }?;
    let RawTensor { data, dtype, sizes, strides, .. } = raw;
    super::check_sizes(sizes)?;
    ensure_shape!(
        strides.iter().all(|s| *s >= 0),
        "strides {strides:?} of sizes {sizes:?} are negative: pass a copy that is contiguous"
    );
    let bytes = raw.bytes().ok_or_else(|| {
        Error::shape(format!(
            "sizes {sizes:?} with strides {strides:?} reach further than memory does"
        ))
    })?;
    ensure!(
        bytes == 0 || !data.is_null(),
        "the tensor has no memory (it is a fake one): pass one that has values"
    );
    // SAFETY: the caller's contract.
    let memory = unsafe {
        match read_only {
            true => ExternalMemory::read_only(
                data,
                bytes,
                "an array that was passed as read only",
                owner,
            ),
            false => ExternalMemory::new(data, bytes, owner),
        }
    }?;
    memory.tensor(dtype, sizes, strides, 0)
}

/// Either structure.
trait Managed {
    fn tensor_mut(&mut self) -> &mut DLTensor;
}

impl Managed for DLManagedTensorVersioned {
    fn tensor_mut(&mut self) -> &mut DLTensor {
        &mut self.dl_tensor
    }
}

impl Managed for DLManagedTensor {
    fn tensor_mut(&mut self) -> &mut DLTensor {
        &mut self.dl_tensor
    }
}

/// What a tensor that was handed out consists of.
struct Context<M> {
    managed: M,
    _tensor: External,
    geometry: SmallVec<[i64; 10]>,
}

/// Hands a tensor out: its memory is the taker's, without a copy where nobody else has it
/// ([`Tensor::into_external`]). Whoever has it calls its deleter.
///
/// # Errors
/// As [`Tensor::into_external`]; quantized integers.
pub fn export(t: Tensor) -> Result<NonNull<DLManagedTensorVersioned>> {
    export_external(t.into_external()?)
}

/// [`export`] of one of several tensors, which share memory ([`Tensor::into_externals`]).
///
/// # Errors
/// Quantized integers.
pub fn export_external(tensor: External) -> Result<NonNull<DLManagedTensorVersioned>> {
    unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
        // SAFETY: `export` made it so, and DLPack has it deleted once.
        unsafe {
            drop(Box::from_raw((*managed).manager_ctx.cast::<Context<DLManagedTensorVersioned>>()))
        };
    }

    let flags = [(tensor.is_read_only(), READ_ONLY), (tensor.is_copy(), IS_COPIED)];
    let flags = flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum();
    let dtype = DLDataType::of(tensor.dtype())?;
    let managed = |dl_tensor| DLManagedTensorVersioned {
        version: VERSION,
        manager_ctx: ptr::null_mut(),
        deleter: Some(delete),
        flags,
        dl_tensor,
    };
    let context = handed_out(tensor, dtype, managed);
    // SAFETY: just made; the structure lies in its context, which it is told.
    unsafe {
        (*context.as_ptr()).managed.manager_ctx = context.as_ptr().cast();
        Ok(NonNull::new_unchecked(&raw mut (*context.as_ptr()).managed))
    }
}

/// [`export`] for those that know no versions. Memory that is read only is copied, since the structure
/// can not say so.
///
/// # Errors
/// As [`export`].
pub fn export_unversioned(t: Tensor) -> Result<NonNull<DLManagedTensor>> {
    unsafe extern "C" fn delete(managed: *mut DLManagedTensor) {
        // SAFETY: `export_unversioned` made it so, and DLPack has it deleted once.
        unsafe { drop(Box::from_raw((*managed).manager_ctx.cast::<Context<DLManagedTensor>>())) };
    }

    let t = if t.storage().is_read_only() { t.copied()? } else { t };
    let tensor = t.into_external()?;
    let dtype = DLDataType::of(tensor.dtype())?;
    let managed = |dl_tensor| DLManagedTensor {
        dl_tensor,
        manager_ctx: ptr::null_mut(),
        deleter: Some(delete),
    };
    let context = handed_out(tensor, dtype, managed);
    // SAFETY: as in `export`.
    unsafe {
        (*context.as_ptr()).managed.manager_ctx = context.as_ptr().cast();
        Ok(NonNull::new_unchecked(&raw mut (*context.as_ptr()).managed))
    }
}

/// The context of a tensor that is handed out, with its structure, whose sizes lie in the context.
fn handed_out<M: Managed>(
    tensor: External,
    dtype: DLDataType,
    managed: impl FnOnce(DLTensor) -> M,
) -> NonNull<Context<M>> {
    let rank = tensor.sizes().len();
    let geometry: SmallVec<[i64; 10]> =
        tensor.sizes().iter().chain(tensor.strides()).copied().collect();
    let dl_tensor = DLTensor {
        data: tensor.data().cast(),
        device: CPU,
        ndim: rank as i32,
        dtype,
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    };
    let context = Box::new(Context { managed: managed(dl_tensor), _tensor: tensor, geometry });
    let context = NonNull::from(Box::leak(context));
    // SAFETY: just made; the numbers do not move any more.
    unsafe {
        let numbers = (*context.as_ptr()).geometry.as_mut_ptr();
        let tensor = (*context.as_ptr()).managed.tensor_mut();
        (tensor.shape, tensor.strides) = (numbers, numbers.wrapping_add(rank));
    }
    context
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static DELETED: AtomicUsize = AtomicUsize::new(0);

    struct Theirs {
        numbers: [f32; 6],
        shape: [i64; 2],
        strides: [i64; 2],
    }

    unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
        DELETED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: `theirs` made it so.
        unsafe {
            drop(Box::from_raw((*managed).manager_ctx.cast::<Theirs>()));
            drop(Box::from_raw(managed));
        }
    }

    fn theirs(
        change: impl FnOnce(&mut DLManagedTensorVersioned),
    ) -> NonNull<DLManagedTensorVersioned> {
        let owner = Box::leak(Box::new(Theirs {
            numbers: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            shape: [2, 2],
            strides: [3, 1],
        }));
        let mut managed = DLManagedTensorVersioned {
            version: Version { major: 1, minor: 3 },
            manager_ctx: ptr::from_mut(owner).cast(),
            deleter: Some(delete),
            flags: 0,
            dl_tensor: DLTensor {
                data: owner.numbers.as_mut_ptr().cast(),
                device: CPU,
                ndim: 2,
                dtype: DLDataType { code: 2, bits: 32, lanes: 1 },
                shape: owner.shape.as_mut_ptr(),
                strides: owner.strides.as_mut_ptr(),
                byte_offset: 4,
            },
        };
        change(&mut managed);
        NonNull::from(Box::leak(Box::new(managed)))
    }

    /// One test, since it counts deleters.
    #[test]
    fn tensors_of_others_come_in() {
        let before = DELETED.load(Ordering::Relaxed);
        let deleted = || DELETED.load(Ordering::Relaxed) - before;
        // SAFETY: made just now, here and below.
        let x = unsafe { import(theirs(|_| ())) }.unwrap();
        assert_eq!(x.to_vec2::<f32>().unwrap(), [[2.0, 3.0], [5.0, 6.0]]);
        let view = x.select(0, 1).unwrap();
        drop(x);
        assert_eq!(
            (deleted(), view.add_(1).unwrap().to_vec::<f32>().unwrap()),
            (0, vec![6.0, 7.0])
        );
        std::thread::spawn(move || drop(view)).join().unwrap();
        assert_eq!(deleted(), 1);
        // SAFETY: as above.
        let fixed = unsafe { import(theirs(|m| m.flags = READ_ONLY)) }.unwrap();
        assert!(matches!(fixed.add_(1).unwrap_err().kind(), crate::ErrorKind::ReadOnly { .. }));
        // SAFETY: as above.
        let row_major = unsafe { import(theirs(|m| m.dl_tensor.strides = ptr::null_mut())) };
        assert_eq!(row_major.unwrap().to_vec::<f32>().unwrap(), [2.0, 3.0, 4.0, 5.0]);
        let wrong: [fn(&mut DLManagedTensorVersioned); 7] = [
            |m| m.version.major = 2,
            |m| m.dl_tensor.device.device_type = 2,
            |m| m.dl_tensor.dtype.bits = 8,
            |m| m.dl_tensor.dtype.lanes = 4,
            |m| m.dl_tensor.ndim = -1,
            |m| m.dl_tensor.data = ptr::null_mut(),
            |m| m.dl_tensor.shape = ptr::null_mut(),
        ];
        let gone = deleted();
        for change in wrong {
            // SAFETY: as above.
            assert!(unsafe { import(theirs(change)) }.is_err());
        }
        assert_eq!(deleted(), gone + 7, "what is refused is given back");
    }

    #[test]
    fn tensors_go_out() {
        let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).unwrap().t().unwrap();
        let at = x.data_ptr().unwrap();
        let managed = export(x).unwrap();
        // SAFETY: made just now.
        unsafe {
            let m = managed.as_ref();
            assert_eq!((m.version, m.flags, m.dl_tensor.ndim), (VERSION, 0, 2));
            assert_eq!(std::slice::from_raw_parts(m.dl_tensor.shape, 2), [3, 2]);
            assert_eq!(std::slice::from_raw_parts(m.dl_tensor.strides, 2), [1, 3]);
            assert_eq!(m.dl_tensor.data.cast::<u8>(), at);
            let back = import(managed).unwrap();
            assert_eq!(back.to_vec::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
            assert_eq!(back.data_ptr().unwrap(), at);
        }
        let shared = tensor([1.0]).unwrap();
        let managed = export(shared.clone()).unwrap();
        // SAFETY: as above.
        unsafe {
            assert_eq!(managed.as_ref().flags, IS_COPIED);
            drop(import(managed).unwrap());
        }
        let scalar = export_unversioned(Tensor::scalar(2.5).unwrap()).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { import_unversioned(scalar) }.unwrap().item::<f32>().unwrap(), 2.5);
    }

    #[test]
    fn every_dtype_goes_and_comes() {
        for dtype in DType::ALL.into_iter().chain(DType::COMPLEX) {
            assert_eq!(DLDataType::of(dtype).unwrap().dtype().unwrap(), dtype);
        }
        assert!(DLDataType::of(DType::QInt8).is_err());
    }
}
