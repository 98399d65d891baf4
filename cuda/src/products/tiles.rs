//! Products by a kernel of our own, for any strides and with any epilogue.
//!
//! Each element is one chain of fused multiply-adds over the inner dimension, in `f32` for the halves:
//! the order that products of the CPU have.

use super::{Epilogue, Product, ProductError};
use crate::driver::{Argument, Launch, Stream};
use crate::emit::Numeric;
use crate::programs::Known;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::Activation;

/// Rows and columns of a tile of the result.
const TILE: i64 = 64;
const THREADS: u32 = 256;
/// Blocks along the rows, and along the batch.
const MOST: i64 = 65_535;

/// Queues products with what follows them.
///
/// # Safety
///
/// As [`super::product`].
pub(super) unsafe fn product(stream: &Stream, p: &Product) -> Result<(), ProductError> {
    let [m, n, _] = p.sizes;
    let tiles = |n: i64| (n + TILE - 1) / TILE;
    let blocks = [tiles(n), tiles(m).min(MOST), p.batch.min(MOST)].map(|n| n as u32);
    let addresses = [p.a.address, p.b.address, p.c.address];
    // SAFETY: the arguments are the kernel's, and the caller's contract.
    unsafe { launch(stream, p, "product", blocks, &addresses) }
}

/// Queues what follows products that are in `c`.
///
/// # Safety
///
/// As [`super::product`].
pub(super) unsafe fn follow(stream: &Stream, p: &Product) -> Result<(), ProductError> {
    let [m, n, _] = p.sizes;
    let blocks = (p.batch * m * n).unsigned_abs().div_ceil(THREADS.into()).min(1 << 20) as u32;
    // SAFETY: the arguments are the kernel's, and the caller's contract.
    unsafe { launch(stream, p, "follow", [blocks, 1, 1], &[p.c.address]) }
}

/// # Safety
///
/// As [`super::product`]; the kernel takes these addresses before those of the epilogue.
unsafe fn launch(
    stream: &Stream,
    p: &Product,
    kernel: &str,
    blocks: [u32; 3],
    addresses: &[u64],
) -> Result<(), ProductError> {
    type Key = (DType, bool, Activation, bool);
    static KNOWN: Known<Key> = Known::new();
    let key = (p.dtype, p.then.bias.is_some(), p.then.activation, p.then.residual.is_some());
    let names = ["product", "follow"];
    let functions = KNOWN.functions(stream.device(), key, &names, || text(p))?;
    let Some(function) = functions.iter().find(|f| f.name() == kernel) else { return Ok(()) };
    let Epilogue { bias, residual, .. } = p.then;
    let [m, n, k] = p.sizes;
    let mut numbers = vec![p.batch, m, n, k];
    [p.a, p.b, p.c].iter().for_each(|of| numbers.extend(of.strides));
    numbers.push(bias.map_or(0, |b| b.stride));
    numbers.extend(residual.map_or([0; 3], |r| r.strides));
    let after = [bias.map_or(0, |b| b.address), residual.map_or(0, |r| r.address)];
    let mut arguments: Vec<Argument<'_>> =
        addresses.iter().chain(&after).map(|a| Argument::Pointer(*a)).collect();
    arguments.push(Argument::Numbers(&numbers));
    let launch = Launch { blocks, threads: [THREADS, 1, 1], shared_bytes: 0 };
    // SAFETY: the caller's contract.
    unsafe { function.launch(stream, launch, &arguments)? };
    Ok(())
}

fn text(p: &Product) -> Result<String, ProductError> {
    let numeric = Numeric::of(p.dtype).ok_or(ProductError::DType { dtype: p.dtype })?;
    let mut after = String::new();
    let mut line = |line: String| after.push_str(&format!("    {line}\n"));
    if p.then.bias.is_some() {
        line("v = rounded(v + widened(bias[col * p.bias]));".into());
    }
    if p.then.activation != Activation::None {
        line("v = rounded(v);".into());
        line(format!("v = {};", numeric.activated(p.then.activation, "v")));
    }
    if p.then.residual.is_some() {
        line(
            "const long long at = z * p.residual[0] + row * p.residual[1] + col * p.residual[2];"
                .into(),
        );
        line("v = rounded(rounded(v) + widened(residual[at]));".into());
    }
    Ok(format!(
        "{}
struct Product {{ long long batch, m, n, k, a[3], b[3], c[3], bias, residual[3]; }};
{}
__device__ __forceinline__ wide finished(
    wide v, const Product& p, const element* bias, const element* residual, long long z, long long row, long long col) {{
{after}    return v;
}}
",
        numeric.header(),
        include_str!("tiles.cu"),
    ))
}
