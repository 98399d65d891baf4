use super::warp::{Group, Warp, assign};
use super::{Machine, set, source};
use crate::number::{LANES, Lanes, convert};
use crate::program::{CARRY, Carry, CarryKind, Conversion, Special};

impl Machine<'_> {
    /// Arithmetic with the carry flag.
    pub(super) fn carry(&self, warp: &mut Warp, group: &Group, carry: &Carry, active: u32) {
        let [a, b, c] =
            carry.sources.map(|operand| source(&warp.registers, &self.constants, group, operand));
        let flag = warp.predicates[(group.predicates + CARRY) as usize];
        let (mut out, mut flags) = ([0; LANES], 0u32);
        let mask = u64::MAX >> (64 - carry.bits);
        for lane in 0..LANES {
            let carried = u128::from(carry.reads && flag >> lane & 1 == 1);
            let (x, y, z) = (a[lane] & mask, b[lane] & mask, c[lane] & mask);
            let sum = match carry.kind {
                CarryKind::Add => u128::from(x) + u128::from(y) + carried,
                CarryKind::Subtract => {
                    u128::from(x).wrapping_sub(u128::from(y)).wrapping_sub(carried)
                }
                CarryKind::MultiplyLow => {
                    u128::from(x.wrapping_mul(y) & mask) + u128::from(z) + carried
                }
                CarryKind::MultiplyHigh => {
                    let product = if carry.signed {
                        let extend = |value: u64| {
                            i128::from((value << (64 - carry.bits)) as i64 >> (64 - carry.bits))
                        };
                        ((extend(x) * extend(y)) >> carry.bits) as u64 & mask
                    } else {
                        ((u128::from(x) * u128::from(y)) >> carry.bits) as u64
                    };
                    u128::from(product) + u128::from(z) + carried
                }
            };
            out[lane] = sum as u64 & mask;
            flags |= u32::from(sum >> carry.bits & 1 == 1) << lane;
        }
        assign(&mut warp.registers[(group.registers + carry.into) as usize], &out, active);
        if carry.writes {
            set(warp, group, CARRY, flags, active);
        }
    }

    /// The values of a special register.
    pub(super) fn special(&self, warp: &Warp, special: Special) -> Lanes {
        let each =
            |value: fn(u32) -> u32| std::array::from_fn(|lane| u64::from(value(lane as u32)));
        let all = |value: u64| [value; LANES];
        match special {
            Special::Thread(axis) => warp.threads[axis],
            Special::Threads(axis) => all(self.launch.block[axis].into()),
            Special::Block(axis) => all(self.block[axis].into()),
            Special::Blocks(axis) => all(self.launch.grid[axis].into()),
            Special::Lane => each(|lane| lane),
            Special::Warp => all(warp.index.into()),
            Special::Warps => {
                all(u64::from(self.launch.block.iter().product::<u32>().div_ceil(LANES as u32)))
            }
            Special::Below(false) => each(|lane| (1 << lane) - 1),
            Special::Below(true) => each(|lane| u32::MAX >> (31 - lane)),
            Special::Above(false) => each(|lane| (u32::MAX << lane) & !(1 << lane)),
            Special::Above(true) => each(|lane| u32::MAX << lane),
            Special::SelfMask => each(|lane| 1 << lane),
            Special::Clock(32) => all(self.statistics.warp_instructions & 0xffff_ffff),
            Special::Clock(_) | Special::Time => all(self.statistics.warp_instructions),
            Special::DynamicShared => all(self.launch.dynamic_shared.into()),
            Special::TotalShared => all(self.shared.size()),
            Special::Fixed(value) => all(value),
        }
    }
}

/// Both parts of a register converted.
pub(super) fn both_parts(conversion: &Conversion, bits: u64) -> u64 {
    let (from, to) = (conversion.from.bits(), conversion.to.bits());
    let high = convert::convert(conversion, bits >> from);
    high << to | convert::convert(conversion, bits)
}
