//! The launcher, by way of operators.

use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::access;
use crate::tensor::launch::{offer, run};
use straightline_catalog::{DType, Scalar, layout};
use straightline_runtime::cpu::kernels;

const ONE: Scalar = Scalar::Int(1);

fn numbers(sizes: &[i64]) -> Tensor {
    let n = layout::numel(sizes);
    let x: Vec<f32> = (0..n).map(|i| (i % 97) as f32 - 40.0).collect();
    Tensor::from_slice(&x, sizes).unwrap()
}

#[test]
fn results_are_computed_in_the_memory_that_is_offered() {
    let (x, y) = (numbers(&[100, 30]), Tensor::full([100, 30], 7.0).unwrap());
    let whole = access::whole(&[&y], &[&x]).unwrap();
    let offer = offer(&[&y], &[&x]).unwrap();
    let z = aten::add_tensor(&x, &x, ONE).unwrap();
    assert_eq!(z.data_ptr().unwrap(), y.data_ptr().unwrap());
    drop((z, offer, whole));
    assert_eq!(y.to_vec::<f32>().unwrap()[1], -78.0);
}

#[test]
fn memory_is_not_offered_where_operands_lie_in_it() {
    let x = numbers(&[100, 30]);
    let _whole = access::whole(&[&x], &[]).unwrap();
    assert!(offer(&[&x], &[]).is_some());
    assert!(offer(&[&x], &[&x]).is_none());
    assert!(offer(&[&x, &x], &[]).is_none());
    let part = crate::ops::view::select(&x, 0, 3).unwrap();
    assert!(offer(&[&x], &[&part]).is_none());
}

#[test]
fn an_out_has_the_result_whatever_it_was() {
    let x = numbers(&[40, 50]);
    let want = aten::sin(&x).unwrap().to_vec::<f32>().unwrap();
    let check = |y: &Tensor| assert_eq!(y.to_vec::<f32>().unwrap(), want);
    let y = numbers(&[40, 50]);
    let before = y.version();
    check(&aten::sin_out(&x, &y).unwrap());
    assert!(y.version() > before, "a write counts");
    // of other sizes, of another order of memory, the operand itself
    let flat = numbers(&[2000]);
    check(&aten::sin_out(&x, &flat).unwrap());
    let turned = crate::ops::view::transpose(&numbers(&[50, 40]), 0, 1).unwrap();
    check(&aten::sin_out(&x, &turned).unwrap());
    check(&aten::sin_out(&x, &x).unwrap());
}

#[test]
fn an_out_of_a_failed_call_is_as_it_was() {
    let doubles = |t: &Tensor| crate::ops::copy::to_dtype(t, DType::F64).unwrap();
    let (x, y) = (doubles(&numbers(&[400, 5])), doubles(&Tensor::full([400], 3.0).unwrap()));
    // the result is of i64, which is as long
    assert!(aten::argmax_out(&x, Some(1), false, &y).is_err());
    assert_eq!(y.to_vec::<f64>().unwrap(), vec![3.0; 400]);
}

#[test]
fn results_of_one_memory_are_written_where_they_lie_apart() {
    let both = numbers(&[10, 4]);
    let half = |at| crate::ops::view::slice(&both, 1, Some(at), Some(at + 2), 1).unwrap();
    let (mut a, mut b) = (half(0), half(2));
    run([&mut a, &mut b], (), |[a, b], ()| {
        kernels::fill(a, ONE);
        kernels::fill(b, Scalar::Int(2));
        Ok(())
    })
    .unwrap();
    assert_eq!(both.to_vec::<f32>().unwrap()[..5], [1.0, 1.0, 2.0, 2.0, 1.0]);
    let e = run([&mut half(0), &mut half(1)], (), |_, ()| Ok(()));
    assert!(e.is_err());
}
