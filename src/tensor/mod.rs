//! Tensors: a shared storage seen through sizes and strides.
//!
//! | file | what |
//! |---|---|
//! | `storage` | the bytes and their version |
//! | `borrow` | readers and writers of a storage, on any thread |
//! | `held` | which storages a thread reads |
//! | `waiting` | the queue of calls that want storages which others use |
//! | `busy` | whether calls wait, and the error of those that do not get a storage |
//! | `counted` | the shared handle behind tensors and storages |
//! | `handles` | the handles of plans, which are not counted among others |
//! | `history` | what a tensor knows about gradients |
//! | `inference` | tensors made in inference mode |
//! | `node` | the nodes of the graph that gradients flow through |
//! | `access` | taking operands for the length of a kernel call |
//! | `dlpack` | tensors from and to other libraries |
//! | `external` | tensors over memory of others, and tensors handed out |
//! | `together` | tensors handed out together, which share memory |
//! | `lent` | tensors whose memory is lent for a call |
//! | `factory` | tensors from data, and data from tensors |
//! | `methods` | the hand-written part of `Tensor`'s interface; operators add the rest |
//! | `opaque` | tensors with a payload instead of memory |
//! | `operators` | the signs, `+ - * /` and so on |
//! | `other` | second operands: tensors or numbers |
//! | `display` | printing as PyTorch prints |
//! | `index` | indexing as it is written, and assignment through it |
//! | `ints` | sizes and dimensions as they are written |
//! | `kind` | which of the kinds a tensor is: strided, sparse, quantized, nested |
//! | `display_layouts` | printing the kinds that are not plain memory |
//! | `shape` | sizes and strides; building a tensor in place |
//! | `geometry` | sizes and strides that change in place |
//! | `literal` | tensors written down: numbers and nested arrays |
//! | `options` | dtype, device and generator of new tensors; the factories |
//! | `math_bits` | tensors that stand for the negation of their memory, or for zeros |
//! | `generator` | random number generators |
//! | `read` | values out of tensors: one, rows, all |
//! | `tensors` | several tensors at once |
//! | `settled` | stand-ins of a capture that become ordinary tensors |

pub(crate) mod access;
mod borrow;
mod busy;
mod counted;
pub mod dlpack;
mod element;
mod elements;
mod external;
mod factory;
mod generator;
mod geometry;
mod handles;
mod held;
pub(crate) mod history;
pub(crate) mod inference;
pub(crate) mod ints;
mod kind;
pub(crate) mod launch;
mod lent;
pub(crate) mod literal;
mod math_bits;
pub(crate) mod node;
#[cfg(feature = "cuda")]
pub(crate) mod on_device;
mod opaque;
mod other;
pub(crate) mod placement;
mod reserved;
mod settled;
mod shape;
pub(crate) mod storage;
pub(crate) mod tangent;
mod tensors;
mod together;
mod waiting;
#[cfg(test)]
mod waiting_tests;
pub(crate) mod watch;
pub(crate) mod watcher;

pub use busy::{BorrowScope, Busy, BusyReason, borrows_wait, try_borrows};
pub use element::Element;
pub use external::{External, ExternalMemory};
pub use generator::{Generator, manual_seed};
pub use ints::{Int, Ints, OptionalInt, Sections};
pub use lent::RawTensor;
pub use literal::{Literal, Number, Progression, tensor};
pub use opaque::OpaqueBuilder;
pub use other::Other;
pub use tensors::{OptionalTensors, Tensors};

use crate::error::Result;
use counted::Counted;
use geometry::Replaced;
pub(crate) use handles::Held;
use history::{History, View};
use settled::Keys;
pub(crate) use shape::check_sizes;
use shape::{Parts, Shape, keys_of};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use storage::Storage;
use straightline_catalog::DispatchKeySet;
use straightline_catalog::TensorMeta;
use straightline_catalog::{DType, Device, DeviceType, Dims, layout};
use watcher::Question;

/// An n-dimensional array of one dtype on one device.
///
/// **`clone()` is a handle, and [`copied()`](Tensor::copied) copies.** A clone is the same tensor:
/// it shares the data, and what an operator writes in place is seen through every clone. A view
/// shares the storage of its base in the same way.
///
/// ```
/// use straightline::tensor;
/// let x = tensor([[1.0, 2.0], [3.0, 4.0]])?;
/// let (handle, copy) = (x.clone(), x.copied()?);
/// x.add_(10)?;
/// assert_eq!(handle.to_vec2::<f32>()?, [[11.0, 12.0], [13.0, 14.0]]);
/// assert_eq!(copy.to_vec2::<f32>()?, [[1.0, 2.0], [3.0, 4.0]]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Signs and words
///
/// **A sign gives a tensor and panics where it cannot; a word gives a `Result`.** `&x * 2.0 + 1.0`
/// is for formulas; `x.mul(2.0)?.add(1.0)?` computes the same and returns an error where shapes or
/// dtypes do not fit. Both name the operator, the operands and your line. Signs that give a
/// `Result`, as some libraries have them, need a `?` after each: Rust does not allow `+` between a
/// `Result` and a number to be defined here, and `+=` cannot return anything. So signs panic as
/// Rust's own operators do (`v[7]`, `1 / 0`), and words return errors. Inside a compiled function a
/// sign that fails is the error of the call.
///
/// ```
/// use straightline::tensor;
/// let x = tensor([1.0, 2.0, 3.0])?;
/// let y = 0.5 * &x * (1.0 + (0.8 * &x).tanh()?);
/// assert_eq!(y.sizes(), [3]);
/// let error = x.add(&tensor([1.0, 2.0])?).unwrap_err();
/// assert_eq!(error.op(), Some("aten::add.Tensor"));
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// `%` is [`remainder`](Tensor::remainder), whose sign is the divisor's as in PyTorch; `& | ^ !`
/// are the bitwise words, which on `bool` are the logical ones. The second operand is a tensor, a
/// reference to one, or a number of any type; a number on the left of a sign is an `f64` or an
/// `i64`, as literals are. Comparisons are words, since Rust's `<` gives a `bool`: `x.gt(0.5)?`,
/// `x.le(&y)?`.
///
/// # Where to find what
///
/// - made: [`tensor`](crate::tensor()), [`Tensor::zeros`] and the other factories, [`Tensor::with`]
///   for another dtype or device
/// - indexed: [`Tensor::i`], and assigned to through an index: [`Tensor::i_put_`]
/// - read: [`item`](Tensor::item), [`to_vec`](Tensor::to_vec), [`to_vec2`](Tensor::to_vec2),
///   [`iter`](Tensor::iter)
/// - compared: [`allclose`](Tensor::allclose), [`equal`](Tensor::equal),
///   [`assert_close`](crate::assert_close)
#[derive(Clone)]
pub struct Tensor(Counted<TensorImpl>);

/// What a mode attaches to the tensors it makes (the functional wrapper's alias state, the graph
/// value that a traced tensor stands for).
pub(crate) type Extra = Arc<dyn Any + Send + Sync>;

/// The mark of tensors made from data while a function is captured: they are constants of the
/// graph, and writes to them do not outlive a call.
struct MadeDuringCapture(u64);

pub(crate) struct TensorImpl {
    keys: Keys,
    view: View,
    dtype: DType,
    device: Device,
    contiguous: bool,
    wrapped_number: bool,
    /// In what the tensor itself takes part, and not only its base: gradients, tangents.
    takes_part: AtomicU8,
    /// Whether `history` has a node.
    computed: AtomicBool,
    /// Whether `extra` is void.
    settled: AtomicBool,
    /// A bit for each dimension whose size varies, as the user says.
    dynamic: AtomicU32,
    /// How many of the handles are [`Held`].
    held: AtomicU32,
    offset: i64,
    numel: i64,
    shape: Shape,
    storage: Storage,
    extra: Option<Extra>,
    /// Replaces `offset`, `numel`, `contiguous`, `shape` and `storage` once they have changed.
    replaced: Replaced,
    history: History,
}

/// What follows from sizes and strides, and a tensor keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Derived {
    numel: i64,
    contiguous: bool,
}

impl Derived {
    #[inline]
    pub(crate) fn of(sizes: &[i64], strides: &[i64]) -> Derived {
        Derived { numel: layout::numel(sizes), contiguous: layout::is_contiguous(sizes, strides) }
    }
}

/// The device with its number: a GPU without one is the current one.
pub(crate) fn numbered(device: Device) -> Device {
    match device.kind {
        #[cfg(feature = "cuda")]
        DeviceType::Cuda => on_device::numbered(device),
        _ => device,
    }
}

impl Tensor {
    /// The general constructor; checks nothing.
    #[inline]
    pub(crate) fn build(
        storage: Storage,
        dtype: DType,
        device: Device,
        sizes: impl AsRef<[i64]>,
        strides: impl AsRef<[i64]>,
        offset: i64,
    ) -> Tensor {
        let keys = keys_of(device.kind);
        Tensor::build_with(storage, dtype, device, sizes, strides, offset, keys, None)
    }

    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub(crate) fn build_with(
        storage: Storage,
        dtype: DType,
        device: Device,
        sizes: impl AsRef<[i64]>,
        strides: impl AsRef<[i64]>,
        offset: i64,
        keys: DispatchKeySet,
        extra: Option<Extra>,
    ) -> Tensor {
        let (sizes, strides) = (sizes.as_ref(), strides.as_ref());
        let storage = match layout::storage_bytes(dtype.size(), sizes, strides, offset) {
            need if need <= storage.bytes() => storage,
            // the shape was read while another thread changed it, so no memory matches it
            need => Storage::without_data(need),
        };
        let Derived { numel, contiguous } = Derived::of(sizes, strides);
        let wrapped_number = false;
        let parts = Parts {
            storage,
            dtype,
            device,
            keys,
            offset,
            numel,
            contiguous,
            wrapped_number,
            extra,
        };
        Tensor::place(parts, sizes, strides)
    }

    /// A plain tensor at the beginning of a storage that has the bytes for it; what follows from its
    /// sizes and strides is known.
    #[inline]
    pub(crate) fn at_beginning(storage: Storage, meta: &TensorMeta, derived: Derived) -> Tensor {
        debug_assert!(meta.storage_bytes() <= storage.bytes());
        let Derived { numel, contiguous } = derived;
        let parts = Parts {
            storage,
            dtype: meta.dtype,
            device: meta.device,
            keys: keys_of(meta.device.kind),
            offset: 0,
            numel,
            contiguous,
            wrapped_number: false,
            extra: None,
        };
        Tensor::place(parts, &meta.sizes, &meta.strides)
    }

    /// A tensor with fresh, unset memory (no memory on the Meta device).
    pub(crate) fn allocate(
        dtype: DType,
        device: Device,
        sizes: Dims,
        strides: Dims,
    ) -> Result<Tensor> {
        if dtype.is_quantized() {
            return Err(kind::quantized_memory(dtype));
        }
        let device = numbered(device);
        let bytes = layout::storage_bytes(dtype.size(), &sizes, &strides, 0);
        // sizes with a 0 among them need no memory, but their product must still not overflow
        if bytes == 0 {
            crate::ops::common::check_sizes(&sizes)?;
        }
        if bytes > isize::MAX as usize {
            return Err(crate::Error::shape(format!(
                "a tensor of sizes {:?} has more bytes than can be addressed",
                sizes.as_slice()
            )));
        }
        let storage = match device.kind {
            DeviceType::Cpu => Storage::allocate_for(dtype, bytes)?,
            DeviceType::Meta => Storage::without_data(bytes),
            #[cfg(feature = "cuda")]
            DeviceType::Cuda => on_device::allocate(device, bytes)?,
            _ => {
                return Err(crate::Error::device(format!(
                    "no allocator for device `{device}`: only tensors on `cpu`, `meta` and, with the feature `cuda`, `cuda` can be made"
                )));
            }
        };
        Ok(Tensor::build(storage, dtype, device, sizes, strides, 0))
    }

    /// [`Tensor::allocate`] in row-major order.
    pub(crate) fn allocate_contiguous(
        dtype: DType,
        device: Device,
        sizes: &[i64],
    ) -> Result<Tensor> {
        Tensor::allocate(dtype, device, Dims::from_slice(sizes), layout::contiguous_strides(sizes))
    }

    /// Fresh, unset CPU memory in the shape of a row-major CPU tensor: what most element-wise
    /// operators need. Everything known about the other tensor is copied rather than recomputed.
    #[inline]
    pub(crate) fn allocate_like_contiguous(like: &Tensor, dtype: DType) -> Result<Tensor> {
        let i = &*like.0;
        debug_assert!(like.is_contiguous() && i.device.is_cpu());
        let parts = Parts {
            storage: Storage::allocate_for(dtype, like.numel() as usize * dtype.size())?,
            dtype,
            device: Device::CPU,
            keys: keys_of(DeviceType::Cpu),
            offset: 0,
            numel: like.numel(),
            contiguous: true,
            wrapped_number: false,
            extra: None,
        };
        let sizes = like.sizes();
        // not the other's strides: a dimension of size 1 may have any and still be row-major
        Ok(match sizes {
            [_] => Tensor::place(parts, sizes, &[1]),
            _ => Tensor::place(parts, sizes, &layout::contiguous_strides(sizes)),
        })
    }

    /// Another tensor over the same storage. The caller has checked that it fits.
    #[inline]
    pub(crate) fn with_geometry(
        &self,
        sizes: impl AsRef<[i64]>,
        strides: impl AsRef<[i64]>,
        offset: i64,
    ) -> Tensor {
        Tensor::build_with(
            self.storage().clone(),
            self.0.dtype,
            self.0.device,
            sizes,
            strides,
            offset,
            self.key_set(),
            None,
        )
    }

    /// The same tensor, marked as a number that was wrapped into a 0-dim tensor: it takes part in
    /// type promotion as a scalar does.
    pub(crate) fn into_wrapped_number(self) -> Tensor {
        let i = &*self.0;
        let parts = Parts {
            storage: self.storage().clone(),
            dtype: i.dtype,
            device: i.device,
            keys: self.key_set(),
            offset: self.offset(),
            numel: self.numel(),
            contiguous: self.is_contiguous(),
            wrapped_number: true,
            extra: self.extra().cloned(),
        };
        Tensor::place(parts, self.sizes(), self.strides())
    }

    /// The dispatch keys of this tensor. Tensors of a captured function also have capture's key.
    #[inline]
    pub fn key_set(&self) -> DispatchKeySet {
        self.0.keys.get()
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Where the tensor lives.
    #[inline]
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// The size of each dimension.
    #[inline]
    pub fn sizes(&self) -> &[i64] {
        match self.0.replaced.current() {
            None => self.0.shape.sizes(),
            Some(g) => &g.sizes,
        }
    }

    /// The size of each dimension: [`Tensor::sizes`] by its other name in PyTorch.
    #[inline]
    pub fn shape(&self) -> &[i64] {
        self.sizes()
    }

    /// The stride of each dimension, in elements.
    #[inline]
    pub fn strides(&self) -> &[i64] {
        match self.0.replaced.current() {
            None => self.0.shape.strides(),
            Some(g) => &g.strides,
        }
    }

    /// The position of the first element in the storage, in elements.
    #[inline]
    pub fn storage_offset(&self) -> i64 {
        if self.0.extra.is_some() {
            watcher::asked(Question::Offset(self));
        }
        self.offset()
    }

    /// [`Tensor::storage_offset`] for internal use, which does not count as a question of a
    /// captured function.
    #[inline]
    pub(crate) fn offset(&self) -> i64 {
        match self.0.replaced.current() {
            None => self.0.offset,
            Some(g) => g.offset,
        }
    }

    /// The number of dimensions.
    #[inline]
    pub fn dim(&self) -> usize {
        match self.0.replaced.current() {
            None => self.0.shape.rank(),
            Some(g) => g.sizes.len(),
        }
    }

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> i64 {
        match self.0.replaced.current() {
            None => self.0.numel,
            Some(g) => g.numel,
        }
    }

    /// Whether the elements lie in row-major order without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        match self.0.replaced.current() {
            None => self.0.contiguous,
            Some(g) => g.contiguous,
        }
    }

    /// Whether this 0-dim tensor stands for a bare number in type promotion.
    #[inline]
    pub fn is_wrapped_number(&self) -> bool {
        self.0.wrapped_number
    }

    /// How many handles of this tensor exist.
    pub(crate) fn handles(&self) -> usize {
        self.0.handles()
    }

    /// The number of writes that the storage has seen. It is refused while a function is captured,
    /// because a compiled call writes after everything is computed.
    #[track_caller]
    pub fn version(&self) -> u64 {
        let why = "a compiled function writes its tensors when all is computed, not one operator after the other; \
                   move the question outside";
        // the error waits for the end of the capture
        let _ = watcher::check("version() of a tensor", why);
        self.storage().version()
    }

    /// Whether two tensors share their storage. What a function that is being captured is answered
    /// must hold at later calls, too, or it is captured anew.
    pub fn shares_storage_with(&self, other: &Tensor) -> bool {
        let same = self.storage().same(other.storage());
        match self.0.extra.is_some() || other.0.extra.is_some() {
            true => watcher::asked(Question::Shared(self, other)).unwrap_or(same),
            false => same,
        }
    }

    /// Whether two handles are the same tensor. What a function that is being captured is answered
    /// must hold at later calls, too, or it is captured anew.
    pub fn is_same(&self, other: &Tensor) -> bool {
        let stand_in = self.0.extra.is_some() || other.0.extra.is_some();
        let same = self.same_handle(other);
        match stand_in && !same {
            true => watcher::asked(Question::Same(self, other)).unwrap_or(same),
            false => same,
        }
    }

    /// [`Tensor::is_same`] for internal use, which does not count as a question of a captured
    /// function.
    #[inline]
    pub(crate) fn same_handle(&self, other: &Tensor) -> bool {
        self.0.same(&other.0)
    }

    pub(crate) fn id(&self) -> usize {
        self.0.address()
    }

    #[inline]
    pub(crate) fn storage(&self) -> &Storage {
        match self.0.replaced.current() {
            None => &self.0.storage,
            Some(g) => &g.storage,
        }
    }

    /// Where the first element lies in the storage, in bytes; saturated, since an empty tensor may
    /// begin anywhere.
    pub(crate) fn byte_offset(&self) -> i64 {
        self.offset().saturating_mul(self.dtype().size() as i64)
    }

    /// The capture during which this tensor was made from data, if any.
    pub(crate) fn made_during_capture(&self) -> Option<u64> {
        self.extra().and_then(|e| e.downcast_ref::<MadeDuringCapture>()).map(|m| m.0)
    }

    /// Marks a tensor made from data while this thread captures a function; under a mode of fake
    /// tensors it is a fake.
    pub(crate) fn mark_made_during_capture(self) -> Tensor {
        let Some(capture) = watcher::capture() else {
            return watcher::faked(self);
        };
        let i = &*self.0;
        let marked = Tensor::build_with(
            self.storage().clone(),
            i.dtype,
            i.device,
            self.sizes(),
            self.strides(),
            self.offset(),
            self.key_set(),
            Some(Arc::new(MadeDuringCapture(capture))),
        );
        watcher::made_from_data(&marked);
        marked
    }

    pub(crate) fn extra(&self) -> Option<&Extra> {
        (self.0.extra.as_ref()).filter(|_| !self.0.settled.load(Ordering::Acquire))
    }

    pub(crate) fn meta(&self) -> TensorMeta {
        TensorMeta {
            dtype: self.0.dtype,
            sizes: Dims::from_slice(self.sizes()),
            strides: Dims::from_slice(self.strides()),
            device: self.0.device,
        }
    }
}
