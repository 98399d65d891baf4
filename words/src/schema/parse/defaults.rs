//! Default values.

use super::{Cursor, PResult, SchemaErrorKind};
use crate::DType;
use crate::schema::lex::Kind;
use crate::schema::{DefaultValue, SchemaType};

impl Cursor<'_> {
    pub(super) fn default(&mut self, ty: &SchemaType) -> PResult<DefaultValue> {
        let start = self.token().at.start;
        let is_none = *self.peek() == Kind::Ident("None");
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

    pub(super) fn list_default(
        &mut self,
        element: &SchemaType,
        ty: &SchemaType,
    ) -> PResult<DefaultValue> {
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

    pub(super) fn list_element(
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

    pub(super) fn bad_default<T>(&mut self, start: usize, ty: &SchemaType) -> PResult<T> {
        let at = start..self.token().at.end.max(start);
        self.error_at(
            at.clone(),
            SchemaErrorKind::BadDefault { value: self.text[at].to_string(), ty: ty.to_string() },
        )
    }

    /// One constant for a value of type `ty`; `shown` is the type that an error names.
    pub(super) fn constant(
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
                self.number(n, negative, *ty == T::Float && !optional)?
            }
            (Kind::Str(s), T::Str | T::Device | T::Any | T::Var(_)) if !negative => {
                DefaultValue::Str(s)
            }
            // the canonical text has devices without quotes: `cpu`, `cuda:0`
            (Kind::Ident(s), T::Device) if !negative => match self.device_index() {
                Some(index) => DefaultValue::Str(format!("{s}:{index}")),
                None => DefaultValue::Str(s.to_string()),
            },
            (Kind::Ident(s), _) if !negative => {
                let value = match (s, ty) {
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
    pub(super) fn device_index(&mut self) -> Option<&str> {
        let Some([colon, index]) = self.tokens.get(self.at + 1..self.at + 3) else {
            return None;
        };
        match (&colon.kind, &index.kind) {
            (Kind::Punct(":"), Kind::Number(n)) => {
                let n = *n;
                self.at += 2;
                Some(n)
            }
            _ => None,
        }
    }

    pub(super) fn number(&self, text: &str, negative: bool, float: bool) -> PResult<DefaultValue> {
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
