//! `upsample_*`: nearest neighbours, linear and cubic interpolation, with and without antialiasing,
//! and their gradients.

use super::layout::{Format, check_dtype, check_grad, result};
use super::scales::{Resizing, sizes_or_factors};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::DType;
use straightline_runtime::cpu::kernels::spatial;
use straightline_runtime::cpu::kernels::spatial::resample::{self, AxisScale, AxisTaps, Filter};

/// How elements between the input's are made up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Nearest,
    NearestExact,
    Linear,
    Cubic,
    LinearAntialiased,
    CubicAntialiased,
}

impl Method {
    fn taps(self, axis: &AxisScale) -> AxisTaps {
        match self {
            Method::Linear => axis.linear(),
            Method::Cubic => axis.cubic(),
            Method::LinearAntialiased => axis.antialiased(Filter::Linear),
            Method::CubicAntialiased => axis.antialiased(Filter::Cubic),
            Method::Nearest | Method::NearestExact => AxisTaps::identity(axis.input),
        }
    }

    fn is_nearest(self) -> bool {
        matches!(self, Method::Nearest | Method::NearestExact)
    }

    fn is_antialiased(self) -> bool {
        matches!(self, Method::LinearAntialiased | Method::CubicAntialiased)
    }

    /// Which dtypes PyTorch has a kernel for.
    fn knows(self, dtype: DType, spatial: usize, backward: bool) -> bool {
        match dtype {
            DType::F32 | DType::F64 => true,
            DType::F16 | DType::BF16 => !self.is_antialiased(),
            DType::U8 => !backward && (self.is_nearest() || spatial == 2),
            _ => false,
        }
    }
}

fn no_position(what: &str) -> Error {
    Error::shape(format!("{what}: a position lies outside of the input"))
}

fn forward(method: Method, sizes: Resizing, x: &Tensor) -> Result<Tensor> {
    let (what, spatial) = (sizes.what, sizes.spatial);
    sizes.check_input(x)?;
    check_dtype(what, x, method.knows(x.dtype(), spatial, false))?;
    let format = if spatial == 1 { Format::Contiguous } else { Format::of(x) };
    let (axes, dtype) = (sizes.axes(x.dtype()), x.dtype());
    result(x, &sizes.output, format, [x], |out, [x]| {
        if method.is_nearest() {
            let exact = method == Method::NearestExact;
            let map = |a: AxisScale| a.nearest(exact).ok_or_else(|| no_position(what));
            let maps = [map(axes[0])?, map(axes[1])?, map(axes[2])?];
            return Ok(spatial::gather_axes(out, x, &maps)?);
        }
        if dtype == DType::U8 {
            // fixed-point weights are rounded from f64
            let axes = axes.map(|a| AxisScale { single: false, held: DType::F64, ..a });
            let taps = axes.map(|a| method.taps(&a));
            return Ok(resample::resample_bytes(out, x, &taps)?);
        }
        // PyTorch keeps weights in the tensor's dtype, but for linear interpolation of images
        let held = if spatial == 2 && method == Method::Linear { axes[2].held } else { dtype };
        let taps = axes.map(|a| method.taps(&AxisScale { held, ..a }));
        Ok(resample::resample(out, x, &taps)?)
    })
}

fn backward(method: Method, sizes: Resizing, grad: &Tensor) -> Result<Tensor> {
    let (what, spatial) = (sizes.what, sizes.spatial);
    check_grad(what, grad, &sizes.output)?;
    check_dtype(what, grad, method.knows(grad.dtype(), spatial, true))?;
    let keeps = match spatial {
        1 => false,
        2 => !matches!(method, Method::Cubic | Method::CubicAntialiased),
        _ => !method.is_nearest(),
    };
    let format = if keeps { Format::of(grad) } else { Format::Contiguous };
    let axes = sizes.axes(grad.dtype());
    result(grad, &sizes.input, format, [grad], |out, [grad]| {
        if method.is_nearest() {
            let exact = method == Method::NearestExact;
            let map = |a: AxisScale| a.nearest_backward(exact).ok_or_else(|| no_position(what));
            let maps = [map(axes[0])?, map(axes[1])?, map(axes[2])?];
            return Ok(spatial::scatter_axes(out, grad, &maps, true)?);
        }
        let taps = axes.map(|a| method.taps(&a));
        Ok(resample::resample_backward(out, grad, &taps)?)
    })
}

/// Nearest neighbours have no corners to align; the others have the argument before their scales.
macro_rules! upsamples {
    ($($name:ident $vec:ident $back:ident $aten:ident $method:ident
        ($($corners:ident)?) ($($scale:ident)*);)*) => {
        $(
            pub(crate) fn $name(
                x: &Tensor,
                output: &[i64],
                $($corners: bool,)?
                $($scale: Option<f64>,)*
            ) -> Result<Tensor> {
                let corners = false $(|| $corners)?;
                let sizes =
                    Resizing::new(stringify!($name), x.sizes(), output, &[$($scale),*], corners)?;
                forward(Method::$method, sizes, x)
            }

            pub(crate) fn $vec(
                x: &Tensor,
                output: Option<&[i64]>,
                $($corners: bool,)?
                factors: Option<&[f64]>,
            ) -> Result<Tensor> {
                let spatial = [$(stringify!($scale)),*].len();
                let (output, factors) =
                    sizes_or_factors(stringify!($name), x, spatial, output, factors)?;
                let mut factors = factors.into_iter();
                $(let $scale = factors.next().flatten();)*
                aten::$aten(x, &output, $($corners,)? $($scale),*)
            }

            pub(crate) fn $back(
                grad: &Tensor,
                output: &[i64],
                input: &[i64],
                $($corners: bool,)?
                $($scale: Option<f64>,)*
            ) -> Result<Tensor> {
                let corners = false $(|| $corners)?;
                let sizes =
                    Resizing::new(stringify!($back), input, output, &[$($scale),*], corners)?;
                backward(Method::$method, sizes, grad)
            }
        )*
    };
}

upsamples!(
    upsample_nearest1d upsample_nearest1d_vec upsample_nearest1d_backward
        upsample_nearest1d Nearest () (w);
    upsample_nearest2d upsample_nearest2d_vec upsample_nearest2d_backward
        upsample_nearest2d Nearest () (h w);
    upsample_nearest3d upsample_nearest3d_vec upsample_nearest3d_backward
        upsample_nearest3d Nearest () (d h w);
    upsample_nearest_exact1d upsample_nearest_exact1d_vec upsample_nearest_exact1d_backward
        _upsample_nearest_exact1d NearestExact () (w);
    upsample_nearest_exact2d upsample_nearest_exact2d_vec upsample_nearest_exact2d_backward
        _upsample_nearest_exact2d NearestExact () (h w);
    upsample_nearest_exact3d upsample_nearest_exact3d_vec upsample_nearest_exact3d_backward
        _upsample_nearest_exact3d NearestExact () (d h w);
    upsample_linear1d upsample_linear1d_vec upsample_linear1d_backward
        upsample_linear1d Linear (corners) (w);
    upsample_bilinear2d upsample_bilinear2d_vec upsample_bilinear2d_backward
        upsample_bilinear2d Linear (corners) (h w);
    upsample_trilinear3d upsample_trilinear3d_vec upsample_trilinear3d_backward
        upsample_trilinear3d Linear (corners) (d h w);
    upsample_bicubic2d upsample_bicubic2d_vec upsample_bicubic2d_backward
        upsample_bicubic2d Cubic (corners) (h w);
    upsample_bilinear2d_aa upsample_bilinear2d_aa_vec upsample_bilinear2d_aa_backward
        _upsample_bilinear2d_aa LinearAntialiased (corners) (h w);
    upsample_bicubic2d_aa upsample_bicubic2d_aa_vec upsample_bicubic2d_aa_backward
        _upsample_bicubic2d_aa CubicAntialiased (corners) (h w);
);
