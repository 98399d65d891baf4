//! Distances between vectors.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::by_dtype::with_float;
use crate::ops::copy::to_aligned;
use crate::ops::view;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{Dims, Scalar, layout};
use straightline_runtime::cpu::kernels::distance as kernels;

const ONE: Scalar = Scalar::Int(1);

fn same_dtype(a: &Tensor, b: &Tensor) -> Result<()> {
    ensure_dtype!(
        a.dtype() == b.dtype(),
        "expected scalar type {} but found {}",
        a.dtype(),
        b.dtype()
    );
    Ok(())
}

/// Vectors of one length, in the rows of matrices.
fn check_columns(a: &Tensor, b: &Tensor) -> Result<()> {
    for (name, t) in [("X1", a), ("X2", b)] {
        ensure!(t.dim() >= 2, "cdist only supports at least 2D tensors, {name} got: {}D", t.dim());
    }
    let last = |t: &Tensor| t.sizes()[t.dim() - 1];
    ensure!(
        last(a) == last(b),
        "X1 and X2 must have the same number of columns. X1: {} X2: {}",
        last(a),
        last(b)
    );
    Ok(())
}

fn check_order(p: f64) -> Result<()> {
    if p < 0.0 || p.is_nan() {
        return Err(Error::runtime("cdist only supports non-negative p values"));
    }
    Ok(())
}

fn check_cdist(a: &Tensor, b: &Tensor, p: f64, mode: Option<i64>) -> Result<()> {
    check_columns(a, b)?;
    for (name, t) in [("X1", a), ("X2", b)] {
        ensure_dtype!(
            t.dtype().is_floating(),
            "cdist only supports floating-point dtypes, {name} got: {}",
            t.dtype()
        );
    }
    check_order(p)?;
    if let Some(mode) = mode
        && !(0..=2).contains(&mode)
    {
        return Err(Error::runtime(format!("possible modes: 0, 1, 2, but was: {mode}")));
    }
    crate::ops::common::check_devices(&[a, b])
}

/// Both with one batch of sizes, which is returned.
fn expanded(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor, Dims)> {
    let lead = |t: &Tensor| Dims::from_slice(&t.sizes()[..t.dim() - 2]);
    let batch = layout::broadcast(&lead(a), &lead(b)).ok_or_else(|| {
        Error::shape(format!("the batches of {:?} and {:?} do not broadcast", a.sizes(), b.sizes()))
    })?;
    let expand = |t: &Tensor| {
        let sizes = [batch.as_slice(), &t.sizes()[t.dim() - 2..]].concat();
        view::expand(t, &sizes, true)
    };
    Ok((expand(a)?, expand(b)?, batch))
}

pub(crate) fn cdist_forward(a: &Tensor, b: &Tensor, p: f64, mode: Option<i64>) -> Result<Tensor> {
    check_cdist(a, b, p, mode)?;
    let (a, b, batch) = expanded(a, b)?;
    let n = a.dim();
    let (rows, cols, width) = (a.sizes()[n - 2], b.sizes()[n - 2], a.sizes()[n - 1]);
    let sizes = [batch.as_slice(), &[rows, cols]].concat();
    // what has no elements comes to no kernel
    if a.numel() > 0 && b.numel() > 0 {
        same_dtype(&a, &b)?;
        crate::ops::by_dtype::check_kernel("cdist", &a)?;
    }
    let mut out = Tensor::allocate_contiguous(a.dtype(), a.device(), &sizes)?;
    if width == 0 {
        return crate::ops::copy::fill_(&out, Scalar::Int(0));
    }
    if out.numel() > 0 {
        let (a, b) = (to_aligned(&a)?, to_aligned(&b)?);
        let (rows, cols, width) = (rows as usize, cols as usize, width as usize);
        launch::run(&mut out, [&a, &b], |out, [a, b]| {
            with_float!(a.dtype(), "cdist", T => {
                let (a, b, out) = (a.slice::<T>()?, b.slice::<T>()?, out.slice::<T>()?);
                for (i, out) in out.chunks_exact_mut(rows * cols).enumerate() {
                    let (a, b) = (
                        &a[i * rows * width..(i + 1) * rows * width],
                        &b[i * cols * width..(i + 1) * cols * width],
                    );
                    kernels::pairs(a, b, width, p, out);
                }
                Ok::<(), Error>(())
            })
        })?;
    }
    Ok(out)
}

pub(crate) fn cdist_backward(
    grad: &Tensor,
    a: &Tensor,
    b: &Tensor,
    p: f64,
    distances: &Tensor,
) -> Result<Tensor> {
    check_columns(a, b)?;
    crate::ops::common::check_devices(&[a, b, grad, distances])?;
    let given = a;
    let (a, b, batch) = expanded(a, b)?;
    let n = a.dim();
    let (rows, cols, width) = (a.sizes()[n - 2], b.sizes()[n - 2], a.sizes()[n - 1]);
    let sizes = [batch.as_slice(), &[rows, cols]].concat();
    let grad = view::expand(grad, &sizes, true)?;
    let distances = view::expand(distances, &sizes, true)?;
    if grad.numel() == 0 || width == 0 {
        // as PyTorch: of the operand as it is, not of what the batches broadcast to
        let strides = layout::preserved_strides(given.sizes(), given.strides());
        let sizes = Dims::from_slice(given.sizes());
        let out = Tensor::allocate(given.dtype(), given.device(), sizes, strides)?;
        return crate::ops::copy::fill_(&out, Scalar::Int(0));
    }
    check_order(p)?;
    for t in [&b, &grad, &distances] {
        same_dtype(&a, t)?;
    }
    crate::ops::by_dtype::check_kernel("cdist_backward", &a)?;
    let mut out = Tensor::allocate_contiguous(a.dtype(), a.device(), a.sizes())?;
    if out.numel() > 0 {
        let (a, b, grad, distances) =
            (to_aligned(&a)?, to_aligned(&b)?, to_aligned(&grad)?, to_aligned(&distances)?);
        let (rows, cols, width) = (rows as usize, cols as usize, width as usize);
        launch::run(&mut out, [&a, &b, &grad, &distances], |out, [a, b, grad, distances]| {
            with_float!(a.dtype(), "cdist_backward", T => {
                let (a, b, grad, distances, out) = (
                        a.slice::<T>()?,
                        b.slice::<T>()?,
                        grad.slice::<T>()?,
                        distances.slice::<T>()?,
                        out.slice::<T>()?,
                    );
                for (i, out) in out.chunks_exact_mut(rows * width).enumerate() {
                    let pairs = i * rows * cols..(i + 1) * rows * cols;
                    kernels::pairs_backward(
                        &grad[pairs.clone()],
                        &a[i * rows * width..(i + 1) * rows * width],
                        &b[i * cols * width..(i + 1) * cols * width],
                        width,
                        p,
                        &distances[pairs],
                        out,
                    );
                }
                Ok::<(), Error>(())
            })
        })?;
    }
    Ok(out)
}

fn check_pdist(p: f64) -> Result<()> {
    if p < 0.0 || p.is_nan() {
        return Err(Error::runtime("pdist only supports non-negative p values"));
    }
    Ok(())
}

/// Rows, and elements of each.
fn rows_of(x: &Tensor) -> (i64, i64) {
    match x.sizes() {
        [] => (1, 1),
        [n, rest @ ..] => (*n, rest.iter().product()),
    }
}

pub(crate) fn pdist_forward(x: &Tensor, p: f64) -> Result<Tensor> {
    ensure!(x.is_contiguous(), "_pdist_forward requires contiguous input");
    let (n, width) = rows_of(x);
    let pairs = if n <= 1 { 0 } else { n * (n - 1) / 2 };
    // what has no pairs comes to no kernel
    if pairs > 0 {
        crate::ops::by_dtype::check_kernel("pdist", x)?;
    }
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), &[pairs])?;
    if pairs > 0 {
        let x = to_aligned(x)?;
        launch::run(&mut out, &x, |out, x| {
            with_float!(x.dtype(), "pdist", T => {
                let (x, out) = (x.slice::<T>()?, out.slice::<T>()?);
                kernels::among(x, width as usize, p, out);
                Ok::<(), Error>(())
            })
        })?;
    }
    Ok(out)
}

pub(crate) fn pdist_backward(
    grad: &Tensor,
    x: &Tensor,
    p: f64,
    distances: &Tensor,
) -> Result<Tensor> {
    check_pdist(p)?;
    crate::ops::by_dtype::check_kernel("pdist_backward", x)?;
    same_dtype(x, grad)?;
    same_dtype(x, distances)?;
    let (n, width) = rows_of(x);
    ensure_shape!(
        grad.numel() == n * (n - 1) / 2 && distances.numel() == grad.numel(),
        "pdist_backward: {} gradients and {} distances for {n} rows",
        grad.numel(),
        distances.numel()
    );
    let mut out = Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes())?;
    if out.numel() > 0 {
        let (x, grad, distances) = (to_aligned(x)?, to_aligned(grad)?, to_aligned(distances)?);
        launch::run(&mut out, [&x, &grad, &distances], |out, [x, grad, distances]| {
            with_float!(x.dtype(), "pdist_backward", T => {
                let (x, grad, distances, out) = (
                        x.slice::<T>()?,
                        grad.slice::<T>()?,
                        distances.slice::<T>()?,
                        out.slice::<T>()?,
                    );
                kernels::among_backward(grad, x, width as usize, p, distances, out);
                Ok::<(), Error>(())
            })
        })?;
    }
    Ok(out)
}

// ---- composites: through the dispatcher --------------------------------------------------------

pub(crate) fn cdist(a: &Tensor, b: &Tensor, p: f64, mode: Option<i64>) -> Result<Tensor> {
    check_cdist(a, b, p, mode)?;
    aten::_cdist_forward(a, b, p, mode)
}

pub(crate) fn pdist(x: &Tensor, p: f64) -> Result<Tensor> {
    ensure!(x.dim() == 2, "pdist only supports 2D tensors, got: {}D", x.dim());
    ensure_dtype!(x.dtype().is_floating(), "pdist only supports floating-point dtypes");
    check_pdist(p)?;
    aten::_pdist_forward(&aten::contiguous(x, straightline_catalog::MemoryFormat::Contiguous)?, p)
}

/// Distances by one matrix product: `|x|^2 - 2 x y + |y|^2`.
pub(crate) fn euclidean_dist(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ensure_dtype!(
        a.dtype().is_floating(),
        "result type Float can't be cast to the desired output type {}",
        a.dtype()
    );
    let norm =
        |t: &Tensor| aten::sum_dim_int_list(&aten::mul_tensor(t, t)?, Some(&[-1]), true, None);
    let ones = |t: &Tensor| aten::ones_like(t, None, None, None, None, None);
    let (na, nb) = (norm(a)?, norm(b)?);
    let (oa, ob) = (ones(&na)?, ones(&nb)?);
    let left = aten::cat(&[aten::mul_scalar(a, Scalar::Int(-2))?, na, oa], -1)?;
    let right = aten::cat(&[b.clone(), ob, nb], -1)?;
    let squares = aten::matmul(&left, &aten::transpose_int(&right, -2, -1)?)?;
    aten::sqrt(&aten::clamp_min(&squares, Scalar::Int(0))?)
}

pub(crate) fn pairwise_distance(
    a: &Tensor,
    b: &Tensor,
    p: f64,
    eps: f64,
    keepdim: bool,
) -> Result<Tensor> {
    let difference = aten::sub_tensor(a, b, ONE)?;
    let difference = aten::add_scalar(&difference, Scalar::Float(eps), ONE)?;
    let last = difference.dim() as i64 - 1;
    aten::norm_scalar_opt_dim(&difference, Some(Scalar::Float(p)), &[last], keepdim)
}

pub(crate) fn cosine_similarity(a: &Tensor, b: &Tensor, dim: i64, eps: f64) -> Result<Tensor> {
    if eps.is_nan() || eps < 0.0 {
        return Err(Error::runtime(format!("eps must be non-negative, got: {eps}")));
    }
    let dtype = crate::ops::common::promote(&[a, b])?;
    ensure_dtype!(
        dtype.is_floating(),
        "expected common dtype to be floating point, yet common dtype is {dtype}"
    );
    let sizes = crate::ops::common::broadcast(&[a, b])?;
    let unit = |t: &Tensor| -> Result<Tensor> {
        let t = aten::to_dtype(t, dtype, false, false, None)?;
        let t = aten::expand(&t, &sizes, false)?;
        let norm = aten::linalg_vector_norm(&t, Scalar::Int(2), Some(&[dim]), true, None)?;
        aten::div_tensor(&t, &aten::clamp_min(&norm, Scalar::Float(eps))?)
    };
    let product = aten::mul_tensor(&unit(a)?, &unit(b)?)?;
    aten::sum_dim_int_list(&product, Some(&[dim]), false, None)
}
