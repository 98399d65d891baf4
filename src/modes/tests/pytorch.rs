//! What a mode sees of small programs, against what PyTorch's `TorchDispatchMode` sees of them:
//! `tests/data/dispatch_mode_calls.txt`, made by the script beside it.

use super::*;
use crate::dispatch::Value;
use crate::ops::aten;
use straightline_catalog::{DType, Scalar};

type Program = fn(&Tensor, &Tensor, &Tensor) -> Result<()>;

fn number(x: impl Into<Scalar>) -> Tensor {
    Tensor::wrapped_number(x).unwrap()
}

const TWO: Scalar = Scalar::Int(2);
const ZERO: Scalar = Scalar::Int(0);
const ONE: Scalar = Scalar::Int(1);

const PROGRAMS: &[(&str, Program)] = &[
    ("linear", |x, w, b| aten::linear(x, w, Some(b)).map(drop)),
    ("linear_no_bias", |x, w, _| aten::linear(x, w, None).map(drop)),
    ("linear_3d", |x, w, _| aten::linear(&x.unsqueeze(0)?, w, None).map(drop)),
    ("matmul_3d", |x, w, _| aten::matmul(&x.reshape(&[1, 2, 3])?, &w.t()?).map(drop)),
    ("attention", |x, _, _| {
        let q = x.reshape(&[1, 2, 3])?;
        let scores = aten::matmul(&q, &aten::transpose_int(&q, -1, -2)?)?;
        aten::matmul(&aten::softmax_int(&scores, -1, None)?, &q).map(drop)
    }),
    ("mlp", |x, w, b| aten::linear(x, w, Some(b))?.relu()?.sum().map(drop)),
    ("in_place", |x, _, _| {
        let x = aten::mul_tensor_(x, &number(2))?;
        aten::add_tensor_(&x, &x, ONE).map(drop)
    }),
    ("view_in_place", |x, _, _| {
        let row = aten::select_int(&x.view(&[3, 2])?, 0, 0)?;
        aten::mul_tensor_(&row, &number(2)).map(drop)
    }),
    ("scalars", |x, _, _| aten::mul_tensor(&aten::add_tensor(x, x, TWO)?, x).map(drop)),
    ("softmax", |x, _, _| {
        let x = aten::softmax_int(x, -1, None)?;
        aten::log_softmax_int(&x, 1, None).map(drop)
    }),
    ("layer_norm", |x, _, _| aten::layer_norm(x, &[3], None, None, 1e-5, true).map(drop)),
    ("reductions", |x, _, _| {
        x.sum()?;
        aten::sum_dim_int_list(x, Some(&[1]), false, None)?;
        aten::sum_dim_int_list(x, Some(&[1]), true, None)?;
        aten::mean_dim(x, Some(&[-1]), false, None)?;
        aten::amax(x, &[0], false)?;
        aten::max_dim(x, 1, false).map(drop)
    }),
    ("cat_stack", |x, _, _| {
        let list = [x.clone(), x.clone()];
        aten::cat(&list, 0)?;
        aten::stack(&list, 1).map(drop)
    }),
    ("shapes", |x, _, _| {
        aten::flatten_using_ints(x, 0, -1)?;
        aten::squeeze_dim(&x.unsqueeze(1)?, 1)?;
        aten::permute(x, &[1, 0])?;
        x.expand(&[2, 2, 3]).map(drop)
    }),
    ("pieces", |x, _, _| {
        aten::narrow(x, 1, 0, 2)?;
        aten::split_tensor(x, 1, 0)?;
        aten::unbind_int(x, 0).map(drop)
    }),
    ("casts", |x, _, _| {
        aten::to_dtype(x, DType::F64, false, false, None)?;
        aten::to_dtype(x, DType::F32, false, false, None)?;
        x.contiguous()?;
        x.t()?.contiguous()?;
        aten::clone(x, None).map(drop)
    }),
    ("choose", |x, _, _| {
        let positive = aten::gt_scalar(x, ZERO)?;
        let other = aten::clamp(x, Some(ZERO), Some(ONE))?;
        aten::where_self(&positive, x, &other).map(drop)
    }),
    ("masked", |x, _, _| {
        let positive = aten::gt_scalar(x, ZERO)?;
        aten::masked_fill_scalar(x, &positive, Scalar::Float(1.5)).map(drop)
    }),
    ("statistics", |x, _, _| {
        aten::var_dim(x, Some(&[1]), true, false)?;
        aten::std_correction(x, Some(&[1]), Some(ONE), false).map(drop)
    }),
    ("activations", |x, _, _| {
        aten::gelu(x, "none")?;
        aten::silu(x)?;
        aten::sigmoid(x)?;
        aten::square(x)?;
        aten::pow_tensor_scalar(x, TWO).map(drop)
    }),
    ("dropout_eval", |x, _, _| aten::dropout(x, 0.5, false).map(drop)),
    ("logic", |x, _, _| {
        aten::any(&aten::gt_scalar(x, ZERO)?)?;
        aten::all(&aten::isnan(x)?).map(drop)
    }),
];

/// The call as the script writes it.
fn text(call: &Call<'_>) -> String {
    fn one(v: &Value) -> String {
        let sizes = |t: &Tensor| format!("T{:?}", t.sizes()).replace(' ', "");
        match v {
            Value::Tensor(t) if t.is_wrapped_number() => t.item::<Scalar>().unwrap().to_string(),
            Value::Tensor(t) => sizes(t),
            Value::TensorList(l) => {
                format!("[{}]", l.iter().map(sizes).collect::<Vec<_>>().join(","))
            }
            Value::Double(x) if *x == 1e-5 => "1e-05".into(),
            Value::Double(x) => x.to_string(),
            Value::IntList(l) => format!("{l:?}").replace(' ', ""),
            other => crate::modes::show::value(other, &mut sizes.clone()),
        }
    }
    let (positional, keyword) = call.written();
    let mut args: Vec<String> = positional.into_iter().map(one).collect();
    args.extend(keyword.into_iter().map(|(k, v)| format!("{k}={}", one(v))));
    format!("  {}({})", call.op().name(), args.join(", "))
}

#[test]
fn modes_see_the_calls_that_pytorchs_modes_see() {
    let want = include_str!("../../../tests/data/dispatch_mode_calls.txt");
    let mut got = String::new();
    for (name, program) in PROGRAMS {
        got += &format!("{name}\n");
        let (x, w, b) = (ones(&[2, 3]), ones(&[4, 3]), ones(&[4]));
        let calls = log();
        let lines = calls.clone();
        let _mode = push_mode(from_fn(move |call: Call<'_>| {
            lines.borrow_mut().push(text(&call));
            Ok(call.forward()?.into())
        }));
        program(&x, &w, &b).unwrap_or_else(|e| panic!("{name}: {e}"));
        for line in taken(&calls) {
            got += &format!("{line}\n");
        }
    }
    assert_eq!(got.lines().collect::<Vec<_>>(), want.lines().collect::<Vec<_>>());
}
