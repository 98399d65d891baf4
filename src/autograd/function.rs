//! Functions of the user's, with a gradient of their own.
//!
//! Within transforms a function is called below each of them in turn, the innermost one first, until no
//! transform is left and `forward` runs. On the way back each one that differentiates records the
//! function with its own gradient, or pushes tangents through its own `jvp`. What a transform makes of a
//! call is in the room above, which fills in [`set_in_layer`].

use super::anomaly;
use super::batches::is_transforming;
use super::context::{Context, VmapInfo, VmapRule};
use super::error::AutogradError;
use super::forward::{Carrying, Duals};
use super::graph;
use super::mode::GradGuard;
use super::saved::{SavedTensor, Slot, Slots};
use super::view;
use crate::dispatch::{grad_enabled, line};
use crate::error::Result;
use crate::modes::outside;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::history::{Creation, Kind};
use crate::tensor::node::{self, Edge, Edges, Node, OutputMeta, next_sequence};
use std::any::type_name;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

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

    /// How the function is batched.
    ///
    /// ```
    /// use straightline::{Result, Tensor, func::{grad, vmap}, tensor};
    /// use straightline::autograd::{Context, Function, VmapRule};
    ///
    /// /// Rounds, with the gradient of a function that does not.
    /// struct Round;
    ///
    /// impl Function for Round {
    ///     fn forward(&self, _: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    ///         Ok(vec![inputs[0].round()?])
    ///     }
    ///
    ///     fn backward(&self, _: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    ///         Ok(grads.to_vec())
    ///     }
    ///
    ///     fn vmap_rule(&self) -> VmapRule {
    ///         VmapRule::Generated
    ///     }
    /// }
    ///
    /// let round = |x: &Tensor| Ok(Round.apply(&[x.clone()])?.remove(0));
    /// let total = |x: &Tensor| vmap(round)(x)?.mul(x)?.sum();
    /// // round(x) + x * 1
    /// let g = grad(total)(&tensor([1.25, 2.75])?)?;
    /// assert_eq!(g.to_vec::<f32>()?, [2.25, 5.75]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    fn vmap_rule(&self) -> VmapRule {
        VmapRule::None
    }

    /// Computes the results for a batch, where [`Function::vmap_rule`] is [`VmapRule::Own`]: `inputs`
    /// are whole, and `in_dims` says which dimension of each counts its samples, `None` that all
    /// samples share it. Gives the results, and the same for each of them. It is ordinary code, which
    /// may apply the function itself.
    ///
    /// # Errors
    ///
    /// Unless it is written: that it is not.
    ///
    /// ```
    /// use straightline::{Result, Tensor, func::vmap, tensor};
    /// use straightline::autograd::{Context, Function, VmapInfo, VmapRule};
    ///
    /// struct Sum;
    ///
    /// impl Function for Sum {
    ///     fn forward(&self, _: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    ///         Ok(vec![inputs[0].sum()?])
    ///     }
    ///
    ///     fn backward(&self, _: &Context, _: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    ///         Ok(vec![None])
    ///     }
    ///
    ///     fn vmap_rule(&self) -> VmapRule {
    ///         VmapRule::Own
    ///     }
    ///
    ///     fn vmap(
    ///         &self,
    ///         info: &VmapInfo,
    ///         in_dims: &[Option<usize>],
    ///         inputs: &[Tensor],
    ///     ) -> Result<(Vec<Tensor>, Vec<Option<usize>>)> {
    ///         let rows = inputs[0].movedim(in_dims[0].unwrap() as i64, 0)?;
    ///         Ok((vec![rows.reshape([info.batch_size, -1])?.sum_dim(1)?], vec![Some(0)]))
    ///     }
    /// }
    ///
    /// let sum = |x: &Tensor| Ok(Sum.apply(&[x.clone()])?.remove(0));
    /// assert_eq!(vmap(sum)(&tensor([[1.0, 2.0], [3.0, 4.0]])?)?.to_vec::<f32>()?, [3.0, 7.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    fn vmap(
        &self,
        info: &VmapInfo,
        in_dims: &[Option<usize>],
        inputs: &[Tensor],
    ) -> Result<(Vec<Tensor>, Vec<Option<usize>>)> {
        let _ = (info, in_dims, inputs);
        Err(AutogradError::NoVmap.into())
    }

    /// Does to `context` what `forward` does to it, from the inputs and the results alone. It is
    /// called where something differentiates inside of a `vmap` whose [`Function::vmap`] has computed the
    /// results in place of `forward`.
    ///
    /// # Errors
    ///
    /// Unless it is written: that it is not.
    fn setup_context(
        &self,
        context: &mut Context,
        inputs: &[Tensor],
        outputs: &[Tensor],
    ) -> Result<()> {
        let _ = (context, inputs, outputs);
        Err(AutogradError::NoSetupContext.into())
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
        if grad_enabled() && inputs.iter().any(Tensor::requires_grad) {
            outside::check_in_subgraph("a function with a gradient of its own")?;
        }
        let at = line().or(Some(std::panic::Location::caller()));
        recorded(self, short_name::<Self>(), inputs, at)
    }
}

/// Calls a function.
pub(crate) fn recorded(
    function: impl Function,
    name: String,
    inputs: &[Tensor],
    line: Option<&'static Location<'static>>,
) -> Result<Outputs> {
    let custom = Custom { function: Arc::new(function), name, line };
    custom.call(inputs, &Above::default()).map(|called| called.outputs)
}

/// What a function returns.
pub type Outputs = Vec<Tensor>;

struct Called {
    function: Arc<dyn Function>,
    name: String,
    context: Context,
    slots: Arc<Slots>,
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
        self.context.set_saved(Some(unpacked));
        let once = self.function.once_differentiable() && grad_enabled();
        let second_order = once && grads.iter().flatten().any(Tensor::requires_grad);
        let given = {
            let _grad = once.then(|| GradGuard::set(false));
            self.function.backward(&self.context, &grads)
        };
        self.context.set_saved(None);
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

/// A function of the user's that is called.
#[derive(Clone)]
pub(crate) struct Custom {
    pub(crate) function: Arc<dyn Function>,
    pub(crate) name: String,
    pub(crate) line: Option<&'static Location<'static>>,
}

/// What the transforms outside of which a function is called ask of the call.
#[derive(Clone, Default)]
pub(crate) struct Above {
    /// For each input whether one of them differentiates with respect to it.
    pub(crate) wanted: Vec<bool>,
    /// One of them needs what `forward` keeps.
    pub(crate) needs_context: bool,
}

/// What a call leaves.
pub(crate) struct Applied {
    pub(crate) outputs: Vec<Tensor>,
    /// Of each result, the input that it is.
    pub(crate) same: Vec<Option<usize>>,
    /// What `forward` has said, of these outputs.
    pub(crate) context: Context,
}

/// What the innermost transform makes of a call.
pub(crate) enum Transformed {
    /// Results that it differentiates, or pushes tangents to.
    Variables(Vec<Tensor>),
    /// Results that are batches: nothing is differentiated here.
    Batches(Vec<Tensor>),
    /// There is no transform.
    Nothing,
}

/// Calls a function below the innermost transform. The one outside of which the call was made asks for
/// the first, both together ask for the second.
type InLayer = fn(&Custom, &mut Context, &[Tensor], (&Above, &Above)) -> Result<Transformed>;

static IN_LAYER: OnceLock<InLayer> = OnceLock::new();

/// Sets how functions are called within transforms, once.
pub(crate) fn set_in_layer(f: InLayer) {
    // a second one would be the same
    let _ = IN_LAYER.set(f);
}

impl Custom {
    /// Calls the function: `forward` below all transforms, and at each of them that differentiates
    /// the function's own gradient and tangent.
    pub(crate) fn call(&self, inputs: &[Tensor], above: &Above) -> Result<Applied> {
        let own: Vec<bool> = inputs.iter().map(Tensor::requires_grad).collect();
        let records = grad_enabled() && own.iter().any(|w| *w);
        let wanted = own.iter().enumerate();
        let wanted = wanted.map(|(i, own)| *own || above.wanted.get(i) == Some(&true)).collect();
        let mut context = Context::wanting(wanted);
        let edges: Edges = match records {
            true => inputs.iter().map(view::gradient_edge).collect::<Result<_>>()?,
            false => Edges::new(),
        };
        let duals = Duals::of(inputs)?;
        let here = Above {
            wanted: context.wanted.clone(),
            needs_context: above.needs_context || records || duals.is_some(),
        };
        let (results, batches) = match IN_LAYER.get().filter(|_| is_transforming()) {
            Some(in_layer) => match in_layer(self, &mut context, inputs, (above, &here))? {
                Transformed::Variables(results) => (results, false),
                Transformed::Batches(results) => (results, true),
                Transformed::Nothing => (self.run(&mut context, inputs)?, false),
            },
            None => (self.run(&mut context, inputs)?, false),
        };
        if !context.dirty.iter().all(|d| results.iter().any(|r| r.same_handle(d))) {
            return Err(AutogradError::Setting(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that are \
                 modified inplace must all be outputs of the Function."
                    .into(),
            )
            .into());
        }
        let input_of = |t: &Tensor| inputs.iter().position(|i| i.same_handle(t));
        let same = results.iter().map(input_of).collect();
        if batches || !records && duals.is_none() {
            return Ok(Applied { outputs: results, same, context });
        }
        let outputs = self.attached(&mut context, inputs, &results, edges, records, duals)?;
        // what was saved of the results is of those that the caller sees
        let seen = |t: &Tensor| match results.iter().position(|r| r.same_handle(t)) {
            Some(nr) => outputs[nr].clone(),
            None => t.clone(),
        };
        context.to_save = context.to_save.iter().map(seen).collect();
        context.no_gradient = context.no_gradient.iter().map(seen).collect();
        Ok(Applied { outputs, same, context })
    }

    /// Runs `forward`, of which nothing is recorded.
    fn run(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let _grad = GradGuard::set(false);
        let _rest = Carrying::set(false);
        self.function.forward(context, inputs)
    }

    /// The results as tensors with a gradient and a tangent.
    fn attached(
        &self,
        context: &mut Context,
        inputs: &[Tensor],
        results: &[Tensor],
        edges: Edges,
        records: bool,
        duals: Option<Duals>,
    ) -> Result<Vec<Tensor>> {
        let (dirties, no_gradient) = (context.dirty.clone(), context.no_gradient.clone());
        let is_dirty = |t: &Tensor| dirties.iter().any(|d| d.same_handle(t));
        for dirty in dirties.iter().filter(|_| records) {
            view::check_write_by(dirty, true)?;
        }
        let has_gradient = |t: &Tensor| {
            graph::is_differentiable(t) && !no_gradient.iter().any(|n| n.same_handle(t))
        };
        // an input that comes back as it was is another tensor from now on
        let mut outputs = Vec::with_capacity(results.len());
        for t in results {
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
        let dirty: Vec<bool> = outputs.iter().map(is_dirty).collect();
        let differentiable: Vec<bool> = outputs.iter().map(has_gradient).collect();
        let of_result = |t: &Tensor| results.iter().position(|r| r.same_handle(t));
        let push = |context: &Context| -> Result<()> {
            let Some(duals) = &duals else { return Ok(()) };
            let saved = context.to_save.iter();
            let saved = saved.map(|t| of_result(t).map_or(t, |nr| &outputs[nr]).clone()).collect();
            let tangents = {
                let _rest = Carrying::set(false);
                self.function.jvp(&context.with_saved(saved), &duals.tangents)?
            };
            duals.give(tangents, &outputs, &dirty, &differentiable)
        };
        if !records {
            push(context)?;
            return Ok(outputs);
        }
        let metas: Vec<OutputMeta> = outputs.iter().map(OutputMeta::of).collect();
        let metas_of = |t: &Tensor| has_gradient(t).then(|| OutputMeta::of(t));
        let node_outputs = outputs.iter().map(metas_of).collect();
        let slot = |t: &Tensor| {
            if let Some(nr) = of_result(t)
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
        let slots = Arc::new(Slots::new(slots));
        let name = format!("{}Backward", self.name);
        let kept = context.with_saved(Vec::new());
        kept.set_saved(None);
        kept.set_node(&name);
        let called = Called {
            function: self.function.clone(),
            name,
            context: kept,
            slots: slots.clone(),
            metas,
        };
        let node = Node::new(next_sequence(), edges, node_outputs, None, self.line, called);
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
        push(context)?;
        slots.keep_tangents(&outputs);
        Ok(outputs)
    }
}
