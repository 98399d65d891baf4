//! The stages of a compilation, each an object that prints.
//!
//! `trace -> lower -> compile`: [`Traced`] holds the captured graph, [`Lowered`] the rewritten
//! graph and the schedule, [`Executable`] the machine code.

use super::code::Code;
#[cfg(feature = "cuda")]
use super::code::OnGpu;
use super::delivery::Delivery;
use super::devices;
use super::externs;
use super::interpret;
use super::options::CompileOptions;
use super::traced::Traced;
use crate::deterministic::schedules_of_gpu;
use crate::dispatch::record_function;
use crate::error::{Error, Result};
use crate::modes::functionalize::Owner;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use straightline_catalog::{Device, TensorMeta};
use straightline_passes::ir::graph::Graph;
use straightline_passes::partition::Decision;
use straightline_passes::rewrite::{RewriteOptions, RewriteReport, rewrite};
use straightline_passes::schedule::loops::{OutputBinding, Schedule};
use straightline_passes::schedule::{ScheduleOptions, schedule};
use straightline_runtime::plan::{Misfit, Plan, PlanError, PlanOptions};

/// At most so many earlier plans show which numbers vary.
const SAMPLES: usize = 8;

impl Traced {
    /// Rewrites the graph and schedules it, with default options.
    pub fn lower(&self) -> Result<Lowered> {
        self.lower_with(&CompileOptions::default())
    }

    /// Asks the operators of a graph that was not captured, but read or built, whether its calls have
    /// the results that it declares. [`Traced::lower`] begins with this.
    ///
    /// ```
    /// use straightline::{Graph, Traced};
    /// let text = "graph(%x: f32[2,3,4], %w: f32[9,9]) {
    ///   %0: f32[2,3,9] = aten::linear(%x, %w)
    ///   return %0
    /// }";
    /// let error = Traced::from_graph(Graph::parse(text)?).check().unwrap_err();
    /// assert!(error.to_string().contains("line 2, column 3"), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first call that an operator refuses, or that has other results, with its place in the
    /// text.
    pub fn check(&self) -> Result<()> {
        match self.given {
            true => interpret::check_shapes(&self.graph),
            false => Ok(()),
        }
    }

    /// Rewrites the graph and schedules it.
    pub fn lower_with(&self, options: &CompileOptions) -> Result<Lowered> {
        let _pin = self.surroundings.pin();
        self.check()?;
        let device = devices::of(self)?;
        let begin = Instant::now();
        let CompileOptions { fast_math, autotune, time_steps, .. } = *options;
        let options = RewriteOptions { fast_math, ..RewriteOptions::default() };
        let range = record_function("rewrite");
        let (graph, report) =
            rewrite(&self.graph, &options).map_err(|e| Error::compile(e.to_string()))?;
        let rewrite_time = begin.elapsed();
        drop(range);
        let _range = record_function("schedule");
        let begin = Instant::now();
        let of_device = match device.is_cpu() {
            true => ScheduleOptions::default(),
            false => schedules_of_gpu(),
        };
        let options = ScheduleOptions { fast_math, ..of_device };
        let mut schedule = schedule(&graph, &options).map_err(|e| Error::compile(e.to_string()))?;
        // what rewriting made is where the function has it
        for (output, value) in schedule.outputs.iter_mut().zip(self.graph.outputs()) {
            let (OutputBinding::Fresh { meta, .. } | OutputBinding::View { meta, .. }) = output;
            meta.device = self.graph.meta(*value).device;
        }
        Ok(Lowered {
            traced: self.clone(),
            device,
            autotune,
            time_steps,
            graph: Arc::new(graph),
            report,
            schedule,
            rewrite_time,
            schedule_time: begin.elapsed(),
        })
    }
}

/// A function as fused kernels and extern calls.
///
/// `Display` prints the loops.
#[derive(Clone, Debug)]
pub struct Lowered {
    pub(super) traced: Traced,
    device: Device,
    autotune: bool,
    time_steps: bool,
    graph: Arc<Graph>,
    report: RewriteReport,
    schedule: Schedule,
    rewrite_time: Duration,
    schedule_time: Duration,
}

impl Lowered {
    /// The rewritten graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// What the e-graph did.
    pub fn report(&self) -> &RewriteReport {
        &self.report
    }

    /// The kernels, extern calls and buffers.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Outputs of the graph that rewriting gave other strides than the function did, with the type
    /// that they had: an operand that stands for its copy, a number that stands for its view.
    fn restrided(&self) -> Vec<(usize, TensorMeta)> {
        let metas = |g: &Graph| -> Vec<TensorMeta> {
            g.outputs().iter().map(|v| g.meta(*v).clone()).collect()
        };
        let (mut old, new) = (metas(&self.traced.graph), metas(&self.graph));
        for (meta, declared) in old.iter_mut().zip(&self.traced.declared) {
            *meta = declared.clone();
        }
        let pairs = old.into_iter().zip(new).enumerate();
        pairs
            .filter(|(_, (old, new))| old.strides != new.strides)
            .map(|(i, (old, _))| (i, old))
            .collect()
    }

    /// Generates machine code.
    pub fn compile(&self) -> Result<Executable> {
        self.compile_with_text(false)
    }

    /// Generates machine code, keeping its texts for [`Executable::clif`] and [`Executable::asm`].
    pub fn compile_with_text(&self, keep: bool) -> Result<Executable> {
        let made = self.compile_like(&[], keep, true)?;
        Ok(made.expect("generated where none is there"))
    }

    /// Takes the code of a plan of `like` that serves this schedule. Where there is none, generates
    /// code if it may, which serves those of `like` that have the same structure as well.
    pub(super) fn compile_like(
        &self,
        like: &[&Code],
        keep: bool,
        generate: bool,
    ) -> Result<Option<Executable>> {
        let _pin = self.traced.surroundings.pin();
        let _range = record_function("codegen");
        let begin = Instant::now();
        let mut misfits = Vec::new();
        let made = match self.device.is_cpu() {
            true => self.plan(like, keep, generate, &mut misfits)?.map(Code::Cpu),
            false => self.on_gpu(like, generate)?,
        };
        let Some(code) = made else { return Ok(None) };
        let results = Delivery::new(&self.traced, code.schedule(), self.restrided());
        Ok(Some(Executable {
            traced: self.traced.clone(),
            code,
            results,
            report: self.report.clone(),
            timings: vec![
                ("rewrite", self.rewrite_time),
                ("schedule", self.schedule_time),
                ("codegen", begin.elapsed()),
            ],
            misfits,
            training: None,
            scheduled: Some(Arc::clone(&self.graph)),
        }))
    }

    /// The plan for a CPU.
    fn plan(
        &self,
        like: &[&Code],
        keep: bool,
        generate: bool,
        misfits: &mut Vec<Misfit>,
    ) -> Result<Option<Plan>> {
        let options = PlanOptions {
            keep_clif: keep,
            keep_asm: keep,
            time_steps: self.time_steps,
            externs: externs::registry(&self.schedule)?,
            ..PlanOptions::default()
        };
        let failed = |e: PlanError| Error::compile(e.to_string());
        let like: Vec<&Plan> = like.iter().filter_map(|code| code.plan()).collect();
        let mut tried: Vec<&Plan> = Vec::new();
        for other in &like {
            if tried.iter().any(|t| t.shares_code_with(other)) {
                continue;
            }
            tried.push(other);
            match other.sharing(&self.schedule, &options).map_err(failed)? {
                Ok(plan) => return Ok(Some(plan)),
                Err(misfit) => misfits.push(misfit),
            }
        }
        if !generate {
            return Ok(None);
        }
        let most = like.len().min(SAMPLES);
        Plan::compile_for(self.schedule.clone(), &like[..most], &options).map(Some).map_err(failed)
    }

    /// The program for a GPU. Its numbers are arguments, so it is that of others which has the same
    /// text.
    #[cfg(feature = "cuda")]
    fn on_gpu(&self, like: &[&Code], generate: bool) -> Result<Option<Code>> {
        use crate::cuda::program::{Making, Program};
        use crate::tensor::on_device::gpu;
        let call = super::on_gpu::calls(&self.schedule, self.device)?;
        // text can be had without a driver
        let stream = match self.autotune {
            true => Some(gpu(self.device)?.current_stream()),
            false => None,
        };
        let making = Making::Compiled { tune: stream.as_ref() };
        let program = Program::new(self.schedule.clone(), making, &call).map_err(|e| {
            Error::compile(format!(
                "{e}: call the function without `compile()` on `{}`",
                self.device
            ))
        })?;
        let code = Code::Cuda(OnGpu { program, device: self.device });
        let known = like.iter().any(|other| other.shares_code_with(&code));
        Ok((generate || known).then_some(code))
    }

    #[cfg(not(feature = "cuda"))]
    fn on_gpu(&self, _: &[&Code], _: bool) -> Result<Option<Code>> {
        Err(super::devices::none_for(self.device))
    }
}

impl fmt::Display for Lowered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.schedule.fmt(f)
    }
}

/// A function as machine code.
///
/// `Display` prints the plan: buffers, steps, sizes.
pub struct Executable {
    pub(super) traced: Traced,
    pub(super) code: Code,
    pub(super) results: Delivery,
    pub(super) report: RewriteReport,
    pub(super) timings: Vec<(&'static str, Duration)>,
    /// Why the code that there was before did not serve.
    pub(super) misfits: Vec<Misfit>,
    /// The backward half of a function whose results want gradients.
    pub(super) training: Option<Box<Training>>,
    /// The rewritten graph, for `explain`; none where the code is that of another variant, which has
    /// it but for sizes.
    pub(super) scheduled: Option<Arc<Graph>>,
}

/// What a plan of a forward half knows of the backward one.
pub(super) struct Training {
    /// The function as it was captured.
    pub(super) joint: Box<Traced>,
    /// The results that want gradients.
    pub(super) results: Vec<usize>,
    /// What the gradients go to.
    pub(super) targets: Vec<Owner>,
    pub(super) saved: Vec<Place>,
    /// `None` if the function has made the backward pass itself.
    pub(super) backward: Option<Arc<BackwardPlan>>,
    /// What is saved, and why.
    pub(super) kept: Vec<Decision>,
    /// What the backward half computes again.
    pub(super) recomputed: Vec<Decision>,
}

/// Where a saved value is when the forward half has run.
pub(super) enum Place {
    Input(usize),
    Parameter(usize),
    /// Behind the results.
    Result(usize),
}

/// The machine code of a backward half.
pub(super) struct BackwardPlan {
    pub(super) code: Executable,
    pub(super) saved: usize,
}

impl Executable {
    /// Without its rewritten graph, if it runs the code of another one.
    pub(super) fn lean(mut self, shares: bool) -> Executable {
        if shares {
            self.scheduled = None;
        }
        self
    }

    /// The function as it was captured.
    pub(super) fn captured(&self) -> &Traced {
        self.training.as_ref().map_or(&self.traced, |t| &t.joint)
    }

    /// Whether it runs the code of another one.
    pub(super) fn shares_code_with(&self, other: &Executable) -> bool {
        let backward = |e| Executable::backward_half(e).map(|code| &code.code);
        let halves = match (backward(self), backward(other)) {
            (Some(a), Some(b)) => a.shares_code_with(b),
            (a, b) => a.is_none() && b.is_none(),
        };
        halves && self.code.shares_code_with(&other.code)
    }

    /// The code of the backward half, if there is one.
    pub(super) fn backward_half(&self) -> Option<&Executable> {
        self.training.as_ref().and_then(|t| t.backward())
    }

    /// What is run, in order, and the memory for it.
    pub fn schedule(&self) -> &Schedule {
        self.code.schedule()
    }

    /// Bytes of machine code; of a GPU's program those of its text.
    pub fn code_bytes(&self) -> usize {
        self.code.bytes()
    }

    /// What the e-graph did.
    pub fn report(&self) -> &RewriteReport {
        &self.report
    }

    /// Cranelift's text of the code, if it was kept.
    pub fn clif(&self) -> Option<&str> {
        self.code.plan()?.clif()
    }

    /// The disassembly, if it was kept.
    pub fn asm(&self) -> Option<&str> {
        self.code.plan()?.asm()
    }

    /// The CUDA C of a function on a GPU, without that of matrix products.
    #[cfg(feature = "cuda")]
    pub fn cuda(&self) -> Option<&str> {
        match &self.code {
            Code::Cpu(_) => None,
            Code::Cuda(code) => Some(code.program.text()),
        }
    }

    /// What NVRTC makes of [`Executable::cuda`] for GPUs of a compute capability (9.0 is 90): PTX, or
    /// machine code. `None` on the CPU.
    ///
    /// ```
    /// use straightline::{Graph, Traced, cuda};
    /// let graph = Graph::parse("graph(%x: f32[2]) {\n  %0: f32[2] = aten::relu(%x)\n  return %0\n}")?;
    /// let there = Traced::from_graph(graph).on("cuda:0".parse()?).lower()?.compile()?;
    /// match there.binary(cuda::Target::Ptx { capability: 90 }) {
    ///     Ok(ptx) => assert!(String::from_utf8(ptx.unwrap())?.contains(".entry")),
    ///     Err(e) => println!("{e}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// NVRTC is missing, or does not know the capability.
    #[cfg(feature = "cuda")]
    pub fn binary(&self, target: crate::cuda::Target) -> Result<Option<Vec<u8>>> {
        let compile = |text| straightline_cuda::programs::binary(text, target);
        let made = self.cuda().map(compile).transpose();
        Ok(made.map_err(|e| Error::device(e.to_string()))?.map(|b| b.code))
    }

    /// How long each pass took.
    pub fn timings(&self) -> &[(&'static str, Duration)] {
        &self.timings
    }
}

impl fmt::Display for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.schedule().summary())?;
        match &self.code {
            Code::Cpu(plan) => write!(f, "machine code: {} bytes", plan.code_bytes()),
            #[cfg(feature = "cuda")]
            Code::Cuda(code) => {
                write!(f, "CUDA C for {}: {} bytes", code.device, code.program.text().len())
            }
        }
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Executable");
        f.field("steps", &self.schedule().steps.len());
        f.field("code_bytes", &self.code_bytes()).finish_non_exhaustive()
    }
}
