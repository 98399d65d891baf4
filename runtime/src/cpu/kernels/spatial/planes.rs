//! Planes of tensors, brought into the type that they are computed in, and split among threads.

use super::super::nest::{self, Shared};
use super::number::Number;
use straightline_passes::ir::DType;

/// A row-major tensor as planes of `len` elements, one after another.
///
/// The memory is borrowed without a lifetime, as a [`Strided`](super::super::Strided)'s is.
#[derive(Clone, Copy, Debug)]
pub struct Planes {
    /// The first element of the first plane.
    pub ptr: *mut u8,
    /// The element type.
    pub dtype: DType,
    /// The elements of one plane.
    pub len: usize,
}

impl Planes {
    fn plane(&self, base: Shared, at: usize) -> *mut u8 {
        base.at((at * self.len * self.dtype.size()) as isize)
    }

    /// Whether a plane can be used where it lies.
    fn is_direct<A: Number>(&self) -> bool {
        self.dtype == A::DTYPE && (self.ptr as usize).is_multiple_of(align_of::<A>())
    }
}

/// Calls `body(plane, inputs, out)` for each of `count` planes; `out` comes zeroed. `cost` is the
/// work of one plane in element operations.
///
/// # Safety
///
/// Inputs may be read and `out` written, `count` planes each; `out` overlaps nothing. All dtypes
/// compute in `A`.
pub(super) unsafe fn each_plane<A: Number, const N: usize>(
    count: usize,
    cost: usize,
    inputs: [Planes; N],
    out: Planes,
    body: &(impl Fn(usize, [&[A]; N], &mut [A]) + Sync),
) {
    let bases = inputs.map(|p| Shared(p.ptr));
    let out_base = Shared(out.ptr);
    // pointers stay out of the closure but for the wrapped ones
    let shapes = inputs.map(|p| (p.dtype, p.len, p.is_direct::<A>()));
    let (out_dtype, out_len, out_direct) = (out.dtype, out.len, out.is_direct::<A>());
    let at = |base: Shared, dtype: DType, len: usize, plane: usize| {
        let planes = Planes {
            ptr: base.at(0),
            dtype,
            len,
        };
        planes.plane(base, plane)
    };
    nest::parallel(count, cost, &|first, last| {
        let mut scratch: [Vec<A>; N] = std::array::from_fn(|k| {
            let (_, len, direct) = shapes[k];
            vec![A::ZERO; if direct { 0 } else { len }]
        });
        let mut out_scratch = vec![A::ZERO; if out_direct { 0 } else { out_len }];
        for plane in first..last {
            for (k, s) in scratch.iter_mut().enumerate() {
                let (dtype, len, direct) = shapes[k];
                if !direct {
                    // SAFETY: plane `plane` of input k.
                    unsafe { A::load(dtype, at(bases[k], dtype, len, plane), s) };
                }
            }
            let slices: [&[A]; N] = std::array::from_fn(|k| {
                let (dtype, len, direct) = shapes[k];
                if direct {
                    let p = at(bases[k], dtype, len, plane).cast_const().cast::<A>();
                    // SAFETY: aligned (planes are whole elements apart), of the type, readable for
                    // the call.
                    unsafe { std::slice::from_raw_parts(p, len) }
                } else {
                    &scratch[k]
                }
            });
            let to = at(out_base, out_dtype, out_len, plane);
            if out_direct {
                // SAFETY: this plane of the output is this thread's alone; zeroed before a
                // reference to it exists.
                let slice = unsafe {
                    std::ptr::write_bytes(to, 0, out_len * size_of::<A>());
                    std::slice::from_raw_parts_mut(to.cast::<A>(), out_len)
                };
                body(plane, slices, slice);
            } else {
                out_scratch.fill(A::ZERO);
                body(plane, slices, &mut out_scratch);
                // SAFETY: this plane of the output.
                unsafe { A::store(out_dtype, to, &out_scratch) };
            }
        }
    });
}

/// The indices of one plane, which lie side by side in memory of `i64`.
///
/// # Safety
///
/// `base` is aligned and has `len` indices for each plane, which nobody else uses.
#[allow(
    clippy::mut_from_ref,
    reason = "the caller hands out each plane's indices once"
)]
pub(super) unsafe fn indices_of<'a>(base: Shared, plane: usize, len: usize) -> &'a mut [i64] {
    let p = base.at((plane * len * size_of::<i64>()) as isize);
    // SAFETY: as promised by the caller; zeroed before a reference exists.
    unsafe {
        std::ptr::write_bytes(p, 0, len * size_of::<i64>());
        std::slice::from_raw_parts_mut(p.cast::<i64>(), len)
    }
}
