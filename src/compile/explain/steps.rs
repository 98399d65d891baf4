//! A plan on the page: its steps, its graph with the operators, and what a training saves.

use super::SavedExplanation;
use super::drawing::{PlanView, draw};
use super::graph::{NodeExplanation, NodeRole};
use super::markup::{Attributes, Markup};
use super::{StepExplanation, Work};
use std::fmt::Display;
use std::time::Duration;

/// A step with more operators than this has the rest folded away.
const SHOWN: usize = 6;

/// `1.5 MiB`.
pub(super) fn bytes(n: u64) -> String {
    const NAMES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut rest = n as f64;
    while rest >= 1024.0 && unit + 1 < NAMES.len() {
        rest /= 1024.0;
        unit += 1;
    }
    short(rest, NAMES[unit])
}

/// `393 k`, `1.2 M`.
fn count(n: u64) -> String {
    const NAMES: [&str; 5] = ["", "k", "M", "G", "T"];
    let mut unit = 0;
    let mut rest = n as f64;
    while rest >= 1000.0 && unit + 1 < NAMES.len() {
        rest /= 1000.0;
        unit += 1;
    }
    short(rest, NAMES[unit])
}

/// `12.3 µs`.
pub(super) fn time(of: Duration) -> String {
    const NAMES: [&str; 4] = ["ns", "\u{b5}s", "ms", "s"];
    let mut unit = 0;
    let mut rest = of.as_nanos() as f64;
    while rest >= 1000.0 && unit + 1 < NAMES.len() {
        rest /= 1000.0;
        unit += 1;
    }
    short(rest, NAMES[unit])
}

fn short(n: f64, unit: &str) -> String {
    let digits = usize::from(n < 100.0 && n.fract() != 0.0);
    format!("{n:.digits$} {unit}").trim_end().to_string()
}

/// A bar of a share of the largest.
pub(super) fn bar(m: &mut Markup, part: f64, largest: f64) {
    let share = if largest > 0.0 { (part / largest * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    let width = format!("--sl-w:{share:.1}%");
    m.element("span", &[("class", &"sl-bar"), ("style", &width)], |_| {});
}

/// What is in a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Text,
    Number,
}

/// A table in a box of its own, which scrolls if it is too wide or too high.
pub(super) fn table(
    m: &mut Markup,
    head: &[(&'static str, Column)],
    rows: impl FnOnce(&mut Markup),
) {
    m.element("div", &[("class", &"sl-box"), ("tabindex", &0)], |m| {
        m.element("table", &[], |m| {
            m.element("thead", &[], |m| {
                m.element("tr", &[], |m| {
                    for (name, column) in head {
                        let class = if *column == Column::Number { "sl-n" } else { "" };
                        m.leaf("th", &[("scope", &"col"), ("class", &class)], name);
                    }
                });
            });
            m.element("tbody", &[], rows);
        });
    });
}

fn number(m: &mut Markup, text: impl Display) {
    m.leaf("td", &[("class", &"sl-n")], text);
}

/// The number of a step in its colour.
fn badge(m: &mut Markup, plan: PlanView<'_>, step: usize) {
    let class = format!("sl-step {}", plan.class(step));
    m.leaf("span", &[("class", &class), ("style", &plan.hue(step))], step);
}

/// What a step moves and computes in a second.
fn rate(work: Work, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds <= 0.0 {
        return String::new();
    }
    let moved = count(((work.read + work.written) as f64 / seconds) as u64);
    match work.operations {
        0 => format!("{moved}B/s"),
        n => format!("{moved}B/s, {}op/s", count((n as f64 / seconds) as u64)),
    }
}

fn operators(m: &mut Markup, of: &[String]) {
    let (first, rest) = of.split_at(of.len().min(SHOWN));
    m.leaf("code", &[], first.join(" "));
    if !rest.is_empty() {
        m.details(false, format!("{} more", rest.len()), |m| m.leaf("code", &[], rest.join(" ")));
    }
}

/// The steps of a plan, with what was predicted and what was measured.
fn step_table(m: &mut Markup, plan: PlanView<'_>) {
    let measured = plan.runs > 0;
    let largest = plan.steps.iter().filter_map(|s| s.time).max().unwrap_or_default();
    let mut head = vec![("step", Column::Text), ("name", Column::Text), ("took", Column::Text)];
    if measured {
        head.push(("rate", Column::Number));
    }
    head.extend(["reads", "writes", "operations"].map(|name| (name, Column::Number)));
    head.push(("operators", Column::Text));
    table(m, &head, |m| {
        for (at, s) in plan.steps.iter().enumerate() {
            let attributes: Attributes<'_> = &[("data-step", &at), ("tabindex", &0)];
            m.element("tr", attributes, |m| step_row(m, plan, at, s, largest));
        }
    });
}

fn step_row(m: &mut Markup, plan: PlanView<'_>, at: usize, s: &StepExplanation, largest: Duration) {
    m.element("td", &[], |m| badge(m, plan, at));
    m.element("td", &[], |m| {
        m.leaf("code", &[], &s.name);
        let kind = if s.generated { "kernel" } else { "extern" };
        m.leaf("div", &[("class", &"sl-muted")], kind);
    });
    match s.time {
        None => m.leaf("td", &[("class", &"sl-muted")], "not measured"),
        Some(took) => m.element("td", &[("class", &"sl-took")], |m| {
            m.leaf("span", &[], time(took));
            bar(m, took.as_secs_f64(), largest.as_secs_f64());
        }),
    }
    if plan.runs > 0 {
        number(m, s.time.map_or(String::new(), |took| rate(s.work, took)));
    }
    number(m, bytes(s.work.read));
    number(m, bytes(s.work.written));
    match s.work.operations {
        0 => number(m, "unknown"),
        n => number(m, count(n)),
    }
    m.element("td", &[("class", &"sl-ops")], |m| operators(m, &s.ops));
}

fn node_row(m: &mut Markup, plan: PlanView<'_>, at: usize, node: &NodeExplanation) {
    let step = node.step.map(|s| s.to_string());
    let mut attributes: Vec<(&'static str, &dyn Display)> = vec![("data-node", &at)];
    if let Some(step) = &step {
        attributes.push(("data-step", step));
    }
    m.element("tr", &attributes, |m| {
        m.element("td", &[("title", &node.text)], |m| {
            m.leaf("code", &[], &node.op);
            for (name, shape) in node.names.iter().zip(&node.shapes) {
                m.element("div", &[("class", &"sl-muted")], |m| {
                    m.leaf("code", &[], format!("{name}: {shape}"));
                });
            }
        });
        m.element("td", &[], |m| {
            if let Some(step) = node.step {
                badge(m, plan, step);
            }
        });
        m.element("td", &[("class", &"sl-why")], |m| {
            m.text(&node.reason);
            if let Some(at) = &node.location {
                m.leaf("div", &[("class", &"sl-muted")], at);
            }
        });
    });
}

/// What the colours mean.
fn legend(m: &mut Markup) {
    let entries = [
        ("sl-kernel", "--sl-h:210", "generated kernel, a colour for each"),
        ("sl-extern", "--sl-h:32", "call of a runtime kernel (extern)"),
        ("sl-view", "", "in no step: a view, or known without computing"),
        ("sl-given", "", "argument, closed-over tensor, constant"),
        ("sl-far", "", "a value from further up"),
    ];
    m.element("ul", &[("class", &"sl-legend")], |m| {
        for (class, hue, text) in entries {
            m.element("li", &[], |m| {
                let class = format!("sl-swatch {class}");
                m.element("span", &[("class", &class), ("style", &hue)], |_| {});
                m.text(text);
            });
        }
    });
}

/// A plan: its steps, then its graph beside the operators with the decisions.
pub(super) fn plan(m: &mut Markup, plan: PlanView<'_>) {
    m.element("div", &[("class", &"sl-plan")], |m| {
        let sum: Duration = plan.steps.iter().filter_map(|s| s.time).sum();
        let predicted = "Bytes and operations are predicted from sizes.";
        let clock = "each with some tens of nanoseconds of the clock itself";
        let sum = time(sum);
        let said = match plan.runs {
            0 => format!("{predicted} Time was not measured."),
            1 => format!("{predicted} Times are those of one call, {sum} together, {clock}."),
            n => format!("{predicted} Times are medians of {n} calls, {sum} together, {clock}."),
        };
        m.leaf("p", &[("class", &"sl-muted")], said);
        match plan.steps.is_empty() {
            true => m.leaf("p", &[], "There is nothing to run: results are arguments or known."),
            false => step_table(m, plan),
        }
        if plan.graph.nodes.is_empty() {
            return;
        }
        let calls = plan.graph.nodes.iter().filter(|n| n.role == NodeRole::Call).count();
        m.leaf("h4", &[], format!("Graph: {calls} operators as they were scheduled"));
        legend(m);
        m.element("div", &[("class", &"sl-two")], |m| {
            m.element("div", &[("class", &"sl-drawing"), ("tabindex", &0)], |m| draw(m, plan));
            m.element("div", &[("class", &"sl-nodes")], |m| {
                let head = ["operator", "step", "why it went there"];
                table(m, &head.map(|name| (name, Column::Text)), |m| {
                    let nodes = || plan.graph.nodes.iter().enumerate();
                    let calls = nodes().filter(|(_, n)| n.role == NodeRole::Call);
                    let given =
                        |n: &NodeExplanation| !matches!(n.role, NodeRole::Call | NodeRole::Output);
                    for (at, node) in calls.chain(nodes().filter(|(_, n)| given(n))) {
                        node_row(m, plan, at, node);
                    }
                });
            });
        });
    });
}

/// Values that a backward pass uses.
pub(super) fn saved(m: &mut Markup, of: &[SavedExplanation]) {
    if of.is_empty() {
        m.leaf("p", &[("class", &"sl-muted")], "Nothing.");
        return;
    }
    let sum: usize = of.iter().map(|s| s.bytes).sum();
    m.leaf("p", &[("class", &"sl-muted")], format!("{} together.", bytes(sum as u64)));
    let text = ["value", "type"].map(|name| (name, Column::Text));
    let head = [&text[..], &[("size", Column::Number), ("why", Column::Text)]].concat();
    table(m, &head, |m| {
        for s in of {
            m.element("tr", &[], |m| {
                m.element("td", &[], |m| m.leaf("code", &[], &s.name));
                m.element("td", &[], |m| m.leaf("code", &[], &s.shape));
                number(m, bytes(s.bytes as u64));
                m.leaf("td", &[], &s.why);
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_short() {
        let shown = [bytes(12), bytes(1536), bytes(3 << 20), count(393_216), count(999)];
        assert_eq!(shown, ["12 B", "1.5 KiB", "3 MiB", "393 k", "999"]);
        let times = [0, 850, 12_345, 2_000_000, 3_000_000_000].map(Duration::from_nanos);
        assert_eq!(times.map(time), ["0 ns", "850 ns", "12.3 \u{b5}s", "2 ms", "3 s"]);
    }
}
