//! Branches and loops as operators of higher order, eagerly and compiled.

mod cond;
mod gradients;
mod loops;
mod torch;

use straightline::{CompileEvent, Compiled, Error, Tensor, TensorTree, dispatch};

/// Row-major elements as `f64`.
fn values(t: &Tensor) -> Vec<f64> {
    let t = t.detach().unwrap();
    let t = if t.dtype() == straightline::DType::Bool {
        t.to(straightline::DType::I64).unwrap()
    } else {
        t
    };
    t.to(straightline::DType::F64).unwrap().to_vec::<f64>().unwrap()
}

#[track_caller]
fn close(a: &Tensor, b: &Tensor) {
    assert_eq!((a.dtype(), a.sizes()), (b.dtype(), b.sizes()));
    near(&values(a), &values(b));
}

#[track_caller]
fn near(a: &[f64], b: &[f64]) {
    let near = |(x, y): (&f64, &f64)| x == y || (x - y).abs() <= 1e-5 * (1.0 + y.abs());
    assert!(a.len() == b.len() && a.iter().zip(b).all(near), "{a:?} and {b:?}");
}

/// That a function was captured, with as many variants, and nothing ran eagerly.
#[track_caller]
fn captured<I: TensorTree + 'static, O: TensorTree + 'static>(f: &Compiled<I, O>, variants: usize) {
    for e in f.events() {
        assert!(matches!(e, CompileEvent::Compiled { .. }), "{e}");
    }
    assert_eq!(f.variants(), variants);
}

/// How many calls the dispatcher sees.
fn calls<R>(f: impl FnOnce() -> R) -> (R, u64) {
    let before = dispatch::call_count();
    let done = f();
    (done, dispatch::call_count() - before)
}

fn text(e: &Error) -> String {
    e.to_string()
}
