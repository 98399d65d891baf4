//! Wrapper tensors in eager execution.

use super::*;
use crate::dispatch::{DispatchKey, Value};
use crate::error::ErrorKind;
use crate::modes::{ModeError, TensorSubclass, register_rule, subclass};
use std::sync::{Arc, Mutex};
use straightline_catalog::{DType, Device};

pub(super) type Lines = Arc<Mutex<Vec<String>>>;

/// Logs each call and works on the tensor inside; results are wrapped again.
pub(super) struct Logged {
    pub(super) inner: Tensor,
    pub(super) lines: Lines,
}

pub(super) fn logged(inner: Tensor, lines: &Lines) -> Tensor {
    let like = inner.clone();
    let lines = lines.clone();
    subclass::wrap_like(Logged { inner, lines }, &like).unwrap()
}

impl TensorSubclass for Logged {
    fn dispatch(&self, mut call: Call<'_>) -> Result<Outcome> {
        self.lines.lock().unwrap().push(call.to_string());
        call.map_tensors(|t| subclass::of::<Logged>(t).map_or(t.clone(), |l| l.inner.clone()));
        let values = call.forward()?;
        let wrap = |v: Value| match v {
            Value::Tensor(t) => Value::Tensor(logged(t, &self.lines)),
            other => other,
        };
        Ok(values.into_iter().map(wrap).collect::<Vec<_>>().into())
    }

    fn inner(&self) -> Vec<&Tensor> {
        vec![&self.inner]
    }

    fn with_inner(&self, inner: Vec<Tensor>) -> Self {
        Logged { inner: inner[0].clone(), lines: self.lines.clone() }
    }

    fn same_context(&self, _other: &Self) -> bool {
        true
    }
}

/// Declines everything.
struct Shy<const N: usize>(Tensor);

impl<const N: usize> TensorSubclass for Shy<N> {
    fn dispatch(&self, _call: Call<'_>) -> Result<Outcome> {
        Ok(Outcome::NotImplemented)
    }

    fn inner(&self) -> Vec<&Tensor> {
        vec![&self.0]
    }

    fn with_inner(&self, inner: Vec<Tensor>) -> Self {
        Shy(inner[0].clone())
    }

    fn same_context(&self, _other: &Self) -> bool {
        true
    }

    fn name(&self) -> String {
        format!("Shy{N}")
    }
}

fn shy<const N: usize>() -> Tensor {
    subclass::wrap(Shy::<N>(ones(&[1])), &[1], DType::F32, Device::CPU).unwrap()
}

#[test]
fn a_wrapper_has_the_keys_that_pytorchs_has() {
    assert_eq!(
        shy::<0>().key_set().to_string(),
        "DispatchKeySet(CPU, Python, ADInplaceOrView, AutogradCPU, AutocastCPU, PythonTLSSnapshot)"
    );
    assert!(subclass::is_subclass(&shy::<0>()) && !subclass::is_subclass(&ones(&[1])));
    assert!(subclass::wrap(Shy::<0>(ones(&[1])), &[-1], DType::F32, Device::CPU).is_err());
}

#[test]
fn operators_on_a_wrapper_go_to_its_handler() {
    let lines = Lines::default();
    let x = logged(ones(&[2, 3]), &lines);
    let w = ones(&[4, 3]);
    let y = crate::ops::aten::linear(&x, &w, None).unwrap();
    let y = subclass::of::<Logged>(&y).unwrap();
    assert_eq!(y.inner.to_vec::<f32>().unwrap(), [3.0; 8]);
    // composites have come apart; `t` of the plain weight reaches no handler
    assert_eq!(*lines.lock().unwrap(), ["aten::mm(f32[2,3], f32[3,4])"]);
    assert_clean();
}

#[test]
fn in_place_calls_on_a_wrapper_return_the_wrapper() {
    let lines = Lines::default();
    let x = logged(ones(&[2]), &lines);
    let y = x.add_(1).unwrap();
    assert!(y.is_same(&x));
    let inner = &subclass::of::<Logged>(&x).unwrap().inner;
    assert_eq!(inner.to_vec::<f32>().unwrap(), [2.0, 2.0]);
}

#[test]
fn modes_come_before_wrappers() {
    let log = log();
    let lines = Lines::default();
    let x = logged(ones(&[1]), &lines);
    let _mode = pushed("mode", &log);
    x.relu().unwrap();
    // the mode forwards the call on the wrapper, and is off the stack while the wrapper works
    assert_eq!(taken(&log), ["mode aten::relu(f32[1])"]);
    assert_eq!(lines.lock().unwrap().len(), 1);
}

#[test]
fn a_mode_that_declines_wrappers_sees_what_they_call() {
    let log = log();
    let lines = Lines::default();
    let x = logged(ones(&[1]), &lines);
    let seen = log.clone();
    let _mode = push_mode(from_fn(move |call: Call<'_>| {
        if call.tensors().any(subclass::is_subclass) {
            return Ok(Outcome::NotImplemented);
        }
        seen.borrow_mut().push(call.to_string());
        Ok(call.forward()?.into())
    }));
    x.relu().unwrap();
    assert_eq!(taken(&log), ["aten::relu(f32[1])"]);
    assert_eq!(lines.lock().unwrap().len(), 1);
}

#[test]
fn not_implemented_moves_on_in_argument_order() {
    let lines = Lines::default();
    let x = logged(ones(&[1]), &lines);
    // the first type declines, the second handles and is given both
    let e = shy::<0>().add(&x);
    assert!(e.is_err(), "its handler meets a Shy that nobody unwraps");
    assert_eq!(*lines.lock().unwrap(), ["aten::add.Tensor(f32[1], f32[1])"]);

    let list = [shy::<1>(), shy::<0>(), shy::<1>()];
    let _mode = push_mode(declining());
    let e = crate::ops::aten::cat(&list, 0).unwrap_err();
    let ErrorKind::Mode(ModeError::AllDeclined { handlers, .. }) = e.kind() else {
        panic!("{e}");
    };
    assert_eq!(*handlers, ["mode `from_fn`", "tensor subclass `Shy1`", "tensor subclass `Shy0`"]);
}

#[test]
fn wrappers_nest() {
    let lines = Lines::default();
    let x = logged(logged(ones(&[1]), &lines), &lines);
    let y = x.relu().unwrap();
    assert_eq!(lines.lock().unwrap().len(), 2);
    let once = &subclass::of::<Logged>(&y).unwrap().inner;
    let twice = &subclass::of::<Logged>(once).unwrap().inner;
    assert_eq!(twice.to_vec::<f32>().unwrap(), [1.0]);
}

#[test]
fn a_handler_that_calls_itself_for_ever_is_stopped() {
    struct Loop(Tensor);
    impl TensorSubclass for Loop {
        fn dispatch(&self, call: Call<'_>) -> Result<Outcome> {
            Ok(call.forward()?.into())
        }
        fn inner(&self) -> Vec<&Tensor> {
            vec![&self.0]
        }
        fn with_inner(&self, inner: Vec<Tensor>) -> Self {
            Loop(inner[0].clone())
        }
        fn same_context(&self, _other: &Self) -> bool {
            true
        }
    }
    let x = subclass::wrap_like(Loop(ones(&[1])), &ones(&[1])).unwrap();
    let e = x.relu().unwrap_err();
    let too_deep = matches!(e.kind(), ErrorKind::Mode(ModeError::TooDeep { .. }));
    assert!(too_deep, "{e}");
    assert_clean();
}

#[test]
fn a_wrapper_has_no_data_to_read() {
    let x = shy::<0>();
    assert!(x.to_vec::<f32>().is_err() && x.item::<f64>().is_err());
    let said = x.to_vec::<f32>().unwrap_err().to_string();
    assert!(said.contains("a wrapper tensor, a `Shy0`"), "{said}");
    assert!(!said.contains("captured"), "{said}");
    let _ = format!("{x:?} {x}");
}

#[test]
fn rules_of_an_operator_for_a_wrapper() {
    let x = shy::<7>();
    assert!(x.relu().is_err());
    let rule = register_rule("aten::relu", |s: &Shy<7>, _| Ok(s.0.relu()?.into())).unwrap();
    assert_eq!(x.relu().unwrap().to_vec::<f32>().unwrap(), [1.0]);
    drop(rule);
    assert!(x.relu().is_err());
}

#[test]
fn difference_names_what_differs() {
    let lines = Lines::default();
    let (a, b) = (logged(ones(&[2]), &lines), logged(ones(&[3]), &lines));
    assert_eq!(subclass::difference(&a, &logged(ones(&[2]), &lines)), None);
    let differ = |x: &Tensor, y: &Tensor| subclass::difference(x, y).unwrap();
    assert_eq!(differ(&a, &ones(&[2])), "a `Logged`, was a plain tensor");
    assert_eq!(differ(&a, &shy::<0>()), "a `Logged`, was a `Shy0`");
    assert_eq!(differ(&a, &b), "a `Logged` of another shape");
    let deep = logged(logged(ones(&[2]), &lines), &lines);
    assert_eq!(differ(&deep, &a), "a `Logged`, was a plain tensor");
    assert!(!a.key_set().has(DispatchKey::Functionalize));
}
