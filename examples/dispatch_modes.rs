//! Handlers of your own: a mode that sees every operator call, and a tensor that carries its own
//! handler and goes through `compile()`.
//!
//! `cargo run --example dispatch_modes`

use straightline::modes::{
    Call, CallLogger, DispatchMode, FlopCounter, NanFinder, Outcome, TensorSubclass, push_mode,
    subclass,
};
use straightline::ops::aten;
use straightline::{DType, Result, Tensor, compile};

/// A mode: replaces the exact GELU by its cheaper form, everywhere.
struct TanhGelu;

impl DispatchMode for TanhGelu {
    fn dispatch(&self, mut call: Call<'_>) -> Result<Outcome> {
        if call.is("aten::gelu") {
            call.set_arg("approximate", "tanh")?;
        }
        Ok(call.forward()?.into())
    }
}

/// A custom tensor type: weights stored as integers with one scale, converted to floats when an
/// operator uses them.
struct Int8 {
    data: Tensor,
    scale: f64,
}

impl Int8 {
    fn quantize(w: &Tensor) -> Result<Tensor> {
        let largest = w.abs()?.max()?.item::<f64>()?;
        let scale = largest / 127.0;
        let data = w.div(scale)?.round()?.to_dtype(DType::I8)?;
        subclass::wrap_like(Int8 { data, scale }, w)
    }

    fn wide(&self) -> Result<Tensor> {
        self.data.to_dtype(DType::F32)?.mul(self.scale)
    }
}

impl TensorSubclass for Int8 {
    fn dispatch(&self, mut call: Call<'_>) -> Result<Outcome> {
        if call.is("aten::t") {
            // the transposed weight is such a weight as well
            let data = self.data.t()?;
            let scale = self.scale;
            let like = data.clone();
            return Ok(subclass::wrap_like(Int8 { data, scale }, &like)?.into());
        }
        let mut failed = Ok(());
        call.map_tensors(|t| {
            let wide = subclass::of::<Int8>(t).map_or(Ok(t.clone()), Int8::wide);
            wide.unwrap_or_else(|e| {
                failed = Err(e);
                t.clone()
            })
        });
        failed?;
        Ok(call.forward()?.into())
    }

    fn inner(&self) -> Vec<&Tensor> {
        vec![&self.data]
    }

    fn with_inner(&self, inner: Vec<Tensor>) -> Self {
        Int8 { data: inner[0].clone(), scale: self.scale }
    }

    fn same_context(&self, other: &Self) -> bool {
        self.scale == other.scale
    }
}

fn main() -> Result<()> {
    straightline::manual_seed(0);
    let x = Tensor::randn([4, 16])?;
    let w = Tensor::randn([8, 16])?;

    println!("What a layer calls, above autograd and below:");
    let logger = CallLogger::new();
    {
        let _guards = (logger.push_pre_dispatch(), logger.push(), push_mode(TanhGelu));
        aten::gelu(&aten::linear(&x, &w, None)?, "none")?;
    }
    for line in logger.lines() {
        println!("  {line}");
    }

    println!("\nWhat it costs:");
    let counter = FlopCounter::new();
    {
        let _guard = counter.push();
        aten::gelu(&aten::linear(&x, &w, None)?, "none")?;
    }
    print!("{counter}");

    println!("\nWho made the first NaN:");
    let finder = NanFinder::new();
    {
        let _guard = finder.push();
        x.sub(100)?.log()?.exp()?.sum()?;
    }
    if let Some(found) = finder.first() {
        println!("  {found}");
    }

    println!("\nA layer with a weight of 8 bits, compiled:");
    let small = Int8::quantize(&w)?;
    let layer = compile(|x: &Tensor, w: &Tensor| aten::linear(x, w, None)?.relu());
    println!("{}", layer.trace((&x, &small))?);
    let exact = layer.eager((&x, &w))?;
    let error = (layer.call((&x, &small))? - exact).abs()?.max()?.item::<f64>()?;
    println!("differs from the exact one by at most {:.3}", error);
    assert!(error < 0.2);
    Ok(())
}
