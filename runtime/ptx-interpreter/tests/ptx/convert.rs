use half::{bf16, f16};

use crate::device::{Device, Plain, Random, args, to_bf16, to_f16, x};

const CONVERT: &str = include_str!("../kernels/convert.ptx");

fn map<T: Plain, U: Plain>(kernel: &str, input: &[T], count: usize) -> Vec<U> {
    let mut device = Device::new(CONVERT);
    let (from, to) = (device.upload(input), device.allocate::<U>(count));
    let args = args().with(to).with(from).with(count as u32);
    device.run(kernel, x(count.div_ceil(256) as u32), x(256), &args);
    device.download(to, count)
}

fn all_halves() -> Vec<u16> {
    (0..=u16::MAX).collect()
}

/// Single-precision numbers around every half, and others.
fn many_floats() -> Vec<f32> {
    let mut values = Vec::new();
    for high in 0..=u16::MAX {
        for low in [0u32, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001] {
            values.push(f32::from_bits(u32::from(high) << 16 | low));
        }
    }
    values
}

#[test]
fn halves_to_single_precision_exhaustively() {
    for (bits, ours) in
        map::<u16, f32>("half_to_float", &all_halves(), 1 << 16).into_iter().enumerate()
    {
        let reference = f16::from_bits(bits as u16).to_f32();
        assert!(ours == reference || (ours.is_nan() && reference.is_nan()), "{bits:#x}");
    }
    for (bits, ours) in
        map::<u16, f32>("bfloat_to_float", &all_halves(), 1 << 16).into_iter().enumerate()
    {
        let reference = bf16::from_bits(bits as u16).to_f32();
        assert!(ours == reference || (ours.is_nan() && reference.is_nan()), "{bits:#x}");
    }
}

#[test]
fn single_precision_to_halves() {
    let values = many_floats();
    let ours = map::<f32, u16>("float_to_half", &values, values.len());
    for (&value, ours) in values.iter().zip(ours) {
        let reference = if value.is_nan() { 0x7fff } else { f16::from_f32(value).to_bits() };
        assert_eq!(ours, reference, "{value:e}");
    }
    let ours = map::<f32, u16>("float_to_bfloat", &values, values.len());
    for (&value, ours) in values.iter().zip(ours) {
        let reference = if value.is_nan() { 0x7fff } else { bf16::from_f32(value).to_bits() };
        assert_eq!(ours, reference, "{value:e}");
    }
    let pairs = |kernel| map::<f32, u16>(kernel, &values[..100_000], 50_000);
    let mut device = Device::new(CONVERT);
    let from = device.upload(&values[..100_000]);
    for (kernel, single) in
        [("float_pair", "float_to_half"), ("float_pair_bfloat", "float_to_bfloat")]
    {
        let to = device.allocate::<u16>(100_000);
        device.run(kernel, x(196), x(256), &args().with(to).with(from).with(50_000u32));
        assert_eq!(device.download::<u16>(to, 50_000), pairs(single));
    }
}

#[test]
fn directed_rounding_to_halves() {
    let values = many_floats();
    let zero = map::<f32, u16>("float_to_half_rz", &values, values.len());
    let up = map::<f32, u16>("float_to_half_ru", &values, values.len());
    let brain = map::<f32, u16>("float_to_bfloat_rz", &values, values.len());
    for (index, &value) in values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
        let (zero, up) = (f16::from_bits(zero[index]).to_f32(), f16::from_bits(up[index]).to_f32());
        assert!(zero.abs() <= value.abs() && up >= value, "{value:e} {zero:e} {up:e}");
        if up.is_finite() && value > 0.0 {
            assert!(up == zero || up.to_bits() > zero.to_bits());
        }
        assert_eq!(brain[index], (value.to_bits() >> 16) as u16, "{value:e}");
    }
}

#[test]
fn integers_to_and_from_floats() {
    let mut random = Random::new(40);
    let ints: Vec<u32> =
        (0..2000).map(|_| (random.bits() as i32 >> (random.bits() % 32)) as u32).collect();
    let ours = map::<u32, u16>("int_to_half", &ints, ints.len());
    for (&value, ours) in ints.iter().zip(ours) {
        assert_eq!(ours, to_f16((value as i32).into()).to_bits(), "{value}");
    }
    let ours = map::<u32, u16>("int_to_bfloat", &ints, ints.len());
    for (&value, ours) in ints.iter().zip(ours) {
        assert_eq!(ours, to_bf16((value as i32).into()).to_bits(), "{value}");
    }
    let longs: Vec<i64> = (0..2000).map(|_| random.bits() as i64 >> (random.bits() % 64)).collect();
    let ours = map::<i64, f32>("long_to_float", &longs, longs.len());
    assert!(longs.iter().zip(ours).all(|(&value, ours)| ours == value as f32));
    let ours = map::<i64, f32>("long_to_float_rz", &longs, longs.len());
    for (&value, ours) in longs.iter().zip(ours) {
        let near = value as f32;
        let past = (near as i128).abs() > i128::from(value).abs();
        let expected = if past { f32::from_bits(near.to_bits() - 1) } else { near };
        assert_eq!(ours, expected, "{value}");
    }
    let ours = map::<i64, f64>("long_to_double_ru", &longs, longs.len());
    for (&value, ours) in longs.iter().zip(ours) {
        let near = value as f64;
        let expected = if (near as i128) < i128::from(value) { near.next_up() } else { near };
        assert_eq!(ours, expected, "{value}");
    }
    let mut floats = random.floats(1000, 300.0);
    floats.extend(random.floats(1000, 3e19));
    floats.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.5, 254.999, 255.5]);
    let ours = map::<f32, i32>("float_to_int", &floats, floats.len());
    // Rust saturates as PTX does
    assert!(floats.iter().zip(ours).all(|(&value, ours)| ours == value as i32));
    let ours = map::<f32, u32>("float_to_uint", &floats, floats.len());
    assert!(floats.iter().zip(ours).all(|(&value, ours)| ours == value as u32));
    let ours = map::<f32, i64>("float_to_long", &floats, floats.len());
    for (&value, ours) in floats.iter().zip(ours) {
        assert_eq!(ours, if value.is_nan() { i64::MIN } else { value as i64 }, "{value}");
    }
    let ours = map::<f32, u8>("float_to_byte", &floats, floats.len());
    for (&value, ours) in floats.iter().zip(ours) {
        assert_eq!(ours, value as u8, "{value}");
    }
    let bytes: Vec<u8> = (0..=255).collect();
    let ours = map::<u8, i32>("signed_bytes", &bytes, 256);
    for (&byte, ours) in bytes.iter().zip(ours) {
        let value = i32::from(byte as i8);
        assert_eq!(ours, value * 2 + i32::from(value as i16 as u16), "{byte}");
    }
    let finite: Vec<u16> =
        all_halves().into_iter().filter(|&bits| f16::from_bits(bits).is_finite()).collect();
    let ours = map::<u16, i32>("half_to_int", &finite, finite.len());
    for (&bits, ours) in finite.iter().zip(ours) {
        let value = f16::from_bits(bits).to_f32();
        let short = i32::from(value as i16);
        let expected = value.round_ties_even() as i32 + value.floor() as i32 * 3 + short * 7;
        assert_eq!(ours, expected, "{value}");
    }
}

#[test]
fn double_precision_to_fewer_bits() {
    let mut random = Random::new(41);
    let values: Vec<f64> =
        (0..5000).map(|_| random.unit() * 2f64.powf(20.0 * random.unit())).collect();
    let ours = map::<f64, u16>("double_to_half", &values, values.len());
    for (&value, ours) in values.iter().zip(ours) {
        assert_eq!(ours, to_f16(value).to_bits(), "{value:e}");
    }
    let ours = map::<f64, f32>("double_to_float_rd", &values, values.len());
    for (&value, ours) in values.iter().zip(ours) {
        let near = value as f32;
        let expected = if f64::from(near) > value { near.next_down() } else { near };
        assert_eq!(ours, expected, "{value:e}");
    }
}

fn pairs<T: Plain>(kernel: &str, a: &[T], b: &[T], count: usize) -> Vec<u16> {
    let mut device = Device::new(CONVERT);
    let (a, b, to) = (device.upload(a), device.upload(b), device.allocate::<T>(a.len()));
    let args = args().with(to).with(a).with(b).with(count as u32);
    device.run(kernel, x(count.div_ceil(256) as u32), x(256), &args);
    device.download(to, a_len(&device, to) / 2)
}

fn a_len(device: &Device, address: u64) -> usize {
    device.memory.allocation(address).map_or(0, |(_, bytes)| bytes as usize)
}

#[test]
fn arithmetic_of_halves() {
    let mut random = Random::new(42);
    let mut draw = || {
        let number = |_| to_f16(random.unit() * 2f64.powf(8.0 * random.unit()));
        (0..4000).map(number).collect::<Vec<_>>()
    };
    let (a, b) = (draw(), draw());
    let each = |kernel: &str, reference: &dyn Fn(f64, f64) -> f64| {
        for (index, ours) in pairs(kernel, &a, &b, a.len()).into_iter().enumerate() {
            let (x, y) = (a[index].to_f64(), b[index].to_f64());
            let expected = to_f16(reference(x, y));
            assert_eq!(f16::from_bits(ours), expected, "{kernel}({x}, {y})");
        }
    };
    each("add_f16", &|x, y| x + y);
    each("mul_f16", &|x, y| x * y);
    each("fma_f16", &|x, y| x * y + x);
    each("div_f16", &|x, y| x / y);
    each("max_f16", &f64::max);
    each("select_f16", &|x, y| if x < y { x.abs() } else { -y });
    for (index, ours) in pairs("tanh_f16", &a, &b, a.len()).into_iter().enumerate() {
        let (ours, expected) = (f16::from_bits(ours).to_f64(), a[index].to_f64().tanh());
        assert!((ours - expected).abs() <= 2f64.powi(-10), "{} {ours} {expected}", a[index]);
    }
    for (index, ours) in pairs("sin_f16", &a, &b, a.len()).into_iter().enumerate() {
        let (ours, expected) = (f16::from_bits(ours).to_f64(), a[index].to_f64().sin());
        assert!((ours - expected).abs() <= 2f64.powi(-10), "{} {ours} {expected}", a[index]);
    }
}

#[test]
fn arithmetic_of_bfloat16() {
    let mut random = Random::new(43);
    let mut draw = || {
        let number = |_| to_bf16(random.unit() * 2f64.powf(8.0 * random.unit()));
        (0..4000).map(number).collect::<Vec<_>>()
    };
    let (mut a, b) = (draw(), draw());
    a[3] = bf16::NAN;
    let each = |kernel: &str, reference: &dyn Fn(f64, f64) -> f64| {
        for (index, ours) in pairs(kernel, &a, &b, a.len()).into_iter().enumerate() {
            let (x, y) = (a[index].to_f64(), b[index].to_f64());
            let (ours, expected) = (bf16::from_bits(ours), to_bf16(reference(x, y)));
            assert!(ours == expected || (ours.is_nan() && expected.is_nan()), "{kernel}({x}, {y})");
        }
    };
    each("add_bf16", &|x, y| x + y);
    each("mul_bf16", &|x, y| x * y);
    each("fma_bf16", &|x, y| x * y + x);
    each("min_bf16", &|x, y| if x.is_nan() || y.is_nan() { f64::NAN } else { x.min(y) });
    for (index, ours) in pairs("compare_bf16x2", &a, &b, 2000).into_iter().enumerate() {
        assert_eq!(bf16::from_bits(ours).to_f32(), f32::from(u8::from(a[index] <= b[index])));
    }
}

#[test]
fn pairs_of_halves() {
    let mut random = Random::new(44);
    let mut draw = || (0..2000).map(|_| to_f16(random.unit() * 2.0)).collect::<Vec<_>>();
    let (a, b) = (draw(), draw());
    let each = |kernel: &str, reference: &dyn Fn(f64, f64) -> f64, off: f64| {
        for (index, ours) in pairs(kernel, &a, &b, 1000).into_iter().enumerate() {
            let (x, y) = (a[index].to_f64(), b[index].to_f64());
            let expected = to_f16(reference(x, y)).to_f64();
            let ours = f16::from_bits(ours).to_f64();
            assert!(
                (ours - expected).abs() <= off * expected.abs(),
                "{kernel}({x}, {y}) = {ours}, not {expected}"
            );
        }
    };
    each("sat_f16x2", &|x, y| (x + y).clamp(0.0, 1.0), 0.0);
    each("relu_f16x2", &|x, y| (x * y + y).max(0.0), 0.0);
    each("compare_f16x2", &|x, y| f64::from(u8::from(x > y)), 0.0);
    each("exp_f16x2", &|x, y| x.min(y).exp(), 2f64.powi(-9));
}

#[test]
fn numbers_of_eight_bits() {
    let values = [
        0.0f32,
        1.0,
        -1.0,
        448.0,
        500.0,
        -1e9,
        0.001953125,
        1e-5,
        1.0625,
        1.1875,
        57344.0,
        f32::NAN,
    ];
    let mut device = Device::new(CONVERT);
    let (packed, halves) = (device.allocate::<u16>(12), device.allocate::<u16>(12));
    let from = device.upload(&values);
    device.run("fp8", x(1), x(32), &args().with(packed).with(halves).with(from).with(6u32));
    let packed = device.download::<u16>(packed, 12);
    let e4m3: Vec<u8> = packed.iter().step_by(2).flat_map(|pair| pair.to_le_bytes()).collect();
    assert_eq!(e4m3, [0, 0x38, 0xb8, 0x7e, 0x7e, 0xfe, 0x01, 0, 0x38, 0x3a, 0x7e, 0x7f]);
    let e5m2: Vec<u8> =
        packed.iter().skip(1).step_by(2).flat_map(|pair| pair.to_le_bytes()).collect();
    assert_eq!(e5m2, [0, 0x3c, 0xbc, 0x5f, 0x60, 0xfb, 0x18, 0x01, 0x3c, 0x3d, 0x7b, 0x7f]);
    let back = device.download::<f16>(halves, 12);
    let expected = [0.0, 1.0, -1.0, 448.0, 448.0, -448.0, 0.001953125, 0.0, 1.0, 1.25, 448.0];
    assert!(back.iter().zip(expected).all(|(half, expected)| half.to_f64() == expected));
    assert!(back[11].is_nan());
}

#[test]
fn instructions_that_only_assembly_has() {
    let (a, b, f) = (0xf123_4567u32, 0x0fed_cba9u32, -1.75f32);
    let mut device = Device::new(CONVERT);
    let out = device.allocate::<u32>(28);
    device.run("odd_ones", x(1), x(32), &args().with(out).with(a).with(b).with(f));
    let ours = device.download::<u32>(out, 28);
    let squared = 1.75f32 * 1.75 + 0.5;
    let expected = [
        (0x56i32 - 0x80) as u32, // bits 4 to 10 are 0x56, the top one set
        0x7fed_cba9,             // four bits of 0x567 fit
        27,                      // of the complement 0x0edcba98
        4,
        a ^ b ^ 0x0f0f_0f0f,
        1,
        0,
        b, // a is negative
        0,
        a.wrapping_add(b),
        2,
        u32::from_le_bytes([0x23, 0x23, 0x23, 0xf1]),
        0x567,
        0x1ff0,
        0,
        (-1.75f32).to_bits(),
        if squared > 1.0 { 1f32.to_bits() } else { 0 },
        -1i32 as u32,
        0,
        0x3f80, // -1.75 becomes 0, 1 is in the lower half
        (-1.75f32).to_bits(),
        (-1.75f32).tanh().to_bits(),
        0x4567 * 0x4567 + 5,
        0,
        0,
        (u64::from(b) << 32 | u64::from(a)).wrapping_shr(4) as u32,
        6,                                             // bits 5 and 6 are set from 3 on
        ((0x4567 * 0xa9) + (-3805 * 0xcb) + 9) as u32, // the upper half is 0xf123
    ];
    for (index, (ours, expected)) in ours.iter().zip(expected).enumerate() {
        assert_eq!(*ours, expected, "{index}");
    }
}
