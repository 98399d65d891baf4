//! The `PythonDispatcher` key.

use super::*;
use crate::dispatch::{DispatchKey, IntoKernel, Library, OperatorHandle, operator};
use crate::modes::python_dispatcher::{Decompositions, Resolution, enable, is_enabled};
use crate::ops::aten;

/// A resolver that logs `op key` and leaves the choice to the table.
fn watching(log: &Log) -> impl Fn(OperatorHandle, DispatchKeySet) -> Result<Resolution> + use<> {
    let log = log.clone();
    move |op, keys| {
        assert!(!keys.has(DispatchKey::PythonDispatcher));
        let line = format!("{} {}", op.name().base(), keys.highest_priority_key());
        log.borrow_mut().push(line);
        Ok(Resolution::Default)
    }
}

#[test]
fn every_redispatch_is_intercepted_again() {
    let mut lib = Library::new("resolver_probe").unwrap();
    lib.def("probe(Tensor x) -> Tensor").unwrap();
    for key in [DispatchKey::AutogradCPU, DispatchKey::ADInplaceOrView] {
        let kernel = move |keys: DispatchKeySet, x: &Tensor| -> Result<Tensor> {
            operator("resolver_probe::probe")?
                .typed::<(&'static Tensor,), Tensor>()?
                .redispatch(keys & DispatchKeySet::full_after(key), (x,))
        };
        lib.impl_at("probe", key, kernel).unwrap();
    }
    lib.impl_at("probe", DispatchKey::CPU, |x: &Tensor| Ok(x.clone())).unwrap();
    let probe =
        operator("resolver_probe::probe").unwrap().typed::<(&'static Tensor,), Tensor>().unwrap();
    let log = log();
    let guard = enable(watching(&log));
    assert!(is_enabled());
    let x = ones(&[1]);
    probe.call((&x,)).unwrap();
    assert_eq!(taken(&log), ["probe AutogradCPU", "probe ADInplaceOrView", "probe CPU"]);
    // a set that a kernel masks itself, without the key, goes past the resolver
    probe.redispatch(DispatchKey::CPU.into(), (&x,)).unwrap();
    assert!(taken(&log).is_empty());
    drop(guard);
    assert_clean();
}

#[test]
fn calls_inside_a_composite_are_intercepted() {
    let log = log();
    let _guard = enable(watching(&log));
    aten::linear(&ones(&[2, 3]), &ones(&[4, 3]), None).unwrap();
    // only mm has a kernel below autograd to stop at; the composite is the autograd slot's own
    let seen = taken(&log);
    assert_eq!(seen[0], "linear AutogradCPU");
    assert!(seen.iter().any(|s| s.starts_with("t ")), "{seen:?}");
    assert!(seen.iter().any(|s| s.starts_with("mm ")), "{seen:?}");
}

#[test]
fn it_comes_before_modes_of_both_kinds() {
    let log = log();
    let _modes = (pushed("mode", &log), pre_pushed("pre", &log));
    let _guard = enable(watching(&log));
    ones(&[1]).relu().unwrap();
    assert_eq!(
        taken(&log),
        [
            "relu PreDispatch",
            "pre aten::relu(f32[1])",
            "relu PythonTLSSnapshot",
            "relu Python",
            "mode aten::relu(f32[1])",
            "relu CPU",
        ]
    );
}

#[test]
fn a_decomposition_takes_the_place_of_kernels_and_its_calls_are_seen() {
    let log = log();
    let mut table = Decompositions::new();
    let square = |x: &Tensor| -> Result<Tensor> { x.mul(x) };
    table.add("aten::abs", square.into_kernel()).unwrap();
    assert!(table.add("aten::nothing", square.into_kernel()).is_err());
    let _watch = enable(watching(&log));
    let inner = enable(table);
    let x = ones(&[1]).add(2).unwrap();
    taken(&log);
    assert_eq!(x.abs().unwrap().to_vec::<f32>().unwrap(), [9.0]);
    assert_eq!(taken(&log), ["mul CPU"]);
    drop(inner);
    assert_eq!(x.abs().unwrap().to_vec::<f32>().unwrap(), [3.0]);
    assert_eq!(taken(&log), ["abs CPU"]);
}

#[test]
fn a_key_can_be_chosen() {
    let _guard = enable(|op: OperatorHandle, keys: DispatchKeySet| {
        Ok(match op.has_kernel(DispatchKey::Meta) && keys.has(DispatchKey::CPU) {
            true => Resolution::Key(DispatchKey::CPU),
            false => Resolution::Default,
        })
    });
    assert_eq!(ones(&[1]).relu().unwrap().to_vec::<f32>().unwrap(), [1.0]);
}

#[test]
fn a_missing_kernel_is_the_usual_error() {
    let mut lib = Library::new("resolver_missing").unwrap();
    lib.def("nothing(Tensor x) -> Tensor").unwrap();
    let _guard = enable(watching(&log()));
    let nothing = operator("resolver_missing::nothing").unwrap();
    let e = nothing.call_boxed(&mut vec![ones(&[1]).into()]).unwrap_err();
    assert!(e.to_string().contains("Could not run 'resolver_missing::nothing'"), "{e}");
}

#[test]
fn the_resolver_itself_is_not_intercepted() {
    let log = log();
    let lines = log.clone();
    let _guard = enable(move |op: OperatorHandle, _: DispatchKeySet| {
        lines.borrow_mut().push(op.name().base().to_string());
        ones(&[1]).neg()?;
        Ok(Resolution::Default)
    });
    ones(&[1]).relu().unwrap();
    assert_eq!(taken(&log), ["relu"]);
}

#[test]
fn a_decomposition_that_calls_its_own_operator_is_stopped() {
    let mut table = Decompositions::new();
    let relu = |x: &Tensor| -> Result<Tensor> { x.relu() };
    table.add("aten::relu", relu.into_kernel()).unwrap();
    let guard = enable(table);
    let e = ones(&[1]).relu().unwrap_err();
    assert!(e.to_string().contains("must not call the operator that it stands for"), "{e}");
    drop(guard);
    assert_clean();
}
