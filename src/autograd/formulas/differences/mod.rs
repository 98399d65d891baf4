//! Formulas against differences, of first and of second order.

mod indices;
mod linear;
mod products;
mod views;

use crate::autograd::{Gradcheck, gradcheck, gradgradcheck};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::layout;

/// Numbers without a pattern, none near 0 and no two alike.
fn numbers(sizes: &[i64], seed: i64) -> Tensor {
    let x = (0..layout::numel(sizes)).map(|i| {
        let x = ((i * i + 7 * i + 3 + 31 * seed) as f64).sin() * 1.7 + 0.01 * i as f64;
        x + 0.05 * x.signum()
    });
    Tensor::from_vec(x.collect::<Vec<f64>>(), sizes).unwrap()
}

fn complex(sizes: &[i64], seed: i64) -> Tensor {
    let mut pairs = sizes.to_vec();
    pairs.push(2);
    aten::view_as_complex(&numbers(&pairs, seed)).unwrap()
}

/// Whole numbers, for indices.
fn whole(values: &[i64], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(values, sizes).unwrap()
}

/// How many derivatives are checked.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    First,
    Second,
}
use Order::{First, Second};

/// What failed so far.
#[derive(Default)]
struct Checks(Vec<String>);

/// What tangents do not go through.
const REFUSED: [&str; 2] = ["cdist", "embedding_bag"];

type Outputs = Result<Vec<Tensor>>;

impl Checks {
    /// Checks a function of tensors of these sizes.
    fn of(&mut self, name: &str, order: Order, sizes: &[&[i64]], f: impl Fn(&[Tensor]) -> Outputs) {
        let inputs = (0..).zip(sizes).map(|(i, sizes)| numbers(sizes, i)).collect();
        self.at(name, order, inputs, f);
    }

    /// The same of complex numbers.
    fn of_complex(
        &mut self,
        name: &str,
        order: Order,
        sizes: &[&[i64]],
        f: impl Fn(&[Tensor]) -> Outputs,
    ) {
        let inputs = (0..).zip(sizes).map(|(i, sizes)| complex(sizes, i)).collect();
        self.at(&format!("{name}, complex"), order, inputs, f);
    }

    /// Both.
    fn of_both(
        &mut self,
        name: &str,
        order: Order,
        sizes: &[&[i64]],
        f: impl Fn(&[Tensor]) -> Outputs,
    ) {
        self.of(name, order, sizes, &f);
        self.of_complex(name, order, sizes, &f);
    }

    fn at(
        &mut self,
        name: &str,
        order: Order,
        inputs: Vec<Tensor>,
        f: impl Fn(&[Tensor]) -> Outputs,
    ) {
        let wanting = || -> Result<Vec<Tensor>> {
            inputs.iter().map(|t| t.detach()?.requires_grad_(true)).collect()
        };
        let check_forward_ad = !REFUSED.iter().any(|r| name.starts_with(r));
        let options =
            Gradcheck { atol: 1e-5, rtol: 1e-4, check_forward_ad, ..Gradcheck::default() };
        let first = wanting().and_then(|x| gradcheck(&f, &x, &options));
        let second = match (&first, order) {
            (Ok(()), Second) => wanting().and_then(|x| gradgradcheck(&f, &x, &options)),
            _ => Ok(()),
        };
        for (what, checked) in [("", first), (" (second derivative)", second)] {
            if let Err(e) = checked {
                let text: String = e.to_string().chars().take(400).collect();
                self.0.push(format!("{name}{what}: {text}"));
            }
        }
    }

    fn done(self) {
        assert!(self.0.is_empty(), "{} failed:\n{}", self.0.len(), self.0.join("\n"));
    }
}
