//! What an access costs the memory of a GPU.

use super::warp::lanes;
use crate::number::{LANES, Lanes};

/// Bytes that global memory moves at least.
const SECTOR: u32 = 32;
/// Banks of shared memory, each of four bytes.
const BANKS: usize = 32;

/// The sectors that the lanes of a warp touch with accesses of so many bytes.
pub(super) fn sectors(addresses: &Lanes, active: u32, bytes: u32) -> u64 {
    let each = bytes.div_ceil(SECTOR).into();
    let (mut count, mut last) = (0, None);
    for lane in lanes(active) {
        let sector = addresses[lane] / u64::from(SECTOR);
        match last {
            Some(last) if sector == last => {}
            Some(last) if sector < last => return scattered(addresses, active, each),
            _ => {
                count += each;
                last = Some(sector);
            }
        }
    }
    count
}

fn scattered(addresses: &Lanes, active: u32, each: u64) -> u64 {
    let (mut found, mut count) = ([0; LANES], 0);
    for lane in lanes(active) {
        found[count] = addresses[lane] / u64::from(SECTOR);
        count += 1;
    }
    let found = &mut found[..count];
    found.sort_unstable();
    each * found.chunk_by(|left, right| left == right).count() as u64
}

/// How many times more than once the banks of shared memory are read or written in full.
///
/// Lanes go together as long as they use 128 bytes at most; the same word is used once.
pub(super) fn conflicts(offsets: &Lanes, active: u32, bytes: u32) -> u64 {
    let words = bytes.div_ceil(4) as u64;
    let together = (LANES as u64 / words).max(1) as u32;
    let mut conflicts = 0;
    let mut first = 0;
    while first < LANES as u32 {
        let mask = active & ((u64::MAX >> (64 - together)) as u32) << first;
        conflicts += rounds(offsets, mask, words).saturating_sub(1);
        first += together;
    }
    conflicts
}

fn rounds(offsets: &Lanes, mask: u32, words: u64) -> u64 {
    let mut held = [u64::MAX; BANKS];
    for lane in lanes(mask) {
        for word in offsets[lane] / 4..offsets[lane] / 4 + words {
            let bank = &mut held[word as usize % BANKS];
            if *bank != word && *bank != u64::MAX {
                return crowded(offsets, mask, words);
            }
            *bank = word;
        }
    }
    1
}

fn crowded(offsets: &Lanes, mask: u32, words: u64) -> u64 {
    let all = lanes(mask).flat_map(|lane| offsets[lane] / 4..offsets[lane] / 4 + words);
    let mut all: Vec<u64> = all.collect();
    all.sort_unstable();
    all.dedup();
    let mut counts = [0; BANKS];
    all.iter().for_each(|&word| counts[word as usize % BANKS] += 1);
    counts.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(offset: impl Fn(u64) -> u64) -> Lanes {
        std::array::from_fn(|lane| offset(lane as u64))
    }

    #[test]
    fn neighbours_share_sectors() {
        assert_eq!(sectors(&every(|lane| 4 * lane), u32::MAX, 4), 4);
        assert_eq!(sectors(&every(|lane| 16 * lane), u32::MAX, 16), 16);
        assert_eq!(sectors(&every(|lane| 128 * lane), u32::MAX, 4), 32);
        assert_eq!(sectors(&every(|lane| 4 * (31 - lane)), u32::MAX, 4), 4);
        assert_eq!(sectors(&every(|lane| 128 * (lane % 2)), u32::MAX, 4), 2);
        assert_eq!(sectors(&every(|lane| 4 * lane), 0xff, 4), 1);
    }

    #[test]
    fn banks_are_in_conflict() {
        assert_eq!(conflicts(&every(|lane| 4 * lane), u32::MAX, 4), 0);
        assert_eq!(conflicts(&every(|_| 64), u32::MAX, 4), 0);
        assert_eq!(conflicts(&every(|lane| 8 * lane), u32::MAX, 4), 1);
        assert_eq!(conflicts(&every(|lane| 128 * lane), u32::MAX, 4), 31);
        assert_eq!(conflicts(&every(|lane| 132 * lane), u32::MAX, 4), 0);
        assert_eq!(conflicts(&every(|lane| 2 * lane), u32::MAX, 2), 0);
        assert_eq!(conflicts(&every(|lane| 16 * lane), u32::MAX, 16), 0);
        // rows of 128 bytes: four times the eight lanes of a round meet in the same banks
        assert_eq!(conflicts(&every(|lane| 128 * lane), u32::MAX, 16), 28);
    }
}
