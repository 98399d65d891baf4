//! Decompositions of pointwise operators against their definitions, on numbers that include NaN,
//! infinities and zeros: the decomposed graph is evaluated on one element in `f64`.

use std::collections::HashMap;
use straightline_passes::ir::Arg;
use straightline_passes::ir::graph::{Constant, Graph, NodeKind, ValueRef};
use straightline_passes::rewrite::{RewriteOptions, rewrite};

/// Evaluates a graph of primitives whose values have one element.
fn evaluate(graph: &Graph, inputs: &[f64]) -> f64 {
    let mut values: HashMap<ValueRef, f64> = HashMap::new();
    for (n, x) in graph.inputs().iter().zip(inputs) {
        values.insert((*n).into(), *x);
    }
    for id in graph.topological() {
        match &graph.node(id).kind {
            NodeKind::Constant(Constant::Splat(s)) => {
                values.insert(id.into(), s.as_f64());
            }
            NodeKind::Call(_) => {
                let (op, args) = graph.call_args(id).expect("a call");
                let a: Vec<f64> = (args.iter())
                    .filter_map(|a| match a {
                        Arg::Tensor(v) => Some(values[v]),
                        Arg::Scalar(s) => Some(s.as_f64()),
                        _ => None,
                    })
                    .collect();
                values.insert(id.into(), primitive(op.name(), &a));
            }
            _ => {}
        }
    }
    values[&graph.outputs()[0]]
}

fn primitive(op: &str, a: &[f64]) -> f64 {
    let truth = |b: bool| f64::from(u8::from(b));
    let name = op.trim_start_matches("aten::");
    match name.split('.').next().unwrap_or(name) {
        "neg" => -a[0],
        "abs" => a[0].abs(),
        "exp" => a[0].exp(),
        "expm1" => a[0].exp_m1(),
        "log" => a[0].ln(),
        "log1p" => a[0].ln_1p(),
        "tanh" => a[0].tanh(),
        "trunc" => a[0].trunc(),
        "isnan" => truth(a[0].is_nan()),
        "isinf" => truth(a[0].is_infinite()),
        "logical_not" => truth(a[0] == 0.0),
        "logical_and" => truth(a[0] != 0.0 && a[1] != 0.0),
        "logical_or" => truth(a[0] != 0.0 || a[1] != 0.0),
        // the last argument is alpha
        "add" => a[0] + a[2] * a[1],
        "sub" => a[0] - a[2] * a[1],
        "mul" => a[0] * a[1],
        "div" => a[0] / a[1],
        "maximum" if a[0].is_nan() || a[1].is_nan() => f64::NAN,
        "minimum" if a[0].is_nan() || a[1].is_nan() => f64::NAN,
        "maximum" => a[0].max(a[1]),
        "minimum" => a[0].min(a[1]),
        "eq" => truth(a[0] == a[1]),
        "lt" => truth(a[0] < a[1]),
        "le" => truth(a[0] <= a[1]),
        "gt" => truth(a[0] > a[1]),
        "ge" => truth(a[0] >= a[1]),
        "where" => a[if a[0] != 0.0 { 1 } else { 2 }],
        "prims::convert_element_type" => a[0],
        _ => panic!("{op} is no primitive that this test knows"),
    }
}

const NUMBERS: [f64; 17] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.0,
    -1.0,
    2.25,
    -2.75,
    3.0,
    -3.0,
    6.5,
    -7.0,
    40.0,
    -40.0,
];

fn same(got: f64, want: f64) -> bool {
    (got.is_nan() && want.is_nan())
        || got == want
        || (got - want).abs() <= 1e-13 * want.abs().max(1e-300)
}

/// Checks `aten::CALL` on every combination of numbers for `%x`, `%y`, `%z`.
fn law(call: &str, dtype: &str, want: fn(f64, f64, f64) -> f64) {
    let text = format!(
        "graph(%x: f64[1], %y: f64[1], %z: f64[1]) {{ %0: {dtype}[1] = aten::{call} return %0 }}"
    );
    let graph = Graph::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let (out, _) = rewrite(&graph, &RewriteOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let (ys, zs) = (call.contains("%y"), call.contains("%z"));
    for x in NUMBERS {
        for y in if ys { &NUMBERS[..] } else { &[0.0] } {
            for z in if zs { &NUMBERS[..] } else { &[0.0] } {
                let (got, want) = (evaluate(&out, &[x, *y, *z]), want(x, *y, *z));
                assert!(same(got, want), "{call} at {x} {y} {z}: {got}, not {want}\n{out}");
            }
        }
    }
}

/// PyTorch's `std::max`-with-NaN clamp.
fn clamp(x: f64, low: f64, high: f64) -> f64 {
    if x.is_nan() { x } else { x.max(low).min(high) }
}

fn truth(b: bool) -> f64 {
    f64::from(u8::from(b))
}

#[test]
fn clamps() {
    law("clamp(%x, min=-1, max=2.5)", "f64", |x, _, _| clamp(x, -1.0, 2.5));
    law("clamp(%x, min=3, max=1)", "f64", |x, _, _| if x.is_nan() { x } else { 1.0 });
    law(
        "clamp_min.Tensor(%x, %y)",
        "f64",
        |x, y, _| {
            if y.is_nan() { y } else { clamp(x, y, f64::INFINITY) }
        },
    );
    law("hardtanh(%x, min_val=-1, max_val=1)", "f64", |x, _, _| clamp(x, -1.0, 1.0));
    law("relu6(%x)", "f64", |x, _, _| clamp(x, 0.0, 6.0));
    law("fmax(%x, %y)", "f64", |x, y, _| x.max(y));
    law("fmin(%x, %y)", "f64", |x, y, _| x.min(y));
}

#[test]
fn activations() {
    law("leaky_relu(%x, negative_slope=0.1)", "f64", |x, _, _| if x > 0.0 { x } else { 0.1 * x });
    law("elu(%x, alpha=1.5, scale=2, input_scale=0.5)", "f64", |x, _, _| {
        if x < 0.0 { (0.5 * x).exp_m1() * 3.0 } else { 2.0 * x }
    });
    law("celu(%x, alpha=2)", "f64", |x, _, _| {
        if x.is_nan() { x } else { x.max(0.0) + (2.0 * (x / 2.0).exp_m1()).min(0.0) }
    });
    law("softplus(%x, beta=2, threshold=20)", "f64", |x, _, _| {
        if 2.0 * x > 20.0 { x } else { (2.0 * x).exp().ln_1p() / 2.0 }
    });
    law("hardsigmoid(%x)", "f64", |x, _, _| clamp(x + 3.0, 0.0, 6.0) / 6.0);
    law("hardswish(%x)", "f64", |x, _, _| x * clamp(x + 3.0, 0.0, 6.0) / 6.0);
    law(
        "hardshrink(%x, lambd=0.5)",
        "f64",
        |x, _, _| {
            if (-0.5..=0.5).contains(&x) { 0.0 } else { x }
        },
    );
    law("softshrink(%x, lambd=0.5)", "f64", |x, _, _| match x {
        x if x > 0.5 => x - 0.5,
        x if x < -0.5 => x + 0.5,
        x => x * 0.0,
    });
    law("threshold(%x, threshold=0.1, value=20)", "f64", |x, _, _| if x <= 0.1 { 20.0 } else { x });
    law("log_sigmoid(%x)", "f64", |x, _, _| {
        if x.is_nan() { x } else { x.min(0.0) - (-x.abs()).exp().ln_1p() }
    });
    law("mish(%x)", "f64", |x, _, _| x * x.exp().ln_1p().tanh());
}

#[test]
fn arithmetic() {
    law("rsub.Scalar(%x, other=1, alpha=2)", "f64", |x, _, _| 1.0 - 2.0 * x);
    law("rsub.Tensor(%x, %y, alpha=1)", "f64", |x, y, _| y - x);
    law("addcmul(%x, %y, %z, value=0.5)", "f64", |x, y, z| x + 0.5 * y * z);
    law("addcdiv(%x, %y, %z, value=0.5)", "f64", |x, y, z| x + 0.5 * y / z);
    law("lerp.Scalar(%x, %y, weight=0.25)", "f64", |x, y, _| x + 0.25 * (y - x));
    law("lerp.Scalar(%x, %y, weight=0.75)", "f64", |x, y, _| y - (y - x) * 0.25);
    law("lerp.Tensor(%x, %y, %z)", "f64", |x, y, w| {
        if w.abs() < 0.5 { x + w * (y - x) } else { y - (y - x) * (1.0 - w) }
    });
    law("square(%x)", "f64", |x, _, _| x * x);
    law("pow.Tensor_Scalar(%x, exponent=2)", "f64", |x, _, _| x * x);
    law("logaddexp(%x, %y)", "f64", |x, y, _| match (x, y) {
        (x, y) if x.is_nan() || y.is_nan() => f64::NAN,
        (x, y) if x == y && x.is_infinite() => x,
        (x, y) => x.max(y) + (-(x - y).abs()).exp().ln_1p(),
    });
    law("xlogy.Tensor(%x, %y)", "f64", |x, y, _| match (x, y) {
        (_, y) if y.is_nan() => y,
        (x, y) => {
            if x == 0.0 {
                0.0
            } else {
                x * y.ln()
            }
        }
    });
    law("heaviside(%x, %y)", "f64", |x, y, _| if x == 0.0 { y } else { truth(x > 0.0) });
    law("frac(%x)", "f64", |x, _, _| x - x.trunc());
    law("isfinite(%x)", "bool", |x, _, _| truth(x.is_finite()));
    law("isposinf(%x)", "bool", |x, _, _| truth(x == f64::INFINITY));
    law("isneginf(%x)", "bool", |x, _, _| truth(x == f64::NEG_INFINITY));
    law("masked_fill.Scalar(%x, %y, value=-inf)", "f64", |x, m, _| {
        if m != 0.0 { f64::NEG_INFINITY } else { x }
    });
}

#[test]
fn exact_identities_keep_the_sign_of_zero() {
    for (call, input, want) in [
        ("sub.Scalar(%x, other=0.0, alpha=1)", -0.0, -0.0f64),
        ("add.Scalar(%x, other=0.0, alpha=1)", -0.0, 0.0),
        ("add.Scalar(%x, other=-0.0, alpha=1)", 0.0, 0.0),
        ("mul.Scalar(%x, other=1)", -0.0, -0.0),
    ] {
        let text = format!("graph(%x: f64[1]) {{ %0: f64[1] = aten::{call} return %0 }}");
        let graph = Graph::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let (out, _) =
            rewrite(&graph, &RewriteOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let got = evaluate(&out, &[input]);
        assert_eq!(got.to_bits(), want.to_bits(), "{call}: {got}\n{out}");
    }
}
