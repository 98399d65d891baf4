//! What a rule is.
//!
//! A rule is a function on a [`Site`] rather than a pattern in text, since attributes, shapes and
//! dtypes decide most of them. The e-graph supplies the rest: sharing, alternatives, congruence.
//! All rules are directional: the replacement is never worse.

use super::site::Site;
use crate::ir::Op;
use egg::Id;
use smallvec::SmallVec;

/// A family of rules that is switched on and off together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RuleSet {
    /// Composite operators to primitives.
    Decompose,
    /// Algebra that is exact in floating point.
    Simplify,
    /// Algebra that can change values.
    FastMath,
}

impl RuleSet {
    /// The name that options and reports use.
    pub fn name(self) -> &'static str {
        match self {
            RuleSet::Decompose => "decompose",
            RuleSet::Simplify => "simplify",
            RuleSet::FastMath => "fast_math",
        }
    }
}

/// The replacements of a call's results; `None` for one that keeps its form.
pub type Replacements = SmallVec<[Option<Id>; 3]>;

/// How a rule replaces a call. `None` means that it does not apply.
#[derive(Clone, Copy)]
pub enum Apply {
    /// A call with one result.
    One(fn(&mut Site<'_>) -> Option<Id>),
    /// A call with several.
    Many(fn(&mut Site<'_>) -> Option<Replacements>),
}

/// A rewrite rule.
pub struct Rule {
    /// Unique, for reports.
    pub name: &'static str,
    /// One line of English: what equals what.
    pub law: &'static str,
    /// The operators it looks at.
    pub ops: &'static [Op],
    /// The family it belongs to.
    pub set: RuleSet,
    /// What it does.
    pub apply: Apply,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}: {}", self.set.name(), self.name, self.law)
    }
}

/// A table of rules of one set.
macro_rules! rules {
    ($set:ident: $($name:literal, $law:literal, [$($op:expr),* $(,)?] => $kind:ident($apply:expr);)*) => {
        pub(in crate::rewrite) const RULES: &[$crate::rewrite::rule::Rule] = &[$(
            $crate::rewrite::rule::Rule {
                name: $name,
                law: $law,
                ops: &[$($op),*],
                set: $crate::rewrite::rule::RuleSet::$set,
                apply: $crate::rewrite::rule::Apply::$kind($apply),
            },
        )*];
    };
}
pub(super) use rules;

/// The two results of a formula.
pub(crate) fn pair(results: Option<[Id; 2]>) -> Option<Replacements> {
    Some(results?.into_iter().map(Some).collect())
}
