//! Lines of tensor code as users of PyTorch, candle, tch and burn write them: each has to compile
//! and to give what they expect. One statement with `is` or `assert` is one line.

mod arithmetic;
mod defaults;
mod methods;
mod shapes;
mod values;

use straightline::{Element, Tensor};

/// Whether a tensor has these elements.
#[track_caller]
fn is<T: Element + PartialEq + std::fmt::Debug, const N: usize>(t: &Tensor, elements: [T; N]) {
    assert_eq!(t.to_vec::<T>().expect("elements of that type"), elements);
}

/// Whether an `f32` tensor has nearly these elements.
#[track_caller]
fn near<const N: usize>(t: &Tensor, elements: [f32; N]) {
    let t = t.to_vec::<f32>().expect("f32");
    assert_eq!(t.len(), N);
    for (a, b) in t.iter().zip(elements) {
        assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{t:?} and {elements:?}");
    }
}
