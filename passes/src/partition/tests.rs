use super::*;
use crate::ir::{Effects, Op};

fn halves(text: &str, inputs: usize, outputs: usize) -> Halves {
    let joint = Graph::parse(text).unwrap();
    partition(&joint, &Roles { inputs, outputs, ..Roles::default() }).unwrap()
}

fn names(of: &[Decision]) -> Vec<&str> {
    of.iter().map(|d| d.name.as_str()).collect()
}

#[test]
fn chains_of_pointwise_calls_are_computed_again() {
    // a.sin().cos().exp()
    let h = halves(
        "graph(%a: f32[4], %t: f32[4]) {
           %0: f32[4] = aten::sin(%a)
           %1: f32[4] = aten::cos(%0)
           %2: f32[4] = aten::exp(%1)
           %3: f32[4] = aten::mul.Tensor(%t, %2)
           %4: f32[4] = aten::sin(%0)
           %5: f32[4] = aten::neg(%4)
           %6: f32[4] = aten::mul.Tensor(%3, %5)
           %7: f32[4] = aten::cos(%a)
           %8: f32[4] = aten::mul.Tensor(%6, %7)
           return %2, %8
         }",
        1,
        1,
    );
    assert!(h.saved.contains(&Saved::Input(0)), "{:?}", h.saved);
    assert_eq!(h.forward.call_count(), 3);
    // nothing but the argument and a result of the function
    assert!(h.kept.iter().all(|d| d.op.is_none() || d.op == Some(Op::exp)), "{:?}", h.kept);
}

#[test]
fn products_are_saved_and_not_computed_again() {
    let h = halves(
        "graph(%a: f32[8,8], %w: f32[8,8], %t: f32[8,8]) {
           %0: f32[8,8] = aten::mm(%a, %w)
           %1: f32[8,8] = aten::tanh(%0)
           %2: f32[8,8] = aten::sin(%1)
           %3: f32[8,8] = aten::cos(%1)
           %4: f32[8,8] = aten::mul.Tensor(%t, %3)
           %5: f32[8,8] = aten::mm(%4, %w)
           return %2, %5
         }",
        2,
        1,
    );
    assert!(!h.backward.to_string().contains("mm(%saved_a"), "{}", h.backward);
    assert_eq!(h.saved.len(), 2);
    assert!(names(&h.kept).contains(&"w"));
    let product = h.kept.iter().find(|d| d.op.is_some()).unwrap();
    assert_eq!(product.bytes, 256);
}

#[test]
fn random_numbers_are_drawn_once() {
    let h = halves(
        "graph(%a: f32[8], %t: f32[8]) {
           %0: f32[8] = aten::rand_like(%a)
           %1: f32[8] = aten::mul.Tensor(%a, %0)
           %2: f32[8] = aten::mul.Tensor(%t, %0)
           return %1, %2
         }",
        1,
        1,
    );
    let drawn = |g: &Graph| g.topological().iter().any(|n| g.effects(*n).has(Effects::RANDOM));
    assert!(drawn(&h.forward) && !drawn(&h.backward));
    assert_eq!(h.kept[0].reason, Reason::Once);
}

#[test]
fn what_is_written_is_not_kept_as_it_was() {
    let joint = Graph::parse(
        "graph(%a: f32[8], %t: f32[8]) {
           %0: f32[8] = aten::add.Scalar(%a, other=1)
           %1: f32[8] = aten::sin(%0)
           %2: f32[8] = aten::cos(%0)
           %3: f32[8] = aten::mul.Tensor(%t, %2)
           return %1, %0, %3
         }",
    )
    .unwrap();
    let mut roles = Roles { inputs: 1, outputs: 2, written_inputs: vec![0], ..Roles::default() };
    let h = partition(&joint, &roles).unwrap();
    assert!(matches!(h.saved[..], [Saved::Output(2)]), "{:?}", h.saved);
    roles.written_inputs.clear();
    assert_eq!(partition(&joint, &roles).unwrap().saved.len(), 1);
    // the old value itself is needed
    let joint = Graph::parse(
        "graph(%a: f32[8], %t: f32[8]) {
           %0: f32[8] = aten::add.Scalar(%a, other=1)
           %1: f32[8] = aten::mul.Tensor(%t, %a)
           return %0, %1
         }",
    )
    .unwrap();
    let roles = Roles { inputs: 1, outputs: 1, written_inputs: vec![0], ..Roles::default() };
    assert!(partition(&joint, &roles).is_err());
}

#[test]
fn halves_parse_back_and_a_gradient_may_be_a_tangent() {
    let h = halves(
        "graph(%a: f32[2], %t: f32[2]) {\n  %0: f32[2] = aten::add.Scalar(%a, other=1)\n  return %0, %t\n}",
        1,
        1,
    );
    assert!(h.saved.is_empty());
    assert_eq!(h.backward.outputs(), [ValueRef::from(h.backward.inputs()[0])]);
    assert!(Graph::parse(&h.forward.to_string()).is_ok());
}
