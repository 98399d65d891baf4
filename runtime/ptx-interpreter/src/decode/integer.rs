use super::arithmetic::unsupported;
use super::op::{Op, Type};
use super::{Decoded, Decoder};
use crate::number::{Map2, Map3, map1, map2, map3};
use crate::program::{Carry, CarryKind, Code};

/// A function for each integer type of 16, 32 and 64 bits; `.bN` counts as unsigned.
macro_rules! by_type {
    ($kind:expr, $map:ident, $t:ident, |$($x:ident),*| $body:expr) => {
        match $kind {
            Type::Unsigned(16) | Type::Bits(16) => by_type!(@ $map, $t, u16, |$($x),*| $body),
            Type::Unsigned(32) | Type::Bits(32) => by_type!(@ $map, $t, u32, |$($x),*| $body),
            Type::Unsigned(64) | Type::Bits(64) => by_type!(@ $map, $t, u64, |$($x),*| $body),
            Type::Signed(16) => by_type!(@ $map, $t, i16, |$($x),*| $body),
            Type::Signed(32) => by_type!(@ $map, $t, i32, |$($x),*| $body),
            Type::Signed(64) => by_type!(@ $map, $t, i64, |$($x),*| $body),
            _ => return unsupported(),
        }
    };
    (@ $map:ident, $t:ident, $real:ty, |$($x:ident),*| $body:expr) => {{
        #[allow(dead_code)]
        type $t = $real;
        $map!(|$($x: $real),*| $body)
    }};
}
pub(super) use by_type;

/// Both halves of 32 bits.
macro_rules! halves {
    ($t:ty, |$x:ident, $y:ident| $body:expr) => {
        map2!(|a: u32, b: u32| {
            let half = |$x: $t, $y: $t| -> u16 { $body as u16 };
            let high = half((a >> 16) as $t, (b >> 16) as $t);
            u32::from(high) << 16 | u32::from(half(a as $t, b as $t))
        })
    };
}

impl<'a> Decoder<'a, '_, '_> {
    pub(super) fn integer(&mut self, op: &Op<'a, '_>) -> Decoded {
        let kind = op.kind()?;
        match op.name {
            "add" | "sub" | "addc" | "subc" | "mad" | "madc"
                if op.has("cc") || op.name.ends_with('c') =>
            {
                self.carry(op, kind)
            }
            "add" if op.has("sat") => {
                op.only(&["sat"])?;
                self.map2(op, map2!(|x: i32, y: i32| x.saturating_add(y)), kind)
            }
            "sub" if op.has("sat") => {
                op.only(&["sat"])?;
                self.map2(op, map2!(|x: i32, y: i32| x.saturating_sub(y)), kind)
            }
            "add" | "sub" | "min" | "max" | "rem" => {
                op.only(&[])?;
                let map = simple(op.name, kind);
                match map {
                    Some(map) => self.map2(op, map, kind),
                    None => unsupported(),
                }
            }
            "div" => {
                op.only(&[])?;
                // division by zero has all ones, as the hardware gives
                let map = by_type!(kind, map2, T, |x, y| if y == 0 {
                    !(0 as T)
                } else {
                    x.wrapping_div(y)
                });
                self.map2(op, map, kind)
            }
            "mul" => self.multiply(op, kind),
            "mad" => self.multiply_add(op, kind),
            "mul24" | "mad24" => self.multiply_24(op, kind),
            "abs" => {
                op.only(&[])?;
                let map = match kind {
                    Type::Signed(16) => map1!(|x: i16| x.wrapping_abs()),
                    Type::Signed(32) => map1!(|x: i32| x.wrapping_abs()),
                    Type::Signed(64) => map1!(|x: i64| x.wrapping_abs()),
                    _ => return unsupported(),
                };
                self.map1(op, map, kind)
            }
            "neg" => {
                op.only(&[])?;
                let map = by_type!(kind, map1, T, |x| x.wrapping_neg());
                self.map1(op, map, kind)
            }
            "sad" => {
                op.only(&[])?;
                let map = by_type!(kind, map3, T, |x, y, z| {
                    z.wrapping_add(if x > y { x.wrapping_sub(y) } else { y.wrapping_sub(x) })
                });
                self.map3(op, map, kind)
            }
            "dp4a" => {
                op.only(&[])?;
                let map = dot_bytes(op);
                self.map3(op, map, kind)
            }
            "vabsdiff4" => {
                op.only(&["add"])?;
                let map = differences(op)?;
                self.map3(op, map, kind)
            }
            "dp2a" => {
                op.only(&["lo", "hi"])?;
                let map = dot_halves(op);
                self.map3(op, map, kind)
            }
            _ => unsupported(),
        }
    }

    fn multiply(&mut self, op: &Op<'a, '_>, kind: Type) -> Decoded {
        op.only(&["lo", "hi", "wide"])?;
        let map: Map2 = if op.has("wide") {
            match kind {
                Type::Unsigned(16) => map2!(|x: u16, y: u16| u32::from(x) * u32::from(y)),
                Type::Signed(16) => map2!(|x: i16, y: i16| i32::from(x) * i32::from(y)),
                Type::Unsigned(32) => map2!(|x: u32, y: u32| u64::from(x) * u64::from(y)),
                Type::Signed(32) => map2!(|x: i32, y: i32| i64::from(x) * i64::from(y)),
                _ => return unsupported(),
            }
        } else if op.has("hi") {
            match kind {
                Type::Unsigned(16) => {
                    map2!(|x: u16, y: u16| ((u32::from(x) * u32::from(y)) >> 16) as u16)
                }
                Type::Signed(16) => {
                    map2!(|x: i16, y: i16| ((i32::from(x) * i32::from(y)) >> 16) as i16)
                }
                Type::Unsigned(32) => map2!(|x: u32, y: u32| high_u32(x, y)),
                Type::Signed(32) => map2!(|x: i32, y: i32| high_i32(x, y)),
                Type::Unsigned(64) => map2!(|x: u64, y: u64| high_u64(x, y)),
                Type::Signed(64) => map2!(|x: i64, y: i64| high_i64(x, y)),
                _ => return unsupported(),
            }
        } else {
            by_type!(kind, map2, T, |x, y| x.wrapping_mul(y))
        };
        self.map2(op, map, kind)
    }

    fn multiply_add(&mut self, op: &Op<'a, '_>, kind: Type) -> Decoded {
        op.only(&["lo", "hi", "wide", "sat"])?;
        if op.has("sat") {
            let map = map3!(|x: i32, y: i32, z: i32| high_i32(x, y).saturating_add(z));
            return self.map3(op, map, kind);
        }
        if op.has("wide") {
            let (map, sum): (Map3, _) = match kind {
                Type::Unsigned(16) => (
                    map3!(|x: u16, y: u16, z: u32| (u32::from(x) * u32::from(y)).wrapping_add(z)),
                    Type::Unsigned(32),
                ),
                Type::Signed(16) => (
                    map3!(|x: i16, y: i16, z: i32| (i32::from(x) * i32::from(y)).wrapping_add(z)),
                    Type::Signed(32),
                ),
                Type::Unsigned(32) => (
                    map3!(|x: u32, y: u32, z: u64| (u64::from(x) * u64::from(y)).wrapping_add(z)),
                    Type::Unsigned(64),
                ),
                Type::Signed(32) => (
                    map3!(|x: i32, y: i32, z: i64| (i64::from(x) * i64::from(y)).wrapping_add(z)),
                    Type::Signed(64),
                ),
                _ => return unsupported(),
            };
            return self.map3_of(op, map, [kind, kind, sum]);
        }
        let map: Map3 = if op.has("hi") {
            match kind {
                Type::Unsigned(32) => {
                    map3!(|x: u32, y: u32, z: u32| high_u32(x, y).wrapping_add(z))
                }
                Type::Signed(32) => map3!(|x: i32, y: i32, z: i32| high_i32(x, y).wrapping_add(z)),
                Type::Unsigned(64) => {
                    map3!(|x: u64, y: u64, z: u64| high_u64(x, y).wrapping_add(z))
                }
                Type::Signed(64) => map3!(|x: i64, y: i64, z: i64| high_i64(x, y).wrapping_add(z)),
                _ => return unsupported(),
            }
        } else {
            by_type!(kind, map3, T, |x, y, z| x.wrapping_mul(y).wrapping_add(z))
        };
        self.map3(op, map, kind)
    }

    fn multiply_24(&mut self, op: &Op<'a, '_>, kind: Type) -> Decoded {
        op.only(&["lo", "hi"])?;
        let shift = op.has("hi");
        if op.name == "mul24" {
            let map: Map2 = match (kind, shift) {
                (Type::Unsigned(32), false) => map2!(|x: u32, y: u32| product_u24(x, y) as u32),
                (Type::Unsigned(32), true) => {
                    map2!(|x: u32, y: u32| (product_u24(x, y) >> 16) as u32)
                }
                (Type::Signed(32), false) => map2!(|x: i32, y: i32| product_i24(x, y) as i32),
                (Type::Signed(32), true) => {
                    map2!(|x: i32, y: i32| (product_i24(x, y) >> 16) as i32)
                }
                _ => return unsupported(),
            };
            return self.map2(op, map, kind);
        }
        let map: Map3 = match (kind, shift) {
            (Type::Unsigned(32), false) => {
                map3!(|x: u32, y: u32, z: u32| (product_u24(x, y) as u32).wrapping_add(z))
            }
            (Type::Unsigned(32), true) => {
                map3!(|x: u32, y: u32, z: u32| ((product_u24(x, y) >> 16) as u32).wrapping_add(z))
            }
            (Type::Signed(32), false) => {
                map3!(|x: i32, y: i32, z: i32| (product_i24(x, y) as i32).wrapping_add(z))
            }
            (Type::Signed(32), true) => {
                map3!(|x: i32, y: i32, z: i32| ((product_i24(x, y) >> 16) as i32).wrapping_add(z))
            }
            _ => return unsupported(),
        };
        self.map3(op, map, kind)
    }

    fn carry(&mut self, op: &Op<'a, '_>, kind: Type) -> Decoded {
        op.only(&["cc", "lo", "hi"])?;
        let bits = kind.bits();
        if !matches!(kind, Type::Bits(32 | 64) | Type::Unsigned(32 | 64) | Type::Signed(32 | 64)) {
            return unsupported();
        }
        let carry_kind = match op.name {
            "add" | "addc" => CarryKind::Add,
            "sub" | "subc" => CarryKind::Subtract,
            _ if op.has("hi") => CarryKind::MultiplyHigh,
            _ => CarryKind::MultiplyLow,
        };
        let into = self.register(op.operand(0)?)?;
        let a = self.source(op.operand(1)?, kind)?;
        let b = self.source(op.operand(2)?, kind)?;
        let c = if op.name.starts_with("mad") { self.source(op.operand(3)?, kind)? } else { b };
        Ok(Code::Carry(Box::new(Carry {
            kind: carry_kind,
            bits,
            signed: matches!(kind, Type::Signed(_)),
            reads: op.name.ends_with('c'),
            writes: op.has("cc"),
            into,
            sources: [a, b, c],
        })))
    }
}

/// Functions without modifiers.
fn simple(name: &str, kind: Type) -> Option<Map2> {
    Some(match (name, kind) {
        ("add", Type::U16x2 | Type::S16x2) => halves!(u16, |x, y| x.wrapping_add(y)),
        ("min", Type::U16x2) => halves!(u16, |x, y| x.min(y)),
        ("min", Type::S16x2) => halves!(i16, |x, y| x.min(y)),
        ("max", Type::U16x2) => halves!(u16, |x, y| x.max(y)),
        ("max", Type::S16x2) => halves!(i16, |x, y| x.max(y)),
        _ => return plain(name, kind).ok(),
    })
}

fn plain(name: &str, kind: Type) -> Result<Map2, super::Reject> {
    Ok(match name {
        "add" => by_type!(kind, map2, T, |x, y| x.wrapping_add(y)),
        "sub" => by_type!(kind, map2, T, |x, y| x.wrapping_sub(y)),
        "min" => by_type!(kind, map2, T, |x, y| x.min(y)),
        "max" => by_type!(kind, map2, T, |x, y| x.max(y)),
        "rem" => by_type!(kind, map2, T, |x, y| if y == 0 { x } else { x.wrapping_rem(y) }),
        _ => return unsupported(),
    })
}

pub(crate) fn high_u32(x: u32, y: u32) -> u32 {
    ((u64::from(x) * u64::from(y)) >> 32) as u32
}

pub(crate) fn high_i32(x: i32, y: i32) -> i32 {
    ((i64::from(x) * i64::from(y)) >> 32) as i32
}

pub(crate) fn high_u64(x: u64, y: u64) -> u64 {
    ((u128::from(x) * u128::from(y)) >> 64) as u64
}

pub(crate) fn high_i64(x: i64, y: i64) -> i64 {
    ((i128::from(x) * i128::from(y)) >> 64) as i64
}

fn product_u24(x: u32, y: u32) -> u64 {
    u64::from(x & 0xff_ffff) * u64::from(y & 0xff_ffff)
}

fn product_i24(x: i32, y: i32) -> i64 {
    i64::from(x << 8 >> 8) * i64::from(y << 8 >> 8)
}

fn is_signed(op: &Op<'_, '_>, index: usize) -> bool {
    matches!(op.types.get(index), Some(Type::Signed(_)))
}

fn dot_bytes(op: &Op<'_, '_>) -> Map3 {
    macro_rules! dot {
        ($a:ty, $b:ty) => {
            map3!(|x: u32, y: u32, z: u32| {
                let (x, y) = (x.to_le_bytes(), y.to_le_bytes());
                let products =
                    x.iter().zip(y).map(|(&x, y)| i32::from(x as $a) * i32::from(y as $b));
                z.wrapping_add(products.sum::<i32>() as u32)
            })
        };
    }
    match (is_signed(op, 0), is_signed(op, 1)) {
        (false, false) => dot!(u8, u8),
        (false, true) => dot!(u8, i8),
        (true, false) => dot!(i8, u8),
        (true, true) => dot!(i8, i8),
    }
}

/// Differences of bytes: in each byte, or their sum and the third operand.
fn differences(op: &Op<'_, '_>) -> Result<Map3, super::Reject> {
    macro_rules! difference {
        ($t:ty, add) => {
            map3!(|x: u32, y: u32, z: u32| {
                let pairs = x.to_le_bytes().into_iter().zip(y.to_le_bytes());
                pairs.fold(z, |sum, (x, y)| sum.wrapping_add((x as $t).abs_diff(y as $t).into()))
            })
        };
        ($t:ty) => {
            map3!(|x: u32, y: u32, _z: u32| {
                let (x, y) = (x.to_le_bytes(), y.to_le_bytes());
                u32::from_le_bytes(
                    [0, 1, 2, 3].map(|at: usize| (x[at] as $t).abs_diff(y[at] as $t)),
                )
            })
        };
    }
    Ok(match (op.types.as_slice(), op.has("add")) {
        ([_, Type::Unsigned(32), Type::Unsigned(32)], true) => difference!(u8, add),
        ([_, Type::Unsigned(32), Type::Unsigned(32)], false) => difference!(u8),
        ([_, Type::Signed(32), Type::Signed(32)], true) => difference!(i8, add),
        ([_, Type::Signed(32), Type::Signed(32)], false) => difference!(i8),
        _ => return unsupported(),
    })
}

fn dot_halves(op: &Op<'_, '_>) -> Map3 {
    macro_rules! dot {
        ($a:ty, $b:ty, $at:expr) => {
            map3!(|x: u32, y: u32, z: u32| {
                let y = y.to_le_bytes();
                let low = i64::from(x as $a) * i64::from(y[$at] as $b);
                let high = i64::from((x >> 16) as $a) * i64::from(y[$at + 1] as $b);
                z.wrapping_add((low + high) as u32)
            })
        };
    }
    match (is_signed(op, 0), is_signed(op, 1), op.has("hi")) {
        (false, false, false) => dot!(u16, u8, 0),
        (false, false, true) => dot!(u16, u8, 2),
        (false, true, false) => dot!(u16, i8, 0),
        (false, true, true) => dot!(u16, i8, 2),
        (true, false, false) => dot!(i16, u8, 0),
        (true, false, true) => dot!(i16, u8, 2),
        (true, true, false) => dot!(i16, i8, 0),
        (true, true, true) => dot!(i16, i8, 2),
    }
}
