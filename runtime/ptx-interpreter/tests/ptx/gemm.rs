use half::{bf16, f16};

use crate::device::{Device, ORDERS, Random, args, error, to_bf16, to_f16, x};

const GEMM: &str = include_str!("../kernels/gemm.ptx");

/// a is m x k, b is k x n, both in rows.
fn product(a: &[f64], b: &[f64], m: usize, n: usize, k: usize) -> Vec<f64> {
    let at = |row: usize, column: usize| (0..k).map(|i| a[row * k + i] * b[i * n + column]).sum();
    (0..m * n).map(|index| at(index / n, index % n)).collect()
}

/// From columns of `rows` elements, one after the other.
fn transposed(b: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..rows * columns).map(|index| b[index % columns * rows + index / columns]).collect()
}

#[test]
fn tiles_in_shared_memory() {
    let (m, n, k) = (37, 45, 53);
    let mut random = Random::new(10);
    let (a, b) = (random.floats(m * k, 1.0), random.floats(k * n, 1.0));
    let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect::<Vec<_>>();
    let reference = product(&wide(&a), &wide(&b), m, n, k);
    for order in ORDERS {
        let mut device = Device::new(GEMM);
        device.options.warp_order = order;
        let (a, b) = (device.upload(&a), device.upload(&b));
        let c = device.allocate::<f32>(m * n);
        let sizes = args().with(c).with(a).with(b).with(m as u32).with(n as u32).with(k as u32);
        let grid = [n.div_ceil(16) as u32, m.div_ceil(16) as u32, 1];
        device.run("gemm_f32", grid, [16, 16, 1], &sizes);
        let ours = device.download::<f32>(c, m * n);
        assert!(error(ours.into_iter().map(f64::from), &reference) < 1e-6);
    }
}

#[test]
fn tensor_cores_with_asynchronous_copies() {
    let (m, n, k) = (32, 24, 80);
    let mut random = Random::new(11);
    let mut draw = |count| (0..count).map(|_| to_bf16(random.unit())).collect::<Vec<_>>();
    let (a, b) = (draw(m * k), draw(n * k));
    let wide = |values: &[bf16]| values.iter().map(|value| value.to_f64()).collect::<Vec<_>>();
    let reference = product(&wide(&a), &transposed(&wide(&b), k, n), m, n, k);
    let mut device = Device::new(GEMM);
    let (a, b) = (device.upload(&a), device.upload(&b));
    let c = device.allocate::<f32>(m * n);
    let args = args().with(c).with(a).with(b).with(n as u32).with(k as u32);
    let statistics = device.run("gemm_mma_bf16", [n as u32 / 8, m as u32 / 16, 1], x(32), &args);
    assert_eq!((statistics.widest_load, statistics.widest_store), (16, 8));
    let ours = device.download::<f32>(c, m * n);
    assert!(error(ours.into_iter().map(f64::from), &reference) < 1e-6);
}

#[test]
fn tensor_cores_round_to_tf32() {
    let mut random = Random::new(12);
    let (a, b) = (random.floats(16 * 8, 1.0), random.floats(8 * 8, 1.0));
    // ten bits of mantissa, ties away from zero
    let round = |value: &f32| f64::from(f32::from_bits((value.to_bits() + 0x1000) & !0x1fff));
    let left: Vec<f64> = a.iter().map(round).collect();
    let right: Vec<f64> = b.iter().map(round).collect();
    let reference = product(&left, &transposed(&right, 8, 8), 16, 8, 8);
    let mut device = Device::new(GEMM);
    let (a, b, c) = (device.upload(&a), device.upload(&b), device.allocate::<f32>(128));
    device.run("mma_tf32", x(1), x(32), &args().with(c).with(a).with(b));
    let ours = device.download::<f32>(c, 128);
    assert!(error(ours.into_iter().map(f64::from), &reference) < 1e-7);
}

#[test]
fn matrices_are_transposed_on_their_way() {
    let mut random = Random::new(13);
    let mut draw = |count| (0..count).map(|_| to_f16(random.unit())).collect::<Vec<_>>();
    let (a, b) = (draw(256), draw(128));
    let wide = |values: &[f16]| values.iter().map(|value| value.to_f64()).collect::<Vec<_>>();
    let reference = product(&wide(&a), &wide(&b), 16, 8, 16);
    let mut device = Device::new(GEMM);
    let (a, b, c) = (device.upload(&a), device.upload(&b), device.allocate::<f16>(128));
    device.run("mma_f16_trans", x(1), x(32), &args().with(c).with(a).with(b));
    let ours = device.download::<f16>(c, 128);
    assert!(error(ours.iter().map(|value| value.to_f64()), &reference) < 1e-3);
}

#[test]
fn tensor_cores_add_bytes_exactly() {
    let mut random = Random::new(14);
    let mut draw = |count| (0..count).map(|_| random.bits() as u8).collect::<Vec<_>>();
    let (a, b) = (draw(16 * 32), draw(8 * 32));
    let wide =
        |values: &[u8]| values.iter().map(|&value| f64::from(value as i8)).collect::<Vec<_>>();
    let reference = product(&wide(&a), &transposed(&wide(&b), 32, 8), 16, 8, 32);
    let mut device = Device::new(GEMM);
    let (a, b, c) = (device.upload(&a), device.upload(&b), device.allocate::<u32>(128));
    device.run("mma_s8", x(1), x(32), &args().with(c).with(a).with(b));
    let ours: Vec<f64> =
        device.download::<u32>(c, 128).iter().map(|&sum| f64::from(sum as i32)).collect();
    assert_eq!(ours, reference);
}
