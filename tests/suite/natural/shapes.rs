//! Tensors written down and made, shapes, indexing, assignment.

use super::is;
use straightline::{DType, Device, Ellipsis, NewAxis, Result, Tensor, step, tensor};

#[test]
fn literals_and_factories() -> Result<()> {
    let m = tensor([[1.0, 2.0], [3.0, 4.0]])?;
    assert_eq!((m.dtype(), m.shape()), (DType::F32, &[2, 2][..]));
    assert_eq!(tensor([1, 2, 3])?.dtype(), DType::I64);
    assert_eq!(tensor([true, false])?.dtype(), DType::Bool);
    assert_eq!(tensor([1u8, 2])?.dtype(), DType::U8);
    assert_eq!(tensor(3.5)?.dim(), 0);
    is(&tensor(vec![1.0, 2.0])?, [1f32, 2.0]);
    is(&tensor(&[[1, 2], [3, 4]])?, [1i64, 2, 3, 4]);
    is(&tensor(vec![vec![1.0, 2.0], vec![3.0, 4.0]])?, [1f32, 2.0, 3.0, 4.0]);
    assert!(tensor(vec![vec![1.0], vec![2.0, 3.0]]).is_err());
    is(&Tensor::with(DType::F64).literal([0.1, 0.2])?, [0.1f64, 0.2]);
    is(&Tensor::zeros([2, 3])?, [0f32; 6]);
    is(&Tensor::zeros((1, 2))?, [0f32; 2]);
    is(&Tensor::ones(3)?, [1f32; 3]);
    is(&Tensor::full([2], 7.0)?, [7f32, 7.0]);
    is(&Tensor::full([2], 7)?, [7i64, 7]);
    is(&Tensor::with(DType::F64).ones([2])?, [1f64, 1.0]);
    assert!(Tensor::with(Device::META).zeros([2])?.device().is_meta());
    is(&Tensor::arange(4)?, [0i64, 1, 2, 3]);
    is(&Tensor::arange(1..4)?, [1i64, 2, 3]);
    is(&Tensor::arange((0.0, 1.0, 0.25))?, [0f32, 0.25, 0.5, 0.75]);
    is(&Tensor::linspace(0.0, 1.0, 3)?, [0f32, 0.5, 1.0]);
    is(&Tensor::logspace(0.0, 2.0, 3)?, [1f32, 10.0, 100.0]);
    is(&Tensor::eye(2)?, [1f32, 0.0, 0.0, 1.0]);
    assert_eq!(Tensor::rand([2, 3])?.shape(), [2, 3]);
    assert_eq!(Tensor::randn((4, 5))?.numel(), 20);
    assert!(Tensor::randint(0, 10, [5])?.lt(10)?.all()?.item::<bool>()?);
    is(&Tensor::randperm(5)?.sort(0, false)?.0, [0i64, 1, 2, 3, 4]);
    is(&m.zeros_like()?, [0f32; 4]);
    is(&m.full_like(2.0)?, [2f32; 4]);
    assert_eq!(m.rand_like()?.shape(), m.shape());
    assert_eq!(m.randn_like()?.dtype(), DType::F32);
    Ok(())
}

#[test]
fn shapes() -> Result<()> {
    let x = Tensor::arange(6)?;
    let (rows, columns) = (2usize, 3usize);
    assert_eq!(x.reshape([2, 3])?.shape(), [2, 3]);
    assert_eq!(x.reshape((rows, columns))?.shape(), [2, 3]);
    assert_eq!(x.reshape([-1, 2])?.shape(), [3, 2]);
    let m = x.view((2, 3))?;
    assert_eq!(m.permute([1, 0])?.shape(), [3, 2]);
    assert_eq!(m.t()?.shape(), [3, 2]);
    assert_eq!(m.unsqueeze(0)?.shape(), [1, 2, 3]);
    assert_eq!(m.flatten()?.shape(), [6]);
    assert_eq!(m.unsqueeze(0)?.expand([4, 2, 3])?.shape(), [4, 2, 3]);
    assert_eq!(m.broadcast_to((2, 2, 3))?.shape(), [2, 2, 3]);
    let [r, c] = m.dims()?;
    assert_eq!((r, c), (2, 3));
    assert_eq!(m.size(-1)?, 3);
    is(&m.sum_dim(0)?, [3i64, 5, 7]);
    is(&m.sum_dim([0, 1])?, [15i64]);
    assert_eq!(m.sum_keepdim(1)?.shape(), [2, 1]);
    is(&m.amax(1)?, [2i64, 5]);
    is(&m.flip(1)?, [2i64, 1, 0, 5, 4, 3]);
    is(&Tensor::cat([&m, &m], 0)?.i((2, ..))?, [0i64, 1, 2]);
    assert_eq!(Tensor::cat(&[m.clone(), m.clone()], 1)?.shape(), [2, 6]);
    assert_eq!(Tensor::stack(&vec![m.clone(), m.clone()], 0)?.shape(), [2, 2, 3]);
    let parts = m.chunk(3, 1)?;
    assert_eq!(parts.len(), 3);
    for row in m.unbind(0)? {
        assert_eq!(row.shape(), [3]);
    }
    assert_eq!(m.to_dtype(DType::F32)?.dtype(), DType::F32);
    assert_eq!(m.repeat([2, 1])?.shape(), [4, 3]);
    Ok(())
}

#[test]
fn indexing() -> Result<()> {
    let x = Tensor::arange(24)?.reshape([2, 3, 4])?;
    is(&x.i((0, 1, 2))?, [6i64]);
    is(&x.i((0..2, 1, ..))?, [4i64, 5, 6, 7, 16, 17, 18, 19]);
    is(&x.i(1)?.i(0)?, [12i64, 13, 14, 15]);
    is(&x.i((.., .., -1))?, [3i64, 7, 11, 15, 19, 23]);
    is(&x.i((0, 1.., 0))?, [4i64, 8]);
    is(&x.i((0, ..2, 0))?, [0i64, 4]);
    is(&x.i((0, 0..=1, 0))?, [0i64, 4]);
    is(&x.i((0, -2.., 0))?, [4i64, 8]);
    is(&x.i((Ellipsis, 0))?, [0i64, 4, 8, 12, 16, 20]);
    assert_eq!(x.i((.., NewAxis))?.shape(), [2, 1, 3, 4]);
    is(&x.i((0, 0, step(.., 2)))?, [0i64, 2]);
    is(&x.i((0, 0, [3, 1]))?, [3i64, 1]);
    is(&x.i((0, &tensor([2, 0])?, 0))?, [8i64, 0]);
    is(&x.i(x.gt(21)?)?, [22i64, 23]);
    is(&x.i((1, [true, false, true], 0))?, [12i64, 20]);
    let y = Tensor::zeros([2, 3])?;
    y.i_put_((0, 1), 5.0)?;
    is(&y, [0f32, 5.0, 0.0, 0.0, 0.0, 0.0]);
    y.i_put_((1, ..), tensor([1.0, 2.0, 3.0])?)?;
    is(&y, [0f32, 5.0, 0.0, 1.0, 2.0, 3.0]);
    y.i_put_((.., step(.., 2)), -1)?;
    is(&y, [-1f32, 5.0, -1.0, -1.0, 2.0, -1.0]);
    y.i_put_(y.lt(0.0)?, 0.0)?;
    is(&y, [0f32, 5.0, 0.0, 0.0, 2.0, 0.0]);
    y.i((0, ..))?.fill_(9.0)?;
    is(&y, [9f32, 9.0, 9.0, 0.0, 2.0, 0.0]);
    Ok(())
}

#[test]
fn factories_and_joins_are_functions_too() -> Result<()> {
    use straightline::{arange, cat, einsum, eye, full, linspace, ones, randperm, stack, zeros};
    assert_eq!(zeros([2, 3])?.shape(), [2, 3]);
    assert_eq!(cat([ones([1, 2])?, full([1, 2], 7.0)?], 0)?.to_vec::<f32>()?, [1.0, 1.0, 7.0, 7.0]);
    let x = stack([arange(3)?, randperm(3)?.sort(0, false)?.0], 0)?;
    assert_eq!(x.to_vec::<i64>()?, [0, 1, 2, 0, 1, 2]);
    let (a, b) = (linspace(0.0, 1.0, 2)?, eye(2)?);
    assert_eq!(einsum("i,ij->j", [&a, &b])?.to_vec::<f32>()?, [0.0, 1.0]);
    Ok(())
}
