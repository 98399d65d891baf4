//! The compiled function.

use super::arguments::Arguments;
use super::explain::{Explanation, VariantExplanation};
use super::flat;
use super::inner::{Function, Inner};
use super::options::{CompileEvent, CompileOptions};
use super::replay::Results;
use super::traced::Traced;
use super::tree::TensorTree;
use super::variants::{Among, Variant};
use crate::dispatch::{TlsKeySets, record_lazily};
use crate::error::Result;
use crate::tensor::Tensor;
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::{Arc, Mutex};

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

impl<I, O> Compiled<I, O> {
    /// Nothing captured yet.
    pub(super) fn new(
        options: CompileOptions,
        function: Function<I, O>,
        at: &'static Location<'static>,
    ) -> Compiled<I, O> {
        Compiled(Arc::new(Inner::new(options, function, at)))
    }
}

impl<I, O> Compiled<I, O> {
    /// Arguments over lent memory, between calls.
    pub(super) fn loans(&self) -> &Mutex<Vec<I>> {
        &self.0.loans
    }
}

impl<I: TensorTree, O: TensorTree> Compiled<I, O> {
    /// Calls the function with what it takes, or with references in its shape ([`Arguments`]):
    /// `f.call(&x)`, `f.call((&x, &y))`.
    ///
    /// # Errors
    /// What the function itself returns; for the first call of a set of shapes also
    /// [`ErrorKind::DataDependent`](crate::ErrorKind::DataDependent) and
    /// [`ErrorKind::Compile`](crate::ErrorKind::Compile).
    pub fn call(&self, inputs: impl Arguments<I>) -> Result<O> {
        let mut leaves: SmallVec<[&Tensor; 8]> = SmallVec::new();
        inputs.visit(&mut |t| leaves.push(t));
        // a wrapper has keys that the tensors of such a variant have not
        let same = |v: &Variant<I, O>| !v.wrapped && inputs.matches(&v.input).is_none();
        let found = self.0.variants.find(&leaves, TlsKeySets::current(), same);
        if let Some(variant) = found.filter(|v| v.handed.is_empty())
            && let (Some(code), Some(output)) = (&variant.code, &variant.output)
        {
            let _range = record_lazily(|| format!("compiled variant {}", variant.number));
            let mut results = Results::new();
            code.run_into(&leaves, &mut results)?;
            // taken from its end: the list stays where it is
            results.reverse();
            return Ok(flat::fill(output, std::iter::from_fn(|| results.pop())));
        }
        inputs.with(|inputs| self.0.call(inputs))
    }

    /// Captures the function for these inputs, without compiling it or keeping the result. Where
    /// sizes depend on data ([`Tensor::nonzero`]), the graph has those that follow from these inputs.
    ///
    /// # Errors
    /// As the first [`Compiled::call`] with such inputs.
    pub fn trace(&self, inputs: impl Arguments<I>) -> Result<Traced> {
        inputs.with(|inputs| self.0.trace(inputs))
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
        self.0.variants.all().len()
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
        self.0.variants.all().iter().filter(|a| !a.variant.shares).count()
    }

    /// What has happened so far, oldest first (the last 256 events).
    pub fn events(&self) -> Vec<CompileEvent> {
        self.0.events().clone()
    }

    /// Guards, kernels, fusion decisions, pass timings and the e-graph report of every variant,
    /// and the events.
    pub fn explain(&self) -> Explanation {
        let all = self.0.variants.all().into_iter();
        let mut variants: Vec<VariantExplanation> = all
            .map(|Among { variant: v, among }| {
                let then = v.then.as_ref().map(|then| then.part.op());
                let code = v.code.as_ref();
                VariantExplanation::new(v.number, &v.guards, code, among.code_of(v), then)
            })
            .collect();
        variants.sort_by_key(|v| v.number);
        Explanation { name: self.0.at.to_string(), variants, events: self.events() }
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
