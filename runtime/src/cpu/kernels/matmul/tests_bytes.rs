//! Products of bytes, by each instruction set that the machine has, against sums written out.

use super::bytes;
use super::instructions::available_bytes;
use super::*;
use crate::cpu::threads::testing::with_threads;
use straightline_microkernels::bytes::ByteKernels;

/// Bytes of all values, the least and the greatest more often than others.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        let byte = |r: u64| match r % 8 {
            0 => 0x80,
            1 => 0x7f,
            2 => 0xff,
            _ => (r >> 8) as u8,
        };
        (0..n).map(|_| byte(self.next())).collect()
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// How a matrix lies in memory: by rows, by columns, with gaps, with gaps between elements too, and
/// with its rows in opposite order.
const LAYOUTS: usize = 6;

fn strides(layout: usize, (rows, cols): (usize, usize)) -> ((isize, isize), usize) {
    let (r, c) = (rows as isize, cols as isize);
    match layout % LAYOUTS {
        0 => ((c, 1), 0),
        1 => ((1, r), 0),
        2 => ((c + 5, 1), 3),
        3 => ((1, r + 3), 1),
        4 => ((2 * c + 1, 2), 2),
        _ => ((-c, 1), (rows * cols).saturating_sub(cols)),
    }
}

struct Mat {
    data: Vec<u8>,
    offset: usize,
    shape: (usize, usize),
    strides: (isize, isize),
}

impl Mat {
    fn new(layout: usize, shape: (usize, usize), random: &mut Random) -> Mat {
        let (strides, offset) = strides(layout, shape);
        let data = random.bytes(8 + offset + (shape.0 + 2) * (2 * shape.1 + 8));
        Mat { data, offset, shape, strides }
    }

    fn view(&self) -> MatRef {
        MatRef::new(self.data[self.offset..].as_ptr(), self.shape, self.strides)
    }

    fn get(&self, i: usize, j: usize, unsigned: bool) -> i32 {
        let at = i as isize * self.strides.0 + j as isize * self.strides.1;
        let byte = self.data[(self.offset as isize + at) as usize];
        if unsigned { i32::from(byte) } else { i32::from(byte as i8) }
    }
}

fn check(
    kernels: &'static ByteKernels,
    (m, n, k): (usize, usize, usize),
    layouts: [usize; 3],
    unsigned: bool,
    random: &mut Random,
) {
    let (a, b) = (Mat::new(layouts[0], (m, k), random), Mat::new(layouts[1], (k, n), random));
    let ((row, col), offset) = strides(layouts[2], (m, n));
    let mut out = vec![77i32; 8 + offset + (m + 2) * (2 * n + 8)];
    let mut want = out.clone();
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let at = offset as isize + i as isize * row + j as isize * col;
        want[at as usize] = (0..k)
            .fold(0i32, |sum, p| sum.wrapping_add(a.get(i, p, unsigned) * b.get(p, j, false)));
    }
    let view = MatMut::new(out[offset..].as_mut_ptr().cast(), (m, n), (row, col));
    // SAFETY: the buffers cover their views and are apart.
    unsafe { bytes::product(kernels, (a.view(), unsigned), b.view(), view) };
    let wrong = out.iter().zip(&want).position(|(got, want)| got != want);
    let name = kernels.name;
    assert_eq!(wrong, None, "{name} {m}x{n}x{k}, layouts {layouts:?}, unsigned: {unsigned}");
}

#[test]
fn sums_of_bytes_are_exact() {
    let random = &mut Random(0x1234_5678_9abc);
    for kernels in available_bytes() {
        for layouts in (0..LAYOUTS).flat_map(|a| (0..LAYOUTS).map(move |b| [a, b, a + b])) {
            let shape = (random.below(40), random.below(70), random.below(140));
            check(kernels, shape, layouts, layouts[1] % 2 == 0, random);
        }
        for size in [0, 1, 2, 5, 6, 7, 11, 12, 13, 16, 17, 31, 32, 33, 63, 64, 65] {
            for shape in [(size, 5, 40), (5, size, 33), (34, 35, size)] {
                check(kernels, shape, [0, 0, 0], false, random);
                check(kernels, shape, [1, 1, 1], true, random);
            }
        }
    }
}

/// Several blocks of rows, of panels and of steps; more threads than one.
#[test]
fn blocks_and_threads_do_not_change_sums() {
    let random = &mut Random(0xfeed);
    for kernels in available_bytes() {
        for (shape, layouts) in [
            ((70, 300, 100), [0, 1, 0]),
            ((33, 40, 4200), [0, 0, 0]),
            ((40, 33, 4200), [1, 1, 2]),
            ((5, 600, 2000), [0, 0, 1]),
        ] {
            check(kernels, shape, layouts, false, random);
            with_threads(3, || check(kernels, shape, layouts, true, random));
        }
    }
}

/// What instructions that saturate get wrong, and sums beyond 32 bits.
#[test]
fn extremes_neither_saturate_nor_stop_at_32_bits() {
    let k = 140_000;
    for kernels in available_bytes() {
        for (x, y, unsigned) in
            [(0x80, 0x80, false), (0x80, 0x7f, false), (0xff, 0x80, true), (0xff, 0x7f, true)]
        {
            let (a, b) = (vec![x; k], vec![y; k]);
            let mut out = [0i32];
            let (left, right) =
                (MatRef::row_major(a.as_ptr(), 1, k), MatRef::row_major(b.as_ptr(), k, 1));
            let to = MatMut::row_major(out.as_mut_ptr().cast(), 1, 1);
            // SAFETY: vectors of the sizes said.
            unsafe { bytes::product(kernels, (left, unsigned), right, to) };
            let x = if unsigned { i64::from(x) } else { i64::from(x as i8) };
            let want = (k as i64 * x * i64::from(y as i8)) as i32;
            assert_eq!(out[0], want, "{} of {x} by {y}", kernels.name);
        }
    }
}

/// `cargo test --release -p straightline-runtime tests_bytes::speed -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn speed() {
    let random = &mut Random(5);
    for (m, k, n) in
        [(256, 256, 256), (1024, 1024, 1024), (64, 1024, 1024), (16, 1024, 1024), (1, 1024, 1024)]
    {
        for (kernels, layout) in available_bytes().iter().flat_map(|k| [(*k, 0), (*k, 1)]) {
            if kernels.name == "portable" && m * k * n > 1 << 26 {
                continue;
            }
            let a = Mat::new(0, (m, k), random);
            let b = Mat::new(layout, (k, n), random);
            let mut out = vec![0i32; m * n];
            let to = MatMut::row_major(out.as_mut_ptr().cast(), m, n);
            let best = (0..60)
                .map(|_| {
                    let begin = std::time::Instant::now();
                    // SAFETY: the buffers cover their views and are apart.
                    unsafe { bytes::product(kernels, (a.view(), false), b.view(), to) };
                    begin.elapsed().as_nanos()
                })
                .min();
            let us = best.unwrap_or(0) as f64 / 1e3;
            println!("{m}x{k}x{n} b {} {}: {us:.1} us", ["rows", "columns"][layout], kernels.name);
        }
    }
}
