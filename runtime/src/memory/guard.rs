//! A mode for tests: blocks placed against memory that must not be touched.
//!
//! Generated code and kernels on raw pointers may read or write a few bytes beside their operands
//! and seem to work, since the allocator rounds blocks up and keeps them when they are freed. No
//! sanitizer sees into generated code. Under the environment variable `STRAIGHTLINE_GUARD` the
//! cache is out of use, and what oversteps a block ends the process:
//!
//! - `end`: each block ends where a page without access begins, to the byte (its start is then
//!   aligned only as its length is);
//! - `begin`: each block begins behind such a page;
//! - `exact`: each block is one of the system's allocator, of exactly its length, as an address
//!   sanitizer wants to see it.
//!
//! In the first two, bytes on the block's other side hold a pattern that is checked when the block
//! is freed. A fresh block is full of 0xff: a NaN, or -1, so that what is read before it is written
//! shows; [`fill_with`] takes another byte, and a result that follows it was never written. A freed
//! one has no pages any more.

use super::block::Block;
use super::large::system_allocate;
use super::system::{ALIGNMENT, OutOfMemory, system_free};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The environment variable that turns the mode on, read once.
pub const GUARD_VARIABLE: &str = "STRAIGHTLINE_GUARD";

/// Where a block's end or beginning is watched (see the [module](self)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// No access behind a block.
    End,
    /// No access before a block.
    Begin,
    /// Blocks of the system's allocator, none kept.
    Exact,
}

impl Guard {
    fn named(name: &str) -> Result<Option<Guard>, String> {
        match name {
            "" => Ok(None),
            "end" if pages::AVAILABLE => Ok(Some(Guard::End)),
            "begin" if pages::AVAILABLE => Ok(Some(Guard::Begin)),
            "exact" => Ok(Some(Guard::Exact)),
            _ => Err(format!(
                "{GUARD_VARIABLE} is `{name}`, which is none of {}",
                match pages::AVAILABLE {
                    true => "end, begin, exact",
                    false => "exact (this system has no pages to protect)",
                }
            )),
        }
    }

    /// A block of this many bytes, more than none.
    pub(super) fn allocate(self, bytes: usize) -> Option<NonNull<u8>> {
        match self {
            Guard::Exact => system_allocate(bytes),
            _ => Span::of(bytes, self)?.map(),
        }
    }

    /// Takes a block back.
    ///
    /// # Safety
    ///
    /// `ptr` came from `allocate(bytes)` in this mode, and nothing uses the block any more.
    pub(super) unsafe fn free(self, ptr: NonNull<u8>, bytes: usize) {
        // SAFETY: as promised by the caller.
        unsafe {
            match (self, Span::of(bytes, self)) {
                (Guard::Exact, _) => system_free(ptr, bytes),
                (_, Some(span)) => span.unmap(ptr),
                // no such block was ever made
                (_, None) => {}
            }
        }
    }
}

/// The mode of this process; none unless [`GUARD_VARIABLE`] names one.
///
/// ```
/// // a test that is worth its time in the mode only
/// if straightline_runtime::memory::guard::guard().is_none() {
///     println!("run with STRAIGHTLINE_GUARD=end");
/// }
/// ```
pub fn guard() -> Option<Guard> {
    static MODE: OnceLock<Option<Guard>> = OnceLock::new();
    *MODE.get_or_init(|| match std::env::var(GUARD_VARIABLE) {
        Ok(name) => Guard::named(&name).unwrap_or_else(|why| {
            tracing::warn!("{why}: blocks are not guarded");
            None
        }),
        Err(_) => None,
    })
}

static FILL: AtomicU8 = AtomicU8::new(0xff);

/// The byte that fresh blocks are full of from now on, in `end` and `begin`.
///
/// ```
/// straightline_runtime::memory::guard::fill_with(0x11);
/// ```
pub fn fill_with(byte: u8) {
    FILL.store(byte, Ordering::Relaxed);
}

/// Whether a mode is on; one load, for hot paths.
#[inline(always)]
pub fn is_on() -> bool {
    static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
    const UNKNOWN: u8 = 0;
    const OFF: u8 = 1;
    const ON: u8 = 2;

    #[cold]
    fn settle() -> bool {
        let on = guard().is_some();
        STATE.store(if on { ON } else { OFF }, Ordering::Relaxed);
        on
    }

    match STATE.load(Ordering::Relaxed) {
        OFF => false,
        ON => true,
        _ => settle(),
    }
}

/// Takes access away from parts of a block of whole pages that begins at one, until it is freed.
/// The ranges are in bytes from the block's beginning, and of whole pages.
///
/// # Errors
///
/// The system refuses.
pub fn close(block: &Block, parts: &[Range<usize>]) -> Result<(), OutOfMemory> {
    let inside = |r: &Range<usize>| r.start <= r.end && r.end <= block.len();
    debug_assert!(block.len().is_multiple_of(PAGE) && parts.iter().all(inside));
    let closed = parts.iter().all(|part| {
        // SAFETY: the pages belong to the block, and its maker asked for them to be closed.
        unsafe { pages::close(block.as_ptr().wrapping_add(part.start), part.len()) }
    });
    match closed {
        true => Ok(()),
        false => Err(OutOfMemory { bytes: block.len() }),
    }
}

/// Where parts of one block lie.
pub struct Spread {
    /// Where each part begins.
    pub begins: Vec<usize>,
    /// The bytes of the block: whole pages.
    pub bytes: usize,
    /// What to [`close`] in it.
    pub closed: Vec<Range<usize>>,
}

/// Places for parts of one block, so that each lies against closed pages as a block of its own
/// would. `None` if the mode is not on, or closes nothing.
pub fn spread(parts: &[usize]) -> Option<Spread> {
    let mode = guard().filter(|mode| *mode != Guard::Exact)?;
    let (mut at, mut begins, mut closed) = (0, Vec::new(), Vec::new());
    for bytes in parts {
        let span = Span::of(*bytes, mode)?;
        begins.push(at + span.block.start);
        closed.push(at + span.closed.start..at + span.closed.end);
        at += span.bytes;
    }
    Some(Spread { begins, bytes: at, closed })
}

/// At least the system's pages: they are that large on some machines with ARM processors.
const PAGE: usize = if cfg!(target_arch = "aarch64") { 64 << 10 } else { 4 << 10 };

/// What the bytes beside a block hold.
const PATTERN: u8 = 0xa5;

/// How a block lies in the pages that it has for itself, in bytes from their beginning.
struct Span {
    bytes: usize,
    block: Range<usize>,
    closed: Range<usize>,
    /// The accessible bytes that do not belong to the block.
    slack: Range<usize>,
}

impl Span {
    fn of(bytes: usize, mode: Guard) -> Option<Span> {
        let open = bytes.checked_next_multiple_of(PAGE)?;
        let all = open.checked_add(PAGE).filter(|n| *n <= isize::MAX as usize)?;
        Some(match mode {
            Guard::Begin => Span {
                bytes: all,
                block: PAGE..PAGE + bytes,
                closed: 0..PAGE,
                slack: PAGE + bytes..all,
            },
            _ => Span {
                bytes: all,
                block: open - bytes..open,
                closed: open..all,
                slack: 0..open - bytes,
            },
        })
    }

    fn map(&self) -> Option<NonNull<u8>> {
        let start = pages::map(self.bytes)?.as_ptr();
        // SAFETY: the ranges are inside of the pages, which are ours alone.
        unsafe {
            start.add(self.slack.start).write_bytes(PATTERN, self.slack.len());
            start.add(self.block.start).write_bytes(FILL.load(Ordering::Relaxed), self.block.len());
            if !pages::close(start.add(self.closed.start), self.closed.len()) {
                pages::unmap(start, self.bytes);
                return None;
            }
            NonNull::new(start.add(self.block.start))
        }
    }

    /// # Safety
    ///
    /// `block` came from `map` of such a span, and nothing uses it any more.
    unsafe fn unmap(&self, block: NonNull<u8>) {
        // SAFETY: as promised by the caller; the block and its slack are accessible.
        unsafe {
            let start = block.as_ptr().sub(self.block.start);
            let slack = std::slice::from_raw_parts(start.add(self.slack.start), self.slack.len());
            if let Some(at) = slack.iter().position(|b| *b != PATTERN) {
                let place = (self.slack.start + at) as isize - self.block.start as isize;
                eprintln!(
                    "{GUARD_VARIABLE}: a block of {} bytes was written at byte {place}",
                    self.block.len()
                );
                std::process::abort();
            }
            pages::unmap(start, self.bytes);
        }
    }
}

const _: () = assert!(PAGE.is_multiple_of(ALIGNMENT));

#[cfg(all(unix, not(miri)))]
mod pages {
    use std::ptr::{self, NonNull};

    pub(super) const AVAILABLE: bool = true;

    pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
        // SAFETY: fresh pages, at a place of the system's choice.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        match at {
            libc::MAP_FAILED => None,
            at => NonNull::new(at.cast()),
        }
    }

    /// # Safety
    ///
    /// The pages belong to the caller, which will not use them.
    #[must_use]
    pub(super) unsafe fn close(at: *mut u8, bytes: usize) -> bool {
        // SAFETY: as promised by the caller.
        unsafe { libc::mprotect(at.cast(), bytes, libc::PROT_NONE) == 0 }
    }

    /// # Safety
    ///
    /// The pages came from `map` and are no longer used.
    pub(super) unsafe fn unmap(at: *mut u8, bytes: usize) {
        // SAFETY: as promised by the caller.
        unsafe { libc::munmap(at.cast(), bytes) };
    }
}

#[cfg(not(all(unix, not(miri))))]
mod pages {
    use std::ptr::NonNull;

    pub(super) const AVAILABLE: bool = false;

    pub(super) fn map(_bytes: usize) -> Option<NonNull<u8>> {
        None
    }

    #[must_use]
    pub(super) unsafe fn close(_at: *mut u8, _bytes: usize) -> bool {
        false
    }

    pub(super) unsafe fn unmap(_at: *mut u8, _bytes: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_mode() {
        assert_eq!(Guard::named(""), Ok(None));
        assert_eq!(Guard::named("exact"), Ok(Some(Guard::Exact)));
        assert!(Guard::named("middle").unwrap_err().contains("middle"));
    }

    #[test]
    fn a_block_touches_its_closed_pages() {
        for bytes in [1, 20, PAGE, PAGE + 4, 3 * PAGE - 1] {
            let end = Span::of(bytes, Guard::End).unwrap();
            assert_eq!(end.block.end, end.closed.start);
            assert_eq!((end.slack.start, end.slack.end), (0, end.block.start));
            let begin = Span::of(bytes, Guard::Begin).unwrap();
            assert_eq!(begin.closed.end, begin.block.start);
            assert_eq!((begin.slack.start, begin.slack.end), (begin.block.end, begin.bytes));
            for s in [end, begin] {
                assert_eq!((s.block.len(), s.closed.len()), (bytes, PAGE));
                assert!(s.bytes.is_multiple_of(PAGE) && s.closed.start.is_multiple_of(PAGE));
            }
        }
        assert!(Span::of(usize::MAX - 5, Guard::End).is_none());
    }

    #[cfg(all(unix, not(miri)))]
    #[test]
    fn blocks_are_what_was_asked_for() {
        for mode in [Guard::End, Guard::Begin, Guard::Exact] {
            for bytes in [1, 20, 5000] {
                let block = mode.allocate(bytes).unwrap();
                // SAFETY: the block is ours and holds that many bytes.
                unsafe {
                    block.as_ptr().write_bytes(1, bytes);
                    mode.free(block, bytes);
                }
            }
        }
    }

    /// Does what must not be done, in a process of its own.
    #[cfg(all(unix, not(miri)))]
    #[test]
    fn what_oversteps_a_block_ends_the_process() {
        const STEP: &str = "STRAIGHTLINE_GUARD_TEST";
        if let (Some(_), Ok(step)) = (guard(), std::env::var(STEP)) {
            let block = super::super::allocate(20).unwrap();
            let at = block.as_ptr().wrapping_offset(step.parse().unwrap());
            // SAFETY: none; the test holds that it does not come to pass, or is seen when the block
            // is dropped.
            unsafe { at.write_volatile(1) };
            drop(block);
            return;
        }
        let run = |mode: &str, step: &str| {
            let test = std::process::Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "--nocapture",
                    "memory::guard::tests::what_oversteps_a_block_ends_the_process",
                ])
                .envs([(GUARD_VARIABLE, mode), (STEP, step)])
                .output()
                .unwrap();
            test.status
        };
        use std::os::unix::process::ExitStatusExt;
        let died = |mode, step| run(mode, step).signal().is_some();
        assert!(run("end", "19").success() && run("begin", "0").success());
        assert!(died("end", "20") && died("end", "-1"));
        assert!(died("begin", "-1") && died("begin", "20"));
    }
}
