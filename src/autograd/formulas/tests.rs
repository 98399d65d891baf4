//! The formulas against differences: each gradient is what a small step of each element makes of
//! the results.

use crate::autograd::rule::{Backward, Grads, Options, Rule, Saved, What};
use crate::autograd::rules::RECORDED;
use crate::dispatch::{Stack, Value, operator};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::schema::SchemaType;
use straightline_catalog::{DType, Op, Scalar};

fn rule(name: &str) -> &'static Rule {
    let op = Op::named(name).unwrap_or_else(|| panic!("{name}"));
    let found = RECORDED.iter().find(|(o, ..)| *o == op);
    found.unwrap_or_else(|| panic!("{name} has no rule")).1
}

/// Numbers between bounds, far enough from each other that no step passes another one.
fn numbers(count: usize, low: f64, high: f64, seed: u64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for i in (1..count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(i, (state % (i as u64 + 1)) as usize);
    }
    let step = (high - low) / count as f64;
    let shift = 0.31 + 0.07 * (seed % 5) as f64;
    order.into_iter().map(|i| low + step * (i as f64 + shift)).collect()
}

fn tensor(sizes: &[i64], low: f64, high: f64, seed: u64) -> Tensor {
    let count = sizes.iter().product::<i64>() as usize;
    Tensor::from_slice(&numbers(count, low, high, seed), sizes).unwrap()
}

fn complex(sizes: &[i64], seed: u64) -> Tensor {
    let mut parts = sizes.to_vec();
    parts.push(2);
    aten::view_as_complex(&tensor(&parts, -1.5, 1.5, seed)).unwrap()
}

/// An argument as a test writes it: a number, a word, a list, or a tensor: `x` real, `p` positive,
/// `u` between -1 and 1, `w` between 0 and 1, `z` complex, `b` of truth values, `n` with a zero;
/// `x:2,3` has other sizes than 2 by 3.
fn argument(text: &str, seed: u64) -> Value {
    let (kind, sizes) = text.split_once(':').unwrap_or((text, "2,3"));
    let sizes: Vec<i64> =
        sizes.split(',').filter(|s| !s.is_empty()).map_while(|s| s.parse().ok()).collect();
    let t = match kind {
        "x" => tensor(&sizes, -1.8, 1.8, seed),
        "p" => tensor(&sizes, 0.2, 1.8, seed),
        "u" => tensor(&sizes, -0.95, 0.95, seed),
        "w" => tensor(&sizes, 0.05, 0.95, seed),
        "q" => tensor(&sizes, 1.1, 3.0, seed),
        "z" => complex(&sizes, seed),
        "b" => aten::gt_scalar(&tensor(&sizes, -1.0, 1.0, seed), Scalar::Int(0)).unwrap(),
        "n" | "nn" => {
            let mut all = numbers(sizes.iter().product::<i64>() as usize, -1.8, 1.8, seed);
            all[1] = 0.0;
            if kind == "nn" {
                all[2] = 0.0;
            }
            Tensor::from_slice(&all, &sizes[..]).unwrap()
        }
        "none" => return Value::None,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        "f64" => return Value::DType(DType::F64),
        _ if text.starts_with('[') => {
            let inner = text.trim_matches(['[', ']']);
            return Value::IntList(
                inner.split(' ').filter(|s| !s.is_empty()).map(|n| n.parse().unwrap()).collect(),
            );
        }
        _ if text.starts_with('l') => {
            let inner = text.trim_start_matches("l[").trim_matches(']');
            let all: Vec<i64> = inner.split(' ').map(|n| n.parse().unwrap()).collect();
            return Value::Tensor(Tensor::from_slice(&all, &[all.len() as i64][..]).unwrap());
        }
        _ if text.starts_with('\'') => return Value::String(text.trim_matches('\'').into()),
        _ => {
            return match text.parse::<i64>() {
                Ok(n) => Value::Int(n),
                Err(_) => Value::Double(text.parse().unwrap()),
            };
        }
    };
    Value::Tensor(t)
}

fn results(name: &str, args: &[Value]) -> Vec<Tensor> {
    let op = operator(name).unwrap();
    let mut stack: Stack = args.to_vec();
    op.call_boxed(&mut stack).unwrap_or_else(|e| panic!("{name}: {e}"));
    stack.iter().flat_map(|v| v.tensors().cloned().collect::<Vec<_>>()).collect()
}

/// Real numbers: of complex ones the parts.
fn parts(t: &Tensor) -> Vec<f64> {
    let t = match t.dtype().is_complex() {
        true => aten::view_as_real(&aten::resolve_conj(t).unwrap()).unwrap(),
        false => t.clone(),
    };
    let t = aten::to_dtype(&t, DType::F64, false, false, None).unwrap();
    let t = aten::contiguous(&t, Default::default()).unwrap();
    t.to_vec::<f64>().unwrap()
}

fn from_parts(all: &[f64], like: &Tensor) -> Tensor {
    let mut sizes = like.sizes().to_vec();
    if like.dtype().is_complex() {
        sizes.push(2);
        return aten::view_as_complex(&Tensor::from_slice(all, &sizes[..]).unwrap()).unwrap();
    }
    Tensor::from_slice(all, &sizes[..]).unwrap()
}

fn saved(rule: &Rule, op: Op, args: &[Value], out: &[Tensor]) -> Vec<Saved> {
    let fact = |i: usize, of: &dyn Fn(&Tensor) -> Saved| match &args[i] {
        Value::Tensor(t) => of(t),
        Value::None => Saved::None,
        other => panic!("{other:?}"),
    };
    let one = |s: &crate::autograd::rule::Save| match s.what {
        What::Result(i) => Saved::Tensor(out[i].clone()),
        What::Sizes(i) => fact(i, &|t| Saved::Ints(t.sizes().to_vec())),
        What::DType(i) => fact(i, &|t| Saved::DType(t.dtype())),
        What::Dim(i) => fact(i, &|t| Saved::Int(t.dim() as i64)),
        What::Options(i) => {
            fact(i, &|t| Saved::Options(Options { dtype: t.dtype(), device: t.device() }))
        }
        What::Argument(i) => {
            let ty = op.schema().args[i].ty.unwrap_optional();
            let number = |v: &Value| v.as_scalar().unwrap();
            match (&args[i], ty) {
                (Value::None, _) => Saved::None,
                (Value::Tensor(t), _) => Saved::Tensor(t.clone()),
                (v, SchemaType::Scalar) => Saved::Scalar(number(v)),
                (v, SchemaType::Float) => Saved::Float(number(v).as_f64()),
                (Value::Bool(b), _) => Saved::Bool(*b),
                (Value::Int(n), SchemaType::List(..)) => Saved::Ints(vec![*n]),
                (Value::Int(n), _) => Saved::Int(*n),
                (Value::IntList(l), _) => Saved::Ints(l.clone()),
                (Value::String(s), _) => Saved::String(s.clone()),
                (Value::DType(d), _) => Saved::DType(*d),
                (v, ty) => panic!("{v:?} as {ty}"),
            }
        }
        what => panic!("{what:?}"),
    };
    rule.saves.iter().map(one).collect()
}

/// The sum over the dimensions that an operand was broadcast along.
fn sum_to(mut gradient: Tensor, sizes: &[i64]) -> Tensor {
    while gradient.dim() > sizes.len() {
        gradient = aten::sum_dim_int_list(&gradient, Some(&[0]), false, None).unwrap();
    }
    for (dim, size) in sizes.iter().enumerate() {
        if *size == 1 {
            let dim = [dim as i64];
            gradient = aten::sum_dim_int_list(&gradient, Some(&dim), true, None).unwrap();
        }
    }
    gradient
}

/// Compares all gradients of a call with differences; the arguments are separated by `;`.
fn check(name: &str, text: &str) -> Vec<String> {
    let mut failures = Vec::new();
    let args: Vec<Value> =
        text.split(';').enumerate().map(|(i, a)| argument(a.trim(), i as u64 + 1)).collect();
    let name = &match name.contains("::") {
        true => name.to_string(),
        false => format!("aten::{name}"),
    };
    let (rule, op) = (rule(name), Op::named(name).unwrap());
    let out = results(name, &args);
    failures.extend(crate::autograd::forward::tests::differences(op, &args, &|_| {}));
    let differentiable = |i: &usize| rule.outputs.get(*i).copied().unwrap_or(true);
    let kept: Vec<usize> = (0..out.len()).filter(differentiable).collect();
    let weights: Vec<Vec<f64>> =
        kept.iter().map(|i| numbers(parts(&out[*i]).len(), -1.0, 1.0, *i as u64 + 11)).collect();
    let grads: Vec<Option<Tensor>> =
        kept.iter().zip(&weights).map(|(i, w)| Some(from_parts(w, &out[*i]))).collect();
    let total = |args: &[Value]| {
        let out = results(name, args);
        let each = kept
            .iter()
            .zip(&weights)
            .map(|(i, w)| parts(&out[*i]).iter().zip(w).map(|(a, b)| a * b).sum::<f64>());
        each.sum::<f64>()
    };
    let slots: Vec<usize> = (0..rule.inputs.len())
        .filter(|s| matches!(&args[rule.inputs[*s]], Value::Tensor(t) if t.dtype().is_floating() || t.dtype().is_complex()))
        .collect();
    let wanted = slots.iter().fold(0, |bits, s| bits | 1 << s);
    let saved = saved(rule, op, &args, &out);
    let mut given = Grads::default();
    (rule.backward)(&Backward { grads: &grads, saved: &saved, wanted }, &mut given)
        .unwrap_or_else(|e| panic!("{name}({text}): {e}"));
    for slot in slots {
        let position = rule.inputs[slot];
        let Value::Tensor(x) = &args[position] else { unreachable!() };
        let found = given.given.iter().find(|(s, _)| *s == slot);
        let found = found.unwrap_or_else(|| panic!("{name}: no gradient {slot}"));
        let gradient = found.1[0].as_ref().unwrap();
        let gradient = match gradient.dtype().is_complex() && !x.dtype().is_complex() {
            true => aten::real(gradient).unwrap(),
            false => gradient.clone(),
        };
        let gradient = sum_to(gradient, x.sizes());
        let gradient = aten::to_dtype(&gradient, x.dtype(), false, false, None).unwrap();
        let (own, exact) = (parts(x), parts(&gradient));
        for i in 0..own.len() {
            let step = 1e-6;
            let moved = |by: f64| {
                let mut all = own.clone();
                all[i] += by;
                let mut args = args.clone();
                args[position] = Value::Tensor(from_parts(&all, x));
                total(&args)
            };
            let slope = (moved(step) - moved(-step)) / (2.0 * step);
            let near = (slope - exact[i]).abs() <= 1e-5 * (1.0 + slope.abs());
            if !near {
                let (own, found) = (own[i], exact[i]);
                failures.push(format!(
                    "{name}({text}): argument {position} at {own}: {found} and not {slope}"
                ));
            }
        }
    }
    failures
}

/// Checks calls of operators, and fails with all that differs.
#[track_caller]
fn check_all(cases: &[(&str, &[&str])]) {
    let texts = cases.iter().flat_map(|(name, texts)| texts.iter().map(move |text| (name, text)));
    let failures: Vec<String> = texts.flat_map(|(name, text)| check(name, text)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn functions_of_one_number() {
    check_all(&[
        ("_conj", &["z"]),
        ("_conj_physical", &["x", "z"]),
        ("_neg_view", &["x", "z"]),
        ("abs", &["x", "z"]),
        ("acos", &["u", "z"]),
        ("acosh", &["q", "z"]),
        ("angle", &["x", "z"]),
        ("asin", &["u", "z"]),
        ("asinh", &["x", "z"]),
        ("atan", &["x", "z"]),
        ("atanh", &["u", "z"]),
        ("ceil", &["x"]),
        ("cos", &["x", "z"]),
        ("cosh", &["x", "z"]),
        ("deg2rad", &["x"]),
        ("digamma", &["x"]),
        ("erf", &["x"]),
        ("erfc", &["x"]),
        ("erfinv", &["u"]),
        ("exp", &["x", "z"]),
        ("exp2", &["x", "z"]),
        ("expm1", &["x", "z"]),
        ("floor", &["x"]),
        ("frac", &["x"]),
        ("frexp.Tensor", &["x"]),
        ("gelu", &["x; 'none'", "x; 'tanh'"]),
        ("hardsigmoid", &["x"]),
        ("hardswish", &["x"]),
        ("i0", &["x"]),
        ("lgamma", &["x"]),
        ("log", &["p", "z"]),
        ("log10", &["p", "z"]),
        ("log1p", &["p", "z"]),
        ("log2", &["p", "z"]),
        ("logit", &["w; none", "w; 0.2"]),
        ("mish", &["x"]),
        ("mvlgamma", &["q; 2"]),
        ("nan_to_num", &["x; none; none; none"]),
        ("neg", &["x", "z"]),
        ("polygamma", &["1; p", "2; p"]),
        ("rad2deg", &["x"]),
        ("reciprocal", &["x", "z"]),
        ("relu", &["x"]),
        ("round", &["x"]),
        ("round.decimals", &["x; 1"]),
        ("rsqrt", &["p", "z"]),
        ("sgn", &["x", "z"]),
        ("sigmoid", &["x", "z"]),
        ("sign", &["x"]),
        ("silu", &["x"]),
        ("sin", &["x", "z"]),
        ("sinc", &["x", "z"]),
        ("sinh", &["x", "z"]),
        ("special_entr", &["p"]),
        ("special_erfcx", &["x"]),
        ("special_i0e", &["x"]),
        ("special_i1", &["x", "n"]),
        ("special_i1e", &["x"]),
        ("special_log_ndtr", &["x"]),
        ("special_ndtri", &["w"]),
        ("sqrt", &["p", "z"]),
        ("tan", &["x", "z"]),
        ("tanh", &["x", "z"]),
        ("trunc", &["x"]),
        ("view_as_complex", &["x:3,2"]),
        ("view_as_real", &["z"]),
    ]);
}

/// The gradient of the first input of a call, where that of the result is 1.
fn gradient(name: &str, args: &[Value]) -> Vec<f64> {
    let name = format!("aten::{name}");
    let (rule, op) = (rule(&name), Op::named(&name).unwrap());
    let out = results(&name, args);
    let ones = aten::ones_like(&out[0], None, None, None, None, None).unwrap();
    let saved = saved(rule, op, args, &out);
    let mut given = Grads::default();
    let wanted = u64::MAX;
    (rule.backward)(&Backward { grads: &[Some(ones)], saved: &saved, wanted }, &mut given).unwrap();
    given.given.sort_by_key(|(slot, _)| *slot);
    given.given.iter().flat_map(|(_, g)| g.iter().flatten().flat_map(parts)).collect()
}

fn row(all: &[f64]) -> Value {
    Value::Tensor(Tensor::from_slice(all, &[all.len() as i64][..]).unwrap())
}

/// Where a function has a corner or none at all, the gradient is what PyTorch takes.
#[test]
fn corners() {
    let number = Value::Double;
    for (name, args, want) in [
        ("relu", vec![row(&[0.0])], &[0.0][..]),
        ("abs", vec![row(&[0.0])], &[0.0]),
        ("hardtanh", vec![row(&[-1.0, 1.0]), number(-1.0), number(1.0)], &[0.0, 0.0]),
        ("leaky_relu", vec![row(&[0.0]), number(0.01)], &[0.01]),
        ("elu", vec![row(&[0.0]), number(1.0), number(1.0), number(1.0)], &[1.0]),
        ("hardswish", vec![row(&[-3.0, 0.0, 3.0])], &[0.0, 0.5, 1.0]),
        ("softplus", vec![row(&[0.0]), number(1.0), number(20.0)], &[0.5]),
        ("clamp", vec![row(&[0.0, 0.5, 1.0]), number(0.0), number(1.0)], &[0.0, 1.0, 0.0]),
        ("clamp_min", vec![row(&[0.0]), number(0.0)], &[0.0]),
        ("clamp.Tensor", vec![row(&[0.0]), row(&[0.0]), Value::None], &[0.5, 0.5]),
        ("maximum", vec![row(&[2.0]), row(&[2.0])], &[0.5, 0.5]),
        ("max", vec![row(&[2.0, 2.0, 1.0])], &[0.5, 0.5, 0.0]),
        (
            "amax",
            vec![row(&[2.0, 2.0, 1.0]), Value::IntList(vec![0]), false.into()],
            &[0.5, 0.5, 0.0],
        ),
        ("sqrt", vec![row(&[0.0])], &[f64::INFINITY]),
        ("pow.Tensor_Scalar", vec![row(&[0.0]), number(0.5)], &[f64::INFINITY]),
        ("pow.Tensor_Scalar", vec![row(&[0.0]), number(2.0)], &[0.0]),
        ("pow.Tensor_Scalar", vec![row(&[0.0, 3.0]), number(0.0)], &[0.0, 0.0]),
        ("pow.Tensor_Tensor", vec![row(&[0.0, 0.0]), row(&[0.0, 2.0])], &[0.0, 0.0, 0.0, 0.0]),
        ("pow.Tensor_Tensor", vec![row(&[-2.0]), row(&[2.0])], &[-4.0, f64::NAN]),
        ("prod", vec![row(&[0.0, 2.0, 3.0]), Value::None], &[6.0, 0.0, 0.0]),
        ("prod", vec![row(&[0.0, 2.0, 0.0]), Value::None], &[0.0, 0.0, 0.0]),
        ("cumprod", vec![row(&[2.0, 0.0, 3.0]), Value::Int(0), Value::None], &[1.0, 8.0, 0.0]),
        (
            "logsumexp",
            vec![row(&[f64::NEG_INFINITY; 2]), Value::IntList(vec![0]), false.into()],
            &[f64::NAN; 2],
        ),
        ("atan2", vec![row(&[0.0]), row(&[0.0])], &[0.0, -0.0]),
        ("xlogy.Tensor", vec![row(&[0.0]), row(&[0.0])], &[0.0, f64::NAN]),
        ("sinc", vec![row(&[0.0])], &[0.0]),
        ("fmod.Tensor", vec![row(&[5.0]), row(&[3.0])], &[1.0, -1.0]),
        ("remainder.Tensor", vec![row(&[-5.0]), row(&[3.0])], &[1.0, 2.0]),
        (
            "std.correction",
            vec![row(&[2.0, 2.0]), Value::None, Value::None, false.into()],
            &[0.0, 0.0],
        ),
        ("special_i1", vec![row(&[0.0])], &[0.5]),
        ("max", vec![row(&[1.0, f64::NAN, f64::NAN])], &[0.0, 0.5, 0.5]),
    ] {
        let found = gradient(name, &args);
        let bits = |all: &[f64]| {
            all.iter().map(|x| if x.is_nan() { 1 } else { x.to_bits() }).collect::<Vec<_>>()
        };
        assert_eq!(bits(&found), bits(want), "{name}: {found:?} and not {want:?}");
    }
}

#[test]
fn activations_and_their_gradients() {
    check_all(&[
        ("celu", &["x; 1.3"]),
        ("elu", &["x; 1.2; 0.8; 1.1"]),
        ("leaky_relu", &["x; 0.1"]),
        ("hardtanh", &["x; -0.9; 1.1"]),
        ("hardshrink", &["x; 0.5"]),
        ("softshrink", &["x; 0.5"]),
        ("softplus", &["x; 1.5; 2.0"]),
        ("threshold", &["x; 0.1; 0.4"]),
        ("log_sigmoid_forward", &["x"]),
        ("glu", &["x:2,4; -1", "x:4,3; 0"]),
        ("_prelu_kernel", &["x; x:1,3"]),
        ("elu_backward", &["x; 1.2; 0.8; 1.1; false; x"]),
        ("leaky_relu_backward", &["x; x; 0.1; false"]),
        ("hardtanh_backward", &["x; x; -0.9; 1.1"]),
        ("hardswish_backward", &["x; x"]),
        ("hardshrink_backward", &["x; x; 0.5"]),
        ("softshrink_backward", &["x; x; 0.5"]),
        ("softplus_backward", &["x; x; 1.5; 2.0"]),
        ("threshold_backward", &["x; x; 0.1"]),
        ("gelu_backward", &["x; x; 'none'", "x; x; 'tanh'"]),
        ("sigmoid_backward", &["x; w", "z; z"]),
        ("tanh_backward", &["x; u", "z; z"]),
        ("glu_backward", &["x:2,2; x:2,4; -1"]),
        ("_prelu_kernel_backward", &["x; x; x"]),
        ("rrelu_with_noise_backward", &["x; x; p; 0.1; 0.3; false; false"]),
    ]);
}

#[test]
fn arithmetic() {
    check_all(&[
        ("add.Tensor", &["x; x:1,3; 2.5", "z; x; 1", "x; z; 2"]),
        ("add.Scalar", &["x; 2; 1"]),
        ("sub.Tensor", &["x; x:3; 2.5", "z; z; 2"]),
        ("rsub.Tensor", &["x; x:3; 2.5"]),
        ("rsub.Scalar", &["x; 1.5; 2.5"]),
        ("mul.Tensor", &["x; x:2,1", "z; z", "x; z"]),
        ("mul.Scalar", &["x; 3"]),
        ("div.Tensor", &["x; p", "z; z", "x; z"]),
        ("div.Scalar", &["z; 3"]),
        ("div.Tensor_mode", &["x; p; none", "x; p; 'floor'", "x; p; 'trunc'"]),
        ("div.Scalar_mode", &["x; 0.7; none", "x; 0.7; 'floor'"]),
        ("fmod.Tensor", &["x; p"]),
        ("remainder.Tensor", &["x; p"]),
        ("remainder.Scalar", &["x; 0.7"]),
        ("pow.Tensor_Scalar", &["p; 2.5", "x; 2", "z; 3", "x; 0", "z; -1.5"]),
        ("pow.Tensor_Tensor", &["p; x", "z; z", "p; z", "z; x"]),
        ("pow.Scalar", &["2.5; x", "2; z", "0; p"]),
        ("atan2", &["x; x"]),
        ("dist", &["x; x; 2", "x; x:3; 3", "z; z; 2", "x; x; 1.5"]),
        ("maximum", &["x; x"]),
        ("minimum", &["x; x"]),
        ("fmax", &["x; x"]),
        ("fmin", &["x; x"]),
        ("lerp.Scalar", &["x; x; 0.3", "z; z; 0.6"]),
        ("lerp.Tensor", &["x; x; x", "z; z; z"]),
        ("xlogy.Tensor", &["x; p"]),
        ("xlogy.Scalar_Self", &["1.5; p"]),
        ("xlogy.Scalar_Other", &["x; 1.5"]),
        ("special_xlog1py", &["x; p"]),
        ("special_xlog1py.self_scalar", &["1.5; p"]),
        ("special_xlog1py.other_scalar", &["x; 1.5"]),
        ("clamp", &["x; -0.5; 0.9", "x; none; 0.3"]),
        ("clamp_min", &["x; 0.1"]),
        ("clamp_max", &["x; 0.1"]),
        ("clamp.Tensor", &["x; u; p", "x; u; none", "x; none; p"]),
        ("clamp_min.Tensor", &["x; x:3"]),
        ("clamp_max.Tensor", &["x; x:3"]),
        ("where.self", &["b; x; x:3"]),
        ("masked_fill.Scalar", &["x; b; 2"]),
        ("masked_fill.Tensor", &["x; b; x:"]),
        ("addcmul", &["x; x; x; 1.5", "z; z; z; 2"]),
        ("addcdiv", &["x; x; p; 1.5", "z; z; z; 2"]),
        ("ldexp.Tensor", &["x; x"]),
        ("hypot", &["x; x"]),
        ("copysign.Tensor", &["x; x"]),
        ("copysign.Scalar", &["x; -2"]),
        ("logaddexp", &["x; x"]),
        ("logaddexp2", &["x; x"]),
        ("complex", &["x; x"]),
        ("polar", &["p; x"]),
        ("dot", &["x:4; x:4", "z:4; z:4"]),
        ("vdot", &["x:4; x:4", "z:4; z:4"]),
        ("special_zeta.self_scalar", &["2.5; q"]),
    ]);
}

#[test]
fn reductions() {
    check_all(&[
        ("sum", &["x; none", "z; none"]),
        (
            "sum.dim_IntList",
            &[
                "x; [1]; false; none",
                "x; [0 1]; true; none",
                "x; none; false; none",
                "x:2,3,2; [-1 0]; false; none",
            ],
        ),
        ("nansum", &["x; [1]; false; none"]),
        ("mean", &["x; none"]),
        ("mean.dim", &["x; [0]; false; none", "x; []; false; none", "x; [0 1]; true; none"]),
        ("prod", &["x; none", "z; none", "n; none", "nn; none", "x:; none"]),
        (
            "prod.dim_int",
            &["x; 1; false; none", "n; 0; true; none", "nn; 1; false; none", "z; -1; false; none"],
        ),
        ("amax", &["x; [1]; false", "x; []; true"]),
        ("amin", &["x; [0]; true", "x; [0 1]; false"]),
        ("max", &["x"]),
        ("min", &["x"]),
        ("max.dim", &["x; 1; false"]),
        ("min.dim", &["x; 0; true"]),
        (
            "var.correction",
            &["x; [1]; 1; false", "x; none; none; false", "z; [0]; 0; true", "x; [0 1]; 2; true"],
        ),
        ("std.correction", &["x; [1]; 1; false", "x; none; none; true", "z; [1]; 0; false"]),
        ("logsumexp", &["x; [1]; false", "x; [0 1]; true"]),
        ("cumsum", &["x; 1; none"]),
        ("cumprod", &["x; 1; none", "z; 0; none", "n; 1; none", "nn; 1; none", "nn:6; 0; none"]),
        ("cummax", &["x; 1"]),
        ("cummin", &["x; 0"]),
        ("logcumsumexp", &["x; 1", "x; 0"]),
        ("sort", &["x; 1; true"]),
        ("sort.stable", &["x; true; 0; false"]),
        ("topk", &["x; 2; 1; true; true"]),
        ("kthvalue", &["x; 2; 1; false"]),
        ("mode", &["x; 1; true"]),
        ("median", &["x:5"]),
        ("median.dim", &["x; 1; false"]),
        ("nanmedian", &["x:5"]),
        ("nanmedian.dim", &["x; 1; false"]),
    ]);
    for reduce in ["'sum'", "'mean'", "'max'", "'min'", "'prod'"] {
        check_all(&[(
            "segment_reduce",
            &[
                &format!("x:6; {reduce}; l[2 3 1]; none; none; 0; false; none"),
                &format!("x:6,2; {reduce}; none; none; l[0 1 4 6]; 0; false; none"),
                &format!("n:6; {reduce}; none; none; l[0 1 4 6]; 0; false; none"),
            ],
        )]);
    }
    check_all(&[("segment_reduce", &["x:6; 'sum'; l[2 0 3 1]; none; none; 0; false; none"])]);
}
