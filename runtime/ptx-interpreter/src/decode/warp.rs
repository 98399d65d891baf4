use super::arithmetic::unsupported;
use super::op::{Op, Reject, Type};
use super::{Decoded, Decoder};
use crate::parse::ast::Operand;
use crate::program::{Code, Collective, Predicate, ReduceMode, Register, ShuffleMode, VoteMode};

impl<'a> Decoder<'a, '_, '_> {
    pub(super) fn warp(&mut self, op: &Op<'a, '_>) -> Decoded {
        if op.name == "activemask" {
            return Ok(Code::Active { into: self.register(op.operand(0)?)? });
        }
        // without `.sync` an instruction is of an architecture before sm_70
        if !op.has("sync") {
            return unsupported();
        }
        let (collective, mask) = match op.name {
            "shfl" => (self.shuffle(op)?, 4),
            "vote" => (self.vote(op)?, 2),
            "match" => (self.matching(op)?, 2),
            "redux" => (self.reduce(op)?, 2),
            _ => {
                let (into, leader) = self.with_predicate(op.operand(0)?)?;
                (Collective::Elect { into, leader }, 1)
            }
        };
        let mask = self.source(op.operand(mask)?, Type::Bits(32))?;
        Ok(Code::Collective { collective: Box::new(collective), mask })
    }

    /// `d|p`, where `d` is a register.
    fn with_predicate(
        &mut self,
        operand: &Operand<'a>,
    ) -> Result<(Register, Option<Predicate>), Reject> {
        match operand {
            Operand::Pair(register, predicate) => {
                let predicate = match *predicate {
                    "_" => None,
                    name => Some(self.predicate_named(name)?),
                };
                Ok((self.register(&Operand::Name(register, 0))?, predicate))
            }
            single => Ok((self.register(single)?, None)),
        }
    }

    fn shuffle(&mut self, op: &Op<'a, '_>) -> Result<Collective, Reject> {
        op.only(&["sync", "up", "down", "bfly", "idx"])?;
        let mode = match op.modifiers.last() {
            Some(&"up") => ShuffleMode::Up,
            Some(&"down") => ShuffleMode::Down,
            Some(&"bfly") => ShuffleMode::Butterfly,
            _ => ShuffleMode::Index,
        };
        let (into, valid) = self.with_predicate(op.operand(0)?)?;
        Ok(Collective::Shuffle {
            mode,
            into,
            valid,
            value: self.source(op.operand(1)?, Type::Bits(32))?,
            lane: self.source(op.operand(2)?, Type::Bits(32))?,
            clamp: self.source(op.operand(3)?, Type::Bits(32))?,
        })
    }

    fn vote(&mut self, op: &Op<'a, '_>) -> Result<Collective, Reject> {
        op.only(&["sync", "all", "any", "uni", "ballot"])?;
        let condition = self.condition(op.operand(1)?)?;
        let mode = match op.modifiers.last() {
            Some(&"all") => VoteMode::All,
            Some(&"any") => VoteMode::Any,
            Some(&"uni") => VoteMode::Uniform,
            _ => {
                let into = self.register(op.operand(0)?)?;
                return Ok(Collective::Ballot { into, condition });
            }
        };
        Ok(Collective::VotePredicate { mode, into: self.predicate(op.operand(0)?)?, condition })
    }

    fn matching(&mut self, op: &Op<'a, '_>) -> Result<Collective, Reject> {
        op.only(&["sync", "any", "all"])?;
        let bits = op.kind()?.bits();
        if !matches!(bits, 32 | 64) {
            return unsupported();
        }
        let value = self.source(op.operand(1)?, op.kind()?)?;
        let (into, all) = self.with_predicate(op.operand(0)?)?;
        Ok(match op.has("any") {
            true => Collective::MatchAny { into, bits, value },
            false => Collective::MatchAll { into, all, bits, value },
        })
    }

    fn reduce(&mut self, op: &Op<'a, '_>) -> Result<Collective, Reject> {
        op.only(&["sync", "add", "min", "max", "and", "or", "xor"])?;
        let kind = op.kind()?;
        let mode = match op.modifiers.last() {
            Some(&"add") => ReduceMode::Add,
            Some(&"min") => ReduceMode::Minimum,
            Some(&"max") => ReduceMode::Maximum,
            Some(&"and") => ReduceMode::And,
            Some(&"or") => ReduceMode::Or,
            Some(&"xor") => ReduceMode::Xor,
            _ => return unsupported(),
        };
        if !matches!(kind, Type::Bits(32) | Type::Unsigned(32) | Type::Signed(32)) {
            return unsupported();
        }
        let into = self.register(op.operand(0)?)?;
        let value = self.source(op.operand(1)?, kind)?;
        Ok(Collective::Reduce { mode, signed: matches!(kind, Type::Signed(_)), into, value })
    }
}
