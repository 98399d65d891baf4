//! A kernel in the form that is executed: instructions with indices for names.

use crate::number::narrow::Rounding;
use crate::number::{Map1, Map2, Map3, Scalar, Test};
use crate::parse::ast::Span;

/// Where shared memory stands among generic addresses.
pub(crate) const SHARED_WINDOW: u64 = 1 << 49;
/// Local memory.
pub(crate) const LOCAL_WINDOW: u64 = 1 << 50;
/// The parameters of the kernel.
pub(crate) const PARAM_WINDOW: u64 = 1 << 51;
/// Addresses of functions.
pub(crate) const FUNCTION_WINDOW: u64 = 1 << 52;
/// Bytes of each.
pub(crate) const WINDOW: u64 = 1 << 32;

/// A register of the frame, or a constant of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source(pub(crate) u32);

impl Source {
    pub(crate) const CONSTANT: u32 = 1 << 31;
}

pub(crate) type Register = u32;
pub(crate) type Predicate = u32;

/// The predicate that holds the carry flag of each frame.
pub(crate) const CARRY: Predicate = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Constant {
    Value(u64),
    /// A variable of the module.
    Variable(usize, i64),
    /// An offset behind the static shared memory.
    DynamicShared(i64),
    Function(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    Always,
    If(Predicate),
    Unless(Predicate),
}

#[derive(Debug)]
pub(crate) struct Inst {
    pub(crate) guard: Guard,
    pub(crate) code: Code,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Join {
    And,
    Or,
    Xor,
}

/// A predicate that is read, and whether it is negated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) predicate: Predicate,
    pub(crate) negated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    Shared,
    Local,
    /// The parameters of the kernel.
    Param,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) space: Space,
    pub(crate) base: Option<Source>,
    pub(crate) offset: i64,
    /// The offset counts from the frame of the function in local memory.
    pub(crate) in_frame: bool,
}

/// A load or store of one or several elements.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) address: Address,
    /// Bytes of an element.
    pub(crate) bytes: u32,
    pub(crate) signed: bool,
    /// Ordered with other threads: no race.
    pub(crate) strong: bool,
    /// Registers of a load; none where the element is dropped.
    pub(crate) registers: Box<[Option<Register>]>,
    /// Values of a store.
    pub(crate) values: Box<[Source]>,
}

#[derive(Debug)]
pub(crate) struct Atomic {
    pub(crate) address: Address,
    pub(crate) bytes: u32,
    /// The new value from the old one and the operand; for compare-and-swap whether they are equal.
    pub(crate) combine: Scalar,
    /// The new value of compare-and-swap.
    pub(crate) swap: Option<Source>,
    pub(crate) into: Option<Register>,
    pub(crate) value: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    Thread(usize),
    Threads(usize),
    Block(usize),
    Blocks(usize),
    Lane,
    Warp,
    Warps,
    /// Lanes below, or above, this one; with itself or not.
    Below(bool),
    Above(bool),
    SelfMask,
    Clock(u32),
    Time,
    DynamicShared,
    TotalShared,
    Fixed(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CarryKind {
    Add,
    Subtract,
    MultiplyLow,
    MultiplyHigh,
}

#[derive(Debug)]
pub(crate) struct Carry {
    pub(crate) kind: CarryKind,
    pub(crate) bits: u32,
    pub(crate) signed: bool,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) into: Register,
    pub(crate) sources: [Source; 3],
}

/// A conversion without a function of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub(crate) from: Numeric,
    pub(crate) to: Numeric,
    pub(crate) rounding: Rounding,
    /// To an integral value.
    pub(crate) integral: bool,
    pub(crate) flush: bool,
    /// To [0, 1], or to the bounds of an integer.
    pub(crate) saturate: bool,
    /// What is too large becomes the largest finite number.
    pub(crate) finite: bool,
    pub(crate) relu: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numeric {
    Unsigned(u32),
    Signed(u32),
    Half,
    Brain,
    Tensor,
    E4M3,
    E5M2,
    Single,
    Double,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uniform,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReduceMode {
    Add,
    Minimum,
    Maximum,
    And,
    Or,
    Xor,
}

#[derive(Debug)]
pub(crate) enum Collective {
    Shuffle {
        mode: ShuffleMode,
        into: Register,
        valid: Option<Predicate>,
        value: Source,
        lane: Source,
        clamp: Source,
    },
    VotePredicate {
        mode: VoteMode,
        into: Predicate,
        condition: Condition,
    },
    Ballot {
        into: Register,
        condition: Condition,
    },
    MatchAny {
        into: Register,
        bits: u32,
        value: Source,
    },
    MatchAll {
        into: Register,
        all: Option<Predicate>,
        bits: u32,
        value: Source,
    },
    Reduce {
        mode: ReduceMode,
        signed: bool,
        into: Register,
        value: Source,
    },
    Elect {
        into: Register,
        leader: Option<Predicate>,
    },
    Barrier,
    LoadMatrix {
        into: Box<[Register]>,
        address: Address,
        transposed: bool,
    },
    StoreMatrix {
        from: Box<[Source]>,
        address: Address,
        transposed: bool,
    },
    Multiply(Box<Multiply>),
}

/// `mma.sync`.
#[derive(Debug)]
pub(crate) struct Multiply {
    pub(crate) shape: [usize; 3],
    pub(crate) left: Numeric,
    pub(crate) right: Numeric,
    /// Type of the accumulator, and of the result.
    pub(crate) sum: Numeric,
    pub(crate) saturate: bool,
    pub(crate) into: Box<[Register]>,
    pub(crate) a: Box<[Source]>,
    pub(crate) b: Box<[Source]>,
    pub(crate) c: Box<[Source]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    /// Waits for the others.
    Sync,
    /// Goes on.
    Arrive,
    /// Waits, and combines a predicate.
    Reduce(BarrierReduction),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarrierReduction {
    Count(Register),
    And(Predicate),
    Or(Predicate),
}

#[derive(Debug)]
pub(crate) struct Barrier {
    pub(crate) kind: BarrierKind,
    pub(crate) id: Source,
    /// None: all threads of the block.
    pub(crate) threads: Option<Source>,
    pub(crate) condition: Option<Condition>,
}

/// What is done to a barrier object in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MbarrierKind {
    Init,
    Inval,
    /// Gives the phase.
    Arrive,
    /// Whether a phase is over: that of a state, or the last one of a parity.
    Test {
        parity: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Mbarrier {
    pub(crate) kind: MbarrierKind,
    pub(crate) address: Address,
    /// A count, a state or a parity.
    pub(crate) value: Option<Source>,
    pub(crate) state: Option<Register>,
    pub(crate) done: Option<Predicate>,
}

#[derive(Debug)]
pub(crate) struct AsyncCopy {
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) bytes: u32,
    /// How many bytes are read; the rest is zero.
    pub(crate) valid: Option<Source>,
    /// Nothing is read: all is zero.
    pub(crate) ignore: Option<Condition>,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) target: Target,
    /// Offsets in the frame of the caller.
    pub(crate) arguments: Box<[u32]>,
    pub(crate) results: Box<[u32]>,
    pub(crate) caller: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    Function(usize),
    Address(Source),
}

#[derive(Debug)]
pub(crate) enum Code {
    Nothing,
    Map1 {
        map: Map1,
        into: Register,
        a: Source,
    },
    Map2 {
        map: Map2,
        into: Register,
        a: Source,
        b: Source,
    },
    Map3 {
        map: Map3,
        into: Register,
        a: Source,
        b: Source,
        c: Source,
    },
    Select {
        into: Register,
        a: Source,
        b: Source,
        condition: Condition,
    },
    /// Sets one predicate, or that and its opposite, joined with another one.
    Test {
        test: Test,
        into: Option<Predicate>,
        opposite: Option<Predicate>,
        a: Source,
        b: Source,
        join: Option<(Join, Condition)>,
    },
    /// Two comparisons of halves.
    TestHalves {
        low: Test,
        high: Test,
        into: [Option<Predicate>; 2],
        a: Source,
        b: Source,
        join: Option<(Join, Condition)>,
    },
    /// A comparison whose result is a value.
    Set {
        test: Test,
        into: Register,
        a: Source,
        b: Source,
        join: Option<(Join, Condition)>,
        one: u64,
    },
    Logic {
        join: Join,
        into: Predicate,
        a: Condition,
        b: Condition,
    },
    /// Copies a predicate.
    Assign {
        into: Predicate,
        a: Condition,
    },
    /// A predicate from a constant.
    Constant {
        into: Predicate,
        value: bool,
    },
    Carry(Box<Carry>),
    Pack {
        into: Register,
        parts: Box<[Source]>,
        bits: u32,
    },
    Unpack {
        into: Box<[Option<Register>]>,
        a: Source,
        bits: u32,
    },
    Special {
        into: Register,
        special: Special,
    },
    LocalAddress {
        into: Register,
        offset: u32,
    },
    Convert {
        into: Register,
        a: Source,
        conversion: Box<Conversion>,
    },
    /// Two conversions into one register.
    ConvertPair {
        into: Register,
        high: Source,
        low: Source,
        conversion: Box<Conversion>,
    },
    /// Both parts of a register converted.
    ConvertParts {
        into: Register,
        a: Source,
        conversion: Box<Conversion>,
    },
    IsSpace {
        into: Predicate,
        a: Source,
        window: Option<u64>,
    },
    Load(Box<Access>),
    Store(Box<Access>),
    Atomic(Box<Atomic>),
    Branch {
        target: u32,
    },
    BranchIndexed {
        targets: Box<[u32]>,
        index: Source,
    },
    Call(Box<Call>),
    Return,
    Exit,
    Trap,
    /// Offsets in the frame of message, file, line and function.
    AssertFail([u32; 4]),
    Active {
        into: Register,
    },
    Collective {
        collective: Box<Collective>,
        mask: Source,
    },
    Barrier(Box<Barrier>),
    Mbarrier(Box<Mbarrier>),
    AsyncCopy(Box<AsyncCopy>),
    AsyncCommit,
    /// Waits until so many of the newest groups are left.
    AsyncWait {
        left: u32,
    },
    Unsupported(Box<str>),
}

/// What a call needs to know of a function.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frame {
    pub(crate) start: u32,
    pub(crate) registers: u32,
    pub(crate) predicates: u32,
    pub(crate) local: u32,
    /// Offset in the frame, and bytes.
    pub(crate) params: Vec<(u32, u32)>,
    pub(crate) results: Vec<(u32, u32)>,
}

/// A kernel with all functions that it calls.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) code: Vec<Inst>,
    pub(crate) spans: Vec<Span>,
    pub(crate) constants: Vec<Constant>,
    /// The first one is the kernel.
    pub(crate) functions: Vec<Frame>,
    pub(crate) static_shared: u32,
    /// Bytes in which races are looked for: no access to shared memory is narrower.
    pub(crate) granule: u32,
    /// Virtual registers that are declared.
    pub(crate) registers: u32,
}

impl Numeric {
    pub(crate) fn bits(self) -> u32 {
        match self {
            Numeric::Unsigned(bits) | Numeric::Signed(bits) => bits,
            Numeric::E4M3 | Numeric::E5M2 => 8,
            Numeric::Half | Numeric::Brain => 16,
            Numeric::Tensor | Numeric::Single => 32,
            Numeric::Double => 64,
        }
    }
}
