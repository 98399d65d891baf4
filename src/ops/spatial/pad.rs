//! Pads that mirror or repeat, and their gradients: gathers along each axis.

use super::check;
use super::layout::{
    Format, check_dtype, check_grad, check_same_dtype, result, volume, with_spatial,
};
use crate::error::{Error, Result};
use crate::ops::pointwise::complex::by_parts;
use crate::tensor::Tensor;
use straightline_catalog::DType;
use straightline_passes::positions::Outside;
use straightline_runtime::cpu::kernels;
use straightline_runtime::cpu::kernels::spatial::{self, AxisMap};

/// The input position that each output position copies; negative pads cut off.
fn map(outside: Outside, input: usize, before: i64, after: i64) -> Option<AxisMap> {
    let n = input as i64;
    // the map is as long as the output, which may be more than there is memory
    let output = n.checked_add(before)?.checked_add(after)?;
    let mut positions = Vec::new();
    positions.try_reserve_exact(usize::try_from(output).ok()?).ok()?;
    for o in 0..output {
        let from = outside.inside(o.checked_sub(before)?, n);
        positions.push(usize::try_from(from).unwrap_or(usize::MAX));
    }
    AxisMap::new(input, positions)
}

struct Padding {
    maps: [AxisMap; 3],
    /// The output's spatial sizes.
    output: Vec<i64>,
    format: Format,
}

fn padding(
    what: &str,
    x: &Tensor,
    pad: &[i64],
    spatial: usize,
    outside: Outside,
) -> Result<Padding> {
    check!(
        pad.len() == 2 * spatial,
        "{what}: padding size is expected to be {}, but got: {}",
        2 * spatial,
        pad.len()
    );
    let rank = x.dim();
    let batched = rank == spatial + 2;
    check!(
        (batched || rank == spatial + 1)
            && x.sizes().iter().skip(usize::from(batched)).all(|s| *s > 0),
        "{what}: Expected {}D or {}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {:?}",
        spatial + 1,
        spatial + 2,
        x.sizes()
    );
    check_dtype(what, x, x.dtype() != DType::Bool)?;
    let sizes = volume(x, spatial);
    let mut output = Vec::with_capacity(spatial);
    let mut maps = [0, 1, 2].map(|d| AxisMap::identity(sizes[d]));
    for d in 3 - spatial..3 {
        // the last dimension's pads come first
        let at = 2 * (2 - d);
        let (before, after, n) = (pad[at], pad[at + 1], sizes[d] as i64);
        if outside == Outside::Mirror {
            check!(
                before < n && after < n,
                "{what}: Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) at dimension {} of input {:?}",
                rank + d - 3,
                x.sizes()
            );
        }
        let out = n.saturating_add(before).saturating_add(after);
        check!(
            out >= 1,
            "{what}: input {:?} is too small: the padded size at dimension {} would be {out}",
            x.sizes(),
            rank + d - 3
        );
        crate::ops::common::check_sizes(&[out])?;
        maps[d] = map(outside, sizes[d], before, after).ok_or_else(|| {
            Error::shape(format!(
                "{what}: padding ({before}, {after}) reaches outside of a dimension of size {n}"
            ))
        })?;
        output.push(out);
    }
    let format = if spatial == 1 { Format::Contiguous } else { Format::of(x) };
    Ok(Padding { maps, output, format })
}

fn forward(
    what: &str,
    x: &Tensor,
    pad: &[i64],
    spatial: usize,
    outside: Outside,
) -> Result<Tensor> {
    let p = padding(what, x, pad, spatial, outside)?;
    result(x, &with_spatial(x, &p.output), p.format, [x], |out, [x]| {
        Ok(spatial::gather_axes(out, x, &p.maps)?)
    })
}

fn backward(
    what: &str,
    grad: &Tensor,
    x: &Tensor,
    pad: &[i64],
    spatial: usize,
    outside: Outside,
) -> Result<Tensor> {
    if grad.dtype().is_complex() && grad.numel() > 0 {
        check_same_dtype(what, x, grad)?;
        let x_real = Tensor::allocate_contiguous(x.dtype().to_real(), x.device(), x.sizes())?;
        let whole = by_parts(grad, |grad| backward(what, grad, &x_real, pad, spatial, outside))?;
        let format = padding(what, x, pad, spatial, outside)?.format;
        return result(x, x.sizes(), format, [&whole], |out, [whole]| {
            Ok(kernels::copy(out, whole)?)
        });
    }
    // the gradient's dtype decides, and the input's has to be the same
    if grad.numel() > 0 {
        check_dtype(what, grad, grad.dtype().is_floating())?;
        check_same_dtype(what, x, grad)?;
    }
    let p = padding(what, x, pad, spatial, outside)?;
    check_grad(what, grad, &with_spatial(x, &p.output))?;
    result(x, x.sizes(), p.format, [grad], |out, [grad]| {
        Ok(spatial::scatter_axes(out, grad, &p.maps, false)?)
    })
}

macro_rules! pads {
    ($($pad:ident $pad_backward:ident $spatial:literal $outside:ident;)*) => {
        $(
            pub(crate) fn $pad(x: &Tensor, pad: &[i64]) -> Result<Tensor> {
                forward(stringify!($pad), x, pad, $spatial, Outside::$outside)
            }

            pub(crate) fn $pad_backward(grad: &Tensor, x: &Tensor, pad: &[i64]) -> Result<Tensor> {
                backward(stringify!($pad_backward), grad, x, pad, $spatial, Outside::$outside)
            }
        )*
    };
}

pads!(
    reflection_pad1d reflection_pad1d_backward 1 Mirror;
    reflection_pad2d reflection_pad2d_backward 2 Mirror;
    reflection_pad3d reflection_pad3d_backward 3 Mirror;
    replication_pad1d replication_pad1d_backward 1 Edge;
    replication_pad2d replication_pad2d_backward 2 Edge;
    replication_pad3d replication_pad3d_backward 3 Edge;
);
