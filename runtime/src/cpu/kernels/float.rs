//! Rows over `f32` and `f64`: the functions of [`crate::cpu::math`] on the vectors of this machine.

use super::integer::{A_IS_SCALAR, B_IS_SCALAR, Row1, Row2};
use crate::cpu::math::{Lane, Prims, Simd, SimdTask, functions as f};
use std::marker::PhantomData;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{BinaryOp, UnaryOp};

/// A function of one float.
pub(super) trait Float1 {
    fn run<P: Prims>(p: &mut P, x: P::F) -> P::F;
}

/// A function of two floats.
pub(super) trait Float2 {
    /// Long bodies are compiled for two full operands only.
    const LONG: bool = false;
    fn run<P: Prims>(p: &mut P, x: P::F, y: P::F) -> P::F;
}

/// A row of one operand, to be run on whichever vectors there are.
struct Task1<E, K> {
    out: *mut E,
    a: *const E,
    n: usize,
    function: PhantomData<K>,
}

impl<E: Lane, K: Float1> SimdTask<E> for Task1<E, K> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<Elem = E>>(self, mut s: S) {
        let Task1 { out, a, n, .. } = self;
        let mut i = 0;
        while i + S::LANES <= n {
            // SAFETY: LANES elements from i on are within the row.
            unsafe {
                let x = s.load(a.add(i));
                let y = K::run(&mut s, x);
                s.store(out.add(i), y);
            }
            i += S::LANES;
        }
        if i < n {
            // SAFETY: n - i elements are left.
            unsafe {
                let x = s.load_partial(a.add(i), n - i);
                let y = K::run(&mut s, x);
                s.store_partial(out.add(i), n - i, y);
            }
        }
    }
}

/// A row of two operands.
struct Task2<E, K> {
    out: *mut E,
    a: *const E,
    b: *const E,
    n: usize,
    mask: u8,
    function: PhantomData<K>,
}

impl<E: Lane, K: Float2> SimdTask<E> for Task2<E, K> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<Elem = E>>(self, mut s: S) {
        let Task2 { out, a, b, n, mask, .. } = self;
        macro_rules! go {
            (|$i:ident| $x:expr, $xs:expr, $y:expr, $ys:expr) => {
                let mut $i = 0;
                while $i + S::LANES <= n {
                    // SAFETY: LANES elements from i on are within the row.
                    unsafe {
                        let x = $x;
                        let y = $y;
                        let r = K::run(&mut s, x, y);
                        s.store(out.add($i), r);
                    }
                    $i += S::LANES;
                }
                if $i < n {
                    // SAFETY: n - i elements are left.
                    unsafe {
                        let x = $xs;
                        let y = $ys;
                        let r = K::run(&mut s, x, y);
                        s.store_partial(out.add($i), n - $i, r);
                    }
                }
            };
        }
        if K::LONG || mask == 0 {
            debug_assert!(mask == 0);
            go!(
                |i| s.load(a.add(i)),
                s.load_partial(a.add(i), n - i),
                s.load(b.add(i)),
                s.load_partial(b.add(i), n - i)
            );
            return;
        }
        // SAFETY: a row is not empty.
        let (x, y) = unsafe { (a.read_unaligned(), b.read_unaligned()) };
        let (x, y) = (s.splat(x), s.splat(y));
        match mask {
            A_IS_SCALAR => {
                go!(|i| x, x, s.load(b.add(i)), s.load_partial(b.add(i), n - i));
            }
            B_IS_SCALAR => {
                go!(|i| s.load(a.add(i)), s.load_partial(a.add(i), n - i), y, y);
            }
            _ => {
                go!(|i| x, x, y, y);
            }
        }
    }
}

unsafe fn run1<E: Lane, K: Float1>(out: *mut u8, a: *const u8, n: usize) {
    E::dispatch(Task1::<E, K> { out: out.cast(), a: a.cast(), n, function: PhantomData });
}

unsafe fn run2<E: Lane, K: Float2>(
    out: *mut u8,
    a: *const u8,
    b: *const u8,
    n: usize,
    mask: u8,
) -> bool {
    E::dispatch(Task2::<E, K> {
        out: out.cast(),
        a: a.cast(),
        b: b.cast(),
        n,
        mask,
        function: PhantomData,
    });
    true
}

fn row1<K: Float1>(double: bool) -> Row1 {
    if double { run1::<f64, K> } else { run1::<f32, K> }
}

fn row2<K: Float2>(double: bool) -> Row2 {
    if double { run2::<f64, K> } else { run2::<f32, K> }
}

macro_rules! float1 {
    ($double:expr, |$p:ident, $x:ident| $body:expr) => {{
        struct K;
        impl Float1 for K {
            #[inline(always)]
            fn run<P: Prims>($p: &mut P, $x: P::F) -> P::F {
                $body
            }
        }
        row1::<K>($double)
    }};
}

macro_rules! float2 {
    ($double:expr, |$p:ident, $x:ident, $y:ident| $body:expr) => {
        float2!(@ $double, false, |$p, $x, $y| $body)
    };
    ($double:expr, long |$p:ident, $x:ident, $y:ident| $body:expr) => {
        float2!(@ $double, true, |$p, $x, $y| $body)
    };
    (@ $double:expr, $long:expr, |$p:ident, $x:ident, $y:ident| $body:expr) => {{
        struct K;
        impl Float2 for K {
            const LONG: bool = $long;
            #[inline(always)]
            fn run<P: Prims>($p: &mut P, $x: P::F, $y: P::F) -> P::F {
                $body
            }
        }
        row2::<K>($double)
    }};
}

/// `floor(a / b)` from the exact remainder, as PyTorch computes it.
#[inline(always)]
fn floor_div<P: Prims>(p: &mut P, a: P::F, b: P::F) -> P::F {
    let zero = p.f(0.0);
    let one = p.f(1.0);
    let half = p.f(0.5);
    let rem = f::fmod(p, a, b);
    let whole = p.sub(a, rem);
    let div = p.div(whole, b);
    // one less where there is a remainder whose sign is not the divisor's
    let some = p.ne(rem, zero);
    let b_neg = p.lt(b, zero);
    let b_pos = p.not(b_neg);
    let rem_neg = p.lt(rem, zero);
    let rem_pos = p.not(rem_neg);
    let down = p.and(b_pos, rem_neg);
    let up = p.and(b_neg, rem_pos);
    let differ = p.or(down, up);
    let adjust = p.and(some, differ);
    let lower = p.sub(div, one);
    let div = p.select(adjust, lower, div);
    let floor = p.floor(div);
    // rounding of the quotient may have fallen short of the next integer
    let short = p.sub(div, floor);
    let short = p.gt(short, half);
    let next = p.add(floor, one);
    let floor = p.select(short, next, floor);
    // zero keeps the sign of the true quotient
    let quotient = p.div(a, b);
    let signed_zero = f::copysign(p, floor, quotient);
    let nonzero = p.ne(div, zero);
    let r = p.select(nonzero, floor, signed_zero);
    let divisible = p.ne(b, zero);
    p.select(divisible, r, quotient)
}

macro_rules! unary_rows {
    ($($variant:ident $function:ident,)*) => {
        /// Rows over `f32` (also for widened half types) or `f64`.
        pub(super) fn unary_row(op: UnaryOp, dtype: DType) -> Option<Row1> {
            let d = dtype == DType::F64;
            Some(match op {
                $(UnaryOp::$variant => float1!(d, |p, x| f::$function(p, x)),)*
                UnaryOp::Neg => float1!(d, |p, x| p.neg(x)),
                UnaryOp::Abs => float1!(d, |p, x| p.abs(x)),
                UnaryOp::Sqrt => float1!(d, |p, x| p.sqrt(x)),
                UnaryOp::Floor => float1!(d, |p, x| p.floor(x)),
                UnaryOp::Ceil => float1!(d, |p, x| p.ceil(x)),
                UnaryOp::Round => float1!(d, |p, x| p.round_even(x)),
                UnaryOp::Trunc => float1!(d, |p, x| p.trunc(x)),
                UnaryOp::Relu => float1!(d, |p, x| {
                    let zero = p.f(0.0);
                    f::maximum(p, x, zero)
                }),
                UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::LogicalNot | UnaryOp::BitwiseNot => {
                    return None;
                }
            })
        }
    };
}
f::built_functions!(unary_rows!);

/// Rows over two operands; [`is_long`] ones take no scalar operands.
pub(super) fn binary_row(op: BinaryOp, dtype: DType) -> Option<Row2> {
    let d = dtype == DType::F64;
    Some(match op {
        BinaryOp::Add => float2!(d, |p, x, y| p.add(x, y)),
        BinaryOp::Sub => float2!(d, |p, x, y| p.sub(x, y)),
        BinaryOp::Mul => float2!(d, |p, x, y| p.mul(x, y)),
        BinaryOp::Div => float2!(d, |p, x, y| p.div(x, y)),
        BinaryOp::TruncDiv => float2!(d, |p, x, y| {
            let q = p.div(x, y);
            p.trunc(q)
        }),
        BinaryOp::Maximum => float2!(d, |p, x, y| f::maximum(p, x, y)),
        BinaryOp::Minimum => float2!(d, |p, x, y| f::minimum(p, x, y)),
        BinaryOp::FloorDiv => float2!(d, long | p, x, y | floor_div(p, x, y)),
        BinaryOp::Fmod => float2!(d, long | p, x, y | f::fmod(p, x, y)),
        BinaryOp::Remainder => float2!(d, long | p, x, y | f::remainder(p, x, y)),
        BinaryOp::Pow => float2!(d, long | p, x, y | f::pow(p, x, y)),
        BinaryOp::Atan2 => float2!(d, long | p, x, y | f::atan2(p, x, y)),
        _ => return None,
    })
}

/// Whether the float row of this operation needs two full operands.
pub(super) fn is_long(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::FloorDiv | BinaryOp::Fmod | BinaryOp::Remainder | BinaryOp::Pow | BinaryOp::Atan2
    )
}
