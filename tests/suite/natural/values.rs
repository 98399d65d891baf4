//! Values out of tensors, and comparisons of whole tensors.

use straightline::testing::Closeness;
use straightline::{Result, Scalar, Tensor, assert_close, tensor};

#[test]
fn reading() -> Result<()> {
    let m = tensor([[1.0, 2.0], [3.0, 4.0]])?;
    assert_eq!(m.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(m.to_vec2::<f32>()?, [[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(m.unsqueeze(0)?.to_vec3::<f32>()?, [[[1.0, 2.0], [3.0, 4.0]]]);
    assert_eq!(m.sum()?.item::<f32>()?, 10.0);
    assert_eq!(m.mean()?.item::<f64>()?, 2.5);
    let loss: f32 = m.max()?.item()?;
    assert_eq!(loss, 4.0);
    assert_eq!(m.argmax(None)?.item::<usize>()?, 3);
    assert_eq!(m.sum()?.item::<Scalar>()?, Scalar::Float(10.0));
    assert!(m.gt(0)?.all()?.item::<bool>()?);
    assert!(m.item::<f32>().is_err());
    let total: f32 = m.iter::<f32>()?.sum();
    assert_eq!(total, 10.0);
    assert_eq!(m.i((0, 1))?.item::<f32>()?, 2.0);
    Ok(())
}

#[test]
fn comparing() -> Result<()> {
    let x = tensor([1.0, 2.0])?;
    let y = &x + 1e-7;
    assert!(x.allclose(&y)?);
    assert!(!x.equal(&Tensor::zeros([2])?)?);
    assert!(x.equal(&x.copied()?)?);
    assert_eq!(x.isclose_with(&tensor([1.0, 3.0])?, 1e-5, 1e-8)?.to_vec::<bool>()?, [true, false]);
    assert_close(&x, &y)?;
    Closeness::new().rtol(0.5).check(&x, &tensor([1.2, 2.2])?)?;
    let said = assert_close(&x, &tensor([1.0, 3.0])?).unwrap_err().to_string();
    assert!(said.contains("1 of 2 elements differ (50.0 %)"), "{said}");
    assert!(said.contains("greatest absolute difference: 1 at [1]"), "{said}");
    Ok(())
}

#[test]
fn a_clone_is_a_handle_and_copied_copies() -> Result<()> {
    let x = tensor([1.0, 2.0])?;
    let (handle, copy) = (x.clone(), x.copied()?);
    x.fill_(0.0)?;
    assert_eq!(handle.to_vec::<f32>()?, [0.0, 0.0]);
    assert_eq!(copy.to_vec::<f32>()?, [1.0, 2.0]);
    Ok(())
}
