//! The loops of a kernel: grid, vector groups, stages.

use super::JitError;
use super::analyse::{KernelFacts, unroll};
use super::argument::ArgPtr;
use super::emit::Emit;
use super::lanes::{LANES, Lanes};
use super::sizes::{Axis, Kernel, Program, Size, Sizes};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{FuncRef, InstBuilder, StackSlotData, StackSlotKind, Value, types};
use smallvec::SmallVec;
use std::collections::HashMap;
use straightline_passes::schedule::loops::{AxisId, BufferKind, Mem, Schedule, Vectorize};

/// Rows longer than this are cut into ranges that threads can share.
pub(crate) const LONG_ROW: i64 = 8192;
/// The length of such a range: a multiple of every vector step.
const RANGE: i64 = 4096;
/// Scratch rows up to this many bytes are on the stack.
const STACK_SCRATCH: i64 = 16 << 10;

/// Where the plan's pointers are in the argument table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArgLayout {
    pub(crate) inputs: usize,
    pub(crate) parameters: usize,
    pub(crate) outputs: usize,
}

impl ArgLayout {
    pub(crate) fn of(schedule: &Schedule) -> ArgLayout {
        let mut l = ArgLayout { inputs: 0, parameters: 0, outputs: 0 };
        for b in &schedule.buffers {
            match b.kind {
                BufferKind::Input(i) => l.inputs = l.inputs.max(i as usize + 1),
                BufferKind::Parameter(i) => l.parameters = l.parameters.max(i as usize + 1),
                BufferKind::Output(i) => l.outputs = l.outputs.max(i as usize + 1),
                BufferKind::Constant(_) | BufferKind::Arena { .. } | BufferKind::Within { .. } => {}
            }
        }
        l
    }

    /// The slot of a buffer that the caller provides.
    pub(crate) fn slot(&self, kind: &BufferKind) -> Option<usize> {
        match kind {
            BufferKind::Input(i) => Some(*i as usize),
            BufferKind::Parameter(i) => Some(self.inputs + *i as usize),
            BufferKind::Output(i) => Some(self.output(*i as usize)),
            BufferKind::Constant(_) | BufferKind::Arena { .. } | BufferKind::Within { .. } => None,
        }
    }

    /// The slot of an output.
    fn output(&self, number: usize) -> usize {
        self.inputs + self.parameters + number
    }
}

/// The address from which the offsets of temporaries count, in the arena (0) or in an output (its
/// number and 1).
fn temporaries(e: &mut Emit, layout: ArgLayout, cx: Context, host: Size) -> Value {
    let flags = super::emit::mem().with_aligned();
    let slot = |output: i64| (layout.output(0) as i64 + output) * size_of::<ArgPtr>() as i64;
    match host.fixed() {
        Some(0) => cx.arena,
        Some(n) => e.b.ins().load(types::I64, flags, cx.args, slot(n - 1) as i32),
        // there is no other place
        None if layout.outputs == 0 => cx.arena,
        None => {
            let n = e.size(host);
            let in_arena = e.b.ins().icmp_imm_s(IntCC::Equal, n, 0);
            let far = e.b.ins().imul_imm_s(n, size_of::<ArgPtr>() as i64);
            let far = e.b.ins().iadd_imm_s(far, slot(-1));
            // some output's, if it is the arena: not used
            let first = e.i64(slot(0));
            let far = e.b.ins().select(in_arena, first, far);
            let at = e.b.ins().iadd(cx.args, far);
            let base = e.b.ins().load(types::I64, flags, at, 0);
            e.b.ins().select(in_arena, cx.arena, base)
        }
    }
}

/// The pointers that generated functions pass around.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) args: Value,
    pub(crate) arena: Value,
    pub(crate) status: Value,
    /// Descriptors of the extern steps.
    pub(crate) steps: Value,
}

/// How a kernel's work is divided into units that run independently.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units {
    /// The number of units.
    pub(crate) count: Size,
    /// Ranges per row of the vectorised grid axis.
    ranges: Size,
}

impl Units {
    pub(crate) fn of(kernel: &Kernel, facts: &KernelFacts, sizes: &Sizes) -> Units {
        let product = |axes: &[Axis]| {
            let numbered = |axis| facts.numbered(axis, sizes);
            axes.iter().fold(Size::Fixed(1), |n, axis| sizes.times(n, numbered(axis)))
        };
        if kernel.vectorize != Vectorize::Grid || kernel.grid.is_empty() {
            return Units { count: product(&kernel.grid), ranges: Size::Fixed(1) };
        }
        let (last, outer) = kernel.grid.split_last().expect("not empty");
        let ranges = match sizes.ask(last.extent, |n| n > LONG_ROW) {
            true => sizes.of(|n, range| (n - 1) / range + 1, last.extent, Size::Fixed(RANGE)),
            false => Size::Fixed(1),
        };
        let any = sizes.of(|n, _| n.min(1), last.extent, Size::Fixed(0));
        Units { count: sizes.times(any, sizes.times(product(outer), ranges)), ranges }
    }
}

/// A value that does not change inside a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Invariant {
    pub(crate) scalar: Lanes,
    pub(crate) vector: Option<Lanes>,
}

/// The state of emitting one kernel.
pub(crate) struct Nest<'e, 'a, 'f, 'k> {
    pub(crate) e: &'e mut Emit<'a, 'f>,
    pub(crate) program: &'k Program<'k>,
    pub(crate) kernel: &'k Kernel,
    pub(crate) facts: &'k KernelFacts,
    /// The kernel's strips by their numbers.
    pub(crate) strips: &'k [FuncRef],
    pub(crate) step: usize,
    pub(crate) cx: Context,
    /// Current values of the open axes; an axis of extent one that is not looped over has none (it
    /// is 0).
    pub(crate) axis: HashMap<AxisId, Value>,
    /// Per address key: the address for the open axes.
    pub(crate) address: Vec<Value>,
    /// The axis that lanes run along, and the vector shape of the body being emitted.
    pub(crate) lane_axis: Option<AxisId>,
    pub(crate) vector: bool,
    /// The part of the lane axis that is being emitted, where it has parts.
    pub(crate) part: Option<usize>,
    /// Elements that a grid group covers: the row length of scratch per index.
    pub(crate) group: i64,
    pub(crate) carries: HashMap<(u32, u32), SmallVec<[Lanes; 4]>>,
}

impl<'e, 'a, 'f, 'k> Nest<'e, 'a, 'f, 'k> {
    /// Prepares a kernel: loads base addresses.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        e: &'e mut Emit<'a, 'f>,
        program: &'k Program<'k>,
        kernel: &'k Kernel,
        facts: &'k KernelFacts,
        strips: &'k [FuncRef],
        layout: &ArgLayout,
        step: usize,
        cx: Context,
    ) -> Self {
        let scratch = scratch_bases(e, kernel);
        let mut bases: Vec<(Mem, Value)> = Vec::new();
        let mut address = Vec::with_capacity(facts.keys.len());
        for key in &facts.keys {
            let base = match bases.iter().find(|b| b.0 == key.mem) {
                Some(b) => b.1,
                None => {
                    let v = match key.mem {
                        Mem::Scratch(i) => scratch[i as usize],
                        Mem::Buffer(id) => match program.kind(id) {
                            BufferKind::Constant(_) => {
                                let [_, address] = program.place(id);
                                e.size(address)
                            }
                            BufferKind::Arena { .. } | BufferKind::Within { .. } => {
                                let [host, offset] = program.place(id);
                                let base = temporaries(e, *layout, cx, host);
                                e.plus_size(base, offset)
                            }
                            kind => {
                                let slot = layout.slot(kind).expect("the caller's buffer");
                                let at = (slot * size_of::<ArgPtr>()) as i32;
                                let flags = super::emit::mem().with_aligned();
                                e.b.ins().load(types::I64, flags, cx.args, at)
                            }
                        },
                    };
                    bases.push((key.mem, v));
                    v
                }
            };
            address.push(base);
        }
        Nest {
            e,
            program,
            kernel,
            facts,
            strips,
            step,
            cx,
            axis: HashMap::new(),
            address,
            lane_axis: None,
            vector: false,
            part: None,
            group: 1,
            carries: HashMap::new(),
        }
    }

    /// Emits the units `begin..end`; `None` is all of them.
    pub(crate) fn units(mut self, range: Option<(Value, Value)>) -> Result<(), JitError> {
        let sizes = self.e.sizes;
        let units = Units::of(self.kernel, self.facts, sizes);
        // none is a kind of its own: units are numbered by dividing by extents
        if sizes.ask(units.count, |n| n == 0) {
            return Ok(());
        }
        let outer: SmallVec<[Axis; 4]> = if self.kernel.vectorize == Vectorize::Grid {
            let n = self.kernel.grid.len().saturating_sub(1);
            self.kernel.grid[..n].into()
        } else {
            self.kernel.grid.clone()
        };
        if range.is_none() && units.count.is(1) {
            return self.unit(None, None, units.ranges);
        }
        // the digits of a unit's number: grid axes, then the range in the row
        let mut extents: SmallVec<[Size; 5]> =
            outer.iter().map(|a| self.facts.numbered(a, sizes)).collect();
        extents.push(units.ranges);
        let counted: SmallVec<[usize; 5]> =
            (0..extents.len()).filter(|&i| !extents[i].is(1)).collect();
        let (begin, end) = match range {
            Some(r) => r,
            None => (self.e.i64(0), self.e.size(units.count)),
        };
        let single = counted.len() <= 1;
        let mut start: SmallVec<[Value; 5]> = SmallVec::new();
        if !single {
            let mut below = Size::Fixed(1);
            for &d in counted.iter().rev() {
                start.push(if range.is_none() {
                    self.e.i64(0)
                } else {
                    let q = self.e.divided(begin, below);
                    self.e.remainder(q, extents[d])
                });
                below = sizes.times(below, extents[d]);
            }
            start.reverse();
        }
        if let (Some(rows), [d]) = (&self.facts.rows, counted.as_slice()) {
            return self.row_units(rows, outer[*d].id, (begin, end));
        }
        let guarded = range.is_some() || units.count.fixed().is_none();
        let l = self.e.begin_loop(begin, end, Size::Fixed(1), &start, guarded);
        let digits: SmallVec<[Value; 5]> = if single {
            SmallVec::from_elem(l.index, 1)
        } else {
            l.carried.iter().copied().collect()
        };
        let saved = self.address.clone();
        let (mut row_range, mut block) = (None, None);
        let turned = self.facts.turned().map(|t| t.1.axis);
        for (&d, &value) in counted.iter().zip(&digits) {
            match outer.get(d) {
                Some(axis) if turned == Some(axis.id) => block = Some(value),
                Some(axis) => self.enter(axis.id, value),
                None => row_range = Some(value),
            }
        }
        self.unit(block, row_range, units.ranges)?;
        self.address = saved;
        let mut next: SmallVec<[Value; 5]> = SmallVec::new();
        if !single {
            let mut carry = None;
            for (&d, &value) in counted.iter().zip(&digits).rev() {
                let bumped = match carry {
                    None => self.e.b.ins().iadd_imm_s(value, 1),
                    Some(c) => {
                        let c = self.e.b.ins().uextend(types::I64, c);
                        self.e.b.ins().iadd(value, c)
                    }
                };
                let extent = self.e.size(extents[d]);
                let full = self.e.b.ins().icmp(IntCC::Equal, bumped, extent);
                let zero = self.e.i64(0);
                next.push(self.e.b.ins().select(full, zero, bumped));
                carry = Some(full);
            }
            next.reverse();
        }
        self.e.end_loop(&l, &next);
        Ok(())
    }

    /// One unit: a grid point, or a range of the vectorised axis.
    fn unit(
        &mut self,
        block: Option<Value>,
        range: Option<Value>,
        ranges: Size,
    ) -> Result<(), JitError> {
        let grid = self.kernel.vectorize == Vectorize::Grid;
        let last = match self.kernel.grid.last() {
            Some(a) if grid => *a,
            _ => {
                self.carries.clear();
                for s in 0..self.kernel.stages.len() {
                    self.point_stage(s)?;
                }
                return Ok(());
            }
        };
        self.lane_axis = Some(last.id);
        if self.facts.columns.is_some() {
            return self.column_unit(last, range, ranges);
        }
        if let Some((strip, turned)) = self.facts.turned() {
            let range = match ranges.is(1) {
                true => (self.e.i64(0), self.e.size(last.extent)),
                false => self.range_bounds(range, last.extent),
            };
            return self.turned_unit(strip, turned, block, last, range);
        }
        if self.facts.stages.iter().any(|s| s.strip.is_some()) {
            return self.strip_unit(last, range, ranges);
        }
        let u = self.grid_unroll();
        let step = u * LANES;
        let invariants = (0..self.kernel.stages.len())
            .map(|s| self.invariants(s, last.extent.fixed().is_none_or(|n| n >= LANES)))
            .collect::<Result<Vec<_>, _>>()?;
        if ranges.is(1) {
            let sizes = self.e.sizes;
            for (part, begin, end) in self.lane_parts(0, last.extent) {
                self.part = part;
                let len = sizes.minus(end, begin);
                if let Some(strip) = self.part_strip() {
                    let (begin, len) = (self.e.size(begin), self.e.size(len));
                    self.strip_along(strip, begin, len, &invariants[0])?;
                    continue;
                }
                let main = sizes.whole(len, Size::Fixed(step));
                self.groups_of(begin, main, u, true, &invariants)?;
                let begin = sizes.plus(begin, main);
                let rest = sizes.whole(sizes.minus(len, main), Size::Fixed(LANES));
                self.groups_of(begin, rest, 1, true, &invariants)?;
                let begin = sizes.plus(begin, rest);
                self.groups_of(begin, sizes.minus(end, begin), 1, false, &invariants)?;
            }
            self.part = None;
            return Ok(());
        }
        let (begin, end) = self.range_bounds(range, last.extent);
        if !self.facts.stages[0].parts.is_empty() {
            return self.range_parts((begin, end), last.extent, u, &invariants);
        }
        let len = self.e.b.ins().isub(end, begin);
        let main = self.e.b.ins().band_imm_s(len, -step);
        let main = self.e.b.ins().iadd(begin, main);
        self.groups(begin, main, u, true, &invariants)?;
        if last.extent.fixed().is_some_and(|n| n % step == 0) {
            return Ok(());
        }
        self.groups(main, end, 1, false, &invariants)
    }

    /// The elements of a row's range.
    pub(crate) fn range_bounds(&mut self, range: Option<Value>, extent: Size) -> (Value, Value) {
        let index = range.expect("more than one range");
        let begin = self.e.b.ins().imul_imm_s(index, RANGE);
        let end = self.e.b.ins().iadd_imm_s(begin, RANGE);
        let limit = self.e.size(extent);
        (begin, self.e.b.ins().smin(end, limit))
    }

    /// How many columns a unit has, at most.
    pub(crate) fn unit_columns(&self, extent: Size) -> Size {
        self.e.sizes.of(|n, _| if n > LONG_ROW { RANGE } else { n }, extent, Size::Fixed(0))
    }

    /// A unit of a kernel whose only stage is a strip.
    fn strip_unit(
        &mut self,
        last: Axis,
        range: Option<Value>,
        ranges: Size,
    ) -> Result<(), JitError> {
        let invariants = self.invariants(0, false)?;
        let (begin, len) = if ranges.is(1) {
            (self.e.i64(0), self.e.size(last.extent))
        } else {
            let (begin, end) = self.range_bounds(range, last.extent);
            (begin, self.e.b.ins().isub(end, begin))
        };
        match &self.facts.stages[0].strip {
            Some(strip) => self.strip_along(strip, begin, len, &invariants),
            None => Ok(()),
        }
    }

    /// Repetitions of the body per vector group of a grid kernel.
    fn grid_unroll(&self) -> i64 {
        let extent = self.kernel.grid.last().map_or(1, |a| self.e.sizes.hint(a.extent));
        let cost = self.facts.stages.iter().map(|s| s.cost).sum();
        let wide = self.facts.stages.iter().any(|s| s.wide);
        if extent < LANES {
            return 1;
        }
        unroll(cost, wide, extent)
    }

    fn groups_of(
        &mut self,
        begin: Size,
        len: Size,
        u: i64,
        vector: bool,
        invariants: &[Vec<Option<Invariant>>],
    ) -> Result<(), JitError> {
        let step = if vector { u * LANES } else { 1 };
        if len.is(0) {
            return Ok(());
        }
        let b = self.e.size(begin);
        if len.is(step) {
            let saved = self.address.clone();
            self.enter(self.lane_axis.expect("a grid kernel"), b);
            self.group(u, vector, invariants)?;
            self.address = saved;
            return Ok(());
        }
        let guarded = len.fixed().is_none();
        let e = self.e.size(self.e.sizes.plus(begin, len));
        self.looped(b, e, step, guarded, |n| n.group(u, vector, invariants))
    }

    pub(crate) fn groups(
        &mut self,
        begin: Value,
        end: Value,
        u: i64,
        vector: bool,
        invariants: &[Vec<Option<Invariant>>],
    ) -> Result<(), JitError> {
        let step = if vector { u * LANES } else { 1 };
        self.looped(begin, end, step, true, |n| n.group(u, vector, invariants))
    }

    /// A loop over the lane axis without carried values.
    fn looped(
        &mut self,
        begin: Value,
        end: Value,
        step: i64,
        guarded: bool,
        body: impl FnOnce(&mut Self) -> Result<(), JitError>,
    ) -> Result<(), JitError> {
        let l = self.e.begin_loop(begin, end, Size::Fixed(step), &[], guarded);
        let saved = self.address.clone();
        self.enter(self.lane_axis.expect("a grid kernel"), l.index);
        body(self)?;
        self.address = saved;
        self.e.end_loop(&l, &[]);
        Ok(())
    }

    /// All stages for one group of neighbouring grid points.
    fn group(
        &mut self,
        u: i64,
        vector: bool,
        invariants: &[Vec<Option<Invariant>>],
    ) -> Result<(), JitError> {
        self.vector = vector;
        self.group = if vector { u * LANES } else { 1 };
        self.carries.clear();
        for (s, invariant) in invariants.iter().enumerate() {
            let axes = self.kernel.stages[s].axes.clone();
            let accs = self.identities(s, vector, u);
            let accs = self.stage_loops(s, &axes, accs, &mut |n, accs| {
                for c in 0..u {
                    n.body(s, c, c * LANES, invariant, accs)?;
                }
                Ok(())
            })?;
            self.finish(s, accs);
        }
        Ok(())
    }

    /// Gives an axis a value: addresses move along it.
    pub(crate) fn enter(&mut self, axis: AxisId, value: Value) {
        self.axis.insert(axis, value);
        let mut products: SmallVec<[(Size, Value); 4]> = SmallVec::new();
        for i in 0..self.facts.keys.len() {
            let key = &self.facts.keys[i];
            let Some(&(_, stride)) = key.terms.iter().find(|t| t.0 == axis) else {
                continue;
            };
            let element = Size::Fixed(self.element_bytes(key.mem));
            let bytes = self.e.sizes.times(stride, element);
            let offset = match products.iter().find(|p| p.0 == bytes) {
                Some(p) => p.1,
                None => {
                    let v = self.e.scaled_by(value, bytes);
                    products.push((bytes, v));
                    v
                }
            };
            self.address[i] = self.e.b.ins().iadd(self.address[i], offset);
        }
    }

    /// Bytes from one index to the next: a scratch row of a grid kernel has an element per lane.
    pub(crate) fn element_bytes(&self, mem: Mem) -> i64 {
        match mem {
            Mem::Buffer(id) => self.program.element_size(id),
            Mem::Scratch(i) => {
                let size = self.kernel.scratch[i as usize].dtype.size() as i64;
                if self.kernel.vectorize == Vectorize::Grid { size * self.group } else { size }
            }
        }
    }
}

fn scratch_bases(e: &mut Emit<'_, '_>, kernel: &Kernel) -> Vec<Value> {
    let sizes = e.sizes;
    let lanes = if kernel.vectorize == Vectorize::Grid { 4 * LANES } else { 1 };
    let mut total = Size::Fixed(0);
    let mut offsets: SmallVec<[Size; 4]> = SmallVec::new();
    for row in &kernel.scratch {
        let element = Size::Fixed(lanes * row.dtype.size() as i64);
        let bytes = sizes.of(|len, element| (len * element + 63) & !63, row.len, element);
        offsets.push(total);
        total = sizes.plus(total, bytes);
    }
    let base = match total {
        Size::Fixed(0) => return offsets.iter().map(|_| e.i64(0)).collect(),
        Size::Fixed(bytes) if bytes <= STACK_SCRATCH => {
            let slot = e.b.create_sized_stack_slot(StackSlotData::new(
                StackSlotKind::ExplicitSlot,
                bytes as u32,
                4,
            ));
            e.b.ins().stack_addr(types::I64, slot, 0)
        }
        bytes => {
            let bytes = e.size(bytes);
            let f = super::scratch::sl_scratch as *const () as usize;
            e.call_address(f, &[types::I64], Some(types::I64), &[bytes])
                .expect("a result was declared")
        }
    };
    offsets.iter().map(|offset| e.plus_size(base, *offset)).collect()
}
