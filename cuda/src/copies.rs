//! Copies between strided tensors of one device, with a conversion.

use crate::driver::{Argument, Launch, Stream};
use crate::emit::conversion;
use crate::programs::{self, ProgramError};
use straightline_passes::ir::DType;

/// A strided tensor of a device.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// Its first element.
    pub address: u64,
    /// Its elements.
    pub dtype: DType,
    /// Sizes.
    pub sizes: &'a [i64],
    /// Strides, in elements.
    pub strides: &'a [i64],
}

/// Dimensions that the kernel has room for; PyTorch's limit is 64, and neighbouring ones that lie
/// alike are one.
const DIMENSIONS: usize = 64;
const THREADS: u32 = 256;

/// Dimensions as sizes and both strides, the outermost first: those of one element are left out, and
/// those that follow one another in both are one.
fn merged(sizes: &[i64], [to, from]: [&[i64]; 2]) -> Vec<[i64; 3]> {
    let mut all: Vec<[i64; 3]> = Vec::new();
    for i in (0..sizes.len()).filter(|i| sizes[*i] != 1) {
        let next = [sizes[i], to[i], from[i]];
        match all.last_mut() {
            Some([n, a, b]) if *a == next[1] * next[0] && *b == next[2] * next[0] => {
                *n *= next[0];
                (*a, *b) = (next[1], next[2]);
            }
            _ => all.push(next),
        }
    }
    all
}

/// Copies elements, converted: `from` has the sizes of `to`.
///
/// # Safety
///
/// Both are memory of the stream's device until it has come so far. No element of `to` is another one
/// of `from`, unless it is the same.
///
/// # Errors
///
/// [`ProgramError`].
pub unsafe fn copy(
    stream: &Stream,
    to: Strided<'_>,
    from: Strided<'_>,
) -> Result<(), ProgramError> {
    let count: i64 = to.sizes.iter().product();
    if count == 0 {
        return Ok(());
    }
    let dims = merged(to.sizes, [to.strides, from.strides]);
    let dense = matches!(dims.as_slice(), [] | [[_, 1, 1]]);
    if dense && to.dtype == from.dtype {
        let bytes = count as usize * to.dtype.size();
        // SAFETY: the caller's contract.
        unsafe { stream.copy(to.address, from.address, bytes)? };
        return Ok(());
    }
    let mut numbers = vec![count, dims.len() as i64];
    for which in 0..3 {
        numbers.extend((0..DIMENSIONS).map(|d| dims.get(d).map_or(0, |dim| dim[which])));
    }
    let text = program(to.dtype, from.dtype);
    let functions = programs::functions(stream.device(), &text, &["copy_strided"])?;
    let blocks = (count as u64).div_ceil(THREADS.into()).min(1 << 20) as u32;
    let launch = Launch { blocks: [blocks, 1, 1], threads: [THREADS, 1, 1], shared_bytes: 0 };
    let arguments = [
        Argument::Pointer(to.address),
        Argument::Pointer(from.address),
        Argument::Numbers(&numbers),
    ];
    // SAFETY: the arguments are the kernel's, and the caller's contract.
    unsafe { functions[0].launch(stream, launch, &arguments)? };
    Ok(())
}

fn program(to: DType, from: DType) -> String {
    let (prelude, to_type, from_type, value) = conversion(to, from, "from[b]");
    format!(
        "{prelude}
struct Shape {{ long long count, dims, sizes[{DIMENSIONS}], to[{DIMENSIONS}], from[{DIMENSIONS}]; }};
extern \"C\" __global__ void copy_strided({to_type}* to, const {from_type}* from, const Shape shape) {{
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < shape.count; i += step) {{
        long long rest = i, a = 0, b = 0;
        for (int d = (int)shape.dims - 1; d >= 0; d--) {{
            const long long next = rest / shape.sizes[d], at = rest - next * shape.sizes[d];
            a += at * shape.to[d];
            b += at * shape.from[d];
            rest = next;
        }}
        to[a] = {value};
    }}
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_that_follow_one_another_are_one() {
        assert_eq!(merged(&[2, 3, 4], [&[12, 4, 1], &[12, 4, 1]]), [[24, 1, 1]]);
        assert_eq!(merged(&[2, 1, 4], [&[4, 9, 1], &[1, 0, 2]]), [[2, 4, 1], [4, 1, 2]]);
        assert_eq!(merged(&[1, 1], [&[1, 1], &[5, 5]]), [[0i64; 3]; 0]);
    }
}
