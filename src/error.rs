//! The error type of the crate: what went wrong, in which operator, on which operands, where.

use crate::dispatch::DispatchError;
use crate::tensor::Tensor;
use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use straightline_catalog::meta::ErrorClass;
use straightline_catalog::{DType, Device, Dims};
use straightline_runtime::cpu::kernels::KernelError;
use straightline_runtime::memory::OutOfMemory;

/// Checks of operators: `ensure!(condition, "message {}", ..)` returns an error of a kind unless the
/// condition holds, as PyTorch's `TORCH_CHECK`, `TORCH_CHECK_INDEX` and the others do.
macro_rules! checks {
    ($d:tt $($name:ident $kind:ident;)*) => {$(
        macro_rules! $name {
            ($d condition:expr, $d($d message:tt)+) => {
                let holds: bool = $d condition;
                if !holds {
                    return Err($d crate::error::Error::$kind(format!($d($d message)+)));
                }
            };
        }
    )*};
}

checks! { $
    ensure runtime;
    ensure_compile compile;
    ensure_device device;
    ensure_dtype dtype;
    ensure_index index;
    ensure_linalg linalg;
    ensure_not_implemented not_implemented;
    ensure_shape shape;
    ensure_type type_error;
    ensure_value value;
}

/// `Result` with the crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with its context.
///
/// The kind says what is wrong; the context (operator, operand shapes and dtypes, the caller's
/// source line) is attached by the operator's wrapper on the way out.
///
/// ```
/// use straightline::{ErrorKind, MetaError, Tensor};
/// let a = Tensor::from_slice(&[1f32, 2.0], &[2])?;
/// let b = Tensor::from_slice(&[1f32, 2.0, 3.0], &[3])?;
/// let err = a.add(&b).unwrap_err();
/// assert!(matches!(err.kind(), ErrorKind::Meta(MetaError::Broadcast { .. })));
/// assert_eq!(err.op(), Some("aten::add.Tensor"));
/// assert!(err.to_string().contains("f32[2]"));
/// # Ok::<(), straightline::Error>(())
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    op: Option<Cow<'static, str>>,
    operands: Vec<Operand>,
    location: Option<&'static Location<'static>>,
    source_line: Option<Arc<str>>,
    /// Whether eager code makes the call without an error.
    only_captured: bool,
}

/// What an error records about a tensor operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub sizes: Dims,
    /// Device.
    pub device: Device,
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.sizes.as_slice())?;
        if !self.device.is_cpu() {
            write!(f, "@{}", self.device)?;
        }
        Ok(())
    }
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Sizes do not fit together or do not suit the operator.
    #[error("{0}")]
    Shape(String),
    /// A dtype that the operator does not take, or dtypes that do not go together.
    #[error("{0}")]
    DType(String),
    /// Tensors on different devices, or a device that does not exist.
    #[error("{0}")]
    Device(String),
    /// A dimension or an index out of range (PyTorch's `IndexError`).
    #[error("{0}")]
    Index(String),
    /// An argument with an invalid value (PyTorch's `ValueError`).
    #[error("{0}")]
    Value(String),
    /// An argument of a kind that the operator does not take (PyTorch's `TypeError`).
    #[error("{0}")]
    Type(String),
    /// Operands or arguments that the operator does not take, as far as can be told without data.
    #[error(transparent)]
    Meta(#[from] straightline_catalog::MetaError),
    /// Something without a kernel, such as an operator for a dtype (PyTorch's
    /// `NotImplementedError`), or not implemented yet; the text says what to do instead.
    #[error("{0}")]
    NotImplemented(String),
    /// A matrix that linear algebra cannot work with: singular, not positive definite, without
    /// convergence (PyTorch's `torch.linalg.LinAlgError`, a `RuntimeError`).
    #[error("{0}")]
    LinAlg(String),
    /// Any other condition that PyTorch reports as `RuntimeError`.
    #[error("{0}")]
    Runtime(String),
    /// The dispatcher refused: no kernel, a bad registration, a wrong signature.
    #[error(transparent)]
    Dispatch(#[from] crate::dispatch::DispatchError),
    /// A text that does not name a device.
    #[error(transparent)]
    DeviceName(#[from] straightline_catalog::device::ParseDeviceError),
    /// A backend could not be renamed.
    #[error(transparent)]
    BackendName(#[from] crate::dispatch::RenameBackendError),
    /// Gradients cannot be computed, or a call would make that impossible.
    #[error(transparent)]
    Autograd(Box<crate::autograd::AutogradError>),
    /// A function cannot be transformed, or does what a transform does not allow.
    #[error(transparent)]
    Transform(Box<crate::transforms::TransformError>),
    /// A branch or a loop was given functions or operands that it cannot work with.
    #[cfg(feature = "compile")]
    #[error(transparent)]
    ControlFlow(Box<crate::control_flow::ControlFlowError>),
    /// A dispatch mode or a wrapper tensor refused.
    #[error(transparent)]
    Mode(#[from] crate::modes::ModeError),
    /// The tensor's memory is in use, and waiting for it is not allowed or would not help.
    #[error(transparent)]
    Busy(#[from] crate::tensor::Busy),
    /// The tensor lies in memory that may only be read (a weight in a mapped file, an array of another
    /// library), and the call would write it.
    #[error(
        "the tensor lies in {memory}, which is read only: write into a copy, which `copied()` makes, or compute a new \
         tensor instead of writing in place"
    )]
    ReadOnly {
        /// What the memory is.
        memory: String,
    },
    /// The shape of a tensor that several threads use has changed, or would have to.
    #[error(
        "a tensor of sizes {sizes:?} belongs to another thread or is used by several, and {what}: take a handle of \
         your own with `detach()`, or a copy with `copied()` of the tensor's values"
    )]
    ShapeOfSharedTensor {
        /// What is the matter.
        what: &'static str,
        /// The tensor's sizes.
        sizes: Vec<i64>,
    },
    /// A kernel met data that it cannot process.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Memory ran out.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// The memory of a device ran out.
    #[error("`{device}`: {what}")]
    DeviceMemory {
        /// The device.
        device: Device,
        /// What was asked for, and what holds the memory.
        what: String,
    },
    /// Tensor data was needed while a function was being captured, or of a fake tensor.
    #[error(
        "{what} needs the tensor's data, which does not exist while a function is being captured, nor in a fake tensor; \
         move the read outside `compile()`, express it with tensor operators (`where`, `gather`) \
         or with a branch or loop of `control_flow`, \
         or allow `CompileOptions::eager_fallback`"
    )]
    DataDependent {
        /// What wanted the data.
        what: String,
    },
    /// A function that was being captured did something besides calling tensor operators, which a
    /// compiled call would not do again.
    #[error(
        "{what} cannot be captured by `compile()`: {why}; or allow `CompileOptions::eager_fallback`"
    )]
    NotCaptured {
        /// What it did.
        what: String,
        /// Why that is not possible, and what to do instead.
        why: String,
    },
    /// A function that was being captured left a tensor behind that it computed (in a `Mutex`, a
    /// `static`), and a compiled call would not put a new one there. The tensor has its value, as
    /// if the function had run eagerly; if it could not be computed, `lost` says why, and the
    /// tensor must not be used.
    #[error(
        "{tensor}, made by {}, is kept by something outside of the function that was captured, where {}",
        .made_by.as_deref().unwrap_or("the capture"),
        Left(.lost.as_deref())
    )]
    Escaped {
        /// The tensor's dtype and sizes.
        tensor: String,
        /// The operator that made it.
        made_by: Option<String>,
        /// Why it has no value.
        lost: Option<String>,
    },
    /// A tensor that is not plain memory was given to something that reads memory.
    #[error("{what} reads plain memory, and this is {tensor}: {instead}")]
    Opaque {
        /// What wanted the memory.
        what: String,
        /// What the tensor is.
        tensor: String,
        /// What to do.
        instead: &'static str,
    },
    /// A program that cannot be run, or a call that does not suit it.
    #[cfg(feature = "compile")]
    #[error(transparent)]
    Program(Box<crate::program::ProgramError>),
    /// Two tensors are not close ([`assert_close`](crate::assert_close)).
    #[error("{0}")]
    NotClose(Box<crate::testing::Mismatch>),
    /// A state dict that does not fit a module
    /// ([`load_state_dict`](crate::nn::Module::load_state_dict)): everything that is wrong with it.
    #[error(transparent)]
    StateDict(#[from] Box<crate::nn::StateDictMismatch>),
    /// An optimiser's step failed between parameters: those before the one that failed are updated,
    /// and that one may be in part.
    #[error(
        "the step failed at a parameter; {updated} of {all} were updated before it and stay so, and its own state may have \
         changed: {source}"
    )]
    PartialStep {
        /// How many parameters were updated.
        updated: usize,
        /// How many parameters with a gradient there are.
        all: usize,
        /// What went wrong.
        source: Box<Error>,
    },
    /// Capturing or compiling failed.
    #[error("{0}")]
    Compile(String),
    /// A kernel panicked in a compiled call, with this message. (A kernel that eager code calls
    /// panics through the call.)
    #[error("the operator's kernel panicked: {0}")]
    Panic(String),
    /// An archive, or a file of weights in one, cannot be read.
    #[error(transparent)]
    Archive(#[from] Box<crate::files::FileError>),
    /// Reading or writing a file failed.
    #[error("{path}: {message}")]
    File {
        /// The file.
        path: String,
        /// Why.
        message: String,
    },
}

/// What to do about a tensor that was left behind.
struct Left<'a>(Option<&'a str>);

impl fmt::Display for Left<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str(
                "a compiled call would not put a new one: it is there with its value now, so a cache that is filled \
                 once serves the next call; otherwise return it from the function, write into a tensor that is there \
                 already with `copy_`, or allow `CompileOptions::eager_fallback`",
            ),
            Some(why) => write!(
                f,
                "it stands for a value and has none ({why}): put a tensor with data where it is kept, and return it \
                 from the function, or write into a tensor that is there already with `copy_`"
            ),
        }
    }
}

impl Error {
    /// An error without context.
    #[cold]
    pub fn new(kind: ErrorKind) -> Error {
        Error(Box::new(Inner {
            kind,
            op: None,
            operands: Vec::new(),
            location: None,
            source_line: None,
            only_captured: false,
        }))
    }

    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The class of the exception that PyTorch's Python binding raises in this place:
    /// `"RuntimeError"`, `"IndexError"`, `"ValueError"`, `"TypeError"`, `"NotImplementedError"` or
    /// `"_LinAlgError"`, which is a `RuntimeError` too (`c10::Error` and its subclasses, by
    /// torch/csrc/Exceptions.h).
    ///
    /// ```
    /// use straightline::Tensor;
    /// let x = Tensor::from_slice(&[1f32, 2.0], &[2])?;
    /// assert_eq!(x.sum_dim(&[5]).unwrap_err().python_class(), "IndexError");
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn python_class(&self) -> &'static str {
        match self.kind() {
            ErrorKind::Meta(e) if e.class() == ErrorClass::Index => "IndexError",
            ErrorKind::Index(_) | ErrorKind::Kernel(KernelError::IndexOutOfRange { .. }) => {
                "IndexError"
            }
            ErrorKind::Autograd(e) => e.python_class(),
            ErrorKind::PartialStep { source, .. } => source.python_class(),
            ErrorKind::Transform(e) => e.python_class(),
            ErrorKind::Value(_) => "ValueError",
            ErrorKind::Type(_) => "TypeError",
            ErrorKind::LinAlg(_) => "_LinAlgError",
            ErrorKind::NotImplemented(_)
            | ErrorKind::Kernel(KernelError::UnsupportedDType { .. })
            | ErrorKind::Dispatch(
                DispatchError::MissingKernel(_) | DispatchError::NoMetaKernel { .. },
            ) => "NotImplementedError",
            _ => "RuntimeError",
        }
    }

    /// The operator that failed, `aten::add.Tensor`.
    pub fn op(&self) -> Option<&str> {
        self.0.op.as_deref()
    }

    /// The tensor operands of the failing call.
    pub fn operands(&self) -> &[Operand] {
        &self.0.operands
    }

    /// The user's line that made the failing call.
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.0.location
    }

    /// Adds the operator and its operands, unless an inner call has done so.
    #[cold]
    pub fn with_call<'a>(
        mut self,
        op: impl Into<Cow<'static, str>>,
        tensors: impl IntoIterator<Item = &'a Tensor>,
    ) -> Error {
        let op = op.into();
        // a boxed call knows its operator, but no longer its operands
        let named_only = self.0.operands.is_empty() && self.0.op.as_ref() == Some(&op);
        if self.0.op.is_none() || named_only {
            self.0.op = Some(op);
            self.0.operands = tensors
                .into_iter()
                .map(|t| Operand {
                    dtype: t.dtype(),
                    sizes: Dims::from_slice(t.sizes()),
                    device: t.device(),
                })
                .collect();
        }
        self
    }

    /// [`Error::with_call`] in place of what an inner call has said.
    #[cold]
    pub(crate) fn of_call(mut self, op: String, tensors: &[Tensor]) -> Error {
        self.0.op = None;
        self.with_call(op, tensors)
    }

    /// [`Error::with_call`] if the tensors are not available.
    #[cold]
    pub(crate) fn with_operands(
        mut self,
        op: impl Into<Cow<'static, str>>,
        operands: impl IntoIterator<Item = Operand>,
    ) -> Error {
        let op = op.into();
        let named_only = self.0.operands.is_empty() && self.0.op.as_ref() == Some(&op);
        if self.0.op.is_none() || named_only {
            self.0.op = Some(op);
            self.0.operands = operands.into_iter().collect();
        }
        self
    }

    /// Gives operands that were moved to Meta for their shapes the device that they came from.
    #[cold]
    pub(crate) fn with_operands_on(mut self, device: Device) -> Error {
        for operand in &mut self.0.operands {
            if operand.device.is_meta() {
                operand.device = device;
            }
        }
        self
    }

    /// Sets the caller's line. Outer calls replace what inner ones set, so the outermost one, the
    /// user's, stays.
    #[cold]
    pub fn with_location(mut self, location: &'static Location<'static>) -> Error {
        self.0.location = Some(location);
        self
    }

    /// Where the failing call stands in a program that was not written in Rust: the node and, if that is
    /// known, the line of the model, as Python prints it.
    pub fn source_line(&self) -> Option<&str> {
        self.0.source_line.as_deref()
    }

    /// Sets [`Error::source_line`], unless an inner call has done so.
    #[cold]
    pub(crate) fn with_source_line(mut self, line: &Arc<str>) -> Error {
        self.0.source_line.get_or_insert_with(|| Arc::clone(line));
        self
    }

    /// Marks the error of a call that would succeed in eager code.
    #[cold]
    pub(crate) fn only_captured(mut self) -> Error {
        self.0.only_captured = true;
        self
    }

    /// Whether the call fails because it is captured.
    pub(crate) fn is_only_captured(&self) -> bool {
        self.0.only_captured
    }

    pub(crate) fn shape(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Shape(message.into()))
    }

    pub(crate) fn dtype(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::DType(message.into()))
    }

    pub(crate) fn device(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Device(message.into()))
    }

    pub(crate) fn index(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Index(message.into()))
    }

    pub(crate) fn type_error(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Type(message.into()))
    }

    pub(crate) fn value(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Value(message.into()))
    }

    pub(crate) fn not_implemented(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::NotImplemented(message.into()))
    }

    pub(crate) fn linalg(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::LinAlg(message.into()))
    }

    /// A tensor of inference mode would be written outside of it.
    #[cold]
    pub(crate) fn inference_write() -> Error {
        crate::autograd::AutogradError::InferenceWrite.into()
    }

    pub(crate) fn runtime(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Runtime(message.into()))
    }

    pub(crate) fn compile(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Compile(message.into()))
    }

    pub(crate) fn file(path: &std::path::Path, message: impl fmt::Display) -> Error {
        Error::new(ErrorKind::File {
            path: path.display().to_string(),
            message: message.to_string(),
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if let Some(op) = &inner.op {
            write!(f, "{op}")?;
            if !inner.operands.is_empty() {
                f.write_str("(")?;
                for (i, o) in inner.operands.iter().enumerate() {
                    write!(f, "{}{o}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{}", inner.kind)?;
        if let Some(line) = &inner.source_line {
            write!(f, " (at {line})")?;
        }
        if let Some(at) = inner.location {
            write!(f, " (called at {}:{}:{})", at.file(), at.line(), at.column())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `fn main() -> Result<()>` prints Debug, and a sentence reads better than a struct.
        write!(f, "{self}")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0.kind)
    }
}

impl<E: Into<ErrorKind>> From<E> for Error {
    #[cold]
    fn from(e: E) -> Error {
        Error::new(e.into())
    }
}
