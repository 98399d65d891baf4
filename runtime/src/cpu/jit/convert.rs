//! Conversions between dtypes, and rounding to the narrow ones.

use super::emit::Emit;
use super::lanes::{Kind, Lanes};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use smallvec::SmallVec;
use straightline_passes::ir::DType;

/// The integer type with the lanes of a 32-bit float type.
fn int_of(ty: Type) -> Type {
    if ty.is_vector() { types::I32X4 } else { types::I32 }
}

fn float_of(ty: Type) -> Type {
    if ty.is_vector() { types::F32X4 } else { types::F32 }
}

impl Emit<'_, '_> {
    /// `bf16` bits in the low half of each 32-bit lane as `f32`.
    pub(crate) fn bf16_to_f32(&mut self, bits: Value) -> Value {
        let ty = self.ty(bits);
        let wide = self.shl(bits, 16);
        self.cast_bits(float_of(ty), wide)
    }

    /// Nearest `bf16` of an `f32` (ties to even, NaN stays NaN), as bits in the high half of each
    /// lane, low half zero: the `f32` that holds it.
    pub(crate) fn round_bf16(&mut self, v: Value) -> Value {
        let fty = self.ty(v);
        let ity = int_of(fty);
        let bits = self.cast_bits(ity, v);
        let odd = self.ushr(bits, 16);
        let odd = self.and_const(odd, 1);
        let half = self.iconst(ity, 0x7fff);
        let sum = self.b.ins().iadd(bits, half);
        let sum = self.b.ins().iadd(sum, odd);
        let quiet = self.iconst(ity, 0x0040_0000);
        let quiet = self.b.ins().bor(bits, quiet);
        let nan = self.is_nan(v);
        let r = self.sel(nan, quiet, sum);
        let r = self.and_const(r, 0xffff_0000);
        self.cast_bits(fty, r)
    }

    /// `f16` bits in the low half of each 32-bit lane as `f32`.
    pub(crate) fn f16_to_f32(&mut self, bits: Value) -> Value {
        let ity = self.ty(bits);
        let fty = float_of(ity);
        let magnitude = self.and_const(bits, 0x7fff);
        let sign = self.b.ins().bxor(bits, magnitude);
        let sign = self.shl(sign, 16);
        let placed = self.shl(magnitude, 13);
        // the exponent is now biased by 15 instead of 127: scaling by 2^112 is exact and normalises
        // subnormals
        let small = self.cast_bits(fty, placed);
        let scale = self.fconst(fty, 2f64.powi(112));
        let finite = self.b.ins().fmul(small, scale);
        let finite = self.cast_bits(ity, finite);
        let all_ones = self.iconst(ity, 0x7f80_0000);
        let special = self.b.ins().bor(placed, all_ones);
        let m = self.icmp_const(IntCC::SignedGreaterThan, magnitude, 0x7bff);
        let r = self.sel(m, special, finite);
        let r = self.b.ins().bor(r, sign);
        self.cast_bits(fty, r)
    }

    /// Nearest `f16` of an `f32` (ties to even, NaN stays NaN) as bits in the low half of each
    /// 32-bit lane.
    pub(crate) fn f32_to_f16(&mut self, v: Value) -> Value {
        let fty = self.ty(v);
        let ity = int_of(fty);
        let bits = self.cast_bits(ity, v);
        let abs = self.and_const(bits, 0x7fff_ffff);
        let sign = self.b.ins().bxor(bits, abs);
        let sign = self.ushr(sign, 16);
        // normal results: rebias the exponent, round at bit 13
        let odd = self.ushr(abs, 13);
        let odd = self.and_const(odd, 1);
        let bias = self.iconst(ity, i64::from(0xfff_i32 - (112 << 23)));
        let normal = self.b.ins().iadd(abs, bias);
        let normal = self.b.ins().iadd(normal, odd);
        let normal = self.ushr(normal, 13);
        // subnormal results: adding 0.5 makes the float unit do the rounding at 2^-24
        let half = self.fconst(fty, 0.5);
        let absf = self.cast_bits(fty, abs);
        let shifted = self.b.ins().fadd(absf, half);
        let shifted = self.cast_bits(ity, shifted);
        let half_bits = self.iconst(ity, i64::from(0.5f32.to_bits()));
        let subnormal = self.b.ins().isub(shifted, half_bits);
        let is_sub = self.icmp_const(IntCC::SignedLessThan, abs, 0x3880_0000);
        let r = self.sel(is_sub, subnormal, normal);
        let inf = self.iconst(ity, 0x7c00);
        let big = self.icmp_const(IntCC::SignedGreaterThan, abs, 0x477f_efff);
        let r = self.sel(big, inf, r);
        let payload = self.ushr(abs, 13);
        let payload = self.and_const(payload, 0x3ff);
        let quiet = self.iconst(ity, 0x7e00);
        let quiet = self.b.ins().bor(payload, quiet);
        let nan = self.icmp_const(IntCC::SignedGreaterThan, abs, 0x7f80_0000);
        let r = self.sel(nan, quiet, r);
        self.b.ins().bor(r, sign)
    }

    /// Rounds or wraps a value computed in the wider type to the range of its dtype.
    pub(crate) fn wrap(&mut self, v: Lanes, dtype: DType) -> Lanes {
        match dtype {
            DType::BF16 => self.map1(v, Kind::F32, |e, x| e.round_bf16(x)),
            DType::F16 => self.map1(v, Kind::F32, |e, x| {
                let bits = e.f32_to_f16(x);
                e.f16_to_f32(bits)
            }),
            DType::U8 | DType::QUInt8 => self.map1(v, Kind::I32, |e, x| e.and_const(x, 0xff)),
            DType::I8 | DType::QInt8 => self.map1(v, Kind::I32, |e, x| {
                let x = e.shl(x, 24);
                e.sshr(x, 24)
            }),
            DType::I16 => self.map1(v, Kind::I32, |e, x| {
                let x = e.shl(x, 16);
                e.sshr(x, 16)
            }),
            DType::I32 | DType::I64 | DType::F32 | DType::F64 | DType::Bool | DType::QInt32 => v,
            DType::C64 | DType::C128 => unreachable!("loops hold no complex values"),
        }
    }

    /// Truth values as 0 or 1 of an arithmetic kind.
    fn bool_to(&mut self, v: Lanes, kind: Kind) -> Lanes {
        if !v.vector {
            let x = v.one();
            let r = match kind {
                Kind::I32 => self.b.ins().uextend(types::I32, x),
                Kind::I64 => self.b.ins().uextend(types::I64, x),
                _ => {
                    let i = self.b.ins().uextend(types::I32, x);
                    self.b.ins().fcvt_from_sint(kind.ty(false), i)
                }
            };
            return Lanes::scalar(kind, r);
        }
        let mask = self.mask(v, kind.wide());
        let ty = kind.ty(true);
        self.map1(mask, kind, |e, m| {
            let one = if kind.float() { e.fconst(ty, 1.0) } else { e.iconst(ty, 1) };
            let m = e.cast_bits(ty, m);
            e.b.ins().band(m, one)
        })
    }

    /// `v != 0`.
    pub(crate) fn truth(&mut self, v: Lanes) -> Lanes {
        let kind = match (v.vector, v.kind.wide()) {
            (false, _) => Kind::Bit,
            (true, false) => Kind::M32,
            (true, true) => Kind::M64,
        };
        match v.kind {
            Kind::F32 | Kind::F64 => self.map1(v, kind, |e, x| {
                let ty = e.ty(x);
                let zero = e.fconst(ty, 0.0);
                e.b.ins().fcmp(FloatCC::NotEqual, x, zero)
            }),
            Kind::I32 | Kind::I64 => self.map1(v, kind, |e, x| e.icmp_const(IntCC::NotEqual, x, 0)),
            _ => v,
        }
    }

    /// Conversion between physical kinds; floats to integers truncate and saturate, NaN gives 0.
    pub(crate) fn convert(&mut self, v: Lanes, to: Kind) -> Lanes {
        use Kind::{F32, F64, I32, I64};
        match (v.kind, to) {
            (a, b) if a == b => v,
            (Kind::Bit | Kind::M32 | Kind::M64, F32 | F64 | I32 | I64) => self.bool_to(v, to),
            (Kind::Bit | Kind::M32 | Kind::M64, _) => self.mask(v, to.wide()),
            (_, Kind::Bit | Kind::M32 | Kind::M64) => {
                let t = self.truth(v);
                self.mask(t, to.wide())
            }
            _ if !v.vector => {
                let ty = to.ty(false);
                let x = v.one();
                let r = match (v.kind, to) {
                    (F32, F64) => self.b.ins().fpromote(ty, x),
                    (F64, F32) => self.b.ins().fdemote(ty, x),
                    (I32, I64) => self.b.ins().sextend(ty, x),
                    (I64, I32) => self.b.ins().ireduce(ty, x),
                    (F32 | F64, _) => self.b.ins().fcvt_to_sint_sat(ty, x),
                    _ => self.b.ins().fcvt_from_sint(ty, x),
                };
                Lanes::scalar(to, r)
            }
            (F32, F64) => {
                let x = v.one();
                let high = self.swap_halves(x);
                let regs = [self.b.ins().fvpromote_low(x), self.b.ins().fvpromote_low(high)];
                Lanes::new(F64, true, &regs)
            }
            (F64, F32) => {
                let regs: SmallVec<[Value; 2]> =
                    v.regs().iter().map(|&x| self.b.ins().fvdemote(x)).collect();
                let r = self.shuffle_bytes(
                    regs[0],
                    regs[1],
                    [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23],
                );
                Lanes::new(F32, true, &[r])
            }
            (I32, I64) => {
                let regs = self.widen_signed(v.one());
                Lanes::new(I64, true, &regs)
            }
            (I64, I32) => {
                let r = self.narrow_wide(v.regs());
                Lanes::new(I32, true, &[r])
            }
            (I32, F32) => self.map1(v, F32, |e, x| e.b.ins().fcvt_from_sint(types::F32X4, x)),
            (F32, I32) => self.map1(v, I32, |e, x| e.b.ins().fcvt_to_sint_sat(types::I32X4, x)),
            _ => self.scalarize(&[v], to, |e, x| {
                let from = v.kind;
                let s = Lanes::scalar(from, x[0]);
                e.convert(s, to).one()
            }),
        }
    }

    /// [`Op::Cast`](straightline_passes::schedule::loops::Op::Cast).
    pub(crate) fn cast(&mut self, v: Lanes, from: DType, to: DType) -> Lanes {
        if from == to {
            return v;
        }
        if to == DType::Bool {
            return self.truth(v);
        }
        // a narrow integer takes the low bits of the 64-bit value, as a C cast through a wide type
        // does
        let kind = Kind::of(to, v.vector);
        let v = if from.is_floating() && to.is_integral() && to != DType::I64 {
            let wide = self.convert(v, Kind::I64);
            self.convert(wide, kind)
        } else {
            self.convert(v, kind)
        };
        let exact = from == DType::Bool
            || (from.is_half() && matches!(to, DType::F32 | DType::F64))
            || (from == DType::U8 && to == DType::I16)
            || (from == DType::I8 && to == DType::I16);
        if exact { v } else { self.wrap(v, to) }
    }
}
