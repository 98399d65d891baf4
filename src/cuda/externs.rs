//! Products and convolutions of a schedule, with what follows them.

use super::kernels::spatial_of as spatial;
use crate::error::{Error, Result};
use crate::{MatmulPrecision, float32_matmul_precision};
use straightline_cuda::convolution::{self, Convolution, Direction, Geometry, Operand};
use straightline_cuda::driver::{Device, Stream};
use straightline_cuda::products::{
    self, Epilogue, Matrices, Options, Product, ProductError, Vector, Workspace,
};
use straightline_passes::schedule::loops::{self, BufferId, BufferView, Extern, Follow, Matmul};

/// Where a buffer is.
pub(in crate::cuda) type Address<'a> = &'a dyn Fn(BufferId) -> u64;

fn product_error(e: ProductError) -> Error {
    Error::device(e.to_string())
}

/// How products are computed now.
fn options() -> Options {
    Options { tf32: float32_matmul_precision() == MatmulPrecision::High, ..Options::default() }
}

/// Whether there are kernels for a step.
pub(in crate::cuda) fn serves(step: &Extern) -> bool {
    match step {
        Extern::Matmul(m) => {
            let all = [Some(&m.a), Some(&m.b), m.bias.as_ref(), m.residual.as_ref()];
            let one = all.into_iter().flatten().all(|v| v.dtype == m.out.dtype);
            one && products::computes(m.out.dtype) && m.out.sizes.len() >= 2
        }
        Extern::Convolution(c) => {
            let one = c.reads().all(|v| v.dtype == c.out.dtype);
            let alike = |f: &Follow<BufferView>| match f {
                Follow::Add(v) => v.sizes == c.out.sizes && v.strides == c.out.strides,
                _ => true,
            };
            let kernel = || {
                let work = convolution_of(c, &|_| 0);
                convolution::workspace_bytes(&work).is_ok()
            };
            one && (3..=5).contains(&c.out.sizes.len()) && c.follow.iter().all(alike) && kernel()
        }
        Extern::Op { .. } => false,
    }
}

/// The workspace of a step that there are kernels for.
pub(in crate::cuda) fn workspace_bytes(
    device: &'static Device,
    step: &Extern,
    address: Address<'_>,
) -> Result<usize> {
    match step {
        Extern::Matmul(m) => {
            let each = products_of(m, address).into_iter().map(|p| {
                let bytes = products::workspace_bytes(device, &p, options());
                bytes.map_err(product_error)
            });
            each.into_iter().try_fold(0, |most, bytes| Ok(bytes?.max(most)))
        }
        Extern::Convolution(c) => convolution::workspace_bytes(&convolution_of(c, address))
            .map_err(|e| Error::device(e.to_string())),
        Extern::Op { .. } => Ok(0),
    }
}

/// Queues a step that there are kernels for.
///
/// # Safety
///
/// All that it reads and writes, and the workspace, is memory of the stream's device until it has come
/// so far.
///
/// # Errors
///
/// What the kernels and the driver say.
pub(in crate::cuda) unsafe fn queue(
    stream: &Stream,
    step: &Extern,
    address: Address<'_>,
    workspace: Workspace,
) -> Result<()> {
    match step {
        Extern::Matmul(m) => products_of(m, address).iter().try_for_each(|p| {
            // SAFETY: the caller's contract.
            unsafe { products::product(stream, p, options(), workspace) }.map_err(product_error)
        }),
        Extern::Convolution(c) => {
            let work = convolution_of(c, address);
            // SAFETY: the caller's contract.
            unsafe { convolution::convolve(stream, &work, workspace) }
                .map_err(|e| Error::device(e.to_string()))
        }
        Extern::Op { .. } => Ok(()),
    }
}

fn first(v: &BufferView, address: Address<'_>) -> u64 {
    address(v.buffer).wrapping_add_signed(v.offset * v.dtype.size() as i64)
}

/// A row of elements, such as a number for each column.
fn vector(v: &BufferView, address: Address<'_>) -> Vector {
    let stride =
        if v.sizes.last() == Some(&1) { 0 } else { v.strides.last().copied().unwrap_or(0) };
    Vector { address: first(v, address), stride }
}

/// The products of a step: one for each index of the leading dimensions but the last of them.
fn products_of(m: &Matmul, address: Address<'_>) -> Vec<Product> {
    let [outer @ .., _, _] = &*m.out.sizes else { return Vec::new() };
    let (rows, cols) = (m.out.sizes[outer.len()], m.out.sizes[outer.len() + 1]);
    let inner = m.a.sizes.last().copied().unwrap_or_default();
    let (outer, batch) = match outer {
        [outer @ .., last] => (outer, *last),
        [] => (outer, 1),
    };
    let count: i64 = outer.iter().product();
    let product = |i: i64| {
        let matrices = |v: &BufferView| {
            // operands may lack leading dimensions
            let rank = v.strides.len();
            let missing = m.out.sizes.len() - rank.min(m.out.sizes.len());
            let stride = |d: usize| if d < missing { 0 } else { v.strides[d - missing] };
            let (mut rest, mut at) = (i, v.offset);
            for d in (0..outer.len()).rev() {
                at += rest % outer[d] * stride(d);
                rest /= outer[d];
            }
            let last = m.out.sizes.len() - 2;
            let lead = if last == 0 { 0 } else { stride(last - 1) };
            let address = address(v.buffer).wrapping_add_signed(at * v.dtype.size() as i64);
            Matrices { address, strides: [lead, stride(last), stride(last + 1)] }
        };
        Product {
            dtype: m.out.dtype,
            batch,
            sizes: [rows, cols, inner],
            a: matrices(&m.a),
            b: matrices(&m.b),
            c: matrices(&m.out),
            then: Epilogue {
                bias: m.bias.as_ref().map(|v| vector(v, address)),
                activation: m.activation,
                residual: m.residual.as_ref().map(matrices),
            },
        }
    };
    (0..count).map(product).collect()
}

fn operand(v: &BufferView, address: Address<'_>) -> Operand {
    let [a, b, rest @ ..] = &*v.strides else {
        return Operand { address: first(v, address), strides: [0; 5] };
    };
    let [z, y, x] = spatial(rest, 1);
    Operand { address: first(v, address), strides: [*a, *b, z, y, x] }
}

fn convolution_of(c: &loops::Convolution, address: Address<'_>) -> Convolution {
    let (input, weight, output) = (&c.input.sizes, &c.weight.sizes, &c.out.sizes);
    let positions = |sizes: &[i64]| spatial(sizes.get(2..).unwrap_or_default(), 1);
    let size = |sizes: &[i64], d: usize| sizes.get(d).copied().unwrap_or_default();
    let follow = |f: &Follow<BufferView>| f.as_ref().map(|v| vector(v, address));
    Convolution {
        dtype: c.out.dtype,
        direction: Direction::Output,
        geometry: Geometry {
            batch: size(output, 0),
            channels: size(input, 1),
            filters: size(output, 1),
            groups: c.groups,
            input: positions(input),
            kernel: positions(weight),
            output: positions(output),
            stride: spatial(&c.stride, 1),
            padding: spatial(&c.padding, 0),
            dilation: spatial(&c.dilation, 1),
        },
        input: operand(&c.input, address),
        weight: operand(&c.weight, address),
        output: operand(&c.out, address),
        bias: c.bias.as_ref().map(|v| vector(v, address)),
        follow: c.follow.iter().map(follow).collect(),
    }
}
