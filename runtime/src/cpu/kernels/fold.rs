//! Folding a row to one number: the inner loops of reductions.

use super::integer::{Bool8, Row2};
use super::{float, integer};
use crate::cpu::math::{self, Lane, Simd, SimdTask, functions as f};
use std::marker::PhantomData;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::{BinaryOp, ReduceOp};

/// `out` (one element), `a, n`: folds a row that is not empty.
pub(super) type FoldRow = unsafe fn(*mut u8, *const u8, usize);

/// A reduction on one of the types that accumulate: `f32`, `f64`, `i64`, `bool`.
#[derive(Clone, Copy)]
pub(super) struct Fold {
    /// The type that accumulates.
    pub(super) dtype: DType,
    /// A row to one number.
    pub(super) row: FoldRow,
    /// Two rows of partial results to one.
    pub(super) combine: Row2,
    /// The result of no elements, if there is one.
    pub(super) identity: Option<u64>,
}

trait FoldFloat<E> {
    fn vectors<S: Simd>(s: &mut S, a: S::F, b: S::F) -> S::F;
    fn lanes(a: E, b: E) -> E;
}

macro_rules! fold_float {
    ($name:ident, |$s:ident, $x:ident, $y:ident| $vectors:expr, |$a:ident, $b:ident| $lanes:expr) => {
        struct $name;
        fold_float!(@ $name, f32, |$s, $x, $y| $vectors, |$a, $b| $lanes);
        fold_float!(@ $name, f64, |$s, $x, $y| $vectors, |$a, $b| $lanes);
    };
    (@ $name:ident, $t:ty, |$s:ident, $x:ident, $y:ident| $vectors:expr, |$a:ident, $b:ident| $lanes:expr) => {
        impl FoldFloat<$t> for $name {
            #[inline(always)]
            fn vectors<S: Simd>($s: &mut S, $x: S::F, $y: S::F) -> S::F {
                $vectors
            }
            #[inline(always)]
            fn lanes($a: $t, $b: $t) -> $t {
                $lanes
            }
        }
    };
}
fold_float!(Sum, |s, x, y| s.add(x, y), |a, b| a + b);
fold_float!(Prod, |s, x, y| s.mul(x, y), |a, b| a * b);
fold_float!(Max, |s, x, y| f::maximum(s, x, y), |a, b| Lane::larger(a, b));
fold_float!(Min, |s, x, y| f::minimum(s, x, y), |a, b| Lane::smaller(a, b));

/// The most independent accumulators.
const MOST: usize = 8;

/// Independent accumulators: hides the latency of the addition, and shortens each chain of
/// roundings. Short vectors take more, so that chains are as short as those of long ones.
const fn accumulators<S: Simd>() -> usize {
    match S::LANES * size_of::<S::Elem>() < 32 {
        true => MOST,
        false => 4,
    }
}

struct FoldTask<E, K> {
    out: *mut E,
    a: *const E,
    n: usize,
    function: PhantomData<K>,
}

impl<E: Lane, K: FoldFloat<E>> SimdTask<E> for FoldTask<E, K> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<Elem = E>>(self, mut s: S) {
        let FoldTask { out, a, n, .. } = self;
        // SAFETY: all elements read are within the row of n; out is one element.
        unsafe {
            let (total, rest) = if n < S::LANES {
                (a.read_unaligned(), 1)
            } else {
                let (v, rest) = match const { accumulators::<S>() } {
                    MOST => fold_vectors::<MOST, E, K, S>(&mut s, a, n),
                    _ => fold_vectors::<{ MOST / 2 }, E, K, S>(&mut s, a, n),
                };
                (s.reduce(v, K::lanes), rest)
            };
            let mut result = total;
            for i in rest..n {
                result = K::lanes(result, a.add(i).read_unaligned());
            }
            out.write_unaligned(result);
        }
    }
}

/// The vectors of a row of at least one, folded in up to `W` accumulators, which are combined in
/// pairs, and pairs of pairs; and how many elements these are. The trip counts of the usual case
/// are constants, so that the accumulators stay in registers.
#[inline(always)]
unsafe fn fold_vectors<const W: usize, E: Lane, K: FoldFloat<E>, S: Simd<Elem = E>>(
    s: &mut S,
    a: *const E,
    n: usize,
) -> (S::F, usize) {
    // SAFETY: the caller's row has n elements, of which the first `i` have been read.
    unsafe {
        let mut acc = [s.load(a); W];
        let mut i = W * S::LANES;
        if n < i {
            return fold_few::<W, E, K, S>(s, acc, a, n);
        }
        for (k, acc) in acc.iter_mut().enumerate() {
            *acc = s.load(a.add(k * S::LANES));
        }
        while i + W * S::LANES <= n {
            for (k, acc) in acc.iter_mut().enumerate() {
                let x = s.load(a.add(i + k * S::LANES));
                *acc = K::vectors(s, *acc, x);
            }
            i += W * S::LANES;
        }
        while i + S::LANES <= n {
            let x = s.load(a.add(i));
            acc[0] = K::vectors(s, acc[0], x);
            i += S::LANES;
        }
        for k in 0..W / 2 {
            acc[k] = K::vectors(s, acc[2 * k], acc[2 * k + 1]);
        }
        for k in 0..W / 4 {
            acc[k] = K::vectors(s, acc[2 * k], acc[2 * k + 1]);
        }
        for k in 0..W / 8 {
            acc[k] = K::vectors(s, acc[2 * k], acc[2 * k + 1]);
        }
        (acc[0], i)
    }
}

/// [`fold_vectors`] of a row of fewer vectors than accumulators, the first of which is loaded.
#[inline(always)]
unsafe fn fold_few<const W: usize, E: Lane, K: FoldFloat<E>, S: Simd<Elem = E>>(
    s: &mut S,
    mut acc: [S::F; W],
    a: *const E,
    n: usize,
) -> (S::F, usize) {
    // SAFETY: the caller's row has n elements, of which the first `i` have been read.
    unsafe {
        let (mut filled, mut i) = (1, S::LANES);
        while i + S::LANES <= n {
            acc[filled] = s.load(a.add(i));
            filled += 1;
            i += S::LANES;
        }
        let mut step = 1;
        while step < filled {
            for k in (0..filled - step).step_by(2 * step) {
                acc[k] = K::vectors(s, acc[k], acc[k + step]);
            }
            step *= 2;
        }
        (acc[0], i)
    }
}

unsafe fn fold_float<E: Lane, K: FoldFloat<E>>(out: *mut u8, a: *const u8, n: usize) {
    E::dispatch(FoldTask::<E, K> { out: out.cast(), a: a.cast(), n, function: PhantomData });
}

/// A fold of integers or `bool`s; written so that the compiler vectorises it.
trait FoldPlain<T> {
    fn combine(a: T, b: T) -> T;
}

const LANES: usize = 16;

#[inline(always)]
unsafe fn fold_plain_body<T: Copy, K: FoldPlain<T>>(out: *mut u8, a: *const u8, n: usize) {
    let (out, a) = (out.cast::<T>(), a.cast::<T>());
    // SAFETY: all elements read are within the row of n; out is one element.
    unsafe {
        let mut result = a.read_unaligned();
        let mut i = 1;
        if n >= 2 * LANES {
            let mut acc = a.cast::<[T; LANES]>().read_unaligned();
            i = LANES;
            while i + LANES <= n {
                let x = a.add(i).cast::<[T; LANES]>().read_unaligned();
                for k in 0..LANES {
                    acc[k] = K::combine(acc[k], x[k]);
                }
                i += LANES;
            }
            result = acc[0];
            for x in &acc[1..] {
                result = K::combine(result, *x);
            }
        }
        while i < n {
            result = K::combine(result, a.add(i).read_unaligned());
            i += 1;
        }
        out.write_unaligned(result);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn fold_plain_avx2<T: Copy, K: FoldPlain<T>>(out: *mut u8, a: *const u8, n: usize) {
    // SAFETY: as promised by the caller.
    unsafe { fold_plain_body::<T, K>(out, a, n) }
}

unsafe fn fold_plain_portable<T: Copy, K: FoldPlain<T>>(out: *mut u8, a: *const u8, n: usize) {
    // SAFETY: as promised by the caller.
    unsafe { fold_plain_body::<T, K>(out, a, n) }
}

fn fold_plain<T: Copy, K: FoldPlain<T>>() -> FoldRow {
    match math::isa() {
        #[cfg(target_arch = "x86_64")]
        math::Isa::Avx512 | math::Isa::Avx2 => fold_plain_avx2::<T, K>,
        _ => fold_plain_portable::<T, K>,
    }
}

macro_rules! plain {
    ($t:ty: |$a:ident, $b:ident| $body:expr) => {{
        struct K;
        impl FoldPlain<$t> for K {
            #[inline(always)]
            fn combine($a: $t, $b: $t) -> $t {
                $body
            }
        }
        fold_plain::<$t, K>()
    }};
}

/// The fold of an operation on the accumulating type `dtype` (`f32`, `f64`, `i64` or `bool`), if
/// there is one.
pub(super) fn fold(op: ReduceOp, dtype: DType) -> Option<Fold> {
    let binary = match op {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Prod => BinaryOp::Mul,
        ReduceOp::Max => BinaryOp::Maximum,
        ReduceOp::Min => BinaryOp::Minimum,
        ReduceOp::Any => BinaryOp::LogicalOr,
        ReduceOp::All => BinaryOp::LogicalAnd,
    };
    let combine = if dtype.is_floating() {
        float::binary_row(binary, dtype)
    } else {
        integer::binary_row(binary, dtype)
    }?;
    let row = match (dtype, op) {
        (DType::F32, ReduceOp::Sum) => fold_float::<f32, Sum>,
        (DType::F32, ReduceOp::Prod) => fold_float::<f32, Prod>,
        (DType::F32, ReduceOp::Max) => fold_float::<f32, Max>,
        (DType::F32, ReduceOp::Min) => fold_float::<f32, Min>,
        (DType::F64, ReduceOp::Sum) => fold_float::<f64, Sum>,
        (DType::F64, ReduceOp::Prod) => fold_float::<f64, Prod>,
        (DType::F64, ReduceOp::Max) => fold_float::<f64, Max>,
        (DType::F64, ReduceOp::Min) => fold_float::<f64, Min>,
        (DType::I64, ReduceOp::Sum) => plain!(i64: |a, b| a.wrapping_add(b)),
        (DType::I64, ReduceOp::Prod) => plain!(i64: |a, b| a.wrapping_mul(b)),
        (DType::I64, ReduceOp::Max) => plain!(i64: |a, b| a.max(b)),
        (DType::I64, ReduceOp::Min) => plain!(i64: |a, b| a.min(b)),
        (DType::Bool, ReduceOp::Any | ReduceOp::Max) => {
            plain!(Bool8: |a, b| Bool8::new(a.get() | b.get()))
        }
        (DType::Bool, ReduceOp::All | ReduceOp::Min) => {
            plain!(Bool8: |a, b| Bool8::new(a.get() & b.get()))
        }
        _ => return None,
    };
    let identity = match (op, dtype) {
        (ReduceOp::Sum | ReduceOp::Any, _) => Some(0),
        (ReduceOp::Prod, DType::F32) => Some(u64::from(1f32.to_bits())),
        (ReduceOp::Prod, DType::F64) => Some(1f64.to_bits()),
        (ReduceOp::Prod | ReduceOp::All, _) => Some(1),
        (ReduceOp::Max | ReduceOp::Min, _) => None,
    };
    Some(Fold { dtype, row, combine, identity })
}
