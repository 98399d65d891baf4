//! Taking operands for the length of a kernel call: borrow guards, pointers, overlap checks.

use super::Tensor;
use super::borrow::Access;
use super::storage::{self, ReadGuard, ReservedGuard, Storage, WriteGuard};
use super::waiting::Held;
use crate::error::{Error, Result};
use smallvec::SmallVec;
use straightline_catalog::{Dims, layout};
use straightline_runtime::cpu::kernels::Strided;

impl Tensor {
    /// The address of the first element.
    ///
    /// Fails for tensors without data: Meta tensors, and those that stand for values while a
    /// function is being captured.
    #[inline]
    pub(crate) fn data_ptr(&self) -> Result<*mut u8> {
        // with a math bit set, memory differs from the values
        match self.storage().has_data() && !self.is_neg() && !self.is_conj() {
            true => Ok(self.address()),
            false => Err(self.no_memory_error("this operation")),
        }
    }

    /// Where the elements begin, of a tensor that has some.
    #[inline]
    pub(crate) fn address(&self) -> *mut u8 {
        let start = self.storage().ptr().unwrap_or(std::ptr::null_mut());
        // wrapping_add: a zero-element view may point past the end, and is never read
        start.wrapping_add((self.offset() as usize).wrapping_mul(self.dtype().size()))
    }

    /// Refuses complex tensors.
    #[inline]
    pub(crate) fn check_real(&self) -> Result<()> {
        ensure_not_implemented!(
            !self.dtype().is_complex(),
            "not implemented for {}",
            self.dtype().torch_name()
        );
        Ok(())
    }

    /// The tensor as a kernel operand, in its own shape, of any dtype.
    #[inline]
    pub(crate) fn strided(&self) -> Result<Strided<'_>> {
        Ok(Strided {
            ptr: self.data_ptr()?,
            dtype: self.dtype(),
            sizes: self.sizes(),
            strides: self.strides(),
        })
    }
}

impl Tensor {
    /// Shared access to the tensor's elements.
    #[inline]
    pub(crate) fn read(&self) -> Result<ReadGuard<'_>> {
        let guard = self.storage().read()?;
        self.check_settled()?;
        Ok(guard)
    }

    /// Exclusive access to the tensor's elements; counts as a new version.
    #[inline]
    pub(crate) fn write(&self) -> Result<WriteGuard<'_>> {
        self.check_writable()?;
        let guard = self.storage().write()?;
        self.check_settled()?;
        Ok(guard)
    }
}

/// Shared access to several tensors.
pub(crate) type ReadGuards<'a> = SmallVec<[ReadGuard<'a>; 4]>;

/// Exclusive access to several tensors.
pub(crate) type WriteGuards<'a> = SmallVec<[WriteGuard<'a>; 1]>;

/// Takes shared access to the operands; waits for all of them, holding none.
#[inline]
pub(crate) fn read<'a>(tensors: &[&'a Tensor]) -> Result<ReadGuards<'a>> {
    let mut guards = ReadGuards::new();
    for t in tensors {
        let Some(guard) = t.storage().try_read() else {
            drop(guards);
            return read_contended(tensors);
        };
        guards.push(guard);
        t.check_settled()?;
    }
    Ok(guards)
}

/// Shared access to two tensors, if it can be had at once.
#[inline]
pub(crate) fn try_read_both<'a>(
    a: &'a Tensor,
    b: &'a Tensor,
) -> Result<Option<(ReadGuard<'a>, ReadGuard<'a>)>> {
    let Some(first) = a.storage().try_read() else {
        return Ok(None);
    };
    let Some(second) = b.storage().try_read() else {
        return Ok(None);
    };
    a.check_settled()?;
    b.check_settled()?;
    Ok(Some((first, second)))
}

#[cold]
fn read_contended<'a>(tensors: &[&'a Tensor]) -> Result<ReadGuards<'a>> {
    let held = Operands::default().reading(tensors).take()?;
    tensors.iter().try_for_each(|t| t.check_settled())?;
    Ok(held.reads)
}

/// Exclusive access to `out` and shared access to the inputs in other storages.
pub(crate) struct Writing<'a> {
    write: SmallVec<[WriteGuard<'a>; 1]>,
    _reads: ReadGuards<'a>,
}

/// Takes exclusive access to `out` and shared access to `inputs`, which must not partly overlap
/// it (see [`detach_overlap`]); waits for all of them, holding none.
pub(crate) fn write<'a>(out: &'a Tensor, inputs: &[&'a Tensor]) -> Result<Writing<'a>> {
    check_no_internal_overlap(out)?;
    write_in_turn(out, inputs)
}

/// [`write`] for kernels that write places in order, so that several elements may share an address:
/// the last value stays.
pub(crate) fn write_in_turn<'a>(out: &'a Tensor, inputs: &[&'a Tensor]) -> Result<Writing<'a>> {
    let writing = match try_write(out, inputs) {
        Some(writing) => writing,
        None => write_contended(out, inputs)?,
    };
    out.check_settled()?;
    for t in inputs {
        t.check_settled()?;
    }
    if !writing.write.is_empty() {
        out.check_writable()?;
    }
    for guard in &writing.write {
        out.storage().count_write(guard);
    }
    Ok(writing)
}

#[inline]
fn try_write<'a>(out: &'a Tensor, inputs: &[&'a Tensor]) -> Option<Writing<'a>> {
    let write = out.storage().try_hold()?;
    let mut reads = ReadGuards::new();
    for t in inputs {
        if !t.shares_storage_with(out) {
            reads.push(t.storage().try_read()?);
        }
    }
    Some(Writing { write: SmallVec::from_buf([write]), _reads: reads })
}

#[cold]
fn write_contended<'a>(out: &'a Tensor, inputs: &[&'a Tensor]) -> Result<Writing<'a>> {
    let others = inputs.iter().filter(|t| !t.shares_storage_with(out));
    let others: SmallVec<[&Tensor; 4]> = others.copied().collect();
    let held = Operands::default().writing(&[out]).reading(&others).take()?;
    Ok(Writing { write: held.writes, _reads: held.reads })
}

/// The guards of a call of several kernels, held for its length.
#[must_use = "the call has it until this is dropped"]
pub(crate) struct Whole<'a> {
    _writes: SmallVec<[ReservedGuard<'a>; 1]>,
    _reads: ReadGuards<'a>,
}

/// [`whole`] for an element-wise call in place: each element that is written has an address of its
/// own, and no operand lies partly over them. PyTorch's iterator checks this, before any kernel
/// converts or copies operands.
pub(crate) fn in_place<'a>(written: &'a Tensor, read: &[&'a Tensor]) -> Result<Whole<'a>> {
    check_no_internal_overlap(written)?;
    for t in read {
        check_no_partial_overlap(written, t)?;
    }
    whole(&[written], read)
}

/// Takes everything that a call of several kernels reads and writes, until the guard is dropped, so
/// that no other thread intervenes between two of them. The kernels beneath the call take the
/// operands in turn, as if they were free; the call itself must not touch the memory. Waits for all
/// of them, holding none.
///
/// A tensor may be in both lists.
pub(crate) fn whole<'a>(written: &[&'a Tensor], read: &[&'a Tensor]) -> Result<Whole<'a>> {
    if written.is_empty() {
        return whole_reads(read);
    }
    let mut writes: SmallVec<[&Tensor; 2]> = SmallVec::new();
    for t in written {
        if !writes.iter().any(|w| w.shares_storage_with(t)) {
            writes.push(t);
        }
    }
    let is_written = |t: &Tensor| writes.iter().any(|w| w.shares_storage_with(t));
    let reads = || read.iter().copied().filter(|t| !is_written(t));
    let at_once = || {
        let mut held = Held::default();
        for t in &writes {
            held.writes.push(t.storage().try_hold()?);
        }
        for t in reads() {
            held.reads.push(t.storage().try_read()?);
        }
        Some(held)
    };
    let held = match at_once() {
        Some(held) => held,
        None => {
            let reads: SmallVec<[&Tensor; 4]> = reads().collect();
            Operands::default().writing(&writes).reading(&reads).take()?
        }
    };
    Ok(Whole {
        _writes: (held.writes.into_iter()).filter_map(ReservedGuard::new).collect(),
        _reads: held.reads,
    })
}

/// [`whole`] of a call that writes nothing.
#[inline]
fn whole_reads<'a>(tensors: &[&'a Tensor]) -> Result<Whole<'a>> {
    let mut held = Whole { _writes: SmallVec::new(), _reads: SmallVec::new() };
    for t in tensors {
        let Some(guard) = t.storage().try_read() else {
            drop(held);
            let _reads = Operands::default().reading(tensors).take()?.reads;
            return Ok(Whole { _writes: SmallVec::new(), _reads });
        };
        held._reads.push(guard);
    }
    Ok(held)
}

/// The storages of a call that could not take them at once.
#[derive(Default)]
pub(crate) struct Operands<'a>(SmallVec<[(&'a Storage, Access); 8]>);

impl<'a> Operands<'a> {
    /// Adds some to read.
    pub(crate) fn reading(mut self, tensors: &[&'a Tensor]) -> Self {
        let wanted = tensors.iter().map(|t| (t.storage(), Access::Read));
        self.0.extend(wanted);
        self
    }

    /// Adds storages to write, each once.
    pub(crate) fn writing(mut self, tensors: &[&'a Tensor]) -> Self {
        let wanted = tensors.iter().map(|t| (t.storage(), Access::Write));
        self.0.extend(wanted);
        self
    }

    /// Waits for all of them, holding none meanwhile. Exclusive access does not count as a write by
    /// itself, and shapes may have changed.
    #[cold]
    pub(crate) fn take(self) -> Result<Held<'a>> {
        storage::take(&self.0)
    }
}

/// The elements of a tensor that a dimension of stride 0 repeats, each once: a view.
pub(crate) fn distinct(t: &Tensor) -> Tensor {
    let once = layout::once(t.sizes(), t.strides());
    if once.as_slice() == t.sizes() {
        return t.clone();
    }
    t.with_geometry(once, Dims::from_slice(t.strides()), t.offset())
}

/// A written tensor must have each element at an address of its own.
pub(crate) fn check_no_internal_overlap(out: &Tensor) -> Result<()> {
    ensure!(
        out.is_contiguous() || !layout::repeats(out.sizes(), out.strides()),
        "unsupported operation: more than one element of the written-to tensor refers to a \
             single memory location. Please copy the tensor (`copied()`) before performing the operation."
    );
    Ok(())
}

/// How the memory of an input overlaps with the tensor that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Overlap {
    /// No byte in common.
    None,
    /// Exactly the same elements: element-wise in-place operation is safe.
    Full,
    /// Some elements in common at different positions.
    Partial,
    /// Address ranges overlap, but the tensors have gaps: undecided.
    Unknown,
}

/// Compares the address ranges of two tensors.
pub(crate) fn overlap(a: &Tensor, b: &Tensor) -> Overlap {
    if !a.shares_storage_with(b) || a.numel() == 0 || b.numel() == 0 {
        return Overlap::None;
    }
    if a.offset() == b.offset()
        && a.sizes() == b.sizes()
        && a.strides() == b.strides()
        && a.dtype().size() == b.dtype().size()
    {
        return Overlap::Full;
    }
    let range = |t: &Tensor| {
        let size = t.dtype().size();
        layout::reached_bytes(size, t.sizes(), t.strides(), t.offset())
    };
    let (of_a, of_b) = (range(a), range(b));
    if of_a.end <= of_b.start || of_b.end <= of_a.start {
        return Overlap::None;
    }
    let dense = |t: &Tensor| layout::is_non_overlapping_and_dense(t.sizes(), t.strides());
    if dense(a) && dense(b) { Overlap::Partial } else { Overlap::Unknown }
}

/// Whether [`detach_overlap`] copies the input.
pub(crate) fn is_detached(out: &Tensor, input: &Tensor) -> bool {
    out.shares_storage_with(input) && overlap(out, input) == Overlap::Unknown
}

/// Makes an input safe to read while `out` is written: itself where that is safe, a copy where the
/// ranges meet without being the same, an error where PyTorch gives one.
pub(crate) fn detach_overlap(out: &Tensor, input: &Tensor) -> Result<Tensor> {
    match overlap(out, input) {
        Overlap::None | Overlap::Full => Ok(input.clone()),
        Overlap::Unknown => super::launch::clone_contiguous(input),
        Overlap::Partial => Err(partial_overlap()),
    }
}

/// The error of an operand that shares memory with what is written, in PyTorch's words.
pub(crate) fn partial_overlap() -> Error {
    Error::runtime(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer \
         to a single memory location. Please copy the tensor (`copied()`) before performing the operation.",
    )
}

/// Memory written by index must not overlap the indices or the values, since an element may be
/// written before it is read: PyTorch's `assert_no_overlap`.
pub(crate) fn check_apart<'a>(
    out: &Tensor,
    inputs: impl IntoIterator<Item = &'a Tensor>,
) -> Result<()> {
    let dense = |t: &Tensor| layout::is_non_overlapping_and_dense(t.sizes(), t.strides());
    let meets = |t: &Tensor| match overlap(out, t) {
        Overlap::Partial => true,
        // PyTorch compares the memory of two tensors only if both are dense
        Overlap::Full => out.same_handle(t) || dense(out),
        Overlap::None | Overlap::Unknown => false,
    };
    match inputs.into_iter().any(meets) {
        true => Err(partial_overlap()),
        false => Ok(()),
    }
}

/// The error that [`detach_overlap`] gives.
pub(crate) fn check_no_partial_overlap(out: &Tensor, input: &Tensor) -> Result<()> {
    match overlap(out, input) {
        Overlap::Partial => Err(partial_overlap()),
        _ => Ok(()),
    }
}
