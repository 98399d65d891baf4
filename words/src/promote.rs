//! Type promotion: which dtype an operator computes in, given its operands.
//!
//! PyTorch sorts operands into three priorities - tensors with dimensions, 0-dim tensors, and
//! wrapped numbers (Python scalars) - and a lower priority changes the result only where it is of
//! a higher [`Category`].

use super::{DType, Scalar, default_dtype, dtype::Category};

/// What promotion needs to know about an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Operand {
    /// Its element type (for a wrapped number: `bool`, `i64`, or any floating type).
    pub dtype: DType,
    /// The number of its dimensions.
    pub dims: usize,
    /// Whether it was made from a number: its width does not count, only its kind.
    pub wrapped_number: bool,
}

impl Operand {
    /// A tensor with this many dimensions.
    pub fn tensor(dtype: DType, dims: usize) -> Operand {
        Operand { dtype, dims, wrapped_number: false }
    }

    /// A `Scalar` argument.
    pub fn number(number: Scalar) -> Operand {
        Operand { dtype: number.default_dtype(), dims: 0, wrapped_number: true }
    }
}

fn combine(higher: Option<DType>, lower: Option<DType>) -> Option<DType> {
    match (higher, lower) {
        (None, other) | (other, None) => other,
        // the width of the one above stays
        (Some(h), Some(l)) if h.is_floating() && l.is_complex() => Some(h.to_complex()),
        (Some(h), Some(l)) => {
            let widen = h.category() == Category::Bool
                || (l.category() == Category::Floating && h.category() < Category::Floating)
                || (l.category() == Category::Complex && h.category() != Category::Complex);
            Some(if widen { DType::promote(h, l) } else { h })
        }
    }
}

/// The dtype that the operands promote to; `None` without operands.
///
/// ```
/// use straightline_words::{DType, Scalar, promote::{Operand, result_type}};
/// let x = Operand::tensor(DType::I64, 1);
/// assert_eq!(result_type([x, Operand::number(Scalar::from(1.5))]), Some(DType::F32));
/// let h = Operand::tensor(DType::F16, 2);
/// assert_eq!(result_type([h, Operand::tensor(DType::F64, 0)]), Some(DType::F16));
/// assert_eq!(result_type([h, Operand::tensor(DType::F64, 1)]), Some(DType::F64));
/// ```
pub fn result_type(operands: impl IntoIterator<Item = Operand>) -> Option<DType> {
    let (mut dim, mut zero, mut wrapped) = (None, None, None);
    for op in operands {
        let mut dtype = op.dtype;
        if op.wrapped_number && dtype.is_floating() {
            dtype = default_dtype();
        }
        if op.wrapped_number && dtype.is_complex() {
            dtype = default_dtype().to_complex();
        }
        let slot = if op.dims > 0 {
            &mut dim
        } else if op.wrapped_number {
            &mut wrapped
        } else {
            &mut zero
        };
        *slot = Some(slot.map_or(dtype, |s| DType::promote(s, dtype)));
    }
    combine(dim, combine(zero, wrapped))
}

/// The dtype of functions that are floating point for every input (`exp`, `div`, `sigmoid`, ...):
/// integers and `bool` become the default floating type.
pub fn int_to_float(dtype: DType) -> DType {
    match dtype.is_floating() || dtype.is_complex() {
        true => dtype,
        false => default_dtype(),
    }
}

/// The dtype that `sum` and `prod` return where none is asked for: integers and `bool` become
/// `i64`.
pub const fn accumulated(dtype: DType) -> DType {
    match dtype.is_floating() || dtype.is_complex() {
        true => dtype,
        false => DType::I64,
    }
}

/// Whether `alpha * (a @ b)` reads its factors, in a product of `work` multiplications: BLAS, which
/// PyTorch uses for single and double precision, does not read them if `alpha` is 0, so their
/// infinities and NaN are ignored. PyTorch computes half types and small batched products itself,
/// and reads them.
///
/// ```
/// use straightline_words::{DType, promote::reads_product};
/// assert!(!reads_product(DType::F32, 0.into(), 1000));
/// assert!(reads_product(DType::F16, 0.into(), 1000) && reads_product(DType::F32, 1.into(), 1000));
/// ```
pub fn reads_product(dtype: DType, alpha: Scalar, work: usize) -> bool {
    const BY_BLAS: usize = 400;
    let blas = matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128);
    !blas || work < BY_BLAS || alpha.as_complex() != (0.0, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use DType::*;

    fn t(d: DType) -> Operand {
        Operand::tensor(d, 2)
    }
    fn z(d: DType) -> Operand {
        Operand::tensor(d, 0)
    }
    fn n(s: impl Into<Scalar>) -> Operand {
        Operand::number(s.into())
    }

    #[test]
    fn numbers_change_the_category_only() {
        for (ops, want) in [
            (vec![t(I32), n(1)], I32),
            (vec![t(I32), n(1.0)], F32),
            (vec![t(F16), n(1.0)], F16),
            (vec![t(F64), n(1.0)], F64),
            (vec![t(Bool), n(1)], I64),
            (vec![t(Bool), n(true)], Bool),
            (vec![t(U8), n(true)], U8),
            (vec![n(1), n(2.0)], F32),
            (vec![t(F64), n(Scalar::Complex(0.0, 1.0))], C128),
            (vec![t(F16), n(Scalar::Complex(0.0, 1.0))], C64),
            (vec![t(I64), n(Scalar::Complex(0.0, 1.0))], C64),
            (vec![t(C64), n(1.5)], C64),
            (vec![t(C64), z(F64)], C64),
            (vec![t(F32), z(C128)], C64),
        ] {
            assert_eq!(result_type(ops.iter().copied()), Some(want), "{ops:?}");
        }
    }

    #[test]
    fn zero_dim_tensors_rank_between() {
        for (ops, want) in [
            (vec![t(F32), z(F64)], F32),
            (vec![t(I32), z(F64)], F64),
            (vec![t(I32), z(I64)], I32),
            (vec![z(I32), z(I64)], I64),
            (vec![z(I32), n(1)], I32),
            (vec![z(F16), n(1.0)], F16),
            (vec![t(Bool), z(U8)], U8),
            (vec![t(F16), t(BF16)], F32),
        ] {
            assert_eq!(result_type(ops.iter().copied()), Some(want), "{ops:?}");
        }
    }

    #[test]
    fn nothing_promotes_to_nothing() {
        assert_eq!(result_type([]), None);
    }
}
