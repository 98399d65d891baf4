//! Backends from outside: a device of the test's own, at each of the keys that are free for one.
//!
//! The device keeps its elements in a CPU tensor that nobody else sees. It registers what a backend
//! must (`empty`, `_copy_from`), its view operators, and the CPU fallback for all else.

use crate::seeds::support::turn;
use std::error::Error as _;
use straightline::dispatch::{
    BackendComponent, DispatchError, DispatchKey, Kernel, Library, RenameBackendError, Stack,
    Value, ViewFallback, call_on_cpu, capture, cpu_fallback, cpu_fallback_with, operator,
    rename_backend, wrapped_views,
};
use straightline::ops::aten;
use straightline::{
    DType, Device, DeviceType, Error, ErrorKind, Layout, MemoryFormat, Result, Scalar, Tensor,
    compile,
};

/// The keys that a backend from outside may take.
const KINDS: [DeviceType; 5] = [
    DeviceType::PrivateUse1,
    DeviceType::PrivateUse2,
    DeviceType::PrivateUse3,
    DeviceType::Lazy,
    DeviceType::Xla,
];

struct Memory(Tensor);

pub(crate) fn memory(t: &Tensor) -> &Tensor {
    t.payload::<Memory>().map_or(t, |m| &m.0)
}

fn wrap(cpu: Tensor, device: Device) -> Result<Tensor> {
    let (sizes, strides) = (cpu.sizes().to_vec(), cpu.strides().to_vec());
    let dtype = cpu.dtype();
    Tensor::opaque(Memory(cpu), &sizes, dtype, device).strides(&strides).build()
}

/// The least that makes a device: memory and copies.
fn primitives(kind: DeviceType) -> Result<Vec<Library>> {
    let here = Device::new(kind);
    let mut lib = Library::implementation("aten", DispatchKey::dense(kind))?;
    lib.impl_(
        "empty.memory_format",
        move |size: &[i64],
              dtype: Option<DType>,
              layout: Option<Layout>,
              device: Option<Device>,
              pin: Option<bool>,
              format: Option<MemoryFormat>| {
            let cpu = Some(Device::CPU);
            let cpu = aten::empty_memory_format(size, dtype, layout, cpu, pin, format)?;
            wrap(cpu, device.unwrap_or(here))
        },
    )?;
    lib.impl_(
        "empty_strided",
        move |size: &[i64],
              stride: &[i64],
              dtype: Option<DType>,
              layout: Option<Layout>,
              device: Option<Device>,
              pin: Option<bool>| {
            let cpu = Some(Device::CPU);
            let cpu = aten::empty_strided(size, stride, dtype, layout, cpu, pin)?;
            wrap(cpu, device.unwrap_or(here))
        },
    )?;
    lib.impl_("_copy_from", |src: &Tensor, dst: &Tensor, _: bool| {
        aten::copy_(memory(dst), memory(src), false)?;
        Ok(dst.clone())
    })?;
    let mut libs = vec![lib];
    let autograd = DispatchKey::autograd_of(BackendComponent::of(kind));
    // c10 has a fallback for the autograd of most backends, but not of PrivateUse2 and 3
    if !operator("aten::mm")?.has_computed_kernel(autograd) {
        let mut lib = Library::fallbacks(autograd)?;
        lib.fallback(Kernel::fallthrough())?;
        libs.push(lib);
    }
    Ok(libs)
}

fn views(kind: DeviceType) -> Result<Library> {
    let inner = |t: &Tensor| t.payload::<Memory>().map(|m| m.0.clone());
    wrapped_views(DispatchKey::dense(kind), inner, wrap)
}

pub(crate) fn install(kind: DeviceType) -> Result<Vec<Library>> {
    let mut libs = primitives(kind)?;
    libs.push(views(kind)?);
    let mut rest = Library::fallbacks(DispatchKey::dense(kind))?;
    rest.fallback(cpu_fallback())?;
    libs.push(rest);
    Ok(libs)
}

fn tensor(data: &[f32], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(data, sizes).unwrap()
}

fn dispatch_error(e: &Error) -> &DispatchError {
    match e.kind() {
        ErrorKind::Dispatch(e) => e,
        _ => panic!("not the dispatcher's: {e}"),
    }
}

#[test]
fn factories_reach_the_device_through_backend_select() {
    let _alone = turn();
    for kind in KINDS {
        let _libs = install(kind).unwrap();
        let d = Device::new(kind);
        let floats = |t: Result<Tensor>| {
            let t = t.unwrap();
            assert_eq!(t.device(), d);
            assert!(t.payload::<Memory>().is_some());
            t.to_vec::<f32>().unwrap()
        };
        assert_eq!(floats(Tensor::with(d).zeros([2])), [0.0, 0.0]);
        assert_eq!(floats(Tensor::with(d).ones([2])), [1.0, 1.0]);
        let (f32, at) = (Some(DType::F32), Some(d));
        let seven = Scalar::Int(7);
        assert_eq!(floats(aten::full(&[1], seven, f32, None, at, None)), [7.0]);
        assert_eq!(floats(aten::scalar_tensor(seven, f32, None, at, None)), [7.0]);
        assert_eq!(floats(aten::eye(2, f32, None, at, None)), [1.0, 0.0, 0.0, 1.0]);
        assert_eq!(floats(aten::arange(Scalar::Float(3.0), f32, None, at, None)), [0.0, 1.0, 2.0]);
        // the same numbers as on the CPU
        straightline::manual_seed(5);
        let here = floats(Tensor::with(d).randn([3]));
        straightline::manual_seed(5);
        assert_eq!(here, floats(Tensor::randn([3]).and_then(|t| t.to_device(d))));
        let x = Tensor::with(d).ones([2]).unwrap();
        assert_eq!(floats(aten::zeros_like(&x, None, None, None, None, None)), [0.0, 0.0]);
        assert_eq!(floats(aten::full_like(&x, seven, None, None, None, None, None)), [7.0, 7.0]);
        assert_eq!(floats(aten::clone(&x, None)), [1.0, 1.0]);
    }
}

#[test]
fn tensors_move_in_both_directions() {
    let _alone = turn();
    for kind in KINDS {
        let _libs = install(kind).unwrap();
        let d = Device::new(kind);
        let x = tensor(&[1.5, -2.0, 3.0, 4.0], &[2, 2]);
        let y = x.t().unwrap().to_device(d).unwrap();
        assert_eq!((y.device(), y.strides()), (d, &[1, 2][..]));
        assert_eq!(y.to_vec::<f32>().unwrap(), [1.5, 3.0, -2.0, 4.0]);
        // device 0 is the current one: nothing to do
        let zero = Device { index: 0, ..d };
        assert!(y.to_device(zero).unwrap().is_same(&y));
        let back = y.to_device(Device::CPU).unwrap();
        assert!(back.device().is_cpu() && back.payload::<Memory>().is_none());
        // conversion on the way
        let i = aten::_to_copy(&y, Some(DType::I64), None, Some(Device::CPU), None, false, None);
        assert_eq!(i.unwrap().to_vec::<i64>().unwrap(), [1, 3, -2, 4]);
        // `copy_` goes to the device's kernel whichever side it is on, and broadcasts
        y.copy_(&tensor(&[8.0, 9.0], &[2])).unwrap();
        x.copy_(&y).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), [8.0, 9.0, 8.0, 9.0]);
        assert_eq!(
            y.select(0, 0).unwrap().select(0, 1).unwrap().item::<Scalar>().unwrap(),
            Scalar::Float(9.0)
        );
        let text = format!("tensor([[8., 9.],\n        [8., 9.]], device='{d}')");
        assert_eq!(y.to_string(), text);
    }
}

#[test]
fn the_cpu_fallback_runs_what_the_backend_lacks() {
    let _alone = turn();
    for kind in KINDS {
        let _libs = install(kind).unwrap();
        let d = Device::new(kind);
        let at = |data: &[f32], sizes: &[i64]| tensor(data, sizes).to_device(d).unwrap();
        let x = at(&[-1.0, 2.0], &[2]);
        // functional: results are on the device
        let y = &x + &x;
        assert_eq!((y.device(), y.to_vec::<f32>().unwrap()), (d, vec![-2.0, 4.0]));
        assert_eq!((&x * 3.0).to_vec::<f32>().unwrap(), [-3.0, 6.0]);
        // in place: the argument is written, and is what comes back
        let z = x.add_(at(&[1.0], &[1])).unwrap();
        assert!(z.is_same(&x));
        assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 3.0]);
        // ... through a view of it, too
        x.slice(0, 1, 2, 1).unwrap().fill_(5).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 5.0]);
        // lists, and several results
        let c = aten::cat(&[x.clone(), at(&[7.0], &[1])], 0).unwrap();
        assert_eq!((c.device(), c.to_vec::<f32>().unwrap()), (d, vec![0.0, 5.0, 7.0]));
        let (n, mean, _) = aten::native_layer_norm(&c, &[3], None, None, 1e-5).unwrap();
        assert_eq!((n.device(), mean.device()), (d, d));
        assert_eq!(mean.to_vec::<f32>().unwrap(), [4.0]);
        // a device argument decides where results are
        let mut stack: Stack = vec![c.into()];
        stack.extend(vec![Value::None; 3]);
        stack.insert(3, Value::Device(Device::CPU));
        stack.extend([Value::Bool(false), Value::None]);
        let op = operator("aten::_to_copy").unwrap();
        assert_eq!(stack.len(), op.schema().unwrap().args.len());
        call_on_cpu(op, &mut stack, ViewFallback::Refuse).unwrap();
        assert_eq!(stack[0].as_tensor().unwrap().device(), Device::CPU);
    }
}

/// Kernels for all backends that work on our memory alone: on tensors of this backend they go to
/// its fallback.
#[test]
fn the_cpu_fallback_runs_composite_explicit_operators() {
    let _alone = turn();
    let _libs = install(DeviceType::PrivateUse2).unwrap();
    let d = Device::new(DeviceType::PrivateUse2);
    let data: Vec<f32> = (0..64).map(|i| ((i * 37) % 64) as f32 / 8.0).collect();
    let x = tensor(&data[..32], &[1, 2, 4, 4]);
    let w = tensor(&data[32..50], &[1, 2, 3, 3]);
    let i = Tensor::from_slice(&[2i64, 0, 3], [3]).unwrap();
    let number = || tensor(&[1.5], &[]);
    type Call<'a> = (&'a str, Vec<Value>);
    let (ones, zeros) = (vec![1i64, 1], vec![0i64, 0]);
    let image = || Value::from(&x);
    let flat = || Value::from(x.view([32]).unwrap());
    let calls: Vec<Call> = vec![
        (
            "aten::convolution",
            vec![
                image(),
                (&w).into(),
                Value::None,
                ones.clone().into(),
                ones.clone().into(),
                ones.into(),
                false.into(),
                zeros.into(),
                1i64.into(),
            ],
        ),
        ("aten::cummax", vec![image(), 2i64.into()]),
        ("aten::logcumsumexp", vec![image(), 3i64.into()]),
        ("aten::sort", vec![image(), 3i64.into(), true.into()]),
        ("aten::kthvalue", vec![image(), 2i64.into(), 3i64.into(), false.into()]),
        ("aten::median.dim", vec![image(), 2i64.into(), true.into()]),
        (
            "aten::native_group_norm",
            vec![
                image(),
                Value::None,
                Value::None,
                1i64.into(),
                2i64.into(),
                16i64.into(),
                2i64.into(),
                1e-5.into(),
            ],
        ),
        ("aten::complex", vec![image(), image()]),
        ("aten::frexp.Tensor", vec![image()]),
        ("aten::celu", vec![image(), Scalar::Float(0.5).into()]),
        (
            "aten::index_fill.int_Scalar",
            vec![image(), 2i64.into(), (&i).into(), Scalar::Int(7).into()],
        ),
        (
            "aten::index_put",
            vec![
                flat(),
                Value::OptionalTensorList(vec![Some(i.clone())]),
                number().into(),
                true.into(),
            ],
        ),
        ("aten::put", vec![flat(), (&i).into(), (&w).into(), false.into()]),
        ("aten::xlogy.Scalar_Self", vec![Scalar::Int(2).into(), image()]),
        ("aten::special_zeta.other_scalar", vec![image(), Scalar::Int(2).into()]),
    ];
    for (name, mut args) in calls {
        let op = operator(name).unwrap();
        if name == "aten::put" {
            args[2] = tensor(&[5.0, 6.0, 7.0], &[3]).into();
        }
        let mut there: Stack =
            (args.iter()).map(|v| v.map_tensors(|t| t.to_device(d)).unwrap()).collect();
        op.call_boxed(&mut args).unwrap();
        op.call_boxed(&mut there).unwrap_or_else(|e| panic!("{name}: {e}"));
        let results = args.iter().flat_map(Value::tensors);
        for (want, got) in results.zip(there.iter().flat_map(Value::tensors)) {
            assert_eq!(got.device(), d, "{name}");
            let got = got.to_device(Device::CPU).unwrap();
            assert_eq!(got.to_string(), want.to_string(), "{name}");
        }
    }
}

/// What the kernels of the CPU refuse is refused on a device that falls back on them.
#[test]
fn checks_hold_on_a_device_that_falls_back() {
    let _alone = turn();
    for kind in KINDS {
        let _libs = install(kind).unwrap();
        let d = Device::new(kind);
        let at = |t: Tensor| t.to_device(d).unwrap();
        let refused = |r: Result<Tensor>, what: &str| {
            let e = r.unwrap_err().to_string();
            assert!(e.contains(what), "{e}");
        };
        let whole = at(Tensor::from_vec([1i64, 2], 2).unwrap());
        refused(whole.mul_(1.5), "can't be cast to the desired output");
        assert_eq!(whole.to_vec::<i64>().unwrap(), [1, 2]);
        refused(whole.one_hot(2), "smaller than num_classes");
        refused(whole.neg().unwrap().one_hot(-1), "must be non-negative");
        assert_eq!(whole.one_hot(-1).unwrap().sizes(), [2, 3]);
        // tensors that share memory do so on the CPU as well
        let x = at(tensor(&[1.0, 2.0, 3.0, 4.0], &[2, 2]));
        refused(x.add_(&x.t().unwrap()), "refer to a single memory location");
        assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert!(x.select(0, 1).unwrap().shares_storage_with(&x));
        assert_eq!(x.select(0, 1).unwrap().storage_offset(), 2);
        let (first, last) = (x.select(0, 0).unwrap(), x.select(0, 1).unwrap());
        first.add_(&last).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), [4.0, 6.0, 3.0, 4.0]);
        // what is written does not grow
        refused(first.add_(&x), "doesn't match the broadcast shape");
    }
}

/// `native_batch_norm` writes running statistics, and its schema does not say so.
#[test]
fn writes_that_no_schema_names_are_written_back() {
    let _alone = turn();
    let _libs = install(DeviceType::PrivateUse2).unwrap();
    let d = Device::new(DeviceType::PrivateUse2);
    let run = |d: Device| {
        let at = |t: Tensor| t.to_device(d).unwrap();
        let x = at(tensor(&[1.0, 2.0, 3.0, 5.0], &[2, 2]));
        let (mean, var) = (at(tensor(&[0.0; 2], &[2])), at(tensor(&[1.0; 2], &[2])));
        let stats = (Some(&mean), Some(&var));
        aten::native_batch_norm(&x, None, None, stats.0, stats.1, true, 0.5, 1e-5).unwrap();
        [mean, var].map(|t| t.to_vec::<f32>().unwrap())
    };
    assert_eq!(run(Device::CPU), [[1.0, 1.75], [1.5, 2.75]]);
    assert_eq!(run(d), run(Device::CPU));
}

/// Conjugates are views there as well, and resolved by the device's operators.
#[test]
fn math_bits_of_a_device_from_outside() {
    let _alone = turn();
    let _libs = install(DeviceType::PrivateUse2).unwrap();
    let d = Device::new(DeviceType::PrivateUse2);
    let parts = |x: [f32; 2]| Tensor::from_vec(x, -1).unwrap();
    let c = aten::complex(&parts([1.0, 2.0]), &parts([3.0, 4.0])).unwrap();
    let x = c.view([1, 2]).unwrap().to_device(d).unwrap();
    let adjoint = x.adjoint().unwrap();
    assert!(adjoint.is_conj() && adjoint.shares_storage_with(&x) && adjoint.device() == d);
    let e = aten::view_as_real(&adjoint).unwrap_err().to_string();
    assert!(e.contains("unresolved conjugated tensors"), "{e}");
    let resolved = adjoint.resolve_conj().unwrap();
    assert!(!resolved.is_conj());
    let real = aten::view_as_real(&resolved).unwrap();
    assert_eq!(real.to_vec::<f32>().unwrap(), [1.0, -3.0, 2.0, -4.0]);
    assert_eq!(aten::imag(&adjoint).unwrap().to_vec::<f32>().unwrap(), [-3.0, -4.0]);
    aten::conj_physical_(&x).unwrap();
    assert_eq!(aten::imag(&x).unwrap().to_vec::<f32>().unwrap(), [-3.0, -4.0]);
}

/// What a tensor wraps changes its shape with it; a backend that says nothing of it hears so.
#[test]
fn shapes_change_in_place_on_a_device_from_outside() {
    let _alone = turn();
    let kind = DeviceType::PrivateUse2;
    let d = Device::new(kind);
    let x = || tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    {
        let _libs = install(kind).unwrap();
        let t = x().to_device(d).unwrap();
        aten::t_(&t).unwrap();
        assert_eq!((t.sizes(), t.strides()), (&[3, 2][..], &[1, 3][..]));
        assert_eq!(t.to_vec::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let out = Tensor::with(d).empty([0]).unwrap();
        aten::add_out(&t, &t, Scalar::Int(1), &out).unwrap();
        assert_eq!(out.sizes(), [3, 2]);
        assert_eq!(out.to_vec::<f32>().unwrap()[1], 8.0);
    }
    let mut libs = primitives(kind).unwrap();
    let mut rest = Library::fallbacks(DispatchKey::PrivateUse2).unwrap();
    rest.fallback(cpu_fallback()).unwrap();
    libs.push(rest);
    let t = x().to_device(d).unwrap();
    let e = aten::t_(&t).unwrap_err().to_string();
    assert!(e.contains("is known to its backend only"), "{e}");
    assert_eq!(t.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let out = Tensor::with(d).empty([0]).unwrap();
    let e = aten::add_out(&t, &t, Scalar::Int(1), &out).unwrap_err();
    assert!(
        matches!(dispatch_error(&e), DispatchError::CpuFallbackShape { op, .. } if op == "aten::resize_"),
        "{e}"
    );
}

#[test]
fn the_cpu_fallback_converts_every_kind_of_tensor_argument() {
    let _alone = turn();
    let kind = DeviceType::PrivateUse1;
    let _libs = install(kind).unwrap();
    let d = Device::new(kind);
    let mut lib = Library::new("fallback_lists").unwrap();
    lib.def("all(Tensor[] a, Tensor?[] b, Tensor? c, Device d) -> (Tensor[], Tensor)").unwrap();
    lib.impl_at(
        "all",
        DispatchKey::CPU,
        |a: &[Tensor], b: &[Option<Tensor>], c: Option<&Tensor>, device: Device| {
            let cpu = a.iter().chain(b.iter().flatten()).chain(c).all(|t| t.device().is_cpu());
            assert!(cpu && device.is_cpu());
            Ok((a.to_vec(), c.expect("given").clone()))
        },
    )
    .unwrap();
    let written = "write(Tensor(a!) out, Tensor(b!)[] outs) -> Tensor(a!)";
    lib.def(written).unwrap();
    lib.impl_at("write", DispatchKey::CPU, |out: &Tensor, outs: &[Tensor]| {
        outs.iter().try_for_each(|t| t.fill_(2).map(|_| ()))?;
        out.fill_(1)
    })
    .unwrap();

    let t = |x: f32| tensor(&[x], &[1]).to_device(d).unwrap();
    let mut stack: Stack = vec![
        Value::TensorList(vec![t(1.0), t(2.0)]),
        Value::OptionalTensorList(vec![None, Some(t(3.0))]),
        t(4.0).into(),
        Value::Device(d),
    ];
    operator("fallback_lists::all").unwrap().call_boxed(&mut stack).unwrap();
    let back: Vec<Tensor> = stack.iter().flat_map(Value::tensors).cloned().collect();
    assert!(back.iter().all(|t| t.device() == d) && back.len() == 3);
    assert_eq!(back[2].to_vec::<f32>().unwrap(), [4.0]);

    let (a, b) = (t(0.0), t(0.0));
    let mut stack: Stack = vec![a.clone().into(), Value::TensorList(vec![b.clone()])];
    operator("fallback_lists::write").unwrap().call_boxed(&mut stack).unwrap();
    assert!(stack[0].as_tensor().unwrap().is_same(&a));
    assert_eq!(a.to_vec::<f32>().unwrap(), [1.0]);
    assert_eq!(b.to_vec::<f32>().unwrap(), [2.0]);
}

#[test]
fn views_and_primitives_cannot_fall_back() {
    let _alone = turn();
    let kind = DeviceType::PrivateUse1;
    let d = Device::new(kind);
    {
        let mut libs = primitives(kind).unwrap();
        let mut rest = Library::fallbacks(DispatchKey::PrivateUse1).unwrap();
        rest.fallback(cpu_fallback()).unwrap();
        libs.push(rest);
        let x = tensor(&[1.0, 2.0], &[2]).to_device(d).unwrap();
        let e = x.view([2, 1]).unwrap_err();
        assert!(matches!(
            dispatch_error(&e),
            DispatchError::CpuFallbackView { op, device } if op == "aten::view" && *device == d
        ));
        assert!(e.to_string().contains("view operator"), "{e}");
    }
    {
        let mut libs = primitives(kind).unwrap();
        let mut rest = Library::fallbacks(DispatchKey::PrivateUse1).unwrap();
        rest.fallback(cpu_fallback_with(ViewFallback::Copy)).unwrap();
        libs.push(rest);
        let x = tensor(&[1.0, 2.0], &[2]).to_device(d).unwrap();
        let v = x.view([2, 1]).unwrap();
        v.fill_(9).unwrap();
        assert_eq!((v.device(), v.sizes()), (d, &[2, 1][..]));
        assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    }
    // a fallback alone would call itself forever
    let mut rest = Library::fallbacks(DispatchKey::PrivateUse1).unwrap();
    rest.fallback(cpu_fallback()).unwrap();
    for (e, name) in [
        (Tensor::with(d).zeros([1]).unwrap_err(), "aten::empty.memory_format"),
        (tensor(&[1.0], &[1]).to_device(d).unwrap_err(), "aten::empty_strided"),
    ] {
        assert!(
            matches!(
                dispatch_error(&e),
                DispatchError::CpuFallbackPrimitive { op, device } if op == name && *device == d
            ),
            "{e}"
        );
    }
}

#[test]
fn a_backend_without_kernels_hears_what_to_register() {
    let _alone = turn();
    let d = Device::new(DeviceType::Xla);
    let t = Tensor::opaque((), &[1], DType::F32, d).build().unwrap();
    let missing = |e: Error, op: &str, key: DispatchKey| {
        match dispatch_error(&e) {
            DispatchError::MissingKernel(m) => assert_eq!((m.op.as_str(), m.key), (op, key)),
            other => panic!("{other}"),
        }
        assert!(e.to_string().contains(&format!("impl_(\"{op}\"")), "{e}");
    };
    let xla = DispatchKey::XLA;
    missing(Tensor::with(d).zeros([1]).unwrap_err(), "aten::empty.memory_format", xla);
    missing(t.to_vec::<f32>().unwrap_err(), "aten::_copy_from", xla);
    missing(t.item::<Scalar>().unwrap_err(), "aten::_local_scalar_dense", xla);
    missing(t.copy_(&tensor(&[1.0], &[1])).unwrap_err(), "aten::_copy_from", xla);
    missing(tensor(&[1.0], &[1]).to_device(d).unwrap_err(), "aten::empty_strided", xla);
    let text = t.to_string();
    assert!(text.starts_with("tensor(<") && text.ends_with(", device='xla', size=(1,))"), "{text}");
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn composites_reach_the_device_in_parts() {
    let _alone = turn();
    for kind in KINDS {
        let _libs = install(kind).unwrap();
        let d = Device::new(kind);
        let key = DispatchKey::dense(kind);
        let at = |data: &[f32], sizes: &[i64]| tensor(data, sizes).to_device(d).unwrap();
        let (x, w, b) =
            (at(&[1.0, 2.0], &[1, 2]), at(&[1.0, 0.0, 2.0, 1.0], &[2, 2]), at(&[0.5, -0.5], &[2]));
        let (y, trace) = capture(|| x.linear(&w, Some(&b)));
        let trace = trace.join("\n");
        assert_eq!(y.unwrap().to_vec::<f32>().unwrap(), [1.5, 3.5]);
        for part in ["aten::t", "aten::addmm"] {
            let line = format!("op=[{part}], key=[{key}]");
            assert!(trace.contains(&line), "no {line} in\n{trace}");
        }
        assert!(!trace.contains(&format!("op=[aten::linear], key=[{key}]")), "{trace}");
        let r = x.reshape([2]).unwrap();
        assert_eq!((r.device(), r.sizes()), (d, &[2][..]));
        assert_eq!(w.matmul(&r).unwrap().to_vec::<f32>().unwrap(), [1.0, 4.0]);
        assert_eq!(
            w.softmax(-1).unwrap().sum().unwrap().item::<Scalar>().unwrap(),
            Scalar::Float(2.0)
        );
    }
}

/// The tutorial's `xla_ops::ax_by`, line by line.
#[test]
fn the_tutorials_xla_operator() {
    let _alone = turn();
    let _device = install(DeviceType::Xla).unwrap();
    // TORCH_LIBRARY(xla_ops, m)
    let mut m = Library::new("xla_ops").unwrap();
    m.def("ax_by(Tensor self, Tensor other, Scalar a, Scalar b) -> Tensor").unwrap();

    fn xla_ax_by(self_: &Tensor, other: &Tensor, a: Scalar, b: Scalar) -> Result<Tensor> {
        println!("Executing xla_ops::ax_by Kernel!");
        aten::mul_scalar(self_, a)?.add(&aten::mul_scalar(other, b)?)
    }
    // TORCH_LIBRARY_IMPL(xla_ops, XLA, m)
    let mut m = Library::implementation("xla_ops", DispatchKey::XLA).unwrap();
    m.impl_("ax_by", xla_ax_by).unwrap();

    let op = operator("xla_ops::ax_by")
        .unwrap()
        .typed::<(&Tensor, &Tensor, Scalar, Scalar), Tensor>()
        .unwrap();
    let (x, y) = (tensor(&[1.0, 2.0], &[2]), tensor(&[10.0, 20.0], &[2]));
    let xla = Device::new(DeviceType::Xla);
    let (on_x, on_y) = (x.to_device(xla).unwrap(), y.to_device(xla).unwrap());
    let (a, b) = (Scalar::Int(3), Scalar::Float(0.5));
    let (out, trace) = capture(|| op.call((&on_x, &on_y, a, b)));
    let trace = trace.join("\n");
    assert_eq!(out.unwrap().to_vec::<f32>().unwrap(), [8.0, 16.0]);
    assert!(
        trace.starts_with(
            " [call] op=[xla_ops::ax_by], key=[XLA]\n  [call] op=[aten::mul.Scalar], key=[XLA]\n"
        ),
        "{trace}"
    );

    // only XLA has it
    let e = op.call((&x, &y, a, b)).unwrap_err();
    assert!(
        e.to_string()
            .contains("Could not run 'xla_ops::ax_by' with arguments from the 'CPU' backend"),
        "{e}"
    );

    // "The dispatcher ensures the function signature matches the schema."
    let e = m.impl_("ax_by", |x: &Tensor, _y: &Tensor, _a: Scalar| Ok(x.clone())).unwrap_err();
    assert!(
        matches!(dispatch_error(&e), DispatchError::SignatureMismatch { op, .. } if op == "xla_ops::ax_by")
    );
    let text = e.to_string();
    for part in [
        "xla_ops::ax_by(Tensor self, Tensor other, Scalar a, Scalar b) -> Tensor",
        "(Tensor _0, Tensor _1, Scalar _2) -> Tensor _0",
        "The number of arguments is different. 4 vs 3.",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn compile_says_that_it_compiles_for_the_cpu() {
    let _alone = turn();
    let kind = DeviceType::PrivateUse1;
    let _libs = install(kind).unwrap();
    let d = Device::new(kind);
    let x = tensor(&[1.0], &[1]);
    let on_device = x.to_device(d).unwrap();
    let refused = |r: Result<Tensor>, what: &str| {
        let e = r.unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Device(_)), "{e}");
        assert!(
            e.to_string().contains(what) && e.to_string().contains("to_device(Device::CPU)"),
            "{e}"
        );
        assert!(e.source().is_none());
    };
    refused(compile(|x: &Tensor| x.relu()).call(&on_device), "input 0");
    let closed = on_device.clone();
    refused(compile(move |x: &Tensor| x.add(&closed)).call(&x), "closes over");
    refused(compile(move |x: &Tensor| x.relu()?.to_device(d)).call(&x), "aten::_to_copy");
    // eagerly it is a call like any other
    let f = compile(|x: &Tensor| x.relu());
    assert_eq!(f.eager(&on_device).unwrap().device(), d);
}

#[test]
fn private_use_1_takes_a_name() {
    let _alone = turn();
    assert!(matches!(rename_backend("cuda"), Err(RenameBackendError::NameTaken { .. })));
    rename_backend("testdev").unwrap();
    rename_backend("testdev").unwrap();
    assert!(matches!(rename_backend("other"), Err(RenameBackendError::AlreadyNamed { .. })));
    let d: Device = "testdev:1".parse().unwrap();
    assert_eq!(d, Device { kind: DeviceType::PrivateUse1, index: 1 });
    assert_eq!(d.to_string(), "testdev:1");
    let _libs = install(DeviceType::PrivateUse1).unwrap();
    let x = tensor(&[1.0], &[1]).to_device(d).unwrap();
    assert_eq!(x.to_string(), "tensor([1.], device='testdev:1')");

    let mut lib = Library::new("renamed").unwrap();
    lib.def("f(Tensor x) -> Tensor").unwrap();
    lib.impl_at("f", DispatchKey::PrivateUse1, |x: &Tensor| Ok(x.clone())).unwrap();
    let f = operator("renamed::f").unwrap();
    let error = |key: DispatchKey| {
        let mut stack: Stack = vec![x.clone().into()];
        f.redispatch_boxed(key.into(), &mut stack).unwrap_err().to_string()
    };
    // as PyTorch: the suffix of the key that was missed, and nothing else
    let text = error(DispatchKey::QuantizedPrivateUse1);
    assert!(text.contains("with arguments from the 'Quantizedtestdev' backend"), "{text}");
    assert!(text.contains("only available for these backends: [PrivateUse1]."), "{text}");
    assert!(error(DispatchKey::PrivateUse2).contains("from the 'PrivateUse2' backend"));
}
