//! What a call does with what its plan computes, worked out when the plan is made.

use super::traced::{OutputSource, Traced};
use straightline_catalog::TensorMeta;
use straightline_passes::schedule::loops::{OutputBinding, Schedule};

/// How the results of a call come from the plan's output buffers, worked out once.
pub(super) struct Delivery {
    /// The buffers, in the order of the plan.
    pub(super) fresh: Vec<Fresh>,
    /// Outputs to copy into other strides.
    pub(super) restrided: Vec<(usize, TensorMeta)>,
    /// Whether anything is computed or written; views alone need no access to memory.
    pub(super) runs: bool,
    /// Whether the graph's outputs are the results, in their order, and nothing else is written.
    pub(super) as_graph: bool,
    /// Whether the buffers are, too.
    pub(super) as_buffers: bool,
}

/// A buffer that a call allocates.
pub(super) struct Fresh {
    pub(super) meta: TensorMeta,
    pub(super) bytes: usize,
    /// Which of the graph's outputs it is.
    pub(super) output: usize,
}

impl Delivery {
    pub(super) fn new(
        traced: &Traced,
        schedule: &Schedule,
        restrided: Vec<(usize, TensorMeta)>,
    ) -> Delivery {
        // in the order of the plan's output buffers, which need not be that of the results
        let mut buffers: Vec<(u32, Fresh)> = Vec::new();
        for (output, binding) in schedule.outputs.iter().enumerate() {
            if let OutputBinding::Fresh { index, meta } = binding {
                let bytes = meta.storage_bytes();
                buffers.push((*index, Fresh { meta: meta.clone(), bytes, output }));
            }
        }
        buffers.sort_by_key(|(index, _)| *index);
        let fresh: Vec<Fresh> = buffers.into_iter().map(|(_, fresh)| fresh).collect();
        let mut results = traced.outputs.iter().enumerate();
        let only_reads = traced.mutations.is_empty() && traced.reshapes.is_empty();
        let as_graph = only_reads
            && traced.grads.is_empty()
            && traced.outputs.len() == schedule.outputs.len()
            && results.all(|(i, r)| matches!(r, OutputSource::Value(v) if *v == i));
        let as_buffers = as_graph
            && restrided.is_empty()
            && fresh.len() == schedule.outputs.len()
            && fresh.iter().enumerate().all(|(i, f)| f.output == i);
        let runs = !schedule.steps.is_empty() || !only_reads;
        Delivery { fresh, restrided, runs, as_graph, as_buffers }
    }
}
