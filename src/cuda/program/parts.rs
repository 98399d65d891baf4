//! Products and convolutions that there is no kernel for (of truth values, say), by operators.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::{Dims, Scalar};
use straightline_passes::schedule::loops::{
    Activation, BufferView, Convolution, Extern, Follow, Matmul,
};

/// A tensor over the memory of an operand.
type Operand<'a> = &'a dyn Fn(&BufferView) -> Result<Tensor>;

/// The result of a step, and where it is to go; `None` for other steps.
pub(super) fn compute<'a>(
    step: &'a Extern,
    operand: Operand<'_>,
) -> Result<Option<(Tensor, &'a BufferView)>> {
    Ok(match step {
        Extern::Matmul(m) => Some((product(m, operand)?, &m.out)),
        Extern::Convolution(c) => Some((convolution(c, operand)?, &c.out)),
        Extern::Op { .. } => None,
    })
}

fn product(m: &Matmul, operand: Operand<'_>) -> Result<Tensor> {
    let mut y = aten::matmul(&operand(&m.a)?, &operand(&m.b)?)?;
    if let Some(bias) = &m.bias {
        y = aten::add_tensor(&y, &operand(bias)?, Scalar::Int(1))?;
    }
    y = activated(y, m.activation)?;
    if let Some(residual) = &m.residual {
        y = aten::add_tensor(&y, &operand(residual)?, Scalar::Int(1))?;
    }
    aten::expand(&y, &m.out.sizes, false)
}

fn convolution(c: &Convolution, operand: Operand<'_>) -> Result<Tensor> {
    let (input, weight) = (operand(&c.input)?, operand(&c.weight)?);
    let bias = c.bias.as_ref().map(operand).transpose()?;
    let zeros = Dims::from_elem(0, c.stride.len());
    let mut y = aten::convolution(
        &input,
        &weight,
        bias.as_ref(),
        &c.stride,
        &c.padding,
        &c.dilation,
        false,
        &zeros,
        c.groups,
    )?;
    // a number for each channel
    let wide = |v: &BufferView| {
        let mut sizes = Dims::from_elem(1, c.out.sizes.len());
        sizes[1] = -1;
        aten::view(&operand(v)?, &sizes)
    };
    for follow in &c.follow {
        y = match follow {
            Follow::Scale(v) => aten::mul_tensor(&y, &wide(v)?)?,
            Follow::Shift(v) => aten::add_tensor(&y, &wide(v)?, Scalar::Int(1))?,
            Follow::Add(v) => aten::add_tensor(&y, &operand(v)?, Scalar::Int(1))?,
            Follow::Activation(a) => activated(y, *a)?,
        };
    }
    Ok(y)
}

fn activated(y: Tensor, activation: Activation) -> Result<Tensor> {
    match activation {
        Activation::None => Ok(y),
        Activation::Relu => aten::relu(&y),
        Activation::GeluErf => aten::gelu(&y, "none"),
        Activation::GeluTanh => aten::gelu(&y, "tanh"),
        Activation::Silu => aten::silu(&y),
        Activation::Tanh => aten::tanh(&y),
        Activation::Sigmoid => aten::sigmoid(&y),
    }
}
