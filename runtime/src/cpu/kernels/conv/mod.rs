//! Convolutions: forward, the gradient of the input (which is the transposed convolution) and the
//! gradient of the weight.
//!
//! All three are matrix products with the input taken apart into columns: a column holds the
//! elements under the kernel at one output position. Columns are made for a block of positions at a
//! time, small enough to stay in the second cache; a forward convolution of floats reads them where
//! they are in the padded image (`direct`), one channel a group included; `depthwise` has those of
//! integers, and those whose image would be mostly padding. Convolutions of f32 with 3x3 kernels and
//! stride 1, and their gradients of the input, go by Winograd's algorithm where they have enough
//! channels (`winograd`). Everything is in three spatial dimensions; those that a convolution lacks
//! have size 1. Memory is row-major, batch first, then channels. f32 and f64 sum
//! in their own type, integers wrap.

mod columns;
mod depthwise;
mod direct;
mod follow;
mod forward;
mod geometry;
mod packed;
mod products;
mod split;
#[cfg(test)]
mod tests;
mod winograd;

pub use follow::Follow;
pub use forward::{Operands, convolve_packed};
pub use geometry::Geometry;
pub use packed::{PackedForm, PackedKernel};
pub use products::{convolve, scatter, weight_gradient};
