//! `grid_sampler*`, and grids of affine maps.

use super::check;
use super::layout::{Format, check_floating, check_same_dtype, result, row_major};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::{Tensor, launch};
use straightline_catalog::{DType, Dims, MemoryFormat, Scalar};
use straightline_runtime::cpu::kernels::spatial::{
    GridMode, GridOptions, GridPadding, grid_sample, grid_sample_backward,
};

fn check_common(x: &Tensor, grid: &Tensor) -> Result<()> {
    check!(
        x.dim() == grid.dim() && (x.dim() == 4 || x.dim() == 5),
        "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes {:?} and grid with sizes {:?}",
        x.sizes(),
        grid.sizes()
    );
    check!(
        x.sizes()[0] == grid.sizes()[0],
        "grid_sampler(): expected grid and input to have same batch size, but got input with sizes {:?} and grid with sizes {:?}",
        x.sizes(),
        grid.sizes()
    );
    check!(
        grid.sizes()[x.dim() - 1] == x.dim() as i64 - 2,
        "grid_sampler(): expected grid to have size {} in last dimension, but got grid with sizes {:?}",
        x.dim() - 2,
        grid.sizes()
    );
    check!(
        x.sizes()[2..].iter().all(|n| *n > 0),
        "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {:?}",
        x.sizes()
    );
    Ok(())
}

/// The call's options, and the sizes of what comes out, after all checks.
fn check(
    what: &str,
    x: &Tensor,
    grid: &Tensor,
    [mode, padding]: [i64; 2],
    align_corners: bool,
    spatial: usize,
) -> Result<(GridOptions, Dims)> {
    check_common(x, grid)?;
    check!(
        x.dim() == spatial + 2,
        "{what}(): expected {}D input and grid with same number of dimensions, but got input with sizes {:?}",
        spatial + 2,
        x.sizes()
    );
    check_floating(what, x)?;
    check_same_dtype(what, grid, x)?;
    let mode = match mode {
        0 => GridMode::Linear,
        1 => GridMode::Nearest,
        2 => GridMode::Cubic,
        _ => {
            return Err(Error::value(format!("{what}: unknown interpolation mode {mode}")));
        }
    };
    let padding = match padding {
        0 => GridPadding::Zeros,
        1 => GridPadding::Border,
        2 => GridPadding::Reflection,
        // PyTorch's kernel for volumes looks for the other two only, that for planes leaves its
        // result unwritten
        _ if spatial == 3 => GridPadding::Zeros,
        _ => {
            return Err(Error::value(format!("{what}: unknown padding mode {padding}")));
        }
    };
    let mut sizes = Dims::from_slice(&x.sizes()[..2]);
    sizes.extend_from_slice(&grid.sizes()[1..=spatial]);
    let options = GridOptions { mode, padding, align_corners };
    Ok((options, sizes))
}

fn sample(
    what: &str,
    x: &Tensor,
    grid: &Tensor,
    modes: [i64; 2],
    align_corners: bool,
    spatial: usize,
) -> Result<Tensor> {
    let (options, sizes) = check(what, x, grid, modes, align_corners, spatial)?;
    result(x, &sizes, Format::Contiguous, [x, grid], |out, ins| Ok(grid_sample(out, ins, options)?))
}

#[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
fn backward(
    what: &str,
    grad: &Tensor,
    x: &Tensor,
    grid: &Tensor,
    modes: [i64; 2],
    align_corners: bool,
    mask: &[bool],
    spatial: usize,
) -> Result<(Tensor, Tensor)> {
    let (options, sizes) = check(what, x, grid, modes, align_corners, spatial)?;
    check!(mask.len() == 2, "{what}: output_mask must have 2 elements, got {}", mask.len());
    if grad.sizes() != &sizes[..] {
        return Err(Error::value(format!(
            "grid_sampler(): expected grad_output to have sizes {:?} but got grad_output with sizes {:?}",
            &sizes[..],
            grad.sizes()
        )));
    }
    check_same_dtype(what, grad, x)?;
    let fresh = |t: &Tensor| Tensor::allocate_contiguous(t.dtype(), t.device(), t.sizes());
    let (mut by_input, mut by_grid) = (fresh(x)?, fresh(grid)?);
    let operands = row_major([grad, x, grid])?;
    launch::run([&mut by_input, &mut by_grid], operands.each_ref(), |outs, ins| {
        Ok(grid_sample_backward(outs, ins, options)?)
    })?;
    Ok((by_input, by_grid))
}

macro_rules! grid_samplers {
    ($($name:ident $back:ident $spatial:literal;)*) => {
        $(
            pub(crate) fn $name(
                x: &Tensor,
                grid: &Tensor,
                mode: i64,
                padding: i64,
                align_corners: bool,
            ) -> Result<Tensor> {
                sample(stringify!($name), x, grid, [mode, padding], align_corners, $spatial)
            }

            #[allow(clippy::too_many_arguments, reason = "the schema's arguments")]
            pub(crate) fn $back(
                grad: &Tensor,
                x: &Tensor,
                grid: &Tensor,
                mode: i64,
                padding: i64,
                align_corners: bool,
                mask: &[bool],
            ) -> Result<(Tensor, Tensor)> {
                let modes = [mode, padding];
                backward(stringify!($back), grad, x, grid, modes, align_corners, mask, $spatial)
            }
        )*
    };
}

grid_samplers!(
    grid_sampler_2d grid_sampler_2d_backward 2;
    grid_sampler_3d grid_sampler_3d_backward 3;
);

pub(crate) fn grid_sampler(
    x: &Tensor,
    grid: &Tensor,
    mode: i64,
    padding: i64,
    align_corners: bool,
) -> Result<Tensor> {
    check_common(x, grid)?;
    if x.dim() == 4 {
        aten::grid_sampler_2d(x, grid, mode, padding, align_corners)
    } else {
        aten::grid_sampler_3d(x, grid, mode, padding, align_corners)
    }
}

/// `n` numbers from -1 to 1, or as far from both as half of their distance.
fn coordinates(like: &Tensor, n: i64, align_corners: bool) -> Result<Tensor> {
    let wide = |t: &Tensor, dtype| aten::to_dtype(t, dtype, false, false, None);
    let (start, step) = if n > 1 { (-1.0, 2.0 / (n - 1) as f64) } else { (0.0, 0.0) };
    let device = Some(like.device());
    if like.dtype() == DType::U8 && n > 1 {
        // from 255, which -1 becomes, down to 1
        let (start, end) = (Scalar::Int(-1), Scalar::Int(1));
        let at = aten::linspace(start, end, n, Some(DType::U8), None, device, None)?;
        return scaled_coordinates(at, n, align_corners);
    }
    let at = aten::arange(Scalar::Int(n), Some(DType::F64), None, device, None)?;
    let at = aten::mul_scalar(&at, Scalar::Float(step))?;
    let at = aten::add_scalar(&at, Scalar::Float(start), Scalar::Int(1))?;
    scaled_coordinates(wide(&at, like.dtype())?, n, align_corners)
}

/// Coordinates of the corners, or of the middles of as many cells.
fn scaled_coordinates(at: Tensor, n: i64, align_corners: bool) -> Result<Tensor> {
    if align_corners || n <= 1 {
        return Ok(at);
    }
    let within = aten::mul_scalar(&at, Scalar::Int(n - 1))?;
    let within = aten::div_scalar(&within, Scalar::Int(n))?;
    aten::to_dtype(&within, at.dtype(), false, false, None)
}

/// The points of the grid before the map, with a 1 behind each: `[N, points, spatial + 1]`.
fn base_grid(like: &Tensor, size: &[i64], align_corners: bool) -> Result<Tensor> {
    let spatial = size.len() - 2;
    let mut sizes = vec![size[0]];
    sizes.extend_from_slice(&size[2..]);
    let mut parts = Vec::new();
    for axis in (0..spatial).rev() {
        let at = coordinates(like, size[2 + axis], align_corners)?;
        let mut shape = vec![1; spatial];
        shape[axis] = size[2 + axis];
        parts.push(aten::expand(&aten::view(&at, &shape)?, &sizes, false)?);
    }
    let dtype = Some(like.dtype());
    parts.push(aten::ones(&sizes, dtype, None, Some(like.device()), None)?);
    let points = size[2..].iter().product();
    aten::view(&aten::stack(&parts, -1)?, &[size[0], points, spatial as i64 + 1])
}

fn check_affine(what: &str, size: &[i64]) -> Result<usize> {
    check!(
        size.len() == 4 || size.len() == 5,
        "{what} needs 4d (spatial) or 5d (volumetric) inputs, got size {size:?}"
    );
    check!(
        size.iter().all(|n| *n >= 0),
        "{what}: expected non-zero, positive output size, got {size:?}"
    );
    crate::ops::common::check_sizes(size)?;
    Ok(size.len() - 2)
}

pub(crate) fn affine_grid_generator(
    theta: &Tensor,
    size: &[i64],
    align_corners: bool,
) -> Result<Tensor> {
    let spatial = check_affine("affine_grid_generator", size)? as i64;
    check!(
        theta.sizes() == [size[0], spatial, spatial + 1],
        "affine_grid_generator: expected theta of sizes [{}, {spatial}, {}], got {:?}",
        size[0],
        spatial + 1,
        theta.sizes()
    );
    let base = base_grid(theta, size, align_corners)?;
    let grid = aten::bmm(&base, &aten::transpose_int(theta, 1, 2)?)?;
    let mut sizes = vec![size[0]];
    sizes.extend_from_slice(&size[2..]);
    sizes.push(spatial);
    aten::view(&grid, &sizes)
}

pub(crate) fn affine_grid_generator_backward(
    grad: &Tensor,
    size: &[i64],
    align_corners: bool,
) -> Result<Tensor> {
    let what = "affine_grid_generator_backward";
    let spatial = check_affine(what, size)? as i64;
    let mut sizes = vec![size[0]];
    sizes.extend_from_slice(&size[2..]);
    sizes.push(spatial);
    super::layout::check_grad(what, grad, &sizes)?;
    let base = base_grid(grad, size, align_corners)?;
    let points = size[2..].iter().product();
    let grad = aten::contiguous(grad, MemoryFormat::Contiguous)?;
    let grad = aten::view(&grad, &[size[0], points, spatial])?;
    let theta = aten::bmm(&aten::transpose_int(&base, 1, 2)?, &grad)?;
    aten::transpose_int(&theta, 1, 2)
}
