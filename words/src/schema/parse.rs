//! Recursive descent over the schema grammar of PyTorch 2.15.

mod defaults;
mod error;
mod types;

pub use error::{SchemaErrorKind, SchemaParseError};

use super::lex::{Kind, Token, tokens};
use super::{Argument, FunctionSchema, OperatorName, Return};
use std::ops::Range;

/// What a schema text declares: a full schema, or only a name.
#[derive(Clone, PartialEq, Debug)]
pub enum Declaration {
    /// `aten::add.Tensor`.
    Name(OperatorName),
    /// `aten::add.Tensor(...) -> ...`.
    Schema(FunctionSchema),
}

impl Declaration {
    /// Parses a schema, or an operator name where no `(` follows it.
    pub fn parse(text: &str) -> Result<Declaration, SchemaParseError> {
        let mut p = Cursor::new(text);
        let name = p.operator_name()?;
        if p.peek() == &Kind::End {
            return Ok(Declaration::Name(name));
        }
        p.rest_of_schema(name).map(Declaration::Schema)
    }
}

impl FunctionSchema {
    /// Parses a schema; a name alone is an error here, see [`Declaration::parse`].
    pub fn parse(text: &str) -> Result<FunctionSchema, SchemaParseError> {
        let mut p = Cursor::new(text);
        let name = p.operator_name()?;
        p.rest_of_schema(name)
    }
}

impl std::str::FromStr for FunctionSchema {
    type Err = SchemaParseError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        FunctionSchema::parse(s)
    }
}

impl std::str::FromStr for OperatorName {
    type Err = SchemaParseError;

    /// Parses `ns::name.overload`; anything after it is an error.
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let mut p = Cursor::new(s);
        let name = p.operator_name()?;
        p.expect_end()?;
        Ok(name)
    }
}

struct Cursor<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
    /// How many bare `!` were seen; each is an alias set of its own.
    fresh: usize,
}

type PResult<T> = Result<T, SchemaParseError>;

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Self {
        Cursor { text, tokens: tokens(text), at: 0, fresh: 0 }
    }

    fn token(&self) -> &Token<'a> {
        // the list always ends in End or Unknown, which nothing steps over
        &self.tokens[self.at]
    }

    fn peek(&self) -> &Kind<'a> {
        &self.token().kind
    }

    fn peek2(&self) -> &Kind<'a> {
        let i = (self.at + 1).min(self.tokens.len() - 1);
        &self.tokens[i].kind
    }

    fn is(&self, p: &str) -> bool {
        matches!(self.peek(), Kind::Punct(q) if *q == p)
    }

    fn bump(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn eat(&mut self, p: &str) -> bool {
        let yes = self.is(p);
        if yes {
            self.bump();
        }
        yes
    }

    fn error_at<T>(&self, at: Range<usize>, kind: SchemaErrorKind) -> PResult<T> {
        Err(SchemaParseError { kind, text: self.text.to_string(), at })
    }

    fn expected<T>(&self, want: &'static str) -> PResult<T> {
        let at = self.token().at.clone();
        let found = match self.peek() {
            Kind::End => "the end of the text".to_string(),
            _ => self.text[at.clone()].to_string(),
        };
        self.error_at(at, SchemaErrorKind::Expected { want, found })
    }

    fn expect(&mut self, p: &'static str) -> PResult<()> {
        if self.eat(p) { Ok(()) } else { self.expected(p) }
    }

    fn expect_end(&self) -> PResult<()> {
        match self.peek() {
            Kind::End => Ok(()),
            _ => self.expected("the end of the text"),
        }
    }

    fn ident(&mut self, want: &'static str) -> PResult<&'a str> {
        match *self.peek() {
            Kind::Ident(s) => {
                self.bump();
                Ok(s)
            }
            _ => self.expected(want),
        }
    }

    fn operator_name(&mut self) -> PResult<OperatorName> {
        let mut name = self.ident("an operator name")?.to_string();
        if self.eat("::") {
            name.push_str("::");
            name.push_str(self.ident("an operator name")?);
        }
        let mut overload = "";
        if self.eat(".") {
            let at = self.token().at.clone();
            overload = self.ident("an overload name")?;
            if overload == "default" || overload.starts_with("__") {
                return self.error_at(at, SchemaErrorKind::IllegalOverload(overload.to_string()));
            }
        }
        Ok(OperatorName { name, overload: overload.to_string() })
    }

    fn rest_of_schema(&mut self, name: OperatorName) -> PResult<FunctionSchema> {
        let (args, vararg) = self.arguments()?;
        self.expect("->")?;
        let (returns, varret) = self.returns()?;
        self.expect_end()?;
        Ok(FunctionSchema { name, args, returns, vararg, varret })
    }

    fn arguments(&mut self) -> PResult<(Vec<Argument>, bool)> {
        self.expect("(")?;
        let mut args: Vec<Argument> = Vec::new();
        let (mut kwarg_only, mut vararg) = (false, false);
        if !self.is(")") {
            loop {
                if vararg {
                    return self
                        .error_at(self.token().at.clone(), SchemaErrorKind::EllipsisNotLast);
                }
                let start = self.token().at.start;
                if self.eat("...") {
                    vararg = true;
                    if let Some(a) = args.iter().find(|a| a.default.is_some()) {
                        let kind = SchemaErrorKind::DefaultWithVararg(a.name.clone());
                        return self.error_at(start..start + 3, kind);
                    }
                } else if self.eat("*") {
                    kwarg_only = true;
                } else {
                    let arg = self.argument(kwarg_only)?;
                    if !kwarg_only
                        && arg.default.is_none()
                        && args.last().is_some_and(|a| a.default.is_some())
                    {
                        let end = self.tokens[self.at.saturating_sub(1)].at.end;
                        let kind = SchemaErrorKind::NonDefaultAfterDefault(arg.name);
                        return self.error_at(start..end, kind);
                    }
                    args.push(arg);
                }
                if !self.eat(",") {
                    break;
                }
            }
        }
        if self.is(")") {
            self.bump();
            Ok((args, vararg))
        } else {
            self.expected(", or )")
        }
    }

    fn argument(&mut self, kwarg_only: bool) -> PResult<Argument> {
        let (ty, alias) = self.sized_type()?;
        let name = self.ident("an argument name")?.to_string();
        let default = if self.eat("=") { Some(self.default(&ty)?) } else { None };
        Ok(Argument { name, ty, default, kwarg_only, alias })
    }

    fn returns(&mut self) -> PResult<(Vec<Return>, bool)> {
        if self.eat("...") {
            return Ok((Vec::new(), true));
        }
        // `(` opens a list of returns; a tuple type as the single return is written `-> ((A, B))`
        if !self.eat("(") {
            return Ok((vec![self.one_return()?], false));
        }
        let mut out = Vec::new();
        let mut varret = false;
        if !self.is(")") {
            loop {
                if varret {
                    return self
                        .error_at(self.token().at.clone(), SchemaErrorKind::EllipsisNotLast);
                }
                if self.eat("...") {
                    varret = true;
                } else {
                    out.push(self.one_return()?);
                }
                if !self.eat(",") {
                    break;
                }
            }
        }
        if !self.eat(")") {
            return self.expected(", or )");
        }
        Ok((out, varret))
    }

    fn one_return(&mut self) -> PResult<Return> {
        let (ty, alias) = self.sized_type()?;
        let name = match self.peek() {
            Kind::Ident(_) => Some(self.ident("a return name")?.to_string()),
            _ => None,
        };
        Ok(Return { name, ty, alias })
    }
}
