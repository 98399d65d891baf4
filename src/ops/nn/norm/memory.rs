//! Memory of the norms' kernels: dense operands with their channels, results, statistics as small
//! tensors.

use crate::error::{Error, Result};
use crate::ops::copy;
use crate::ops::nn::channels::Order;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Device, Dims, layout};
use straightline_runtime::cpu::kernels::norm::{self, Channels};

/// Refuses dtypes that PyTorch has no kernel for.
pub(crate) fn check_float(x: &Tensor, name: &str) -> Result<()> {
    if x.dtype().is_floating() {
        return Ok(());
    }
    Err(Error::not_implemented(format!(
        "\"{name}\" not implemented for '{}'",
        x.dtype().torch_name()
    )))
}

/// The dtype of parameters and statistics: the input's, or f32 beside a half input.
pub(crate) fn parameter_dtype(x: &Tensor, parameters: &[Option<&Tensor>]) -> Result<DType> {
    let mut given = parameters.iter().flatten().map(|t| t.dtype());
    let Some(first) = given.next() else {
        return Ok(x.dtype());
    };
    let reduced = matches!(x.dtype(), DType::F16 | DType::BF16);
    ensure_dtype!(
        first == x.dtype() || reduced,
        "mixed dtype (CPU): all inputs must share same datatype."
    );
    let want = if first == x.dtype() { first } else { DType::F32 };
    if let Some(bad) = [first].into_iter().chain(given).find(|d| *d != want) {
        return Err(Error::dtype(format!(
            "mixed dtype (CPU): expect parameter to have scalar type of {}, got {}",
            want.torch_name(),
            bad.torch_name()
        )));
    }
    Ok(want)
}

/// The elements of a small tensor, row by row.
pub(crate) fn numbers(t: &Tensor) -> Result<Vec<f64>> {
    let t = copy::to_contiguous(&copy::to_dtype(t, DType::F64)?)?;
    launch::read(&t, |t| Ok(t.slice::<f64>()?.to_vec()))
}

/// A tensor of these elements. The device may be Meta, then the elements do not matter.
pub(crate) fn tensor_of(
    values: impl Iterator<Item = f64>,
    sizes: &[i64],
    dtype: DType,
    device: Device,
) -> Result<Tensor> {
    let mut t = Tensor::allocate_contiguous(DType::F64, device, sizes)?;
    launch::run(&mut t, (), |t, ()| {
        let to = t.slice::<f64>()?;
        to.iter_mut().zip(values).for_each(|(x, v)| *x = v);
        Ok(())
    })?;
    copy::to_dtype(&t, dtype)
}

/// A tensor in dense memory of the dtype that kernels compute in, and where its channels are.
pub(crate) struct Dense {
    pub(crate) tensor: Tensor,
    pub(crate) channels: Channels,
}

impl Dense {
    /// The tensor in an order of memory, with dimension 1 as the channels.
    pub(crate) fn new(x: &Tensor, order: Order) -> Result<Dense> {
        let strides = order.strides(x.sizes());
        let wide = x.dtype().opmath();
        let fits = x.dtype() == wide
            && (0..x.dim()).all(|d| x.sizes()[d] == 1 || x.strides()[d] == strides[d]);
        let tensor = if fits {
            x.clone()
        } else {
            let mut t = Tensor::allocate(wide, x.device(), Dims::from_slice(x.sizes()), strides)?;
            copy::copy_into_fresh(&mut t, x)?;
            t
        };
        let s = x.sizes();
        let inner = layout::numel(&s[2..]) as usize;
        let (n, c) = (s[0] as usize, s[1] as usize);
        let channels = match order {
            Order::Contiguous => Channels { outer: n, channels: c, inner },
            Order::ChannelsLast => Channels { outer: n * inner, channels: c, inner: 1 },
        };
        Ok(Dense { tensor, channels })
    }

    /// The tensor as rows of elements in logical order.
    pub(crate) fn rows(x: &Tensor, rows: usize) -> Result<Dense> {
        let tensor = copy::to_contiguous(&copy::to_dtype(x, x.dtype().opmath())?)?;
        let channels =
            Channels { outer: 1, channels: rows, inner: x.numel() as usize / rows.max(1) };
        Ok(Dense { tensor, channels })
    }
}

impl Dense {
    /// Mean and variance of each channel.
    pub(crate) fn moments(&self) -> Result<Vec<[f64; 2]>> {
        launch::read(&self.tensor, |x| Ok(norm::moments(self.channels, x)?))
    }

    /// The sums of `dy` and of `(x - mean) * dy` over each channel.
    pub(crate) fn dots(&self, dy: &Dense, mean: &[f64]) -> Result<Vec<[f64; 2]>> {
        launch::read([&self.tensor, &dy.tensor], |[x, dy]| {
            Ok(norm::dots(self.channels, x, dy, mean)?)
        })
    }

    /// `(x - centre) * scale + shift`, the numbers of each channel.
    pub(crate) fn affine(&self, factors: &[[f64; 3]], out: &mut Output) -> Result<()> {
        launch::run(&mut out.computed, &self.tensor, |out, x| {
            Ok(norm::affine(self.channels, x, factors, out)?)
        })
    }

    /// `dy * a + (x - m) * b + c`, the numbers of each channel.
    pub(crate) fn combine(&self, dy: &Dense, factors: &[[f64; 4]], out: &mut Output) -> Result<()> {
        launch::run(&mut out.computed, [&self.tensor, &dy.tensor], |out, [x, dy]| {
            Ok(norm::combine(self.channels, x, dy, factors, out)?)
        })
    }
}

/// Fresh memory to compute in, and its conversion into the result. Sizes are `like`'s.
pub(crate) struct Output {
    pub(crate) computed: Tensor,
    result: Tensor,
}

impl Output {
    /// `order` of the result; the memory computed in has `inner_order`.
    pub(crate) fn new(like: &Tensor, order: Order, inner_order: Order) -> Result<Output> {
        let sizes = || Dims::from_slice(like.sizes());
        let of = |dtype, order: Order| {
            Tensor::allocate(dtype, like.device(), sizes(), order.strides(like.sizes()))
        };
        let result = of(like.dtype(), order)?;
        let wide = like.dtype().opmath();
        let computed = if wide == like.dtype() && order == inner_order {
            result.clone()
        } else {
            of(wide, inner_order)?
        };
        Ok(Output { computed, result })
    }

    pub(crate) fn has_data(&self) -> bool {
        self.result.storage().has_data()
    }

    pub(crate) fn finish(mut self) -> Result<Tensor> {
        if !self.computed.same_handle(&self.result) {
            copy::copy_into_fresh(&mut self.result, &self.computed)?;
        }
        Ok(self.result)
    }
}
