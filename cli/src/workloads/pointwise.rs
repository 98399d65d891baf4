//! W1 to W3: single operators, a long chain on little data, pointwise expressions.

use super::data::uniform;
use super::program::function;
use super::workload::{Agreement, POINTWISE, Workload};
use straightline::{Result, Tensor};

/// 50 times `x = x * y; x = x + 1`.
fn chain((x, y): &(Tensor, Tensor)) -> Result<Tensor> {
    let mut x = x.clone();
    for _ in 0..50 {
        x = x.mul(y)?;
        x = x.add(1)?;
    }
    Ok(x)
}

/// `gelu(x + b) * sigmoid(x) + tanh(b)`.
fn expression((x, b): &(Tensor, Tensor)) -> Result<Tensor> {
    Ok((x + b).gelu()? * x.sigmoid()? + b.tanh()?)
}

pub(super) fn workloads() -> Vec<Workload> {
    let mut suite = vec![
        Workload::new("w1.add", POINTWISE, |_| {
            let inputs = (uniform("w1.a", &[1], 1.0, 0.0)?, uniform("w1.b", &[1], 1.0, 0.0)?);
            function(inputs, |(a, b): &(Tensor, Tensor)| a.add(b))
        }),
        Workload::new("w1.add_grad", POINTWISE, |_| {
            let wanting = |name| uniform(name, &[1], 1.0, 0.0)?.requires_grad_(true);
            function((wanting("w1.a")?, wanting("w1.b")?), |(a, b): &(Tensor, Tensor)| a.add(b))
        }),
        Workload::new("w1.transpose", POINTWISE, |_| {
            let a = uniform("w1.a", &[4, 8], 1.0, 0.0)?;
            function(a, |a: &Tensor| a.transpose(0, 1))
        }),
        Workload::new("w1.empty", Agreement::ShapeOnly, |_| {
            function((), |(): &()| Tensor::empty([16]))
        }),
    ];
    for n in [16, 1024] {
        suite.push(Workload::new(format!("w2.chain100_{n}"), POINTWISE, move |_| {
            let (x, y) = (uniform("w2.x", &[n], 1.0, 0.0)?, uniform("w2.y", &[n], 1.0, 0.0)?);
            function((x, y), chain)
        }));
    }
    for n in [1024, 16_384, 262_144, 4_194_304] {
        suite.push(Workload::new(format!("w3.pointwise_{n}"), POINTWISE, move |_| {
            let x = uniform(&format!("w3.{n}.x"), &[n], 3.0, 0.0)?;
            let b = uniform(&format!("w3.{n}.b"), &[n], 1.0, 0.0)?;
            function((x, b), expression)
        }));
    }
    suite.push(Workload::new("w3.bias_gelu_512x768", POINTWISE, |_| {
        let x = uniform("w3.bias.x", &[512, 768], 3.0, 0.0)?;
        let b = uniform("w3.bias.b", &[768], 1.0, 0.0)?;
        function((x, b), |(x, b): &(Tensor, Tensor)| x.add(b)?.gelu())
    }));
    suite
}
