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

/// Memory that is free until a step: that of an output which the step writes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Host {
    pub(crate) output: u32,
    pub(crate) bytes: usize,
    pub(crate) until: usize,
}

/// Where a block lies: in the arena, or in the host with this position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Home {
    pub(crate) host: Option<usize>,
    pub(crate) offset: usize,
}

/// Gives each block a home such that blocks needed at the same time do not overlap, and returns
/// the size of the arena. What no host has room for goes first, and then the largest, each into the
/// tightest gap; the arena grows only for what finds none.
pub(crate) fn place(blocks: &[Block], hosts: &[Host]) -> (Vec<Home>, usize) {
    let could = |b: &Block| hosts.iter().any(|h| b.last < h.until && b.bytes <= h.bytes);
    let rank = |i: &usize| {
        let b = &blocks[*i];
        (could(b), std::cmp::Reverse(b.bytes), b.first, *i)
    };
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(rank);
    let mut by_time: Vec<usize> = (0..hosts.len()).collect();
    by_time.sort_by_key(|host| (hosts[*host].until, *host));
    let mut homes = vec![Home { host: None, offset: 0 }; blocks.len()];
    let mut placed: Vec<usize> = Vec::new();
    let mut end = 0;
    for i in order {
        let b = blocks[i];
        let bytes = b.bytes.next_multiple_of(ALIGN);
        let beside = |pool: Option<usize>| {
            let near = |j: &&usize| {
                let other = blocks[**j];
                homes[**j].host == pool && other.first <= b.last && b.first <= other.last
            };
            let taken = placed.iter().filter(near).map(|j| {
                let from = homes[*j].offset;
                (from, from + blocks[*j].bytes.next_multiple_of(ALIGN))
            });
            gap(taken.collect(), bytes)
        };
        let offset = beside(None);
        let in_host = |host: &usize| {
            let offset = beside(Some(*host));
            let fits = offset + b.bytes <= hosts[*host].bytes;
            fits.then_some(Home { host: Some(*host), offset })
        };
        let mut later = by_time.iter().filter(|host| b.last < hosts[**host].until);
        let hosted = if offset + bytes > end { later.find_map(in_host) } else { None };
        homes[i] = hosted.unwrap_or(Home { host: None, offset });
        if homes[i].host.is_none() {
            end = end.max(offset + bytes);
        }
        placed.push(i);
    }
    (homes, end)
}

/// The tightest gap of so many bytes between ranges, or the end of them.
fn gap(mut taken: Vec<(usize, usize)>, bytes: usize) -> usize {
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
    best.map_or(at, |(_, offset)| offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_is_used_again() {
        let block = |bytes, first, last| Block { bytes, first, last };
        let blocks = [block(100, 0, 1), block(100, 1, 2), block(100, 2, 3)];
        let (homes, end) = place(&blocks, &[]);
        assert_eq!(homes[0], homes[2]);
        assert_eq!(end, 256);
        // an output takes what is gone before it is written
        let host = Host { output: 7, bytes: 250, until: 3 };
        let (homes, end) = place(&blocks, &[host]);
        let hosts: Vec<_> = homes.iter().map(|h| h.host).collect();
        assert_eq!((hosts, end), (vec![None, Some(0), None], 128));
    }

    proptest! {
        #[test]
        fn live_blocks_do_not_overlap(
            raw in proptest::collection::vec((1usize..5000, 0usize..20, 0usize..8), 1..40),
            free in proptest::collection::vec((0usize..9000, 0usize..30), 0..4),
        ) {
            let blocks: Vec<Block> = raw
                .iter()
                .map(|(bytes, first, n)| Block { bytes: *bytes, first: *first, last: first + n })
                .collect();
            let hosts: Vec<Host> = free
                .iter()
                .map(|(bytes, until)| Host { output: 0, bytes: *bytes, until: *until })
                .collect();
            let (homes, end) = place(&blocks, &hosts);
            for (i, a) in blocks.iter().enumerate() {
                prop_assert_eq!(homes[i].offset % ALIGN, 0);
                let room = homes[i].host.map_or(end, |h| hosts[h].bytes);
                prop_assert!(homes[i].offset + a.bytes <= room);
                prop_assert!(homes[i].host.is_none_or(|h| a.last < hosts[h].until));
                for (j, b) in blocks.iter().enumerate().take(i) {
                    let together = a.first <= b.last && b.first <= a.last;
                    let overlap = homes[i].host == homes[j].host
                        && homes[i].offset < homes[j].offset + b.bytes
                        && homes[j].offset < homes[i].offset + a.bytes;
                    prop_assert!(!(together && overlap), "{} and {}", i, j);
                }
            }
        }
    }
}
