//! Attention: `softmax(scale * q k^T + mask) v` without the matrix of scores.
//!
//! A block of queries passes over blocks of keys. The scores of a pair of blocks stay in the cache;
//! each row keeps its largest score and the sum of its exponentials so far, and what was summed
//! before is scaled when a larger one appears. Blocks of keys that a causal mask hides are not
//! computed. Keys and values are packed once, for all heads that use them, into panels of the matrix
//! microkernel, which does both products; a few queries read them where they are.
//!
//! Numerics: f32 and f64 in their own type, half types in f32. A row whose scores are all `-inf`
//! gives zeros, and 0 for the logarithm of its sum.

use super::operand::{In, Out, apart, ask, has_dtype, same_dtype, same_sizes};
use super::real::Real;
use super::strided::KernelError;
use crate::cpu::threads;
use crate::memory::{self, Block};
use convert::{load, store};
use right::Right;
use row::Row;
use straightline_passes::ir::DType;
use task::{Heads, Task, Wide};

mod convert;
mod right;
mod row;
mod task;

/// Queries of a block: four tiles of the widest microkernel.
const QUERIES: usize = 48;
/// Keys of a block: the more, the fewer times sums are scaled and taken up again. Its scores lie in the
/// second cache (96 KiB of `f32`).
const KEYS: usize = 512;
/// From one row of scores to the next: rows a power of two apart would share the sets of the first cache.
const ROW: usize = KEYS + 16;

/// The operands of an attention, tensors of (batch, head, position, feature).
#[derive(Debug)]
pub struct Attention<'a> {
    /// The queries.
    pub q: In<'a>,
    /// The keys: of as many heads as the queries, or of fewer, each of which serves several.
    pub k: In<'a>,
    /// The values.
    pub v: In<'a>,
    /// Added to the scores: (batch, head, query, key). `f64` for `f64`, else `f32`.
    pub mask: Option<In<'a>>,
    /// The result.
    pub out: Out<'a>,
    /// The logarithm of the sum of exponentials of each row, (batch, head, query): `f64` for `f64`,
    /// else `f32`.
    pub logsumexp: Out<'a>,
    /// Query `i` sees keys `0..=i`.
    pub causal: bool,
    /// The factor of the scores.
    pub scale: f64,
}

/// Computes it, split over threads if that is worth it.
///
/// # Errors
/// Operands whose sizes do not go together, of another dtype than the queries or not aligned.
pub fn attention(given: Attention<'_>) -> Result<(), KernelError> {
    const NAME: &str = "attention";
    apart(NAME, &[given.q, given.k, given.v])?;
    apart(NAME, given.mask.as_slice())?;
    let (q, k, v) = (given.q.raw(), given.k.raw(), given.v.raw());
    let (mask, out, log) = (given.mask.map(In::raw), given.out.raw(), given.logsumexp.raw());
    same_dtype(NAME, &[&q, &k, &v, &out])?;
    let dims = [&q, &k, &v, &out].iter().all(|t| t.sizes.len() == 4);
    ask(NAME, dims && log.sizes.len() == 3, "four dimensions")?;
    same_sizes(NAME, &[&q, &out])?;
    same_sizes(NAME, &[&k, &v])?;
    let &[batch, heads, queries, features] = q.sizes else {
        return Err(KernelError::operands(NAME, "four dimensions"));
    };
    let (kv_heads, keys) = (k.sizes[1], k.sizes[2]);
    let fits = k.sizes[0] == batch
        && k.sizes[3] == features
        && (heads == kv_heads || (kv_heads > 0 && heads % kv_heads == 0))
        && log.sizes == [batch, heads, queries];
    ask(NAME, fits, "sizes that go together")?;
    has_dtype(NAME, &log, q.dtype.opmath())?;
    if let Some(mask) = &mask {
        has_dtype(NAME, mask, q.dtype.opmath())?;
        ask(NAME, mask.sizes == [batch, heads, queries, keys], "a mask for each score")?;
    }
    for t in [Some(q), Some(k), Some(v), mask, Some(out), Some(log)].iter().flatten() {
        ask(NAME, t.is_aligned(), "aligned elements")?;
    }
    let task = Task {
        sizes: [batch, heads, queries, features].map(|n| n as usize),
        kv_heads: kv_heads as usize,
        keys: keys as usize,
        q: Heads::of(&q),
        k: Heads::of(&k),
        v: Heads::of(&v),
        mask: mask.as_ref().map(Heads::of),
        out: Heads::of(&out),
        logsumexp: Heads::of(&log),
        causal: given.causal,
        scale: given.scale,
        dtype: q.dtype,
    };
    // SAFETY: the sizes go together, the elements are aligned, the results lie apart.
    unsafe {
        match q.dtype {
            DType::F32 => run::<f32, f32>(&task),
            DType::F64 => run::<f64, f64>(&task),
            DType::F16 => run::<::half::f16, f32>(&task),
            DType::BF16 => run::<::half::bf16, f32>(&task),
            other => Err(KernelError::unsupported(NAME, other)),
        }
    }
}

/// Memory of one thread.
struct Scratch<W> {
    queries: *mut W,
    scores: *mut W,
    sums: *mut W,
    mask: *mut W,
    _block: Block,
}

impl<W> Scratch<W> {
    /// For blocks of up to so many queries.
    fn new(queries: usize, features: usize) -> Result<Self, KernelError> {
        let lens = [queries * features, queries * ROW, queries * features, KEYS];
        let block = memory::allocate(lens.iter().sum::<usize>() * size_of::<W>())?;
        let mut at = block.as_ptr().cast::<W>();
        let [queries, scores, sums, mask] = lens.map(|len| {
            let here = at;
            at = at.wrapping_add(len);
            here
        });
        Ok(Scratch { queries, scores, sums, mask, _block: block })
    }
}

/// # Safety
///
/// As [`attention`]; `T` is the type of the dtype.
unsafe fn run<T: Real, W: Wide>(task: &Task) -> Result<(), KernelError> {
    let [batches, heads, queries, features] = task.sizes;
    let pairs = batches * task.kv_heads;
    if pairs == 0 || heads == 0 || queries == 0 {
        return Ok(());
    }
    let work = heads / task.kv_heads * queries * task.keys * features.max(1);
    let blocks = queries.div_ceil(QUERIES);
    let units = heads / task.kv_heads * blocks;
    let failure = std::sync::Mutex::new(None);
    let note = |result: Result<(), KernelError>| {
        if let (Err(e), Ok(mut failure)) = (result, failure.lock()) {
            *failure = Some(e);
        }
    };
    let pair = |pair: usize, across_blocks: bool| -> Result<(), KernelError> {
        let (b, of) = (pair / task.kv_heads, pair % task.kv_heads);
        // SAFETY: the caller's contract for these keys and values.
        let right = unsafe { Right::<W>::new::<T>(task, (b, of))? };
        let range = |begin: usize, end: usize| -> Result<(), KernelError> {
            let scratch = Scratch::<W>::new(queries.min(QUERIES), features)?;
            for unit in begin..end {
                let h = of * (heads / task.kv_heads) + unit / blocks;
                // SAFETY: the caller's contract; blocks are disjoint rows of the results.
                unsafe { one_block::<T, W>(task, (b, h), unit % blocks, &right, &scratch) };
            }
            Ok(())
        };
        if across_blocks {
            threads::parallel_ranges(units, 1, &|begin, end| note(range(begin, end)));
            Ok(())
        } else {
            range(0, units)
        }
    };
    let threads = threads::num_threads();
    if threads == 1 || threads::in_parallel() || work.saturating_mul(pairs) < 1 << 18 {
        for i in 0..pairs {
            pair(i, false)?;
        }
    } else if pairs >= 2 * threads || units == 1 {
        threads::parallel_for(pairs, &|i| note(pair(i, false)));
    } else {
        for i in 0..pairs {
            pair(i, true)?;
        }
    }
    match failure.into_inner() {
        Ok(Some(e)) => Err(e),
        _ => Ok(()),
    }
}

/// One block of queries against all keys that it sees.
///
/// # Safety
///
/// As [`attention`].
unsafe fn one_block<T: Real, W: Wide>(
    task: &Task,
    (b, h): (usize, usize),
    block: usize,
    right: &Right<W>,
    scratch: &Scratch<W>,
) {
    let [_, _, queries, features] = task.sizes;
    let i0 = block * QUERIES;
    let m = (queries - i0).min(QUERIES);
    let at = |of: Heads, i: usize| {
        let s = of.strides;
        b as isize * s[0] + h as isize * s[1] + i as isize * s[2]
    };
    for i in 0..m {
        let row = task.q.ptr.cast::<T>().wrapping_offset(at(task.q, i0 + i));
        let to = scratch.queries.wrapping_add(i * features);
        // SAFETY: query i0 + i, and its place in the block.
        unsafe {
            load::<T, W>(task.dtype, (row, task.q.strides[3]), to, features, task.scale);
        }
    }
    let seen = if task.causal { task.keys.min(i0 + m) } else { task.keys };
    let mut largest = [W::narrow(f64::NEG_INFINITY); QUERIES];
    let mut total = [W::narrow(0.0); QUERIES];
    for j0 in (0..seen).step_by(KEYS) {
        let n = (seen - j0).min(KEYS);
        // SAFETY: the blocks are inside the scratch memory and the keys; KEYS is a multiple of a
        // panel.
        unsafe { right.scores((m, n, features), scratch.queries, j0, (scratch.scores, ROW)) };
        for i in 0..m {
            let row = scratch.scores.wrapping_add(i * ROW);
            if let Some(mask) = task.mask {
                let start = mask
                    .ptr
                    .cast::<W>()
                    .wrapping_offset(at(mask, i0 + i) + j0 as isize * mask.strides[3]);
                for j in 0..n {
                    // SAFETY: the mask of query i0 + i at key j0 + j.
                    unsafe {
                        *scratch.mask.add(j) = *start.wrapping_offset(j as isize * mask.strides[3]);
                    }
                }
            }
            let visible = if task.causal { (i0 + i + 1).saturating_sub(j0).min(n) } else { n };
            W::dispatch(Row {
                scores: row,
                mask: task.mask.map(|_| scratch.mask.cast_const()),
                n,
                visible,
                largest: &mut largest[i],
                total: &mut total[i],
                sums: scratch.sums.wrapping_add(i * features),
                features,
                first: j0 == 0,
            });
        }
        let sums = (scratch.sums, features, j0 > 0);
        // SAFETY: as above.
        unsafe { right.weigh((m, features, n), (scratch.scores, ROW), j0, sums) };
    }
    for i in 0..m {
        let sum = total[i].wide();
        let hidden = seen == 0 || sum == 0.0;
        let row = task.out.ptr.cast::<T>().wrapping_offset(at(task.out, i0 + i));
        let sums = scratch.sums.wrapping_add(i * features);
        // SAFETY: result i0 + i, and its sums.
        unsafe {
            if hidden {
                std::slice::from_raw_parts_mut(sums, features).fill(W::narrow(0.0));
            }
            let factor = if hidden { 1.0 } else { W::narrow(1.0 / sum).wide() };
            store::<T, W>(task.dtype, sums, (row, task.out.strides[3]), features, factor);
        }
        let log = if hidden { 0.0 } else { largest[i].wide() + sum.ln() };
        let place = at(task.logsumexp, i0 + i);
        // SAFETY: the place of row i0 + i.
        unsafe { *task.logsumexp.ptr.cast::<W>().wrapping_offset(place) = W::narrow(log) };
    }
}

#[cfg(test)]
mod tests;
