//! Modes, wrapper tensors and resolvers, each rule of c10's by itself. Sequences of calls are those
//! that PyTorch 2.15 gives a `TorchDispatchMode` for the same programs.

mod compile;
mod modes;
mod pytorch;
mod resolver;
mod shipped;
mod wrappers;

use super::{Call, DispatchMode, ModeGuard, Outcome, from_fn, push_mode, push_pre_dispatch_mode};
use crate::dispatch::{DispatchKeySet, TlsKeySets};
use crate::error::Result;
use crate::tensor::Tensor;
use std::cell::RefCell;
use std::rc::Rc;

/// What handlers have seen.
type Log = Rc<RefCell<Vec<String>>>;

fn log() -> Log {
    Rc::default()
}

fn taken(log: &Log) -> Vec<String> {
    log.take()
}

/// A mode that logs `label op` and forwards.
fn logging(label: &'static str, log: &Log) -> impl DispatchMode {
    let log = log.clone();
    from_fn(move |call| {
        log.borrow_mut().push(label.to_string() + " " + &call.to_string());
        Ok(call.forward()?.into())
    })
}

fn ones(sizes: &[i64]) -> Tensor {
    Tensor::from_slice(&vec![1f32; sizes.iter().product::<i64>() as usize], sizes).unwrap()
}

/// That the thread is as a thread begins.
fn assert_clean() {
    let now = TlsKeySets::current();
    assert_eq!(now.included, DispatchKeySet::DEFAULT_INCLUDED);
    assert_eq!(now.excluded, DispatchKeySet::DEFAULT_EXCLUDED);
    assert_eq!(super::interception(), None);
}

/// Runs a closure and gives what a mode saw meanwhile.
fn seen<R>(f: impl FnOnce() -> Result<R>) -> Vec<String> {
    let log = log();
    let guard = push_mode(logging("", &log));
    f().unwrap();
    drop(guard);
    assert_clean();
    taken(&log).into_iter().map(|line| line.trim_start().to_string()).collect()
}

fn pushed(label: &'static str, log: &Log) -> ModeGuard {
    push_mode(logging(label, log))
}

fn pre_pushed(label: &'static str, log: &Log) -> ModeGuard {
    push_pre_dispatch_mode(logging(label, log))
}

fn declining() -> impl DispatchMode {
    from_fn(|_: Call<'_>| Ok(Outcome::NotImplemented))
}
