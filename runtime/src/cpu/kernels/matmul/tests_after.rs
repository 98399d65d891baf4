//! What follows a stored product, against the scalar formulas element by element.

use super::tests_packed::ACTIVATIONS;
use super::*;
use crate::cpu::math::{Fn1, Scalar32, Scalar64, functions};
use ::half::{bf16, f16};

fn function(a: Activation) -> Option<Fn1> {
    match a {
        Activation::None | Activation::Relu => None,
        Activation::GeluErf => Some(Fn1::GeluErf),
        Activation::GeluTanh => Some(Fn1::GeluTanh),
        Activation::Silu => Some(Fn1::Silu),
        Activation::Tanh => Some(Fn1::Tanh),
        Activation::Sigmoid => Some(Fn1::Sigmoid),
    }
}

macro_rules! scalar {
    ($name:ident, $t:ty, $prims:ident) => {
        fn $name(a: Activation, x: $t) -> $t {
            let mut p = $prims;
            match function(a) {
                Some(f) => f.build(&mut p, x),
                None if a == Activation::Relu => functions::maximum(&mut p, x, 0.0),
                None => x,
            }
        }
    };
}

scalar!(activate32, f32, Scalar32);
scalar!(activate64, f64, Scalar64);

/// A matrix in memory: where its elements are, in a buffer that is larger.
#[derive(Clone, Copy, Debug)]
struct Layout {
    row: usize,
    col: usize,
    len: usize,
}

fn layouts(m: usize, n: usize) -> [Layout; 4] {
    [
        Layout { row: n, col: 1, len: m * n },
        Layout { row: n + 3, col: 1, len: m * (n + 3) },
        Layout { row: 1, col: m, len: m * n },
        Layout { row: 2 * n, col: 2, len: 2 * m * n },
    ]
}

fn check<T: Copy>(
    dtype: DType,
    of: fn(f64) -> T,
    bits: fn(T) -> u64,
    want: fn(Activation, T, Option<T>) -> T,
) {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e-30, 88.0, -104.0];
    let number = |i: usize| match i % 11 {
        10 => special[(i / 11) % special.len()],
        _ => ((i * 7919) % 4001) as f64 / 250.0 - 8.0,
    };
    for (m, n) in [(1, 1), (3, 7), (5, 16), (4, 33), (2, 100), (1, 0)] {
        for (at, to) in layouts(m, n).into_iter().enumerate() {
            for beside in layouts(m, n).into_iter().map(Some).chain([None]) {
                let activation = ACTIVATIONS[(m + n + at + beside.map_or(0, |b| b.row)) % 7];
                let mut c: Vec<T> = (0..to.len).map(|i| of(number(i))).collect();
                let r: Vec<T> =
                    (0..to.len.max(2 * m * n + 3 * m)).map(|i| of(number(i + 5))).collect();
                let before = c.clone();
                let out =
                    MatMut::new(c.as_mut_ptr().cast(), (m, n), (to.row as isize, to.col as isize));
                let residual = beside.map(|b| {
                    MatRef::new(r.as_ptr().cast(), (m, n), (b.row as isize, b.col as isize))
                });
                // SAFETY: views of the two buffers.
                unsafe { finish(dtype, activation, out, residual) };
                let mut after = before.clone();
                for i in 0..m {
                    for j in 0..n {
                        let x = &mut after[i * to.row + j * to.col];
                        *x = want(activation, *x, beside.map(|b| r[i * b.row + j * b.col]));
                    }
                }
                let same = c.iter().zip(&after).all(|(x, y)| bits(*x) == bits(*y));
                assert!(same, "{dtype} {m}x{n} {activation:?} {to:?} {beside:?}");
            }
        }
    }
}

/// NaNs compare as NaNs: which one an operation gives of two is not defined.
macro_rules! number_bits {
    ($t:ty) => {
        |x: $t| if x.is_nan() { u64::MAX } else { u64::from(x.to_bits()) }
    };
}

macro_rules! half_want {
    ($t:ty) => {
        |a, x: $t, r: Option<$t>| {
            let y = <$t>::from_f32(activate32(a, x.to_f32()));
            r.map_or(y, |r| <$t>::from_f32(y.to_f32() + r.to_f32()))
        }
    };
}

#[test]
fn rows_are_finished_as_the_scalar_formulas_say() {
    let want = |a, x, r: Option<f32>| r.map_or(activate32(a, x), |r| activate32(a, x) + r);
    check::<f32>(DType::F32, |x| x as f32, number_bits!(f32), want);
    let want = |a, x, r: Option<f64>| r.map_or(activate64(a, x), |r| activate64(a, x) + r);
    check::<f64>(DType::F64, |x| x, |x| if x.is_nan() { u64::MAX } else { x.to_bits() }, want);
    check::<f16>(DType::F16, |x| f16::from_f32(x as f32), number_bits!(f16), half_want!(f16));
    check::<bf16>(DType::BF16, |x| bf16::from_f32(x as f32), number_bits!(bf16), half_want!(bf16));
}

/// More rows than one thread is given; the residual is the result itself.
#[test]
fn many_rows_are_finished_in_parts() {
    let (m, n) = (300, 129);
    let before: Vec<f32> = (0..m * n).map(|i| (i % 613) as f32 / 40.0 - 7.0).collect();
    let mut c = before.clone();
    let out = MatMut::row_major(c.as_mut_ptr().cast(), m, n);
    // SAFETY: a dense matrix.
    unsafe { finish(DType::F32, Activation::GeluErf, out, Some(out.as_ref())) };
    let want = |x: &f32| activate32(Activation::GeluErf, *x) + x;
    assert!(c.iter().zip(&before).all(|(y, x)| y.to_bits() == want(x).to_bits()));
}
