use super::*;
use crate::testing::{given, numbers, room, stream, taken};

#[test]
fn places_are_those_of_what_is_not_zero() {
    let Some(stream) = stream() else { return };
    for (count, one_of) in [(0usize, 2), (1, 1), (100, 3), (2048, 2), (6000, 7), (5000, 9000)] {
        let all: Vec<f32> = (numbers(one_of).take(count))
            .map(|x| match x % (2 * one_of) {
                0 => f32::NAN,
                1 => 1.5,
                n if n % 2 == 0 => 0.0,
                _ => -0.0,
            })
            .collect();
        let source = given(&stream, &all);
        // SAFETY: there are so many.
        let trues = unsafe { Trues::count(&stream, DType::F32, source.address(), count as i64) };
        let trues = trues.expect("they are counted");
        let want: Vec<i64> = (0..count as i64).filter(|i| all[*i as usize] != 0.0).collect();
        assert_eq!(trues.total(), want.len() as i64);
        let places = room::<i64>(&stream, want.len());
        // SAFETY: there is room for them.
        unsafe { trues.places(&stream, places.address()) }.expect("it is queued");
        assert_eq!(taken::<i64>(&stream, &places, want.len()), want, "{count}");
    }
}

#[test]
fn coordinates_are_columns() {
    let Some(stream) = stream() else { return };
    let places = given(&stream, &[0i64, 23, 11, 7]);
    let out = room::<i64>(&stream, 12);
    // SAFETY: there is room for them.
    unsafe { coordinates(&stream, &[2, 3, 4], 4, [places.address(), out.address()]) }
        .expect("it is queued");
    assert_eq!(taken::<i64>(&stream, &out, 12), [0, 1, 0, 0, 0, 2, 2, 1, 0, 3, 3, 3]);
}

#[test]
fn integers_are_counted() {
    let Some(stream) = stream() else { return };
    let all: Vec<i64> = numbers(4).take(3000).map(|x| (x % 12) as i64 - 1).collect();
    let (source, counts) = (given(&stream, &all), room::<i64>(&stream, 10));
    // SAFETY: there is room for them.
    unsafe { count_integers(&stream, source.address(), 3000, counts.address(), 10) }
        .expect("it is queued");
    let want: Vec<i64> = (0..10).map(|b| all.iter().filter(|x| **x == b).count() as i64).collect();
    assert_eq!(taken::<i64>(&stream, &counts, 10), want);
}

#[test]
fn places_in_rows_are_before_or_behind_equal_ones() {
    let Some(stream) = stream() else { return };
    let rows = given(&stream, &[1.0f64, 2.0, 2.0, 3.0, 10.0, 20.0, 30.0, f64::NAN]);
    let values = given(&stream, &[2.0f64, 0.0, f64::NAN, 20.0, 30.0, 99.0]);
    let out = room::<i64>(&stream, 6);
    for (right, want) in [(false, [1, 0, 4, 1, 2, 4]), (true, [3, 0, 4, 2, 4, 4])] {
        let how = Search { floats: true, length: 4, per_row: 3, right };
        let addresses = [rows.address(), 0, values.address(), out.address()];
        // SAFETY: there are so many.
        unsafe { search(&stream, how, 6, addresses) }.expect("it is queued");
        assert_eq!(taken::<i64>(&stream, &out, 6), want, "{right}");
    }
    let rows = given(&stream, &[9i64, 1, 5]);
    let sorter = given(&stream, &[1i64, 2, 0]);
    let values = given(&stream, &[5i64, 6, 100]);
    let how = Search { floats: false, length: 3, per_row: 0, right: false };
    let addresses = [rows.address(), sorter.address(), values.address(), out.address()];
    // SAFETY: as above.
    unsafe { search(&stream, how, 3, addresses) }.expect("it is queued");
    assert_eq!(taken::<i64>(&stream, &out, 3), [1, 2, 3]);
}

#[test]
fn elements_are_put_at_places() {
    let Some(stream) = stream() else { return };
    let places = given(&stream, &[3i64, 0, 2, 1]);
    let source = given(&stream, &[10u16, 20, 30, 40]);
    let out = room::<u16>(&stream, 4);
    let addresses = [source.address(), places.address(), out.address()];
    // SAFETY: there are so many, and places are of these four.
    unsafe { put(&stream, DType::BF16, 4, addresses) }.expect("it is queued");
    assert_eq!(taken::<u16>(&stream, &out, 4), [20, 40, 30, 10]);
}
