//! Filling memory with what is drawn of a generator.

use crate::error::Result;
use crate::tensor::launch;
use crate::tensor::{Generator, Tensor};
use straightline_runtime::cpu::kernels::{KernelError, Out};
use straightline_runtime::rng::Stream;

/// Fills a tensor with what `fill` draws of the generator, which is held for as long.
pub(crate) fn fill_random(
    t: &Tensor,
    generator: Option<&Generator>,
    fill: impl FnOnce(Out<'_>, &mut Stream) -> Result<(), KernelError>,
) -> Result<Tensor> {
    t.check_real()?;
    launch::run(launch::Written(t), (), |out, ()| {
        let mut stream = generator.unwrap_or(Generator::default_cpu()).lock();
        Ok(fill(out, &mut stream)?)
    })?;
    Ok(t.clone())
}

/// [`fill_random`] that fills a complex tensor as the real numbers that it consists of.
pub(crate) fn fill_parts(
    t: &Tensor,
    generator: Option<&Generator>,
    fill: impl FnOnce(Out<'_>, &mut Stream) -> Result<(), KernelError>,
) -> Result<Tensor> {
    if t.dtype().is_complex() {
        fill_random(&crate::ops::pointwise::complex::view_as_real(t)?, generator, fill)?;
        return Ok(t.clone());
    }
    fill_random(t, generator, fill)
}
