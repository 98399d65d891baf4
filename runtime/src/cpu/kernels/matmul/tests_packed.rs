//! The microkernels of every instruction set, and products by packed factors.

use super::drive::{Dots, Ending, Left, Panels, Product, Target};
use super::micro::{Kernels, Native};
use super::pack::{Lines, pack, packed_len};
use super::tests::{LAYOUTS, Mat, Number, Rng, close};
use super::*;
use crate::cpu::threads::testing::with_threads;
use ::half::{bf16, f16};

/// `a * b + c` as the kernels of an instruction set round it.
trait Chain: Native + Number {
    fn fused(self, b: Self, c: Self) -> Self;
    fn same(self, other: Self) -> bool;
}
macro_rules! chain {
    ($t:ty) => {
        impl Chain for $t {
            fn fused(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            fn same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }
        }
    };
}
chain!(f32);
chain!(f64);

fn check_tile<T: Chain>(
    (name, kernels): (&str, &'static Kernels<T>),
    (m, n, k): (usize, usize, usize),
    layout: usize,
    rng: &mut Rng,
) {
    // Thirds, so that every operation rounds.
    let third = T::of(1.0 / 3.0);
    let mut a = Mat::<T>::new(layout, m, k, rng);
    a.data.iter_mut().for_each(|x| *x = T::mul(*x, third));
    let b = Mat::<T>::new(0, k, n, rng);
    let bias = Mat::<T>::new(0, 1, n, rng);
    let residual = Mat::<T>::new(2, m, n, rng);
    let mut packed = Lines::new(packed_len(k, n, kernels.panel) * size_of::<T>());
    // SAFETY: the room was made for it.
    unsafe { pack::<T>(b.view(), kernels.panel, packed.ptr_mut()) };
    let panel = kernels.panel as isize;
    let sources = [
        Panels { ptr: packed.ptr(), step: panel, panel: k as isize * panel },
        Panels { ptr: b.view().ptr.cast(), step: n as isize, panel },
    ];
    for (b_panels, ends) in sources.into_iter().flat_map(|x| [(x, false), (x, true)]) {
        let mut c = Mat::<T>::new(2, m, n, rng);
        let product = Product {
            kernels,
            m,
            n,
            k,
            a: Left { ptr: a.view().ptr.cast(), row: a.strides.0, step: a.strides.1, tiled: false },
            b: b_panels,
            c: Target { ptr: c.view_mut().ptr.cast(), row: c.strides.0 },
            ending: if ends {
                Ending {
                    bias: bias.view().ptr.cast(),
                    residual: residual.view().ptr.cast(),
                    residual_row: residual.strides.0,
                    finished: None,
                }
            } else {
                Ending::none()
            },
        };
        // SAFETY: all buffers cover their sizes.
        unsafe { product.run() };
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let mut want = T::ZERO;
            for p in 0..k {
                let (x, y) = (a.get(i, p), b.get(p, j));
                want = if name == "portable" && cfg!(target_arch = "x86_64") {
                    T::add(T::mul(x, y), want)
                } else {
                    x.fused(y, want)
                };
            }
            if ends {
                want = T::add(T::add(want, bias.get(0, j)), residual.get(i, j));
            }
            let got = c.get(i, j);
            assert!(
                got.same(want),
                "{name} {m}x{n}x{k} layout {layout} ends {ends} at {i},{j}: {got:?} for {want:?}"
            );
        }
    }
}

fn check_dots<T: Chain>(
    (name, kernels): (&str, &'static Kernels<T>),
    (m, n, k): (usize, usize, usize),
    rng: &mut Rng,
) {
    let a = Mat::<T>::new(2, m, k, rng);
    let b = Mat::<T>::new(3, k, n, rng);
    let mut c = Mat::<T>::new(2, m, n, rng);
    let dots = Dots {
        kernels,
        m,
        n,
        k,
        a: a.view().ptr.cast(),
        a_row: a.strides.0,
        b: b.view().ptr.cast(),
        b_col: b.strides.1,
        c: Target { ptr: c.view_mut().ptr.cast(), row: c.strides.0 },
    };
    // SAFETY: all buffers cover their sizes.
    unsafe { dots.run() };
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let terms = (0..k).map(|p| a.get(i, p).to() * b.get(p, j).to());
        let want = (terms.clone().sum(), terms.map(f64::abs).sum());
        assert!(close(c.get(i, j), want, k), "{name} dots {m}x{n}x{k} at {i},{j}");
    }
}

fn check_kernels<T: Chain>() {
    let rng = &mut Rng(0xabcdef12345);
    for set in T::available() {
        for m in 0..15 {
            for n in [0, 1, 7, 16, 31, 33, 64, 70, 130] {
                let k = rng.below(24);
                check_tile(set, (m, n, k), rng.below(LAYOUTS), rng);
            }
        }
        // Several blocks of `k` and of rows.
        check_tile(set, (26, 33, 1100), 0, rng);
        check_tile(set, (245, 5, 530), 1, rng);
        for m in 0..9 {
            for n in [1, 4, 7] {
                check_dots(set, (m, n, 1 + rng.below(70)), rng);
            }
        }
    }
}

#[test]
fn every_instruction_set_computes_the_same_chain_in_f32() {
    check_kernels::<f32>();
}

#[test]
fn every_instruction_set_computes_the_same_chain_in_f64() {
    check_kernels::<f64>();
}

pub(super) const ACTIVATIONS: [Activation; 7] = [
    Activation::None,
    Activation::Relu,
    Activation::GeluErf,
    Activation::GeluTanh,
    Activation::Silu,
    Activation::Tanh,
    Activation::Sigmoid,
];

/// `erfc` by the series of `erf`, or for large arguments by its continued fraction.
fn erfc(x: f64) -> f64 {
    let root = std::f64::consts::PI.sqrt();
    if x < 0.0 {
        2.0 - erfc(-x)
    } else if x < 1.5 {
        let (mut term, mut sum) = (x, x);
        for i in 1..60 {
            term *= -x * x / i as f64;
            sum += term / (2 * i + 1) as f64;
        }
        1.0 - sum * 2.0 / root
    } else {
        let tail = (1..300).rev().fold(1.0, |f, i| 1.0 + i as f64 / (2.0 * x * x) / f);
        (-x * x).exp() / (x * root) / tail
    }
}

fn apply(activation: Activation, x: f64) -> f64 {
    let sigmoid = 1.0 / (1.0 + (-x).exp());
    match activation {
        Activation::None => x,
        Activation::Relu => x.max(0.0),
        Activation::GeluErf => 0.5 * x * erfc(-x / 2f64.sqrt()),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
        Activation::Silu => x * sigmoid,
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => sigmoid,
    }
}

fn check_packed<T: Number>() {
    let rng = &mut Rng(0x5eed);
    for round in 0..60 {
        let (m, n, k) = (rng.below(20), rng.below(80), rng.below(40));
        let a = Mat::<T>::new(round % LAYOUTS, m, k, rng);
        let b = Mat::<T>::new(rng.below(LAYOUTS), k, n, rng);
        let bias = Mat::<T>::new(0, 1, n, rng);
        let residual = Mat::<T>::new(2, m, n, rng);
        let mut c = Mat::<T>::new(2 * (round % 2), m, n, rng);
        let activation = ACTIVATIONS[round % 7];
        let (with_bias, with_residual) = (round % 3 != 0, round % 4 > 1);
        let view = b.view();
        // SAFETY: all buffers cover their sizes.
        let packed = unsafe {
            let packed = PackedB::pack(T::DTYPE, k, n, view.ptr, view.row_stride, view.col_stride);
            let packed = packed.unwrap();
            let epilogue = Epilogue {
                bias: with_bias.then(|| bias.view().ptr),
                activation,
                residual: with_residual.then(|| (residual.view().ptr, residual.strides.0)),
            };
            matmul_packed_strided(a.view(), &packed, c.view_mut(), epilogue);
            packed
        };
        assert_eq!((packed.k(), packed.n(), packed.dtype()), (k, n, T::DTYPE));
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let terms = (0..k).map(|p| a.get(i, p).to() * b.get(p, j).to());
            let bias = if with_bias { bias.get(0, j).to() } else { 0.0 };
            let rest = if with_residual { residual.get(i, j).to() } else { 0.0 };
            let want = apply(activation, terms.clone().sum::<f64>() + bias) + rest;
            let size = terms.map(f64::abs).sum::<f64>() + bias.abs() + rest.abs() + 1.0;
            // The slopes of the activations stay below 1.2.
            assert!(
                close(c.get(i, j), (want, 1.2 * size), k),
                "{} {m}x{n}x{k} {activation:?} at {i},{j}: {:?} for {want}",
                T::DTYPE,
                c.get(i, j)
            );
        }
    }
}

#[test]
fn packed_products_with_epilogues_match() {
    check_packed::<f32>();
    check_packed::<f64>();
    check_packed::<f16>();
    check_packed::<bf16>();
}

#[test]
fn the_bits_do_not_depend_on_the_threads_or_the_rows() {
    let rng = &mut Rng(3);
    for (m, n, k) in [(1, 1000, 700), (5, 600, 530), (70, 330, 520), (600, 20, 300)] {
        let a = Mat::<f32>::new(0, m, k, rng);
        let b = Mat::<f32>::new(1, k, n, rng);
        // SAFETY: all buffers cover their sizes.
        let packed =
            unsafe { PackedB::pack(DType::F32, k, n, b.view().ptr, 1, k as isize) }.unwrap();
        let run = |rows: usize| {
            let mut c = vec![0.0f32; m * n];
            for first in (0..m).step_by(rows) {
                let count = rows.min(m - first);
                let (a, c) = (a.view().at::<f32>(first, 0), c[first * n..].as_mut_ptr());
                // SAFETY: as above, from row `first` on.
                unsafe {
                    let epilogue = Epilogue::default();
                    matmul_packed(
                        count,
                        a.cast(),
                        k as isize,
                        &packed,
                        c.cast(),
                        n as isize,
                        epilogue,
                    );
                }
            }
            c.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        let serial = with_threads(1, || run(m));
        for threads in [2, 3, 5] {
            assert!(serial == with_threads(threads, || run(m)), "{threads} threads, {m}x{n}x{k}");
        }
        assert!(serial == run(1 + m / 3), "split rows, {m}x{n}x{k}");
    }
}

#[test]
fn repacking_reads_the_new_values() {
    let old = [1.0f32, 2.0, 3.0, 4.0];
    let new = [10.0f32, 20.0, 30.0, 40.0];
    let x = [1.0f32, 1.0];
    let mut y = [0.0f32; 2];
    // SAFETY: the arrays cover the sizes.
    unsafe {
        let mut packed = PackedB::pack(DType::F32, 2, 2, old.as_ptr().cast(), 2, 1).unwrap();
        packed.repack(new.as_ptr().cast(), 2, 1);
        let (x, y) = (x.as_ptr().cast(), y.as_mut_ptr().cast());
        matmul_packed(1, x, 2, &packed, y, 2, Epilogue::default());
    }
    assert_eq!(y, [40.0, 60.0]);
}

#[test]
fn integers_are_not_packed() {
    // SAFETY: nothing is read.
    let result = unsafe { PackedB::pack(DType::I64, 0, 0, std::ptr::null(), 1, 1) };
    assert_eq!(result.err(), Some(MatmulError::DType { dtype: DType::I64 }));
}
