//! Maximum pooling with windows whose places are drawn at random.

use super::check;
use super::layout::{
    Format, check_floating, check_grad, check_indices, check_input, check_same_dtype, operand,
    planes, volume, with_spatial,
};
use super::max_pool::{scatter, with_indices};
use crate::error::Result;
use crate::tensor::{Tensor, access};
use straightline_catalog::DType;
use straightline_runtime::cpu::kernels::spatial::{self, AxisWindows};

/// Rounds to the precision of a dtype: the windows' places depend on it.
fn round(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F64 => x,
        DType::F16 => f64::from(half::f16::from_f32(x as f32).to_f32()),
        DType::BF16 => f64::from(half::bf16::from_f32(x as f32).to_f32()),
        _ => f64::from(x as f32),
    }
}

/// Where the windows of an axis begin.
fn starts(dtype: DType, sample: f64, input: usize, output: usize, kernel: usize) -> Vec<usize> {
    let r = |x| round(dtype, x);
    let free = input - kernel;
    let mut out = Vec::with_capacity(output);
    if output > 1 {
        let alpha = r(r(free as f64) / r((output - 1) as f64));
        let base = r(sample * alpha) as i64;
        for i in 0..output - 1 {
            let at = r(r(r(i as f64) + sample) * alpha) as i64 - base;
            out.push(at.clamp(0, free as i64) as usize);
        }
    }
    if output > 0 {
        out.push(free);
    }
    out
}

/// The kernel's sizes, after all checks.
fn check(
    what: &str,
    x: &Tensor,
    kernel: &[i64],
    output: &[i64],
    spatial: usize,
) -> Result<[usize; 3]> {
    check!(
        kernel.len() == spatial && output.len() == spatial,
        "{what}: kernel_size and output_size must be tuples of {spatial} ints, got {kernel:?} and {output:?}"
    );
    check!(
        kernel.iter().chain(output).all(|k| *k > 0),
        "{what}: kernel_size and output_size must be greater than zero, got {kernel:?} and {output:?}"
    );
    check_input(what, x, spatial)?;
    check_floating(what, x)?;
    let mut k = [1; 3];
    let sizes = &x.sizes()[x.dim() - spatial..];
    for d in 0..spatial {
        check!(
            output[d].saturating_add(kernel[d]) - 1 <= sizes[d],
            "{what}: pool size {} too large relative to input size {}",
            kernel[d],
            sizes[d]
        );
        k[3 - spatial + d] = kernel[d] as usize;
    }
    Ok(k)
}

fn forward(
    what: &str,
    x: &Tensor,
    kernel: &[i64],
    output: &[i64],
    samples: &Tensor,
    spatial: usize,
) -> Result<(Tensor, Tensor)> {
    let k = check(what, x, kernel, output, spatial)?;
    check_same_dtype(what, samples, x)?;
    let (batch, channels) = match x.dim() - spatial {
        2 => (x.sizes()[0], x.sizes()[1]),
        _ => (1, x.sizes()[0]),
    };
    let shape = samples.sizes();
    check!(
        shape.len() == 3 && shape[0] >= batch && shape[1] == channels && shape[2] == spatial as i64,
        "{what}: Expect _random_samples of sizes [{batch}, {channels}, {spatial}], got {shape:?}"
    );
    let sizes = with_spatial(x, output);
    with_indices(x, &sizes, Format::Contiguous, |out, indices| {
        let x = operand(x)?;
        let _reads = access::read(&[&x])?;
        let numbers = super::super::copy::to_dtype(samples, DType::F64)?.to_vec::<f64>()?;
        let ((count, y), (_, from)) = (planes(out, spatial)?, planes(&x, spatial)?);
        let (input, outputs, dtype) = (volume(&x, spatial), volume(out, spatial), x.dtype());
        let axes_of = |plane: usize| {
            [0, 1, 2].map(|d| {
                let Some(axis) = (d + spatial).checked_sub(3) else {
                    return AxisWindows::none();
                };
                // in two dimensions the first number is the last axis'
                let at = if spatial == 2 { 1 - axis } else { axis };
                let sample = numbers[plane * spatial + at];
                let starts = starts(dtype, sample, input[d], outputs[d], k[d]);
                AxisWindows::at(input[d], &starts, k[d])
            })
        };
        let at = indices.data_ptr()?.cast::<i64>();
        // SAFETY: out and indices are fresh, x is held shared; all are row-major planes of the
        // axes' sizes.
        unsafe { spatial::fractional_max_pool(count, y, at, from, &axes_of)? };
        Ok(())
    })
}

fn backward(
    what: &str,
    grad: &Tensor,
    x: &Tensor,
    output: &[i64],
    indices: &Tensor,
    spatial: usize,
) -> Result<Tensor> {
    check!(
        output.len() == spatial,
        "{what}: output_size must be a tuple of {spatial} ints, got {output:?}"
    );
    check_input(what, x, spatial)?;
    check_floating(what, x)?;
    check_same_dtype(what, grad, x)?;
    check_grad(what, grad, &with_spatial(x, output))?;
    check_indices(what, indices, grad.sizes())?;
    scatter(true, grad, indices, x.sizes(), spatial, Format::Contiguous)
}

macro_rules! fractional_pools {
    ($($pool:ident $pool_backward:ident $spatial:literal;)*) => {
        $(
            pub(crate) fn $pool(
                x: &Tensor,
                kernel: &[i64],
                output: &[i64],
                samples: &Tensor,
            ) -> Result<(Tensor, Tensor)> {
                forward(stringify!($pool), x, kernel, output, samples, $spatial)
            }

            pub(crate) fn $pool_backward(
                grad: &Tensor,
                x: &Tensor,
                _kernel: &[i64],
                output: &[i64],
                indices: &Tensor,
            ) -> Result<Tensor> {
                backward(stringify!($pool_backward), grad, x, output, indices, $spatial)
            }
        )*
    };
}

fractional_pools!(
    fractional_max_pool2d fractional_max_pool2d_backward 2;
    fractional_max_pool3d fractional_max_pool3d_backward 3;
);
