use super::{ParseError, error_at};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name, a directive, a mnemonic with its modifiers, or a register.
    Word,
    Number,
    Text,
    Mark,
    End,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) start: usize,
    pub(crate) line: usize,
}

fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

/// The tokens of a PTX text, with one of kind `End` behind them.
pub(crate) fn tokens(source: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let bytes = source.as_bytes();
    let mut found = Vec::with_capacity(source.len() / 4);
    let (mut at, mut line) = (0, 1);
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        let kind = match byte {
            b'\n' => {
                line += 1;
                at += 1;
                continue;
            }
            b' ' | b'\t' | b'\r' => {
                at += 1;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                while bytes.get(at).is_some_and(|&byte| byte != b'\n') {
                    at += 1;
                }
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let Some(length) = source[at + 2..].find("*/") else {
                    return Err(error_at(source, start, "`*/`", "the end of the text"));
                };
                let end = at + 2 + length + 2;
                line += source[at..end].matches('\n').count();
                at = end;
                continue;
            }
            b'"' => {
                at += 1;
                while bytes.get(at).is_some_and(|&byte| byte != b'"') {
                    line += usize::from(bytes[at] == b'\n');
                    at += 1;
                }
                if at == bytes.len() {
                    return Err(error_at(source, start, "`\"`", "the end of the text"));
                }
                at += 1;
                Kind::Text
            }
            b'0'..=b'9' => {
                at = number_end(bytes, at);
                Kind::Number
            }
            _ if in_word(byte) => {
                at += 1;
                while let Some(&next) = bytes.get(at) {
                    // `.reg.b32` is two directives, `add.f32` one mnemonic
                    if next == b'.' && byte == b'.' {
                        break;
                    }
                    if in_word(next) {
                        at += 1;
                    } else if next == b':' && bytes.get(at + 1) == Some(&b':') {
                        at += 2;
                    } else {
                        break;
                    }
                }
                Kind::Word
            }
            _ if byte.is_ascii() => {
                at += 1;
                Kind::Mark
            }
            _ => {
                let character = source[at..].chars().next().unwrap_or('?').to_string();
                return Err(error_at(source, at, "a token of PTX", &character));
            }
        };
        found.push(Token { kind, text: &source[start..at], start, line });
    }
    found.push(Token { kind: Kind::End, text: "the end of the text", start: source.len(), line });
    Ok(found)
}

fn number_end(bytes: &[u8], start: usize) -> usize {
    let coded = bytes[start] == b'0' && bytes.get(start + 1).is_some_and(u8::is_ascii_alphabetic);
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1);
        let fraction = !coded && byte == b'.' && next.is_some_and(u8::is_ascii_digit);
        let exponent = !coded
            && matches!(byte, b'+' | b'-')
            && matches!(bytes[at - 1], b'e' | b'E')
            && next.is_some_and(u8::is_ascii_digit);
        if !(byte.is_ascii_alphanumeric() || byte == b'_' || fraction || exponent) {
            break;
        }
        at += 1;
    }
    at
}
