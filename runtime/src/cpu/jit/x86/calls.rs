//! Calls of scalar routines from a strip: of a function's rare arguments, and of functions that have
//! no vector form.
//!
//! A call may overwrite every vector register. So it stands behind the strip's end: it writes those in
//! use to the stack, has the routine work on the lanes that lie there, and reads them back. Where no
//! lane is rare, a test and a jump that is not taken are all that is left of it.

use super::encode::{Address, Gpr, Opcode, Rm};
use super::ir::Node;
use super::lower::Lower;
use super::regalloc::{OutOfRegisters, Registers};
use super::routines::{Call, Callee, Routine};
use super::vectors::{Vectors, Width};
use crate::cpu::math::{ScalarFn1, ScalarFn2};

/// What the code may not find again after a call: index and counter, the number of elements, the
/// table, the streams that the caller does not expect to find again.
const KEPT: [Gpr; 8] = [Gpr::RAX, Gpr::RCX, Gpr::RSI, Gpr::RDI, Gpr(8), Gpr(9), Gpr(10), Gpr(11)];

impl Lower<'_> {
    /// `me <- ` what the routine makes of `x` (and `y`, if it takes two) where the truth value says so,
    /// else `otherwise`.
    pub(super) fn call_where(
        &mut self,
        regs: &mut Registers<'_>,
        me: Node,
        routine: Routine,
        [truth, x, otherwise]: [Node; 3],
        y: Option<Node>,
    ) -> Result<(), OutOfRegisters> {
        let asm = &mut self.asm;
        let from = regs.read(asm, x)?;
        let second = y.map(|y| regs.read(asm, y)).transpose()?;
        let other = regs.read(asm, otherwise)?;
        let held = match asm.vectors {
            Vectors::Zmm => regs.mask(truth),
            Vectors::Ymm => regs.read(asm, truth)?,
        };
        let to = match regs.dies(otherwise) && x != otherwise && y != Some(otherwise) {
            true => other,
            false => {
                let r = regs.fresh(asm)?;
                asm.vector(Opcode::MOVE, r, 0, Rm::Reg(other), None);
                r
            }
        };
        match asm.vectors {
            Vectors::Zmm => asm.edx_from_mask(held),
            Vectors::Ymm => asm.edx_from_signs(held),
        }
        asm.test_edx();
        let (begin, back) = (asm.label(), asm.label());
        asm.jump_not_zero(begin);
        asm.bind(back);
        let kept = regs.in_use();
        match asm.vectors {
            Vectors::Zmm => regs.release_masks([truth].into_iter()),
            Vectors::Ymm => regs.release([truth].into_iter()),
        }
        regs.release([x, otherwise].into_iter().chain(y));
        regs.own(me, to);
        let callee = Callee::Some { x: from, y: second };
        self.calls.push(Call { callee, routine, to, kept, begin, back });
        Ok(())
    }

    /// `me <- ` what the routine makes of `x` and `y`.
    pub(super) fn call_both(
        &mut self,
        regs: &mut Registers<'_>,
        me: Node,
        routine: Routine,
        [x, y]: [Node; 2],
    ) -> Result<(), OutOfRegisters> {
        let asm = &mut self.asm;
        let callee = Callee::All { x: regs.read(asm, x)?, y: regs.read(asm, y)? };
        let to = regs.fresh(asm)?;
        let (begin, back) = (asm.label(), asm.label());
        asm.jump(begin);
        asm.bind(back);
        let kept = regs.in_use();
        regs.release([x, y].into_iter());
        regs.own(me, to);
        self.calls.push(Call { callee, routine, to, kept, begin, back });
        Ok(())
    }

    /// The calls of the strip, behind its end.
    pub(super) fn place_calls(&mut self) {
        for call in std::mem::take(&mut self.calls) {
            self.call(call);
        }
    }

    fn call(&mut self, call: Call) {
        let (vectors, width) = (self.body.vectors, self.body.width);
        let (count, bytes) = (vectors.count() as i32, vectors.bytes());
        let asm = &mut self.asm;
        let register = |r: u8| Address::Base(Gpr::RSP, i32::from(r) * bytes);
        let vector_registers = || (0..count as u8).filter(|r| call.kept.0 >> r & 1 == 1);
        let masks = || (1..8u8).filter(|k| vectors == Vectors::Zmm && call.kept.1 >> k & 1 == 1);
        let mask = |k: u8| Address::Base(Gpr::RSP, count * bytes + i32::from(k) * 8);
        // the room for a mask that holds no values
        let stack = mask(0);
        asm.bind(call.begin);
        for r in KEPT {
            asm.push(r);
        }
        asm.mov(Gpr::RCX, Gpr::RSP);
        asm.sub_imm(Gpr::RSP, count * bytes + 64);
        asm.and_imm(Gpr::RSP, -64);
        asm.store(Gpr::RCX, stack);
        for r in vector_registers() {
            asm.vector(Opcode::STORE, r, 0, Rm::Mem(register(r)), None);
        }
        masks().for_each(|k| asm.store_mask(k, mask(k)));
        match call.callee {
            Callee::Some { x, y } => {
                asm.mov(Gpr::RSI, Gpr::RDX);
                asm.lea(Gpr::RDI, register(x));
                if let Some(y) = y {
                    asm.lea(Gpr(8), register(y));
                }
            }
            Callee::All { x, y } => {
                asm.lea(Gpr::RDI, register(x));
                asm.lea(Gpr::RSI, register(y));
                asm.mov_imm(Gpr(8), self.body.lanes());
            }
        }
        let on_lanes = match (call.callee, width) {
            (Callee::Some { y: None, .. }, Width::W32) => some32 as *const () as usize,
            (Callee::Some { y: None, .. }, Width::W64) => some64 as *const () as usize,
            (Callee::Some { .. }, Width::W32) => pairs32 as *const () as usize,
            (Callee::Some { .. }, Width::W64) => pairs64 as *const () as usize,
            (Callee::All { .. }, Width::W32) => all32 as *const () as usize,
            (Callee::All { .. }, Width::W64) => all64 as *const () as usize,
            (_, Width::W8 | Width::W16) => unreachable!("routines are of floats"),
        };
        asm.lea(Gpr::RDX, register(call.to));
        asm.mov_address(Gpr::RCX, call.routine.address());
        asm.mov_address(Gpr::RAX, on_lanes as u64);
        asm.zero_upper();
        asm.call_rax();
        for r in vector_registers() {
            asm.vector(Opcode::LOAD, r, 0, Rm::Mem(register(r)), None);
        }
        masks().for_each(|k| asm.load_mask(k, mask(k)));
        asm.load(Gpr::RSP, Gpr::RSP, count * bytes);
        for &r in KEPT.iter().rev() {
            asm.pop(r);
        }
        asm.jump(call.back);
    }
}

macro_rules! on_lanes {
    ($($some:ident, $pairs:ident, $all:ident: $float:ty;)*) => {$(
        /// Applies a routine to the lanes whose numbers are bits of `lanes`.
        ///
        /// # Safety
        ///
        /// There are so many lanes at both places.
        unsafe extern "sysv64" fn $some(
            x: *const $float,
            mut lanes: u64,
            to: *mut $float,
            f: ScalarFn1,
        ) {
            while lanes != 0 {
                let lane = lanes.trailing_zeros() as usize;
                lanes &= lanes - 1;
                // SAFETY: the caller's contract.
                unsafe { *to.add(lane) = f(f64::from(*x.add(lane))) as $float };
            }
        }

        /// Applies a routine of two operands to the lanes whose numbers are bits of `lanes`.
        ///
        /// # Safety
        ///
        /// There are so many lanes at all three places.
        unsafe extern "sysv64" fn $pairs(
            x: *const $float,
            mut lanes: u64,
            to: *mut $float,
            f: ScalarFn2,
            y: *const $float,
        ) {
            while lanes != 0 {
                let lane = lanes.trailing_zeros() as usize;
                lanes &= lanes - 1;
                // SAFETY: the caller's contract.
                unsafe {
                    *to.add(lane) = f(f64::from(*x.add(lane)), f64::from(*y.add(lane))) as $float;
                }
            }
        }

        /// Applies a routine to so many lanes of two operands.
        ///
        /// # Safety
        ///
        /// There are so many lanes at all three places.
        unsafe extern "sysv64" fn $all(
            x: *const $float,
            y: *const $float,
            to: *mut $float,
            f: ScalarFn2,
            lanes: u64,
        ) {
            for lane in 0..lanes as usize {
                // SAFETY: the caller's contract.
                unsafe {
                    *to.add(lane) = f(f64::from(*x.add(lane)), f64::from(*y.add(lane))) as $float;
                }
            }
        }
    )*};
}

on_lanes! {
    some32, pairs32, all32: f32;
    some64, pairs64, all64: f64;
}
