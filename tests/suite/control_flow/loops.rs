//! `while_loop`, `scan` and `map`.

use super::*;
use crate::support::alone;
use straightline::control_flow::{ControlFlowError, cond, map, scan, while_loop};
use straightline::{ErrorKind, Result, compile, manual_seed, tensor};

fn refused(e: &Error) -> &ControlFlowError {
    match e.kind() {
        ErrorKind::ControlFlow(e) => e,
        _ => panic!("{e}"),
    }
}

fn count_down(n: &Tensor, x: &Tensor) -> Result<(Tensor, Tensor)> {
    while_loop(
        |(n, _): &(Tensor, Tensor)| n.gt(0),
        |(n, x)| Ok((n.sub(1)?, x.mul(2)?.add(1)?)),
        (n, x),
    )
}

#[test]
fn any_number_of_turns() {
    let f = compile(count_down);
    for turns in [0i64, 1, 2, 3, 17] {
        let (n, x) = (tensor(turns).unwrap(), tensor([0.5, -1.0]).unwrap());
        let (expected, got) = (count_down(&n, &x).unwrap(), f.call((&n, &x)).unwrap());
        close(&got.0, &expected.0);
        close(&got.1, &expected.1);
        assert!(!got.1.shares_storage_with(&x) && !expected.1.shares_storage_with(&x));
        assert_eq!(calls(|| f.call((&n, &x)).unwrap()).1, 0);
    }
    captured(&f, 1);
}

#[test]
fn what_is_carried_lies_anyhow() {
    let f = |x: &Tensor| {
        let w = x.mul(0.25)?;
        let turn = |x: &Tensor| x.matmul(&w)?.abs()?.t()?.add(1);
        let next = |(n, x): &(Tensor, Tensor)| Ok((n.add(1)?, turn(x)?.copied()?));
        let goes_on = |(n, x): &(Tensor, Tensor)| x.sum()?.lt(100)?.logical_and(&n.lt(9)?);
        while_loop(goes_on, next, &(tensor(0i64)?, x.t()?))
    };
    let compiled = compile(f);
    for k in [1.0, 3.0, 90.0] {
        let x = tensor([[0.5, 1.0], [0.25, 2.0]]).unwrap().mul(k).unwrap();
        let (expected, got) = (f(&x).unwrap(), compiled.call(&x).unwrap());
        close(&got.0, &expected.0);
        close(&got.1, &expected.1);
    }
    captured(&compiled, 1);
}

#[test]
fn loops_in_loops_and_branches_in_loops() {
    let f = |x: &Tensor, n: &Tensor| {
        let inner =
            |x: &Tensor| while_loop(|x| x.sum()?.lt(10), |x| x.abs()?.mul(1.5)?.add(0.25), x);
        let turn = |(n, x): &(Tensor, Tensor)| {
            let x = cond(&n.remainder(2)?.eq(0)?, |x| inner(x)?.sub(7), |x| x.sub(3), x)?;
            Ok((n.sub(1)?, x))
        };
        Ok(while_loop(|(n, _)| n.gt(0), turn, &(n.clone(), x.clone()))?.1)
    };
    let compiled = compile(f);
    for turns in [0i64, 1, 4] {
        let (x, n) = (tensor([1.0, 2.0]).unwrap(), tensor(turns).unwrap());
        close(&compiled.call((&x, &n)).unwrap(), &f(&x, &n).unwrap());
    }
    captured(&compiled, 1);
}

#[test]
fn random_numbers_of_each_turn() {
    alone("control_flow::loops::random_numbers_of_each_turn", || {
        let f = |x: &Tensor| {
            let walk =
                |(x, n): &(Tensor, Tensor)| Ok((x.add(straightline::rand([2])?)?, n.add(1)?));
            let (x, n) = while_loop(|(x, _)| x.sum()?.lt(6), walk, (x, &tensor(0i64)?))?;
            let step = |x: &Tensor, y: &Tensor| {
                Ok((x.add(straightline::randn([2])?)?, y.mul(straightline::rand([1])?.sum()?)?))
            };
            let (x, y) = scan(step, &x, &tensor([1.0, 2.0, 3.0])?, 0, true)?;
            Ok((x, y, n))
        };
        let compiled = compile(f);
        for seed in 0..5 {
            let x = tensor([0.5, 0.25]).unwrap();
            manual_seed(seed);
            let (a, b, c) = f(&x).unwrap();
            manual_seed(seed);
            let (d, e, g) = compiled.call(&x).unwrap();
            [(d, a), (e, b), (g, c)].iter().for_each(|(got, expected)| close(got, expected));
        }
        captured(&compiled, 1);
    });
}

#[test]
fn bodies_that_do_not_fit() {
    let x = tensor([1.0, 2.0]).unwrap();
    type Turn = fn(&Tensor) -> Result<Tensor>;
    let turns: [(Turn, &str); 3] =
        [(|x| x.gt(0), "bool[2]"), (|x| x.sum(), "f32[]"), (|x| Ok(x.clone()), "aliasing")];
    for (turn, says) in turns {
        let f = move |x: &Tensor| while_loop(|x| x.sum()?.gt(0), turn, x);
        for e in [f(&x).unwrap_err(), compile(f).call(&x).unwrap_err()] {
            refused(&e);
            assert!(text(&e).contains("while_loop") && text(&e).contains(says), "{e}");
        }
    }
    let pred = |x: &Tensor| while_loop(|x| x.gt(0), |x| x.neg(), x);
    for e in [pred(&x).unwrap_err(), compile(pred).call(&x).unwrap_err()] {
        assert!(matches!(refused(&e), ControlFlowError::Predicate { op: "while_loop", .. }), "{e}");
    }
    // what is carried is not written
    let write = |x: &Tensor| while_loop(|x| x.sum()?.lt(9), |x| x.add_(1)?.mul(1), x);
    assert!(matches!(
        refused(&write(&x.copied().unwrap()).unwrap_err()),
        ControlFlowError::Mutated { .. }
    ));
    let e = compile(write).call(&x).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::NotCaptured { .. }), "{e}");
}

#[test]
fn batched_conditions_are_refused_by_name() {
    let f = |x: &Tensor| while_loop(|x| x.lt(9), |x| x.add(1), x);
    let e = straightline::func::vmap(f)(&tensor([1.0, 2.0]).unwrap()).unwrap_err();
    assert!(matches!(refused(&e), ControlFlowError::Batched { op: "while_loop", .. }), "{e}");
    // an unbatched one is not
    let n = tensor(2i64).unwrap();
    let g = |x: &Tensor| Ok(count_down(&n, x)?.1);
    let y = straightline::func::vmap(g)(&tensor([1.0, 2.0]).unwrap()).unwrap();
    close(&y, &tensor([7.0, 11.0]).unwrap());
}

fn sums(x: &Tensor, dim: i64, reverse: bool) -> Result<(Tensor, Tensor)> {
    let mut sizes = x.sizes().to_vec();
    sizes.remove(if dim < 0 { (dim + x.dim() as i64) as usize } else { dim as usize });
    let zero = straightline::zeros(sizes)?.to(x.dtype())?;
    let add = |sum: &Tensor, x: &Tensor| {
        let sum = sum.add(x)?;
        Ok((sum.clone(), sum.copied()?))
    };
    scan(add, &zero, x, dim, reverse)
}

#[test]
fn scans_are_cumulative_sums() {
    let x = tensor([[1.0, -2.0, 3.0], [0.5, 0.25, 4.0]]).unwrap();
    let of = |t: &Tensor, dim: i64| t.cumsum(dim).unwrap();
    for dim in [0, 1, -1] {
        let forward = compile(move |x: &Tensor| sums(x, dim, false));
        let backward = compile(move |x: &Tensor| sums(x, dim, true));
        for x in [x.clone(), x.neg().unwrap()] {
            for (total, all) in [sums(&x, dim, false).unwrap(), forward.call(&x).unwrap()] {
                close(&all, &of(&x, dim));
                close(&total, &x.sum_dim(dim).unwrap());
            }
            let flipped = of(&x.flip([dim]).unwrap(), dim).flip([dim]).unwrap();
            for (total, all) in [sums(&x, dim, true).unwrap(), backward.call(&x).unwrap()] {
                close(&all, &flipped);
                close(&total, &x.sum_dim(dim).unwrap());
            }
            assert_eq!(calls(|| forward.call(&x).unwrap()).1, 0);
        }
        captured(&forward, 1);
    }
    // integers, and other layouts
    let i = tensor([[1i64, 2], [3, 4], [5, 6]]).unwrap();
    let f = compile(|x: &Tensor| sums(&x.t()?, 1, false));
    close(&f.call(&i).unwrap().1, &of(&i.t().unwrap(), 1));
}

#[test]
fn no_slices() {
    let x = straightline::zeros([0, 2]).unwrap();
    let f = |x: &Tensor| {
        let step = |c: &Tensor, x: &Tensor| Ok((c.mul(x)?.sum()?, vec![x.exp()?, c.gt(1)?]));
        scan(step, &tensor(2.5)?, x, 0, false)
    };
    for (c, ys) in [f(&x).unwrap(), compile(f).call(&x).unwrap()] {
        assert_eq!(c.item::<f32>().unwrap(), 2.5);
        assert_eq!((ys[0].sizes(), ys[0].dtype()), (&[0i64, 2][..], straightline::DType::F32));
        assert_eq!((ys[1].sizes(), ys[1].dtype()), (&[0i64][..], straightline::DType::Bool));
    }
    let e = map(|x: &Tensor, (): &()| x.sin(), &x, &()).unwrap_err();
    assert!(text(&e).contains("Leading dimensions of mapped xs cannot be 0."), "{e}");
}

#[test]
fn maps_close_over_and_nest() {
    let w = tensor([[1.0, 2.0], [3.0, 4.0]]).unwrap();
    let f = move |x: &Tensor, k: &Tensor| {
        let h = x.sum()?;
        let row = |x: &Tensor, k: &Tensor| {
            let inner = map(|x, k: &Tensor| x.mul(k)?.add(&h), x, k)?;
            cond(&inner.sum()?.gt(0)?, |y| w.matmul(y), |y| y.exp(), &inner)
        };
        map(row, x, k)
    };
    let compiled = compile(f.clone());
    for sign in [1.0, -1.0] {
        let x = tensor([[1.0, -2.0], [0.5, 4.0], [-1.0, -3.0]]).unwrap().mul(sign).unwrap();
        let k = tensor(0.5).unwrap();
        close(&compiled.call((&x, &k)).unwrap(), &f(&x, &k).unwrap());
    }
    captured(&compiled, 1);
}

#[test]
fn scans_that_do_not_fit() {
    let (x, y) = (tensor([1.0, 2.0, 3.0]).unwrap(), tensor([1.0, 2.0]).unwrap());
    let two = |c: &Tensor, (x, y): &(Tensor, Tensor)| Ok((c.add(x)?, c.add(y)?));
    let e = scan(two, &tensor(0.0).unwrap(), (&x, &y), 0, false).unwrap_err();
    assert!(text(&e).contains("All xs leaves must have the same scan dimension size"), "{e}");
    let e = scan(|(): &(), x: &Tensor| Ok(((), x.sin()?)), &(), &x, 0, false).unwrap_err();
    assert!(text(&e).contains("scan() operator requires init leaves."), "{e}");
    let grows = |x: &Tensor| {
        scan(
            |c: &Tensor, x: &Tensor| Ok((Tensor::stack([c, c], 0)?, x.sin()?)),
            &tensor(0.0)?,
            x,
            0,
            false,
        )
    };
    for e in [grows(&x).unwrap_err(), compile(grows).call(&x).unwrap_err()] {
        assert!(matches!(refused(&e), ControlFlowError::Metadata { op: "scan", .. }), "{e}");
    }
    let e = scan(
        |c: &Tensor, x: &Tensor| Ok((c.add(x)?, x.sin()?)),
        &tensor(0.0).unwrap(),
        &x,
        3,
        false,
    )
    .unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Index(_)), "{e}");
}
