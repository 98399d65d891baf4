//! A scalar interpreter of the loop IR: the oracle that generated code is held against.
//!
//! It follows the definitions one element at a time and knows nothing of vectors, addresses or
//! registers.

use crate::cpu::math::{Fn1, Fn2, Scalar32, Scalar64};
use half::{bf16, f16};
use std::collections::HashMap;
use straightline_passes::ir::{DType, Scalar};
use straightline_passes::schedule::loops::*;

/// Memory: each buffer as one number per element.
pub(super) type Memory = Vec<Vec<Scalar>>;

/// Why a run stopped.
#[derive(Debug, PartialEq)]
pub(super) enum Stop {
    Index(i64),
    ZeroDivision,
}

/// The bytes of numbers of a dtype.
pub(super) fn to_bytes(values: &[Scalar], dtype: DType) -> Vec<u8> {
    let mut out = Vec::new();
    for v in values {
        match dtype {
            DType::U8 => out.extend((v.as_i64() as u8).to_le_bytes()),
            DType::I8 => out.extend((v.as_i64() as i8).to_le_bytes()),
            DType::I16 => out.extend((v.as_i64() as i16).to_le_bytes()),
            DType::I32 => out.extend((v.as_i64() as i32).to_le_bytes()),
            DType::I64 => out.extend(v.as_i64().to_le_bytes()),
            DType::F16 => out.extend(f16::from_f32(v.as_f64() as f32).to_le_bytes()),
            DType::BF16 => out.extend(bf16::from_f32(v.as_f64() as f32).to_le_bytes()),
            DType::F32 => out.extend((v.as_f64() as f32).to_le_bytes()),
            DType::F64 => out.extend(v.as_f64().to_le_bytes()),
            DType::Bool => out.push(u8::from(v.as_bool())),
            DType::C64 | DType::C128 | DType::QInt8 | DType::QUInt8 | DType::QInt32 => {
                unreachable!("plain tensors are not quantized")
            }
        }
    }
    out
}

/// The numbers in bytes of a dtype.
pub(super) fn from_bytes(bytes: &[u8], dtype: DType) -> Vec<Scalar> {
    fn arr<const N: usize>(c: &[u8]) -> [u8; N] {
        c.try_into().expect("chunk size")
    }
    bytes
        .chunks_exact(dtype.size())
        .map(|c| match dtype {
            DType::U8 => Scalar::Int(c[0].into()),
            DType::I8 => Scalar::Int((c[0] as i8).into()),
            DType::I16 => Scalar::Int(i16::from_le_bytes(arr(c)).into()),
            DType::I32 => Scalar::Int(i32::from_le_bytes(arr(c)).into()),
            DType::I64 => Scalar::Int(i64::from_le_bytes(arr(c))),
            DType::F16 => Scalar::Float(f16::from_le_bytes(arr(c)).to_f64()),
            DType::BF16 => Scalar::Float(bf16::from_le_bytes(arr(c)).to_f64()),
            DType::F32 => Scalar::Float(f32::from_le_bytes(arr(c)).into()),
            DType::F64 => Scalar::Float(f64::from_le_bytes(arr(c))),
            DType::Bool => Scalar::Bool(c[0] != 0),
            DType::C64 | DType::C128 | DType::QInt8 | DType::QUInt8 | DType::QInt32 => {
                unreachable!("plain tensors are not quantized")
            }
        })
        .collect()
}

/// Runs the kernels of a schedule.
pub(super) fn run(schedule: &Schedule, memory: &mut Memory) -> Result<(), Stop> {
    for kernel in schedule.kernels() {
        Interp {
            kernel,
            memory,
            axes: HashMap::new(),
            carries: HashMap::new(),
            scratch: Vec::new(),
        }
        .kernel()?;
    }
    Ok(())
}

struct Interp<'k, 'm> {
    kernel: &'k Kernel,
    memory: &'m mut Memory,
    axes: HashMap<AxisId, i64>,
    carries: HashMap<(u32, u32), Scalar>,
    scratch: Vec<Vec<Scalar>>,
}

struct Acc {
    value: Scalar,
    position: i64,
    taken: bool,
}

impl Interp<'_, '_> {
    fn kernel(&mut self) -> Result<(), Stop> {
        let grid: Vec<Axis> = self.kernel.grid.to_vec();
        self.walk(&grid, &mut |i| {
            i.scratch =
                i.kernel.scratch.iter().map(|s| vec![Scalar::Int(0); s.len as usize]).collect();
            i.carries.clear();
            (0..i.kernel.stages.len()).try_for_each(|s| i.stage(s))
        })
    }

    fn walk(
        &mut self,
        axes: &[Axis],
        f: &mut dyn FnMut(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let Some((a, rest)) = axes.split_first() else {
            return f(self);
        };
        for i in 0..a.extent {
            self.axes.insert(a.id, i);
            self.walk(rest, f)?;
        }
        Ok(())
    }

    fn stage(&mut self, s: usize) -> Result<(), Stop> {
        let stage = &self.kernel.stages[s];
        let mut accs: HashMap<usize, Acc> = HashMap::new();
        for (i, inst) in stage.body.iter().enumerate() {
            if let Op::Reduce(op, _) = inst.op {
                let value = match op {
                    ReduceOp::Sum | ReduceOp::Any => Scalar::Int(0).cast(inst.dtype),
                    ReduceOp::Prod | ReduceOp::All => Scalar::Int(1).cast(inst.dtype),
                    ReduceOp::Max => limit(inst.dtype, false),
                    ReduceOp::Min => limit(inst.dtype, true),
                };
                let acc = Acc { value, position: 0, taken: true };
                accs.insert(i, acc);
            } else if let Op::ArgReduce { .. } = inst.op {
                let acc = Acc { value: Scalar::Int(0), position: 0, taken: false };
                accs.insert(i, acc);
            }
        }
        let axes: Vec<Axis> = stage.axes.to_vec();
        let mut position = 0;
        self.walk(&axes, &mut |me| {
            me.body(s, position, &mut accs)?;
            position += 1;
            Ok(())
        })?;
        for (i, acc) in accs {
            let inst = &stage.body[i];
            let v = match inst.op {
                Op::ArgReduce { .. } => Scalar::Int(acc.position),
                _ => acc.value.cast(inst.dtype),
            };
            self.carries.insert((s as u32, i as u32), v);
        }
        Ok(())
    }

    fn at(&self, index: &Index, values: &[Scalar]) -> usize {
        let affine: i64 = index.terms.iter().map(|(a, s)| self.axes[a] * s).sum();
        let dynamic: i64 =
            index.dynamic.iter().map(|(v, s)| values[v.0 as usize].as_i64() * s).sum();
        usize::try_from(index.base + affine + dynamic).expect("in range")
    }

    fn body(
        &mut self,
        s: usize,
        position: i64,
        accs: &mut HashMap<usize, Acc>,
    ) -> Result<(), Stop> {
        let body = &self.kernel.stages[s].body;
        let mut values: Vec<Scalar> = Vec::new();
        for (i, inst) in body.iter().enumerate() {
            let get = |v: Val| values[v.0 as usize];
            let of = |v: Val| body[v.0 as usize].dtype;
            let d = inst.dtype;
            let r = match &inst.op {
                Op::Load { mem, index } => {
                    let at = self.at(index, &values);
                    match mem {
                        Mem::Buffer(b) => self.memory[b.0 as usize][at],
                        Mem::Scratch(r) => self.scratch[*r as usize][at],
                    }
                }
                Op::Const(c) => c.cast(d),
                Op::AxisIndex(a) => Scalar::Int(self.axes[a]),
                Op::Cast(v) => cast(get(*v), d),
                Op::Unary(op, v) => unary(*op, get(*v), of(*v)),
                Op::Binary(op, a, b) => binary(*op, get(*a), get(*b), d)?,
                Op::Fma(a, b, c) => {
                    let [x, y, z] = [a, b, c].map(|v| get(*v).as_f64());
                    match d {
                        DType::F64 => Scalar::Float(x.mul_add(y, z)),
                        _ => Scalar::Float((x as f32).mul_add(y as f32, z as f32).into()).cast(d),
                    }
                }
                Op::Compare(op, a, b) => Scalar::Bool(compare(*op, get(*a), get(*b))),
                Op::Select(c, a, b) => {
                    if get(*c).as_bool() {
                        get(*a)
                    } else {
                        get(*b)
                    }
                }
                Op::CheckIndex { index, size, wrap } => {
                    let x = get(*index).as_i64();
                    let least = if *wrap { -size } else { 0 };
                    if !(least..*size).contains(&x) {
                        return Err(Stop::Index(x));
                    }
                    Scalar::Int(if x < 0 { x + size } else { x })
                }
                Op::Reduce(op, v) => {
                    let acc = accs.get_mut(&i).expect("prepared");
                    let d = d.opmath();
                    let (a, b) = (acc.value, cast(get(*v), d));
                    acc.value = match op {
                        ReduceOp::Sum => binary(BinaryOp::Add, a, b, d)?,
                        ReduceOp::Prod => binary(BinaryOp::Mul, a, b, d)?,
                        ReduceOp::Max => binary(BinaryOp::Maximum, a, b, d)?,
                        ReduceOp::Min => binary(BinaryOp::Minimum, a, b, d)?,
                        ReduceOp::Any => Scalar::Bool(a.as_bool() | b.as_bool()),
                        ReduceOp::All => Scalar::Bool(a.as_bool() & b.as_bool()),
                    };
                    acc.value
                }
                Op::ArgReduce { max, value } => {
                    let acc = accs.get_mut(&i).expect("prepared");
                    let v = get(*value);
                    let nan = |x: Scalar| matches!(x, Scalar::Float(f) if f.is_nan());
                    let beyond = if *max {
                        compare(CompareOp::Gt, v, acc.value)
                    } else {
                        compare(CompareOp::Lt, v, acc.value)
                    };
                    if !acc.taken || (!nan(acc.value) && (nan(v) || beyond)) {
                        acc.value = v;
                        acc.position = position;
                        acc.taken = true;
                    }
                    Scalar::Int(acc.position)
                }
                Op::Carry { stage, value } => self.carries[&(*stage, value.0)],
                Op::Store { mem, index, value } => {
                    let at = self.at(index, &values);
                    let v = get(*value);
                    match mem {
                        Mem::Buffer(b) => self.memory[b.0 as usize][at] = v,
                        Mem::Scratch(r) => self.scratch[*r as usize][at] = v,
                    }
                    v
                }
                Op::Update { op, mem, index, value } => {
                    let at = self.at(index, &values);
                    let v = get(*value);
                    let cell = match mem {
                        Mem::Buffer(b) => &mut self.memory[b.0 as usize][at],
                        Mem::Scratch(r) => &mut self.scratch[*r as usize][at],
                    };
                    *cell = updated(*op, *cell, v, d)?;
                    *cell
                }
            };
            values.push(r);
        }
        Ok(())
    }
}

/// An element combined with a new one.
fn updated(op: ReduceOp, old: Scalar, new: Scalar, d: DType) -> Result<Scalar, Stop> {
    let nan = matches!(new, Scalar::Float(x) if x.is_nan());
    let beyond = match op {
        ReduceOp::Max => CompareOp::Lt,
        _ => CompareOp::Gt,
    };
    Ok(match op {
        ReduceOp::Sum => binary(BinaryOp::Add, old, new, d)?,
        ReduceOp::Prod => binary(BinaryOp::Mul, old, new, d)?,
        ReduceOp::Max | ReduceOp::Min if nan || compare(beyond, old, new) => new,
        ReduceOp::Max | ReduceOp::Min => old,
        ReduceOp::Any | ReduceOp::All => unreachable!("no updates"),
    })
}

fn limit(d: DType, max: bool) -> Scalar {
    let (lo, hi) = match d {
        DType::U8 => (0, 255),
        DType::I8 => (-128, 127),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::I64 => (i64::MIN, i64::MAX),
        DType::Bool => return Scalar::Bool(max),
        _ => {
            return Scalar::Float(if max { f64::INFINITY } else { f64::NEG_INFINITY });
        }
    };
    Scalar::Int(if max { hi } else { lo })
}

fn cast(v: Scalar, d: DType) -> Scalar {
    // f64 to a half type goes through f32, as the eager copy does
    match (v, d) {
        (Scalar::Float(x), DType::F16 | DType::BF16) => Scalar::Float(f64::from(x as f32)).cast(d),
        (Scalar::Int(x), DType::F16 | DType::BF16 | DType::F32) => {
            Scalar::Float(f64::from(x as f32)).cast(d)
        }
        _ => v.cast(d),
    }
}

fn float1(f: Fn1, x: f64, d: DType) -> f64 {
    match d {
        DType::F64 => f.build(&mut Scalar64, x),
        _ => f.build(&mut Scalar32, x as f32).into(),
    }
}

fn float2(f: Fn2, x: f64, y: f64, d: DType) -> f64 {
    match d {
        DType::F64 => f.build(&mut Scalar64, x, y),
        _ => f.build(&mut Scalar32, x as f32, y as f32).into(),
    }
}

fn unary(op: UnaryOp, v: Scalar, d: DType) -> Scalar {
    match v {
        Scalar::Complex(..) => unreachable!("loops hold no complex values"),
        Scalar::Float(x) => {
            let f = match op {
                UnaryOp::Neg => -x,
                UnaryOp::Abs => x.abs(),
                UnaryOp::Sqrt if d == DType::F64 => x.sqrt(),
                UnaryOp::Sqrt => (x as f32).sqrt().into(),
                UnaryOp::Floor => x.floor(),
                UnaryOp::Ceil => x.ceil(),
                UnaryOp::Round => x.round_ties_even(),
                UnaryOp::Trunc => x.trunc(),
                UnaryOp::Relu => float2(Fn2::Maximum, x, 0.0, d),
                UnaryOp::IsNan => return Scalar::Bool(x.is_nan()),
                UnaryOp::IsInf => return Scalar::Bool(x.is_infinite()),
                UnaryOp::LogicalNot => return Scalar::Bool(x == 0.0),
                op => float1(Fn1::of(op).expect("a math function"), x, d),
            };
            Scalar::Float(f).cast(d)
        }
        Scalar::Int(x) => Scalar::Int(match op {
            UnaryOp::Neg => x.wrapping_neg(),
            UnaryOp::Abs => x.wrapping_abs(),
            UnaryOp::Sign => x.signum(),
            UnaryOp::Relu => x.max(0),
            UnaryOp::BitwiseNot => !x,
            UnaryOp::LogicalNot => return Scalar::Bool(x == 0),
            _ => x,
        })
        .cast(d),
        Scalar::Bool(x) => Scalar::Bool(match op {
            UnaryOp::LogicalNot | UnaryOp::BitwiseNot => !x,
            _ => x,
        }),
    }
}

fn binary(op: BinaryOp, a: Scalar, b: Scalar, d: DType) -> Result<Scalar, Stop> {
    Ok(match (a, b) {
        (Scalar::Float(x), Scalar::Float(y)) => {
            let narrow = d != DType::F64;
            let (p, q) = (x as f32, y as f32);
            let r = match op {
                BinaryOp::Add if narrow => (p + q).into(),
                BinaryOp::Add => x + y,
                BinaryOp::Sub if narrow => (p - q).into(),
                BinaryOp::Sub => x - y,
                BinaryOp::Mul if narrow => (p * q).into(),
                BinaryOp::Mul => x * y,
                BinaryOp::Div if narrow => (p / q).into(),
                BinaryOp::Div => x / y,
                BinaryOp::TruncDiv if narrow => (p / q).trunc().into(),
                BinaryOp::TruncDiv => (x / y).trunc(),
                BinaryOp::FloorDiv if narrow => floor_div(p, q).into(),
                BinaryOp::FloorDiv => floor_div(x, y),
                BinaryOp::Maximum => float2(Fn2::Maximum, x, y, d),
                BinaryOp::Minimum => float2(Fn2::Minimum, x, y, d),
                BinaryOp::Pow => float2(Fn2::Pow, x, y, d),
                BinaryOp::Atan2 => float2(Fn2::Atan2, x, y, d),
                BinaryOp::Fmod => float2(Fn2::Fmod, x, y, d),
                BinaryOp::Remainder => float2(Fn2::Remainder, x, y, d),
                _ => panic!("{op:?} on floats"),
            };
            Scalar::Float(r).cast(d)
        }
        (Scalar::Int(x), Scalar::Int(y)) => {
            let width = d.size() as i64 * 8;
            let divides = matches!(
                op,
                BinaryOp::FloorDiv | BinaryOp::TruncDiv | BinaryOp::Fmod | BinaryOp::Remainder
            );
            if divides && y == 0 {
                return Err(Stop::ZeroDivision);
            }
            let floor_adjust = |r: i64| r != 0 && (r < 0) != (y < 0);
            Scalar::Int(match op {
                BinaryOp::Add => x.wrapping_add(y),
                BinaryOp::Sub => x.wrapping_sub(y),
                BinaryOp::Mul => x.wrapping_mul(y),
                BinaryOp::TruncDiv => x.wrapping_div(y),
                BinaryOp::Fmod => x.wrapping_rem(y),
                BinaryOp::FloorDiv => {
                    let r = x.wrapping_rem(y);
                    x.wrapping_div(y) - i64::from(floor_adjust(r))
                }
                BinaryOp::Remainder => {
                    let r = x.wrapping_rem(y);
                    if floor_adjust(r) { r + y } else { r }
                }
                BinaryOp::Maximum => x.max(y),
                BinaryOp::Minimum => x.min(y),
                BinaryOp::BitwiseAnd => x & y,
                BinaryOp::BitwiseOr => x | y,
                BinaryOp::BitwiseXor => x ^ y,
                BinaryOp::ShiftLeft if (0..width).contains(&y) => x << y,
                BinaryOp::ShiftLeft => 0,
                BinaryOp::ShiftRight if (0..width).contains(&y) => x >> y,
                BinaryOp::ShiftRight if d == DType::U8 => 0,
                BinaryOp::ShiftRight => x >> (width - 1),
                _ => panic!("{op:?} on integers"),
            })
            .cast(d)
        }
        (a, b) => {
            let (x, y) = (a.as_bool(), b.as_bool());
            Scalar::Bool(match op {
                BinaryOp::LogicalAnd | BinaryOp::BitwiseAnd | BinaryOp::Minimum | BinaryOp::Mul => {
                    x & y
                }
                BinaryOp::LogicalXor | BinaryOp::BitwiseXor => x ^ y,
                _ => x | y,
            })
        }
    })
}

/// PyTorch's definition, written out.
fn floor_div<T>(a: T, b: T) -> T
where
    T: num::Float,
{
    if b == T::ZERO {
        return a / b;
    }
    let m = a % b;
    let mut div = (a - m) / b;
    if m != T::ZERO && (b < T::ZERO) != (m < T::ZERO) {
        div = div - T::ONE;
    }
    if div == T::ZERO {
        return (T::ZERO).with_sign(a / b);
    }
    let f = div.floor_();
    if div - f > T::HALF { f + T::ONE } else { f }
}

/// The little of a float that `floor_div` needs.
mod num {
    use std::ops::{Add, Div, Rem, Sub};

    pub(super) trait Float:
        Copy
        + PartialOrd
        + Add<Output = Self>
        + Sub<Output = Self>
        + Div<Output = Self>
        + Rem<Output = Self>
    {
        const ZERO: Self;
        const ONE: Self;
        const HALF: Self;
        fn floor_(self) -> Self;
        fn with_sign(self, of: Self) -> Self;
    }

    macro_rules! float {
        ($t:ty) => {
            impl Float for $t {
                const ZERO: $t = 0.0;
                const ONE: $t = 1.0;
                const HALF: $t = 0.5;
                fn floor_(self) -> $t {
                    self.floor()
                }
                fn with_sign(self, of: $t) -> $t {
                    self.copysign(of)
                }
            }
        };
    }
    float!(f32);
    float!(f64);
}

fn compare(op: CompareOp, a: Scalar, b: Scalar) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match (a, b) {
        (Scalar::Float(x), Scalar::Float(y)) => x.partial_cmp(&y),
        (Scalar::Bool(x), Scalar::Bool(y)) => Some(x.cmp(&y)),
        (a, b) => Some(a.as_i64().cmp(&b.as_i64())),
    };
    match op {
        CompareOp::Eq => order == Some(Equal),
        CompareOp::Ne => order != Some(Equal),
        CompareOp::Lt => order == Some(Less),
        CompareOp::Gt => order == Some(Greater),
        CompareOp::Le => matches!(order, Some(Less | Equal)),
        CompareOp::Ge => matches!(order, Some(Greater | Equal)),
    }
}

// kept beside the oracle so that a test of it can fail on its own
#[test]
fn the_oracle_rounds_each_half_precision_step() {
    let one = Scalar::Float(1.0);
    let tiny = Scalar::Float(2f64.powi(-9));
    let sum = binary(BinaryOp::Add, one, tiny, DType::BF16).expect("no division");
    assert_eq!(sum, one);
}
