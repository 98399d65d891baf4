//! Where intermediates lie in the arena.

/// Every offset is a multiple of this many bytes.
pub(crate) const ALIGN: usize = 64;

/// A block of memory and the steps between which it is needed, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub(crate) bytes: usize,
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// Gives each block an offset such that blocks needed at the same time do not overlap, and returns
/// the size of the arena. The largest go first, each into the tightest gap.
pub(crate) fn place(blocks: &[Block]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(blocks[*i].bytes), blocks[*i].first, *i));
    let mut offsets = vec![0; blocks.len()];
    let mut placed: Vec<usize> = Vec::new();
    let mut end = 0;
    for i in order {
        let b = blocks[i];
        let bytes = b.bytes.next_multiple_of(ALIGN);
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|j| blocks[**j].first <= b.last && b.first <= blocks[**j].last)
            .map(|j| (offsets[*j], offsets[*j] + blocks[*j].bytes.next_multiple_of(ALIGN)))
            .collect();
        taken.sort_unstable();
        let (mut at, mut best): (usize, Option<(usize, usize)>) = (0, None);
        for (from, to) in taken {
            if from >= at + bytes {
                let gap = from - at;
                if best.is_none_or(|(g, _)| gap < g) {
                    best = Some((gap, at));
                }
            }
            at = at.max(to);
        }
        let offset = best.map_or(at, |(_, offset)| offset);
        offsets[i] = offset;
        end = end.max(offset + bytes);
        placed.push(i);
    }
    (offsets, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_is_used_again() {
        let block = |bytes, first, last| Block { bytes, first, last };
        let (offsets, end) = place(&[block(100, 0, 1), block(100, 1, 2), block(100, 2, 3)]);
        assert_eq!(offsets[0], offsets[2]);
        assert_eq!(end, 256);
    }

    proptest! {
        #[test]
        fn live_blocks_do_not_overlap(
            raw in proptest::collection::vec((1usize..5000, 0usize..20, 0usize..8), 1..40)
        ) {
            let blocks: Vec<Block> = raw
                .iter()
                .map(|(bytes, first, n)| Block { bytes: *bytes, first: *first, last: first + n })
                .collect();
            let (offsets, end) = place(&blocks);
            for (i, a) in blocks.iter().enumerate() {
                prop_assert_eq!(offsets[i] % ALIGN, 0);
                prop_assert!(offsets[i] + a.bytes <= end);
                for (j, b) in blocks.iter().enumerate().take(i) {
                    let together = a.first <= b.last && b.first <= a.last;
                    let overlap = offsets[i] < offsets[j] + b.bytes
                        && offsets[j] < offsets[i] + a.bytes;
                    prop_assert!(!(together && overlap), "{} and {}", i, j);
                }
            }
        }
    }
}
