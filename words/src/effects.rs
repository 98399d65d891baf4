//! What a call does besides computing its results.
//!
//! Every call of a graph has [`Effects`]. Capture takes them from the operator's registration: its
//! tags and its schema, as the catalogue has them; a text may say otherwise of a call. Dead-code
//! elimination, rewriting and scheduling follow them and nothing else:
//!
//! | effect | merged with an equal call | dropped if unused | keeps its order |
//! |---|---|---|---|
//! | none (pure) | yes | yes | no |
//! | [`MAY_FAIL`](Effects::MAY_FAIL) | yes | no | no |
//! | [`READS`](Effects::READS) | no | yes | yes |
//! | [`RANDOM`](Effects::RANDOM) | no | no | yes |
//! | [`EFFECT`](Effects::EFFECT) | no | no | yes |
//! | [`WRITES`](Effects::WRITES) | in no graph: capture makes a call that writes functional | | |
//!
//! The calls that keep their order are made one after another, all of these kinds together. A
//! call with an effect is made after the checks that stand before it have passed.

use std::fmt;
use std::ops::BitOr;

/// What a call does besides computing results from its operands.
///
/// ```
/// use straightline_words::effects::Effects;
/// let both = Effects::RANDOM | Effects::MAY_FAIL;
/// assert_eq!(both.to_string(), "random may_fail");
/// assert!(both.is_ordered() && both.is_kept() && !both.is_mergeable());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Effects(u8);

impl Effects {
    /// Equal operands give equal results, and nothing else happens.
    pub const PURE: Effects = Effects(0);
    /// The results depend on something besides the operands. This is assumed of operators about
    /// which nothing is known.
    pub const READS: Effects = Effects(1);
    /// Writes an operand.
    pub const WRITES: Effects = Effects(2);
    /// Draws from a random generator.
    pub const RANDOM: Effects = Effects(4);
    /// Does something besides returning results: prints, counts, sends.
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
    /// use straightline_words::effects::Effects;
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

    /// Whether the call is made even if its results are unused.
    pub fn is_kept(self) -> bool {
        self.any(Self::WRITES | Self::RANDOM | Self::EFFECT | Self::MAY_FAIL)
    }

    /// Whether the call waits until everything before it that may fail has succeeded, because it is
    /// visible from outside.
    pub fn is_seen(self) -> bool {
        self.any(Self::RANDOM | Self::EFFECT)
    }

    /// Whether the call keeps its order relative to other such calls.
    pub fn is_ordered(self) -> bool {
        !self.is_mergeable()
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
