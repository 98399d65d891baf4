//! Checks that kernels make on data: each fails compiled as it fails eagerly, in the first call and
//! in a replay on data that went bad later, whether its result is used, used in part or not used at
//! all.

use crate::support::alone;
use straightline::ops::aten;
use straightline::{DType, Error, Result, Tensor, compile, manual_seed};

/// Operands, of which the call takes some.
type Operands = Vec<Tensor>;

struct Case {
    name: &'static str,
    good: Operands,
    bad: Operands,
    call: fn(&Operands) -> Result<Tensor>,
    /// A part of the result without what is bad can be read.
    partly: bool,
}

fn f(values: &[f32], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(values, sizes).unwrap()
}

fn i(values: &[i64], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(values, sizes).unwrap()
}

fn b(values: &[bool]) -> Tensor {
    Tensor::from_vec(values.to_vec(), -1).unwrap()
}

fn count(n: i64, sizes: &[i64]) -> Tensor {
    let x: Vec<f32> = (0..n).map(|x| x as f32 * 0.25 + 0.1).collect();
    f(&x, sizes)
}

/// One row per check of a kernel: operands that pass it, operands of the same shapes that do not,
/// and the call.
fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    type Function = fn(&Operands) -> Result<Tensor>;
    let mut case =
        |name: &'static str, good: &[Tensor], bad: &[Tensor], call: Function, partly: bool| {
            let (good, bad) = (good.to_vec(), bad.to_vec());
            all.push(Case { name, good, bad, call, partly });
        };
    let x = count(12, &[4, 3]);
    let v = count(6, &[6]);
    macro_rules! with {
        ($name:literal, [$($good:expr),*], [$($bad:expr),*], |$a:ident| $call:expr) => {
            with!($name, [$($good),*], [$($bad),*], |$a| $call, true)
        };
        ($name:literal, [$($good:expr),*], [$($bad:expr),*], |$a:ident| $call:expr, $partly:expr) => {
            case($name, &[$($good.clone()),*], &[$($bad.clone()),*], |$a: &Operands| $call, $partly)
        };
    }

    // indices that are read
    let (good, bad) = (i(&[0, 3, 1], &[3]), i(&[0, 1, 4], &[3]));
    let below = i(&[0, 1, -5], &[3]);
    with!("embedding", [x, good], [x, bad], |a| aten::embedding(&a[0], &a[1], -1, false, false));
    with!("embedding, below", [x, good], [x, below], |a| {
        aten::embedding(&a[0], &a[1], -1, false, false)
    });
    with!("index_select 0", [x, good], [x, bad], |a| { aten::index_select(&a[0], 0, &a[1]) });
    let third = i(&[0, 2, 3], &[3]);
    with!("index_select 1", [x, i(&[0, 2, 1], &[3])], [x, third], |a| {
        aten::index_select(&a[0], 1, &a[1])
    });
    with!("index_select of a vector", [v, good], [v, i(&[0, 1, 6], &[3])], |a| {
        aten::index_select(&a[0], 0, &a[1])
    });
    let (rows, far) = (i(&[0, 1, 2, 2, 1, 0], &[2, 3]), i(&[0, 1, 2, 2, 1, 4], &[2, 3]));
    with!("gather", [x, rows], [x, far], |a| aten::gather(&a[0], 0, &a[1], false));
    with!("gather 1", [x, i(&[0, 2], &[1, 2])], [x, i(&[0, 3], &[1, 2])], |a| {
        aten::gather(&a[0], 1, &a[1], false)
    });
    with!("take_along_dim of everything", [x, good], [x, i(&[0, 1, 12], &[3])], |a| {
        aten::take_along_dim(&a[0], &a[1], None)
    });
    with!("take", [x, good], [x, i(&[0, 1, 12], &[3])], |a| aten::take(&a[0], &a[1]));
    with!("take, below", [x, good], [x, i(&[0, 1, -13], &[3])], |a| { aten::take(&a[0], &a[1]) });
    with!("index", [x, good], [x, bad], |a| aten::index_tensor(&a[0], &[Some(a[1].clone())]));
    with!("index, below", [x, good], [x, below], |a| {
        aten::index_tensor(&a[0], &[Some(a[1].clone())])
    });
    with!("index of two", [x, good, i(&[0, 1, 2], &[3])], [x, good, third], |a| {
        aten::index_tensor(&a[0], &[Some(a[1].clone()), Some(a[2].clone())])
    });

    // indices that are written to
    let (source, ones) = (count(9, &[3, 3]), count(6, &[2, 3]));
    with!("index_add", [x, good, source], [x, bad, source], |a| {
        aten::index_add(&a[0], 0, &a[1], &a[2], 1.into())
    });
    with!("index_copy", [x, good, source], [x, bad, source], |a| {
        aten::index_copy(&a[0], 0, &a[1], &a[2])
    });
    with!("index_fill", [x, good], [x, bad], |a| {
        aten::index_fill_int_scalar(&a[0], 0, &a[1], 2.into())
    });
    with!("index_fill_", [x, good], [x, bad], |a| {
        aten::index_fill_int_scalar_(&a[0].copied()?, 0, &a[1], 2.into())
    });
    with!("index_reduce", [x, good, source], [x, bad, source], |a| {
        aten::index_reduce(&a[0], 0, &a[1], &a[2], "amax", true)
    });
    with!("index_put", [x, good, source], [x, bad, source], |a| {
        aten::index_put(&a[0], &[Some(a[1].clone())], &a[2], false)
    });
    with!("index_put, accumulating", [x, good, source], [x, below, source], |a| {
        aten::index_put(&a[0], &[Some(a[1].clone())], &a[2], true)
    });
    with!(
        "put",
        [x, good, v.narrow(0, 0, 3).unwrap()],
        [x, i(&[0, 1, 12], &[3]), v.narrow(0, 0, 3).unwrap()],
        |a| { aten::put(&a[0], &a[1], &a[2], false) }
    );
    with!("scatter", [x, rows, ones], [x, far, ones], |a| {
        aten::scatter_src(&a[0], 0, &a[1], &a[2])
    });
    with!("scatter of a number", [x, rows], [x, far], |a| {
        aten::scatter_value(&a[0], 0, &a[1], 1.5.into())
    });
    with!("scatter, multiplying", [x, rows, ones], [x, far, ones], |a| {
        aten::scatter_reduce(&a[0], 0, &a[1], &a[2], "multiply")
    });
    with!("scatter_add", [x, rows, ones], [x, far, ones], |a| {
        aten::scatter_add(&a[0], 0, &a[1], &a[2])
    });
    with!("scatter_reduce", [x, rows, ones], [x, far, ones], |a| {
        aten::scatter_reduce_two(&a[0], 0, &a[1], &a[2], "mean", true)
    });
    let mask = [b(&[true, false, true]), b(&[true, true, true])];
    with!(
        "masked_scatter",
        [v.narrow(0, 0, 3).unwrap(), mask[0], f(&[1.0, 2.0], &[2])],
        [v.narrow(0, 0, 3).unwrap(), mask[1], f(&[1.0, 2.0], &[2])],
        |a| { aten::masked_scatter(&a[0], &a[1], &a[2]) }
    );

    // classes and targets
    with!("one_hot", [good], [bad], |a| aten::one_hot(&a[0], 4));
    with!("one_hot, below", [good], [i(&[0, 1, -1], &[3])], |a| { aten::one_hot(&a[0], 4) });
    let scores = count(12, &[3, 4]);
    with!("nll_loss", [scores, good], [scores, bad], |a| {
        aten::nll_loss(&a[0], &a[1], None, 1, -100)
    });
    with!("nll_loss, each", [scores, good], [scores, bad], |a| {
        aten::nll_loss(&a[0], &a[1], None, 0, -100)
    });
    with!(
        "nll_loss, weighted",
        [scores, good, v.narrow(0, 0, 4).unwrap()],
        [scores, bad, v.narrow(0, 0, 4).unwrap()],
        |a| { aten::nll_loss(&a[0], &a[1], Some(&a[2]), 1, -100) }
    );
    with!(
        "nll_loss2d",
        [count(24, &[2, 3, 2, 2]), i(&[0, 1, 2, 0, 1, 2, 1, 2], &[2, 2, 2])],
        [count(24, &[2, 3, 2, 2]), i(&[0, 1, 2, 0, 1, 2, 1, 3], &[2, 2, 2])],
        |a| { aten::nll_loss2d(&a[0], &a[1], None, 1, -100) }
    );
    with!("cross_entropy", [scores, good], [scores, bad], |a| {
        aten::cross_entropy_loss(&a[0], &a[1], None, 1, -100, 0.0)
    });
    with!("multi_margin_loss", [scores, good], [scores, bad], |a| {
        aten::multi_margin_loss(&a[0], &a[1], 1.into(), 1.into(), None, 1)
    });
    with!(
        "multilabel_margin_loss",
        [scores, i(&[0, -1, 0, 0, 1, 2, -1, 0, 3, -1, 0, 0], &[3, 4])],
        [scores, i(&[0, -1, 0, 0, 1, 2, -1, 0, 4, -1, 0, 0], &[3, 4])],
        |a| { aten::multilabel_margin_loss(&a[0], &a[1], 1) }
    );

    // probabilities
    let (p, no_p) = (f(&[0.2, 0.5, 1.0], &[3]), f(&[0.2, 0.5, 2.0], &[3]));
    let target = f(&[0.0, 1.0, 0.5], &[3]);
    with!("binary_cross_entropy", [p, target], [no_p, target], |a| {
        aten::binary_cross_entropy(&a[0], &a[1], None, 1)
    });
    with!("binary_cross_entropy, each", [p, target], [f(&[0.2, 0.5, -0.5], &[3]), target], |a| {
        aten::binary_cross_entropy(&a[0], &a[1], None, 0)
    });
    with!("bernoulli", [p], [no_p], |a| aten::bernoulli(&a[0], None));
    with!(
        "bernoulli.Tensor",
        [v.narrow(0, 0, 3).unwrap(), p],
        [v.narrow(0, 0, 3).unwrap(), no_p],
        |a| { aten::bernoulli_tensor(&a[0], &a[1], None) }
    );
    with!("multinomial", [p], [f(&[0.2, 0.5, -2.0], &[3])], |a| {
        aten::multinomial(&a[0], 2, true, None)
    });
    with!("multinomial of nothing", [p], [f(&[0.0, 0.0, 0.0], &[3])], |a| {
        aten::multinomial(&a[0], 1, false, None)
    });
    with!("normal", [target, p], [target, f(&[0.2, 0.5, -2.0], &[3])], |a| {
        aten::normal_tensor_tensor(&a[0], &a[1], None)
    });
    with!("normal, deviations", [p], [f(&[0.2, 0.5, -2.0], &[3])], |a| {
        aten::normal_float_tensor(0.5, &a[0], None)
    });

    // integer division
    let (n, by, zero) = (i(&[7, -7, 9], &[3]), i(&[2, 3, -4], &[3]), i(&[2, 3, 0], &[3]));
    with!("floor_divide", [n, by], [n, zero], |a| aten::floor_divide(&a[0], &a[1]));
    with!("div floor", [n, by], [n, zero], |a| aten::div_tensor_mode(&a[0], &a[1], Some("floor")));
    with!("div trunc", [n, by], [n, zero], |a| aten::div_tensor_mode(&a[0], &a[1], Some("trunc")));
    with!("remainder", [n, by], [n, zero], |a| aten::remainder_tensor(&a[0], &a[1]));
    with!("fmod", [n, by], [n, zero], |a| aten::fmod_tensor(&a[0], &a[1]));
    with!("remainder_", [n, by], [n, zero], |a| {
        aten::remainder_tensor_(&a[0].copied()?, &a[1])
    });

    // matrices
    let singular = f(&[1.0, 2.0, 2.0, 4.0], &[2, 2]);
    let (regular, side) = (f(&[2.0, 0.5, 0.5, 1.0], &[2, 2]), f(&[1.0, 2.0], &[2, 1]));
    with!("inverse", [regular], [singular], |a| aten::inverse(&a[0]));
    with!("linalg_inv", [regular], [singular], |a| aten::linalg_inv(&a[0]));
    with!("linalg_solve", [regular, side], [singular, side], |a| {
        aten::linalg_solve(&a[0], &a[1], true)
    });
    with!("linalg_cholesky", [regular], [f(&[1.0, 2.0, 2.0, 1.0], &[2, 2])], |a| {
        aten::linalg_cholesky(&a[0], false)
    });
    with!("linalg_cholesky_ex, checking", [regular], [f(&[1.0, 2.0, 2.0, 1.0], &[2, 2])], |a| {
        Ok(aten::linalg_cholesky_ex(&a[0], false, true)?.0)
    });
    with!("linalg_lu_factor", [regular], [f(&[0.0, 0.0, 0.0, 0.0], &[2, 2])], |a| {
        Ok(aten::linalg_lu_factor(&a[0], true)?.0)
    });
    let pivots = |last: i32| Tensor::from_slice(&[1i32, last], &[2]).unwrap();
    with!("linalg_lu_solve", [regular, pivots(2), side], [regular, pivots(3), side], |a| {
        aten::linalg_lu_solve(&a[0], &a[1], &a[2], true, false)
    });

    // bags, pools
    let offsets = i(&[0, 2], &[2]);
    with!("embedding_bag", [x, good, offsets], [x, bad, offsets], |a| {
        Ok(aten::embedding_bag(&a[0], &a[1], &a[2], false, 0, false, None, false)?.0)
    });
    with!("embedding_bag, offsets", [x, good, offsets], [x, good, i(&[1, 2], &[2])], |a| {
        Ok(aten::embedding_bag(&a[0], &a[1], &a[2], false, 1, false, None, false)?.0)
    });
    with!("embedding_bag, last offset", [x, good, offsets], [x, good, i(&[0, 4], &[2])], |a| {
        Ok(aten::embedding_bag(&a[0], &a[1], &a[2], false, 2, false, None, false)?.0)
    });
    let small = count(4, &[1, 1, 2, 2]);
    let places = |last| i(&[0, 3, 9, last], &[1, 1, 2, 2]);
    with!("max_unpool2d", [small, places(15)], [small, places(16)], |a| {
        aten::max_unpool2d(&a[0], &a[1], &[4, 4])
    });

    // assertions
    with!(
        "_assert_async",
        [b(&[true])],
        [b(&[false])],
        |a| {
            aten::_assert_async(&a[0])?;
            a[0].logical_not()
        },
        false
    );
    with!(
        "_assert_async.msg",
        [v],
        [v.neg().unwrap()],
        |a| {
            let positive = aten::all(&aten::gt_scalar(&a[0], 0.into())?)?;
            aten::_assert_async_msg(&positive, "there is something that is not positive")?;
            a[0].sqrt()
        },
        false
    );
    all
}

/// What an error says, and of what.
fn told(e: &Error) -> String {
    let operands: Vec<String> = e.operands().iter().map(ToString::to_string).collect();
    let line = e.location().map(|at| format!("{}:{}", at.file(), at.line()));
    format!("{} at {line:?}: {:?}({}): {}", e.python_class(), e.op(), operands.join(", "), e.kind())
}

fn failure<T>(result: Result<T>) -> std::result::Result<String, String> {
    match result {
        Err(e) => Ok(told(&e)),
        Ok(_) => Err("no error".to_string()),
    }
}

/// Ways in which a function uses what it computed.
const USES: [&str; 4] = ["whole", "in part", "for nothing", "not"];

fn used(case: &Case, how: &str) -> impl Fn(&Operands) -> Result<Tensor> + Send + Sync + 'static {
    let (call, how) = (case.call, how.to_string());
    move |a: &Operands| {
        let y = call(a)?;
        match how.as_str() {
            "whole" => Ok(y),
            "in part" if y.dim() > 0 => aten::narrow(&aten::reshape(&y, &[-1])?, 0, 0, 1),
            "for nothing" => aten::narrow(&aten::reshape(&y, &[-1])?, 0, 0, 0)?.add(1),
            "in part" => aten::neg(&aten::to_dtype(&y, DType::F32, false, false, None)?),
            _ => aten::to_dtype(&a[0], DType::F64, false, true, None),
        }
    }
}

#[test]
fn every_check_on_data_fails_compiled_as_it_does_eagerly() {
    alone("checks_on_data::every_check_on_data_fails_compiled_as_it_does_eagerly", || {
        let mut wrong = Vec::new();
        for case in cases() {
            for how in USES {
                if how == "in part" && !case.partly {
                    continue;
                }
                let f = used(&case, how);
                manual_seed(1);
                let want = match failure(f(&case.bad)) {
                    Ok(told) => told,
                    Err(none) => {
                        wrong.push(format!("{}, {how} used: eager: {none}", case.name));
                        continue;
                    }
                };
                let good = f(&case.good);
                let mut check = |when: &str, got: std::result::Result<String, String>| {
                    if got.as_ref() != Ok(&want) {
                        wrong.push(format!(
                            "{}, {how} used, {when}:\n  eager    {want}\n  compiled {}",
                            case.name,
                            got.unwrap_or_else(|none| none)
                        ));
                    }
                };
                let first = compile(used(&case, how));
                check("first call", failure(first.call(&case.bad)));
                let later = compile(used(&case, how));
                let ran = later.call(&case.good);
                match (&good, &ran) {
                    (Ok(want), Ok(got)) => {
                        assert_eq!(want.sizes(), got.sizes(), "{}", case.name)
                    }
                    (want, got) => check("good data", Err(format!("{want:?}, {got:?}"))),
                }
                check("replay", failure(later.call(&case.bad)));
                check("replay again", failure(later.call(&case.bad)));
                if let Err(e) = later.call(&case.good) {
                    check("good data after bad", Err(e.to_string()));
                }
            }
        }
        assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    });
}
