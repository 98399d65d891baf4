//! Runs schedules element by element.

use super::eval::{Tensor, eval_op};
use crate::ir::Arg;
use crate::ir::{DType, Scalar, layout};
use crate::schedule::loops::*;
use std::collections::HashMap;

/// Memory of a buffer; `None` if nothing was written.
pub(super) type Cells = Vec<Option<Scalar>>;

fn erf(x: f64) -> f64 {
    super::eval::erf(x)
}

fn unary(op: UnaryOp, x: Scalar, dtype: DType) -> Scalar {
    use UnaryOp::*;
    let f = x.as_f64();
    let out = match op {
        IsNan => return Scalar::Bool(f.is_nan()),
        IsInf => return Scalar::Bool(f.is_infinite()),
        LogicalNot => return Scalar::Bool(!x.as_bool()),
        BitwiseNot => return Scalar::Int(!x.as_i64()).cast(dtype),
        Neg if !dtype.is_floating() => return Scalar::Int(x.as_i64().wrapping_neg()).cast(dtype),
        Abs if !dtype.is_floating() => return Scalar::Int(x.as_i64().wrapping_abs()).cast(dtype),
        Sign if !dtype.is_floating() => return Scalar::Int(x.as_i64().signum()).cast(dtype),
        Neg => -f,
        Abs => f.abs(),
        Sign => {
            if f == 0.0 || f.is_nan() {
                0.0
            } else {
                f.signum()
            }
        }
        Sqrt => f.sqrt(),
        Rsqrt => 1.0 / f.sqrt(),
        Reciprocal => 1.0 / f,
        Exp => f.exp(),
        Exp2 => f.exp2(),
        Expm1 => f.exp_m1(),
        Log => f.ln(),
        Log2 => f.log2(),
        Log10 => f.log10(),
        Log1p => f.ln_1p(),
        Sin => f.sin(),
        Cos => f.cos(),
        Tan => f.tan(),
        Asin => f.asin(),
        Acos => f.acos(),
        Atan => f.atan(),
        Sinh => f.sinh(),
        Cosh => f.cosh(),
        Asinh => f.asinh(),
        Acosh => f.acosh(),
        Atanh => f.atanh(),
        Tanh => f.tanh(),
        Sigmoid => 1.0 / (1.0 + (-f).exp()),
        Erf => erf(f),
        Erfc => 1.0 - erf(f),
        Floor => f.floor(),
        Ceil => f.ceil(),
        Round => f.round_ties_even(),
        Trunc => f.trunc(),
        Relu => {
            if f.is_nan() {
                f
            } else {
                f.max(0.0)
            }
        }
        GeluErf => 0.5 * f * (1.0 + erf(f / std::f64::consts::SQRT_2)),
        GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (f + 0.044715 * f * f * f);
            0.5 * f * (1.0 + inner.tanh())
        }
        Silu => f / (1.0 + (-f).exp()),
    };
    Scalar::Float(out).cast(dtype)
}

fn extreme(a: f64, b: f64, max: bool) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if max {
        a.max(b)
    } else {
        a.min(b)
    }
}

fn binary(op: BinaryOp, x: Scalar, y: Scalar, dtype: DType) -> Scalar {
    use BinaryOp::*;
    match op {
        LogicalAnd => return Scalar::Bool(x.as_bool() && y.as_bool()),
        LogicalOr => return Scalar::Bool(x.as_bool() || y.as_bool()),
        LogicalXor => return Scalar::Bool(x.as_bool() != y.as_bool()),
        _ => {}
    }
    if !dtype.is_floating() {
        let (a, b) = (x.as_i64(), y.as_i64());
        let out = match op {
            Add => a.wrapping_add(b),
            Sub => a.wrapping_sub(b),
            Mul => a.wrapping_mul(b),
            Maximum => a.max(b),
            Minimum => a.min(b),
            BitwiseAnd => a & b,
            BitwiseOr => a | b,
            BitwiseXor => a ^ b,
            FloorDiv => a.div_euclid(b) - i64::from(b < 0 && a.rem_euclid(b) != 0),
            TruncDiv => a / b,
            Fmod => a % b,
            Remainder => ((a % b) + b) % b,
            Pow => a.wrapping_pow(b as u32),
            Div | Atan2 | ShiftLeft | ShiftRight | LogicalAnd | LogicalOr | LogicalXor => {
                panic!("{op:?} on {dtype}")
            }
        };
        return Scalar::Int(out).cast(dtype);
    }
    let (a, b) = (x.as_f64(), y.as_f64());
    let out = match op {
        Add => a + b,
        Sub => a - b,
        Mul => a * b,
        Div => a / b,
        FloorDiv => (a / b).floor(),
        TruncDiv => (a / b).trunc(),
        Fmod => a % b,
        Remainder => a - b * (a / b).floor(),
        Pow => a.powf(b),
        Atan2 => a.atan2(b),
        Maximum => extreme(a, b, true),
        Minimum => extreme(a, b, false),
        _ => panic!("{op:?} on {dtype}"),
    };
    Scalar::Float(out).cast(dtype)
}

fn compare(op: CompareOp, x: Scalar, y: Scalar) -> bool {
    let ord = match (x, y) {
        (Scalar::Float(_), _) | (_, Scalar::Float(_)) => x.as_f64().partial_cmp(&y.as_f64()),
        _ => Some(x.as_i64().cmp(&y.as_i64())),
    };
    use std::cmp::Ordering::*;
    match op {
        CompareOp::Eq => ord == Some(Equal),
        CompareOp::Ne => ord != Some(Equal),
        CompareOp::Lt => ord == Some(Less),
        CompareOp::Le => matches!(ord, Some(Less | Equal)),
        CompareOp::Gt => ord == Some(Greater),
        CompareOp::Ge => matches!(ord, Some(Greater | Equal)),
    }
}

#[derive(Clone, Copy)]
struct Fold {
    value: Scalar,
    at: i64,
}

fn fold(op: &Op, dtype: DType, acc: Option<Fold>, x: Scalar, at: i64) -> Fold {
    let Some(acc) = acc else {
        return Fold { value: x, at };
    };
    match op {
        Op::Reduce(op, _) => {
            let value = match op {
                // folded at full precision and rounded by the carry
                ReduceOp::Sum if dtype.is_floating() => {
                    Scalar::Float(acc.value.as_f64() + x.as_f64())
                }
                ReduceOp::Prod if dtype.is_floating() => {
                    Scalar::Float(acc.value.as_f64() * x.as_f64())
                }
                ReduceOp::Sum => binary(BinaryOp::Add, acc.value, x, dtype),
                ReduceOp::Prod => binary(BinaryOp::Mul, acc.value, x, dtype),
                ReduceOp::Max if dtype == DType::Bool => {
                    binary(BinaryOp::LogicalOr, acc.value, x, dtype)
                }
                ReduceOp::Min if dtype == DType::Bool => {
                    binary(BinaryOp::LogicalAnd, acc.value, x, dtype)
                }
                ReduceOp::Max => binary(BinaryOp::Maximum, acc.value, x, dtype),
                ReduceOp::Min => binary(BinaryOp::Minimum, acc.value, x, dtype),
                ReduceOp::Any => binary(BinaryOp::LogicalOr, acc.value, x, dtype),
                ReduceOp::All => binary(BinaryOp::LogicalAnd, acc.value, x, dtype),
            };
            Fold { value, at: acc.at }
        }
        Op::ArgReduce { max, .. } => {
            let (a, b) = (acc.value.as_f64(), x.as_f64());
            let better = match (a.is_nan(), b.is_nan()) {
                (true, _) => false,
                (false, true) => true,
                _ if *max => b > a,
                _ => b < a,
            };
            if better { Fold { value: x, at } } else { acc }
        }
        _ => panic!("no fold"),
    }
}

/// Visits every point of a loop nest, backwards if asked.
fn points(axes: &[Axis], backwards: bool, mut f: impl FnMut(&[(AxisId, i64)], i64)) {
    let total: i64 = axes.iter().map(|a| a.extent).product();
    for k in 0..total {
        let linear = if backwards { total - 1 - k } else { k };
        let mut at = Vec::with_capacity(axes.len());
        let mut rest = linear;
        for a in axes.iter().rev() {
            at.push((a.id, rest % a.extent));
            rest /= a.extent;
        }
        f(&at, linear);
    }
}

struct Machine<'a> {
    buffers: &'a mut Vec<Cells>,
    schedule: &'a Schedule,
}

impl Machine<'_> {
    fn kernel(&mut self, k: &Kernel, backwards: bool) {
        let mut grid_points = Vec::new();
        points(&k.grid, backwards, |at, _| grid_points.push(at.to_vec()));
        for grid in grid_points {
            let mut rows: Vec<Cells> =
                k.scratch.iter().map(|s| vec![None; s.len as usize]).collect();
            let mut carried: HashMap<(u32, u32), Scalar> = HashMap::new();
            for (n, stage) in k.stages.iter().enumerate() {
                let mut folds: HashMap<usize, Fold> = HashMap::new();
                let mut sweep = Vec::new();
                points(&stage.axes, false, |at, linear| sweep.push((at.to_vec(), linear)));
                for (row, linear) in sweep {
                    let mut axes: HashMap<AxisId, i64> = grid.iter().copied().collect();
                    axes.extend(row);
                    let mut vals: Vec<Scalar> = Vec::new();
                    for (i, inst) in stage.body.iter().enumerate() {
                        let v = |v: &Val| vals[v.0 as usize];
                        let address = |index: &Index| {
                            let mut at = index.base;
                            for (a, s) in &index.terms {
                                at += axes[a] * s;
                            }
                            for (d, s) in &index.dynamic {
                                at += vals[d.0 as usize].as_i64() * s;
                            }
                            at as usize
                        };
                        let out = match &inst.op {
                            Op::Load { mem, index } => {
                                let at = address(index);
                                let cell = match mem {
                                    Mem::Buffer(b) => self.buffers[b.0 as usize][at],
                                    Mem::Scratch(r) => rows[*r as usize][at],
                                };
                                cell.unwrap_or_else(|| {
                                    panic!("{mem}[{at}] was never written\n{}", self.schedule)
                                })
                            }
                            Op::Const(c) => c.cast(inst.dtype),
                            Op::AxisIndex(a) => Scalar::Int(axes[a]),
                            Op::Cast(a) => v(a).cast(inst.dtype),
                            Op::Unary(op, a) => unary(*op, v(a), inst.dtype),
                            Op::Binary(op, a, b) => binary(*op, v(a), v(b), inst.dtype),
                            Op::Fma(a, b, c) => {
                                let x = v(a).as_f64() * v(b).as_f64() + v(c).as_f64();
                                Scalar::Float(x).cast(inst.dtype)
                            }
                            Op::Compare(op, a, b) => Scalar::Bool(compare(*op, v(a), v(b))),
                            Op::Select(c, a, b) => {
                                if v(c).as_bool() {
                                    v(a)
                                } else {
                                    v(b)
                                }
                            }
                            Op::CheckIndex { index, size, wrap } => {
                                let x = v(index).as_i64();
                                let least = if *wrap { -size } else { 0 };
                                assert!((least..*size).contains(&x), "index {x} of {size}");
                                Scalar::Int(if x < 0 { x + size } else { x })
                            }
                            Op::Reduce(_, a) | Op::ArgReduce { value: a, .. } => {
                                let acc = folds.get(&i).copied();
                                let next = fold(&inst.op, inst.dtype, acc, v(a), linear);
                                folds.insert(i, next);
                                Scalar::Int(0)
                            }
                            Op::Carry { stage, value } => carried[&(*stage, value.0)],
                            Op::Store { mem, index, value } => {
                                let (at, x) = (address(index), v(value));
                                match mem {
                                    Mem::Buffer(b) => self.buffers[b.0 as usize][at] = Some(x),
                                    Mem::Scratch(r) => rows[*r as usize][at] = Some(x),
                                }
                                x
                            }
                            Op::Update { op, mem, index, value } => {
                                let (at, x) = (address(index), v(value));
                                let cell = match mem {
                                    Mem::Buffer(b) => &mut self.buffers[b.0 as usize][at],
                                    Mem::Scratch(r) => &mut rows[*r as usize][at],
                                };
                                let old = cell.unwrap_or_else(|| {
                                    panic!("{mem}[{at}] was never written\n{}", self.schedule)
                                });
                                let op = match op {
                                    ReduceOp::Sum => BinaryOp::Add,
                                    ReduceOp::Prod => BinaryOp::Mul,
                                    ReduceOp::Max => BinaryOp::Maximum,
                                    _ => BinaryOp::Minimum,
                                };
                                *cell = Some(binary(op, old, x, inst.dtype));
                                x
                            }
                        };
                        vals.push(out);
                    }
                }
                for (i, f) in folds {
                    let inst = &stage.body[i];
                    let x = match inst.op {
                        Op::ArgReduce { .. } => Scalar::Int(f.at),
                        _ => f.value.cast(inst.dtype),
                    };
                    carried.insert((n as u32, i as u32), x);
                }
            }
        }
    }

    fn read(&self, v: &BufferView) -> Tensor {
        Tensor::from_fn(v.dtype, &v.sizes, |at| {
            let i = v.offset + at.iter().zip(&v.strides).map(|(a, s)| a * s).sum::<i64>();
            self.buffers[v.buffer.0 as usize][i as usize]
                .unwrap_or_else(|| panic!("{v} was never written\n{}", self.schedule))
        })
    }

    fn write(&mut self, v: &BufferView, t: &Tensor) {
        assert_eq!(v.sizes[..], t.sizes[..]);
        let cells = &mut self.buffers[v.buffer.0 as usize];
        t.each(|at, x| {
            let i = v.offset + at.iter().zip(&v.strides).map(|(a, s)| a * s).sum::<i64>();
            cells[i as usize] = Some(x);
        });
    }

    fn product(&mut self, m: &Matmul) {
        let op = if m.a.sizes.len() == 2 { "aten::mm" } else { "aten::bmm" };
        let args = [Arg::Tensor(self.read(&m.a)), Arg::Tensor(self.read(&m.b))];
        let mut out = eval_op(op, &args, m.out.dtype, &m.out.sizes).remove(0);
        let n = *m.out.sizes.last().expect("rank 2 or 3") as usize;
        if let Some(bias) = &m.bias {
            let bias = self.read(bias);
            for (i, x) in out.data.iter_mut().enumerate() {
                *x = binary(BinaryOp::Add, *x, bias.data[i % n], out.dtype);
            }
        }
        activate(m.activation, &mut out);
        if let Some(r) = &m.residual {
            let r = self.read(r);
            for (x, r) in out.data.iter_mut().zip(r.data) {
                *x = binary(BinaryOp::Add, *x, r, out.dtype);
            }
        }
        self.write(&m.out, &out);
    }

    fn convolution(&mut self, c: &Convolution) {
        let list = |dims: &[i64]| Arg::Ints(dims.to_vec());
        let args = [
            Arg::Tensor(self.read(&c.input)),
            Arg::Tensor(self.read(&c.weight)),
            c.bias.as_ref().map_or(Arg::None, |b| Arg::Tensor(self.read(b))),
            list(&c.stride),
            list(&c.padding),
            list(&c.dilation),
        ];
        let mut out = eval_op("aten::convolution", &args, c.out.dtype, &c.out.sizes).remove(0);
        let (channels, plane) = (c.out.sizes[1], layout::numel(&c.out.sizes[2..]));
        for follow in &c.follow {
            let other = follow.operand().map(|v| self.read(v).data);
            let (op, channel) = match follow {
                Follow::Activation(a) => {
                    activate(*a, &mut out);
                    continue;
                }
                Follow::Scale(_) => (BinaryOp::Mul, true),
                Follow::Shift(_) => (BinaryOp::Add, true),
                Follow::Add(_) => (BinaryOp::Add, false),
            };
            let other = other.expect("an operand");
            for (i, x) in out.data.iter_mut().enumerate() {
                let at = if channel { i as i64 / plane % channels } else { i as i64 };
                *x = binary(op, *x, other[at as usize], out.dtype);
            }
        }
        self.write(&c.out, &out);
    }
}

fn activate(activation: Activation, out: &mut Tensor) {
    let op = match activation {
        Activation::None => return,
        Activation::Relu => UnaryOp::Relu,
        Activation::GeluErf => UnaryOp::GeluErf,
        Activation::GeluTanh => UnaryOp::GeluTanh,
        Activation::Silu => UnaryOp::Silu,
        Activation::Tanh => UnaryOp::Tanh,
        Activation::Sigmoid => UnaryOp::Sigmoid,
    };
    for x in &mut out.data {
        *x = unary(op, *x, out.dtype);
    }
}

fn decode(bytes: &[u8], dtype: DType) -> Cells {
    bytes
        .chunks(dtype.size())
        .map(|c| {
            let mut wide = [0u8; 8];
            wide[..c.len()].copy_from_slice(c);
            let bits = u64::from_le_bytes(wide);
            Some(match dtype {
                DType::F32 => Scalar::Float(f64::from(f32::from_bits(bits as u32))),
                DType::F64 => Scalar::Float(f64::from_bits(bits)),
                DType::Bool => Scalar::Bool(bits != 0),
                DType::I64 => Scalar::Int(bits as i64),
                other => panic!("constant of {other}"),
            })
        })
        .collect()
}

/// Runs the schedule on the memory of inputs and parameters; returns the results.
pub(super) fn run(
    s: &Schedule,
    inputs: &[Cells],
    parameters: &[Cells],
    backwards: bool,
) -> Vec<Tensor> {
    let mut buffers: Vec<Cells> = s
        .buffers
        .iter()
        .map(|b| match &b.kind {
            BufferKind::Input(i) => inputs[*i as usize].clone(),
            BufferKind::Parameter(i) => parameters[*i as usize].clone(),
            BufferKind::Constant(bytes) => decode(bytes, b.dtype),
            BufferKind::Output(_) | BufferKind::Arena { .. } | BufferKind::Within { .. } => {
                vec![None; b.len]
            }
        })
        .collect();
    let mut m = Machine { buffers: &mut buffers, schedule: s };
    for step in &s.steps {
        match step {
            Step::Kernel(k) => m.kernel(k, backwards),
            Step::Extern(Extern::Matmul(p)) => m.product(p),
            Step::Extern(Extern::Convolution(c)) => m.convolution(c),
            Step::Extern(Extern::Op { op, args, inputs, outputs, .. }) => {
                let args: Vec<Arg<Tensor>> =
                    args.iter().map(|a| a.map(|i| m.read(&inputs[*i as usize]))).collect();
                let out = &outputs[0];
                let results = eval_op(op.name(), &args, out.dtype, &out.sizes);
                for (v, t) in outputs.iter().zip(&results) {
                    m.write(v, t);
                }
            }
        }
    }
    s.outputs
        .iter()
        .map(|o| {
            let (cells, meta, offset) = match o {
                OutputBinding::Fresh { index, meta } => {
                    let b = s
                        .buffers
                        .iter()
                        .position(|b| b.kind == BufferKind::Output(*index))
                        .expect("an output buffer");
                    (&buffers[b], meta, 0)
                }
                OutputBinding::View { of, meta, offset } => match of {
                    ViewSource::Input(i) => (&inputs[*i as usize], meta, *offset),
                    ViewSource::Parameter(i) => (&parameters[*i as usize], meta, *offset),
                    ViewSource::Output(i) => {
                        let b = s
                            .buffers
                            .iter()
                            .position(|b| b.kind == BufferKind::Output(*i))
                            .expect("an output buffer");
                        (&buffers[b], meta, *offset)
                    }
                },
            };
            Tensor::from_fn(meta.dtype, &meta.sizes, |at| {
                let i = offset + at.iter().zip(&meta.strides).map(|(a, s)| a * s).sum::<i64>();
                cells[i as usize].unwrap_or_else(|| panic!("result never written: {o}\n{s}"))
            })
        })
        .collect()
}
