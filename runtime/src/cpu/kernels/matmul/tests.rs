//! Every dtype, layout and scaling against a plain loop in f64.

use super::element::Element;
use super::*;
use ::half::{bf16, f16};
use straightline_passes::ir::Scalar;

/// Small repeatable numbers.
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// At most seven bits, so that bf16 holds it exactly.
    pub(super) fn value(&mut self) -> f64 {
        (self.below(127) as f64 - 63.0) / 16.0
    }
}

pub(super) trait Number: Element + MatElement + std::fmt::Debug {
    const EPS: f64;
    fn of(x: f64) -> Self;
    fn to(self) -> f64;
}

macro_rules! number {
    ($($t:ty, $eps:expr, $of:expr, $to:expr;)*) => {$(
        impl Number for $t {
            const EPS: f64 = $eps;
            fn of(x: f64) -> Self { $of(x) }
            fn to(self) -> f64 { $to(self) }
        }
    )*};
}
number! {
    f32, 1.2e-7, |x| x as f32, f64::from;
    f64, 2.3e-16, |x| x, |x| x;
    f16, 1e-3, |x| f16::from_f32(x as f32), f16::to_f64;
    bf16, 8e-3, |x| bf16::from_f32(x as f32), bf16::to_f64;
    u8, 0.0, |x: f64| (x * 16.0) as i64 as u8, |x: u8| x as f64;
    i8, 0.0, |x: f64| (x * 16.0) as i64 as i8, |x: i8| x as f64;
    i16, 0.0, |x: f64| (x * 900.0) as i64 as i16, |x: i16| x as f64;
    i32, 0.0, |x: f64| (x * 9e7) as i64 as i32, |x: i32| x as f64;
    i64, 0.0, |x: f64| (x * 16.0) as i64, |x: i64| x as f64;
}

/// A matrix in a buffer of its own, in one of several layouts.
pub(super) struct Mat<T> {
    pub(super) data: Vec<T>,
    pub(super) offset: usize,
    pub(super) shape: (usize, usize),
    pub(super) strides: (isize, isize),
}

pub(super) const LAYOUTS: usize = 7;

impl<T: Number> Mat<T> {
    pub(super) fn new(layout: usize, rows: usize, cols: usize, rng: &mut Rng) -> Mat<T> {
        let (r, c) = (rows as isize, cols as isize);
        let (strides, offset) = match layout {
            0 => ((c, 1), 0),
            1 => ((1, r), 0),
            2 => ((c + 5, 1), 3),
            3 => ((1, r + 3), 1),
            4 => ((2 * c + 1, 2), 2),
            5 => ((-c, 1), (r - 1).max(0) * c),
            _ => ((0, 1), 0),
        };
        let len = 8 + offset as usize + (rows + 2) * (2 * cols + 8);
        let data = (0..len).map(|_| T::of(rng.value())).collect();
        Mat { data, offset: offset as usize, shape: (rows, cols), strides }
    }

    pub(super) fn index(&self, i: usize, j: usize) -> usize {
        (self.offset as isize + i as isize * self.strides.0 + j as isize * self.strides.1) as usize
    }

    pub(super) fn get(&self, i: usize, j: usize) -> T {
        self.data[self.index(i, j)]
    }

    pub(super) fn view(&self) -> MatRef {
        MatRef::new(self.data[self.offset..].as_ptr().cast(), self.shape, self.strides)
    }

    pub(super) fn view_mut(&mut self) -> MatMut {
        // One pointer to the whole buffer: a negative stride walks back from the offset.
        let base = self.data.as_mut_ptr().wrapping_add(self.offset);
        MatMut::new(base.cast(), self.shape, self.strides)
    }
}

/// The expected element, and the size of its terms for the tolerance.
fn expected<T: Number>(
    a: &Mat<T>,
    b: &Mat<T>,
    (i, j): (usize, usize),
    alpha: f64,
    addend: Option<(f64, f64)>,
) -> (f64, f64) {
    let (mut sum, mut size) = (0.0, 0.0);
    for p in 0..a.shape.1 {
        let term = a.get(i, p).to() * b.get(p, j).to();
        sum += term;
        size += term.abs();
    }
    let (beta, x) = addend.unwrap_or((0.0, 0.0));
    if beta == 0.0 {
        (alpha * sum, alpha.abs() * size)
    } else {
        (beta * x + alpha * sum, alpha.abs() * size + (beta * x).abs())
    }
}

/// The expected element of an integer product, in the arithmetic of `T`.
fn expected_int<T: Number>(
    a: &Mat<T>,
    b: &Mat<T>,
    (i, j): (usize, usize),
    alpha: i64,
    addend: Option<(i64, T)>,
) -> T {
    let mut sum = T::ZERO;
    for p in 0..a.shape.1 {
        sum = T::add(sum, T::mul(a.get(i, p).widen(), b.get(p, j).widen()));
    }
    sum = T::mul(T::scalar(Scalar::Int(alpha)), sum);
    if let Some((beta, x)) = addend {
        sum = T::add(sum, T::mul(T::scalar(Scalar::Int(beta)), x.widen()));
    }
    T::round(sum)
}

pub(super) fn close<T: Number>(got: T, (want, size): (f64, f64), k: usize) -> bool {
    // The sum is kept in f32 for half types: their own rounding comes once.
    let steps = if T::EPS > 1e-4 { 1.0 } else { 2.0 + k as f64 };
    let slack = T::EPS * (steps * size + want.abs()) + 1e-7 * size * (T::EPS > 1e-4) as u8 as f64;
    (got.to() - want).abs() <= slack
}

fn check_one<T: Number>((m, n, k): (usize, usize, usize), layouts: [usize; 3], rng: &mut Rng) {
    let a = Mat::<T>::new(layouts[0], m, k, rng);
    let b = Mat::<T>::new(layouts[1], k, n, rng);
    let out_layout = layouts[2] % 6;
    for mode in 0..5 {
        let mut out = Mat::<T>::new(out_layout, m, n, rng);
        let before = Mat { data: out.data.clone(), ..Mat::<T>::new(out_layout, m, n, rng) };
        let bias = Mat::<T>::new(6, m, n, rng);
        let full = Mat::<T>::new(layouts[0], m, n, rng);
        let (alpha, beta) = [(1, 0), (1, 1), (3, 1), (2, -3), (1, 1)][mode];
        let source = |i, j| match mode {
            0 => None,
            1 | 3 => Some(bias.get(i, j)),
            2 => Some(full.get(i, j)),
            _ => Some(before.get(i, j)),
        };
        let view = out.view_mut();
        let addend = match mode {
            0 => None,
            1 | 3 => Some(bias.view()),
            2 => Some(full.view()),
            _ => Some(view.as_ref()),
        };
        let scaling = Scaling {
            alpha: Scalar::Int(alpha),
            addend: addend.map(|mat| (Scalar::Int(beta), mat)),
        };
        // SAFETY: the buffers cover their views and are apart, or one and the same.
        unsafe { gemm(T::DTYPE, a.view(), b.view(), view, scaling) }.unwrap();
        let mut touched = vec![false; before.data.len()];
        for i in 0..m {
            for j in 0..n {
                touched[out.index(i, j)] = true;
                let got = out.get(i, j);
                let ok = if T::EPS == 0.0 {
                    let want = expected_int(&a, &b, (i, j), alpha, source(i, j).map(|x| (beta, x)));
                    T::to(want) == got.to()
                } else {
                    let add = source(i, j).map(|x| (beta as f64, x.to()));
                    close(got, expected(&a, &b, (i, j), alpha as f64, add), k)
                };
                assert!(
                    ok,
                    "{} {m}x{n}x{k} layouts {layouts:?} mode {mode} at {i},{j}: {got:?}",
                    T::DTYPE
                );
            }
        }
        for (index, touched) in touched.into_iter().enumerate() {
            assert!(touched || out.data[index].to() == before.data[index].to(), "wrote outside");
        }
    }
}

fn check_dtype<T: Number>() {
    let rng = &mut Rng(0x9e37_79b9_7f4a_7c15);
    for la in 0..LAYOUTS {
        for lb in 0..LAYOUTS {
            let shape = (1 + rng.below(12), 1 + rng.below(40), 1 + rng.below(40));
            check_one::<T>(shape, [la, lb, la + lb], rng);
        }
    }
    for size in 0..40 {
        let other = (size * 7 + 3) % 41;
        for shape in [(size, 40 - size, other), (other, size, size), (1 + size % 5, size, other)] {
            let layouts = [rng.below(LAYOUTS), rng.below(LAYOUTS), rng.below(6)];
            check_one::<T>(shape, layouts, rng);
        }
    }
}

#[test]
fn f32_matches_the_plain_loop() {
    check_dtype::<f32>();
}

#[test]
fn f64_matches_the_plain_loop() {
    check_dtype::<f64>();
}

#[test]
fn half_types_match_the_plain_loop() {
    check_dtype::<f16>();
    check_dtype::<bf16>();
}

#[test]
fn integers_match_the_plain_loop() {
    check_dtype::<u8>();
    check_dtype::<i8>();
    check_dtype::<i16>();
    check_dtype::<i32>();
    check_dtype::<i64>();
}

#[test]
fn products_split_over_threads_match() {
    let rng = &mut Rng(77);
    for shape in [(150, 90, 80), (40, 300, 70), (3, 700, 400), (1, 1100, 600)] {
        for lb in [0, 1] {
            check_one::<f32>(shape, [0, lb, 0], rng);
            check_one::<f64>(shape, [1, lb, 1], rng);
        }
        check_one::<i32>(shape, [0, 0, 0], rng);
    }
}

#[test]
fn an_empty_sum_is_zero_and_beta_zero_ignores_nan() {
    let nan = [f32::NAN; 6];
    let mut out = [f32::NAN; 6];
    let scaling = Scaling {
        alpha: Scalar::Float(2.0),
        addend: Some((Scalar::Float(0.0), MatRef::row_major(nan.as_ptr().cast(), 2, 3))),
    };
    let target = MatMut::row_major(out.as_mut_ptr().cast(), 2, 3);
    let empty = MatRef::row_major(nan.as_ptr().cast(), 2, 0);
    let empty_b = MatRef::row_major(nan.as_ptr().cast(), 0, 3);
    // SAFETY: the arrays cover their views.
    unsafe { gemm(DType::F32, empty, empty_b, target, scaling) }.unwrap();
    assert_eq!(out, [0.0; 6]);
}

#[test]
fn nan_and_infinity_reach_the_result() {
    let rng = &mut Rng(5);
    for (m, n, k) in [(1, 40, 33), (3, 17, 50), (13, 33, 20), (70, 64, 64)] {
        for lb in [0, 1, 4] {
            let mut a = Mat::<f32>::new(0, m, k, rng);
            let mut b = Mat::<f32>::new(lb, k, n, rng);
            let (i, p, j) = (rng.below(m), rng.below(k), rng.below(n));
            // 0 * inf and NaN * 0: a kernel that skips zeros would lose both.
            let at = a.index(i, p);
            a.data[at] = 0.0;
            let at = b.index(p, j);
            b.data[at] = f32::INFINITY;
            let mut out = Mat::<f32>::new(0, m, n, rng);
            // SAFETY: the buffers cover their views.
            unsafe { gemm(DType::F32, a.view(), b.view(), out.view_mut(), Scaling::default()) }
                .unwrap();
            assert!(out.get(i, j).is_nan());
            for other in (0..n).filter(|&other| other != j) {
                assert!(out.get(i, other).is_finite());
            }
        }
    }
}

#[test]
fn batches_match_single_products() {
    let rng = &mut Rng(11);
    for (batch, m, n, k) in [(0, 3, 4, 5), (1, 3, 4, 5), (6, 5, 9, 7), (40, 24, 33, 48)] {
        let a = Mat::<f32>::new(0, batch * m, k, rng);
        let b = Mat::<f32>::new(0, k, n, rng);
        let bias = Mat::<f32>::new(0, batch, n, rng);
        let mut out = Mat::<f32>::new(0, batch * m, n, rng);
        let mut one = Mat::<f32>::new(0, m, n, rng);
        let beta = Scalar::Int(1);
        let mat_a = |i: usize| a.view().block::<f32>((i * m, (i + 1) * m), (0, k));
        let mat_bias = |i: usize| MatRef::new(bias.view().at::<f32>(i, 0).cast(), (m, n), (0, 1));
        let target = MatMut { rows: m, ..out.view_mut() };
        let scaling = |i| Scaling { alpha: beta, addend: Some((beta, mat_bias(i))) };
        // SAFETY: the buffers cover their views; `b` is shared by a zero batch stride.
        unsafe {
            bmm(
                DType::F32,
                batch,
                (MatRef { rows: m, ..a.view() }, (m * k) as isize),
                (b.view(), 0),
                (target, (m * n) as isize),
                scaling(0),
                n as isize,
            )
            .unwrap();
        }
        for i in 0..batch {
            // SAFETY: as above.
            unsafe { gemm(DType::F32, mat_a(i), b.view(), one.view_mut(), scaling(i)) }.unwrap();
            for (r, c) in (0..m).flat_map(|r| (0..n).map(move |c| (r, c))) {
                assert_eq!(out.get(i * m + r, c), one.get(r, c), "matrix {i} at {r},{c}");
            }
        }
    }
}

#[test]
fn misfits_are_errors() {
    let x = [0.0f32; 64];
    let view = |r, c| MatRef::row_major(x.as_ptr().cast(), r, c);
    let out = |r, c| MatMut::row_major(x.as_ptr().cast_mut().cast(), r, c);
    let call = |dtype, a, b, o, scaling| {
        // SAFETY: nothing is read or written, each call fails.
        unsafe { gemm(dtype, a, b, o, scaling) }.unwrap_err().to_string()
    };
    assert_eq!(
        call(DType::F32, view(2, 3), view(4, 5), out(2, 5), Scaling::default()),
        "cannot multiply a 2x3 matrix by a 4x5 matrix into a 2x5 matrix"
    );
    let scaling = Scaling { addend: Some((Scalar::Int(1), view(1, 5))), ..Scaling::default() };
    assert_eq!(
        call(DType::F32, view(2, 3), view(3, 5), out(2, 5), scaling),
        "the addend is 1x5 but the product is 2x5"
    );
    assert_eq!(
        call(DType::Bool, view(2, 3), view(3, 5), out(2, 5), Scaling::default()),
        "matrix product is not defined for bool"
    );
}

/// `cargo test --release -p straightline-runtime matmul::tests::speed_of_halves -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn speed_of_halves() {
    fn best<T: Number>((m, k, n): (usize, usize, usize), layout: usize) -> f64 {
        let rng = &mut Rng(7);
        let (a, b) = (Mat::<T>::new(0, m, k, rng), Mat::<T>::new(layout, k, n, rng));
        let mut out = Mat::<T>::new(0, m, n, rng);
        let once = || {
            let begin = std::time::Instant::now();
            // SAFETY: the buffers cover their views.
            unsafe { gemm(T::DTYPE, a.view(), b.view(), out.view_mut(), Scaling::default()) }
                .unwrap();
            begin.elapsed().as_secs_f64() * 1e6
        };
        std::iter::repeat_with(once).take(40).fold(f64::MAX, f64::min)
    }
    for shape in [(256, 256, 256), (1, 1024, 1024), (64, 1024, 1024), (1024, 1024, 1024)] {
        for layout in [0, 1] {
            let [half, single] = [best::<f16>(shape, layout), best::<f32>(shape, layout)];
            let b = ["rows", "columns"][layout];
            println!("{shape:?} b {b}: f16 {half:.1} us, f32 {single:.1} us");
        }
    }
}
