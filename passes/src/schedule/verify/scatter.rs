//! What makes a scatter sound: no grid point reads or writes what another one writes, whatever the
//! loaded indices are.
//!
//! An address is a sum of *digits*: each axis of the grid times its stride, and what moves within a
//! grid point, the axes of the stage and loaded indices. Sorted by stride, each digit's stride has
//! to exceed all that the smaller digits reach together. Then each address has only one
//! representation in these digits, and two grid points, which differ in some digit of the grid,
//! never write the same address. Digits of one grid point that no axis of the grid stands between
//! count as one, of the greatest common divisor of their strides.

use super::bounds::{check, loaded};
use crate::schedule::loops::*;
use std::collections::BTreeSet;

/// A part of an address: its stride, how far it reaches, and whether it is an axis of the grid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Digit {
    stride: i64,
    reach: i64,
    grid: bool,
}

/// Where an instruction points, and whether it is scattered: written by an index that was loaded.
fn access(op: &Op) -> Option<(Mem, &Index, bool)> {
    match op {
        Op::Load { mem, index } | Op::Store { mem, index, .. } | Op::Update { mem, index, .. } => {
            Some((*mem, index, op.scatters()))
        }
        _ => None,
    }
}

/// Checks each buffer that a kernel scatters into.
pub(super) fn verify(s: &Schedule, k: &Kernel) -> Result<(), String> {
    let mut scattered: BTreeSet<u32> = BTreeSet::new();
    for (n, stage) in k.stages.iter().enumerate() {
        let own = || stage.body.iter().filter_map(|i| access(&i.op));
        for (mem, ..) in own().filter(|a| a.2) {
            let Mem::Buffer(b) = mem else {
                return Err(format!("stage {n} scatters into scratch"));
            };
            scattered.insert(b.0);
            check(own().filter(|a| a.0 == mem).count() == 1, || {
                format!("stage {n} scatters into {mem} and touches it elsewhere")
            })?;
        }
    }
    for b in scattered {
        apart(s, k, Mem::Buffer(BufferId(b)))?;
    }
    Ok(())
}

/// What moves within a grid point and lies between the same axes of the grid, over all accesses.
#[derive(Clone, Copy, Default)]
struct Own {
    step: i64,
    reach: i64,
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether grid points keep apart in a buffer.
fn apart(s: &Schedule, k: &Kernel, mem: Mem) -> Result<(), String> {
    let mut grid: Vec<(i64, AxisId, i64)> = Vec::new();
    let mut base = None;
    let mut own: Vec<Own> = Vec::new();
    for (n, stage) in k.stages.iter().enumerate() {
        for inst in &stage.body {
            let Some((_, index, _)) = access(&inst.op).filter(|a| a.0 == mem) else {
                continue;
            };
            let strides: Vec<(i64, AxisId, i64)> = sorted(k, index);
            if base.is_none() {
                (base, grid) = (Some(index.base), strides.clone());
                own = vec![Own::default(); grid.len() + 1];
            }
            check(base == Some(index.base) && strides == grid, || {
                format!(
                    "stage {n} does not address {mem}, which is scattered into, by the grid as other stages do"
                )
            })?;
            check(strides.iter().all(|g| g.0 > 0), || {
                format!("the grid of a scatter does not run forwards through {mem}")
            })?;
            let mut here = vec![Own::default(); own.len()];
            for (stride, reach) in moves(s, stage, index, &grid)? {
                // between which axes of the grid
                let at = grid.iter().filter(|g| g.0 < stride).count();
                here[at].step = gcd(stride, here[at].step);
                here[at].reach += reach;
            }
            for (all, here) in own.iter_mut().zip(here) {
                all.step = gcd(here.step, all.step);
                all.reach = all.reach.max(here.reach);
            }
        }
    }
    let mut digits: Vec<Digit> = Vec::new();
    for (i, o) in own.iter().enumerate() {
        digits.extend((o.reach > 0).then_some(Digit {
            stride: o.step,
            reach: o.reach,
            grid: false,
        }));
        digits.extend(grid.get(i).map(|g| Digit {
            stride: g.0,
            reach: g.0 * (g.2 - 1),
            grid: true,
        }));
    }
    let mut below = 0;
    for (i, d) in digits.iter().enumerate() {
        // digits of one grid point alone may meet
        let matters = d.grid || digits[..i].iter().any(|d| d.grid);
        check(!matters || d.stride > below, || {
            format!(
                "points of the grid may meet in {mem}, which is scattered into: a step of {} over {below}",
                d.stride
            )
        })?;
        below += d.reach;
    }
    check(k.grid.iter().all(|a| a.extent == 1 || grid.iter().any(|g| g.1 == a.id)), || {
        format!("points of the grid scatter into the same elements of {mem}")
    })
}

/// The axes of the grid in an index: stride, axis, extent; the smallest stride first.
fn sorted(k: &Kernel, index: &Index) -> Vec<(i64, AxisId, i64)> {
    let axes = k.grid.iter().filter(|a| a.extent > 1);
    let mut out: Vec<(i64, AxisId, i64)> =
        axes.map(|a| (index.stride(a.id), a.id, a.extent)).filter(|g| g.0 != 0).collect();
    out.sort_unstable();
    out
}

/// An index that stands for several dimensions (`x[:, i, :, i]`) has the sum of their strides: as
/// many parts of it as axes of the grid lie between.
fn split(mut stride: i64, last: i64, grid: &[(i64, AxisId, i64)]) -> Vec<i64> {
    let mut parts = Vec::new();
    for (step, ..) in grid {
        let low = stride % step;
        if low > 0 && low < stride && low.saturating_mul(last) < *step {
            parts.push(low);
            stride -= low;
        }
    }
    parts.push(stride);
    parts
}

/// What moves an index within a grid point: stride and reach, both positive.
fn moves(
    s: &Schedule,
    stage: &Stage,
    index: &Index,
    grid: &[(i64, AxisId, i64)],
) -> Result<Vec<(i64, i64)>, String> {
    let mut out = Vec::new();
    for a in &stage.axes {
        out.push((index.stride(a.id), a.extent - 1));
    }
    for (val, stride) in &index.dynamic {
        let (from, to) = loaded(s, &stage.body[val.0 as usize].op)
            .ok_or_else(|| format!("index %{} is not checked", val.0))?;
        check(from >= 0, || "a listed index is negative".to_string())?;
        out.extend(split(*stride, to, grid).into_iter().map(|part| (part, to)));
    }
    out.retain(|(stride, last)| *stride != 0 && *last > 0);
    check(out.iter().all(|m| m.0 > 0), || "a scatter does not run forwards".to_string())?;
    Ok(out.into_iter().map(|(s, last)| (s, s * last)).collect())
}
