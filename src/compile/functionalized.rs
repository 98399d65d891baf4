//! `functionalize`: runs a function eagerly, with only operators that do not write.
//!
//! The function is captured as `compile()` does it, which makes it functional, and the graph's
//! calls are made one after another through the dispatcher.

use super::arguments::{Arguments, TensorFunction};
use super::capture::capture;
use super::interpret::{self, Interpreter};
use super::traced::Traced;
use super::tree::TensorTree;
use super::{flat, replay, results};
use crate::dispatch::{DispatchKeySet, ExcludeGuard};
use crate::error::{Error, Result};
use crate::modes::{fake, interception, tracer};
use crate::tensor::Tensor;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

type Function<I, O> = dyn Fn(&I) -> Result<O> + Send + Sync;

/// A function that runs without writes; made by [`functionalize`].
pub struct Functionalized<I, O> {
    function: Arc<Function<I, O>>,
    at: &'static Location<'static>,
    views: bool,
}

impl<I, O> Clone for Functionalized<I, O> {
    fn clone(&self) -> Self {
        Functionalized { function: self.function.clone(), at: self.at, views: self.views }
    }
}

impl<I, O> fmt::Debug for Functionalized<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Functionalized").field("views", &self.views).finish_non_exhaustive()
    }
}

/// Wraps a function so that it runs without in-place operators: each is replaced by the operator
/// that computes the new value, and views of a written tensor are taken again from the new value.
/// Arguments and closed-over tensors that the function writes get their new values by one `copy_`
/// each, after all other calls. The results, and what they alias, are those of the function.
/// PyTorch's `torch.func.functionalize`; with [`without_views`](Functionalized::without_views) its
/// `remove="mutations_and_views"`.
///
/// Nothing is compiled or kept: each call captures the function on stand-ins without data and makes
/// the functional calls eagerly. The function may run more than once in a call, and what
/// [`compile()`](crate::compile()) refuses in a function is refused here too, above all reading
/// data. Dispatch modes of the thread see the functional calls, and not those that the function
/// itself makes.
///
/// ```
/// use straightline::modes::CallLogger;
/// use straightline::{Tensor, functionalize, tensor};
/// let f = functionalize(|x: &Tensor| {
///     let y = x.mul(2)?;
///     y.select(0, 0)?.add_(10)?;
///     Ok(y)
/// });
/// let log = CallLogger::new();
/// let y = {
///     let _log = log.push();
///     f.call(&tensor([1.0, 2.0])?)?
/// };
/// assert_eq!(y.to_vec::<f32>()?, [12.0, 4.0]);
/// assert!(log.lines().iter().any(|line| line.contains("aten::add.Scalar")));
/// assert!(!log.lines().iter().any(|line| line.contains("add_")));
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn functionalize<S, F: TensorFunction<S>>(f: F) -> Functionalized<F::Input, F::Output> {
    Functionalized {
        function: Arc::new(move |input| f.apply(input)),
        at: Location::caller(),
        views: true,
    }
}

impl<I: TensorTree, O: TensorTree> Functionalized<I, O> {
    /// Removes views as well: calls the `_copy` form of each view operator that has one.
    ///
    /// ```
    /// use straightline::{Tensor, functionalize, tensor};
    /// let f = functionalize(|x: &Tensor| x.t()?.exp()).without_views();
    /// assert_eq!(f.call(&tensor([[0.0, 0.0]])?)?.shape(), [2, 1]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[must_use]
    pub fn without_views(mut self) -> Self {
        self.views = false;
        self
    }

    /// Calls the function with what it takes, or with references in its shape ([`Arguments`]).
    ///
    /// # Errors
    /// What the function itself returns,
    /// [`ErrorKind::DataDependent`](crate::ErrorKind::DataDependent) and
    /// [`ErrorKind::NotCaptured`](crate::ErrorKind::NotCaptured); wrapper tensors while a dispatch
    /// mode is on the thread.
    pub fn call(&self, inputs: impl Arguments<I>) -> Result<O> {
        inputs.with(|inputs| self.run(inputs))
    }

    fn run(&self, inputs: &I) -> Result<O> {
        let mut leaves: Vec<&Tensor> = Vec::new();
        let wrapped = flat::visit(inputs, |t| leaves.push(t));
        let fakes = fake::is_pushed() || leaves.iter().any(|t| t.is_fake());
        if tracer::current().is_some() || fakes {
            // a capture is functional already, and fake tensors have no data
            return (self.function)(inputs);
        }
        let modes = interception();
        if let (true, Some(by)) = (wrapped, &modes) {
            return Err(Error::not_implemented(format!(
                "functionalize() of a function of wrapper tensors while {by} is active: call it without the mode, or \
                 take the tensors inside out first"
            )));
        }
        let captured = {
            // modes see the functional calls
            let hidden = match modes {
                Some(_) => DispatchKeySet::PYTHON | PRE_DISPATCH,
                None => DispatchKeySet::EMPTY,
            };
            let _hidden = ExcludeGuard::new(hidden);
            capture(&*self.function, inputs)
        };
        let captured = captured.map_err(|e| match e.location() {
            Some(_) => e,
            None => e.with_location(self.at),
        })?;
        let results = {
            let _below = interpret::below();
            self.perform(&captured.traced, &leaves)?
        };
        let results = results.into_iter();
        Ok(flat::rebuild(&captured.output, &captured.handed, inputs, results))
    }

    /// Makes the calls of the graph, then the writes.
    fn perform(&self, traced: &Traced, arguments: &[&Tensor]) -> Result<replay::Results> {
        let inputs = match traced.slots.is_empty() {
            true => arguments.iter().map(|t| (*t).clone()).collect(),
            false => results::graph_inputs(&traced.slots, arguments)?,
        };
        let parameters = traced.parameters().map(Some);
        let mut calls =
            Interpreter::new(&traced.graph, inputs.iter().map(Some), parameters).views(self.views);
        calls.all()?;
        let values = interpret::outputs(&calls)?;
        interpret::write_back(traced, arguments, &inputs, &values)?;
        let mut results = replay::delivered(traced, arguments, &values)?;
        results.truncate(traced.returned);
        Ok(results)
    }
}

const PRE_DISPATCH: DispatchKeySet =
    DispatchKeySet::of(&[crate::dispatch::DispatchKey::PreDispatch]);
