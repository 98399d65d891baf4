//! `straightline generate`: sentences from the small language model that ships with the program.
//!
//! Every sentence is generated twice with the same random numbers, by the eager model and by the
//! compiled one. The two must agree token for token; then each sentence is checked against the
//! grammar that the model was trained on.

use crate::error::{CliError, Result};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use straightline::dispatch::call_count;
use straightline::nn::Module;
use straightline::{Compiled, DType, Device, Tensor, compile, load_safetensors};
use straightline_models::find;
use straightline_models::grammar::{Grammar, GrammarError};
use straightline_models::minigpt::{Config, MiniGpt};
use straightline_models::sampling::{Uniform, sample, seed_of};

/// The trained weights; models/grammar/README.md describes how they were trained.
const WEIGHTS: &[u8] = include_bytes!("../../models/grammar/model.safetensors");

/// Rounds over all sentences go on until this much time has been measured.
const TIMED: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 600 });

/// Generates sentences with the embedded language model, eager and compiled
#[derive(Debug, clap::Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Arguments {
    /// How many sentences
    #[arg(long, short = 'n', default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sentences: u32,
    /// 0 always takes the likeliest word; the higher, the freer
    #[arg(long, default_value_t = 0.8, value_parser = temperature)]
    temperature: f64,
    /// Another seed, other sentences
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How the sentences begin, in words that the model knows: "the owl"
    #[arg(long, default_value = "")]
    prompt: String,
    /// Weights instead of the embedded ones, such as `straightline train` writes
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Where the model runs: `cpu`, or a GPU such as `cuda` or `cuda:1`
    #[arg(long, default_value_t = Device::CPU)]
    device: Device,
    /// Threads to compute with
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn temperature(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(t) if t >= 0.0 && t.is_finite() => Ok(t),
        Ok(_) => Err("a temperature is a number from 0 up".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

/// Token ids to logits: the eager model or the compiled one.
type Model<'a> = &'a dyn Fn(&Tensor) -> straightline::Result<Tensor>;

/// The model with its grammar, eager and compiled.
struct Generator {
    grammar: Grammar,
    model: Arc<MiniGpt>,
    compiled: Compiled<Tensor, Tensor>,
    parameters: i64,
    device: Device,
}

impl Generator {
    fn open(weights: Option<&PathBuf>, device: Device) -> Result<Generator> {
        match weights {
            None => Generator::new(&Tensor::parse_safetensors(WEIGHTS)?, device),
            Some(path) => Generator::new(&load_safetensors(path)?, device),
        }
    }

    fn new(weights: &BTreeMap<String, Tensor>, device: Device) -> Result<Generator> {
        let mut model = MiniGpt::load(Config::SMALL, &mut |name| find(weights, name))?;
        model.set_device(device)?;
        let model = Arc::new(model);
        let captured = Arc::clone(&model);
        Ok(Generator {
            grammar: Grammar::embedded().map_err(usage)?,
            model,
            compiled: compile(move |ids: &Tensor| captured.logits(ids)),
            parameters: weights.values().map(Tensor::numel).sum(),
            device,
        })
    }

    /// The tokens before the generated ones: `<bos>` and the prompt.
    fn beginning(&self, prompt: &str) -> Result<Vec<i64>> {
        let mut ids = vec![self.grammar.bos()];
        ids.extend(self.grammar.encode(prompt).map_err(usage)?);
        if ids.last() == Some(&self.grammar.end()) {
            return Err(CliError::Usage(
                "the prompt is a whole sentence already: leave out its full stop".to_owned(),
            ));
        }
        let (words, most) = (ids.len() - 1, self.grammar.max_tokens() - 1);
        if words > most {
            return Err(CliError::Usage(format!(
                "the prompt has {words} words, and at most {most} leave room for one more"
            )));
        }
        Ok(ids)
    }

    /// Goes on from `beginning` until the sentence ends or the context is full; `<bos>` is left
    /// out.
    ///
    /// The model always sees its whole context, padded with zeros, so that there is one shape to
    /// compile for. Attention is causal, so later positions do not change the logits of a position.
    fn sentence(
        &self,
        model: Model<'_>,
        beginning: &[i64],
        temperature: f64,
        seed: u64,
    ) -> Result<Vec<i64>> {
        let (context, vocabulary) = (self.grammar.max_tokens(), self.grammar.vocabulary());
        let mut uniform = Uniform::new(seed);
        let mut ids = beginning.to_vec();
        while ids.len() <= context && ids.last() != Some(&self.grammar.end()) {
            let mut padded = ids.clone();
            padded.resize(context, 0);
            let mut input = Tensor::from_slice(&padded, [1, context as i64])?;
            if !self.device.is_cpu() {
                input = input.to_device(self.device)?;
            }
            let logits = model(&input)?.to_vec::<f32>()?;
            let last = (ids.len() - 1) * vocabulary;
            let row = &logits[last..last + vocabulary];
            ids.push(sample(row, temperature, uniform.draw()) as i64);
        }
        Ok(ids.split_off(1))
    }
}

fn usage(error: GrammarError) -> CliError {
    CliError::Usage(error.to_string())
}

/// What one of the two models did, over all rounds.
#[derive(Default)]
struct Mode {
    sentences: Vec<Vec<i64>>,
    /// Dispatcher calls in one round.
    dispatches: u64,
    rounds: Vec<Duration>,
}

impl Mode {
    fn round(
        &mut self,
        generator: &Generator,
        model: Model<'_>,
        arguments: &Arguments,
        beginning: &[i64],
    ) -> Result<()> {
        let mut sentences = Vec::with_capacity(arguments.sentences as usize);
        let (calls, began) = (call_count(), Instant::now());
        for i in 0..u64::from(arguments.sentences) {
            let seed = seed_of(arguments.seed, i);
            let sentence = generator.sentence(model, beginning, arguments.temperature, seed)?;
            sentences.push(sentence);
        }
        self.rounds.push(began.elapsed());
        self.dispatches = call_count() - calls;
        if self.sentences.is_empty() {
            self.sentences = sentences;
        } else if self.sentences != sentences {
            return Err(CliError::Mismatch(
                "generate: a later round differs from the first".to_owned(),
            ));
        }
        Ok(())
    }

    /// The median time of a round.
    fn median(&self) -> Duration {
        let mut rounds = self.rounds.clone();
        rounds.sort_unstable();
        rounds.get(rounds.len() / 2).copied().unwrap_or_default()
    }
}

/// Everything that is reported.
struct Report {
    tokens: usize,
    eager: Mode,
    compiled: Mode,
    first_call: Duration,
    /// Each line, and if it is not a sentence of the grammar, why.
    lines: Vec<(String, Option<String>)>,
    /// The sentences in which eager and compiled differ.
    differing: Vec<usize>,
}

impl Report {
    fn tokens_per_second(&self, mode: &Mode) -> f64 {
        self.tokens as f64 / mode.median().as_secs_f64()
    }

    fn dispatches_per_token(&self, mode: &Mode) -> f64 {
        mode.dispatches as f64 / self.tokens as f64
    }

    fn speed_up(&self) -> f64 {
        self.eager.median().as_secs_f64() / self.compiled.median().as_secs_f64()
    }

    fn grammatical(&self) -> usize {
        self.lines.iter().filter(|(_, wrong)| wrong.is_none()).count()
    }
}

fn measure(generator: &Generator, arguments: &Arguments) -> Result<Report> {
    let beginning = generator.beginning(&arguments.prompt)?;
    let eager_model = |ids: &Tensor| generator.model.logits(ids);
    let compiled_model = |ids: &Tensor| generator.compiled.call(ids);

    let context = generator.grammar.max_tokens() as i64;
    let some = Tensor::with((DType::I64, generator.device)).zeros([1, context])?;
    eager_model(&some)?;
    let began = Instant::now();
    compiled_model(&some)?;
    let first_call = began.elapsed();

    let (mut eager, mut compiled) = (Mode::default(), Mode::default());
    let began = Instant::now();
    while eager.rounds.is_empty() || began.elapsed() < TIMED {
        eager.round(generator, &eager_model, arguments, &beginning)?;
        compiled.round(generator, &compiled_model, arguments, &beginning)?;
    }

    let pairs = eager.sentences.iter().zip(&compiled.sentences).enumerate();
    let differing = pairs.filter(|(_, (a, b))| a != b).map(|(i, _)| i).collect();
    let mut lines = Vec::new();
    for ids in &compiled.sentences {
        let verdict = generator.grammar.check(ids).map_err(usage)?;
        let line = generator.grammar.decode(ids).map_err(usage)?;
        lines.push((line, verdict.err().map(|v| v.to_string())));
    }
    let words = compiled.sentences.iter().map(Vec::len).sum::<usize>();
    Ok(Report {
        // The prompt's words were given and not generated.
        tokens: words - lines.len() * (beginning.len() - 1),
        eager,
        compiled,
        first_call,
        lines,
        differing,
    })
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<()> {
    straightline::set_num_threads(usize::from(arguments.threads));
    let generator = Generator::open(arguments.weights.as_ref(), arguments.device)?;
    let report = measure(&generator, arguments)?;
    if arguments.json {
        writeln!(out, "{}", as_json(&report, arguments))?;
    } else {
        print(&report, &generator, arguments, out)?;
    }
    match report.differing.as_slice() {
        [] => Ok(()),
        some => Err(CliError::Mismatch(format!(
            "generate: {} of {} sentences differ from the eager ones",
            some.len(),
            report.lines.len()
        ))),
    }
}

fn print(
    report: &Report,
    generator: &Generator,
    arguments: &Arguments,
    out: &mut dyn Write,
) -> Result<()> {
    writeln!(
        out,
        "A model of {} parameters that speaks {} words, on {} at temperature {}:\n",
        generator.parameters,
        generator.grammar.vocabulary(),
        arguments.device,
        arguments.temperature
    )?;
    for (i, (line, wrong)) in report.lines.iter().enumerate() {
        writeln!(out, "  {line}")?;
        if let Some(wrong) = wrong {
            writeln!(out, "    not a sentence of the grammar: {wrong}")?;
        }
        if report.differing.contains(&i) {
            let eager = generator.grammar.decode(&report.eager.sentences[i]);
            writeln!(out, "    eager: {}", eager.map_err(usage)?)?;
        }
    }
    let n = report.lines.len();
    let same = n - report.differing.len();
    writeln!(out, "\n{n} sentences, {} tokens", report.tokens)?;
    if same == n {
        writeln!(out, "eager and compiled: identical token for token")?;
    } else {
        writeln!(out, "eager and compiled: {same} of {n} sentences are equal")?;
    }
    writeln!(out, "grammar: accepts {} of {n}\n", report.grammatical())?;
    writeln!(out, "            tokens/s   µs/token   dispatcher calls/token")?;
    for (name, mode) in [("eager", &report.eager), ("compiled", &report.compiled)] {
        let rate = report.tokens_per_second(mode);
        writeln!(
            out,
            "  {name:8} {rate:10.0} {:10.1} {:24.0}",
            1e6 / rate,
            report.dispatches_per_token(mode)
        )?;
    }
    writeln!(
        out,
        "  speed-up {:9.1}x   (capturing and compiling took {:.1} ms, once)",
        report.speed_up(),
        report.first_call.as_secs_f64() * 1e3
    )?;
    Ok(())
}

fn as_json(report: &Report, arguments: &Arguments) -> serde_json::Value {
    let mode = |mode: &Mode| {
        json!({
            "tokens_per_second": report.tokens_per_second(mode),
            "dispatches_per_token": report.dispatches_per_token(mode),
            "rounds": mode.rounds.len(),
        })
    };
    let sentence =
        |(line, wrong): &(String, Option<String>)| json!({"text": line, "violation": wrong});
    json!({
        "framework": "straightline",
        "version": env!("CARGO_PKG_VERSION"),
        "workload": "generate",
        "threads": straightline::num_threads(),
        "seed": arguments.seed,
        "temperature": arguments.temperature,
        "prompt": arguments.prompt,
        "sentences": report.lines.iter().map(sentence).collect::<Vec<_>>(),
        "tokens": report.tokens,
        "identical": report.differing.is_empty(),
        "grammatical": report.grammatical(),
        "eager": mode(&report.eager),
        "compiled": mode(&report.compiled),
        "speed_up": report.speed_up(),
        "compile_ms": report.first_call.as_secs_f64() * 1e3,
    })
}

#[cfg(test)]
mod tests;
