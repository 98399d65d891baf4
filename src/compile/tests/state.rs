//! State that a captured function looks into or writes: `Mutex<Tensor>`, statics.

use super::*;
use crate::compile::compile;
use std::sync::{Arc, Mutex, OnceLock};

#[test]
fn a_running_mean_kept_in_a_mutex_is_refused_where_it_was_made() {
    let mean = Arc::new(Mutex::new(vec(&[0.0])));
    let state = mean.clone();
    let line = line!() + 3;
    let running = move |x: &Tensor| {
        let mut mean = state.lock().unwrap();
        let new = mean.mul(0.5)?.add(x)?;
        *mean = new.clone();
        x.sub(&new)
    };
    let f = compile(running.clone());
    let e = f.call(&vec(&[4.0])).unwrap_err();
    assert!(is_escape(&e), "{e}");
    assert!(
        matches!(e.kind(), ErrorKind::Escaped { made_by: Some(op), .. } if op == "aten::add.Tensor")
    );
    assert_eq!(names_a_line(&e), line);
    // returned and kept in the state
    *mean.lock().unwrap() = vec(&[0.0]);
    let state = mean.clone();
    let f = compile(move |x: &Tensor| {
        let mut mean = state.lock().unwrap();
        *mean = mean.add(x)?;
        Ok(mean.clone())
    });
    assert!(is_escape(&f.call(&vec(&[4.0])).unwrap_err()));
    // the tensor in the state has its value
    assert_eq!(values(&mean.lock().unwrap()), [4.0]);
    // the fallback runs it once a call
    *mean.lock().unwrap() = vec(&[0.0]);
    let f = eagerly(running);
    for (x, left, mean_then) in [(4.0, 0.0, 4.0), (4.0, -2.0, 6.0), (1.0, -3.0, 4.0)] {
        assert_eq!(values(&f.call(&vec(&[x])).unwrap()), [left]);
        assert_eq!(values(&mean.lock().unwrap()), [mean_then]);
    }
    let fell_back = |e: &CompileEvent| matches!(e, CompileEvent::EagerFallback { reason } if reason.contains("aten::add.Tensor"));
    assert!(!f.events().is_empty() && f.events().iter().all(fell_back));
    // what the message says to do
    *mean.lock().unwrap() = vec(&[0.0]);
    let state = mean.clone();
    let f = compile(move |x: &Tensor| {
        let mean = state.lock().unwrap();
        let new = mean.mul(0.5)?.add(x)?;
        mean.copy_(&new)?;
        x.sub(&new)
    });
    assert_eq!(values(&f.call(&vec(&[4.0])).unwrap()), [0.0]);
    assert_eq!(values(&f.call(&vec(&[4.0])).unwrap()), [-2.0]);
    assert_eq!(values(&mean.lock().unwrap()), [6.0]);
}

#[test]
fn other_things_that_keep_a_stand_in_are_refused() {
    static LAST: Mutex<Option<Tensor>> = Mutex::new(None);
    let f = compile(|x: &Tensor| {
        *LAST.lock().unwrap() = Some(x.clone());
        x.neg()
    });
    assert!(is_escape(&f.call(&vec(&[1.0])).unwrap_err()), "an argument");
    // a view of an argument, kept before the function fails
    let f = compile(|x: &Tensor| {
        *LAST.lock().unwrap() = Some(x.narrow(0, 1, 1)?);
        x.reshape(&[7])
    });
    let x = vec(&[1.0, 2.0]);
    let e = f.call(&x).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Meta(_)), "{e}");
    let last = LAST.lock().unwrap().take().unwrap();
    assert!(last.shares_storage_with(&x));
    last.fill_(5).unwrap();
    assert_eq!((values(&x), values(&last)), ([1.0f32, 5.0].to_vec(), [5.0f32].to_vec()));
    // a tensor that is dropped in time is not kept
    let f = compile(|x: &Tensor| {
        *LAST.lock().unwrap() = Some(x.clone());
        let y = LAST.lock().unwrap().take();
        y.map_or_else(|| x.exp(), |y| y.neg())
    });
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [-1.0]);
}

#[test]
fn a_tensor_that_is_assigned_in_place_of_another_is_noticed() {
    let first = vec(&[1.0]);
    let state = Arc::new(Mutex::new(first.clone()));
    let mine = state.clone();
    let f = compile(move |x: &Tensor| x.add(&mine.lock().unwrap().clone()));
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [2.0]);
    // the first one is still held elsewhere
    *state.lock().unwrap() = vec(&[10.0]);
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [11.0]);
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [11.0]);
    assert_eq!(compiled(&f), 2);
    // and with nobody else
    *state.lock().unwrap() = vec(&[20.0]);
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [21.0]);
    let events = f.events();
    assert!(matches!(&events[2], CompileEvent::Compiled { misses, .. }
        if misses.iter().any(|m| m.reason.contains("closed-over f32[1] was dropped"))));
    // the one that came back
    *state.lock().unwrap() = first;
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [2.0]);
}

#[test]
fn a_tensor_that_was_swapped_is_noticed_when_the_old_handle_goes() {
    let state = Arc::new(Mutex::new(vec(&[1.0])));
    let mine = state.clone();
    let f = compile(move |x: &Tensor| x.add(&*mine.lock().unwrap()));
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [2.0]);
    let old = std::mem::replace(&mut *state.lock().unwrap(), vec(&[10.0]));
    drop(old);
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [11.0]);
    // a result that is the state's tensor itself
    let mine = state.clone();
    let f = compile(move |_: &Tensor| Ok(mine.lock().unwrap().clone()));
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [10.0]);
    *state.lock().unwrap() = vec(&[20.0]);
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [20.0]);
}

#[test]
fn handles_that_come_and_go_compile_nothing_anew() {
    let weight = vec(&[1.0]);
    let mine = weight.clone();
    let f = compile(move |x: &Tensor| x.add(&mine));
    let before: Vec<Tensor> = (0..3).map(|_| weight.clone()).collect();
    f.call(&vec(&[1.0])).unwrap();
    drop(before);
    for _ in 0..5 {
        let more = [weight.clone(), weight.clone()];
        assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [2.0]);
        drop(more);
        assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [2.0]);
    }
    // another variant and a kept stage do not count
    let _traced = f.trace(&vec(&[1.0, 2.0])).unwrap();
    f.call(&vec(&[1.0, 2.0])).unwrap();
    drop(weight);
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [2.0]);
    assert_eq!((compiled(&f), f.variants()), (2, 2));
}

#[test]
fn a_tensor_of_nobody_is_refused() {
    let h = vec(&[1.0]);
    let state = Arc::new(Mutex::new(vec![vec(&[1.0]), vec(&[2.0])]));
    let mine = state.clone();
    // taken out of the state
    let f = compile(move |x: &Tensor| match mine.lock().unwrap().pop() {
        Some(t) => x.add(&t),
        None => x.neg(),
    });
    let e = f.call(&vec(&[1.0])).unwrap_err();
    assert!(is_not_captured(&e), "{e}");
    names_a_line(&e);
    // computed where capture does not see it
    let closed = h.clone();
    let elsewhere = move |x: &Tensor| {
        let closed = closed.clone();
        let y = std::thread::spawn(move || closed.mul(2)).join().unwrap()?;
        x.add(&y)
    };
    assert!(is_not_captured(&compile(elsewhere.clone()).call(&vec(&[1.0])).unwrap_err()));
    let f = eagerly(elsewhere);
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [3.0]);
    h.fill_(5).unwrap();
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [11.0]);
}

#[test]
fn a_table_made_from_data_may_be_kept() {
    static TABLE: OnceLock<Tensor> = OnceLock::new();
    let f = compile(|x: &Tensor| x.add(TABLE.get_or_init(|| vec(&[1.0]))));
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [2.0]);
    let table = TABLE.get().unwrap();
    table.fill_(5).unwrap();
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), [6.0]);
    // and is an ordinary tensor
    let with = crate::ops::aten::slice_scatter(table, &vec(&[2.0]), 0, None, None, 1).unwrap();
    assert_eq!((values(&with), values(table)), ([2.0f32].to_vec(), [5.0f32].to_vec()));
}

#[test]
fn state_that_each_call_sets_is_set_again() {
    let state = Arc::new(Mutex::new(vec(&[1.0])));
    let mine = state.clone();
    let f = compile(move |x: &Tensor| {
        *mine.lock().unwrap() = vec(&[0.0]);
        x.neg()
    });
    f.call(&vec(&[1.0])).unwrap();
    assert_eq!(values(&state.lock().unwrap()), [0.0]);
    *state.lock().unwrap() = vec(&[7.0]);
    f.call(&vec(&[1.0])).unwrap();
    assert_eq!(values(&state.lock().unwrap()), [0.0]);
    // written by operators, its memory does not have the values
    let mine = state.clone();
    let f = compile(move |x: &Tensor| {
        let count = vec(&[0.0]);
        count.add_(x)?;
        *mine.lock().unwrap() = count;
        x.neg()
    });
    assert!(is_escape(&f.call(&vec(&[1.0])).unwrap_err()));
}

#[test]
fn a_stand_in_on_another_thread_is_refused() {
    fn elsewhere(x: &Tensor) -> Result<Tensor> {
        let x = x.clone();
        std::thread::spawn(move || x.mul(2)).join().unwrap()
    }
    let y = |f: &Compiled<Tensor, Tensor>| f.call(&vec(&[3.0]));
    let e = y(&compile(elsewhere)).unwrap_err();
    assert!(is_not_captured(&e) && e.to_string().contains("on another thread"), "{e}");
    let f = eagerly(elsewhere);
    assert_eq!(values(&y(&f).unwrap()), [6.0]);
    assert_eq!(values(&y(&f).unwrap()), [6.0]);
    assert!(matches!(&f.events()[..], [CompileEvent::EagerFallback { .. }]));
    // a function that ignores the error, and one that reads
    let f = compile(|x: &Tensor| elsewhere(x).or_else(|_| x.neg()));
    assert!(is_not_captured(&y(&f).unwrap_err()));
    let f = compile(|x: &Tensor| {
        let copy = x.clone();
        let read = std::thread::spawn(move || copy.to_vec::<f32>()).join().unwrap();
        x.add(read.map_or(0.0, |v| v[0]))
    });
    assert!(is_not_captured(&y(&f).unwrap_err()));
}

#[test]
fn a_generator_of_ones_own_is_refused_by_the_name_of_the_call() {
    use crate::tensor::{Generator, manual_seed};
    let g = Generator::new(5);
    let expected = values(&Tensor::with(&g).randn([2]).unwrap());
    type Draw = fn(&Tensor, &Generator) -> Result<Tensor>;
    let draws: [(&str, Draw); 3] = [
        ("aten::randn.generator", |_, g| Tensor::with(g).randn([2])),
        ("aten::normal_", |x, g| crate::ops::aten::normal_(&x.copied()?, 0.0, 1.0, Some(g))),
        ("aten::randperm.generator", |_, g| Tensor::with(g).randperm(2)),
    ];
    for (op, draw) in draws {
        let mine = g.clone();
        let function = move |x: &Tensor| draw(x, &mine);
        let e = compile(function.clone()).call(&vec(&[0.0, 0.0])).unwrap_err();
        assert!(is_not_captured(&e), "{e}");
        assert!(e.to_string().contains(op) && e.to_string().contains("manual_seed"), "{e}");
        g.set_seed(5);
        let f = eagerly(function);
        let got = f.call(&vec(&[0.0, 0.0])).unwrap();
        assert!(matches!(&f.events()[..], [CompileEvent::EagerFallback { .. }]));
        if op != "aten::randperm.generator" {
            assert_eq!(values(&got), expected, "{op}");
        }
    }
    // the default generator, passed by name
    let f = compile(|x: &Tensor| x.add(&Tensor::with(Generator::default_cpu()).randn([2])?));
    for _ in 0..2 {
        manual_seed(3);
        let eager = values(&f.eager(&vec(&[0.0, 0.0])).unwrap());
        manual_seed(3);
        assert_eq!(values(&f.call(&vec(&[0.0, 0.0])).unwrap()), eager);
    }
}
