//! The loop IR: the common input of all code generation targets.
//!
//! A [`Schedule`] is the whole graph as [`Step`]s over [`Buffer`]s. A [`Kernel`] is a parallel
//! grid and stages that run in order for each grid point; a [`Stage`] is sequential axes and an
//! SSA body. Index expressions are affine in the axes, plus loaded indices (gather). All extents
//! and strides are static.
//!
//! **Which axis is vectorised.** [`Vectorize::Stage`]: the innermost axis of each stage; a
//! [`Op::Reduce`] ends in a horizontal reduction, and its result is one number per grid point
//! (softmax over rows). [`Vectorize::Grid`]: the innermost grid axis; each value of a body is a
//! vector over neighbouring grid points and reductions need no horizontal step (pointwise kernels,
//! which have one stage without axes; sums over leading dimensions). [`Vectorize::None`]: scalar.
//!
//! **Numbers.** Kernels are generic over what their numbers are. The scheduler makes them of
//! integers; code generation reads some of them from a table ([`Schedule::apart`]).
//!
//! **Between stages.** A stage may load what an earlier stage of the same kernel stored at the same
//! grid point, from scratch rows and from buffers alike; no grid point reads what another one
//! stores. Instructions that depend on no axis of their stage are still in its body; an emitter
//! computes them once, before the stage's loops. A stage without axes runs once per grid point.
//!
//! **Scatters.** A store or an [`Op::Update`] may have an index that was loaded. Its targets are
//! known only at run time, so the points of its stage that hit one element do so in the order of
//! the stage's axes, the last axis fastest: the last store wins, and updates accumulate as the
//! eager kernel's do. The grid has only axes whose points hit distinct elements for any loaded
//! indices, and a stage that scatters into a buffer does not access it otherwise
//! ([`verify_schedule`](super::verify_schedule) checks both). An emitter that runs several points
//! of a stage at once has to keep the order where they may hit one element.
//!
//! **Values.** Each instruction has a *logical* dtype. `f16`/`bf16` values are held widened to
//! `f32` but always rounded to their own precision, so each operation on them rounds as the eager
//! operator does; `u8`/`i8`/`i16` values are held in 32 bits and wrapped to their own range after
//! each operation. [`Op::Cast`] converts as PyTorch does (float to integer truncates, anything to
//! `bool` is `!= 0`).

pub use super::cost::Work;
pub use super::numbers::{LiteralKind, Numbers, Structure};
use crate::ir::graph::{EagerCall, SourceLine};
pub use crate::ir::prims::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use crate::ir::{Arg, TensorMeta};
use crate::ir::{DType, Dims, Scalar};
use smallvec::SmallVec;
use std::sync::Arc;

/// Indexes [`Schedule::buffers`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BufferId(pub u32);

/// Names an axis of a kernel: grid axes come first, then each stage's axes. Stage axes of
/// different stages have different ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AxisId(pub u32);

/// The result of the instruction at this position of the stage's body.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Val(pub u32);

/// Where a buffer's bytes are.
#[derive(Clone, PartialEq, Debug)]
pub enum BufferKind {
    /// The i-th input of the call. The pointer given is that of the tensor's first element
    /// (its storage offset applied).
    Input(u32),
    /// The i-th parameter; like an input.
    Parameter(u32),
    /// The i-th output, allocated by the caller of the plan.
    Output(u32),
    /// Constant data owned by the plan: raw little-endian bytes.
    Constant(Arc<[u8]>),
    /// A temporary at this byte offset of the arena.
    Arena {
        /// Byte offset, a multiple of 64.
        offset: usize,
    },
    /// A temporary in the memory of an output, which steps write first when nothing needs the
    /// temporary any more.
    Within {
        /// The output.
        output: u32,
        /// Byte offset from its first element, a multiple of 64.
        offset: usize,
    },
}

impl BufferKind {
    /// What code has to know of a buffer that no caller provides. Of a temporary: 0 for the arena or
    /// 1 more than an output, and the byte offset. Of a constant: a digest of its bytes, and their
    /// address.
    ///
    /// ```
    /// use straightline_passes::schedule::loops::BufferKind;
    /// assert_eq!(BufferKind::Arena { offset: 64 }.place(), Some([0, 64]));
    /// assert_eq!(BufferKind::Within { output: 2, offset: 64 }.place(), Some([3, 64]));
    /// assert_eq!(BufferKind::Input(0).place(), None);
    /// let of = |bytes: &[u8]| BufferKind::Constant(bytes.into()).place().unwrap()[0];
    /// assert_eq!(of(&[1, 2]), of(&[1, 2]));
    /// assert_ne!(of(&[1, 2]), of(&[1, 3]));
    /// ```
    pub fn place(&self) -> Option<[i64; 2]> {
        match self {
            BufferKind::Arena { offset } => Some([0, *offset as i64]),
            BufferKind::Within { output, offset } => Some([i64::from(*output) + 1, *offset as i64]),
            BufferKind::Constant(bytes) => Some([digest(bytes), bytes.as_ptr().addr() as i64]),
            BufferKind::Input(_) | BufferKind::Parameter(_) | BufferKind::Output(_) => None,
        }
    }
}

/// Tells contents apart, but for chance (who relies on it compares them).
fn digest(bytes: &[u8]) -> i64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|w| u64::from_le_bytes(*w));
    let mixed = words.fold(bytes.len() as u64, |sum, word| {
        (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    (mixed ^ mixed >> 32) as i64
}

/// A piece of memory that steps read and write.
#[derive(Clone, PartialEq, Debug)]
pub struct Buffer {
    /// Element type.
    pub dtype: DType,
    /// The number of elements it spans (largest reachable index + 1).
    pub len: usize,
    /// Where it is.
    pub kind: BufferKind,
    /// For people: the graph value it holds.
    pub name: String,
}

/// A loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axis<N = i64> {
    /// Its name in index expressions.
    pub id: AxisId,
    /// Runs `0..extent`.
    pub extent: N,
}

/// An element index: `base + sum(axis * stride) + sum(loaded value * stride)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Index<N = i64> {
    /// Constant part.
    pub base: N,
    /// Affine part; each axis at most once, no zero strides.
    pub terms: SmallVec<[(AxisId, N); 4]>,
    /// Indices that were computed in the body: `i64` values that are in range because they were
    /// checked ([`Op::CheckIndex`]), or because they are read from a constant whose numbers all
    /// are.
    pub dynamic: SmallVec<[(Val, N); 1]>,
}

impl<N: Copy> Index<N> {
    /// The stride along an axis, if the axis occurs.
    pub fn term(&self, axis: AxisId) -> Option<N> {
        self.terms.iter().find(|t| t.0 == axis).map(|t| t.1)
    }
}

impl Index {
    /// The stride along an axis, 0 where it does not occur.
    pub fn stride(&self, axis: AxisId) -> i64 {
        self.term(axis).unwrap_or(0)
    }
}

/// What loads and stores address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mem {
    /// A buffer of the schedule.
    Buffer(BufferId),
    /// The i-th scratch row of the kernel: private to one worker, valid within one grid point
    /// (for [`Vectorize::Grid`]: one element per lane and index).
    Scratch(u32),
}

/// An instruction's operation.
#[derive(Clone, PartialEq, Debug)]
pub enum Op<N = i64, C = Scalar> {
    /// Reads an element.
    Load {
        /// From where.
        mem: Mem,
        /// Which element.
        index: Index<N>,
    },
    /// A constant number.
    Const(C),
    /// The current value of an axis, as `i64`.
    AxisIndex(AxisId),
    /// Conversion to the instruction's dtype.
    Cast(Val),
    /// One operand.
    Unary(UnaryOp, Val),
    /// Two operands of the instruction's dtype.
    Binary(BinaryOp, Val, Val),
    /// `a * b + c` with one rounding (floats).
    Fma(Val, Val, Val),
    /// Two operands of one dtype; the instruction's dtype is `bool`.
    Compare(CompareOp, Val, Val),
    /// `cond ? a : b`.
    Select(Val, Val, Val),
    /// Checks `0 <= index < size` (`index` is `i64`); out of range makes the plan return an error
    /// that names this step. The result is safe as a dynamic index.
    CheckIndex {
        /// The index value.
        index: Val,
        /// The size of the dimension indexed.
        size: N,
        /// Negative ones down to `-size` count from the end.
        wrap: bool,
    },
    /// Accumulates a value over all axes of the stage. The result may be used only by later
    /// stages, through [`Op::Carry`].
    Reduce(ReduceOp, Val),
    /// The position (linear over the stage's axes) of the first largest / smallest value;
    /// result `i64`. NaN counts as the extreme. Used through [`Op::Carry`].
    ArgReduce {
        /// `true` for argmax.
        max: bool,
        /// The value compared.
        value: Val,
    },
    /// The finished reduction of an earlier stage.
    Carry {
        /// Index of that stage.
        stage: u32,
        /// The reduction instruction in it.
        value: Val,
    },
    /// Writes an element (the instruction's dtype is that of the value, and of the memory).
    Store {
        /// To where.
        mem: Mem,
        /// Which element.
        index: Index<N>,
        /// What.
        value: Val,
    },
    /// Combines the element in memory with a value and writes it back, rounded to the memory's
    /// dtype: `Sum`, `Prod`, `Max` or `Min`. Of `bool` a sum is "or" and a product "and"; the new
    /// value takes the place of an element only where it is beyond it or NaN.
    Update {
        /// How.
        op: ReduceOp,
        /// In which memory.
        mem: Mem,
        /// Which element.
        index: Index<N>,
        /// With what.
        value: Val,
    },
}

impl<N, C> Op<N, C> {
    /// Whether it writes by an index that was loaded, or combines what it writes with what is there: the
    /// points of its stage may hit one element.
    ///
    /// ```
    /// use straightline_passes::ir::Scalar;
    /// use straightline_passes::schedule::loops::{BufferId, Index, Mem, Op, Val};
    /// let mem = Mem::Buffer(BufferId(0));
    /// let mut index = Index::<i64>::default();
    /// let store = |index: &Index| Op::<i64, Scalar>::Store { mem, index: index.clone(), value: Val(0) };
    /// assert!(!store(&index).scatters());
    /// index.dynamic.push((Val(1), 1));
    /// assert!(store(&index).scatters());
    /// ```
    pub fn scatters(&self) -> bool {
        match self {
            Op::Update { .. } => true,
            Op::Store { index, .. } => !index.dynamic.is_empty(),
            _ => false,
        }
    }
}

/// An operation with the logical dtype of its result.
#[derive(Clone, PartialEq, Debug)]
pub struct Inst<N = i64, C = Scalar> {
    /// What it does.
    pub op: Op<N, C>,
    /// The dtype of the result (of the stored value for a store).
    pub dtype: DType,
    /// For an instruction that may fail: the call that the failure belongs to, among
    /// [`Schedule::sites`].
    pub site: Option<u32>,
}

impl<N, C> Inst<N, C> {
    /// An instruction that cannot fail, or whose failure is attributed to no call.
    pub fn new(op: Op<N, C>, dtype: DType) -> Inst<N, C> {
        Inst { op, dtype, site: None }
    }
}

/// A call that may fail, as an error of the plan names it.
#[derive(Clone, PartialEq, Debug)]
pub struct Site {
    /// The call, as eager code would have made it.
    pub call: Arc<EagerCall>,
    /// The user's line.
    pub location: Option<SourceLine>,
}

/// Loops around a straight-line body.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stage<N = i64, C = Scalar> {
    /// Sequential axes, outermost first; may be empty (once per grid point).
    pub axes: SmallVec<[Axis<N>; 2]>,
    /// SSA instructions; [`Val`] `i` is the result of `body[i]`.
    pub body: Vec<Inst<N, C>>,
}

impl<N, C> Stage<N, C> {
    /// Whether an instruction [scatters](Op::scatters).
    ///
    /// ```
    /// use straightline_passes::schedule::loops::Stage;
    /// let empty: Stage = Stage { axes: Default::default(), body: Vec::new() };
    /// assert!(!empty.scatters());
    /// ```
    pub fn scatters(&self) -> bool {
        self.body.iter().any(|i| i.op.scatters())
    }
}

/// Which axis the lanes of a vector run along.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Vectorize {
    /// The innermost axis of each stage.
    Stage,
    /// The innermost grid axis.
    Grid,
    /// Scalar code.
    None,
}

/// A row of per-worker memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scratch<N = i64> {
    /// Element type.
    pub dtype: DType,
    /// Elements (per lane for [`Vectorize::Grid`]).
    pub len: N,
}

/// One fused loop nest.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel<N = i64, C = Scalar> {
    /// Short name made of its operators.
    pub name: String,
    /// Parallel axes, outermost first; may be empty (one point).
    pub grid: SmallVec<[Axis<N>; 4]>,
    /// Run in order for each grid point.
    pub stages: Vec<Stage<N, C>>,
    /// Which axis is vectorised.
    pub vectorize: Vectorize,
    /// Row buffers that carry values between stages.
    pub scratch: Vec<Scratch<N>>,
    /// Estimated scalar operations per grid point, loads and stores counted as one: decides how the
    /// grid is split among threads.
    pub work_per_point: u64,
    /// What scatters may do so in any order, so that points of its stage that hit one element need
    /// atomic operations. Only a kernel of one stage says so, in a schedule for a GPU.
    pub in_any_order: bool,
    /// The graph operators that were fused into it, in order (`aten::mul.Tensor`).
    pub ops: Vec<crate::ir::Op>,
}

impl Kernel {
    /// The number of grid points.
    pub fn points(&self) -> i64 {
        self.grid.iter().map(|a| a.extent).product()
    }
}

/// A strided tensor inside a buffer.
#[derive(Clone, PartialEq, Debug)]
pub struct BufferView {
    /// The buffer.
    pub buffer: BufferId,
    /// Element type (the buffer's).
    pub dtype: DType,
    /// Sizes.
    pub sizes: Dims,
    /// Strides in elements.
    pub strides: Dims,
    /// First element.
    pub offset: i64,
}

/// What a matrix product does to each element before it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs)] // the functions' names
pub enum Activation {
    #[default]
    None,
    Relu,
    GeluErf,
    GeluTanh,
    Silu,
    Tanh,
    Sigmoid,
}

/// `out = activation(a @ b + bias) + residual`; `a`: `[.., m, k]`, `b`: `[.., k, n]`, leading
/// dimensions (batch) equal, stride 0 where broadcast.
#[derive(Clone, PartialEq, Debug)]
pub struct Matmul {
    /// Left operand.
    pub a: BufferView,
    /// Right operand.
    pub b: BufferView,
    /// Result.
    pub out: BufferView,
    /// Added per column, `[n]`.
    pub bias: Option<BufferView>,
    /// Applied after the bias.
    pub activation: Activation,
    /// Added last, the result's shape.
    pub residual: Option<BufferView>,
    /// `b` is a parameter (or constant): the plan packs it once and repacks when it changes.
    pub pack_b: bool,
}

/// What is done to each element of a result, one operation after the other, each rounded. Operands
/// are a `T`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follow<T> {
    /// Times the element of the channel.
    Scale(T),
    /// Plus the element of the channel.
    Shift(T),
    /// Plus the element of a value of the same sizes.
    Add(T),
    /// A function of the element.
    Activation(Activation),
}

impl<T> Follow<T> {
    /// What it reads besides the element.
    ///
    /// ```
    /// use straightline_passes::schedule::loops::{Activation, Follow};
    /// assert_eq!(Follow::Scale(3).operand(), Some(&3));
    /// assert_eq!(Follow::<i32>::Activation(Activation::Relu).operand(), None);
    /// ```
    pub fn operand(&self) -> Option<&T> {
        match self {
            Follow::Scale(t) | Follow::Shift(t) | Follow::Add(t) => Some(t),
            Follow::Activation(_) => None,
        }
    }

    /// The same with a reference to the operand.
    ///
    /// ```
    /// use straightline_passes::schedule::loops::Follow;
    /// assert_eq!(Follow::Add(3).as_ref(), Follow::Add(&3));
    /// ```
    pub fn as_ref(&self) -> Follow<&T> {
        match self {
            Follow::Scale(t) => Follow::Scale(t),
            Follow::Shift(t) => Follow::Shift(t),
            Follow::Add(t) => Follow::Add(t),
            Follow::Activation(a) => Follow::Activation(*a),
        }
    }

    /// The same with another operand.
    ///
    /// ```
    /// use straightline_passes::schedule::loops::Follow;
    /// assert_eq!(Follow::Add("x").map(str::len), Follow::Add(1));
    /// ```
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Follow<U> {
        match self {
            Follow::Scale(t) => Follow::Scale(f(t)),
            Follow::Shift(t) => Follow::Shift(f(t)),
            Follow::Add(t) => Follow::Add(f(t)),
            Follow::Activation(a) => Follow::Activation(a),
        }
    }
}

/// A convolution that is not transposed. All operands are dense and row-major: the input `[n, c,
/// ...]`, the weight `[o, c / groups, ...]`, the result `[n, o, ...]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Convolution {
    /// Input.
    pub input: BufferView,
    /// Weight.
    pub weight: BufferView,
    /// Added per channel of the result, `[o]`.
    pub bias: Option<BufferView>,
    /// Result.
    pub out: BufferView,
    /// One number per spatial dimension.
    pub stride: Dims,
    /// One number per spatial dimension.
    pub padding: Dims,
    /// One number per spatial dimension.
    pub dilation: Dims,
    /// Groups of channels.
    pub groups: i64,
    /// What is done to the result; operands of channels are `[o]`.
    pub follow: Vec<Follow<BufferView>>,
    /// The weight is a parameter (or constant): the plan packs it once and again when it changes.
    pub pack_weight: bool,
    /// It may be computed by an algorithm whose errors are larger than those of the sums.
    pub fast_math: bool,
}

impl Convolution {
    /// All that it reads.
    pub fn reads(&self) -> impl Iterator<Item = &BufferView> {
        let fixed = [Some(&self.input), Some(&self.weight), self.bias.as_ref()];
        fixed.into_iter().flatten().chain(self.follow.iter().filter_map(Follow::operand))
    }
}

/// A call of a runtime kernel instead of generated loops.
#[derive(Clone, PartialEq, Debug)]
#[allow(clippy::large_enum_variant)] // a handful per schedule
pub enum Extern {
    /// A (batched) matrix product with its epilogue.
    Matmul(Matmul),
    /// A convolution with what follows it.
    Convolution(Convolution),
    /// Any other operator, by name, with its arguments; tensors index `inputs`.
    Op {
        /// `aten::sort`.
        op: crate::ir::Op,
        /// Schema arguments.
        args: Vec<Arg<u32>>,
        /// Tensor operands.
        inputs: Vec<BufferView>,
        /// Results, to be written.
        outputs: Vec<BufferView>,
        /// A bit for each of the results that nothing reads: what is in them does not matter.
        unread: u64,
        /// The call that a failure of the kernel belongs to, among [`Schedule::sites`].
        site: Option<u32>,
    },
}

/// One step of the plan.
#[derive(Clone, PartialEq, Debug)]
#[allow(clippy::large_enum_variant)] // a handful per schedule
pub enum Step {
    /// Generated code.
    Kernel(Kernel),
    /// A runtime kernel.
    Extern(Extern),
}

impl Step {
    /// The buffers that it reads and writes, some of them several times.
    pub fn buffers(&self) -> Vec<BufferId> {
        match self {
            Step::Kernel(k) => k
                .stages
                .iter()
                .flat_map(|s| &s.body)
                .filter_map(|i| match &i.op {
                    Op::Load { mem: Mem::Buffer(b), .. }
                    | Op::Store { mem: Mem::Buffer(b), .. }
                    | Op::Update { mem: Mem::Buffer(b), .. } => Some(*b),
                    _ => None,
                })
                .collect(),
            Step::Extern(Extern::Matmul(m)) => {
                [Some(&m.a), Some(&m.b), Some(&m.out), m.bias.as_ref(), m.residual.as_ref()]
                    .into_iter()
                    .flatten()
                    .map(|v| v.buffer)
                    .collect()
            }
            Step::Extern(Extern::Convolution(c)) => {
                c.reads().chain([&c.out]).map(|v| v.buffer).collect()
            }
            Step::Extern(Extern::Op { inputs, outputs, .. }) => {
                inputs.iter().chain(outputs).map(|v| v.buffer).collect()
            }
        }
    }
}

/// How a result of the function is delivered.
#[derive(Clone, PartialEq, Debug)]
pub enum OutputBinding {
    /// A new tensor with these sizes and strides over `Output(index)`'s buffer.
    Fresh {
        /// Which output buffer.
        index: u32,
        /// Shape of the tensor.
        meta: TensorMeta,
    },
    /// A view of an input, parameter or fresh output.
    View {
        /// Whose storage it shares.
        of: ViewSource,
        /// Shape of the view.
        meta: TensorMeta,
        /// First element, relative to the first element of the source.
        offset: i64,
    },
}

/// Whose storage a view output shares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ViewSource {
    /// The i-th input.
    Input(u32),
    /// The i-th parameter.
    Parameter(u32),
    /// The i-th fresh output buffer.
    Output(u32),
}

/// Why an operator was or was not fused: for `explain`.
#[derive(Clone, PartialEq, Debug)]
pub struct FusionDecision {
    /// The operator with its value, `%3 = aten::exp`.
    pub node: String,
    /// Which step it ended in, if any (views end in none).
    pub step: Option<usize>,
    /// The reason in a sentence.
    pub reason: String,
}

/// The whole graph, ready for code generation.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Schedule {
    /// All memory.
    pub buffers: Vec<Buffer>,
    /// What to run, in order.
    pub steps: Vec<Step>,
    /// How results are delivered.
    pub outputs: Vec<OutputBinding>,
    /// Size of the arena in bytes.
    pub arena_bytes: usize,
    /// Where each operator was fused, and why.
    pub decisions: Vec<FusionDecision>,
    /// The calls that may fail.
    pub sites: Vec<Site>,
}

impl Schedule {
    /// A buffer.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }

    /// The generated kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.steps.iter().filter_map(|s| match s {
            Step::Kernel(k) => Some(k),
            Step::Extern(_) => None,
        })
    }
}
