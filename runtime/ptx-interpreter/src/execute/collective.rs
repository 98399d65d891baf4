use super::warp::{Group, Warp, assign, lanes};
use super::{Machine, Next, Outcome, condition, set, source, trouble};
use crate::fault::FaultKind;
use crate::number::LANES;
use crate::program::{Collective, ReduceMode, ShuffleMode, Source, VoteMode};

impl Machine<'_> {
    /// An instruction that threads of a warp execute together: those that each one's mask names.
    pub(super) fn collective(
        &mut self,
        warp: &mut Warp,
        group: &Group,
        collective: &Collective,
        mask: Source,
        active: u32,
    ) -> Outcome<Next> {
        let masks = *source(&warp.registers, &self.constants, group, mask);
        let named = lanes(active).fold(0, |named, lane| named | masks[lane] as u32);
        let missing = named & !active;
        if missing & warp.valid & !warp.exited & !group.mask != 0 {
            return Ok(Next::Wait);
        }
        let pc = group.pc - 1;
        let mut left = active;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let mask = masks[lane] as u32;
            let same = lanes(left).filter(|&lane| masks[lane] as u32 == mask);
            let team = same.fold(0, |team, lane| team | 1 << lane);
            if team != mask {
                return trouble(lane, FaultKind::DivergentShuffle { mask, active });
            }
            left &= !team;
            self.together(warp, group, collective, team, pc)?;
        }
        Ok(Next::Go)
    }

    fn together(
        &mut self,
        warp: &mut Warp,
        group: &Group,
        collective: &Collective,
        team: u32,
        pc: u32,
    ) -> Outcome<()> {
        let slot = |into: u32| (group.registers + into) as usize;
        let mut out = [0; LANES];
        match collective {
            Collective::Barrier => self.shared.meet_in_warp(warp.index as usize),
            Collective::Shuffle { mode, into, valid, value, lane, clamp } => {
                let values = *source(&warp.registers, &self.constants, group, *value);
                let by = source(&warp.registers, &self.constants, group, *lane);
                let clamps = source(&warp.registers, &self.constants, group, *clamp);
                let mut inside = 0u32;
                for own in lanes(team) {
                    let (taken, valid) =
                        partner(*mode, own as u32, by[own] as u32, clamps[own] as u32);
                    if team >> taken & 1 == 0 {
                        let kind = FaultKind::InactiveLane { lane: taken, active: team };
                        return trouble(own, kind);
                    }
                    out[own] = values[taken as usize] & 0xffff_ffff;
                    inside |= u32::from(valid) << own;
                }
                assign(&mut warp.registers[slot(*into)], &out, team);
                if let Some(valid) = valid {
                    set(warp, group, *valid, inside, team);
                }
            }
            Collective::VotePredicate { mode, into, condition: by } => {
                let holds = condition(warp, group, *by) & team;
                let value = match mode {
                    VoteMode::All => holds == team,
                    VoteMode::Any => holds != 0,
                    VoteMode::Uniform => holds == team || holds == 0,
                };
                set(warp, group, *into, if value { u32::MAX } else { 0 }, team);
            }
            Collective::Ballot { into, condition: by } => {
                let holds = condition(warp, group, *by) & team;
                assign(&mut warp.registers[slot(*into)], &[holds.into(); LANES], team);
            }
            Collective::MatchAny { into, bits, value } => {
                let values = source(&warp.registers, &self.constants, group, *value)
                    .map(|value| value & (u64::MAX >> (64 - bits)));
                for own in lanes(team) {
                    let same = lanes(team).filter(|&lane| values[lane] == values[own]);
                    out[own] = same.fold(0, |mask, lane| mask | 1 << lane);
                }
                assign(&mut warp.registers[slot(*into)], &out, team);
            }
            Collective::MatchAll { into, all, bits, value } => {
                let values = source(&warp.registers, &self.constants, group, *value)
                    .map(|value| value & (u64::MAX >> (64 - bits)));
                let first = values[team.trailing_zeros() as usize];
                let same = lanes(team).all(|lane| values[lane] == first);
                let mask = if same { team } else { 0 };
                assign(&mut warp.registers[slot(*into)], &[mask.into(); LANES], team);
                if let Some(all) = all {
                    set(warp, group, *all, if same { u32::MAX } else { 0 }, team);
                }
            }
            Collective::Reduce { mode, signed, into, value } => {
                let values = source(&warp.registers, &self.constants, group, *value);
                let combined =
                    lanes(team).map(|lane| values[lane] as u32).reduce(|a, b| match mode {
                        ReduceMode::Add => a.wrapping_add(b),
                        ReduceMode::And => a & b,
                        ReduceMode::Or => a | b,
                        ReduceMode::Xor => a ^ b,
                        ReduceMode::Minimum if *signed => (a as i32).min(b as i32) as u32,
                        ReduceMode::Maximum if *signed => (a as i32).max(b as i32) as u32,
                        ReduceMode::Minimum => a.min(b),
                        ReduceMode::Maximum => a.max(b),
                    });
                let combined = combined.unwrap_or(0);
                assign(&mut warp.registers[slot(*into)], &[combined.into(); LANES], team);
            }
            Collective::Elect { into, leader } => {
                let first = team.trailing_zeros();
                assign(&mut warp.registers[slot(*into)], &[first.into(); LANES], team);
                if let Some(leader) = leader {
                    set(warp, group, *leader, 1 << first, team);
                }
            }
            Collective::LoadMatrix { into, address, transposed } => {
                self.load_matrix(warp, group, into, address, *transposed, pc)?;
            }
            Collective::StoreMatrix { from, address, transposed } => {
                self.store_matrix(warp, group, from, address, *transposed, pc)?;
            }
            Collective::Multiply(multiply) => self.multiply(warp, group, multiply),
        }
        Ok(())
    }
}

/// The lane from which `shfl` takes a value, and whether it is in range.
fn partner(mode: ShuffleMode, own: u32, by: u32, clamp: u32) -> (u32, bool) {
    let segment = clamp >> 8 & 31;
    let (by, clamp) = (by & 31, clamp & 31);
    let most = own & segment | clamp & !segment & 31;
    let least = own & segment;
    let (taken, valid) = match mode {
        ShuffleMode::Up => {
            let taken = own as i32 - by as i32;
            return if taken >= most as i32 { (taken as u32, true) } else { (own, false) };
        }
        ShuffleMode::Down => (own + by, own + by <= most),
        ShuffleMode::Butterfly => (own ^ by, own ^ by <= most),
        ShuffleMode::Index => {
            let taken = least | by & !segment & 31;
            (taken, taken <= most)
        }
    };
    if valid { (taken, true) } else { (own, false) }
}
