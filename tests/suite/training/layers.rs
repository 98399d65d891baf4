//! What layers compute, and their gradients, beside PyTorch's numbers.
//!
//! Each tensor is compared by one number: the sum of its elements times cos(0), cos(1), ... The loss
//! is that of the result, inputs are sin(s), sin(s + 0.7), sin(s + 1.4), ... for a start `s`, and
//! layers begin as after `torch.manual_seed(5)`.

use crate::support::alone;
use straightline::nn::*;
use straightline::{
    ConvOptions, DType, InterpolateOptions, Reduction, Result, Tensor, manual_seed, tensor,
};

fn ramp_from(sizes: &[i64], start: f64) -> Tensor {
    let n = sizes.iter().product::<i64>();
    let numbers: Vec<f32> = (0..n).map(|i| (start + 0.7 * i as f64).sin() as f32).collect();
    Tensor::from_slice(&numbers, sizes).unwrap().requires_grad_(true).unwrap()
}

fn ramp(sizes: &[i64]) -> Tensor {
    ramp_from(sizes, 1.0)
}

fn cosines(like: &Tensor, dtype: DType) -> Tensor {
    let numbers: Vec<f64> = (0..like.numel()).map(|i| (i as f64).cos()).collect();
    Tensor::from_slice(&numbers, like.sizes()).unwrap().to_dtype(dtype).unwrap()
}

fn number(t: &Tensor) -> f64 {
    let t = t.detach().unwrap().to_dtype(DType::F64).unwrap();
    t.mul(cosines(&t, DType::F64)).unwrap().sum().unwrap().item().unwrap()
}

/// Results, gradients of inputs and of parameters.
#[track_caller]
fn check(
    name: &str,
    module: &dyn Module,
    inputs: &[&Tensor],
    forward: impl FnOnce() -> Result<Vec<Tensor>>,
    expected: &[f64],
) {
    let results = forward().unwrap();
    let mut found: Vec<f64> = results.iter().map(number).collect();
    let losses = results.iter().map(|y| y.mul(cosines(y, y.dtype())).unwrap().sum().unwrap());
    losses.reduce(|a, b| a.add(b).unwrap()).unwrap().backward().unwrap();
    found.extend(inputs.iter().map(|x| number(&x.grad().expect("a gradient of the input"))));
    let named = module.named_parameters();
    let grad = |p: &(String, Tensor)| number(&p.1.grad().expect("a gradient of a parameter"));
    found.extend(named.iter().map(grad));
    assert_eq!(found.len(), expected.len(), "{name}");
    for (i, (found_i, expected)) in found.iter().zip(expected).enumerate() {
        let close = (found_i - expected).abs() < 2e-5 * expected.abs().max(1.0);
        assert!(close, "{name}, number {i}: {found_i}, not {expected}\n{found:?}");
    }
}

#[track_caller]
fn layer(name: &str, layer: &dyn Layer, x: &[i64], expected: &[f64]) {
    let x = ramp(x);
    check(name, &[()], &[&x], || Ok(vec![layer.forward(&x)?]), &expected[..2]);
    x.set_grad(None).unwrap();
    for p in layer.parameters() {
        p.set_grad(None).unwrap();
    }
    // running statistics move, which training mode does not read
    let module = Wrapped(layer);
    check(name, &module, &[&x], || Ok(vec![layer.forward(&x)?]), expected);
}

struct Wrapped<'l>(&'l dyn Layer);

impl Module for Wrapped<'_> {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a, '_>) {
        visitor.child("", self.0);
    }

    fn visit_mut(&mut self, _: &mut VisitorMut<'_>) {}
}

fn made<M>(make: impl FnOnce() -> Result<M>) -> M {
    manual_seed(5);
    make().unwrap()
}

#[test]
fn cells() {
    alone("training::layers::cells", || {
        let (x, h, c) = (ramp(&[2, 3]), ramp_from(&[2, 4], 2.0), ramp_from(&[2, 4], 3.0));
        let lstm = made(|| LstmCell::new(3, 4));
        let forward = || lstm.forward(&x, Some((&h, &c))).map(|(h, c)| vec![h, c]);
        let expected = [
            0.460519, 1.403213, 0.341902, -0.339870, 2.803429, 1.604692, -0.789998, -0.142069,
            -0.142069,
        ];
        check("lstm", &lstm, &[&x, &h, &c], forward, &expected);
        let (x, h) = (ramp(&[2, 3]), ramp_from(&[2, 4], 2.0));
        let gru = made(|| GruCell::new(3, 4));
        let forward = || Ok(vec![gru.forward(&x, Some(&h))?]);
        let expected = [0.819641, 0.393324, 1.770545, 1.940623, -0.412810, -0.844743, -0.371130];
        check("gru", &gru, &[&x, &h], forward, &expected);
        let (x, h) = (ramp(&[2, 3]), ramp_from(&[2, 4], 2.0));
        let rnn = made(|| RnnCell::new(3, 4));
        let forward = || Ok(vec![rnn.forward(&x, Some(&h))?]);
        let expected = [-0.360148, -0.634298, -1.036218, 0.614344, -0.164610, 0.029826, 0.029826];
        check("rnn", &rnn, &[&x, &h], forward, &expected);
        // without a batch and biases
        let (x, h) = (ramp(&[3]), ramp_from(&[4], 2.0));
        let rnn = made(|| RnnCell::new_with(3, 4, false)).nonlinearity(RnnNonlinearity::Relu);
        let forward = || Ok(vec![rnn.forward(&x, Some(&h))?]);
        let expected = [-0.284460, -0.137873, 0.114442, 0.883012, -2.445914];
        check("rnn, relu", &rnn, &[&x, &h], forward, &expected);
        let x = ramp(&[5, 2, 3]);
        let rnn = made(|| Rnn::new(3, 4)).nonlinearity(RnnNonlinearity::Relu);
        let forward = || Ok(vec![rnn.forward(&x, None)?.0]);
        let expected = [-0.185214, -0.760731, 2.092312, 1.214562, 6.004785, 6.004785];
        check("rnn over a sequence, relu", &rnn, &[&x], forward, &expected);
        let e = lstm.forward(&ramp(&[2, 5]), None).unwrap_err().to_string();
        assert!(e.contains("input has inconsistent input_size: got 5 expected 3"), "{e}");
        let e = gru.forward(&ramp(&[2, 3]), Some(&ramp(&[4]))).unwrap_err().to_string();
        assert!(e.contains("GRUCell: Expected hidden to be 2D, got 1D instead"), "{e}");
    });
}

#[test]
fn convolutions_and_norms() {
    alone("training::layers::convolutions_and_norms", || {
        let stride = ConvOptions::default().stride((1, 2, 1));
        let conv = made(|| ConvTranspose3d::new_with(2, 3, 2, stride, true));
        let expected = [-0.113132, 0.092467, -0.581793, 1.502889];
        layer("conv transpose 3d", &conv, &[1, 2, 2, 3, 2], &expected);
        let conv = made(|| Conv3d::new(2, 3, 2));
        let expected = [0.207459, 4.705776, 12.372084, -0.288086];
        layer("conv 3d", &conv, &[1, 2, 2, 3, 4], &expected);
        let options = ConvOptions::default().stride(2).output_padding(1);
        let conv = made(|| ConvTranspose1d::new_with(2, 3, 2, options, true));
        let expected = [-0.179094, 0.415599, -0.229546, -0.515414];
        layer("conv transpose 1d", &conv, &[1, 2, 4], &expected);
        let norm = BatchNorm3d::new(2).unwrap();
        let expected = [0.722486, 27.292391, -2.991404, -0.036045];
        layer("batch norm 3d", &norm, &[2, 2, 2, 2, 3], &expected);
        let norm = InstanceNorm1d::new(3).unwrap();
        layer("instance norm 1d", &norm, &[2, 3, 5], &[-1.031183, 8.852997]);
        let options = InstanceNormOptions::default().affine(true).track_running_stats(true);
        let mut norm = InstanceNorm2d::new_with(3, options).unwrap();
        norm.forward(&ramp(&[2, 3, 2, 4])).unwrap();
        let state = norm.state_dict().unwrap();
        assert!((number(&state["running_mean"]) - 0.005239611573).abs() < 1e-6);
        assert!((number(&state["running_var"]) - 1.075579600033).abs() < 1e-6);
        norm.eval();
        let expected = [0.624303, 24.985549, -5.468069, 3.800618];
        layer("instance norm 2d, evaluation", &norm, &[2, 3, 2, 4], &expected);
        norm.zero_grad().unwrap();
        norm.train();
        let expected = [0.749912, 23.240717, -8.101904, 3.800618];
        layer("instance norm 2d", &norm, &[2, 3, 2, 4], &expected);
        let norm = InstanceNorm3d::new(2).unwrap();
        layer("instance norm 3d", &norm, &[2, 2, 2, 3], &[2.523243, 14.403634]);
        let norm = LocalResponseNorm::new_with(3, 0.5, 0.75, 2.0);
        layer("local response norm", &norm, &[2, 5, 3, 2], &[-0.583315, 16.437172]);
        let norm = LocalResponseNorm::new(2);
        layer("local response norm of two", &norm, &[1, 4, 6], &[1.604035, 12.286000]);
    });
}

#[test]
fn pools_and_pads() {
    let x = &[1, 2, 2, 4, 5];
    layer("max pool 3d", &MaxPool3d::new(2), x, &[1.419514, -0.359993]);
    layer("avg pool 3d", &AvgPool3d::new((1, 2, 2)), x, &[-0.174237, 0.558957]);
    let pool = AdaptiveAvgPool3d::new((1, 2, 3));
    layer("adaptive avg pool 3d", &pool, x, &[-0.001425, -0.394797]);
    let pool = AdaptiveMaxPool1d::new(3);
    layer("adaptive max pool 1d", &pool, &[1, 2, 7], &[0.310688, 2.039190]);
    let pool = AdaptiveMaxPool3d::new((1, 2, 3));
    layer("adaptive max pool 3d", &pool, x, &[-0.381362, 1.640139]);
    let x = &[1, 2, 3, 4];
    layer("zeros", &ZeroPad::new(1), x, &[-0.581991, -0.073756]);
    layer("constant", &ConstantPad::new((1, 2), 3.5), &[1, 2, 4], &[17.687022, 0.408879]);
    layer("reflection", &ReflectionPad::new((1, 2, 0, 1)), x, &[0.942867, 0.968725]);
    layer("replication", &ReplicationPad::new(1), &[1, 2, 2, 3, 2], &[-1.657460, -1.981692]);
    layer("circular", &CircularPad::new((2, 1)), &[1, 2, 4], &[-0.364324, 0.068284]);
}

#[test]
fn arrangements() {
    let options = InterpolateOptions::default().scale(2).mode("bilinear");
    layer("upsample", &Upsample::new(options), &[1, 2, 3, 4], &[0.979395, 0.424043]);
    layer("pixel shuffle", &PixelShuffle(2), &[1, 8, 2, 3], &[0.000950, -1.806793]);
    layer("pixel unshuffle", &PixelUnshuffle(2), &[1, 2, 4, 6], &[2.727693, -1.806793]);
    layer("channel shuffle", &ChannelShuffle(2), &[1, 6, 2, 2], &[2.541506, 0.616021]);
    let unfold = Unfold::new((2, 3), WindowOptions::default().padding(1).stride(2));
    layer("unfold", &unfold, &[1, 2, 4, 5], &[0.836377, -2.535067]);
    let fold = Fold::new((4, 5), 2, WindowOptions::default().stride((2, 1)));
    layer("fold", &fold, &[1, 12, 8], &[-4.532981, 18.661647]);
}

#[test]
fn activations() {
    let x = &[3, 4];
    layer("hardshrink", &Hardshrink, x, &[-1.231507, 4.428965]);
    layer("softshrink", &Softshrink, x, &[-0.625602, 4.428965]);
    layer("softmin", &Softmin(-1), x, &[-0.272674, -1.148947]);
    let threshold = Threshold { threshold: 0.2, value: -3.0 };
    layer("threshold", &threshold, x, &[-1.613514, 3.020494]);
    layer("glu", &Glu, x, &[1.310814, 0.725513]);
    layer("tanhshrink", &Tanhshrink, x, &[-0.297349, 2.210571]);
    layer("hardswish", &Hardswish, x, &[-0.727181, 3.442892]);
    layer("softsign", &Softsign, x, &[-0.897784, 2.512263]);
}

#[test]
fn bags_of_embeddings() {
    alone("training::layers::bags_of_embeddings", || {
        let numbers = tensor([1, 2, 4, 5, 4, 3]).unwrap();
        let offsets = tensor([0, 2, 2]).unwrap();
        let modes = [
            (BagMode::Sum, [3.780479, -0.003636]),
            (BagMode::Mean, [0.492946, -0.009196]),
            (BagMode::Max, [1.189569, -0.803752]),
        ];
        for (mode, expected) in modes {
            let options = EmbeddingBagOptions::default().mode(mode);
            let bags = made(|| EmbeddingBag::new_with(6, 3, options));
            let forward = || Ok(vec![bags.forward_with(&numbers, Some(&offsets), None)?]);
            check("bags", &bags, &[], forward, &expected);
        }
        let options = EmbeddingBagOptions::default().mode(BagMode::Sum);
        let options = options.include_last_offset(true).padding(4);
        let bags = made(|| EmbeddingBag::new_with(6, 3, options));
        let (weights, offsets) = (ramp(&[6]), tensor([0, 2, 6]).unwrap());
        let forward = || Ok(vec![bags.forward_with(&numbers, Some(&offsets), Some(&weights))?]);
        check("weights", &bags, &[&weights], forward, &[-1.661817, 0.816650, -1.178454]);
        let bags = made(|| EmbeddingBag::new(6, 3));
        let forward = || Ok(vec![bags.forward(&numbers.reshape([2, 3])?)?]);
        check("rows", &bags, &[], forward, &[-1.399472, 0.868684]);
        let e = bags.forward(&numbers).unwrap_err().to_string();
        assert!(e.contains("offsets has to be a 1D Tensor but got None"), "{e}");
        let e = bags.forward_with(&numbers, Some(&offsets), Some(&weights)).unwrap_err();
        assert!(e.to_string().contains("only supported for mode='sum'"), "{e}");
    });
}

#[test]
fn decoders() {
    alone("training::layers::decoders", || {
        let options = TransformerOptions::default().hidden(16).dropout(0.0);
        let (x, memory) = (ramp(&[3, 2, 8]), ramp_from(&[4, 2, 8], 2.0));
        let decoder = made(|| TransformerDecoderLayer::new_with(8, 2, options));
        let expected = [
            1.176269, 22.000076, 0.285873, -2.171601, 0.214467, 0.251626, 1.842158, -0.209186,
            -0.997677, -0.279636, 1.669264, -2.840504, -0.764622, -0.506460, 1.350682, 0.123304,
            1.431309, 0.239884, 1.826129, 0.533543, 1.747717,
        ];
        let forward = || Ok(vec![decoder.forward(&x, &memory)?]);
        check("decoder", &decoder, &[&x, &memory], forward, &expected);

        let first = options.norm_first(true).batch_first(true).activation(|x| x.gelu());
        let (x, memory) = (ramp(&[2, 3, 8]), ramp_from(&[2, 4, 8], 2.0));
        let decoder = made(|| TransformerDecoderLayer::new_with(8, 2, first));
        let later = Transformer::later_positions(3).unwrap();
        let padding = tensor([[false, false, false, true], [false, false, true, true]]).unwrap();
        let mask = DecoderMask {
            own: AttentionMask { positions: Some(&later), padding: None },
            memory: AttentionMask { positions: None, padding: Some(&padding) },
        };
        let expected = [
            0.581796, 24.586297, -0.342506, 0.608228, -0.191633, 0.373292, 1.214967, -1.923447,
            -0.974346, -1.302596, 1.235504, 1.138663, 0.372707, -0.020264, 1.747717, 0.051430,
            0.932494, 0.053806, -0.015205, 1.085024, 0.281769,
        ];
        let forward = || Ok(vec![decoder.forward_masked(&x, &memory, mask)?]);
        check("decoder with masks", &decoder, &[&x, &memory], forward, &expected);

        let (source, target) = (ramp(&[4, 2, 8]), ramp_from(&[3, 2, 8], 2.0));
        let model = made(|| Transformer::new_with(8, 2, 1, 2, options));
        let expected = [
            0.997027, 1.613883, 12.860841, -1.347101, -1.657377, 0.248957, -1.278914, 0.025404,
            -0.801410, -1.513642, -0.779219, 0.819829, -1.232655, -0.183318, -0.789717, -0.344893,
            -2.289153, -4.622424, 0.841220, -1.097368, 2.491737, -5.962435, -1.361477, 0.535390,
            1.019689, 14.871984, -0.444650, -1.873071, 1.332157, -1.845250, 0.780509, -3.146999,
            1.617414, -1.735079, 0.738100, 4.986925, 0.942949, 1.392180, 0.635380, 6.848359,
            0.034667, -1.458161, 1.252733, 0.725368, 2.307932, 0.429643, 1.322498, -0.923215,
            1.203004, -0.735485, 1.262943, -0.141035, 1.843127, 2.178305, 1.747717,
        ];
        let forward = || Ok(vec![model.forward(&source, &target)?]);
        check("transformer", &model, &[&source, &target], forward, &expected);
    });
}

#[test]
fn losses() {
    let close = |found: f64, expected: f64| {
        assert!((found - expected).abs() < 2e-5 * expected.abs().max(1.0), "{found}, {expected}");
    };
    let positive = |t: Tensor| t.detach().unwrap().gt(0).unwrap().to_dtype(DType::F32).unwrap();
    let x = ramp(&[3, 4]);
    let y = positive(ramp_from(&[3, 4], 4.0));
    let loss = MultilabelSoftMarginLoss::new().forward(&x, &y).unwrap();
    loss.backward().unwrap();
    close(loss.item::<f32>().unwrap().into(), 1.102356);
    close(number(&x.grad().unwrap()), -0.160632);
    let loss = MultilabelSoftMarginLoss::new_with(Reduction::Sum).forward(&x, &y).unwrap();
    close(loss.item::<f32>().unwrap().into(), 3.307067);

    let (x, y) = (ramp(&[3, 4]), ramp_from(&[3, 4], 3.0));
    let var = ramp_from(&[3, 4], 2.0).detach().unwrap().abs().unwrap();
    var.requires_grad_(true).unwrap();
    let loss = gaussian_nll_loss(&x, &y, &var, true, 0.1, Reduction::Mean).unwrap();
    loss.backward().unwrap();
    close(loss.item::<f32>().unwrap().into(), 3.376098);
    close(number(&x.grad().unwrap()), -1.930576);
    close(number(&var.grad().unwrap()), -10.217798);
    // a variance for each row
    let x = ramp(&[3, 4]);
    let var = ramp_from(&[3], 2.0).detach().unwrap().abs().unwrap();
    let loss = gaussian_nll_loss(&x, &y, &var, false, 1e-6, Reduction::Sum).unwrap();
    loss.backward().unwrap();
    close(loss.item::<f32>().unwrap().into(), 17.193026);
    close(number(&x.grad().unwrap()), -14.234071);
    let negative = var.neg().unwrap();
    let e = gaussian_nll_loss(&x, &y, &negative, false, 1e-6, Reduction::Sum).unwrap_err();
    assert!(e.to_string().contains("var has negative entry/entries"), "{e}");
}
