//! What a call does with what its plan computes, worked out when the plan is made.

use super::traced::{OutputSource, Traced, ViewOf};
use crate::modes::functionalize::Owner;
use crate::tensor::{Derived, Tensor};
use straightline_catalog::{TensorMeta, layout};
use straightline_passes::schedule::loops::{BufferKind, OutputBinding, Schedule, ViewSource};

/// A plan with so many inputs, parameters and results is called in one pass over them.
pub(super) const FEW: usize = 8;

/// How the results of a call come from the plan's output buffers, worked out once.
pub(super) struct Delivery {
    /// The buffers, in the order of the plan.
    pub(super) fresh: Vec<Fresh>,
    /// Outputs to copy into other strides.
    pub(super) restrided: Vec<(usize, TensorMeta)>,
    /// Whether one of them may be written over a gradient.
    pub(super) replaces_gradients: bool,
    /// Whether anything is computed or written; views alone need no access to memory.
    pub(super) runs: bool,
    /// Whether the graph's outputs are the results, in their order, and nothing else is written.
    pub(super) as_graph: bool,
    /// Whether the buffers are, too.
    pub(super) as_buffers: bool,
    /// Whether all that a call does is to make views.
    pub(super) only_views: bool,
    /// Whether that is all: the buffers are fresh, what the function was given is what the plan
    /// reads, and all of it together is few.
    pub(super) plain: bool,
}

/// A buffer that a call allocates.
pub(super) struct Fresh {
    pub(super) meta: TensorMeta,
    /// What follows from its sizes and strides.
    pub(super) derived: Derived,
    pub(super) bytes: usize,
    /// Which of the graph's outputs it is.
    pub(super) output: usize,
    /// What it is written over, in place of memory of its own.
    pub(super) over: Option<Over>,
}

/// Memory that is there already, for the value of an output.
#[derive(Clone, Copy)]
pub(super) enum Over {
    /// That of the target of a mutation.
    Target(usize),
    /// That of the `.grad` which the output replaces, if at a call nobody else has it.
    Gradient {
        /// Which of [`Traced::grads`].
        used: usize,
        /// A call that fails has not written it.
        safe: bool,
    },
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
                let at = (output, *index);
                let target = over(traced, schedule, &restrided, at, meta).map(Over::Target);
                let over = target.or_else(|| {
                    let found = gradient(traced, schedule, &restrided, at);
                    let safe = schedule.is_safe_once_written(*index);
                    found.map(|used| Over::Gradient { used, safe })
                });
                let derived = Derived::of(&meta.sizes, &meta.strides);
                buffers.push((*index, Fresh { meta: meta.clone(), derived, bytes, output, over }));
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
        let replaces_gradients =
            fresh.iter().any(|f| matches!(f.over, Some(Over::Gradient { .. })));
        let plain = as_buffers
            && runs
            && traced.slots.is_empty()
            && traced.returned == traced.outputs.len()
            && traced.graph.inputs().len() + traced.parameters.len() + fresh.len() <= FEW
            && fresh.iter().all(|f| f.over.is_none());
        let only_views = !runs
            && schedule.outputs.is_empty()
            && traced.grads.is_empty()
            && traced.slots.is_empty()
            && traced.returned == traced.outputs.len();
        Delivery {
            fresh,
            restrided,
            replaces_gradients,
            runs,
            as_graph,
            as_buffers,
            only_views,
            plain,
        }
    }
}

/// Whether a result is output `output` of the graph, or a view of it.
fn is_of(source: &OutputSource, output: usize) -> bool {
    match source {
        OutputSource::Value(i) | OutputSource::View { of: ViewOf::Value(i), .. } => *i == output,
        _ => false,
    }
}

fn is_viewed(schedule: &Schedule, source: ViewSource) -> bool {
    let mut outputs = schedule.outputs.iter();
    outputs.any(|o| matches!(o, OutputBinding::View { of, .. } if *of == source))
}

/// The use of `.grad` that output `output`, in buffer `index`, is left by and nothing else has, if
/// the plan can write it where the gradient was that it takes the place of, unread.
fn gradient(
    traced: &Traced,
    schedule: &Schedule,
    restrided: &[(usize, TensorMeta)],
    (output, index): (usize, u32),
) -> Option<usize> {
    let mut places = traced.outputs.iter().enumerate().filter(|(_, of)| is_of(of, output));
    let (place, OutputSource::Value(_)) = places.next()? else { return None };
    let mut left = traced.grads.iter().enumerate().filter(|(_, g)| g.after == Some(Some(place)));
    let (at, used) = left.next()?;
    let again = |source: &OutputSource| matches!(source, OutputSource::Same(i) if *i == place);
    let alone = places.next().is_none()
        && left.next().is_none()
        && place >= traced.returned
        && !traced.outputs.iter().any(again)
        && !traced.mutations.iter().any(|m| m.output == output)
        && !is_viewed(schedule, ViewSource::Output(index))
        && !restrided.iter().any(|(i, _)| *i == output);
    let binds =
        |b: &OutputBinding| matches!(b, OutputBinding::Fresh { index: i, .. } if *i == index);
    let alone = alone && schedule.outputs.iter().filter(|b| binds(b)).count() == 1;
    let unread = used.before.is_none() && used.bound.is_none();
    let plain = traced.joint.is_none() && traced.slots.is_empty() && traced.reshapes.is_empty();
    (alone && unread && plain).then_some(at)
}

/// The mutation that output `output`, in buffer `index`, is the new value of, if the plan can write
/// that where the old one is.
fn over(
    traced: &Traced,
    schedule: &Schedule,
    restrided: &[(usize, TensorMeta)],
    (output, index): (usize, u32),
    meta: &TensorMeta,
) -> Option<usize> {
    let at = traced.mutations.iter().position(|m| m.output == output)?;
    let m = &traced.mutations[at];
    // nobody else gets the value, and memory means what it did
    let delivered = traced.outputs.iter().any(|o| is_of(o, output));
    let viewed = |source| is_viewed(schedule, source);
    let again = traced.mutations.iter().filter(|m| m.output == output).count() > 1;
    let moved = m.memory.is_some() || !traced.reshapes.is_empty() || !traced.slots.is_empty();
    if delivered
        || viewed(ViewSource::Output(index))
        || again
        || moved
        || restrided.iter().any(|(i, _)| *i == output)
    {
        return None;
    }
    let (old, source, declared) = match &m.target {
        Owner::Input(i) => {
            let declared = traced.inputs().get(*i)?.clone();
            (BufferKind::Input(*i as u32), ViewSource::Input(*i as u32), declared)
        }
        Owner::Tensor(t) => {
            let mut same = traced.parameters.iter().enumerate();
            let (i, _) = same.find(|(_, p)| p.same_handle(t))?;
            let shares = |p: &Tensor| p.shares_storage_with(t);
            if traced.parameters.iter().filter(|p| shares(p)).count() > 1 {
                return None;
            }
            (BufferKind::Parameter(i as u32), ViewSource::Parameter(i as u32), t.meta())
        }
        Owner::Merged(_) => return None,
    };
    let others = traced.mutations.iter().enumerate().filter(|(i, _)| *i != at);
    let mut others = others.filter_map(|(_, other)| match (&other.target, &m.target) {
        (Owner::Tensor(a), Owner::Tensor(b)) => Some(a.shares_storage_with(b)),
        (Owner::Input(a), Owner::Input(b)) => Some(a == b),
        _ => None,
    });
    let plain =
        declared == *meta && layout::is_non_overlapping_and_dense(&meta.sizes, &meta.strides);
    // the old value is wanted as well
    let kept = viewed(source);
    (plain && !kept && !others.any(|shared| shared) && schedule.replaces(index, &old)).then_some(at)
}
