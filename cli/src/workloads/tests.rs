//! The suite's names and shapes, and some results worked out otherwise.

use super::*;
use crate::bench::elements;

#[test]
fn names_are_fixed() {
    let suite = all();
    let names: Vec<&str> = suite.iter().map(|w| w.name.as_str()).collect();
    let expected = "w1.add w1.add_grad w1.transpose w1.empty w2.chain100_16 w2.chain100_1024 \
        w3.pointwise_1024 w3.pointwise_16384 w3.pointwise_262144 w3.pointwise_4194304 \
        w3.bias_gelu_512x768 w4.softmax_1024x1024 w4.softmax_4096x64 w4.layernorm_512x768 \
        w4.sum0_4096 w4.sum1_4096 w4.logsoftmax_nll_256x1000 w4.rmsnorm_512x768 w5.mlp_1x64 \
        w5.mlp_8x256 w5.mlp_64x1024 w6.minigpt_b1 w6.minigpt_b8 w7.block_eager w7.block_sdpa \
        w8.sdpa_128 w8.sdpa_128_causal w8.sdpa_1024 w8.sdpa_1024_causal \
        w9.conv3x3 w9.conv_bn_relu w9.resnet18 \
        w10.mm_1x256x256 w10.mm_1x1024x4096 w10.mm_8x256x256 w10.mm_64x1024x1024 \
        w10.mm_256x256x256 w10.mm_1024x1024x1024 w10.mm_256x256x256_bf16 \
        w10.mm_1024x1024x1024_bf16 w11.train_mlp_8x256 w11.train_mlp_64x1024 w11.train_minigpt_b8 \
        w12.minilm_b1_l8 w12.minilm_b1_l32 w12.minilm_b1_l128 w12.minilm_b8_l8 w12.minilm_b8_l32 \
        w12.minilm_b8_l128";
    assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
}

fn output(name: &str) -> straightline::Tensor {
    let program = one(name, &Setting::default()).unwrap().require(&Setting::default()).unwrap();
    program.outputs().unwrap().swap_remove(0)
}

#[test]
fn the_chain_is_the_formula() {
    let (x, y) = (
        elements(&data::uniform("w2.x", &[16], 1.0, 0.0).unwrap()).unwrap(),
        elements(&data::uniform("w2.y", &[16], 1.0, 0.0).unwrap()).unwrap(),
    );
    let out = elements(&output("w2.chain100_16")).unwrap();
    for ((mut x, y), out) in x.into_iter().zip(y).zip(out) {
        for _ in 0..50 {
            x = x * y + 1.0;
        }
        assert!((x - out).abs() <= 1e-5 * (1.0 + x.abs()), "{x} {out}");
    }
}

#[test]
fn the_loss_is_the_formula() {
    let x = elements(&data::uniform("w4.nll.x", &[256, 1000], 5.0, 0.0).unwrap()).unwrap();
    let t = data::ids("w4.nll.t", &[256], 0, 1000).unwrap().to_vec::<i64>().unwrap();
    let rows = x.chunks(1000).zip(t);
    let loss: f64 =
        rows.map(|(row, t)| row.iter().map(|x| x.exp()).sum::<f64>().ln() - row[t as usize]).sum();
    let out = elements(&output("w4.logsoftmax_nll_256x1000")).unwrap();
    assert_eq!(out.len(), 1);
    assert!((out[0] - loss / 256.0).abs() < 1e-4, "{} {}", out[0], loss / 256.0);
}

#[test]
fn networks_have_their_shapes() {
    assert_eq!(output("w5.mlp_8x256").sizes(), [8, 256]);
    assert_eq!(output("w6.minigpt_b1").sizes(), [1, 16, 600]);
}

/// The check sums are PyTorch's of the same computation.
#[test]
fn convolutions_give_known_sums() {
    use crate::bench::check::check;
    for (name, n, sum, magnitudes, weighted) in [
        ("w9.conv3x3", 200704, -197.8633, 129381.5175, -36.1888),
        ("w9.conv_bn_relu", 200704, 64238.1329, 64238.1329, -41.9221),
    ] {
        let found = check(&elements(&output(name)).unwrap());
        assert_eq!(found.0, n);
        let near = |x: f64, y: f64, share: f64| (x - y).abs() <= share * magnitudes;
        assert!(near(found.1, sum, 1e-6), "{name}: {found:?}");
        assert!(near(found.2, magnitudes, 1e-6), "{name}: {found:?}");
        assert!(near(found.3, weighted, 1e-6), "{name}: {found:?}");
    }
}

#[test]
fn what_is_missing_is_said() {
    // the variable may be set where the tests run
    if std::env::var_os("STRAIGHTLINE_MINILM").is_none() {
        let error =
            one("w12.minilm_b1_l8", &Setting::default()).unwrap().require(&Setting::default());
        let error = error.err().unwrap().to_string();
        assert!(error.contains("--minilm PATH"), "{error}");
    }
    let setting = Setting { minilm: Some("/nowhere".into()), ..Setting::default() };
    let error =
        one("w12.minilm_b1_l8", &Setting::default()).unwrap().require(&setting).err().unwrap();
    assert!(error.to_string().contains("/nowhere/config.json"), "{error}");
}
