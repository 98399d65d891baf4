//! Outputs whose own elements are neighbours in memory: each folds its rows.

use super::super::fold::Fold;
use super::super::nest::Shared;
use super::super::tile::{TILE, Tile};
use super::feed::Feed;
use super::geometry::{BLOCK, Geometry, folded_from, repeat};

/// Rows of up to this many blocks keep the results of their blocks side by side.
const FEW: usize = 16;

/// Partial results combined like a binary counter: the k-th is the result of `2^k` blocks.
struct Cascade<'a> {
    fold: &'a Fold,
    levels: [u64; 48],
    count: u64,
}

impl<'a> Cascade<'a> {
    fn new(fold: &'a Fold) -> Self {
        Cascade { fold, levels: [0; 48], count: 0 }
    }

    fn combine(&self, a: &mut u64, b: &u64) {
        let (a, b) = (std::ptr::from_mut(a).cast::<u8>(), std::ptr::from_ref(b).cast::<u8>());
        // SAFETY: one accumulator each; an output may be exactly the same element as an input.
        unsafe { (self.fold.combine)(a, b, a, 1, 0) };
    }

    #[inline]
    fn push(&mut self, mut x: u64) {
        self.count += 1;
        let mut level = 0;
        while self.count >> level & 1 == 0 {
            let before = self.levels[level];
            self.combine(&mut x, &before);
            level += 1;
        }
        self.levels[level] = x;
    }

    fn finish(self) -> Option<u64> {
        let mut result: Option<u64> = None;
        for level in 0..self.levels.len() {
            if self.count >> level & 1 == 1 {
                let x = self.levels[level];
                result = Some(match result {
                    None => x,
                    Some(mut r) => {
                        self.combine(&mut r, &x);
                        r
                    }
                });
            }
        }
        result
    }
}

/// One output: folds elements `begin..end` of it into the `unit`-th accumulator.
pub(super) unsafe fn fold_rows(
    g: &Geometry,
    fold: &Fold,
    feed: &Feed,
    partial: Shared,
    unit: usize,
    begin: usize,
    end: usize,
) {
    let [input, place] = g.kept.element(unit);
    let index = (place as usize - g.kept.ptrs[1] as usize) / feed.size;
    let out = partial.at((index * feed.size) as isize);
    let step = g.folded.inner().strides[0];
    // SAFETY: all pieces are within the input; `out` is this unit's accumulator.
    unsafe {
        if feed.direct == Some(step) && g.folded.dims.len() == 1 && end - begin <= FEW * BLOCK {
            let from = input.wrapping_offset(begin as isize * step);
            fold_few_blocks(fold, feed.size, out, from, end - begin);
        } else {
            fold_any(g, fold, feed, out, (input, index), begin, end);
        }
    }
}

/// `n` neighbours, not more than `FEW` blocks. This much work hides behind the memory that it
/// reads; the general way's does not for rows of a few thousand elements.
unsafe fn fold_few_blocks(fold: &Fold, size: usize, out: *mut u8, from: *const u8, n: usize) {
    // SAFETY: the caller's row has n elements; there is room for the results of FEW blocks.
    unsafe {
        if n <= BLOCK {
            (fold.row)(out, from, n);
            return;
        }
        let mut partial = [0u64; FEW];
        let p = partial.as_mut_ptr().cast::<u8>();
        let mut blocks = n.div_ceil(BLOCK);
        for k in 0..blocks {
            let begin = k * BLOCK;
            (fold.row)(p.add(k * size), from.add(begin * size), BLOCK.min(n - begin));
        }
        while blocks > 1 {
            let half = blocks / 2;
            (fold.combine)(p, p, p.add((blocks - half) * size), half, 0);
            blocks -= half;
        }
        std::ptr::copy_nonoverlapping(p, out, size);
    }
}

/// One output, for elements in any layout.
#[inline(never)]
unsafe fn fold_any(
    g: &Geometry,
    fold: &Fold,
    feed: &Feed,
    out: *mut u8,
    (input, index): (*mut u8, usize),
    begin: usize,
    end: usize,
) {
    let step = g.folded.inner().strides[0];
    // SAFETY: as promised by the caller.
    unsafe {
        let mut cascade = Cascade::new(fold);
        let (mut tile, mut spare) = (Tile::new(), Tile::new());
        let (tile, spare) = (tile.ptr(), spare.ptr());
        let folded = folded_from(&g.folded, input);
        folded.walk(begin, end, &mut |p, n| {
            let block = if feed.direct == Some(step) { BLOCK } else { TILE };
            let mut start = 0;
            while start < n {
                let m = (n - start).min(block);
                let from = p[0].wrapping_offset(start as isize * step);
                let mut x = 0u64;
                let to = (&raw mut x).cast::<u8>();
                if feed.direct == Some(step) {
                    (fold.row)(to, from, m);
                } else {
                    feed.load(tile, spare, from, step, m, (index, true));
                    (fold.row)(to, tile, m);
                }
                cascade.push(x);
                start += m;
            }
        });
        if let Some(result) = cascade.finish() {
            repeat(out, result, feed.size, 1);
        }
    }
}
