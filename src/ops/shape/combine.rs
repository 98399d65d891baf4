//! Tensors out of several or of parts: products and combinations, sequences of unequal lengths, and
//! what the names with `h`, `v` and `d` split.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Scalar};

/// Every way to take one element of each.
pub(crate) fn cartesian_prod(tensors: &[Tensor]) -> Result<Tensor> {
    for t in tensors {
        ensure_shape!(t.dim() == 1, "Expect a 1D vector, but got shape {:?}", t.sizes());
    }
    match tensors {
        [] => Err(Error::runtime("cartesian_prod expects a non-empty list of tensors")),
        [one] => Ok(one.clone()),
        _ => {
            let grids = aten::meshgrid(tensors)?;
            let columns: Result<Vec<Tensor>> =
                grids.iter().map(|g| aten::reshape(g, &[-1])).collect();
            aten::stack(&columns?, 1)
        }
    }
}

/// Every way to take `r` elements in their order, a row each.
pub(crate) fn combinations(t: &Tensor, r: i64, with_replacement: bool) -> Result<Tensor> {
    ensure_shape!(t.dim() == 1, "Expect a 1D vector, but got shape {:?}", t.sizes());
    ensure!(r >= 0, "Expect a non-negative number, but got {r}");
    if r == 0 {
        return aten::new_empty(t, &[0], None, None, None, None);
    }
    let n = t.sizes()[0];
    let mut rows = Vec::new();
    let step = i64::from(!with_replacement);
    // as an odometer that never turns back below its neighbour
    let mut at: Vec<i64> = (0..r).map(|i| i * step).collect();
    while at.last().is_some_and(|last| *last < n) {
        if rows.try_reserve(at.len()).is_err() {
            return Err(Error::runtime(format!("no memory for the combinations of {r} of {n}")));
        }
        rows.extend_from_slice(&at);
        let high = |i: usize| n - 1 - (at.len() - 1 - i) as i64 * step;
        let Some(turn) = (0..at.len()).rev().find(|i| at[*i] < high(*i)) else { break };
        at[turn] += 1;
        for i in turn + 1..at.len() {
            at[i] = at[i - 1] + step;
        }
    }
    let index = Tensor::from_vec(rows, -1)?;
    let index = if t.device().is_cpu() { index } else { index.to_device(t.device())? };
    aten::reshape(&aten::index_select(t, 0, &index)?, &[-1, r])
}

/// Sequences that may differ in their first size, with the same value behind the short ones.
pub(crate) fn pad_sequence(
    sequences: &[Tensor],
    batch_first: bool,
    value: f64,
    side: &str,
) -> Result<Tensor> {
    ensure!(!sequences.is_empty(), "received an empty list of sequences");
    ensure!(
        side == "left" || side == "right",
        "padding_side should be one of 'left' or 'right', but got {side}"
    );
    ensure_shape!(
        sequences.iter().all(|s| s.dim() > 0),
        "pad_sequence: a sequence has at least one dimension"
    );
    let longest = sequences.iter().map(|s| s.sizes()[0]).max().unwrap_or(0);
    let padded: Result<Vec<Tensor>> = sequences
        .iter()
        .map(|s| {
            let missing = longest - s.sizes()[0];
            let mut padding = vec![0; 2 * s.dim()];
            padding[2 * s.dim() - 2 + usize::from(side == "right")] = missing;
            aten::constant_pad_nd(s, &padding, Scalar::Float(value))
        })
        .collect();
    aten::stack(&padded?, i64::from(!batch_first))
}

pub(crate) fn expands_to(small: &[i64], large: &[i64]) -> bool {
    small.len() <= large.len()
        && small.iter().rev().zip(large.iter().rev()).all(|(s, l)| s == l || *s == 1)
}

/// The sum over what was broadcast to get these sizes.
pub(crate) fn sum_to_size(t: &Tensor, size: &[i64]) -> Result<Tensor> {
    if !expands_to(size, t.sizes()) {
        return Err(Error::shape(format!(
            "size {{{size:?}}} is not expandable to size {{{:?}}}.",
            t.sizes()
        )));
    }
    sum_to(t, size)
}

/// The sum over the dimensions along which `sizes` was expanded.
pub(crate) fn sum_to(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if sizes.is_empty() {
        return aten::sum(grad, None);
    }
    let leading = grad.dim() - sizes.len();
    let mut dims: Vec<i64> = (0..leading as i64).collect();
    for (i, s) in sizes.iter().enumerate() {
        if *s == 1 && grad.sizes()[leading + i] != 1 {
            dims.push((leading + i) as i64);
        }
    }
    let summed = if dims.is_empty() {
        grad.clone()
    } else {
        aten::sum_dim_int_list(grad, Some(&dims), true, None)?
    };
    match leading {
        0 => Ok(summed),
        _ => aten::view(&summed, sizes),
    }
}

/// The value on the diagonal; with `wrap` again below it where a matrix is tall.
pub(crate) fn fill_diagonal_(t: &Tensor, value: Scalar, wrap: bool) -> Result<Tensor> {
    ensure_shape!(t.dim() >= 2, "dimensions must larger than 1");
    let (height, width) = (t.sizes()[0], t.sizes()[1]);
    if t.dim() > 2 {
        ensure_shape!(
            t.sizes().iter().all(|n| *n == height),
            "all dimensions of input must be of equal length"
        );
    }
    let stride = t.strides().iter().sum();
    let fill = |size: i64, offset: i64| {
        let offset = t.storage_offset() + offset;
        let diagonal = aten::as_strided(t, &[size], &[stride], Some(offset))?;
        aten::fill_scalar_(&diagonal, value)
    };
    let size = height.min(width);
    fill(size, 0)?;
    let step = width + 1;
    if wrap && t.dim() == 2 && height > step {
        let all = (t.numel() + step - 1) / step;
        fill(all - size, t.strides()[0] * step)?;
    }
    Ok(t.clone())
}

// ---- splits -----------------------------------------------------------------------------------

/// The dimension that a split is along, and checks.
fn split_along(
    t: &Tensor,
    name: &str,
    least: usize,
    dim: usize,
    sections: Option<i64>,
) -> Result<i64> {
    ensure_shape!(
        t.dim() >= least,
        "torch.{name} requires a tensor with at least {least} dimension{}, but got a tensor with {} \
         dimensions!",
        if least == 1 { "" } else { "s" },
        t.dim()
    );
    let dim = dim.min(t.dim() - 1);
    if let Some(n) = sections {
        ensure!(
            n > 0 && t.sizes()[dim] % n == 0,
            "torch.{name} attempted to split along dimension {dim}, but the size of the dimension {} is \
             not divisible by the split_size {n}!",
            t.sizes()[dim]
        );
    }
    Ok(dim as i64)
}

macro_rules! splits {
    ($($by_number:ident $by_indices:ident $name:literal $least:literal $dim:literal),*) => {$(
        pub(crate) fn $by_number(t: &Tensor, sections: i64) -> Result<Vec<Tensor>> {
            let dim = split_along(t, $name, $least, $dim, Some(sections))?;
            aten::tensor_split_sections(t, sections, dim)
        }

        pub(crate) fn $by_indices(t: &Tensor, indices: &[i64]) -> Result<Vec<Tensor>> {
            let dim = split_along(t, $name, $least, $dim, None)?;
            aten::tensor_split_indices(t, indices, dim)
        }
    )*};
}
splits!(
    hsplit_int hsplit_array "hsplit" 1 1,
    vsplit_int vsplit_array "vsplit" 2 0,
    dsplit_int dsplit_array "dsplit" 3 2
);

/// By a number of parts or by places, which a tensor of integers on the CPU tells.
pub(crate) fn tensor_split_tensor(t: &Tensor, by: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(
        t.dim() > 0,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
    );
    ensure_dtype!(
        by.dtype() == DType::I64,
        "tensor_split expected tensor_indices_or_sections to have dtype of long, but got {}",
        by.dtype()
    );
    match by.dim() {
        0 => aten::tensor_split_sections(t, aten::item(by)?.as_i64(), dim),
        1 => aten::tensor_split_indices(t, &by.to_vec::<i64>()?, dim),
        n => Err(Error::shape(format!(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or \
             one-dimensional tensor, but got a tensor with {n} dims"
        ))),
    }
}

/// Where a number is chosen for each element.
pub(crate) fn where_scalars(condition: &Tensor, yes: Scalar, no: Scalar) -> Result<Tensor> {
    let dtype = DType::promote(yes.default_dtype(), no.default_dtype());
    let number = |s| aten::scalar_tensor(s, Some(dtype), None, Some(condition.device()), None);
    aten::where_self(condition, &number(yes)?, &number(no)?)
}
