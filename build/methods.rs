//! The methods of `Tensor` that the catalogue's entries ask for: `catalog/ops/README.md` describes
//! the line that asks.

use crate::docs::{comment, doc_test};
use crate::op::Declared;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use straightline_catalog::entry::Method;
use straightline_catalog::schema::{Argument, DefaultValue, FunctionSchema, SchemaType};

/// The line `sum_keepdim(dim! as dims, keepdim=True)`, read.
struct Call<'a> {
    name: &'a str,
    /// Whether the form in place is a method as well: `sqrt[_]()`.
    twin: bool,
    /// Whether the method gives the first result alone: `lstsq(B as b).0`.
    first: bool,
    params: Vec<Param<'a>>,
    fixed: Vec<(&'a str, &'a str)>,
}

/// `dim! as dims`: an argument of the operator that the method has too.
struct Param<'a> {
    arg: &'a str,
    /// `!`: the operator can do without it, the method always has it.
    always: bool,
    /// The name in the method.
    name: &'a str,
    number: Option<Number<'a>>,
}

/// Where a number goes that may stand in a tensor's place.
enum Number<'a> {
    /// `or number`: to the same operator, as a tensor.
    Wrapped,
    /// `or add.Scalar`: to the operator that takes it.
    To(&'a str),
}

impl<'a> Call<'a> {
    fn parse(line: &'a str) -> Result<Call<'a>, String> {
        let (line, first) = match line.strip_suffix(".0") {
            Some(line) => (line, true),
            None => (line, false),
        };
        let inside = line.split_once('(').zip(line.strip_suffix(')'));
        let Some(((name, _), _)) = inside else {
            return Err(format!("`{line}` is no method: `NAME(ARGUMENTS)` is"));
        };
        let items = &line[name.len() + 1..line.len() - 1];
        let (name, twin) = match name.strip_suffix("[_]") {
            Some(name) => (name, true),
            None => (name, false),
        };
        is_word(name)?;
        let (mut params, mut fixed) = (Vec::new(), Vec::new());
        for item in split(items) {
            match item.split_once('=') {
                Some((arg, value)) => fixed.push((is_word(arg)?, value)),
                None => params.push(Param::parse(item)?),
            }
        }
        let numbers = params.iter().filter(|p| p.number.is_some()).count();
        if numbers > 1 || (numbers == 1 && first) {
            return Err("one `or`, and no `.0` beside it: write the method by hand".into());
        }
        Ok(Call { name, twin, first, params, fixed })
    }

    fn param(&self, arg: &str) -> Option<&Param<'a>> {
        self.params.iter().find(|p| p.arg == arg)
    }
}

impl<'a> Param<'a> {
    fn parse(item: &'a str) -> Result<Param<'a>, String> {
        let (item, number) = match item.split_once(" or ") {
            Some((item, "number")) => (item, Some(Number::Wrapped)),
            Some((item, operator)) => (item, Some(Number::To(operator))),
            None => (item, None),
        };
        let (arg, name) = match item.split_once(" as ") {
            Some((arg, name)) => (arg, Some(is_word(name)?)),
            None => (item, None),
        };
        let (arg, always) = match arg.strip_suffix('!') {
            Some(arg) => (arg, true),
            None => (arg, false),
        };
        let arg = is_word(arg)?;
        Ok(Param { arg, always, name: name.unwrap_or(arg), number })
    }
}

fn is_word(text: &str) -> Result<&str, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match !text.is_empty() && text.chars().all(fits) {
        true => Ok(text),
        false => Err(format!("`{text}` is no name")),
    }
}

/// The items between commas, of which those in a list are none.
fn split(items: &str) -> Vec<&str> {
    let mut depth = 0;
    let outside = |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => (),
        }
        c == ',' && depth == 0
    };
    let all = items.split(outside).map(str::trim);
    all.filter(|item| !item.is_empty()).collect()
}

/// The operators that entries declare, by name.
pub(crate) type Operators<'a> = BTreeMap<String, &'a Declared<'a>>;

/// The text of all methods, family by family.
pub(crate) struct Methods<'a> {
    operators: Operators<'a>,
    families: BTreeMap<&'static str, String>,
}

impl<'a> Methods<'a> {
    pub(crate) fn new(declared: &'a [Declared<'a>]) -> Methods<'a> {
        let by_name = declared.iter().map(|op| (op.schema.name.to_string(), op));
        Methods { operators: by_name.collect(), families: BTreeMap::new() }
    }

    /// Writes the methods of an entry.
    pub(crate) fn add(&mut self, op: &'a Declared<'a>) -> Result<(), String> {
        for method in op.entry.methods {
            let at = |e: String| format!("the method `{}`: {e}", method.call);
            let call = Call::parse(method.call).map_err(at)?;
            let text = self.method(op, &call, method).map_err(at)?;
            self.families.entry(op.entry.file).or_default().push_str(&text);
        }
        Ok(())
    }

    /// One `impl` for each file of the catalogue.
    pub(crate) fn finish(self) -> String {
        let mut out = String::new();
        for (file, text) in self.families {
            // writing to a String cannot fail
            let _ = write!(out, "/// The operators of `{file}`.\nimpl Tensor {{\n{text}}}\n\n");
        }
        out
    }

    fn operator(&self, name: &str) -> Result<&'a Declared<'a>, String> {
        let found = self.operators.get(&format!("aten::{name}"));
        found.copied().ok_or(format!("no entry declares `{name}`"))
    }

    /// A method, and its twin in place.
    fn method(
        &self,
        op: &Declared<'_>,
        call: &Call<'_>,
        method: &Method,
    ) -> Result<String, String> {
        let twin_of = call.name.strip_suffix('_');
        let mut docs = match (method.doc, method.example, twin_of) {
            (Some(text), Some(example), _) => {
                let mut docs = comment(&see(text, op, call, self)?);
                docs += &comment(&format!("\n```\n{}```", doc_test(example)));
                docs
            }
            (None, None, Some(of)) => comment(&format!("[`Tensor::{of}`] in place.")),
            (_, None, _) => return Err("a method needs an `example`".into()),
            (None, ..) => return Err("a method needs a `doc`".into()),
        };
        for alias in method.doc_aliases {
            let _ = writeln!(docs, "#[doc(alias = {alias:?})]");
        }
        let mut out = docs + &self.function(op, call, call.name, false)?;
        if call.twin {
            let twin = self.operator(&in_place(op.schema.name.base(), &op.schema.name.overload))?;
            out += &comment(&format!("[`Tensor::{}`] in place.", call.name));
            out += &self.function(twin, call, &format!("{}_", call.name), true)?;
        }
        Ok(out)
    }

    fn function(
        &self,
        op: &Declared<'_>,
        call: &Call<'_>,
        name: &str,
        twin: bool,
    ) -> Result<String, String> {
        let args = &op.schema.args;
        let given = |arg: &str| {
            call.param(arg).is_some() || call.fixed.iter().any(|(name, _)| *name == arg)
        };
        let named = call.params.iter().map(|p| p.arg);
        for name in named.chain(call.fixed.iter().map(|f| f.0)) {
            if !args.iter().any(|a| a.name == name) {
                return Err(format!("`{}` has no argument `{name}`", op.schema.name));
            }
        }
        let free = |a: &&Argument| a.ty == SchemaType::Tensor && !given(&a.name);
        let receiver = (args.iter().filter(free).find(|a| a.name == "self"))
            .or_else(|| args.iter().find(free));
        let receiver = receiver.map(|a| a.name.as_str());
        let mut lifetimes = ["'a", "'b", "'c"].into_iter();
        let mut used = Vec::new();
        let mut signature: Vec<String> = receiver.iter().map(|_| "&self".to_string()).collect();
        for p in &call.params {
            let Some(arg) = args.iter().find(|a| a.name == p.arg) else {
                continue;
            };
            let (mut ty, _) = form(arg, p)?;
            if ty.contains("'_") {
                let lifetime = lifetimes.next().ok_or("more lifetimes than three")?;
                ty = ty.replace("'_", lifetime);
                used.push(lifetime);
            }
            signature.push(format!("{}: {ty}", p.name));
        }
        let returns = match (call.first, op.returns.strip_prefix('(')) {
            (false, _) => op.returns.as_str(),
            (true, Some(all)) => all.split(',').next().unwrap_or(all),
            (true, None) => return Err(format!("`{}` has one result", op.schema.name)),
        };
        let several = call.params.iter().find(|p| p.number.is_some());
        let body = match several {
            None if call.first => format!("Ok({}?.0)", apply(op, call, receiver, None)?),
            None => apply(op, call, receiver, None)?,
            Some(p) => self.dispatch(op, call, receiver, p, twin)?,
        };
        let generics = match used.is_empty() {
            true => String::new(),
            false => format!("<{}>", used.join(", ")),
        };
        let inline = if several.is_some() { "#[inline]\n" } else { "" };
        Ok(format!(
            "#[track_caller]\n{inline}pub fn {name}{generics}({}) -> Result<{}> {{\n    {body}\n}}\n\n",
            signature.join(", "),
            returns,
        ))
    }

    /// The call of the operator for a tensor, or of that for a number.
    fn dispatch(
        &self,
        op: &Declared<'_>,
        call: &Call<'_>,
        receiver: Option<&str>,
        p: &Param<'_>,
        twin: bool,
    ) -> Result<String, String> {
        let name = p.name;
        let with = |value: &str| apply(op, call, receiver, Some((p.arg, value)));
        let tensor = with(name)?;
        let others = match p.number {
            Some(Number::To(number)) => {
                let (base, overload) = number.split_once('.').unwrap_or((number, ""));
                let number = match twin {
                    true => self.operator(&in_place(base, overload))?,
                    false => self.operator(number)?,
                };
                let at = op.schema.args.iter().position(|a| a.name == p.arg);
                let scalar = at.and_then(|at| number.schema.args.get(at));
                let Some(scalar) = scalar.filter(|a| a.ty == SchemaType::Scalar) else {
                    return Err(format!("`{}` takes no number there", number.schema.name));
                };
                let of_number = apply(number, call, receiver, Some((&scalar.name, name)))?;
                format!(
                    "Other::Owned({name}) => {},\n        Other::Number({name}) => {of_number},",
                    with(&format!("&{name}"))?,
                )
            }
            _ => format!("{name} => {},", with(&format!("&{name}.into_tensor()?"))?),
        };
        Ok(format!(
            "match {name}.into() {{\n        Other::Tensor({name}) => {tensor},\n        {others}\n    }}"
        ))
    }
}

fn in_place(base: &str, overload: &str) -> String {
    match overload {
        "" => format!("{base}_"),
        _ => format!("{base}_.{overload}"),
    }
}

/// The call of an operator, in which one argument may have another value than the method's own.
fn apply(
    op: &Declared<'_>,
    call: &Call<'_>,
    receiver: Option<&str>,
    instead: Option<(&str, &str)>,
) -> Result<String, String> {
    let values = op.schema.args.iter().map(|arg| {
        let fixed = call.fixed.iter().find(|(name, _)| *name == arg.name);
        match (instead, call.param(&arg.name), fixed, &arg.default) {
            _ if receiver == Some(arg.name.as_str()) => Ok("self".to_string()),
            (Some((name, value)), ..) if name == arg.name => Ok(value.to_string()),
            (_, Some(_), Some(_), _) => Err(format!("`{}` twice", arg.name)),
            (_, Some(p), ..) => form(arg, p).map(|(_, value)| value),
            (_, _, Some((name, text)), _) => constant(&arg.ty, &value(&arg.ty, name, text)?),
            (_, _, _, Some(default)) => constant(&arg.ty, default),
            _ => Err(format!("`{}` has no default: name it", arg.name)),
        }
    });
    let values = values.collect::<Result<Vec<String>, String>>()?;
    Ok(format!("aten::{}({})", op.function, values.join(", ")))
}

/// The type that an argument has in a method, and what the operator is given of it.
fn form(arg: &Argument, p: &Param<'_>) -> Result<(String, String), String> {
    let name = p.name;
    if p.number.is_some() {
        return match arg.ty {
            SchemaType::Tensor => Ok(("impl Into<Other<'_>>".into(), name.to_string())),
            _ => Err(format!("`{}` is no tensor", arg.name)),
        };
    }
    if arg.name == "reduction" && arg.ty == SchemaType::Int {
        return Ok(("Reduction".into(), format!("number({name})")));
    }
    let unwritten = || Err(format!("`{}` has no form in methods yet", arg.ty));
    let optional = match (&arg.ty, p.always) {
        (SchemaType::Optional(_), always) => !always,
        (_, false) => false,
        (ty, true) => return Err(format!("`!` is for what may be missing, not `{ty}`")),
    };
    let (ty, value) = match (arg.ty.unwrap_optional(), optional) {
        (SchemaType::Tensor, true) => ("impl Into<Option<&'_ Tensor>>", format!("{name}.into()")),
        (SchemaType::Int | SchemaType::SymInt, true) => {
            ("impl OptionalInt", format!("{name}.to_option()"))
        }
        (SchemaType::Float, true) => ("impl Into<Option<f64>>", format!("{name}.into()")),
        (_, true) => return Err(format!("the method has to have `{name}`: write `{name}!`")),
        (SchemaType::Tensor, _) => ("impl AsRef<Tensor>", format!("{name}.as_ref()")),
        (SchemaType::Int | SchemaType::SymInt, _) => ("impl Int", format!("{name}.to_i64()")),
        (SchemaType::Float, _) => ("impl Into<f64>", format!("{name}.into()")),
        (SchemaType::Scalar, _) => ("impl Into<Scalar>", format!("{name}.into()")),
        (SchemaType::Bool, _) => ("bool", name.to_string()),
        (SchemaType::Str, _) => ("&str", name.to_string()),
        (SchemaType::ScalarType, _) => ("DType", name.to_string()),
        (SchemaType::Device, _) => ("Device", name.to_string()),
        (SchemaType::List(of, size), _) => match (&**of, size) {
            (SchemaType::Int | SchemaType::SymInt, Some(n)) if *n > 1 => {
                ("impl Ints", format!("&each(&{name}.ints(), {n})"))
            }
            (SchemaType::Int | SchemaType::SymInt, _) => ("impl Ints", format!("&{name}.ints()")),
            (SchemaType::Tensor, _) => ("impl Tensors", format!("&{name}.tensors()")),
            (of, _) if *of.unwrap_optional() == SchemaType::Tensor => {
                ("impl OptionalTensors", format!("&{name}.optional()"))
            }
            _ => return unwritten(),
        },
        _ => return unwritten(),
    };
    let value = match arg.ty {
        SchemaType::Optional(_) if !optional => format!("Some({value})"),
        _ => value,
    };
    Ok((ty.to_string(), value))
}

/// A value as the line has it, which is the grammar of schemas.
fn value(ty: &SchemaType, name: &str, text: &str) -> Result<DefaultValue, String> {
    let schema = FunctionSchema::parse(&format!("f({ty} {name}={text}) -> ()"));
    let schema = schema.map_err(|e| format!("`{name}={text}`: {e}"))?;
    let default = schema.args.into_iter().next().and_then(|a| a.default);
    default.ok_or_else(|| format!("`{name}={text}` has no value"))
}

/// A constant of a type in Rust.
fn constant(ty: &SchemaType, value: &DefaultValue) -> Result<String, String> {
    Ok(match (ty, value) {
        (SchemaType::Optional(_), DefaultValue::None) => "None".into(),
        (SchemaType::Optional(ty), value) => format!("Some({})", constant(ty, value)?),
        (SchemaType::Scalar, DefaultValue::Int(n)) => format!("Scalar::Int({n})"),
        (SchemaType::Scalar, DefaultValue::Float(x)) => format!("Scalar::Float({x:?})"),
        (SchemaType::Int | SchemaType::SymInt, DefaultValue::Int(n)) => n.to_string(),
        (SchemaType::Float, DefaultValue::Int(n)) => format!("{n}.0"),
        (SchemaType::Float, DefaultValue::Float(x)) => format!("{x:?}"),
        (SchemaType::Bool, DefaultValue::Bool(b)) => b.to_string(),
        (SchemaType::Str, DefaultValue::Str(s)) => format!("{s:?}"),
        (SchemaType::MemoryFormat, DefaultValue::Int(0)) => "MemoryFormat::Contiguous".into(),
        (SchemaType::List(of, _), DefaultValue::List(values)) => {
            let values = values.iter().map(|v| constant(of, v));
            format!("&[{}]", values.collect::<Result<Vec<_>, _>>()?.join(", "))
        }
        _ => return Err(format!("{value:?} has no Rust form as `{ty}` yet")),
    })
}

/// The text of a method with the operators it calls, at the end of its first paragraph.
fn see(
    text: &str,
    op: &Declared<'_>,
    call: &Call<'_>,
    methods: &Methods<'_>,
) -> Result<String, String> {
    let mut called = format!("[`aten::{}`]", op.function);
    for p in &call.params {
        if let Some(Number::To(number)) = p.number {
            called += &format!(" and [`aten::{}`]", methods.operator(number)?.function);
        }
    }
    let (first, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let rest = if rest.is_empty() { String::new() } else { format!("\n\n{rest}") };
    Ok(format!("{first} See {called}.{rest}"))
}
