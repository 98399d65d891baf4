//! The graph as SVG: a box for each operator in the colour of its step, a line for each value.

use super::graph::{GraphExplanation, NodeExplanation, NodeRole, Operand};
use super::layout::{HEIGHT, Layout, Sketch, layout, ranks};
use super::markup::Markup;
use super::{StepExplanation, VariantExplanation};
use std::collections::HashMap;
use std::fmt::Write;

/// A value that is read so many layers below is not drawn as a line, but named where it is read.
const FAR: usize = 12;
/// The same of what the function is given.
const FAR_OF_GIVEN: usize = 3;
/// The width of a character, and what is around the text of a box.
const CHARACTER: f64 = 6.7;
const AROUND: f64 = 16.0;
/// Longer texts are cut in the drawing; the whole is in the title of the box.
const LONGEST: usize = 34;

/// A plan as it is shown: the forward one of a variant, or the backward one.
#[derive(Clone, Copy)]
pub(super) struct PlanView<'a> {
    pub(super) graph: &'a GraphExplanation,
    pub(super) steps: &'a [StepExplanation],
    pub(super) runs: usize,
}

impl<'a> PlanView<'a> {
    pub(super) fn forward(of: &'a VariantExplanation) -> PlanView<'a> {
        PlanView { graph: &of.graph, steps: &of.steps, runs: of.runs }
    }

    pub(super) fn backward(of: &'a VariantExplanation) -> PlanView<'a> {
        PlanView { graph: &of.backward_graph, steps: &of.backward, runs: of.backward_runs }
    }

    /// Whether a step is generated code.
    fn is_generated(&self, step: usize) -> bool {
        self.steps.get(step).is_some_and(|s| s.generated)
    }

    /// The hue of a step, for the style: cool ones are generated code, warm ones runtime kernels.
    pub(super) fn hue(&self, step: usize) -> String {
        let hue = match self.is_generated(step) {
            true => 150 + step * 47 % 170,
            false => 18 + step * 17 % 40,
        };
        format!("--sl-h:{hue}")
    }

    /// The class of what belongs to a step.
    pub(super) fn class(&self, step: usize) -> &'static str {
        if self.is_generated(step) { "sl-kernel" } else { "sl-extern" }
    }
}

/// A box of the drawing: a node, or the name of a value from further up.
struct Drawn {
    node: usize,
    /// Which result, if it only stands for it.
    stands_for: Option<usize>,
}

/// The boxes, and the lines between them with the values that they are.
#[derive(Default)]
struct Boxes {
    all: Vec<Drawn>,
    /// What does not depend on the arguments: it is drawn where it is used.
    low: Vec<bool>,
    edges: Vec<(usize, usize)>,
    values: Vec<Operand>,
}

fn boxes(graph: &GraphExplanation) -> Boxes {
    let nodes = &graph.nodes;
    let reads = |(to, node): (usize, &NodeExplanation)| -> Vec<(usize, usize)> {
        node.inputs.iter().map(|of| (of.node, to)).collect()
    };
    let all: Vec<(usize, usize)> = nodes.iter().enumerate().flat_map(reads).collect();
    let mut low = Vec::with_capacity(nodes.len());
    for node in nodes {
        let reads = |of: &Operand| low.get(of.node) != Some(&false);
        low.push(node.role != NodeRole::Input && node.inputs.iter().all(reads));
    }
    let ranks = ranks(&low, &all);
    let mut boxes = Boxes::default();
    let mut own = vec![0; nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        let mut sources: Vec<(usize, Operand)> = Vec::new();
        let mut far: HashMap<(usize, usize), usize> = HashMap::new();
        for of in node.inputs.iter().filter(|of| of.node < at) {
            let far_off = match nodes[of.node].role {
                NodeRole::Call => FAR,
                _ => FAR_OF_GIVEN,
            };
            let source = if ranks[at].saturating_sub(ranks[of.node]) <= far_off {
                own[of.node]
            } else {
                *far.entry((of.node, of.result)).or_insert_with(|| {
                    boxes.all.push(Drawn { node: of.node, stands_for: Some(of.result) });
                    boxes.low.push(true);
                    boxes.all.len() - 1
                })
            };
            let drawn = |(from, other): &(usize, Operand)| *from == source && other == of;
            if !sources.iter().any(drawn) {
                sources.push((source, *of));
            }
        }
        own[at] = boxes.all.len();
        boxes.all.push(Drawn { node: at, stands_for: None });
        boxes.low.push(low[at]);
        for (from, value) in sources {
            boxes.edges.push((from, own[at]));
            boxes.values.push(value);
        }
    }
    boxes
}

/// At most [`LONGEST`] characters.
fn cut(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_string();
    }
    let head: String = text.chars().take(LONGEST - 1).collect();
    format!("{head}\u{2026}")
}

/// The two lines of a box.
fn lines(node: &NodeExplanation, stands_for: Option<usize>) -> (String, String) {
    if let Some(result) = stands_for {
        let name = node.names.get(result).map_or("%?", String::as_str);
        let shape = node.shapes.get(result).map_or("", String::as_str);
        return (cut(&format!("\u{2191} {name}")), cut(shape));
    }
    let name = node.names.first().map_or("", String::as_str);
    let op = node.op.strip_prefix("aten::").unwrap_or(&node.op);
    let mut shape = node.shapes.first().cloned().unwrap_or_default();
    if node.shapes.len() > 1 {
        let _ = write!(shape, " +{}", node.shapes.len() - 1);
    }
    if let Some(step) = node.step {
        let _ = write!(shape, " \u{b7} step {step}");
    }
    (cut(format!("{name} {op}").trim()), cut(&shape))
}

/// The value of an edge, `%3: f32[4, 8]`.
fn value(graph: &GraphExplanation, of: Operand) -> String {
    let node = graph.nodes.get(of.node);
    let name = node.and_then(|n| n.names.get(of.result)).map_or("%?", String::as_str);
    let shape = node.and_then(|n| n.shapes.get(of.result)).map_or("", String::as_str);
    format!("{name}: {shape}")
}

/// A line through places, straight down within a layer and curved between two.
fn path(points: &[(f64, f64)]) -> String {
    let mut d = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        // writing to a string does not fail
        let _ = match i {
            0 => write!(d, "M{x:.1} {y:.1}"),
            i if i % 2 == 0 => write!(d, "V{y:.1}"),
            i => {
                let (above, from) = points[i - 1];
                let middle = (from + y) / 2.0;
                write!(d, "C{above:.1} {middle:.1} {x:.1} {middle:.1} {x:.1} {y:.1}")
            }
        };
    }
    d
}

/// Draws a plan's graph.
pub(super) fn draw(m: &mut Markup, plan: PlanView<'_>) {
    let nodes = &plan.graph.nodes;
    let boxes = boxes(plan.graph);
    let texts: Vec<(String, String)> =
        boxes.all.iter().map(|b| lines(&nodes[b.node], b.stands_for)).collect();
    let width = |(first, second): &(String, String)| {
        let longest = first.chars().count().max(second.chars().count());
        (longest as f64 * CHARACTER + AROUND).ceil()
    };
    let widths: Vec<f64> = texts.iter().map(width).collect();
    let sketch = Sketch { widths, low: boxes.low, edges: boxes.edges };
    let Layout { corners, paths, width, height } = layout(&sketch);
    let (width, height) = (width.ceil(), height.ceil());
    let of = format!("the graph, {} nodes", nodes.len());
    let window = format!("0 0 {width} {height}");
    let attributes: &[(&'static str, &dyn std::fmt::Display)] = &[
        ("width", &width),
        ("height", &height),
        ("viewBox", &window),
        ("role", &"img"),
        ("aria-label", &of),
    ];
    m.element("svg", attributes, |m| {
        for ((path_of, (from, _)), of) in paths.iter().zip(&sketch.edges).zip(&boxes.values) {
            let far = boxes.all[*from].stands_for.is_some();
            let class = if far { "sl-edge sl-far" } else { "sl-edge" };
            m.element("path", &[("class", &class), ("d", &path(path_of))], |m| {
                m.leaf("title", &[], value(plan.graph, *of));
            });
        }
        for (at, drawn) in boxes.all.iter().enumerate() {
            draw_box(m, plan, drawn, &texts[at], corners[at], sketch.widths[at]);
        }
    });
}

fn draw_box(
    m: &mut Markup,
    plan: PlanView<'_>,
    drawn: &Drawn,
    (first, second): &(String, String),
    (x, y): (f64, f64),
    width: f64,
) {
    let node = &plan.graph.nodes[drawn.node];
    let stands = drawn.stands_for.is_some();
    let kind = match (stands, node.step, node.role) {
        (true, ..) => "sl-far",
        (_, Some(step), _) => plan.class(step),
        (_, None, NodeRole::Call) => "sl-view",
        (_, None, NodeRole::Output) => "sl-out",
        (_, None, _) => "sl-given",
    };
    let class = format!("sl-node {kind}");
    let at = format!("translate({x:.1} {y:.1})");
    let (step, hue) = match node.step.filter(|_| !stands) {
        Some(step) => (Some(step.to_string()), plan.hue(step)),
        None => (None, String::new()),
    };
    let mut attributes: Vec<(&'static str, &dyn std::fmt::Display)> =
        vec![("class", &class), ("transform", &at)];
    if !stands {
        attributes.push(("data-node", &drawn.node));
    }
    if let Some(step) = &step {
        attributes.extend([("data-step", step as &dyn std::fmt::Display), ("style", &hue)]);
    }
    let round = if kind == "sl-extern" { 1 } else { 7 };
    m.element("g", &attributes, |m| {
        let mut title = node.text.clone();
        if let Some(step) = plan.steps.get(node.step.unwrap_or(usize::MAX)) {
            let _ = write!(title, "\nstep {}: {}", node.step.unwrap_or(0), step.name);
        }
        for more in [&node.reason, node.location.as_ref().unwrap_or(&String::new())] {
            if !more.is_empty() {
                title.push('\n');
                title.push_str(more);
            }
        }
        m.leaf("title", &[], title);
        m.empty("rect", &[("width", &width), ("height", &HEIGHT), ("rx", &round)]);
        let middle = width / 2.0;
        let line = if second.is_empty() { 21 } else { 14 };
        m.leaf("text", &[("x", &middle), ("y", &line)], first);
        if !second.is_empty() {
            m.leaf("text", &[("x", &middle), ("y", &27), ("class", &"sl-shape")], second);
        }
    });
}
