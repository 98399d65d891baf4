//! Functions of the user's, with a gradient of their own.

use super::anomaly;
use super::batches::{is_transforming, wants_hidden_gradient};
use super::error::AutogradError;
use super::forward::{Carrying, Duals};
use super::graph;
use super::mode::GradGuard;
use super::saved::{SavedTensor, Slot, Slots};
use super::view;
use crate::dispatch::{grad_enabled, line};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::history::{Creation, Kind};
use crate::tensor::node::{self, Edge, Edges, Node, OutputMeta, next_sequence};
use std::any::{Any, type_name};
use std::sync::{Arc, Mutex, PoisonError};

/// A function whose gradient is given with it, in place of those of the operators that it calls.
///
/// ```
/// use straightline::{Result, Tensor, tensor};
/// use straightline::autograd::{Context, Function};
///
/// /// `exp`, whose gradient is its result.
/// struct Exp;
///
/// impl Function for Exp {
///     fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
///         let y = inputs[0].exp()?;
///         context.save(&[&y]);
///         Ok(vec![y])
///     }
///
///     fn backward(&self, context: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
///         let y = &context.saved()?[0];
///         grads.iter().map(|g| g.as_ref().map(|g| g.mul(y)).transpose()).collect()
///     }
/// }
///
/// let x = tensor([0.0, 1.0])?.requires_grad_(true)?;
/// let y = Exp.apply(&[x.clone()])?.remove(0);
/// y.sum()?.backward()?;
/// straightline::assert_close(&x.grad().unwrap(), &y.detach()?)?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub trait Function: Send + Sync + 'static {
    /// Computes the results. Nothing that it does is recorded.
    ///
    /// # Errors
    ///
    /// The function's own.
    fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>>;

    /// Computes the gradient of each input from those of the results. It is recorded itself where
    /// gradients are to be differentiated.
    ///
    /// # Errors
    ///
    /// The function's own.
    fn backward(&self, context: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>;

    /// Computes the tangent of each result from those of the inputs, for forward mode; `None` is a
    /// tangent of zeros. What `forward` saved is at hand. An input that was written in place has its
    /// tangent written in place here, and a result that is a view of an input has a view of its tangent.
    ///
    /// # Errors
    ///
    /// Unless it is written: that it is not.
    ///
    /// ```
    /// use straightline::{Result, Tensor, func, tensor};
    /// use straightline::autograd::{Context, Function};
    ///
    /// struct Square;
    ///
    /// impl Function for Square {
    ///     fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    ///         context.save(&[&inputs[0]]);
    ///         Ok(vec![inputs[0].mul(&inputs[0])?])
    ///     }
    ///
    ///     fn backward(&self, context: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    ///         let x = &context.saved()?[0];
    ///         grads.iter().map(|g| g.as_ref().map(|g| g.mul(x)?.mul(2)).transpose()).collect()
    ///     }
    ///
    ///     fn jvp(&self, context: &Context, tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    ///         self.backward(context, tangents)
    ///     }
    /// }
    ///
    /// let square = |x: &Tensor| Ok(Square.apply(&[x.clone()])?.remove(0));
    /// let (_, slope) = func::jvp(square, &tensor([3.0])?, &tensor([1.0])?)?;
    /// assert_eq!(slope.to_vec::<f32>()?, [6.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    fn jvp(&self, context: &Context, tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let _ = (context, tangents);
        Err(AutogradError::NoJvp.into())
    }

    /// Whether gradients of gradients are refused, because `backward` calls what has none.
    fn once_differentiable(&self) -> bool {
        false
    }

    /// Calls the function.
    ///
    /// # Errors
    ///
    /// Those of `forward`; a result that was marked as written and is not returned; a leaf that
    /// was written.
    #[track_caller]
    fn apply(self, inputs: &[Tensor]) -> Result<Outputs>
    where
        Self: Sized,
    {
        apply(Arc::new(self), inputs)
    }
}

/// What a function returns.
pub type Outputs = Vec<Tensor>;

/// What a [`Function`] keeps between its two halves.
#[derive(Default)]
pub struct Context {
    to_save: Vec<Tensor>,
    dirty: Vec<Tensor>,
    no_gradient: Vec<Tensor>,
    keeps_none: bool,
    wanted: Vec<bool>,
    values: Vec<Arc<dyn Any + Send + Sync>>,
    saved: Mutex<Option<Vec<Tensor>>>,
    node: Mutex<Option<String>>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("to_save", &self.to_save.len()).finish_non_exhaustive()
    }
}

impl Context {
    /// Keeps tensors for the backward pass, in place of those of an earlier call. Inputs and
    /// results are checked for writes until then; anything else becomes a constant of the
    /// gradient.
    pub fn save(&mut self, tensors: &[&Tensor]) {
        self.to_save = tensors.iter().map(|t| (*t).clone()).collect();
    }

    /// The tensors that were kept.
    ///
    /// # Errors
    ///
    /// A backward pass has freed them.
    pub fn saved(&self) -> Result<Vec<Tensor>> {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let node = || {
            let node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
            node.clone().unwrap_or_default()
        };
        saved.clone().ok_or_else(|| AutogradError::Twice { node: node(), made: None }.into())
    }

    /// Keeps anything else; [`Context::value`] gives it back.
    pub fn keep(&mut self, value: impl Any + Send + Sync) {
        self.values.push(Arc::new(value));
    }

    /// The first kept value of a type.
    pub fn value<T: Any>(&self) -> Option<&T> {
        self.values.iter().find_map(|v| v.downcast_ref())
    }

    /// Says that inputs were written in place. They must be returned.
    pub fn mark_dirty(&mut self, tensors: &[&Tensor]) {
        self.dirty = tensors.iter().map(|t| (*t).clone()).collect();
    }

    /// Says that results have no gradient.
    pub fn mark_non_differentiable(&mut self, tensors: &[&Tensor]) {
        self.no_gradient = tensors.iter().map(|t| (*t).clone()).collect();
    }

    /// Whether `backward` is given zeros for results that no gradient arrives at (as it is unless
    /// this is called with `false`), or `None`.
    pub fn set_materialize_grads(&mut self, on: bool) {
        self.keeps_none = !on;
    }

    /// For each input, whether it wanted a gradient when the function was called.
    pub fn needs_input_grad(&self) -> &[bool] {
        &self.wanted
    }
}

struct Called {
    function: Arc<dyn Function>,
    name: String,
    context: Context,
    slots: Slots,
    /// Results as they were, for zeros.
    metas: Vec<OutputMeta>,
}

impl node::Function for Called {
    fn name(&self) -> &str {
        &self.name
    }

    fn apply(
        &self,
        node: &Arc<Node>,
        mut grads: Vec<Option<Tensor>>,
        _wanted: &dyn Fn(usize) -> bool,
        _keep: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        let unpacked = self.slots.unpack(node)?;
        if !self.context.keeps_none {
            for (grad, meta) in grads.iter_mut().zip(&self.metas) {
                if grad.is_none() {
                    let (dtype, device) = (Some(meta.dtype), Some(meta.device));
                    *grad = Some(aten::zeros(&meta.sizes, dtype, None, device, None)?);
                }
            }
        }
        let set = |to: Option<Vec<Tensor>>| {
            *self.context.saved.lock().unwrap_or_else(PoisonError::into_inner) = to;
        };
        set(Some(unpacked));
        let once = self.function.once_differentiable() && grad_enabled();
        let second_order = once && grads.iter().flatten().any(Tensor::requires_grad);
        let given = {
            let _grad = once.then(|| GradGuard::set(false));
            self.function.backward(&self.context, &grads)
        };
        set(None);
        let mut given = given?;
        if given.len() != node.edges.len() {
            let extra = given.get(node.edges.len()..);
            if extra.is_none_or(|e| e.iter().any(Option::is_some)) {
                return Err(AutogradError::GradientCount {
                    node: self.name.clone(),
                    expected: node.edges.len(),
                    got: given.len(),
                }
                .into());
            }
            given.truncate(node.edges.len());
        }
        if second_order {
            for g in given.iter_mut().flatten() {
                *g = graph::cut(g);
                let function = NeverAgain(self.name.clone());
                let outputs = smallvec::smallvec![Some(OutputMeta::of(g))];
                let edges: Edges =
                    grads.iter().flatten().map(view::gradient_edge).collect::<Result<_>>()?;
                let error = Node::new(next_sequence(), edges, outputs, None, node.line, function);
                graph::set_edge(g, Edge::new(Arc::new(error), 0));
            }
        }
        Ok(given)
    }

    fn release(&self) {
        self.slots.release();
    }
}

/// The gradient of a gradient that has none.
struct NeverAgain(String);

impl node::Function for NeverAgain {
    fn name(&self) -> &str {
        "Error"
    }

    fn apply(
        &self,
        _node: &Arc<Node>,
        _grads: Vec<Option<Tensor>>,
        _wanted: &dyn Fn(usize) -> bool,
        _keep: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        Err(AutogradError::OnceDifferentiable(self.0.clone()).into())
    }
}

fn short_name<F: ?Sized>() -> String {
    let name = type_name::<F>();
    let path = name.split('<').next().unwrap_or(name);
    path.rsplit("::").next().unwrap_or(path).to_string()
}

#[track_caller]
fn apply<F: Function>(function: Arc<F>, inputs: &[Tensor]) -> Result<Outputs> {
    let at = std::panic::Location::caller();
    let mut context = Context {
        wanted: inputs.iter().map(Tensor::requires_grad).collect(),
        ..Context::default()
    };
    let records = grad_enabled() && context.wanted.iter().any(|w| *w);
    if grad_enabled() && !records && inputs.iter().any(wants_hidden_gradient) {
        return Err(AutogradError::FunctionOfBatch { function: short_name::<F>() }.into());
    }
    let edges: Edges = match records {
        true => inputs.iter().map(view::gradient_edge).collect::<Result<_>>()?,
        false => Edges::new(),
    };
    let duals = Duals::of(inputs)?;
    let results = {
        // where another transform differentiates or pushes, it does so through what `forward` calls
        let off = records || duals.is_some() || !is_transforming();
        let _grad = off.then(|| GradGuard::set(false));
        let _rest = off.then(|| Carrying::set(false));
        function.forward(&mut context, inputs)?
    };
    if !context.dirty.iter().all(|d| results.iter().any(|r| r.same_handle(d))) {
        return Err(AutogradError::Setting(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified \
             inplace must all be outputs of the Function."
                .into(),
        )
        .into());
    }
    if !records && duals.is_none() {
        return Ok(results);
    }
    let is_dirty = |t: &Tensor| context.dirty.iter().any(|d| d.same_handle(t));
    for dirty in context.dirty.iter().filter(|_| records) {
        view::check_write_by(dirty, true)?;
    }
    let has_gradient = |t: &Tensor| {
        graph::is_differentiable(t) && !context.no_gradient.iter().any(|n| n.same_handle(t))
    };
    // an input that comes back as it was is another tensor from now on
    let mut outputs = Vec::with_capacity(results.len());
    for t in &results {
        let is_input = inputs.iter().any(|i| i.same_handle(t));
        outputs.push(match (is_input && !is_dirty(t), has_gradient(t)) {
            (true, true) => {
                let v = t.with_geometry(t.sizes(), t.strides(), t.offset());
                let v = v.into_view_of(t, Kind::Strided, true);
                v.set_creation(Creation::Function);
                v
            }
            (true, false) => graph::cut(t),
            (false, _) => t.clone(),
        });
    }
    let pushed = duals.map(|duals| {
        let of_result = |t: &Tensor| results.iter().position(|r| r.same_handle(t));
        let saved = context.to_save.iter();
        let saved = saved.map(|t| of_result(t).map_or(t, |nr| &outputs[nr]).clone()).collect();
        let kept = Context {
            wanted: context.wanted.clone(),
            values: context.values.clone(),
            saved: Mutex::new(Some(saved)),
            ..Context::default()
        };
        let dirty: Vec<bool> = outputs.iter().map(&is_dirty).collect();
        let differentiable: Vec<bool> = outputs.iter().map(has_gradient).collect();
        (duals, kept, dirty, differentiable)
    });
    let push = |function: &F, outputs: &[Tensor]| match &pushed {
        Some((duals, kept, dirty, differentiable)) => {
            let tangents = {
                let _rest = Carrying::set(false);
                function.jvp(kept, &duals.tangents)?
            };
            duals.give(tangents, outputs, dirty, differentiable)
        }
        None => Ok(()),
    };
    if !records {
        push(&function, &outputs)?;
        return Ok(outputs);
    }
    let metas: Vec<OutputMeta> = outputs.iter().map(OutputMeta::of).collect();
    let node_outputs = outputs.iter().map(|t| has_gradient(t).then(|| OutputMeta::of(t))).collect();
    let slot = |t: &Tensor| {
        if let Some(nr) = results.iter().position(|r| r.same_handle(t))
            && has_gradient(t)
        {
            return SavedTensor::result(&outputs[nr], nr as u32).map(Slot::Checked);
        }
        match inputs.iter().any(|i| i.same_handle(t)) {
            true => SavedTensor::operand(t, false).map(Slot::Checked),
            false => Ok(Slot::Constant(graph::cut(t))),
        }
    };
    let slots = context.to_save.iter().map(slot).collect::<Result<Vec<_>>>()?;
    let dirty: Vec<bool> = outputs.iter().map(&is_dirty).collect();
    let differentiable: Vec<bool> = outputs.iter().map(&has_gradient).collect();
    context.to_save.clear();
    context.dirty.clear();
    context.no_gradient.clear();
    let name = format!("{}Backward", short_name::<F>());
    *context.node.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.clone());
    let called =
        Called { function: function.clone(), name, context, slots: Slots::new(slots), metas };
    let line = line().or(Some(at));
    let node = Node::new(next_sequence(), edges, node_outputs, None, line, called);
    let node: Arc<Node> = anomaly::noted(node);
    for (nr, t) in outputs.iter().enumerate() {
        if !differentiable[nr] {
            continue;
        }
        if dirty[nr] {
            view::rebase_output(t, node.clone(), nr as u32)?;
            continue;
        }
        graph::set_edge(t, Edge::new(node.clone(), nr as u32));
        if t.base().is_some() {
            t.set_creation(Creation::Function);
            t.set_view_version(t.writes());
        }
    }
    push(&function, &outputs)?;
    Ok(outputs)
}
