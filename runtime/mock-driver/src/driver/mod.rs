//! The state of the driver: tables of devices, contexts, streams, graphs ... and what is queued.
//!
//! Everything is behind one lock. A [`Session`] holds it; it is let go while a host function runs,
//! since that may wait for another thread that calls the driver.

pub(crate) mod capture;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod function;
pub(crate) mod graph;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod perform;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod stream;
pub(crate) mod transfer;
pub(crate) mod work;

use crate::abi::Handle;
use crate::code::{Code, Outcome};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use straightline_ptx_interpreter::{DeviceMemory, Statistics};

/// When queued work runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// at the latest moment: when the host waits for it, and nothing else with it
    Lazy,
    /// when it is queued
    Eager,
    /// at moments that a sequence of random numbers chooses, several streams mixed
    Random(u64),
}

/// What the environment says.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    pub(crate) devices: usize,
    /// bytes of each device
    pub(crate) memory: u64,
    pub(crate) order: Order,
    /// whether races in shared memory are faults
    pub(crate) races: bool,
    /// seconds that a host waits for ranks that have not called a collective
    pub(crate) patience: u64,
}

/// Settings made by `straightline_mock_set`, before the environment.
static SETTINGS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Makes a setting for the next state: `devices`, `memory`, `order`, `races` or
/// `patience`. An empty value
/// takes it back.
pub(crate) fn set(name: &str, value: &str) -> bool {
    if !["devices", "memory", "order", "races", "patience"].contains(&name) {
        return false;
    }
    let mut settings = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    if value.is_empty() {
        settings.remove(name);
    } else {
        settings.insert(name.to_owned(), value.to_owned());
    }
    true
}

impl Configuration {
    fn read() -> Configuration {
        let setting = |name: &str| {
            let settings = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
            settings.get(name).cloned().or_else(|| {
                std::env::var(format!("STRAIGHTLINE_MOCK_{}", name.to_uppercase())).ok()
            })
        };
        let number = |name: &str| setting(name).and_then(|text| text.trim().parse::<u64>().ok());
        let order = setting("order").unwrap_or_default();
        Configuration {
            devices: number("devices").map_or(2, |count| count.min(64) as usize),
            memory: number("memory").unwrap_or(2 << 30),
            order: match order.split_once(':').unwrap_or((&order, "")) {
                ("eager", _) => Order::Eager,
                ("random", seed) => Order::Random(seed.trim().parse().unwrap_or(0)),
                _ => Order::Lazy,
            },
            races: setting("races").is_none_or(|value| value != "0"),
            patience: number("patience").unwrap_or(10),
        }
    }
}

/// What was done since the last reset.
#[derive(Default, Debug)]
pub(crate) struct Counts {
    /// kernels launched by calls (nodes of graphs are not)
    pub(crate) launches: u64,
    pub(crate) graph_launches: u64,
    /// kernels run, those of graphs included
    pub(crate) kernels: u64,
    /// what these kernels did; of the widest accesses the widest
    pub(crate) work: Statistics,
    pub(crate) copies: u64,
    pub(crate) copied_bytes: u64,
    pub(crate) fills: u64,
    /// matrix products of cuBLASLt
    pub(crate) products: u64,
    /// collectives of NCCL
    pub(crate) collectives: u64,
    pub(crate) host_functions: u64,
}

impl Counts {
    /// Counts a kernel that has run.
    pub(crate) fn add(&mut self, kernel: &Statistics) {
        let sum = &mut self.work;
        sum.instructions += kernel.instructions;
        sum.warp_instructions += kernel.warp_instructions;
        sum.global_loads += kernel.global_loads;
        sum.global_stores += kernel.global_stores;
        sum.bytes_loaded += kernel.bytes_loaded;
        sum.bytes_stored += kernel.bytes_stored;
        sum.widest_load = sum.widest_load.max(kernel.widest_load);
        sum.widest_store = sum.widest_store.max(kernel.widest_store);
        sum.sectors_loaded += kernel.sectors_loaded;
        sum.sectors_stored += kernel.sectors_stored;
        sum.bank_conflicts += kernel.bank_conflicts;
        sum.barriers += kernel.barriers;
        sum.atomics += kernel.atomics;
        sum.divergent_branches += kernel.divergent_branches;
    }
}

/// Why work failed: the code that its context gives from then on, and a sentence.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) text: String,
}

/// All that there is.
pub(crate) struct Driver {
    pub(crate) configuration: Configuration,
    pub(crate) initialized: bool,
    /// of all devices: addresses are unified
    pub(crate) memory: DeviceMemory,
    pub(crate) devices: Vec<device::Device>,
    pub(crate) contexts: BTreeMap<Handle, context::Context>,
    pub(crate) streams: BTreeMap<Handle, stream::Stream>,
    pub(crate) events: BTreeMap<Handle, stream::Event>,
    pub(crate) pools: BTreeMap<Handle, pool::Pool>,
    pub(crate) modules: BTreeMap<Handle, module::Module>,
    pub(crate) functions: BTreeMap<Handle, function::Function>,
    pub(crate) graphs: BTreeMap<Handle, graph::Graph>,
    pub(crate) executables: BTreeMap<Handle, graph::Executable>,
    /// which graph has a node
    pub(crate) nodes: BTreeMap<Handle, Handle>,
    pub(crate) captures: BTreeMap<u64, capture::Capture>,
    /// what has not run yet, in the order of the calls
    pub(crate) tasks: BTreeMap<u64, queue::Task>,
    pub(crate) allocations: BTreeMap<u64, memory::Allocation>,
    pub(crate) pinned: BTreeMap<usize, memory::Pinned>,
    pub(crate) communicators: BTreeMap<Handle, crate::nccl::Communicator>,
    pub(crate) cliques: BTreeMap<u64, crate::nccl::Clique>,
    pub(crate) counts: Counts,
    pub(crate) times: queue::Times,
    /// nanoseconds at which the work that runs now has arrived, as estimated
    pub(crate) clock: u64,
    pub(crate) random: u64,
    /// why work failed last
    pub(crate) fault: String,
}

static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);
/// A task that ran without the lock has ended.
static ENDED: Condvar = Condvar::new();
/// Handles are never used twice, in no state: a stale one is noticed.
static HANDLES: AtomicUsize = AtomicUsize::new(1);

/// A number for a new row of a table.
pub(crate) fn new_handle() -> Handle {
    0x5C00_0000_0000 + 16 * HANDLES.fetch_add(1, Ordering::Relaxed)
}

/// A number that says nothing to callers: of tasks, captures, buffers.
pub(crate) fn new_number() -> u64 {
    HANDLES.fetch_add(1, Ordering::Relaxed) as u64
}

impl Driver {
    fn new() -> Driver {
        let configuration = Configuration::read();
        let total = configuration.memory.saturating_mul(configuration.devices as u64);
        let mut driver = Driver {
            // each device's limit is kept in `memory.rs`; the rest is for constants of modules
            memory: DeviceMemory::new(total.saturating_add(64 << 20)),
            devices: Vec::new(),
            initialized: false,
            contexts: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            pools: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            graphs: BTreeMap::new(),
            executables: BTreeMap::new(),
            nodes: BTreeMap::new(),
            captures: BTreeMap::new(),
            tasks: BTreeMap::new(),
            allocations: BTreeMap::new(),
            pinned: BTreeMap::new(),
            communicators: BTreeMap::new(),
            cliques: BTreeMap::new(),
            counts: Counts::default(),
            times: queue::Times::default(),
            clock: 0,
            random: match configuration.order {
                Order::Random(seed) => seed ^ 0x9E37_79B9_7F4A_7C15,
                _ => 0,
            },
            fault: String::new(),
            configuration,
        };
        for ordinal in 0..driver.configuration.devices {
            let pool = new_handle();
            driver.pools.insert(pool, pool::Pool::new(ordinal, true));
            driver.devices.push(device::Device::new(pool));
        }
        driver
    }

    /// A number below `bound` of the random sequence.
    pub(crate) fn draw(&mut self, bound: usize) -> usize {
        // splitmix64
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) % bound.max(1) as u64) as usize
    }

    /// The device with an ordinal, as calls name it.
    pub(crate) fn device(&self, ordinal: i32) -> Outcome<usize> {
        if !self.initialized {
            return Err(Code::NOT_INITIALIZED);
        }
        usize::try_from(ordinal)
            .ok()
            .filter(|&ordinal| ordinal < self.devices.len())
            .ok_or(Code::INVALID_DEVICE)
    }

    /// A value of `straightline_mock_statistics`.
    pub(crate) fn statistic(&self, name: &str) -> Option<u64> {
        let counts = &self.counts;
        Some(match name {
            "launches" => counts.launches,
            "graph_launches" => counts.graph_launches,
            "kernels" => counts.kernels,
            "instructions" => counts.work.instructions,
            "warp_instructions" => counts.work.warp_instructions,
            "global_loads" => counts.work.global_loads,
            "global_stores" => counts.work.global_stores,
            "bytes_loaded" => counts.work.bytes_loaded,
            "bytes_stored" => counts.work.bytes_stored,
            "widest_load" => counts.work.widest_load.into(),
            "widest_store" => counts.work.widest_store.into(),
            "sectors_loaded" => counts.work.sectors_loaded,
            "sectors_stored" => counts.work.sectors_stored,
            "bank_conflicts" => counts.work.bank_conflicts,
            "barriers" => counts.work.barriers,
            "atomics" => counts.work.atomics,
            "divergent_branches" => counts.work.divergent_branches,
            "copies" => counts.copies,
            "copied_bytes" => counts.copied_bytes,
            "fills" => counts.fills,
            "products" => counts.products,
            "collectives" => counts.collectives,
            "host_functions" => counts.host_functions,
            "queued" => self.tasks.len() as u64,
            "allocations" => self.allocations.len() as u64,
            "allocated_bytes" => self.allocations.values().map(|block| block.bytes).sum(),
            "pinned_bytes" => self.pinned.values().map(|range| range.bytes as u64).sum(),
            "streams" => self.streams.len() as u64,
            "events" => self.events.len() as u64,
            "graphs" => self.graphs.len() as u64,
            "executables" => self.executables.len() as u64,
            "modules" => self.modules.len() as u64,
            _ => return None,
        })
    }
}

/// The lock of the state.
pub(crate) struct Session {
    guard: Option<MutexGuard<'static, Option<Driver>>>,
}

impl Session {
    pub(crate) fn open() -> Session {
        let mut guard = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
        guard.get_or_insert_with(Driver::new);
        Session { guard: Some(guard) }
    }

    /// Runs what must not hold the lock.
    pub(crate) fn outside<R>(&mut self, body: impl FnOnce() -> R) -> R {
        self.guard = None;
        let result = body();
        *self = Session::open();
        result
    }

    /// Waits until a task of another thread ends or comes.
    pub(crate) fn wait(&mut self) {
        if let Some(guard) = self.guard.take() {
            let mut guard = ENDED.wait(guard).unwrap_or_else(PoisonError::into_inner);
            guard.get_or_insert_with(Driver::new);
            self.guard = Some(guard);
        }
    }

    /// The same, for no longer than `limit`. `false` if nothing came.
    pub(crate) fn wait_for(&mut self, limit: std::time::Duration) -> bool {
        let Some(guard) = self.guard.take() else { return false };
        let waited = ENDED.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner);
        let (mut guard, timeout) = waited;
        guard.get_or_insert_with(Driver::new);
        self.guard = Some(guard);
        !timeout.timed_out()
    }

    /// Wakes threads that wait for a task.
    pub(crate) fn announce(&self) {
        ENDED.notify_all();
    }
}

impl Deref for Session {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        self.guard.as_ref().and_then(|guard| guard.as_ref()).expect("the lock is held")
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Driver {
        self.guard.as_mut().and_then(|guard| guard.as_mut()).expect("the lock is held")
    }
}

/// Forgets everything; handles of before are invalid from then on.
pub(crate) fn reset() {
    *DRIVER.lock().unwrap_or_else(PoisonError::into_inner) = None;
    crate::door::forget_calls();
    ENDED.notify_all();
}
