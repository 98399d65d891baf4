//! Calls at the edges of what operators take, each once accepted, answered wrongly, or a panic.

use straightline::dispatch::{Value, operator};
use straightline::ops::aten;
use straightline::{DType, ErrorKind, Graph, Scalar, Tensor, Traced, compile, tensor};

#[test]
fn an_out_that_lies_partly_over_an_operand_is_refused() {
    let v = tensor([1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let (low, high) = (v.narrow(0, 0, 3).unwrap(), v.narrow(0, 1, 3).unwrap());
    let refused = |r: straightline::Result<Tensor>| {
        let e = r.unwrap_err();
        assert!(e.to_string().contains("refer to a single memory location"), "{e}");
    };
    refused(aten::add_out(&low, &low, 1.into(), &high));
    refused(aten::exp_out(&low, &high));
    let square = Tensor::from_vec((0..9).map(|i| i as f32).collect::<Vec<_>>(), [3, 3]).unwrap();
    refused(aten::exp_out(&square, &square.t().unwrap()));
    let parts = [v.narrow(0, 0, 1).unwrap(), v.narrow(0, 2, 1).unwrap()];
    refused(aten::cat_out(&parts, 0, &v.narrow(0, 1, 2).unwrap()));
    let f = compile(|x: &Tensor| {
        let (low, high) = (x.narrow(0, 0, 3)?, x.narrow(0, 1, 3)?);
        aten::exp_out(&low, &high)?;
        x.mul(1)
    });
    refused(f.call(&v));
    // the very elements, and others of the same memory
    aten::exp_out(&low, &low).unwrap();
    aten::exp_out(&v.narrow(0, 0, 2).unwrap(), &v.narrow(0, 2, 2).unwrap()).unwrap();
}

#[test]
fn prelu_of_operands_in_different_orders() {
    let x = tensor([1.0f32, -2.0]).unwrap().expand([2, 2]).unwrap();
    let weight = tensor([[1.0f32, 2.0], [3.0, 4.0]]).unwrap().t().unwrap();
    let y = aten::_prelu_kernel(&x, &weight).unwrap();
    assert_eq!(y.to_vec2::<f32>().unwrap(), [[1.0, -6.0], [1.0, -8.0]]);
    assert_eq!(y.strides(), aten::empty_like(&x, None, None, None, None, None).unwrap().strides());
}

#[test]
fn operands_and_numbers_that_do_not_fit() {
    let (one, two) = (tensor(1.0f32).unwrap(), tensor([1.0f32, 2.0]).unwrap());
    assert!(aten::cumprod_backward(&one, &two, 0, &one).is_err());
    assert!(aten::_to_sparse(&two, None, None, Some(i64::MIN)).is_err());
    let e = aten::randperm(4000, Some(DType::F16), None, None, None).unwrap_err();
    assert!(e.to_string().contains("n cannot be greater than 2^11+1 for Half type"), "{e}");
    assert!(aten::randperm(2049, Some(DType::F16), None, None, None).is_ok());
    let e = aten::mean(&two, Some(DType::I64)).unwrap_err();
    assert!(e.to_string().contains("Optional dtype must be") && !e.to_string().contains("Float"));
    assert!(aten::tensor_split_sections(&two, 1 << 62, 0).is_err());
}

#[test]
fn boxed_calls_that_fail_show_their_operands() {
    let x = tensor([[1.0f32, 2.0], [3.0, 4.0]]).unwrap();
    let index = tensor([[7i64]]).unwrap();
    let mut stack: Vec<Value> = vec![x.into(), Value::Int(0), index.into(), Value::Bool(false)];
    let e = operator("aten::gather").unwrap().call_boxed(&mut stack).unwrap_err();
    assert_eq!((e.op(), e.operands().len()), (Some("aten::gather"), 2), "{e}");
    let f = compile(|x: &Tensor| {
        let (all, none) = (Value::None, Value::Int(0));
        let mut stack: Vec<Value> = vec![x.clone().into(), Value::Int(0), all.clone(), all, none];
        operator("aten::slice.Tensor")?.call_boxed(&mut stack)?;
        x.mul(1)
    });
    let e = f.call(&tensor([1.0f32]).unwrap()).unwrap_err();
    assert_eq!((e.op(), e.operands().len()), (Some("aten::slice.Tensor"), 1), "{e}");
}

fn check(body: &str) -> straightline::Result<()> {
    let graph = Graph::parse(&format!("graph(%x: f32[2,3]) {{\n  {body}\n}}")).unwrap();
    Traced::from_graph(graph).lower().map(drop)
}

#[test]
fn graphs_that_no_machine_can_run() {
    let far = "%0: f32[0] = aten::diagonal(%x, offset=-9223372036854775808)\n  return %0";
    check(far).unwrap();
    let elsewhere = check("%0: f32[2,3] @xla:0 = aten::exp(%x)\n  return %0").unwrap_err();
    assert!(elsewhere.to_string().contains("line 2, column 3"), "{elsewhere}");
    let two = check("%0: f32[2,3] @cuda:0 = aten::exp(%x)\n  return %0").unwrap_err();
    assert!(two.to_string().contains("`x` is on `cpu`"), "{two}");
    let wrong = "%0: f64[2] = aten::sum(%x)\n  %1: f32[2] = aten::linear(%x, %x)\n  return %1";
    let several = check(wrong).unwrap_err().to_string();
    assert!(several.contains("line 2") && several.contains("line 3"), "{several}");
}

#[test]
fn graphs_whose_calls_are_refused_and_declared_wrongly() {
    // an error of sizes hides none of dtypes
    let both = "%0: i64[2,3] = aten::exp(%x)\n  %1: f32[3,2] = aten::relu(%x)\n  return %1";
    let both = check(both).unwrap_err().to_string();
    assert!(both.contains("line 2") && both.contains("line 3"), "{both}");
    // what the operator refuses, and not the sizes that it would have had
    let e = check("%0: f32[2,3] = aten::index_select(%x, dim=0, %x)\n  return %0").unwrap_err();
    assert!(e.to_string().contains("index_select"), "{e}");
    let e = check("%0: i64[7] = aten::softmax.int(%x, dim=-9)\n  return %0").unwrap_err();
    assert!(e.to_string().contains("Dimension out of range"), "{e}");
}

/// Of one element along a dimension whose stride is as long as strides get.
fn far_apart() -> Tensor {
    let x = tensor([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]).unwrap();
    aten::slice_tensor(&x, 1, Some(0), None, i64::MAX).unwrap()
}

#[test]
fn strides_along_one_element_are_not_walked() {
    let x = far_apart();
    assert_eq!((x.sizes(), x.strides()), (&[2, 1][..], &[3, i64::MAX][..]));
    let column = [[1.0], [4.0]];
    let found = |t: straightline::Result<Tensor>| t.unwrap().to_vec2::<f32>().unwrap();
    assert_eq!(found(x.cumsum(1)), column);
    assert_eq!(found(x.sort(1, false).map(|(values, _)| values)), column);
    assert_eq!(found(x.softmax(1)), [[1.0], [1.0]]);
    assert_eq!(x.argmax(1).unwrap().to_vec::<i64>().unwrap(), [0, 0]);
    assert_eq!(found(x.index_select(1, &tensor([0i64]).unwrap())), column);
    assert_eq!(x.sum_dim(1).unwrap().to_vec::<f32>().unwrap(), [1.0, 4.0]);
}

#[test]
fn an_empty_view_may_begin_anywhere() {
    let x = tensor([1.0f32, 2.0]).unwrap();
    let f = compile(|x: &Tensor| aten::as_strided(x, &[0], &[1], Some(i64::MAX)));
    assert_eq!(f.call(&x).unwrap().sizes(), [0]);
}

#[test]
fn an_out_whose_shape_depends_on_data_ends_a_capture() {
    let f = compile(|(x, mask, out): (&Tensor, &Tensor, &Tensor)| {
        aten::masked_select_out(x, mask, out)
    });
    let (x, mask) = (tensor([1.0f32, 2.0]).unwrap(), tensor([true, false]).unwrap());
    let e = f.call((&x, &mask, &tensor([0.0f32]).unwrap())).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::DataDependent { .. }), "{e}");
}

/// The values are PyTorch 2.15's.
#[test]
fn ranges_of_complex_numbers() {
    let parts = |t: Tensor| aten::view_as_real(&t).unwrap().to_vec2::<f32>().unwrap();
    let near = |a: Vec<Vec<f32>>, b: &[[f32; 2]]| {
        let pairs = a.iter().flatten().zip(b.iter().flatten());
        assert!(a.len() == b.len() && pairs.clone().all(|(a, b)| (a - b).abs() < 1e-3), "{a:?}");
    };
    let ends = [Scalar::Complex(1.0, 1.0), Scalar::Int(4)];
    let line = aten::linspace(ends[0], ends[1], 3, None, None, None, None).unwrap();
    near(parts(line), &[[1.0, 1.0], [2.5, 0.5], [4.0, 0.0]]);
    let start = aten::complex(&tensor(1.0f32).unwrap(), &tensor(1.0f32).unwrap()).unwrap();
    let line = aten::linspace_tensor_scalar(&start, ends[1], 3, None, None, None, None).unwrap();
    near(parts(line), &[[1.0, 1.0], [2.5, 0.5], [4.0, 0.0]]);
    let powers =
        aten::logspace(0.into(), 4.into(), 7, 10.0, Some(DType::C64), None, None, None).unwrap();
    near(parts(powers.narrow(0, 0, 2).unwrap()), &[[1.0, 0.0], [4.6416, 0.0]]);
    let turned = aten::logspace(ends[0], ends[1], 3, 10.0, None, None, None, None).unwrap();
    near(parts(turned.narrow(0, 0, 1).unwrap()), &[[-6.6820, 7.4398]]);
    let real = aten::linspace(ends[0], ends[1], 3, Some(DType::F32), None, None, None);
    assert!(real.unwrap_err().to_string().contains("can't be safely cast"));
}

#[test]
fn what_pytorch_takes_of_complex_outs_and_stretched_gradients() {
    let z = aten::complex(&tensor([3.0f32]).unwrap(), &tensor([4.0f32]).unwrap()).unwrap();
    let wide = Tensor::from_vec([0f64], 1).unwrap();
    assert_eq!(aten::abs_out(&z, &wide).unwrap().to_vec::<f64>().unwrap(), [5.0]);
    assert!(aten::abs_out(&tensor([1.0f32]).unwrap(), &wide).is_err());
    let row = tensor([[1.0f32, 2.0]]).unwrap().unsqueeze(0).unwrap();
    let grad = aten::unfold_backward(&row.expand([2, 2, 2]).unwrap(), &[2, 3], 1, 2, 1).unwrap();
    let stretched = aten::unfold_backward(&row, &[2, 3], 1, 2, 1).unwrap();
    assert_eq!(stretched.to_vec2::<f32>().unwrap(), grad.to_vec2::<f32>().unwrap());
    assert_eq!(grad.to_vec2::<f32>().unwrap(), [[1.0, 3.0, 2.0], [1.0, 3.0, 2.0]]);
}

#[test]
fn constants_are_numbers_of_their_dtype() {
    for text in
        ["i8[2] = constant [300, 1]", "bool[2] = constant [2, 0]", "i64[1] = constant [1.5]"]
    {
        let text = format!("graph(%x: f32[2]) {{\n  %c: {text}\n  return %c\n}}");
        let graph = Graph::parse(&text).unwrap();
        let e = straightline_passes::ir::verify::verify(&graph).unwrap_err().to_string();
        assert!(e.contains("line 2") && e.contains("is not a number of"), "{e}");
    }
}
