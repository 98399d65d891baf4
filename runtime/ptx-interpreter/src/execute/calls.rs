use super::warp::{Group, Return, Warp, lanes};
use super::{Machine, Next, Outcome, source, trouble};
use crate::fault::{Assertion, FaultKind};
use crate::memory::POISON;
use crate::number::LANES;
use crate::program::{Call, Code, FUNCTION_WINDOW, Source, Target};

/// How deep calls may be nested.
const DEEPEST: u32 = 1024;
/// Bytes of local memory of a thread.
pub(crate) const LOCAL: u32 = 512 << 10;
/// Registers of a warp over all frames.
pub(crate) const REGISTERS: usize = 1 << 20;

impl Machine<'_> {
    pub(super) fn branch_indexed(
        &mut self,
        warp: &mut Warp,
        group: &mut Group,
        targets: &[u32],
        index: Source,
        active: u32,
    ) -> Outcome<Next> {
        let indices = *source(&warp.registers, &self.constants, group, index);
        let rest = group.mask & !active;
        if rest != 0 {
            warp.groups.push(Group { mask: rest, ..*group });
        }
        let mut left = active;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let index = indices[lane] & 0xffff_ffff;
            let Some(&target) = targets.get(index as usize) else {
                return trouble(lane, FaultKind::BadJump { target: index });
            };
            let same = lanes(left).filter(|&lane| indices[lane] & 0xffff_ffff == index);
            let mask = same.fold(0, |mask, lane| mask | 1 << lane);
            left &= !mask;
            warp.groups.push(Group { mask, pc: target, ..*group });
        }
        self.statistics.divergent_branches += u64::from(warp.groups.len() > 1);
        group.mask = 0;
        Ok(Next::Choose)
    }

    pub(super) fn call(
        &mut self,
        warp: &mut Warp,
        group: &mut Group,
        call: &Call,
        active: u32,
        pc: u32,
    ) -> Outcome<Next> {
        let rest = group.mask & !active;
        let first = active.trailing_zeros() as usize;
        let (callee, mask) = match call.target {
            Target::Function(callee) => (callee, active),
            Target::Address(address) => {
                let addresses = source(&warp.registers, &self.constants, group, address);
                let address = addresses[first];
                let callee = address.wrapping_sub(FUNCTION_WINDOW) as usize;
                let same = lanes(active).filter(|&lane| addresses[lane] == address);
                let mask = same.fold(0, |mask, lane| mask | 1 << lane);
                (callee, mask)
            }
        };
        let program = self.program;
        let (Some(frame), Some(caller)) =
            (program.functions.get(callee), program.functions.get(call.caller))
        else {
            let target = (callee as u64).wrapping_add(FUNCTION_WINDOW);
            return trouble(first, FaultKind::BadJump { target });
        };
        if (frame.params.len(), frame.results.len()) != (call.arguments.len(), call.results.len()) {
            return trouble(first, FaultKind::BadJump { target: callee as u64 });
        }
        // others call something else, and do so afterwards
        if active != mask {
            warp.groups.push(Group { mask: active & !mask, pc, ..*group });
        }
        if rest != 0 {
            warp.groups.push(Group { mask: rest, ..*group });
        }
        let inner = Group {
            mask,
            pc: frame.start,
            depth: group.depth + 1,
            registers: group.registers + caller.registers,
            predicates: group.predicates + caller.predicates,
            local: group.local + caller.local,
            waiting: false,
        };
        let registers = inner.registers as usize + frame.registers as usize;
        let local = inner.local.saturating_add(frame.local);
        if inner.depth > DEEPEST || local > LOCAL || registers > REGISTERS {
            return trouble(first, FaultKind::StackOverflow);
        }
        if warp.registers.len() < registers {
            let poison = u64::from_le_bytes([POISON; 8]);
            warp.registers.resize(registers, [poison; LANES]);
        }
        let predicates = (inner.predicates + frame.predicates) as usize;
        if warp.predicates.len() < predicates {
            warp.predicates.resize(predicates, 0);
        }
        if warp.returns.len() < inner.depth as usize {
            warp.returns.push([Return::default(); LANES]);
        }
        for lane in lanes(mask) {
            let memory = &mut warp.local[lane];
            if memory.len() < local as usize {
                memory.resize(local as usize, POISON);
            }
            for (&from, &(to, bytes)) in call.arguments.iter().zip(&frame.params) {
                let from = (group.local + from) as usize;
                let to = (inner.local + to) as usize;
                if from + bytes as usize <= memory.len() {
                    memory.copy_within(from..from + bytes as usize, to);
                }
            }
            warp.returns[group.depth as usize][lane] = Return {
                pc: group.pc,
                registers: group.registers,
                predicates: group.predicates,
                local: group.local,
                call: pc,
                callee: callee as u32,
            };
        }
        *group = inner;
        Ok(Next::Choose)
    }

    /// `assert` of CUDA C: its message and place are texts in global memory.
    pub(super) fn assertion(
        &self,
        warp: &Warp,
        group: &Group,
        arguments: [u32; 4],
        lane: usize,
    ) -> FaultKind {
        let read = |offset: u32, bytes: usize| {
            let at = (group.local + offset) as usize;
            let mut value = [0; 8];
            if let Some(from) = warp.local[lane].get(at..at + bytes) {
                value[..bytes].copy_from_slice(from);
            }
            u64::from_le_bytes(value)
        };
        let text = |address: u64| {
            let (base, bytes) = self.memory.around(address).unwrap_or((address, &[]));
            let rest = bytes.get((address - base) as usize..).unwrap_or(&[]);
            let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
            String::from_utf8_lossy(&rest[..end]).into_owned()
        };
        let [message, file, line, function] = arguments;
        FaultKind::Assertion(Box::new(Assertion {
            message: text(read(message, 8)),
            file: text(read(file, 8)),
            line: read(line, 4) as u32,
            function: text(read(function, 8)),
        }))
    }

    /// `ret`: to where each thread was called from, or out of the kernel.
    pub(super) fn leave(
        &mut self,
        warp: &mut Warp,
        group: &mut Group,
        active: u32,
    ) -> Outcome<Next> {
        let rest = group.mask & !active;
        let program = self.program;
        let Some(depth) = group.depth.checked_sub(1) else {
            warp.exited |= active;
            group.mask = rest;
            return Ok(Next::Choose);
        };
        if rest != 0 {
            warp.groups.push(Group { mask: rest, ..*group });
        }
        let returns = warp.returns[depth as usize];
        let mut left = active;
        while left != 0 {
            let back = returns[left.trailing_zeros() as usize];
            let same = lanes(left).filter(|&lane| returns[lane] == back);
            let mask = same.fold(0, |mask, lane| mask | 1 << lane);
            left &= !mask;
            if let Code::Call(call) = &program.code[back.call as usize].code {
                let frame = &program.functions[back.callee as usize];
                for lane in lanes(mask) {
                    let memory = &mut warp.local[lane];
                    for (&(from, bytes), &to) in frame.results.iter().zip(&call.results) {
                        let from = (group.local + from) as usize;
                        let to = (back.local + to) as usize;
                        if to + bytes as usize <= memory.len() {
                            memory.copy_within(from..from + bytes as usize, to);
                        }
                    }
                }
            }
            warp.groups.push(Group {
                mask,
                pc: back.pc,
                depth,
                registers: back.registers,
                predicates: back.predicates,
                local: back.local,
                waiting: false,
            });
        }
        group.mask = 0;
        Ok(Next::Choose)
    }
}
