//! Convolutions against the sum written out.

use super::*;
use crate::cpu::kernels::operand::tests::{input, output};
use straightline_passes::ir::DType;

fn numbers(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 7 + seed * 13) % 11) as f64 - 5.0).collect()
}

/// Calls `f(n, o, c of the group, input index, weight index, output index)` for every product of
/// the convolution.
fn every(g: &Geometry, mut f: impl FnMut(usize, usize, usize)) {
    let (gi, go) = (g.in_channels / g.groups, g.out_channels / g.groups);
    let [od, oh, ow] = g.output;
    let [kd, kh, kw] = g.kernel;
    for n in 0..g.batch {
        for o in 0..g.out_channels {
            for c in 0..gi {
                for p in 0..od * oh * ow {
                    for k in 0..kd * kh * kw {
                        let at = [p / (oh * ow), p / ow % oh, p % ow];
                        let tap = [k / (kh * kw), k / kw % kh, k % kw];
                        let mut index = 0;
                        let mut inside = true;
                        for d in 0..3 {
                            let x = (at[d] * g.stride[d] + tap[d] * g.dilation[d]) as isize
                                - g.padding[d] as isize;
                            inside &= (0..g.input[d] as isize).contains(&x);
                            index = index * g.input[d] as isize + x;
                        }
                        if inside {
                            let channel = n * g.in_channels + o / go * gi + c;
                            let plane: usize = g.input.iter().product();
                            f(
                                channel * plane + index as usize,
                                (o * gi + c) * kd * kh * kw + k,
                                (n * g.out_channels + o) * od * oh * ow + p,
                            );
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn geometry(
    (batch, groups, inputs, outputs): (usize, usize, usize, usize),
    input: [usize; 3],
    kernel: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
) -> Geometry {
    let output = [0, 1, 2]
        .map(|d| (input[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1);
    Geometry {
        batch,
        groups,
        in_channels: inputs,
        out_channels: outputs,
        input,
        kernel,
        output,
        stride,
        padding,
        dilation,
    }
}

fn geometries() -> Vec<Geometry> {
    vec![
        geometry((2, 1, 3, 4), [1, 7, 9], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]),
        geometry((1, 2, 4, 6), [1, 8, 7], [1, 3, 2], [1, 2, 3], [0, 2, 1], [1, 1, 2]),
        geometry((2, 3, 3, 6), [1, 6, 40], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]),
        geometry((2, 4, 4, 4), [1, 6, 5], [1, 2, 3], [1, 2, 2], [0, 0, 1], [1; 3]),
        geometry((2, 1, 5, 3), [1, 4, 6], [1; 3], [1; 3], [0; 3], [1; 3]),
        geometry((1, 1, 2, 3), [5, 4, 6], [2, 3, 3], [2, 1, 1], [1, 0, 2], [2, 1, 2]),
        geometry((1, 1, 70, 13), [1, 30, 70], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]),
        geometry((2, 1, 33, 37), [1, 9, 8], [1, 3, 3], [1; 3], [0, 1, 0], [1; 3]),
        geometry((1, 2, 6, 34), [1, 30, 31], [1, 3, 3], [1, 2, 2], [0, 1, 1], [1; 3]),
        geometry((1, 1, 3, 20), [1, 37, 40], [1, 7, 7], [1, 2, 2], [0, 3, 3], [1; 3]),
    ]
}

#[test]
fn forward_is_the_sum() {
    for g in geometries() {
        let planes = |channels: usize, sizes: [usize; 3]| {
            g.batch * channels * sizes.iter().product::<usize>()
        };
        let x = numbers(planes(g.in_channels, g.input), 1);
        let taps: usize = g.kernel.iter().product();
        let w = numbers(g.out_channels * g.in_channels / g.groups * taps, 2);
        let b = numbers(g.out_channels, 3);
        let mut want = vec![0.0; planes(g.out_channels, g.output)];
        let plane: usize = g.output.iter().product();
        for (i, y) in want.iter_mut().enumerate() {
            *y = b[i / plane % g.out_channels];
        }
        every(&g, |i, k, o| want[o] += x[i] * w[k]);
        let mut got = vec![0.0f64; want.len()];
        convolve(&g, input(&x), input(&w), Some(input(&b)), output(&mut got)).unwrap();
        assert_eq!(got, want, "{g:?}");
        let narrow = |v: &[f64]| v.iter().map(|x| *x as f32).collect::<Vec<_>>();
        let (x, w, b) = (narrow(&x), narrow(&w), narrow(&b));
        let mut got = vec![0f32; want.len()];
        convolve(&g, input(&x), input(&w), Some(input(&b)), output(&mut got)).unwrap();
        assert_eq!(got, narrow(&want), "{g:?}");
    }
}

#[test]
fn gradients_are_the_sums() {
    for g in geometries() {
        let planes = |channels: usize, sizes: [usize; 3]| {
            g.batch * channels * sizes.iter().product::<usize>()
        };
        let x = numbers(planes(g.in_channels, g.input), 1);
        let taps: usize = g.kernel.iter().product();
        let w = numbers(g.out_channels * g.in_channels / g.groups * taps, 2);
        let dy = numbers(planes(g.out_channels, g.output), 4);
        let (mut dx, mut dw) = (vec![0.0; x.len()], vec![0.0; w.len()]);
        every(&g, |i, k, o| {
            dx[i] += dy[o] * w[k];
            dw[k] += dy[o] * x[i];
        });
        let (mut got_x, mut got_w) = (vec![9.0f64; x.len()], vec![9.0f64; w.len()]);
        scatter(&g, input(&dy), input(&w), None, output(&mut got_x)).unwrap();
        weight_gradient(&g, input(&x), input(&dy), output(&mut got_w)).unwrap();
        assert_eq!(got_x, dx, "{g:?}");
        assert_eq!(got_w, dw, "{g:?}");
    }
}

/// Packed weights and operations in the kernel change no bit.
#[test]
fn packed_weights_and_what_follows_give_the_same_bits() {
    use straightline_passes::schedule::loops::Activation;
    macro_rules! check {
        ($t:ty, $dtype:expr, $g:expr) => {{
            let g = $g;
            let odd = |n: usize, seed: usize| -> Vec<$t> {
                numbers(n, seed).iter().map(|x| (*x / 7.0) as $t).collect()
            };
            let (x, w) = (odd(g.inputs(), 1), odd(g.weights(), 2));
            let [b, scale, shift] = [3, 4, 5].map(|seed| odd(g.out_channels, seed));
            let other = odd(g.outputs(), 6);
            let at = |v: &[$t]| v.as_ptr().cast::<u8>();
            let follows: [&[Follow]; 4] = [
                &[],
                &[
                    Follow::Scale(at(&scale)),
                    Follow::Shift(at(&shift)),
                    Follow::Activation(Activation::Relu),
                ],
                &[
                    Follow::Scale(at(&scale)),
                    Follow::Shift(at(&shift)),
                    Follow::Add(at(&other)),
                    Follow::Activation(Activation::Relu),
                ],
                &[
                    Follow::Activation(Activation::Relu),
                    Follow::Add(at(&other)),
                    Follow::Shift(at(&shift)),
                    Follow::Scale(at(&scale)),
                ],
            ];
            let mut want = vec![0.0; g.outputs()];
            convolve(&g, input(&x), input(&w), Some(input(&b)), output(&mut want)).unwrap();
            for follow in follows {
                let mut want = want.clone();
                for f in follow {
                    for (i, y) in want.iter_mut().enumerate() {
                        let c = i / g.output_plane() % g.out_channels;
                        *y = match f {
                            Follow::Scale(_) => *y * scale[c],
                            Follow::Shift(_) => *y + shift[c],
                            Follow::Add(_) => *y + other[i],
                            Follow::Activation(_) => y.max(0.0),
                        };
                    }
                }
                // SAFETY: vectors of the geometry's sizes.
                unsafe {
                    let packed = PackedForm::of($dtype, &g, false)
                        .map(|form| PackedKernel::new(&form, &g, at(&w)));
                    for packed in [None, packed.as_ref()] {
                        let mut got = vec![9.0; want.len()];
                        let output = got.as_mut_ptr().cast();
                        let operands =
                            Operands { input: at(&x), weight: at(&w), bias: at(&b), output };
                        convolve_packed($dtype, &g, operands, (packed, false), follow);
                        assert_eq!(got, want, "{} {g:?} {follow:?}", packed.is_some());
                    }
                }
            }
        }};
    }
    for g in geometries() {
        check!(f32, DType::F32, g.clone());
        check!(f64, DType::F64, g);
    }
}

/// `cargo test --release -p straightline-runtime conv::tests::speed -- --ignored --nocapture`
#[test]
fn images_of_other_sizes_take_the_same_packed_weight() {
    let at = |batch: usize, size: usize| {
        let g = geometry((batch, 1, 64, 64), [1, size, size], [1, 3, 3], [1; 3], [0, 1, 1], [1; 3]);
        PackedForm::of(DType::F32, &g, false)
    };
    assert!(at(1, 56).is_some());
    assert_eq!(at(1, 56), at(3, 40));
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    for (c, o, size, k, stride) in [
        (64, 64, 56, 3, 1),
        (128, 128, 28, 3, 1),
        (256, 256, 14, 3, 1),
        (512, 512, 7, 3, 1),
        (3, 64, 224, 7, 2),
        (64, 128, 56, 3, 2),
        (64, 128, 56, 1, 2),
        (64, 256, 56, 1, 1),
    ] {
        let g = geometry(
            (1, 1, c, o),
            [1, size, size],
            [1, k, k],
            [1, stride, stride],
            [0, k / 2, k / 2],
            [1; 3],
        );
        let x = vec![0.5f32; c * size * size];
        let w = vec![0.25f32; o * c * k * k];
        let mut y = vec![0f32; o * g.output.iter().product::<usize>()];
        let mut best = f64::MAX;
        for _ in 0..20 {
            let begin = std::time::Instant::now();
            convolve(&g, input(&x), input(&w), None, output(&mut y)).unwrap();
            best = best.min(begin.elapsed().as_secs_f64());
        }
        let flops = 2.0 * (w.len() * g.output.iter().product::<usize>()) as f64;
        println!(
            "{c}->{o} {k}x{k}/{stride} at {size}: {:.3} ms, {:.0} GFLOP/s",
            best * 1e3,
            flops / best / 1e9
        );
    }
}
