//! Kernels that do something before and after the rest of a call, whatever its types are.

use super::OperatorHandle;
use super::arg::Ret;
use super::kernel::{Args, Kernel};
use super::operator::{TypedHandle, TypedOp};
use super::tls::BelowAutograd;
use super::value::Value;
use crate::error::Result;
use crate::tensor::Tensor;
use smallvec::SmallVec;
use straightline_catalog::keyset::DispatchKeySet;

/// What wraps calls: the autograd kernels.
pub trait Around: Send + Sync + 'static {
    /// What is kept from before a call for after it, filled in where it lies.
    type Kept: Default;

    /// Before the rest of a call. Says whether anything follows after it.
    fn before(&self, call: &Call<'_>, kept: &mut Self::Kept) -> Result<bool>;

    /// After it, with its results as [`Call::operands`] has the operands.
    fn after(
        &self,
        op: OperatorHandle,
        kept: &mut Self::Kept,
        results: &mut [(usize, &mut Tensor)],
    ) -> Result<()>;
}

/// A call, as what wraps it sees it.
pub struct Call<'c> {
    /// The operator.
    pub op: OperatorHandle,
    /// The tensors, those of lists one by one, each with the position of its argument.
    pub operands: &'c [(usize, &'c Tensor)],
    arguments: &'c dyn Arguments,
}

impl<'c> Call<'c> {
    /// An argument, boxed.
    pub fn value(&self, at: usize) -> Value {
        self.arguments.value(at)
    }

    /// The tensor that is an argument; of a list, the last one.
    #[inline]
    pub fn tensor(&self, at: usize) -> Option<&'c Tensor> {
        self.operands.iter().rev().find(|(position, _)| *position == at).map(|(_, t)| *t)
    }
}

/// The arguments of a call, of whatever types.
trait Arguments {
    fn value(&self, at: usize) -> Value;
}

struct Items<'c, A: Args>(A::Items<'c>);

impl<A: Args> Arguments for Items<'_, A> {
    fn value(&self, at: usize) -> Value {
        A::value(self.0, at)
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
        let mut operands = SmallVec::<[_; 4]>::new();
        A::tensors(items, &mut |at, t| operands.push((at, t)));
        let arguments = &Items::<A>(items);
        let call = Call { op: self.op, operands: &operands, arguments };
        let follows = self.around.before(&call, &mut kept)?;
        let below = keys & DispatchKeySet::AFTER_AUTOGRAD;
        let mut results: R = {
            let _below = BelowAutograd::enter();
            TypedHandle::<A, R>::of(self.op).redispatch(below, items)?
        };
        if follows {
            let mut tensors = SmallVec::<[_; 2]>::new();
            results.tensors_mut(&mut |at, t| tensors.push((at, t)));
            self.around.after(self.op, &mut kept, &mut tensors)?;
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
