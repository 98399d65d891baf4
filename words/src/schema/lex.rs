//! The tokens of a schema, cut with winnow; every token keeps its place for error messages.

use std::ops::Range;
use winnow::{
    LocatingSlice, Parser, Result,
    ascii::{digit1, multispace0},
    combinator::{alt, opt, preceded, repeat},
    error::ContextError,
    stream::{Location, Stream},
    token::{any, none_of, one_of, take_while},
};

/// What a token is.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Kind<'a> {
    /// An identifier.
    Ident(&'a str),
    /// A number as written, without a sign.
    Number(&'a str),
    /// A string without its quotes, escapes resolved.
    Str(String),
    /// Punctuation: `(`, `)`, `[`, `]`, `,`, `*`, `=`, `?`, `!`, `|`, `.`, `-`, `:`, `::`, `->`,
    /// `...`.
    Punct(&'static str),
    /// The end of the text.
    End,
    /// A character that starts no token.
    Unknown,
}

/// A token and the bytes it covers.
#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) at: Range<usize>,
}

type Input<'a> = LocatingSlice<&'a str>;

const PUNCTUATION: [&str; 16] =
    ["...", "::", "->", "(", ")", "[", "]", ",", "*", "=", "?", "!", "|", ".", "-", ":"];

fn punct<'a>(input: &mut Input<'a>) -> Result<Kind<'a>> {
    for p in PUNCTUATION {
        if input.as_bytes().starts_with(p.as_bytes()) {
            input.next_slice(p.len());
            return Ok(Kind::Punct(p));
        }
    }
    Err(ContextError::new())
}

fn ident<'a>(input: &mut Input<'a>) -> Result<Kind<'a>> {
    (
        one_of(|c: char| c.is_ascii_alphabetic() || c == '_'),
        take_while(0.., |c: char| c.is_ascii_alphanumeric() || c == '_'),
    )
        .take()
        .map(Kind::Ident)
        .parse_next(input)
}

fn number<'a>(input: &mut Input<'a>) -> Result<Kind<'a>> {
    let exponent = || (one_of(['e', 'E']), opt(one_of(['+', '-'])), digit1).void();
    alt((
        (digit1, opt(('.', opt(digit1))), opt(exponent()), opt('j')).take(),
        ('.', digit1, opt(exponent()), opt('j')).take(),
    ))
    .map(Kind::Number)
    .parse_next(input)
}

fn string<'a>(input: &mut Input<'a>) -> Result<Kind<'a>> {
    let quote: char = one_of(['"', '\'']).parse_next(input)?;
    let body: String = repeat(
        0..,
        alt((
            preceded('\\', any).map(|c: char| match c {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                c => c,
            }),
            none_of(['\\', quote]),
        )),
    )
    .parse_next(input)?;
    one_of(quote).parse_next(input)?;
    Ok(Kind::Str(body))
}

/// Cuts `text` into tokens; the last one is `End`, or `Unknown` where no token starts.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut input = Input::new(text);
    // most tokens have four characters or more
    let mut out = Vec::with_capacity(text.len() / 4 + 2);
    loop {
        let _: Result<&str> = multispace0.parse_next(&mut input);
        let start = input.current_token_start();
        if input.is_empty() {
            out.push(Token { kind: Kind::End, at: start..start });
            return out;
        }
        // a number before punctuation, so that `.5` is not a dot
        match alt((ident, number, string, punct)).parse_next(&mut input) {
            Ok(kind) => out.push(Token { kind, at: start..input.current_token_start() }),
            Err(_) => {
                let end = text[start..].chars().next().map_or(start, |c| start + c.len_utf8());
                out.push(Token { kind: Kind::Unknown, at: start..end });
                return out;
            }
        }
    }
}
