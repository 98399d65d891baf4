//! Text to tokens.

use super::error::{ParseError, ParseErrorKind};
use std::ops::Range;
use winnow::Result;
use winnow::ascii::{digit1, line_ending, multispace1, till_line_ending};
use winnow::combinator::{alt, delimited, dispatch, empty, fail, opt, peek, preceded, repeat};
use winnow::prelude::*;
use winnow::stream::{LocatingSlice, Location};
use winnow::token::{any, one_of, take_while};

/// A piece of the text.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    /// `%x`, or `%"x"`; whether it was quoted.
    Value(String, bool),
    /// A word, with `::` and `.` inside.
    Word(String),
    /// An integer or a float, as written.
    Number(String),
    /// `(1.0+2.0j)`.
    Complex(f64, f64),
    /// A quoted string.
    Str(String),
    /// One of `( ) [ ] { } , : = @`.
    Mark(char),
    /// The end of the text.
    End,
}

impl Token {
    /// The token as messages quote it.
    pub(super) fn describe(&self) -> String {
        match self {
            Token::Value(n, false) => format!("`%{n}`"),
            Token::Value(n, true) => format!("`%{n:?}`"),
            Token::Word(w) | Token::Number(w) => format!("`{w}`"),
            Token::Complex(re, im) => format!("`{}`", crate::ir::Scalar::Complex(*re, *im)),
            Token::Str(s) => format!("the string {s:?}"),
            Token::Mark(c) => format!("`{c}`"),
            Token::End => "the end of the text".to_string(),
        }
    }
}

type Input<'a> = LocatingSlice<&'a str>;

fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Whether a character may occur in an unquoted name.
pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$')
}

fn trivia(input: &mut Input<'_>) -> Result<()> {
    let comment = ("//", till_line_ending, opt(line_ending)).void();
    repeat(0.., alt((multispace1.void(), comment))).parse_next(input)
}

fn quoted(input: &mut Input<'_>) -> Result<String> {
    let escape = preceded(
        '\\',
        dispatch! {any;
            'n' => empty.value('\n'),
            't' => empty.value('\t'),
            'r' => empty.value('\r'),
            '"' => empty.value('"'),
            '\'' => empty.value('\''),
            '\\' => empty.value('\\'),
            'u' => delimited("{", take_while(1..=6, |c: char| c.is_ascii_hexdigit()), "}")
                .verify_map(|h: &str| u32::from_str_radix(h, 16).ok().and_then(char::from_u32)),
            _ => fail::<_, char, _>,
        },
    );
    let plain = any.verify(|c: &char| !matches!(c, '"' | '\\' | '\n'));
    delimited('"', repeat(0.., alt((plain, escape))), '"').parse_next(input)
}

fn value(input: &mut Input<'_>) -> Result<Token> {
    preceded(
        '%',
        alt((
            take_while(1.., is_name_char).map(|s: &str| Token::Value(s.to_string(), false)),
            quoted.map(|s| Token::Value(s, true)),
        )),
    )
    .parse_next(input)
}

fn word(input: &mut Input<'_>) -> Result<Token> {
    let part = (one_of(is_word_start), take_while(0.., is_name_char));
    let more = ("::", take_while(1.., is_name_char));
    (part, repeat::<_, _, (), _, _>(0.., more.void()))
        .take()
        .map(|s: &str| Token::Word(s.to_string()))
        .parse_next(input)
}

fn number(input: &mut Input<'_>) -> Result<Token> {
    let fraction = ('.', opt(digit1));
    let exponent = (one_of(['e', 'E']), opt(one_of(['+', '-'])), digit1);
    let digits = (digit1, opt(fraction), opt(exponent)).void();
    (opt('-'), alt((digits, "inf".void(), "nan".void())))
        .take()
        .map(|s: &str| Token::Number(s.to_string()))
        .parse_next(input)
}

/// A complex number, in parentheses and without spaces. Nothing else that begins with a parenthesis
/// has a number and a `j` in it.
fn complex(input: &mut Input<'_>) -> Result<Token> {
    let digits = || {
        (
            digit1,
            opt(('.', opt(digit1))),
            opt((one_of(['e', 'E']), opt(one_of(['+', '-'])), digit1)),
        )
            .void()
    };
    let magnitude = || alt((digits(), "inf".void(), "nan".void()));
    let real = (opt('-'), magnitude()).take();
    let imaginary = (one_of(['+', '-']), magnitude()).take();
    delimited('(', (real, imaginary), "j)")
        .verify_map(|(re, im): (&str, &str)| {
            Some(Token::Complex(re.parse().ok()?, im.parse().ok()?))
        })
        .parse_next(input)
}

fn token(input: &mut Input<'_>) -> Result<Token> {
    dispatch! {peek(any);
        '%' => value,
        '"' => quoted.map(Token::Str),
        '-' | '0'..='9' => number,
        '(' => alt((complex, any.map(Token::Mark))),
        ')' | '[' | ']' | '{' | '}' | ',' | ':' | '=' | '@' | '!' => any.map(Token::Mark),
        c if is_word_start(c) => word,
        _ => fail,
    }
    .parse_next(input)
}

/// The tokens of a text with their byte ranges; the last one is [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Range<usize>)>, ParseError> {
    let mut input = LocatingSlice::new(text);
    let mut out = Vec::new();
    loop {
        // trivia matches the empty text, so it cannot fail
        let _ = trivia.parse_next(&mut input);
        let start = input.current_token_start();
        let Some(first) = text[start..].chars().next() else {
            out.push((Token::End, start..start));
            return Ok(out);
        };
        match token.with_span().parse_next(&mut input) {
            Ok(t) => out.push(t),
            Err(_) => {
                let quote = text[start..].starts_with("%\"") || first == '"';
                let kind = if quote {
                    ParseErrorKind::UnclosedString
                } else {
                    ParseErrorKind::UnknownCharacter(first)
                };
                return Err(ParseError::at(text, start, start + first.len_utf8(), kind));
            }
        }
    }
}
