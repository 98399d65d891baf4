//! Taking an input apart into columns, their products, and adding columns back into an input.

use super::Geometry;
use crate::cpu::kernels::matmul::{self, MatMut, MatRef, Scaling};
use straightline_passes::ir::{DType, Scalar};

/// Bytes of columns made at a time: they are read once for each few rows of the weight.
pub(super) const BLOCK: usize = 384 << 10;

/// # Safety
///
/// As [`matmul::gemm`].
pub(super) unsafe fn product(
    dtype: DType,
    a: MatRef,
    b: MatRef,
    out: MatMut,
    addend: Option<MatRef>,
) {
    let scaling = Scaling { addend: addend.map(|mat| (Scalar::Int(1), mat)), ..Scaling::default() };
    // SAFETY: the caller's contract.
    let result = unsafe { matmul::gemm(dtype, a, b, out, scaling) };
    debug_assert!(result.is_ok(), "the sizes come from one geometry");
}

/// Element arithmetic of the kernels here: integers wrap.
pub(super) trait Number: Copy + Default + Send + Sync + 'static {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! number {
    ($($t:ty => $plus:expr, $times:expr;)*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                $plus(self, other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                $times(self, other)
            }
        }
    )*};
}
number! {
    f32 => |a, b| a + b, |a, b| a * b;
    f64 => |a, b| a + b, |a, b| a * b;
    i64 => i64::wrapping_add, i64::wrapping_mul;
    i32 => i32::wrapping_add, i32::wrapping_mul;
    i16 => i16::wrapping_add, i16::wrapping_mul;
    i8 => i8::wrapping_add, i8::wrapping_mul;
    u8 => u8::wrapping_add, u8::wrapping_mul;
}

/// Output positions `begin..end` of one output row, and where in a column block they start.
#[derive(Clone, Copy)]
struct Segment {
    depth: usize,
    height: usize,
    begin: usize,
    end: usize,
    at: usize,
}

/// The rows that output positions `begin..end` lie in.
fn segments(g: &Geometry, begin: usize, end: usize) -> impl Iterator<Item = Segment> {
    let [_, height, width] = g.output;
    let mut at = begin;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (row, x) = (at / width, at % width);
        let count = (width - x).min(end - at);
        let segment = Segment {
            depth: row / height,
            height: row % height,
            begin: x,
            end: x + count,
            at: at - begin,
        };
        at += count;
        Some(segment)
    })
}

/// The input row that a tap of an output row lies in; `None` if that is padding.
#[inline]
fn input_row(g: &Geometry, s: Segment, kd: usize, kh: usize) -> Option<usize> {
    let coordinate = |dim: usize, x: usize, k: usize| {
        (x * g.stride[dim] + k * g.dilation[dim])
            .checked_sub(g.padding[dim])
            .filter(|at| *at < g.input[dim])
    };
    Some(coordinate(0, s.depth, kd)? * g.input[1] + coordinate(1, s.height, kh)?)
}

/// Writes the columns of output positions `begin..end` over `channels` input channels: row `(c, kd,
/// kh, kw)` of the result, `end - begin` elements, holds what that tap sees.
///
/// # Safety
///
/// `input` holds `channels` planes, `out` has room for `channels * taps` rows.
pub(super) unsafe fn take<T: Copy + Default>(
    g: &Geometry,
    input: *const T,
    channels: usize,
    (begin, end): (usize, usize),
    out: *mut T,
) {
    let [kd, kh, kw] = g.kernel;
    let (plane, width, stride) = (g.input_plane(), g.input[2], g.stride[2]);
    let count = end - begin;
    for s in segments(g, begin, end) {
        let length = s.end - s.begin;
        for kd in 0..kd {
            for kh in 0..kh {
                let row = input_row(g, s, kd, kh);
                for tap in 0..kw {
                    let (lo, hi) = g.inside(2, tap);
                    let (lo, hi) = (lo.clamp(s.begin, s.end), hi.clamp(s.begin, s.end));
                    let line = (kd * g.kernel[1] + kh) * kw + tap;
                    for c in 0..channels {
                        let to = out.wrapping_add((c * g.taps() + line) * count + s.at);
                        // SAFETY: the row `line` of channel `c` has `count` elements, this segment
                        // `length` of them from `s.at`; `inside` says which taps are inside of the
                        // input row.
                        unsafe {
                            let Some(row) = row.filter(|_| lo < hi) else {
                                for x in 0..length {
                                    *to.add(x) = T::default();
                                }
                                continue;
                            };
                            for x in 0..lo - s.begin {
                                *to.add(x) = T::default();
                            }
                            for x in hi - s.begin..length {
                                *to.add(x) = T::default();
                            }
                            let first = lo * stride + tap * g.dilation[2] - g.padding[2];
                            let from = input.add(c * plane + row * width + first);
                            let to = to.add(lo - s.begin);
                            if stride == 1 {
                                std::ptr::copy_nonoverlapping(from, to, hi - lo);
                            } else {
                                for x in 0..hi - lo {
                                    *to.add(x) = *from.add(x * stride);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Adds columns back to where [`take`] takes them from.
///
/// # Safety
///
/// `columns` holds `channels * taps` rows of `end - begin` elements, `input` the planes of
/// `channels` channels, which no other code accesses.
pub(super) unsafe fn put<T: Number>(
    g: &Geometry,
    columns: *const T,
    channels: usize,
    (begin, end): (usize, usize),
    input: *mut T,
) {
    let [kd, kh, kw] = g.kernel;
    let (plane, width, stride) = (g.input_plane(), g.input[2], g.stride[2]);
    let count = end - begin;
    for c in 0..channels {
        for kd in 0..kd {
            for kh in 0..kh {
                for tap in 0..kw {
                    let (lo, hi) = g.inside(2, tap);
                    let line = (kd * g.kernel[1] + kh) * kw + tap;
                    for s in segments(g, begin, end) {
                        let (lo, hi) = (lo.clamp(s.begin, s.end), hi.clamp(s.begin, s.end));
                        let Some(row) = input_row(g, s, kd, kh).filter(|_| lo < hi) else {
                            continue;
                        };
                        let first = lo * stride + tap * g.dilation[2] - g.padding[2];
                        // SAFETY: as in `take`, the other way round.
                        unsafe {
                            let from =
                                columns.add((c * g.taps() + line) * count + s.at + (lo - s.begin));
                            let to = input.add(c * plane + row * width + first);
                            for x in 0..hi - lo {
                                let to = to.add(x * stride);
                                *to = (*to).plus(*from.add(x));
                            }
                        }
                    }
                }
            }
        }
    }
}
