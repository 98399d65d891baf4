use std::collections::HashMap;

use super::Shared;
use crate::parse::ast::{Function, Linkage, Place, Statement, Variable};
use crate::program::{Predicate, Register};

/// What a name means within a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    Register(Register),
    Predicate(Predicate),
    Label(usize),
    /// Offset in the frame of the function in local memory.
    Local(u32),
    /// Offset in the parameters of the kernel.
    KernelParam(u64),
    /// Offset in shared memory.
    Shared(u64),
    DynamicShared,
    /// A list of labels: its place in [`Scopes::targets`].
    Targets(usize),
    Prototype,
}

struct Scope<'a> {
    parent: usize,
    names: HashMap<&'a str, Binding>,
    /// `%r<10>`: the prefix, how many, the first one, and whether they are predicates.
    ranges: HashMap<&'a str, (u32, u32, bool)>,
}

/// The names of a function, by block.
pub(super) struct Scopes<'a> {
    scopes: Vec<Scope<'a>>,
    pub(super) registers: u32,
    pub(super) predicates: u32,
    pub(super) labels: usize,
    pub(super) local: u32,
    pub(super) params: Vec<(u32, u32)>,
    pub(super) results: Vec<(u32, u32)>,
    pub(super) targets: Vec<Vec<&'a str>>,
}

impl<'a> Scopes<'a> {
    pub(super) fn declare(
        function: &Function<'a>,
        body: &[Statement<'a>],
        shared: &mut Shared<'a>,
    ) -> Scopes<'a> {
        let mut scopes = Scopes {
            scopes: Vec::new(),
            registers: 0,
            // the first one is the carry flag
            predicates: 1,
            labels: 0,
            local: 0,
            params: Vec::new(),
            results: Vec::new(),
            targets: Vec::new(),
        };
        scopes.open(0);
        for result in &function.results {
            let place = scopes.in_frame(0, result);
            scopes.results.push(place);
        }
        let mut end = 0u64;
        for param in &function.params {
            if function.entry {
                let offset = end.next_multiple_of(param.alignment);
                end = offset + param.bytes;
                scopes.bind(0, param.name, Binding::KernelParam(offset));
            } else {
                let place = scopes.in_frame(0, param);
                scopes.params.push(place);
            }
        }
        let mut current = 0;
        for statement in body {
            match statement {
                Statement::Open => current = scopes.open(current),
                Statement::Close => current = scopes.parent(current),
                Statement::Label(name) => {
                    let label = scopes.labels;
                    scopes.labels += 1;
                    scopes.bind(current, name, Binding::Label(label));
                }
                Statement::Targets(name, targets) => {
                    scopes.bind(current, name, Binding::Targets(scopes.targets.len()));
                    scopes.targets.push(targets.clone());
                }
                Statement::Prototype(name) => scopes.bind(current, name, Binding::Prototype),
                Statement::Registers(names, kind) => {
                    for &(name, count) in names {
                        scopes.register(current, name, count, *kind == ".pred");
                    }
                }
                Statement::Variable(variable) => match variable.place {
                    Place::Shared if variable.linkage == Linkage::Extern || variable.bytes == 0 => {
                        scopes.bind(current, variable.name, Binding::DynamicShared);
                    }
                    Place::Shared => {
                        let offset =
                            shared.place(variable.name, variable.bytes, variable.alignment);
                        scopes.bind(current, variable.name, Binding::Shared(offset));
                    }
                    Place::Local | Place::Param => {
                        scopes.in_frame(current, variable);
                    }
                    Place::Global | Place::Const => {}
                },
                Statement::Instruction(..) => {}
            }
        }
        scopes
    }

    fn open(&mut self, parent: usize) -> usize {
        self.scopes.push(Scope { parent, names: HashMap::new(), ranges: HashMap::new() });
        self.scopes.len() - 1
    }

    pub(super) fn parent(&self, scope: usize) -> usize {
        self.scopes.get(scope).map_or(0, |scope| scope.parent)
    }

    fn bind(&mut self, scope: usize, name: &'a str, binding: Binding) {
        self.scopes[scope].names.insert(name, binding);
    }

    fn in_frame(&mut self, scope: usize, variable: &Variable<'a>) -> (u32, u32) {
        let alignment = variable.alignment.max(1) as u32;
        let offset = self.local.checked_next_multiple_of(alignment).unwrap_or(u32::MAX);
        let bytes = variable.bytes as u32;
        self.local = offset.saturating_add(bytes);
        self.bind(scope, variable.name, Binding::Local(offset));
        (offset, bytes)
    }

    fn register(&mut self, scope: usize, name: &'a str, count: Option<u32>, predicate: bool) {
        let next = if predicate { &mut self.predicates } else { &mut self.registers };
        let first = *next;
        *next = next.saturating_add(count.unwrap_or(1));
        match count {
            Some(count) => {
                self.scopes[scope].ranges.insert(name, (count, first, predicate));
            }
            None if predicate => self.bind(scope, name, Binding::Predicate(first)),
            None => self.bind(scope, name, Binding::Register(first)),
        }
    }

    /// A register that no name stands for.
    pub(super) fn temporary(&mut self) -> Register {
        self.registers += 1;
        self.registers - 1
    }

    pub(super) fn temporary_predicate(&mut self) -> Predicate {
        self.predicates += 1;
        self.predicates - 1
    }

    /// What a name means in a block or around it.
    pub(super) fn find(&self, scope: usize, name: &str) -> Option<Binding> {
        let prefix = name.trim_end_matches(|last: char| last.is_ascii_digit());
        let number: Option<u32> = name[prefix.len()..].parse().ok();
        let mut at = scope;
        loop {
            let scope = self.scopes.get(at)?;
            if let Some(&binding) = scope.names.get(name) {
                return Some(binding);
            }
            if let Some(number) = number
                && let Some(&(count, first, predicate)) = scope.ranges.get(prefix)
                && number < count
            {
                let index = first + number;
                return Some(if predicate {
                    Binding::Predicate(index)
                } else {
                    Binding::Register(index)
                });
            }
            if at == 0 {
                return None;
            }
            at = scope.parent;
        }
    }
}
