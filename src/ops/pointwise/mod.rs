//! Element-wise operators: arithmetic, comparison, mathematics, `where`, `clamp`.
//!
//! Each function here is the CPU kernel and, on tensors without data, the shape function: it
//! allocates its result and runs the raw kernel if there is memory to run on. The arithmetic itself
//! is in the runtime's kernels, which share their vocabulary (`UnaryOp`, `BinaryOp` ...) and
//! their mathematics with the code generator.
//!
//! | file | what |
//! |---|---|
//! | `unary` | functions of one operand |
//! | `binary` | arithmetic and bits of two operands |
//! | `power` | powers and logic |
//! | `select` | comparison, `where`, masks, clamping |
//! | `formula` | operators whose arithmetic is a formula, by the table of `passes`; those that check more are in `activation` and `arithmetic` |
//! | `special`, `integer`, `polynomials` | special functions, `gcd` and shifts, orthogonal polynomials |
//! | `complex`, `complex_functions` | parts of complex numbers, angles, inner products; what formulas do not say of them |
//! | `compare` | `equal`, `isclose`, `allclose` |

pub(crate) mod activation;
pub(crate) mod arithmetic;
mod binary;
pub(crate) mod compare;
pub(crate) mod complex;
pub(crate) mod complex_functions;
pub(crate) mod formula;
pub(crate) mod integer;
pub(crate) mod polynomials;
pub(crate) mod power;
mod select;
pub(crate) mod special;
mod unary;

pub(crate) use binary::*;
pub(crate) use power::*;
pub(crate) use select::*;
pub(crate) use unary::*;

use crate::error::Result;
use crate::ops::common::{broadcast, check_devices, result_strides, result_strides_with_number};
use crate::ops::copy;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Dims, layout};
use straightline_runtime::cpu::kernels::{In, Out};

/// A result tensor for element-wise operands, in PyTorch's layout.
pub(super) fn result(sizes: Dims, dtype: DType, operands: &[&Tensor]) -> Result<Tensor> {
    let strides = result_strides(&sizes, operands);
    result_with_strides(sizes, strides, dtype, operands)
}

/// [`result`] of a tensor and a number.
pub(super) fn result_with_number(a: &Tensor, dtype: DType) -> Result<Tensor> {
    let strides = result_strides_with_number(a.sizes(), &[a]);
    result_with_strides(Dims::from_slice(a.sizes()), strides, dtype, &[a])
}

fn result_with_strides(
    sizes: Dims,
    strides: Dims,
    dtype: DType,
    operands: &[&Tensor],
) -> Result<Tensor> {
    let device = operands
        .iter()
        .find(|t| t.dim() > 0 || !t.device().is_cpu())
        .unwrap_or(&operands[0])
        .device();
    Tensor::allocate(dtype, device, sizes, strides)
}

pub(super) fn zeros(rank: usize) -> Dims {
    layout::filled(0, rank)
}

/// Runs `f` on operands that broadcast, in their common dtype.
fn zip_with(
    a: &Tensor,
    b: &Tensor,
    dtype: DType,
    kernel: impl for<'g> FnOnce(Out<'g>, [In<'g>; 2]) -> Result<()>,
) -> Result<Tensor> {
    check_devices(&[a, b])?;
    let mut out = result(broadcast(&[a, b])?, dtype, &[a, b])?;
    if out.storage().has_data() {
        let (a, b) = (cast(a, dtype)?, cast(b, dtype)?);
        launch::elementwise(&mut out, [&a, &b], kernel)?;
    }
    Ok(out)
}

/// The operand in another dtype; wrapped numbers and 0-dim tensors too.
pub(super) fn cast(t: &Tensor, dtype: DType) -> Result<Tensor> {
    if t.dtype() == dtype { Ok(t.clone()) } else { copy::to_dtype(t, dtype) }
}
