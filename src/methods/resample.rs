//! Other sizes by resampling: which operator does it depends on the mode and on the number of
//! dimensions.

use super::convolution::each;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::{Ints, Tensor};
use straightline_catalog::Dims;

/// What [`Tensor::interpolate_with`] is told: the size of the result or its scale, the mode, and
/// whether the corners of both lie on each other.
///
/// ```
/// use straightline::{InterpolateOptions, tensor};
/// let x = tensor([[[[1.0, 3.0]]]])?;
/// let corners = InterpolateOptions::default().size((1, 3)).mode("bilinear").align_corners(true);
/// assert_eq!(x.interpolate_with(corners)?.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
/// assert_eq!(x.interpolate_with(InterpolateOptions::default().scale(2))?.shape(), [1, 1, 2, 4]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct InterpolateOptions {
    size: Option<Dims>,
    scale: Option<f64>,
    mode: Option<String>,
    align_corners: Option<bool>,
}

impl InterpolateOptions {
    /// The sizes of the result behind batch and channels; one number for all.
    #[must_use]
    pub fn size(mut self, size: impl Ints) -> Self {
        self.size = Some(size.ints());
        self
    }

    /// How many times larger the result is in each dimension behind batch and channels.
    #[must_use]
    pub fn scale(mut self, factor: impl Into<f64>) -> Self {
        self.scale = Some(factor.into());
        self
    }

    /// `"nearest"`, which is the default, `"nearest-exact"`, `"linear"` (of one dimension),
    /// `"bilinear"` and `"bicubic"` (of two), `"trilinear"` (of three), or `"area"`.
    #[must_use]
    pub fn mode(mut self, mode: &str) -> Self {
        self.mode = Some(mode.to_owned());
        self
    }

    /// Whether the middles of the corners lie on each other, instead of their corners; they do not.
    /// For the linear and cubic modes only.
    #[must_use]
    pub fn align_corners(mut self, align: bool) -> Self {
        self.align_corners = Some(align);
        self
    }
}

impl Tensor {
    /// `[batch, channels, ..]` of one to three more dimensions in another size, by the nearest
    /// elements; one number is for all dimensions.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([[[1.0, 2.0]]])?;
    /// assert_eq!(x.interpolate(4)?.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Another number of dimensions or of sizes.
    #[track_caller]
    pub fn interpolate(&self, size: impl Ints) -> Result<Tensor> {
        self.interpolate_with(InterpolateOptions::default().size(size))
    }

    /// [`Tensor::interpolate`] with [`InterpolateOptions`].
    ///
    /// ```
    /// use straightline::{InterpolateOptions, tensor};
    /// let x = tensor([[[0.0, 4.0]]])?;
    /// let y = x.interpolate_with(InterpolateOptions::default().scale(2).mode("linear"))?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 1.0, 3.0, 4.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Neither or both of size and scale, a mode that is not for so many dimensions,
    /// `align_corners` for a mode without it.
    #[track_caller]
    pub fn interpolate_with(&self, options: InterpolateOptions) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let refuse = |message: String| Err(Error::value(message).with_location(at));
        let n = self.dim().saturating_sub(2);
        if !(1..=3).contains(&n) {
            let sizes = self.sizes();
            return refuse(format!(
                "interpolate() takes [batch, channels, ..] of 3 to 5 dimensions, and got sizes {sizes:?}"
            ));
        }
        let mode = options.mode.as_deref().unwrap_or("nearest");
        let smooth = matches!(mode, "linear" | "bilinear" | "bicubic" | "trilinear");
        if options.align_corners.is_some() && !smooth {
            return refuse(format!(
                "interpolate() takes `align_corners` for linear and cubic modes, not for `{mode}`"
            ));
        }
        let corners = options.align_corners.unwrap_or(false);
        let (size, scales) = match (options.size, options.scale) {
            (Some(size), None) => (Some(each(&size, n)), None),
            (None, Some(factor)) => (None, Some(vec![factor; n])),
            _ => return refuse("interpolate() takes either a size or a scale".to_owned()),
        };
        let (size, scales) = (size.as_deref(), scales.as_deref());
        if size.is_some_and(|size| size.len() != n) {
            return refuse(format!(
                "interpolate() takes {n} sizes, one for each dimension behind the channels"
            ));
        }
        match (mode, n) {
            ("nearest", 1) => aten::upsample_nearest1d_vec(self, size, scales),
            ("nearest", 2) => aten::upsample_nearest2d_vec(self, size, scales),
            ("nearest", _) => aten::upsample_nearest3d_vec(self, size, scales),
            ("nearest-exact", 1) => aten::_upsample_nearest_exact1d_vec(self, size, scales),
            ("nearest-exact", 2) => aten::_upsample_nearest_exact2d_vec(self, size, scales),
            ("nearest-exact", _) => aten::_upsample_nearest_exact3d_vec(self, size, scales),
            ("linear", 1) => aten::upsample_linear1d_vec(self, size, corners, scales),
            ("bilinear", 2) => aten::upsample_bilinear2d_vec(self, size, corners, scales),
            ("bicubic", 2) => aten::upsample_bicubic2d_vec(self, size, corners, scales),
            ("trilinear", 3) => aten::upsample_trilinear3d_vec(self, size, corners, scales),
            ("area", _) => {
                let size: Dims = match size {
                    Some(size) => size.iter().copied().collect(),
                    None => (self.sizes()[2..].iter())
                        .map(|s| (*s as f64 * scales.map_or(1.0, |s| s[0])) as i64)
                        .collect(),
                };
                match n {
                    1 => aten::adaptive_avg_pool1d(self, &size),
                    2 => aten::adaptive_avg_pool2d(self, &size),
                    _ => aten::adaptive_avg_pool3d(self, &size),
                }
            }
            _ => refuse(format!(
                "interpolate() has no mode `{mode}` for {n} dimensions behind batch and channels"
            )),
        }
    }

    /// `[batch, channels, height, width]` in another size, by the nearest elements. See
    /// [`aten::upsample_nearest2d_vec`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0], &[1, 1, 1, 2])?;
    /// assert_eq!(x.upsample_nearest2d([1, 4])?.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_nearest2d(&self, size: impl Ints) -> Result<Tensor> {
        aten::upsample_nearest2d_vec(self, Some(&each(&size.ints(), 2)), None)
    }

    /// `[batch, channels, height, width]` in another size, interpolated. See
    /// [`aten::upsample_bilinear2d_vec`].
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 3.0], &[1, 1, 1, 2])?;
    /// assert_eq!(x.upsample_bilinear2d([1, 3], true)?.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    pub fn upsample_bilinear2d(&self, size: impl Ints, align_corners: bool) -> Result<Tensor> {
        aten::upsample_bilinear2d_vec(self, Some(&each(&size.ints(), 2)), align_corners, None)
    }
}
