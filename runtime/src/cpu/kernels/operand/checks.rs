//! What kernels check of their operands before they touch them.

use super::super::strided::{KernelError, Strided};
use super::In;
use straightline_passes::ir::DType;

/// All operands have the sizes of the first.
#[inline]
pub(crate) fn same_sizes(
    kernel: &'static str,
    operands: &[&Strided<'_>],
) -> Result<(), KernelError> {
    let sizes = operands[0].sizes;
    match operands.iter().all(|o| o.sizes == sizes) {
        true => Ok(()),
        false => Err(KernelError::operands(kernel, "operands of the same sizes")),
    }
}

/// All operands have the dtype of the first.
#[inline]
pub(crate) fn same_dtype(
    kernel: &'static str,
    operands: &[&Strided<'_>],
) -> Result<(), KernelError> {
    let dtype = operands[0].dtype;
    match operands.iter().all(|o| o.dtype == dtype) {
        true => Ok(()),
        false => Err(KernelError::operands(kernel, "operands of the same dtype")),
    }
}

/// The operand has this dtype.
#[inline]
pub(crate) fn has_dtype(
    kernel: &'static str,
    operand: &Strided<'_>,
    dtype: DType,
) -> Result<(), KernelError> {
    match operand.dtype == dtype {
        true => Ok(()),
        false => Err(KernelError::unsupported(kernel, operand.dtype)),
    }
}

/// All operands lie row by row.
#[inline]
pub(crate) fn row_major(
    kernel: &'static str,
    operands: &[&Strided<'_>],
) -> Result<(), KernelError> {
    match operands.iter().all(|o| o.is_contiguous()) {
        true => Ok(()),
        false => Err(KernelError::operands(kernel, "row-major operands")),
    }
}

/// No operand lies on an output.
#[inline]
pub(crate) fn apart(kernel: &'static str, operands: &[In<'_>]) -> Result<(), KernelError> {
    match operands.iter().any(|o| o.is_upon()) {
        false => Ok(()),
        true => Err(KernelError::operands(kernel, "operands apart from its results")),
    }
}

/// Some other requirement of a kernel on its operands.
#[inline]
pub(crate) fn ask(
    kernel: &'static str,
    holds: bool,
    what: &'static str,
) -> Result<(), KernelError> {
    match holds {
        true => Ok(()),
        false => Err(KernelError::operands(kernel, what)),
    }
}

/// `sizes` but that of `dim`, which may be anything: two tensors that differ there alone.
#[inline]
pub(crate) fn same_but(
    kernel: &'static str,
    dim: usize,
    a: &Strided<'_>,
    b: &Strided<'_>,
) -> Result<(), KernelError> {
    let same = a.sizes.len() == b.sizes.len()
        && (0..a.sizes.len()).all(|d| d == dim || a.sizes[d] == b.sizes[d]);
    let dim_exists = dim < a.sizes.len().max(1);
    ask(kernel, same && dim_exists, "operands of the same sizes but for one dimension")
}

/// The sizes of `part` are at most those of `whole`, but for that of `dim`.
#[inline]
pub(crate) fn within(
    kernel: &'static str,
    dim: usize,
    part: &Strided<'_>,
    whole: &Strided<'_>,
) -> Result<(), KernelError> {
    // a tensor without dimensions has one of size 1 to these kernels
    let fits = whole.sizes.is_empty()
        || part.sizes.len() == whole.sizes.len()
            && (0..part.sizes.len()).all(|d| d == dim || part.sizes[d] <= whole.sizes[d]);
    ask(kernel, fits, "sizes within those of what is indexed")?;
    has_dim(kernel, dim, whole)
}

/// `out` has the sizes of `a`, or 1 where a dimension is reduced.
#[inline]
pub(crate) fn reduces(
    kernel: &'static str,
    out: &Strided<'_>,
    a: &Strided<'_>,
) -> Result<(), KernelError> {
    let fits = out.sizes.len() == a.sizes.len()
        && out.sizes.iter().zip(a.sizes).all(|(o, a)| *o == *a || *o == 1);
    ask(kernel, fits, "a result of size 1 where a dimension is reduced")
}

/// The dimension exists; tensors without dimensions have one of size 1 to kernels.
#[inline]
pub(crate) fn has_dim(
    kernel: &'static str,
    dim: usize,
    operand: &Strided<'_>,
) -> Result<(), KernelError> {
    ask(kernel, dim < operand.sizes.len().max(1), "a dimension that its operand has")
}
