//! Sorts of rows, and what a sort finds: the largest elements, the kth, medians, the most frequent.
//!
//! All of them are stable: equal elements keep their order. NaN is the largest, as in PyTorch, and both
//! zeros are equal.
//!
//! The scheme is that of the block and device merge sorts of CUB: tiles are sorted in shared memory, then
//! runs are merged two by two, work being split by the merge path. What is sorted are order-preserving
//! unsigned keys with places of 32 bits, so one kernel serves all dtypes of a kind, and the elements
//! themselves are fetched at the end. For a few of the largest each tile keeps only so many, until one tile
//! is left.

use crate::driver::{Argument, DeviceMemory, Function, Launch, Stream};
use crate::elements::{self, Kind};
use crate::programs::{self, ProgramError};
use straightline_passes::ir::DType;

#[cfg(test)]
mod tests;

/// Elements of a tile, and of a tile for short rows.
const TILE: i64 = 2048;
const SHORT: i64 = 128;
/// Blocks of a launch: more tiles than these take turns.
const BLOCKS: i64 = 1 << 30;
const KERNELS: [&str; 5] = ["sort_short", "sort_tiles", "merge_runs", "choose", "most_frequent"];
const NO: Argument<'static> = Argument::Pointer(0);

/// Rows that follow one another without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rows {
    /// Of the elements.
    pub dtype: DType,
    /// How many rows.
    pub rows: i64,
    /// The elements of each.
    pub length: i64,
}

/// What is sorted into which order, and how much of it is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// The greatest first, NaN before all.
    pub descending: bool,
    /// So many elements of each row.
    pub keep: i64,
}

/// Which element of each row is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The `k`-th smallest, counted from 0.
    Kth(i64),
    /// The lower median; where there is a NaN, the first of them.
    Median,
    /// The lower median of what is not NaN.
    NanMedian,
    /// The most frequent, the smallest of several; the last place where it is.
    Mode,
}

/// Whether elements of a dtype are sorted here.
///
/// ```
/// use straightline_cuda::sort::sorts;
/// use straightline_passes::ir::DType;
/// assert!(sorts(DType::BF16) && sorts(DType::Bool) && !sorts(DType::C64));
/// ```
pub fn sorts(dtype: DType) -> bool {
    elements::kind(dtype).is_some()
}

/// Queues a sort of each row: `values` get the first elements of the order, `indices` (of `i64`) where they
/// were. Either address may be 0, for what is not wanted.
///
/// # Safety
///
/// `source` leads to the rows, `values` and `indices` to room for `keep` elements of each row, memory of
/// the stream's device until it has come so far; nothing overlaps the results.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If [`sorts`] says no, `keep` is not within the rows, or a row has 2^32 elements or more.
pub unsafe fn sort(
    stream: &Stream,
    source: u64,
    of: Rows,
    order: Order,
    [values, indices]: [u64; 2],
) -> Result<(), ProgramError> {
    // SAFETY: the caller's contract.
    unsafe { sort_into(stream, source, of, order, Target::Results { values, indices }) }.map(|_| ())
}

/// Queues a choice of one element of each row, and of its place (an `i64`).
///
/// # Safety
///
/// As for [`sort`], with room for one element of each row.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If [`sorts`] says no, rows are empty, or a row has 2^32 elements or more.
pub unsafe fn choose(
    stream: &Stream,
    source: u64,
    of: Rows,
    choice: Choice,
    [values, indices]: [u64; 2],
) -> Result<(), ProgramError> {
    if of.rows == 0 {
        return Ok(());
    }
    let order = Order { descending: false, keep: of.length };
    // SAFETY: the caller's contract.
    let sorted = unsafe { sort_into(stream, source, of, order, Target::Pairs)? };
    let Some(Pairs { keys, places, .. }) = sorted else { return Ok(()) };
    let functions = programs::functions(stream.device(), &text(of.dtype), &KERNELS)?;
    let (which, kth, kernel) = match choice {
        Choice::Kth(k) => (0, k, 3),
        Choice::Median => (1, 0, 3),
        Choice::NanMedian => (2, 0, 3),
        Choice::Mode => (0, 0, 4),
    };
    assert!((0..of.length).contains(&kth), "the element is one of the row's");
    let numbers = [of.rows, of.length, which, kth];
    let blocks = ((of.rows + 127) / 128).min(BLOCKS) as u32;
    let launch = Launch { blocks: [blocks, 1, 1], threads: [128, 1, 1], shared_bytes: 0 };
    let arguments = [
        Argument::Pointer(source),
        Argument::Pointer(keys.address()),
        Argument::Pointer(places.address()),
        Argument::Pointer(values),
        Argument::Pointer(indices),
        Argument::Numbers(&numbers),
    ];
    // SAFETY: the arguments are the kernel's; the pairs serve others on this stream only after it.
    unsafe { functions[kernel].launch(stream, launch, &arguments)? };
    Ok(())
}

/// Where a sort ends.
#[derive(Clone, Copy)]
enum Target {
    Results { values: u64, indices: u64 },
    Pairs,
}

/// Keys of rows with their places.
struct Pairs {
    keys: DeviceMemory,
    /// Of 32 bits each.
    places: DeviceMemory,
    /// Of each row.
    length: i64,
}

impl Pairs {
    fn new(stream: &Stream, of: Rows, length: i64) -> Result<Pairs, ProgramError> {
        let count = (of.rows * length) as usize;
        Ok(Pairs {
            keys: DeviceMemory::new(stream, count * of.dtype.size())?,
            places: DeviceMemory::new(stream, count * 4)?,
            length,
        })
    }
}

/// The arguments that all kernels of sorting have.
struct Call<'a> {
    stream: &'a Stream,
    functions: &'a [Function],
    source: u64,
    of: Rows,
    mask: i64,
}

/// The sizes of one launch.
struct Pass {
    length: i64,
    tiles: i64,
    keep: i64,
    out: i64,
    width: i64,
}

impl Call<'_> {
    /// # Safety
    ///
    /// The caller of [`sort_into`]'s contract; `from` has the rows of the pass, and `to` room for them.
    unsafe fn launch(
        &self,
        kernel: usize,
        pass: &Pass,
        from: Option<&Pairs>,
        to: Result<&Pairs, [u64; 2]>,
    ) -> Result<(), ProgramError> {
        let numbers = [
            self.of.rows,
            pass.length,
            self.of.length,
            pass.tiles,
            pass.keep,
            pass.out,
            self.mask,
            pass.width,
        ];
        let pair = |p: Option<&Pairs>| match p {
            Some(p) => [&p.keys, &p.places].map(|m| Argument::Pointer(m.address())),
            None => [NO, NO],
        };
        let ([in_keys, in_places], [out_keys, out_places]) = (pair(from), pair(to.ok()));
        let [values, indices] = to.err().unwrap_or_default();
        let arguments = [
            Argument::Pointer(self.source),
            in_keys,
            in_places,
            out_keys,
            out_places,
            Argument::Pointer(values),
            Argument::Pointer(indices),
            Argument::Numbers(&numbers),
        ];
        let blocks = (self.of.rows * pass.tiles).min(BLOCKS) as u32;
        let threads = if kernel == 0 { 32 } else { 256 };
        let launch = Launch { blocks: [blocks, 1, 1], threads: [threads, 1, 1], shared_bytes: 0 };
        // SAFETY: the arguments are the kernel's, and the caller's contract.
        unsafe { self.functions[kernel].launch(self.stream, launch, &arguments)? };
        Ok(())
    }
}

/// # Safety
///
/// As for [`sort`].
unsafe fn sort_into(
    stream: &Stream,
    source: u64,
    of: Rows,
    order: Order,
    target: Target,
) -> Result<Option<Pairs>, ProgramError> {
    let Order { descending, keep } = order;
    assert!(of.length < 1 << 32 && (0..=of.length).contains(&keep), "rows of 32 bits' places");
    if of.rows * keep == 0 {
        return Ok(None);
    }
    let functions = programs::functions(stream.device(), &text(of.dtype), &KERNELS)?;
    let mask = if descending { -1 } else { 0 };
    let call = Call { stream, functions: &functions, source, of, mask };
    let tiles = |n: i64| (n + TILE - 1) / TILE;
    // where there are few of the largest, tiles keep so many, until there is one tile
    let mut from: Option<Pairs> = None;
    let mut length = of.length;
    if keep <= TILE / 2 {
        while length > TILE {
            let out = tiles(length) * keep;
            let to = Pairs::new(stream, of, out)?;
            let pass = Pass { length, tiles: tiles(length), keep, out, width: 0 };
            // SAFETY: the caller's contract, and fresh memory.
            unsafe { call.launch(1, &pass, from.as_ref(), Ok(&to))? };
            (length, from) = (out, Some(to));
        }
    }
    let kernel = usize::from(length > SHORT);
    if length <= TILE {
        let pass = Pass { length, tiles: 1, keep, out: keep, width: 0 };
        let pairs = match target {
            Target::Pairs => Some(Pairs::new(stream, of, keep)?),
            Target::Results { .. } => None,
        };
        // SAFETY: as above.
        unsafe { call.launch(kernel, &pass, from.as_ref(), end(target, pairs.as_ref()))? };
        return Ok(pairs);
    }
    let mut pairs = Pairs::new(stream, of, length)?;
    let pass = Pass { length, tiles: tiles(length), keep: TILE, out: length, width: 0 };
    // SAFETY: as above.
    unsafe { call.launch(1, &pass, None, Ok(&pairs))? };
    let mut width = TILE;
    let mut other = Pairs::new(stream, of, length)?;
    while width < length {
        let last = width * 2 >= length;
        let keep = if last { keep } else { length };
        let pass = Pass { length, tiles: tiles(length), keep, out: keep, width };
        let to = if last { end(target, Some(&other)) } else { Ok(&other) };
        // SAFETY: as above; what is read and what is written are two memories.
        unsafe { call.launch(2, &pass, Some(&pairs), to)? };
        std::mem::swap(&mut pairs, &mut other);
        width *= 2;
    }
    debug_assert_eq!(pairs.length, length);
    Ok(matches!(target, Target::Pairs).then_some(pairs))
}

fn end(target: Target, pairs: Option<&Pairs>) -> Result<&Pairs, [u64; 2]> {
    match (target, pairs) {
        (Target::Pairs, Some(pairs)) => Ok(pairs),
        (Target::Results { values, indices }, _) => Err([values, indices]),
        (Target::Pairs, None) => Err([0, 0]),
    }
}

fn text(dtype: DType) -> String {
    let keys = elements::keys(dtype).expect("its elements are sorted here");
    let nan = matches!(elements::kind(dtype), Some(Kind::Float(_)));
    format!("{keys}#define HAS_NAN {nan}\n{}", include_str!("sort.cu"))
}
