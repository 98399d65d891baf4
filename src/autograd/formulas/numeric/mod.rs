//! Formulas against central differences, without an engine: a rule is called as a node would call it.

mod networks;
mod nn;
mod spatial;

use crate::autograd::rule::{Backward, Grads, Options, Saved, What};
use crate::autograd::rules::RECORDED;
use crate::autograd::{enable_grad, no_grad};
use crate::dispatch::{Value, operator};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::schema::{FunctionSchema, SchemaType};
use straightline_catalog::{DType, Op, Scalar};

/// Numbers from -1 to 1 that are all different, the same in each run.
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn new() -> Numbers {
        Numbers(7)
    }

    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub(super) fn tensor(&mut self, sizes: &[i64]) -> Tensor {
        let n = sizes.iter().product::<i64>() as usize;
        let data: Vec<f64> = (0..n).map(|_| self.next()).collect();
        Tensor::from_vec(data, sizes).unwrap()
    }
}

/// Arguments: each is anything that a [`Value`] is made of.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { vec![$($crate::dispatch::Value::from($arg)),*] };
}
pub(super) use args;

pub(super) fn none() -> Value {
    Value::None
}

/// The results of a call, one after the other.
fn call(op: &str, args: &[Value]) -> Vec<Option<Tensor>> {
    let mut stack = args.to_vec();
    operator(op).unwrap().call_boxed(&mut stack).unwrap_or_else(|e| panic!("{op}: {e}"));
    (stack.into_iter())
        .map(|v| match v {
            Value::Tensor(t) => Some(t),
            _ => None,
        })
        .collect()
}

fn tensor(v: &Value) -> Option<&Tensor> {
    match v {
        Value::Tensor(t) => Some(t),
        _ => None,
    }
}

fn saved_argument(v: &Value, ty: &SchemaType) -> Saved {
    let scalar = matches!(ty.unwrap_optional(), SchemaType::Scalar);
    match v.clone() {
        Value::None => Saved::None,
        Value::Tensor(t) => Saved::Tensor(t),
        Value::TensorList(l) => Saved::Tensors(l),
        Value::OptionalTensorList(l) => Saved::OptionalTensors(l),
        Value::Int(n) if scalar => Saved::Scalar(Scalar::Int(n)),
        Value::Double(x) if scalar => Saved::Scalar(Scalar::Float(x)),
        Value::Int(n) => Saved::Int(n),
        Value::Double(x) => Saved::Float(x),
        Value::Bool(b) => Saved::Bool(b),
        Value::IntList(l) => Saved::Ints(l),
        Value::DoubleList(l) => Saved::Floats(l),
        Value::BoolList(l) => Saved::Bools(l),
        Value::DType(d) => Saved::DType(d),
        Value::String(s) => Saved::String(s),
        other => panic!("an argument of another type: {}", other.type_name()),
    }
}

fn saved(what: What, args: &[Value], results: &[Option<Tensor>], s: &FunctionSchema) -> Saved {
    let of = |at: usize, f: &dyn Fn(&Tensor) -> Saved| tensor(&args[at]).map_or(Saved::None, f);
    match what {
        What::Argument(at) => saved_argument(&args[at], &s.args[at].ty),
        What::Sizes(at) => of(at, &|t| Saved::Ints(t.sizes().to_vec())),
        What::Strides(at) => of(at, &|t| Saved::Ints(t.strides().to_vec())),
        What::DType(at) => of(at, &|t| Saved::DType(t.dtype())),
        What::Dim(at) => of(at, &|t| Saved::Int(t.dim() as i64)),
        What::Options(at) => {
            of(at, &|t| Saved::Options(Options { dtype: t.dtype(), device: t.device() }))
        }
        What::Result(at) => results[at].clone().map_or(Saved::None, Saved::Tensor),
        other => panic!("{other:?} of a list"),
    }
}

/// The product of results and what comes back to them, summed up.
fn weighed(results: &[Option<Tensor>], outputs: &[bool], grads: &[Option<Tensor>]) -> f64 {
    let differentiable = results.iter().zip(outputs).filter(|(_, d)| **d).map(|(r, _)| r);
    (differentiable.zip(grads))
        .filter_map(|(r, g)| Some((r.as_ref()?, g.as_ref()?)))
        .map(|(r, g)| {
            let product = aten::mul_tensor(r, g).unwrap();
            let sum = aten::sum(&product, Some(DType::F64)).unwrap();
            sum.item::<f64>().unwrap()
        })
        .sum()
}

/// A gradient of what was broadcast, summed up.
fn reduced(g: &Tensor, sizes: &[i64]) -> Tensor {
    let mut g = g.clone();
    while g.dim() > sizes.len() {
        g = aten::sum_dim_int_list(&g, Some(&[0]), false, None).unwrap();
    }
    for (d, n) in sizes.iter().enumerate() {
        if *n == 1 && g.sizes()[d] != 1 {
            g = aten::sum_dim_int_list(&g, Some(&[d as i64]), true, None).unwrap();
        }
    }
    g
}

/// Compares all gradients of a call with central differences. `again` makes arguments that are
/// functions of others anew.
pub(super) fn check_with(op: &str, args: Vec<Value>, again: impl Fn(&mut [Value])) {
    let name = format!("aten::{op}");
    let handle = operator(&name).unwrap();
    let schema = handle.schema().unwrap();
    assert_eq!(args.len(), schema.args.len(), "{op}: arguments");
    let recorded = RECORDED.iter().find(|(o, ..)| Some(*o) == Op::named(&name));
    let rule = recorded.unwrap_or_else(|| panic!("{op} has no rule")).1;
    let mut args = args;
    again(&mut args);
    let run = |args: &[Value]| {
        let mut args = args.to_vec();
        again(&mut args);
        // statistics that a call moves are its own
        for v in &mut args {
            if let Value::Tensor(t) = v {
                *t = aten::clone(t, None).unwrap();
            }
        }
        call(&name, &args)
    };
    let own =
        crate::autograd::forward::tests::differences(Op::named(&name).unwrap(), &args, &again);
    assert!(own.is_empty(), "{own:?}");
    let results = run(&args);
    let mut numbers = Numbers(99);
    let grads: Vec<Option<Tensor>> = (results.iter().zip(rule.outputs))
        .filter(|(_, differentiable)| **differentiable)
        .map(|(r, _)| {
            let r = r.as_ref()?;
            let g = numbers.tensor(r.sizes());
            Some(aten::to_dtype(&g, r.dtype(), false, false, None).unwrap())
        })
        .collect();
    let saved: Vec<Saved> =
        rule.saves.iter().map(|s| saved(s.what, &args, &results, schema)).collect();
    let floating = |at: &usize| tensor(&args[*at]).is_some_and(|t| t.dtype().is_floating());
    let unreadable = |at: usize| {
        // gradients that PyTorch does not have either
        ["save_mean", "save_invstd", "mean", "rstd"].contains(&schema.args[at].name.as_str())
    };
    let wanted = (rule.inputs.iter().enumerate())
        .filter(|(_, at)| floating(at) && !unreadable(**at))
        .fold(0u64, |bits, (slot, _)| bits | 1 << slot);
    let gradients = || {
        let mut out = Grads::default();
        let backward = Backward { grads: &grads, saved: &saved, wanted };
        (rule.backward)(&backward, &mut out).unwrap_or_else(|e| panic!("{op}: {e}"));
        out.given
    };
    // kernels of their own, and what can be differentiated again
    let forms = [no_grad(gradients), enable_grad(gradients)];
    for (slot, at) in rule.inputs.iter().enumerate() {
        if wanted & (1 << slot) == 0 {
            continue;
        }
        let arg = &schema.args[*at].name;
        let x = tensor(&args[*at]).unwrap();
        let found = forms.each_ref().map(|given| {
            let found = given.iter().find(|(s, _)| *s == slot).and_then(|(_, g)| g[0].clone());
            let Some(g) = found else { return vec![0.0; x.numel() as usize] };
            let g = reduced(&g, x.sizes());
            assert_eq!(g.sizes(), x.sizes(), "{op}: sizes of the gradient of {arg}");
            aten::to_dtype(&g, DType::F64, false, false, None).unwrap().to_vec::<f64>().unwrap()
        });
        let wide = x.dtype() == DType::F64;
        let (step, tolerance) = if wide { (1e-6, 2e-5) } else { (1e-2, 2e-2) };
        let data = aten::to_dtype(x, DType::F64, false, false, None).unwrap();
        let data = data.to_vec::<f64>().unwrap();
        for k in 0..data.len() {
            let moved = |by: f64| {
                let mut data = data.clone();
                data[k] += by;
                let t = Tensor::from_vec(data, x.sizes().to_vec()).unwrap();
                let mut args = args.clone();
                args[*at] =
                    Value::Tensor(aten::to_dtype(&t, x.dtype(), false, false, None).unwrap());
                weighed(&run(&args), rule.outputs, &grads)
            };
            let want = (moved(step) - moved(-step)) / (2.0 * step);
            for found in found.each_ref().map(|found| found[k]) {
                assert!(
                    (found - want).abs() <= tolerance * (1.0 + want.abs()),
                    "{op}: element {k} of the gradient of {arg} is {found}, differences give {want}"
                );
            }
        }
    }
}

pub(super) fn check(op: &str, args: Vec<Value>) {
    check_with(op, args, |_| {});
}
