//! Calls with arguments that nobody should give: an operator may refuse them or make sense of them; it must not panic,
//! hang, or touch memory that is not its own.
//!
//! Each call is a public case with one to three arguments changed at random. `HOSTILE_CALLS=20` makes that many calls of
//! each case instead of the few that the suite makes, `HOSTILE_OP=aten::pad` restricts the run to operators whose name
//! contains the text, `HOSTILE_SEED=7` makes other calls, and `HOSTILE_LOG=file` leaves the call that is being made in a
//! file, to be read after a crash. `HOSTILE_FROM=1000` starts at that case.

use super::conformance::case::Case;
use super::support::drawing;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use straightline::dispatch::schema::SchemaType;
use straightline::dispatch::{Value, operator};
use straightline::ops::aten;
use straightline::{DType, Device, Result, Scalar, Tensor};

/// A generator of numbers (SplitMix64) that depends on nothing but its seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn int(&mut self) -> i64 {
        self.of(&[
            0,
            -1,
            1,
            2,
            -2,
            3,
            -3,
            7,
            -7,
            i64::MIN,
            i64::MAX,
            i64::MIN + 1,
            1 << 40,
            -(1 << 40),
            1 << 62,
            i64::from(i32::MIN),
        ])
    }

    fn float(&mut self) -> f64 {
        self.of(&[
            0.0,
            -0.0,
            -1.0,
            1.0,
            0.5,
            2.0,
            1e-310,
            1e300,
            -1e300,
            9.3e18,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ])
    }

    fn dtype(&mut self) -> DType {
        self.of(&[
            DType::F32,
            DType::F64,
            DType::F16,
            DType::BF16,
            DType::I64,
            DType::I32,
            DType::I16,
            DType::I8,
            DType::U8,
            DType::Bool,
            DType::C64,
        ])
    }

    /// Another tensor in the place of this one.
    fn tensor(&mut self, t: &Tensor, others: &[Tensor]) -> Result<Tensor> {
        let mut sizes = t.sizes().to_vec();
        let rank = sizes.len();
        let fresh = |sizes: &[i64], dtype| aten::ones(sizes, Some(dtype), None, None, None);
        match self.below(13) {
            // hostile values
            0..=4 => self.values(t),
            5 => fresh(&[], t.dtype()),
            6 => fresh(&[0], t.dtype()),
            7 => {
                if rank > 0 {
                    sizes[self.below(rank)] = 0;
                }
                fresh(&sizes, t.dtype())
            }
            8 => {
                sizes.insert(self.below(rank + 1), self.of(&[1, 2, 3]));
                fresh(&sizes, t.dtype())
            }
            9 => {
                if rank > 0 {
                    sizes.remove(self.below(rank));
                }
                fresh(&sizes, t.dtype())
            }
            10 => {
                if rank > 0 {
                    let at = self.below(rank);
                    sizes[at] = (sizes[at] + self.of(&[-1, 1, 2])).max(0);
                }
                fresh(&sizes, t.dtype())
            }
            11 => {
                let dtype = self.dtype();
                aten::to_dtype(t, dtype, false, false, None)
            }
            _ => Ok(match others.is_empty() {
                true => t.clone(),
                false => others[self.below(others.len())].clone(),
            }),
        }
    }

    /// A tensor of the same shape with other values.
    fn values(&mut self, t: &Tensor) -> Result<Tensor> {
        let n = t.numel().max(0) as usize;
        let mild = self.one_in(2);
        let flat = if t.dtype().is_floating() || t.dtype().is_complex() {
            let v: Vec<f64> = (0..n).map(|_| self.float()).collect();
            Tensor::from_vec(v)?
        } else {
            let v: Vec<i64> = (0..n)
                .map(|_| match mild {
                    true => self.below(12) as i64 - 4,
                    false => self.int(),
                })
                .collect();
            Tensor::from_vec(v)?
        };
        let flat = aten::to_dtype(&flat, t.dtype(), false, false, None)?;
        if t.dtype() == DType::Bool && mild {
            // bytes that are neither 0 nor 1
            aten::add_scalar_(
                &aten::view_dtype(&flat, DType::U8)?,
                Scalar::Int(6),
                Scalar::Int(1),
            )?;
        }
        aten::reshape(&flat, t.sizes())
    }

    fn scalar(&mut self) -> Scalar {
        match self.below(3) {
            0 => Scalar::Int(self.int()),
            1 => Scalar::Float(self.float()),
            _ => Scalar::Bool(self.one_in(2)),
        }
    }

    /// A value for an argument of the type, where there was none.
    fn fresh(&mut self, ty: &SchemaType, others: &[Tensor]) -> Value {
        match ty.unwrap_optional() {
            SchemaType::Int | SchemaType::SymInt => Value::Int(self.int()),
            SchemaType::Float => Value::Double(self.float()),
            SchemaType::Bool => Value::Bool(self.one_in(2)),
            SchemaType::Scalar => Value::from(self.scalar()),
            SchemaType::Tensor if !others.is_empty() => {
                Value::Tensor(others[self.below(others.len())].clone())
            }
            SchemaType::List(of, _) => match &**of {
                SchemaType::Int | SchemaType::SymInt => {
                    let n = self.below(5);
                    Value::IntList((0..n).map(|_| self.int()).collect())
                }
                SchemaType::Float => {
                    let n = self.below(5);
                    Value::DoubleList((0..n).map(|_| self.float()).collect())
                }
                _ => Value::None,
            },
            _ => Value::None,
        }
    }

    /// Another list in the place of this one: an entry changed by `change`, more entries, or fewer.
    fn list<T: Clone>(&mut self, list: &[T], change: &mut dyn FnMut(&mut Dice, &T) -> T) -> Vec<T> {
        let mut list = list.to_vec();
        let n = list.len();
        match (self.below(8), n) {
            (0, _) => list.clear(),
            (1, 1..) => drop(list.pop()),
            (2, 1..) => list.push(list[0].clone()),
            (3, 1..) => {
                let all = change(self, &list[0]);
                list.fill(all);
            }
            (_, 1..) => {
                let at = self.below(n);
                list[at] = change(self, &list[at]);
            }
            _ => {}
        }
        list
    }

    fn value(&mut self, v: &Value, ty: &SchemaType, others: &[Tensor]) -> Value {
        if matches!(ty, SchemaType::Optional(_)) && self.one_in(6) {
            return Value::None;
        }
        match v {
            Value::None => self.fresh(ty, others),
            Value::Tensor(t) => Value::Tensor(self.tensor(t, others).unwrap_or_else(|_| t.clone())),
            Value::Bool(b) => Value::Bool(!b),
            Value::Int(_) | Value::Double(_) | Value::Complex(..)
                if matches!(ty.unwrap_optional(), SchemaType::Scalar) =>
            {
                Value::from(self.scalar())
            }
            Value::Int(_) => Value::Int(self.int()),
            Value::Double(_) => Value::Double(self.float()),
            Value::String(_) => Value::String(
                self.of(&[
                    "", "none", "mean", "sum", "floor", "trunc", "ij", "amax", "tanh", "x",
                ])
                .to_string(),
            ),
            Value::DType(_) => Value::DType(self.dtype()),
            Value::IntList(l) => Value::IntList(self.list(l, &mut |d, _| d.int())),
            Value::DoubleList(l) => Value::DoubleList(self.list(l, &mut |d, _| d.float())),
            Value::BoolList(l) => Value::BoolList(self.list(l, &mut |_, b| !b)),
            Value::ScalarList(l) => Value::ScalarList(self.list(l, &mut |d, _| d.scalar())),
            Value::TensorList(l) => Value::TensorList(self.list(l, &mut |d, t| {
                d.tensor(t, others).unwrap_or_else(|_| t.clone())
            })),
            Value::OptionalTensorList(l) => {
                Value::OptionalTensorList(self.list(l, &mut |d, t| match t {
                    Some(_) if d.one_in(4) => None,
                    Some(t) => d.tensor(t, others).ok(),
                    None => others.first().cloned(),
                }))
            }
            other => other.clone(),
        }
    }
}

/// The same tensor without memory.
fn to_meta(t: &Tensor) -> Result<Tensor> {
    aten::empty_strided(
        t.sizes(),
        t.strides(),
        Some(t.dtype()),
        None,
        Some(Device::META),
        None,
    )
}

fn stack_to_meta(stack: &mut [Value]) -> Result<()> {
    for v in stack {
        match v {
            Value::Tensor(t) => *t = to_meta(t)?,
            Value::TensorList(l) => {
                for t in l {
                    *t = to_meta(t)?;
                }
            }
            Value::OptionalTensorList(l) => {
                for t in l.iter_mut().flatten() {
                    *t = to_meta(t)?;
                }
            }
            Value::Device(d) => *d = Device::META,
            _ => {}
        }
    }
    Ok(())
}

fn described(op: &str, stack: &[Value]) -> String {
    let tensor = |t: &Tensor| {
        let mut text = format!("{}{:?}", t.dtype(), t.sizes());
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
                format!(
                    "{:?}",
                    l.iter().map(|t| t.as_ref().map(tensor)).collect::<Vec<_>>()
                )
            }
            other => format!("{other:?}"),
        })
        .collect();
    format!("{op}({})", args.join(", "))
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(default)
}

/// One call. What it says is of no interest.
fn call(case: &mut Case, dice: &mut Dice, doing: &dyn Fn(&dyn Fn() -> String)) {
    let Ok(op) = operator(&case.op) else { return };
    let Some(schema) = op.schema() else { return };
    let others = case.tensors();
    for _ in 0..dice.of(&[1, 1, 1, 2, 3]) {
        let n = case.stack.len();
        if n == 0 {
            break;
        }
        let at = dice.below(n);
        let new = dice.value(&case.stack[at], &schema.args[at].ty, &others);
        case.stack[at] = new;
    }
    let meta = dice.one_in(5);
    if meta && stack_to_meta(&mut case.stack).is_err() {
        return;
    }
    doing(&|| {
        format!(
            "{}{}",
            if meta { "meta " } else { "" },
            described(&case.op, &case.stack)
        )
    });
    let mut stack = case.stack.clone();
    let result = op.call_boxed(&mut stack);
    if result.is_ok() && !meta {
        // what came out must be readable
        for t in stack.iter().flat_map(Value::tensors) {
            if t.numel() < 1 << 20 {
                let _ = aten::to_dtype(t, DType::F64, false, true, None);
            }
        }
    }
}

/// The place of the last panic.
static PLACE: Mutex<String> = Mutex::new(String::new());

#[test]
fn no_argument_makes_an_operator_panic() {
    let _drawing = drawing();
    let calls = number("HOSTILE_CALLS", 1);
    let (seed, from) = (number("HOSTILE_SEED", 1), number("HOSTILE_FROM", 0));
    let only = std::env::var("HOSTILE_OP").unwrap_or_default();
    let log = std::env::var("HOSTILE_LOG").ok();
    let patience = number("HOSTILE_PATIENCE", 300);

    let (ticks, over) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let now = Arc::new(Mutex::new(String::new()));
    let watch = {
        let (ticks, over, now) = (ticks.clone(), over.clone(), now.clone());
        std::thread::spawn(move || {
            let (mut last, mut waited) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
                let t = ticks.load(Ordering::Relaxed);
                waited = if t == last { waited + 1 } else { 0 };
                last = t;
                if waited > patience * 10 {
                    eprintln!(
                        "no end in sight: {}",
                        now.lock().expect("no panic holds it")
                    );
                    std::process::abort();
                }
            }
        })
    };

    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let what = info.payload_as_str().unwrap_or("").to_string();
        if let Ok(mut p) = PLACE.lock() {
            *p = format!("{place}: {what}");
        }
    }));
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/public.jsonl.gz");
    let file =
        GzDecoder::new(std::fs::File::open(path).expect("the vectors are in the repository"));
    let mut panics: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut made = 0;
    for (i, line) in BufReader::new(file).lines().enumerate() {
        let line = line.expect("the file is text");
        let op = line.split('"').nth(3).unwrap_or("");
        if !op.contains(&only) || (i as u64) < from || operator(op).is_err() {
            continue;
        }
        for round in 0..calls {
            let Ok(mut case) = Case::parse(&line) else {
                break;
            };
            let mut dice = Dice(seed ^ (i as u64) << 20 ^ round << 50);
            let doing = |text: &dyn Fn() -> String| {
                if let Ok(mut now) = now.lock() {
                    *now = format!("{i} {}", text());
                    if let Some(log) = &log {
                        std::fs::write(log, &*now).expect("the log can be written");
                    }
                }
            };
            ticks.fetch_add(1, Ordering::Relaxed);
            made += 1;
            let outcome = catch_unwind(AssertUnwindSafe(|| call(&mut case, &mut dice, &doing)));
            if outcome.is_err() {
                let place = PLACE.lock().map(|p| p.clone()).unwrap_or_default();
                let text = now.lock().map(|t| t.clone()).unwrap_or_default();
                if log.is_some() && !panics.contains_key(&place) {
                    println!("{place}\n    {text}");
                }
                let seen = panics.entry(place).or_insert((0, text));
                seen.0 += 1;
            }
        }
    }
    std::panic::set_hook(hook);
    over.store(true, Ordering::Relaxed);
    watch.join().expect("the watch does not panic");
    for (place, (n, example)) in &panics {
        println!("{place}\n    {n} times, first in {example}");
    }
    println!("{made} calls");
    assert!(panics.is_empty(), "{} places panic", panics.len());
}
