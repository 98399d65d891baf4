//! Fourier transforms: `_fft_c2c`, `_fft_r2c`, `_fft_c2r`, and what is composed of them.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::ops::copy;
use crate::tensor::{Tensor, launch};
use smallvec::SmallVec;
use straightline_catalog::{DType, Dims, layout};
use straightline_runtime::cpu::kernels::fft::{Transform, fft as transform};

type Axes = SmallVec<[usize; 4]>;

/// Dimensions counted from the first, which may be there more than once.
fn wrapped(x: &Tensor, dims: &[i64]) -> Result<Axes> {
    dims.iter().map(|d| wrap_dim(*d, x.dim())).collect()
}

fn axes(x: &Tensor, dims: &[i64]) -> Result<Axes> {
    let mut out = Axes::new();
    for &d in dims {
        let d = wrap_dim(d, x.dim())?;
        ensure!(x.dim() != 0 && !out.contains(&d), "FFT dims must be unique");
        out.push(d);
    }
    Ok(out)
}

/// The factor of PyTorch's `fft_norm_mode`: none, by the root of the number of elements, by the
/// number.
fn factor(mode: i64, n: i64) -> f64 {
    match mode {
        0 => 1.0,
        1 => 1.0 / (n as f64).sqrt(),
        // whatever else it is, as in PyTorch
        _ => 1.0 / n as f64,
    }
}

/// A fresh result as PyTorch lays it out: what is not transformed outside, in the order of the
/// operand's strides, then the transformed dimensions in the order of the transform.
fn allocate(x: &Tensor, sizes: Dims, axes: &[usize], dtype: DType) -> Result<Tensor> {
    let mut order: SmallVec<[usize; 6]> = (0..x.dim()).filter(|d| !axes.contains(d)).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(x.strides()[d]));
    order.extend_from_slice(axes);
    let mut strides = Dims::from_elem(0, x.dim());
    let mut next = 1;
    for d in order.into_iter().rev() {
        strides[d] = next;
        next *= sizes[d].max(1);
    }
    Tensor::allocate(dtype, x.device(), sizes, strides)
}

/// The dimension that strides most first; the last `keep` stay last.
fn by_stride(x: &Tensor, axes: &Axes, keep: usize) -> Axes {
    let mut out = axes.clone();
    let n = out.len() - keep;
    out[..n].sort_by_key(|&d| std::cmp::Reverse(x.strides()[d]));
    out
}

fn run(what: Transform, out: &Tensor, x: &Tensor, dim: usize, scale: f64) -> Result<()> {
    if x.numel() == 0 {
        // sums of nothing; PyTorch leaves what lay in memory
        return copy::zero_(out).map(drop);
    }
    if !out.storage().has_data() {
        return Ok(());
    }
    if out.shares_storage_with(x) {
        return launch::run(launch::Written(out), (), |out, ()| {
            let before = out.as_input();
            Ok(transform(what, out, before, dim, scale)?)
        });
    }
    launch::run(launch::Written(out), &x.resolved()?, |out, x| {
        Ok(transform(what, out, x, dim, scale)?)
    })
}

fn spans(x: &Tensor, axes: &[usize]) -> i64 {
    axes.iter().map(|&d| x.sizes()[d]).product()
}

pub(crate) fn c2c(x: &Tensor, dims: &[i64], mode: i64, forward: bool) -> Result<Tensor> {
    ensure_dtype!(
        x.dtype().is_complex(),
        "_fft_c2c: expected a complex tensor, got {}",
        x.dtype().torch_name()
    );
    if x.numel() == 0 && !dims.is_empty() {
        wrapped(x, dims)?;
        return Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes());
    }
    let axes = axes(x, dims)?;
    if axes.is_empty() {
        return copy::clone(x, None);
    }
    let sorted = by_stride(x, &axes, 0);
    let out = allocate(x, Dims::from_slice(x.sizes()), &sorted, x.dtype())?;
    let what = if forward { Transform::Forward } else { Transform::Inverse };
    let mut scale = factor(mode, spans(x, &axes));
    for (i, &d) in axes.iter().enumerate() {
        run(what, &out, if i == 0 { x } else { &out }, d, scale)?;
        scale = 1.0;
    }
    Ok(out)
}

pub(crate) fn r2c(x: &Tensor, dims: &[i64], mode: i64, onesided: bool) -> Result<Tensor> {
    ensure_type!(
        matches!(x.dtype(), DType::F32 | DType::F64),
        "_fft_r2c: expected a float or double tensor, got {}",
        x.dtype().torch_name()
    );
    let axes = axes(x, dims)?;
    let Some((&last, others)) = axes.split_last() else {
        return Err(Error::runtime("_fft_r2c: no dimension to transform"));
    };
    let mut sizes = Dims::from_slice(x.sizes());
    if onesided {
        sizes[last] = sizes[last] / 2 + 1;
    }
    let out = allocate(x, sizes, &by_stride(x, &axes, 1), x.dtype().to_complex())?;
    let scale = factor(mode, spans(x, &axes));
    run(Transform::FromReal, &out, x, last, scale)?;
    for &d in others {
        run(Transform::Forward, &out, &out, d, 1.0)?;
    }
    Ok(out)
}

pub(crate) fn c2r(x: &Tensor, dims: &[i64], mode: i64, last_dim_size: i64) -> Result<Tensor> {
    ensure_dtype!(
        x.dtype().is_complex(),
        "_fft_c2r: expected a complex tensor, got {}",
        x.dtype().torch_name()
    );
    let all = wrapped(x, dims)?;
    let Some((&last, others)) = all.split_last() else {
        return Err(Error::runtime("_fft_c2r: no dimension to transform"));
    };
    ensure!(x.dim() != 0, "_fft_c2r: a number has no dimension to transform");
    let mut sizes = Dims::from_slice(x.sizes());
    sizes[last] = last_dim_size;
    // of nothing, nothing: a signal is not made of no frequencies
    if last_dim_size >= 0 && x.numel() == 0 && layout::numel(&sizes) == 0 {
        return Tensor::allocate_contiguous(x.dtype().to_real(), x.device(), &sizes);
    }
    ensure!(
        last_dim_size >= 1 && x.sizes()[last] == last_dim_size / 2 + 1,
        "_fft_c2r: a signal of {last_dim_size} elements has {} frequencies, not {}",
        last_dim_size / 2 + 1,
        x.sizes()[last]
    );
    let numel = others.iter().map(|&d| x.sizes()[d]).product::<i64>() * last_dim_size;
    let others: SmallVec<[i64; 4]> = others.iter().map(|d| *d as i64).collect();
    let x = &if others.is_empty() { x.clone() } else { c2c(x, &others, 0, false)? };
    let out = allocate(x, sizes, &[last], x.dtype().to_real())?;
    run(Transform::ToReal, &out, x, last, factor(mode, numel))?;
    Ok(out)
}

// ---- composites: everything below goes through the dispatcher ---------------------------------

fn mode(norm: Option<&str>, forward: bool) -> Result<i64> {
    match (norm.unwrap_or("backward"), forward) {
        ("ortho", _) => Ok(1),
        ("backward", true) | ("forward", false) => Ok(0),
        ("backward", false) | ("forward", true) => Ok(2),
        (other, _) => Err(Error::runtime(format!("Invalid normalization mode: \"{other}\""))),
    }
}

/// In a dtype that can be transformed.
fn promoted(x: &Tensor, complex: bool) -> Result<Tensor> {
    let d = x.dtype();
    ensure_dtype!(!d.is_half(), "Unsupported dtype {}", d.torch_name());
    let float = crate::ops::common::float_of(d);
    let dtype = if complex { float.to_complex() } else { float };
    aten::to_dtype(x, dtype, false, false, None)
}

/// The first `n` elements of a dimension, zeros where there are fewer.
fn resized(x: &Tensor, dim: i64, n: i64) -> Result<Tensor> {
    let at = wrap_dim(dim, x.dim())?;
    ensure_index!(x.dim() != 0, "Dimension specified as -1 but tensor has no dimensions");
    ensure!(n >= 1, "Invalid number of data points ({n}) specified");
    let have = x.sizes()[at];
    if n <= have {
        return if n == have {
            Ok(x.clone())
        } else {
            aten::slice_tensor(x, at as i64, Some(0), Some(n), 1)
        };
    }
    let mut sizes = Dims::from_slice(x.sizes());
    sizes[at] = n - have;
    let zeros = aten::zeros(&sizes, Some(x.dtype()), None, Some(x.device()), None)?;
    aten::cat(&[x.clone(), zeros], at as i64)
}

fn size_at(x: &Tensor, dim: i64) -> Result<i64> {
    let at = wrap_dim(dim, x.dim())?;
    Ok(x.sizes().get(at).copied().unwrap_or(1))
}

fn one(x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>, forward: bool) -> Result<Tensor> {
    let x = promoted(x, false)?;
    let n = n.map_or_else(|| size_at(&x, dim), Ok)?;
    let x = resized(&x, dim, n)?;
    if x.dtype().is_complex() {
        return aten::_fft_c2c(&x, &[dim], mode(norm, forward)?, forward);
    }
    let y = aten::_fft_r2c(&x, &[dim], mode(norm, forward)?, false)?;
    if forward { Ok(y) } else { aten::conj(&y) }
}

fn half(x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>, forward: bool) -> Result<Tensor> {
    ensure!(
        !x.dtype().is_complex(),
        "expects a real input tensor, but got {}",
        x.dtype().torch_name()
    );
    let x = promoted(x, false)?;
    let n = n.map_or_else(|| size_at(&x, dim), Ok)?;
    let y = aten::_fft_r2c(&resized(&x, dim, n)?, &[dim], mode(norm, forward)?, true)?;
    if forward { Ok(y) } else { aten::conj(&y) }
}

fn real(x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>, forward: bool) -> Result<Tensor> {
    let x = promoted(x, true)?;
    let n = n.map_or_else(|| size_at(&x, dim).map(|n| 2 * (n - 1)), Ok)?;
    ensure!(n >= 1, "Invalid number of data points ({n}) specified");
    let x = resized(&x, dim, n / 2 + 1)?;
    let x = if forward { aten::conj(&x)? } else { x };
    aten::_fft_c2r(&x, &[dim], mode(norm, forward)?, n)
}

type Along = (SmallVec<[i64; 4]>, Option<SmallVec<[i64; 4]>>);

/// Dimensions and sizes of a transform over several.
fn along(x: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>) -> Result<Along> {
    let dims: SmallVec<[i64; 4]> = match (dim, s) {
        (Some(dim), _) => dim.iter().copied().collect(),
        (None, Some(s)) if s.len() > x.dim() => {
            return Err(Error::runtime(format!(
                "Got shape with {} values but input tensor only has {} dimensions.",
                s.len(),
                x.dim()
            )));
        }
        (None, Some(s)) => ((x.dim() - s.len()) as i64..x.dim() as i64).collect(),
        (None, None) => (0..x.dim() as i64).collect(),
    };
    if let Some(s) = s
        && s.len() != dims.len()
    {
        return Err(Error::runtime(
            "When given, dim and shape arguments must have the same length",
        ));
    }
    let unique = axes(x, &dims)?;
    let sizes = s.map(|s| {
        s.iter().zip(&unique).map(|(&n, &d)| if n == -1 { x.sizes()[d] } else { n }).collect()
    });
    Ok((unique.iter().map(|d| *d as i64).collect(), sizes))
}

fn resized_all(x: &Tensor, (dims, sizes): &Along) -> Result<Tensor> {
    let mut x = x.clone();
    for (i, &d) in dims.iter().enumerate() {
        let n = match sizes {
            Some(s) => s[i],
            None => x.sizes()[d as usize],
        };
        x = resized(&x, d, n)?;
    }
    Ok(x)
}

fn several(
    x: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
    forward: bool,
) -> Result<Tensor> {
    let along = along(x, s, dim)?;
    let x = resized_all(&promoted(x, true)?, &along)?;
    aten::_fft_c2c(&x, &along.0, mode(norm, forward)?, forward)
}

pub(crate) fn rfftn(
    x: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
) -> Result<Tensor> {
    ensure!(!x.dtype().is_complex(), "rfftn expects a real-valued input tensor");
    let along = along(x, s, dim)?;
    ensure!(!along.0.is_empty(), "rfftn must transform at least one axis");
    let x = resized_all(&promoted(x, false)?, &along)?;
    aten::_fft_r2c(&x, &along.0, mode(norm, true)?, true)
}

/// Dimensions and sizes of half a Hermitian signal, and how many real numbers it gives along the last
/// of them.
fn half_along(
    name: &str,
    x: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
) -> Result<(Along, i64, i64)> {
    let (dims, mut sizes) = along(x, s, dim)?;
    let Some(&last) = dims.last() else {
        return Err(Error::runtime(format!("{name} must transform at least one axis")));
    };
    // -1 stands for the default here as well
    let given = s.and_then(|s| s.last().copied()).filter(|n| *n != -1);
    let n = given.unwrap_or(2 * (x.sizes()[last as usize] - 1));
    ensure!(n >= 1, "Invalid number of data points ({n}) specified");
    if let Some(end) = sizes.as_mut().and_then(|s| s.last_mut()) {
        *end = n / 2 + 1;
    }
    Ok(((dims, sizes), last, n))
}

pub(crate) fn irfftn(
    x: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
) -> Result<Tensor> {
    let (along, _, n) = half_along("irfftn", x, s, dim)?;
    let x = resized_all(&promoted(x, true)?, &along)?;
    aten::_fft_c2r(&x, &along.0, mode(norm, false)?, n)
}

/// Along the last dimension from half a Hermitian signal to a real spectrum, along the others as
/// [`fftn`].
pub(crate) fn hfftn(
    x: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
) -> Result<Tensor> {
    let (along, last, n) = half_along("hfftn", x, s, dim)?;
    let mode = mode(norm, true)?;
    let mut x = resized_all(&promoted(x, true)?, &along)?;
    let others = &along.0[..along.0.len() - 1];
    if !others.is_empty() {
        x = aten::_fft_c2c(&x, others, mode, true)?;
    }
    aten::_fft_c2r(&aten::conj(&x)?, &[last], mode, n)
}

/// The inverse of [`hfftn`].
pub(crate) fn ihfftn(
    x: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
) -> Result<Tensor> {
    ensure!(!x.dtype().is_complex(), "ihfftn expects a real-valued input tensor");
    let along = along(x, s, dim)?;
    let Some((&last, others)) = along.0.split_last() else {
        return Err(Error::runtime("ihfftn must transform at least one axis"));
    };
    let mode = mode(norm, false)?;
    let x = resized_all(&promoted(x, false)?, &along)?;
    let half = aten::conj(&aten::_fft_r2c(&x, &[last], mode, true)?)?;
    if others.is_empty() { Ok(half) } else { aten::_fft_c2c(&half, others, mode, false) }
}

macro_rules! transforms {
    ($($name:ident $of:ident $forward:expr),*) => {$(
        pub(crate) fn $name(x: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
            $of(x, n, dim, norm, $forward)
        }
    )*};
}
transforms!(fft one true, ifft one false, rfft half true, ihfft half false, irfft real false, hfft real true);

pub(crate) fn fftn(
    x: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
) -> Result<Tensor> {
    several(x, s, dim, norm, true)
}

pub(crate) fn ifftn(
    x: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
) -> Result<Tensor> {
    several(x, s, dim, norm, false)
}

macro_rules! planes {
    ($($name:ident $of:ident),*) => {$(
        pub(crate) fn $name(x: &Tensor, s: Option<&[i64]>, dim: &[i64], norm: Option<&str>) -> Result<Tensor> {
            $of(x, s, Some(dim), norm)
        }
    )*};
}
planes!(fft2 fftn, ifft2 ifftn, rfft2 rfftn, irfft2 irfftn, hfft2 hfftn, ihfft2 ihfftn);

fn shifted(x: &Tensor, dim: Option<&[i64]>, by: impl Fn(i64) -> i64) -> Result<Tensor> {
    let dims: SmallVec<[i64; 4]> = match dim {
        Some(dim) => dim.iter().copied().collect(),
        None => (0..x.dim() as i64).collect(),
    };
    if dims.is_empty() {
        return Ok(x.clone());
    }
    let shifts =
        dims.iter().map(|&d| size_at(x, d).map(&by)).collect::<Result<SmallVec<[i64; 4]>>>()?;
    aten::roll(x, &shifts, &dims)
}

pub(crate) fn fftshift(x: &Tensor, dim: Option<&[i64]>) -> Result<Tensor> {
    shifted(x, dim, |n| n / 2)
}

pub(crate) fn ifftshift(x: &Tensor, dim: Option<&[i64]>) -> Result<Tensor> {
    shifted(x, dim, |n| (n + 1) / 2)
}
