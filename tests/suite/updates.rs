//! Tensors that a compiled function writes: their new values are computed where the old ones lie if
//! nothing else reads those, and are what eager code leaves there in any case.

use straightline::{Result, Tensor, compile};

/// A function of a closed-over tensor and an input.
type Program = fn(&Tensor, &Tensor) -> Result<Tensor>;

fn elements(t: &Tensor) -> Vec<f32> {
    t.to_vec::<f32>().unwrap()
}

fn counting(sizes: [i64; 2]) -> Tensor {
    let n = sizes[0] * sizes[1];
    let all: Vec<f32> = (0..n).map(|i| (i % 13) as f32 - 5.0).collect();
    Tensor::from_slice(&all, sizes).unwrap()
}

/// Calls a program three times, eagerly and compiled: results and what is written agree, and no
/// result lies in the tensor that is written.
fn agrees(sizes: [i64; 2], program: Program) {
    let (eager, w, x) = (counting(sizes), counting(sizes), counting(sizes).add(0.5).unwrap());
    let alias = w.detach().unwrap();
    let inside = w.clone();
    let f = compile(move |x: &Tensor| program(&inside, x));
    for _ in 0..3 {
        let (want, got) = (program(&eager, &x).unwrap(), f.call(&x).unwrap());
        assert_eq!(elements(&got), elements(&want));
        assert_eq!(elements(&w), elements(&eager));
        assert_eq!(elements(&alias), elements(&w));
        assert!(!got.shares_storage_with(&w));
    }
    assert_eq!(f.variants(), 1);
}

#[test]
fn element_by_element() {
    for sizes in [[1, 1], [3, 5], [64, 65], [200, 300]] {
        agrees(sizes, |w, x| {
            w.sub_(x.mul(0.25)?)?;
            x.sum()
        });
    }
}

#[test]
fn of_which_the_old_value_is_returned() {
    agrees([8, 8], |w, x| {
        let old = w.copied()?;
        w.mul_(x)?;
        Ok(old)
    });
}

#[test]
fn of_which_the_new_value_is_returned_as_another_tensor() {
    agrees([8, 8], |w, x| {
        let new = w.add(x)?;
        w.copy_(&new)?;
        Ok(new)
    });
}

#[test]
fn that_are_read_at_other_places_too() {
    agrees([16, 16], |w, x| {
        let turned = w.t()?.add(x)?;
        w.copy_(&turned)?;
        x.add(0)
    });
    agrees([16, 16], |w, x| {
        let rows = w.sum_dim(1)?.view([16, 1])?;
        w.sub_(&rows)?;
        x.add(0)
    });
    agrees([16, 16], |w, x| {
        let product = w.matmul(x)?;
        w.add_(&product)?;
        product.sum()
    });
    agrees([16, 16], |w, x| {
        let before = w.mul(2)?;
        w.add_(x)?;
        let after = w.matmul(x)?;
        before.matmul(&after)
    });
}

#[test]
fn of_which_others_read_the_new_value() {
    agrees([16, 16], |w, x| {
        w.mul_(0.5)?;
        w.matmul(x)?.add(w)
    });
}

#[test]
fn are_as_they_were_where_the_call_fails_afterwards() {
    let w = counting([4, 4]);
    let inside = w.clone();
    let f = compile(move |at: &Tensor| {
        inside.mul_(2)?;
        inside.index_select(0, at)
    });
    let at = |i: i64| Tensor::from_slice(&[i], [1]).unwrap();
    f.call(&at(1)).unwrap();
    let before = elements(&w);
    assert!(f.call(&at(4)).is_err());
    assert_eq!(elements(&w), before);
    f.call(&at(2)).unwrap();
    assert_eq!(elements(&w)[1], 2.0 * before[1]);
}

#[test]
fn an_argument_is_written_where_it_is() {
    let f = compile(|(cache, x): &(Tensor, Tensor)| {
        cache.add_(x)?;
        cache.sum()
    });
    let cache = counting([6, 7]);
    let alias = cache.detach().unwrap();
    let mut want = elements(&cache);
    for k in 1..4 {
        let x = Tensor::full([6, 7], k as f32).unwrap();
        let sum = f.call(&(cache.clone(), x)).unwrap();
        want.iter_mut().for_each(|v| *v += k as f32);
        assert_eq!(elements(&cache), want);
        assert_eq!(elements(&alias), want);
        assert_eq!(elements(&sum), [want.iter().sum::<f32>()]);
    }
}

#[test]
fn each_write_is_counted() {
    let w = counting([3, 3]);
    let inside = w.clone();
    let f = compile(move |x: &Tensor| {
        inside.add_(x)?;
        x.add(1)
    });
    let x = counting([3, 3]);
    f.call(&x).unwrap();
    for _ in 0..2 {
        let before = w.version();
        f.call(&x).unwrap();
        assert!(w.version() > before);
    }
}
