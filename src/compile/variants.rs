//! The variants of a compiled function: a list that only grows, and that calls walk without a lock.

use super::dependent::{Changed, Part};
use super::flat::{self, Handed};
use super::guards::Guards;
use super::stages::Executable;
use super::tree::TensorTree;
use crate::dispatch::TlsKeySets;
use crate::tensor::Tensor;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// How many variants may exist, retired ones included, for each that may still serve.
const RETIRED_FACTOR: usize = 8;

/// So many of the newest variants are asked for their guards before the sizes of a call are
/// compared as one number.
const ASKED: usize = 4;

/// What serves the calls that its guards hold for.
pub(super) struct Variant<I, O> {
    pub(super) number: usize,
    pub(super) guards: Guards,
    /// The structure of the inputs: static leaves and lengths.
    pub(super) input: I,
    /// Whether there are wrapper tensors in it.
    pub(super) wrapped: bool,
    /// The structure of the result.
    pub(super) output: Option<O>,
    /// Which of its tensors are wrappers that the function was given.
    pub(super) handed: Vec<Option<Handed>>,
    /// `None`: runs eagerly.
    pub(super) code: Option<Executable>,
    /// Whether a function in parts draws random numbers.
    pub(super) draws: bool,
    /// What follows, if the code is that of a front.
    pub(super) then: Option<Box<Then<I, O>>>,
    /// Whether the code is that of another variant.
    pub(super) shares: bool,
    /// Whether the variant is retired.
    retired: AtomicBool,
    /// Of the sizes and strides of the inputs.
    sizes: u64,
    next: *const Variant<I, O>,
}

/// What follows a front: a call whose results have sizes that depend on data, and the rest.
pub(super) struct Then<I, O> {
    pub(super) part: Part,
    /// Its variants, for the sizes that the results have had.
    pub(super) rests: Variants<I, O>,
    /// What these change of what the function is given; used of a function's first front.
    pub(super) changed: Changed,
}

/// A variant in its list.
pub(super) struct Among<'a, I, O> {
    pub(super) variant: &'a Variant<I, O>,
    pub(super) among: &'a Variants<I, O>,
}

/// Sizes and strides as one number.
fn hash(leaves: &[&Tensor]) -> u64 {
    let mut h = DefaultHasher::new();
    for t in leaves {
        (t.sizes(), t.strides()).hash(&mut h);
    }
    h.finish()
}

impl<I: TensorTree, O> Variant<I, O> {
    /// One that runs the function itself.
    pub(super) fn eager(
        number: usize,
        leaves: &[&Tensor],
        input: I,
        wrapped: bool,
    ) -> Variant<I, O> {
        let guards = Guards::new(leaves, TlsKeySets::current(), None);
        Variant::new(number, leaves, guards, input, wrapped)
    }

    /// One without code, which runs the function itself.
    pub(super) fn new(
        number: usize,
        leaves: &[&Tensor],
        guards: Guards,
        input: I,
        wrapped: bool,
    ) -> Variant<I, O> {
        Variant {
            number,
            guards,
            input,
            wrapped,
            output: None,
            handed: Vec::new(),
            code: None,
            draws: false,
            then: None,
            shares: false,
            retired: AtomicBool::new(false),
            sizes: hash(leaves),
            next: std::ptr::null(),
        }
    }

    /// Whether the variant fails to serve these inputs only because handles to closed-over tensors
    /// have been dropped.
    pub(super) fn is_doubtful(&self, inputs: &I, leaves: &[&Tensor], tls: TlsKeySets) -> bool {
        self.guards.hold_but_for_handles(leaves, tls)
            && flat::difference(inputs, &self.input).is_none()
    }
}

// SAFETY: a published variant changes only through its atomics; `next` points to another one that
// lives as long.
unsafe impl<I: Send, O: Send> Send for Variant<I, O> {}
// SAFETY: as above.
unsafe impl<I: Sync, O: Sync> Sync for Variant<I, O> {}

/// All variants of a function.
pub(super) struct Variants<I, O> {
    /// The newest one; each leads to the one before.
    head: AtomicPtr<Variant<I, O>>,
    count: AtomicUsize,
    /// How many with code of their own are retired: the registrations of an operator have changed,
    /// or a closed-over tensor was replaced.
    retired: AtomicUsize,
    /// How many run the code of another one.
    sharing: AtomicUsize,
}

impl<I, O> Default for Variants<I, O> {
    fn default() -> Self {
        Variants {
            head: AtomicPtr::new(std::ptr::null_mut()),
            count: AtomicUsize::new(0),
            retired: AtomicUsize::new(0),
            sharing: AtomicUsize::new(0),
        }
    }
}

impl<I, O> Drop for Variants<I, O> {
    fn drop(&mut self) {
        let mut at = *self.head.get_mut();
        while !at.is_null() {
            // SAFETY: each variant came from Box::into_raw and is dropped once, here; nobody can
            // be walking the list, since `self` is borrowed exclusively.
            let variant = unsafe { Box::from_raw(at) };
            at = variant.next.cast_mut();
        }
    }
}

impl<I, O> Variants<I, O> {
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// How many run the code of another one.
    pub(super) fn sharing(&self) -> usize {
        self.sharing.load(Ordering::Relaxed)
    }

    /// All variants, those of rests behind those of their fronts.
    pub(super) fn all(&self) -> Vec<Among<'_, I, O>> {
        let mut all = Vec::new();
        for variant in self.newest_first() {
            all.push(Among { variant, among: self });
            all.extend(variant.then.iter().flat_map(|then| then.rests.all()));
        }
        all
    }

    #[inline]
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Variant<I, O>> {
        let mut at = self.head.load(Ordering::Acquire).cast_const();
        std::iter::from_fn(move || {
            // SAFETY: published variants stay valid and unchanged until `self` is dropped.
            let variant = unsafe { at.as_ref() }?;
            at = variant.next;
            Some(variant)
        })
    }

    /// The newest variant that serves inputs whose structure is the `same`.
    #[inline]
    pub(super) fn find(
        &self,
        leaves: &[&Tensor],
        tls: TlsKeySets,
        same: impl Fn(&Variant<I, O>) -> bool,
    ) -> Option<&Variant<I, O>> {
        let serves = |v: &Variant<I, O>| v.guards.hold(leaves, tls) && same(v);
        let mut all = self.newest_first();
        for _ in 0..ASKED {
            match all.next()? {
                v if serves(v) => return Some(v),
                _ => {}
            }
        }
        let sizes = hash(leaves);
        all.find(|v| v.sizes == sizes && serves(v))
    }

    /// Adds a variant; one caller at a time.
    pub(super) fn publish(&self, mut variant: Variant<I, O>) -> &Variant<I, O> {
        let shares = variant.shares;
        variant.next = self.head.load(Ordering::Relaxed);
        let variant = Box::into_raw(Box::new(variant));
        self.head.store(variant, Ordering::Release);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sharing.fetch_add(usize::from(shares), Ordering::Relaxed);
        // SAFETY: just made from a Box; variants live as long as `self`.
        unsafe { &*variant }
    }

    /// Says that a variant serves no call any more. Whether that is news.
    pub(super) fn retire(&self, v: &Variant<I, O>) -> bool {
        let news = !v.retired.swap(true, Ordering::Relaxed);
        if news && !v.shares {
            self.retired.fetch_add(1, Ordering::Relaxed);
        }
        news
    }

    /// Whether `most` variants with code of their own may serve. Retired ones keep their memory,
    /// since another thread may still run them, so their number is bounded too.
    pub(super) fn are_full(&self, most: usize) -> bool {
        let all = self.count() - self.sharing();
        let serving = all.saturating_sub(self.retired.load(Ordering::Relaxed));
        serving >= most || all >= most.saturating_mul(RETIRED_FACTOR)
    }

    /// The code of the variants that may still serve, newest first.
    pub(super) fn codes(&self) -> impl Iterator<Item = (usize, &Executable)> {
        self.newest_first()
            .filter(|v| !v.retired.load(Ordering::Relaxed))
            .filter_map(|v| Some((v.number, v.code.as_ref()?)))
    }

    /// The oldest variant whose code a variant runs, if it is another one.
    pub(super) fn code_of(&self, v: &Variant<I, O>) -> Option<usize> {
        let code = v.code.as_ref().filter(|_| v.shares)?;
        let all = self.newest_first().filter(|o| !o.shares);
        all.filter(|o| o.code.as_ref().is_some_and(|c| c.shares_code_with(code)))
            .map(|o| o.number)
            .last()
    }
}
