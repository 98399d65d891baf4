//! Activations of neural networks.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use super::erf::erf;
use super::exp::sigmoid;
use super::hyperbolic::tanh;
use crate::cpu::math::Prims;

/// `x * sigmoid(x)`.
#[inline(always)]
pub fn silu<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let s = sigmoid(p, x);
    p.mul(x, s)
}

/// `x/2 (1 + erf(x / sqrt 2))`.
#[inline(always)]
pub fn gelu_erf<P: Prims>(p: &mut P, x: P::F) -> P::F {
    let root = p.f(FRAC_1_SQRT_2);
    let half = p.f(0.5);
    let u = p.mul(x, root);
    let e = erf(p, u);
    let h = p.mul(x, half);
    p.fma(h, e, h)
}

/// `x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`.
#[inline(always)]
pub fn gelu_tanh<P: Prims>(p: &mut P, x: P::F) -> P::F {
    const BETA: f64 = SQRT_2 * FRAC_2_SQRT_PI * 0.5;
    let linear = p.f(BETA);
    let cubic = p.f(BETA * 0.044715);
    let half = p.f(0.5);
    let z = p.mul(x, x);
    let u = p.fma(z, cubic, linear);
    let u = p.mul(u, x);
    let t = tanh(p, u);
    let h = p.mul(x, half);
    p.fma(h, t, h)
}
