//! The rules of the operators with derivative formulas, which `build.rs` writes.

#![allow(
    non_snake_case,
    clippy::too_many_arguments,
    clippy::approx_constant,
    clippy::type_complexity,
    clippy::excessive_precision,
    clippy::needless_borrow,
    unused_imports,
    unused_variables,
    reason = "generated: one form of code for all formulas"
)]

use super::formulas::*;
use super::record::Recorder;
use super::rule::{Backward, Forward, Grads, Push, Rule, Save, Sum, What};
use crate::dispatch::Kernel;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::Op;

include!(concat!(env!("OUT_DIR"), "/derivatives.rs"));
