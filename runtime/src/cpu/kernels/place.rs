//! Reading and writing at places that index tensors give: `index`, `index_put`, `index_add` and
//! their likes.
//!
//! The index tensors of one call are first turned into one byte offset for each indexed place; what
//! remains is a loop nest over the result, in which the indexed dimensions take their offset from
//! there.

use super::combine::{ScatterOp, combine};
use super::index::read_index;
use super::moves::move_elements;
use super::nest::{GRAIN, Nest};
use super::operand::{In, Out, Places, apart, ask, same_dtype, same_sizes};
use super::{KernelError, Strided};
use straightline_passes::ir::DType;

/// A dimension that is indexed.
#[derive(Clone, Copy, Debug)]
pub struct IndexedDim<'a> {
    /// `i64` or `i32`, broadcast to the sizes that all index tensors have together.
    pub index: In<'a>,
    /// The size of the dimension.
    pub size: i64,
    /// Its stride in elements.
    pub stride: i64,
}

/// The offset in elements for each place, row-major. Negative indices count from the end if `wrap`,
/// else they are out of range.
pub fn offsets(dims: &[IndexedDim<'_>], wrap: bool) -> Result<Vec<i64>, KernelError> {
    let Some(first) = dims.first() else {
        return Ok(Vec::new());
    };
    let sizes = first.index.sizes();
    let mut out = vec![0i64; first.index.numel()];
    if out.is_empty() {
        return Ok(out);
    }
    let row_major = straightline_passes::ir::layout::contiguous_strides(sizes);
    for dim in dims {
        let index = dim.index.raw();
        ask("index", index.sizes == sizes, "indices of the same sizes")?;
        if !matches!(index.dtype, DType::I32 | DType::I64) {
            return Err(KernelError::unsupported("index", index.dtype));
        }
        let target =
            Strided { ptr: out.as_mut_ptr().cast(), dtype: DType::I64, sizes, strides: &row_major };
        let nest = Nest::new(&[target, index]);
        let steps = nest.inner().strides;
        let mut bad = None;
        // SAFETY: the places of the vector and of the index tensor.
        unsafe {
            nest.walk(0, nest.numel, &mut |p, n| {
                for i in 0..n as isize {
                    let index = read_index(p[1].offset(i * steps[1]), index.dtype);
                    let at = if wrap && index < 0 { index.wrapping_add(dim.size) } else { index };
                    if at < 0 || at >= dim.size {
                        bad.get_or_insert(index);
                        continue;
                    }
                    *p[0].offset(i * steps[0]).cast::<i64>() += at * dim.stride;
                }
            });
        }
        if let Some(index) = bad {
            return Err(KernelError::IndexOutOfRange { index, size: dim.size });
        }
    }
    Ok(out)
}

/// `out[..] = a[.. + offset]`: `a` has stride 0 in the indexed dimensions, `offsets` (`i64`, in
/// elements) in the others.
pub fn take_at(out: Out<'_>, a: Places<'_>, offsets: In<'_>) -> Result<(), KernelError> {
    const NAME: &str = "index";
    let (out, a, offsets) = (out.raw(), a.checked(NAME, offsets)?, offsets.raw());
    same_sizes(NAME, &[&out, &a, &offsets])?;
    same_dtype(NAME, &[&out, &a])?;
    if out.numel() == 0 {
        return Ok(());
    }
    let nest = Nest::new(&[out, a, offsets]);
    let steps = nest.inner().strides;
    let size = out.dtype.size();
    let bytes = size as isize;
    // SAFETY: elements of the three; each offset leads to an element, as has been checked.
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
    Ok(())
}

/// `a[.. + offset] op= values[..]`, one after another; layouts as for [`take_at`].
pub fn put_at(
    op: ScatterOp,
    a: Places<'_>,
    values: In<'_>,
    offsets: In<'_>,
) -> Result<(), KernelError> {
    const NAME: &str = "index_put";
    apart(NAME, &[values])?;
    let (a, values, offsets) = (a.checked(NAME, offsets)?, values.raw(), offsets.raw());
    same_sizes(NAME, &[&a, &values, &offsets])?;
    same_dtype(NAME, &[&a, &values])?;
    let combine = combine(op, a.dtype)?;
    if values.numel() == 0 {
        return Ok(());
    }
    let nest = Nest::new(&[offsets, a, values]);
    let steps = nest.inner().strides;
    let bytes = a.dtype.size() as isize;
    // one thread: several places may be one
    // SAFETY: elements of the three; each offset leads to an element, as has been checked.
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

    fn index<'a>(data: &'a [i64], sizes: &'a [i64], strides: &'a [i64]) -> In<'a> {
        let raw =
            Strided { ptr: data.as_ptr().cast_mut().cast(), dtype: DType::I64, sizes, strides };
        // SAFETY: the numbers are borrowed for as long as the operand lives.
        unsafe { In::new(raw) }
    }

    #[test]
    fn offsets_add_up_and_wrap() {
        let (rows, columns) = ([0, -1], [2, 1, 0]);
        let dims = [
            IndexedDim { index: index(&rows, &[2, 3], &[1, 0]), size: 4, stride: 10 },
            IndexedDim { index: index(&columns, &[2, 3], &[0, 1]), size: 3, stride: 1 },
        ];
        assert_eq!(offsets(&dims, true).unwrap(), [2, 1, 0, 32, 31, 30]);
        assert_eq!(offsets(&dims, false), Err(KernelError::IndexOutOfRange { index: -1, size: 4 }));
    }

    #[test]
    fn duplicates_accumulate() {
        let mut a = [1f32, 2.0, 3.0];
        let mut values = [10f32, 20.0, 30.0];
        let view = |ptr: *mut u8, dtype| Strided { ptr, dtype, sizes: &[3], strides: &[1] };
        let mut put = |at: [i64; 3]| {
            // SAFETY: three elements of each array.
            let (a, values) = unsafe {
                (
                    Out::new(view(a.as_mut_ptr().cast(), DType::F32)),
                    In::new(view(values.as_mut_ptr().cast(), DType::F32)),
                )
            };
            let places = a.places(&[3], &[0]).unwrap();
            put_at(ScatterOp::Add, places, values, index(&at, &[3], &[1]))
        };
        put([1, 1, 0]).unwrap();
        // an offset that leads out of the tensor is refused before anything is written
        for outside in [3, -1, i64::MAX] {
            let e = put([0, outside, 1]).unwrap_err();
            assert!(matches!(e, KernelError::Operands { .. }), "{e}");
        }
        assert_eq!(a, [31.0, 32.0, 3.0]);
    }
}
