//! What a lazy device keeps: its live storages, the programs it has compiled, its counters.

use crate::graph::{Content, Node, Operand, ViewStep};
use crate::program::{Program, see_through};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use straightline::dispatch::{DispatchKeySet, ForceKeySetGuard, OperatorHandle, TlsKeySets};
use straightline::{Compiled, ErrorKind, Result, Tensor, compile};

/// Recorded nodes after which a device runs what is pending: programs stay of a size that compiles
/// in a moment.
const PENDING_LIMIT: u64 = 2_000;

/// How often a device has done what.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Operators recorded.
    pub recorded: u64,
    /// Operators run on the CPU at once, since they cannot be recorded.
    pub on_cpu: u64,
    /// Programs compiled.
    pub compiled: u64,
    /// Runs of programs that were compiled before.
    pub replayed: u64,
    /// Runs of programs that `compile` could not take, operator by operator.
    pub eager: u64,
}

type Function = Compiled<Vec<Tensor>, Vec<Tensor>>;

#[derive(Default)]
pub(crate) struct Runtime {
    next: AtomicU64,
    pending: AtomicU64,
    live: Mutex<BTreeMap<u64, Weak<Storage>>>,
    programs: Mutex<HashMap<String, Arc<Function>>>,
    stats: Mutex<Stats>,
}

/// The memory that a tensor and its views share.
pub(crate) struct Storage {
    runtime: Arc<Runtime>,
    content: Mutex<Content>,
}

/// What a tensor of the device carries.
pub(crate) struct LazyTensor {
    pub(crate) storage: Arc<Storage>,
    pub(crate) views: Vec<ViewStep>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Storage {
    pub(crate) fn new(runtime: &Arc<Runtime>, content: Content) -> Arc<Storage> {
        let storage = Arc::new(Storage { runtime: runtime.clone(), content: Mutex::new(content) });
        let number = runtime.next.fetch_add(1, Ordering::Relaxed);
        lock(&runtime.live).insert(number, Arc::downgrade(&storage));
        storage
    }

    pub(crate) fn content(&self) -> Content {
        lock(&self.content).clone()
    }

    pub(crate) fn set(&self, content: Content) {
        *lock(&self.content) = content;
    }

    /// Puts a result in its place, unless another thread has written the storage meanwhile.
    fn is_now(&self, was: &Content, result: Tensor) {
        let mut content = lock(&self.content);
        if let (Content::Pending(a, i), Content::Pending(b, k)) = (&*content, was)
            && Arc::ptr_eq(a, b)
            && i == k
        {
            *content = Content::Ready(result);
        }
    }
}

impl LazyTensor {
    /// The elements, on the CPU; not to be written.
    pub(crate) fn on_cpu(&self) -> Result<Tensor> {
        let mut ran = Ok(());
        loop {
            match self.storage.content() {
                Content::Ready(base) => return see_through(base, &self.views),
                Content::Pending(..) => {
                    ran?;
                    ran = self.storage.runtime.sync();
                }
            }
        }
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("stats", &self.stats())
            .field("programs", &lock(&self.programs).len())
            .finish_non_exhaustive()
    }
}

impl Runtime {
    pub(crate) fn stats(&self) -> Stats {
        *lock(&self.stats)
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Stats)) {
        change(&mut lock(&self.stats));
    }

    /// Records a call.
    pub(crate) fn node(&self, op: OperatorHandle, operands: Vec<Operand<Content>>) -> Arc<Node> {
        self.pending.fetch_add(1, Ordering::Relaxed);
        self.count(|s| s.recorded += 1);
        Arc::new(Node { number: self.next.fetch_add(1, Ordering::Relaxed), op, operands })
    }

    /// Runs the pending work once there is much of it.
    pub(crate) fn sync_if_much(&self) -> Result<()> {
        if self.pending.load(Ordering::Relaxed) < PENDING_LIMIT {
            return Ok(());
        }
        self.sync()
    }

    /// Runs everything that is pending and still needed.
    pub(crate) fn sync(&self) -> Result<()> {
        let storages: Vec<Arc<Storage>> = {
            let mut live = lock(&self.live);
            live.retain(|_, s| s.strong_count() > 0);
            live.values().filter_map(Weak::upgrade).collect()
        };
        let mut wanted = Vec::new();
        for s in storages {
            let content = s.content();
            if matches!(content, Content::Pending(..)) {
                wanted.push((s, content));
            }
        }
        self.pending.store(0, Ordering::Relaxed);
        if wanted.is_empty() {
            return Ok(());
        }
        let all: Vec<Content> = wanted.iter().map(|(_, c)| c.clone()).collect();
        let Err(first) = self.compute(&all).map(|results| {
            for ((storage, was), result) in wanted.iter().zip(results) {
                storage.is_now(was, result);
            }
        }) else {
            return Ok(());
        };
        // one of them fails: the others must not fail with it
        for (storage, was) in &wanted {
            if let Ok(mut results) = self.compute(std::slice::from_ref(was))
                && let Some(result) = results.pop()
            {
                storage.is_now(was, result);
            }
        }
        Err(first)
    }

    fn compute(&self, wanted: &[Content]) -> Result<Vec<Tensor>> {
        let (program, inputs) = Program::of(wanted);
        self.run(program, &inputs)
    }

    fn run(&self, program: Program, inputs: &Vec<Tensor>) -> Result<Vec<Tensor>> {
        let function = lock(&self.programs)
            .entry(program.key())
            .or_insert_with(|| Arc::new(compile(move |inputs: &Vec<Tensor>| program.run(inputs))))
            .clone();
        // Always runs under the same keys: compiled code is valid for the keys that it was captured
        // under, and gradients were recorded above this device.
        let _keys = ForceKeySetGuard::new(TlsKeySets {
            included: DispatchKeySet::DEFAULT_INCLUDED,
            excluded: DispatchKeySet::DEFAULT_EXCLUDED | DispatchKeySet::AUTOGRAD,
        });
        let before = function.variants();
        match function.call(inputs) {
            Ok(results) => {
                if function.variants() > before {
                    self.count(|s| s.compiled += 1);
                } else {
                    self.count(|s| s.replayed += 1);
                }
                Ok(results)
            }
            Err(e) if matches!(e.kind(), ErrorKind::Compile(_) | ErrorKind::NotImplemented(_)) => {
                self.count(|s| s.eager += 1);
                function.eager(inputs)
            }
            Err(e) => Err(e),
        }
    }
}
