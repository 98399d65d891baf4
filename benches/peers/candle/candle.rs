//! candle on the CPU, which is eager only. Started by `benches/peers/run`.

use candle_core::{DType, Device, Module, ModuleT, Result, Tensor, Var};
use candle_nn::attention::{AttnMask, flash_attn};
use candle_nn::{BatchNorm, LayerNorm, Linear, loss, ops};
use peer_suite::{Built, Named, Parameters, case, floats, ids, serve, tensors};
use std::collections::HashMap;

const CPU: Device = Device::Cpu;

fn uniform(name: &str, sizes: &[usize], scale: f64, offset: f64) -> Result<Tensor> {
    Tensor::from_vec(floats(name, sizes, scale, offset), sizes, &CPU)
}

fn read(t: &Tensor) -> Result<Vec<f32>> {
    t.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}

/// The first call happens here, so that what candle lacks is a note.
fn function(call: impl Fn() -> Result<Tensor> + 'static) -> Result<Built> {
    call()?;
    let call = move || call().expect("a call that worked before");
    Ok(case(call, |t| read(&t).expect("elements of a result")))
}

struct Weights(HashMap<String, Tensor>);

impl Weights {
    fn new(p: Parameters) -> Weights {
        let tensor = |data, sizes: Vec<usize>| {
            Tensor::from_vec(data, sizes, &CPU).expect("as many numbers as the sizes say")
        };
        Weights(tensors(p, |p| tensor(p.data, p.sizes)))
    }

    fn get(&self, name: &str) -> Tensor {
        self.0[name].clone()
    }

    fn linear(&self, name: &str) -> Linear {
        Linear::new(self.get(&format!("{name}.w")), Some(self.get(&format!("{name}.b"))))
    }

    fn norm(&self, name: &str) -> LayerNorm {
        LayerNorm::new(self.get(&format!("{name}.g")), self.get(&format!("{name}.b")), 1e-5)
    }
}

/// A BERT-base block, with attention as candle's own operator or written out.
fn block(fused: bool) -> Result<Built> {
    let w = Weights::new(Parameters::block());
    let [q, k, v, o, fc1, fc2] = ["q", "k", "v", "o", "fc1", "fc2"].map(|n| w.linear(n));
    let [ln1, ln2] = ["ln1", "ln2"].map(|n| w.norm(n));
    let x = uniform("w7.x", &[1, 128, 768], 1.0, 0.0)?;
    function(move || {
        let heads = |l: &Linear| l.forward(&x)?.reshape((1, 128, 12, 64));
        let (q, k, v) = (heads(&q)?, heads(&k)?, heads(&v)?);
        let y = if fused {
            flash_attn::<f32>(&q, &k, &v, 0.125, AttnMask::None, None, None)?
        } else {
            let first = |x: Tensor| x.transpose(1, 2)?.contiguous();
            let (q, k, v) = (first(q)?, first(k)?, first(v)?);
            ops::softmax_last_dim(&(q.matmul(&k.t()?)? * 0.125)?)?.matmul(&v)?
        };
        let y = y.transpose(1, 2)?.reshape((1, 128, 768))?;
        let x = ln1.forward(&(&x + o.forward(&y)?)?)?;
        ln2.forward(&(&x + fc2.forward(&fc1.forward(&x)?.gelu_erf()?)?)?)
    })
}

fn named(workload: Named) -> Result<Built> {
    match workload {
        Named::Chain(n) => {
            let (x, y) = (uniform("w2.x", &[n], 1.0, 0.0)?, uniform("w2.y", &[n], 1.0, 0.0)?);
            function(move || {
                let mut x = x.clone();
                for _ in 0..50 {
                    x = ((x * &y)? + 1.0)?;
                }
                Ok(x)
            })
        }
        Named::Pointwise(n) => {
            let x = uniform(&format!("w3.{n}.x"), &[n], 3.0, 0.0)?;
            let b = uniform(&format!("w3.{n}.b"), &[n], 1.0, 0.0)?;
            function(move || ((&x + &b)?.gelu_erf()? * ops::sigmoid(&x)?)? + b.tanh()?)
        }
        Named::Softmax { data, sizes } => {
            let x = uniform(data, &sizes, 5.0, 0.0)?;
            function(move || ops::softmax_last_dim(&x))
        }
        Named::Sum(dim) => {
            let x = uniform("w4.sum.x", &[4096, 4096], 1.0, 0.0)?;
            function(move || x.sum(dim))
        }
        Named::Mlp { batch, width } => {
            let w = Weights::new(Parameters::mlp(width));
            let [l1, l2, l3] = ["l1", "l2", "l3"].map(|n| w.linear(n));
            let ln = w.norm("ln");
            let x = Tensor::from_vec(Named::mlp_input(batch, width), (batch, width), &CPU)?;
            function(move || {
                let y = l2.forward(&l1.forward(&x)?.gelu_erf()?)?;
                l3.forward(&ln.forward(&y)?)
            })
        }
        Named::Attention { tokens, causal } => {
            // candle takes (batch, tokens, heads, width), and gives (batch, heads, tokens, width)
            let data = |n: &str| {
                uniform(&format!("w8.{tokens}.{n}"), &[1, 12, tokens, 64], 1.0, 0.0)?
                    .transpose(1, 2)?
                    .contiguous()
            };
            let (q, k, v) = (data("q")?, data("k")?, data("v")?);
            function(move || {
                let mask = if causal { AttnMask::causal() } else { AttnMask::None };
                flash_attn::<f32>(&q, &k, &v, 0.125, mask, None, None)
            })
        }
        Named::Product { sizes: [m, k, n], bf16 } => {
            let dtype = if bf16 { DType::BF16 } else { DType::F32 };
            let data = |c: &str, sizes: [usize; 2]| {
                uniform(&format!("w10.{m}x{k}x{n}.{c}"), &sizes, 1.0, 0.0)?.to_dtype(dtype)
            };
            let (a, b) = (data("a", [m, k])?, data("b", [k, n])?);
            function(move || a.matmul(&b))
        }
    }
}

fn build(workload: &str) -> Option<Result<Built>> {
    let one = |name: &str| uniform(name, &[1], 1.0, 0.0);
    Some(match workload {
        "w1.add" => (|| {
            let (a, b) = (one("w1.a")?, one("w1.b")?);
            function(move || &a + &b)
        })(),
        "w1.add_grad" => (|| {
            let (a, b) = (Var::from_tensor(&one("w1.a")?)?, Var::from_tensor(&one("w1.b")?)?);
            function(move || a.as_tensor() + b.as_tensor())
        })(),
        "w1.transpose" => (|| {
            let a = uniform("w1.a", &[4, 8], 1.0, 0.0)?;
            function(move || a.transpose(0, 1))
        })(),
        "w3.bias_gelu_512x768" => (|| {
            let x = uniform("w3.bias.x", &[512, 768], 3.0, 0.0)?;
            let b = uniform("w3.bias.b", &[768], 1.0, 0.0)?;
            function(move || x.broadcast_add(&b)?.gelu_erf())
        })(),
        "w4.layernorm_512x768" => (|| {
            let x = uniform("w4.ln.x", &[512, 768], 2.0, 0.0)?;
            let g = uniform("w4.ln.g", &[768], 0.1, 1.0)?;
            let b = uniform("w4.ln.b", &[768], 0.1, 0.0)?;
            function(move || ops::layer_norm(&x, &g, &b, 1e-5))
        })(),
        "w4.rmsnorm_512x768" => (|| {
            let x = uniform("w4.rms.x", &[512, 768], 2.0, 0.0)?;
            let g = uniform("w4.rms.g", &[768], 0.1, 1.0)?;
            function(move || ops::rms_norm(&x, &g, 1e-5))
        })(),
        "w4.logsoftmax_nll_256x1000" => (|| {
            let x = uniform("w4.nll.x", &[256, 1000], 5.0, 0.0)?;
            let t: Vec<u32> =
                ids("w4.nll.t", &[256], 0, 1000).into_iter().map(|i| i as u32).collect();
            let t = Tensor::from_vec(t, 256, &CPU)?;
            function(move || loss::nll(&ops::log_softmax(&x, 1)?, &t))
        })(),
        "w7.block_eager" => block(false),
        "w7.block_sdpa" => block(true),
        "w9.conv3x3" | "w9.conv_bn_relu" => (|| {
            let w = Weights::new(Parameters::convolution());
            let x = uniform("w9.x", &[1, 64, 56, 56], 1.0, 0.0)?;
            let kernel = w.get("conv.w");
            if workload == "w9.conv3x3" {
                return function(move || x.conv2d(&kernel, 1, 1, 1, 1));
            }
            let [m, v, g, b] = ["m", "v", "g", "b"].map(|n| w.get(&format!("bn.{n}")));
            let bn = BatchNorm::new(64, m, v, g, b, 1e-5)?;
            function(move || bn.forward_t(&x.conv2d(&kernel, 1, 1, 1, 1)?, false)?.relu())
        })(),
        _ => named(Named::of(workload)?),
    })
}

fn main() {
    serve("candle", "0.11.1", |workload| {
        build(workload).map(|built| built.unwrap_or_else(|e| Err(format!("failed: {e}"))))
    });
}
