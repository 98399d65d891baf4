//! Raw strided kernels, used by eager operators and by plans.
//!
//! A kernel takes [`Strided`] operands, already broadcast to one shape (a stride of 0 repeats an
//! element), and knows nothing of tensors. Operations are those of the loop IR, and float functions
//! those of [`crate::cpu::math`], so that an eager operator and compiled code agree bit for bit
//! wherever the order of operations does. Half types compute in `f32` and round once per operation;
//! integers wrap.
//!
//! Each kernel is made of a *row* kernel (unit stride, one arithmetic type, vectorised for the
//! machine at hand) and the machinery around it: operands in another layout or a half type pass
//! through tiles that stay in the first cache, the loop nest is collapsed and sorted, and large
//! ones are split among threads. Results never depend on the split.

mod activation;
pub mod attention;
pub mod bags;
pub mod bins;
pub mod class_loss;
mod combine;
pub mod complex;
pub mod conv;
mod copy;
pub mod distance;
mod extreme;
pub mod fft;
mod flip;
mod float;
mod fold;
mod formula;
#[cfg(test)]
mod formula_tests;
mod half;
mod index;
#[cfg(test)]
mod index_tests;
mod integer;
pub mod linalg;
mod masked;
pub mod matmul;
mod moves;
mod nest;
pub mod norm;
pub(crate) mod operand;
mod order;
mod place;
mod pointwise;
pub mod quantized;
pub mod random;
pub mod random_distributions;
pub mod random_normal;
pub mod real;
mod reduce;
mod row_major;
#[cfg(test)]
mod row_tests;
mod rows;
mod scan;
mod search;
mod sort;
pub mod sparse;
pub mod spatial;
pub mod special;
mod strided;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tile;
#[cfg(feature = "jit")]
pub(crate) mod turn;

pub use combine::ScatterOp;
pub use copy::{copy, fill};
pub use extreme::{arg_reduce, extreme_with_index};
pub use flip::flip;
pub use formula::Formula;
pub use index::{Triangle, arange, gather, index_select, scatter, triangle};
pub use masked::{count_true, masked_select, true_places};
pub use operand::{Element, In, Number, Out, Places};
pub use place::{IndexedDim, offsets, put_at, take_at};
pub use pointwise::{binary, binary_flat, compare, select, unary};
pub use reduce::{reduce, var_mean};
pub use row_major::RowMajor;
pub use rows::{RowStatistics, cumulative, layer_norm, softmax};
pub use scan::{running_extreme, running_logsumexp};
pub use search::{Search, is_member, search_sorted};
pub use sort::{Groups, Selection, groups, row_groups, select_along, sort, topk};
pub use strided::{KernelError, Strided};
