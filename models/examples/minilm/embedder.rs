//! From a folder as Hugging Face lays it out to embeddings of text, eager and compiled.

use kitoken::{Definition, Kitoken, Processing};
use std::path::Path;
use std::sync::Arc;
use straightline::{Compiled, Tensor, compile};
use straightline_models::bert::Bert;

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Token ids (1, length) and the mask that says which of them are padding.
pub(crate) type Inputs = (Tensor, Tensor);

/// Text to embeddings.
pub(crate) struct Embedder {
    tokenizer: Tokenizer,
    model: Arc<Bert>,
    compiled: Compiled<Inputs, Tensor>,
}

impl Embedder {
    /// Reads `config.json`, `model.safetensors` and `tokenizer.json`.
    pub(crate) fn open(folder: &Path) -> Result<Embedder> {
        let model = Arc::new(Bert::load(folder)?);

        let tokenizer = Tokenizer::open(&folder.join("tokenizer.json"))?;

        let captured = model.clone();
        Ok(Embedder {
            tokenizer,
            model,
            compiled: compile(move |(ids, mask): &Inputs| captured.embed(ids, mask)),
        })
    }

    /// The ids of a text's tokens, with the special ones at both ends.
    pub(crate) fn tokens(&self, text: &str) -> Result<Vec<i64>> {
        self.tokenizer.tokens(text)
    }

    /// Tokens as the network takes them. Each length is a shape and each shape is compiled for
    /// itself, so lengths are rounded up to a power of two: few shapes, and less than half padding.
    pub(crate) fn inputs(&self, tokens: &[i64]) -> Result<Inputs> {
        let length = tokens.len().next_power_of_two().max(8);
        let mut ids = tokens.to_vec();
        ids.resize(length, 0);
        let mut mask = vec![1f32; tokens.len()];
        mask.resize(length, 0.0);
        let sizes = [1, length as i64];
        Ok((Tensor::from_slice(&ids, sizes)?, Tensor::from_slice(&mask, sizes)?))
    }

    pub(crate) fn eager(&self, (ids, mask): &Inputs) -> Result<Vec<f32>> {
        Ok(self.model.embed(ids, mask)?.to_vec()?)
    }

    pub(crate) fn compiled(&self, inputs: &Inputs) -> Result<Vec<f32>> {
        Ok(self.compiled.call(inputs)?.to_vec()?)
    }
}

/// Word pieces, and what BERT puts around them.
pub(crate) struct Tokenizer {
    pieces: Kitoken,
    first: i64,
    last: i64,
    /// Tokens of a text at most, these two included.
    longest: usize,
}

impl Tokenizer {
    pub(crate) fn open(path: &Path) -> Result<Tokenizer> {
        let mut definition =
            Definition::from_tokenizers_file(path).map_err(|e| in_file(path, e))?;
        let processing = &mut definition.config.processing;
        let longest = processing.iter().find_map(|step| match step {
            Processing::Truncate { length, .. } => usize::try_from(*length).ok(),
            _ => None,
        });
        // The file specifies padding to 128 tokens, which would make every sentence as slow as the
        // longest.
        processing.clear();
        let pieces = Kitoken::from_definition(definition).map_err(|e| in_file(path, e))?;
        let special = |token: &str| match pieces.encode(token, true)?.as_slice() {
            [id] => Ok(i64::from(*id)),
            _ => Err(in_file(path, format!("no token `{token}`"))),
        };
        let (first, last) = (special("[CLS]")?, special("[SEP]")?);
        Ok(Tokenizer { pieces, first, last, longest: longest.unwrap_or(usize::MAX) })
    }

    pub(crate) fn tokens(&self, text: &str) -> Result<Vec<i64>> {
        let mut ids = vec![self.first];
        let pieces = self.pieces.encode(text, true)?;
        ids.extend(pieces.into_iter().map(i64::from).take(self.longest.saturating_sub(2)));
        ids.push(self.last);
        Ok(ids)
    }
}

fn in_file(path: &Path, what: impl std::fmt::Display) -> Error {
    format!("{}: {what}", path.display()).into()
}

/// The cosine of the angle between two vectors of length 1.
pub(crate) fn similarity(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
