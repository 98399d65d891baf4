//! Scatters as kernels of their own, for targets with more threads than a scatter's grid has points.
//!
//! A kernel that scatters copies the base, scatters into the copy and reads that again, stage after stage
//! at each grid point, and its grid has only axes along which nothing meets. A GPU has work for a thread
//! per element only if each of the stages is a launch: the copy, the sources in any order, by atomic
//! operations (as PyTorch and XLA take them there, unless they are asked for deterministic results), and
//! what reads them.

use super::loops::*;
use super::order::spread;
use std::ops::Range;

/// Cuts the kernels of a schedule around the stages that scatter.
pub(crate) fn scatters(schedule: &mut Schedule) {
    let mut places = Vec::new();
    let mut steps = Vec::new();
    for step in std::mem::take(&mut schedule.steps) {
        places.push(steps.len());
        match step {
            Step::Kernel(kernel) => match pieces(&kernel) {
                Some(cut) => steps.extend(cut.into_iter().map(Step::Kernel)),
                None => steps.push(Step::Kernel(kernel)),
            },
            step => steps.push(step),
        }
    }
    for decision in &mut schedule.decisions {
        decision.step = decision.step.map(|at| places[at]);
    }
    schedule.steps = steps;
}

/// The kernels of a kernel's stages: those that scatter alone, and what is between them. `None` if nothing
/// scatters, or if stages hand values on that no memory has.
fn pieces(kernel: &Kernel) -> Option<Vec<Kernel>> {
    if !kernel.scratch.is_empty() || !kernel.stages.iter().any(Stage::scatters) {
        return None;
    }
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut alone = true;
    for (at, stage) in kernel.stages.iter().enumerate() {
        let scatters = stage.scatters();
        match runs.last_mut() {
            Some(run) if !alone && !scatters => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
        alone = scatters;
    }
    runs.into_iter().map(|run| piece(kernel, run)).collect()
}

fn piece(kernel: &Kernel, run: Range<usize>) -> Option<Kernel> {
    let mut stages = kernel.stages[run.clone()].to_vec();
    for inst in stages.iter_mut().flat_map(|s| &mut s.body) {
        if let Op::Carry { stage, .. } = &mut inst.op {
            *stage = stage.checked_sub(run.start as u32)?;
        }
    }
    let bare = Kernel { stages: Vec::new(), ..kernel.clone() };
    match &stages[..] {
        [stage] if stage.scatters() => Some(Kernel { in_any_order: true, stages, ..bare }),
        [stage] if let Some((grid, stage, vectorize)) = spread(&kernel.grid, stage) => {
            Some(Kernel { grid: grid.into(), stages: vec![stage], vectorize, ..bare })
        }
        _ => Some(Kernel { stages, ..bare }),
    }
}
