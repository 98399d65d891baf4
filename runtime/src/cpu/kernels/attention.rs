//! Attention: `softmax(scale * q k^T + mask) v` without the matrix of scores.
//!
//! A block of queries passes over blocks of keys. The scores of a pair of blocks stay in the cache;
//! each row keeps its largest score and the sum of its exponentials so far, and what was summed
//! before is scaled when a larger one appears. Blocks of keys that a causal mask hides are not
//! computed. Keys and values are packed once per head into panels of the matrix microkernel, which
//! does both products.
//!
//! Numerics: f32 and f64 in their own type, half types in f32. A row whose scores are all `-inf`
//! gives zeros, and 0 for the logarithm of its sum.

use super::matmul::MatRef;
use super::matmul::blocks::{self, BlockProduct};
use super::operand::{In, Out, apart, ask, has_dtype, same_dtype, same_sizes};
use super::real::Real;
use super::strided::{KernelError, Strided};
use crate::cpu::math::{Lane, Simd, SimdTask, functions as f};
use crate::cpu::threads;
use crate::memory::{self, Block};
use straightline_passes::ir::DType;

/// Queries of a block: four tiles of the widest microkernel.
const QUERIES: usize = 48;
/// Keys of a block.
const KEYS: usize = 256;

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

/// A tensor of (batch, head, position, feature) and its strides, in elements.
#[derive(Clone, Copy, Debug)]
struct Heads {
    /// The first element.
    ptr: *mut u8,
    /// From one batch, head, position, feature to the next.
    strides: [isize; 4],
}

impl Heads {
    fn of(t: &Strided<'_>) -> Heads {
        let mut strides = [0; 4];
        for (to, from) in strides.iter_mut().zip(t.strides) {
            *to = *from as isize;
        }
        Heads { ptr: t.ptr, strides }
    }
}

/// What [`attention`] has checked.
struct Task {
    /// Batches, heads of the queries, queries, features.
    sizes: [usize; 4],
    kv_heads: usize,
    keys: usize,
    q: Heads,
    k: Heads,
    v: Heads,
    mask: Option<Heads>,
    out: Heads,
    /// Its fourth stride means nothing.
    logsumexp: Heads,
    causal: bool,
    scale: f64,
}

// SAFETY: addresses and numbers; the threads of a call write disjoint parts.
unsafe impl Sync for Task {}

/// What scores are computed in.
trait Wide: blocks::Block + Lane + Real {}
impl Wide for f32 {}
impl Wide for f64 {}

/// The packed keys and values of one head.
struct Packed<W> {
    keys: *const W,
    values: *const W,
}

// SAFETY: read by the threads of one call.
unsafe impl<W: Sync> Sync for Packed<W> {}

/// Memory of one thread.
struct Scratch<W> {
    queries: *mut W,
    scores: *mut W,
    sums: *mut W,
    mask: *mut W,
    _block: Block,
}

impl<W> Scratch<W> {
    fn new(features: usize) -> Result<Self, KernelError> {
        let lens = [QUERIES * features, QUERIES * KEYS, QUERIES * features, KEYS];
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
unsafe fn run<T: Real + Default, W: Wide>(task: &Task) -> Result<(), KernelError> {
    let [batches, heads, queries, features] = task.sizes;
    let pairs = batches * heads;
    if pairs == 0 || queries == 0 {
        return Ok(());
    }
    let work = queries * task.keys * features.max(1);
    let blocks = queries.div_ceil(QUERIES);
    let failure = std::sync::Mutex::new(None);
    let note = |result: Result<(), KernelError>| {
        if let (Err(e), Ok(mut failure)) = (result, failure.lock()) {
            *failure = Some(e);
        }
    };
    let head = |pair: usize, across_blocks: bool| -> Result<(), KernelError> {
        let (b, h) = (pair / heads, pair % heads);
        let len = blocks::packed_len::<W>(features, task.keys);
        let memory = memory::allocate(
            (len + blocks::packed_len::<W>(task.keys, features)) * size_of::<W>(),
        )?;
        let keys = memory.as_ptr().cast::<W>();
        let values = keys.wrapping_add(len);
        // SAFETY: the caller's contract for this head; the memory has room for both.
        unsafe {
            pack_head::<T, W>(task, task.k, (b, h), true, keys)?;
            pack_head::<T, W>(task, task.v, (b, h), false, values)?;
        }
        let packed = Packed { keys, values };
        let range = |begin: usize, end: usize| -> Result<(), KernelError> {
            let scratch = Scratch::<W>::new(features)?;
            for block in begin..end {
                // SAFETY: the caller's contract; blocks are disjoint rows of the results.
                unsafe { one_block::<T, W>(task, (b, h), block, &packed, &scratch) };
            }
            Ok(())
        };
        if across_blocks {
            threads::parallel_ranges(blocks, 1, &|begin, end| note(range(begin, end)));
            Ok(())
        } else {
            range(0, blocks)
        }
    };
    let threads = threads::num_threads();
    if threads == 1 || threads::in_parallel() || work.saturating_mul(pairs) < 1 << 18 {
        for pair in 0..pairs {
            head(pair, false)?;
        }
    } else if pairs >= 2 * threads || blocks == 1 {
        threads::parallel_for(pairs, &|pair| note(head(pair, false)));
    } else {
        for pair in 0..pairs {
            head(pair, true)?;
        }
    }
    match failure.into_inner() {
        Ok(Some(e)) => Err(e),
        _ => Ok(()),
    }
}

/// Packs a head of the keys (transposed) or of the values.
///
/// # Safety
///
/// As [`attention`]; `out` has room for the packed form.
unsafe fn pack_head<T: Real + Default, W: Wide>(
    task: &Task,
    of: Heads,
    (b, h): (usize, usize),
    transposed: bool,
    out: *mut W,
) -> Result<(), KernelError> {
    let (keys, features) = (task.keys, task.sizes[3]);
    let group = (task.sizes[1] / task.kv_heads.max(1)).max(1);
    let s = of.strides;
    let first = of.ptr.cast::<T>().wrapping_offset(b as isize * s[0] + (h / group) as isize * s[1]);
    let mut view = MatRef::new(first.cast(), (keys, features), (s[2], s[3]));
    let _wide; // the converted copy, which lives until it is packed
    if size_of::<T>() != size_of::<W>() {
        let block = memory::allocate(keys * features * size_of::<W>())?;
        let wide = block.as_ptr().cast::<W>();
        for i in 0..keys {
            for j in 0..features {
                // SAFETY: element (i, j) of the head and of its copy.
                unsafe {
                    let x = *first.wrapping_offset(i as isize * s[2] + j as isize * s[3]);
                    *wide.add(i * features + j) = <W as Real>::narrow(x.wide());
                }
            }
        }
        view = MatRef::row_major(block.as_ptr(), keys, features);
        _wide = block;
    }
    // SAFETY: the view is valid as `W`; the caller has made the room.
    unsafe { blocks::pack_into::<W>(if transposed { view.t() } else { view }, out) };
    Ok(())
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
    packed: &Packed<W>,
    scratch: &Scratch<W>,
) {
    let [_, _, queries, features] = task.sizes;
    let i0 = block * QUERIES;
    let m = (queries - i0).min(QUERIES);
    let panel = blocks::panel::<W>();
    let at = |of: Heads, i: usize| {
        let s = of.strides;
        b as isize * s[0] + h as isize * s[1] + i as isize * s[2]
    };
    for i in 0..m {
        let row = task.q.ptr.cast::<T>().wrapping_offset(at(task.q, i0 + i));
        for j in 0..features {
            // SAFETY: feature j of query i0 + i, and its place in the block.
            unsafe {
                let x = (*row.wrapping_offset(j as isize * task.q.strides[3])).wide();
                *scratch.queries.add(i * features + j) = W::narrow(x * task.scale);
            }
        }
    }
    let seen = if task.causal { task.keys.min(i0 + m) } else { task.keys };
    let mut largest = [W::narrow(f64::NEG_INFINITY); QUERIES];
    let mut total = [W::narrow(0.0); QUERIES];
    for j0 in (0..seen).step_by(KEYS) {
        let n = (seen - j0).min(KEYS);
        let scores = BlockProduct {
            m,
            n,
            k: features,
            a: scratch.queries,
            a_row: features,
            b: packed.keys.wrapping_add(j0 * features),
            b_panel: features * panel,
            c: scratch.scores,
            c_row: KEYS,
            add: false,
        };
        // SAFETY: the blocks are inside the scratch memory and the packed keys; KEYS is a multiple
        // of a panel.
        unsafe { scores.run() };
        for i in 0..m {
            let row = scratch.scores.wrapping_add(i * KEYS);
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
        let weighted = BlockProduct {
            m,
            n: features,
            k: n,
            a: scratch.scores,
            a_row: KEYS,
            b: packed.values.wrapping_add(j0 * panel),
            b_panel: task.keys * panel,
            c: scratch.sums,
            c_row: features,
            add: j0 > 0,
        };
        // SAFETY: as above.
        unsafe { weighted.run() };
    }
    for i in 0..m {
        let sum = total[i].wide();
        let hidden = seen == 0 || sum == 0.0;
        let row = task.out.ptr.cast::<T>().wrapping_offset(at(task.out, i0 + i));
        let inverse = W::narrow(1.0 / sum).wide();
        for j in 0..features {
            // SAFETY: feature j of result i0 + i.
            unsafe {
                let x = if hidden {
                    0.0
                } else {
                    (*scratch.sums.add(i * features + j)).wide() * inverse
                };
                *row.wrapping_offset(j as isize * task.out.strides[3]) = T::narrow(x);
            }
        }
        let log = if hidden { 0.0 } else { largest[i].wide() + sum.ln() };
        let place = at(task.logsumexp, i0 + i);
        // SAFETY: the place of row i0 + i.
        unsafe { *task.logsumexp.ptr.cast::<W>().wrapping_offset(place) = W::narrow(log) };
    }
}

/// The exponentials of a row of scores, and what that means for the sums so far.
struct Row<'a, W> {
    scores: *mut W,
    mask: Option<*const W>,
    /// Scores that the product of weights and values will read.
    n: usize,
    /// Scores that count; the others become 0.
    visible: usize,
    largest: &'a mut W,
    total: &'a mut W,
    sums: *mut W,
    features: usize,
    first: bool,
}

impl<W: Wide> SimdTask<W> for Row<'_, W> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<Elem = W>>(self, mut s: S) {
        let Row { scores, n, .. } = self;
        let whole = self.visible - self.visible % S::LANES;
        let tail = self.visible - whole;
        let inside = s.first(tail);
        let lowest = s.f(f64::NEG_INFINITY);
        let zero = s.f(0.0);
        // SAFETY: all within the row of n scores, the mask of as many, and the sums of the row.
        unsafe {
            if let Some(mask) = self.mask {
                let mut j = 0;
                while j < self.visible {
                    let count = (self.visible - j).min(S::LANES);
                    let x = s.load_partial(scores.add(j), count);
                    let y = s.load_partial(mask.add(j), count);
                    let x = s.add(x, y);
                    s.store_partial(scores.add(j), count, x);
                    j += count;
                }
            }
            let mut max = s.splat(*self.largest);
            let mut max2 = max;
            let mut j = 0;
            while j + 2 * S::LANES <= whole {
                let (x, y) = (s.load(scores.add(j)), s.load(scores.add(j + S::LANES)));
                max = f::maximum(&mut s, max, x);
                max2 = f::maximum(&mut s, max2, y);
                j += 2 * S::LANES;
            }
            if j < whole {
                let x = s.load(scores.add(j));
                max = f::maximum(&mut s, max, x);
            }
            if tail > 0 {
                let x = s.load_partial(scores.add(whole), tail);
                let x = s.select(inside, x, lowest);
                max2 = f::maximum(&mut s, max2, x);
            }
            let max = f::maximum(&mut s, max, max2);
            let new = s.reduce_max(max);
            let shift = if new.wide() == f64::NEG_INFINITY { W::narrow(0.0) } else { new };
            let shift_all = s.splat(shift);
            let (mut sum, mut sum2) = (zero, zero);
            let mut j = 0;
            while j + 2 * S::LANES <= whole {
                let (x, y) = (s.load(scores.add(j)), s.load(scores.add(j + S::LANES)));
                let (x, y) = (s.sub(x, shift_all), s.sub(y, shift_all));
                let (x, y) = (f::exp(&mut s, x), f::exp(&mut s, y));
                sum = s.add(sum, x);
                sum2 = s.add(sum2, y);
                s.store(scores.add(j), x);
                s.store(scores.add(j + S::LANES), y);
                j += 2 * S::LANES;
            }
            if j < whole {
                let x = s.load(scores.add(j));
                let x = s.sub(x, shift_all);
                let x = f::exp(&mut s, x);
                sum = s.add(sum, x);
                s.store(scores.add(j), x);
            }
            if tail > 0 {
                let x = s.load_partial(scores.add(whole), tail);
                let x = s.sub(x, shift_all);
                let x = f::exp(&mut s, x);
                let x = s.select(inside, x, zero);
                sum2 = s.add(sum2, x);
                s.store_partial(scores.add(whole), tail, x);
            }
            for j in self.visible..n {
                *scores.add(j) = W::narrow(0.0);
            }
            let sum = s.add(sum, sum2);
            let sum = s.reduce_add(sum);
            let old = *self.largest;
            *self.largest = new;
            if self.first {
                *self.total = sum;
                return;
            }
            // NaN differs from itself and takes this way
            if old.wide() != shift.wide() {
                let factor = s.splat(old);
                let factor = s.sub(factor, shift_all);
                let factor = f::exp(&mut s, factor);
                let mut j = 0;
                while j < self.features {
                    let count = (self.features - j).min(S::LANES);
                    let x = s.load_partial(self.sums.add(j), count);
                    let x = s.mul(x, factor);
                    s.store_partial(self.sums.add(j), count, x);
                    j += count;
                }
                let factor = s.to_array(factor)[0];
                *self.total = W::narrow(self.total.wide() * factor.wide());
            }
            *self.total = self.total.plus(sum);
        }
    }
}

#[cfg(test)]
mod tests;
