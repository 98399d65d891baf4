//! Writes through views within transforms: the gradients of such programs are those that each
//! sample, each row and each column has alone, where no transform runs another one.

use straightline::func::{grad, hessian, jacfwd, jacrev, jvp, vjp, vmap};
use straightline::{Result, Tensor, assert_close, compile, stack, tensor, zeros_like};

type Program = fn(&Tensor) -> Result<Tensor>;

/// Each writes a view and uses its base, or writes a base and uses its view.
const PROGRAMS: &[(&str, Program)] = &[
    ("the base of a part", |x| {
        let y = x.mul(1)?;
        let v = y.narrow(0, 1, 2)?;
        y.mul_(2)?;
        v.square()
    }),
    ("a part of the base", |x| {
        let y = x.mul(1)?;
        y.select(0, 1)?.mul_(3)?;
        y.square()
    }),
    ("a buffer that is filled", |x| {
        let y = zeros_like(x)?.add(x.mul(0)?)?;
        y.narrow(0, 0, 2)?.copy_(&x.narrow(0, 1, 2)?.square()?)?;
        y.square()
    }),
    ("a part by another", |x| {
        let y = x.mul(1)?;
        y.narrow(0, 0, 2)?.mul_(x.narrow(0, 1, 2)?)?;
        y.square()
    }),
    ("a matrix and its diagonal", |x| {
        let y = x.unsqueeze(0)?.mul(x.unsqueeze(1)?)?;
        let d = y.diagonal()?;
        y.t()?.select(0, 1)?.mul_(x)?;
        d.mul_(&x.sin()?)?;
        y.sum_dim(0)?.mul(d)
    }),
    ("views of views", |x| {
        let y = x.mul(x)?;
        let v = y.view([1, 3])?.transpose(0, 1)?;
        let w = v.narrow(0, 1, 2)?;
        w.mul_(3)?;
        y.mul_(x)?;
        v.select(1, 0)?.mul(w.sum()?)
    }),
];

fn rows(f: impl Fn(&Tensor) -> Result<Tensor>, x: &Tensor) -> Result<Tensor> {
    let each: Vec<Tensor> =
        (0..x.size(0)?).map(|i| f(&x.select(0, i)?.copied()?)).collect::<Result<_>>()?;
    stack(&each, 0)
}

/// The matrix of derivatives of a function of three numbers, a row at a time.
fn by_rows(f: impl Fn(&Tensor) -> Result<Tensor>, x: &Tensor) -> Result<Tensor> {
    let count = f(x)?.numel();
    let row = |i: i64| grad(|x: &Tensor| f(x)?.view(-1)?.select(0, i))(x);
    stack(&(0..count).map(row).collect::<Result<Vec<_>>>()?, 0)
}

fn batch() -> Result<Tensor> {
    tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 0.25], [2.0, 0.1, -0.7], [1.5, 1.0, 0.9]])
}

#[test]
fn samples_get_the_gradients_that_they_have_alone() -> Result<()> {
    let x = batch()?;
    for (name, f) in PROGRAMS {
        let g = grad(|x: &Tensor| f(x)?.sum());
        let got = vmap(&g)(&x)?;
        println!("{name}: {got}");
        assert_close(&got, &rows(&g, &x)?)?;
        // samples that are no rows
        let columns = x.t()?.copied()?.t()?;
        assert_close(&vmap(&g)(&columns)?, &got)?;
    }
    Ok(())
}

#[test]
fn matrices_of_derivatives_are_those_of_rows() -> Result<()> {
    let x = batch()?.select(0, 1)?.copied()?;
    for (name, f) in PROGRAMS {
        println!("{name}");
        let want = by_rows(f, &x)?;
        assert_close(&jacrev(f)(&x)?, &want)?;
        assert_close(&jacfwd(f)(&x)?, &want)?;
        let number = |x: &Tensor| f(x)?.sum();
        let want = by_rows(grad(number), &x)?;
        assert_close(&hessian(number)(&x)?, &want)?;
        assert_close(&jacrev(jacrev(number))(&x)?, &want)?;
        assert_close(&jacfwd(grad(number))(&x)?, &want)?;
    }
    Ok(())
}

#[test]
fn what_is_differentiated_twice_is_batched() -> Result<()> {
    let x = batch()?;
    let t = x.sin()?;
    for (name, f) in PROGRAMS {
        println!("{name}");
        let number = |x: &Tensor| f(x)?.sum();
        let all = vmap(hessian(number))(&x)?;
        assert_close(&all, &rows(|x| by_rows(grad(number), x), &x)?)?;
        let along = |(x, t): &(Tensor, Tensor)| jvp(grad(number), x, t).map(|(_, t)| t);
        let got = vmap(along)(&(x.clone(), t.clone()))?;
        assert_close(&got, &all.matmul(&t.unsqueeze(-1)?)?.view(t.sizes())?)?;
    }
    Ok(())
}

#[test]
fn a_tangent_that_gets_samples_keeps_its_views() -> Result<()> {
    // the tangent of `y` is zero for all samples, until one is written through a view
    let f = |(x, t): &(Tensor, Tensor)| {
        let of_samples = |s: &Tensor| {
            let y = x.mul(s.mul(0)?)?;
            let before = y.narrow(0, 1, 2)?;
            let (first, deep) = (before.select(0, 0)?, y.view([3, 1])?.t()?);
            y.narrow(0, 0, 2)?.copy_(&s.narrow(0, 1, 2)?.square()?)?;
            before.mul_(2)?;
            stack(&[y.sum()?, before.sum()?, first, deep.select(1, 0)?.sum()?], 0)
        };
        jvp(of_samples, x, t).map(|(_, t)| t)
    };
    let (x, t) = (batch()?, batch()?.sin()?);
    let got = vmap(f)(&(x.clone(), t.clone()))?;
    let each = (0..x.size(0)?).map(|i| f(&(x.select(0, i)?.copied()?, t.select(0, i)?.copied()?)));
    assert_close(&got, &stack(&each.collect::<Result<Vec<_>>>()?, 0)?)?;
    Ok(())
}

#[test]
fn numbers_of_pytorch() -> Result<()> {
    let x = tensor([[1.25, -0.75, 2.5], [0.5, 3.25, -1.5]])?;
    let filled = |x: &Tensor| {
        let y = zeros_like(x)?.add(x.mul(0)?)?;
        y.narrow(0, 0, 2)?.copy_(&x.narrow(0, 1, 2)?.square()?)?;
        y.square()?.sum()
    };
    let along = |(x, t): &(Tensor, Tensor)| jvp(grad(filled), x, t).map(|(_, t)| t);
    let want = tensor([[0.0, -4.601_062, 44.885_41], [0.0, -13.713_733, -26.932_365]])?;
    assert_close(&vmap(along)(&(x.clone(), x.sin()?))?, &want)?;
    // a buffer of its own, which all samples share, is refused as without tangents
    let shared = |x: &Tensor| {
        let y = Tensor::zeros([3])?;
        y.narrow(0, 0, 2)?.copy_(&x.narrow(0, 1, 2)?.square()?)?;
        y.square()
    };
    let one = x.select(0, 0)?.copied()?;
    let want = tensor([[0.0, -1.6875, 0.0], [0.0, 0.0, 62.5], [0.0, 0.0, 0.0]])?;
    assert_close(&jacfwd(shared)(&one)?, &want)?;
    let want = tensor([[0.0, 0.0, 0.0], [0.0, 6.75, 0.0], [0.0, 0.0, 75.0]])?;
    assert_close(&hessian(|x: &Tensor| shared(x)?.sum())(&one)?, &want)?;
    let along = |(x, t): &(Tensor, Tensor)| jvp(shared, x, t).map(|(_, t)| t);
    let e = vmap(along)(&(x.clone(), x)).unwrap_err();
    assert!(e.to_string().contains("inplace arithmetic"), "{e}");
    Ok(())
}

#[test]
fn one_gradient_for_all_meets_samples() -> Result<()> {
    // what arrives at the write is the same for all samples, what was multiplied is not
    let f = |x: &Tensor| {
        let (_, pull) = vjp(
            |y: &Tensor| {
                let y = y.mul(1)?;
                y.narrow(0, 0, 2)?.mul_(x.narrow(0, 1, 2)?)?;
                Ok(y)
            },
            &x.mul(0)?,
        )?;
        pull.call(&tensor([1.0, 1.0, 1.0])?)
    };
    let got = vmap(f)(&batch()?)?;
    assert_eq!(got.to_vec2::<f32>()?[0], [2.0, 3.0, 1.0]);
    assert_eq!(got.to_vec2::<f32>()?[2], [0.1, -0.7, 1.0]);
    Ok(())
}

#[test]
fn they_compile() -> Result<()> {
    let x = batch()?;
    for (name, f) in PROGRAMS {
        println!("{name}");
        let f = *f;
        let g = move |x: &Tensor| vmap(grad(|x: &Tensor| f(x)?.sum()))(x);
        assert_close(&compile(g).call(&x)?, &g(&x)?)?;
        let h = move |x: &Tensor| hessian(|x: &Tensor| f(x)?.sum())(x);
        let one = x.select(0, 2)?.copied()?;
        assert_close(&compile(h).call(&one)?, &h(&one)?)?;
    }
    Ok(())
}

/// The tape outside of a `vmap` whose function writes what it has just made.
#[test]
fn gradients_go_past_writes_to_results_inside_batches() {
    use straightline::func::vmap;
    use straightline::ops::aten;
    type Fresh = fn(&Tensor) -> Result<Tensor>;
    let all: [(&str, Fresh); 8] = [
        ("stack", |x| Tensor::stack(&[x.clone(), x.clone()], 0)),
        ("max_dim", |x| Ok(x.max_dim(0)?.0)),
        ("min_dim", |x| Ok(x.min_dim(1)?.0)),
        ("rot90", |x| aten::rot90(x, 1, &[0, 1])),
        ("take", |x| aten::take(x, &tensor([1i64, 0, 1])?)),
        ("renorm", |x| aten::renorm(x, 2.into(), 0, 1.into())),
        ("select_scatter", |x| aten::select_scatter(x, &x.i(0)?, 0, 1)),
        ("block_diag", |x| aten::block_diag(&[x.clone(), x.clone()])),
    ];
    for (name, f) in all {
        let of = |change: fn(&Tensor) -> Result<Tensor>| {
            let x = Tensor::from_slice(&[2f32, 1.0, 0.5, 3.0, -1.0, 0.25, 4.0, 0.75], [2, 2, 2])?;
            let x = x.requires_grad_(true)?;
            let y = vmap(move |x: &Tensor| change(&f(x)?))(&x.mul(1)?)?;
            y.mul(&y)?.sum()?.backward()?;
            x.grad().map(|g| g.to_vec::<f32>()).transpose()
        };
        let want = of(|y| y.mul(2)).unwrap();
        assert!(want.is_some());
        assert_eq!(of(|y| y.mul_(2)).unwrap(), want, "{name}");
    }
}
