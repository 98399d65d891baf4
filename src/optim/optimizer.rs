//! What all optimisers have in common: groups of parameters, state, and a rule.

use crate::autograd::no_grad;
use crate::error::{Error, ErrorKind, Result};
use crate::modes::tracer;
use crate::nn::StateDict;
use crate::ops::aten;
use crate::tensor::Tensor;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use straightline_catalog::{DType, Layout, TensorMeta};

/// An optimiser, as training loops, schedules and checkpoints see it.
///
/// State and learning rates are tensors that are written in place. So a step takes `&self`, a clone
/// of an optimiser goes on with the same state, and a step that is captured by
/// [`compile()`](crate::compile()) is tensor operators only, which follow the learning rate
/// without compiling anew.
///
/// ```
/// use straightline::nn::{Linear, Module};
/// use straightline::optim::{Adam, Optimizer};
/// let layer = Linear::new(2, 1)?;
/// let optimizer: Box<dyn Optimizer> = Box::new(Adam::new(layer.parameters(), 1e-2)?);
/// optimizer.set_lr(0, 1e-3)?;
/// assert_eq!(optimizer.lr(0)?, 1e-3);
/// # Ok::<(), straightline::Error>(())
/// ```
pub trait Optimizer {
    /// Changes the parameters by their gradients. Those without a gradient stay as they are, and
    /// so does their state.
    ///
    /// # Errors
    /// A rule fails. Where it does so for shapes, dtypes or layouts, nothing has changed: the first
    /// step with gradients of new ones keeps copies, and puts them back. A later step keeps none,
    /// since what can be wrong then is data, or that memory runs out: parameters before the one that
    /// failed are updated then, as [`ErrorKind::PartialStep`](crate::ErrorKind::PartialStep) says. A
    /// compiled step that fails has changed nothing in any case.
    fn step(&self) -> Result<()>;

    /// Forgets the gradients of all parameters.
    fn zero_grad(&self) -> Result<()>;

    /// All parameters, group by group.
    fn parameters(&self) -> Vec<Tensor>;

    /// How many groups there are.
    fn groups(&self) -> usize;

    /// The learning rate of a group.
    ///
    /// # Errors
    /// There is no such group.
    fn lr(&self, group: usize) -> Result<f64>;

    /// The tensor that holds the learning rate of a group: 0-dimensional and `f64`. What is written
    /// to it in place is the learning rate of the next step, in a compiled function as well.
    ///
    /// # Errors
    /// There is no such group.
    fn lr_tensor(&self, group: usize) -> Result<Tensor>;

    /// Sets the learning rate of a group.
    ///
    /// # Errors
    /// There is no such group.
    fn set_lr(&self, group: usize, lr: f64) -> Result<()>;

    /// State and learning rates by name: `state.I.NAME` of parameter I, counted over all groups,
    /// by PyTorch's names, and `param_groups.G.lr`. The tensors share memory with the optimiser.
    ///
    /// ```
    /// use straightline::nn::{Linear, Module};
    /// use straightline::optim::{Optimizer, Sgd, SgdOptions};
    /// let options = SgdOptions::default().momentum(0.9);
    /// let optimizer = Sgd::new(Linear::without_bias(2, 1)?.parameters(), options)?;
    /// let names: Vec<String> = optimizer.state_dict()?.into_keys().collect();
    /// assert_eq!(names, ["param_groups.0.lr", "state.0.momentum_buffer"]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    fn state_dict(&self) -> Result<StateDict>;

    /// Copies state and learning rates from what [`state_dict`](Optimizer::state_dict) of an
    /// optimiser with the same groups gave.
    ///
    /// # Errors
    /// Something is missing, not known, or of other sizes; nothing has changed then.
    fn load_state_dict(&self, dict: &StateDict) -> Result<()>;
}

/// How an optimiser changes one parameter: what [`Sgd`](super::Sgd) and the others differ in.
///
/// ```
/// use straightline::optim::{Optim, Optimizer, Rule, State};
/// use straightline::{Result, Tensor, nn::Parameter};
///
/// /// Steps of one size, whatever the gradient's.
/// #[derive(Clone)]
/// struct SignDescent(f64);
///
/// impl Rule for SignDescent {
///     fn lr(&self) -> f64 {
///         self.0
///     }
///
///     fn update(&self, p: &Tensor, grad: &Tensor, lr: &Tensor, _: &State) -> Result<()> {
///         p.sub_(grad.sign()?.mul(lr)?).map(drop)
///     }
/// }
///
/// let w = Parameter::new(&Tensor::ones([1])?)?;
/// let optimizer = Optim::<SignDescent>::new([w.tensor().clone()], SignDescent(0.25))?;
/// w.set_grad(Some(&Tensor::full([1], 7.0)?))?;
/// optimizer.step()?;
/// assert_eq!(w.to_vec::<f32>()?, [0.75]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub trait Rule: Clone {
    /// The learning rate that a group begins with.
    fn lr(&self) -> f64;

    /// Refuses settings that make no sense.
    ///
    /// # Errors
    /// As PyTorch's constructors.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// What the rule remembers of a parameter, by PyTorch's names, with its first value.
    fn state(&self, _parameter: &Tensor) -> Result<State> {
        Ok(State::default())
    }

    /// Whether a complex parameter is changed as pairs of real numbers, as PyTorch's optimisers do:
    /// [`update`](Rule::update) is given real views of it, of its gradient and of its state.
    fn views_complex_as_real(&self) -> bool {
        false
    }

    /// Changes a parameter and its state in place, without being recorded. The learning rate is a
    /// 0-dimensional `f64` tensor.
    fn update(&self, parameter: &Tensor, grad: &Tensor, lr: &Tensor, state: &State) -> Result<()>;
}

/// What an optimiser remembers of a parameter: tensors by name.
#[derive(Clone, Debug, Default)]
pub struct State(Vec<(&'static str, Tensor)>);

impl State {
    /// With one more tensor.
    #[must_use]
    pub fn with(mut self, name: &'static str, tensor: Tensor) -> State {
        self.0.push((name, tensor));
        self
    }

    /// With a number of steps, `step`, which begins at 0, on the parameter's device (as with PyTorch's
    /// `capturable=True`): counting waits for nothing, and a compiled step does it with the rest.
    pub fn with_step(self, parameter: &Tensor) -> Result<State> {
        Ok(self.with("step", Tensor::with(DType::F32).device(parameter.device()).literal(0.0)?))
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        let found = self.0.iter().find(|(n, _)| *n == name);
        found
            .map(|(_, t)| t)
            .ok_or_else(|| Error::value(format!("this optimiser's state has no `{name}`")))
    }

    /// The same tensors, complex ones as pairs of real numbers.
    fn as_real(&self) -> Result<State> {
        self.0.iter().map(|(name, t)| Ok((*name, as_real(t)?))).collect::<Result<_>>().map(State)
    }

    /// Counts a step, and gives their number as a 0-dimensional `f64` tensor.
    ///
    /// # Errors
    /// The state has no `step`.
    pub fn count_step(&self) -> Result<Tensor> {
        self.get("step")?.add_(1)?.to_dtype(DType::F64)
    }
}

/// A complex tensor as pairs of real numbers; another one as it is.
fn as_real(t: &Tensor) -> Result<Tensor> {
    match t.dtype().is_complex() {
        true => aten::view_as_real(&t.resolve_conj()?),
        false => Ok(t.clone()),
    }
}

/// Parameters that share settings and a learning rate.
#[derive(Clone, Debug)]
struct Group<R> {
    parameters: Vec<Tensor>,
    states: Vec<State>,
    rule: R,
    lr: Tensor,
    proven: Proven,
}

/// What parameter and gradient were like in the last step that went well.
type Likeness = (TensorMeta, TensorMeta, Layout);

/// The same of each parameter, for the steps of all clones.
type Proven = Arc<Mutex<Vec<Option<Likeness>>>>;

/// One parameter's part of a step.
struct Update<'a, R> {
    group: &'a Group<R>,
    index: usize,
    p: &'a Tensor,
    grad: Tensor,
    state: &'a State,
}

impl<R: Rule> Update<'_, R> {
    fn make(&self) -> Result<()> {
        let Group { rule, lr, .. } = self.group;
        if self.p.dtype().is_complex() && rule.views_complex_as_real() {
            let (p, grad) = (as_real(self.p)?, as_real(&self.grad)?);
            return rule.update(&p, &grad, lr, &self.state.as_real()?);
        }
        rule.update(self.p, &self.grad, lr, self.state)
    }

    /// What it may change.
    fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        std::iter::once(self.p).chain(self.state.0.iter().map(|(_, t)| t))
    }

    fn likeness(&self) -> Likeness {
        (self.p.meta(), self.grad.meta(), self.grad.layout())
    }

    fn proven(&self) -> MutexGuard<'_, Vec<Option<Likeness>>> {
        self.group.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_proven(&self) -> bool {
        self.proven()[self.index].as_ref() == Some(&self.likeness())
    }

    fn prove(&self) {
        let likeness = self.likeness();
        self.proven()[self.index] = Some(likeness);
    }
}

/// An optimiser of a rule: [`Sgd`](super::Sgd), [`Adam`](super::Adam) and the others are this type.
#[derive(Clone, Debug)]
pub struct Optim<R> {
    groups: Vec<Group<R>>,
}

impl<R: Rule> Optim<R> {
    /// An optimiser of these parameters; its settings are a learning rate or its options.
    ///
    /// ```
    /// use straightline::nn::{Linear, Module};
    /// use straightline::optim::{Adam, AdamOptions};
    /// let layer = Linear::new(2, 1)?;
    /// let plain = Adam::new(layer.parameters(), 1e-2)?;
    /// let tuned = Adam::new(layer.parameters(), AdamOptions::default().betas(0.9, 0.95).amsgrad(true))?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// There are no parameters, one of them is not a leaf or there twice, or the settings make no
    /// sense.
    #[track_caller]
    pub fn new(
        parameters: impl IntoIterator<Item = Tensor>,
        options: impl Into<R>,
    ) -> Result<Optim<R>> {
        let parameters: Vec<Tensor> = parameters.into_iter().collect();
        ensure_value!(!parameters.is_empty(), "optimizer got an empty parameter list");
        let mut optimizer = Optim { groups: Vec::new() };
        optimizer.add_group(parameters, options)?;
        Ok(optimizer)
    }

    /// Adds parameters with settings of their own.
    ///
    /// ```
    /// use straightline::nn::{Linear, Module};
    /// use straightline::optim::{AdamW, AdamWOptions, Optimizer};
    /// let layer = Linear::new(2, 1)?;
    /// let (decayed, others): (Vec<_>, Vec<_>) = layer.parameters().into_iter().partition(|p| p.dim() >= 2);
    /// let mut optimizer = AdamW::new(decayed, AdamWOptions::default().weight_decay(0.1))?;
    /// optimizer.add_group(others, AdamWOptions::default().weight_decay(0.0))?;
    /// assert_eq!(optimizer.groups(), 2);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Optim::new`], but a group may be empty.
    #[track_caller]
    pub fn add_group(
        &mut self,
        parameters: impl IntoIterator<Item = Tensor>,
        options: impl Into<R>,
    ) -> Result<()> {
        let (rule, parameters): (R, Vec<Tensor>) =
            (options.into(), parameters.into_iter().collect());
        ensure_value!(rule.lr() >= 0.0, "Invalid learning rate: {}", rule.lr());
        rule.check()?;
        let mut seen: HashSet<usize> = self.all().map(Tensor::id).collect();
        for p in &parameters {
            ensure_value!(p.is_leaf(), "can't optimize a non-leaf Tensor");
            ensure_value!(
                seen.insert(p.id()),
                "some parameters appear in more than one parameter group"
            );
        }
        let states = no_grad(|| parameters.iter().map(|p| rule.state(p)).collect::<Result<_>>())?;
        let lr = Tensor::with(DType::F64).literal(rule.lr())?;
        let proven = Arc::new(Mutex::new(vec![None; parameters.len()]));
        self.groups.push(Group { parameters, states, rule, lr, proven });
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &Tensor> {
        self.groups.iter().flat_map(|g| &g.parameters)
    }

    fn group(&self, group: usize) -> Result<&Group<R>> {
        self.groups.get(group).ok_or_else(|| {
            let count = self.groups.len();
            Error::index(format!("there is no parameter group {group} among {count}"))
        })
    }

    /// What a step does, parameter by parameter.
    fn updates(&self) -> impl Iterator<Item = Update<'_, R>> {
        self.groups.iter().flat_map(|group| {
            let all = group.parameters.iter().zip(&group.states).enumerate();
            all.filter_map(move |(index, (p, state))| {
                p.grad().map(|grad| Update { group, index, p, grad, state })
            })
        })
    }

    /// A step that changes nothing if it fails where it could not be known that it would not.
    fn step_or_nothing(&self) -> Result<()> {
        let updates: Vec<Update<'_, R>> = self.updates().collect();
        let proven = updates.iter().all(Update::is_proven);
        let mut copies = Vec::new();
        if !proven {
            for t in updates.iter().flat_map(Update::tensors) {
                copies.push((t, t.copied()?));
            }
        }
        for (updated, update) in updates.iter().enumerate() {
            let Err(e) = update.make() else { continue };
            if proven {
                let (all, source) = (updates.len(), Box::new(e));
                return Err(ErrorKind::PartialStep { updated, all, source }.into());
            }
            for (t, before) in copies {
                t.copy_(before)?;
            }
            return Err(e);
        }
        if !proven {
            updates.iter().for_each(Update::prove);
        }
        Ok(())
    }

    /// What the state dict consists of.
    fn entries(&self) -> Vec<(String, &Tensor)> {
        let mut entries = Vec::new();
        let states = self.groups.iter().flat_map(|g| &g.states).enumerate();
        for (i, state) in states {
            entries.extend(state.0.iter().map(|(name, t)| (format!("state.{i}.{name}"), t)));
        }
        let groups = self.groups.iter().enumerate();
        entries.extend(groups.map(|(i, g)| (format!("param_groups.{i}.lr"), &g.lr)));
        entries
    }
}

impl<R: Rule> Optimizer for Optim<R> {
    #[track_caller]
    fn step(&self) -> Result<()> {
        // a plan that fails has written nothing
        match tracer::current() {
            Some(_) => no_grad(|| self.updates().try_for_each(|u| u.make())),
            None => no_grad(|| self.step_or_nothing()),
        }
    }

    fn zero_grad(&self) -> Result<()> {
        self.all().try_for_each(|p| p.set_grad(None))
    }

    fn parameters(&self) -> Vec<Tensor> {
        self.all().cloned().collect()
    }

    fn groups(&self) -> usize {
        self.groups.len()
    }

    fn lr(&self, group: usize) -> Result<f64> {
        self.group(group)?.lr.item::<f64>()
    }

    fn lr_tensor(&self, group: usize) -> Result<Tensor> {
        Ok(self.group(group)?.lr.clone())
    }

    fn set_lr(&self, group: usize, lr: f64) -> Result<()> {
        self.group(group)?.lr.fill_(lr).map(drop)
    }

    fn state_dict(&self) -> Result<StateDict> {
        self.entries().into_iter().map(|(name, t)| Ok((name, t.detach()?))).collect()
    }

    fn load_state_dict(&self, dict: &StateDict) -> Result<()> {
        let own = self.entries();
        let groups = dict.keys().filter(|name| name.starts_with("param_groups.")).count();
        ensure_value!(
            groups == self.groups.len(),
            "loaded state dict has a different number of parameter groups"
        );
        let names: HashSet<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
        let missing: Vec<&str> = names.iter().copied().filter(|n| !dict.contains_key(*n)).collect();
        let unknown: Vec<&str> =
            dict.keys().map(String::as_str).filter(|n| !names.contains(n)).collect();
        ensure_value!(
            missing.is_empty() && unknown.is_empty(),
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: \
             missing {missing:?}, unknown {unknown:?}"
        );
        for (name, t) in &own {
            let given = &dict[name];
            ensure_value!(
                given.sizes() == t.sizes(),
                "`{name}` has sizes {:?} in the loaded state dict, and {:?} here",
                given.sizes(),
                t.sizes()
            );
        }
        no_grad(|| own.iter().try_for_each(|(name, t)| t.copy_(&dict[name]).map(drop)))
    }
}
