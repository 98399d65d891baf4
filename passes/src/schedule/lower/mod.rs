//! Lowering: each operator call becomes primitive definitions, by family.
//!
//! A family's function returns `None` for a call that it does not know; a call that no family
//! knows stays a call of a runtime kernel.

mod called;
mod create;
mod index;
mod listed;
mod pointwise;
mod product;
mod reduce;
mod scatter;
mod strided;
mod view;

use super::prediction::Prediction;
use super::program::{Def, OpaqueCall, Program, Source, V};
use super::{ScheduleError, Target, checks};
use crate::ir::Effects;
use crate::ir::args::Arguments;
use crate::ir::graph::{Constant, Graph, NodeId, NodeKind, ValueRef};
use crate::ir::{Arg, TensorMeta};
use crate::ir::{DType, Op, Scalar, layout};
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;
use std::sync::Arc;

/// The results of a lowered call.
type Lowered = SmallVec<[V; 2]>;

/// A graph with every node lowered.
pub(crate) struct LoweredGraph {
    pub(crate) program: Program,
    pub(crate) map: HashMap<ValueRef, V>,
    /// A result of each call that is made whether or not its results are used.
    pub(crate) kept: Vec<V>,
}

/// A call as the families read it.
struct CallView<'a> {
    op: Op,
    args: &'a [Arg<ValueRef>],
    results: &'a [TensorMeta],
    effects: Effects,
}

impl CallView<'_> {
    /// The argument of this name; `None` if the schema has none or it is not given.
    fn arg(&self, name: &str) -> Option<&Arg<ValueRef>> {
        let i = self.op.schema().arg_index(name)?;
        self.args.get(i).filter(|a| **a != Arg::None)
    }

    fn scalar(&self, name: &str) -> Option<Scalar> {
        self.arg(name)?.as_scalar()
    }

    fn int(&self, name: &str) -> Option<i64> {
        self.arg(name)?.as_int()
    }

    fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.arg(name)?.as_ints()
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.arg(name)? {
            Arg::Str(s) => Some(s),
            _ => None,
        }
    }

    fn bool(&self, name: &str) -> Option<bool> {
        self.arg(name)?.as_bool()
    }

    fn sizes(&self) -> &[i64] {
        &self.results[0].sizes
    }

    fn dtype(&self) -> DType {
        self.results[0].dtype
    }
}

/// A dimension number, negative ones counted from the end.
fn wrap_dim(dim: i64, rank: usize) -> Option<usize> {
    crate::ir::view::wrap_dim(dim, rank).ok()
}

struct Lowerer<'g> {
    graph: &'g Graph,
    target: Target,
    p: Program,
    map: HashMap<ValueRef, V>,
    /// Constants of positions, by their numbers.
    lists: HashMap<Vec<i64>, V>,
    /// A result of the last call that keeps its order.
    last_ordered: Option<V>,
    /// The checks of values before this one precede the next effect.
    unchecked: usize,
    kept: Vec<V>,
}

impl Lowerer<'_> {
    fn get(&self, v: ValueRef) -> V {
        self.map[&v]
    }

    /// All arguments of a call of one operator, by their names in its schema.
    fn args<A: Arguments<V>>(&self, c: &CallView) -> Option<A> {
        debug_assert_eq!(c.op, A::OP);
        A::read(c.args, |v| self.get(*v))
    }

    fn tensor(&self, c: &CallView, position: usize) -> Option<V> {
        c.args.get(position).and_then(Arg::as_tensor).map(|v| self.get(*v))
    }

    fn meta(&self, c: &CallView, position: usize) -> Option<&TensorMeta> {
        c.args.get(position).and_then(Arg::as_tensor).map(|v| self.graph.meta(*v))
    }

    /// Whether complex numbers take part in a call: loops have none, so that it stays a call of a
    /// runtime kernel.
    fn is_complex(&self, c: &CallView) -> bool {
        let complex = |v: &ValueRef| self.graph.meta(*v).dtype.is_complex();
        c.results.iter().any(|m| m.dtype.is_complex())
            || c.args.iter().any(|a| match a {
                Arg::Scalar(s) => s.is_complex(),
                Arg::Tensor(v) => complex(v),
                Arg::Tensors(vs) => vs.iter().flatten().any(complex),
                _ => false,
            })
    }

    fn call(&mut self, c: &CallView) -> Option<Lowered> {
        if c.results.is_empty() {
            return None;
        }
        if self.is_complex(c) {
            return self.strided_call(c).map(|v| smallvec![v]);
        }
        if let Some(v) = self
            .pointwise(c)
            .or_else(|| self.view_op(c))
            .or_else(|| self.create(c))
            .or_else(|| self.index_op(c))
            .or_else(|| self.scatter_op(c))
            .or_else(|| self.listed_op(c))
            .or_else(|| self.product(c))
        {
            return Some(smallvec![v]);
        }
        self.parts(c).or_else(|| self.reduction(c))
    }

    /// `v`, copied if it is a view of a value older than `known`.
    fn owned(&mut self, v: V, known: usize) -> V {
        let mut base = v;
        while let Def::View { src, .. } | Def::Reshape(src) = self.p.def(base) {
            base = *src;
        }
        match base.i() < known && !matches!(self.p.def(base), Def::Const(_)) {
            true => self.copy(v),
            false => v,
        }
    }

    /// A value for a kernel that may depend on its strides: a row-major operand at capture is
    /// row-major in the plan too, even if it could be a view there.
    fn in_rows(&mut self, value: ValueRef) -> V {
        let v = self.map[&value];
        let m = self.graph.meta(value);
        if !layout::is_contiguous(&m.sizes, &m.strides) {
            return v;
        }
        let p = &self.p;
        let stored = |v: V| match p.def(v) {
            Def::Source { strides, .. } => strides.clone(),
            _ => layout::contiguous_strides(p.sizes(v)),
        };
        match super::layout::resolve(p, v, &stored) {
            Some(s) if !layout::is_contiguous(&m.sizes, &s.strides) => self.copy(v),
            _ => v,
        }
    }

    fn opaque(&mut self, c: &CallView, predicted: Option<Prediction>) -> Lowered {
        let mut inputs = Vec::new();
        let args = c
            .args
            .iter()
            .map(|a| {
                a.map(|v| {
                    inputs.push(self.in_rows(*v));
                    inputs.len() as u32 - 1
                })
            })
            .collect();
        let mut after = match c.effects.is_seen() {
            true => self.checks_so_far(),
            false => Vec::new(),
        };
        let results = self.extern_call(c.op, args, inputs, c.results.to_vec());
        if c.effects.is_ordered() {
            after.extend(self.last_ordered.replace(results[0]));
        }
        if let Some(call) = self.p.calls.last_mut() {
            (call.after, call.predicted) = (after, predicted);
        }
        if c.effects.is_kept() {
            self.kept.push(results[0]);
        }
        results
    }

    /// Values whose existence implies that all checks lowered since the last query have passed.
    fn checks_so_far(&mut self) -> Vec<V> {
        let graph = self.graph;
        let known = self.p.values.len();
        let from = std::mem::replace(&mut self.unchecked, known);
        let failing = checks::failing(graph, &self.p, from..known);
        let made: Vec<V> =
            (failing.into_iter()).flat_map(|v| checks::check(&mut self.p, v)).collect();
        let calls = self.kept.iter().copied().filter(|v| v.i() >= from);
        calls.chain(made).collect()
    }

    /// A call of a runtime kernel; `args` count the tensors in `inputs`. There is always a result:
    /// a value without elements if the call has none.
    fn extern_call(
        &mut self,
        op: Op,
        args: Vec<Arg<u32>>,
        inputs: Vec<V>,
        metas: Vec<TensorMeta>,
    ) -> Lowered {
        let call = self.p.calls.len() as u32;
        let mut results: Lowered = (0u32..)
            .zip(&metas)
            .map(|(index, m)| self.p.push(m.dtype, &m.sizes, Def::Extern { call, index }))
            .collect();
        if results.is_empty() {
            let made = Def::Extern { call, index: 0 };
            results.push(self.p.push(DType::Bool, &[0], made));
        }
        self.p.calls.push(OpaqueCall {
            op,
            args,
            inputs,
            after: Vec::new(),
            follow: None,
            predicted: None,
            results: results.to_vec(),
            metas,
            node: self.p.node,
        });
        results
    }

    fn node(&mut self, id: NodeId) -> Result<(), ScheduleError> {
        let node = self.graph.node(id);
        self.p.node = Some(id);
        let results: Lowered = match &node.kind {
            NodeKind::Output => return Ok(()),
            NodeKind::Input | NodeKind::Parameter => {
                let own = match node.kind {
                    NodeKind::Input => self.graph.inputs(),
                    _ => self.graph.parameters(),
                };
                let i = own.iter().position(|n| *n == id).ok_or_else(|| {
                    ScheduleError::Unlisted { node: super::node_label(self.graph, id) }
                })? as u32;
                let source = match node.kind {
                    NodeKind::Input => Source::Input(i),
                    _ => Source::Parameter(i),
                };
                let m = &node.results[0];
                let strides = m.strides.clone();
                smallvec![self.p.push(m.dtype, &m.sizes, Def::Source { source, strides })]
            }
            NodeKind::Constant(c) => {
                let m = &node.results[0];
                smallvec![match c {
                    Constant::Splat(s) if m.dtype.is_complex() => {
                        let elements = vec![*s; m.numel().max(0) as usize];
                        let source = Source::Constant(bytes(&elements, m.dtype));
                        let strides = layout::contiguous_strides(&m.sizes);
                        self.p.push(m.dtype, &m.sizes, Def::Source { source, strides })
                    }
                    Constant::Splat(s) => self.p.constant(*s, m.dtype, &m.sizes),
                    Constant::Elements(e) => {
                        if e.len() as i64 != m.numel() {
                            return Err(ScheduleError::Constant {
                                node: super::node_label(self.graph, id),
                                elements: e.len(),
                                numel: m.numel(),
                            });
                        }
                        match e.split_first() {
                            Some((first, rest))
                                if !m.dtype.is_complex() && rest.iter().all(|x| x.same(*first)) =>
                            {
                                self.p.constant(*first, m.dtype, &m.sizes)
                            }
                            _ => {
                                let source = Source::Constant(bytes(e, m.dtype));
                                let strides = layout::contiguous_strides(&m.sizes);
                                self.p.push(m.dtype, &m.sizes, Def::Source { source, strides })
                            }
                        }
                    }
                }]
            }
            NodeKind::Call(call) => {
                let (_, args) = self.graph.call_args(id).expect("the node is a call");
                let view = CallView {
                    op: call.op,
                    args: &args,
                    results: &node.results,
                    effects: call.effects,
                };
                let known = self.p.values.len();
                let predicted = self.predicted(&view);
                let loops = if predicted.is_some() { None } else { self.call(&view) };
                match loops {
                    Some(r) if view.op.facts().view => r,
                    // what is no view has memory of its own, even where it changes nothing
                    Some(r) => r.into_iter().map(|v| self.owned(v, known)).collect(),
                    None if self.sees_storage(&view) => {
                        let node = super::node_label(self.graph, id);
                        return Err(ScheduleError::Storage { node });
                    }
                    None => self.opaque(&view, predicted),
                }
            }
        };
        for (index, (v, meta)) in results.iter().zip(&node.results).enumerate() {
            let v = self.p.cast(*v, meta.dtype);
            if self.p.sizes(v) != &meta.sizes[..] {
                return Err(ScheduleError::Shape {
                    node: super::node_label(self.graph, id),
                    expected: self.p.sizes(v).to_vec(),
                    found: meta.sizes.to_vec(),
                });
            }
            let index = index as u32;
            self.map.insert(ValueRef { node: id, index }, v);
        }
        Ok(())
    }
}

fn bytes(elements: &[Scalar], dtype: DType) -> Arc<[u8]> {
    let mut out = Vec::with_capacity(elements.len() * dtype.size());
    for e in elements {
        match dtype {
            DType::Bool => out.push(u8::from(e.as_bool())),
            DType::U8 | DType::I8 | DType::QUInt8 | DType::QInt8 => out.push(e.as_i64() as u8),
            DType::I16 => out.extend((e.as_i64() as i16).to_le_bytes()),
            DType::I32 | DType::QInt32 => out.extend((e.as_i64() as i32).to_le_bytes()),
            DType::I64 => out.extend(e.as_i64().to_le_bytes()),
            DType::F16 => out.extend(half::f16::from_f32(e.as_f64() as f32).to_le_bytes()),
            DType::BF16 => out.extend(half::bf16::from_f32(e.as_f64() as f32).to_le_bytes()),
            DType::F32 => out.extend((e.as_f64() as f32).to_le_bytes()),
            DType::F64 => out.extend(e.as_f64().to_le_bytes()),
            DType::C64 => {
                let (re, im) = e.as_complex();
                out.extend((re as f32).to_le_bytes());
                out.extend((im as f32).to_le_bytes());
            }
            DType::C128 => {
                let (re, im) = e.as_complex();
                out.extend(re.to_le_bytes());
                out.extend(im.to_le_bytes());
            }
        }
    }
    out.into()
}

/// Lowers every node of the graph.
pub(crate) fn lower(graph: &Graph, target: Target) -> Result<LoweredGraph, ScheduleError> {
    let mut l = Lowerer {
        graph,
        target,
        p: Program::default(),
        map: HashMap::new(),
        lists: HashMap::new(),
        last_ordered: None,
        unchecked: 0,
        kept: Vec::new(),
    };
    if graph.is_cyclic() {
        return Err(ScheduleError::Cycle);
    }
    for id in graph.topological() {
        l.node(id)?;
    }
    Ok(LoweredGraph { program: l.p, map: l.map, kept: l.kept })
}
