use super::*;
use crate::testing::{given, room, stream, taken};

#[test]
fn norms_of_a_triangle() {
    let Some(stream) = stream() else { return };
    let s = Pairs { dtype: DType::F64, batch: 1, rows: 1, cols: 2, width: 2, p: 2.0 };
    let (x, y) = (given(&stream, &[0.0, 0.0]), given(&stream, &[3.0, 4.0, 0.0, 0.0]));
    for (p, want) in [(0.0, 2.0), (1.0, 7.0), (2.0, 5.0), (f64::INFINITY, 4.0)] {
        let out = room::<f64>(&stream, 2);
        let addresses = [x.address(), y.address(), out.address()];
        // SAFETY: the memory is of these sizes, here and below.
        unsafe { run(&stream, Operation::Pairs, &Pairs { p, ..s }, &addresses) }
            .expect("it is queued");
        assert_eq!(taken::<f64>(&stream, &out, 2), [want, 0.0], "{p}");
    }
    let among = Pairs { rows: 2, ..s };
    let (far, dy) = (room::<f64>(&stream, 1), room::<f64>(&stream, 4));
    // SAFETY: as above.
    unsafe { run(&stream, Operation::Among, &among, &[y.address(), far.address()]) }
        .expect("it is queued");
    assert_eq!(taken::<f64>(&stream, &far, 1), [5.0]);
    let grad = given(&stream, &[1.0]);
    let addresses = [grad.address(), y.address(), far.address(), dy.address()];
    // SAFETY: as above.
    unsafe { run(&stream, Operation::AmongGradient, &among, &addresses) }.expect("it is queued");
    assert_eq!(taken::<f64>(&stream, &dy, 4), [0.6, 0.8, -0.6, -0.8]);
    let pair = Pairs { cols: 1, ..s };
    let (dx, y) = (room::<f64>(&stream, 2), given(&stream, &[3.0, 4.0]));
    let addresses = [grad.address(), x.address(), y.address(), far.address(), dx.address()];
    // SAFETY: as above.
    unsafe { run(&stream, Operation::PairsGradient, &pair, &addresses) }.expect("it is queued");
    assert_eq!(taken::<f64>(&stream, &dx, 2), [-0.6, -0.8]);
}

#[test]
fn kernels_have_enough_registers() {
    for dtype in [DType::BF16, DType::F64] {
        let head = elements::head(dtype).expect("a dtype of numbers");
        let text = format!("{head}{}", include_str!("distance.cu"));
        crate::testing::assert_no_spills(&text, &dtype.to_string());
    }
}
