//! The text of one kernel.

use super::mapping::{Layout, Mapping, Rows};
use super::types::{Held, element, literal, long};
use super::{Emitted, Numbers};
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
    /// Elements and points are counted by 32 bits.
    short: bool,
    name: String,
    out: String,
    depth: usize,
}

/// Below this, indices are 32 bits long.
const SHORT: i64 = 1 << 31;

impl<'s> Writer<'s> {
    pub(super) fn new(
        schedule: &'s Schedule,
        kernel: &'s Kernel,
        how: Numbers,
        number: usize,
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
        Writer {
            schedule,
            kernel,
            layout: Layout::of(kernel),
            how,
            numbers: Vec::new(),
            buffers,
            written,
            fails: false,
            short: largest.max(kernel.points()).max(longest) < SHORT / 2,
            name: format!("k{number}_{}", identifier(&kernel.name)),
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

    /// A number of the schedule.
    pub(super) fn number(&mut self, n: i64) -> String {
        match self.how {
            Numbers::Arguments if !(-1..=1).contains(&n) => {
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
            Numbers::Arguments if !(-1..=1).contains(&n) => {
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
        if self.how == Numbers::Literals || held == Some(Held::Bool) || structure {
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
        match mem {
            Mem::Buffer(b) => format!("b{}[{index}]", b.0),
            // a thread's elements lie as far apart as there are threads
            Mem::Scratch(r) if self.layout.shape.mapping == Mapping::Points => {
                format!("s{r}[({index}) * (long long)workers]")
            }
            Mem::Scratch(r) => format!("s{r}[{index}]"),
        }
    }

    /// The function from its first to its last line, and how it is launched.
    pub(super) fn finish(self) -> (String, Emitted) {
        let mut arguments: Vec<String> = Vec::new();
        for b in &self.buffers {
            let ty = element(self.schedule.buffer(*b).dtype);
            // what is only read may still be what another argument writes
            let constant = if self.written.contains(b) { "" } else { "const " };
            arguments.push(format!("{constant}{ty}* b{}", b.0));
        }
        let mut text = String::new();
        if !self.numbers.is_empty() {
            let count = self.numbers.len();
            let _ = writeln!(text, "\nstruct Numbers_{} {{ long long at[{count}]; }};", self.name);
            arguments.push(format!("const Numbers_{} n", self.name));
        }
        if self.layout.shape.scratch_bytes != 0 {
            arguments.push("unsigned char* scratch".into());
        }
        if self.fails {
            arguments.push("Status* status".into());
        }
        let threads = self.layout.shape.threads;
        let _ = writeln!(
            text,
            "\nextern \"C\" __global__ void __launch_bounds__({threads}) {}({}) {{",
            self.name,
            arguments.join(", ")
        );
        text.push_str(&self.out);
        text.push_str("}\n");
        let emitted = Emitted {
            name: self.name,
            buffers: self.buffers,
            numbers: self.numbers,
            fails: self.fails,
            shape: self.layout.shape,
        };
        (text, emitted)
    }

    /// Declares the scratch rows of a group of threads (`group`, of `groups` in all, `local` in its
    /// block), or of a thread.
    pub(super) fn scratch_rows(&mut self) {
        let scratch = self.kernel.scratch.clone();
        if scratch.is_empty() {
            return;
        }
        let bytes = |s: &straightline_passes::schedule::loops::Scratch| {
            (s.len * s.dtype.size() as i64 + 15) & !15
        };
        let mut before: i64 = 0;
        let all: i64 = scratch.iter().map(bytes).sum();
        match (self.layout.shape.mapping, self.layout.rows) {
            (Mapping::Points, _) => {
                for (r, s) in scratch.iter().enumerate() {
                    let ty = element(s.dtype);
                    let first = self.wide_number(before);
                    self.line(format!(
                        "{ty}* s{r} = ({ty}*)(scratch + {first} * workers) + worker;"
                    ));
                    before += bytes(s);
                }
            }
            (Mapping::Rows { .. }, rows) => {
                let all = self.wide_number(all);
                let from = match rows {
                    Rows::Shared => {
                        self.line("extern __shared__ __align__(16) unsigned char shared[];");
                        format!("shared + {all} * local")
                    }
                    Rows::Global => format!("scratch + {all} * worker"),
                };
                self.line(format!("unsigned char* const rows = {from};"));
                for (r, s) in scratch.iter().enumerate() {
                    let ty = element(s.dtype);
                    let first = self.wide_number(before);
                    self.line(format!("{ty}* s{r} = ({ty}*)(rows + {first});"));
                    before += bytes(s);
                }
            }
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
