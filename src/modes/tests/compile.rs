//! Modes and wrapper tensors together with `compile()`.

use super::wrappers::{Lines, Logged, logged};
use super::*;
use crate::compile::{CompileEvent, compile};
use crate::modes::{NanFinder, TensorSubclass, subclass};

#[test]
fn a_compiled_function_runs_eagerly_under_a_mode() {
    let f = compile(|x: &Tensor| x.relu()?.add(1));
    let x = ones(&[2]);
    let log = log();
    {
        let _mode = pushed("m", &log);
        assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), [2.0, 2.0]);
        f.call(&x).unwrap();
    }
    assert_eq!(taken(&log).len(), 4);
    assert_eq!(f.variants(), 0);
    let by = "dispatch mode `from_fn`".to_string();
    assert_eq!(f.events(), [CompileEvent::Intercepted { by }]);
    f.call(&x).unwrap();
    assert_eq!(f.variants(), 1);
    // what is compiled already is not used either
    let _mode = pushed("m", &log);
    f.call(&x).unwrap();
    assert_eq!(taken(&log).len(), 2);
}

#[test]
fn every_kind_of_interception_makes_it_run_eagerly() {
    let f = compile(|x: &Tensor| x.relu());
    let x = ones(&[2]);
    let log = log();
    {
        let _mode = pre_pushed("pre", &log);
        f.call(&x).unwrap();
    }
    {
        let table = crate::modes::python_dispatcher::Decompositions::new();
        let _resolver = crate::modes::python_dispatcher::enable(table);
        f.call(&x).unwrap();
    }
    let f = std::sync::Arc::new(f);
    let (inside, at) = (f.clone(), x.clone());
    let mode = push_mode(from_fn(move |call: Call<'_>| {
        inside.call(&at)?;
        Ok(call.forward()?.into())
    }));
    x.abs().unwrap();
    drop(mode);
    let said: Vec<String> = f.events().iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "ran eagerly: pre-dispatch mode `from_fn` is active on this thread",
            "ran eagerly: the PythonDispatcher is active on this thread",
            "ran eagerly: a handler, whose calls stay below the tracer, is active on this thread",
        ]
    );
    assert_eq!(f.variants(), 0);
}

#[test]
fn a_mode_pushed_by_the_captured_function_changes_what_is_recorded() {
    let f = compile(|x: &Tensor| {
        let _mode = push_mode(from_fn(|call: Call<'_>| {
            Ok(match call.is("aten::relu") {
                true => call.redirect("aten::neg")?.into(),
                false => call.forward()?.into(),
            })
        }));
        x.relu()?.add(1)
    });
    let x = ones(&[2]);
    let graph = f.trace(&x).unwrap().to_string();
    assert!(graph.contains("aten::neg") && !graph.contains("relu"), "{graph}");
    assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), [0.0, 0.0]);
    let before = crate::dispatch::call_count();
    assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), [0.0, 0.0]);
    assert_eq!(crate::dispatch::call_count(), before);
    assert_clean();
}

#[test]
fn such_a_mode_sees_what_it_would_see_in_eager_execution() {
    let program = |x: &Tensor, w: &Tensor| -> Result<(Vec<String>, Tensor)> {
        let log = log();
        let y = {
            let _modes = (pushed("outer", &log), pushed("inner", &log));
            let y = crate::ops::aten::linear(x, w, None)?;
            y.add_(1)?;
            y
        };
        Ok((taken(&log), y))
    };
    let (x, w) = (ones(&[2, 3]), ones(&[4, 3]));
    let (eager, want) = program(&x, &w).unwrap();
    let captured = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let lines = captured.clone();
    let f = compile(move |(x, w): &(Tensor, Tensor)| {
        let (seen, y) = program(x, w)?;
        *lines.lock().unwrap() = seen;
        Ok(y)
    });
    let inputs = (x, w);
    let got = f.call(&inputs).unwrap();
    assert_eq!(*captured.lock().unwrap(), eager);
    assert_eq!(eager.len(), 6);
    assert_eq!(got.to_vec::<f32>().unwrap(), want.to_vec::<f32>().unwrap());
}

#[test]
fn a_finder_inside_a_captured_function_is_refused() {
    let f = compile(|x: &Tensor| {
        let _guard = NanFinder::new().push();
        x.relu()
    });
    let e = f.call(&ones(&[1])).unwrap_err();
    assert!(e.to_string().contains("NanFinder"), "{e}");
    assert_clean();
}

#[test]
fn a_wrapper_argument_is_looked_through() {
    let lines = Lines::default();
    let x = logged(ones(&[2, 3]), &lines);
    let w = ones(&[4, 3]);
    let f = compile(|(x, w): &(Tensor, Tensor)| crate::ops::aten::linear(x, w, None)?.relu());
    let inputs = (x, w);
    let graph = f.trace(&inputs).unwrap().to_string();
    assert!(graph.contains("aten::mm") && graph.contains("aten::relu"), "{graph}");
    // the handler saw in capture what it sees in eager execution
    let captured = std::mem::take(&mut *lines.lock().unwrap());
    f.eager(&inputs).unwrap();
    let eager = std::mem::take(&mut *lines.lock().unwrap());
    assert_eq!(captured, eager);
    let y = f.call(&inputs).unwrap();
    lines.lock().unwrap().clear();
    // a replay rebuilds the wrapper around the computed tensor, and no handler runs
    let before = crate::dispatch::call_count();
    let again = f.call(&inputs).unwrap();
    assert_eq!(crate::dispatch::call_count(), before);
    assert!(lines.lock().unwrap().is_empty());
    for y in [y, again] {
        assert_eq!((y.sizes(), f.variants()), (&[2i64, 4][..], 1));
        let y = subclass::of::<Logged>(&y).unwrap();
        assert_eq!(y.inner.to_vec::<f32>().unwrap(), [3.0; 8]);
    }
    // plain tensors of the same shapes are another program
    let plain = (ones(&[2, 3]), ones(&[4, 3]));
    assert!(!subclass::is_subclass(&f.call(&plain).unwrap()));
    assert_eq!(f.variants(), 2);
    let reason = match f.events().last() {
        Some(CompileEvent::Compiled { misses, .. }) => misses[0].reason.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(reason, "tensor 0: a plain tensor, was a `Logged`");
    assert!(subclass::is_subclass(&f.call(&inputs).unwrap()));
    assert_eq!(f.variants(), 2);
}

#[test]
fn writes_reach_the_tensor_inside() {
    let f = compile(|x: &Tensor| {
        x.add_(1)?;
        x.mul(2)
    });
    let lines = Lines::default();
    let inner = ones(&[2]);
    let x = logged(inner.clone(), &lines);
    for n in 1..4 {
        let y = f.call(&x).unwrap();
        let y = &subclass::of::<Logged>(&y).unwrap().inner;
        let want = 1.0 + n as f32;
        assert_eq!(inner.to_vec::<f32>().unwrap(), [want; 2]);
        assert_eq!(y.to_vec::<f32>().unwrap(), [2.0 * want; 2]);
    }
    assert_eq!(f.variants(), 1);
}

#[test]
fn a_closed_over_wrapper_is_a_parameter_read_at_each_call() {
    let lines = Lines::default();
    let inner = ones(&[2]);
    let w = logged(inner.clone(), &lines);
    let f = compile(move |x: &Tensor| x.mul(&w));
    let x = ones(&[2]);
    let value = |y: Tensor| {
        let y = &subclass::of::<Logged>(&y).unwrap().inner;
        y.to_vec::<f32>().unwrap()
    };
    assert_eq!(value(f.call(&x).unwrap()), [1.0, 1.0]);
    inner.mul_(5).unwrap();
    assert_eq!(value(f.call(&x).unwrap()), [5.0, 5.0]);
    assert_eq!(f.variants(), 1);
}

#[test]
fn wrappers_made_and_opened_inside_leave_no_trace() {
    let lines = Lines::default();
    let own = lines.clone();
    let f = compile(move |x: &Tensor| {
        let y = logged(x.clone(), &own).relu()?;
        match subclass::of::<Logged>(&y) {
            Some(l) => l.inner.add(1),
            None => Ok(y),
        }
    });
    let x = Tensor::from_slice(&[-1f32, 2.0], &[2]).unwrap();
    for _ in 0..2 {
        assert_eq!(f.call(&x).unwrap().to_vec::<f32>().unwrap(), [1.0, 3.0]);
    }
    assert_eq!(lines.lock().unwrap().len(), 1);
}

#[test]
fn nested_wrappers_and_modes_compose_in_capture() {
    let lines = Lines::default();
    let x = logged(logged(ones(&[2]), &lines), &lines);
    let modes = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = modes.clone();
    let f = compile(move |x: &Tensor| {
        let seen = seen.clone();
        let _mode = push_mode(from_fn(move |call: Call<'_>| {
            if call.tensors().any(subclass::is_subclass) {
                return Ok(Outcome::NotImplemented);
            }
            seen.lock().unwrap().push(call.to_string());
            Ok(call.forward()?.into())
        }));
        x.neg()
    });
    for _ in 0..2 {
        let y = f.call(&x).unwrap();
        let once = &subclass::of::<Logged>(&y).unwrap().inner;
        let twice = &subclass::of::<Logged>(once).unwrap().inner;
        assert_eq!(twice.to_vec::<f32>().unwrap(), [-1.0, -1.0]);
    }
    assert_eq!(lines.lock().unwrap().len(), 2);
    assert_eq!(*modes.lock().unwrap(), ["aten::neg(f32[2])"]);
}

#[test]
fn another_context_is_another_variant() {
    /// Multiplies by a number that is part of the program.
    struct Times(Tensor, f64);
    impl TensorSubclass for Times {
        fn dispatch(&self, mut call: Call<'_>) -> Result<Outcome> {
            call.map_tensors(|t| subclass::of::<Times>(t).map_or(t.clone(), |s| s.0.clone()));
            let values = call.forward()?;
            match &values[..] {
                [crate::dispatch::Value::Tensor(t)] => Ok(t.mul(self.1)?.into()),
                _ => Ok(Outcome::NotImplemented),
            }
        }
        fn inner(&self) -> Vec<&Tensor> {
            vec![&self.0]
        }
        fn with_inner(&self, inner: Vec<Tensor>) -> Self {
            Times(inner[0].clone(), self.1)
        }
        fn same_context(&self, other: &Self) -> bool {
            self.1 == other.1
        }
    }
    let times = |by: f64| subclass::wrap_like(Times(ones(&[2]), by), &ones(&[2])).unwrap();
    let f = compile(|x: &Tensor| x.relu());
    for by in [2.0, 3.0, 2.0] {
        assert_eq!(f.call(&times(by)).unwrap().to_vec::<f32>().unwrap(), [by as f32; 2]);
    }
    assert_eq!(f.variants(), 2);
}

#[test]
fn capture_inside_a_handler_is_refused_and_named() {
    let f = compile(|x: &Tensor| x.relu());
    let mode = push_mode(from_fn(move |call: Call<'_>| {
        let x = call.tensors().next().cloned().unwrap_or_else(|| ones(&[1]));
        let e = f.trace(&x).unwrap_err().to_string();
        assert!(e.contains("nothing can be captured here"), "{e}");
        let _again = crate::modes::reentrant_dispatch()?;
        assert!(f.trace(&x)?.to_string().contains("aten::relu"));
        Ok(x.into())
    }));
    ones(&[1]).abs().unwrap();
    drop(mode);
    assert_clean();
}

/// A matrix in two halves by rows: operators run on the parts.
struct Sharded([Tensor; 2]);

fn sharded(parts: [Tensor; 2]) -> Result<Tensor> {
    let rows = parts[0].sizes()[0] + parts[1].sizes()[0];
    let sizes = [rows, parts[0].sizes()[1]];
    let (dtype, device) = (parts[0].dtype(), parts[0].device());
    subclass::wrap(Sharded(parts), &sizes, dtype, device)
}

impl TensorSubclass for Sharded {
    fn dispatch(&self, call: Call<'_>) -> Result<Outcome> {
        if !(call.is("aten::mm") || call.is("aten::relu") || call.is("aten::add_.Tensor")) {
            return Ok(Outcome::NotImplemented);
        }
        let part = |i: usize| -> Result<Tensor> {
            let mut args = call.args().to_vec();
            for arg in &mut args {
                if let Some(s) = arg.as_tensor().and_then(subclass::of::<Sharded>) {
                    *arg = s.0[i].clone().into();
                }
            }
            let mut values = call.call(call.op(), args)?;
            match values.pop() {
                Some(crate::dispatch::Value::Tensor(t)) => Ok(t),
                other => panic!("{other:?}"),
            }
        };
        Ok(sharded([part(0)?, part(1)?])?.into())
    }

    fn inner(&self) -> Vec<&Tensor> {
        self.0.iter().collect()
    }

    fn with_inner(&self, inner: Vec<Tensor>) -> Self {
        Sharded([inner[0].clone(), inner[1].clone()])
    }

    fn same_context(&self, _other: &Self) -> bool {
        true
    }
}

#[test]
fn a_tensor_in_parts_multiplies_part_by_part() {
    let (top, bottom) = (ones(&[2, 3]), ones(&[1, 3]).add(1).unwrap());
    let a = sharded([top, bottom.clone()]).unwrap();
    let b = ones(&[3, 4]);
    let f = compile(|(a, b): &(Tensor, Tensor)| {
        let c = a.mm(b)?.relu()?;
        a.add_(a)?;
        Ok((c, b.add(1)?))
    });
    let inputs = (a.clone(), b);
    let graph = f.trace(&inputs).unwrap().to_string();
    assert_eq!(graph.matches("aten::mm").count(), 2, "{graph}");
    let mut last = 2.0;
    for _ in 0..3 {
        let (c, plain) = f.call(&inputs).unwrap();
        assert_eq!((c.sizes(), plain.sizes()), (&[3i64, 4][..], &[3i64, 4][..]));
        let c = subclass::of::<Sharded>(&c).unwrap();
        assert_eq!(c.0[1].to_vec::<f32>().unwrap(), [3.0 * last; 4]);
        last *= 2.0;
        assert_eq!(bottom.to_vec::<f32>().unwrap(), [last; 3]);
    }
    assert_eq!(f.variants(), 1);
    // what the handler does not know is an error, in capture as in eager execution
    let g = compile(|a: &Tensor| a.exp());
    let (e, captured) = (a.exp().unwrap_err(), g.call(&a).unwrap_err());
    assert!(e.to_string().contains("tensor subclass `Sharded`"), "{e}");
    assert!(captured.to_string().contains("tensor subclass `Sharded`"), "{captured}");
}

#[test]
fn old_wrappers_come_back_as_themselves() {
    let lines = Lines::default();
    let kept = logged(ones(&[2]), &lines);
    let own = kept.clone();
    let f = compile(move |(n, x): &(Tensor, Tensor)| {
        own.mul_(x)?;
        x.add_(1)?;
        Ok((x.clone(), n.neg()?, own.clone(), x.relu()?, n.clone()))
    });
    let inputs = (ones(&[3]), logged(ones(&[2]), &lines));
    let inner = |t: &Tensor| {
        let t = &subclass::of::<Logged>(t).unwrap().inner;
        t.to_vec::<f32>().unwrap()[0]
    };
    for (x, product) in [(2.0, 1.0), (3.0, 2.0), (4.0, 6.0)] {
        let (same, negative, closed, new, plain) = f.call(&inputs).unwrap();
        assert!(same.is_same(&inputs.1) && closed.is_same(&kept) && plain.is_same(&inputs.0));
        assert_eq!(negative.to_vec::<f32>().unwrap(), [-1.0; 3]);
        assert!(!new.is_same(&inputs.1));
        assert_eq!((inner(&same), inner(&new), inner(&closed)), (x, x, product));
    }
    assert_eq!(f.variants(), 1);
}
