//! Arithmetic on sizes between the calls of operators: what Python computes with `SymInt`s.

use crate::dispatch::Value;
use crate::tensor::Tensor;
use straightline_catalog::Scalar;

/// A function of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NumberOp {
    Add,
    Sub,
    Mul,
    FloorDiv,
    TrueDiv,
    Mod,
    Pow,
    Neg,
    Pos,
    Abs,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
    Not,
    Min,
    Max,
    IfElse,
    ToFloat,
    ToInt,
    Floor,
    Ceil,
    Round,
    Sqrt,
    SymSize,
    SymStride,
    SymNumel,
    SymOffset,
    /// An element of a tuple or a list.
    Item,
}

impl NumberOp {
    /// The function that Python knows by this name.
    pub(super) fn named(target: &str) -> Option<NumberOp> {
        use NumberOp::*;
        let name = ["_operator.", "operator.", "builtins.", "math.", "torch.", "sym::"]
            .into_iter()
            .find_map(|module| target.strip_prefix(module))
            .unwrap_or(target);
        Some(match name {
            "add" | "iadd" => Add,
            "sub" => Sub,
            "mul" => Mul,
            "floordiv" => FloorDiv,
            "truediv" => TrueDiv,
            "mod" => Mod,
            "pow" | "sym_pow" => Pow,
            "neg" => Neg,
            "pos" => Pos,
            "abs" => Abs,
            "eq" => Eq,
            "ne" => Ne,
            "lt" => Lt,
            "le" => Le,
            "gt" => Gt,
            "ge" => Ge,
            "and_" => And,
            "or_" => Or,
            "not_" | "sym_not" => Not,
            "min" | "sym_min" => Min,
            "max" | "sym_max" => Max,
            "sym_ite" => IfElse,
            "float" | "sym_float" => ToFloat,
            "int" | "sym_int" | "trunc" => ToInt,
            "floor" => Floor,
            "ceil" => Ceil,
            "round" => Round,
            "sqrt" | "sym_sqrt" | "_sym_sqrt" => Sqrt,
            "getitem" => Item,
            "ops.aten.sym_size.int" | "aten::sym_size.int" => SymSize,
            "ops.aten.sym_stride.int" | "aten::sym_stride.int" => SymStride,
            "ops.aten.sym_numel.default" | "aten::sym_numel" => SymNumel,
            "ops.aten.sym_storage_offset.default" | "aten::sym_storage_offset" => SymOffset,
            _ => return None,
        })
    }

    /// How many arguments it takes.
    pub(super) fn arity(self) -> usize {
        use NumberOp::*;
        match self {
            IfElse => 3,
            Neg | Pos | Abs | Not | ToFloat | ToInt | Floor | Ceil | Round | Sqrt | SymNumel
            | SymOffset => 1,
            _ => 2,
        }
    }

    /// Computes as Python does.
    ///
    /// # Errors
    /// Arguments of other kinds, division by zero, integers beyond 64 bits.
    pub(super) fn apply(self, args: &[Value]) -> Result<Value, String> {
        use NumberOp::*;
        if args.len() != self.arity() {
            return Err(format!("expected {} arguments, and got {}", self.arity(), args.len()));
        }
        match self {
            SymSize | SymStride | SymNumel | SymOffset => return self.of_tensor(args),
            Item => return item(&args[0], &args[1]),
            Not => return Ok(Value::Bool(!truth(&args[0])?)),
            IfElse => return Ok(args[if truth(&args[0])? { 1 } else { 2 }].clone()),
            _ => {}
        }
        let numbers = args.iter().map(number).collect::<Result<Vec<_>, _>>()?;
        match (self, &numbers[..]) {
            (And | Or, [Scalar::Bool(a), Scalar::Bool(b)]) => {
                Ok(Value::Bool(if self == And { *a && *b } else { *a || *b }))
            }
            (_, [a]) => self.of_one(*a),
            (_, [a, b]) => match (integer(*a), integer(*b)) {
                (Some(a), Some(b)) => self.of_integers(a, b),
                _ => self.of_floats(a.as_f64(), b.as_f64()),
            },
            _ => Err("expected one or two numbers".to_owned()),
        }
    }

    fn of_one(self, a: Scalar) -> Result<Value, String> {
        use NumberOp::*;
        let too_large = || format!("{self:?} of {a:?} does not fit in 64 bits");
        let x = a.as_f64();
        let whole = |x: f64| match x.is_finite() && x.abs() < 9.2e18 {
            true => Ok(Value::Int(x as i64)),
            false => Err(too_large()),
        };
        match (self, integer(a)) {
            (Neg, Some(n)) => n.checked_neg().map(Value::Int).ok_or_else(too_large),
            (Abs, Some(n)) => n.checked_abs().map(Value::Int).ok_or_else(too_large),
            (Pos | ToInt | Floor | Ceil | Round, Some(n)) => Ok(Value::Int(n)),
            (Neg, None) => Ok(Value::Double(-x)),
            (Abs, None) => Ok(Value::Double(x.abs())),
            (Pos, None) | (ToFloat, _) => Ok(Value::Double(x)),
            (ToInt, None) => whole(x.trunc()),
            (Floor, None) => whole(x.floor()),
            (Ceil, None) => whole(x.ceil()),
            (Round, None) => whole(x.round_ties_even()),
            (Sqrt, _) => Ok(Value::Double(x.sqrt())),
            _ => Err("expected two numbers".to_owned()),
        }
    }

    fn of_integers(self, a: i64, b: i64) -> Result<Value, String> {
        use NumberOp::*;
        let zero = || format!("{self:?} of {a} by zero");
        let fits = |n: Option<i64>| {
            n.map(Value::Int)
                .ok_or_else(|| format!("{self:?} of {a} and {b} does not fit in 64 bits"))
        };
        if matches!(self, FloorDiv | Mod | TrueDiv) && b == 0 {
            return Err(zero());
        }
        match self {
            Add => fits(a.checked_add(b)),
            Sub => fits(a.checked_sub(b)),
            Mul => fits(a.checked_mul(b)),
            FloorDiv => {
                fits(a.checked_div(b).map(|q| q - i64::from(a % b != 0 && (a < 0) != (b < 0))))
            }
            Mod => {
                fits(a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r }))
            }
            TrueDiv => Ok(Value::Double(a as f64 / b as f64)),
            Pow => match u32::try_from(b) {
                Ok(b) => fits(a.checked_pow(b)),
                Err(_) => Ok(Value::Double((a as f64).powf(b as f64))),
            },
            Min => Ok(Value::Int(a.min(b))),
            Max => Ok(Value::Int(a.max(b))),
            And => Ok(Value::Int(a & b)),
            Or => Ok(Value::Int(a | b)),
            _ => self.compared(a.partial_cmp(&b)),
        }
    }

    fn of_floats(self, a: f64, b: f64) -> Result<Value, String> {
        use NumberOp::*;
        if matches!(self, FloorDiv | Mod | TrueDiv) && b == 0.0 {
            return Err(format!("{self:?} of {a} by zero"));
        }
        Ok(Value::Double(match self {
            Add => a + b,
            Sub => a - b,
            Mul => a * b,
            TrueDiv => a / b,
            FloorDiv => (a / b).floor(),
            Mod => {
                let r = a % b;
                if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
            }
            Pow => a.powf(b),
            Min => a.min(b),
            Max => a.max(b),
            _ => return self.compared(a.partial_cmp(&b)),
        }))
    }

    fn compared(self, order: Option<std::cmp::Ordering>) -> Result<Value, String> {
        use NumberOp::*;
        Ok(Value::Bool(match self {
            Eq => order.is_some_and(|o| o.is_eq()),
            Ne => order.is_none_or(|o| o.is_ne()),
            Lt => order.is_some_and(|o| o.is_lt()),
            Le => order.is_some_and(|o| o.is_le()),
            Gt => order.is_some_and(|o| o.is_gt()),
            Ge => order.is_some_and(|o| o.is_ge()),
            _ => return Err("expected other numbers".to_owned()),
        }))
    }

    fn of_tensor(self, args: &[Value]) -> Result<Value, String> {
        let Value::Tensor(t) = &args[0] else {
            return Err(format!("expected Tensor, and got {}", args[0].type_name()));
        };
        let along = |of: &[i64]| match args.get(1) {
            Some(Value::Int(dim)) => wrapped(t, *dim).map(|dim| of[dim]),
            _ => Err("expected a dimension".to_owned()),
        };
        Ok(Value::Int(match self {
            NumberOp::SymSize => along(t.sizes())?,
            NumberOp::SymStride => along(t.strides())?,
            NumberOp::SymOffset => t.storage_offset(),
            _ => t.numel(),
        }))
    }
}

fn wrapped(t: &Tensor, dim: i64) -> Result<usize, String> {
    let rank = t.dim() as i64;
    let at = if dim < 0 { dim.saturating_add(rank) } else { dim };
    match (0..rank).contains(&at) {
        true => Ok(at as usize),
        false => Err(format!("dimension {dim} of a tensor of {rank} dimensions")),
    }
}

/// An integer, which a flag counts as.
fn integer(n: Scalar) -> Option<i64> {
    match n {
        Scalar::Int(n) => Some(n),
        Scalar::Bool(b) => Some(i64::from(b)),
        _ => None,
    }
}

fn number(value: &Value) -> Result<Scalar, String> {
    match value.as_scalar() {
        Some(Scalar::Complex(..)) | None => {
            Err(format!("expected a number, and got {}", value.type_name()))
        }
        Some(n) => Ok(n),
    }
}

fn truth(value: &Value) -> Result<bool, String> {
    number(value).map(Scalar::as_bool)
}

/// An element of a tuple or a list.
fn item(of: &Value, at: &Value) -> Result<Value, String> {
    let Value::Int(at) = at else { return Err("expected the number of an element".to_owned()) };
    let one = |len: usize| {
        let n = if *at < 0 { at + len as i64 } else { *at };
        usize::try_from(n).ok().filter(|n| *n < len).ok_or_else(|| format!("element {at} of {len}"))
    };
    match of {
        Value::Tuple(list) => Ok(list[one(list.len())?].clone()),
        Value::TensorList(list) => Ok(Value::Tensor(list[one(list.len())?].clone())),
        Value::IntList(list) => Ok(Value::Int(list[one(list.len())?])),
        Value::DoubleList(list) => Ok(Value::Double(list[one(list.len())?])),
        other => Err(format!("expected a tuple, and got {}", other.type_name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(target: &str, args: &[Value]) -> String {
        let op = NumberOp::named(target).unwrap();
        op.apply(args).map_or_else(|e| e, |v| format!("{v:?}"))
    }

    #[test]
    fn integers_are_divided_as_python_divides_them() {
        for (a, b, quotient, rest) in
            [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (6, -2, -3, 0)]
        {
            let args = [Value::Int(a), Value::Int(b)];
            assert_eq!(computed("_operator.floordiv", &args), format!("Int({quotient})"));
            assert_eq!(computed("_operator.mod", &args), format!("Int({rest})"));
        }
        let by_zero = [Value::Int(3), Value::Int(0)];
        assert_eq!(computed("_operator.floordiv", &by_zero), "FloorDiv of 3 by zero");
        let large = [Value::Int(i64::MAX), Value::Int(2)];
        assert!(computed("_operator.mul", &large).contains("64 bits"));
        let least = [Value::Int(i64::MIN), Value::Int(-1)];
        assert!(computed("_operator.floordiv", &least).contains("64 bits"));
        assert_eq!(computed("_operator.pow", &[Value::Int(2), Value::Int(10)]), "Int(1024)");
        assert_eq!(computed("_operator.truediv", &[Value::Int(1), Value::Int(4)]), "Double(0.25)");
    }

    #[test]
    fn the_others() {
        let (two, half) = (Value::Int(2), Value::Double(0.5));
        assert_eq!(computed("torch.sym_max", &[two.clone(), Value::Int(5)]), "Int(5)");
        assert_eq!(computed("_operator.add", &[two.clone(), half.clone()]), "Double(2.5)");
        assert_eq!(computed("_operator.ge", &[two.clone(), Value::Int(2)]), "Bool(true)");
        assert_eq!(computed("torch.sym_not", &[Value::Bool(true)]), "Bool(false)");
        assert_eq!(computed("math.ceil", std::slice::from_ref(&half)), "Int(1)");
        assert!(computed("math.floor", &[Value::Double(f64::NAN)]).contains("64 bits"));
        let t = Tensor::zeros([3, 4]).unwrap();
        assert_eq!(
            computed("torch.ops.aten.sym_size.int", &[t.clone().into(), Value::Int(-1)]),
            "Int(4)"
        );
        assert!(
            computed("torch.ops.aten.sym_size.int", &[t.clone().into(), Value::Int(2)])
                .contains("dimension 2")
        );
        assert_eq!(computed("torch.ops.aten.sym_numel.default", &[t.clone().into()]), "Int(12)");
        assert_eq!(
            computed("_operator.getitem", &[Value::IntList(vec![4, 5]), Value::Int(-1)]),
            "Int(5)"
        );
        assert!(
            computed("_operator.getitem", &[Value::IntList(vec![4, 5]), Value::Int(2)])
                .contains("element 2 of 2")
        );
        assert!(computed("_operator.add", &[t.into(), two]).contains("expected a number"));
        assert_eq!(NumberOp::named("torch.ops.aten.add.Tensor"), None);
    }
}
