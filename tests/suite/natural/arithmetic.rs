//! Formulas, comparisons, functions.

use super::{is, near};
use straightline::{DType, Result, Tensor, compile, tensor};

fn xy() -> Result<(Tensor, Tensor)> {
    Ok((tensor([1.0, 2.0, 4.0])?, tensor([2.0, 2.0, 2.0])?))
}

#[test]
fn signs() -> Result<()> {
    let (x, y) = xy()?;
    is(&(&x + &y), [3f32, 4.0, 6.0]);
    is(&(&x - &y), [-1f32, 0.0, 2.0]);
    is(&(&x * &y), [2f32, 4.0, 8.0]);
    is(&(&x / &y), [0.5f32, 1.0, 2.0]);
    is(&(2.0 * &x), [2f32, 4.0, 8.0]);
    is(&(1.0 - &x), [0f32, -1.0, -3.0]);
    is(&(4.0 / &x), [4f32, 2.0, 1.0]);
    is(&(1.0 + &x), [2f32, 3.0, 5.0]);
    is(&(&x + 1f32), [2f32, 3.0, 5.0]);
    is(&(&x * 2), [2f32, 4.0, 8.0]);
    is(&(2 * &x), [2f32, 4.0, 8.0]);
    is(&(&x / 2.0), [0.5f32, 1.0, 2.0]);
    is(&(&x % 3), [1f32, 2.0, 1.0]);
    is(&(-&x), [-1f32, -2.0, -4.0]);
    is(&(&x * &x + &y), [3f32, 6.0, 18.0]);
    is(&(&x * 2.0 + 1.0), [3f32, 5.0, 9.0]);
    is(&((&x + &y) * (&x - &y)), [-3f32, 0.0, 12.0]);
    is(&(-(&x * &y) + 1), [-1f32, -3.0, -7.0]);
    is(&(x.square()? + y.square()?), [5f32, 8.0, 20.0]);
    is(&(x.clone() + y.clone()), [3f32, 4.0, 6.0]);
    near(&(0.5 * &x * (1.0 + (0.8 * &x).tanh()?)), [0.832_018_4, 1.921_669, 3.993_37]);
    near(
        &((&x - x.mean()?) / (x.var_with(0, 0, false)? + 1e-5).sqrt()?),
        [-1.069_041, -0.267_261, 1.336_303],
    );
    let scale = 3usize;
    is(&(&x * scale), [3f32, 6.0, 12.0]);
    let mut z = x.copied()?;
    z += &y;
    is(&z, [3f32, 4.0, 6.0]);
    z *= 2.0;
    is(&z, [6f32, 8.0, 12.0]);
    z -= 1;
    is(&z, [5f32, 7.0, 11.0]);
    z /= &y;
    is(&z, [2.5f32, 3.5, 5.5]);
    let n = tensor([6, 3, 5])?;
    is(&(&n & 3), [2i64, 3, 1]);
    is(&(&n | 8), [14i64, 11, 13]);
    is(&(&n ^ &n), [0i64, 0, 0]);
    is(&(&n << 1), [12i64, 6, 10]);
    is(&(&n >> 1), [3i64, 1, 2]);
    is(&!n.gt(4)?, [false, true, false]);
    is(&(n.gt(4)? & n.lt(6)?), [false, false, true]);
    Ok(())
}

#[test]
fn words_take_numbers_and_tensors() -> Result<()> {
    let (x, y) = xy()?;
    is(&x.gt(1.5)?, [false, true, true]);
    is(&x.gt(&y)?, [false, false, true]);
    is(&x.ge(2)?, [false, true, true]);
    is(&x.lt(&y)?, [true, false, false]);
    is(&x.le(2.0)?, [true, true, false]);
    is(&x.eq(&y)?, [false, true, false]);
    is(&x.ne(2.0)?, [true, false, true]);
    is(&x.add(1.0)?.mul(&y)?, [4f32, 6.0, 10.0]);
    is(&x.pow(2)?, [1f32, 4.0, 16.0]);
    is(&x.pow(&y)?, [1f32, 4.0, 16.0]);
    is(&x.maximum(&y)?, [2f32, 2.0, 4.0]);
    is(&x.maximum(3.0)?, [3f32, 3.0, 4.0]);
    is(&x.minimum(3)?, [1f32, 2.0, 3.0]);
    is(&x.clamp(1.5, 3.0)?, [1.5f32, 2.0, 3.0]);
    is(&x.clamp_min(2.0)?, [2f32, 2.0, 4.0]);
    is(&x.gt(1.5)?.where_cond(&x, 0.0)?, [0f32, 2.0, 4.0]);
    is(&x.masked_fill(&x.gt(3.0)?, 0.0)?, [1f32, 2.0, 0.0]);
    is(&x.remainder(3.0)?, [1f32, 2.0, 1.0]);
    is(&x.floor_divide(2)?, [0f32, 1.0, 2.0]);
    is(&x.add_(&y)?.sub_(2.0)?, [1f32, 2.0, 4.0]);
    Ok(())
}

#[test]
fn functions() -> Result<()> {
    let (x, y) = xy()?;
    near(&x.exp()?.log()?, [1.0, 2.0, 4.0]);
    near(&x.sqrt()?, [1.0, 1.414_213_6, 2.0]);
    near(&x.sigmoid()?, [0.731_058_6, 0.880_797, 0.982_013_8]);
    near(&(&x - 2.0).relu()?, [0.0, 0.0, 2.0]);
    near(&(&x - 2.0).elu()?, [-0.632_120_6, 0.0, 2.0]);
    near(&x.mish()?, [0.865_098_4, 1.943_959, 3.997_413]);
    near(&x.softmax(-1)?, [0.042_010_1, 0.114_195_2, 0.843_794_7]);
    near(&x.lerp(&y, 0.5)?, [1.5, 2.0, 3.0]);
    near(&x.cumsum(0)?, [1.0, 3.0, 7.0]);
    near(&x.dot(&y)?, [14.0]);
    near(&x.outer(&y)?.sum()?, [42.0]);
    let a = tensor([[4.0, 2.0], [2.0, 3.0]])?;
    near(&a.det()?, [8.0]);
    near(&a.inverse()?.matmul(&a)?, [1.0, 0.0, 0.0, 1.0]);
    near(&a.solve(&tensor([8.0, 7.0])?)?, [1.25, 1.5]);
    near(&a.mv(&tensor([1.0, 2.0])?)?, [8.0, 8.0]);
    near(&a.mm(&a.t()?)?, [20.0, 14.0, 14.0, 13.0]);
    near(&Tensor::einsum("ij,jk->ik", [&a, &a])?, [20.0, 14.0, 14.0, 13.0]);
    let (q, r) = a.qr()?;
    near(&q.matmul(&r)?, [4.0, 2.0, 2.0, 3.0]);
    let l = a.cholesky()?;
    near(&l.matmul(&l.t()?)?, [4.0, 2.0, 2.0, 3.0]);
    let (values, indices) = x.topk(2)?;
    is(&values, [4f32, 2.0]);
    is(&indices, [2i64, 1]);
    is(&tensor([3, 1, 3])?.unique()?, [1i64, 3]);
    is(&tensor([3, 1, 2])?.sort(0, false)?.0, [1i64, 2, 3]);
    is(&x.argmax(None)?, [2i64]);
    is(&x.argmax(-1)?, [2i64]);
    Ok(())
}

#[test]
fn compiled_functions() -> Result<()> {
    let (x, y) = xy()?;
    let f = compile(|x: &Tensor| Ok(x * 2.0 + 1.0));
    is(&f.call(&x)?, [3f32, 5.0, 9.0]);
    let g = compile(|x: &Tensor, y: &Tensor| {
        let z = x.exp()?.log()?;
        Ok(2.0 * z - y)
    });
    near(&g.call((&x, &y))?, [0.0, 2.0, 6.0]);
    near(&g.call(&(x.clone(), y.clone()))?, [0.0, 2.0, 6.0]);
    let twin = g.clone();
    near(&twin.call((&x, &y))?, [0.0, 2.0, 6.0]);
    assert_eq!((twin.variants(), g.variants()), (1, 1));
    let total =
        compile(|all: &Vec<Tensor>| all.iter().skip(1).try_fold(all[0].clone(), |s, t| s.add(t)));
    is(&total.call(vec![&x, &y, &x])?, [4f32, 6.0, 10.0]);
    is(&total.call(&[&x, &y, &y][..])?, [5f32, 6.0, 8.0]);
    let joined = compile(|all: &[Tensor]| Tensor::cat(all, 0));
    is(&joined.call([&x, &y])?, [1f32, 2.0, 4.0, 2.0, 2.0, 2.0]);
    is(&joined.call(&[y.clone(), y.clone()])?, [2f32; 6]);
    // signs give tensors, and so may what they make
    let (sum, both) = (
        compile(|x: &Tensor, y: &Tensor| x + y),
        compile(|(x, y): (&Tensor, &Tensor)| (x + y, x - y)),
    );
    is(&sum.call((&x, &y))?, [3f32, 4.0, 6.0]);
    is(&both.call((&x, &y))?.1, [-1f32, 0.0, 2.0]);
    is(&compile(|x: &Tensor| -x).call(&x)?, [-1f32, -2.0, -4.0]);
    let pair = compile(|[a, b]: &[Tensor; 2]| Ok((a + b, a - b)));
    let (total, difference) = pair.call([&x, &y])?;
    is(&total, [3f32, 4.0, 6.0]);
    is(&difference, [-1f32, 0.0, 2.0]);
    let scaled = compile(|x: &Tensor, by: &f64| x.mul(*by));
    is(&scaled.call((&x, 2.0))?, [2f32, 4.0, 8.0]);
    is(&scaled.call((&x, 3.0))?, [3f32, 6.0, 12.0]);
    assert_eq!((x.dtype(), scaled.variants()), (DType::F32, 2));
    Ok(())
}
