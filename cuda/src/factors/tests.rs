use super::*;
use crate::testing::{given, room, stream, taken};

#[test]
fn factors_are_those_of_small_matrices() {
    let Some(stream) = stream() else { return };
    let m = Matrices { dtype: DType::F64, batch: 2, rows: 2, cols: 2 };
    let a = given(&stream, &[4.0, 9.0, 2.0, 5.0, 1.0, 0.0, 2.0, 1.0]);
    let info = room::<i32>(&stream, 2);
    // SAFETY: the memory is of these sizes, here and below.
    unsafe { cholesky(&stream, &m, a.address(), info.address()) }.expect("it is queued");
    assert_eq!(taken::<f64>(&stream, &a, 4), [2.0, 0.0, 1.0, 2.0]);
    assert_eq!(taken::<i32>(&stream, &info, 2), [0, 2]);

    let a = given(&stream, &[1.0, 2.0, 4.0, 6.0, 0.0, 1.0, 0.0, 3.0]);
    let (pivots, info) = (room::<i32>(&stream, 4), room::<i32>(&stream, 2));
    let addresses = [a.address(), pivots.address(), info.address()];
    // SAFETY: as above.
    unsafe { lu(&stream, &m, addresses) }.expect("it is queued");
    assert_eq!(taken::<f64>(&stream, &a, 4), [4.0, 6.0, 0.25, 0.5]);
    assert_eq!(taken::<i32>(&stream, &pivots, 4)[..2], [2, 2]);
    assert_eq!(taken::<i32>(&stream, &info, 2), [0, 1]);
    // the first matrix times (3, -1)
    let one = Matrices { batch: 1, cols: 1, ..m };
    let b = given(&stream, &[1.0, 6.0]);
    let triangle = |upper| Triangle { upper, unit: !upper, transposed: false };
    // SAFETY: as above.
    unsafe {
        swap_rows(&stream, &one, false, pivots.address(), b.address()).expect("it is queued");
        solve(&stream, &one, triangle(false), a.address(), b.address()).expect("it is queued");
        solve(&stream, &one, triangle(true), a.address(), b.address()).expect("it is queued");
    }
    assert_eq!(taken::<f64>(&stream, &b, 2), [3.0, -1.0]);
}
