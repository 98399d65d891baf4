//! Products block by block: small blocks against a plain chain of sums, at every edge, for real and
//! complex numbers.

use super::blocked::{Blocked, Blocks, Right};
use super::drive::{Ending, Left, Target};
use super::float::{self, Path};
use super::micro::{Kernels, Native};
use super::tests::{LAYOUTS, Mat, Number, Rng, close};
use super::*;
use crate::cpu::threads;
use num_complex::Complex;

/// The product by blocks of these sizes, into dense rows.
fn blocked<T: Number + Native>(
    kernels: &'static Kernels<T>,
    blocks: Blocks,
    a: MatRef,
    b: MatRef,
    out: MatMut,
) {
    let product = Blocked {
        kernels,
        m: a.rows,
        n: b.cols,
        k: a.cols,
        a: Left { ptr: a.ptr.cast::<T>(), row: a.row_stride, step: a.col_stride, tiled: false },
        b: match b.col_stride == 1 {
            true => Right::Rows(b.ptr.cast(), b.row_stride),
            false => Right::Source(&b),
        },
        c: Target { ptr: out.ptr.cast(), row: out.row_stride },
        blocks,
        ending: Ending::none(),
    };
    // SAFETY: the views of the callers cover their sizes; the kernels are those of this machine.
    unsafe { product.run() }
}

fn matches_the_plain_sum<T: Number + Native>() {
    let rng = &mut Rng(0xb10c);
    for (_, kernels) in T::available() {
        let cols = 5 * kernels.panel;
        let blocks = Blocks { k: 8, rows: 2 * kernels.max_rows(), cols };
        for k in [0, 1, 7, 8, 9, 23] {
            for n in [1, kernels.panel, cols - 1, cols, cols + 1, 2 * cols + 3] {
                let m = [1, blocks.rows - 1, blocks.rows, 2 * blocks.rows + 1][rng.below(4)];
                let (la, lb) = (rng.below(LAYOUTS), rng.below(LAYOUTS));
                let a = Mat::<T>::new(la, m, k, rng);
                let b = Mat::<T>::new(lb, k, n, rng);
                let mut out = Mat::<T>::new(2, m, n, rng);
                let before = out.data.clone();
                blocked(kernels, blocks, a.view(), b.view(), out.view_mut());
                let mut touched = vec![false; before.len()];
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    touched[out.index(i, j)] = true;
                    let terms = (0..k).map(|p| a.get(i, p).to() * b.get(p, j).to());
                    let (sum, size) = terms.fold((0.0, 0.0), |(s, z), t: f64| (s + t, z + t.abs()));
                    assert!(
                        close(out.get(i, j), (sum, size), k),
                        "{m}x{k}x{n} layouts {la} {lb} at {i},{j}"
                    );
                }
                for (index, &old) in before.iter().enumerate() {
                    assert!(touched[index] || out.data[index].to() == old.to());
                }
            }
        }
    }
}

#[test]
fn blocks_match_the_plain_sum() {
    matches_the_plain_sum::<f32>();
    matches_the_plain_sum::<f64>();
}

/// Sums are in the order of `k` for any blocks: the bits equal those of tiles in place, on any
/// number of threads, also nested.
#[test]
fn the_bits_do_not_depend_on_the_blocks_or_the_threads() {
    let rng = &mut Rng(0xb175);
    let (m, k, n) = (70, 800, 330);
    let a = Mat::<f32>::new(3, m, k, rng);
    let b = Mat::<f32>::new(0, k, n, rng);
    let mut want = vec![0f32; m * n];
    let target = |out: &mut Vec<f32>| MatMut::row_major(out.as_mut_ptr().cast(), m, n);
    // SAFETY: the buffers cover their views, the rows of `b` are contiguous.
    unsafe { float::by::<f32>(Path::InPlace, a.view(), b.view(), target(&mut want)) };
    for count in [1, 2, 3] {
        threads::testing::with_threads(count, || {
            let mut got = vec![f32::NAN; m * n];
            // SAFETY: as above.
            unsafe { float::by::<f32>(Path::Blocked, a.view(), b.view(), target(&mut got)) };
            assert!(got == want, "{count} threads");
            let nested: Vec<std::sync::Mutex<Vec<f32>>> =
                (0..4).map(|_| vec![f32::NAN; m * n].into()).collect();
            let (left, right) = (a.view(), b.view());
            threads::parallel_for(nested.len(), &|i| {
                let mut out = nested[i].lock().unwrap();
                // SAFETY: as above; each call has a result of its own.
                unsafe { float::by::<f32>(Path::Blocked, left, right, target(&mut out)) };
            });
            for got in nested {
                assert!(got.into_inner().unwrap() == want, "nested, {count} threads");
            }
        });
    }
}

/// A product of other sizes in between leaves its panels in the scratch memory; they must not be
/// read again.
#[test]
fn scratch_memory_is_used_again() {
    let rng = &mut Rng(0x5c2a);
    for (m, k, n) in [(30, 900, 200), (17, 5, 33), (40, 1600, 40), (18, 770, 1030)] {
        let a = Mat::<f64>::new(0, m, k, rng);
        let b = Mat::<f64>::new(4, k, n, rng);
        let mut out = Mat::<f64>::new(0, m, n, rng);
        // SAFETY: the buffers cover their views.
        unsafe { float::by::<f64>(Path::Blocked, a.view(), b.view(), out.view_mut()) };
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let (mut sum, mut size) = (0.0, 0.0);
            for p in 0..k {
                sum += a.get(i, p) * b.get(p, j);
                size += (a.get(i, p) * b.get(p, j)).abs();
            }
            assert!(close(out.get(i, j), (sum, size), k), "{m}x{k}x{n} {i},{j}");
        }
    }
}

/// A complex matrix in memory of its own, strides in numbers.
fn complex(
    rng: &mut Rng,
    (rows, cols): (usize, usize),
    strides: (usize, usize),
) -> Vec<Complex<f64>> {
    let len = rows * strides.0 + cols * strides.1 + 1;
    (0..len).map(|_| Complex::new(rng.value(), rng.value())).collect()
}

#[test]
fn complex_products_match_the_plain_sum() {
    let rng = &mut Rng(0xc0);
    let small = Blocks { k: 8, rows: 13, cols: 24 };
    for (m, k, n) in [(1, 1, 1), (3, 2, 5), (14, 3, 12), (27, 17, 41), (5, 0, 4)] {
        for layout in 0..9 {
            let strides = |l, rows, cols| [(cols, 1), (1, rows), (2 * cols, 2)][l];
            let (sa, sb) = (strides(layout % 3, m, k), strides(layout / 3, k, n));
            let (a, b) = (complex(rng, (m, k), sa), complex(rng, (k, n), sb));
            let view = |v: &Vec<Complex<f64>>, shape, (r, c): (usize, usize)| {
                MatRef::new(v.as_ptr().cast(), shape, (r as isize, c as isize))
            };
            let mut out = vec![Complex::new(f64::NAN, f64::NAN); m * n];
            let target = MatMut::row_major(out.as_mut_ptr().cast(), m, n);
            // SAFETY: the vectors cover their views.
            unsafe {
                complex::product::<f64>(view(&a, (m, k), sa), view(&b, (k, n), sb), target, small);
            }
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let want: Complex<f64> =
                    (0..k).map(|p| a[i * sa.0 + p * sa.1] * b[p * sb.0 + j * sb.1]).sum();
                let off = out[i * n + j] - want;
                assert!(
                    off.re.abs().max(off.im.abs()) <= 1e-12,
                    "{m}x{k}x{n} layout {layout} at {i},{j}"
                );
            }
        }
    }
}

#[test]
fn complex_infinities_multiply_as_arithmetic_says() {
    let a = [Complex::new(f32::INFINITY, 0.0)];
    let b = [Complex::new(1.0f32, 0.0)];
    let mut out = [Complex::new(0.0f32, 0.0)];
    let view = |v: &[Complex<f32>]| MatRef::row_major(v.as_ptr().cast(), 1, 1);
    // SAFETY: the arrays cover their views.
    unsafe {
        gemm(
            DType::C64,
            view(&a),
            view(&b),
            MatMut::row_major(out.as_mut_ptr().cast(), 1, 1),
            Scaling::default(),
        )
    }
    .unwrap();
    // inf * 0 is NaN in the imaginary part, and is not left out.
    assert!(out[0].re == f32::INFINITY && out[0].im.is_nan());
}
