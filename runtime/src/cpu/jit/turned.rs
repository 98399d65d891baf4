//! Kernels with operands whose neighbours along the lanes lie apart, while those along another axis do
//! not: a transposed matrix beside others.
//!
//! A unit takes some rows of that axis. A tile of each such operand is turned in a buffer of the thread,
//! so that each of its lines is read once and as a whole, and the strip reads it like any other row.

use super::JitError;
use super::nest::Nest;
use super::sizes::{Axis, Size};
use super::x86::{Stream, Strip, Turned};
use crate::cpu::kernels::turn::turn;
use cranelift_codegen::ir::{InstBuilder, Value, types};

impl<'k> Nest<'_, '_, '_, 'k> {
    /// A unit of such a kernel: so many rows, from `block` times as many on.
    pub(crate) fn turned_unit(
        &mut self,
        strip: &'k Strip,
        turned: &'k Turned,
        block: Option<Value>,
        last: Axis,
        (begin, end): (Value, Value),
    ) -> Result<(), JitError> {
        let kernel = self.kernel;
        let axis = kernel.grid.iter().find(|a| a.id == turned.axis);
        let axis = *axis.expect("an axis of the grid");
        let (first, count) = match block {
            None => (self.e.i64(0), self.e.size(axis.extent)),
            Some(block) => {
                let first = self.e.b.ins().imul_imm_s(block, turned.rows);
                let (extent, rows) = (self.e.size(axis.extent), self.e.i64(turned.rows));
                let left = self.e.b.ins().isub(extent, first);
                (first, self.e.b.ins().smin(left, rows))
            }
        };
        let bytes = self.e.i64(turned.bytes());
        let scratch = super::scratch::sl_scratch as *const () as usize;
        let tiles = self
            .e
            .call_address(scratch, &[types::I64], Some(types::I64), &[bytes])
            .expect("a result was declared");
        let l = self.e.begin_loop(begin, end, Size::Fixed(turned.columns), &[], true);
        let (left, most) = (self.e.b.ins().isub(end, l.index), self.e.i64(turned.columns));
        let n = self.e.b.ins().smin(left, most);
        let saved = self.address.clone();
        self.enter(last.id, l.index);
        let columns = self.address.clone();
        self.enter(axis.id, first);
        self.turn_tiles(turned, tiles, &last, n, count);
        let begin = self.e.i64(0);
        let row = self.e.begin_loop(begin, count, Size::Fixed(1), &[], true);
        self.address = columns;
        let number = self.e.b.ins().iadd(first, row.index);
        self.enter(axis.id, number);
        let invariants = self.invariants(0, false)?;
        self.call(strip, 0, &invariants, n, &mut |nest, stream| {
            let Stream::Access { inst, .. } = stream else {
                unreachable!("strips along a grid's axis read and write elements")
            };
            let Some((offset, pitch)) = turned.tile(inst) else {
                return nest.access(0, inst, &invariants);
            };
            let at = nest.e.b.ins().imul_imm_s(row.index, pitch);
            let at = nest.e.b.ins().iadd(tiles, at);
            nest.e.b.ins().iadd_imm_s(at, offset)
        })?;
        self.e.end_loop(&row, &[]);
        self.address = saved;
        self.e.end_loop(&l, &[]);
        Ok(())
    }

    /// Turns the tiles of `n` columns of the rows from the current one on.
    fn turn_tiles(&mut self, turned: &Turned, tiles: Value, last: &Axis, n: Value, count: Value) {
        let none = vec![None; self.kernel.stages[0].body.len()];
        for &(inst, size) in &turned.loads {
            let (offset, pitch) = turned.tile(inst).expect("one of them");
            let to = self.e.b.ins().iadd_imm_s(tiles, offset);
            let pitch = self.e.i64(pitch);
            let from = self.access(0, inst, &none);
            let apart = self.bytes_along(0, inst, last);
            let apart = self.e.size(apart);
            let f = match size {
                1 => sl_turn_1 as *const () as usize,
                2 => sl_turn_2 as *const () as usize,
                4 => sl_turn_4 as *const () as usize,
                _ => sl_turn_8 as *const () as usize,
            };
            self.e.call_address(f, &[types::I64; 6], None, &[to, pitch, from, apart, n, count]);
        }
    }
}

macro_rules! turning {
    ($($name:ident: $element:ty;)*) => {$(
        /// [`turn`] for generated code.
        ///
        /// # Safety
        ///
        /// As for that.
        unsafe extern "C" fn $name(
            to: *mut u8,
            to_row: i64,
            from: *const u8,
            from_row: i64,
            width: i64,
            height: i64,
        ) {
            let (width, height) = (width as usize, height as usize);
            // SAFETY: the caller's contract.
            unsafe { turn::<$element>(to, to_row as isize, from, from_row as isize, width, height) }
        }
    )*};
}

turning! {
    sl_turn_1: u8;
    sl_turn_2: u16;
    sl_turn_4: u32;
    sl_turn_8: u64;
}
