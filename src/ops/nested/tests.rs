//! Nested tensors against PyTorch 2.15: every expected value here was printed by it.

use crate::dispatch::{DispatchError, DispatchKey, dump_table, operator};
use crate::error::{ErrorKind, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::{DType, Scalar};

fn matrix(rows: i64) -> Tensor {
    let data: Vec<f32> = (0..rows * 3).map(|x| x as f32).collect();
    Tensor::from_slice(&data, &[rows, 3]).unwrap()
}

fn batch() -> Tensor {
    Tensor::nested(&[matrix(2), matrix(1)]).unwrap()
}

fn values(t: Result<Tensor>) -> Vec<f32> {
    aten::values(&t.unwrap()).unwrap().to_vec().unwrap()
}

fn message<T>(r: Result<T>) -> String {
    r.err().expect("should have failed").to_string()
}

#[test]
fn keys_are_those_that_pytorch_gives() {
    assert_eq!(
        batch().key_set().to_string(),
        "DispatchKeySet(NestedTensorCPU, ADInplaceOrView, AutogradCPU, AutogradNestedTensor, AutocastCPU)"
    );
    assert_eq!((batch().sizes(), batch().numel(), batch().dim()), (&[2, -1, 3][..], 9, 3));
}

#[test]
fn composites_reach_nested_tensors_and_explicit_ones_do_not() {
    let label = |op: &str, key: &str| {
        let table = dump_table(operator(op).unwrap());
        let line = table.lines().find(|l| l.starts_with(&format!("{key}:")));
        line.map(|l| {
            l.rsplit_once('[').map_or(String::new(), |(_, l)| l.trim_end_matches(']').to_string())
        })
    };
    for (op, key, want) in [
        // CompositeImplicitAutograd
        ("aten::nested_to_padded_tensor", "NestedTensorCPU", Some("math kernel")),
        ("aten::nested_to_padded_tensor", "AutogradNestedTensor", Some("math kernel")),
        ("aten::linear", "NestedTensorCPU", Some("kernel")),
        ("aten::linear", "AutogradCPU", Some("math kernel")),
        // CompositeExplicitAutograd
        ("aten::is_coalesced", "NestedTensorCPU", None),
        ("aten::is_coalesced", "SparseCPU", Some("kernel")),
    ] {
        assert_eq!(label(op, key).as_deref(), want, "{op} {key}");
    }
    let e = aten::exp(&batch()).unwrap_err();
    let ErrorKind::Dispatch(DispatchError::MissingKernel(m)) = e.kind() else {
        panic!("{e}");
    };
    assert_eq!(m.key, DispatchKey::NestedTensorCPU);
}

#[test]
fn parts_are_views_of_one_buffer() {
    let b = batch();
    let sizes = b.nested_sizes().unwrap();
    assert_eq!((sizes.sizes(), sizes.to_vec::<i64>().unwrap()), (&[2, 2][..], vec![2, 3, 1, 3]));
    assert_eq!(aten::_nested_tensor_strides(&b).unwrap().to_vec::<i64>().unwrap(), [3, 1, 3, 1]);
    assert_eq!(aten::_nested_tensor_storage_offsets(&b).unwrap().to_vec::<i64>().unwrap(), [0, 6]);
    let parts = aten::unbind_int(&b, 0).unwrap();
    assert!(parts[0].shares_storage_with(&parts[1]));
    assert_eq!(parts[1].to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
    assert_eq!(aten::select_int(&b, 0, 1).unwrap().to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
    assert_eq!(values(Ok(b.clone())), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 1.0, 2.0]);
    assert!(
        message(aten::unbind_int(&b, 1))
            .contains("can only be unbound along dimension 0 got dimension 1 instead.")
    );
}

#[test]
fn padding_is_pytorchs() {
    let p = batch().to_padded(-1.0).unwrap();
    assert_eq!(p.sizes(), [2, 2, 3]);
    assert_eq!(
        p.to_vec::<f32>().unwrap(),
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 1.0, 2.0, -1.0, -1.0, -1.0]
    );
    let wide = aten::nested_to_padded_tensor(&batch(), 0.0, Some(&[2, 4, 3])).unwrap();
    assert_eq!(wide.sizes(), [2, 4, 3]);
    let m = message(aten::to_padded_tensor(&batch(), 0.0, Some(&[2, 1, 3])));
    assert!(m.contains("Truncation is not supported."), "{m}");
}

#[test]
fn arithmetic_is_pytorchs() {
    let (b, one) = (batch(), Scalar::Int(1));
    let twice = [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 0.0, 2.0, 4.0];
    assert_eq!(values(aten::add_tensor(&b, &b, one)), twice);
    assert_eq!(values(aten::mul_scalar(&b, Scalar::Int(2))), twice);
    assert_eq!(values(aten::mul_tensor(&b, &Tensor::wrapped_number(2.0).unwrap())), twice);
    assert_eq!(values(aten::sub_tensor(&b, &b, one)), [0.0; 9]);
    assert_eq!(values(aten::relu(&aten::neg(&b).unwrap())), [0.0; 9]);
    let dense = Tensor::ones([3]).unwrap();
    let m = message(aten::add_tensor(&b, &dense, one));
    assert!(
        m.contains(
            "Expected both self and other to be nested, but got a nested self and non-nested other"
        ),
        "{m}"
    );
    let flat = Tensor::nested(&[
        Tensor::from_vec([1f32, 2.0], 2).unwrap(),
        Tensor::from_vec([3f32], 1).unwrap(),
    ])
    .unwrap();
    let m = message(aten::add_tensor(&b, &flat, one));
    assert!(m.contains("add does not support broadcasting when given a NestedTensor"), "{m}");
}

#[test]
fn products_are_pytorchs() {
    let b = batch();
    let ones = |s: &[i64]| Tensor::ones(s).unwrap();
    let y = aten::linear(&b, &ones(&[2, 3]), Some(&ones(&[2]))).unwrap();
    assert_eq!(y.sizes(), [2, -1, 2]);
    assert_eq!(values(Ok(y)), [4.0, 4.0, 13.0, 13.0, 4.0, 4.0]);
    let m = message(aten::linear(&b, &ones(&[2, 2]), None));
    assert!(m.contains("last_dim = 3, and weight.size(1) = 2"), "{m}");
    let t = aten::transpose_int(&b, 1, 2).unwrap();
    assert_eq!(values(Ok(t.clone())), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 0.0, 1.0, 2.0]);
    assert_eq!(values(aten::matmul(&b, &t)), [5.0, 14.0, 14.0, 50.0, 5.0]);
    assert_eq!(values(aten::bmm(&b, &t)), [5.0, 14.0, 14.0, 50.0, 5.0]);
    assert!(message(aten::matmul(&b, &ones(&[3, 2]))).contains("Expected both to be nested"));
    let s = values(aten::softmax_int(&b, -1, None));
    for (got, want) in s.iter().zip([0.0900, 0.2447, 0.6652].iter().cycle()) {
        assert!((got - want).abs() < 1e-4f32);
    }
    assert!(
        message(aten::softmax_int(&b, 0, None))
            .contains("Cannot apply softmax across nested dimension 0")
    );
}

#[test]
fn prints_as_pytorch() {
    let flat = Tensor::nested(&[
        Tensor::from_vec([1f32, 2.0], 2).unwrap(),
        Tensor::from_vec([3f32], 1).unwrap(),
    ])
    .unwrap();
    assert_eq!(flat.to_string(), "nested_tensor([\n  tensor([1., 2.]),\n  tensor([3.])\n])");
    assert_eq!(
        batch().to_string(),
        "nested_tensor([\n  tensor([[0., 1., 2.],\n          [3., 4., 5.]]),\n  tensor([[0., 1., 2.]])\n])"
    );
    assert_eq!(Tensor::nested(&[]).unwrap().to_string(), "nested_tensor([\n\n])");
}

#[test]
fn constructors_refuse_what_does_not_nest() {
    let m = message(Tensor::nested(&[Tensor::from_vec([1f32], 1).unwrap(), matrix(2)]));
    assert!(
        m.contains(
            "Found dimension 2 for Tensor at index 1 and dimension 1 for Tensor at index 0."
        ),
        "{m}"
    );
    assert!(Tensor::nested(&[matrix(2).to_sparse().unwrap()]).is_err());
    let m = message(batch().to_vec::<f32>());
    assert!(m.contains("a nested tensor") && m.contains("to_padded_tensor"), "{m}");
    let wide = batch().to_dtype(DType::F64).unwrap();
    assert_eq!((wide.dtype(), wide.is_nested()), (DType::F64, true));
}
