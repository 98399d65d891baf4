//! The arguments of each operator that writes nothing, as a type: a struct with a field for each
//! argument of the schema, and how it is read off a call and written as one.

use crate::{Declared, variant};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use straightline_words::schema::{Argument, SchemaType};

/// The structs, in the order of the operators.
pub(crate) fn structs(declared: &BTreeMap<String, Declared<'_>>) -> Result<String, String> {
    let mut out = String::new();
    for (name, d) in declared {
        // graphs have no other calls
        if !d.schema.is_mutable() && !d.schema.args.is_empty() {
            one(&mut out, name, &d.schema.args).map_err(|e| d.placed.at(&e))?;
        }
    }
    Ok(out)
}

fn one(out: &mut String, name: &str, args: &[Argument]) -> Result<(), String> {
    let variant = variant(name);
    let fields: Vec<(String, Field)> = (args.iter())
        .map(|a| Ok((field_name(&a.name), Field::of(&a.ty)?)))
        .collect::<Result<_, String>>()?;
    let has_tensors = fields.iter().any(|(_, f)| f.tensors);
    let parameter = if has_tensors { "<V>" } else { "" };
    // writing to a String cannot fail
    let _ = writeln!(out, "/// The arguments of `{name}`.\npub struct {variant}{parameter} {{");
    for ((field, f), a) in fields.iter().zip(args) {
        if let Some(ty) = &f.ty {
            let _ = writeln!(out, "    /// `{} {}`.\n    pub {field}: {ty},", a.ty, a.name);
        }
    }
    let value = if has_tensors { "mut value" } else { "_" };
    let _ = writeln!(
        out,
        "}}\n\nimpl<V> Arguments<V> for {variant}{parameter} {{\n\
         \x20   const OP: Op = Op::{variant};\n\
         \x20   fn read<W>(args: &[Arg<W>], {value}: impl FnMut(&W) -> V) -> Option<Self> {{\n\
         \x20       (args.len() == {}).then_some(())?;\n\
         \x20       Some({variant} {{",
        fields.len()
    );
    let numbered = fields.iter().enumerate();
    for (i, (field, f)) in numbered.filter(|(_, (_, f))| f.ty.is_some()) {
        let value = if f.tensors { ", &mut value" } else { "" };
        let read = match f.optional {
            false => format!("read::{}(&args[{i}]{value})?", f.word),
            true => format!("read::optional(&args[{i}], |a| read::{}(a{value}))?", f.word),
        };
        let _ = writeln!(out, "            {field}: {read},");
    }
    out.push_str("        })\n    }\n    fn write(self) -> Vec<Arg<V>> {\n        vec![");
    for (field, f) in &fields {
        let _ = match (&f.ty, f.optional) {
            (None, _) => write!(out, "Arg::None, "),
            (Some(_), false) => write!(out, "write::{}(self.{field}), ", f.word),
            (Some(_), true) => write!(out, "self.{field}.map_or(Arg::None, write::{}), ", f.word),
        };
    }
    out.push_str("]\n    }\n}\n\n");
    Ok(())
}

/// What a field is.
struct Field {
    /// Its type; `None` of a generator, which no graph has.
    ty: Option<String>,
    /// The functions that read and write what it holds.
    word: &'static str,
    optional: bool,
    /// Whether it holds tensors.
    tensors: bool,
}

impl Field {
    fn of(ty: &SchemaType) -> Result<Field, String> {
        use SchemaType as T;
        let inner = ty.unwrap_optional();
        let (word, rust) = match inner {
            T::Generator => ("generator", None),
            T::Tensor => ("tensor", Some("V")),
            T::Int | T::SymInt => ("int", Some("i64")),
            T::Float => ("float", Some("f64")),
            T::Bool | T::SymBool => ("bool", Some("bool")),
            T::Scalar | T::Complex => ("scalar", Some("Scalar")),
            T::Str => ("text", Some("String")),
            T::ScalarType => ("dtype", Some("DType")),
            T::Device => ("device", Some("Device")),
            T::Layout => ("layout", Some("Layout")),
            T::MemoryFormat => ("memory_format", Some("MemoryFormat")),
            T::List(of, _) => match &**of {
                T::Tensor => ("tensors", Some("Vec<V>")),
                T::Optional(of) if **of == T::Tensor => {
                    ("optional_tensors", Some("Vec<Option<V>>"))
                }
                T::Int | T::SymInt => ("ints", Some("Vec<i64>")),
                T::Float => ("floats", Some("Vec<f64>")),
                T::Bool => ("bools", Some("Vec<bool>")),
                _ => return Err(format!("no field can be a `{ty}`")),
            },
            _ => return Err(format!("no field can be a `{ty}`")),
        };
        let optional = !std::ptr::eq(inner, ty);
        Ok(Field {
            ty: rust.map(|t| match optional {
                true => format!("Option<{t}>"),
                false => t.to_string(),
            }),
            word,
            optional,
            tensors: word.contains("tensor"),
        })
    }
}

/// The name of an argument as one of Rust's.
fn field_name(name: &str) -> String {
    match name {
        "self" | "unsafe" | "in" | "type" => format!("{name}_"),
        _ => name.to_string(),
    }
}
