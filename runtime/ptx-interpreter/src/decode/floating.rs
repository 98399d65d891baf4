use super::arithmetic::unsupported;
use super::op::{Op, Reject, Type};
use super::{Decoded, Decoder};
use crate::number::narrow::Rounding;
use crate::number::rounding::{
    add_64, add_odd, div_64, divide_odd, flush, fma_32, fma_64, fma_odd, mul_64, saturate, sqrt_64,
    sqrt_odd, to_single,
};
use crate::number::{Map1, Map2, Map3, map1, map2, map3, test};
use crate::program::Code;

/// How a result of single or double precision is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mode {
    pub(super) rounding: Rounding,
    pub(super) flush: bool,
    pub(super) saturate: bool,
}

impl Mode {
    pub(super) fn of(op: &Op<'_, '_>) -> Mode {
        let rounding = op.modifiers.iter().find_map(|modifier| rounding(modifier));
        Mode {
            rounding: rounding.unwrap_or(Rounding::Nearest),
            flush: op.has("ftz"),
            saturate: op.has("sat"),
        }
    }
}

pub(super) fn rounding(modifier: &str) -> Option<Rounding> {
    Some(match modifier {
        "rn" | "rni" => Rounding::Nearest,
        "rna" => Rounding::Away,
        "rz" | "rzi" => Rounding::Zero,
        "rm" | "rmi" => Rounding::Down,
        "rp" | "rpi" => Rounding::Up,
        _ => return None,
    })
}

/// A function of single precision in each mode: to nearest, and from a result rounded to odd.
macro_rules! single {
    ($mode:expr, $map:ident, |$($x:ident),+| $near:expr, $odd:expr) => {
        match ($mode.rounding, $mode.flush, $mode.saturate) {
            (Rounding::Nearest | Rounding::Away, false, false) => $map!(|$($x: f32),+| $near),
            (Rounding::Nearest | Rounding::Away, true, false) => $map!(|$($x: f32),+| {
                $(let $x = flush($x);)+
                flush($near)
            }),
            (Rounding::Nearest | Rounding::Away, false, true) => $map!(|$($x: f32),+| saturate($near)),
            (Rounding::Nearest | Rounding::Away, true, true) => $map!(|$($x: f32),+| {
                $(let $x = flush($x);)+
                saturate(flush($near))
            }),
            (Rounding::Zero, flushes, saturates) => {
                single!(@ Rounding::Zero, flushes, saturates, $map, |$($x),+| $odd)
            }
            (Rounding::Down, flushes, saturates) => {
                single!(@ Rounding::Down, flushes, saturates, $map, |$($x),+| $odd)
            }
            (Rounding::Up, flushes, saturates) => {
                single!(@ Rounding::Up, flushes, saturates, $map, |$($x),+| $odd)
            }
        }
    };
    (@ $rounding:expr, $flush:expr, $saturate:expr, $map:ident, |$($x:ident),+| $odd:expr) => {
        match ($flush, $saturate) {
            (false, false) => $map!(|$($x: f32),+| to_single($odd, $rounding)),
            (false, true) => $map!(|$($x: f32),+| saturate(to_single($odd, $rounding))),
            (true, false) => $map!(|$($x: f32),+| {
                $(let $x = flush($x);)+
                flush(to_single($odd, $rounding))
            }),
            (true, true) => $map!(|$($x: f32),+| {
                $(let $x = flush($x);)+
                saturate(flush(to_single($odd, $rounding)))
            }),
        }
    };
}

macro_rules! double {
    ($mode:expr, $map:ident, |$($x:ident),+| $function:ident($($argument:expr),+)) => {
        match $mode.rounding {
            Rounding::Nearest | Rounding::Away => {
                $map!(|$($x: f64),+| $function($($argument),+, Rounding::Nearest))
            }
            Rounding::Zero => $map!(|$($x: f64),+| $function($($argument),+, Rounding::Zero)),
            Rounding::Down => $map!(|$($x: f64),+| $function($($argument),+, Rounding::Down)),
            Rounding::Up => $map!(|$($x: f64),+| $function($($argument),+, Rounding::Up)),
        }
    };
}

/// A function whose result the hardware approximates: here it is rounded to nearest.
macro_rules! approximate {
    ($mode:expr, |$x:ident| $value:expr) => {
        if $mode.flush {
            map1!(|$x: f32| {
                let $x = flush($x);
                flush($value)
            })
        } else {
            map1!(|$x: f32| $value)
        }
    };
}

const MODES: &[&str] = &["rn", "rz", "rm", "rp", "ftz", "sat", "approx", "full"];

impl<'a> Decoder<'a, '_, '_> {
    pub(super) fn floating(&mut self, op: &Op<'a, '_>) -> Decoded {
        if op.types.len() != 1 {
            return unsupported();
        }
        match op.name {
            "min" | "max" => self.extreme(op),
            "testp" => self.test_property(op),
            _ => {
                op.only(MODES)?;
                match op.kind()? {
                    Type::F32 => self.single(op, Mode::of(op)),
                    _ => self.double(op, Mode::of(op)),
                }
            }
        }
    }

    fn single(&mut self, op: &Op<'a, '_>, mode: Mode) -> Decoded {
        let kind = Type::F32;
        let map: Map1 = match op.name {
            "add" | "sub" | "mul" | "div" => {
                let map: Map2 = match op.name {
                    "add" => single!(mode, map2, |x, y| x + y, add_odd(x.into(), y.into())),
                    "sub" => single!(mode, map2, |x, y| x - y, add_odd(x.into(), -f64::from(y))),
                    "mul" => single!(mode, map2, |x, y| x * y, f64::from(x) * f64::from(y)),
                    _ => single!(mode, map2, |x, y| x / y, divide_odd(x, y)),
                };
                return self.map2(op, map, kind);
            }
            "fma" | "mad" => {
                let map: Map3 = single!(mode, map3, |x, y, z| fma_32(x, y, z), fma_odd(x, y, z));
                return self.map3(op, map, kind);
            }
            "copysign" => {
                // the sign is that of the first operand
                return self.map2(op, map2!(|x: f32, y: f32| y.copysign(x)), kind);
            }
            "rcp" => single!(mode, map1, |x| 1.0 / x, divide_odd(1.0, x)),
            "sqrt" => single!(mode, map1, |x| x.sqrt(), sqrt_odd(x)),
            "rsqrt" => approximate!(mode, |x| (1.0 / f64::from(x).sqrt()) as f32),
            "sin" => approximate!(mode, |x| f64::from(x).sin() as f32),
            "cos" => approximate!(mode, |x| f64::from(x).cos() as f32),
            "ex2" => approximate!(mode, |x| x.exp2()),
            "lg2" => approximate!(mode, |x| x.log2()),
            "tanh" => approximate!(mode, |x| x.tanh()),
            "abs" => approximate!(mode, |x| x.abs()),
            "neg" => approximate!(mode, |x| -x),
            _ => return unsupported(),
        };
        self.map1(op, map, kind)
    }

    fn double(&mut self, op: &Op<'a, '_>, mode: Mode) -> Decoded {
        let kind = Type::F64;
        let map: Map1 = match op.name {
            "add" | "sub" | "mul" | "div" => {
                let map: Map2 = match op.name {
                    "add" => double!(mode, map2, |x, y| add_64(x, y)),
                    "sub" => double!(mode, map2, |x, y| add_64(x, -y)),
                    "mul" => double!(mode, map2, |x, y| mul_64(x, y)),
                    _ => double!(mode, map2, |x, y| div_64(x, y)),
                };
                return self.map2(op, map, kind);
            }
            "fma" | "mad" => {
                let map: Map3 = double!(mode, map3, |x, y, z| fma_64(x, y, z));
                return self.map3(op, map, kind);
            }
            "copysign" => {
                return self.map2(op, map2!(|x: f64, y: f64| y.copysign(x)), kind);
            }
            // the hardware gives the upper half of the bits
            "rcp" if op.has("approx") => map1!(|x: f64| upper_half(1.0 / x)),
            "rsqrt" => map1!(|x: f64| upper_half(1.0 / x.sqrt())),
            "rcp" => double!(mode, map1, |x| div_64(1.0, x)),
            "sqrt" => double!(mode, map1, |x| sqrt_64(x)),
            "abs" => map1!(|x: f64| x.abs()),
            "neg" => map1!(|x: f64| -x),
            _ => return unsupported(),
        };
        self.map1(op, map, kind)
    }

    fn extreme(&mut self, op: &Op<'a, '_>) -> Decoded {
        op.only(&["ftz", "NaN", "xorsign", "abs"])?;
        if op.count() != 3 {
            return unsupported();
        }
        let (least, quiet, signs) = (op.name == "min", !op.has("NaN"), op.has("xorsign"));
        let map: Map2 = match (op.kind()?, least, quiet) {
            (Type::F64, true, _) => map2!(|x: f64, y: f64| minimum_64(x, y)),
            (Type::F64, false, _) => map2!(|x: f64, y: f64| -minimum_64(-x, -y)),
            _ if op.has("ftz") && !signs => match (least, quiet) {
                (true, true) => map2!(|x: f32, y: f32| minimum(flush(x), flush(y))),
                (false, true) => map2!(|x: f32, y: f32| maximum(flush(x), flush(y))),
                (true, false) => map2!(|x: f32, y: f32| strict(flush(x), flush(y), minimum)),
                (false, false) => map2!(|x: f32, y: f32| strict(flush(x), flush(y), maximum)),
            },
            _ if signs => match (least, quiet) {
                (true, true) => map2!(|x: f32, y: f32| with_signs(x, y, minimum)),
                (false, true) => map2!(|x: f32, y: f32| with_signs(x, y, maximum)),
                (true, false) => {
                    map2!(|x: f32, y: f32| strict(x, y, |x, y| with_signs(x, y, minimum)))
                }
                (false, false) => {
                    map2!(|x: f32, y: f32| strict(x, y, |x, y| with_signs(x, y, maximum)))
                }
            },
            (_, true, true) => map2!(|x: f32, y: f32| minimum(x, y)),
            (_, false, true) => map2!(|x: f32, y: f32| maximum(x, y)),
            (_, true, false) => map2!(|x: f32, y: f32| strict(x, y, minimum)),
            (_, false, false) => map2!(|x: f32, y: f32| strict(x, y, maximum)),
        };
        let kind = op.kind()?;
        self.map2(op, map, kind)
    }

    fn test_property(&mut self, op: &Op<'a, '_>) -> Decoded {
        let property = op.modifiers.first().copied().unwrap_or("");
        let test = match (property, op.kind()?) {
            ("finite", Type::F32) => test!(|x: f32, _y: f32| x.is_finite()),
            ("infinite", Type::F32) => test!(|x: f32, _y: f32| x.is_infinite()),
            ("number", Type::F32) => test!(|x: f32, _y: f32| !x.is_nan()),
            ("notanumber", Type::F32) => test!(|x: f32, _y: f32| x.is_nan()),
            ("normal", Type::F32) => test!(|x: f32, _y: f32| x.is_normal()),
            ("subnormal", Type::F32) => test!(|x: f32, _y: f32| x.is_subnormal()),
            ("finite", _) => test!(|x: f64, _y: f64| x.is_finite()),
            ("infinite", _) => test!(|x: f64, _y: f64| x.is_infinite()),
            ("number", _) => test!(|x: f64, _y: f64| !x.is_nan()),
            ("notanumber", _) => test!(|x: f64, _y: f64| x.is_nan()),
            ("normal", _) => test!(|x: f64, _y: f64| x.is_normal()),
            ("subnormal", _) => test!(|x: f64, _y: f64| x.is_subnormal()),
            _ => return Err(Reject::Unsupported),
        };
        let into = self.predicate(op.operand(0)?)?;
        let a = self.source(op.operand(1)?, op.kind()?)?;
        Ok(Code::Test { test, into: Some(into), opposite: None, a, b: a, join: None })
    }
}

fn upper_half(value: f64) -> f64 {
    f64::from_bits(value.to_bits() & !0xffff_ffff)
}

/// The smaller one, where a NaN loses and -0 is below +0.
#[inline(always)]
pub(crate) fn minimum(x: f32, y: f32) -> f32 {
    if x < y || y.is_nan() {
        x
    } else if x == y {
        f32::from_bits(x.to_bits() | y.to_bits())
    } else {
        y
    }
}

#[inline(always)]
pub(crate) fn maximum(x: f32, y: f32) -> f32 {
    if x > y || y.is_nan() {
        x
    } else if x == y {
        f32::from_bits(x.to_bits() & y.to_bits())
    } else {
        y
    }
}

fn minimum_64(x: f64, y: f64) -> f64 {
    if x < y || y.is_nan() {
        x
    } else if x == y {
        f64::from_bits(x.to_bits() | y.to_bits())
    } else {
        y
    }
}

/// A NaN if either one is.
#[inline(always)]
pub(crate) fn strict(x: f32, y: f32, function: impl Fn(f32, f32) -> f32) -> f32 {
    if x.is_nan() || y.is_nan() { f32::NAN } else { function(x, y) }
}

/// Of the magnitudes, with the product of the signs.
#[inline(always)]
pub(crate) fn with_signs(x: f32, y: f32, function: impl Fn(f32, f32) -> f32) -> f32 {
    let sign = (x.to_bits() ^ y.to_bits()) & 0x8000_0000;
    let magnitude = function(x.abs(), y.abs());
    f32::from_bits(magnitude.to_bits() & 0x7fff_ffff | sign)
}
