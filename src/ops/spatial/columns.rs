//! Windows of images as columns, and back; the gradient of `unfold`.

use super::check;
use super::layout::{Format, check_dtype, result};
use crate::error::Result;
use crate::ops::common::wrap_dim;
use crate::ops::pointwise::complex::by_parts;
use crate::tensor::Tensor;
use straightline_catalog::DType;
use straightline_catalog::layout;
use straightline_runtime::cpu::kernels::spatial::{self, Columns};

/// Checks the arguments and works out the windows on an image of these sizes.
fn columns(
    what: &str,
    image: &[i64],
    kernel: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Columns> {
    let named = [
        ("kernel_size", kernel, 1),
        ("dilation", dilation, 1),
        ("padding", padding, 0),
        ("stride", stride, 1),
    ];
    for (name, values, least) in named {
        check!(
            values.len() == 2 && values.iter().all(|v| *v >= least),
            "{what}: It is expected {name} equals to 2 numbers of at least {least}, but got {values:?}"
        );
    }
    let mut blocks = [0; 2];
    for d in 0..2 {
        let [n, k, dil, pad, s] =
            [image[d], kernel[d], dilation[d], padding[d], stride[d]].map(i128::from);
        let count = (n + 2 * pad - dil * (k - 1) - 1).div_euclid(s) + 1;
        check!(
            count >= 1,
            "{what}: Given an image of spatial size {image:?}, kernel_size={kernel:?}, dilation={dilation:?}, padding={padding:?}, calculated shape of the array of sliding blocks is too small: it must be at least one"
        );
        blocks[d] = usize::try_from(count).unwrap_or(usize::MAX);
    }
    let sizes = |v: &[i64]| [v[0] as usize, v[1] as usize];
    Ok(Columns {
        image: sizes(image),
        kernel: sizes(kernel),
        dilation: sizes(dilation),
        padding: sizes(padding),
        stride: sizes(stride),
        blocks,
    })
}

fn blocks_of(columns: &Columns) -> i64 {
    i64::try_from(columns.blocks[0].saturating_mul(columns.blocks[1])).unwrap_or(i64::MAX)
}

fn check_kind(what: &str, x: &Tensor) -> Result<()> {
    let known = x.dtype().is_floating() || x.dtype().is_complex() || x.dtype() == DType::Bool;
    check_dtype(what, x, known)
}

pub(crate) fn im2col(
    x: &Tensor,
    kernel: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    let what = "im2col";
    let rank = x.dim();
    check!(
        (rank == 3 || rank == 4) && x.sizes()[rank - 3..].iter().all(|n| *n > 0),
        "{what}: Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {:?}",
        x.sizes()
    );
    let columns = columns(what, &x.sizes()[rank - 2..], kernel, dilation, padding, stride)?;
    check_kind(what, x)?;
    let window = kernel[0].saturating_mul(kernel[1]);
    let mut sizes = x.sizes()[..rank - 3].to_vec();
    sizes.push(x.sizes()[rank - 3].saturating_mul(window));
    sizes.push(blocks_of(&columns));
    result(x, &sizes, Format::Contiguous, [x], |out, [x]| Ok(spatial::im2col(out, x, &columns)?))
}

pub(crate) fn col2im(
    x: &Tensor,
    output: &[i64],
    kernel: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    let what = "col2im";
    let rank = x.dim();
    check!(
        output.len() == 2,
        "{what}: It is expected output_size equals to 2, but got size {}",
        output.len()
    );
    check!(
        (rank == 2 || rank == 3) && x.sizes()[rank - 2..].iter().all(|n| *n > 0),
        "{what}: Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: {:?}",
        x.sizes()
    );
    check!(
        output.iter().all(|n| *n > 0),
        "{what}: Expected positive output_size, but got {output:?}"
    );
    let columns = columns(what, output, kernel, dilation, padding, stride)?;
    let (rows, blocks) = (x.sizes()[rank - 2], x.sizes()[rank - 1]);
    let window = kernel[0].saturating_mul(kernel[1]);
    check!(
        rows % window == 0,
        "{what}: Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={rows} and kernel_size={kernel:?}"
    );
    let expected = blocks_of(&columns);
    check!(
        blocks == expected,
        "{what}: Given output_size={output:?}, kernel_size={kernel:?}, dilation={dilation:?}, padding={padding:?}, stride={stride:?}, expected size of input's dimension 2 to match the calculated number of sliding blocks {expected}, but got input.size(2)={blocks}"
    );
    check_kind(what, x)?;
    if x.dtype().is_complex() {
        return by_parts(x, |x| col2im(x, output, kernel, dilation, padding, stride));
    }
    let mut sizes = x.sizes()[..rank - 2].to_vec();
    sizes.extend([rows / window, output[0], output[1]]);
    result(x, &sizes, Format::Contiguous, [x], |out, [x]| Ok(spatial::col2im(out, x, &columns)?))
}

pub(crate) fn unfold_backward(
    grad: &Tensor,
    input: &[i64],
    dim: i64,
    size: i64,
    step: i64,
) -> Result<Tensor> {
    let what = "unfold_backward";
    if grad.dtype().is_complex() {
        return by_parts(grad, |grad| unfold_backward(grad, input, dim, size, step));
    }
    let d = wrap_dim(dim, input.len())?;
    check!(step > 0, "{what}: step is {step} but must be > 0");
    check!(size >= 0, "{what}: size is {size} but must be >= 0");
    crate::ops::common::check_sizes(input)?;
    let n = input.get(d).copied().unwrap_or(1);
    check!(size <= n, "{what}: maximum size for tensor at dimension {d} is {n} but size is {size}");
    let windows = (n - size) / step + 1;
    let mut expected = input.to_vec();
    if let Some(at) = expected.get_mut(d) {
        *at = windows;
    }
    expected.push(size);
    // PyTorch's iterator stretches sizes of 1, as for the gradient of a sum
    let stretched = grad.dim() == expected.len()
        && layout::broadcast(grad.sizes(), &expected).is_some_and(|all| all[..] == expected[..]);
    check!(stretched, "{what}: expected a gradient of sizes {expected:?}, got {:?}", grad.sizes());
    let grad = &crate::ops::view::expand(grad, &expected, true)?;
    let windows = [size as usize, step as usize];
    result(grad, input, Format::Contiguous, [grad], |out, [grad]| {
        Ok(spatial::fold_windows(out, grad, d, windows)?)
    })
}
