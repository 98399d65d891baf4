//! Numbers as PTX has them: in registers of 64 bits, one for each of 32 lanes.

pub(crate) mod convert;
pub(crate) mod narrow;
pub(crate) mod rounding;

/// Threads of a warp.
pub(crate) const LANES: usize = 32;

/// One register of a warp. What is narrower stands in the low bits; the rest is ignored when read.
pub(crate) type Lanes = [u64; LANES];

pub(crate) type Map1 = fn(&Lanes, &mut Lanes);
pub(crate) type Map2 = fn(&Lanes, &Lanes, &mut Lanes);
pub(crate) type Map3 = fn(&Lanes, &Lanes, &Lanes, &mut Lanes);
pub(crate) type Scalar = fn(u64, u64) -> u64;
pub(crate) type Test = fn(&Lanes, &Lanes) -> u32;

/// A number in a register.
pub(crate) trait Word: Copy {
    fn take(bits: u64) -> Self;
    fn give(self) -> u64;
}

macro_rules! integer_words {
    ($($signed:ty, $unsigned:ty;)*) => {$(
        impl Word for $unsigned {
            #[inline(always)]
            fn take(bits: u64) -> $unsigned {
                bits as $unsigned
            }
            #[inline(always)]
            fn give(self) -> u64 {
                self as u64
            }
        }
        impl Word for $signed {
            #[inline(always)]
            fn take(bits: u64) -> $signed {
                bits as $signed
            }
            #[inline(always)]
            fn give(self) -> u64 {
                self as $unsigned as u64
            }
        }
    )*};
}
integer_words!(i8, u8; i16, u16; i32, u32; i64, u64;);

/// What a GPU gives for every NaN of 32 bits.
pub(crate) const NAN_32: u32 = 0x7fff_ffff;

impl Word for f32 {
    #[inline(always)]
    fn take(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }
    #[inline(always)]
    fn give(self) -> u64 {
        if self.is_nan() { u64::from(NAN_32) } else { u64::from(self.to_bits()) }
    }
}

impl Word for f64 {
    #[inline(always)]
    fn take(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
    #[inline(always)]
    fn give(self) -> u64 {
        if self.is_nan() { 0x7ff8_0000_0000_0000 } else { self.to_bits() }
    }
}

/// A function of one register, from an expression over a lane.
macro_rules! map1 {
    (|$x:ident: $t:ty| $body:expr) => {{
        fn map(a: &$crate::number::Lanes, out: &mut $crate::number::Lanes) {
            for lane in 0..$crate::number::LANES {
                let $x = <$t as $crate::number::Word>::take(a[lane]);
                out[lane] = $crate::number::Word::give($body);
            }
        }
        map as $crate::number::Map1
    }};
}

macro_rules! map2 {
    (|$x:ident: $t:ty, $y:ident: $u:ty| $body:expr) => {{
        fn map(
            a: &$crate::number::Lanes,
            b: &$crate::number::Lanes,
            out: &mut $crate::number::Lanes,
        ) {
            for lane in 0..$crate::number::LANES {
                let $x = <$t as $crate::number::Word>::take(a[lane]);
                let $y = <$u as $crate::number::Word>::take(b[lane]);
                out[lane] = $crate::number::Word::give($body);
            }
        }
        map as $crate::number::Map2
    }};
}

macro_rules! map3 {
    (|$x:ident: $t:ty, $y:ident: $u:ty, $z:ident: $v:ty| $body:expr) => {{
        fn map(
            a: &$crate::number::Lanes,
            b: &$crate::number::Lanes,
            c: &$crate::number::Lanes,
            out: &mut $crate::number::Lanes,
        ) {
            for lane in 0..$crate::number::LANES {
                let $x = <$t as $crate::number::Word>::take(a[lane]);
                let $y = <$u as $crate::number::Word>::take(b[lane]);
                let $z = <$v as $crate::number::Word>::take(c[lane]);
                out[lane] = $crate::number::Word::give($body);
            }
        }
        map as $crate::number::Map3
    }};
}

/// A comparison, whose result has a bit for each lane.
macro_rules! test {
    (|$x:ident: $t:ty, $y:ident: $u:ty| $body:expr) => {{
        fn test(a: &$crate::number::Lanes, b: &$crate::number::Lanes) -> u32 {
            let mut mask = 0;
            for lane in 0..$crate::number::LANES {
                let $x = <$t as $crate::number::Word>::take(a[lane]);
                let $y = <$u as $crate::number::Word>::take(b[lane]);
                mask |= u32::from($body) << lane;
            }
            mask
        }
        test as $crate::number::Test
    }};
}

/// A function of two numbers, one pair at a time.
macro_rules! scalar {
    (|$x:ident: $t:ty, $y:ident: $u:ty| $body:expr) => {{
        fn scalar(a: u64, b: u64) -> u64 {
            let $x = <$t as $crate::number::Word>::take(a);
            let $y = <$u as $crate::number::Word>::take(b);
            $crate::number::Word::give($body)
        }
        scalar as $crate::number::Scalar
    }};
}

pub(crate) use {map1, map2, map3, scalar, test};
