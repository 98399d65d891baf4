//! Operator schemas: the text that declares what an operator takes and returns.
//!
//! `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor` is the source of
//! truth for an operator: its name, the types and defaults of its arguments, and which of them it
//! writes or aliases. [`FunctionSchema::parse`] accepts the whole grammar of PyTorch 2.15 and
//! `Display` prints the canonical text, which parses back to the same schema.
//!
//! ```
//! use straightline_words::schema::FunctionSchema;
//!
//! let s: FunctionSchema = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
//!     .parse()
//!     .unwrap();
//! assert_eq!(s.name.to_string(), "aten::add_.Tensor");
//! assert!(s.is_mutable() && s.is_inplace());
//! assert!(s.args[2].kwarg_only);
//! ```

mod compat;
mod lex;
mod parse;
mod predicates;
mod print;
#[cfg(test)]
mod tests;

pub use compat::SchemaMismatch;
pub use parse::{Declaration, SchemaErrorKind, SchemaParseError};

use super::DType;

/// The name of an operator: a qualified name and the overload, as in `aten::add.Tensor`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct OperatorName {
    /// The qualified name, `aten::add`. Without `::` in a schema given to a library block, which
    /// supplies the namespace.
    pub name: String,
    /// The overload name, empty for the default overload.
    pub overload: String,
}

impl OperatorName {
    /// A name from its two halves.
    pub fn new(name: impl Into<String>, overload: impl Into<String>) -> Self {
        OperatorName { name: name.into(), overload: overload.into() }
    }

    /// The namespace, `aten` in `aten::add.Tensor`, where there is one.
    pub fn namespace(&self) -> Option<&str> {
        self.name.find(':').map(|at| &self.name[..at])
    }

    /// The name without namespace and overload: `add` in `aten::add.Tensor`.
    pub fn base(&self) -> &str {
        // a searcher for two characters takes longer than this to make, and names are asked often
        self.name.find(':').map_or(&self.name, |at| self.name[at..].trim_start_matches(':'))
    }
}

/// A type in a schema.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // the names are the grammar's own
pub enum SchemaType {
    Tensor,
    Int,
    SymInt,
    Float,
    Complex,
    Bool,
    SymBool,
    Scalar,
    Str,
    ScalarType,
    Layout,
    MemoryFormat,
    QScheme,
    Device,
    DeviceIndex,
    Generator,
    Storage,
    Stream,
    Quantizer,
    ConstQuantizerPtr,
    None,
    Capsule,
    Any,
    AnyClass,
    AnyEnum,
    /// `T[]`, or `T[N]` where the size is a hint that lets one value stand for `N`.
    List(Box<SchemaType>, Option<u32>),
    /// `T?`.
    Optional(Box<SchemaType>),
    /// `(A, B)`.
    Tuple(Vec<SchemaType>),
    /// `Dict(K, V)`.
    Dict(Box<SchemaType>, Box<SchemaType>),
    /// `Future(T)`.
    Future(Box<SchemaType>),
    /// `RRef(T)`.
    RRef(Box<SchemaType>),
    /// `Await(T)`.
    Await(Box<SchemaType>),
    /// `__torch__.torch.classes.NS.NAME`.
    Class {
        namespace: String,
        name: String,
    },
    /// A type variable such as `t`.
    Var(String),
}

impl SchemaType {
    /// `T?` of this type.
    pub fn optional(self) -> SchemaType {
        SchemaType::Optional(Box::new(self))
    }

    /// `T[]` of this type.
    pub fn list(self) -> SchemaType {
        SchemaType::List(Box::new(self), None)
    }

    /// The type below `?`, or the type itself.
    pub fn unwrap_optional(&self) -> &SchemaType {
        match self {
            SchemaType::Optional(t) => t,
            t => t,
        }
    }
}

/// The alias annotation of an argument or return: `(a!)`, `(a -> *)`, `(a!)[]` ...
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct AliasInfo {
    /// The alias sets on entry; empty where only an element is annotated. `*` is the wildcard.
    pub before: Vec<String>,
    /// The alias sets on return; the same as `before` unless the text has `->`.
    pub after: Vec<String>,
    /// Whether the value is written.
    pub write: bool,
    /// The annotation of the elements: one entry for a list, one per member for a tuple.
    pub elements: Vec<AliasInfo>,
}

impl AliasInfo {
    /// Whether nothing is annotated here or in the elements.
    pub fn is_empty(&self) -> bool {
        !self.write && self.before.is_empty() && self.elements.iter().all(AliasInfo::is_empty)
    }
}

/// The value that an argument has when it is not given.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum DefaultValue {
    None,
    Bool(bool),
    /// An integer; dtypes, layouts and memory formats travel as their numbers.
    Int(i64),
    Float(f64),
    /// The imaginary part of `2j`; the grammar has no other complex literal.
    Imaginary(f64),
    Str(String),
    List(Vec<DefaultValue>),
}

impl DefaultValue {
    /// The dtype that an `Int` default of a `ScalarType` argument stands for.
    pub fn as_dtype(&self) -> Option<DType> {
        match self {
            DefaultValue::Int(n) => DType::from_scalar_type(*n),
            _ => None,
        }
    }
}

/// One argument of a schema.
#[derive(Clone, PartialEq, Debug)]
pub struct Argument {
    /// The name, `self`, `other` ...
    pub name: String,
    /// The type.
    pub ty: SchemaType,
    /// The default value, if the argument may be left out.
    pub default: Option<DefaultValue>,
    /// Whether it comes after `*`.
    pub kwarg_only: bool,
    /// The alias annotation, if any.
    pub alias: Option<AliasInfo>,
}

impl Argument {
    /// Whether the argument, or an element of it, is written.
    pub fn is_write(&self) -> bool {
        self.alias.as_ref().is_some_and(|a| a.write)
    }

    /// An `out` argument: keyword-only and written.
    pub fn is_out(&self) -> bool {
        self.kwarg_only && self.is_write()
    }
}

/// One return of a schema.
#[derive(Clone, PartialEq, Debug)]
pub struct Return {
    /// The name, as in `-> (Tensor values, Tensor indices)`.
    pub name: Option<String>,
    /// The type.
    pub ty: SchemaType,
    /// The alias annotation, if any.
    pub alias: Option<AliasInfo>,
}

/// The schema of an operator.
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionSchema {
    /// The operator's name.
    pub name: OperatorName,
    /// Arguments in order.
    pub args: Vec<Argument>,
    /// Returns in order; `-> ()` has none, `-> None` has one of type `None`.
    pub returns: Vec<Return>,
    /// Whether the argument list ends in `...`.
    pub vararg: bool,
    /// Whether the return list ends in `...`.
    pub varret: bool,
}

impl FunctionSchema {
    /// The position of the argument with this name.
    pub fn arg_index(&self, name: &str) -> Option<usize> {
        self.args.iter().position(|a| a.name == name)
    }
}
