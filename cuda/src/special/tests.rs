use super::*;
use crate::testing::{given, room, stream, taken};

fn of(stream: &Stream, function: Function, x: &[f64], y: &[f64], n: i64) -> (Vec<f64>, Vec<i32>) {
    let (a, b) = (given(stream, x), given(stream, y));
    let (out, second) = (room::<f64>(stream, x.len()), room::<i32>(stream, x.len()));
    let addresses = [a.address(), b.address(), out.address(), second.address()];
    let numbers = [x.len() as i64, n];
    // SAFETY: the memory is of these sizes.
    unsafe { apply(stream, function, DType::F64, numbers, addresses) }.expect("it is queued");
    (taken(stream, &out, x.len()), taken(stream, &second, x.len()))
}

/// Every function has a program, for each class of dtypes that it takes.
#[test]
fn every_function_compiles_for_its_dtypes() {
    let Some(stream) = stream() else { return };
    for function in Function::ALL {
        let dtypes = [DType::F16, DType::F32, DType::F64, DType::U8, DType::I64];
        for dtype in dtypes.into_iter().filter(|d| function.computes(*d)) {
            let memory = room::<f64>(&stream, 4);
            let at = |i: u64| memory.address() + 8 * i;
            // SAFETY: each operand has room for an element of any of the dtypes.
            unsafe { apply(&stream, *function, dtype, [1, 2], [at(0), at(1), at(2), at(3)]) }
                .expect("it is queued");
        }
    }
}

/// Values with closed forms, and those at borders.
#[test]
fn values_are_the_functions() {
    let Some(stream) = stream() else { return };
    let close = |function, x: &[f64], y: &[f64], n, want: &[f64]| {
        let (got, _) = of(&stream, function, x, y, n);
        for ((x, got), want) in x.iter().zip(&got).zip(want) {
            let same = got == want || (got.is_nan() && want.is_nan());
            assert!(
                same || (got - want).abs() < 4e-15 * want.abs().max(1.0),
                "{function:?}({x}): {got}, not {want}"
            );
        }
    };
    let (pi, nan, inf) = (std::f64::consts::PI, f64::NAN, f64::INFINITY);
    let euler = 0.577_215_664_901_532_9;
    close(
        Function::Digamma,
        &[1.0, 0.5, 2.0, 0.0, -1.0, inf],
        &[],
        0,
        &[-euler, -euler - 2.0 * 2f64.ln(), 1.0 - euler, -inf, nan, inf],
    );
    close(
        Function::Lgamma,
        &[1.0, 5.0, 0.5, -1.0],
        &[],
        0,
        &[0.0, 24f64.ln(), pi.sqrt().ln(), inf],
    );
    close(Function::Polygamma, &[1.0, 0.5], &[], 1, &[pi * pi / 6.0, pi * pi / 2.0]);
    close(Function::Zeta, &[2.0, 4.0, 1.0], &[1.0; 3], 0, &[pi * pi / 6.0, pi.powi(4) / 90.0, inf]);
    let e = (-1f64).exp();
    close(Function::Igamma, &[1.0, 0.0, 1.0], &[1.0, 1.0, -1.0], 0, &[1.0 - e, 1.0, nan]);
    close(Function::Igammac, &[1.0, 0.0, 1.0], &[1.0, 1.0, 0.0], 0, &[e, 0.0, 1.0]);
    close(Function::K1, &[0.0, -1.0, 1.0], &[], 0, &[inf, nan, 0.601_907_230_197_234_6]);
    close(Function::I0, &[0.0, 1.0], &[], 0, &[1.0, 1.266_065_877_752_008_4]);
    close(
        Function::AiryAi,
        &[0.0, 1.0],
        &[],
        0,
        &[0.355_028_053_887_817_2, 0.135_292_416_312_881_4],
    );
    close(
        Function::Nextafter,
        &[1.0, 0.0, 1.0],
        &[2.0, -1.0, 1.0],
        0,
        &[1.0 + f64::EPSILON, -5e-324, 1.0],
    );
    let (fractions, powers) = of(&stream, Function::Frexp, &[6.0, -0.25, 0.0, inf], &[], 0);
    assert_eq!((&fractions[..], &powers[..]), (&[0.75, -0.5, 0.0, inf][..], &[3, -1, 0, 0][..]));
}
