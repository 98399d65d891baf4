//! Pools of windows at equal distances against what each window by itself gives, to the bit.

use super::super::operand::tests::{input_of, output_of};
use super::number::Number;
use super::taps::Taps;
use super::*;

/// Sizes, kernels, strides, padding and dilation of the three axes.
type Case = [[usize; 5]; 3];

fn output_size([n, kernel, stride, pad, dilation]: [usize; 5]) -> usize {
    (n + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1
}

fn axes(case: Case) -> [AxisWindows; 3] {
    case.map(|axis @ [n, kernel, stride, pad, dilation]| {
        AxisWindows::regular(n, output_size(axis), kernel, stride, pad, dilation)
    })
}

/// Calls `f` with the inside positions of each window of a plane, in order.
fn each_window(case: Case, mut f: impl FnMut(usize, &[usize])) {
    let sizes = case.map(output_size);
    let inside = |d: usize, o: usize| {
        let [n, kernel, stride, pad, dilation] = case[d];
        let at = (0..kernel).map(move |k| (o * stride + k * dilation) as i64 - pad as i64);
        at.filter(move |i| (0..n as i64).contains(i)).map(|i| i as usize).collect::<Vec<_>>()
    };
    let [_, [height, ..], [width, ..]] = case;
    for o in 0..sizes.iter().product() {
        let [d, h, w] = [o / (sizes[1] * sizes[2]), o / sizes[2] % sizes[1], o % sizes[2]];
        let mut all = Vec::new();
        for d in inside(0, d) {
            for h in inside(1, h) {
                all.extend(inside(2, w).into_iter().map(|w| (d * height + h) * width + w));
            }
        }
        f(o, &all);
    }
}

/// Random cases, among them those of networks.
fn cases() -> Vec<Case> {
    let line = |axis| [[1, 1, 1, 0, 1], [1, 1, 1, 0, 1], axis];
    let image = |axis| [[1, 1, 1, 0, 1], axis, axis];
    let mut cases = vec![
        image([112, 3, 2, 1, 1]),
        image([28, 2, 2, 0, 1]),
        image([17, 3, 1, 1, 1]),
        image([13, 13, 1, 6, 1]),
        line([100, 4, 5, 2, 1]),
        line([90, 3, 3, 1, 4]),
        line([67, 2, 4, 1, 3]),
        line([40, 7, 7, 3, 1]),
        line([33, 1, 2, 0, 1]),
    ];
    let mut state = 12345u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    while cases.len() < 120 {
        let case = [6, 9, 70].map(|most| {
            let (kernel, dilation) = (1 + random(5), 1 + random(3));
            [1 + random(most), kernel, 1 + random(5), random(kernel / 2 + 1), dilation]
        });
        let fits =
            |[n, kernel, _, pad, dilation]: [usize; 5]| n + 2 * pad > dilation * (kernel - 1);
        if case.into_iter().all(fits) {
            cases.push(case);
        }
    }
    cases
}

/// Few different numbers, so that windows have ties, with what is special about the type.
fn elements<T: Copy>(n: usize, special: &[T], of: fn(i64) -> T) -> Vec<T> {
    let mut state = 1u64;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let r = (state >> 33) as usize;
            if r.is_multiple_of(5) && !special.is_empty() {
                special[r / 5 % special.len()]
            } else {
                of((r / 8 % 9) as i64)
            }
        })
        .collect()
}

fn compare<T: super::super::operand::Element, A: Number>(
    special: &[T],
    of: fn(i64) -> T,
    wide: fn(T) -> A,
    bits: fn(T) -> u64,
) {
    const PLANES: usize = 3;
    for case in cases() {
        let axes = axes(case);
        let n: usize = case.iter().map(|[n, ..]| n).product();
        let m: usize = case.map(output_size).iter().product();
        let x = elements(PLANES * n, special, of);
        let (mut y, mut z) = (vec![of(1); PLANES * m], vec![of(2); PLANES * m]);
        let mut at = vec![-1i64; PLANES * m];
        let sizes = |n| ([PLANES as i64, n as i64], [n as i64, 1]);
        let (to, from) = (sizes(m), sizes(n));
        let input = || input_of(&x, from.0, from.1);
        let which = output_of(&mut at, to.0, to.1);
        max_pool([output_of(&mut y, to.0, to.1), which], input(), &axes).unwrap();
        max_pool_values(output_of(&mut z, to.0, to.1), input(), &axes).unwrap();
        for p in 0..PLANES {
            let x = &x[p * n..][..n];
            each_window(case, |o, inside| {
                let Some(mut best) = inside.first().copied() else {
                    return;
                };
                // -inf is larger than nothing: the first element stays
                for i in inside {
                    let (v, b) = (wide(x[*i]), wide(x[best]));
                    if v > b || v.is_nan() {
                        best = *i;
                    }
                }
                let o = p * m + o;
                assert_eq!((bits(y[o]), at[o]), (bits(x[best]), best as i64), "{case:?} {o}");
                assert_eq!(bits(z[o]), bits(x[best]), "{case:?} {o}");
            });
        }
    }
}

#[test]
fn maximum_pools_are_what_each_window_says() {
    let special = [f32::NAN, -f32::NAN, f32::NEG_INFINITY, f32::INFINITY, -0.0, 0.0];
    compare::<f32, f32>(&special, |i| i as f32 - 6.0, |x| x, |x| u64::from(x.to_bits()));
    // without NaN, where it would decide most windows
    compare::<f32, f32>(&special[2..], |i| i as f32 - 6.0, |x| x, |x| u64::from(x.to_bits()));
    let special = [f64::NAN, f64::NEG_INFINITY, -0.0, 0.0];
    compare::<f64, f64>(&special, |i| i as f64 - 6.0, |x| x, f64::to_bits);
    let half = ::half::bf16::from_f32;
    let special = [f32::NAN, f32::NEG_INFINITY, -0.0].map(half);
    let of = |i| ::half::bf16::from_f32(i as f32 - 6.0);
    compare::<::half::bf16, f32>(&special, of, |x| x.to_f32(), |x| u64::from(x.to_bits()));
    compare::<i64, i64>(&[i64::MIN, i64::MAX], |i| i - 6, |x| x, |x| x as u64);
    compare::<i32, i64>(&[i32::MIN], |i| i as i32 - 6, i64::from, |x| x as u64);
    compare::<u8, i64>(&[255], |i| i as u8, i64::from, u64::from);
}

#[test]
fn average_pools_are_what_each_window_says() {
    for case in cases() {
        let axes = axes(case);
        let n: usize = case.iter().map(|[n, ..]| n).product();
        let m: usize = case.map(output_size).iter().product();
        let special = [f32::INFINITY, -0.0, 1e30, -1e30, 1e-8];
        let x = elements(n, &special, |i| i as f32 / 7.0 - 0.5);
        let mut y = vec![7f32; m];
        avg_pool(
            output_of(&mut y, [1, m as i64], [m as i64, 1]),
            input_of(&x, [1, n as i64], [n as i64, 1]),
            &axes,
            Divisor::Fixed(3),
        )
        .unwrap();
        each_window(case, |o, inside| {
            let sum = inside.iter().fold(0f32, |sum, i| sum + x[*i]);
            let want = if inside.is_empty() { 0.0 } else { sum / 3.0 };
            assert_eq!(y[o].to_bits(), want.to_bits(), "{case:?} {o}");
        });
    }
}

/// Neither taps that are far apart nor strides that are long take memory for what is between.
#[test]
fn lines_are_no_longer_than_their_row() {
    let far = 1usize << 40;
    let windows = AxisWindows::regular(20, 20, 3, 1, far, far);
    assert!(Taps::new(&windows).is_none_or(|t| t.memory() < 1 << 12));
    let windows = AxisWindows::regular(20, 20, 3, far, 1, 1);
    assert!(Taps::new(&windows).is_none_or(|t| t.memory() < 1 << 12));
    // and the pool is still a pool
    let axes = [AxisWindows::none(), AxisWindows::none(), windows];
    let x: Vec<f32> = (0..20).map(|i| i as f32).collect();
    let (mut y, mut at) = ([0f32; 20], [0i64; 20]);
    let all = |y| output_of(y, [1, 20], [20, 1]);
    let which = output_of(&mut at, [1, 20], [20, 1]);
    max_pool([all(&mut y), which], input_of(&x, [1, 20], [20, 1]), &axes).unwrap();
    assert_eq!((y[0], at[0], y[1]), (1.0, 1, f32::NEG_INFINITY));
}
