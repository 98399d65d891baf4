//! Finds the first operator that made a NaN or an infinity out of finite operands.

use super::call::{Call, Outcome};
use super::dispatch_mode::{DispatchMode, push_mode};
use super::stack::ModeGuard;
use super::{ModeError, subclass, tracer};
use crate::dispatch::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::ops::nested;
use crate::ops::sparse;
use crate::tensor::Tensor;
use num_complex::Complex;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use straightline_catalog::DType;

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NonFinite {
    /// The operator, `aten::log`.
    pub op: String,
    /// The call, operands as dtype and sizes.
    pub call: String,
    /// How many operators ran before it.
    pub index: usize,
    /// The index of the return with the values.
    pub output: usize,
    /// How many NaNs.
    pub nans: usize,
    /// How many infinities.
    pub infinities: usize,
    /// How many elements in all.
    pub elements: usize,
}

impl fmt::Display for NonFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "operator {} of the program, {}, made {} NaN and {} infinite values among {} in its output {}, though its \
             operands are finite",
            self.index, self.call, self.nans, self.infinities, self.elements, self.output
        )
    }
}

#[derive(Default)]
struct State {
    first: RefCell<Option<NonFinite>>,
    calls: Cell<usize>,
    stops: bool,
}

/// Finds the first operator that produced NaN or infinity although no operand had one, numbers
/// among the arguments included, so filling with an infinity on purpose is no finding. Memory that
/// is not set yet (`empty`) is not looked at. Clones share what was found.
///
/// ```
/// use straightline::modes::NanFinder;
/// use straightline::Tensor;
///
/// let finder = NanFinder::new();
/// {
///     let _guard = finder.push();
///     let x = Tensor::from_vec([1f32, -1.0, 4.0], 3)?;
///     x.sqrt()?.add(1)?.exp()?; // NaN from here on, made by the first
/// }
/// let found = finder.first().expect("the square root of -1");
/// assert_eq!(found.op, "aten::sqrt");
/// assert_eq!(found.call, "aten::sqrt(f32[3])");
/// assert_eq!((found.nans, found.infinities), (1, 0));
///
/// // or stop there with an error
/// let _guard = NanFinder::stopping().push();
/// assert!(Tensor::from_vec([-1f32], 1)?.log().is_err());
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct NanFinder(Rc<State>);

impl fmt::Debug for NanFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NanFinder")
            .field("first", &self.0.first.borrow())
            .field("stops", &self.0.stops)
            .finish_non_exhaustive()
    }
}

impl NanFinder {
    /// A finder that remembers what it finds and lets the program go on.
    pub fn new() -> NanFinder {
        NanFinder::default()
    }

    /// A finder that makes the operator fail with [`ModeError::NonFinite`].
    pub fn stopping() -> NanFinder {
        NanFinder(Rc::new(State { stops: true, ..State::default() }))
    }

    /// Puts the finder on this thread's stack of modes.
    pub fn push(&self) -> ModeGuard {
        push_mode(self.clone())
    }

    /// The first that was found.
    pub fn first(&self) -> Option<NonFinite> {
        self.0.first.borrow().clone()
    }

    /// Forgets what was found, to find the next.
    pub fn clear(&self) {
        self.0.first.borrow_mut().take();
        self.0.calls.set(0);
    }
}

impl DispatchMode for NanFinder {
    fn dispatch(&self, call: Call<'_>) -> Result<Outcome> {
        let found = self.0.first.borrow().is_some() && !self.0.stops;
        if found || is_unset(&call) {
            return Ok(call.forward()?.into());
        }
        let index = self.0.calls.replace(self.0.calls.get() + 1);
        // operands that the call writes are looked at while they are what they were
        let mut bad_before = false;
        for (value, arg) in call.args().iter().zip(&call.schema().args) {
            bad_before |= arg.is_write() && count(value)?.is_bad();
        }
        let values = call.forward()?;
        for (output, value) in values.iter().enumerate() {
            let counts = count(value)?;
            if !counts.is_bad() || bad_before || operands_are_bad(&call)? {
                continue;
            }
            let found = NonFinite {
                op: call.op().name().to_string(),
                call: call.to_string(),
                index,
                output,
                nans: counts.nans,
                infinities: counts.infinities,
                elements: counts.elements,
            };
            if self.0.stops {
                self.0.first.replace(Some(found.clone()));
                return Err(ModeError::NonFinite(Box::new(found)).into());
            }
            self.0.first.replace(Some(found));
            break;
        }
        Ok(values.into())
    }
}

/// Whether the results hold nothing yet.
fn is_unset(call: &Call<'_>) -> bool {
    let base = call.op().name().base();
    base.starts_with("empty") || base.starts_with("new_empty")
}

fn operands_are_bad(call: &Call<'_>) -> Result<bool> {
    for (value, arg) in call.args().iter().zip(&call.schema().args) {
        let number = value.as_scalar().is_some_and(|x| !x.as_f64().is_finite());
        if number || (!arg.is_write() && count(value)?.is_bad()) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[derive(Clone, Copy, Default)]
struct Counts {
    nans: usize,
    infinities: usize,
    elements: usize,
}

impl Counts {
    fn is_bad(self) -> bool {
        self.nans + self.infinities > 0
    }
}

fn count(value: &Value) -> Result<Counts> {
    let mut total = Counts::default();
    let mut leaves = Vec::new();
    for t in value.tensors() {
        subclass::visit(t, &mut |t| leaves.push(t));
    }
    for t in leaves.into_iter().flat_map(parts) {
        let c = count_in(t)?;
        total.nans += c.nans;
        total.infinities += c.infinities;
        total.elements += c.elements;
    }
    Ok(total)
}

/// The plain tensors that a sparse or nested tensor keeps its elements in.
fn parts(t: &Tensor) -> Vec<&Tensor> {
    if t.is_nested() {
        return nested::components(t).map_or(Vec::new(), |parts| parts.iter().collect());
    }
    vec![sparse::stored_values(t).unwrap_or(t)]
}

fn count_in(t: &Tensor) -> Result<Counts> {
    if !t.dtype().is_floating() && !t.dtype().is_complex() {
        return Ok(Counts::default());
    }
    if !t.storage().has_data() {
        // a shape, or a backend's handle: there is nothing to look at
        return match tracer::current() {
            None => Ok(Counts::default()),
            Some(_) => Err(Error::new(ErrorKind::DataDependent { what: "a NanFinder".into() })),
        };
    }
    macro_rules! each {
        ($t:ty, $wide:expr) => {{
            let wide: fn($t) -> [f64; 2] = $wide;
            let mut c = Counts::default();
            for x in t.to_vec::<$t>()? {
                // of the two parts of a complex number, what either is
                let x = wide(x);
                let nan = x.iter().any(|x| x.is_nan());
                c.nans += usize::from(nan);
                c.infinities += usize::from(!nan && x.iter().any(|x| x.is_infinite()));
                c.elements += 1;
            }
            c
        }};
    }
    Ok(match t.dtype() {
        DType::F32 => each!(f32, |x| [f64::from(x), 0.0]),
        DType::F64 => each!(f64, |x| [x, 0.0]),
        DType::F16 => each!(half::f16, |x| [x.to_f64(), 0.0]),
        DType::BF16 => each!(half::bf16, |x| [x.to_f64(), 0.0]),
        DType::C64 => each!(Complex<f32>, |z| [f64::from(z.re), f64::from(z.im)]),
        DType::C128 => each!(Complex<f64>, |z| [z.re, z.im]),
        _ => Counts::default(),
    })
}
