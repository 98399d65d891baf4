use super::*;
use crate::driver::DeviceMemory;
use crate::testing::{Array, FLOATS, Gpu, assert_close, assert_no_spills, eighths, gpu, rounded};

/// Which scores are hidden, and what is added to the others.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Hides {
    Nothing,
    /// Of keys behind their query.
    Later,
    /// By a truth value; the first row of each head sees nothing.
    Some,
    /// By a number of the dtype, one for all heads.
    Added,
    /// By a number of the dtype of sums.
    AddedWide,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    dtype: DType,
    batch: i64,
    heads: [i64; 2],
    positions: [i64; 2],
    features: i64,
    hides: Hides,
    /// (batch, position, head, feature) in memory.
    turned: bool,
}

const PLAIN: Case = Case {
    dtype: DType::F32,
    batch: 2,
    heads: [2, 2],
    positions: [5, 7],
    features: 8,
    hides: Hides::Nothing,
    turned: false,
};

const CORES: Case = Case { batch: 1, heads: [1, 1], features: 32, ..PLAIN };

struct Operand {
    array: Array,
    host: Vec<f64>,
    strides: [i64; 4],
}

impl Operand {
    fn heads(&self) -> Heads {
        Heads { address: self.array.address(), strides: self.strides }
    }

    fn at(&self, [b, h, i, f]: [i64; 4]) -> usize {
        let s = self.strides;
        (b * s[0] + h * s[1] + i * s[2] + f * s[3]) as usize
    }
}

/// What is computed on the host: the result, logarithms, and three gradients.
struct Wanted {
    out: Vec<f64>,
    log: Vec<f64>,
    grads: [Vec<f64>; 3],
}

impl Case {
    fn operand(&self, gpu: &Gpu, heads: i64, positions: i64, seed: u64) -> Operand {
        let f = self.features;
        let strides = match self.turned {
            true => [positions * heads * f, f, heads * f, 1],
            false => [heads * positions * f, positions * f, f, 1],
        };
        let count = self.batch * heads * positions * f;
        let host: Vec<f64> = eighths(count, seed);
        Operand { array: gpu.put(self.dtype, &host), host, strides }
    }

    fn mask(&self) -> Vec<f64> {
        let [queries, keys] = self.positions;
        let mut all = eighths(queries * keys, 11);
        match self.hides {
            Hides::Some => {
                all.iter_mut().for_each(|m| *m = f64::from(u8::from(*m > -0.5)));
                all[..keys as usize].fill(0.0);
            }
            _ => all.iter_mut().step_by(3).for_each(|m| *m = f64::NEG_INFINITY),
        }
        all
    }

    /// What is left of a score, if it is seen.
    fn score(&self, mask: &[f64], sum: f64, i: i64, j: i64) -> f64 {
        let added = mask[(i * self.positions[1] + j) as usize];
        match self.hides {
            Hides::Nothing => sum,
            Hides::Later if j > i => f64::NEG_INFINITY,
            Hides::Later => sum,
            Hides::Some if added == 0.0 => f64::NEG_INFINITY,
            Hides::Some => sum,
            Hides::Added | Hides::AddedWide => sum + added,
        }
    }

    fn wanted(&self, [q, k, v, grad]: [&Operand; 4], scale: f64) -> Wanted {
        let ([queries, keys], [heads, kv_heads]) = (self.positions, self.heads);
        let mask = self.mask();
        let mut out = q.host.clone();
        let mut log = Vec::new();
        let mut grads = [q, k, v].map(|o| vec![0.0; o.host.len()]);
        let features = 0..self.features;
        let dot = |a: &Operand, at: [i64; 3], b: &Operand, bt: [i64; 3]| -> f64 {
            let of =
                |f| a.host[a.at([at[0], at[1], at[2], f])] * b.host[b.at([bt[0], bt[1], bt[2], f])];
            features.clone().map(of).sum()
        };
        for (b, h) in (0..self.batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
            let kv = h / (heads / kv_heads);
            for i in 0..queries {
                let row: Vec<f64> = (0..keys)
                    .map(|j| {
                        let sum = dot(q, [b, h, i], k, [b, kv, j]) * scale;
                        self.score(&mask, sum, i, j)
                    })
                    .collect();
                let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let shift = if most == f64::NEG_INFINITY { 0.0 } else { most };
                let total: f64 = row.iter().map(|s| (s - shift).exp()).sum();
                log.push(if total == 0.0 { 0.0 } else { shift + total.ln() });
                let weights: Vec<f64> = row
                    .iter()
                    .map(|s| if total == 0.0 { 0.0 } else { (s - shift).exp() / total })
                    .collect();
                for f in features.clone() {
                    let of = |j: i64| weights[j as usize] * v.host[v.at([b, kv, j, f])];
                    out[q.at([b, h, i, f])] = (0..keys).map(of).sum();
                }
                let d: Vec<f64> = (0..keys).map(|j| dot(grad, [b, h, i], v, [b, kv, j])).collect();
                let common: f64 = weights.iter().zip(&d).map(|(w, d)| w * d).sum();
                for j in 0..keys {
                    let w = weights[j as usize];
                    let s = w * (d[j as usize] - common) * scale;
                    for f in features.clone() {
                        grads[0][q.at([b, h, i, f])] += s * k.host[k.at([b, kv, j, f])];
                        grads[1][k.at([b, kv, j, f])] += s * q.host[q.at([b, h, i, f])];
                        grads[2][v.at([b, kv, j, f])] += w * grad.host[grad.at([b, h, i, f])];
                    }
                }
            }
        }
        Wanted { out, log, grads }
    }

    fn check(&self, gpu: &Gpu) {
        let ([queries, keys], [heads, kv_heads]) = (self.positions, self.heads);
        let q = self.operand(gpu, heads, queries, 1);
        let (k, v) = (self.operand(gpu, kv_heads, keys, 2), self.operand(gpu, kv_heads, keys, 3));
        let (grad, out) =
            (self.operand(gpu, heads, queries, 4), self.operand(gpu, heads, queries, 5));
        let wide = self.dtype.opmath();
        let rows = self.batch * heads * queries;
        let log = gpu.put(wide, &vec![9.0; rows as usize]);
        let dtype = match self.hides {
            Hides::Some => Some(DType::Bool),
            Hides::Added => Some(self.dtype),
            Hides::AddedWide => Some(wide),
            _ => None,
        };
        let mask = dtype.map(|dtype| (gpu.put(dtype, &self.mask()), dtype));
        let scale = 0.25;
        let a = Attention {
            dtype: self.dtype,
            batch: self.batch,
            heads,
            kv_heads,
            queries,
            keys,
            features: self.features,
            q: q.heads(),
            k: k.heads(),
            v: v.heads(),
            mask: mask.as_ref().map(|(mask, dtype)| Mask {
                address: mask.address(),
                strides: [0, 0, keys, 1],
                dtype: *dtype,
            }),
            out: out.heads(),
            logarithms: Some(Logarithms {
                address: log.address(),
                strides: [heads * queries, queries, 1],
            }),
            causal: self.hides == Hides::Later,
            scale,
        };
        // SAFETY: the tensors are there until the results are read.
        unsafe { attention(&gpu.stream, &a) }.unwrap();
        let want = self.wanted([&q, &k, &v, &grad], scale);
        let tolerance = match self.dtype {
            DType::F64 => 1e-13,
            DType::F32 => 2e-6,
            DType::F16 => 2e-3,
            _ => 1.6e-2,
        };
        let what = |of: &str| format!("{of} of {self:?}");
        let close = |got: &Array, want: &[f64], of: &str, tolerance: f64| {
            let want: Vec<f64> = want.iter().map(|x| rounded(self.dtype, *x)).collect();
            assert_close(&gpu.get(got), &want, tolerance, &what(of));
        };
        close(&out.array, &want.out, "result", tolerance);
        assert_close(&gpu.get(&log), &want.log, tolerance.min(2e-6), &what("logarithms"));
        let to = [(heads, queries), (kv_heads, keys), (kv_heads, keys)]
            .map(|(heads, positions)| self.operand(gpu, heads, positions, 6));
        let [gq, gk, gv] = to.each_ref().map(Operand::heads);
        let g = Gradients { out: grad.heads(), q: gq, k: gk, v: gv };
        let bytes = gradients_workspace_bytes(&a).unwrap();
        let memory = DeviceMemory::new(&gpu.stream, bytes.max(1)).unwrap();
        let workspace = Workspace { address: memory.address(), bytes };
        // SAFETY: as above.
        unsafe { gradients(&gpu.stream, &a, &g, workspace) }.unwrap();
        for ((got, want), of) in to.iter().zip(&want.grads).zip(["q", "k", "v"]) {
            // the result that is read is rounded, and so are weights on tensor cores: errors are those of
            // the largest terms
            let largest = want.iter().fold(1.0f64, |most, x| most.max(x.abs()));
            close(&got.array, want, of, 4.0 * tolerance * largest);
        }
    }
}

#[test]
fn results_and_gradients_are_those_of_the_definition() {
    let Some(gpu) = gpu() else { return };
    for dtype in FLOATS {
        for hides in [Hides::Nothing, Hides::Later, Hides::Some, Hides::Added, Hides::AddedWide] {
            Case { dtype, hides, ..PLAIN }.check(&gpu);
        }
    }
}

#[test]
fn blocks_that_are_not_full_many_features_and_shared_heads() {
    let Some(gpu) = gpu() else { return };
    for case in [
        Case { positions: [66, 131], features: 17, batch: 1, ..PLAIN },
        Case { positions: [66, 70], hides: Hides::Later, batch: 1, heads: [1, 1], ..PLAIN },
        Case { positions: [131, 5], hides: Hides::Later, batch: 1, heads: [1, 1], ..PLAIN },
        Case { heads: [6, 2], turned: true, ..PLAIN },
        Case { heads: [4, 1], hides: Hides::Some, turned: true, features: 33, ..PLAIN },
        Case { features: 200, batch: 1, heads: [1, 1], ..PLAIN },
        Case { features: 256, batch: 1, heads: [1, 1], dtype: DType::F64, ..PLAIN },
        Case { features: 1, positions: [1, 1], ..PLAIN },
        Case { features: 96, positions: [3, 34], dtype: DType::BF16, ..PLAIN },
        Case { positions: [66, 131], features: 17, batch: 1, dtype: DType::F16, ..PLAIN },
        Case {
            positions: [131, 66],
            hides: Hides::Later,
            features: 24,
            dtype: DType::BF16,
            ..CORES
        },
        Case { heads: [4, 2], hides: Hides::Some, turned: true, dtype: DType::F16, ..CORES },
        Case { features: 256, positions: [3, 65], dtype: DType::BF16, ..CORES },
        Case { features: 128, positions: [65, 3], dtype: DType::F16, ..CORES },
        Case { positions: [3, 0], ..PLAIN },
        Case { positions: [0, 3], ..PLAIN },
        Case { batch: 0, ..PLAIN },
    ] {
        case.check(&gpu);
    }
}

#[test]
fn nan_and_infinity_stay_in_their_rows() {
    let Some(gpu) = gpu() else { return };
    let case = Case { batch: 1, heads: [1, 1], positions: [3, 2], features: 1, ..PLAIN };
    let all = |x: &[f64]| gpu.put(DType::F32, x);
    let (q, k, v) = (all(&[f64::NAN, 1.0, f64::INFINITY]), all(&[1.0, 2.0]), all(&[4.0, 4.0]));
    let out = all(&[0.0; 3]);
    let heads = |of: &Array| Heads { address: of.address(), strides: [0, 0, 1, 1] };
    let a = Attention {
        dtype: case.dtype,
        batch: 1,
        heads: 1,
        kv_heads: 1,
        queries: 3,
        keys: 2,
        features: 1,
        q: heads(&q),
        k: heads(&k),
        v: heads(&v),
        mask: None,
        out: heads(&out),
        logarithms: None,
        causal: false,
        scale: 1.0,
    };
    // SAFETY: the tensors are there until the result is read.
    unsafe { attention(&gpu.stream, &a) }.unwrap();
    assert_close(&gpu.get(&out), &[f64::NAN, 4.0, f64::NAN], 1e-6, "NaN");
    assert_eq!(a.way(gpu.stream.device(), true), Way::of(DType::F32, 1));
    let halves = Attention { dtype: DType::BF16, ..a };
    if gpu.stream.device().properties().capability >= 80 {
        assert_eq!(halves.way(gpu.stream.device(), true), Way::Cores);
    }
    let none = Gradients { out: a.out, q: a.q, k: a.k, v: a.v };
    // SAFETY: it is refused.
    let refused = |a: &Attention, workspace: Workspace| unsafe {
        gradients(&gpu.stream, a, &none, workspace).unwrap_err()
    };
    let e = refused(&a, Workspace::default());
    assert_eq!(e, AttentionError::Workspace { given: 0, wanted: 12 });
    let some = Workspace { address: out.address(), bytes: 12 };
    assert_eq!(refused(&a, some), AttentionError::Logarithms);
    let wide = Attention { features: 257, ..a };
    assert!(matches!(refused(&wide, some), AttentionError::Sizes { features: 257, .. }));
    let apart = Attention { kv_heads: 2, heads: 3, ..a };
    assert!(matches!(refused(&apart, some), AttentionError::Sizes { .. }));
    let mask = Some(Mask { address: 0, strides: [0; 4], dtype: DType::I32 });
    assert!(matches!(refused(&Attention { mask, ..a }, some), AttentionError::Mask { .. }));
}

#[test]
fn threads_have_registers_for_all_that_they_sum() {
    let none = Heads { address: 0, strides: [0; 4] };
    for (dtype, features) in
        [(DType::F32, 64), (DType::BF16, 128), (DType::BF16, 256), (DType::F64, 256)]
    {
        let a = Attention {
            dtype,
            batch: 1,
            heads: 1,
            kv_heads: 1,
            queries: 1,
            keys: 1,
            features,
            q: none,
            k: none,
            v: none,
            mask: None,
            out: none,
            logarithms: None,
            causal: false,
            scale: 1.0,
        };
        for way in [Way::Cores, Way::of(dtype, features)] {
            if way == Way::Cores && dtype.size() != 2 {
                continue;
            }
            let what = format!("{dtype} {features} {way:?}");
            assert_no_spills(&a.text(way).unwrap(), &what);
        }
    }
}
