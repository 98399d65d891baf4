//! Places in sorted sequences, membership, counts.

use crate::error::{Error, Result};
use crate::ops::common::{check_room, needs_data, promote, wrap_dim};
use crate::ops::copy;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Dims, Scalar};
use straightline_runtime::cpu::kernels::{self, Search};

/// A row-major copy, or the tensor itself.
fn plain(x: &Tensor, dtype: DType) -> Result<Tensor> {
    copy::to_contiguous(&copy::to_dtype(x, dtype)?)
}

fn check_search(
    sequence: &Tensor,
    values: &Tensor,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<()> {
    if let Some(side) = side {
        ensure!(
            side == "left" || side == "right",
            "torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        );
        ensure!(
            !right || side != "left",
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        );
    }
    if let Some(sorter) = sorter {
        ensure!(
            sorter.sizes() == sequence.sizes(),
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {:?} and sorter tensor {:?}",
            sequence.sizes(),
            sorter.sizes()
        );
        ensure!(
            sorter.dtype() == DType::I64,
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
            sorter.dtype()
        );
    }
    ensure!(
        sequence.dim() != 0,
        "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
    );
    ensure!(
        values.dim() != 0 || sequence.dim() == 1,
        "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor dim({})",
        sequence.dim()
    );
    if sequence.dim() != 1 {
        let n = sequence.dim() - 1;
        ensure!(
            values.dim() == sequence.dim() && values.sizes()[..n] == sequence.sizes()[..n],
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor {:?} and input value tensor {:?}",
            sequence.sizes(),
            values.sizes()
        );
    }
    let last = sequence.sizes().last().copied().unwrap_or(0);
    if out_int32 && last >= i64::from(i32::MAX) {
        return Err(Error::runtime(format!(
            "torch.searchsorted(): the size of boundaries' last dimension should be less than {}, but we got {last}",
            i32::MAX
        )));
    }
    Ok(())
}

pub(crate) fn searchsorted(
    sequence: &Tensor,
    values: &Tensor,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    check_search(sequence, values, out_int32, right, side, sorter)?;
    let common = promote(&[sequence, values])?;
    ensure_not_implemented!(
        common != DType::Bool || values.numel() == 0,
        "\"searchsorted\" not implemented for 'Bool'"
    );
    let dtype = if out_int32 { DType::I32 } else { DType::I64 };
    let mut out = Tensor::allocate_contiguous(DType::I64, values.device(), values.sizes())?;
    if out.storage().has_data() && values.numel() > 0 {
        let wide = if common.is_floating() { DType::F64 } else { DType::I64 };
        let bring = |t: &Tensor| plain(&copy::to_dtype(t, common)?, wide);
        let (sequence, values) = (bring(sequence)?, bring(values)?);
        let sorter = sorter.map(copy::to_contiguous).transpose()?;
        let right = right || side == Some("right");
        let operands = ([&sequence, &values], sorter.as_ref());
        launch::run(&mut out, operands, |out, ([sequences, values], sorter)| {
            let search = Search { sequences, sorter, right };
            Ok(kernels::search_sorted(out, values, &search)?)
        })?;
    }
    copy::to_dtype(&out, dtype)
}

/// A number as a tensor that takes part in promotion as a number does.
fn number(value: Scalar, like: &Tensor) -> Result<Tensor> {
    crate::ops::create::factory::on_device_of(&Tensor::wrapped_number(value)?, like)
}

pub(crate) fn searchsorted_scalar(
    sequence: &Tensor,
    value: Scalar,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    let value = number(value, sequence)?;
    searchsorted(sequence, &value, out_int32, right, side, sorter)
}

pub(crate) fn bucketize(
    x: &Tensor,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
) -> Result<Tensor> {
    ensure!(
        boundaries.dim() == 1,
        "boundaries tensor must be 1 dimension, but got dim({})",
        boundaries.dim()
    );
    searchsorted(boundaries, x, out_int32, right, None, None)
}

pub(crate) fn bucketize_scalar(
    x: Scalar,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
) -> Result<Tensor> {
    bucketize(&number(x, boundaries)?, boundaries, out_int32, right)
}

pub(crate) fn isin(
    elements: &Tensor,
    tests: &Tensor,
    _assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    ensure_not_implemented!(
        elements.dtype() != DType::Bool && tests.dtype() != DType::Bool,
        "Unsupported input type encountered for isin(): Bool"
    );
    let dtype = promote(&[elements, tests])?;
    let mut out = Tensor::allocate_contiguous(DType::Bool, elements.device(), elements.sizes())?;
    if out.storage().has_data() {
        let (a, b) = (plain(elements, dtype)?, plain(tests, dtype)?);
        launch::run(&mut out, [&a, &b], |out, [a, b]| Ok(kernels::is_member(out, a, b, invert)?))?;
    }
    Ok(out)
}

pub(crate) fn isin_tensor_scalar(
    elements: &Tensor,
    test: Scalar,
    assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    isin(elements, &number(test, elements)?, assume_unique, invert)
}

pub(crate) fn isin_scalar_tensor(
    element: Scalar,
    tests: &Tensor,
    assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    isin(&number(element, tests)?, tests, assume_unique, invert)
}

/// A vector of numbers as a tensor.
pub(crate) fn vector(numbers: &[i64], sizes: &[i64]) -> Result<Tensor> {
    Tensor::from_slice(numbers, sizes)
}

fn nothing() -> Result<Tensor> {
    vector(&[], &[0])
}

/// Elements of a row-major tensor at places of its flat form.
fn taken(flat: &Tensor, places: &[i64]) -> Result<Tensor> {
    let places = vector(places, &[places.len() as i64])?;
    crate::ops::index::index_select(flat, 0, &places)
}

fn flattened(x: &Tensor) -> Result<Tensor> {
    let flat = copy::to_contiguous(x)?;
    Ok(flat.with_geometry(
        Dims::from_slice(&[x.numel()]),
        Dims::from_slice(&[1]),
        flat.storage_offset(),
    ))
}

pub(crate) fn unique2(
    x: &Tensor,
    _sorted: bool,
    inverse: bool,
    counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    x.check_real()?;
    needs_data("_unique2", x)?;
    let flat = flattened(x)?;
    let groups = launch::read(&flat, |flat| Ok(kernels::groups(flat)?))?;
    let of = |wanted, numbers: &[i64], sizes: &[i64]| match wanted {
        true => vector(numbers, sizes),
        false => nothing(),
    };
    Ok((
        taken(&flat, &groups.first)?,
        of(inverse, &groups.of, x.sizes())?,
        of(counts, &groups.counts, &[groups.counts.len() as i64])?,
    ))
}

pub(crate) fn unique(x: &Tensor, sorted: bool, inverse: bool) -> Result<(Tensor, Tensor)> {
    let (values, inverse, _) = unique2(x, sorted, inverse, false)?;
    Ok((values, inverse))
}

/// A view with a dimension in another place.
fn moved(x: &Tensor, from: usize, to: usize) -> Tensor {
    let moved = |dims: &[i64]| {
        let mut dims = Dims::from_slice(dims);
        if !dims.is_empty() {
            let dim = dims.remove(from);
            dims.insert(to, dim);
        }
        dims
    };
    x.with_geometry(moved(x.sizes()), moved(x.strides()), x.storage_offset())
}

/// Unique slices along a dimension: neighbours only, or all of them, sorted.
fn unique_slices(x: &Tensor, dim: i64, consecutive: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let d = wrap_dim(dim, x.dim())?;
    x.check_real()?;
    needs_data("unique_dim", x)?;
    let zeros = x.sizes().iter().filter(|s| **s == 0).count();
    let rows = x.sizes().get(d).copied().unwrap_or(1);
    if rows == 0 {
        ensure!(
            zeros == 1,
            "Number of zero sized dimensions is more than one, so unique cannot be applied "
        );
        let out = Tensor::allocate_contiguous(x.dtype(), x.device(), x.sizes())?;
        return Ok((out, nothing()?, nothing()?));
    }
    ensure!(
        zeros == 0,
        "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
    );
    let front = moved(x, d, 0);
    let matrix = copy::to_contiguous(&front)?;
    let width = x.numel() / rows;
    let matrix = matrix.with_geometry(
        Dims::from_slice(&[rows, width]),
        Dims::from_slice(&[width, 1]),
        matrix.storage_offset(),
    );
    let groups = launch::read(&matrix, |m| Ok(kernels::row_groups(m, consecutive)?))?;
    let n = groups.first.len() as i64;
    // the slices lie one after another in memory, whatever the dimension
    let out = crate::ops::index::index_select(&front, 0, &vector(&groups.first, &[n])?)?;
    let out = moved(&out, 0, d);
    Ok((out, vector(&groups.of, &[rows])?, vector(&groups.counts, &[n])?))
}

pub(crate) fn unique_dim(
    x: &Tensor,
    dim: i64,
    _sorted: bool,
    _inverse: bool,
    _counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    unique_slices(x, dim, false)
}

pub(crate) fn unique_dim_consecutive(
    x: &Tensor,
    dim: i64,
    _inverse: bool,
    _counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    unique_slices(x, dim, true)
}

pub(crate) fn unique_consecutive(
    x: &Tensor,
    inverse: bool,
    counts: bool,
    dim: Option<i64>,
) -> Result<(Tensor, Tensor, Tensor)> {
    x.check_real()?;
    needs_data("unique_consecutive", x)?;
    // along the first dimension of a vector PyTorch looks at elements; the last one, even of a
    // vector, has slices
    if let Some(dim) = dim
        && !(dim == 0 && x.dim() == 1)
    {
        return unique_slices(x, dim, true);
    }
    let flat = flattened(x)?;
    let column = flat.with_geometry(
        Dims::from_slice(&[x.numel(), 1]),
        Dims::from_slice(&[1, 1]),
        flat.storage_offset(),
    );
    let groups = launch::read(&column, |c| Ok(kernels::row_groups(c, true)?))?;
    let n = groups.first.len() as i64;
    let values = taken(&flat, &groups.first)?;
    let of = if inverse { vector(&groups.of, x.sizes())? } else { nothing()? };
    let counts = if counts { vector(&groups.counts, &[n])? } else { nothing()? };
    Ok((values, of, counts))
}

pub(crate) fn bincount(x: &Tensor, weights: Option<&Tensor>, minlength: i64) -> Result<Tensor> {
    ensure!(minlength >= 0, "minlength should be >= 0, got {minlength}");
    ensure_not_implemented!(
        x.dtype().is_integral(),
        "\"bincount\" not implemented for {}",
        x.dtype().torch_name()
    );
    let bad = || Error::runtime("bincount only supports 1-d non-negative integral inputs.");
    if x.dim() != 1 {
        return Err(bad());
    }
    // what follows depends on it, and capture has found what it could
    needs_data("bincount", x)?;
    if x.numel() == 0 {
        let out = Tensor::allocate_contiguous(DType::I64, x.device(), &[minlength])?;
        return copy::zero_(&out);
    }
    if let Some(w) = weights
        && w.sizes() != x.sizes()
    {
        return Err(Error::runtime("weights should be 1-d and have the same length as input"));
    }
    let places = copy::to_dtype(x, DType::I64)?.to_vec::<i64>()?;
    if places.iter().any(|p| *p < 0) {
        return Err(bad());
    }
    let bins = (places.iter().max()).map_or(0, |m| m.saturating_add(1)).max(minlength);
    check_room(DType::F64, x.device(), &[bins])?;
    let Some(weights) = weights else {
        let out = Tensor::allocate_contiguous(DType::I64, x.device(), &[bins])?;
        let mut counts = vec![0i64; out.numel() as usize];
        for p in places {
            counts[p as usize] += 1;
        }
        return vector(&counts, &[bins]);
    };
    // PyTorch adds up in the dtype of the result
    if weights.dtype() == DType::F32 {
        let mut totals = vec![0f32; bins as usize];
        for (p, w) in places.into_iter().zip(weights.to_vec::<f32>()?) {
            totals[p as usize] += w;
        }
        return Tensor::from_slice(&totals, &[bins]);
    }
    let mut totals = vec![0f64; bins as usize];
    let weights = copy::to_dtype(weights, DType::F64)?.to_vec::<f64>()?;
    for (p, w) in places.into_iter().zip(weights) {
        totals[p as usize] += w;
    }
    Tensor::from_slice(&totals, &[bins])
}

/// The bounds of the bins of [`histc`], as numbers of the dtype.
pub(crate) fn histogram_edges(
    dtype: DType,
    bins: i64,
    mut low: f64,
    mut high: f64,
) -> Result<Vec<f64>> {
    let rounded = |v: f64| match dtype {
        DType::F64 => v,
        DType::F16 => f64::from(half::f16::from_f32(v as f32)),
        DType::BF16 => f64::from(half::bf16::from_f32(v as f32)),
        _ => f64::from(v as f32),
    };
    if low == high {
        low -= 1.0;
        high += 1.0;
    }
    ensure!(low.is_finite() && high.is_finite(), "histc: range of [{low}, {high}] is not finite");
    if low > high {
        return Err(Error::runtime("histc: max must be larger than min"));
    }
    let n = bins as usize;
    let step = rounded((high - low) / bins as f64);
    let edge = |i: usize| {
        rounded(if i < n.div_ceil(2) {
            low + step * i as f64
        } else {
            high - step * (n - i) as f64
        })
    };
    Ok((0..=n).map(edge).collect())
}

pub(crate) fn histc(x: &Tensor, bins: i64, min: Scalar, max: Scalar) -> Result<Tensor> {
    ensure_not_implemented!(
        x.dtype().is_floating(),
        "\"histc\" not implemented for {}",
        x.dtype().torch_name()
    );
    ensure!(bins > 0, "torch.histc(): bins must be > 0, but got {bins}");
    let out = Tensor::allocate_contiguous(DType::F64, x.device(), &[bins])?;
    if !out.storage().has_data() {
        return Tensor::allocate_contiguous(x.dtype(), x.device(), &[bins]);
    }
    let values = copy::to_dtype(x, DType::F64)?.to_vec::<f64>()?;
    let (mut low, mut high) = (min.as_f64(), max.as_f64());
    if low == high && !values.is_empty() {
        let nan = values.iter().any(|v| v.is_nan());
        low = values.iter().copied().fold(f64::INFINITY, f64::min);
        high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if nan {
            (low, high) = (f64::NAN, f64::NAN);
        }
    }
    let n = bins as usize;
    let edges = histogram_edges(x.dtype(), bins, low, high)?;
    let mut counts = vec![0f64; n];
    for v in values {
        if v >= edges[0] && v <= edges[n] {
            let bin = edges.partition_point(|e| *e <= v).saturating_sub(1).min(n - 1);
            counts[bin] += 1.0;
        }
    }
    copy::to_dtype(&Tensor::from_slice(&counts, &[bins])?, x.dtype())
}

pub(crate) fn aminmax(x: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<(Tensor, Tensor)> {
    ensure_type!(!x.dtype().is_complex(), "aminmax not implemented for {}", x.dtype().torch_name());
    let dims: Vec<i64> = match dim {
        Some(dim) => {
            let d = wrap_dim(dim, x.dim())?;
            ensure_index!(
                x.sizes().get(d) != Some(&0),
                "aminmax(): Expected reduction dim {d} to have non-zero size."
            );
            vec![dim]
        }
        None if x.numel() == 0 => {
            return Err(Error::runtime(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.",
            ));
        }
        None => (0..x.dim() as i64).collect(),
    };
    Ok((crate::ops::reduce::amin(x, &dims, keepdim)?, crate::ops::reduce::amax(x, &dims, keepdim)?))
}
