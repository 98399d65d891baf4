//! Random integers, and permutations of them.

use crate::error::{Error, Result};
use crate::ops::create::factory::{computed_on, on_device};
use crate::ops::random::fill::fill_random;
use crate::tensor::{Generator, Tensor};
use half::{bf16, f16};
use straightline_catalog::{DType, Device, Layout};
use straightline_runtime::cpu::kernels::random;
pub(crate) use straightline_runtime::cpu::kernels::random::Integers;
use straightline_runtime::cpu::kernels::random_distributions::permutation;

/// The smallest and the largest integer that a dtype takes part in random draws with.
fn bounds(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::Bool => (0.0, 1.0),
        DType::U8 => (0.0, 255.0),
        DType::I8 => (-128.0, 127.0),
        DType::I16 => (f64::from(i16::MIN), f64::from(i16::MAX)),
        DType::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        DType::F16 => (-65504.0, 65504.0),
        _ => (i64::MIN as f64, i64::MAX as f64),
    }
}

/// The last integer below which a dtype holds all, and so the end of an open range.
fn last_of(dtype: DType) -> i64 {
    match dtype {
        DType::F64 => 1 << 53,
        DType::F32 => 1 << 24,
        DType::F16 => 1 << 11,
        DType::BF16 => 1 << 8,
        DType::Bool => 1,
        DType::U8 => i64::from(u8::MAX),
        DType::I8 => i64::from(i8::MAX),
        DType::I16 => i64::from(i16::MAX),
        DType::I32 => i64::from(i32::MAX),
        _ => i64::MAX,
    }
}

fn check_bound(name: &str, value: i64, dtype: DType) -> Result<()> {
    let (low, high) = bounds(dtype);
    if (low..=high).contains(&(value as f64)) {
        return Ok(());
    }
    Err(Error::runtime(format!("{name} is out of bounds for {}", dtype.torch_name())))
}

fn check_below(from: i64, to: i64) -> Result<()> {
    if from < to {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}"
    )))
}

/// The significant binary digits of a floating-point dtype.
fn digits(dtype: DType) -> u32 {
    match dtype {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        _ => 8,
    }
}

/// An integer as a floating-point dtype has it.
fn rounded(x: i64, dtype: DType) -> i64 {
    match dtype {
        DType::F64 => x as f64 as i64,
        DType::F32 => x as f32 as i64,
        DType::F16 => f16::from_f32(x as f32).to_f32() as i64,
        _ => bf16::from_f32(x as f32).to_f32() as i64,
    }
}

/// How far apart the numbers of a dtype are at `x`.
fn gap(x: i64, dtype: DType) -> i64 {
    let exponent = x.unsigned_abs().checked_ilog2().unwrap_or(0) + 1;
    1 << exponent.saturating_sub(digits(dtype)).min(62)
}

/// The ends of a range moved inwards where the dtype would round them out of it.
fn inwards(from: i64, to: i64, dtype: DType) -> (i64, i64) {
    if !dtype.is_floating() {
        return (from, to);
    }
    let (first, last) = (from.wrapping_add(1), to.wrapping_sub(1));
    let (next, previous) = (rounded(first, dtype), rounded(last, dtype));
    (
        if next < from { next.saturating_add(gap(first, dtype)) } else { from },
        if previous >= to { previous.saturating_sub(gap(last, dtype)) } else { to },
    )
}

/// What `random_` with bounds draws.
pub(crate) fn range(from: i64, to: Option<i64>, dtype: DType) -> Result<Integers> {
    match to {
        Some(to) => {
            check_below(from, to)?;
            let (first, end) = inwards(from, to, dtype);
            check_below(first, end)?;
            check_bound("from", first, dtype)?;
            check_bound("to - 1", end - 1, dtype)?;
            Ok(Integers::range(first, end.wrapping_sub(first) as u64))
        }
        // all 64 bits as they are
        None if from == i64::MIN => Ok(Integers::range(0, 0)),
        None => {
            let last = last_of(dtype);
            let (first, _) = inwards(from, i64::MAX, dtype);
            ensure!(
                first <= last,
                "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, \
                     but got from={first} > to_inc={last}"
            );
            check_bound("from", first, dtype)?;
            let count = (last.wrapping_sub(first) as u64).wrapping_add(1);
            Ok(Integers::range(first, count))
        }
    }
}

/// What `random_` without bounds draws: all integers that are not negative and exact in the dtype,
/// of 64 bits where 32 are too few.
pub(crate) fn all(dtype: DType) -> Integers {
    Integers {
        base: 0,
        count: last_of(dtype) as u64 + 1,
        wide: matches!(dtype, DType::I64 | DType::F64),
    }
}

fn fill_integers(t: &Tensor, range: Integers, generator: Option<&Generator>) -> Result<Tensor> {
    ensure_not_implemented!(
        !t.dtype().is_complex(),
        "\"random_from_to_in_range\" not implemented for {}",
        t.dtype().torch_name()
    );
    fill_random(t, generator, |out, stream| {
        random::integers(out, stream, range);
        Ok(())
    })
}

pub(crate) fn random_(t: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    fill_integers(t, all(t.dtype()), generator)
}

pub(crate) fn random_from_(
    t: &Tensor,
    from: i64,
    to: Option<i64>,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    fill_integers(t, range(from, to, t.dtype())?, generator)
}

pub(crate) fn random_to_(t: &Tensor, to: i64, generator: Option<&Generator>) -> Result<Tensor> {
    fill_integers(t, range(0, Some(to), t.dtype())?, generator)
}

pub(crate) fn randperm_generator(
    n: i64,
    generator: Option<&Generator>,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or(DType::I64);
    crate::ops::common::check_sizes(&[n])?;
    ensure_not_implemented!(dtype != DType::Bool, "\"randperm\" not implemented for 'Bool'");
    if !dtype.is_floating() && n > 0 && (n - 1) as f64 > bounds(dtype).1 {
        return Err(Error::runtime(format!(
            "value cannot be converted to type {} without overflow",
            dtype.torch_name()
        )));
    }
    let precise = match dtype {
        DType::F16 => Some((11, "Half")),
        DType::F32 => Some((24, "Float")),
        DType::F64 => Some((53, "Double")),
        _ => None,
    };
    if let Some((bits, name)) = precise.filter(|(bits, _)| n > (1 << bits) + 1) {
        return Err(Error::runtime(format!("n cannot be greater than 2^{bits}+1 for {name} type")));
    }
    let t = Tensor::allocate_contiguous(dtype, computed_on(device), &[n])?;
    if t.storage().has_data() {
        let mut stream = generator.unwrap_or(Generator::default_cpu()).lock();
        let drawn = permutation(n as usize, &mut stream)
            .map_err(|e| Error::runtime(format!("no memory for a permutation of {n}: {e}")))?;
        drop(stream);
        crate::ops::copy::copy_(&t, &Tensor::from_vec(drawn, -1)?, false)?;
    }
    on_device(t, device)
}

pub(crate) fn randperm(
    n: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    randperm_generator(n, None, dtype, layout, device, pin_memory)
}
