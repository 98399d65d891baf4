use super::arithmetic::unsupported;
use super::op::{Op, Type};
use super::{Decoded, Decoder};
use crate::program::{Code, Mbarrier, MbarrierKind, Space};

impl<'a> Decoder<'a, '_, '_> {
    pub(super) fn mbarrier(&mut self, op: &Op<'a, '_>) -> Decoded {
        const HINTS: &[&str] =
            &["shared", "shared::cta", "acquire", "release", "relaxed", "cta", "cluster", "parity"];
        let Some((&name, hints)) = op.modifiers.split_first() else { return unsupported() };
        if hints.iter().any(|hint| !HINTS.contains(hint)) {
            return unsupported();
        }
        let generic = !(op.has("shared") || op.has("shared::cta"));
        let space = if generic { Space::Generic } else { Space::Shared };
        let mut mbarrier = Mbarrier {
            kind: MbarrierKind::Inval,
            address: self
                .address(op.operand(usize::from(!matches!(name, "init" | "inval")))?, space)?,
            value: None,
            state: None,
            done: None,
        };
        match name {
            "init" => {
                mbarrier.kind = MbarrierKind::Init;
                mbarrier.value = Some(self.source(op.operand(1)?, Type::Unsigned(32))?);
            }
            "inval" => {}
            "arrive" => {
                mbarrier.kind = MbarrierKind::Arrive;
                mbarrier.state = self.register_or_none(op.operand(0)?)?;
                if op.count() > 2 {
                    mbarrier.value = Some(self.source(op.operand(2)?, Type::Unsigned(32))?);
                }
            }
            "test_wait" | "try_wait" => {
                mbarrier.kind = MbarrierKind::Test { parity: op.has("parity") };
                mbarrier.done = Some(self.predicate(op.operand(0)?)?);
                mbarrier.value = Some(self.source(op.operand(2)?, Type::Bits(64))?);
            }
            _ => return unsupported(),
        }
        Ok(Code::Mbarrier(Box::new(mbarrier)))
    }
}
