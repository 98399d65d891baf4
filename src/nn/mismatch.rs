//! What is wrong with a state dict: everything at once.

use std::fmt;

/// Why [`load_state_dict`](crate::nn::Module::load_state_dict) has loaded nothing: all names that
/// are missing or unexpected, and all tensors of other sizes. Prints as PyTorch's error does.
///
/// ```
/// use straightline::nn::{Linear, Module};
/// use straightline::{ErrorKind, Tensor};
/// let layer = Linear::new(2, 3)?;
/// let dict = [("weight".to_string(), Tensor::zeros([3, 4])?), ("scale".to_string(), Tensor::zeros([1])?)];
/// let error = layer.load_state_dict(&dict.into(), true).unwrap_err();
/// let ErrorKind::StateDict(what) = error.kind() else { panic!("{error}") };
/// assert_eq!(what.missing, ["bias"]);
/// assert_eq!(what.unexpected, ["scale"]);
/// assert_eq!(what.shapes[0].name, "weight");
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateDictMismatch {
    /// The type of the module.
    pub module: String,
    /// What the module has and the dict has not.
    pub missing: Vec<String>,
    /// What the dict has and the module has not.
    pub unexpected: Vec<String>,
    /// Tensors that both have, in other sizes.
    pub shapes: Vec<ShapeMismatch>,
}

/// A tensor that has other sizes in a state dict than in the module.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShapeMismatch {
    /// Its name.
    pub name: String,
    /// Its sizes in the dict.
    pub given: Vec<i64>,
    /// Its sizes in the module.
    pub expected: Vec<i64>,
}

impl StateDictMismatch {
    pub(super) fn shape(name: &str, given: &[i64], expected: &[i64]) -> ShapeMismatch {
        ShapeMismatch { name: name.to_owned(), given: given.to_vec(), expected: expected.to_vec() }
    }

    /// Whether nothing is wrong.
    pub(super) fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.shapes.is_empty()
    }
}

impl fmt::Display for StateDictMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error(s) in loading state_dict for {}:", self.module)?;
        for (what, names) in [("Missing", &self.missing), ("Unexpected", &self.unexpected)] {
            if !names.is_empty() {
                let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
                write!(f, "\n\t{what} key(s) in state_dict: {}. ", names.join(", "))?;
            }
        }
        for ShapeMismatch { name, given, expected } in &self.shapes {
            write!(
                f,
                "\n\tsize mismatch for {name}: copying a param with shape torch.Size({given:?}) from checkpoint, \
                 the shape in current model is torch.Size({expected:?})."
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for StateDictMismatch {}
