//! What vectors of every machine have in common.

use super::isa::{Isa, isa};
use crate::cpu::math::Prims;

/// The most lanes any implementation has.
pub const MAX_LANES: usize = 16;

/// Primitives on machine vectors, with memory access and horizontal operations.
pub trait Simd: Prims + Copy {
    /// What a lane holds.
    type Elem: Lane;
    /// The number of lanes, a power of two of at most [`MAX_LANES`].
    const LANES: usize;

    /// Every lane `v`.
    fn splat(&mut self, v: Self::Elem) -> Self::F;

    /// Reads `LANES` elements.
    ///
    /// # Safety
    /// `ptr` is valid for reading `LANES` elements.
    unsafe fn load(&mut self, ptr: *const Self::Elem) -> Self::F;

    /// Writes `LANES` elements.
    ///
    /// # Safety
    /// `ptr` is valid for writing `LANES` elements.
    unsafe fn store(&mut self, ptr: *mut Self::Elem, v: Self::F);

    /// Reads `n <= LANES` elements into the first lanes; the others become zero.
    ///
    /// # Safety
    /// `ptr` is valid for reading `n` elements.
    unsafe fn load_partial(&mut self, ptr: *const Self::Elem, n: usize) -> Self::F;

    /// Writes the first `n <= LANES` lanes.
    ///
    /// # Safety
    /// `ptr` is valid for writing `n` elements.
    unsafe fn store_partial(&mut self, ptr: *mut Self::Elem, n: usize, v: Self::F);

    /// The first `n` lanes set.
    fn first(&mut self, n: usize) -> Self::M;

    /// Some lane is set.
    fn any(&mut self, m: Self::M) -> bool;

    /// Exchanges rows and columns of the first `LANES` vectors: lane `k` of vector `i` becomes lane
    /// `i` of vector `k`.
    fn transpose(&mut self, rows: &mut [Self::F; MAX_LANES]);

    /// The lanes in order, in the first `LANES` places.
    #[inline(always)]
    fn to_array(&mut self, v: Self::F) -> [Self::Elem; MAX_LANES] {
        let mut lanes = [Self::Elem::default(); MAX_LANES];
        // SAFETY: the array has room for the most lanes there are.
        unsafe { self.store(lanes.as_mut_ptr(), v) };
        lanes
    }

    /// Folds the upper half onto the lower until one lane is left.
    #[inline(always)]
    fn reduce(
        &mut self,
        v: Self::F,
        f: impl Fn(Self::Elem, Self::Elem) -> Self::Elem,
    ) -> Self::Elem {
        let mut lanes = self.to_array(v);
        let mut half = Self::LANES / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] = f(lanes[i], lanes[i + half]);
            }
            half /= 2;
        }
        lanes[0]
    }

    /// The sum of the lanes, by halves.
    #[inline(always)]
    fn reduce_add(&mut self, v: Self::F) -> Self::Elem {
        self.reduce(v, Lane::plus)
    }

    /// The largest lane; NaN if one is.
    #[inline(always)]
    fn reduce_max(&mut self, v: Self::F) -> Self::Elem {
        self.reduce(v, Lane::larger)
    }

    /// The smallest lane; NaN if one is.
    #[inline(always)]
    fn reduce_min(&mut self, v: Self::F) -> Self::Elem {
        self.reduce(v, Lane::smaller)
    }
}

/// Something to run over vectors of `E`.
pub trait SimdTask<E> {
    /// What it returns.
    type Out;

    /// Does the work. Implementations are `#[inline(always)]`, and so is all they call with `s`.
    fn run<S: Simd<Elem = E>>(self, s: S) -> Self::Out;
}

/// An element type that vectors exist for.
pub trait Lane: Copy + Default + PartialOrd + Send + Sync + 'static {
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The larger; NaN if either is.
    fn larger(self, other: Self) -> Self;
    /// The smaller; NaN if either is.
    fn smaller(self, other: Self) -> Self;

    /// Runs a task on the vectors of `isa`, or of the best this machine has if that is less.
    fn dispatch_on<T: SimdTask<Self>>(isa: Isa, task: T) -> T::Out;

    /// Runs a task on the widest vectors.
    #[inline]
    fn dispatch<T: SimdTask<Self>>(task: T) -> T::Out {
        Self::dispatch_on(isa(), task)
    }
}
