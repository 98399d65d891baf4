//! The definitions of composites: from the text of an entry to the expression of a `Composite`.

use crate::{Declared, variant};
use std::collections::BTreeMap;
use straightline_words::schema::{Argument, DefaultValue, FunctionSchema, SchemaType};
use straightline_words::{DType, MemoryFormat};

/// The expression of an operator's definition.
pub(crate) fn composite(
    text: &str,
    schema: &FunctionSchema,
    declared: &BTreeMap<String, Declared<'_>>,
) -> Result<String, String> {
    let mut parser = Parser { schema, declared, locals: Vec::new(), rest: "" };
    let lines: Vec<&str> = text.trim().lines().collect();
    let Some((last, names)) = lines.split_last() else {
        return Err("a composite is an expression".into());
    };
    let mut locals = Vec::new();
    for line in names {
        let (name, value) = line
            .split_once(" = ")
            .ok_or_else(|| format!("`{line}` names nothing: `NAME = VALUE` does"))?;
        locals.push(parser.whole(value, None)?);
        parser.locals.push(name.trim().to_string());
    }
    let results = match last.strip_prefix('(').and_then(|l| l.strip_suffix(')')) {
        Some(all) => parser.whole_list(all)?,
        None => vec![parser.whole(last, None)?],
    };
    Ok(format!(
        "Composite {{ text: {:?}, locals: &[{}], results: &[{}] }}",
        text.trim(),
        locals.join(", "),
        results.join(", ")
    ))
}

struct Parser<'a> {
    schema: &'a FunctionSchema,
    declared: &'a BTreeMap<String, Declared<'a>>,
    locals: Vec<String>,
    /// What has not been read yet.
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn whole(&mut self, text: &'a str, of: Option<&SchemaType>) -> Result<String, String> {
        self.rest = text;
        let value = self.value(of)?;
        match self.rest.trim() {
            "" => Ok(value),
            rest => Err(format!("`{rest}` after the end of `{text}`")),
        }
    }

    fn whole_list(&mut self, text: &'a str) -> Result<Vec<String>, String> {
        self.rest = text;
        let mut all = vec![self.value(None)?];
        while self.eats(",") {
            all.push(self.value(None)?);
        }
        match self.rest.trim() {
            "" => Ok(all),
            rest => Err(format!("`{rest}` after the end of `{text}`")),
        }
    }

    fn eats(&mut self, mark: &str) -> bool {
        match self.rest.trim_start().strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest.trim_start();
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        word
    }

    /// A value for an argument of a type, if that is known.
    fn value(&mut self, of: Option<&SchemaType>) -> Result<String, String> {
        if self.eats("[") {
            let item = match of.map(SchemaType::unwrap_optional) {
                Some(SchemaType::List(item, _)) => Some(&**item),
                _ => None,
            };
            let mut all = Vec::new();
            while !self.eats("]") {
                all.push(self.value(item)?);
                if !self.eats(",") && !self.rest.trim_start().starts_with(']') {
                    return Err(format!("`,` or `]` before `{}`", self.rest));
                }
            }
            return Ok(format!("Expr::List(&[{}])", all.join(", ")));
        }
        if self.eats("'") {
            let text = self.word(|c| c != '\'');
            self.eats("'");
            return Ok(format!("Expr::Str({text:?})"));
        }
        let start = self.rest.trim_start();
        if start.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let number = self.word(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
            if let Ok(n) = number.parse::<i64>() {
                return Ok(format!("Expr::Int({n})"));
            }
            let number: f64 = number.parse().map_err(|_| format!("`{number}` is no number"))?;
            return Ok(match number.is_finite() {
                true => format!("Expr::Float({number:?})"),
                false if number > 0.0 => "Expr::Float(f64::INFINITY)".to_string(),
                false => "Expr::Float(f64::NEG_INFINITY)".to_string(),
            });
        }
        let word = self.word(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':'));
        if self.eats("(") {
            return self.call(word);
        }
        let (name, part) = word.split_once('.').unwrap_or((word, ""));
        if let Some(i) = self.locals.iter().position(|n| n == name) {
            let part: Option<usize> = match part {
                "" => None,
                n => Some(n.parse().map_err(|_| format!("`{n}` is no result's position"))?),
            };
            return Ok(format!("Expr::Local({i}, {part:?})"));
        }
        if let Some(i) = self.schema.arg_index(name) {
            return match part {
                "" => Ok(format!("Expr::Argument({i})")),
                "sizes" => Ok(format!("Expr::Sizes({i})")),
                "dtype" => Ok(format!("Expr::DTypeOf({i})")),
                _ => Err(format!("`{part}` is not known of a tensor: `sizes` and `dtype` are")),
            };
        }
        literal(word, of).ok_or_else(|| format!("`{word}` is no argument and no value"))
    }

    fn call(&mut self, name: &str) -> Result<String, String> {
        let (name, declared) = (crate::entry::qualified(name), self.declared);
        let Some(called) = declared.get(&name) else {
            return Err(format!("there is no operator `{name}`"));
        };
        let wanted = &called.schema.args;
        let mut given: Vec<Option<String>> = vec![None; wanted.len()];
        let mut next = 0;
        while !self.eats(")") {
            let rest = self.rest.trim_start();
            let named = rest
                .split_once('=')
                .and_then(|(key, value)| Some((called.schema.arg_index(key.trim())?, value)));
            let at = match named {
                Some((at, value)) => {
                    self.rest = value;
                    at
                }
                None => next,
            };
            next = at + 1;
            let Some(place) = given.get_mut(at) else {
                return Err(format!("`{name}` has no argument for `{rest}`"));
            };
            *place = Some(self.value(Some(&wanted[at].ty))?);
            if !self.eats(",") && !self.rest.trim_start().starts_with(')') {
                return Err(format!("`,` or `)` before `{}`", self.rest));
            }
        }
        let args = given.into_iter().zip(wanted).map(|(given, of)| match given {
            Some(given) => Ok(given),
            None => default(of).ok_or_else(|| format!("`{name}` needs its `{}`", of.name)),
        });
        let args = args.collect::<Result<Vec<_>, _>>()?.join(", ");
        let result = match self.rest.strip_prefix('.') {
            Some(rest) => {
                self.rest = rest;
                format!("Some({})", self.word(|c| c.is_ascii_digit()))
            }
            None => "None".to_string(),
        };
        let op = variant(&name);
        Ok(format!("Expr::Call {{ op: Op::{op}, args: &[{args}], result: {result} }}"))
    }
}

/// The value of a word in an argument of a type.
fn literal(word: &str, of: Option<&SchemaType>) -> Option<String> {
    let of = of.map(SchemaType::unwrap_optional);
    Some(match (word, of) {
        ("None", _) => "Expr::None".to_string(),
        ("True", _) => "Expr::Bool(true)".to_string(),
        ("False", _) => "Expr::Bool(false)".to_string(),
        (_, Some(SchemaType::ScalarType)) => {
            let dtype = DType::ALL.iter().find(|d| d.name() == word)?;
            format!("Expr::DType(DType::{dtype:?})")
        }
        ("contiguous_format", Some(SchemaType::MemoryFormat)) => memory(MemoryFormat::Contiguous),
        ("preserve_format", Some(SchemaType::MemoryFormat)) => memory(MemoryFormat::Preserve),
        _ => return None,
    })
}

fn memory(format: MemoryFormat) -> String {
    format!("Expr::MemoryFormat(MemoryFormat::{format:?})")
}

/// What an argument is that is not given.
fn default(of: &Argument) -> Option<String> {
    fn value(of: &DefaultValue) -> Option<String> {
        Some(match of {
            DefaultValue::None => "Expr::None".to_string(),
            DefaultValue::Bool(b) => format!("Expr::Bool({b})"),
            DefaultValue::Int(n) => format!("Expr::Int({n})"),
            DefaultValue::Float(x) => format!("Expr::Float({x:?})"),
            DefaultValue::Str(s) => format!("Expr::Str({s:?})"),
            DefaultValue::List(all) => {
                let all: Vec<String> = all.iter().map(value).collect::<Option<_>>()?;
                format!("Expr::List(&[{}])", all.join(", "))
            }
            DefaultValue::Imaginary(_) => return None,
        })
    }
    match (of.ty.unwrap_optional(), of.default.as_ref()?) {
        (SchemaType::ScalarType, d @ DefaultValue::Int(_)) => {
            Some(format!("Expr::DType(DType::{:?})", d.as_dtype()?))
        }
        (SchemaType::MemoryFormat | SchemaType::Layout, DefaultValue::Int(_)) => None,
        (_, d) => value(d),
    }
}
