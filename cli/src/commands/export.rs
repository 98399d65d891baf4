//! A schedule for other programs: Graphviz and JSON. (Graphs export themselves.)

use serde_json::{Value, json};
use straightline_passes::schedule::loops::{
    Axis, Buffer, BufferId, BufferKind, BufferView, Extern, Follow, Kernel, Mem, Op, OutputBinding,
    Schedule, Step,
};

/// The buffers that a step reads and those that it writes, each once.
fn traffic(step: &Step) -> (Vec<BufferId>, Vec<BufferId>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    match step {
        Step::Kernel(kernel) => {
            for inst in kernel.stages.iter().flat_map(|s| &s.body) {
                match &inst.op {
                    Op::Load { mem: Mem::Buffer(b), .. } => reads.push(*b),
                    Op::Store { mem: Mem::Buffer(b), .. }
                    | Op::Update { mem: Mem::Buffer(b), .. } => writes.push(*b),
                    _ => {}
                }
            }
        }
        Step::Extern(Extern::Matmul(m)) => {
            let optional = m.bias.iter().chain(&m.residual);
            reads.extend([&m.a, &m.b].into_iter().chain(optional).map(|v| v.buffer));
            writes.push(m.out.buffer);
        }
        Step::Extern(Extern::Convolution(c)) => {
            reads.extend(c.reads().map(|v| v.buffer));
            writes.push(c.out.buffer);
        }
        Step::Extern(Extern::Op { inputs, outputs, .. }) => {
            reads.extend(inputs.iter().map(|v| v.buffer));
            writes.extend(outputs.iter().map(|v| v.buffer));
        }
    }
    for list in [&mut reads, &mut writes] {
        list.sort();
        list.dedup();
    }
    (reads, writes)
}

fn label(step: &Step) -> String {
    match step {
        Step::Kernel(k) => format!("kernel {}", k.name),
        Step::Extern(Extern::Matmul(_)) => "matmul".to_owned(),
        Step::Extern(Extern::Convolution(_)) => "convolution".to_owned(),
        Step::Extern(Extern::Op { op, .. }) => op.to_string(),
    }
}

/// The kind of a buffer, and its number as a name and a value.
fn place(buffer: &Buffer) -> (&'static str, &'static str, usize) {
    match &buffer.kind {
        BufferKind::Input(i) => ("input", "index", *i as usize),
        BufferKind::Parameter(i) => ("parameter", "index", *i as usize),
        BufferKind::Output(i) => ("output", "index", *i as usize),
        BufferKind::Constant(bytes) => ("constant", "bytes", bytes.len()),
        BufferKind::Arena { offset } => ("arena", "offset", *offset),
        BufferKind::Within { offset, .. } => ("within", "offset", *offset),
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Graphviz: steps are boxes, and the buffers lie between them.
pub(super) fn dot(schedule: &Schedule) -> String {
    let mut out = String::from(
        "digraph schedule {\n  rankdir=TB;\n  node [shape=box, fontname=monospace];\n",
    );
    let mut line = |text: String| {
        out.push_str("  ");
        out.push_str(&text);
        out.push_str(";\n");
    };
    for (i, buffer) in schedule.buffers.iter().enumerate() {
        let (kind, _, number) = place(buffer);
        let (name, dtype, len) = (&buffer.name, buffer.dtype, buffer.len);
        let text = format!("{name}\n{dtype}[{len}] {kind} {number}");
        let shape = if kind == "parameter" { "cylinder" } else { "ellipse" };
        line(format!("b{i} [shape={shape}, label={}]", quoted(text.trim_start())));
    }
    for (i, step) in schedule.steps.iter().enumerate() {
        let mut text = format!("{i}: {}", label(step));
        if let Step::Kernel(k) = step {
            for op in &k.ops {
                text.push('\n');
                text.push_str(op.name());
            }
        }
        line(format!("s{i} [label={}]", quoted(&text)));
        let (reads, writes) = traffic(step);
        for b in reads {
            line(format!("b{} -> s{i}", b.0));
        }
        for b in writes {
            line(format!("s{i} -> b{}", b.0));
        }
    }
    out.push_str("}\n");
    out
}

fn list<T>(items: impl IntoIterator<Item = T>, show: impl FnMut(T) -> Value) -> Value {
    Value::Array(items.into_iter().map(show).collect())
}

fn axes(axes: &[Axis]) -> Value {
    list(axes, |a| json!({"id": a.id.0, "extent": a.extent}))
}

fn kernel(k: &Kernel, bodies: bool) -> Value {
    let mut value = json!({
        "kernel": k.name,
        "grid": axes(&k.grid),
        "vectorize": format!("{:?}", k.vectorize).to_lowercase(),
        "work_per_point": k.work_per_point,
        "ops": list(&k.ops, |op| json!(op.name())),
        "scratch": list(&k.scratch, |s| json!({"dtype": s.dtype.name(), "len": s.len})),
    });
    if bodies {
        value["stages"] = list(&k.stages, |s| {
            let body = list(&s.body, |i| json!({"op": i.op.to_string(), "dtype": i.dtype.name()}));
            json!({"axes": axes(&s.axes), "body": body})
        });
    }
    value
}

fn view(v: &BufferView) -> Value {
    json!({
        "buffer": v.buffer.0,
        "dtype": v.dtype.name(),
        "sizes": v.sizes.as_slice(),
        "strides": v.strides.as_slice(),
        "offset": v.offset,
    })
}

fn step(step: &Step, bodies: bool) -> Value {
    let mut value = match step {
        Step::Kernel(k) => kernel(k, bodies),
        Step::Extern(Extern::Matmul(m)) => json!({
            "extern": "matmul",
            "a": view(&m.a),
            "b": view(&m.b),
            "out": view(&m.out),
            "bias": m.bias.as_ref().map(view),
            "residual": m.residual.as_ref().map(view),
            "activation": format!("{:?}", m.activation).to_lowercase(),
            "pack_b": m.pack_b,
        }),
        Step::Extern(Extern::Convolution(c)) => json!({
            "extern": "convolution",
            "input": view(&c.input),
            "weight": view(&c.weight),
            "bias": c.bias.as_ref().map(view),
            "out": view(&c.out),
            "stride": c.stride.as_slice(),
            "padding": c.padding.as_slice(),
            "dilation": c.dilation.as_slice(),
            "groups": c.groups,
            "follow": list(&c.follow, |f| match f {
                Follow::Scale(v) => json!({"scale": view(v)}),
                Follow::Shift(v) => json!({"shift": view(v)}),
                Follow::Add(v) => json!({"add": view(v)}),
                Follow::Activation(a) => json!({"activation": format!("{a:?}").to_lowercase()}),
            }),
            "pack_weight": c.pack_weight,
            "fast_math": c.fast_math,
        }),
        Step::Extern(Extern::Op { op, inputs, outputs, .. }) => json!({
            "extern": op.name(),
            "inputs": list(inputs, view),
            "outputs": list(outputs, view),
        }),
    };
    let (reads, writes) = traffic(step);
    value["reads"] = list(reads, |b| json!(b.0));
    value["writes"] = list(writes, |b| json!(b.0));
    value
}

/// JSON: `{"buffers": [...], "steps": [...], "outputs": [...], "arena_bytes": n, "decisions":
/// [...]}`. With `bodies`, kernels have their loops and instructions.
pub(super) fn json(schedule: &Schedule, bodies: bool) -> Value {
    json!({
        "buffers": list(&schedule.buffers, |b| {
            let (kind, number_is, number) = place(b);
            json!({"name": b.name, "dtype": b.dtype.name(), "len": b.len, "kind": kind, number_is: number})
        }),
        "steps": list(&schedule.steps, |s| step(s, bodies)),
        "outputs": list(&schedule.outputs, |o: &OutputBinding| json!(o.to_string())),
        "arena_bytes": schedule.arena_bytes,
        "decisions": list(&schedule.decisions, |d| {
            json!({"node": d.node, "step": d.step, "reason": d.reason})
        }),
    })
}
