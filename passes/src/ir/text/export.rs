//! A graph for other programs: Graphviz and JSON.

use super::print::{ValueNames, display_node};
use crate::ir::Effects;
use crate::ir::Scalar;
use crate::ir::graph::{Constant, Graph, NodeKind, ValueRef};
use crate::ir::{Arg, TensorMeta};
use std::fmt::Write;

/// Graphviz.
pub(super) fn dot(graph: &Graph) -> String {
    let names = ValueNames::new(graph);
    let mut out =
        String::from("digraph graph_ {\n  rankdir=TB;\n  node [shape=box, fontname=monospace];\n");
    for &id in names.order() {
        let node = graph.node(id);
        let (shape, label) = match &node.kind {
            NodeKind::Input => ("ellipse", display_node(graph, &names, id)),
            NodeKind::Parameter => ("cylinder", display_node(graph, &names, id)),
            NodeKind::Constant(_) => ("plain", display_node(graph, &names, id)),
            NodeKind::Output => ("ellipse", "return".to_string()),
            NodeKind::Call(call) => {
                let results: Vec<String> = (node.results.iter().enumerate())
                    .map(|(i, meta)| {
                        let value = ValueRef { node: id, index: i as u32 };
                        format!("{}: {meta}", names.get(value))
                    })
                    .collect();
                ("box", format!("{}\n{}", call.op, results.join("\n")))
            }
        };
        let _ = writeln!(out, "  n{} [shape={shape}, label={}];", id.index(), string(&label));
    }
    for &id in names.order() {
        for (position, v) in graph.operands(id).iter().enumerate() {
            let _ = writeln!(
                out,
                "  n{} -> n{} [label={}];",
                v.node.index(),
                id.index(),
                string(&format!("{position}"))
            );
        }
    }
    out.push_str("}\n");
    out
}

/// A JSON string, which is also a Graphviz one.
fn string(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn list<T>(items: impl IntoIterator<Item = T>, show: impl FnMut(T) -> String) -> String {
    let items: Vec<String> = items.into_iter().map(show).collect();
    format!("[{}]", items.join(","))
}

/// JSON has no infinities and no NaN: those become strings.
fn number(s: Scalar) -> String {
    match s {
        Scalar::Float(x) if !x.is_finite() => string(&s.to_string()),
        Scalar::Complex(..) => string(&s.to_string()),
        s => s.to_string(),
    }
}

fn meta(m: &TensorMeta) -> String {
    format!(
        "\"dtype\":{},\"sizes\":{},\"strides\":{},\"device\":{}",
        string(m.dtype.name()),
        list(&m.sizes, i64::to_string),
        list(&m.strides, i64::to_string),
        string(&m.device.to_string()),
    )
}

fn arg(a: &Arg<ValueRef>, names: &ValueNames) -> String {
    let value = |v: &ValueRef| string(names.get(*v));
    match a {
        Arg::None => "null".to_string(),
        Arg::Tensor(v) => value(v),
        Arg::Tensors(vs) => list(vs, |v| v.as_ref().map_or("null".to_string(), value)),
        Arg::Scalar(s) => number(*s),
        Arg::Ints(v) => list(v, i64::to_string),
        Arg::Floats(v) => list(v, |x| number(Scalar::Float(*x))),
        Arg::Bools(v) => list(v, bool::to_string),
        Arg::Str(s) => string(s),
        Arg::DType(d) => string(d.name()),
        Arg::Device(d) => string(&d.to_string()),
        Arg::Layout(l) => string(l.name()),
        Arg::MemoryFormat(m) => string(&m.to_string()),
        Arg::Graph(g) => g.get::<Graph>().map_or_else(|| string(&g.to_string()), json),
    }
}

/// JSON: `{"inputs": [...], "parameters": [...], "nodes": [...], "outputs": [...]}`. A node has
/// `op`, `args` (name and value; tensors as `"%name"`), `results`, its `effects` where it has any,
/// and its provenance.
pub(super) fn json(graph: &Graph) -> String {
    let names = ValueNames::new(graph);
    let value = |v: ValueRef| {
        let m = graph.meta(v);
        format!("{{\"name\":{},{}}}", string(names.get(v)), meta(m))
    };
    let calls = (names.order().iter()).filter_map(|&id| {
        let node = graph.node(id);
        let results =
            list(0..node.results.len() as u32, |index| value(ValueRef { node: id, index }));
        let mut fields = vec![format!("\"results\":{results}")];
        match &node.kind {
            NodeKind::Call(_) => {
                let (op, args) = graph.call_args(id)?;
                let args = list(op.schema().args.iter().zip(&args), |(of, a)| {
                    let name = string(&of.name);
                    format!("{{\"name\":{name},\"value\":{}}}", arg(a, &names))
                });
                fields.insert(0, format!("\"op\":{}", string(op.name())));
                fields.insert(1, format!("\"args\":{args}"));
            }
            NodeKind::Constant(Constant::Splat(s)) => {
                fields.insert(0, format!("\"op\":\"constant\",\"splat\":{}", number(*s)));
            }
            NodeKind::Constant(Constant::Elements(v)) => {
                let elements = list(v, |s| number(*s));
                fields.insert(0, format!("\"op\":\"constant\",\"elements\":{elements}"));
            }
            _ => return None,
        }
        let from = &node.provenance;
        if graph.effects(id) != Effects::PURE {
            let names = string(&graph.effects(id).to_string());
            fields.push(format!("\"effects\":{names}"));
        }
        if let Some(line) = &from.location {
            fields.push(format!("\"location\":{}", string(&line.to_string())));
        }
        if let Some(op) = &from.outer_op {
            fields.push(format!("\"outer_op\":{}", string(op.name())));
        }
        Some(format!("{{{}}}", fields.join(",")))
    });
    format!(
        "{{\"inputs\":{},\"parameters\":{},\"nodes\":{},\"outputs\":{}}}",
        list(graph.inputs(), |n| value((*n).into())),
        list(graph.parameters(), |n| value((*n).into())),
        list(calls, |c| c),
        list(graph.outputs(), |v| string(names.get(*v))),
    )
}
