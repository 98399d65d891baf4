//! Functions that keep what they compute in outside state: the results, the state and the arguments
//! after each call.

use super::*;
use crate::compile::compile;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// With the fallback every call gives what eager code gives; without it the first call may be
/// refused, and the value is there from then on.
fn filled_once(table: impl Fn() -> Result<Tensor> + Clone + Send + Sync + 'static) {
    let expected = table().unwrap().to_vec::<f32>().unwrap();
    let x = Tensor::ones([3, 3]).unwrap();
    for fallback in [false, true] {
        let state = Arc::new(OnceLock::new());
        let (mine, table) = (state.clone(), table.clone());
        let function = move |x: &Tensor| x.mul(mine.get_or_init(|| table().unwrap()));
        let f = match fallback {
            false => compile(function),
            true => eagerly(function),
        };
        let first = f.call(&x);
        match (first, fallback) {
            (Ok(y), true) => assert_eq!(values(&y), expected),
            (Err(e), false) => assert!(is_escape(&e), "{e}"),
            (other, _) => panic!("{other:?}"),
        }
        let kept = state.get().unwrap();
        assert_eq!(values(kept), expected);
        assert!(!kept.key_set().has(crate::dispatch::DispatchKey::Functionalize));
        assert!(kept.extra().is_none());
        // ordinary state from here on: guarded, written, read
        assert_eq!(values(&f.eager(&x).unwrap()), expected);
        assert_eq!(values(&f.call(&x).unwrap()), expected);
        assert_eq!(values(&f.call(&x).unwrap()), expected);
        assert_eq!(compiled(&f), 1);
        kept.fill_(7).unwrap();
        assert_eq!(values(&f.call(&x).unwrap()), [7.0; 9]);
        assert!(format!("{kept}").contains('7'));
    }
}

#[test]
fn a_table_that_is_filled_once() {
    filled_once(|| Tensor::full([3, 3], 3.0));
    filled_once(|| Tensor::ones([3, 3])?.tril());
    filled_once(|| {
        let t = Tensor::zeros([3, 3])?;
        t.select(0, 1)?.fill_(2)?;
        t.t()
    });
    // a column of a larger one, and each of its rows the same
    filled_once(|| Tensor::ones([5, 4])?.narrow(1, 1, 3)?.narrow(0, 2, 3));
    filled_once(|| Tensor::ones([3])?.mul(2)?.expand([3, 3]));
    filled_once(|| {
        let t = Tensor::ones([3, 3])?;
        crate::ops::aten::t_(&t)?;
        crate::ops::aten::resize_(&t, &[9], None)?;
        t.mul_(4)?;
        t.view(&[3, 3])
    });
}

#[test]
fn a_cache_of_masks_by_size() {
    for fallback in [false, true] {
        let masks: Arc<Mutex<HashMap<i64, Tensor>>> = Arc::default();
        let mine = masks.clone();
        let function = move |x: &Tensor| {
            let n = x.sizes()[0];
            let mut masks = mine.lock().unwrap();
            let mask = match masks.get(&n) {
                Some(mask) => mask.clone(),
                None => Tensor::ones([n, n])?.tril()?,
            };
            masks.insert(n, mask.clone());
            x.mul(&mask)
        };
        let f = match fallback {
            false => compile(function),
            true => eagerly(function),
        };
        for n in [2, 3, 2, 3, 1] {
            let x = Tensor::ones([n, n]).unwrap();
            let expected = values(&x.tril().unwrap());
            let new = !masks.lock().unwrap().contains_key(&n);
            match f.call(&x) {
                Ok(y) => assert!(fallback || !new, "{y}"),
                Err(e) => assert!(is_escape(&e) && new && !fallback, "{e}"),
            }
            assert_eq!(values(&masks.lock().unwrap()[&n]), expected);
            assert_eq!(values(&f.call(&x).unwrap()), expected);
        }
        assert_eq!((f.variants(), compiled(&f)), (3, 3));
    }
}

#[test]
fn views_and_writes_that_are_kept_lie_as_eager_ones_do() {
    for fallback in [false, true] {
        let kept: Arc<Mutex<Vec<Tensor>>> = Arc::default();
        let mine = kept.clone();
        let function = move |x: &Tensor| {
            let base = x.mul(2)?;
            let row = base.select(0, 0)?;
            mine.lock().unwrap().extend([base.clone(), row.clone(), x.t()?]);
            row.add_(100)?;
            x.add_(1)?;
            Ok((base, x.clone(), x.select(0, 1)?))
        };
        let x = Tensor::from_vec([1f32, 2.0, 3.0, 4.0], 4).unwrap().view(&[2, 2]).unwrap();
        let f = match fallback {
            false => compile(function),
            true => eagerly(function),
        };
        let called = f.call(&x);
        let kept = std::mem::take(&mut *kept.lock().unwrap());
        assert_eq!(kept.len(), 3);
        assert_eq!(values(&kept[0]), [102.0, 104.0, 6.0, 8.0]);
        assert_eq!(values(&kept[1]), [102.0, 104.0]);
        kept[1].zero_().unwrap();
        assert_eq!(values(&kept[0]), [0.0, 0.0, 6.0, 8.0]);
        assert!(kept[2].shares_storage_with(&x));
        match called {
            Ok((base, same, row)) if fallback => {
                assert!(base.is_same(&kept[0]) && same.is_same(&x));
                assert_eq!(values(&x), [2.0, 3.0, 4.0, 5.0]);
                assert!(row.shares_storage_with(&x));
                row.zero_().unwrap();
                assert_eq!(values(&kept[2]), [2.0, 0.0, 3.0, 0.0]);
            }
            Err(e) if !fallback => {
                assert!(is_escape(&e), "{e}");
                // nothing written
                assert_eq!(values(&x), [1.0, 2.0, 3.0, 4.0]);
                assert_eq!(values(&kept[2]), [1.0, 3.0, 2.0, 4.0]);
            }
            other => panic!("{:?}", other.map(|_| ())),
        }
    }
}

#[test]
fn whatever_error_the_capture_ends_with() {
    let state = Arc::new(Mutex::new(vec(&[0.0])));
    let value = || values(&state.lock().unwrap());
    // a read of data
    let mine = state.clone();
    let reads = move |x: &Tensor| {
        *mine.lock().unwrap() = x.mul(3)?;
        x.add(x.item::<f32>()?)
    };
    let e = compile(reads.clone()).call(&vec(&[2.0])).unwrap_err();
    assert!(is_of_data(&e), "{e}");
    assert_eq!(value(), [6.0]);
    let f = eagerly(reads);
    assert_eq!(values(&f.call(&vec(&[4.0])).unwrap()), [8.0]);
    assert_eq!(value(), [12.0]);
    // an error of its own
    let mine = state.clone();
    let f = compile(move |x: &Tensor| -> Result<Tensor> {
        *mine.lock().unwrap() = x.mul(5)?;
        Err(Error::value("no"))
    });
    let e = f.call(&vec(&[2.0])).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Value(_)), "{e}");
    assert_eq!(value(), [10.0]);
    // a panic
    let mine = state.clone();
    let f = compile(move |x: &Tensor| -> Result<Tensor> {
        *mine.lock().unwrap() = x.mul(7)?;
        panic!("no")
    });
    let call = || f.call(&vec(&[2.0]));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
    assert_eq!(value(), [14.0]);
    // what fails on these data, when the value is computed
    let mine = state.clone();
    let f = compile(move |x: &Tensor, at: &Tensor| {
        *mine.lock().unwrap() = x.gather(0, at)?.mul(2)?;
        x.neg()
    });
    let at = Tensor::from_vec([5i64], 1).unwrap();
    let e = f.call((&vec(&[2.0]), &at)).unwrap_err();
    assert!(is_escape(&e) && e.to_string().contains("index 5 is out of bounds"), "{e}");
    let lost = state.lock().unwrap().clone();
    for e in [lost.add(1).unwrap_err(), lost.to_vec::<f32>().unwrap_err()] {
        assert!(is_escape(&e) && e.to_string().contains("has none"), "{e}");
    }
    *state.lock().unwrap() = vec(&[1.0]);
    let at = Tensor::from_vec([0i64], 1).unwrap();
    let e = f.call((&vec(&[2.0]), &at)).unwrap_err();
    assert!(is_escape(&e), "{e}");
    assert_eq!(value(), [4.0]);
}

#[test]
fn a_tensor_made_from_data_has_what_was_written_into_it() {
    for fallback in [false, true] {
        let state = Arc::new(Mutex::new(vec(&[0.0])));
        let mine = state.clone();
        let function = move |x: &Tensor| {
            let count = vec(&[1.0, 2.0]);
            count.narrow(0, 1, 1)?.add_(x)?;
            *mine.lock().unwrap() = count;
            x.neg()
        };
        let f = match fallback {
            false => compile(function),
            true => eagerly(function),
        };
        let called = f.call(&vec(&[5.0]));
        let said = format!("{called:?}");
        match (called, fallback) {
            (Ok(y), true) => assert_eq!(values(&y), [-5.0]),
            (Err(e), false) => assert!(is_escape(&e), "{e}"),
            (other, _) => panic!("{other:?}"),
        }
        assert_eq!(values(&state.lock().unwrap()), [1.0, 7.0], "{said}");
        assert_eq!(values(&state.lock().unwrap().mul(2).unwrap()), [2.0, 14.0]);
    }
}

#[test]
fn arguments_that_share_memory() {
    let masks: Arc<Mutex<Option<Tensor>>> = Arc::default();
    let mine = masks.clone();
    // found to overlap when the function has run, so that it runs again: the mask is there by then
    let f = compile(move |x: &Tensor, y: &Tensor| {
        let mask =
            (mine.lock().unwrap()).get_or_insert_with(|| Tensor::full([2], 3.0).unwrap()).clone();
        x.add_(&mask)?;
        y.mul(&mask)
    });
    for _ in 0..2 {
        let both = vec(&[1.0, 2.0, 3.0]);
        let (x, y) = (both.narrow(0, 0, 2).unwrap(), both.narrow(0, 1, 2).unwrap());
        assert_eq!(values(&f.call((&x, &y)).unwrap()), [15.0, 9.0]);
        assert_eq!(values(&both), [4.0, 5.0, 3.0]);
    }
    assert_eq!(compiled(&f), 1);
}

#[test]
fn random_numbers_are_those_that_eager_code_draws() {
    use crate::tensor::manual_seed;
    let noise: Arc<Mutex<Option<Tensor>>> = Arc::default();
    let mine = noise.clone();
    let f = compile(move |x: &Tensor| {
        let first = x.add(&Tensor::rand([2])?)?;
        *mine.lock().unwrap() = Some(Tensor::randn([2])?);
        first.add(&Tensor::rand([2])?)
    });
    let x = vec(&[0.0, 0.0]);
    manual_seed(7);
    f.eager(&x).unwrap();
    let eager = values(noise.lock().unwrap().as_ref().unwrap());
    manual_seed(7);
    assert!(is_escape(&f.call(&x).unwrap_err()));
    assert_eq!(values(noise.lock().unwrap().as_ref().unwrap()), eager);
}

#[test]
fn several_threads() {
    for fallback in [false, true] {
        let state: Arc<OnceLock<Tensor>> = Arc::default();
        let mine = state.clone();
        let function =
            move |x: &Tensor| x.mul(mine.get_or_init(|| Tensor::full([64], 3.0).unwrap()));
        let f = match fallback {
            false => compile(function),
            true => eagerly(function),
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let x = Tensor::ones([64]).unwrap();
                    for _ in 0..20 {
                        match f.call(&x) {
                            Ok(y) => assert_eq!(values(&y), [3.0; 64]),
                            Err(e) => assert!(is_escape(&e) && !fallback, "{e}"),
                        }
                    }
                });
            }
        });
        let x = Tensor::ones([64]).unwrap();
        assert_eq!(values(&f.call(&x).unwrap()), [3.0; 64]);
        assert_eq!(values(state.get().unwrap()), [3.0; 64]);
    }
}

/// The kernel is called while the function is locked.
#[test]
fn a_kernel_that_calls_the_function_itself() {
    use crate::dispatch::custom_op;
    static INNER: OnceLock<Compiled<Tensor, Tensor>> = OnceLock::new();
    let mut op = custom_op("settled::again", |x: &Tensor| match INNER.get() {
        Some(f) if x.numel() > 1 => f.call(&x.narrow(0, 1, 1)?),
        _ => x.mul(10),
    })
    .args(["x"])
    .register()
    .unwrap();
    op.register_fake(|x: &Tensor| Tensor::empty_like(&x.narrow(0, 0, 1)?)).unwrap();
    let h = op.handle().typed::<(&Tensor,), Tensor>().unwrap();
    let state = Arc::new(Mutex::new(vec(&[0.0])));
    let mine = state.clone();
    let f = INNER.get_or_init(|| {
        eagerly(move |x: &Tensor| {
            let y = h.call((x,))?;
            if x.numel() > 1 {
                *mine.lock().unwrap() = y.clone();
            }
            y.neg()
        })
    });
    assert_eq!(values(&f.call(&vec(&[1.0, 2.0])).unwrap()), [20.0]);
    assert_eq!(values(&state.lock().unwrap()), [-20.0]);
}
