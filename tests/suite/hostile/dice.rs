//! Arguments that nobody should give, drawn at random.

use straightline::dispatch::Value;
use straightline::dispatch::schema::SchemaType;
use straightline::ops::aten;
use straightline::{DType, Result, Scalar, Tensor};

/// A generator of numbers (SplitMix64) that depends on nothing but its seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn int(&mut self) -> i64 {
        self.of(&[
            0,
            -1,
            1,
            2,
            -2,
            3,
            -3,
            7,
            -7,
            i64::MIN,
            i64::MAX,
            i64::MIN + 1,
            1 << 40,
            -(1 << 40),
            1 << 62,
            i64::from(i32::MIN),
        ])
    }

    fn float(&mut self) -> f64 {
        self.of(&[
            0.0,
            -0.0,
            -1.0,
            1.0,
            0.5,
            2.0,
            1e-310,
            1e300,
            -1e300,
            9.3e18,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ])
    }

    fn dtype(&mut self) -> DType {
        self.of(&[
            DType::F32,
            DType::F64,
            DType::F16,
            DType::BF16,
            DType::I64,
            DType::I32,
            DType::I16,
            DType::I8,
            DType::U8,
            DType::Bool,
            DType::C64,
        ])
    }

    /// Another tensor in place of this one.
    fn tensor(&mut self, t: &Tensor, others: &[Tensor]) -> Result<Tensor> {
        let mut sizes = t.sizes().to_vec();
        let rank = sizes.len();
        let fresh = |sizes: &[i64], dtype| aten::ones(sizes, Some(dtype), None, None, None);
        match self.below(13) {
            // hostile values
            0..=4 => self.values(t),
            5 => fresh(&[], t.dtype()),
            6 => fresh(&[0], t.dtype()),
            7 => {
                if rank > 0 {
                    sizes[self.below(rank)] = 0;
                }
                fresh(&sizes, t.dtype())
            }
            8 => {
                sizes.insert(self.below(rank + 1), self.of(&[1, 2, 3]));
                fresh(&sizes, t.dtype())
            }
            9 => {
                if rank > 0 {
                    sizes.remove(self.below(rank));
                }
                fresh(&sizes, t.dtype())
            }
            10 => {
                if rank > 0 {
                    let at = self.below(rank);
                    sizes[at] = (sizes[at] + self.of(&[-1, 1, 2])).max(0);
                }
                fresh(&sizes, t.dtype())
            }
            11 => {
                let dtype = self.dtype();
                aten::to_dtype(t, dtype, false, false, None)
            }
            _ => Ok(match others.is_empty() {
                true => t.clone(),
                false => others[self.below(others.len())].clone(),
            }),
        }
    }

    /// A tensor of the same shape with other values.
    fn values(&mut self, t: &Tensor) -> Result<Tensor> {
        let n = t.numel().max(0) as usize;
        let mild = self.one_in(2);
        let flat = if t.dtype().is_floating() || t.dtype().is_complex() {
            let v: Vec<f64> = (0..n).map(|_| self.float()).collect();
            Tensor::from_vec(v, -1)?
        } else {
            let v: Vec<i64> = (0..n)
                .map(|_| match mild {
                    true => self.below(12) as i64 - 4,
                    false => self.int(),
                })
                .collect();
            Tensor::from_vec(v, -1)?
        };
        let flat = aten::to_dtype(&flat, t.dtype(), false, false, None)?;
        if t.dtype() == DType::Bool && mild {
            // bytes that are neither 0 nor 1
            aten::add_scalar_(
                &aten::view_dtype(&flat, DType::U8)?,
                Scalar::Int(6),
                Scalar::Int(1),
            )?;
        }
        aten::reshape(&flat, t.sizes())
    }

    fn scalar(&mut self) -> Scalar {
        match self.below(3) {
            0 => Scalar::Int(self.int()),
            1 => Scalar::Float(self.float()),
            _ => Scalar::Bool(self.one_in(2)),
        }
    }

    /// A value for an argument of the type, where there was none.
    fn fresh(&mut self, ty: &SchemaType, others: &[Tensor]) -> Value {
        match ty.unwrap_optional() {
            SchemaType::Int | SchemaType::SymInt => Value::Int(self.int()),
            SchemaType::Float => Value::Double(self.float()),
            SchemaType::Bool => Value::Bool(self.one_in(2)),
            SchemaType::Scalar => Value::from(self.scalar()),
            SchemaType::Tensor if !others.is_empty() => {
                Value::Tensor(others[self.below(others.len())].clone())
            }
            SchemaType::List(of, _) => match &**of {
                SchemaType::Int | SchemaType::SymInt => {
                    let n = self.below(5);
                    Value::IntList((0..n).map(|_| self.int()).collect())
                }
                SchemaType::Float => {
                    let n = self.below(5);
                    Value::DoubleList((0..n).map(|_| self.float()).collect())
                }
                _ => Value::None,
            },
            _ => Value::None,
        }
    }

    /// Another list in place of this one: an entry changed by `change`, more entries, or fewer.
    fn list<T: Clone>(&mut self, list: &[T], change: &mut dyn FnMut(&mut Dice, &T) -> T) -> Vec<T> {
        let mut list = list.to_vec();
        let n = list.len();
        match (self.below(8), n) {
            (0, _) => list.clear(),
            (1, 1..) => drop(list.pop()),
            (2, 1..) => list.push(list[0].clone()),
            (3, 1..) => {
                let all = change(self, &list[0]);
                list.fill(all);
            }
            (_, 1..) => {
                let at = self.below(n);
                list[at] = change(self, &list[at]);
            }
            _ => {}
        }
        list
    }

    pub(super) fn value(&mut self, v: &Value, ty: &SchemaType, others: &[Tensor]) -> Value {
        if matches!(ty, SchemaType::Optional(_)) && self.one_in(6) {
            return Value::None;
        }
        match v {
            Value::None => self.fresh(ty, others),
            Value::Tensor(t) => Value::Tensor(self.tensor(t, others).unwrap_or_else(|_| t.clone())),
            Value::Bool(b) => Value::Bool(!b),
            Value::Int(_) | Value::Double(_) | Value::Complex(..)
                if matches!(ty.unwrap_optional(), SchemaType::Scalar) =>
            {
                Value::from(self.scalar())
            }
            Value::Int(_) => Value::Int(self.int()),
            Value::Double(_) => Value::Double(self.float()),
            Value::String(_) => Value::String(
                self.of(&["", "none", "mean", "sum", "floor", "trunc", "ij", "amax", "tanh", "x"])
                    .to_string(),
            ),
            Value::DType(_) => Value::DType(self.dtype()),
            Value::IntList(l) => Value::IntList(self.list(l, &mut |d, _| d.int())),
            Value::DoubleList(l) => Value::DoubleList(self.list(l, &mut |d, _| d.float())),
            Value::BoolList(l) => Value::BoolList(self.list(l, &mut |_, b| !b)),
            Value::ScalarList(l) => Value::ScalarList(self.list(l, &mut |d, _| d.scalar())),
            Value::TensorList(l) => Value::TensorList(
                self.list(l, &mut |d, t| d.tensor(t, others).unwrap_or_else(|_| t.clone())),
            ),
            Value::OptionalTensorList(l) => {
                Value::OptionalTensorList(self.list(l, &mut |d, t| match t {
                    Some(_) if d.one_in(4) => None,
                    Some(t) => d.tensor(t, others).ok(),
                    None => others.first().cloned(),
                }))
            }
            other => other.clone(),
        }
    }
}
