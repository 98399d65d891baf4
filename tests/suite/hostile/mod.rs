//! Calls with arguments that nobody should give: an operator may refuse them or make sense of them;
//! it must not panic, hang, or touch memory that is not its own.
//!
//! Each call is a recorded case changed at random: one to three arguments, or how its tensors lie
//! in memory (empty, expanded, overlapping, at the margins of a storage). Eagerly, on Meta tensors,
//! and compiled, replayed once.
//!
//! - `HOSTILE_CALLS=20` makes that many calls of each case instead of the few that the suite makes,
//! - `HOSTILE_COMPILED=3` compiles one call of three, not one of the suite's many,
//! - `HOSTILE_OP=aten::pad` restricts the run to operators whose name contains the text,
//! - `HOSTILE_SEED=7` makes other calls, `HOSTILE_FROM=1000` starts at that case,
//! - `HOSTILE_LOG=file` leaves the call that is being made in a file, to be read after a crash.
//!
//! What generated code and raw kernels touch shows best under `STRAIGHTLINE_GUARD=end` or `begin`
//! (`runtime/src/memory/guard.rs`), at each `STRAIGHTLINE_ISA`; `.ci/sanitize` does that.

mod dice;
mod edges;
mod geometry;

use super::conformance::case::Case;
pub(crate) use dice::Dice;
use flate2::read::GzDecoder;
use geometry::{Geometry, Layout, Surroundings};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use straightline::dispatch::{OperatorHandle, Value, operator};
use straightline::ops::aten;
use straightline::{DType, Device, MemoryFormat, Result, Tensor, compile};
use straightline_runtime::memory::guard::{Guard, fill_with, guard};

/// The same tensor without memory.
fn to_meta(t: &Tensor) -> Result<Tensor> {
    aten::empty_strided(t.sizes(), t.strides(), Some(t.dtype()), None, Some(Device::META), None)
}

/// The values with `f` done to each tensor.
fn map_tensors(
    stack: &[Value],
    f: &mut dyn FnMut(&Tensor) -> Result<Tensor>,
) -> Result<Vec<Value>> {
    let mut one = |v: &Value| {
        Ok(match v {
            Value::Tensor(t) => Value::Tensor(f(t)?),
            Value::TensorList(l) => {
                Value::TensorList(l.iter().map(&mut *f).collect::<Result<_>>()?)
            }
            Value::OptionalTensorList(l) => Value::OptionalTensorList(
                l.iter().map(|t| t.as_ref().map(&mut *f).transpose()).collect::<Result<_>>()?,
            ),
            other => other.clone(),
        })
    };
    stack.iter().map(&mut one).collect()
}

fn stack_to_meta(stack: &mut Vec<Value>) -> Result<()> {
    *stack = map_tensors(stack, &mut to_meta)?;
    for v in stack {
        if let Value::Device(d) = v {
            *d = Device::META;
        }
    }
    Ok(())
}

fn described(op: &str, stack: &[Value]) -> String {
    let tensor = |t: &Tensor| {
        let mut text = format!("{}{:?}", t.dtype(), t.sizes());
        if !t.is_contiguous() || t.storage_offset() != 0 || t.numel() == 0 {
            text += &format!("{:?}+{}", t.strides(), t.storage_offset());
        }
        if t.dtype().is_integral()
            && let Ok(v) =
                aten::to_dtype(t, DType::I64, false, false, None).and_then(|t| t.to_vec::<i64>())
        {
            text += &format!("={:?}", &v[..v.len().min(12)]);
        }
        text
    };
    let args: Vec<String> = stack
        .iter()
        .map(|v| match v {
            Value::Tensor(t) => tensor(t),
            Value::TensorList(l) => format!("{:?}", l.iter().map(tensor).collect::<Vec<_>>()),
            Value::OptionalTensorList(l) => {
                format!("{:?}", l.iter().map(|t| t.as_ref().map(tensor)).collect::<Vec<_>>())
            }
            other => format!("{other:?}"),
        })
        .collect();
    format!("{op}({})", args.join(", "))
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

/// How a call is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Eager,
    Meta,
    /// Captured and compiled; called twice.
    Compiled,
}

/// Makes the call. Whether it succeeds is of no interest.
fn make(op: OperatorHandle, stack: &[Value], mode: Mode) {
    if mode == Mode::Compiled {
        let inputs: Vec<Tensor> = stack.iter().flat_map(Value::tensors).cloned().collect();
        let template = stack.to_vec();
        let f = compile(move |ts: &Vec<Tensor>| {
            let mut next = ts.iter().cloned();
            let mut given = |t: &Tensor| Ok(next.next().unwrap_or_else(|| t.clone()));
            let mut stack = map_tensors(&template, &mut given)?;
            op.call_boxed(&mut stack)?;
            Ok(stack.iter().flat_map(Value::tensors).cloned().collect::<Vec<_>>())
        });
        for _ in 0..2 {
            if let Ok(results) = f.call(&inputs) {
                read(results.iter());
            }
        }
        return;
    }
    let given = stack;
    let mut stack = given.to_vec();
    if op.call_boxed(&mut stack).is_ok() && mode == Mode::Eager {
        read(stack.iter().flat_map(Value::tensors));
        if guard().is_some_and(|g| g != Guard::Exact) && promises_all(op) {
            let mut again = given.to_vec();
            fill_with(0x11);
            let done = op.call_boxed(&mut again);
            fill_with(0xff);
            let pairs = stack.iter().flat_map(Value::tensors);
            let pairs = pairs.zip(again.iter().flat_map(Value::tensors));
            for (a, b) in pairs.filter(|_| done.is_ok()) {
                assert!(same(a, b), "{} leaves memory as it found it", op.name());
            }
        }
    }
}

/// Whether equal arguments give equal results, all of which the operator writes.
fn promises_all(op: OperatorHandle) -> bool {
    let name = op.name().to_string();
    let raw = ["empty", "resize", "expand_copy"].iter().any(|n| name.contains(n));
    let writes = op.schema().is_none_or(|s| s.is_mutable() || s.is_view());
    !raw && !writes && op.effects().is_mergeable()
}

/// Bit by bit.
fn same(a: &Tensor, b: &Tensor) -> bool {
    let bytes = |t: &Tensor| {
        let t = t.resolve_conj().and_then(|t| t.resolve_neg()).ok()?;
        let t = aten::clone(&t, Some(MemoryFormat::Contiguous)).ok()?;
        let n = t.numel() * t.dtype().size() as i64;
        (n < 1 << 20)
            .then(|| aten::view_dtype(&t.view(&[-1]).ok()?, DType::U8).ok()?.to_vec::<u8>().ok())?
    };
    bytes(a) == bytes(b)
}

/// What came out must be readable.
fn read<'a>(results: impl Iterator<Item = &'a Tensor>) {
    for t in results {
        if t.numel() < 1 << 20 {
            let _ = aten::to_dtype(t, DType::F64, false, true, None);
        }
    }
}

/// Which calls a run makes, and what watches it.
struct Run {
    calls: u64,
    seed: u64,
    from: u64,
    /// One call of this many is compiled.
    compiled: usize,
    only: String,
    log: Option<String>,
    ticks: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    now: Arc<Mutex<String>>,
    failed: BTreeMap<String, (usize, String)>,
    made: usize,
}

thread_local! {
    /// On a thread that makes hostile calls, the place of the last panic.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes panics of threads that make hostile calls, and leaves those of others to the hook before.
fn note_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let noted = PLACE.with_borrow_mut(|p| {
                let at = info.location().map(ToString::to_string).unwrap_or_default();
                let what = info.payload_as_str().unwrap_or("");
                p.as_mut().map(|p| *p = format!("{at}: {what}")).is_some()
            });
            if !noted {
                before(info);
            }
        }));
    });
    PLACE.set(Some(String::new()));
}

impl Run {
    fn new(calls: u64, compiled: u64) -> Run {
        note_panics();
        let run = Run {
            calls: number("HOSTILE_CALLS", calls),
            seed: number("HOSTILE_SEED", 1),
            from: number("HOSTILE_FROM", 0),
            compiled: number("HOSTILE_COMPILED", compiled) as usize,
            only: std::env::var("HOSTILE_OP").unwrap_or_default(),
            log: std::env::var("HOSTILE_LOG").ok(),
            ticks: Arc::default(),
            over: Arc::default(),
            now: Arc::default(),
            failed: BTreeMap::new(),
            made: 0,
        };
        run.watch();
        run
    }

    /// Ends the process where a call does not end.
    fn watch(&self) {
        let (ticks, over, now) = (self.ticks.clone(), self.over.clone(), self.now.clone());
        let patience = number("HOSTILE_PATIENCE", 300);
        std::thread::spawn(move || {
            let (mut last, mut waited) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
                let t = ticks.load(Ordering::Relaxed);
                waited = if t == last { waited + 1 } else { 0 };
                last = t;
                if waited > patience * 10 {
                    let now = now.lock().unwrap_or_else(PoisonError::into_inner);
                    eprintln!("no end in sight: {now}");
                    std::process::abort();
                }
            }
        });
    }

    /// Whether calls of the operator are to be made.
    fn wants(&self, op: &str, i: usize) -> bool {
        op.contains(&self.only) && i as u64 >= self.from && operator(op).is_ok()
    }

    fn dice(&self, i: usize, round: u64) -> Dice {
        Dice(self.seed ^ (i as u64) << 20 ^ round << 50)
    }

    /// The way in which the next call is made.
    fn mode(&self, dice: &mut Dice) -> Mode {
        match dice.one_in(self.compiled.max(1)) {
            true => Mode::Compiled,
            false => Mode::Eager,
        }
    }

    /// A call, and what must hold after it.
    fn make(
        &mut self,
        i: usize,
        op: &str,
        stack: &[Value],
        mode: Mode,
        after: impl FnOnce() -> std::result::Result<(), String>,
    ) {
        let Ok(handle) = operator(op) else { return };
        let text = format!("{i} {mode:?} {}", described(op, stack));
        if let Some(log) = &self.log {
            std::fs::write(log, &text).expect("the log can be written");
        }
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = text.clone();
        self.ticks.fetch_add(1, Ordering::Relaxed);
        self.made += 1;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            make(handle, stack, mode);
            after()
        }));
        // a panic inside of a plan's call of a kernel comes out as an error
        let place = PLACE.with_borrow_mut(|p| p.as_mut().map(std::mem::take).unwrap_or_default());
        let why = match outcome {
            Ok(Err(why)) => format!("{op}: {why}"),
            Ok(Ok(())) if place.is_empty() => return,
            _ => place,
        };
        if self.log.is_some() && !self.failed.contains_key(&why) {
            println!("{why}\n    {text}");
        }
        self.failed.entry(why).or_insert((0, text)).0 += 1;
    }

    fn finish(self) {
        self.over.store(true, Ordering::Relaxed);
        for (why, (n, example)) in &self.failed {
            println!("{why}\n    {n} times, first in {example}");
        }
        println!("{} calls", self.made);
        assert!(self.made > 0 && self.failed.is_empty(), "{} failures", self.failed.len());
    }
}

/// The recorded calls of a file, with their operators.
pub(crate) fn recorded(file: &str) -> impl Iterator<Item = (String, String)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
    let file = std::fs::File::open(path).expect("the vectors are in the repository");
    BufReader::new(GzDecoder::new(file)).lines().map(|line| {
        let line = line.expect("the file is text");
        (line.split('"').nth(3).unwrap_or("").to_string(), line)
    })
}

#[test]
fn no_argument_makes_an_operator_panic() {
    let mut run = Run::new(1, 10);
    for (i, (op, line)) in recorded("public.jsonl.gz").enumerate() {
        if !run.wants(&op, i) {
            continue;
        }
        let schema = operator(&op).ok().and_then(|op| op.schema());
        for round in 0..run.calls {
            let (Ok(mut case), Some(schema)) = (Case::parse(&line), schema) else {
                break;
            };
            let mut dice = run.dice(i, round);
            let others = case.tensors();
            for _ in 0..dice.of(&[1, 1, 1, 2, 3]) {
                let n = case.stack.len();
                if n == 0 {
                    break;
                }
                let at = dice.below(n);
                let drawn = catch_unwind(AssertUnwindSafe(|| {
                    dice.value(&case.stack[at], &schema.args[at].ty, &others)
                }));
                if let Ok(new) = drawn {
                    case.stack[at] = new;
                }
            }
            let mode = match dice.one_in(5) {
                true if stack_to_meta(&mut case.stack).is_err() => continue,
                true => Mode::Meta,
                false => run.mode(&mut dice),
            };
            run.make(i, &op, &case.stack, mode, || Ok(()));
        }
    }
    run.finish();
}

/// The files that `no_geometry_...` takes calls from: between them they call every operator, its
/// in-place and `out` forms.
const RECORDED: [&str; 6] = [
    "public.jsonl.gz",
    "derived.jsonl.gz",
    "samples.jsonl.gz",
    "more.jsonl.gz",
    "complex.jsonl.gz",
    "out_dtypes.jsonl.gz",
];

#[test]
fn no_geometry_makes_an_operator_touch_memory_beside_its_operands() {
    // of the suite's own run, one case of this many
    let share = match std::env::var_os("HOSTILE_CALLS") {
        Some(_) => 1,
        None => 8,
    };
    let mut run = Run::new(1, 3);
    let all = RECORDED.into_iter().flat_map(recorded);
    for (i, (op, line)) in all.enumerate() {
        if !run.wants(&op, i) || !run.dice(i, 0).one_in(share) {
            continue;
        }
        let Some(schema) = operator(&op).ok().and_then(|op| op.schema()) else {
            continue;
        };
        for round in 0..run.calls {
            let Ok(case) = Case::parse(&line) else { break };
            let mut dice = run.dice(i, round + 1);
            let layout = Layout::new(dice.of(&Geometry::ALL), &mut dice);
            let Ok(stack) = map_tensors(&case.stack, &mut |t| layout.place(t, &mut dice)) else {
                continue;
            };
            let mut around = Vec::new();
            for (v, arg) in stack.iter().zip(&schema.args) {
                for t in v.tensors() {
                    // PyTorch's schemas of batch norms do not say that these are moved
                    let written = arg.is_write() || arg.name.starts_with("running_");
                    let seen = Surroundings::of(t, written);
                    around.extend(seen.expect("plain tensors can be read"));
                }
            }
            // two arguments of one storage: what one of them is written by is beside the other
            let alone = |a: &&Surroundings| !around.iter().any(|b| a.shares_storage_with(b));
            let watched: Vec<&Surroundings> = around.iter().filter(alone).collect();
            let mode = run.mode(&mut dice);
            run.make(i, &op, &stack, mode, || watched.iter().try_for_each(|s| s.check()));
        }
    }
    run.finish();
}
