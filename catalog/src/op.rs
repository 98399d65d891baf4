//! The operators: their names, and what is known of each.

use crate::effects::Effects;
use crate::rules::{Autocast, AutocastList, Kind, MathBit, Modes, Tolerance};
use crate::schema::FunctionSchema;
use crate::{Arg, TensorMeta};
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{LazyLock, OnceLock, PoisonError, RwLock};

/// What is known of an operator.
#[derive(Debug)]
pub struct OpInfo {
    /// The name with namespace and overload, `aten::add.Tensor`.
    pub name: &'static str,
    schema: Schema,
    /// The tags, PyTorch's and ours.
    pub tags: &'static [&'static str],
    /// What its entry says, or its schema.
    pub facts: Facts,
}

/// Where the schema of an operator is.
#[derive(Debug)]
enum Schema {
    /// The text of the operator with this number, which is parsed when somebody asks.
    Text(&'static str, usize),
    /// Of one from outside, as it was defined.
    Parsed(&'static FunctionSchema),
}

/// The schemas of the catalogue that somebody has asked for.
static PARSED: [OnceLock<FunctionSchema>; Op::COUNT] = [const { OnceLock::new() }; Op::COUNT];

/// What an entry says of its operator, or what follows from its schema.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// What a call does besides giving results, divisions by zero apart.
    pub effects: Effects,
    /// What it is.
    pub kind: Kind,
    /// The operands whose product the operator is, of which one takes `2 m n k` FLOPs: two matrices
    /// (or batches of them), or queries, keys and values. None of other operators.
    pub flops: &'static [&'static str],
    /// Whether some form of the operator draws from a generator: `aten::normal_` as
    /// `aten::normal.float_Tensor`.
    pub draws: bool,
    /// Whether it fails where an integer is divided by zero.
    pub divides: bool,
    /// Whether a result shares memory with an operand that is not written: its schema says so, or
    /// its entry does, of an operator that promises nothing since nobody uses the operand again.
    pub view: bool,
    /// Whether an argument is written.
    pub mutable: bool,
    /// How near to PyTorch's result its own has to be.
    pub tolerance: Tolerance,
}

include!(concat!(env!("OUT_DIR"), "/ops.rs"));

/// What modes do at the operator of this name; nothing where no list has it.
pub fn modes_of(name: &str) -> Modes {
    let found = MODES.binary_search_by(|(n, _)| (*n).cmp(name));
    found.map_or_else(|_| Modes::default(), |i| MODES[i].1)
}

/// The operators of PyTorch's lists, here or not.
pub fn listed_in_modes() -> impl Iterator<Item = (&'static str, Modes)> {
    MODES.iter().copied()
}

/// An operator that is not in the catalogue. Copies compare equal that [`Op::define`] gave for the
/// same schema and tags.
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

/// The operators from outside: all that there ever were, which stay, and those that are defined
/// now.
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
    /// What is known of it stays for the life of the process, once for each schema.
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

    /// Takes an operator from outside back: [`Op::named`] does not find it any more.
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

    /// What is known beside name and schema.
    pub fn facts(self) -> &'static Facts {
        &self.info().facts
    }

    /// Whether the operator is one of the catalogue.
    pub fn is_known(self) -> bool {
        !matches!(self, Op::Outside(_))
    }

    /// What a call does besides giving results. A division fails only among integers, and not by a
    /// number other than 0.
    pub fn effects<V>(self, args: &[Arg<V>], results: &[TensorMeta]) -> Effects {
        let facts = self.facts();
        let integers = || results.iter().all(|m| m.dtype.is_integral());
        let by_number = |a: &Arg<V>| a.as_scalar().is_some_and(|s| s.as_f64() != 0.0);
        if facts.divides && integers() && !args.get(1).is_some_and(by_number) {
            return Effects::MAY_FAIL;
        }
        facts.effects
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
    let tags: Vec<&'static str> = (tags.iter())
        .map(|t| &*Box::leak(t.clone().into_boxed_str()))
        .collect();
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
