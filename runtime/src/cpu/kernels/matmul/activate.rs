//! The activation of a finished tile, from the same definitions as the eager operators.

use super::float::Float;
use crate::cpu::math::functions;
use crate::cpu::math::{Prims, Scalar32, Scalar64};
use straightline_passes::schedule::loops::Activation;

/// A float with activations.
pub(super) trait Activate: Float {
    /// `row[i] = activation(row[i]) + residual[i]`.
    ///
    /// # Safety
    ///
    /// `row` is valid to read and write, the residual to read, for `n` elements. They may be one and the same.
    unsafe fn activate(
        activation: Activation,
        row: *mut Self,
        residual: Option<*const Self>,
        n: usize,
    );
}

fn build<P: Prims>(p: &mut P, activation: Activation, x: P::F) -> P::F {
    match activation {
        Activation::None => x,
        Activation::Relu => {
            let zero = p.f(0.0);
            functions::maximum(p, x, zero)
        }
        Activation::GeluErf => functions::gelu_erf(p, x),
        Activation::GeluTanh => functions::gelu_tanh(p, x),
        Activation::Silu => functions::silu(p, x),
        Activation::Tanh => functions::tanh(p, x),
        Activation::Sigmoid => functions::sigmoid(p, x),
    }
}

macro_rules! activate {
    ($t:ty, $p:expr) => {
        impl Activate for $t {
            unsafe fn activate(
                activation: Activation,
                row: *mut $t,
                residual: Option<*const $t>,
                n: usize,
            ) {
                for i in 0..n {
                    // SAFETY: `i` is inside what the caller vouches for.
                    unsafe {
                        let mut x = build(&mut $p, activation, *row.add(i));
                        if let Some(residual) = residual {
                            x += *residual.add(i);
                        }
                        *row.add(i) = x;
                    }
                }
            }
        }
    };
}
activate!(f32, Scalar32);
activate!(f64, Scalar64);
