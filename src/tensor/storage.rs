//! Storage: the bytes that tensors share, with a borrow state and a version.
//!
//! Safe code must not be able to cause a data race or an aliased write through tensors, although
//! tensors are freely cloned, sent and mutated in place. So a storage counts its readers and its
//! writer as a `RefCell` does, atomically, once per kernel call (see `borrow`): a second writer, or
//! a reader beside a writer, waits (`waiting`) or is an error (`ErrorKind::Busy`), never undefined
//! behaviour.
//!
//! A small storage is one block of the allocator, 64 bytes of state and the data behind them; a
//! larger one has its data in a separate block of a fitting size class. A storage that grows always
//! gets a separate block.

use super::borrow::{Access, Borrow, Reading, Reserved, ThreadToken, Writing};
use super::busy::{Busy, patience};
use super::counted::{Cell, Counted, InCell};
use super::placement;
use super::waiting::{self, Held, Refusal};
use super::watch;
use crate::error::Result;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use straightline_catalog::DType;
use straightline_runtime::memory::{
    Block, allocate, asymmetric_fences, give_cell, guard, take_cell,
};

/// Reference-counted bytes.
#[derive(Clone)]
pub(crate) struct Storage(Counted<Inner>);

/// The bytes of a storage's state, the count included.
const STATE: usize = 64;
/// Data up to this size lie behind the state. Up to 1024 bytes the allocator's classes are 64 bytes
/// apart, so this wastes nothing.
const INLINE: usize = 1024 - STATE;

const _: () = assert!(size_of::<Cell<Inner>>() == STATE);

pub(super) struct Inner {
    borrow: Borrow,
    /// Bumped by each write: plans repack weights and autograd checks saved tensors by it. Above
    /// `VERSION` it says how large the cell of a storage is that had its data behind the state
    /// before it grew, and whether the memory is read only.
    version: AtomicU64,
    bytes: AtomicUsize,
    /// Null for tensors that have a shape and no data (Meta, fake).
    data: AtomicPtr<u8>,
    /// The data's block, if they have one of their own. Used by `grow`, under exclusive access, and
    /// by the last owner.
    block: UnsafeCell<Option<Block>>,
}

/// The bits of `version` that count.
const VERSION: u32 = 48;
/// In `version`: nobody may write the memory.
const READ_ONLY: u64 = 1 << 63;
/// In `version`: that is so for good, and its owner has a name for it.
const NAMED: u64 = 1 << 62;

// SAFETY: `data` points into memory that the storage owns; who uses it holds a guard. `block` is
// used as its comment says.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl InCell for Inner {
    /// The bytes of the block that holds state and data, or 0 for a cell with the state alone.
    #[inline(always)]
    fn extent(&self) -> usize {
        let before_growth =
            (self.version.load(Ordering::Relaxed) & !(READ_ONLY | NAMED)) >> VERSION;
        // SAFETY: the value is being dropped, so nobody else uses it.
        let own_block = unsafe { (*self.block.get()).is_some() };
        if before_growth != 0 {
            before_growth as usize
        } else if own_block || self.data.load(Ordering::Relaxed).is_null() {
            0
        } else {
            STATE + self.bytes.load(Ordering::Relaxed)
        }
    }

    #[inline(always)]
    unsafe fn release(cell: NonNull<Cell<Inner>>, extent: usize) {
        let memory = cell.cast::<u8>();
        // SAFETY: `Storage::with` and `Storage::allocate` took the cell in just this way.
        unsafe {
            match extent {
                0 => give_cell::<STATE>(memory),
                bytes => drop(Block::from_raw(memory, bytes)),
            }
        }
    }
}

/// The current thread's token for borrow states.
#[inline(always)]
fn this_thread() -> ThreadToken {
    thread_local! {
        static TOKEN: std::cell::Cell<ThreadToken> = const { std::cell::Cell::new(ThreadToken::UNSET) };
    }

    #[cold]
    fn first() -> ThreadToken {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let next = |n: u32| n.checked_add(1);
        let token = match NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(number) => ThreadToken::new(number),
            Err(_) => ThreadToken::HOMELESS,
        };
        // reading at home leans on the cheap fence
        let token = match asymmetric_fences() {
            true => token,
            false => token.without_home(),
        };
        TOKEN.set(token);
        token
    }

    match TOKEN.get() {
        ThreadToken::UNSET => first(),
        token => token,
    }
}

impl Storage {
    /// Fresh, uninitialised memory.
    #[inline]
    pub(crate) fn allocate(bytes: usize) -> Result<Storage> {
        if bytes > INLINE || guard::is_on() {
            return Storage::apart(bytes);
        }
        Storage::inline(bytes)
    }

    /// Fresh memory for elements of a dtype, or a place that was offered for them.
    #[inline]
    pub(crate) fn allocate_for(dtype: DType, bytes: usize) -> Result<Storage> {
        match placement::take(dtype, bytes) {
            Some(placed) => Ok(placed),
            None => Storage::allocate(bytes),
        }
    }

    /// Fresh data in a separate block.
    fn apart(bytes: usize) -> Result<Storage> {
        let block = allocate(bytes)?;
        let data = block.as_ptr();
        Storage::with(bytes, data, Some(block))
    }

    /// Fresh data behind the state, in one block.
    #[inline(always)]
    fn inline(bytes: usize) -> Result<Storage> {
        let (cell, _) = allocate(STATE + bytes)?.into_raw();
        // SAFETY: the block is ours and holds state and data.
        unsafe {
            let data = cell.as_ptr().add(STATE);
            Ok(Storage::place(cell, bytes, data, None))
        }
    }

    /// A storage over memory of others. Before that memory goes, or is written,
    /// [`Storage::reclaim`] must have been called for it.
    ///
    /// # Safety
    ///
    /// Until then `data` is valid for reads of that many bytes, and for writes, unless the caller
    /// holds a read guard, so that nothing can write through this storage. No one else writes them.
    pub(crate) unsafe fn lend(data: NonNull<u8>, bytes: usize) -> Result<Storage> {
        let (cell, _) = allocate(STATE)?.into_raw();
        // SAFETY: the cell has the size of the state; as of one that has grown, its size is noted
        // beside the version.
        let storage = unsafe { Storage::place(cell, bytes, data.as_ptr(), None) };
        storage.0.version.store((STATE as u64) << VERSION, Ordering::Relaxed);
        Ok(storage)
    }

    /// Makes the memory of a fresh [`Storage::lend`] read only, until [`Storage::end_read_only`].
    pub(super) fn begin_read_only(&self) {
        self.0.version.fetch_or(READ_ONLY, Ordering::Relaxed);
        self.0.borrow.enter_unnoted();
    }

    /// Ends it: there is no loan any more.
    pub(super) fn end_read_only(&self) {
        self.0.borrow.leave_unnoted();
        self.0.version.fetch_and(!READ_ONLY, Ordering::Relaxed);
    }

    /// Other memory of the same size, for a [`Storage::lend`] whose loan has ended. Counts as a write.
    ///
    /// # Safety
    ///
    /// Nobody else has the storage; `data` is as that wants it.
    pub(super) unsafe fn lend_again(&self, data: NonNull<u8>) {
        self.0.data.store(data.as_ptr(), Ordering::Relaxed);
        let version = self.0.version.load(Ordering::Relaxed);
        self.0.version.store(version + 1, Ordering::Relaxed);
    }

    /// Ends a [`Storage::lend`], whose guards are gone: if anybody has kept the storage, it gets
    /// memory of its own with the same bytes.
    pub(crate) fn reclaim(self) -> bool {
        if self.0.handles() == 1 {
            return false;
        }
        // a reader at this point is inside a kernel and will finish
        let exclusive = loop {
            match self.try_hold() {
                Some(guard) => break guard,
                None => std::thread::yield_now(),
            }
        };
        let bytes = self.bytes();
        let block = allocate(bytes).ok();
        let data = block.as_ref().map_or(ptr::null_mut(), Block::as_ptr);
        if let Some(lent) = self.ptr()
            && !data.is_null()
        {
            // SAFETY: both places hold that many bytes; the new block is ours alone.
            unsafe { ptr::copy_nonoverlapping(lent, data, bytes) };
        }
        // if no memory is left, the storage has a size and no data, which its users report
        self.0.data.store(data, Ordering::Relaxed);
        // SAFETY: exclusive access; nobody has a reference into the field.
        unsafe { *self.0.block.get() = block };
        drop(exclusive);
        true
    }

    /// A storage over memory of others that `owner` keeps, for as long as the storage lives. If it is
    /// read only, a call that asks for exclusive access gets an error.
    ///
    /// # Safety
    ///
    /// Until `owner` is dropped, `data` is valid for reads of that many bytes, and for writes unless
    /// `read_only`; no one else writes them while a call of this crate has access, nor reads them
    /// while it has exclusive access.
    pub(super) unsafe fn external(
        data: NonNull<u8>,
        bytes: usize,
        owner: Box<dyn Any + Send + Sync>,
        read_only: bool,
    ) -> Result<Storage> {
        let storage = Storage::with(bytes, data.as_ptr(), Some(Block::foreign(owner)))?;
        if read_only {
            storage.0.version.store(READ_ONLY | NAMED, Ordering::Relaxed);
            storage.0.borrow.read_for_good();
        }
        Ok(storage)
    }

    /// Whether nobody may write the memory.
    #[inline]
    pub(crate) fn is_read_only(&self) -> bool {
        self.0.version.load(Ordering::Relaxed) & READ_ONLY != 0
    }

    /// What keeps memory of others that is read only for good.
    pub(super) fn keeper(&self) -> Option<&(dyn Any + Send + Sync)> {
        if self.0.version.load(Ordering::Relaxed) & NAMED == 0 {
            return None;
        }
        // SAFETY: the block is replaced only under exclusive access, which is never given here.
        unsafe { (*self.0.block.get()).as_ref() }.and_then(Block::owner)
    }

    /// Gives a storage without bytes those of another one, as far as it reaches. Whoever takes
    /// access afterwards sees them.
    pub(crate) fn fill_from(&self, other: &Storage) -> Result<()> {
        let (exclusive, source) = hold(self, Some(other))?;
        let bytes = self.bytes();
        if let (Some(from), None, false) = (other.ptr(), self.ptr(), self.is_elsewhere()) {
            let block = allocate(bytes)?;
            // SAFETY: the new block is ours alone and holds `bytes`; of the other one, held too, no
            // more is read than it has.
            unsafe {
                ptr::write_bytes(block.as_ptr(), 0, bytes);
                ptr::copy_nonoverlapping(from, block.as_ptr(), bytes.min(other.bytes()));
            };
            self.0.data.store(block.as_ptr(), Ordering::Relaxed);
            // SAFETY: exclusive access; nobody has a reference into the field.
            unsafe { *self.0.block.get() = Some(block) };
        }
        drop((exclusive, source));
        Ok(())
    }

    /// A storage of a size, without bytes.
    pub(crate) fn without_data(bytes: usize) -> Storage {
        match Storage::with(bytes, ptr::null_mut(), None) {
            Ok(storage) => storage,
            Err(_) => std::alloc::handle_alloc_error(std::alloc::Layout::new::<Cell<Inner>>()),
        }
    }

    /// A storage over memory that is not the host's, which `owner` stands for: it has no bytes that
    /// code of the host could reach.
    #[cfg(feature = "cuda")]
    pub(crate) fn elsewhere(bytes: usize, owner: Box<dyn Any + Send + Sync>) -> Result<Storage> {
        Storage::with(bytes, ptr::null_mut(), Some(Block::foreign(owner)))
    }

    /// What stands for its memory, if that is not the host's.
    #[cfg(feature = "cuda")]
    pub(crate) fn owner<T: Any>(&self) -> Option<&T> {
        if self.has_data() {
            return None;
        }
        // SAFETY: the block of a storage without data is set when it is made, and replaced only by
        // `grow` and `fill_from`, which leave one that owns something else alone.
        let block = unsafe { (*self.0.block.get()).as_ref() };
        block.and_then(Block::owner)?.downcast_ref()
    }

    /// Whether its memory is not the host's.
    pub(crate) fn is_elsewhere(&self) -> bool {
        // SAFETY: as in `owner`.
        !self.has_data()
            && unsafe { (*self.0.block.get()).as_ref() }.is_some_and(|b| b.owner().is_some())
    }

    fn with(bytes: usize, data: *mut u8, block: Option<Block>) -> Result<Storage> {
        let cell = take_cell::<STATE>()?;
        // SAFETY: the cell is fresh and has the size of the state.
        Ok(unsafe { Storage::place(cell, bytes, data, block) })
    }

    /// # Safety
    ///
    /// `memory` is as [`Inner::release`] expects it of a storage with these parts, and nobody
    /// else's.
    #[inline(always)]
    unsafe fn place(
        memory: NonNull<u8>,
        bytes: usize,
        data: *mut u8,
        block: Option<Block>,
    ) -> Storage {
        let cell = memory.cast::<Cell<Inner>>();
        // SAFETY: the memory is ours, large enough and aligned to 64; `value` is written here.
        unsafe {
            (&raw mut (*cell.as_ptr()).value).write(Inner {
                borrow: Borrow::new(this_thread()),
                version: AtomicU64::new(0),
                bytes: AtomicUsize::new(bytes),
                data: AtomicPtr::new(data),
                block: UnsafeCell::new(block),
            });
            Storage(Counted::adopt(cell))
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn has_data(&self) -> bool {
        !self.0.data.load(Ordering::Relaxed).is_null()
    }

    /// The first byte. Reading or writing through it requires a guard of this storage, taken before
    /// this call (the data may move while nobody has one), or being the only one who holds it.
    #[inline]
    pub(crate) fn ptr(&self) -> Option<*mut u8> {
        let data = self.0.data.load(Ordering::Relaxed);
        (!data.is_null()).then_some(data)
    }

    /// Makes room for this many bytes; those that are there are kept. The caller has exclusive
    /// access, and no other thread has ever entered.
    pub(super) fn grow(&self, bytes: usize, _exclusive: &WriteGuard<'_>) -> Result<()> {
        let old = self.bytes();
        if bytes <= old {
            return Ok(());
        }
        #[cfg(feature = "cuda")]
        if let Some(memory) = super::on_device::grown(self, bytes)? {
            // SAFETY: exclusive access; nobody has a reference into the field.
            unsafe { *self.0.block.get() = Some(Block::foreign(memory)) };
        }
        if let Some(data) = self.ptr() {
            let block = allocate(bytes)?;
            // SAFETY: both places hold `old` bytes; the new block is ours alone.
            unsafe { ptr::copy_nonoverlapping(data, block.as_ptr(), old) };
            self.0.data.store(block.as_ptr(), Ordering::Relaxed);
            // SAFETY: exclusive access; nobody has a reference into the field.
            let former = unsafe { (*self.0.block.get()).replace(block) };
            let version = self.0.version.load(Ordering::Relaxed);
            if former.is_none() && version >> VERSION == 0 {
                let cell = (STATE + old) as u64;
                self.0.version.store(version | cell << VERSION, Ordering::Relaxed);
            }
        }
        self.0.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Whether this thread made the storage.
    #[inline]
    pub(super) fn is_home(&self) -> bool {
        self.0.borrow.is_made_by(this_thread())
    }

    /// Whether this thread made the storage and no other has ever used it; see
    /// `Borrow::is_private_to` for what that orders.
    pub(super) fn is_private(&self) -> bool {
        self.0.borrow.is_private_to(this_thread())
    }

    /// Exclusive access that does not count as a write, if it can be had at once.
    #[inline]
    pub(crate) fn try_hold(&self) -> Option<WriteGuard<'_>> {
        let take = || self.0.borrow.try_write(this_thread());
        watch::taking(self, take, Option::is_some)
    }

    /// Whether this thread has it, for reading or writing.
    pub(crate) fn is_held(&self) -> bool {
        self.0.borrow.mine(this_thread()).is_some()
    }

    pub(crate) fn version(&self) -> u64 {
        self.0.version.load(Ordering::Relaxed) & ((1 << VERSION) - 1)
    }

    /// Identifies the storage for as long as it lives.
    pub(crate) fn id(&self) -> usize {
        self.0.address()
    }

    /// How many handles to the storage there are. Others may come and go meanwhile.
    pub(crate) fn handles(&self) -> usize {
        self.0.handles()
    }

    /// Whether this is the only handle to the storage.
    #[inline]
    pub(crate) fn is_unshared(&self) -> bool {
        self.0.handles() == 1
    }

    #[inline]
    pub(crate) fn same(&self, other: &Storage) -> bool {
        self.0.same(&other.0)
    }

    /// Shared access until the guard is dropped; waits for it.
    #[inline]
    pub(crate) fn read(&self) -> Result<ReadGuard<'_>> {
        match self.try_read() {
            Some(guard) => Ok(guard),
            None => {
                let mut held = take(&[(self, Access::Read)])?;
                held.reads.pop().ok_or_else(not_had)
            }
        }
    }

    /// Shared access, if it can be had at once.
    #[inline]
    pub(crate) fn try_read(&self) -> Option<ReadGuard<'_>> {
        let take = || self.0.borrow.try_read(this_thread());
        watch::taking(self, take, Option::is_some)
    }

    /// Exclusive access until the guard is dropped; waits for it. Counts as a new version.
    #[inline]
    pub(crate) fn write(&self) -> Result<WriteGuard<'_>> {
        let guard = match self.try_hold() {
            Some(guard) => guard,
            None => {
                let mut held = take(&[(self, Access::Write)])?;
                held.writes.pop().ok_or_else(not_had)?
            }
        };
        self.count_write(&guard);
        Ok(guard)
    }

    /// Counts what its holder does as a new version.
    #[inline]
    pub(crate) fn count_write(&self, _exclusive: &WriteGuard<'_>) {
        // one writer at a time: no locked instruction needed
        let version = self.0.version.load(Ordering::Relaxed);
        self.0.version.store(version + 1, Ordering::Relaxed);
    }
}

/// Access to storages that could not be had at once: waits for all of them, holding none. Exclusive
/// access does not count as a write by itself.
#[cold]
pub(crate) fn take<'a>(wants: &[(&'a Storage, Access)]) -> Result<Held<'a>> {
    let refuses = |(storage, access): &&(&Storage, Access)| {
        *access == Access::Write && storage.is_read_only()
    };
    if let Some((storage, _)) = wants.iter().find(refuses) {
        return Err(super::external::read_only(storage));
    }
    let wants: SmallVec<[(&Borrow, Access); 8]> =
        (wants.iter()).map(|(storage, access)| (&storage.0.borrow, *access)).collect();
    waiting::acquire(&wants, this_thread(), patience())
        .map_err(|(refusal, found)| Busy::new(refusal, found).into())
}

/// Exclusive access to one or two storages that does not count as a write; waits for both, holding
/// none.
pub(super) fn hold<'a>(
    one: &'a Storage,
    other: Option<&'a Storage>,
) -> Result<(WriteGuard<'a>, Option<WriteGuard<'a>>)> {
    if let Some(first) = one.try_hold() {
        match other.map(Storage::try_hold) {
            None => return Ok((first, None)),
            Some(Some(second)) => return Ok((first, Some(second))),
            Some(None) => {}
        }
    }
    let wants: SmallVec<[(&Storage, Access); 2]> =
        (std::iter::once(one).chain(other)).map(|s| (s, Access::Write)).collect();
    let mut held = take(&wants)?;
    let second = match other {
        Some(_) => held.writes.pop(),
        None => None,
    };
    Ok((held.writes.pop().ok_or_else(not_had)?, second))
}

/// Unreachable: a request for one guard yields one, or an error from [`take`].
#[cold]
fn not_had() -> crate::Error {
    Busy::new(Refusal::Taken, Access::Write).into()
}

/// Shared access to a storage.
pub(crate) type ReadGuard<'a> = Reading<'a>;

/// Exclusive access to a storage.
pub(crate) type WriteGuard<'a> = Writing<'a>;

/// Exclusive access to a storage for the kernels beneath a call.
pub(crate) type ReservedGuard<'a> = Reserved<'a>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::try_borrows;

    #[test]
    fn readers_share_and_writers_do_not() {
        let s = Storage::allocate(16).unwrap();
        let r1 = s.read().unwrap();
        let r2 = s.read().unwrap();
        assert!(s.write().is_err());
        drop((r1, r2));
        let w = s.write().unwrap();
        assert!(s.read().is_err());
        assert!(s.write().is_err());
        drop(w);
        assert!(s.read().is_ok());
        assert_eq!(s.version(), 1);
    }

    #[test]
    fn any_size_has_room_and_alignment() {
        for bytes in [0, 1, 4, 64, 65, INLINE - 1, INLINE, INLINE + 1, 100_000] {
            let s = Storage::allocate(bytes).unwrap();
            assert_eq!(s.bytes(), bytes);
            let p = s.ptr().unwrap();
            assert_eq!(p as usize % 64, 0);
            // SAFETY: the storage is ours and has this many bytes.
            unsafe {
                p.write_bytes(0xab, bytes);
                assert!((0..bytes).all(|i| p.add(i).read() == 0xab));
            }
            assert!(s.read().is_ok(), "{bytes} bytes of data reach into the state");
            assert_eq!(s.version(), 0);
        }
        let none = Storage::without_data(12);
        assert!(none.ptr().is_none() && !none.has_data() && none.bytes() == 12);
    }

    #[test]
    fn what_grows_keeps_its_bytes_and_frees_its_memory() {
        for (from, to) in [(0, 5), (3, 64), (16, 5000), (5000, 9000), (960, 961)] {
            let s = Storage::allocate(from).unwrap();
            // SAFETY: the storage is ours and has this many bytes.
            unsafe { s.ptr().unwrap().write_bytes(7, from) };
            for more in [to, to + 1, to + 4096] {
                let hold = s.try_hold().unwrap();
                s.grow(more, &hold).unwrap();
                s.grow(1, &hold).unwrap();
            }
            assert_eq!((s.bytes(), s.version()), (to + 4096, 0));
            let p = s.ptr().unwrap();
            // SAFETY: as above.
            assert!(unsafe { (0..from).all(|i| p.add(i).read() == 7) });
            drop(s.write().unwrap());
            assert_eq!(s.version(), 1);
        }
        let none = Storage::without_data(4);
        none.grow(40, &none.try_hold().unwrap()).unwrap();
        assert!(none.bytes() == 40 && !none.has_data());
    }

    #[test]
    fn what_is_lent_is_left_alone_or_copied() {
        let mut theirs = [1u8, 2, 3, 4];
        for kept in [false, true] {
            let data = NonNull::from(&mut theirs).cast::<u8>();
            // SAFETY: the array outlives the loan, which is ended below.
            let s = unsafe { Storage::lend(data, 4).unwrap() };
            let guard = s.read().unwrap();
            assert_eq!((s.ptr(), s.version()), (Some(data.as_ptr()), 0));
            assert!(s.write().is_err());
            drop(guard);
            let other = kept.then(|| s.clone());
            s.reclaim();
            let Some(other) = other else { continue };
            drop(other.write().unwrap());
            let p = other.ptr().unwrap();
            assert!(p != data.as_ptr() && other.version() == 1);
            // SAFETY: the storage is ours and has this many bytes.
            assert_eq!(unsafe { std::slice::from_raw_parts(p, 4) }, [1, 2, 3, 4]);
        }
        assert_eq!(theirs, [1, 2, 3, 4]);
    }

    #[test]
    fn a_storage_is_private_until_another_thread_enters() {
        let s = Storage::allocate(16).unwrap();
        drop((s.read().unwrap(), s.is_private()));
        drop(s.write().unwrap());
        assert!(s.is_private() && s.is_home());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(!s.is_private() && !s.is_home());
                drop(s.read().unwrap());
            });
        });
        assert!(s.is_home() && !s.is_private());
    }

    #[test]
    fn other_threads_read_and_write() {
        let s = Storage::allocate(16).unwrap();
        let mine = s.read().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _at_once = try_borrows();
                assert!(s.write().is_err(), "read at home");
                drop(s.read().unwrap());
            });
        });
        drop(mine);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let theirs = s.write().unwrap();
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        let _at_once = try_borrows();
                        assert!(s.read().is_err());
                    });
                });
                drop(theirs);
            });
        });
        // the home is gone; every thread takes the locked path
        let again = s.read().unwrap();
        assert!(s.write().is_err());
        drop(again);
        assert!(s.write().is_ok());
        assert_eq!(s.version(), 2);
    }

    /// Readers at home against a writer elsewhere: no reader sees a half-written pair.
    #[test]
    fn a_foreign_writer_and_home_readers_exclude_each_other() {
        let rounds = if cfg!(miri) { 5 } else { 300 };
        for round in 0..rounds {
            let s = Storage::allocate(16).unwrap();
            let p = s.ptr().unwrap().cast::<[u64; 2]>();
            // SAFETY: this thread alone has the storage.
            unsafe { p.write([0, 0]) };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for i in 1..20u64 {
                        if let Some(_guard) = s.try_hold() {
                            // SAFETY: the guard.
                            unsafe { s.ptr().unwrap().cast::<[u64; 2]>().write([i, i]) };
                        }
                    }
                });
                for _ in 0..40 {
                    if let Some(_guard) = s.try_read() {
                        // SAFETY: the guard.
                        let [a, b] = unsafe { s.ptr().unwrap().cast::<[u64; 2]>().read() };
                        assert_eq!(a, b, "round {round}");
                    }
                }
            });
            assert!(s.write().is_ok(), "everybody has left");
        }
    }
}
