//! Batches.

use straightline::func::{Randomness, VmapOptions, levels, vmap, vmap_with};
use straightline::{Result, Tensor, arange, ones, randn, tensor, zeros};

fn message(r: Result<Tensor>) -> String {
    r.unwrap_err().to_string()
}

fn with(randomness: Randomness) -> VmapOptions {
    VmapOptions { randomness, ..VmapOptions::default() }
}

#[test]
fn t6_dimensions() -> Result<()> {
    let x = arange(6)?.to_dtype(straightline::DType::F32)?.view([2, 3])?;
    let columns =
        VmapOptions { in_dims: vec![Some(1)], out_dims: vec![Some(1)], ..VmapOptions::default() };
    assert_eq!(vmap_with(|a: &Tensor| a.mul(2), &columns)(&x)?.sizes(), [2, 3]);
    let columns = VmapOptions { in_dims: vec![Some(1)], ..VmapOptions::default() };
    assert_eq!(vmap_with(|a: &Tensor| a.sum(), &columns)(&x)?.to_vec::<f32>()?, [3.0, 5.0, 7.0]);
    // what does not depend on the sample is the same for all
    assert_eq!(vmap(|_: &Tensor| ones([2]))(&x)?.sizes(), [2, 2]);
    Ok(())
}

#[test]
fn t7_what_depends_on_the_elements() -> Result<()> {
    let x = tensor([1.0, 2.0])?;
    let e = message(vmap(|a: &Tensor| a.item::<f32>().map(|_| a.clone()))(&x));
    assert!(e.contains("It looks like you're calling .item() on a Tensor"), "{e}");
    let e =
        message(vmap(|a: &Tensor| straightline::ops::aten::is_nonzero(a).map(|_| a.clone()))(&x));
    assert!(e.contains("data-dependent control flow"), "{e}");
    let e = message(vmap(|a: &Tensor| a.add(randn([1])?))(&x));
    assert!(e.contains("called random operation while in randomness error mode"), "{e}");
    let e = message(vmap(|a: &Tensor| a.nonzero())(&x));
    assert!(e.contains("dynamic shape. Attempted to vmap over aten::nonzero"), "{e}");
    Ok(())
}

#[test]
fn t8_writes() -> Result<()> {
    let x = ones([2, 3])?;
    let e = message(vmap(|a: &Tensor| ones([3])?.mul_(a))(&x));
    assert!(e.contains("inplace arithmetic(self, *extra_args) is not possible"), "{e}");
    assert!(vmap(|a: &Tensor| zeros([3])?.add_(a))(&x).is_err());
    // of the same batch: the caller's tensor changes
    vmap(|a: &Tensor| a.mul_(3)?.add_(a))(&x)?;
    assert_eq!(x.to_vec::<f32>()?, [6.0; 6]);
    let y = vmap(|a: &Tensor| a.new_zeros([3])?.add_(a))(&x)?;
    assert_eq!(y.to_vec::<f32>()?, [6.0; 6]);
    Ok(())
}

#[test]
fn t9_random_numbers() -> Result<()> {
    let x = zeros([4, 2])?;
    straightline::manual_seed(0);
    let same = vmap_with(|a: &Tensor| a.add(randn([2])?), &with(Randomness::Same))(&x)?;
    straightline::manual_seed(0);
    let once = randn([2])?;
    for i in 0..4 {
        assert_eq!(same.select(0, i)?.to_vec::<f32>()?, once.to_vec::<f32>()?);
    }
    straightline::manual_seed(0);
    let different = vmap_with(|a: &Tensor| a.add(randn([2])?), &with(Randomness::Different))(&x)?;
    straightline::manual_seed(0);
    assert_eq!(different.to_vec::<f32>()?, randn([4, 2])?.to_vec::<f32>()?);
    Ok(())
}

#[test]
fn t13_levels() -> Result<()> {
    let seen = std::cell::RefCell::new(Vec::new());
    let f = |x: &Tensor| {
        *seen.borrow_mut() = levels();
        x.sum()
    };
    vmap(straightline::func::grad(f))(&ones([2, 3])?)?;
    assert_eq!(*seen.borrow(), [("Vmap", 1), ("Grad", 2)]);
    assert!(levels().is_empty());
    Ok(())
}

#[test]
fn chunks_and_refusals() -> Result<()> {
    let x = arange(10)?.to_dtype(straightline::DType::F32)?;
    let chunked = VmapOptions { chunk_size: Some(4), ..VmapOptions::default() };
    let y = vmap_with(|a: &Tensor| a.mul(a), &chunked)(&x)?;
    assert_eq!(y.to_vec::<f32>()?, x.mul(&x)?.to_vec::<f32>()?);
    let none = VmapOptions { chunk_size: Some(0), ..VmapOptions::default() };
    let e = message(vmap_with(|a: &Tensor| a.mul(a), &none)(&x));
    assert!(e.contains("chunk_size should be None or greater than 0. (got 0)"), "{e}");
    let two = vmap(|(a, b): &(Tensor, Tensor)| a.mul(b))(&(ones([2])?, ones([3])?));
    assert!(message(two).contains("got sizes [2, 3] for the mapped dimension"));
    let far = VmapOptions { in_dims: vec![Some(2)], ..VmapOptions::default() };
    let e = message(vmap_with(|a: &Tensor| a.mul(a), &far)(&ones([2, 3])?));
    assert!(e.contains("expected in_dim to satisfy -2 <= in_dim < 2"), "{e}");
    let shared = VmapOptions { out_dims: vec![None], ..VmapOptions::default() };
    let e = message(vmap_with(|a: &Tensor| a.mul(a), &shared)(&x));
    assert!(e.contains("can not return a BatchedTensor when out_dim is None"), "{e}");
    Ok(())
}

#[test]
fn dtypes_promote_as_for_one_sample() -> Result<()> {
    let numbers = Tensor::from_slice(&[1.0f64, 2.0], &[2])?;
    let rows = ones([3])?;
    let y = vmap(|a: &Tensor| rows.mul(a))(&numbers)?;
    assert_eq!((y.dtype(), y.sizes()), (straightline::DType::F32, &[2, 3][..]));
    // logical shapes are aligned from the right
    let y = vmap(|(a, b): &(Tensor, Tensor)| a.add(b))(&(ones([2, 3])?, ones([2, 4, 3])?))?;
    assert_eq!(y.sizes(), [2, 4, 3]);
    Ok(())
}

#[test]
fn batches_in_batches() -> Result<()> {
    let x = arange(24)?.to_dtype(straightline::DType::F32)?.view([2, 3, 4])?;
    let y = vmap(vmap(|a: &Tensor| a.softmax(0)))(&x)?;
    straightline::assert_close(&y, &x.softmax(2)?)?;
    let outer = vmap(|a: &Tensor| vmap(|b: &Tensor| a.mul(b))(a))(&x.select(0, 0)?.contiguous()?)?;
    assert_eq!(outer.sizes(), [3, 4, 4]);
    Ok(())
}

#[test]
fn what_has_escaped() -> Result<()> {
    let kept = std::cell::RefCell::new(None);
    vmap(|a: &Tensor| {
        *kept.borrow_mut() = Some(a.clone());
        Ok(a.clone())
    })(&ones([2])?)?;
    let kept = kept.into_inner().unwrap();
    assert!(message(kept.mul(2)).contains("may have escaped from inside a function being vmapped"));
    // a leaked variable is what it stands for
    let leaked = std::cell::RefCell::new(None);
    straightline::func::grad(|a: &Tensor| {
        *leaked.borrow_mut() = Some(a.clone());
        a.sum()
    })(&ones([2])?)?;
    assert_eq!(leaked.into_inner().unwrap().mul(2)?.to_vec::<f32>()?, [2.0, 2.0]);
    Ok(())
}

#[test]
fn dropout_draws_a_mask_for_all_or_for_each() -> Result<()> {
    use straightline::ops::aten::dropout;
    let x = ones([4, 8])?;
    let f = |a: &Tensor| dropout(a, 0.5, true);
    assert!(message(vmap(f)(&x)).contains("randomness error mode"));
    let same = vmap_with(f, &with(Randomness::Same))(&x)?;
    for i in 1..4 {
        assert_eq!(same.select(0, i)?.to_vec::<f32>()?, same.select(0, 0)?.to_vec::<f32>()?);
    }
    straightline::manual_seed(0);
    let different = vmap_with(f, &with(Randomness::Different))(&x)?;
    straightline::manual_seed(0);
    assert_eq!(different.to_vec::<f32>()?, f(&x)?.to_vec::<f32>()?);
    // without training there is nothing to draw
    let still = vmap(|a: &Tensor| dropout(a, 0.5, false))(&x)?;
    assert_eq!(still.to_vec::<f32>()?, x.to_vec::<f32>()?);
    Ok(())
}

#[test]
fn views_of_samples_are_written_where_they_are() -> Result<()> {
    let x = zeros([2, 3])?;
    vmap(|a: &Tensor| a.i(1..)?.add_(5))(&x)?;
    assert_eq!(x.to_vec2::<f32>()?, [[0.0, 5.0, 5.0], [0.0, 5.0, 5.0]]);
    // gradients of writes, of each sample
    let f = |a: &Tensor| {
        let y = a.mul(2)?;
        y.i(1..)?.mul_(a.i(..2)?)?;
        y.sum()
    };
    let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    let all = vmap(straightline::func::grad(f))(&x)?;
    for i in 0..2 {
        let alone = straightline::func::grad(f)(&x.select(0, i)?)?;
        straightline::assert_close(&all.select(0, i)?, &alone)?;
    }
    Ok(())
}

#[test]
fn autocast_casts_before_the_layers() -> Result<()> {
    let (a, w) = (ones([4, 3])?, ones([3, 2])?);
    let f = |w: &Tensor| a.matmul(w)?.to_dtype(straightline::DType::F32)?.sum();
    let guard = straightline::autocast::autocast(straightline::DeviceType::Cpu, None)?;
    let g = straightline::func::grad(f)(&w)?;
    drop(guard);
    assert_eq!((g.dtype(), g.to_vec::<f32>()?), (straightline::DType::F32, vec![4.0; 6]));
    Ok(())
}
