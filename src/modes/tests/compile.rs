//! Modes and wrapper tensors together with `compile()`.

use super::*;
use crate::compile::{CompileEvent, compile};
use crate::modes::NanFinder;

#[test]
fn a_compiled_function_runs_eagerly_under_a_mode() {
    let f = compile(|x: &Tensor| x.relu()?.add_scalar(1));
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
        x.relu()?.add_scalar(1)
    });
    let x = ones(&[2]);
    let graph = f.trace(&x).unwrap().to_string();
    assert!(
        graph.contains("aten::neg") && !graph.contains("relu"),
        "{graph}"
    );
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
            y.add_scalar_(1)?;
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
