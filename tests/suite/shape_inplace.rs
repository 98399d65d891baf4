//! Shapes that change in place, eagerly and in compiled functions.

use straightline::ops::aten;
use straightline::{DType, Result, Scalar, Tensor, compile};

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
    assert_eq!(
        (same.sizes(), read(&same)),
        (&[2, 2][..], vec![0.0, 1.0, 2.0, 3.0])
    );
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
    assert_eq!(
        (x.sizes(), read(&x)),
        (&[3, 2][..], vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0])
    );
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
