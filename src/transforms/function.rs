//! Functions of the user's within transforms: what the innermost layer makes of a call, and the
//! function whose parts are those of another one, batched.

use super::error::TransformError;
use super::layer::{self, Kind, Layer};
use super::map::moved;
use super::wrapper;
use crate::autograd::{
    Above, Applied, AutogradError, Carrying, Context, Custom, Function, GradGuard, Randomness,
    Transformed, VmapInfo, VmapRule, fitted, inference_mode, is_grad_enabled,
};
use crate::dispatch::TlsKeySets;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use crate::tensor::history::Kind as ViewKind;
use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

/// Calls a function below the innermost layer.
pub(super) fn called(
    custom: &Custom,
    context: &mut Context,
    inputs: &[Tensor],
    (above, here): (&Above, &Above),
) -> Result<Transformed> {
    let Some(layer) = layer::innermost() else { return Ok(Transformed::Nothing) };
    match layer.kind {
        Kind::Vmap { size, randomness } => {
            let call = Batch { custom, layer: &layer, size, randomness, above };
            call.results(context, inputs).map(Transformed::Batches)
        }
        Kind::Grad { .. } | Kind::Jvp { .. } => {
            tracked(custom, context, inputs, &layer, here).map(Transformed::Variables)
        }
    }
}

/// What tensors of a call below a layer are at the layer: pairs of the former and the latter.
struct Pairs<'a>(Vec<(&'a Tensor, Tensor)>);

impl Pairs<'_> {
    fn find(&self, t: &Tensor) -> Option<Tensor> {
        self.0.iter().find(|(below, _)| below.same_handle(t)).map(|(_, at)| at.clone())
    }

    /// What was said of the tensors below is said of those at the layer.
    fn say(&self, below: &Context, at: &mut Context, other: &dyn Fn(usize, &Tensor) -> Tensor) {
        let saved = below.to_save.iter().enumerate();
        at.to_save = saved.map(|(i, t)| self.find(t).unwrap_or_else(|| other(i, t))).collect();
        at.dirty = below.dirty.iter().filter_map(|t| self.find(t)).collect();
        at.no_gradient = below.no_gradient.iter().filter_map(|t| self.find(t)).collect();
        at.keeps_none = below.keeps_none;
    }
}

/// A call at a `Grad` or a `Jvp` layer: the same call below, with results that are the layer's own.
fn tracked(
    custom: &Custom,
    context: &mut Context,
    inputs: &[Tensor],
    layer: &Rc<Layer>,
    here: &Above,
) -> Result<Vec<Tensor>> {
    let inner: Vec<Tensor> = inputs
        .iter()
        .map(|t| wrapper::unwrapped(&wrapper::outlived(t).unwrap_or_else(|| t.clone()), layer))
        .collect();
    let (outer, forward, inference) = match layer.kind {
        Kind::Grad { outer, forward, inference } => (outer, forward, inference),
        Kind::Jvp { forward, inference } => (is_grad_enabled(), forward, inference),
        Kind::Vmap { .. } => return Err(crate::Error::runtime("a vmap tracks nothing")),
    };
    let below = {
        let _mode = GradGuard::set(outer);
        let _carrying = Carrying::set(forward);
        layer::below(layer, TlsKeySets::current(), || match inference {
            true => inference_mode(|| custom.call(&inner, here)),
            false => custom.call(&inner, here),
        })?
    };
    let Applied { outputs, same, context: said } = below;
    let is_dirty = |t: &Tensor| said.dirty.iter().any(|d| d.same_handle(t));
    let mut results = Vec::with_capacity(outputs.len());
    for (t, same) in outputs.iter().zip(same) {
        if let Some(at) = same.filter(|_| is_dirty(t)) {
            let input = &inputs[at];
            if wrapper::value_of(input, layer).is_none() {
                return Err(TransformError::Captured { op: custom.name.clone() }.into());
            }
            wrapper::refresh(input, layer)?;
            results.push(input.clone());
            continue;
        }
        let of = match same {
            Some(at) => Some(at),
            None if t.base().is_some() => inner.iter().position(|i| i.shares_storage_with(t)),
            None => None,
        };
        let base = of.map(|at| &inputs[at]).filter(|t| wrapper::value_of(t, layer).is_some());
        results.push(match base {
            Some(base) => {
                let kind = if same.is_some() { ViewKind::Strided } else { t.view_kind() };
                wrapper::tracked_view(t, base, Some(kind), layer)
            }
            None => wrapper::tracked(t, layer),
        });
    }
    let pairs = outputs.iter().chain(&inner).zip(results.iter().chain(inputs));
    let pairs = Pairs(pairs.map(|(below, at)| (below, at.clone())).collect());
    pairs.say(&said, context, &|_, t| wrapper::tracked(t, layer));
    context.values = said.values;
    Ok(results)
}

/// A call at a `Vmap` layer.
struct Batch<'a> {
    custom: &'a Custom,
    layer: &'a Rc<Layer>,
    size: i64,
    randomness: Randomness,
    above: &'a Above,
}

impl Batch<'_> {
    fn below<R>(&self, f: impl FnOnce() -> R) -> R {
        layer::below(self.layer, TlsKeySets::current(), f)
    }

    /// What is below the layer as that sees it.
    fn at(&self, t: &Tensor, dim: Option<usize>) -> Tensor {
        dim.map_or_else(|| t.clone(), |dim| wrapper::batched(t, dim, self.layer))
    }

    fn results(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let inside = |t: &Tensor| match wrapper::samples_of(t, self.layer) {
            Some((value, dim)) => (value.clone(), Some(dim)),
            None => (wrapper::outlived(t).unwrap_or_else(|| t.clone()), None),
        };
        let (inner, dims): (Vec<Tensor>, Vec<Option<usize>>) = inputs.iter().map(inside).unzip();
        let function = &self.custom.function;
        if dims.iter().all(Option::is_none) {
            let applied = self.below(|| self.custom.call(&inner, self.above))?;
            *context = applied.context;
            return Ok(applied.outputs);
        }
        match function.vmap_rule() {
            VmapRule::None => {
                let differentiated = |t: &Tensor| {
                    let hidden = wrapper::is_differentiated_outside(t);
                    hidden || t.requires_grad() && is_grad_enabled() || t.has_tangent()
                };
                if inputs.iter().any(differentiated) {
                    let function = self.custom.name.clone();
                    return Err(AutogradError::FunctionOfBatch { function }.into());
                }
                function.forward(context, inputs)
            }
            VmapRule::Generated => self.generated(context, inputs, inner, dims),
            VmapRule::Own => {
                let info = VmapInfo { batch_size: self.size, randomness: self.randomness };
                let (outputs, out_dims) = self.below(|| function.vmap(&info, &dims, &inner))?;
                if outputs.len() != out_dims.len() {
                    return Err(TransformError::Vmap(format!(
                        "the vmap of a custom Function gave {} out_dims for {} results",
                        out_dims.len(),
                        outputs.len()
                    ))
                    .into());
                }
                let pairs = inner.iter().zip(inputs);
                let pairs = Pairs(pairs.map(|(below, at)| (below, at.clone())).collect());
                let at = |(t, dim): (&Tensor, Option<usize>)| {
                    pairs.find(t).unwrap_or_else(|| self.at(t, dim))
                };
                let results: Vec<Tensor> = outputs.iter().zip(out_dims).map(at).collect();
                if self.above.needs_context {
                    function.setup_context(context, inputs, &results)?;
                }
                Ok(results)
            }
        }
    }

    /// By the function whose parts are batched.
    fn generated(
        &self,
        context: &mut Context,
        inputs: &[Tensor],
        inner: Vec<Tensor>,
        in_dims: Vec<Option<usize>>,
    ) -> Result<Vec<Tensor>> {
        let function = Vmapped {
            function: self.custom.function.clone(),
            in_dims,
            size: self.size,
            randomness: self.randomness,
        };
        let custom = Custom {
            function: Arc::new(function),
            name: format!("Vmapped{}", self.custom.name),
            line: self.custom.line,
        };
        let Applied { outputs, context: said, .. } =
            self.below(|| custom.call(&inner, self.above))?;
        let kept = kept(&said)?;
        let at = |(t, dim): (&Tensor, &Option<usize>)| {
            let same = inner.iter().position(|i| i.same_handle(t));
            same.map_or_else(|| self.at(t, *dim), |at| inputs[at].clone())
        };
        let results: Vec<Tensor> = outputs.iter().zip(&kept.out_dims).map(at).collect();
        let pairs = outputs.iter().chain(&inner).zip(results.iter().chain(inputs));
        let pairs = Pairs(pairs.map(|(below, at)| (below, at.clone())).collect());
        let dim = |i: usize| kept.saved_dims.get(i).copied().flatten();
        pairs.say(&said, context, &|i, t| self.at(t, dim(i)));
        context.values.clone_from(&kept.values);
        Ok(results)
    }
}

/// A function whose parts are those of another one, batched.
struct Vmapped {
    function: Arc<dyn Function>,
    in_dims: Vec<Option<usize>>,
    size: i64,
    randomness: Randomness,
}

/// What it keeps beside the tensors.
struct Kept {
    saved_dims: Vec<Option<usize>>,
    out_dims: Vec<Option<usize>>,
    /// The sizes of an input's sample.
    sizes: Vec<Vec<i64>>,
    values: Vec<Arc<dyn Any + Send + Sync>>,
}

fn kept(context: &Context) -> Result<&Kept> {
    let missing = || crate::Error::runtime("a batched function has kept nothing");
    context.value::<Kept>().ok_or_else(missing)
}

/// Tensors as a layer sees them.
fn batches(all: &[Tensor], dims: &[Option<usize>], layer: &Layer) -> Vec<Tensor> {
    let each = |(t, dim): (&Tensor, &Option<usize>)| {
        dim.map_or_else(|| t.clone(), |dim| wrapper::batched(t, dim, layer))
    };
    all.iter().zip(dims).map(each).collect()
}

fn optional(all: &[Option<Tensor>], dims: &[Option<usize>], layer: &Layer) -> Vec<Option<Tensor>> {
    let each = |(t, dim): (&Option<Tensor>, &Option<usize>)| {
        let t = t.as_ref()?;
        Some(dim.map_or_else(|| t.clone(), |dim| wrapper::batched(t, dim, layer)))
    };
    all.iter().zip(dims).map(each).collect()
}

/// What is inside of a batch, and where its samples are.
fn inside(t: &Tensor, layer: &Layer) -> (Tensor, Option<usize>) {
    match wrapper::samples_of(t, layer) {
        Some((value, dim)) => (value.clone(), Some(dim)),
        None => (t.clone(), None),
    }
}

impl Vmapped {
    /// Runs a part of the function on batches.
    fn run<R>(&self, f: impl FnOnce(&Layer) -> Result<R>) -> Result<R> {
        let entered = layer::enter(Kind::Vmap { size: self.size, randomness: self.randomness });
        f(&entered.layer)
    }

    /// The context that the function's own halves see.
    fn context(&self, context: &Context, layer: &Layer) -> Result<Context> {
        let kept = kept(context)?;
        let mut own = context.with_saved(batches(&context.saved()?, &kept.saved_dims, layer));
        own.values.clone_from(&kept.values);
        Ok(own)
    }

    /// A gradient or a tangent with its samples where they are to be.
    fn placed(&self, t: &Tensor, from: Option<usize>, to: usize) -> Result<Tensor> {
        match from {
            Some(from) => moved(t, from, to),
            None => {
                let mut sizes = t.sizes().to_vec();
                sizes.insert(to, self.size);
                aten::expand(&aten::unsqueeze(t, to as i64)?, &sizes, false)
            }
        }
    }
}

impl Function for Vmapped {
    fn forward(&self, context: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut own = Context::wanting(context.needs_input_grad().to_vec());
        self.run(|layer| {
            let wrapped = batches(inputs, &self.in_dims, layer);
            let results = self.function.forward(&mut own, &wrapped)?;
            let inside = |t: &Tensor| inside(t, layer);
            let (outputs, out_dims): (Vec<_>, Vec<_>) = results.iter().map(inside).unzip();
            let saved_dims = own.to_save.iter().map(|t| inside(t).1).collect();
            context.to_save = own.to_save.iter().map(|t| inside(t).0).collect();
            context.dirty = own.dirty.iter().map(|t| inside(t).0).collect();
            context.no_gradient = own.no_gradient.iter().map(|t| inside(t).0).collect();
            context.keeps_none = own.keeps_none;
            let sizes = wrapped.iter().map(|t| t.sizes().to_vec()).collect();
            context.keep(Kept { saved_dims, out_dims, sizes, values: own.values });
            Ok(outputs)
        })
    }

    fn backward(&self, context: &Context, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let kept = kept(context)?;
        let given = self.run(|layer| {
            let own = self.context(context, layer)?;
            let grads = optional(grads, &kept.out_dims, layer);
            let given = self.function.backward(&own, &grads)?;
            let each =
                |(i, g): (usize, Option<Tensor>)| -> Result<Option<(Tensor, Option<usize>)>> {
                    let Some(g) = g else { return Ok(None) };
                    // sums of what was broadcast are those of each sample
                    let g = match kept.sizes.get(i) {
                        Some(sizes) => fitted(g, sizes)?,
                        None => g,
                    };
                    Ok(Some(inside(&g, layer)))
                };
            given.into_iter().enumerate().map(each).collect::<Result<Vec<_>>>()
        })?;
        let each = |(i, given): (usize, Option<(Tensor, Option<usize>)>)| {
            let Some((g, from)) = given else { return Ok(None) };
            match (from, self.in_dims.get(i).copied().flatten()) {
                (from, Some(to)) => self.placed(&g, from, to).map(Some),
                // the samples share the input
                (Some(from), None) => {
                    aten::sum_dim_int_list(&g, Some(&[from as i64]), false, None).map(Some)
                }
                (None, None) => Ok(Some(g)),
            }
        };
        given.into_iter().enumerate().map(each).collect()
    }

    fn jvp(&self, context: &Context, tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let kept = kept(context)?;
        let given = self.run(|layer| {
            let own = self.context(context, layer)?;
            let tangents = optional(tangents, &self.in_dims, layer);
            let given = self.function.jvp(&own, &tangents)?;
            Ok(given.iter().map(|t| t.as_ref().map(|t| inside(t, layer))).collect::<Vec<_>>())
        })?;
        let each = |(i, given): (usize, Option<(Tensor, Option<usize>)>)| {
            let Some((t, from)) = given else { return Ok(None) };
            match (from, kept.out_dims.get(i).copied().flatten()) {
                (from, Some(to)) if from != Some(to) => self.placed(&t, from, to).map(Some),
                (Some(_), None) => Err(AutogradError::Setting(
                    "a custom Function's jvp gave a tangent for each sample of a result that all samples share".into(),
                )
                .into()),
                _ => Ok(Some(t)),
            }
        };
        given.into_iter().enumerate().map(each).collect()
    }

    fn vmap_rule(&self) -> VmapRule {
        VmapRule::Generated
    }

    fn once_differentiable(&self) -> bool {
        self.function.once_differentiable()
    }
}
