//! Writes down every operator call.

use super::call::{Call, Outcome};
use super::dispatch_mode::{DispatchMode, push_mode, push_pre_dispatch_mode};
use super::show;
use super::stack::ModeGuard;
use crate::dispatch::Value;
use crate::error::Result;
use crate::tensor::Tensor;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

#[derive(Default)]
struct State {
    lines: RefCell<Vec<String>>,
    depth: Cell<usize>,
    prints: bool,
    names: RefCell<Names>,
}

/// Numbers of tensors, in the order in which they are met.
#[derive(Default)]
struct Names {
    by_id: HashMap<usize, usize>,
    /// Keeps the addresses from being reused.
    kept: Vec<Tensor>,
}

impl Names {
    fn number(&mut self, t: &Tensor) -> usize {
        let next = self.kept.len();
        let kept = &mut self.kept;
        *self.by_id.entry(t.id()).or_insert_with(|| {
            kept.push(t.clone());
            next
        })
    }
}

/// Collects or prints every operator call as `$2 = aten::add.Tensor($0: f32[2,3], $1: f32[2,3])`.
///
/// Tensors are numbered as they are met; an in-place operator returns the number that it was given.
/// The logger holds on to the tensors that it has numbered until it is dropped or
/// [cleared](CallLogger::clear). Clones share the log. Pushed both above autograd and below, it
/// writes what a composite calls indented under it:
///
/// ```
/// use straightline::modes::CallLogger;
/// use straightline::{Tensor, ops::aten};
///
/// let (x, w) = (Tensor::from_slice(&[1f32; 6], &[2, 3])?, Tensor::from_slice(&[1f32; 12], &[4, 3])?);
/// let logger = CallLogger::new();
/// {
///     let _guards = (logger.push_pre_dispatch(), logger.push());
///     aten::linear(&x, &w, None)?.mul_(2)?;
/// }
/// assert_eq!(
///     logger.lines(),
///     [
///         "$3 = aten::linear($0: f32[2,3], $1: f32[4,3])",
///         "  $2 = aten::t($1: f32[4,3])",
///         "  $3 = aten::mm($0: f32[2,3], $2: f32[3,4])",
///         "$3 = aten::mul_.Scalar($3: f32[2,4], 2)",
///         "  $3 = aten::mul_.Scalar($3: f32[2,4], 2)",
///     ]
/// );
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct CallLogger(Rc<State>);

impl fmt::Debug for CallLogger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallLogger")
            .field("lines", &self.0.lines.borrow().len())
            .finish_non_exhaustive()
    }
}

impl CallLogger {
    /// A logger that collects lines.
    pub fn new() -> CallLogger {
        CallLogger::default()
    }

    /// A logger that also prints each line to standard error when its call has ended.
    pub fn printing() -> CallLogger {
        CallLogger(Rc::new(State { prints: true, ..State::default() }))
    }

    /// Puts the logger on this thread's stack of modes.
    pub fn push(&self) -> ModeGuard {
        push_mode(self.clone())
    }

    /// Puts the logger above autograd, where composites arrive whole.
    pub fn push_pre_dispatch(&self) -> ModeGuard {
        push_pre_dispatch_mode(self.clone())
    }

    /// The lines so far, in the order in which the calls began.
    pub fn lines(&self) -> Vec<String> {
        self.0.lines.borrow().clone()
    }

    /// The number assigned to a tensor.
    pub fn number(&self, t: &Tensor) -> Option<usize> {
        self.0.names.borrow().by_id.get(&t.id()).copied()
    }

    /// Forgets the lines and the numbers.
    pub fn clear(&self) {
        self.0.lines.borrow_mut().clear();
        self.0.names.take();
    }

    fn result(&self, v: &Value) -> String {
        let name = |t: &Tensor| format!("${}", self.0.names.borrow_mut().number(t));
        show::value(v, &mut { name })
    }
}

/// One level deeper while it lives.
struct Deeper<'a>(&'a Cell<usize>);

impl Drop for Deeper<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl DispatchMode for CallLogger {
    fn dispatch(&self, call: Call<'_>) -> Result<Outcome> {
        let state = &*self.0;
        let mut operand = |t: &Tensor| {
            let number = state.names.borrow_mut().number(t);
            format!("${number}: {}", show::tensor(t))
        };
        let text = show::call(&call, &mut operand);
        let depth = state.depth.get();
        let indent = "  ".repeat(depth);
        let at = {
            let mut lines = state.lines.borrow_mut();
            lines.push(format!("{indent}{text}"));
            lines.len() - 1
        };
        let result = {
            state.depth.set(depth + 1);
            let _deeper = Deeper(&state.depth);
            call.forward()
        };
        let line = match &result {
            Ok(values) if values.is_empty() => format!("{indent}{text}"),
            Ok(values) => {
                let names: Vec<String> = values.iter().map(|v| self.result(v)).collect();
                format!("{indent}{} = {text}", names.join(", "))
            }
            Err(_) => format!("{indent}{text} failed"),
        };
        if state.prints {
            eprintln!("{line}");
        }
        if let Some(slot) = state.lines.borrow_mut().get_mut(at) {
            *slot = line;
        }
        Ok(result?.into())
    }
}
