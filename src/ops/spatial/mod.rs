//! Operators on images and volumes: pooling, padding, resampling, grid sampling, unfolding to
//! columns.
//!
//! | file | operators |
//! |---|---|
//! | `avg_pool` | `avg_pool*`, `_adaptive_avg_pool*` and their gradients |
//! | `max_pool` | `max_pool*_with_indices`, `adaptive_max_pool*`, `max_unpool*` and their gradients |
//! | `fractional` | `fractional_max_pool*` |
//! | `window` | sizes of windows and of what comes out of them |
//! | `pool_1d` | pooling of sequences, and what falls apart into other pools |
//! | `pad` | `reflection_pad*`, `replication_pad*` and their gradients |
//! | `pad_modes` | `constant_pad_nd`, `pad`, `_pad_circular` |
//! | `upsample` | `upsample_*` and their gradients; `scales` works out sizes and scales |
//! | `grid` | `grid_sampler*`, `affine_grid_generator` |
//! | `shuffle` | `pixel_shuffle`, `channel_shuffle` |
//! | `columns` | `im2col`, `col2im`, `unfold_backward` |
//! | `layout` | memory formats, fresh results and how kernels fill them |

pub(crate) mod avg_pool;
pub(crate) mod columns;
pub(crate) mod fractional;
pub(crate) mod grid;
mod layout;
pub(crate) mod max_pool;
pub(crate) mod pad;
pub(crate) mod pad_modes;
pub(crate) mod pool_1d;
mod scales;
pub(crate) mod shuffle;
pub(crate) mod upsample;
mod window;

/// Returns an error of shapes unless a condition holds.
macro_rules! check {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err($crate::error::Error::shape(format!($($message)*)));
        }
    };
}
use check;
