use super::*;
use crate::dispatch::{Library, all_operators, capture, operator};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::schema::OperatorName;

fn cpu(dtype: Option<DType>) -> Autocast {
    autocast(DeviceType::Cpu, dtype).unwrap()
}

fn ones(dtype: DType) -> Tensor {
    Tensor::from_slice(&[1f32; 4], &[2, 2]).unwrap().to_dtype(dtype).unwrap()
}

#[test]
fn the_lists_are_pytorchs() {
    let count = |device| autocast_operators(device).len();
    assert_eq!(count(DeviceType::Cpu), 126);
    assert_eq!(count(DeviceType::Cuda), 121);
    for device in [DeviceType::Xpu, DeviceType::Mtia, DeviceType::Maia] {
        assert_eq!(count(device), 117);
    }
    assert_eq!(count(DeviceType::Mps), 95);
    for device in [DeviceType::Hpu, DeviceType::Ipu, DeviceType::Xla] {
        assert_eq!(count(device), 0);
    }
    let norm = ("norm.ScalarOpt_dim", Policy::Fp32AppendDtype);
    assert!(autocast_operators(DeviceType::Cuda).contains(&norm));
    assert!(!autocast_operators(DeviceType::Mps).contains(&norm));
    for device in DeviceType::ALL {
        let mut names: Vec<_> = autocast_operators(device).iter().map(|o| o.0).collect();
        let n = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n);
    }
}

#[test]
fn listed_operators_that_exist_have_a_kernel_and_no_others() {
    for device in [DeviceType::Cpu, DeviceType::Cuda, DeviceType::Mps] {
        let key = key_of(device).unwrap();
        let listed: Vec<String> =
            autocast_operators(device).iter().map(|(name, _)| format!("aten::{name}")).collect();
        let mut found = 0;
        for op in all_operators() {
            let name = op.name().to_string();
            if name.starts_with("aten::") && op.schema().is_some() {
                assert_eq!(op.has_kernel(key), listed.contains(&name), "{name} at {key}");
                found += usize::from(op.has_kernel(key));
            }
        }
        assert!(found >= 11);
    }
}

#[test]
fn an_operator_that_is_defined_later_gets_its_kernel() {
    let find = || crate::dispatch::find(&OperatorName::new("aten::conv_tbc", ""));
    {
        let mut lib = Library::fragment("aten").unwrap();
        lib.def("conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor").unwrap();
        let op = find().unwrap();
        for key in [DispatchKey::AutocastCPU, DispatchKey::AutocastCUDA] {
            assert!(op.has_kernel(key));
        }
    }
    assert!(find().is_none());
}

type Case = (&'static str, fn(&Tensor) -> Result<Tensor>, [Option<DType>; 4]);

/// Result dtypes of `f32`, `bf16`, `f16`, `f64` arguments, as `torch.autocast("cpu", dtype)` of
/// PyTorch 2.15 gives them; `None` is an error there.
fn cases(low: DType) -> Vec<Case> {
    use DType::{BF16, F16, F32, F64};
    let lower = [Some(low), Some(low), Some(low), Some(F64)];
    let fp32 = [Some(F32), Some(F32), Some(F32), Some(F64)];
    let own = [Some(F32), Some(BF16), Some(F16), Some(F64)];
    let promote = [F32, BF16, F16, F64].map(|d| (matches!(d, F32 | F64) || d == low).then_some(d));
    vec![
        ("mm", |x| x.mm(x), lower),
        ("matmul", |x| x.matmul(x), lower),
        ("addmm", |x| x.addmm(x, x), lower),
        ("linear", |x| x.linear(x, None), lower),
        ("bmm", |x| x.unsqueeze(0)?.bmm(&x.unsqueeze(0)?), lower),
        (
            "baddbmm",
            |x| {
                let b = x.unsqueeze(0)?;
                aten::baddbmm(&b, &b, &b, 1.into(), 1.into())
            },
            lower,
        ),
        (
            "scaled_dot_product_attention",
            |x| {
                let x = x.unsqueeze(0)?.unsqueeze(0)?;
                aten::scaled_dot_product_attention(&x, &x, &x, None, 0.0, false, None, false)
            },
            lower,
        ),
        ("prod", |x| x.prod(), fp32),
        ("prod.dim_int", |x| aten::prod_dim_int(x, 0, false, None), fp32),
        ("cat", |x| aten::cat(&[x.clone(), x.clone()], 0), promote),
        ("stack", |x| aten::stack(&[x.clone(), x.clone()], 0), promote),
        ("exp", |x| x.exp(), own),
        ("softmax", |x| x.softmax(0), own),
        ("log_softmax", |x| x.log_softmax(0), own),
        ("sum", |x| x.sum(), own),
        ("add", |x| x.add(x), own),
        ("relu", |x| x.relu(), own),
        ("mean", |x| x.mean(), own),
        ("layer_norm", |x| x.layer_norm_with(&[2], None, None, 1e-5), own),
        ("pow", |x| x.pow(2), own),
        ("log", |x| x.log(), own),
        ("addcmul", |x| x.addcmul_with(x, x, 1), own),
        ("logsumexp", |x| x.logsumexp(&[0]), own),
    ]
}

#[test]
fn result_dtypes_are_pytorchs() {
    for low in [DType::BF16, DType::F16] {
        let _on = cpu(Some(low));
        for (name, f, expected) in cases(low) {
            let dtypes = [DType::F32, DType::BF16, DType::F16, DType::F64];
            for (dtype, expected) in dtypes.into_iter().zip(expected) {
                let got = f(&ones(dtype));
                match expected {
                    Some(e) => assert_eq!(got.unwrap().dtype(), e, "{name} of {dtype} to {low}"),
                    None => assert!(
                        got.unwrap_err().to_string().contains("Unexpected floating ScalarType"),
                        "{name} of {dtype}"
                    ),
                }
            }
        }
    }
    // integers stay
    let _on = cpu(None);
    let i = ones(DType::I64);
    assert_eq!(i.mm(&i).unwrap().dtype(), DType::I64);
    let mixed = aten::cat(&[ones(DType::F64), ones(DType::BF16)], 0).unwrap();
    assert_eq!(mixed.dtype(), DType::F64);
}

#[test]
fn guards_nest_and_restore() {
    let x = ones(DType::F32);
    let product = || x.mm(&x).unwrap().dtype();
    assert!(!is_autocast_enabled(DeviceType::Cpu));
    {
        let _a = cpu(Some(DType::F16));
        assert!(is_autocast_enabled(DeviceType::Cpu));
        assert!(!is_autocast_enabled(DeviceType::Cuda));
        assert_eq!(product(), DType::F16);
        {
            let off = AutocastOptions { enabled: false, ..AutocastOptions::default() };
            let _b = autocast_with(DeviceType::Cpu, off).unwrap();
            assert_eq!(product(), DType::F32);
            // no dtype: as around it
            let _c = cpu(None);
            assert_eq!(product(), DType::F16);
            let _d = cpu(Some(DType::BF16));
            assert_eq!(product(), DType::BF16);
        }
        assert_eq!(product(), DType::F16);
        // another device's autocast does not touch this one
        let _e = autocast(DeviceType::Cuda, Some(DType::BF16)).unwrap();
        assert_eq!(product(), DType::F16);
    }
    assert_eq!(product(), DType::F32);
    assert_eq!(autocast_dtype(DeviceType::Cpu).unwrap(), DType::BF16);
    assert_eq!(autocast_dtype(DeviceType::Cuda).unwrap(), DType::F16);
    assert_eq!(autocast_dtype(DeviceType::Maia).unwrap(), DType::BF16);
    assert_eq!(TlsKeySets::current().excluded, DispatchKeySet::DEFAULT_EXCLUDED);
    // a new thread starts without
    let _on = cpu(None);
    let there = std::thread::spawn(|| is_autocast_enabled(DeviceType::Cpu));
    assert!(!there.join().unwrap());
}

#[test]
fn bad_settings_are_errors() {
    let wrong = autocast(DeviceType::Cpu, Some(DType::F32)).unwrap_err();
    assert!(wrong.to_string().contains("`f16` or `bf16`"));
    assert!(autocast(DeviceType::Meta, None).is_err());
    assert!(autocast_dtype(DeviceType::Hip).is_err());
}

#[test]
fn the_wrapper_casts_and_calls_again_from_the_top() {
    let x = ones(DType::F32);
    let (_, lines) = capture(|| {
        let _on = cpu(None);
        x.mm(&x).unwrap();
    });
    let lines: Vec<&str> = lines.iter().map(|l| l.trim()).collect();
    assert_eq!(lines[0], "[call] op=[aten::mm], key=[AutocastCPU]");
    assert_eq!(lines.iter().filter(|l| l.contains("op=[aten::to.dtype]")).count(), 2);
    let again = lines.last().unwrap();
    assert!(again.starts_with("[callBoxed] op=[aten::mm], key=["), "{again}");
    // the last entry below: at the backend, or at an autograd key that passes it on
    assert!(!again.contains("Autocast"));
}

#[test]
fn parameters_are_cast_once() {
    let w = ones(DType::F32);
    w.mark_requires_grad(true);
    let x = ones(DType::BF16);
    let casts = |f: &dyn Fn()| {
        let (_, lines) = capture(f);
        lines.iter().filter(|l| l.contains("[aten::to.dtype]")).count()
    };
    let twice = || {
        x.mm(&w).unwrap();
        x.mm(&w).unwrap();
    };
    {
        let _on = cpu(None);
        assert_eq!(casts(&twice), 1);
        assert_eq!(cache::len(), 1);
        {
            let _inner = cpu(None);
            assert_eq!(casts(&twice), 0);
        }
        assert_eq!(cache::len(), 1);
        // a parameter that is written is cast again
        let plain = w.detach().unwrap();
        plain.fill_(2).unwrap();
        assert_eq!(
            x.mm(&w).unwrap().to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap(),
            [4.0; 4]
        );
        let no_cache = AutocastOptions { cache: Some(false), ..AutocastOptions::default() };
        let off = autocast_with(DeviceType::Cpu, no_cache).unwrap();
        assert_eq!(casts(&twice), 2);
        drop(off);
        // tensors that want no gradient are not kept, nor are those that nobody else holds
        let other = ones(DType::F32);
        assert_eq!(casts(&|| drop(x.mm(&other).unwrap())), 1);
        assert_eq!(cache::len(), 1);
        let temporary = ones(DType::F32);
        temporary.mark_requires_grad(true);
        x.mm(&temporary).unwrap();
        assert_eq!(cache::len(), 2);
        drop(temporary);
        let another = ones(DType::F32);
        another.mark_requires_grad(true);
        x.mm(&another).unwrap();
        assert_eq!(cache::len(), 2);
    }
    assert_eq!(cache::len(), 0);
}

#[test]
fn every_policy_does_what_it_says() {
    let mut lib = Library::new("autocast_policies").unwrap();
    let cases = [
        ("lower", Policy::LowerPrecision),
        ("fp32", Policy::Fp32),
        ("set", Policy::Fp32SetOptDtype),
        ("banned", Policy::Banned),
        ("promote", Policy::Promote),
        ("append", Policy::Fp32AppendDtype),
    ];
    for (name, policy) in cases {
        lib.def(&format!("{name}(Tensor a, Tensor b, *, ScalarType? dtype=None) -> str")).unwrap();
        let seen = |a: &Tensor, b: &Tensor, dtype: Option<DType>| {
            Ok(format!("{} {} {dtype:?}", a.dtype(), b.dtype()))
        };
        lib.impl_at(name, DispatchKey::CPU, seen).unwrap();
        let kernel = autocast_kernel(DeviceType::Cpu, policy).unwrap();
        lib.impl_at(name, DispatchKey::AutocastCPU, kernel).unwrap();
    }
    let _on = cpu(None);
    type Types = (&'static Tensor, &'static Tensor, Option<DType>);
    let call = |name: &str, a, b, dtype| {
        let op = operator(&format!("autocast_policies::{name}")).unwrap();
        op.typed::<Types, String>()
            .unwrap()
            .call((&ones(a), &ones(b), dtype))
            .map_err(|e| e.to_string())
    };
    use DType::{BF16, F16, F32, F64};
    assert_eq!(call("lower", F32, F16, None).unwrap(), "bf16 bf16 None");
    assert_eq!(call("lower", F64, F32, None).unwrap(), "f64 bf16 None");
    assert_eq!(call("fp32", BF16, DType::I64, None).unwrap(), "f32 i64 None");
    assert_eq!(call("promote", BF16, F32, None).unwrap(), "f32 f32 None");
    assert_eq!(call("promote", BF16, F64, None).unwrap(), "bf16 f64 None");
    assert_eq!(call("set", BF16, F32, None).unwrap(), "bf16 f32 Some(F32)");
    assert_eq!(call("set", BF16, F32, Some(F64)).unwrap(), "bf16 f32 Some(F64)");
    assert_eq!(call("set", F64, F32, None).unwrap(), "f64 f32 None");
    assert!(call("banned", F32, F32, None).unwrap_err().contains("unsafe under autocast"));
    assert!(call("append", F32, F32, None).unwrap_err().contains("no overload"));
}

#[test]
fn compiled_functions_follow_the_thread() {
    let f = crate::compile(|x: &Tensor| x.mm(x)?.add(1));
    let x = ones(DType::F32);
    assert_eq!(f.call(&x).unwrap().dtype(), DType::F32);
    {
        let _on = cpu(None);
        assert_eq!(f.call(&x).unwrap().dtype(), DType::BF16);
        assert!(f.trace(&x).unwrap().to_string().contains("_to_copy"));
        let _half = cpu(Some(DType::F16));
        assert_eq!(f.call(&x).unwrap().dtype(), DType::F16);
    }
    assert_eq!(f.call(&x).unwrap().dtype(), DType::F32);
    assert_eq!(f.variants(), 3);
}

#[test]
fn guards_in_a_tuple_leave_nothing_behind() {
    let x = ones(DType::F32);
    {
        // dropped first to last
        let _guards = (cpu(Some(DType::BF16)), cpu(Some(DType::F16)));
        assert_eq!(x.mm(&x).unwrap().dtype(), DType::F16);
    }
    assert!(!is_autocast_enabled(DeviceType::Cpu));
    assert_eq!(autocast_dtype(DeviceType::Cpu).unwrap(), DType::BF16);
    assert_eq!(x.mm(&x).unwrap().dtype(), DType::F32);
    let outer = cpu(None);
    let options =
        AutocastOptions { enabled: false, cache: Some(false), ..AutocastOptions::default() };
    let inner = autocast_with(DeviceType::Cpu, options).unwrap();
    drop(outer);
    assert!(!is_autocast_enabled(DeviceType::Cpu) && !is_autocast_cache_enabled());
    drop(inner);
    assert!(!is_autocast_enabled(DeviceType::Cpu) && is_autocast_cache_enabled());
}
