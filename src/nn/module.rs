//! Modules: trees whose leaves are parameters and buffers.

use super::mismatch::StateDictMismatch;
use super::mode::TrainingFlag;
use super::parameter::{Buffer, Parameter};
use crate::autograd;
use crate::error::{Error, ErrorKind, Result};
use crate::files::save_safetensors;
use crate::tensor::{Tensor, numbered};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use straightline_catalog::{DType, Device};

/// Tensors by name, as [`load_state_dict`](crate::load_state_dict) gives them.
pub type StateDict = BTreeMap<String, Tensor>;

/// A network or a part of one: a struct whose fields are parameters, buffers, and other modules.
///
/// Derive it. Names are those of the fields, joined by dots, as in PyTorch's `state_dict`; elements
/// of a `Vec` are numbered. What computes is a method of the struct's own, with any signature; one
/// that takes a tensor and gives a tensor makes a [`Layer`].
///
/// ```
/// use straightline::nn::{Layer, Linear, Module};
/// use straightline::{Result, Tensor};
///
/// #[derive(Clone, Module)]
/// struct Net {
///     hidden: Vec<Linear>,
///     head: Linear,
/// }
///
/// impl Net {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         let mut x = x.clone();
///         for layer in &self.hidden {
///             x = layer.forward(&x)?.relu()?;
///         }
///         self.head.forward(&x)
///     }
/// }
///
/// let net = Net { hidden: vec![Linear::new(4, 8)?, Linear::new(8, 8)?], head: Linear::new(8, 2)? };
/// assert_eq!(net.forward(&Tensor::ones([3, 4])?)?.sizes(), [3, 2]);
/// let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["hidden.0.weight", "hidden.0.bias", "hidden.1.weight", "hidden.1.bias", "head.weight", "head.bias"]);
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// A clone of a module shares its tensors and has a mode of its own: `let mut judge = net.clone();
/// judge.eval();` judges what `net` is learning.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `Module`: modules are made of parameters, buffers, modules and settings",
    note = "a tensor that is trained is a `nn::Parameter`, one that is kept a `nn::Buffer`",
    note = "derive it for your own struct with `#[derive(straightline::nn::Module)]`, or leave the field out with `#[module(skip)]`"
)]
pub trait Module {
    /// Shows each parameter, buffer and module to a visitor, in order, with its name.
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a, '_>);

    /// Shows each parameter, buffer, module and training flag to a visitor that may change it.
    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>);

    /// All parameters, each once however many names it has.
    ///
    /// ```
    /// use straightline::nn::{Linear, Module};
    /// let count: i64 = Linear::new(3, 4)?.parameters().iter().map(|p| p.numel()).sum();
    /// assert_eq!(count, 16);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, p)| p).collect()
    }

    /// All parameters with their names; one that has several names has its first.
    fn named_parameters(&self) -> Vec<(String, Tensor)> {
        named(self, |leaf| match leaf {
            Leaf::Parameter(p) => Some(p.tensor()),
            Leaf::Buffer(_) => None,
        })
    }

    /// All buffers with their names, also those that the state dict leaves out.
    fn named_buffers(&self) -> Vec<(String, Tensor)> {
        named(self, |leaf| match leaf {
            Leaf::Buffer(b) => Some(b.tensor()),
            Leaf::Parameter(_) => None,
        })
    }

    /// All parameters and saved buffers by name, without gradients. They share memory with the
    /// module.
    ///
    /// ```
    /// use straightline::nn::{BatchNorm1d, Module};
    /// let names: Vec<String> = BatchNorm1d::new(2)?.state_dict()?.into_keys().collect();
    /// assert_eq!(names, ["bias", "num_batches_tracked", "running_mean", "running_var", "weight"]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    fn state_dict(&self) -> Result<StateDict> {
        entries(self).into_iter().map(|(name, t)| Ok((name, t.detach()?))).collect()
    }

    /// Copies tensors into the parameters and buffers of their names. With `strict`, names have to
    /// be the same on both sides; without, those that are not are left alone and returned.
    ///
    /// # Errors
    /// [`ErrorKind::StateDict`] with everything that does not fit; the module is then unchanged.
    /// Sizes have to fit in any case.
    ///
    /// ```
    /// use straightline::nn::{Linear, Module};
    /// let (a, b) = (Linear::new(2, 2)?, Linear::new(2, 2)?);
    /// b.load_state_dict(&a.state_dict()?, true)?;
    /// assert_eq!(a.weight.to_vec::<f32>()?, b.weight.to_vec::<f32>()?);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    #[track_caller]
    fn load_state_dict(&self, dict: &StateDict, strict: bool) -> Result<StateDictMismatch> {
        let own = entries(self);
        let mut found = StateDictMismatch { module: type_name::<Self>(), ..Default::default() };
        for (name, t) in &own {
            match dict.get(name) {
                None => found.missing.push(name.clone()),
                Some(given) if given.sizes() != t.sizes() => {
                    found.shapes.push(StateDictMismatch::shape(name, given.sizes(), t.sizes()));
                }
                Some(_) => {}
            }
        }
        let names: HashSet<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
        let unexpected = dict.keys().filter(|name| !names.contains(name.as_str()));
        found.unexpected = unexpected.cloned().collect();
        if !found.shapes.is_empty() || strict && !found.is_empty() {
            if !strict {
                found.missing.clear();
                found.unexpected.clear();
            }
            return Err(Error::new(ErrorKind::StateDict(Box::new(found)))
                .with_location(std::panic::Location::caller()));
        }
        autograd::no_grad(|| {
            for (name, t) in &own {
                if let Some(given) = dict.get(name) {
                    t.copy_(given)?;
                }
            }
            Ok(found)
        })
    }

    /// Writes the state dict to a safetensors file.
    ///
    /// ```
    /// use straightline::nn::{Linear, Module};
    /// let path = tempfile::tempdir().unwrap().keep().join("layer.safetensors");
    /// let (a, b) = (Linear::new(2, 2)?, Linear::new(2, 2)?);
    /// a.save(&path)?;
    /// b.load(&path)?;
    /// assert_eq!(a.weight.to_vec::<f32>()?, b.weight.to_vec::<f32>()?);
    /// # std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be written, or a tensor has no data.
    #[track_caller]
    fn save(&self, path: impl AsRef<Path>) -> Result<()>
    where
        Self: Sized,
    {
        save_safetensors(path, &self.state_dict()?)
    }

    /// Loads a file of weights, safetensors or a state dict of `torch.save`
    /// ([`load_state_dict`](crate::load_state_dict)), all names of which have to be the module's.
    ///
    /// # Errors
    /// The file cannot be read, or as [`load_state_dict`](Module::load_state_dict).
    #[track_caller]
    fn load(&self, path: impl AsRef<Path>) -> Result<()>
    where
        Self: Sized,
    {
        self.load_state_dict(&crate::files::load_state_dict(path)?, true).map(drop)
    }

    /// Puts the module into training mode, or into evaluation mode: what dropout and batch
    /// normalisation do. A new module is in training mode.
    fn set_training(&mut self, on: bool) {
        self.visit_mut(&mut VisitorMut {
            see: &mut |leaf| {
                if let LeafMut::Training(flag) = leaf {
                    *flag = on;
                }
            },
        });
    }

    /// Training mode.
    fn train(&mut self) {
        self.set_training(true);
    }

    /// Evaluation mode.
    ///
    /// ```
    /// use straightline::{Tensor, nn::{Dropout, Layer, Module}};
    /// let mut dropout = Dropout::new(0.5)?;
    /// dropout.eval();
    /// assert_eq!(dropout.forward(&Tensor::ones([2])?)?.to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    fn eval(&mut self) {
        self.set_training(false);
    }

    /// Forgets the gradients of all parameters: there is none, which is not the same as zero.
    fn zero_grad(&self) -> Result<()> {
        self.parameters().iter().try_for_each(|p| p.set_grad(None))
    }

    /// Whether the parameters are trained; `requires_grad_(false)` freezes the module.
    ///
    /// ```
    /// use straightline::nn::{Linear, Module};
    /// let layer = Linear::new(2, 2)?;
    /// layer.requires_grad_(false)?;
    /// assert!(layer.parameters().iter().all(|p| !p.requires_grad()));
    /// # Ok::<(), straightline::Error>(())
    /// ```
    fn requires_grad_(&self, on: bool) -> Result<()> {
        self.parameters().iter().try_for_each(|p| p.requires_grad_(on).map(drop))
    }

    /// Makes all floating-point parameters and buffers new ones of another dtype. Those that were
    /// one tensor still are. An optimiser is made afterwards, for the new ones.
    ///
    /// ```
    /// use straightline::{DType, nn::{Linear, Module}};
    /// let mut layer = Linear::new(2, 2)?;
    /// layer.set_dtype(DType::F64)?;
    /// assert_eq!(layer.weight.dtype(), DType::F64);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// The dtype is not a floating-point one, or there is no memory; some tensors may have been
    /// converted.
    fn set_dtype(&mut self, dtype: DType) -> Result<()> {
        ensure_type!(
            dtype.is_floating(),
            "a module's dtype is a floating-point one, not {}",
            dtype.torch_name()
        );
        let other = |t: &Tensor| t.dtype().is_floating() && t.dtype() != dtype;
        convert(self, &|t| other(t).then(|| t.to_dtype(dtype)).transpose())
    }

    /// Makes all parameters and buffers new ones on another device. Those that were one tensor still
    /// are. An optimiser is made afterwards, for the new ones.
    ///
    /// ```
    /// use straightline::{Device, nn::{Linear, Module}};
    /// let mut layer = Linear::new(2, 2)?;
    /// # #[cfg(feature = "cuda")]
    /// if straightline::cuda::is_available() {
    ///     layer.set_device("cuda:0".parse()?)?;
    /// }
    /// layer.set_device(Device::CPU)?;
    /// assert!(layer.weight.device().is_cpu());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is no such device, or no memory; some tensors may have been moved.
    fn set_device(&mut self, device: Device) -> Result<()> {
        let device = numbered(device);
        convert(self, &|t| (t.device() != device).then(|| t.to_device(device)).transpose())
    }

    /// A module of the same values in memory of its own, as Python's `copy.deepcopy` makes. A clone
    /// shares its tensors. Tensors that were one still are, and there are no gradients.
    ///
    /// ```
    /// use straightline::nn::{Linear, Module};
    /// let layer = Linear::new(2, 2)?;
    /// let own = layer.deep_copy()?;
    /// straightline::autograd::no_grad(|| layer.weight.zero_())?;
    /// assert!(own.weight.to_vec2::<f32>()? != layer.weight.to_vec2::<f32>()?);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory.
    fn deep_copy(&self) -> Result<Self>
    where
        Self: Sized + Clone,
    {
        let mut outcome = Ok(());
        let mut made: HashMap<usize, (Tensor, Parameter)> = HashMap::new();
        let mut buffers: HashMap<usize, (Tensor, Tensor)> = HashMap::new();
        let mut copy = self.clone();
        copy.visit_mut(&mut VisitorMut {
            see: &mut |leaf| {
                let done = match leaf {
                    LeafMut::Parameter(p) => replace_parameter(p, &mut made, Tensor::copied),
                    LeafMut::Buffer(b) => replace_buffer(b, &mut buffers, &Tensor::copied),
                    LeafMut::Training(_) => Ok(()),
                };
                if outcome.is_ok() {
                    outcome = done;
                }
            },
        });
        outcome.map(|()| copy)
    }
}

/// Replaces the parameters and buffers for which `make` has other ones.
fn convert<M: Module + ?Sized>(
    module: &mut M,
    make: &dyn Fn(&Tensor) -> Result<Option<Tensor>>,
) -> Result<()> {
    let mut outcome = Ok(());
    // old ones are held, so that no new one takes their identity
    let mut made: HashMap<usize, (Tensor, Parameter)> = HashMap::new();
    let mut buffers: HashMap<usize, (Tensor, Tensor)> = HashMap::new();
    module.visit_mut(&mut VisitorMut {
        see: &mut |leaf| {
            let done = match leaf {
                LeafMut::Parameter(p) => match made.get(&p.id()) {
                    Some((_, new)) => {
                        *p = new.clone();
                        Ok(())
                    }
                    None => autograd::no_grad(|| make(p)).and_then(|new| match new {
                        Some(new) => replace_parameter(p, &mut made, |_| Ok(new)),
                        None => Ok(()),
                    }),
                },
                LeafMut::Buffer(b) => replace_buffer(b, &mut buffers, &|b| {
                    make(b).map(|new| new.unwrap_or_else(|| b.clone()))
                }),
                LeafMut::Training(_) => Ok(()),
            };
            if outcome.is_ok() {
                outcome = done;
            }
        },
    });
    outcome
}

fn replace_buffer(
    b: &mut Buffer,
    made: &mut HashMap<usize, (Tensor, Tensor)>,
    make: &dyn Fn(&Tensor) -> Result<Tensor>,
) -> Result<()> {
    let id = b.tensor().id();
    let new = match made.get(&id) {
        Some((_, new)) => new.clone(),
        None => {
            let new = autograd::no_grad(|| make(b.tensor()))?;
            made.insert(id, (b.tensor().clone(), new.clone()));
            new
        }
    };
    *b = b.with_tensor(new);
    Ok(())
}

/// A parameter that takes the place of this one, the same wherever this one is.
fn replace_parameter(
    p: &mut Parameter,
    made: &mut HashMap<usize, (Tensor, Parameter)>,
    make: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<()> {
    if let Some((_, new)) = made.get(&p.id()) {
        *p = new.clone();
        return Ok(());
    }
    let new = Parameter::new(&autograd::no_grad(|| make(p))?)?;
    new.requires_grad_(p.requires_grad())?;
    let old = std::mem::replace(p, new.clone());
    made.insert(old.id(), (old.tensor().clone(), new));
    Ok(())
}

/// A module that takes a tensor and gives a tensor.
///
/// ```
/// use straightline::nn::{Layer, Linear, Tanh};
/// use straightline::{Tensor, nn::Module};
/// let layers: Vec<Box<dyn Layer>> = vec![Box::new(Linear::new(2, 2)?), Box::new(Tanh)];
/// let mut x = Tensor::ones([1, 2])?;
/// for layer in &layers {
///     x = layer.forward(&x)?;
/// }
/// assert_eq!(layers.parameters().len(), 2);
/// # Ok::<(), straightline::Error>(())
/// ```
pub trait Layer: Module {
    /// What the layer makes of a tensor.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;
}

impl<L: Layer + ?Sized> Layer for Box<L> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (**self).forward(x)
    }
}

/// A leaf of a module.
#[derive(Clone, Copy, Debug)]
pub enum Leaf<'a> {
    /// What is trained.
    Parameter(&'a Parameter),
    /// What is kept.
    Buffer(&'a Buffer),
}

/// A leaf of a module that may be changed.
#[derive(Debug)]
pub enum LeafMut<'a> {
    /// What is trained.
    Parameter(&'a mut Parameter),
    /// What is kept.
    Buffer(&'a mut Buffer),
    /// Whether a module is in training mode.
    Training(&'a mut bool),
}

/// Goes through a module: knows the name of where it is.
pub struct Visitor<'a, 'f> {
    path: String,
    see: &'f mut dyn FnMut(&str, Leaf<'a>),
}

impl<'a, 'f> Visitor<'a, 'f> {
    /// One that tells a function of every leaf and its name.
    ///
    /// ```
    /// use straightline::nn::{Leaf, Linear, Module, Visitor};
    /// let (layer, mut seen) = (Linear::new(2, 2)?, Vec::new());
    /// layer.visit(&mut Visitor::new(&mut |name, leaf| seen.push((name.to_string(), matches!(leaf, Leaf::Parameter(_))))));
    /// assert_eq!(seen, [("weight".to_string(), true), ("bias".to_string(), true)]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn new(see: &'f mut dyn FnMut(&str, Leaf<'a>)) -> Visitor<'a, 'f> {
        Visitor { path: String::new(), see }
    }

    /// Goes into a part of the module; an empty name adds no level.
    pub fn child<M: Module + ?Sized>(&mut self, name: &str, part: &'a M) {
        let length = self.path.len();
        if !name.is_empty() {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
        }
        part.visit(self);
        self.path.truncate(length);
    }

    fn leaf(&mut self, leaf: Leaf<'a>) {
        (self.see)(&self.path, leaf);
    }
}

/// Goes through a module and may change it.
pub struct VisitorMut<'f> {
    see: &'f mut dyn FnMut(LeafMut<'_>),
}

impl<'f> VisitorMut<'f> {
    pub(super) fn new(see: &'f mut dyn FnMut(LeafMut<'_>)) -> VisitorMut<'f> {
        VisitorMut { see }
    }

    /// Goes into a part of the module.
    pub fn child<M: Module + ?Sized>(&mut self, part: &mut M) {
        part.visit_mut(self);
    }

    /// Shows the module's training flag.
    pub fn training(&mut self, flag: &mut impl TrainingFlag) {
        let before = flag.is_on();
        let mut on = before;
        (self.see)(LeafMut::Training(&mut on));
        if on != before {
            flag.set(on);
        }
    }

    fn leaf(&mut self, leaf: LeafMut<'_>) {
        (self.see)(leaf);
    }
}

impl Module for Parameter {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a, '_>) {
        visitor.leaf(Leaf::Parameter(self));
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        visitor.leaf(LeafMut::Parameter(self));
    }
}

impl Module for Buffer {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a, '_>) {
        visitor.leaf(Leaf::Buffer(self));
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        visitor.leaf(LeafMut::Buffer(self));
    }
}

/// The type's name without path and parameters.
pub(super) fn type_name<M: ?Sized>() -> String {
    let full = std::any::type_name::<M>();
    let plain = full.split('<').next().unwrap_or(full);
    plain.rsplit("::").next().unwrap_or(plain).to_owned()
}

/// The leaves that a choice finds a tensor in, each tensor once.
fn named<M: Module + ?Sized>(
    module: &M,
    choose: impl for<'l> Fn(Leaf<'l>) -> Option<&'l Tensor>,
) -> Vec<(String, Tensor)> {
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    module.visit(&mut Visitor::new(&mut |name, leaf| {
        if let Some(t) = choose(leaf)
            && seen.insert(t.id())
        {
            found.push((name.to_owned(), t.clone()));
        }
    }));
    found
}

/// What a state dict consists of, under all names.
fn entries<M: Module + ?Sized>(module: &M) -> Vec<(String, Tensor)> {
    let mut found = Vec::new();
    module.visit(&mut Visitor::new(&mut |name, leaf| match leaf {
        Leaf::Parameter(p) => found.push((name.to_owned(), p.tensor().clone())),
        Leaf::Buffer(b) if b.is_saved() => found.push((name.to_owned(), b.tensor().clone())),
        Leaf::Buffer(_) => {}
    }));
    found
}
