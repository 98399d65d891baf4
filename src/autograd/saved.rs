//! What nodes keep of the calls that made them.
//!
//! A tensor is kept with the version of its memory: a formula that is given a tensor that was
//! written meanwhile would compute nonsense, so it gets an error instead. A node must not hold its
//! own result, which holds the node; it keeps the memory alone, and the history is put back when a
//! formula asks.

use super::error::AutogradError;
use super::forward::tangent::of_written;
use super::graph;
use super::hooks::{self, Packed};
use super::leaf;
use super::rule::{Options, Saved, What};
use super::view;
use crate::dispatch::Value;
use crate::dispatch::around::Call;
use crate::error::Result;
use crate::modes::{functionalize, tracer};
use crate::tensor::Tensor;
use crate::tensor::node::{Edge, Node};
use crate::tensor::tangent::Beside;
use std::sync::{Arc, Mutex, PoisonError};
use straightline_catalog::Scalar;
use straightline_catalog::schema::{FunctionSchema, SchemaType};

/// A value that a node keeps.
pub(crate) enum Kept {
    /// What is no tensor, and what is missing.
    Plain(Saved),
    Tensor(SavedTensor),
    Tensors(Vec<SavedTensor>),
    OptionalTensors(Vec<Option<SavedTensor>>),
}

impl Kept {
    pub(crate) const NOTHING: Kept = Kept::Plain(Saved::None);

    /// A call has written `written`, and what is kept of its memory is another value now.
    pub(crate) fn overwritten(&mut self, written: &Tensor) {
        match self {
            Kept::Plain(_) => {}
            Kept::Tensor(t) => t.overwritten(written),
            Kept::Tensors(all) => all.iter_mut().for_each(|t| t.overwritten(written)),
            Kept::OptionalTensors(all) => {
                all.iter_mut().flatten().for_each(|t| t.overwritten(written));
            }
        }
    }
}

/// A copy of what is about to be written, which formulas need.
pub(super) fn old_value(t: &Tensor) -> Result<Tensor> {
    let copy = crate::ops::aten::clone(t, None)?;
    if let Some(edge) = view::gradient_edge(t)? {
        graph::set_edge(&copy, edge);
    }
    Ok(copy)
}

/// Whose tensor it is.
#[derive(Clone)]
enum Origin {
    /// An operand's. A leaf stays one, another must not lose its history.
    Operand { leaf: bool },
    /// Result `nr` of the node itself.
    Result(u32),
}

/// A tensor that a node keeps.
pub(crate) struct SavedTensor {
    held: Held,
    version: u64,
    origin: Origin,
    /// Its memory may be written: running statistics, as in PyTorch.
    unchecked: bool,
}

enum Held {
    Tensor(Tensor),
    Packed(Box<PackedTensor>),
}

/// What a saved-tensor hook made of a tensor.
struct PackedTensor {
    packed: Packed,
    requires_grad: bool,
    edge: Option<Edge>,
    tangent: Beside,
}

impl SavedTensor {
    /// An operand.
    pub(crate) fn operand(t: &Tensor, unchecked: bool) -> Result<SavedTensor> {
        let leaf = t.is_leaf();
        SavedTensor::new(t, t.clone(), Origin::Operand { leaf }, unchecked)
    }

    /// Result `nr` of the node.
    pub(crate) fn result(t: &Tensor, nr: u32) -> Result<SavedTensor> {
        SavedTensor::new(t, graph::cut(t), Origin::Result(nr), false)
    }

    /// A result that has no gradient.
    pub(crate) fn plain_result(t: &Tensor) -> Result<SavedTensor> {
        SavedTensor::new(t, t.clone(), Origin::Operand { leaf: true }, false)
    }

    fn new(t: &Tensor, data: Tensor, origin: Origin, unchecked: bool) -> Result<SavedTensor> {
        if t.is_inference() {
            return Err(AutogradError::Inference.into());
        }
        if t.may_be_dual() {
            // a view has that of its base from now on
            of_written(t)?;
        }
        let version = writes(t);
        let held = match hooks::pack(t)? {
            Some(packed) => {
                let edge = match origin {
                    Origin::Operand { .. } => view::gradient_edge(t)?,
                    Origin::Result(_) => None,
                };
                let requires_grad = t.requires_grad();
                let tangent = Beside::default();
                Held::Packed(Box::new(PackedTensor { packed, requires_grad, edge, tangent }))
            }
            None => Held::Tensor(data),
        };
        let saved = SavedTensor { held, version, origin, unchecked };
        saved.keep_tangent(t);
        Ok(saved)
    }

    /// Keeps the tangent of what was saved, which hooks do not pack.
    fn keep_tangent(&self, of: &Tensor) {
        match &self.held {
            Held::Tensor(t) if t.same_handle(of) => {}
            Held::Tensor(t) => t.share_tangent(of),
            Held::Packed(packed) => packed.tangent.keep(of),
        }
    }

    /// The call has written `written`: an operand that lies in its memory is gone, and no formula
    /// gets it. Its history, which leads to the node that keeps it from now on, is let go.
    fn overwritten(&mut self, written: &Tensor) {
        if let Held::Tensor(t) = &self.held
            && t.shares_storage_with(written)
            && !self.unchecked
        {
            self.held = Held::Tensor(graph::cut(t));
            self.origin = Origin::Result(0);
        }
    }

    /// The tensor was written by the very call that saved it: its value is the new one.
    pub(crate) fn written(&mut self) {
        if let Held::Tensor(t) = &self.held {
            self.version = t.writes();
        }
    }

    /// The tensor, for the node that keeps it.
    pub(crate) fn unpack(&self, node: &Arc<Node>) -> Result<Tensor> {
        let data = match &self.held {
            Held::Tensor(t) => t,
            Held::Packed(held) => {
                let PackedTensor { packed, requires_grad, edge, tangent } = &**held;
                let t = graph::cut(&packed.unpack()?);
                match (&self.origin, edge) {
                    (Origin::Result(nr), _) => {
                        graph::set_edge(&t, Edge::new(node.clone(), *nr));
                    }
                    (_, Some(edge)) if *requires_grad => graph::set_edge(&t, edge.clone()),
                    _ => {}
                }
                tangent.give(&t);
                return Ok(t);
            }
        };
        let version = writes(data);
        if version != self.version && !self.unchecked {
            return Err(self.modified(data, version, node));
        }
        match self.origin {
            Origin::Operand { leaf } => {
                if !leaf && data.is_leaf() {
                    return Err(AutogradError::DetachedInPlace.into());
                }
                Ok(data.clone())
            }
            Origin::Result(nr) => {
                if !crate::dispatch::grad_enabled() {
                    return Ok(data.clone());
                }
                let t = graph::cut(data);
                t.share_tangent(data);
                graph::set_edge(&t, Edge::new(node.clone(), nr));
                Ok(t)
            }
        }
    }

    #[cold]
    fn modified(&self, t: &Tensor, version: u64, node: &Arc<Node>) -> crate::Error {
        let now = match self.origin {
            Origin::Result(nr) => Some(Edge::new(node.clone(), nr)),
            Origin::Operand { .. } => t.own_grad_fn(),
        };
        // what the node has an edge to made the tensor, and somebody else wrote it unseen
        let made_it = |e: &Edge| node.edges.iter().flatten().any(|before| before.id() == e.id());
        let wrote = now.as_ref().filter(|e| e.id() != node.id() && !made_it(e));
        AutogradError::Modified {
            tensor: described(t),
            output: now.as_ref().map(|e| (e.nr, graph::forward_name(&leaf::node_of(e)))),
            version: version.saturating_sub(self.version),
            expected: 0,
            saved_by: graph::made(node),
            written_by: wrote.map(|e| graph::made(&leaf::node_of(e))),
        }
        .into()
    }
}

/// How often the memory of a tensor has been written, by a function that is being captured too.
fn writes(t: &Tensor) -> u64 {
    match tracer::current() {
        None => t.writes(),
        Some(_) => t.writes() + functionalize::stand_in_writes(t),
    }
}

/// What a formula asks of a tensor other than the tensor itself.
#[inline]
pub(crate) fn fact(what: What, t: &Tensor) -> Saved {
    match what {
        What::Sizes(_) => Saved::Ints(t.sizes().to_vec()),
        What::Strides(_) => Saved::Ints(t.strides().to_vec()),
        What::DType(_) => Saved::DType(t.dtype()),
        What::StorageOffset(_) => Saved::Int(t.offset()),
        What::Dim(_) => Saved::Int(t.dim() as i64),
        What::Options(_) => Saved::Options(Options { dtype: t.dtype(), device: t.device() }),
        What::Argument(_) | What::AllSizes(_) | What::AllDTypes(_) | What::Result(_) => Saved::None,
    }
}

/// Keeps what a formula asks of an argument that is no single tensor; what it asks of one is
/// [`SavedTensor::operand`] and [`fact`]. `declared` is the type in the schema.
pub(crate) fn keep(
    what: What,
    call: &Call<'_>,
    declared: &SchemaType,
    unchecked: bool,
) -> Result<Kept> {
    Ok(match what {
        What::Argument(at) => {
            return Ok(as_declared(keep_value(call.value(at), unchecked)?, declared));
        }
        What::AllSizes(at) => {
            let all = call.value(at).tensors().map(|t| t.sizes().to_vec()).collect();
            Kept::Plain(Saved::AllSizes(all))
        }
        What::AllDTypes(at) => {
            let all = call.value(at).tensors().map(Tensor::dtype).collect();
            Kept::Plain(Saved::AllDTypes(all))
        }
        _ => Kept::NOTHING,
    })
}

/// What nodes keep, as formulas see it, of a call that has been made.
pub(crate) fn plain(
    what: What,
    args: &[Value],
    results: &[(usize, Tensor)],
    schema: &FunctionSchema,
) -> Result<Saved> {
    if let What::Result(of) = what {
        let mut all = results.iter().filter(|(at, _)| *at == of).map(|(_, t)| t.clone());
        return Ok(match schema.returns.get(of).map(|r| &r.ty) {
            Some(SchemaType::List(..)) => Saved::Tensors(all.collect()),
            _ => all.next().map_or(Saved::None, Saved::Tensor),
        });
    }
    let tensors = |at: usize| args.get(at).into_iter().flat_map(Value::tensors);
    Ok(match what {
        What::Argument(at) => match args.get(at) {
            Some(Value::Tensor(t)) => Saved::Tensor(t.clone()),
            Some(Value::TensorList(l)) => Saved::Tensors(l.clone()),
            Some(Value::OptionalTensorList(l)) => Saved::OptionalTensors(l.clone()),
            Some(value) => match as_declared(keep_value(value.clone(), true)?, &schema.args[at].ty)
            {
                Kept::Plain(saved) => saved,
                _ => Saved::None,
            },
            None => Saved::None,
        },
        What::AllSizes(at) => Saved::AllSizes(tensors(at).map(|t| t.sizes().to_vec()).collect()),
        What::AllDTypes(at) => Saved::AllDTypes(tensors(at).map(Tensor::dtype).collect()),
        What::Sizes(at)
        | What::Strides(at)
        | What::DType(at)
        | What::Dim(at)
        | What::StorageOffset(at)
        | What::Options(at) => match args.get(at) {
            Some(Value::Tensor(t)) => fact(what, t),
            _ => Saved::None,
        },
        What::Result(_) => Saved::None,
    })
}

/// Keeps an argument.
fn keep_value(value: Value, unchecked: bool) -> Result<Kept> {
    let operand = |t: &Tensor| SavedTensor::operand(t, unchecked);
    Ok(match value {
        Value::Tensor(t) => Kept::Tensor(operand(&t)?),
        Value::TensorList(l) => Kept::Tensors(l.iter().map(operand).collect::<Result<_>>()?),
        Value::OptionalTensorList(l) => {
            let each = |t: &Option<Tensor>| t.as_ref().map(operand).transpose();
            Kept::OptionalTensors(l.iter().map(each).collect::<Result<_>>()?)
        }
        value => Kept::Plain(match value {
            Value::Bool(b) => Saved::Bool(b),
            Value::Int(n) => Saved::Int(n),
            Value::Double(x) => Saved::Float(x),
            Value::Complex(re, im) => Saved::Scalar(Scalar::Complex(re, im)),
            Value::String(s) => Saved::String(s),
            Value::DType(d) => Saved::DType(d),
            Value::MemoryFormat(f) => Saved::MemoryFormat(f),
            Value::IntList(l) => Saved::Ints(l),
            Value::DoubleList(l) => Saved::Floats(l),
            Value::BoolList(l) => Saved::Bools(l),
            Value::ScalarList(l) => Saved::Scalars(l),
            _ => Saved::None,
        }),
    })
}

/// A number kept as the type that the schema says, which its box does not tell.
fn as_declared(kept: Kept, ty: &SchemaType) -> Kept {
    let scalar = matches!(ty.unwrap_optional(), SchemaType::Scalar);
    match kept {
        Kept::Plain(Saved::Int(n)) if scalar => Kept::Plain(Saved::Scalar(Scalar::Int(n))),
        Kept::Plain(Saved::Float(x)) if scalar => Kept::Plain(Saved::Scalar(Scalar::Float(x))),
        Kept::Plain(Saved::Bool(b)) if scalar => Kept::Plain(Saved::Scalar(Scalar::Bool(b))),
        kept => kept,
    }
}

impl Kept {
    /// The value as formulas see it.
    pub(crate) fn unpack(&self, node: &Arc<Node>) -> Result<Saved> {
        Ok(match self {
            Kept::Plain(v) => v.clone(),
            Kept::Tensor(t) => Saved::Tensor(t.unpack(node)?),
            Kept::Tensors(l) => {
                Saved::Tensors(l.iter().map(|t| t.unpack(node)).collect::<Result<_>>()?)
            }
            Kept::OptionalTensors(l) => {
                let each = |t: &Option<SavedTensor>| t.as_ref().map(|t| t.unpack(node)).transpose();
                Saved::OptionalTensors(l.iter().map(each).collect::<Result<_>>()?)
            }
        })
    }
}

/// PyTorch's type and the sizes, `torch.FloatTensor [2]`.
pub(super) fn described(t: &Tensor) -> String {
    let sizes: Vec<String> = t.sizes().iter().map(ToString::to_string).collect();
    format!("torch.{}Tensor [{}]", legacy_name(t.dtype()), sizes.join(", "))
}

/// `Float` of `torch.FloatTensor`.
fn legacy_name(dtype: straightline_catalog::DType) -> &'static str {
    use straightline_catalog::DType as D;
    match dtype {
        D::F16 => "Half",
        D::BF16 => "BFloat16",
        D::F32 => "Float",
        D::F64 => "Double",
        D::C64 => "ComplexFloat",
        D::C128 => "ComplexDouble",
        D::Bool => "Bool",
        D::U8 => "Byte",
        D::I8 => "Char",
        D::I16 => "Short",
        D::I32 => "Int",
        D::I64 => "Long",
        other => other.name(),
    }
}

/// A tensor that a formula from outside saved: one that is checked, or a constant.
pub(crate) enum Slot {
    Checked(SavedTensor),
    Constant(Tensor),
}

/// What a formula from outside saved, until its node lets it go.
pub(crate) struct Slots(Mutex<Option<Vec<Slot>>>);

impl Slots {
    pub(crate) fn new(slots: Vec<Slot>) -> Slots {
        Slots(Mutex::new(Some(slots)))
    }

    /// The tensors, or the error of a second backward pass when they were let go.
    pub(crate) fn unpack(&self, node: &Arc<Node>) -> Result<Vec<Tensor>> {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(slots) = &*slots else { return Err(graph::twice(node)) };
        let unpack = |s: &Slot| match s {
            Slot::Checked(t) => t.unpack(node),
            Slot::Constant(t) => Ok(t.clone()),
        };
        slots.iter().map(unpack).collect()
    }

    /// Keeps the tangents that results have got since they were saved.
    pub(crate) fn keep_tangents(&self, outputs: &[Tensor]) {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for slot in slots.iter().flatten() {
            if let Slot::Checked(saved) = slot
                && let Origin::Result(nr) = saved.origin
                && let Some(t) = outputs.get(nr as usize)
            {
                saved.keep_tangent(t);
            }
        }
    }

    /// Lets the tensors go. A node that saved none may run again.
    pub(crate) fn release(&self) {
        let gone = {
            let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match slots.as_ref().is_some_and(|s| !s.is_empty()) {
                true => slots.take(),
                false => None,
            }
        };
        drop(gone);
    }
}
