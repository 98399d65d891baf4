//! Operators with kernels of their own on a GPU, beside the CPU's.

use super::gpu;
use straightline::ops::aten;
use straightline::{
    DType, Device, Generator, Result, Scalar, Tensor, assert_close, compile, manual_seed, tensor,
};

/// Numbers with equal ones among them, and NaN if it is asked for.
fn numbers(sizes: &[i64], nan: bool) -> Result<Tensor> {
    let count = sizes.iter().product::<i64>();
    let all = (0..count).map(|i| match (i * 7919 + i * i) % 101 {
        0 if nan => f32::NAN,
        n => (n - 50) as f32 / 4.0,
    });
    Tensor::from_vec(all.collect::<Vec<f32>>(), sizes)
}

/// The same numbers, NaN included.
fn same(got: &Tensor, want: &Tensor) -> Result<()> {
    let got = got.to_device(Device::CPU)?;
    match want.dtype().is_floating() {
        true => assert_close(&got.nan_to_num()?, &want.nan_to_num()?),
        false => assert_close(&got, want),
    }
}

#[test]
fn sorts_are_stable_along_every_dimension() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    for sizes in [&[3i64, 5, 40][..], &[2, 2500], &[7], &[0, 3], &[]] {
        let x = numbers(sizes, true)?;
        let there = x.to_device(gpu)?;
        for dim in 0..sizes.len().max(1) as i64 {
            for descending in [false, true] {
                let of = |x: &Tensor| aten::sort_stable(x, Some(true), dim, descending);
                let ((a, b), (c, d)) = (of(&there)?, of(&x)?);
                assert_eq!((a.device(), a.strides()), (gpu, c.strides()));
                same(&a, &c)?;
                assert_eq!(b.to_vec::<i64>()?, d.to_vec::<i64>()?);
            }
            let of = |x: &Tensor| -> Result<Vec<Tensor>> {
                let mut all = vec![aten::cumsum(x, dim, None)?, aten::logcumsumexp(x, dim)?];
                for (values, places) in [aten::cummax(x, dim)?, aten::cummin(x, dim)?] {
                    all.extend([values, places]);
                }
                if x.numel() > 0 {
                    let (values, places) = aten::median_dim(x, dim, false)?;
                    all.extend([values, aten::isnan(&places)?]);
                    all.push(aten::kthvalue(x, 1, dim, true)?.0);
                    all.push(aten::mode(x, dim, false)?.0);
                    all.push(aten::topk(x, 1, dim, true, true)?.0);
                }
                Ok(all)
            };
            for (got, want) in of(&there)?.iter().zip(of(&x)?) {
                same(got, &want)?;
            }
        }
    }
    Ok(())
}

#[test]
fn what_data_decides_the_size_of_is_that_of_the_cpu() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let x = numbers(&[6, 900], true)?;
    let whole = x.nan_to_num()?;
    let words = whole.mul(4)?.add(60)?.to_dtype(DType::I64)?.flatten()?;
    let of = |device: Device| -> Result<Vec<Tensor>> {
        let (x, words, whole) =
            (x.to_device(device)?, words.to_device(device)?, whole.to_device(device)?);
        let mask = x.gt(3)?;
        let (a, b, c) = aten::_unique2(&words, true, true, true)?;
        let (d, e, f) = aten::unique_consecutive(&mask, true, true, None)?;
        let edges = tensor([-9f32, -2.5, 0.0, 4.0])?.to_device(device)?;
        let weights = whole.flatten()?;
        let rows = aten::reshape(&whole, &[words.numel() / 9, 9])?;
        let ids = words.slice(0, 0, words.numel() / 9, 1)?;
        Ok(vec![
            x.nonzero()?,
            x.masked_select(&mask)?,
            aten::masked_scatter(&x, &mask, &whole.neg()?)?,
            a,
            b,
            c,
            d,
            e,
            f,
            aten::bincount(&words, None, 200)?,
            aten::bincount(&words, Some(&weights), 0)?,
            aten::histc(&whole, 13, Scalar::Int(0), Scalar::Int(0))?,
            aten::bucketize_tensor(&x, &edges, false, true)?,
            aten::isin_tensor_tensor(&x, &edges, false, false)?,
            aten::count_nonzero(&whole, Some(0))?,
            aten::embedding_dense_backward(&rows, &ids, 130, 3, false)?,
        ])
    };
    for (i, (got, want)) in of(gpu)?.iter().zip(of(Device::CPU)?).enumerate() {
        assert_eq!((got.device(), got.sizes()), (gpu, want.sizes()), "{i}");
        same(got, &want)?;
    }
    Ok(())
}

#[test]
fn a_seed_gives_the_same_numbers_again() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let draw = || -> Result<[Vec<f32>; 3]> {
        let with = Tensor::with(gpu);
        let dropped = aten::native_dropout(&with.ones([50])?, 0.5, Some(true))?.0;
        Ok([with.rand([50])?.to_vec()?, with.randn([50])?.to_vec()?, dropped.to_vec()?])
    };
    manual_seed(11);
    let (first, second) = (draw()?, draw()?);
    manual_seed(11);
    assert_eq!(draw()?, first);
    let generator = Generator::default_of(gpu);
    let state = generator.state()?;
    assert_eq!(draw()?, second);
    generator.set_state(&state)?;
    assert_eq!(draw()?, second);
    assert_ne!(first, second);
    // one of one's own draws what the default one does, and one of the CPU nothing
    manual_seed(5);
    let ours = Tensor::with(gpu).rand([9])?.to_vec::<f32>()?;
    let of = |g: &Generator| Tensor::with(g).device(gpu).rand([9]);
    assert_eq!(of(&Generator::philox(5))?.to_vec::<f32>()?, ours);
    let e = of(&Generator::new(5)).unwrap_err();
    assert!(e.to_string().contains("generator of an accelerator"), "{e}");
    // in a stream of the CPU nothing has moved
    manual_seed(0);
    Tensor::with(gpu).rand([5])?;
    assert_eq!(Tensor::rand([1])?.to_vec::<f32>()?, [0.496_256_6]);
    Ok(())
}

#[test]
fn numbers_are_drawn_in_the_order_of_memory() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let fill = |t: Tensor| -> Result<Vec<f32>> {
        manual_seed(2);
        t.uniform_(0.0, 1.0)?.to_vec::<f32>()
    };
    let with = Tensor::with(gpu);
    let plain = fill(with.zeros([6, 4])?)?;
    let transposed = fill(with.zeros([4, 6])?.transpose(0, 1)?)?;
    assert_eq!(Tensor::from_vec(transposed, [6, 4])?.transpose(0, 1)?.to_vec::<f32>()?, plain);
    // every second element: the others stay
    let wide = with.zeros([6, 8])?;
    assert_eq!(fill(wide.slice(1, 0, 8, 2)?)?, plain);
    assert!(wide.slice(1, 1, 8, 2)?.to_vec::<f32>()?.iter().all(|x| *x == 0.0));
    Ok(())
}

#[test]
fn distributions_permutations_and_choices() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    manual_seed(1);
    let with = Tensor::with(gpu);
    let mean = |t: &Tensor| t.to_dtype(DType::F32)?.mean()?.item::<f32>();
    let near = |t: &Tensor, want: f32| -> Result<()> {
        let got = mean(t)?;
        assert!((got - want).abs() < 0.1, "{got} is not {want}");
        Ok(())
    };
    let n = [2000i64];
    near(&with.rand(n)?, 0.5)?;
    near(&with.randn(n)?, 0.0)?;
    near(&with.empty(n)?.exponential_(2.0)?, 0.5)?;
    near(&with.empty(n)?.bernoulli_(0.3)?, 0.3)?;
    near(&with.full(n, 0.7)?.bernoulli()?, 0.7)?;
    near(&Tensor::with((DType::I64, gpu)).randint(3, 8, n)?.div(10)?, 0.5)?;
    let (means, stds) = (with.full(n, 3.0)?, with.full(n, 0.5)?);
    near(&aten::normal_tensor_tensor(&means, &stds, None)?, 3.0)?;
    let e = aten::normal_tensor_tensor(&means, &stds.neg()?, None).unwrap_err();
    assert!(e.to_string().contains("std >= 0"), "{e}");
    let mut order = Tensor::with((DType::I64, gpu)).randperm(300)?.to_vec::<i64>()?;
    assert!(!order.is_sorted());
    order.sort_unstable();
    assert_eq!(order, (0..300).collect::<Vec<i64>>());
    let weights = tensor([0f32, 1.0, 0.0, 3.0])?.to_device(gpu)?;
    let drawn = weights.multinomial(2000, true)?;
    near(&drawn.to_dtype(DType::F32)?, 2.5)?;
    let mut two = weights.multinomial(2, false)?.to_vec::<i64>()?;
    two.sort_unstable();
    assert_eq!(two, [1, 3]);
    let e = weights.neg()?.multinomial(2, true).unwrap_err();
    assert!(e.to_string().contains("probability"), "{e}");
    Ok(())
}

#[test]
fn compiled_code_draws_what_eager_code_draws() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let f = |x: &Tensor| {
        let noise = aten::rand_like(x, None, None, None, None, None)?;
        let dropped = aten::dropout(&x.add(&noise)?, 0.5, true)?;
        let (fused, mask) = aten::native_dropout(&dropped, 0.25, Some(true))?;
        let normal = aten::randn_like(x, None, None, None, None, None)?.mul(&mask)?;
        fused.add(&normal)?.add(&aten::bernoulli(&noise, None)?)?.add(&noise.normal_(0.0, 1.0)?)
    };
    let x = numbers(&[7, 60], false)?.to_device(gpu)?;
    let draw = |f: &dyn Fn(&Tensor) -> Result<Tensor>| -> Result<[Vec<f32>; 2]> {
        manual_seed(9);
        Ok([f(&x)?.to_vec()?, f(&x)?.to_vec()?])
    };
    let want = draw(&|x| f(x))?;
    assert_ne!(want[0], want[1]);
    let compiled = compile(f);
    compiled.call(&x)?;
    let got = draw(&|x| compiled.call(x))?;
    for (got, want) in got.iter().zip(&want) {
        for (got, want) in got.iter().zip(want) {
            assert!((got - want).abs() < 1e-5, "{got} {want}");
        }
    }
    Ok(())
}

#[test]
fn compiled_code_sorts_and_compacts() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let f = |x: &Tensor| {
        let (sorted, _) = aten::sort_stable(x, Some(true), -1, true)?;
        aten::cumsum(&sorted.exp()?, 1, None)?.log()
    };
    let x = numbers(&[3, 50], false)?;
    let compiled = compile(f);
    for _ in 0..3 {
        same(&compiled.call(&x.to_device(gpu)?)?, &f(&x)?)?;
    }
    Ok(())
}

/// As many places as are sorted, some of them of several rows: sums are the CPU's to the bit, and of what is
/// put the last one stays.
#[test]
fn many_rows_go_to_their_places() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let n = 300i64;
    let index = Tensor::arange(n)?.mul(7919)?.remainder(40)?;
    let (x, rows) = (numbers(&[40, 5], false)?, numbers(&[n, 5], false)?);
    let columns = numbers(&[5, n], false)?;
    let of = |device: Device| -> Result<Vec<Tensor>> {
        let (x, rows, columns, index) = (
            x.to_device(device)?,
            rows.to_device(device)?,
            columns.to_device(device)?,
            index.to_device(device)?,
        );
        let wide = aten::expand(&index, &[5, n], false)?;
        let turned = x.transpose(0, 1)?;
        let pair = [Some(index.clone()), Some(index.remainder(5)?)];
        let flat = rows.select(1, 2)?;
        let negative = [Some(index.sub(40)?)];
        Ok(vec![
            aten::index_add(&x, 0, &index, &rows, Scalar::Float(0.5))?,
            aten::index_add(&turned, 1, &index, &columns, Scalar::Int(1))?,
            aten::index_copy(&x, 0, &index, &rows)?,
            aten::scatter_add(&turned, 1, &wide, &columns)?,
            aten::scatter_src(&turned, 1, &wide, &columns)?,
            aten::index_put(&x, &negative, &rows, true)?,
            aten::index_put(&x, &pair, &flat, false)?,
            aten::index_put(&x, &pair, &flat, true)?,
        ])
    };
    for (i, (got, want)) in of(gpu)?.iter().zip(of(Device::CPU)?).enumerate() {
        assert_eq!(got.strides(), want.strides(), "{i}");
        assert_eq!(got.to_vec::<f32>()?, want.to_vec::<f32>()?, "{i}");
    }
    let beyond = index.add(1)?.to_device(gpu)?;
    let e = aten::index_add(&x.to_device(gpu)?, 0, &beyond, &rows.to_device(gpu)?, Scalar::Int(1));
    assert!(e.unwrap_err().to_string().contains("out of range"));
    Ok(())
}

#[test]
fn what_is_no_probability_is_refused() -> Result<()> {
    let Some((gpu, _alone)) = gpu() else { return Ok(()) };
    let target = Tensor::with(gpu).ones([2])?;
    let good = tensor([0.25f32, 1.0])?.to_device(gpu)?;
    assert!(good.binary_cross_entropy(&target).is_ok());
    for bad in [-0.5f32, 1.5, f32::NAN] {
        let x = tensor([0.25f32, bad])?.to_device(gpu)?;
        let e = x.binary_cross_entropy(&target).unwrap_err();
        assert!(e.to_string().contains("between 0 and 1"), "{e}");
    }
    Ok(())
}
