//! Round trips and errors.

use super::*;
use crate::ir::graph::{Constant, NodeKind, ValueRef};
use crate::ir::{Arg, TensorMeta};
use crate::ir::{DType, Device, DeviceType, Layout, MemoryFormat, Op, Scalar};

/// Equality of everything that the text expresses.
fn assert_same(a: &Graph, b: &Graph) {
    let (oa, ob) = (a.topological(), b.topological());
    assert_eq!(oa.len(), ob.len());
    let map: std::collections::HashMap<_, _> = oa.iter().zip(&ob).collect();
    for (x, y) in oa.iter().zip(&ob) {
        let (nx, ny) = (a.node(*x), b.node(*y));
        assert_eq!(nx.results, ny.results);
        assert_eq!(nx.name, ny.name);
        match (&nx.kind, &ny.kind) {
            (NodeKind::Call(c), NodeKind::Call(d)) => {
                assert_eq!(c.op, d.op);
                // Debug, since NaN is not equal to itself
                assert_eq!(format!("{:?}", c.args), format!("{:?}", d.args));
            }
            (k, l) => assert_eq!(format!("{k:?}"), format!("{l:?}")),
        }
        let operands: Vec<_> = (a.operands(*x).iter())
            .map(|v| ValueRef { node: *map[&v.node], index: v.index })
            .collect();
        assert_eq!(operands, b.operands(*y));
    }
    assert_eq!(a.inputs().len(), b.inputs().len());
    assert_eq!(a.parameters().len(), b.parameters().len());
}

fn everything() -> Graph {
    let m = |sizes: &[i64]| TensorMeta::contiguous(DType::F32, sizes);
    let mut g = Graph::new();
    let x = g.input("x", m(&[2, 3]));
    let odd = g.input("odd name \"q\" 'é' 1", m(&[]));
    let number = g.input("7", m(&[0, 2]));
    let w = g.parameter("layers.0.weight", m(&[4, 3]));
    let c = g.constant(Constant::Splat(Scalar::Float(-0.0)), m(&[2]));
    let list = g.constant(
        Constant::Elements(vec![Scalar::Int(1), Scalar::Int(-2)]),
        TensorMeta::contiguous(DType::I64, &[2]),
    );
    g.node_mut(list.node).name = Some("list".into());
    let mut strided = m(&[3, 4]);
    strided.strides = [1, 3].into_iter().collect();
    strided.device = Device { kind: DeviceType::Cuda, index: 1 };
    let t = g.call(Op::t, vec![Arg::Tensor(w)], [strided]).unwrap();
    let of = vec![Arg::Tensor(x), Arg::Scalar(1.into())];
    let results = [m(&[2]), TensorMeta::contiguous(DType::I64, &[2])];
    let max = g.call(Op::max_dim, of, results).unwrap();
    g.node_mut(max.node).name = Some("best".into());
    let index = ValueRef { node: max.node, index: 1 };
    let args = vec![
        Arg::Tensors(vec![Some(t), None, Some(index)]),
        Arg::Tensors(vec![]),
        Arg::None,
        Arg::Ints(vec![1, -2]),
        Arg::Ints(vec![]),
        Arg::Floats(vec![1.0, 1e300, f64::INFINITY]),
        Arg::Floats(vec![]),
        Arg::Bools(vec![true, false]),
        Arg::Bools(vec![]),
        Arg::Str("a \"b\" \\ \n é".to_string()),
        Arg::DType(DType::Bool),
        Arg::Device(Device { kind: DeviceType::Cuda, index: 0 }),
        Arg::Device(Device::CPU),
        Arg::Layout(Layout::Strided),
        Arg::MemoryFormat(MemoryFormat::ChannelsLast),
        Arg::Scalar(f64::NAN.into()),
        Arg::Scalar(f64::NEG_INFINITY.into()),
        Arg::Scalar(1e-5.into()),
        Arg::Scalar(1e16.into()),
        Arg::Scalar(i64::MIN.into()),
        Arg::Tensor(odd),
        Arg::Tensor(number),
    ];
    let schema = "mine::all.over(Tensor?[] a, Tensor[] b, int? c, int[] d, int[] e, float[] f, float[] g, bool[] h, \
                  bool[] i, str j, ScalarType k, Device l, Device m, Layout n, MemoryFormat o, float p, float q, float r, \
                  float s, int t, Tensor u, Tensor v) -> Tensor";
    let op = Op::define(&schema.parse().unwrap(), &[] as &[&str]);
    let y = g.call(op, args, [m(&[])]).unwrap();
    g.set_outputs(&[y, c, list, index]);
    g
}

#[test]
fn every_construct_round_trips() {
    let g = everything();
    let text = g.to_string();
    let back = Graph::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_same(&g, &back);
    assert_eq!(back.to_string(), text);
}

#[test]
fn prints_as_documented() {
    let text = "\
graph(%x: f32[2,64], param %w: f32[600,64], param %b: f32[600]) {
  %0: f32[64,600]{1,64} = aten::t(%w)
  %1: f32[2,600] = aten::addmm(%b, %x, %0, beta=1, alpha=1)
  %2: f32[2], %3: i64[2] = aten::max.dim(%1, dim=1, keepdim=false)
  return %2, %3
}
";
    let g = Graph::parse(text).unwrap();
    assert_eq!(g.to_string(), text);
    let commented = text.replace(")\n", ") // why\n");
    assert_same(&g, &Graph::parse(&commented).unwrap());
}

#[test]
fn errors_name_the_place_and_what_is_wrong() {
    let graph = |body: &str| format!("graph(%x: f32[2,3]) {{\n{body}\n}}");
    for (text, line, column, message) in [
        (graph("  return %y"), 2, 10, "`%y` is not defined"),
        (graph("  %0: f33[2] = aten::relu(%x)"), 2, 7, "`f33` is not a dtype"),
        (
            graph("  %0: f32[2 = aten::relu(%x)"),
            2,
            13,
            "expected `,` or `]` after a size, found `=`",
        ),
        (graph("  %0: f32[-2] = aten::relu(%x)"), 2, 11, "negative"),
        (graph("  %0: f32[2,3]{1} = aten::relu(%x)"), 2, 15, "2 sizes but 1 strides"),
        (graph("  %x: f32[2] = aten::relu(%x)"), 2, 3, "`%x` is defined twice"),
        (graph("  %0: f32[2] = relu(%x)"), 2, 16, "expected an operator"),
        (graph("  %0: f32[2] = aten::relu(%x, 3)"), 2, 31, "expected an argument"),
        (graph("  %0: f32[2] = aten::relu(%x, a=what)"), 2, 33, "expected a value"),
        (graph("  %0: f32[2] = aten::relu(%x, a=[1, true])"), 2, 33, "mixture"),
        (graph("  %0: i64[2] = constant [1]"), 2, 25, "2 elements but the constant lists 1"),
        (graph("  %0: f32[2] = aten::relu(%x, a=\"b)"), 2, 33, "no closing quote"),
        (graph("  %0: f32[99999999999999999999] = aten::relu(%x)"), 2, 11, "does not fit"),
        (graph("  %0: f32[9999999999,9999999999] = aten::relu(%x)"), 2, 11, "more elements"),
        (graph("  ? "), 2, 3, "`?` starts nothing"),
        (graph("  %0: f32[2] @toaster = aten::relu(%x)"), 2, 15, "not a device"),
        (graph(""), 3, 1, "or `return`, found `}`"),
        ("graph(".to_string(), 1, 7, "the end of the text"),
        ("".to_string(), 1, 1, "expected `graph`"),
        (graph("return") + " 3", 3, 3, "the end of the text after"),
    ] {
        let e = Graph::parse(&text).expect_err(&text);
        assert_eq!((e.line, e.column), (line, column), "{e}\n{text}");
        assert!(e.to_string().contains(message), "{e}");
    }
}

#[test]
fn the_line_is_shown_with_a_caret() {
    let text = "graph(%x: f32[2]) {\n  %0: f32[2] = aten::relu(%nope)\n  return %0\n}";
    let e = Graph::parse(text).unwrap_err();
    assert_eq!(
        e.to_string(),
        "line 2, column 27: `%nope` is not defined above this line\n  \
           2 |   %0: f32[2] = aten::relu(%nope)\n    \
             |                           ^^^^^"
    );
}

#[test]
fn no_prefix_of_a_text_panics() {
    let text = everything().to_string();
    for (end, _) in text.char_indices() {
        assert!(Graph::parse(&text[..end]).is_err() || end + 1 >= text.len());
    }
}

#[test]
fn names_that_collide_are_told_apart() {
    let mut g = Graph::new();
    let m = TensorMeta::contiguous(DType::F32, &[2]);
    let a = g.input("x", m.clone());
    let b = g.input("x", m);
    g.set_outputs(&[b, a]);
    assert_eq!(g.to_string(), "graph(%x: f32[2], %x_2: f32[2]) {\n  return %x_2, %x\n}\n");
}

#[test]
fn dot_and_json_hold_every_node() {
    let g = everything();
    let dot = g.to_dot();
    assert!(dot.starts_with("digraph"));
    assert_eq!(dot.matches(" -> ").count(), g.raw().edge_count());
    let json = g.to_json();
    for op in ["aten::t", "aten::max.dim", "mine::all.over"] {
        assert!(json.contains(&format!("\"op\":\"{op}\"")), "{json}");
    }
    assert_eq!(json.matches('{').count(), json.matches('}').count());
    assert!(json.contains("\"value\":\"nan\""));
}
