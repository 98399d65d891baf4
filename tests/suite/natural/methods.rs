//! Methods that people call on tensors: decompositions, statistics, what is not a number, parts,
//! in-place forms.

use super::{is, near};
use straightline::{DType, Result, Tensor, assert_close, tensor};

#[test]
fn linear_algebra() -> Result<()> {
    let a = tensor([[4.0, 1.0], [1.0, 3.0]])?;
    let b = tensor([1.0, 2.0])?;
    let (u, s, vh) = a.svd_with(false)?;
    assert_close(&u.mul(&s)?.matmul(&vh)?, &a)?;
    let (w, v) = a.eigh()?;
    assert_close(&v.mul(&w)?.matmul(&v.t()?)?, &a)?;
    assert_close(&a.eigvalsh()?, &w)?;
    let (w, _) = a.eig()?;
    assert!(w.dtype().is_complex());
    let (q, r) = a.qr()?;
    assert_close(&q.matmul(&r)?, &a)?;
    let x = a.lstsq(&b.unsqueeze(1)?)?;
    assert_close(&x.squeeze_dim(1)?, &a.solve(&b)?)?;
    assert_close(&a.pinv()?, &a.inverse()?)?;
    near(&a.det()?, [11.0]);
    assert_eq!(a.matrix_rank()?.item::<i64>()?, 2);
    assert_close(&a.matrix_power(-1)?, &a.inverse()?)?;
    near(&Tensor::zeros([2, 2])?.matrix_exp()?, [1.0, 0.0, 0.0, 1.0]);
    let (p, l, u) = a.lu()?;
    assert_close(&p.matmul(&l)?.matmul(&u)?, &a)?;
    let l = a.cholesky()?;
    let y = l.solve_triangular(&b.unsqueeze(1)?, false)?;
    assert_close(&l.matmul(&y)?.squeeze()?, &b)?;
    near(&a.trace()?, [7.0]);
    near(&a.norm()?, [27f32.sqrt()]);
    near(&a.matrix_norm_with(1)?, [5.0]);
    near(&Tensor::einsum("ij,j->i", [&a, &b])?, [6.0, 7.0]);
    near(&a.mv(&b)?, [6.0, 7.0]);
    near(&b.dot(&b)?, [5.0]);
    near(&b.outer(&b)?, [1.0, 2.0, 2.0, 4.0]);
    near(&a.addmm(&a, &a)?.i((0, 0))?, [21.0]);
    near(&Tensor::zeros([2, 2])?.addr(&b, &b)?, [1.0, 2.0, 2.0, 4.0]);
    assert_eq!(Tensor::zeros([4, 2, 3])?.mt()?.shape(), [4, 3, 2]);
    Ok(())
}

#[test]
fn statistics() -> Result<()> {
    let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 9.0]])?;
    near(&x.quantile(0.5)?, [3.5]);
    near(&x.quantile([0.25, 0.75])?, [2.25, 4.75]);
    near(&x.quantile_dim(0.5, 1)?, [2.0, 5.0]);
    assert_eq!(x.quantile_keepdim([0.1, 0.5, 0.9], 0)?.shape(), [3, 1, 3]);
    assert_eq!(x.quantile_keepdim(0.5, -1)?.shape(), [2, 1]);
    assert!(x.quantile(1.5).is_err() && tensor([1])?.quantile(0.5).is_err());
    assert!(tensor([1.0, f64::NAN])?.quantile(0.0)?.item::<f32>()?.is_nan());
    near(&x.cov()?, [1.0, 2.5, 2.5, 7.0]);
    near(&x.corrcoef()?, [1.0, 0.944_911_2, 0.944_911_2, 1.0]);
    near(&x.i(0)?.cov()?, [1.0]);
    near(&x.dist_with(&x, 2)?, [0.0]);
    let (std, mean) = x.std_mean_with(1, 0, false)?;
    near(&mean, [2.0, 6.0]);
    near(&x.i(0)?.std()?, [1.0]);
    assert_close(&x.var_with(1, 0, false)?.sqrt()?, &std)?;
    let (low, high) = x.aminmax()?;
    near(&(high - low), [8.0]);
    near(&x.ravel()?.norm_with(f64::INFINITY, (), false)?, [9.0]);
    near(&std, [(2f32 / 3.0).sqrt(), (14f32 / 3.0).sqrt()]);
    let (values, _, counts) = tensor([3, 1, 3])?.unique_counts()?;
    is(&values, [1i64, 3]);
    is(&counts, [1i64, 2]);
    near(&tensor([3.0, 1.0, 2.0])?.median()?, [2.0]);
    near(&x.renorm(2, 0, 1)?.norm_with(2, 1, false)?, [1.0, 1.0]);
    // compiled as well
    let f = straightline::compile(|x: &Tensor| x.quantile_dim([0.25, 0.5], 1)?.add(x.cov()?));
    assert_close(&f.call(&x)?, &f.eager(&x)?)
}

#[test]
fn what_is_not_a_number() -> Result<()> {
    let x = tensor([1.0, f64::NAN, f64::INFINITY, -2.5])?;
    is(&x.nan_to_num()?, [1f32, 0.0, f32::MAX, -2.5]);
    is(&x.isposinf()?, [false, false, true, false]);
    is(&x.isfinite()?, [true, false, false, true]);
    is(&tensor([2.75, -2.75])?.frac()?, [0.75f32, -0.75]);
    let y = tensor([[1.0, f64::NAN], [2.0, 4.0]])?;
    is(&y.nansum()?, [7f32]);
    is(&y.nansum_dim(0)?, [3f32, 4.0]);
    near(&y.nanmean()?, [7.0 / 3.0]);
    is(&y.nanmean_keepdim(1)?, [1f32, 3.0]);
    is(&y.nanmedian()?, [2f32]);
    is(&tensor([1.26, 17.0])?.round_decimals(1)?, [1.3f32, 17.0]);
    is(&tensor([1.5])?.ldexp(2)?, [6f32]);
    is(&tensor([1.0])?.logaddexp2(1.0)?, [2f32]);
    Ok(())
}

#[test]
fn parts_and_places() -> Result<()> {
    let x = Tensor::arange(6)?.reshape([2, 3])?;
    let [a, b] = <[Tensor; 2]>::try_from(x.split([1, 2], 1)?).expect("two parts");
    assert_eq!((a.shape(), b.shape()), (&[2, 1][..], &[2, 2][..]));
    assert_eq!(x.split(2, 1)?.len(), 2);
    assert_eq!(x.split(vec![1, 1], 0)?.len(), 2);
    assert_eq!(x.tensor_split(2, 1)?[0].shape(), [2, 2]);
    assert_eq!(x.swapaxes(0, 1)?.shape(), [3, 2]);
    is(&x.fliplr()?, [2i64, 1, 0, 5, 4, 3]);
    is(&x.rot90_dims(2, (0, 1))?, [5i64, 4, 3, 2, 1, 0]);
    is(&tensor([1, 2])?.diag_embed()?, [1i64, 0, 0, 2]);
    assert_eq!(x.argwhere()?.shape(), [5, 2]);
    is(&x.select_scatter(&tensor([7, 7, 7])?, 0, 0)?, [7i64, 7, 7, 3, 4, 5]);
    is(&x.new_full([2], 9)?, [9i64, 9]);
    assert_eq!(x.new_zeros([2])?.dtype(), DType::I64);
    assert_eq!(x.flatten()?.reshape_as(&x)?.shape(), [2, 3]);
    assert_eq!(x.type_as(&Tensor::zeros(1)?)?.dtype(), DType::F32);
    assert_eq!(Tensor::block_diag([&x, &x])?.shape(), [4, 6]);
    let at = tensor([[0, 2], [1, 1]])?;
    is(&x.scatter(1, &at, 9)?, [9i64, 1, 9, 3, 9, 5]);
    is(&x.scatter(1, &at, &tensor([[8, 9], [6, 7]])?)?, [8i64, 1, 9, 3, 7, 5]);
    // references to references, as arguments of a closure have them
    let joined = |x: &Tensor| Tensor::cat([&x, &x], 0);
    assert_eq!(joined(&x)?.shape(), [4, 3]);
    let stacked = |x: &Tensor, y: &Tensor| Tensor::stack(&[&x, &y], 0);
    assert_eq!(stacked(&x, &x)?.shape(), [2, 2, 3]);
    Ok(())
}

#[test]
fn in_place() -> Result<()> {
    let x = Tensor::zeros([3])?;
    let at = tensor([2, 0])?;
    is(&x.scatter_(0, &at, 5)?, [5f32, 0.0, 5.0]);
    is(&x.index_add_(0, &at, &tensor([1.0, 2.0])?)?, [7f32, 0.0, 6.0]);
    is(&x.index_fill_(0, &tensor([1])?, -1)?, [7f32, -1.0, 6.0]);
    is(&x.lerp_(&Tensor::zeros([3])?, 0.5)?, [3.5f32, -0.5, 3.0]);
    is(&x.addcmul_with_(&x, &x, 0)?, [3.5f32, -0.5, 3.0]);
    is(&x.square_()?, [12.25f32, 0.25, 9.0]);
    is(&x.cumsum_(0)?, [12.25f32, 12.5, 21.5]);
    is(&x.frac_()?, [0.25f32, 0.5, 0.5]);
    is(&x.bernoulli_(0.0)?, [0f32; 3]);
    assert!(x.random_(3, 5)?.ge(3)?.all()?.item::<bool>()?);
    let w = Tensor::ones([2, 2])?;
    is(&w.triu_()?, [1f32, 1.0, 0.0, 1.0]);
    is(&w.addmm_(&w.copied()?, &w.copied()?)?, [2f32, 3.0, 0.0, 2.0]);
    Ok(())
}

#[test]
fn losses() -> Result<()> {
    let (x, y) = (tensor([0.2, 0.9])?, tensor([0.0, 1.0])?);
    near(&x.smooth_l1_loss(&y)?, [0.0125]);
    near(&x.huber_loss(&y)?, [0.0125]);
    near(&x.binary_cross_entropy(&y)?, [0.164_252]);
    near(&x.log()?.kl_div(&x)?, [0.0]);
    Ok(())
}
