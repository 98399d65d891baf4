use super::*;
use crate::testing::{given, numbers, room, stream, taken};

#[test]
fn a_length_is_the_product_of_its_factors() {
    for n in 1..200 {
        assert_eq!(factors(n).iter().product::<i64>(), n);
    }
    assert_eq!(factors(2 * 3 * 49 * 8), [8, 2, 3, 7, 7]);
}

/// Transforms are the sums that they are defined by, and undo one another.
#[test]
fn transforms_are_sums_of_turns() {
    let Some(stream) = stream() else { return };
    for length in [1usize, 2, 8, 12, 15, 17, 48] {
        let x: Vec<f64> =
            numbers(7).take(4 * length).map(|n| (n % 201) as f64 / 100.0 - 1.0).collect();
        let r = Rows { dtype: DType::C128, rows: 2, length: length as i64 };
        let (at, y, scratch) = (
            given(&stream, &x),
            room::<f64>(&stream, 4 * length),
            room::<f64>(&stream, 4 * length),
        );
        // SAFETY: the memory is of these sizes, here and below.
        unsafe { transform(&stream, r, true, 1.0, [at.address(), y.address(), scratch.address()]) }
            .expect("it is queued");
        let got = taken::<f64>(&stream, &y, 4 * length);
        for (row, x) in x.chunks(2 * length).enumerate() {
            for f in 0..length {
                let (mut re, mut im) = (0.0, 0.0);
                for (t, e) in x.chunks(2).enumerate() {
                    let turn = -std::f64::consts::TAU * (f * t % length) as f64 / length as f64;
                    re += e[0] * turn.cos() - e[1] * turn.sin();
                    im += e[0] * turn.sin() + e[1] * turn.cos();
                }
                let at = 2 * (row * length + f);
                assert!((got[at] - re).abs() + (got[at + 1] - im).abs() < 1e-12, "{length} {f}");
            }
        }
        let back = room::<f64>(&stream, 4 * length);
        let addresses = [y.address(), back.address(), scratch.address()];
        // SAFETY: as above.
        unsafe { transform(&stream, r, false, 1.0 / length as f64, addresses) }
            .expect("it is queued");
        for (a, b) in taken::<f64>(&stream, &back, 4 * length).iter().zip(&x) {
            assert!((a - b).abs() < 1e-13);
        }
    }
}
