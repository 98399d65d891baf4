use super::arithmetic::unsupported;
use super::integer::by_type;
use super::op::{Op, Type};
use super::{Decoded, Decoder};
use crate::number::{Map1, Map2, Map3, map1, map2, map3};
use crate::program::{Code, Condition, Join};

impl<'a> Decoder<'a, '_, '_> {
    pub(super) fn logic(&mut self, op: &Op<'a, '_>) -> Decoded {
        let kind = op.kind()?;
        if kind == Type::Predicate {
            return self.predicates(op);
        }
        let bits = kind.bits();
        match op.name {
            "and" | "or" | "xor" => {
                op.only(&[])?;
                let map: Map2 = match (op.name, bits) {
                    ("and", 64) => map2!(|x: u64, y: u64| x & y),
                    ("or", 64) => map2!(|x: u64, y: u64| x | y),
                    ("xor", 64) => map2!(|x: u64, y: u64| x ^ y),
                    ("and", 16 | 32) => map2!(|x: u32, y: u32| x & y),
                    ("or", 16 | 32) => map2!(|x: u32, y: u32| x | y),
                    ("xor", 16 | 32) => map2!(|x: u32, y: u32| x ^ y),
                    _ => return unsupported(),
                };
                self.map2(op, map, kind)
            }
            "not" => {
                op.only(&[])?;
                let map = by_type!(kind, map1, T, |x| !x);
                self.map1(op, map, kind)
            }
            "cnot" => {
                op.only(&[])?;
                let map = by_type!(kind, map1, T, |x| T::from(x == 0));
                self.map1(op, map, kind)
            }
            "shl" => {
                op.only(&[])?;
                let map: Map2 = match bits {
                    16 => map2!(|x: u16, y: u32| x.checked_shl(y).unwrap_or(0)),
                    32 => map2!(|x: u32, y: u32| x.checked_shl(y).unwrap_or(0)),
                    64 => map2!(|x: u64, y: u32| x.checked_shl(y).unwrap_or(0)),
                    _ => return unsupported(),
                };
                self.map2_of(op, map, [kind, Type::Unsigned(32)])
            }
            "shr" => {
                op.only(&[])?;
                let map: Map2 = match kind {
                    Type::Signed(16) => map2!(|x: i16, y: u32| x >> y.min(15)),
                    Type::Signed(32) => map2!(|x: i32, y: u32| x >> y.min(31)),
                    Type::Signed(64) => map2!(|x: i64, y: u32| x >> y.min(63)),
                    _ => match bits {
                        16 => map2!(|x: u16, y: u32| x.checked_shr(y).unwrap_or(0)),
                        32 => map2!(|x: u32, y: u32| x.checked_shr(y).unwrap_or(0)),
                        64 => map2!(|x: u64, y: u32| x.checked_shr(y).unwrap_or(0)),
                        _ => return unsupported(),
                    },
                };
                self.map2_of(op, map, [kind, Type::Unsigned(32)])
            }
            "shf" => self.funnel(op, kind),
            "lop3" => self.lookup(op, kind),
            "prmt" => self.permute(op, kind),
            "bfe" => {
                op.only(&[])?;
                let map: Map3 = match kind {
                    Type::Unsigned(32) => map3!(|x: u32, at: u32, length: u32| {
                        extract(x.into(), at & 255, length & 255, 32) as u32
                    }),
                    Type::Unsigned(64) => {
                        map3!(|x: u64, at: u32, length: u32| extract(x, at & 255, length & 255, 64))
                    }
                    Type::Signed(32) => map3!(|x: u32, at: u32, length: u32| {
                        extract_signed(x.into(), at & 255, length & 255, 32) as u32
                    }),
                    Type::Signed(64) => {
                        map3!(|x: u64, at: u32, length: u32| extract_signed(
                            x,
                            at & 255,
                            length & 255,
                            64
                        ))
                    }
                    _ => return unsupported(),
                };
                self.map3_of(op, map, [kind, Type::Unsigned(32), Type::Unsigned(32)])
            }
            "bfi" => self.insert(op, kind),
            "popc" | "clz" | "brev" => {
                op.only(&[])?;
                let map: Map1 = match (op.name, bits) {
                    ("popc", 32) => map1!(|x: u32| x.count_ones()),
                    ("popc", 64) => map1!(|x: u64| x.count_ones()),
                    ("clz", 32) => map1!(|x: u32| x.leading_zeros()),
                    ("clz", 64) => map1!(|x: u64| x.leading_zeros()),
                    ("brev", 32) => map1!(|x: u32| x.reverse_bits()),
                    ("brev", 64) => map1!(|x: u64| x.reverse_bits()),
                    _ => return unsupported(),
                };
                self.map1(op, map, kind)
            }
            "bfind" => {
                op.only(&["shiftamt"])?;
                let map: Map1 = match (kind, op.has("shiftamt")) {
                    (Type::Unsigned(32), false) => map1!(|x: u32| top(x.into())),
                    (Type::Unsigned(64), false) => map1!(|x: u64| top(x)),
                    (Type::Signed(32), false) => {
                        map1!(|x: i32| top(u64::from((x ^ (x >> 31)) as u32)))
                    }
                    (Type::Signed(64), false) => map1!(|x: i64| top((x ^ (x >> 63)) as u64)),
                    (Type::Unsigned(32), true) => map1!(|x: u32| shift_of(top(x.into()), 31)),
                    (Type::Unsigned(64), true) => map1!(|x: u64| shift_of(top(x), 63)),
                    (Type::Signed(32), true) => {
                        map1!(|x: i32| shift_of(top(u64::from((x ^ (x >> 31)) as u32)), 31))
                    }
                    (Type::Signed(64), true) => {
                        map1!(|x: i64| shift_of(top((x ^ (x >> 63)) as u64), 63))
                    }
                    _ => return unsupported(),
                };
                self.map1(op, map, kind)
            }
            "fns" => {
                op.only(&[])?;
                let map = map3!(|mask: u32, base: u32, offset: i32| find_nth(mask, base, offset));
                self.map3(op, map, kind)
            }
            "szext" => {
                op.only(&["clamp", "wrap"])?;
                let map: Map2 = match (kind, op.has("wrap")) {
                    (Type::Unsigned(32), false) => {
                        map2!(|x: u32, n: u32| extract(x.into(), 0, n, 32) as u32)
                    }
                    (Type::Unsigned(32), true) => {
                        map2!(|x: u32, n: u32| extract(x.into(), 0, n & 31, 32) as u32)
                    }
                    (Type::Signed(32), false) => {
                        map2!(|x: u32, n: u32| extract_signed(x.into(), 0, n, 32) as u32)
                    }
                    (Type::Signed(32), true) => {
                        map2!(|x: u32, n: u32| extract_signed(x.into(), 0, n & 31, 32) as u32)
                    }
                    _ => return unsupported(),
                };
                self.map2_of(op, map, [kind, Type::Unsigned(32)])
            }
            "bmsk" => {
                op.only(&["clamp", "wrap"])?;
                let map: Map2 = if op.has("wrap") {
                    map2!(|at: u32, n: u32| (((1u64 << (n & 31)) - 1) << (at & 31)) as u32)
                } else {
                    map2!(|at: u32, n: u32| ((1u64 << n.min(32)) - 1).checked_shl(at).unwrap_or(0)
                        as u32)
                };
                self.map2(op, map, kind)
            }
            _ => unsupported(),
        }
    }

    fn predicates(&mut self, op: &Op<'a, '_>) -> Decoded {
        op.only(&[])?;
        let into = self.predicate(op.operand(0)?)?;
        let a = self.condition(op.operand(1)?)?;
        let join = match op.name {
            "not" => return Ok(Code::Assign { into, a: Condition { negated: !a.negated, ..a } }),
            "and" => Join::And,
            "or" => Join::Or,
            "xor" => Join::Xor,
            _ => return unsupported(),
        };
        Ok(Code::Logic { join, into, a, b: self.condition(op.operand(2)?)? })
    }

    fn funnel(&mut self, op: &Op<'a, '_>, kind: Type) -> Decoded {
        op.only(&["l", "r", "clamp", "wrap"])?;
        let map: Map3 = match (op.has("l"), op.has("wrap")) {
            (true, true) => {
                map3!(|low: u32, high: u32, n: u32| (wide(low, high) << (n & 31) >> 32) as u32)
            }
            (true, false) => {
                map3!(|low: u32, high: u32, n: u32| (wide(low, high) << n.min(32) >> 32) as u32)
            }
            (false, true) => {
                map3!(|low: u32, high: u32, n: u32| (wide(low, high) >> (n & 31)) as u32)
            }
            (false, false) => {
                map3!(|low: u32, high: u32, n: u32| (wide(low, high) >> n.min(32)) as u32)
            }
        };
        self.map3(op, map, kind)
    }

    /// `lop3`: the table is a constant, and its function a sum of the eight cases.
    fn lookup(&mut self, op: &Op<'a, '_>, kind: Type) -> Decoded {
        op.only(&[])?;
        let into = self.register(op.operand(0)?)?;
        let mut sources = Vec::new();
        for index in 1..5 {
            sources.push(self.source(op.operand(index)?, kind)?);
        }
        let mixed = self.scopes.temporary();
        // two steps, since maps have three operands: the cases with the table where a is 1, where it is 0
        self.push(
            crate::program::Guard::Always,
            Code::Map3 {
                map: map3!(|b: u32, c: u32, table: u32| cases(b, c, table)),
                into: mixed,
                a: sources[1],
                b: sources[2],
                c: sources[3],
            },
        );
        Ok(Code::Map2 {
            map: map2!(|a: u32, mixed: u64| (a & (mixed >> 32) as u32) | (!a & mixed as u32)),
            into,
            a: sources[0],
            b: crate::program::Source(mixed),
        })
    }

    fn permute(&mut self, op: &Op<'a, '_>, kind: Type) -> Decoded {
        op.only(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"])?;
        let map: Map3 = match op.modifiers.first() {
            None => map3!(|a: u32, b: u32, selector: u32| {
                pick(a, b, [0, 4, 8, 12].map(|at| selector >> at & 15))
            }),
            Some(&"f4e") => {
                map3!(|a: u32, b: u32, s: u32| pick(a, b, [0, 1, 2, 3].map(|i| (s + i) & 7)))
            }
            Some(&"b4e") => {
                map3!(|a: u32, b: u32, s: u32| pick(a, b, [8, 7, 6, 5].map(|i| ((s & 3) + i) & 7)))
            }
            Some(&"rc8") => map3!(|a: u32, b: u32, s: u32| pick(a, b, [s & 3; 4])),
            Some(&"ecl") => {
                map3!(|a: u32, b: u32, s: u32| pick(a, b, [0, 1, 2, 3].map(|i: u32| i.max(s & 3))))
            }
            Some(&"ecr") => {
                map3!(|a: u32, b: u32, s: u32| pick(a, b, [0, 1, 2, 3].map(|i: u32| i.min(s & 3))))
            }
            Some(_) => {
                map3!(|a: u32, b: u32, s: u32| pick(a, b, [0, 1, 0, 1].map(|i| i + 2 * (s & 1))))
            }
        };
        self.map3(op, map, kind)
    }

    fn insert(&mut self, op: &Op<'a, '_>, kind: Type) -> Decoded {
        op.only(&[])?;
        let into = self.register(op.operand(0)?)?;
        let field = self.source(op.operand(1)?, kind)?;
        let base = self.source(op.operand(2)?, kind)?;
        let at = self.source(op.operand(3)?, Type::Unsigned(32))?;
        let length = self.source(op.operand(4)?, Type::Unsigned(32))?;
        let mask = self.scopes.temporary();
        let (make, place): (Map2, Map3) = match kind.bits() {
            32 => (
                map2!(|at: u32, length: u32| field_mask(at & 255, length & 255, 32)),
                map3!(|field: u32, base: u32, mask: u64| {
                    let moved = u64::from(field).checked_shl(mask.trailing_zeros()).unwrap_or(0);
                    (u64::from(base) & !mask | moved & mask) as u32
                }),
            ),
            64 => (
                map2!(|at: u32, length: u32| field_mask(at & 255, length & 255, 64)),
                map3!(|field: u64, base: u64, mask: u64| {
                    let moved = field.checked_shl(mask.trailing_zeros()).unwrap_or(0);
                    base & !mask | moved & mask
                }),
            ),
            _ => return unsupported(),
        };
        self.push(
            crate::program::Guard::Always,
            Code::Map2 { map: make, into: mask, a: at, b: length },
        );
        Ok(Code::Map3 { map: place, into, a: field, b: base, c: crate::program::Source(mask) })
    }
}

fn wide(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The results where a is 1, and below them those where it is 0.
fn cases(b: u32, c: u32, table: u32) -> u64 {
    let half = |table: u32| {
        let bit = |index: u32| 0u32.wrapping_sub(table >> index & 1);
        (bit(0) & !b & !c) | (bit(1) & !b & c) | (bit(2) & b & !c) | (bit(3) & b & c)
    };
    wide(half(table), half(table >> 4))
}

fn pick(a: u32, b: u32, selectors: [u32; 4]) -> u32 {
    let bytes = wide(a, b).to_le_bytes();
    let chosen = selectors.map(|selector| {
        let byte = bytes[(selector & 7) as usize];
        if selector & 8 == 0 { byte } else { 0u8.wrapping_sub(byte >> 7) }
    });
    u32::from_le_bytes(chosen)
}

fn field_mask(at: u32, length: u32, bits: u32) -> u64 {
    if at >= bits || length == 0 {
        return 0;
    }
    let length = length.min(bits - at);
    (u64::MAX >> (64 - length)) << at
}

fn extract(value: u64, at: u32, length: u32, bits: u32) -> u64 {
    let mask = field_mask(at, length, bits);
    (value & mask).checked_shr(mask.trailing_zeros()).unwrap_or(0)
}

fn extract_signed(value: u64, at: u32, length: u32, bits: u32) -> u64 {
    if length == 0 {
        return 0;
    }
    let last = (at + length - 1).min(bits - 1);
    let sign = value >> last & 1;
    let mask = field_mask(at, length, bits);
    let kept = if mask == 0 { 0 } else { mask.count_ones() };
    let field = extract(value, at, length, bits);
    if sign == 0 { field } else { field | u64::MAX.checked_shl(kept).unwrap_or(0) }
}

fn top(value: u64) -> u32 {
    value.checked_ilog2().unwrap_or(u32::MAX)
}

fn shift_of(top: u32, last: u32) -> u32 {
    if top == u32::MAX { top } else { last - top }
}

/// `fns`: the position of the n-th bit set, counted from a base.
fn find_nth(mask: u32, base: u32, offset: i32) -> u32 {
    let base = base.min(31) as i32;
    if offset == 0 {
        return if mask >> base & 1 == 1 { base as u32 } else { u32::MAX };
    }
    let (mut at, step) = (base, offset.signum());
    let mut left = offset.unsigned_abs();
    while (0..32).contains(&at) {
        if mask >> at & 1 == 1 {
            left -= 1;
            if left == 0 {
                return at as u32;
            }
        }
        at += step;
    }
    u32::MAX
}
