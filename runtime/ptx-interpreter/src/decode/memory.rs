use super::arithmetic::unsupported;
use super::floating::{maximum, minimum};
use super::op::{Op, Reject, Type};
use super::{Decoded, Decoder, special};
use crate::number::narrow::{from_bf16, from_f16, to_bf16, to_f16};
use crate::number::{Map2, Scalar, map1, map2, scalar};
use crate::parse::ast::{Number, Operand};
use crate::program::{
    Access, Address, AsyncCopy, Atomic, Code, LOCAL_WINDOW, PARAM_WINDOW, Register, SHARED_WINDOW,
    Source, Space,
};

/// Modifiers of loads and stores that change nothing here: order, scope, caches.
fn is_hint(modifier: &str) -> bool {
    modifier.starts_with("L1::")
        || modifier.starts_with("L2::")
        || matches!(
            modifier,
            "weak"
                | "volatile"
                | "relaxed"
                | "acquire"
                | "release"
                | "acq_rel"
                | "cta"
                | "cluster"
                | "gpu"
                | "sys"
                | "nc"
                | "ca"
                | "cg"
                | "cs"
                | "lu"
                | "cv"
                | "wb"
                | "wt"
                | "mmio"
                | "noftz"
                | "unified"
        )
}

fn space(modifier: &str) -> Option<Space> {
    Some(match modifier {
        "global" | "const" => Space::Global,
        "shared" | "shared::cta" => Space::Shared,
        "local" => Space::Local,
        "param" | "param::entry" | "param::func" => Space::Param,
        _ => return None,
    })
}

fn space_of(op: &Op<'_, '_>) -> Space {
    op.modifiers.iter().find_map(|modifier| space(modifier)).unwrap_or(Space::Generic)
}

fn is_strong(op: &Op<'_, '_>) -> bool {
    ["volatile", "relaxed", "acquire", "release", "mmio"].iter().any(|name| op.has(name))
}

impl<'a> Decoder<'a, '_, '_> {
    pub(super) fn memory(&mut self, op: &Op<'a, '_>) -> Decoded {
        match op.name {
            "mov" => self.copy(op),
            "ld" | "ldu" => self.load(op),
            "st" => self.store(op),
            "atom" | "red" => self.atomic(op),
            "cvta" => self.convert_address(op),
            "isspacep" => {
                let window = match space_of(op) {
                    Space::Shared => Some(SHARED_WINDOW),
                    Space::Local => Some(LOCAL_WINDOW),
                    Space::Param => Some(PARAM_WINDOW),
                    _ => None,
                };
                let into = self.predicate(op.operand(0)?)?;
                let a = self.source(op.operand(1)?, Type::Bits(64))?;
                // constants lie among the global addresses
                Ok(Code::IsSpace { into, a, window })
            }
            "cp" => self.async_copy(op),
            "createpolicy" => {
                let into = self.register(op.operand(0)?)?;
                let a = self.value(0);
                Ok(Code::Map1 { map: map1!(|x: u64| x), into, a })
            }
            // caches are not modelled
            _ => Ok(Code::Nothing),
        }
    }

    fn copy(&mut self, op: &Op<'a, '_>) -> Decoded {
        op.only(&[])?;
        let kind = op.kind()?;
        if kind == Type::Predicate {
            let into = self.predicate(op.operand(0)?)?;
            return Ok(Code::Assign { into, a: self.condition(op.operand(1)?)? });
        }
        let bits = kind.bits();
        match (op.operand(0)?, op.operand(1)?) {
            _ if bits > 64 => unsupported(),
            (Operand::Vector(parts), from) => {
                let into = parts.iter().map(|part| self.register_or_none(part));
                let into: Box<[Option<Register>]> = into.collect::<Result<_, _>>()?;
                let part = part_bits(bits, into.len())?;
                Ok(Code::Unpack { into, a: self.source(from, kind)?, bits: part })
            }
            (into, from @ Operand::Vector(parts)) => {
                let into = self.register(into)?;
                let part = part_bits(bits, parts.len())?;
                Ok(Code::Pack { into, parts: self.sources(from, Type::Bits(part))?, bits: part })
            }
            (into, Operand::Name(name, 0))
                if self.find(name).is_none() && special(name).is_some() =>
            {
                let into = self.register(into)?;
                special(name)
                    .map(|special| Code::Special { into, special })
                    .ok_or(Reject::Unsupported)
            }
            (into, from) => {
                let into = self.register(into)?;
                Ok(Code::Map1 { map: map1!(|x: u64| x), into, a: self.source(from, kind)? })
            }
        }
    }

    fn note_width(&mut self, space: Space, bytes: u32) {
        if matches!(space, Space::Shared | Space::Generic) {
            self.linker.granule = self.linker.granule.min(bytes);
        }
    }

    fn check_access(&self, op: &Op<'a, '_>) -> Result<(u32, u32), Reject> {
        let known = |modifier: &&str| {
            is_hint(modifier)
                || space(modifier).is_some()
                || matches!(*modifier, "v2" | "v4" | "v8")
        };
        if !op.modifiers.iter().all(known) {
            return unsupported();
        }
        let bits = op.kind()?.bits();
        if !matches!(bits, 8 | 16 | 32 | 64) {
            return unsupported();
        }
        let count = match () {
            () if op.has("v2") => 2,
            () if op.has("v4") => 4,
            () if op.has("v8") => 8,
            () => 1,
        };
        Ok((bits / 8, count))
    }

    fn load(&mut self, op: &Op<'a, '_>) -> Decoded {
        let (bytes, count) = self.check_access(op)?;
        let space = space_of(op);
        let registers: Box<[Option<Register>]> = match op.operand(0)? {
            Operand::Vector(parts) => {
                parts.iter().map(|part| self.register_or_none(part)).collect::<Result<_, _>>()?
            }
            single => [self.register_or_none(single)?].into(),
        };
        if registers.len() != count as usize {
            return Err(Reject::wrong(
                "a vector of as many registers",
                &super::text(op.operand(0)?),
            ));
        }
        self.note_width(space, bytes);
        Ok(Code::Load(Box::new(Access {
            address: self.address(op.operand(1)?, space)?,
            bytes,
            signed: matches!(op.kind()?, Type::Signed(_)),
            strong: is_strong(op),
            registers,
            values: Box::new([]),
        })))
    }

    fn store(&mut self, op: &Op<'a, '_>) -> Decoded {
        let (bytes, count) = self.check_access(op)?;
        let space = space_of(op);
        let kind = op.kind()?;
        let values = self.sources(op.operand(1)?, kind)?;
        if values.len() != count as usize {
            return Err(Reject::wrong("a vector of as many values", &super::text(op.operand(1)?)));
        }
        self.note_width(space, bytes);
        Ok(Code::Store(Box::new(Access {
            address: self.address(op.operand(0)?, space)?,
            bytes,
            signed: false,
            strong: is_strong(op),
            registers: Box::new([]),
            values,
        })))
    }

    fn atomic(&mut self, op: &Op<'a, '_>) -> Decoded {
        const OPERATIONS: &[&str] =
            &["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"];
        let known = |modifier: &&str| {
            is_hint(modifier)
                || space(modifier).is_some()
                || OPERATIONS.contains(modifier)
                || matches!(*modifier, "v2" | "v4" | "v8")
        };
        let name = op.modifiers.iter().find(|modifier| OPERATIONS.contains(modifier));
        let (true, Some(name)) = (op.modifiers.iter().all(known), name) else {
            return unsupported();
        };
        let (kind, space) = (op.kind()?, space_of(op));
        let combine = operation(name, kind)?;
        let at = usize::from(op.name == "atom");
        let values = self.sources(op.operand(at + 1)?, kind)?;
        let into: Vec<Option<Register>> = match op.operand(0)? {
            Operand::Vector(parts) if at == 1 => {
                parts.iter().map(|part| self.register_or_none(part)).collect::<Result<_, _>>()?
            }
            single if at == 1 => vec![self.register_or_none(single)?],
            _ => vec![None; values.len()],
        };
        let address = self.address(op.operand(at)?, space)?;
        let swap = match *name {
            "cas" => Some(self.source(op.operand(at + 2)?, kind)?),
            _ => None,
        };
        let bytes = kind.bits() / 8;
        self.note_width(space, bytes);
        if into.len() != values.len() {
            return Err(Reject::wrong("a vector of as many values", op.name));
        }
        // the elements of a vector are atomic one by one
        let mut last = Code::Nothing;
        for (index, (&value, &into)) in values.iter().zip(&into).enumerate() {
            if index > 0 {
                self.push(self.guard, last);
            }
            let offset = address.offset.wrapping_add(index as i64 * i64::from(bytes));
            let address = Address { offset, ..address };
            last = Code::Atomic(Box::new(Atomic { address, bytes, combine, swap, into, value }));
        }
        Ok(last)
    }

    fn convert_address(&mut self, op: &Op<'a, '_>) -> Decoded {
        let into = self.register(op.operand(0)?)?;
        let a = self.source(op.operand(1)?, Type::Bits(64))?;
        let window = match space_of(op) {
            Space::Shared => SHARED_WINDOW,
            Space::Local => LOCAL_WINDOW,
            // parameters of a function lie in its frame
            Space::Param if self.index != 0 => LOCAL_WINDOW,
            Space::Param => PARAM_WINDOW,
            Space::Global => 0,
            Space::Generic => return unsupported(),
        };
        let b = self.value(window);
        let map: Map2 = if op.has("to") {
            map2!(|x: u64, window: u64| x.wrapping_sub(window))
        } else {
            map2!(|x: u64, window: u64| x.wrapping_add(window))
        };
        Ok(Code::Map2 { map, into, a, b })
    }

    fn async_copy(&mut self, op: &Op<'a, '_>) -> Decoded {
        if op.modifiers.first() != Some(&"async") {
            return unsupported();
        }
        match op.modifiers.get(1) {
            Some(&"commit_group") => Ok(Code::AsyncCommit),
            Some(&"wait_all") => Ok(Code::AsyncWait { left: 0 }),
            Some(&"wait_group") => match op.operand(0)? {
                Operand::Number(Number::Integer(left)) => {
                    Ok(Code::AsyncWait { left: u32::try_from(*left).unwrap_or(u32::MAX) })
                }
                other => Err(Reject::wrong("a number", &super::text(other))),
            },
            Some(&("ca" | "cg")) => {
                let Operand::Number(Number::Integer(bytes @ (4 | 8 | 16))) = op.operand(2)? else {
                    return Err(Reject::wrong("4, 8 or 16", &super::text(op.operand(2)?)));
                };
                let to = self.address(op.operand(0)?, Space::Shared)?;
                let from = self.address(op.operand(1)?, Space::Global)?;
                let (mut valid, mut ignore) = (None, None);
                let hint = op.has("L2::cache_hint");
                if op.count() > 3 + usize::from(hint) {
                    let operand = op.operand(3)?;
                    match self.source(operand, Type::Unsigned(32)) {
                        Ok(source) => valid = Some::<Source>(source),
                        Err(_) => ignore = Some(self.condition(operand)?),
                    }
                }
                let bytes = *bytes as u32;
                self.note_width(Space::Shared, bytes);
                Ok(Code::AsyncCopy(Box::new(AsyncCopy { to, from, bytes, valid, ignore })))
            }
            _ => unsupported(),
        }
    }
}

fn part_bits(bits: u32, parts: usize) -> Result<u32, Reject> {
    match parts {
        2 if bits >= 16 => Ok(bits / 2),
        4 if bits >= 32 => Ok(bits / 4),
        8 if bits >= 64 => Ok(bits / 8),
        _ => Err(Reject::wrong("a vector of 2, 4 or 8", &format!("a vector of {parts}"))),
    }
}

/// The new value, from the old one and the operand; for `cas` whether they are equal.
fn operation(name: &str, kind: Type) -> Result<Scalar, Reject> {
    use super::integer::by_type;
    macro_rules! both {
        ($from:ident, $to:ident, |$x:ident, $y:ident| $body:expr) => {
            scalar!(|a: u32, b: u32| {
                let half = |a: u32, b: u32| {
                    let ($x, $y) = ($from(a as u16), $from(b as u16));
                    u32::from($to($body))
                };
                half(a >> 16, b >> 16) << 16 | half(a, b)
            })
        };
    }
    Ok(match (name, kind) {
        ("add", Type::F32) => scalar!(|x: f32, y: f32| x + y),
        ("add", Type::F64) => scalar!(|x: f64, y: f64| x + y),
        ("add", Type::F16) => scalar!(|x: u16, y: u16| to_f16(from_f16(x) + from_f16(y))),
        ("add", Type::Bf16) => scalar!(|x: u16, y: u16| to_bf16(from_bf16(x) + from_bf16(y))),
        ("add", Type::F16x2) => both!(from_f16, to_f16, |x, y| x + y),
        ("add", Type::Bf16x2) => both!(from_bf16, to_bf16, |x, y| x + y),
        ("min", Type::F16x2) => both!(from_f16, to_f16, |x, y| minimum(x, y)),
        ("max", Type::F16x2) => both!(from_f16, to_f16, |x, y| maximum(x, y)),
        ("min", Type::Bf16x2) => both!(from_bf16, to_bf16, |x, y| minimum(x, y)),
        ("max", Type::Bf16x2) => both!(from_bf16, to_bf16, |x, y| maximum(x, y)),
        ("add", _) => by_type!(kind, scalar, T, |x, y| x.wrapping_add(y)),
        ("min", _) => by_type!(kind, scalar, T, |x, y| x.min(y)),
        ("max", _) => by_type!(kind, scalar, T, |x, y| x.max(y)),
        ("and", Type::Bits(32 | 64)) => scalar!(|x: u64, y: u64| x & y),
        ("or", Type::Bits(32 | 64)) => scalar!(|x: u64, y: u64| x | y),
        ("xor", Type::Bits(32 | 64)) => scalar!(|x: u64, y: u64| x ^ y),
        ("exch", Type::Bits(32 | 64)) => scalar!(|_x: u64, y: u64| y),
        ("cas", Type::Bits(16)) => scalar!(|x: u16, y: u16| u32::from(x == y)),
        ("cas", Type::Bits(32)) => scalar!(|x: u32, y: u32| u32::from(x == y)),
        ("cas", Type::Bits(64)) => scalar!(|x: u64, y: u64| u32::from(x == y)),
        ("inc", Type::Unsigned(32)) => scalar!(|x: u32, y: u32| if x >= y { 0 } else { x + 1 }),
        ("dec", Type::Unsigned(32)) => {
            scalar!(|x: u32, y: u32| if x == 0 || x > y { y } else { x - 1 })
        }
        _ => return unsupported(),
    })
}
