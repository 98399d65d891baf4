//! The whole schedule: results, steps in order, memory.

mod steps;

use super::emit::Emitted;
use super::fuse::{Demands, Fused, demanded, fuse};
use super::layout::resolve;
use super::loops::*;
use super::lower::lower;
use super::memory::{Block, Home, Host, place};
use super::nearer::nearer;
use super::program::{Def, Program, Source, V};
use super::results::bind_results;
use super::verify::verify_schedule;
use super::{
    ScheduleError, ScheduleOptions, Target, checks, convolution, cut, in_place, matmul, narrow,
    node_label, order,
};
use crate::ir::graph::{Graph, NodeId, NodeKind, ValueRef};
use crate::ir::{self, Dims, layout};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Plans the computation of a functional graph with static shapes.
///
/// ```
/// use straightline_passes::ir::{Arg, DType, Op, TensorMeta, graph::Graph};
/// use straightline_passes::schedule::{ScheduleOptions, schedule};
/// let meta = TensorMeta::contiguous(DType::F32, &[8, 16]);
/// let mut g = Graph::new();
/// let x = g.input("x", meta.clone());
/// let y = g.call(Op::exp, vec![Arg::Tensor(x)], [meta.clone()])?;
/// let z = g.call(Op::mul_Tensor, vec![Arg::Tensor(x), Arg::Tensor(y)], [meta])?;
/// g.set_outputs(&[z]);
/// let plan = schedule(&g, &ScheduleOptions::default()).unwrap();
/// assert_eq!(plan.kernels().count(), 1);
/// # Ok::<(), straightline_passes::ir::ArgumentError>(())
/// ```
pub fn schedule(graph: &Graph, options: &ScheduleOptions) -> Result<Schedule, ScheduleError> {
    let lowered = lower(graph, options.target)?;
    let mut p = lowered.program;
    let results = bind_results(graph, &mut p, &lowered.map);
    let mut pinned: BTreeSet<V> = results.bound.keys().copied().collect();
    let kept = |pinned: &BTreeSet<V>| -> BTreeSet<V> {
        pinned.iter().chain(&lowered.kept).copied().collect()
    };
    pinned.extend(checks::lost(graph, &mut p, &kept(&pinned)));
    let roots = kept(&pinned);
    if options.fold_epilogues {
        let mut live = reachable(&p, &roots);
        let stored = |p: &Program, v: V| stored(p, &results.strides, v);
        if options.target == Target::Cpu
            && narrow::products(&mut p, &live, &|v| pinned.contains(&v))
        {
            live = reachable(&p, &roots);
        }
        matmul::fold_epilogues(&mut p, &live, &|v| pinned.contains(&v), &stored);
    }
    let live = reachable(&p, &roots);
    let stored_there = |p: &Program, v: V| stored(p, &results.strides, v);
    let fold = options.fold_epilogues;
    convolution::take(&mut p, &live, &|v| !fold || pinned.contains(&v), &stored_there);
    let demands = Demands { live: reachable(&p, &roots), forced: pinned, strides: results.strides };
    let fused = fuse(&p, options, &demands)?;
    let mut planner = Planner {
        graph,
        p: &p,
        strides: &demands.strides,
        bound: &results.bound,
        fast_math: options.fast_math,
        target: options.target,
        buffers: Vec::new(),
        ids: HashMap::new(),
        sites: Vec::new(),
        site_ids: HashMap::new(),
    };
    let mut schedule = planner.build(fused, &demands, results.outputs, &lowered.map)?;
    if options.target == Target::Gpu && !options.deterministic {
        cut::scatters(&mut schedule);
    }
    // the code that runs the schedule trusts every index in it
    verify_schedule(&schedule)?;
    Ok(schedule)
}

fn reachable(p: &Program, roots: &BTreeSet<V>) -> Vec<bool> {
    let mut live = vec![false; p.values.len()];
    let mut stack: Vec<V> = roots.iter().copied().collect();
    while let Some(v) = stack.pop() {
        if !std::mem::replace(&mut live[v.i()], true) {
            stack.extend(p.operands(v));
        }
    }
    live
}

/// The strides of a value in memory; `results` has those of the function's results.
fn stored(p: &Program, results: &HashMap<V, Dims>, v: V) -> Dims {
    match (p.def(v), results.get(&v)) {
        (Def::Source { strides, .. }, _) => strides.clone(),
        (_, Some(s)) => s.clone(),
        _ => layout::contiguous_strides(p.sizes(v)),
    }
}

/// A step before buffers have numbers.
enum Todo {
    Kernel(usize),
    Product(V),
    Call(u32),
}

struct Planner<'a> {
    graph: &'a Graph,
    p: &'a Program,
    strides: &'a HashMap<V, Dims>,
    bound: &'a BTreeMap<V, u32>,
    fast_math: bool,
    target: Target,
    buffers: Vec<Buffer>,
    ids: HashMap<V, BufferId>,
    sites: Vec<Site>,
    site_ids: HashMap<NodeId, u32>,
}

impl Planner<'_> {
    /// The number of a call that may fail.
    fn site(&mut self, node: NodeId) -> Option<u32> {
        if let Some(id) = self.site_ids.get(&node) {
            return Some(*id);
        }
        let id = self.sites.len() as u32;
        self.sites.push(Site {
            call: self.graph.eager_call(node)?,
            location: self.graph.node(node).provenance.location.clone(),
        });
        self.site_ids.insert(node, id);
        Some(id)
    }

    fn stored(&self, v: V) -> Dims {
        stored(self.p, self.strides, v)
    }

    fn name(&self, v: V) -> String {
        let Some(node) = self.p.get(v).node else {
            return format!("v{}", v.0);
        };
        match &self.graph.node(node).name {
            Some(name) => name.to_string(),
            None => format!("{}", node.index()),
        }
    }

    fn buffer(&mut self, v: V) -> BufferId {
        if let Some(id) = self.ids.get(&v) {
            return *id;
        }
        let strides = self.stored(v);
        let kind = match self.p.def(v) {
            Def::Source { source, .. } => match source {
                Source::Input(i) => BufferKind::Input(*i),
                Source::Parameter(i) => BufferKind::Parameter(*i),
                Source::Constant(bytes) => BufferKind::Constant(bytes.clone()),
            },
            _ => match self.bound.get(&v) {
                Some(i) => BufferKind::Output(*i),
                None => BufferKind::Arena { offset: 0 },
            },
        };
        let id = BufferId(self.buffers.len() as u32);
        self.buffers.push(Buffer {
            dtype: self.p.dtype(v),
            len: layout::storage_extent(self.p.sizes(v), &strides, 0) as usize,
            kind,
            name: self.name(v),
        });
        self.ids.insert(v, id);
        id
    }

    /// The operand of a runtime kernel as a strided look at a buffer.
    fn operand(&mut self, v: V) -> BufferView {
        let found = {
            let stored = |b: V| self.stored(b);
            resolve(self.p, v, &stored)
        };
        let (base, strides, offset) = match found {
            Some(s) => (s.base, s.strides, s.offset),
            None => (v, self.stored(v), 0),
        };
        BufferView {
            buffer: self.buffer(base),
            dtype: self.p.dtype(v),
            sizes: Dims::from_slice(self.p.sizes(v)),
            strides,
            offset,
        }
    }

    fn result(&mut self, v: V) -> BufferView {
        BufferView {
            buffer: self.buffer(v),
            dtype: self.p.dtype(v),
            sizes: Dims::from_slice(self.p.sizes(v)),
            strides: self.stored(v),
            offset: 0,
        }
    }

    fn reads(&self, todo: &Todo, groups: &[(super::group::Group, Emitted)]) -> BTreeSet<V> {
        match todo {
            Todo::Kernel(i) => order::loads(&groups[*i].1).map(V).collect(),
            Todo::Product(v) => self.bases(&self.p.operands(*v)),
            Todo::Call(c) => {
                let waits_for: Vec<V> = self.p.calls[*c as usize].waits_for().collect();
                self.bases(&waits_for)
            }
        }
    }

    fn bases(&self, operands: &[V]) -> BTreeSet<V> {
        operands.iter().map(|o| demanded(self.p, *o, self.strides)).collect()
    }

    fn writes(&self, todo: &Todo, groups: &[(super::group::Group, Emitted)]) -> BTreeSet<V> {
        match todo {
            Todo::Kernel(i) => order::stores(&groups[*i].1).map(V).collect(),
            Todo::Product(v) => BTreeSet::from([*v]),
            Todo::Call(c) => self.p.calls[*c as usize].results.iter().copied().collect(),
        }
    }

    /// Orders steps so that everything a step reads was written before.
    fn in_order(
        &self,
        todo: Vec<Todo>,
        groups: &[(super::group::Group, Emitted)],
    ) -> Result<Vec<Todo>, ScheduleError> {
        let writes: Vec<BTreeSet<V>> = todo.iter().map(|t| self.writes(t, groups)).collect();
        let mut writers: HashMap<V, Vec<usize>> = HashMap::new();
        for (i, w) in writes.iter().enumerate() {
            for v in w {
                writers.entry(*v).or_default().push(i);
            }
        }
        let reads: Vec<BTreeSet<V>> = todo.iter().map(|t| self.reads(t, groups)).collect();
        let mut before: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); todo.len()];
        for (i, read) in reads.iter().enumerate() {
            for v in read {
                let w = writers.get(v).map_or(&[][..], |w| &w[..]);
                before[i].extend(w.iter().filter(|w| **w != i));
            }
        }
        // overlapping pieces in the order in which they were listed, a scatter after its base:
        // groups are numbered so
        for (v, w) in &writers {
            if let Def::Pieces { overlap: true, .. } | Def::Scatter(_) = self.p.def(*v) {
                for pair in w.windows(2) {
                    before[pair[1]].insert(pair[0]);
                }
            }
        }
        let key = |i: usize| writes[i].iter().next_back().copied();
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); todo.len()];
        let mut missing: Vec<usize> = before.iter().map(BTreeSet::len).collect();
        for (i, b) in before.iter().enumerate() {
            for j in b {
                after[*j].push(i);
            }
        }
        let mut ready: BTreeSet<(Option<V>, usize)> =
            (0..todo.len()).filter(|i| missing[*i] == 0).map(|i| (key(i), i)).collect();
        let mut sequence = Vec::new();
        while let Some((_, i)) = ready.pop_first() {
            sequence.push(i);
            for j in &after[i] {
                missing[*j] -= 1;
                if missing[*j] == 0 {
                    ready.insert((key(*j), *j));
                }
            }
        }
        if sequence.len() != todo.len() {
            return Err(ScheduleError::Cycle);
        }
        let fails = |i: usize| match &todo[i] {
            Todo::Kernel(group) => in_place::checks_indices(&groups[*group].1.stages),
            Todo::Product(_) => false,
            Todo::Call(_) => true,
        };
        let moves = |i: usize| {
            matches!(todo[i], Todo::Kernel(_))
                && !fails(i)
                && writes[i].iter().all(|v| self.bound.contains_key(v))
        };
        // what is written may lie where an operand of its sizes was, which others read until then,
        // and which a failure must leave as it was
        let old = |v: &V, of: usize| {
            matches!(self.p.def(*v), Def::Source { .. })
                && writes[of].iter().any(|w| self.p.sizes(*w) == self.p.sizes(*v))
        };
        let passes = |i: usize, j: usize| {
            !fails(j) && !reads[i].iter().any(|v| reads[j].contains(v) && old(v, i))
        };
        let sequence = nearer(sequence, &before, &moves, &passes);
        let mut slots: Vec<Option<Todo>> = todo.into_iter().map(Some).collect();
        Ok(sequence.into_iter().filter_map(|i| slots[i].take()).collect())
    }

    fn kernel(&mut self, emitted: Emitted) -> Kernel {
        let mut nodes: Vec<NodeId> = Vec::new();
        for v in &emitted.inlined {
            if let Some(n) = self.p.get(*v).node
                && !nodes.contains(&n)
                && !self.p.def(*v).is_view()
            {
                nodes.push(n);
            }
        }
        let ops: Vec<ir::Op> = nodes
            .into_iter()
            .filter_map(|n| match &self.graph.node(n).kind {
                NodeKind::Call(c) => Some(c.op),
                _ => None,
            })
            .collect();
        let mut kernel = order::finish(emitted, self.target);
        for stage in &mut kernel.stages {
            for inst in &mut stage.body {
                // emission knows the node
                inst.site = inst.site.and_then(|n| self.site(NodeId::new(n as usize)));
                if let Op::Load { mem: Mem::Buffer(b), .. }
                | Op::Store { mem: Mem::Buffer(b), .. }
                | Op::Update { mem: Mem::Buffer(b), .. } = &mut inst.op
                {
                    *b = self.buffer(V(b.0));
                }
            }
        }
        kernel.name = kernel_name(&ops);
        kernel.ops = ops;
        kernel
    }

    fn build(
        &mut self,
        fused: Fused,
        demands: &Demands,
        outputs: Vec<OutputBinding>,
        map: &HashMap<ValueRef, V>,
    ) -> Result<Schedule, ScheduleError> {
        let mut todo: Vec<Todo> = (0..fused.groups.len()).map(Todo::Kernel).collect();
        let mut calls = BTreeSet::new();
        for i in (0..self.p.values.len()).filter(|i| demands.live[*i]) {
            let v = V(i as u32);
            match self.p.def(v) {
                Def::Matmul(_) if self.p.numel(v) > 0 => todo.push(Todo::Product(v)),
                Def::Extern { call, .. } if calls.insert(*call) => todo.push(Todo::Call(*call)),
                _ => {}
            }
        }
        let todo = self.in_order(todo, &fused.groups)?;
        self.number_buffers(&todo, &fused.groups);
        let spans = self.spans(&todo, &fused.groups);
        let mut groups: Vec<Option<Emitted>> =
            fused.groups.into_iter().map(|(_, e)| Some(e)).collect();
        let mut steps = Vec::new();
        let mut step_of_group = HashMap::new();
        let mut step_of_value: HashMap<V, usize> = HashMap::new();
        for t in &todo {
            let at = steps.len();
            let step = match t {
                Todo::Kernel(i) => {
                    step_of_group.insert(*i, at);
                    let emitted = groups[*i].take().unwrap_or_default();
                    Step::Kernel(self.kernel(emitted))
                }
                Todo::Product(v) => {
                    step_of_value.insert(*v, at);
                    let product = self
                        .product(*v)
                        .ok_or_else(|| ScheduleError::Unschedulable { node: self.name(*v) })?;
                    Step::Extern(Extern::Matmul(product))
                }
                Todo::Call(c) => {
                    let call = &self.p.calls[*c as usize];
                    if call.follow.is_some() {
                        let v = call.results[0];
                        step_of_value.insert(v, at);
                        let step = self
                            .convolution(*c)
                            .ok_or_else(|| ScheduleError::Unschedulable { node: self.name(v) })?;
                        steps.push(Step::Extern(Extern::Convolution(step)));
                        continue;
                    }
                    let site = call.node.and_then(|n| self.site(n));
                    for r in &call.results {
                        step_of_value.insert(*r, at);
                    }
                    Step::Extern(Extern::Op {
                        op: call.op,
                        args: call.args.clone(),
                        inputs: call.inputs.iter().map(|v| self.operand(*v)).collect(),
                        outputs: (call.results.iter().take(call.metas.len()))
                            .map(|v| self.result(*v))
                            .collect(),
                        unread: (call.results.iter().take(u64::BITS as usize).enumerate())
                            .filter(|(_, r)| !demands.live[r.i()])
                            .map(|(at, _)| 1 << at)
                            .sum(),
                        site,
                    })
                }
            };
            steps.push(step);
        }
        let arena_bytes = self.place(spans, &steps);
        let mut schedule = Schedule {
            buffers: std::mem::take(&mut self.buffers),
            steps,
            outputs,
            arena_bytes,
            decisions: Vec::new(),
            sites: std::mem::take(&mut self.sites),
        };
        for id in self.graph.topological() {
            if !matches!(self.graph.node(id).kind, NodeKind::Call(_)) {
                continue;
            }
            // a call without results is a step of its own
            let Some(&v) = map.get(&id.into()) else {
                continue;
            };
            let fate = fused.fates.get(&v);
            let step = step_of_value
                .get(&v)
                .copied()
                .or_else(|| step_of_group.get(&fate?.group?).copied());
            let reason = match fate {
                _ if !demands.live[v.i()] => "not needed, or folded into a matrix product",
                _ if self.p.def(v).is_view() && step.is_none() => "a view: index arithmetic",
                _ if self.p.def(v).is_view() => "a view of what this step computes",
                Some(f) => &f.reason,
                None => "the same as its operand, or known without computing",
            };
            schedule.decisions.push(FusionDecision {
                node: node_label(self.graph, id),
                step,
                reason: reason.to_string(),
            });
        }
        Ok(schedule)
    }

    /// Numbers buffers: inputs, parameters, constants, outputs, then intermediates by first write.
    fn number_buffers(&mut self, todo: &[Todo], groups: &[(super::group::Group, Emitted)]) {
        let mut all: Vec<V> = Vec::new();
        for t in todo {
            all.extend(self.reads(t, groups));
            all.extend(self.writes(t, groups));
        }
        all.extend(self.bound.keys());
        let rank = |v: &V| match (self.p.def(*v), self.bound.get(v)) {
            (Def::Source { source, .. }, _) => match source {
                Source::Input(i) => (0, *i),
                Source::Parameter(i) => (1, *i),
                Source::Constant(_) => (2, v.0),
            },
            (_, Some(i)) => (3, *i),
            _ => (4, 0),
        };
        all.sort_by_key(rank);
        for v in all {
            self.buffer(v);
        }
    }

    /// The first and last step that touches each intermediate.
    fn spans(
        &self,
        todo: &[Todo],
        groups: &[(super::group::Group, Emitted)],
    ) -> BTreeMap<BufferId, (usize, usize)> {
        let mut spans: BTreeMap<BufferId, (usize, usize)> = BTreeMap::new();
        for (at, t) in todo.iter().enumerate() {
            let touched = self.reads(t, groups).into_iter().chain(self.writes(t, groups));
            for v in touched {
                let id = self.ids[&v];
                if matches!(self.buffers[id.0 as usize].kind, BufferKind::Arena { .. }) {
                    let span = spans.entry(id).or_insert((at, at));
                    span.1 = at;
                }
            }
        }
        spans
    }

    /// Gives intermediates their memory. What a kernel computes element by element lies where an
    /// intermediate lay that nothing needs any more.
    fn place(&mut self, spans: BTreeMap<BufferId, (usize, usize)>, steps: &[Step]) -> usize {
        let bytes = |id: BufferId| {
            let b = &self.buffers[id.0 as usize];
            b.len * b.dtype.size()
        };
        let mut blocks: Vec<Block> = Vec::new();
        let mut homes: Vec<(BufferId, usize)> = Vec::new();
        // the last buffer of each block
        let mut tails: Vec<BufferId> = Vec::new();
        let mut by_age: Vec<_> =
            spans.iter().map(|(id, (first, last))| (*first, *id, *last)).collect();
        by_age.sort_unstable();
        for (first, id, last) in by_age {
            let over = match &steps[first] {
                Step::Kernel(k) => (0..blocks.len()).find(|home| {
                    let old = tails[*home];
                    blocks[*home].last == first
                        && blocks[*home].bytes == bytes(id)
                        && self.buffers[old.0 as usize].dtype == self.buffers[id.0 as usize].dtype
                        && in_place::writes_over(k, &|b| b == id, &|b| b == old)
                }),
                Step::Extern(_) => None,
            };
            let home = over.unwrap_or_else(|| {
                blocks.push(Block { bytes: bytes(id), first, last });
                tails.push(id);
                blocks.len() - 1
            });
            (blocks[home].last, tails[home]) = (last, id);
            homes.push((id, home));
        }
        let hosts = self.hosts(steps);
        let (places, end) = place(&blocks, &hosts);
        for (id, home) in homes {
            let Home { host, offset } = places[home];
            self.buffers[id.0 as usize].kind = match host {
                Some(host) => BufferKind::Within { output: hosts[host].output, offset },
                None => BufferKind::Arena { offset },
            };
        }
        end
    }

    /// The outputs in whose memory intermediates may lie: not those that may take the place of an
    /// old value.
    fn hosts(&self, steps: &[Step]) -> Vec<Host> {
        let mut first: HashMap<BufferId, usize> = HashMap::new();
        for (at, step) in steps.iter().enumerate() {
            for id in step.buffers() {
                first.entry(id).or_insert(at);
            }
        }
        let mut hosts = Vec::new();
        for (at, buffer) in self.buffers.iter().enumerate() {
            let (BufferKind::Output(output), Some(until)) =
                (&buffer.kind, first.get(&BufferId(at as u32)).copied())
            else {
                continue;
            };
            let replaced = |id: &BufferId| {
                let old = &self.buffers[id.0 as usize];
                matches!(old.kind, BufferKind::Input(_) | BufferKind::Parameter(_))
                    && (old.dtype, old.len) == (buffer.dtype, buffer.len)
            };
            let replaces = matches!(steps[until], Step::Kernel(_))
                && steps[until].buffers().iter().any(replaced);
            if !replaces {
                let bytes = buffer.len * buffer.dtype.size();
                hosts.push(Host { output: *output, bytes, until });
            }
        }
        hosts
    }
}

/// `add_gelu`, `sum_mul_5more`.
fn kernel_name(ops: &[ir::Op]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for op in ops {
        if names.last() != Some(&op.base()) {
            names.push(op.base());
        }
    }
    match names.len() {
        0 => "copy".to_string(),
        1..=4 => names.join("_"),
        n => format!("{}_{}more", names[n - 4..].join("_"), n - 4),
    }
}
