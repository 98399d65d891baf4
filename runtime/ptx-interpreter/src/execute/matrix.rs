use super::count::conflicts;
use super::warp::{Group, Warp};
use super::{Machine, Outcome, source, trouble};
use crate::number::{LANES, Lanes, convert};
use crate::program::{Address, Multiply, Numeric, Register, SHARED_WINDOW, Source, Space};

/// Rows of one 8x8 matrix of 16-bit elements.
type Rows = [[u16; 8]; 8];

impl Machine<'_> {
    fn shared_addresses(&self, warp: &Warp, group: &Group, address: &Address) -> Lanes {
        let addresses = self.addresses(warp, group, address);
        match address.space {
            Space::Shared => addresses.map(|address| address & 0xffff_ffff),
            _ => addresses.map(|address| address.wrapping_sub(SHARED_WINDOW)),
        }
    }

    /// `ldmatrix`: eight lanes give the rows of each matrix, four lanes take two elements of a row.
    pub(super) fn load_matrix(
        &mut self,
        warp: &mut Warp,
        group: &Group,
        into: &[Register],
        address: &Address,
        transposed: bool,
        pc: u32,
    ) -> Outcome<()> {
        let addresses = self.shared_addresses(warp, group, address);
        self.statistics.shared_loads += 8 * into.len() as u64;
        for (index, &into) in into.iter().enumerate() {
            self.statistics.bank_conflicts += conflicts(&addresses, 0xff << (index * 8), 16);
            let mut rows: Rows = [[0; 8]; 8];
            for (row, slot) in rows.iter_mut().enumerate() {
                let lane = index * 8 + row;
                let user = self.user(warp, lane, pc, false);
                match self.shared.read(user, addresses[lane], 16) {
                    Ok(data) => {
                        for (element, bytes) in slot.iter_mut().zip(data.chunks_exact(2)) {
                            *element = u16::from_le_bytes([bytes[0], bytes[1]]);
                        }
                    }
                    Err(kind) => return trouble(lane, kind),
                }
            }
            let register = &mut warp.registers[(group.registers + into) as usize];
            for (lane, slot) in register.iter_mut().enumerate() {
                let (row, column) = (lane / 4, lane % 4 * 2);
                let element =
                    |column: usize| if transposed { rows[column][row] } else { rows[row][column] };
                *slot = u64::from(element(column)) | u64::from(element(column + 1)) << 16;
            }
        }
        Ok(())
    }

    pub(super) fn store_matrix(
        &mut self,
        warp: &mut Warp,
        group: &Group,
        from: &[Source],
        address: &Address,
        transposed: bool,
        pc: u32,
    ) -> Outcome<()> {
        let addresses = self.shared_addresses(warp, group, address);
        self.statistics.shared_stores += 8 * from.len() as u64;
        for (index, &from) in from.iter().enumerate() {
            self.statistics.bank_conflicts += conflicts(&addresses, 0xff << (index * 8), 16);
            let values = source(&warp.registers, &self.constants, group, from);
            let mut rows: Rows = [[0; 8]; 8];
            for (lane, &value) in values.iter().enumerate() {
                let (row, column) = (lane / 4, lane % 4 * 2);
                for (column, value) in [(column, value as u16), (column + 1, (value >> 16) as u16)]
                {
                    if transposed {
                        rows[column][row] = value;
                    } else {
                        rows[row][column] = value;
                    }
                }
            }
            for (row, elements) in rows.iter().enumerate() {
                let lane = index * 8 + row;
                let mut data = [0; 16];
                for (bytes, element) in data.chunks_exact_mut(2).zip(elements) {
                    bytes.copy_from_slice(&element.to_le_bytes());
                }
                let user = self.user(warp, lane, pc, false);
                if let Err(kind) = self.shared.write(user, addresses[lane], &data) {
                    return trouble(lane, kind);
                }
            }
        }
        Ok(())
    }

    /// `mma`: the fragments are gathered into matrices, multiplied, and the sum is handed out again.
    pub(super) fn multiply(&mut self, warp: &mut Warp, group: &Group, multiply: &Multiply) {
        let [rows, columns, depth] = multiply.shape;
        let registers = |sources: &[Source]| -> Vec<Lanes> {
            let one = |&operand| *source(&warp.registers, &self.constants, group, operand);
            sources.iter().map(one).collect()
        };
        let (a, b, c) = (registers(&multiply.a), registers(&multiply.b), registers(&multiply.c));
        let mut left = vec![0.0; rows * depth];
        let mut right = vec![0.0; depth * columns];
        let bits = multiply.left.bits();
        // a register has the elements of four bytes, in neighbouring columns of `a`
        let each = (32 / bits) as usize;
        for lane in 0..LANES {
            let (row, quarter) = (lane / 4, lane % 4);
            for (index, register) in a.iter().enumerate() {
                for part in 0..each {
                    let row = row + 8 * (index % 2);
                    let column = quarter * each + part + 4 * each * (index / 2);
                    left[row * depth + column] = element(multiply.left, register[lane], part, bits);
                }
            }
            for (index, register) in b.iter().enumerate() {
                for part in 0..each {
                    let line = quarter * each + part + 4 * each * index;
                    right[line * columns + row] =
                        element(multiply.right, register[lane], part, bits);
                }
            }
        }
        let packed = multiply.sum == Numeric::Half;
        let mut out = vec![[0u64; LANES]; multiply.into.len()];
        for lane in 0..LANES {
            for part in 0..4 {
                let row = lane / 4 + 8 * (part / 2);
                let column = lane % 4 * 2 + part % 2;
                let products =
                    (0..depth).map(|k| left[row * depth + k] * right[k * columns + column]);
                let sum = products.sum::<f64>();
                let (register, shift) = if packed { (part / 2, part % 2 * 16) } else { (part, 0) };
                let old = c[register][lane] >> shift;
                let value = match multiply.sum {
                    Numeric::Half => {
                        let old = convert::decode(Numeric::Half, (old & 0xffff) as u32);
                        u64::from(convert::encode(Numeric::Half, (f64::from(old) + sum) as f32))
                    }
                    Numeric::Signed(_) => {
                        let total = i64::from(old as i32) + sum as i64;
                        let wrapped = if multiply.saturate {
                            total.clamp(i32::MIN.into(), i32::MAX.into()) as i32
                        } else {
                            total as i32
                        };
                        u64::from(wrapped as u32)
                    }
                    _ => {
                        let total = (f64::from(f32::from_bits(old as u32)) + sum) as f32;
                        crate::number::Word::give(total)
                    }
                };
                out[register][lane] |= value << shift;
            }
        }
        for (&into, values) in multiply.into.iter().zip(&out) {
            warp.registers[(group.registers + into) as usize] = *values;
        }
    }
}

fn element(kind: Numeric, register: u64, part: usize, bits: u32) -> f64 {
    let field = (register >> (part as u32 * bits)) as u32 & (u32::MAX >> (32 - bits));
    match kind {
        Numeric::Signed(_) => f64::from(field as u8 as i8),
        Numeric::Unsigned(_) => f64::from(field),
        _ => f64::from(convert::decode(kind, field)),
    }
}
