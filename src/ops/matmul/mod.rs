//! Matrix products and what is made of them.

pub(crate) mod distance;
pub(crate) mod einsum;
pub(crate) mod product;

use crate::error::{Error, Result};
use crate::ops::common::check_devices;
use crate::ops::math_bits::plain;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::promote::reads_product;
use straightline_catalog::{DType, Dims, Op, Scalar, layout, meta};
use straightline_runtime::cpu::kernels::matmul::{self, MatmulError, Scale};

impl From<MatmulError> for Error {
    fn from(e: MatmulError) -> Error {
        match e {
            MatmulError::DType { .. } => Error::dtype(e.to_string()),
            MatmulError::Operands(e) => e.into(),
            _ => Error::shape(e.to_string()),
        }
    }
}

fn check_dtypes(a: &Tensor, b: &Tensor) -> Result<()> {
    check_devices(&[a, b])?;
    ensure_dtype!(
        a.dtype() == b.dtype(),
        "expected m1 and m2 to have the same dtype, but got: {} != {}",
        a.dtype(),
        b.dtype()
    );
    // without elements there is nothing to compute, which PyTorch does for truth values too
    ensure_not_implemented!(
        a.dtype() != DType::Bool || a.numel() == 0 || b.numel() == 0,
        "matrix products are not implemented for bool tensors"
    );
    Ok(())
}

fn check_2d(t: &Tensor, name: &str) -> Result<()> {
    ensure!(t.dim() == 2, "{name} must be a matrix, got {:?}", t.sizes());
    Ok(())
}

pub(crate) fn mm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (a, b) = (&*plain(a)?, &*plain(b)?);
    check_2d(a, "self")?;
    check_2d(b, "mat2")?;
    let sizes = meta::product(Op::mm, 2, a.sizes(), b.sizes())?;
    check_dtypes(a, b)?;
    let mut out = Tensor::allocate_contiguous(a.dtype(), a.device(), &sizes)?;
    if a.dtype() == DType::Bool {
        return crate::ops::copy::fill_(&out, Scalar::Bool(false));
    }
    launch::run(&mut out, [a, b], |out, [a, b]| Ok(matmul::product(out, a, b, Scale::default())?))?;
    Ok(out)
}

/// The checks of a product of bytes; the sizes of the result.
fn int_mm_sizes(a: &Tensor, b: &Tensor) -> Result<[i64; 2]> {
    check_devices(&[a, b])?;
    for (t, name) in [(a, "self"), (b, "mat2")] {
        ensure!(t.dim() == 2, "_int_mm: {name} must be a matrix, got {}-D tensor", t.dim());
    }
    let ((m, k), (l, n)) = ((a.sizes()[0], a.sizes()[1]), (b.sizes()[0], b.sizes()[1]));
    ensure!(k == l, "_int_mm: mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {l}x{n})");
    ensure_dtype!(
        matches!(a.dtype(), DType::I8 | DType::U8),
        "_int_mm: Expected self dtype to be int8 or uint8 but got {}",
        a.dtype()
    );
    ensure_dtype!(
        b.dtype() == DType::I8,
        "_int_mm: Expected mat2 dtype to be of type int8 but got {}",
        b.dtype()
    );
    Ok([m, n])
}

/// The product of two matrices of bytes, in `i32`.
pub(crate) fn int_mm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    // PyTorch asks for these sizes before it looks at the operands
    for (t, dim) in [(a, 0), (b, 1)] {
        ensure_index!(t.dim() != 0, "Dimension specified as {dim} but tensor has no dimensions");
        ensure_index!(
            t.dim() > dim,
            "Dimension out of range (expected to be in range of [-1, 0], but got {dim})"
        );
    }
    let sizes = int_mm_sizes(a, b)?;
    let mut out = Tensor::allocate_contiguous(DType::I32, a.device(), &sizes)?;
    launch::run(&mut out, [a, b], |out, [a, b]| Ok(matmul::int_product(out, a, b)?))?;
    Ok(out)
}

/// [`int_mm`] into `out`, which has its dtype, its sizes and no gaps already.
pub(crate) fn int_mm_out(a: &Tensor, b: &Tensor, out: &Tensor) -> Result<Tensor> {
    let sizes = int_mm_sizes(a, b)?;
    check_devices(&[a, out])?;
    ensure_dtype!(
        out.dtype() == DType::I32,
        "_int_mm: Expected result dtype to be int32 but got {}",
        out.dtype()
    );
    for (dim, size) in sizes.into_iter().enumerate() {
        ensure_index!(
            out.dim() > dim,
            "Dimension out of range (expected to be in range of [-1, 0], but got {dim})"
        );
        let found = out.sizes()[dim];
        ensure!(found == size, "_int_mm: Expected result.size({dim}) to be {size} but got {found}");
    }
    ensure!(out.dim() == 2, "_int_mm: Expected result to be of dimension 2 but got {}", out.dim());
    ensure!(out.is_contiguous(), "_int_mm: Expected result to be contiguous.");
    launch::run(launch::Written(out), [a, b], |out, [a, b]| Ok(matmul::int_product(out, a, b)?))?;
    Ok(out.clone())
}

/// A factor of integers is an integer.
fn factor(dtype: DType, factor: Scalar) -> Scalar {
    match dtype.is_floating() || dtype.is_complex() {
        true => factor,
        false => factor.cast(dtype),
    }
}

pub(crate) fn addmm(
    bias: &Tensor,
    a: &Tensor,
    b: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let (bias, a, b) = (&*plain(bias)?, &*plain(a)?, &*plain(b)?);
    check_2d(a, "mat1")?;
    check_2d(b, "mat2")?;
    let sizes = meta::product(Op::addmm, 2, a.sizes(), b.sizes())?;
    check_dtypes(a, b)?;
    check_dtypes(a, bias)?;
    let (beta, alpha) = (factor(a.dtype(), beta), factor(a.dtype(), alpha));
    if layout::broadcast(bias.sizes(), &sizes).as_ref() != Some(&sizes) {
        // says what does not fit
        crate::ops::view::expand(bias, &sizes, true)?;
    }
    let strides = layout::broadcast_strides(bias.sizes(), bias.strides(), &sizes);
    let mut out = Tensor::allocate_contiguous(a.dtype(), a.device(), &sizes)?;
    let unread = !reads_product(a.dtype(), alpha, usize::MAX);
    launch::run(&mut out, [a, b, bias], |out, [a, b, bias]| {
        let bias = bias.broadcast(&sizes, &strides)?;
        let scale = Scale { alpha, addend: Some((beta, bias)), unread };
        Ok(matmul::product(out, a, b, scale)?)
    })?;
    Ok(out)
}

/// The sizes of the products of two batches of matrices.
fn batch_sizes(op: Op, a: &Tensor, b: &Tensor) -> Result<Dims> {
    let sizes = meta::product(op, 3, a.sizes(), b.sizes())?;
    // without elements there is nothing to compute, and no dtype to compute in
    match a.numel() == 0 || b.numel() == 0 {
        true => check_devices(&[a, b])?,
        false => check_dtypes(a, b)?,
    }
    Ok(sizes)
}

fn run_bmm(
    out: &mut Tensor,
    a: &Tensor,
    b: &Tensor,
    alpha: Scalar,
    addend: Option<(Scalar, &Tensor)>,
) -> Result<()> {
    let sizes = (a.sizes(), b.sizes());
    let work = sizes.0[1].saturating_mul(sizes.0[2]).saturating_mul(sizes.1[2]);
    let unread = !reads_product(a.dtype(), alpha, work as usize);
    let (beta, addend) = addend.unzip();
    launch::run(out, ([a, b], addend), |out, ([a, b], addend)| {
        let scale = Scale { alpha, addend: beta.zip(addend), unread };
        Ok(matmul::products(out, a, b, scale)?)
    })
}

pub(crate) fn bmm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (a, b) = (&*plain(a)?, &*plain(b)?);
    // by itself, before it is compared with the other dtype
    ensure_not_implemented!(
        a.dtype() != DType::Bool
            || a.dim() != 3
            || b.dim() != 3
            || a.numel() == 0
            || b.numel() == 0,
        "\"bmm\" not implemented for 'Bool'"
    );
    let sizes = batch_sizes(Op::bmm, a, b)?;
    let mut out = Tensor::allocate_contiguous(b.dtype(), a.device(), &sizes)?;
    if a.numel() == 0 || b.numel() == 0 {
        return crate::ops::copy::fill_(&out, Scalar::Int(0));
    }
    run_bmm(&mut out, a, b, Scalar::Int(1), None)?;
    Ok(out)
}

pub(crate) fn baddbmm(
    addend: &Tensor,
    a: &Tensor,
    b: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let (addend, a, b) = (&*plain(addend)?, &*plain(a)?, &*plain(b)?);
    ensure_index!(
        a.dim() != 3 || b.dim() >= 3,
        "Dimension out of range (expected to be in range of [{}, {}], but got {})",
        -(b.dim().max(1) as i64),
        b.dim().max(1) - 1,
        b.dim().max(1)
    );
    let sizes = batch_sizes(Op::baddbmm, a, b)?;
    check_dtypes(a, addend)?;
    let nothing = (a.numel() == 0 || b.numel() == 0) && !beta.as_bool();
    let (beta, alpha) = (factor(a.dtype(), beta), factor(a.dtype(), alpha));
    let addend = crate::ops::view::expand(addend, &sizes, true)?;
    let mut out = Tensor::allocate_contiguous(a.dtype(), a.device(), &sizes)?;
    if nothing {
        return crate::ops::copy::fill_(&out, Scalar::Int(0));
    }
    run_bmm(&mut out, a, b, alpha, Some((beta, &addend)))?;
    Ok(out)
}
