//! The inputs of a call: from a file, or made up.

use super::error::{InputError, expected};
use super::options::ModelOptions;
use super::random;
use super::show;
use crate::error::Result;
use std::collections::BTreeMap;
use std::path::Path;
use straightline::program::{InputKind, Leaf, Program};
use straightline::{Scalar, Tensor, load_safetensors};

/// Whether the inputs have to come from somewhere: not all of them are constants.
pub(crate) fn needed(program: &Program, options: &ModelOptions) -> Result<(), InputError> {
    let fixed = |kind: &InputKind| matches!(kind, InputKind::Constant(_));
    let made_up = options.random || !options.sizes.is_empty() || !options.highs.is_empty();
    if options.input.is_some() || made_up || program.inputs().iter().all(|i| fixed(&i.kind)) {
        return Ok(());
    }
    let (program, expected) = (program.name().to_owned(), expected(program));
    Err(InputError::NoneGiven { program, expected })
}

/// Inputs as the options say, which the program takes.
pub(crate) fn make(program: &Program, options: &ModelOptions) -> Result<Vec<Leaf>> {
    let Some(path) = &options.input else {
        let inputs = random::inputs(program, options)?;
        program.check(&inputs)?;
        return Ok(inputs);
    };
    let inputs = from_tensors(program, path, load_safetensors(path)?)?;
    program.check(&inputs).map_err(|e| InputError::Unfit {
        path: path.display().to_string(),
        reason: crate::error::plain(&e),
        expected: expected(program),
    })?;
    Ok(inputs)
}

/// The position that a tensor's name means: an input's name, or a number.
fn position(program: &Program, key: &str) -> Option<usize> {
    if let Some(at) = program.inputs().iter().position(|i| i.name == key) {
        return Some(at);
    }
    let number = key.strip_prefix("input.").or_else(|| key.strip_prefix("input_")).unwrap_or(key);
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    number.parse().ok().filter(|at| digits && *at < program.inputs().len())
}

/// Inputs by name or position.
pub(super) fn from_tensors(
    program: &Program,
    path: &Path,
    tensors: BTreeMap<String, Tensor>,
) -> Result<Vec<Leaf>, InputError> {
    let path = || path.display().to_string();
    let mut found: BTreeMap<usize, (String, Tensor)> = BTreeMap::new();
    let mut unknown = Vec::new();
    for (key, tensor) in tensors {
        let Some(at) = position(program, &key) else {
            unknown.push(format!("`{key}`"));
            continue;
        };
        if let Some((first, _)) = found.get(&at) {
            return Err(InputError::Twice {
                path: path(),
                input: program.inputs()[at].name.clone(),
                first: first.clone(),
                second: key,
            });
        }
        found.insert(at, (key, tensor));
    }
    if !unknown.is_empty() {
        return Err(InputError::Unknown { path: path(), unknown, expected: expected(program) });
    }
    let mut missing = Vec::new();
    let mut leaves = Vec::new();
    for (at, input) in program.inputs().iter().enumerate() {
        leaves.push(match (found.remove(&at), &input.kind) {
            (None, InputKind::Constant(value)) => value.clone(),
            (None, _) => {
                missing.push(format!("`{}`", input.name));
                Leaf::None
            }
            (Some((_, tensor)), InputKind::Tensor { .. }) => Leaf::Tensor(tensor),
            // the file has tensors only: one with a single element stands for a number
            (Some((key, tensor)), _) => number(&tensor).ok_or_else(|| InputError::NoNumber {
                path: path(),
                tensor: key,
                given: show::kind(&tensor),
                input: input.name.clone(),
                takes: input.text(program.symbols()),
            })?,
        });
    }
    if missing.is_empty() {
        return Ok(leaves);
    }
    Err(InputError::Missing { path: path(), missing, expected: expected(program) })
}

fn number(tensor: &Tensor) -> Option<Leaf> {
    match tensor.item::<Scalar>().ok()? {
        Scalar::Bool(b) => Some(Leaf::Bool(b)),
        Scalar::Int(n) => Some(Leaf::Int(n)),
        Scalar::Float(x) => Some(Leaf::Float(x)),
        Scalar::Complex(..) => None,
    }
}
