//! The executable: a schedule compiled to machine code, and what a replay needs.
//!
//! [`Plan::compile`] resolves extern steps, generates code and keeps everything that the code
//! refers to by address. [`Plan::run`] fills an argument table on the stack, takes an arena and
//! calls the code: there is no lock, no dispatch and no other allocation. A plan is `Send + Sync`;
//! each concurrent run has its own arena.
//!
//! Plans of one structure can share their code: the numbers in which their schedules differ are in
//! a table of each ([`Plan::compile_for`], [`Plan::sharing`]).
//!
//! ```
//! use straightline_passes::ir::DType;
//! use straightline_passes::schedule::loops::*;
//! use straightline_runtime::plan::{ArgPtr, Plan, PlanOptions};
//!
//! // y = x + x, four elements
//! let axis = Axis { id: AxisId(0), extent: 4 };
//! let at = Index { terms: [(AxisId(0), 1)].into_iter().collect(), ..Index::default() };
//! let f32 = |op| Inst::new(op, DType::F32);
//! let buffer = |kind| Buffer { dtype: DType::F32, len: 4, kind, name: String::new() };
//! let schedule = Schedule {
//!     buffers: vec![buffer(BufferKind::Input(0)), buffer(BufferKind::Output(0))],
//!     steps: vec![Step::Kernel(Kernel {
//!         name: "add".into(),
//!         grid: [axis].into_iter().collect(),
//!         stages: vec![Stage {
//!             axes: Default::default(),
//!             body: vec![
//!                 f32(Op::Load { mem: Mem::Buffer(BufferId(0)), index: at.clone() }),
//!                 f32(Op::Binary(BinaryOp::Add, Val(0), Val(0))),
//!                 f32(Op::Store { mem: Mem::Buffer(BufferId(1)), index: at, value: Val(1) }),
//!             ],
//!         }],
//!         vectorize: Vectorize::Grid,
//!         scratch: vec![],
//!         work_per_point: 3,
//!         in_any_order: false,
//!         ops: vec![],
//!     })],
//!     ..Schedule::default()
//! };
//! let plan = Plan::compile(schedule, &PlanOptions::default())?;
//! let mut x = [1f32, 2.0, 3.0, 4.0];
//! let mut y = [0f32; 4];
//! // SAFETY: the buffers have four f32 elements each, as the schedule says.
//! unsafe {
//!     plan.run(&[ArgPtr::new(x.as_mut_ptr().cast())], &[], &[y.as_mut_ptr().cast()])?;
//! }
//! assert_eq!(y, [2.0, 4.0, 6.0, 8.0]);
//! # Ok::<(), straightline_runtime::plan::PlanError>(())
//! ```

pub mod branch;
mod clock;
mod convolution;
mod error;
mod externs;
mod matmul;
mod packed;
mod place;
mod timings;

#[cfg(test)]
mod tests;

pub use crate::cpu::jit::ArgPtr;
pub use clock::StepTimes;
pub use error::{ExternError, Panicked, PlanError};
pub use externs::{ExternCtx, ExternFn, ExternRegistry, View, ViewMut};
pub use timings::PassTimings;

use crate::cpu::jit::{self, Compiled, JitOptions, RunContext, Status, Unfit};
use crate::memory::{Block, allocate, guard};
use clock::{Clock, Host};
use externs::ExternStep;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use straightline_passes::schedule::loops::{Buffer, BufferKind, Schedule, Step};

/// Why the code of a plan does not serve another schedule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Misfit {
    /// The schedules differ in more than numbers.
    #[error("the kernels differ: {0}")]
    Structure(String),
    /// So many numbers differ, among them one that the code has built in.
    #[error("{changed} numbers differ, not all of which the code reads from its table: {first}")]
    Numbers {
        /// How many.
        changed: usize,
        /// The first that it does not read, and where it is.
        first: String,
    },
    /// A number was decided by when the code was made: a row of few elements, for instance.
    #[error("a size is of another kind: the loops for it are others")]
    Kind,
}

/// Whether constants differ that have the same digest.
fn digests_deceive(a: &Schedule, b: &Schedule) -> bool {
    a.buffers.iter().zip(&b.buffers).any(|(a, b)| match (&a.kind, &b.kind) {
        (BufferKind::Constant(x), BufferKind::Constant(y)) => {
            x != y && a.kind.place().map(|p| p[0]) == b.kind.place().map(|p| p[0])
        }
        _ => false,
    })
}

/// How a schedule is compiled.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Keep Cranelift's text ([`Plan::clif`]).
    pub keep_clif: bool,
    /// Keep the disassembly ([`Plan::asm`]).
    pub keep_asm: bool,
    /// Use Cranelift's 128-bit vectors only, where wider ones would run the inner loops.
    pub narrow: bool,
    /// Measure how long each step of a run takes ([`Plan::step_times`]). The code reads a clock after
    /// each step, which takes some 30 ns.
    pub time_steps: bool,
    /// The runtime kernels that [`Extern::Op`](straightline_passes::schedule::loops::Extern::Op)
    /// steps name.
    pub externs: Arc<ExternRegistry>,
}

/// Where no bytes are: aligned, as the addresses of empty buffers must be.
const NO_ARENA: *mut u8 = std::ptr::without_provenance_mut(64);

/// A compiled schedule.
pub struct Plan {
    schedule: Schedule,
    code: Arc<Compiled>,
    /// What the code reads of the schedule's numbers.
    numbers: Vec<i64>,
    /// The parts of an arena that must not be touched, if tests watch blocks.
    closed: Vec<Range<usize>>,
    // a table of addresses to the code: null where a step is generated
    externs: Vec<Option<Box<ExternStep>>>,
    timings: PassTimings,
    clock: Option<Clock>,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan")
            .field("steps", &self.schedule.steps.len())
            .field("arena_bytes", &self.schedule.arena_bytes)
            .field("code", &self.code)
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<Plan>();
};

/// If tests watch blocks, gives each intermediate separate pages in the arena in place of its
/// offset in the schedule. Returns the parts of the arena that must not be touched.
fn watch_arena(schedule: &mut Schedule) -> Vec<Range<usize>> {
    let in_arena = |b: &&mut Buffer| matches!(b.kind, BufferKind::Arena { .. }) && b.len > 0;
    let mut buffers: Vec<&mut Buffer> = schedule.buffers.iter_mut().filter(in_arena).collect();
    let parts: Vec<usize> = buffers.iter().map(|b| b.len * b.dtype.size()).collect();
    let Some(places) = guard::spread(&parts).filter(|_| !parts.is_empty()) else {
        return Vec::new();
    };
    for (buffer, offset) in buffers.iter_mut().zip(places.begins) {
        buffer.kind = BufferKind::Arena { offset };
    }
    schedule.arena_bytes = places.bytes;
    places.closed
}

impl Plan {
    /// Generates the code of a schedule.
    ///
    /// # Errors
    ///
    /// [`PlanError::UnsupportedOperator`] where a step names an operator that the registry lacks;
    /// [`PlanError::Jit`] where code cannot be generated.
    pub fn compile(schedule: Schedule, options: &PlanOptions) -> Result<Plan, PlanError> {
        Plan::compile_for(schedule, &[], options)
    }

    /// Generates code that other plans can share ([`Plan::sharing`]): where the schedule has other
    /// numbers than the plans of `others`, the code reads them from a table, which each plan has of
    /// its own. A plan of another structure is passed over.
    ///
    /// # Errors
    ///
    /// As [`Plan::compile`].
    pub fn compile_for(
        schedule: Schedule,
        others: &[&Plan],
        options: &PlanOptions,
    ) -> Result<Plan, PlanError> {
        let structure = (!others.is_empty()).then(|| schedule.apart().0);
        let others: Vec<Vec<i64>> = (others.iter().map(|p| p.schedule.apart()))
            .filter(|(other, _)| Some(other) == structure.as_ref())
            .map(|(_, numbers)| numbers)
            .collect();
        Plan::compile_beside(schedule, &others, options)
    }

    /// The same, from the numbers of the other schedules.
    pub(crate) fn compile_beside(
        mut schedule: Schedule,
        others: &[Vec<i64>],
        options: &PlanOptions,
    ) -> Result<Plan, PlanError> {
        let _span = tracing::debug_span!("plan", steps = schedule.steps.len()).entered();
        let closed = watch_arena(&mut schedule);
        let mut timings = PassTimings::default();
        let externs =
            timings.time("externs", || externs::resolve(&schedule, &options.externs, None))?;
        let others: Vec<&[i64]> = others.iter().map(Vec::as_slice).collect();
        let jit_options = JitOptions {
            keep_clif: options.keep_clif,
            keep_asm: options.keep_asm,
            wide: !options.narrow,
            lap: options.time_steps.then_some(clock::lap as jit::LapCall),
        };
        let (code, numbers) = timings
            .time("codegen", || jit::compile(&schedule, &others, externs::run_step, jit_options))?;
        let clock = options.time_steps.then(Clock::default);
        Ok(Plan { schedule, code: Arc::new(code), numbers, closed, externs, timings, clock })
    }

    /// A plan of another schedule that runs the code of this one, with a table of its own.
    ///
    /// # Errors
    ///
    /// The reason why the code does not serve it, or [`PlanError`] as [`Plan::compile`].
    pub fn sharing(
        &self,
        schedule: &Schedule,
        options: &PlanOptions,
    ) -> Result<Result<Plan, Misfit>, PlanError> {
        let mut watched = schedule.clone();
        let closed = watch_arena(&mut watched);
        let schedule = if closed.is_empty() { schedule } else { &watched };
        let (structure, own) = self.schedule.apart();
        let (other, numbers) = schedule.apart();
        if structure != other {
            let what = structure.difference(&other).unwrap_or_default();
            return Ok(Err(Misfit::Structure(what)));
        }
        let table = match self.code.table(&numbers) {
            // what the code relies on is the same: not just its digest
            Ok(_) if digests_deceive(&self.schedule, schedule) => return Ok(Err(Misfit::Kind)),
            Ok(table) => table,
            Err(Unfit::Kind) => return Ok(Err(Misfit::Kind)),
            Err(Unfit::Fixed(at)) => {
                let changed = own.iter().zip(&numbers).filter(|(a, b)| a != b).count();
                let (was, is) = (own.get(at), numbers.get(at));
                let shown = |n: Option<&i64>| n.map_or("none".to_string(), i64::to_string);
                let first = format!("{}, {} for {}", schedule.place_of(at), shown(is), shown(was));
                return Ok(Err(Misfit::Numbers { changed, first }));
            }
        };
        jit::verify(schedule)?;
        let mut timings = PassTimings::default();
        let externs = timings.time("externs", || {
            externs::resolve(schedule, &options.externs, Some(&self.externs))
        })?;
        let (code, schedule) = (self.code.clone(), schedule.clone());
        // the code has the calls of the clock, or has them not
        let clock = self.clock.as_ref().map(|_| Clock::default());
        Ok(Ok(Plan { schedule, code, numbers: table, closed, externs, timings, clock }))
    }

    /// Whether two plans run the same code.
    pub fn shares_code_with(&self, other: &Plan) -> bool {
        Arc::ptr_eq(&self.code, &other.code)
    }

    /// How many numbers the code reads from a table, because it was made for several schedules.
    pub fn reads(&self) -> usize {
        self.code.reads()
    }

    /// What was compiled.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Cranelift's text, if [`PlanOptions::keep_clif`].
    pub fn clif(&self) -> Option<&str> {
        self.code.clif()
    }

    /// The disassembly, if [`PlanOptions::keep_asm`].
    pub fn asm(&self) -> Option<&str> {
        self.code.asm()
    }

    /// Bytes of machine code.
    pub fn code_bytes(&self) -> usize {
        self.code.code_bytes()
    }

    /// How long the passes took.
    pub fn timings(&self) -> &PassTimings {
        &self.timings
    }

    /// How long the steps of the runs so far took, if [`PlanOptions::time_steps`].
    pub fn step_times(&self) -> Option<StepTimes> {
        self.clock.as_ref().map(Clock::times)
    }

    /// Runs the plan.
    ///
    /// # Errors
    ///
    /// [`PlanError::Arguments`] for too few arguments, [`PlanError::IndexOutOfRange`],
    /// [`PlanError::ZeroDivision`], errors of extern steps. The outputs' contents are then
    /// unspecified.
    ///
    /// # Safety
    ///
    /// Pointer `i` of each list is that of a tensor with the dtype and at least the elements of the
    /// schedule's buffer for it, aligned for the dtype. Inputs and parameters are not written by
    /// anyone during the call; outputs overlap nothing and are not touched by anyone else.
    pub unsafe fn run(
        &self,
        inputs: &[ArgPtr],
        parameters: &[ArgPtr],
        outputs: &[*mut u8],
    ) -> Result<(), PlanError> {
        let (i, p, o) = self.code.arg_counts();
        if inputs.len() < i || parameters.len() < p || outputs.len() < o {
            return Err(PlanError::Arguments {
                expected: (i, p, o),
                given: (inputs.len(), parameters.len(), outputs.len()),
            });
        }
        let given = inputs[..i].iter().chain(&parameters[..p]).copied();
        let outputs = outputs[..o].iter().map(|ptr| ArgPtr::new(*ptr));
        let table: SmallVec<[ArgPtr; 8]> = given.chain(outputs).collect();
        // SAFETY: as the caller says.
        unsafe { self.run_table(&table) }
    }

    /// How many inputs, parameters and outputs there are in the table of [`Plan::run_table`].
    #[inline]
    pub fn table(&self) -> (usize, usize, usize) {
        self.code.arg_counts()
    }

    /// [`Plan::run`] with all arguments in one table, as the code has it: the inputs, parameters and
    /// outputs that the schedule has buffers for, as many as [`Plan::table`] says.
    ///
    /// # Errors
    ///
    /// As [`Plan::run`].
    ///
    /// # Safety
    ///
    /// As of [`Plan::run`].
    #[inline]
    pub unsafe fn run_table(&self, table: &[ArgPtr]) -> Result<(), PlanError> {
        match &self.clock {
            // SAFETY: the caller's contract.
            None => unsafe { self.enter(table, None) },
            // SAFETY: the caller's contract.
            Some(clock) => clock.measure(|laps| unsafe { self.enter(table, Some(laps)) }),
        }
    }

    /// [`Plan::run_table`], noting when each step ends.
    ///
    /// # Safety
    ///
    /// As of [`Plan::run`].
    unsafe fn enter(
        &self,
        table: &[ArgPtr],
        laps: Option<&mut Vec<Instant>>,
    ) -> Result<(), PlanError> {
        let (i, p, o) = self.code.arg_counts();
        if table.len() != i + p + o {
            let given = (table.len(), 0, 0);
            return Err(PlanError::Arguments { expected: (i, p, o), given });
        }
        let arena = match self.schedule.arena_bytes {
            0 => None,
            bytes => Some(allocate(bytes)?),
        };
        if let Some(arena) = &arena
            && !self.closed.is_empty()
        {
            guard::close(arena, &self.closed)?;
        }
        let mut status = Status::default();
        let mut host = Host { error: None, laps };
        let context = RunContext {
            args: table.as_ptr(),
            arena: arena.as_ref().map_or(NO_ARENA, Block::as_ptr),
            status: &raw mut status,
            host: (&raw mut host).cast(),
            // an optional box is a pointer that may be null
            steps: self.externs.as_ptr().cast(),
            numbers: self.numbers.as_ptr(),
        };
        host.lap();
        // SAFETY: the table has the entries that the code expects, by the caller's contract; the
        // arena is ours alone.
        unsafe { self.code.run(&context) };
        if status.code == 0 {
            return Ok(());
        }
        Err(self.failure(status, host.error))
    }

    #[cold]
    fn failure(&self, status: Status, error: Option<PlanError>) -> PlanError {
        let step = status.step as usize;
        let kernel = match self.schedule.steps.get(step) {
            Some(Step::Kernel(k)) => k.name.clone(),
            _ => String::new(),
        };
        let site = u32::try_from(status.site).ok();
        match (status.code, error) {
            (jit::INDEX_OUT_OF_RANGE, _) => PlanError::IndexOutOfRange {
                step,
                kernel,
                index: status.value,
                size: status.size,
                site,
            },
            (jit::ZERO_DIVISION, _) => PlanError::ZeroDivision { step, kernel, site },
            (_, Some(error)) => error,
            (code, None) => PlanError::Extern {
                step,
                op: kernel,
                error: Arc::new(format!("status {code}").into()),
                site,
            },
        }
    }
}
