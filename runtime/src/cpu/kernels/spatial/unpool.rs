//! Pooling operators that work by positions: unpooling, gradients of maximum pools, fractional
//! pooling.

use super::super::KernelError;
use super::super::operand::{self, In, Out, ask};
use super::maximum::{indices_of, max_plane};
use super::number::{Number, round_to, to_f64, with_number};
use super::planes::{Planes, volume};
use super::window::AxisWindows;
use std::sync::OnceLock;
use straightline_passes::ir::DType;

/// `out[indices[i]] = values[i]` in each plane, or `+=` with `add`; elements that no index names
/// are 0. Planes are the last `spatial` dimensions.
///
/// # Errors
///
/// An index outside of its plane; not as many indices as values; operands that are not as many
/// planes, not row-major, or not of one dtype.
pub fn scatter_planes(
    add: bool,
    out: Out<'_>,
    values: In<'_>,
    indices: &[i64],
    spatial: usize,
) -> Result<(), KernelError> {
    const NAME: &str = "scatter";
    let fits = indices.len() == values.numel();
    ask(NAME, fits, "an index for each value")?;
    let out_sizes = volume(NAME, out.sizes(), spatial)?;
    let value_sizes = volume(NAME, values.sizes(), spatial)?;
    let p = Planes::new(NAME, out, values, out_sizes, value_sizes)?;
    let (out_len, len) = (p.out_len, p.input_len);
    let outside = OnceLock::new();
    with_number!(NAME, p.dtype(), A => {
        p.each::<A>(len + out_len / 4, &|plane, v, x| {
            for (v, i) in v.iter().zip(&indices[plane * len..]) {
                let place = usize::try_from(*i).ok().and_then(|i| x.get_mut(i));
                let Some(to) = place else {
                    let _ = outside.set(*i);
                    return;
                };
                *to = if add { to.plus(*v) } else { *v };
            }
        })
    })?;
    match outside.into_inner() {
        None => Ok(()),
        Some(index) => Err(KernelError::IndexOutOfRange { index, size: out_len as i64 }),
    }
}

/// Where the windows of an axis begin, by a random number in the precision of a dtype.
fn starts(dtype: DType, sample: f64, input: usize, output: usize, kernel: usize) -> Vec<usize> {
    let r = |x| round_to(dtype, x);
    let free = input - kernel;
    let mut out = Vec::with_capacity(output);
    if output > 1 {
        let alpha = r(r(free as f64) / r((output - 1) as f64));
        let base = r(sample * alpha) as i64;
        for i in 0..output - 1 {
            let at = r(r(r(i as f64) + sample) * alpha) as i64 - base;
            out.push(at.clamp(0, free as i64) as usize);
        }
    }
    if output > 0 {
        out.push(free);
    }
    out
}

/// Maximum pooling with windows of `kernel` elements in as many dimensions, the last ones, which
/// random numbers place: `samples` has one for each of the dimensions of each plane.
///
/// Of equal elements the first one counts, of NaNs the last.
///
/// # Errors
///
/// As for [`super::max_pool`]; too few samples, or of another dtype; windows that are larger than
/// the input.
pub fn fractional_max_pool(
    [out, indices]: [Out<'_>; 2],
    input: In<'_>,
    samples: In<'_>,
    kernel: &[i64],
) -> Result<(), KernelError> {
    const NAME: &str = "fractional_max_pool";
    let spatial = kernel.len();
    let outputs = volume(NAME, out.sizes(), spatial)?;
    let inputs = volume(NAME, input.sizes(), spatial)?;
    let kernel = volume(NAME, kernel, spatial)?;
    let fit = kernel.iter().zip(&inputs).all(|(k, n)| k <= n);
    ask(NAME, fit, "windows within its operand")?;
    let indices = indices_of(NAME, &out, indices)?;
    let p = Planes::new(NAME, out, input, outputs, inputs)?;
    let dtype = p.dtype();
    operand::has_dtype(NAME, &samples.raw(), dtype)?;
    let samples = to_f64(NAME, samples)?;
    let enough = p.count <= samples.len() / spatial.max(1);
    ask(NAME, enough, "a sample for each axis of each plane")?;
    let axes = |plane: usize| {
        [0, 1, 2].map(|d| {
            let Some(axis) = (d + spatial).checked_sub(3) else {
                return AxisWindows::none();
            };
            // in two dimensions the first number is the last axis'
            let at = if spatial == 2 { 1 - axis } else { axis };
            let (sample, kernel) = (samples[plane * spatial + at], kernel[d]);
            let starts = starts(dtype, sample, inputs[d], outputs[d], kernel);
            AxisWindows::at(inputs[d], &starts, kernel)
        })
    };
    let cost = p.input_len;
    with_number!(NAME, dtype, A => {
        p.each_with::<A>(cost, indices, &|plane, x, y, at| max_plane(y, at, x, &axes(plane)))
    })
}
