//! Explains how a compiled function was compiled, and why.

use super::guards::Guards;
use super::options::CompileEvent;
use super::stages::Executable;
use std::fmt;
use std::time::Duration;
use straightline_catalog::{Arg, Op};
use straightline_passes::ir::control;
use straightline_passes::ir::graph::{Graph, NodeKind};
use straightline_passes::partition::Decision;
use straightline_passes::schedule::loops::{
    Activation, Convolution, Extern, Follow, FusionDecision, Matmul, Schedule, Step, Work,
};

/// One kernel or extern call of a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct StepExplanation {
    /// The kernel's name, or the extern operator.
    pub name: String,
    /// Whether it is generated code; otherwise a call of a runtime kernel.
    pub generated: bool,
    /// The operators that it computes.
    pub ops: Vec<String>,
    /// What a run of it moves and computes, as estimated.
    pub work: Work,
}

impl StepExplanation {
    fn line(&self, f: &mut fmt::Formatter<'_>, number: usize) -> fmt::Result {
        let kind = if self.generated { "kernel" } else { "extern" };
        let (name, ops, work) = (&self.name, self.ops.join(" "), self.work);
        writeln!(f, "  {number}: {kind} {name} <- {ops} ({work})")
    }
}

/// A value that the backward pass of a variant uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedExplanation {
    /// Its name, or the operator that computes it.
    pub name: String,
    /// `f32[4, 8]`.
    pub shape: String,
    /// Its size.
    pub bytes: usize,
    /// Why it is kept, or is not.
    pub why: String,
}

impl SavedExplanation {
    fn new(of: &Decision) -> SavedExplanation {
        SavedExplanation {
            name: of.name.clone(),
            shape: of.shape.clone(),
            bytes: of.bytes,
            why: of.reason.to_string(),
        }
    }
}

/// Facts about one variant.
#[derive(Clone, Debug)]
pub struct VariantExplanation {
    /// Its number, from 0.
    pub number: usize,
    /// The guards, one a line.
    pub guards: String,
    /// The dtype and sizes of each input: `f32[4, 8]`.
    pub inputs: Vec<String>,
    /// The steps of the plan in order; none where the variant runs eagerly.
    pub steps: Vec<StepExplanation>,
    /// Which operator went where, and why.
    pub decisions: Vec<FusionDecision>,
    /// How long each pass took.
    pub timings: Vec<(&'static str, Duration)>,
    /// The e-graph's report.
    pub report: String,
    /// What is kept from a call for its backward pass, if results want gradients.
    pub saved: Vec<SavedExplanation>,
    /// What the backward pass computes again.
    pub recomputed: Vec<SavedExplanation>,
    /// The steps of the backward plan.
    pub backward: Vec<StepExplanation>,
    /// Whether the variant runs eagerly.
    pub eager: bool,
    /// Bytes of temporaries.
    pub arena_bytes: usize,
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// The call that follows, if this is the front of a function: one whose results have sizes that
    /// depend on data. The rest is a variant of its own for each set of sizes.
    pub then: Option<Op>,
    /// The variant whose code it runs, if that is another one.
    pub code_of: Option<usize>,
    /// How many numbers the code reads from a table, because it serves several sizes.
    pub table: usize,
    /// Why the code that there was before did not serve.
    pub misfits: Vec<String>,
}

/// The product and what was folded into it.
fn matmul_ops(m: &Matmul) -> Vec<String> {
    let batched = m.out.sizes.len() > 2;
    let mut ops = vec![if batched { Op::bmm } else { Op::mm }.to_string()];
    if m.bias.is_some() {
        ops.push("+bias".into());
    }
    if m.activation != Activation::None {
        ops.push(format!("+{:?}", m.activation));
    }
    if m.residual.is_some() {
        ops.push("+residual".into());
    }
    if m.pack_b {
        ops.push("(packed weights)".into());
    }
    ops
}

/// The calls of the graphs that a call is given: `true_fn[aten::sin]`.
fn inside(op: Op, args: &[Arg<u32>]) -> Vec<String> {
    let calls = |graph: &Graph| -> Vec<String> {
        let ids = graph.topological().into_iter();
        let op = |id| match &graph.node(id).kind {
            NodeKind::Call(call) => Some(call.op.to_string()),
            _ => None,
        };
        ids.filter_map(op).collect()
    };
    let graphs = control::subgraphs(op, args).into_iter();
    graphs.map(|(name, graph)| format!("{name}[{}]", calls(graph).join(" "))).collect()
}

fn convolution_ops(c: &Convolution) -> Vec<String> {
    let mut ops = vec![Op::convolution.to_string()];
    if c.bias.is_some() {
        ops.push("+bias".into());
    }
    ops.extend(c.follow.iter().map(|f| match f {
        Follow::Scale(_) => "+scale".to_string(),
        Follow::Shift(_) => "+shift".to_string(),
        Follow::Add(_) => "+residual".to_string(),
        Follow::Activation(a) => format!("+{a:?}"),
    }));
    if c.pack_weight {
        ops.push("(packed weights)".into());
    }
    if c.fast_math {
        ops.push("(fast math)".into());
    }
    ops
}

fn steps_of(schedule: &Schedule) -> Vec<StepExplanation> {
    let explained = |step: &Step| {
        let (name, ops) = match step {
            Step::Kernel(k) => (k.name.clone(), k.ops.iter().map(ToString::to_string).collect()),
            Step::Extern(Extern::Matmul(m)) => ("matmul".into(), matmul_ops(m)),
            Step::Extern(Extern::Convolution(c)) => {
                (Op::convolution.to_string(), convolution_ops(c))
            }
            Step::Extern(Extern::Op { op, args, .. }) => {
                (op.to_string(), std::iter::once(op.to_string()).chain(inside(*op, args)).collect())
            }
        };
        let generated = matches!(step, Step::Kernel(_));
        StepExplanation { name, generated, ops, work: schedule.work(step) }
    };
    schedule.steps.iter().map(explained).collect()
}

impl VariantExplanation {
    pub(super) fn new(
        number: usize,
        guards: &Guards,
        code: Option<&Executable>,
        code_of: Option<usize>,
        then: Option<Op>,
    ) -> Self {
        let inputs = guards.shapes();
        let Some(code) = code else {
            return VariantExplanation {
                number,
                guards: guards.to_string(),
                inputs,
                steps: Vec::new(),
                decisions: Vec::new(),
                timings: Vec::new(),
                report: String::new(),
                saved: Vec::new(),
                recomputed: Vec::new(),
                backward: Vec::new(),
                eager: true,
                arena_bytes: 0,
                code_bytes: 0,
                then: None,
                code_of: None,
                table: 0,
                misfits: Vec::new(),
            };
        };
        let schedule = code.schedule();
        let training = code.training.as_ref();
        let all = |of: &[Decision]| of.iter().map(SavedExplanation::new).collect();
        VariantExplanation {
            number,
            guards: guards.to_string(),
            inputs,
            steps: steps_of(schedule),
            saved: training.map_or(Vec::new(), |t| all(&t.kept)),
            recomputed: training.map_or(Vec::new(), |t| all(&t.recomputed)),
            backward: (training.and_then(|t| t.backward()))
                .map_or(Vec::new(), |code| steps_of(code.schedule())),
            decisions: schedule.decisions.clone(),
            timings: code.timings.clone(),
            report: code.report.to_string(),
            eager: false,
            arena_bytes: schedule.arena_bytes,
            code_bytes: code.code_bytes(),
            then,
            code_of,
            table: code.code.reads(),
            misfits: {
                let mut all: Vec<String> = Vec::new();
                for why in code.misfits.iter().map(ToString::to_string) {
                    if !all.contains(&why) {
                        all.push(why);
                    }
                }
                all
            },
        }
    }

    /// The number of generated kernels.
    pub fn kernels(&self) -> usize {
        self.steps.iter().filter(|s| s.generated).count()
    }
}

/// Everything about a compiled function, for users and tests.
///
/// ```
/// use straightline::{Tensor, compile};
/// let f = compile(|x: &Tensor| x.exp()?.add(1)?.log());
/// f.call(&Tensor::from_vec([0f32], 1)?)?;
/// let why = f.explain();
/// assert_eq!(why.variants[0].kernels(), 1);
/// println!("{why}");
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The variants, oldest first.
    pub variants: Vec<VariantExplanation>,
    /// What has happened.
    pub events: Vec<CompileEvent>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for v in &self.variants {
            if let Some(other) = v.code_of {
                // steps and fusion are those of the other one but for numbers
                let (number, inputs) = (v.number, v.inputs.join(", "));
                writeln!(f, "variant {number} runs the code of variant {other} for {inputs}")?;
                continue;
            }
            writeln!(f, "variant {}", v.number)?;
            writeln!(f, " guards")?;
            write!(f, "{}", v.guards)?;
            if v.eager {
                writeln!(f, " runs eagerly")?;
                continue;
            }
            writeln!(
                f,
                " steps: {} generated, {} extern; {} bytes of code, {} bytes of temporaries",
                v.kernels(),
                v.steps.len() - v.kernels(),
                v.code_bytes,
                v.arena_bytes
            )?;
            if v.table > 0 {
                writeln!(f, "  the code reads {} numbers from a table", v.table)?;
            }
            for why in &v.misfits {
                writeln!(f, "  not the code of an earlier variant: {why}")?;
            }
            for (i, s) in v.steps.iter().enumerate() {
                s.line(f, i)?;
            }
            if let Some(op) = v.then {
                writeln!(f, "  then {op}, and a variant of the rest for the sizes of its results")?;
            }
            if !v.backward.is_empty() {
                writeln!(f, " saved for the backward pass")?;
                for s in &v.saved {
                    writeln!(f, "  {} {} {} bytes: {}", s.name, s.shape, s.bytes, s.why)?;
                }
                writeln!(f, " computed again there")?;
                for s in &v.recomputed {
                    writeln!(f, "  {} {} {} bytes: {}", s.name, s.shape, s.bytes, s.why)?;
                }
                writeln!(f, " steps of the backward pass")?;
                for (i, s) in v.backward.iter().enumerate() {
                    s.line(f, i)?;
                }
            }
            writeln!(f, " fusion")?;
            for d in &v.decisions {
                match d.step {
                    Some(step) => writeln!(f, "  {} -> step {step}: {}", d.node, d.reason)?,
                    None => writeln!(f, "  {}: {}", d.node, d.reason)?,
                }
            }
            writeln!(f, " passes")?;
            for (name, took) in &v.timings {
                writeln!(f, "  {name}: {:.3} ms", took.as_secs_f64() * 1e3)?;
            }
            writeln!(f, " e-graph")?;
            for line in v.report.lines() {
                writeln!(f, "  {line}")?;
            }
        }
        writeln!(f, "events")?;
        for e in &self.events {
            writeln!(f, "  {e}")?;
        }
        Ok(())
    }
}
