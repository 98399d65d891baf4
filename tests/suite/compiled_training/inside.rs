//! What users put between calls: functions of their own, checkpoints, second derivatives, views.

use super::*;

/// `x²`, with a gradient that is not its own.
struct Square;

impl autograd::Function for Square {
    fn forward(&self, context: &mut autograd::Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        context.save(&[&inputs[0]]);
        Ok(vec![inputs[0].pow(2)?])
    }

    fn backward(
        &self,
        context: &autograd::Context,
        grads: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>> {
        let x = &context.saved()?[0];
        grads.iter().map(|g| g.as_ref().map(|g| g.mul(x)?.mul(3)).transpose()).collect()
    }
}

#[test]
fn functions_and_checkpoints_are_captured_with_their_gradients() {
    use straightline::autograd::Function;
    let f = compile(|x: &Tensor| {
        let y = Square.apply(&[x.exp()?])?.remove(0);
        let block = |x: &[Tensor]| Ok(vec![x[0].sin()?.exp()?]);
        Ok(autograd::checkpoint(block, &[y])?.remove(0))
    });
    let x = leaf(&[5], 1);
    let expected = f.eager(&x).unwrap();
    let expected = autograd::grad(&[expected.sum().unwrap()], &[x.clone()]).unwrap();
    let got = f.call(&x).unwrap();
    close(&autograd::grad(&[got.sum().unwrap()], &[x.clone()]).unwrap()[0], &expected[0]);
    all_compiled(&f);
}

#[test]
fn second_derivatives_inside_are_captured() {
    let penalty = |x: &Tensor, w: &Tensor| -> Result<Tensor> {
        let y = x.mul(w)?.tanh()?.sum()?;
        let create = autograd::GradOptions { create_graph: true, ..Default::default() };
        let g = autograd::grad_with(&[y.clone()], &[x.clone()], &create)?;
        y.add(&g[0].as_ref().expect("a gradient").pow(2)?.sum()?)
    };
    let (x, w) = (leaf(&[4], 1), leaf(&[4], 2));
    let both = [x.clone(), w.clone()];
    let expected = autograd::grad(&[penalty(&x, &w).unwrap()], &both).unwrap();
    let f = compile(move |x: &Tensor, w: &Tensor| penalty(x, w));
    for _ in 0..2 {
        let got = autograd::grad(&[f.call((&x, &w)).unwrap()], &both).unwrap();
        close(&got[0], &expected[0]);
        close(&got[1], &expected[1]);
    }
    let whole = compile(move |x: &Tensor, w: &Tensor| {
        autograd::grad(&[penalty(x, w)?], &[x.clone(), w.clone()])
    });
    let got = whole.call((&x, &w)).unwrap();
    close(&got[1], &expected[1]);
    all_compiled(&f);
    all_compiled(&whole);
}

#[test]
fn results_beside_a_loss_whose_pass_was_made() {
    let w = leaf(&[3], 1);
    let mine = w.clone();
    let f = compile(move |x: &Tensor| {
        mine.set_grad(None)?;
        let y = x.mul(&mine)?.tanh()?;
        let loss = y.pow(2)?.sum()?;
        loss.backward()?;
        Ok((loss, y))
    });
    let (loss, y) = f.call(&random(&[3], 2)).unwrap();
    for t in [loss, y.sum().unwrap()] {
        assert!(t.backward().unwrap_err().to_string().contains("second time"));
    }
    all_compiled(&f);
}

#[test]
fn views_of_what_is_given_are_views_of_it() {
    // the memory of a leaf that repeats its elements
    let f = compile(|x: &Tensor| x.unsqueeze(0));
    let x = random(&[1], 1).expand([3]).unwrap().detach().unwrap().requires_grad_(true).unwrap();
    f.call(&x).unwrap().sum().unwrap().backward().unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [1.0; 3]);
    // a view that is written later
    let f = compile(|x: &Tensor| x.narrow(0, 0, 2));
    let x = random(&[3], 1);
    let w = leaf(&[2], 2);
    let y = x.mul(1).unwrap();
    let part = f.call(&y).unwrap();
    part.mul_(&w).unwrap();
    assert_eq!(bits(&part), bits(&y.narrow(0, 0, 2).unwrap()));
    // under no_grad
    let a = leaf(&[3], 4);
    let v = no_grad(|| f.call(&a)).unwrap();
    assert!(v.requires_grad() && v.is_leaf());
}
