//! The least time that a workload can take on a machine: the greater of what its bytes take at the
//! bandwidth of the smallest cache that holds them, and of what its arithmetic takes.
//!
//! Bytes are those of inputs, parameters and outputs, once. Arithmetic is counted in slots, one lane
//! of a fused multiply-add: an addition, product or comparison is one; `exp`, `tanh` and `erf` are
//! what a good polynomial takes; a product of matrices has as many as it has multiplications. The
//! bounds of pointwise formulas are good to a factor of 1.5 or so, the others are exact. Direct
//! multiplications are counted of a convolution, half the pairs of causal attention. W1 has no
//! bound, since its cost is that of a call, nor have products of `bfloat16`, whose peak is not
//! measured.

use super::measured::Machine;

const EXP: f64 = 10.0;
const TANH: f64 = 14.0;
const ERF: f64 = 16.0;
/// Also a square root.
const DIVISION: f64 = 4.0;
const GELU: f64 = ERF + 4.0;
const SIGMOID: f64 = EXP + 1.0 + DIVISION;
/// Of an element of a row: the maximum, a subtraction, `exp`, the sum, a product.
const SOFTMAX: f64 = EXP + 4.0;
/// Of an element of a row: two for the mean and variance each, two to apply them.
const NORM: f64 = 6.0;

/// What has to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Work {
    bytes: f64,
    slots: f64,
    /// Operations that wait for each other, of four cycles each.
    chain: f64,
}

/// So many elements of four bytes, and slots.
fn work(elements: f64, slots: f64) -> Option<Work> {
    Some(Work { bytes: 4.0 * elements, slots, chain: 0.0 })
}

/// Numbers separated by `x`.
fn sizes<const N: usize>(text: &str) -> Option<[f64; N]> {
    let each: Option<Vec<f64>> = text.split('x').map(|n| n.parse().ok()).collect();
    each?.try_into().ok()
}

/// Parameters and slots of a token of the GPT of W6.
fn gpt(tokens: f64) -> (f64, f64) {
    let linear = 64.0 * 192.0 + 64.0 * 64.0 + 2.0 * 64.0 * 256.0;
    let parameters = 616.0 * 64.0 + 2.0 * (linear + 192.0 + 64.0 + 256.0 + 64.0 + 256.0) + 128.0;
    let attention = 2.0 * 16.0 * 64.0 + 2.0 * 16.0 * SOFTMAX;
    let layer = linear + attention + 256.0 * GELU + 2.0 * 64.0 * NORM;
    (parameters, tokens * (2.0 * layer + 64.0 * NORM + 64.0 * 600.0))
}

fn work_of(name: &str) -> Option<Work> {
    let (group, rest) = name.split_once('.')?;
    let (kind, rest) = rest.split_once('_').unwrap_or((rest, ""));
    let plane = 512.0 * 768.0;
    match (group, kind) {
        ("w2", _) => {
            let n: f64 = rest.parse().ok()?;
            Some(Work { bytes: 12.0 * n, slots: 100.0 * n, chain: 100.0 })
        }
        ("w3", "pointwise") => {
            let n: f64 = rest.parse().ok()?;
            work(3.0 * n, (GELU + SIGMOID + TANH + 3.0) * n)
        }
        ("w3", _) => work(2.0 * plane, (GELU + 1.0) * plane),
        ("w4", "softmax") => {
            let [rows, width] = sizes(rest)?;
            work(2.0 * rows * width, SOFTMAX * rows * width)
        }
        ("w4", "layernorm") => work(2.0 * plane, NORM * plane),
        ("w4", "rmsnorm") => work(2.0 * plane, 3.0 * plane),
        ("w4", "sum0" | "sum1") => work(4096.0 * 4096.0, 4096.0 * 4096.0),
        ("w4", "logsoftmax") => work(256e3, (EXP + 3.0) * 256e3),
        ("w5", _) => {
            let [batch, h] = sizes(rest)?;
            let slots = 3.0 * batch * h * h + batch * h * (GELU + NORM + 2.0);
            work(3.0 * h * h + 5.0 * h + 2.0 * batch * h, slots)
        }
        ("w6", _) => {
            let tokens = 16.0 * rest.strip_prefix('b')?.parse::<f64>().ok()?;
            let (parameters, slots) = gpt(tokens);
            work(parameters + tokens * 600.0, slots)
        }
        ("w7", _) => {
            let linear = 4.0 * 768.0 * 768.0 + 2.0 * 768.0 * 3072.0;
            let attention = 2.0 * 128.0 * 768.0 + 12.0 * 128.0 * SOFTMAX;
            let token = linear + attention + 3072.0 * GELU + 2.0 * 768.0 * NORM;
            work(linear + 2.0 * 128.0 * 768.0, 128.0 * token)
        }
        ("w8", _) => {
            let tokens: f64 = rest.trim_end_matches("_causal").parse().ok()?;
            let pairs = if rest.ends_with("_causal") {
                tokens * (tokens + 1.0) / 2.0
            } else {
                tokens * tokens
            };
            work(4.0 * 12.0 * tokens * 64.0, 12.0 * pairs * (2.0 * 64.0 + SOFTMAX))
        }
        ("w9", "resnet18") => work(11.69e6, 1.814e9),
        ("w9", _) => {
            let plane = 64.0 * 56.0 * 56.0;
            let after = if kind == "conv3x3" { 0.0 } else { 2.0 * plane };
            work(2.0 * plane + 64.0 * 64.0 * 9.0, 64.0 * 9.0 * plane + after)
        }
        ("w10", _) => {
            let [m, k, n] = sizes(rest)?;
            work(m * k + k * n + m * n, m * k * n)
        }
        ("w11", "train") => {
            if let Some(rest) = rest.strip_prefix("mlp_") {
                // three products forward, three for the weights' gradients, two for the inputs';
                // weights are read and written, and gradients too
                let [batch, h] = sizes(rest)?;
                let slots =
                    8.0 * batch * h * h + 3.0 * h * h + batch * h * (2.0 * GELU + 3.0 * NORM);
                return work(12.0 * h * h, slots);
            }
            let (parameters, slots) = gpt(128.0);
            work(3.0 * parameters + 2.0 * 128.0 * 600.0, 3.0 * slots)
        }
        ("w12", _) => {
            let (batch, length) = rest.split_once('_')?;
            let length: f64 = length.strip_prefix('l')?.parse().ok()?;
            let tokens = batch.strip_prefix('b')?.parse::<f64>().ok()? * length;
            let linear = 6.0 * (4.0 * 384.0 * 384.0 + 2.0 * 384.0 * 1536.0);
            let attention = 2.0 * length * 384.0 + 12.0 * length * SOFTMAX;
            let layer = attention + 1536.0 * GELU + 2.0 * 384.0 * NORM;
            work(linear + tokens * 384.0, tokens * (linear + 6.0 * layer))
        }
        _ => None,
    }
}

/// Microseconds; `None` where there is no bound or the machine's limits are not known.
pub(super) fn roofline(workload: &str, machine: &Machine) -> Option<f64> {
    let Work { bytes, slots, chain } = work_of(workload)?;
    let (gflops, gbs) = (machine.gflops?, machine.gbs?);
    let [l1, l2, l3] = machine.caches.map(|c| c as f64);
    let threads = machine.threads as f64;
    let rate = match bytes {
        b if b <= l1 * threads => gbs.l1,
        b if b <= l2 * threads => gbs.l2,
        b if b <= l3 => gbs.l3,
        _ => gbs.dram,
    };
    // of vectors of these lanes two multiply-adds begin in a cycle
    let lanes = match machine.isa.as_str() {
        "avx512" => 16.0,
        "avx2" => 8.0,
        _ => 4.0,
    };
    let gigahertz = gflops / threads / (2.0 * 2.0 * lanes);
    let times = [bytes / rate, 2.0 * slots / gflops, chain * 4.0 / gigahertz];
    Some(times.into_iter().fold(0.0, f64::max) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measured::Bandwidth;

    fn machine() -> Machine {
        Machine {
            isa: "avx512".to_owned(),
            threads: 1,
            date: String::new(),
            cpu: String::new(),
            cpus: 1,
            load: 0.0,
            caches: [48 << 10, 2 << 20, 32 << 20],
            rounds: 1,
            quick: false,
            gflops: Some(192.0),
            gbs: Some(Bandwidth { l1: 200.0, l2: 100.0, l3: 20.0, dram: 10.0 }),
        }
    }

    #[test]
    fn every_workload_of_the_suite_but_w1_and_bf16_has_a_bound() {
        for workload in crate::workloads::all() {
            let name = &workload.name;
            let none = name.starts_with("w1.") || name.ends_with("_bf16");
            assert_eq!(roofline(name, &machine()).is_none(), none, "{name}");
        }
    }

    #[test]
    fn the_tightest_bound_counts() {
        let us = |name| roofline(name, &machine()).unwrap();
        // 2 * 1024^3 operations
        assert!((us("w10.mm_1024x1024x1024") - 2.0 * 1024f64.powi(3) / 192e3).abs() < 1e-6);
        // 64 MiB from memory
        assert!((us("w4.sum1_4096") - 4.0 * 4096.0 * 4096.0 / 10e3).abs() < 1e-6);
        // 400 cycles at 3 GHz
        assert!((us("w2.chain100_16") - 0.4 / 3.0).abs() < 1e-6);
        let unknown = Machine { gflops: None, ..machine() };
        assert_eq!(roofline("w4.sum1_4096", &unknown), None);
    }
}
