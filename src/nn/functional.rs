//! Modules as functions of their parameters, for the transforms of `func`.

use super::module::{Leaf, LeafMut, Module, StateDict, Visitor, VisitorMut, type_name};
use super::parameter::Parameter;
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::Tensor;
use std::collections::{HashMap, HashSet};

/// How [`functional_call_with`] replaces parameters.
///
/// ```
/// use straightline::func::{FunctionalOptions, functional_call_with};
/// use straightline::nn::{Layer, Linear, StateDict};
/// use straightline::ones;
/// let options = FunctionalOptions { strict: true, ..FunctionalOptions::default() };
/// let given = StateDict::from([("weight".to_string(), ones([1, 2])?)]);
/// let layer = Linear::new(2, 1)?;
/// let e = functional_call_with(&layer, &given, &options, |l| l.forward(&ones([2])?)).unwrap_err();
/// assert!(e.to_string().contains("Missing key(s): 'bias'"));
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FunctionalOptions {
    /// Whether all parameters and buffers must be given, and no others; no.
    pub strict: bool,
    /// Whether what is given for one name of a tensor is given for its other names as well; yes.
    pub tie_weights: bool,
}

impl Default for FunctionalOptions {
    fn default() -> Self {
        FunctionalOptions { strict: false, tie_weights: true }
    }
}

/// Calls a module with other parameters and buffers in the place of its own, by their names
/// (`hidden.0.weight`): a function of these, which the transforms take. What is not given is the
/// module's own, and what it has no place for is left out. The module stays as it is; `call` gets a
/// clone of it.
///
/// # Errors
///
/// Those of `call`; two tensors are given for one that has two names.
///
/// ```
/// use straightline::func::{functional_call, grad, vmap};
/// use straightline::nn::{Layer, Linear, Module, Sequential, StateDict, Tanh};
/// use straightline::{Tensor, randn};
/// let net = Sequential::new().add(Linear::new(3, 4)?).add(Tanh).add(Linear::new(4, 1)?);
/// let parameters = net.state_dict()?;
/// let loss = |(p, x): &(StateDict, Tensor)| {
///     functional_call(&net, p, |net| net.forward(x)?.square()?.sum())
/// };
/// // the gradient of each sample
/// let of_one = |x: &Tensor| grad(|p: &StateDict| loss(&(p.clone(), x.clone())))(&parameters);
/// let all = vmap(of_one)(&randn([8, 3])?)?;
/// assert_eq!(all["0.weight"].sizes(), [8, 4, 3]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn functional_call<M: Module + Clone, R>(
    module: &M,
    given: &StateDict,
    call: impl FnOnce(&M) -> Result<R>,
) -> Result<R> {
    functional_call_with(module, given, &FunctionalOptions::default(), call)
}

/// [`functional_call`] with options.
///
/// # Errors
///
/// As [`functional_call`]; something is missing or unexpected where that matters.
pub fn functional_call_with<M: Module + Clone, R>(
    module: &M,
    given: &StateDict,
    options: &FunctionalOptions,
    call: impl FnOnce(&M) -> Result<R>,
) -> Result<R> {
    let leaves = leaves(module);
    // what stands for a tensor under each of its names
    let mut tied: HashMap<usize, &Tensor> = HashMap::new();
    if options.tie_weights {
        for (name, own) in &leaves {
            let Some(new) = given.get(name) else { continue };
            let before = tied.insert(own.id(), new);
            if before.is_some_and(|before| !before.same_handle(new)) {
                let same = leaves.iter().filter(|(_, t)| t.id() == own.id());
                let names: Vec<String> = same.map(|(name, _)| format!("'{name}'")).collect();
                return Err(Error::value(format!(
                    "functional_call got multiple values for keys [{}], which are tied. Consider using tie_weights=False",
                    names.join(", ")
                )));
            }
        }
    }
    let replacement = |(name, own): &(String, Tensor)| {
        given.get(name).or_else(|| tied.get(&own.id()).copied()).cloned()
    };
    if options.strict {
        let known: HashSet<&str> = leaves.iter().map(|(name, _)| name.as_str()).collect();
        let unexpected = given.keys().map(String::as_str).filter(|name| !known.contains(name));
        let missing = leaves.iter().filter(|leaf| replacement(leaf).is_none());
        check_keys::<M>(unexpected.collect(), missing.map(|(name, _)| name.as_str()).collect())?;
    }
    let mut other = module.clone();
    let (mut next, mut apart) = (leaves.iter(), false);
    other.visit_mut(&mut VisitorMut::new(&mut |mut leaf| {
        let own = match &leaf {
            LeafMut::Parameter(p) => p.tensor().clone(),
            LeafMut::Buffer(b) => b.tensor().clone(),
            LeafMut::Training(_) => return,
        };
        let place = next.next().filter(|(_, t)| t.same_handle(&own));
        apart |= place.is_none();
        let Some(new) = place.and_then(replacement) else { return };
        match &mut leaf {
            LeafMut::Parameter(p) => **p = Parameter::standing_in(new),
            LeafMut::Buffer(b) => **b = b.with_tensor(new),
            LeafMut::Training(_) => {}
        }
    }));
    if apart || next.next().is_some() {
        return Err(Error::value(format!(
            "functional_call: `visit` and `visit_mut` of {} show different tensors, or its clone has others",
            type_name::<M>()
        )));
    }
    call(&other)
}

fn check_keys<M>(unexpected: Vec<&str>, missing: Vec<&str>) -> Result<()> {
    let mut message = String::new();
    for (what, names) in [("Unexpected", unexpected), ("Missing", missing)] {
        if !names.is_empty() {
            let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
            message += &format!("\n\t{what} key(s): {}.", quoted.join(", "));
        }
    }
    match message.is_empty() {
        true => Ok(()),
        false => Err(Error::runtime(format!(
            "Error(s) in reparametrizing for {}:{message}",
            type_name::<M>()
        ))),
    }
}

/// All parameters and buffers under all names, in order.
fn leaves<M: Module + ?Sized>(module: &M) -> Vec<(String, Tensor)> {
    let mut found = Vec::new();
    module.visit(&mut Visitor::new(&mut |name, leaf| {
        let t = match leaf {
            Leaf::Parameter(p) => p.tensor(),
            Leaf::Buffer(b) => b.tensor(),
        };
        found.push((name.to_owned(), t.clone()));
    }));
    found
}

/// The parameters and the buffers of several modules of one kind, each stacked along a new first
/// dimension, which [`vmap`](crate::func::vmap) takes apart: an ensemble. The stacked parameters are
/// leaves that want gradients where those of the modules do.
///
/// # Errors
///
/// There are no modules, or they differ in their parameters or their mode.
///
/// ```
/// use straightline::func::{functional_call, stack_module_state, vmap};
/// use straightline::nn::{Layer, Linear, StateDict};
/// use straightline::ones;
/// let models = [Linear::new(3, 2)?, Linear::new(3, 2)?, Linear::new(3, 2)?];
/// let (parameters, _) = stack_module_state(&models)?;
/// let x = ones([5, 3])?;
/// let f = |p: &StateDict| functional_call(&models[0], p, |model| model.forward(&x));
/// assert_eq!(vmap(f)(&parameters)?.sizes(), [3, 5, 2]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn stack_module_state<M: Module + Clone>(models: &[M]) -> Result<(StateDict, StateDict)> {
    let error = |what: &str| Error::runtime(format!("stack_module_state: {what}"));
    let Some(first) = models.first() else {
        return Err(error("Expected at least one model, got 0."));
    };
    let mode = training_flags(first);
    if models.iter().any(|m| training_flags(m) != mode) {
        return Err(error("Expected all models to have the same training/eval mode."));
    }
    let parameters: Vec<_> = models.iter().map(Module::named_parameters).collect();
    let buffers: Vec<_> = models.iter().map(Module::named_buffers).collect();
    let stacked = |all: &[Vec<(String, Tensor)>], leaves: bool| -> Result<StateDict> {
        let names =
            |m: &Vec<(String, Tensor)>| m.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>();
        if all.iter().any(|m| names(m) != names(&all[0])) {
            return Err(error("Expected all models to be of the same class."));
        }
        let each = |(at, (name, own)): (usize, &(String, Tensor))| {
            let rows: Vec<Tensor> = all.iter().map(|m| m[at].1.detach()).collect::<Result<_>>()?;
            let t = aten::stack(&rows, 0)?;
            if leaves && own.requires_grad() {
                t.requires_grad_(true)?;
            }
            Ok((name.clone(), t))
        };
        all[0].iter().enumerate().map(each).collect()
    };
    Ok((stacked(&parameters, true)?, stacked(&buffers, false)?))
}

/// Which parts of a module are in training mode.
fn training_flags<M: Module + Clone>(module: &M) -> Vec<bool> {
    let mut flags = Vec::new();
    module.clone().visit_mut(&mut VisitorMut::new(&mut |leaf| {
        if let LeafMut::Training(flag) = leaf {
            flags.push(*flag);
        }
    }));
    flags
}
