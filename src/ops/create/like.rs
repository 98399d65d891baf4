//! Factories that take their shape, or their dtype and device, from somewhere: `linspace`,
//! `new_empty`, `empty_permuted`.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::{check_room, check_sizes};
use crate::ops::copy;
use crate::ops::create::factory::{computed_on, on_device};
use crate::ops::pointwise;
use crate::tensor::Tensor;
use num_complex::Complex;
use straightline_catalog::{DType, Device, Dims, Layout, Scalar, default_dtype};

pub(crate) fn empty_permuted(
    size: &[i64],
    order: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(
        size.len() == order.len(),
        "Number of dimensions in size does not match the length of the physical_layout; i.e. \
             len(size) = {} is not equal to len(physical_layout) = {}",
        size.len(),
        order.len()
    );
    check_sizes(size)?;
    let mut strides = Dims::from_elem(-1, size.len());
    let mut next = 1;
    for (i, &d) in order.iter().enumerate().rev() {
        ensure!(
            d >= 0 && (d as usize) < size.len(),
            "Dimension out of range (expected to be between 0 and {}, but got {d} at index {i})",
            size.len() as i64 - 1
        );
        ensure!(strides[d as usize] < 0, "Duplicate dim not allowed");
        strides[d as usize] = next;
        next *= size[d as usize].max(1);
    }
    aten::empty_strided(size, &strides, dtype, layout, device, pin_memory)
}

pub(crate) fn eye_m(
    n: i64,
    m: i64,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    for (name, size) in [("n", n), ("m", m)] {
        ensure!(size >= 0, "{name} must be greater or equal to 0, got {size}");
    }
    check_sizes(&[n, m])?;
    let dtype = dtype.unwrap_or_else(default_dtype);
    let t = Tensor::allocate_contiguous(dtype, computed_on(device), &[n, m])?;
    copy::zero_(&t)?;
    copy::fill_(&crate::ops::view::diagonal(&t, 0, 0, 1)?, Scalar::Int(1))?;
    on_device(t, device)
}

// ---- like another tensor ----------------------------------------------------------------------

/// The options of the tensor where none are given.
fn options(
    t: &Tensor,
    dtype: Option<DType>,
    device: Option<Device>,
) -> (Option<DType>, Option<Device>) {
    (Some(dtype.unwrap_or(t.dtype())), Some(device.unwrap_or(t.device())))
}

pub(crate) fn new_empty(
    t: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (dtype, device) = options(t, dtype, device);
    aten::empty_memory_format(size, dtype, layout, device, pin_memory, None)
}

pub(crate) fn new_empty_strided(
    t: &Tensor,
    size: &[i64],
    stride: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (dtype, device) = options(t, dtype, device);
    aten::empty_strided(size, stride, dtype, layout, device, pin_memory)
}

pub(crate) fn new_full(
    t: &Tensor,
    size: &[i64],
    value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (dtype, device) = options(t, dtype, device);
    aten::full(size, value, dtype, layout, device, pin_memory)
}

pub(crate) fn new_zeros(
    t: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (dtype, device) = options(t, dtype, device);
    aten::zeros(size, dtype, layout, device, pin_memory)
}

pub(crate) fn new_ones(
    t: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (dtype, device) = options(t, dtype, device);
    aten::ones(size, dtype, layout, device, pin_memory)
}

// ---- evenly spaced numbers --------------------------------------------------------------------

/// Rounds to what a dtype holds between the operations: PyTorch computes steps in the result's own
/// type.
fn rounded(x: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => half::f16::from_f32(x as f32).to_f64(),
        DType::BF16 => half::bf16::from_f32(x as f32).to_f64(),
        DType::F32 => f64::from(x as f32),
        _ => x,
    }
}

/// `start + i * step` from the front, `end - i * step` from the back, so that both ends are met.
fn spaced(start: Scalar, end: Scalar, steps: i64, dtype: DType) -> impl Iterator<Item = f64> {
    let integral = !dtype.is_floating();
    let end_of = move |s: Scalar| {
        if dtype == DType::U8 {
            // as in PyTorch, a negative end is the number with these bits
            f64::from(s.as_i64() as u8)
        } else if integral {
            s.as_i64() as f64
        } else {
            rounded(s.as_f64(), dtype)
        }
    };
    let (start, end) = (end_of(start), end_of(end));
    let round = move |x| rounded(x, dtype);
    let step = round(round(end - start) / (steps - 1).max(1) as f64);
    (0..steps).map(move |i| {
        if steps == 1 {
            start
        } else if i < steps / 2 {
            round(start + round(step * round(i as f64)))
        } else {
            round(end - round(step * round((steps - 1 - i) as f64)))
        }
    })
}

fn check_steps(steps: i64, dtype: DType, op: &str) -> Result<()> {
    ensure!(steps >= 0, "number of steps must be non-negative");
    // one number is filled in, and none is none
    ensure_not_implemented!(
        dtype != DType::Bool || steps <= 1,
        "\"{op}_cpu\" not implemented for 'Bool'"
    );
    Ok(())
}

/// The numbers of `linspace`, or of `logspace` with a base, in the widest dtype of their kind.
fn series(
    [start, end]: [Scalar; 2],
    steps: i64,
    base: Option<f64>,
    dtype: DType,
) -> Result<Tensor> {
    if dtype.is_complex() {
        // the parts are spaced each by itself: the steps are real
        let part = |of: fn((f64, f64)) -> f64| {
            let [start, end] = [start, end].map(|s| Scalar::Float(of(s.as_complex())));
            spaced(start, end, steps, dtype.to_real())
        };
        let parts = part(|z| z.0).zip(part(|z| z.1));
        let exponents = parts.map(|(re, im)| Complex::new(re, im)).collect::<Vec<Complex<f64>>>();
        let exponents = Tensor::from_vec(exponents, -1)?;
        return match base {
            Some(base) => pointwise::pow_base(Scalar::Float(base), &exponents),
            None => Ok(exponents),
        };
    }
    let numbers = spaced(start, end, steps, dtype);
    let numbers: Vec<f64> = match base {
        Some(base) => numbers.map(|e| base.powf(e)).collect(),
        None => numbers.collect(),
    };
    if dtype.is_floating() {
        return Tensor::from_vec(numbers, -1);
    }
    let whole = |x: &f64| match dtype {
        DType::Bool => i64::from(*x != 0.0),
        _ => *x as i64,
    };
    Tensor::from_vec(numbers.iter().map(whole).collect::<Vec<i64>>(), -1)
}

/// A tensor of these numbers, cut to integers where the dtype is one.
fn filled(
    numbers: impl Fn() -> Result<Tensor>,
    steps: i64,
    dtype: DType,
    device: Option<Device>,
) -> Result<Tensor> {
    check_sizes(&[steps])?;
    let t = Tensor::allocate_contiguous(dtype, computed_on(device), &[steps])?;
    if t.storage().has_data() {
        check_room(DType::F64, t.device(), &[steps.saturating_mul(2)])?;
        copy::copy_(&t, &numbers()?, false)?;
    }
    on_device(t, device)
}

pub(crate) fn linspace(
    start: Scalar,
    end: Scalar,
    steps: i64,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    let ends = [start, end].map(End::Number);
    let dtype = range_dtype(ends, dtype, "linspace")?;
    check_steps(steps, dtype, "linspace")?;
    for end in [start, end] {
        crate::ops::common::check_fits(end, dtype)?;
    }
    between(ends, steps, None, Some(dtype), device)
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn logspace(
    start: Scalar,
    end: Scalar,
    steps: i64,
    base: f64,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    between([start, end].map(End::Number), steps, Some(base), dtype, device)
}

/// An end of the range as a tensor. Only a kernel that computes reads it.
fn check_end(t: &Tensor, op: &str, which: &str) -> Result<()> {
    if t.dim() == 0 {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{op} only supports 0-dimensional start and end tensors, but got {which} with {} dimension(s).",
        t.dim()
    )))
}

/// An end of the range: a number, or a tensor of no dimensions.
#[derive(Clone, Copy)]
enum End<'a> {
    Number(Scalar),
    Tensor(&'a Tensor),
}

impl End<'_> {
    fn check(self, op: &str, which: &str) -> Result<()> {
        match self {
            End::Number(_) => Ok(()),
            End::Tensor(t) => check_end(t, op, which),
        }
    }

    fn is_complex(self) -> bool {
        match self {
            End::Number(s) => matches!(s, Scalar::Complex(..)),
            End::Tensor(t) => t.dtype().is_complex(),
        }
    }

    fn read(self) -> Result<Scalar> {
        match self {
            End::Number(s) => Ok(s),
            End::Tensor(t) => t.read_item(),
        }
    }
}

/// The dtype of a range: complex numbers want one that has them.
fn range_dtype(ends: [End<'_>; 2], dtype: Option<DType>, op: &str) -> Result<DType> {
    if !ends.iter().any(|end| end.is_complex()) {
        return Ok(dtype.unwrap_or_else(default_dtype));
    }
    let inferred = default_dtype().to_complex();
    let dtype = dtype.unwrap_or(inferred);
    ensure!(
        dtype.is_complex(),
        "{op}(): inferred dtype {} can't be safely cast to passed dtype {}",
        inferred.torch_name(),
        dtype.torch_name()
    );
    Ok(dtype)
}

fn between(
    [start, end]: [End<'_>; 2],
    steps: i64,
    base: Option<f64>,
    dtype: Option<DType>,
    device: Option<Device>,
) -> Result<Tensor> {
    let op = if base.is_some() { "logspace" } else { "linspace" };
    start.check(op, "start")?;
    end.check(op, "end")?;
    let dtype = range_dtype([start, end], dtype, op)?;
    check_steps(steps, dtype, op)?;
    let numbers = || series([start.read()?, end.read()?], steps, base, dtype);
    filled(numbers, steps, dtype, device)
}

macro_rules! tensor_forms {
    ($($linspace:ident $logspace:ident $a:ty, $b:ty, $x:path, $y:path);* $(;)?) => {$(
        pub(crate) fn $linspace(
            start: $a,
            end: $b,
            steps: i64,
            dtype: Option<DType>,
            _layout: Option<Layout>,
            device: Option<Device>,
            _pin_memory: Option<bool>,
        ) -> Result<Tensor> {
            between([$x(start), $y(end)], steps, None, dtype, device)
        }

        #[allow(clippy::too_many_arguments, reason = "the schema's")]
        pub(crate) fn $logspace(
            start: $a,
            end: $b,
            steps: i64,
            base: f64,
            dtype: Option<DType>,
            _layout: Option<Layout>,
            device: Option<Device>,
            _pin_memory: Option<bool>,
        ) -> Result<Tensor> {
            between([$x(start), $y(end)], steps, Some(base), dtype, device)
        }
    )*};
}
tensor_forms!(
    linspace_tensor_tensor logspace_tensor_tensor &Tensor, &Tensor, End::Tensor, End::Tensor;
    linspace_tensor_scalar logspace_tensor_scalar &Tensor, Scalar, End::Tensor, End::Number;
    linspace_scalar_tensor logspace_scalar_tensor Scalar, &Tensor, End::Number, End::Tensor;
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_met() {
        let t = linspace(Scalar::Int(0), Scalar::Int(1), 7, None, None, None, None).unwrap();
        let x = t.to_vec::<f32>().unwrap();
        assert_eq!((x[0], x[3], x[6]), (0.0, 0.5, 1.0));
        let i64s = Some(DType::I64);
        let t = linspace(Scalar::Float(0.5), Scalar::Int(3), 7, i64s, None, None, None).unwrap();
        assert_eq!(t.to_vec::<i64>().unwrap(), [0, 0, 1, 1, 2, 2, 3]);
        let refused = linspace(Scalar::Int(0), Scalar::Int(1), -1, None, None, None, None);
        assert!(refused.is_err());
    }
}
