//! Random numbers, by PyTorch's scheme for CUDA.
//!
//! What is drawn is to be what PyTorch draws on a GPU of the same kind from the same seed. No number here
//! was compared with one that a GPU has drawn. Known from publications:
//!
//! - Philox-4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3"), checked by the
//!   published answers of Random123 in the tests.
//! - cuRAND's use of it, documented in its headers: the seed is the key; the subsequence is the upper half of
//!   the counter and a quarter of the offset the lower one; a uniform `float` is `x 2^-32 + 2^-33`, in
//!   `(0, 1]`; 53 bits of two words make a `double`; normal numbers are Box and Muller's, the sine first.
//! - PyTorch's `DistributionTemplates.h`: blocks of 256 threads, no more of them than the GPU holds at once,
//!   so that the numbers depend on the GPU; a thread is a subsequence and takes four words for each step,
//!   whose elements are a grid apart (four of them; two of 64 bits); the offset then grows by four for each
//!   step; a uniform number that is the end of the range becomes its begin.
//!
//! Not known to agree: the last bit where PyTorch's compiler has or has not fused a product and a sum;
//! tensors of more than 2^31 elements, which PyTorch draws in pieces. Known not to agree:
//! [`Distribution::Probabilities`], and [`dropout`], which draws as [`Distribution::Bernoulli`] does, so that
//! compiled code, where it is such a mask, draws the same; PyTorch's reads neighbours together.

use crate::driver::{Argument, Device, Launch, Stream};
use crate::elements;
use crate::programs::{self, ProgramError};
use straightline_passes::ir::DType;

#[cfg(test)]
mod tests;

const THREADS: u32 = 256;

/// Where the numbers come from: the words of a seed from an offset on, a multiple of four, in each
/// subsequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Philox {
    /// The key.
    pub seed: u64,
    /// Words of each subsequence that are used up.
    pub offset: u64,
    /// If it is not 0, where a kernel finds, when it runs, two numbers of 64 bits: the key, and an offset that
    /// the other one is behind. So what is recorded once draws anew each time.
    pub state: u64,
}

/// What is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Distribution {
    /// From the first number to below the second.
    Uniform(f64, f64),
    /// Of a mean and a standard deviation.
    Normal(f64, f64),
    /// The exponential of a normal number.
    LogNormal(f64, f64),
    /// Of a rate.
    Exponential(f64),
    /// Of a median and a scale.
    Cauchy(f64, f64),
    /// How often something of this probability is tried until it happens.
    Geometric(f64),
    /// 1 with this probability, else 0.
    Bernoulli(f64),
    /// `count` integers from `base` on, 2^64 of them if that is 0.
    Integers {
        /// The smallest.
        base: i64,
        /// How many there are.
        count: u64,
        /// Whether each takes 64 bits.
        wide: bool,
    },
    /// 1 with the probability that each element of a tensor says: its address, of `f32`, or of `f64` if the
    /// second is true.
    Probabilities(u64, bool),
}

impl Distribution {
    /// The text of a program for results of a dtype. `None` where it has no such numbers.
    fn text(self, dtype: DType) -> Option<String> {
        let head = elements::head(dtype)?;
        let float = dtype.is_floating();
        let real = if dtype == DType::F64 { "double" } else { "float" };
        let (raw, raws, body) = match self {
            Distribution::Uniform(..) if float => (
                real,
                "units",
                "const Value from = value_of(element_of((Value)d.a)), to = value_of(element_of((Value)d.b));
    const Value value = value_of(element_of(fused(raw, value_of(element_of(to - from)), from)));
    return element_of(value == to ? from : value);",
            ),
            Distribution::Normal(..) if float => {
                (real, "normals", "return element_of(fused(raw, (Raw)d.b, (Raw)d.a));")
            }
            Distribution::LogNormal(..) if float => {
                (real, "normals", "return element_of(exp_of(fused(raw, (Raw)d.b, (Raw)d.a)));")
            }
            Distribution::Exponential(_) if float => (
                real,
                "units",
                // 1 would be 0, which is not drawn
                "const Raw least = -EPSILON / 2, log = raw >= (Raw)1 + least ? least : log_of(raw);
    return element_of((Raw)-1 / (Raw)d.a * log);",
            ),
            Distribution::Cauchy(..) if float => (
                real,
                "units",
                // tangents of what is nearer to the ends are infinite
                "const Raw most = (Raw)1 - EPSILON, within = raw > most ? most : raw < EPSILON ? EPSILON : raw;
    return element_of(fused((Raw)d.b, tan_of((Raw)3.14159265358979323846 * (within - (Raw)0.5)), (Raw)d.a));",
            ),
            Distribution::Geometric(_) => (
                real,
                "units",
                "return element_of((Value)ceil(log_of(raw) / log_of((Raw)1 - (Raw)d.a)));",
            ),
            Distribution::Bernoulli(_) => {
                (real, "units", "return element_of((Value)(raw < (Raw)d.a));")
            }
            Distribution::Integers { wide, .. } => (
                if wide { "unsigned long long" } else { "unsigned" },
                "integers",
                "return element_of((Value)in_range(raw, d));",
            ),
            Distribution::Probabilities(..) => {
                ("float", "units", "return element_of((Value)(raw <= p));")
            }
            _ => return None,
        };
        let epsilon = if real == "double" { "2.220446049250313e-16" } else { "1.1920929e-07f" };
        // what a probability is read as
        let (given, read, argument) = match self {
            Distribution::Probabilities(_, true) => {
                (", const double* given", "given[i]", "double p")
            }
            Distribution::Probabilities(..) => (", const float* given", "given[i]", "float p"),
            _ => ("", "0", "int"),
        };
        Some(format!(
            "{head}{}
typedef {raw} Raw;
#define EPSILON (({real}){epsilon})
#define UNROLL (16 / (int)sizeof(Raw))
__device__ __forceinline__ Element drawn(Raw raw, const Draws& d, {argument}) {{
    {body}
}}
extern \"C\" __global__ void __launch_bounds__({THREADS}) draw(Element* out{given}, const Draws d) {{
    const long long thread = (long long)blockIdx.x * {THREADS} + threadIdx.x, step = (long long)gridDim.x * {THREADS};
    const unsigned long long seed = seed_of(d);
    unsigned long long counter = counter_of(d);
    for (long long at = thread; at < d.count; at += step * UNROLL, counter++) {{
        Raw raw[UNROLL];
        {raws}(philox(seed, counter, thread), raw);
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {{
            const long long i = at + step * k;
            if (i < d.count) out[i] = drawn(raw[k], d, {read});
        }}
    }}
}}
",
            include_str!("random.cu")
        ))
    }

    /// The elements that four words make.
    fn unroll(self, dtype: DType) -> u64 {
        match self {
            Distribution::Integers { wide, .. } => 4 >> u32::from(wide),
            Distribution::Probabilities(..) => 4,
            _ if dtype == DType::F64 => 2,
            _ => 4,
        }
    }
}

/// Whether there are such numbers of a dtype.
///
/// ```
/// use straightline_cuda::random::{Distribution, draws};
/// use straightline_passes::ir::DType;
/// assert!(draws(Distribution::Bernoulli(0.5), DType::Bool));
/// assert!(!draws(Distribution::Normal(0.0, 1.0), DType::I32));
/// ```
pub fn draws(distribution: Distribution, dtype: DType) -> bool {
    distribution.text(dtype).is_some()
}

/// The blocks of a launch, and the words of each subsequence that it uses up.
fn policy(device: &Device, count: u64, unroll: u64) -> (u32, u64) {
    let (properties, threads) = (device.properties(), u64::from(THREADS));
    let each = u64::from(properties.threads_per_multiprocessor) / threads;
    let most = (u64::from(properties.multiprocessors) * each).max(1);
    let blocks = count.div_ceil(threads).clamp(1, most);
    let steps = count.div_ceil(threads * blocks * unroll);
    (blocks as u32, steps * 4)
}

/// The words of each subsequence that so many numbers use up: what a generator's offset grows by.
pub fn words(device: &Device, distribution: Distribution, dtype: DType, count: u64) -> u64 {
    policy(device, count, distribution.unroll(dtype)).1
}

/// Queues a fill of `count` elements that follow one another.
///
/// # Safety
///
/// `out` leads to room for them (and what a distribution leads to has as many, and a state two numbers), memory
/// of the stream's device until it has come so far.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If [`draws`] says no.
pub unsafe fn fill(
    stream: &Stream,
    distribution: Distribution,
    dtype: DType,
    count: u64,
    out: u64,
    from: Philox,
) -> Result<(), ProgramError> {
    if count == 0 {
        return Ok(());
    }
    let text = distribution.text(dtype).expect("there are such numbers");
    let functions = programs::functions(stream.device(), &text, &["draw"])?;
    let (blocks, _) = policy(stream.device(), count, distribution.unroll(dtype));
    let bits = |x: f64| x.to_bits() as i64;
    let (a, b) = match distribution {
        Distribution::Uniform(a, b)
        | Distribution::Normal(a, b)
        | Distribution::LogNormal(a, b)
        | Distribution::Cauchy(a, b) => (a, b),
        Distribution::Exponential(a) | Distribution::Geometric(a) | Distribution::Bernoulli(a) => {
            (a, 0.0)
        }
        Distribution::Integers { .. } | Distribution::Probabilities(..) => (0.0, 0.0),
    };
    let (integers, base) = match distribution {
        Distribution::Integers { base, count, .. } => (count as i64, base),
        _ => (1, 0),
    };
    let (count, seed, counter) = (count as i64, from.seed as i64, (from.offset / 4) as i64);
    let numbers = [count, seed, counter, bits(a), bits(b), integers, base, from.state as i64];
    let launch = Launch { blocks: [blocks, 1, 1], threads: [THREADS, 1, 1], shared_bytes: 0 };
    let (out, numbers) = (Argument::Pointer(out), Argument::Numbers(&numbers));
    match distribution {
        Distribution::Probabilities(given, _) => {
            // SAFETY: the arguments are the kernel's, and the caller's contract.
            unsafe {
                functions[0].launch(stream, launch, &[out, Argument::Pointer(given), numbers])?
            };
        }
        _ => {
            // SAFETY: as above.
            unsafe { functions[0].launch(stream, launch, &[out, numbers])? };
        }
    }
    Ok(())
}

/// The words of each subsequence that a dropout of so many elements uses up.
pub fn dropout_words(device: &Device, count: u64) -> u64 {
    policy(device, count, 4).1
}

/// Queues a dropout of `count` elements that follow one another: `out` is the elements that are kept, times
/// `scale`, and 0 for the others; `mask` (of bytes) says which are kept.
///
/// # Safety
///
/// The addresses lead to so many elements (that of a state to two numbers), memory of the stream's device until
/// it has come so far; nothing overlaps the results.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If the dtype is no float.
pub unsafe fn dropout(
    stream: &Stream,
    dtype: DType,
    count: u64,
    [keep, scale]: [f64; 2],
    [source, out, mask]: [u64; 3],
    from: Philox,
) -> Result<(), ProgramError> {
    if count == 0 {
        return Ok(());
    }
    let text = dropout_text(dtype);
    let functions = programs::functions(stream.device(), &text, &["drop"])?;
    let (blocks, _) = policy(stream.device(), count, 4);
    let numbers = [
        count as i64,
        from.seed as i64,
        (from.offset / 4) as i64,
        keep.to_bits() as i64,
        scale.to_bits() as i64,
        1,
        0,
        from.state as i64,
    ];
    let arguments = [
        Argument::Pointer(source),
        Argument::Pointer(out),
        Argument::Pointer(mask),
        Argument::Numbers(&numbers),
    ];
    let launch = Launch { blocks: [blocks, 1, 1], threads: [THREADS, 1, 1], shared_bytes: 0 };
    // SAFETY: the arguments are the kernel's, and the caller's contract.
    unsafe { functions[0].launch(stream, launch, &arguments)? };
    Ok(())
}

fn dropout_text(dtype: DType) -> String {
    let head = elements::head(dtype).expect("floats have heads");
    format!(
        "{head}{}
extern \"C\" __global__ void __launch_bounds__({THREADS}) drop(const Element* source, Element* out, unsigned char* mask, const Draws d) {{
    const long long thread = (long long)blockIdx.x * {THREADS} + threadIdx.x, step = (long long)gridDim.x * {THREADS};
    const Value scale = (Value)d.b;
    const unsigned long long seed = seed_of(d);
    unsigned long long counter = counter_of(d);
    for (long long at = thread; at < d.count; at += step * 4, counter++) {{
        float raw[4];
        units(philox(seed, counter, thread), raw);
#pragma unroll
        for (int k = 0; k < 4; k++) {{
            const long long i = at + step * k;
            if (i < d.count) {{
                const bool kept = raw[k] < (float)d.a;
                out[i] = element_of(value_of(source[i]) * (Value)kept * scale);
                mask[i] = kept;
            }}
        }}
    }}
}}
",
        include_str!("random.cu")
    )
}
