//! A sentence encoder with a head that tells classes, of which only the last layer is trained.

use std::path::Path;
use straightline::autograd::no_grad;
use straightline::nn::{Layer, Linear, Module, Parameter};
use straightline::optim::Optimizer;
use straightline::{Result, Tensor};
use straightline_models::bert::Bert;

/// A text with its class.
pub(crate) struct Example {
    pub(crate) tokens: Vec<i64>,
    pub(crate) class: i64,
}

/// Texts that go through the network together.
const BATCH: usize = 6;

pub(crate) struct Classifier {
    encoder: Bert,
    head: Linear,
    /// Those of the encoder that are trained.
    last_layer: Vec<Parameter>,
    tensors: usize,
}

impl Classifier {
    /// Reads an encoder; the head begins at random.
    pub(crate) fn open(folder: &Path, classes: i64) -> Result<Classifier> {
        Classifier::new(classes, |adapt| Bert::load_with(folder, adapt))
    }

    /// An encoder that is loaded with a function from each tensor to the one that it keeps.
    pub(crate) fn new(
        classes: i64,
        load: impl Fn(&mut dyn FnMut(&str, Tensor) -> Result<Tensor>) -> Result<Bert>,
    ) -> Result<Classifier> {
        // the number of layers is known only after the first look
        let last = load(&mut |_, t| Ok(t))?.config().num_hidden_layers.saturating_sub(1);
        let prefix = format!("encoder.layer.{last}.");
        let (mut last_layer, mut tensors) = (Vec::new(), 0);
        let encoder = load(&mut |name, t| {
            tensors += 1;
            if !name.starts_with(&prefix) {
                return Ok(t);
            }
            let parameter = Parameter::new(&t)?;
            last_layer.push(parameter.clone());
            Ok(parameter.tensor().clone())
        })?;
        let head = Linear::new(encoder.config().hidden_size, classes)?;
        Ok(Classifier { encoder, tensors: tensors + 2, head, last_layer })
    }

    /// What is trained of the encoder.
    pub(crate) fn last_layer(&self) -> Vec<Tensor> {
        self.last_layer.iter().map(|p| p.tensor().clone()).collect()
    }

    /// The head, which begins at random.
    pub(crate) fn head(&self) -> Vec<Tensor> {
        self.head.parameters()
    }

    /// All that is trained.
    pub(crate) fn parameters(&self) -> Vec<Tensor> {
        [self.last_layer(), self.head()].concat()
    }

    /// How many tensors there are, trained or not.
    pub(crate) fn tensors(&self) -> usize {
        self.tensors
    }

    /// Scores of the classes, `[batch, classes]`.
    fn scores(&self, batch: &[Example]) -> Result<Tensor> {
        let longest = batch.iter().map(|e| e.tokens.len()).max().unwrap_or(0);
        let (mut ids, mut mask) = (Vec::new(), Vec::new());
        for example in batch {
            let padding = longest - example.tokens.len();
            ids.extend(&example.tokens);
            ids.extend(std::iter::repeat_n(0i64, padding));
            mask.extend(std::iter::repeat_n(1f32, example.tokens.len()));
            mask.extend(std::iter::repeat_n(0f32, padding));
        }
        let sizes = [batch.len() as i64, longest as i64];
        let (ids, mask) = (Tensor::from_slice(&ids, sizes)?, Tensor::from_slice(&mask, sizes)?);
        // embeddings have length 1, whatever their width: a head wants numbers of size 1
        let scale = (self.encoder.config().hidden_size as f64).sqrt();
        self.head.forward(&self.encoder.embed(&ids, &mask)?.mul(scale)?)
    }

    fn labels(batch: &[Example]) -> Result<Tensor> {
        let labels: Vec<i64> = batch.iter().map(|e| e.class).collect();
        Tensor::from_slice(&labels, [labels.len() as i64])
    }

    /// Sees each example once; gives the mean loss.
    pub(crate) fn epoch(&self, examples: &[Example], optimizer: &dyn Optimizer) -> Result<f64> {
        let mut sum = 0.0;
        for batch in examples.chunks(BATCH) {
            let loss = self.scores(batch)?.cross_entropy(Self::labels(batch)?)?;
            optimizer.zero_grad()?;
            loss.backward()?;
            optimizer.step()?;
            sum += f64::from(loss.item::<f32>()?) * batch.len() as f64;
        }
        Ok(sum / examples.len().max(1) as f64)
    }

    /// The mean loss, and the part that is classified rightly.
    pub(crate) fn judge(&self, examples: &[Example]) -> Result<(f64, f64)> {
        no_grad(|| {
            let (mut loss, mut right) = (0.0, 0);
            for batch in examples.chunks(BATCH) {
                let (scores, labels) = (self.scores(batch)?, Self::labels(batch)?);
                let mean = scores.cross_entropy(&labels)?.item::<f32>()?;
                loss += f64::from(mean) * batch.len() as f64;
                right += scores.argmax(1)?.eq(&labels)?.sum()?.item::<i64>()?;
            }
            let count = examples.len().max(1) as f64;
            Ok((loss / count, right as f64 / count))
        })
    }

    /// The class with the highest score.
    pub(crate) fn classify(&self, example: &Example) -> Result<usize> {
        let scores = no_grad(|| self.scores(std::slice::from_ref(example)))?;
        Ok(scores.argmax(1)?.item::<i64>()? as usize)
    }
}
