//! Algebra that is exact in floating point: every rule holds bit for bit on every value, NaN (but
//! not its payload), infinities and both zeros included. A rule that returns an operand does so
//! only where the operand has exactly the type of the result, strides included.

mod constants;
mod conversions;
mod identities;
mod views;

use super::rule::Rule;

/// The tables of this set.
pub(super) const TABLES: &[&[Rule]] =
    &[identities::RULES, conversions::RULES, views::RULES, constants::RULES];
