//! Operators on images and volumes: pooling, padding, resampling, grid sampling, unfolding to
//! columns.
//!
//! Everything works on *planes*: a tensor is `count` row-major pieces one after another, each of up
//! to three spatial dimensions (a missing one has size 1). What an operator does along an axis is
//! worked out once for the axis: the `window` of each output position (pooling), the input position
//! that it copies (`gather`: pads, nearest neighbours), or input positions and weights
//! (`resample`). Backward passes walk the same tables the other way. Windows at equal distances are
//! walked tap after tap, many outputs at once (`taps`).

mod columns;
mod gather;
mod grid;
mod maximum;
mod number;
mod planes;
mod pool;
pub mod resample;
mod taps;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_pool;
mod unpool;
mod window;

pub use columns::{Columns, col2im, fold_windows, im2col};
pub use gather::{AxisMap, gather_axes, scatter_axes};
pub use grid::{GridMode, GridOptions, GridPadding, grid_sample, grid_sample_backward};
pub use maximum::{max_pool, max_pool_values};
pub use pool::{Divisor, avg_pool, avg_pool_backward};
pub use unpool::{fractional_max_pool, scatter_planes};
pub use window::AxisWindows;
