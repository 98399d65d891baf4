//! Dimensions whose size varies from call to call, as the user says.

use super::capture::{Captured, Outcome, Wanted, capture_or_perform};
use super::flat;
use super::options::CompileOptions;
use super::stages::Executable;
use super::training;
use super::tree::TensorTree;
use crate::error::{Error, ErrorKind, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use std::panic::Location;
use straightline_catalog::{Dims, layout};

/// The highest dimension that can be marked.
const MOST: usize = 32;

/// Says that the size of a dimension will vary from call to call: a compiled function that is given
/// this tensor first gets code at once that serves other sizes as well, where otherwise the second
/// set of sizes does that. Sizes 0 and 1 are cases of their own. The mark is the tensor's: results
/// and views do not have it.
///
/// ```
/// use straightline::{Tensor, compile, mark_dynamic};
/// let f = compile(|x: &Tensor| x.softmax(-1));
/// let x = Tensor::ones([8, 40])?;
/// mark_dynamic(&x, 1)?;
/// f.call(&x)?;
/// for length in [50, 77, 128] {
///     f.call(&Tensor::ones([8, length])?)?;
/// }
/// assert_eq!(f.codes(), 1);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
/// A dimension that the tensor does not have, or whose size is 0 or 1; a call of a compiled function
/// that does not take another size there ([`ErrorKind::Compile`](crate::ErrorKind::Compile)).
#[track_caller]
pub fn mark_dynamic(tensor: &Tensor, dim: i64) -> Result<()> {
    let line = Location::caller();
    marked(tensor, dim).map_err(|e| e.with_location(line))
}

fn marked(tensor: &Tensor, dim: i64) -> Result<()> {
    let rank = tensor.dim() as i64;
    let at = if dim < 0 { dim + rank } else { dim };
    ensure!(
        (0..rank.min(MOST as i64)).contains(&at),
        "mark_dynamic: dimension {dim} of a tensor of {rank} dimensions"
    );
    let size = tensor.sizes()[at as usize];
    ensure!(
        size > 1,
        "mark_dynamic: dimension {dim} has size {size}; sizes 0 and 1 are cases of their own, so mark \
         a tensor with a larger one"
    );
    tensor.mark_dynamic_dim(at as u32);
    Ok(())
}

/// Another size for a marked dimension: larger, neither a multiple nor of the same parity.
fn other(size: i64) -> i64 {
    2 * size + 1
}

/// A tensor like another one, but for the sizes of the marked dimensions.
fn resized(t: &Tensor) -> Result<Tensor> {
    let marks = t.dynamic_dims();
    let sizes: Dims = (t.sizes().iter().enumerate())
        .map(|(d, n)| if d < MOST && marks >> d & 1 == 1 { other(*n) } else { *n })
        .collect();
    let strides = layout::preserved_strides(&sizes, t.strides());
    let made =
        aten::empty_strided(&sizes, &strides, Some(t.dtype()), None, Some(t.device()), None)?;
    match t.requires_grad() {
        true => made.requires_grad_(true),
        false => Ok(made),
    }
}

/// Where dimensions are marked, the code of the function for other sizes: code for the sizes of the
/// call that is made beside it serves both.
pub(super) fn sample<I: TensorTree, O: TensorTree>(
    function: &dyn Fn(&I) -> Result<O>,
    options: &CompileOptions,
    inputs: &I,
    leaves: &[&Tensor],
) -> Result<Option<Executable>> {
    if leaves.iter().all(|t| t.dynamic_dims() == 0) {
        return Ok(None);
    }
    let mut failed = None;
    let like = flat::map(inputs, |t| match t.dynamic_dims() {
        0 => t.clone(),
        _ => resized(t).unwrap_or_else(|e| {
            failed.get_or_insert(e);
            t.clone()
        }),
    });
    if let Some(e) = failed {
        return Err(e);
    }
    let wanted = Wanted { perform: false, joint: true };
    let captured = match capture_or_perform(function, &like, wanted) {
        Ok(Outcome::Captured(captured)) => captured,
        // the call itself will tell
        Ok(Outcome::Performed(..) | Outcome::Recorded { .. }) => return Ok(None),
        // there is no data here
        Err(e) if matches!(e.kind(), ErrorKind::DataDependent { .. }) => return Ok(None),
        Err(e) => return Err(fixed(leaves, &e)),
    };
    let Captured { traced, .. } = *captured;
    training::compile(&traced, options, &[], true)
}

/// The error of a function that does not take other sizes.
fn fixed(leaves: &[&Tensor], cause: &Error) -> Error {
    let marked: Vec<String> = (leaves.iter().enumerate())
        .flat_map(|(i, t)| {
            let marks = t.dynamic_dims();
            (0..MOST).filter(move |d| marks >> d & 1 == 1).map(move |d| (i, d, t.sizes()[d]))
        })
        .map(|(i, d, n)| format!("dimension {d} of input {i} (here {n}, tried {})", other(n)))
        .collect();
    let error = Error::compile(format!(
        "marked as dynamic: {}, but the function does not take such sizes; mark all dimensions that \
         vary together, and none that cannot: {cause}",
        marked.join(", ")
    ));
    match cause.location() {
        Some(at) => error.with_location(at),
        None => error,
    }
}
