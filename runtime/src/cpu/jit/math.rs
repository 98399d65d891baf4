//! The math primitives as emitted instructions: eager and compiled code run the same sequences.

use super::emit::Emit;
use super::lanes::{Kind, Lanes};
use crate::cpu::math::{Prims, ScalarFn1, ScalarFn2, Width};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use smallvec::smallvec;

/// Records the operations of a math function on one register.
pub(crate) struct Recorder<'e, 'a, 'f> {
    e: &'e mut Emit<'a, 'f>,
    width: Width,
    vector: bool,
}

impl<'e, 'a, 'f> Recorder<'e, 'a, 'f> {
    pub(crate) fn new(e: &'e mut Emit<'a, 'f>, kind: Kind, vector: bool) -> Self {
        let width = if kind.wide() { Width::W64 } else { Width::W32 };
        Recorder { e, width, vector }
    }

    fn kind(&self) -> Kind {
        match self.width {
            Width::W32 => Kind::F32,
            Width::W64 => Kind::F64,
        }
    }

    fn fty(&self) -> Type {
        self.kind().ty(self.vector)
    }

    fn ity(&self) -> Type {
        match self.width {
            Width::W32 => Kind::I32.ty(self.vector),
            Width::W64 => Kind::I64.ty(self.vector),
        }
    }

    /// Applies a scalar routine to the lanes of one register.
    fn per_lane(
        &mut self,
        args: &[Value],
        mut f: impl FnMut(&mut Emit<'a, 'f>, &[Value]) -> Value,
    ) -> Value {
        let fty = self.fty();
        let width = self.width;
        let call = |e: &mut Emit<'a, 'f>,
                    xs: [Value; 2],
                    f: &mut dyn FnMut(&mut Emit<'a, 'f>, &[Value]) -> Value| {
            let xs = match width {
                Width::W32 => xs.map(|x| e.b.ins().fpromote(types::F64, x)),
                Width::W64 => xs,
            };
            let r = f(e, &xs);
            match width {
                Width::W32 => e.b.ins().fdemote(types::F32, r),
                Width::W64 => r,
            }
        };
        let pair = |xs: &[Value]| [xs[0], *xs.last().expect("an operand")];
        if !self.vector {
            return call(self.e, pair(args), &mut f);
        }
        let mut out = None;
        for k in 0..fty.lane_count() {
            let xs = pair(args).map(|x| self.e.b.ins().extractlane(x, k as u8));
            let r = call(self.e, xs, &mut f);
            out = Some(match out {
                None => self.e.b.ins().scalar_to_vector(fty, r),
                Some(v) => self.e.b.ins().insertlane(v, r, k as u8),
            });
        }
        out.expect("at least one lane")
    }
}

impl Prims for Recorder<'_, '_, '_> {
    type F = Value;
    type I = Value;
    type M = Value;

    fn width(&self) -> Width {
        self.width
    }
    fn f(&mut self, v: f64) -> Value {
        let ty = self.fty();
        self.e.fconst(ty, v)
    }
    fn i(&mut self, v: i64) -> Value {
        let ty = self.ity();
        self.e.iconst(ty, v)
    }
    fn add(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().fadd(a, b)
    }
    fn sub(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().fsub(a, b)
    }
    fn mul(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().fmul(a, b)
    }
    fn div(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().fdiv(a, b)
    }
    fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.e.b.ins().fma(a, b, c)
    }
    fn neg(&mut self, a: Value) -> Value {
        self.e.b.ins().fneg(a)
    }
    fn abs(&mut self, a: Value) -> Value {
        self.e.b.ins().fabs(a)
    }
    fn sqrt(&mut self, a: Value) -> Value {
        self.e.b.ins().sqrt(a)
    }
    fn min_raw(&mut self, a: Value, b: Value) -> Value {
        self.e.min_raw(a, b)
    }
    fn max_raw(&mut self, a: Value, b: Value) -> Value {
        self.e.max_raw(a, b)
    }
    fn floor(&mut self, a: Value) -> Value {
        self.e.b.ins().floor(a)
    }
    fn ceil(&mut self, a: Value) -> Value {
        self.e.b.ins().ceil(a)
    }
    fn trunc(&mut self, a: Value) -> Value {
        self.e.b.ins().trunc(a)
    }
    fn round_even(&mut self, a: Value) -> Value {
        self.e.b.ins().nearest(a)
    }
    fn lt(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().fcmp(FloatCC::LessThan, a, b)
    }
    fn le(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().fcmp(FloatCC::LessThanOrEqual, a, b)
    }
    fn eq(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().fcmp(FloatCC::Equal, a, b)
    }
    fn ne(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().fcmp(FloatCC::NotEqual, a, b)
    }
    fn and(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().band(a, b)
    }
    fn or(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().bor(a, b)
    }
    fn not(&mut self, a: Value) -> Value {
        if self.vector { self.e.b.ins().bnot(a) } else { self.e.b.ins().bxor_imm_u(a, 1) }
    }
    fn select(&mut self, m: Value, a: Value, b: Value) -> Value {
        self.e.sel(m, a, b)
    }
    fn select_i(&mut self, m: Value, a: Value, b: Value) -> Value {
        self.e.sel(m, a, b)
    }
    fn bits(&mut self, a: Value) -> Value {
        let ty = self.ity();
        self.e.cast_bits(ty, a)
    }
    fn from_bits(&mut self, a: Value) -> Value {
        let ty = self.fty();
        self.e.cast_bits(ty, a)
    }
    fn iadd(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().iadd(a, b)
    }
    fn isub(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().isub(a, b)
    }
    fn iand(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().band(a, b)
    }
    fn ior(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().bor(a, b)
    }
    fn ixor(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().bxor(a, b)
    }
    fn ishl(&mut self, a: Value, n: u32) -> Value {
        self.e.shl(a, n)
    }
    fn ishr_u(&mut self, a: Value, n: u32) -> Value {
        self.e.ushr(a, n)
    }
    fn ishr_s(&mut self, a: Value, n: u32) -> Value {
        self.e.sshr(a, n)
    }
    fn ilt(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().icmp(IntCC::SignedLessThan, a, b)
    }
    fn ieq(&mut self, a: Value, b: Value) -> Value {
        self.e.b.ins().icmp(IntCC::Equal, a, b)
    }
    fn to_int(&mut self, a: Value) -> Value {
        match (self.width, self.vector) {
            (Width::W64, true) => {
                let ity = self.ity();
                let lanes = [0u8, 1].map(|k| {
                    let x = self.e.b.ins().extractlane(a, k);
                    self.e.b.ins().fcvt_to_sint_sat(types::I64, x)
                });
                let v = self.e.b.ins().scalar_to_vector(ity, lanes[0]);
                self.e.b.ins().insertlane(v, lanes[1], 1)
            }
            _ => {
                let ity = self.ity();
                self.e.b.ins().fcvt_to_sint_sat(ity, a)
            }
        }
    }
    fn to_float(&mut self, a: Value) -> Value {
        match (self.width, self.vector) {
            (Width::W64, true) => {
                let fty = self.fty();
                let lanes = [0u8, 1].map(|k| {
                    let x = self.e.b.ins().extractlane(a, k);
                    self.e.b.ins().fcvt_from_sint(types::F64, x)
                });
                let v = self.e.b.ins().scalar_to_vector(fty, lanes[0]);
                self.e.b.ins().insertlane(v, lanes[1], 1)
            }
            _ => {
                let fty = self.fty();
                self.e.b.ins().fcvt_from_sint(fty, a)
            }
        }
    }
    fn call1(&mut self, f: ScalarFn1, x: Value) -> Value {
        self.per_lane(&[x], |e, xs| {
            e.call_address(f as usize, &[types::F64], Some(types::F64), &xs[..1])
                .expect("a result was declared")
        })
    }
    fn call2(&mut self, f: ScalarFn2, x: Value, y: Value) -> Value {
        self.per_lane(&[x, y], |e, xs| {
            e.call_address(f as usize, &[types::F64; 2], Some(types::F64), xs)
                .expect("a result was declared")
        })
    }
    fn call1_where(&mut self, m: Value, f: ScalarFn1, x: Value, fast: Value) -> Value {
        let any = if self.vector { self.e.b.ins().vany_true(m) } else { m };
        let (width, vector) = (self.width, self.vector);
        self.e.cold_if(any, &[fast], |e| {
            let mut inner = Recorder { e, width, vector };
            let slow = inner.call1(f, x);
            smallvec![inner.e.sel(m, slow, fast)]
        })[0]
    }
    fn call2_where(&mut self, m: Value, f: ScalarFn2, x: Value, y: Value, fast: Value) -> Value {
        let any = if self.vector { self.e.b.ins().vany_true(m) } else { m };
        let (width, vector) = (self.width, self.vector);
        self.e.cold_if(any, &[fast], |e| {
            let mut inner = Recorder { e, width, vector };
            let slow = inner.call2(f, x, y);
            smallvec![inner.e.sel(m, slow, fast)]
        })[0]
    }
}

impl Emit<'_, '_> {
    /// Runs a math function's builder over each register of a value.
    pub(crate) fn record(
        &mut self,
        v: Lanes,
        mut f: impl FnMut(&mut Recorder<'_, '_, '_>, Value) -> Value,
    ) -> Lanes {
        self.map1(v, v.kind, |e, x| {
            let mut r = Recorder::new(e, v.kind, v.vector);
            f(&mut r, x)
        })
    }

    /// The same for two operands.
    pub(crate) fn record2(
        &mut self,
        a: Lanes,
        b: Lanes,
        mut f: impl FnMut(&mut Recorder<'_, '_, '_>, Value, Value) -> Value,
    ) -> Lanes {
        self.map2(a, b, a.kind, |e, x, y| {
            let mut r = Recorder::new(e, a.kind, a.vector);
            f(&mut r, x, y)
        })
    }
}
