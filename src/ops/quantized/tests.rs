//! Quantized operators against PyTorch 2.15, integer by integer (`tests/data/quantized.json`).

use crate::dispatch::{DispatchError, DispatchKey, Value, operator};
use crate::error::{ErrorKind, Result};
use crate::ops::aten;
use crate::ops::quantized;
use crate::tensor::Tensor;
use crate::{DType, Device, QScheme, Scalar};
use serde_json::Value as Json;

fn data() -> Json {
    serde_json::from_str(include_str!("../../../tests/data/quantized.json")).unwrap()
}

fn ints(j: &Json) -> Vec<i64> {
    j.as_array().unwrap().iter().map(|v| v.as_i64().unwrap()).collect()
}

fn floats(j: &Json) -> Vec<f32> {
    j.as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect()
}

fn quantizer(j: &Json) -> (f64, i64) {
    (j[0].as_f64().unwrap(), j[1].as_i64().unwrap())
}

fn plain(v: &[i64], sizes: &[i64], dtype: DType) -> Tensor {
    Tensor::from_slice(v, sizes).unwrap().to_dtype(dtype.int_repr()).unwrap()
}

fn of_ints(v: &[i64], sizes: &[i64], dtype: DType, (scale, zero): (f64, i64)) -> Tensor {
    let t = aten::_make_per_tensor_quantized_tensor(&plain(v, sizes, dtype), scale, zero).unwrap();
    assert_eq!(t.dtype(), dtype);
    t
}

fn repr(t: Result<Tensor>) -> Vec<i64> {
    t.unwrap().int_repr().unwrap().to_dtype(DType::I64).unwrap().to_vec().unwrap()
}

fn message<T>(r: Result<T>) -> String {
    r.err().expect("should have failed").to_string()
}

fn sample() -> Tensor {
    let x = Tensor::from_vec([0.5f32, -1.0, 2.0], 3).unwrap();
    x.quantize_per_tensor(0.1, 10, DType::QUInt8).unwrap()
}

#[test]
fn arithmetic_is_pytorchs_integer_by_integer() {
    for row in data()["add"].as_array().unwrap() {
        let dtype = if row["dtype"] == "quint8" { DType::QUInt8 } else { DType::QInt8 };
        let of = |v: &str, q: &str| of_ints(&ints(&row[v]), &[15], dtype, quantizer(&row[q]));
        let (a, b) = (of("a", "qa"), of("b", "qb"));
        let (s, z) = quantizer(&row["q"]);
        for (name, got) in [
            ("add", quantized::add(&a, &b, s, z)),
            ("add_relu", quantized::add_relu(&a, &b, s, z)),
            ("mul", quantized::mul(&a, &b, s, z)),
            ("mul_relu", quantized::mul_relu(&a, &b, s, z)),
            ("relu", aten::relu(&a)),
            ("clamp", aten::clamp(&a, Some(Scalar::Float(-0.7)), Some(Scalar::Float(1.3)))),
        ] {
            assert_eq!(repr(got), ints(&row[name]), "{name} {row}");
        }
    }
}

#[test]
fn linear_is_pytorchs_integer_by_integer() {
    for row in data()["linear"].as_array().unwrap() {
        let size = |k: &str| row[k].as_i64().unwrap();
        let (m, n, k) = (size("m"), size("n"), size("k"));
        let x = of_ints(&ints(&row["x"]), &[m, k], DType::QUInt8, quantizer(&row["qx"]));
        let w = plain(&ints(&row["w"]), &[n, k], DType::QInt8);
        let scales: Vec<f64> =
            row["w_scales"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect();
        let w = if scales.len() == 1 {
            aten::_make_per_tensor_quantized_tensor(&w, scales[0], ints(&row["w_zeros"])[0])
                .unwrap()
        } else {
            let zeros = Tensor::from_vec(ints(&row["w_zeros"]), -1).unwrap();
            aten::_make_per_channel_quantized_tensor(
                &w,
                &Tensor::from_vec(scales, -1).unwrap(),
                &zeros,
                0,
            )
            .unwrap()
        };
        let bias =
            (!row["bias"].is_null()).then(|| Tensor::from_vec(floats(&row["bias"]), -1).unwrap());
        let packed = quantized::linear_prepack(&w, bias.as_ref()).unwrap();
        let (s, z) = quantizer(&row["q"]);
        let y = quantized::linear(&x, &packed, s, z);
        assert_eq!(y.as_ref().unwrap().sizes(), [m, n]);
        assert_eq!(repr(y), ints(&row["linear"]), "{row}");
        assert_eq!(
            repr(quantized::linear_relu(&x, &packed, s, z)),
            ints(&row["linear_relu"]),
            "{row}"
        );
        let real = Tensor::from_slice(&floats(&row["xf"]), &[m, k]).unwrap();
        let got =
            quantized::linear_dynamic(&real, &packed, false).unwrap().to_vec::<f32>().unwrap();
        for (g, w) in got.iter().zip(floats(&row["linear_dynamic"])) {
            assert!((g - w).abs() <= 1e-5 * w.abs().max(1.0), "{g} {w}");
        }
        let (w2, b2) = quantized::linear_unpack(&packed).unwrap();
        assert_eq!(repr(Ok(w2)), ints(&row["w"]));
        assert_eq!(b2.is_some(), bias.is_some());
    }
}

#[test]
fn packed_weights_travel_boxed() {
    let w = Tensor::from_slice(&[1f32, 2.0], &[1, 2]).unwrap();
    let w = w.quantize_per_tensor(0.5, 0, DType::QInt8).unwrap();
    let mut stack = vec![Value::from(w), Value::None];
    operator("quantized::linear_prepack").unwrap().call_boxed(&mut stack).unwrap();
    assert!(matches!(stack[..], [Value::Object(_)]));
    let x = Tensor::from_slice(&[1f32, 1.0], &[1, 2]).unwrap();
    let x = x.quantize_per_tensor(0.5, 0, DType::QUInt8).unwrap();
    let mut call = vec![Value::from(x), stack.remove(0), Value::Double(0.5), Value::Int(0)];
    operator("quantized::linear").unwrap().call_boxed(&mut call).unwrap();
    assert_eq!(repr(Ok(call[0].as_tensor().unwrap().clone())), [6]);
}

#[test]
fn keys_are_those_that_pytorch_gives() {
    assert_eq!(
        sample().key_set().to_string(),
        "DispatchKeySet(QuantizedCPU, ADInplaceOrView, AutogradCPU, AutocastCPU)"
    );
}

#[test]
fn rounding_is_pytorchs() {
    let x = Tensor::from_vec(
        [-1.05f32, -0.25, 0.25, 0.75, 0.05, 0.15, 1.5, 100.0, -100.0, 0.1, 0.3],
        11,
    )
    .unwrap();
    for (dtype, s, z, want) in [
        (DType::QUInt8, 0.1, 10, [0i64, 8, 12, 18, 10, 12, 25, 255, 0, 11, 13]),
        (DType::QUInt8, 0.5, 3, [1, 3, 3, 5, 3, 3, 6, 203, 0, 3, 4]),
        (DType::QInt8, 0.1, 5, [-5, 3, 7, 13, 5, 7, 20, 127, -128, 6, 8]),
        (DType::QInt32, 0.3, 0, [-3, -1, 1, 2, 0, 0, 5, 333, -333, 0, 1]),
    ] {
        let q = x.quantize_per_tensor(s, z, dtype);
        assert_eq!(repr(q), want, "{dtype:?} {s} {z}");
    }
    assert_eq!(sample().dequantize().unwrap().to_vec::<f32>().unwrap(), [0.5, -1.0, 2.0]);
    let ones = Tensor::from_vec([1f32], 1).unwrap();
    assert_eq!(aten::dequantize_self(&ones).unwrap().to_vec::<f32>().unwrap(), [1.0]);
}

#[test]
fn channels_have_their_own_scales() {
    let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    let (s, z) =
        (Tensor::from_vec([0.1f64, 0.2], 2).unwrap(), Tensor::from_vec([0i64, 1], 2).unwrap());
    let q = x.quantize_per_channel(&s, &z, 0, DType::QInt8).unwrap();
    assert_eq!(repr(Ok(q.clone())), [10, 20, 16, 21]);
    assert_eq!(q.dequantize().unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(q.qscheme().unwrap(), QScheme::PerChannelAffine);
    assert_eq!(aten::q_per_channel_axis(&q).unwrap(), 0);
    assert_eq!(
        q.to_string(),
        "tensor([[1., 2.],\n        [3., 4.]], size=(2, 2), dtype=torch.qint8,\n       \
         quantization_scheme=torch.per_channel_affine,\n       scale=tensor([0.1000, 0.2000], dtype=torch.float64),\n       \
         zero_point=tensor([0, 1]), axis=0)"
    );
    assert!(message(q.q_scale()).contains("kPerTensorAffine"));
    assert!(message(aten::q_per_channel_axis(&sample())).contains("kPerChannelAffine"));
}

#[test]
fn prints_as_pytorch() {
    assert_eq!(
        sample().to_string(),
        "tensor([ 0.5000, -1.0000,  2.0000], size=(3,), dtype=torch.quint8,\n       \
         quantization_scheme=torch.per_tensor_affine, scale=0.1, zero_point=10)"
    );
}

#[test]
fn errors_are_pytorchs() {
    let x = Tensor::from_vec([1f32], 1).unwrap();
    let q = sample();
    let other = Tensor::from_vec([0.5f32, 1.0, 1.0], 3)
        .unwrap()
        .quantize_per_tensor(0.1, 10, DType::QInt8)
        .unwrap();
    for (m, want) in [
        (
            message(x.quantize_per_tensor(0.1, 300, DType::QUInt8)),
            "zero_point 300 is above upper bound.",
        ),
        (
            message(x.quantize_per_tensor(0.1, -1, DType::QUInt8)),
            "zero_point -1 is below lower bound.",
        ),
        (message(x.quantize_per_tensor(0.1, 3, DType::U8)), "is not supported in new_qtensor"),
        (
            message(x.to_dtype(DType::I64).unwrap().quantize_per_tensor(0.1, 3, DType::QUInt8)),
            "Quantize only works on Float Tensor",
        ),
        (message(quantized::add(&q, &other, 1.0, 0)), "Add operands should have same data type"),
    ] {
        assert!(m.contains(want), "{m}");
    }
    // a composite of functional operators does reach quantized tensors, and finds no kernel to be
    // made of
    let m = message(aten::add_tensor(&q, &q, Scalar::Int(1)));
    assert!(m.contains("quint8") && m.contains("dequantize"), "{m}");
    let e = aten::zero_(&q).unwrap_err();
    let ErrorKind::Dispatch(DispatchError::MissingKernel(m)) = e.kind() else {
        panic!("{e}");
    };
    assert_eq!(m.key, DispatchKey::QuantizedCPU);
    assert!(message(q.to_vec::<u8>()).contains("u8"));
    let broadcast = of_ints(&[15, 0], &[2, 1], DType::QUInt8, (0.1, 10));
    let sum = quantized::add(&q, &broadcast, 1.0, 0).unwrap();
    assert_eq!(sum.sizes(), [2, 3]);
    assert_eq!(repr(Ok(sum)), [1, 0, 2, 0, 0, 1]);
}

#[test]
fn shapes_are_known_without_data() {
    let meta = Tensor::with(Device::META).ones([2, 3]).unwrap();
    let q = meta.quantize_per_tensor(0.1, 0, DType::QInt8).unwrap();
    assert_eq!((q.sizes(), q.dtype()), (&[2, 3][..], DType::QInt8));
    assert!(q.key_set().has(DispatchKey::QuantizedMeta));
}

#[test]
fn views_and_copies_keep_the_quantizer() {
    let q = sample();
    let v = aten::view(&q, &[3, 1]).unwrap();
    assert_eq!(
        (v.sizes(), v.q_scale().unwrap(), v.q_zero_point().unwrap()),
        (&[3, 1][..], 0.1, 10)
    );
    assert_eq!(repr(aten::clone(&v, None)), [15, 0, 30]);
}

#[test]
fn every_view_is_that_of_the_integers() {
    let q = of_ints(&[1, 2, 3, 4, 5, 6], &[2, 3], DType::QUInt8, (0.5, 1));
    let is = |t: Result<Tensor>, sizes: &[i64], want: &[i64]| {
        let t = t.unwrap();
        assert_eq!((t.sizes(), t.q_scale().unwrap()), (sizes, 0.5));
        assert_eq!(repr(Ok(t)), want);
    };
    is(q.t(), &[3, 2], &[1, 4, 2, 5, 3, 6]);
    is(q.select(0, 1), &[3], &[4, 5, 6]);
    is(q.slice(1, 1, 3, 1), &[2, 2], &[2, 3, 5, 6]);
    is(q.narrow(1, 0, 1), &[2, 1], &[1, 4]);
    is(q.unsqueeze(0), &[1, 2, 3], &[1, 2, 3, 4, 5, 6]);
    is(q.permute(&[1, 0]), &[3, 2], &[1, 4, 2, 5, 3, 6]);
    is(q.diagonal(), &[2], &[1, 5]);
    let [a, b] = &q.unbind(0).unwrap()[..] else {
        panic!("two rows");
    };
    is(Ok(a.clone()), &[3], &[1, 2, 3]);
    is(Ok(b.clone()), &[3], &[4, 5, 6]);
    // channels would have to move along
    let w = Tensor::from_slice(&[1f32, 2.0], &[2, 1]).unwrap();
    let scales = Tensor::from_vec([0.5f64, 0.25], 2).unwrap();
    let zeros = Tensor::from_vec([0i64, 0], 2).unwrap();
    let w = w.quantize_per_channel(&scales, &zeros, 0, DType::QInt8).unwrap();
    assert!(
        message(w.t()).contains("per channel") || message(w.t()).contains("per-channel"),
        "{}",
        message(w.t())
    );
}

/// `t.copy_(x)` is `quantize_per_tensor(x, t.q_scale(), t.q_zero_point(), t.dtype())` in PyTorch,
/// within the tensor's own memory; a compiled function, whose values are dense, refuses it by name.
#[test]
fn a_copy_of_floats_is_quantized() -> Result<()> {
    let x = Tensor::from_vec([0.0f32, 0.26, -0.5, 100.0], 4)?;
    let into = aten::quantize_per_tensor(&x.zeros_like()?, 0.1, 3, DType::QUInt8)?;
    let handle = into.clone();
    into.copy_(&x)?;
    assert_eq!(handle.int_repr()?.to_vec::<u8>()?, [3, 6, 0, 255]);
    let (scales, zeros) = (Tensor::from_vec([0.1f64, 0.5], 2)?, Tensor::from_vec([0i64, 1], 2)?);
    let channels = |x: &Tensor| aten::quantize_per_channel(x, &scales, &zeros, 0, DType::QInt8);
    let x = x.reshape([2, 2])?;
    let into = channels(&x.zeros_like()?)?;
    into.copy_(&x)?;
    assert_eq!(into.int_repr()?.to_vec::<i8>()?, channels(&x)?.int_repr()?.to_vec::<i8>()?);
    for wrong in [x.to_dtype(DType::F64)?, x.t()?, x.i(0)?] {
        let e = into.copy_(&wrong).unwrap_err();
        assert!(e.to_string().contains("Quantized copy only works with"), "{e}");
    }
    Ok(())
}
