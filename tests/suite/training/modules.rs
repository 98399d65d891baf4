//! Modules: names, modes, state dicts, and the numbers that layers begin with.

use crate::support::alone;
use straightline::nn::{
    BatchNorm1d, Buffer, Conv2d, Dropout, Embedding, Gru, Layer, Linear, Lstm, Module,
    MultiheadAttention, Parameter, Relu, Sequential, Tanh, TransformerEncoderLayer,
    TransformerOptions, init,
};
use straightline::optim::{Optimizer, Sgd};
use straightline::{ErrorKind, Result, Tensor, assert_close, manual_seed, tensor};

fn names(module: &dyn Module) -> Vec<String> {
    module.named_parameters().into_iter().map(|(name, _)| name).collect()
}

#[derive(Clone, Module)]
struct Net<L> {
    #[module(rename = "in")]
    first: Linear,
    blocks: Vec<L>,
    norm: Option<BatchNorm1d>,
    none: Option<Linear>,
    scale: Parameter,
    mask: Buffer,
    dropout: Dropout,
    width: i64,
    #[module(skip)]
    log: std::cell::Cell<u32>,
    #[module(training)]
    training: bool,
}

fn net() -> Net<Sequential> {
    Net {
        first: Linear::new(2, 3).unwrap(),
        blocks: vec![Sequential::new().add(Linear::new(3, 3).unwrap()).add(Relu)],
        norm: Some(BatchNorm1d::new(3).unwrap()),
        none: None,
        scale: Parameter::new(&Tensor::ones([1]).unwrap()).unwrap(),
        mask: Buffer::unsaved(Tensor::ones([3]).unwrap()),
        dropout: Dropout::new(0.5).unwrap(),
        width: 3,
        log: 0.into(),
        training: true,
    }
}

#[test]
fn names_are_those_of_fields() {
    let net = net();
    let expected = [
        "in.weight",
        "in.bias",
        "blocks.0.0.weight",
        "blocks.0.0.bias",
        "norm.weight",
        "norm.bias",
        "scale",
    ];
    assert_eq!(names(&net), expected);
    let buffers: Vec<String> = net.named_buffers().into_iter().map(|(name, _)| name).collect();
    let expected = ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "mask"];
    assert_eq!(buffers, expected);
    assert!(!net.state_dict().unwrap().contains_key("mask"));
    assert_eq!((net.width, net.log.get()), (3, 0));
}

#[test]
fn a_clone_shares_tensors_and_has_its_own_mode() {
    let net = net();
    let mut judge = net.clone();
    judge.eval();
    assert!(net.training && !judge.training);
    assert!(net.scale.is_same(&judge.scale));
    let x = Tensor::ones([4]).unwrap();
    assert_eq!(judge.dropout.forward(&x).unwrap().to_vec::<f32>().unwrap(), [1.0; 4]);
}

#[test]
fn what_does_not_fit_is_reported_at_once_and_changes_nothing() {
    let net = net();
    let mut dict = net.state_dict().unwrap();
    for t in dict.values_mut() {
        *t = t.mul(2).unwrap();
    }
    dict.remove("scale");
    dict.remove("in.bias");
    dict.insert("extra".into(), Tensor::ones([1]).unwrap());
    dict.insert("in.weight".into(), Tensor::ones([4, 4]).unwrap());
    let before = net.blocks[0].parameters()[0].to_vec::<f32>().unwrap();
    let error = net.load_state_dict(&dict, true).unwrap_err();
    let text = error.to_string();
    let expected = "Error(s) in loading state_dict for Net:\n\t\
        Missing key(s) in state_dict: \"in.bias\", \"scale\". \n\t\
        Unexpected key(s) in state_dict: \"extra\". \n\t\
        size mismatch for in.weight: copying a param with shape torch.Size([4, 4]) from checkpoint, \
        the shape in current model is torch.Size([3, 2]).";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(error.python_class(), "RuntimeError");
    assert!(matches!(error.kind(), ErrorKind::StateDict(what) if what.shapes.len() == 1));
    // sizes have to fit in any case
    assert!(net.load_state_dict(&dict, false).is_err());
    assert_eq!(net.blocks[0].parameters()[0].to_vec::<f32>().unwrap(), before);

    dict.remove("in.weight");
    let report = net.load_state_dict(&dict, false).unwrap();
    assert_eq!(report.missing, ["in.weight", "in.bias", "scale"]);
    assert_eq!(report.unexpected, ["extra"]);
    let after = net.blocks[0].parameters()[0].to_vec::<f32>().unwrap();
    assert_eq!(after, before.iter().map(|v| v * 2.0).collect::<Vec<_>>());
}

#[test]
fn tied_weights_are_one_parameter_with_two_names() {
    #[derive(Module)]
    struct Tied {
        words: Embedding,
        head: Linear,
    }
    let words = Embedding::new(5, 3).unwrap();
    let mut head = Linear::without_bias(3, 5).unwrap();
    head.weight = words.weight.clone();
    let mut tied = Tied { words, head };
    assert_eq!(names(&tied), ["words.weight"]);
    assert_eq!(tied.state_dict().unwrap().len(), 2);
    tied.set_dtype(straightline::DType::F64).unwrap();
    assert!(tied.words.weight.is_same(&tied.head.weight));
    assert!(tied.words.weight.requires_grad() && tied.words.weight.is_leaf());
}

#[test]
fn layers_begin_with_the_bounds_of_pytorch() {
    let within = |t: &Tensor, bound: f64| {
        let largest = t.abs().unwrap().max().unwrap().item::<f32>().unwrap();
        assert!(
            f64::from(largest) <= bound && f64::from(largest) > 0.5 * bound,
            "{largest} of {bound}"
        );
    };
    let conv = Conv2d::new(4, 8, 3).unwrap();
    within(&conv.weight, 1.0 / 6.0);
    within(conv.bias.as_ref().unwrap(), 1.0 / 6.0);
    for p in Lstm::new(4, 16).unwrap().parameters() {
        within(&p, 0.25);
    }
    let attention = MultiheadAttention::new(8, 2).unwrap();
    within(&attention.in_proj_weight, (6.0f64 / 32.0).sqrt());
    assert_eq!(attention.out_proj.bias.unwrap().to_vec::<f32>().unwrap(), [0.0; 8]);
    let q = init::orthogonal_(&Tensor::empty([5, 3]).unwrap(), 1.0).unwrap();
    assert_close(&q.t().unwrap().matmul(&q).unwrap(), &Tensor::eye(3).unwrap()).unwrap();
}

#[test]
fn attention_with_weights_is_attention() -> Result<()> {
    let attention = MultiheadAttention::new(8, 2)?;
    let x = Tensor::randn([5, 3, 8])?;
    let padding = tensor([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [0, 0, 0, 1, 1]])?;
    let padding = padding.to_dtype(straightline::DType::Bool)?;
    let mask = straightline::nn::AttentionMask { padding: Some(&padding), positions: None };
    let plain = attention.forward_masked(&x, &x, &x, mask)?;
    let (with, weights) = attention.forward_with(&x, &x.copied()?, &x, mask)?;
    assert_close(&plain, &with)?;
    assert_eq!(weights.sizes(), [3, 5, 5]);
    assert_eq!(weights.i((2, 0, 3..))?.to_vec::<f32>()?, [0.0, 0.0]);
    Ok(())
}

#[test]
fn layers_that_hold_layers_compute() -> Result<()> {
    let options = TransformerOptions::default().hidden(16).dropout(0.0).batch_first(true);
    let layer = TransformerEncoderLayer::new_with(8, 2, options)?;
    let expected = [
        "self_attn.in_proj_weight",
        "self_attn.in_proj_bias",
        "self_attn.out_proj.weight",
        "self_attn.out_proj.bias",
        "linear1.weight",
        "linear1.bias",
        "linear2.weight",
        "linear2.bias",
        "norm1.weight",
        "norm1.bias",
        "norm2.weight",
        "norm2.bias",
    ];
    assert_eq!(names(&layer), expected);
    assert_eq!(layer.forward(&Tensor::randn([2, 5, 8])?)?.sizes(), [2, 5, 8]);
    let (lstm, gru) = (Lstm::new(4, 8)?, Gru::new(4, 8)?);
    let x = Tensor::randn([5, 4])?;
    assert_eq!(lstm.forward(&x, None)?.0.sizes(), [5, 8]);
    assert_eq!(gru.forward(&x, None)?.1.sizes(), [1, 8]);
    Ok(())
}

#[test]
fn xor_is_learned() {
    alone("training::modules::xor_is_learned", || xor().unwrap());
}

fn xor() -> Result<()> {
    manual_seed(0);
    let net = Sequential::new().add(Linear::new(2, 8)?).add(Tanh).add(Linear::new(8, 1)?);
    let optimizer = Sgd::new(net.parameters(), 0.2)?;
    let x = tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])?;
    let y = tensor([[0.0], [1.0], [1.0], [0.0]])?;
    for _ in 0..1000 {
        optimizer.zero_grad()?;
        net.forward(&x)?.mse_loss(&y)?.backward()?;
        optimizer.step()?;
    }
    assert_close(&net.forward(&x)?.round()?.abs()?, &y)?;
    net.zero_grad()?;
    assert!(net.parameters().iter().all(|p| p.grad().is_none()));
    Ok(())
}
