//! Sums of rows that belong together: of embeddings' gradients, of weights in bins.
//!
//! Rows are put into order by where they go first (a stable sort), so that each sum is one thread's or one
//! block's, and its order does not vary from run to run: no atomic additions of floats.

use crate::driver::{Argument, Launch, Stream};
use crate::elements;
use crate::programs::{self, ProgramError};
use straightline_passes::ir::DType;

const THREADS: u32 = 256;
const BLOCKS: i64 = 1 << 30;
/// From so many elements of a row on, a thread adds up one of them; below, a block does.
const WIDE: i64 = 32;

/// Whether there are sums of a dtype.
///
/// ```
/// use straightline_cuda::segments::adds;
/// use straightline_passes::ir::DType;
/// assert!(adds(DType::BF16) && !adds(DType::Bool));
/// ```
pub fn adds(dtype: DType) -> bool {
    dtype != DType::Bool && elements::head(dtype).is_some()
}

/// Queues sums of rows of `width` elements: the sum of a segment is that of the rows `order[begins[s]]` to
/// `order[begins[s + 1]]`, exclusively, in this order. `order` and `begins` are of `i64`, and there is one
/// begin more than segments.
///
/// # Safety
///
/// The addresses lead to the rows, to their order, to the begins and to room for the sums, memory of the
/// stream's device until it has come so far; nothing overlaps the sums.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If [`adds`] says no.
pub unsafe fn sums(
    stream: &Stream,
    dtype: DType,
    [segments, width]: [i64; 2],
    [source, order, begins, out]: [u64; 4],
) -> Result<(), ProgramError> {
    if segments * width == 0 {
        return Ok(());
    }
    let functions =
        programs::functions(stream.device(), &text(dtype), &["by_threads", "by_blocks"])?;
    let (which, blocks) = match width >= WIDE {
        true => (0, (segments * width + i64::from(THREADS) - 1) / i64::from(THREADS)),
        false => (1, segments * width),
    };
    let blocks = [blocks.min(BLOCKS) as u32, 1, 1];
    let launch = Launch { blocks, threads: [THREADS, 1, 1], shared_bytes: 0 };
    let addresses = [source, order, begins, out].map(Argument::Pointer);
    let numbers = [segments, width];
    let arguments = [&addresses[..], &[Argument::Numbers(&numbers)]].concat();
    // SAFETY: the arguments are the kernel's, and the caller's contract.
    unsafe { functions[which].launch(stream, launch, &arguments)? };
    Ok(())
}

fn text(dtype: DType) -> String {
    let head = elements::head(dtype).expect("there are sums of the dtype");
    // integers wrap, which is defined for what has no sign
    let sum = match dtype {
        DType::F64 => "double",
        DType::I64 => "unsigned long long",
        _ if dtype.is_floating() => "float",
        _ => "unsigned int",
    };
    format!(
        "{head}
typedef {sum} Sum;
struct Segments {{ long long count, width; }};
extern \"C\" __global__ void by_threads(const Element* source, const long long* order, const long long* begins, Element* out, const Segments s) {{
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < s.count * s.width; i += step) {{
        const long long segment = i / s.width, column = i % s.width, end = begins[segment + 1];
        Sum sum = 0;
        for (long long j = begins[segment]; j < end; j++) sum += (Sum)value_of(source[order[j] * s.width + column]);
        out[i] = element_of((Value)sum);
    }}
}}
extern \"C\" __global__ void __launch_bounds__({THREADS}) by_blocks(const Element* source, const long long* order, const long long* begins, Element* out, const Segments s) {{
    for (long long i = blockIdx.x; i < s.count * s.width; i += gridDim.x) {{
        const long long segment = i / s.width, column = i % s.width, end = begins[segment + 1];
        Sum sum = 0;
        for (long long j = begins[segment] + threadIdx.x; j < end; j += {THREADS})
            sum += (Sum)value_of(source[order[j] * s.width + column]);
        sum = combined<{THREADS}>(sum, [](Sum a, Sum b) {{ return a + b; }});
        if (threadIdx.x == 0) out[i] = element_of((Value)sum);
    }}
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{given, numbers, room, stream, taken};

    #[test]
    fn sums_are_those_of_the_rows_of_each_segment() {
        let Some(stream) = stream() else { return };
        for width in [1usize, 3, 40] {
            let rows = 700;
            let all: Vec<f32> = numbers(9).take(rows * width).map(|x| (x % 100) as f32).collect();
            let order: Vec<i64> = (0..rows as i64).rev().collect();
            let begins = [0i64, 300, 300, 301, 700];
            let places = [given(&stream, &all), given(&stream, &order), given(&stream, &begins)];
            let out = room::<f32>(&stream, 4 * width);
            let [a, b, c] = [0, 1, 2].map(|i: usize| places[i].address());
            // SAFETY: there are so many.
            unsafe { sums(&stream, DType::F32, [4, width as i64], [a, b, c, out.address()]) }
                .expect("it is queued");
            let got = taken::<f32>(&stream, &out, 4 * width);
            for (s, pair) in begins.windows(2).enumerate() {
                for column in 0..width {
                    let of = |j: i64| all[order[j as usize] as usize * width + column];
                    let want: f32 = (pair[0]..pair[1]).map(of).sum();
                    assert_eq!(got[s * width + column], want, "{width} {s} {column}");
                }
            }
        }
    }
}
