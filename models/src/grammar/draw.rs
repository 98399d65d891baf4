//! Sentences drawn from the grammar, and batches of them as a language model is trained on.

use super::{Body, Grammar};
use crate::sampling::Uniform;
use straightline::{Result, Tensor};

/// The class of a place that does not count in the cross-entropy.
const NOTHING: i64 = -100;

/// Sentences as `i64[rows, context]`: what the model reads, and what it should say after each.
#[derive(Clone, Debug)]
pub struct Batch {
    /// `<bos>` and the sentence without its end, then zeros.
    pub inputs: Tensor,
    /// The sentence, then -100, which [`Tensor::cross_entropy`] leaves out.
    pub targets: Tensor,
    /// How many targets there are.
    pub tokens: usize,
}

impl Grammar {
    /// A random sentence, its end included: rules by their weights, words all alike. One that would
    /// be too long is drawn again.
    pub fn draw(&self, uniform: &mut Uniform) -> Vec<i64> {
        loop {
            let (mut ids, mut open) = (Vec::new(), vec![self.start]);
            while let Some(number) = open.pop() {
                match &self.categories[number].body {
                    Body::Words { ids: members, .. } => {
                        let pick = (uniform.draw() * members.len() as f64) as usize;
                        ids.extend(members.get(pick));
                    }
                    Body::Rules { rules, weights } => {
                        let rule = &rules[weighted(weights, uniform.draw())];
                        open.extend(rule.iter().rev());
                    }
                }
                if ids.len() > self.max_tokens {
                    break;
                }
            }
            if ids.len() <= self.max_tokens {
                return ids;
            }
        }
    }

    /// A batch of random sentences, which the seed decides.
    ///
    /// # Errors
    /// There is no memory.
    pub fn batch(&self, rows: usize, seed: u64) -> Result<Batch> {
        let mut uniform = Uniform::new(seed);
        let context = self.max_tokens;
        let mut inputs = vec![0; rows * context];
        let mut targets = vec![NOTHING; rows * context];
        let mut tokens = 0;
        for row in 0..rows {
            let sentence = self.draw(&mut uniform);
            let begin = row * context;
            targets[begin..begin + sentence.len()].copy_from_slice(&sentence);
            inputs[begin] = self.bos;
            let read = &sentence[..sentence.len().saturating_sub(1)];
            inputs[begin + 1..begin + 1 + read.len()].copy_from_slice(read);
            tokens += sentence.len();
        }
        let sizes = [rows as i64, context as i64];
        Ok(Batch {
            inputs: Tensor::from_slice(&inputs, sizes)?,
            targets: Tensor::from_slice(&targets, sizes)?,
            tokens,
        })
    }
}

/// The place at which the cumulated weights pass `u` of their sum.
fn weighted(weights: &[f64], u: f64) -> usize {
    let mut rest = u * weights.iter().sum::<f64>();
    for (i, weight) in weights.iter().enumerate() {
        rest -= weight;
        if rest < 0.0 {
            return i;
        }
    }
    // rounding left a crumb
    weights.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_is_accepted() {
        let grammar = Grammar::embedded().unwrap();
        let mut uniform = Uniform::new(3);
        for _ in 0..500 {
            let ids = grammar.draw(&mut uniform);
            let verdict = grammar.check(&ids).unwrap();
            assert!(verdict.is_ok(), "{}: {verdict:?}", grammar.decode(&ids).unwrap());
        }
    }

    #[test]
    fn targets_are_inputs_one_further() -> Result<()> {
        let grammar = Grammar::embedded().unwrap();
        let batch = grammar.batch(8, 5)?;
        let (inputs, targets) = (batch.inputs.to_vec2::<i64>()?, batch.targets.to_vec2::<i64>()?);
        let mut tokens = 0;
        for (read, said) in inputs.iter().zip(&targets) {
            let length = said.iter().take_while(|id| **id != NOTHING).count();
            tokens += length;
            assert_eq!(read[0], grammar.bos());
            assert_eq!(read[1..length], said[..length - 1]);
            assert_eq!(said[length - 1], grammar.end());
            assert!(said[length..].iter().all(|id| *id == NOTHING));
        }
        assert_eq!(tokens, batch.tokens);
        assert_eq!(grammar.batch(8, 5)?.targets.to_vec2::<i64>()?, targets);
        assert_ne!(grammar.batch(8, 6)?.targets.to_vec2::<i64>()?, targets);
        Ok(())
    }

    #[test]
    fn rules_are_drawn_by_weight() {
        assert_eq!(weighted(&[1.0, 3.0], 0.2), 0);
        assert_eq!(weighted(&[1.0, 3.0], 0.3), 1);
        assert_eq!(weighted(&[1.0, 3.0], 1.0), 1);
    }
}
