//! Replay: the plan runs on the call's tensors, and the dispatcher is not entered.

use super::code::copy_elements;
use super::delivery::{FEW, Fresh, Over};
use super::results::{graph_inputs, owned};
use super::stages::Executable;
use super::traced::{OutputSource, Traced, ViewOf};
use super::{failure, results, tape};
use crate::autograd::captured;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::tensor::access::{self, Operands};
use crate::tensor::storage::{ReadGuard, Storage, WriteGuard};
use arrayvec::ArrayVec;
use smallvec::SmallVec;
use straightline_catalog::TensorMeta;
use straightline_catalog::{Dims, layout};
use straightline_passes::schedule::loops::{OutputBinding, ViewSource};
use straightline_runtime::plan::ArgPtr;

/// The tensors that a call returns, in order.
pub(super) type Results = SmallVec<[Tensor; 4]>;

impl Executable {
    /// Runs the plan. The guards have been checked.
    pub(super) fn run(&self, arguments: &[&Tensor]) -> Result<Results> {
        let mut results = Results::new();
        self.run_into(arguments, &mut results)?;
        Ok(results)
    }

    /// [`Executable::run`] into an empty list. (One that is returned is copied, some of it right after
    /// it was written, which the processor waits for.)
    pub(super) fn run_into(&self, arguments: &[&Tensor], results: &mut Results) -> Result<()> {
        if self.results.plain && self.run_plain(arguments, results)? {
            if let Some(training) = &self.training {
                training.attach(&self.traced, arguments, results)?;
            }
            return Ok(());
        }
        *results = match self.results.only_views && self.training.is_none() {
            true => delivered(&self.traced, arguments, &[])?,
            false => self.run_whole(arguments)?,
        };
        Ok(())
    }

    /// Runs a plan whose buffers are the results, and which has few arguments; `false`, with nothing
    /// done, if access to what it reads cannot be had at once. Small functions are as fast as this is.
    #[inline(always)]
    fn run_plain(&self, inputs: &[&Tensor], results: &mut Results) -> Result<bool> {
        let Some(plan) = self.code.plan() else { return Ok(false) };
        let mut reads: ArrayVec<ReadGuard<'_>, FEW> = ArrayVec::new();
        let mut table = [ArgPtr::NONE; FEW];
        let (first, second, third) = plan.table();
        let parameters = self.traced.parameters.iter().map(|t| &**t);
        let given = inputs.iter().enumerate().map(|(i, t)| (*t, i, i < first));
        let closed = parameters.enumerate().map(|(i, t)| (t, first + i, i < second));
        for (t, slot, is_read) in given.chain(closed) {
            let storage = t.storage();
            match storage.try_read() {
                Some(guard) if !t.is_reshaped() && storage.has_data() => reads.push(guard),
                _ => return Ok(false),
            }
            if is_read {
                // the guards say that no math bit is set
                table[slot] = ArgPtr { ptr: t.address(), version: storage.version() };
            }
        }
        for (i, fresh) in self.results.fresh.iter().enumerate() {
            let Fresh { meta, derived, bytes, output, .. } = fresh;
            let storage = Storage::allocate(*bytes).map_err(|e| self.no_memory(*output, e))?;
            if i < third {
                let data = storage.ptr().unwrap_or(std::ptr::null_mut());
                table[first + second + i] = ArgPtr::new(data);
            }
            results.push(Tensor::at_beginning(storage, meta, *derived));
        }
        // SAFETY: as in `Code::run`; the table has what the plan says, in its order.
        unsafe { plan.run_table(&table[..first + second + third]) }
            .map_err(|e| failure::error(plan.schedule(), &self.traced.graph, e))?;
        Ok(true)
    }

    /// Runs any plan.
    fn run_whole(&self, arguments: &[&Tensor]) -> Result<Results> {
        if tape::binds(&self.traced.grads) {
            let bound = tape::bound(&self.traced.grads, arguments);
            let bound =
                bound.ok_or_else(|| Error::runtime("a `.grad` is gone since the call began"))?;
            return self.run_with(&tape::extended(arguments, &bound));
        }
        self.run_with(arguments)
    }

    /// The same with all that the function was given.
    fn run_with(&self, arguments: &[&Tensor]) -> Result<Results> {
        let slots = &self.traced.slots;
        let mut results = match slots.is_empty() {
            true => self.run_on(arguments, arguments)?,
            false => {
                let inputs = graph_inputs(slots, arguments)?;
                self.run_on(arguments, &inputs.iter().collect::<Vec<_>>())?
            }
        };
        if let Some(training) = &self.training {
            training.attach(&self.traced, arguments, &results)?;
        }
        results.truncate(self.traced.returned);
        Ok(results)
    }

    /// Runs the plan on the graph's inputs and delivers what it computes.
    fn run_on(&self, arguments: &[&Tensor], inputs: &[&Tensor]) -> Result<Results> {
        let traced = &self.traced;
        let spare = match self.results.replaces_gradients {
            true => self.spare(arguments),
            false => SmallVec::new(),
        };
        let mut held = Borrows::default();
        if self.results.runs {
            self.borrow(arguments, inputs, &mut held)?;
        }
        let values = {
            let mut fresh = Results::new();
            for (i, fresh_one) in self.results.fresh.iter().enumerate() {
                let Fresh { meta, derived, output, over, .. } = fresh_one;
                let there = match over {
                    None => None,
                    Some(Over::Target(m)) => {
                        Some(owned(&traced.mutations[*m].target, arguments, inputs))
                    }
                    Some(Over::Gradient { .. }) => {
                        spare.get(i).and_then(Option::as_ref).filter(|grad| held.try_write(grad))
                    }
                };
                if let Some(there) = there {
                    self.code.check_memory(there)?;
                    fresh.push(there.clone());
                    continue;
                }
                let storage =
                    self.code.allocate(fresh_one).map_err(|e| self.no_memory(*output, e))?;
                fresh.push(Tensor::at_beginning(storage, meta, *derived));
            }
            if self.results.runs {
                let ran = self.code.run(&self.traced, inputs, &fresh);
                if ran.is_err() {
                    self.drop_written(arguments, &fresh);
                }
                ran?;
            }
            if self.results.as_buffers {
                return Ok(fresh);
            }
            let mut values = self.bind(inputs, &fresh, &held)?;
            for (i, meta) in &self.results.restrided {
                values[*i] =
                    own_copy(&values[*i], meta, &held).map_err(|e| self.no_memory(*i, e))?;
            }
            values
        };
        if self.results.as_graph {
            return Ok(values);
        }
        if !traced.reshapes.is_empty() {
            held.reads.clear();
        }
        for r in &traced.reshapes {
            let target = owned(&r.target, arguments, inputs);
            let offset = target.offset() + r.moved;
            // its extent may have grown meanwhile, with its memory
            let whole = (traced.mutations.iter())
                .filter(|m| owned(&m.target, arguments, inputs).same_handle(target))
                .find_map(|m| m.memory.as_ref())
                .filter(|(meta, _)| meta.dtype == target.dtype());
            if let Some((meta, behind)) = whole {
                let first = offset + behind / target.dtype().size() as i64;
                target.set_geometry(&meta.sizes, &meta.strides, first)?;
            }
            target.set_geometry(&r.sizes, &r.strides, offset)?;
        }
        for m in &traced.mutations {
            let target = owned(&m.target, arguments, inputs);
            let value = &values[m.output];
            match &m.memory {
                None => copy_back(target, value, &held)?,
                Some((meta, behind)) => {
                    let at = target.byte_offset();
                    let written = results::view_of(target, at, *behind, meta)?;
                    copy_back(&written, value, &held)?;
                }
            }
        }
        delivered(traced, arguments, &values)
    }

    /// For each output buffer the gradient that it may be written over.
    fn spare(&self, arguments: &[&Tensor]) -> SmallVec<[Option<Tensor>; 8]> {
        let mut all = SmallVec::new();
        for (i, Fresh { meta, bytes, over, .. }) in self.results.fresh.iter().enumerate() {
            let Some(Over::Gradient { used, .. }) = over else { continue };
            all.resize(i, None);
            all.push(tape::spare(&self.traced.grads[*used], arguments, meta, *bytes));
        }
        all
    }

    /// A call has failed: gradients whose memory it may have written are gone, as in eager code,
    /// which clears them first.
    #[cold]
    fn drop_written(&self, arguments: &[&Tensor], fresh: &[Tensor]) {
        for (Fresh { over, .. }, written) in self.results.fresh.iter().zip(fresh) {
            if let Some(Over::Gradient { used, safe: false }) = over {
                tape::forget(&self.traced.grads[*used], arguments, written);
            }
        }
    }

    /// The error of an output that cannot be allocated.
    #[cold]
    fn no_memory(&self, output: usize, e: impl Into<Error>) -> Error {
        let traced = &self.traced;
        failure::out_of_memory(&traced.graph, Some(traced.roots[output].node), e.into())
    }

    /// Access to everything that the plan reads and writes, held until the results are delivered:
    /// no other call sees a half-finished function or overwrites its results.
    #[inline]
    fn borrow<'a>(
        &'a self,
        arguments: &[&'a Tensor],
        inputs: &[&'a Tensor],
        held: &mut Borrows<'a>,
    ) -> Result<()> {
        let parameters = &self.traced.parameters;
        if self.traced.mutations.is_empty() {
            let mut all = inputs.iter().copied().chain(parameters.iter().map(|t| &**t));
            if all.all(|t| held.try_read(t) && !t.is_reshaped()) {
                return Ok(());
            }
            *held = Borrows::default();
        }
        let written = self.written(arguments, inputs);
        let is_written = |t: &Tensor| written.iter().any(|w| w.shares_storage_with(t));
        let mut at_once = written.iter().all(|t| held.try_write(t));
        for t in inputs {
            at_once = at_once && (is_written(t) || held.try_read(t));
        }
        for t in parameters {
            at_once = at_once && (is_written(t) || held.try_read(t));
        }
        if !at_once {
            *held = Borrows::default();
            let all = inputs.iter().copied().chain(parameters.iter().map(|t| &**t));
            let reads: Vec<&Tensor> = all.filter(|t| !is_written(t)).collect();
            let taken = Operands::default().writing(&written).reading(&reads).take()?;
            held.reads.extend(taken.reads);
            held.writes.extend(written.iter().copied().zip(taken.writes));
        }
        for t in inputs.iter().chain(&written) {
            t.check_settled()?;
        }
        parameters.iter().try_for_each(|t| t.check_settled())
    }

    /// One tensor of each storage that gets new values. A storage whose shape changes as well is
    /// not among them: no other thread has ever entered it.
    fn written<'a>(
        &'a self,
        arguments: &[&'a Tensor],
        inputs: &[&'a Tensor],
    ) -> SmallVec<[&'a Tensor; 2]> {
        let traced = &self.traced;
        let mut written: SmallVec<[&Tensor; 2]> = SmallVec::new();
        for m in &traced.mutations {
            let target = owned(&m.target, arguments, inputs);
            let reshaped = (traced.reshapes.iter())
                .any(|r| owned(&r.target, arguments, inputs).shares_storage_with(target));
            if !reshaped && !written.iter().any(|w| w.shares_storage_with(target)) {
                written.push(target);
            }
        }
        written
    }

    /// The graph's outputs as tensors.
    #[inline]
    fn bind(&self, inputs: &[&Tensor], fresh: &[Tensor], held: &Borrows<'_>) -> Result<Results> {
        let schedule = self.code.schedule();
        let mut values = Results::new();
        for (i, binding) in schedule.outputs.iter().enumerate() {
            values.push(match binding {
                OutputBinding::Fresh { index, .. } => fresh[*index as usize].clone(),
                OutputBinding::View { of, meta, offset } => {
                    let (storage, base) = match of {
                        ViewSource::Input(i) => {
                            let t = inputs[*i as usize];
                            (t.storage().clone(), t.offset())
                        }
                        ViewSource::Parameter(i) => {
                            let t = &self.traced.parameters[*i as usize];
                            (t.storage().clone(), t.offset())
                        }
                        ViewSource::Output(i) => (fresh[*i as usize].storage().clone(), 0),
                    };
                    let view = tensor(storage, meta, base + offset);
                    // the new values are read after other writes
                    let brought = (self.traced.mutations.iter()).any(|m| m.output == i);
                    if self.shares(i, *of) && !brought {
                        view
                    } else {
                        // Rewriting found the value in memory that the function did not alias
                        // it with (a copy of an argument, say): the caller gets its own.
                        own_copy(&view, meta, held).map_err(|e| self.no_memory(i, e))?
                    }
                }
            });
        }
        Ok(values)
    }

    /// Whether the captured function itself made output `i` a view of `of`.
    fn shares(&self, i: usize, of: ViewSource) -> bool {
        let traced = &self.traced;
        let root = traced.roots[i];
        match of {
            ViewSource::Input(k) => traced.graph.inputs().get(k as usize) == Some(&root.node),
            ViewSource::Parameter(k) => {
                traced.graph.parameters().get(k as usize) == Some(&root.node)
            }
            ViewSource::Output(k) => self
                .code
                .schedule()
                .outputs
                .iter()
                .position(|b| matches!(b, OutputBinding::Fresh { index, .. } if *index == k))
                .is_some_and(|owner| traced.roots[owner] == root),
        }
    }
}

/// The results of a call, made from the values of the graph's outputs.
pub(super) fn delivered(
    traced: &Traced,
    arguments: &[&Tensor],
    values: &[Tensor],
) -> Result<Results> {
    let mut delivered = Results::new();
    for source in &traced.outputs {
        let result = match source {
            OutputSource::Value(i) => values[*i].clone(),
            OutputSource::Input(i) => arguments[*i].clone(),
            OutputSource::Tensor(t) => (**t).clone(),
            OutputSource::Same(i) => delivered[*i].clone(),
            OutputSource::View { of, meta, bits, start } => {
                let of = match of {
                    ViewOf::Value(i) => &values[*i],
                    ViewOf::Input(i) => arguments[*i],
                    ViewOf::Tensor(t) => t,
                };
                let view = results::view_of(of, of.byte_offset(), *start, meta)?;
                match bits.any() {
                    true => view.with_math_bits(bits.conj, bits.neg),
                    false if of.requires_grad() && of.dtype() == meta.dtype => {
                        captured::as_view(view, of)
                    }
                    false => view,
                }
            }
        };
        delivered.push(result);
    }
    tape::deliver(traced, arguments, &mut |place| place, &delivered);
    Ok(delivered)
}

fn tensor(storage: Storage, meta: &TensorMeta, offset: i64) -> Tensor {
    Tensor::build(storage, meta.dtype, meta.device, &meta.sizes, &meta.strides, offset)
}

/// What a call holds.
#[derive(Default)]
struct Borrows<'a> {
    reads: SmallVec<[ReadGuard<'a>; 16]>,
    /// For each storage that is written one of its tensors.
    writes: SmallVec<[(&'a Tensor, WriteGuard<'a>); 2]>,
}

impl<'a> Borrows<'a> {
    #[inline]
    fn try_read(&mut self, t: &'a Tensor) -> bool {
        let guard = t.storage().try_read();
        guard.map(|guard| self.reads.push(guard)).is_some()
    }

    fn try_write(&mut self, t: &'a Tensor) -> bool {
        let guard = t.storage().try_hold();
        guard.map(|guard| self.writes.push((t, guard))).is_some()
    }

    fn exclusive(&self, t: &Tensor) -> Option<&WriteGuard<'a>> {
        let same = self.writes.iter().find(|(w, _)| w.shares_storage_with(t));
        same.map(|(_, guard)| guard)
    }
}

/// A copy in memory of its own with exactly the strides given, repeated dimensions included; not
/// dispatched.
fn own_copy(value: &Tensor, meta: &TensorMeta, held: &Borrows<'_>) -> Result<Tensor> {
    // along a dimension with stride 0 all elements are the first one
    let once = layout::once(&meta.sizes, &meta.strides);
    let out = Tensor::allocate(meta.dtype, meta.device, once.clone(), meta.strides.clone())?;
    let source = value.with_geometry(once, Dims::from_slice(value.strides()), value.offset());
    copy_back(&out, &source, held)?;
    Ok(tensor(out.storage().clone(), meta, 0))
}

/// Writes the new value of a written argument; not dispatched.
fn copy_back(target: &Tensor, value: &Tensor, held: &Borrows<'_>) -> Result<()> {
    if target.same_handle(value)
        && let Some(guard) = held.exclusive(target)
    {
        // the plan has written it where it is
        target.storage().count_write(guard);
        return Ok(());
    }
    let other = match held.exclusive(value) {
        Some(_) => None,
        None => Some(value),
    };
    let guards = match held.exclusive(target) {
        Some(guard) => {
            access::check_no_internal_overlap(target)?;
            target.storage().count_write(guard);
            (None, other.map(Tensor::read).transpose()?)
        }
        None => (Some(access::write(target, other.as_slice())?), None),
    };
    // SAFETY: target is held exclusively and value shared, or by this call alone; they do not
    // overlap, since value is fresh or was copied; both have the sizes and dtype that capture
    // recorded.
    unsafe { copy_elements(target, value) }?;
    drop(guards);
    Ok(())
}
