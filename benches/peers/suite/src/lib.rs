//! What the peers that are Rust programs share: the suite's data, parameters by name, and the
//! conversation with `benches/peers/run`.
//!
//! Data, timing and check sums are the files that `straightline bench` is made of, included here.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Instant;

#[allow(dead_code, reason = "the rest is for `straightline bench`")]
#[path = "../../../../cli/src/bench/check.rs"]
mod check;
#[path = "../../../../cli/src/workloads/numbers.rs"]
mod numbers;
#[allow(dead_code, reason = "the rest is for `straightline bench`")]
#[path = "../../../../cli/src/bench/sample.rs"]
mod sample;

use sample::Budget;

/// The product of sizes.
pub fn count(sizes: &[usize]) -> usize {
    sizes.iter().product()
}

/// `offset + scale * (2u - 1)`.
pub fn floats(name: &str, sizes: &[usize], scale: f64, offset: f64) -> Vec<f32> {
    numbers::floats(name, count(sizes), scale, offset)
}

/// Integers in `low..high`.
pub fn ids(name: &str, sizes: &[usize], low: i64, high: i64) -> Vec<i64> {
    numbers::indices(name, count(sizes), low, high)
}

/// A parameter of a network.
pub struct Parameter {
    pub name: String,
    pub sizes: Vec<usize>,
    pub data: Vec<f32>,
}

/// Parameters, made up under a prefix.
pub struct Parameters {
    prefix: String,
    pub each: Vec<Parameter>,
}

impl Parameters {
    pub fn under(prefix: impl Into<String>) -> Parameters {
        Parameters { prefix: prefix.into(), each: Vec::new() }
    }

    pub fn with(mut self, name: &str, sizes: &[usize], scale: f64, offset: f64) -> Parameters {
        let data = floats(&format!("{}{name}", self.prefix), sizes, scale, offset);
        self.each.push(Parameter { name: name.to_owned(), sizes: sizes.to_vec(), data });
        self
    }

    /// `NAME.w` (outputs, inputs) and `NAME.b`.
    pub fn linear(self, name: &str, outputs: usize, inputs: usize) -> Parameters {
        let scale = 1.0 / (inputs as f64).sqrt();
        self.with(&format!("{name}.w"), &[outputs, inputs], scale, 0.0).with(
            &format!("{name}.b"),
            &[outputs],
            scale,
            0.0,
        )
    }

    /// `NAME.g`, around 1, and `NAME.b`.
    pub fn norm(self, name: &str, width: usize) -> Parameters {
        self.with(&format!("{name}.g"), &[width], 0.1, 1.0).with(
            &format!("{name}.b"),
            &[width],
            0.1,
            0.0,
        )
    }

    /// W5.
    pub fn mlp(width: usize) -> Parameters {
        let layers = ["l1", "l2", "l3"];
        let start = Parameters::under(format!("w5.h{width}."));
        layers.iter().fold(start, |p, l| p.linear(l, width, width)).norm("ln", width)
    }

    /// W7.
    pub fn block() -> Parameters {
        let start = Parameters::under("w7.");
        let p = ["q", "k", "v", "o"].iter().fold(start, |p, l| p.linear(l, 768, 768));
        p.norm("ln1", 768).linear("fc1", 3072, 768).linear("fc2", 768, 3072).norm("ln2", 768)
    }

    /// The single layers of W9.
    pub fn convolution() -> Parameters {
        Parameters::under("w9.")
            .with("conv.w", &[64, 64, 3, 3], (6.0 / 576f64).sqrt(), 0.0)
            .norm("bn", 64)
            .with("bn.m", &[64], 0.1, 0.0)
            .with("bn.v", &[64], 0.1, 1.0)
    }
}

/// A workload ready to run.
pub struct Case {
    /// Calls it this many times; outputs are dropped.
    run: Box<dyn FnMut(usize)>,
    /// Calls it once and says what it gave.
    outputs: Box<dyn FnMut() -> Vec<f32>>,
}

/// A case, or why this peer has none.
pub type Built = Result<Case, String>;

/// A case of a function and of what reads its result.
pub fn case<O: 'static>(
    call: impl Fn() -> O + 'static,
    read: impl Fn(O) -> Vec<f32> + 'static,
) -> Built {
    let call = Rc::new(call);
    let again = Rc::clone(&call);
    Ok(Case {
        run: Box::new(move |n| {
            for _ in 0..n {
                black_box(call());
            }
        }),
        outputs: Box::new(move || read(again())),
    })
}

/// The numbers in a name: `w5.mlp_8x256` after `w5.mlp_` has `[8, 256]`.
pub fn numbers_of(rest: &str) -> Option<Vec<usize>> {
    rest.split('x').map(|n| n.parse().ok()).collect()
}

struct Current {
    workload: String,
    case: Case,
}

/// Answers requests until standard input ends: each is a line `{"workload", "quick"}`, and the
/// answer a line with a measurement or a note. The first request for a workload builds it.
pub fn serve(framework: &str, version: &str, build: impl Fn(&str) -> Option<Built>) {
    // what is wrong with one workload is in the answer
    std::panic::set_hook(Box::new(|_| {}));
    say(&json!({"framework": framework, "version": version, "mode": "eager"}));
    let mut current = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).unwrap_or_default();
        let workload = request["workload"].as_str().unwrap_or_default();
        let budget =
            if request["quick"].as_bool() == Some(true) { Budget::QUICK } else { Budget::FULL };
        let answer =
            catch_unwind(AssertUnwindSafe(|| answer(workload, budget, &mut current, &build)));
        say(&match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(note)) => json!({ "note": note }),
            Err(panic) => {
                current = None;
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                json!({"note": format!("failed: {}", text.unwrap_or("a panic"))})
            }
        });
    }
}

fn say(answer: &Value) {
    let mut out = std::io::stdout().lock();
    // nobody listens: the next line of input is the last one
    let _ = writeln!(out, "{answer}").and_then(|()| out.flush());
}

fn answer(
    workload: &str,
    budget: Budget,
    current: &mut Option<Current>,
    build: &impl Fn(&str) -> Option<Built>,
) -> Result<Value, String> {
    let mut answer = json!({});
    if current.as_ref().is_none_or(|c| c.workload != workload) {
        *current = None;
        let mut case = build(workload).ok_or("n/a: not written for this peer")??;
        let start = Instant::now();
        (case.run)(1);
        answer["compile_ms"] = json!(start.elapsed().as_secs_f64() * 1e3);
        let outputs = (case.outputs)();
        let outputs: Vec<f64> = outputs.into_iter().map(f64::from).collect();
        answer["check"] = json!([check::check(&outputs)]);
        *current = Some(Current { workload: workload.to_owned(), case });
    }
    let Some(Current { case, .. }) = current else {
        return Err("failed: no case".to_owned());
    };
    let timing = sample::measure(budget, |n| {
        (case.run)(n);
        Ok::<(), String>(())
    })?;
    answer["median_us"] = json!(timing.median_us);
    answer["p10"] = json!(timing.p10);
    answer["p90"] = json!(timing.p90);
    answer["n_samples"] = json!(timing.samples);
    answer["inner"] = json!(timing.inner);
    Ok(answer)
}

/// The names whose formula takes only sizes from the name, so that both programs read them alike.
pub enum Named {
    Chain(usize),
    Pointwise(usize),
    Softmax { data: &'static str, sizes: [usize; 2] },
    Sum(usize),
    Mlp { batch: usize, width: usize },
    Attention { tokens: usize, causal: bool },
    Product { sizes: [usize; 3], bf16: bool },
}

impl Named {
    pub fn of(workload: &str) -> Option<Named> {
        let (group, rest) = workload.rsplit_once('.')?;
        let (kind, rest) = rest.split_once('_')?;
        let sizes = |text: &str| numbers_of(text);
        Some(match (group, kind) {
            ("w2", "chain100") => Named::Chain(rest.parse().ok()?),
            ("w3", "pointwise") => Named::Pointwise(rest.parse().ok()?),
            ("w4", "softmax") => {
                let sizes: [usize; 2] = sizes(rest)?.try_into().ok()?;
                Named::Softmax { data: if sizes[1] == 64 { "w4.sm2.x" } else { "w4.sm1.x" }, sizes }
            }
            ("w4", "sum0") => Named::Sum(0),
            ("w4", "sum1") => Named::Sum(1),
            ("w5", "mlp") => {
                let [batch, width] = sizes(rest)?.try_into().ok()?;
                Named::Mlp { batch, width }
            }
            ("w8", "sdpa") => {
                let tokens = rest.trim_end_matches("_causal");
                Named::Attention {
                    tokens: tokens.parse().ok()?,
                    causal: rest.ends_with("_causal"),
                }
            }
            ("w10", "mm") => {
                let text = rest.trim_end_matches("_bf16");
                Named::Product { sizes: sizes(text)?.try_into().ok()?, bf16: text != rest }
            }
            _ => return None,
        })
    }

    /// The input of W5: the first rows of 64.
    pub fn mlp_input(batch: usize, width: usize) -> Vec<f32> {
        floats(&format!("w5.h{width}.x"), &[batch, width], 1.0, 0.0)
    }
}

/// Parameters by name, as the peer's tensors.
pub fn tensors<T>(p: Parameters, make: impl Fn(Parameter) -> T) -> HashMap<String, T> {
    p.each.into_iter().map(|p| (p.name.clone(), make(p))).collect()
}
