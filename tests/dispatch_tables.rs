//! The dispatch tables against PyTorch's, cell by cell.
//!
//! `tests/data/dispatch_tables.txt.gz` is PyTorch 2.15's own dump of all its operators; the script
//! beside it made it and describes it.
//!
//! - `pytorchs_registrations_give_pytorchs_tables`: our rules, fed what PyTorch registers, give PyTorch's table in every
//!   cell of every operator. No difference is allowed.
//! - `registered_for_real_they_give_the_same`: the same through `Library` and `dump_table`.
//! - `our_tables_are_pytorchs_except_where_we_say_so`: the tables of *our* operators against PyTorch's. What we
//!   register otherwise than PyTorch must be in the list [`explained`], and every cell that
//!   differs must follow from it. `tests/data/dispatch_differences.txt` has the counts; run with
//!   `UPDATE_DIFFERENCES=1` to write it anew, and read what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
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

const NOTHING: Cell = Cell {
    why: Provenance::Missing,
    falls: false,
};

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
    *K::ALL
        .iter()
        .find(|k| k.name() == name)
        .unwrap_or_else(|| panic!("no key {name}"))
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
    Cell {
        why,
        falls: letter.is_ascii_uppercase(),
    }
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
    let packed = include_bytes!("data/dispatch_tables.txt.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_string(&mut text)
        .unwrap();
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
    PyTorch {
        slots,
        fallbacks,
        operators,
    }
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
        let why = ALL_RULES
            .into_iter()
            .find(|p| p.label() == label)
            .unwrap_or_else(|| panic!("{line}"));
        let slot = slots.iter().position(|s| s.name() == name).unwrap();
        cells[slot] = Cell {
            why,
            falls: rest.starts_with("fallthrough "),
        };
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
            let kernel = if *falls {
                Kernel::fallthrough()
            } else {
                Kernel::boxed(|_, _, _| Ok(()))
            };
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
