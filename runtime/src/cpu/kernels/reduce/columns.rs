//! Outputs that are neighbours where the input's elements are: whole rows are added to a tile of
//! them.

use super::super::fold::Fold;
use super::super::moves::move_elements;
use super::super::nest::Shared;
use super::super::tile::{TILE, Tile};
use super::feed::Feed;
use super::geometry::{Geometry, folded_from};
use std::mem::MaybeUninit;

/// Columns of a tile of accumulators where rows are added as they lie: long pieces keep the
/// prefetcher at work, and a tile of `f32` fits the first cache.
const WIDE: usize = 4096;

/// Room for the accumulators of a tile of columns.
#[repr(C, align(64))]
struct Accumulators([MaybeUninit<u64>; WIDE]);

impl Accumulators {
    #[inline(always)]
    fn new() -> Self {
        Accumulators([MaybeUninit::uninit(); WIDE])
    }

    fn ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// How many neighbouring outputs one unit of work has.
pub(super) fn tile_columns(g: &Geometry, feed: &Feed) -> usize {
    match feed.direct {
        Some(step) if step == g.kept.inner().strides[0] => WIDE,
        _ => TILE,
    }
}

/// A tile of neighbouring outputs: adds row after row of the folded elements `begin..end`.
pub(super) unsafe fn fold_columns(
    g: &Geometry,
    fold: &Fold,
    feed: &Feed,
    partial: Shared,
    unit: usize,
    begin: usize,
    end: usize,
) {
    let inner = g.kept.inner();
    let columns = tile_columns(g, feed);
    let tiles = inner.size.div_ceil(columns);
    let first = unit % tiles * columns;
    let n = (inner.size - first).min(columns);
    let [input, place] = g.kept.outer_element(unit / tiles);
    let input = input.wrapping_offset(first as isize * inner.strides[0]);
    let place = place.wrapping_offset(first as isize * inner.strides[1]);
    let index = (place as usize - g.kept.ptrs[1] as usize) / feed.size;
    let step = inner.strides[0];
    // the accumulators of a tile are neighbours when the output runs as the input does
    let packed = inner.strides[1] == feed.size as isize;
    let (mut total, mut block) = (Accumulators::new(), Accumulators::new());
    let (mut tile, mut spare) = (Tile::new(), Tile::new());
    let (total, block, tile, spare) = (total.ptr(), block.ptr(), tile.ptr(), spare.ptr());
    let (mut in_total, mut in_block) = (0usize, 0usize);
    let rows = end - begin;
    // two levels of about the square root each
    let block_rows = 1usize << (usize::BITS - rows.leading_zeros()).div_ceil(2);
    let folded = folded_from(&g.folded, input);
    let row_step = folded.inner().strides[0];
    let mut add = |p: *mut u8| {
        // SAFETY: n elements of the input at this row; the tiles have room for them.
        unsafe {
            let row = if feed.direct == Some(step) {
                p.cast_const()
            } else {
                let to = if in_block == 0 { block } else { tile };
                if packed || feed.centre.is_none() {
                    feed.load(to, spare, p, step, n, (index, false));
                } else {
                    for i in 0..n {
                        let from = p.wrapping_offset(i as isize * step);
                        let mean = index + i * (inner.strides[1] as usize / feed.size);
                        feed.load(to.add(i * feed.size), spare, from, step, 1, (mean, true));
                    }
                }
                to.cast_const()
            };
            if in_block == 0 {
                if row != block.cast_const() {
                    std::ptr::copy_nonoverlapping(row, block, n * feed.size);
                }
            } else {
                (fold.combine)(block, block, row, n, 0);
            }
            in_block += 1;
            if in_block == block_rows {
                if in_total == 0 {
                    std::ptr::copy_nonoverlapping(block, total, n * feed.size);
                } else {
                    (fold.combine)(total, total, block, n, 0);
                }
                in_total += 1;
                in_block = 0;
            }
        }
    };
    // SAFETY: as promised by the caller.
    unsafe {
        folded.walk(begin, end, &mut |p, rows| {
            for r in 0..rows as isize {
                add(p[0].wrapping_offset(r * row_step));
            }
        });
        let result = match (in_total, in_block) {
            (0, _) => block,
            (_, 0) => total,
            _ => {
                (fold.combine)(total, total, block, n, 0);
                total
            }
        };
        let out = partial.at((index * feed.size) as isize);
        move_elements(feed.size, out, inner.strides[1], result, feed.size as isize, n);
    }
}
