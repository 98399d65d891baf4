//! What emission relies on, checked first: a schedule that breaks a rule is an error, never a panic
//! or wild code.

use super::JitError;
use super::analyse::operands;
use straightline_passes::ir::DType;
use straightline_passes::ir::TensorMeta;
use straightline_passes::schedule::loops::{
    BufferKind, Index, Kernel, Mem, Op, OutputBinding, Schedule, Stage, Step, UnaryOp, Val,
};

/// The result that an output buffer is delivered as.
fn fresh(schedule: &Schedule, output: u32) -> Option<&TensorMeta> {
    schedule.outputs.iter().find_map(|o| match o {
        OutputBinding::Fresh { index, meta } if *index == output => Some(meta),
        _ => None,
    })
}

/// Checks the buffers and the kernels of a schedule.
pub(crate) fn verify(schedule: &Schedule) -> Result<(), JitError> {
    for b in &schedule.buffers {
        let bytes = b.len * b.dtype.size();
        let (fits, room) = match &b.kind {
            BufferKind::Constant(c) => (c.len() >= bytes, c.len()),
            BufferKind::Arena { offset } => {
                (offset + bytes <= schedule.arena_bytes, schedule.arena_bytes)
            }
            // the caller of the plan allocates the delivered result
            BufferKind::Output(i) => match fresh(schedule, *i) {
                Some(meta) => (bytes <= meta.storage_bytes(), meta.storage_bytes()),
                None => continue,
            },
            BufferKind::Within { output, offset } => match fresh(schedule, *output) {
                Some(meta) => (offset + bytes <= meta.storage_bytes(), meta.storage_bytes()),
                None => (false, 0),
            },
            BufferKind::Input(_) | BufferKind::Parameter(_) => continue,
        };
        if !fits {
            return Err(JitError::Invalid {
                what: format!("buffer {:?} of {bytes} bytes does not fit into {room}", b.name),
            });
        }
    }
    for (step, s) in schedule.steps.iter().enumerate() {
        if let Step::Kernel(kernel) = s {
            for (at, stage) in kernel.stages.iter().enumerate() {
                verify_stage(schedule, kernel, at, stage).map_err(|what| JitError::Invalid {
                    what: format!("step {step} ({}), stage {at}: {what}", kernel.name),
                })?;
            }
        }
    }
    Ok(())
}

fn verify_stage(
    schedule: &Schedule,
    kernel: &Kernel,
    at: usize,
    stage: &Stage,
) -> Result<(), String> {
    if let Some(a) = kernel.grid.iter().chain(&stage.axes).find(|a| a.extent < 0) {
        return Err(format!("axis {} has extent {}", a.id.0, a.extent));
    }
    for (i, inst) in stage.body.iter().enumerate() {
        let err = |what: String| Err(format!("%{i}: {what}"));
        for v in operands(&inst.op) {
            if v.0 as usize >= i {
                return err(format!("uses %{} before its definition", v.0));
            }
            if matches!(
                stage.body[v.0 as usize].op,
                Op::Store { .. } | Op::Update { .. } | Op::Reduce(..) | Op::ArgReduce { .. }
            ) {
                return err(format!("uses %{}, which has no value in its stage", v.0));
            }
        }
        let of = |v: Val| stage.body[v.0 as usize].dtype;
        let d = inst.dtype;
        let want = |v: Val, dtype: DType| {
            if of(v) == dtype {
                Ok(())
            } else {
                Err(format!("%{i}: operand %{} is {}, not {dtype}", v.0, of(v)))
            }
        };
        let place = |mem: Mem, index: &Index| {
            let element = match mem {
                Mem::Buffer(b) => schedule.buffers.get(b.0 as usize).map(|b| b.dtype),
                Mem::Scratch(s) => kernel.scratch.get(s as usize).map(|s| s.dtype),
            };
            let Some(element) = element else {
                return Err(format!("%{i}: {mem:?} does not exist"));
            };
            if element != d {
                return Err(format!("%{i}: {mem:?} holds {element}, not {d}"));
            }
            for (a, _) in &index.terms {
                if !kernel.grid.iter().chain(&stage.axes).any(|x| x.id == *a) {
                    return Err(format!("%{i}: axis {} is not open here", a.0));
                }
            }
            index.dynamic.iter().try_for_each(|(v, _)| want(*v, DType::I64))
        };
        match &inst.op {
            Op::Load { mem, index } => place(*mem, index)?,
            Op::Store { mem, index, value } | Op::Update { mem, index, value, .. } => {
                place(*mem, index)?;
                want(*value, d)?;
            }
            Op::Const(_) | Op::Cast(_) | Op::Reduce(..) => {}
            Op::AxisIndex(_) | Op::CheckIndex { .. } | Op::ArgReduce { .. } if d != DType::I64 => {
                return err(format!("the result is {d}, not i64"));
            }
            Op::AxisIndex(a) => {
                if !kernel.grid.iter().chain(&stage.axes).any(|x| x.id == *a) {
                    return err(format!("axis {} is not open here", a.0));
                }
            }
            Op::CheckIndex { index, size, .. } => {
                want(*index, DType::I64)?;
                if !(0..=i64::MAX / 2).contains(size) {
                    return err(format!("size {size}"));
                }
            }
            Op::ArgReduce { .. } => {}
            Op::Unary(op, v) => {
                let to_bool = matches!(op, UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::LogicalNot);
                if to_bool && d != DType::Bool {
                    return err(format!("the result is {d}, not bool"));
                }
                if !to_bool {
                    want(*v, d)?;
                }
            }
            Op::Binary(_, a, b) => {
                want(*a, d)?;
                want(*b, d)?;
            }
            Op::Fma(a, b, c) => {
                if !d.is_floating() {
                    return err(format!("fma of {d}"));
                }
                [a, b, c].into_iter().try_for_each(|v| want(*v, d))?;
            }
            Op::Compare(_, a, b) => {
                if d != DType::Bool {
                    return err(format!("the result is {d}, not bool"));
                }
                want(*b, of(*a))?;
            }
            Op::Select(c, a, b) => {
                want(*c, DType::Bool)?;
                want(*a, d)?;
                want(*b, d)?;
            }
            Op::Carry { stage: from, value } => {
                let source = kernel
                    .stages
                    .get(*from as usize)
                    .filter(|_| (*from as usize) < at)
                    .and_then(|s| s.body.get(value.0 as usize))
                    .filter(|i| matches!(i.op, Op::Reduce(..) | Op::ArgReduce { .. }));
                match source {
                    Some(s) if s.dtype == d => {}
                    Some(s) => return err(format!("the reduction is {}, not {d}", s.dtype)),
                    None => return err(format!("no reduction %{} in stage {from}", value.0)),
                }
            }
        }
    }
    Ok(())
}
