//! Plans that are steps of another plan: branches and loops.
//!
//! A step of higher order is a runtime kernel like others ([`ExternFn`](super::ExternFn)), and what it
//! calls are plans. They read operands where the outer plan has them and compute into its memory for
//! results, unless something lies otherwise than their code has it: that is copied. What a loop carries
//! is in one of two places in turn.

use super::externs::{ExternCtx, View, ViewMut};
use super::{Plan, PlanError};
use crate::cpu::jit::ArgPtr;
use crate::cpu::kernels::{self, In, Out, Strided};
use crate::memory::{Block, allocate};
use smallvec::SmallVec;
use straightline_passes::ir::{TensorMeta, layout};
use straightline_passes::schedule::loops::{BufferKind, OutputBinding, ViewSource};

/// A graph that a call of higher order is given, as a plan.
#[derive(Debug)]
pub struct Body {
    plan: Plan,
    /// The inputs as the code reads them.
    inputs: Vec<TensorMeta>,
    /// The bytes of each buffer that the plan computes results in.
    fresh: Vec<usize>,
}

/// The failure of a plan that a step calls.
#[derive(Clone, Debug, thiserror::Error)]
#[error("graph {graph}: {error}")]
pub struct BodyError {
    /// Which graph, in the order of the call's arguments.
    pub graph: usize,
    /// What its plan says.
    pub error: PlanError,
}

/// A tensor between two steps of a loop.
struct Kept {
    block: Block,
    meta: TensorMeta,
}

impl Kept {
    fn new(meta: &TensorMeta) -> Result<Kept, PlanError> {
        Ok(Kept { block: allocate(meta.storage_bytes())?, meta: meta.clone() })
    }

    fn view(&self) -> View<'_> {
        let m = &self.meta;
        View { ptr: self.block.as_ptr(), dtype: m.dtype, sizes: &m.sizes, strides: &m.strides }
    }

    fn view_mut(&self) -> ViewMut<'_> {
        let m = &self.meta;
        ViewMut { ptr: self.block.as_ptr(), dtype: m.dtype, sizes: &m.sizes, strides: &m.strides }
    }
}

/// Whether strides say the same of these sizes.
fn same_layout(sizes: &[i64], a: &[i64], b: &[i64]) -> bool {
    let same = |(n, (a, b)): (&i64, (&i64, &i64))| *n == 1 || a == b;
    sizes.contains(&0) || sizes.iter().zip(a.iter().zip(b)).all(same)
}

/// Copies elements.
///
/// # Safety
///
/// `from` may be read and `to` written, and they lie apart.
unsafe fn copy(to: &ViewMut<'_>, from: &View<'_>) -> Result<(), PlanError> {
    let (to_ptr, from_ptr) = (to.ptr, from.ptr.cast_mut());
    let to = Strided { ptr: to_ptr, dtype: to.dtype, sizes: to.sizes, strides: to.strides };
    let from =
        Strided { ptr: from_ptr, dtype: from.dtype, sizes: from.sizes, strides: from.strides };
    // SAFETY: as the caller says.
    let (to, from) = unsafe { (Out::new(to), In::new(from)) };
    kernels::copy(to, from).map_err(|e| PlanError::Body { what: e.to_string() })
}

impl Body {
    /// A plan whose graph takes these inputs and no parameters.
    pub fn new(plan: Plan, inputs: Vec<TensorMeta>) -> Body {
        let mut fresh: Vec<usize> = Vec::new();
        for b in &plan.schedule().buffers {
            if let BufferKind::Output(i) = b.kind {
                let i = i as usize;
                fresh.resize(fresh.len().max(i + 1), 0);
                fresh[i] = b.len * b.dtype.size();
            }
        }
        Body { plan, inputs, fresh }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs the plan on these operands.
    ///
    /// # Safety
    ///
    /// The operands are those of the graph by dtype and sizes and may be read; the results likewise,
    /// and they may be written, and overlap nothing.
    unsafe fn run(&self, inputs: &[View<'_>], outputs: &[ViewMut<'_>]) -> Result<(), PlanError> {
        let bindings = &self.plan.schedule().outputs;
        if inputs.len() != self.inputs.len() || outputs.len() != bindings.len() {
            let what = format!("{} operands and {} results", inputs.len(), outputs.len());
            return Err(PlanError::Body { what });
        }
        let mut copies: SmallVec<[Kept; 2]> = SmallVec::new();
        let mut read: SmallVec<[ArgPtr; 8]> = SmallVec::new();
        for (view, meta) in inputs.iter().zip(&self.inputs) {
            if same_layout(view.sizes, view.strides, &meta.strides) {
                read.push(ArgPtr::new(view.ptr.cast_mut()));
                continue;
            }
            // SAFETY: as the caller says.
            let kept = unsafe { laid_out(view, meta)? };
            read.push(ArgPtr::new(kept.block.as_ptr()));
            copies.push(kept);
        }
        let mut places: SmallVec<[*mut u8; 4]> =
            SmallVec::from_elem(std::ptr::null_mut(), self.fresh.len());
        let mut direct: SmallVec<[bool; 4]> = SmallVec::from_elem(false, outputs.len());
        for (i, binding) in bindings.iter().enumerate() {
            if let OutputBinding::Fresh { index, meta } = binding
                && places[*index as usize].is_null()
                && same_layout(&meta.sizes, &meta.strides, outputs[i].strides)
                && !outputs[i].ptr.is_null()
            {
                places[*index as usize] = outputs[i].ptr;
                direct[i] = true;
            }
        }
        let mut blocks: SmallVec<[Block; 2]> = SmallVec::new();
        for (place, bytes) in places.iter_mut().zip(&self.fresh) {
            if place.is_null() {
                let block = allocate(*bytes)?;
                *place = block.as_ptr();
                blocks.push(block);
            }
        }
        // SAFETY: the inputs have the layouts that the code was made for; each buffer for results is
        // fresh, or memory for a result of the layout that the plan gives it.
        unsafe { self.plan.run(&read, &[], &places)? };
        for (i, binding) in bindings.iter().enumerate().filter(|(i, _)| !direct[*i]) {
            let (base, meta, offset) = match binding {
                OutputBinding::Fresh { index, meta } => (places[*index as usize], meta, 0),
                OutputBinding::View { of, meta, offset } => {
                    let base = match of {
                        ViewSource::Input(k) => read[*k as usize].ptr,
                        ViewSource::Output(k) => places[*k as usize],
                        ViewSource::Parameter(_) => {
                            let what = "a parameter in a graph without any".into();
                            return Err(PlanError::Body { what });
                        }
                    };
                    (base, meta, *offset)
                }
            };
            let at = base.wrapping_offset(offset as isize * meta.dtype.size() as isize);
            let (dtype, sizes, strides) = (meta.dtype, &meta.sizes[..], &meta.strides[..]);
            // SAFETY: the plan has written the source, or it is an operand; the result is memory of its
            // own.
            unsafe { copy(&outputs[i], &View { ptr: at, dtype, sizes, strides })? };
        }
        Ok(())
    }
}

/// Copies an operand to memory in the layout that a plan reads.
///
/// # Safety
///
/// The operand may be read.
unsafe fn laid_out(view: &View<'_>, meta: &TensorMeta) -> Result<Kept, PlanError> {
    // of elements that repeat, each is written once
    let sizes = layout::once(&meta.sizes, &meta.strides);
    if layout::may_overlap(&sizes, &meta.strides) {
        let what = format!("an operand with strides {:?}, which overlap", &meta.strides[..]);
        return Err(PlanError::Body { what });
    }
    let kept = Kept::new(meta)?;
    // SAFETY: the memory is fresh, and what is written of it does not overlap.
    unsafe {
        copy(&ViewMut { sizes: &sizes, ..kept.view_mut() }, &View { sizes: &sizes, ..*view })?
    };
    Ok(kept)
}

fn failed(graph: usize) -> impl Fn(PlanError) -> BodyError {
    move |error| BodyError { graph, error }
}

fn unlike(what: &str) -> BodyError {
    failed(0)(PlanError::Body { what: what.to_string() })
}

/// Whether a predicate is true.
///
/// # Safety
///
/// The view is of one truth value that may be read.
unsafe fn holds(pred: &View<'_>) -> bool {
    // SAFETY: as the caller says; a byte of any value may be read as one.
    unsafe { *pred.ptr != 0 }
}

/// `cond`: runs the first of `branches` if the first operand is true, else the second, on the others.
///
/// # Errors
///
/// That of the branch.
///
/// # Safety
///
/// The views are valid during the call, as those that a plan gives its kernels are; the first operand
/// is one truth value, and the others and the results are those of both graphs by dtype and sizes.
pub unsafe fn cond(ctx: &ExternCtx<'_>, branches: [&Body; 2]) -> Result<(), BodyError> {
    let [pred, operands @ ..] = ctx.inputs else { return Err(unlike("no predicate")) };
    // SAFETY: as the caller says.
    let graph = usize::from(!unsafe { holds(pred) });
    // SAFETY: as the caller says.
    unsafe { branches[graph].run(operands, ctx.outputs) }.map_err(failed(graph))
}

/// `while_loop`: runs `body` on what is carried, as long as `cond` says so.
///
/// # Errors
///
/// Those of the graphs.
///
/// # Safety
///
/// The views are valid during the call. The operands are those of both graphs by dtype and sizes, of
/// which the first, as many as there are results, are what is carried. `cond` gives one truth value.
pub unsafe fn while_loop(ctx: &ExternCtx<'_>, cond: &Body, body: &Body) -> Result<(), BodyError> {
    let count = ctx.outputs.len();
    let (Some(carried), Some(rest)) = (ctx.inputs.get(..count), ctx.inputs.get(count..)) else {
        return Err(unlike("fewer operands than results"));
    };
    let mut turns = Turns::new(ctx.outputs);
    let mut again = 0u8;
    loop {
        turns.prepare().map_err(failed(1))?;
        let now: Operands<'_> = turns.now(carried).chain(rest.iter().copied()).collect();
        // SAFETY: as the caller says; what is carried has been written by the body.
        unsafe { cond.predicate(&now, &raw mut again) }.map_err(failed(0))?;
        if again == 0 {
            break;
        }
        let next: Results<'_> = turns.next().collect();
        // SAFETY: the same; what comes next lies apart from what is carried now.
        unsafe { body.run(&now, &next) }.map_err(failed(1))?;
        drop((now, next));
        turns.step += 1;
    }
    // SAFETY: results are the outer plan's own memory.
    unsafe { turns.finish(carried, ctx.outputs) }.map_err(failed(1))
}

/// `scan`: runs `body` on what is carried, a slice of each of the `xs` operands after it, and the rest.
///
/// # Errors
///
/// Those of the graph.
///
/// # Safety
///
/// The views are valid during the call. What is carried comes first among operands and results, `carried`
/// of them; the next `xs` operands and all further results have the same first size. By dtype and sizes
/// all are those of the graph, slices in place of what is sliced.
pub unsafe fn scan(
    ctx: &ExternCtx<'_>,
    body: &Body,
    carried: usize,
    xs: usize,
    reverse: bool,
) -> Result<(), BodyError> {
    let (Some(first), Some(sliced), Some(rest)) = (
        ctx.inputs.get(..carried),
        ctx.inputs.get(carried..carried + xs),
        ctx.inputs.get(carried + xs..),
    ) else {
        return Err(unlike("fewer operands than are scanned"));
    };
    let (Some(last), Some(ys)) = (ctx.outputs.get(..carried), ctx.outputs.get(carried..)) else {
        return Err(unlike("fewer results than are carried"));
    };
    let counts = sliced.iter().map(|x| x.sizes).chain(ys.iter().map(|y| y.sizes));
    let mut counts = counts.map(|sizes| sizes.first().copied());
    let Some(Some(count)) = counts.next() else { return Err(unlike("nothing to scan")) };
    if counts.any(|other| other != Some(count)) {
        return Err(unlike("slices that do not go together"));
    }
    let mut turns = Turns::new(last);
    for step in 0..count {
        let at = if reverse { count - 1 - step } else { step };
        let place = |stride: i64, size: usize| (at * stride) as isize * size as isize;
        let slices = sliced.iter().map(|x| View {
            ptr: x.ptr.wrapping_offset(place(x.strides[0], x.dtype.size())),
            dtype: x.dtype,
            sizes: &x.sizes[1..],
            strides: &x.strides[1..],
        });
        turns.prepare().map_err(failed(0))?;
        let now: Operands<'_> =
            turns.now(first).chain(slices).chain(rest.iter().copied()).collect();
        let of_ys = ys.iter().map(|y| ViewMut {
            ptr: y.ptr.wrapping_offset(place(y.strides[0], y.dtype.size())),
            dtype: y.dtype,
            sizes: &y.sizes[1..],
            strides: &y.strides[1..],
        });
        let next: Results<'_> = turns.next().chain(of_ys).collect();
        // SAFETY: as the caller says: slices are parts of operands and of results.
        unsafe { body.run(&now, &next) }.map_err(failed(0))?;
        drop((now, next));
        turns.step += 1;
    }
    // SAFETY: results are the outer plan's own memory.
    unsafe { turns.finish(first, last) }.map_err(failed(0))
}

impl Body {
    /// Runs a plan whose only result is one truth value.
    ///
    /// # Safety
    ///
    /// As [`Body::run`]; `flag` may be written.
    unsafe fn predicate(&self, inputs: &[View<'_>], flag: *mut u8) -> Result<(), PlanError> {
        let meta = match self.plan.schedule().outputs.first() {
            Some(OutputBinding::Fresh { meta, .. } | OutputBinding::View { meta, .. }) => meta,
            None => return Err(PlanError::Body { what: "no predicate".into() }),
        };
        let (dtype, sizes, strides) = (meta.dtype, &meta.sizes[..], &meta.strides[..]);
        // SAFETY: as the caller says; it has one element.
        unsafe { self.run(inputs, &[ViewMut { ptr: flag, dtype, sizes, strides }]) }
    }
}

type Operands<'a> = SmallVec<[View<'a>; 8]>;
type Results<'a> = SmallVec<[ViewMut<'a>; 8]>;

/// What a loop carries: the operands at first, then one of two places in turn.
struct Turns {
    metas: Vec<TensorMeta>,
    places: [Vec<Kept>; 2],
    /// How many steps there were.
    step: usize,
}

impl Turns {
    fn new(results: &[ViewMut<'_>]) -> Turns {
        let meta = |r: &ViewMut<'_>| TensorMeta::contiguous(r.dtype, r.sizes);
        Turns { metas: results.iter().map(meta).collect(), places: Default::default(), step: 0 }
    }

    /// Allocates the place for what comes next.
    fn prepare(&mut self) -> Result<(), PlanError> {
        let place = &mut self.places[self.step % 2];
        if place.len() < self.metas.len() {
            *place = self.metas.iter().map(Kept::new).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// What is carried now.
    fn now<'a>(&'a self, first: &'a [View<'a>]) -> impl Iterator<Item = View<'a>> {
        let (first, kept): (&[View<'a>], &[Kept]) = match self.step {
            0 => (first, &[]),
            n => (&[], &self.places[(n - 1) % 2]),
        };
        first.iter().copied().chain(kept.iter().map(Kept::view))
    }

    /// Where it comes next.
    fn next(&self) -> impl Iterator<Item = ViewMut<'_>> {
        self.places[self.step % 2].iter().map(Kept::view_mut)
    }

    /// Copies what is carried to the results.
    ///
    /// # Safety
    ///
    /// The results may be written and the operands read; results overlap nothing.
    unsafe fn finish(&self, first: &[View<'_>], results: &[ViewMut<'_>]) -> Result<(), PlanError> {
        for (from, to) in self.now(first).zip(results) {
            // SAFETY: as the caller says.
            unsafe { copy(to, &from)? };
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "branch_tests.rs"]
mod tests;
