//! What a function may ask about its tensors, and how the answers are guarded.

use super::*;
use crate::compile::compile;
use crate::ops::aten;

#[test]
fn an_offset_is_guarded_if_it_is_asked_for() {
    let base = vec(&[0.0, 1.0, 2.0, 3.0, 4.0]);
    let (a, b) = (base.narrow(0, 1, 2).unwrap(), base.narrow(0, 3, 2).unwrap());
    let f = compile(|x: &Tensor| x.mul(x.storage_offset()));
    assert_eq!(values(&f.call(&a).unwrap()), [1.0, 2.0]);
    assert_eq!(values(&f.call(&b).unwrap()), [9.0, 12.0]);
    assert_eq!(values(&f.call(&a).unwrap()), [1.0, 2.0]);
    assert_eq!(f.variants(), 2);
    assert!(f.explain().to_string().contains("begins at element 3"));
    // of a view
    let f = compile(|x: &Tensor| x.mul(x.narrow(0, 1, 1)?.storage_offset()));
    assert_eq!(values(&f.call(&a).unwrap()), [2.0, 4.0]);
    assert_eq!(values(&f.call(&b).unwrap()), [12.0, 16.0]);
    // no guard without a question
    let f = compile(|x: &Tensor| x.narrow(0, 1, 1)?.neg());
    assert_eq!(values(&f.call(&a).unwrap()), [-2.0]);
    assert_eq!(values(&f.call(&b).unwrap()), [-4.0]);
    assert_eq!(f.variants(), 1);
}

#[test]
fn elements_that_are_viewed_as_one_begin_where_one_may() {
    let base = vec(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let [at_1, at_2, at_4] = [1, 2, 4].map(|i| base.narrow(0, i, 2).unwrap());
    let as_f64 = |x: &Tensor| aten::view_dtype(x, crate::DType::F64)?.mul(1);
    let as_c64 = |x: &Tensor| aten::view_as_complex(x)?.mul(1);
    // of a view that makes up for where its argument begins
    let of_rest = |x: &Tensor| aten::view_as_complex(&x.narrow(0, 1, 2)?)?.mul(1);
    let f = compile(as_f64);
    let g = compile(as_c64);
    for x in [&at_2, &at_4] {
        f.call(x).unwrap();
        g.call(x).unwrap();
    }
    for e in [f.call(&at_1), g.call(&at_1)] {
        let e = e.unwrap_err().to_string();
        assert!(e.contains("storage_offset"), "{e}");
    }
    assert_eq!((f.variants(), g.variants()), (1, 1));
    let h = compile(of_rest);
    let [at_1, at_2, at_3] = [1, 2, 3].map(|i| base.narrow(0, i, 3).unwrap());
    h.call(&at_1).unwrap();
    h.call(&at_3).unwrap();
    assert!(h.call(&at_2).is_err());
    assert_eq!(h.variants(), 1);
}

#[test]
fn a_place_in_the_storage_does_not_move_with_the_argument() {
    let base = vec(&[0.0, 1.0, 2.0, 3.0, 4.0]);
    let (a, b) = (base.narrow(0, 1, 2).unwrap(), base.narrow(0, 3, 2).unwrap());
    let f = compile(|x: &Tensor| aten::as_strided(x, &[2], &[1], Some(1))?.neg());
    for t in [&a, &b, &a] {
        assert_eq!(values(&f.call(t).unwrap()), [-1.0, -2.0]);
    }
    let (a, b) = (base.narrow(0, 0, 4).unwrap(), base.narrow(0, 1, 4).unwrap());
    let f =
        compile(|x: &Tensor| aten::as_strided_scatter(x, &vec(&[7.0, 8.0]), &[2], &[1], Some(1)));
    for t in [&a, &b, &a] {
        let eager = values(&f.eager(t).unwrap());
        assert_eq!(values(&f.call(t).unwrap()), eager);
    }
    assert_eq!(f.variants(), 2);
}

#[test]
fn versions_are_refused() {
    let f = compile(|x: &Tensor| x.add(x.version() as i64));
    let e = f.call(&vec(&[1.0])).unwrap_err();
    assert!(is_not_captured(&e) && e.to_string().contains("version"), "{e}");
    names_a_line(&e);
    let h = vec(&[1.0]);
    let closed = h.clone();
    let f = eagerly(move |x: &Tensor| x.add(closed.version() as i64));
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [1.0]);
    h.fill_(1).unwrap();
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [2.0]);
}

#[test]
fn sharing_is_guarded_if_it_is_asked_for() {
    let base = vec(&[1.0, 2.0]);
    let (a, b) = (base.narrow(0, 0, 1).unwrap(), base.narrow(0, 1, 1).unwrap());
    let f = |(x, y): &(Tensor, Tensor)| match x.shares_storage_with(y) {
        true => x.neg(),
        false => x.add(100),
    };
    for first in [true, false] {
        let f = compile(f);
        let alone = vec(&[0.0]);
        let mut both = [(&b, -1.0), (&alone, 101.0)];
        if first {
            both.reverse();
        }
        for (other, expected) in both.iter().chain(&both) {
            let y = f.call(&(a.clone(), (*other).clone())).unwrap();
            assert_eq!(values(&y), [*expected]);
        }
        assert_eq!(f.variants(), 2);
    }
    // with a closed-over tensor
    let h = base.clone();
    let f = compile(move |x: &Tensor| {
        match x.neg()?.shares_storage_with(&h) || x.shares_storage_with(&h) {
            true => x.neg(),
            false => x.add(100),
        }
    });
    for _ in 0..2 {
        assert_eq!(values(&f.call(&a).unwrap()), [-1.0]);
        assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [101.0]);
    }
}

#[test]
fn identity_is_guarded_if_it_is_asked_for() {
    let (a, b) = (vec(&[1.0]), vec(&[2.0]));
    let f = compile(|(x, y): &(Tensor, Tensor)| match x.is_same(y) {
        true => x.neg(),
        false => x.add(100),
    });
    for _ in 0..2 {
        assert_eq!(values(&f.call(&(a.clone(), b.clone())).unwrap()), [101.0]);
        assert_eq!(values(&f.call(&(a.clone(), a.clone())).unwrap()), [-1.0]);
    }
    let h = a.clone();
    let f = compile(move |x: &Tensor| match x.is_same(&h) {
        true => x.neg(),
        false => x.add(100),
    });
    for _ in 0..2 {
        assert_eq!(values(&f.call(&a).unwrap()), [-1.0]);
        assert_eq!(values(&f.call(&b).unwrap()), [102.0]);
    }
    // a handle of one's own is the same tensor
    let f = compile(|x: &Tensor| match x.is_same(&x.clone()) && !x.is_same(&x.neg()?) {
        true => x.neg(),
        false => x.add(100),
    });
    assert_eq!(values(&f.call(&a).unwrap()), [-1.0]);
    assert_eq!(values(&f.call(&b).unwrap()), [-2.0]);
    assert_eq!(f.variants(), 1);
}

/// Closed-over tensors that come to share memory later.
#[test]
fn closed_over_tensors_may_come_to_share_memory() {
    let (a, b) = (vec(&[1.0]), vec(&[5.0]));
    let (a2, b2) = (a.clone(), b.clone());
    let f = compile(move |x: &Tensor| {
        a2.add_(x)?;
        b2.mul(2)
    });
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [10.0]);
    assert_eq!(values(&a), [2.0]);
    aten::set_source_tensor_(&b, &a).unwrap();
    assert!(b.shares_storage_with(&a));
    // 2 + 1, doubled
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [6.0]);
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [8.0]);
    assert_eq!(compiled(&f), 2);
    assert!(f.explain().to_string().contains("other memory"));
}

#[test]
fn what_only_capture_refuses_is_no_answer() {
    // a function that handles the error would take another path than eagerly
    let mask = &vec(&[1.0, 0.0]).gt(0.0).unwrap();
    let f = |x: &Tensor, mask: &Tensor| {
        let repeated = x.narrow(0, 0, 1)?.copied()?.expand([2])?;
        let taken = repeated.masked_fill_(mask, 9).is_ok();
        x.mul(if taken { 1 } else { 1000 })
    };
    let x = &vec(&[1.0, 2.0]);
    assert_eq!(values(&f(x, mask).unwrap()), [1.0, 2.0]);
    let e = compile(f).call((x, mask)).unwrap_err();
    assert!(matches!(e.kind(), crate::ErrorKind::NotCaptured { .. }), "{e:?}");
    // and what eager code takes as well as PyTorch is taken
    let f = |x: &Tensor| -> Result<Tensor> {
        let base = x.copied()?;
        let [a, b] = [0, 1].map(|from| base.narrow(0, from, 4).and_then(|t| t.reshape([2, 2])));
        aten::addmm_(&a?, &b?, &vec(&[1.0, 2.0, 3.0, 4.0]).reshape([2, 2])?, 1.into(), 1.into())?;
        Ok(base)
    };
    let x = &vec(&[1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(values(&compile(f).call(x).unwrap()), values(&f(x).unwrap()));
}
