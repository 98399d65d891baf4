//! Gradients, nested in all ways.

use straightline::func::{
    VmapOptions, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap, vmap_with,
};
use straightline::{Result, Tensor, autograd, tensor};

fn number(t: &Tensor) -> f32 {
    t.item::<f32>().unwrap()
}

#[test]
fn t1_second_derivative() -> Result<()> {
    let cube = |x: &Tensor| x.mul(x)?.mul(x);
    assert_eq!(number(&grad(grad(cube))(&tensor(2.0)?)?), 12.0);
    assert_eq!(number(&grad(grad(grad(cube)))(&tensor(2.0)?)?), 6.0);
    Ok(())
}

#[test]
fn t2_perturbations_are_not_confused() -> Result<()> {
    let f = |x: &Tensor| x.mul(grad(|y: &Tensor| x.add(y))(&tensor(1.0)?)?);
    assert_eq!(number(&grad(f)(&tensor(2.0)?)?), 1.0);
    let f = |x: &Tensor| {
        let one = tensor(1.0)?;
        x.mul(jvp(|y: &Tensor| x.add(y), &one, &one)?.1)
    };
    assert_eq!(number(&jvp(f, &tensor(2.0)?, &tensor(1.0)?)?.1), 1.0);
    Ok(())
}

#[test]
fn t3_per_sample() -> Result<()> {
    let x = tensor([[0.0, 1.0], [2.0, 3.0]])?;
    let g = vmap(grad(|a: &Tensor| a.mul(a)?.sum()))(&x)?;
    assert_eq!(g.to_vec2::<f32>()?, [[0.0, 2.0], [4.0, 6.0]]);
    // the gradient of a batch
    let total = grad(|x: &Tensor| vmap(|a: &Tensor| a.mul(a)?.sum())(x)?.sum())(&x)?;
    assert_eq!(total.to_vec2::<f32>()?, [[0.0, 2.0], [4.0, 6.0]]);
    Ok(())
}

#[test]
fn t4_no_grad_inside() -> Result<()> {
    let f = |a: &Tensor| a.sub(autograd::no_grad(|| a.mul(a))?)?.sum();
    let g = grad(f)(&tensor([1.0, 2.0, 3.0])?)?;
    assert_eq!(g.to_vec::<f32>()?, [1.0, 1.0, 1.0]);
    Ok(())
}

#[test]
fn t5_no_grad_outside() -> Result<()> {
    let x = tensor([1.0, 2.0])?.requires_grad_(true)?;
    let g = autograd::no_grad(|| grad(|a: &Tensor| a.mul(a)?.sum())(&x))?;
    assert_eq!(g.to_vec::<f32>()?, [2.0, 4.0]);
    assert!(!g.requires_grad());
    Ok(())
}

#[test]
fn t10_jacobians() -> Result<()> {
    let x = tensor([0.0, 1.0, 2.0])?;
    let square = |x: &Tensor| x.mul(x);
    let diagonal = [[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 4.0]];
    assert_eq!(jacrev(square)(&x)?.to_vec2::<f32>()?, diagonal);
    assert_eq!(jacfwd(square)(&x)?.to_vec2::<f32>()?, diagonal);
    let h = hessian(|x: &Tensor| x.mul(x)?.mul(x)?.sum())(&x)?;
    assert_eq!(h.to_vec2::<f32>()?, [[0.0, 0.0, 0.0], [0.0, 6.0, 0.0], [0.0, 0.0, 12.0]]);
    // the other three ways to a matrix of second derivatives
    let f = |x: &Tensor| x.sin()?.mul(x)?.sum();
    let a = jacfwd(jacrev(f))(&x)?;
    for b in [jacrev(jacrev(f))(&x)?, jacrev(jacfwd(f))(&x)?, jacfwd(jacfwd(f))(&x)?] {
        straightline::assert_close(&a, &b)?;
    }
    Ok(())
}

#[test]
fn t11_captured_tensors_are_not_written() -> Result<()> {
    let captured = tensor([1.0])?;
    let error = grad(|x: &Tensor| {
        captured.add_(x)?;
        x.sum()
    })(&tensor([1.0])?)
    .unwrap_err()
    .to_string();
    assert!(
        error.contains("attempted to call in-place operation (aten::add_.Tensor) that would mutate a captured Tensor"),
        "{error}"
    );
    // intermediates are, and so are their views
    let g = grad(|x: &Tensor| {
        let y = x.mul(1)?;
        y.i(..1)?.mul_(5)?;
        y.mul_(2)?;
        y.sum()
    })(&tensor([1.0, 1.0])?)?;
    assert_eq!(g.to_vec::<f32>()?, [10.0, 2.0]);
    Ok(())
}

#[test]
fn t12_autograd_outside() -> Result<()> {
    let p = tensor(2.0)?.requires_grad_(true)?;
    let f = |a: &Tensor| a.mul(a)?.mul(a)?.mul(&p);
    let g = grad(f)(&tensor(2.0)?)?;
    assert_eq!(number(&g), 24.0);
    g.backward()?;
    assert_eq!(number(&p.grad().unwrap()), 12.0);
    // a plain batch records as well
    let w = tensor([1.0, 2.0])?.requires_grad_(true)?;
    let y = vmap(|a: &Tensor| a.mul(&w))(&tensor([[1.0, 1.0], [2.0, 2.0]])?)?;
    assert_eq!(y.grad_fn().unwrap().name(), "MulBackward0");
    y.sum()?.backward()?;
    assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [3.0, 3.0]);
    Ok(())
}

#[test]
fn pulls_back_as_often_as_asked() -> Result<()> {
    let x = tensor([0.5, 1.0])?;
    let (y, pull) = vjp(|x: &Tensor| x.exp(), &x)?;
    for scale in [1.0, 3.0] {
        let g = pull.call(&tensor([scale, 0.0])?)?;
        assert_eq!(g.to_vec::<f32>()?, [scale as f32 * y.to_vec::<f32>()?[0], 0.0]);
    }
    // a result that does not depend on the argument
    let (_, pull) = vjp(|_: &Tensor| tensor([1.0]), &x)?;
    assert_eq!(pull.call(&tensor([1.0])?)?.to_vec::<f32>()?, [0.0, 0.0]);
    assert!(pull.call(&tensor([1.0])?).is_ok());
    Ok(())
}

#[test]
fn structures_and_values() -> Result<()> {
    let f = |(a, rest): &(Tensor, Vec<Tensor>)| a.mul(&rest[0])?.add(&rest[1])?.sum();
    let at = (tensor([1.0, 2.0])?, vec![tensor([3.0, 4.0])?, tensor([5.0, 6.0])?]);
    let ((a, rest), value) = grad_and_value(f)(&at)?;
    assert_eq!(number(&value), 22.0);
    assert_eq!(a.to_vec::<f32>()?, [3.0, 4.0]);
    assert_eq!(rest[0].to_vec::<f32>()?, [1.0, 2.0]);
    assert_eq!(rest[1].to_vec::<f32>()?, [1.0, 1.0]);
    Ok(())
}

#[test]
fn what_is_no_number_or_has_no_gradient() -> Result<()> {
    let error = grad(|x: &Tensor| x.mul(2))(&tensor([1.0, 2.0])?).unwrap_err();
    assert!(error.to_string().contains("to return a scalar Tensor, got tensor with 1 dims"));
    let error = grad(|x: &Tensor| x.sum())(&tensor([1, 2])?).unwrap_err();
    assert!(
        error.to_string().contains("only Tensors of floating point dtype can require gradients")
    );
    let inside = grad(|x: &Tensor| x.clone().requires_grad_(true)?.sum())(&tensor([1.0])?);
    assert!(inside.unwrap_err().to_string().contains("attempting to call Tensor.requires_grad_()"));
    Ok(())
}

#[test]
fn values_can_be_asked_while_differentiating() -> Result<()> {
    let g = grad(|x: &Tensor| {
        let factor = if x.item::<f32>()? > 0.0 { 2 } else { 3 };
        x.mul(factor)
    });
    assert_eq!(number(&g(&tensor(1.0)?)?), 2.0);
    assert_eq!(number(&g(&tensor(-1.0)?)?), 3.0);
    Ok(())
}

#[test]
fn forward_equals_reverse() -> Result<()> {
    let w = Tensor::from_slice(&[0.5f64, -1.0, 2.0, 0.25, 1.0, -0.75], &[2, 3])?;
    let f = |x: &Tensor| w.matmul(x)?.tanh()?.softmax(0)?.log();
    let vector = |v: &[f64]| Tensor::from_slice(v, &[v.len() as i64]);
    let (x, v) = (vector(&[0.1, 0.2, 0.3])?, vector(&[1.0, -2.0, 0.5])?);
    let u = vector(&[0.3, 1.5])?;
    let (_, forward) = jvp(f, &x, &v)?;
    let (_, pull) = vjp(f, &x)?;
    let (a, b) = (forward.mul(&u)?.sum()?, pull.call(&u)?.mul(&v)?.sum()?);
    assert!((a.item::<f64>()? - b.item::<f64>()?).abs() < 1e-12);
    Ok(())
}

#[test]
fn columns_and_shared_arguments() -> Result<()> {
    let w = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], &[3, 3])?;
    let x = Tensor::from_slice(&[0.1f32, 0.2, 0.3, 0.4, 0.5, 0.6], &[2, 3])?;
    let loss = |(a, w): &(Tensor, Tensor)| w.matmul(a)?.tanh()?.sum();
    let options = VmapOptions { in_dims: vec![Some(0), None], ..VmapOptions::default() };
    let (gx, gw) = vmap_with(grad(loss), &options)(&(x.clone(), w.clone()))?;
    assert_eq!((gx.sizes(), gw.sizes()), (&[2, 3][..], &[2, 3, 3][..]));
    for i in 0..2 {
        let (a, b) = grad(loss)(&(x.select(0, i)?, w.clone()))?;
        straightline::assert_close(&gx.select(0, i)?, &a)?;
        straightline::assert_close(&gw.select(0, i)?, &b)?;
    }
    Ok(())
}
