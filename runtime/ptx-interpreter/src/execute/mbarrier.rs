use super::warp::{Group, Warp, assign, lanes};
use super::{Machine, Outcome, set, source, trouble};
use crate::number::LANES;
use crate::program::{Mbarrier, MbarrierKind, SHARED_WINDOW, Space};

/// Bits of a count in the object, of which there are two: those expected and those to come.
const COUNT: u32 = 20;
const COUNT_MASK: u64 = (1 << COUNT) - 1;
const PHASE: u32 = 2 * COUNT;

impl Machine<'_> {
    /// `mbarrier`: the object is a word of 64 bits in shared memory, with the phase above the counts.
    pub(super) fn mbarrier(
        &mut self,
        warp: &mut Warp,
        group: &Group,
        mbarrier: &Mbarrier,
        active: u32,
        pc: u32,
    ) -> Outcome<()> {
        let addresses = self.addresses(warp, group, &mbarrier.address);
        let offsets = match mbarrier.address.space {
            Space::Shared => addresses.map(|address| address & 0xffff_ffff),
            _ => addresses.map(|address| address.wrapping_sub(SHARED_WINDOW)),
        };
        let values = mbarrier
            .value
            .map_or([1; LANES], |value| *source(&warp.registers, &self.constants, group, value));
        let (mut out, mut done) = ([0; LANES], 0);
        self.strong += 1;
        for lane in lanes(active) {
            let (offset, index) = (offsets[lane], warp.index as usize);
            let user = self.user(warp, lane, pc, true);
            let word = match self.shared.atomic(user, offset, 8) {
                Ok(word) => word,
                Err(kind) => return trouble(lane, kind),
            };
            let old = word.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            let (expected, left) = (old & COUNT_MASK, old >> COUNT & COUNT_MASK);
            let phase = old >> PHASE;
            let value = values[lane];
            let new = match mbarrier.kind {
                MbarrierKind::Init => value & COUNT_MASK | (value & COUNT_MASK) << COUNT,
                MbarrierKind::Inval => 0,
                MbarrierKind::Arrive => {
                    out[lane] = phase;
                    match left.saturating_sub(value & COUNT_MASK) {
                        0 => expected | expected << COUNT | (phase + 1) << PHASE,
                        left => expected | left << COUNT | phase << PHASE,
                    }
                }
                MbarrierKind::Test { parity } => {
                    let over = if parity { phase & 1 != value & 1 } else { phase != value };
                    done |= u32::from(over) << lane;
                    old
                }
            };
            word.copy_from_slice(&new.to_le_bytes());
            match mbarrier.kind {
                MbarrierKind::Arrive => self.shared.release(index, offset, new >> PHASE != phase),
                MbarrierKind::Test { .. } if done >> lane & 1 == 1 => {
                    self.shared.acquire(index, offset)
                }
                _ => {}
            }
        }
        if let Some(state) = mbarrier.state {
            assign(&mut warp.registers[(group.registers + state) as usize], &out, active);
        }
        if let Some(predicate) = mbarrier.done {
            set(warp, group, predicate, done, active);
        }
        Ok(())
    }
}
