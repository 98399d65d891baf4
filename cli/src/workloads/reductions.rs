//! W4: sums, softmax and what is normalised by a row.

use super::data::{ids, uniform};
use super::program::function;
use super::workload::{SUMS, Workload};
use straightline::{Result, Tensor};

/// The mean over rows of `-log_softmax(x)[t]`.
fn negative_log_likelihood((x, t): &(Tensor, Tensor)) -> Result<Tensor> {
    let chosen = x.log_softmax(-1)?.gather(1, &t.unsqueeze(1)?)?;
    chosen.mean()?.neg()
}

pub(super) fn workloads() -> Vec<Workload> {
    let softmax = |name: &'static str, data: &'static str, rows: i64, width: i64| {
        Workload::new(name, SUMS, move |_| {
            let x = uniform(data, &[rows, width], 5.0, 0.0)?;
            function(x, |x: &Tensor| x.softmax(-1))
        })
    };
    let sum = |name: &'static str, dim: i64| {
        Workload::new(name, SUMS, move |_| {
            let x = uniform("w4.sum.x", &[4096, 4096], 1.0, 0.0)?;
            function(x, move |x: &Tensor| x.sum_dim([dim]))
        })
    };
    vec![
        softmax("w4.softmax_1024x1024", "w4.sm1.x", 1024, 1024),
        softmax("w4.softmax_4096x64", "w4.sm2.x", 4096, 64),
        Workload::new("w4.layernorm_512x768", SUMS, |_| {
            let x = uniform("w4.ln.x", &[512, 768], 2.0, 0.0)?;
            let g = uniform("w4.ln.g", &[768], 0.1, 1.0)?;
            let b = uniform("w4.ln.b", &[768], 0.1, 0.0)?;
            function(x, move |x: &Tensor| x.layer_norm_with([768], Some(&g), Some(&b), 1e-5))
        }),
        sum("w4.sum0_4096", 0),
        sum("w4.sum1_4096", 1),
        Workload::new("w4.logsoftmax_nll_256x1000", SUMS, |_| {
            let x = uniform("w4.nll.x", &[256, 1000], 5.0, 0.0)?;
            let t = ids("w4.nll.t", &[256], 0, 1000)?;
            function((x, t), negative_log_likelihood)
        }),
        Workload::new("w4.rmsnorm_512x768", SUMS, |_| {
            let x = uniform("w4.rms.x", &[512, 768], 2.0, 0.0)?;
            let g = uniform("w4.rms.g", &[768], 0.1, 1.0)?;
            function(x, move |x: &Tensor| x.rms_norm_with([768], Some(&g), 1e-5))
        }),
    ]
}
