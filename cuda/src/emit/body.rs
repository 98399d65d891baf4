//! Grid, stages and their bodies.

use super::lanes::Lanes;
use super::mapping::{Mapping, WARP, product};
use super::reductions::Total;
use super::types::{Held, element, narrowed, rounded, widened};
use super::values::{binary, cast, compare, unary, updated};
use super::writer::{Writer, axis_name};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{
    Axis, AxisId, Index, Inst, Mem, Op, ReduceOp, Stage, Val,
};

/// The value of an instruction.
pub(super) fn name(v: Val) -> String {
    format!("v{}", v.0)
}

/// The finished reduction of a stage.
fn carry(stage: u32, v: Val) -> String {
    format!("c{stage}_{}", v.0)
}

/// What a failure outside of any call is reported as.
const NO_SITE: u32 = u32::MAX;

/// Threads that share a grid point.
#[derive(Clone, Copy)]
pub(super) struct Group {
    /// How many.
    pub(super) members: u32,
    /// Points of a block.
    pub(super) points: u32,
    /// Whether neighbouring threads are of neighbouring points.
    pub(super) columns: bool,
    /// Neighbouring elements that a thread takes at once.
    width: u32,
    /// How often it does so at most, if elements stay in registers.
    kept: u32,
}

impl Group {
    fn of(mapping: Mapping, block: u32) -> Option<Group> {
        match mapping {
            Mapping::Rows { threads, width, kept } => {
                let points = block / threads;
                Some(Group { members: threads, points, columns: false, width, kept })
            }
            Mapping::Columns { lanes, members } => {
                Some(Group { members, points: lanes, columns: true, width: 1, kept: 0 })
            }
            Mapping::Points { .. } | Mapping::Elements | Mapping::Tiles => None,
        }
    }
}

impl Writer<'_> {
    /// The whole function but for its first line.
    pub(super) fn kernel(&mut self) {
        let shape = self.layout.shape;
        match (shape.mapping, Group::of(shape.mapping, shape.threads)) {
            (_, Some(group)) => self.shared_points(group),
            (Mapping::Tiles, _) => self.tiles(),
            (Mapping::Elements, _) => self.elements(),
            (Mapping::Points { width }, _) => self.points(width),
            _ => {}
        }
    }

    /// The number of workers and which one a thread is, where each thread is one.
    fn workers(&mut self) {
        let ty = self.index_type();
        self.line(format!("const {ty} workers = ({ty})gridDim.x * blockDim.x;"));
        self.line(format!("const {ty} worker = ({ty})blockIdx.x * blockDim.x + threadIdx.x;"));
    }

    /// A thread computes a point, or a few that are neighbours.
    fn points(&mut self, width: u32) {
        let (ty, kernel) = (self.index_type(), self.kernel);
        self.workers();
        self.scratch_rows(None);
        let grid = kernel.grid.to_vec();
        if let (true, [stage], Some(inner)) = (width > 1, &kernel.stages[..], grid.last()) {
            self.alignment();
            let packs = self.number(product(&grid) / i64::from(width));
            self.open(format!("for ({ty} pack = worker; pack < {packs}; pack += workers) {{"));
            self.line(format!("const {ty} point = pack * {width};"));
            self.axes(&grid, "point");
            self.wide_body(stage, &[], inner.id, width);
            return self.close();
        }
        let points = self.count(&grid);
        self.open(format!("for ({ty} point = worker; point < {points}; point += workers) {{"));
        self.axes(&grid, "point");
        for (s, stage) in kernel.stages.iter().enumerate() {
            let totals = self.totals(s, stage);
            self.open("{");
            let places = totals.iter().any(Total::is_place);
            if places {
                self.line("long long position = 0;");
            }
            for axis in &stage.axes {
                let (name, extent) = (axis_name(axis.id.0), self.number(axis.extent));
                self.open(format!("for ({ty} {name} = 0; {name} < {extent}; {name}++) {{"));
            }
            self.body(&stage.body, &totals);
            if places {
                self.line("position++;");
            }
            stage.axes.iter().for_each(|_| self.close());
            self.close();
            self.finish_totals(s, &totals, None);
        }
        self.close();
    }

    /// A thread computes an element of the only stage, in any order.
    fn elements(&mut self) {
        let (ty, stage) = (self.index_type(), &self.kernel.stages[0]);
        self.workers();
        let all: Vec<Axis> = self.kernel.grid.iter().chain(&stage.axes).copied().collect();
        let count = self.count(&all);
        self.open(format!("for ({ty} at = worker; at < {count}; at += workers) {{"));
        self.axes(&all, "at");
        self.body(&stage.body, &[]);
        self.close();
    }

    /// Several threads share a point.
    fn shared_points(&mut self, group: Group) {
        let (ty, kernel) = (self.index_type(), self.kernel);
        let Group { members, points: block, columns, .. } = group;
        let (lane, local) = match columns {
            false => (format!("threadIdx.x % {members}"), format!("threadIdx.x / {members}")),
            true => (format!("threadIdx.x / {block}"), format!("threadIdx.x % {block}")),
        };
        self.line(format!("const int lane = {lane};"));
        if block > 1 {
            self.line(format!("const int local = {local};"));
        }
        if group.width > 1 {
            self.alignment();
        }
        self.scratch_rows(Some(group));
        let grid = kernel.grid.to_vec();
        let points = self.count(&grid);
        if block > 1 {
            // all threads go round as often, since they wait for one another
            self.open(format!(
                "for ({ty} first = ({ty})blockIdx.x * {block}; first < {points}; first += ({ty})gridDim.x * {block}) {{"
            ));
            self.line(format!("const bool active = first + local < {points};"));
            self.line(format!("const {ty} point = active ? first + local : 0;"));
        } else {
            self.open(format!(
                "for ({ty} point = blockIdx.x; point < {points}; point += gridDim.x) {{"
            ));
        }
        self.axes(&grid, "point");
        self.kept_elements(group);
        for (s, stage) in kernel.stages.iter().enumerate() {
            let totals = self.totals(s, stage);
            self.shared_stage(s, stage, &totals, group);
            self.finish_totals(s, &totals, Some(group));
            if self.hands_over() {
                // a later stage, or point, sees what the other threads of the group have stored
                let whole_warps = !columns && i64::from(members) <= WARP;
                self.line(if whole_warps { "__syncwarp();" } else { "__syncthreads();" });
            }
        }
        self.close();
    }

    /// Declares what threads keep of a row.
    fn kept_elements(&mut self, group: Group) {
        let count = group.kept * group.width;
        let kept = self.layout.kept.clone();
        for (r, _) in kept.rows.iter().enumerate().filter(|(_, kept)| **kept) {
            let ty = Held::of(self.kernel.scratch[r].dtype).unwrap_or(Held::F32).name();
            self.line(format!("{ty} r{r}[{count}];"));
        }
        for (k, load) in kept.loads.iter().enumerate() {
            let (ty, width) = (element(load.dtype), group.width);
            self.line(format!("Pack<{ty}, {width}> k{k}[{}];", group.kept));
        }
    }

    /// Whether stages read memory that other threads of their group have written.
    fn hands_over(&self) -> bool {
        let all = || self.kernel.stages.iter().flat_map(|s| &s.body);
        let in_memory = |mem: &Mem| match mem {
            Mem::Scratch(r) => !self.layout.kept.rows[*r as usize],
            Mem::Buffer(_) => true,
        };
        let stored = |of: &Mem| {
            all().any(
                |i| matches!(&i.op, Op::Store { mem, .. } | Op::Update { mem, .. } if mem == of),
            )
        };
        all().any(|i| matches!(&i.op, Op::Load { mem, .. } if in_memory(mem) && stored(mem)))
    }

    fn shared_stage(&mut self, s: usize, stage: &Stage, totals: &[Total], group: Group) {
        let ty = self.index_type();
        let Group { members, points, width, kept, .. } = group;
        let axes = stage.axes.to_vec();
        self.open("{");
        let count = self.count(&axes);
        let limit = if points > 1 { format!("(active ? {count} : 0)") } else { count };
        let single = axes.is_empty();
        if single {
            self.open(format!("if (lane < {limit}) {{"));
            self.line("const int at = 0;");
        } else if kept > 0 {
            self.line("#pragma unroll");
            self.open(format!("for (int turn = 0; turn < {kept}; turn++) {{"));
            let first = if width > 1 { format!("* {width}") } else { String::new() };
            self.line(format!("const {ty} at = (turn * {members} + lane) {first};"));
            self.open(format!("if (at < {limit}) {{"));
        } else {
            let (first, step) = match width {
                1 => ("lane".to_string(), members),
                _ => (format!("lane * {width}"), members * width),
            };
            self.line(format!("const {ty} limit = {limit};"));
            self.line("#pragma unroll 4");
            self.open(format!("for ({ty} at = {first}; at < limit; at += {step}) {{"));
        }
        self.axes(&axes, "at");
        self.stage = s;
        match axes.last() {
            Some(inner) if width > 1 => self.wide_body(stage, totals, inner.id, width),
            _ => {
                if totals.iter().any(Total::is_place) {
                    self.line("const long long position = at;");
                }
                self.body(&stage.body, totals);
            }
        }
        self.close();
        if kept > 0 && !single {
            self.close();
        }
        self.close();
    }

    /// Declares the totals of a stage.
    fn totals(&mut self, s: usize, stage: &Stage) -> Vec<Total> {
        let dtype_of = |v: Val| stage.body[v.0 as usize].dtype;
        let few = matches!(self.layout.shape.mapping, Mapping::Rows { kept: 1.., .. });
        let totals: Vec<Total> = (stage.body.iter().enumerate())
            .filter_map(|(i, inst)| Total::of(s, i as u32, inst, few, dtype_of))
            .collect();
        for total in &totals {
            self.lines(&total.declared());
        }
        totals
    }

    /// Combines the totals of threads that share a point, and names the results.
    fn finish_totals(&mut self, s: usize, totals: &[Total], group: Option<Group>) {
        for total in totals {
            if let Some(group) = group {
                self.lines(&total.combined(group));
            }
            let name = carry(s as u32, Val(total.inst));
            self.line(total.finished(&name));
        }
    }

    fn lines(&mut self, all: &[String]) {
        all.iter().for_each(|text| self.line(text));
    }

    fn body(&mut self, body: &[Inst], totals: &[Total]) {
        for (i, inst) in body.iter().enumerate() {
            match totals.iter().find(|t| t.inst == i as u32) {
                Some(total) => self.lines(&total.step()),
                None => self.instruction(i, inst, body),
            }
        }
    }

    /// A body for neighbouring elements: what is the same for all, their loads, each of them, their stores.
    fn wide_body(&mut self, stage: &Stage, totals: &[Total], inner: AxisId, width: u32) {
        let body = &stage.body;
        let Some(lanes) = Lanes::of(body, inner, i64::from(width)) else { return };
        let (ty, axis) = (self.index_type(), axis_name(inner.0));
        for (i, inst) in body.iter().enumerate().filter(|(i, _)| !lanes.varies[*i]) {
            self.instruction(i, inst, body);
        }
        let packed = |i: usize| lanes.packed[i] && lanes.varies[i];
        for (i, inst) in body.iter().enumerate().filter(|(i, _)| packed(*i)) {
            match &inst.op {
                Op::Load { mem, index } if !self.in_registers(mem) => {
                    let pack = self.pack(mem, index, &stage.axes, inst.dtype, width);
                    let ty = element(inst.dtype);
                    self.line(format!("const Pack<{ty}, {width}> p{i} = {pack};"));
                }
                Op::Store { mem, .. } if !self.in_registers(mem) => {
                    self.line(format!("Pack<{}, {width}> q{i};", element(inst.dtype)));
                }
                _ => {}
            }
        }
        self.line(format!("const {ty} {axis}first = {axis};"));
        self.line("#pragma unroll");
        self.open(format!("for (int e = 0; e < {width}; e++) {{"));
        self.line(format!("const {ty} {axis} = {axis}first + e;"));
        if totals.iter().any(Total::is_place) {
            self.line("const long long position = at + e;");
        }
        for (i, inst) in body.iter().enumerate().filter(|(i, _)| lanes.varies[*i]) {
            if let Some(total) = totals.iter().find(|t| t.inst == i as u32) {
                self.lines(&total.step());
                continue;
            }
            match &inst.op {
                Op::Load { mem, .. } if packed(i) && !self.in_registers(mem) => {
                    let value = widened(inst.dtype, &format!("p{i}.at[e]"));
                    self.define(i, inst, &value);
                }
                Op::Store { mem, value, .. } if packed(i) && !self.in_registers(mem) => {
                    let value = narrowed(inst.dtype, &name(*value));
                    self.line(format!("q{i}.at[e] = {value};"));
                }
                _ => self.instruction(i, inst, body),
            }
        }
        self.close();
        for (i, inst) in body.iter().enumerate().filter(|(i, _)| packed(*i)) {
            if let Op::Store { mem, index, .. } = &inst.op
                && !self.in_registers(mem)
            {
                let (first, whole) = self.first_of_pack(mem, index);
                self.line(format!("store_pack({first}, q{i}, {whole});"));
            }
        }
    }

    fn in_registers(&self, mem: &Mem) -> bool {
        matches!(mem, Mem::Scratch(r) if self.layout.kept.rows[*r as usize])
    }

    /// The address of the first of neighbouring elements, and whether they can be taken at once.
    fn first_of_pack(&mut self, mem: &Mem, index: &Index) -> (String, String) {
        let index = self.index(index, name);
        let place = self.place(mem, index);
        match mem {
            Mem::Buffer(b) => (format!("&{place}"), format!("w{}", self.parameter(*b))),
            Mem::Scratch(_) => (format!("&{place}"), "true".into()),
        }
    }

    /// The expression that loads neighbouring elements, or takes those that were loaded before.
    fn pack(
        &mut self,
        mem: &Mem,
        index: &Index,
        axes: &[Axis],
        dtype: DType,
        width: u32,
    ) -> String {
        let kept = self.kept_load(mem, index, axes);
        if let Some((k, false)) = kept {
            return format!("k{k}[turn]");
        }
        let (first, whole) = self.first_of_pack(mem, index);
        let load = format!("load_pack<{}, {width}>({first}, {whole})", element(dtype));
        match kept {
            Some((k, _)) => format!("k{k}[turn] = {load}"),
            None => load,
        }
    }

    /// Which of the kept elements of buffers a load is of, and whether it is the first.
    fn kept_load(&self, mem: &Mem, index: &Index, axes: &[Axis]) -> Option<(usize, bool)> {
        let Mem::Buffer(b) = mem else { return None };
        let k = self.layout.kept.load(*b, index, axes)?;
        Some((k, self.layout.kept.loads[k].first == self.stage))
    }

    /// An instruction of one element.
    pub(super) fn instruction(&mut self, i: usize, inst: &Inst, body: &[Inst]) {
        let dtype_of = |v: Val| body[v.0 as usize].dtype;
        if let Some(value) = self.value(inst, &dtype_of) {
            self.define(i, inst, &value);
        }
    }

    /// Names the value of an instruction.
    pub(super) fn define(&mut self, i: usize, inst: &Inst, value: &str) {
        let ty = Held::of(inst.dtype).unwrap_or(Held::F32).name();
        self.line(format!("const {ty} v{i} = {value};"));
    }

    /// Where an element of a kept row is.
    fn kept_place(&self, r: u32) -> String {
        match self.layout.shape.mapping {
            Mapping::Rows { width: width @ 2.., .. } => format!("r{r}[turn * {width} + e]"),
            _ => format!("r{r}[turn]"),
        }
    }

    /// The expression of an instruction; `None` if it writes, which is a line of its own.
    fn value(&mut self, inst: &Inst, dtype_of: &dyn Fn(Val) -> DType) -> Option<String> {
        let dtype = inst.dtype;
        let site = inst.site.unwrap_or(NO_SITE);
        Some(match &inst.op {
            Op::Load { mem: Mem::Scratch(r), .. } if self.layout.kept.rows[*r as usize] => {
                self.kept_place(*r)
            }
            Op::Load { mem, index } => {
                let axes = self.kernel.stages[self.stage].axes.clone();
                let kept = self.kept_load(mem, index, &axes);
                let index = self.index(index, name);
                let place = self.place(mem, index);
                let wide = matches!(self.layout.shape.mapping, Mapping::Rows { width: 2.., .. });
                let at = if wide { "e" } else { "0" };
                let one = match kept {
                    Some((k, true)) => format!("(k{k}[turn].at[{at}] = {place})"),
                    Some((k, false)) => format!("k{k}[turn].at[{at}]"),
                    None => place,
                };
                widened(dtype, &one)
            }
            Op::Const(number) => self.constant(*number, dtype),
            Op::AxisIndex(axis) => format!("(long long){}", axis_name(axis.0)),
            Op::Cast(v) => cast(&name(*v), dtype_of(*v), dtype),
            Op::Unary(op, v) => unary(*op, &name(*v), dtype_of(*v)),
            Op::Binary(op, a, b) => {
                if op.is_division() && dtype.is_integral() {
                    self.fails = true;
                    self.line(format!("divides(status, {site}u, {});", name(*b)));
                }
                binary(*op, &name(*a), &name(*b), dtype)
            }
            Op::Fma(a, b, c) => {
                let function = if dtype == DType::F64 { "fma" } else { "fmaf" };
                rounded(dtype, &format!("{function}({}, {}, {})", name(*a), name(*b), name(*c)))
            }
            Op::Compare(op, a, b) => compare(*op, &name(*a), &name(*b)),
            Op::Select(c, a, b) => format!("({} ? {} : {})", name(*c), name(*a), name(*b)),
            Op::CheckIndex { index, size, wrap } => {
                self.fails = true;
                let size = self.wide_number(*size);
                format!("checked(status, {site}u, {}, {size}, {wrap})", name(*index))
            }
            Op::Carry { stage, value } => carry(*stage, *value),
            Op::Store { mem: Mem::Scratch(r), value, .. } if self.layout.kept.rows[*r as usize] => {
                let place = self.kept_place(*r);
                self.line(format!("{place} = {};", name(*value)));
                return None;
            }
            Op::Store { mem, index, value } => {
                let index = self.index(index, name);
                let place = self.place(mem, index);
                self.line(format!("{place} = {};", narrowed(dtype, &name(*value))));
                return None;
            }
            Op::Update { op, mem, index, value } => {
                let index = self.index(index, name);
                let place = self.place(mem, index);
                let ty = Held::of(dtype).unwrap_or(Held::F32).name();
                let next = |old: &str| updated(*op, old, &name(*value), dtype);
                if self.layout.shape.mapping == Mapping::Elements {
                    let add = *op == ReduceOp::Sum
                        && matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64);
                    if add {
                        self.line(format!("add_to(&{place}, {});", name(*value)));
                        return None;
                    }
                    let (stored, old) = (element(dtype), widened(dtype, "old"));
                    let next = narrowed(dtype, &next("now"));
                    self.line(format!(
                        "update(&{place}, [=](const {stored} old) -> {stored} {{ const {ty} now = {old}; return {next}; }});"
                    ));
                    return None;
                }
                self.open("{");
                self.line(format!("{}& element = {place};", element(dtype)));
                self.line(format!("const {ty} old = {};", widened(dtype, "element")));
                self.line(format!("const {ty} next = {};", next("old")));
                self.line(format!("element = {};", narrowed(dtype, "next")));
                self.close();
                return None;
            }
            // totals, which have lines of their own
            Op::Reduce(..) | Op::ArgReduce { .. } => return None,
        })
    }
}
