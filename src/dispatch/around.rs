//! Kernels that do something before and after the rest of a call, whatever its types are.

use super::OperatorHandle;
use super::arg::Ret;
use super::kernel::{Args, Kernel};
use super::operator::{TypedHandle, TypedOp};
use super::tls::BelowAutograd;
use super::value::Value;
use crate::error::Result;
use crate::tensor::Tensor;
use straightline_catalog::keyset::DispatchKeySet;

/// What wraps calls: the autograd kernels.
pub trait Around: Send + Sync + 'static {
    /// What is kept from before a call for after it, filled in where it lies.
    type Kept: Default;

    /// Before the rest of a call. Says whether anything follows after it.
    fn before(
        &self,
        op: OperatorHandle,
        given: &dyn Given<'_>,
        kept: &mut Self::Kept,
    ) -> Result<bool>;

    /// After it.
    fn after(
        &self,
        op: OperatorHandle,
        kept: &mut Self::Kept,
        results: &mut dyn Results,
    ) -> Result<()>;
}

/// The arguments of a call.
pub trait Given<'c> {
    /// Passes on the tensors, each with the position of its argument.
    fn tensors(&self, each: &mut dyn FnMut(usize, &'c Tensor));
    /// An argument, boxed.
    fn value(&self, at: usize) -> Value;
}

/// The results of a call.
pub trait Results {
    /// Passes on the tensors, each with the position of its return.
    fn tensors(&mut self, each: &mut dyn FnMut(usize, &mut Tensor));
}

struct Items<'c, A: Args>(A::Items<'c>);

impl<'c, A: Args> Given<'c> for Items<'c, A> {
    fn tensors(&self, each: &mut dyn FnMut(usize, &'c Tensor)) {
        A::tensors(self.0, each);
    }

    fn value(&self, at: usize) -> Value {
        A::value(self.0, at)
    }
}

impl<R: Ret> Results for R {
    fn tensors(&mut self, each: &mut dyn FnMut(usize, &mut Tensor)) {
        self.tensors_mut(each);
    }
}

/// Something that wraps calls, and the operator whose calls they are.
pub(super) struct Wrapped<W> {
    pub(super) around: W,
    pub(super) op: OperatorHandle,
}

impl<W: Around> Wrapped<W> {
    /// Runs a call: what comes before, the kernel below the autograd keys, what comes after.
    #[inline(always)]
    pub(super) fn run<A: Args + 'static, R: Ret>(
        &self,
        keys: DispatchKeySet,
        items: A::Items<'_>,
    ) -> Result<R> {
        let mut kept = W::Kept::default();
        let follows = self.around.before(self.op, &Items::<A>(items), &mut kept)?;
        let below = keys & DispatchKeySet::AFTER_AUTOGRAD;
        let mut results: R = {
            let _below = BelowAutograd::enter();
            TypedHandle::<A, R>::of(self.op).redispatch(below, items)?
        };
        if follows {
            self.around.after(self.op, &mut kept, &mut results)?;
        }
        Ok(results)
    }
}

impl<A: Args + 'static, R: Ret> TypedOp<A, R> {
    /// A kernel that wraps the rest of the operator's calls.
    pub(crate) fn around<W: Around>(&self, around: W) -> Result<Kernel> {
        let op = self.get()?.handle();
        Ok(Kernel::around::<A, R, W>(Wrapped { around, op }))
    }
}
