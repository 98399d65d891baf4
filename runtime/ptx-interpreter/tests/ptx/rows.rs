use half::bf16;

use crate::device::{Device, ORDERS, Random, args, error, to_bf16, x};

const SOFTMAX: &str = include_str!("../kernels/softmax.ptx");

fn softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|value| (value - most).exp()).sum();
    row.iter().map(|value| (value - most).exp() / sum).collect()
}

#[test]
fn softmax_of_bfloat16_rows() {
    let (rows, columns) = (5, 1000);
    let mut random = Random::new(1);
    let input: Vec<bf16> = (0..rows * columns).map(|_| to_bf16(4.0 * random.unit())).collect();
    let wide: Vec<f64> = input.iter().map(|value| value.to_f64()).collect();
    let reference: Vec<f64> = wide.chunks(columns).flat_map(softmax).collect();
    for order in ORDERS {
        let mut device = Device::new(SOFTMAX);
        device.options.warp_order = order;
        let (from, to) = (device.upload(&input), device.allocate::<bf16>(input.len()));
        let args = args().with(to).with(from).with(columns as u32);
        let statistics = device.run("softmax_bf16", x(rows as u32), x(256), &args);
        assert_eq!(statistics.barriers, 4 * rows as u64);
        let ours = device.download::<bf16>(to, input.len());
        assert!(error(ours.iter().map(|value| value.to_f64()), &reference) < 2f64.powi(-8));
    }
}

#[test]
fn softmax_of_single_precision_rows() {
    let (rows, columns) = (3, 777);
    let input = Random::new(2).floats(rows * columns, 5.0);
    let wide: Vec<f64> = input.iter().copied().map(f64::from).collect();
    let reference: Vec<f64> = wide.chunks(columns).flat_map(softmax).collect();
    for order in ORDERS {
        let mut device = Device::new(SOFTMAX);
        device.options.warp_order = order;
        let (from, to) = (device.upload(&input), device.allocate::<f32>(input.len()));
        let args = args().with(to).with(from).with(columns as u32);
        device.run_shared("softmax_f32", x(rows as u32), x(128), 4 * columns as u32, &args);
        let ours = device.download::<f32>(to, input.len());
        assert!(error(ours.iter().copied().map(f64::from), &reference) < 1e-6);
    }
}
