//! Operators with an `out` variant: writing into tensors that the caller has, and what a backend
//! from outside gets for the few kernels that it registers.

use std::sync::{Arc, Mutex};
use straightline::dispatch::{
    DispatchKey as K, Kernel, Library, OperatorHandle, Stack, Value, dump_table, operator,
};
use straightline::ops::aten;
use straightline::{DType, Device, DeviceType, MemoryFormat, Result, Scalar, Tensor};

fn t(values: &[f32]) -> Tensor {
    Tensor::from_vec(values, -1).unwrap()
}

fn read(t: &Tensor) -> Vec<f32> {
    t.to_vec::<f32>().unwrap()
}

#[test]
fn out_receives_the_result() -> Result<()> {
    let _turn = crate::seeds::support::turn();
    let (a, b) = (t(&[1.0, 2.0, 3.0]), t(&[10.0, 20.0, 30.0]));
    let out = t(&[0.0; 3]);
    let r = aten::add_out(&a, &b, Scalar::Int(2), &out)?;
    assert!(r.is_same(&out));
    assert_eq!(read(&out), [21.0, 42.0, 63.0]);
    // into an operand, and into a view
    aten::mul_out(&a, &a, &a)?;
    assert_eq!(read(&a), [1.0, 4.0, 9.0]);
    let base = t(&[0.0; 6]);
    aten::exp_out(&t(&[0.0; 3]), &aten::slice_tensor(&base, 0, Some(0), None, 2)?)?;
    assert_eq!(read(&base), [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
    // converted, where PyTorch allows it
    let wide = Tensor::with(DType::F64).zeros([3])?;
    aten::add_out(&b, &b, Scalar::Int(1), &wide)?;
    assert_eq!(wide.to_vec::<f64>()?, [20.0, 40.0, 60.0]);
    // several results
    let x = Tensor::from_slice(&[1f32, 5.0, 7.0, 2.0], [2, 2])?;
    let (values, indices) = (t(&[0.0; 2]), Tensor::with(DType::I64).zeros([2])?);
    aten::max_dim_max(&x, 1, false, &values, &indices)?;
    assert_eq!(read(&values), [5.0, 7.0]);
    assert_eq!(indices.to_vec::<i64>()?, [1, 0]);
    Ok(())
}

#[test]
fn an_out_of_another_shape_is_resized() -> Result<()> {
    let _turn = crate::seeds::support::turn();
    let a = t(&[1.0, 2.0]);
    for out in [t(&[]), t(&[0.0; 3])] {
        let same = out.clone();
        assert!(aten::neg_out(&a, &out)?.is_same(&out));
        assert_eq!((same.sizes(), read(&same)), (&[2][..], vec![-1.0, -2.0]));
    }
    Ok(())
}

#[test]
fn an_out_that_does_not_fit_is_an_error() -> Result<()> {
    let _turn = crate::seeds::support::turn();
    let a = t(&[1.0, 2.0]);
    let says = |r: Result<Tensor>, what: &str| {
        let text = r.unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
    };
    let ints = Tensor::with(DType::I64).zeros([2])?;
    says(aten::exp_out(&a, &ints), "can't be cast");
    // this one converts nothing
    let wide = Tensor::with(DType::F64).zeros([2])?;
    says(aten::neg_out(&a, &wide), "to have dtype");
    let meta = aten::empty_memory_format(&[2], None, None, Some(Device::META), None, None)?;
    assert!(aten::exp_out(&a, &meta).is_err());
    Ok(())
}

#[test]
fn out_is_captured() -> Result<()> {
    let _turn = crate::seeds::support::turn();
    let f = straightline::compile(|x: &Tensor| {
        let out = aten::empty_like(x, None, None, None, None, None)?;
        aten::add_out(x, x, Scalar::Int(1), &out)?;
        aten::exp_out(&out, &out)?;
        Ok(out)
    });
    let x = t(&[0.0, 0.5]);
    let got = read(&f.call(&x)?);
    assert_eq!(got, read(&aten::exp(&t(&[0.0, 1.0]))?));
    Ok(())
}

/// What a tensor of the toy backend holds: its elements, out of the reach of our kernels.
struct Cells(Mutex<Vec<f32>>);

fn device() -> Device {
    Device::new(DeviceType::PrivateUse1)
}

fn cells(t: &Tensor) -> Vec<f32> {
    match t.payload::<Cells>() {
        Some(c) => c.0.lock().unwrap().clone(),
        // a tensor of ours: one that is copied, or a number beside tensors of the backend
        None => t.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap(),
    }
}

fn store(t: &Tensor, values: Vec<f32>) {
    *t.payload::<Cells>().unwrap().0.lock().unwrap() = values;
}

fn toy(values: &[f32]) -> Tensor {
    Tensor::opaque(Cells(Mutex::new(values.to_vec())), &[values.len() as i64], DType::F32, device())
        .build()
        .unwrap()
}

/// `empty_strided`, `copy_`, `fill_` and two `out` variants: all that the backend has.
fn backend(log: &Arc<Mutex<Vec<&'static str>>>) -> Library {
    let mut lib = Library::implementation("aten", K::PrivateUse1).unwrap();
    let note = |name: &'static str| {
        let log = log.clone();
        move || log.lock().unwrap().push(name)
    };
    let empty = note("empty_strided");
    lib.impl_(
        "empty_strided",
        Kernel::boxed(move |_: OperatorHandle, _, stack: &mut Stack| {
            empty();
            let args = stack.split_off(stack.len() - 6);
            let (Value::IntList(sizes), Value::IntList(strides)) = (&args[0], &args[1]) else {
                panic!("{args:?}");
            };
            let n = sizes.iter().product::<i64>() as usize;
            let made = Tensor::opaque(Cells(Mutex::new(vec![0.0; n])), sizes, DType::F32, device())
                .strides(strides)
                .build()?;
            stack.push(made.into());
            Ok(())
        }),
    )
    .unwrap();
    let copy = note("copy_");
    lib.impl_("copy_", move |dst: &Tensor, src: &Tensor, _: bool| {
        copy();
        store(dst, cells(src));
        Ok(dst.clone())
    })
    .unwrap();
    let fill = note("fill_");
    lib.impl_("fill_.Scalar", move |dst: &Tensor, value: Scalar| {
        fill();
        store(dst, vec![value.as_f64() as f32; dst.numel() as usize]);
        Ok(dst.clone())
    })
    .unwrap();
    let add = note("add.out");
    lib.impl_("add.out", move |a: &Tensor, b: &Tensor, alpha: Scalar, out: &Tensor| {
        add();
        let (a, b, alpha) = (cells(a), cells(b), alpha.as_f64() as f32);
        let sum = (0..a.len()).map(|i| a[i] + alpha * b[i % b.len()]).collect();
        store(out, sum);
        Ok(out.clone())
    })
    .unwrap();
    let exp = note("exp.out");
    lib.impl_("exp.out", move |a: &Tensor, out: &Tensor| {
        exp();
        store(out, cells(a).iter().map(|x| x.exp()).collect());
        Ok(out.clone())
    })
    .unwrap();
    lib
}

#[test]
fn a_backend_with_the_out_variant_has_the_others() -> Result<()> {
    let _turn = crate::seeds::support::turn();
    let log = Arc::new(Mutex::new(Vec::new()));
    let lib = backend(&log);
    let trace = || std::mem::take(&mut *log.lock().unwrap());
    let (a, b) = (toy(&[1.0, 2.0]), toy(&[10.0, 20.0]));

    let sum = aten::add_tensor(&a, &b, Scalar::Int(1))?;
    assert_eq!((cells(&sum), sum.device()), (vec![11.0, 22.0], device()));
    assert_eq!(trace(), ["empty_strided", "add.out"]);

    let r = aten::add_tensor_(&a, &b, Scalar::Int(2));
    let r = r?;
    assert!(r.is_same(&a));
    assert_eq!(cells(&a), [21.0, 42.0]);
    assert_eq!(trace(), ["add.out"]);

    // a number: add.Scalar is add.Tensor of a 0-dim tensor
    assert_eq!(cells(&aten::add_scalar(&a, Scalar::Float(0.5), Scalar::Int(1))?), [21.5, 42.5]);
    assert_eq!(trace(), ["empty_strided", "add.out"]);
    aten::add_scalar_(&a, Scalar::Int(1), Scalar::Int(1))?;
    assert_eq!(cells(&a), [22.0, 43.0]);
    assert_eq!(trace(), ["empty_strided", "add.out", "copy_"]);

    // copies and factories
    let to = aten::_to_copy(&t(&[3.0, 4.0]), None, None, Some(device()), None, false, None)?;
    assert_eq!(cells(&to), [3.0, 4.0]);
    let twin = aten::clone(&to, Some(MemoryFormat::Preserve))?;
    assert!(!twin.is_same(&to));
    assert_eq!(cells(&twin), [3.0, 4.0]);
    assert_eq!(cells(&aten::ones_like(&to, None, None, None, None, None)?), [1.0, 1.0]);
    let other = aten::ones_like(&t(&[5.0]), None, None, Some(device()), None, None)?;
    assert_eq!((cells(&other), other.device()), (vec![1.0], device()));

    // what it lacks is an error that says so
    let text = aten::mul_tensor(&a, &b).unwrap_err().to_string();
    assert!(text.contains("aten::mul.out") && text.contains("PrivateUse1"), "{text}");
    let text = aten::t(&a).unwrap_err().to_string();
    assert!(text.contains("aten::as_strided"), "{text}");
    let text = aten::logical_not(&a).unwrap_err().to_string();
    assert!(text.contains("aten::logical_not") && text.contains("register one"), "{text}");

    // and its own kernel comes before all that
    let mut own = Library::implementation("aten", K::PrivateUse1)?;
    own.impl_("add.Tensor", |a: &Tensor, _: &Tensor, _: Scalar| Ok(a.clone()))?;
    assert!(aten::add_tensor(&a, &b, Scalar::Int(1))?.is_same(&a));
    drop((own, lib));
    assert!(aten::add_tensor(&a, &b, Scalar::Int(1)).is_err());
    Ok(())
}

#[test]
fn tables_of_structured_operators() {
    let _turn = crate::seeds::support::turn();
    for (op, backend) in
        [("aten::add.Tensor", true), ("aten::add_.Tensor", true), ("aten::add.out", false)]
    {
        let table = dump_table(operator(op).unwrap());
        let has = |key: &str, label: &str| {
            table.lines().any(|l| l.starts_with(&format!("{key}: ")) && l.ends_with(label))
        };
        assert!(has("CPU", "[kernel]"), "{table}");
        assert_eq!(has("PrivateUse2", "[default backend kernel]"), backend, "{table}");
        // Lazy and XLA functionalise, so composites that write are not for them
        assert!(!table.contains("\nXLA: ") && !table.contains("\nLazy: "), "{table}");
        assert!(has("AutogradHIP", "[autograd kernel]"), "{table}");
    }
}
