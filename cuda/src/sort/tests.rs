use super::*;
use crate::testing::{given, numbers, room, stream, taken};

/// Sorts on the device, and by the standard library's stable sort.
fn check<T: Copy + Default + PartialEq + std::fmt::Debug>(
    stream: &Stream,
    dtype: DType,
    [rows, length, keep]: [i64; 3],
    all: &[T],
    key: impl Fn(T) -> u64,
) {
    let source = given(stream, all);
    let of = Rows { dtype, rows, length };
    for descending in [false, true] {
        let count = (rows * keep) as usize;
        let (values, indices) = (room::<T>(stream, count), room::<i64>(stream, count));
        let order = Order { descending, keep };
        // SAFETY: the memory is of these sizes.
        unsafe { sort(stream, source.address(), of, order, [values.address(), indices.address()]) }
            .expect("it is queued");
        let places = taken::<i64>(stream, &indices, count);
        let sorted = taken::<T>(stream, &values, count);
        for row in 0..rows as usize {
            let elements = &all[row * length as usize..][..length as usize];
            let mut want: Vec<i64> = (0..length).collect();
            let of = |i: &i64| key(elements[*i as usize]);
            match descending {
                true => want.sort_by_key(|i| !of(i)),
                false => want.sort_by_key(of),
            }
            want.truncate(keep as usize);
            let at = row * keep as usize..(row + 1) * keep as usize;
            assert_eq!(places[at.clone()], want, "{dtype} {length} {keep} {descending}");
            let values: Vec<u64> = sorted[at].iter().map(|v| key(*v)).collect();
            let want: Vec<u64> = want.iter().map(of).collect();
            assert_eq!(values, want);
        }
    }
}

fn key_f32(x: f32) -> u64 {
    let bits = x.to_bits();
    match () {
        () if x.is_nan() => u64::from(u32::MAX),
        () if x == 0.0 => 1 << 31,
        () if x < 0.0 => u64::from(!bits),
        () => u64::from(bits | 1 << 31),
    }
}

#[test]
fn rows_of_all_lengths_are_sorted_stably() {
    let Some(stream) = stream() else { return };
    for (rows, length) in
        [(5, 1), (3, 2), (4, 33), (2, 128), (2, 129), (1, 2048), (2, 2049), (1, 7000)]
    {
        // few different numbers, so that many are equal
        let all: Vec<f32> = (numbers(length as u64).take((rows * length) as usize))
            .map(|x| match x % 97 {
                0 => f32::NAN,
                1 => 0.0,
                2 => -0.0,
                3 => f32::INFINITY,
                4 => f32::NEG_INFINITY,
                n => n as f32 - 50.0,
            })
            .collect();
        check(&stream, DType::F32, [rows, length, length], &all, key_f32);
    }
}

#[test]
fn the_first_ones_are_those_of_a_whole_sort() {
    let Some(stream) = stream() else { return };
    for (length, keep) in [(100, 7), (5000, 3), (9000, 1000), (5000, 1500), (4096, 1)] {
        let all: Vec<f32> = (numbers(keep as u64).take(2 * length as usize))
            .map(|x| if x % 50 == 0 { f32::NAN } else { (x % 1000) as f32 })
            .collect();
        check(&stream, DType::F32, [2, length, keep], &all, key_f32);
    }
}

#[test]
fn dtypes_have_their_orders() {
    let Some(stream) = stream() else { return };
    let bits: Vec<u64> = numbers(3).take(2 * 300).collect();
    let shape = [2, 300, 300];
    let of = |f: &dyn Fn(u64) -> i64| -> Vec<i64> { bits.iter().map(|b| f(*b)).collect() };
    let signed = |x: i64| (x as u64) ^ 1 << 63;
    let bytes: Vec<u8> = bits.iter().map(|b| *b as u8).collect();
    check(&stream, DType::U8, shape, &bytes, u64::from);
    let bools: Vec<u8> = bits.iter().map(|b| (*b % 2) as u8).collect();
    check(&stream, DType::Bool, shape, &bools, u64::from);
    let narrow: Vec<i8> = bits.iter().map(|b| *b as i8).collect();
    check(&stream, DType::I8, shape, &narrow, |x| signed(x.into()));
    let short: Vec<i16> = bits.iter().map(|b| *b as i16).collect();
    check(&stream, DType::I16, shape, &short, |x| signed(x.into()));
    let ints: Vec<i32> = bits.iter().map(|b| *b as i32).collect();
    check(&stream, DType::I32, shape, &ints, |x| signed(x.into()));
    check(&stream, DType::I64, shape, &of(&|b| b as i64), signed);
    let doubles: Vec<f64> = bits.iter().map(|b| (*b as i64 % 1000) as f64).collect();
    check(&stream, DType::F64, shape, &doubles, |x| signed(x as i64));
    // 16 bits of a float, of which half have a sign
    let halves: Vec<u16> = bits.iter().map(|b| *b as u16).collect();
    for (dtype, infinity) in [(DType::F16, 0x7c00u16), (DType::BF16, 0x7f80)] {
        check(&stream, dtype, shape, &halves, |x| match x & 0x7fff {
            size if size > infinity => u64::MAX,
            0 => 1 << 15,
            _ if x >> 15 == 1 => u64::from(!x),
            _ => u64::from(x | 1 << 15),
        });
    }
}

#[test]
fn one_element_is_chosen() {
    let Some(stream) = stream() else { return };
    let nan = f32::NAN;
    let all = [3.0, 1.0, 2.0, 1.0, 3.0, nan, 1.0, nan, 0.0, 2.0, nan, nan, nan, nan, nan];
    let source = given(&stream, &all);
    let of = Rows { dtype: DType::F32, rows: 3, length: 5 };
    for (choice, want, at) in [
        (Choice::Kth(2), [2.0, 2.0, nan], [2, 4, 2]),
        (Choice::Median, [2.0, nan, nan], [2, 0, 0]),
        (Choice::NanMedian, [2.0, 1.0, nan], [2, 1, 2]),
        (Choice::Mode, [1.0, 0.0, nan], [3, 3, 0]),
    ] {
        let (values, indices) = (room::<f32>(&stream, 3), room::<i64>(&stream, 3));
        // SAFETY: the memory is of these sizes.
        unsafe {
            choose(&stream, source.address(), of, choice, [values.address(), indices.address()])
        }
        .expect("it is queued");
        let got = taken::<f32>(&stream, &values, 3);
        assert_eq!(format!("{got:?}"), format!("{want:?}"), "{choice:?}");
        assert_eq!(taken::<i64>(&stream, &indices, 3), at, "{choice:?}");
    }
}

#[test]
fn kernels_have_enough_registers() {
    for dtype in [DType::U8, DType::F16, DType::F32, DType::F64] {
        crate::testing::assert_no_spills(&text(dtype), &dtype.to_string());
    }
}
