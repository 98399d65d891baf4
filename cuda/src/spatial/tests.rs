use super::*;
use crate::testing::{given, numbers, room, stream, taken};

fn ran(
    stream: &Stream,
    operation: Operation,
    planes: &Planes,
    x: &[f64],
    count: usize,
) -> (Vec<f64>, Vec<i64>) {
    let x = given(stream, x);
    let (out, found) = (room::<f64>(stream, count), room::<i64>(stream, count));
    // SAFETY: the memory is of these sizes.
    unsafe { run(stream, operation, planes, x.address(), [out.address(), found.address()]) }
        .expect("it is queued");
    (taken(stream, &out, count), taken(stream, &found, count))
}

fn row(input: i64, output: i64) -> Planes {
    Planes { dtype: DType::F64, count: 2, input: [1, 1, input], output: [1, 1, output] }
}

fn windows(kernel: i64, stride: i64, pad: i64, dilation: i64) -> Windows {
    let last = |n, one| [one, one, n];
    Windows {
        kernel: last(kernel, 1),
        stride: last(stride, 1),
        pad: last(pad, 0),
        dilation: last(dilation, 1),
        with_pad: true,
        divisor: None,
    }
}

#[test]
fn pools_look_at_their_windows() {
    let Some(stream) = stream() else { return };
    let x = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, f64::NAN, 5.0, -3.0];
    let max = Operation::MaxPool(windows(3, 2, 1, 1));
    let (values, places) = ran(&stream, max, &row(5, 3), &x, 6);
    assert_eq!(values[..4], [3.0, 4.0, 5.0, 9.0]);
    assert!(values[4].is_nan() && values[5] == 5.0);
    assert_eq!(places, [0, 2, 4, 0, 2, 3]);
    let (values, _) = ran(&stream, Operation::MaxPool(windows(2, 1, 0, 3)), &row(5, 2), &x, 4);
    assert_eq!(values[..2], [3.0, 5.0]);
    let avg = windows(3, 2, 1, 1);
    let (values, _) = ran(&stream, Operation::AvgPool(avg), &row(5, 3), &x, 6);
    assert_eq!(values[..3], [4.0 / 3.0, 2.0, 2.0]);
    let inside = Windows { with_pad: false, ..avg };
    let (values, _) = ran(&stream, Operation::AvgPool(inside), &row(5, 3), &x, 6);
    assert_eq!(values[..3], [2.0, 2.0, 3.0]);
    let (values, _) = ran(&stream, Operation::AdaptiveAvgPool, &row(5, 3), &x, 6);
    assert_eq!(values[..3], [2.0, 2.0, 3.0]);
    let (values, places) = ran(&stream, Operation::AdaptiveMaxPool, &row(5, 3), &x, 6);
    assert_eq!((&values[..3], &places[..3]), (&[3.0, 4.0, 5.0][..], &[0, 2, 4][..]));
}

/// Each gradient is the transpose of its map: `<f(x), g> = <x, f'(g)>`.
#[test]
fn gradients_are_transposes() {
    let Some(stream) = stream() else { return };
    let planes = Planes { dtype: DType::F64, count: 2, input: [2, 5, 4], output: [3, 3, 6] };
    let pool = Windows {
        kernel: [2, 3, 2],
        stride: [1, 2, 1],
        pad: [1, 1, 1],
        dilation: [1; 3],
        with_pad: false,
        divisor: None,
    };
    let pooled = Planes { output: [3, 3, 5], ..planes };
    let mut pairs = vec![
        (Operation::AvgPool(pool), Operation::AvgPoolGradient(pool), pooled),
        (Operation::AdaptiveAvgPool, Operation::AdaptiveGradient, planes),
    ];
    for interpolation in [
        Interpolation::Nearest,
        Interpolation::NearestExact,
        Interpolation::Linear,
        Interpolation::Cubic,
        Interpolation::Antialiased,
        Interpolation::CubicAntialiased,
    ] {
        for aligned in [false, true] {
            let scale = |i: i64, o: i64| match aligned {
                true => (i - 1) as f64 / (o - 1) as f64,
                false => i as f64 / o as f64,
            };
            let scale = [scale(2, 3), scale(5, 3), scale(4, 6)];
            let how = Resampling { interpolation, scale, aligned };
            pairs.push((Operation::Resample(how), Operation::ResampleGradient(how), planes));
        }
    }
    let number = |x: u64| (x % 201) as f64 / 100.0 - 1.0;
    for (forward, backward, planes) in pairs {
        let sizes = [planes.input, planes.output].map(|s| 2 * s.iter().product::<i64>() as usize);
        let x: Vec<f64> = numbers(1).take(sizes[0]).map(number).collect();
        let g: Vec<f64> = numbers(2).take(sizes[1]).map(number).collect();
        let (y, _) = ran(&stream, forward, &planes, &x, sizes[1]);
        let (dx, _) = ran(&stream, backward, &planes, &g, sizes[0]);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let (left, right) = (dot(&y, &g), dot(&x, &dx));
        assert!((left - right).abs() < 1e-9, "{forward:?}: {left} {right}");
    }
}

#[test]
fn constants_stay_constant() {
    let Some(stream) = stream() else { return };
    for interpolation in [
        Interpolation::Linear,
        Interpolation::Cubic,
        Interpolation::Antialiased,
        Interpolation::CubicAntialiased,
    ] {
        let how = Resampling { interpolation, scale: [1.0, 1.0, 5.0 / 9.0], aligned: false };
        let (y, _) = ran(&stream, Operation::Resample(how), &row(5, 9), &[2.5; 10], 18);
        assert!(y.iter().all(|y| (y - 2.5).abs() < 1e-12), "{y:?}");
    }
}

#[test]
fn kernels_have_enough_registers() {
    for dtype in [DType::BF16, DType::F64] {
        crate::testing::assert_no_spills(&text(dtype), &dtype.to_string());
    }
}
