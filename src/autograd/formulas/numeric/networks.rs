//! First and second derivatives through the engine: of what is made of several operators, as layers
//! are, and of the commonest operators.

use super::Numbers;
use crate::autograd::{Gradcheck, gradcheck, gradgradcheck};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;

fn leaves(sizes: &[&[i64]]) -> Vec<Tensor> {
    let mut numbers = Numbers::new();
    sizes.iter().map(|s| numbers.tensor(s).requires_grad_(true).unwrap()).collect()
}

fn once(sizes: &[&[i64]], f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) {
    gradcheck(&f, &leaves(sizes), &Gradcheck::default()).unwrap();
}

fn twice(sizes: &[&[i64]], f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) {
    once(sizes, &f);
    gradgradcheck(&f, &leaves(sizes), &Gradcheck::default()).unwrap();
}

/// Two layers in two directions, with biases: weights of so many gates for two inputs, two units.
fn recurrent(gates: i64, states: usize) -> Vec<Vec<i64>> {
    let mut sizes = vec![vec![2, 1, 2]];
    sizes.extend(std::iter::repeat_n(vec![2, 1, 2], states));
    for _ in 0..2 {
        sizes.extend([vec![2 * gates, 2], vec![2 * gates, 2], vec![2 * gates], vec![2 * gates]]);
    }
    sizes
}

#[test]
fn recurrent_layers() {
    let sizes = |gates, states| recurrent(gates, states);
    let of = |sizes: &[Vec<i64>], f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>| {
        let sizes: Vec<&[i64]> = sizes.iter().map(Vec::as_slice).collect();
        once(&sizes, f);
    };
    of(&sizes(4, 2), &|x| {
        let (y, h, c) =
            aten::lstm_input(&x[0], &x[1..3], &x[3..], true, 1, 0.0, true, true, false)?;
        Ok(vec![y, h, c])
    });
    of(&sizes(3, 1), &|x| {
        let (y, h) = aten::gru_input(&x[0], &x[1], &x[2..], true, 1, 0.0, true, true, false)?;
        Ok(vec![y, h])
    });
    of(&sizes(1, 1), &|x| {
        let (y, h) = aten::rnn_tanh_input(&x[0], &x[1], &x[2..], true, 2, 0.0, true, false, false)?;
        Ok(vec![y, h])
    });
    twice(&[&[1, 2], &[1, 2], &[1, 2], &[8, 2], &[8, 2]], |x| {
        let (h, c) = aten::lstm_cell(&x[0], &x[1..3], &x[3], &x[4], None, None)?;
        Ok(vec![h, c])
    });
}

#[test]
fn classification() {
    let target = Tensor::from_vec([2i64, 0, 1], 3).unwrap();
    for smoothing in [0.0, 0.2] {
        twice(&[&[3, 4]], |x| {
            Ok(vec![aten::cross_entropy_loss(&x[0], &target, None, 1, -100, smoothing)?])
        });
    }
    twice(&[&[2, 3], &[2, 3]], |x| {
        let target = aten::softmax_int(&x[1], 1, None)?;
        Ok(vec![aten::cross_entropy_loss(&x[0], &target, None, 2, -100, 0.0)?])
    });
    twice(&[&[2, 3], &[2, 3]], |x| Ok(vec![aten::kl_div(&x[0], &x[1].exp()?, 1, false)?]));
    let sign = Tensor::from_vec([1i64, -1], 2).unwrap();
    once(&[&[2, 3], &[2, 3]], |x| {
        Ok(vec![aten::cosine_embedding_loss(&x[0], &x[1], &sign, 0.1, 1)?])
    });
    once(&[&[2, 3], &[2, 3], &[2, 3]], |x| {
        Ok(vec![aten::triplet_margin_loss(&x[0], &x[1], &x[2], 1.0, 2.0, 1e-6, false, 1)?])
    });
    let labels = Tensor::from_vec([1i64, 2], [1, 2]).unwrap();
    once(&[&[3, 1, 3]], |x| {
        let logs = aten::log_softmax_int(&x[0], 2, None)?;
        Ok(vec![aten::ctc_loss_int_list(&logs, &labels, &[3], &[2], 0, 1, false)?])
    });
}

#[test]
fn convolutions_twice() {
    twice(&[&[1, 2, 3, 3], &[2, 2, 2, 2], &[2]], |x| {
        let pad = &[1, 1];
        Ok(vec![aten::conv2d(&x[0], &x[1], Some(&x[2]), &[2, 1], pad, &[1, 1], 1)?])
    });
    twice(&[&[1, 2, 3], &[2, 1, 2], &[2]], |x| {
        let y = aten::conv_transpose1d(&x[0], &x[1], Some(&x[2]), &[2], &[1], &[1], 2, &[1])?;
        Ok(vec![y])
    });
}

#[test]
fn norms_twice() {
    twice(&[&[3, 2, 2], &[2], &[2]], |x| {
        let (w, b) = (Some(&x[1]), Some(&x[2]));
        Ok(vec![aten::batch_norm(&x[0], w, b, None, None, true, 0.1, 0.1, false)?])
    });
    twice(&[&[2, 3], &[3], &[3]], |x| {
        Ok(vec![aten::layer_norm(&x[0], &[3], Some(&x[1]), Some(&x[2]), 0.1, false)?])
    });
    twice(&[&[2, 4, 2], &[4], &[4]], |x| {
        Ok(vec![aten::group_norm(&x[0], 2, Some(&x[1]), Some(&x[2]), 0.1, false)?])
    });
    twice(&[&[2, 2, 3], &[2], &[2]], |x| {
        let (w, b) = (Some(&x[1]), Some(&x[2]));
        Ok(vec![aten::instance_norm(&x[0], w, b, None, None, true, 0.1, 0.1, false)?])
    });
    twice(&[&[2, 3], &[3]], |x| Ok(vec![aten::rms_norm(&x[0], &[3], Some(&x[1]), Some(0.1))?]));
    twice(&[&[2, 3], &[2, 1]], |x| Ok(vec![aten::_weight_norm(&x[0], &x[1], 0)?]));
}

/// Running statistics are written by each call, also between a call and its gradient.
#[test]
fn a_batch_norm_in_training_twice_before_its_gradient() {
    let (mean, var) = (Tensor::zeros(2).unwrap(), Tensor::ones(2).unwrap());
    let x = Numbers::new().tensor(&[3, 2]).to(mean.dtype()).unwrap();
    let x = x.requires_grad_(true).unwrap();
    let norm = || {
        let running = (Some(&mean), Some(&var));
        aten::batch_norm(&x, None, None, running.0, running.1, true, 0.1, 1e-5, false)
    };
    let (a, b) = (norm().unwrap(), norm().unwrap());
    let product = a.mul(&b).unwrap().sum().unwrap();
    product.backward().unwrap();
    assert_eq!(x.grad().unwrap().shape(), x.shape());
}

#[test]
fn attention_and_softmax() {
    let sizes: &[&[i64]] = &[&[1, 2, 2, 3], &[1, 2, 2, 3], &[1, 2, 2, 3]];
    once(sizes, |x| {
        let y =
            aten::scaled_dot_product_attention(&x[0], &x[1], &x[2], None, 0.0, true, None, false)?;
        Ok(vec![y])
    });
    // a mask that wants a gradient takes the form by operators
    let sizes: &[&[i64]] = &[&[1, 2, 2, 3], &[1, 2, 2, 3], &[1, 2, 2, 3], &[2, 2]];
    twice(sizes, |x| {
        let mask = Some(&x[3]);
        let y =
            aten::scaled_dot_product_attention(&x[0], &x[1], &x[2], mask, 0.0, false, None, false)?;
        Ok(vec![y])
    });
    twice(&[&[2, 3]], |x| Ok(vec![aten::softmax_int(&x[0], 1, None)?]));
    twice(&[&[2, 3]], |x| Ok(vec![aten::log_softmax_int(&x[0], 0, None)?]));
}

#[test]
fn places_and_pools_twice() {
    twice(&[&[1, 1, 3, 3]], |x| Ok(vec![aten::max_pool2d(&x[0], &[2], &[1], &[0], &[1], false)?]));
    twice(&[&[1, 2, 4]], |x| Ok(vec![aten::avg_pool1d(&x[0], &[2], &[1], &[1], false, true)?]));
    twice(&[&[1, 1, 3, 3], &[1, 1, 2, 2]], |x| {
        Ok(vec![aten::grid_sampler(&x[0], &x[1], 0, 0, false)?])
    });
    twice(&[&[1, 1, 2, 3]], |x| {
        Ok(vec![aten::upsample_bicubic2d(&x[0], &[3, 4], false, None, None)?])
    });
    twice(&[&[2, 3]], |x| Ok(vec![aten::pad(&x[0], &[1, 2], "circular", None)?]));
}
