//! Schedules as text.

use super::ScheduleOptions;
use super::loops::*;
use super::plan::schedule;
use crate::ir::control;
use std::fmt;

impl fmt::Display for BufferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

impl fmt::Display for AxisId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i{}", self.0)
    }
}

impl fmt::Display for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for Mem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mem::Buffer(b) => write!(f, "{b}"),
            Mem::Scratch(i) => write!(f, "row{i}"),
        }
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        let mut term = |f: &mut fmt::Formatter<'_>, name: &dyn fmt::Display, s: i64| {
            let sign = match (first, s < 0) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            };
            first = false;
            match s.unsigned_abs() {
                1 => write!(f, "{sign}{name}"),
                n => write!(f, "{sign}{n}*{name}"),
            }
        };
        for (axis, s) in &self.terms {
            term(f, axis, *s)?;
        }
        for (val, s) in &self.dynamic {
            term(f, val, *s)?;
        }
        match (first, self.base) {
            (true, base) => write!(f, "{base}"),
            (false, 0) => Ok(()),
            (false, base) if base < 0 => write!(f, " - {}", -base),
            (false, base) => write!(f, " + {base}"),
        }
    }
}

/// `GeluErf` as `gelu_erf`.
fn snake(name: &dyn fmt::Debug) -> String {
    let mut out = String::new();
    for c in format!("{name:?}").chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Load { mem, index } => write!(f, "load {mem}[{index}]"),
            Op::Const(c) => write!(f, "const {c}"),
            Op::AxisIndex(a) => write!(f, "axis {a}"),
            Op::Cast(a) => write!(f, "cast {a}"),
            Op::Unary(op, a) => write!(f, "{} {a}", snake(op)),
            Op::Binary(op, a, b) => write!(f, "{} {a}, {b}", snake(op)),
            Op::Fma(a, b, c) => write!(f, "fma {a}, {b}, {c}"),
            Op::Compare(op, a, b) => write!(f, "{} {a}, {b}", snake(op)),
            Op::Select(c, a, b) => write!(f, "select {c}, {a}, {b}"),
            Op::CheckIndex { index, size, wrap } => {
                let name = if *wrap { "wrap_index" } else { "check_index" };
                write!(f, "{name} {index} < {size}")
            }
            Op::Reduce(op, a) => write!(f, "reduce_{} {a}", snake(op)),
            Op::ArgReduce { max, value } => {
                write!(f, "{} {value}", if *max { "arg_max" } else { "arg_min" })
            }
            Op::Carry { stage, value } => write!(f, "carry stage{stage}.{value}"),
            Op::Store { mem, index, value } => write!(f, "store {mem}[{index}] = {value}"),
            Op::Update { op, mem, index, value } => {
                write!(f, "update_{} {mem}[{index}], {value}", snake(op))
            }
        }
    }
}

fn axes(f: &mut fmt::Formatter<'_>, axes: &[Axis]) -> fmt::Result {
    f.write_str("(")?;
    for (i, a) in axes.iter().enumerate() {
        let sep = if i > 0 { ", " } else { "" };
        write!(f, "{sep}{} < {}", a.id, a.extent)?;
    }
    f.write_str(")")
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {} grid ", self.name)?;
        axes(f, &self.grid)?;
        let along = snake(&self.vectorize);
        writeln!(f, " vectorize {along} work {} {{", self.work_per_point)?;
        for (i, row) in self.scratch.iter().enumerate() {
            writeln!(f, "  row{i}: {}[{}]", row.dtype, row.len)?;
        }
        for (i, stage) in self.stages.iter().enumerate() {
            write!(f, "  stage{i} ")?;
            axes(f, &stage.axes)?;
            writeln!(f, " {{")?;
            for (v, inst) in stage.body.iter().enumerate() {
                match inst.op {
                    Op::Store { .. } | Op::Update { .. } => writeln!(f, "    {}", inst.op)?,
                    _ => writeln!(f, "    %{v}: {} = {}", inst.dtype, inst.op)?,
                }
            }
            writeln!(f, "  }}")?;
        }
        writeln!(f, "}}")
    }
}

impl fmt::Display for BufferView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |dims: &[i64]| {
            let parts: Vec<String> = dims.iter().map(i64::to_string).collect();
            parts.join(",")
        };
        write!(f, "{}[{}]", self.buffer, list(&self.sizes))?;
        if !crate::ir::layout::is_contiguous(&self.sizes, &self.strides) {
            write!(f, ":({})", list(&self.strides))?;
        }
        match self.offset {
            0 => Ok(()),
            n => write!(f, "+{n}"),
        }
    }
}

impl fmt::Display for Extern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extern::Matmul(m) => {
                write!(f, "matmul {} = {} @ {}", m.out, m.a, m.b)?;
                if m.pack_b {
                    f.write_str(" (packed)")?;
                }
                if let Some(bias) = &m.bias {
                    write!(f, ", bias {bias}")?;
                }
                if m.activation != Activation::None {
                    write!(f, ", {}", snake(&m.activation))?;
                }
                if let Some(r) = &m.residual {
                    write!(f, ", residual {r}")?;
                }
                writeln!(f)
            }
            Extern::Convolution(c) => {
                write!(f, "convolution {} = {} * {}", c.out, c.input, c.weight)?;
                if c.pack_weight {
                    f.write_str(" (packed)")?;
                }
                if c.fast_math {
                    f.write_str(", fast math")?;
                }
                if let Some(bias) = &c.bias {
                    write!(f, ", bias {bias}")?;
                }
                for follow in &c.follow {
                    match follow {
                        Follow::Scale(v) => write!(f, ", scale {v}")?,
                        Follow::Shift(v) => write!(f, ", shift {v}")?,
                        Follow::Add(v) => write!(f, ", add {v}")?,
                        Follow::Activation(a) => write!(f, ", {}", snake(a))?,
                    }
                }
                writeln!(f)
            }
            Extern::Op { op, args, inputs, outputs, .. } => {
                let list = |views: &[BufferView]| {
                    let parts: Vec<String> = views.iter().map(BufferView::to_string).collect();
                    parts.join(", ")
                };
                writeln!(f, "call {} = {op}({})", list(outputs), list(inputs))?;
                for (name, graph) in control::subgraphs(*op, args) {
                    let inside = match schedule(graph, &ScheduleOptions::default()) {
                        Ok(schedule) => schedule.to_string(),
                        Err(e) => e.to_string(),
                    };
                    writeln!(f, "  {name}:")?;
                    inside.lines().try_for_each(|line| writeln!(f, "    {line}"))?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}] ", self.dtype, self.len)?;
        match &self.kind {
            BufferKind::Input(i) => write!(f, "input {i}")?,
            BufferKind::Parameter(i) => write!(f, "parameter {i}")?,
            BufferKind::Output(i) => write!(f, "output {i}")?,
            BufferKind::Constant(bytes) => write!(f, "constant of {} bytes", bytes.len())?,
            BufferKind::Arena { offset } => write!(f, "arena +{offset}")?,
            BufferKind::Within { output, offset } => {
                write!(f, "output {output} before it is written +{offset}")?
            }
        }
        write!(f, " `{}`", self.name)
    }
}

impl fmt::Display for OutputBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, meta, offset) = match self {
            OutputBinding::Fresh { index, meta } => (format!("output {index}"), meta, 0),
            OutputBinding::View { of, meta, offset } => {
                let of = match of {
                    ViewSource::Input(i) => format!("input {i}"),
                    ViewSource::Parameter(i) => format!("parameter {i}"),
                    ViewSource::Output(i) => format!("output {i}"),
                };
                (format!("view of {of}"), meta, *offset)
            }
        };
        write!(f, "{what} {}{:?}:{:?}", meta.dtype, &meta.sizes[..], &meta.strides[..])?;
        match offset {
            0 => Ok(()),
            n => write!(f, "+{n}"),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, b) in self.buffers.iter().enumerate() {
            writeln!(f, "b{i}: {b}")?;
        }
        for step in &self.steps {
            match step {
                Step::Kernel(k) => write!(f, "{k}")?,
                Step::Extern(e) => write!(f, "{e}")?,
            }
        }
        for o in &self.outputs {
            writeln!(f, "return {o}")?;
        }
        Ok(())
    }
}

impl Schedule {
    /// One line per step and per buffer of the arena: the plan without the bodies of kernels.
    pub fn summary(&self) -> String {
        use std::fmt::Write;
        let mut out = String::new();
        let externs = self.steps.len() - self.kernels().count();
        let _ = writeln!(
            out,
            "{} kernels, {externs} runtime calls, arena {} bytes",
            self.kernels().count(),
            self.arena_bytes
        );
        for (i, step) in self.steps.iter().enumerate() {
            let _ = match step {
                Step::Kernel(k) => {
                    let grid: Vec<String> = k.grid.iter().map(|a| a.extent.to_string()).collect();
                    let ops: Vec<&str> = k.ops.iter().map(|o| o.name()).collect();
                    writeln!(
                        out,
                        "{i}: kernel {} grid [{}] stages {} work {}: {}",
                        k.name,
                        grid.join(","),
                        k.stages.len(),
                        k.work_per_point,
                        ops.join(" ")
                    )
                }
                Step::Extern(e) => write!(out, "{i}: {e}"),
            };
        }
        for b in &self.buffers {
            if matches!(b.kind, BufferKind::Arena { .. } | BufferKind::Within { .. }) {
                let _ = writeln!(out, "{b}");
            }
        }
        for o in &self.outputs {
            let _ = writeln!(out, "return {o}");
        }
        out
    }
}
