//! Elements in reverse order along dimensions.

use super::nest::{GRAIN, Nest};
use super::{KernelError, Strided};
use crate::cpu::kernels::operand::{In, Out, apart, same_dtype, same_sizes};
use smallvec::SmallVec;

/// Copies `n` elements, each operand in steps of its own.
///
/// # Safety
///
/// Both pointers have `n` elements of `T` at their strides (bytes).
unsafe fn copy_row<T: Copy>(
    to: *mut u8,
    from: *mut u8,
    n: usize,
    [step_to, step_from]: [isize; 2],
) {
    let size = size_of::<T>() as isize;
    // SAFETY: as promised by the caller; elements need not be aligned.
    unsafe {
        if step_to == size && step_from == size {
            std::ptr::copy_nonoverlapping(from, to, n * size as usize);
        } else {
            for i in 0..n as isize {
                let x = from.offset(i * step_from).cast::<T>().read_unaligned();
                to.offset(i * step_to).cast::<T>().write_unaligned(x);
            }
        }
    }
}

/// `out[.., i, ..] = x[.., size - 1 - i, ..]` along each dimension that `flipped` marks.
pub fn flip(out: Out<'_>, x: In<'_>, flipped: &[bool]) -> Result<(), KernelError> {
    apart("flip", &[x])?;
    let (out, x) = (out.raw(), x.raw());
    same_sizes("flip", &[&out, &x])?;
    same_dtype("flip", &[&out, &x])?;
    if out.numel() == 0 {
        return Ok(());
    }
    let size = out.dtype.size();
    let mut strides: SmallVec<[i64; 6]> = SmallVec::from_slice(x.strides);
    let mut ptr = x.ptr;
    for (d, stride) in strides.iter_mut().enumerate() {
        if flipped.get(d).copied().unwrap_or(false) {
            // from the last element back
            ptr = ptr.wrapping_offset((x.sizes[d] - 1) as isize * *stride as isize * size as isize);
            *stride = -*stride;
        }
    }
    let reversed = Strided { ptr, strides: &strides, ..x };
    let nest = Nest::new(&[out, reversed]);
    let steps = nest.inner().strides;
    let row = |[to, from]: [*mut u8; 2], n: usize| {
        // SAFETY: the nest's rows stay within the operands.
        unsafe {
            match size {
                1 => copy_row::<u8>(to, from, n, steps),
                2 => copy_row::<u16>(to, from, n, steps),
                4 => copy_row::<u32>(to, from, n, steps),
                8 => copy_row::<u64>(to, from, n, steps),
                _ => copy_row::<u128>(to, from, n, steps),
            }
        }
    };
    // SAFETY: the sizes are the same; the reversed view reaches the elements of `x`, each once.
    unsafe { nest.run(GRAIN, &row) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use straightline_passes::ir::DType;

    #[test]
    fn reverses_the_marked_dimensions() {
        let mut x: Vec<i16> = (0..24).collect();
        let mut out = vec![0i16; 24];
        let sizes = [2i64, 3, 4];
        let strides = [12i64, 4, 1];
        let view = |p: *mut i16| Strided {
            ptr: p.cast(),
            dtype: DType::I16,
            sizes: &sizes,
            strides: &strides,
        };
        // SAFETY: both own their 24 elements.
        unsafe {
            flip(
                Out::new(view(out.as_mut_ptr())),
                In::new(view(x.as_mut_ptr())),
                &[true, false, true],
            )
        }
        .unwrap();
        for i in 0..2 {
            for j in 0..3 {
                for k in 0..4 {
                    assert_eq!(out[i * 12 + j * 4 + k], x[(1 - i) * 12 + j * 4 + 3 - k]);
                }
            }
        }
    }
}
