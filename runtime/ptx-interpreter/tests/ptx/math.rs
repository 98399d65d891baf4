use crate::device::{Device, Plain, Random, args, x};

const MATH: &str = include_str!("../kernels/math.ptx");

fn map<T: Plain, U: Plain>(kernel: &str, input: &[T], out: usize) -> Vec<U> {
    let mut device = Device::new(MATH);
    let (from, to) = (device.upload(input), device.allocate::<U>(out));
    let args = args().with(to).with(from).with(input.len() as u32);
    device.run(kernel, x(input.len().div_ceil(128) as u32), x(128), &args);
    device.download(to, out)
}

fn map_pairs<T: Plain, U: Plain>(kernel: &str, left: &[T], right: &[T], out: usize) -> Vec<U> {
    let mut device = Device::new(MATH);
    let (a, b, to) = (device.upload(left), device.upload(right), device.allocate::<U>(out));
    let args = args().with(to).with(a).with(b).with(left.len() as u32);
    device.run(kernel, x(left.len().div_ceil(128) as u32), x(128), &args);
    device.download(to, out)
}

/// Ours within so many units in the last place of single precision.
#[track_caller]
fn close(kernel: &str, input: &[f32], ulps: f64, reference: impl Fn(f64) -> f64) {
    for (&x, ours) in input.iter().zip(map::<f32, f32>(kernel, input, input.len())) {
        check(&format!("{kernel}({x:e})"), ours, reference(x.into()), ulps);
    }
}

#[track_caller]
fn check(what: &str, ours: f32, reference: f64, ulps: f64) {
    let rounded = reference as f32;
    if rounded.is_nan() || rounded.is_infinite() {
        assert!(
            ours == rounded || (ours.is_nan() && rounded.is_nan()),
            "{what} = {ours:e}, not {reference:e}"
        );
        return;
    }
    let unit = f64::from(rounded.abs().max(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON);
    let off = (f64::from(ours) - reference).abs() / unit;
    assert!(off <= ulps, "{what} = {ours:e}, not {reference:e}: {off} ulps");
}

#[track_caller]
fn close_64(kernel: &str, input: &[f64], ulps: f64, reference: impl Fn(f64) -> f64) {
    for (&x, ours) in input.iter().zip(map::<f64, f64>(kernel, input, input.len())) {
        let expected = reference(x);
        let same = ours == expected || (ours.is_nan() && expected.is_nan());
        let off = (ours - expected).abs() / (expected.abs() * f64::EPSILON);
        assert!(same || off <= ulps, "{kernel}({x:e}) = {ours:e}, not {expected:e}: {off} ulps");
    }
}

/// Numbers of all sizes, and the ends of the range.
fn sweep(least: f32, most: f32) -> Vec<f32> {
    let mut random = Random::new(30);
    let mut values: Vec<f32> = (0..1000)
        .map(|_| ((random.unit() + 1.0) / 2.0 * f64::from(most - least)) as f32 + least)
        .collect();
    values.extend(
        (0..500).map(|_| (random.unit().signum() * 2f64.powf(20.0 * random.unit())) as f32),
    );
    values.retain(|value| (least..=most).contains(value));
    values.extend([0.0, 1.0, 0.5, 1e-30, 1e-40]);
    values
}

#[test]
fn exponentials_and_logarithms() {
    let mut wide = sweep(-110.0, 95.0);
    wide.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
    close("exp_f32", &wide, 2.0, f64::exp);
    let mut positive = sweep(0.0, 1e6);
    positive.extend([f32::INFINITY, f32::NAN, -1.0, f32::MAX, f32::MIN_POSITIVE]);
    close("log_f32", &positive, 1.5, f64::ln);
    close("log1p_f32", &sweep(-0.99, 100.0), 2.0, f64::ln_1p);
    close("rsqrt_f32", &sweep(1e-6, 1e6)[..1000], 2.0, |x| 1.0 / x.sqrt());
    close("cbrt_f32", &sweep(-1e6, 1e6), 1.5, f64::cbrt);
}

#[test]
fn circular_and_hyperbolic_functions() {
    let mut angles = sweep(-10.0, 10.0);
    // beyond 105615 the argument is reduced with a table in local memory
    angles.extend([105_616.0, -3e5, 1e7, 1.23e15, -7e22, 3e38]);
    close("sin_f32", &angles, 2.0, f64::sin);
    close("cos_f32", &angles, 2.0, f64::cos);
    close("tan_f32", &angles, 4.0, f64::tan);
    close("atan_f32", &sweep(-100.0, 100.0), 2.0, f64::atan);
    close("tanh_f32", &sweep(-12.0, 12.0), 2.0, f64::tanh);
    assert!(
        map::<f32, f32>("sin_f32", &[f32::INFINITY, f32::NAN], 2)
            .iter()
            .all(|value| value.is_nan())
    );
}

#[test]
fn special_functions() {
    close("erf_f32", &sweep(-5.0, 5.0), 2.0, libm::erf);
    close("gamma_f32", &sweep(0.1, 30.0)[..1000], 8.0, libm::tgamma);
    close_64("erf_f64", &[-3.0, -1.0, -0.1, 0.0, 0.3, 0.9, 1.5, 2.2, 4.0], 4.0, libm::erf);
}

#[test]
fn rounding_to_integers() {
    let values = sweep(-100.0, 100.0);
    let ours = map::<f32, f32>("round_f32", &values, values.len());
    for (x, ours) in values.iter().zip(ours) {
        assert_eq!(ours, 100f32.mul_add(x.trunc(), x.round_ties_even() + 10.0 * x.floor()), "{x}");
    }
}

#[test]
fn functions_of_two_numbers() {
    let mut random = Random::new(31);
    let (a, b) = (random.floats(2000, 20.0), random.floats(2000, 8.0));
    let positive: Vec<f32> = a.iter().map(|value| value.abs()).collect();
    let each = |kernel: &str, a: &[f32], ulps: f64, reference: fn(f64, f64) -> f64| {
        let ours = map_pairs::<f32, f32>(kernel, a, &b, a.len());
        for ((x, y), ours) in a.iter().zip(&b).zip(ours) {
            check(
                &format!("{kernel}({x:e}, {y:e})"),
                ours,
                reference((*x).into(), (*y).into()),
                ulps,
            );
        }
    };
    each("pow_f32", &positive, 4.0, f64::powf);
    each("mod_f32", &a, 0.0, |x, y| x % y);
    each("div_f32", &a, 0.5, |x, y| x / y);
    each("atan2_f32", &a, 3.0, f64::atan2);
    each("hypot_f32", &a, 3.0, f64::hypot);
    let ours = map_pairs::<f32, f32>("extremes_f32", &a, &b, a.len());
    for ((x, y), ours) in a.iter().zip(&b).zip(ours) {
        assert_eq!(ours, 3f32.mul_add(x.max(*y), x.min(*y)) + 1f32.copysign(*x));
    }
}

#[test]
fn fractions_exponents_and_remainders() {
    let mut random = Random::new(32);
    let (a, b) = (random.floats(500, 1e6), random.floats(500, 30.0));
    let ours = map_pairs::<f32, f32>("remainder_and_frexp", &a, &b, 2000);
    for ((&x, &y), ours) in a.iter().zip(&b).zip(ours.chunks(4)) {
        let (mantissa, exponent) = libm::frexpf(x);
        assert_eq!(ours, [mantissa, exponent as f32, libm::remainderf(x, y), x], "{x} {y}");
    }
}

#[test]
fn directed_rounding() {
    let values = sweep(-1000.0, 1000.0);
    for (&x, ours) in values.iter().zip(map::<f32, f32>("directed_f32", &values, values.len())) {
        let wide = f64::from(x);
        let (tenth, third) = (f64::from(0.1f32), wide / 3.0);
        let down = |value: f64| {
            let near = value as f32;
            if f64::from(near) > value { near.next_down() } else { near }
        };
        let up = |value: f64| -down(-value);
        let zero = if third > 0.0 { down(third) } else { up(third) };
        let (add, mul, root) = (down(wide + tenth), up(wide * tenth), down(wide.abs().sqrt()));
        let expected = 8f32.mul_add(root, 4f32.mul_add(zero, 2f32.mul_add(mul, add)));
        assert_eq!(ours, expected, "{x:e}");
    }
}

#[test]
fn double_precision() {
    let mut random = Random::new(33);
    let a: Vec<f64> = (0..1000).map(|_| random.unit() * 50.0).collect();
    let b: Vec<f64> = (0..1000).map(|_| random.unit() * 7.0).collect();
    let positive: Vec<f64> = a.iter().map(|value| value.abs()).collect();
    close_64("exp_f64", &a, 2.0, f64::exp);
    close_64(
        "exp_f64",
        &[710.0, -750.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0],
        2.0,
        f64::exp,
    );
    close_64("log_f64", &positive, 2.0, f64::ln);
    close_64("log_f64", &[0.0, -1.0, f64::INFINITY, f64::MIN_POSITIVE], 2.0, f64::ln);
    close_64("sin_f64", &a, 2.0, f64::sin);
    close_64("sin_f64", &[1e10, -1e300], 2.0, f64::sin);
    close_64("sqrt_f64", &positive, 0.0, f64::sqrt);
    close_64("tanh_f64", &a, 2.0, f64::tanh);
    let each = |kernel: &str, a: &[f64], ulps: f64, reference: fn(f64, f64) -> f64| {
        let ours = map_pairs::<f64, f64>(kernel, a, &b, a.len());
        for ((x, y), ours) in a.iter().zip(&b).zip(ours) {
            let expected = reference(*x, *y);
            let off = (ours - expected).abs() / (expected.abs() * f64::EPSILON);
            assert!(
                ours == expected || off <= ulps,
                "{kernel}({x:e}, {y:e}) = {ours:e}, not {expected:e}"
            );
        }
    };
    each("pow_f64", &positive, 2.0, f64::powf);
    each("div_f64", &a, 0.0, |x, y| x / y);
    each("mod_f64", &a, 0.0, |x, y| x % y);
    each("fma_f64", &a, 2e3, |x, y| x.mul_add(y, 1.0) - (x + y) + x * y);
    close_64("cast_f64", &a, 0.0, |x| {
        f64::from(x as f32) + x.trunc() + x.trunc() + x.round_ties_even()
    });
}

#[test]
fn integers() {
    let mut random = Random::new(34);
    let mut draw =
        || (0..2000).map(|_| random.bits() >> (random.bits() % 64)).collect::<Vec<u64>>();
    let (mut a, mut b) = (draw(), draw());
    (a[0], b[0], a[1], b[1]) = (i64::MIN as u64, u64::MAX, 5, 0);
    let pairs = || a.iter().copied().zip(b.iter().copied());
    let ours = map_pairs::<u64, u64>("div_i64", &a, &b, a.len());
    let expected =
        |x: u64, y: u64| if y == 0 { 0 } else { (x as i64).wrapping_div(y as i64) as u64 };
    assert!(pairs().zip(ours).all(|((x, y), ours)| ours == expected(x, y)));
    let ours = map_pairs::<u64, u64>("rem_i64", &a, &b, a.len());
    let expected =
        |x: u64, y: u64| if y == 0 { 0 } else { (x as i64).wrapping_rem(y as i64) as u64 };
    assert!(pairs().zip(ours).all(|((x, y), ours)| ours == expected(x, y)));
    let ours = map_pairs::<u64, u64>("div_u64", &a, &b, a.len());
    assert!(
        pairs().zip(ours).all(|((x, y), ours)| ours == x.checked_div(y).map_or(0, |q| q ^ (x % y)))
    );
    let ours = map_pairs::<u64, u64>("bits_u64", &a, &b, a.len());
    for ((x, y), ours) in pairs().zip(ours) {
        let high = ((u128::from(x) * u128::from(y)) >> 64) as u64;
        let expected = u64::from(x.count_ones() + 128 * x.leading_zeros())
            .wrapping_add(y.reverse_bits())
            .wrapping_add(high)
            .wrapping_add(x << (y & 63))
            .wrapping_add(x >> (y & 63))
            .wrapping_add((x as i64 >> (y & 63)) as u64);
        assert_eq!(ours, expected, "{x:#x} {y:#x}");
    }
    let ours = map_pairs::<u64, u64>("wide_u64", &a, &b, a.len());
    for ((x, y), ours) in pairs().zip(ours) {
        let (wide_x, wide_y) = (u128::from(x), u128::from(y));
        let high = (wide_x.wrapping_mul(wide_y).wrapping_add(wide_x) >> 64) as u64;
        let low = wide_x.wrapping_mul(wide_y).wrapping_sub(wide_y) as u64;
        assert_eq!(ours, high.wrapping_add(low), "{x:#x} {y:#x}");
    }
}

#[test]
fn integers_of_32_bits() {
    let mut random = Random::new(35);
    let mut draw =
        || (0..2000).map(|_| random.bits() as u32 >> (random.bits() % 32)).collect::<Vec<u32>>();
    let (mut a, mut b) = (draw(), draw());
    (a[0], b[0], a[1], b[1]) = (i32::MIN as u32, u32::MAX, 5, 0);
    let each = |kernel: &str, reference: &dyn Fn(u32, u32) -> u32| {
        let ours = map_pairs::<u32, u32>(kernel, &a, &b, a.len());
        for ((&x, &y), ours) in a.iter().zip(&b).zip(ours) {
            assert_eq!(ours, reference(x, y), "{kernel} {x:#x} {y:#x}");
        }
    };
    each("div_i32", &|x, y| if y == 0 { 0 } else { (x as i32).wrapping_div(y as i32) as u32 });
    each("rem_i32", &|x, y| if y == 0 { 0 } else { (x as i32).wrapping_rem(y as i32) as u32 });
    each("div_u32", &|x, y| x.checked_div(y).map_or(0, |quotient| quotient + x % y));
    each("high_i32", &|x, y| {
        let (x, y) = (x as i32, y as i32);
        let (wide_x, wide_y) = (i64::from(x), i64::from(y));
        let mul24 = i64::from(x << 8 >> 8) * i64::from(y << 8 >> 8);
        let terms = [
            (wide_x * wide_y) >> 32,
            mul24,
            (wide_x + wide_y) >> 1,
            (wide_x + wide_y + 1) >> 1,
            x.wrapping_abs().into(),
            i64::from(x.min(y)) * 3,
            i64::from(x.max(y)) * 5,
        ];
        terms.iter().fold(0u32, |sum, &term| sum.wrapping_add(term as u32))
    });
    each("bits_u32", &|x, y| {
        let bytes = (u64::from(y) << 32 | u64::from(x)).to_le_bytes();
        let permuted = u32::from_le_bytes([bytes[1], bytes[4], bytes[2], bytes[5]]);
        let wide = u64::from(y) << 32 | u64::from(x);
        let left = (wide << (y & 31) >> 32) as u32;
        let right = (wide >> (y & 63).min(32)) as u32;
        let lowest = if x == 0 { 0 } else { x.trailing_zeros() + 1 };
        let terms = [
            x.count_ones(),
            64 * x.leading_zeros(),
            4096 * lowest,
            y.reverse_bits(),
            permuted,
            left,
            right,
            ((u64::from(x) * u64::from(y)) >> 32) as u32,
            (x as i32).abs_diff(y as i32),
            x,
        ];
        terms.iter().fold(0u32, |sum, &term| sum.wrapping_add(term))
    });
    each("simd_u32", &|x, y| {
        let bytes = |f: &dyn Fn(u8, u8) -> u8| {
            let (x, y) = (x.to_le_bytes(), y.to_le_bytes());
            u32::from_le_bytes(std::array::from_fn(|at| f(x[at], y[at])))
        };
        let halves = |f: &dyn Fn(u16, u16) -> u16| {
            u32::from(f((x >> 16) as u16, (y >> 16) as u16)) << 16
                | u32::from(f(x as u16, y as u16))
        };
        let dot = x
            .to_le_bytes()
            .into_iter()
            .zip(y.to_le_bytes())
            .map(|(x, y)| u32::from(x) * u32::from(y));
        halves(&u16::saturating_add)
            ^ bytes(&u8::abs_diff)
            ^ (dot.sum::<u32>() + 7)
            ^ halves(&|x, y| (x as i16).max(y as i16) as u16)
            ^ bytes(&|x, y| if x > y { 255 } else { 0 })
    });
}
