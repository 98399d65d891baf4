//! How a call of a compiled function is served: by a variant, by capturing the function on a miss, or
//! by running it.

use super::capture::Captured;
use super::dependent;
use super::flat;
use super::inner::{Given, Inner, find, misses};
use super::make::{Built, Passed};
use super::options::CompileEvent;
use super::replay::Results;
use super::settle;
use super::tree::TensorTree;
use super::variants::Variant;
use crate::dispatch::{TlsKeySets, check_captured, record_lazily};
use crate::error::Result;
use crate::modes::{fake, interception, tracer};
use crate::tensor::Tensor;
use smallvec::SmallVec;

/// What the part behind these fronts is given.
fn leaves_behind<'a, I, O>(
    call: &Given<'a, I>,
    passed: &'a [Passed<'_, I, O>],
) -> SmallVec<[&'a Tensor; 16]> {
    let given = passed.iter().flat_map(|p| p.then.part.given(&p.front, &p.results));
    call.leaves.iter().copied().chain(given).collect()
}

/// What a call returns: the variant's output, made of the results of its code.
fn returned<I: TensorTree, O: TensorTree>(
    variant: &Variant<I, O>,
    output: &O,
    call: &Given<'_, I>,
    results: Results,
) -> O {
    flat::rebuild(output, &variant.handed, call.inputs, results.into_iter())
}

/// How a call of a function in parts ended.
enum Parts<O> {
    Returned(O),
    /// A rest changes more of what the call was given than the call holds for that: it begins again,
    /// and holds it.
    HoldMore,
    /// No code may be made for these sizes.
    Eager,
}

impl<I: TensorTree, O: TensorTree> Inner<I, O> {
    /// The call with a value of the function's own type.
    pub(super) fn call(&self, inputs: &I) -> Result<O> {
        let mut leaves: SmallVec<[&Tensor; 8]> = SmallVec::new();
        let wrapped = flat::visit(inputs, |t| leaves.push(t));
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
        Ok(returned(variant, output, call, code.run(call.leaves)?))
    }

    /// Runs a function in parts. What it has drawn is drawn again where it has to run once more, or
    /// eagerly; it has done nothing else that could be seen.
    fn replay_parts(
        &self,
        first: &Variant<I, O>,
        call: &Given<'_, I>,
        mut captured: Option<Box<Captured<O>>>,
    ) -> Result<O> {
        let state = first.draws.then(dependent::draws).transpose()?;
        loop {
            let ran = self.replay_each(first, call, &mut captured)?;
            if let Parts::Returned(output) = ran {
                return Ok(output);
            }
            state.iter().for_each(dependent::rewind);
            if let Parts::Eager = ran {
                return (self.function)(call.inputs);
            }
        }
    }

    /// Runs the front of a function, makes the call behind it, and goes on with the rest for the sizes
    /// that its results have.
    fn replay_each(
        &self,
        first: &Variant<I, O>,
        call: &Given<'_, I>,
        captured: &mut Option<Box<Captured<O>>>,
    ) -> Result<Parts<O>> {
        let (mut at, mut passed) = (first, Vec::<Passed<'_, I, O>>::new());
        let (Some(front), Some(then)) = (&first.code, &first.then) else {
            return Ok(Parts::Eager);
        };
        let held = dependent::hold(front.captured(), &then.changed, call.leaves)?;
        loop {
            let Some(code) = &at.code else { return Ok(Parts::Eager) };
            if !held.suffices(code.captured(), &then.changed, call.leaves) {
                return Ok(Parts::HoldMore);
            }
            let _range = record_lazily(|| format!("compiled variant {}", at.number));
            let front = code.run(&leaves_behind(call, &passed))?;
            let then = match (&at.then, &at.output) {
                (Some(then), _) => then,
                (None, None) => return Ok(Parts::Eager),
                (None, Some(output)) => {
                    return Ok(Parts::Returned(returned(at, output, call, front)));
                }
            };
            let results = then.part.call(&front)?;
            passed.push(Passed { then, front, results });
            let leaves = leaves_behind(call, &passed);
            let rest = Given { leaves: &leaves, ..*call };
            let next = match find(&then.rests, &rest) {
                Some(next) => Some(next),
                None => self.rest(call, &rest, &passed, captured)?,
            };
            match next {
                Some(next) => at = next,
                None => return Ok(Parts::Eager),
            }
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
}
