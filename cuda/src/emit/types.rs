//! What a dtype is in CUDA C: as it lies in memory, and as a value.

use straightline_passes::ir::{DType, Scalar};

/// How values of a dtype are held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Held {
    Bool,
    /// `int`: the narrow integers, wrapped to their own range after each operation.
    I32,
    I64,
    /// `float`: also the halves, rounded to their own precision.
    F32,
    F64,
}

impl Held {
    pub(super) fn of(dtype: DType) -> Option<Held> {
        Some(match dtype {
            DType::Bool => Held::Bool,
            DType::U8 | DType::I8 | DType::I16 | DType::I32 => Held::I32,
            DType::I64 => Held::I64,
            DType::F16 | DType::BF16 | DType::F32 => Held::F32,
            DType::F64 => Held::F64,
            _ => return None,
        })
    }

    /// The type of a variable.
    pub(super) fn name(self) -> &'static str {
        match self {
            Held::Bool => "bool",
            Held::I32 => "int",
            Held::I64 => "long long",
            Held::F32 => "float",
            Held::F64 => "double",
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Held::F32 | Held::F64)
    }
}

/// The type of an element in memory.
pub(super) fn element(dtype: DType) -> &'static str {
    match dtype {
        DType::I8 => "signed char",
        DType::I16 => "short",
        DType::I32 => "int",
        DType::I64 => "long long",
        DType::F16 | DType::BF16 => "unsigned short",
        DType::F32 => "float",
        DType::F64 => "double",
        // `bool` is a byte that is 0 or 1
        _ => "unsigned char",
    }
}

/// A type of elements that are only moved.
pub(super) fn of_size(bytes: usize) -> &'static str {
    match bytes {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "unsigned int",
        8 => "unsigned long long",
        _ => "ulonglong2",
    }
}

/// An element as a value.
pub(super) fn widened(dtype: DType, e: &str) -> String {
    match dtype {
        DType::Bool => format!("({e} != 0)"),
        DType::F16 => format!("from_f16({e})"),
        DType::BF16 => format!("from_bf16({e})"),
        DType::U8 | DType::I8 | DType::I16 => format!("(int){e}"),
        _ => e.to_string(),
    }
}

/// A value as an element.
pub(super) fn narrowed(dtype: DType, v: &str) -> String {
    match dtype {
        DType::F16 => format!("to_f16({v})"),
        DType::BF16 => format!("to_bf16({v})"),
        _ => format!("({}){v}", element(dtype)),
    }
}

/// A result in the precision of its dtype, or in its range.
pub(super) fn rounded(dtype: DType, v: &str) -> String {
    match dtype {
        DType::F16 => format!("round_f16({v})"),
        DType::BF16 => format!("round_bf16({v})"),
        DType::U8 => format!("(int)(unsigned char)({v})"),
        DType::I8 => format!("(int)(signed char)({v})"),
        DType::I16 => format!("(int)(short)({v})"),
        _ => v.to_string(),
    }
}

/// A number of a dtype, to the bit.
pub(super) fn literal(number: Scalar, dtype: DType) -> String {
    match (number.cast(dtype), Held::of(dtype)) {
        (n, Some(Held::F32)) => {
            let bits = (n.as_f64() as f32).to_bits();
            format!("__uint_as_float(0x{bits:08x}u)")
        }
        (n, Some(Held::F64)) => {
            format!("__longlong_as_double(0x{:016x}ll)", n.as_f64().to_bits())
        }
        (n, Some(Held::I64)) => long(n.as_i64()),
        (n, Some(Held::Bool)) => n.as_bool().to_string(),
        (n, _) => int(n.as_i64() as i32),
    }
}

/// The least number has no literal of its own.
pub(super) fn long(n: i64) -> String {
    match n {
        i64::MIN => format!("({}ll - 1)", i64::MIN + 1),
        n => format!("{n}ll"),
    }
}

fn int(n: i32) -> String {
    match n {
        i32::MIN => format!("({} - 1)", i32::MIN + 1),
        n => n.to_string(),
    }
}

/// The number from which a reduction by the largest (`most` false) or smallest value starts.
pub(super) fn limit(dtype: DType, most: bool) -> Scalar {
    let bounds = match dtype {
        DType::U8 => (0, i64::from(u8::MAX)),
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::I64 => (i64::MIN, i64::MAX),
        DType::Bool => (0, 1),
        _ => return Scalar::Float(if most { f64::INFINITY } else { f64::NEG_INFINITY }),
    };
    Scalar::Int(if most { bounds.1 } else { bounds.0 })
}
