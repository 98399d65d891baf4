//! Which accesses of a body are of neighbouring elements, so that a thread loads and stores several at once.

use straightline_passes::schedule::loops::{AxisId, Index, Inst, Mem, Op, Val};

/// So many bytes a thread loads or stores at once.
const BYTES: i64 = 16;

/// A body of which a thread computes several elements that follow one another along an axis.
pub(super) struct Lanes {
    /// What differs between these elements, by instruction. The others are computed once for all.
    pub(super) varies: Vec<bool>,
    /// The loads and stores of all of them at once, by instruction.
    pub(super) packed: Vec<bool>,
}

impl Lanes {
    /// `None` if elements that follow one another in memory would begin where so many can not be loaded
    /// at once.
    pub(super) fn of(body: &[Inst], inner: AxisId, width: i64) -> Option<Lanes> {
        let mut lanes = Lanes { varies: Vec::new(), packed: Vec::new() };
        for inst in body {
            let varies = |v: &Val| lanes.varies[v.0 as usize];
            let (varying, packed) = match &inst.op {
                Op::Load { mem, index } => {
                    let moves =
                        index.stride(inner) != 0 || index.dynamic.iter().any(|(v, _)| varies(v));
                    // what this body stores is loaded where it stands
                    (moves || stores(body, mem), packs(index, inner, width, &varies)?)
                }
                Op::Store { index, .. } => (true, packs(index, inner, width, &varies)?),
                Op::Update { .. } => return None,
                Op::AxisIndex(axis) => (*axis == inner, false),
                Op::Const(_) | Op::Carry { .. } => (false, false),
                Op::Cast(a) | Op::Unary(_, a) => (varies(a), false),
                Op::CheckIndex { index, .. } => (varies(index), false),
                Op::Binary(_, a, b) | Op::Compare(_, a, b) => (varies(a) || varies(b), false),
                Op::Fma(a, b, c) | Op::Select(a, b, c) => {
                    (varies(a) || varies(b) || varies(c), false)
                }
                // steps of totals
                Op::Reduce(..) | Op::ArgReduce { .. } => (true, false),
            };
            lanes.varies.push(varying);
            lanes.packed.push(packed);
        }
        Some(lanes)
    }
}

fn stores(body: &[Inst], of: &Mem) -> bool {
    body.iter()
        .any(|i| matches!(&i.op, Op::Store { mem, .. } | Op::Update { mem, .. } if mem == of))
}

/// Whether an access is of elements that follow one another; `None` if it is and so many do not begin at
/// a multiple.
fn packs(index: &Index, inner: AxisId, width: i64, varies: &dyn Fn(&Val) -> bool) -> Option<bool> {
    let follow = index.stride(inner) == 1 && !index.dynamic.iter().any(|(v, _)| varies(v));
    if !follow {
        return Some(false);
    }
    let others = index.terms.iter().filter(|(axis, _)| *axis != inner).map(|(_, stride)| *stride);
    let mut steps = others.chain(index.dynamic.iter().map(|(_, stride)| *stride));
    (index.base % width == 0 && steps.all(|step| step % width == 0)).then_some(true)
}

/// The most elements that a thread takes at once of bodies, each with the axis along which its elements
/// follow one another and that axis' extent: a power of two.
///
/// (As in Triton and XLA, sizes and strides have to be multiples of it. Addresses need not: the code looks at
/// them, and takes elements one after the other where they are odd.)
pub(super) fn widest(bodies: &[(&[Inst], AxisId, i64)]) -> i64 {
    let sizes = bodies.iter().flat_map(|(body, inner, _)| {
        body.iter().filter_map(|inst| match &inst.op {
            Op::Load { index, .. } | Op::Store { index, .. } if index.stride(*inner) == 1 => {
                Some(inst.dtype.size() as i64)
            }
            _ => None,
        })
    });
    let Some(largest) = sizes.max() else { return 1 };
    let mut width = BYTES / largest.min(BYTES);
    let fits = |width: i64| {
        let all = |(body, inner, extent): &(&[Inst], AxisId, i64)| {
            extent % width == 0 && Lanes::of(body, *inner, width).is_some()
        };
        bodies.iter().all(all)
    };
    while width > 1 && !fits(width) {
        width /= 2;
    }
    width
}
