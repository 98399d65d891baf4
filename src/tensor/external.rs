//! Tensors over memory of others, and tensors handed out.
//!
//! What comes in is kept by a value of the owner's ([`ExternalMemory`]): dropping the last tensor
//! over it drops that value. What goes out is a tensor that nobody else has ([`External`]).

use super::storage::Storage;
use super::watcher;
use super::{Tensor, check_sizes};
use crate::error::{Error, ErrorKind, Result};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use straightline_catalog::{DType, Device, Dims, layout};

/// Memory of somebody else's, for tensors: a mapped file, an array of another library.
///
/// Any number of tensors may lie over it ([`ExternalMemory::tensor`]), as weights that share one
/// entry of a file do. They know that they share it: what one of them writes, the others have.
///
/// Memory may be **read only**. A call that would write it is refused with
/// [`ErrorKind::ReadOnly`], in-place operators, `out` arguments and compiled functions alike.
///
/// ```
/// use straightline::tensor::ExternalMemory;
/// use straightline::{DType, ErrorKind};
/// use std::sync::Arc;
/// let theirs: Arc<[f32]> = Arc::new([1.0, 2.0, 3.0, 4.0]);
/// let data = theirs.as_ptr().cast();
/// // SAFETY: the `Arc` keeps 16 bytes, and nobody writes them.
/// let memory = unsafe { ExternalMemory::read_only(data, 16, "`theirs`", Box::new(theirs.clone())) }?;
/// let (all, last) = (memory.tensor(DType::F32, &[2, 2], &[2, 1], 0)?, memory.tensor(DType::F32, &[], &[], 3)?);
/// assert_eq!((all.sum()?.item::<f32>()?, last.item::<f32>()?), (10.0, 4.0));
/// let error = all.add_(1).unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::ReadOnly { .. }));
/// assert!(error.to_string().contains("`theirs`"), "{error}");
/// drop((all, last, memory));
/// assert_eq!(Arc::strong_count(&theirs), 1);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone)]
pub struct ExternalMemory {
    storage: Storage,
}

/// What keeps memory that is read only.
struct ReadOnly {
    name: String,
    _keep: Box<dyn Any + Send + Sync>,
}

/// The error of a call that would write memory which is read only.
#[cold]
pub(super) fn read_only(storage: &Storage) -> Error {
    Error::new(ErrorKind::ReadOnly { memory: called(storage) })
}

/// What errors call memory that is read only.
fn called(storage: &Storage) -> String {
    let keeper = storage.keeper().and_then(|k| k.downcast_ref::<ReadOnly>());
    keeper.map_or_else(|| "memory of others".to_owned(), |keeper| keeper.name.clone())
}

/// Where memory begins, which has an address if it has bytes.
fn start(data: *mut u8, bytes: usize) -> Result<NonNull<u8>> {
    ensure!(
        bytes == 0 || !data.is_null(),
        "{bytes} bytes were passed at no address (a null pointer)"
    );
    Ok(NonNull::new(data).unwrap_or(NonNull::dangling()))
}

impl ExternalMemory {
    /// Memory that calls may write. `keep` is dropped, on whichever thread, when the last tensor
    /// over it is gone.
    ///
    /// # Errors
    /// Bytes at no address; no memory for the state of a storage.
    ///
    /// # Safety
    ///
    /// Until `keep` is dropped, `bytes` bytes from `data` on are initialised and may be read and
    /// written. Nobody else writes them while a call uses a tensor over them, nor reads them while a
    /// call writes one. Where tensors of `bool` are made of them, each of their bytes is 0 or 1.
    ///
    /// ```
    /// use straightline::tensor::ExternalMemory;
    /// use straightline::DType;
    /// let mut theirs = [1i64, 2, 3];
    /// // SAFETY: the tensor is dropped before the array.
    /// let memory = unsafe { ExternalMemory::new(theirs.as_mut_ptr().cast(), 24, Box::new(())) }?;
    /// memory.tensor(DType::I64, &[3], &[1], 0)?.mul_(10)?;
    /// drop(memory);
    /// assert_eq!(theirs, [10, 20, 30]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub unsafe fn new(
        data: *mut u8,
        bytes: usize,
        keep: Box<dyn Any + Send + Sync>,
    ) -> Result<Self> {
        let data = start(data, bytes)?;
        // SAFETY: the caller's contract.
        let storage = unsafe { Storage::external(data, bytes, keep, false) }?;
        Ok(ExternalMemory { storage })
    }

    /// Memory that calls may only read; `name` is what errors call it.
    ///
    /// # Errors
    /// As [`ExternalMemory::new`].
    ///
    /// # Safety
    ///
    /// Until `keep` is dropped, `bytes` bytes from `data` on are initialised, may be read and do not
    /// change. Where tensors of `bool` are made of them, each of their bytes is 0 or 1.
    pub unsafe fn read_only(
        data: *const u8,
        bytes: usize,
        name: impl Into<String>,
        keep: Box<dyn Any + Send + Sync>,
    ) -> Result<Self> {
        let data = start(data.cast_mut(), bytes)?;
        let keep = Box::new(ReadOnly { name: name.into(), _keep: keep });
        // SAFETY: the caller's contract; no exclusive access is given to what is read only.
        let storage = unsafe { Storage::external(data, bytes, keep, true) }?;
        Ok(ExternalMemory { storage })
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.storage.bytes()
    }

    /// Whether calls may only read it.
    pub fn is_read_only(&self) -> bool {
        self.storage.is_read_only()
    }

    /// A tensor of the CPU over it; sizes, strides and offset are in elements.
    ///
    /// Memory that is not aligned to its elements can be read only: the tensor has a copy then, which
    /// is read only, too. Nothing beyond that is asked of where it lies.
    ///
    /// # Errors
    /// Sizes and strides of other lengths or negative, elements outside of the memory, a dtype of
    /// quantized integers, or memory to write that is not aligned to its elements.
    pub fn tensor(
        &self,
        dtype: DType,
        sizes: &[i64],
        strides: &[i64],
        offset: i64,
    ) -> Result<Tensor> {
        if dtype.is_quantized() {
            return Err(super::kind::quantized_memory(dtype));
        }
        check_sizes(sizes)?;
        ensure_shape!(
            sizes.len() == strides.len(),
            "{} sizes and {} strides were given: each dimension has one of both",
            sizes.len(),
            strides.len()
        );
        ensure_shape!(
            strides.iter().all(|s| *s >= 0) && offset >= 0,
            "strides {strides:?} and the offset {offset} must not be negative"
        );
        let need = layout::storage_bytes(dtype.size(), sizes, strides, offset);
        ensure_shape!(
            need <= self.bytes(),
            "{dtype}{sizes:?} with strides {strides:?} at element {offset} reaches {}, and there are {}",
            if need == usize::MAX {
                "further than memory does".to_owned()
            } else {
                format!("{need} bytes")
            },
            self.bytes()
        );
        if need == 0 {
            let empty = Tensor::allocate(
                dtype,
                Device::CPU,
                Dims::from_slice(sizes),
                Dims::from_slice(strides),
            );
            return Ok(empty?.mark_made_during_capture());
        }
        let start = self.storage.ptr().map_or(0, |p| p.addr());
        if !start.is_multiple_of(alignment(dtype)) {
            return self.aligned()?.tensor(dtype, sizes, strides, offset);
        }
        let storage = self.storage.clone();
        let t = Tensor::build(storage, dtype, Device::CPU, sizes, strides, offset);
        Ok(t.mark_made_during_capture())
    }

    /// A copy that lies as allocated memory does.
    #[cold]
    fn aligned(&self) -> Result<ExternalMemory> {
        ensure!(
            self.is_read_only(),
            "the memory is not aligned to its elements, and calls may write it: pass a copy, or pass it as memory \
             that is only read"
        );
        let copy = self.copied()?.storage;
        let (data, bytes) = (copy.ptr().map_or(std::ptr::null(), |p| p.cast_const()), copy.bytes());
        // SAFETY: the copy keeps these bytes, and nobody else has it.
        unsafe { ExternalMemory::read_only(data, bytes, called(&self.storage), Box::new(copy)) }
    }

    /// A copy in memory of this crate's, which calls may write.
    ///
    /// # Errors
    /// No memory is left.
    ///
    /// ```
    /// use straightline::{DType, tensor::ExternalMemory};
    /// let bytes = &[1u8, 2, 3];
    /// // SAFETY: a constant.
    /// let memory = unsafe { ExternalMemory::read_only(bytes.as_ptr(), 3, "a constant", Box::new(())) }?;
    /// let copy = memory.copied()?.tensor(DType::U8, &[3], &[1], 0)?;
    /// assert_eq!(copy.add_(1)?.to_vec::<u8>()?, [2, 3, 4]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn copied(&self) -> Result<ExternalMemory> {
        let storage = Storage::allocate(self.bytes())?;
        let _reading = self.storage.read()?;
        if let (Some(from), Some(to)) = (self.storage.ptr(), storage.ptr()) {
            // SAFETY: both have so many bytes; one is read and the other is fresh.
            unsafe { std::ptr::copy_nonoverlapping(from, to, self.bytes()) };
        }
        Ok(ExternalMemory { storage })
    }
}

impl fmt::Debug for ExternalMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalMemory")
            .field("bytes", &self.bytes())
            .field("read_only", &self.is_read_only())
            .finish_non_exhaustive()
    }
}

/// What kernels ask of the address of an element.
pub(super) fn alignment(dtype: DType) -> usize {
    match dtype {
        DType::C64 => 4,
        DType::C128 => 8,
        other => other.size(),
    }
}

/// A tensor that has left the crate's care: its memory belongs to whoever has this value, and is
/// given back when it is dropped, on whichever thread.
///
/// ```
/// use straightline::tensor;
/// let x = tensor([[1.0, 2.0], [3.0, 4.0]])?;
/// let out = x.t()?.contiguous()?.into_external()?;
/// assert_eq!((out.sizes(), out.strides()), (&[2, 2][..], &[2, 1][..]));
/// // SAFETY: four floats in this layout, which are ours now.
/// let first_row = unsafe { std::slice::from_raw_parts(out.data().cast::<f32>(), 2) };
/// assert_eq!(first_row, [1.0, 3.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Debug)]
pub struct External {
    tensor: Tensor,
    copied: bool,
}

impl External {
    /// The address of the first element. Without elements it must not be read.
    pub fn data(&self) -> *mut u8 {
        self.tensor.address()
    }

    /// The size of each dimension.
    pub fn sizes(&self) -> &[i64] {
        self.tensor.sizes()
    }

    /// The stride of each dimension, in elements.
    pub fn strides(&self) -> &[i64] {
        self.tensor.strides()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.tensor.dtype()
    }

    /// Whether the memory must not be written: a weight that lies in a mapped file.
    pub fn is_read_only(&self) -> bool {
        self.tensor.storage().is_read_only()
    }

    /// Whether it is a copy, since others have the tensor's memory, too.
    pub fn is_copy(&self) -> bool {
        self.copied
    }

    /// The tensor, back in the crate's care.
    pub fn into_tensor(self) -> Tensor {
        self.tensor
    }
}

impl Tensor {
    /// A tensor of the CPU over memory of somebody else's, which `keep` keeps; see
    /// [`ExternalMemory`], which also has memory that is read only, and several tensors over one.
    /// Sizes and strides are in elements.
    ///
    /// # Errors
    /// As [`ExternalMemory::tensor`].
    ///
    /// # Safety
    ///
    /// As [`ExternalMemory::new`].
    ///
    /// ```
    /// use straightline::{DType, Tensor};
    /// let theirs = Box::leak(Box::new([1f32, 2.0, 3.0, 4.0, 5.0, 6.0]));
    /// // SAFETY: memory that is never given back, and nobody else uses.
    /// let x = unsafe {
    ///     Tensor::from_external(theirs.as_mut_ptr().cast(), 24, &[3, 2], &[1, 3], DType::F32, Box::new(()))
    /// }?;
    /// assert_eq!(x.to_vec2::<f32>()?, [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub unsafe fn from_external(
        data: *mut u8,
        bytes: usize,
        sizes: &[i64],
        strides: &[i64],
        dtype: DType,
        keep: Box<dyn Any + Send + Sync>,
    ) -> Result<Tensor> {
        // SAFETY: the caller's contract.
        let memory = unsafe { ExternalMemory::new(data, bytes, keep) }?;
        memory.tensor(dtype, sizes, strides, 0)
    }

    /// Hands the tensor out of the crate: its memory is the holder's alone. It is the tensor's own
    /// where nobody else has that (another handle, a view, a graph of gradients), or where it is read
    /// only; otherwise a copy with the same strides, or dense ones where elements share places.
    ///
    /// # Errors
    /// A tensor without memory of the CPU: move it there first. While a function is captured,
    /// [`ErrorKind::DataDependent`].
    #[track_caller]
    pub fn into_external(self) -> Result<External> {
        let at = std::panic::Location::caller();
        let tensor = self.ready_to_leave(at)?;
        let alone = tensor.storage().is_unshared();
        tensor.leave(alone)
    }

    /// Whether its memory may only be read: that of a mapped file, or what was passed as
    /// [`ExternalMemory::read_only`].
    ///
    /// ```
    /// use straightline::{pt2, tensor};
    /// let program = pt2::load("tests/data/pt2/lstm.pt2")?;
    /// assert!(program.weight("e.weight").unwrap().tensor.is_read_only());
    /// assert!(!tensor([1.0])?.is_read_only());
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn is_read_only(&self) -> bool {
        self.storage().is_read_only()
    }

    /// Out of the crate's care, as a copy where others have its memory.
    pub(super) fn leave(self, alone: bool) -> Result<External> {
        if alone || self.storage().is_read_only() {
            return Ok(External { tensor: self, copied: false });
        }
        Ok(External { tensor: self.own_copy()?, copied: true })
    }

    /// Another tensor over the same memory, which counts as nobody else's: [`Tensor::into_external`] hands
    /// it out without a copy, although this crate goes on using the memory.
    ///
    /// # Errors
    /// As [`Tensor::into_external`].
    ///
    /// # Safety
    ///
    /// Who gets the memory does not write it while a call of this crate uses a tensor over it, nor reads
    /// it while a call writes one.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 2.0])?;
    /// // SAFETY: no call runs meanwhile.
    /// let shared = unsafe { x.share_external() }?.into_external()?;
    /// unsafe { shared.data().cast::<f32>().write(5.0) };
    /// assert_eq!(x.to_vec::<f32>()?, [5.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub unsafe fn share_external(&self) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        watcher::check_read(self, "share_external()", Some(at))?;
        let tensor = if self.has_math_bits() { self.resolved()? } else { self.clone() };
        tensor.check_has_data("share_external()")?;
        let (storage, data) = (tensor.storage().clone(), tensor.address());
        let bytes = layout::storage_bytes(self.dtype().size(), tensor.sizes(), tensor.strides(), 0);
        let (sizes, strides) = (tensor.sizes().to_vec(), tensor.strides().to_vec());
        let (dtype, read_only) = (tensor.dtype(), storage.is_read_only());
        drop(tensor);
        // SAFETY: the storage keeps its memory, and lives as long as this; the caller's contract.
        let memory = unsafe {
            match read_only {
                true => ExternalMemory::read_only(
                    data,
                    bytes,
                    "memory that is shared",
                    Box::new(storage),
                ),
                false => ExternalMemory::new(data, bytes, Box::new(storage)),
            }
        }?;
        memory.tensor(dtype, &sizes, &strides, 0)
    }

    /// A copy in memory of its own, with the same strides if these are dense.
    fn own_copy(&self) -> Result<Tensor> {
        let dense = layout::is_non_overlapping_and_dense(self.sizes(), self.strides());
        let strides = match dense {
            true => Dims::from_slice(self.strides()),
            false => layout::contiguous_strides(self.sizes()),
        };
        let mut out =
            Tensor::allocate(self.dtype(), self.device(), Dims::from_slice(self.sizes()), strides)?;
        super::launch::run(&mut out, self, |out, from| {
            Ok(straightline_runtime::cpu::kernels::copy(out, from)?)
        })?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compile, tensor};
    use std::sync::Arc;

    fn floats(numbers: &[f32]) -> (Arc<Vec<f32>>, ExternalMemory) {
        let theirs = Arc::new(numbers.to_vec());
        let data = theirs.as_ptr().cast::<u8>().cast_mut();
        let keep = Box::new(Arc::clone(&theirs));
        // SAFETY: the `Arc` keeps the floats; tests write them through one tensor at a time.
        let memory = unsafe { ExternalMemory::new(data, numbers.len() * 4, keep) };
        (theirs, memory.unwrap())
    }

    fn fixed(numbers: &[f32]) -> (Arc<Vec<f32>>, ExternalMemory) {
        let theirs = Arc::new(numbers.to_vec());
        let keep = Box::new(Arc::clone(&theirs));
        let data = theirs.as_ptr().cast::<u8>();
        // SAFETY: the `Arc` keeps the floats, which nobody writes.
        let memory = unsafe { ExternalMemory::read_only(data, numbers.len() * 4, "`fixed`", keep) };
        (theirs, memory.unwrap())
    }

    #[test]
    fn memory_is_kept_until_the_last_tensor_goes() {
        let (theirs, memory) = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let whole = memory.tensor(DType::F32, &[2, 3], &[3, 1], 0).unwrap();
        let column = memory.tensor(DType::F32, &[2], &[3], 2).unwrap();
        assert!(whole.shares_storage_with(&column));
        assert_eq!(whole.data_ptr().unwrap().addr(), theirs.as_ptr().addr());
        column.fill_(9.0).unwrap();
        assert_eq!(whole.to_vec::<f32>().unwrap(), [1.0, 2.0, 9.0, 4.0, 5.0, 9.0]);
        drop((memory, whole));
        assert_eq!(Arc::strong_count(&theirs), 2);
        std::thread::spawn(move || drop(column)).join().unwrap();
        assert_eq!(Arc::strong_count(&theirs), 1);
        assert_eq!(theirs[5], 9.0);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (_theirs, memory) = floats(&[0.0; 6]);
        for (sizes, strides, offset) in [
            (&[7][..], &[1][..], 0),
            (&[6], &[1], 1),
            (&[2, 2], &[5, 1], 0),
            (&[2], &[i64::MAX], 0),
            (&[i64::MAX, 2], &[0, 1], 0),
            (&[2], &[1], i64::MAX),
            (&[2], &[1, 1], 0),
            (&[-1], &[1], 0),
            (&[2], &[-1], 3),
            (&[2], &[1], -1),
        ] {
            let refused = memory.tensor(DType::F32, sizes, strides, offset);
            assert!(refused.is_err(), "{sizes:?} {strides:?} {offset}");
        }
        assert!(memory.tensor(DType::QInt8, &[1], &[1], 0).is_err());
        assert!(memory.tensor(DType::F64, &[3], &[1], 0).is_ok());
        assert_eq!(memory.tensor(DType::F32, &[0, 9], &[9, 1], 0).unwrap().numel(), 0);
        assert_eq!(memory.tensor(DType::F32, &[1000], &[0], 5).unwrap().numel(), 1000);
    }

    #[test]
    fn read_only_memory_refuses_every_kind_of_write() {
        let (theirs, memory) = fixed(&[1.0, 2.0, 3.0]);
        let x = memory.tensor(DType::F32, &[3], &[1], 0).unwrap();
        let y = tensor([1.0, 2.0, 3.0]).unwrap();
        let written = x.clone();
        let add = compile(move |y: &Tensor| written.add_(y));
        let passed = compile(|x: &Tensor, y: &Tensor| x.copy_(y));
        let refusals = [
            x.add_(1.0).err(),
            x.zero_().err(),
            x.narrow(0, 0, 2).and_then(|v| v.fill_(3.0)).err(),
            x.index_fill_(0, &tensor([0i64]).unwrap(), 2.0).err(),
            x.copy_(&y).err(),
            x.uniform_(0.0, 1.0).err(),
            crate::ops::aten::add_out(&y, &y, 1.into(), &x).err(),
            crate::ops::aten::mm_out(&y.view([3, 1]).unwrap(), &y.view([1, 3]).unwrap(), &x).err(),
            add.call(&y).err(),
            add.call(&y).err(),
            passed.call((&x, &y)).err(),
            std::thread::scope(|s| s.spawn(|| x.mul_(2.0).err()).join().unwrap()),
        ];
        for (i, refused) in refusals.into_iter().enumerate() {
            let e = refused.unwrap_or_else(|| panic!("write {i} was made"));
            assert!(
                matches!(e.kind(), ErrorKind::ReadOnly { memory } if memory == "`fixed`"),
                "{i}: {e}"
            );
        }
        assert_eq!(**theirs, [1.0, 2.0, 3.0]);
        // it is read, and copies are written, on any thread
        assert_eq!(x.add(&y).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
        assert_eq!(x.copied().unwrap().add_(1).unwrap().to_vec::<f32>().unwrap(), [2.0, 3.0, 4.0]);
        std::thread::scope(|s| {
            let there = s.spawn(|| x.sum().unwrap().item::<f32>().unwrap());
            assert_eq!(there.join().unwrap(), 6.0);
        });
        assert!(crate::ops::aten::resize_(&x, &[20], None).is_err());
        assert_eq!(x.version(), 0);
    }

    #[test]
    fn memory_may_begin_anywhere() {
        let mut bytes = [0u8; 41];
        for at in 0..8 {
            bytes[at..at + 8].copy_from_slice(&[1f32, 2.0].map(f32::to_le_bytes).concat());
            let data = bytes.as_ptr().wrapping_add(at);
            // SAFETY: the vector outlives the tensor and is not written meanwhile.
            let memory =
                unsafe { ExternalMemory::read_only(data, 8, "bytes", Box::new(())) }.unwrap();
            let x = memory.tensor(DType::F32, &[2], &[1], 0).unwrap();
            assert_eq!(x.add(1).unwrap().to_vec::<f32>().unwrap(), [2.0, 3.0]);
            let aligned = data.addr().is_multiple_of(4);
            assert_eq!(x.data_ptr().unwrap().addr() == data.addr(), aligned);
            // SAFETY: as above.
            let memory = unsafe { ExternalMemory::new(data.cast_mut(), 8, Box::new(())) }.unwrap();
            assert_eq!(memory.tensor(DType::F32, &[2], &[1], 0).is_ok(), aligned);
        }
    }

    #[test]
    fn results_are_handed_out_without_a_copy() {
        let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).unwrap();
        let at = x.data_ptr().unwrap();
        let out = x.into_external().unwrap();
        assert!(!out.is_copy() && out.data() == at && !out.is_read_only());
        let back = out.into_tensor();
        // a handle, a view, and what a graph of gradients saves have the memory too
        let view = back.narrow(1, 1, 2).unwrap();
        let out = view.clone().into_external().unwrap();
        assert!(out.is_copy());
        assert_eq!((out.sizes(), out.strides()), (&[2, 2][..], &[2, 1][..]));
        assert_eq!(out.into_tensor().to_vec::<f32>().unwrap(), [2.0, 3.0, 5.0, 6.0]);
        let at = view.data_ptr().unwrap();
        drop(back);
        let out = view.into_external().unwrap();
        assert!(!out.is_copy() && out.data() == at && out.strides() == [3, 1]);
        let leaf = tensor([1.0]).unwrap().requires_grad_(true).unwrap();
        let saved = leaf.exp().unwrap();
        let loss = saved.mul(2).unwrap();
        assert!(saved.into_external().unwrap().is_copy());
        let last = leaf.exp().unwrap();
        assert!(!last.into_external().unwrap().is_copy(), "the graph is gone with it");
        drop(loss);
        let (_theirs, memory) = fixed(&[1.0]);
        let weight = memory.tensor(DType::F32, &[1], &[1], 0).unwrap();
        let out = weight.clone().into_external().unwrap();
        assert!(out.is_read_only() && !out.is_copy());
        assert!(tensor([1.0]).unwrap().to_device(Device::META).unwrap().into_external().is_err());
    }

    #[test]
    fn compiled_functions_read_memory_of_others() {
        let (theirs, memory) = fixed(&[1.0, 2.0, 3.0, 4.0]);
        let weight = memory.tensor(DType::F32, &[2, 2], &[2, 1], 0).unwrap();
        let f = compile(move |x: &Tensor| x.mm(&weight)?.relu());
        let x = tensor([[1.0, -1.0]]).unwrap();
        for _ in 0..3 {
            assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), [0.0, 0.0]);
            assert_eq!(f.call(&x.neg().unwrap()).unwrap().to_vec::<f32>().unwrap(), [2.0, 2.0]);
        }
        drop((f, memory));
        assert_eq!(Arc::strong_count(&theirs), 1);
    }
}
