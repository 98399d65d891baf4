//! A value of a loop body in registers.
//!
//! A body is emitted for four lanes or for one. With four, a value of a 32-bit kind is one 128-bit
//! register and one of a 64-bit kind is two; a `bool` is a mask as wide as the values it was
//! computed from. With one lane, a value is a scalar register and a `bool` is `0` or `1` in an
//! `i8`.

use cranelift_codegen::ir::{Type, Value, types};
use straightline_passes::ir::DType;

/// Lanes of a vector emission.
pub(crate) const LANES: i64 = 4;

/// The physical kind of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    F32,
    F64,
    I32,
    I64,
    /// All ones or zeros per 32-bit lane.
    M32,
    /// All ones or zeros per 64-bit lane.
    M64,
    /// A scalar `bool`.
    Bit,
}

impl Kind {
    /// The kind that holds a dtype; masks of a vector are 32 bits wide unless computed otherwise.
    pub(crate) fn of(dtype: DType, vector: bool) -> Kind {
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 => Kind::F32,
            DType::F64 => Kind::F64,
            DType::U8
            | DType::I8
            | DType::I16
            | DType::I32
            | DType::QUInt8
            | DType::QInt8
            | DType::QInt32 => Kind::I32,
            DType::I64 => Kind::I64,
            DType::Bool if vector => Kind::M32,
            DType::Bool => Kind::Bit,
            DType::C64 | DType::C128 => unreachable!("loops hold no complex values"),
        }
    }

    /// Lanes are 64 bits wide.
    pub(crate) fn wide(self) -> bool {
        matches!(self, Kind::F64 | Kind::I64 | Kind::M64)
    }

    /// Floating lanes.
    pub(crate) fn float(self) -> bool {
        matches!(self, Kind::F32 | Kind::F64)
    }

    /// The Cranelift type of one register.
    pub(crate) fn ty(self, vector: bool) -> Type {
        match (self, vector) {
            (Kind::F32, true) => types::F32X4,
            (Kind::F32, false) => types::F32,
            (Kind::F64, true) => types::F64X2,
            (Kind::F64, false) => types::F64,
            (Kind::I32 | Kind::M32, true) => types::I32X4,
            (Kind::I32, false) => types::I32,
            (Kind::I64 | Kind::M64, true) => types::I64X2,
            (Kind::I64, false) => types::I64,
            (Kind::Bit | Kind::M32 | Kind::M64, _) => types::I8,
        }
    }

    /// The scalar type of one lane.
    pub(crate) fn lane(self) -> Kind {
        match self {
            Kind::M32 | Kind::M64 => Kind::Bit,
            k => k,
        }
    }
}

/// A value: its registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes {
    pub(crate) kind: Kind,
    pub(crate) vector: bool,
    /// The second register is the first one repeated where there is only one.
    regs: [Value; 2],
}

impl Lanes {
    pub(crate) fn scalar(kind: Kind, v: Value) -> Lanes {
        Lanes { kind: kind.lane(), vector: false, regs: [v, v] }
    }

    pub(crate) fn new(kind: Kind, vector: bool, regs: &[Value]) -> Lanes {
        debug_assert_eq!(regs.len(), Self::count(kind, vector));
        Lanes { kind, vector, regs: [regs[0], *regs.last().expect("at least one register")] }
    }

    /// How many registers a value of this kind takes.
    pub(crate) fn count(kind: Kind, vector: bool) -> usize {
        if vector && kind.wide() { 2 } else { 1 }
    }

    pub(crate) fn regs(&self) -> &[Value] {
        &self.regs[..Self::count(self.kind, self.vector)]
    }

    /// The only register.
    pub(crate) fn one(&self) -> Value {
        debug_assert_eq!(self.regs().len(), 1);
        self.regs[0]
    }
}
