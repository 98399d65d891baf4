//! Winograd's algorithm against sums written out in f64, for sizes that its blocks do not divide.

use super::super::tests::geometry;
use super::super::{
    Geometry, Operands, PackedForm, PackedKernel, convolve, convolve_packed, scatter,
};
use super::*;
use crate::cpu::kernels::operand::tests::{input, output};
use crate::cpu::threads::testing::with_threads;
use straightline_passes::ir::DType;

/// Numbers in `[-1, 1)`.
fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// A convolution of images with 3x3 kernels.
fn plain(
    batch: usize,
    channels: (usize, usize),
    size: [usize; 2],
    padding: [usize; 2],
) -> Geometry {
    geometry(
        (batch, 1, channels.0, channels.1),
        [1, size[0], size[1]],
        [1, 3, 3],
        [1; 3],
        [0, padding[0], padding[1]],
        [1; 3],
    )
}

fn geometries() -> Vec<Geometry> {
    vec![
        plain(1, (32, 32), [8, 8], [1, 1]),
        plain(2, (37, 35), [7, 7], [1, 1]),
        plain(1, (32, 48), [13, 9], [0, 0]),
        plain(1, (36, 33), [6, 37], [2, 0]),
        plain(3, (64, 40), [14, 14], [1, 1]),
        plain(5, (33, 32), [4, 5], [2, 2]),
        plain(1, (32, 34), [5, 150], [1, 1]),
        plain(1, (34, 64), [37, 30], [0, 1]),
    ]
}

/// The convolution in f64, and the sum of the magnitudes of its terms.
fn reference(g: &Geometry, x: &[f32], w: &[f32], b: &[f32]) -> Vec<(f64, f64)> {
    let ([_, h, wd], [_, oh, ow]) = (g.input, g.output);
    let mut out = Vec::new();
    for n in 0..g.batch {
        for o in 0..g.out_channels {
            for y in 0..oh {
                for z in 0..ow {
                    let (mut sum, mut size) = (f64::from(b[o]), f64::from(b[o].abs()));
                    for c in 0..g.in_channels {
                        for t in 0..9 {
                            let (i, j) = (y + t / 3, z + t % 3);
                            let (p, q) = (g.padding[1], g.padding[2]);
                            if i < p || j < q || i - p >= h || j - q >= wd {
                                continue;
                            }
                            let at = ((n * g.in_channels + c) * h + i - p) * wd + j - q;
                            let term =
                                f64::from(x[at]) * f64::from(w[(o * g.in_channels + c) * 9 + t]);
                            sum += term;
                            size += term.abs();
                        }
                    }
                    out.push((sum, size));
                }
            }
        }
    }
    out
}

fn forward(g: &Geometry, x: &[f32], w: &[f32], b: Option<&Vec<f32>>) -> Vec<f32> {
    let mut y = vec![9f32; g.outputs()];
    convolve(g, input(x), input(w), b.map(|b| input(b)), output(&mut y)).unwrap();
    y
}

fn bits(v: &[f32]) -> Vec<u32> {
    v.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn as_near_as_sums_written_out() {
    for (seed, g) in geometries().iter().enumerate() {
        let seed = seed as u64;
        assert!(Shape::forward(g, false).is_some(), "{g:?}");
        let (x, w) = (numbers(g.inputs(), seed + 1), numbers(g.weights(), seed + 20));
        let b = numbers(g.out_channels, seed + 40);
        let want = reference(g, &x, &w, &b);
        let got = forward(g, &x, &w, Some(&b));
        let largest = want.iter().fold(0f64, |m, (y, _)| m.max(y.abs()));
        for (got, (want, size)) in got.iter().zip(&want) {
            let off = (f64::from(*got) - want).abs();
            assert!(off <= 4e-6 * largest && off <= 2e-6 * size, "{got} for {want}, {g:?}");
        }
        // without a bias, on other numbers of threads
        let plain = forward(g, &x, &w, None);
        for (i, (got, plain)) in got.iter().zip(&plain).enumerate() {
            assert_eq!(*got, plain + b[i / g.output_plane() % g.out_channels]);
        }
        for threads in [1, 2, 3, 8] {
            let other = with_threads(threads, || forward(g, &x, &w, None));
            assert_eq!(bits(&other), bits(&plain), "{threads} threads, {g:?}");
        }
    }
}

#[test]
fn weights_that_were_transformed_give_the_same_bits() {
    for g in geometries() {
        let shape = Shape::forward(&g, false).unwrap();
        let (x, w) = (numbers(g.inputs(), 3), numbers(g.weights(), 4));
        let want = forward(&g, &x, &w, None);
        // SAFETY: vectors of the geometry's sizes.
        unsafe {
            let ready = Transformed::new(&shape, shape.forward_taps(w.as_ptr()));
            let mut y = vec![9f32; g.outputs()];
            let (from, to) = (Shared(x.as_ptr().cast_mut()), Shared(y.as_mut_ptr()));
            assert!(run(&shape, from, ready.source(), to, None).is_empty());
            assert_eq!(bits(&y), bits(&want), "{g:?}");
        }
    }
}

/// By squares of 4x4 outputs, whatever their number.
fn larger(g: &Geometry, x: &[f32], w: &[f32], ready: bool) -> Vec<f32> {
    let shape = Shape { edge: 4, ..Shape::forward(g, false).unwrap() };
    let mut y = vec![9f32; g.outputs()];
    let (from, to) = (Shared(x.as_ptr().cast_mut()), Shared(y.as_mut_ptr()));
    let taps = shape.forward_taps(w.as_ptr());
    // SAFETY: vectors of the geometry's sizes.
    unsafe {
        let transformed = ready.then(|| Transformed::new(&shape, taps));
        let source = transformed.as_ref().map_or(Source::Taps(taps), Transformed::source);
        assert!(run(&shape, from, source, to, None).is_empty());
    }
    y
}

/// The error of F(4x4) is at most 1.2e-5 of the sum of the terms' magnitudes here: ten times what is
/// asked of F(2x2), as the rows of its matrices, whose largest entries are 5, 8 and 1, say.
#[test]
fn larger_squares_have_larger_errors() {
    let mut most = [0f64; 2];
    for (seed, g) in geometries().iter().enumerate() {
        let seed = seed as u64;
        let (x, w) = (numbers(g.inputs(), seed + 1), numbers(g.weights(), seed + 20));
        let b = vec![0f32; g.out_channels];
        let want = reference(g, &x, &w, &b);
        let got = larger(g, &x, &w, false);
        let largest = want.iter().fold(0f64, |m, (y, _)| m.max(y.abs()));
        for (got, (want, size)) in got.iter().zip(&want) {
            let off = (f64::from(*got) - want).abs();
            most = [most[0].max(off / largest), most[1].max(off / size)];
            assert!(off <= 4e-5 * largest && off <= 1.2e-5 * size, "{got} for {want}, {g:?}");
        }
        assert_eq!(bits(&larger(g, &x, &w, true)), bits(&got), "{g:?}");
        for threads in [2, 3] {
            let other = with_threads(threads, || larger(g, &x, &w, false));
            assert_eq!(bits(&other), bits(&got), "{threads} threads, {g:?}");
        }
    }
    println!("of the largest output {:.1e}, of the sum of magnitudes {:.1e}", most[0], most[1]);
}

/// Where the errors may be larger, squares of 4x4 outputs are taken if there are enough of them, and
/// what is not finite stays where it is.
#[test]
fn fast_math_chooses_by_sizes() {
    assert_eq!(Shape::forward(&plain(1, (64, 64), [56, 56], [1, 1]), true).unwrap().edge(), 4);
    assert_eq!(Shape::forward(&plain(1, (64, 64), [56, 56], [1, 1]), false).unwrap().edge(), 2);
    assert_eq!(Shape::forward(&plain(1, (512, 512), [7, 7], [1, 1]), true).unwrap().edge(), 2);
    let g = plain(2, (32, 33), [30, 29], [1, 1]);
    let w = numbers(g.weights(), 8);
    let b = vec![0f32; g.out_channels];
    let form = PackedForm::of(DType::F32, &g, true).unwrap();
    assert_ne!(Some(&form), PackedForm::of(DType::F32, &g, false).as_ref());
    // SAFETY: vectors of the geometry's sizes.
    let packed = unsafe { PackedKernel::new(&form, &g, w.as_ptr().cast()) };
    for special in [0.5, f32::NAN, f32::INFINITY] {
        let mut x = numbers(g.inputs(), 9);
        x[5 * 29 + 7] = special;
        let want = reference(&g, &x, &w, &b);
        for packed in [None, Some(&packed)] {
            let mut y = vec![9f32; g.outputs()];
            let operands = Operands {
                input: x.as_ptr().cast(),
                weight: w.as_ptr().cast(),
                bias: std::ptr::null(),
                output: y.as_mut_ptr().cast(),
            };
            // SAFETY: vectors of the geometry's sizes.
            unsafe { convolve_packed(DType::F32, &g, operands, (packed, true), &[]) };
            for (got, (want, size)) in y.iter().zip(&want) {
                let same = (got.is_nan() && want.is_nan())
                    || f64::from(*got) == *want
                    || (f64::from(*got) - want).abs() <= 1.2e-5 * size;
                assert!(same, "{got} for {want} with {special}");
            }
        }
    }
}

#[test]
fn the_gradient_of_the_input_too() {
    for g in geometries() {
        if Shape::backward(&g).is_none() {
            continue;
        }
        let (dy, w) = (numbers(g.outputs(), 5), numbers(g.weights(), 6));
        let b = numbers(g.in_channels, 7);
        let mut dx = vec![9f32; g.inputs()];
        scatter(&g, input(&dy), input(&w), Some(input(&b)), output(&mut dx)).unwrap();
        let wide = |v: &[f32]| v.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>();
        let mut want = vec![9f64; g.inputs()];
        let (dy, w, b) = (wide(&dy), wide(&w), wide(&b));
        scatter(&g, input(&dy), input(&w), Some(input(&b)), output(&mut want)).unwrap();
        let largest = want.iter().fold(0f64, |m, y| m.max(y.abs()));
        for (got, want) in dx.iter().zip(&want) {
            assert!((f64::from(*got) - want).abs() <= 4e-6 * largest, "{got} for {want}, {g:?}");
        }
    }
    assert!(geometries().iter().filter(|g| Shape::backward(g).is_some()).count() >= 5);
}

/// What is not finite is where the sums written out have it, and nowhere else.
#[test]
fn infinities_do_not_spread() {
    for g in geometries() {
        let w = numbers(g.weights(), 8);
        for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e38] {
            let mut x = numbers(g.inputs(), 9);
            let middle = x.len() / g.batch * (g.batch - 1) + g.input[2] + 1;
            x[middle] = special;
            let b = numbers(g.out_channels, 10);
            let want = reference(&g, &x, &w, &b);
            let got = forward(&g, &x, &w, Some(&b));
            let wild = want.iter().filter(|(y, _)| !y.is_finite()).count();
            assert!(special == 3e38 || wild > 0);
            for (got, (want, size)) in got.iter().zip(&want) {
                let same = (got.is_nan() && want.is_nan())
                    || f64::from(*got) == *want
                    || (f64::from(*got) - want).abs() <= 2e-6 * size;
                assert!(same, "{got} for {want} with {special}, {g:?}");
            }
        }
    }
    let g = plain(1, (32, 32), [8, 8], [1, 1]);
    let (x, mut w) = (numbers(g.inputs(), 9), numbers(g.weights(), 8));
    w[9 * 32 * 5 + 4] = f32::INFINITY;
    let got = forward(&g, &x, &w, None);
    for (i, y) in got.iter().enumerate() {
        assert_eq!(y.is_finite(), i / 64 != 5, "{i}: {y}");
    }
}

/// `cargo test --release -p straightline-runtime winograd::tests::speed -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn speed() {
    for (batch, c, o, size) in [
        (1, 32, 32, 56),
        (1, 64, 64, 56),
        (1, 128, 128, 28),
        (1, 256, 256, 14),
        (1, 512, 512, 7),
        (1, 1024, 1024, 7),
        (1, 64, 64, 224),
        (8, 512, 512, 7),
    ] {
        let g = plain(batch, (c, o), [size, size], [1, 1]);
        let shape = Shape::forward(&g, false).unwrap();
        let (x, w) = (numbers(g.inputs(), 3), numbers(g.weights(), 4));
        let mut y = vec![0f32; g.outputs()];
        let (from, to) = (Shared(x.as_ptr().cast_mut()), Shared(y.as_mut_ptr()));
        let best = |f: &mut dyn FnMut()| {
            let once = |f: &mut dyn FnMut()| {
                let begin = std::time::Instant::now();
                f();
                begin.elapsed().as_secs_f64() * 1e3
            };
            (0..30).map(|_| once(f)).fold(f64::MAX, f64::min)
        };
        // SAFETY: vectors of the geometry's sizes.
        unsafe {
            let taps = shape.forward_taps(w.as_ptr());
            let ready = Transformed::new(&shape, taps);
            let mut room = Transformed::new(&shape, taps);
            let transform = best(&mut || {
                transform_all(&shape, taps, Shared(room.data.as_mut_ptr().cast()));
            });
            let prepared = best(&mut || drop(run(&shape, from, ready.source(), to, None)));
            let whole = best(&mut || drop(run(&shape, from, Source::Taps(taps), to, None)));
            let (i, w) = (x.as_ptr(), w.as_ptr());
            let direct = best(&mut || {
                let [x, w, y] = [Shared(i.cast_mut()), Shared(w.cast_mut()), to];
                super::super::direct::forward(
                    &g,
                    x,
                    (w, false),
                    Shared(std::ptr::null_mut()),
                    y,
                    None,
                );
            });
            let larger = Shape { edge: 4, ..shape };
            let ready = Transformed::new(&larger, taps);
            let fast = best(&mut || drop(run(&larger, from, ready.source(), to, None)));
            println!(
                "{batch} x {c}->{o} at {size}: direct {direct:.3} ms, whole {whole:.3}, weights ready \
                 {prepared:.3}, their transform {transform:.3}; squares of 4x4, weights ready {fast:.3}"
            );
        }
    }
}
