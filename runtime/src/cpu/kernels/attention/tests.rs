//! Attention against the plain formula.

use super::super::operand::tests::{input_of, output_of};
use super::*;

fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// One head in f64, the plain way.
fn plain(q: &[f32], k: &[f32], v: &[f32], d: usize, causal: bool, mask: &[f32]) -> Vec<f64> {
    let (m, n) = (q.len() / d, k.len() / d);
    let mut out = vec![0.0; m * d];
    for i in 0..m {
        let seen = if causal { n.min(i + 1) } else { n };
        let score = |j: usize| -> f64 {
            let dot: f64 = (0..d).map(|p| f64::from(q[i * d + p]) * f64::from(k[j * d + p])).sum();
            dot * 3.0 + f64::from(mask[j])
        };
        let max = (0..seen).map(score).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = (0..seen).map(|j| (score(j) - max).exp()).sum();
        for j in 0..seen {
            let weight = (score(j) - max).exp() / total;
            for p in 0..d {
                out[i * d + p] += weight * f64::from(v[j * d + p]);
            }
        }
    }
    out
}

#[test]
fn agrees_with_the_plain_way() {
    for (m, n, d) in
        [(1, 1, 1), (3, 5, 4), (50, 300, 20), (100, 530, 64), (70, 1100, 24), (130, 97, 40)]
    {
        for causal in [false, true] {
            let (q, k, v) = (numbers(m * d, 1), numbers(n * d, 2), numbers(n * d, 3));
            let mask = numbers(n, 4);
            let (mut out, mut log) = (vec![0f32; m * d], vec![0f32; m]);
            let (rows, columns, features) = (m as i64, n as i64, d as i64);
            let queries = ([1, 1, rows, features], [0, 0, features, 1]);
            let keys = ([1, 1, columns, features], [0, 0, features, 1]);
            attention(Attention {
                q: input_of(&q, queries.0, queries.1),
                k: input_of(&k, keys.0, keys.1),
                v: input_of(&v, keys.0, keys.1),
                mask: Some(input_of(&mask, [1, 1, rows, columns], [0, 0, 0, 1])),
                out: output_of(&mut out, queries.0, queries.1),
                logsumexp: output_of(&mut log, [1, 1, rows], [0, 0, 1]),
                causal,
                scale: 3.0,
            })
            .unwrap();
            let want = plain(&q, &k, &v, d, causal, &mask);
            for (i, (x, y)) in out.iter().zip(&want).enumerate() {
                assert!((f64::from(*x) - y).abs() < 1e-5, "{m}x{n}x{d} {causal} {i}: {x} {y}");
            }
        }
    }
}

#[test]
fn a_hiddecolumnsrow_gives_zeros() {
    let (q, mask) = ([1f32; 4], [f32::NEG_INFINITY; 4]);
    let (mut out, mut log) = ([9f32; 4], [9f32; 2]);
    let (sizes, strides) = ([1, 1, 2, 2], [0, 0, 2, 1]);
    let mut run = |keys: i64| {
        attention(Attention {
            q: input_of(&q, sizes, strides),
            k: input_of(&q, [1, 1, keys, 2], strides),
            v: input_of(&q, sizes, strides),
            mask: Some(input_of(&mask, sizes, strides)),
            out: output_of(&mut out, sizes, strides),
            logsumexp: output_of(&mut log, [1, 1, 2], [0, 0, 1]),
            causal: false,
            scale: 1.0,
        })
    };
    assert!(run(1).is_err(), "keys and values are as many");
    run(2).unwrap();
    assert_eq!((out, log), ([0.0; 4], [0.0; 2]));
}
