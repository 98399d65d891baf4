//! The graph's text: printer, parser, and exports for other tools.
//!
//! ```text
//! graph(%x: f32[2,64], param %w: f32[600,64], param %b: f32[600]) {
//!   %0: f32[64,600]{1,64} = aten::t(%w)
//!   %1: f32[2,600] = aten::addmm(%b, %x, %0, beta=1, alpha=1)
//!   return %1
//! }
//! ```
//!
//! The text is a contract: what prints parses back to the same graph, and the filetests under
//! `tests/filetests` are written in it.
//!
//! - **Header.** Inputs, then parameters (marked `param`), each in order.
//! - **Types.** dtype and sizes; strides in braces where they are not row-major; `@device` where
//!   it is not the CPU: `bf16[8,128]{1,8} @cuda:0`.
//! - **Values.** `%name`, or `%0`, `%1` ... for nodes without a name. A name with other characters
//!   than letters, digits, `_`, `.` and `$` is quoted: `%"odd name"`. A call with several results
//!   lists them: `%3: f32[2], %4: i64[2] = aten::max.dim(%x, dim=1, keepdim=false)`. The further
//!   results of a named call are `%name.1`, `%name.2`.
//! - **Arguments** in schema order, all of them. Tensors stand alone, also in lists (`[%1, none,
//!   %2]`); all others are `name=value`, which tensors may use too. Arguments with defaults may be
//!   omitted in a text that is read. Numbers with a point, an exponent, `inf` or `nan` are floats.
//!   The empty lists of floats and bools are `floats[]` and `bools[]`.
//! - **Operators** are those of the catalogue, and those from outside that are defined. An operator
//!   that does not exist, or arguments that it does not take, are errors of the text.
//! - **Effects.** A call is followed by its effects if they differ from those of its operator
//!   ([`Op::effects`](super::Op::effects)): `my::log(%x) !effect`. A call without results stands
//!   alone, without `=`.
//! - **Graphs** that a call is given are arguments like others, `true_fn=graph(%x: f32[2]) { ... }`, with
//!   values of their own.
//! - **Constants.** `%c: f32[] = constant 2.5` for equal elements, `constant [1, 2]` for a list.
//! - `//` starts a comment.

mod error;
mod export;
mod lex;
mod parse;
mod print;
#[cfg(test)]
mod tests;

pub use error::{ParseError, ParseErrorKind};
pub use print::{DisplayGraph, ValueNames, display_node};

use super::graph::Graph;
use std::fmt;
use std::str::FromStr;

impl Graph {
    /// Reads a graph from its text; the inverse of `Display`.
    ///
    /// ```
    /// use straightline_passes::ir::graph::Graph;
    /// let text = "graph(%x: f32[2]) {\n  %0: f32[2] = aten::relu(%x)\n  return %0\n}\n";
    /// let graph = Graph::parse(text).unwrap();
    /// assert_eq!(graph.to_string(), text);
    /// let error = Graph::parse("graph(%x: f32[2]) {\n  return %y\n}").unwrap_err();
    /// assert_eq!((error.line, error.column), (2, 10));
    /// ```
    ///
    /// # Errors
    ///
    /// A [`ParseError`] with the place and what was expected there.
    pub fn parse(text: &str) -> Result<Graph, ParseError> {
        parse::graph(text)
    }

    /// A display adaptor with options: see [`DisplayGraph`].
    pub fn display(&self) -> DisplayGraph<'_> {
        DisplayGraph::new(self)
    }

    /// The graph in Graphviz's language, one box per node.
    pub fn to_dot(&self) -> String {
        export::dot(self)
    }

    /// The graph as a JSON object with `inputs`, `parameters`, `nodes` and `outputs`.
    pub fn to_json(&self) -> String {
        export::json(self)
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.display().fmt(f)
    }
}

impl FromStr for Graph {
    type Err = ParseError;

    fn from_str(s: &str) -> Result<Graph, ParseError> {
        Graph::parse(s)
    }
}
