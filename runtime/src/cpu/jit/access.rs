//! Loads and stores of elements in their memory format.

use super::emit::{Emit, mem};
use super::lanes::{Kind, LANES, Lanes};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use smallvec::SmallVec;
use straightline_passes::ir::DType;

/// Bytes of the low 16-bit (8-bit) parts of four 32-bit lanes, first.
const LOW_16: [u8; 16] = [0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13];
const HIGH_16: [u8; 16] = [2, 3, 6, 7, 10, 11, 14, 15, 2, 3, 6, 7, 10, 11, 14, 15];
/// Bytes of four 32-bit lanes from the last to the first, and of two 64-bit lanes.
const REVERSED_32: [u8; 16] = [12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3];
const SWAPPED_64: [u8; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7];
const LOW_8: [u8; 16] = [0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12];

impl Emit<'_, '_> {
    /// One element at `address + offset`.
    pub(crate) fn load_scalar(&mut self, dtype: DType, address: Value, offset: i32) -> Lanes {
        let kind = Kind::of(dtype, false);
        let v = match dtype {
            DType::F32 | DType::F64 | DType::I32 | DType::I64 | DType::QInt32 => {
                self.b.ins().load(kind.ty(false), mem(), address, offset)
            }
            DType::Bool => self.b.ins().load(types::I8, mem(), address, offset),
            DType::U8 | DType::QUInt8 => self.b.ins().uload8(types::I32, mem(), address, offset),
            DType::I8 | DType::QInt8 => self.b.ins().sload8(types::I32, mem(), address, offset),
            DType::I16 => self.b.ins().sload16(types::I32, mem(), address, offset),
            DType::F16 | DType::BF16 => {
                let bits = self.b.ins().uload16(types::I32, mem(), address, offset);
                if dtype == DType::F16 { self.f16_to_f32(bits) } else { self.bf16_to_f32(bits) }
            }
            DType::C64 | DType::C128 => unreachable!("loops hold no complex values"),
        };
        Lanes::scalar(kind, v)
    }

    /// Four neighbouring elements.
    pub(crate) fn load_vector(&mut self, dtype: DType, address: Value, offset: i32) -> Lanes {
        let kind = Kind::of(dtype, true);
        let ty = kind.ty(true);
        match dtype {
            DType::F32 | DType::I32 | DType::QInt32 => {
                let v = self.b.ins().load(ty, mem(), address, offset);
                Lanes::new(kind, true, &[v])
            }
            DType::F64 | DType::I64 => {
                let regs = [
                    self.b.ins().load(ty, mem(), address, offset),
                    self.b.ins().load(ty, mem(), address, offset + 16),
                ];
                Lanes::new(kind, true, &regs)
            }
            DType::F16 | DType::BF16 => {
                let bits = self.b.ins().uload16x4(mem(), address, offset);
                let v = if dtype == DType::F16 {
                    self.f16_to_f32(bits)
                } else {
                    self.bf16_to_f32(bits)
                };
                Lanes::new(kind, true, &[v])
            }
            DType::I16 => {
                let v = self.b.ins().sload16x4(mem(), address, offset);
                Lanes::new(kind, true, &[v])
            }
            DType::U8 | DType::I8 | DType::Bool | DType::QUInt8 | DType::QInt8 => {
                let bytes = self.b.ins().load(types::I32, mem(), address, offset);
                let v = self.b.ins().scalar_to_vector(types::I32X4, bytes);
                let v = self.cast_bits(types::I8X16, v);
                let v = if dtype == DType::I8 {
                    let v = self.b.ins().swiden_low(v);
                    self.b.ins().swiden_low(v)
                } else {
                    let v = self.b.ins().uwiden_low(v);
                    self.b.ins().uwiden_low(v)
                };
                let v =
                    if dtype == DType::Bool { self.icmp_const(IntCC::NotEqual, v, 0) } else { v };
                Lanes::new(kind, true, &[v])
            }
            DType::C64 | DType::C128 => unreachable!("loops hold no complex values"),
        }
    }

    /// Stores one element.
    pub(crate) fn store_scalar(&mut self, dtype: DType, v: Value, address: Value, offset: i32) {
        match dtype {
            DType::F32 | DType::F64 | DType::I32 | DType::I64 | DType::Bool | DType::QInt32 => {
                self.b.ins().store(mem(), v, address, offset);
            }
            DType::U8 | DType::I8 | DType::QUInt8 | DType::QInt8 => {
                self.b.ins().istore8(mem(), v, address, offset);
            }
            DType::I16 => {
                self.b.ins().istore16(mem(), v, address, offset);
            }
            DType::F16 => {
                let bits = self.f32_to_f16(v);
                self.b.ins().istore16(mem(), bits, address, offset);
            }
            DType::BF16 => {
                let bits = self.cast_bits(types::I32, v);
                let bits = self.ushr(bits, 16);
                self.b.ins().istore16(mem(), bits, address, offset);
            }
            DType::C64 | DType::C128 => unreachable!("loops hold no complex values"),
        }
    }

    /// Stores four neighbouring elements.
    pub(crate) fn store_vector(&mut self, dtype: DType, v: Lanes, address: Value, offset: i32) {
        match dtype {
            DType::F32 | DType::I32 | DType::QInt32 => {
                self.b.ins().store(mem(), v.one(), address, offset);
            }
            DType::F64 | DType::I64 => {
                for (k, &r) in v.regs().iter().enumerate() {
                    self.b.ins().store(mem(), r, address, offset + 16 * k as i32);
                }
            }
            DType::I16 => self.store_low_half(v.one(), LOW_16, address, offset),
            DType::BF16 => {
                let bits = self.cast_bits(types::I32X4, v.one());
                self.store_low_half(bits, HIGH_16, address, offset);
            }
            DType::F16 => {
                let bits = self.f32_to_f16(v.one());
                self.store_low_half(bits, LOW_16, address, offset);
            }
            DType::U8 | DType::I8 | DType::QUInt8 | DType::QInt8 => {
                self.store_bytes(v.one(), address, offset)
            }
            DType::Bool => {
                let m = self.mask(v, false);
                let ones = self.and_const(m.one(), 1);
                self.store_bytes(ones, address, offset);
            }
            DType::C64 | DType::C128 => unreachable!("loops hold no complex values"),
        }
    }

    fn store_low_half(&mut self, v: Value, order: [u8; 16], address: Value, offset: i32) {
        let packed = self.shuffle_bytes(v, v, order);
        let packed = self.cast_bits(types::F64X2, packed);
        let low = self.b.ins().extractlane(packed, 0);
        self.b.ins().store(mem(), low, address, offset);
    }

    fn store_bytes(&mut self, v: Value, address: Value, offset: i32) {
        let packed = self.shuffle_bytes(v, v, LOW_8);
        let packed = self.cast_bits(types::F32X4, packed);
        let low = self.b.ins().extractlane(packed, 0);
        self.b.ins().store(mem(), low, address, offset);
    }

    /// The four elements of a vector from the last to the first.
    pub(crate) fn reversed(&mut self, v: Lanes) -> Lanes {
        let order = match v.kind.wide() {
            true => SWAPPED_64,
            false => REVERSED_32,
        };
        let regs: SmallVec<[Value; 2]> = (v.regs().iter().rev())
            .map(|&r| {
                let turned = self.shuffle_bytes(r, r, order);
                self.cast_bits(v.kind.ty(true), turned)
            })
            .collect();
        Lanes::new(v.kind, true, &regs)
    }

    /// Four elements at their own addresses.
    pub(crate) fn gather(
        &mut self,
        dtype: DType,
        mut address: impl FnMut(&mut Self, i64) -> (Value, i32),
    ) -> Lanes {
        let kind = Kind::of(dtype, false);
        let lanes: [Value; LANES as usize] = [0, 1, 2, 3].map(|k| {
            let (a, offset) = address(self, k);
            self.load_scalar(dtype, a, offset).one()
        });
        self.pack(kind, lanes)
    }
}
