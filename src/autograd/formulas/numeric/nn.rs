//! Softmax, losses, convolutions, norms, attention, recurrent layers.

use super::{Numbers, args, call, check, check_with, none};
use crate::dispatch::Value;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::DType;

fn x(sizes: &[i64]) -> Tensor {
    Numbers::new().tensor(sizes)
}

/// Another one.
fn y(sizes: &[i64]) -> Tensor {
    Numbers(1234).tensor(sizes)
}

fn z(sizes: &[i64]) -> Tensor {
    Numbers(4321).tensor(sizes)
}

/// Within 0 and 1.
fn p(t: Tensor) -> Tensor {
    aten::sigmoid(&t).unwrap()
}

fn ints(l: &[i64]) -> Vec<i64> {
    l.to_vec()
}

fn classes(l: &[i64], sizes: &[i64]) -> Tensor {
    Tensor::from_vec(l, sizes.to_vec()).unwrap()
}

fn of(v: &Value) -> Tensor {
    match v {
        Value::Tensor(t) => t.clone(),
        _ => panic!("no tensor"),
    }
}

#[test]
fn softmaxes() {
    check("_softmax", args![x(&[2, 3, 2]), 1i64, false]);
    check("_log_softmax", args![x(&[2, 3]), -1i64, false]);
    check("_safe_softmax", args![x(&[2, 3]), 0i64, none()]);
    let back = || args![x(&[2, 3]), y(&[2, 3]), 1i64, DType::F64];
    check("_softmax_backward_data", back());
    check("_log_softmax_backward_data", back());
    check("_softmax", args![x(&[]), 0i64, false]);
}

#[test]
fn losses_of_elements() {
    for reduction in [0i64, 1, 2] {
        let g = || if reduction == 0 { z(&[2, 3]) } else { z(&[]) };
        let (a, b, w) = (|| x(&[2, 3]), || y(&[2, 3]), || p(z(&[2, 3])));
        check("mse_loss", args![a(), b(), reduction]);
        check("mse_loss_backward", args![g(), a(), b(), reduction]);
        check("smooth_l1_loss", args![a(), b(), reduction, 0.7]);
        check("smooth_l1_loss_backward", args![g(), a(), b(), reduction, 0.7]);
        check("huber_loss", args![a(), b(), reduction, 0.7]);
        check("huber_loss_backward", args![g(), a(), b(), reduction, 0.7]);
        check("soft_margin_loss", args![a(), b(), reduction]);
        check("soft_margin_loss_backward", args![g(), a(), b(), reduction]);
        for weight in [Value::None, Value::Tensor(w())] {
            let weight = || weight.clone();
            let bce = || args![p(a()), p(b()), weight(), reduction];
            check("binary_cross_entropy", bce());
            check("binary_cross_entropy_backward", [args![g()], bce()].concat());
            for pos in [Value::None, Value::Tensor(p(z(&[3])))] {
                check(
                    "binary_cross_entropy_with_logits",
                    args![a(), p(b()), weight(), pos, reduction],
                );
            }
        }
    }
}

#[test]
fn losses_of_classes() {
    for reduction in [0i64, 1, 2] {
        let g = |sizes: &[i64]| if reduction == 0 { z(sizes) } else { z(&[]) };
        let weight = || p(z(&[4]));
        let target = || classes(&[1, 3, -100], &[3]);
        let args = || args![x(&[3, 4]), target(), weight(), reduction, -100i64];
        check("nll_loss_forward", args());
        let total = call("aten::nll_loss_forward", &args())[1].clone();
        check("nll_loss_backward", [args![g(&[3])], args(), args![total]].concat());
        let target = || classes(&[1, 3, 0, 2], &[1, 2, 2]);
        let args = || args![x(&[1, 4, 2, 2]), target(), none(), reduction, 2i64];
        check("nll_loss2d_forward", args());
        let total = call("aten::nll_loss2d_forward", &args())[1].clone();
        check("nll_loss2d_backward", [args![g(&[1, 2, 2])], args(), args![total]].concat());
        let target = || classes(&[1, 3, 0], &[3]);
        for power in [1i64, 2] {
            check(
                "multi_margin_loss",
                args![x(&[3, 4]), target(), power, 0.8, weight(), reduction],
            );
        }
        let target = classes(&[1, 3, -1, 0, 2, -1, 0, 0], &[2, 4]);
        check("multilabel_margin_loss_forward", args![x(&[2, 4]), target, reduction]);
    }
}

/// The gradient takes the logarithms for a log-softmax: together they are exact.
#[test]
fn connectionist_classification() {
    let logits = x(&[4, 2, 3]);
    let targets = classes(&[1, 2, 1, 1], &[2, 2]);
    let loss = |logits: &Tensor| {
        let logs = aten::_log_softmax(logits, 2, false).unwrap();
        let (loss, alpha) = aten::_ctc_loss(&logs, &targets, &[4, 3], &[2, 1], 0, false).unwrap();
        (logs, loss, alpha)
    };
    let g = y(&[2]);
    let (logs, losses, alpha) = loss(&logits);
    let back =
        aten::_ctc_loss_backward(&g, &logs, &targets, &[4, 3], &[2, 1], &losses, &alpha, 0, false)
            .unwrap();
    let back = aten::_log_softmax_backward_data(&back, &logs, 2, DType::F64).unwrap();
    let (found, data) = (back.to_vec::<f64>().unwrap(), logits.to_vec::<f64>().unwrap());
    for k in 0..data.len() {
        let moved = |by: f64| {
            let mut data = data.clone();
            data[k] += by;
            let losses = loss(&Tensor::from_vec(data, [4, 2, 3]).unwrap()).1;
            aten::dot(&losses, &g).unwrap().item::<f64>().unwrap()
        };
        let want = (moved(1e-6) - moved(-1e-6)) / 2e-6;
        assert!((found[k] - want).abs() < 1e-6, "element {k}: {} and {want}", found[k]);
    }
}

#[test]
fn convolutions() {
    let three = || vec![true, true, true];
    for (transposed, groups) in [(false, 1i64), (false, 2), (true, 1), (true, 2)] {
        let weight = match transposed {
            false => x(&[4, 4 / groups, 2, 3]),
            true => x(&[4, 4 / groups, 2, 3]),
        };
        let out = if transposed { ints(&[1, 0]) } else { ints(&[0, 0]) };
        let geometry =
            || args![ints(&[2, 1]), ints(&[1, 1]), ints(&[1, 2]), transposed, out.clone(), groups];
        let image = y(&[1, 4, 4, 5]);
        check("convolution", [args![&image, &weight, z(&[4])], geometry()].concat());
        let sizes =
            call("aten::convolution", &[args![&image, &weight, none()], geometry()].concat());
        let g = z(sizes[0].as_ref().unwrap().sizes());
        check(
            "convolution_backward",
            [args![g, &image, &weight, ints(&[4])], geometry(), args![three()]].concat(),
        );
    }
    let (k, s, pad) = (ints(&[2, 2]), ints(&[1, 1]), ints(&[1, 0]));
    let (image, weight) = (x(&[1, 2, 3, 4]), y(&[3, 2, 2, 2]));
    let rest = || args![s.clone(), pad.clone()];
    check("_slow_conv2d_forward", [args![&image, &weight, k.clone(), z(&[3])], rest()].concat());
    check(
        "_slow_conv2d_backward.output_mask",
        [args![z(&[1, 3, 4, 3]), &image, &weight, k], rest(), args![three()]].concat(),
    );
    let (k, s, pad) = (ints(&[1, 2, 2]), ints(&[1, 1, 1]), ints(&[0, 0, 1]));
    check(
        "slow_conv3d_forward",
        args![x(&[1, 2, 2, 2, 3]), y(&[2, 2, 1, 2, 2]), k, z(&[2]), s, pad],
    );
    check(
        "mkldnn_convolution",
        args![x(&[1, 2, 3]), y(&[2, 1, 2]), z(&[2]), ints(&[1]), ints(&[1]), ints(&[1]), 2i64],
    );
}

/// What a batch norm saves, made of its input anew.
fn batch_statistics(eps: f64, x: usize, mean: usize) -> impl Fn(&mut [Value]) {
    move |args| {
        let found =
            aten::_native_batch_norm_legit_no_stats(&of(&args[x]), None, None, true, 0.1, eps)
                .unwrap();
        (args[mean], args[mean + 1]) = (found.1.into(), found.2.into());
    }
}

#[test]
fn batch_norms() {
    let eps = 0.1;
    for training in [true, false] {
        for weight in [Value::None, Value::Tensor(y(&[2]))] {
            let bias = match weight {
                Value::None => Value::None,
                _ => Value::Tensor(z(&[2])),
            };
            let statistics = || args![z(&[2]), p(y(&[2]))];
            let image = x(&[3, 2, 2]);
            check(
                "native_batch_norm",
                [
                    args![&image, weight.clone(), bias.clone()],
                    statistics(),
                    args![training, 0.1, eps],
                ]
                .concat(),
            );
            check(
                "_native_batch_norm_legit",
                [
                    args![&image, weight.clone(), bias.clone()],
                    statistics(),
                    args![training, 0.1, eps],
                ]
                .concat(),
            );
            let mask = vec![true, !matches!(weight, Value::None), true];
            check_with(
                "native_batch_norm_backward",
                [
                    args![z(&[3, 2, 2]), &image, weight.clone()],
                    statistics(),
                    args![none(), none(), training, eps, mask],
                ]
                .concat(),
                batch_statistics(eps, 1, 5),
            );
        }
    }
    let image = x(&[3, 2, 2]);
    check("_native_batch_norm_legit.no_stats", args![&image, y(&[2]), z(&[2]), true, 0.1, eps]);
    check(
        "_native_batch_norm_legit_no_training",
        args![&image, y(&[2]), z(&[2]), z(&[2]), p(y(&[2])), 0.1, eps],
    );
    check(
        "_native_batch_norm_legit_functional",
        args![&image, y(&[2]), z(&[2]), z(&[2]), p(y(&[2])), true, 0.1, eps],
    );
    check(
        "_batch_norm_with_update",
        args![&image, y(&[2]), z(&[2]), z(&[2]), p(y(&[2])), 0.1, eps],
    );
}

#[test]
fn layer_norms() {
    let (eps, shape) = (0.1, ints(&[2, 3]));
    for weight in [Value::None, Value::Tensor(y(&[2, 3]))] {
        let given = !matches!(weight, Value::None);
        let bias = if given { Value::Tensor(z(&[2, 3])) } else { Value::None };
        let input = x(&[3, 2, 3]);
        check("native_layer_norm", args![&input, shape.clone(), weight.clone(), bias.clone(), eps]);
        let mask = vec![true, given, given];
        check_with(
            "native_layer_norm_backward",
            args![
                z(&[3, 2, 3]),
                &input,
                shape.clone(),
                none(),
                none(),
                weight.clone(),
                bias.clone(),
                mask
            ],
            |args| {
                let found =
                    aten::native_layer_norm(&of(&args[1]), &[2, 3], None, None, eps).unwrap();
                (args[3], args[4]) = (found.1.into(), found.2.into());
            },
        );
    }
}

#[test]
fn group_and_weight_norms() {
    for weight in [Value::None, Value::Tensor(y(&[4]))] {
        let bias = match weight {
            Value::None => Value::None,
            _ => Value::Tensor(z(&[4])),
        };
        check("native_group_norm", args![x(&[2, 4, 3]), weight, bias, 2i64, 4i64, 3i64, 2i64, 0.1]);
    }
    check("_weight_norm_interface", args![x(&[3, 2, 2]), p(y(&[3, 1, 1])), 0i64]);
    check("_weight_norm_interface", args![x(&[3, 2]), p(y(&[1, 2])), 1i64]);
}

#[test]
fn attention() {
    let (q, k, v) = (x(&[1, 2, 3, 4]), y(&[1, 2, 3, 4]), z(&[1, 2, 3, 4]));
    for causal in [true, false] {
        let mask = if causal { Value::None } else { Value::Tensor(x(&[3, 3])) };
        check(
            "_scaled_dot_product_flash_attention_for_cpu",
            args![&q, &k, &v, 0.0, causal, mask, 0.7],
        );
    }
}

#[test]
fn recurrent_layer() {
    let narrow = |t: Tensor| aten::to_dtype(&t, DType::F32, false, false, None).unwrap();
    for reverse in [false, true] {
        check(
            "mkldnn_rnn_layer",
            args![
                narrow(x(&[3, 2, 2])),
                narrow(y(&[8, 2])),
                narrow(z(&[8, 2])),
                narrow(x(&[8])),
                narrow(y(&[8])),
                narrow(z(&[1, 2, 2])),
                narrow(x(&[1, 2, 2])),
                reverse,
                ints(&[]),
                2i64,
                2i64,
                1i64,
                true,
                false,
                false,
                true
            ],
        );
    }
}

#[test]
fn a_loss_without_a_smooth_part() {
    let grads = super::super::smooth_l1_loss_double_backward(&x(&[2]), &y(&[2]), &z(&[2]), 0, 0.0);
    let zeros = grads.unwrap().to_vec::<f64>().unwrap();
    assert_eq!(zeros, [0.0, 0.0]);
}
