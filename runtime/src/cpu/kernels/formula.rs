//! Programs over one element of each operand, run tile by tile.
//!
//! A [`Program`] is what a pointwise operator made of several primitives does. Each instruction
//! runs over a tile by the row kernel that the primitive's own operator has, and temporaries are
//! tiles that stay in the first cache: memory is walked once, as by a kernel of one primitive.

use super::half;
use super::integer::{self, Row1, Row2};
use super::moves::move_elements;
use super::nest::Nest;
use super::operand::{In, Out, apart, ask};
use super::pointwise::{binary_row, select_row, unary_row};
use super::tile::{Form, TILE, load, store};
use super::{KernelError, Strided, copy, float};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use straightline_passes::formula::{Op, Program, Val};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::UnaryOp;

/// Bytes for the tiles of a thread: they stay in the first cache beside what the operands
/// themselves need.
const ROOM: usize = 24 << 10;

/// The longest tile, in elements.
const LONGEST: usize = 1024;

/// Where an operand of a step is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Place {
    /// Elements of the program's memory operand (outputs first), as they lie.
    Memory(usize),
    /// A tile.
    Slot(usize),
    /// One element that stands for the whole tile.
    Cell(usize),
}

/// What a step does to a tile.
#[derive(Clone, Copy)]
enum Run {
    /// A memory operand into a tile.
    Load(usize),
    /// One operand.
    One(Row1),
    /// Two operands.
    Two(Row2),
    /// A selection among elements of this size.
    Select(usize),
    /// A tile to a memory operand.
    Store(usize),
}

#[derive(Clone, Copy)]
struct Step {
    run: Run,
    to: Place,
    from: [Place; 3],
    /// The half type that the result is rounded to.
    round: Option<DType>,
}

/// A program bound to row kernels and places.
#[derive(Default)]
struct Plan {
    steps: SmallVec<[Step; 24]>,
    /// One-element operands: a number's bits, or a memory operand that does not move within a row.
    cells: SmallVec<[Cell; 8]>,
    /// Cells that a step needs as a whole tile: cell, slot, size of an element.
    spread: SmallVec<[(usize, usize, usize); 4]>,
    slots: usize,
    cost: usize,
    /// The bytes of the widest value.
    widest: usize,
}

#[derive(Clone, Copy)]
enum Cell {
    Bits(u64),
    Memory(usize),
}

/// The bytes of an element on its way through row kernels.
fn width(dtype: DType) -> usize {
    Form::arithmetic(dtype).size()
}

/// Makes the plan of a program: liveness, places, row kernels.
struct Planner<'a> {
    program: &'a Program,
    dtypes: &'a [DType],
    /// The innermost step of each memory operand in bytes.
    steps: &'a [isize],
    outputs: usize,
    plan: Plan,
    places: SmallVec<[Option<Place>; 24]>,
    last_use: SmallVec<[usize; 24]>,
    free: SmallVec<[usize; 16]>,
}

/// A value that outlives the program.
const RESULT: usize = usize::MAX;

impl Planner<'_> {
    fn slot(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.plan.slots += 1;
            self.plan.slots - 1
        })
    }

    fn cell(&mut self, cell: Cell) -> Place {
        self.plan.cells.push(cell);
        Place::Cell(self.plan.cells.len() - 1)
    }

    /// Where a value is; memory is loaded, and numbers become cells, when they are first asked for.
    fn place(&mut self, v: Val) -> Place {
        if let Some(place) = self.places[usize::from(v.0)] {
            return place;
        }
        let inst = self.program.inst(v);
        let place = match inst.op {
            Op::Const(value) => {
                // half types compute widened
                let wide = if inst.dtype.is_half() { DType::F32 } else { inst.dtype };
                self.cell(Cell::Bits(super::operand::scalar_bits(value, wide)))
            }
            Op::Input(i) => {
                let k = self.outputs + usize::from(i);
                let form = Form::arithmetic(self.dtypes[k]);
                if self.steps[k] == 0 {
                    self.cell(Cell::Memory(k))
                } else if form == Form::Raw(self.steps[k] as usize) {
                    Place::Memory(k)
                } else {
                    let to = Place::Slot(self.slot());
                    self.step(Run::Load(k), to, [to; 3], None);
                    to
                }
            }
            _ => unreachable!("operands come before their users"),
        };
        self.places[usize::from(v.0)] = Some(place);
        place
    }

    /// A place with a whole tile of elements.
    fn full(&mut self, v: Val) -> Place {
        match self.place(v) {
            Place::Cell(cell) => {
                let known = self.plan.spread.iter().find(|s| s.0 == cell);
                if let Some(&(_, slot, _)) = known {
                    return Place::Slot(slot);
                }
                // filled before the first tile: a slot that nothing else may use, before or after
                let slot = self.plan.slots;
                self.plan.slots += 1;
                let size = width(self.program.inst(v).dtype);
                self.plan.spread.push((cell, slot, size));
                Place::Slot(slot)
            }
            place => place,
        }
    }

    fn step(&mut self, run: Run, to: Place, from: [Place; 3], round: Option<DType>) {
        self.plan.steps.push(Step { run, to, from, round });
    }

    /// Whether the value is in a tile that is not read after instruction `at`.
    fn dies(&self, v: Val, at: usize) -> Option<usize> {
        match self.places[usize::from(v.0)] {
            Some(Place::Slot(slot)) if self.last_use[usize::from(v.0)] == at => Some(slot),
            _ => None,
        }
    }

    /// A tile for the result of instruction `at`: that of an operand of the same size that dies
    /// there, else a free one.
    fn result(&mut self, at: usize, operands: &[Val], size: usize) -> Place {
        let mut taken = None;
        let mut dying: SmallVec<[usize; 3]> = SmallVec::new();
        for &v in operands {
            if let Some(slot) = self.dies(v, at)
                && !dying.contains(&slot)
            {
                dying.push(slot);
                if width(self.program.inst(v).dtype) == size {
                    taken = Some(slot);
                }
            }
        }
        let slot = match taken {
            Some(slot) => slot,
            None => self.slot(),
        };
        self.free.extend(dying.into_iter().filter(|s| *s != slot));
        Place::Slot(slot)
    }

    fn run(mut self) -> Result<Plan, KernelError> {
        let program = self.program;
        for (i, inst) in program.body.iter().enumerate() {
            for v in inst.op.operands() {
                self.last_use[usize::from(v.0)] = i;
            }
        }
        for v in &program.outputs {
            self.last_use[usize::from(v.0)] = RESULT;
        }
        // unused values are not computed, and neither are their operands
        let mut live: SmallVec<[bool; 24]> = SmallVec::from_elem(false, program.body.len());
        for v in &program.outputs {
            live[usize::from(v.0)] = true;
        }
        for i in (0..program.body.len()).rev() {
            if live[i] {
                for v in program.body[i].op.operands() {
                    live[usize::from(v.0)] = true;
                }
            }
        }
        let last = (0..program.body.len()).rev().find(|i| live[*i]);
        for (i, inst) in program.body.iter().enumerate() {
            let (run, operands) = match inst.op {
                _ if !live[i] => continue,
                Op::Input(_) | Op::Const(_) => continue,
                Op::Cast(a) => {
                    let from = program.inst(a).dtype;
                    self.plan.cost += 1;
                    // the load has already widened half types
                    if from.is_half() && inst.dtype == DType::F32 {
                        self.places[i] = Some(self.place(a));
                        self.pass_on(a, i);
                        continue;
                    }
                    // the store rounds results
                    if from == DType::F32 && inst.dtype.is_half() && self.only_stored(i) {
                        self.places[i] = Some(self.place(a));
                        self.pass_on(a, i);
                        continue;
                    }
                    (Run::One(copy::conversion(from, inst.dtype)), [a; 3])
                }
                Op::Unary(op, a) => {
                    let dtype = program.inst(a).dtype;
                    self.plan.cost += op.cost() as usize;
                    let tests = matches!(op, UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::LogicalNot);
                    let row = match tests {
                        true => integer::test_row(op, dtype)
                            .ok_or_else(|| KernelError::unsupported(op, dtype))?,
                        false => unary_row(op, dtype)?,
                    };
                    (Run::One(row), [a; 3])
                }
                Op::Binary(op, a, b) => {
                    self.plan.cost += op.cost() as usize;
                    (Run::Two(binary_row(op, inst.dtype)?), [a, b, b])
                }
                Op::Compare(op, a, b) => {
                    self.plan.cost += 1;
                    let row = integer::compare_row(op, program.inst(a).dtype);
                    (Run::Two(row), [a, b, b])
                }
                Op::Select(c, a, b) => {
                    self.plan.cost += 1;
                    (Run::Select(width(inst.dtype)), [c, a, b])
                }
            };
            let takes_cells = match inst.op {
                Op::Compare(..) => true,
                Op::Binary(op, ..) => !(inst.dtype.is_floating() && float::is_long(op)),
                _ => false,
            };
            let from = operands.map(|v| match takes_cells {
                true => self.place(v),
                false => self.full(v),
            });
            let form = Form::arithmetic(inst.dtype);
            let output = program.outputs.iter().position(|v| usize::from(v.0) == i);
            let straight = |k: &usize| form == Form::Raw(self.steps[*k] as usize);
            let to = match output.filter(straight) {
                // an output may be an input's memory: nothing may be read after it is written
                Some(k) if Some(i) == last && program.outputs.len() == 1 => Place::Memory(k),
                _ => self.result(i, &inst.op.operands(), width(inst.dtype)),
            };
            let exact = matches!(inst.op, Op::Select(..))
                || matches!(inst.op, Op::Unary(UnaryOp::Neg | UnaryOp::Abs, _));
            let round =
                (inst.dtype.is_half() && !exact && !self.only_stored(i)).then_some(inst.dtype);
            self.step(run, to, from, round);
            self.places[i] = Some(to);
        }
        for (k, &v) in program.outputs.iter().enumerate() {
            let from = self.full(v);
            if from != Place::Memory(k) {
                self.step(Run::Store(k), from, [from; 3], None);
            }
        }
        Ok(self.plan)
    }

    /// Whether nothing but the end of the program reads this value.
    fn only_stored(&self, i: usize) -> bool {
        let read = |inst: &straightline_passes::formula::Inst| {
            inst.op.operands().iter().any(|v| usize::from(v.0) == i)
        };
        !self.program.body.iter().any(read)
    }

    /// The tile of `a` is that of value `i` as well, and lives until both are read for the last
    /// time.
    fn pass_on(&mut self, a: Val, i: usize) {
        let a = usize::from(a.0);
        let both = self.last_use[a].max(self.last_use[i]);
        (self.last_use[a], self.last_use[i]) = (both, both);
    }
}

/// Fills a tile with one element.
///
/// # Safety
///
/// `dst` has room for `n` elements of `size` bytes, `src` has one.
unsafe fn spread(size: usize, dst: *mut u8, src: *const u8, n: usize) {
    // SAFETY: a step of 0 reads the one element again and again.
    unsafe { move_elements(size, dst, size as isize, src, 0, n) };
}

/// Rounds `n` elements, held as `f32`, to a half type.
///
/// # Safety
///
/// `at` has `n` elements.
unsafe fn round(dtype: DType, at: *mut u8, n: usize) {
    let mut narrow = [MaybeUninit::<u16>::uninit(); TILE];
    let narrow: *mut u8 = narrow.as_mut_ptr().cast();
    for start in (0..n).step_by(TILE) {
        let m = (n - start).min(TILE);
        // SAFETY: elements start .. start + m; the buffer has room for TILE.
        unsafe {
            let at = at.cast::<f32>().add(start);
            half::narrow(dtype, narrow, at, m);
            half::widen(dtype, at, narrow, m);
        }
    }
}

/// The innermost step of each operand in bytes, outputs first.
type Steps = SmallVec<[isize; 8]>;

/// A program to run, with the plan that it was last run by: for operands that lie in the same way,
/// nothing is worked out anew.
pub struct Formula {
    program: Program,
    plan: RefCell<Option<(Steps, Rc<Plan>)>>,
}

impl Formula {
    /// A program that has not been run yet.
    pub fn new(program: Program) -> Formula {
        Formula { program, plan: RefCell::new(None) }
    }

    /// The outputs and inputs of the program over elements of one shape: `outs[i] =
    /// program.outputs[i](inputs)`.
    ///
    /// Half types compute widened and are rounded after each operation in their own dtype. An
    /// input may lie on the output where there is one output.
    ///
    /// # Errors
    /// [`KernelError::DivisionByZero`] of integers, after which the outputs are written in part;
    /// operands that the program was not recorded for.
    pub fn run(&self, outs: &[Out<'_>], inputs: &[In<'_>]) -> Result<(), KernelError> {
        formula(self, outs, inputs)
    }

    /// The plan for operands with these dtypes, which follow from the program, and steps.
    fn plan(
        &self,
        outputs: usize,
        dtypes: &[DType],
        steps: &[isize],
    ) -> Result<Rc<Plan>, KernelError> {
        let mut last = self.plan.borrow_mut();
        if let Some((known, plan)) = &*last
            && known[..] == *steps
        {
            return Ok(plan.clone());
        }
        let body = &self.program.body;
        let complex = dtypes.iter().copied().chain(body.iter().map(|i| i.dtype));
        if let Some(dtype) = complex.into_iter().find(|d| d.is_complex()) {
            return Err(KernelError::unsupported("a formula", dtype));
        }
        let mut plan = Planner {
            program: &self.program,
            dtypes,
            steps,
            outputs,
            plan: Plan::default(),
            places: SmallVec::from_elem(None, body.len()),
            last_use: SmallVec::from_elem(0, body.len()),
            free: SmallVec::new(),
        }
        .run()?;
        plan.widest = body.iter().map(|i| width(i.dtype)).max().unwrap_or(8);
        let plan = Rc::new(plan);
        *last = Some((steps.into(), plan.clone()));
        Ok(plan)
    }
}

fn formula(formula: &Formula, outs: &[Out<'_>], inputs: &[In<'_>]) -> Result<(), KernelError> {
    let program = &formula.program;
    if outs.len() != 1 {
        apart("formula", inputs)?;
    }
    let ins = inputs.iter().map(|i| i.raw());
    let all: SmallVec<[Strided<'_>; 8]> = outs.iter().map(Out::raw).chain(ins).collect();
    let same = all.iter().all(|o| o.sizes == all[0].sizes);
    ask("formula", same, "operands of the same sizes")?;
    let declared = outs.len() == program.outputs.len() && {
        let results = program.outputs.iter().map(|v| program.inst(*v).dtype);
        results.eq(outs.iter().map(Out::dtype))
    };
    ask("formula", declared, "the outputs that it was recorded for")?;
    let loads = program.body.iter().all(|i| match i.op {
        Op::Input(at) => {
            let input = inputs.get(usize::from(at));
            input.is_some_and(|o| o.dtype() == i.dtype)
        }
        _ => true,
    });
    ask("formula", loads, "the inputs that it was recorded for")?;
    macro_rules! by_count {
        ($($n:literal)*) => {
            match all.len() {
                $($n => {
                    let operands: &[Strided<'_>; $n] = all[..].try_into().expect("its length");
                    // SAFETY: as promised by the caller.
                    unsafe { run::<$n>(formula, outs.len(), operands) }
                })*
                n => Err(KernelError::unsupported(
                    format_args!("a formula of {n} operands"),
                    all[0].dtype,
                )),
            }
        };
    }
    by_count!(1 2 3 4 5 6 7)
}

/// # Safety
///
/// As [`formula`] has checked.
unsafe fn run<const N: usize>(
    formula: &Formula,
    outputs: usize,
    operands: &[Strided<'_>; N],
) -> Result<(), KernelError> {
    if operands[0].numel() == 0 {
        return Ok(());
    }
    let nest = Nest::new(operands);
    let steps = nest.inner().strides;
    let dtypes: [DType; N] = std::array::from_fn(|k| operands[k].dtype);
    let plan = formula.plan(outputs, &dtypes, &steps)?;
    let (plan, widest) = (&*plan, plan.widest);
    let fits = ROOM / (widest * plan.slots.max(1));
    let tile = (fits / 64 * 64).clamp(64, LONGEST);
    // a program of hundreds of live values has no place here
    if tile * widest * plan.slots > ROOM {
        return Err(KernelError::unsupported("a formula this long", dtypes[0]));
    }
    let fault = AtomicBool::new(false);
    let grain = super::nest::GRAIN / plan.cost.max(1);
    let body = |ptrs: [*mut u8; N], n: usize| {
        // SAFETY: a row of the operands, as promised by the caller.
        let sound = unsafe { row(plan, &dtypes, &steps, tile, tile * widest, ptrs, n) };
        if !sound {
            fault.store(true, Relaxed);
        }
    };
    // SAFETY: as promised by the caller.
    unsafe { nest.run(grain, &body) };
    match fault.into_inner() {
        true => Err(KernelError::DivisionByZero),
        false => Ok(()),
    }
}

#[repr(C, align(64))]
struct Room([MaybeUninit<u8>; ROOM]);

/// One row; `false` if a divisor was zero.
///
/// # Safety
///
/// The pointers have `n` elements at their steps; the plan is of these dtypes and steps, and its
/// tiles of `stride` bytes fit the room.
unsafe fn row<const N: usize>(
    plan: &Plan,
    dtypes: &[DType; N],
    steps: &[isize; N],
    tile: usize,
    stride: usize,
    ptrs: [*mut u8; N],
    n: usize,
) -> bool {
    let mut room = MaybeUninit::<Room>::uninit();
    let room: *mut u8 = room.as_mut_ptr().cast();
    let slot = |i: usize| room.wrapping_add(i * stride);
    let mut cells: SmallVec<[u64; 8]> = SmallVec::new();
    for cell in &plan.cells {
        let mut bits = 0u64;
        match *cell {
            Cell::Bits(b) => bits = b.to_le(),
            Cell::Memory(k) => {
                let to = (&raw mut bits).cast();
                // SAFETY: the operand has an element; a cell has room for one.
                unsafe { load(Form::arithmetic(dtypes[k]), to, ptrs[k], 0, 1) };
            }
        }
        cells.push(bits);
    }
    let cells: *mut u8 = cells.as_mut_ptr().cast();
    let cell = |i: usize| cells.wrapping_add(i * 8);
    for &(i, to, size) in &plan.spread {
        // SAFETY: the slot has room for a tile.
        unsafe { spread(size, slot(to), cell(i), n.min(tile)) };
    }
    let mut start = 0;
    while start < n {
        let m = (n - start).min(tile);
        let at = |k: usize| ptrs[k].wrapping_offset(steps[k] * start as isize);
        let place = |p: Place| match p {
            Place::Memory(k) => at(k),
            Place::Slot(i) => slot(i),
            Place::Cell(i) => cell(i),
        };
        for step in &plan.steps {
            let to = place(step.to);
            let [a, b, c] = step.from.map(place);
            // SAFETY: every place has m elements (cells one, which the mask says), and the row
            // kernels are those of the places' types. A result is in the tile of an operand only
            // where both have elements of one size.
            unsafe {
                match step.run {
                    Run::Load(k) => {
                        let form = Form::arithmetic(dtypes[k]);
                        for part in (0..m).step_by(TILE) {
                            let from = at(k).wrapping_offset(steps[k] * part as isize);
                            let to = to.add(part * form.size());
                            load(form, to, from, steps[k], (m - part).min(TILE));
                        }
                    }
                    Run::Store(k) => {
                        let form = Form::arithmetic(dtypes[k]);
                        for part in (0..m).step_by(TILE) {
                            let to = at(k).wrapping_offset(steps[k] * part as isize);
                            let from = a.add(part * form.size());
                            store(form, to, steps[k], from, (m - part).min(TILE));
                        }
                    }
                    Run::One(row) => row(to, a, m),
                    Run::Two(row) => {
                        let mut mask = 0;
                        if matches!(step.from[0], Place::Cell(_)) {
                            mask |= integer::A_IS_SCALAR;
                        }
                        if matches!(step.from[1], Place::Cell(_)) {
                            mask |= integer::B_IS_SCALAR;
                        }
                        if !row(to, a, b, m, mask) {
                            return false;
                        }
                    }
                    Run::Select(1) => select_row::<u8>([to, a, b, c], m),
                    Run::Select(2) => select_row::<u16>([to, a, b, c], m),
                    Run::Select(4) => select_row::<u32>([to, a, b, c], m),
                    Run::Select(_) => select_row::<u64>([to, a, b, c], m),
                }
                if let Some(dtype) = step.round {
                    round(dtype, to, m);
                }
            }
        }
        start += m;
    }
    true
}
