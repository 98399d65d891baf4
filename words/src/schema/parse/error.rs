//! What is wrong with a schema text, and where.

use std::fmt;
use std::ops::Range;

/// Why a schema does not parse.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SchemaErrorKind {
    /// Another token was due.
    #[error("expected {want} but found '{found}' here")]
    Expected {
        /// What was due.
        want: &'static str,
        /// The token there.
        found: String,
    },
    /// The name of a type that does not exist.
    #[error("unknown type specifier '{0}'")]
    UnknownType(String),
    /// A default that the type cannot have.
    #[error("{value} is not a default value for an argument of type {ty}")]
    BadDefault {
        /// The default as written.
        value: String,
        /// The type as printed.
        ty: String,
    },
    /// A number that does not fit.
    #[error("'{0}' is not a number that fits in 64 bits")]
    BadNumber(String),
    /// An overload name that is reserved.
    #[error("{0} is not a legal overload name for aten operators")]
    IllegalOverload(String),
    /// A positional argument without default after one with.
    #[error(
        "non-default positional argument '{0}' follows an argument with a default; give it a default or move it after `*`"
    )]
    NonDefaultAfterDefault(String),
    /// `...` not at the end.
    #[error("... must be the last element of the list")]
    EllipsisNotLast,
    /// A default together with `...`.
    #[error("a schema with ... cannot have the default value of argument '{0}'")]
    DefaultWithVararg(String),
}

/// A schema text that does not parse: what is wrong and where.
///
/// `Display` prints the text with a `~~~ <--- HERE` marker below the offending token.
#[derive(Clone, PartialEq, Debug)]
pub struct SchemaParseError {
    /// What is wrong.
    pub kind: SchemaErrorKind,
    /// The whole text.
    pub text: String,
    /// The bytes of `text` that the error is about.
    pub at: Range<usize>,
}

impl fmt::Display for SchemaParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line_start = self.text[..self.at.start].rfind('\n').map_or(0, |i| i + 1);
        let line_end =
            self.text[self.at.start..].find('\n').map_or(self.text.len(), |i| self.at.start + i);
        let column = self.text[line_start..self.at.start].chars().count();
        let width = self.text[self.at.start..self.at.end.min(line_end).max(self.at.start)]
            .chars()
            .count()
            .max(1);
        write!(
            f,
            "{}:\n{}\n{}{} <--- HERE{}",
            self.kind,
            &self.text[..line_end],
            " ".repeat(column),
            "~".repeat(width),
            &self.text[line_end..],
        )
    }
}

impl std::error::Error for SchemaParseError {}
