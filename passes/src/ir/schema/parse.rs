//! Recursive descent over the schema grammar of PyTorch 2.15.

use super::lex::{Kind, Token, tokens};
use super::{AliasInfo, Argument, DefaultValue, FunctionSchema, OperatorName, Return, SchemaType};
use crate::ir::DType;
use std::fmt;
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
        let line_end = self.text[self.at.start..]
            .find('\n')
            .map_or(self.text.len(), |i| self.at.start + i);
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

pub(super) fn parse_schema(text: &str) -> Result<FunctionSchema, SchemaParseError> {
    let mut p = Cursor::new(text);
    let name = p.operator_name()?;
    p.rest_of_schema(name)
}

pub(super) fn parse_name(text: &str) -> Result<OperatorName, SchemaParseError> {
    let mut p = Cursor::new(text);
    let name = p.operator_name()?;
    p.expect_end()?;
    Ok(name)
}

struct Cursor<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    /// How many bare `!` were seen; each is an alias set of its own.
    fresh: usize,
}

type PResult<T> = Result<T, SchemaParseError>;

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Self {
        Cursor {
            text,
            tokens: tokens(text),
            at: 0,
            fresh: 0,
        }
    }

    fn token(&self) -> &Token {
        // the list always ends in End or Unknown, which nothing steps over
        &self.tokens[self.at]
    }

    fn peek(&self) -> &Kind {
        &self.token().kind
    }

    fn peek2(&self) -> &Kind {
        let i = (self.at + 1).min(self.tokens.len() - 1);
        &self.tokens[i].kind
    }

    fn is(&self, p: &str) -> bool {
        matches!(self.peek(), Kind::Punct(q) if *q == p)
    }

    fn bump(&mut self) -> Token {
        let t = self.token().clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        t
    }

    fn eat(&mut self, p: &str) -> bool {
        let yes = self.is(p);
        if yes {
            self.bump();
        }
        yes
    }

    fn error_at<T>(&self, at: Range<usize>, kind: SchemaErrorKind) -> PResult<T> {
        Err(SchemaParseError {
            kind,
            text: self.text.to_string(),
            at,
        })
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
        if self.eat(p) {
            Ok(())
        } else {
            self.expected(p)
        }
    }

    fn expect_end(&self) -> PResult<()> {
        match self.peek() {
            Kind::End => Ok(()),
            _ => self.expected("the end of the text"),
        }
    }

    fn ident(&mut self, want: &'static str) -> PResult<String> {
        match self.peek() {
            Kind::Ident(s) => {
                let s = s.clone();
                self.bump();
                Ok(s)
            }
            _ => self.expected(want),
        }
    }

    fn operator_name(&mut self) -> PResult<OperatorName> {
        let mut name = self.ident("an operator name")?;
        if self.eat("::") {
            let base = self.ident("an operator name")?;
            name = format!("{name}::{base}");
        }
        let mut overload = String::new();
        if self.eat(".") {
            let at = self.token().at.clone();
            overload = self.ident("an overload name")?;
            if overload == "default" || overload.starts_with("__") {
                return self.error_at(at, SchemaErrorKind::IllegalOverload(overload));
            }
        }
        Ok(OperatorName { name, overload })
    }

    fn rest_of_schema(&mut self, name: OperatorName) -> PResult<FunctionSchema> {
        let (args, vararg) = self.arguments()?;
        self.expect("->")?;
        let (returns, varret) = self.returns()?;
        self.expect_end()?;
        Ok(FunctionSchema {
            name,
            args,
            returns,
            vararg,
            varret,
        })
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
        let name = self.ident("an argument name")?;
        let default = if self.eat("=") {
            Some(self.default(&ty)?)
        } else {
            None
        };
        Ok(Argument {
            name,
            ty,
            default,
            kwarg_only,
            alias,
        })
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
            Kind::Ident(_) => Some(self.ident("a return name")?),
            _ => None,
        };
        Ok(Return { name, ty, alias })
    }

    /// `type [ '[' int ']' [alias] ['?'] ]`.
    fn sized_type(&mut self) -> PResult<(SchemaType, Option<AliasInfo>)> {
        let (mut ty, mut alias) = self.ty()?;
        if self.is("[") {
            self.bump();
            let at = self.token().at.clone();
            let Kind::Number(n) = self.peek().clone() else {
                return self.expected("a list size or ]");
            };
            let Ok(n) = n.parse::<u32>() else {
                return self.error_at(at, SchemaErrorKind::BadNumber(n));
            };
            self.bump();
            self.expect("]")?;
            ty = SchemaType::List(Box::new(ty), Some(n));
            alias = self.container_alias(alias)?;
            if self.eat("?") {
                ty = ty.optional();
            }
        }
        Ok((ty, alias))
    }

    /// `atom [alias] { '[' ']' [alias] | '?' }`, leaving `[ N ]` to the caller.
    fn ty(&mut self) -> PResult<(SchemaType, Option<AliasInfo>)> {
        let (mut ty, inner) = self.atom()?;
        let mut alias = self.alias()?;
        if let Some(inner) = inner {
            alias.get_or_insert_default().elements = inner;
        }
        loop {
            if self.is("[") && matches!(self.peek2(), Kind::Punct("]")) {
                self.bump();
                self.bump();
                ty = ty.list();
                alias = self.container_alias(alias)?;
            } else if self.eat("?") {
                ty = ty.optional();
            } else {
                return Ok((ty, alias));
            }
        }
    }

    /// The annotation after a list's brackets; the list inherits the write mark of its elements.
    fn container_alias(&mut self, element: Option<AliasInfo>) -> PResult<Option<AliasInfo>> {
        let own = self.alias()?;
        Ok(match (own, element) {
            (own, None) => own,
            (own, Some(element)) => {
                let mut own = own.unwrap_or_default();
                own.write |= element.write;
                own.elements = vec![element];
                Some(own)
            }
        })
    }

    fn alias(&mut self) -> PResult<Option<AliasInfo>> {
        if self.eat("!") {
            self.fresh += 1;
            return Ok(Some(AliasInfo {
                before: vec![format!("${}", self.fresh - 1)],
                write: true,
                ..AliasInfo::default()
            }));
        }
        if !self.eat("(") {
            return Ok(None);
        }
        let before = self.alias_set()?;
        let write = self.eat("!");
        let after = if self.eat("->") {
            self.alias_set()?
        } else {
            before.clone()
        };
        self.expect(")")?;
        Ok(Some(AliasInfo {
            before,
            after,
            write,
            elements: Vec::new(),
        }))
    }

    fn alias_set(&mut self) -> PResult<Vec<String>> {
        let mut out = Vec::new();
        loop {
            out.push(if self.eat("*") {
                "*".to_string()
            } else {
                self.ident("an alias set")?
            });
            if !self.eat("|") {
                return Ok(out);
            }
        }
    }

    fn inner(&mut self) -> PResult<Box<SchemaType>> {
        self.expect("(")?;
        let (ty, _) = self.ty()?;
        self.expect(")")?;
        Ok(Box::new(ty))
    }

    fn atom(&mut self) -> PResult<(SchemaType, Option<Vec<AliasInfo>>)> {
        if self.eat("(") {
            let mut types = Vec::new();
            let mut aliases = Vec::new();
            loop {
                let (ty, alias) = self.ty()?;
                types.push(ty);
                aliases.push(alias.unwrap_or_default());
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(")")?;
            let annotated = aliases.iter().any(|a| !a.is_empty());
            return Ok((SchemaType::Tuple(types), annotated.then_some(aliases)));
        }
        let at = self.token().at.clone();
        let name = self.ident("a type")?;
        let ty = match name.as_str() {
            "Tensor" => SchemaType::Tensor,
            "int" => SchemaType::Int,
            "SymInt" => SchemaType::SymInt,
            "float" => SchemaType::Float,
            "complex" => SchemaType::Complex,
            "bool" => SchemaType::Bool,
            "SymBool" => SchemaType::SymBool,
            "Scalar" => SchemaType::Scalar,
            "str" => SchemaType::Str,
            "ScalarType" => SchemaType::ScalarType,
            "Layout" => SchemaType::Layout,
            "MemoryFormat" => SchemaType::MemoryFormat,
            "QScheme" => SchemaType::QScheme,
            "Device" => SchemaType::Device,
            "DeviceIndex" => SchemaType::DeviceIndex,
            "Generator" => SchemaType::Generator,
            "Storage" => SchemaType::Storage,
            "Stream" => SchemaType::Stream,
            "Quantizer" => SchemaType::Quantizer,
            "ConstQuantizerPtr" => SchemaType::ConstQuantizerPtr,
            "None" | "NoneType" => SchemaType::None,
            "Capsule" => SchemaType::Capsule,
            "Any" => SchemaType::Any,
            "AnyClassType" => SchemaType::AnyClass,
            "AnyEnumType" => SchemaType::AnyEnum,
            "Future" => SchemaType::Future(self.inner()?),
            "RRef" => SchemaType::RRef(self.inner()?),
            "Await" => SchemaType::Await(self.inner()?),
            "Dict" => {
                self.expect("(")?;
                let (key, _) = self.ty()?;
                self.expect(",")?;
                let (value, _) = self.ty()?;
                self.expect(")")?;
                SchemaType::Dict(Box::new(key), Box::new(value))
            }
            "__torch__" => {
                for part in ["torch", "classes"] {
                    self.expect(".")?;
                    if self.peek() != &Kind::Ident(part.to_string()) {
                        return self.expected("__torch__.torch.classes.NAMESPACE.CLASS");
                    }
                    self.bump();
                }
                self.expect(".")?;
                let namespace = self.ident("a class namespace")?;
                self.expect(".")?;
                let name = self.ident("a class name")?;
                SchemaType::Class { namespace, name }
            }
            _ if name.starts_with(|c: char| c.is_ascii_lowercase()) => SchemaType::Var(name),
            _ => return self.error_at(at, SchemaErrorKind::UnknownType(name)),
        };
        Ok((ty, None))
    }

    fn default(&mut self, ty: &SchemaType) -> PResult<DefaultValue> {
        let start = self.token().at.start;
        let is_none = matches!(self.peek(), Kind::Ident(s) if s == "None");
        match ty {
            SchemaType::Optional(_) | SchemaType::None if is_none => {
                self.bump();
                Ok(DefaultValue::None)
            }
            SchemaType::Tensor | SchemaType::Generator | SchemaType::Quantizer => {
                if is_none {
                    self.bump();
                    return Ok(DefaultValue::None);
                }
                self.bad_default(start, ty)
            }
            // a scalar default of an optional sized list stays a scalar
            SchemaType::Optional(inner) => match &**inner {
                SchemaType::List(element, Some(_)) if !self.is("[") => {
                    self.constant(start, element, ty)
                }
                inner @ SchemaType::Float => self.constant(start, inner, ty),
                inner => self.default(inner),
            },
            SchemaType::List(element, size) => {
                if self.is("[") {
                    return self.list_default(element, ty);
                }
                let Some(n) = size else {
                    return self.expected("[");
                };
                let value = self.list_element(start, element, ty)?;
                Ok(DefaultValue::List(vec![value; *n as usize]))
            }
            _ => self.constant(start, ty, ty),
        }
    }

    fn list_default(&mut self, element: &SchemaType, ty: &SchemaType) -> PResult<DefaultValue> {
        self.expect("[")?;
        let mut out = Vec::new();
        while !self.is("]") {
            let start = self.token().at.start;
            out.push(self.list_element(start, element, ty)?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect("]")?;
        Ok(DefaultValue::List(out))
    }

    fn list_element(
        &mut self,
        start: usize,
        element: &SchemaType,
        ty: &SchemaType,
    ) -> PResult<DefaultValue> {
        match element {
            SchemaType::Int
            | SchemaType::SymInt
            | SchemaType::Float
            | SchemaType::Complex
            | SchemaType::Bool => self.constant(start, element, ty),
            _ => self.bad_default(start, ty),
        }
    }

    fn bad_default<T>(&mut self, start: usize, ty: &SchemaType) -> PResult<T> {
        let at = start..self.token().at.end.max(start);
        self.error_at(
            at.clone(),
            SchemaErrorKind::BadDefault {
                value: self.text[at].to_string(),
                ty: ty.to_string(),
            },
        )
    }

    /// One constant for a value of type `ty`; `shown` is the type that an error names.
    fn constant(
        &mut self,
        start: usize,
        ty: &SchemaType,
        shown: &SchemaType,
    ) -> PResult<DefaultValue> {
        use SchemaType as T;
        let negative = self.eat("-");
        let value = match (self.peek().clone(), ty) {
            (
                Kind::Number(n),
                T::Int
                | T::SymInt
                | T::Float
                | T::Complex
                | T::Scalar
                | T::ScalarType
                | T::Layout
                | T::MemoryFormat
                | T::QScheme
                | T::DeviceIndex
                | T::Any
                | T::Var(_),
            ) => {
                // c10 asks the type as it is written: a whole number stays one for `float?`
                let optional = matches!(shown, T::Optional(t) if **t == T::Float);
                self.number(&n, negative, *ty == T::Float && !optional)?
            }
            (Kind::Str(s), T::Str | T::Device | T::Any | T::Var(_)) if !negative => {
                DefaultValue::Str(s)
            }
            // the canonical text has devices without quotes: `cpu`, `cuda:0`
            (Kind::Ident(s), T::Device) if !negative => match self.device_index() {
                Some(index) => DefaultValue::Str(format!("{s}:{index}")),
                None => DefaultValue::Str(s),
            },
            (Kind::Ident(s), _) if !negative => {
                let value = match (s.as_str(), ty) {
                    ("True", T::Bool | T::SymBool | T::Scalar | T::Any | T::Var(_)) => {
                        Some(DefaultValue::Bool(true))
                    }
                    ("False", T::Bool | T::SymBool | T::Scalar | T::Any | T::Var(_)) => {
                        Some(DefaultValue::Bool(false))
                    }
                    ("None", T::Any | T::Var(_)) => Some(DefaultValue::None),
                    (name, _) => named_int(name, ty).map(DefaultValue::Int),
                };
                match value {
                    Some(v) => v,
                    None => return self.bad_default(start, shown),
                }
            }
            _ => return self.bad_default(start, shown),
        };
        self.bump();
        Ok(value)
    }

    /// Steps over the type in `cuda:0`, leaving the cursor on the index.
    fn device_index(&mut self) -> Option<String> {
        let Some([colon, index]) = self.tokens.get(self.at + 1..self.at + 3) else {
            return None;
        };
        match (&colon.kind, &index.kind) {
            (Kind::Punct(":"), Kind::Number(n)) => {
                let n = n.clone();
                self.at += 2;
                Some(n)
            }
            _ => None,
        }
    }

    fn number(&self, text: &str, negative: bool, float: bool) -> PResult<DefaultValue> {
        let at = self.token().at.clone();
        let sign = if negative { "-" } else { "" };
        let full = format!("{sign}{text}");
        let bad = || self.error_at(at.clone(), SchemaErrorKind::BadNumber(full.clone()));
        if let Some(imaginary) = full.strip_suffix('j') {
            return match imaginary.parse() {
                Ok(x) => Ok(DefaultValue::Imaginary(x)),
                Err(_) => bad(),
            };
        }
        if float || text.contains(['.', 'e', 'E']) {
            return match full.parse::<f64>() {
                Ok(x) if x.is_finite() => Ok(DefaultValue::Float(x)),
                _ => bad(),
            };
        }
        match full.parse() {
            Ok(n) => Ok(DefaultValue::Int(n)),
            Err(_) => bad(),
        }
    }
}

/// The number that an identifier default stands for.
fn named_int(name: &str, ty: &SchemaType) -> Option<i64> {
    match (name, ty) {
        // these four are known everywhere an integer-like default may stand
        ("float", SchemaType::ScalarType | SchemaType::Int) => Some(DType::F32 as i64),
        ("long", SchemaType::ScalarType | SchemaType::Int) => Some(DType::I64 as i64),
        ("complex", SchemaType::ScalarType | SchemaType::Int) => Some(9),
        ("Mean", SchemaType::Int) => Some(1),
        ("strided", SchemaType::Layout | SchemaType::Int) => Some(0),
        ("contiguous_format", SchemaType::MemoryFormat | SchemaType::Int) => Some(0),
        (name, SchemaType::ScalarType) => DType::from_name(name).map(|d| d as i64),
        _ => None,
    }
}
