use super::warp::{Group, State, Warp, assign};
use super::{Machine, Next, Outcome, Pause, Trouble, condition, source, trouble};
use crate::fault::{Fault, FaultKind};
use crate::number::LANES;
use crate::program::{Barrier, BarrierKind, BarrierReduction, Code};
use crate::run::{Statistics, WarpOrder};

/// Barriers of a block; the last one is that of the cluster.
const BARRIERS: usize = 17;

/// A barrier of the block that some warps have reached.
#[derive(Debug, Clone, Default)]
struct Reached {
    /// Warps that wait, with the group that does.
    waiting: Vec<(usize, Group)>,
    /// Warps that went on.
    arrived: Vec<usize>,
    /// Threads that it waits for, if not all.
    threads: Option<u32>,
}

/// Random orders, from a seed.
struct Order {
    kind: WarpOrder,
    state: u64,
}

impl Order {
    fn new(kind: WarpOrder) -> Order {
        let state = if let WarpOrder::Shuffled(seed) = kind { seed } else { 0 };
        Order { kind, state }
    }

    /// splitmix64.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn arrange(&mut self, items: &mut [usize]) {
        match self.kind {
            WarpOrder::Forward => items.sort_unstable(),
            WarpOrder::Reverse => items.sort_unstable_by_key(|&item| usize::MAX - item),
            WarpOrder::Shuffled(_) => {
                for last in (1..items.len()).rev() {
                    items.swap(last, (self.random() % (last as u64 + 1)) as usize);
                }
            }
        }
    }

    /// A block for each number; those of one seed are a permutation.
    fn block(&self, number: u64, count: u64) -> u64 {
        match self.kind {
            WarpOrder::Forward => number,
            WarpOrder::Reverse => count - 1 - number,
            // a step that has no factor in common with the count
            WarpOrder::Shuffled(seed) => {
                let mut step = (seed % count.max(1)) | 1;
                while common_factor(step, count) != 1 {
                    step += 2;
                }
                ((u128::from(number) * u128::from(step) + u128::from(seed)) % u128::from(count))
                    as u64
            }
        }
    }
}

fn common_factor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_factor(b, a % b) }
}

impl Machine<'_> {
    /// Runs all blocks.
    pub(crate) fn run(mut self, kernel: &str) -> Result<Statistics, Fault> {
        let frame = &self.program.functions[0];
        let threads = self.launch.block.iter().product::<u32>();
        let mut warps: Vec<Warp> = (0..threads.div_ceil(LANES as u32))
            .map(|index| Warp::new(index, self.launch.block, frame))
            .collect();
        let start = frame.start;
        let [x, y, z] = self.launch.grid.map(u64::from);
        let count = x * y * z;
        let mut order = Order::new(self.options.warp_order);
        for number in 0..count {
            let block = order.block(number, count);
            self.block = [(block % x) as u32, (block / x % y) as u32, (block / x / y) as u32];
            self.shared.restart();
            warps.iter_mut().for_each(|warp| warp.restart(start));
            if let Err((warp, pc, trouble)) = self.block(&mut warps, &mut order) {
                return Err(self.fault(kernel, warp, pc, *trouble));
            }
        }
        self.statistics.uninitialized_reads = self.shared.unwritten();
        Ok(self.statistics)
    }

    fn block(
        &mut self,
        warps: &mut [Warp],
        order: &mut Order,
    ) -> Result<(), (u32, u32, Box<Trouble>)> {
        let mut barriers: Vec<Reached> = vec![Reached::default(); BARRIERS];
        let mut turns: Vec<usize> = (0..warps.len()).collect();
        let mut expired = vec![false; warps.len()];
        loop {
            order.arrange(&mut turns);
            let mut ran = false;
            for &index in &turns {
                let warp = &mut warps[index];
                if warp.state != State::Ready {
                    continue;
                }
                ran = true;
                let pause = self
                    .turn(warp, std::mem::take(&mut expired[index]))
                    .map_err(|(pc, trouble)| (index as u32, pc, trouble))?;
                match pause {
                    Pause::Turn => expired[index] = warps[index].groups.len() > 1,
                    Pause::Done => warps[index].state = State::Done,
                    Pause::Barrier(group) => self
                        .at_barrier(warps, &mut barriers, index, group)
                        .map_err(|trouble| (index as u32, group.pc - 1, trouble))?,
                }
            }
            if !ran {
                break;
            }
        }
        let waiting = barriers.iter().find_map(|barrier| barrier.waiting.first());
        let Some(&(index, group)) = waiting else { return Ok(()) };
        // another warp waits elsewhere, or has exited
        let pc = group.pc - 1;
        let elsewhere = barriers.iter().flat_map(|barrier| &barrier.waiting);
        let other = elsewhere
            .filter(|(_, other)| other.pc != group.pc)
            .map(|&(other, at)| (other, at.pc as usize - 1));
        let other = other.chain(self.exited(warps)).next().unwrap_or((index, pc as usize));
        let kind = FaultKind::DivergentBarrier {
            other_thread: [(other.0 * LANES) as u32, 0, 0],
            other_line: other.1,
        };
        let lane = group.mask.trailing_zeros() as usize;
        Err((index as u32, pc, Box::new(Trouble { lane, kind })))
    }

    fn exited(&self, warps: &[Warp]) -> Option<(usize, usize)> {
        let done = warps.iter().position(|warp| warp.state == State::Done)?;
        Some((done, usize::MAX))
    }

    /// A group at a barrier of the block: the whole warp, or it waits for the rest.
    pub(super) fn arrive(
        &mut self,
        warp: &mut Warp,
        group: &mut Group,
        active: u32,
    ) -> Outcome<Next> {
        let lane = active.trailing_zeros() as usize;
        let missing = warp.valid & !active;
        if missing & !group.mask & !warp.exited != 0 {
            return Ok(Next::Wait);
        }
        if missing != 0 {
            let absent = missing & (group.mask | warp.exited);
            let thread = warp.index * LANES as u32 + absent.trailing_zeros();
            // guarded threads go past, the others have exited
            let other_line =
                if absent & warp.exited != 0 { usize::MAX } else { group.pc as usize - 1 };
            let kind = FaultKind::DivergentBarrier { other_thread: [thread, 0, 0], other_line };
            return trouble(lane, kind);
        }
        Ok(Next::Barrier)
    }

    fn at_barrier(
        &mut self,
        warps: &mut [Warp],
        barriers: &mut [Reached],
        index: usize,
        group: Group,
    ) -> Outcome<()> {
        let program = self.program;
        let pc = group.pc - 1;
        let Code::Barrier(barrier) = &program.code[pc as usize].code else { return Ok(()) };
        let warp = &mut warps[index];
        let lane = group.mask.trailing_zeros() as usize;
        let value =
            |operand| source(&warp.registers, &self.constants, &group, operand)[lane] as u32;
        let id = value(barrier.id) as usize;
        let threads = barrier.threads.map(value);
        let Some(reached) = barriers.get_mut(id) else {
            return trouble(lane, FaultKind::BadJump { target: id as u64 });
        };
        reached.threads = threads;
        if barrier.kind == BarrierKind::Arrive {
            reached.arrived.push(index);
            warp.groups.push(group);
        } else {
            reached.waiting.push((index, group));
            warp.state = State::Barrier;
        }
        let present = reached.waiting.len() + reached.arrived.len();
        let complete = match reached.threads {
            Some(threads) => present * LANES >= threads as usize,
            None => present == warps.len(),
        };
        if complete {
            let reached = std::mem::take(reached);
            self.release(warps, &reached, barrier);
            return Ok(());
        }
        Ok(())
    }

    fn release(&mut self, warps: &mut [Warp], reached: &Reached, barrier: &Barrier) {
        self.statistics.barriers += 1;
        let waits: Vec<usize> = reached.waiting.iter().map(|waiting| waiting.0).collect();
        let arrives: Vec<usize> = waits.iter().chain(&reached.arrived).copied().collect();
        self.shared.meet(&arrives, &waits);
        let mut count = 0;
        let mut total = 0;
        if let Some(by) = barrier.condition {
            for (index, group) in &reached.waiting {
                count += (condition(&warps[*index], group, by) & group.mask).count_ones();
                total += group.mask.count_ones();
            }
        }
        for &(index, group) in &reached.waiting {
            let warp = &mut warps[index];
            if let BarrierKind::Reduce(reduction) = barrier.kind {
                match reduction {
                    BarrierReduction::Count(into) => {
                        let register = &mut warp.registers[(group.registers + into) as usize];
                        assign(register, &[count.into(); LANES], group.mask);
                    }
                    BarrierReduction::And(into) | BarrierReduction::Or(into) => {
                        let and = matches!(reduction, BarrierReduction::And(_));
                        let holds = if and { count == total } else { count > 0 };
                        let value = if holds { u32::MAX } else { 0 };
                        super::set(warp, &group, into, value, group.mask);
                    }
                }
            }
            warp.state = State::Ready;
            warp.groups.push(group);
        }
    }
}
