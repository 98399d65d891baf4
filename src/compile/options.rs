//! How functions are compiled, and what happened while they were.

use super::guards::GuardMiss;
use std::fmt;
use std::time::Duration;

/// What becomes of a function that is called with other sizes.
///
/// ```
/// use straightline::{CompileOptions, DynamicSizes, Tensor, compile_with};
/// let never = CompileOptions { dynamic: DynamicSizes::Never, ..CompileOptions::default() };
/// let (f, g) = (compile_with(never, Tensor::exp), straightline::compile(Tensor::exp));
/// for n in [100, 200, 300] {
///     f.call(&Tensor::ones([n])?)?;
///     g.call(&Tensor::ones([n])?)?;
/// }
/// assert_eq!((f.codes(), g.codes()), (3, 2));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum DynamicSizes {
    /// The code for the second set of sizes reads those numbers in which the two differ, and serves
    /// further sizes. This is what PyTorch does with `dynamic=None`.
    #[default]
    Automatic,
    /// Each set of sizes has code of its own (`dynamic=False`).
    Never,
}

/// How a function is compiled.
///
/// ```
/// use straightline::{CompileOptions, Tensor, compile_with};
/// let options = CompileOptions { max_variants: 2, ..CompileOptions::default() };
/// let f = compile_with(options, |x: &Tensor| x.relu());
/// for n in 1..5 {
///     f.call(&Tensor::from_vec(vec![-1f32; n], -1)?)?;
/// }
/// assert_eq!(f.variants(), 2); // the third and fourth size ran eagerly
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// At most this many variants (sets of guards) with code of their own are kept; calls that match none
    /// of them run eagerly from then on, and [`CompileEvent::VariantLimit`] is recorded. Variants
    /// that no call can use any more (an operator was registered again, a closed-over tensor
    /// replaced) do not count, up to eight times this number; pass tensors that are replaced often
    /// as arguments.
    pub max_variants: usize,
    /// Functions that cannot be captured
    /// ([`ErrorKind::DataDependent`](crate::ErrorKind::DataDependent),
    /// [`NotCaptured`](crate::ErrorKind::NotCaptured), [`Opaque`](crate::ErrorKind::Opaque),
    /// [`Escaped`](crate::ErrorKind::Escaped), and other refusals of a capture, such as an operator
    /// without a Meta kernel) run eagerly instead of failing, and a [`CompileEvent::EagerFallback`]
    /// says so. The part of the function before the refusal runs twice in that call; a function
    /// that only leaves tensors in outside state runs once.
    pub eager_fallback: bool,
    /// What becomes of other sizes.
    pub dynamic: DynamicSizes,
    /// At most this many more variants are kept which share the code of another one; they are a
    /// captured graph each, and a table of numbers. Beyond that, calls run eagerly.
    pub max_sizes: usize,
    /// Allow rewrites that change results by more than a reordered sum does, also for NaN,
    /// infinities and signed zero, and convolutions of `f32` whose error is some ten times that of
    /// a sum (3x3 kernels by Winograd's algorithm on squares of 4x4 outputs).
    pub fast_math: bool,
    /// On a GPU, measure generated kernels in a few arrangements beside the one that a cost model
    /// predicts to be the quickest. It takes a second or so for each kernel, once on a machine: what was
    /// the quickest is kept on disk.
    pub autotune: bool,
    /// Measure how long each step of a call takes, for
    /// [`StepExplanation::time`](super::explain::StepExplanation::time). Its clock costs some 30 ns a
    /// step. The steps of a GPU's program are not measured.
    pub time_steps: bool,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            max_variants: 16,
            eager_fallback: false,
            dynamic: DynamicSizes::default(),
            max_sizes: 1024,
            fast_math: false,
            autotune: false,
            time_steps: false,
        }
    }
}

/// Something that happened to a compiled function.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CompileEvent {
    /// A variant was captured and compiled.
    Compiled {
        /// Its number, from 0.
        variant: usize,
        /// The variant whose code it runs, if its kernels differ from that one's in sizes and strides
        /// alone.
        code_of: Option<usize>,
        /// Why the variants before it that have code of their own did not serve the call; none for
        /// the first.
        misses: Vec<GuardMiss>,
        /// Capture, rewriting, scheduling and code generation together.
        took: Duration,
    },
    /// An operator that the variant was compiled with has other registrations now (a kernel was
    /// registered or taken back, a fallback, its schema): the variant serves no call any more.
    Outdated {
        /// The variant.
        variant: usize,
        /// The operator, `aten::relu`.
        operator: String,
    },
    /// The bound on variants was reached: the call ran eagerly, as will others like it.
    VariantLimit {
        /// The bound.
        limit: usize,
        /// Why each variant with code of its own did not serve the call.
        misses: Vec<GuardMiss>,
    },
    /// The function could not be captured and runs eagerly, as the options allow.
    EagerFallback {
        /// The error that capture ended in.
        reason: String,
    },
    /// Something on the calling thread sees every operator call (a dispatch mode, a resolver), or
    /// an argument is a conjugate or negative view, so the function ran eagerly and nothing was
    /// compiled. Recorded once for calls in a row.
    Intercepted {
        /// What intercepts the calls, such as ``dispatch mode `CallLogger` ``.
        by: String,
    },
    /// Another thread was capturing the function, and the call ran eagerly rather than wait longer:
    /// that thread might be waiting for this one. Recorded once for calls in a row.
    Awaited {
        /// How long the call had waited.
        waited: Duration,
    },
}

impl fmt::Display for CompileEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileEvent::Compiled { variant, code_of, misses, took } => {
                write!(f, "compiled variant {variant} in {:.2} ms", took.as_secs_f64() * 1e3)?;
                if let Some(other) = code_of {
                    write!(f, ", which runs the code of variant {other}")?;
                }
                write_misses(f, misses)
            }
            CompileEvent::Outdated { variant, operator } => {
                write!(f, "variant {variant} is outdated: `{operator}` is registered otherwise now")
            }
            CompileEvent::VariantLimit { limit, misses } => {
                write!(
                    f,
                    "ran eagerly: {limit} variants exist already (CompileOptions::max_variants, or \
                     max_sizes of those that share code)"
                )?;
                write_misses(f, misses)
            }
            CompileEvent::EagerFallback { reason } => {
                write!(f, "runs eagerly, since it cannot be captured: {reason}")
            }
            CompileEvent::Intercepted { by } => {
                write!(f, "ran eagerly: {by} is active on this thread")
            }
            CompileEvent::Awaited { waited } => {
                write!(
                    f,
                    "ran eagerly: after {:.1} s another thread was capturing the function still",
                    waited.as_secs_f64()
                )
            }
        }
    }
}

fn write_misses(f: &mut fmt::Formatter<'_>, misses: &[GuardMiss]) -> fmt::Result {
    for m in misses {
        write!(f, "; {m}")?;
    }
    Ok(())
}
