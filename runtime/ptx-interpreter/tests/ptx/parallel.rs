use half::{bf16, f16};
use straightline_ptx_interpreter::FaultKind;

use crate::device::{Device, ORDERS, Random, args, x};

const PARALLEL: &str = include_str!("../kernels/parallel.ptx");

#[test]
fn the_last_block_adds_the_sums_of_all() {
    let count = 10_000;
    let input: Vec<f32> =
        Random::new(20).floats(count, 8.0).iter().map(|value| value.round()).collect();
    let expected: f32 = input.iter().sum();
    for order in ORDERS {
        let mut device = Device::new(PARALLEL);
        device.options.warp_order = order;
        let from = device.upload(&input);
        let (out, partial) = (device.allocate::<f32>(1), device.allocate::<f32>(6));
        let args = args().with(out).with(partial).with(from).with(count as u32);
        // twice: the counter of finished blocks starts again by itself
        for _ in 0..2 {
            device.run("sum_last_block", x(6), x(128), &args);
            assert_eq!(device.download::<f32>(out, 1), [expected]);
        }
    }
}

#[test]
fn atomic_operations() {
    for order in ORDERS {
        let mut device = Device::new(PARALLEL);
        device.options.warp_order = order;
        let threads = 96u32;
        let ints = device.upload(&[10u32, 10, 10, 10]);
        let words = device.upload(&[u32::MAX, 0, 0, 0, 9, 0, 50, 1]);
        let longs = device.upload(&[0u64, 0, 7]);
        let (float, double) = (device.upload(&[1f32]), device.upload(&[1f64]));
        let (half, brain) = (device.upload(&[f16::ZERO; 2]), device.upload(&[bf16::ZERO; 2]));
        let args = args()
            .with(ints)
            .with(words)
            .with(longs)
            .with(float)
            .with(double)
            .with(half)
            .with(brain);
        let statistics = device.run("atomics", x(2), x(48), &args);
        assert!(statistics.atomics > 19 * u64::from(threads));
        let sum: u32 = (0..threads).sum();
        let signed: Vec<i32> =
            device.download::<u32>(ints, 4).iter().map(|&bits| bits as i32).collect();
        assert_eq!(signed, [10 + sum as i32, 10 - sum as i32, -95, 95]);
        let xor = (0..threads).fold(0, |xor, index| xor ^ index);
        // 9 is above 5, so the first one puts 5; 95 more steps of a cycle of six
        let decremented = (5 + 6 * 16 - 95) % 6;
        assert_eq!(
            device.download::<u32>(words, 8),
            [0, u32::MAX, xor, 7, decremented, 95, 0, 1 + 3 * 96]
        );
        assert_eq!(device.download::<u64>(longs, 3), [u64::from(sum) << 32, 95, 7 + 5 * 96]);
        assert_eq!(device.download::<f32>(float, 1), [49.0]);
        assert_eq!(device.download::<f64>(double, 1), [25.0]);
        assert_eq!(device.download::<f16>(half, 2), [f16::from_f32(96.0), f16::from_f32(192.0)]);
        assert_eq!(
            device.download::<bf16>(brain, 2),
            [bf16::from_f32(96.0), bf16::from_f32(-96.0)]
        );
    }
}

#[test]
fn a_histogram_with_atomics_in_shared_memory() {
    let mut random = Random::new(21);
    let input: Vec<u8> = (0..5000).map(|_| (random.bits() & random.bits()) as u8).collect();
    let mut expected = vec![0u32; 256];
    input.iter().for_each(|&value| expected[usize::from(value)] += 1);
    for order in ORDERS {
        let mut device = Device::new(PARALLEL);
        device.options.warp_order = order;
        let (from, bins) = (device.upload(&input), device.upload(&[0u32; 256]));
        let args = args().with(bins).with(from).with(input.len() as u32);
        device.run("histogram", x(3), x(96), &args);
        assert_eq!(device.download::<u32>(bins, 256), expected);
    }
}

#[test]
fn a_scan_with_two_buffers() {
    let mut random = Random::new(22);
    let input: Vec<u32> = (0..250).map(|_| (random.bits() % 100) as u32).collect();
    let expected: Vec<u32> = input
        .iter()
        .scan(0, |sum, value| {
            *sum += value;
            Some(*sum)
        })
        .collect();
    for order in ORDERS {
        let mut device = Device::new(PARALLEL);
        device.options.warp_order = order;
        let (from, to) = (device.upload(&input), device.allocate::<u32>(250));
        device.run_shared(
            "scan_inclusive",
            x(1),
            x(256),
            2048,
            &args().with(to).with(from).with(250u32),
        );
        assert_eq!(device.download::<u32>(to, 250), expected);
    }
}

#[test]
fn a_transpose_through_shared_memory() {
    let (rows, columns) = (70, 45);
    let input = Random::new(23).floats(rows * columns, 1.0);
    let expected: Vec<f32> =
        (0..rows * columns).map(|index| input[index % rows * columns + index / rows]).collect();
    for order in ORDERS {
        let mut device = Device::new(PARALLEL);
        device.options.warp_order = order;
        let (from, to) = (device.upload(&input), device.allocate::<f32>(input.len()));
        let args = args().with(to).with(from).with(rows as u32).with(columns as u32);
        let statistics = device.run("transpose", [2, 3, 1], [32, 8, 1], &args);
        assert_eq!(statistics.bank_conflicts, 0);
        assert_eq!(device.download::<f32>(to, input.len()), expected);
    }
}

#[test]
fn functions_of_a_warp() {
    let mut random = Random::new(24);
    let input: Vec<u32> = (0..32).map(|_| (random.bits() % 100) as u32).collect();
    let mut device = Device::new(PARALLEL);
    let (from, to) = (device.upload(&input), device.allocate::<u32>(512));
    device.run("warp_functions", x(1), x(32), &args().with(to).with(from));
    let ours = device.download::<u32>(to, 512);
    let mask = |holds: &dyn Fn(usize) -> bool| {
        (0..32).filter(|&lane| holds(lane)).fold(0u32, |mask, lane| mask | 1 << lane)
    };
    for lane in 0..32 {
        let team = mask(&|other| other % 3 == lane % 3);
        let expected = [
            input[lane / 16 * 16 + lane * 7 % 16],
            input[if lane % 8 >= 3 { lane - 3 } else { lane }],
            input[if lane + 5 < 32 { lane + 5 } else { lane }],
            input[lane ^ 9],
            mask(&|other| input[other] % 2 == 1),
            3,
            mask(&|other| input[other] % 5 == input[lane] % 5),
            0, // -1 + 1: the mask of all, and that all are equal
            input.iter().sum(),
            *input.iter().max().unwrap(),
            input.iter().fold(0, |xor, value| xor ^ value),
            (1 << lane) - 1,
            if lane % 3 == 0 { mask(&|other| other % 3 == 0) } else { 0 },
            (0..32).filter(|other| other % 3 == lane as u32 % 3).sum(),
            team.trailing_zeros(),
            if lane < 20 { input[19 - lane] } else { 0 },
        ];
        assert_eq!(ours[lane * 16..][..16], expected, "lane {lane}");
    }
}

#[test]
fn barriers_that_reduce() {
    for order in ORDERS {
        let mut device = Device::new(PARALLEL);
        device.options.warp_order = order;
        let out = device.allocate::<u32>(3 * 96);
        let statistics = device.run("barrier_reductions", x(1), x(96), &args().with(out));
        assert_eq!(statistics.barriers, 5);
        for values in device.download::<u32>(out, 3 * 96).chunks(3) {
            assert_eq!(values, [32, 1, 1]);
        }
    }
}

#[test]
fn a_producer_and_a_consumer() {
    for order in ORDERS {
        let mut device = Device::new(PARALLEL);
        device.options.warp_order = order;
        let out = device.allocate::<u32>(128);
        device.run("named_barriers", x(1), x(64), &args().with(out));
        let expected: Vec<u32> = (0..128).map(|index| index / 32 * 100 + 31 - index % 32).collect();
        assert_eq!(device.download::<u32>(out, 128), expected);
    }
}

#[test]
fn threads_that_spin_get_on() {
    for order in ORDERS {
        let mut device = Device::new(PARALLEL);
        device.options.warp_order = order;
        let (lock, counter, flag) =
            (device.upload(&[0u32]), device.upload(&[0u32]), device.upload(&[0u32]));
        device.run("spin", x(1), x(96), &args().with(lock).with(counter).with(flag));
        assert_eq!(device.download::<u32>(counter, 1), [96]);
    }
}

#[test]
fn vectors_are_added_atomically() {
    let mut device = Device::new(PARALLEL);
    let (pair, four) = (device.upload(&[0f32; 4]), device.upload(&[0f32; 4]));
    device.run("atomic_vectors", x(1), x(64), &args().with(pair).with(four));
    assert_eq!(device.download::<f32>(pair, 4), [64.0, 128.0, 14.0, 28.0]);
    assert_eq!(device.download::<f32>(four, 4), [64.0, 128.0, 192.0, 256.0]);
}

#[test]
fn barrier_objects_hand_buffers_over() {
    for order in ORDERS {
        let mut device = Device::new(PARALLEL);
        device.options.warp_order = order;
        let out = device.upload(&[0u32; 7]);
        let launch = |device: &mut Device, acquire: u32| {
            let args = args().with(out).with(7u32).with(acquire);
            device.attempt("barrier_objects", x(2), x(128), 0, &args)
        };
        launch(&mut device, 1).unwrap();
        let expected: Vec<u32> = (0..7).map(|round| 2 * 3 * (round * 32_000 + 496)).collect();
        assert_eq!(device.download::<u32>(out, 7), expected);
        // the readers do not wait until a buffer is full
        let fault = launch(&mut device, 0).unwrap_err();
        assert!(matches!(fault.kind, FaultKind::SharedRace { .. }), "{fault}");
    }
}
