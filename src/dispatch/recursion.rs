//! Detects kernels that call themselves without end, directly or through others.
//!
//! A call compares where the stack is with an address that its thread keeps beside the key sets
//! (`tls`), and takes the slow path below it. That path records the operators entered from there
//! on, and shortly before the stack is used up it returns an error that lists them. Calls above the
//! address are not recorded; a recursion repeats itself anyway.

use super::error::DispatchError;
use super::operator::OperatorHandle;
use crate::error::Result;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use straightline_catalog::key::DispatchKey;
use straightline_catalog::keyset::DispatchKeySet;
use straightline_runtime::stack;

/// The most stack that is reserved for a kernel.
const RESERVE: usize = 512 << 10;

/// How many calls an error names if they do not repeat.
const SHOWN: usize = 12;

/// Addresses of a thread's stack, which grows downwards.
#[derive(Clone, Copy, Default)]
struct Limits {
    /// Below this address calls are recorded.
    noted: usize,
    /// Below this address calls fail.
    refused: usize,
    /// A stack that belongs to no thread, such as a coroutine's, may lie below.
    lowest: usize,
}

thread_local! {
    static LIMITS: Cell<Limits> = const { Cell::new(Limits { noted: 0, refused: 0, lowest: 0 }) };
    static TRAIL: RefCell<Vec<(OperatorHandle, DispatchKey)>> = const { RefCell::new(Vec::new()) };
}

/// Finds the thread's stack and returns the address below which calls ask [`step`].
pub(super) fn find_limits() -> usize {
    let limits = stack::bounds().map_or(Limits::default(), |stack| {
        let reserve = (stack.len() / 8).min(RESERVE);
        Limits {
            noted: stack.start + 2 * reserve,
            refused: stack.start + reserve,
            lowest: stack.start,
        }
    });
    LIMITS.set(limits);
    limits.noted
}

/// A call that is recorded while it lasts.
pub(super) struct Step(PhantomData<*const ()>);

impl Drop for Step {
    fn drop(&mut self) {
        TRAIL.with_borrow_mut(Vec::pop);
    }
}

/// Records a call if the stack is deep enough, or refuses it.
pub(super) fn step(op: OperatorHandle, keys: DispatchKeySet) -> Result<Option<Step>> {
    let (limits, at) = (LIMITS.get(), stack::here());
    if at >= limits.noted || at < limits.lowest {
        return Ok(None);
    }
    let call = (op, keys.highest_priority_key());
    if at < limits.refused {
        return Err(refusal(call));
    }
    TRAIL.with_borrow_mut(|trail| trail.push(call));
    Ok(Some(Step(PhantomData)))
}

/// The same of a captured function that is called while it is captured: there need be no operator
/// in between.
pub(crate) fn check_captured() -> Result<()> {
    let (limits, at) = (LIMITS.get(), stack::here());
    match (limits.lowest..limits.refused).contains(&at) {
        true => Err(crate::Error::runtime(
            "a compiled function calls itself without end: its stack is used up",
        )),
        false => Ok(()),
    }
}

#[cold]
fn refusal(call: (OperatorHandle, DispatchKey)) -> crate::Error {
    let mut calls = TRAIL.with_borrow(|trail| trail.clone());
    calls.push(call);
    let round = round(&calls);
    let shown = round.unwrap_or(SHOWN.min(calls.len()));
    DispatchError::Recursion {
        op: call.0.name().to_string(),
        calls: (calls[calls.len() - shown..].iter())
            .map(|(op, key)| format!("{} [{key}]", op.name()))
            .collect(),
        repeats: round.is_some(),
    }
    .into()
}

/// The length of the cycle that the last calls repeat.
fn round<T: PartialEq>(calls: &[T]) -> Option<usize> {
    (1..=calls.len() / 3).find(|n| {
        let last = &calls[calls.len() - 3 * n..];
        last[..2 * n] == last[*n..]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::{Library, OperatorHandle, Value, operator};
    use crate::error::{Error, ErrorKind};
    use crate::tensor::Tensor;

    #[test]
    fn rounds() {
        assert_eq!(round(&[1, 2, 1, 2, 1, 2]), Some(2));
        assert_eq!(round(&[7, 7, 7]), Some(1));
        assert_eq!(round(&[1, 2, 3, 1, 2, 3, 1, 2]), None);
    }

    fn calls_of(e: &Error) -> (Vec<String>, bool) {
        match e.kind() {
            ErrorKind::Dispatch(DispatchError::Recursion { calls, repeats, .. }) => {
                (calls.clone(), *repeats)
            }
            _ => panic!("{e}"),
        }
    }

    /// Calls `op` here and on a thread with a small stack.
    fn fails(op: OperatorHandle, expected: &[&str]) {
        let call = || {
            let x = Tensor::from_vec([1f32], 1).unwrap();
            for _ in 0..2 {
                let e = op.call_boxed(&mut vec![x.clone().into()]).unwrap_err();
                let (calls, repeats) = calls_of(&e);
                assert!(repeats, "{e}");
                // the cycle may begin at any call
                let at = calls.iter().position(|c| c == expected[0]).unwrap();
                let from_first: Vec<&String> = calls[at..].iter().chain(&calls[..at]).collect();
                assert_eq!(from_first, expected);
            }
            // the thread is as good as new
            assert_eq!((&x + &x).to_vec::<f32>().unwrap(), [2.0]);
        };
        std::thread::scope(|scope| {
            for size in [256 << 10, 8 << 20] {
                let thread = std::thread::Builder::new().stack_size(size);
                thread.spawn_scoped(scope, call).unwrap().join().unwrap();
            }
        });
    }

    #[test]
    fn a_kernel_that_calls_itself_is_told_so() {
        let mut lib = Library::new("recursion_one").unwrap();
        lib.def("f(Tensor x) -> Tensor").unwrap();
        let f = operator("recursion_one::f").unwrap();
        lib.impl_at("f", DispatchKey::CPU, move |x: &Tensor| {
            f.typed::<(&'static Tensor,), Tensor>()?.call((x,))
        })
        .unwrap();
        fails(f, &["recursion_one::f [CPU]"]);
        let x = Tensor::from_vec([1f32], 1).unwrap();
        let e = f.call_boxed(&mut vec![x.into()]).unwrap_err().to_string();
        assert!(e.contains("recursion_one::f [CPU]") && e.contains("redispatch"), "{e}");
    }

    #[test]
    fn so_are_kernels_that_call_each_other() {
        let mut lib = Library::new("recursion_two").unwrap();
        for name in ["f", "g"] {
            lib.def(&format!("{name}(Tensor x) -> Tensor")).unwrap();
        }
        let [f, g] = ["f", "g"].map(|n| operator(&format!("recursion_two::{n}")).unwrap());
        let to = |op: OperatorHandle| {
            move |x: &Tensor| -> Result<Tensor> {
                let mut stack: Vec<Value> = vec![x.clone().into()];
                op.call_boxed(&mut stack)?;
                match stack.pop() {
                    Some(Value::Tensor(t)) => Ok(t),
                    other => panic!("{other:?}"),
                }
            }
        };
        lib.impl_at("f", DispatchKey::CPU, to(g)).unwrap();
        lib.impl_at("g", DispatchKey::CPU, to(f)).unwrap();
        fails(f, &["recursion_two::f [CPU]", "recursion_two::g [CPU]"]);
    }

    #[test]
    fn so_is_one_that_redispatches_to_its_own_key() {
        let mut lib = Library::new("recursion_key").unwrap();
        lib.def("f(Tensor x) -> Tensor").unwrap();
        let f = operator("recursion_key::f").unwrap();
        lib.impl_at("f", DispatchKey::CPU, move |x: &Tensor| {
            let typed = f.typed::<(&'static Tensor,), Tensor>()?;
            typed.redispatch(DispatchKey::CPU.into(), (x,))
        })
        .unwrap();
        fails(f, &["recursion_key::f [CPU]"]);
    }
}
