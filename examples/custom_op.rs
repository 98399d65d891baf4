//! An operator of your own: declared, implemented and called without touching the crate.
//!
//! `example::ema` is the exponential moving average of each row, a recurrence that no combination
//! of pointwise operators and reductions gives. It needs three things:
//!
//! 1. a schema, which says what it takes, what it returns, and that it writes nothing;
//! 2. a CPU kernel, which computes;
//! 3. a Meta kernel, which gives the shape of the result without computing it: while a function is
//!    captured there are shapes and no data.

use straightline::dispatch::{DispatchKey, Library, TypedOp, call_count};
use straightline::{DType, Error, ErrorKind, Result, Tensor, compile};

/// The operator as a typed function, found by name at its first call.
static EMA: TypedOp<(&Tensor, f64), Tensor> = TypedOp::new("example::ema", "");

/// Registers the operator for as long as the library lives.
fn register() -> Result<Library> {
    let mut library = Library::new("example")?;
    library.def("ema(Tensor self, float decay) -> Tensor")?;
    library.impl_at("ema", DispatchKey::CPU, ema_cpu)?;
    library.impl_at("ema", DispatchKey::Meta, ema_meta)?;
    Ok(library)
}

fn ema_cpu(x: &Tensor, decay: f64) -> Result<Tensor> {
    check(x, decay)?;
    let length = x.size(-1)?.max(1) as usize;
    let decay = decay as f32;
    let mut values = x.to_vec::<f32>()?;
    for row in values.chunks_mut(length) {
        let mut average = row[0];
        for value in row {
            average = decay * average + (1.0 - decay) * *value;
            *value = average;
        }
    }
    Tensor::from_slice(&values, x.sizes())
}

fn ema_meta(x: &Tensor, decay: f64) -> Result<Tensor> {
    check(x, decay)?;
    Tensor::with((x.dtype(), x.device())).empty(x.sizes())
}

/// Both kernels refuse the same inputs, so that what is wrong is found while capturing already.
fn check(x: &Tensor, decay: f64) -> Result<()> {
    let wrong = if x.dtype() != DType::F32 {
        ErrorKind::DType(format!("ema takes f32, not {}", x.dtype()))
    } else if x.dim() == 0 {
        ErrorKind::Shape("ema needs at least one dimension".to_owned())
    } else if !(0.0..=1.0).contains(&decay) {
        ErrorKind::Value(format!("decay must be between 0 and 1, and is {decay}"))
    } else {
        return Ok(());
    };
    Err(Error::new(wrong).with_call("example::ema", [x]))
}

fn main() -> Result<()> {
    let _library = register()?;
    let x = Tensor::from_slice(&[0f32, 8.0, 0.0, 0.0, 1.0, 1.0, 1.0, 9.0], [2, 4])?;

    // Eager, through the dispatcher as any operator of ATen.
    let average = EMA.call((&x, 0.5))?;
    println!("{average}");
    assert_eq!(average.to_vec::<f32>()?, [0.0, 4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 5.0]);

    // Inside a compiled function the operators around it are fused, the kernel itself is called
    // directly, and the dispatcher is not entered.
    let surprise = |x: &Tensor| {
        let average = EMA.call((x, 0.5))?;
        (x - average).abs()?.amax(-1)
    };
    let compiled = compile(surprise);
    let eager = surprise(&x)?;
    assert_eq!(compiled.call(&x)?.to_vec::<f32>()?, eager.to_vec::<f32>()?);
    let before = call_count();
    let again = compiled.call(&x)?;
    assert_eq!(call_count(), before);
    println!("{again}");
    println!("{}", compiled.trace(&x)?);

    // A wrong call names the operator and what is wrong with its operands.
    let error = EMA.call((&x, 1.5)).unwrap_err();
    println!("{error}");
    Ok(())
}
