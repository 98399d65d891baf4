//! The rule of the suite's numbers. It has only the standard library under it: the programs of
//! `benches/peers` compute with the same values by including this file.

/// FNV-1a, 64 bits.
fn fnv1a(name: &str) -> u64 {
    name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// The 24-bit numerators of `u(name, 1..=n)`.
fn numerators(name: &str, n: usize) -> impl Iterator<Item = u32> {
    let mut state = fnv1a(name);
    (0..n).map(move |_| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 40) as u32
    })
}

/// 2^-24.
const STEP: f32 = 1.0 / 16_777_216.0;

/// `offset + scale * (2u - 1)` in `f32`.
pub(crate) fn floats(name: &str, n: usize, scale: f64, offset: f64) -> Vec<f32> {
    let (scale, offset) = (scale as f32, offset as f32);
    numerators(name, n).map(|k| offset + scale * (2.0 * (k as f32 * STEP) - 1.0)).collect()
}

/// Integers in `low..high`.
pub(crate) fn indices(name: &str, n: usize, low: i64, high: i64) -> Vec<i64> {
    let span = (high - low) as f64;
    numerators(name, n).map(|k| low + (f64::from(k as f32 * STEP) * span) as i64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected numbers come from the rule evaluated with big integers, apart from this code.
    #[test]
    fn the_rule() {
        assert_eq!(fnv1a("w1.a"), 0xfff8_61f7_1916_7c50);
        let first: Vec<u32> = numerators("w1.a", 3).collect();
        assert_eq!(first, [6_962_885, 482_356, 761_611]);
        assert_eq!(indices("w6.tok", 4, 0, 600), [420, 259, 243, 583]);
    }

    #[test]
    fn floats_are_scaled_and_shifted() {
        let plain = floats("w1.a", 1, 1.0, 0.0)[0];
        assert_eq!(plain, 2.0 * (6_962_885.0 / 16_777_216.0) - 1.0);
        assert_eq!(floats("w1.a", 1, 0.1, 1.0)[0], 1.0 + 0.1 * plain);
        assert!(floats("any", 10_000, 3.0, 0.0).iter().all(|x| (-3.0..3.0).contains(x)));
    }

    #[test]
    fn ids_stay_in_range() {
        let v = indices("w12.ids.l8", 1000, 1000, 30_000);
        assert!(v.iter().all(|i| (1000..30_000).contains(i)));
        assert!(v.iter().any(|i| *i > 25_000) && v.iter().any(|i| *i < 5000));
    }

    #[test]
    fn fewer_rows_are_a_prefix() {
        assert_eq!(floats("w5.h64.x", 64, 1.0, 0.0), floats("w5.h64.x", 4096, 1.0, 0.0)[..64]);
    }
}
