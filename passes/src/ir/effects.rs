//! What a call does besides giving results.
//!
//! Every call of a graph has [`Effects`]. Capture takes them from the operator's registration: its
//! tags and its schema; a call that a rule or a text makes has those of [`Effects::of`]. Dead-code
//! elimination, rewriting and scheduling follow them and nothing else:
//!
//! | effect | merged with an equal call | dropped where nobody uses it | keeps its order |
//! |---|---|---|---|
//! | none (pure) | yes | yes | no |
//! | [`MAY_FAIL`](Effects::MAY_FAIL) | yes | no | no |
//! | [`READS`](Effects::READS) | no | yes | yes |
//! | [`RANDOM`](Effects::RANDOM) | no | no | yes |
//! | [`EFFECT`](Effects::EFFECT) | no | no | yes |
//! | [`WRITES`](Effects::WRITES) | in no graph: capture makes a call that writes functional | | |
//!
//! The calls that keep their order are made one after the other, all of these kinds together. A
//! call with an effect is made after the checks that stand before it have passed.

use super::graph::{Arg, TensorMeta};
use super::verify::is_mutating;
use std::fmt;
use std::ops::BitOr;

/// What a call does besides giving results that follow from its operands.
///
/// ```
/// use straightline_passes::ir::effects::Effects;
/// let both = Effects::RANDOM | Effects::MAY_FAIL;
/// assert_eq!(both.to_string(), "random may_fail");
/// assert!(both.is_ordered() && both.is_kept() && !both.is_mergeable());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Effects(u8);

impl Effects {
    /// Equal operands give equal results, and nothing else happens.
    pub const PURE: Effects = Effects(0);
    /// The results depend on something besides the operands. This is what is assumed of operators
    /// about which nothing is known.
    pub const READS: Effects = Effects(1);
    /// Writes an operand.
    pub const WRITES: Effects = Effects(2);
    /// Draws from a random generator.
    pub const RANDOM: Effects = Effects(4);
    /// Does something that is no result: prints, counts, sends.
    pub const EFFECT: Effects = Effects(8);
    /// Fails for some values of its operands.
    pub const MAY_FAIL: Effects = Effects(16);

    /// The names, as tags and the text of graphs write them.
    pub const NAMES: [(&'static str, Effects); 6] = [
        ("pure", Effects::PURE),
        ("reads", Effects::READS),
        ("writes", Effects::WRITES),
        ("random", Effects::RANDOM),
        ("effect", Effects::EFFECT),
        ("may_fail", Effects::MAY_FAIL),
    ];

    /// The effect of this name.
    ///
    /// ```
    /// use straightline_passes::ir::effects::Effects;
    /// assert_eq!(Effects::from_name("may_fail"), Some(Effects::MAY_FAIL));
    /// assert_eq!(Effects::from_name("core"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Effects> {
        Self::NAMES.iter().find(|n| n.0 == name).map(|n| n.1)
    }

    /// Whether it has all of these.
    pub fn has(self, other: Effects) -> bool {
        self.0 & other.0 == other.0
    }

    fn any(self, of: Effects) -> bool {
        self.0 & of.0 != 0
    }

    /// Whether one call may stand for several equal ones.
    pub fn is_mergeable(self) -> bool {
        !self.any(Self::READS | Self::WRITES | Self::RANDOM | Self::EFFECT)
    }

    /// Whether the call is made even where nobody uses its results.
    pub fn is_kept(self) -> bool {
        self.any(Self::WRITES | Self::RANDOM | Self::EFFECT | Self::MAY_FAIL)
    }

    /// Whether the call waits until everything before it that may fail has not: who looks from outside would see that it was made.
    pub fn is_seen(self) -> bool {
        self.any(Self::RANDOM | Self::EFFECT)
    }

    /// Whether the call keeps its place among the others of which this is true.
    pub fn is_ordered(self) -> bool {
        !self.is_mergeable()
    }

    /// What a call of an operator does, as far as its name says.
    ///
    /// Of the operators in `aten` and `prims` everything is known; a division fails only among
    /// integers, and not by a number other than 0. An operator from outside writes where its name
    /// ends in `_`, has an effect where it has no results, and else is taken to read something
    /// that nobody knows of.
    pub fn of<V>(op: &str, args: &[Arg<V>], results: &[TensorMeta]) -> Effects {
        if is_mutating(op) {
            return Self::WRITES;
        }
        let name = (op.strip_prefix("aten::")).or_else(|| op.strip_prefix("prims::"));
        let Some(name) = name else {
            return match results.is_empty() {
                true => Self::EFFECT,
                false => Self::READS,
            };
        };
        let base = name.split_once('.').map_or(name, |(base, _)| base);
        if is_random(base) {
            return Self::RANDOM;
        }
        let integers = || results.iter().all(|m| m.dtype.is_integral());
        let by_number = |a: &Arg<V>| a.as_scalar().is_some_and(|s| s.as_f64() != 0.0);
        match DIVISIONS.contains(&base) {
            true if integers() && !args.get(1).is_some_and(by_number) => Self::MAY_FAIL,
            true => Self::PURE,
            false if checks_data(base) => Self::MAY_FAIL,
            false => Self::PURE,
        }
    }
}

impl BitOr for Effects {
    type Output = Effects;

    fn bitor(self, other: Effects) -> Effects {
        Effects(self.0 | other.0)
    }
}

/// The names with spaces between them.
impl fmt::Display for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::PURE {
            return f.write_str("pure");
        }
        let mut names = (Self::NAMES.iter()).filter(|n| n.1 != Self::PURE && self.has(n.1));
        if let Some((first, _)) = names.next() {
            f.write_str(first)?;
        }
        names.try_for_each(|(name, _)| write!(f, " {name}"))
    }
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Effects({self})")
    }
}

/// Whether an operator of ATen draws random numbers in any of its forms: `aten::rand_like.out`, `aten::normal_`.
///
/// ```
/// use straightline_passes::ir::effects::draws;
/// assert!(draws("aten::rand_like.out") && draws("aten::normal_") && !draws("aten::normal_x"));
/// ```
pub fn draws(op: &str) -> bool {
    let name = op.strip_prefix("aten::").unwrap_or(op);
    let base = name.split('.').next().unwrap_or(name);
    is_random(base.strip_suffix('_').unwrap_or(base))
}

/// Whether an operator of ATen draws from a generator; the backward of one that does draws nothing.
fn is_random(base: &str) -> bool {
    if base.contains("backward") {
        return false;
    }
    let family = base.starts_with("rand")
        || base.starts_with("bernoulli")
        || base.contains("dropout")
        || base.contains("rrelu")
        || base.starts_with("fractional_max_pool");
    family
        || matches!(
            base,
            "normal"
                | "normal_functional"
                | "uniform"
                | "exponential"
                | "geometric"
                | "cauchy"
                | "log_normal"
                | "multinomial"
                | "poisson"
                | "binomial"
                | "_standard_gamma"
                | "_sample_dirichlet"
                | "_scaled_dot_product_flash_attention"
                | "_scaled_dot_product_efficient_attention"
        )
}

/// Divisions, which fail where an integer is divided by zero.
const DIVISIONS: [&str; 5] = ["div", "divide", "floor_divide", "fmod", "remainder"];

/// Whether an operator of ATen looks at the values of its operands and refuses some: indices and
/// targets that are out of range, probabilities, singular matrices.
fn checks_data(base: &str) -> bool {
    let family = base.starts_with("scatter")
        || base.starts_with("index_")
        || base.starts_with("_index_")
        || base.starts_with("_unsafe_index")
        || base.starts_with("nll_loss")
        || base.starts_with("multi_margin_loss")
        || base.starts_with("multilabel_margin_loss")
        || base.starts_with("max_unpool")
        || (base.contains("max_pool") && base.ends_with("_backward"))
        || base.starts_with("_assert")
        || base.contains("embedding_bag")
        || (base.contains("linalg") && base.ends_with("_ex"));
    family
        || matches!(
            base,
            "gather"
                | "index"
                | "embedding"
                | "embedding_dense_backward"
                | "embedding_renorm"
                | "take"
                | "put"
                | "masked_scatter"
                | "repeat_interleave"
                | "binary_cross_entropy"
                | "cross_entropy_loss"
                | "bincount"
                | "histc"
                | "searchsorted"
                | "segment_reduce"
                | "ctc_loss"
                | "_ctc_loss"
                | "inverse"
                | "linalg_inv"
                | "linalg_solve"
                | "linalg_lu_solve"
                | "cholesky"
                | "linalg_cholesky"
                | "cholesky_inverse"
                | "_linalg_check_errors"
                | "_functional_assert_async"
                | "_functional_assert_scalar"
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DType, Scalar};

    fn of(op: &str, args: &[Arg<()>], dtype: DType) -> Effects {
        Effects::of(op, args, &[TensorMeta::contiguous(dtype, &[2])])
    }

    #[test]
    fn names_say_what_operators_do() {
        assert_eq!(of("aten::add.Tensor", &[], DType::F32), Effects::PURE);
        assert_eq!(of("aten::bernoulli.p", &[], DType::F32), Effects::RANDOM);
        let backward = "aten::native_dropout_backward";
        assert_eq!(of(backward, &[], DType::F32), Effects::PURE);
        assert_eq!(of("aten::gather", &[], DType::F32), Effects::MAY_FAIL);
        assert_eq!(of("aten::add_.Tensor", &[], DType::F32), Effects::WRITES);
        assert_eq!(of("my::op", &[], DType::F32), Effects::READS);
        assert_eq!(Effects::of::<()>("my::log", &[], &[]), Effects::EFFECT);
        assert_eq!(
            Effects::of::<()>("aten::_assert_async", &[], &[]),
            Effects::MAY_FAIL
        );
    }

    #[test]
    fn divisions_fail_among_integers() {
        let op = "aten::remainder.Scalar";
        let by = |n: i64| [Arg::Tensor(()), Arg::Scalar(Scalar::Int(n))];
        assert_eq!(of(op, &by(2), DType::I64), Effects::PURE);
        assert_eq!(of(op, &by(0), DType::I64), Effects::MAY_FAIL);
        assert_eq!(of(op, &by(0), DType::F32), Effects::PURE);
        let tensors = [Arg::Tensor(()), Arg::Tensor(())];
        assert_eq!(
            of("aten::remainder.Tensor", &tensors, DType::I32),
            Effects::MAY_FAIL
        );
    }
}
