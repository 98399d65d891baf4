//! Places in sorted sequences, and numbers of occurrences.

use super::nest;
use super::order::{check_ordered, nan_key, read_key};
use super::{KernelError, Strided};
use straightline_passes::ir::DType;

/// Which place among equal elements, and the sequences.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// Sorted sequences, row-major: one for all values, or one for each row of them.
    pub sequences: Strided<'a>,
    /// Row-major `i64` permutation that sorts each sequence, in the sizes of `sequences`.
    pub sorter: Option<Strided<'a>>,
    /// After equal elements instead of before them.
    pub right: bool,
}

trait Number: Copy + PartialOrd {}
impl Number for f64 {}
impl Number for i64 {}

impl Search<'_> {
    /// # Safety
    ///
    /// `row` is one of the sequences, the sorter's values are checked here.
    unsafe fn place<T: Number>(&self, row: usize, x: T) -> Result<usize, KernelError> {
        let n = self.sequences.sizes.last().copied().unwrap_or(1) as usize;
        let (mut low, mut high) = (0, n);
        while low < high {
            let middle = low + (high - low) / 2;
            let mut at = middle;
            if let Some(sorter) = &self.sorter {
                // SAFETY: as many as the sequence has.
                let i = unsafe {
                    sorter
                        .ptr
                        .cast::<i64>()
                        .add(row * n + middle)
                        .read_unaligned()
                };
                if i < 0 || i >= n as i64 {
                    return Err(KernelError::IndexOutOfRange {
                        index: i,
                        size: n as i64,
                    });
                }
                at = i as usize;
            }
            // SAFETY: an element of the sequence.
            let m = unsafe {
                self.sequences
                    .ptr
                    .cast::<T>()
                    .add(row * n + at)
                    .read_unaligned()
            };
            // written so that what compares with nothing (NaN) is passed over, as in PyTorch
            let reached = if self.right { m > x } else { m >= x };
            if reached {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }
}

/// For each value the place in its sequence where it would be inserted. `values` and the sequences are `f64` or `i64`,
/// `out` is `i64`; everything is row-major.
///
/// # Safety
///
/// The memory of all is what they say and may be accessed; `out` has the sizes of `values` and overlaps nothing. The
/// sequences are one, or as many as `values` has rows.
pub unsafe fn search_sorted(
    out: Strided<'_>,
    values: Strided<'_>,
    search: &Search<'_>,
) -> Result<(), KernelError> {
    let dtype = values.dtype;
    if !matches!(dtype, DType::F64 | DType::I64) || search.sequences.dtype != dtype {
        return Err(KernelError::unsupported("searchsorted", dtype));
    }
    let n = values.numel();
    if n == 0 {
        return Ok(());
    }
    let one = search.sequences.sizes.len() <= 1;
    let width = values.sizes.last().copied().unwrap_or(1).max(1) as usize;
    let failure = std::sync::Mutex::new(Ok(()));
    let (to, from) = (nest::Shared(out.ptr), nest::Shared(values.ptr));
    let sequence_ptr = nest::Shared(search.sequences.ptr);
    let sorter_ptr = search.sorter.map(|s| nest::Shared(s.ptr));
    let (sizes, strides) = (search.sequences.sizes, search.sequences.strides);
    let right = search.right;
    nest::parallel(n, 32, &|first, last| {
        let here = Search {
            sequences: Strided {
                ptr: sequence_ptr.at(0),
                dtype,
                sizes,
                strides,
            },
            sorter: sorter_ptr.map(|p| Strided {
                ptr: p.at(0),
                dtype: DType::I64,
                sizes,
                strides,
            }),
            right,
        };
        for i in first..last {
            let row = if one { 0 } else { i / width };
            // SAFETY: value i and its sequence.
            let found = unsafe {
                let p = from.at(i as isize * 8);
                if dtype == DType::F64 {
                    here.place(row, p.cast::<f64>().read_unaligned())
                } else {
                    here.place(row, p.cast::<i64>().read_unaligned())
                }
            };
            match found {
                // SAFETY: element i of the result.
                Ok(place) => unsafe {
                    to.at(i as isize * 8)
                        .cast::<i64>()
                        .write_unaligned(place as i64);
                },
                Err(e) => {
                    if let Ok(mut failure) = failure.lock() {
                        *failure = Err(e);
                    }
                    return;
                }
            }
        }
    });
    failure.into_inner().unwrap_or(Ok(()))
}

/// Whether each element of a row-major tensor is one of `tests`, a row-major vector of the same dtype. NaN is equal to
/// nothing.
///
/// # Safety
///
/// The memory of all is what they say and may be accessed; `out` is row-major `bool` with the sizes of `a` and overlaps
/// nothing.
pub unsafe fn is_member(
    out: Strided<'_>,
    a: Strided<'_>,
    tests: Strided<'_>,
    invert: bool,
) -> Result<(), KernelError> {
    check_ordered("isin", a.dtype)?;
    debug_assert!(out.is_contiguous() && a.is_contiguous() && tests.is_contiguous());
    let (size, nan) = (a.dtype.size(), nan_key(a.dtype));
    let mut keys: Vec<u64> = (0..tests.numel())
        // SAFETY: an element of the vector.
        .map(|i| unsafe { read_key(tests.ptr.add(i * size), a.dtype) })
        .filter(|k| nan != Some(*k))
        .collect();
    keys.sort_unstable();
    let (to, from) = (nest::Shared(out.ptr), nest::Shared(a.ptr));
    nest::parallel(a.numel(), 16, &|first, last| {
        for i in first as isize..last as isize {
            // SAFETY: element i of both.
            unsafe {
                let key = read_key(from.at(i * size as isize), a.dtype);
                let found = keys.binary_search(&key).is_ok();
                to.at(i).write(u8::from(found != invert));
            }
        }
    });
    Ok(())
}
