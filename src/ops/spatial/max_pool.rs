//! Maximum pooling with positions, its gradients, and unpooling.

use super::check;
use super::layout::{
    Format, check_dtype, check_floating, check_grad, check_indices, check_input, check_same_dtype,
    result, unfilled, volume, with_indices, with_spatial,
};
use super::window::{Windows, adaptive_axes, adaptive_outputs};
use crate::dispatch::OperatorHandle;
use crate::dispatch::unread::is_read;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::DType;
use straightline_runtime::cpu::kernels::spatial::{self, AxisWindows};
use straightline_runtime::cpu::kernels::{In, Out};

fn forward(
    op: OperatorHandle,
    x: &Tensor,
    spatial: usize,
    out: [i64; 3],
    format: Format,
    axes: impl FnOnce() -> [AxisWindows; 3],
) -> Result<(Tensor, Tensor)> {
    let sizes = with_spatial(x, &out[3 - spatial..]);
    if !is_read(op, 1) {
        let kernel =
            |out: Out<'_>, [x]: [In<'_>; 1]| Ok(spatial::max_pool_values(out, x, &axes())?);
        let out = result(x, &sizes, format, [x], kernel)?;
        return Ok((out, unfilled(x, DType::I64, &sizes, format)?));
    }
    with_indices(x, &sizes, format, [x], |outs, [x]| Ok(spatial::max_pool(outs, x, &axes())?))
}

/// Adds (or writes) values at their indices in each plane of a result of these sizes.
pub(super) fn scatter(
    add: bool,
    values: &Tensor,
    indices: &Tensor,
    sizes: &[i64],
    spatial: usize,
    format: Format,
) -> Result<Tensor> {
    let operands = [values, indices];
    result(values, sizes, format, operands, |out, [values, at]| {
        let unaligned = |_| Error::runtime("the indices' memory is not aligned");
        let at = at.slice().map_err(unaligned)?;
        Ok(spatial::scatter_planes(add, out, values, at, spatial)?)
    })
}

fn check_format(x: &Tensor, spatial: usize) -> Result<Format> {
    let format = Format::of(x);
    check!(
        spatial == 2 || x.dim() == 5 || format == Format::Contiguous,
        "Unsupported memory format. Supports only ChannelsLast3d, Contiguous"
    );
    Ok(if x.dim() == spatial + 2 { format } else { Format::Contiguous })
}

macro_rules! max_pools {
    ($($pool:ident $op:ident $pool_backward:ident $spatial:literal;)*) => {
        $(
            pub(crate) fn $pool(
                x: &Tensor,
                kernel: &[i64],
                stride: &[i64],
                padding: &[i64],
                dilation: &[i64],
                ceil_mode: bool,
            ) -> Result<(Tensor, Tensor)> {
                let what = stringify!($pool);
                let windows =
                    Windows::new(what, $spatial, kernel, stride, padding, dilation, ceil_mode)?;
                check_input(what, x, $spatial)?;
                let real = matches!(
                    x.dtype(),
                    DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8
                );
                check_dtype(what, x, real || x.dtype().is_floating())?;
                let format = check_format(x, $spatial)?;
                let input = volume(x, $spatial);
                let out = windows.outputs(what, input)?;
                let op = aten::$op.get()?.handle();
                forward(op, x, $spatial, out, format, || windows.axes(input, out))
            }

            #[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
            pub(crate) fn $pool_backward(
                grad: &Tensor,
                x: &Tensor,
                kernel: &[i64],
                stride: &[i64],
                padding: &[i64],
                dilation: &[i64],
                ceil_mode: bool,
                indices: &Tensor,
            ) -> Result<Tensor> {
                let what = stringify!($pool_backward);
                let windows =
                    Windows::new(what, $spatial, kernel, stride, padding, dilation, ceil_mode)?;
                check_input(what, x, $spatial)?;
                check_floating(what, x)?;
                check_same_dtype(what, grad, x)?;
                let format = check_format(x, $spatial)?;
                let out = windows.outputs(what, volume(x, $spatial))?;
                let sizes = with_spatial(x, &out[3 - $spatial..]);
                check_grad(what, grad, &sizes)?;
                check_indices(what, indices, &sizes)?;
                scatter(true, grad, indices, x.sizes(), $spatial, format)
            }
        )*
    };
}

max_pools!(
    max_pool2d_with_indices OP_MAX_POOL2D_WITH_INDICES max_pool2d_with_indices_backward 2;
    max_pool3d_with_indices OP_MAX_POOL3D_WITH_INDICES max_pool3d_with_indices_backward 3;
);

macro_rules! adaptive_max_pools {
    ($($pool:ident $op:ident $pool_backward:ident $spatial:literal;)*) => {
        $(
            pub(crate) fn $pool(x: &Tensor, output: &[i64]) -> Result<(Tensor, Tensor)> {
                let what = stringify!($pool);
                check_input(what, x, $spatial)?;
                let out = adaptive_outputs(what, output, $spatial)?;
                check_floating(what, x)?;
                let input = volume(x, $spatial);
                let format = if $spatial == 2 { Format::of_rank(x, 4) } else { Format::Contiguous };
                let op = aten::$op.get()?.handle();
                forward(op, x, $spatial, out, format, || adaptive_axes(input, out))
            }

            pub(crate) fn $pool_backward(
                grad: &Tensor,
                x: &Tensor,
                indices: &Tensor,
            ) -> Result<Tensor> {
                let what = stringify!($pool_backward);
                check_input(what, x, $spatial)?;
                check_same_dtype(what, grad, x)?;
                check_floating(what, x)?;
                check!(
                    grad.dim() == x.dim() && grad.sizes().iter().skip(1).all(|s| *s > 0),
                    "{what}: Expected grad_output of {} dimensions, non-zero but for the batch, but got {:?}",
                    x.dim(),
                    grad.sizes()
                );
                let lead = x.dim() - $spatial;
                check_grad(what, grad, &with_spatial(x, &grad.sizes()[lead..]))?;
                check_indices(what, indices, grad.sizes())?;
                let format = if $spatial == 2 { Format::of_rank(x, 4) } else { Format::Contiguous };
                scatter(true, grad, indices, x.sizes(), $spatial, format)
            }
        )*
    };
}

adaptive_max_pools!(
    adaptive_max_pool2d OP_ADAPTIVE_MAX_POOL2D adaptive_max_pool2d_backward 2;
    adaptive_max_pool3d OP_ADAPTIVE_MAX_POOL3D adaptive_max_pool3d_backward 3;
);

fn unpool(
    what: &str,
    x: &Tensor,
    indices: &Tensor,
    output: &[i64],
    spatial: usize,
    format: Format,
) -> Result<Tensor> {
    check!(
        output.len() == spatial,
        "{what}: There should be exactly {spatial} elements in output_size, but got {output:?}"
    );
    check_input(what, x, spatial)?;
    check_indices(what, indices, x.sizes())?;
    check_floating(what, x)?;
    scatter(false, x, indices, &with_spatial(x, output), spatial, format)
}

pub(crate) fn max_unpool2d(x: &Tensor, indices: &Tensor, output: &[i64]) -> Result<Tensor> {
    unpool("max_unpool2d", x, indices, output, 2, Format::of_rank(x, 4))
}

pub(crate) fn max_unpool3d(
    x: &Tensor,
    indices: &Tensor,
    output: &[i64],
    stride: &[i64],
    padding: &[i64],
) -> Result<Tensor> {
    check!(
        stride.len() == 3 && padding.len() == 3 && stride.iter().all(|s| *s > 0),
        "max_unpool3d: There should be exactly 3 elements in stride and padding, strides greater than zero, but got stride: {stride:?} padding: {padding:?}"
    );
    unpool("max_unpool3d", x, indices, output, 3, Format::Contiguous)
}
