//! The elementary functions of single elements, from which loops are built.
//!
//! A row of the table says everything about a function except its body, which is written once over
//! vector primitives (`runtime/src/cpu/math/functions`): its name, the operators that compute it,
//! its dtypes and its cost. The enums, the names and the costs are generated from the rows.

use crate::Op;

/// The operands that a function takes, and the dtype of its result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// Floats; integers are converted to floats first.
    Float,
    /// Numbers of one dtype, which is that of the result.
    Number,
    /// Integers and `bool`s, bit by bit.
    Bits,
    /// Operands of any dtype, compared or taken as truth values; the result is `bool`.
    Truth,
}

/// The table of unary functions; passes its rows to a macro.
///
/// A row is `Variant name Class cost body [operators]`. The body is `built` if
/// `runtime/src/cpu/math/functions` has a function of that name, which eager kernels and generated
/// code share, and `own` if it is a single instruction or differs by dtype.
#[macro_export]
#[doc(hidden)]
macro_rules! unary_functions {
    ($then:ident! $($before:tt)*) => {
        $then! { $($before)*
            Neg neg Number 1 own [neg];
            Abs abs Number 1 own [abs];
            Sign sign Number 2 built [sign];
            Sqrt sqrt Float 4 own [sqrt];
            Rsqrt rsqrt Float 6 built [rsqrt];
            Reciprocal reciprocal Float 4 built [reciprocal];
            Exp exp Float 10 built [exp];
            Exp2 exp2 Float 10 built [exp2];
            Expm1 expm1 Float 14 built [expm1];
            Log log Float 14 built [log];
            Log2 log2 Float 14 built [log2];
            Log10 log10 Float 14 built [log10];
            Log1p log1p Float 14 built [log1p];
            Sin sin Float 14 built [sin];
            Cos cos Float 14 built [cos];
            Tan tan Float 18 built [tan];
            Asin asin Float 18 built [asin];
            Acos acos Float 18 built [acos];
            Atan atan Float 18 built [atan];
            Sinh sinh Float 18 built [sinh];
            Cosh cosh Float 18 built [cosh];
            Asinh asinh Float 18 built [asinh];
            Acosh acosh Float 18 built [acosh];
            Atanh atanh Float 18 built [atanh];
            Tanh tanh Float 14 built [tanh];
            Sigmoid sigmoid Float 10 built [sigmoid];
            Erf erf Float 18 built [erf];
            Erfc erfc Float 18 built [erfc];
            Floor floor Number 1 own [floor];
            Ceil ceil Number 1 own [ceil];
            /// Rounds half to even.
            Round round Number 1 own [round];
            Trunc trunc Number 1 own [trunc];
            /// Floats only.
            IsNan is_nan Truth 1 own [isnan];
            /// Floats only.
            IsInf is_inf Truth 1 own [isinf];
            /// `x == 0`.
            LogicalNot logical_not Truth 1 own [logical_not];
            /// Integers: bits; `bool`: logical.
            BitwiseNot bitwise_not Bits 1 own [bitwise_not];
            Relu relu Number 1 own [relu];
            /// `0.5 x (1 + erf(x / sqrt 2))`.
            GeluErf gelu_erf Number 18 built [gelu];
            /// The tanh approximation.
            GeluTanh gelu_tanh Number 18 built [];
            Silu silu Float 10 built [silu];
        }
    };
}

macro_rules! unary {
    ($($(#[$of:meta])* $variant:ident $text:ident $class:ident $cost:literal $body:ident [$($op:ident),*];)*) => {
        prims! {
            /// Functions of one value. Those of floats follow IEEE 754 and PyTorch (NaN
            /// propagates).
            UnaryOp {
                $($(#[$of])* $variant $text $class $cost [$($op),*];)*
            }
        }
    };
}

macro_rules! prims {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$of:meta])* $variant:ident $text:ident $class:ident $cost:literal [$($op:ident),*];)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs, reason = "PyTorch's names")]
        pub enum $name { $($(#[$of])* $variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// The name, as printed in loops.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => stringify!($text),)* }
            }

            /// The class of its operands.
            pub fn class(self) -> Class {
                match self { $($name::$variant => Class::$class,)* }
            }

            /// The cost per element, in additions.
            pub fn cost(self) -> u32 {
                match self { $($name::$variant => $cost,)* }
            }

            /// The operators that compute it; rewriting uses the first.
            pub fn ops(self) -> &'static [Op] {
                match self { $($name::$variant => &[$(Op::$op),*],)* }
            }

            /// The function that an operator computes, regardless of its other arguments.
            pub fn of(op: Op) -> Option<$name> {
                match op {
                    $($(Op::$op => Some($name::$variant),)*)*
                    _ => None,
                }
            }
        }
    )*};
}

unary_functions!(unary!);

prims! {
    /// Functions of two values of one dtype, which is that of the result.
    BinaryOp {
        Add add Number 1 [add_Tensor, add_Scalar];
        Sub sub Number 1 [sub_Tensor, sub_Scalar];
        Mul mul Number 1 [mul_Tensor, mul_Scalar];
        /// Floats: IEEE division. Integers never get here (true division converts to floats first).
        Div div Float 4 [div_Tensor, div_Scalar];
        /// `div(rounding_mode="floor")`; integer division by zero is reported by the kernel.
        FloorDiv floor_div Number 14 [div_Tensor_mode, div_Scalar_mode];
        /// `div(rounding_mode="trunc")`.
        TruncDiv trunc_div Number 4 [];
        /// Sign of the dividend (C `fmod`).
        Fmod fmod Number 10 [fmod_Tensor, fmod_Scalar];
        /// Sign of the divisor (Python `%`).
        Remainder remainder Number 10 [remainder_Tensor, remainder_Scalar];
        Pow pow Number 24 [pow_Tensor_Tensor, pow_Tensor_Scalar, pow_Scalar];
        Atan2 atan2 Float 24 [atan2];
        /// NaN propagates.
        Maximum maximum Number 1 [maximum];
        /// NaN propagates.
        Minimum minimum Number 1 [minimum];
        BitwiseAnd bitwise_and Bits 1 [bitwise_and_Tensor, bitwise_and_Scalar];
        BitwiseOr bitwise_or Bits 1 [bitwise_or_Tensor, bitwise_or_Scalar];
        BitwiseXor bitwise_xor Bits 1 [bitwise_xor_Tensor, bitwise_xor_Scalar];
        /// `bool` operands.
        LogicalAnd logical_and Truth 1 [logical_and];
        /// `bool` operands.
        LogicalOr logical_or Truth 1 [logical_or];
        /// `bool` operands.
        LogicalXor logical_xor Truth 1 [logical_xor];
        /// 0 if the shift is negative or not less than the number of bits.
        ShiftLeft shift_left Bits 1 [bitwise_left_shift_Tensor, bitwise_left_shift_Tensor_Scalar, bitwise_left_shift_Scalar_Tensor];
        /// 0, or -1 for a negative number, if the shift is negative or not less than the number of
        /// bits.
        ShiftRight shift_right Bits 1 [bitwise_right_shift_Tensor, bitwise_right_shift_Tensor_Scalar, bitwise_right_shift_Scalar_Tensor];
    }

    /// Comparisons of two values of one dtype. Ordered, but `Ne` is true for NaN.
    CompareOp {
        Eq eq Truth 1 [eq_Tensor, eq_Scalar];
        Ne ne Truth 1 [ne_Tensor, ne_Scalar];
        Lt lt Truth 1 [lt_Tensor, lt_Scalar];
        Le le Truth 1 [le_Tensor, le_Scalar];
        Gt gt Truth 1 [gt_Tensor, gt_Scalar];
        Ge ge Truth 1 [ge_Tensor, ge_Scalar];
    }

    /// Reductions.
    ReduceOp {
        Sum sum Number 1 [sum_dim_IntList, sum];
        Prod prod Number 1 [prod_dim_int, prod];
        /// NaN propagates; the identity is the smallest value of the dtype.
        Max max Number 1 [amax];
        /// NaN propagates.
        Min min Number 1 [amin];
        /// `bool`.
        Any any Truth 1 [any_dim, any_dims, any];
        /// `bool`.
        All all Truth 1 [all_dim, all_dims, all];
    }
}

impl BinaryOp {
    /// Whether it fails on an integer divisor of zero.
    pub fn is_division(self) -> bool {
        use BinaryOp::{FloorDiv, Fmod, Remainder, TruncDiv};
        matches!(self, FloorDiv | TruncDiv | Fmod | Remainder)
    }

    /// Whether, for half-precision tensors, a number operand is used in `f32` without rounding it
    /// to the tensor's dtype first, as PyTorch's kernels for products and quotients do.
    pub fn keeps_number(self) -> bool {
        use BinaryOp::{Div, FloorDiv, Mul, TruncDiv};
        matches!(self, Mul | Div | FloorDiv | TruncDiv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_computes_one_function() {
        for f in UnaryOp::ALL {
            assert!(f.ops().iter().all(|op| UnaryOp::of(*op) == Some(*f)), "{f:?}");
        }
        for f in BinaryOp::ALL {
            assert!(f.ops().iter().all(|op| BinaryOp::of(*op) == Some(*f)), "{f:?}");
        }
        for f in CompareOp::ALL {
            assert!(f.ops().iter().all(|op| CompareOp::of(*op) == Some(*f)), "{f:?}");
        }
    }
}
