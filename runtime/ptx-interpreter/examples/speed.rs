//! How many instructions of threads are interpreted in a second, on kernels of the tests.

use std::time::{Duration, Instant};

use straightline_ptx_interpreter::{DeviceMemory, Launch, Module, Options, Statistics, launch};

struct Case {
    ptx: &'static str,
    kernel: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    /// Bytes of each buffer, and then the numbers.
    buffers: &'static [u64],
    numbers: &'static [u32],
}

const CASES: &[Case] = &[
    Case {
        ptx: include_str!("../tests/kernels/softmax.ptx"),
        kernel: "softmax_bf16",
        grid: [64, 1, 1],
        block: [256, 1, 1],
        buffers: &[64 * 4104 * 2; 2],
        numbers: &[4104],
    },
    Case {
        ptx: include_str!("../tests/kernels/pointwise.ptx"),
        kernel: "silu_bf16x8",
        grid: [256, 1, 1],
        block: [256, 1, 1],
        buffers: &[256 * 256 * 16; 2],
        numbers: &[256 * 256],
    },
    Case {
        ptx: include_str!("../tests/kernels/pointwise.ptx"),
        kernel: "gelu_f32",
        grid: [64, 1, 1],
        block: [256, 1, 1],
        buffers: &[1 << 20; 2],
        numbers: &[1 << 18],
    },
    Case {
        ptx: include_str!("../tests/kernels/gemm.ptx"),
        kernel: "gemm_f32",
        grid: [8, 8, 1],
        block: [16, 16, 1],
        buffers: &[128 * 128 * 4; 3],
        numbers: &[128, 128, 128],
    },
    Case {
        ptx: include_str!("../tests/kernels/gemm.ptx"),
        kernel: "gemm_mma_bf16",
        grid: [16, 8, 1],
        block: [32, 1, 1],
        buffers: &[128 * 512 * 2; 3],
        numbers: &[128, 512],
    },
    Case {
        ptx: include_str!("../tests/kernels/parallel.ptx"),
        kernel: "transpose",
        grid: [16, 16, 1],
        block: [32, 8, 1],
        buffers: &[512 * 512 * 4; 2],
        numbers: &[512, 512],
    },
];

fn measure(
    case: &Case,
    options: &Options,
) -> Result<(Statistics, Duration), Box<dyn std::error::Error>> {
    let module = Module::parse(case.ptx)?;
    let mut memory = DeviceMemory::default();
    let loaded = module.load(&mut memory)?;
    let mut params = Vec::new();
    for &bytes in case.buffers {
        let buffer = memory.allocate(bytes)?;
        // 1.0 in single precision, and small numbers in bfloat16
        memory.fill(buffer, &1f32.to_le_bytes(), bytes / 4)?;
        params.extend(buffer.to_le_bytes());
    }
    case.numbers.iter().for_each(|number| params.extend(number.to_le_bytes()));
    let shape = Launch { grid: case.grid, block: case.block, dynamic_shared: 0, params: &params };
    let mut best = (Statistics::default(), Duration::MAX);
    for _ in 0..5 {
        let start = Instant::now();
        let statistics = launch(&loaded, case.kernel, &shape, &mut memory, options)?;
        if start.elapsed() < best.1 {
            best = (statistics, start.elapsed());
        }
    }
    Ok(best)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for case in CASES {
        for check_races in [true, false] {
            let options = Options { check_races, ..Options::default() };
            let (statistics, time) = measure(case, &options)?;
            let rate = statistics.instructions as f64 / time.as_secs_f64() / 1e6;
            let races = if check_races { "races checked" } else { "races not checked" };
            println!(
                "{:>14}: {:>9} thousand instructions in {:>7.1} ms, {rate:>5.0} M/s, {races}",
                case.kernel,
                statistics.instructions / 1000,
                time.as_secs_f64() * 1e3,
            );
        }
    }
    Ok(())
}
