//! Conjugate and negative views, and tensors over each other, within compiled functions: what eager
//! execution makes of them.

use num_complex::Complex;
use straightline::ops::aten;
use straightline::{DType, Result, Scalar, Tensor, compile};

/// Calls `f` on tensors of `make`, eagerly and compiled twice, and compares sizes, strides and
/// elements of results and arguments.
fn agree(
    make: impl Fn() -> Result<Vec<Tensor>>,
    f: impl Fn(&Vec<Tensor>) -> Result<Vec<Tensor>> + Clone + Send + Sync + 'static,
) {
    let eagerly = make().unwrap();
    let want = f(&eagerly).unwrap();
    let compiled = compile(f);
    for _ in 0..2 {
        let arguments = make().unwrap();
        let got = compiled.call(&arguments).unwrap();
        let pairs = got.iter().zip(&want).chain(arguments.iter().zip(&eagerly));
        for (got, want) in pairs {
            assert_eq!(got.sizes(), want.sizes());
            assert_eq!(got.strides(), want.strides());
            let values = |t: &Tensor| t.to_dtype(DType::C128)?.to_vec::<Complex<f64>>();
            assert_eq!(values(got).unwrap(), values(want).unwrap());
        }
    }
}

#[test]
fn a_negative_view_is_converted_before_it_is_negated() {
    let make = |dtype: DType| {
        move || {
            let x = Tensor::from_vec([1u8, 0, 200], 3)?;
            Ok(vec![x, Tensor::with(dtype).ones([3])?])
        }
    };
    for dtype in [DType::F32, DType::I64, DType::U8] {
        agree(make(dtype), |t| {
            t[1].copy_(&aten::_neg_view(&t[0])?)?;
            Ok(vec![])
        });
        agree(make(dtype), |t| {
            aten::_neg_view(&t[1])?.copy_(&aten::_neg_view(&t[0])?)?;
            Ok(vec![])
        });
        agree(make(dtype), |t| {
            aten::_neg_view(&t[1])?.copy_(&t[0])?;
            Ok(vec![])
        });
    }
}

#[test]
fn results_are_laid_out_as_of_resolved_operands() {
    // expanded, and in another order than row-major
    let complex = || {
        let row: Vec<_> = (0..24).map(|i| Complex::new(i as f32, 1.0)).collect();
        let row = Tensor::from_vec(row, -1)?;
        let x = aten::as_strided(&row, &[2, 2, 2, 2], &[4, 0, 2, 8], None)?;
        Ok(vec![x])
    };
    agree(complex, |t| Ok(vec![aten::fft_hfft(&t[0], None, -1, None)?]));
    agree(complex, |t| {
        let x = t[0].conj()?;
        Ok(vec![x.mul(&x)?, x.abs()?, aten::cat(&[x.clone(), x], 1)?])
    });
    let real = || {
        let row = Tensor::from_vec((0..24i16).collect::<Vec<_>>(), -1)?;
        Ok(vec![aten::as_strided(&row, &[4, 3], &[6, 2], None)?])
    };
    agree(real, |t| {
        let x = aten::_neg_view(&t[0])?.narrow(1, 2, 1)?.transpose(0, 1)?;
        let difference = aten::sub_tensor(&x, &x, Scalar::Int(1))?;
        let wide = aten::view_dtype(&difference, DType::I64)?;
        Ok(vec![difference, wide])
    });
}

#[test]
fn an_out_over_an_operand_is_refused_both_ways() {
    let f = |t: &Vec<Tensor>| {
        let index = Tensor::from_vec([6i64], 1)?;
        aten::index_select_out(&t[0], 0, &index, &t[1])
    };
    let make = || {
        let row = Tensor::with(DType::F32).ones([64]).unwrap();
        let x = row.reshape([8, 8]).unwrap();
        vec![x, aten::as_strided(&row, &[1, 8], &[8, 1], Some(8)).unwrap()]
    };
    let eager = f(&make()).unwrap_err();
    assert!(eager.to_string().contains("single memory location"), "{eager}");
    let compiled = compile(f).call(&make()).unwrap_err();
    assert!(compiled.to_string().contains("single memory location"), "{compiled}");
    // one of them closed over
    let [x, out] = &make()[..] else { unreachable!("two were made") };
    let closed = x.clone();
    let g = compile(move |out: &Tensor| f(&vec![closed.clone(), out.clone()]));
    let compiled = g.call(out).unwrap_err();
    assert!(compiled.to_string().contains("single memory location"), "{compiled}");
}
