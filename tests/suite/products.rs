//! Matrix products with what is computed of them next, all kinds with all kinds: a product is
//! written where its result is wanted, with what is added to it, and each of these moves has to
//! keep every element at its place.

use straightline::{Result, Tensor, assert_close, compile, step};

fn randn(sizes: &[i64]) -> Tensor {
    Tensor::randn(sizes).unwrap()
}

/// Of `x` `[2, 4, 6]` and a weight `[6, 6]`: a product of as many elements.
type Product = fn(&Tensor, &Tensor) -> Result<Tensor>;
/// What comes next, of the product and `x`.
type Next = fn(Tensor, &Tensor) -> Result<Tensor>;

const PRODUCTS: [(&str, Product); 5] = [
    ("linear", |x, w| x.linear(w, None)),
    ("linear with bias", |x, w| x.linear(w, Some(&w.i(0)?))),
    ("mm", |x, w| x.reshape([8, 6])?.matmul(w)?.view([2, 4, 6])),
    ("addmm", |x, w| w.i(1)?.addmm(x.reshape([8, 6])?, w)?.view([2, 4, 6])),
    ("bmm", |x, w| x.bmm(w.expand([2, 6, 6])?)),
];

const ACTIVATIONS: [(&str, Next); 6] = [
    ("nothing", |y, _| Ok(y)),
    ("relu", |y, _| y.relu()),
    ("gelu", |y, _| y.gelu()),
    ("residual", |y, x| y.add(x)),
    ("gelu and residual", |y, x| y.gelu()?.add(x)),
    ("row and relu", |y, x| y.add(x.i((0, 0))?)?.relu()),
];

const USES: [(&str, Next); 16] = [
    ("as it is", |y, _| Ok(y)),
    ("transposed", |y, _| y.transpose(0, 1)),
    ("transposed and copied", |y, _| y.transpose(0, 1)?.contiguous()?.mul(2)),
    ("last first", |y, _| y.permute([2, 0, 1])?.contiguous()?.mul(2)),
    ("transposed and flat", |y, _| y.transpose(1, 2)?.reshape([2, 24])?.sum_dim(-1)),
    ("heads", |y, _| y.view([2, 4, 3, 2])?.transpose(1, 2)?.contiguous()?.exp()),
    ("transposed softmax", |y, _| y.transpose(1, 2)?.softmax(-1)),
    ("halves joined", |y, _| Tensor::cat([y.narrow(2, 0, 3)?, y.narrow(2, 3, 3)?], 2)?.mul(2)),
    ("halves exchanged", |y, _| Tensor::cat([y.narrow(2, 3, 3)?, y.narrow(2, 0, 3)?], 2)?.mul(2)),
    ("one column six times", |y, _| Tensor::cat(vec![y.narrow(2, 0, 1)?; 6], 2)?.mul(2)),
    ("one row of all", |y, _| y.i((.., 0))?.expand([4, 2, 6])?.contiguous()?.mul(2)),
    ("every second", |y, _| y.i((.., step(.., 2)))?.contiguous()?.mul(2)),
    ("backwards", |y, _| y.flip([1])?.mul(2)),
    ("into a cache", |y, _| {
        let cache = Tensor::zeros([2, 6, 6])?;
        cache.i((.., 1..5))?.copy_(y)?;
        Ok(cache)
    }),
    ("over the operand", |y, x| {
        x.transpose(0, 1)?.copy_(y.transpose(0, 1)?)?;
        x.mul(2)
    }),
    ("another product", |y, x| y.transpose(1, 2)?.matmul(x)),
];

/// The operand in different memory.
fn operands() -> Vec<Tensor> {
    vec![
        randn(&[2, 4, 6]),
        randn(&[4, 2, 6]).transpose(0, 1).unwrap(),
        randn(&[6, 2, 4]).permute([1, 2, 0]).unwrap(),
        randn(&[3, 5, 6]).i((1.., 1..)).unwrap(),
    ]
}

#[test]
fn products_are_eager_ones_whatever_is_done_with_them() -> Result<()> {
    for (product, first) in PRODUCTS {
        for (activation, then) in ACTIVATIONS {
            for (r#use, last) in USES {
                let w = randn(&[6, 6]);
                let weight = w.clone();
                let f = move |x: &Tensor| last(then(first(x, &weight)?, x)?, x);
                let compiled = compile(f.clone());
                for (at, x) in operands().iter().enumerate() {
                    let what = format!("{product}, {activation}, {}, operand {at}", r#use);
                    let (own, other) = (x.copied()?, x.copied()?);
                    let want = f(&own)?;
                    let got = compiled.call(&other).unwrap_or_else(|e| panic!("{what}: {e}"));
                    let lie = |t: &Tensor| (t.sizes().to_vec(), t.strides().to_vec());
                    assert_eq!(lie(&got), lie(&want), "{what}");
                    for (got, want) in [(&got, &want), (&other, &own)] {
                        if !got.allclose_with(want, 1e-4, 1e-4)? {
                            println!("{what}");
                            assert_close(got, want)?;
                        }
                    }
                }
            }
        }
    }
    Ok(())
}
