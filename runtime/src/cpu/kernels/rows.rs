//! Kernels over whole rows of floats: softmax, layer norm, cumulative sums.
//!
//! A row that is not contiguous in `f32` or `f64` is brought into a buffer, computed there, and
//! written back.

use super::copy::{conversion, copy_raw, worth_turning};
use super::nest::{self, Shared, rows_along};
use super::tile::{Form, TILE, Tile, load, store};
use super::{KernelError, Strided, complex};
use crate::cpu::kernels::operand::{
    In, Out, ask, has_dim, has_dtype, row_major, same_dtype, same_sizes,
};
use crate::cpu::math::{Lane, Simd, SimdTask, functions as f};
use crate::memory::{self, Block};
use smallvec::SmallVec;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::ReduceOp;

/// Brings a strided row of any length into a contiguous one of the arithmetic type.
///
/// # Safety
///
/// `src` has `n` elements at this stride, `dst` room for as many.
unsafe fn load_row(form: Form, dst: *mut u8, src: *const u8, step: isize, n: usize) {
    for start in (0..n).step_by(TILE) {
        let m = (n - start).min(TILE);
        // SAFETY: as promised by the caller.
        unsafe {
            load(form, dst.add(start * form.size()), src.offset(start as isize * step), step, m)
        };
    }
}

/// The way back.
///
/// # Safety
///
/// As for [`load_row`].
unsafe fn store_row(form: Form, dst: *mut u8, step: isize, src: *const u8, n: usize) {
    for start in (0..n).step_by(TILE) {
        let m = (n - start).min(TILE);
        // SAFETY: as promised by the caller.
        unsafe {
            store(form, dst.offset(start as isize * step), step, src.add(start * form.size()), m)
        };
    }
}

/// Runs a kernel on copies of both operands in another layout.
///
/// # Safety
///
/// The memory of both is what they say and may be accessed.
unsafe fn turned(
    out: Strided<'_>,
    a: Strided<'_>,
    strides: &[i64],
    kernel: &dyn Fn(Out<'_>, In<'_>) -> Result<(), KernelError>,
) -> Result<(), KernelError> {
    let n = a.numel();
    let input = memory::allocate(n * a.dtype.size())?;
    let output = memory::allocate(n * out.dtype.size())?;
    let a_turned = Strided { ptr: input.as_ptr(), strides, ..a };
    let out_turned = Strided { ptr: output.as_ptr(), strides, ..out };
    // SAFETY: the blocks have all elements.
    unsafe {
        copy_raw(a_turned, a)?;
        kernel(Out::new(out_turned), In::new(a_turned))?;
        copy_raw(out, out_turned)
    }
}

/// A buffer for one row, or nothing where rows can be used as they lie.
fn row_buffer(needed: bool, bytes: usize) -> Result<Option<Block>, KernelError> {
    Ok(if needed { Some(memory::allocate(bytes)?) } else { None })
}

/// Runs `body` over ranges of rows with a buffer each; the first failure to allocate one is
/// reported.
fn for_rows(
    rows: usize,
    cost: usize,
    buffer: Option<usize>,
    body: &(dyn Fn(usize, *mut u8) + Sync),
) -> Result<(), KernelError> {
    let failure = std::sync::Mutex::new(None);
    nest::parallel(rows, cost, &|first, last| match row_buffer(
        buffer.is_some(),
        buffer.unwrap_or(0),
    ) {
        Ok(block) => {
            let scratch = block.as_ref().map_or(std::ptr::null_mut(), Block::as_ptr);
            for row in first..last {
                body(row, scratch);
            }
        }
        Err(e) => {
            if let Ok(mut failure) = failure.lock() {
                *failure = Some(e);
            }
        }
    });
    match failure.into_inner() {
        Ok(Some(e)) => Err(e),
        _ => Ok(()),
    }
}

struct SoftmaxRow<E> {
    out: *mut E,
    a: *const E,
    pub(super) n: usize,
    log: bool,
}

impl<E: Lane> SimdTask<E> for SoftmaxRow<E> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<Elem = E>>(self, mut s: S) {
        let SoftmaxRow { out, a, n, log } = self;
        let whole = n - n % S::LANES;
        let tail = n - whole;
        // SAFETY: all elements are within rows of n; out may be a.
        unsafe {
            let lowest = s.f(f64::NEG_INFINITY);
            let inside = s.first(tail);
            let mut max = lowest;
            for i in (0..whole).step_by(S::LANES) {
                let x = s.load(a.add(i));
                max = f::maximum(&mut s, max, x);
            }
            if tail > 0 {
                let x = s.load_partial(a.add(whole), tail);
                let x = s.select(inside, x, lowest);
                max = f::maximum(&mut s, max, x);
            }
            let max = s.reduce_max(max);
            let max = s.splat(max);
            let zero = s.f(0.0);
            let mut sum = zero;
            for i in (0..whole).step_by(S::LANES) {
                let x = s.load(a.add(i));
                let d = s.sub(x, max);
                let e = f::exp(&mut s, d);
                sum = s.add(sum, e);
                s.store(out.add(i), if log { d } else { e });
            }
            if tail > 0 {
                let x = s.load_partial(a.add(whole), tail);
                let d = s.sub(x, max);
                let e = f::exp(&mut s, d);
                let counted = s.select(inside, e, zero);
                sum = s.add(sum, counted);
                s.store_partial(out.add(whole), tail, if log { d } else { e });
            }
            let sum = s.reduce_add(sum);
            let sum = s.splat(sum);
            // one division for the row, as in compiled code
            let one = s.f(1.0);
            let last = if log { f::log(&mut s, sum) } else { s.div(one, sum) };
            for i in (0..whole).step_by(S::LANES) {
                let x = s.load(out.add(i));
                let y = if log { s.sub(x, last) } else { s.mul(x, last) };
                s.store(out.add(i), y);
            }
            if tail > 0 {
                let x = s.load_partial(out.add(whole), tail);
                let y = if log { s.sub(x, last) } else { s.mul(x, last) };
                s.store_partial(out.add(whole), tail, y);
            }
        }
    }
}

/// `softmax` or `log_softmax` along a dimension; `out` and `a` have one floating dtype.
pub fn softmax(out: Out<'_>, a: In<'_>, dim: usize, log: bool) -> Result<(), KernelError> {
    let (out, a) = (out.raw(), a.raw());
    same_sizes("softmax", &[&out, &a])?;
    same_dtype("softmax", &[&out, &a])?;
    has_dim("softmax", dim, &a)?;
    if !a.dtype.is_floating() {
        return Err(KernelError::unsupported("softmax", a.dtype));
    }
    if out.numel() == 0 {
        return Ok(());
    }
    if let Some(strides) = worth_turning(&a, dim) {
        // SAFETY: as promised by the caller.
        return unsafe { turned(out, a, &strides, &|out, a| softmax(out, a, dim, log)) };
    }
    let rows = rows_along(&[out, a], dim);
    let form = Form::arithmetic(a.dtype);
    let double = a.dtype == DType::F64;
    let n = rows.n;
    let direct = rows.steps.iter().all(|&s| form == Form::Raw(s as usize));
    let buffer = (!direct).then_some(n * form.size());
    for_rows(rows.others.numel, n * 12, buffer, &|row, scratch| {
        let [to, from] = rows.others.element(row);
        // SAFETY: one row of each operand; the buffer has room for one.
        unsafe {
            let (o, i) = if direct {
                (to, from.cast_const())
            } else {
                load_row(form, scratch, from, rows.steps[1], n);
                (scratch, scratch.cast_const())
            };
            if double {
                f64::dispatch(SoftmaxRow::<f64> { out: o.cast(), a: i.cast(), n, log });
            } else {
                f32::dispatch(SoftmaxRow::<f32> { out: o.cast(), a: i.cast(), n, log });
            }
            if !direct {
                store_row(form, to, rows.steps[0], scratch, n);
            }
        }
    })
}

struct LayerNormRow<E> {
    out: *mut E,
    a: *const E,
    pub(super) n: usize,
    weight: Option<*const E>,
    bias: Option<*const E>,
    eps: f64,
    mean: Option<*mut E>,
    rstd: Option<*mut E>,
}

impl<E: Lane> SimdTask<E> for LayerNormRow<E> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<Elem = E>>(self, mut s: S) {
        let LayerNormRow { out, a, n, weight, bias, eps, mean, rstd } = self;
        let whole = n - n % S::LANES;
        let tail = n - whole;
        // SAFETY: all elements are within rows of n; out may be a.
        unsafe {
            let zero = s.f(0.0);
            let inside = s.first(tail);
            let count = s.f(n as f64);
            let mut sum = zero;
            for i in (0..whole).step_by(S::LANES) {
                let x = s.load(a.add(i));
                sum = s.add(sum, x);
            }
            if tail > 0 {
                let x = s.load_partial(a.add(whole), tail);
                sum = s.add(sum, x);
            }
            let sum = s.reduce_add(sum);
            let sum = s.splat(sum);
            let centre = s.div(sum, count);
            let mut squares = zero;
            for i in (0..whole).step_by(S::LANES) {
                let x = s.load(a.add(i));
                let d = s.sub(x, centre);
                squares = s.fma(d, d, squares);
            }
            if tail > 0 {
                let x = s.load_partial(a.add(whole), tail);
                let d = s.sub(x, centre);
                let d = s.select(inside, d, zero);
                squares = s.fma(d, d, squares);
            }
            let squares = s.reduce_add(squares);
            let squares = s.splat(squares);
            let variance = s.div(squares, count);
            let eps = s.f(eps);
            let v = s.add(variance, eps);
            let scale = f::rsqrt(&mut s, v);
            if let Some(p) = mean {
                s.store_partial(p, 1, centre);
            }
            if let Some(p) = rstd {
                s.store_partial(p, 1, scale);
            }
            let mut i = 0;
            while i < n {
                let m = (n - i).min(S::LANES);
                let full = m == S::LANES;
                let x = if full { s.load(a.add(i)) } else { s.load_partial(a.add(i), m) };
                let d = s.sub(x, centre);
                let mut y = s.mul(d, scale);
                if let Some(p) = weight {
                    let w = if full { s.load(p.add(i)) } else { s.load_partial(p.add(i), m) };
                    y = s.mul(y, w);
                }
                if let Some(p) = bias {
                    let b = if full { s.load(p.add(i)) } else { s.load_partial(p.add(i), m) };
                    y = s.add(y, b);
                }
                if full {
                    s.store(out.add(i), y);
                } else {
                    s.store_partial(out.add(i), m, y);
                }
                i += m;
            }
        }
    }
}

/// The statistics that [`layer_norm`] hands out: contiguous, one number for each row, of the
/// arithmetic type of the input (`f32`, or `f64` for `f64`).
#[derive(Debug, Default)]
pub struct RowStatistics<'a> {
    /// Where to write the means.
    pub mean: Option<Out<'a>>,
    /// Where to write `1 / sqrt(variance + eps)`.
    pub rstd: Option<Out<'a>>,
}

/// Layer normalisation of each row of the two-dimensional `a` (`out` alike), then `* weight +
/// bias`.
///
/// `weight` and `bias` are one-dimensional of the row's length and of the dtype of `a`; halves are
/// computed in `f32` and rounded once.
pub fn layer_norm(
    out: Out<'_>,
    statistics: RowStatistics<'_>,
    a: In<'_>,
    weight: Option<In<'_>>,
    bias: Option<In<'_>>,
    eps: f64,
) -> Result<(), KernelError> {
    const NAME: &str = "layer_norm";
    let (out, a) = (out.raw(), a.raw());
    if !a.dtype.is_floating() {
        return Err(KernelError::unsupported(NAME, a.dtype));
    }
    ask(NAME, a.sizes.len() == 2, "a matrix")?;
    same_sizes(NAME, &[&out, &a])?;
    same_dtype(NAME, &[&out, &a])?;
    let (weight, bias) = (weight.map(In::raw), bias.map(In::raw));
    for factor in weight.iter().chain(&bias) {
        same_dtype(NAME, &[&a, factor])?;
        let fits = factor.sizes == &a.sizes[1..];
        ask(NAME, fits, "a factor for each column")?;
    }
    let statistic = |s: &Option<Out<'_>>| -> Result<Option<Shared>, KernelError> {
        let Some(s) = s.as_ref().map(Out::raw) else {
            return Ok(None);
        };
        has_dtype(NAME, &s, a.dtype.opmath())?;
        row_major(NAME, &[&s])?;
        let fits = s.numel() as i64 == a.sizes[0];
        ask(NAME, fits, "a statistic for each row")?;
        Ok(Some(Shared(s.ptr)))
    };
    let (mean, rstd) = (statistic(&statistics.mean)?, statistic(&statistics.rstd)?);
    let (rows, n) = (a.sizes[0] as usize, a.sizes[1] as usize);
    if rows == 0 {
        return Ok(());
    }
    let form = Form::arithmetic(a.dtype);
    let size = form.size();
    let double = a.dtype == DType::F64;
    // the factors once, in the arithmetic type
    let mut kept: SmallVec<[Block; 2]> = SmallVec::new();
    let mut factor = |s: Option<Strided<'_>>| -> Result<Option<Shared>, KernelError> {
        let Some(s) = s else { return Ok(None) };
        if form == Form::Raw(s.byte_stride(0) as usize) || n == 0 {
            return Ok(Some(Shared(s.ptr)));
        }
        let block = memory::allocate(n * size)?;
        // SAFETY: as promised by the caller; the block has room for a row.
        unsafe { load_row(form, block.as_ptr(), s.ptr, s.byte_stride(0), n) };
        let p = Shared(block.as_ptr());
        kept.push(block);
        Ok(Some(p))
    };
    let (weight, bias) = (factor(weight)?, factor(bias)?);
    let steps = [out.byte_stride(1), a.byte_stride(1)];
    let direct = steps.iter().all(|&s| form == Form::Raw(s as usize));
    let buffer = (!direct).then_some(n * size);
    let (to, from) = (Shared(out.ptr), Shared(a.ptr));
    let row_steps = [out.byte_stride(0), a.byte_stride(0)];
    for_rows(rows, n * 3, buffer, &|row, scratch| {
        let to = to.at(row as isize * row_steps[0]);
        let from = from.at(row as isize * row_steps[1]);
        // SAFETY: one row of each operand; the buffer has room for one.
        unsafe {
            let (o, i) = if direct {
                (to, from.cast_const())
            } else {
                load_row(form, scratch, from, steps[1], n);
                (scratch, scratch.cast_const())
            };
            macro_rules! run {
                ($t:ty) => {
                    <$t>::dispatch(LayerNormRow::<$t> {
                        out: o.cast(),
                        a: i.cast(),
                        n,
                        weight: weight.map(|p| p.at(0).cast_const().cast()),
                        bias: bias.map(|p| p.at(0).cast_const().cast()),
                        eps,
                        mean: mean.map(|p| p.at((row * size) as isize).cast()),
                        rstd: rstd.map(|p| p.at((row * size) as isize).cast()),
                    })
                };
            }
            if double {
                run!(f64)
            } else {
                run!(f32)
            }
            if !direct {
                store_row(form, to, steps[0], scratch, n);
            }
        }
    })
}

/// Running sums or products along a dimension, in the dtype of `out` (integers wrap in `i64`; `f32`
/// accumulates in `f64`, half types too; complex numbers in `c128`).
pub fn cumulative(op: ReduceOp, out: Out<'_>, a: In<'_>, dim: usize) -> Result<(), KernelError> {
    let (out, a) = (out.raw(), a.raw());
    same_sizes("cumulative", &[&out, &a])?;
    has_dim("cumulative", dim, &a)?;
    let product = match op {
        ReduceOp::Sum => false,
        ReduceOp::Prod => true,
        _ => return Err(KernelError::unsupported(op, a.dtype)),
    };
    if out.numel() == 0 {
        return Ok(());
    }
    if out.dtype.is_complex() {
        // SAFETY: as promised by the caller.
        return unsafe { complex::cumulative(op, out, a, dim) };
    }
    if let Some(strides) = worth_turning(&a, dim) {
        // SAFETY: as promised by the caller.
        return unsafe { turned(out, a, &strides, &|out, a| cumulative(op, out, a, dim)) };
    }
    let float = out.dtype.is_floating();
    let wide = if float { DType::F64 } else { DType::I64 };
    let arithmetic = |d: DType| if d.is_half() { DType::F32 } else { d };
    let widen = conversion(arithmetic(a.dtype), wide);
    let narrow = conversion(wide, arithmetic(out.dtype));
    let rows = rows_along(&[out, a], dim);
    let (of, af) = (Form::arithmetic(out.dtype), Form::arithmetic(a.dtype));
    nest::parallel(rows.others.numel, rows.n * 4, &|first, last| {
        let (mut tile, mut numbers) = (Tile::new(), Tile::new());
        let (tile, numbers) = (tile.ptr(), numbers.ptr());
        for row in first..last {
            let [to, from] = rows.others.element(row);
            let mut float_state = if product { 1.0 } else { 0.0 };
            let mut int_state = i64::from(product);
            for start in (0..rows.n).step_by(TILE) {
                let m = (rows.n - start).min(TILE);
                let at = start as isize;
                // SAFETY: m elements of both rows; the tiles have room for them.
                unsafe {
                    load(af, tile, from.offset(at * rows.steps[1]), rows.steps[1], m);
                    widen(numbers, tile, m);
                    if float {
                        let x = std::slice::from_raw_parts_mut(numbers.cast::<f64>(), m);
                        for x in x {
                            float_state = if product { float_state * *x } else { float_state + *x };
                            *x = float_state;
                        }
                    } else {
                        let x = std::slice::from_raw_parts_mut(numbers.cast::<i64>(), m);
                        for x in x {
                            int_state = if product {
                                int_state.wrapping_mul(*x)
                            } else {
                                int_state.wrapping_add(*x)
                            };
                            *x = int_state;
                        }
                    }
                    narrow(tile, numbers, m);
                    store(of, to.offset(at * rows.steps[0]), rows.steps[0], tile, m);
                }
            }
        }
    });
    Ok(())
}
