//! What follows the sums of a convolution, on runs of outputs that were just written.

use crate::cpu::kernels::activation::{Formula, Relu, with_activation};
use crate::cpu::math::simd::{Lane, Simd, SimdTask};
use straightline_passes::schedule::loops::{self, Activation};

/// An operation on the outputs of a convolution; pointers lead to dense elements of its dtype.
pub type Follow = loops::Follow<*const u8>;

/// The operations of one convolution, one after the other, each rounded.
#[derive(Clone, Copy)]
pub(super) struct Follows<'a> {
    pub(super) each: &'a [Follow],
    /// Output channels.
    pub(super) channels: usize,
    /// Elements of a channel.
    pub(super) plane: usize,
}
// SAFETY: what the pointers lead to is read only.
unsafe impl Sync for Follows<'_> {}

impl Follows<'_> {
    /// Applies them to a run of a channel of `output`: its first element and its length.
    ///
    /// # Safety
    ///
    /// The pointers are valid for the sizes; nobody else uses the run meanwhile.
    pub(super) unsafe fn apply<T: Lane>(
        &self,
        output: *mut T,
        (image, channel): (usize, usize),
        (begin, count): (usize, usize),
    ) {
        if self.each.is_empty() {
            return;
        }
        let offset = (image * self.channels + channel) * self.plane + begin;
        let at = output.wrapping_add(offset);
        T::dispatch(Run { each: self.each, at, offset, channel, count });
    }
}

struct Run<'a, T> {
    each: &'a [Follow],
    at: *mut T,
    /// Of `at` in the output.
    offset: usize,
    channel: usize,
    count: usize,
}

impl<T: Lane> SimdTask<T> for Run<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<Elem = T>>(self, mut s: S) {
        let s = &mut s;
        let mut rest = self.each;
        // SAFETY: the contract of `Follows::apply`.
        let of_channel = |p: &*const u8| unsafe { *p.cast::<T>().add(self.channel) };
        while let [first, after @ ..] = rest {
            rest = after;
            // what comes together usually: a scale and a shift, a sum and its positive part
            match (first, after) {
                (Follow::Scale(a), [Follow::Shift(b), after @ ..]) => {
                    rest = after;
                    let (a, b) = (s.splat(of_channel(a)), s.splat(of_channel(b)));
                    let affine = |s: &mut S, x: S::F| {
                        let x = s.mul(x, a);
                        s.add(x, b)
                    };
                    if let [Follow::Activation(Activation::Relu), after @ ..] = after {
                        rest = after;
                        self.map(s, |s, x| {
                            let x = affine(s, x);
                            Relu::at(s, x)
                        });
                    } else if let [
                        Follow::Add(r),
                        Follow::Activation(Activation::Relu),
                        after @ ..,
                    ] = after
                    {
                        rest = after;
                        self.zip(s, r, |s, x, y| {
                            let x = affine(s, x);
                            let x = s.add(x, y);
                            Relu::at(s, x)
                        });
                    } else {
                        self.map(s, affine);
                    }
                }
                (Follow::Scale(a), _) => {
                    let a = s.splat(of_channel(a));
                    self.map(s, |s, x| s.mul(x, a));
                }
                (Follow::Shift(b), _) => {
                    let b = s.splat(of_channel(b));
                    self.map(s, |s, x| s.add(x, b));
                }
                (Follow::Add(r), _) => self.zip(s, r, |s, x, y| s.add(x, y)),
                (Follow::Activation(Activation::None), _) => {}
                (Follow::Activation(activation), _) => {
                    with_activation!(activation, F => self.formula::<S, F>(s))
                }
            }
        }
    }
}

impl<T: Lane> Run<'_, T> {
    #[inline(always)]
    fn formula<S: Simd<Elem = T>, F: Formula>(&self, s: &mut S) {
        let mut i = 0;
        while i < self.count {
            let (at, n) = (self.at.wrapping_add(i), (self.count - i).min(S::LANES));
            // SAFETY: elements of the run, by the contract of `Follows::apply`.
            unsafe {
                let x = if n == S::LANES { s.load(at) } else { s.load_partial(at, n) };
                let y = F::at(s, x);
                if n == S::LANES { s.store(at, y) } else { s.store_partial(at, n, y) }
            }
            i += n;
        }
    }

    #[inline(always)]
    fn map<S: Simd<Elem = T>>(&self, s: &mut S, f: impl Fn(&mut S, S::F) -> S::F) {
        let whole = self.count - self.count % S::LANES;
        // SAFETY: elements of the run, by the contract of `Follows::apply`.
        unsafe {
            for i in (0..whole).step_by(S::LANES) {
                let at = self.at.wrapping_add(i);
                let x = s.load(at);
                let y = f(s, x);
                s.store(at, y);
            }
            if whole < self.count {
                let (at, n) = (self.at.wrapping_add(whole), self.count - whole);
                let x = s.load_partial(at, n);
                let y = f(s, x);
                s.store_partial(at, n, y);
            }
        }
    }

    #[inline(always)]
    fn zip<S: Simd<Elem = T>>(
        &self,
        s: &mut S,
        other: &*const u8,
        f: impl Fn(&mut S, S::F, S::F) -> S::F,
    ) {
        let other = other.cast::<T>().wrapping_add(self.offset);
        let whole = self.count - self.count % S::LANES;
        // SAFETY: elements of the run and of a tensor of the output's sizes, as above.
        unsafe {
            for i in (0..whole).step_by(S::LANES) {
                let at = self.at.wrapping_add(i);
                let (x, y) = (s.load(at), s.load(other.wrapping_add(i)));
                let z = f(s, x, y);
                s.store(at, z);
            }
            if whole < self.count {
                let (at, n) = (self.at.wrapping_add(whole), self.count - whole);
                let x = s.load_partial(at, n);
                let y = s.load_partial(other.wrapping_add(whole), n);
                let z = f(s, x, y);
                s.store_partial(at, n, z);
            }
        }
    }
}
