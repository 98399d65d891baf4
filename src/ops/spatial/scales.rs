//! Sizes and scales of resampling operators.

use super::check;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use straightline_catalog::DType;
use straightline_runtime::cpu::kernels::spatial::resample::AxisScale;

/// The sizes of one call of a resampling operator.
pub(super) struct Resizing {
    pub(super) what: &'static str,
    pub(super) spatial: usize,
    /// Of the whole tensors.
    pub(super) input: Vec<i64>,
    pub(super) output: Vec<i64>,
    pub(super) factors: [Option<f64>; 3],
    pub(super) align_corners: bool,
}

impl Resizing {
    /// Checks the sizes; `factors` are those of the spatial axes.
    pub(super) fn new(
        what: &'static str,
        input: &[i64],
        output: &[i64],
        factors: &[Option<f64>],
        align_corners: bool,
    ) -> Result<Resizing> {
        let spatial = factors.len();
        check!(
            output.len() == spatial,
            "{what}: It is expected output_size equals to {spatial}, but got size {}",
            output.len()
        );
        check!(
            input.len() == spatial + 2,
            "{what}: It is expected input_size equals to {}, but got size {}",
            spatial + 2,
            input.len()
        );
        check!(
            input[2..].iter().chain(output).all(|n| *n > 0),
            "{what}: Input and output sizes should be greater than 0, but got input {:?} output {output:?}",
            &input[2..]
        );
        check!(
            input[0] >= 0 && input[1] >= 0,
            "{what}: Trying to create tensor with negative dimension: {input:?}"
        );
        let mut all = [None; 3];
        all[3 - spatial..].copy_from_slice(factors);
        let mut sizes = input[..2].to_vec();
        sizes.extend_from_slice(output);
        crate::ops::common::check_sizes(&sizes)?;
        crate::ops::common::check_sizes(input)?;
        Ok(Resizing {
            what,
            spatial,
            input: input.to_vec(),
            output: sizes,
            factors: all,
            align_corners,
        })
    }

    /// The input of a forward operator has to have channels.
    pub(super) fn check_input(&self, x: &Tensor) -> Result<()> {
        check!(
            x.numel() != 0 || x.sizes()[1..].iter().all(|n| *n != 0),
            "{}: Non-empty {}D data tensor expected but got a tensor with sizes {:?}",
            self.what,
            self.spatial + 2,
            x.sizes()
        );
        Ok(())
    }

    /// The axes, missing ones (of size 1) included.
    pub(super) fn axes(&self, dtype: DType) -> [AxisScale; 3] {
        [0, 1, 2].map(|d| {
            let at = (d + self.spatial).checked_sub(3).map(|k| k + 2);
            AxisScale {
                input: at.map_or(1, |k| self.input[k] as usize),
                output: at.map_or(1, |k| self.output[k] as usize),
                factor: self.factors[d],
                align_corners: self.align_corners,
                single: dtype != DType::F64,
                held: if dtype == DType::F64 { dtype } else { DType::F32 },
            }
        })
    }
}

/// The output sizes of a `.vec` overload, and the factors behind them.
pub(super) fn sizes_or_factors(
    what: &str,
    x: &Tensor,
    spatial: usize,
    output: Option<&[i64]>,
    factors: Option<&[f64]>,
) -> Result<(Vec<i64>, [Option<f64>; 3])> {
    check!(
        x.dim() == spatial + 2,
        "{what}: It is expected input_size equals to {}, but got size {}",
        spatial + 2,
        x.dim()
    );
    let input = &x.sizes()[2..];
    match (output, factors) {
        (Some(output), None) => {
            check!(
                output.len() == spatial,
                "{what}: expected {spatial} output sizes, got {output:?}"
            );
            Ok((output.to_vec(), [None; 3]))
        }
        (None, Some(factors)) => {
            check!(
                factors.len() == spatial,
                "{what}: expected {spatial} scale factors, got {factors:?}"
            );
            let mut all = [None; 3];
            for (a, f) in all.iter_mut().zip(factors) {
                *a = Some(*f);
            }
            let sizes = input.iter().zip(factors).map(|(n, f)| (*n as f64 * f) as i64);
            Ok((sizes.collect(), all))
        }
        _ => Err(Error::runtime(format!(
            "{what}: Must specify exactly one of output_size and scale_factors"
        ))),
    }
}
