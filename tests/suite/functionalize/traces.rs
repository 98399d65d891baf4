//! Graphs of small programs: the operators that PyTorch's `functionalize(remove="mutations")`
//! traces, and how compiled functions treat tensors that share memory.

use straightline::ops::aten;
use straightline::{DType, ErrorKind, Result, Tensor, compile};

/// The operators of a captured function, in order.
fn ops(f: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static) -> Vec<String> {
    let x = Tensor::ones([2, 2]).unwrap();
    let text = compile(f).trace(&x).unwrap().to_string();
    text.lines()
        .filter_map(|l| l.split_once("aten::")?.1.split_once('('))
        .map(|(op, _)| op.to_string())
        .collect()
}

/// Printed by PyTorch 2.15: `make_fx(functionalize(f, remove="mutations"))`, without the aliases
/// that it regenerates and never uses, and without the `copy_` at the end, which a replay does.
#[test]
fn pytorchs_traces() {
    let f = ops(|x| {
        x.view(&[4])?.add_(1)?;
        x.mul(2)
    });
    assert_eq!(f, ["view", "add.Scalar", "view", "mul.Scalar"]);
    let f = ops(|x| {
        let a = x.copied()?;
        a.select(0, 0)?.mul_(3)?;
        Ok(a)
    });
    assert_eq!(f, ["clone", "select.int", "mul.Scalar", "select_scatter"]);
    let f = ops(|x| {
        let a = x.copied()?;
        let parts = aten::split_tensor(&a, 1, 0)?;
        parts[0].add_(&parts[1])?;
        let columns = aten::unbind_int(&a, 1)?;
        columns[0].mul_(2)?;
        Ok(a)
    });
    let split = ["clone", "split.Tensor", "add.Tensor", "slice_scatter"];
    let unbind = ["unbind.int", "mul.Scalar", "select_scatter"];
    assert_eq!(f, [&split[..], &unbind].concat());
    let f = ops(|x| {
        let a = x.copied()?;
        aten::diagonal(&a, 0, 0, 1)?.fill_(5)?;
        aten::as_strided(&a, &[2], &[2], Some(1))?.zero_()?;
        Ok(a)
    });
    let diagonal = ["clone", "diagonal", "fill.Scalar", "diagonal_scatter"];
    let strided = ["as_strided", "zero", "as_strided_scatter"];
    assert_eq!(f, [&diagonal[..], &strided].concat());
    let f = ops(|x| {
        let a = x.copied()?;
        let o = Tensor::zeros([2, 2])?;
        aten::add_out(x, x, straightline::Scalar::Int(1), &o)?;
        a.copy_(&o)?;
        a.t()?.exp_()?;
        Ok(a)
    });
    // PyTorch's graph has `clone` twice, the second dead one included, and `empty`
    assert_eq!(f, ["clone", "add.Tensor", "copy", "t", "exp", "t"]);
    let f = ops(|x| {
        let a = x.copied()?;
        let p = a.squeeze()?.permute(&[1, 0])?.slice(0, 1, 2, 1)?;
        p.mul_(2)?;
        Ok(a)
    });
    let there = ["clone", "squeeze", "permute", "slice.Tensor", "mul.Scalar"];
    let back = ["squeeze", "permute", "slice_scatter", "permute"];
    assert_eq!(f, [&there[..], &back].concat());
}

fn numbers(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}

fn counting(n: i64) -> Tensor {
    Tensor::from_vec((0..n).map(|i| i as f32).collect::<Vec<_>>(), -1).unwrap()
}

#[test]
fn arguments_that_overlap_are_one_base() {
    let f = compile(|(x, y): &(Tensor, Tensor)| {
        x.add_(10)?;
        y.mul_(2)?;
        x.add(y)
    });
    let base = counting(6);
    let overlapping = |t: &Tensor| (t.slice(0, 0, 4, 1).unwrap(), t.slice(0, 2, 6, 1).unwrap());
    let got = f.call(&overlapping(&base)).unwrap();
    assert_eq!(numbers(&base), [10.0, 11.0, 24.0, 26.0, 8.0, 10.0]);
    assert_eq!(numbers(&got), [34.0, 37.0, 32.0, 36.0]);
    // the same relation again is the same variant; another one is not
    f.call(&overlapping(&counting(6))).unwrap();
    assert_eq!(f.variants(), 1);
    let base = counting(7);
    f.call(&(base.slice(0, 0, 4, 1).unwrap(), base.slice(0, 3, 7, 1).unwrap())).unwrap();
    assert_eq!(numbers(&base), [10.0, 11.0, 12.0, 26.0, 8.0, 10.0, 12.0]);
    assert_eq!(f.variants(), 2);
    let base = counting(8);
    f.call(&(base.slice(0, 0, 4, 1).unwrap(), base.slice(0, 4, 8, 1).unwrap())).unwrap();
    assert_eq!(numbers(&base), [10.0, 11.0, 12.0, 13.0, 8.0, 10.0, 12.0, 14.0]);
    assert_eq!(f.variants(), 3);
    let text = f.explain().variants[0].guards.clone();
    assert!(text.contains("8 bytes further on"), "{text}");
}

#[test]
fn an_argument_that_overlaps_a_closed_over_tensor() {
    let state = counting(4);
    let held = state.view(&[2, 2]).unwrap();
    let f = compile(move |x: &Tensor| {
        held.select(0, 1)?.add_(x)?;
        held.sum()
    });
    let tail = state.slice(0, 2, 4, 1).unwrap();
    assert_eq!(f.call(&tail).unwrap().item::<f64>().unwrap(), 11.0);
    assert_eq!(numbers(&state), [0.0, 1.0, 4.0, 6.0]);
    assert_eq!(f.call(&tail).unwrap().item::<f64>().unwrap(), 21.0);
    let other = counting(2);
    assert_eq!(f.call(&other).unwrap().item::<f64>().unwrap(), 22.0);
    assert_eq!(numbers(&state), [0.0, 1.0, 8.0, 13.0]);
    assert_eq!(f.variants(), 2);
}

#[test]
fn memory_beside_an_argument_is_reached_and_written() {
    let f = compile(|x: &Tensor| {
        aten::as_strided(x, &[4], &[2], Some(0))?.zero_()?;
        x.add(1)
    });
    for n in [8, 9] {
        let base = counting(n);
        let got = f.call(&base.slice(0, 2, 4, 1).unwrap()).unwrap();
        assert_eq!(numbers(&got), [1.0, 4.0]);
        assert_eq!(numbers(&base)[..8], [0.0, 1.0, 0.0, 3.0, 0.0, 5.0, 0.0, 7.0]);
    }
}

#[test]
fn results_alias_as_eager_ones() {
    let f = compile(|x: &Tensor| {
        let y = x.add(1)?;
        let (a, b) = (y.slice(0, 0, 3, 1)?, y.slice(0, 1, 4, 1)?);
        x.zero_()?;
        Ok((x.clone(), x.slice(0, 1, 3, 1)?, a.clone(), b, a))
    });
    let x = counting(4);
    let (same, view, a, b, again) = f.call(&x).unwrap();
    assert!(same.is_same(&x));
    assert!(view.shares_storage_with(&x));
    assert_eq!(view.storage_offset(), 1);
    assert!(again.is_same(&a));
    assert!(a.shares_storage_with(&b) && !a.shares_storage_with(&x));
    a.fill_(7).unwrap();
    assert_eq!(numbers(&b), [7.0, 7.0, 4.0]);
}

/// What eager execution refuses, a captured function refuses with the same words.
#[test]
fn errors_agree_with_eager() {
    type Function = fn(&Tensor) -> Result<Tensor>;
    let functions: [Function; 7] = [
        |x| x.add_(&Tensor::ones([3])?),
        |x| x.to_dtype(DType::I64)?.mul_(x),
        |x| x.unsqueeze(0)?.expand(&[3, 4])?.add_(1),
        |x| x.slice(0, 0, 3, 1)?.copy_(&x.slice(0, 1, 4, 1)?),
        |x| aten::fill_tensor_(x, x),
        |x| aten::fill_tensor_(&x.unsqueeze(0)?.expand(&[3, 4])?, &x.select(0, 0)?),
        |x| aten::as_strided(x, &[9], &[1], None)?.zero_(),
    ];
    for (i, f) in functions.into_iter().enumerate() {
        let text = |e: ErrorText| e.0;
        let eager = f(&counting(4)).map_err(ErrorText::of).map(drop);
        let compiled = compile(f).call(&counting(4)).map_err(ErrorText::of).map(drop);
        assert_eq!(eager.map_err(text).unwrap_err(), compiled.map_err(text).unwrap_err(), "{i}");
    }
}

struct ErrorText(String);

impl ErrorText {
    #[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
    fn of(e: straightline::Error) -> ErrorText {
        ErrorText(e.kind().to_string())
    }
}

#[test]
fn a_wrapper_that_leaks_out_of_its_capture_has_its_value() {
    let leaked = std::sync::Arc::new(std::sync::Mutex::new(None));
    let keep = leaked.clone();
    let f = compile(move |x: &Tensor| {
        let y = x.add(1)?;
        *keep.lock().unwrap() = Some(y.clone());
        Ok(y)
    });
    let err = f.call(&counting(2)).unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::Escaped { .. }), "{err}");
    let y = leaked.lock().unwrap().take().unwrap();
    let before = y.copied().unwrap();
    y.add_(1).unwrap();
    assert!(y.equal(&before.add(1).unwrap()).unwrap());
}

#[test]
fn bytes_seen_as_another_dtype() {
    let f = compile(|x: &Tensor| {
        let y = x.copied()?;
        aten::view_dtype(&y, DType::I32)?.slice(0, 0, 2, 1)?.fill_(0x4000_0000)?;
        Ok(y)
    });
    assert_eq!(numbers(&f.call(&counting(3)).unwrap()), [2.0, 2.0, 2.0]);
    // parts of elements that lie apart once a diagonal of them has been written
    let write = |x: &Tensor| -> Result<Tensor> {
        let y = aten::view_dtype(&x.copied()?.view(&[4, 1])?, DType::U8)?;
        aten::diagonal(&y, -1, 1, 0)?.fill_(7)?;
        Ok(y)
    };
    let eager = write(&counting(4)).unwrap().to_vec::<u8>().unwrap();
    let f = compile(write);
    for _ in 0..2 {
        assert_eq!(f.call(&counting(4)).unwrap().to_vec::<u8>().unwrap(), eager);
    }
    let f = compile(|x: &Tensor| aten::view_dtype(x, DType::F64)?.mul(1));
    let eager = aten::view_dtype(&counting(4), DType::F64).unwrap();
    let got = f.call(&counting(4)).unwrap();
    assert_eq!(got.to_vec::<f64>().unwrap(), eager.to_vec::<f64>().unwrap());
}

#[test]
fn a_tensor_is_given_the_memory_of_another() {
    let run = |x: &Tensor| -> Result<Tensor> {
        let (y, other) = (x * 2.0, x * 3.0);
        let view = y.select(0, 0)?;
        aten::set_source_tensor_(&y, &other.slice(0, 1, 3, 1)?)?;
        // writes to either reach the other, and the old memory is the view's alone
        y.add_(100)?;
        other.select(0, 2)?.mul_(-1)?;
        view.zero_()?;
        aten::set_source_tensor_(&other, x)?;
        other.select(0, 0)?.fill_(7.0)?;
        aten::cat(&[y, other, view.unsqueeze(0)?], 0)
    };
    let (eager_x, compiled_x) = (counting(4), counting(4));
    let eager = run(&eager_x).unwrap();
    let f = compile(run);
    assert_eq!(numbers(&f.call(&compiled_x).unwrap()), numbers(&eager));
    assert_eq!(numbers(&compiled_x), numbers(&eager_x));
    assert_eq!(numbers(&f.call(&counting(4)).unwrap()), numbers(&eager));
    // the caller's own tensor would have to change
    let f = compile(|x: &Tensor| aten::set_source_tensor_(x, &(x * 2.0)));
    let err = f.call(&counting(4)).unwrap_err();
    assert!(err.to_string().contains("gives a tensor other memory"), "{err}");
}

#[test]
fn a_write_through_a_negated_view_is_negated() {
    let write = |x: &Tensor| -> Result<Tensor> {
        aten::_neg_view(x)?.fill_(2.0)?;
        Ok(x.clone())
    };
    let windows = |x: &Tensor| aten::unfold(&aten::_neg_view(x)?, 0, 1, 2)?.add_(1);
    let f = compile(windows);
    let (eager, compiled) = (counting(3), counting(3));
    windows(&eager).unwrap();
    f.call(&compiled).unwrap();
    assert_eq!(numbers(&compiled), numbers(&eager));
    let f = compile(|x: &Tensor| aten::as_strided(&aten::_neg_view(x)?, &[2], &[1], Some(1)));
    assert_eq!(numbers(&f.call(&counting(3)).unwrap()), [-1.0, -2.0]);
    let f = compile(write);
    for _ in 0..2 {
        let (eager, compiled) = (counting(3), counting(3));
        write(&eager).unwrap();
        f.call(&compiled).unwrap();
        assert_eq!(numbers(&eager), [-2.0, -2.0, -2.0]);
        assert_eq!(numbers(&compiled), numbers(&eager));
    }
}

#[test]
fn a_write_stays_where_a_smaller_out_no_longer_reaches() {
    let whole = |x: &Tensor| aten::as_strided(x, &[6], &[1], Some(0)).unwrap();
    let write = |x: &Tensor| -> Result<()> {
        x.add_(10)?;
        let two = x.slice(0, 0, 2, 1)?.copied()?;
        aten::neg_out(&two, x).map(drop)
    };
    let f = compile(move |x: &Tensor| write(x));
    for _ in 0..2 {
        let (eager, compiled) = (counting(6), counting(6));
        write(&eager).unwrap();
        f.call(&compiled).unwrap();
        assert_eq!(compiled.sizes(), [2]);
        assert_eq!(numbers(&whole(&eager)), [-10.0, -11.0, 12.0, 13.0, 14.0, 15.0]);
        assert_eq!(numbers(&whole(&compiled)), numbers(&whole(&eager)));
    }
}
