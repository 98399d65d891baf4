use super::*;
use crate::testing::{given, room, stream, taken};

#[test]
fn points_between_elements_are_their_means() {
    let Some(stream) = stream() else { return };
    let s = Sampling {
        dtype: DType::F64,
        batch: 1,
        channels: 2,
        input: [1, 2, 2],
        points: 3,
        axes: 2,
        mode: Mode::Linear,
        padding: Padding::Zeros,
        aligned: true,
    };
    let x = given(&stream, &[1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0]);
    // the middle, a corner, and beyond
    let grid = given(&stream, &[0.0, 0.0, 1.0, -1.0, 5.0, 0.0]);
    let out = room::<f64>(&stream, 6);
    // SAFETY: the memory is of these sizes, here and below.
    unsafe { sample(&stream, &s, [x.address(), grid.address(), out.address()]) }
        .expect("it is queued");
    assert_eq!(taken::<f64>(&stream, &out, 6), [2.5, 2.0, 0.0, 25.0, 20.0, 0.0]);
    let clipped = Sampling { padding: Padding::Border, mode: Mode::Nearest, ..s };
    // SAFETY: as above.
    unsafe { sample(&stream, &clipped, [x.address(), grid.address(), out.address()]) }
        .expect("it is queued");
    assert_eq!(taken::<f64>(&stream, &out, 6)[1..3], [2.0, 2.0]);

    let (keys, weights) = (room::<i64>(&stream, 12), room::<f64>(&stream, 12));
    // SAFETY: as above.
    unsafe { places(&stream, &s, [grid.address(), keys.address(), weights.address()]) }
        .expect("it is queued");
    let found = taken::<i64>(&stream, &keys, 12);
    assert_eq!(found[..4], [0, 1, 2, 3]);
    assert_eq!(found[8..], [4; 4]);
    assert_eq!(taken::<f64>(&stream, &weights, 12)[..4], [0.25; 4]);
}

#[test]
fn kernels_have_enough_registers() {
    for dtype in [DType::BF16, DType::F64] {
        let head = elements::head(dtype).expect("a dtype of numbers");
        crate::testing::assert_no_spills(
            &format!("{head}{}", include_str!("grid.cu")),
            &dtype.to_string(),
        );
    }
}
