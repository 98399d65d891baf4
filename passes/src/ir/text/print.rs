//! A graph to text.

use super::lex::is_name_char;
use crate::ir::Arg;
use crate::ir::Scalar;
use crate::ir::graph::{Constant, Graph, Node, NodeId, NodeKind, ValueRef};
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display, Formatter, Write};

/// Whether a name is all digits, as those of unnamed values are.
pub(super) fn is_number(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a node's name can only be written in quotes.
pub(super) fn needs_quotes(name: &str) -> bool {
    is_number(name) || !name.chars().all(is_name_char)
}

/// The printed name of every value of a graph, percent sign included.
///
/// Names are unique: where two nodes share one, the later gets a suffix.
#[derive(Clone, Debug)]
pub struct ValueNames {
    names: HashMap<ValueRef, String>,
    order: Vec<NodeId>,
}

impl ValueNames {
    /// Names the values of a graph.
    pub fn new(graph: &Graph) -> ValueNames {
        let mut order = graph.topological();
        if order.len() != graph.raw().node_count() {
            // a cycle: every node still gets a name, so that the verifier can point at it
            order = graph.raw().node_indices().collect();
        }
        let mut names = HashMap::new();
        let mut taken: HashSet<String> = HashSet::new();
        let mut number = 0;
        let heads = graph.inputs().iter().chain(graph.parameters());
        let is_head =
            |n: &NodeId| matches!(graph.node(*n).kind, NodeKind::Input | NodeKind::Parameter);
        let rest = order.iter().filter(|n| !is_head(n));
        for &id in heads.filter(|n| graph.contains(**n)).chain(rest) {
            let node = graph.node(id);
            for index in 0..node.results.len() as u32 {
                let name = match &node.name {
                    Some(name) => {
                        let mut base = name.to_string();
                        if index > 0 {
                            let _ = write!(base, ".{index}");
                        }
                        let mut unique = base.clone();
                        let mut suffix = 1;
                        while !taken.insert(unique.clone()) {
                            suffix += 1;
                            unique = format!("{base}_{suffix}");
                        }
                        if needs_quotes(&unique) {
                            format!("%\"{}\"", unique.escape_default())
                        } else {
                            format!("%{unique}")
                        }
                    }
                    None => {
                        number += 1;
                        format!("%{}", number - 1)
                    }
                };
                names.insert(ValueRef { node: id, index }, name);
            }
        }
        ValueNames { names, order }
    }

    /// A value's name; `%?` for a value that does not exist.
    pub fn get(&self, value: ValueRef) -> &str {
        self.names.get(&value).map_or("%?", String::as_str)
    }

    /// The nodes in the order in which they print.
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }
}

fn joined<T: Display>(
    f: &mut Formatter<'_>,
    items: impl IntoIterator<Item = T>,
    separator: &str,
) -> fmt::Result {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

impl Display for Constant {
    /// `2.5`, or `[1, 2]` for a list of elements.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Constant::Splat(s) => write!(f, "{s}"),
            Constant::Elements(v) => {
                f.write_char('[')?;
                joined(f, v, ", ")?;
                f.write_char(']')
            }
        }
    }
}

/// An argument; tensors by the names that `name` gives them.
fn fmt_arg<V>(f: &mut Formatter<'_>, arg: &Arg<V>, name: &dyn Fn(&V) -> String) -> fmt::Result {
    fn list<T: Display>(f: &mut Formatter<'_>, kind: &str, items: &[T]) -> fmt::Result {
        if items.is_empty() {
            f.write_str(kind)?;
        }
        f.write_char('[')?;
        joined(f, items, ", ")?;
        f.write_char(']')
    }
    match arg {
        Arg::None => f.write_str("none"),
        Arg::Tensor(v) => f.write_str(&name(v)),
        Arg::Tensors(vs) => {
            let show = |v: &Option<V>| v.as_ref().map_or("none".to_string(), name);
            f.write_char('[')?;
            joined(f, vs.iter().map(show), ", ")?;
            f.write_char(']')
        }
        Arg::Scalar(s) => write!(f, "{s}"),
        Arg::Ints(v) => {
            f.write_char('[')?;
            joined(f, v, ", ")?;
            f.write_char(']')
        }
        Arg::Floats(v) => {
            let v: Vec<Scalar> = v.iter().map(|x| Scalar::Float(*x)).collect();
            list(f, "floats", &v)
        }
        Arg::Bools(v) => list(f, "bools", v),
        Arg::Str(s) => {
            f.write_char('"')?;
            write!(f, "{}", s.escape_default())?;
            f.write_char('"')
        }
        Arg::DType(d) => write!(f, "{d}"),
        Arg::Device(d) => write!(f, "{d}"),
        Arg::Layout(l) => f.write_str(l.name()),
        Arg::MemoryFormat(m) => write!(f, "{m}"),
        // its lines are those of a call within another graph
        Arg::Graph(g) => f.write_str(&g.to_string().trim_end().replace('\n', "\n  ")),
    }
}

/// One line of the graph's body, without indentation.
struct NodeLine<'a> {
    graph: &'a Graph,
    names: &'a ValueNames,
    id: NodeId,
}

impl NodeLine<'_> {
    fn node(&self) -> &Node {
        self.graph.node(self.id)
    }

    fn results(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let named = self.node().results.iter().enumerate().map(|(index, meta)| {
            let value = ValueRef { node: self.id, index: index as u32 };
            format!("{}: {meta}", self.names.get(value))
        });
        joined(f, named, ", ")
    }
}

impl Display for NodeLine<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let operands = self.graph.operands(self.id);
        match &self.node().kind {
            NodeKind::Input => self.results(f),
            NodeKind::Parameter => {
                f.write_str("param ")?;
                self.results(f)
            }
            NodeKind::Constant(c) => {
                self.results(f)?;
                write!(f, " = constant {c}")
            }
            NodeKind::Output => {
                f.write_str("return")?;
                for (i, v) in operands.iter().enumerate() {
                    let separator = if i == 0 { " " } else { ", " };
                    write!(f, "{separator}{}", self.names.get(*v))?;
                }
                Ok(())
            }
            NodeKind::Call(call) => {
                self.results(f)?;
                if !self.node().results.is_empty() {
                    f.write_str(" = ")?;
                }
                write!(f, "{}(", call.op)?;
                let name = |i: &u32| {
                    let value = operands.get(*i as usize);
                    value.map_or("%?", |v| self.names.get(*v)).to_string()
                };
                for (i, (arg, of)) in call.args.iter().zip(&call.op.schema().args).enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    if !matches!(arg, Arg::Tensor(_) | Arg::Tensors(_)) {
                        write!(f, "{}=", of.name)?;
                    }
                    fmt_arg(f, arg, &name)?;
                }
                f.write_char(')')?;
                if call.effects != call.op.effects(&call.args, &self.node().results) {
                    for name in call.effects.to_string().split(' ') {
                        write!(f, " !{name}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// One node as its line of the graph's text, for messages.
pub fn display_node(graph: &Graph, names: &ValueNames, id: NodeId) -> String {
    NodeLine { graph, names, id }.to_string()
}

/// Prints a graph; made by [`Graph::display`].
///
/// ```
/// use straightline_passes::ir::graph::Graph;
/// let mut graph =
///     Graph::parse("graph(%x: f32[2]) { %y: f32[2] = aten::relu(%x) return %y }").unwrap();
/// let y = graph.outputs()[0];
/// graph.node_mut(y.node).provenance.location = Some("src/main.rs:3:5".into());
/// let text = graph.display().with_provenance().to_string();
/// assert!(text.contains("%y: f32[2] = aten::relu(%x)  // src/main.rs:3:5"));
/// ```
#[derive(Clone, Debug)]
pub struct DisplayGraph<'a> {
    graph: &'a Graph,
    provenance: bool,
}

impl<'a> DisplayGraph<'a> {
    pub(super) fn new(graph: &'a Graph) -> DisplayGraph<'a> {
        DisplayGraph { graph, provenance: false }
    }

    /// Adds a comment to each line with the source line and the operator of the user that it comes
    /// from.
    #[must_use]
    pub fn with_provenance(mut self) -> Self {
        self.provenance = true;
        self
    }
}

impl Display for DisplayGraph<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = &ValueNames::new(self.graph);
        let line = |id| NodeLine { graph: self.graph, names, id };
        f.write_str("graph(")?;
        let heads = self.graph.inputs().iter().chain(self.graph.parameters());
        joined(f, heads.map(|id| line(*id)), ", ")?;
        f.write_str(") {\n")?;
        let mut output = None;
        for &id in names.order() {
            let node = self.graph.node(id);
            match node.kind {
                NodeKind::Input | NodeKind::Parameter => continue,
                NodeKind::Output => {
                    output = Some(id);
                    continue;
                }
                _ => write!(f, "  {}", line(id))?,
            }
            let from = &node.provenance;
            if self.provenance && (from.location.is_some() || from.outer_op.is_some()) {
                f.write_str("  //")?;
                if let Some(line) = &from.location {
                    write!(f, " {line}")?;
                }
                if let Some(op) = &from.outer_op {
                    write!(f, " {op}")?;
                }
            }
            f.write_char('\n')?;
        }
        if let Some(id) = output {
            writeln!(f, "  {}", line(id))?;
        }
        f.write_str("}\n")
    }
}
