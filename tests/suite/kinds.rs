//! Every operator on tensors of every kind: what has no kernel for them is an error, never a panic
//! and never calls without end.
//!
//! `KINDS_LOG=file` leaves the call that is being made in a file, to be read after a crash;
//! `KINDS_OP=aten::any` restricts the run to operators whose name contains the text.

use std::panic::{AssertUnwindSafe, catch_unwind};
use straightline::dispatch::schema::SchemaType as S;
use straightline::dispatch::{DispatchKey, DispatchKeySet, Value, all_operators};
use straightline::modes::{Call, FakeTensorMode, Outcome, TensorSubclass, subclass};
use straightline::ops::aten;
use straightline::{DType, Device, DeviceType, Layout, Result, Tensor};

/// A wrapper that passes everything on.
struct Thin(Tensor);

impl TensorSubclass for Thin {
    fn dispatch(&self, mut call: Call<'_>) -> Result<Outcome> {
        call.map_tensors(|t| subclass::of::<Thin>(t).map_or(t.clone(), |w| w.0.clone()));
        Ok(call.forward()?.into())
    }

    fn inner(&self) -> Vec<&Tensor> {
        vec![&self.0]
    }

    fn with_inner(&self, inner: Vec<Tensor>) -> Self {
        Thin(inner[0].clone())
    }

    fn same_context(&self, _other: &Self) -> bool {
        true
    }
}

fn plain() -> Result<Tensor> {
    Tensor::with(DType::F32).arange((0, 9, 1))?.view(&[3, 3])
}

fn opaque(device: DeviceType) -> Result<Tensor> {
    Tensor::opaque((), &[3, 3], DType::F32, Device::new(device)).build()
}

fn complex() -> Result<Tensor> {
    aten::conj(&aten::complex(&plain()?, &plain()?)?)
}

type Kind = (&'static str, fn() -> Result<Tensor>);

const KINDS: [Kind; 16] = [
    ("coordinates", || plain()?.to_sparse()),
    ("compressed rows", || plain()?.to_sparse_csr()),
    ("quantized", || plain()?.quantize_per_tensor(0.1, 3, DType::QUInt8)),
    ("quantized per channel", || {
        let (scales, zeros) =
            (Tensor::from_vec([0.5f64, 0.25, 1.0], 3)?, Tensor::from_vec([0i64; 3], -1)?);
        plain()?.quantize_per_channel(&scales, &zeros, 0, DType::QInt8)
    }),
    ("nested", || Tensor::nested(&[plain()?, plain()?.select(0, 0)?.unsqueeze(0)?])),
    ("wrapper", || subclass::wrap_like(Thin(plain()?), &plain()?)),
    ("PrivateUse1", || opaque(DeviceType::PrivateUse1)),
    ("XLA", || opaque(DeviceType::Xla)),
    ("opaque", || opaque(DeviceType::Cpu)),
    ("mkldnn", || {
        Tensor::opaque((), &[3, 3], DType::F32, Device::CPU)
            .keys(DispatchKeySet::of(&[DispatchKey::MkldnnCPU]))
            .build()
    }),
    ("fake", || FakeTensorMode::allow_non_fake_inputs().from_tensor(&plain()?)),
    ("fake elsewhere", || {
        let fake = FakeTensorMode::new().from_tensor(&plain()?)?;
        fake.to_device(Device::new(DeviceType::Cuda))
    }),
    ("meta", || Tensor::with(Device::META).empty([3, 3])),
    ("conjugate", complex),
    ("negative", || aten::imag(&complex()?)),
    ("zero", || aten::_efficientzerotensor(&[3, 3], Some(DType::F32), None, None, None)),
];

/// An argument of a type; `variant` chooses among those that fit.
fn value(ty: &S, t: &Tensor, variant: usize) -> Value {
    let number = i64::from(variant < 2);
    match ty {
        S::Tensor => t.into(),
        S::Optional(_) if variant == 0 => Value::None,
        S::Optional(of) => value(of, t, variant),
        S::List(of, size) => match &**of {
            S::Tensor => Value::TensorList(vec![t.clone(), t.clone()]),
            S::Optional(_) => Value::OptionalTensorList(vec![Some(t.clone())]),
            S::Bool => Value::BoolList(vec![true; size.unwrap_or(1) as usize]),
            S::Float => Value::DoubleList(vec![1.0]),
            _ => Value::IntList(vec![number; size.unwrap_or(1) as usize]),
        },
        S::Int | S::SymInt => Value::Int(number),
        S::Float => Value::Double(1.0),
        S::Bool | S::SymBool => Value::Bool(variant == 1),
        S::Scalar => Value::Int(1),
        S::Str => "mean".into(),
        S::ScalarType => Value::DType(DType::F32),
        S::Device => Value::Device(Device::CPU),
        S::Layout => Value::Layout(Layout::Strided),
        _ => Value::None,
    }
}

#[test]
fn no_operator_panics_or_calls_itself_for_ever() {
    let (log, only) =
        (std::env::var("KINDS_LOG").ok(), std::env::var("KINDS_OP").unwrap_or_default());
    let (mut calls, mut panicked) = (0, Vec::new());
    for (kind, make) in KINDS {
        for op in all_operators() {
            let Some(schema) = op.schema().filter(|_| op.name().to_string().contains(&only)) else {
                continue;
            };
            let tensors = || schema.args.iter().filter(|a| a.ty.is_dispatch_relevant());
            let Some(first) = tensors().next().map(|a| &a.name) else {
                continue;
            };
            // all tensors are of the kind, or the first one only
            for (variant, mixed) in (0..3).flat_map(|v| [(v, false), (v, true)]) {
                let (t, other) = (make().unwrap(), plain().unwrap());
                let given = |a: &straightline::dispatch::schema::Argument| match &a.default {
                    Some(default) if variant == 0 => Value::from_default(default, &a.ty),
                    _ if mixed && a.name != *first => value(&a.ty, &other, variant),
                    _ => value(&a.ty, &t, variant),
                };
                let mut stack: Vec<Value> = schema.args.iter().map(given).collect();
                let what = format!("{} of {kind}, variant {variant}, mixed {mixed}", op.name());
                if let Some(log) = &log {
                    std::fs::write(log, &what).unwrap();
                }
                calls += 1;
                // whether it succeeds is for other tests to say
                if catch_unwind(AssertUnwindSafe(|| drop(op.call_boxed(&mut stack)))).is_err() {
                    panicked.push(what);
                }
            }
        }
    }
    assert!(calls > 50_000 || !only.is_empty(), "{calls} calls");
    assert!(panicked.is_empty(), "{} panics:\n{}", panicked.len(), panicked.join("\n"));
}
