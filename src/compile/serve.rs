//! How a call of a compiled function is served: by a variant, by capturing the function on a miss, or
//! by running it.

use super::capture::{Captured, Outcome, Wanted, capture_for, capture_or_perform};
use super::dependent::{self, Known, Part};
use super::devices;
use super::dynamic;
use super::flat;
use super::guards::{GuardMiss, Guards};
use super::options::{CompileEvent, CompileOptions, DynamicSizes};
use super::replay::Results;
use super::settle;
use super::stages::Executable;
use super::traced::Traced;
use super::training;
use super::tree::TensorTree;
use super::turn::{PATIENCE, Turn, TurnGuard};
use super::variants::{Among, Then, Variant, Variants};
use crate::dispatch::{
    DispatchError, TlsKeySets, Value, check_captured, record_function, record_lazily,
};
use crate::error::{Error, ErrorKind, Result};
use crate::modes::dependent::answering;
use crate::modes::{fake, interception, tracer};
use crate::tensor::Tensor;
use smallvec::SmallVec;
use std::panic::Location;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use straightline_catalog::TensorMeta;

pub(super) type Function<I, O> = Box<dyn Fn(&I) -> Result<O> + Send + Sync>;

/// So many captures for nothing, and calls that no code serves run eagerly at once.
const FUTILE: usize = 4;

/// How many events are kept; older ones are dropped.
const EVENTS_KEPT: usize = 256;

/// A compiled function.
pub(super) struct Inner<I, O> {
    pub(super) function: Function<I, O>,
    /// Where `compile` was called.
    at: &'static Location<'static>,
    pub(super) options: CompileOptions,
    pub(super) variants: Variants<I, O>,
    /// How often a call was captured when no more code may be generated, for nothing.
    futile: AtomicUsize,
    /// Which call makes a variant.
    turn: Turn,
    events: Mutex<Vec<CompileEvent>>,
    /// Calls whose function left tensors in outside state, once. Taken by the call whose turn it
    /// is.
    performed: Mutex<Vec<(Guards, I)>>,
}

/// A call, or what the rest of a function is given.
struct Given<'a, I> {
    inputs: &'a I,
    leaves: &'a [&'a Tensor],
    /// Whether there are wrapper tensors in the inputs.
    wrapped: bool,
    tls: TlsKeySets,
}

/// A front that has run in a call, and the results of the call behind it.
struct Passed<'a, I, O> {
    then: &'a Then<I, O>,
    front: Results,
    results: Vec<Value>,
}

/// What the part behind these fronts is given.
fn leaves_behind<'a, I, O>(
    call: &Given<'a, I>,
    passed: &'a [Passed<'_, I, O>],
) -> SmallVec<[&'a Tensor; 16]> {
    let given = passed.iter().flat_map(|p| p.then.part.given(&p.front, &p.results));
    call.leaves.iter().copied().chain(given).collect()
}

/// The outcome of a call that no variant serves.
enum Built<'a, I, O> {
    Variant(&'a Variant<I, O>),
    /// That of a front, with what was captured for the whole function.
    Front(&'a Variant<I, O>, Box<Captured<O>>),
    /// The function's calls have been made, and no variant is kept.
    Done(O),
    /// One variant too many.
    Full,
}

impl<I, O> Inner<I, O> {
    /// Nothing captured yet.
    pub(super) fn new(
        options: CompileOptions,
        function: Function<I, O>,
        at: &'static Location<'static>,
    ) -> Inner<I, O> {
        Inner {
            function,
            at,
            options,
            variants: Variants::default(),
            futile: AtomicUsize::new(0),
            turn: Turn::default(),
            events: Mutex::new(Vec::new()),
            performed: Mutex::new(Vec::new()),
        }
    }
}

impl<I: TensorTree, O: TensorTree> Inner<I, O> {
    /// Captures the function for these inputs.
    pub(super) fn trace(&self, inputs: &I) -> Result<Traced> {
        let mut leaves = Vec::new();
        flat::visit(inputs, &mut |t| leaves.push(t));
        let wanted = Wanted { perform: false, joint: true };
        let capture = || capture_for(&*self.function, inputs, wanted);
        let known = Rc::new(Known::new(&leaves));
        Ok(answering(known, capture)?.traced)
    }

    /// The call with a value of the function's own type.
    pub(super) fn call(&self, inputs: &I) -> Result<O> {
        let mut leaves: SmallVec<[&Tensor; 8]> = SmallVec::new();
        let wrapped = flat::visit(inputs, &mut |t| leaves.push(t));
        let tls = TlsKeySets::current();
        let call = Given { inputs, leaves: &leaves, wrapped, tls };
        match find(&self.variants, &call) {
            Some(variant) => self.replay(variant, &call, None),
            None => self.miss(&call),
        }
    }

    /// Runs a variant, and what follows if it is that of a front: then `captured` may be the function
    /// as it was captured for this call.
    fn replay(
        &self,
        variant: &Variant<I, O>,
        call: &Given<'_, I>,
        captured: Option<Box<Captured<O>>>,
    ) -> Result<O> {
        if variant.then.is_some() {
            return self.replay_parts(variant, call, captured);
        }
        let (Some(code), Some(output)) = (&variant.code, &variant.output) else {
            return (self.function)(call.inputs);
        };
        let _range = record_lazily(|| format!("compiled variant {}", variant.number));
        let mut results = code.run(call.leaves)?.into_iter();
        Ok(flat::rebuild(output, &variant.handed, call.inputs, &mut results))
    }

    /// Runs a function in parts. What it has drawn is drawn again where it has to run eagerly after
    /// all; it has done nothing else that could be seen.
    fn replay_parts(
        &self,
        first: &Variant<I, O>,
        call: &Given<'_, I>,
        captured: Option<Box<Captured<O>>>,
    ) -> Result<O> {
        let state = first.draws.then(dependent::draws).transpose()?;
        if let Some(output) = self.replay_each(first, call, captured)? {
            return Ok(output);
        }
        state.iter().for_each(dependent::rewind);
        (self.function)(call.inputs)
    }

    /// Runs the front of a function, makes the call behind it, and goes on with the rest for the sizes
    /// that its results have; `None` if no code may be made for these.
    fn replay_each(
        &self,
        first: &Variant<I, O>,
        call: &Given<'_, I>,
        mut captured: Option<Box<Captured<O>>>,
    ) -> Result<Option<O>> {
        let (mut at, mut passed) = (first, Vec::<Passed<'_, I, O>>::new());
        let Some(front) = &first.code else { return Ok(None) };
        let _held = dependent::hold(front.captured(), call.leaves)?;
        loop {
            let Some(code) = &at.code else { return Ok(None) };
            let _range = record_lazily(|| format!("compiled variant {}", at.number));
            let front = code.run(&leaves_behind(call, &passed))?;
            let then = match (&at.then, &at.output) {
                (Some(then), _) => then,
                (None, None) => return Ok(None),
                (None, Some(output)) => {
                    let mut results = front.into_iter();
                    let done = flat::rebuild(output, &at.handed, call.inputs, &mut results);
                    return Ok(Some(done));
                }
            };
            let results = then.part.call(&front)?;
            passed.push(Passed { then, front, results });
            let leaves = leaves_behind(call, &passed);
            let rest = Given { leaves: &leaves, ..*call };
            let next = match find(&then.rests, &rest) {
                Some(next) => Some(next),
                None => self.rest(call, &rest, &passed, &mut captured)?,
            };
            match next {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
    }

    pub(super) fn events(&self) -> MutexGuard<'_, Vec<CompileEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, event: CompileEvent) {
        let mut events = self.events();
        if events.len() == EVENTS_KEPT {
            events.remove(0);
        }
        events.push(event);
    }

    /// [`Inner::record`], unless the last event is the same.
    fn record_once(&self, event: CompileEvent) {
        let news = self.events().last() != Some(&event);
        if news {
            self.record(event);
        }
    }

    #[cold]
    fn miss(&self, call: &Given<'_, I>) -> Result<O> {
        let Given { inputs, leaves, tls, .. } = *call;
        if tracer::current().is_some() {
            // inside another capture: the operators are recorded in that graph
            check_captured()?;
            return (self.function)(inputs);
        }
        if settle::is_at_work() {
            // called by a kernel that a capture runs, perhaps the capture of this function
            return (self.function)(inputs);
        }
        if fake::is_pushed() || leaves.iter().any(|t| t.is_fake()) {
            // only shapes are computed
            return (self.function)(inputs);
        }
        // machine code reads memory, and the values of tensors with math bits differ from their
        // memory
        let bits = leaves.iter().any(|t| t.has_math_bits());
        let bits = bits.then(|| "the resolving of conjugate and negative arguments".to_string());
        if let Some(by) = bits.or_else(interception) {
            self.record_once(CompileEvent::Intercepted { by });
            return (self.function)(inputs);
        }
        let Some(turn) = self.turn() else {
            return (self.function)(inputs);
        };
        if let Some(variant) = find(&self.variants, call) {
            drop(turn);
            return self.replay(variant, call, None);
        }
        let misses = misses(&self.variants, call);
        self.retire_outdated();
        // a variant that turns out to serve still needs no new slot
        let doubtful = self.variants.newest_first().any(|v| v.is_doubtful(inputs, leaves, tls));
        let built =
            match self.is_full(&self.variants) && !doubtful && !self.may_share(&self.variants) {
                true => Built::Full,
                false => self.build(call, &misses, &turn)?,
            };
        drop(turn);
        match built {
            Built::Variant(variant) => self.replay(variant, call, None),
            Built::Front(variant, captured) => self.replay(variant, call, Some(captured)),
            Built::Done(output) => Ok(output),
            Built::Full => {
                self.record_full(&self.variants, misses);
                (self.function)(inputs)
            }
        }
    }

    /// The turn to make a variant; `None` if another thread has it for too long.
    fn turn(&self) -> Option<TurnGuard<'_>> {
        let turn = self.turn.take(PATIENCE);
        if turn.is_none() {
            let event = CompileEvent::Awaited { waited: PATIENCE };
            tracing::warn!("{event}");
            self.record_once(event);
        }
        turn
    }

    fn record_full(&self, among: &Variants<I, O>, misses: Vec<GuardMiss>) {
        let limit = match among.sharing() >= self.options.max_sizes {
            true => self.options.max_sizes,
            false => self.options.max_variants,
        };
        let event = CompileEvent::VariantLimit { limit, misses };
        tracing::warn!("{event}");
        self.record(event);
    }

    fn record_fallback(&self, reason: String) {
        let event = CompileEvent::EagerFallback { reason };
        tracing::warn!("{event}");
        self.record(event);
    }

    /// Retires the variants whose operators have other registrations now.
    fn retire_outdated(&self) {
        for Among { variant: v, among } in self.variants.all() {
            if let Some(op) = v.guards.outdated()
                && among.retire(v)
            {
                let event =
                    CompileEvent::Outdated { variant: v.number, operator: op.name().to_string() };
                tracing::debug!("{event}");
                self.record(event);
            }
        }
    }

    fn is_full(&self, among: &Variants<I, O>) -> bool {
        among.are_full(self.options.max_variants) || among.sharing() >= self.options.max_sizes
    }

    /// Whether a variant that shares the code of another one may be added when there can be no more
    /// code.
    fn may_share(&self, among: &Variants<I, O>) -> bool {
        self.options.dynamic != DynamicSizes::Never
            && among.sharing() < self.options.max_sizes
            && self.futile.load(Ordering::Relaxed) < FUTILE
            && among.codes().next().is_some()
    }

    /// Captures the function, for a call of which this is known.
    fn capture(&self, inputs: &I, known: Rc<Known>, wanted: Wanted) -> Result<Outcome<O>> {
        let _range = record_function("capture");
        let capture = || capture_or_perform(&*self.function, inputs, wanted);
        answering(known, capture).map_err(|e| match e.location() {
            Some(_) => e,
            // an error without a line of its own is reported at this function
            None => e.with_location(self.at),
        })
    }

    /// The variant that still serves although handles to closed-over tensors have been dropped.
    /// Variants that read tensors which the function no longer uses are retired.
    fn accepted(
        &self,
        captured: &Captured<O>,
        inputs: &I,
        leaves: &[&Tensor],
    ) -> Option<&Variant<I, O>> {
        let doubtful =
            self.variants.newest_first().filter(|v| v.is_doubtful(inputs, leaves, captured.tls));
        for v in doubtful {
            let Some(code) = &v.code else { continue };
            if code.captured().is_same_as(&captured.traced) {
                v.guards.accept_handles();
                return Some(v);
            }
            v.guards.retire();
            self.variants.retire(v);
        }
        None
    }

    /// Whether the function has left tensors in outside state at such a call before; marks it as
    /// having done so.
    fn was_performed(&self, call: &Given<'_, I>, tls: TlsKeySets, like: &I) -> bool {
        let mut performed = (self.performed.lock()).unwrap_or_else(PoisonError::into_inner);
        let same = |(guards, input): &(Guards, I)| {
            guards.hold(call.leaves, tls) && flat::difference(call.inputs, input).is_none()
        };
        let before = performed.iter().any(same);
        if !before && performed.len() < self.options.max_variants {
            let like = flat::map(like, &mut Tensor::clone);
            performed.push((Guards::new(call.leaves, tls, None), like));
        }
        before
    }

    /// Captures and compiles.
    fn build(
        &self,
        call: &Given<'_, I>,
        misses: &[GuardMiss],
        _turn: &TurnGuard<'_>,
    ) -> Result<Built<'_, I, O>> {
        let Given { inputs, leaves, wrapped, .. } = *call;
        devices::check_inputs(leaves)?;
        let begin = Instant::now();
        let number = self.variants.all().len();
        let input = template(inputs);
        let _range = record_lazily(|| format!("compile variant {number}"));
        let eager = || Variant::eager(number, leaves, template(inputs), wrapped);
        let wanted = Wanted { perform: self.options.eager_fallback, joint: true };
        let captured = match self.capture(inputs, Rc::new(Known::new(leaves)), wanted) {
            Ok(Outcome::Performed(output, e)) => {
                self.record_fallback(e.to_string());
                // a cache that is filled once can be captured the next time; state that each call
                // replaces cannot
                let tls = TlsKeySets::current();
                if self.was_performed(call, tls, &input) && !self.is_full(&self.variants) {
                    self.variants.publish(eager());
                }
                return Ok(Built::Done(output));
            }
            Ok(Outcome::Recorded { why: reason, once }) => {
                self.record_fallback(reason);
                let tls = TlsKeySets::current();
                let lasts = !once || self.was_performed(call, tls, &input);
                if lasts && !self.is_full(&self.variants) {
                    self.variants.publish(eager());
                }
                return Ok(Built::Done((self.function)(inputs)?));
            }
            Ok(Outcome::Captured(captured)) => Ok(captured),
            Err(e) => Err(e),
        };
        if let Ok(captured) = &captured
            && let Some(variant) = self.accepted(captured, inputs, leaves)
        {
            return Ok(Built::Variant(variant));
        }
        let generate = !self.is_full(&self.variants);
        if !generate && !self.may_share(&self.variants) {
            return Ok(Built::Full);
        }
        let shareable = self.shareable(self.variants.codes());
        let made = captured.and_then(|captured| {
            devices::check_captured(&captured.traced)?;
            let sampled = match shareable.is_empty() && self.options.dynamic != DynamicSizes::Never
            {
                true => dynamic::sample(&*self.function, &self.options, inputs, leaves)?,
                false => None,
            };
            let made = self.compile(&captured.traced, &shareable, sampled.as_ref(), generate)?;
            Ok((captured, made))
        });
        match made {
            Ok((_, None)) => {
                self.futile.fetch_add(1, Ordering::Relaxed);
                Ok(Built::Full)
            }
            Ok((captured, Some((code, part)))) => {
                let guards = Guards::new(leaves, captured.tls, Some(&captured.traced));
                let mut variant = Variant::new(number, leaves, guards, input, wrapped);
                variant.shares = self.record_compiled(number, &shareable, &code, misses, begin);
                variant.code = Some(code);
                Ok(self.publish(&self.variants, variant, captured, part))
            }
            Err(e) if self.falls_back(&e) => {
                self.record_fallback(e.to_string());
                Ok(Built::Variant(self.variants.publish(eager())))
            }
            Err(e) => Err(e),
        }
    }

    /// The variant of the rest of a function, for what it is given behind the fronts on the way;
    /// `None` if the function has to run eagerly.
    fn rest<'a>(
        &self,
        call: &Given<'_, I>,
        rest: &Given<'_, I>,
        passed: &[Passed<'a, I, O>],
        earlier: &mut Option<Box<Captured<O>>>,
    ) -> Result<Option<&'a Variant<I, O>>> {
        let Some((Passed { then, .. }, turn)) = passed.last().zip(self.turn()) else {
            return Ok(None);
        };
        let (among, leaves) = (&then.rests, rest.leaves);
        if let Some(variant) = find(among, rest) {
            return Ok(Some(variant));
        }
        let generate = !self.is_full(among);
        let misses = misses(among, rest);
        if !generate && !self.may_share(among) {
            self.record_full(among, misses);
            return Ok(None);
        }
        let begin = Instant::now();
        let number = self.variants.all().len();
        let _range = record_lazily(|| format!("compile variant {number}"));
        // what is behind the fronts, of what was captured for these sizes
        let behind = |captured: &Captured<O>| {
            let mut count = call.leaves.len();
            passed.iter().try_fold(captured.traced.clone(), |traced, Passed { then, .. }| {
                let given: Vec<TensorMeta> =
                    leaves[count..][..then.part.count()].iter().map(|t| t.meta()).collect();
                let rest = then.part.rest(&traced, count, &given);
                count += given.len();
                rest
            })
        };
        let mut found = earlier.take().and_then(|c| behind(&c).map(|rest| (c, rest)));
        if found.is_none() {
            let wanted = Wanted { perform: false, joint: true };
            let known = Known::new(call.leaves);
            passed.iter().for_each(|p| known.learn(&p.then.part, &p.front, &p.results));
            found = match self.capture(call.inputs, Rc::new(known), wanted) {
                Ok(Outcome::Captured(c)) => behind(&c).map(|rest| (c, rest)),
                Ok(Outcome::Performed(_, e)) => {
                    self.record_fallback(e.to_string());
                    return Ok(None);
                }
                Ok(Outcome::Recorded { why, .. }) => {
                    self.record_fallback(why);
                    return Ok(None);
                }
                Err(e) if self.falls_back(&e) => {
                    self.record_fallback(e.to_string());
                    return Ok(None);
                }
                Err(e) => return Err(e),
            };
        }
        let Some((captured, traced)) = found else {
            let op = then.part.op();
            self.record_fallback(format!(
                "what the function does before `{op}` is not the same for all sizes of its results"
            ));
            return Ok(None);
        };
        let shareable = self.shareable(among.codes());
        let Some((code, part)) = self.compile(&traced, &shareable, None, generate)? else {
            self.futile.fetch_add(1, Ordering::Relaxed);
            self.record_full(among, misses);
            return Ok(None);
        };
        let guards = Guards::new(leaves, captured.tls, Some(&traced));
        let mut variant = Variant::new(number, leaves, guards, template(call.inputs), call.wrapped);
        variant.shares = self.record_compiled(number, &shareable, &code, &misses, begin);
        variant.code = Some(code);
        drop(turn);
        match self.publish(among, variant, captured, part) {
            Built::Front(variant, captured) => {
                *earlier = Some(captured);
                Ok(Some(variant))
            }
            Built::Variant(variant) => Ok(Some(variant)),
            Built::Done(_) | Built::Full => Ok(None),
        }
    }

    /// The codes that others may run.
    fn shareable<'a>(
        &self,
        codes: impl Iterator<Item = (usize, &'a Executable)>,
    ) -> Vec<(usize, &'a Executable)> {
        match self.options.dynamic {
            DynamicSizes::Never => Vec::new(),
            DynamicSizes::Automatic => codes.collect(),
        }
    }

    /// Compiles a function, or the front of it, and says what follows.
    fn compile(
        &self,
        traced: &Traced,
        shareable: &[(usize, &Executable)],
        sampled: Option<&Executable>,
        generate: bool,
    ) -> Result<Option<(Executable, Option<Part>)>> {
        let (front, part) = Part::of(traced)?.unzip();
        let like: Vec<&Executable> = shareable.iter().map(|(_, c)| *c).chain(sampled).collect();
        let traced = front.as_ref().unwrap_or(traced);
        let code = training::compile(traced, &self.options, &like, generate)?;
        Ok(code.map(|code| (code, part)))
    }

    /// Notes that a variant has code; whether that is the code of another one.
    fn record_compiled(
        &self,
        variant: usize,
        shareable: &[(usize, &Executable)],
        code: &Executable,
        misses: &[GuardMiss],
        begin: Instant,
    ) -> bool {
        let first = shareable.iter().rev().find(|(_, c)| c.shares_code_with(code));
        let code_of = first.map(|(number, _)| *number);
        let (misses, took) = (misses.to_vec(), begin.elapsed());
        let event = CompileEvent::Compiled { variant, code_of, misses, took };
        tracing::debug!("{event}");
        self.record(event);
        code_of.is_some()
    }

    /// Adds a variant that has code: of a front, or of what was captured.
    fn publish<'a>(
        &self,
        to: &'a Variants<I, O>,
        mut variant: Variant<I, O>,
        captured: Box<Captured<O>>,
        part: Option<Part>,
    ) -> Built<'a, I, O> {
        match part {
            Some(part) => {
                variant.draws = captured.traced.draws();
                variant.then = Some(Box::new(Then { part, rests: Variants::default() }));
                Built::Front(to.publish(variant), captured)
            }
            None => {
                let Captured { output, handed, .. } = *captured;
                variant.output = Some(output);
                variant.handed = handed;
                Built::Variant(to.publish(variant))
            }
        }
    }

    fn falls_back(&self, e: &Error) -> bool {
        self.options.eager_fallback
            && (e.is_only_captured()
                || matches!(
                    e.kind(),
                    ErrorKind::DataDependent { .. }
                        | ErrorKind::NotCaptured { .. }
                        | ErrorKind::Opaque { .. }
                        | ErrorKind::Escaped { .. }
                        | ErrorKind::Dispatch(DispatchError::NoMetaKernel { .. })
                ))
    }
}

/// The structure of inputs. Tensors in it are stand-ins; meta ones hold no memory.
fn template<I: TensorTree>(inputs: &I) -> I {
    flat::map(inputs, &mut crate::dispatch::meta::to_meta)
}

#[inline]
fn find<'a, I: TensorTree, O>(
    among: &'a Variants<I, O>,
    call: &Given<'_, I>,
) -> Option<&'a Variant<I, O>> {
    let same_structure = |v: &Variant<I, O>| match call.wrapped || v.wrapped {
        false => call.inputs.matches(&v.input).is_none(),
        true => flat::difference(call.inputs, &v.input).is_none(),
    };
    among.find(call.leaves, call.tls, same_structure)
}

/// Why the variants with code of their own do not serve a call: of the others there may be very
/// many, one for each size.
fn misses<I: TensorTree, O>(among: &Variants<I, O>, call: &Given<'_, I>) -> Vec<GuardMiss> {
    let own = among.newest_first().filter(|v| !v.shares);
    own.map(|v| GuardMiss {
        variant: v.number,
        reason: flat::difference(call.inputs, &v.input)
            .unwrap_or_else(|| v.guards.explain_miss(call.leaves, call.tls)),
    })
    .collect()
}
