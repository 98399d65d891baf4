//! Making variants: captures the function for a call that none serves, or the rest of it, and compiles
//! it.

use super::capture::{Captured, Outcome, Wanted, capture_for, capture_or_perform};
use super::dependent::{Changed, Known, Part};
use super::devices;
use super::dynamic;
use super::flat;
use super::guards::{GuardMiss, Guards};
use super::inner::{Given, Inner, find, misses};
use super::options::{CompileEvent, DynamicSizes};
use super::replay::Results;
use super::stages::Executable;
use super::traced::Traced;
use super::training;
use super::tree::TensorTree;
use super::turn::TurnGuard;
use super::variants::{Among, Then, Variant, Variants};
use crate::dispatch::{DispatchError, TlsKeySets, Value, record_function, record_lazily};
use crate::error::{Error, ErrorKind, Result};
use crate::modes::dependent::answering;
use crate::tensor::Tensor;
use std::rc::Rc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;
use straightline_catalog::TensorMeta;

/// A front that has run in a call, and the results of the call behind it.
pub(super) struct Passed<'a, I, O> {
    pub(super) then: &'a Then<I, O>,
    pub(super) front: Results,
    pub(super) results: Vec<Value>,
}

/// The outcome of a call that no variant serves.
pub(super) enum Built<'a, I, O> {
    Variant(&'a Variant<I, O>),
    /// That of a front, with what was captured for the whole function.
    Front(&'a Variant<I, O>, Box<Captured<O>>),
    /// The function's calls have been made, and no variant is kept.
    Done(O),
    /// One variant too many.
    Full,
}

impl<I: TensorTree, O: TensorTree> Inner<I, O> {
    /// Captures the function for these inputs.
    pub(super) fn trace(&self, inputs: &I) -> Result<Traced> {
        let mut leaves = Vec::new();
        flat::visit(inputs, |t| leaves.push(t));
        let wanted = Wanted { perform: false, joint: true };
        let capture = || capture_for(&*self.function, inputs, wanted);
        let known = Rc::new(Known::new(&leaves));
        Ok(answering(known, capture)?.traced)
    }

    /// Retires the variants whose operators have other registrations now.
    pub(super) fn retire_outdated(&self) {
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
            let like = flat::map(like, Tensor::clone);
            performed.push((Guards::new(call.leaves, tls, None), like));
        }
        before
    }

    /// Captures and compiles.
    pub(super) fn build(
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
            let device = devices::of(&captured.traced)?;
            // the numbers of a GPU's program are arguments in any case
            let samples = device.is_cpu() && self.options.dynamic != DynamicSizes::Never;
            let sampled = match shareable.is_empty() && samples {
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
                variant.code = Some(code.lean(variant.shares));
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
    pub(super) fn rest<'a>(
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
        variant.code = Some(code.lean(variant.shares));
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
                let (rests, changed) = (Variants::default(), Changed::default());
                variant.then = Some(Box::new(Then { part, rests, changed }));
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
    flat::map(inputs, crate::dispatch::meta::to_meta)
}
