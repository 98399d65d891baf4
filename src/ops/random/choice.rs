//! Categories drawn by their weights.

use crate::error::{Error, Result};
use crate::ops::common::check_room;
use crate::ops::copy;
use crate::ops::pointwise;
use crate::ops::random;
use crate::tensor::{Generator, Tensor};
use straightline_catalog::{DType, Dims};
use straightline_runtime::cpu::kernels::random_distributions::with_replacement;

pub(crate) const SINGLE: &str = "probability tensor contains either `inf`, `nan` or element < 0";
pub(crate) const NO_WEIGHT: &str = "invalid multinomial distribution (sum of probabilities <= 0)";

fn check_weights(rows: &[f64], categories: usize, samples_with: bool) -> Result<()> {
    for row in rows.chunks_exact(categories) {
        if row.iter().any(|w| !w.is_finite() || *w < 0.0) {
            return Err(Error::runtime(if samples_with {
                "invalid multinomial distribution (encountering probability entry < 0, infinity or NaN)"
            } else {
                SINGLE
            }));
        }
        let total = row.iter().sum::<f64>();
        if total <= 0.0 {
            return Err(Error::runtime(NO_WEIGHT));
        }
    }
    Ok(())
}

/// The sizes of the result and the number of categories.
pub(crate) fn check_sizes(
    weights: &Tensor,
    samples: i64,
    replacement: bool,
) -> Result<(Dims, i64)> {
    ensure!((1..=2).contains(&weights.dim()), "prob_dist must be 1 or 2 dim");
    ensure!(
        weights.dtype().is_floating(),
        "multinomial only supports floating-point dtypes for input, got: {}",
        weights.dtype().torch_name()
    );
    ensure!(samples > 0, "cannot sample n_sample <= 0 samples");
    let (lead, categories) = match *weights.sizes() {
        [n] => (None, n),
        [rows, n, ..] => (Some(rows), n),
        [] => (None, 0),
    };
    ensure!(
        replacement || samples <= categories,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    );
    ensure!(categories != 0, "multinomial: there are no categories");
    ensure!(categories <= 1 << 24, "number of categories cannot exceed 2^24");
    Ok((lead.into_iter().chain([samples]).collect(), categories))
}

/// Positions along the last dimension, as probable as the weights there.
pub(crate) fn multinomial(
    weights: &Tensor,
    samples: i64,
    replacement: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let (sizes, categories) = check_sizes(weights, samples, replacement)?;
    if !weights.storage().has_data() || sizes.contains(&0) {
        return Tensor::allocate_contiguous(DType::I64, weights.device(), &sizes);
    }
    let numbers = copy::to_dtype(weights, DType::F64)?.to_vec::<f64>()?;
    let one_by_one = replacement && samples > 1;
    check_weights(&numbers, categories as usize, one_by_one)?;
    if !one_by_one {
        // a race: a category of weight w arrives after an exponential time of rate w
        let times = random::exponential(weights, 1.0, generator)?;
        let speeds = pointwise::div(weights, &times)?;
        if samples == 1 {
            return crate::ops::reduce::argmax(&speeds, Some(-1), true);
        }
        return Ok(crate::ops::reduce::sort::topk(&speeds, samples, -1, true, true)?.1);
    }
    check_room(DType::I64, weights.device(), &sizes)?;
    let mut stream = generator.unwrap_or(Generator::default_cpu()).lock();
    let (categories, samples) = (categories as usize, samples as usize);
    let drawn = with_replacement(&numbers, weights.dtype(), categories, samples, &mut stream)?;
    drop(stream);
    Tensor::from_slice(&drawn, &sizes)
}
