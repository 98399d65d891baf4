//! Tests of the tables and of the kernels that walk them.

use super::resample::{AxisScale, AxisTaps, resample, resample_backward};
use super::window::Window;
use super::*;
use straightline_passes::ir::DType;

fn planes<T>(data: &mut [T], dtype: DType, len: usize) -> Planes {
    Planes {
        ptr: data.as_mut_ptr().cast(),
        dtype,
        len,
    }
}

fn scale(input: usize, output: usize) -> AxisScale {
    AxisScale {
        input,
        output,
        factor: None,
        align_corners: false,
        single: true,
        held: DType::F32,
    }
}

#[test]
fn windows_count_padding_apart_from_elements() {
    let w = AxisWindows::regular(5, 3, 3, 2, 1, 1);
    let all = [(0, 2, 3), (1, 3, 3), (3, 2, 3)];
    let expect = all.map(|(start, taps, padded)| Window {
        start,
        taps,
        padded,
    });
    assert_eq!(w.windows, expect);
    let w = AxisWindows::regular(5, 3, 2, 2, 1, 3);
    assert_eq!((w.windows[0].start, w.windows[0].taps), (2, 1));
    let w = AxisWindows::adaptive(5, 3);
    let ranges: Vec<_> = w.windows.iter().map(|w| (w.start, w.taps)).collect();
    assert_eq!(ranges, [(0, 2), (1, 3), (3, 2)]);
}

/// A kernel may be as wide as its numbers go: the taps outside of the input are not walked.
#[test]
fn windows_far_wider_than_the_input() {
    let wide = (1usize << 31) - 1;
    for (kernel, stride, pad) in [(wide, wide, 0), (wide - 1, wide, wide / 2), (wide, 1, 0)] {
        for walked in [true, false] {
            let mut last = AxisWindows::regular(6, 2, kernel, stride, pad, 1);
            let regular = last.regular.as_mut().unwrap();
            assert!(
                regular
                    .taps
                    .as_ref()
                    .is_none_or(|t| t.len() <= 6 * 2 + 1024)
            );
            if !walked {
                regular.taps = None;
            }
            let axes = [AxisWindows::none(), AxisWindows::none(), last];
            let (mut x, mut y) = ([3f32, 1.0, 4.0, 1.0, 5.0, 9.0], [0f32; 2]);
            let mut at = [0i64; 2];
            let (to, from) = (planes(&mut y, DType::F32, 2), planes(&mut x, DType::F32, 6));
            // SAFETY: arrays of these sizes.
            unsafe { max_pool(1, to, at.as_mut_ptr(), from, &axes).unwrap() };
            assert_eq!((y[0], at[0]), (9.0, 5));
            // SAFETY: as above.
            unsafe { avg_pool(1, to, from, &axes, Divisor::Inside).unwrap() };
            assert_eq!(y[0], 23.0 / 6.0);
        }
    }
    // all three divisors together are more than can be counted
    let axis = || AxisWindows::regular(2, 1, wide, wide, wide / 2, 1);
    let (mut x, mut y) = ([1f32; 8], [0f32; 1]);
    let (to, from) = (planes(&mut y, DType::F32, 1), planes(&mut x, DType::F32, 8));
    // SAFETY: arrays of these sizes.
    unsafe { avg_pool(1, to, from, &[axis(), axis(), axis()], Divisor::Padded).unwrap() };
    assert!(y[0] >= 0.0 && y[0] < 1e-17);
}

/// Walking all windows at once, tap by tap, gives what walking each by itself gives, to the bit.
#[test]
fn both_walks_of_windows_agree() {
    for (kernel, stride, pad, dilation) in [(3, 2, 1, 1), (2, 3, 1, 2), (5, 1, 2, 1), (4, 2, 2, 3)]
    {
        let output = (12 + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
        let mut results = Vec::new();
        for walked in [true, false] {
            let mut last = AxisWindows::regular(12, output, kernel, stride, pad, dilation);
            if !walked {
                last.regular.as_mut().unwrap().taps = None;
            }
            let axes = [AxisWindows::none(), AxisWindows::none(), last];
            let mut x: Vec<f32> = (0..12).map(|i| ((i * 7) % 12) as f32 / 3.0).collect();
            let (mut y, mut sums, mut at) =
                (vec![0f32; output], vec![0f32; output], vec![0; output]);
            let from = planes(&mut x, DType::F32, 12);
            let (to, sum) = (
                planes(&mut y, DType::F32, output),
                planes(&mut sums, DType::F32, output),
            );
            // SAFETY: vectors of these sizes.
            unsafe {
                max_pool(1, to, at.as_mut_ptr(), from, &axes).unwrap();
                avg_pool(1, sum, from, &axes, Divisor::Inside).unwrap();
            }
            results.push((y, sums, at));
        }
        assert_eq!(results[0], results[1]);
    }
}

#[test]
fn maximum_pools_take_nan_and_the_first_of_equals() {
    let mut x = [1f32, 1.0, f32::NAN, 0.0, 2.0, 2.0];
    let (mut y, mut at) = ([0f32; 3], [0i64; 3]);
    let axes = [
        AxisWindows::none(),
        AxisWindows::none(),
        AxisWindows::regular(6, 3, 2, 2, 0, 1),
    ];
    let (to, from) = (planes(&mut y, DType::F32, 3), planes(&mut x, DType::F32, 6));
    // SAFETY: arrays of these sizes.
    unsafe { max_pool(1, to, at.as_mut_ptr(), from, &axes).unwrap() };
    assert_eq!((y[0], y[2]), (1.0, 2.0));
    assert!(y[1].is_nan());
    assert_eq!(at, [0, 2, 4]);
}

#[test]
fn average_pools_of_integers_divide_towards_zero() {
    let (mut x, mut y) = ([-1i64, -2, 5, 6], [0i64; 2]);
    let axes = [
        AxisWindows::none(),
        AxisWindows::none(),
        AxisWindows::regular(4, 2, 2, 2, 0, 1),
    ];
    let (to, from) = (planes(&mut y, DType::I64, 2), planes(&mut x, DType::I64, 4));
    // SAFETY: arrays of these sizes.
    unsafe { avg_pool(1, to, from, &axes, Divisor::Padded).unwrap() };
    assert_eq!(y, [-1, 5]);
}

#[test]
fn gathers_and_their_gradients_mirror() {
    let map = AxisMap::new(3, vec![2, 1, 0, 1, 2, 1]).unwrap();
    let maps = [AxisMap::identity(1), AxisMap::identity(1), map];
    let (mut x, mut y) = ([10u8, 20, 30], [0u8; 6]);
    let (to, from) = (planes(&mut y, DType::U8, 6), planes(&mut x, DType::U8, 3));
    // SAFETY: arrays of these sizes.
    unsafe { gather_axes(1, to, from, &maps).unwrap() };
    assert_eq!(y, [30, 20, 10, 20, 30, 20]);
    let (mut g, mut d) = ([1f64; 6], [0f64; 3]);
    let (to, from) = (planes(&mut d, DType::F64, 3), planes(&mut g, DType::F64, 6));
    // SAFETY: as above.
    unsafe { scatter_axes(1, to, from, &maps, false).unwrap() };
    assert_eq!(d, [1.0, 3.0, 2.0]);
    assert!(AxisMap::new(3, vec![3]).is_none());
}

#[test]
fn an_index_outside_of_its_plane_is_an_error() {
    let (mut v, mut y) = ([1f32, 2.0], [0f32; 4]);
    let (to, from) = (planes(&mut y, DType::F32, 4), planes(&mut v, DType::F32, 2));
    // SAFETY: arrays of these sizes.
    let good = unsafe { scatter_planes(true, 1, to, from, [3i64, 3].as_ptr()) };
    assert!(good.is_ok());
    assert_eq!(y, [0.0, 0.0, 0.0, 3.0]);
    // SAFETY: as above.
    let bad = unsafe { scatter_planes(true, 1, to, from, [0i64, 4].as_ptr()) };
    assert!(bad.is_err());
}

#[test]
fn interpolation_of_a_line_is_the_line_and_gradients_are_the_transpose() {
    let axes = [
        AxisTaps::identity(1),
        scale(2, 3).linear(),
        scale(4, 7).cubic(),
    ];
    let (n, m) = (8, 21);
    // the columns of the forward map, one basis vector after the other
    let mut forward = Vec::new();
    for i in 0..n {
        let (mut x, mut y) = (vec![0f32; n], vec![0f32; m]);
        x[i] = 1.0;
        let (to, from) = (planes(&mut y, DType::F32, m), planes(&mut x, DType::F32, n));
        // SAFETY: vectors of these sizes.
        unsafe { resample(1, to, from, &axes).unwrap() };
        forward.push(y);
    }
    for o in 0..m {
        let total: f32 = forward.iter().map(|column| column[o]).sum();
        assert!((total - 1.0).abs() < 1e-6);
        let (mut g, mut x) = (vec![0f32; m], vec![0f32; n]);
        g[o] = 1.0;
        let (to, from) = (planes(&mut x, DType::F32, n), planes(&mut g, DType::F32, m));
        // SAFETY: as above.
        unsafe { resample_backward(1, to, from, &axes).unwrap() };
        for i in 0..n {
            assert!((x[i] - forward[i][o]).abs() < 1e-6);
        }
    }
}

#[test]
fn nearest_positions() {
    assert_eq!(
        scale(3, 6).nearest(false).unwrap().positions(),
        [0, 0, 1, 1, 2, 2]
    );
    assert_eq!(scale(5, 3).nearest(false).unwrap().positions(), [0, 1, 3]);
    assert_eq!(scale(5, 3).nearest(true).unwrap().positions(), [0, 2, 4]);
}

#[test]
fn columns_and_back_count_how_often_a_pixel_is_seen() {
    let c = Columns {
        image: [3, 3],
        kernel: [2, 2],
        dilation: [1, 1],
        padding: [0, 0],
        stride: [1, 1],
        blocks: [2, 2],
    };
    let (mut x, mut m, mut y) = ([1f32; 9], [0f32; 16], [0f32; 9]);
    let from = planes(&mut x, DType::F32, 9);
    let matrix = planes(&mut m, DType::F32, 16);
    let to = planes(&mut y, DType::F32, 9);
    // SAFETY: arrays of these sizes.
    unsafe {
        im2col(1, matrix, from, &c).unwrap();
        col2im(1, to, matrix, &c).unwrap();
    }
    assert_eq!(y, [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]);
}
