//! Convolutions of one input channel a group: rows times numbers, no matrix in sight.

use super::Geometry;
use super::columns::Number;

/// One output channel of one image.
///
/// # Safety
///
/// `input` holds the channel's plane, `weight` its taps, `output` its plane.
pub(super) unsafe fn channel<T: Number>(
    g: &Geometry,
    input: *const T,
    weight: *const T,
    bias: T,
    output: *mut T,
) {
    let [depth, height, width] = g.output;
    let stride = g.stride[2];
    // SAFETY: all indices are below the sizes; `inside` gives the positions whose tap is inside of
    // the input.
    unsafe {
        for d in 0..depth {
            for h in 0..height {
                let out = output.add((d * height + h) * width);
                for x in 0..width {
                    *out.add(x) = T::default();
                }
                for kd in 0..g.kernel[0] {
                    let (lo, hi) = g.inside(0, kd);
                    if d < lo || d >= hi {
                        continue;
                    }
                    let id = d * g.stride[0] + kd * g.dilation[0] - g.padding[0];
                    for kh in 0..g.kernel[1] {
                        let (lo, hi) = g.inside(1, kh);
                        if h < lo || h >= hi {
                            continue;
                        }
                        let ih = h * g.stride[1] + kh * g.dilation[1] - g.padding[1];
                        let row = input.add((id * g.input[1] + ih) * g.input[2]);
                        for kw in 0..g.kernel[2] {
                            let (lo, hi) = g.inside(2, kw);
                            if lo >= hi {
                                continue;
                            }
                            let factor = *weight.add((kd * g.kernel[1] + kh) * g.kernel[2] + kw);
                            let from = row.add(lo * stride + kw * g.dilation[2] - g.padding[2]);
                            let to = out.add(lo);
                            if stride == 1 {
                                for x in 0..hi - lo {
                                    *to.add(x) = (*to.add(x)).plus((*from.add(x)).times(factor));
                                }
                            } else {
                                for x in 0..hi - lo {
                                    let seen = *from.add(x * stride);
                                    *to.add(x) = (*to.add(x)).plus(seen.times(factor));
                                }
                            }
                        }
                    }
                }
                for x in 0..width {
                    *out.add(x) = (*out.add(x)).plus(bias);
                }
            }
        }
    }
}
