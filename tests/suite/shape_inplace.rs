//! Shapes that change in place, eagerly and in compiled functions.

use straightline::ops::aten;
use straightline::{DType, ErrorKind, Result, Scalar, Tensor, compile};

fn counted(n: i64) -> Result<Tensor> {
    aten::arange(Scalar::Int(n), Some(DType::F32), None, None, None)
}

fn read(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}

#[test]
fn resize_keeps_elements_and_reaches_every_handle() -> Result<()> {
    let x = counted(6)?;
    let (same, view) = (x.clone(), aten::slice_tensor(&x, 0, Some(1), Some(3), 1)?);
    assert!(aten::resize_(&x, &[2, 2], None)?.is_same(&x));
    assert_eq!((same.sizes(), read(&same)), (&[2, 2][..], vec![0.0, 1.0, 2.0, 3.0]));
    aten::resize_(&x, &[4000], None)?;
    assert_eq!(read(&same)[..6], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(read(&view), [1.0, 2.0]);
    assert!(aten::resize_(&x, &[-1], None).is_err());
    Ok(())
}

#[test]
fn views_in_place() -> Result<()> {
    let x = counted(6)?;
    aten::as_strided_(&x, &[2, 3], &[3, 1], None)?;
    aten::t_(&x)?;
    assert_eq!((x.sizes(), read(&x)), (&[3, 2][..], vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
    aten::unsqueeze_(&x, 0)?;
    aten::transpose_(&x, 0, 2)?;
    assert_eq!(x.sizes(), [2, 3, 1]);
    aten::squeeze_(&x)?;
    assert_eq!((x.sizes(), x.is_contiguous()), (&[2, 3][..], true));
    assert!(aten::as_strided_(&x, &[7], &[1], None).is_err());
    Ok(())
}

#[test]
fn compiled_functions_change_the_shape_of_their_arguments() -> Result<()> {
    let f = compile(|x: &Tensor| {
        let y = x.mul(2)?;
        aten::t_(x)?;
        y.t()?.add(x)
    });
    for _ in 0..2 {
        let x = counted(6)?.view(&[2, 3])?;
        let sum = f.call(&x)?;
        assert_eq!((x.sizes(), x.strides()), (&[3, 2][..], &[1, 3][..]));
        assert_eq!(read(&sum), [0.0, 9.0, 3.0, 12.0, 6.0, 15.0]);
    }
    Ok(())
}

#[test]
fn compiled_functions_grow_an_out() -> Result<()> {
    let f = compile(|(x, out): &(Tensor, Tensor)| aten::neg_out(x, out));
    for _ in 0..2 {
        let (x, out) = (counted(3)?, Tensor::empty([0])?);
        let result = f.call(&(x, out.clone()))?;
        assert!(result.is_same(&out));
        assert_eq!(read(&out), [0.0, -1.0, -2.0]);
    }
    Ok(())
}

#[test]
fn compiled_functions_grow_an_out_and_make_it_smaller_again() -> Result<()> {
    let f = compile(|(x, out): &(Tensor, Tensor)| {
        aten::neg_out(x, out)?;
        aten::abs_out(&x.slice(0, 0, 2, 1)?, out)
    });
    for _ in 0..2 {
        let (x, out) = (counted(5)?, Tensor::empty([0])?);
        f.call(&(x, out.clone()))?;
        assert_eq!(read(&out), [0.0, 1.0]);
        // what it held between is there still
        let all = aten::as_strided(&out, &[5], &[1], Some(0))?;
        assert_eq!(read(&all), [0.0, 1.0, -2.0, -3.0, -4.0]);
    }
    Ok(())
}

#[test]
fn what_would_grow_over_the_memory_of_others_is_refused() -> Result<()> {
    let base = counted(6)?;
    let none = aten::as_strided(&base, &[0], &[1], Some(0))?;
    let f = compile(|(x, out): &(Tensor, Tensor)| aten::neg_out(&x.repeat(&[2])?, out));
    let e = f.call(&(base.clone(), none)).unwrap_err().to_string();
    assert!(e.contains("shares its memory with others"), "{e}");
    assert_eq!(read(&base), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    Ok(())
}

#[test]
fn a_compiled_function_that_grows_an_argument_sees_what_memory_there_is() -> Result<()> {
    type F = fn(&Tensor) -> Result<Tensor>;
    let resized: F = |x| {
        aten::resize_(x, &[8], None)?;
        x.i(..4)?.add_(1)?;
        x.mul(2)
    };
    let out: F = |x| {
        let y = counted(8)?;
        aten::neg_out(&y, x)?;
        x.mul(2)
    };
    // an argument of four elements in a memory of this many, and where it begins
    let memories = [(4, 0), (10, 0), (4, 0), (10, 1), (6, 0), (6, 2), (12, 4)];
    for f in [resized, out] {
        let compiled = compile(f);
        for (of, at) in memories {
            let base = || counted(of);
            let (a, b) = (base()?, base()?);
            let [x, y] = [&a, &b].map(|t| t.narrow(0, at, 4).unwrap());
            let eager = f(&x)?;
            match compiled.call(&y) {
                Ok(t) => {
                    // what memory is new has no values yet
                    let known = if at + 8 <= of { 8 } else { 4 };
                    let numbers = |t: &Tensor, n: usize| t.to_vec::<f32>().unwrap()[..n].to_vec();
                    let got = [numbers(&t, known), read(&b), numbers(&y, known)];
                    let want = [numbers(&eager, known), read(&a), numbers(&x, known)];
                    assert_eq!(got, want, "{of} {at}");
                }
                // part of what it grows over is somebody's
                Err(e) => {
                    let limit = matches!(e.kind(), ErrorKind::NotImplemented(_));
                    assert!(limit && of == 6, "{of} {at}: {e}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_tensor_that_changes_its_shape_is_not_given_twice_unseen() {
    let (sizes, values) =
        (|t: &Tensor| t.sizes().to_vec(), |t: &Tensor| t.to_vec::<f32>().unwrap());
    let turn = |a: &Tensor, b: &Tensor| {
        aten::t_(a)?;
        b.add(1)
    };
    let compiled = compile(turn);
    let fresh = || Tensor::arange(6).unwrap().to(DType::F32).unwrap().view([2, 3]).unwrap();
    compiled.call((&fresh(), &fresh())).unwrap();
    let both = fresh();
    // what is refused when it comes first is refused later
    let e = compiled.call((&both, &both)).unwrap_err();
    assert!(e.to_string().contains("twice"), "{e}");
    assert_eq!((sizes(&both), values(&both)), (vec![2, 3], values(&fresh())));
    compiled.call((&fresh(), &fresh())).unwrap();
    assert_eq!(compiled.variants(), 1);
    // a closed-over one
    let kept = fresh();
    let w = kept.clone();
    let closed = compile(move |a: &Tensor| {
        aten::t_(a)?;
        w.add(1)
    });
    closed.call(&fresh()).unwrap();
    if let Ok(got) = closed.call(&kept) {
        assert_eq!((sizes(&kept), sizes(&got)), (vec![3, 2], vec![3, 2]));
    }
}
