//! Tests of the tables and of the kernels that walk them.

use super::super::operand::tests::{input, input_of, output, output_of};
use super::super::{In, Out};
use super::resample::{AxisScale, AxisTaps, resample, resample_backward, resample_bytes};
use super::window::Window;
use super::*;
use straightline_passes::ir::DType;

/// The axes of lines.
fn line(last: AxisWindows) -> [AxisWindows; 3] {
    [AxisWindows::none(), AxisWindows::none(), last]
}

fn scale(input: usize, output: usize) -> AxisScale {
    AxisScale { input, output, factor: None, align_corners: false, single: true, held: DType::F32 }
}

#[test]
fn windows_count_padding_apart_from_elements() {
    let w = AxisWindows::regular(5, 3, 3, 2, 1, 1);
    let all = [(0, 2, 3), (1, 3, 3), (3, 2, 3)];
    let expect = all.map(|(start, taps, padded)| Window { start, taps, padded });
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
            assert!(regular.taps.as_ref().is_none_or(|t| t.len() <= 6 * 2 + 1024));
            if !walked {
                regular.taps = None;
            }
            let axes = line(last);
            let (x, mut y) = ([3f32, 1.0, 4.0, 1.0, 5.0, 9.0], [0f32; 2]);
            let mut at = [0i64; 2];
            max_pool([output(&mut y), output(&mut at)], input(&x), &axes).unwrap();
            assert_eq!((y[0], at[0]), (9.0, 5));
            avg_pool(output(&mut y), input(&x), &axes, Divisor::Inside).unwrap();
            assert_eq!(y[0], 23.0 / 6.0);
        }
    }
    // all three divisors together are more than can be counted
    let axis = || AxisWindows::regular(2, 1, wide, wide, wide / 2, 1);
    let (x, mut y) = ([1f32; 8], [0f32; 1]);
    let axes = [axis(), axis(), axis()];
    avg_pool(output(&mut y), input(&x), &axes, Divisor::Padded).unwrap();
    assert!(y[0] >= 0.0 && y[0] < 1e-17);
}

/// Walking all windows at once, tap by tap, gives what walking each by itself gives, to the bit.
#[test]
fn both_walks_of_windows_agree() {
    for (kernel, stride, pad, dilation) in [(3, 2, 1, 1), (2, 3, 1, 2), (5, 1, 2, 1), (4, 2, 2, 3)]
    {
        let output_size = (12 + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
        let mut results = Vec::new();
        for walked in [true, false] {
            let mut last = AxisWindows::regular(12, output_size, kernel, stride, pad, dilation);
            if !walked {
                last.regular.as_mut().unwrap().taps = None;
            }
            let axes = line(last);
            let x: Vec<f32> = (0..12).map(|i| ((i * 7) % 12) as f32 / 3.0).collect();
            let (mut y, mut sums, mut at) =
                (vec![0f32; output_size], vec![0f32; output_size], vec![0i64; output_size]);
            max_pool([output(&mut y), output(&mut at)], input(&x), &axes).unwrap();
            avg_pool(output(&mut sums), input(&x), &axes, Divisor::Inside).unwrap();
            results.push((y, sums, at));
        }
        assert_eq!(results[0], results[1]);
    }
}

#[test]
fn maximum_pools_take_nan_and_the_first_of_equals() {
    let x = [1f32, 1.0, f32::NAN, 0.0, 2.0, 2.0];
    let (mut y, mut at) = ([0f32; 3], [0i64; 3]);
    let axes = line(AxisWindows::regular(6, 3, 2, 2, 0, 1));
    max_pool([output(&mut y), output(&mut at)], input(&x), &axes).unwrap();
    assert_eq!((y[0], y[2]), (1.0, 2.0));
    assert!(y[1].is_nan());
    assert_eq!(at, [0, 2, 4]);
}

#[test]
fn average_pools_of_integers_divide_towards_zero() {
    let (x, mut y) = ([-1i64, -2, 5, 6], [0i64; 2]);
    let axes = line(AxisWindows::regular(4, 2, 2, 2, 0, 1));
    avg_pool(output(&mut y), input(&x), &axes, Divisor::Padded).unwrap();
    assert_eq!(y, [-1, 5]);
}

#[test]
fn gathers_and_their_gradients_mirror() {
    let map = AxisMap::new(3, vec![2, 1, 0, 1, 2, 1]).unwrap();
    let maps = [AxisMap::identity(1), AxisMap::identity(1), map];
    let (x, mut y) = ([10u8, 20, 30], [0u8; 6]);
    gather_axes(output(&mut y), input(&x), &maps).unwrap();
    assert_eq!(y, [30, 20, 10, 20, 30, 20]);
    let (g, mut d) = ([1f64; 6], [0f64; 3]);
    scatter_axes(output(&mut d), input(&g), &maps, false).unwrap();
    assert_eq!(d, [1.0, 3.0, 2.0]);
    assert!(AxisMap::new(3, vec![3]).is_none());
}

#[test]
fn an_index_outside_of_its_plane_is_an_error() {
    let (v, mut y) = ([1f32, 2.0], [0f32; 4]);
    scatter_planes(true, output(&mut y), input(&v), &[3, 3], 1).unwrap();
    assert_eq!(y, [0.0, 0.0, 0.0, 3.0]);
    assert!(scatter_planes(true, output(&mut y), input(&v), &[0, 4], 1).is_err());
}

#[test]
fn interpolation_of_a_line_is_the_line_and_gradients_are_the_transpose() {
    let axes = [AxisTaps::identity(1), scale(2, 3).linear(), scale(4, 7).cubic()];
    let (n, m) = (8, 21);
    // the columns of the forward map, one basis vector after the other
    let mut forward = Vec::new();
    for i in 0..n {
        let (mut x, mut y) = (vec![0f32; n], vec![0f32; m]);
        x[i] = 1.0;
        resample(output(&mut y), input(&x), &axes).unwrap();
        forward.push(y);
    }
    for o in 0..m {
        let total: f32 = forward.iter().map(|column| column[o]).sum();
        assert!((total - 1.0).abs() < 1e-6);
        let (mut g, mut x) = (vec![0f32; m], vec![0f32; n]);
        g[o] = 1.0;
        resample_backward(output(&mut x), input(&g), &axes).unwrap();
        for i in 0..n {
            assert!((x[i] - forward[i][o]).abs() < 1e-6);
        }
    }
}

#[test]
fn nearest_positions() {
    assert_eq!(scale(3, 6).nearest(false).unwrap().positions(), [0, 0, 1, 1, 2, 2]);
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
    let (x, mut m, mut y) = ([1f32; 9], [0f32; 16], [0f32; 9]);
    im2col(output(&mut m), input(&x), &c).unwrap();
    col2im(output(&mut y), input(&m), &c).unwrap();
    assert_eq!(y, [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]);
}

/// Two threads' worth of planes through each way of reading and writing them.
#[test]
fn many_planes_of_every_kind_of_element() {
    const COUNT: usize = 1 << 14;
    let axes = line(AxisWindows::regular(4, 2, 2, 2, 0, 1));
    let x: Vec<i32> = (0..4 * COUNT as i32).map(|i| i % 1000).collect();
    let (mut y, mut at) = (vec![0i32; 2 * COUNT], vec![7i64; 2 * COUNT]);
    max_pool([output(&mut y), output(&mut at)], input(&x), &axes).unwrap();
    assert!((0..2 * COUNT).all(|i| y[i] == x[2 * i].max(x[2 * i + 1])));
    let which = |i: usize| 2 * (i % 2) + usize::from(x[2 * i + 1] > x[2 * i]);
    assert!((0..2 * COUNT).all(|i| at[i] == which(i) as i64));
    let wide: Vec<i64> = x.iter().map(|x| i64::from(*x)).collect();
    let mut z = vec![0i64; 2 * COUNT];
    max_pool([output(&mut z), output(&mut at)], input(&wide), &axes).unwrap();
    assert!(y.iter().zip(&z).all(|(y, z)| i64::from(*y) == *z));
}

/// Gives a kernel operands that are what it asks for, then such as are not: of one plane more or
/// less, with gaps, of another dtype, or over its result.
fn refuses_what_does_not_fit(
    out_len: usize,
    input_len: usize,
    kernel: impl Fn(Out<'_>, In<'_>) -> Result<(), super::super::KernelError>,
) {
    let (mut y, x) = (vec![0f32; 4 * out_len], vec![0f32; 4 * input_len]);
    let (n, m) = (out_len as i64, input_len as i64);
    kernel(output_of(&mut y, [2, n], [n, 1]), input_of(&x, [2, m], [m, 1])).unwrap();
    let wrong = [
        ([2, n], [n, 1], [1, m], [m, 1]),
        ([3, n], [n, 1], [2, m], [m, 1]),
        ([2, n], [n, 1], [2, m - 1], [m - 1, 1]),
        ([2, n + 1], [n + 1, 1], [2, m], [m, 1]),
        ([2, n], [2 * n, 1], [2, m], [m, 1]),
        ([2, n], [n, 1], [2, m], [2 * m, 1]),
    ];
    for (out_sizes, out_strides, sizes, strides) in wrong {
        let out = output_of(&mut y, out_sizes, out_strides);
        assert!(kernel(out, input_of(&x, sizes, strides)).is_err());
    }
    let narrow = vec![0u8; 2 * input_len];
    let out = output_of(&mut y, [2, n], [n, 1]);
    assert!(kernel(out, input_of(&narrow, [2, m], [m, 1])).is_err());
    let out = output_of(&mut y, [2, n], [n, 1]);
    let own = out.as_input();
    assert!(kernel(out, own).is_err());
}

#[test]
fn kernels_refuse_operands_that_do_not_fit() {
    let axes = line(AxisWindows::regular(6, 3, 2, 2, 0, 1));
    let divisor = Divisor::Inside;
    refuses_what_does_not_fit(3, 6, |out, x| avg_pool(out, x, &axes, divisor));
    refuses_what_does_not_fit(6, 3, |out, g| avg_pool_backward(out, g, &axes, divisor));
    refuses_what_does_not_fit(3, 6, |out, x| {
        let mut at = vec![0i64; out.numel()];
        max_pool([out, output(&mut at)], x, &axes)
    });
    let map = AxisMap::new(3, vec![2, 1, 0, 1, 2, 1]).unwrap();
    let maps = [AxisMap::identity(1), AxisMap::identity(1), map];
    refuses_what_does_not_fit(6, 3, |out, x| gather_axes(out, x, &maps));
    refuses_what_does_not_fit(3, 6, |out, g| scatter_axes(out, g, &maps, true));
    let taps = [AxisTaps::identity(1), scale(2, 3).linear(), scale(2, 4).cubic()];
    refuses_what_does_not_fit(12, 4, |out, x| resample(out, x, &taps));
    refuses_what_does_not_fit(4, 12, |out, g| resample_backward(out, g, &taps));
    refuses_what_does_not_fit(6, 12, |out, g| fold_windows(out, g, 1, [3, 1]));
    let c = Columns {
        image: [3, 3],
        kernel: [2, 2],
        dilation: [1, 1],
        padding: [0, 0],
        stride: [1, 1],
        blocks: [2, 2],
    };
    refuses_what_does_not_fit(16, 9, |out, x| im2col(out, x, &c));
    refuses_what_does_not_fit(9, 16, |out, m| col2im(out, m, &c));
    let beyond = Columns { kernel: [1 << 40, 1 << 40], ..c };
    let (x, mut y) = ([0f32; 9], [0f32; 9]);
    assert!(im2col(output(&mut y), input(&x), &beyond).is_err());
    // windows that are longer than the dimension, or do not move
    assert!(fold_windows(output(&mut y), input(&x), 0, [10, 1]).is_err());
    assert!(fold_windows(output(&mut y), input(&x), 0, [1, 0]).is_err());
}

#[test]
fn bytes_are_interpolated_as_bytes_in_two_axes() {
    let taps = [AxisTaps::identity(1), AxisTaps::identity(1), scale(2, 4).linear()];
    let (x, mut y) = ([0u8, 100, 200, 100], [0u8; 8]);
    resample_bytes(output(&mut y), input(&x), &taps).unwrap();
    assert_eq!(y, [0, 25, 75, 100, 200, 175, 125, 100]);
    assert!(resample_bytes(output(&mut y[..7]), input(&x), &taps).is_err());
    assert!(resample_bytes(output(&mut y), input(&x[..3]), &taps).is_err());
    let (x, mut wide) = ([0f32; 4], [0f32; 8]);
    assert!(resample_bytes(output(&mut y), input(&x), &taps).is_err());
    assert!(resample_bytes(output(&mut wide), input(&x), &taps).is_err());
    let [one, other, last] = taps;
    let turned = [last, one, other];
    assert!(resample_bytes(output(&mut y), input(&[0u8; 4]), &turned).is_err());
}

#[test]
fn positions_fit_their_planes() {
    let (v, mut y) = ([1f32, 2.0, 3.0, 4.0], [0f32; 6]);
    let v = || input_of(&v, [2, 2], [2, 1]);
    let mut scatter = |sizes, strides, v, at: &[i64], spatial| {
        scatter_planes(false, output_of(&mut y, sizes, strides), v, at, spatial).is_ok()
    };
    assert!(scatter([2, 3], [3, 1], v(), &[0, 2, 1, 0], 1));
    assert!(!scatter([2, 3], [3, 1], v(), &[0, 2, 1], 1));
    assert!(!scatter([3, 2], [2, 1], v(), &[0, 1, 1, 0], 1));
    assert!(!scatter([2, 3], [1, 2], v(), &[0, 2, 1, 0], 1));
    assert!(!scatter([2, 3], [3, 1], v(), &[0, 2, 1, 0], 3));
    assert!(!scatter([2, 3], [3, 1], input_of(&[1i32; 4], [2, 2], [2, 1]), &[0; 4], 1));
    assert_eq!(y, [1.0, 0.0, 2.0, 4.0, 3.0, 0.0]);
}

#[test]
fn fractional_pools_take_windows_within_their_planes_and_a_sample_for_each_axis() {
    let (x, samples) = ([1f32, 3.0, 2.0, 9.0, 4.0, 5.0], [0.5f32, 0.5]);
    let x = || input_of(&x, [1, 2, 3], [6, 3, 1]);
    let (mut y, mut at) = ([0f32; 4], [0i64; 4]);
    let mut pool = |sizes, x, samples, kernel: &[i64]| {
        let outs = [output_of(&mut y, sizes, [4, 2, 1]), output(&mut at)];
        fractional_max_pool(outs, x, samples, kernel).is_ok()
    };
    assert!(pool([1, 2, 2], x(), input(&samples), &[1, 2]));
    assert!(!pool([1, 2, 2], x(), input(&samples), &[1, 4]));
    assert!(!pool([1, 2, 2], x(), input(&samples), &[-1, 2]));
    assert!(!pool([1, 2, 2], x(), input(&samples), &[1, 2, 1, 1]));
    assert!(!pool([1, 2, 2], x(), input(&samples[..1]), &[1, 2]));
    assert!(!pool([1, 2, 2], x(), input(&[0.5f64; 2]), &[1, 2]));
    // an index for each element of the result
    assert!(!pool([1, 1, 2], x(), input(&samples), &[1, 2]));
    assert_eq!((y, at), ([3.0, 3.0, 9.0, 5.0], [1, 1, 3, 5]));
}

#[test]
fn grids_and_their_inputs_go_together() {
    let options =
        GridOptions { mode: GridMode::Linear, padding: GridPadding::Zeros, align_corners: true };
    let (x, points) = ([1f32, 2.0, 3.0, 4.0], [-1f32, -1.0, 1.0, 1.0, 0.0, 0.0]);
    let image = || input_of(&x, [1, 1, 2, 2], [4, 4, 2, 1]);
    let grid = || input_of(&points, [1, 1, 3, 2], [6, 6, 2, 1]);
    let mut y = [0f32; 3];
    let mut sample = |sizes, image, grid| {
        let out = output_of(&mut y, sizes, [3, 3, 3, 1]);
        grid_sample(out, [image, grid], options).is_ok()
    };
    assert!(sample([1, 1, 1, 3], image(), grid()));
    assert!(!sample([1, 1, 1, 2], image(), grid()));
    assert!(!sample([1, 0, 1, 3], image(), grid()));
    assert!(!sample([1, 1, 1, 3], image(), image()));
    assert!(!sample([1, 1, 1, 3], input(&x), grid()));
    assert!(!sample([1, 1, 1, 3], input_of(&x, [1, 1, 2, 2], [4, 4, 1, 2]), grid()));
    assert!(!sample([1, 1, 1, 3], input_of(&[0f64; 4], [1, 1, 2, 2], [4, 4, 2, 1]), grid()));
    assert!(!sample([1, 1, 1, 3], image(), input_of(&points, [2, 1, 1, 2], [2, 2, 2, 1])));
    assert_eq!(y, [1.0, 4.0, 2.5]);
    let g = [1f32; 3];
    let backward = |sizes: [i64; 4], of_grid: [i64; 4]| {
        let (mut to_image, mut to_grid) = ([0f32; 4], [0f32; 6]);
        let outs = [
            output_of(&mut to_image, [1, 1, 2, 2], [4, 4, 2, 1]),
            output_of(&mut to_grid, of_grid, [6, 6, 2, 1]),
        ];
        let g = input_of(&g, sizes, [3, 3, 3, 1]);
        grid_sample_backward(outs, [g, image(), grid()], options).is_ok()
    };
    assert!(backward([1, 1, 1, 3], [1, 1, 3, 2]));
    assert!(!backward([1, 1, 1, 2], [1, 1, 3, 2]));
    assert!(!backward([1, 1, 1, 3], [1, 1, 2, 2]));
}
