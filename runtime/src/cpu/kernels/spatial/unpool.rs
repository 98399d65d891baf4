//! Pooling operators that work by positions: unpooling, gradients of maximum pools, fractional
//! pooling.

use super::super::KernelError;
use super::super::nest::Shared;
use super::number::{Number, with_number};
use super::planes::{Planes, each_plane, indices_of};
use super::window::AxisWindows;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// An index that points outside of its plane, found by some thread.
struct Fault {
    found: AtomicBool,
    index: AtomicI64,
    size: i64,
}

impl Fault {
    fn new(size: usize) -> Fault {
        Fault {
            found: AtomicBool::new(false),
            index: AtomicI64::new(0),
            size: size as i64,
        }
    }

    #[inline(always)]
    fn check(&self, index: i64) -> Option<usize> {
        if (0..self.size).contains(&index) {
            return Some(index as usize);
        }
        self.index.store(index, Ordering::Relaxed);
        self.found.store(true, Ordering::Relaxed);
        None
    }

    fn result(self) -> Result<(), KernelError> {
        if !self.found.into_inner() {
            return Ok(());
        }
        Err(KernelError::IndexOutOfRange {
            index: self.index.into_inner(),
            size: self.size,
        })
    }
}

/// `out[indices[i]] = values[i]` in each plane, or `+=` with `add`; elements that no index names
/// are 0.
///
/// # Safety
///
/// `values` and `indices` (aligned) are `count` planes of `values.len` elements and may be read;
/// `out` is `count` planes, may be written and overlaps nothing.
pub unsafe fn scatter_planes(
    add: bool,
    count: usize,
    out: Planes,
    values: Planes,
    indices: *const i64,
) -> Result<(), KernelError> {
    let len = values.len;
    let indices = Shared(indices.cast_mut().cast());
    let fault = Fault::new(out.len);
    with_number!("scatter", out.dtype, A => {
        // SAFETY: as promised by the caller; indices are checked.
        unsafe {
            each_plane::<A, 1>(count, len + out.len / 4, [values], out, &|plane, [v], x| {
                let at = indices.at((plane * len * size_of::<i64>()) as isize);
                let at = std::slice::from_raw_parts(at.cast_const().cast::<i64>(), len);
                for (v, i) in v.iter().zip(at) {
                    let Some(i) = fault.check(*i) else { return };
                    let to = &mut x[i];
                    *to = if add { to.plus(*v) } else { *v };
                }
            });
        }
        fault.result()
    })
}

/// Maximum pooling with windows placed by random numbers: `axes` of plane `p` are `axes_of(p)`.
///
/// Of equal elements the first one counts, of NaNs the last.
///
/// # Safety
///
/// As for [`super::max_pool`]; all axes have the same sizes.
pub unsafe fn fractional_max_pool(
    count: usize,
    out: Planes,
    indices: *mut i64,
    input: Planes,
    axes_of: &(dyn Fn(usize) -> [AxisWindows; 3] + Sync),
) -> Result<(), KernelError> {
    let indices = Shared(indices.cast());
    let len = out.len;
    with_number!("fractional_max_pool", out.dtype, A => {
        // SAFETY: as promised by the caller; each plane's indices are taken once.
        unsafe {
            each_plane::<A, 1>(count, input.len, [input], out, &|plane, [x], y| {
                super::pool::max_plane(y, indices_of(indices, plane, len), x, &axes_of(plane));
            });
        }
        Ok(())
    })
}
