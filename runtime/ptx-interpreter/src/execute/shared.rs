use std::collections::HashMap;

use crate::fault::{FaultKind, RaceKind};
use crate::memory::POISON;

/// Who uses shared memory, for races.
#[derive(Debug, Clone, Copy)]
pub(super) struct User {
    pub(super) thread: u32,
    pub(super) pc: u32,
    /// Ordered with other accesses of its kind: volatile, relaxed, atomic.
    pub(super) strong: bool,
}

/// An access as it is remembered.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    /// Of the warp; 0 for no access.
    time: u32,
    pc: u32,
    thread: u16,
    strong: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Granule {
    write: Record,
    /// The last readers of different warps or threads.
    reads: [Record; 2],
    /// The instruction of an asynchronous copy that has not been waited for, plus 1.
    pending: u32,
    /// The number of the block that wrote it.
    written: u32,
}

/// Shared memory of a block, with the last accesses to each part of it.
///
/// Time is counted for each warp and goes on at each of its barriers. A warp knows up to which time
/// it has waited for each other one; two accesses race if the later one does not know of the earlier.
#[derive(Debug)]
pub(super) struct Shared {
    bytes: Vec<u8>,
    granules: Vec<Granule>,
    /// Bytes of a granule, and their logarithm.
    granule: u64,
    shift: u32,
    time: Vec<u32>,
    /// By warp and other warp.
    known: Vec<u32>,
    pending: usize,
    /// The number of the block, from 1.
    block: u32,
    unwritten: u64,
    /// For each barrier object, the times that its arrivals bring: of this phase and the last one.
    objects: HashMap<u64, [Vec<u32>; 2]>,
}

impl Shared {
    pub(super) fn new(bytes: usize, granule: u32, warps: usize, check: bool) -> Shared {
        let granules = if check { bytes.div_ceil(granule as usize) } else { 0 };
        Shared {
            bytes: vec![POISON; bytes],
            granules: vec![Granule::default(); granules],
            granule: granule.into(),
            shift: granule.trailing_zeros(),
            time: vec![1; warps],
            known: vec![0; warps * warps],
            pending: 0,
            block: 0,
            unwritten: 0,
            objects: HashMap::new(),
        }
    }

    /// Whether accesses are noted.
    pub(super) fn checks(&self) -> bool {
        !self.granules.is_empty()
    }

    /// How many granules were read that no thread of the block had written.
    pub(super) fn unwritten(&self) -> u64 {
        self.unwritten
    }

    pub(super) fn contents(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// For the next block.
    pub(super) fn restart(&mut self) {
        self.bytes.fill(POISON);
        self.objects.clear();
        self.block = self.block.wrapping_add(1);
        let all: Vec<usize> = (0..self.time.len()).collect();
        self.meet(&all, &all);
        if self.pending > 0 {
            self.granules.iter_mut().for_each(|granule| granule.pending = 0);
            self.pending = 0;
        }
    }

    /// The warps in `waits` have waited for those in `arrives`.
    pub(super) fn meet(&mut self, arrives: &[usize], waits: &[usize]) {
        let warps = self.time.len();
        let mut known = vec![0; warps];
        for &warp in arrives {
            for (other, slot) in known.iter_mut().enumerate() {
                *slot = (*slot).max(self.known[warp * warps + other]);
            }
            known[warp] = known[warp].max(self.time[warp]);
        }
        for &warp in waits {
            for (other, &time) in known.iter().enumerate() {
                let slot = &mut self.known[warp * warps + other];
                *slot = (*slot).max(time);
            }
        }
        for &warp in arrives {
            self.time[warp] += 1;
        }
    }

    /// A warp arrives at a barrier object; the last one ends the phase.
    pub(super) fn release(&mut self, warp: usize, object: u64, last: bool) {
        let warps = self.time.len();
        let [this, before] = self.objects.entry(object).or_default();
        this.resize(warps, 0);
        for (other, time) in this.iter_mut().enumerate() {
            *time = (*time).max(self.known[warp * warps + other]);
        }
        this[warp] = this[warp].max(self.time[warp]);
        self.time[warp] += 1;
        if last {
            *before = std::mem::take(this);
        }
    }

    /// A warp has found the last phase of a barrier object over.
    pub(super) fn acquire(&mut self, warp: usize, object: u64) {
        let warps = self.time.len();
        if let Some([_, before]) = self.objects.get(&object) {
            for (other, &time) in before.iter().enumerate() {
                let slot = &mut self.known[warp * warps + other];
                *slot = (*slot).max(time);
            }
        }
    }

    /// The threads of a warp have waited for each other.
    pub(super) fn meet_in_warp(&mut self, warp: usize) {
        let warps = self.time.len();
        self.known[warp * warps + warp] = self.time[warp];
        self.time[warp] += 1;
    }

    #[inline(always)]
    pub(super) fn check(&self, offset: u64, bytes: u32) -> Result<usize, FaultKind> {
        if offset.checked_add(bytes.into()).is_none_or(|end| end > self.size()) {
            return Err(FaultKind::SharedOutOfBounds { offset, bytes, size: self.size() });
        }
        // a power of two
        if offset & u64::from(bytes - 1) != 0 {
            return Err(FaultKind::Misaligned { address: offset, bytes });
        }
        Ok(offset as usize)
    }

    #[inline]
    pub(super) fn read(&mut self, user: User, offset: u64, bytes: u32) -> Result<&[u8], FaultKind> {
        let start = self.check(offset, bytes)?;
        if !self.granules.is_empty() {
            self.note_read(user, offset, bytes)?;
        }
        Ok(&self.bytes[start..start + bytes as usize])
    }

    #[inline]
    pub(super) fn write(&mut self, user: User, offset: u64, from: &[u8]) -> Result<(), FaultKind> {
        let start = self.check(offset, from.len() as u32)?;
        if !self.granules.is_empty() {
            self.note_write(user, offset, from.len() as u32, Some(from))?;
        }
        self.bytes[start..start + from.len()].copy_from_slice(from);
        Ok(())
    }

    /// What an atomic operation reads and then writes.
    pub(super) fn atomic(
        &mut self,
        user: User,
        offset: u64,
        bytes: u32,
    ) -> Result<&mut [u8], FaultKind> {
        let start = self.check(offset, bytes)?;
        if !self.granules.is_empty() {
            self.note_read(user, offset, bytes)?;
            self.note_write(user, offset, bytes, None)?;
        }
        Ok(&mut self.bytes[start..start + bytes as usize])
    }

    /// An asynchronous copy begins.
    pub(super) fn begin_copy(
        &mut self,
        user: User,
        offset: u64,
        from: &[u8],
    ) -> Result<(), FaultKind> {
        self.check(offset, from.len() as u32)?;
        if self.granules.is_empty() {
            return Ok(());
        }
        self.note_write(user, offset, from.len() as u32, Some(from))?;
        for index in self.range(offset, from.len() as u32) {
            self.pending += usize::from(self.granules[index].pending == 0);
            self.granules[index].pending = user.pc + 1;
        }
        Ok(())
    }

    /// The thread has waited for it.
    pub(super) fn end_copy(
        &mut self,
        user: User,
        offset: u64,
        from: &[u8],
    ) -> Result<(), FaultKind> {
        if !self.granules.is_empty() {
            for index in self.range(offset, from.len() as u32) {
                self.pending -= usize::from(self.granules[index].pending != 0);
                self.granules[index].pending = 0;
            }
        }
        self.write(user, offset, from)
    }

    #[inline(always)]
    fn range(&self, offset: u64, bytes: u32) -> std::ops::Range<usize> {
        let first = (offset >> self.shift) as usize;
        let end = ((offset + u64::from(bytes - 1)) >> self.shift) as usize + 1;
        first..end
    }

    #[inline(always)]
    fn record(&self, user: User) -> Record {
        Record {
            time: self.time[user.thread as usize / 32],
            pc: user.pc,
            thread: user.thread as u16,
            strong: user.strong,
        }
    }

    /// Whether an earlier access is of another thread and not known to have happened.
    #[inline(always)]
    fn races(&self, earlier: Record, now: Record) -> bool {
        let warps = self.time.len();
        earlier.time
            > self.known[usize::from(now.thread) / 32 * warps + usize::from(earlier.thread) / 32]
            && earlier.thread != now.thread
            && !(earlier.strong && now.strong)
    }

    fn pending(&self, index: usize) -> Result<(), FaultKind> {
        if self.pending > 0 && self.granules[index].pending > 0 {
            return Err(FaultKind::PendingCopy {
                offset: index as u64 * self.granule,
                // an instruction until the line is looked up
                copy_line: self.granules[index].pending as usize - 1,
            });
        }
        Ok(())
    }

    /// Notes what a read uses: its range has been checked.
    #[inline(always)]
    pub(super) fn note_read(
        &mut self,
        user: User,
        offset: u64,
        bytes: u32,
    ) -> Result<(), FaultKind> {
        let now = self.record(user);
        for index in self.range(offset, bytes) {
            self.pending(index)?;
            let granule = self.granules[index];
            self.unwritten += u64::from(granule.written != self.block);
            if self.races(granule.write, now) {
                return Err(self.race(RaceKind::ReadAfterWrite, index, granule.write));
            }
            // of another warp rather than of this one, since more threads race with it
            let [first, second] = granule.reads;
            let spent = |read: Record| !self.races(read, now);
            let of_warp = |read: Record| read.thread / 32 == now.thread / 32;
            let keeps = !spent(first) && (!of_warp(first) || spent(second) || of_warp(second));
            let slot = usize::from(keeps);
            self.granules[index].reads[slot] = now;
        }
        Ok(())
    }

    fn note_write(
        &mut self,
        user: User,
        offset: u64,
        bytes: u32,
        from: Option<&[u8]>,
    ) -> Result<(), FaultKind> {
        let now = self.record(user);
        for index in self.range(offset, bytes) {
            self.pending(index)?;
            let granule = self.granules[index];
            if self.races(granule.write, now) && self.changes(offset, from, index) {
                return Err(self.race(RaceKind::WriteAfterWrite, index, granule.write));
            }
            for read in granule.reads {
                if self.races(read, now) {
                    return Err(self.race(RaceKind::WriteAfterRead, index, read));
                }
            }
            self.granules[index].write = now;
            self.granules[index].written = self.block;
        }
        Ok(())
    }

    /// Whether a write changes the contents of a granule. That of an atomic operation counts so.
    fn changes(&self, offset: u64, from: Option<&[u8]>, index: usize) -> bool {
        let start = index as u64 * self.granule;
        let end = (start + self.granule).min(self.size());
        let old = &self.bytes[start as usize..end as usize];
        let new = from.and_then(|from| from.get(start.saturating_sub(offset) as usize..));
        new.is_none_or(|new| new.get(..old.len()) != Some(old))
    }

    fn race(&self, race: RaceKind, index: usize, other: Record) -> FaultKind {
        FaultKind::SharedRace {
            race,
            offset: index as u64 * self.granule,
            // the thread and the instruction, until they are looked up
            other_thread: [other.thread.into(), 0, 0],
            other_line: other.pc as usize,
        }
    }
}
