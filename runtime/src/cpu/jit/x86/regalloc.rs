//! Registers of one pass over a body: a linear scan that evicts the value whose next use is
//! farthest.

use super::encode::{Address, Assembler, Gpr, Opcode, Rm};
use super::ir::{Body, Node};
use super::vectors::Vectors;

/// The most vectors that are put on the stack.
const MAX_SLOTS: u32 = 48;

/// When each value is used.
#[derive(Debug)]
pub(crate) struct Liveness {
    /// Per node: contributes to an effect.
    pub(crate) live: Vec<bool>,
    /// Per node: the positions that read it, ascending.
    pub(crate) uses: Vec<Vec<u32>>,
    /// The most values in vector registers (constants and parameters aside) that are alive at once.
    pub(crate) pressure: usize,
}

impl Liveness {
    pub(crate) fn of(body: &Body) -> Liveness {
        let n = body.insts.len();
        let mut live = vec![false; n];
        for (i, inst) in body.insts.iter().enumerate().rev() {
            live[i] |= inst.is_effect();
            if live[i] {
                for v in inst.operands() {
                    live[v.0 as usize] = true;
                }
            }
        }
        let mut uses = vec![Vec::new(); n];
        for (i, inst) in body.insts.iter().enumerate() {
            if live[i] {
                for v in inst.operands() {
                    uses[v.0 as usize].push(i as u32);
                }
            }
        }
        let (mut now, mut pressure) = (0usize, 0);
        for (i, inst) in body.insts.iter().enumerate() {
            if !live[i] {
                continue;
            }
            let counted = |v: Node| {
                let d = &body.insts[v.0 as usize];
                let apart = d.is_mask() && body.vectors == Vectors::Zmm;
                !apart && !is_uniform(d)
            };
            let mut ending: Vec<Node> = inst
                .operands()
                .filter(|v| counted(*v) && uses[v.0 as usize].last() == Some(&(i as u32)))
                .collect();
            ending.sort_by_key(|v| v.0);
            ending.dedup();
            now -= ending.len();
            if counted(Node(i as u32)) && !inst.is_effect() {
                now += 1;
            }
            pressure = pressure.max(now);
        }
        Liveness { live, uses, pressure }
    }

    fn last(&self, v: Node) -> u32 {
        self.uses[v.0 as usize].last().copied().unwrap_or(0)
    }
}

/// A constant or parameter: can be read from memory at any time.
pub(crate) fn is_uniform(inst: &super::ir::Inst) -> bool {
    use super::ir::Inst;
    matches!(inst, Inst::Const(_) | Inst::Param(_))
}

/// Where a constant or a parameter is in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uniform {
    pub(crate) value: Node,
    /// One element.
    pub(crate) element: Address,
    /// All lanes as an operand, if an instruction can have that.
    pub(crate) operand: Option<Rm>,
}

/// Where a value can be read while it is in no register.
#[derive(Clone, Copy, Debug)]
enum Home {
    None,
    Slot(u32),
    Uniform(Uniform),
}

/// There are not enough registers of a kind that is not put on the stack.
#[derive(Debug)]
pub(crate) struct OutOfRegisters;

/// Which value is where.
#[derive(Debug)]
pub(crate) struct Registers<'l> {
    lives: &'l Liveness,
    reg: Vec<Option<u8>>,
    home: Vec<Home>,
    /// Per vector register: the value in it that may be evicted.
    holds: [Option<Node>; 32],
    free: u32,
    free_masks: u8,
    fixed: Vec<bool>,
    /// Registers that the current instruction reads.
    locked: u32,
    /// Stack slots handed out so far.
    pub(crate) slots: u32,
    /// The position of the current instruction.
    pub(crate) at: u32,
}

impl<'l> Registers<'l> {
    /// `fixed`: values that stay in a register; `uniform`: where constants and parameters are;
    /// `reserved`: vector registers that hold no values. Masks are in k2 to k7.
    pub(crate) fn new(
        lives: &'l Liveness,
        fixed: &[(Node, u8)],
        uniform: &[Uniform],
        reserved: u32,
    ) -> Self {
        let n = lives.live.len();
        let mut r = Registers {
            lives,
            reg: vec![None; n],
            home: vec![Home::None; n],
            holds: [None; 32],
            free: !reserved,
            free_masks: 0b1111_1100,
            fixed: vec![false; n],
            locked: 0,
            slots: 0,
            at: 0,
        };
        for u in uniform {
            r.home[u.value.0 as usize] = Home::Uniform(*u);
        }
        for &(v, reg) in fixed {
            r.reg[v.0 as usize] = Some(reg);
            r.fixed[v.0 as usize] = true;
            r.free &= !(1 << reg);
        }
        r
    }

    /// The vector and mask registers with something in them.
    pub(crate) fn in_use(&self) -> (u32, u8) {
        (!self.free, !self.free_masks)
    }

    /// Starts an instruction.
    pub(crate) fn begin(&mut self, at: u32) {
        self.at = at;
        self.locked = 0;
    }

    /// The register that a value is in now; it stays there for this instruction.
    pub(crate) fn held(&mut self, v: Node) -> Option<u8> {
        let r = self.reg[v.0 as usize]?;
        self.locked |= 1 << r;
        Some(r)
    }

    /// Whether the current instruction may overwrite the value.
    pub(crate) fn dies(&self, v: Node) -> bool {
        !self.fixed[v.0 as usize] && self.lives.last(v) == self.at
    }

    fn take(&mut self, asm: &mut Assembler) -> Result<u8, OutOfRegisters> {
        if self.free != 0 {
            let r = self.free.trailing_zeros() as u8;
            self.free &= !(1 << r);
            return Ok(r);
        }
        let next = |v: Node| {
            let uses = &self.lives.uses[v.0 as usize];
            let i = uses.partition_point(|&u| u <= self.at);
            uses.get(i).copied().unwrap_or(u32::MAX)
        };
        let (r, v) = (0..32u8)
            .filter(|r| self.locked >> r & 1 == 0)
            .filter_map(|r| self.holds[r as usize].map(|v| (r, v)))
            .max_by_key(|&(_, v)| next(v))
            .ok_or(OutOfRegisters)?;
        if matches!(self.home[v.0 as usize], Home::None) {
            if self.slots == MAX_SLOTS {
                return Err(OutOfRegisters);
            }
            let slot = self.slots;
            self.slots += 1;
            let at = slot_in(asm.vectors, slot);
            asm.vector(Opcode::STORE, r, 0, at, None);
            self.home[v.0 as usize] = Home::Slot(slot);
        }
        self.reg[v.0 as usize] = None;
        self.holds[r as usize] = None;
        Ok(r)
    }

    /// A register with the value in it.
    pub(crate) fn read(&mut self, asm: &mut Assembler, v: Node) -> Result<u8, OutOfRegisters> {
        if let Some(r) = self.held(v) {
            return Ok(r);
        }
        let r = self.take(asm)?;
        match self.home[v.0 as usize] {
            Home::Uniform(u) => asm.vector(Opcode::BROADCAST, r, 0, Rm::Lane(u.element), None),
            Home::Slot(s) => {
                let from = slot_in(asm.vectors, s);
                asm.vector(Opcode::LOAD, r, 0, from, None);
            }
            Home::None => unreachable!("a value is defined before it is read"),
        }
        self.reg[v.0 as usize] = Some(r);
        self.holds[r as usize] = Some(v);
        self.locked |= 1 << r;
        Ok(r)
    }

    /// The value as a last source operand: from memory if it is not in a register.
    pub(crate) fn source(&mut self, asm: &mut Assembler, v: Node) -> Result<Rm, OutOfRegisters> {
        Ok(match (self.held(v), self.home[v.0 as usize]) {
            (Some(r), _) => Rm::Reg(r),
            (None, Home::Uniform(Uniform { operand: Some(rm), .. })) => rm,
            (None, Home::Uniform(_)) => Rm::Reg(self.read(asm, v)?),
            (None, Home::Slot(s)) => slot_in(asm.vectors, s),
            (None, Home::None) => unreachable!("a value is defined before it is read"),
        })
    }

    /// A register for the result, after the operands were asked for: may be one of theirs.
    pub(crate) fn define(
        &mut self,
        asm: &mut Assembler,
        v: Node,
        operands: impl Iterator<Item = Node>,
    ) -> Result<u8, OutOfRegisters> {
        self.release(operands);
        let r = self.take(asm)?;
        self.own(v, r);
        Ok(r)
    }

    /// The result is in this register, which was an operand's or was taken.
    pub(crate) fn own(&mut self, v: Node, r: u8) {
        self.free &= !(1 << r);
        self.reg[v.0 as usize] = Some(r);
        self.holds[r as usize] = Some(v);
    }

    /// A register for the result that holds no operand.
    pub(crate) fn fresh(&mut self, asm: &mut Assembler) -> Result<u8, OutOfRegisters> {
        let r = self.take(asm)?;
        self.locked |= 1 << r;
        Ok(r)
    }

    /// Gives back what [`Registers::fresh`] gave.
    pub(crate) fn give_back(&mut self, r: u8) {
        self.free |= 1 << r;
    }

    /// Frees the registers of operands that end here.
    pub(crate) fn release(&mut self, operands: impl Iterator<Item = Node>) {
        for v in operands {
            if self.dies(v)
                && let Some(r) = self.reg[v.0 as usize].take()
            {
                self.free |= 1 << r;
                self.holds[r as usize] = None;
            }
        }
    }

    /// The mask register of a value.
    pub(crate) fn mask(&self, v: Node) -> u8 {
        self.reg[v.0 as usize].expect("a mask is in a register from its definition to its last use")
    }

    /// A mask register for the result (or for one instruction, without `v`).
    pub(crate) fn define_mask(&mut self, v: Option<Node>) -> Result<u8, OutOfRegisters> {
        if self.free_masks == 0 {
            return Err(OutOfRegisters);
        }
        let k = self.free_masks.trailing_zeros() as u8;
        if let Some(v) = v {
            self.free_masks &= !(1 << k);
            self.reg[v.0 as usize] = Some(k);
        }
        Ok(k)
    }

    /// Frees the mask registers of operands that end here.
    pub(crate) fn release_masks(&mut self, operands: impl Iterator<Item = Node>) {
        for v in operands {
            if self.dies(v)
                && let Some(k) = self.reg[v.0 as usize].take()
            {
                self.free_masks |= 1 << k;
            }
        }
    }
}

fn slot_in(vectors: Vectors, slot: u32) -> Rm {
    Rm::Mem(Address::Base(Gpr::RSP, slot as i32 * vectors.bytes()))
}
