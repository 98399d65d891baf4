//! Rewriting: equality saturation over the graph.
//!
//! [`rewrite`] takes a captured graph to an equal one that is better to compile:
//!
//! - **decompose** turns composite operators (`addmm`, softmax, layer norm, activations ...) into
//!   the primitives that the scheduler lowers to loops;
//! - **simplify** applies algebra that is exact in floating point, NaN, infinities and the sign of
//!   zero included;
//! - **fast math** applies algebra that is not, and is off unless asked for.
//!
//! Each rule set is a table ([`rule::Rule`]), one file per family, with a law in English per rule.
//! Rules are added to an e-graph (crate `egg`), where every value keeps all the forms found for it
//! and equal calls are one by construction; then the cheapest form of each value is extracted. So
//! common subexpressions and dead code need no passes of their own.
//!
//! The graph's value semantics hold throughout: an output is a value, not a buffer. `clone(x)` is
//! `x`; a graph may come out returning an input, or one value twice, and whoever allocates outputs
//! copies.
//!
//! ```
//! use straightline_passes::ir::graph::Graph;
//! use straightline_passes::rewrite::{RewriteOptions, rewrite};
//! let graph = Graph::parse("
//! graph(%x: f32[2,3], %w: f32[3,4], %b: f32[4]) {
//!   %0: f32[2,4] = aten::addmm(%b, %x, %w, beta=1, alpha=1)
//!   %1: f32[2,4] = aten::mul.Scalar(%0, other=1)
//!   return %1
//! }").unwrap();
//! let (better, report) = rewrite(&graph, &RewriteOptions::default()).unwrap();
//! assert_eq!(better.to_string(), "\
//! graph(%x: f32[2,3], %w: f32[3,4], %b: f32[4]) {
//!   %0: f32[2,4] = aten::mm(%x, %w)
//!   %1: f32[2,4] = aten::add.Tensor(%0, %b, alpha=1)
//!   return %1
//! }
//! ");
//! assert_eq!(report.count("mul_one"), 1);
//! ```

mod analysis;
mod build;
mod convert;
mod cost;
mod decompose;
mod extract;
mod fast_math;
mod language;
mod options;
mod registry;
mod report;
pub mod rule;
mod saturate;
mod simplify;
mod site;
#[cfg(test)]
mod tests;

pub(crate) use decompose::{is_mean, reduced};
pub use options::RewriteOptions;
pub use registry::{all_rules, rules_for};
pub use report::{RewriteReport, StopReason};
pub use site::{Producer, Site};

use crate::ir::graph::Graph;
use crate::ir::verify::{VerifyErrors, verify};
use std::time::Instant;

/// Why a graph was not rewritten.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RewriteError {
    /// The graph given breaks the verifier's rules.
    #[error("cannot rewrite: {0}")]
    Invalid(#[source] VerifyErrors),
    /// The graph made does: a mistake in a rule.
    #[error("a rewrite rule is wrong: {0}")]
    BrokenRule(#[source] VerifyErrors),
}

/// Rewrites a graph, and the graphs that its calls are given. Inputs and parameters stay, in their order; names and provenance go to what
/// replaces a node.
///
/// # Errors
///
/// [`RewriteError::Invalid`] where the graph is malformed. Operators that no rule knows are no
/// error: they stay as they are.
pub fn rewrite(
    graph: &Graph,
    options: &RewriteOptions,
) -> Result<(Graph, RewriteReport), RewriteError> {
    verify(graph).map_err(RewriteError::Invalid)?;
    let begin = Instant::now();
    let (mut egraph, roots) = convert::build(graph);
    let built = Instant::now();
    let outcome = saturate::saturate(&mut egraph, options);
    let saturated = Instant::now();
    let choice = extract::extract(&egraph, |call| saturate::is_composite(options, call));
    let mut result = convert::emit(graph, &egraph, &roots, &choice);
    let mut inside: Vec<RewriteReport> = Vec::new();
    result.map_subgraphs(|body| {
        let (body, report) = rewrite(body, options)?;
        inside.push(report);
        Ok(body)
    })?;
    let extracted = Instant::now();
    verify(&result).map_err(RewriteError::BrokenRule)?;
    let mut report = RewriteReport {
        stop: outcome.stop,
        iterations: outcome.iterations,
        nodes: saturate::count_nodes(&egraph),
        classes: egraph.number_of_classes(),
        calls_before: graph.call_count(),
        calls_after: result.call_count(),
        fired: outcome.fired,
        build_time: built - begin,
        saturate_time: saturated - built,
        extract_time: extracted - saturated,
    };
    inside.iter().for_each(|of_body| report.add(of_body));
    tracing::debug!(%report, "rewrote a graph");
    Ok((result, report))
}
