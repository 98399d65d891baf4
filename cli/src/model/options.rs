//! What the user says about a model file and its inputs.

use std::path::PathBuf;

/// What a model file is called on.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Model files (.pt2)")]
pub(crate) struct ModelOptions {
    /// Inputs from a file: tensors by the inputs' names, or by position (`0`, `input.0`, `input_0`)
    #[arg(long, value_name = "FILE.safetensors", conflicts_with_all = ["random", "sizes", "highs"])]
    pub(crate) input: Option<PathBuf>,
    /// Inputs that are made up: numbers between -1 and 1; positions in a weight (token ids) that are
    /// there, and 0 or 1 for other integers
    #[arg(long)]
    pub(crate) random: bool,
    /// A size that may differ from call to call, of made-up inputs; may be repeated. Without it, the
    /// size is 2, or the nearest that is allowed
    #[arg(long = "size", value_name = "SYMBOL=N", value_parser = pair)]
    pub(crate) sizes: Vec<(String, i64)>,
    /// Makes the integers of an input 0 to N-1; may be repeated
    #[arg(long = "high", value_name = "INPUT=N", value_parser = pair)]
    pub(crate) highs: Vec<(String, i64)>,
    /// Of made-up inputs, and of the random numbers that the model draws; 0 if it is not given
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Which program of an archive with several
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
}

impl ModelOptions {
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    /// The first flag that was given: it means something for model files only.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let ModelOptions { input, random, sizes, highs, seed, model } = self;
        let all = [
            (input.is_some(), "--input"),
            (*random, "--random"),
            (!sizes.is_empty(), "--size"),
            (!highs.is_empty(), "--high"),
            (seed.is_some(), "--seed"),
            (model.is_some(), "--model"),
        ];
        all.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }
}

/// `s77=8`.
fn pair(text: &str) -> Result<(String, i64), String> {
    let wrong = || format!("`{text}` is no pair of a name and a number, such as s77=8");
    let (name, number) = text.split_once('=').ok_or_else(wrong)?;
    let number = number.trim().parse().map_err(|_| wrong())?;
    match name.trim() {
        "" => Err(wrong()),
        name => Ok((name.to_owned(), number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs() {
        assert_eq!(pair("s77=8"), Ok(("s77".to_owned(), 8)));
        assert_eq!(pair("s77 = -1"), Ok(("s77".to_owned(), -1)));
        for wrong in ["", "s77", "=8", "s77=", "s77=many", "s77=8.5"] {
            assert!(pair(wrong).is_err(), "{wrong}");
        }
    }
}
