//! Kernels made of several kernels, which hold their operands from the first of them to the last.

use super::arg::Ret;
use super::kernel::{Args, BoxedCall, Erased};
use super::value::Value;
use crate::error::Result;
use crate::tensor::{Tensor, access};
use smallvec::SmallVec;
use std::sync::Arc;
use straightline_catalog::keyset::DispatchKeySet;
use straightline_catalog::schema::FunctionSchema;

/// What the trampoline of such a kernel reads.
pub(super) struct Whole {
    /// The positions of the arguments that are written.
    written: u64,
    /// What the function gives is no view.
    stands_alone: bool,
    f: Erased,
    functor: *const (),
    /// Owns the functor.
    _kernel: Arc<dyn BoxedCall>,
}

// SAFETY: the pointer is to the functor inside `_kernel`, which is `Send + Sync`, and is only ever
// read through.
unsafe impl Send for Whole {}
// SAFETY: as above.
unsafe impl Sync for Whole {}

impl Whole {
    /// `functor` is the one of the trampoline `f`, and lives as long as `kernel`.
    pub(super) fn new(
        written: u64,
        stands_alone: bool,
        f: Erased,
        functor: *const (),
        kernel: Arc<dyn BoxedCall>,
    ) -> Whole {
        Whole { written, stands_alone, f, functor, _kernel: kernel }
    }

    /// Takes the operands and calls the function. Where that makes its result as a view of a tensor
    /// of its own, the result loses the base, of which nobody knows.
    ///
    /// # Safety
    ///
    /// The function was made for `A` and `R`.
    pub(super) unsafe fn run<A: Args, R: Ret>(
        &self,
        keys: DispatchKeySet,
        items: A::Items<'_>,
    ) -> Result<R> {
        let mut operands = Operands::default();
        A::tensors(items, &mut |i, t| operands.push(self.written >> i & 1 == 1, t));
        let _whole = operands.take()?;
        // SAFETY: the caller's, and `_kernel` keeps the functor.
        let mut results = unsafe { A::invoke::<R>(self.f, self.functor, keys, items)? };
        results.tensors_mut(&mut |_, t| {
            if self.stands_alone && t.base().is_some() && !operands.contain(t) {
                t.lose_base();
            }
        });
        Ok(results)
    }
}

#[derive(Default)]
struct Operands<'a> {
    written: SmallVec<[&'a Tensor; 2]>,
    read: SmallVec<[&'a Tensor; 6]>,
}

impl<'a> Operands<'a> {
    fn push(&mut self, written: bool, t: &'a Tensor) {
        match written {
            true => self.written.push(t),
            false => self.read.push(t),
        }
    }

    fn contain(&self, t: &Tensor) -> bool {
        self.written.iter().chain(&self.read).any(|operand| operand.same_handle(t))
    }

    fn take(&self) -> Result<access::Whole<'a>> {
        access::whole(&self.written, &self.read)
    }
}

/// Holds the tensors of a call on the stack until the guard is dropped, as its schema says that it
/// reads and writes them.
pub(crate) fn hold_arguments<'a>(
    schema: &FunctionSchema,
    args: &'a [Value],
) -> Result<access::Whole<'a>> {
    let mut operands = Operands::default();
    let pairs = || schema.args.iter().zip(args);
    let flag = pairs().find(|(a, _)| matches!(&*a.name, "training" | "use_input_stats"));
    for (arg, value) in pairs() {
        let written = match flag {
            // batch norms write them only in training, although the schema marks them as written
            Some((_, flag)) if arg.name.starts_with("running_") => {
                matches!(flag, Value::Bool(true))
            }
            _ => arg.is_write(),
        };
        for t in value.tensors() {
            operands.push(written, t);
        }
    }
    operands.take()
}
