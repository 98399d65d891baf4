//! Compiled training: whole steps, whose backward pass is in the function, and functions whose
//! results want gradients. Everything is compared with the same code run eagerly.

use std::sync::Arc;
mod inside;
mod layers;
mod results;
mod schedules;
mod steps;

use straightline::autograd::{self, no_grad};
use straightline::dispatch::call_count;
use straightline::nn::{Gelu, Layer, LayerNorm, Linear, Module, Sequential};
use straightline::optim::{
    AdagradOptions, AdamOptions, AdamW, AdamWOptions, Optim, Optimizer, RmsPropOptions, Rule,
    SgdOptions, clip_grad_norm_,
};
use straightline::{CompileEvent, Compiled, Result, Tensor, compile, tensor};

pub(crate) fn numbers(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        })
        .collect()
}

pub(crate) fn random(sizes: &[i64], seed: u32) -> Tensor {
    let n = sizes.iter().product::<i64>() as usize;
    Tensor::from_slice(&numbers(n, seed), sizes).unwrap()
}

pub(crate) fn leaf(sizes: &[i64], seed: u32) -> Tensor {
    random(sizes, seed).requires_grad_(true).unwrap()
}

pub(crate) fn bits(t: &Tensor) -> Vec<u32> {
    t.detach().unwrap().to_vec::<f32>().unwrap().iter().map(|x| x.to_bits()).collect()
}

pub(crate) fn close(a: &Tensor, b: &Tensor) {
    let (a, b) = (a.detach().unwrap(), b.detach().unwrap());
    assert_eq!(a.sizes(), b.sizes());
    for (x, y) in a.to_vec::<f32>().unwrap().iter().zip(b.to_vec::<f32>().unwrap()) {
        assert!((x - y).abs() <= 1e-5 + 1e-4 * y.abs(), "{x} and {y}");
    }
}

/// Nothing has run eagerly.
pub(crate) fn all_compiled<I: straightline::TensorTree, O: straightline::TensorTree>(
    f: &Compiled<I, O>,
) {
    for e in f.events() {
        assert!(matches!(e, CompileEvent::Compiled { .. }), "{e}");
    }
}

#[derive(Clone)]
pub(crate) struct Mlp {
    pub(crate) parameters: Vec<Tensor>,
    pub(crate) state: Vec<Tensor>,
}

impl Mlp {
    pub(crate) fn new() -> Mlp {
        let parameters = vec![leaf(&[6, 8], 1), leaf(&[8], 2), leaf(&[8, 3], 3), leaf(&[3], 4)];
        let zeros = |t: &Tensor| Tensor::from_slice(&vec![0f32; t.numel() as usize], t.sizes());
        let state = parameters.iter().map(|p| zeros(p).unwrap()).collect();
        Mlp { parameters, state }
    }

    pub(crate) fn loss(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let p = &self.parameters;
        let hidden = x.matmul(&p[0])?.add(&p[1])?.tanh()?;
        let out = hidden.matmul(&p[2])?.add(&p[3])?;
        out.sub(y)?.pow(2)?.mean()
    }

    pub(crate) fn clear(&self) -> Result<()> {
        self.parameters.iter().try_for_each(|p| p.set_grad(None))
    }

    pub(crate) fn sgd(&self) -> Result<()> {
        no_grad(|| {
            for (p, m) in self.parameters.iter().zip(&self.state) {
                let g = p.grad().expect("a gradient");
                m.mul_(0.9)?.add_(&g)?;
                p.sub_(&m.mul(0.1)?)?;
            }
            Ok(())
        })
    }
}
