//! How the integers of a quantized tensor stand for real numbers.

use std::fmt;

/// The quantization scheme of a tensor. The numbers are c10's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum QScheme {
    /// One scale and zero point for the whole tensor.
    PerTensorAffine = 0,
    /// A scale and a zero point for each index of one dimension.
    PerChannelAffine = 1,
    /// One scale; the zero point is 0.
    PerTensorSymmetric = 2,
    /// A scale for each index of one dimension; the zero points are 0.
    PerChannelSymmetric = 3,
    /// As `PerChannelAffine`, with zero points that are floating-point numbers.
    PerChannelAffineFloatQParams = 4,
}

impl QScheme {
    /// Every scheme, in the order of the numbers.
    pub const ALL: [QScheme; 5] = [
        QScheme::PerTensorAffine,
        QScheme::PerChannelAffine,
        QScheme::PerTensorSymmetric,
        QScheme::PerChannelSymmetric,
        QScheme::PerChannelAffineFloatQParams,
    ];

    /// The scheme with this number.
    pub fn from_number(n: i64) -> Option<QScheme> {
        QScheme::ALL.into_iter().find(|q| *q as i64 == n)
    }
}

impl fmt::Display for QScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QScheme::PerTensorAffine => "torch.per_tensor_affine",
            QScheme::PerChannelAffine => "torch.per_channel_affine",
            QScheme::PerTensorSymmetric => "torch.per_tensor_symmetric",
            QScheme::PerChannelSymmetric => "torch.per_channel_symmetric",
            QScheme::PerChannelAffineFloatQParams => "torch.per_channel_affine_float_qparams",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for q in QScheme::ALL {
            assert_eq!(QScheme::from_number(q as i64), Some(q));
        }
        assert_eq!(QScheme::from_number(5), None);
    }
}
