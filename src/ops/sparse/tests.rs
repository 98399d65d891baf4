//! Sparse operators against PyTorch 2.15: every expected value here was printed by it.

use crate::dispatch::{DispatchError, DispatchKey, DispatchKeySet, dump_table};
use crate::error::{Error, ErrorKind, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::{DType, Device, Layout, Scalar};

fn coo() -> Tensor {
    let i = Tensor::from_slice(&[0i64, 1, 1, 2, 0, 2], &[2, 3]).unwrap();
    let v = Tensor::from_vec([3f32, 4.0, 5.0], 3).unwrap();
    Tensor::sparse_coo(&i, &v, &[2, 3]).unwrap()
}

fn ones(sizes: &[i64]) -> Tensor {
    Tensor::ones(sizes).unwrap()
}

fn dense(t: &Tensor) -> Vec<f32> {
    t.to_dense().unwrap().to_vec().unwrap()
}

fn message<T>(r: Result<T>) -> String {
    r.err().expect("should have failed").to_string()
}

fn missing(e: &Error) -> DispatchKey {
    match e.kind() {
        ErrorKind::Dispatch(DispatchError::MissingKernel(m)) => m.key,
        _ => panic!("not a missing kernel: {e}"),
    }
}

#[test]
fn keys_are_those_that_pytorch_gives() {
    let keys = |t: &Tensor| t.key_set().to_string();
    let rest = "ADInplaceOrView, AutogradCPU, AutocastCPU)";
    assert_eq!(keys(&coo()), format!("DispatchKeySet(SparseCPU, {rest}"));
    let rows = coo().to_sparse_csr().unwrap();
    assert_eq!(keys(&rows), format!("DispatchKeySet(SparseCsrCPU, {rest}"));
    assert_eq!((coo().layout(), rows.layout()), (Layout::Sparse, Layout::SparseCsr));
    // no strides, and so no short cut for row-major tensors takes it
    assert!(!coo().is_contiguous());
}

#[test]
fn a_dense_and_a_sparse_operand_reach_the_sparse_kernel() {
    let keys = ones(&[2, 3]).key_set() | coo().key_set();
    let below = keys & DispatchKeySet::full_after(DispatchKey::ADInplaceOrView);
    assert_eq!(below.highest_priority_key(), DispatchKey::SparseCPU);
    let sum = aten::add_tensor(&ones(&[2, 3]), &coo(), Scalar::Int(1)).unwrap();
    assert_eq!(sum.layout(), Layout::Strided);
    assert_eq!(sum.to_vec::<f32>().unwrap(), [1.0, 1.0, 4.0, 5.0, 1.0, 6.0]);
}

#[test]
fn sparse_with_meta_is_sparse_meta_which_has_no_kernel() {
    let meta = Tensor::with(Device::META).ones([3, 2]).unwrap();
    let e = aten::mm(&coo(), &meta).unwrap_err();
    assert_eq!(missing(&e), DispatchKey::SparseMeta);
}

#[test]
fn an_operator_without_a_sparse_kernel_names_the_backend() {
    for (e, key) in [
        (aten::cos(&coo()).unwrap_err(), DispatchKey::SparseCPU),
        (aten::view(&coo(), &[6]).unwrap_err(), DispatchKey::SparseCPU),
        (aten::exp(&coo().to_sparse_csr().unwrap()).unwrap_err(), DispatchKey::SparseCsrCPU),
        (aten::_nnz(&ones(&[2])).unwrap_err(), DispatchKey::CPU),
    ] {
        assert_eq!(missing(&e), key, "{e}");
    }
}

#[test]
fn reading_memory_says_what_the_tensor_is() {
    let e = coo().to_vec::<f32>().unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Opaque { .. }), "{e}");
    assert!(e.to_string().contains("sparse tensor in coordinate form"), "{e}");
    assert!(e.to_string().contains("to_dense"), "{e}");
}

#[test]
fn tables_have_kernels_where_pytorch_has_them() {
    let label = |op: &str, key: &str| {
        let table = dump_table(crate::dispatch::operator(op).unwrap());
        let line = table.lines().find(|l| l.starts_with(&format!("{key}:")));
        line.map(|l| {
            l.rsplit_once('[').map_or(String::new(), |(_, l)| l.trim_end_matches(']').to_string())
        })
    };
    for (op, key, want) in [
        ("aten::to_dense", "SparseCPU", Some("math kernel")),
        ("aten::to_dense", "AutogradCPU", Some("math kernel")),
        ("aten::_to_dense", "SparseCPU", Some("kernel")),
        ("aten::_to_dense", "CPU", None),
        ("aten::is_coalesced", "CPU", Some("default backend kernel")),
        ("aten::is_coalesced", "SparseCsrCPU", Some("default backend kernel")),
        ("aten::is_coalesced", "NestedTensorCPU", None),
        ("aten::mm", "SparseCPU", Some("kernel")),
        ("aten::mm", "SparseMeta", None),
    ] {
        assert_eq!(label(op, key).as_deref(), want, "{op} {key}");
    }
}

#[test]
fn constructors_check_like_check_invariants() {
    let i = Tensor::from_slice(&[0i64, 1, 1, 2, 0, 2], &[2, 3]).unwrap();
    let v = Tensor::from_vec([3f32, 4.0, 5.0], 3).unwrap();
    let minus = aten::neg(&i).unwrap();
    let two = Tensor::from_vec([3f32, 4.0], 2).unwrap();
    for (indices, values, sizes, want) in [
        (
            &i,
            &v,
            &[2i64, 2][..],
            "size is inconsistent with indices: for dim 1, size is 2 but found index 2",
        ),
        (&minus, &v, &[2, 3], "found negative index -1 for dim 0"),
        (
            &i,
            &two,
            &[2, 3],
            "indices and values must have same nnz, but got nnz from indices: 3, nnz from values: 2",
        ),
        (
            &i,
            &v,
            &[2, 3, 4],
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = 3, sparse_dim = 2, dense_dim = 0",
        ),
        (&i, &ones(&[3, 2]), &[2, 3, 4], "values has incorrect size, expected [3, 4], got [3, 2]"),
        (&v, &v, &[2, 3], "indices must be an int64 tensor"),
    ] {
        let m = message(Tensor::sparse_coo(indices, values, sizes));
        assert!(m.contains(want), "{m}");
    }
    let twice = Tensor::from_slice(&[1i64, 0, 0, 0], &[2, 2]).unwrap();
    let m = message(aten::sparse_coo_tensor_indices_size(
        &twice,
        &two,
        &[2, 3],
        None,
        None,
        None,
        None,
        Some(true),
    ));
    assert!(m.contains("cannot set is_coalesced to true"), "{m}");
    assert!(
        message(coo().indices())
            .contains("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    );
    assert!(
        message(ones(&[2]).indices())
            .contains("indices expected sparse coordinate tensor layout but got Strided")
    );
    // without sizes: the smallest that hold the indices
    let t = aten::sparse_coo_tensor_indices(&i, &v, None, None, None, None, None).unwrap();
    assert_eq!(t.sizes(), [2, 3]);
}

#[test]
fn rows_check_like_check_invariants() {
    let ints = |v: &[i64]| Tensor::from_slice(v, &[v.len() as i64]).unwrap();
    let v = Tensor::from_vec([3f32, 4.0, 5.0], 3).unwrap();
    for (crow, col, want) in [
        (&[0i64, 1, 4][..], &[2i64, 0, 2][..], "`crow_indices[..., -1] == nnz` is not satisfied."),
        (&[1, 1, 3], &[2, 0, 2], "`crow_indices[..., 0] == 0` is not satisfied."),
        (
            &[0, 3, 3],
            &[2, 0, 2],
            "are sorted and distinct along the last dimension values` is not satisfied.",
        ),
        (&[0, 1, 3], &[2, 0, 3], "`0 <= col_indices < ncols` is not satisfied."),
        (
            &[0, 1],
            &[2, 0, 2],
            "crow_indices.shape[-1] must be equal to the number of rows + 1 (=3), but got 2",
        ),
        (
            &[0, 1, 3],
            &[2, 0],
            "col_indices.shape[-1] must be equal to nnz (=3) as defined by values.shape[0], but got 2",
        ),
        (
            &[0, 4, 3],
            &[2, 0, 2],
            "`0 <= crow_indices[..., 1:] - crow_indices[..., :-1] <= ncols` is not satisfied.",
        ),
    ] {
        let m = message(Tensor::sparse_csr(&ints(crow), &ints(col), &v, &[2, 3]));
        assert!(m.contains(want), "{m}");
    }
    let m = message(ones(&[2, 3, 4]).to_sparse_csr());
    assert!(m.contains("matrices"), "{m}");
}

#[test]
fn conversions_meet() {
    let d = [0.0, 0.0, 3.0, 4.0, 0.0, 5.0];
    let s = coo();
    assert_eq!(dense(&s), d);
    let rows = s.to_sparse_csr().unwrap();
    assert_eq!(aten::crow_indices(&rows).unwrap().to_vec::<i64>().unwrap(), [0, 1, 3]);
    assert_eq!(aten::col_indices(&rows).unwrap().to_vec::<i64>().unwrap(), [2, 0, 2]);
    assert_eq!(dense(&rows), d);
    let back = aten::to_sparse(&rows, Some(Layout::Sparse), None, None).unwrap();
    assert!(aten::is_coalesced(&back).unwrap());
    assert_eq!(dense(&back), d);
    let direct = s.to_dense().unwrap();
    let csr = aten::to_sparse(&direct, Some(Layout::SparseCsr), None, None).unwrap();
    assert_eq!(dense(&csr), d);
    // one sparse dimension, one dense
    let hybrid = aten::to_sparse_sparse_dim(&direct, 1).unwrap();
    assert_eq!((aten::sparse_dim(&hybrid).unwrap(), aten::dense_dim(&hybrid).unwrap()), (1, 1));
    assert_eq!(hybrid.values().unwrap().sizes(), [2, 3]);
    assert_eq!(dense(&hybrid), d);
    let scalar = Tensor::scalar(3.0).unwrap().to_sparse().unwrap();
    assert_eq!(scalar.indices().unwrap().sizes(), [0, 1]);
    assert_eq!(dense(&scalar), [3.0]);
    assert!(
        message(aten::to_sparse_sparse_dim(&direct, 3))
            .contains("must be in [0,2] range, but 3 is given")
    );
    assert!(
        message(aten::to_sparse_sparse_dim(&direct, 0)).contains("must be in >0 when self.dim()>0")
    );
    let none = Tensor::zeros([2, 0]).unwrap().to_sparse().unwrap();
    assert_eq!(aten::_nnz(&none).unwrap(), 0);
}

#[test]
fn equal_coordinates_are_summed() {
    let i = Tensor::from_slice(&[0i64, 0], &[1, 2]).unwrap();
    let v = Tensor::from_vec([1f32, -3.0], 2).unwrap();
    let s = Tensor::sparse_coo(&i, &v, &[2]).unwrap();
    assert!(!aten::is_coalesced(&s).unwrap());
    assert_eq!(s.coalesce().unwrap().values().unwrap().to_vec::<f32>().unwrap(), [-2.0]);
    // element-wise functions see the sum, not the parts
    assert_eq!(aten::_values(&aten::abs(&s).unwrap()).unwrap().to_vec::<f32>().unwrap(), [2.0]);
    assert_eq!(aten::_values(&aten::relu(&s).unwrap()).unwrap().to_vec::<f32>().unwrap(), [0.0]);
    assert_eq!(dense(&s), [-2.0, 0.0]);
}

#[test]
fn arithmetic_is_pytorchs() {
    let s = coo();
    let values = |t: Result<Tensor>| aten::_values(&t.unwrap()).unwrap().to_vec::<f32>().unwrap();
    let one = Scalar::Int(1);
    assert_eq!(values(aten::add_tensor(&s, &s, one)), [6.0, 8.0, 10.0]);
    assert_eq!(values(aten::sub_tensor(&s, &s, one)), [0.0, 0.0, 0.0]);
    assert_eq!(values(aten::add_tensor(&s, &s, Scalar::Float(0.5))), [4.5, 6.0, 7.5]);
    assert_eq!(values(aten::mul_tensor(&s, &s)), [9.0, 16.0, 25.0]);
    assert_eq!(values(aten::mul_scalar(&s, Scalar::Int(2))), [6.0, 8.0, 10.0]);
    assert_eq!(values(aten::mul_tensor(&s, &ones(&[2, 3]))), [3.0, 4.0, 5.0]);
    assert_eq!(values(aten::mul_tensor(&ones(&[3]), &s)), [3.0, 4.0, 5.0]);
    assert_eq!(values(aten::div_scalar(&s, Scalar::Int(2))), [1.5, 2.0, 2.5]);
    assert_eq!(values(aten::neg(&s)), [-3.0, -4.0, -5.0]);
    assert_eq!(values(aten::sqrt(&s)), [3f32.sqrt(), 2.0, 5f32.sqrt()]);
    let t = aten::t(&s).unwrap();
    assert_eq!(t.sizes(), [3, 2]);
    assert_eq!(dense(&t), [0.0, 4.0, 0.0, 0.0, 3.0, 5.0]);
    for (r, want) in [
        (
            aten::add_tensor(&s, &ones(&[2, 3]), one),
            "add(sparse, dense) is not supported. Use add(dense, sparse) instead.",
        ),
        (
            aten::add_tensor(&s, &t, one),
            "add: expected sizes of 'self' and 'other' to match, but [2, 3] != [3, 2]",
        ),
        (
            aten::div_tensor(&s, &s),
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape [2, 3] for divisor)",
        ),
    ] {
        let m = message(r);
        assert!(m.contains(want), "{m}");
    }
    let wide = s.to_dtype(DType::F64).unwrap();
    assert_eq!(aten::add_tensor(&s, &wide, one).unwrap().dtype(), DType::F64);
}

#[test]
fn different_coordinates_merge() {
    let at = |i: &[i64], v: &[f32]| {
        let i = Tensor::from_slice(i, &[1, i.len() as i64]).unwrap();
        Tensor::sparse_coo(&i, &Tensor::from_slice(v, &[v.len() as i64]).unwrap(), &[6]).unwrap()
    };
    let (a, b) = (at(&[0, 2, 5], &[1.0, 2.0, 3.0]), at(&[1, 2, 4], &[10.0, 20.0, 30.0]));
    let sum = aten::add_tensor(&a, &b, Scalar::Int(2)).unwrap();
    assert_eq!(dense(&sum), [1.0, 20.0, 42.0, 0.0, 60.0, 3.0]);
    assert_eq!(aten::_nnz(&sum).unwrap(), 5);
    let product = aten::mul_tensor(&a, &b).unwrap();
    assert_eq!(product.indices().unwrap().to_vec::<i64>().unwrap(), [2]);
    assert_eq!(dense(&product), [0.0, 0.0, 40.0, 0.0, 0.0, 0.0]);
}

#[test]
fn products_are_pytorchs_in_both_forms() {
    for s in [coo(), coo().to_sparse_csr().unwrap()] {
        let to = |t: Result<Tensor>| dense(&t.unwrap());
        assert_eq!(to(aten::mm(&s, &ones(&[3, 2]))), [3.0, 3.0, 9.0, 9.0]);
        assert_eq!(to(aten::mm(&ones(&[2, 2]), &s)), [4.0, 0.0, 8.0, 4.0, 0.0, 8.0]);
        assert_eq!(to(aten::matmul(&s, &ones(&[3]))), [3.0, 9.0]);
        let (b, a) = (Scalar::Int(2), Scalar::Int(3));
        assert_eq!(
            to(aten::addmm(&ones(&[2, 2]), &s, &ones(&[3, 2]), b, a)),
            [11.0, 11.0, 29.0, 29.0]
        );
        assert_eq!(aten::sum(&s, None).unwrap().item::<Scalar>().unwrap(), Scalar::Float(12.0));
        assert!(
            message(aten::mm(&s, &ones(&[2, 2])))
                .contains("shapes cannot be multiplied (2x3 and 2x2)")
        );
    }
    let s = coo();
    let square = aten::mm(&aten::t(&s).unwrap(), &s).unwrap();
    assert_eq!(square.indices().unwrap().to_vec::<i64>().unwrap(), [0, 0, 2, 2, 0, 2, 0, 2]);
    assert_eq!(square.values().unwrap().to_vec::<f32>().unwrap(), [16.0, 20.0, 20.0, 34.0]);
    let down = aten::sum_dim_int_list(&s, Some(&[0]), false, None).unwrap();
    assert_eq!(down.indices().unwrap().to_vec::<i64>().unwrap(), [0, 2]);
    assert_eq!(down.values().unwrap().to_vec::<f32>().unwrap(), [4.0, 8.0]);
    let kept = aten::sum_dim_int_list(&s, Some(&[1]), true, None).unwrap();
    assert_eq!((kept.sizes(), dense(&kept)), (&[2, 1][..], vec![3.0, 9.0]));
}

#[test]
fn rows_add_with_rows_and_with_dense() {
    let r = coo().to_sparse_csr().unwrap();
    let one = Scalar::Int(1);
    let twice = aten::add_tensor(&r, &r, one).unwrap();
    assert_eq!(twice.layout(), Layout::SparseCsr);
    assert_eq!(dense(&twice), [0.0, 0.0, 6.0, 8.0, 0.0, 10.0]);
    let want = [1.0, 1.0, 4.0, 5.0, 1.0, 6.0];
    assert_eq!(dense(&aten::add_tensor(&r, &ones(&[2, 3]), one).unwrap()), want);
    assert_eq!(dense(&aten::add_tensor(&ones(&[2, 3]), &r, one).unwrap()), want);
    assert_eq!(
        dense(&aten::mul_scalar(&r, Scalar::Int(2)).unwrap()),
        [0.0, 0.0, 6.0, 8.0, 0.0, 10.0]
    );
    assert_eq!(dense(&aten::neg(&r).unwrap()), [0.0, 0.0, -3.0, -4.0, 0.0, -5.0]);
    assert!(message(aten::t(&r)).contains("to_sparse"));
}

#[test]
fn a_large_product_agrees_with_the_dense_one() {
    let x: Vec<f32> =
        (0..200 * 150).map(|i| if i % 13 == 0 { (i % 7) as f32 - 3.0 } else { 0.0 }).collect();
    let y: Vec<f32> = (0..150 * 64).map(|i| (i % 5) as f32).collect();
    let (x, y) =
        (Tensor::from_slice(&x, &[200, 150]).unwrap(), Tensor::from_slice(&y, &[150, 64]).unwrap());
    let want = x.mm(&y).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(x.to_sparse().unwrap().mm(&y).unwrap().to_vec::<f32>().unwrap(), want);
    assert_eq!(x.to_sparse_csr().unwrap().mm(&y).unwrap().to_vec::<f32>().unwrap(), want);
}

#[test]
fn index_tensors_that_change_later_are_errors_and_not_memory() {
    let i = Tensor::from_slice(&[0i64, 1, 1, 2, 0, 2], &[2, 3]).unwrap();
    let v = Tensor::from_vec([3f32, 4.0, 5.0], 3).unwrap();
    let s = Tensor::sparse_coo(&i, &v, &[2, 3]).unwrap();
    aten::fill_scalar_(&i, Scalar::Int(1000)).unwrap();
    assert!(matches!(s.to_dense().unwrap_err().kind(), ErrorKind::Kernel(_)));
    assert!(s.mm(&ones(&[3, 2])).is_err());
}

#[test]
fn layouts_travel_as_values() {
    let zeros = |l| aten::zeros(&[2, 3], None, Some(l), None, None);
    assert_eq!(zeros(Layout::Sparse).unwrap().layout(), Layout::Sparse);
    assert_eq!(dense(&zeros(Layout::SparseCsr).unwrap()), [0.0; 6]);
    assert!(zeros(Layout::SparseBsr).is_err());
    let op = crate::dispatch::operator("aten::to_sparse").unwrap();
    for layout in
        [crate::dispatch::Value::Layout(Layout::SparseCsr), crate::dispatch::Value::Int(2)]
    {
        let none = crate::dispatch::Value::None;
        let mut stack = vec![ones(&[2, 2]).into(), layout, none.clone(), none];
        op.call_boxed(&mut stack).unwrap();
        assert!(stack[0].as_tensor().unwrap().is_sparse_csr());
    }
    // a factory without a sparse kernel says so
    let e = aten::ones(&[2], None, Some(Layout::Sparse), None, None).unwrap_err();
    assert_eq!(missing(&e), DispatchKey::SparseCPU);
}

#[test]
fn plain_tensors_have_no_quantized_dtype() {
    let e = Tensor::with(DType::QInt8).zeros([2]).unwrap_err();
    assert_eq!(missing(&e), DispatchKey::QuantizedCPU);
    assert!(aten::to_dtype(&ones(&[2]), DType::QUInt8, false, false, None).is_err());
    assert!(message(aten::sum(&ones(&[2]), Some(DType::QInt8))).contains("quantize_per_tensor"));
}

#[test]
fn likes_keep_the_layout() {
    let z = aten::zeros_like(&coo(), None, None, None, None, None).unwrap();
    assert_eq!((z.layout(), aten::_nnz(&z).unwrap()), (Layout::Sparse, 0));
    let rows = coo().to_sparse_csr().unwrap();
    let z = aten::zeros_like(&rows, None, None, None, None, None).unwrap();
    assert_eq!(dense(&z), [0.0; 6]);
    let z = aten::zeros_like(&coo(), None, Some(Layout::Strided), None, None, None).unwrap();
    assert_eq!(z.to_vec::<f32>().unwrap(), [0.0; 6]);
    assert!(message(aten::zero_(&coo())).contains("do not change in place"));
}

#[test]
fn compile_refuses_what_works_on_more_than_dense_parts() {
    let quantized = ones(&[2]).quantize_per_tensor(0.1, 0, DType::QUInt8).unwrap();
    let nested = Tensor::nested(&[ones(&[2])]).unwrap();
    for t in [coo(), coo().to_sparse_csr().unwrap(), quantized, nested] {
        let f = crate::compile(|x: &Tensor| aten::neg(x));
        let m = message(f.call(&t));
        assert!(m.contains("`aten::neg` with a") && m.contains("cannot be captured"), "{m}");
        // closed over, too
        let f = crate::compile(move |x: &Tensor| aten::add_tensor(x, &t, Scalar::Int(1)));
        assert!(f.call(&ones(&[2])).is_err());
    }
    // or run as it is
    let options = crate::CompileOptions { eager_fallback: true, ..Default::default() };
    let f = crate::compile_with(options, |x: &Tensor| aten::neg(x));
    for _ in 0..2 {
        assert_eq!(dense(&f.call(&coo()).unwrap()), [0.0, 0.0, -3.0, -4.0, 0.0, -5.0]);
    }
    // made inside: an error, not a panic
    let f = crate::compile(|x: &Tensor| x.to_sparse()?.to_dense());
    assert!(f.call(&ones(&[2, 2])).is_err());
    let f = crate::compile(|x: &Tensor| x.quantize_per_tensor(0.1, 0, DType::QInt8)?.dequantize());
    assert!(f.call(&ones(&[2, 2])).is_err());
}

#[test]
fn positions_and_new_dimensions() {
    // [[0, 1, 2], [3, 0, 5]], with a dense dimension of two in the second form
    let plain = Tensor::from_slice(&[0f32, 1.0, 2.0, 3.0, 0.0, 5.0], &[2, 3]).unwrap();
    let both = aten::stack(&[plain.clone(), plain.clone()], 2).unwrap();
    let hybrid = aten::to_sparse_sparse_dim(&both, 2).unwrap();
    for (sparse, dense) in [(plain.to_sparse().unwrap(), &plain), (hybrid, &both)] {
        let same = |a: Tensor, b: Result<Tensor>| {
            let (a, b) = (a.to_dense().unwrap_or(a.clone()), b.unwrap());
            assert_eq!(a.sizes(), b.sizes());
            assert_eq!(a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
        };
        for dim in 0..dense.dim() as i64 {
            for at in -dense.size(dim).unwrap()..dense.size(dim).unwrap() {
                let made = sparse.select(dim, at).unwrap();
                assert!(made.is_sparse());
                same(made, dense.select(dim, at));
            }
        }
        for dim in -1..=dense.dim() as i64 {
            same(sparse.unsqueeze(dim).unwrap(), dense.unsqueeze(dim));
        }
        let rows = sparse.unbind(0).unwrap();
        assert_eq!(rows.len(), 2);
        same(rows[1].clone(), dense.select(0, 1));
        // of the only sparse dimension, what is there is plain
        let element = rows[1].select(0, 2).unwrap();
        assert!(!element.is_sparse());
        same(element, dense.select(0, 1).unwrap().select(0, 2));
        assert!(message(sparse.select(0, 2)).contains("out of range"));
    }
    // two values at one place count as their sum
    let twice = Tensor::sparse_coo(
        &Tensor::from_vec([1i64, 1], 2).unwrap().view(&[1, 2]).unwrap(),
        &Tensor::from_vec([1f32, 2.0], 2).unwrap(),
        &[3],
    )
    .unwrap();
    assert_eq!(twice.select(0, 1).unwrap().to_vec::<f32>().unwrap(), [3.0]);
}

#[test]
fn views_without_a_sparse_form_are_refused() {
    let refused = |made: Result<Tensor>| {
        let said = message(made);
        assert!(said.contains("does not fall apart") && said.contains("to_dense"), "{said}");
    };
    for t in [coo(), coo().to_sparse_csr().unwrap()] {
        refused(t.slice(0, 0, 1, 1));
        refused(t.diagonal());
    }
    refused(coo().to_sparse_csr().unwrap().select(0, 0));
    assert!(message(coo().to_sparse_csr().unwrap().unbind(0)).contains("to_dense"));
}

#[test]
fn copies_into_and_out_of_sparse_memory_say_so() {
    for copied in
        [aten::copy_(&coo(), &ones(&[2, 3]), false), aten::copy_(&ones(&[2, 3]), &coo(), false)]
    {
        let said = message(copied);
        assert!(said.contains("copy_() reads plain memory, and this is a sparse tensor"), "{said}");
    }
}
