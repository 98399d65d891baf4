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
    let functions = programs::functions(stream.device(), &text(dtype), &KERNELS)?;
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

/// Queues rows of `width` elements into the rows of `out` that their keys say, added to what is there or put in
/// its place: `keys` (of `i64`) are in ascending order, and row `order[i]` goes to `out`'s row `keys[i]`. Of rows
/// with one key the sum is taken in their order, or the last one is put.
///
/// # Safety
///
/// The addresses lead to `count` keys, as many places of rows, the rows and a result that has all of the keys'
/// rows, memory of the stream's device until it has come so far; nothing overlaps the result.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If [`adds`] says no.
pub unsafe fn rows_into(
    stream: &Stream,
    dtype: DType,
    add: bool,
    [count, width]: [i64; 2],
    [source, order, keys, out]: [u64; 4],
) -> Result<(), ProgramError> {
    if count * width == 0 {
        return Ok(());
    }
    let functions = programs::functions(stream.device(), &text(dtype), &KERNELS)?;
    let blocks = (count * width + i64::from(THREADS) - 1) / i64::from(THREADS);
    let blocks = [blocks.min(BLOCKS) as u32, 1, 1];
    let launch = Launch { blocks, threads: [THREADS, 1, 1], shared_bytes: 0 };
    let addresses = [source, order, keys, out].map(Argument::Pointer);
    let numbers = [count, width];
    let arguments = [&addresses[..], &[Argument::Numbers(&numbers)]].concat();
    // SAFETY: the arguments are the kernel's, and the caller's contract.
    unsafe { functions[if add { 2 } else { 3 }].launch(stream, launch, &arguments)? };
    Ok(())
}

const KERNELS: [&str; 4] = ["by_threads", "by_blocks", "add_rows", "put_rows"];

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
extern \"C\" __global__ void add_rows(const Element* source, const long long* order, const long long* keys, Element* out, const Segments s) {{
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < s.count * s.width; i += step) {{
        long long j = i / s.width;
        const long long column = i % s.width, key = keys[j];
        if (j && keys[j - 1] == key) continue;
        Sum sum = (Sum)value_of(out[key * s.width + column]);
        for (; j < s.count && keys[j] == key; j++) sum += (Sum)value_of(source[order[j] * s.width + column]);
        out[key * s.width + column] = element_of((Value)sum);
    }}
}}
extern \"C\" __global__ void put_rows(const Element* source, const long long* order, const long long* keys, Element* out, const Segments s) {{
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < s.count * s.width; i += step) {{
        const long long j = i / s.width, column = i % s.width, key = keys[j];
        if (j + 1 < s.count && keys[j + 1] == key) continue;
        out[key * s.width + column] = source[order[j] * s.width + column];
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
    fn rows_are_added_or_put_where_their_keys_say() {
        let Some(stream) = stream() else { return };
        let (count, width, rows) = (900i64, 3i64, 50usize);
        let keys: Vec<i64> = numbers(5).take(count as usize).map(|x| (x % 50) as i64).collect();
        let mut order: Vec<i64> = (0..count).collect();
        order.sort_by_key(|i| keys[*i as usize]);
        let sorted: Vec<i64> = order.iter().map(|i| keys[*i as usize]).collect();
        let all: Vec<f64> =
            numbers(6).take((count * width) as usize).map(|x| (x % 100) as f64).collect();
        for add in [true, false] {
            let places = [given(&stream, &all), given(&stream, &[1.0f64; 150])];
            let (of_order, of_keys) = (given(&stream, &order), given(&stream, &sorted));
            let [source, out] = [0, 1].map(|i: usize| places[i].address());
            let addresses = [source, of_order.address(), of_keys.address(), out];
            // SAFETY: there are so many.
            unsafe { rows_into(&stream, DType::F64, add, [count, width], addresses) }
                .expect("it is queued");
            let mut want = vec![1.0; rows * 3];
            for (i, key) in keys.iter().enumerate() {
                for c in 0..3 {
                    let (to, v) = (&mut want[*key as usize * 3 + c], all[i * 3 + c]);
                    *to = if add { *to + v } else { v };
                }
            }
            assert_eq!(taken::<f64>(&stream, &places[1], rows * 3), want, "{add}");
        }
    }

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
