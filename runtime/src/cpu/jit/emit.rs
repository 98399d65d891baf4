//! Register-level emission: constants, selects, lane access, shuffles, loops.

use super::constants::ConstantPool;
use super::lanes::{Kind, LANES, Lanes};
use super::sizes::{Size, Sizes};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, Endianness, InstBuilder, MemFlagsData, SigRef, Signature, Type,
    Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use smallvec::SmallVec;

/// A function under construction.
pub(crate) struct Emit<'a, 'f> {
    pub(crate) b: &'a mut FunctionBuilder<'f>,
    pub(crate) pool: &'a mut ConstantPool,
    pub(crate) sizes: &'a Sizes,
    /// The address of the table of numbers, if the function reads it.
    pub(crate) numbers: Option<Value>,
    /// The host has x86's blend on the sign of a lane.
    pub(crate) x64: bool,
    pub(crate) call_conv: CallConv,
    /// Address of the constant pool's current chunk, per block that uses it.
    sigs: SmallVec<[(Signature, SigRef); 4]>,
}

/// Loads and stores access valid memory, at any alignment.
pub(crate) fn mem() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

fn bits() -> MemFlagsData {
    MemFlagsData::new().with_endianness(Endianness::Little)
}

impl<'a, 'f> Emit<'a, 'f> {
    pub(crate) fn new(
        b: &'a mut FunctionBuilder<'f>,
        pool: &'a mut ConstantPool,
        sizes: &'a Sizes,
        x64: bool,
        call_conv: CallConv,
    ) -> Self {
        Emit { b, pool, sizes, numbers: None, x64, call_conv, sigs: SmallVec::new() }
    }

    pub(crate) fn ty(&self, v: Value) -> Type {
        self.b.func.dfg.value_type(v)
    }

    pub(crate) fn i64(&mut self, v: i64) -> Value {
        self.b.ins().iconst(types::I64, v)
    }

    /// A number of the kernel.
    pub(crate) fn size(&mut self, n: Size) -> Value {
        match n {
            Size::Fixed(n) => self.i64(n),
            Size::Varies(at) => self.entry(types::I64, at),
        }
    }

    /// What is at a place of the table of numbers.
    pub(crate) fn entry(&mut self, ty: Type, at: u32) -> Value {
        let table = self.numbers.expect("set where functions begin");
        // nobody writes the table while the code runs
        let flags = mem().with_aligned().with_readonly().with_can_move();
        self.b.ins().load(ty, flags, table, at as i32 * 8)
    }

    /// `v + n`.
    pub(crate) fn plus_size(&mut self, v: Value, n: Size) -> Value {
        match n {
            Size::Fixed(0) => v,
            Size::Fixed(n) => self.b.ins().iadd_imm_s(v, n),
            n => {
                let n = self.size(n);
                self.b.ins().iadd(v, n)
            }
        }
    }

    /// A register with `v` in every lane; floats are rounded to the lane type.
    pub(crate) fn fconst(&mut self, ty: Type, v: f64) -> Value {
        match ty.lane_type() {
            types::F32 => self.constant(ty, u64::from((v as f32).to_bits())),
            _ => self.constant(ty, v.to_bits()),
        }
    }

    /// A register with `v` in every lane.
    pub(crate) fn iconst(&mut self, ty: Type, v: i64) -> Value {
        self.constant(ty, v as u64)
    }

    /// A register with this bit pattern in every lane. Vector constants are loaded from the pool,
    /// each use from its own slot: a load with one use folds into the instruction that uses it and
    /// takes no register.
    fn constant(&mut self, ty: Type, pattern: u64) -> Value {
        if !ty.is_vector() {
            return match ty {
                types::F32 => self.b.ins().f32const(f32::from_bits(pattern as u32)),
                types::F64 => self.b.ins().f64const(f64::from_bits(pattern)),
                // the verifier requires immediates without stray high bits
                types::I8 => self.b.ins().iconst(ty, i64::from(pattern as u8)),
                types::I32 => self.b.ins().iconst(ty, i64::from(pattern as u32)),
                _ => self.b.ins().iconst(ty, pattern as i64),
            };
        }
        let word = match ty.lane_bits() {
            32 => (pattern & 0xffff_ffff) | (pattern << 32),
            _ => pattern,
        };
        let (chunk, offset) = self.pool.slot([word, word]);
        let base = self.b.ins().iconst(types::I64, chunk as i64);
        self.b.ins().load(ty, mem().with_aligned(), base, offset)
    }

    /// The same bits as another type of the same size.
    pub(crate) fn cast_bits(&mut self, ty: Type, v: Value) -> Value {
        if self.ty(v) == ty { v } else { self.b.ins().bitcast(ty, bits(), v) }
    }

    /// `mask ? a : b`, per lane.
    pub(crate) fn sel(&mut self, mask: Value, a: Value, b: Value) -> Value {
        let ty = self.ty(a);
        if !ty.is_vector() {
            return self.b.ins().select(mask, a, b);
        }
        let mask_ty = self.ty(mask);
        let a = self.cast_bits(mask_ty, a);
        let b = self.cast_bits(mask_ty, b);
        let r = if self.x64 {
            self.b.ins().blendv(mask, a, b)
        } else {
            self.b.ins().bitselect(mask, a, b)
        };
        self.cast_bits(ty, r)
    }

    /// `a < b ? a : b` (the second operand where unordered); the pattern of x86 `minps`.
    pub(crate) fn min_raw(&mut self, a: Value, b: Value) -> Value {
        self.raw_extreme(a, b, false)
    }

    /// `a > b ? a : b`.
    pub(crate) fn max_raw(&mut self, a: Value, b: Value) -> Value {
        self.raw_extreme(a, b, true)
    }

    fn raw_extreme(&mut self, a: Value, b: Value, max: bool) -> Value {
        let ty = self.ty(a);
        let (x, y) = if max { (b, a) } else { (a, b) };
        let m = self.b.ins().fcmp(FloatCC::LessThan, x, y);
        if ty.is_vector() {
            let m = self.cast_bits(ty, m);
            self.b.ins().bitselect(m, a, b)
        } else {
            self.b.ins().select(m, a, b)
        }
    }

    /// Not a number, as a mask.
    pub(crate) fn is_nan(&mut self, a: Value) -> Value {
        self.b.ins().fcmp(FloatCC::Unordered, a, a)
    }

    /// The larger (smaller) of two floats; NaN if either is.
    pub(crate) fn fextreme(&mut self, a: Value, b: Value, max: bool) -> Value {
        let r = self.raw_extreme(a, b, max);
        let nan = self.is_nan(a);
        self.sel(nan, a, r)
    }

    /// The larger (smaller) of two signed integers.
    pub(crate) fn iextreme(&mut self, a: Value, b: Value, max: bool) -> Value {
        let cc = if max { IntCC::SignedGreaterThan } else { IntCC::SignedLessThan };
        let m = self.b.ins().icmp(cc, a, b);
        self.sel(m, a, b)
    }

    pub(crate) fn icmp_const(&mut self, cc: IntCC, a: Value, v: i64) -> Value {
        let ty = self.ty(a);
        let c = self.iconst(ty, v);
        self.b.ins().icmp(cc, a, c)
    }

    pub(crate) fn and_const(&mut self, a: Value, v: i64) -> Value {
        let ty = self.ty(a);
        let c = self.iconst(ty, v);
        self.b.ins().band(a, c)
    }

    pub(crate) fn shl(&mut self, a: Value, n: u32) -> Value {
        let n = self.b.ins().iconst(types::I32, i64::from(n));
        self.b.ins().ishl(a, n)
    }

    pub(crate) fn ushr(&mut self, a: Value, n: u32) -> Value {
        let n = self.b.ins().iconst(types::I32, i64::from(n));
        self.b.ins().ushr(a, n)
    }

    pub(crate) fn sshr(&mut self, a: Value, n: u32) -> Value {
        let n = self.b.ins().iconst(types::I32, i64::from(n));
        self.b.ins().sshr(a, n)
    }

    /// Bytes of `a` in the order given.
    pub(crate) fn shuffle_bytes(&mut self, a: Value, b: Value, order: [u8; 16]) -> Value {
        let ty = self.ty(a);
        let a = self.cast_bits(types::I8X16, a);
        let b = self.cast_bits(types::I8X16, b);
        let imm = self.b.func.dfg.immediates.push(order.as_slice().to_vec().into());
        let r = self.b.ins().shuffle(a, b, imm);
        self.cast_bits(ty, r)
    }

    /// Swaps the 64-bit halves.
    pub(crate) fn swap_halves(&mut self, a: Value) -> Value {
        self.shuffle_bytes(a, a, [8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7])
    }

    /// Swaps neighbouring 32-bit lanes.
    pub(crate) fn swap_pairs(&mut self, a: Value) -> Value {
        self.shuffle_bytes(a, a, [4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11])
    }

    /// A value of 0 or 1 per lane bit as an `i8` truth value.
    fn mask_to_bit(&mut self, lane: Value) -> Value {
        let low = self.b.ins().ireduce(types::I8, lane);
        self.b.ins().band_imm_u(low, 1)
    }

    /// One lane as a scalar register (a mask lane as `0`/`1`).
    pub(crate) fn lane(&mut self, v: Lanes, k: i64) -> Value {
        if !v.vector {
            return v.one();
        }
        let (reg, k) =
            if v.kind.wide() { (v.regs()[(k / 2) as usize], k % 2) } else { (v.one(), k) };
        let lane = self.b.ins().extractlane(reg, k as u8);
        match v.kind {
            Kind::M32 | Kind::M64 => self.mask_to_bit(lane),
            _ => lane,
        }
    }

    /// Four scalars as one value. Truth values become a 32-bit mask.
    pub(crate) fn pack(&mut self, kind: Kind, lanes: [Value; LANES as usize]) -> Lanes {
        let kind = if kind == Kind::Bit { Kind::M32 } else { kind };
        let lanes = match kind {
            Kind::M32 => lanes.map(|l| self.b.ins().bmask(types::I32, l)),
            Kind::M64 => lanes.map(|l| self.b.ins().bmask(types::I64, l)),
            _ => lanes,
        };
        let ty = kind.ty(true);
        let mut regs: SmallVec<[Value; 2]> = SmallVec::new();
        let per = if kind.wide() { 2 } else { 4 };
        for group in lanes.chunks(per) {
            let mut v = self.b.ins().scalar_to_vector(ty, group[0]);
            for (k, lane) in group.iter().enumerate().skip(1) {
                v = self.b.ins().insertlane(v, *lane, k as u8);
            }
            regs.push(v);
        }
        Lanes::new(kind, true, &regs)
    }

    /// A scalar in all four lanes.
    pub(crate) fn splat(&mut self, v: Lanes) -> Lanes {
        if v.vector {
            return v;
        }
        let (kind, scalar) = match v.kind {
            Kind::Bit => (Kind::M32, self.b.ins().bmask(types::I32, v.one())),
            k => (k, v.one()),
        };
        let reg = self.b.ins().splat(kind.ty(true), scalar);
        let regs = [reg; 2];
        Lanes::new(kind, true, &regs[..Lanes::count(kind, true)])
    }

    /// The low two of four 32-bit lanes widened with their sign, then the high two.
    pub(crate) fn widen_signed(&mut self, v: Value) -> [Value; 2] {
        [self.b.ins().swiden_low(v), self.b.ins().swiden_high(v)]
    }

    /// The low halves of four 64-bit lanes in two registers.
    pub(crate) fn narrow_wide(&mut self, regs: &[Value]) -> Value {
        let a = self.cast_bits(types::I32X4, regs[0]);
        let b = self.cast_bits(types::I32X4, regs[1]);
        self.shuffle_bytes(a, b, [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27])
    }

    /// A truth value as a mask of the lane width that a consumer needs (unchanged for scalars).
    pub(crate) fn mask(&mut self, v: Lanes, wide: bool) -> Lanes {
        match (v.kind, wide) {
            (Kind::M32, true) => {
                let regs = self.widen_signed(v.one());
                Lanes::new(Kind::M64, true, &regs)
            }
            (Kind::M64, false) => {
                let r = self.narrow_wide(v.regs());
                Lanes::new(Kind::M32, true, &[r])
            }
            _ => v,
        }
    }

    /// Applies `f` to each register.
    pub(crate) fn map1(
        &mut self,
        a: Lanes,
        kind: Kind,
        mut f: impl FnMut(&mut Self, Value) -> Value,
    ) -> Lanes {
        let regs: SmallVec<[Value; 2]> = a.regs().iter().map(|&x| f(self, x)).collect();
        Lanes::new(kind, a.vector, &regs)
    }

    /// Applies `f` to each pair of registers.
    pub(crate) fn map2(
        &mut self,
        a: Lanes,
        b: Lanes,
        kind: Kind,
        mut f: impl FnMut(&mut Self, Value, Value) -> Value,
    ) -> Lanes {
        debug_assert_eq!((a.kind, a.vector), (b.kind, b.vector));
        let regs: SmallVec<[Value; 2]> =
            a.regs().iter().zip(b.regs()).map(|(&x, &y)| f(self, x, y)).collect();
        Lanes::new(kind, a.vector, &regs)
    }

    /// Applies a scalar function lane by lane.
    pub(crate) fn scalarize(
        &mut self,
        args: &[Lanes],
        kind: Kind,
        mut f: impl FnMut(&mut Self, &[Value]) -> Value,
    ) -> Lanes {
        if !args[0].vector {
            let vals: SmallVec<[Value; 3]> = args.iter().map(|a| a.one()).collect();
            let r = f(self, &vals);
            return Lanes::scalar(kind, r);
        }
        let lanes = [0, 1, 2, 3].map(|k| {
            let vals: SmallVec<[Value; 3]> = args.iter().map(|a| self.lane(*a, k)).collect();
            f(self, &vals)
        });
        self.pack(kind, lanes)
    }

    /// Calls a native function by address.
    pub(crate) fn call_address(
        &mut self,
        address: usize,
        params: &[Type],
        ret: Option<Type>,
        args: &[Value],
    ) -> Option<Value> {
        let mut sig = Signature::new(self.call_conv);
        sig.params.extend(params.iter().map(|&t| AbiParam::new(t)));
        sig.returns.extend(ret.map(AbiParam::new));
        let sig = match self.sigs.iter().find(|s| s.0 == sig) {
            Some(s) => s.1,
            None => {
                let r = self.b.import_signature(sig.clone());
                self.sigs.push((sig, r));
                r
            }
        };
        let callee = self.i64(address as i64);
        let inst = self.b.ins().call_indirect(sig, callee, args);
        ret.map(|_| self.b.inst_results(inst)[0])
    }

    /// A block that `f` fills when `cond` holds (rarely); both ways meet with the values that `f`
    /// returns or `otherwise`.
    pub(crate) fn cold_if(
        &mut self,
        cond: Value,
        otherwise: &[Value],
        f: impl FnOnce(&mut Self) -> SmallVec<[Value; 4]>,
    ) -> SmallVec<[Value; 4]> {
        let cold = self.b.create_block();
        let join = self.b.create_block();
        self.b.set_cold_block(cold);
        for &v in otherwise {
            let ty = self.ty(v);
            self.b.append_block_param(join, ty);
        }
        let args = block_args(otherwise);
        self.b.ins().brif(cond, cold, &[], join, &args);
        self.b.seal_block(cold);
        self.b.switch_to_block(cold);
        let vals = f(self);
        let args = block_args(&vals);
        self.b.ins().jump(join, &args);
        self.b.seal_block(join);
        self.b.switch_to_block(join);
        SmallVec::from_slice(self.b.block_params(join))
    }

    /// Opens `for i in begin..end step step` with values carried through it. Close it with
    /// [`Emit::end_loop`]. `guarded`: the range may be empty.
    pub(crate) fn begin_loop(
        &mut self,
        begin: Value,
        end: Value,
        step: Size,
        carried: &[Value],
        guarded: bool,
    ) -> Loop {
        let head = self.b.create_block();
        let exit = self.b.create_block();
        let index = self.b.append_block_param(head, types::I64);
        for &v in carried {
            let ty = self.ty(v);
            self.b.append_block_param(head, ty);
            self.b.append_block_param(exit, ty);
        }
        let mut args = vec![BlockArg::Value(begin)];
        args.extend(block_args(carried));
        if guarded {
            let some = self.b.ins().icmp(IntCC::SignedLessThan, begin, end);
            let out = block_args(carried);
            self.b.ins().brif(some, head, &args, exit, &out);
        } else {
            self.b.ins().jump(head, &args);
        }
        self.b.switch_to_block(head);
        let carried = SmallVec::from_slice(&self.b.block_params(head)[1..]);
        Loop { head, exit, index, end, step, carried }
    }

    /// Closes a loop; returns the carried values after it.
    pub(crate) fn end_loop(&mut self, l: &Loop, carried: &[Value]) -> SmallVec<[Value; 8]> {
        let next = self.plus_size(l.index, l.step);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, next, l.end);
        let mut args = vec![BlockArg::Value(next)];
        args.extend(block_args(carried));
        let out = block_args(carried);
        self.b.ins().brif(more, l.head, &args, l.exit, &out);
        self.b.seal_block(l.head);
        self.b.seal_block(l.exit);
        self.b.switch_to_block(l.exit);
        SmallVec::from_slice(self.b.block_params(l.exit))
    }
}

/// An open loop.
pub(crate) struct Loop {
    head: Block,
    exit: Block,
    /// The loop variable.
    pub(crate) index: Value,
    end: Value,
    step: Size,
    /// The carried values at the top of an iteration.
    pub(crate) carried: SmallVec<[Value; 8]>,
}

pub(crate) fn block_args(vals: &[Value]) -> SmallVec<[BlockArg; 8]> {
    vals.iter().map(|&v| BlockArg::Value(v)).collect()
}
