//! Convolutions: the forward kernels, and the operators made of them.

pub(crate) mod backward;
pub(crate) mod shape;

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::copy;
use crate::ops::nn::channels::{Order, suggested};
use crate::ops::nn::conv::shape::Convolution;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Dims, MemoryFormat, Scalar};
use straightline_runtime::cpu::kernels::conv;

/// The dtype that kernels compute in: f32 for the half types.
pub(crate) fn computed(dtype: DType) -> DType {
    dtype.opmath()
}

/// A row-major tensor in the dtype of computation.
pub(crate) fn operand(t: &Tensor) -> Result<Tensor> {
    copy::to_contiguous(&copy::to_dtype(t, computed(t.dtype()))?)
}

/// A tensor to compute into, and what the caller gets of it: the same, or converted and in another
/// order of memory.
pub(crate) struct Target {
    pub(crate) computed: Tensor,
    result: Tensor,
}

impl Target {
    pub(crate) fn new(like: &Tensor, sizes: &[i64], order: Order) -> Result<Target> {
        let result = Tensor::allocate(
            like.dtype(),
            like.device(),
            Dims::from_slice(sizes),
            order.strides(sizes),
        )?;
        let wide = computed(like.dtype());
        let direct = wide == like.dtype() && result.is_contiguous();
        let computed = if direct || !result.storage().has_data() {
            result.clone()
        } else {
            Tensor::allocate_contiguous(wide, like.device(), sizes)?
        };
        Ok(Target { computed, result })
    }

    pub(crate) fn has_data(&self) -> bool {
        self.result.storage().has_data()
    }

    /// The result, with what was computed in it.
    pub(crate) fn finish(mut self) -> Result<Tensor> {
        if self.has_data() && !self.computed.same_handle(&self.result) {
            copy::copy_into_fresh(&mut self.result, &self.computed)?;
        }
        Ok(self.result)
    }
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn convolution(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
) -> Result<Tensor> {
    let c = Convolution::new(w, stride, padding, dilation, transposed, output_padding, groups)?;
    let sizes = c.sizes(x, w, bias.map(Tensor::sizes))?;
    c.check_dtypes(x, w, bias)?;
    let mut target = Target::new(x, &sizes, c.order(x, w))?;
    if target.has_data() && sizes.iter().all(|s| *s > 0) {
        let g = c.geometry(x.sizes(), w.sizes(), &sizes);
        let (xc, wc) = (operand(x)?, operand(w)?);
        let bias = match bias {
            Some(b) => Some(copy::to_contiguous(&copy::to_dtype(b, xc.dtype())?)?),
            None => None,
        };
        let (out, operands) = (&mut target.computed, ([&xc, &wc], bias.as_ref()));
        launch::run(out, operands, |out, ([x, w], bias)| {
            let kernel = if transposed { conv::scatter } else { conv::convolve };
            Ok(kernel(&g, x, w, bias, out)?)
        })?;
    }
    target.finish()
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn _convolution(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    _benchmark: bool,
    _deterministic: bool,
    _cudnn_enabled: bool,
    _allow_tf32: bool,
) -> Result<Tensor> {
    convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups)
}

#[allow(clippy::too_many_arguments)] // the schema's own
pub(crate) fn _convolution_deprecated(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    _benchmark: bool,
    _deterministic: bool,
    _cudnn_enabled: bool,
) -> Result<Tensor> {
    aten::convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups)
}

/// Kernels of PyTorch's with a convolution of their own; the sizes of the kernel are the weight's,
/// which may be flat.
fn slow(
    x: &Tensor,
    w: &Tensor,
    kernel: &[i64],
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
) -> Result<Tensor> {
    let rank = kernel.len();
    ensure!(x.dim() == rank + 2, "Expected {}D input tensor, but got: {:?}", rank + 2, x.sizes());
    let w = unflattened(w, kernel)?;
    let (ones, zeros) = (Dims::from_elem(1, rank), Dims::from_elem(0, rank));
    convolution(x, &w, bias, stride, padding, &ones, false, &zeros, 1)
}

/// A weight whose input channels and kernel may be one dimension.
pub(crate) fn unflattened(w: &Tensor, kernel: &[i64]) -> Result<Tensor> {
    let taps = (kernel.iter()).try_fold(1i64, |all, n| all.checked_mul(*n));
    if let Some(taps @ 1..) = taps
        && w.dim() == 2
        && w.sizes()[1] % taps == 0
    {
        let mut sizes = Dims::from_slice(&[w.sizes()[0], w.sizes()[1] / taps]);
        sizes.extend_from_slice(kernel);
        return crate::ops::view::reshape(w, &sizes);
    }
    ensure_shape!(
        w.dim() == kernel.len() + 2 && w.sizes()[2..] == *kernel,
        "a weight of sizes {:?} does not have the kernel size {kernel:?}",
        w.sizes()
    );
    Ok(w.clone())
}

pub(crate) fn slow_conv_forward(
    x: &Tensor,
    w: &Tensor,
    kernel: &[i64],
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
) -> Result<Tensor> {
    slow(x, w, kernel, bias, stride, padding)
}

pub(crate) fn mkldnn_convolution(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    padding: &[i64],
    stride: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    convolution(x, w, bias, stride, padding, dilation, false, &[0], groups)
}

pub(crate) fn nnpack_available() -> Result<bool> {
    Ok(false)
}

pub(crate) fn cudnn_is_acceptable(_: &Tensor) -> Result<bool> {
    Ok(false)
}

// ---- composites: everything below goes through the dispatcher ---------------------------------

/// Calls `f` with a batch: the input's own, or one of 1 that is taken off the result.
fn batched(
    x: &Tensor,
    rank: usize,
    name: &str,
    f: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if x.dim() == rank + 2 {
        return f(x);
    }
    ensure!(
        x.dim() == rank + 1,
        "Expected {}D (unbatched) or {}D (batched) input to {name}, but got input of size: {:?}",
        rank + 1,
        rank + 2,
        x.sizes()
    );
    aten::squeeze_dim(&f(&aten::unsqueeze(x, 0)?)?, 0)
}

fn check_bias(x: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    match bias {
        Some(b) if b.dtype() != x.dtype() => Err(Error::runtime(format!(
            "Input type ({}) and bias type ({}) should be the same",
            x.dtype().torch_name(),
            b.dtype().torch_name()
        ))),
        _ => Ok(()),
    }
}

/// The real and the imaginary parts, as views.
fn parts(t: &Tensor) -> Result<(Tensor, Tensor)> {
    let both = aten::view_as_real(&aten::resolve_conj(t)?)?;
    Ok((aten::select_int(&both, -1, 0)?, aten::select_int(&both, -1, 1)?))
}

/// A convolution of complex numbers, made as PyTorch makes it of three real ones: of the real
/// parts, of the imaginary parts and of their sums.
fn complex(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    real: impl Fn(&Tensor, &Tensor, Option<&Tensor>) -> Result<Tensor>,
) -> Result<Tensor> {
    ensure!(
        w.dtype() == x.dtype(),
        "Input type ({}) and weight type ({}) should be the same",
        x.dtype().torch_name(),
        w.dtype().torch_name()
    );
    check_bias(x, bias)?;
    let ((xr, xi), (wr, wi)) = (parts(x)?, parts(w)?);
    let sum = |a: &Tensor, b: &Tensor| aten::add_tensor(a, b, Scalar::Int(1));
    let less = |a: &Tensor, b: &Tensor| aten::sub_tensor(a, b, Scalar::Int(1));
    let (br, both) = match bias {
        Some(bias) => {
            let (br, bi) = parts(bias)?;
            let both = sum(&br, &bi)?;
            (Some(br), Some(both))
        }
        None => (None, None),
    };
    let a = real(&xr, &wr, br.as_ref())?;
    let b = real(&xi, &wi, None)?;
    let c = real(&sum(&xr, &xi)?, &sum(&wr, &wi)?, both.as_ref())?;
    let re = less(&a, &b)?;
    let im = less(&less(&c, &a)?, &b)?;
    sum(&re, &aten::mul_scalar(&im, Scalar::Complex(0.0, 1.0))?)
}

macro_rules! convolutions {
    ($($rank:literal $name:ident $padded:ident $transposed:ident;)*) => {$(
        pub(crate) fn $name(
            x: &Tensor,
            w: &Tensor,
            bias: Option<&Tensor>,
            stride: &[i64],
            padding: &[i64],
            dilation: &[i64],
            groups: i64,
        ) -> Result<Tensor> {
            check_bias(x, bias)?;
            batched(x, $rank, stringify!($name), |x| {
                let real = |x: &Tensor, w: &Tensor, bias: Option<&Tensor>| {
                    aten::convolution(x, w, bias, stride, padding, dilation, false, &[0; $rank], groups)
                };
                if x.dtype().is_complex() { complex(x, w, bias, real) } else { real(x, w, bias) }
            })
        }

        pub(crate) fn $padded(
            x: &Tensor,
            w: &Tensor,
            bias: Option<&Tensor>,
            stride: &[i64],
            padding: &str,
            dilation: &[i64],
            groups: i64,
        ) -> Result<Tensor> {
            batched(x, $rank, stringify!($name), |x| {
                let real = |x: &Tensor, w: &Tensor, bias: Option<&Tensor>| {
                    aten::_convolution_mode(x, w, bias, stride, padding, dilation, groups)
                };
                if x.dtype().is_complex() { complex(x, w, bias, real) } else { real(x, w, bias) }
            })
        }

        #[allow(clippy::too_many_arguments)] // the schema's own
        pub(crate) fn $transposed(
            x: &Tensor,
            w: &Tensor,
            bias: Option<&Tensor>,
            stride: &[i64],
            padding: &[i64],
            output_padding: &[i64],
            groups: i64,
            dilation: &[i64],
        ) -> Result<Tensor> {
            check_bias(x, bias)?;
            batched(x, $rank, stringify!($transposed), |x| {
                let real = |x: &Tensor, w: &Tensor, bias: Option<&Tensor>| {
                    aten::convolution(x, w, bias, stride, padding, dilation, true, output_padding, groups)
                };
                if x.dtype().is_complex() { complex(x, w, bias, real) } else { real(x, w, bias) }
            })
        }
    )*};
}
convolutions! {
    1 conv1d conv1d_padding conv_transpose1d;
    2 conv2d conv2d_padding conv_transpose2d;
    3 conv3d conv3d_padding conv_transpose3d;
}

/// Padding by name: `valid` is none, `same` as much as keeps the sizes.
pub(crate) fn _convolution_mode(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &str,
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    match padding {
        "valid" => aten::convolution(x, w, bias, stride, &[0], dilation, false, &[0], groups),
        "same" => same(x, w, bias, stride, dilation, groups),
        other => Err(Error::runtime(format!("Invalid padding string: '{other}'"))),
    }
}

fn same(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    let zeros = [0i64];
    let c = Convolution::new(w, stride, &zeros, dilation, false, &zeros, groups)?;
    ensure!(
        x.dim() == w.dim(),
        "Expected {}-dimensional input for {}-dimensional weight{:?}, but got {}-dimensional input \
             of size {:?} instead",
        w.dim(),
        w.dim(),
        w.sizes(),
        x.dim(),
        x.sizes()
    );
    ensure!(
        c.stride.iter().all(|s| *s == 1),
        "padding='same' is not supported for strided convolutions"
    );
    c.check_numbers()?;
    let totals: Dims = (c.dilation.iter().zip(&w.sizes()[2..]))
        .map(|(d, k)| d.saturating_mul((*k - 1).max(0)))
        .collect();
    let mut padded = x.clone();
    for (i, total) in totals.iter().enumerate() {
        if total % 2 == 1 {
            // one element more on the right
            let mut sizes = Dims::from_slice(padded.sizes());
            sizes[i + 2] = 1;
            let zeros = aten::zeros(&sizes, Some(x.dtype()), None, Some(x.device()), None)?;
            padded = aten::cat(&[padded, zeros], i as i64 + 2)?;
        }
    }
    if suggested(x) == Order::ChannelsLast && padded.sizes() != x.sizes() {
        let format =
            if x.dim() == 5 { MemoryFormat::ChannelsLast3d } else { MemoryFormat::ChannelsLast };
        padded = aten::contiguous(&padded, format)?;
    }
    let padding: Dims = totals.iter().map(|t| t / 2).collect();
    aten::convolution(&padded, w, bias, stride, &padding, dilation, false, &zeros, groups)
}
