//! How formulas read what a node has saved.

use straightline_catalog::schema::SchemaType;

/// What a name is in Rust, as far as formulas care.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Type {
    /// `&Tensor`, or what a call gives
    Tensor,
    Number,
    Other,
}

/// The method that reads a saved argument of a type.
pub(crate) fn getter(ty: &SchemaType) -> Option<(&'static str, Type)> {
    let list = |t: &SchemaType| match t {
        SchemaType::Int | SchemaType::SymInt => Some(("ints", "optional_ints")),
        SchemaType::Float => Some(("floats", "optional_floats")),
        SchemaType::Bool => Some(("bools", "optional_bools")),
        SchemaType::Scalar => Some(("scalars", "optional_scalars")),
        _ => None,
    };
    let one = |t: &SchemaType| match t {
        SchemaType::Tensor => Some(("tensor", "optional_tensor", Type::Tensor)),
        SchemaType::Int | SchemaType::SymInt => Some(("int", "optional_int", Type::Number)),
        SchemaType::Float => Some(("float", "optional_float", Type::Number)),
        SchemaType::Scalar => Some(("scalar", "optional_scalar", Type::Number)),
        SchemaType::Bool => Some(("bool", "optional_bool", Type::Other)),
        SchemaType::Str => Some(("string", "optional_string", Type::Other)),
        SchemaType::ScalarType => Some(("dtype", "optional_dtype", Type::Other)),
        SchemaType::MemoryFormat => Some(("memory_format", "optional_memory_format", Type::Other)),
        _ => None,
    };
    match ty {
        SchemaType::List(t, _) if **t == SchemaType::Tensor => Some(("tensors", Type::Other)),
        SchemaType::List(t, _) if *t.unwrap_optional() == SchemaType::Tensor => {
            Some(("optional_tensors", Type::Other))
        }
        SchemaType::List(t, _) => list(t).map(|(plain, _)| (plain, Type::Other)),
        SchemaType::Optional(t) => match &**t {
            SchemaType::List(t, _) => list(t).map(|(_, optional)| (optional, Type::Other)),
            t => one(t).map(|(_, optional, _)| (optional, Type::Other)),
        },
        t => one(t).map(|(plain, _, ty)| (plain, ty)),
    }
}
