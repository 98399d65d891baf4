use crate::parse::ast::Operand;

/// The type of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Bits(u32),
    Unsigned(u32),
    Signed(u32),
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
    U16x2,
    S16x2,
    E4m3,
    E5m2,
    E4m3x2,
    E5m2x2,
    Predicate,
}

impl Type {
    pub(crate) fn parse(text: &str) -> Option<Type> {
        Some(match text {
            "pred" => Type::Predicate,
            "f16" => Type::F16,
            "f16x2" => Type::F16x2,
            "bf16" => Type::Bf16,
            "bf16x2" => Type::Bf16x2,
            "tf32" => Type::Tf32,
            "f32" => Type::F32,
            "f64" => Type::F64,
            "u16x2" => Type::U16x2,
            "s16x2" => Type::S16x2,
            "e4m3" => Type::E4m3,
            "e5m2" => Type::E5m2,
            "e4m3x2" => Type::E4m3x2,
            "e5m2x2" => Type::E5m2x2,
            "b1" => Type::Bits(1),
            "b8" => Type::Bits(8),
            "b16" => Type::Bits(16),
            "b32" => Type::Bits(32),
            "b64" => Type::Bits(64),
            "b128" => Type::Bits(128),
            "u4" => Type::Unsigned(4),
            "u8" => Type::Unsigned(8),
            "u16" => Type::Unsigned(16),
            "u32" => Type::Unsigned(32),
            "u64" => Type::Unsigned(64),
            "s4" => Type::Signed(4),
            "s8" => Type::Signed(8),
            "s16" => Type::Signed(16),
            "s32" => Type::Signed(32),
            "s64" => Type::Signed(64),
            _ => return None,
        })
    }

    pub(crate) fn bits(self) -> u32 {
        match self {
            Type::Predicate => 1,
            Type::E4m3 | Type::E5m2 => 8,
            Type::F16 | Type::Bf16 | Type::E4m3x2 | Type::E5m2x2 => 16,
            Type::F16x2 | Type::Bf16x2 | Type::Tf32 | Type::F32 | Type::U16x2 | Type::S16x2 => 32,
            Type::F64 => 64,
            Type::Bits(bits) | Type::Unsigned(bits) | Type::Signed(bits) => bits,
        }
    }
}

/// Why an instruction is not decoded.
#[derive(Debug)]
pub(crate) enum Reject {
    /// It is left for execution, which faults there.
    Unsupported,
    /// Something else was expected: the text is wrong.
    Wrong { expected: String, found: String },
}

impl Reject {
    pub(crate) fn wrong(expected: &str, found: &str) -> Reject {
        Reject::Wrong { expected: expected.to_owned(), found: found.to_owned() }
    }
}

/// An instruction with its mnemonic taken apart.
#[derive(Debug)]
pub(crate) struct Op<'a, 'b> {
    pub(crate) name: &'a str,
    /// What follows the name and is no type.
    pub(crate) modifiers: Vec<&'a str>,
    pub(crate) types: Vec<Type>,
    pub(crate) operands: &'b [Operand<'a>],
}

impl<'a, 'b> Op<'a, 'b> {
    pub(crate) fn new(mnemonic: &'a str, operands: &'b [Operand<'a>]) -> Op<'a, 'b> {
        let mut parts = mnemonic.split('.');
        let name = parts.next().unwrap_or("");
        let (mut modifiers, mut types) = (Vec::new(), Vec::new());
        for part in parts {
            match Type::parse(part) {
                Some(kind) => types.push(kind),
                None => modifiers.push(part),
            }
        }
        Op { name, modifiers, types, operands }
    }

    pub(crate) fn has(&self, modifier: &str) -> bool {
        self.modifiers.contains(&modifier)
    }

    /// Refuses modifiers that are not known.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Reject> {
        let unknown = self.modifiers.iter().any(|modifier| !known.contains(modifier));
        if unknown { Err(Reject::Unsupported) } else { Ok(()) }
    }

    pub(crate) fn kind(&self) -> Result<Type, Reject> {
        self.types.first().copied().ok_or(Reject::Unsupported)
    }

    pub(crate) fn operand(&self, index: usize) -> Result<&'b Operand<'a>, Reject> {
        self.operands.get(index).ok_or_else(|| Reject::wrong("another operand", ";"))
    }

    pub(crate) fn count(&self) -> usize {
        self.operands.len()
    }
}
