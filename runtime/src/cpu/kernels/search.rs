//! Places in sorted sequences, and numbers of occurrences.

use super::nest;
use super::operand::{In, Out, apart, ask, has_dtype, row_major, same_dtype, same_sizes};
use super::order::{check_ordered, nan_key, read_key};
use super::{KernelError, Strided};
use straightline_passes::ir::DType;

/// Which place among equal elements, and the sequences.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// Sorted sequences, row-major: one for all values, or one for each row of them.
    pub sequences: In<'a>,
    /// Row-major `i64` permutation that sorts each sequence, in the sizes of `sequences`.
    pub sorter: Option<In<'a>>,
    /// After equal elements instead of before them.
    pub right: bool,
}

trait Number: Copy + PartialOrd {}
impl Number for f64 {}
impl Number for i64 {}

/// A [`Search`] that has been checked.
struct Sequences<'a> {
    sequences: Strided<'a>,
    sorter: Option<Strided<'a>>,
    right: bool,
}

impl Sequences<'_> {
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
                let i = unsafe { sorter.ptr.cast::<i64>().add(row * n + middle).read_unaligned() };
                if i < 0 || i >= n as i64 {
                    return Err(KernelError::IndexOutOfRange { index: i, size: n as i64 });
                }
                at = i as usize;
            }
            // SAFETY: an element of the sequence.
            let m = unsafe { self.sequences.ptr.cast::<T>().add(row * n + at).read_unaligned() };
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

/// For each value the place in its sequence where it would be inserted. `values` and the sequences
/// are `f64` or `i64`, `out` is `i64`; everything is row-major.
pub fn search_sorted(out: Out<'_>, values: In<'_>, search: &Search<'_>) -> Result<(), KernelError> {
    apart("search_sorted", &[values])?;
    let (out, values) = (out.raw(), values.raw());
    same_sizes("searchsorted", &[&out, &values])?;
    row_major("searchsorted", &[&out, &values])?;
    has_dtype("searchsorted", &out, DType::I64)?;
    let dtype = values.dtype;
    let sequences = search.sequences.raw();
    let sorter = search.sorter.map(In::raw);
    if !matches!(dtype, DType::F64 | DType::I64) || sequences.dtype != dtype {
        return Err(KernelError::unsupported("searchsorted", dtype));
    }
    row_major("searchsorted", &[&sequences])?;
    if let Some(sorter) = &sorter {
        same_sizes("searchsorted", &[&sequences, sorter])?;
        has_dtype("searchsorted", sorter, DType::I64)?;
        row_major("searchsorted", &[sorter])?;
    }
    let n = values.numel();
    if n == 0 {
        return Ok(());
    }
    let one = sequences.sizes.len() <= 1;
    let width = values.sizes.last().copied().unwrap_or(1).max(1) as usize;
    let rows = sequences.sizes.iter().rev().skip(1).product::<i64>();
    let enough = one || rows as usize >= n.div_ceil(width);
    ask("searchsorted", enough, "a sequence for each row of values")?;
    let failure = std::sync::Mutex::new(Ok(()));
    let (to, from) = (nest::Shared(out.ptr), nest::Shared(values.ptr));
    let sequence_ptr = nest::Shared(sequences.ptr);
    let sorter_ptr = sorter.map(|s| nest::Shared(s.ptr));
    let (sizes, strides) = (sequences.sizes, sequences.strides);
    let right = search.right;
    nest::parallel(n, 32, &|first, last| {
        let here = Sequences {
            sequences: Strided { ptr: sequence_ptr.at(0), dtype, sizes, strides },
            sorter: sorter_ptr.map(|p| Strided { ptr: p.at(0), dtype: DType::I64, sizes, strides }),
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
                    to.at(i as isize * 8).cast::<i64>().write_unaligned(place as i64);
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

/// Whether each element of a row-major tensor is one of `tests`, a row-major vector of the same
/// dtype. NaN is equal to nothing.
pub fn is_member(out: Out<'_>, a: In<'_>, tests: In<'_>, invert: bool) -> Result<(), KernelError> {
    apart("is_member", &[a, tests])?;
    let (out, a, tests) = (out.raw(), a.raw(), tests.raw());
    same_sizes("isin", &[&out, &a])?;
    same_dtype("isin", &[&a, &tests])?;
    has_dtype("isin", &out, DType::Bool)?;
    row_major("isin", &[&out, &a, &tests])?;
    check_ordered("isin", a.dtype)?;
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
