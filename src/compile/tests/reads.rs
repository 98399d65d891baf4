//! Reading data while a function is captured.

use super::*;
use crate::compile::compile;
use crate::save_safetensors;

/// Every way to read a closed-over tensor is refused with its line, and follows the data when it
/// runs eagerly.
#[test]
fn reading_a_closed_over_tensor_is_refused() {
    type Read = fn(&Tensor) -> Result<f64>;
    let reads: [(&str, Read); 6] = [
        ("to_vec", |h| Ok(f64::from(h.to_vec::<f32>()?[0]))),
        ("item", |h| h.item::<f64>()),
        ("view.item", |h| h.reshape(())?.item::<f64>()),
        ("print", |h| {
            let text = h.to_string();
            Ok(text["tensor([".len()..].split('.').next().unwrap().parse().unwrap_or(-1.0))
        }),
        ("swallowed", |h| Ok(f64::from(h.to_vec::<f32>().unwrap_or_else(|_| vec![-1.0])[0]))),
        ("swallowed item", |h| Ok(h.item::<f64>().unwrap_or(-1.0))),
    ];
    for (name, read) in reads {
        let h = vec(&[1.0]);
        let closed = h.clone();
        let f = compile(move |x: &Tensor| x.add(read(&closed)?));
        let e = f.call(&vec(&[1.0])).unwrap_err();
        assert!(is_of_data(&e) || is_not_captured(&e), "{name}: {e}");
        names_a_line(&e);
        let closed = h.clone();
        let f = eagerly(move |x: &Tensor| x.add(read(&closed)?));
        assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [2.0], "{name}");
        h.fill_(10).unwrap();
        assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [11.0], "{name}");
    }
}

#[test]
fn reading_a_stand_in_is_refused_even_where_the_error_is_swallowed() {
    let f = compile(|x: &Tensor| x.add(f64::from(x.to_vec::<f32>().map_or(0.0, |v| v[0]))));
    let e = f.call(&vec(&[1.0])).unwrap_err();
    assert!(is_of_data(&e), "{e}");
    names_a_line(&e);
    let f = compile(|x: &Tensor| x.mul(x)?.add(x.exp()?.to_string().len() as i64));
    let e = f.call(&vec(&[1.0])).unwrap_err();
    assert!(is_of_data(&e) && e.to_string().contains("printing"), "{e}");
    // the line of the function, since printing knows none
    names_a_line(&e);
    // the sizes may be printed
    let f = compile(|x: &Tensor| x.add(format!("{x:?}").len() as i64));
    assert!(f.call(&vec(&[1.0])).is_ok());
}

#[test]
fn an_operator_that_fails_in_capture_alone_is_not_gone_on_after() {
    let f = compile(|x: &Tensor| match x.to(crate::DType::I64)?.one_hot(-1) {
        Ok(places) => places.sum(),
        Err(_) => x.neg(),
    });
    let e = f.call(&vec(&[1.0, 0.0])).unwrap_err();
    assert!(is_not_captured(&e) && e.to_string().contains("one_hot"), "{e}");
    names_a_line(&e);
    // as in eager execution
    let f = compile(|x: &Tensor| x.matmul(&x.reshape(&[1, -1])?).or_else(|_| x.neg()));
    assert_eq!(values(&f.call(&vec(&[1.0, 2.0])).unwrap()), [-1.0, -2.0]);
}

#[test]
fn an_operator_that_reads_a_closed_over_tensor_reads_it_at_each_call() {
    let h = Tensor::from_vec([1i64, 2], 2).unwrap();
    let repeats = h.clone();
    let f =
        move |x: &Tensor| crate::ops::aten::repeat_interleave_self_tensor(x, &repeats, None, None);
    let f = compile(f);
    assert_eq!(values(&f.call(&vec(&[1.0, 2.0])).unwrap()), [1.0, 2.0, 2.0]);
    h.fill_(1).unwrap();
    assert_eq!(values(&f.call(&vec(&[1.0, 2.0])).unwrap()), [1.0, 2.0]);
}

#[test]
fn files_are_no_part_of_a_captured_function() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.safetensors");
    let (there, h) = (path.clone(), vec(&[1.0]));
    let f = compile(move |x: &Tensor| {
        save_safetensors(&there, [("h", &h)])?;
        x.neg()
    });
    let e = f.call(&vec(&[1.0])).unwrap_err();
    assert!(is_not_captured(&e), "{e}");
    names_a_line(&e);
    assert!(!path.exists());
}

#[test]
fn what_the_function_makes_from_data_may_be_read_until_it_is_written() {
    let f = compile(|x: &Tensor| {
        let table = vec(&[3.0, 4.0]);
        x.add(f64::from(table.to_vec::<f32>()?[1]))
    });
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [5.0]);
    assert_eq!(values(&f.call(&vec(&[2.0])).unwrap()), [6.0]);
    let f = compile(|x: &Tensor| {
        let table = vec(&[3.0, 4.0]);
        table.add_(1)?;
        x.add(f64::from(table.to_vec::<f32>()?[1]))
    });
    let e = f.call(&vec(&[1.0])).unwrap_err();
    assert!(is_of_data(&e), "{e}");
    names_a_line(&e);
}
