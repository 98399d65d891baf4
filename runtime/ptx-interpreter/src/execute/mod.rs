//! Runs programs: blocks one after the other, their warps in turns, the lanes of a warp together.

mod block;
pub(crate) mod calls;
mod collective;
mod count;
mod matrix;
mod mbarrier;
mod memory;
mod shared;
mod values;
mod warp;

use self::shared::{Shared, User};
use self::values::both_parts;
use self::warp::{Group, Warp, assign, lanes, position};
use crate::fault::{Fault, FaultKind};
use crate::memory::DeviceMemory;
use crate::number::{LANES, Lanes, convert};
use crate::program::{Code, Condition, Guard, Inst, Join, Program, Source, WINDOW};
use crate::run::{Launch, Options, Statistics};

/// What a lane did wrong.
#[derive(Debug)]
struct Trouble {
    lane: usize,
    kind: FaultKind,
}

type Outcome<T> = Result<T, Box<Trouble>>;

fn trouble<T>(lane: usize, kind: FaultKind) -> Outcome<T> {
    Err(Box::new(Trouble { lane, kind }))
}

/// Why a warp stops for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// Its turn is over.
    Turn,
    Barrier(Group),
    Done,
}

/// What a group does after an instruction.
enum Next {
    /// The following one, or the one that a branch or a call chose.
    Go,
    /// The groups of the warp have changed: another one may come first.
    Choose,
    /// The group waits for others of its warp.
    Wait,
    Barrier,
}

/// Warp instructions until another warp has its turn.
const TURN: u64 = 1 << 16;
/// Atomic and volatile accesses until then: the warp may wait for another one, or for its own lanes.
const STRONG: u32 = 64;

pub(crate) struct Machine<'m> {
    program: &'m Program,
    source: &'m str,
    constants: Vec<Lanes>,
    memory: &'m mut DeviceMemory,
    launch: Launch<'m>,
    options: Options,
    statistics: Statistics,
    shared: Shared,
    block: [u32; 3],
    /// Atomic and volatile accesses of warps in this turn.
    strong: u32,
}

fn source<'r>(
    registers: &'r [Lanes],
    constants: &'r [Lanes],
    group: &Group,
    source: Source,
) -> &'r Lanes {
    if source.0 & Source::CONSTANT == 0 {
        &registers[(group.registers + source.0) as usize]
    } else {
        &constants[(source.0 & !Source::CONSTANT) as usize]
    }
}

fn condition(warp: &Warp, group: &Group, condition: Condition) -> u32 {
    let mask = warp.predicates[(group.predicates + condition.predicate) as usize];
    if condition.negated { !mask } else { mask }
}

fn set(warp: &mut Warp, group: &Group, predicate: u32, value: u32, active: u32) {
    let slot = &mut warp.predicates[(group.predicates + predicate) as usize];
    *slot = *slot & !active | value & active;
}

fn joined(warp: &Warp, group: &Group, value: u32, join: Option<(Join, Condition)>) -> u32 {
    match join {
        None => value,
        Some((join, other)) => combine(join, value, condition(warp, group, other)),
    }
}

fn combine(join: Join, a: u32, b: u32) -> u32 {
    match join {
        Join::And => a & b,
        Join::Or => a | b,
        Join::Xor => a ^ b,
    }
}

impl<'m> Machine<'m> {
    pub(crate) fn new(
        program: &'m Program,
        source: &'m str,
        constants: Vec<Lanes>,
        memory: &'m mut DeviceMemory,
        launch: Launch<'m>,
        options: Options,
    ) -> Machine<'m> {
        let threads = launch.block.iter().product::<u32>();
        let mut bytes = program.static_shared as usize;
        if launch.dynamic_shared > 0 {
            bytes = bytes.next_multiple_of(16) + launch.dynamic_shared as usize;
        }
        let warps = threads.div_ceil(LANES as u32) as usize;
        Machine {
            program,
            source,
            constants,
            memory,
            launch,
            options,
            statistics: Statistics::default(),
            shared: Shared::new(bytes, program.granule, warps, options.check_races),
            block: [0; 3],
            strong: 0,
        }
    }

    fn fault(&self, kernel: &str, warp: u32, pc: u32, trouble: Trouble) -> Fault {
        let line = |pc: usize| self.program.spans.get(pc).map_or(0, |span| span.line);
        let place = |thread: u32| position(thread, self.launch.block);
        let kind = match trouble.kind {
            FaultKind::SharedRace { race, offset, other_thread: [thread, ..], other_line } => {
                FaultKind::SharedRace {
                    race,
                    offset,
                    other_thread: place(thread),
                    other_line: line(other_line),
                }
            }
            FaultKind::PendingCopy { offset, copy_line } => {
                FaultKind::PendingCopy { offset, copy_line: line(copy_line) }
            }
            FaultKind::DivergentBarrier { other_thread: [thread, ..], other_line } => {
                FaultKind::DivergentBarrier {
                    other_thread: place(thread),
                    other_line: if other_line == usize::MAX { 0 } else { line(other_line) },
                }
            }
            kind => kind,
        };
        let span = self.program.spans.get(pc as usize);
        let text = span.and_then(|span| self.source.get(span.start..span.end)).unwrap_or("");
        Fault {
            kernel: kernel.to_owned(),
            block: self.block,
            thread: place(warp * LANES as u32 + trouble.lane as u32),
            line: line(pc as usize),
            instruction: text.split_whitespace().collect::<Vec<_>>().join(" "),
            kind,
        }
    }

    /// Runs a warp until it has to wait, is done, or has had its turn.
    fn turn(&mut self, warp: &mut Warp, rotate: bool) -> Result<Pause, (u32, Box<Trouble>)> {
        let program = self.program;
        let mut left = TURN;
        let mut rotate = rotate;
        loop {
            let Some(mut group) = warp.schedule(rotate) else {
                return self.stuck(warp);
            };
            rotate = false;
            let mut limit = warp.limit(&group);
            loop {
                if left == 0 {
                    warp.groups.push(group);
                    return Ok(Pause::Turn);
                }
                left -= 1;
                if self.strong > STRONG {
                    self.strong = 0;
                    left = 0;
                }
                let pc = group.pc;
                let inst = &program.code[pc as usize];
                let active = match inst.guard {
                    Guard::Always => group.mask,
                    Guard::If(predicate) => {
                        group.mask & warp.predicates[(group.predicates + predicate) as usize]
                    }
                    Guard::Unless(predicate) => {
                        group.mask & !warp.predicates[(group.predicates + predicate) as usize]
                    }
                };
                group.pc = pc + 1;
                self.statistics.warp_instructions += 1;
                self.statistics.instructions += u64::from(active.count_ones());
                let next = if active == 0 {
                    Next::Go
                } else {
                    self.step(warp, &mut group, inst, active, pc)
                        .map_err(|trouble| (pc, trouble))?
                };
                match next {
                    Next::Go if group.pc < limit => {}
                    Next::Go => {
                        warp.groups.push(group);
                        break;
                    }
                    Next::Choose => {
                        if group.mask == 0 {
                            if warp.groups.is_empty() {
                                return Ok(Pause::Done);
                            }
                            break;
                        }
                        if !warp.groups.is_empty() {
                            warp.groups.push(group);
                            break;
                        }
                        limit = u32::MAX;
                    }
                    Next::Wait => {
                        warp.groups.push(Group { pc, waiting: true, ..group });
                        break;
                    }
                    Next::Barrier => return Ok(Pause::Barrier(group)),
                }
            }
            if self.statistics.instructions > self.options.max_instructions {
                let pc = warp.groups.last().map_or(0, |group| group.pc);
                let kind = FaultKind::TooManyInstructions { most: self.options.max_instructions };
                return Err((pc, Box::new(Trouble { lane: 0, kind })));
            }
        }
    }

    /// All groups of a warp wait for each other.
    fn stuck(&self, warp: &Warp) -> Result<Pause, (u32, Box<Trouble>)> {
        let at_barrier =
            |group: &&Group| matches!(self.program.code[group.pc as usize].code, Code::Barrier(_));
        let Some(first) =
            warp.groups.iter().find(|group| !at_barrier(group)).or(warp.groups.first())
        else {
            return Ok(Pause::Done);
        };
        let lane = first.mask.trailing_zeros() as usize;
        let kind = if at_barrier(&first) {
            let (mask, other_line) = match warp.groups.iter().find(|group| *group != first) {
                Some(other) => (other.mask, other.pc as usize),
                None => (warp.exited, usize::MAX),
            };
            let thread = warp.index * LANES as u32 + mask.trailing_zeros();
            FaultKind::DivergentBarrier { other_thread: [thread, 0, 0], other_line }
        } else {
            let mask = self.required(warp, first, lane);
            FaultKind::DivergentShuffle { mask, active: first.mask }
        };
        Err((first.pc, Box::new(Trouble { lane, kind })))
    }

    fn required(&self, warp: &Warp, group: &Group, lane: usize) -> u32 {
        match &self.program.code[group.pc as usize].code {
            Code::Collective { mask, .. } => {
                source(&warp.registers, &self.constants, group, *mask)[lane] as u32
            }
            _ => group.mask,
        }
    }

    #[inline]
    fn step(
        &mut self,
        warp: &mut Warp,
        group: &mut Group,
        inst: &Inst,
        active: u32,
        pc: u32,
    ) -> Outcome<Next> {
        let mut out = [0; LANES];
        match &inst.code {
            Code::Nothing => {}
            Code::Map1 { map, into, a } => {
                map(source(&warp.registers, &self.constants, group, *a), &mut out);
                assign(&mut warp.registers[(group.registers + into) as usize], &out, active);
            }
            Code::Map2 { map, into, a, b } => {
                map(
                    source(&warp.registers, &self.constants, group, *a),
                    source(&warp.registers, &self.constants, group, *b),
                    &mut out,
                );
                assign(&mut warp.registers[(group.registers + into) as usize], &out, active);
            }
            Code::Map3 { map, into, a, b, c } => {
                map(
                    source(&warp.registers, &self.constants, group, *a),
                    source(&warp.registers, &self.constants, group, *b),
                    source(&warp.registers, &self.constants, group, *c),
                    &mut out,
                );
                assign(&mut warp.registers[(group.registers + into) as usize], &out, active);
            }
            Code::Test { test, into, opposite, a, b, join } => {
                let value = test(
                    source(&warp.registers, &self.constants, group, *a),
                    source(&warp.registers, &self.constants, group, *b),
                );
                let (yes, no) = match join {
                    None => (value, !value),
                    Some(_) => {
                        (joined(warp, group, value, *join), joined(warp, group, !value, *join))
                    }
                };
                if let Some(into) = into {
                    set(warp, group, *into, yes, active);
                }
                if let Some(opposite) = opposite {
                    set(warp, group, *opposite, no, active);
                }
            }
            Code::Select { into, a, b, condition: by } => {
                let mask = condition(warp, group, *by);
                out = *source(&warp.registers, &self.constants, group, *b);
                assign(&mut out, source(&warp.registers, &self.constants, group, *a), mask);
                assign(&mut warp.registers[(group.registers + into) as usize], &out, active);
            }
            Code::Load(access) => self.load(warp, group, access, active, pc)?,
            Code::Store(access) => self.store(warp, group, access, active, pc)?,
            Code::Branch { target } => {
                let rest = group.mask & !active;
                if rest == 0 {
                    group.pc = *target;
                    // a loop may run past others that are behind it by then
                    if !warp.groups.is_empty() {
                        return Ok(Next::Choose);
                    }
                } else {
                    self.statistics.divergent_branches += 1;
                    warp.groups.push(Group { mask: rest, ..*group });
                    group.mask = active;
                    group.pc = *target;
                    return Ok(Next::Choose);
                }
                self.check_count()?;
            }
            Code::Special { into, special } => {
                out = self.special(warp, *special);
                assign(&mut warp.registers[(group.registers + into) as usize], &out, active);
            }
            code => return self.seldom(warp, group, code, active, pc),
        }
        Ok(Next::Go)
    }

    fn check_count(&self) -> Outcome<()> {
        if self.statistics.instructions > self.options.max_instructions {
            return trouble(
                0,
                FaultKind::TooManyInstructions { most: self.options.max_instructions },
            );
        }
        Ok(())
    }

    /// The instructions that are not met at every step.
    fn seldom(
        &mut self,
        warp: &mut Warp,
        group: &mut Group,
        code: &Code,
        active: u32,
        pc: u32,
    ) -> Outcome<Next> {
        let mut out = [0; LANES];
        match code {
            Code::TestHalves { low, high, into, a, b, join } => {
                let a = source(&warp.registers, &self.constants, group, *a);
                let b = source(&warp.registers, &self.constants, group, *b);
                for (test, into) in [low, high].into_iter().zip(into) {
                    let value = joined(warp, group, test(a, b), *join);
                    if let Some(into) = into {
                        let slot = (group.predicates + into) as usize;
                        warp.predicates[slot] = warp.predicates[slot] & !active | value & active;
                    }
                }
            }
            Code::Set { test, into, a, b, join, one } => {
                let value = test(
                    source(&warp.registers, &self.constants, group, *a),
                    source(&warp.registers, &self.constants, group, *b),
                );
                assign(&mut out, &[*one; LANES], joined(warp, group, value, *join));
                assign(&mut warp.registers[(group.registers + into) as usize], &out, active);
            }
            Code::Logic { join, into, a, b } => {
                let value = combine(*join, condition(warp, group, *a), condition(warp, group, *b));
                set(warp, group, *into, value, active);
            }
            Code::Assign { into, a } => {
                let value = condition(warp, group, *a);
                set(warp, group, *into, value, active);
            }
            Code::Constant { into, value } => {
                set(warp, group, *into, if *value { u32::MAX } else { 0 }, active);
            }
            Code::Carry(carry) => self.carry(warp, group, carry, active),
            Code::Pack { into, parts, bits } => {
                let mask = u64::MAX >> (64 - bits);
                for (index, part) in parts.iter().enumerate() {
                    let part = source(&warp.registers, &self.constants, group, *part);
                    for (out, part) in out.iter_mut().zip(part) {
                        *out |= (part & mask) << (index as u32 * bits);
                    }
                }
                assign(&mut warp.registers[(group.registers + into) as usize], &out, active);
            }
            Code::Unpack { into, a, bits } => {
                let mask = u64::MAX >> (64 - bits);
                let whole = *source(&warp.registers, &self.constants, group, *a);
                for (index, into) in into.iter().enumerate() {
                    if let Some(into) = into {
                        let part = whole.map(|whole| whole >> (index as u32 * bits) & mask);
                        assign(
                            &mut warp.registers[(group.registers + into) as usize],
                            &part,
                            active,
                        );
                    }
                }
            }
            Code::LocalAddress { into, offset } => {
                out = [u64::from(group.local.wrapping_add(*offset)); LANES];
                assign(&mut warp.registers[(group.registers + into) as usize], &out, active);
            }
            Code::Convert { into, a, conversion } => {
                let a = source(&warp.registers, &self.constants, group, *a);
                for lane in lanes(active) {
                    out[lane] = convert::convert(conversion, a[lane]);
                }
                assign(&mut warp.registers[(group.registers + into) as usize], &out, active);
            }
            Code::ConvertPair { into, high, low, conversion } => {
                let high = source(&warp.registers, &self.constants, group, *high);
                let low = source(&warp.registers, &self.constants, group, *low);
                let bits = conversion.to.bits();
                for lane in lanes(active) {
                    out[lane] = convert::convert(conversion, high[lane]) << bits
                        | convert::convert(conversion, low[lane]);
                }
                assign(&mut warp.registers[(group.registers + into) as usize], &out, active);
            }
            Code::ConvertParts { into, a, conversion } => {
                let a = source(&warp.registers, &self.constants, group, *a);
                for lane in lanes(active) {
                    out[lane] = both_parts(conversion, a[lane]);
                }
                assign(&mut warp.registers[(group.registers + into) as usize], &out, active);
            }
            Code::IsSpace { into, a, window } => {
                let addresses = source(&warp.registers, &self.constants, group, *a);
                let mut value = 0;
                for (lane, &address) in addresses.iter().enumerate() {
                    let inside = match window {
                        Some(window) => address.wrapping_sub(*window) < WINDOW,
                        None => address < crate::program::SHARED_WINDOW,
                    };
                    value |= u32::from(inside) << lane;
                }
                set(warp, group, *into, value, active);
            }
            Code::Atomic(atomic) => self.atomic(warp, group, atomic, active, pc)?,
            Code::AsyncCopy(copy) => self.async_copy(warp, group, copy, active, pc)?,
            Code::Mbarrier(mbarrier) => self.mbarrier(warp, group, mbarrier, active, pc)?,
            Code::AsyncCommit => {
                for lane in lanes(active) {
                    warp.committed[lane] += 1;
                }
            }
            Code::AsyncWait { left } => self.async_wait(warp, *left, active)?,
            Code::Active { into } => {
                out = [u64::from(active); LANES];
                assign(&mut warp.registers[(group.registers + into) as usize], &out, active);
            }
            Code::Collective { collective, mask } => {
                return self.collective(warp, group, collective, *mask, active);
            }
            Code::Barrier(_) => return self.arrive(warp, group, active),
            Code::BranchIndexed { targets, index } => {
                return self.branch_indexed(warp, group, targets, *index, active);
            }
            Code::Call(call) => return self.call(warp, group, call, active, pc),
            Code::Return => return self.leave(warp, group, active),
            Code::Exit => {
                warp.exited |= active;
                group.mask &= !active;
                return Ok(Next::Choose);
            }
            Code::Trap => return trouble(active.trailing_zeros() as usize, FaultKind::Trap),
            Code::AssertFail(arguments) => {
                let lane = active.trailing_zeros() as usize;
                return trouble(lane, self.assertion(warp, group, *arguments, lane));
            }
            Code::Unsupported(instruction) => {
                let instruction = instruction.to_string();
                let lane = active.trailing_zeros() as usize;
                return trouble(lane, FaultKind::Unsupported { instruction });
            }
            // met in `step`
            Code::Nothing
            | Code::Map1 { .. }
            | Code::Map2 { .. }
            | Code::Map3 { .. }
            | Code::Test { .. }
            | Code::Select { .. }
            | Code::Load(_)
            | Code::Store(_)
            | Code::Branch { .. }
            | Code::Special { .. } => {}
        }
        Ok(Next::Go)
    }

    fn user(&self, warp: &Warp, lane: usize, pc: u32, strong: bool) -> User {
        User { thread: warp.index * LANES as u32 + lane as u32, pc, strong }
    }
}
