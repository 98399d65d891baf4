//! `gradcheck` finds what is wrong with a gradient.

use super::{contains, refused};
use std::sync::atomic::{AtomicU64, Ordering};
use straightline::autograd::{Context, Function, Gradcheck, gradcheck, gradgradcheck};
use straightline::{Result, Tensor};

/// `2x`, with something wrong about its gradient.
#[derive(Clone, Copy)]
enum Wrong {
    Value,
    /// The gradient does not depend on the one that arrives.
    Constant,
    /// No gradient is an error.
    Undefined,
    /// Each pass gives another one.
    Random,
    Nothing,
}

static PASSES: AtomicU64 = AtomicU64::new(0);

impl Function for Wrong {
    fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        context.set_materialize_grads(false);
        Ok(vec![inputs[0].mul(2)?, inputs[0].mul(2)?])
    }

    fn backward(&self, _: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let mut total = None::<Tensor>;
        for g in grads.iter().flatten() {
            total = Some(match total {
                Some(sum) => sum.add(g)?,
                None => g.clone(),
            });
        }
        let of = |g: Tensor| match self {
            Wrong::Value => g.mul(3),
            Wrong::Constant => g.zeros_like()?.add(2),
            Wrong::Random => {
                let pass = PASSES.fetch_add(1, Ordering::Relaxed) as f64;
                g.mul(2.0 + 1e-9 * pass)
            }
            _ => g.mul(2),
        };
        match (self, total) {
            (Wrong::Undefined, None) => Tensor::ones([1])?.reshape([7]).map(|t| vec![Some(t)]),
            (_, total) => Ok(vec![total.map(of).transpose()?]),
        }
    }
}

fn checked(wrong: Wrong, options: &Gradcheck) -> Result<()> {
    let x = Tensor::from_vec(vec![0.5f64], 1)?.requires_grad_(true)?;
    gradcheck(|x| Ok(vec![wrong.apply(x)?.remove(0)]), &[x], options)
}

#[test]
fn gradients_that_are_wrong() {
    let options = Gradcheck::default();
    checked(Wrong::Nothing, &options).unwrap();
    contains(&refused(checked(Wrong::Value, &options)), "Jacobian mismatch for output 0");
    let e = refused(checked(Wrong::Constant, &options));
    contains(&e, "backward not multiplied by grad_output");
    let e = refused(checked(Wrong::Undefined, &options));
    contains(&e, "Expected backward function to handle undefined output grads");
    let lenient = Gradcheck { check_undefined_grad: false, ..options.clone() };
    checked(Wrong::Undefined, &lenient).unwrap();
    let e = refused(checked(Wrong::Random, &options));
    contains(&e, "Backward is not reentrant");
    contains(&e, "The tolerance for nondeterminism was 0.0.");
    let lenient = Gradcheck { nondet_tol: 1e-5, ..options };
    checked(Wrong::Random, &lenient).unwrap();
}

#[test]
fn gradients_in_batches_are_checked() {
    let batched = Gradcheck { check_batched_grad: true, ..Gradcheck::default() };
    let x = Tensor::from_vec(vec![0.5f64, -0.25, 2.0], 3).unwrap().requires_grad_(true).unwrap();
    let f = |x: &[Tensor]| Ok(vec![x[0].sin()?.mul(x[0].sum()?)?, x[0].cumsum(0)?]);
    gradcheck(f, &[x.clone()], &batched).unwrap();
    gradgradcheck(f, &[x], &batched).unwrap();
}
