//! Random graphs: schedules compute what node-by-node evaluation computes.

use super::eval::{Tensor, eval};
use super::interp::{Cells, run};
use crate::ir::graph::{Arg, Graph, TensorMeta, ValueRef};
use crate::ir::promote::{Operand, result_type};
use crate::ir::{DType, Device, Dims, Scalar, layout};
use crate::schedule::layout::view_strides;
use crate::schedule::{ScheduleOptions, schedule, verify_schedule};

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

struct Gen {
    r: Rng,
    g: Graph,
    /// Floating values.
    pool: Vec<ValueRef>,
    /// `i64` values in `0..2`.
    ids: Vec<ValueRef>,
    /// Integers that are results only.
    others: Vec<ValueRef>,
}

const SIZES: [i64; 6] = [1, 2, 3, 4, 6, 8];

impl Gen {
    /// Strides of some layout without overlap, or of a repeated one.
    fn layout(&mut self, sizes: &[i64]) -> Dims {
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

    fn source(&mut self, dtype: DType, sizes: &[i64], strides: Dims) -> ValueRef {
        let meta = TensorMeta {
            dtype,
            sizes: sizes.into(),
            strides,
            device: Device::CPU,
        };
        if self.r.chance(25) {
            let n = self.g.parameters().len();
            return self.g.parameter(&format!("w{n}"), meta);
        }
        let n = self.g.inputs().len();
        self.g.input(&format!("x{n}"), meta)
    }

    fn meta(&self, v: ValueRef) -> TensorMeta {
        self.g.meta(v).clone()
    }

    fn call(
        &mut self,
        op: &str,
        args: Vec<Arg<ValueRef>>,
        dtype: DType,
        sizes: &[i64],
    ) -> ValueRef {
        let meta = TensorMeta::contiguous(dtype, sizes);
        self.g.call(op, &[], args, vec![meta])
    }

    fn viewed(
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
        self.g.call(op, &[], args, vec![meta])
    }

    fn binary(&mut self, op: &str, a: ValueRef, b: ValueRef) -> Option<ValueRef> {
        let (ma, mb) = (self.meta(a), self.meta(b));
        let sizes = layout::broadcast(&ma.sizes, &mb.sizes)?;
        let dtype = result_type([
            Operand::tensor(ma.dtype, ma.sizes.len()),
            Operand::tensor(mb.dtype, mb.sizes.len()),
        ])?;
        Some(self.call(op, vec![Arg::Tensor(a), Arg::Tensor(b)], dtype, &sizes))
    }

    fn number(&mut self, op: &str, a: ValueRef, x: f64) -> ValueRef {
        let m = self.meta(a);
        let args = vec![Arg::Tensor(a), Arg::Scalar(Scalar::Float(x))];
        self.call(op, args, m.dtype, &m.sizes)
    }

    fn unary(&mut self, op: &str, a: ValueRef) -> ValueRef {
        let m = self.meta(a);
        self.call(op, vec![Arg::Tensor(a)], m.dtype, &m.sizes)
    }

    fn reduce(&mut self, op: &str, x: ValueRef, dims: &[usize], keep: bool) -> ValueRef {
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

    fn some_view(&mut self, x: ValueRef) -> Option<ValueRef> {
        let m = self.meta(x);
        let rank = m.sizes.len();
        let (mut sizes, mut strides) = (m.sizes.to_vec(), m.strides.to_vec());
        let int = |i: usize| Arg::Scalar(Scalar::Int(i as i64));
        match self.r.below(7) {
            0 if rank > 1 => {
                let mut dims: Vec<usize> = (0..rank).collect();
                for i in (1..rank).rev() {
                    dims.swap(i, self.r.below(i + 1));
                }
                let sizes = dims.iter().map(|d| m.sizes[*d]).collect();
                let strides = dims.iter().map(|d| m.strides[*d]).collect();
                let list = Arg::Ints(dims.iter().map(|d| *d as i64).collect());
                Some(self.viewed("aten::permute", vec![Arg::Tensor(x), list], sizes, strides))
            }
            1 if rank > 0 => {
                let d = self.r.below(rank);
                let n = sizes[d] as usize;
                let start = self.r.below(n + 1).min(n);
                let end = start + self.r.below(n - start + 1);
                if start == end && !self.r.chance(10) {
                    return None;
                }
                let step = 1 + self.r.below(2);
                sizes[d] = (end - start).div_ceil(step) as i64;
                strides[d] *= step as i64;
                let args = vec![Arg::Tensor(x), int(d), int(start), int(end), int(step)];
                Some(self.viewed("aten::slice.Tensor", args, sizes, strides))
            }
            2 if rank > 0 => {
                let d = self.r.below(rank);
                if sizes[d] == 0 {
                    return None;
                }
                let i = self.r.below(sizes[d] as usize);
                sizes.remove(d);
                strides.remove(d);
                let args = vec![Arg::Tensor(x), int(d), int(i)];
                Some(self.viewed("aten::select.int", args, sizes, strides))
            }
            3 if rank < 4 => {
                let d = self.r.below(rank + 1);
                sizes.insert(d, 1);
                strides.insert(d, 1);
                Some(self.viewed(
                    "aten::unsqueeze",
                    vec![Arg::Tensor(x), int(d)],
                    sizes,
                    strides,
                ))
            }
            4 if rank < 4 => {
                let n = self.r.pick(&SIZES);
                for (n, s) in sizes.iter_mut().zip(&mut strides) {
                    if *n == 1 && self.r.chance(50) {
                        *n = self.r.pick(&SIZES);
                        *s = 0;
                    }
                }
                sizes.insert(0, n);
                strides.insert(0, 0);
                let list = Arg::Ints(sizes.clone());
                Some(self.viewed("aten::expand", vec![Arg::Tensor(x), list], sizes, strides))
            }
            _ => {
                let mut rest = m.numel();
                if rest == 0 {
                    return None;
                }
                let mut target = Vec::new();
                while rest > 1 && target.len() < 3 {
                    let f: Vec<i64> = (2..=rest).filter(|f| rest % f == 0).collect();
                    let f = self.r.pick(&f);
                    target.push(f);
                    rest /= f;
                }
                target.push(rest);
                if self.r.chance(50) {
                    target.reverse();
                }
                let args = vec![Arg::Tensor(x), Arg::Ints(target.clone())];
                Some(match view_strides(&m.sizes, &m.strides, &target) {
                    Some(s) => self.viewed("aten::view", args, target, s.to_vec()),
                    None => self.call("aten::reshape", args, m.dtype, &target),
                })
            }
        }
    }

    fn pieces(&mut self, x: ValueRef) -> Option<ValueRef> {
        let m = self.meta(x);
        let rank = m.sizes.len();
        if rank == 0 {
            return None;
        }
        let int = |i: usize| Arg::Scalar(Scalar::Int(i as i64));
        let d = self.r.below(rank);
        match self.r.below(4) {
            0 => {
                let fits: Vec<ValueRef> = self
                    .pool
                    .iter()
                    .copied()
                    .filter(|v| {
                        let o = self.g.meta(*v);
                        o.dtype == m.dtype
                            && o.sizes.len() == rank
                            && (0..rank).all(|k| k == d || o.sizes[k] == m.sizes[k])
                    })
                    .collect();
                let mut list = vec![Some(x)];
                for _ in 0..self.r.below(3) {
                    list.push(Some(self.r.pick(&fits)));
                }
                let mut sizes = m.sizes.clone();
                sizes[d] = list
                    .iter()
                    .flatten()
                    .map(|v| self.g.meta(*v).sizes[d])
                    .sum();
                Some(self.call(
                    "aten::cat",
                    vec![Arg::Tensors(list), int(d)],
                    m.dtype,
                    &sizes,
                ))
            }
            1 => {
                let n = m.sizes[d] as usize;
                let start = self.r.below(n + 1);
                let end = start + self.r.below(n - start + 1);
                let step = 1 + self.r.below(2);
                let mut sizes = m.sizes.to_vec();
                sizes[d] = (end - start).div_ceil(step) as i64;
                let fill = self.r.pick(&[0.5, 2.0]);
                let args = vec![Arg::Ints(sizes.clone()), Arg::Scalar(Scalar::Float(fill))];
                let mut src = self.call("aten::full", args, m.dtype, &sizes);
                if self.r.chance(70) && end > start {
                    let args = vec![Arg::Tensor(x), int(d), int(start), int(end), int(step)];
                    let mut strides = m.strides.to_vec();
                    strides[d] *= step as i64;
                    let part = self.viewed("aten::slice.Tensor", args, sizes, strides);
                    src = self.unary("aten::tanh", part);
                }
                let args = vec![
                    Arg::Tensor(x),
                    Arg::Tensor(src),
                    int(d),
                    int(start),
                    int(end),
                    int(step),
                ];
                Some(self.call("aten::slice_scatter", args, m.dtype, &m.sizes))
            }
            2 if m.sizes[d] > 0 => {
                let i = self.r.below(m.sizes[d] as usize);
                let (mut sizes, mut strides) = (m.sizes.to_vec(), m.strides.to_vec());
                sizes.remove(d);
                strides.remove(d);
                let j = self.r.below(m.sizes[d] as usize);
                let args = vec![Arg::Tensor(x), int(d), int(j)];
                let part = self.viewed("aten::select.int", args, sizes, strides);
                let src = self.unary("aten::neg", part);
                let args = vec![Arg::Tensor(x), Arg::Tensor(src), int(d), int(i)];
                Some(self.call("aten::select_scatter", args, m.dtype, &m.sizes))
            }
            _ => {
                let mut pad = Vec::new();
                let mut sizes = m.sizes.clone();
                for i in 0..1 + self.r.below(rank) {
                    let n = &mut sizes[rank - 1 - i];
                    let lo = self.r.below(3) as i64;
                    let hi = self.r.below(4) as i64 - 1;
                    let hi = if *n < 2 { 1 } else { hi };
                    *n += lo + hi;
                    pad.extend([lo, hi]);
                }
                let args = vec![
                    Arg::Tensor(x),
                    Arg::Ints(pad),
                    Arg::Scalar(Scalar::Float(1.5)),
                ];
                Some(self.call("aten::constant_pad_nd", args, m.dtype, &sizes))
            }
        }
    }

    fn indexed(&mut self, x: ValueRef) -> Option<ValueRef> {
        let m = self.meta(x);
        let rank = m.sizes.len();
        let ids = self.r.pick(&self.ids.clone());
        let im = self.meta(ids);
        let fits: Vec<usize> = (0..rank).filter(|d| m.sizes[*d] >= 2).collect();
        if fits.is_empty() {
            return None;
        }
        let d = self.r.pick(&fits);
        let int = Arg::Scalar(Scalar::Int(d as i64));
        if rank == 2 && d == 0 && im.sizes.len() < 3 {
            let mut sizes = im.sizes.to_vec();
            sizes.push(m.sizes[1]);
            let args = vec![Arg::Tensor(x), Arg::Tensor(ids)];
            return Some(self.call("aten::embedding", args, m.dtype, &sizes));
        }
        if im.sizes.len() == 1 {
            let mut sizes = m.sizes.clone();
            sizes[d] = im.sizes[0];
            let args = vec![Arg::Tensor(x), int, Arg::Tensor(ids)];
            return Some(self.call("aten::index_select", args, m.dtype, &sizes));
        }
        let inside =
            im.sizes.len() == rank && (0..rank).all(|k| k == d || im.sizes[k] <= m.sizes[k]);
        inside.then(|| {
            let args = vec![Arg::Tensor(x), int, Arg::Tensor(ids)];
            self.call("aten::gather", args, m.dtype, &im.sizes)
        })
    }

    fn step(&mut self) -> Option<ValueRef> {
        let pool = self.pool.clone();
        let x = if self.r.chance(50) {
            *pool.last()?
        } else {
            self.r.pick(&pool)
        };
        let m = self.meta(x);
        let rank = m.sizes.len();
        let name = |s: &[&'static str], r: &mut Rng| format!("aten::{}", r.pick(s));
        match self.r.below(22) {
            0..=3 => {
                let op = name(
                    &[
                        "tanh", "neg", "abs", "sigmoid", "relu", "gelu", "sin", "clone", "detach",
                    ],
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
                let op = name(
                    &["add.Tensor", "sub.Tensor", "mul.Tensor", "maximum"],
                    &mut self.r,
                );
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
                let op = name(
                    &["sum.dim_IntList", "amax", "amin", "mean.dim"],
                    &mut self.r,
                );
                Some(self.reduce(&op, x, &dims, keep))
            }
            11..=13 => self.some_view(x),
            14 => self.pieces(x),
            15 => self.indexed(x),
            16 if rank == 2 => {
                let (sizes, strides) = (
                    vec![m.sizes[1], m.sizes[0]],
                    vec![m.strides[1], m.strides[0]],
                );
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
                Some(self.call(
                    "aten::bmm",
                    args,
                    m.dtype,
                    &[m.sizes[0], m.sizes[1], m.sizes[1]],
                ))
            }
            17 | 18 if rank > 0 && m.numel() > 0 => {
                let d = if self.r.chance(70) {
                    rank - 1
                } else {
                    self.r.below(rank)
                };
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
                0 => Some(self.unary("aten::mystery", x)),
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
            _ => None,
        }
    }

    fn program(seed: u64) -> Graph {
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

/// Elements and the strided memory that holds them.
fn fill(meta: &TensorMeta, r: &mut Rng) -> (Tensor, Cells) {
    let extent = layout::storage_extent(&meta.sizes, &meta.strides, 0);
    let mut cells: Cells = vec![None; extent as usize];
    let tensor = Tensor::from_fn(meta.dtype, &meta.sizes, |at| {
        let i: i64 = at.iter().zip(&meta.strides).map(|(a, s)| a * s).sum();
        *cells[i as usize].get_or_insert_with(|| match meta.dtype {
            DType::I64 => Scalar::Int(r.below(2) as i64),
            _ => Scalar::Float(r.below(33) as f64 / 8.0 - 2.0),
        })
    });
    (tensor, cells)
}

fn describe(g: &Graph) -> String {
    let mut out = String::new();
    for id in g.topological() {
        let label = crate::schedule::node_label(g, id);
        let metas: Vec<String> = g
            .node(id)
            .results
            .iter()
            .map(|m| format!("{}{:?}:{:?}", m.dtype, &m.sizes[..], &m.strides[..]))
            .collect();
        let args = g.call_args(id).map(|(_, a)| {
            let a: Vec<Arg<usize>> = a.iter().map(|a| a.map(|v| v.node.index())).collect();
            format!("{a:?}")
        });
        out += &format!(
            "{} {} {label} {}\n",
            id.index(),
            metas.join(" "),
            args.unwrap_or_default()
        );
    }
    let outputs: Vec<usize> = g.outputs().iter().map(|v| v.node.index()).collect();
    out + &format!("return {outputs:?}\n")
}

fn same(a: Scalar, b: Scalar) -> bool {
    let (a, b) = (a.as_f64(), b.as_f64());
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-4 * (1.0 + a.abs().max(b.abs()))
}

fn check(seed: u64, options: &ScheduleOptions) {
    let g = Gen::program(seed);
    let plan = match schedule(&g, options) {
        Ok(plan) => plan,
        Err(e) => panic!("seed {seed}: {e}\n{}", describe(&g)),
    };
    if let Err(e) = verify_schedule(&plan) {
        panic!("seed {seed}: {e}\n{}\n{plan}", describe(&g));
    }
    let mut r = Rng(seed ^ 0xABCD);
    let mut make = |ids: &[crate::ir::graph::NodeId]| -> (Vec<Tensor>, Vec<Cells>) {
        ids.iter()
            .map(|n| fill(&g.node(*n).results[0], &mut r))
            .unzip()
    };
    let (inputs, input_cells) = make(g.inputs());
    let (parameters, parameter_cells) = make(g.parameters());
    let want = eval(&g, &inputs, &parameters);
    for backwards in [false, true] {
        let got = run(&plan, &input_cells, &parameter_cells, backwards);
        assert_eq!(got.len(), want.len());
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            assert_eq!(
                (got.dtype, &got.sizes),
                (want.dtype, &want.sizes),
                "seed {seed} result {i}"
            );
            for (k, (a, b)) in got.data.iter().zip(&want.data).enumerate() {
                assert!(
                    same(*a, *b),
                    "seed {seed}, result {i}, element {k}: got {a}, want {b}\n{}\n{plan}",
                    describe(&g)
                );
            }
        }
    }
}

#[test]
fn schedules_compute_what_the_graph_says() {
    let cases = std::env::var("SCHEDULE_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    for seed in 0..cases.unwrap_or(400) {
        check(seed, &ScheduleOptions::default());
    }
}

#[test]
fn small_kernels_compute_the_same() {
    let options = ScheduleOptions {
        max_kernel_ops: 3,
        merge_siblings: false,
        fold_epilogues: false,
    };
    for seed in 1000..1100 {
        check(seed, &options);
    }
}
