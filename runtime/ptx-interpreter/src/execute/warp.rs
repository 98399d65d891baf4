use crate::memory::POISON;
use crate::number::{LANES, Lanes};
use crate::program::Frame;

/// Threads of a warp that execute the same instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) mask: u32,
    pub(super) pc: u32,
    /// How many calls deep.
    pub(super) depth: u32,
    /// Where the frame begins among the registers, the predicates, and in local memory.
    pub(super) registers: u32,
    pub(super) predicates: u32,
    pub(super) local: u32,
    /// For others of the warp, at an instruction that all execute together.
    pub(super) waiting: bool,
}

impl Group {
    fn meets(&self, other: &Group) -> bool {
        (self.pc, self.depth, self.registers, self.local)
            == (other.pc, other.depth, other.registers, other.local)
    }
}

/// Where a thread goes on after a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Return {
    pub(super) pc: u32,
    pub(super) registers: u32,
    pub(super) predicates: u32,
    pub(super) local: u32,
    /// The instruction that called, and the function.
    pub(super) call: u32,
    pub(super) callee: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// At a barrier of the block.
    Barrier,
    Done,
}

/// A copy into shared memory that has not been waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingCopy {
    pub(super) lane: u32,
    pub(super) group: u32,
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) data: [u8; 16],
    pub(super) pc: u32,
}

/// 32 threads, or fewer at the end of a block.
#[derive(Debug)]
pub(super) struct Warp {
    pub(super) index: u32,
    /// Lanes that have a thread.
    pub(super) valid: u32,
    pub(super) exited: u32,
    pub(super) registers: Vec<Lanes>,
    pub(super) predicates: Vec<u32>,
    pub(super) local: Vec<Vec<u8>>,
    /// The groups that do not run at the moment.
    pub(super) groups: Vec<Group>,
    /// By depth and lane.
    pub(super) returns: Vec<[Return; LANES]>,
    pub(super) state: State,
    pub(super) copies: Vec<PendingCopy>,
    /// How many groups of copies each thread has committed.
    pub(super) committed: [u32; LANES],
    /// The index of each thread in x, y and z.
    pub(super) threads: [Lanes; 3],
    turn: usize,
}

impl Warp {
    pub(super) fn new(index: u32, block: [u32; 3], frame: &Frame) -> Warp {
        let count = block.iter().product::<u32>();
        let mut threads = [[0; LANES]; 3];
        let mut valid = 0;
        for lane in 0..LANES as u32 {
            let thread = index * LANES as u32 + lane;
            if thread < count {
                valid |= 1 << lane;
            }
            let [x, y, z] = position(thread, block);
            threads[0][lane as usize] = x.into();
            threads[1][lane as usize] = y.into();
            threads[2][lane as usize] = z.into();
        }
        let poison = u64::from_le_bytes([POISON; 8]);
        Warp {
            index,
            valid,
            exited: 0,
            registers: vec![[poison; LANES]; frame.registers as usize],
            predicates: vec![0; frame.predicates as usize],
            local: vec![vec![POISON; frame.local as usize]; LANES],
            groups: Vec::new(),
            returns: Vec::new(),
            state: State::Ready,
            copies: Vec::new(),
            committed: [0; LANES],
            threads,
            turn: 0,
        }
    }

    /// To the first instruction of the kernel.
    pub(super) fn restart(&mut self, start: u32) {
        self.exited = 0;
        self.copies.clear();
        self.state = State::Ready;
        self.groups.clear();
        self.groups.push(Group {
            mask: self.valid,
            pc: start,
            depth: 0,
            registers: 0,
            predicates: 0,
            local: 0,
            waiting: false,
        });
    }

    /// Takes the group that runs next, joined with those that stand where it does: the deepest one,
    /// of these the one that is furthest behind, so that threads meet again. With `rotate` another
    /// one each time, so that threads which wait for each other get on.
    pub(super) fn schedule(&mut self, rotate: bool) -> Option<Group> {
        let ready = |group: &&(usize, &Group)| !group.1.waiting;
        let chosen = if rotate {
            self.turn += 1;
            let count = self.groups.iter().filter(|group| !group.waiting).count();
            let turn = self.turn.checked_rem(count)?;
            self.groups.iter().enumerate().filter(|group| ready(&group)).nth(turn)?.0
        } else {
            let best = self.groups.iter().enumerate().filter(|group| ready(&group));
            best.max_by_key(|(_, group)| (group.depth, u32::MAX - group.pc))?.0
        };
        let mut group = self.groups.swap_remove(chosen);
        self.groups.retain(|other| {
            let meets = group.meets(other);
            if meets {
                group.mask |= other.mask;
            }
            !meets
        });
        group.waiting = false;
        Some(group)
    }

    /// Where a group meets the next other one.
    pub(super) fn limit(&self, group: &Group) -> u32 {
        let ahead =
            self.groups.iter().filter(|other| other.depth == group.depth && other.pc > group.pc);
        ahead.map(|other| other.pc).min().unwrap_or(u32::MAX)
    }
}

/// The index of a thread in its block.
pub(super) fn position(thread: u32, block: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = block.map(|size| size.max(1));
    [thread % x, thread / x % y, thread / x / y]
}

/// The lanes of a mask.
#[inline(always)]
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        Some(lane)
    })
}

/// Writes the lanes of a mask.
#[inline(always)]
pub(super) fn assign(register: &mut Lanes, values: &Lanes, mask: u32) {
    if mask == u32::MAX {
        *register = *values;
        return;
    }
    for lane in 0..LANES {
        let take = 0u64.wrapping_sub(u64::from(mask >> lane & 1));
        register[lane] = values[lane] & take | register[lane] & !take;
    }
}
