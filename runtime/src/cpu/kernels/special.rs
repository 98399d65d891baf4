//! Elementwise functions without vector code: operands of any layout and dtype,
//! computed in `f64` or `i64` and rounded to the result's type.

use super::nest::Nest;
use super::{KernelError, Strided};
use crate::cpu::kernels::operand::{In, Out, apart, same_dtype, same_sizes};
use half::{bf16, f16};
use straightline_passes::ir::DType;

/// Elements converted at a time.
const BLOCK: usize = 128;

/// Elements below which one thread does it: the functions take some 10 to 100 ns each.
const GRAIN: usize = 2048;

/// Reads `n` elements at steps of `step` bytes.
///
/// # Safety
///
/// The elements are there; `x` has room for `n`.
unsafe fn load_floats(dtype: DType, p: *const u8, step: isize, x: &mut [f64]) {
    macro_rules! read {
        ($t:ty, $wide:expr) => {{
            let wide: fn($t) -> f64 = $wide;
            for (i, x) in x.iter_mut().enumerate() {
                // SAFETY: as promised by the caller; elements need not be aligned.
                *x = wide(unsafe { p.offset(i as isize * step).cast::<$t>().read_unaligned() });
            }
        }};
    }
    match dtype {
        DType::F32 => read!(f32, f64::from),
        DType::F64 => read!(f64, |x| x),
        DType::F16 => read!(f16, f16::to_f64),
        DType::BF16 => read!(bf16, bf16::to_f64),
        _ => debug_assert!(false, "checked by the callers"),
    }
}

/// Writes elements at steps of `step` bytes.
///
/// # Safety
///
/// The elements are there and may be written.
unsafe fn store_floats(dtype: DType, p: *mut u8, step: isize, x: &[f64]) {
    macro_rules! write {
        ($t:ty, $narrow:expr) => {{
            let narrow: fn(f64) -> $t = $narrow;
            for (i, x) in x.iter().enumerate() {
                // SAFETY: as promised by the caller; elements need not be aligned.
                unsafe { p.offset(i as isize * step).cast::<$t>().write_unaligned(narrow(*x)) };
            }
        }};
    }
    match dtype {
        DType::F32 => write!(f32, |x| x as f32),
        DType::F64 => write!(f64, |x| x),
        DType::F16 => write!(f16, |x| f16::from_f32(x as f32)),
        DType::BF16 => write!(bf16, |x| bf16::from_f32(x as f32)),
        DType::I32 => write!(i32, |x| x as i32),
        DType::Bool => write!(u8, |x| u8::from(x != 0.0)),
        _ => debug_assert!(false, "checked by the callers"),
    }
}

/// Calls `block(pointers, n)` for blocks of rows, on several threads if there is enough work.
unsafe fn blocks<const N: usize>(
    operands: &[Strided<'_>; N],
    block: &(dyn Fn([*mut u8; N], [isize; N], usize) + Sync),
) {
    if operands[0].numel() == 0 {
        return;
    }
    let nest = Nest::new(operands);
    let steps = nest.inner().strides;
    let row = |mut ptrs: [*mut u8; N], n: usize| {
        let mut left = n;
        while left > 0 {
            let m = left.min(BLOCK);
            block(ptrs, steps, m);
            for (p, step) in ptrs.iter_mut().zip(steps) {
                *p = p.wrapping_offset(step * m as isize);
            }
            left -= m;
        }
    };
    // SAFETY: the callers of the public functions vouch for the operands; blocks of the output are
    // disjoint.
    unsafe { nest.run(GRAIN, &row) };
}

fn check_floating(operands: &[Strided<'_>]) -> Result<(), KernelError> {
    match operands.iter().find(|o| !o.dtype.is_floating()) {
        Some(o) => Err(KernelError::unsupported("special function", o.dtype)),
        None => Ok(()),
    }
}

/// `out = f(x)`; `x` in floating point, `out` too or `bool` (whether the value is not 0).
pub fn map(out: Out<'_>, x: In<'_>, f: &(dyn Fn(f64) -> f64 + Sync)) -> Result<(), KernelError> {
    let (out, x) = (out.raw(), x.raw());
    same_sizes("map", &[&out, &x])?;
    check_floating(&[x])?;
    if out.dtype != DType::Bool {
        check_floating(&[out])?;
    }
    let (to, from) = (out.dtype, x.dtype);
    // SAFETY: as promised by the caller.
    unsafe {
        blocks(&[out, x], &|[out, x], [so, sx], n| {
            let mut block = [0.0; BLOCK];
            let block = &mut block[..n];
            load_floats(from, x, sx, block);
            for x in block.iter_mut() {
                *x = f(*x);
            }
            store_floats(to, out, so, block);
        });
    }
    Ok(())
}

/// `out = f(a, b)` in floating point.
pub fn zip(
    out: Out<'_>,
    a: In<'_>,
    b: In<'_>,
    f: &(dyn Fn(f64, f64) -> f64 + Sync),
) -> Result<(), KernelError> {
    let (out, a, b) = (out.raw(), a.raw(), b.raw());
    same_sizes("zip", &[&out, &a, &b])?;
    check_floating(&[out, a, b])?;
    let (to, of_a, of_b) = (out.dtype, a.dtype, b.dtype);
    // SAFETY: as promised by the caller.
    unsafe {
        blocks(&[out, a, b], &|[out, a, b], [so, sa, sb], n| {
            let (mut left, mut right) = ([0.0; BLOCK], [0.0; BLOCK]);
            let (left, right) = (&mut left[..n], &mut right[..n]);
            load_floats(of_a, a, sa, left);
            load_floats(of_b, b, sb, right);
            for (x, y) in left.iter_mut().zip(right.iter()) {
                *x = f(*x, *y);
            }
            store_floats(to, out, so, left);
        });
    }
    Ok(())
}

/// `out = f(a, b)` in integers or bool, all of one dtype; results are cut to its bits.
pub fn zip_integers(
    out: Out<'_>,
    a: In<'_>,
    b: In<'_>,
    f: &(dyn Fn(i64, i64) -> i64 + Sync),
) -> Result<(), KernelError> {
    let (out, a, b) = (out.raw(), a.raw(), b.raw());
    same_sizes("zip", &[&out, &a, &b])?;
    same_dtype("zip", &[&out, &a, &b])?;
    macro_rules! run {
        ($t:ty) => {
            // SAFETY: as promised by the caller; elements need not be aligned.
            unsafe {
                blocks(&[out, a, b], &|[out, a, b], [so, sa, sb], n| {
                    for i in 0..n as isize {
                        let x = a.offset(i * sa).cast::<$t>().read_unaligned();
                        let y = b.offset(i * sb).cast::<$t>().read_unaligned();
                        let z = f(x as i64, y as i64) as $t;
                        out.offset(i * so).cast::<$t>().write_unaligned(z);
                    }
                });
            }
        };
    }
    if a.dtype != out.dtype || b.dtype != out.dtype {
        return Err(KernelError::unsupported("mixed integers", a.dtype));
    }
    match out.dtype {
        DType::I64 => run!(i64),
        DType::I32 => run!(i32),
        DType::I16 => run!(i16),
        DType::I8 => run!(i8),
        DType::U8 | DType::Bool => run!(u8),
        other => return Err(KernelError::unsupported("integer function", other)),
    }
    Ok(())
}

/// Fractions and powers of 2: `x = mantissa * 2^exponent`; the exponents are `i32`.
pub fn frexp(mantissa: Out<'_>, exponent: Out<'_>, x: In<'_>) -> Result<(), KernelError> {
    apart("frexp", &[x])?;
    let (mantissa, exponent, x) = (mantissa.raw(), exponent.raw(), x.raw());
    same_sizes("frexp", &[&mantissa, &exponent, &x])?;
    check_floating(&[mantissa, x])?;
    if exponent.dtype != DType::I32 {
        return Err(KernelError::unsupported("frexp", exponent.dtype));
    }
    let (to, from) = (mantissa.dtype, x.dtype);
    // SAFETY: as promised by the caller.
    unsafe {
        blocks(&[mantissa, exponent, x], &|[m, e, x], [sm, se, sx], n| {
            let (mut fractions, mut powers) = ([0.0; BLOCK], [0.0; BLOCK]);
            let (fractions, powers) = (&mut fractions[..n], &mut powers[..n]);
            load_floats(from, x, sx, fractions);
            for (x, power) in fractions.iter_mut().zip(powers.iter_mut()) {
                let (fraction, exponent) = crate::cpu::math::special::frexp(*x);
                (*x, *power) = (fraction, f64::from(exponent));
            }
            store_floats(to, m, sm, fractions);
            store_floats(DType::I32, e, se, powers);
        });
    }
    Ok(())
}
