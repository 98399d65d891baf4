//! Winograd's algorithm against sums written out in f64, for sizes that its blocks do not divide.

use super::super::tests::geometry;
use super::super::{Geometry, convolve, scatter};
use super::*;
use crate::cpu::kernels::operand::tests::{input, output};
use crate::cpu::threads::testing::with_threads;

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
        assert!(Shape::forward(g).is_some(), "{g:?}");
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
        let shape = Shape::forward(&g).unwrap();
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
        let shape = Shape::forward(&g).unwrap();
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
            println!(
                "{batch} x {c}->{o} at {size}: direct {direct:.3} ms, whole {whole:.3}, weights ready \
                 {prepared:.3}, their transform {transform:.3}"
            );
        }
    }
}
