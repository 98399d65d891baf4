//! Reading and writing at places that index tensors give: `index`, `index_put`, `index_add` and their likes.
//!
//! The index tensors of one call are first turned into one byte offset for each indexed place; what remains is a loop
//! nest over the result, in which the indexed dimensions take their offset from there.

use super::combine::{ScatterOp, combine};
use super::index::read_index;
use super::nest::{GRAIN, Nest};
use super::tile::move_elements;
use super::{KernelError, Strided};
use straightline_passes::ir::DType;

/// A dimension that is indexed.
#[derive(Clone, Copy, Debug)]
pub struct IndexedDim<'a> {
    /// `i64` or `i32`, broadcast to the sizes that all index tensors have together.
    pub index: Strided<'a>,
    /// The size of the dimension.
    pub size: i64,
    /// Its stride in elements.
    pub stride: i64,
}

/// The offset in elements for each place, row-major. Negative indices count from the end if `wrap`, else they are out
/// of range.
///
/// # Safety
///
/// The index tensors have the same sizes, and their memory is what they say and may be read.
pub unsafe fn offsets(dims: &[IndexedDim<'_>], wrap: bool) -> Result<Vec<i64>, KernelError> {
    let Some(first) = dims.first() else {
        return Ok(Vec::new());
    };
    let sizes = first.index.sizes;
    let mut out = vec![0i64; first.index.numel()];
    if out.is_empty() {
        return Ok(out);
    }
    let row_major = straightline_passes::ir::layout::contiguous_strides(sizes);
    for dim in dims {
        debug_assert_eq!(dim.index.sizes, sizes);
        if !matches!(dim.index.dtype, DType::I32 | DType::I64) {
            return Err(KernelError::unsupported("index", dim.index.dtype));
        }
        let target = Strided {
            ptr: out.as_mut_ptr().cast(),
            dtype: DType::I64,
            sizes,
            strides: &row_major,
        };
        let nest = Nest::new(&[target, dim.index]);
        let steps = nest.inner().strides;
        let mut bad = None;
        // SAFETY: the places of the vector and of the index tensor.
        unsafe {
            nest.walk(0, nest.numel, &mut |p, n| {
                for i in 0..n as isize {
                    let index = read_index(p[1].offset(i * steps[1]), dim.index.dtype);
                    let at = if wrap && index < 0 {
                        index.wrapping_add(dim.size)
                    } else {
                        index
                    };
                    if at < 0 || at >= dim.size {
                        bad.get_or_insert(index);
                        continue;
                    }
                    *p[0].offset(i * steps[0]).cast::<i64>() += at * dim.stride;
                }
            });
        }
        if let Some(index) = bad {
            return Err(KernelError::IndexOutOfRange {
                index,
                size: dim.size,
            });
        }
    }
    Ok(out)
}

/// `out[..] = a[.. + offset]`: `a` has stride 0 in the indexed dimensions, `offsets` (`i64`, in elements) in the others.
///
/// # Safety
///
/// The sizes are equal; the memory of `a` at each offset, and of the others as they say, may be accessed; the elements
/// of `out` are distinct and overlap nothing.
pub unsafe fn take_at(out: Strided<'_>, a: Strided<'_>, offsets: Strided<'_>) {
    debug_assert!(out.dtype == a.dtype && offsets.dtype == DType::I64);
    if out.numel() == 0 {
        return;
    }
    let nest = Nest::new(&[out, a, offsets]);
    let steps = nest.inner().strides;
    let size = out.dtype.size();
    let bytes = size as isize;
    // SAFETY: as promised by the caller.
    unsafe {
        nest.run(GRAIN / 4, &|p, n| {
            if steps[2] == 0 {
                let from = p[1].offset(*p[2].cast::<i64>() as isize * bytes);
                move_elements(size, p[0], steps[0], from, steps[1], n);
                return;
            }
            for i in 0..n as isize {
                let at = *p[2].offset(i * steps[2]).cast::<i64>() as isize;
                let from = p[1].offset(i * steps[1] + at * bytes);
                move_elements(size, p[0].offset(i * steps[0]), 0, from, 0, 1);
            }
        });
    }
}

/// `a[.. + offset] op= values[..]`, one after the other; layouts as for [`take_at`].
///
/// # Safety
///
/// As for [`take_at`], with `a` written and `values` read; `values` does not overlap `a`.
pub unsafe fn put_at(
    op: ScatterOp,
    a: Strided<'_>,
    values: Strided<'_>,
    offsets: Strided<'_>,
) -> Result<(), KernelError> {
    debug_assert!(values.dtype == a.dtype && offsets.dtype == DType::I64);
    let combine = combine(op, a.dtype)?;
    if values.numel() == 0 {
        return Ok(());
    }
    let nest = Nest::new(&[offsets, a, values]);
    let steps = nest.inner().strides;
    let bytes = a.dtype.size() as isize;
    // one thread: several places may be one
    // SAFETY: as promised by the caller.
    unsafe {
        nest.walk(0, nest.numel, &mut |p, n| {
            if steps[0] == 0 {
                let to = p[1].offset(*p[0].cast::<i64>() as isize * bytes);
                combine(to, steps[1], p[2], steps[2], n);
                return;
            }
            for i in 0..n as isize {
                let at = *p[0].offset(i * steps[0]).cast::<i64>() as isize;
                let to = p[1].offset(i * steps[1] + at * bytes);
                combine(to, 0, p[2].offset(i * steps[2]), 0, 1);
            }
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(data: &mut [i64], sizes: &'static [i64], strides: &'static [i64]) -> Strided<'static> {
        Strided {
            ptr: data.as_mut_ptr().cast(),
            dtype: DType::I64,
            sizes,
            strides,
        }
    }

    #[test]
    fn offsets_add_up_and_wrap() {
        let (mut rows, mut columns) = ([0, -1], [2, 1, 0]);
        let dims = [
            IndexedDim {
                index: index(&mut rows, &[2, 3], &[1, 0]),
                size: 4,
                stride: 10,
            },
            IndexedDim {
                index: index(&mut columns, &[2, 3], &[0, 1]),
                size: 3,
                stride: 1,
            },
        ];
        // SAFETY: the arrays live on.
        unsafe {
            assert_eq!(offsets(&dims, true).unwrap(), [2, 1, 0, 32, 31, 30]);
            assert_eq!(
                offsets(&dims, false),
                Err(KernelError::IndexOutOfRange { index: -1, size: 4 })
            );
        }
    }

    #[test]
    fn duplicates_accumulate() {
        let mut a = [1f32, 2.0, 3.0];
        let mut values = [10f32, 20.0, 30.0];
        let mut at = [1i64, 1, 0];
        let view = |ptr: *mut u8, dtype, strides| Strided {
            ptr,
            dtype,
            sizes: &[3],
            strides,
        };
        // SAFETY: three places within the array.
        unsafe {
            put_at(
                ScatterOp::Add,
                view(a.as_mut_ptr().cast(), DType::F32, &[0]),
                view(values.as_mut_ptr().cast(), DType::F32, &[1]),
                view(at.as_mut_ptr().cast(), DType::I64, &[1]),
            )
            .unwrap();
        }
        assert_eq!(a, [31.0, 32.0, 3.0]);
    }
}
