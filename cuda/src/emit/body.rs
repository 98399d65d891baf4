//! Grid, stages and their bodies.

use super::mapping::Mapping;
use super::reductions::Total;
use super::types::{Held, element, narrowed, rounded, widened};
use super::values::{binary, cast, compare, unary, updated};
use super::writer::Writer;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{Inst, Op, Val};

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

impl Writer<'_> {
    /// The whole function but for its first line.
    pub(super) fn kernel(&mut self) {
        let ty = self.index_type();
        match self.layout.shape.mapping {
            Mapping::Points => {
                self.line(format!("const {ty} workers = ({ty})gridDim.x * blockDim.x;"));
                self.line(format!(
                    "const {ty} worker = ({ty})blockIdx.x * blockDim.x + threadIdx.x;"
                ));
            }
            Mapping::Rows { threads } => {
                let groups = self.layout.shape.threads / threads;
                self.line(format!(
                    "const int lane = threadIdx.x % {threads}, local = threadIdx.x / {threads};"
                ));
                self.line(format!("const {ty} workers = ({ty})gridDim.x * {groups};"));
                self.line(format!("const {ty} worker = ({ty})blockIdx.x * {groups} + local;"));
            }
        }
        self.scratch_rows();
        let grid = self.kernel.grid.to_vec();
        let points = self.count(&grid);
        self.open(format!("for ({ty} point = worker; point < {points}; point += workers) {{"));
        self.axes(&grid, "point");
        for s in 0..self.kernel.stages.len() {
            self.stage(s);
        }
        self.close();
    }

    fn stage(&mut self, s: usize) {
        let stage = &self.kernel.stages[s];
        let axes = stage.axes.to_vec();
        let totals: Vec<Total> = stage
            .body
            .iter()
            .enumerate()
            .filter_map(|(i, inst)| {
                Total::of(s, i as u32, inst, |v| stage.body[v.0 as usize].dtype)
            })
            .collect();
        for total in &totals {
            self.lines(&total.declared());
        }
        let places = totals.iter().any(|t| t.is_place());
        let mapping = self.layout.shape.mapping;
        self.open("{");
        match mapping {
            Mapping::Points => {
                if places {
                    self.line("long long position = 0;");
                }
                let ty = self.index_type();
                for axis in &axes {
                    let name = super::writer::axis_name(axis.id.0);
                    let extent = self.number(axis.extent);
                    self.open(format!("for ({ty} {name} = 0; {name} < {extent}; {name}++) {{"));
                }
                self.body(s, &totals);
                if places {
                    self.line("position++;");
                }
                axes.iter().for_each(|_| self.close());
            }
            Mapping::Rows { threads } => {
                let (ty, count) = (self.index_type(), self.count(&axes));
                self.open(format!("for ({ty} at = lane; at < {count}; at += {threads}) {{"));
                if places {
                    self.line("const long long position = at;");
                }
                self.axes(&axes, "at");
                self.body(s, &totals);
                self.close();
            }
        }
        self.close();
        for total in &totals {
            if let Mapping::Rows { threads } = mapping {
                self.lines(&total.combined(threads));
            }
            let name = carry(s as u32, Val(total.inst));
            self.line(total.finished(&name));
        }
        match mapping {
            Mapping::Points => {}
            // a later stage, or point, sees what the other threads of the group have stored
            Mapping::Rows { threads: 32 } => self.line("__syncwarp();"),
            Mapping::Rows { .. } => self.line("__syncthreads();"),
        }
    }

    fn lines(&mut self, all: &[String]) {
        all.iter().for_each(|text| self.line(text));
    }

    fn body(&mut self, s: usize, totals: &[Total]) {
        let kernel = self.kernel;
        let body = &kernel.stages[s].body;
        for (i, inst) in body.iter().enumerate() {
            let dtype_of = |v: Val| body[v.0 as usize].dtype;
            if let Some(total) = totals.iter().find(|t| t.inst == i as u32) {
                self.lines(&total.step());
                continue;
            }
            let Some(value) = self.value(inst, &dtype_of) else { continue };
            let ty = Held::of(inst.dtype).unwrap_or(Held::F32).name();
            self.line(format!("const {ty} v{i} = {value};"));
        }
    }

    /// The expression of an instruction; `None` if it writes, which is a line of its own.
    fn value(&mut self, inst: &Inst, dtype_of: &dyn Fn(Val) -> DType) -> Option<String> {
        let dtype = inst.dtype;
        let site = inst.site.unwrap_or(NO_SITE);
        Some(match &inst.op {
            Op::Load { mem, index } => {
                let index = self.index(index, name);
                widened(dtype, &self.place(mem, index))
            }
            Op::Const(number) => self.constant(*number, dtype),
            Op::AxisIndex(axis) => format!("(long long){}", super::writer::axis_name(axis.0)),
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
                self.open("{");
                self.line(format!("{}& element = {place};", element(dtype)));
                self.line(format!("const {ty} old = {};", widened(dtype, "element")));
                let new = updated(*op, "old", &name(*value), dtype);
                self.line(format!("const {ty} next = {new};"));
                self.line(format!("element = {};", narrowed(dtype, "next")));
                self.close();
                return None;
            }
            // totals, which have lines of their own
            Op::Reduce(..) | Op::ArgReduce { .. } => return None,
        })
    }
}
