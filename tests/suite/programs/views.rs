//! Calls of view operators, writes and simple functions with arguments that fit a tensor.

use super::random::Rng;
use straightline::dispatch::{Value, operator};
use straightline::{Scalar, Tensor, library, library_impl};

library!(static fuzz_outside, |m| {
    m.def("scale_(Tensor(a!) x, float by) -> ()")?;
    Ok(())
});
library_impl!(static fuzz_outside, CPU, |m| {
    m.impl_("scale_", |x: &Tensor, by: f64| {
        let before = straightline::dispatch::call_count();
        x.mul_(by)?;
        CALLED.set(CALLED.get() + straightline::dispatch::call_count() - before);
        Ok(())
    })?;
    Ok(())
});
library_impl!(static fuzz_outside, Meta, |m| {
    m.impl_("scale_", |_x: &Tensor, _by: f64| Ok(()))?;
    Ok(())
});

thread_local! {
    /// How often the kernel of `fuzz_outside::scale_` has entered the dispatcher.
    static CALLED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How often this thread has entered the dispatcher; what a kernel from outside calls is its own
/// affair.
pub(crate) fn entered() -> u64 {
    straightline::dispatch::call_count() - CALLED.get()
}

/// A call: an operator and its boxed arguments.
pub(crate) type Call = (String, Vec<Value>);

/// The operator with these arguments, and the defaults of those that are missing.
fn call(op: &str, args: Vec<Value>) -> Option<Call> {
    let schema = operator(op).ok()?.schema()?.clone();
    let mut stack = args;
    for arg in &schema.args[stack.len().min(schema.args.len())..] {
        stack.push(match &arg.default {
            Some(d) => Value::from_default(d, &arg.ty),
            None => Value::None,
        });
    }
    Some((op.to_string(), stack))
}

fn t(t: &Tensor) -> Value {
    Value::Tensor(t.clone())
}

fn ints(l: impl Into<Vec<i64>>) -> Value {
    Value::IntList(l.into())
}

use Value::Int;

/// A view of the tensor.
pub(crate) fn view(x: &Tensor, r: &mut Rng) -> Option<Call> {
    let rank = x.dim() as i64;
    let d = r.int(rank) - if r.one_in(3) { rank.max(1) } else { 0 };
    let n = (x.sizes()).get(d.rem_euclid(rank.max(1)) as usize).copied().unwrap_or(1);
    let one = |op: &str| call(op, vec![t(x)]);
    let at = |op: &str, l: &[i64]| {
        let mut args = vec![t(x)];
        args.extend(l.iter().map(|&i| Int(i)));
        call(op, args)
    };
    match r.below(28) {
        0 => one("aten::t"),
        1 => at("aten::transpose.int", &[d, r.int(rank)]),
        2 => {
            let mut dims: Vec<i64> = (0..rank).collect();
            for i in (1..dims.len()).rev() {
                dims.swap(i, r.below(i + 1));
            }
            call("aten::permute", vec![t(x), ints(dims)])
        }
        3 | 4 => {
            let factor = *r.of(&[1, 2, 3, 4, 6]);
            let sizes = match x.numel() % factor {
                0 => vec![factor, -1],
                _ => vec![-1],
            };
            let op = *r.of(&["aten::view", "aten::reshape"]);
            call(op, vec![t(x), ints(sizes)])
        }
        5 | 6 => {
            let (start, step) = (r.int(n), 1 + r.int(3));
            let end = start + 1 + r.int(n - start);
            at("aten::slice.Tensor", &[d, start, end, step])
        }
        7 | 8 => {
            let index = r.int(n) - if r.one_in(2) { n } else { 0 };
            at("aten::select.int", &[d, index])
        }
        9 => {
            let start = r.int(n);
            at("aten::narrow", &[d, start, 1 + r.int(n - start)])
        }
        10 => one("aten::squeeze"),
        11 => at("aten::squeeze.dim", &[d]),
        12 => at("aten::unsqueeze", &[d]),
        13 => {
            let mut sizes = vec![1 + r.int(2)];
            sizes.extend((x.sizes().iter()).map(|n| if *n == 1 { 1 + r.int(2) } else { -1 }));
            call("aten::expand", vec![t(x), ints(sizes)])
        }
        14 => at("aten::diagonal", &[r.int(3) - 1, r.int(rank), r.int(rank)]),
        15 => {
            let sizes = [1 + r.int(3), 1 + r.int(3)];
            let strides = *r.of(&[[3, 1], [1, 3], [4, 2], [6, 2], [2, 6], [1, 4], [0, 1]]);
            let offset = match r.below(3) {
                0 => Value::None,
                _ => Int(r.int(12)),
            };
            call("aten::as_strided", vec![t(x), ints(sizes), ints(strides), offset])
        }
        16 => at("aten::unfold", &[d, 1 + r.int(n), 1 + r.int(3)]),
        17 => call("aten::split.Tensor", vec![t(x), Int(1 + r.int(n)), Int(d)]),
        18 => {
            let first = r.int(n + 1);
            call("aten::split_with_sizes", vec![t(x), ints([first, n - first]), Int(d)])
        }
        19 => at("aten::unbind.int", &[d]),
        20 => at("aten::chunk", &[1 + r.int(3), d]),
        21 => at("aten::tensor_split.sections", &[1 + r.int(3), d]),
        22 => one(*r.of(&["aten::alias", "aten::detach", "aten::ravel"])),
        23 => at("aten::movedim.int", &[d, r.int(rank)]),
        24 => call("aten::flatten.using_ints", vec![t(x), Int(0), Int(-1)]),
        25 if x.dtype().is_complex() => {
            one(*r.of(&["aten::view_as_real", "aten::real", "aten::imag", "aten::conj"]))
        }
        26 if x.dtype().is_complex() => one(*r.of(&["aten::imag", "aten::_conj"])),
        26 => one(*r.of(&["aten::view_as_complex", "aten::real", "aten::_neg_view"])),
        _ => {
            let as_dtype = *r.of(&straightline::DType::ALL);
            call("aten::view.dtype", vec![t(x), Value::DType(as_dtype)])
        }
    }
}

/// A number to compute with: mostly a small one, sometimes one at the margin of a dtype.
pub(crate) fn number(r: &mut Rng) -> Scalar {
    match r.below(16) {
        0 => Scalar::Float(0.5),
        1 => Scalar::Float(-0.0),
        2 => Scalar::Float(f64::INFINITY),
        3 => Scalar::Float(f64::NAN),
        4 => Scalar::Float(*r.of(&[1e5, 1e-9, 1e30, -65520.0, 3e38, 1e300])),
        5 => Scalar::Int(*r.of(&[127, 128, 255, 256, -129, 32768, 65536, 1 << 40])),
        6 => Scalar::Bool(r.one_in(2)),
        _ => Scalar::Int(r.int(5) - 2),
    }
}

fn scalar(s: Scalar) -> Value {
    match s {
        Scalar::Bool(b) => Value::Bool(b),
        Scalar::Int(i) => Int(i),
        Scalar::Float(x) => Value::Double(x),
        Scalar::Complex(re, im) => Value::Complex(re, im),
    }
}

/// A write to the tensor, of a number or of values of `other`.
pub(crate) fn write(x: &Tensor, other: &Tensor, third: &Tensor, r: &mut Rng) -> Option<Call> {
    let k = number(r);
    let k = || scalar(k);
    let two = |op: &str| call(op, vec![t(x), t(other)]);
    let number = |op: &str| call(op, vec![t(x), k()]);
    match r.below(20) {
        0 | 1 => number("aten::add_.Scalar"),
        2 => number("aten::mul_.Scalar"),
        3 | 4 => two("aten::add_.Tensor"),
        5 => two("aten::mul_.Tensor"),
        6 => two("aten::sub_.Tensor"),
        7 | 8 => two("aten::copy_"),
        9 => number("aten::fill_.Scalar"),
        10 => call("aten::zero_", vec![t(x)]),
        11 => two("aten::fill_.Tensor"),
        // an `out` of another shape would be resized, which tests/shape_inplace.rs is about
        12 if other.sizes() == x.sizes() => call("aten::maximum.out", vec![t(x), t(other), t(x)]),
        13 if other.sizes() == x.sizes() && third.sizes() == x.sizes() => {
            call("aten::add.out", vec![t(third), t(other), Int(1 + r.int(2)), t(x)])
        }
        // an operator that has no functional form
        14 => call("fuzz_outside::scale_", vec![t(x), Value::Double((r.int(5) - 2) as f64)]),
        15 => number(*r.of(&["aten::clamp_min_", "aten::clamp_max_", "aten::pow_.Scalar"])),
        16 => call("aten::masked_fill_.Scalar", vec![t(x), t(other), k()]),
        17 => two(*r.of(&["aten::div_.Tensor", "aten::bitwise_and_.Tensor", "aten::eq_.Tensor"])),
        18 => call(
            *r.of(&["aten::relu_", "aten::neg_", "aten::abs_", "aten::conj_physical_"]),
            vec![t(x)],
        ),
        _ => call(
            *r.of(&["aten::uniform_", "aten::normal_", "aten::random_", "aten::exponential_"]),
            vec![t(x)],
        ),
    }
}

/// A new tensor made of the tensor, of a number or of `other`.
pub(crate) fn compute(x: &Tensor, other: &Tensor, r: &mut Rng) -> Option<Call> {
    let number = |op: &str, r: &mut Rng| call(op, vec![t(x), scalar(number(r))]);
    let one = |op: &str| call(op, vec![t(x)]);
    match r.below(10) {
        0 => call(
            *r.of(&["aten::add.Tensor", "aten::sub.Tensor", "aten::rsub.Tensor"]),
            vec![t(x), t(other)],
        ),
        1 => call(
            *r.of(&["aten::mul.Tensor", "aten::div.Tensor", "aten::maximum", "aten::eq.Tensor"]),
            vec![t(x), t(other)],
        ),
        2 => number(
            *r.of(&[
                "aten::rsub.Scalar",
                "aten::add.Scalar",
                "aten::mul.Scalar",
                "aten::sub.Scalar",
            ]),
            r,
        ),
        3 => number(
            *r.of(&[
                "aten::div.Scalar",
                "aten::remainder.Scalar",
                "aten::fmod.Scalar",
                "aten::floor_divide.Scalar",
                "aten::pow.Tensor_Scalar",
                "aten::lt.Scalar",
            ]),
            r,
        ),
        4 => number(
            *r.of(&[
                "aten::bitwise_left_shift.Tensor_Scalar",
                "aten::bitwise_right_shift.Tensor_Scalar",
                "aten::bitwise_xor.Scalar",
                "aten::clamp_min",
                "aten::clamp_max",
                "aten::xlogy.Scalar_Other",
            ]),
            r,
        ),
        5 => one(*r.of(&["aten::clone", "aten::contiguous", "aten::relu", "aten::neg"])),
        6 => call("aten::amax", vec![t(x), ints([0]), Value::Bool(false)]),
        7 => {
            one(*r.of(&["aten::sum", "aten::exp", "aten::abs", "aten::logical_not", "aten::mean"]))
        }
        8 => {
            let to = *r.of(&straightline::DType::ALL);
            call("aten::to.dtype", vec![t(x), Value::DType(to)])
        }
        _ => call(*r.of(&["aten::rand_like", "aten::bernoulli", "aten::randn_like"]), vec![t(x)]),
    }
}
