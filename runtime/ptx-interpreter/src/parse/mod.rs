//! The text of a module into declarations and statements.

pub(crate) mod ast;
mod lexer;
mod statements;

use thiserror::Error;

use self::ast::{File, Function, Initial, Linkage, Number, Place, Variable};
use self::lexer::{Kind, Token};

/// The text is no PTX, or PTX of a kind that is not known here.
///
/// ```
/// use straightline_ptx_interpreter::Module;
///
/// let error = Module::parse(".version 9.0\n.target sm_90\n.visible entry").unwrap_err();
/// assert_eq!((error.line, error.column, error.found.as_str()), (3, 10, "entry"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{line}:{column}: expected {expected}, found `{found}`")]
pub struct ParseError {
    /// Line of the text, from 1.
    pub line: usize,
    /// Column, in characters, from 1.
    pub column: usize,
    /// What would have been right.
    pub expected: String,
    /// What stands there.
    pub found: String,
}

pub(crate) fn error_at(source: &str, at: usize, expected: &str, found: &str) -> ParseError {
    let before = source.get(..at).unwrap_or(source);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    ParseError { line, column, expected: expected.to_owned(), found: found.to_owned() }
}

/// The largest variable or parameter; what is larger is taken for a mistake.
const LARGEST: u64 = 1 << 28;

pub(crate) fn parse(source: &str) -> Result<File<'_>, ParseError> {
    let tokens = lexer::tokens(source)?;
    let mut parser = Parser { source, tokens, at: 0, depth: 0 };
    parser.file()
}

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
    /// How deep operands are nested.
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn is(&self, text: &str) -> bool {
        let token = self.peek();
        token.text == text && !matches!(token.kind, Kind::Text | Kind::End)
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.is(text);
        self.at += usize::from(found);
        found
    }

    fn fail<T>(&self, expected: &str) -> Result<T, ParseError> {
        let token = self.peek();
        Err(error_at(self.source, token.start, expected, token.text))
    }

    fn expect(&mut self, text: &str) -> Result<Token<'a>, ParseError> {
        if self.is(text) { Ok(self.next()) } else { self.fail(&format!("`{text}`")) }
    }

    fn word(&mut self, what: &str) -> Result<&'a str, ParseError> {
        if self.peek().kind == Kind::Word { Ok(self.next().text) } else { self.fail(what) }
    }

    fn name(&mut self) -> Result<&'a str, ParseError> {
        match self.peek() {
            Token { kind: Kind::Word, text, .. } if !text.starts_with('.') => Ok(self.next().text),
            _ => self.fail("a name"),
        }
    }

    fn number(&mut self) -> Result<Number, ParseError> {
        let negative = self.take("-");
        let token = self.peek();
        if token.kind != Kind::Number {
            return self.fail("a number");
        }
        let Some(number) = number(token.text, negative) else { return self.fail("a number") };
        self.at += 1;
        Ok(number)
    }

    fn count(&mut self) -> Result<u64, ParseError> {
        let token = self.peek();
        match number(token.text, false) {
            Some(Number::Integer(value)) if token.kind == Kind::Number => {
                self.at += 1;
                Ok(value)
            }
            _ => self.fail("an integer"),
        }
    }

    fn count32(&mut self) -> Result<u32, ParseError> {
        let at = self.at;
        let value = self.count()?;
        u32::try_from(value).or_else(|_| {
            self.at = at;
            self.fail("an integer of 32 bits")
        })
    }

    /// Skips what belongs to one line of the text (`.loc`, `.file`).
    fn skip_line(&mut self) {
        let line = self.peek().line;
        while self.peek().line == line && self.peek().kind != Kind::End {
            self.at += 1;
        }
    }

    fn file(&mut self) -> Result<File<'a>, ParseError> {
        let mut file = File::default();
        let mut linkage = Linkage::Internal;
        while self.peek().kind != Kind::End {
            match self.peek().text {
                ".version" => {
                    self.at += 1;
                    self.number()?;
                }
                ".target" => {
                    self.at += 1;
                    self.word("an architecture")?;
                    while self.take(",") {
                        self.word("an option of the target")?;
                    }
                }
                ".address_size" => {
                    self.at += 1;
                    let at = self.at;
                    if self.count()? != 64 {
                        self.at = at;
                        return self.fail("64");
                    }
                }
                ".file" | ".loc" => self.skip_line(),
                ".pragma" => {
                    self.at += 1;
                    self.next();
                    self.expect(";")?;
                }
                ".section" => self.section()?,
                ".visible" | ".weak" => {
                    self.at += 1;
                    linkage = Linkage::Visible;
                }
                ".extern" | ".common" => {
                    self.at += 1;
                    linkage = Linkage::Extern;
                }
                ".entry" | ".func" => {
                    file.functions.push(self.function()?);
                    linkage = Linkage::Internal;
                }
                ".global" | ".const" | ".shared" => {
                    self.variables(linkage, |variable| file.variables.push(variable))?;
                    linkage = Linkage::Internal;
                }
                _ => return self.fail("a directive"),
            }
        }
        Ok(file)
    }

    /// Debug information is skipped.
    fn section(&mut self) -> Result<(), ParseError> {
        while !self.is("{") {
            if self.peek().kind == Kind::End {
                return self.fail("`{`");
            }
            self.at += 1;
        }
        while !self.take("}") {
            if self.peek().kind == Kind::End {
                return self.fail("`}`");
            }
            self.at += 1;
        }
        Ok(())
    }

    fn function(&mut self) -> Result<Function<'a>, ParseError> {
        let entry = self.next().text == ".entry";
        let mut function = Function { entry, ..Function::default() };
        while self.take(".noreturn") || self.take(".abi_preserve") {}
        if !entry && self.is("(") {
            function.results = self.params()?;
        }
        function.name = self.name()?;
        if self.is("(") {
            function.params = self.params()?;
        }
        loop {
            match self.peek().text {
                ".maxntid" | ".reqntid" => {
                    function.required_threads |= self.next().text == ".reqntid";
                    let mut threads = [1; 3];
                    for (index, slot) in threads.iter_mut().enumerate() {
                        if index == 0 || self.take(",") {
                            *slot = self.count32()?;
                        }
                    }
                    function.max_threads = Some(threads);
                }
                ".minnctapersm" | ".maxnctapersm" | ".maxnreg" | ".reqnctapercluster"
                | ".maxclusterrank" => {
                    self.at += 1;
                    self.count32()?;
                    while self.take(",") {
                        self.count32()?;
                    }
                }
                ".noreturn" | ".explicitcluster" => self.at += 1,
                ".pragma" => {
                    self.at += 1;
                    self.next();
                    self.expect(";")?;
                }
                ";" if !entry => {
                    self.at += 1;
                    return Ok(function);
                }
                "{" => {
                    function.body = Some(self.body()?);
                    return Ok(function);
                }
                _ => return self.fail("the body of the function"),
            }
        }
    }

    fn params(&mut self) -> Result<Vec<Variable<'a>>, ParseError> {
        self.expect("(")?;
        let mut params = Vec::new();
        while !self.is(")") {
            self.expect(".param")?;
            let element = self.element_type()?;
            params.push(self.declaration(Place::Param, Linkage::Internal, element)?);
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(params)
    }

    /// A declaration of variables, from its space to its semicolon.
    fn variables(
        &mut self,
        linkage: Linkage,
        mut each: impl FnMut(Variable<'a>),
    ) -> Result<(), ParseError> {
        let place = match self.next().text {
            ".global" => Place::Global,
            ".const" => Place::Const,
            ".shared" => Place::Shared,
            ".local" => Place::Local,
            _ => Place::Param,
        };
        let element = self.element_type()?;
        each(self.declaration(place, linkage, element)?);
        while self.take(",") {
            each(self.declaration(place, linkage, element)?);
        }
        self.expect(";")?;
        Ok(())
    }

    /// Alignment and bytes of an element.
    fn element_type(&mut self) -> Result<(u64, u64), ParseError> {
        let (mut alignment, mut lanes) = (None, 1);
        loop {
            let token = self.peek();
            match token.text {
                ".align" => {
                    self.at += 1;
                    let at = self.at;
                    let bytes = self.count()?;
                    if !bytes.is_power_of_two() || bytes > 4096 {
                        self.at = at;
                        return self.fail("a power of two");
                    }
                    alignment = Some(bytes);
                }
                ".attribute" => {
                    self.at += 1;
                    self.expect("(")?;
                    while !self.take(")") {
                        if self.next().kind == Kind::End {
                            return self.fail("`)`");
                        }
                    }
                }
                ".v2" => {
                    self.at += 1;
                    lanes = 2;
                }
                ".v4" => {
                    self.at += 1;
                    lanes = 4;
                }
                text => match type_bytes(text) {
                    Some(bytes) => {
                        self.at += 1;
                        let bytes = bytes * lanes;
                        if self.take(".ptr") {
                            self.pointer()?;
                        }
                        return Ok((alignment.unwrap_or(bytes), bytes));
                    }
                    None => return self.fail("a type"),
                },
            }
        }
    }

    fn declaration(
        &mut self,
        place: Place,
        linkage: Linkage,
        (alignment, element): (u64, u64),
    ) -> Result<Variable<'a>, ParseError> {
        let name = self.name()?;
        let mut elements = Some(1u64);
        let mut open = false;
        while self.take("[") {
            if self.take("]") {
                open = true;
            } else {
                let size = self.count()?;
                elements = elements.and_then(|count| count.checked_mul(size));
                self.expect("]")?;
            }
        }
        let mut initial = Vec::new();
        if self.take("=") {
            let mut at = 0;
            self.initializer(element, &mut at, &mut initial)?;
            if open {
                elements = Some(at.div_ceil(element));
            }
        } else if open {
            elements = Some(0);
        }
        let bytes = elements.and_then(|count| count.checked_mul(element));
        let Some(bytes) = bytes.filter(|&bytes| bytes <= LARGEST) else {
            return self.fail("a smaller variable");
        };
        Ok(Variable { name, place, linkage, bytes, element, alignment, initial })
    }

    fn initializer(
        &mut self,
        element: u64,
        at: &mut u64,
        into: &mut Vec<Initial<'a>>,
    ) -> Result<(), ParseError> {
        if self.take("{") {
            self.depth += 1;
            if self.depth > 16 {
                return self.fail("a flatter initializer");
            }
            while !self.is("}") {
                self.initializer(element, at, into)?;
                if !self.take(",") {
                    break;
                }
            }
            self.depth -= 1;
            self.expect("}")?;
            return Ok(());
        }
        if self.peek().kind == Kind::Word {
            let generic = self.take("generic") && self.expect("(").is_ok();
            let name = self.name()?;
            if generic {
                self.expect(")")?;
            }
            into.push(Initial::Symbol(*at, name, self.offset()?));
        } else {
            let bits = match self.number()? {
                Number::Integer(bits) | Number::Double(bits) => bits,
                Number::Single(bits) => bits.into(),
                Number::Decimal(value) if element == 4 => (value as f32).to_bits().into(),
                Number::Decimal(value) => value.to_bits(),
            };
            into.push(Initial::Bytes(*at, bits));
        }
        *at += element;
        Ok(())
    }

    /// What a parameter points to.
    fn pointer(&mut self) -> Result<(), ParseError> {
        if matches!(self.peek().text, ".global" | ".shared" | ".const" | ".local") {
            self.at += 1;
        }
        if self.take(".align") {
            self.count()?;
        }
        Ok(())
    }

    /// `+ 4`, `- 4`, `+ -4`, or nothing.
    fn offset(&mut self) -> Result<i64, ParseError> {
        let negative = match self.peek().text {
            "+" => false,
            "-" => true,
            _ => return Ok(0),
        };
        self.at += 1;
        match self.number()? {
            Number::Integer(value) if negative => Ok((value as i64).wrapping_neg()),
            Number::Integer(value) => Ok(value as i64),
            _ => {
                self.at -= 1;
                self.fail("an integer")
            }
        }
    }
}

fn type_bytes(text: &str) -> Option<u64> {
    Some(match text {
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        ".b128" => 16,
        _ => return None,
    })
}

fn number(text: &str, negative: bool) -> Option<Number> {
    let sign = |value: u64| if negative { value.wrapping_neg() } else { value };
    let integer = |digits: &str, radix| {
        let digits = digits.trim_end_matches('U').replace('_', "");
        u64::from_str_radix(&digits, radix).ok().map(|value| Number::Integer(sign(value)))
    };
    match text.as_bytes() {
        [b'0', b'f' | b'F', digits @ ..] if digits.len() == 8 => {
            let bits = u32::from_str_radix(&text[2..], 16).ok()?;
            Some(Number::Single(if negative { bits ^ 1 << 31 } else { bits }))
        }
        [b'0', b'd' | b'D', digits @ ..] if digits.len() == 16 => {
            let bits = u64::from_str_radix(&text[2..], 16).ok()?;
            Some(Number::Double(if negative { bits ^ 1 << 63 } else { bits }))
        }
        [b'0', b'x' | b'X', ..] => integer(&text[2..], 16),
        [b'0', b'b' | b'B', ..] => integer(&text[2..], 2),
        _ if text.contains(['.', 'e', 'E']) => {
            let value: f64 = text.parse().ok()?;
            Some(Number::Decimal(if negative { -value } else { value }))
        }
        [b'0', _, ..] => integer(&text[1..], 8),
        _ => integer(text, 10),
    }
}
