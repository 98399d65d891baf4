use super::*;
use crate::testing::{given, room, stream, taken};

#[test]
fn bags_are_sums_means_and_largest() {
    let Some(stream) = stream() else { return };
    let table = given(&stream, &[1.0, -1.0, 2.0, -2.0, 4.0, -4.0]);
    let (rows, begins) = (given(&stream, &[0i64, 2, 1, 1]), given(&stream, &[0i64, 3, 3, 4]));
    let b = Bags { dtype: DType::F64, mode: Mode::Sum, count: 3, samples: 4, width: 2, padding: 1 };
    for (mode, want) in [
        (Mode::Sum, [5.0, -5.0, 0.0, 0.0, 0.0, 0.0]),
        (Mode::Mean, [2.5, -2.5, 0.0, 0.0, 0.0, 0.0]),
        (Mode::Max, [4.0, -1.0, 0.0, 0.0, 0.0, 0.0]),
    ] {
        let (out, sizes, largest) =
            (room::<f64>(&stream, 6), room::<i64>(&stream, 3), room::<i64>(&stream, 6));
        let addresses = [
            table.address(),
            rows.address(),
            begins.address(),
            0,
            out.address(),
            sizes.address(),
            largest.address(),
        ];
        // SAFETY: the memory is of these sizes, here and below.
        unsafe { bags(&stream, &Bags { mode, ..b }, addresses) }.expect("it is queued");
        assert_eq!(taken::<f64>(&stream, &out, 6), want);
        assert_eq!(taken::<i64>(&stream, &sizes, 3), [2, 0, 0]);
        if mode == Mode::Max {
            assert_eq!(taken::<i64>(&stream, &largest, 6)[..2], [2, 0]);
        }
    }
    let (grad, bag_of) =
        (given(&stream, &[6.0, 8.0, 1.0, 1.0, 3.0, 5.0]), given(&stream, &[0i64, 0, 0, 2]));
    let (sizes, out) = (given(&stream, &[2i64, 0, 1]), room::<f64>(&stream, 8));
    let addresses = [grad.address(), bag_of.address(), sizes.address(), 0, 0, out.address()];
    // SAFETY: as above.
    unsafe { shares(&stream, &Bags { mode: Mode::Mean, ..b }, addresses) }.expect("it is queued");
    assert_eq!(taken::<f64>(&stream, &out, 8), [3.0, 4.0, 3.0, 4.0, 3.0, 4.0, 3.0, 5.0]);
}
