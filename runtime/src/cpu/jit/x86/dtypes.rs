//! Dtypes as lanes have them: how wide, how in memory, how reduced.

use super::ir::{Fold, FoldOp, Format};
use super::vectors::Width;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::ReduceOp;

/// The width of narrow lanes that hold values of these dtypes, if they do.
pub(super) fn narrow_width(dtypes: impl Iterator<Item = DType>) -> Option<Width> {
    let sizes = dtypes.filter(|d| *d != DType::Bool).map(DType::size);
    let (least, most) = sizes.fold((usize::MAX, 0), |(a, b), n| (a.min(n), b.max(n)));
    match (least, most) {
        (_, 0 | 1) => Some(Width::W8),
        (2, 2) => Some(Width::W16),
        _ => None,
    }
}

/// The width of lanes that hold values of these dtypes.
pub(super) fn width_of(mut dtypes: impl Iterator<Item = DType>) -> Width {
    match dtypes.any(|d| d.size() == 8) {
        true => Width::W64,
        false => Width::W32,
    }
}

/// Whether lanes of a width hold values of a dtype.
pub(super) fn fits(dtype: DType, width: Width) -> bool {
    match dtype {
        DType::Bool => true,
        DType::F64 | DType::I64 => width == Width::W64,
        DType::F32 | DType::I32 => width == Width::W32,
        DType::F16 | DType::BF16 | DType::I16 => matches!(width, Width::W16 | Width::W32),
        DType::I8 | DType::U8 => matches!(width, Width::W8 | Width::W32),
        _ => false,
    }
}

/// Whether elements of a dtype that lanes of a width do not hold are read into them.
pub(super) fn widens(dtype: DType, width: Width) -> bool {
    matches!(dtype, DType::I32 | DType::I16 | DType::I8 | DType::U8) && width == Width::W64
}

/// How elements of a dtype are in memory.
pub(super) fn format(dtype: DType) -> Format {
    match dtype {
        DType::U8 | DType::Bool => Format::Byte,
        DType::I8 => Format::SignedByte,
        DType::I16 => Format::SignedWord,
        DType::BF16 => Format::Word,
        DType::F16 => Format::Half,
        _ => Format::Lanes,
    }
}

/// How a reduction to a dtype takes an element in.
pub(super) fn fold_of(op: ReduceOp, dtype: DType) -> Option<Fold> {
    use ReduceOp::{All, Any, Max, Min, Prod, Sum};
    if dtype == DType::Bool {
        let (op, start) = match op {
            Any | Max => (FoldOp::Or, 0),
            All | Min => (FoldOp::And, 1),
            Sum | Prod => return None,
        };
        return Some(Fold { op, int: true, start });
    }
    let (least, most) = match dtype {
        DType::U8 => (0, 255),
        DType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        DType::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    let (op, float, int) = match op {
        Sum => (FoldOp::Sum, 0.0, 0),
        Prod => (FoldOp::Prod, 1.0, 1),
        Max => (FoldOp::Max, f64::NEG_INFINITY, least),
        Min => (FoldOp::Min, f64::INFINITY, most),
        Any | All => return None,
    };
    let start = match dtype {
        DType::F64 => f64::to_bits(float),
        d if d.is_floating() => (float as f32).to_bits().into(),
        _ => int as u64,
    };
    Some(Fold { op, int: !dtype.is_floating(), start })
}

/// How the position of the first largest (smallest) element is found.
pub(super) fn arg_fold_of(max: bool, dtype: DType) -> Option<Fold> {
    let (like, op) = match max {
        true => (ReduceOp::Max, FoldOp::ArgMax),
        false => (ReduceOp::Min, FoldOp::ArgMin),
    };
    Some(Fold { op, ..fold_of(like, dtype)? })
}
