//! The text of one kernel.

use super::body::Group;
use super::mapping::{Layout, Mapping, Rows, row_bytes};
use super::types::{Held, element, literal, long};
use super::{Emitted, Numbers};
use crate::programs;
use std::fmt::Write;
use straightline_passes::ir::{DType, Scalar};
use straightline_passes::schedule::loops::{Axis, BufferId, Index, Kernel, Mem, Op, Schedule, Val};

pub(super) struct Writer<'s> {
    pub(super) schedule: &'s Schedule,
    pub(super) kernel: &'s Kernel,
    pub(super) layout: Layout,
    /// Where numbers are, and those that are arguments.
    how: Numbers,
    numbers: Vec<i64>,
    buffers: Vec<BufferId>,
    written: Vec<BufferId>,
    pub(super) fails: bool,
    /// The stage that is being written.
    pub(super) stage: usize,
    /// Elements and points are counted by 32 bits.
    short: bool,
    name: String,
    out: String,
    depth: usize,
}

/// Below this, indices are 32 bits long.
const SHORT: i64 = 1 << 31;

/// Numbers that are arguments; those beyond are in the text.
const MOST_NUMBERS: usize = 2048;

impl<'s> Writer<'s> {
    pub(super) fn new(
        schedule: &'s Schedule,
        kernel: &'s Kernel,
        how: Numbers,
        layout: Layout,
    ) -> Writer<'s> {
        let ops = || kernel.stages.iter().flat_map(|s| &s.body).map(|i| &i.op);
        let (mut buffers, mut written) = (Vec::new(), Vec::new());
        for op in ops() {
            let (id, writes) = match op {
                Op::Load { mem: Mem::Buffer(b), .. } => (*b, false),
                Op::Store { mem: Mem::Buffer(b), .. } | Op::Update { mem: Mem::Buffer(b), .. } => {
                    (*b, true)
                }
                _ => continue,
            };
            if !buffers.contains(&id) {
                buffers.push(id);
            }
            if writes && !written.contains(&id) {
                written.push(id);
            }
        }
        let largest = buffers.iter().map(|b| schedule.buffer(*b).len as i64).max().unwrap_or(0);
        let elements = |s: &straightline_passes::schedule::loops::Stage| {
            s.axes.iter().map(|a| a.extent).product::<i64>()
        };
        let longest = kernel.stages.iter().map(elements).max().unwrap_or(1);
        // the elements of a stage in any order are counted over all points
        let counted = match layout.shape.mapping {
            Mapping::Elements => kernel.points().saturating_mul(longest),
            _ => kernel.points().max(longest),
        };
        Writer {
            schedule,
            kernel,
            layout,
            how,
            numbers: Vec::new(),
            buffers,
            written,
            fails: false,
            stage: 0,
            short: largest.max(counted) < SHORT / 2,
            name: identifier(&kernel.name),
            out: String::new(),
            depth: 1,
        }
    }

    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        let indent = self.depth * 4;
        let _ = writeln!(self.out, "{:indent$}{}", "", text.as_ref());
    }

    /// A line that opens braces, whose contents follow.
    pub(super) fn open(&mut self, text: impl AsRef<str>) {
        self.line(text);
        self.depth += 1;
    }

    pub(super) fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    /// The type of indices.
    pub(super) fn index_type(&self) -> &'static str {
        if self.short { "int" } else { "long long" }
    }

    /// Whether a number is an argument: kernels take 32 KiB of them.
    fn is_argument(&self, n: i64) -> bool {
        !(-1..=1).contains(&n) && self.numbers.len() < MOST_NUMBERS
    }

    /// A number of the schedule.
    pub(super) fn number(&mut self, n: i64) -> String {
        match self.how {
            Numbers::Arguments if self.is_argument(n) => {
                self.numbers.push(n);
                let read = format!("n.at[{}]", self.numbers.len() - 1);
                if self.short { format!("(int){read}") } else { read }
            }
            _ if self.short && n.abs() < SHORT => n.to_string(),
            _ => long(n),
        }
    }

    /// A number that may be larger than indices are.
    pub(super) fn wide_number(&mut self, n: i64) -> String {
        match self.how {
            Numbers::Arguments if self.is_argument(n) => {
                self.numbers.push(n);
                format!("n.at[{}]", self.numbers.len() - 1)
            }
            _ => long(n),
        }
    }

    /// A constant of the loops: an argument like the other numbers, by its bits, unless it is 0, 1 or -1.
    pub(super) fn constant(&mut self, number: Scalar, dtype: DType) -> String {
        let (held, value) = (Held::of(dtype), number.cast(dtype));
        let structure = [0.0, 1.0, -1.0].contains(&value.as_f64());
        let full = self.numbers.len() >= MOST_NUMBERS;
        if self.how == Numbers::Literals || held == Some(Held::Bool) || structure || full {
            return literal(number, dtype);
        }
        let (bits, read) = match held {
            Some(Held::F32) => {
                (i64::from((value.as_f64() as f32).to_bits()), "__uint_as_float((unsigned)")
            }
            Some(Held::F64) => (value.as_f64().to_bits() as i64, "__longlong_as_double("),
            Some(Held::I64) => (value.as_i64(), "("),
            _ => (value.as_i64(), "(int)("),
        };
        self.numbers.push(bits);
        format!("{read}n.at[{}])", self.numbers.len() - 1)
    }

    /// Declares the axes of a linear position, the last of them fastest.
    pub(super) fn axes(&mut self, axes: &[Axis], linear: &str) {
        let ty = self.index_type();
        let mut rest = linear.to_string();
        for (place, axis) in axes.iter().enumerate().rev() {
            let name = axis_name(axis.id.0);
            if place == 0 {
                self.line(format!("const {ty} {name} = {rest};"));
                continue;
            }
            let extent = self.number(axis.extent);
            let next = format!("{name}r");
            self.line(format!("const {ty} {name}e = {extent}, {next} = {rest} / {name}e;"));
            self.line(format!("const {ty} {name} = {rest} - {next} * {name}e;"));
            rest = next;
        }
    }

    /// The elements of some axes.
    pub(super) fn count(&mut self, axes: &[Axis]) -> String {
        let n: i64 = axes.iter().map(|a| a.extent).product();
        self.number(n)
    }

    /// An element index as an expression.
    pub(super) fn index(&mut self, index: &Index, value: impl Fn(Val) -> String) -> String {
        let mut terms = Vec::new();
        if index.base != 0 {
            terms.push(self.number(index.base));
        }
        let ty = self.index_type();
        for (axis, stride) in &index.terms {
            let name = axis_name(axis.0);
            let stride = self.number(*stride);
            terms.push(times(&name, &stride));
        }
        for (v, stride) in &index.dynamic {
            let stride = self.number(*stride);
            terms.push(times(&format!("({ty}){}", value(*v)), &stride));
        }
        if terms.is_empty() { "0".into() } else { terms.join(" + ") }
    }

    /// An element of memory.
    pub(super) fn place(&mut self, mem: &Mem, index: String) -> String {
        match (mem, self.layout.shape.mapping) {
            (Mem::Buffer(b), _) => format!("{}[{index}]", self.buffer(*b)),
            // a thread's elements lie as far apart as there are threads, or points of a block
            (Mem::Scratch(r), Mapping::Points { .. }) => {
                format!("s{r}[({index}) * (long long)workers]")
            }
            (Mem::Scratch(r), Mapping::Columns { lanes, .. }) => {
                format!("s{r}[({index}) * {lanes} + local]")
            }
            (Mem::Scratch(r), _) => format!("s{r}[{index}]"),
        }
    }

    /// Declares whether each buffer begins where several elements can be loaded at once.
    pub(super) fn alignment(&mut self) {
        for i in 0..self.buffers.len() {
            self.line(format!("const bool w{i} = ((unsigned long long)b{i} & 15) == 0;"));
        }
    }

    /// The place of a buffer among the parameters.
    pub(super) fn parameter(&self, b: BufferId) -> usize {
        self.buffers.iter().position(|id| *id == b).unwrap_or_default()
    }

    fn buffer(&self, b: BufferId) -> String {
        format!("b{}", self.parameter(b))
    }

    /// The function from its first to its last line, and how it is launched. Its name ends in a digest
    /// of what it does, so that kernels with one text are one function.
    pub(super) fn finish(self) -> (String, Emitted) {
        // parameters by their place: two kernels may do the same to different buffers
        let mut arguments: Vec<String> = Vec::new();
        for b in &self.buffers {
            let ty = element(self.schedule.buffer(*b).dtype);
            // what is only read may still be what another argument writes
            let constant = if self.written.contains(b) { "" } else { "const " };
            arguments.push(format!("{constant}{ty}* {}", self.buffer(*b)));
        }
        let count = self.numbers.len();
        if count != 0 {
            arguments.push(format!("const Arguments<{count}> n"));
        }
        if self.layout.shape.scratch_bytes != 0 {
            arguments.push("unsigned char* scratch".into());
        }
        if self.fails {
            arguments.push("Status* status".into());
        }
        let rest = format!("({}) {{\n{}}}\n", arguments.join(", "), self.out);
        let threads = self.layout.shape.threads;
        let digest = programs::digest(&format!("{threads} {rest}"));
        let name = format!("{}_{digest:016x}", self.name);
        let first = format!("\nextern \"C\" __global__ void __launch_bounds__({threads}) {name}");
        let text = first + &rest;
        let emitted = Emitted {
            name,
            buffers: self.buffers,
            numbers: self.numbers,
            fails: self.fails,
            shape: self.layout.shape,
        };
        (text, emitted)
    }

    /// Declares the scratch rows of a thread, or those of a group of threads that are not in registers.
    pub(super) fn scratch_rows(&mut self, group: Option<Group>) {
        let (kernel, kept) = (self.kernel, self.layout.kept.rows.clone());
        let lanes = group.filter(|g| g.columns).map_or(1, |g| i64::from(g.points));
        let rows: Vec<(usize, &str, i64)> = (kernel.scratch.iter().enumerate())
            .filter(|(r, _)| !kept[*r])
            .map(|(r, s)| (r, element(s.dtype), row_bytes(s, lanes)))
            .collect();
        let all: i64 = rows.iter().map(|(.., bytes)| bytes).sum();
        if rows.is_empty() {
            return;
        }
        let Some(group) = group else {
            let mut before = 0;
            for (r, ty, bytes) in rows {
                let first = self.wide_number(before);
                self.line(format!("{ty}* s{r} = ({ty}*)(scratch + {first} * workers) + worker;"));
                before += bytes;
            }
            return;
        };
        let one = group.points == 1 || group.columns;
        let from = match self.layout.rows {
            Rows::Shared => {
                self.line("extern __shared__ __align__(16) unsigned char shared[];");
                "shared".to_string()
            }
            Rows::Global => {
                let block = self.wide_number(all * i64::from(if one { 1 } else { group.points }));
                format!("scratch + {block} * blockIdx.x")
            }
        };
        let from = match one {
            true => from,
            false => format!("{from} + {} * local", self.wide_number(all)),
        };
        self.line(format!("unsigned char* const rows = {from};"));
        let mut before = 0;
        for (r, ty, bytes) in rows {
            let first = self.wide_number(before);
            self.line(format!("{ty}* s{r} = ({ty}*)(rows + {first});"));
            before += bytes;
        }
    }
}

pub(super) fn axis_name(id: u32) -> String {
    format!("i{id}")
}

fn times(a: &str, stride: &str) -> String {
    match stride {
        "1" | "1ll" => a.to_string(),
        "-1" | "-1ll" => format!("(0 - {a})"),
        _ => format!("{a} * {stride}"),
    }
}

fn identifier(name: &str) -> String {
    let mut text: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    text.truncate(48);
    text
}
