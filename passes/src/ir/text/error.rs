//! What can be wrong with a graph's text, and where.

use crate::ir::ArgumentError;
use std::fmt;

fn did_you_mean(similar: &[String]) -> String {
    match similar {
        [] => ": define it with a `Library` before the text is read".to_string(),
        names => format!(": did you mean {}?", names.join(", ")),
    }
}

/// The line and the column of a byte, both from 1, columns in characters.
pub(super) fn place(text: &str, at: usize) -> (usize, usize) {
    let head = &text[..at.min(text.len())];
    let line_start = head.rfind('\n').map_or(0, |i| i + 1);
    let line = head.matches('\n').count() + 1;
    (line, head[line_start..].chars().count() + 1)
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParseErrorKind {
    /// A token that the grammar does not allow here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What may stand here.
        expected: String,
        /// What stands here.
        found: String,
    },
    /// A character that starts no token.
    #[error("`{0}` starts nothing in a graph's text")]
    UnknownCharacter(char),
    /// A string or quoted name without its closing quote on the line.
    #[error("this string has no closing quote")]
    UnclosedString,
    /// A use of a value that no earlier line defines.
    #[error("`{0}` is not defined above this line")]
    UnknownValue(String),
    /// Two definitions of one name.
    #[error("`{0}` is defined twice")]
    DuplicateValue(String),
    /// A word that is not a dtype, where one is expected.
    #[error("`{0}` is not a dtype: use one of u8 i8 i16 i32 i64 f16 bf16 f32 f64 c64 c128 bool")]
    UnknownDType(String),
    /// A word that is not a device, where one is expected.
    #[error("`{0}` is not a device")]
    UnknownDevice(String),
    /// A number that does not fit its type.
    #[error("`{0}` does not fit in 64 bits")]
    NumberTooLarge(String),
    /// A size below zero.
    #[error("a size cannot be negative, found {0}")]
    NegativeSize(i64),
    /// Strides and sizes of different lengths.
    #[error("{sizes} sizes but {strides} strides")]
    StrideCount {
        /// Number of sizes.
        sizes: usize,
        /// Number of strides.
        strides: usize,
    },
    /// A constant list whose length is not that of its type.
    #[error("the type has {expected} elements but the constant lists {found}")]
    ElementCount {
        /// The number of elements that the sizes require.
        expected: i64,
        /// Elements listed.
        found: usize,
    },
    /// A type with more elements than can be counted.
    #[error("the sizes {0:?} have more elements than fit in 64 bits")]
    TooManyElements(Vec<i64>),
    /// An operator that does not exist.
    #[error("there is no operator `{name}`{}", did_you_mean(.similar))]
    UnknownOperator {
        /// The name.
        name: String,
        /// Operators with similar names.
        similar: Vec<String>,
    },
    /// An argument that the operator does not take in this form.
    #[error(transparent)]
    Argument(ArgumentError),
    /// A list with elements of several kinds.
    #[error("a list holds either tensors, integers, floats or booleans, not a mixture")]
    MixedList,
}

/// An error in a graph's text, with its place. `Display` shows the line with a caret:
///
/// ```text
/// line 2, column 21: `%y` is not defined above this line
///   2 |   %0: f32[2] = aten::relu(%y)
///     |                           ^^
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ParseError {
    /// What is wrong.
    pub kind: ParseErrorKind,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The length of the error in characters, at least 1.
    pub width: usize,
    /// The line itself.
    pub source_line: String,
}

impl ParseError {
    /// An error about the bytes `start..end` of `text`.
    pub(super) fn at(text: &str, start: usize, end: usize, kind: ParseErrorKind) -> ParseError {
        let start = start.min(text.len());
        let (line, column) = place(text, start);
        let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
        let end = end.clamp(start, line_end);
        ParseError {
            kind,
            line,
            column,
            width: text[start..end].chars().count().max(1),
            source_line: text[line_start..line_end].trim_end().to_string(),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        writeln!(f, "line {}, column {}: {}", self.line, self.column, self.kind)?;
        writeln!(f, "  {number} | {}", self.source_line)?;
        let margin = " ".repeat(number.len());
        let pad: String = (self.source_line.chars())
            .take(self.column - 1)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        write!(f, "  {margin} | {pad}{}", "^".repeat(self.width))
    }
}

impl std::error::Error for ParseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.kind)
    }
}
