//! What this machine can do at most, for the rooflines: bandwidth of a scaled copy in each cache
//! and in memory, and the rate of fused multiply-adds. `peer-limits ISA THREADS L1 L2 L3`, the last
//! three in bytes; prints one JSON object. Started by `benches/peers/run`.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// The best of so many runs is a limit.
const RUNS: usize = 15;

/// The kernels of one instruction set: `scale` writes `x * s`, as many bytes as a copy; `multiply`
/// makes this many rounds of dependent multiply-adds in independent registers, and returns how many
/// operations each round has.
#[derive(Clone, Copy)]
struct Kernels {
    scale: fn(&[f32], &mut [f32]),
    multiply: fn(u64) -> u64,
}

#[inline(always)]
fn scale(x: &[f32], y: &mut [f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = x * 0.5;
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    macro_rules! kernels {
        ($module:ident, [$($feature:tt),+], $registers:literal, $lanes:literal,
         $set:ident, $multiply:ident) => {
            pub(super) mod $module {
                use super::*;

                $(#[target_feature(enable = $feature)])+
                fn scale_with(x: &[f32], y: &mut [f32]) {
                    crate::scale(x, y);
                }

                $(#[target_feature(enable = $feature)])+
                fn multiply_with(rounds: u64) -> u64 {
                    let mut x = [$set(1.0); $registers];
                    let (factor, term) = ($set(black_box(0.999_999)), $set(black_box(1e-6)));
                    for _ in 0..rounds {
                        for x in &mut x {
                            *x = $multiply(*x, factor, term);
                        }
                    }
                    black_box(x);
                    2 * $registers * $lanes
                }

                pub(crate) fn kernels() -> Option<crate::Kernels> {
                    fn scale(x: &[f32], y: &mut [f32]) {
                        // SAFETY: `kernels` hands this function out where the machine has the set.
                        unsafe { scale_with(x, y) }
                    }
                    fn multiply(rounds: u64) -> u64 {
                        // SAFETY: as above.
                        unsafe { multiply_with(rounds) }
                    }
                    let has = $(is_x86_feature_detected!($feature))&&+;
                    has.then_some(crate::Kernels { scale, multiply })
                }
            }
        };
    }
    kernels!(avx2, ["avx2", "fma"], 12, 8, _mm256_set1_ps, _mm256_fmadd_ps);
    kernels!(avx512, ["avx512f", "fma"], 24, 16, _mm512_set1_ps, _mm512_fmadd_ps);
}

fn portable() -> Kernels {
    fn multiply(rounds: u64) -> u64 {
        let mut x = [1.0f32; 64];
        let (factor, term) = (black_box(0.999_999), black_box(1e-6));
        for _ in 0..rounds {
            for x in &mut x {
                *x = *x * factor + term;
            }
        }
        black_box(x);
        2 * 64
    }
    Kernels { scale, multiply }
}

fn kernels(isa: &str) -> Option<Kernels> {
    match isa {
        #[cfg(target_arch = "x86_64")]
        "avx2" => x86::avx2::kernels(),
        #[cfg(target_arch = "x86_64")]
        "avx512" => x86::avx512::kernels(),
        _ => Some(portable()),
    }
}

/// The best rate of all threads together: `each` does its work once and says how much that was.
fn best<S: Send>(threads: usize, new: impl Fn() -> S + Sync, each: impl Fn(&mut S) -> f64 + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let one = || {
        let mut state = new();
        // pages and clocks
        each(&mut state);
        let run = |state: &mut S| {
            barrier.wait();
            let start = Instant::now();
            let work = each(state);
            work / start.elapsed().as_secs_f64()
        };
        (0..RUNS).map(|_| run(&mut state)).collect::<Vec<f64>>()
    };
    let rates: Vec<Vec<f64>> = std::thread::scope(|s| {
        let all: Vec<_> = (0..threads).map(|_| s.spawn(one)).collect();
        all.into_iter().map(|t| t.join().expect("a kernel does not panic")).collect()
    });
    (0..RUNS).map(|i| rates.iter().map(|r| r[i]).sum()).fold(0.0, f64::max)
}

/// Bytes a second, read and written, of arrays that have `bytes` together.
fn bandwidth(kernels: Kernels, threads: usize, bytes: usize) -> f64 {
    let n = (bytes / 8).max(1024);
    // some 50 MB a run, so that the clock does not count
    let rounds = (50_000_000 / (8 * n)).max(1);
    best(
        threads,
        || (vec![1.0f32; n], vec![0.0f32; n]),
        |(x, y)| {
            for _ in 0..rounds {
                (kernels.scale)(black_box(x), black_box(y));
            }
            (rounds * n * 8) as f64
        },
    )
}

fn main() {
    let usage = "peer-limits ISA THREADS L1 L2 L3";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [isa, numbers @ ..] = &arguments[..] else { panic!("{usage}") };
    let numbers: Vec<usize> = numbers.iter().map(|n| n.parse().expect(usage)).collect();
    let [threads, l1, l2, l3] = numbers[..] else { panic!("{usage}") };
    let Some(kernels) = kernels(isa) else { panic!("this machine has no {isa}") };
    let rounds = 1 << 20;
    let flops = best(threads, || (), |()| ((kernels.multiply)(rounds) * rounds) as f64);
    let giga = |x: f64| (x / 1e8).round() / 10.0;
    let of = |bytes| giga(bandwidth(kernels, threads, bytes));
    // half of a cache has room there; memory is four times the last cache, within reason
    println!(
        "{{\"gflops\": {}, \"gbs\": {{\"l1\": {}, \"l2\": {}, \"l3\": {}, \"dram\": {}}}}}",
        giga(flops),
        of(l1 / 2),
        of(l2 / 2),
        of((l3 / 2).min(32 << 20)),
        of((4 * l3).clamp(256 << 20, 1 << 30) / threads)
    );
}
