//! Scans: running sums, products, extremes and logarithms of sums along a dimension.
//!
//! Rows are tiles of blocks: the sum of each tile is taken, then the sums of all that is left of each,
//! then the results. (The reduce-then-scan of Merrill and Garland's "Single-pass parallel prefix scan",
//! which reads the elements twice and needs no order among blocks.) Many rows beside one another are
//! scanned by a thread each. Which numbers are added in which order follows from the sizes, so
//! results are the same in each run.

use crate::driver::{Argument, DeviceMemory, Launch, Stream};
use crate::elements;
use crate::programs::{self, ProgramError};
use straightline_passes::ir::DType;

#[cfg(test)]
mod tests;

const TILE: i64 = 2048;
const THREADS: u32 = 256;
const BLOCKS: i64 = 1 << 30;
/// From so many rows beside one another on, a thread for each keeps a GPU busy.
const MANY: i64 = 4096;
/// Rows of so few elements are scanned by a thread each, however few there are.
const SHORT: i64 = 64;
const KERNELS: [&str; 4] = ["tile_sums", "scan_sums", "scan_tiles", "scan_columns"];

/// What runs along a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Running {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The largest so far, and the last place where it was; a NaN stays.
    Largest,
    /// The smallest so far, in the same way.
    Smallest,
    /// The logarithm of the sum of exponentials.
    LogSumExp,
}

/// A dense tensor as the dimensions before the scanned one, the scanned one, and those behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extents {
    /// All dimensions before it, as one.
    pub before: i64,
    /// The elements of a row.
    pub length: i64,
    /// All dimensions behind it, as one.
    pub behind: i64,
}

impl Extents {
    /// Whether [`scan`] takes rows that are not dense: else they are to be made so, with `behind` 1.
    ///
    /// ```
    /// use straightline_cuda::scan::Extents;
    /// assert!(Extents { before: 1, length: 1000, behind: 10_000 }.fits());
    /// assert!(!Extents { before: 1, length: 10_000, behind: 10 }.fits());
    /// ```
    pub fn fits(&self) -> bool {
        self.behind == 1 || self.before * self.behind >= MANY || self.length <= SHORT
    }
}

/// Whether there are scans of a dtype.
///
/// ```
/// use straightline_cuda::scan::{Running, scans};
/// use straightline_passes::ir::DType;
/// assert!(scans(Running::Sum, DType::BF16) && !scans(Running::LogSumExp, DType::I32));
/// ```
pub fn scans(running: Running, dtype: DType) -> bool {
    text(running, dtype).is_some()
}

/// Queues a scan of dense elements into dense results of the same dtype; extremes have places as well,
/// of `i64`, at the second address.
///
/// # Safety
///
/// `source` leads to the elements, `values` and `indices` to room for as many, memory of the stream's
/// device until it has come so far; nothing overlaps the results.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If [`scans`] or [`Extents::fits`] says no.
pub unsafe fn scan(
    stream: &Stream,
    running: Running,
    dtype: DType,
    of: Extents,
    source: u64,
    [values, indices]: [u64; 2],
) -> Result<(), ProgramError> {
    let rows = of.before * of.behind;
    if rows * of.length == 0 {
        return Ok(());
    }
    let text = text(running, dtype).expect("there are scans of the dtype");
    assert!(of.fits(), "rows that are not dense are many or short");
    let functions = programs::functions(stream.device(), &text, &KERNELS)?;
    let results = [Argument::Pointer(values), Argument::Pointer(indices)];
    let queue = |kernel: usize, blocks: i64, arguments: &[Argument<'_>]| {
        let blocks = [blocks.min(BLOCKS) as u32, 1, 1];
        let launch = Launch { blocks, threads: [THREADS, 1, 1], shared_bytes: 0 };
        // SAFETY: the arguments are the kernel's, and the caller's contract.
        unsafe { functions[kernel].launch(stream, launch, arguments) }
    };
    if of.behind > 1 || (of.length <= SHORT && rows >= MANY) {
        let numbers = [rows, of.length, of.behind];
        let blocks = (rows + i64::from(THREADS) - 1) / i64::from(THREADS);
        let [values, indices] = results;
        queue(
            3,
            blocks,
            &[Argument::Pointer(source), values, indices, Argument::Numbers(&numbers)],
        )?;
        return Ok(());
    }
    let tiles = (of.length + TILE - 1) / TILE;
    let numbers = [rows, of.length, tiles];
    let numbers = Argument::Numbers(&numbers);
    let sums = match tiles {
        1 => None,
        // 16 bytes are room for a value and a place
        _ => Some(DeviceMemory::new(stream, (rows * tiles) as usize * 16)?),
    };
    let at = Argument::Pointer(sums.as_ref().map_or(0, DeviceMemory::address));
    if sums.is_some() {
        queue(0, rows * tiles, &[Argument::Pointer(source), at, numbers])?;
        queue(1, rows, &[at, numbers])?;
    }
    let [values, indices] = results;
    queue(2, rows * tiles, &[Argument::Pointer(source), at, values, indices, numbers])?;
    Ok(())
}

fn text(running: Running, dtype: DType) -> Option<String> {
    let head = elements::head(dtype)?;
    let float = dtype.is_floating();
    // integers wrap, which is defined for what has no sign
    let sum = match dtype {
        DType::F64 => "double",
        DType::I64 => "unsigned long long",
        _ if float => "float",
        _ => "unsigned int",
    };
    let operation = match running {
        _ if dtype == DType::Bool && running != Running::Largest && running != Running::Smallest => {
            return None;
        }
        Running::Sum | Running::Product => {
            let (none, sign) = if running == Running::Sum { (0, '+') } else { (1, '*') };
            format!(
                "typedef {sum} Sum;
__device__ __forceinline__ Sum none() {{ return {none}; }}
__device__ __forceinline__ Sum of(Element e, long long) {{ return (Sum)value_of(e); }}
__device__ __forceinline__ Sum join(Sum a, Sum b) {{ return a {sign} b; }}
__device__ __forceinline__ void put(Sum s, long long at, Element* values, long long*) {{ values[at] = element_of((Value)s); }}
"
            )
        }
        Running::Largest | Running::Smallest => {
            let sign = if running == Running::Largest { ">=" } else { "<=" };
            format!(
                "struct Sum {{ Value value; long long place; }};
__device__ __forceinline__ Sum none() {{ return {{(Value)0, -1}}; }}
__device__ __forceinline__ Sum of(Element e, long long place) {{ return {{value_of(e), place}}; }}
__device__ __forceinline__ Sum join(Sum a, Sum b) {{
    if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;
    return b.value != b.value || (a.value == a.value && b.value {sign} a.value) ? b : a;
}}
__device__ __forceinline__ void put(Sum s, long long at, Element* values, long long* indices) {{
    values[at] = element_of(s.value);
    indices[at] = s.place;
}}
"
            )
        }
        Running::LogSumExp if float => format!(
            "typedef {sum} Sum;
__device__ __forceinline__ Sum none() {{ return (Sum)-1 / (Sum)0; }}
__device__ __forceinline__ Sum of(Element e, long long) {{ return value_of(e); }}
__device__ __forceinline__ Sum join(Sum a, Sum b) {{
    const Sum low = a != a || a < b ? a : b, high = a != a || a > b ? a : b;
    if (low == high && isinf(low)) return a;
    return log1p(exp(low - high)) + high;
}}
__device__ __forceinline__ void put(Sum s, long long at, Element* values, long long*) {{ values[at] = element_of(s); }}
"
        ),
        Running::LogSumExp => return None,
    };
    Some(format!("{head}{operation}{}", include_str!("scan.cu")))
}
