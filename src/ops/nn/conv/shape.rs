//! The shape of a convolution: its numbers per spatial dimension, PyTorch's checks, the result's
//! sizes and order of memory.

use crate::error::{Error, Result};
use crate::ops::common::check_devices;
use crate::ops::nn::channels::{Order, is_channels_last_like, suggested};
use crate::tensor::Tensor;
use straightline_catalog::{DType, Dims};
use straightline_runtime::cpu::kernels::KernelError;
use straightline_runtime::cpu::kernels::conv::Geometry;

/// What a convolution is called with, expanded to one number per spatial dimension.
pub(crate) struct Convolution {
    pub(crate) stride: Dims,
    pub(crate) padding: Dims,
    pub(crate) dilation: Dims,
    pub(crate) transposed: bool,
    pub(crate) output_padding: Dims,
    pub(crate) groups: i64,
}

/// One number for all dimensions, or one for each.
fn per_dimension(list: &[i64], name: &str, rank: usize) -> Result<Dims> {
    match list {
        [one] => Ok(Dims::from_elem(*one, rank)),
        _ if list.len() == rank => Ok(Dims::from_slice(list)),
        _ => Err(Error::runtime(format!(
            "expected {name} to be a single integer value or a list of {rank} values to match the \
             convolution dimensions, but got {name}={list:?}"
        ))),
    }
}

impl Convolution {
    #[allow(clippy::too_many_arguments)] // the schema's own
    pub(crate) fn new(
        weight: &Tensor,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        transposed: bool,
        output_padding: &[i64],
        groups: i64,
    ) -> Result<Convolution> {
        ensure!(weight.dim() >= 3, "weight should have at least three dimensions");
        ensure_not_implemented!(
            weight.dim() <= 5,
            "convolutions have at most three spatial dimensions, the weight has sizes {:?}",
            weight.sizes()
        );
        ensure!(groups > 0, "non-positive groups is not supported");
        let rank = weight.dim() - 2;
        Ok(Convolution {
            stride: per_dimension(stride, "stride", rank)?,
            padding: per_dimension(padding, "padding", rank)?,
            dilation: per_dimension(dilation, "dilation", rank)?,
            transposed,
            output_padding: per_dimension(output_padding, "output_padding", rank)?,
            groups,
        })
    }

    pub(crate) fn check_numbers(&self) -> Result<()> {
        let (stride, dilation) = (&self.stride, &self.dilation);
        for (bad, what) in [
            (self.padding.iter().any(|p| *p < 0), "negative padding"),
            (self.output_padding.iter().any(|p| *p < 0), "negative output_padding"),
            (stride.iter().any(|s| *s <= 0), "non-positive stride"),
            (dilation.iter().any(|d| *d <= 0), "non-positive dilation"),
        ] {
            ensure!(!bad, "{what} is not supported");
        }
        Ok(())
    }

    /// The result's sizes, after all that can be wrong with the operands.
    pub(crate) fn sizes(&self, x: &Tensor, w: &Tensor, bias: Option<&[i64]>) -> Result<Dims> {
        self.check_numbers()?;
        let (xs, ws, groups) = (x.sizes(), w.sizes(), self.groups);
        ensure!(
            x.dim() == w.dim(),
            "Expected {}-dimensional input for {}-dimensional weight {ws:?}, but got \
                 {}-dimensional input of size {xs:?} instead",
            w.dim(),
            w.dim(),
            x.dim()
        );
        ensure_shape!(
            ws[0] >= groups && ws[0] % groups == 0,
            "Given groups={groups}, expected weight to be at least {groups} at dimension 0 and \
                 divisible by it, but got weight of size {ws:?} instead"
        );
        let (want, channels) =
            if self.transposed { (ws[0], ws[1] * groups) } else { (ws[1] * groups, ws[0]) };
        ensure_shape!(
            xs[1] == want,
            "Given {}groups={groups}, weight of size {ws:?}, expected input{xs:?} to have {want} \
                 channels, but got {} channels instead",
            if self.transposed { "transposed=1, " } else { "" },
            xs[1]
        );
        if let Some(bias) = bias
            && bias != [channels]
        {
            return Err(Error::shape(format!(
                "Given weight of size {ws:?}, expected bias to be 1-dimensional with {channels} \
                 elements, but got bias of size {bias:?} instead"
            )));
        }
        let mut sizes = Dims::from_slice(&[xs[0], if xs[1] == 0 { 0 } else { channels }]);
        for i in 0..w.dim() - 2 {
            let (size, k) = (xs[i + 2], ws[i + 2]);
            ensure_shape!(k > 0, "the kernel must have elements, but the weight has sizes {ws:?}");
            let (s, p, d) = (self.stride[i], self.padding[i], self.dilation[i]);
            sizes.push(self.extent(size, k, i).ok_or_else(|| {
                Error::shape(format!(
                    "input size {size} with padding {p}, kernel size {k}, stride {s} and dilation {d}: \
                     the sizes are too large"
                ))
            })?);
            if !self.transposed && size + 2 * p < d * (k - 1) + 1 {
                return Err(Error::shape(format!(
                    "Calculated padded input size per channel: {}. Kernel size: {} (dimension {}). Kernel \
                     size can't be greater than actual input size",
                    size + 2 * p,
                    d * (k - 1) + 1,
                    i + 2
                )));
            }
            if self.transposed && self.output_padding[i] >= s.max(d) {
                return Err(Error::runtime(format!(
                    "output padding must be smaller than either stride or dilation, but got output_padding \
                     {} with stride {s} and dilation {d}",
                    self.output_padding[i]
                )));
            }
            ensure_shape!(
                sizes[i + 2] >= 1 || xs[0] * xs[1] == 0,
                "Given input size per channel: {:?}. Calculated output size {} of dimension {} is too small",
                &xs[2..],
                sizes[i + 2],
                i + 2
            );
        }
        ensure_shape!(
            x.numel() != 0 || xs[0] == 0 || xs[1] == 0,
            "Only zero batch or zero channel inputs are supported, but got input shape: {xs:?}"
        );
        for size in &mut sizes {
            *size = (*size).max(0);
        }
        Ok(sizes)
    }

    /// The result's size along a spatial dimension; `None` if it does not fit a number.
    fn extent(&self, size: i64, k: i64, i: usize) -> Option<i64> {
        let (s, p, d) = (self.stride[i], self.padding[i], self.dilation[i]);
        let reach = d.checked_mul(k - 1)?;
        let margin = p.checked_mul(2)?;
        if self.transposed {
            (size - 1)
                .checked_mul(s)?
                .checked_sub(margin)?
                .checked_add(reach)?
                .checked_add(self.output_padding[i])?
                .checked_add(1)
        } else {
            let room = size.checked_add(margin)?.checked_sub(reach)?.checked_sub(1)?;
            Some(room.div_euclid(s) + 1)
        }
    }

    /// The geometry of the convolution, or of that which the transposed one is the gradient of.
    pub(crate) fn geometry(&self, x: &[i64], w: &[i64], y: &[i64]) -> Geometry {
        let (from, to) = if self.transposed { (y, x) } else { (x, y) };
        Geometry::of([from, w, to], [&self.stride, &self.padding, &self.dilation], self.groups)
    }

    /// The memory order of results: channels last where an operand has it and PyTorch's backend for
    /// the dtype knows it.
    pub(crate) fn order(&self, x: &Tensor, w: &Tensor) -> Order {
        match x.dim() {
            // PyTorch adds a dimension of 1 and makes the input row-major before it looks
            3 => {
                let (s, t) = (w.sizes(), w.strides());
                let sizes = [s[0], s[1], 1, s[2]];
                let strides = [t[0], t[1], t[2] * s[2], t[2]];
                if is_channels_last_like(&sizes, &strides) {
                    Order::ChannelsLast
                } else {
                    Order::Contiguous
                }
            }
            5 if !self.by_onednn(x, w) => Order::Contiguous,
            _ if suggested(x) == Order::ChannelsLast || suggested(w) == Order::ChannelsLast => {
                Order::ChannelsLast
            }
            _ => Order::Contiguous,
        }
    }

    /// Whether PyTorch leaves the call to oneDNN. Its own kernels of three spatial dimensions know
    /// row-major memory only.
    fn by_onednn(&self, x: &Tensor, w: &Tensor) -> bool {
        let wide = self.stride.iter().chain(&self.dilation).any(|s| *s != 1);
        let ws = w.sizes();
        match x.dtype() {
            DType::F16 | DType::BF16 => true,
            DType::F32 => {
                (wide || x.sizes()[0] >= 16 || ws[4] != 1 || ws[3] != 1)
                    && (self.groups > 1
                        || (ws[4] > 3 && ws[3] > 3)
                        || x.sizes()[0] > 1
                        || x.sizes()[..4].iter().product::<i64>() > 20480)
            }
            _ => false,
        }
    }

    /// Dtypes that fit together and that PyTorch has a kernel for.
    pub(crate) fn check_dtypes(&self, x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<()> {
        let dtype = x.dtype();
        check_devices(&[x, w])?;
        ensure_not_implemented!(dtype != DType::Bool, "\"convolution\" not implemented for 'bool'");
        ensure!(
            w.dtype() == dtype,
            "Input type ({}) and weight type ({}) should be the same",
            dtype.torch_name(),
            w.dtype().torch_name()
        );
        if let Some(b) = bias {
            check_devices(&[x, b])?;
            // PyTorch's integer kernels convert the bias, the others do not
            ensure!(
                b.dtype() == dtype || !dtype.is_floating() && !self.transposed,
                "Input type ({}) and bias type ({}) should be the same",
                dtype.torch_name(),
                b.dtype().torch_name()
            );
        }
        if x.numel() == 0 || dtype.is_floating() || dtype == DType::I64 {
            return Ok(());
        }
        ensure_not_implemented!(
            dtype != DType::Bool && !self.transposed && self.dilation.iter().all(|d| *d == 1),
            "\"{}\" not implemented for '{}'",
            if self.transposed { "slow_conv_transpose" } else { "slow_conv" },
            dtype.torch_name()
        );
        if dtype.is_complex() {
            // made of real ones above this operator: `conv1d`, `conv2d` ...
            return Err(
                KernelError::UnsupportedDType { op: "\"convolution\"".into(), dtype }.into()
            );
        }
        Ok(())
    }
}
