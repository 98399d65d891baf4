//! Forward-mode differentiation: tangents that go along with values.
//!
//! A *dual* tensor has a tangent, which is kept with what autograd knows of it. It has the mark of
//! tensors that record beside its dispatch keys (`DispatchKeySet::RECORDS`), so a call without such an
//! operand does what it did before there were tangents. A call with one goes through the operator's
//! autograd kernel, which computes the tangents of the results by the operator's forward formula, with
//! ordinary operator calls that carry no tangents on themselves but record gradients.
//!
//! | file | what |
//! |---|---|
//! | `api` | `forward_ad` as users see it |
//! | `tangent` | the tangents of views, and of what is written |
//! | `push` | the autograd kernel's part: operands' tangents to results' |
//! | `by_gradient` | operators without a forward formula |
//! | `others` | copies, operators from outside |
//! | `refusal` | the errors of operators that tangents do not go through |

mod api;
mod by_gradient;
mod others;
mod push;
mod refusal;
pub(super) mod tangent;

pub use api::{DualLevel, Unpacked, dual_level, make_dual, unpack_dual};
pub(crate) use api::{enter_jvp, leave_jvp, make_variable, tangent_of};
pub(super) use others::{Duals, Pushed, copied, write_copied};
pub(super) use push::{Operator, Pushing, begin, end};
pub(crate) use tangent::Carrying;

#[cfg(test)]
pub(super) mod tests;
