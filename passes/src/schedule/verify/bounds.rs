//! What bounds an index, and how a check fails.

use crate::ir::DType;
use crate::schedule::loops::*;

pub(super) fn check(ok: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if ok { Ok(()) } else { Err(what()) }
}

/// The smallest and largest number of a constant of `i64`s: any of its elements may be an index.
fn listed(s: &Schedule, id: BufferId) -> Option<(i64, i64)> {
    let b = s.buffers.get(id.0 as usize)?;
    let BufferKind::Constant(bytes) = &b.kind else {
        return None;
    };
    if b.dtype != DType::I64 {
        return None;
    }
    let (words, _) = bytes.as_chunks::<8>();
    let mut range: Option<(i64, i64)> = None;
    for word in words {
        let x = i64::from_le_bytes(*word);
        range = Some(range.map_or((x, x), |(lo, hi)| (lo.min(x), hi.max(x))));
    }
    range
}

/// The smallest and largest value of what an index was loaded by: checked, or read from a list.
pub(super) fn loaded(s: &Schedule, op: &Op) -> Option<(i64, i64)> {
    match op {
        Op::CheckIndex { size, .. } => Some((0, size - 1)),
        Op::Load { mem: Mem::Buffer(b), .. } => listed(s, *b),
        _ => None,
    }
}
