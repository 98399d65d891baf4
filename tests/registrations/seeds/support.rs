//! What the tests share: turns at the one dispatcher of the process, tensors of devices that are
//! not there, logs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use straightline::dispatch::{
    DispatchKey, DispatchKeySet, Kernel, OperatorHandle, Stack, Value, dump_table, operator,
};
use straightline::{DType, Device, DeviceType, Result, Tensor};

/// Held by every test: they register kernels for the same operators.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A tensor on a device that this machine need not have: kernels of the tests know what to do with
/// it.
pub(crate) fn on(device: DeviceType) -> Tensor {
    sized(device, &[2])
}

pub(crate) fn sized(device: DeviceType, sizes: &[i64]) -> Tensor {
    Tensor::opaque((), sizes, DType::F32, Device::new(device)).build().unwrap()
}

pub(crate) fn message<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("should have failed"),
        Err(e) => e.to_string(),
    }
}

/// The row of a key in an operator's table, without the place: `[kernel]`.
pub(crate) fn row(op: OperatorHandle, key: DispatchKey) -> Option<String> {
    let table = dump_table(op);
    let line =
        table.lines().find(|l| l.strip_prefix(key.name()).is_some_and(|r| r.starts_with(':')))?;
    Some(line[line.rfind('[')?..].to_string())
}

pub(crate) fn op(name: &str) -> OperatorHandle {
    operator(name).unwrap()
}

/// A list that kernels write and tests read.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn push(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A boxed kernel that notes its name and the key set, and passes the call on below its key.
pub(crate) fn passes_on(log: &Log, name: &'static str, key: DispatchKey) -> Kernel {
    let log = log.clone();
    Kernel::boxed(move |op, keys, stack| {
        log.push(format!("{name} {keys}"));
        op.redispatch_boxed(keys & DispatchKeySet::full_after(key), stack)
    })
}

/// A boxed kernel that notes its name and gives back its first argument.
pub(crate) fn answers(log: &Log, name: &'static str) -> Kernel {
    let log = log.clone();
    Kernel::boxed(move |op, keys, stack| {
        log.push(format!("{name} {keys}"));
        let first = arguments(op, stack).swap_remove(0);
        stack.push(first);
        Ok(())
    })
}

/// Takes the operator's arguments off the stack.
pub(crate) fn arguments(op: OperatorHandle, stack: &mut Stack) -> Vec<Value> {
    let n = op.schema().map_or(0, |s| s.args.len());
    stack.split_off(stack.len() - n)
}

/// Counts this thread's allocations, so that a test can tell a call that boxes from one that does
/// not.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often a closure allocates.
pub(crate) fn allocations(f: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    f();
    ALLOCATIONS.get() - before
}
