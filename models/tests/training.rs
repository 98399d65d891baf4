//! The examples that train, with settings that take a moment.

#[path = "../examples/fine_tune_minilm/classifier.rs"]
#[allow(dead_code, reason = "shared with the example")]
mod classifier;
#[path = "../examples/minilm/embedder.rs"]
#[allow(dead_code, reason = "shared with the example")]
mod embedder;
#[path = "../examples/fine_tune_minilm/messages.rs"]
#[allow(dead_code, reason = "shared with the example")]
mod messages;
#[path = "../../examples/train_digits.rs"]
mod train_digits;
#[path = "../examples/train_minigpt.rs"]
mod train_minigpt;

use clap::Parser;
use classifier::{Classifier, Example};
use embedder::{Result, Tokenizer};
use std::path::Path;
use straightline::data::Dataset;
use straightline::nn::init;
use straightline::optim::Adam;
use straightline::{Tensor, manual_seed};
use straightline_models::bert::{Bert, Config};

#[test]
fn digits_are_learned() -> Result<()> {
    let arguments = train_digits::Arguments::try_parse_from(["train_digits", "--quick"])?;
    let found = train_digits::run(&arguments)?;
    assert!(found.last_loss < 0.8 * found.first_loss, "{found:?}");
    // a tenth by chance
    assert!(found.accuracy > 0.3, "{found:?}");
    Ok(())
}

#[test]
fn a_drawing_is_a_function_of_its_number() -> Result<()> {
    let drawings = train_digits::Drawings { first: 40, count: 10 };
    let (image, digit) = drawings.get(3)?;
    assert_eq!((image.sizes(), digit), (&[1, 20, 20][..], 3));
    let pixels = image.to_vec::<f32>()?;
    assert_eq!(pixels, drawings.get(3)?.0.to_vec::<f32>()?);
    let other = train_digits::Drawings { first: 50, count: 10 }.get(3)?.0.to_vec::<f32>()?;
    assert_ne!(pixels, other);
    // there is ink, and there is paper
    assert!(pixels.iter().filter(|p| **p > 0.7).count() >= 10, "{pixels:?}");
    assert!(pixels.iter().filter(|p| **p < 0.3).count() >= 200, "{pixels:?}");
    Ok(())
}

#[test]
fn a_small_gpt_learns() -> Result<()> {
    let flags = ["train_minigpt", "--steps=12", "--batch=8", "--sentences=2"];
    let found = train_minigpt::run(&train_minigpt::Arguments::try_parse_from(flags)?)?;
    let (first, last) = (found.losses[0], found.losses[11]);
    assert!((first - 600f32.ln()).abs() < 0.5, "{first}");
    assert!(last < first - 0.5, "{:?}", found.losses);
    assert_eq!(found.sentences.len(), 2);
    Ok(())
}

const TINY: &str = r#"{"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2,
    "num_attention_heads": 2, "intermediate_size": 12, "max_position_embeddings": 10,
    "type_vocab_size": 2, "layer_norm_eps": 1e-12}"#;

/// Weights of the right sizes for [`TINY`], a little different from name to name.
fn made_up(name: &str) -> straightline::Result<Tensor> {
    let sizes: &[i64] = match name {
        "embeddings.word_embeddings.weight" => &[20, 8],
        "embeddings.position_embeddings.weight" => &[10, 8],
        "embeddings.token_type_embeddings.weight" => &[2, 8],
        n if n.ends_with("LayerNorm.weight") => return Tensor::ones([8]),
        n if n.ends_with("LayerNorm.bias") => return Tensor::zeros([8]),
        n if n.ends_with("intermediate.dense.weight") => &[12, 8],
        n if n.ends_with("intermediate.dense.bias") => &[12],
        n if n.ends_with("bias") => &[8],
        n if n.contains("attention") => &[8, 8],
        _ => &[8, 12],
    };
    init::normal_(&Tensor::empty(sizes)?, 0.0, 0.5)
}

#[test]
fn the_last_layer_and_the_head_are_fine_tuned() -> Result<()> {
    manual_seed(3);
    let config: Config = serde_json::from_str(TINY)?;
    let classifier = Classifier::new(2, |adapt| {
        Bert::from_source(config.clone(), &mut |name| adapt(name, made_up(name)?))
    })?;
    let parameters = classifier.parameters();
    assert_eq!((parameters.len(), classifier.tensors()), (16 + 2, 5 + 2 * 16 + 2));
    let examples: Vec<Example> = [(vec![1, 5, 9, 2], 0), (vec![1, 7, 2], 1), (vec![1, 6, 5, 2], 0)]
        .map(|(tokens, class)| Example { tokens, class })
        .into();
    let before =
        parameters.iter().map(Tensor::to_vec::<f32>).collect::<straightline::Result<Vec<_>>>()?;
    let (first, _) = classifier.judge(&examples)?;
    let optimizer = Adam::new(parameters.clone(), 0.01)?;
    for _ in 0..30 {
        classifier.epoch(&examples, &optimizer)?;
    }
    let (last, right) = classifier.judge(&examples)?;
    assert!(last < first && right == 1.0, "{first} {last} {right}");
    assert_eq!(classifier.classify(&examples[1])?, 1);
    for (p, old) in parameters.iter().zip(&before) {
        assert_ne!(&p.to_vec::<f32>()?, old, "{:?}", p.sizes());
    }
    Ok(())
}

#[test]
fn real_weights_are_fine_tuned() -> Result<()> {
    let Some(folder) = std::env::var_os("STRAIGHTLINE_MINILM") else {
        println!("skipped: STRAIGHTLINE_MINILM does not name a folder with the weights");
        return Ok(());
    };
    let folder = Path::new(&folder);
    let tokenizer = Tokenizer::open(&folder.join("tokenizer.json"))?;
    let examples = messages::TRAINING[..12]
        .iter()
        .map(|(kind, text)| Ok(Example { tokens: tokenizer.tokens(text)?, class: *kind as i64 }))
        .collect::<Result<Vec<_>>>()?;
    manual_seed(0);
    let classifier = Classifier::open(folder, messages::KINDS.len() as i64)?;
    let (first, _) = classifier.judge(&examples)?;
    let optimizer = Adam::new(classifier.parameters(), 5e-4)?;
    for _ in 0..2 {
        classifier.epoch(&examples, &optimizer)?;
    }
    let (last, _) = classifier.judge(&examples)?;
    assert!(last < 0.8 * first, "{first} {last}");
    Ok(())
}
