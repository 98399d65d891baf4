use super::arithmetic::unsupported;
use super::op::{Op, Reject, Type};
use super::{Decoded, Decoder};
use crate::program::{Code, Collective, Multiply, Numeric, Space};

impl<'a> Decoder<'a, '_, '_> {
    pub(super) fn matrix(&mut self, op: &Op<'a, '_>) -> Decoded {
        let collective = match op.name {
            "mma" => Collective::Multiply(Box::new(self.multiply_matrices(op)?)),
            name => {
                op.only(&[
                    "sync",
                    "aligned",
                    "m8n8",
                    "x1",
                    "x2",
                    "x4",
                    "trans",
                    "shared",
                    "shared::cta",
                ])?;
                let count = match () {
                    () if op.has("x4") => 4,
                    () if op.has("x2") => 2,
                    () => 1,
                };
                if op.kind()? != Type::Bits(16) {
                    return unsupported();
                }
                let generic = !(op.has("shared") || op.has("shared::cta"));
                let space = if generic { Space::Generic } else { Space::Shared };
                let transposed = op.has("trans");
                let wrong = || Err(Reject::wrong("a vector of as many registers", op.name));
                if name == "ldmatrix" {
                    let into = self.registers(op.operand(0)?)?;
                    let address = self.address(op.operand(1)?, space)?;
                    if into.len() != count {
                        return wrong();
                    }
                    Collective::LoadMatrix { into, address, transposed }
                } else {
                    let address = self.address(op.operand(0)?, space)?;
                    let from = self.sources(op.operand(1)?, Type::Bits(32))?;
                    if from.len() != count {
                        return wrong();
                    }
                    Collective::StoreMatrix { from, address, transposed }
                }
            }
        };
        let mask = self.value(u64::from(u32::MAX));
        Ok(Code::Collective { collective: Box::new(collective), mask })
    }

    fn multiply_matrices(&mut self, op: &Op<'a, '_>) -> Result<Multiply, Reject> {
        op.only(&[
            "sync",
            "aligned",
            "row",
            "col",
            "satfinite",
            "m16n8k4",
            "m16n8k8",
            "m16n8k16",
            "m16n8k32",
            "m8n8k4",
        ])?;
        let &[result, left, right, sum] = op.types.as_slice() else { return unsupported() };
        let depth = match () {
            () if op.has("m16n8k4") => 4,
            () if op.has("m16n8k8") => 8,
            () if op.has("m16n8k16") => 16,
            () if op.has("m16n8k32") => 32,
            () => return unsupported(),
        };
        let kind = |kind| {
            Ok(match kind {
                Type::F16 => Numeric::Half,
                Type::Bf16 => Numeric::Brain,
                Type::Tf32 => Numeric::Tensor,
                Type::E4m3 => Numeric::E4M3,
                Type::E5m2 => Numeric::E5M2,
                Type::F32 => Numeric::Single,
                Type::Signed(bits @ (8 | 32)) => Numeric::Signed(bits),
                Type::Unsigned(8) => Numeric::Unsigned(8),
                _ => return unsupported(),
            })
        };
        let (left_kind, right_kind, sum_kind) = (kind(left)?, kind(right)?, kind(sum)?);
        let known = match (left, depth) {
            (Type::F16 | Type::Bf16, 8 | 16) | (Type::Tf32, 4 | 8) => left == right,
            (Type::E4m3 | Type::E5m2, 32) => matches!(right, Type::E4m3 | Type::E5m2),
            (Type::Signed(8) | Type::Unsigned(8), 16 | 32) => {
                matches!(right, Type::Signed(8) | Type::Unsigned(8)) && sum == Type::Signed(32)
            }
            _ => false,
        };
        let sums =
            matches!(sum, Type::F32 | Type::Signed(32)) || (sum == Type::F16 && left == Type::F16);
        if !known || !sums || result != sum {
            return unsupported();
        }
        let multiply = Multiply {
            shape: [16, 8, depth],
            left: left_kind,
            right: right_kind,
            sum: sum_kind,
            saturate: op.has("satfinite"),
            into: self.registers(op.operand(0)?)?,
            a: self.sources(op.operand(1)?, Type::Bits(32))?,
            b: self.sources(op.operand(2)?, Type::Bits(32))?,
            c: self.sources(op.operand(3)?, Type::Bits(32))?,
        };
        // elements of a lane, by how many fit in a register
        let each = 32 / left.bits().min(32) as usize;
        let sums = 4 / (32 / sum.bits() as usize);
        let expected = [sums, 16 * depth / 32 / each, 8 * depth / 32 / each, sums];
        let given = [multiply.into.len(), multiply.a.len(), multiply.b.len(), multiply.c.len()];
        if expected != given {
            return Err(Reject::wrong("vectors of as many registers", op.name));
        }
        Ok(multiply)
    }
}
