//! The generator: operators strung together at random.

use crate::ir::Op;
use crate::ir::graph::{Graph, ValueRef};
use crate::ir::promote::{Operand, result_type};
use crate::ir::{Arg, TensorMeta};
use crate::ir::{DType, Device, Dims, Scalar, layout};
use crate::schedule::tests::build::add;

pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

pub(super) struct Gen {
    pub(super) r: Rng,
    pub(super) g: Graph,
    /// Floating values.
    pub(super) pool: Vec<ValueRef>,
    /// `i64` values in `0..2`.
    pub(super) ids: Vec<ValueRef>,
    /// Integers that are results only.
    pub(super) others: Vec<ValueRef>,
}

pub(super) const SIZES: [i64; 6] = [1, 2, 3, 4, 6, 8];

impl Gen {
    /// Strides of some layout without overlap, or of a repeated one.
    pub(super) fn layout(&mut self, sizes: &[i64]) -> Dims {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        if self.r.chance(40) {
            for i in (1..order.len()).rev() {
                order.swap(i, self.r.below(i + 1));
            }
        }
        let gap = if self.r.chance(30) { 2 } else { 1 };
        let mut strides = Dims::from_elem(0, sizes.len());
        let mut next = gap;
        for d in order.into_iter().rev() {
            strides[d] = next;
            next *= sizes[d] + i64::from(gap == 2 && self.r.chance(50));
        }
        if gap == 1 && self.r.chance(10) && !sizes.is_empty() {
            let d = self.r.below(sizes.len());
            strides[d] = 0;
        }
        strides
    }

    pub(super) fn source(&mut self, dtype: DType, sizes: &[i64], strides: Dims) -> ValueRef {
        let meta = TensorMeta { dtype, sizes: sizes.into(), strides, device: Device::CPU };
        if self.r.chance(25) {
            let n = self.g.parameters().len();
            return self.g.parameter(&format!("w{n}"), meta);
        }
        let n = self.g.inputs().len();
        self.g.input(&format!("x{n}"), meta)
    }

    pub(super) fn meta(&self, v: ValueRef) -> TensorMeta {
        self.g.meta(v).clone()
    }

    pub(super) fn call(
        &mut self,
        op: &str,
        args: Vec<Arg<ValueRef>>,
        dtype: DType,
        sizes: &[i64],
    ) -> ValueRef {
        let meta = TensorMeta::contiguous(dtype, sizes);
        add(&mut self.g, op, args, meta)
    }

    pub(super) fn viewed(
        &mut self,
        op: &str,
        args: Vec<Arg<ValueRef>>,
        sizes: Vec<i64>,
        strides: Vec<i64>,
    ) -> ValueRef {
        let x = *args[0].as_tensor().expect("a tensor");
        let mut meta = self.meta(x);
        meta.sizes = sizes[..].into();
        meta.strides = strides[..].into();
        add(&mut self.g, op, args, meta)
    }

    pub(super) fn binary(&mut self, op: &str, a: ValueRef, b: ValueRef) -> Option<ValueRef> {
        let (ma, mb) = (self.meta(a), self.meta(b));
        let sizes = layout::broadcast(&ma.sizes, &mb.sizes)?;
        let dtype = result_type([
            Operand::tensor(ma.dtype, ma.sizes.len()),
            Operand::tensor(mb.dtype, mb.sizes.len()),
        ])?;
        Some(self.call(op, vec![Arg::Tensor(a), Arg::Tensor(b)], dtype, &sizes))
    }

    pub(super) fn number(&mut self, op: &str, a: ValueRef, x: f64) -> ValueRef {
        let m = self.meta(a);
        let args = vec![Arg::Tensor(a), Arg::Scalar(Scalar::Float(x))];
        self.call(op, args, m.dtype, &m.sizes)
    }

    pub(super) fn unary(&mut self, op: &str, a: ValueRef) -> ValueRef {
        let m = self.meta(a);
        self.call(op, vec![Arg::Tensor(a)], m.dtype, &m.sizes)
    }

    pub(super) fn reduce(&mut self, op: &str, x: ValueRef, dims: &[usize], keep: bool) -> ValueRef {
        let m = self.meta(x);
        let mut sizes = Vec::new();
        for (d, n) in m.sizes.iter().enumerate() {
            match dims.contains(&d) {
                true if keep => sizes.push(1),
                true => {}
                false => sizes.push(*n),
            }
        }
        let list = dims.iter().map(|d| *d as i64).collect();
        let args = vec![Arg::Tensor(x), Arg::Ints(list), Arg::Scalar(keep.into())];
        self.call(op, args, m.dtype, &sizes)
    }

    pub(super) fn step(&mut self) -> Option<ValueRef> {
        let pool = self.pool.clone();
        let x = if self.r.chance(50) { *pool.last()? } else { self.r.pick(&pool) };
        let m = self.meta(x);
        let rank = m.sizes.len();
        let name = |s: &[&'static str], r: &mut Rng| format!("aten::{}", r.pick(s));
        match self.r.below(24) {
            0..=3 => {
                let op = name(
                    &["tanh", "neg", "abs", "sigmoid", "relu", "gelu", "sin", "clone", "detach"],
                    &mut self.r,
                );
                if op == "aten::detach" {
                    let (sizes, strides) = (m.sizes.to_vec(), m.strides.to_vec());
                    return Some(self.viewed(&op, vec![Arg::Tensor(x)], sizes, strides));
                }
                Some(self.unary(&op, x))
            }
            4..=7 => {
                let y = self.r.pick(&pool);
                let op = name(&["add.Tensor", "sub.Tensor", "mul.Tensor", "maximum"], &mut self.r);
                self.binary(&op, x, y)
            }
            8 => {
                let c = self.r.pick(&[0.5, 2.0, -1.0]);
                let op = name(&["add.Tensor", "mul.Tensor", "div.Tensor"], &mut self.r);
                Some(self.number(&op, x, c))
            }
            9 | 10 if rank > 0 && m.numel() > 0 => {
                let dims: Vec<usize> = (0..rank).filter(|_| self.r.chance(50)).collect();
                let keep = self.r.chance(50);
                if dims.is_empty() {
                    return None;
                }
                let op = name(&["sum.dim_IntList", "amax", "amin", "mean.dim"], &mut self.r);
                Some(self.reduce(&op, x, &dims, keep))
            }
            11..=13 => self.some_view(x),
            14 => self.pieces(x),
            15 => self.indexed(x),
            16 if rank == 2 => {
                let (sizes, strides) =
                    (vec![m.sizes[1], m.sizes[0]], vec![m.strides[1], m.strides[0]]);
                let xt = self.viewed("aten::t", vec![Arg::Tensor(x)], sizes, strides);
                let args = vec![Arg::Tensor(x), Arg::Tensor(xt)];
                let y = self.call("aten::mm", args, m.dtype, &[m.sizes[0], m.sizes[0]]);
                if self.r.chance(40) {
                    let row: Vec<ValueRef> = pool
                        .iter()
                        .copied()
                        .filter(|v| {
                            let o = self.g.meta(*v);
                            o.sizes[..] == [m.sizes[0]] && o.dtype == m.dtype
                        })
                        .collect();
                    let mut z = y;
                    if let Some(row) = row.last() {
                        z = self.binary("aten::add.Tensor", z, *row)?;
                    }
                    let op = name(&["relu", "tanh", "gelu"], &mut self.r);
                    let z = self.unary(&op, z);
                    return self.binary("aten::add.Tensor", z, x).or(Some(z));
                }
                Some(y)
            }
            16 if rank == 3 => {
                let (sizes, strides) = (
                    vec![m.sizes[0], m.sizes[2], m.sizes[1]],
                    vec![m.strides[0], m.strides[2], m.strides[1]],
                );
                let args = vec![Arg::Tensor(x), Arg::Ints(vec![0, 2, 1])];
                let xt = self.viewed("aten::permute", args, sizes, strides);
                let args = vec![Arg::Tensor(x), Arg::Tensor(xt)];
                Some(self.call("aten::bmm", args, m.dtype, &[m.sizes[0], m.sizes[1], m.sizes[1]]))
            }
            17 | 18 if rank > 0 && m.numel() > 0 => {
                let d = if self.r.chance(70) { rank - 1 } else { self.r.below(rank) };
                let a = self.reduce("aten::amax", x, &[d], true);
                let b = self.binary("aten::sub.Tensor", x, a)?;
                if self.r.chance(50) {
                    let e = self.unary("aten::exp", b);
                    let s = self.reduce("aten::sum.dim_IntList", e, &[d], true);
                    return self.binary("aten::div.Tensor", e, s);
                }
                let sq = self.binary("aten::mul.Tensor", b, b)?;
                let v = self.reduce("aten::mean.dim", sq, &[d], true);
                let v = self.number("aten::add.Tensor", v, 0.5);
                let s = self.unary("aten::rsqrt", v);
                self.binary("aten::mul.Tensor", b, s)
            }
            19 => {
                let y = self.r.pick(&pool);
                let sizes = layout::broadcast(&m.sizes, &self.meta(y).sizes)?;
                let args = vec![Arg::Tensor(x), Arg::Tensor(y)];
                let c = self.call("aten::lt.Tensor", args, DType::Bool, &sizes);
                let dtype = DType::promote(m.dtype, self.meta(y).dtype);
                let args = vec![Arg::Tensor(c), Arg::Tensor(y), Arg::Tensor(x)];
                Some(self.call("aten::where.self", args, dtype, &sizes))
            }
            20 => match self.r.below(4) {
                0 => {
                    // one that has no loops, and no checks or effects either
                    let schema = "mine::mystery(Tensor x) -> Tensor".parse().expect("a schema");
                    Op::define(&schema, &["pure"]);
                    Some(self.unary("mine::mystery", x))
                }
                1 if rank >= 2 => {
                    let args = vec![Arg::Tensor(x), Arg::Scalar(Scalar::Int(0))];
                    Some(self.call("aten::tril", args, m.dtype, &m.sizes))
                }
                2 if rank > 0 && m.numel() > 0 => {
                    let d = vec![self.r.below(rank) as i64];
                    let mut sizes = m.sizes.clone();
                    sizes.remove(d[0] as usize);
                    let args = vec![Arg::Tensor(x), Arg::Ints(d), Arg::Scalar(false.into())];
                    let v = self.call("aten::argmax", args, DType::I64, &sizes);
                    self.others.push(v);
                    None
                }
                _ => {
                    let args = vec![Arg::Tensor(x), Arg::DType(DType::F64)];
                    Some(self.call("prims::convert_element_type", args, DType::F64, &m.sizes))
                }
            },
            21 | 22 => self.listed(x),
            23 => self.scattered(x),
            _ => None,
        }
    }

    pub(super) fn program(seed: u64) -> Graph {
        let mut g = Gen {
            r: Rng(seed),
            g: Graph::new(),
            pool: Vec::new(),
            ids: Vec::new(),
            others: Vec::new(),
        };
        let base: Vec<i64> = (0..1 + g.r.below(4)).map(|_| g.r.pick(&SIZES)).collect();
        for _ in 0..1 + g.r.below(3) {
            let from = g.r.below(base.len() + 1);
            let mut sizes = base[from..].to_vec();
            for n in &mut sizes {
                if g.r.chance(20) {
                    *n = 1;
                }
            }
            let strides = g.layout(&sizes);
            let v = g.source(DType::F32, &sizes, strides);
            g.pool.push(v);
        }
        for sizes in [&[3][..], &[2, 2]] {
            let strides = layout::contiguous_strides(sizes);
            let v = g.source(DType::I64, sizes, strides);
            g.ids.push(v);
        }
        for _ in 0..3 + g.r.below(25) {
            if let Some(v) = g.step()
                && g.g.meta(v).numel() <= 400
                && g.g.meta(v).sizes.len() <= 5
            {
                g.pool.push(v);
            }
        }
        let mut outputs = vec![*g.pool.last().expect("inputs at least")];
        for _ in 0..g.r.below(4) {
            let v = g.r.pick(&g.pool.clone());
            outputs.push(v);
        }
        outputs.extend(g.others.last());
        g.g.set_outputs(&outputs);
        g.g.eliminate_dead_code();
        g.g
    }
}
