//! A compiled function: what it has, and what it records.

use super::flat;
use super::guards::{GuardMiss, Guards};
use super::options::{CompileEvent, CompileOptions, DynamicSizes};
use super::tree::TensorTree;
use super::turn::{PATIENCE, Turn, TurnGuard};
use super::variants::{Variant, Variants};
use crate::dispatch::TlsKeySets;
use crate::error::Result;
use crate::tensor::Tensor;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) type Function<I, O> = Box<dyn Fn(&I) -> Result<O> + Send + Sync>;

/// So many captures for nothing, and calls that no code serves run eagerly at once.
const FUTILE: usize = 4;

/// How many events are kept; older ones are dropped.
const EVENTS_KEPT: usize = 256;

/// A compiled function.
pub(super) struct Inner<I, O> {
    pub(super) function: Function<I, O>,
    /// Where `compile` was called.
    pub(super) at: &'static Location<'static>,
    pub(super) options: CompileOptions,
    pub(super) variants: Variants<I, O>,
    /// How often a call was captured when no more code may be generated, for nothing.
    pub(super) futile: AtomicUsize,
    /// Which call makes a variant.
    pub(super) turn: Turn,
    pub(super) events: Mutex<Vec<CompileEvent>>,
    /// Calls whose function left tensors in outside state, once. Taken by the call whose turn it
    /// is.
    pub(super) performed: Mutex<Vec<(Guards, I)>>,
    /// Arguments over lent memory, between calls.
    pub(super) loans: Mutex<Vec<I>>,
}

/// A call, or what the rest of a function is given.
pub(super) struct Given<'a, I> {
    pub(super) inputs: &'a I,
    pub(super) leaves: &'a [&'a Tensor],
    /// Whether there are wrapper tensors in the inputs.
    pub(super) wrapped: bool,
    pub(super) tls: TlsKeySets,
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
            loans: Mutex::new(Vec::new()),
        }
    }
}

impl<I: TensorTree, O: TensorTree> Inner<I, O> {
    pub(super) fn events(&self) -> MutexGuard<'_, Vec<CompileEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, event: CompileEvent) {
        let mut events = self.events();
        if events.len() == EVENTS_KEPT {
            events.remove(0);
        }
        events.push(event);
    }

    /// [`Inner::record`], unless the last event is the same.
    pub(super) fn record_once(&self, event: CompileEvent) {
        let news = self.events().last() != Some(&event);
        if news {
            self.record(event);
        }
    }

    /// The turn to make a variant; `None` if another thread has it for too long.
    pub(super) fn turn(&self) -> Option<TurnGuard<'_>> {
        let turn = self.turn.take(PATIENCE);
        if turn.is_none() {
            let event = CompileEvent::Awaited { waited: PATIENCE };
            tracing::warn!("{event}");
            self.record_once(event);
        }
        turn
    }

    pub(super) fn record_full(&self, among: &Variants<I, O>, misses: Vec<GuardMiss>) {
        let limit = match among.sharing() >= self.options.max_sizes {
            true => self.options.max_sizes,
            false => self.options.max_variants,
        };
        let event = CompileEvent::VariantLimit { limit, misses };
        tracing::warn!("{event}");
        self.record(event);
    }

    pub(super) fn record_fallback(&self, reason: String) {
        let event = CompileEvent::EagerFallback { reason };
        tracing::warn!("{event}");
        self.record(event);
    }

    pub(super) fn is_full(&self, among: &Variants<I, O>) -> bool {
        among.are_full(self.options.max_variants) || among.sharing() >= self.options.max_sizes
    }

    /// Whether a variant that shares the code of another one may be added when there can be no more
    /// code.
    pub(super) fn may_share(&self, among: &Variants<I, O>) -> bool {
        self.options.dynamic != DynamicSizes::Never
            && among.sharing() < self.options.max_sizes
            && self.futile.load(Ordering::Relaxed) < FUTILE
            && among.codes().next().is_some()
    }
}

#[inline]
pub(super) fn find<'a, I: TensorTree, O>(
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
pub(super) fn misses<I: TensorTree, O>(
    among: &Variants<I, O>,
    call: &Given<'_, I>,
) -> Vec<GuardMiss> {
    let own = among.newest_first().filter(|v| !v.shares);
    own.map(|v| GuardMiss {
        variant: v.number,
        reason: flat::difference(call.inputs, &v.input)
            .unwrap_or_else(|| v.guards.explain_miss(call.leaves, call.tls)),
    })
    .collect()
}
