use half::bf16;

use crate::device::{Device, ORDERS, Random, args, error, to_bf16, x};

const POINTWISE: &str = include_str!("../kernels/pointwise.ptx");

#[test]
fn axpy_in_vectors_of_four() {
    let count = 1000;
    let mut random = Random::new(3);
    let (left, right) = (random.floats(4 * count, 2.0), random.floats(4 * count, 2.0));
    let reference: Vec<f64> =
        left.iter().zip(&right).map(|(&x, &y)| 1.5 * f64::from(x) + f64::from(y)).collect();
    let mut device = Device::new(POINTWISE);
    let (to, from) = (device.upload(&right), device.upload(&left));
    let args = args().with(to).with(from).with(1.5f32).with(count as u32);
    let statistics = device.run("axpy_f32x4", x(8), x(128), &args);
    assert_eq!((statistics.widest_load, statistics.widest_store), (16, 16));
    assert_eq!((statistics.global_loads, statistics.global_stores), (2000, 1000));
    assert_eq!((statistics.bytes_loaded, statistics.bytes_stored), (32_000, 16_000));
    assert_eq!((statistics.sectors_loaded, statistics.sectors_stored), (1000, 500));
    let ours = device.download::<f32>(to, 4 * count);
    assert!(error(ours.into_iter().map(f64::from), &reference) < 1e-7);
}

#[test]
fn silu_in_vectors_of_eight_halves() {
    let count = 333;
    let mut random = Random::new(4);
    let input: Vec<bf16> = (0..8 * count).map(|_| to_bf16(8.0 * random.unit())).collect();
    let wide = input.iter().map(|value| value.to_f64());
    let reference: Vec<f64> = wide.map(|value| value / (1.0 + (-value).exp())).collect();
    for order in ORDERS {
        let mut device = Device::new(POINTWISE);
        device.options.warp_order = order;
        let (from, to) = (device.upload(&input), device.allocate::<bf16>(input.len()));
        let args = args().with(to).with(from).with(count as u32);
        let statistics = device.run("silu_bf16x8", x(3), x(128), &args);
        assert_eq!((statistics.widest_load, statistics.widest_store), (16, 16));
        let ours = device.download::<bf16>(to, input.len());
        assert!(error(ours.iter().map(|value| value.to_f64()), &reference) < 2f64.powi(-8));
    }
}

#[test]
fn a_grid_strides_over_all_elements() {
    let input = Random::new(5).floats(5000, 3.0);
    let mut device = Device::new(POINTWISE);
    let (from, to) = (device.upload(&input), device.allocate::<f32>(input.len()));
    device.run("gelu_f32", x(4), x(96), &args().with(to).with(from).with(5000u32));
    let ours = device.download::<f32>(to, input.len());
    // erf by its series, which converges on this range
    let erf = |x: f64| {
        let (mut term, mut sum) = (x, x);
        for n in 1..80 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    };
    let half = f64::from(0.707_106_77f32);
    let wide = input.iter().copied().map(f64::from);
    let reference: Vec<f64> = wide.map(|x| x * 0.5 * (1.0 + erf(x * half))).collect();
    assert!(error(ours.into_iter().map(f64::from), &reference) < 1e-6);
}

#[test]
fn bytes_and_comparisons() {
    let mut random = Random::new(6);
    let (mut left, right) = (random.floats(777, 1.0), random.floats(777, 1.0));
    left[5] = f32::NAN;
    let mut device = Device::new(POINTWISE);
    let (a, b) = (device.upload(&left), device.upload(&right));
    let (mask, out) = (device.allocate::<u8>(777), device.allocate::<f32>(777));
    let args = args().with(mask).with(out).with(a).with(b).with(777i64);
    device.run("compare_where_u8", x(7), x(128), &args);
    let less: Vec<bool> = left.iter().zip(&right).map(|(a, b)| a < b).collect();
    let expected: Vec<u8> = less.iter().map(|&less| less.into()).collect();
    assert_eq!(device.download::<u8>(mask, 777), expected);
    let chosen = less.iter().zip(left.iter().zip(&right));
    let expected: Vec<f32> =
        chosen.map(|(&less, (&a, b))| if less { a } else { b / 2.0 }).collect();
    assert_eq!(device.download::<f32>(out, 777), expected);
}

#[test]
fn pairs_of_bfloat16_round_once_each() {
    let mut random = Random::new(7);
    let mut draw = || (0..2000).map(|_| to_bf16(random.unit())).collect::<Vec<_>>();
    let (left, right) = (draw(), draw());
    let mut device = Device::new(POINTWISE);
    let (a, b, out) = (device.upload(&left), device.upload(&right), device.allocate::<bf16>(2000));
    device.run("add_bf16x2", x(8), x(128), &args().with(out).with(a).with(b).with(1000u32));
    let each = left.iter().zip(&right).map(|(a, b)| {
        let (a, b) = (a.to_f64(), b.to_f64());
        let square = to_bf16(b * b).to_f64();
        // products and sums of bfloat16 numbers of like size are exact in double precision
        to_bf16(a * b + to_bf16(a + square).to_f64())
    });
    let expected: Vec<bf16> = each.collect();
    assert_eq!(device.download::<bf16>(out, 2000), expected);
}
