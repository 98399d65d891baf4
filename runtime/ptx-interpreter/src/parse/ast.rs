/// Where something stands in the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) line: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    /// Any integer of 64 bits or fewer, two's complement.
    Integer(u64),
    Single(u32),
    Double(u64),
    Decimal(f64),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand<'a> {
    Number(Number),
    /// A register, a symbol, a label or a special register, and what is added to it.
    Name(&'a str, i64),
    Not(&'a str),
    /// `a|b`: two destinations.
    Pair(&'a str, &'a str),
    Vector(Vec<Operand<'a>>),
    /// `[name+offset]`; without a name an absolute address.
    Address(Option<&'a str>, i64),
    /// `(a, b)`: the parameters of a call.
    List(Vec<Operand<'a>>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Instruction<'a> {
    /// The predicate of the guard, and whether it is negated.
    pub(crate) guard: Option<(&'a str, bool)>,
    pub(crate) mnemonic: &'a str,
    pub(crate) operands: Vec<Operand<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linkage {
    Internal,
    Visible,
    Extern,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Global,
    Const,
    Shared,
    Local,
    Param,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Variable<'a> {
    pub(crate) name: &'a str,
    pub(crate) place: Place,
    pub(crate) linkage: Linkage,
    pub(crate) bytes: u64,
    /// Bytes of one element.
    pub(crate) element: u64,
    pub(crate) alignment: u64,
    pub(crate) initial: Vec<Initial<'a>>,
}

/// One element of an initializer, at its place in the variable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Initial<'a> {
    Bytes(u64, u64),
    Symbol(u64, &'a str, i64),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Statement<'a> {
    Open,
    Close,
    Label(&'a str),
    /// Names that are declared, and the bits of their type (1 for predicates).
    Registers(Vec<(&'a str, Option<u32>)>, &'a str),
    Variable(Variable<'a>),
    Targets(&'a str, Vec<&'a str>),
    /// Results and parameters of what is called through a pointer.
    Prototype(&'a str),
    Instruction(Instruction<'a>, Span),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) entry: bool,
    pub(crate) results: Vec<Variable<'a>>,
    pub(crate) params: Vec<Variable<'a>>,
    pub(crate) max_threads: Option<[u32; 3]>,
    pub(crate) required_threads: bool,
    /// None for a declaration.
    pub(crate) body: Option<Vec<Statement<'a>>>,
}

#[derive(Debug, Default)]
pub(crate) struct File<'a> {
    pub(crate) variables: Vec<Variable<'a>>,
    pub(crate) functions: Vec<Function<'a>>,
}
