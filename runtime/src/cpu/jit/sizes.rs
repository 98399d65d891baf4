//! Numbers of a kernel while its code is generated: known ones, and ones that the code reads from
//! the table of a call.
//!
//! A [`Size`] varies where the schedules that the code is to serve have different numbers. What is
//! computed from it ([`Sizes::of`]) is computed once for each schedule, when its table is made, and
//! is a number of the table too. Where emission decides by a number, it asks ([`Sizes::ask`]), and
//! the code serves only schedules with the same answer. What decides about speed alone takes the
//! number of the first schedule ([`Sizes::hint`]).

use std::cell::RefCell;
use std::collections::HashMap;
use straightline_passes::ir::{DType, Scalar};
use straightline_passes::schedule::loops::{
    self, Buffer, BufferId, BufferKind, LiteralKind, Numbers, Schedule, Step,
};

pub(crate) type Axis = loops::Axis<Size>;
pub(crate) type Index = loops::Index<Size>;
pub(crate) type Inst = loops::Inst<Size, Literal>;
pub(crate) type Kernel = loops::Kernel<Size, Literal>;
pub(crate) type Op = loops::Op<Size, Literal>;
pub(crate) type Stage = loops::Stage<Size, Literal>;

/// A number of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Size {
    /// The same for all schedules that the code serves.
    Fixed(i64),
    /// At this place of the table.
    Varies(u32),
}

impl Size {
    /// The number, if it is always the same.
    pub(crate) fn fixed(self) -> Option<i64> {
        match self {
            Size::Fixed(n) => Some(n),
            Size::Varies(_) => None,
        }
    }

    /// Whether it is always this one.
    pub(crate) fn is(self, n: i64) -> bool {
        self == Size::Fixed(n)
    }
}

/// A constant of a kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Literal {
    pub(crate) kind: LiteralKind,
    pub(crate) number: Size,
}

/// Two numbers to one.
pub(crate) type Rule = fn(i64, i64) -> i64;

/// Where an entry of the table comes from.
#[derive(Debug)]
enum Entry {
    /// The numbers of the schedule at these places, which are equal.
    Given(Vec<usize>),
    Computed(Rule, Size, Size),
    /// The bits of a literal in a dtype.
    Literal(LiteralKind, DType, Size),
}

/// Whether a number at a place of the table gets the answer that the code was made for.
type Check = Box<dyn Fn(i64) -> bool + Send + Sync>;

/// What the numbers of another schedule have to be for the code to serve it, and the table of it.
#[derive(Default)]
pub(crate) struct Table {
    /// Per number of a schedule, its value if it is fixed.
    fixed: Vec<Option<i64>>,
    entries: Vec<Entry>,
    checks: Vec<(u32, Check)>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("numbers", &self.fixed.len())
            .field("entries", &self.entries.len())
            .field("checks", &self.checks.len())
            .finish()
    }
}

/// Why code does not serve a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// The number at this place of the schedule's ([`Schedule::apart`]), which was the same in the
    /// schedules before, or the same as another of its numbers, is not.
    Fixed(usize),
    /// The code was made for numbers of another kind (a multiple of the vector's length, say).
    Kind,
}

impl Table {
    /// The entries for a schedule with these numbers.
    pub(crate) fn of(&self, numbers: &[i64]) -> Result<Vec<i64>, Unfit> {
        if numbers.len() != self.fixed.len() {
            return Err(Unfit::Fixed(numbers.len().min(self.fixed.len())));
        }
        let mut both = self.fixed.iter().zip(numbers);
        if let Some(at) = both.position(|(f, n)| f.is_some_and(|f| f != *n)) {
            return Err(Unfit::Fixed(at));
        }
        let mut out: Vec<i64> = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            out.push(entry.value(numbers, &out).map_err(Unfit::Fixed)?);
        }
        match self.checks.iter().all(|(at, check)| check(out[*at as usize])) {
            true => Ok(out),
            false => Err(Unfit::Kind),
        }
    }

    /// How many numbers the code reads.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl Entry {
    /// The place of a given number that differs from others which it was equal to, as an error.
    fn value(&self, numbers: &[i64], before: &[i64]) -> Result<i64, usize> {
        let get = |s: &Size| match s {
            Size::Fixed(n) => *n,
            Size::Varies(at) => before[*at as usize],
        };
        match self {
            Entry::Given(places) => {
                let first = numbers[places[0]];
                let other = places.iter().find(|p| numbers[**p] != first);
                other.map_or(Ok(first), |p| Err(*p))
            }
            Entry::Computed(rule, a, b) => Ok(rule(get(a), get(b))),
            Entry::Literal(kind, dtype, n) => Ok(bits(kind.join(get(n)), *dtype)),
        }
    }
}

/// A literal as the code loads it.
fn bits(literal: Scalar, dtype: DType) -> i64 {
    let c = literal.cast(dtype);
    match dtype {
        DType::F64 => c.as_f64().to_bits() as i64,
        d if d.is_floating() => i64::from((c.as_f64() as f32).to_bits()),
        DType::Bool => i64::from(c.as_bool()),
        _ => c.as_i64(),
    }
}

/// The numbers of a unit of code under construction.
#[derive(Default)]
pub(crate) struct Sizes {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    table: Table,
    /// Per entry of the table, what it is for the first schedule.
    hints: Vec<i64>,
    literals: HashMap<(Size, DType, bool), u32>,
    computed: HashMap<(usize, Size, Size), u32>,
}

impl Sizes {
    /// The number for the first schedule: for what decides about speed alone.
    pub(crate) fn hint(&self, n: Size) -> i64 {
        match n {
            Size::Fixed(n) => n,
            Size::Varies(at) => self.state.borrow().hints[at as usize],
        }
    }

    /// A question about a number, whose answer binds the code.
    pub(crate) fn ask<T: PartialEq + Copy + Send + Sync + 'static>(
        &self,
        n: Size,
        question: impl Fn(i64) -> T + Send + Sync + 'static,
    ) -> T {
        let answer = question(self.hint(n));
        if let Size::Varies(at) = n {
            let check = Box::new(move |n| question(n) == answer);
            self.state.borrow_mut().table.checks.push((at, check));
        }
        answer
    }

    /// A number that follows from two others.
    pub(crate) fn of(&self, rule: Rule, a: Size, b: Size) -> Size {
        let hint = rule(self.hint(a), self.hint(b));
        if let (Size::Fixed(_), Size::Fixed(_)) = (a, b) {
            return Size::Fixed(hint);
        }
        let key = (rule as usize, a, b);
        let known = self.state.borrow().computed.get(&key).copied();
        known.map(Size::Varies).unwrap_or_else(|| {
            let size = self.add(Entry::Computed(rule, a, b), hint);
            if let Size::Varies(at) = size {
                self.state.borrow_mut().computed.insert(key, at);
            }
            size
        })
    }

    /// The place of a literal's bits in a dtype.
    pub(crate) fn literal(&self, literal: Literal, dtype: DType) -> u32 {
        let float = literal.kind == LiteralKind::Float;
        let key = (literal.number, dtype, float);
        let known = self.state.borrow().literals.get(&key).copied();
        known.unwrap_or_else(|| {
            let entry = Entry::Literal(literal.kind, dtype, literal.number);
            let hint = bits(literal.kind.join(self.hint(literal.number)), dtype);
            let Size::Varies(at) = self.add(entry, hint) else { unreachable!("just added") };
            self.state.borrow_mut().literals.insert(key, at);
            at
        })
    }

    fn add(&self, entry: Entry, hint: i64) -> Size {
        let mut state = self.state.borrow_mut();
        state.table.entries.push(entry);
        state.hints.push(hint);
        Size::Varies(state.hints.len() as u32 - 1)
    }

    pub(crate) fn times(&self, a: Size, b: Size) -> Size {
        match (a, b) {
            (n, Size::Fixed(1)) | (Size::Fixed(1), n) => n,
            _ => self.of(|a, b| a.saturating_mul(b), a, b),
        }
    }

    pub(crate) fn plus(&self, a: Size, b: Size) -> Size {
        match (a, b) {
            (n, Size::Fixed(0)) | (Size::Fixed(0), n) => n,
            _ => self.of(|a, b| a.saturating_add(b), a, b),
        }
    }

    pub(crate) fn minus(&self, a: Size, b: Size) -> Size {
        self.of(|a, b| a.saturating_sub(b), a, b)
    }

    /// The largest multiple of `b` up to `a`.
    pub(crate) fn whole(&self, a: Size, b: Size) -> Size {
        self.of(|a, b| a / b.max(1) * b, a, b)
    }

    /// The conditions for other schedules, and the table of the first one.
    pub(crate) fn into_table(self) -> (Table, Vec<i64>) {
        let state = self.state.into_inner();
        (state.table, state.hints)
    }
}

/// A schedule whose kernels have [`Size`]s.
pub(crate) struct Program<'s> {
    pub(crate) schedule: &'s Schedule,
    /// Per temporary and constant, where it lies: [`BufferKind::place`].
    places: Vec<[Size; 2]>,
    /// Per step, `None` for a runtime kernel.
    pub(crate) kernels: Vec<Option<Kernel>>,
    pub(crate) sizes: Sizes,
}

/// Numbers of the first schedule beside those of others, in the order of [`Schedule::apart`].
struct Compared<'a> {
    others: &'a [&'a [i64]],
    at: usize,
    sizes: &'a Sizes,
    /// By the numbers that it has in all schedules.
    known: HashMap<Vec<i64>, u32>,
}

impl Compared<'_> {
    /// A number of the place of a buffer: where it is the same for all, that is chance, unless the
    /// code is to serve one schedule alone.
    fn place(&mut self, own: i64) -> Size {
        if self.others.is_empty() {
            return self.next(own);
        }
        let at = self.at;
        self.at += 1;
        self.sizes.state.borrow_mut().table.fixed.push(None);
        self.sizes.add(Entry::Given(vec![at]), own)
    }

    fn next(&mut self, own: i64) -> Size {
        let at = self.at;
        self.at += 1;
        let varies = self.others.iter().any(|o| o[at] != own);
        let mut state = self.sizes.state.borrow_mut();
        state.table.fixed.push((!varies).then_some(own));
        if !varies {
            return Size::Fixed(own);
        }
        let all = std::iter::once(own).chain(self.others.iter().map(|o| o[at])).collect();
        if let Some(&entry) = self.known.get(&all) {
            if let Entry::Given(places) = &mut state.table.entries[entry as usize] {
                places.push(at);
            }
            return Size::Varies(entry);
        }
        drop(state);
        let size = self.sizes.add(Entry::Given(vec![at]), own);
        if let Size::Varies(entry) = size {
            self.known.insert(all, entry);
        }
        size
    }
}

impl Numbers<Size, Literal> for Compared<'_> {
    fn number(&mut self, number: i64) -> Size {
        self.next(number)
    }

    fn literal(&mut self, literal: Scalar) -> Literal {
        let (kind, number) = LiteralKind::split(literal);
        Literal { kind, number: self.next(number) }
    }
}

impl<'s> Program<'s> {
    /// The schedule with those numbers from the table that differ from the numbers of some of the
    /// others, which have the same structure.
    pub(crate) fn new(schedule: &'s Schedule, others: &[&[i64]]) -> Program<'s> {
        let sizes = Sizes::default();
        let mut compared = Compared { others, at: 0, sizes: &sizes, known: HashMap::new() };
        let place = |b: &Buffer| match (&b.kind, b.kind.place()) {
            // what is in it may decide about code; every schedule has its own
            (BufferKind::Constant(_), Some([digest, address])) => {
                [compared.next(digest), compared.place(address)]
            }
            (_, Some(place)) => place.map(|n| compared.place(n)),
            (_, None) => [0; 2].map(|n| compared.next(n)),
        };
        let places = schedule.buffers.iter().map(place).collect();
        let kernel = |step: &Step| match step {
            Step::Kernel(k) => Some(k.with_numbers(&mut compared)),
            Step::Extern(_) => None,
        };
        let kernels = schedule.steps.iter().map(kernel).collect();
        Program { schedule, places, kernels, sizes }
    }

    /// The kernels of its steps, to be changed before code is generated.
    pub(crate) fn kernels_mut(&mut self) -> impl Iterator<Item = &mut Kernel> {
        self.kernels.iter_mut().flatten()
    }

    pub(crate) fn kind(&self, id: BufferId) -> &BufferKind {
        &self.schedule.buffer(id).kind
    }

    pub(crate) fn element_size(&self, id: BufferId) -> i64 {
        self.schedule.buffer(id).dtype.size() as i64
    }

    /// Where a temporary or a constant lies: [`BufferKind::place`].
    pub(crate) fn place(&self, id: BufferId) -> [Size; 2] {
        self.places[id.0 as usize]
    }

    pub(crate) fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter().flatten()
    }
}
