//! Half types with a 0-dim operand of another type. PyTorch's kernels of products and quotients
//! take such a second operand as `f32` and do not round it first; all others round it, and these a
//! first operand. Values printed by PyTorch 2.15.

use straightline::dispatch::{Value, operator};
use straightline::{DType, Result, Tensor, compile, ops, tensor};

fn call(op: &str, args: &[&Tensor], more: &[Value]) -> Result<Tensor> {
    let mut stack: Vec<Value> = args.iter().map(|t| Value::Tensor((*t).clone())).collect();
    stack.extend_from_slice(more);
    operator(op)?.call_boxed(&mut stack)?;
    Ok(stack.remove(0).as_tensor().expect("a tensor").clone())
}

#[test]
fn products_and_quotients_keep_the_second_operand() -> Result<()> {
    const INF: f64 = f64::INFINITY;
    let x = [0.1, 3.0, 1000.0, -0.7];
    let floor = [Value::String("floor".into())];
    let trunc = [Value::String("trunc".into())];
    let alpha = [Value::Int(1)];
    let third = 1.0 / 3.0;
    type Row<'a> = (&'static str, f64, bool, &'a [Value], [f64; 4]);
    let f16: [Row; 10] = [
        ("aten::mul.Tensor", 70000.0, true, &[], [7000.0, INF, INF, -49024.0]),
        ("aten::mul.Tensor", 70000.0, false, &[], [INF, INF, INF, -INF]),
        ("aten::div.Tensor", third, true, &[], [0.2998046875, 9.0, 3000.0, -2.1015625]),
        (
            "aten::div.Tensor",
            third,
            false,
            &[],
            [3.333984375, 0.111083984375, 0.0003333091735839844, -0.475830078125],
        ),
        ("aten::div.Tensor_mode", third, true, &floor, [0.0, 8.0, 3000.0, -3.0]),
        ("aten::div.Tensor_mode", third, true, &trunc, [0.0, 9.0, 3000.0, -2.0]),
        ("aten::mul_.Tensor", 70000.0, true, &[], [7000.0, INF, INF, -49024.0]),
        ("aten::add.Tensor", 70000.0, true, &alpha, [INF; 4]),
        ("aten::sub.Tensor", 70000.0, true, &alpha, [-INF; 4]),
        ("aten::maximum", 70000.0, true, &[], [INF; 4]),
    ];
    for (op, number, second, more, expected) in f16 {
        let of = |s: &Tensor, x: &Tensor| match second {
            true => call(op, &[x, s], more),
            false => call(op, &[s, x], more),
        };
        for wide in [DType::F32, DType::F64] {
            let s = Tensor::with(wide).literal(number)?;
            let x = || Tensor::with(DType::F32).literal(x)?.to_dtype(DType::F16);
            let eager = of(&s, &x()?)?;
            let more = more.to_vec();
            let f = compile(move |s: &Tensor, x: &Tensor| match second {
                true => call(op, &[x, s], &more),
                false => call(op, &[s, x], &more),
            });
            let compiled = f.call((&s, &x()?))?;
            for (how, y) in [("eager", eager), ("compiled", compiled)] {
                assert_eq!(y.dtype(), DType::F16);
                let y = y.to_dtype(DType::F64)?.to_vec::<f64>()?;
                assert_eq!(y, expected, "{op} {number} {how}, {wide}");
            }
        }
    }
    Ok(())
}

#[test]
fn numbers_are_kept_as_well_and_sums_round_them() -> Result<()> {
    let x = Tensor::with(DType::F32).literal([3.0, 0.1])?.to_dtype(DType::F16)?;
    let third = 1.0 / 3.0;
    let f = compile(move |x: &Tensor| {
        Ok((
            call(
                "aten::div.Scalar_mode",
                &[x],
                &[Value::Double(third), Value::String("floor".into())],
            )?,
            x.mul(70000.0)?,
            Tensor::ones([2])?.to_dtype(DType::F16)?.add(third)?,
        ))
    });
    let (eager, compiled) = (f.eager(&x)?, f.call(&x)?);
    for (floor, product, sum) in [eager, compiled] {
        let values = |t: Tensor| t.to_dtype(DType::F32)?.to_vec::<f32>();
        assert_eq!(values(floor)?, [8.0, 0.0]);
        assert_eq!(values(product)?, [f32::INFINITY, 7000.0]);
        assert_eq!(values(sum)?, [1.3330078; 2]);
    }
    // a second operand with dimensions decides the dtype
    assert_eq!(x.mul(&tensor([2.0])?)?.dtype(), DType::F32);
    Ok(())
}

/// The sum of a product and a row is rounded once, in a step that reads its weight as it was packed.
#[test]
fn a_linear_layer_of_halves_is_one_step() -> Result<()> {
    let number = |i: usize| ((i * 37 + 11) % 101) as f64 / 50.0 - 1.0;
    let made = |sizes: [i64; 2], dtype| {
        let n = (sizes[0] * sizes[1]) as usize;
        Tensor::from_vec((0..n).map(number).collect::<Vec<f64>>(), sizes)?.to_dtype(dtype)
    };
    for dtype in [DType::BF16, DType::F16] {
        let (w, b) = (made([24, 40], dtype)?, made([1, 24], dtype)?.reshape(-1)?);
        for rows in [1, 3, 70] {
            let x = made([rows, 40], dtype)?;
            let eager = ops::aten::linear(&x, &w, Some(&b))?;
            let (w, b) = (w.clone(), b.clone());
            let f = compile(move |x: &Tensor| ops::aten::linear(x, &w, Some(&b)));
            for _ in 0..2 {
                let y = f.call(&x)?;
                let bits = |t: &Tensor| t.to_dtype(DType::F64)?.to_vec::<f64>();
                assert_eq!(bits(&y)?, bits(&eager)?, "{dtype} {rows}");
            }
            let why = f.explain().to_string();
            assert!(why.contains("packed weights") && why.contains("steps: 0 generated"), "{why}");
        }
    }
    Ok(())
}
