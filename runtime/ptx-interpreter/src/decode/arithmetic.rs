use super::op::{Op, Reject, Type};
use super::{Decoded, Decoder};
use crate::number::{Map1, Map2, Map3};
use crate::program::Code;

impl<'a> Decoder<'a, '_, '_> {
    pub(super) fn arithmetic(&mut self, op: &Op<'a, '_>) -> Decoded {
        match op.kind()? {
            Type::F32 | Type::F64 => self.floating(op),
            Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 => self.half(op),
            _ => self.integer(op),
        }
    }

    pub(super) fn map1(&mut self, op: &Op<'a, '_>, map: Map1, kind: Type) -> Decoded {
        let into = self.register(op.operand(0)?)?;
        Ok(Code::Map1 { map, into, a: self.source(op.operand(1)?, kind)? })
    }

    pub(super) fn map2(&mut self, op: &Op<'a, '_>, map: Map2, kind: Type) -> Decoded {
        self.map2_of(op, map, [kind; 2])
    }

    pub(super) fn map2_of(&mut self, op: &Op<'a, '_>, map: Map2, kinds: [Type; 2]) -> Decoded {
        let into = self.register(op.operand(0)?)?;
        let a = self.source(op.operand(1)?, kinds[0])?;
        let b = self.source(op.operand(2)?, kinds[1])?;
        Ok(Code::Map2 { map, into, a, b })
    }

    pub(super) fn map3(&mut self, op: &Op<'a, '_>, map: Map3, kind: Type) -> Decoded {
        self.map3_of(op, map, [kind; 3])
    }

    pub(super) fn map3_of(&mut self, op: &Op<'a, '_>, map: Map3, kinds: [Type; 3]) -> Decoded {
        let into = self.register(op.operand(0)?)?;
        let a = self.source(op.operand(1)?, kinds[0])?;
        let b = self.source(op.operand(2)?, kinds[1])?;
        let c = self.source(op.operand(3)?, kinds[2])?;
        Ok(Code::Map3 { map, into, a, b, c })
    }
}

pub(super) fn unsupported<T>() -> Result<T, Reject> {
    Err(Reject::Unsupported)
}
