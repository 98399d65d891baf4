//! Cuts a graph at a call whose results have sizes that depend on data.
//!
//! What the call needs is the *front*, and runs first; then the call is made; the *rest* is a graph
//! for the sizes that it was found to have, with what the front computed and the call's results as
//! further inputs. PyTorch's compiler keeps one graph with sizes that are symbols; here each graph
//! has numbers, and those of other sizes share its code.

use crate::ir::effects::Effects;
use crate::ir::graph::{Graph, NodeId, NodeKind, ValueRef};
use crate::ir::{Op, TensorMeta};
use std::collections::BTreeSet;

/// What runs before a call whose results have sizes that depend on data.
///
/// ```
/// use straightline_passes::ir::graph::Graph;
/// use straightline_passes::partition::Front;
/// let graph = Graph::parse("graph(%x: f32[4]) {
///   %0: f32[4] = aten::exp(%x)
///   %1: bool[4] = aten::gt.Scalar(%0, other=1.0)
///   %2: f32[3] = aten::masked_select(%0, %1)
///   %3: f32[3] = aten::neg(%2)
///   return %3, %0
/// }")?;
/// let call = graph.operands(graph.outputs()[0].node)[0].node; // masked_select
/// let front = Front::new(&graph, call);
/// assert_eq!((front.graph.call_count(), front.graph.outputs().len()), (2, 2));
/// let given = [[front.crossing[0]], [call.into()]].concat();
/// let given: Vec<_> = given.into_iter().map(|v| graph.meta(v).clone()).collect();
/// let rest = front.rest(&graph, 1, &given).ok_or("another front")?;
/// assert_eq!(rest.to_string().lines().count(), 4, "{rest}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Front {
    /// Computes what crosses, and then the call's operands that are not among that.
    pub graph: Graph,
    /// The call.
    pub call: NodeId,
    /// For each of the call's operands the output of the graph that it is.
    pub operands: Vec<usize>,
    /// What the rest needs of it: the first outputs.
    pub crossing: Vec<ValueRef>,
    /// The calls in it.
    early: BTreeSet<NodeId>,
}

impl Front {
    /// Cuts at a call.
    pub fn new(graph: &Graph, call: NodeId) -> Front {
        let order = graph.topological();
        let before = order.iter().copied().take_while(|n| *n != call);
        let ordered = before.filter(|n| graph.effects(*n).is_ordered());
        let mut early = BTreeSet::new();
        let mut next: Vec<NodeId> = graph.operands(call).iter().map(|v| v.node).collect();
        next.extend(ordered);
        while let Some(n) = next.pop() {
            if matches!(graph.node(n).kind, NodeKind::Call(_)) && early.insert(n) {
                next.extend(graph.operands(n).iter().map(|v| v.node));
            }
        }
        let mut crossing: BTreeSet<ValueRef> = BTreeSet::new();
        let mut seen: BTreeSet<NodeId> = BTreeSet::new();
        let late = order.iter().copied().filter(|n| *n != call && !early.contains(n));
        let mut users: Vec<NodeId> = late.collect();
        while let Some(n) = users.pop() {
            for v in graph.operands(n) {
                if !early.contains(&v.node) {
                    continue;
                }
                match again(graph, v.node) {
                    false => {
                        crossing.insert(*v);
                    }
                    // made once more from what it is made of
                    true if seen.insert(v.node) => users.push(v.node),
                    true => {}
                }
            }
        }
        let crossing: Vec<ValueRef> = crossing.into_iter().collect();
        let mut outputs = crossing.clone();
        let operands = graph.operands(call).iter().map(|v| {
            let there = outputs.iter().position(|o| o == v);
            there.unwrap_or_else(|| {
                outputs.push(*v);
                outputs.len() - 1
            })
        });
        let operands = operands.collect();
        let mut front = graph.clone();
        for n in order.iter().filter(|n| !early.contains(n)) {
            front.set_effects(*n, Effects::PURE);
        }
        front.set_outputs(&outputs);
        front.eliminate_dead_code();
        Front { graph: front, call, operands, crossing, early }
    }

    /// The calls in it.
    pub fn calls(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.early.iter().copied()
    }

    /// The rest of a graph that begins with this front: what crosses and the call's results are inputs
    /// from position `at` on, of these types. `None` if the graph begins otherwise, or needs of the
    /// front what cannot be computed twice. What is of no use in it may be missing.
    pub fn rest(&self, graph: &Graph, at: usize, given: &[TensorMeta]) -> Option<Graph> {
        let there = |n: NodeId| graph.contains(n) && graph.call_args(n).is_some();
        let same = |n: NodeId| {
            graph.call_args(n) == self.graph.call_args(n)
                && graph.node(n).results == self.graph.node(n).results
        };
        if self.early.iter().any(|n| there(*n) && !same(*n)) {
            return None;
        }
        let mut rest = graph.clone();
        let before = rest.inputs().to_vec();
        let results = (0..).map(|index| ValueRef { node: self.call, index });
        let values = self.crossing.iter().copied().chain(results);
        for (v, meta) in values.zip(given) {
            let name = format!("given{}", rest.inputs().len());
            match there(v.node) {
                true if graph.meta(v) != meta => return None,
                true => rest.give(v, &name),
                false => rest.input(&name, meta.clone()),
            };
        }
        let inputs = rest.inputs()[before.len()..].to_vec();
        let (first, last) = before.split_at(at.min(before.len()));
        rest.arrange_inputs([first, &inputs, last].concat());
        let early = self.early.iter().copied().chain([self.call]).filter(|n| there(*n));
        let early: Vec<NodeId> = early.collect();
        early.iter().for_each(|n| rest.set_effects(*n, Effects::PURE));
        rest.eliminate_dead_code();
        let once = |n: &NodeId| *n == self.call || graph.effects(*n).is_ordered();
        let twice = early.iter().any(|n| rest.contains(*n) && once(n));
        (!twice).then_some(rest)
    }
}

/// Whether what a call computes is better computed again than handed over: it has no memory of its
/// own, or is made of nothing.
fn again(graph: &Graph, n: NodeId) -> bool {
    let view = graph.call_args(n).is_some_and(|(op, _): (Op, _)| op.facts().view);
    let of_nothing = graph.operands(n).is_empty() && !graph.effects(n).is_ordered();
    view || of_nothing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;

    fn call(graph: &Graph, op: Op) -> NodeId {
        let is = |n: &NodeId| graph.call_args(*n).is_some_and(|(o, _)| o == op);
        graph.topological().into_iter().find(is).unwrap()
    }

    fn rest(front: &Front, graph: &Graph) -> Option<Graph> {
        let metas = &front.graph;
        let given = front.crossing.iter().map(|v| metas.meta(*v).clone());
        let result = TensorMeta::contiguous(DType::I64, &[3, 1]);
        front.rest(graph, 1, &given.chain([result]).collect::<Vec<_>>())
    }

    #[test]
    fn views_and_constants_are_made_again_and_draws_are_not() {
        let text = "graph(%x: f32[2,2]) {
           %0: f32[2,2] = aten::sin(%x)
           %1: f32[4] = aten::view(%0, size=[4])
           %2: f32[4] = aten::full(size=[4], fill_value=1, dtype=f32, layout=none, device=cpu, pin_memory=none)
           %3: f32[4] = aten::bernoulli(%1)
           %4: f32[4] = aten::mul.Tensor(%1, %2)
           %5: i64[3,1] = aten::nonzero(%4)
           %6: f32[4] = aten::add.Tensor(%1, %2)
           %7: f32[4] = aten::mul.Tensor(%6, %3)
           return %5, %7
         }";
        let graph = Graph::parse(text).unwrap();
        let front = Front::new(&graph, call(&graph, Op::nonzero));
        assert_eq!(front.calls().count(), 5);
        let names: Vec<Op> =
            front.crossing.iter().map(|v| graph.call_args(v.node).unwrap().0).collect();
        assert_eq!(names, [Op::sin, Op::bernoulli]);
        let rest = rest(&front, &graph).unwrap();
        assert_eq!(rest.inputs().len(), 4);
        let text = rest.to_string();
        assert!(text.contains("aten::view") && !text.contains("aten::bernoulli"), "{text}");
    }

    #[test]
    fn another_front_is_noticed() {
        let text = |op: &str, more: &str| {
            format!(
                "graph(%x: f32[4]) {{
                   %0: f32[4] = aten::{op}(%x)
                   %1: f32[4] = aten::bernoulli(%x)
                   %2: f32[4] = aten::mul.Tensor(%0, %1)
                   %3: i64[3,1] = aten::nonzero(%2)
                   {more}
                 }}"
            )
        };
        let first = Graph::parse(&text("sin", "return %3")).unwrap();
        let front = Front::new(&first, call(&first, Op::nonzero));
        assert!(rest(&front, &first).is_some());
        assert!(rest(&front, &Graph::parse(&text("cos", "return %3")).unwrap()).is_none());
        // what was drawn is gone, what was computed is computed again
        let again = "%4: f32[4] = aten::exp(%0)\nreturn %3, %4";
        assert!(rest(&front, &Graph::parse(&text("sin", again)).unwrap()).is_some());
        // what is not used may be missing
        let other = Graph::parse("graph(%x: f32[4]) {\n%0: f32[4] = aten::neg(%x)\nreturn %0\n}");
        assert!(rest(&front, &other.unwrap()).is_none());
        let drawn = "%4: f32[4] = aten::exp(%1)\nreturn %3, %4";
        assert!(rest(&front, &Graph::parse(&text("sin", drawn)).unwrap()).is_none());
    }
}
