//! Products of bf16 by the instructions for pairs, each set that the machine has.

use super::instructions::available;
use super::pairs;
use super::tests::{LAYOUTS, Mat, Number, Rng};
use super::tests_packed::ACTIVATIONS;
use super::*;
use crate::cpu::math::isa;
use crate::cpu::threads::testing::with_threads;
use ::half::bf16;
use straightline_microkernels::pairs::PairKernels;

/// The sums of [`Rng::value`]'s products are exact in f32, in any order, up to `k` of 4096: what
/// differs from them by a bit is wrong.
fn exact(a: &Mat<bf16>, b: &Mat<bf16>, (i, j): (usize, usize)) -> f32 {
    (0..a.shape.1).map(|p| a.get(i, p).to() * b.get(p, j).to()).sum::<f64>() as f32
}

fn pack(kernels: &PairKernels, b: MatRef) -> pack::Lines {
    let mut lines = pack::Lines::new(pairs::packed_bytes(b.rows, b.cols));
    // SAFETY: the room was just made, the view is that of a matrix.
    unsafe { pairs::pack_right(kernels, b, lines.ptr_mut()) };
    lines
}

/// One shape with every scaling that has code of its own.
fn check_gemm(
    kernels: &'static PairKernels,
    (m, n, k): (usize, usize, usize),
    layouts: [usize; 3],
    rng: &mut Rng,
) {
    let a = Mat::<bf16>::new(layouts[0], m, k, rng);
    let b = Mat::<bf16>::new(layouts[1], k, n, rng);
    let sums: Vec<f32> = (0..m * n).map(|at| exact(&a, &b, (at / n, at % n))).collect();
    for mode in 0..6 {
        let mut out = Mat::<bf16>::new(layouts[2] % 6, m, n, rng);
        let before = Mat { data: out.data.clone(), ..Mat::<bf16>::new(layouts[2] % 6, m, n, rng) };
        let other = Mat::<bf16>::new(if mode == 1 { 6 } else { layouts[0] }, m, n, rng);
        let (alpha, beta) = [(1, 0), (1, 1), (1, 1), (2, -3), (1, 1), (3, 0)][mode];
        let view = out.view_mut();
        let addend = match mode {
            0 => None,
            4 => Some(view.as_ref()),
            _ => Some(other.view()),
        };
        let scaling = Scaling {
            alpha: Scalar::Int(alpha),
            addend: addend.map(|mat| (Scalar::Int(beta), mat)),
        };
        // SAFETY: the buffers cover their views and are apart, or one and the same.
        unsafe { pairs::gemm(kernels, a.view(), b.view(), view, &scaling) };
        let mut want = Mat { data: before.data.clone(), ..Mat::<bf16>::new(0, 0, 0, rng) };
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let added = if mode == 4 { before.get(i, j) } else { other.get(i, j) };
            let mut value = alpha as f32 * sums[i * n + j];
            if beta != 0 {
                value += beta as f32 * added.to_f32();
            }
            want.data[out.index(i, j)] = bf16::from_f32(value);
        }
        for (at, (got, want)) in out.data.iter().zip(&want.data).enumerate() {
            assert!(
                got == want,
                "{} {m}x{n}x{k} layouts {layouts:?} mode {mode} at {at}: {got} for {want}",
                kernels.name
            );
        }
    }
}

#[test]
fn pairs_give_the_exact_sums_rounded_once() {
    let rng = &mut Rng(0x1234_5678_9abc);
    for kernels in available() {
        for layouts in (0..LAYOUTS).flat_map(|a| (0..LAYOUTS).map(move |b| [a, b, a + b])) {
            let shape = (rng.below(40), rng.below(70), rng.below(70));
            check_gemm(kernels, shape, layouts, rng);
        }
        for size in [0, 1, 2, 11, 12, 13, 15, 16, 17, 31, 32, 33] {
            for shape in [(size, 5, 40), (5, size, 33), (34, 35, size)] {
                check_gemm(kernels, shape, [0, 0, 0], rng);
                check_gemm(kernels, shape, [1, 1, 1], rng);
            }
        }
        // several blocks of rows, of panels, and of steps
        for (shape, layouts) in [
            ((140, 70, 600), [0, 0, 0]),
            ((70, 600, 37), [1, 0, 0]),
            ((33, 40, 1100), [0, 1, 1]),
            ((150, 530, 70), [4, 1, 2]),
            ((3, 520, 1100), [0, 0, 0]),
            ((1, 150, 64), [0, 1, 0]),
            ((4, 100, 75), [0, 3, 4]),
            ((2, 33, 4200), [1, 1, 0]),
            ((5, 70, 4200), [0, 1, 0]),
            ((135, 40, 4200), [1, 0, 0]),
        ] {
            check_gemm(kernels, shape, layouts, rng);
        }
    }
}

#[test]
fn packed_pairs_finish_in_f32_and_round_once() {
    let rng = &mut Rng(0x77aa);
    for (round, kernels) in (0..84).flat_map(|r| available().iter().map(move |k| (r, *k))) {
        let (m, n, k) = (rng.below(50), rng.below(80), rng.below(70));
        let a = Mat::<bf16>::new(round % LAYOUTS, m, k, rng);
        let b = Mat::<bf16>::new(rng.below(LAYOUTS), k, n, rng);
        let bias = Mat::<bf16>::new(0, 1, n, rng);
        let residual = Mat::<bf16>::new(2, m, n, rng);
        let mut c = Mat::<bf16>::new(2 * (round % 2), m, n, rng);
        let in_place = round % 8 == 7;
        let before = c.data.clone();
        let activation = ACTIVATIONS[round % 7];
        let (with_bias, with_residual) = (round % 3 != 0, round % 4 > 1);
        let view = c.view_mut();
        let other = match in_place {
            true => (view.ptr.cast_const(), c.strides.0),
            false => (residual.view().ptr, residual.strides.0),
        };
        let epilogue = Epilogue {
            bias: with_bias.then(|| bias.view().ptr),
            activation,
            residual: with_residual.then_some(other),
        };
        let panels = pack(kernels, b.view());
        // SAFETY: all buffers cover their sizes; a residual is apart, or the result itself.
        unsafe { pairs::packed(kernels, a.view(), panels.ptr(), view, epilogue) };
        // the same from sums in f32, by the kernels of f32
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let mut sum = exact(&a, &b, (i, j));
            if with_bias {
                sum += bias.get(0, j).to_f32();
            }
            let mut wide = [sum];
            let target = MatMut::row_major(wide.as_mut_ptr().cast(), 1, 1);
            // SAFETY: one element.
            unsafe { finish(DType::F32, activation, target, None) };
            if with_residual {
                wide[0] += match in_place {
                    true => before[c.index(i, j)].to_f32(),
                    false => residual.get(i, j).to_f32(),
                };
            }
            let (got, want) = (c.get(i, j), bf16::from_f32(wide[0]));
            assert!(
                got == want,
                "{} {m}x{n}x{k} {activation:?} at {i},{j}: {got} for {want}",
                kernels.name
            );
        }
    }
}

/// Values whose sums round, so that another order would show.
fn rounding(len: usize, rng: &mut Rng) -> Vec<bf16> {
    (0..len).map(|_| bf16::from_f32((rng.value() / 3.0) as f32)).collect()
}

#[test]
fn the_bits_of_pairs_depend_on_neither_threads_nor_rows() {
    let rng = &mut Rng(91);
    for kernels in available() {
        for (m, n, k) in [(1, 700, 900), (37, 600, 530), (200, 330, 1300), (600, 40, 300)] {
            let (a, b) = (rounding(m * k, rng), rounding(k * n, rng));
            let b = MatRef::row_major(b.as_ptr().cast(), k, n);
            let run = |rows: usize| {
                let mut c = vec![bf16::ZERO; m * n];
                for first in (0..m).step_by(rows) {
                    let count = rows.min(m - first);
                    let a = MatRef::row_major(a[first * k..].as_ptr().cast(), count, k);
                    let c = MatMut::row_major(c[first * n..].as_mut_ptr().cast(), count, n);
                    // SAFETY: the buffers cover these rows.
                    unsafe { pairs::gemm(kernels, a, b, c, &Scaling::default()) };
                }
                c.into_iter().map(bf16::to_bits).collect::<Vec<_>>()
            };
            let panels = pack(kernels, b);
            let packed = || {
                let mut c = vec![bf16::ZERO; m * n];
                let a = MatRef::row_major(a.as_ptr().cast(), m, k);
                let target = MatMut::row_major(c.as_mut_ptr().cast(), m, n);
                // SAFETY: as above.
                unsafe { pairs::packed(kernels, a, panels.ptr(), target, Epilogue::default()) };
                c.into_iter().map(bf16::to_bits).collect::<Vec<_>>()
            };
            let serial = with_threads(1, || run(m));
            for threads in [2, 3, 5] {
                assert!(serial == with_threads(threads, || run(m)), "{threads} threads");
            }
            assert!(serial == run(1 + m / 3), "{} {m}x{n}x{k} split", kernels.name);
            assert!(serial == run(3), "{} {m}x{n}x{k} by three rows", kernels.name);
            assert!(serial == packed(), "{} {m}x{n}x{k} packed", kernels.name);
            // each near the exact sum
            for (at, got) in serial.iter().enumerate().step_by(97) {
                let (i, j) = (at / n, at % n);
                let term = |p: usize| {
                    // SAFETY: inside the matrix.
                    a[i * k + p].to_f64() * unsafe { *b.at::<bf16>(p, j) }.to_f64()
                };
                let (sum, size) =
                    (0..k).map(term).fold((0.0, 0.0), |(s, z), x| (s + x, z + x.abs()));
                let off = (bf16::from_bits(*got).to_f64() - sum).abs();
                assert!(off <= 0.004 * sum.abs() + 1e-6 * size, "{} at {i},{j}", kernels.name);
            }
        }
    }
}

#[test]
fn nan_and_infinity_stay_in_their_row_and_column() {
    let rng = &mut Rng(6);
    for kernels in available() {
        for (m, n, k) in [(1, 40, 33), (17, 33, 50), (70, 64, 64)] {
            for lb in [0, 1, 4] {
                let mut a = Mat::<bf16>::new(0, m, k, rng);
                let mut b = Mat::<bf16>::new(lb, k, n, rng);
                let (i, p, j) = (rng.below(m), rng.below(k), rng.below(n));
                let at = a.index(i, p);
                a.data[at] = bf16::ZERO;
                let at = b.index(p, j);
                b.data[at] = bf16::INFINITY;
                let mut out = Mat::<bf16>::new(0, m, n, rng);
                let (x, y, c) = (a.view(), b.view(), out.view_mut());
                // SAFETY: the buffers cover their views.
                unsafe { pairs::gemm(kernels, x, y, c, &Scaling::default()) };
                assert!(out.get(i, j).is_nan(), "0 * inf in {}", kernels.name);
                let others = (0..m).flat_map(|r| (0..n).map(move |c| (r, c)));
                assert!(others.filter(|at| at.1 != j).all(|(r, c)| out.get(r, c).is_finite()));
            }
        }
    }
}

#[test]
fn denormals_are_zero_as_the_instructions_have_it() {
    let tiny = bf16::from_bits(0x0040);
    let small = bf16::from_f32(1e-20);
    for kernels in available() {
        for ((x, y), n) in [((tiny, bf16::ONE), 1), ((small, small), 1), ((tiny, bf16::ONE), 70)] {
            let (row, mut out) = (vec![y; n], vec![bf16::ONE; n]);
            let mat = |x: &[bf16]| MatRef::row_major(x.as_ptr().cast(), 1, x.len());
            let target = MatMut::row_major(out.as_mut_ptr().cast(), 1, n);
            // SAFETY: one element, and rows of `n`.
            unsafe { pairs::gemm(kernels, mat(&[x]), mat(&row), target, &Scaling::default()) };
            assert!(out.iter().all(|&x| x == bf16::ZERO), "{}", kernels.name);
        }
    }
}

#[test]
fn threads_use_their_own_tiles() {
    std::thread::scope(|scope| {
        for seed in 1..9 {
            scope.spawn(move || {
                let rng = &mut Rng(seed * 0x9e37_79b9);
                for kernels in available().iter().cycle().take(12) {
                    let shape = (1 + rng.below(70), 1 + rng.below(90), 1 + rng.below(300));
                    check_gemm(kernels, shape, [0, rng.below(2), 0], rng);
                    std::thread::yield_now();
                }
            });
        }
    });
}

#[test]
fn the_lesser_instruction_sets_do_without_pairs() {
    assert!(isa().name() == "avx512" || pairs::kernels().is_none());
    if let Some(chosen) = pairs::kernels() {
        assert!(std::ptr::eq(chosen, available()[0]));
    }
}
