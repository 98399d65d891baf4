//! Average pooling, with windows at equal distances and adaptive ones, and its gradients.

use super::check;
use super::layout::{
    Format, check_dtype, check_grad, check_input, check_same_dtype, result, volume, with_spatial,
};
use super::window::{Windows, adaptive_axes, adaptive_outputs};
use crate::error::Result;
use crate::tensor::Tensor;
use straightline_catalog::DType;
use straightline_runtime::cpu::kernels::spatial::{self, AxisWindows, Divisor};

/// Three-dimensional pools know no half types and no channels-last results.
fn check(what: &str, x: &Tensor, spatial: usize) -> Result<Format> {
    let half = matches!(x.dtype(), DType::F16 | DType::BF16);
    let known = x.dtype().is_floating() || x.dtype() == DType::I64;
    check_dtype(what, x, known && !(half && spatial == 3))?;
    check_input(what, x, spatial)?;
    Ok(format(x, spatial))
}

fn format(x: &Tensor, spatial: usize) -> Format {
    if spatial == 3 { Format::Contiguous } else { Format::of_rank(x, spatial + 2) }
}

fn divisor(count_include_pad: bool, divisor_override: Option<i64>) -> Result<Divisor> {
    Ok(match divisor_override {
        Some(n) => {
            check!(n != 0, "divisor must be not zero");
            Divisor::Fixed(n)
        }
        None if count_include_pad => Divisor::Padded,
        None => Divisor::Inside,
    })
}

fn forward(
    x: &Tensor,
    spatial: usize,
    out: [i64; 3],
    format: Format,
    divisor: Divisor,
    axes: impl FnOnce() -> [AxisWindows; 3],
) -> Result<Tensor> {
    let sizes = with_spatial(x, &out[3 - spatial..]);
    result(x, &sizes, format, [x], |out, [x]| Ok(spatial::avg_pool(out, x, &axes(), divisor)?))
}

fn backward(
    x: &Tensor,
    grad: &Tensor,
    format: Format,
    divisor: Divisor,
    axes: impl FnOnce() -> [AxisWindows; 3],
) -> Result<Tensor> {
    result(x, x.sizes(), format, [grad], |out, [grad]| {
        Ok(spatial::avg_pool_backward(out, grad, &axes(), divisor)?)
    })
}

macro_rules! avg_pools {
    ($($pool:ident $pool_backward:ident $spatial:literal;)*) => {
        $(
            #[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
            pub(crate) fn $pool(
                x: &Tensor,
                kernel: &[i64],
                stride: &[i64],
                padding: &[i64],
                ceil_mode: bool,
                count_include_pad: bool,
                divisor_override: Option<i64>,
            ) -> Result<Tensor> {
                let what = stringify!($pool);
                let divisor = divisor(count_include_pad, divisor_override)?;
                let windows =
                    Windows::new(what, $spatial, kernel, stride, padding, &[1], ceil_mode)?;
                let format = check(what, x, $spatial)?;
                let input = volume(x, $spatial);
                let out = windows.outputs(what, input)?;
                forward(x, $spatial, out, format, divisor, || windows.axes(input, out))
            }

            #[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
            pub(crate) fn $pool_backward(
                grad: &Tensor,
                x: &Tensor,
                kernel: &[i64],
                stride: &[i64],
                padding: &[i64],
                ceil_mode: bool,
                count_include_pad: bool,
                divisor_override: Option<i64>,
            ) -> Result<Tensor> {
                let what = stringify!($pool_backward);
                let divisor = divisor(count_include_pad, divisor_override)?;
                let windows =
                    Windows::new(what, $spatial, kernel, stride, padding, &[1], ceil_mode)?;
                check_same_dtype(what, grad, x)?;
                let format = check(what, x, $spatial)?;
                let input = volume(x, $spatial);
                let out = windows.outputs(what, input)?;
                check_grad(what, grad, &with_spatial(x, &out[3 - $spatial..]))?;
                backward(x, grad, format, divisor, || windows.axes(input, out))
            }
        )*
    };
}

avg_pools!(
    avg_pool2d avg_pool2d_backward 2;
    avg_pool3d avg_pool3d_backward 3;
);

/// The channel may be empty in two dimensions, as may the batch.
fn check_adaptive(what: &str, x: &Tensor, spatial: usize) -> Result<()> {
    let rank = x.dim();
    check!(
        rank == spatial + 1 || rank == spatial + 2,
        "{what}: Expected {}D or {}D tensor, but got {:?}",
        spatial + 1,
        spatial + 2,
        x.sizes()
    );
    let first = if spatial == 2 { rank - 2 } else { 1 };
    check!(
        x.sizes()[first..].iter().all(|s| *s > 0),
        "{what}: Expected input to have non-zero size for non-batch dimensions, but input has sizes {:?}",
        x.sizes()
    );
    let empty = spatial == 2 && x.numel() == 0;
    check_dtype(what, x, x.dtype().is_floating() || empty)
}

macro_rules! adaptive_avg_pools {
    ($($pool:ident $pool_backward:ident $spatial:literal;)*) => {
        $(
            pub(crate) fn $pool(x: &Tensor, output: &[i64]) -> Result<Tensor> {
                let what = stringify!($pool);
                let out = adaptive_outputs(what, output, $spatial)?;
                check_adaptive(what, x, $spatial)?;
                let input = volume(x, $spatial);
                forward(x, $spatial, out, format(x, $spatial), Divisor::Inside, || {
                    adaptive_axes(input, out)
                })
            }

            pub(crate) fn $pool_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
                let what = stringify!($pool_backward);
                check_adaptive(what, x, $spatial)?;
                check_same_dtype(what, grad, x)?;
                check!(
                    grad.dim() == x.dim() && grad.sizes().iter().skip(1).all(|s| *s > 0),
                    "{what}: Expected grad_output of {} dimensions, non-zero but for the batch, but got {:?}",
                    x.dim(),
                    grad.sizes()
                );
                let out = volume(grad, $spatial).map(|n| n as i64);
                check_grad(what, grad, &with_spatial(x, &out[3 - $spatial..]))?;
                let input = volume(x, $spatial);
                backward(x, grad, format(x, $spatial), Divisor::Inside, || {
                    adaptive_axes(input, out)
                })
            }
        )*
    };
}

adaptive_avg_pools!(
    adaptive_avg_pool2d adaptive_avg_pool2d_backward 2;
    adaptive_avg_pool3d adaptive_avg_pool3d_backward 3;
);
