//! Maximum pooling with windows whose places are drawn at random.

use super::check;
use super::layout::{
    Format, check_floating, check_grad, check_indices, check_input, check_same_dtype, with_indices,
    with_spatial,
};
use super::max_pool::scatter;
use crate::error::Result;
use crate::tensor::Tensor;
use straightline_runtime::cpu::kernels::spatial;

fn check(what: &str, x: &Tensor, kernel: &[i64], output: &[i64], spatial: usize) -> Result<()> {
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
    let sizes = &x.sizes()[x.dim() - spatial..];
    for d in 0..spatial {
        check!(
            output[d].saturating_add(kernel[d]) - 1 <= sizes[d],
            "{what}: pool size {} too large relative to input size {}",
            kernel[d],
            sizes[d]
        );
    }
    Ok(())
}

fn forward(
    what: &str,
    x: &Tensor,
    kernel: &[i64],
    output: &[i64],
    samples: &Tensor,
    spatial: usize,
) -> Result<(Tensor, Tensor)> {
    check(what, x, kernel, output, spatial)?;
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
    let format = Format::Contiguous;
    with_indices(x, &sizes, format, [x, samples], |outs, [x, samples]| {
        Ok(spatial::fractional_max_pool(outs, x, samples, kernel)?)
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
