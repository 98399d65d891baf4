//! What layers begin with, and what they compute, as PyTorch has it (`tests/data/beginnings/init.py`).

use crate::support::alone;
use serde_json::Value;
use straightline::nn::init::{self, Fan, Nonlinearity};
use straightline::nn::{
    AttentionMask, BatchNorm1d, Bilinear, Conv2d, ConvTranspose2d, Embedding, Gru, Layer, Linear,
    Lstm, Module, MultiheadAttention, RnnOptions, TransformerEncoderLayer, TransformerOptions,
};
use straightline::{ConvOptions, DType, Result, Tensor, manual_seed, tensor};

fn recorded() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/beginnings/init.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The first numbers, to 2^-24 (PyTorch fuses multiplication and addition where it is
/// built for it), or nearly so where logarithms and cosines were computed; and the sum of all.
fn compare(name: &str, t: &Tensor, expected: &Value, exact: bool) {
    let expected: Vec<f64> =
        expected.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    let (sum, first) = expected.split_last().unwrap();
    let found = t.to_dtype(DType::F64).unwrap().flatten().unwrap().to_vec::<f64>().unwrap();
    let close = |a: f64, b: f64| {
        if exact { (a - b).abs() <= 6e-8 } else { (a - b).abs() < 1e-5 }
    };
    for (found, expected) in found.iter().zip(first) {
        assert!(close(*found, *expected), "{name}: {found}, not {expected}");
    }
    let total = found.iter().sum::<f64>();
    assert!((total - sum).abs() < 1e-5, "{name}: a sum of {total}, not {sum}");
}

fn check<M: Module>(name: &str, exact: bool, make: impl FnOnce() -> Result<M>) {
    let recorded = recorded();
    let expected = recorded[name].as_object().unwrap();
    manual_seed(5);
    let dict = make().unwrap().state_dict().unwrap();
    assert_eq!(dict.keys().collect::<Vec<_>>().len(), expected.len(), "{name}");
    for (key, t) in &dict {
        compare(&format!("{name} {key}"), t, &expected[key], exact);
    }
}

#[test]
fn layers_begin_as_in_pytorch() {
    alone("training::beginnings::layers_begin_as_in_pytorch", || {
        check("linear", true, || Linear::new(3, 4));
        let groups = ConvOptions::default().groups(2);
        check("conv2d", true, || Conv2d::new_with(2, 4, 3, groups, true));
        check("convT2d", true, || ConvTranspose2d::new(2, 3, 2));
        check("embedding", false, || Embedding::with_padding(5, 3, 1));
        let stacked = RnnOptions::default().layers(2).bidirectional(true);
        check("lstm", true, || Lstm::new_with(3, 4, stacked));
        check("gru", true, || Gru::new(3, 4));
        check("mha", true, || MultiheadAttention::new(8, 2));
        let small = TransformerOptions::default().hidden(16);
        check("encoder", true, || TransformerEncoderLayer::new_with(8, 2, small));
        check("bilinear", true, || Bilinear::new(2, 3, 4));
    });
}

#[test]
fn fillings_are_those_of_pytorch() {
    alone("training::beginnings::fillings_are_those_of_pytorch", || {
        let recorded = recorded();
        let fill = |name: &str, exact: bool, f: &dyn Fn(&Tensor) -> Result<Tensor>| {
            manual_seed(6);
            let t = Tensor::empty([4, 5]).unwrap();
            f(&t).unwrap();
            compare(name, &t, &recorded["init"][name], exact);
        };
        fill("xavier_uniform", true, &|t| init::xavier_uniform_(t, 1.5));
        fill("xavier_normal", false, &|t| init::xavier_normal_(t, 1.0));
        fill("kaiming_uniform", true, &|t| init::kaiming_uniform_(t, Fan::In, Nonlinearity::Relu));
        fill("kaiming_normal", false, &|t| init::kaiming_normal_(t, Fan::Out, Nonlinearity::Relu));
        fill("orthogonal", false, &|t| init::orthogonal_(t, 1.0));
        fill("trunc_normal", false, &|t| init::trunc_normal_(t, 0.1, 2.0, -1.0, 1.5));
        fill("sparse", false, &|t| init::sparse_(t, 0.5, 0.1));
    });
}

/// What a layer computes, where the recorded numbers are all that there are.
fn close(name: &str, found: &[Tensor]) -> Result<()> {
    let recorded = recorded();
    let expected = recorded[name].as_array().unwrap().iter().map(|v| v.as_f64().unwrap());
    let mut values = Vec::new();
    for t in found {
        values.extend(t.detach()?.flatten()?.to_vec::<f32>()?);
    }
    for (found, expected) in values.iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() < 2e-6, "{name}: {found}, not {expected}");
    }
    Ok(())
}

#[test]
fn layers_compute_what_pytorch_computes() {
    alone("training::beginnings::layers_compute_what_pytorch_computes", || computed().unwrap());
}

fn computed() -> Result<()> {
    manual_seed(5);
    let options = TransformerOptions::default().hidden(16).dropout(0.0);
    let encoder = TransformerEncoderLayer::new_with(8, 2, options)?;
    close("encoder_out", &[encoder.forward(&Tensor::randn([3, 2, 8])?)?])?;

    manual_seed(5);
    let attention = MultiheadAttention::new(8, 2)?.batch_first(true);
    let (x, k) = (Tensor::randn([2, 3, 8])?, Tensor::randn([2, 4, 8])?);
    let padding = tensor([[0, 0, 0, 1], [0, 0, 1, 1]])?.to_dtype(DType::Bool)?;
    let mask = AttentionMask { padding: Some(&padding), positions: None };
    let (y, weights) = attention.forward_with(&x, &k, &k, mask)?;
    close("mha_out", &[y.flatten()?.narrow(0, 0, 6)?, weights])?;

    manual_seed(5);
    let norm = BatchNorm1d::new(3)?;
    norm.forward(&Tensor::randn([4, 3])?)?;
    close("bn", &[norm.running_mean().unwrap().clone(), norm.running_var().unwrap().clone()])?;

    manual_seed(5);
    let stacked = RnnOptions::default().layers(2).bidirectional(true);
    let lstm = Lstm::new_with(3, 4, stacked)?;
    close("lstm_out", &[lstm.forward(&Tensor::randn([5, 2, 3])?, None)?.0])?;

    manual_seed(5);
    let bilinear = Bilinear::new(2, 3, 4)?;
    let (a, b) = (Tensor::randn([5, 2])?, Tensor::randn([5, 3])?);
    close("bilinear_out", &[bilinear.forward(&a, &b)?])
}
