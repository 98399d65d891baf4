//! The macros, static blocks and custom operators.

use super::support::*;
use std::sync::{Arc, Mutex};
use straightline::dispatch::{
    CustomOpError, DispatchError, DispatchKey as K, IncludeGuard, Kernel, Library,
    RegistrationEvent, Value, custom_op, dump, init, on_registered, operator, registration_errors,
};
use straightline::ops::aten;
use straightline::{
    DType, Device, DeviceType, Error, ErrorKind, Result, Tensor, compile, library,
    library_fragment, library_impl,
};

// As a crate that is linked in would write it; the kernels stand before the definitions on purpose.
library_impl!(static always_there, CPU, |m| {
    m.impl_("twice", |x: &Tensor| x.mul(2.0))?;
    m.impl_("thrice", |x: &Tensor| x.mul(3.0))?;
    Ok(())
});
library!(static always_there, |m| {
    m.def("twice(Tensor x) -> Tensor")?;
    Ok(())
});
library_fragment!(static always_there, |m| {
    m.def("thrice(Tensor x) -> Tensor")?;
    Ok(())
});
// What goes wrong in a static block has nobody to go to.
library!(static badly_made, |m| {
    m.def("fine(Tensor x) -> Tensor")?;
    m.def("broken(Tensor x -> Tensor")?;
    Ok(())
});
library_impl!(static badly_made, CPU, |_m| {
    panic!("this block panics")
});

fn unary(name: &str, x: &Tensor) -> Result<Tensor> {
    operator(name)?.typed::<(&Tensor,), Tensor>()?.call((x,))
}

#[test]
fn static_blocks_are_there_from_the_start() {
    let _turn = turn();
    let x = Tensor::from_vec([1f32, 2.0], 2).unwrap();
    let of = |name| unary(name, &x).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(of("always_there::twice"), [2.0, 4.0]);
    assert_eq!(of("always_there::thrice"), [3.0, 6.0]);
    // a namespace has one block of definitions, static or not
    let error = message(Library::new("always_there"));
    assert!(error.contains("Only a single TORCH_LIBRARY"), "{error}");
}

#[test]
fn a_static_block_that_fails_says_so_where_it_is_missed() {
    let _turn = turn();
    let errors = registration_errors();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(init().is_err());
    match &errors[..] {
        [
            DispatchError::StaticRegistration { namespace, site, reason },
            DispatchError::StaticRegistration { reason: panic, .. },
        ] => {
            assert_eq!(namespace, "badly_made");
            assert!(site.file.ends_with("ways_in.rs"));
            assert!(reason.contains("<--- HERE"), "{reason}");
            assert_eq!(panic, "it panicked: this block panics");
        }
        other => panic!("{other:?}"),
    }
    // the block is there as a whole or not at all, and looking for it tells why
    let error = message(operator("badly_made::fine"));
    assert!(
        error.contains("the registrations of namespace badly_made that were to run when the dispatcher started failed"),
        "{error}"
    );
    // so does a call that lacks a kernel of that namespace
    let mut lib = Library::fragment("badly_made").unwrap();
    let op = lib.def("later(Tensor x) -> Tensor").unwrap();
    let error = message(op.call_boxed(&mut vec![Tensor::from_vec([1f32], 1).unwrap().into()]));
    assert!(error.contains("this block panics"), "{error}");
    assert!(error.contains("Could not run 'badly_made::later'"), "{error}");
    // others are not disturbed
    assert!(message(operator("nobody::f")).starts_with("Could not find schema for nobody::f."));
}

#[test]
fn blocks_own_what_they_register() {
    let _turn = turn();
    // an error inside takes back what came before it
    let failed = library!(wi_blocks, |m| {
        m.def("f(Tensor x) -> Tensor")?;
        m.def("f(Tensor x) -> Tensor")?;
        Ok(())
    });
    let error = message(failed);
    assert!(error.contains("with the same name and overload name multiple times"), "{error}");
    assert!(operator("wi_blocks::f").is_err());
    // and the namespace is free again
    let scale = 3.0;
    let defined = library!(wi_blocks, |m| {
        m.def("f(Tensor x) -> Tensor")?;
        // no key: for all backends
        m.impl_("f", move |x: &Tensor| x.mul(scale))?;
        Ok(())
    })
    .unwrap();
    let x = Tensor::from_vec([1f32], 1).unwrap();
    assert_eq!(unary("wi_blocks::f", &x).unwrap().to_vec::<f32>().unwrap(), [3.0]);
    {
        let _over = library_impl!(wi_blocks, CPU, |m| {
            m.impl_("f", |x: &Tensor| Ok(x.clone()))?;
            Ok(())
        })
        .unwrap();
        assert!(unary("wi_blocks::f", &x).unwrap().is_same(&x));
    }
    assert_eq!(unary("wi_blocks::f", &x).unwrap().to_vec::<f32>().unwrap(), [3.0]);
    drop(defined);
    assert!(operator("wi_blocks::f").is_err());
}

#[test]
fn listeners_hear_of_every_definition() {
    let _turn = turn();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = heard.clone();
    let mut lib = Library::new("wi_listen").unwrap();
    lib.def("before(Tensor x) -> Tensor").unwrap();
    let guard = on_registered(move |event| {
        let (what, op) = match event {
            RegistrationEvent::Defined(op) => ("+", op),
            RegistrationEvent::Removed(op) => ("-", op),
        };
        // the schema can be read in both cases, and the dispatcher can be asked
        assert!(op.schema().is_some() && operator(&op.name().to_string()).is_ok());
        if op.name().namespace() == Some("wi_listen") {
            log.lock().unwrap().push(format!("{what}{}", op.name().base()));
        }
    });
    lib.def("after(Tensor x) -> Tensor").unwrap();
    // kernels are not told of
    lib.impl_at("dangling", K::CPU, |x: &Tensor| Ok(x.clone())).unwrap();
    drop(lib);
    drop(guard);
    let mut lib = Library::new("wi_listen").unwrap();
    lib.def("unheard(Tensor x) -> Tensor").unwrap();
    assert_eq!(*heard.lock().unwrap(), ["+before", "+after", "-after", "-before"]);
}

/// A dump without places: `registered at FILE:LINE` is where it is in this file.
fn dumped(name: &str) -> String {
    let text = dump(op(name));
    text.split('\n')
        .map(|line| match line.find("registered at ") {
            Some(at) => {
                let rest = &line[at + "registered at ".len()..];
                let end = rest.find(" ::").map_or("", |e| &rest[e..]);
                format!("{}registered at F{end}\n", &line[..at])
            }
            None => format!("{line}\n"),
        })
        .collect::<String>()
        .trim_end()
        .to_string()
}

/// The registrations of the same four operators made by `torch.library.custom_op` in PyTorch 2.15,
/// as its `_dispatch_dump` prints them. The one difference: PyTorch registers a second kernel at
/// ADInplaceOrView, which the version bump replaces at once and which prints as `(inactive)`; here
/// there is only the bump.
#[test]
fn custom_op_registers_what_pytorch_registers() {
    let _turn = turn();
    let f = custom_op("wi::f", |x: &Tensor, s: f64| x.mul(s)).args(["x", "s"]).register().unwrap();
    assert_eq!(
        dumped("wi::f"),
        "name: wi::f\n\
         schema: wi::f(Tensor x, float s) -> Tensor\n\
         debug: registered at F\n\
         alias analysis kind: FROM_SCHEMA\n\
         Meta: registered at F :: (none) [ boxed ]\n\
         Autograd[alias]: registered at F :: (none) [ boxed ]\n\
         CompositeExplicitAutograd[alias]: registered at F :: (none) [ boxed ]"
    );
    assert_eq!(f.handle().tags(), ["pt2_compliant_tag"]);
    assert_eq!(row(f.handle(), K::AutogradCPU).unwrap(), "[autograd kernel]");
    assert_eq!(row(f.handle(), K::NestedTensorCPU), None);

    let _g = custom_op("wi::g", |x: &Tensor| x.add_(x).map(drop))
        .args(["x"])
        .mutates_args(["x"])
        .register()
        .unwrap();
    assert_eq!(
        dumped("wi::g"),
        "name: wi::g\n\
         schema: wi::g(Tensor(a0!) x) -> ()\n\
         debug: registered at F\n\
         alias analysis kind: FROM_SCHEMA\n\
         ADInplaceOrView: registered at F :: (none) [ boxed ]\n\
         Meta: registered at F :: (none) [ boxed ]\n\
         Autograd[alias]: registered at F :: (none) [ boxed ]\n\
         CompositeExplicitAutograd[alias]: registered at F :: (none) [ boxed ]"
    );

    let ones = |device: Device, n: i64| Tensor::with(device).ones([n]);
    let _h = custom_op("wi::h", ones)
        .args(["device", "n"])
        .device_types([DeviceType::Cpu])
        .register()
        .unwrap();
    assert_eq!(
        dumped("wi::h"),
        "name: wi::h\n\
         schema: wi::h(Device device, SymInt n) -> Tensor\n\
         debug: registered at F\n\
         alias analysis kind: FROM_SCHEMA\n\
         BackendSelect: registered at F :: (none) [ boxed ]\n\
         CPU: registered at F :: (none) [ boxed ]\n\
         Meta: registered at F :: (none) [ boxed ]\n\
         Autograd[alias]: registered at F :: (none) [ boxed ]"
    );
    let typed = op("wi::h").typed::<(Device, i64), Tensor>().unwrap();
    assert_eq!(typed.call((Device::CPU, 3)).unwrap().sizes(), [3]);
    let error = message(typed.call((Device::new(DeviceType::Cuda), 3)));
    assert!(error.contains("wi::h does not have a kernel registered for cuda"), "{error}");

    let k = custom_op("wi::k", |x: &Tensor| aten::clone(x, None))
        .args(["x"])
        .device_types([DeviceType::Cpu])
        .register()
        .unwrap();
    assert_eq!(
        dumped("wi::k"),
        "name: wi::k\n\
         schema: wi::k(Tensor x) -> Tensor\n\
         debug: registered at F\n\
         alias analysis kind: FROM_SCHEMA\n\
         CPU: registered at F :: (none) [ boxed ]\n\
         Meta: registered at F :: (none) [ boxed ]\n\
         Autograd[alias]: registered at F :: (none) [ boxed ]"
    );
    // the operator goes with its owner
    drop(k);
    assert!(operator("wi::k").is_err());
    assert!(operator("wi::f").is_ok());
}

fn custom_error(error: &Error) -> &CustomOpError {
    match error.kind() {
        ErrorKind::Dispatch(DispatchError::CustomOp(e)) => e,
        other => panic!("{other}"),
    }
}

#[test]
fn custom_op_refuses_what_pytorch_refuses() {
    let _turn = turn();
    let same = |x: &Tensor| Ok(x.clone());
    for (builder, want) in [
        (custom_op("wi_no", same), "the name must be `namespace::operator`"),
        (custom_op("wi::no.ov", same), "without an overload"),
        (
            custom_op("wi::no", same).schema("(Tensor x) -> Tensor").mutates_args(["x"]),
            "Attempted to create the custom op wi::no with mutates_args=[\"x\"]",
        ),
        (
            custom_op("wi::no", same)
                .schema("(Tensor(a!) x) -> Tensor(a!)")
                .mutates_args(Vec::<String>::new()),
            "The schema suggests that the op mutates [\"x\"]",
        ),
        (custom_op("wi::no", same).mutates_args(["y"]), "mutates_args=[\"y\"]"),
        (custom_op("wi::no", same).args(["x", "y"]), "2 argument names for a kernel of 1"),
        (
            custom_op("wi::no", same).schema("(*, Tensor x) -> Tensor"),
            "custom_op with kwarg-only Tensor args",
        ),
        (
            custom_op("wi::no", same).schema("(Tensor x, int n) -> Tensor"),
            "reason: The number of arguments is different. 2 vs 1.",
        ),
        (custom_op("wi::no", Kernel::boxed(|_, _, _| Ok(()))), "only the operator name was given"),
        (
            custom_op("wi::no", |n: i64| Tensor::scalar(n)).device_types([DeviceType::Cpu]),
            "Functions without tensor inputs are required to have a `Device device` argument",
        ),
    ] {
        let error = message(builder.register());
        assert!(error.contains(want), "{error}\n  lacks: {want}");
        assert!(operator("wi::no").is_err(), "nothing stays of a refused operator");
    }
}

#[test]
fn outputs_of_a_custom_op_are_new_tensors() {
    let _turn = turn();
    let x = Tensor::from_vec([1f32, 2.0], 2).unwrap();
    let call = |name: &str| {
        let mut stack = vec![(&x).into()];
        op(name).call_boxed(&mut stack).map(|()| stack)
    };
    let _a = custom_op("wi::alias", |x: &Tensor| x.view([2, 1])).args(["x"]).register().unwrap();
    let error = call("wi::alias").unwrap_err();
    assert_eq!(
        *custom_error(&error),
        CustomOpError::OutputAliases {
            op: "wi::alias".into(),
            output: 0,
            with: "argument `x`".into()
        }
    );
    let _b = custom_op("wi::pair", |x: &Tensor| {
        let y = x.add(1.0)?;
        Ok((y.clone(), y))
    })
    .register()
    .unwrap();
    let error = call("wi::pair").unwrap_err().to_string();
    assert!(error.contains("Output 1 shares memory with output 0"), "{error}");
    // what the schema says is another matter
    let _c = custom_op("wi::view", |x: &Tensor| x.view([2, 1]))
        .schema("(Tensor(a) x) -> Tensor(a)")
        .register()
        .unwrap();
    assert!(call("wi::view").is_ok());
    let _d = custom_op("wi::inplace_", |x: &Tensor| x.add_(x))
        .schema("(Tensor(a!) x) -> Tensor(a!)")
        .register()
        .unwrap();
    let before = x.version();
    assert!(call("wi::inplace_").is_ok());
    assert_eq!(x.to_vec::<f32>().unwrap(), [2.0, 4.0]);
    assert!(x.version() > before);
    let _e = custom_op("wi::liar_", |x: &Tensor| x.add(1.0))
        .schema("(Tensor(a!) x) -> Tensor(a!)")
        .register()
        .unwrap();
    let error = call("wi::liar_").unwrap_err().to_string();
    assert!(error.contains("output 0 must be the argument `x` itself"), "{error}");
}

#[test]
fn fake_kernels_are_what_meta_tensors_and_compile_run() {
    let _turn = turn();
    let mut f = custom_op("wi::half", |x: &Tensor, by: f64| x.div(by))
        .args(["x", "by"])
        .register()
        .unwrap();
    let typed = f.handle().typed::<(&Tensor, f64), Tensor>().unwrap();
    let meta = Tensor::with(Device::META).empty([2, 3]).unwrap();
    let error = typed.call((&meta, 2.0)).unwrap_err();
    assert!(matches!(custom_error(&error), CustomOpError::NoFakeImpl { op } if op == "wi::half"));
    let x = Tensor::from_vec([1f32, 2.0], 2).unwrap();
    let compiled = compile(move |x: &Tensor| typed.call((x, 2.0)));
    let error = message(compiled.call(&x));
    assert!(error.contains("There was no fake impl registered for wi::half"), "{error}");

    let error = message(f.register_fake(|x: &Tensor| Ok(x.clone())));
    assert!(error.contains("inferred schema: (Tensor _0) -> Tensor _0"), "{error}");
    f.register_fake(|x: &Tensor, _by: f64| x.zeros_like()).unwrap();
    assert_eq!(typed.call((&meta, 2.0)).unwrap().sizes(), [2, 3]);
    let compiled = compile(move |x: &Tensor| typed.call((x, 2.0))?.add(1.0));
    for _ in 0..2 {
        assert_eq!(compiled.call(&x).unwrap().to_vec::<f32>().unwrap(), [1.5, 2.0]);
    }
    // nothing to say about an operator that returns nothing
    let _g = custom_op("wi::quiet", |_: &Tensor| Ok(())).register().unwrap();
    op("wi::quiet").call_boxed(&mut vec![meta.into()]).unwrap();
}

#[test]
fn kernels_for_devices_batches_and_autocast() {
    let _turn = turn();
    let log = Log::default();
    let mut f =
        custom_op("wi::many", |x: &Tensor| aten::clone(x, None)).args(["x"]).register().unwrap();
    let noted = log.clone();
    f.register_kernel(DeviceType::Cuda, move |x: &Tensor| {
        noted.push("cuda");
        Ok(sized(DeviceType::Cuda, x.sizes()))
    })
    .unwrap();
    let typed = f.handle().typed::<(&Tensor,), Tensor>().unwrap();
    typed.call((&on(DeviceType::Cuda),)).unwrap();
    assert_eq!(log.take(), ["cuda"]);
    let error = message(f.register_kernel(DeviceType::Cuda, |_: i64| Ok(1i64)));
    assert!(error.contains("inferred schema: (int _0) -> int _0"), "{error}");

    // batched tensors are whatever carries the key
    f.register_vmap(answers(&log, "batched")).unwrap();
    let batched = Tensor::opaque(3usize, &[2], DType::F32, Device::CPU);
    let keys = on(DeviceType::Cpu).key_set().add(K::FuncTorchBatched);
    typed.call((&batched.keys(keys).build().unwrap(),)).unwrap();
    assert!(log.take()[0].starts_with("batched"));

    // autocast: f32 is cast, f64 and integers are not, and the operator runs with the key off
    f.register_autocast(DeviceType::Cpu, DType::BF16).unwrap();
    let dtype_of = |dtype| {
        let x = Tensor::with(dtype).zeros([2]).unwrap();
        typed.call((&x,)).unwrap().dtype()
    };
    assert_eq!(dtype_of(DType::F32), DType::F32);
    {
        let now = straightline::dispatch::TlsKeySets::current();
        let _on =
            straightline::dispatch::ForceKeySetGuard::new(straightline::dispatch::TlsKeySets {
                excluded: now.excluded.remove(K::AutocastCPU),
                ..now
            });
        assert_eq!(dtype_of(DType::F32), DType::BF16);
        assert_eq!(dtype_of(DType::F64), DType::F64);
        assert_eq!(dtype_of(DType::I64), DType::I64);
    }
    let error = message(f.register_autocast(DeviceType::Meta, DType::BF16));
    assert!(error.contains("device type 'meta' does not support autocast"), "{error}");
    let error = message(f.register_autocast(DeviceType::Cuda, DType::I32));
    assert!(error.contains("a floating point dtype, not"), "{error}");
}

#[test]
fn formulas_are_for_functional_operators() {
    let _turn = turn();
    let mut g = custom_op("wi::writes", |x: &Tensor| x.add_(x).map(drop))
        .args(["x"])
        .mutates_args(["x"])
        .register()
        .unwrap();
    let error = message(g.register_autograd(|_, _| Ok(vec![None]), |_, _, _| Ok(())));
    assert!(
        error.contains("Cannot register autograd formula for non-functional operator wi::writes with schema wi::writes(Tensor(a0!) x) -> ()"),
        "{error}"
    );
    let mut f = custom_op("wi::reads", |x: &Tensor, y: &Tensor| x.mul(y)).register().unwrap();
    assert!(f.autograd_formula().is_none());
    f.register_autograd(|_, _| Ok(vec![None]), |_, _, _| Ok(())).unwrap();
    let x: Value = Tensor::from_vec([1f32], 1).unwrap().into();
    let formula = f.autograd_formula().unwrap();
    let error = message(formula.gradients(&[x.clone(), x.clone()], &[x], &[None]));
    assert!(error.contains("the backward of 2 inputs gave 1 gradients"), "{error}");
}

#[test]
fn kernels_of_every_kind_under_one_key() {
    let _turn = turn();
    let log = Log::default();
    let mut lib = Library::new("wi_kinds").unwrap();
    let f = lib.def("f(Tensor x) -> Tensor").unwrap();
    lib.impl_at("f", K::CPU, |x: &Tensor| Ok(x.clone())).unwrap();
    let mut fallback = Library::fallbacks(K::TESTING_ONLY_GenericMode).unwrap();
    fallback.fallback(passes_on(&log, "fallback", K::TESTING_ONLY_GenericMode)).unwrap();
    let _on = IncludeGuard::new(K::TESTING_ONLY_GenericMode);
    let run = || f.call_boxed(&mut vec![Tensor::from_vec([1f32], 1).unwrap().into()]).unwrap();
    run();
    assert_eq!(log.take().len(), 1);
    // an operator opts out by a fallthrough of its own
    let mut own = Library::implementation("wi_kinds", K::TESTING_ONLY_GenericMode).unwrap();
    own.fallthrough("f").unwrap();
    run();
    assert_eq!(log.take().len(), 0);
    assert!(dump(f).contains(":: (none) [ fallthrough boxed ]"));
    // or answers itself
    own.impl_("f", answers(&log, "own")).unwrap();
    run();
    assert_eq!(log.take().len(), 1);
    drop(own);
    run();
    assert!(log.take()[0].starts_with("fallback"));
}

/// What a program that imports everything sees.
mod everything_imported {
    use std::sync::{Arc, Mutex};
    use straightline::dispatch::*;

    #[test]
    fn methods_of_other_types_stay_theirs() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let kernel = Kernel::boxed(move |op, _keys, _stack| {
            log.lock().unwrap().push(op.name().to_string());
            Ok(())
        });
        let op = operator("aten::relu").unwrap();
        kernel.call_boxed(op, DispatchKeySet::EMPTY, &mut Vec::new()).unwrap();
        assert_eq!(*seen.lock().unwrap(), ["aten::relu"]);
    }
}
