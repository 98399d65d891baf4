//! Where the largest or smallest element is: `argmax`, `max(dim)` and their likes.

use super::copy::{copy_raw, worth_turning};
use super::fold::fold;
use super::integer::{Bool8, with_arithmetic_type};
use super::nest::{self, Nest};
use super::operand::{In, Out, apart, ask, has_dim, has_dtype, reduces, same_dtype, same_sizes};
use super::tile::{Form, TILE, Tile, load};
use super::{KernelError, Strided};
use crate::memory;
use smallvec::SmallVec;
use std::marker::PhantomData;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::ReduceOp;

/// An element that can be ranked; NaN is the extreme of both kinds.
trait Ranked: Copy {
    /// Whether `self` takes the place of `other`, an earlier element.
    fn beats(self, other: Self, max: bool) -> bool;
    /// Whether the two tie, so that the earlier one stays.
    fn ties(self, other: Self) -> bool;
}

macro_rules! ranked {
    ($($t:ty)+; $nan:expr) => {$(
        impl Ranked for $t {
            #[inline(always)]
            fn beats(self, other: Self, max: bool) -> bool {
                let better = if max { self > other } else { self < other };
                #[allow(clippy::redundant_closure_call)] // a function of the type
                let (nan, other_nan) = ($nan(self), $nan(other));
                !other_nan && (better || nan)
            }
            #[inline(always)]
            fn ties(self, other: Self) -> bool {
                #[allow(clippy::redundant_closure_call)] // a function of the type
                let (nan, other_nan) = ($nan(self), $nan(other));
                self == other || nan && other_nan
            }
        }
    )+};
}
ranked!(u8 i8 i16 i32 i64 Bool8; |_| false);
ranked!(f32; |x: f32| x.is_nan());
ranked!(f64; |x: f64| x.is_nan());

/// The extreme of a row: through the vectorised fold where there is one for the type.
type Extreme = unsafe fn(*mut u8, *const u8, usize);

unsafe fn extreme_plain<T: Ranked, const MAX: bool>(out: *mut u8, a: *const u8, n: usize) {
    let a = a.cast::<T>();
    // SAFETY: a row that is not empty.
    unsafe {
        let mut best = a.read_unaligned();
        for i in 1..n {
            let x = a.add(i).read_unaligned();
            best = if x.beats(best, MAX) { x } else { best };
        }
        out.cast::<T>().write_unaligned(best);
    }
}

struct Job<T> {
    kept: Nest<3>,
    steps: isize,
    n: usize,
    form: Form,
    max: bool,
    extreme: Extreme,
    values: bool,
    of: PhantomData<fn() -> T>,
}

impl<T: Ranked> Job<T> {
    /// The place of the extreme of the row at `p`.
    unsafe fn row(&self, p: *const u8, spare: *mut u8) -> i64 {
        let direct = self.form == Form::Raw(self.steps as usize);
        let block = if direct { 1024 } else { TILE };
        let mut best: Option<(T, i64)> = None;
        let mut start = 0;
        while start < self.n {
            let m = (self.n - start).min(block);
            // SAFETY: elements start .. start + m of the row.
            unsafe {
                let from = p.offset(start as isize * self.steps);
                let piece = if direct {
                    from
                } else {
                    load(self.form, spare, from, self.steps, m);
                    spare.cast_const()
                }
                .cast::<T>();
                let mut x = std::mem::MaybeUninit::<T>::uninit();
                (self.extreme)(x.as_mut_ptr().cast(), piece.cast(), m);
                let x = x.assume_init();
                if best.is_none_or(|(b, _)| x.beats(b, self.max)) {
                    let at = (0..m).find(|&i| piece.add(i).read_unaligned().ties(x));
                    best = Some((x, (start + at.unwrap_or(0)) as i64));
                }
            }
            start += m;
        }
        best.map_or(0, |(_, at)| at)
    }

    unsafe fn run(&self) {
        let outputs = self.kept.numel;
        nest::parallel(outputs, self.n * 2, &|first, last| {
            let mut tile = Tile::new();
            for i in first..last {
                let [indices, values, a] = self.kept.element(i);
                // SAFETY: the i-th output and its row.
                unsafe {
                    let at = self.row(a, tile.ptr());
                    indices.cast::<i64>().write_unaligned(at);
                    if self.values {
                        // the element as stored, found again by its place
                        let from = a.offset(at as isize * self.steps);
                        let size = match self.form {
                            Form::Raw(size) => size,
                            Form::Half(_) => 2,
                        };
                        std::ptr::copy_nonoverlapping(from, values, size);
                    }
                }
            }
        });
    }
}

unsafe fn run<T: Ranked>(job: Job<T>) {
    // SAFETY: as promised by the caller.
    unsafe { job.run() }
}

/// The place (and value) of the first largest or smallest element along a dimension; NaN counts as
/// the extreme.
///
/// `indices` is `i64`, `values` of the dtype of `a`; both have the sizes of `a` with 1 at `dim`.
pub fn extreme_with_index(
    max: bool,
    values: Option<Out<'_>>,
    indices: Out<'_>,
    a: In<'_>,
    dim: usize,
) -> Result<(), KernelError> {
    apart("extreme_with_index", &[a])?;
    let (indices, a) = (indices.raw(), a.raw());
    let values = values.map(|o| o.raw());
    reduces("max", &indices, &a)?;
    has_dim("max", dim, &a)?;
    has_dtype("max", &indices, DType::I64)?;
    ask(
        "max",
        (0..a.sizes.len()).all(|d| indices.sizes[d] == if d == dim { 1 } else { a.sizes[d] }),
        "results of size 1 at its dimension",
    )?;
    if let Some(values) = &values {
        same_sizes("max", &[&indices, values])?;
        same_dtype("max", &[&a, values])?;
    }
    if a.dtype.is_complex() {
        return Err(KernelError::unsupported("max and min", a.dtype));
    }
    if indices.numel() == 0 {
        return Ok(());
    }
    let n = a.sizes.get(dim).copied().unwrap_or(1) as usize;
    if n == 0 {
        return Err(KernelError::EmptyReduction { op: if max { "max" } else { "min" }.into() });
    }
    if let Some(strides) = worth_turning(&a, dim) {
        let block = memory::allocate(a.numel() * a.dtype.size())?;
        let turned = Strided { ptr: block.as_ptr(), strides: &strides, ..a };
        // SAFETY: the block has all elements; the others are the caller's operands.
        let (turned, indices, values) = unsafe {
            copy_raw(turned, a)?;
            let values = values.map(|v| Out::new(v));
            (In::new(turned), Out::new(indices), values)
        };
        return extreme_with_index(max, values, indices, turned, dim);
    }
    let mut sizes: SmallVec<[i64; 6]> = a.sizes.into();
    if let Some(size) = sizes.get_mut(dim) {
        *size = 1;
    }
    let over = |s: Strided<'_>| (s.ptr, s.dtype, SmallVec::<[i64; 6]>::from(s.strides));
    let (iptr, idtype, istrides) = over(indices);
    let (vptr, vdtype, vstrides) = over(values.unwrap_or(indices));
    let view = |ptr, dtype, strides| Strided { ptr, dtype, sizes: &sizes, strides };
    let kept = Nest::new(&[
        view(iptr, idtype, &istrides),
        view(vptr, vdtype, &vstrides),
        view(a.ptr, a.dtype, a.strides),
    ]);
    let steps = if a.sizes.is_empty() { a.dtype.size() as isize } else { a.byte_stride(dim) };
    let op = if max { ReduceOp::Max } else { ReduceOp::Min };
    let opmath = a.dtype.opmath();
    let vectors = if opmath.is_floating() { fold(op, opmath) } else { None };
    with_arithmetic_type!(a.dtype, T => {
        let plain: Extreme = if max { extreme_plain::<T, true> } else { extreme_plain::<T, false> };
        // SAFETY: as promised by the caller.
        unsafe {
            run(Job::<T> {
                kept,
                steps,
                n,
                form: Form::arithmetic(a.dtype),
                max,
                extreme: vectors.map_or(plain, |f| f.row),
                values: values.is_some(),
                of: PhantomData,
            });
        }
    });
    Ok(())
}

/// [`extreme_with_index`] without the values: `argmax`, `argmin`.
pub fn arg_reduce(max: bool, out: Out<'_>, a: In<'_>, dim: usize) -> Result<(), KernelError> {
    extreme_with_index(max, None, out, a, dim)
}
