//! The compiled function: guards, variants, capture on a miss.

use super::arguments::Arguments;
use super::capture::{Captured, Outcome, Wanted, capture_for, capture_or_perform};
use super::devices;
use super::dynamic;
use super::explain::{Explanation, VariantExplanation};
use super::flat;
use super::guards::{GuardMiss, Guards};
use super::options::{CompileEvent, CompileOptions, DynamicSizes};
use super::settle;
use super::stages::Executable;
use super::traced::Traced;
use super::training;
use super::tree::TensorTree;
use super::turn::{PATIENCE, Turn, TurnGuard};
use super::variants::{Variant, Variants};
use crate::dispatch::{DispatchError, TlsKeySets, check_captured, record_function, record_lazily};
use crate::error::{Error, ErrorKind, Result};
use crate::modes::{fake, interception, tracer};
use crate::tensor::Tensor;
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub(super) type Function<I, O> = Box<dyn Fn(&I) -> Result<O> + Send + Sync>;

/// So many captures for nothing, and calls that no code serves run eagerly at once.
const FUTILE: usize = 4;

/// How many events are kept; older ones are dropped.
const EVENTS_KEPT: usize = 256;

/// A compiled function: `Send + Sync` where its trees are, callable from any number of threads.
///
/// A call holds the tensors that it reads and those that it writes until it is done, and waits for
/// them, as operators do ([`Busy`](crate::Busy) says when it does not). So calls that only read run
/// side by side, and calls that write the same tensor come one after another, each as a whole.
///
/// Clones are handles of the same function and share its variants.
pub struct Compiled<I, O>(Arc<Inner<I, O>>);

impl<I, O> Clone for Compiled<I, O> {
    fn clone(&self) -> Self {
        Compiled(Arc::clone(&self.0))
    }
}

struct Inner<I, O> {
    function: Function<I, O>,
    /// Where `compile` was called.
    at: &'static Location<'static>,
    options: CompileOptions,
    variants: Variants<I, O>,
    /// How often a call was captured when no more code may be generated, for nothing.
    futile: AtomicUsize,
    /// Which call makes a variant.
    turn: Turn,
    events: Mutex<Vec<CompileEvent>>,
    /// Calls whose function left tensors in outside state, once. Taken by the call whose turn it
    /// is.
    performed: Mutex<Vec<(Guards, I)>>,
}

/// The outcome of a call that no variant serves.
enum Built<'a, I, O> {
    Variant(&'a Variant<I, O>),
    /// The function's calls have been made, and no variant is kept.
    Done(O),
    /// One variant too many.
    Full,
}

impl<I, O> Compiled<I, O> {
    /// Nothing captured yet.
    pub(super) fn new(
        options: CompileOptions,
        function: Function<I, O>,
        at: &'static Location<'static>,
    ) -> Compiled<I, O> {
        Compiled(Arc::new(Inner {
            function,
            at,
            options,
            variants: Variants::default(),
            futile: AtomicUsize::new(0),
            turn: Turn::default(),
            events: Mutex::new(Vec::new()),
            performed: Mutex::new(Vec::new()),
        }))
    }
}

impl<I: TensorTree, O: TensorTree> Compiled<I, O> {
    /// Calls the function with what it takes, or with references in its shape ([`Arguments`]):
    /// `f.call(&x)`, `f.call((&x, &y))`.
    ///
    /// # Errors
    /// What the function itself returns; for the first call of a set of shapes also
    /// [`ErrorKind::DataDependent`] and [`ErrorKind::Compile`].
    pub fn call(&self, inputs: impl Arguments<I>) -> Result<O> {
        let mut leaves: SmallVec<[&Tensor; 8]> = SmallVec::new();
        let wrapped = flat::visit_by(|f| inputs.visit(f), &mut |t| leaves.push(t));
        if !wrapped {
            let tls = TlsKeySets::current();
            let same = |v: &Variant<I, O>| !v.wrapped && inputs.matches(&v.input).is_none();
            let found = self.0.variants.find(&leaves, tls, same);
            if let Some(variant) = found.filter(|v| v.handed.is_empty())
                && let (Some(code), Some(output)) = (&variant.code, &variant.output)
            {
                let _range = record_lazily(|| format!("compiled variant {}", variant.number));
                let mut results = code.run(&leaves)?.into_iter();
                return Ok(flat::fill(output, &mut results));
            }
        }
        inputs.with(|inputs| self.0.call(inputs))
    }

    /// Captures the function for these inputs, without compiling it or keeping the result.
    ///
    /// # Errors
    /// As the first [`Compiled::call`] with such inputs.
    pub fn trace(&self, inputs: impl Arguments<I>) -> Result<Traced> {
        let wanted = Wanted { perform: false, joint: true };
        inputs.with(|inputs| Ok(capture_for(&*self.0.function, inputs, wanted)?.traced))
    }

    /// Runs the function itself, eagerly.
    ///
    /// # Errors
    /// The function's own.
    pub fn eager(&self, inputs: impl Arguments<I>) -> Result<O> {
        inputs.with(|inputs| (self.0.function)(inputs))
    }

    /// How many variants exist.
    pub fn variants(&self) -> usize {
        self.0.variants.count()
    }

    /// How many variants have code of their own; the others differ from one of those in sizes and
    /// strides alone, and run its code.
    ///
    /// ```
    /// use straightline::{Tensor, compile};
    /// let f = compile(|x: &Tensor| x.softmax(-1));
    /// for n in 20..60 {
    ///     f.call(&Tensor::ones([4, n])?)?;
    /// }
    /// assert_eq!(f.variants(), 40);
    /// assert!(f.codes() <= 3);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn codes(&self) -> usize {
        self.variants() - self.0.variants.sharing()
    }

    /// What has happened so far, oldest first (the last 256 events).
    pub fn events(&self) -> Vec<CompileEvent> {
        self.0.events().clone()
    }

    /// Guards, kernels, fusion decisions, pass timings and the e-graph report of every variant,
    /// and the events.
    pub fn explain(&self) -> Explanation {
        let variants = self.0.variants.newest_first();
        let mut variants: Vec<VariantExplanation> = variants
            .map(|v| {
                let code = v.code.as_ref();
                VariantExplanation::new(v.number, &v.guards, code, self.0.variants.code_of(v))
            })
            .collect();
        variants.reverse();
        Explanation { variants, events: self.events() }
    }
}

impl<I: TensorTree, O: TensorTree> Inner<I, O> {
    /// The call with a value of the function's own type.
    fn call(&self, inputs: &I) -> Result<O> {
        let mut leaves: SmallVec<[&Tensor; 8]> = SmallVec::new();
        let wrapped = flat::visit(inputs, &mut |t| leaves.push(t));
        let tls = TlsKeySets::current();
        if let Some(variant) = self.find(inputs, &leaves, wrapped, tls) {
            return self.replay(variant, inputs, &leaves);
        }
        self.miss(inputs, &leaves, wrapped, tls)
    }

    #[inline]
    fn replay(&self, variant: &Variant<I, O>, inputs: &I, leaves: &[&Tensor]) -> Result<O> {
        let (Some(code), Some(output)) = (&variant.code, &variant.output) else {
            return (self.function)(inputs);
        };
        let _range = record_lazily(|| format!("compiled variant {}", variant.number));
        let mut results = code.run(leaves)?.into_iter();
        Ok(flat::rebuild(output, &variant.handed, inputs, &mut results))
    }

    #[inline]
    fn find(
        &self,
        inputs: &I,
        leaves: &[&Tensor],
        wrapped: bool,
        tls: TlsKeySets,
    ) -> Option<&Variant<I, O>> {
        let same_structure = |v: &Variant<I, O>| match wrapped || v.wrapped {
            false => inputs.matches(&v.input).is_none(),
            true => flat::difference(inputs, &v.input).is_none(),
        };
        self.variants.find(leaves, tls, same_structure)
    }

    fn events(&self) -> MutexGuard<'_, Vec<CompileEvent>> {
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
    fn miss(&self, inputs: &I, leaves: &[&Tensor], wrapped: bool, tls: TlsKeySets) -> Result<O> {
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
        let Some(turn) = self.turn.take(PATIENCE) else {
            let event = CompileEvent::Awaited { waited: PATIENCE };
            tracing::warn!("{event}");
            self.record_once(event);
            return (self.function)(inputs);
        };
        if let Some(variant) = self.find(inputs, leaves, wrapped, tls) {
            drop(turn);
            return self.replay(variant, inputs, leaves);
        }
        let misses = self.misses(inputs, leaves, tls);
        self.retire_outdated();
        // a variant that turns out to serve still needs no new slot
        let doubtful = self.variants.newest_first().any(|v| v.is_doubtful(inputs, leaves, tls));
        let built = match self.is_full() && !doubtful && !self.may_share() {
            true => Built::Full,
            false => self.build(inputs, leaves, wrapped, &misses, &turn)?,
        };
        match built {
            Built::Variant(variant) => {
                drop(turn);
                self.replay(variant, inputs, leaves)
            }
            Built::Done(output) => Ok(output),
            Built::Full => {
                let limit = match self.variants.sharing() >= self.options.max_sizes {
                    true => self.options.max_sizes,
                    false => self.options.max_variants,
                };
                let event = CompileEvent::VariantLimit { limit, misses };
                tracing::warn!("{event}");
                self.record(event);
                drop(turn);
                (self.function)(inputs)
            }
        }
    }

    /// Retires the variants whose operators have other registrations now.
    fn retire_outdated(&self) {
        for v in self.variants.newest_first() {
            if let Some(op) = v.guards.outdated()
                && self.variants.retire(v)
            {
                let event =
                    CompileEvent::Outdated { variant: v.number, operator: op.name().to_string() };
                tracing::debug!("{event}");
                self.record(event);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.variants.are_full(self.options.max_variants)
            || self.variants.sharing() >= self.options.max_sizes
    }

    /// Whether a variant that shares the code of another one may be added when there can be no more
    /// code.
    fn may_share(&self) -> bool {
        self.options.dynamic != DynamicSizes::Never
            && self.variants.sharing() < self.options.max_sizes
            && self.futile.load(Ordering::Relaxed) < FUTILE
            && self.variants.codes().next().is_some()
    }

    fn capture(&self, inputs: &I) -> Result<Outcome<O>> {
        let wanted = Wanted { perform: self.options.eager_fallback, joint: true };
        capture_or_perform(&*self.function, inputs, wanted).map_err(|e| match e.location() {
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

    /// Why the variants with code of their own do not serve a call: of the others there may be very
    /// many, one for each size.
    fn misses(&self, inputs: &I, leaves: &[&Tensor], tls: TlsKeySets) -> Vec<GuardMiss> {
        self.variants
            .newest_first()
            .filter(|v| !v.shares)
            .map(|v| GuardMiss {
                variant: v.number,
                reason: flat::difference(inputs, &v.input)
                    .unwrap_or_else(|| v.guards.explain_miss(leaves, tls)),
            })
            .collect()
    }

    /// Whether the function has left tensors in outside state at such a call before; marks it as
    /// having done so.
    fn was_performed(&self, inputs: &I, leaves: &[&Tensor], tls: TlsKeySets, like: &I) -> bool {
        let mut performed = (self.performed.lock()).unwrap_or_else(PoisonError::into_inner);
        let same = |(guards, input): &(Guards, I)| {
            guards.hold(leaves, tls) && flat::difference(inputs, input).is_none()
        };
        let before = performed.iter().any(same);
        if !before && performed.len() < self.options.max_variants {
            let like = flat::map(like, &mut Tensor::clone);
            performed.push((Guards::new(leaves, tls, None), like));
        }
        before
    }

    /// Captures and compiles.
    fn build(
        &self,
        inputs: &I,
        leaves: &[&Tensor],
        wrapped: bool,
        misses: &[GuardMiss],
        _turn: &TurnGuard<'_>,
    ) -> Result<Built<'_, I, O>> {
        devices::check_inputs(leaves)?;
        let begin = Instant::now();
        let number = self.variants.count();
        // Tensors of the template are stand-ins for structure; meta ones hold no memory.
        let input = flat::map(inputs, &mut crate::dispatch::meta::to_meta);
        let _range = record_lazily(|| format!("compile variant {number}"));
        let captured = {
            let _range = record_function("capture");
            self.capture(inputs)
        };
        let captured = match captured {
            Ok(Outcome::Performed(output, e)) => {
                let event = CompileEvent::EagerFallback { reason: e.to_string() };
                tracing::warn!("{event}");
                self.record(event);
                // a cache that is filled once can be captured the next time; state that each call
                // replaces cannot
                let tls = TlsKeySets::current();
                if self.was_performed(inputs, leaves, tls, &input) && !self.is_full() {
                    self.variants.publish(Variant::eager(number, leaves, input, wrapped));
                }
                return Ok(Built::Done(output));
            }
            Ok(Outcome::Recorded { why: reason, once }) => {
                tracing::warn!("{reason}");
                self.record(CompileEvent::EagerFallback { reason });
                let tls = TlsKeySets::current();
                let lasts = !once || self.was_performed(inputs, leaves, tls, &input);
                if lasts && !self.is_full() {
                    self.variants.publish(Variant::eager(number, leaves, input, wrapped));
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
        let generate = !self.is_full();
        if !generate && !self.may_share() {
            return Ok(Built::Full);
        }
        let shareable: Vec<(usize, &Executable)> = match self.options.dynamic {
            DynamicSizes::Never => Vec::new(),
            DynamicSizes::Automatic => self.variants.codes().collect(),
        };
        let made = captured.and_then(|captured| {
            devices::check_captured(&captured.traced)?;
            let sampled = match shareable.is_empty() && self.options.dynamic != DynamicSizes::Never
            {
                true => dynamic::sample(&*self.function, &self.options, inputs, leaves)?,
                false => None,
            };
            let like: Vec<&Executable> =
                shareable.iter().map(|(_, code)| *code).chain(&sampled).collect();
            let code = training::compile(&captured.traced, &self.options, &like, generate)?;
            Ok((captured, code))
        });
        let variant = match made {
            Ok((_, None)) => {
                self.futile.fetch_add(1, Ordering::Relaxed);
                return Ok(Built::Full);
            }
            Ok((captured, Some(code))) => {
                let (misses, took) = (misses.to_vec(), begin.elapsed());
                let first = shareable.iter().rev().find(|(_, c)| c.shares_code_with(&code));
                let code_of = first.map(|(number, _)| *number);
                let event = CompileEvent::Compiled { variant: number, code_of, misses, took };
                tracing::debug!("{event}");
                self.record(event);
                let guards = Guards::new(leaves, captured.tls, Some(&captured.traced));
                let mut variant = Variant::new(number, leaves, guards, input, wrapped);
                variant.output = Some(captured.output);
                variant.handed = captured.handed;
                variant.code = Some(code);
                variant.shares = first.is_some();
                variant
            }
            Err(e) if self.falls_back(&e) => {
                let event = CompileEvent::EagerFallback { reason: e.to_string() };
                tracing::warn!("{event}");
                self.record(event);
                Variant::eager(number, leaves, input, wrapped)
            }
            Err(e) => return Err(e),
        };
        Ok(Built::Variant(self.variants.publish(variant)))
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

impl<I, O> std::fmt::Debug for Compiled<I, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled")
            .field("variants", &self.0.variants.count())
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}
