//! Random numbers of a seed, and drawing a token from logits.

/// SplitMix64: each seed is a separate stream.
pub struct Uniform {
    state: u64,
}

impl Uniform {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Uniform {
        Uniform { state: seed }
    }

    /// The next number in [0, 1), with 53 random bits.
    pub fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The token at which the cumulated `softmax(logits / temperature)` passes `u`, a number in [0, 1).
/// At temperature 0 the likeliest token, the first of several.
pub fn sample(logits: &[f32], temperature: f64, u: f64) -> usize {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if temperature == 0.0 {
        return logits.iter().position(|&x| x == largest).unwrap_or(0);
    }
    let weight = |&x: &f32| (f64::from(x - largest) / temperature).exp();
    let weights: Vec<f64> = logits.iter().map(weight).collect();
    let mut rest = u * weights.iter().sum::<f64>();
    for (token, weight) in weights.iter().enumerate() {
        rest -= weight;
        if rest < 0.0 {
            return token;
        }
    }
    // Rounding left a crumb: the last token that has any weight.
    weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(0)
}

/// A seed for the `index`-th of several streams, far from the others'.
pub fn seed_of(seed: u64, index: u64) -> u64 {
    // SplitMix64's own increment is another odd number
    seed.wrapping_add(index.wrapping_mul(0xD134_2543_DE82_EF95))
}

#[cfg(test)]
mod tests {
    use super::{Uniform, sample};

    #[test]
    fn draws_each_token_as_often_as_it_is_likely() {
        let logits = [0.0, 3f32.ln(), f32::NEG_INFINITY];
        let mut uniform = Uniform::new(7);
        let mut counts = [0; 3];
        for _ in 0..10_000 {
            counts[sample(&logits, 1.0, uniform.draw())] += 1;
        }
        assert_eq!(counts[2], 0);
        // 7500 expected, with a standard deviation of 43.
        assert!((7300..7700).contains(&counts[1]), "{counts:?}");
    }

    #[test]
    fn temperature_sharpens_and_zero_takes_the_largest() {
        assert_eq!(sample(&[1.0, 4.0, 4.0], 0.0, 0.99), 1);
        assert_eq!(sample(&[1.0, 4.0], 0.01, 0.001), 1);
        assert_eq!(sample(&[1.0, 4.0], 100.0, 0.001), 0);
    }

    #[test]
    fn the_whole_unit_interval_gives_a_token() {
        let logits = [-1.0, 2.0, 0.5, f32::NEG_INFINITY];
        assert_eq!(sample(&logits, 0.7, 0.0), 0);
        assert_eq!(sample(&logits, 0.7, 1.0 - f64::EPSILON / 2.0), 2);
    }
}
