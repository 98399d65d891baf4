//! Sums, products and truth of complex numbers over dimensions.

use super::super::nest::{Nest, parallel};
use super::super::{KernelError, Strided};
use super::map::{get, put, with_complex};
use super::number::Number;
use num_complex::Complex;
use smallvec::SmallVec;
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::ReduceOp;

/// Elements that are added one after another; sums of that many are added in pairs, so that the
/// error grows with the logarithm of their number.
const BLOCK: usize = 64;

/// [`super::super::reduce`] of complex numbers. `Sum` and `Prod` give the dtype of `a`, `Any` and
/// `All` give `bool`.
///
/// # Safety
///
/// As for [`super::super::reduce`].
pub(in super::super) unsafe fn reduce(
    op: ReduceOp,
    out: Strided<'_>,
    a: Strided<'_>,
) -> Result<(), KernelError> {
    let tests = matches!(op, ReduceOp::Any | ReduceOp::All);
    let fits = if tests { out.dtype == DType::Bool } else { out.dtype == a.dtype };
    if !fits || matches!(op, ReduceOp::Max | ReduceOp::Min) {
        return Err(KernelError::unsupported(op, a.dtype));
    }
    // SAFETY: as promised by the caller; the closures read and write elements of these types.
    unsafe {
        with_complex!(op, a.dtype, C => {
            let zero = C::new(0.0, 0.0);
            match op {
                ReduceOp::Sum => fold::<C, C>(out, a, zero, <C as Number>::add, |x| x),
                ReduceOp::Prod => fold::<C, C>(out, a, C::new(1.0, 0.0), <C as Number>::mul, |x| x),
                ReduceOp::Any => fold::<u8, C>(out, a, 0, |x, y| x | y, |x| u8::from(x != zero)),
                _ => fold::<u8, C>(out, a, 1, |x, y| x & y, |x| u8::from(x != zero)),
            }
        });
    }
    Ok(())
}

/// # Safety
///
/// As for [`reduce`]; `T` and `A` are the types of the elements.
unsafe fn fold<T: Copy + Sync, A: Copy>(
    out: Strided<'_>,
    a: Strided<'_>,
    identity: T,
    join: impl Fn(T, T) -> T + Sync,
    of: impl Fn(A) -> T + Sync,
) {
    if out.numel() == 0 {
        return;
    }
    let rank = a.sizes.len();
    let reduced = |d: usize| out.sizes[d] == 1 && a.sizes[d] != 1;
    let pick = |keep: bool, of: &[i64]| -> SmallVec<[i64; 6]> {
        (0..rank).filter(|&d| reduced(d) != keep).map(|d| of[d]).collect()
    };
    let (sizes, to, from) = (pick(true, out.sizes), pick(true, out.strides), pick(true, a.strides));
    let (inner_sizes, inner_strides) = (pick(false, a.sizes), pick(false, a.strides));
    let outer = Nest::new(&[
        Strided { sizes: &sizes, strides: &to, ..out },
        Strided { sizes: &sizes, strides: &from, ..a },
    ]);
    let n: usize = inner_sizes.iter().product::<i64>() as usize;
    let inner = Nest::new(&[Strided { sizes: &inner_sizes, strides: &inner_strides, ..a }]);
    let base = a.ptr as isize;
    let offset = |i: usize| inner.element(i)[0] as isize - base;
    // the sum of elements begin .. end of the group at `p`
    let part = |p: *mut u8, begin: usize, end: usize| {
        let mut sum = identity;
        let row = inner.inner();
        let mut i = begin;
        while i < end {
            let in_row = i % row.size;
            let m = (row.size - in_row).min(end - i);
            let start = p.wrapping_offset(offset(i));
            for k in 0..m as isize {
                // SAFETY: an element of the group.
                sum = join(
                    sum,
                    of(unsafe { get::<A>(start.wrapping_offset(k * row.strides[0]), 0) }),
                );
            }
            i += m;
        }
        sum
    };
    parallel(out.numel(), n.max(1), &|begin, end| {
        for index in begin..end {
            let [to, from] = outer.element(index);
            let sum = if n == 0 {
                identity
            } else {
                pairwise(0, n, identity, &join, &|b, e| part(from, b, e))
            };
            // SAFETY: the element of the result.
            unsafe { put(to, 0, sum) };
        }
    });
}

fn pairwise<T: Copy>(
    begin: usize,
    end: usize,
    identity: T,
    join: &impl Fn(T, T) -> T,
    part: &impl Fn(usize, usize) -> T,
) -> T {
    let n = end - begin;
    if n <= BLOCK {
        return join(identity, part(begin, end));
    }
    let middle = begin + (n / 2).next_multiple_of(BLOCK).min(n - 1);
    join(pairwise(begin, middle, identity, join, part), pairwise(middle, end, identity, join, part))
}
