//! `functionalize(f)`: the results and writes of `f`, and no operator that writes.

use straightline::dispatch::operator;
use straightline::modes::CallLogger;
use straightline::ops::aten;
use straightline::{DType, ErrorKind, Result, Tensor, compile, functionalize, tensor};

/// The operators that a call of `f` dispatches to, as a mode sees them.
fn called<O>(f: impl FnOnce() -> Result<O>) -> Vec<String> {
    let log = CallLogger::new();
    let guard = log.push();
    f().unwrap();
    drop(guard);
    let names = log.lines().into_iter().filter_map(|line| {
        let call = line.split_once("aten::")?.1;
        Some(format!("aten::{}", call.split_once('(')?.0))
    });
    names.collect()
}

fn writes(name: &str) -> bool {
    operator(name).unwrap().schema().unwrap().is_mutable()
}

fn views(name: &str) -> bool {
    operator(name).unwrap().schema().unwrap().is_view()
}

type Program = fn(&Tensor) -> Result<Vec<Tensor>>;

/// Programs that write nothing but what they made.
const PROGRAMS: [Program; 8] = [
    |x| {
        let y = x.mul(2)?;
        y.select(0, 1)?.add_(10)?;
        Ok(vec![y.relu_()?])
    },
    |x| {
        let y = x.copied()?;
        for (i, part) in y.split(1, 1)?.iter().enumerate() {
            part.mul_(i as i64)?.sub_(1)?;
        }
        Ok(vec![y.sum_dim(0)?, y])
    },
    |x| {
        let y = Tensor::zeros([3, 2])?;
        y.t()?.copy_(x)?;
        y.i((1.., 0))?.fill_(7)?;
        Ok(vec![y.t()?, y])
    },
    |x| {
        let out = Tensor::empty([0])?;
        aten::exp_out(x, &out)?;
        Ok(vec![out])
    },
    |x| {
        let y = x.copied()?;
        y.masked_fill_(&y.gt(2)?, 0.5)?;
        y.i_put_((0, 1), 9.0)?;
        Ok(vec![y.i((.., 1))?.neg()?])
    },
    |x| {
        let y = x.t()?.copied()?;
        y.diagonal()?.zero_()?;
        Ok(vec![y.reshape(-1)?.cumsum_(0)?])
    },
    |x| Ok(vec![x.clone(), x.t()?]),
    |x| {
        let y = x.unsqueeze(0)?.expand([2, 2, 3])?.contiguous()?;
        y.transpose(0, 2)?.mul_(3)?;
        Ok(vec![y.permute([2, 0, 1])?.square()?])
    },
];

#[test]
fn no_operator_writes_and_the_results_are_those_of_the_function() -> Result<()> {
    let mut written = 0;
    for (i, f) in PROGRAMS.into_iter().enumerate() {
        for views_stay in [true, false] {
            let functional = match views_stay {
                true => functionalize(f),
                false => functionalize(f).without_views(),
            };
            let x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
            let (mut expected, mut got) = (Vec::new(), Vec::new());
            let eager = called(|| {
                expected = f(&x)?;
                Ok(())
            });
            let calls = called(|| {
                got = functional.call(&x)?;
                Ok(())
            });
            written += eager.iter().filter(|op| writes(op)).count();
            let bad = |op: &&String| writes(op) || (!views_stay && views(op));
            assert_eq!(calls.iter().find(bad), None, "program {i}: {calls:?}");
            assert_eq!(got.len(), expected.len());
            for (g, e) in got.iter().zip(&expected) {
                assert!(g.equal(e)?, "program {i}: {g} and {e}");
                assert_eq!((g.strides(), g.dtype()), (e.strides(), e.dtype()), "program {i}");
                for (other, of) in got.iter().zip(&expected) {
                    let same = e.shares_storage_with(of);
                    assert_eq!(g.shares_storage_with(other), same, "program {i}");
                }
                assert_eq!(g.shares_storage_with(&x), e.shares_storage_with(&x), "program {i}");
            }
        }
    }
    assert!(written > 20, "the programs write {written} times");
    Ok(())
}

#[test]
fn what_the_function_writes_of_its_arguments_is_written_once_at_the_end() -> Result<()> {
    let state = tensor([0.0, 0.0])?;
    let counter = state.clone();
    let f = move |x: &Tensor| {
        for _ in 0..3 {
            x.select(0, 0)?.add_(1)?;
            counter.add_(x)?;
        }
        x.sum()
    };
    let g = functionalize(f.clone());
    let (x, y) = (tensor([1.0, 2.0])?, tensor([1.0, 2.0])?);
    let expected = f(&x)?;
    let after = state.copied()?;
    state.zero_()?;
    let calls = called(|| {
        assert!(g.call(&y)?.equal(&expected)?);
        Ok(())
    });
    assert!(y.equal(&x)? && state.equal(&after)?);
    let first = calls.iter().position(|op| writes(op)).unwrap();
    let ends = calls[first..].iter().filter(|op| writes(op) || op.contains("add"));
    assert_eq!(ends.collect::<Vec<_>>(), ["aten::copy_", "aten::copy_"], "{calls:?}");
    Ok(())
}

#[test]
fn errors_are_those_of_the_calls_and_nothing_is_half_written() -> Result<()> {
    let f = functionalize(|x: &Tensor, at: &Tensor| {
        x.add_(1)?;
        x.gather(0, at)
    });
    let (x, at) = (tensor([1.0, 2.0])?, tensor([5])?);
    let e = f.call((&x, &at)).unwrap_err();
    assert_eq!(e.op(), Some("aten::gather"), "{e}");
    assert!(e.to_string().contains("function.rs"), "{e}");
    assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0]);
    // data cannot be read
    let f = functionalize(|x: &Tensor| x.mul(x.item::<f64>()?));
    let e = f.call(&tensor([1.0])?).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::DataDependent { .. }), "{e}");
    // in another capture it is the function
    let inner = functionalize(|x: &Tensor| x.mul(2)?.add_(1));
    let outer = compile(move |x: &Tensor| inner.call(x)?.neg());
    assert_eq!(outer.call(&tensor([1.0])?)?.to_vec::<f32>()?, [-3.0]);
    Ok(())
}

#[test]
fn random_numbers_are_drawn_once_for_a_call() -> Result<()> {
    let f = |x: &Tensor| {
        let y = x.zeros_like()?;
        y.uniform_(0.0, 1.0)?;
        y.add_(x)
    };
    let generator = straightline::Generator::default_cpu();
    crate::support::alone(
        "functionalize::function::random_numbers_are_drawn_once_for_a_call",
        || {
            let x = tensor([1.0, 2.0]).unwrap();
            generator.set_seed(7);
            let expected = [f(&x).unwrap(), f(&x).unwrap()];
            generator.set_seed(7);
            let g = functionalize(f);
            for e in expected {
                assert!(g.call(&x).unwrap().equal(&e).unwrap());
            }
        },
    );
    Ok(())
}

#[test]
fn arguments_that_begin_within_their_storage() -> Result<()> {
    let programs: [fn(&Tensor) -> Result<Tensor>; 5] = [
        |x| aten::as_strided(x, &[3], &[2], None)?.mul(1),
        |x| aten::as_strided(x, &[3], &[2], Some(1))?.mul(1),
        |x| {
            x.unfold(0, 2, 2)?.i((.., 0))?.zero_()?;
            x.mul(1)
        },
        |x| {
            aten::as_strided(x, &[2], &[3], None)?.add_(5)?;
            x.mul(1)
        },
        |x| aten::as_strided_scatter(x, &tensor([7f32, 8.0])?, &[2], &[3], Some(1)),
    ];
    for (i, f) in programs.into_iter().enumerate() {
        let base = || Tensor::arange(8)?.to_dtype(DType::F32);
        let (a, b) = (base()?, base()?);
        let want = f(&a.narrow(0, 1, 6)?)?.to_vec::<f32>()?;
        let got = functionalize(f).call(&b.narrow(0, 1, 6)?)?;
        assert_eq!(got.to_vec::<f32>()?, want, "program {i}");
        assert_eq!(b.to_vec::<f32>()?, a.to_vec::<f32>()?, "program {i}");
    }
    Ok(())
}

#[test]
fn writes_through_conjugate_and_negative_views() -> Result<()> {
    let programs: [fn(&Tensor) -> Result<Vec<Tensor>>; 2] = [
        |x| {
            let z = aten::view_as_complex(&x.copied()?)?.conj()?;
            let i = aten::imag(&z)?;
            i.i(0)?.add_(1)?;
            Ok(vec![i.add(0)?, i.resolve_neg()?, aten::imag(&z.mul(1)?)?])
        },
        |x| {
            let z = aten::view_as_complex(&x.copied()?)?;
            let c = z.conj()?;
            let p = z.mul(&c)?;
            c.mul_(2)?;
            Ok(vec![aten::real(&p)?, z.abs()?, aten::imag(&c.mul(1)?)?])
        },
    ];
    for f in programs {
        let x = Tensor::arange(24)?.to_dtype(DType::F32)?.reshape([4, 3, 2])?;
        let (want, got) = (f(&x)?, functionalize(f).call(&x)?);
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(
                got.to_dtype(DType::F64)?.to_vec::<f64>()?,
                want.to_dtype(DType::F64)?.to_vec::<f64>()?
            );
        }
    }
    Ok(())
}
