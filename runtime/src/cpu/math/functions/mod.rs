//! The functions: each a builder over [`Prims`] that serves both widths.
//!
//! A function branches on the width alone, never on data, so the operation sequence is the same for every call. [`Fn1`]
//! and [`Fn2`] name the functions as values.

mod activation;
#[cfg(test)]
mod cost;
mod elementary;
mod erf;
mod exp;
mod helpers;
mod hyperbolic;
mod inverse_trig;
mod log;
#[cfg(test)]
mod tests;
mod trig;

pub use activation::{gelu_erf, gelu_tanh, silu};
pub use elementary::{
    copysign, fmod, maximum, minimum, pow, reciprocal, remainder, round, rsqrt, sign,
};
pub use erf::{erf, erfc};
pub use exp::{exp, exp2, expm1, sigmoid};
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh, tanh};
pub use inverse_trig::{acos, asin, atan, atan2};
pub use log::{log, log1p, log2, log10};
pub use trig::{cos, sin, tan};

use super::Prims;

macro_rules! named {
    ($(#[$doc:meta])* $name:ident [$p:ident $($arg:ident)+] $call:tt { $($variant:ident $function:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(
                #[doc = concat!("[`", stringify!($function), "`]")]
                $variant,
            )+
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name of the function.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($function),)+
                }
            }

            /// Runs the builder.
            #[inline(always)]
            pub fn build<P: Prims>(self, $p: &mut P, $($arg: P::F),+) -> P::F {
                match self {
                    $(Self::$variant => $function $call,)+
                }
            }
        }
    };
}

named! {
    /// A function of one argument.
    Fn1 [p x] (p, x) {
        Exp exp,
        Exp2 exp2,
        Expm1 expm1,
        Log log,
        Log2 log2,
        Log10 log10,
        Log1p log1p,
        Tanh tanh,
        Sigmoid sigmoid,
        Erf erf,
        Erfc erfc,
        Sin sin,
        Cos cos,
        Tan tan,
        Asin asin,
        Acos acos,
        Atan atan,
        Sinh sinh,
        Cosh cosh,
        Asinh asinh,
        Acosh acosh,
        Atanh atanh,
        Rsqrt rsqrt,
        Reciprocal reciprocal,
        GeluErf gelu_erf,
        GeluTanh gelu_tanh,
        Silu silu,
        Sign sign,
        Round round,
    }
}

named! {
    /// A function of two arguments.
    Fn2 [p x y] (p, x, y) {
        Pow pow,
        Atan2 atan2,
        Fmod fmod,
        Remainder remainder,
        Copysign copysign,
        Maximum maximum,
        Minimum minimum,
    }
}
