//! Explains how a compiled function was compiled, and why: as data, as text, as a page.
//!
//! [`Compiled::explain`](crate::Compiled::explain) gives an [`Explanation`]. It is plain data and lives on
//! without the function. `Display` prints it; [`Explanation::to_html`] makes a page of it.
//!
//! | file | what |
//! |---|---|
//! | `text` | the explanation as text |
//! | `graph` | the graph that was scheduled, as data |
//! | `layout` | where the nodes of a graph lie in a drawing |
//! | `markup` | elements and their escaped text |
//! | `drawing` | the graph as SVG |
//! | `steps` | tables of steps, of operators and of what is saved |
//! | `html` | the page; its style and script are `page.css` and `page.js` |

mod drawing;
mod graph;
mod html;
mod layout;
mod markup;
mod steps;
#[cfg(test)]
mod tests;
mod text;

pub use graph::{GraphExplanation, NodeExplanation, NodeRole, Operand};

use super::code::Code;
use super::guards::Guards;
use super::options::CompileEvent;
use super::stages::Executable;
use std::time::Duration;
use straightline_catalog::{Arg, Op};
use straightline_passes::ir::control;
use straightline_passes::ir::graph::{Graph, NodeKind};
use straightline_passes::partition::Decision;
use straightline_passes::schedule::loops::{Activation, Convolution, Extern, Follow, Matmul, Step};
pub use straightline_passes::schedule::loops::{FusionDecision, Work};
use straightline_runtime::plan::Plan;

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
    /// How long it took: the median of the newest 512 runs, if
    /// [`CompileOptions::time_steps`](crate::CompileOptions::time_steps) had them measured.
    pub time: Option<Duration>,
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
#[derive(Clone, Debug, Default)]
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
    /// The graph as it was captured, with the lines of the program that its calls come from.
    pub captured: String,
    /// The graph that was scheduled; without nodes where the variant runs eagerly, or runs the code of
    /// another one, whose graph is the same but for sizes.
    pub graph: GraphExplanation,
    /// The same of the backward pass.
    pub backward_graph: GraphExplanation,
    /// How often each rewrite rule changed something.
    pub rewrites: Vec<(&'static str, usize)>,
    /// How many runs the times of the steps are of; 0 if they were not measured.
    pub runs: usize,
    /// The same of the backward pass.
    pub backward_runs: usize,
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

/// The steps of a plan, and how many runs their times are of.
fn steps_of(code: &Code) -> (Vec<StepExplanation>, usize) {
    let schedule = code.schedule();
    let times = code.plan().and_then(Plan::step_times).unwrap_or_default();
    let explained = |(number, step): (usize, &Step)| {
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
        let time = times.steps.get(number).copied();
        StepExplanation { name, generated, ops, work: schedule.work(step), time }
    };
    (schedule.steps.iter().enumerate().map(explained).collect(), times.runs)
}

fn graph_of(code: &Executable) -> GraphExplanation {
    let graph = code.scheduled.as_deref();
    graph.map_or_else(GraphExplanation::default, |g| GraphExplanation::new(g, code.schedule()))
}

impl VariantExplanation {
    pub(super) fn new(
        number: usize,
        guards: &Guards,
        code: Option<&Executable>,
        code_of: Option<usize>,
        then: Option<Op>,
    ) -> Self {
        let mut explained = VariantExplanation {
            number,
            guards: guards.to_string(),
            inputs: guards.shapes(),
            eager: true,
            ..VariantExplanation::default()
        };
        let Some(code) = code else { return explained };
        let schedule = code.schedule();
        (explained.steps, explained.runs) = steps_of(&code.code);
        explained.decisions = schedule.decisions.clone();
        explained.timings = code.timings.clone();
        explained.report = code.report.to_string();
        explained.rewrites = code.report.fired.clone();
        explained.eager = false;
        explained.arena_bytes = schedule.arena_bytes;
        explained.code_bytes = code.code_bytes();
        explained.then = then;
        explained.code_of = code_of;
        explained.table = code.code.reads();
        for why in code.misfits.iter().map(ToString::to_string) {
            if !explained.misfits.contains(&why) {
                explained.misfits.push(why);
            }
        }
        explained.captured = code.captured().graph().display().with_provenance().to_string();
        explained.graph = graph_of(code);
        if let Some(training) = &code.training {
            let all = |of: &[Decision]| of.iter().map(SavedExplanation::new).collect();
            explained.saved = all(&training.kept);
            explained.recomputed = all(&training.recomputed);
            if let Some(backward) = training.backward() {
                (explained.backward, explained.backward_runs) = steps_of(&backward.code);
                explained.backward_graph = graph_of(backward);
            }
        }
        explained
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
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// What a page is headed by: where [`compile`](crate::compile()) was called, `src/main.rs:12:9`, unless
    /// something else is put here.
    pub name: String,
    /// The variants, oldest first.
    pub variants: Vec<VariantExplanation>,
    /// What has happened.
    pub events: Vec<CompileEvent>,
}
