//! Reductions: a total in each thread, combined over the threads that share a grid point.

use super::body::{Group, name};
use super::types::{Held, limit, literal, rounded};
use super::values::{cast, reduced};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{Inst, Op, ReduceOp, Val};

/// A reduction of a stage.
pub(super) struct Total {
    /// Of which stage.
    stage: usize,
    /// Which instruction.
    pub(super) inst: u32,
    what: What,
    value: Val,
    /// Of the value that is reduced.
    from: DType,
    /// In which it accumulates.
    held: DType,
    /// Of the result.
    dtype: DType,
    /// A thread adds few elements.
    few: bool,
}

enum What {
    Fold(ReduceOp),
    Place { max: bool },
}

impl Total {
    pub(super) fn of(
        stage: usize,
        i: u32,
        inst: &Inst,
        few: bool,
        dtype_of: impl Fn(Val) -> DType,
    ) -> Option<Total> {
        let (what, value) = match inst.op {
            Op::Reduce(op, v) => (What::Fold(op), v),
            Op::ArgReduce { max, value } => (What::Place { max }, value),
            _ => return None,
        };
        let from = dtype_of(value);
        let held = match what {
            What::Fold(_) => inst.dtype.opmath(),
            What::Place { .. } => from,
        };
        Some(Total { stage, inst: i, what, value, from, held, dtype: inst.dtype, few })
    }

    pub(super) fn is_place(&self) -> bool {
        matches!(self.what, What::Place { .. })
    }

    /// Whether a sum keeps what its additions have lost.
    fn compensates(&self) -> bool {
        let float = Held::of(self.held).is_some_and(Held::is_float);
        // the sums of few elements are added up as a tree
        float && !self.few && matches!(self.what, What::Fold(ReduceOp::Sum))
    }

    fn total(&self) -> String {
        format!("t{}_{}", self.stage, self.inst)
    }

    fn type_name(&self) -> &'static str {
        Held::of(self.held).unwrap_or(Held::F32).name()
    }

    /// The total of no elements.
    pub(super) fn declared(&self) -> Vec<String> {
        let (total, ty) = (self.total(), self.type_name());
        let number = match self.what {
            What::Fold(ReduceOp::Sum | ReduceOp::Any) | What::Place { .. } => 0i64.into(),
            What::Fold(ReduceOp::Prod | ReduceOp::All) => 1i64.into(),
            What::Fold(ReduceOp::Max) => limit(self.dtype, false),
            What::Fold(ReduceOp::Min) => limit(self.dtype, true),
        };
        let mut lines = vec![format!("{ty} {total} = {};", literal(number, self.held))];
        if self.is_place() {
            lines.push(format!("long long {total}p = -1;"));
        }
        if self.compensates() {
            lines.push(format!("{ty} {total}e = 0;"));
        }
        lines
    }

    /// One more element.
    pub(super) fn step(&self) -> Vec<String> {
        let total = self.total();
        let v = cast(&name(self.value), self.from, self.held);
        match self.what {
            // the error of a sum does not grow with its length
            What::Fold(ReduceOp::Sum) if self.compensates() => {
                vec![format!("add_up({total}, {total}e, {v});")]
            }
            What::Fold(op) => {
                vec![format!("{total} = {};", reduced(op, &total, &v, self.held))]
            }
            What::Place { max } => {
                vec![format!("take_place<{max}>({total}, {total}p, {v}, position);")]
            }
        }
    }

    /// The total of a group of threads, in each of them.
    pub(super) fn combined(&self, group: Group) -> Vec<String> {
        let (total, ty) = (self.total(), self.type_name());
        let Group { members, points, columns, .. } = group;
        let (function, shape) = match columns {
            false => ("combined", format!("{members}")),
            true => ("combined_columns", format!("{points}, {members}")),
        };
        match self.what {
            What::Fold(op) => {
                let both = reduced(op, "a", "b", self.held);
                vec![format!(
                    "{total} = {function}<{shape}>({total}, [](const {ty} a, const {ty} b) -> {ty} {{ return {both}; }});"
                )]
            }
            What::Place { max } => {
                let function = function.replace("combined", "combined_place");
                vec![format!("{function}<{shape}, {max}>({total}, {total}p);")]
            }
        }
    }

    /// The line that gives the result its name.
    pub(super) fn finished(&self, name: &str) -> String {
        let total = self.total();
        match self.what {
            What::Place { .. } => format!("const long long {name} = {total}p < 0 ? 0 : {total}p;"),
            What::Fold(_) => {
                let ty = Held::of(self.dtype).unwrap_or(Held::F32).name();
                format!("const {ty} {name} = {};", rounded(self.dtype, &total))
            }
        }
    }
}
