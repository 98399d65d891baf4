//! Activations of vectors, from the same definitions as the eager operators, each as a type.
//!
//! A loop over vectors is only as fast as what it calls is part of it: code that is not was
//! compiled without the wide instructions, and passes every vector through memory. Functions that
//! are passed as values are called through shims which the compiler may leave out of line once two
//! loops use them (measured: GELU took ten times as long). Methods of types are inlined always.

use crate::cpu::math::{Prims, functions};

/// A function of each element.
pub(super) trait Formula {
    fn at<P: Prims>(p: &mut P, x: P::F) -> P::F;
}

macro_rules! formulas {
    ($($name:ident = |$p:ident, $x:ident| $value:expr;)*) => {$(
        pub(super) struct $name;

        impl Formula for $name {
            #[inline(always)]
            fn at<P: Prims>($p: &mut P, $x: P::F) -> P::F {
                $value
            }
        }
    )*};
}

formulas! {
    Identity = |_p, x| x;
    Relu = |p, x| {
        let zero = p.f(0.0);
        functions::maximum(p, x, zero)
    };
    GeluErf = |p, x| functions::gelu_erf(p, x);
    GeluTanh = |p, x| functions::gelu_tanh(p, x);
    Silu = |p, x| functions::silu(p, x);
    Tanh = |p, x| functions::tanh(p, x);
    Sigmoid = |p, x| functions::sigmoid(p, x);
}

/// Runs the last argument with the formula of an activation as the type `F`: one loop for each.
macro_rules! with_activation {
    ($activation:expr, $f:ident => $run:expr) => {
        with_activation!(@each $activation, $f => $run, Relu GeluErf GeluTanh Silu Tanh Sigmoid)
    };
    (@each $activation:expr, $f:ident => $run:expr, $($name:ident)*) => {
        match $activation {
            straightline_passes::schedule::loops::Activation::None => {
                type $f = $crate::cpu::kernels::activation::Identity;
                $run
            }
            $(straightline_passes::schedule::loops::Activation::$name => {
                type $f = $crate::cpu::kernels::activation::$name;
                $run
            })*
        }
    };
}
pub(super) use with_activation;
