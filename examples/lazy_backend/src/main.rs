//! The lazy device at work: `cargo run` in this folder.

use lazy_backend::LazyDevice;
use straightline::dispatch::{capture, dump_table, operator};
use straightline::{Device, Result, Tensor, manual_seed};

struct Mlp {
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
}

impl Mlp {
    fn new() -> Result<Mlp> {
        let make = |sizes: &[i64]| Tensor::randn(sizes)?.mul(0.3);
        Ok(Mlp { w1: make(&[32, 8])?, b1: make(&[32])?, w2: make(&[3, 32])?, b2: make(&[3])? })
    }

    fn on(&self, device: Device) -> Result<Mlp> {
        Ok(Mlp {
            w1: self.w1.to_device(device)?,
            b1: self.b1.to_device(device)?,
            w2: self.w2.to_device(device)?,
            b2: self.b2.to_device(device)?,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = x.linear(&self.w1, Some(&self.b1))?.relu()?;
        hidden.linear(&self.w2, Some(&self.b2))?.softmax(-1)
    }
}

fn furthest(a: &Tensor, b: &Tensor) -> Result<f32> {
    let (a, b) = (a.to_vec::<f32>()?, b.to_vec::<f32>()?);
    Ok(a.iter().zip(&b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max))
}

fn main() -> Result<()> {
    let lazy = LazyDevice::install_as("lazydev")?;
    let device: Device = "lazydev:0".parse()?;
    assert_eq!(device, lazy.device());

    println!("# An MLP on `cpu` and on `{device}`\n");
    manual_seed(1);
    let model = Mlp::new()?;
    let there = model.on(device)?;
    for step in 0..4 {
        let x = Tensor::randn([4, 8])?;
        let y = there.forward(&x.to_device(device)?)?;
        let before = lazy.stats();
        let difference = furthest(&y, &model.forward(&x)?)?;
        let s = lazy.stats();
        let ran = if s.compiled > before.compiled { "compiled" } else { "replayed" };
        println!("batch {step}: {ran}, largest difference {difference:e}");
        assert!(difference < 1e-5);
        if step == 3 {
            println!("\n{y}");
        }
    }

    println!("\n# Gradient descent by hand, with in-place updates\n");
    let x = Tensor::with(device).randn([64, 8])?;
    let y = x.matmul(&Tensor::with(device).randn([8, 1])?)?;
    let w = Tensor::with(device).zeros([8, 1])?;
    for step in 0..5 {
        let error = x.matmul(&w)? - &y;
        let gradient = x.t()?.matmul(&error)? * (2.0 / 64.0);
        w.sub_(gradient * 0.2)?;
        println!("step {step}: loss {:.4}", (&error * &error).mean()?.item::<f64>()?);
    }
    println!("\n{:?}", lazy.stats());

    println!("\n# What the dispatcher does for `x.linear(w, b)`\n");
    let x = Tensor::with(device).ones([1, 8])?;
    let (_, trace) = capture(|| x.linear(&there.w1, Some(&there.b1)));
    println!("{}", trace.join("\n"));

    println!("\n# Where calls of `aten::t` on PrivateUse1 go\n");
    let table = dump_table(operator("aten::t")?);
    for line in table.lines().filter(|l| l.contains("PrivateUse1:")) {
        println!("{line}");
    }
    Ok(())
}
