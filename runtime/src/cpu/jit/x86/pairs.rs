//! Two vectors at a time: long bodies whose instructions wait for each other.
//!
//! A processor finds what it can do meanwhile among the next instructions that it has room for, and
//! those of a long body are all of one vector. So the instructions of two vectors alternate.

use super::ir::{Body, Inst, Node};
use super::lower::Lower;
use super::regalloc::{Liveness, OutOfRegisters, Registers, Uniform, is_uniform};

/// Longer bodies stay alone: their code would be too long.
const MAX_BODY: usize = 400;

/// The body for two vectors. Its streams and accumulators from the number that `body` has on are those
/// of the second one.
pub(super) fn paired(body: &Body) -> Option<Body> {
    if body.insts.len() > MAX_BODY {
        return None;
    }
    let mut out = Body::new(body.vectors, body.width);
    out.streams = body.streams;
    out.params = body.params;
    out.folds.clone_from(&body.folds);
    let mut nodes: Vec<[Node; 2]> = Vec::with_capacity(body.insts.len());
    for inst in &body.insts {
        let first = out.push(renamed(*inst, &nodes, 0));
        let second = match is_uniform(inst) {
            true => first,
            false => out.push(of_second(renamed(*inst, &nodes, 1), body)?),
        };
        nodes.push([first, second]);
    }
    Some(out)
}

/// An instruction on the values of one of the vectors.
fn renamed(inst: Inst, nodes: &[[Node; 2]], which: usize) -> Inst {
    let n = |v: Node| nodes[v.0 as usize][which];
    match inst {
        Inst::Const(_) | Inst::Param(_) | Inst::Position | Inst::Load(..) => inst,
        Inst::Gather(..) | Inst::Spread(_) | Inst::Ask(..) => inst,
        Inst::Store(s, format, a) => Inst::Store(s, format, n(a)),
        Inst::Unary(op, imm, a) => Inst::Unary(op, imm, n(a)),
        Inst::Binary(op, commutes, a, b) => Inst::Binary(op, commutes, n(a), n(b)),
        Inst::RoundHalf(a) => Inst::RoundHalf(n(a)),
        Inst::Shift(which, by, a) => Inst::Shift(which, by, n(a)),
        Inst::Fma(a, b, c) => Inst::Fma(n(a), n(b), n(c)),
        Inst::Compare(p, a, b) => Inst::Compare(p, n(a), n(b)),
        Inst::CompareInt(op, a, b) => Inst::CompareInt(op, n(a), n(b)),
        Inst::MaskOp(op, a, b) => Inst::MaskOp(op, n(a), n(b)),
        Inst::MaskNot(a) => Inst::MaskNot(n(a)),
        Inst::Select(m, a, b) => Inst::Select(n(m), n(a), n(b)),
        Inst::Accumulate(k, fold, a) => Inst::Accumulate(k, fold, n(a)),
        Inst::CallWhere(f, m, a, b) => Inst::CallWhere(f, n(m), n(a), n(b)),
        Inst::CallBothWhere(f, all) => Inst::CallBothWhere(f, all.map(n)),
        Inst::CallBoth(f, a, b) => Inst::CallBoth(f, n(a), n(b)),
    }
}

/// An instruction of a body for two vectors as one of the body for one, and how many vectors it comes
/// after the first.
fn alone(inst: Inst, body: &Body) -> (Inst, u32) {
    let (s, k) = (body.streams.max(1), body.folds.len().max(1) as u32);
    match inst {
        Inst::Load(i, format) => (Inst::Load(i % s, format), i / s),
        Inst::Gather(i, stride) => (Inst::Gather(i % s, stride), i / s),
        Inst::Spread(i) => (Inst::Spread(i % s), i / s),
        Inst::Ask(i, format) => (Inst::Ask(i % s, format), i / s),
        Inst::Store(i, format, v) => (Inst::Store(i % s, format, v), i / s),
        Inst::Accumulate(i, fold, v) => (Inst::Accumulate(i % k, fold, v), i / k),
        other => (other, 0),
    }
}

/// An instruction for the second vector; `None` where none says so.
fn of_second(inst: Inst, body: &Body) -> Option<Inst> {
    let s = body.streams;
    Some(match inst {
        Inst::Position => return None,
        Inst::Load(i, format) => Inst::Load(i + s, format),
        Inst::Gather(i, stride) => Inst::Gather(i + s, stride),
        Inst::Spread(i) => Inst::Spread(i + s),
        Inst::Ask(i, format) => Inst::Ask(i + s, format),
        Inst::Store(i, format, v) => Inst::Store(i + s, format, v),
        Inst::Accumulate(k, fold, v) => Inst::Accumulate(k + body.folds.len() as u32, fold, v),
        other => other,
    })
}

impl<'b> Lower<'b> {
    /// The body for two vectors once.
    pub(super) fn pair(
        &mut self,
        (body, lives): (&Body, &'b Liveness),
        copy: u32,
    ) -> Result<(), OutOfRegisters> {
        let reserved = !(((1u64 << self.top) - 1) as u32);
        let there = |v: Node| {
            let inst = self.body.insts[v.0 as usize];
            let at = body.insts.iter().position(|i| *i == inst);
            Node(at.expect("a body for two vectors has the same constants") as u32)
        };
        let fixed: Vec<_> = self.fixed.iter().map(|f| (there(f.0), f.1)).collect();
        let uniform: Vec<_> =
            self.uniform.iter().map(|u| Uniform { value: there(u.value), ..*u }).collect();
        let mut regs = Registers::new(lives, &fixed, &uniform, reserved);
        for (i, inst) in body.insts.iter().enumerate() {
            if lives.live[i] && !is_uniform(inst) {
                regs.begin(i as u32);
                let (inst, after) = alone(*inst, self.body);
                self.inst(&mut regs, Node(i as u32), inst, copy + after, false)?;
            }
        }
        self.slots = self.slots.max(regs.slots);
        Ok(())
    }
}
