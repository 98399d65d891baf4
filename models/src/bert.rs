//! BERT as an encoder of sentences, in the layout of a Hugging Face folder: `config.json` and
//! `model.safetensors`. all-MiniLM-L6-v2 is one (six layers, width 384).
//!
//! A sentence's embedding is the mean of its tokens' states, scaled to length 1.

use super::nn::{LayerNorm, Linear, merge_heads, split_heads};
use super::{Source, find, weight};
use serde::Deserialize;
use std::path::Path;
use straightline::{DType, Error, ErrorKind, Result, Tensor, load_safetensors};

/// The part of `config.json` that the model needs.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "the names are those of the file")]
pub struct Config {
    pub vocab_size: i64,
    pub hidden_size: i64,
    pub num_hidden_layers: usize,
    pub num_attention_heads: i64,
    pub intermediate_size: i64,
    pub max_position_embeddings: i64,
    pub type_vocab_size: i64,
    pub layer_norm_eps: f64,
    #[serde(default = "gelu")]
    pub hidden_act: String,
}

fn gelu() -> String {
    "gelu".to_owned()
}

struct Layer {
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    ln1: LayerNorm,
    fc1: Linear,
    fc2: Linear,
    ln2: LayerNorm,
}

/// The model with its weights.
pub struct Bert {
    config: Config,
    words: Tensor,
    positions: Tensor,
    /// Row 0 of the token types: every token of a single sentence has type 0.
    token_type: Tensor,
    normalise: LayerNorm,
    layers: Vec<Layer>,
}

fn file_error(path: &Path, message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::File { path: path.display().to_string(), message: message.to_string() })
}

impl Bert {
    /// Reads a folder with `config.json` and `model.safetensors`.
    ///
    /// # Errors
    /// A file that is missing or malformed, a tensor that is missing or does not have the sizes of
    /// the configuration, an activation other than gelu.
    pub fn load(folder: &Path) -> Result<Bert> {
        Bert::load_with(folder, &mut |_, tensor| Ok(tensor))
    }

    /// [`Bert::load`] with what a function makes of each tensor of a name, such as a parameter that
    /// is to be trained.
    ///
    /// # Errors
    /// As [`Bert::load`], and those of the function.
    pub fn load_with(
        folder: &Path,
        adapt: &mut dyn FnMut(&str, Tensor) -> Result<Tensor>,
    ) -> Result<Bert> {
        let path = folder.join("config.json");
        let text = std::fs::read_to_string(&path).map_err(|e| file_error(&path, e))?;
        let config: Config = serde_json::from_str(&text).map_err(|e| file_error(&path, e))?;
        let path = folder.join("model.safetensors");
        let weights = load_safetensors(&path)?;
        // A checkpoint of a model with a head has the encoder below `bert.`.
        let prefix = if weights.contains_key("bert.embeddings.word_embeddings.weight") {
            "bert."
        } else {
            ""
        };
        let mut source = |name: &str| {
            let tensor = find(&weights, &format!("{prefix}{name}"))?.to_dtype(DType::F32)?;
            adapt(name, tensor)
        };
        Bert::from_source(config, &mut source).map_err(|e| file_error(&path, e))
    }

    /// Takes the weights from a [`Source`], under the names of Hugging Face's `BertModel`.
    pub fn from_source(config: Config, source: Source<'_>) -> Result<Bert> {
        check(&config)?;
        let (d, inner) = (config.hidden_size, config.intermediate_size);
        let epsilon = config.layer_norm_eps;
        let mut layers = Vec::with_capacity(config.num_hidden_layers);
        for i in 0..config.num_hidden_layers {
            let name = |part: &str| format!("encoder.layer.{i}.{part}");
            layers.push(Layer {
                q: Linear::load(source, &name("attention.self.query"), d, d)?,
                k: Linear::load(source, &name("attention.self.key"), d, d)?,
                v: Linear::load(source, &name("attention.self.value"), d, d)?,
                o: Linear::load(source, &name("attention.output.dense"), d, d)?,
                ln1: LayerNorm::load(source, &name("attention.output.LayerNorm"), d, epsilon)?,
                fc1: Linear::load(source, &name("intermediate.dense"), inner, d)?,
                fc2: Linear::load(source, &name("output.dense"), d, inner)?,
                ln2: LayerNorm::load(source, &name("output.LayerNorm"), d, epsilon)?,
            });
        }
        let table = |part: &str| format!("embeddings.{part}_embeddings.weight");
        let types = weight(source, &table("token_type"), &[config.type_vocab_size, d])?;
        Ok(Bert {
            words: weight(source, &table("word"), &[config.vocab_size, d])?,
            positions: weight(source, &table("position"), &[config.max_position_embeddings, d])?,
            token_type: types.select(0, 0)?,
            normalise: LayerNorm::load(source, "embeddings.LayerNorm", d, epsilon)?,
            config,
            layers,
        })
    }

    /// The part of the configuration that the model needs.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Token ids and mask (1 for a token, 0 for padding), both `i64[batch, length]`, to the states
    /// of the last layer, `f32[batch, length, width]`.
    pub fn hidden(&self, ids: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let length = ids.size(1)?;
        let positions = self.positions.narrow(0, 0, length)?;
        let x = self.words.embedding(ids)? + positions + &self.token_type;
        let mut x = self.normalise.forward(&x)?;
        // added to the scores: 0 for a token, -1e9 for padding
        let hidden = mask.to_dtype(DType::F32)? * -1.0 + 1.0;
        let mask = hidden.unsqueeze(1)?.unsqueeze(2)? * -1e9;
        for layer in &self.layers {
            x = self.layer(layer, &x, &mask)?;
        }
        Ok(x)
    }

    fn layer(&self, layer: &Layer, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let heads = self.config.num_attention_heads;
        let q = split_heads(&layer.q.forward(x)?, heads)?;
        let k = split_heads(&layer.k.forward(x)?, heads)?;
        let v = split_heads(&layer.v.forward(x)?, heads)?;
        let y = q.scaled_dot_product_attention_with(&k, &v, Some(mask), false)?;
        let y = layer.o.forward(&merge_heads(&y)?)?;
        let x = layer.ln1.forward(&(x + y))?;
        let y = layer.fc2.forward(&layer.fc1.forward(&x)?.gelu()?)?;
        layer.ln2.forward(&(x + y))
    }

    /// Sentence embeddings of length 1, `f32[batch, width]`.
    pub fn embed(&self, ids: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let states = self.hidden(ids, mask)?;
        let mask = mask.to_dtype(DType::F32)?.unsqueeze(2)?;
        let total = (states * &mask).sum_dim(1)?;
        let mean = total / mask.sum_dim(1)?.clamp_min(1e-9)?;
        let length = (&mean * &mean).sum_keepdim(1)?.sqrt()?;
        Ok(mean / length.clamp_min(1e-12)?)
    }
}

fn check(config: &Config) -> Result<()> {
    let value = |message: String| Err(Error::new(ErrorKind::Value(message)));
    if config.hidden_act != "gelu" {
        return value(format!(
            "the configuration's activation is `{}`: only `gelu` is known",
            config.hidden_act
        ));
    }
    if config.num_attention_heads < 1 || config.hidden_size % config.num_attention_heads != 0 {
        return value(format!(
            "a width of {} cannot be divided among {} heads",
            config.hidden_size, config.num_attention_heads
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            vocab_size: 20,
            hidden_size: 8,
            num_hidden_layers: 2,
            num_attention_heads: 2,
            intermediate_size: 12,
            max_position_embeddings: 10,
            type_vocab_size: 2,
            layer_norm_eps: 1e-12,
            hidden_act: gelu(),
        }
    }

    /// Numbers between -0.5 and 0.5 that depend on the name.
    fn uniform(name: &str, sizes: &[i64]) -> Result<Tensor> {
        let mut state = name.bytes().fold(1u64, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        let numbers: Vec<f32> = (0..sizes.iter().product()).map(|_| next()).collect();
        Tensor::from_slice(&numbers, sizes)
    }

    /// A source that makes up weights of the sizes it is told by the name.
    fn made_up(name: &str) -> Result<Tensor> {
        let sizes: &[i64] = match name {
            "embeddings.word_embeddings.weight" => &[20, 8],
            "embeddings.position_embeddings.weight" => &[10, 8],
            "embeddings.token_type_embeddings.weight" => &[2, 8],
            n if n.ends_with("intermediate.dense.weight") => &[12, 8],
            n if n.ends_with("intermediate.dense.bias") => &[12],
            n if n.contains("attention") && n.ends_with("LayerNorm.weight") => &[8],
            n if n.ends_with("LayerNorm.weight") => &[8],
            n if n.ends_with("bias") => &[8],
            n if n.contains("attention") => &[8, 8],
            _ => &[8, 12],
        };
        uniform(name, sizes)
    }

    #[test]
    fn embeddings_have_length_one_and_do_not_see_padding() {
        let bert = Bert::from_source(config(), &mut made_up).unwrap();
        let ids = Tensor::from_slice(&[3i64, 7, 1, 0], [1, 4]).unwrap();
        let other = Tensor::from_slice(&[3i64, 7, 1, 19], [1, 4]).unwrap();
        let mask = Tensor::from_slice(&[1i64, 1, 1, 0], [1, 4]).unwrap();
        let a = bert.embed(&ids, &mask).unwrap().to_vec::<f32>().unwrap();
        let b = bert.embed(&other, &mask).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(a, b);
        let length: f32 = a.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }

    #[test]
    fn wrong_files_are_named() {
        let Err(error) = Bert::load(Path::new("/nowhere")) else {
            panic!("there is no such folder");
        };
        assert!(error.to_string().contains("/nowhere/config.json"), "{error}");
        let mut relu = config();
        relu.hidden_act = "relu".into();
        assert!(Bert::from_source(relu, &mut made_up).is_err());
        let mut wide = config();
        wide.intermediate_size = 16;
        let Err(error) = Bert::from_source(wide, &mut made_up) else {
            panic!("the weights do not fit the configuration");
        };
        assert!(error.to_string().contains("[16, 8]"), "{error}");
    }
}
