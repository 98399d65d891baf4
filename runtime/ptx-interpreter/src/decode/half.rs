use super::arithmetic::unsupported;
use super::floating::{maximum, minimum, strict, with_signs};
use super::op::{Op, Type};
use super::{Decoded, Decoder};
use crate::number::narrow::{from_bf16, from_f16, to_bf16, to_f16};
use crate::number::rounding::{fma_odd, saturate};
use crate::number::{Map1, Map2, Map3, map1, map2, map3};

/// What happens to operands and result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finish {
    Plain,
    Saturate,
    Relu,
    Flush,
    FlushSaturate,
    FlushRelu,
}

#[inline(always)]
fn relu(value: f32) -> f32 {
    if value.is_nan() || value > 0.0 { value } else { 0.0 }
}

/// Rounds to odd in single precision, for a second rounding to 16 bits.
#[inline(always)]
fn narrow_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let bits = nearest.to_bits();
    let inexact = f64::from(nearest) != value && nearest.is_finite() && bits & 1 == 0;
    let beyond = f64::from(nearest).abs() > value.abs();
    let moved = if beyond { bits.wrapping_sub(1) } else { bits + 1 };
    if inexact { f32::from_bits(moved) } else { nearest }
}

#[inline(always)]
pub(crate) fn fma_half(x: f32, y: f32, z: f32) -> f32 {
    narrow_odd(fma_odd(x, y, z))
}

fn flush_f16(value: f32) -> f32 {
    if value.abs() < 6.103_515_6e-5 { 0f32.copysign(value) } else { value }
}

/// A function of one or two halves in each format, with each finish.
macro_rules! halves {
    ($kind:expr, $finish:expr, $map:ident, |$($x:ident),+| $value:expr) => {
        match $kind {
            Type::F16 => halves!(@one $finish, $map, from_f16, to_f16, |$($x),+| $value),
            Type::Bf16 => halves!(@one $finish, $map, from_bf16, to_bf16, |$($x),+| $value),
            Type::F16x2 => halves!(@two $finish, $map, from_f16, to_f16, |$($x),+| $value),
            _ => halves!(@two $finish, $map, from_bf16, to_bf16, |$($x),+| $value),
        }
    };
    (@one $finish:expr, $map:ident, $from:ident, $to:ident, |$($x:ident),+| $value:expr) => {
        match $finish {
            Finish::Plain => $map!(|$($x: u16),+| { $(let $x = $from($x);)+ $to($value) }),
            Finish::Saturate => $map!(|$($x: u16),+| { $(let $x = $from($x);)+ $to(saturate($value)) }),
            Finish::Relu => $map!(|$($x: u16),+| { $(let $x = $from($x);)+ $to(relu($value)) }),
            Finish::Flush => $map!(|$($x: u16),+| { $(let $x = flush_f16($from($x));)+ $to(flush_f16($value)) }),
            Finish::FlushSaturate => $map!(|$($x: u16),+| {
                $(let $x = flush_f16($from($x));)+
                $to(saturate(flush_f16($value)))
            }),
            Finish::FlushRelu => $map!(|$($x: u16),+| {
                $(let $x = flush_f16($from($x));)+
                $to(relu(flush_f16($value)))
            }),
        }
    };
    (@two $finish:expr, $map:ident, $from:ident, $to:ident, |$($x:ident),+| $value:expr) => {
        match $finish {
            Finish::Plain => halves!(@both $map, |$($x),+| { $(let $x = $from($x);)+ $to($value) }),
            Finish::Saturate => halves!(@both $map, |$($x),+| { $(let $x = $from($x);)+ $to(saturate($value)) }),
            Finish::Relu => halves!(@both $map, |$($x),+| { $(let $x = $from($x);)+ $to(relu($value)) }),
            Finish::Flush => halves!(@both $map, |$($x),+| {
                $(let $x = flush_f16($from($x));)+
                $to(flush_f16($value))
            }),
            Finish::FlushSaturate => halves!(@both $map, |$($x),+| {
                $(let $x = flush_f16($from($x));)+
                $to(saturate(flush_f16($value)))
            }),
            Finish::FlushRelu => halves!(@both $map, |$($x),+| {
                $(let $x = flush_f16($from($x));)+
                $to(relu(flush_f16($value)))
            }),
        }
    };
    (@both $map:ident, |$($x:ident),+| $body:expr) => {
        $map!(|$($x: u32),+| {
            let half = |$($x: u16),+| -> u16 { $body };
            u32::from(half($(($x >> 16) as u16),+)) << 16 | u32::from(half($($x as u16),+))
        })
    };
}

impl<'a> Decoder<'a, '_, '_> {
    pub(super) fn half(&mut self, op: &Op<'a, '_>) -> Decoded {
        let kind = op.kind()?;
        if op.types.len() != 1 {
            return unsupported();
        }
        let finish = match (op.has("ftz"), op.has("sat"), op.has("relu")) {
            (false, false, false) => Finish::Plain,
            (false, true, _) => Finish::Saturate,
            (false, false, true) => Finish::Relu,
            (true, false, false) => Finish::Flush,
            (true, true, _) => Finish::FlushSaturate,
            (true, false, true) => Finish::FlushRelu,
        };
        match op.name {
            "add" | "sub" | "mul" => {
                op.only(&["rn", "ftz", "sat"])?;
                let map: Map2 = match op.name {
                    "add" => halves!(kind, finish, map2, |x, y| x + y),
                    "sub" => halves!(kind, finish, map2, |x, y| x - y),
                    _ => halves!(kind, finish, map2, |x, y| x * y),
                };
                self.map2(op, map, kind)
            }
            "fma" => {
                op.only(&["rn", "ftz", "sat", "relu"])?;
                let map: Map3 = halves!(kind, finish, map3, |x, y, z| fma_half(x, y, z));
                self.map3(op, map, kind)
            }
            "min" | "max" => {
                op.only(&["ftz", "NaN", "xorsign", "abs"])?;
                let map: Map2 = match (op.name, op.has("NaN"), op.has("xorsign")) {
                    ("min", false, false) => halves!(kind, finish, map2, |x, y| minimum(x, y)),
                    ("min", true, false) => {
                        halves!(kind, finish, map2, |x, y| strict(x, y, minimum))
                    }
                    ("min", false, true) => {
                        halves!(kind, finish, map2, |x, y| with_signs(x, y, minimum))
                    }
                    ("min", true, true) => {
                        halves!(kind, finish, map2, |x, y| strict(x, y, |x, y| with_signs(
                            x, y, minimum
                        )))
                    }
                    (_, false, false) => halves!(kind, finish, map2, |x, y| maximum(x, y)),
                    (_, true, false) => halves!(kind, finish, map2, |x, y| strict(x, y, maximum)),
                    (_, false, true) => {
                        halves!(kind, finish, map2, |x, y| with_signs(x, y, maximum))
                    }
                    (_, true, true) => {
                        halves!(kind, finish, map2, |x, y| strict(x, y, |x, y| with_signs(
                            x, y, maximum
                        )))
                    }
                };
                self.map2(op, map, kind)
            }
            "neg" | "abs" | "ex2" | "tanh" => {
                op.only(&["ftz", "approx"])?;
                // the hardware flushes no input of ex2 in bfloat16, which has the range of f32
                let finish = if op.name == "ex2" { Finish::Plain } else { finish };
                let map: Map1 = match op.name {
                    "neg" => halves!(kind, finish, map1, |x| -x),
                    "abs" => halves!(kind, finish, map1, |x| x.abs()),
                    "ex2" => halves!(kind, finish, map1, |x| x.exp2()),
                    _ => halves!(kind, finish, map1, |x| x.tanh()),
                };
                self.map1(op, map, kind)
            }
            _ => unsupported(),
        }
    }
}
