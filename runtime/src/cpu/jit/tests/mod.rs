//! Generated code against the interpreter, on kernels written by hand and random ones.

mod asks;
mod columns;
mod kept;
mod listed;
mod narrow;
mod pointwise;
mod random;
mod reductions;
mod rows;
mod scatters;
mod scheduled;
mod speed;
mod strips;
mod turned;
mod types;

use super::interp::{self, Memory, Stop, from_bytes, to_bytes};
use crate::memory::{Block, allocate, guard};
use crate::plan::{ArgPtr, Misfit, Plan, PlanError, PlanOptions};
use smallvec::SmallVec;
use straightline_passes::ir::{DType, Scalar};
use straightline_passes::schedule::loops::*;

/// A small generator of numbers, so that a case is reproduced by its seed alone.
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// An element: mostly moderate, sometimes a corner of the dtype.
    pub(super) fn element(&mut self, d: DType) -> Scalar {
        let corner = self.below(12) == 0;
        let small = self.below(41) as i64 - 20;
        let s = if d.is_floating() {
            if corner {
                Scalar::Float(self.pick(&[
                    f64::NAN,
                    f64::INFINITY,
                    f64::NEG_INFINITY,
                    -0.0,
                    0.0,
                    1e-40,
                    65519.0,
                    65520.0,
                    3e38,
                    1e-7,
                ]))
            } else {
                Scalar::Float(small as f64 * 0.25 + self.below(1000) as f64 * 1e-3)
            }
        } else if corner {
            Scalar::Int(self.pick(&[i64::MIN, i64::MAX, 127, -128, 255, 32767, 1 << 31]))
        } else {
            Scalar::Int(small)
        };
        s.cast(d)
    }
}

/// A schedule of one kernel and the numbers in its buffers.
pub(super) struct Case {
    pub(super) schedule: Schedule,
    pub(super) memory: Memory,
}

pub(super) fn terms(t: &[(u32, i64)]) -> Index {
    at(0, t)
}

pub(super) fn at(base: i64, t: &[(u32, i64)]) -> Index {
    Index {
        base,
        terms: t.iter().filter(|t| t.1 != 0).map(|&(a, s)| (AxisId(a), s)).collect(),
        dynamic: SmallVec::new(),
    }
}

pub(super) fn axes<A: smallvec::Array<Item = Axis>>(first: u32, extents: &[i64]) -> SmallVec<A> {
    extents
        .iter()
        .enumerate()
        .map(|(i, &extent)| Axis { id: AxisId(first + i as u32), extent })
        .collect()
}

pub(super) fn inst(dtype: DType, op: Op) -> Inst {
    Inst::new(op, dtype)
}

pub(super) fn load(dtype: DType, buffer: u32, index: Index) -> Inst {
    inst(dtype, Op::Load { mem: Mem::Buffer(BufferId(buffer)), index })
}

pub(super) fn store(dtype: DType, buffer: u32, index: Index, value: u32) -> Inst {
    inst(dtype, Op::Store { mem: Mem::Buffer(BufferId(buffer)), index, value: Val(value) })
}

impl Case {
    pub(super) fn new(grid: &[i64], vectorize: Vectorize) -> Case {
        let kernel = Kernel {
            name: "test".to_string(),
            grid: axes(0, grid),
            stages: Vec::new(),
            vectorize,
            scratch: Vec::new(),
            work_per_point: 8,
            in_any_order: false,
            ops: Vec::new(),
        };
        Case {
            schedule: Schedule { steps: vec![Step::Kernel(kernel)], ..Schedule::default() },
            memory: Vec::new(),
        }
    }

    pub(super) fn kernel(&mut self) -> &mut Kernel {
        match &mut self.schedule.steps[0] {
            Step::Kernel(k) => k,
            Step::Extern(_) => unreachable!("a case has one kernel"),
        }
    }

    fn buffer(&mut self, dtype: DType, kind: BufferKind, values: Vec<Scalar>) -> u32 {
        let id = self.schedule.buffers.len() as u32;
        self.schedule.buffers.push(Buffer {
            dtype,
            len: values.len(),
            kind,
            name: format!("b{id}"),
        });
        self.memory.push(values);
        id
    }

    fn count(&self, f: impl Fn(&BufferKind) -> bool) -> u32 {
        self.schedule.buffers.iter().filter(|b| f(&b.kind)).count() as u32
    }

    pub(super) fn input(&mut self, dtype: DType, values: Vec<Scalar>) -> u32 {
        let n = self.count(|k| matches!(k, BufferKind::Input(_)));
        self.buffer(dtype, BufferKind::Input(n), values)
    }

    pub(super) fn output(&mut self, dtype: DType, len: usize) -> u32 {
        let n = self.count(|k| matches!(k, BufferKind::Output(_)));
        let zeros = vec![Scalar::Int(0).cast(dtype); len];
        self.buffer(dtype, BufferKind::Output(n), zeros)
    }

    pub(super) fn constant(&mut self, dtype: DType, values: Vec<Scalar>) -> u32 {
        let bytes = to_bytes(&values, dtype);
        self.buffer(dtype, BufferKind::Constant(bytes.into()), values)
    }

    pub(super) fn stage(&mut self, first: u32, extents: &[i64], body: Vec<Inst>) {
        let axes = axes(first, extents);
        self.kernel().stages.push(Stage { axes, body });
    }

    /// Runs the generated code on a copy of the memory.
    pub(super) fn compiled(&self) -> Result<Memory, PlanError> {
        self.compiled_by(false, false)
    }

    /// The same, with wide strips or `narrow`: with Cranelift's vectors alone. With `varying` all
    /// numbers but 0 and 1 come from the table.
    fn compiled_by(&self, narrow: bool, varying: bool) -> Result<Memory, PlanError> {
        let options = PlanOptions {
            narrow,
            keep_clif: std::env::var_os("JIT_DUMP").is_some(),
            keep_asm: std::env::var_os("JIT_DUMP").is_some(),
            ..PlanOptions::default()
        };
        let other = self.schedule.apart().1.into_iter().map(|n| match n {
            0 | 1 => n,
            n => n.wrapping_mul(3).wrapping_add(7),
        });
        let others: Vec<Vec<i64>> = if varying { vec![other.collect()] } else { Vec::new() };
        let plan = Plan::compile_beside(self.schedule.clone(), &others, &options)?;
        if let (Some(clif), Some(asm)) = (plan.clif(), plan.asm()) {
            println!("{clif}\n{asm}");
        }
        self.run(&plan)
    }

    /// Runs a plan on a copy of the memory.
    fn run(&self, plan: &Plan) -> Result<Memory, PlanError> {
        let mut memory = self.memory.clone();
        // with guarded memory, what follows a buffer ends the process
        let beyond = if guard::is_on() { 0 } else { 16 };
        let mut blocks: Vec<Block> = Vec::new();
        for (b, values) in self.schedule.buffers.iter().zip(&memory) {
            let raw = to_bytes(values, b.dtype);
            let block = allocate(raw.len() + beyond).expect("memory");
            // SAFETY: the block has room for the bytes and for what follows them.
            unsafe {
                block.as_ptr().write_bytes(0xaa, block.len());
                std::ptr::copy_nonoverlapping(raw.as_ptr(), block.as_ptr(), raw.len());
            }
            blocks.push(block);
        }
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for (b, block) in self.schedule.buffers.iter().zip(&blocks) {
            match b.kind {
                BufferKind::Input(_) => inputs.push(ArgPtr::new(block.as_ptr())),
                BufferKind::Output(_) => outputs.push(block.as_ptr()),
                _ => {}
            }
        }
        // SAFETY: each buffer has the elements that the schedule says.
        unsafe { plan.run(&inputs, &[], &outputs)? };
        for ((b, block), values) in self.schedule.buffers.iter().zip(&blocks).zip(&mut memory) {
            if matches!(b.kind, BufferKind::Output(_)) {
                let n = values.len() * b.dtype.size();
                // SAFETY: the block has that many bytes, all written above.
                let all = unsafe { std::slice::from_raw_parts(block.as_ptr(), block.len()) };
                *values = from_bytes(&all[..n], b.dtype);
                assert!(all[n..].iter().all(|&x| x == 0xaa), "wrote past the end of {}", b.name);
            }
        }
        Ok(memory)
    }

    /// The interpreter's result.
    pub(super) fn interpreted(&self) -> Result<Memory, Stop> {
        let mut memory = self.memory.clone();
        interp::run(&self.schedule, &mut memory)?;
        Ok(memory)
    }

    /// Both agree: bit for bit, or within `tolerance` of the larger magnitude where one is given.
    pub(super) fn check(&self, tolerance: f64) {
        for narrow in [false, true] {
            for varying in [false, true] {
                self.check_emitter(tolerance, narrow, varying);
            }
        }
    }

    /// Both emitters give the same bits.
    pub(super) fn check_same(&self) {
        match (self.compiled_by(false, false), self.compiled_by(true, false)) {
            (Ok(wide), Ok(narrow)) => self.compare(&wide, &narrow, 0.0),
            (wide, narrow) => panic!("{:?}, {:?}", wide.err(), narrow.err()),
        }
    }

    fn check_emitter(&self, tolerance: f64, narrow: bool, varying: bool) {
        let (got, want) = (self.compiled_by(narrow, varying), self.interpreted());
        match (got, want) {
            (Ok(got), Ok(want)) => self.compare(&got, &want, tolerance),
            (Err(PlanError::IndexOutOfRange { index, .. }), Err(Stop::Index(_))) => {
                let _ = index;
            }
            (Err(PlanError::ZeroDivision { .. }), Err(Stop::ZeroDivision)) => {}
            (got, want) => {
                panic!("{:?} but the oracle says {:?}\n{:#?}", got.err(), want.err(), self.schedule)
            }
        }
    }

    fn compare(&self, got: &Memory, want: &Memory, tolerance: f64) {
        for (b, (g, w)) in self.schedule.buffers.iter().zip(got.iter().zip(want)) {
            if !matches!(b.kind, BufferKind::Output(_)) {
                continue;
            }
            for (i, (x, y)) in g.iter().zip(w).enumerate() {
                let same = match (x, y) {
                    (Scalar::Float(p), Scalar::Float(q)) => {
                        (p.is_nan() && q.is_nan())
                            || p.to_bits() == q.to_bits()
                            || (tolerance > 0.0
                                && (p - q).abs() <= tolerance * p.abs().max(q.abs()).max(1.0))
                    }
                    (x, y) => x == y,
                };
                assert!(
                    same,
                    "{}[{i}]: generated code gives {x:?}, the oracle {y:?}\n{:#?}",
                    b.name, self.schedule
                );
            }
        }
    }
}
