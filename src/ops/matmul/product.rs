//! Products of vectors, outer products, and products with several sums: what is not a plain matrix
//! product.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::copy;
use crate::ops::matmul;
use crate::ops::view;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::promote::reads_product;
use straightline_catalog::{DType, Dims, Scalar};
use straightline_runtime::cpu::kernels::matmul::{self as kernels, Scale};

const ONE: Scalar = Scalar::Int(1);

fn no_bool(t: &Tensor, name: &str) -> Result<()> {
    ensure_not_implemented!(t.dtype() != DType::Bool, "\"{name}\" not implemented for 'Bool'");
    Ok(())
}

fn same_dtypes(tensors: &[&Tensor]) -> Result<()> {
    if tensors.iter().any(|t| t.dtype() != tensors[0].dtype()) {
        let dtypes: Vec<_> = tensors.iter().map(|t| t.dtype().name()).collect();
        return Err(Error::dtype(format!(
            "All tensors must have the same dtype, got {}",
            dtypes.join(", ")
        )));
    }
    Ok(())
}

fn matrix_vector(
    addend: Option<(&Tensor, Scalar)>,
    m: &Tensor,
    v: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    let rank = addend.map_or(1, |(t, _)| t.dim());
    ensure!(
        m.dim() == 2 && v.dim() == 1 && rank <= 1,
        "vector + matrix @ vector expected, got {rank}, {}, {}",
        m.dim(),
        v.dim()
    );
    let rows = m.sizes()[0];
    let first = addend.map_or(rows, |(t, _)| t.numel());
    ensure_shape!(
        m.sizes()[1] == v.numel() && (first == rows || first == 1),
        "size mismatch, got input ({first}), mat ({rows}x{}), vec ({})",
        m.sizes()[1],
        v.numel()
    );
    let dtype = addend.map_or(m.dtype(), |(t, _)| t.dtype());
    ensure_dtype!(
        m.dtype() == v.dtype() && dtype == m.dtype(),
        "addmv input tensors must have the same dtype, but got {dtype}, {}, and {}",
        m.dtype(),
        v.dtype()
    );
    crate::ops::common::check_devices(&[m, v])?;
    let mut out = Tensor::allocate_contiguous(dtype, m.device(), &[rows])?;
    // without elements there is nothing to compute, which PyTorch does for truth values too
    if dtype == DType::Bool && m.numel() == 0 {
        return match addend {
            Some((t, beta)) if beta.as_bool() => crate::ops::copy::copy_(&out, t, false),
            _ => crate::ops::copy::fill_(&out, Scalar::Bool(false)),
        };
    }
    no_bool(m, "addmv_impl_cpu")?;
    for s in addend.map(|(_, beta)| beta).into_iter().chain([alpha]) {
        crate::ops::common::check_fits(s, dtype)?;
    }
    let unread =
        addend.is_some() && !dtype.is_complex() && !reads_product(dtype, alpha, usize::MAX);
    if out.storage().has_data() {
        let addend = match addend {
            Some((t, beta)) => Some((view::expand(t, &[rows], true)?, beta)),
            None => None,
        };
        let (addend, beta) = addend.unzip();
        launch::run(&mut out, ([m, v], addend.as_ref()), |out, ([m, v], addend)| {
            let scale = Scale {
                alpha: alpha.cast(dtype),
                addend: beta.map(|b| b.cast(dtype)).zip(addend),
                unread,
            };
            Ok(kernels::product(out, m, v, scale)?)
        })?;
    }
    Ok(out)
}

pub(crate) fn mv(m: &Tensor, v: &Tensor) -> Result<Tensor> {
    matrix_vector(None, m, v, ONE)
}

pub(crate) fn addmv(
    x: &Tensor,
    m: &Tensor,
    v: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    matrix_vector(Some((x, beta)), m, v, alpha)
}

/// Writes the result of an operator's functional form into its first operand.
fn write_back(x: &Tensor, result: &Tensor) -> Result<Tensor> {
    ensure_shape!(
        x.sizes() == result.sizes(),
        "output with shape {:?} doesn't match the broadcast shape {:?}",
        x.sizes(),
        result.sizes()
    );
    crate::ops::common::check_can_cast(result.dtype(), x.dtype())?;
    copy::copy_(x, result, false)
}

macro_rules! in_place {
    ($($name:ident = $of:path;)*) => {$(
        pub(crate) fn $name(
            x: &Tensor,
            a: &Tensor,
            b: &Tensor,
            beta: Scalar,
            alpha: Scalar,
        ) -> Result<Tensor> {
            write_back(x, &$of(x, a, b, beta, alpha)?)
        }
    )*};
}
in_place! {
    addmv_ = addmv;
    addmm_ = matmul::addmm;
    baddbmm_ = matmul::baddbmm;
}

// ---- composites: through the dispatcher --------------------------------------------------------

pub(crate) fn addr_(
    x: &Tensor,
    a: &Tensor,
    b: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let result = addr(x, a, b, beta, alpha)?;
    aten::copy_(x, &result, false)
}

pub(crate) fn addbmm_(
    x: &Tensor,
    a: &Tensor,
    b: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let result = addbmm(x, a, b, beta, alpha)?;
    // as in PyTorch, a tensor that broadcasts to the result becomes as large
    if x.sizes() != result.sizes() {
        aten::resize_(x, result.sizes(), None)?;
    }
    aten::copy_(x, &result, false)
}

pub(crate) fn outer(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    for (name, t) in [("self", a), ("vec2", b)] {
        ensure!(t.dim() == 1, "outer: Expected 1-D argument {name}, but got {}-D", t.dim());
    }
    aten::mul_tensor(&aten::reshape(a, &[a.numel(), 1])?, b)
}

/// `beta * x + alpha * outer(a, b)`; of flags, "or" of "and".
pub(crate) fn addr(
    x: &Tensor,
    a: &Tensor,
    b: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    ensure!(
        a.dim() == 1 && b.dim() == 1,
        "addr: Expected 1-D argument vec1 and vec2, but got {}-D and {}-D",
        a.dim(),
        b.dim()
    );
    let dtype = crate::ops::common::promote(&[x, a, b])?;
    for (name, s) in [("beta", beta), ("alpha", alpha)] {
        ensure_dtype!(
            dtype.is_floating() || dtype.is_complex() || !matches!(s, Scalar::Float(_)),
            "For integral input tensors, argument {name} must not be a floating point number."
        );
        ensure_dtype!(
            dtype == DType::Bool || !matches!(s, Scalar::Bool(_)),
            "Boolean {name} only supported for Boolean results."
        );
    }
    let sizes = [a.numel(), b.numel()];
    for s in [beta, alpha] {
        crate::ops::common::check_fits(s, dtype)?;
    }
    let x = aten::expand(x, &sizes, true)?;
    if dtype == DType::Bool {
        let product = outer(a, b)?;
        let product = if alpha.as_bool() {
            product
        } else {
            aten::zeros_like(&product, None, None, None, None, None)?
        };
        return if beta.as_bool() { aten::logical_or(&x, &product) } else { Ok(product) };
    }
    let is_one = |s: Scalar| s.as_complex() == (1.0, 0.0);
    // the first vector is scaled, not the product: of halves, that may be out of range
    let a = aten::to_dtype(a, dtype, false, false, None)?;
    let a = if is_one(alpha) { a } else { aten::mul_scalar(&a, alpha.cast(dtype))? };
    let b = aten::to_dtype(b, dtype, false, false, None)?;
    let product = outer(&a, &b)?;
    if beta.as_complex() == (0.0, 0.0) {
        return Ok(product);
    }
    let x = aten::to_dtype(&x, dtype, false, false, None)?;
    let x = if is_one(beta) { x } else { aten::mul_scalar(&x, beta.cast(dtype))? };
    aten::add_tensor(&x, &product, ONE)
}

/// `beta * x + alpha * sum(a[i] @ b[i])`: one product with a longer sum.
pub(crate) fn addbmm(
    x: &Tensor,
    a: &Tensor,
    b: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    ensure!(a.dim() == 3 && b.dim() == 3, "batch1 must be a 3D tensor, and batch2 too");
    let (s, t) = (a.sizes(), b.sizes());
    ensure_shape!(
        s[0] == t[0],
        "batch1 and batch2 must have same number of batches, got {} and {}",
        s[0],
        t[0]
    );
    ensure_shape!(
        s[2] == t[1],
        "Incompatible matrix sizes for bmm ({}x{} and {}x{})",
        s[1],
        s[2],
        t[1],
        t[2]
    );
    no_bool(a, "addmm_impl_cpu_")?;
    let steps = s[0] * s[2];
    let left = aten::reshape(&aten::permute(a, &[1, 0, 2])?, &[s[1], steps])?;
    let right = aten::reshape(b, &[steps, t[2]])?;
    aten::addmm(x, &left, &right, beta, alpha)
}

pub(crate) fn addmm_activation(
    x: &Tensor,
    a: &Tensor,
    b: &Tensor,
    beta: Scalar,
    alpha: Scalar,
    gelu: bool,
) -> Result<Tensor> {
    no_bool(a, "addmm_impl_cpu_")?;
    let sum = aten::addmm(x, a, b, beta, alpha)?;
    if gelu { aten::gelu(&sum, "none") } else { aten::relu(&sum) }
}

/// Sums over pairs of dimensions.
pub(crate) fn tensordot(a: &Tensor, b: &Tensor, of_a: &[i64], of_b: &[i64]) -> Result<Tensor> {
    ensure!(of_a.len() == of_b.len(), "both dimension lists should have same length");
    ensure_dtype!(
        a.dtype() == b.dtype(),
        "both inputs should have same dtype, but got {} and {}",
        a.dtype(),
        b.dtype()
    );
    let wrap = |dims: &[i64], rank: usize| -> Result<Vec<usize>> {
        let mut out = Vec::new();
        for d in dims {
            let d = crate::ops::common::wrap_dim(*d, rank)?;
            ensure_index!(rank != 0, "tensordot: a tensor without dimensions has none to contract");
            ensure!(!out.contains(&d), "dim {d} appears multiple times in the list of dims");
            out.push(d);
        }
        Ok(out)
    };
    let (da, db) = (wrap(of_a, a.dim())?, wrap(of_b, b.dim())?);
    let (mut a, mut b) = (a.clone(), b.clone());
    let mut steps = 1;
    for (i, j) in da.iter().zip(&db) {
        let (m, n) = (a.sizes()[*i], b.sizes()[*j]);
        if m == n {
            steps *= m;
        } else if m == 1 {
            b = aten::sum_dim_int_list(&b, Some(&[*j as i64]), true, Some(b.dtype()))?;
        } else if n == 1 {
            a = aten::sum_dim_int_list(&a, Some(&[*i as i64]), true, Some(a.dtype()))?;
        } else {
            return Err(Error::shape(format!(
                "contracted dimensions need to match, but first has size {m} in dim {i} and second has size {n} in dim {j}"
            )));
        }
    }
    let free = |t: &Tensor, dims: &[usize]| -> Vec<usize> {
        (0..t.dim()).filter(|d| !dims.contains(d)).collect()
    };
    let (fa, fb) = (free(&a, &da), free(&b, &db));
    let mut sizes = Dims::new();
    sizes.extend(fa.iter().map(|d| a.sizes()[*d]));
    let rows: i64 = sizes.iter().product();
    sizes.extend(fb.iter().map(|d| b.sizes()[*d]));
    let cols: i64 = sizes[fa.len()..].iter().product();
    let order =
        |x: &[usize], y: &[usize]| -> Vec<i64> { x.iter().chain(y).map(|d| *d as i64).collect() };
    let (left, right) =
        (aten::permute(&a, &order(&fa, &da))?, aten::permute(&b, &order(&db, &fb))?);
    // a single number: PyTorch takes the inner product of what is a row already, which truth values
    // do not have
    if a.dtype() == DType::Bool
        && (rows, cols) == (1, 1)
        && [&left, &right].iter().any(|t| aten::view(t, &[-1]).is_err())
    {
        let pairs =
            aten::mul_tensor(&aten::reshape(&left, &[steps])?, &aten::reshape(&right, &[steps])?)?;
        return aten::reshape(&aten::any(&pairs)?, &sizes);
    }
    let left = aten::reshape(&left, &[rows, steps])?;
    let right = aten::reshape(&right, &[steps, cols])?;
    aten::reshape(&aten::mm(&left, &right)?, &sizes)
}

fn with_ones(t: &Tensor, at: &[i64], rank: usize) -> Result<Tensor> {
    let mut t = t.clone();
    for d in 0..rank as i64 {
        if at.contains(&d) {
            t = aten::unsqueeze(&t, d)?;
        }
    }
    Ok(t)
}

/// `sum over sumdim of i1 * i2 * i3`, each with dimensions of one element put in.
#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn trilinear(
    i1: &Tensor,
    i2: &Tensor,
    i3: &Tensor,
    expand1: &[i64],
    expand2: &[i64],
    expand3: &[i64],
    sumdim: &[i64],
    unroll: i64,
) -> Result<Tensor> {
    let rank = i1.dim() + expand1.len();
    if unroll < 0 || unroll >= rank.max(1) as i64 {
        return Err(Error::runtime(format!("unroll_dim must be in [0,{}]", rank as i64 - 1)));
    }
    // without elements there is no product of matrices that would refuse
    if [i1, i2, i3].iter().all(|t| t.numel() > 0) {
        no_bool(i1, "bmm")?;
    }
    same_dtypes(&[i1, i2, i3])?;
    let dtype = i1.dtype();
    let wide = |t: &Tensor, at: &[i64]| -> Result<Tensor> {
        aten::to_dtype(&with_ones(t, at, rank)?, dtype.opmath(), false, false, None)
    };
    let (a, b, c) = (wide(i1, expand1)?, wide(i2, expand2)?, wide(i3, expand3)?);
    let mut sum = aten::mul_tensor(&aten::mul_tensor(&a, &b)?, &c)?;
    if !sumdim.is_empty() {
        sum = aten::sum_dim_int_list(&sum, Some(sumdim), false, Some(sum.dtype()))?;
    }
    aten::to_dtype(&sum, dtype, false, false, None)
}

/// `x1 @ weight[o] @ x2 + bias` for each output `o`.
pub(crate) fn bilinear(
    x1: &Tensor,
    x2: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    ensure!(
        x1.dim() == x2.dim(),
        "bilinear(): input dimensions do not match: got {} and {}",
        x1.dim(),
        x2.dim()
    );
    ensure!(
        x1.dim() != 0 && weight.dim() == 3,
        "bilinear(): wants vectors and a weight of three dimensions, got {:?} and {:?}",
        x1.sizes(),
        weight.sizes()
    );
    same_dtypes(&[x1, x2, weight])?;
    if let Some(b) = bias {
        same_dtypes(&[x1, b])?;
    }
    let last = x1.dim() - 1;
    for d in 0..last {
        ensure_shape!(
            x1.sizes()[d] == x2.sizes()[d],
            "bilinear(): input batch dimensions do not match at dim {d}: got {} and {}",
            x1.sizes()[d],
            x2.sizes()[d]
        );
    }
    let w = weight.sizes();
    for (x, d) in [(x1, 1), (x2, 2)] {
        ensure_shape!(
            x.sizes()[last] == w[d],
            "bilinear(): input{d} size does not match weight size: got {} but expected {}",
            x.sizes()[last],
            w[d]
        );
    }
    if let Some(b) = bias
        && b.sizes().first() != Some(&w[0])
    {
        return Err(Error::shape(format!(
            "bilinear(): bias size does not match weight size: got {:?} but expected {}",
            b.sizes(),
            w[0]
        )));
    }
    let mut sizes = Dims::from_slice(&x1.sizes()[..last]);
    let rows: i64 = sizes.iter().product();
    sizes.push(w[0]);
    let flat = |x: &Tensor, d: usize| aten::reshape(x, &[rows, w[d]]);
    let out =
        aten::_trilinear(&flat(x1, 1)?, weight, &flat(x2, 2)?, &[1, 3], &[0], &[1, 2], &[2, 3], 1)?;
    let out = aten::reshape(&out, &sizes)?;
    match bias {
        Some(b) => aten::add_tensor(&out, b, ONE),
        None => Ok(out),
    }
}

/// Products along the last dimensions, summed; of a number with each element.
pub(crate) fn inner(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.dim() == 0 || b.dim() == 0 {
        return aten::mul_tensor(a, b);
    }
    ensure_shape!(
        a.sizes().last() == b.sizes().last(),
        "inner() the last dimension must match on both input tensors but got shapes {:?} and {:?}",
        a.sizes(),
        b.sizes()
    );
    aten::tensordot(a, b, &[-1], &[-1])
}

/// The product of groups of rows, each with a matrix of its own: rows up to `offs[0]` with the first
/// one, those from there up to `offs[1]` with the second, and so on. Rows of no group are 0.
pub(crate) fn grouped_mm(
    a: &Tensor,
    b: &Tensor,
    offs: Option<&Tensor>,
    bias: Option<&Tensor>,
    out_dtype: Option<DType>,
) -> Result<Tensor> {
    ensure_not_implemented!(
        a.dim() == 2 && b.dim() == 3 && bias.is_none(),
        "_grouped_mm is implemented for rows of a matrix and a matrix for each group (2 and 3 dimensions), \
         without bias, and these have {} and {}: multiply the groups one by one, or use bmm",
        a.dim(),
        b.dim()
    );
    let Some(offs) = offs else {
        return Err(Error::runtime(
            "_grouped_mm: `offs` says where groups of rows end, and is missing",
        ));
    };
    let (rows, groups) = (a.sizes()[0], b.sizes()[0]);
    ensure_shape!(
        a.sizes()[1] == b.sizes()[1] && offs.sizes() == [groups],
        "_grouped_mm: contraction dimension of mat_a and mat_b must match, and offs has one end for each \
         group: got {:?}, {:?} and {:?}",
        a.sizes(),
        b.sizes(),
        offs.sizes()
    );
    ensure_dtype!(
        a.dtype() == b.dtype() && out_dtype.is_none_or(|d| d == a.dtype()),
        "_grouped_mm: operands and result have one dtype, and these are {} and {}",
        a.dtype(),
        b.dtype()
    );
    let out = Tensor::allocate_contiguous(a.dtype(), a.device(), &[rows, b.sizes()[2]])?;
    if !out.storage().has_data() {
        return Ok(out);
    }
    copy::zero_(&out)?;
    let mut start = 0;
    for (group, end) in (0..).zip(offs.to_dtype(DType::I64)?.to_vec::<i64>()?) {
        ensure!(
            start <= end && end <= rows,
            "_grouped_mm: offs must not fall and not be above the {rows} rows, and {end} follows {start}"
        );
        if start < end {
            let part = |t: &Tensor| view::narrow(t, 0, start, end - start);
            let product = matmul::mm(&part(a)?, &view::select(b, 0, group)?)?;
            copy::copy_(&part(&out)?, &product, false)?;
        }
        start = end;
    }
    Ok(out)
}
