//! What kernels that are written by hand begin with: one text for all dtypes, whose element types and
//! conversions are defined before it.

use super::types::{element, narrowed, rounded, widened};
use super::{PRELUDE, values};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{Activation, UnaryOp};

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
}

/// A dtype that such kernels compute with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Numeric(DType);

impl Numeric {
    /// `None` for what has no sums of products.
    pub(crate) fn of(dtype: DType) -> Option<Numeric> {
        use DType::*;
        let integer = matches!(dtype, U8 | I8 | I16 | I32 | I64);
        (integer || is_float(dtype)).then_some(Numeric(dtype))
    }

    /// `None` for what is not floating.
    pub(crate) fn floating(dtype: DType) -> Option<Numeric> {
        is_float(dtype).then_some(Numeric(dtype))
    }

    /// The prelude, the types `element` (in memory) and `wide` (sums), conversions between them,
    /// `rounded` (a sum in the precision of an element), `fused` (a product and a sum, rounded once).
    pub(crate) fn header(self) -> String {
        let Numeric(dtype) = self;
        let (wide, sum) = match dtype {
            DType::F64 => ("double", "fma(a, b, c)"),
            _ if is_float(dtype) => ("float", "fmaf(a, b, c)"),
            // sums wrap, as their elements do
            _ => ("long long", "multiply_add(a, b, c)"),
        };
        let value = match is_float(dtype) {
            true => rounded(dtype, "x"),
            false => "(wide)(element)x".into(),
        };
        format!(
            "{PRELUDE}
typedef {} element;
typedef {wide} wide;
__device__ __forceinline__ wide widened(const element x) {{ return {}; }}
__device__ __forceinline__ element narrowed(const wide x) {{ return {}; }}
__device__ __forceinline__ wide rounded(const wide x) {{ return {}; }}
__device__ __forceinline__ wide fused(const wide a, const wide b, const wide c) {{ return {sum}; }}
",
            element(dtype),
            widened(dtype, "x"),
            narrowed(dtype, "x"),
            value,
        )
    }

    /// An activation of a value, rounded, as loops have it.
    pub(crate) fn activated(self, activation: Activation, v: &str) -> String {
        let op = match activation {
            Activation::None => return v.to_string(),
            Activation::Relu => UnaryOp::Relu,
            Activation::GeluErf => UnaryOp::GeluErf,
            Activation::GeluTanh => UnaryOp::GeluTanh,
            Activation::Silu => UnaryOp::Silu,
            Activation::Tanh => UnaryOp::Tanh,
            Activation::Sigmoid => UnaryOp::Sigmoid,
        };
        values::unary(op, v, self.0)
    }
}
