//! Matrix products, by a kernel of our own: tiles of 64 x 64 in shared memory, 4 x 4 sums in the
//! registers of a thread.
//!
//! Each element is one chain of fused multiply-adds over the inner dimension, in `f32` for the halves:
//! the order that products of the CPU have. Products of integers wrap.

use crate::driver::{Argument, Launch, Stream};
use crate::emit::product_types;
use crate::programs::{self, ProgramError};
use straightline_passes::ir::DType;

/// Rows and columns of a tile of the result.
const TILE: i64 = 64;
const THREADS: u32 = 256;
/// Blocks along the rows, and along the batch.
const MOST: i64 = 65_535;

/// A batch of matrices on a device: the distances, in elements, from one to the next, from row to row,
/// and from column to column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Matrices {
    /// The first element.
    pub address: u64,
    /// Distances.
    pub strides: [i64; 3],
}

/// A batch of products `c = a b`, of `m` x `k` by `k` x `n` matrices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Product {
    /// Of all three.
    pub dtype: DType,
    /// How many.
    pub batch: i64,
    /// Rows of `a`, columns of `b`, columns of `a`.
    pub sizes: [i64; 3],
    /// The left factors.
    pub a: Matrices,
    /// The right factors.
    pub b: Matrices,
    /// The results.
    pub c: Matrices,
}

/// Whether products of a dtype are computed here.
///
/// ```
/// use straightline_cuda::products::computes;
/// use straightline_passes::ir::DType;
/// assert!(computes(DType::BF16) && !computes(DType::Bool));
/// ```
pub fn computes(dtype: DType) -> bool {
    product_types(dtype).is_some()
}

/// Queues products.
///
/// # Safety
///
/// The matrices are memory of the stream's device until it has come so far, and nothing overlaps the
/// results.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If [`computes`] says no.
pub unsafe fn product(stream: &Stream, p: &Product) -> Result<(), ProgramError> {
    let [m, n, k] = p.sizes;
    if p.batch * m * n == 0 {
        return Ok(());
    }
    let functions = programs::functions(stream.device(), &text(p.dtype), &["product"])?;
    let mut numbers = vec![p.batch, m, n, k];
    [p.a, p.b, p.c].iter().for_each(|of| numbers.extend(of.strides));
    let tiles = |n: i64| (n + TILE - 1) / TILE;
    let blocks = [tiles(n), tiles(m).min(MOST), p.batch.min(MOST)].map(|n| n as u32);
    let launch = Launch { blocks, threads: [THREADS, 1, 1], shared_bytes: 0 };
    let arguments = [
        Argument::Pointer(p.a.address),
        Argument::Pointer(p.b.address),
        Argument::Pointer(p.c.address),
        Argument::Numbers(&numbers),
    ];
    // SAFETY: the arguments are the kernel's, and the caller's contract.
    unsafe { functions[0].launch(stream, launch, &arguments)? };
    Ok(())
}

fn text(dtype: DType) -> String {
    let types = product_types(dtype).expect("its products are computed here");
    let (prelude, element, sum, fma) = (types.prelude, types.element, types.sum, types.fma);
    let (a, b, c) = (types.widened("a[at]"), types.widened("b[at]"), types.narrowed("sums[i][j]"));
    format!(
        "{prelude}
struct Product {{ long long batch, m, n, k, a[3], b[3], c[3]; }};
extern \"C\" __global__ void __launch_bounds__({THREADS}) product(const {element}* a, const {element}* b, {element}* c, const Product p) {{
    __shared__ {sum} left[16][65], right[16][64];
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    const long long col0 = (long long)blockIdx.x * 64;
    for (long long z = blockIdx.z; z < p.batch; z += gridDim.z)
    for (long long row0 = (long long)blockIdx.y * 64; row0 < p.m; row0 += (long long)gridDim.y * 64) {{
        {sum} sums[4][4] = {{}};
        for (long long k0 = 0; k0 < p.k; k0 += 16) {{
            for (int i = 0; i < 4; i++) {{
                const int e = threadIdx.x + i * {THREADS};
                const long long row = row0 + e / 16, k = k0 + e % 16;
                const long long kk = k0 + e / 64, col = col0 + e % 64;
                {sum} v = 0, w = 0;
                if (row < p.m && k < p.k) {{
                    const long long at = z * p.a[0] + row * p.a[1] + k * p.a[2];
                    v = {a};
                }}
                if (kk < p.k && col < p.n) {{
                    const long long at = z * p.b[0] + kk * p.b[1] + col * p.b[2];
                    w = {b};
                }}
                left[e % 16][e / 16] = v;
                right[e / 64][e % 64] = w;
            }}
            __syncthreads();
            for (int s = 0; s < 16; s++) {{
                for (int i = 0; i < 4; i++)
                    for (int j = 0; j < 4; j++) sums[i][j] = {fma}(left[s][y * 4 + i], right[s][x * 4 + j], sums[i][j]);
            }}
            __syncthreads();
        }}
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {{
                const long long row = row0 + y * 4 + i, col = col0 + x * 4 + j;
                if (row < p.m && col < p.n) c[z * p.c[0] + row * p.c[1] + col * p.c[2]] = {c};
            }}
    }}
}}
"
    )
}
