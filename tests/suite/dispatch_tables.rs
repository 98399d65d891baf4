//! The dispatch tables against PyTorch's, cell by cell.
//!
//! `tests/data/dispatch_tables.txt.gz` is PyTorch 2.15's own dump of all its operators; the script
//! beside it made it and describes it.
//!
//! - `pytorchs_registrations_give_pytorchs_tables`: our rules, fed what PyTorch registers, give
//!   PyTorch's table in every cell of every operator. No difference is allowed.
//! - `registered_for_real_they_give_the_same`: the same through `Library` and `dump_table`.
//! - `our_tables_are_pytorchs_except_where_we_say_so`: the tables of *our* operators against
//!   PyTorch's. What we register otherwise than PyTorch must be in the list [`explained`], and
//!   every cell that differs must follow from it. `tests/data/dispatch_differences.txt` has the
//!   counts; run with `UPDATE_DIFFERENCES=1` to write it anew, and read what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use straightline::dispatch::schema::FunctionSchema;
use straightline::dispatch::{
    DispatchKey as K, DispatchKeySet, Kernel, Library, OperatorHandle, Provenance, all_operators,
    dump_table, rule_for,
};

/// What a table's cell holds: the rule, and whether the kernel is a fallthrough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cell {
    why: Provenance,
    falls: bool,
}

const NOTHING: Cell = Cell { why: Provenance::Missing, falls: false };

/// Keys with a kernel; `true` where it is a fallthrough.
type Registered = BTreeMap<K, bool>;

struct Operator {
    schema: String,
    registered: Registered,
    cells: Vec<Cell>,
}

struct PyTorch {
    slots: Vec<K>,
    fallbacks: Registered,
    operators: BTreeMap<String, Operator>,
}

fn key(name: &str) -> K {
    *K::ALL.iter().find(|k| k.name() == name).unwrap_or_else(|| panic!("no key {name}"))
}

fn keys(names: &str) -> Registered {
    names
        .split_whitespace()
        .map(|n| match n.strip_suffix('!') {
            Some(n) => (key(n), true),
            None => (key(n), false),
        })
        .collect()
}

fn cell(letter: char) -> Cell {
    let why = match letter.to_ascii_lowercase() {
        'k' => Provenance::Kernel,
        'd' => Provenance::DefaultBackend,
        'n' => Provenance::Nested,
        'x' => Provenance::AmbiguousAutogradOther,
        'm' => Provenance::Math,
        'a' => Provenance::Autograd,
        'b' => Provenance::Batched,
        'f' => Provenance::Fallback,
        '.' => Provenance::Missing,
        other => panic!("no label {other}"),
    };
    Cell { why, falls: letter.is_ascii_uppercase() }
}

fn unpacked(text: &str) -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut count = String::new();
    for c in text.chars() {
        if c.is_ascii_digit() {
            count.push(c);
            continue;
        }
        let n = count.parse().unwrap_or(1);
        cells.extend(std::iter::repeat_n(cell(c), n));
        count.clear();
    }
    cells
}

fn pytorch() -> PyTorch {
    let packed = include_bytes!("../data/dispatch_tables.txt.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    let mut lines = text.lines();
    let mut heading = |word: &str| {
        let line = lines.next().unwrap();
        line.strip_prefix(word).unwrap().trim().to_string()
    };
    assert!(heading("torch").starts_with("2.15.0"));
    let slots: Vec<K> = heading("keys").split(' ').map(key).collect();
    let fallbacks = keys(&heading("fallbacks"));
    let operators = lines
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [name, schema, registered, cells] = fields[..] else {
                panic!("{line}");
            };
            let op = Operator {
                schema: schema.to_string(),
                registered: keys(registered),
                cells: unpacked(cells),
            };
            assert_eq!(op.cells.len(), slots.len(), "{name}");
            (name.to_string(), op)
        })
        .collect();
    PyTorch { slots, fallbacks, operators }
}

/// The table that our rules make of registrations and fallbacks.
fn computed(slots: &[K], registered: &Registered, fallbacks: &Registered) -> Vec<Cell> {
    slots
        .iter()
        .map(|slot| {
            let fallback = fallbacks.get(slot).copied();
            let (from, why) = rule_for(*slot, |k| registered.contains_key(&k), fallback.is_some());
            let falls = match why {
                Provenance::Fallback => fallback == Some(true),
                _ => from.is_some_and(|k| registered[&k]),
            };
            Cell { why, falls }
        })
        .collect()
}

/// The table of an operator as the dispatcher prints it.
fn printed(slots: &[K], op: OperatorHandle) -> Vec<Cell> {
    let text = dump_table(op);
    let mut cells = vec![NOTHING; slots.len()];
    for line in text.lines() {
        let (name, rest) = line.split_once(": ").unwrap();
        let label = rest.rsplit_once('[').unwrap().1.trim_end_matches(']');
        let why =
            ALL_RULES.into_iter().find(|p| p.label() == label).unwrap_or_else(|| panic!("{line}"));
        let slot = slots.iter().position(|s| s.name() == name).unwrap();
        cells[slot] = Cell { why, falls: rest.starts_with("fallthrough ") };
    }
    cells
}

const ALL_RULES: [Provenance; 8] = [
    Provenance::Kernel,
    Provenance::DefaultBackend,
    Provenance::Nested,
    Provenance::AmbiguousAutogradOther,
    Provenance::Math,
    Provenance::Autograd,
    Provenance::Batched,
    Provenance::Fallback,
];

#[test]
fn the_slots_are_in_pytorchs_order() {
    let pytorch = pytorch();
    assert_eq!(pytorch.slots.len(), 137);
    for (i, slot) in pytorch.slots.iter().enumerate() {
        assert_eq!(DispatchKeySet::from(*slot).table_index(), i, "{slot}");
    }
}

#[test]
fn pytorchs_registrations_give_pytorchs_tables() {
    let pytorch = pytorch();
    assert_eq!(pytorch.operators.len(), 3624);
    let mut cells = 0;
    for (name, op) in &pytorch.operators {
        let ours = computed(&pytorch.slots, &op.registered, &pytorch.fallbacks);
        for ((slot, ours), theirs) in pytorch.slots.iter().zip(ours).zip(&op.cells) {
            assert_eq!(ours, *theirs, "{name} at {slot}");
            cells += 1;
        }
    }
    assert_eq!(cells, 3624 * 137);
}

#[test]
fn registered_for_real_they_give_the_same() {
    let pytorch = pytorch();
    for (name, op) in &pytorch.operators {
        let short = name.split_once("::").unwrap().1;
        let mut library = Library::new("pytorch_tables").unwrap();
        let handle = library.def(&format!("{short}() -> ()")).unwrap();
        for (key, falls) in &op.registered {
            let kernel =
                if *falls { Kernel::fallthrough() } else { Kernel::boxed(|_, _, _| Ok(())) };
            library.impl_at(short, *key, kernel).unwrap();
        }
        let ours = printed(&pytorch.slots, handle);
        for ((slot, ours), theirs) in pytorch.slots.iter().zip(ours).zip(&op.cells) {
            // which keys have a fallback is the other test's matter
            let fallback = |c: &Cell| matches!(c.why, Provenance::Fallback | Provenance::Missing);
            if !fallback(&ours) || !fallback(theirs) {
                assert_eq!(ours, *theirs, "{name} at {slot}");
            }
        }
    }
}

/// The keys at which an operator has kernels, read from the dispatcher's own dump.
fn registered(op: OperatorHandle) -> Registered {
    let text = straightline::dispatch::dump(op);
    let mut out = Registered::new();
    for line in text.lines().filter(|l| l.ends_with(" ]")) {
        let (name, rest) = line.split_once(": ").unwrap();
        let Some(name) = name.split_whitespace().next() else {
            continue;
        };
        if !line.contains("(inactive)") {
            let flags = rest.rsplit_once('[').unwrap().1;
            out.insert(key(name.trim_end_matches("[alias]")), flags.contains("fallthrough"));
        }
    }
    out
}

/// The default fallbacks that are registered in this process, read off an operator without kernels.
fn our_fallbacks(slots: &[K]) -> Registered {
    let mut library = Library::new("fallback_probe").unwrap();
    let op = library.def("f(Tensor x) -> Tensor").unwrap();
    let cells = printed(slots, op);
    slots.iter().zip(cells).filter(|(_, c)| *c != NOTHING).map(|(k, c)| (*k, c.falls)).collect()
}

fn is_functorch(k: K) -> bool {
    matches!(
        k,
        K::FuncTorchBatched
            | K::BatchedNestedTensor
            | K::FuncTorchVmapMode
            | K::Batched
            | K::VmapMode
            | K::FuncTorchGradWrapper
            | K::FuncTorchDynamicLayerFrontMode
            | K::FuncTorchDynamicLayerBackMode
            | K::FuncTorchBatchedDecomposition
    )
}

fn is_backend_of_others(k: K) -> bool {
    let nested = k.functionality() == K::NestedTensor;
    (k.is_backend() || nested) && !matches!(k, K::CPU | K::Meta)
}

/// Why a key of an operator has a kernel in PyTorch and not here, or the other way round; `None` if
/// there is no reason that we know.
///
/// A registration is `Some(falls)`, `falls` telling whether it is a fallthrough.
fn explained(k: K, theirs: Option<bool>, ours: Option<bool>) -> Option<&'static str> {
    match (theirs, ours) {
        (Some(_), None) if is_backend_of_others(k) => Some("backend without kernels here"),
        (None, Some(_)) if is_backend_of_others(k) => Some("backend with more kernels here"),
        (Some(_), None) if is_functorch(k) => Some("functorch: vmap and grad transforms"),
        (Some(false), None) if k == K::PythonTLSSnapshot => {
            Some("Python: a kernel of PyTorch's Python side")
        }
        (Some(false), None) if k == K::Tracer => Some("Tracer: one fallback here"),
        (Some(false), None) if k == K::Functionalize => Some("Functionalize: one fallback here"),
        (None, Some(false)) if k == K::Functionalize => {
            Some("Functionalize: a composite that capture takes apart")
        }
        (_, Some(true)) | (Some(false), None) if matches!(k, K::Autograd | K::ADInplaceOrView) => {
            Some("autograd: what the kernels do here, and operators that are passed by")
        }
        (None, Some(false)) if k == K::Autograd => {
            Some("autograd: an `out` of a composite is refused here")
        }
        (None, Some(false)) if k == K::Meta => Some("Meta: the function of the CPU serves it here"),
        (Some(false), None) if k == K::Meta => Some("Meta: a composite serves it here"),
        (Some(false), None) if k == K::CompositeImplicitAutograd => {
            Some("a composite in PyTorch for backends without a kernel")
        }
        (Some(false), None) if k == K::CompositeExplicitAutogradNonFunctional => {
            Some("structured in PyTorch, and here made of its functional variant")
        }
        (Some(_), None)
            if matches!(k, K::AutogradNestedTensor | K::CompositeImplicitAutogradNestedTensor) =>
        {
            Some("nested tensors: fewer operators")
        }
        _ => None,
    }
}

/// The part of the table that a slot belongs to, for the counts.
fn part(slot: K) -> &'static str {
    match slot.functionality() {
        K::Undefined => "Undefined",
        K::Dense if matches!(slot, K::CPU | K::Meta) => "CPU and Meta",
        K::Dense => "dense tensors of other backends",
        K::Quantized | K::Sparse | K::SparseCsr | K::NestedTensor => {
            "quantized, sparse and nested tensors"
        }
        K::FPGA | K::Vulkan | K::Metal | K::CustomRNGKeyId | K::MkldnnCPU => "standalone backends",
        K::AutogradFunctionality | K::AutogradOther => "autograd",
        K::AutogradNestedTensor => "autograd of nested tensors",
        K::Conjugate | K::Negative | K::ZeroTensor => "Conjugate, Negative, ZeroTensor",
        K::ADInplaceOrView => "ADInplaceOrView",
        K::BackendSelect => "BackendSelect",
        K::Functionalize => "Functionalize",
        K::Tracer => "Tracer",
        k if is_functorch(k) => "functorch",
        k if k.name().starts_with("Autocast") => "Autocast",
        _ => "Python and other modes",
    }
}

/// The arguments that an operator reads, by type (without the aliasing that in-place forms add) and
/// name.
fn read(schema: &FunctionSchema) -> Vec<(String, &str)> {
    let read = schema.args.iter().filter(|a| !a.is_out());
    read.map(|a| (a.ty.to_string().replace("SymInt", "int"), a.name.as_str())).collect()
}

/// The forms of an operator that write are made of it by one rule, so that none is missing: an
/// operator of PyTorch's that writes into `out` or into `self`, and does not exist here, has no
/// functional form here either.
#[test]
fn each_functional_operator_has_the_forms_that_write() {
    let is_option = |name: &str| matches!(name, "dtype" | "layout" | "device" | "pin_memory");
    let plain = |of: &[(String, &str)]| -> Vec<String> {
        let kept = of.iter().filter(|(_, name)| !is_option(name));
        kept.map(|(ty, name)| format!("{ty} {name}")).collect()
    };
    let ours: BTreeMap<String, FunctionSchema> = all_operators()
        .into_iter()
        .filter(|op| op.name().namespace() == Some("aten"))
        .filter_map(|op| Some((op.name().to_string(), op.schema()?.clone())))
        .collect();
    let base = |name: &str| name.split('.').next().unwrap_or("").to_string();
    let mut missing = Vec::new();
    let mut forms = 0;
    for (name, op) in &pytorch().operators {
        if !name.starts_with("aten::") || name.starts_with("aten::_foreach") {
            continue;
        }
        let Ok(schema) = FunctionSchema::parse(&op.schema) else {
            continue;
        };
        let out = schema.args.iter().any(|a| a.is_out());
        let name_of_functional = match out {
            true => base(name),
            false if schema.is_inplace() => base(name).trim_end_matches('_').to_string(),
            false => continue,
        };
        let of = ours.iter().find(|(other, functional)| {
            base(other) == name_of_functional
                && !functional.is_mutable()
                && (read(functional) == read(&schema)
                    || out && plain(&read(functional)) == plain(&read(&schema)))
        });
        if let Some((of, _)) = of {
            forms += 1;
            if !ours.contains_key(name) {
                missing.push(format!("{name} of {of}"));
            }
        }
    }
    assert!(forms > 800, "only {forms} forms");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[derive(Default)]
struct Count {
    cells: usize,
    operators: BTreeSet<String>,
}

impl Count {
    fn add(&mut self, cells: usize, operator: &str) {
        self.cells += cells;
        self.operators.insert(operator.to_string());
    }
}

#[test]
fn our_tables_are_pytorchs_except_where_we_say_so() {
    let pytorch = pytorch();
    let slots = &pytorch.slots;
    let fallbacks = our_fallbacks(slots);
    let ours: Vec<OperatorHandle> = all_operators()
        .into_iter()
        .filter(|op| op.name().namespace() == Some("aten") && op.schema().is_some())
        .collect();
    assert!(ours.len() > 300, "only {} operators", ours.len());

    let mut unexplained = Vec::new();
    let mut reasons: BTreeMap<&str, Count> = BTreeMap::new();
    let mut differing: BTreeMap<&str, Count> = BTreeMap::new();
    let (mut equal, mut same_rule) = (0, 0);
    for op in &ours {
        let name = op.name().to_string();
        let Some(theirs) = pytorch.operators.get(&name) else {
            unexplained.push(format!("{name}: PyTorch has no such operator"));
            continue;
        };
        let schema = op.schema().unwrap().to_string();
        if schema != theirs.schema {
            unexplained.push(format!("{name}: schema\n  {schema}\n  {}", theirs.schema));
        }
        let mine = registered(*op);
        let keys: BTreeSet<K> = mine.keys().chain(theirs.registered.keys()).copied().collect();
        for k in keys {
            let (t, o) = (theirs.registered.get(&k).copied(), mine.get(&k).copied());
            if t == o {
                continue;
            }
            match explained(k, t, o) {
                Some(reason) => reasons.entry(reason).or_default().add(1, &name),
                None => unexplained.push(format!("{name} at {k}: PyTorch {t:?}, here {o:?}")),
            }
        }
        // The table follows from the registrations. So every cell that differs has one of the
        // reasons above, or is a matter of the default fallbacks.
        let cells = printed(slots, *op);
        assert_eq!(cells, computed(slots, &mine, &fallbacks), "{name}");
        for ((slot, o), t) in slots.iter().zip(cells).zip(&theirs.cells) {
            same_rule += usize::from(o.why == t.why);
            if o == *t {
                equal += 1;
                continue;
            }
            let by_fallback =
                |c: &Cell| matches!(c.why, Provenance::Fallback | Provenance::Missing);
            let count = if by_fallback(&o) && by_fallback(t) {
                differing.entry("default fallbacks").or_default()
            } else {
                differing.entry(part(*slot)).or_default()
            };
            count.add(1, &name);
        }
    }
    assert!(
        unexplained.is_empty(),
        "{} differences without a reason:\n{}",
        unexplained.len(),
        unexplained.join("\n")
    );

    let all = ours.len() * slots.len();
    let mut text = format!(
        "{} operators, {all} cells, {equal} equal to PyTorch's, {same_rule} filled by the same rule\n\nregistrations that differ, and why\n",
        ours.len()
    );
    let table = |text: &mut String, rows: &BTreeMap<&str, Count>| {
        for (what, count) in rows {
            *text += &format!("{:6} {:4} {what}\n", count.cells, count.operators.len());
        }
    };
    table(&mut text, &reasons);
    text += "\ncells that differ for these reasons, and operators, by part of the table\n";
    table(&mut text, &differing);
    text += "\nkeys with a default fallback in PyTorch only, or here only, or of another kind\n";
    for slot in slots {
        let (t, o) = (pytorch.fallbacks.get(slot), fallbacks.get(slot));
        let kind = |f: Option<&bool>| match f {
            None => "none",
            Some(true) => "fallthrough",
            Some(false) => "kernel",
        };
        if t != o {
            text += &format!("  {slot}: PyTorch {}, here {}\n", kind(t), kind(o));
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/dispatch_differences.txt");
    if std::env::var_os("UPDATE_DIFFERENCES").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        text, kept,
        "the differences from PyTorch changed: look, then run with UPDATE_DIFFERENCES=1"
    );
}

#[test]
fn schemas_print_as_pytorch_prints_them() {
    let pytorch = pytorch();
    let (mut stable, mut wrong) = (0, Vec::new());
    for (name, op) in &pytorch.operators {
        match FunctionSchema::parse(&op.schema) {
            Ok(schema) => {
                let printed = schema.to_string();
                if printed != op.schema {
                    wrong.push(format!("{printed}\n{}", op.schema));
                }
                let again = FunctionSchema::parse(&printed).unwrap();
                assert_eq!(again.to_string(), printed);
                stable += 1;
            }
            Err(e) => wrong.push(format!("{name}: {e}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(stable, 3624);
}
