//! Sizes of pooling windows, and of what comes out of them.

use super::check;
use crate::error::Result;
use straightline_runtime::cpu::kernels::spatial::AxisWindows;

/// `kernel`, `stride`, `padding` and `dilation` of up to three axes.
#[derive(Clone, Copy)]
pub(super) struct Windows {
    spatial: usize,
    kernel: [i64; 3],
    stride: [i64; 3],
    padding: [i64; 3],
    dilation: [i64; 3],
    ceil_mode: bool,
}

/// Kernels, strides and dilations beyond this overflow PyTorch's own 32 bits.
const LARGEST: i64 = i32::MAX as i64;

/// One number for all axes, or one for each.
fn expand(what: &str, name: &str, values: &[i64], spatial: usize) -> Result<[i64; 3]> {
    check!(
        values.len() == 1 || values.len() == spatial,
        "{what}: {name} must either be a single int, or a tuple of {spatial} ints, got {values:?}"
    );
    let mut out = [1; 3];
    for (d, o) in out[3 - spatial..].iter_mut().enumerate() {
        *o = values[if values.len() == 1 { 0 } else { d }];
    }
    Ok(out)
}

impl Windows {
    pub(super) fn new(
        what: &str,
        spatial: usize,
        kernel: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        ceil_mode: bool,
    ) -> Result<Windows> {
        let mut w = Windows {
            spatial,
            kernel: expand(what, "kernel_size", kernel, spatial)?,
            stride: [1; 3],
            padding: expand(what, "padding", padding, spatial)?,
            dilation: expand(what, "dilation", dilation, spatial)?,
            ceil_mode,
        };
        w.stride =
            if stride.is_empty() { w.kernel } else { expand(what, "stride", stride, spatial)? };
        for d in 0..3 - spatial {
            w.padding[d] = 0;
        }
        for d in 3 - spatial..3 {
            let (k, s, p, dil) = (w.kernel[d], w.stride[d], w.padding[d], w.dilation[d]);
            check!(k > 0, "{what}: kernel size should be greater than zero, but got {kernel:?}");
            check!(s > 0, "{what}: stride should be greater than zero, but got {stride:?}");
            check!(dil > 0, "{what}: dilation should be greater than zero, but got {dilation:?}");
            // room for what kernels compute with them
            check!(
                k <= LARGEST && s <= LARGEST && dil <= LARGEST,
                "{what}: kernel size {kernel:?}, stride {stride:?} or dilation {dilation:?} is too large"
            );
            check!(p >= 0, "{what}: pad must be non-negative, but got pad: {p}");
            check!(
                p <= k / 2,
                "{what}: pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={dil}"
            );
        }
        Ok(w)
    }

    /// The output sizes for these input sizes.
    pub(super) fn outputs(&self, what: &str, input: [usize; 3]) -> Result<[i64; 3]> {
        let mut out = [1; 3];
        for d in 3 - self.spatial..3 {
            let (k, s, p, dil) = (
                i128::from(self.kernel[d]),
                i128::from(self.stride[d]),
                i128::from(self.padding[d]),
                i128::from(self.dilation[d]),
            );
            let n = input[d] as i128;
            let room = n + 2 * p - dil * (k - 1) - 1 + if self.ceil_mode { s - 1 } else { 0 };
            let mut o = room.div_euclid(s) + 1;
            // the last window has to begin inside of the input or its left padding
            if self.ceil_mode && (o - 1) * s >= n + p {
                o -= 1;
            }
            check!(
                o >= 1,
                "{what}: Given input size {:?}. Calculated output size is too small",
                &input[3 - self.spatial..]
            );
            out[d] = o as i64;
        }
        Ok(out)
    }

    pub(super) fn axes(&self, input: [usize; 3], output: [i64; 3]) -> [AxisWindows; 3] {
        [0, 1, 2].map(|d| {
            AxisWindows::regular(
                input[d],
                output[d] as usize,
                self.kernel[d] as usize,
                self.stride[d] as usize,
                self.padding[d] as usize,
                self.dilation[d] as usize,
            )
        })
    }
}

/// The output sizes of an adaptive pool.
pub(super) fn adaptive_outputs(what: &str, output: &[i64], spatial: usize) -> Result<[i64; 3]> {
    check!(output.len() == spatial, "{what}: output_size must be {spatial}, got {output:?}");
    check!(
        output.iter().all(|o| *o >= 0),
        "{what}: elements of output_size must be greater than or equal to 0 but received {output:?}"
    );
    let mut out = [1; 3];
    out[3 - spatial..].copy_from_slice(output);
    Ok(out)
}

pub(super) fn adaptive_axes(input: [usize; 3], output: [i64; 3]) -> [AxisWindows; 3] {
    [0, 1, 2].map(|d| AxisWindows::adaptive(input[d], output[d] as usize))
}
