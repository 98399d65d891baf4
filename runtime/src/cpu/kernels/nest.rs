//! The loop nest that several strided operands share: fewest dimensions, best order, split among
//! threads.

use super::Strided;
use crate::cpu::threads;
use smallvec::SmallVec;
use std::ops::Range;
use std::slice::from_raw_parts_mut;
use straightline_passes::ir::Dims;

/// One loop: its extent, and each operand's step in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dim<const N: usize> {
    pub(super) size: usize,
    pub(super) strides: [isize; N],
}

/// Moves each pointer by `count` of its strides.
#[inline(always)]
pub(super) fn step<const N: usize>(ptrs: &mut [*mut u8; N], strides: &[isize; N], count: isize) {
    for (p, stride) in ptrs.iter_mut().zip(strides) {
        *p = p.wrapping_offset(stride * count);
    }
}

/// Loops over `N` operands of the same sizes, innermost first; never without a loop.
#[derive(Clone, Debug)]
pub(super) struct Nest<const N: usize> {
    pub(super) ptrs: [*mut u8; N],
    pub(super) dims: SmallVec<[Dim<N>; 4]>,
    pub(super) numel: usize,
}

// SAFETY: a nest is handed to the threads of one parallel loop, which the caller of the kernel
// vouches for: the output elements of disjoint ranges are disjoint, the inputs are only read.
unsafe impl<const N: usize> Sync for Nest<N> {}

impl<const N: usize> Nest<N> {
    /// Collapses the dimensions of operands that all have the sizes of the first.
    ///
    /// Dimensions are sorted by the strides of the first operand (the output), then of the others,
    /// so that memory is walked in order; neighbours that every operand walks as one are merged.
    pub(super) fn new(operands: &[Strided<'_>; N]) -> Self {
        let first = &operands[0];
        debug_assert!(operands.iter().all(|o| o.sizes == first.sizes));
        let mut dims: SmallVec<[Dim<N>; 4]> = SmallVec::new();
        let mut numel = 1;
        for d in (0..first.sizes.len()).rev() {
            let size = first.sizes[d] as usize;
            // sizes of tensors without elements may be any, and so may their products
            numel = usize::wrapping_mul(numel, size);
            if size != 1 {
                dims.push(Dim {
                    size,
                    strides: std::array::from_fn(|k| operands[k].byte_stride(d)),
                });
            }
        }
        // insertion sort: few dimensions, mostly sorted already, and strides of 0 compare with
        // nothing
        for i in 1..dims.len() {
            let mut j = i;
            while j > 0 && Self::belongs_inside(&dims[j], &dims[j - 1]) {
                dims.swap(j, j - 1);
                j -= 1;
            }
        }
        let mut used = 0;
        for i in 1..dims.len() {
            let inner = dims[used];
            let outer = dims[i];
            let merges = (0..N).all(|k| {
                inner.strides[k].checked_mul(inner.size as isize) == Some(outer.strides[k])
            });
            if merges {
                dims[used].size = usize::wrapping_mul(dims[used].size, outer.size);
            } else {
                used += 1;
                dims[used] = outer;
            }
        }
        dims.truncate(used + 1);
        if dims.is_empty() {
            dims.push(Dim {
                size: 1,
                strides: std::array::from_fn(|k| operands[k].dtype.size() as isize),
            });
        }
        Nest { ptrs: std::array::from_fn(|k| operands[k].ptr), dims, numel }
    }

    /// Whether loop `a` walks memory in smaller steps than `b`: the first operand that moves in
    /// both decides.
    fn belongs_inside(a: &Dim<N>, b: &Dim<N>) -> bool {
        (0..N)
            .map(|k| (a.strides[k], b.strides[k]))
            .find(|&(x, y)| x != 0 && y != 0 && x != y)
            .is_some_and(|(x, y)| x < y)
    }

    /// The innermost loop.
    pub(super) fn inner(&self) -> &Dim<N> {
        &self.dims[0]
    }

    /// The pointers of the `index`-th element.
    pub(super) fn element(&self, index: usize) -> [*mut u8; N] {
        self.at(index, 0)
    }

    /// The pointers of the start of the `index`-th innermost row.
    pub(super) fn outer_element(&self, index: usize) -> [*mut u8; N] {
        self.at(index, 1)
    }

    fn at(&self, mut index: usize, skip: usize) -> [*mut u8; N] {
        let mut at = self.ptrs;
        for dim in &self.dims[skip..] {
            let i = (index % dim.size) as isize;
            index /= dim.size;
            step(&mut at, &dim.strides, i);
        }
        at
    }

    /// Calls `row(pointers, n)` for each piece of an innermost loop within elements `begin..end` of
    /// the nest.
    ///
    /// # Safety
    ///
    /// `begin <= end <= numel`, and the operands' memory is what their strides say.
    #[inline]
    pub(super) unsafe fn walk(
        &self,
        begin: usize,
        end: usize,
        row: &mut impl FnMut([*mut u8; N], usize),
    ) {
        if begin >= end {
            return;
        }
        let inner = self.inner();
        let mut ptrs = self.ptrs;
        let mut position: SmallVec<[usize; 6]> = SmallVec::new();
        let mut rest = begin;
        for dim in &self.dims {
            let at = rest % dim.size;
            rest /= dim.size;
            position.push(at);
            step(&mut ptrs, &dim.strides, at as isize);
        }
        let mut left = end - begin;
        loop {
            let n = (inner.size - position[0]).min(left);
            row(ptrs, n);
            left -= n;
            if left == 0 {
                return;
            }
            // back to the start of the row, then one step of the first outer loop that has one left
            step(&mut ptrs, &inner.strides, -(position[0] as isize));
            position[0] = 0;
            for (d, dim) in self.dims.iter().enumerate().skip(1) {
                position[d] += 1;
                if position[d] < dim.size {
                    step(&mut ptrs, &dim.strides, 1);
                    break;
                }
                position[d] = 0;
                step(&mut ptrs, &dim.strides, -((dim.size - 1) as isize));
            }
        }
    }

    /// [`Nest::walk`] over all elements, in several threads where the work is worth it (`grain`
    /// elements each).
    ///
    /// # Safety
    ///
    /// As for [`Nest::walk`]; `row` must be safe to call for disjoint pieces at the same time.
    #[inline]
    pub(super) unsafe fn run(&self, grain: usize, row: &(impl Fn([*mut u8; N], usize) + Sync)) {
        if self.numel <= grain {
            // SAFETY: as promised by the caller.
            unsafe { self.walk(0, self.numel, &mut |p, n| row(p, n)) };
            return;
        }
        threads::parallel_ranges(self.numel, grain, &|begin, end| {
            // SAFETY: the ranges are within `0..numel`, the rest is promised by the caller.
            unsafe { self.walk(begin, end, &mut |p, n| row(p, n)) };
        });
    }
}

/// Splits the `n` items of a loop whose body costs `cost` element operations each among threads.
pub(super) fn parallel(n: usize, cost: usize, body: &(dyn Fn(usize, usize) + Sync)) {
    let grain = (GRAIN / cost.max(1)).max(1);
    if n <= grain {
        if n > 0 {
            body(0, n);
        }
    } else {
        threads::parallel_ranges(n, grain, body);
    }
}

/// [`parallel`] over the pieces of two slices, `n` of each, of these lengths: `body` gets the
/// numbers of its pieces, and the pieces.
pub(super) fn parallel_pieces<T: Send, U: Send>(
    n: usize,
    cost: usize,
    (a, a_len): (&mut [T], usize),
    (b, b_len): (&mut [U], usize),
    body: &(impl Fn(Range<usize>, &mut [T], &mut [U]) + Sync),
) {
    let fits = |all: usize, len: usize| n.checked_mul(len) == Some(all);
    assert!(fits(a.len(), a_len) && fits(b.len(), b_len));
    let (a, b) = (Shared(a.as_mut_ptr().cast()), Shared(b.as_mut_ptr().cast()));
    parallel(n, cost, &|first, last| {
        let (a, b) = (
            a.at((first * a_len * size_of::<T>()) as isize).cast::<T>(),
            b.at((first * b_len * size_of::<U>()) as isize).cast::<U>(),
        );
        let n = last - first;
        // SAFETY: the ranges do not overlap, and lie within the slices, which are borrowed for the
        // call.
        let (a, b) =
            unsafe { (from_raw_parts_mut(a, n * a_len), from_raw_parts_mut(b, n * b_len)) };
        body(first..last, a, b);
    });
}

/// [`parallel_pieces`] of one slice.
pub(super) fn parallel_chunks<T: Send>(
    n: usize,
    cost: usize,
    all: (&mut [T], usize),
    body: &(impl Fn(Range<usize>, &mut [T]) + Sync),
) {
    let none: &mut [(); 0] = &mut [];
    parallel_pieces(n, cost, all, (none, 0), &|pieces, all, _| body(pieces, all));
}

/// Elements below which one thread does a cheap pointwise operation: at some 0.1-0.3 ns an element,
/// this is a few microseconds, where a second thread begins to pay.
pub(super) const GRAIN: usize = 32 << 10;

/// A pointer that a parallel loop may carry to its threads.
#[derive(Clone, Copy)]
pub(super) struct Shared(pub(super) *mut u8);

// SAFETY: carries no access; each use says why it is disjoint from the others.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    /// The pointer, `bytes` on.
    #[inline]
    pub(super) fn at(self, bytes: isize) -> *mut u8 {
        self.0.wrapping_offset(bytes)
    }
}

/// The rows of operands along a dimension: a nest over the other dimensions, and each operand's
/// step.
pub(super) struct Rows<const N: usize> {
    pub(super) others: Nest<N>,
    pub(super) steps: [isize; N],
    pub(super) n: usize,
}

pub(super) fn rows_along<const N: usize>(operands: &[Strided<'_>; N], dim: usize) -> Rows<N> {
    let without = |dims: &[i64]| -> Dims {
        dims.iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, &x)| x).collect()
    };
    let sizes = without(operands[0].sizes);
    let strides: [Dims; N] = std::array::from_fn(|k| without(operands[k].strides));
    let views: [Strided<'_>; N] =
        std::array::from_fn(|k| Strided { sizes: &sizes, strides: &strides[k], ..operands[k] });
    let scalar = operands[0].sizes.is_empty();
    Rows {
        others: Nest::new(&views),
        steps: std::array::from_fn(|k| {
            if scalar { operands[k].dtype.size() as isize } else { operands[k].byte_stride(dim) }
        }),
        n: if scalar { 1 } else { operands[0].sizes[dim] as usize },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use straightline_passes::ir::DType;

    fn strided<'a>(sizes: &'a [i64], strides: &'a [i64]) -> Strided<'a> {
        Strided { ptr: std::ptr::null_mut(), dtype: DType::F32, sizes, strides }
    }

    #[test]
    fn contiguous_operands_become_one_loop() {
        let s = strided(&[2, 3, 4], &[12, 4, 1]);
        let nest = Nest::new(&[s, s]);
        assert_eq!(nest.dims.len(), 1);
        assert_eq!((nest.inner().size, nest.inner().strides), (24, [4, 4]));
        let scalar = strided(&[2, 3, 4], &[0, 0, 0]);
        let nest = Nest::new(&[s, scalar]);
        assert_eq!(nest.dims.len(), 1);
        assert_eq!(nest.inner().strides, [4, 0]);
    }

    #[test]
    fn transposed_alike_becomes_one_loop() {
        let t = strided(&[3, 4], &[1, 3]);
        let nest = Nest::new(&[t, t]);
        assert_eq!(nest.dims.len(), 1);
    }

    #[test]
    fn the_output_decides_the_order() {
        let out = strided(&[3, 4], &[4, 1]);
        let a = strided(&[3, 4], &[1, 3]);
        let nest = Nest::new(&[out, a]);
        assert_eq!(nest.dims.len(), 2);
        assert_eq!(nest.inner().strides, [4, 12]);
    }

    #[test]
    fn any_range_visits_each_of_its_elements_once() {
        let out = strided(&[3, 4, 5], &[40, 10, 2]);
        let a = strided(&[3, 4, 5], &[0, 1, 4]);
        let nest = Nest::new(&[out, a]);
        let expect: Vec<(usize, usize)> = (0..3)
            .flat_map(|i| {
                (0..4).flat_map(move |j| (0..5).map(move |k| (i * 40 + j * 10 + k * 2, j + k * 4)))
            })
            .collect();
        for (begin, end) in [(0, 60), (0, 1), (7, 8), (3, 44), (59, 60), (5, 5)] {
            let mut seen = Vec::new();
            // SAFETY: the row function only looks at addresses.
            unsafe {
                nest.walk(begin, end, &mut |p, n| {
                    for i in 0..n {
                        let at =
                            |k: usize| (p[k] as usize + i * nest.inner().strides[k] as usize) / 4;
                        seen.push((at(0), at(1)));
                    }
                });
            }
            assert_eq!(seen, expect[begin..end], "{begin}..{end}");
        }
        let seen = Mutex::new(0);
        // SAFETY: as above.
        unsafe { nest.run(7, &|_, n| *seen.lock().unwrap() += n) };
        assert_eq!(seen.into_inner().unwrap(), 60);
    }
}
