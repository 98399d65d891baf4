use super::*;
use crate::testing::{given, room, stream, taken};

const FROM: Philox = Philox { seed: 0x1234_5678_9abc_def0, offset: 8, state: 0 };

/// Ten rounds, for comparison.
fn words_of(seed: u64, low: u64, high: u64) -> [u32; 4] {
    let mut key = [seed as u32, (seed >> 32) as u32];
    let mut c = [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32];
    for _ in 0..10 {
        let a = 0xd251_1f53 * u64::from(c[0]);
        let b = 0xcd9e_8d57 * u64::from(c[2]);
        let (x, z) = ((b >> 32) as u32 ^ c[1] ^ key[0], (a >> 32) as u32 ^ c[3] ^ key[1]);
        c = [x, b as u32, z, a as u32];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    c
}

fn drawn<T: Copy + Default>(
    stream: &Stream,
    distribution: Distribution,
    dtype: DType,
    count: usize,
) -> Vec<T> {
    let out = room::<T>(stream, count);
    // SAFETY: there is room for them.
    unsafe { fill(stream, distribution, dtype, count as u64, out.address(), FROM) }
        .expect("it is queued");
    taken(stream, &out, count)
}

#[test]
fn words_are_the_published_ones() {
    let Some(stream) = stream() else { return };
    let kernel = format!(
        "{}extern \"C\" __global__ void words(Words* out, unsigned long long seed, unsigned long long low, unsigned long long high) {{ *out = philox(seed, low, high); }}",
        include_str!("random.cu")
    );
    let functions = programs::functions(stream.device(), &kernel, &["words"]).expect("a program");
    let launch = Launch { blocks: [1; 3], threads: [1; 3], shared_bytes: 0 };
    // Random123's kat_vectors: key, counter, words
    for (seed, [low, high], want) in [
        (0, [0, 0], [0x6627_e8d5u32, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
        (u64::MAX, [u64::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
        (
            0x299f_31d0_a409_3822,
            [0x85a3_08d3_243f_6a88, 0x0370_7344_1319_8a2e],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ] {
        let out = room::<u32>(&stream, 4);
        let arguments = [
            Argument::Pointer(out.address()),
            Argument::U64(seed),
            Argument::U64(low),
            Argument::U64(high),
        ];
        // SAFETY: the arguments are the kernel's.
        unsafe { functions[0].launch(&stream, launch, &arguments) }.expect("it is queued");
        assert_eq!(taken::<u32>(&stream, &out, 4), want);
        assert_eq!(words_of(seed, low, high), want);
    }
}

#[test]
fn numbers_lie_a_grid_apart() {
    let Some(stream) = stream() else { return };
    // 3 blocks of 256, of which all but the last numbers take one step
    let count = 600;
    let got: Vec<f32> = drawn(&stream, Distribution::Uniform(0.0, 1.0), DType::F32, count);
    let (blocks, words) = policy(stream.device(), count as u64, 4);
    assert_eq!((blocks, words), (3, 4));
    for (i, x) in got.iter().enumerate() {
        let (thread, k) = (i % 768, i / 768);
        let word = words_of(FROM.seed, FROM.offset / 4, thread as u64)[k];
        let unit = word as f32 * 2f32.powi(-32) + 2f32.powi(-33);
        assert_eq!(*x, if unit == 1.0 { 0.0 } else { unit });
    }
    let got: Vec<i64> = drawn(
        &stream,
        Distribution::Integers { base: -5, count: 1 << 40, wide: true },
        DType::I64,
        count,
    );
    for (i, x) in got.iter().enumerate() {
        let [a, b, ..] = words_of(FROM.seed, FROM.offset / 4, i as u64);
        let bits = u64::from(a) << 32 | u64::from(b);
        assert_eq!(*x, (bits % (1 << 40)) as i64 - 5);
    }
}

#[test]
fn more_than_a_gpu_holds_at_once_takes_steps() {
    let Some(stream) = stream() else { return };
    let p = stream.device().properties();
    let held = u64::from(p.multiprocessors) * u64::from(p.threads_per_multiprocessor / 256) * 256;
    assert_eq!(policy(stream.device(), held * 4, 4).1, 4);
    assert_eq!(policy(stream.device(), held * 4 + 1, 4).1, 8);
    assert_eq!(policy(stream.device(), held * 4, 2).1, 8);
    assert_eq!(policy(stream.device(), 1, 4), (1, 4));
}

fn mean_and_deviation(all: &[f64]) -> (f64, f64) {
    let n = all.len() as f64;
    let mean = all.iter().sum::<f64>() / n;
    (mean, (all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt())
}

#[test]
fn distributions_have_their_moments() {
    let Some(stream) = stream() else { return };
    let count = 4000;
    for (distribution, mean, deviation) in [
        (Distribution::Uniform(-1.0, 3.0), 1.0, 4.0 / 12f64.sqrt()),
        (Distribution::Normal(2.0, 0.5), 2.0, 0.5),
        (Distribution::LogNormal(0.0, 0.25), 1.0317, 0.262),
        (Distribution::Exponential(4.0), 0.25, 0.25),
        (Distribution::Geometric(0.5), 2.0, 2f64.sqrt()),
        (Distribution::Bernoulli(0.25), 0.25, 0.1875f64.sqrt()),
        (Distribution::Integers { base: 10, count: 5, wide: false }, 12.0, 2f64.sqrt()),
    ] {
        let wide: Vec<f64> = drawn(&stream, distribution, DType::F64, count);
        let narrow: Vec<f32> = drawn(&stream, distribution, DType::F32, count);
        for all in [wide, narrow.into_iter().map(f64::from).collect()] {
            let (m, d) = mean_and_deviation(&all);
            assert!((m - mean).abs() < 0.08 * deviation, "{distribution:?}: {m} is not {mean}");
            assert!((d / deviation - 1.0).abs() < 0.08, "{distribution:?}: {d} is not {deviation}");
        }
    }
    let all: Vec<f32> = drawn(&stream, Distribution::Cauchy(1.0, 2.0), DType::F32, count);
    let below = all.iter().filter(|x| **x < 1.0).count() as f64 / count as f64;
    assert!((below - 0.5).abs() < 0.03, "{below}");
}

#[test]
fn narrow_dtypes_have_numbers() {
    let Some(stream) = stream() else { return };
    let all: Vec<u8> = drawn(&stream, Distribution::Bernoulli(0.5), DType::Bool, 1000);
    let ones = all.iter().filter(|x| **x == 1).count();
    assert!(all.iter().all(|x| *x < 2) && (400..600).contains(&ones), "{ones}");
    let integers = Distribution::Integers { base: -128, count: 256, wide: false };
    let all: Vec<i8> = drawn(&stream, integers, DType::I8, 1000);
    assert!(all.iter().any(|x| *x < -100) && all.iter().any(|x| *x > 100));
    // bf16: nothing is the end of the range
    let all: Vec<u16> = drawn(&stream, Distribution::Uniform(0.0, 1.0), DType::BF16, 4000);
    assert!(all.iter().all(|x| *x < 0x3f80));
}

#[test]
fn each_element_has_a_probability_of_its_own() {
    let Some(stream) = stream() else { return };
    let p: Vec<f32> = (0..300).map(|i| (i % 3) as f32 / 2.0).collect();
    let given = given(&stream, &p);
    let drawn: Vec<f32> =
        drawn(&stream, Distribution::Probabilities(given.address(), false), DType::F32, 300);
    let halves = drawn.iter().skip(1).step_by(3).sum::<f32>();
    assert!((30.0..70.0).contains(&halves), "{halves}");
    assert!(drawn.iter().step_by(3).all(|x| *x == 0.0));
    assert!(drawn.iter().skip(2).step_by(3).all(|x| *x == 1.0));
}

#[test]
fn dropout_keeps_and_scales() {
    let Some(stream) = stream() else { return };
    for count in [1000usize, 1002, 999] {
        let x: Vec<f32> = (1..=count).map(|i| i as f32).collect();
        let source = given(&stream, &x);
        let (out, mask) = (room::<f32>(&stream, count), room::<u8>(&stream, count));
        let places = [source.address(), out.address(), mask.address()];
        // SAFETY: the memory is of these sizes.
        unsafe { dropout(&stream, DType::F32, count as u64, [0.75, 4.0 / 3.0], places, FROM) }
            .expect("it is queued");
        let (out, mask) = (taken::<f32>(&stream, &out, count), taken::<u8>(&stream, &mask, count));
        let kept = mask.iter().filter(|m| **m == 1).count() as f64 / count as f64;
        assert!((kept - 0.75).abs() < 0.06, "{kept}");
        for ((x, y), m) in x.iter().zip(out).zip(&mask) {
            assert_eq!(y, x * f32::from(*m) * (4.0 / 3.0) as f32);
        }
        // as the same mask by itself
        let drawn: Vec<u8> = drawn(&stream, Distribution::Bernoulli(0.75), DType::Bool, count);
        assert_eq!(mask, drawn);
    }
}

#[test]
fn kernels_have_enough_registers() {
    for distribution in [Distribution::Normal(0.0, 1.0), Distribution::Cauchy(0.0, 1.0)] {
        for dtype in [DType::BF16, DType::F64] {
            crate::testing::assert_no_spills(
                &distribution.text(dtype).expect("a program"),
                &format!("{distribution:?} {dtype}"),
            );
        }
    }
    crate::testing::assert_no_spills(&dropout_text(DType::F16), "dropout");
}
