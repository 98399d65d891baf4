//! Functions: the entry of a schedule and the kernels it calls.

use super::JitError;
use super::analyse::KernelFacts;
use super::argument::ArgPtr;
use super::constants::ConstantPool;
use super::emit::{Emit, mem};
use super::kept;
use super::memory::{Code, CodeBuilder, FuncId};
use super::nest::{ArgLayout, Context, Nest, Units};
use super::sizes::{Kernel, Program, Sizes, Table, Unfit};
use super::status::Status;
use super::verify::verify;
use super::x86::{Strip, Vectors, busiest, columns_of, part_strip, rows_of, strip_of};
use crate::cpu::threads::sl_parallel_for;
use cranelift_codegen::ir::{AbiParam, FuncRef, Function, InstBuilder, Signature, Value, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use std::cell::RefCell;
use std::fmt::Write;
use std::sync::Arc;
use straightline_passes::schedule::loops::{BufferKind, Schedule};

/// Kernels with at least this many scalar operations are offered to the thread pool.
const PARALLEL_WORK: u64 = 1 << 16;
/// A range that a thread takes has about this many.
const GRAIN_WORK: u64 = 1 << 14;
/// A schedule with at most this many instructions is one function.
const INLINE_BODY: usize = 400;

/// What to keep beside the code.
#[derive(Clone, Copy, Debug, Default)]
pub struct JitOptions {
    /// The intermediate text of each function.
    pub keep_clif: bool,
    /// The disassembly of each function.
    pub keep_asm: bool,
    /// Use vectors wider than Cranelift's if the machine has them.
    pub wide: bool,
    /// Call this after each step.
    pub lap: Option<LapCall>,
}

/// What is called after a step, with the context of the run.
pub type LapCall = extern "C" fn(*const RunContext);

/// What a step that is not a kernel calls with its descriptor, one of [`RunContext::steps`], and the
/// context; it reports failure through the status.
pub type ExternCall = extern "C" fn(*const u8, *const RunContext);

/// What one run of the code works on.
#[derive(Debug)]
#[repr(C)]
pub struct RunContext {
    /// Inputs, parameters, outputs, in this order.
    pub args: *const ArgPtr,
    /// [`Schedule::arena_bytes`] bytes, aligned to 64.
    pub arena: *mut u8,
    /// Zeroed; where failures are reported.
    pub status: *mut Status,
    /// For extern steps: not touched by generated code.
    pub host: *mut u8,
    /// Of each step its descriptor, if it is an extern step.
    pub steps: *const *const u8,
    /// The numbers of the schedule that the code reads ([`Compiled::table`]).
    pub numbers: *const i64,
}

/// Machine code of a schedule.
pub struct Compiled {
    entry: extern "C" fn(*const RunContext),
    inputs: usize,
    parameters: usize,
    outputs: usize,
    clif: Option<String>,
    asm: Option<String>,
    code_bytes: usize,
    table: Table,
    // values that the code refers to by address
    _code: Code,
    _pool: ConstantPool,
    _constants: Vec<Arc<[u8]>>,
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled")
            .field("inputs", &self.inputs)
            .field("parameters", &self.parameters)
            .field("outputs", &self.outputs)
            .field("code_bytes", &self.code_bytes)
            .finish_non_exhaustive()
    }
}

impl Compiled {
    /// How many inputs, parameters and outputs the argument table has.
    pub fn arg_counts(&self) -> (usize, usize, usize) {
        (self.inputs, self.parameters, self.outputs)
    }

    /// The intermediate text, if it was kept.
    pub fn clif(&self) -> Option<&str> {
        self.clif.as_deref()
    }

    /// The disassembly, if it was kept.
    pub fn asm(&self) -> Option<&str> {
        self.asm.as_deref()
    }

    /// Bytes of machine code.
    pub fn code_bytes(&self) -> usize {
        self.code_bytes
    }

    /// The table of numbers with which the code serves a schedule of the same structure and with
    /// these numbers ([`Schedule::apart`]).
    ///
    /// # Errors
    /// If it does not.
    pub fn table(&self, numbers: &[i64]) -> Result<Vec<i64>, Unfit> {
        self.table.of(numbers)
    }

    /// How many numbers the code reads from its table.
    pub fn reads(&self) -> usize {
        self.table.len()
    }

    /// Runs the code.
    ///
    /// # Safety
    ///
    /// The table of numbers is the one that [`Compiled::table`] makes for the schedule of the call.
    /// The argument table has the entries that [`Compiled::arg_counts`] says, each valid for the
    /// schedule's buffer and of its dtype; outputs and arena overlap nothing else and no one else
    /// uses them; each extern step has the descriptor that its function expects.
    #[inline]
    pub unsafe fn run(&self, context: &RunContext) {
        (self.entry)(context);
    }
}

thread_local! {
    /// Taken by a build, which leaves it incomplete on failure and returns it on success.
    static CONTEXT: RefCell<Option<(cranelift_codegen::Context, FunctionBuilderContext)>> = const { RefCell::new(None) };
}

struct Unit<'s> {
    program: &'s Program<'s>,
    options: JitOptions,
    layout: ArgLayout,
    builder: CodeBuilder,
    pool: ConstantPool,
    call_conv: CallConv,
    x64: bool,
    /// What strips use, if there are any.
    wide: Option<Vectors>,
    clif: String,
    asm: String,
    code_bytes: usize,
}

/// Generates the code of a schedule. Extern steps call `call`. `others` are the numbers of other
/// schedules with the same structure: what differs is read from a table, so that the code serves
/// those as well, and most that have still other numbers. The table of the schedule itself is given
/// with the code.
///
/// # Errors
///
/// [`JitError`]; code is never partial.
pub fn compile(
    schedule: &Schedule,
    others: &[&[i64]],
    call: ExternCall,
    options: JitOptions,
) -> Result<(Compiled, Vec<i64>), JitError> {
    verify(schedule)?;
    let mut program = Program::new(schedule, others);
    kept::in_results(&mut program);
    let isa = super::isa::host()?;
    let mut unit = Unit {
        program: &program,
        options,
        layout: ArgLayout::of(schedule),
        builder: CodeBuilder::new()?,
        pool: ConstantPool::default(),
        call_conv: isa.default_call_conv(),
        x64: isa.name() == "x64",
        wide: Vectors::in_use().filter(|_| {
            options.wide && isa.name() == "x64" && isa.default_call_conv() == CallConv::SystemV
        }),
        clif: String::new(),
        asm: String::new(),
        code_bytes: 0,
    };
    let entry = unit.entry(call)?;
    let Unit { layout, builder, pool, clif, asm, code_bytes, .. } = unit;
    let code = builder.finish()?;
    let address = code.address(entry);
    let (table, numbers) = program.sizes.into_table();
    let compiled = Compiled {
        // SAFETY: the function was compiled with exactly this signature and calling convention.
        entry: unsafe {
            std::mem::transmute::<*const u8, extern "C" fn(*const RunContext)>(address)
        },
        inputs: layout.inputs,
        parameters: layout.parameters,
        outputs: layout.outputs,
        clif: options.keep_clif.then_some(clif),
        asm: options.keep_asm.then_some(asm),
        code_bytes,
        table,
        _code: code,
        _pool: pool,
        _constants: schedule
            .buffers
            .iter()
            .filter_map(|b| match &b.kind {
                BufferKind::Constant(bytes) => Some(bytes.clone()),
                _ => None,
            })
            .collect(),
    };
    Ok((compiled, numbers))
}

/// How a kernel is reached from the entry.
enum Reach {
    Inline,
    Call(FuncId),
    Parallel(FuncId),
}

impl Unit<'_> {
    fn entry(&mut self, call: ExternCall) -> Result<FuncId, JitError> {
        let program = self.program;
        let sizes = &program.sizes;
        let body: usize = program.kernels().flat_map(|k| &k.stages).map(|s| s.body.len()).sum();
        let inline = body <= INLINE_BODY;
        let mut facts = Vec::with_capacity(program.kernels.len());
        let mut reach = Vec::with_capacity(program.kernels.len());
        for (i, kernel) in program.kernels.iter().enumerate() {
            let Some(kernel) = kernel else {
                facts.push(None);
                reach.push(Reach::Inline);
                continue;
            };
            let mut f = KernelFacts::of(kernel);
            f.cut(program, kernel);
            if let Some(vectors) = self.wide {
                self.strips(i, kernel, &mut f, vectors)?;
            }
            let units = sizes.hint(Units::of(kernel, &f, sizes).count);
            let parallel = work(kernel, sizes) >= PARALLEL_WORK && units > 1;
            reach.push(if !parallel && inline {
                Reach::Inline
            } else {
                let id = self.kernel_function(i, kernel, &f)?;
                if parallel { Reach::Parallel(id) } else { Reach::Call(id) }
            });
            facts.push(Some(f));
        }
        let mut sig = Signature::new(self.call_conv);
        sig.params.push(AbiParam::new(types::I64));
        self.function("main", sig, |unit, b, params| {
            let refs: Vec<_> = reach
                .iter()
                .map(|r| match r {
                    Reach::Inline => None,
                    Reach::Call(id) | Reach::Parallel(id) => Some(unit.builder.import(*id, b.func)),
                })
                .collect();
            let strips: Vec<_> = facts
                .iter()
                .map(|f| f.as_ref().map_or(Vec::new(), |f| unit.strip_refs(f, b.func)))
                .collect();
            let (call_conv, x64) = (unit.call_conv, unit.x64);
            let mut e = Emit::new(b, &mut unit.pool, sizes, x64, call_conv);
            let run = params[0];
            let cx = context(&mut e, run);
            for (i, step) in program.kernels.iter().enumerate() {
                match step {
                    None => {
                        let flags = mem().with_aligned();
                        let d = e.b.ins().load(types::I64, flags, cx.steps, i as i32 * 8);
                        let f = call as *const () as usize;
                        e.call_address(f, &[types::I64; 2], None, &[d, run]);
                        let code = e.b.ins().load(types::I64, mem(), cx.status, 0);
                        let go_on = e.b.create_block();
                        let leave = e.b.create_block();
                        e.b.set_cold_block(leave);
                        e.b.ins().brif(code, leave, &[], go_on, &[]);
                        e.b.seal_block(leave);
                        e.b.seal_block(go_on);
                        e.b.switch_to_block(leave);
                        e.b.ins().return_(&[]);
                        e.b.switch_to_block(go_on);
                    }
                    Some(kernel) => {
                        let f = facts[i].as_ref().expect("analysed above");
                        let count = Units::of(kernel, f, sizes).count;
                        match (&reach[i], refs[i]) {
                            (Reach::Parallel(_), Some(func)) => {
                                let grain = grain(work(kernel, sizes), sizes.hint(count));
                                let f = e.b.ins().func_addr(types::I64, func);
                                let (n, grain) = (e.size(count), e.i64(grain));
                                e.call_address(
                                    sl_parallel_for as *const () as usize,
                                    &[types::I64; 4],
                                    None,
                                    &[f, run, n, grain],
                                );
                            }
                            (_, Some(func)) => {
                                let (zero, n) = (e.i64(0), e.size(count));
                                e.b.ins().call(func, &[run, zero, n]);
                            }
                            (_, None) => {
                                let (strips, layout) = (&strips[i], &unit.layout);
                                Nest::new(&mut e, program, kernel, f, strips, layout, i, cx)
                                    .units(None)?;
                            }
                        }
                    }
                }
                if let Some(lap) = unit.options.lap {
                    e.call_address(lap as *const () as usize, &[types::I64], None, &[run]);
                }
            }
            e.b.ins().return_(&[]);
            Ok(())
        })
    }

    /// A function over a range of a kernel's units.
    fn kernel_function(
        &mut self,
        step: usize,
        kernel: &Kernel,
        facts: &KernelFacts,
    ) -> Result<FuncId, JitError> {
        let mut sig = Signature::new(self.call_conv);
        sig.params.extend([AbiParam::new(types::I64); 3]);
        let program = self.program;
        self.function(&format!("kernel_{step}"), sig, |unit, b, params| {
            let strips = unit.strip_refs(facts, b.func);
            let (call_conv, x64) = (unit.call_conv, unit.x64);
            let mut e = Emit::new(b, &mut unit.pool, &program.sizes, x64, call_conv);
            let cx = context(&mut e, params[0]);
            let layout = &unit.layout;
            Nest::new(&mut e, program, kernel, facts, &strips, layout, step, cx)
                .units(Some((params[1], params[2])))?;
            e.b.ins().return_(&[]);
            Ok(())
        })
    }

    /// Generates the strips of a kernel's stages.
    fn strips(
        &mut self,
        step: usize,
        kernel: &Kernel,
        facts: &mut KernelFacts,
        vectors: Vectors,
    ) -> Result<(), JitError> {
        let sizes = &self.program.sizes;
        if let Some(mut columns) = columns_of(kernel, &facts.stages, sizes, vectors) {
            for (k, strip) in columns.strips().enumerate() {
                let name = format!("strip_{step}_{k}");
                self.place(strip, &name, &mut facts.functions, vectors)?;
            }
            facts.columns = Some(columns);
            return Ok(());
        }
        if let Some((mut one, mut rows)) = rows_of(kernel, &facts.stages, sizes, vectors) {
            let name = format!("strip_{step}_0");
            self.place(&mut one, &name, &mut facts.functions, vectors)?;
            self.place(&mut rows.strip, &format!("rows_{step}"), &mut facts.functions, vectors)?;
            facts.stages[0].strip = Some(one);
            facts.rows = Some(rows);
            return Ok(());
        }
        let busiest = busiest(kernel, &facts.stages, sizes);
        for (s, f) in facts.stages.iter_mut().enumerate() {
            for k in 0..f.parts.len() {
                if let Some(mut strip) = part_strip(kernel, f, k, sizes, vectors) {
                    let name = format!("strip_{step}_{s}_{k}");
                    self.place(&mut strip, &name, &mut facts.functions, vectors)?;
                    f.parts[k].strip = Some(strip);
                }
            }
            let asks = busiest == Some(s);
            let Some(mut strip) = strip_of(kernel, s, f, sizes, vectors, asks) else {
                continue;
            };
            let name = format!("strip_{step}_{s}");
            self.place(&mut strip, &name, &mut facts.functions, vectors)?;
            f.strip = Some(strip);
        }
        Ok(())
    }

    /// Puts the code of a strip in its place.
    fn place(
        &mut self,
        strip: &mut Strip,
        name: &str,
        functions: &mut Vec<FuncId>,
        vectors: Vectors,
    ) -> Result<(), JitError> {
        let code = std::mem::take(&mut strip.code);
        let mut sig = Signature::new(self.call_conv);
        sig.params.extend([AbiParam::new(types::I64); 2]);
        let id = self.builder.declare(name, &sig)?;
        self.code_bytes += code.len();
        if self.options.keep_asm {
            let _ = writeln!(self.asm, "; {name}: {} bytes, {}", code.len(), vectors.name());
            for line in code.chunks(32) {
                for byte in line {
                    let _ = write!(self.asm, "{byte:02x}");
                }
                self.asm.push('\n');
            }
        }
        self.builder.define_bytes(id, code)?;
        strip.number = functions.len();
        functions.push(id);
        Ok(())
    }

    /// The strips of a kernel as a function under construction refers to them.
    fn strip_refs(&self, facts: &KernelFacts, func: &mut Function) -> Vec<FuncRef> {
        facts.functions.iter().map(|id| self.builder.import(*id, func)).collect()
    }

    /// Builds and compiles one function.
    fn function(
        &mut self,
        name: &str,
        sig: Signature,
        build: impl FnOnce(&mut Self, &mut FunctionBuilder<'_>, &[Value]) -> Result<(), JitError>,
    ) -> Result<FuncId, JitError> {
        let id = self.builder.declare(name, &sig)?;
        let (mut ctx, mut fctx) = CONTEXT.take().unwrap_or_else(|| {
            let fresh = cranelift_codegen::Context::new();
            (fresh, FunctionBuilderContext::new())
        });
        ctx.clear();
        ctx.func.signature = sig;
        let mut b = FunctionBuilder::new(&mut ctx.func, &mut fctx);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        b.seal_block(entry);
        let params = b.block_params(entry).to_vec();
        build(self, &mut b, &params)?;
        b.finalize(self.builder.target());
        if self.options.keep_clif {
            // writing to a string does not fail
            let _ = writeln!(self.clif, "; {name}\n{}", ctx.func.display());
        }
        ctx.set_disasm(self.options.keep_asm);
        self.builder.define(id, &mut ctx)?;
        if let Some(code) = ctx.compiled_code() {
            self.code_bytes += code.code_buffer().len();
            if let Some(text) = &code.vcode {
                let _ = writeln!(self.asm, "; {name}\n{text}");
            }
        }
        CONTEXT.set(Some((ctx, fctx)));
        Ok(id)
    }
}

fn context(e: &mut Emit<'_, '_>, run: Value) -> Context {
    let flags = mem().with_aligned();
    let mut field = |at: usize| e.b.ins().load(types::I64, flags, run, at as i32);
    let context = Context {
        args: field(std::mem::offset_of!(RunContext, args)),
        arena: field(std::mem::offset_of!(RunContext, arena)),
        status: field(std::mem::offset_of!(RunContext, status)),
        steps: field(std::mem::offset_of!(RunContext, steps)),
    };
    let numbers = field(std::mem::offset_of!(RunContext, numbers));
    e.numbers = Some(numbers);
    context
}

/// Scalar operations of a kernel, about.
fn work(kernel: &Kernel, sizes: &Sizes) -> u64 {
    let points: i64 = kernel.grid.iter().map(|a| sizes.hint(a.extent).max(0)).product();
    (points as u64).saturating_mul(kernel.work_per_point.max(1))
}

/// Units that a thread takes at a time, at least.
fn grain(work: u64, units: i64) -> i64 {
    let per_unit = (work / units.max(1) as u64).max(1);
    GRAIN_WORK.div_ceil(per_unit).max(1) as i64
}
