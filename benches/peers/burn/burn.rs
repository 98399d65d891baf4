//! burn on the CPU, its backend flex, which is eager. Started by `benches/peers/run`.

use burn::tensor::module::{attention, batch_norm, conv2d, layer_norm, linear};
use burn::tensor::ops::{AttentionModuleOptions, ConvOptions};
use burn::tensor::{DType, Device, Int, Tensor, TensorData, activation as act};
use peer_suite::{Built, Named, Parameters, case, floats, ids, serve, tensors};
use std::collections::HashMap;

fn uniform<const D: usize>(
    name: &str,
    sizes: [usize; D],
    scale: f64,
    offset: f64,
    on: &Device,
) -> Tensor<D> {
    let data = floats(name, &sizes, scale, offset);
    Tensor::from_data(TensorData::new(data, sizes.to_vec()), on)
}

fn function<const D: usize>(call: impl Fn() -> Tensor<D> + 'static) -> Built {
    case(call, |t| t.into_data().convert::<f32>().try_to_vec::<f32>().expect("numbers of this type"))
}

/// Vectors, and matrices as burn keeps those of a linear layer: (inputs, outputs).
struct Weights {
    vectors: HashMap<String, Tensor<1>>,
    matrices: HashMap<String, Tensor<2>>,
}

impl Weights {
    fn new(p: Parameters, on: &Device) -> Weights {
        let (mut vectors, mut matrices) = (HashMap::new(), HashMap::new());
        for (name, (data, sizes)) in tensors(p, |p| (p.data, p.sizes)) {
            if let [outputs, inputs] = sizes[..] {
                let column = |i: usize| (0..outputs).map(move |o| o * inputs + i);
                let data: Vec<f32> = (0..inputs).flat_map(column).map(|at| data[at]).collect();
                let data = TensorData::new(data, vec![inputs, outputs]);
                matrices.insert(name, Tensor::from_data(data, on));
            } else if sizes.len() == 1 {
                vectors.insert(name, Tensor::from_data(TensorData::new(data, sizes), on));
            }
        }
        Weights { vectors, matrices }
    }

    fn vector(&self, name: &str) -> Tensor<1> {
        self.vectors[name].clone()
    }

    fn linear<const D: usize>(&self, name: &str, x: Tensor<D>) -> Tensor<D> {
        let weight = self.matrices[&format!("{name}.w")].clone();
        linear(x, weight, Some(self.vector(&format!("{name}.b"))))
    }

    fn norm<const D: usize>(&self, name: &str, x: Tensor<D>) -> Tensor<D> {
        let (g, b) = (self.vector(&format!("{name}.g")), self.vector(&format!("{name}.b")));
        layer_norm(x, g, Some(b), 1e-5)
    }
}

fn attend(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, causal: bool) -> Tensor<4> {
    let options = AttentionModuleOptions { scale: Some(0.125), softcap: None, is_causal: causal };
    attention(q, k, v, None, None, options)
}

/// A BERT-base block, with attention as burn's own operator or written out.
fn block(fused: bool, on: &Device) -> Built {
    let w = Weights::new(Parameters::block(), on);
    let x = uniform("w7.x", [1, 128, 768], 1.0, 0.0, on);
    function(move || {
        let heads = |n: &str| w.linear(n, x.clone()).reshape([1, 128, 12, 64]).swap_dims(1, 2);
        let (q, k, v): (Tensor<4>, Tensor<4>, Tensor<4>) = (heads("q"), heads("k"), heads("v"));
        let y = if fused {
            attend(q, k, v, false)
        } else {
            act::softmax(q.matmul(k.swap_dims(2, 3)).mul_scalar(0.125), 3).matmul(v)
        };
        let y: Tensor<3> = y.swap_dims(1, 2).reshape([1, 128, 768]);
        let x = w.norm("ln1", x.clone() + w.linear("o", y));
        let y = w.linear("fc2", act::gelu(w.linear("fc1", x.clone())));
        w.norm("ln2", x + y)
    })
}

fn named(workload: Named, on: &Device) -> Built {
    match workload {
        Named::Chain(n) => {
            let (x, y) = (uniform("w2.x", [n], 1.0, 0.0, on), uniform("w2.y", [n], 1.0, 0.0, on));
            function(move || (0..50).fold(x.clone(), |x, _| x * y.clone() + 1.0))
        }
        Named::Pointwise(n) => {
            let x = uniform(&format!("w3.{n}.x"), [n], 3.0, 0.0, on);
            let b = uniform(&format!("w3.{n}.b"), [n], 1.0, 0.0, on);
            function(move || {
                act::gelu(x.clone() + b.clone()) * act::sigmoid(x.clone()) + b.clone().tanh()
            })
        }
        Named::Softmax { data, sizes } => {
            let x = uniform(data, sizes, 5.0, 0.0, on);
            function(move || act::softmax(x.clone(), 1))
        }
        Named::Sum(dim) => {
            let x = uniform("w4.sum.x", [4096, 4096], 1.0, 0.0, on);
            function(move || x.clone().sum_dim(dim as isize))
        }
        Named::Mlp { batch, width } => {
            let w = Weights::new(Parameters::mlp(width), on);
            let data = TensorData::new(Named::mlp_input(batch, width), vec![batch, width]);
            let x = Tensor::<2>::from_data(data, on);
            function(move || {
                let y = w.linear("l2", act::gelu(w.linear("l1", x.clone())));
                w.linear("l3", w.norm("ln", y))
            })
        }
        Named::Attention { tokens, causal } => {
            let data =
                |n: &str| uniform(&format!("w8.{tokens}.{n}"), [1, 12, tokens, 64], 1.0, 0.0, on);
            let (q, k, v) = (data("q"), data("k"), data("v"));
            function(move || attend(q.clone(), k.clone(), v.clone(), causal))
        }
        Named::Product { sizes: [m, k, n], bf16 } => {
            let data = |c: &str, sizes: [usize; 2]| {
                let t = uniform(&format!("w10.{m}x{k}x{n}.{c}"), sizes, 1.0, 0.0, on);
                if bf16 { t.cast(DType::BF16) } else { t }
            };
            let (a, b) = (data("a", [m, k]), data("b", [k, n]));
            function(move || a.clone().matmul(b.clone()))
        }
    }
}

fn build(workload: &str, on: &Device) -> Option<Built> {
    let one = |name: &str, on: &Device| uniform(name, [1], 1.0, 0.0, on);
    Some(match workload {
        "w1.add" => {
            let (a, b) = (one("w1.a", on), one("w1.b", on));
            function(move || a.clone() + b.clone())
        }
        "w1.add_grad" => {
            let on = on.clone().autodiff();
            let (a, b) = (one("w1.a", &on).require_grad(), one("w1.b", &on).require_grad());
            function(move || a.clone() + b.clone())
        }
        "w1.transpose" => {
            let a = uniform("w1.a", [4, 8], 1.0, 0.0, on);
            function(move || a.clone().transpose())
        }
        "w3.bias_gelu_512x768" => {
            let x = uniform("w3.bias.x", [512, 768], 3.0, 0.0, on);
            let b = uniform("w3.bias.b", [768], 1.0, 0.0, on);
            function(move || act::gelu(x.clone() + b.clone().unsqueeze::<2>()))
        }
        "w4.layernorm_512x768" => {
            let x = uniform("w4.ln.x", [512, 768], 2.0, 0.0, on);
            let g = uniform("w4.ln.g", [768], 0.1, 1.0, on);
            let b = uniform("w4.ln.b", [768], 0.1, 0.0, on);
            function(move || layer_norm(x.clone(), g.clone(), Some(b.clone()), 1e-5))
        }
        "w4.rmsnorm_512x768" => {
            let x = uniform("w4.rms.x", [512, 768], 2.0, 0.0, on);
            let g = uniform("w4.rms.g", [768], 0.1, 1.0, on);
            function(move || {
                let root = (x.clone().square().mean_dim(1) + 1e-5).sqrt();
                x.clone() / root * g.clone().unsqueeze::<2>()
            })
        }
        "w4.logsoftmax_nll_256x1000" => {
            let x = uniform("w4.nll.x", [256, 1000], 5.0, 0.0, on);
            let t = TensorData::new(ids("w4.nll.t", &[256], 0, 1000), vec![256, 1]);
            let t = Tensor::<2, Int>::from_data(t, on);
            function(move || act::log_softmax(x.clone(), 1).gather(1, t.clone()).mean().neg())
        }
        "w7.block_eager" => block(false, on),
        "w7.block_sdpa" => block(true, on),
        "w9.conv3x3" | "w9.conv_bn_relu" => {
            let p = Parameters::convolution();
            let kernel = uniform("w9.conv.w", [64, 64, 3, 3], (6.0 / 576f64).sqrt(), 0.0, on);
            let x = uniform("w9.x", [1, 64, 56, 56], 1.0, 0.0, on);
            let convolve = move || {
                let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
                conv2d(x.clone(), kernel.clone(), None, options)
            };
            if workload == "w9.conv3x3" {
                return Some(function(convolve));
            }
            let w = Weights::new(p, on);
            function(move || {
                let [g, b, m, v] = ["g", "b", "m", "v"].map(|n| w.vector(&format!("bn.{n}")));
                act::relu(batch_norm(convolve(), g, b, m, v, 1e-5))
            })
        }
        _ => named(Named::of(workload)?, on),
    })
}

fn main() {
    let on = Device::flex();
    serve("burn", "0.22.1", |workload| build(workload, &on));
}
