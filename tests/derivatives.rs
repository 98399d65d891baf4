//! What the build script makes of derivative formulas, and what it refuses.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the build script's own files, of which this uses a part"
)]

#[path = "../build/composite.rs"]
mod composite;
#[path = "../build/derivative.rs"]
mod derivative;
#[path = "../build/docs.rs"]
mod docs;
#[path = "../build/formula.rs"]
mod formula;
#[path = "../build/kernels.rs"]
mod kernels;
#[path = "../build/op.rs"]
mod op;
#[path = "../build/saved.rs"]
mod saved;

use formula::{Expr, parse};
use straightline_catalog::entry::{Derivative, ENTRIES, Entry, Formula};

fn name(text: &str) -> Box<Expr> {
    Box::new(Expr::Name(text.to_string()))
}

#[test]
fn signs_bind_as_in_arithmetic() {
    let product = Expr::Infix('*', name("b"), Box::new(Expr::Negation(name("c"))));
    let sum = Expr::Infix('+', name("a"), Box::new(product));
    assert_eq!(parse("a + b * -c"), Ok(sum));
    let left = Expr::Infix('-', name("a"), name("b"));
    assert_eq!(
        parse("(a - b) - 2"),
        Ok(Expr::Infix('-', left.clone().into(), Expr::Int(2).into()))
    );
    assert_eq!(parse("a - b - 2"), parse("(a - b) - 2"));
    assert_eq!(parse("-2.5e1"), Ok(Expr::Float(-25.0)));
}

#[test]
fn calls_have_values_of_every_kind() {
    let call = parse("f(self.sizes, [1, x], 'a b', none, true,)");
    let args = vec![
        Expr::Field("self".into(), "sizes".into()),
        Expr::List(vec![Expr::Int(1), *name("x")]),
        Expr::Text("a b".into()),
        Expr::None,
        Expr::Bool(true),
    ];
    assert_eq!(call, Ok(Expr::Call("f".into(), args)));
}

#[test]
fn what_is_no_formula_is_refused() {
    for (text, want) in [
        ("f(a", "is missing"),
        ("a b", "too much"),
        ("'x", "without its end"),
        ("a.", "without a field"),
        ("a ? b", "does not belong"),
        ("a +", "ends too early"),
        ("(a", "without its `)`"),
        ("* a", "where a value is missing"),
        ("1x", "no number"),
    ] {
        let message = parse(text).expect_err(text);
        assert!(message.contains(want), "{text}: {message}");
    }
}

/// What is written for an operator with one formula in place of its own.
fn code(operator: &str, input: &'static str, text: &'static str) -> Result<String, String> {
    let named = |e: &&Entry| e.declares && e.op.schema().name.to_string() == operator;
    let entry = ENTRIES.iter().find(named).expect("an entry");
    let inputs: &'static [&'static str] = Vec::leak(vec![input]);
    let derivative = Derivative {
        variant: "",
        shared_with: None,
        file: "a.yaml",
        line: 1,
        node: None,
        node_suffix: "",
        formulas: Vec::leak(vec![Formula { inputs, text, line: 7 }]),
        outputs: &[],
        not_implemented: false,
        not_differentiable: false,
        forward: &[],
        forward_line: 0,
    };
    derivative::code(entry, &derivative)
}

#[test]
fn a_formula_is_code_and_says_what_it_saves() {
    let mul = code("aten::mul.Tensor", "self", "grad * conj(other)").unwrap();
    assert!(mul.contains("out.give(0, mul(grad, &conj(b.tensor(0)?)?)?);"), "{mul}");
    assert!(mul.contains("inputs: &[0],"), "{mul}");
    assert!(mul.contains("What::Argument(1), users: 0b1"), "{mul}");
    assert!(mul.contains("refused: &[(1, \"other\")]"), "{mul}");
    let sum = code("aten::sum.dim_IntList", "self", "f(grad, self.sizes, dim)").unwrap();
    assert!(sum.contains("f(grad, b.ints(0)?, b.optional_ints(1)?)?"), "{sum}");
    assert!(sum.contains("What::Sizes(0)"), "{sum}");
    let log1p = code("aten::log1p", "self", "grad").unwrap();
    assert!(log1p.contains("node: \"Log1PBackward0\""), "{log1p}");
    let max = code("aten::max.dim", "self", "f(grad, indices)").unwrap();
    assert!(max.contains("outputs: &[true, false]") && max.contains("What::Result(1)"), "{max}");
}

#[test]
fn a_formula_that_does_not_fit_its_operator_is_refused_with_its_line() {
    for (operator, text, want) in [
        ("aten::exp", "grad * other", "there is no `other` here"),
        ("aten::exp", "grad * self.size", "`size` is no field"),
        ("aten::sum.dim_IntList", "grad * dim", "between tensors and numbers"),
        ("aten::sum.dim_IntList", "f(grad, dim.sizes)", "has no `sizes`"),
        ("aten::exp", "2", "a formula is"),
        ("aten::exp", "grad * (1 + 2)", "belongs in a function"),
        ("aten::exp", "f(grad, result1)", "there is no `result1`"),
    ] {
        let message = code(operator, "self", text).expect_err(text);
        assert!(message.starts_with("a.yaml:7: in `aten::"), "{message}");
        assert!(message.contains(want), "{text}: {message}");
    }
}
