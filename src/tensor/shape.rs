//! Sizes and strides inside a tensor, and building the tensor around them in place.
//!
//! An eager operator on a few elements spends most of its time making its result. Building the
//! struct on the stack and moving it to the heap costs a store-forwarding stall (some 12 ns), so
//! the fields are written in their final place.

use super::counted::{Cell, Counted, InCell};
use super::geometry::Replaced;
use super::history::{History, View};
use super::settled::Keys;
use super::{Extra, Tensor, TensorImpl};
use crate::error::{Error, Result};
use crate::tensor::storage::Storage;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use straightline_catalog::DispatchKeySet;
use straightline_catalog::{DType, Device, DeviceType};
use straightline_runtime::memory::{give_cell, take_cell};

/// How many dimensions are stored without a heap allocation.
const INLINE: usize = 5;

/// Sizes and strides.
pub(super) struct Shape {
    rank: usize,
    /// Sizes from 0, strides from `INLINE`; the first `rank` of each are set where they fit.
    inline: [MaybeUninit<i64>; 2 * INLINE],
    /// Sizes and then strides, where they do not.
    heap: Option<Box<[i64]>>,
}

impl Shape {
    #[inline]
    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    #[inline]
    pub(super) fn sizes(&self) -> &[i64] {
        self.part(0)
    }

    #[inline]
    pub(super) fn strides(&self) -> &[i64] {
        self.part(1)
    }

    /// Whether these are the sizes and strides.
    #[inline(always)]
    pub(super) fn is(&self, sizes: &[i64], strides: &[i64]) -> bool {
        same(self.sizes(), sizes) && same(self.strides(), strides)
    }

    /// Whether these are the sizes.
    #[inline(always)]
    pub(super) fn has_sizes(&self, sizes: &[i64]) -> bool {
        same(self.sizes(), sizes)
    }

    #[inline]
    fn part(&self, which: usize) -> &[i64] {
        match &self.heap {
            // SAFETY: without a heap part, `rank <= INLINE` elements of each half are set.
            None => unsafe {
                std::slice::from_raw_parts(
                    self.inline.as_ptr().add(which * INLINE).cast::<i64>(),
                    self.rank,
                )
            },
            Some(heap) => &heap[which * self.rank..(which + 1) * self.rank],
        }
    }
}

/// Whether two rows of numbers are equal. (`==` of slices would call `memcmp`.)
#[inline(always)]
fn same(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b)
}

/// The parts of a tensor other than its shape.
pub(super) struct Parts {
    pub(super) storage: Storage,
    pub(super) dtype: DType,
    pub(super) device: Device,
    pub(super) keys: DispatchKeySet,
    pub(super) offset: i64,
    pub(super) numel: i64,
    pub(super) contiguous: bool,
    pub(super) wrapped_number: bool,
    pub(super) extra: Option<Extra>,
}

/// The keys of plain tensors, by device type.
#[inline]
pub(super) fn keys_of(device: DeviceType) -> DispatchKeySet {
    static KEYS: [DispatchKeySet; DeviceType::ALL.len()] = {
        let mut keys = [DispatchKeySet::EMPTY; DeviceType::ALL.len()];
        let mut i = 0;
        while i < keys.len() {
            keys[i] = DispatchKeySet::for_device(DeviceType::ALL[i]);
            i += 1;
        }
        keys
    };
    let keys = KEYS[device as usize];
    match super::inference::is_on() {
        true => super::inference::without_autograd(keys),
        false => keys,
    }
}

/// Writes at most `INLINE` numbers. (A loop over so few becomes a call of `memcpy`, which takes longer
/// than all else here.)
///
/// # Safety
///
/// There is room for them at `to`.
#[inline(always)]
unsafe fn put(numbers: &[i64], to: *mut i64) {
    macro_rules! each {
        ($($n:literal)*) => {
            match numbers {
                // SAFETY: as the caller says.
                $([..] if numbers.len() == $n => unsafe {
                    to.cast::<[i64; $n]>().write_unaligned(*numbers.as_ptr().cast::<[i64; $n]>());
                },)*
                _ => {}
            }
        };
    }
    each!(1 2 3 4 5);
}

const CELL: usize = size_of::<Cell<TensorImpl>>();

impl InCell for TensorImpl {
    #[inline(always)]
    fn extent(&self) -> usize {
        CELL
    }

    #[inline(always)]
    unsafe fn release(cell: NonNull<Cell<TensorImpl>>, _: usize) {
        // SAFETY: `place` took it with this size.
        unsafe { give_cell::<CELL>(cell.cast()) };
    }
}

#[inline(always)]
fn take() -> NonNull<Cell<TensorImpl>> {
    match take_cell::<CELL>() {
        Ok(cell) => cell.cast(),
        Err(_) => std::alloc::handle_alloc_error(std::alloc::Layout::new::<Cell<TensorImpl>>()),
    }
}

/// The fields that [`Tensor::place`] writes: a new one does not compile before it is here, and there.
const _: fn(&TensorImpl) = |t| {
    let TensorImpl {
        keys: _,
        view: _,
        history: _,
        dtype: _,
        device: _,
        contiguous: _,
        wrapped_number: _,
        takes_part: _,
        computed: _,
        settled: _,
        dynamic: _,
        held: _,
        offset: _,
        numel: _,
        storage: _,
        extra: _,
        replaced: _,
        shape: Shape { rank: _, inline: _, heap: _ },
    } = t;
};

impl Tensor {
    /// Marks a dimension, of the first 32, as one whose size varies.
    pub(crate) fn mark_dynamic_dim(&self, dim: u32) {
        self.0.dynamic.fetch_or(1 << dim, Ordering::Relaxed);
    }

    /// A bit for each dimension that is marked.
    pub(crate) fn dynamic_dims(&self) -> u32 {
        self.0.dynamic.load(Ordering::Relaxed)
    }

    /// Builds the tensor in its final place.
    #[inline]
    pub(super) fn place(parts: Parts, sizes: &[i64], strides: &[i64]) -> Tensor {
        debug_assert_eq!(sizes.len(), strides.len());
        let rank = sizes.len();
        let cell = take();
        // SAFETY: the cell's memory is ours, and `p` points into it.
        let p = unsafe { &raw mut (*cell.as_ptr()).value };
        // SAFETY: the allocation is ours alone until it is returned; every field is written
        // below exactly once before `adopt`; the inline parts have room for five.
        unsafe {
            (&raw mut (*p).keys).write(Keys::new(parts.keys));
            (&raw mut (*p).view).write(View::none());
            (&raw mut (*p).history).write(History::default());
            (&raw mut (*p).dtype).write(parts.dtype);
            (&raw mut (*p).device).write(parts.device);
            (&raw mut (*p).contiguous).write(parts.contiguous);
            (&raw mut (*p).wrapped_number).write(parts.wrapped_number);
            (&raw mut (*p).takes_part).write(AtomicU8::new(0));
            (&raw mut (*p).computed).write(AtomicBool::new(false));
            (&raw mut (*p).settled).write(AtomicBool::new(false));
            (&raw mut (*p).dynamic).write(AtomicU32::new(0));
            (&raw mut (*p).held).write(AtomicU32::new(0));
            (&raw mut (*p).offset).write(parts.offset);
            (&raw mut (*p).numel).write(parts.numel);
            (&raw mut (*p).storage).write(parts.storage);
            (&raw mut (*p).extra).write(parts.extra);
            (&raw mut (*p).replaced).write(Replaced::none());
            (&raw mut (*p).shape.rank).write(rank);
            if rank <= INLINE {
                let inline = (&raw mut (*p).shape.inline).cast::<i64>();
                put(sizes, inline);
                put(strides, inline.add(INLINE));
                (&raw mut (*p).shape.heap).write(None);
            } else {
                let heap = [sizes, strides].concat().into_boxed_slice();
                (&raw mut (*p).shape.heap).write(Some(heap));
            }
            Tensor(Counted::adopt(cell))
        }
    }
}

/// Negative sizes are refused.
pub(crate) fn check_sizes(sizes: &[i64]) -> Result<()> {
    if let Some(bad) = sizes.iter().find(|s| **s < 0) {
        return Err(Error::shape(format!(
            "Trying to create tensor with negative dimension {bad}: {sizes:?}"
        )));
    }
    // the product must not overflow either
    sizes
        .iter()
        .try_fold(1i64, |n, s| n.checked_mul((*s).max(1)))
        .map(|_| ())
        .ok_or_else(|| Error::shape(format!("sizes {sizes:?} have too many elements")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_rank_keeps_its_shape() {
        for rank in 0..9usize {
            let sizes: Vec<i64> = (0..rank as i64).map(|i| i % 2 + 1).collect();
            let t = Tensor::zeros(&sizes).unwrap();
            assert_eq!(t.sizes(), sizes);
            assert_eq!(t.dim(), rank);
            assert_eq!(t.strides().len(), rank);
            assert_eq!(t.numel(), sizes.iter().product::<i64>());
        }
    }

    #[test]
    fn keys_are_those_of_the_device() {
        for d in DeviceType::ALL {
            assert_eq!(keys_of(d), DispatchKeySet::for_device(d));
        }
    }
}
