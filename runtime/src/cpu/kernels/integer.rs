//! Rows over integers and `bool`, and comparisons of any dtype: scalar code that the compiler
//! vectorises.

use crate::cpu::math;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{BinaryOp, CompareOp, UnaryOp};

/// `out, a, n`.
pub(super) type Row1 = unsafe fn(*mut u8, *const u8, usize);
/// `out, a, b, n, mask of one-element operands`; `false` when a divisor was zero.
pub(super) type Row2 = unsafe fn(*mut u8, *const u8, *const u8, usize, u8) -> bool;

/// The mask bit of the first and second input.
pub(super) const A_IS_SCALAR: u8 = 0b010;
pub(super) const B_IS_SCALAR: u8 = 0b100;

/// A `bool` in memory: any byte but 0 is true.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Bool8(u8);

impl Bool8 {
    #[inline(always)]
    pub(super) fn new(b: bool) -> Self {
        Bool8(u8::from(b))
    }
    #[inline(always)]
    pub(super) fn get(self) -> bool {
        self.0 != 0
    }
}

impl PartialEq for Bool8 {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl PartialOrd for Bool8 {
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.get().partial_cmp(&other.get())
    }
}

/// A function of one element.
pub(super) trait Map1<A, R> {
    fn run(a: A) -> R;
}

/// A function of two elements.
pub(super) trait Map2<A, R> {
    /// Whether [`Map2::faults`] has to be asked.
    const CHECKED: bool = false;
    fn run(a: A, b: A) -> R;
    #[inline(always)]
    fn faults(_b: A) -> bool {
        false
    }
}

/// Elements that are loaded, computed and stored together: going through locals tells the compiler
/// that they do not alias, so that in-place calls vectorise too.
const CHUNK: usize = 32;

#[inline(always)]
unsafe fn map1_body<A: Copy, R: Copy, K: Map1<A, R>>(out: *mut u8, a: *const u8, n: usize) {
    let (out, a) = (out.cast::<R>(), a.cast::<A>());
    let whole = n - n % CHUNK;
    let mut i = 0;
    while i < whole {
        // SAFETY: elements i .. i + CHUNK are within the row.
        unsafe {
            let x = a.add(i).cast::<[A; CHUNK]>().read_unaligned();
            let r: [R; CHUNK] = x.map(|x| K::run(x));
            out.add(i).cast::<[R; CHUNK]>().write_unaligned(r);
        }
        i += CHUNK;
    }
    while i < n {
        // SAFETY: i < n.
        unsafe { out.add(i).write_unaligned(K::run(a.add(i).read_unaligned())) };
        i += 1;
    }
}

#[inline(always)]
unsafe fn map2_body<A: Copy, R: Copy, K: Map2<A, R>>(
    out: *mut u8,
    a: *const u8,
    b: *const u8,
    n: usize,
    mask: u8,
) -> bool {
    let (out, a, b) = (out.cast::<R>(), a.cast::<A>(), b.cast::<A>());
    if n == 0 {
        return true;
    }
    let whole = n - n % CHUNK;
    let mut fault = false;
    let (sa, sb) = (mask & A_IS_SCALAR == 0, mask & B_IS_SCALAR == 0);
    macro_rules! chunks {
        (|$i:ident| $x:expr, $y:expr) => {
            let mut $i = 0;
            while $i < whole {
                // SAFETY: elements i .. i + CHUNK are within the row.
                unsafe {
                    let x: [A; CHUNK] = $x;
                    let y: [A; CHUNK] = $y;
                    if K::CHECKED {
                        for k in 0..CHUNK {
                            fault |= K::faults(y[k]);
                        }
                        if fault {
                            return false;
                        }
                    }
                    let r: [R; CHUNK] = std::array::from_fn(|k| K::run(x[k], y[k]));
                    out.add($i).cast::<[R; CHUNK]>().write_unaligned(r);
                }
                $i += CHUNK;
            }
        };
    }
    // SAFETY: n > 0, so both have an element.
    let (x0, y0) = unsafe { (a.read_unaligned(), b.read_unaligned()) };
    match (sa, sb) {
        (true, true) => {
            chunks!(
                |i| a.add(i).cast::<[A; CHUNK]>().read_unaligned(),
                b.add(i).cast::<[A; CHUNK]>().read_unaligned()
            );
        }
        (true, false) => {
            chunks!(|i| a.add(i).cast::<[A; CHUNK]>().read_unaligned(), [y0; CHUNK]);
        }
        (false, true) => {
            chunks!(|i| [x0; CHUNK], b.add(i).cast::<[A; CHUNK]>().read_unaligned());
        }
        (false, false) => {
            chunks!(|i| [x0; CHUNK], [y0; CHUNK]);
        }
    }
    for i in whole..n {
        // SAFETY: i < n.
        unsafe {
            let x = if sa { a.add(i).read_unaligned() } else { x0 };
            let y = if sb { b.add(i).read_unaligned() } else { y0 };
            if K::CHECKED && K::faults(y) {
                return false;
            }
            out.add(i).write_unaligned(K::run(x, y));
        }
    }
    true
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn map1_avx2<A: Copy, R: Copy, K: Map1<A, R>>(out: *mut u8, a: *const u8, n: usize) {
    // SAFETY: as promised by the caller.
    unsafe { map1_body::<A, R, K>(out, a, n) }
}

unsafe fn map1_portable<A: Copy, R: Copy, K: Map1<A, R>>(out: *mut u8, a: *const u8, n: usize) {
    // SAFETY: as promised by the caller.
    unsafe { map1_body::<A, R, K>(out, a, n) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn map2_avx2<A: Copy, R: Copy, K: Map2<A, R>>(
    out: *mut u8,
    a: *const u8,
    b: *const u8,
    n: usize,
    mask: u8,
) -> bool {
    // SAFETY: as promised by the caller.
    unsafe { map2_body::<A, R, K>(out, a, b, n, mask) }
}

unsafe fn map2_portable<A: Copy, R: Copy, K: Map2<A, R>>(
    out: *mut u8,
    a: *const u8,
    b: *const u8,
    n: usize,
    mask: u8,
) -> bool {
    // SAFETY: as promised by the caller.
    unsafe { map2_body::<A, R, K>(out, a, b, n, mask) }
}

/// The row kernel of a [`Map1`] for this machine.
#[inline]
pub(super) fn row1<A: Copy, R: Copy, K: Map1<A, R>>() -> Row1 {
    match math::isa() {
        #[cfg(target_arch = "x86_64")]
        math::Isa::Avx512 | math::Isa::Avx2 => map1_avx2::<A, R, K>,
        _ => map1_portable::<A, R, K>,
    }
}

/// The row kernel of a [`Map2`] for this machine.
#[inline]
pub(super) fn row2<A: Copy, R: Copy, K: Map2<A, R>>() -> Row2 {
    match math::isa() {
        #[cfg(target_arch = "x86_64")]
        math::Isa::Avx512 | math::Isa::Avx2 => map2_avx2::<A, R, K>,
        _ => map2_portable::<A, R, K>,
    }
}

/// Declares a type that stands for a function of one element.
macro_rules! map1 {
    ($a:ty => $r:ty: |$x:ident| $body:expr) => {{
        struct K;
        impl Map1<$a, $r> for K {
            #[inline(always)]
            fn run($x: $a) -> $r {
                $body
            }
        }
        row1::<$a, $r, K>()
    }};
}

/// The same for two.
macro_rules! map2 {
    ($a:ty => $r:ty: |$x:ident, $y:ident| $body:expr) => {{
        struct K;
        impl Map2<$a, $r> for K {
            #[inline(always)]
            fn run($x: $a, $y: $a) -> $r {
                $body
            }
        }
        row2::<$a, $r, K>()
    }};
    ($a:ty => $r:ty: |$x:ident, $y:ident| $body:expr, checked) => {{
        struct K;
        impl Map2<$a, $r> for K {
            const CHECKED: bool = true;
            #[inline(always)]
            fn run($x: $a, $y: $a) -> $r {
                $body
            }
            #[inline(always)]
            fn faults(b: $a) -> bool {
                b == 0
            }
        }
        row2::<$a, $r, K>()
    }};
}

macro_rules! integer_ops {
    ($unary:ident, $binary:ident, $t:ty, signed: $signed:expr) => {
        fn $unary(op: UnaryOp) -> Option<Row1> {
            Some(match op {
                UnaryOp::Neg => map1!($t => $t: |x| x.wrapping_neg()),
                UnaryOp::Abs if $signed => map1!($t => $t: |x| if x < (0 as $t) { x.wrapping_neg() } else { x }),
                UnaryOp::Abs | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc => map1!($t => $t: |x| x),
                UnaryOp::Sign => map1!($t => $t: |x| ((x > 0) as $t).wrapping_sub((x < (0 as $t)) as $t)),
                UnaryOp::BitwiseNot => map1!($t => $t: |x| !x),
                UnaryOp::Relu => map1!($t => $t: |x| if x > 0 { x } else { 0 }),
                _ => return None,
            })
        }

        fn $binary(op: BinaryOp) -> Option<Row2> {
            #[allow(unused_comparisons, clippy::absurd_extreme_comparisons)] // one body for signed and unsigned
            Some(match op {
                BinaryOp::Add => map2!($t => $t: |x, y| x.wrapping_add(y)),
                BinaryOp::Sub => map2!($t => $t: |x, y| x.wrapping_sub(y)),
                BinaryOp::Mul => map2!($t => $t: |x, y| x.wrapping_mul(y)),
                BinaryOp::FloorDiv => map2!($t => $t: |x, y| {
                    let q = x.wrapping_div(y);
                    let r = x.wrapping_rem(y);
                    if r != 0 && ((r < 0) != (y < 0)) { q.wrapping_sub(1) } else { q }
                }, checked),
                BinaryOp::TruncDiv => map2!($t => $t: |x, y| x.wrapping_div(y), checked),
                BinaryOp::Fmod => map2!($t => $t: |x, y| x.wrapping_rem(y), checked),
                BinaryOp::Remainder => map2!($t => $t: |x, y| {
                    let r = x.wrapping_rem(y);
                    if r != 0 && ((r < 0) != (y < 0)) { r.wrapping_add(y) } else { r }
                }, checked),
                BinaryOp::Pow => map2!($t => $t: |x, y| {
                    if y < 0 {
                        // only 1 and -1 have integral inverses
                        if x == 1 {
                            1
                        } else if x == (0 as $t).wrapping_sub(1) {
                            if y % 2 == 0 { 1 } else { x }
                        } else {
                            0
                        }
                    } else {
                        let (mut base, mut exponent, mut product) = (x, y, 1 as $t);
                        while exponent != 0 {
                            if exponent & 1 == 1 {
                                product = product.wrapping_mul(base);
                            }
                            base = base.wrapping_mul(base);
                            exponent >>= 1;
                        }
                        product
                    }
                }),
                BinaryOp::Maximum => map2!($t => $t: |x, y| x.max(y)),
                BinaryOp::Minimum => map2!($t => $t: |x, y| x.min(y)),
                BinaryOp::BitwiseAnd => map2!($t => $t: |x, y| x & y),
                BinaryOp::BitwiseOr => map2!($t => $t: |x, y| x | y),
                BinaryOp::BitwiseXor => map2!($t => $t: |x, y| x ^ y),
                BinaryOp::ShiftLeft => map2!($t => $t: |x, y| {
                    if (0..<$t>::BITS as i64).contains(&(y as i64)) { x << y } else { 0 }
                }),
                BinaryOp::ShiftRight => map2!($t => $t: |x, y| {
                    if (0..<$t>::BITS as i64).contains(&(y as i64)) {
                        x >> y
                    } else if x < 0 {
                        (0 as $t).wrapping_sub(1)
                    } else {
                        0
                    }
                }),
                _ => return None,
            })
        }
    };
}

integer_ops!(unary_u8, binary_u8, u8, signed: false);
integer_ops!(unary_i8, binary_i8, i8, signed: true);
integer_ops!(unary_i16, binary_i16, i16, signed: true);
integer_ops!(unary_i32, binary_i32, i32, signed: true);
integer_ops!(unary_i64, binary_i64, i64, signed: true);

fn unary_bool(op: UnaryOp) -> Option<Row1> {
    Some(match op {
        UnaryOp::LogicalNot | UnaryOp::BitwiseNot => {
            map1!(Bool8 => Bool8: |x| Bool8::new(!x.get()))
        }
        UnaryOp::Abs | UnaryOp::Sign | UnaryOp::Relu => {
            map1!(Bool8 => Bool8: |x| Bool8::new(x.get()))
        }
        _ => return None,
    })
}

fn binary_bool(op: BinaryOp) -> Option<Row2> {
    Some(match op {
        BinaryOp::Add | BinaryOp::BitwiseOr | BinaryOp::LogicalOr | BinaryOp::Maximum => {
            map2!(Bool8 => Bool8: |x, y| Bool8::new(x.get() | y.get()))
        }
        BinaryOp::Mul | BinaryOp::BitwiseAnd | BinaryOp::LogicalAnd | BinaryOp::Minimum => {
            map2!(Bool8 => Bool8: |x, y| Bool8::new(x.get() & y.get()))
        }
        BinaryOp::BitwiseXor | BinaryOp::LogicalXor => {
            map2!(Bool8 => Bool8: |x, y| Bool8::new(x.get() ^ y.get()))
        }
        _ => return None,
    })
}

/// Rows over integers or `bool` whose result has the same dtype.
pub(super) fn unary_row(op: UnaryOp, dtype: DType) -> Option<Row1> {
    match dtype {
        DType::U8 => unary_u8(op),
        DType::I8 => unary_i8(op),
        DType::I16 => unary_i16(op),
        DType::I32 => unary_i32(op),
        DType::I64 => unary_i64(op),
        DType::Bool => unary_bool(op),
        _ => None,
    }
}

/// The same for two operands.
pub(super) fn binary_row(op: BinaryOp, dtype: DType) -> Option<Row2> {
    match dtype {
        DType::U8 => binary_u8(op),
        DType::I8 => binary_i8(op),
        DType::I16 => binary_i16(op),
        DType::I32 => binary_i32(op),
        DType::I64 => binary_i64(op),
        DType::Bool => binary_bool(op),
        _ => None,
    }
}

/// Calls a macro with the type that holds a dtype in arithmetic.
macro_rules! with_arithmetic_type {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            DType::U8 | DType::QUInt8 => {
                type $t = u8;
                $body
            }
            DType::I8 | DType::QInt8 => {
                type $t = i8;
                $body
            }
            DType::I16 => {
                type $t = i16;
                $body
            }
            DType::I32 | DType::QInt32 => {
                type $t = i32;
                $body
            }
            DType::I64 => {
                type $t = i64;
                $body
            }
            DType::F16 | DType::BF16 | DType::F32 => {
                type $t = f32;
                $body
            }
            DType::F64 => {
                type $t = f64;
                $body
            }
            DType::Bool => {
                type $t = $crate::cpu::kernels::integer::Bool8;
                $body
            }
            DType::C64 | DType::C128 => unreachable!("complex operands go to kernels of their own"),
        }
    };
}
pub(super) use with_arithmetic_type;

/// Comparison rows: operands of `dtype` (half types widened), result `bool`.
pub(super) fn compare_row(op: CompareOp, dtype: DType) -> Row2 {
    with_arithmetic_type!(dtype, T => match op {
        CompareOp::Eq => map2!(T => Bool8: |x, y| Bool8::new(x == y)),
        CompareOp::Ne => map2!(T => Bool8: |x, y| Bool8::new(x != y)),
        CompareOp::Lt => map2!(T => Bool8: |x, y| Bool8::new(x < y)),
        CompareOp::Le => map2!(T => Bool8: |x, y| Bool8::new(x <= y)),
        CompareOp::Gt => map2!(T => Bool8: |x, y| Bool8::new(x > y)),
        CompareOp::Ge => map2!(T => Bool8: |x, y| Bool8::new(x >= y)),
    })
}

/// Rows of unary operations that result in `bool`.
pub(super) fn test_row(op: UnaryOp, dtype: DType) -> Option<Row1> {
    Some(match (op, dtype) {
        (UnaryOp::LogicalNot, DType::Bool) => map1!(Bool8 => Bool8: |x| Bool8::new(!x.get())),
        (UnaryOp::LogicalNot, DType::U8 | DType::I8) => map1!(u8 => Bool8: |x| Bool8::new(x == 0)),
        (UnaryOp::LogicalNot, DType::I16) => map1!(i16 => Bool8: |x| Bool8::new(x == 0)),
        (UnaryOp::LogicalNot, DType::I32) => map1!(i32 => Bool8: |x| Bool8::new(x == 0)),
        (UnaryOp::LogicalNot, DType::I64) => map1!(i64 => Bool8: |x| Bool8::new(x == 0)),
        (UnaryOp::LogicalNot, DType::F64) => map1!(f64 => Bool8: |x| Bool8::new(x == 0.0)),
        (UnaryOp::LogicalNot, _) => map1!(f32 => Bool8: |x| Bool8::new(x == 0.0)),
        (UnaryOp::IsNan, DType::F64) => map1!(f64 => Bool8: |x| Bool8::new(x.is_nan())),
        (UnaryOp::IsNan, DType::F32 | DType::F16 | DType::BF16) => {
            map1!(f32 => Bool8: |x| Bool8::new(x.is_nan()))
        }
        (UnaryOp::IsInf, DType::F64) => map1!(f64 => Bool8: |x| Bool8::new(x.is_infinite())),
        (UnaryOp::IsInf, DType::F32 | DType::F16 | DType::BF16) => {
            map1!(f32 => Bool8: |x| Bool8::new(x.is_infinite()))
        }
        // an integer is neither
        (UnaryOp::IsNan | UnaryOp::IsInf, d) => {
            with_arithmetic_type!(d, T => map1!(T => Bool8: |_x| Bool8::new(false)))
        }
        _ => return None,
    })
}
