//! Which arguments of operators are dimensions or sizes, by name.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Which arguments are dimensions.
#[derive(Clone, Copy)]
pub(super) struct Dims {
    pub(super) arguments: &'static [&'static str],
    /// They are those of a result that has more than the operand.
    pub(super) new: bool,
}

impl Dims {
    pub(super) const fn of(arguments: &'static [&'static str]) -> Dims {
        Dims { arguments, new: false }
    }

    pub(super) const fn with_new(arguments: &'static [&'static str]) -> Dims {
        Dims { arguments, new: true }
    }
}

/// Operators along dimensions that arguments name: those arguments.
pub(super) const ALONG: &[(&str, Dims)] = &[
    ("select.int", Dims::of(&["dim"])),
    ("slice.Tensor", Dims::of(&["dim"])),
    ("unsqueeze", Dims::with_new(&["dim"])),
    ("transpose.int", Dims::of(&["dim0", "dim1"])),
    ("split.Tensor", Dims::of(&["dim"])),
    ("split_with_sizes", Dims::of(&["dim"])),
    ("unsafe_split.Tensor", Dims::of(&["dim"])),
    ("unsafe_split_with_sizes", Dims::of(&["dim"])),
    ("unbind.int", Dims::of(&["dim"])),
    ("diagonal", Dims::of(&["dim1", "dim2"])),
    ("diag_embed", Dims::with_new(&["dim1", "dim2"])),
    ("unfold", Dims::of(&["dimension"])),
    ("squeeze.dim", Dims::of(&["dim"])),
    ("squeeze.dims", Dims::of(&["dim"])),
    ("flip", Dims::of(&["dims"])),
    ("rot90", Dims::of(&["dims"])),
    ("cumsum", Dims::of(&["dim"])),
    ("cumprod", Dims::of(&["dim"])),
    ("cummax", Dims::of(&["dim"])),
    ("cummin", Dims::of(&["dim"])),
    ("logcumsumexp", Dims::of(&["dim"])),
    ("_softmax", Dims::of(&["dim"])),
    ("_log_softmax", Dims::of(&["dim"])),
    ("_safe_softmax", Dims::of(&["dim"])),
    ("_softmax_backward_data", Dims::of(&["dim"])),
    ("_log_softmax_backward_data", Dims::of(&["dim"])),
    ("sort", Dims::of(&["dim"])),
    ("sort.stable", Dims::of(&["dim"])),
    ("topk", Dims::of(&["dim"])),
    ("kthvalue", Dims::of(&["dim"])),
    ("median.dim", Dims::of(&["dim"])),
    ("nanmedian.dim", Dims::of(&["dim"])),
    ("mode", Dims::of(&["dim"])),
    ("max.dim", Dims::of(&["dim"])),
    ("min.dim", Dims::of(&["dim"])),
    ("glu", Dims::of(&["dim"])),
    ("glu_backward", Dims::of(&["dim"])),
    ("gather", Dims::of(&["dim"])),
    ("scatter.src", Dims::of(&["dim"])),
    ("scatter.value", Dims::of(&["dim"])),
    ("scatter.reduce", Dims::of(&["dim"])),
    ("scatter.value_reduce", Dims::of(&["dim"])),
    ("scatter_add", Dims::of(&["dim"])),
    ("scatter_reduce.two", Dims::of(&["dim"])),
    ("slice_scatter", Dims::of(&["dim"])),
    ("linalg_cross", Dims::of(&["dim"])),
    ("_fft_c2c", Dims::of(&["dim"])),
    ("_fft_r2c", Dims::of(&["dim"])),
    ("_fft_c2r", Dims::of(&["dim"])),
];

/// Operators on batches of their own, `N` of the given number of dimensions, which may be larger:
/// pooling, padding, resampling.
pub(super) const FOLDED: &[(&str, usize)] = &[
    ("avg_pool2d", 4),
    ("avg_pool2d_backward", 4),
    ("avg_pool3d", 5),
    ("avg_pool3d_backward", 5),
    ("max_pool2d_with_indices", 4),
    ("max_pool2d_with_indices_backward", 4),
    ("max_pool3d_with_indices", 5),
    ("max_pool3d_with_indices_backward", 5),
    ("_adaptive_avg_pool2d", 4),
    ("_adaptive_avg_pool2d_backward", 4),
    ("_adaptive_avg_pool3d", 5),
    ("_adaptive_avg_pool3d_backward", 5),
    ("adaptive_max_pool2d", 4),
    ("adaptive_max_pool2d_backward", 4),
    ("adaptive_max_pool3d", 5),
    ("adaptive_max_pool3d_backward", 5),
    ("reflection_pad1d", 3),
    ("reflection_pad1d_backward", 3),
    ("reflection_pad2d", 4),
    ("reflection_pad2d_backward", 4),
    ("reflection_pad3d", 5),
    ("reflection_pad3d_backward", 5),
    ("replication_pad1d", 3),
    ("replication_pad1d_backward", 3),
    ("replication_pad2d", 4),
    ("replication_pad2d_backward", 4),
    ("replication_pad3d", 5),
    ("replication_pad3d_backward", 5),
    ("upsample_nearest1d", 3),
    ("upsample_nearest1d_backward", 3),
    ("_upsample_nearest_exact1d", 3),
    ("_upsample_nearest_exact1d_backward", 3),
    ("upsample_linear1d", 3),
    ("upsample_linear1d_backward", 3),
    ("upsample_nearest2d", 4),
    ("upsample_nearest2d_backward", 4),
    ("_upsample_nearest_exact2d", 4),
    ("_upsample_nearest_exact2d_backward", 4),
    ("upsample_bilinear2d", 4),
    ("upsample_bilinear2d_backward", 4),
    ("upsample_bicubic2d", 4),
    ("upsample_bicubic2d_backward", 4),
    ("upsample_nearest3d", 5),
    ("upsample_nearest3d_backward", 5),
    ("upsample_trilinear3d", 5),
    ("upsample_trilinear3d_backward", 5),
    ("grid_sampler_2d", 4),
    ("grid_sampler_2d_backward", 4),
    ("grid_sampler_3d", 5),
    ("grid_sampler_3d_backward", 5),
    ("im2col", 4),
    ("channel_shuffle", 4),
    ("_scaled_dot_product_flash_attention_for_cpu", 4),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", 4),
];

/// Operators whose argument says sizes of the result.
pub(super) const SIZED: &[(&str, &str)] = &[
    ("view", "size"),
    ("_unsafe_view", "size"),
    ("new_zeros", "size"),
    ("new_ones", "size"),
    ("new_full", "size"),
    ("new_empty", "size"),
];

static ALONG_BY_NAME: LazyLock<HashMap<&str, Dims>> =
    LazyLock::new(|| ALONG.iter().copied().collect());

/// Which arguments of an operator are dimensions.
pub(super) fn along(name: &str) -> Option<Dims> {
    ALONG_BY_NAME.get(name).copied()
}

/// How many dimensions the operand of an operator on batches has.
pub(super) fn folded(name: &str) -> Option<usize> {
    FOLDED.iter().find(|(n, _)| *n == name).map(|(_, rank)| *rank)
}

/// Which argument says the sizes of the result.
pub(super) fn sized(name: &str) -> Option<&'static str> {
    SIZED.iter().find(|(n, _)| *n == name).map(|(_, arg)| *arg)
}
