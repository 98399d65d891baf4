//! The input of a fold: pieces read in place, or copied into a tile, converted and centred.

use super::super::integer::{B_IS_SCALAR, Row1, Row2};
use super::super::nest::Shared;
use super::super::tile::{Form, load};

/// How a piece of the input becomes a row of the accumulating type.
pub(super) struct Feed {
    pub(super) form: Form,
    pub(super) convert: Option<Row1>,
    /// The means to subtract before squaring, with the two operations.
    pub(super) centre: Option<(Shared, Row2, Row2)>,
    /// Bytes of an accumulator.
    pub(super) size: usize,
    /// Pieces of this byte stride can be folded as they lie.
    pub(super) direct: Option<isize>,
}

impl Feed {
    /// Brings `n <= TILE` elements into `tile`. `mean` is the place of the mean of each element, or
    /// of all.
    ///
    /// # Safety
    ///
    /// `p` has `n` elements at this stride; `tile` and `spare` have room for `TILE` numbers.
    pub(super) unsafe fn load(
        &self,
        tile: *mut u8,
        spare: *mut u8,
        p: *const u8,
        step: isize,
        n: usize,
        mean: (usize, bool),
    ) {
        // SAFETY: as promised by the caller.
        unsafe {
            match self.convert {
                Some(convert) => {
                    load(self.form, spare, p, step, n);
                    convert(tile, spare, n);
                }
                None => load(self.form, tile, p, step, n),
            }
            if let Some((means, sub, mul)) = self.centre {
                let (index, one_for_all) = mean;
                let mask = if one_for_all { B_IS_SCALAR } else { 0 };
                sub(tile, tile, means.at((index * self.size) as isize), n, mask);
                mul(tile, tile, tile, n, 0);
            }
        }
    }
}
