//! Attention against the plain formula.

use super::*;

fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
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
            let dot: f64 = (0..d)
                .map(|p| f64::from(q[i * d + p]) * f64::from(k[j * d + p]))
                .sum();
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
    for (m, n, d) in [
        (1, 1, 1),
        (3, 5, 4),
        (50, 300, 20),
        (100, 530, 64),
        (130, 97, 40),
    ] {
        for causal in [false, true] {
            let (q, k, v) = (numbers(m * d, 1), numbers(n * d, 2), numbers(n * d, 3));
            let mask = numbers(n, 4);
            let (mut out, mut log) = (vec![0f32; m * d], vec![0f32; m]);
            let heads = |ptr: *const f32| Heads {
                ptr: ptr.cast_mut().cast(),
                strides: [0, 0, d as isize, 1],
            };
            let task = Attention {
                dtype: DType::F32,
                sizes: [1, 1, m, d],
                kv_heads: 1,
                keys: n,
                q: heads(q.as_ptr()),
                k: heads(k.as_ptr()),
                v: heads(v.as_ptr()),
                mask: Some(Heads {
                    ptr: mask.as_ptr().cast_mut().cast(),
                    strides: [0, 0, 0, 1],
                }),
                out: heads(out.as_mut_ptr()),
                logsumexp: Heads {
                    ptr: log.as_mut_ptr().cast(),
                    strides: [0, 0, 1, 0],
                },
                causal,
                scale: 3.0,
            };
            // SAFETY: the vectors have the sizes that the task says.
            unsafe { attention(&task) }.unwrap();
            let want = plain(&q, &k, &v, d, causal, &mask);
            for (i, (x, y)) in out.iter().zip(&want).enumerate() {
                assert!(
                    (f64::from(*x) - y).abs() < 1e-5,
                    "{m}x{n}x{d} {causal} {i}: {x} {y}"
                );
            }
        }
    }
}

#[test]
fn a_hidden_row_gives_zeros() {
    let (q, mask) = ([1f32; 4], [f32::NEG_INFINITY; 4]);
    let (mut out, mut log) = ([9f32; 4], [9f32; 2]);
    let heads = |ptr: *const f32| Heads {
        ptr: ptr.cast_mut().cast(),
        strides: [0, 0, 2, 1],
    };
    let task = Attention {
        dtype: DType::F32,
        sizes: [1, 1, 2, 2],
        kv_heads: 1,
        keys: 2,
        q: heads(q.as_ptr()),
        k: heads(q.as_ptr()),
        v: heads(q.as_ptr()),
        mask: Some(heads(mask.as_ptr())),
        out: heads(out.as_mut_ptr()),
        logsumexp: Heads {
            ptr: log.as_mut_ptr().cast(),
            strides: [0, 0, 1, 0],
        },
        causal: false,
        scale: 1.0,
    };
    // SAFETY: the arrays have the sizes that the task says.
    unsafe { attention(&task) }.unwrap();
    assert_eq!((out, log), ([0.0; 4], [0.0; 2]));
}
