//! Generators, and settings of the thread and the process.

use super::*;
use crate::compile::compile;
use crate::dispatch::{DispatchKey, IncludeGuard};
use crate::modes::autocast::{AutocastOptions, autocast, autocast_dtype, autocast_with};
use crate::{DType, DeviceType, Generator, manual_seed, num_threads, set_num_threads};
use std::sync::Arc;

#[test]
fn generators_are_not_seeded_or_read_by_a_captured_function() {
    type Act = fn(&Generator) -> Result<f64>;
    let acts: [(&str, Act); 6] = [
        ("manual_seed", |_| {
            manual_seed(3);
            Ok(0.0)
        }),
        ("set_seed", |g| {
            g.set_seed(3);
            Ok(0.0)
        }),
        ("seed", |g| Ok((g.seed() % 2) as f64)),
        ("initial_seed", |g| Ok(g.initial_seed() as f64)),
        ("state", |g| Ok(g.state()?.numel() as f64)),
        ("set_state", |g| {
            let state = Tensor::from_vec([0u8; 4], -1)?;
            let _ = g.set_state(&state);
            Ok(0.0)
        }),
    ];
    for (name, act) in acts {
        let g = Generator::new(7);
        let before = g.state().unwrap().to_vec::<u8>().unwrap();
        let mine = g.clone();
        let f = compile(move |x: &Tensor| x.add(act(&mine)?));
        let e = f.call(&vec(&[1.0])).unwrap_err();
        assert!(is_not_captured(&e), "{name}: {e}");
        names_a_line(&e);
        let after = g.state().unwrap().to_vec::<u8>().unwrap();
        assert_eq!(before, after, "{name} was done all the same");
    }
    // with the fallback, each call seeds
    let f = eagerly(|x: &Tensor| {
        let g = Generator::new(5);
        g.set_seed(9);
        x.add(&Tensor::with(DType::F32).generator(&g).randn([1])?)
    });
    let first = values(&f.call(&vec(&[1.0])).unwrap());
    assert_eq!(values(&f.call(&vec(&[1.0])).unwrap()), first);
}

#[test]
fn the_number_of_threads_is_guarded_and_not_set() {
    let f = compile(|x: &Tensor| {
        set_num_threads(1);
        x.neg()
    });
    let e = f.call(&vec(&[1.0])).unwrap_err();
    assert!(is_not_captured(&e), "{e}");
    names_a_line(&e);
    let f = compile(|x: &Tensor| x.add(num_threads() as i64));
    let n = num_threads() as f32;
    assert_eq!(values(&f.call(&vec(&[0.0])).unwrap()), [n]);
}

#[test]
fn settings_of_the_thread_that_are_left_changed_are_refused() {
    let f = compile(|x: &Tensor| {
        std::mem::forget(IncludeGuard::new(DispatchKey::TESTING_ONLY_GenericMode));
        x.neg()
    });
    std::thread::spawn(move || {
        let e = f.call(&vec(&[1.0])).unwrap_err();
        assert!(is_not_captured(&e), "{e}");
        names_a_line(&e);
    })
    .join()
    .unwrap();
    let f = compile(|x: &Tensor| {
        std::mem::forget(autocast(DeviceType::Cpu, None)?);
        x.neg()
    });
    std::thread::spawn(move || {
        let e = f.call(&vec(&[1.0])).unwrap_err();
        assert!(is_not_captured(&e), "{e}");
    })
    .join()
    .unwrap();
}

#[test]
fn a_low_precision_from_outside_is_guarded_if_it_matters() {
    let w = Tensor::from_slice(&[1f32; 4], &[2, 2]).unwrap();
    let f = compile(move |x: &Tensor| {
        let _on = autocast(DeviceType::Cpu, None)?;
        x.mm(&w)
    });
    let x = Tensor::from_slice(&[1f32; 4], &[2, 2]).unwrap();
    let off = |dtype| {
        let options =
            AutocastOptions { dtype: Some(dtype), enabled: false, ..AutocastOptions::default() };
        autocast_with(DeviceType::Cpu, options).unwrap()
    };
    for _ in 0..2 {
        assert_eq!(f.call(&x).unwrap().dtype(), DType::BF16);
        let _off = off(DType::F16);
        assert_eq!(f.eager(&x).unwrap().dtype(), DType::F16);
        assert_eq!(f.call(&x).unwrap().dtype(), DType::F16);
    }
    let f = compile(|x: &Tensor| match autocast_dtype(DeviceType::Cpu)? {
        DType::F16 => x.neg(),
        _ => x.add(100),
    });
    let x = vec(&[1.0]);
    for _ in 0..2 {
        assert_eq!(values(&f.call(&x).unwrap()), [101.0]);
        let _off = off(DType::F16);
        assert_eq!(values(&f.call(&x).unwrap()), [-1.0]);
    }
    let f = Arc::new(f);
    assert_eq!(f.variants(), 2);
}
