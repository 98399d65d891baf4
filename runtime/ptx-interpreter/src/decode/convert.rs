use super::arithmetic::unsupported;
use super::floating::rounding;
use super::op::{Op, Reject, Type};
use super::{Decoded, Decoder};
use crate::number::narrow::{Rounding, from_bf16, from_f16, to_bf16, to_f16};
use crate::number::{Map1, map1};
use crate::program::{Code, Conversion, Numeric, Source};

/// Conversions that kernels are full of.
fn frequent(from: Type, to: Type, modifiers: &[&str]) -> Option<Map1> {
    Some(match (from, to, modifiers) {
        (Type::Signed(32), Type::F32, ["rn"]) => map1!(|x: i32| x as f32),
        (Type::Unsigned(32), Type::F32, ["rn"]) => map1!(|x: u32| x as f32),
        (Type::Signed(32), Type::F64, ["rn"]) => map1!(|x: i32| f64::from(x)),
        (Type::F32, Type::F64, []) => map1!(|x: f32| f64::from(x)),
        (Type::F64, Type::F32, ["rn"]) => map1!(|x: f64| x as f32),
        (Type::F32, Type::F16, ["rn"]) => map1!(|x: f32| to_f16(x)),
        (Type::F32, Type::Bf16, ["rn"]) => map1!(|x: f32| to_bf16(x)),
        (Type::F16, Type::F32, []) => map1!(|x: u16| from_f16(x)),
        (Type::Bf16, Type::F32, []) => map1!(|x: u16| from_bf16(x)),
        (Type::Signed(32), Type::Signed(64), []) => map1!(|x: i32| i64::from(x)),
        (Type::Unsigned(32), Type::Signed(64) | Type::Unsigned(64), []) => map1!(|x: u32| x),
        (Type::Unsigned(64) | Type::Signed(64), Type::Unsigned(32) | Type::Signed(32), []) => {
            map1!(|x: u64| x as u32)
        }
        (Type::Unsigned(32) | Type::Signed(32), Type::Unsigned(16) | Type::Signed(16), []) => {
            map1!(|x: u32| x as u16)
        }
        (Type::Unsigned(16), Type::Unsigned(32) | Type::Signed(32), []) => map1!(|x: u16| x),
        _ => return None,
    })
}

fn numeric(kind: Type) -> Result<Numeric, Reject> {
    Ok(match kind {
        Type::Unsigned(bits @ 8..=64) => Numeric::Unsigned(bits),
        Type::Signed(bits @ 8..=64) => Numeric::Signed(bits),
        Type::F16 | Type::F16x2 => Numeric::Half,
        Type::Bf16 | Type::Bf16x2 => Numeric::Brain,
        Type::Tf32 => Numeric::Tensor,
        Type::F32 => Numeric::Single,
        Type::F64 => Numeric::Double,
        Type::E4m3x2 | Type::E4m3 => Numeric::E4M3,
        Type::E5m2x2 | Type::E5m2 => Numeric::E5M2,
        _ => return unsupported(),
    })
}

impl<'a> Decoder<'a, '_, '_> {
    pub(super) fn convert(&mut self, op: &Op<'a, '_>) -> Decoded {
        let &[to, from] = op.types.as_slice() else { return unsupported() };
        if op.name == "cvt" && op.has("pack") {
            return unsupported();
        }
        op.only(&[
            "rn",
            "rna",
            "rz",
            "rm",
            "rp",
            "rni",
            "rzi",
            "rmi",
            "rpi",
            "ftz",
            "sat",
            "satfinite",
            "relu",
        ])?;
        let into = self.register(op.operand(0)?)?;
        let a = self.source(op.operand(1)?, from)?;
        if op.count() == 2
            && let Some(map) = frequent(from, to, &op.modifiers)
        {
            return Ok(Code::Map1 { map, into, a });
        }
        let named = op.modifiers.iter().find_map(|name| rounding(name).map(|found| (name, found)));
        let conversion = Box::new(Conversion {
            from: numeric(from)?,
            to: numeric(to)?,
            rounding: named.map_or(Rounding::Nearest, |(_, rounding)| rounding),
            integral: named.is_some_and(|(name, _)| name.ends_with('i')),
            flush: op.has("ftz"),
            saturate: op.has("sat"),
            finite: op.has("satfinite"),
            relu: op.has("relu"),
        });
        if op.count() == 3 {
            // the first source goes into the upper half
            let low: Source = self.source(op.operand(2)?, from)?;
            return Ok(Code::ConvertPair { into, high: a, low, conversion });
        }
        match from {
            Type::E4m3x2 | Type::E5m2x2 | Type::F16x2 => {
                Ok(Code::ConvertParts { into, a, conversion })
            }
            _ => Ok(Code::Convert { into, a, conversion }),
        }
    }
}
