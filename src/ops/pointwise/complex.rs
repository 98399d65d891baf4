//! Complex tensors: their parts as real tensors and back, angles, signs, inner products.

use crate::dispatch::grad_enabled;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::common::{broadcast, check_devices, float_of, result_strides};
use crate::ops::copy;
use crate::ops::copy::laid_out_like;
use crate::ops::math_bits;
use crate::ops::matmul;
use crate::ops::pointwise;
use crate::tensor::Tensor;
use crate::tensor::history::Kind;
use crate::tensor::launch;
use straightline_catalog::prims::UnaryOp;
use straightline_catalog::{DType, Dims, Scalar};
use straightline_runtime::cpu::kernels::complex::{self, Function};

/// Another tensor over the same memory, with elements of another dtype; the bits stay.
fn reinterpret(t: &Tensor, dtype: DType, sizes: Dims, strides: Dims, offset: i64) -> Tensor {
    let kind = if dtype.is_complex() { Kind::Complex } else { Kind::Real };
    let other = Tensor::build_with(
        t.storage().clone(),
        dtype,
        t.device(),
        sizes,
        strides,
        offset,
        t.key_set(),
        None,
    );
    other.into_view_of(t, kind, grad_enabled())
}

pub(crate) fn view_as_real(t: &Tensor) -> Result<Tensor> {
    ensure!(t.dtype().is_complex(), "view_as_real is only supported for complex tensors");
    ensure!(
        !t.is_conj(),
        "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can view \
             it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the original."
    );
    let mut sizes = Dims::from_slice(t.sizes());
    let mut strides: Dims = t.strides().iter().map(|s| s * 2).collect();
    sizes.push(2);
    strides.push(1);
    let offset = t.storage_offset() * 2;
    Ok(reinterpret(t, t.dtype().to_real(), sizes, strides, offset))
}

pub(crate) fn view_as_complex(t: &Tensor) -> Result<Tensor> {
    ensure!(
        matches!(t.dtype(), DType::F32 | DType::F64),
        "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {}",
        t.dtype().torch_name()
    );
    let (Some((&two, sizes)), Some((&last, strides))) =
        (t.sizes().split_last(), t.strides().split_last())
    else {
        return Err(Error::runtime("Input tensor must have one or more dimensions"));
    };
    let wrong = if two != 2 {
        Some("Tensor must have a last dimension of size 2")
    } else if last != 1 {
        Some("Tensor must have a last dimension with stride 1")
    } else if strides.iter().any(|s| s % 2 != 0) {
        Some("Tensor must have a stride divisible by 2 for all but last dimension")
    } else if t.storage_offset() % 2 != 0 {
        Some("Tensor must have a storage_offset divisible by 2")
    } else {
        None
    };
    if let Some(wrong) = wrong {
        return Err(Error::runtime(wrong));
    }
    Ok(reinterpret(
        t,
        t.dtype().to_complex(),
        Dims::from_slice(sizes),
        strides.iter().map(|s| s / 2).collect(),
        t.storage_offset() / 2,
    ))
}

pub(crate) fn is_complex(t: &Tensor) -> Result<bool> {
    Ok(t.dtype().is_complex())
}

pub(crate) fn is_floating_point(t: &Tensor) -> Result<bool> {
    Ok(t.dtype().is_floating())
}

/// A part of a complex tensor that has no conjugate bit.
fn part(t: &Tensor, index: i64) -> Result<Tensor> {
    let parts = aten::view_as_real(t)?;
    aten::select_int(&parts, t.dim() as i64, index)
}

pub(crate) fn real(t: &Tensor) -> Result<Tensor> {
    if !t.dtype().is_complex() {
        return Ok(t.clone());
    }
    if t.is_conj() {
        return part(&aten::_conj(t)?, 0);
    }
    part(t, 0)
}

pub(crate) fn imag(t: &Tensor) -> Result<Tensor> {
    ensure_type!(
        t.dtype().is_complex(),
        "imag is not implemented for tensors with non-complex dtypes."
    );
    if t.is_conj() {
        return aten::_neg_view(&part(&aten::_conj(t)?, 1)?);
    }
    part(t, 1)
}

pub(crate) fn isreal(t: &Tensor) -> Result<Tensor> {
    if !t.dtype().is_complex() {
        return aten::ones_like(t, Some(DType::Bool), None, None, None, None);
    }
    aten::eq_scalar(&aten::imag(t)?, Scalar::Int(0))
}

pub(crate) fn isfinite(t: &Tensor) -> Result<Tensor> {
    if t.dtype().is_complex() {
        let (re, im) = (aten::isfinite(&aten::real(t)?)?, aten::isfinite(&aten::imag(t)?)?);
        return aten::logical_and(&re, &im);
    }
    if !t.dtype().is_floating() {
        return aten::ones_like(t, Some(DType::Bool), None, None, None, None);
    }
    let number = aten::eq_tensor(t, t)?;
    let bounded = aten::ne_scalar(&aten::abs(t)?, Scalar::Float(f64::INFINITY))?;
    aten::mul_tensor(&number, &bounded)
}

/// A function of each element, in a dtype of its own.
fn apply(f: Function, t: &Tensor, dtype: DType) -> Result<Tensor> {
    let strides = result_strides(t.sizes(), &[t]);
    let mut out = Tensor::allocate(dtype, t.device(), Dims::from_slice(t.sizes()), strides)?;
    launch::run(&mut out, t, |out, t| Ok(complex::apply(f, out, t)?))?;
    Ok(out)
}

pub(crate) fn angle(t: &Tensor) -> Result<Tensor> {
    if t.dtype().is_complex() {
        // PyTorch's result is row-major, whatever the operand's layout
        let t = copy::to_contiguous(t)?;
        return apply(Function::Angle, &t, t.dtype().to_real());
    }
    let dtype = float_of(t.dtype());
    let x = copy::to_dtype(t, dtype.opmath())?;
    copy::to_dtype(&apply(Function::Angle, &x, dtype.opmath())?, dtype)
}

pub(crate) fn sgn(t: &Tensor) -> Result<Tensor> {
    if t.dtype().is_complex() {
        return apply(Function::Sgn, t, t.dtype());
    }
    pointwise::elementary(UnaryOp::Sign, t)
}

pub(crate) fn sgn_(t: &Tensor) -> Result<Tensor> {
    copy::copy_(t, &sgn(t)?, false)
}

/// The conjugate in fresh memory, of a tensor without bits.
pub(crate) fn conjugated(t: &Tensor) -> Result<Tensor> {
    laid_out_like(apply(Function::Conj, t, t.dtype())?, t)
}

/// Conjugates memory in place.
pub(crate) fn conjugate_(t: &Tensor) -> Result<()> {
    if !t.dtype().is_complex() {
        return Ok(());
    }
    launch::run(launch::Written(t), (), |t, ()| {
        let before = t.as_input();
        Ok(complex::apply(Function::Conj, t, before)?)
    })
}

fn check_parts(name: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    let known = |t: &Tensor| matches!(t.dtype(), DType::F32 | DType::F64);
    ensure!(
        known(a) && known(b),
        "Expected both inputs to be Half, Float or Double tensors but got {} and {}; there is no complex dtype of \
             halves here ({name})",
        a.dtype().torch_name(),
        b.dtype().torch_name()
    );
    ensure!(
        a.dtype() == b.dtype(),
        "Expected object of scalar type {} but got scalar type {} for second argument",
        a.dtype().torch_name(),
        b.dtype().torch_name()
    );
    check_devices(&[a, b])
}

fn of_parts(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let sizes = broadcast(&[a, b])?;
    let strides = result_strides(&sizes, &[a, b]);
    Tensor::allocate(a.dtype().to_complex(), a.device(), sizes, strides)
}

pub(crate) fn complex(re: &Tensor, im: &Tensor) -> Result<Tensor> {
    check_parts("complex", re, im)?;
    let out = of_parts(re, im)?;
    if out.storage().has_data() {
        let parts = view_as_real(&out)?;
        for (i, from) in [re, im].into_iter().enumerate() {
            let sizes = Dims::from_slice(out.sizes());
            let strides: Dims = parts.strides()[..out.dim()].into();
            let to = reinterpret(&parts, parts.dtype(), sizes, strides, i as i64);
            copy::copy_(&to, from, false)?;
        }
    }
    Ok(out)
}

/// A linear function of real numbers, of each part of complex ones.
pub(crate) fn by_parts(x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let both = view_as_real(&x.resolved()?)?;
    let part = |i: i64| {
        let strides: Dims = both.strides()[..x.dim()].into();
        let offset = both.storage_offset() + i;
        f(&reinterpret(&both, both.dtype(), Dims::from_slice(x.sizes()), strides, offset))
    };
    complex(&part(0)?, &part(1)?)
}

pub(crate) fn polar(abs: &Tensor, angle: &Tensor) -> Result<Tensor> {
    check_parts("polar", abs, angle)?;
    let mut out = of_parts(abs, angle)?;
    launch::elementwise(&mut out, [abs, angle], |out, [abs, angle]| {
        Ok(complex::polar(out, abs, angle)?)
    })?;
    Ok(out)
}

fn check_dot(a: &Tensor, b: &Tensor) -> Result<()> {
    ensure!(
        a.dim() == 1 && b.dim() == 1,
        "1D tensors expected, but got {}D and {}D tensors",
        a.dim(),
        b.dim()
    );
    ensure!(
        a.dtype() == b.dtype(),
        "dot : expected both vectors to have same dtype, but found {} and {}",
        a.dtype().torch_name(),
        b.dtype().torch_name()
    );
    ensure!(
        a.numel() == b.numel(),
        "inconsistent tensor size, expected tensor [{}] and src [{}] to have the same number of elements, but got {} \
             and {} elements respectively",
        a.numel(),
        b.numel(),
        a.numel(),
        b.numel()
    );
    check_devices(&[a, b])
}

/// A row times a column.
fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let n = a.numel();
    let (sa, sb) = (a.strides()[0], b.strides()[0]);
    let row = a.with_geometry(
        Dims::from_slice(&[1, n]),
        Dims::from_slice(&[n * sa, sa]),
        a.storage_offset(),
    );
    let column =
        b.with_geometry(Dims::from_slice(&[n, 1]), Dims::from_slice(&[sb, 1]), b.storage_offset());
    let out = matmul::mm(&row, &column)?;
    Ok(out.with_geometry(Dims::new(), Dims::new(), out.storage_offset()))
}

pub(crate) fn dot(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    check_dot(a, b)?;
    product(a, b)
}

pub(crate) fn vdot(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    check_dot(a, b)?;
    if !a.dtype().is_complex() {
        return product(a, b);
    }
    // the conjugate of a conjugated tensor is its memory
    let a = if a.is_conj() { a.without_math_bits() } else { conjugated(&*math_bits::plain(a)?)? };
    product(&a, b)
}
