use straightline_ptx_interpreter::FaultKind;

use crate::device::{Device, ORDERS, Plain, args, x};

const CONTROL: &str = include_str!("../kernels/control.ptx");

/// `struct Point { float x; double y; int z[3]; }`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    x: f32,
    y: f64,
    z: [u32; 3],
}

impl Plain for Point {
    const BYTES: usize = 32;
    fn put(self, into: &mut Vec<u8>) {
        self.x.put(into);
        0u32.put(into);
        self.y.put(into);
        self.z.iter().for_each(|z| z.put(into));
        0u32.put(into);
    }
    fn get(from: &[u8]) -> Point {
        let z = [16, 20, 24].map(|at| u32::get(&from[at..at + 4]));
        Point { x: f32::get(&from[..4]), y: f64::get(&from[8..16]), z }
    }
}

const POINT: Point = Point { x: 1.5, y: -2.5, z: [1, 2, 3] };

#[test]
fn structures_go_through_calls() {
    let mut device = Device::new(CONTROL);
    let out = device.allocate::<Point>(8);
    let mut bytes = args().with(out);
    for half in 0..4 {
        let mut point = Vec::new();
        POINT.put(&mut point);
        bytes = bytes.with(u64::get(&point[half * 8..half * 8 + 8]));
    }
    device.run("structs", x(1), x(8), &bytes.with(2f32));
    for (thread, point) in device.download::<Point>(out, 8).into_iter().enumerate() {
        let by = 2.0 * thread as f32;
        let z = [1, 2 + 2 * thread as u32, 3];
        assert_eq!(point, Point { x: 1.5 + by, y: -2.5 * f64::from(by), z });
    }
}

#[test]
fn functions_call_themselves() {
    let mut device = Device::new(CONTROL);
    let out = device.allocate::<u32>(48);
    device.run("recursion", x(1), x(48), &args().with(out));
    let fibonacci = |n| (0..n).fold((0u32, 1u32), |(a, b), _| (b, a + b)).0;
    let expected: Vec<u32> =
        (0..48).map(|thread| if thread % 2 == 1 { fibonacci(thread % 12) } else { 4 }).collect();
    assert_eq!(device.download::<u32>(out, 48), expected);
}

#[test]
fn calls_through_pointers_part_the_threads() {
    let mut device = Device::new(CONTROL);
    let out = device.allocate::<u32>(40);
    device.run("pointers", x(1), x(40), &args().with(out).with(1u32));
    let expected = (0..40i32).map(|thread| match (thread + 1) % 3 {
        0 => 2 * thread,
        1 => thread * thread,
        _ => -thread,
    });
    let expected: Vec<u32> = expected.map(|value| value as u32).collect();
    assert_eq!(device.download::<u32>(out, 40), expected);
}

#[test]
fn a_table_of_branches() {
    let input: Vec<i32> = (0..64).map(|index| (index * 7 + 3) % 9).collect();
    let mut device = Device::new(CONTROL);
    let (from, to) = (device.upload(&input), device.allocate::<i32>(64));
    device.run("table", x(1), x(64), &args().with(to).with(from));
    let expected: Vec<i32> = input
        .iter()
        .map(|&value| match value {
            0 => input[0],
            1 => input[1] - 7,
            2 => 2 ^ input[2] << 3,
            3 => input[3] / 3,
            4 => input[4] % 5,
            5 => -input[5],
            6 => input[6] * input[6],
            _ => 1000,
        })
        .collect();
    assert_eq!(device.download::<i32>(to, 64), expected);
}

#[test]
fn generic_addresses_reach_every_space() {
    let mut device = Device::new(CONTROL);
    let mut contents = vec![0f32; 36];
    contents[32..].copy_from_slice(&[7.0, 8.0, 9.0, 10.0]);
    let out = device.upload(&contents);
    let mut point = Vec::new();
    POINT.put(&mut point);
    for pick in 0..5u32 {
        let mut bytes = args().with(out).with(pick).with(0u32);
        for half in point.chunks(8) {
            bytes = bytes.with(u64::get(half));
        }
        device.run("spaces", x(1), x(32), &bytes);
        for (thread, value) in device.download::<f32>(out, 32).into_iter().enumerate() {
            let at = (thread % 4) as f32;
            let expected = match pick {
                0 => at * 10.0 + 0.25,
                1 => at * 100.0 + thread as f32,
                2 => 1.5 + at,
                3 => 7.0 + at,
                _ => 1.5,
            };
            assert_eq!(value, expected + 2.5, "pick {pick}, thread {thread}");
        }
    }
    let (counter, bytes) = device.loaded.address("counter").unwrap();
    assert_eq!((bytes, device.download::<u32>(counter, 1)), (4, vec![37]));
}

#[test]
fn threads_meet_again_after_loops() {
    let mut device = Device::new(CONTROL);
    let out = device.allocate::<i32>(32);
    device.run("loops", x(1), x(32), &args().with(out).with(400u32));
    let sums: Vec<i32> = (0..32)
        .map(|thread| {
            let mut sum = 0;
            for i in (0..thread).filter(|i| i % 5 != 4) {
                let mut j = i;
                while j > 0 {
                    sum += j;
                    if sum % 13 == 0 {
                        break;
                    }
                    j /= 2;
                }
                if sum > 400 {
                    break;
                }
            }
            sum
        })
        .collect();
    let odd = sums.iter().filter(|&&sum| sum % 2 != 0).count() as i32 & 1;
    let expected: Vec<i32> = sums.iter().map(|sum| sum * 2 + odd).collect();
    assert_eq!(device.download::<i32>(out, 32), expected);
}

#[test]
fn every_thread_of_every_block_runs_once() {
    for order in ORDERS {
        let mut device = Device::new(CONTROL);
        device.options.warp_order = order;
        let out = device.allocate::<u32>(12 * 30);
        device.run("sizes", [2, 3, 2], [5, 3, 2], &args().with(out));
        let expected = (0..360u32).map(|index| {
            let (block, thread) = (index / 30, index % 30);
            thread % 5 + 100 * (thread / 5 % 3) + 10_000 * (thread / 15) + 1_000_000 * block
        });
        assert_eq!(device.download::<u32>(out, 360), expected.collect::<Vec<_>>());
    }
}

#[test]
fn launches_keep_to_bounds() {
    let mut device = Device::new(CONTROL);
    let out = device.allocate::<u32>(128);
    let args = args().with(out);
    let kernel = device.loaded.module().kernel("bounded").unwrap();
    assert_eq!(kernel.max_threads(), Some([64, 1, 1]));
    device.run("bounded", x(1), x(64), &args);
    let mut refused = |grid, block, shared| {
        device.attempt("bounded", grid, block, shared, &args).unwrap_err().to_string()
    };
    assert_eq!(refused(x(1), x(65), 0), "kernel bounded: 65 threads in a block, at most 64");
    assert_eq!(refused(x(1), [8, 8, 2], 0), "kernel bounded: 128 threads in a block, at most 64");
    assert_eq!(refused(x(1), x(2048), 0), "kernel bounded: 2048 threads in a block, at most 1024");
    assert_eq!(
        refused([1, 1 << 16, 1], x(1), 0),
        "kernel bounded: 65536 blocks of a grid in y or z, at most 65535"
    );
    assert_eq!(
        refused(x(1), x(1), 1 << 20),
        "kernel bounded: 1048576 bytes of shared memory in a block, at most 232448"
    );
    assert_eq!(
        refused(x(0), x(1), 0),
        "kernel bounded: a grid without blocks or a block without threads"
    );
    let short = device.attempt("bounded", x(1), x(1), 0, &crate::device::args()).unwrap_err();
    assert_eq!(short.kind, FaultKind::Parameters { expected: 8, given: 0 });
    let unknown = device.attempt("unbounded", x(1), x(1), 0, &args).unwrap_err();
    assert_eq!(unknown.kind, FaultKind::UnknownKernel);
}

#[test]
fn modules_are_shared_by_threads() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    let device = Device::new(CONTROL);
    shared(&device.loaded);
    shared(device.loaded.module());
    shared(&device.memory);
}
