//! The canonical text of a schema, as PyTorch prints it.

use super::{AliasInfo, DefaultValue, FunctionSchema, OperatorName, Return, SchemaType};
use std::fmt::{self, Write};

impl fmt::Display for OperatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.overload.is_empty() {
            write!(f, ".{}", self.overload)?;
        }
        Ok(())
    }
}

impl fmt::Display for SchemaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_type(f, self, None)
    }
}

impl fmt::Display for AliasInfo {
    /// The annotation of this level: `(a!)`, `(a -> *)`, or nothing where no set is named.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.before.is_empty() {
            return Ok(());
        }
        // a fresh set has no name that the grammar could read back
        if self.before[0].starts_with('$') {
            return f.write_char('!');
        }
        write!(f, "({}", self.before.join("|"))?;
        if self.write {
            f.write_char('!')?;
        }
        if self.after != self.before {
            write!(f, " -> {}", self.after.join("|"))?;
        }
        f.write_char(')')
    }
}

fn write_type(
    f: &mut fmt::Formatter<'_>,
    ty: &SchemaType,
    alias: Option<&AliasInfo>,
) -> fmt::Result {
    let simple = |f: &mut fmt::Formatter<'_>, name: &str| {
        f.write_str(name)?;
        alias.map_or(Ok(()), |a| write!(f, "{a}"))
    };
    let element = |i: usize| alias.and_then(|a| a.elements.get(i));
    match ty {
        SchemaType::Optional(t) => {
            write_type(f, t, alias)?;
            f.write_char('?')
        }
        SchemaType::List(t, size) => {
            write_type(f, t, element(0))?;
            match size {
                Some(n) => write!(f, "[{n}]")?,
                None => f.write_str("[]")?,
            }
            alias.map_or(Ok(()), |a| write!(f, "{a}"))
        }
        SchemaType::Tuple(types) => {
            f.write_char('(')?;
            for (i, t) in types.iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                write_type(f, t, element(i))?;
            }
            f.write_char(')')?;
            alias.map_or(Ok(()), |a| write!(f, "{a}"))
        }
        SchemaType::Dict(k, v) => simple(f, &format!("Dict({k}, {v})")),
        SchemaType::Future(t) => simple(f, &format!("Future({t})")),
        SchemaType::RRef(t) => simple(f, &format!("RRef({t})")),
        SchemaType::Await(t) => simple(f, &format!("Await({t})")),
        SchemaType::Class { namespace, name } => {
            simple(f, &format!("__torch__.torch.classes.{namespace}.{name}"))
        }
        SchemaType::Var(name) => simple(f, name),
        SchemaType::Tensor => simple(f, "Tensor"),
        // these two print as the integer they travel as
        SchemaType::Int | SchemaType::DeviceIndex | SchemaType::ConstQuantizerPtr => {
            simple(f, "int")
        }
        SchemaType::SymInt => simple(f, "SymInt"),
        SchemaType::Float => simple(f, "float"),
        SchemaType::Complex => simple(f, "complex"),
        SchemaType::Bool => simple(f, "bool"),
        SchemaType::SymBool => simple(f, "SymBool"),
        SchemaType::Scalar => simple(f, "Scalar"),
        SchemaType::Str => simple(f, "str"),
        SchemaType::ScalarType => simple(f, "ScalarType"),
        SchemaType::Layout => simple(f, "Layout"),
        SchemaType::MemoryFormat => simple(f, "MemoryFormat"),
        SchemaType::QScheme => simple(f, "QScheme"),
        SchemaType::Device => simple(f, "Device"),
        SchemaType::Generator => simple(f, "Generator"),
        SchemaType::Storage => simple(f, "Storage"),
        SchemaType::Stream => simple(f, "Stream"),
        SchemaType::Quantizer => simple(f, "Quantizer"),
        SchemaType::None => simple(f, "NoneType"),
        SchemaType::Capsule => simple(f, "Capsule"),
        SchemaType::Any => simple(f, "Any"),
        SchemaType::AnyClass => simple(f, "AnyClassType"),
        SchemaType::AnyEnum => simple(f, "AnyEnumType"),
    }
}

/// A float with 17 significant digits, a bare trailing dot for integral values.
fn write_float(f: &mut fmt::Formatter<'_>, x: f64) -> fmt::Result {
    // `{:.16e}` is one digit before the point and sixteen after it
    let text = format!("{x:.16e}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return f.write_str(&text); // inf and nan, which the parser refuses
    };
    let exponent: i32 = exponent.parse().map_err(|_| fmt::Error)?;
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(m) => ("-", m),
        None => ("", mantissa),
    };
    let digits = mantissa.replace('.', "");
    let digits = digits.trim_end_matches('0');
    f.write_str(sign)?;
    if digits.is_empty() {
        return f.write_str("0.");
    }
    if !(-4..17).contains(&exponent) {
        f.write_str(&digits[..1])?;
        if digits.len() > 1 {
            write!(f, ".{}", &digits[1..])?;
        }
        let mark = if exponent < 0 { '-' } else { '+' };
        return write!(f, "e{mark}{:02}", exponent.abs());
    }
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return write!(f, "0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        write!(f, "{digits}{}.", "0".repeat(whole - digits.len()))
    } else {
        write!(f, "{}.{}", &digits[..whole], &digits[whole..])
    }
}

fn write_quoted(f: &mut fmt::Formatter<'_>, s: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in s.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\'' => f.write_str("\\'")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            '\r' => f.write_str("\\r")?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

impl fmt::Display for DefaultValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DefaultValue::None => f.write_str("None"),
            DefaultValue::Bool(true) => f.write_str("True"),
            DefaultValue::Bool(false) => f.write_str("False"),
            DefaultValue::Int(n) => write!(f, "{n}"),
            DefaultValue::Float(x) => write_float(f, *x),
            DefaultValue::Imaginary(x) => {
                write_float(f, *x)?;
                f.write_char('j')
            }
            DefaultValue::Str(s) => write_quoted(f, s),
            DefaultValue::List(items) => {
                f.write_char('[')?;
                for (i, v) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{v}")?;
                }
                f.write_char(']')
            }
        }
    }
}

fn write_default(f: &mut fmt::Formatter<'_>, ty: &SchemaType, value: &DefaultValue) -> fmt::Result {
    match (ty.unwrap_optional(), value) {
        (SchemaType::Device, DefaultValue::Str(s)) => f.write_str(s),
        (SchemaType::List(t, Some(n)), DefaultValue::List(items))
            if **t == SchemaType::Int
                && items.len() == *n as usize
                && items.windows(2).all(|w| w[0] == w[1])
                && items.len() > 1 =>
        {
            write!(f, "{}", items[0])
        }
        _ => write!(f, "{value}"),
    }
}

impl fmt::Display for Return {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_type(f, &self.ty, self.alias.as_ref())?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        Ok(())
    }
}

fn starts_with_tuple(ty: &SchemaType) -> bool {
    match ty {
        SchemaType::Tuple(_) => true,
        SchemaType::List(t, _) | SchemaType::Optional(t) => starts_with_tuple(t),
        _ => false,
    }
}

impl fmt::Display for FunctionSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        let mut first = true;
        let mut separate = |f: &mut fmt::Formatter<'_>| {
            if first {
                first = false;
                Ok(())
            } else {
                f.write_str(", ")
            }
        };
        let mut starred = false;
        for arg in &self.args {
            if arg.kwarg_only && !starred {
                starred = true;
                separate(f)?;
                f.write_char('*')?;
            }
            separate(f)?;
            write_type(f, &arg.ty, arg.alias.as_ref())?;
            write!(f, " {}", arg.name)?;
            if let Some(value) = &arg.default {
                f.write_char('=')?;
                write_default(f, &arg.ty, value)?;
            }
        }
        if self.vararg {
            separate(f)?;
            f.write_str("...")?;
        }
        f.write_str(") -> ")?;
        match &self.returns[..] {
            [] if self.varret => f.write_str("..."),
            // a tuple on its own would read as a list of returns
            [one] if !self.varret && !starts_with_tuple(&one.ty) => write!(f, "{one}"),
            many => {
                f.write_char('(')?;
                for (i, r) in many.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{r}")?;
                }
                if self.varret {
                    f.write_str(", ...")?;
                }
                f.write_char(')')
            }
        }
    }
}
