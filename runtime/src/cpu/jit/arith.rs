//! The operations of a body on values in registers.

use super::JitError;
use super::emit::Emit;
use super::lanes::{Kind, Lanes};
use crate::cpu::math::{Fn1, Fn2};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{BinaryOp, CompareOp, ReduceOp, UnaryOp};

/// Code that runs when an integer divisor is zero; given the truth value of that.
pub(crate) type OnZero<'c, 'a, 'f> = dyn FnMut(&mut Emit<'a, 'f>, Value) + 'c;

extern "C" fn int_pow(base: i64, exponent: i64) -> i64 {
    // PyTorch: a negative exponent gives 0, except for the bases 1 and -1
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut e) = (1i64, base, exponent as u64);
    while e > 0 {
        if e & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        e >>= 1;
    }
    result
}

fn mask_kind(v: Lanes) -> Kind {
    match (v.vector, v.kind.wide()) {
        (false, _) => Kind::Bit,
        (true, false) => Kind::M32,
        (true, true) => Kind::M64,
    }
}

impl<'a, 'f> Emit<'a, 'f> {
    /// Both truth values in the wider of the two mask widths.
    fn same_masks(&mut self, a: Lanes, b: Lanes) -> (Lanes, Lanes) {
        let wide = a.kind == Kind::M64 || b.kind == Kind::M64;
        (self.mask(a, wide), self.mask(b, wide))
    }

    pub(crate) fn bool_not(&mut self, v: Lanes) -> Lanes {
        self.map1(
            v,
            v.kind,
            |e, x| {
                if v.vector { e.b.ins().bnot(x) } else { e.b.ins().bxor_imm_u(x, 1) }
            },
        )
    }

    /// A unary operation; `dtype` is that of the operand.
    pub(crate) fn unary(&mut self, op: UnaryOp, v: Lanes, dtype: DType) -> Result<Lanes, JitError> {
        let unsupported = || JitError::Unsupported { what: format!("{op:?} on {dtype}") };
        if v.kind.float() {
            if let Some(f) = Fn1::of(op) {
                let r = self.record(v, |p, x| f.build(p, x));
                return Ok(self.wrap(r, dtype));
            }
            let mk = mask_kind(v);
            let r = match op {
                UnaryOp::Neg => self.map1(v, v.kind, |e, x| e.b.ins().fneg(x)),
                UnaryOp::Abs => self.map1(v, v.kind, |e, x| e.b.ins().fabs(x)),
                UnaryOp::Sqrt => {
                    let r = self.map1(v, v.kind, |e, x| e.b.ins().sqrt(x));
                    self.wrap(r, dtype)
                }
                UnaryOp::Floor => self.map1(v, v.kind, |e, x| e.b.ins().floor(x)),
                UnaryOp::Ceil => self.map1(v, v.kind, |e, x| e.b.ins().ceil(x)),
                UnaryOp::Trunc => self.map1(v, v.kind, |e, x| e.b.ins().trunc(x)),
                UnaryOp::Round => self.map1(v, v.kind, |e, x| e.b.ins().nearest(x)),
                UnaryOp::Relu => self.map1(v, v.kind, |e, x| {
                    let ty = e.ty(x);
                    let zero = e.fconst(ty, 0.0);
                    e.fextreme(x, zero, true)
                }),
                UnaryOp::IsNan => self.map1(v, mk, |e, x| e.is_nan(x)),
                UnaryOp::IsInf => self.map1(v, mk, |e, x| {
                    let ty = e.ty(x);
                    let inf = e.fconst(ty, f64::INFINITY);
                    let a = e.b.ins().fabs(x);
                    e.b.ins().fcmp(FloatCC::Equal, a, inf)
                }),
                UnaryOp::LogicalNot => {
                    let t = self.truth(v);
                    self.bool_not(t)
                }
                _ => return Err(unsupported()),
            };
            return Ok(r);
        }
        if dtype == DType::Bool {
            return match op {
                UnaryOp::LogicalNot | UnaryOp::BitwiseNot => Ok(self.bool_not(v)),
                UnaryOp::Abs
                | UnaryOp::Relu
                | UnaryOp::Sign
                | UnaryOp::Floor
                | UnaryOp::Ceil
                | UnaryOp::Round
                | UnaryOp::Trunc => Ok(v),
                _ => Err(unsupported()),
            };
        }
        let r = match op {
            UnaryOp::Neg => self.map1(v, v.kind, |e, x| e.b.ins().ineg(x)),
            UnaryOp::Abs => self.map1(v, v.kind, |e, x| e.b.ins().iabs(x)),
            UnaryOp::Sign => self.map1(v, v.kind, |e, x| {
                let ty = e.ty(x);
                let one = e.iconst(ty, 1);
                let minus = e.iconst(ty, -1);
                let low = e.iextreme(x, one, false);
                e.iextreme(low, minus, true)
            }),
            UnaryOp::Relu => self.map1(v, v.kind, |e, x| {
                let ty = e.ty(x);
                let zero = e.iconst(ty, 0);
                e.iextreme(x, zero, true)
            }),
            UnaryOp::BitwiseNot => self.map1(v, v.kind, |e, x| e.b.ins().bnot(x)),
            UnaryOp::LogicalNot => {
                let t = self.truth(v);
                return Ok(self.bool_not(t));
            }
            UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc => v,
            _ => return Err(unsupported()),
        };
        Ok(self.wrap(r, dtype))
    }

    /// A binary operation on two values of `dtype`.
    pub(crate) fn binary(
        &mut self,
        op: BinaryOp,
        a: Lanes,
        b: Lanes,
        dtype: DType,
        on_zero: &mut OnZero<'_, 'a, 'f>,
    ) -> Result<Lanes, JitError> {
        let unsupported = || JitError::Unsupported { what: format!("{op:?} on {dtype}") };
        if dtype == DType::Bool {
            let (a, b) = self.same_masks(a, b);
            let kind = a.kind;
            return Ok(match op {
                BinaryOp::LogicalAnd | BinaryOp::BitwiseAnd | BinaryOp::Mul | BinaryOp::Minimum => {
                    self.map2(a, b, kind, |e, x, y| e.b.ins().band(x, y))
                }
                BinaryOp::LogicalOr | BinaryOp::BitwiseOr | BinaryOp::Add | BinaryOp::Maximum => {
                    self.map2(a, b, kind, |e, x, y| e.b.ins().bor(x, y))
                }
                BinaryOp::LogicalXor | BinaryOp::BitwiseXor => {
                    self.map2(a, b, kind, |e, x, y| e.b.ins().bxor(x, y))
                }
                _ => return Err(unsupported()),
            });
        }
        let kind = a.kind;
        if kind.float() {
            let r = match op {
                BinaryOp::Add => self.map2(a, b, kind, |e, x, y| e.b.ins().fadd(x, y)),
                BinaryOp::Sub => self.map2(a, b, kind, |e, x, y| e.b.ins().fsub(x, y)),
                BinaryOp::Mul => self.map2(a, b, kind, |e, x, y| e.b.ins().fmul(x, y)),
                BinaryOp::Div => self.map2(a, b, kind, |e, x, y| e.b.ins().fdiv(x, y)),
                BinaryOp::TruncDiv => self.map2(a, b, kind, |e, x, y| {
                    let q = e.b.ins().fdiv(x, y);
                    e.b.ins().trunc(q)
                }),
                BinaryOp::FloorDiv => self.float_floor_div(a, b),
                BinaryOp::Maximum => {
                    return Ok(self.map2(a, b, kind, |e, x, y| e.fextreme(x, y, true)));
                }
                BinaryOp::Minimum => {
                    return Ok(self.map2(a, b, kind, |e, x, y| e.fextreme(x, y, false)));
                }
                BinaryOp::Pow => self.record2(a, b, |p, x, y| Fn2::Pow.build(p, x, y)),
                BinaryOp::Atan2 => self.record2(a, b, |p, x, y| Fn2::Atan2.build(p, x, y)),
                BinaryOp::Fmod => self.record2(a, b, |p, x, y| Fn2::Fmod.build(p, x, y)),
                BinaryOp::Remainder => self.record2(a, b, |p, x, y| Fn2::Remainder.build(p, x, y)),
                _ => return Err(unsupported()),
            };
            return Ok(self.wrap(r, dtype));
        }
        let r = match op {
            BinaryOp::Add => self.map2(a, b, kind, |e, x, y| e.b.ins().iadd(x, y)),
            BinaryOp::Sub => self.map2(a, b, kind, |e, x, y| e.b.ins().isub(x, y)),
            BinaryOp::Mul => self.map2(a, b, kind, |e, x, y| e.b.ins().imul(x, y)),
            BinaryOp::BitwiseAnd => self.map2(a, b, kind, |e, x, y| e.b.ins().band(x, y)),
            BinaryOp::BitwiseOr => self.map2(a, b, kind, |e, x, y| e.b.ins().bor(x, y)),
            BinaryOp::BitwiseXor => self.map2(a, b, kind, |e, x, y| e.b.ins().bxor(x, y)),
            BinaryOp::Maximum => self.map2(a, b, kind, |e, x, y| e.iextreme(x, y, true)),
            BinaryOp::Minimum => self.map2(a, b, kind, |e, x, y| e.iextreme(x, y, false)),
            BinaryOp::FloorDiv | BinaryOp::TruncDiv | BinaryOp::Fmod | BinaryOp::Remainder => {
                self.scalarize(&[a, b], kind, |e, x| e.int_divide(op, x[0], x[1], on_zero))
            }
            BinaryOp::ShiftLeft | BinaryOp::ShiftRight => {
                self.scalarize(&[a, b], kind, |e, x| e.int_shift(op, x[0], x[1], dtype))
            }
            BinaryOp::Pow => {
                let (wide_a, wide_b) = (self.convert(a, Kind::I64), self.convert(b, Kind::I64));
                let r = self.scalarize(&[wide_a, wide_b], Kind::I64, |e, x| {
                    let i64t = cranelift_codegen::ir::types::I64;
                    e.call_address(int_pow as *const () as usize, &[i64t; 2], Some(i64t), x)
                        .expect("a result was declared")
                });
                self.convert(r, kind)
            }
            _ => return Err(unsupported()),
        };
        Ok(self.wrap(r, dtype))
    }

    /// `floor(a / b)` as PyTorch computes it: from the exact remainder.
    fn float_floor_div(&mut self, a: Lanes, b: Lanes) -> Lanes {
        let fmod = self.record2(a, b, |p, x, y| Fn2::Fmod.build(p, x, y));
        let diff = self.map2(a, fmod, a.kind, |e, x, m| e.b.ins().fsub(x, m));
        let div = self.map2(diff, b, a.kind, |e, d, y| e.b.ins().fdiv(d, y));
        // one less where the remainder is not zero and its sign is not the divisor's
        let some = self.truth(fmod);
        let below = |e: &mut Self, v: Lanes| {
            e.map1(v, mask_kind(v), |e, x| {
                let ty = e.ty(x);
                let zero = e.fconst(ty, 0.0);
                e.b.ins().fcmp(FloatCC::LessThan, x, zero)
            })
        };
        let nb = below(self, b);
        let nm = below(self, fmod);
        let differ = self.map2(nb, nm, nb.kind, |e, x, y| e.b.ins().bxor(x, y));
        let adjust = self.map2(some, differ, some.kind, |e, x, y| e.b.ins().band(x, y));
        let lower = self.map1(div, div.kind, |e, x| {
            let ty = e.ty(x);
            let one = e.fconst(ty, 1.0);
            e.b.ins().fsub(x, one)
        });
        let div = self.select(adjust, lower, div);
        let floor = self.map1(div, div.kind, |e, x| e.b.ins().floor(x));
        // rounding of the quotient may have fallen short of the next integer
        let short = self.map2(div, floor, mask_kind(div), |e, x, f| {
            let ty = e.ty(x);
            let half = e.fconst(ty, 0.5);
            let d = e.b.ins().fsub(x, f);
            e.b.ins().fcmp(FloatCC::GreaterThan, d, half)
        });
        let next = self.map1(floor, floor.kind, |e, x| {
            let ty = e.ty(x);
            let one = e.fconst(ty, 1.0);
            e.b.ins().fadd(x, one)
        });
        let floor = self.select(short, next, floor);
        // zero keeps the sign of the true quotient
        let quotient = self.map2(a, b, a.kind, |e, x, y| e.b.ins().fdiv(x, y));
        let signed_zero = self.record2(floor, quotient, |p, f, q| Fn2::Copysign.build(p, f, q));
        let nonzero = self.truth(div);
        let r = self.select(nonzero, floor, signed_zero);
        let divisor = self.truth(b);
        self.select(divisor, r, quotient)
    }

    fn int_divide(
        &mut self,
        op: BinaryOp,
        a: Value,
        b: Value,
        on_zero: &mut OnZero<'_, 'a, 'f>,
    ) -> Value {
        let ty = self.ty(a);
        let zero = self.b.ins().iconst(ty, 0);
        let one = self.b.ins().iconst(ty, 1);
        let is_zero = self.b.ins().icmp(IntCC::Equal, b, zero);
        on_zero(self, is_zero);
        // the machine traps on MIN / -1: divide by 1 and negate instead
        let minus = self.b.ins().icmp_imm_s(IntCC::Equal, b, -1);
        let odd = self.b.ins().bor(is_zero, minus);
        let safe = self.b.ins().select(odd, one, b);
        let q = self.b.ins().sdiv(a, safe);
        let nq = self.b.ins().ineg(q);
        let q = self.b.ins().select(minus, nq, q);
        let product = self.b.ins().imul(q, b);
        let r = self.b.ins().isub(a, product);
        let r = self.b.ins().select(is_zero, zero, r);
        if matches!(op, BinaryOp::TruncDiv) {
            return q;
        }
        if matches!(op, BinaryOp::Fmod) {
            return r;
        }
        let some = self.b.ins().icmp(IntCC::NotEqual, r, zero);
        let signs = self.b.ins().bxor(r, b);
        let differ = self.b.ins().icmp(IntCC::SignedLessThan, signs, zero);
        let adjust = self.b.ins().band(some, differ);
        if matches!(op, BinaryOp::FloorDiv) {
            let lower = self.b.ins().iadd_imm_s(q, -1);
            self.b.ins().select(adjust, lower, q)
        } else {
            let moved = self.b.ins().iadd(r, b);
            self.b.ins().select(adjust, moved, r)
        }
    }

    /// A shift by any amount, as [`BinaryOp::ShiftLeft`] and [`BinaryOp::ShiftRight`] define it.
    fn int_shift(&mut self, op: BinaryOp, a: Value, n: Value, dtype: DType) -> Value {
        let ty = self.ty(a);
        let width = dtype.size() as i64 * 8;
        // unsigned: a negative amount is too large as well
        let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, n, width);
        if matches!(op, BinaryOp::ShiftRight) && dtype != DType::U8 {
            let max = self.b.ins().iconst(ty, width - 1);
            let amount = self.b.ins().select(inside, n, max);
            return self.b.ins().sshr(a, amount);
        }
        // nothing is left, and an unsigned number has no sign that could stay
        let shifted = match op {
            BinaryOp::ShiftRight => self.b.ins().ushr(a, n),
            _ => self.b.ins().ishl(a, n),
        };
        let zero = self.b.ins().iconst(ty, 0);
        self.b.ins().select(inside, shifted, zero)
    }

    /// A comparison of two values of one dtype.
    pub(crate) fn compare(&mut self, op: CompareOp, a: Lanes, b: Lanes) -> Lanes {
        if a.kind.float() {
            let cc = match op {
                CompareOp::Eq => FloatCC::Equal,
                CompareOp::Ne => FloatCC::NotEqual,
                CompareOp::Lt => FloatCC::LessThan,
                CompareOp::Le => FloatCC::LessThanOrEqual,
                CompareOp::Gt => FloatCC::GreaterThan,
                CompareOp::Ge => FloatCC::GreaterThanOrEqual,
            };
            return self.map2(a, b, mask_kind(a), |e, x, y| e.b.ins().fcmp(cc, x, y));
        }
        if matches!(a.kind, Kind::M32 | Kind::M64 | Kind::Bit) {
            return self.compare_bools(op, a, b);
        }
        let cc = match op {
            CompareOp::Eq => IntCC::Equal,
            CompareOp::Ne => IntCC::NotEqual,
            CompareOp::Lt => IntCC::SignedLessThan,
            CompareOp::Le => IntCC::SignedLessThanOrEqual,
            CompareOp::Gt => IntCC::SignedGreaterThan,
            CompareOp::Ge => IntCC::SignedGreaterThanOrEqual,
        };
        self.map2(a, b, mask_kind(a), |e, x, y| e.b.ins().icmp(cc, x, y))
    }

    fn compare_bools(&mut self, op: CompareOp, a: Lanes, b: Lanes) -> Lanes {
        let (a, b) = self.same_masks(a, b);
        let kind = a.kind;
        let xor = |e: &mut Self, a, b| e.map2(a, b, kind, |e, x, y| e.b.ins().bxor(x, y));
        let and = |e: &mut Self, a, b| e.map2(a, b, kind, |e, x, y| e.b.ins().band(x, y));
        let or = |e: &mut Self, a, b| e.map2(a, b, kind, |e, x, y| e.b.ins().bor(x, y));
        match op {
            CompareOp::Ne => xor(self, a, b),
            CompareOp::Eq => {
                let n = xor(self, a, b);
                self.bool_not(n)
            }
            CompareOp::Lt => {
                let n = self.bool_not(a);
                and(self, n, b)
            }
            CompareOp::Gt => {
                let n = self.bool_not(b);
                and(self, a, n)
            }
            CompareOp::Le => {
                let n = self.bool_not(a);
                or(self, n, b)
            }
            CompareOp::Ge => {
                let n = self.bool_not(b);
                or(self, a, n)
            }
        }
    }

    /// `cond ? a : b`.
    pub(crate) fn select(&mut self, cond: Lanes, a: Lanes, b: Lanes) -> Lanes {
        if matches!(a.kind, Kind::M32 | Kind::M64) {
            let wide = a.kind == Kind::M64 || b.kind == Kind::M64 || cond.kind == Kind::M64;
            let (c, a, b) = (self.mask(cond, wide), self.mask(a, wide), self.mask(b, wide));
            let r = self.map2(c, a, c.kind, |e, m, x| e.b.ins().band(m, x));
            let s = self.map2(c, b, c.kind, |e, m, y| {
                let n = e.b.ins().bnot(m);
                e.b.ins().band(n, y)
            });
            return self.map2(r, s, c.kind, |e, x, y| e.b.ins().bor(x, y));
        }
        let m = self.mask(cond, a.kind.wide());
        let regs: smallvec::SmallVec<[Value; 2]> =
            (0..a.regs().len()).map(|i| self.sel(m.regs()[i], a.regs()[i], b.regs()[i])).collect();
        Lanes::new(a.kind, a.vector, &regs)
    }

    /// One step of a reduction; kinds as [`accumulator_kind`] says.
    pub(crate) fn reduce_step(&mut self, op: ReduceOp, acc: Lanes, v: Lanes) -> Lanes {
        let kind = acc.kind;
        match op {
            ReduceOp::Sum if kind.float() => {
                self.map2(acc, v, kind, |e, x, y| e.b.ins().fadd(x, y))
            }
            ReduceOp::Sum => self.map2(acc, v, kind, |e, x, y| e.b.ins().iadd(x, y)),
            ReduceOp::Prod if kind.float() => {
                self.map2(acc, v, kind, |e, x, y| e.b.ins().fmul(x, y))
            }
            ReduceOp::Prod => self.map2(acc, v, kind, |e, x, y| e.b.ins().imul(x, y)),
            ReduceOp::Max | ReduceOp::Min if kind.float() => {
                self.map2(acc, v, kind, |e, x, y| e.fextreme(x, y, op == ReduceOp::Max))
            }
            ReduceOp::Max | ReduceOp::Min if matches!(kind, Kind::I32 | Kind::I64) => {
                self.map2(acc, v, kind, |e, x, y| e.iextreme(x, y, op == ReduceOp::Max))
            }
            ReduceOp::Any | ReduceOp::Max => self.map2(acc, v, kind, |e, x, y| e.b.ins().bor(x, y)),
            ReduceOp::All | ReduceOp::Min => {
                self.map2(acc, v, kind, |e, x, y| e.b.ins().band(x, y))
            }
        }
    }

    /// The value that a reduction starts from.
    pub(crate) fn reduce_identity(&mut self, op: ReduceOp, dtype: DType, vector: bool) -> Lanes {
        let kind = Kind::of(dtype, vector);
        let ty = kind.ty(vector);
        let int_limit = |max: bool| -> i64 {
            let (lo, hi) = match dtype {
                DType::U8 => (0, 255),
                DType::I8 => (-128, 127),
                DType::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
                DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
                _ => (i64::MIN, i64::MAX),
            };
            if max { lo } else { hi }
        };
        let v = match (kind, op) {
            (Kind::F32 | Kind::F64, ReduceOp::Prod) => self.fconst(ty, 1.0),
            (Kind::F32 | Kind::F64, ReduceOp::Max) => self.fconst(ty, f64::NEG_INFINITY),
            (Kind::F32 | Kind::F64, ReduceOp::Min) => self.fconst(ty, f64::INFINITY),
            (Kind::F32 | Kind::F64, _) => self.fconst(ty, 0.0),
            (Kind::I32 | Kind::I64, ReduceOp::Prod) => self.iconst(ty, 1),
            (Kind::I32 | Kind::I64, ReduceOp::Max) => self.iconst(ty, int_limit(true)),
            (Kind::I32 | Kind::I64, ReduceOp::Min) => self.iconst(ty, int_limit(false)),
            (Kind::I32 | Kind::I64, _) => self.iconst(ty, 0),
            (_, ReduceOp::All | ReduceOp::Min | ReduceOp::Prod) => {
                self.iconst(ty, if vector { -1 } else { 1 })
            }
            _ => self.iconst(ty, 0),
        };
        let regs = [v; 2];
        Lanes::new(kind, vector, &regs[..Lanes::count(kind, vector)])
    }

    /// Folds the four lanes of a partial result into a scalar.
    pub(crate) fn fold_lanes(&mut self, op: ReduceOp, v: Lanes) -> Lanes {
        let wide = v.kind.wide();
        let single = |v: Value, kind: Kind| {
            // one register seen as a value of a narrow kind: the step works register by register
            let narrow = match kind {
                Kind::F64 | Kind::F32 => Kind::F32,
                Kind::I64 | Kind::I32 => Kind::I32,
                _ => Kind::M32,
            };
            Lanes::new(narrow, true, &[v])
        };
        let step = |e: &mut Self, a: Value, b: Value| {
            e.reduce_step(op, single(a, v.kind), single(b, v.kind)).one()
        };
        let mut r = v.regs()[0];
        if wide {
            r = step(self, r, v.regs()[1]);
        }
        let swapped = self.swap_halves(r);
        r = step(self, r, swapped);
        if !wide {
            let swapped = self.swap_pairs(r);
            r = step(self, r, swapped);
        }
        let folded = Lanes::new(v.kind, true, &[r, r][..Lanes::count(v.kind, true)]);
        let lane = self.lane(folded, 0);
        Lanes::scalar(v.kind, lane)
    }
}

/// The dtype that a reduction accumulates in.
pub(crate) fn accumulator(dtype: DType) -> DType {
    dtype.opmath()
}
