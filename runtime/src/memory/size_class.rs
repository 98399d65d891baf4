//! Rounding of requests to size classes.
//!
//! Up to [`FINE_LIMIT`] classes are 64 bytes apart; above it each doubling is cut in four (small)
//! or eight (large) steps, so that at most a quarter or an eighth of a block is wasted.

/// Requests up to this many bytes live on thread-local free lists.
pub(super) const SMALL_LIMIT: usize = 64 << 10;

const FINE_LIMIT: usize = 1 << 10;
const FINE_CLASSES: usize = FINE_LIMIT / 64;
const SMALL_DOUBLINGS: usize = (SMALL_LIMIT / FINE_LIMIT).trailing_zeros() as usize;

/// The number of small classes.
pub(super) const SMALL_CLASSES: usize = FINE_CLASSES + SMALL_DOUBLINGS * 4;

/// The class of a small request (`1 ..= SMALL_LIMIT` bytes).
#[inline]
pub(super) fn small_class(bytes: usize) -> usize {
    debug_assert!((1..=SMALL_LIMIT).contains(&bytes));
    if bytes <= FINE_LIMIT {
        (bytes - 1) / 64
    } else {
        let top = usize::BITS - 1 - (bytes - 1).leading_zeros();
        let quarter = ((bytes - 1) >> (top - 2)) & 3;
        FINE_CLASSES + (top as usize - 10) * 4 + quarter
    }
}

/// The size of the blocks of a small class.
#[inline]
pub(super) fn small_size(class: usize) -> usize {
    if class < FINE_CLASSES {
        (class + 1) * 64
    } else {
        let c = class - FINE_CLASSES;
        (5 + c % 4) << (8 + c / 4)
    }
}

/// The size of the block that serves a large request, or `None` when no block can be that large.
#[inline]
pub(super) fn large_size(bytes: usize) -> Option<usize> {
    debug_assert!(bytes > SMALL_LIMIT);
    let top = usize::BITS - 1 - (bytes - 1).leading_zeros();
    let step = 1usize << (top - 3);
    let size = bytes.checked_add(step - 1)? & !(step - 1);
    (size <= isize::MAX as usize - 4096).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_classes_are_tight_and_increasing() {
        for bytes in 1..=SMALL_LIMIT {
            let c = small_class(bytes);
            assert!(c < SMALL_CLASSES);
            assert!(small_size(c) >= bytes, "{bytes} in class {c}");
            assert!(c == 0 || small_size(c - 1) < bytes, "{bytes} in class {c}");
        }
        assert_eq!(small_size(SMALL_CLASSES - 1), SMALL_LIMIT);
        assert!((0..SMALL_CLASSES).all(|c| small_size(c).is_multiple_of(64)));
    }

    #[test]
    fn large_sizes_waste_at_most_an_eighth() {
        for bytes in
            [SMALL_LIMIT + 1, 100_000, 1 << 20, (1 << 20) + 1, 64_000_000, 64 << 20, (64 << 20) + 1]
        {
            let size = large_size(bytes).unwrap();
            assert!(size >= bytes && size - bytes <= bytes / 8 + 1, "{bytes} -> {size}");
            assert_eq!(large_size(size), Some(size));
            assert!(size.is_multiple_of(64));
        }
        assert_eq!(large_size(usize::MAX - 1), None);
        assert_eq!(large_size(isize::MAX as usize), None);
    }
}
