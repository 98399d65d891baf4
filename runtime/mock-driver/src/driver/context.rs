//! Contexts: which one a thread uses, primary ones, and what is destroyed with one.

use super::{Driver, Failure, Session, new_handle, new_number, stream};
use crate::abi::Handle;
use crate::code::{Code, Outcome};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: usize,
    pub(crate) primary: bool,
    pub(crate) flags: u32,
    pub(crate) number: u64,
    /// the stream of null handles
    pub(crate) legacy: Handle,
    /// streams of `CU_STREAM_PER_THREAD`, by thread
    pub(crate) per_thread: BTreeMap<u64, Handle>,
    /// what every call gives since work failed
    pub(crate) broken: Option<Code>,
    /// contexts whose memory this one may use
    pub(crate) peers: BTreeSet<Handle>,
    pub(crate) limits: BTreeMap<u32, usize>,
    pub(crate) cache: u32,
}

thread_local! {
    static CURRENT: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// A number for this thread.
pub(crate) fn thread() -> u64 {
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(new_number());
        }
        thread.get()
    })
}

/// The thread's current context, or zero.
pub(crate) fn current() -> Handle {
    CURRENT.with_borrow(|stack| stack.last().copied().unwrap_or(0))
}

/// Puts a context in the place of the current one; zero takes that one away.
pub(crate) fn set_current(context: Handle) {
    CURRENT.with_borrow_mut(|stack| {
        stack.pop();
        if context != 0 {
            stack.push(context);
        }
    });
}

/// Makes a context current until it is popped.
pub(crate) fn push(context: Handle) {
    CURRENT.with_borrow_mut(|stack| stack.push(context));
}

/// The context that was current.
pub(crate) fn pop() -> Option<Handle> {
    CURRENT.with_borrow_mut(Vec::pop)
}

impl Driver {
    /// The current context, whatever happened in it.
    pub(crate) fn any_context(&self) -> Outcome<Handle> {
        if !self.initialized {
            return Err(Code::NOT_INITIALIZED);
        }
        match current() {
            0 => Err(Code::INVALID_CONTEXT),
            context if self.contexts.contains_key(&context) => Ok(context),
            _ => Err(Code::CONTEXT_IS_DESTROYED),
        }
    }

    /// The current context, if no work failed in it.
    pub(crate) fn context(&self) -> Outcome<Handle> {
        let context = self.any_context()?;
        self.intact(context)?;
        Ok(context)
    }

    /// The error of a context where work failed.
    pub(crate) fn intact(&self, context: Handle) -> Outcome {
        match self.contexts.get(&context) {
            None => Err(Code::CONTEXT_IS_DESTROYED),
            Some(Context { broken: Some(code), .. }) => Err(*code),
            Some(_) => Ok(()),
        }
    }

    /// The device of a context.
    pub(crate) fn device_of(&self, context: Handle) -> Outcome<usize> {
        self.contexts.get(&context).map(|context| context.device).ok_or(Code::INVALID_CONTEXT)
    }

    /// Work failed: its context is of no use any more.
    pub(crate) fn fail(&mut self, context: Handle, failure: Failure) {
        self.fault = failure.text;
        if let Some(context) = self.contexts.get_mut(&context) {
            context.broken.get_or_insert(failure.code);
        }
    }

    /// A new context on a device.
    pub(crate) fn create_context(&mut self, device: usize, flags: u32, primary: bool) -> Handle {
        let handle = new_handle();
        let legacy = new_handle();
        self.streams.insert(legacy, stream::Stream::new(handle, 0, 0, stream::Kind::Legacy));
        self.contexts.insert(
            handle,
            Context {
                device,
                primary,
                flags,
                number: new_number(),
                legacy,
                per_thread: BTreeMap::new(),
                broken: None,
                peers: BTreeSet::new(),
                limits: BTreeMap::new(),
                cache: 0,
            },
        );
        handle
    }
}

impl Session {
    /// Runs what is queued in a context and takes away all that belongs to it.
    pub(crate) fn destroy_context(&mut self, context: Handle) {
        self.drain_context(context);
        let of = |owner: Handle| owner == context;
        self.tasks.retain(|_, task| !of(task.context));
        self.streams.retain(|_, stream| !of(stream.context));
        self.events.retain(|_, event| !of(event.context));
        let modules: Vec<Handle> =
            self.modules.iter().filter(|(_, module)| of(module.context)).map(|(h, _)| *h).collect();
        for module in modules {
            self.unload(module);
        }
        let blocks: Vec<u64> = self
            .allocations
            .iter()
            .filter(|(_, block)| of(block.context))
            .map(|(address, _)| *address)
            .collect();
        for address in blocks {
            self.release(address);
        }
        let pinned: Vec<usize> =
            self.pinned.iter().filter(|(_, range)| of(range.context)).map(|(a, _)| *a).collect();
        for address in pinned {
            self.unpin(address);
        }
        self.contexts.remove(&context);
    }
}
