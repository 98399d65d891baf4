//! Channels-last memory: PyTorch's rules for which results have it.

use crate::tensor::Tensor;
use straightline_catalog::{Dims, MemoryFormat, layout};

/// The order of dimensions in memory that PyTorch's `suggest_memory_format` finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Row-major.
    Contiguous,
    /// Channels fastest, then the last dimension, then the ones before it.
    ChannelsLast,
}

impl Order {
    /// The strides of a dense tensor in this order.
    pub(crate) fn strides(self, sizes: &[i64]) -> Dims {
        if self == Order::Contiguous || sizes.len() < 3 {
            return layout::contiguous_strides(sizes);
        }
        let mut strides = Dims::from_elem(1, sizes.len());
        let mut next = sizes[1].max(1);
        for d in (2..sizes.len()).rev().chain([0]) {
            strides[d] = next;
            next *= sizes[d].max(1);
        }
        strides
    }
}

/// Whether sizes and strides of four or five dimensions are those of a channels-last tensor, by
/// c10's rule.
pub(crate) fn is_channels_last_like(sizes: &[i64], strides: &[i64]) -> bool {
    let rank = sizes.len();
    if !(rank == 4 || rank == 5) || strides[1] == 0 {
        return false;
    }
    let mut least = 0;
    for d in [1].into_iter().chain((2..rank).rev()).chain([0]) {
        if sizes[d] == 0 || strides[d] < least {
            return false;
        }
        // N111 is row-major by convention
        if d == 0 && least == strides[1] {
            return false;
        }
        least = strides[d] * sizes[d].max(1);
    }
    true
}

/// Whether a tensor of four or five dimensions is dense with its channels innermost, dimensions of
/// size 1 not counting: PyTorch's `is_contiguous(torch.channels_last)`.
pub(crate) fn is_channels_last_contiguous(sizes: &[i64], strides: &[i64]) -> bool {
    let mut want = 1;
    let mut order = [1].into_iter().chain((2..sizes.len()).rev()).chain([0]);
    matches!(sizes.len(), 4 | 5)
        && order.all(|d| {
            let fits = sizes[d] == 1 || strides[d] == want;
            want *= sizes[d];
            fits
        })
}

/// PyTorch's `suggest_memory_format`.
pub(crate) fn suggested(t: &Tensor) -> Order {
    if is_channels_last_like(t.sizes(), t.strides()) {
        Order::ChannelsLast
    } else {
        Order::Contiguous
    }
}

/// The memory format that a tensor's strides are those of (`suggest_memory_format` in c10).
pub(crate) fn suggested_format(t: &Tensor) -> MemoryFormat {
    match suggested(t) {
        Order::Contiguous => MemoryFormat::Contiguous,
        Order::ChannelsLast if t.dim() == 5 => MemoryFormat::ChannelsLast3d,
        Order::ChannelsLast => MemoryFormat::ChannelsLast,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_last_is_recognised_as_by_c10() {
        for (sizes, strides, want) in [
            ([2, 4, 3, 5], [60, 15, 5, 1], false),
            ([2, 4, 3, 5], [60, 1, 20, 4], true),
            ([2, 4, 1, 1], [4, 1, 1, 1], false),
            ([2, 4, 1, 1], [4, 1, 4, 4], true),
            ([2, 1, 3, 5], [15, 15, 5, 1], false),
            ([0, 4, 3, 5], [60, 1, 20, 4], false),
        ] {
            assert_eq!(is_channels_last_like(&sizes, &strides), want, "{sizes:?} {strides:?}");
        }
        assert_eq!(Order::ChannelsLast.strides(&[2, 4, 3, 5]).as_slice(), [60, 1, 20, 4]);
        assert_eq!(Order::ChannelsLast.strides(&[2, 4, 6, 3, 5]).as_slice(), [360, 1, 60, 20, 4]);
    }
}
