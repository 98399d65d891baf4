//! The operators: their names, and what is known about each.

use crate::effects::Effects;
use crate::rules::{Autocast, AutocastList, Kind, MathBit, Modes, Tolerance};
use crate::schema::FunctionSchema;
use crate::{Arg, TensorMeta};
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{LazyLock, OnceLock, PoisonError, RwLock};

/// What is known about an operator.
#[derive(Debug)]
pub struct OpInfo {
    /// The name with namespace and overload, `aten::add.Tensor`.
    pub name: &'static str,
    schema: Schema,
    /// The tags, PyTorch's and ours.
    pub tags: &'static [&'static str],
    /// What follows from its entry, or from its schema if it has no entry.
    pub facts: Facts,
}

/// Where an operator's schema comes from.
#[derive(Debug)]
enum Schema {
    /// The text of the catalogue, parsed on first use, and the operator's number.
    Text(&'static str, usize),
    /// The schema that an operator from outside was defined with.
    Parsed(&'static FunctionSchema),
}

/// The catalogue's schemas that have been parsed so far.
static PARSED: [OnceLock<FunctionSchema>; Op::COUNT] = [const { OnceLock::new() }; Op::COUNT];

/// The properties of an operator, from its entry or derived from its schema.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Side effects of a call, other than failing on a division by zero.
    pub effects: Effects,
    /// The kind of operator, by which fusion and rewriting choose.
    pub kind: Kind,
    /// The operands that are multiplied, at `2 m n k` FLOPs for each product: two matrices (or
    /// batches of matrices), or queries, keys and values. Empty for other operators.
    pub flops: &'static [&'static str],
    /// Whether any form of the operator draws random numbers: true for `aten::normal_` because
    /// `aten::normal.float_Tensor` does.
    pub draws: bool,
    /// Whether it fails on integer division by zero.
    pub divides: bool,
    /// Whether a result shares memory with an operand that is not written. The schema says so, or
    /// the entry does for operators such as `_unsafe_view`, whose schemas leave it out.
    pub view: bool,
    /// Whether a call writes to an argument.
    pub mutable: bool,
    /// How close to PyTorch's result ours has to be.
    pub tolerance: Tolerance,
}

include!(concat!(env!("OUT_DIR"), "/ops.rs"));

/// How modes treat the operator of this name; the default if PyTorch's lists do not mention it.
pub fn modes_of(name: &str) -> Modes {
    let found = MODES.binary_search_by(|(n, _)| (*n).cmp(name));
    found.map_or_else(|_| Modes::default(), |i| MODES[i].1)
}

/// The operators in PyTorch's lists, whether or not the catalogue has them.
pub fn listed_in_modes() -> impl Iterator<Item = (&'static str, Modes)> {
    MODES.iter().copied()
}

/// An operator that is not in the catalogue. Two of them are equal if [`Op::define`] was called
/// with the same schema and tags.
#[derive(Clone, Copy)]
pub struct Outside(&'static OpInfo);

impl Outside {
    fn info(self) -> &'static OpInfo {
        self.0
    }

    fn key(self) -> (&'static str, usize) {
        (self.0.name, std::ptr::from_ref(self.0).addr())
    }
}

impl PartialEq for Outside {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Outside {}

impl PartialOrd for Outside {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Outside {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Hash for Outside {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// The operators from outside: every one that was ever defined, and those defined now.
#[derive(Default)]
struct Defined {
    ever: HashMap<(String, Vec<String>), Op>,
    now: HashMap<&'static str, Op>,
}

static DEFINED: LazyLock<RwLock<Defined>> = LazyLock::new(RwLock::default);

impl Op {
    /// The operator of this name, `aten::add.Tensor`: one of the catalogue, or one from outside
    /// that is defined.
    ///
    /// ```
    /// use straightline_catalog::Op;
    /// assert_eq!(Op::named("aten::add.Tensor"), Some(Op::add_Tensor));
    /// assert_eq!(Op::named("aten::no_such_operator"), None);
    /// ```
    pub fn named(name: &str) -> Option<Op> {
        if let Ok(i) = INFOS.binary_search_by(|info| info.name.cmp(name)) {
            return Some(OPS[i]);
        }
        let defined = DEFINED.read().unwrap_or_else(PoisonError::into_inner);
        defined.now.get(name).copied()
    }

    /// The operators of the catalogue, by name.
    pub fn catalogue() -> impl ExactSizeIterator<Item = Op> {
        OPS.iter().copied()
    }

    /// The operator with this schema: the catalogue's if it has exactly the same, or else one from
    /// outside, which [`Op::named`] finds until [`Op::forget`].
    ///
    /// Its properties are kept for the life of the process, once per schema.
    ///
    /// ```
    /// use straightline_catalog::Op;
    /// let schema = "docs::twice(Tensor x) -> Tensor".parse().unwrap();
    /// let twice = Op::define(&schema, &["pure"]);
    /// assert_eq!(Op::named("docs::twice"), Some(twice));
    /// assert_eq!(twice.schema(), &schema);
    /// ```
    pub fn define(schema: &FunctionSchema, tags: &[impl AsRef<str>]) -> Op {
        let name = schema.name.to_string();
        if let Ok(i) = INFOS.binary_search_by(|info| info.name.cmp(&name))
            && INFOS[i].schema() == schema
        {
            return OPS[i];
        }
        let tags: Vec<String> = tags.iter().map(|t| t.as_ref().to_string()).collect();
        let mut defined = DEFINED.write().unwrap_or_else(PoisonError::into_inner);
        let known = defined.ever.entry((schema.to_string(), tags));
        let op = match known {
            std::collections::hash_map::Entry::Occupied(e) => *e.get(),
            std::collections::hash_map::Entry::Vacant(e) => {
                let op = outside(schema, &e.key().1);
                *e.insert(op)
            }
        };
        defined.now.insert(op.name(), op);
        op
    }

    /// Undefines an operator from outside: [`Op::named`] no longer finds it.
    pub fn forget(self) {
        let mut defined = DEFINED.write().unwrap_or_else(PoisonError::into_inner);
        if defined.now.get(self.name()) == Some(&self) {
            defined.now.remove(self.name());
        }
    }

    /// The operators from outside that are defined now.
    pub fn from_outside() -> Vec<Op> {
        let defined = DEFINED.read().unwrap_or_else(PoisonError::into_inner);
        defined.now.values().copied().collect()
    }

    /// The name with namespace and overload.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The name without the namespace: `add.Tensor`.
    pub fn unqualified(self) -> &'static str {
        let name = self.name();
        name.split_once("::").map_or(name, |(_, rest)| rest)
    }

    /// The name without namespace and overload: `add` of `aten::add.Tensor`.
    pub fn base(self) -> &'static str {
        self.schema().name.base()
    }

    /// The schema.
    pub fn schema(self) -> &'static FunctionSchema {
        self.info().schema()
    }

    /// What is known about it apart from its name and schema.
    pub fn facts(self) -> &'static Facts {
        &self.info().facts
    }

    /// Whether the catalogue has the operator.
    pub fn is_known(self) -> bool {
        !matches!(self, Op::Outside(_))
    }

    /// The side effects of a call. A division can fail only if its result is an integer and the
    /// divisor is not known to be nonzero. A call that is given graphs has their effects.
    pub fn effects<V>(self, args: &[Arg<V>], results: &[TensorMeta]) -> Effects {
        let facts = self.facts();
        let integers = || results.iter().all(|m| m.dtype.is_integral());
        let by_number = |a: &Arg<V>| a.as_scalar().is_some_and(|s| s.as_f64() != 0.0);
        if facts.divides && integers() && !args.get(1).is_some_and(by_number) {
            return Effects::MAY_FAIL;
        }
        let graphs = args.iter().filter_map(|a| match a {
            Arg::Graph(g) => Some(g.effects()),
            _ => None,
        });
        graphs.fold(facts.effects, |all, of_graph| all | of_graph)
    }
}

/// The name.
impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl OpInfo {
    /// The schema.
    pub fn schema(&self) -> &'static FunctionSchema {
        match self.schema {
            Schema::Parsed(schema) => schema,
            Schema::Text(text, at) => PARSED[at]
                .get_or_init(|| FunctionSchema::parse(text).expect("the build script has read it")),
        }
    }
}

/// The facts of an operator from outside, from its schema and tags.
fn outside(schema: &FunctionSchema, tags: &[String]) -> Op {
    let named = tags.iter().filter_map(|tag| match tag.as_str() {
        "nondeterministic_seeded" => Some(Effects::RANDOM),
        tag => Effects::from_name(tag),
    });
    // if nothing is said about an operator, its results may depend on something unknown
    let unsaid = match schema.returns.is_empty() {
        true => Effects::EFFECT,
        false => Effects::READS,
    };
    let effects = match named.reduce(|a, b| a | b) {
        Some(tagged) => tagged,
        None if schema.is_mutable() => Effects::WRITES,
        None => unsaid,
    };
    let name: &'static str = Box::leak(schema.name.to_string().into_boxed_str());
    let tags: Vec<&'static str> =
        (tags.iter()).map(|t| &*Box::leak(t.clone().into_boxed_str())).collect();
    let info = Box::leak(Box::new(OpInfo {
        name,
        schema: Schema::Parsed(Box::leak(Box::new(schema.clone()))),
        tags: Box::leak(tags.into_boxed_slice()),
        facts: Facts {
            effects,
            kind: Kind::Other,
            flops: &[],
            draws: effects.has(Effects::RANDOM),
            divides: false,
            view: schema.is_view(),
            mutable: schema.is_mutable(),
            tolerance: Tolerance::default(),
        },
    }));
    Op::Outside(Outside(info))
}
