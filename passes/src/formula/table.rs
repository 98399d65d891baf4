//! The table of formulas: which operator is which, in which dtypes it computes, and the law that
//! reports print.
//!
//! A row is all that is said about such an operator. The decompose rule comes from it, and so does
//! the eager kernel of an entry whose kernel is the word `formula`.

use super::{Recorder, Val};
use crate::ir::Op;
use smallvec::SmallVec;

/// The dtype that a formula computes its result in, and what it is not defined for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// What the operands promote to.
    Any,
    /// The same; not `bool`.
    NotBool,
    /// The same; a float or an integer, not `bool` and not complex.
    Numbers,
    /// The same; a float.
    Floats,
    /// The same; an integer becomes the default float.
    ToFloat,
    /// `bool`; the operands are not complex.
    Test,
}

/// The dtype that an operator's numbers must be representable in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fits {
    /// That of the result.
    Result,
    /// That of the arithmetic: `f32` for half types.
    Arithmetic,
    /// Any.
    Anything,
}

/// What the generic eager kernel has to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Eager {
    /// The dtypes.
    pub domain: Domain,
    /// What the call's numbers must fit.
    pub fits: Fits,
}

/// Operators that are one formula.
#[derive(Debug)]
pub struct Formula {
    /// The name of the rule.
    pub name: &'static str,
    /// What it computes, in one line.
    pub law: &'static str,
    /// The operators.
    pub ops: &'static [Op],
    /// What an eager call needs; `None` where the operators have an eager kernel of their own.
    pub eager: Option<Eager>,
    /// Writes the program of one call.
    pub record: fn(&mut Recorder) -> Option<SmallVec<[Val; 2]>>,
    /// The rule that takes a call apart.
    #[cfg(feature = "rewrite")]
    pub(crate) rule: crate::rewrite::rule::Rule,
}

/// A table of formulas: `"law" name: [operators] domain fits => kind(function);`.
///
/// `own` in place of `domain fits` says that the operators have an eager kernel of their own. The
/// kind is `One` result, `Two` results, or `Reduced` as the argument `reduction` says.
macro_rules! formulas {
    ($($law:literal $name:ident: [$($op:ident),+] $($eager:ident)+ => $kind:ident($function:ident);)*) => {
        #[allow(non_upper_case_globals, reason = "named as the rules are")]
        mod rows {
            use $crate::formula::{Formula, table};
            use $crate::ir::Op;
            $(pub(super) static $name: Formula = Formula {
                name: stringify!($name),
                law: $law,
                ops: &[$(Op::$op),+],
                eager: table::eager!($($eager)+),
                record: |b| table::recorded!($kind, super::$function(b)),
                #[cfg(feature = "rewrite")]
                rule: $crate::rewrite::rule::Rule {
                    name: stringify!($name),
                    law: $law,
                    ops: &[$(Op::$op),+],
                    set: $crate::rewrite::rule::RuleSet::Decompose,
                    apply: table::apply!($kind, super::$function),
                },
            };)*
        }

        /// The rows of this file.
        pub(super) static ALL: &[&$crate::formula::Formula] = &[$(&rows::$name),*];

        /// The row of an operator.
        pub(super) fn of(op: $crate::ir::Op) -> Option<&'static $crate::formula::Formula> {
            use $crate::ir::Op;
            match op {
                $($(Op::$op)|+ => Some(&rows::$name),)*
                _ => None,
            }
        }
    };
}

macro_rules! eager {
    (own) => {
        None
    };
    ($domain:ident $fits:ident) => {
        Some($crate::formula::Eager {
            domain: $crate::formula::Domain::$domain,
            fits: $crate::formula::Fits::$fits,
        })
    };
}

macro_rules! recorded {
    (Two, $results:expr) => {
        $results.map(|both| both.into_iter().collect())
    };
    ($kind:ident, $result:expr) => {
        $result.map(|y| [y].into_iter().collect())
    };
}

#[cfg(feature = "rewrite")]
macro_rules! apply {
    (One, $function:path) => {
        $crate::rewrite::rule::Apply::One(|s| $function(s))
    };
    (Two, $function:path) => {
        $crate::rewrite::rule::Apply::Many(|s| $crate::rewrite::rule::pair($function(s)))
    };
    (Reduced, $function:path) => {
        $crate::rewrite::rule::Apply::One(|s| {
            let elements = $function(s)?;
            $crate::rewrite::reduced(s, elements)
        })
    };
}

#[cfg(feature = "rewrite")]
pub(super) use apply;
pub(super) use {eager, formulas, recorded};
