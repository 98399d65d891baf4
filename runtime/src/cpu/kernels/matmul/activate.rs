//! What follows the sums of a product, and the activation of a finished tile.

use super::element::Float;
use crate::cpu::kernels::activation::{Formula, with_activation};
use crate::cpu::math::simd::{Lane, Simd, SimdTask};
use straightline_passes::schedule::loops::Activation;

/// What follows the sum: `activation(sum + bias) + residual`, all of the product's dtype.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue {
    /// One element per column, contiguous.
    pub bias: Option<*const u8>,
    /// Applied to each element.
    pub activation: Activation,
    /// A matrix of the result's sizes with contiguous rows, and the distance of its rows in
    /// elements. It may be the result itself, element for element.
    pub residual: Option<(*const u8, isize)>,
}

/// `c = activation(c) + residual` on a tile.
pub(super) struct Activate<T> {
    pub(super) activation: Activation,
    pub(super) c: *mut T,
    pub(super) c_row: isize,
    /// May be null. It may be the tile itself.
    pub(super) residual: *const T,
    pub(super) residual_row: isize,
    pub(super) rows: usize,
    pub(super) cols: usize,
}

impl<T: Float + Lane> Activate<T> {
    /// Does it, on the widest vectors of the machine.
    ///
    /// # Safety
    ///
    /// The tile is valid to read and write, the residual to read.
    pub(super) unsafe fn run(self) {
        T::dispatch(self)
    }
}

impl<T: Float + Lane> SimdTask<T> for Activate<T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<Elem = T>>(self, s: S) {
        with_activation!(self.activation, F => self.each::<S, F>(s));
    }
}

impl<T: Float + Lane> Activate<T> {
    #[inline(always)]
    fn each<S: Simd<Elem = T>, F: Formula>(&self, mut s: S) {
        for i in 0..self.rows {
            let row = self.c.wrapping_offset(i as isize * self.c_row);
            let residual = self.residual.wrapping_offset(i as isize * self.residual_row);
            let mut j = 0;
            while j < self.cols {
                let n = (self.cols - j).min(S::LANES);
                // SAFETY: `n` elements from `j` on are inside the row, by the contract of
                // `Activate::run`.
                unsafe {
                    let p = row.wrapping_add(j);
                    let x = if n == S::LANES { s.load(p) } else { s.load_partial(p, n) };
                    let mut x = F::at(&mut s, x);
                    if !self.residual.is_null() {
                        let r = residual.wrapping_add(j);
                        let r = if n == S::LANES { s.load(r) } else { s.load_partial(r, n) };
                        x = s.add(x, r);
                    }
                    if n == S::LANES {
                        s.store(p, x);
                    } else {
                        s.store_partial(p, n, x);
                    }
                }
                j += n;
            }
        }
    }
}
