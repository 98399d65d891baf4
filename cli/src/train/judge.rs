//! How good a trained model is: the loss on sentences that it has not seen, and how many of those
//! that it writes are sentences of the grammar.

use super::run::Settings;
use crate::error::{CliError, Result};
use straightline::Tensor;
use straightline::autograd::no_grad;
use straightline_models::grammar::Grammar;
use straightline_models::minigpt::MiniGpt;
use straightline_models::sampling::{Uniform, sample, seed_of};

/// What was found.
pub(super) struct Verdict {
    /// Nats per token.
    pub(super) loss: f64,
    /// How many sentences it is about.
    pub(super) sentences: usize,
    /// Temperatures, and the part of the sentences written at each that are grammatical.
    pub(super) grammatical: Vec<(f64, f64)>,
}

/// Sentences that go through the model together.
const ROWS: usize = 256;

/// Batches of the training have the numbers from 1 up.
const HELD_OUT: u64 = 1 << 40;

pub(super) fn judge(
    model: &MiniGpt,
    grammar: &Grammar,
    sentences: usize,
    settings: Settings,
) -> Result<Verdict> {
    no_grad(|| {
        let mut grammatical = Vec::new();
        for temperature in [1.0, 0.8] {
            let mut right = 0;
            for (seed, rows) in portions(sentences, settings) {
                let written = write(model, grammar, rows, temperature, seed)?;
                for ids in &written {
                    right += usize::from(
                        grammar.check(ids).map_err(|e| CliError::Usage(e.to_string()))?.is_ok(),
                    );
                }
            }
            grammatical.push((temperature, right as f64 / sentences as f64));
        }
        let (mut sum, mut tokens) = (0.0, 0);
        for (seed, rows) in portions(sentences, settings) {
            let batch = grammar.batch(rows, seed)?;
            let loss = model.loss(&batch.inputs, &batch.targets)?.item::<f32>()?;
            sum += f64::from(loss) * batch.tokens as f64;
            tokens += batch.tokens;
        }
        Ok(Verdict { loss: sum / tokens as f64, sentences, grammatical })
    })
}

/// Seeds, and how many sentences each is for.
fn portions(sentences: usize, settings: Settings) -> impl Iterator<Item = (u64, usize)> {
    let begins = (0..sentences).step_by(ROWS).enumerate();
    begins.map(move |(i, begin)| {
        (seed_of(settings.seed, HELD_OUT + i as u64), ROWS.min(sentences - begin))
    })
}

/// Sentences by the model, each until its end or until the context is full.
fn write(
    model: &MiniGpt,
    grammar: &Grammar,
    rows: usize,
    temperature: f64,
    seed: u64,
) -> Result<Vec<Vec<i64>>> {
    let (context, vocabulary) = (grammar.max_tokens(), grammar.vocabulary());
    let mut uniform = Uniform::new(seed);
    // what the model reads; the positions not yet written do not matter, as attention is causal
    let mut ids = vec![0; rows * context];
    ids.iter_mut().step_by(context).for_each(|id| *id = grammar.bos());
    let mut written = vec![Vec::new(); rows];
    for place in 0..context {
        let length = place + 1;
        let read: Vec<i64> = ids.chunks(context).flat_map(|row| row[..length].to_vec()).collect();
        let logits = model.logits(&Tensor::from_slice(&read, [rows as i64, length as i64])?)?;
        let logits = logits.select(1, place as i64)?.contiguous()?.to_vec::<f32>()?;
        for (row, sentence) in written.iter_mut().enumerate() {
            let u = uniform.draw();
            if sentence.last() == Some(&grammar.end()) {
                continue;
            }
            let scores = &logits[row * vocabulary..(row + 1) * vocabulary];
            let id = sample(scores, temperature, u) as i64;
            sentence.push(id);
            if length < context {
                ids[row * context + length] = id;
            }
        }
    }
    Ok(written)
}
