//! Errors of programs: of their making, and of their calls.

use std::fmt;

/// A program that cannot be run here, or a call that does not suit it.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// Calls of operators that this crate does not have, each with how often it is called.
    #[error(
        "the program calls {} that {} not there: {}. Register an operator of your own under that name before the \
         program is loaded, or export the model with decompositions that avoid it (`run_decompositions()`)",
        plural(.targets.len(), "operator"), if .targets.len() == 1 { "is" } else { "are" }, listed(.targets)
    )]
    Unsupported {
        /// `torch.ops.aten.no_such.default`, and how many nodes call it.
        targets: Vec<(String, usize)>,
    },
    /// A node that makes no sense, or of a kind that is not supported.
    #[error("node `{node}`, a call of `{target}`: {reason}{}", at(.line.as_deref()))]
    Node {
        /// The node's name.
        node: String,
        /// What it calls.
        target: String,
        /// What is wrong.
        reason: String,
        /// The line of the model that it came from, if that is known.
        line: Option<String>,
    },
    /// Something else in the description of a program.
    #[error("{entry}: {reason}")]
    Description {
        /// The entry of the archive, or the part of the program.
        entry: String,
        /// What is wrong.
        reason: String,
    },
    /// A version that is too new, or too old.
    #[error("{entry} says version {found}, and this crate reads {supported}: {advice}")]
    Version {
        /// Where it says so.
        entry: String,
        /// What it says.
        found: String,
        /// What can be read.
        supported: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// A weight whose bytes and description do not fit.
    #[error("weight `{weight}` in {entry}: {reason}")]
    Weight {
        /// The weight's name in the model.
        weight: String,
        /// The entry that has its bytes.
        entry: String,
        /// What is wrong.
        reason: String,
    },
    /// Another number of inputs than the program takes.
    #[error("the program takes {}, and {given} were given: {expected}", plural(*.takes, "input"))]
    InputCount {
        /// How many it takes.
        takes: usize,
        /// How many were given.
        given: usize,
        /// The inputs that it takes.
        expected: String,
    },
    /// An input that is not what the program takes.
    #[error("input {index} (`{name}`) is {given}, and the program takes {expected}")]
    Input {
        /// Its position.
        index: usize,
        /// Its name.
        name: String,
        /// What was given.
        given: String,
        /// What it takes there.
        expected: String,
    },
    /// A size outside of what the program was exported for.
    #[error("{place} is {size}, and the program was exported for {symbol} {range}")]
    Range {
        /// Which size.
        place: Place,
        /// Its value.
        size: i64,
        /// The symbol that stands for it.
        symbol: String,
        /// `from 2 to 64`.
        range: String,
    },
    /// Two sizes that have to be equal, or one that follows from others.
    #[error("{place} is {size}, and has to be {expected}{}", as_is(.because.as_deref()))]
    Sizes {
        /// Which size.
        place: Place,
        /// Its value.
        size: i64,
        /// What it has to be.
        expected: i64,
        /// What says so, if it is not always this size.
        because: Option<String>,
    },
    /// A size that no value of a symbol gives.
    #[error("{place} is {size}, and the program takes sizes of the form {form}, {symbol}")]
    Form {
        /// Which size.
        place: Place,
        /// Its value.
        size: i64,
        /// `6*s83`.
        form: String,
        /// `s83 from 2 to 64`.
        symbol: String,
    },
    /// A check of the program's own has failed.
    #[error("a check of the model failed: {0}")]
    Assertion(String),
}

fn at(line: Option<&str>) -> String {
    line.map_or_else(String::new, |line| format!(" ({line})"))
}

fn as_is(because: Option<&str>) -> String {
    because.map_or_else(String::new, |because| format!(", as {because} is"))
}

fn plural(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn listed(targets: &[(String, usize)]) -> String {
    let one = |(name, times): &(String, usize)| match times {
        1 => format!("`{name}`"),
        n => format!("`{name}` ({n} times)"),
    };
    targets.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl From<ProgramError> for crate::Error {
    fn from(e: ProgramError) -> crate::Error {
        crate::Error::new(crate::ErrorKind::Program(Box::new(e)))
    }
}

/// Which size of which input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The input's position.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// The dimension; none for a number.
    pub dim: Option<usize>,
}

/// "size 0 of input 1 (`mask`)".
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dim {
            Some(dim) => write!(f, "size {dim} of input {} (`{}`)", self.index, self.name),
            None => write!(f, "input {} (`{}`)", self.index, self.name),
        }
    }
}
