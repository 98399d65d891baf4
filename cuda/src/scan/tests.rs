use super::*;
use crate::testing::{given, numbers, room, stream, taken};

/// Runs a scan of `f64`, or of `i64` as such.
fn scanned<T: Copy + Default>(
    stream: &Stream,
    running: Running,
    dtype: DType,
    of: Extents,
    all: &[T],
) -> (Vec<T>, Vec<i64>) {
    let source = given(stream, all);
    let (values, indices) = (room::<T>(stream, all.len()), room::<i64>(stream, all.len()));
    let results = [values.address(), indices.address()];
    // SAFETY: the memory is of these sizes.
    unsafe { scan(stream, running, dtype, of, source.address(), results) }.expect("it is queued");
    (taken(stream, &values, all.len()), taken(stream, &indices, all.len()))
}

/// Each row in order, by a step of `f64`.
fn in_order(of: Extents, all: &[f64], step: impl Fn(f64, f64) -> f64, first: f64) -> Vec<f64> {
    let mut results = vec![0.0; all.len()];
    for row in 0..of.before * of.behind {
        let (before, behind) = (row / of.behind, row % of.behind);
        let mut sum = first;
        for i in 0..of.length {
            let at = ((before * of.length + i) * of.behind + behind) as usize;
            sum = step(sum, all[at]);
            results[at] = sum;
        }
    }
    results
}

const SHAPES: [Extents; 6] = [
    Extents { before: 3, length: 1, behind: 1 },
    Extents { before: 3, length: 70, behind: 1 },
    Extents { before: 2, length: 5000, behind: 1 },
    Extents { before: 3, length: 17, behind: 5 },
    Extents { before: 2, length: 3, behind: 300 },
    Extents { before: 1, length: 4097, behind: 1 },
];

#[test]
fn sums_and_products_are_those_of_a_loop() {
    let Some(stream) = stream() else { return };
    for of in SHAPES {
        let count = (of.before * of.length * of.behind) as usize;
        let all: Vec<f64> = numbers(1).take(count).map(|x| (x % 1000) as f64 - 500.0).collect();
        let (got, _) = scanned(&stream, Running::Sum, DType::F64, of, &all);
        // whole numbers: no rounding
        assert_eq!(got, in_order(of, &all, |a, b| a + b, 0.0), "{of:?}");
        let signs: Vec<f64> = all.iter().map(|x| if *x < 0.0 { -1.0 } else { 1.0 }).collect();
        let (got, _) = scanned(&stream, Running::Product, DType::F64, of, &signs);
        assert_eq!(got, in_order(of, &signs, |a, b| a * b, 1.0), "{of:?}");
        let small: Vec<f64> = all.iter().map(|x| x / 100.0).collect();
        let (got, _) = scanned(&stream, Running::LogSumExp, DType::F64, of, &small);
        let want = in_order(of, &small, |a, b| (a.exp() + b.exp()).ln(), f64::NEG_INFINITY);
        for (a, b) in got.iter().zip(&want) {
            assert!((a - b).abs() < 1e-9, "{a} {b} {of:?}");
        }
    }
}

#[test]
fn integers_wrap() {
    let Some(stream) = stream() else { return };
    let of = Extents { before: 1, length: 3000, behind: 1 };
    let all: Vec<i64> = numbers(2).take(3000).map(|x| x as i64 | 1).collect();
    for (running, f) in [
        (Running::Sum, i64::wrapping_add as fn(i64, i64) -> i64),
        (Running::Product, i64::wrapping_mul),
    ] {
        let (got, _) = scanned(&stream, running, DType::I64, of, &all);
        let mut sum = i64::from(running == Running::Product);
        for (i, x) in all.iter().enumerate() {
            sum = f(sum, *x);
            assert_eq!(got[i], sum, "{running:?} {i}");
        }
    }
    let narrow: Vec<i8> = all.iter().map(|x| *x as i8).collect();
    let (got, _) = scanned(&stream, Running::Sum, DType::I8, of, &narrow);
    let want = narrow.iter().scan(0i8, |sum, x| {
        *sum = sum.wrapping_add(*x);
        Some(*sum)
    });
    assert!(want.eq(got));
}

#[test]
fn extremes_have_the_last_place_and_nan_stays() {
    let Some(stream) = stream() else { return };
    for of in SHAPES {
        let count = (of.before * of.length * of.behind) as usize;
        let all: Vec<f64> = (numbers(7).take(count))
            .map(|x| if x % 500 == 0 { f64::NAN } else { (x % 60) as f64 })
            .collect();
        for running in [Running::Largest, Running::Smallest] {
            let (got, places) = scanned(&stream, running, DType::F64, of, &all);
            for row in 0..of.before * of.behind {
                let (before, behind) = (row / of.behind, row % of.behind);
                let mut best: Option<(f64, i64)> = None;
                for i in 0..of.length {
                    let at = ((before * of.length + i) * of.behind + behind) as usize;
                    let x = all[at];
                    best = match best {
                        Some((b, _)) if !x.is_nan() && b.is_nan() => best,
                        Some((b, _)) if running == Running::Largest && x < b => best,
                        Some((b, _)) if running == Running::Smallest && x > b => best,
                        _ => Some((x, i)),
                    };
                    let (value, place) = best.expect("one at least");
                    assert_eq!(places[at], place, "{of:?} {i}");
                    assert!(got[at] == value || got[at].is_nan() && value.is_nan());
                }
            }
        }
    }
}

#[test]
fn nothing_and_infinity_have_logarithms_of_sums() {
    let Some(stream) = stream() else { return };
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let of = Extents { before: 3, length: 4, behind: 1 };
    let all = [-inf, -inf, 1.0, 1.0, 0.0, inf, 0.0, inf, 0.0, nan, 0.0, 0.0];
    let (got, _) = scanned(&stream, Running::LogSumExp, DType::F32, of, &all);
    assert_eq!(got[..3], [-inf, -inf, 1.0]);
    assert!((got[3] - 1.693_147_2).abs() < 1e-6);
    assert_eq!(got[4..8], [0.0, inf, inf, inf]);
    assert!(got[8] == 0.0 && got[9..].iter().all(|x| x.is_nan()));
}

#[test]
fn kernels_have_enough_registers() {
    for running in [Running::Sum, Running::Largest, Running::LogSumExp] {
        for dtype in [DType::BF16, DType::F64] {
            crate::testing::assert_no_spills(
                &text(running, dtype).expect("it has scans"),
                &dtype.to_string(),
            );
        }
    }
}
