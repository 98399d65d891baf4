//! Compaction: the places of what is not zero. Also what others make of places: coordinates, counts, places
//! in sorted rows.
//!
//! How many results there are depends on data, so [`Trues::count`] waits for one number from the device.

use crate::driver::{Argument, DeviceMemory, Launch, Stream};
use crate::elements;
use crate::programs::{self, ProgramError};
use crate::scan::{self, Extents, Running};
use straightline_passes::ir::DType;

#[cfg(test)]
mod tests;

const TILE: i64 = 2048;
const THREADS: u32 = 256;
const BLOCKS: i64 = 1 << 30;
const PLAIN: [&str; 9] = [
    "coordinates",
    "count_integers",
    "search_floats",
    "search_integers",
    "put_1",
    "put_2",
    "put_4",
    "put_8",
    "put_16",
];
/// Dimensions that coordinates have room for.
pub const DIMENSIONS: usize = 64;

/// Whether elements of a dtype are looked at here.
///
/// ```
/// use straightline_cuda::compact::looks_at;
/// use straightline_passes::ir::DType;
/// assert!(looks_at(DType::Bool) && looks_at(DType::F16) && !looks_at(DType::C64));
/// ```
pub fn looks_at(dtype: DType) -> bool {
    elements::head(dtype).is_some()
}

fn queue(
    stream: &Stream,
    text: &str,
    (names, which): (&[&str], usize),
    blocks: i64,
    arguments: &[Argument<'_>],
) -> Result<(), ProgramError> {
    let functions = programs::functions(stream.device(), text, names)?;
    let blocks = [blocks.min(BLOCKS) as u32, 1, 1];
    let launch = Launch { blocks, threads: [THREADS, 1, 1], shared_bytes: 0 };
    // SAFETY: the arguments are the kernel's, and the contract of the functions that call this.
    unsafe { functions[which].launch(stream, launch, arguments)? };
    Ok(())
}

/// Elements that are not zero: how many, and what is known of where they are.
#[derive(Debug)]
pub struct Trues {
    source: u64,
    count: i64,
    text: String,
    /// How many there are up to the end of each tile.
    ends: Option<DeviceMemory>,
    total: i64,
}

impl Trues {
    /// Counts what is not zero among `count` elements that follow one another, and waits for the number.
    ///
    /// # Safety
    ///
    /// `source` leads to so many elements of the stream's device.
    ///
    /// # Errors
    ///
    /// [`ProgramError`].
    ///
    /// # Panics
    ///
    /// If [`looks_at`] says no.
    pub unsafe fn count(
        stream: &Stream,
        dtype: DType,
        source: u64,
        count: i64,
    ) -> Result<Trues, ProgramError> {
        let head = elements::head(dtype).expect("its elements are looked at here");
        let text = format!("{head}{}", include_str!("compact.cu"));
        let tiles = (count + TILE - 1) / TILE;
        let mut trues = Trues { source, count, text, ends: None, total: 0 };
        if tiles == 0 {
            return Ok(trues);
        }
        let bytes = tiles as usize * 8;
        let (counts, ends) = (DeviceMemory::new(stream, bytes)?, DeviceMemory::new(stream, bytes)?);
        let numbers = Argument::Numbers(&[count, tiles]);
        let arguments = [Argument::Pointer(source), Argument::Pointer(counts.address()), numbers];
        queue(stream, &trues.text, (&KERNELS, 0), tiles, &arguments)?;
        let of = Extents { before: 1, length: tiles, behind: 1 };
        let to = [ends.address(), 0];
        // SAFETY: both are of this size.
        unsafe { scan::scan(stream, Running::Sum, DType::I64, of, counts.address(), to)? };
        let mut total = [0u8; 8];
        let last = ends.address() + bytes as u64 - 8;
        // SAFETY: there is room, until the stream has been waited for.
        unsafe { stream.to_host(total.as_mut_ptr(), last, total.len())? };
        stream.synchronize()?;
        trues.total = i64::from_ne_bytes(total);
        trues.ends = Some(ends);
        Ok(trues)
    }

    /// How many there are.
    pub fn total(&self) -> i64 {
        self.total
    }

    /// Queues the writing of their places, in order, as `i64`.
    ///
    /// # Safety
    ///
    /// The elements are as they were when they were counted, and `places` leads to room for
    /// [`Trues::total`] places; both are memory of the device until the stream has come so far.
    ///
    /// # Errors
    ///
    /// [`ProgramError`].
    pub unsafe fn places(&self, stream: &Stream, places: u64) -> Result<(), ProgramError> {
        let Some(ends) = self.ends.as_ref().filter(|_| self.total > 0) else { return Ok(()) };
        let tiles = (self.count + TILE - 1) / TILE;
        let numbers = Argument::Numbers(&[self.count, tiles]);
        let addresses = [self.source, ends.address(), places].map(Argument::Pointer);
        let arguments = [&addresses[..], &[numbers]].concat();
        queue(stream, &self.text, (&KERNELS, 1), tiles, &arguments)
    }
}

const KERNELS: [&str; 2] = ["count_true", "write_true"];

fn blocks(count: i64) -> i64 {
    (count + i64::from(THREADS) - 1) / i64::from(THREADS)
}

/// Queues the coordinates of `count` places of a row-major tensor, as `i64`: all of the first dimension, then all
/// of the next one.
///
/// # Safety
///
/// `places` and `out` lead to so many places and to room for their coordinates, memory of the stream's device
/// until it has come so far.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If there are more than [`DIMENSIONS`] sizes.
pub unsafe fn coordinates(
    stream: &Stream,
    sizes: &[i64],
    count: i64,
    [places, out]: [u64; 2],
) -> Result<(), ProgramError> {
    if count == 0 || sizes.is_empty() {
        return Ok(());
    }
    let mut numbers = vec![count, sizes.len() as i64];
    numbers.extend(sizes);
    assert!(sizes.len() <= DIMENSIONS, "dimensions have a limit");
    numbers.resize(2 + DIMENSIONS, 1);
    let arguments =
        [Argument::Pointer(places), Argument::Pointer(out), Argument::Numbers(&numbers)];
    queue(stream, include_str!("plain.cu"), (&PLAIN, 0), blocks(count), &arguments)
}

/// Queues moves of `count` elements to places (of `i64`), of which no two are one.
///
/// # Safety
///
/// The addresses lead to so many elements and places, and places to elements of `out`, memory of the stream's
/// device until it has come so far.
///
/// # Errors
///
/// [`ProgramError`].
pub unsafe fn put(
    stream: &Stream,
    dtype: DType,
    count: i64,
    [source, places, out]: [u64; 3],
) -> Result<(), ProgramError> {
    if count == 0 {
        return Ok(());
    }
    let addresses = [source, places, out].map(Argument::Pointer);
    let numbers = [count];
    let arguments = [&addresses[..], &[Argument::Numbers(&numbers)]].concat();
    let which = 4 + dtype.size().trailing_zeros() as usize;
    queue(stream, include_str!("plain.cu"), (&PLAIN, which), blocks(count), &arguments)
}

/// Queues counts of integers: how often each of `0..bins` is among `count` of `i64`. Others are not counted.
///
/// # Safety
///
/// `source` leads to the integers, `counts` to room for `bins` of `i64`, memory of the stream's device until
/// it has come so far.
///
/// # Errors
///
/// [`ProgramError`].
pub unsafe fn count_integers(
    stream: &Stream,
    source: u64,
    count: i64,
    counts: u64,
    bins: i64,
) -> Result<(), ProgramError> {
    // SAFETY: there is room for so many.
    unsafe { stream.fill(counts, 0, bins as usize * 8)? };
    if count == 0 || bins == 0 {
        return Ok(());
    }
    let numbers = Argument::Numbers(&[count, bins]);
    let arguments = [Argument::Pointer(source), Argument::Pointer(counts), numbers];
    // a few blocks for each multiprocessor, since many would only meet at the same counts
    let most = i64::from(stream.device().properties().multiprocessors.max(1)) * 8;
    queue(stream, include_str!("plain.cu"), (&PLAIN, 1), blocks(count).min(most), &arguments)
}

/// Rows that are sorted, and how places in them are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Search {
    /// Whether the elements are `f64`; else they are `i64`.
    pub floats: bool,
    /// The elements of a row.
    pub length: i64,
    /// Values that are looked for in each row; 0 if all are looked for in one.
    pub per_row: i64,
    /// Behind equal elements, not before them.
    pub right: bool,
}

/// Queues a search of the places where `count` values would be put, as `i64`. `sorter` may be 0, or lead to
/// the places (of `i64`) that put each row into order.
///
/// # Safety
///
/// The addresses lead to so many elements, memory of the stream's device until it has come so far; places of
/// the sorter are within the rows.
///
/// # Errors
///
/// [`ProgramError`].
pub unsafe fn search(
    stream: &Stream,
    how: Search,
    count: i64,
    [rows, sorter, values, out]: [u64; 4],
) -> Result<(), ProgramError> {
    if count == 0 {
        return Ok(());
    }
    let numbers = [count, how.length, how.per_row, how.right.into()];
    let addresses = [rows, sorter, values, out].map(Argument::Pointer);
    let arguments = [&addresses[..], &[Argument::Numbers(&numbers)]].concat();
    let which = if how.floats { 2 } else { 3 };
    queue(stream, include_str!("plain.cu"), (&PLAIN, which), blocks(count), &arguments)
}
