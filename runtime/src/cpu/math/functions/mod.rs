//! The functions: each a builder over [`Prims`] that serves both widths.
//!
//! A function branches on the width alone, never on data, so the operation sequence is the same for
//! every call. [`Fn1`] and [`Fn2`] name the functions as values.

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

pub use activation::*;
pub use elementary::*;
pub use erf::*;
pub use exp::*;
pub use hyperbolic::*;
pub use inverse_trig::*;
pub use log::*;
pub use trig::*;

use super::Prims;
use straightline_passes::ir::prims::UnaryOp;

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

/// Keeps the rows of the table whose bodies are here.
macro_rules! built {
    ($d:tt [$($done:tt)*] $(#[$of:meta])* $variant:ident $text:ident $class:ident $cost:literal built [$($op:ident),*]; $($rest:tt)*) => {
        built! { $d [$($done)* $variant $text,] $($rest)* }
    };
    ($d:tt [$($done:tt)*] $(#[$of:meta])* $variant:ident $text:ident $class:ident $cost:literal own [$($op:ident),*]; $($rest:tt)*) => {
        built! { $d [$($done)*] $($rest)* }
    };
    ($d:tt [$($variant:ident $function:ident,)*]) => {
        named! {
            /// A function of one argument.
            Fn1 [p x] (p, x) { $($variant $function),* }
        }

        impl Fn1 {
            /// The function of this name; `None` of those that an instruction computes.
            pub fn of(op: UnaryOp) -> Option<Fn1> {
                match op {
                    $(UnaryOp::$variant => Some(Fn1::$variant),)*
                    _ => None,
                }
            }
        }

        /// Gives the functions to a macro: `Variant function, ...`.
        macro_rules! built_functions {
            ($then:ident! $d($d before:tt)*) => {
                $then! { $d($d before)* $($variant $function,)* }
            };
        }
        pub(crate) use built_functions;
    };
}

straightline_passes::ir::unary_functions!(built! $ []);

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
