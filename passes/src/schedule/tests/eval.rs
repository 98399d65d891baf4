//! Evaluates graphs node by node: what schedules are compared with.

use crate::ir::Arg;
use crate::ir::graph::{Constant, Graph, NodeKind, ValueRef};
use crate::ir::{DType, Scalar, layout};
use std::collections::HashMap;

/// Row-major elements.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Tensor {
    pub(super) dtype: DType,
    pub(super) sizes: Vec<i64>,
    pub(super) data: Vec<Scalar>,
}

impl Tensor {
    pub(super) fn from_fn(
        dtype: DType,
        sizes: &[i64],
        mut f: impl FnMut(&[i64]) -> Scalar,
    ) -> Tensor {
        let n = layout::numel(sizes);
        let mut data = Vec::new();
        let mut at = vec![0; sizes.len()];
        for _ in 0..n {
            data.push(f(&at));
            for d in (0..sizes.len()).rev() {
                at[d] += 1;
                if at[d] < sizes[d] {
                    break;
                }
                at[d] = 0;
            }
        }
        Tensor { dtype, sizes: sizes.to_vec(), data }
    }

    pub(super) fn each(&self, mut f: impl FnMut(&[i64], Scalar)) {
        let mut i = 0;
        Tensor::from_fn(self.dtype, &self.sizes, |at| {
            f(at, self.data[i]);
            i += 1;
            Scalar::Int(0)
        });
    }

    pub(super) fn at(&self, index: &[i64]) -> Scalar {
        assert_eq!(index.len(), self.sizes.len());
        let mut i = 0;
        for (x, n) in index.iter().zip(&self.sizes) {
            assert!((0..*n).contains(x), "{index:?} in {:?}", self.sizes);
            i = i * n + x;
        }
        self.data[i as usize]
    }

    /// With broadcasting to a larger shape.
    fn wide(&self, index: &[i64]) -> Scalar {
        let lead = index.len() - self.sizes.len();
        let own: Vec<i64> = self
            .sizes
            .iter()
            .zip(&index[lead..])
            .map(|(n, i)| if *n == 1 { 0 } else { *i })
            .collect();
        self.at(&own)
    }
}

/// Abramowitz and Stegun are not enough here: a series and a continued fraction.
pub(super) fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a.is_nan() {
        return x;
    }
    let y = if a < 3.0 {
        let (mut term, mut sum) = (a, a);
        for n in 1..80 {
            term *= -a * a / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    } else if a > 6.0 {
        1.0
    } else {
        let mut f = 0.0;
        for n in (1..60).rev() {
            f = f64::from(n) / 2.0 / (a + f);
        }
        1.0 - (-a * a).exp() / std::f64::consts::PI.sqrt() / (a + f)
    };
    y.copysign(x)
}

fn dims_of(arg: Option<&Arg<Tensor>>, rank: usize) -> Vec<usize> {
    match arg.and_then(Arg::as_ints) {
        Some(v) if !v.is_empty() => {
            v.iter().map(|d| d.rem_euclid(rank.max(1) as i64) as usize).collect()
        }
        _ => (0..rank).collect(),
    }
}

fn float(name: &str, f: f64) -> Option<f64> {
    Some(match name {
        "exp" => f.exp(),
        "tanh" => f.tanh(),
        "sigmoid" => 1.0 / (1.0 + (-f).exp()),
        "relu" => {
            if f.is_nan() {
                f
            } else {
                f.max(0.0)
            }
        }
        "gelu" => 0.5 * f * (1.0 + erf(f / std::f64::consts::SQRT_2)),
        "neg" => -f,
        "abs" => f.abs(),
        "sqrt" => f.sqrt(),
        "rsqrt" => 1.0 / f.sqrt(),
        "sin" => f.sin(),
        "log1p" => f.ln_1p(),
        "clone" | "detach" | "prims::convert_element_type" => f,
        "mystery" => f * 2.0 + 1.0,
        _ => return None,
    })
}

/// The results of one operator; dtype and sizes of the first one are given.
pub(super) fn eval_op(op: &str, args: &[Arg<Tensor>], dtype: DType, sizes: &[i64]) -> Vec<Tensor> {
    let name = op.strip_prefix("aten::").or_else(|| op.strip_prefix("mine::")).unwrap_or(op);
    let tensor = |i: usize| args[i].as_tensor().expect("a tensor");
    let int = |i: usize| args[i].as_int().expect("an integer");
    let element = |i: usize, at: &[i64]| match &args[i] {
        Arg::Tensor(t) => t.wide(at),
        Arg::Scalar(s) => *s,
        other => panic!("{other:?}"),
    };
    let one = |t: Tensor| vec![t];
    match name {
        "mm" | "bmm" => {
            let (a, b) = (tensor(0), tensor(1));
            let k = *a.sizes.last().expect("rank");
            one(Tensor::from_fn(dtype, sizes, |at| {
                let (lead, mn) = at.split_at(at.len() - 2);
                let mut sum = 0.0;
                for i in 0..k {
                    let x = a.at(&[lead, &[mn[0], i]].concat()).as_f64();
                    let y = b.at(&[lead, &[i, mn[1]]].concat()).as_f64();
                    sum += x * y;
                }
                Scalar::Float(sum).cast(dtype)
            }))
        }
        "convolution" => {
            let (x, w) = (tensor(0), tensor(1));
            let [stride, padding, dilation] =
                [3, 4, 5].map(|i| args[i].as_ints().expect("numbers"));
            let rank = stride.len();
            let groups = x.sizes[1] / w.sizes[1];
            one(Tensor::from_fn(dtype, sizes, |at| {
                let mut sum = args[2].as_tensor().map_or(0.0, |b| b.at(&at[1..2]).as_f64());
                let group = at[1] / (w.sizes[0] / groups);
                w.each(|tap, factor| {
                    let mut from = vec![at[0], group * w.sizes[1] + tap[1]];
                    from.extend(
                        (0..rank)
                            .map(|d| at[d + 2] * stride[d] + tap[d + 2] * dilation[d] - padding[d]),
                    );
                    let inside = from.iter().zip(&x.sizes).all(|(i, n)| (0..*n).contains(i));
                    if tap[0] == at[1] && inside {
                        sum += x.at(&from).as_f64() * factor.as_f64();
                    }
                });
                Scalar::Float(sum).cast(dtype)
            }))
        }
        "add.Tensor" | "sub.Tensor" | "mul.Tensor" | "div.Tensor" | "maximum" | "add.Scalar" => {
            one(Tensor::from_fn(dtype, sizes, |at| {
                let (a, b) = (element(0, at).cast(dtype), element(1, at).cast(dtype));
                if dtype == DType::I64 {
                    let (a, b) = (a.as_i64(), b.as_i64());
                    return Scalar::Int(match &name[..3] {
                        "add" => a.wrapping_add(b),
                        "sub" => a.wrapping_sub(b),
                        "mul" => a.wrapping_mul(b),
                        _ => a.max(b),
                    });
                }
                let (a, b) = (a.as_f64(), b.as_f64());
                Scalar::Float(match &name[..3] {
                    "add" => a + b,
                    "sub" => a - b,
                    "mul" => a * b,
                    "div" => a / b,
                    _ if a.is_nan() || b.is_nan() => f64::NAN,
                    _ => a.max(b),
                })
                .cast(dtype)
            }))
        }
        "lt.Tensor" => one(Tensor::from_fn(dtype, sizes, |at| {
            Scalar::Bool(element(0, at).as_f64() < element(1, at).as_f64())
        })),
        "where.self" => one(Tensor::from_fn(dtype, sizes, |at| {
            let i = if element(0, at).as_bool() { 1 } else { 2 };
            element(i, at).cast(dtype)
        })),
        "sum.dim_IntList" | "amax" | "amin" | "argmax" | "mean.dim" => {
            let x = tensor(0);
            let dims = dims_of(args.get(1), x.sizes.len());
            let keep = args.get(2).and_then(Arg::as_bool).unwrap_or(false);
            let inner: Vec<i64> = dims.iter().map(|d| x.sizes[*d]).collect();
            one(Tensor::from_fn(dtype, sizes, |at| {
                let mut full = vec![0; x.sizes.len()];
                let mut next = 0;
                for d in 0..x.sizes.len() {
                    if !dims.contains(&d) {
                        full[d] = at[if keep { d } else { next }];
                        next += 1;
                    }
                }
                let mut all = Vec::new();
                Tensor::from_fn(dtype, &inner, |r| {
                    for (d, i) in dims.iter().zip(r) {
                        full[*d] = *i;
                    }
                    all.push(x.at(&full));
                    Scalar::Int(0)
                });
                let f = all.iter().map(|s| s.as_f64());
                let nan = f.clone().any(f64::is_nan);
                match name {
                    "sum.dim_IntList" if dtype == DType::I64 => {
                        Scalar::Int(all.iter().fold(0, |a, b| a.wrapping_add(b.as_i64())))
                    }
                    "sum.dim_IntList" => Scalar::Float(f.sum()).cast(dtype),
                    "mean.dim" => {
                        let sum = Scalar::Float(f.sum()).cast(dtype).as_f64();
                        Scalar::Float(sum / all.len() as f64).cast(dtype)
                    }
                    "argmax" => {
                        let mut best = 0;
                        for (i, x) in f.clone().enumerate() {
                            let b = all[best].as_f64();
                            if !b.is_nan() && (x.is_nan() || x > b) {
                                best = i;
                            }
                        }
                        Scalar::Int(best as i64)
                    }
                    _ if nan => Scalar::Float(f64::NAN),
                    "amax" => Scalar::Float(f.fold(f64::NEG_INFINITY, f64::max)).cast(dtype),
                    _ => Scalar::Float(f.fold(f64::INFINITY, f64::min)).cast(dtype),
                }
            }))
        }
        "view" | "reshape" | "_unsafe_view" => {
            one(Tensor { dtype, sizes: sizes.to_vec(), data: tensor(0).data.clone() })
        }
        "expand" => one(Tensor::from_fn(dtype, sizes, |at| tensor(0).wide(at))),
        "permute" => {
            let dims = dims_of(args.get(1), sizes.len());
            one(Tensor::from_fn(dtype, sizes, |at| {
                let mut from = vec![0; at.len()];
                for (i, d) in dims.iter().enumerate() {
                    from[*d] = at[i];
                }
                tensor(0).at(&from)
            }))
        }
        "t" => one(Tensor::from_fn(dtype, sizes, |at| tensor(0).at(&[at[1], at[0]]))),
        "slice.Tensor" => one(Tensor::from_fn(dtype, sizes, |at| {
            let mut from = at.to_vec();
            let d = int(1) as usize;
            from[d] = int(2) + from[d] * int(4);
            tensor(0).at(&from)
        })),
        "select.int" => one(Tensor::from_fn(dtype, sizes, |at| {
            let mut from = at.to_vec();
            from.insert(int(1) as usize, int(2));
            tensor(0).at(&from)
        })),
        "unsqueeze" => one(Tensor::from_fn(dtype, sizes, |at| {
            let mut from = at.to_vec();
            from.remove(int(1) as usize);
            tensor(0).at(&from)
        })),
        "squeeze.dim" => one(Tensor::from_fn(dtype, sizes, |at| {
            let mut from = at.to_vec();
            let d = int(1) as usize;
            if tensor(0).sizes.len() != at.len() {
                from.insert(d, 0);
            }
            tensor(0).at(&from)
        })),
        "cat" => {
            let Arg::Tensors(list) = &args[0] else { panic!("cat of a list") };
            let d = int(1) as usize;
            one(Tensor::from_fn(dtype, sizes, |at| {
                let mut from = at.to_vec();
                for x in list.iter().flatten() {
                    if from[d] < x.sizes[d] {
                        return x.at(&from);
                    }
                    from[d] -= x.sizes[d];
                }
                panic!("cat of too little")
            }))
        }
        "slice_scatter" => {
            let (d, start, end, step) = (int(2) as usize, int(3), int(4), int(5));
            one(Tensor::from_fn(dtype, sizes, |at| {
                let i = at[d] - start;
                if i >= 0 && at[d] < end && i % step == 0 {
                    let mut from = at.to_vec();
                    from[d] = i / step;
                    return tensor(1).at(&from);
                }
                tensor(0).at(at)
            }))
        }
        "select_scatter" => {
            let (d, index) = (int(2) as usize, int(3));
            one(Tensor::from_fn(dtype, sizes, |at| {
                if at[d] == index {
                    let mut from = at.to_vec();
                    from.remove(d);
                    return tensor(1).at(&from);
                }
                tensor(0).at(at)
            }))
        }
        "constant_pad_nd" => {
            let pad = args[1].as_ints().expect("pads");
            let x = tensor(0);
            let rank = sizes.len();
            one(Tensor::from_fn(dtype, sizes, |at| {
                let mut from = at.to_vec();
                for (i, p) in pad.chunks(2).enumerate() {
                    from[rank - 1 - i] -= p[0];
                }
                let inside = from.iter().zip(&x.sizes).all(|(i, n)| (0..*n).contains(i));
                match inside {
                    true => x.at(&from),
                    false => args[2].as_scalar().expect("a value").cast(dtype),
                }
            }))
        }
        "embedding" => one(Tensor::from_fn(dtype, sizes, |at| {
            let (lead, last) = at.split_at(at.len() - 1);
            tensor(0).at(&[tensor(1).at(lead).as_i64(), last[0]])
        })),
        "index_select" => one(Tensor::from_fn(dtype, sizes, |at| {
            let mut from = at.to_vec();
            let d = int(1) as usize;
            from[d] = tensor(2).at(&[at[d]]).as_i64();
            tensor(0).at(&from)
        })),
        "gather" => one(Tensor::from_fn(dtype, sizes, |at| {
            let mut from = at.to_vec();
            from[int(1) as usize] = tensor(2).at(at).as_i64();
            tensor(0).at(&from)
        })),
        _ if name.starts_with("scatter") => one(super::scatters::eval(name, args)),
        "index_add" | "index_copy" | "index_put" => one(super::scatters::eval(name, args)),
        "flip" => one(Tensor::from_fn(dtype, sizes, |at| {
            let mut from = at.to_vec();
            for d in args[1].as_ints().expect("dims") {
                let d = d as usize;
                from[d] = sizes[d] - 1 - at[d];
            }
            tensor(0).at(&from)
        })),
        _ if name.starts_with("reflection_pad") || name.starts_with("replication_pad") => {
            let (x, pad) = (tensor(0), args[1].as_ints().expect("a pad"));
            one(Tensor::from_fn(dtype, sizes, |at| {
                let mut from = at.to_vec();
                for (k, around) in pad.chunks(2).enumerate() {
                    let d = at.len() - 1 - k;
                    let (i, last) = (at[d] - around[0], x.sizes[d] - 1);
                    from[d] = match name.starts_with("reflection") {
                        true => last - (i.abs() - last).abs(),
                        false => i.clamp(0, last),
                    };
                }
                x.at(&from)
            }))
        }
        _ if name.contains("upsample_nearest") => {
            // sizes are small: exact in fractions
            let x = tensor(0);
            one(Tensor::from_fn(dtype, sizes, |at| {
                let mut from = at.to_vec();
                for d in 2..at.len() {
                    let (n, m) = (x.sizes[d], sizes[d]);
                    from[d] = match name.contains("exact") {
                        true => (2 * at[d] + 1) * n / (2 * m),
                        false => at[d] * n / m,
                    };
                }
                x.at(&from)
            }))
        }
        "tril" => one(Tensor::from_fn(dtype, sizes, |at| {
            let r = at.len() - 2;
            match at[r + 1] <= at[r] + int(1) {
                true => tensor(0).at(at),
                false => Scalar::Int(0).cast(dtype),
            }
        })),
        "full" => one(Tensor::from_fn(dtype, sizes, |_| {
            args[1].as_scalar().expect("a number").cast(dtype)
        })),
        _ => one(Tensor::from_fn(dtype, sizes, |at| {
            let x = element(0, at);
            if !dtype.is_floating() {
                return x.cast(dtype);
            }
            let y = float(name, x.as_f64()).unwrap_or_else(|| panic!("{op} is not known here"));
            Scalar::Float(y).cast(dtype)
        })),
    }
}

/// The values of the graph's outputs.
pub(super) fn eval(graph: &Graph, inputs: &[Tensor], parameters: &[Tensor]) -> Vec<Tensor> {
    let mut values: HashMap<ValueRef, Tensor> = HashMap::new();
    for id in graph.topological() {
        let node = graph.node(id);
        let results = match &node.kind {
            NodeKind::Output => continue,
            NodeKind::Input => {
                let i = graph.inputs().iter().position(|n| *n == id);
                vec![inputs[i.expect("listed")].clone()]
            }
            NodeKind::Parameter => {
                let i = graph.parameters().iter().position(|n| *n == id);
                vec![parameters[i.expect("listed")].clone()]
            }
            NodeKind::Constant(c) => {
                let m = &node.results[0];
                let mut i = 0;
                vec![Tensor::from_fn(m.dtype, &m.sizes, |_| {
                    i += 1;
                    match c {
                        Constant::Splat(s) => s.cast(m.dtype),
                        Constant::Elements(e) => e[i - 1].cast(m.dtype),
                    }
                })]
            }
            NodeKind::Call(_) => {
                let (op, args) = graph.call_args(id).expect("a call");
                let args: Vec<Arg<Tensor>> =
                    args.iter().map(|a| a.map(|v| values[v].clone())).collect();
                let m = &node.results[0];
                eval_op(op.name(), &args, m.dtype, &m.sizes)
            }
        };
        for (index, t) in results.into_iter().enumerate() {
            let index = index as u32;
            values.insert(ValueRef { node: id, index }, t);
        }
    }
    graph.outputs().iter().map(|v| values[v].clone()).collect()
}
