//! What rewriting may do.

use crate::ir::Op;
use std::time::Duration;

/// Which rules apply, and how long.
#[derive(Clone, Debug)]
pub struct RewriteOptions {
    /// Decompose composites.
    pub decompose: bool,
    /// Exact algebra.
    pub simplify: bool,
    /// Algebra that can change values in the last digits, or where NaN and infinities are
    /// concerned.
    pub fast_math: bool,
    /// Composites that the target has a kernel for and that stay whole.
    pub keep: Vec<Op>,
    /// No simplification once the e-graph has this many e-nodes.
    pub node_limit: usize,
    /// No simplification after this many rounds.
    pub iteration_limit: usize,
    /// No simplification after this long.
    pub time_limit: Duration,
}

impl Default for RewriteOptions {
    /// `decompose` and `simplify`; 10,000 e-nodes, 10 rounds, 20 ms.
    fn default() -> Self {
        RewriteOptions {
            decompose: true,
            simplify: true,
            fast_math: false,
            keep: Vec::new(),
            node_limit: 10_000,
            iteration_limit: 10,
            time_limit: Duration::from_millis(20),
        }
    }
}

impl RewriteOptions {
    /// No rule at all: rewriting then only merges equal calls and drops dead ones.
    pub fn none() -> Self {
        RewriteOptions { decompose: false, simplify: false, ..Self::default() }
    }
}
