//! Derivatives of embeddings, and bags of embeddings.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::copy;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::DType;
use straightline_runtime::cpu::kernels::RowMajor;
use straightline_runtime::cpu::kernels::bags::{self, Bags, Mode};

fn check_index(index: &Tensor, name: &str) -> Result<()> {
    if matches!(index.dtype(), DType::I64 | DType::I32) {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "Expected tensor for argument '{name}' to have one of the following scalar types: Long, Int; but got {}",
        index.dtype().torch_name()
    )))
}

/// The values of an index tensor.
fn numbers(index: &Tensor) -> Result<Vec<i64>> {
    copy::to_dtype(index, DType::I64)?.to_vec::<i64>()
}

pub(crate) fn embedding_dense_backward(
    grad: &Tensor,
    indices: &Tensor,
    num_weights: i64,
    padding_idx: i64,
    scale_grad_by_freq: bool,
) -> Result<Tensor> {
    check_index(indices, "indices")?;
    let Some(width) = grad.sizes().last().copied() else {
        return Err(Error::runtime(
            "embedding_dense_backward: the gradient has no dimension of features",
        ));
    };
    let sizes = [num_weights, width];
    crate::ops::common::check_sizes(&sizes)?;
    let grad_dtype = grad.dtype();
    let wide = match grad_dtype {
        DType::Bool => DType::I64,
        other => other.opmath(),
    };
    let n = indices.numel();
    ensure!(
        n.checked_mul(width) == Some(grad.numel()),
        "embedding_dense_backward: {n} indices and a gradient of sizes {:?}",
        grad.sizes()
    );
    let mut out = Tensor::allocate_contiguous(wide, grad.device(), &sizes)?;
    if out.storage().has_data() {
        copy::zero_(&out)?;
        // PyTorch looks for the indices of each row of the result: others are in none
        let there = |row: i64| match (0..num_weights).contains(&row) {
            true => row,
            false => padding_idx,
        };
        let rows: Vec<i64> = numbers(indices)?.into_iter().map(there).collect();
        let grad = copy::to_contiguous(&copy::to_dtype(grad, wide)?)?;
        // of truth values every share is true
        let by_frequency = scale_grad_by_freq && grad_dtype != DType::Bool;
        let shares = RowMajor::new([n, width]);
        launch::run(&mut out, &grad, |out, grad| {
            let grad = shares.input(grad)?;
            Ok(bags::add_rows(out, grad, &rows, padding_idx, by_frequency)?)
        })?;
    }
    copy::to_dtype(&out, grad_dtype)
}

fn no_sparse(sparse: bool) -> Result<()> {
    ensure_not_implemented!(
        !sparse,
        "embedding: sparse gradients are not supported; use sparse=False"
    );
    Ok(())
}

pub(crate) fn embedding_backward(
    grad: &Tensor,
    indices: &Tensor,
    num_weights: i64,
    padding_idx: i64,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Result<Tensor> {
    no_sparse(sparse)?;
    aten::embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
}

fn mode_of(mode: i64) -> Result<Mode> {
    match mode {
        0 => Ok(Mode::Sum),
        1 => Ok(Mode::Mean),
        2 => Ok(Mode::Max),
        other => Err(Error::runtime(format!(
            "embedding_bag: mode must be 0 (sum), 1 (mean) or 2 (max), got {other}"
        ))),
    }
}

/// Both in one dtype: the wider of the two.
fn same_dtype(indices: &Tensor, offsets: &Tensor) -> Result<(Tensor, Tensor)> {
    let dtype = DType::promote(indices.dtype(), offsets.dtype());
    Ok((copy::to_dtype(indices, dtype)?, copy::to_dtype(offsets, dtype)?))
}

type BagResults = (Tensor, Tensor, Tensor, Tensor);

macro_rules! embedding_bags {
    ($($name:ident $for_backward:literal),*) => {$(
        #[allow(clippy::too_many_arguments, reason = "the schema's")]
        pub(crate) fn $name(
            weight: &Tensor,
            indices: &Tensor,
            offsets: &Tensor,
            _scale_grad_by_freq: bool,
            mode: i64,
            _sparse: bool,
            per_sample: Option<&Tensor>,
            include_last_offset: bool,
            padding_idx: i64,
        ) -> Result<BagResults> {
            let bags = (per_sample, include_last_offset, padding_idx);
            bags_of(weight, indices, offsets, mode, bags, $for_backward)
        }
    )*};
}
embedding_bags!(embedding_bag_impl true, embedding_bag_forward_only false);

fn bags_of(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    mode: i64,
    (per_sample, include_last_offset, padding_idx): (Option<&Tensor>, bool, i64),
    for_backward: bool,
) -> Result<BagResults> {
    let mode = mode_of(mode)?;
    for (t, rank, name) in [(weight, 2, "weight"), (indices, 1, "indices"), (offsets, 1, "offsets")]
    {
        ensure!(
            t.dim() == rank,
            "embedding_bag: {name} has to be a {rank}D Tensor, but got Tensor of dimension {}",
            t.dim()
        );
    }
    check_index(indices, "indices")?;
    check_index(offsets, "offsets")?;
    ensure_dtype!(
        weight.dtype().is_floating(),
        "Expected tensor for argument 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; but got {}",
        weight.dtype().torch_name()
    );
    if let Some(s) = per_sample {
        ensure!(
            mode == Mode::Sum,
            "embedding_bag: per_sample_weights only supported with mode='sum'"
        );
        ensure_dtype!(
            s.dtype() == weight.dtype(),
            "expected weight ({}) and per_sample_weights ({}) to have the same scalar type",
            weight.dtype().torch_name(),
            s.dtype().torch_name()
        );
        ensure!(
            s.dim() == 1 && s.numel() == indices.numel(),
            "embedding_bag: per_sample_weights must be a vector as long as indices, got {:?} and {:?}",
            s.sizes(),
            indices.sizes()
        );
    }
    ensure!(
        !include_last_offset || offsets.numel() >= 1,
        "include_last_offset: number of offset should be at least 1"
    );
    let (indices, offsets) = same_dtype(indices, offsets)?;
    let bags = offsets.numel() - i64::from(include_last_offset);
    let (n, width) = (indices.numel(), weight.sizes()[1]);
    let device = weight.device();
    let out = Tensor::allocate_contiguous(weight.dtype(), device, &[bags, width])?;
    // PyTorch's fast path for sums has no use for the bag of each index, and does not say it
    let fast = mode == Mode::Sum
        && weight.dtype() != DType::F64
        && weight.strides()[1] == 1
        && padding_idx < 0
        && per_sample.is_none_or(|s| s.strides()[0] == 1);
    let bag_of = Tensor::allocate_contiguous(offsets.dtype(), device, &[if fast { 0 } else { n }])?;
    // sums need no sizes of bags but for a backward pass, and PyTorch then leaves as many as there
    // are offsets
    let told = match mode {
        Mode::Sum if !for_backward => offsets.numel(),
        _ => bags,
    };
    let bag_sizes = Tensor::allocate_contiguous(offsets.dtype(), device, &[told])?;
    let maximum_sizes = match mode {
        Mode::Max => [bags, width].to_vec(),
        _ => [told].to_vec(),
    };
    let maxima = Tensor::allocate_contiguous(offsets.dtype(), device, &maximum_sizes)?;
    if !out.storage().has_data() {
        return Ok((out, bag_of, bag_sizes, maxima));
    }
    let starts = numbers(&offsets)?;
    if let Some(first) = starts.first()
        && *first != 0
    {
        return Err(Error::runtime(format!(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {first}"
        )));
    }
    ensure!(
        starts.windows(2).all(|w| w[0] <= w[1]) && starts.last().is_none_or(|l| *l <= n),
        "offsets must not decrease, and offsets[-1] can not be greater than input's length({n})"
    );
    let wide = weight.dtype().opmath();
    let rows = numbers(&indices)?;
    let factors = per_sample.map(|s| copy::to_dtype(s, DType::F64)?.to_vec::<f64>()).transpose()?;
    let table = copy::to_contiguous(&copy::to_dtype(weight, wide)?)?;
    let mut sums = Tensor::allocate_contiguous(wide, device, &[bags, width])?;
    let given = Bags {
        rows: &rows,
        starts: &starts[..bags as usize],
        factors: factors.as_deref(),
        padding: padding_idx,
        end: match include_last_offset {
            true => starts[bags as usize] as usize,
            false => n as usize,
        },
    };
    let found = launch::run(&mut sums, &table, |sums, table| {
        Ok(bags::forward(mode, sums, table, &given)?)
    })?;
    copy::copy_(&out, &sums, false)?;
    let put = |to: &Tensor, from: &[i64]| -> Result<()> {
        let mut from = from.to_vec();
        from.resize(to.numel() as usize, 0);
        copy::copy_(to, &Tensor::from_slice(&from, to.sizes())?, false).map(drop)
    };
    if !fast {
        put(&bag_of, &bags::bag_of_each(&starts, rows.len()))?;
    }
    put(&bag_sizes, &found.sizes)?;
    put(&maxima, &found.maxima)?;
    Ok((out, bag_of, bag_sizes, maxima))
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn embedding_bag(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample: Option<&Tensor>,
    include_last_offset: bool,
) -> Result<BagResults> {
    embedding_bag_padding_idx(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample,
        include_last_offset,
        None,
    )
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn embedding_bag_padding_idx(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample: Option<&Tensor>,
    include_last_offset: bool,
    padding_idx: Option<i64>,
) -> Result<BagResults> {
    let mut padding = -1;
    if let Some(p) = padding_idx {
        let rows = weight.sizes().first().copied().unwrap_or(0);
        if p < -rows || p >= rows {
            return Err(Error::runtime(format!(
                "padding_idx must be within the number of embeddings, -{rows} through {}, but got {p}",
                rows - 1
            )));
        }
        padding = if p < 0 { p + rows } else { p };
    }
    let f = if weight.requires_grad() {
        aten::_embedding_bag
    } else {
        aten::_embedding_bag_forward_only
    };
    f(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample,
        include_last_offset,
        padding,
    )
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn embedding_bag_backward(
    grad: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    bag_of: &Tensor,
    bag_sizes: &Tensor,
    maxima: &Tensor,
    num_weights: i64,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample: Option<&Tensor>,
    padding_idx: i64,
) -> Result<Tensor> {
    no_sparse(sparse)?;
    check_index(indices, "indices")?;
    check_index(offsets, "offsets")?;
    let (indices, offsets) = same_dtype(indices, offsets)?;
    let mut bag_of = bag_of.clone();
    if bag_of.numel() == 0 && indices.numel() != 0 && offsets.storage().has_data() {
        let each = bags::bag_of_each(&numbers(&offsets)?, indices.numel() as usize);
        bag_of = Tensor::from_slice(&each, &[each.len() as i64])?;
    }
    embedding_bag_dense_backward(
        grad,
        &indices,
        &bag_of,
        bag_sizes,
        maxima,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample,
        padding_idx,
    )
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn embedding_bag_dense_backward(
    grad: &Tensor,
    indices: &Tensor,
    bag_of: &Tensor,
    bag_sizes: &Tensor,
    maxima: &Tensor,
    num_weights: i64,
    scale_grad_by_freq: bool,
    mode: i64,
    per_sample: Option<&Tensor>,
    padding_idx: i64,
) -> Result<Tensor> {
    let mode = mode_of(mode)?;
    ensure!(
        grad.dtype().is_floating() && grad.dim() == 2,
        "embedding_bag: the gradient must be a matrix of floats, got {} {:?}",
        grad.dtype().torch_name(),
        grad.sizes()
    );
    let sizes = [num_weights, grad.sizes()[1]];
    crate::ops::common::check_sizes(&sizes)?;
    let wide = grad.dtype().opmath();
    let mut out = Tensor::allocate_contiguous(wide, grad.device(), &sizes)?;
    if out.storage().has_data() {
        copy::zero_(&out)?;
        let (rows, bag_of) = (numbers(indices)?, numbers(bag_of)?);
        let (bag_sizes, maxima) = (numbers(bag_sizes)?, numbers(maxima)?);
        let factors =
            per_sample.map(|s| copy::to_dtype(s, DType::F64)?.to_vec::<f64>()).transpose()?;
        let grad = copy::to_contiguous(&copy::to_dtype(grad, wide)?)?;
        let saved = bags::Saved {
            rows: &rows,
            bag_of: &bag_of,
            sizes: &bag_sizes,
            maxima: &maxima,
            factors: factors.as_deref(),
            padding: padding_idx,
            by_frequency: scale_grad_by_freq,
        };
        launch::run(&mut out, &grad, |out, grad| Ok(bags::backward(mode, out, grad, &saved)?))?;
    }
    copy::to_dtype(&out, grad.dtype())
}
