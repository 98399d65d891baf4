//! Each rule has a graph that breaks it.

use super::*;
use crate::ir::DType;
use crate::ir::graph::{Edge, ValueRef};

fn meta(sizes: &[i64]) -> TensorMeta {
    TensorMeta::contiguous(DType::F32, sizes)
}

fn relu() -> (Graph, ValueRef, ValueRef) {
    let mut g = Graph::new();
    let x = g.input("x", meta(&[2]));
    let of = vec![Arg::Tensor(x)];
    let y = g.call(Op::relu, of, [meta(&[2])]).unwrap();
    g.set_outputs(&[y]);
    (g, x, y)
}

fn kinds(g: &Graph) -> Vec<VerifyErrorKind> {
    verify(g).map_or_else(|e| e.0.into_iter().map(|e| e.kind).collect(), |()| vec![])
}

#[test]
fn a_sound_graph_passes() {
    assert_eq!(kinds(&relu().0), vec![]);
}

#[test]
fn structure_rules() {
    use VerifyErrorKind as K;
    let (mut g, _, y) = relu();
    g.raw_mut().add_edge(y.node, y.node, Edge { operand: 1, result: 0 });
    assert!(kinds(&g).contains(&K::Cycle));
    assert!(kinds(&g).contains(&K::OperandMentions { operand: 1, times: 0 }));

    let (mut g, x, y) = relu();
    g.raw_mut().add_edge(x.node, y.node, Edge { operand: 2, result: 3 });
    let found = kinds(&g);
    assert!(found.contains(&K::OperandPositions { found: vec![0, 2] }));
    assert!(found.contains(&K::ResultIndex { operand: 2, result: 3, results: 1 }));

    let (mut g, x, y) = relu();
    let edge = g.raw().find_edge(x.node, y.node).unwrap();
    g.raw_mut().remove_edge(edge);
    assert!(kinds(&g).contains(&K::MissingOperand { operand: 0, operands: 0 }));

    assert_eq!(kinds(&Graph::new()), vec![K::OutputCount(0)]);

    let (mut g, _, y) = relu();
    g.node_mut(y.node).name = Some("x".into());
    assert_eq!(kinds(&g), vec![K::DuplicateName("x".into())]);

    let (mut g, x, _) = relu();
    g.node_mut(x.node).results[0].strides.clear();
    assert_eq!(kinds(&g), vec![K::StrideCount { sizes: 1, strides: 0 }]);

    let (mut g, x, _) = relu();
    g.node_mut(x.node).results.clear();
    assert!(matches!(kinds(&g)[0], K::ResultCount { what: "input", .. }));

    let (mut g, x, _) = relu();
    g.node_mut(x.node).kind = NodeKind::Parameter;
    assert_eq!(kinds(&g), vec![K::Unlisted { what: "parameter", times: 0 }]);
}

#[test]
fn messages_show_the_node() {
    let g = Graph::parse(
        "graph(%x: f32[2,3], %y: f32[4]) { %0: f32[2,3] = aten::add.Tensor(%x, %y, alpha=1) \
         return %0 }",
    );
    let text = verify(&g.unwrap()).unwrap_err().to_string();
    assert_eq!(
        text,
        "the graph is not well-formed (1 error)\n\
         - line 1, column 35: sizes [2, 3] and [4] do not broadcast: each pair of dimensions, counted from the last, \
         must be equal or one of them 1\n  \
         in: %0: f32[2,3] = aten::add.Tensor(%x, %y, alpha=1)"
    );
}

#[test]
fn shape_rules() {
    let schema = "mine::shaped(Tensor a, Tensor b) -> Tensor".parse().unwrap();
    Op::define(&schema, &[] as &[&str]);
    let head = "graph(%x: f32[2,3], %y: f32[3,4], %b: f32[5,2,3], %i: i64[7]) {";
    for (line, ok) in [
        ("%0: f32[2,4] = aten::mm(%x, %y)", true),
        ("%0: f32[2,3] = aten::mm(%x, %y)", false),
        ("%0: f32[2,4] = aten::mm(%x, %x)", false),
        ("%0: f32[2,4] = aten::mm(%b, %y)", false),
        ("%0: f32[3,2] = aten::t(%x)", true),
        ("%0: f32[2,3] = aten::t(%x)", false),
        ("%0: f32[2,1] = aten::sum.dim_IntList(%x, dim=[-1], keepdim=true, dtype=none)", true),
        ("%0: f32[2] = aten::sum.dim_IntList(%x, dim=[-1], keepdim=true, dtype=none)", false),
        ("%0: f32[] = aten::sum.dim_IntList(%x, dim=[], keepdim=false, dtype=none)", true),
        ("%0: f32[2] = aten::sum.dim_IntList(%x, dim=[2], keepdim=false, dtype=none)", false),
        ("%0: bool[2,3] = aten::gt.Scalar(%x, other=0)", true),
        ("%0: f32[2,3] = aten::gt.Scalar(%x, other=0)", false),
        ("%0: f32[6] = aten::view(%x, size=[6])", true),
        ("%0: f32[5] = aten::view(%x, size=[5])", false),
        ("%0: f32[5,3,2]{6,1,3} = aten::transpose.int(%b, dim0=-1, dim1=1)", true),
        ("%0: f32[5,2,3] = aten::transpose.int(%b, dim0=-1, dim1=1)", false),
        ("%0: f32[3,5,2] = aten::permute(%b, dims=[2, 0, 1])", true),
        ("%0: f32[3,5,2] = aten::permute(%b, dims=[2, 0, 0])", false),
        ("%0: f32[5,2,3] = aten::expand(%x, size=[5, 2, 3], implicit=false)", true),
        ("%0: f32[4,3] = aten::expand(%x, size=[4, 3], implicit=false)", false),
        ("%0: f32[1,2,3] = aten::unsqueeze(%x, dim=0)", true),
        ("%0: f32[2,3] = aten::select.int(%b, dim=0, index=1)", true),
        ("%0: f32[2,3] = aten::select.int(%b, dim=1, index=1)", false),
        ("%0: f32[2,2] = aten::slice.Tensor(%x, dim=1, start=1, end=9, step=1)", true),
        ("%0: f32[2,3] = aten::slice.Tensor(%x, dim=1, start=1, end=9, step=1)", false),
        ("%0: f32[4,3] = aten::cat([%x, %x], dim=0)", true),
        ("%0: f32[4,3] = aten::cat([%x, %y], dim=0)", false),
        ("%0: f32[7,3] = aten::embedding(%x, %i, padding_idx=-1)", true),
        ("%0: f32[7,2] = aten::embedding(%x, %i, padding_idx=-1)", false),
        ("%0: f32[2], %1: i64[2] = aten::max.dim(%x, dim=1, keepdim=false)", true),
        ("%0: f32[2], %1: f32[2] = aten::max.dim(%x, dim=1, keepdim=false)", false),
        ("%0: f32[2,3] = aten::relu_(%x)", false),
        ("%0: f32[2,3] = aten::relu.out(%x, %x)", false),
        ("%0: bool[2,3] = aten::__and__.Tensor(%x, %x)", true),
        ("%0: i8[9] = mine::shaped(%x, %y)", true),
    ] {
        let g = Graph::parse(&format!("{head} {line} return %0 }}")).unwrap();
        assert_eq!(verify(&g).is_ok(), ok, "{line}: {:?}", verify(&g));
    }
}
