//! The instructions of a body as expressions of CUDA C.

use super::types::{Held, literal, rounded};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{BinaryOp, CompareOp, ReduceOp, UnaryOp};

/// A function that has a name of its own for `float`.
fn named(name: &str, held: Held, arguments: &str) -> String {
    match held {
        Held::F32 => format!("{name}f({arguments})"),
        _ => format!("{name}({arguments})"),
    }
}

/// A conversion: a float becomes an integer by truncation, anything a truth value by `!= 0`.
pub(super) fn cast(v: &str, from: DType, to: DType) -> String {
    let (held, target) = (Held::of(from), Held::of(to));
    if from == to {
        return v.to_string();
    }
    let is_float = held.is_some_and(Held::is_float);
    let converted = match target {
        Some(Held::Bool) => return format!("({v} != 0)"),
        // one rounding for the halves of what is wider: through `float`, as the eager copy does
        Some(Held::F32) => format!("(float)({v})"),
        Some(Held::F64) => format!("(double)({v})"),
        Some(Held::I64) => format!("(long long)({v})"),
        // by way of the widest integer, so that it wraps as a wider number does
        _ if is_float => format!("(int)(long long)({v})"),
        _ => format!("(int)({v})"),
    };
    rounded(to, &converted)
}

/// A function of one value of a dtype.
pub(super) fn unary(op: UnaryOp, x: &str, dtype: DType) -> String {
    let held = Held::of(dtype).unwrap_or(Held::F32);
    let call = |name: &str| named(name, held, x);
    let is_float = held.is_float();
    let value = match op {
        UnaryOp::IsNan => return if is_float { format!("({x} != {x})") } else { "false".into() },
        UnaryOp::IsInf if is_float => return format!("(bool)isinf({x})"),
        UnaryOp::IsInf => return "false".into(),
        UnaryOp::LogicalNot => return format!("({x} == 0)"),
        UnaryOp::BitwiseNot if held == Held::Bool => return format!("(!{x})"),
        UnaryOp::BitwiseNot => format!("~{x}"),
        UnaryOp::Neg if is_float => format!("-{x}"),
        UnaryOp::Neg if held == Held::I64 => format!("(long long)(0ull - (unsigned long long){x})"),
        UnaryOp::Neg => format!("(int)(0u - (unsigned){x})"),
        UnaryOp::Abs if is_float => call("fabs"),
        UnaryOp::Abs => {
            let negated = unary(UnaryOp::Neg, x, dtype);
            format!("({x} < 0 ? {negated} : {x})")
        }
        UnaryOp::Sign => format!("sign_of({x})"),
        UnaryOp::Relu => format!("larger({x}, {})", literal(0i64.into(), dtype)),
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc if !is_float => x.into(),
        UnaryOp::Floor => call("floor"),
        UnaryOp::Ceil => call("ceil"),
        UnaryOp::Round => call("rint"),
        UnaryOp::Trunc => call("trunc"),
        UnaryOp::Sqrt => call("sqrt"),
        UnaryOp::Rsqrt => format!("({one} / {})", call("sqrt"), one = literal(1i64.into(), dtype)),
        UnaryOp::Reciprocal => format!("({} / {x})", literal(1i64.into(), dtype)),
        UnaryOp::Sigmoid => format!("sigmoid_of({x})"),
        UnaryOp::Silu => {
            let one = literal(1i64.into(), dtype);
            format!("({x} / ({one} + {}))", named("exp", held, &format!("-{x}")))
        }
        UnaryOp::GeluErf => format!("gelu_erf({x})"),
        UnaryOp::GeluTanh => format!("gelu_tanh({x})"),
        UnaryOp::Exp
        | UnaryOp::Exp2
        | UnaryOp::Expm1
        | UnaryOp::Log
        | UnaryOp::Log2
        | UnaryOp::Log10
        | UnaryOp::Log1p
        | UnaryOp::Sin
        | UnaryOp::Cos
        | UnaryOp::Tan
        | UnaryOp::Asin
        | UnaryOp::Acos
        | UnaryOp::Atan
        | UnaryOp::Sinh
        | UnaryOp::Cosh
        | UnaryOp::Asinh
        | UnaryOp::Acosh
        | UnaryOp::Atanh
        | UnaryOp::Tanh
        | UnaryOp::Erf
        | UnaryOp::Erfc => call(op.name()),
    };
    rounded(dtype, &format!("({value})"))
}

/// Arithmetic of integers that wraps.
fn wrapping(op: &str, a: &str, b: &str, held: Held) -> String {
    match held {
        Held::I64 => format!("(long long)((unsigned long long){a} {op} (unsigned long long){b})"),
        _ => format!("(int)((unsigned){a} {op} (unsigned){b})"),
    }
}

/// A function of two values of a dtype.
pub(super) fn binary(op: BinaryOp, a: &str, b: &str, dtype: DType) -> String {
    let held = Held::of(dtype).unwrap_or(Held::F32);
    let is_float = held.is_float();
    if held == Held::Bool {
        let sign = match op {
            BinaryOp::LogicalAnd | BinaryOp::BitwiseAnd | BinaryOp::Minimum | BinaryOp::Mul => "&",
            BinaryOp::LogicalXor | BinaryOp::BitwiseXor => "^",
            _ => "|",
        };
        return format!("(bool)({a} {sign} {b})");
    }
    let bits = dtype.size() * 8;
    let value = match op {
        BinaryOp::Add if is_float => format!("{a} + {b}"),
        BinaryOp::Sub if is_float => format!("{a} - {b}"),
        BinaryOp::Mul if is_float => format!("{a} * {b}"),
        BinaryOp::Add => wrapping("+", a, b, held),
        BinaryOp::Sub => wrapping("-", a, b, held),
        BinaryOp::Mul => wrapping("*", a, b, held),
        BinaryOp::Div => format!("{a} / {b}"),
        BinaryOp::TruncDiv if is_float => named("trunc", held, &format!("{a} / {b}")),
        BinaryOp::TruncDiv => format!("trunc_div({a}, {b})"),
        BinaryOp::FloorDiv if is_float => format!("floor_div_float({a}, {b})"),
        BinaryOp::FloorDiv => format!("floor_div_int({a}, {b})"),
        BinaryOp::Fmod if is_float => named("fmod", held, &format!("{a}, {b}")),
        BinaryOp::Fmod => format!("trunc_rem({a}, {b})"),
        BinaryOp::Remainder if is_float => format!("remainder_float({a}, {b})"),
        BinaryOp::Remainder => format!("floor_rem_int({a}, {b})"),
        BinaryOp::Pow if is_float => named("pow", held, &format!("{a}, {b}")),
        BinaryOp::Pow => format!("power_int({a}, {b})"),
        BinaryOp::Atan2 => named("atan2", held, &format!("{a}, {b}")),
        BinaryOp::Maximum => format!("larger({a}, {b})"),
        BinaryOp::Minimum => format!("smaller({a}, {b})"),
        BinaryOp::BitwiseAnd => format!("{a} & {b}"),
        BinaryOp::BitwiseOr => format!("{a} | {b}"),
        BinaryOp::BitwiseXor => format!("{a} ^ {b}"),
        BinaryOp::LogicalAnd => return format!("({a} != 0 && {b} != 0)"),
        BinaryOp::LogicalOr => return format!("({a} != 0 || {b} != 0)"),
        BinaryOp::LogicalXor => return format!("(({a} != 0) != ({b} != 0))"),
        BinaryOp::ShiftLeft => format!("shift_left({a}, {b}, {bits})"),
        BinaryOp::ShiftRight => format!("shift_right({a}, {b}, {bits}, {})", dtype != DType::U8),
    };
    rounded(dtype, &format!("({value})"))
}

pub(super) fn compare(op: CompareOp, a: &str, b: &str) -> String {
    let sign = match op {
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
    };
    format!("({a} {sign} {b})")
}

/// A step of a reduction, of values of the dtype that it accumulates in.
pub(super) fn reduced(op: ReduceOp, total: &str, v: &str, dtype: DType) -> String {
    match op {
        ReduceOp::Sum => binary(BinaryOp::Add, total, v, dtype),
        ReduceOp::Prod => binary(BinaryOp::Mul, total, v, dtype),
        ReduceOp::Max => binary(BinaryOp::Maximum, total, v, dtype),
        ReduceOp::Min => binary(BinaryOp::Minimum, total, v, dtype),
        ReduceOp::Any => format!("({total} | {v})"),
        ReduceOp::All => format!("({total} & {v})"),
    }
}

/// An element combined with a new one, which takes its place where it is beyond it or NaN.
pub(super) fn updated(op: ReduceOp, old: &str, new: &str, dtype: DType) -> String {
    let beyond = match op {
        ReduceOp::Max => "<",
        ReduceOp::Min => ">",
        _ => return reduced(op, old, new, dtype),
    };
    let is_nan = unary(UnaryOp::IsNan, new, dtype);
    format!("({is_nan} || {old} {beyond} {new} ? {new} : {old})")
}
