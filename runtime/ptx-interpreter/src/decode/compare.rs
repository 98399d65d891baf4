use super::arithmetic::unsupported;
use super::op::{Op, Reject, Type};
use super::{Decoded, Decoder};
use crate::number::narrow::{from_bf16, from_f16};
use crate::number::rounding::flush;
use crate::number::{Map3, Test, map3, test};
use crate::parse::ast::Operand;
use crate::program::{Code, Condition, Join, Predicate};

/// How the result of a comparison is combined with a predicate.
type Joined = Option<(Join, Condition)>;

const COMPARISONS: &[&str] = &[
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu",
    "geu", "num", "nan",
];

/// Comparisons of floating-point numbers; those in `u` hold for a NaN too.
macro_rules! floating {
    ($comparison:expr, $t:ty, |$x:ident| $value:expr) => {
        match $comparison {
            "eq" => floating!(@ $t, |$x| $value, |x, y| x == y),
            "ne" => floating!(@ $t, |$x| $value, |x, y| x != y && !x.is_nan() && !y.is_nan()),
            "lt" => floating!(@ $t, |$x| $value, |x, y| x < y),
            "le" => floating!(@ $t, |$x| $value, |x, y| x <= y),
            "gt" => floating!(@ $t, |$x| $value, |x, y| x > y),
            "ge" => floating!(@ $t, |$x| $value, |x, y| x >= y),
            "equ" => floating!(@ $t, |$x| $value, |x, y| x == y || x.is_nan() || y.is_nan()),
            "neu" => floating!(@ $t, |$x| $value, |x, y| x != y),
            "ltu" => floating!(@ $t, |$x| $value, |x, y| !(x >= y)),
            "leu" => floating!(@ $t, |$x| $value, |x, y| !(x > y)),
            "gtu" => floating!(@ $t, |$x| $value, |x, y| !(x <= y)),
            "geu" => floating!(@ $t, |$x| $value, |x, y| !(x < y)),
            "num" => floating!(@ $t, |$x| $value, |x, y| !x.is_nan() && !y.is_nan()),
            "nan" => floating!(@ $t, |$x| $value, |x, y| x.is_nan() || y.is_nan()),
            _ => return unsupported(),
        }
    };
    (@ $t:ty, |$x:ident| $value:expr, |$a:ident, $b:ident| $body:expr) => {
        test!(|a: $t, b: $t| {
            let value = |$x: $t| $value;
            let ($a, $b) = (value(a), value(b));
            $body
        })
    };
}

macro_rules! integers {
    ($comparison:expr, $t:ty) => {
        match $comparison {
            "eq" => test!(|x: $t, y: $t| x == y),
            "ne" => test!(|x: $t, y: $t| x != y),
            "lt" | "lo" => test!(|x: $t, y: $t| x < y),
            "le" | "ls" => test!(|x: $t, y: $t| x <= y),
            "gt" | "hi" => test!(|x: $t, y: $t| x > y),
            "ge" | "hs" => test!(|x: $t, y: $t| x >= y),
            _ => return unsupported(),
        }
    };
}

#[allow(clippy::neg_cmp_op_on_partial_ord)]
fn comparison(name: &str, kind: Type, flushes: bool, high: bool) -> Result<Test, Reject> {
    Ok(match kind {
        Type::Unsigned(16) | Type::Bits(16) => integers!(name, u16),
        Type::Unsigned(32) | Type::Bits(32) => integers!(name, u32),
        Type::Unsigned(64) | Type::Bits(64) => integers!(name, u64),
        Type::Signed(16) => integers!(name, i16),
        Type::Signed(32) => integers!(name, i32),
        Type::Signed(64) => integers!(name, i64),
        Type::F32 if flushes => floating!(name, f32, |x| flush(x)),
        Type::F32 => floating!(name, f32, |x| x),
        Type::F64 => floating!(name, f64, |x| x),
        Type::F16 => floating!(name, u16, |x| from_f16(x)),
        Type::Bf16 => floating!(name, u16, |x| from_bf16(x)),
        Type::F16x2 if high => floating!(name, u32, |x| from_f16((x >> 16) as u16)),
        Type::F16x2 => floating!(name, u32, |x| from_f16(x as u16)),
        Type::Bf16x2 if high => floating!(name, u32, |x| from_bf16((x >> 16) as u16)),
        Type::Bf16x2 => floating!(name, u32, |x| from_bf16(x as u16)),
        _ => return unsupported(),
    })
}

impl<'a> Decoder<'a, '_, '_> {
    pub(super) fn compare(&mut self, op: &Op<'a, '_>) -> Decoded {
        match op.name {
            "setp" => self.set_predicate(op),
            "set" => self.set(op),
            "selp" => {
                op.only(&[])?;
                let kind = op.kind()?;
                if kind.bits() > 64 {
                    return unsupported();
                }
                let into = self.register(op.operand(0)?)?;
                let a = self.source(op.operand(1)?, kind)?;
                let b = self.source(op.operand(2)?, kind)?;
                Ok(Code::Select { into, a, b, condition: self.condition(op.operand(3)?)? })
            }
            _ => {
                op.only(&["ftz"])?;
                let kind = op.kind()?;
                let by = op.types.get(1).copied().ok_or(Reject::Unsupported)?;
                let map: Map3 = match by {
                    Type::Signed(32) => map3!(|x: u64, y: u64, z: i32| if z >= 0 { x } else { y }),
                    Type::F32 if op.has("ftz") => {
                        map3!(|x: u64, y: u64, z: f32| if flush(z) >= 0.0 { x } else { y })
                    }
                    Type::F32 => map3!(|x: u64, y: u64, z: f32| if z >= 0.0 { x } else { y }),
                    _ => return unsupported(),
                };
                self.map3_of(op, map, [kind, kind, by])
            }
        }
    }

    fn comparison_and_join(&mut self, op: &Op<'a, '_>) -> Result<(&'a str, Joined), Reject> {
        let mut known = COMPARISONS.to_vec();
        known.extend(["and", "or", "xor", "ftz"]);
        op.only(&known)?;
        let name = op.modifiers.iter().find(|modifier| COMPARISONS.contains(modifier));
        let name = name.copied().ok_or(Reject::Unsupported)?;
        let join = op.modifiers.iter().find_map(|modifier| match *modifier {
            "and" => Some(Join::And),
            "or" => Some(Join::Or),
            "xor" => Some(Join::Xor),
            _ => None,
        });
        let join = match join {
            Some(join) => Some((join, self.condition(op.operand(3)?)?)),
            None => None,
        };
        Ok((name, join))
    }

    fn destinations(&mut self, operand: &Operand<'a>) -> Result<[Option<Predicate>; 2], Reject> {
        let mut one = |name: &str| match name {
            "_" => Ok(None),
            name => self.predicate_named(name).map(Some),
        };
        match operand {
            Operand::Pair(first, second) => Ok([one(first)?, one(second)?]),
            Operand::Name(name, 0) => Ok([one(name)?, None]),
            _ => Err(Reject::wrong("a predicate", &super::text(operand))),
        }
    }

    fn set_predicate(&mut self, op: &Op<'a, '_>) -> Decoded {
        let kind = op.kind()?;
        let (name, join) = self.comparison_and_join(op)?;
        let [into, opposite] = self.destinations(op.operand(0)?)?;
        let a = self.source(op.operand(1)?, kind)?;
        let b = self.source(op.operand(2)?, kind)?;
        let test = comparison(name, kind, op.has("ftz"), false)?;
        if matches!(kind, Type::F16x2 | Type::Bf16x2) {
            let high = comparison(name, kind, false, true)?;
            return Ok(Code::TestHalves { low: test, high, into: [into, opposite], a, b, join });
        }
        Ok(Code::Test { test, into, opposite, a, b, join })
    }

    fn set(&mut self, op: &Op<'a, '_>) -> Decoded {
        let (Some(&result), Some(&kind)) = (op.types.first(), op.types.get(1)) else {
            return unsupported();
        };
        let (name, join) = self.comparison_and_join(op)?;
        let into = self.register(op.operand(0)?)?;
        let a = self.source(op.operand(1)?, kind)?;
        let b = self.source(op.operand(2)?, kind)?;
        let test = comparison(name, kind, op.has("ftz"), false)?;
        if matches!(kind, Type::F16x2 | Type::Bf16x2) {
            let ones = match result {
                Type::F16x2 => [0x3c00, 0x3c00_0000],
                Type::Bf16x2 => [0x3f80, 0x3f80_0000],
                _ => [0xffff, 0xffff_0000],
            };
            let high = comparison(name, kind, false, true)?;
            let (low_half, high_half) = (self.scopes.temporary(), self.scopes.temporary());
            let always = crate::program::Guard::Always;
            self.push(always, Code::Set { test, into: low_half, a, b, join, one: ones[0] });
            self.push(always, Code::Set { test: high, into: high_half, a, b, join, one: ones[1] });
            let map = crate::number::map2!(|x: u32, y: u32| x | y);
            return Ok(Code::Map2 {
                map,
                into,
                a: crate::program::Source(low_half),
                b: crate::program::Source(high_half),
            });
        }
        let one = match result {
            Type::F32 => u64::from(1f32.to_bits()),
            Type::F16 => 0x3c00,
            Type::Bf16 => 0x3f80,
            Type::Bits(16) | Type::Unsigned(16) | Type::Signed(16) => 0xffff,
            _ => 0xffff_ffff,
        };
        Ok(Code::Set { test, into, a, b, join, one })
    }
}
