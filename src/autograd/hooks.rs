//! Hooks: what users let run at tensors, nodes and saved values.

use super::error::AutogradError;
use super::grad_fn::GradFn;
use super::leaf;

use super::view;
use crate::error::Result;
use crate::modes::outside;
use crate::tensor::Tensor;
use crate::tensor::node::{Edge, Node};
use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What a branch of a captured function has not.
const HOOK: &str = "a hook";

static IDS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn new_id() -> u64 {
    IDS.fetch_add(1, Ordering::Relaxed)
}

enum At {
    Leaf(Tensor),
    After(Tensor),
    Node(Arc<Node>),
    Several(Vec<HookHandle>),
    /// What takes it away.
    Elsewhere(Box<dyn FnOnce() + Send>),
}

/// A registered hook. It stays when the handle is dropped; [`HookHandle::remove`] takes it away.
pub struct HookHandle {
    id: u64,
    at: At,
}

impl std::fmt::Debug for HookHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HookHandle({})", self.id)
    }
}

impl HookHandle {
    /// The handle of several hooks that are one.
    pub(super) fn of_several(all: Vec<HookHandle>) -> HookHandle {
        HookHandle { id: new_id(), at: At::Several(all) }
    }

    /// The handle of a hook that this function takes away.
    pub(crate) fn removed_by(remove: impl FnOnce() + Send + 'static) -> HookHandle {
        HookHandle { id: new_id(), at: At::Elsewhere(Box::new(remove)) }
    }

    /// Takes the hook away.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0])?.requires_grad_(true)?;
    /// let hook = x.register_hook(|g| g.map(|g| g.mul(10)).transpose())?;
    /// hook.remove();
    /// x.sum()?.backward()?;
    /// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn remove(self) {
        let id = self.id;
        match self.at {
            At::Elsewhere(remove) => remove(),
            At::Several(all) => all.into_iter().for_each(HookHandle::remove),
            At::Leaf(t) => t.history().rest().hooks.retain(|(other, _)| *other != id),
            At::After(t) => t.history().rest().after.retain(|(other, _)| *other != id),
            At::Node(node) => {
                if let Some(mut hooks) = node.hooks() {
                    hooks.tensor.retain(|(other, ..)| *other != id);
                    hooks.before.retain(|(other, _)| *other != id);
                    hooks.after.retain(|(other, _)| *other != id);
                }
            }
        }
    }
}

/// Puts the gradient of an edge where the tensor finds it.
pub(crate) fn retain(edge: &Edge, cell: Arc<Mutex<Option<Tensor>>>) {
    leaf::node_of(edge).hooks_mut().retained.push((edge.nr, cell));
}

impl Tensor {
    /// Runs `hook` on the tensor's gradient in each backward pass, once, when all of it is there;
    /// what it gives replaces the gradient. It gets `None` where no gradient arrives. A hook of a
    /// tensor that is written afterwards is one of the old value.
    ///
    /// # Errors
    ///
    /// The tensor wants no gradient.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0, 2.0])?.requires_grad_(true)?;
    /// let y = x.mul(3)?;
    /// y.register_hook(|g| g.map(|g| g.mul(10)).transpose())?;
    /// y.sum()?.backward()?;
    /// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [30.0, 30.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn register_hook(
        &self,
        hook: impl Fn(Option<&Tensor>) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        outside::check_in_subgraph(HOOK)?;
        let id = new_id();
        let hook = Arc::new(hook);
        match view::grad_fn(self)? {
            Some(edge) => {
                let node = leaf::node_of(&edge);
                node.hooks_mut().tensor.push((id, edge.nr, hook));
                Ok(HookHandle { id, at: At::Node(node) })
            }
            None if self.requires_grad() => {
                self.history().rest().hooks.push((id, hook));
                Ok(HookHandle { id, at: At::Leaf(self.clone()) })
            }
            None => Err(AutogradError::Setting(
                "cannot register a hook on a tensor that doesn't require gradient".into(),
            )
            .into()),
        }
    }

    /// Runs `hook` on a leaf each time that a gradient has been added to it: an optimiser's step
    /// there frees each gradient as soon as it is complete. Several hooks run in the order in which
    /// they were registered.
    ///
    /// # Errors
    ///
    /// The tensor is no leaf that wants a gradient.
    ///
    /// ```
    /// use straightline::{autograd::no_grad, tensor};
    /// let w = tensor([1.0])?.requires_grad_(true)?;
    /// w.register_post_accumulate_grad_hook(|w| {
    ///     let grad = w.grad().expect("it was just added");
    ///     no_grad(|| w.sub_(&grad))?;
    ///     w.set_grad(None)
    /// })?;
    /// w.mul(0.25)?.sum()?.backward()?;
    /// assert_eq!(w.to_vec::<f32>()?, [0.75]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn register_post_accumulate_grad_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        outside::check_in_subgraph(HOOK)?;
        let refuse = |what: &str| Err(AutogradError::Setting(what.into()).into());
        if !self.requires_grad() {
            return refuse("cannot register a hook on a tensor that doesn't require gradient");
        }
        if !self.is_leaf() {
            return refuse("post accumulate grad hooks cannot be registered on non-leaf tensors");
        }
        let id = new_id();
        self.history().rest().after.push((id, Arc::new(hook)));
        Ok(HookHandle { id, at: At::After(self.clone()) })
    }

    /// Lets a tensor that is no leaf keep its gradient, as leaves do.
    ///
    /// # Errors
    ///
    /// The tensor wants no gradient.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([1.0])?.requires_grad_(true)?;
    /// let y = x.mul(2)?;
    /// y.retain_grad()?;
    /// y.mul(5)?.sum()?.backward()?;
    /// assert_eq!(y.grad().unwrap().to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn retain_grad(&self) -> Result<()> {
        outside::check_in_subgraph("`retain_grad`")?;
        if !self.requires_grad() {
            return Err(AutogradError::Setting(
                "can't retain_grad on Tensor that has requires_grad=False".into(),
            )
            .into());
        }
        let Some(edge) = view::grad_fn(self)? else { return Ok(()) };
        let cell = {
            let mut state = self.history();
            let rest = state.rest();
            if std::mem::replace(&mut rest.retains, true) {
                return Ok(());
            }
            rest.grad.clone()
        };
        retain(&edge, cell);
        Ok(())
    }

    /// Whether [`Tensor::retain_grad`] was asked of a tensor that is no leaf.
    pub fn retains_grad(&self) -> bool {
        self.history().rest.as_ref().is_some_and(|r| r.retains)
    }
}

/// A hook of a tensor's gradient.
type TensorHook = Arc<dyn Fn(Option<&Tensor>) -> Result<Option<Tensor>> + Send + Sync>;

/// The hooks of a leaf's gradient.
pub(crate) fn of_leaf(t: &Tensor) -> Vec<TensorHook> {
    crate::modes::outside::meets_leaf(t);
    match &t.history().rest {
        Some(rest) => rest.hooks.iter().map(|(_, hook)| hook.clone()).collect(),
        None => Vec::new(),
    }
}

/// A function of a user's that sees the gradients of a node's inputs before it runs, or those that
/// it gave together with what it was given.
impl GradFn {
    /// Runs `hook` before the node, on the gradients that it is about to get; what it gives
    /// replaces them.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([2.0])?.requires_grad_(true)?;
    /// let y = x.mul(3)?;
    /// y.grad_fn().unwrap().register_prehook(|grads| {
    ///     Ok(Some(vec![grads[0].as_ref().map(|g| g.mul(2)).transpose()?]))
    /// });
    /// y.sum()?.backward()?;
    /// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [6.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn register_prehook(
        &self,
        hook: impl Fn(&[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync + 'static,
    ) -> HookHandle {
        let id = new_id();
        self.0.hooks_mut().before.push((id, Arc::new(hook)));
        HookHandle { id, at: At::Node(self.0.clone()) }
    }

    /// Runs `hook` after the node, on the gradients that it gave and those that it got; what it
    /// gives replaces the former.
    ///
    /// ```
    /// use straightline::tensor;
    /// let x = tensor([2.0])?.requires_grad_(true)?;
    /// let y = x.mul(&tensor([3.0])?)?;
    /// y.grad_fn().unwrap().register_hook(|given, got| {
    ///     assert_eq!((given.len(), got.len()), (2, 1));
    ///     Ok(None)
    /// });
    /// y.sum()?.backward()?;
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn register_hook(
        &self,
        hook: impl Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>>
        + Send
        + Sync
        + 'static,
    ) -> HookHandle {
        // the capture ends, whatever becomes of the error
        let _ = outside::check_in_subgraph(HOOK);
        let id = new_id();
        self.0.hooks_mut().after.push((id, Arc::new(hook)));
        HookHandle { id, at: At::Node(self.0.clone()) }
    }
}

// ---- saved tensors ----------------------------------------------------------------------------

type Anything = Box<dyn Any + Send + Sync>;
type Pack = dyn Fn(&Tensor) -> Result<Anything> + Send + Sync;
type Unpack = dyn Fn(&(dyn Any + Send + Sync)) -> Result<Tensor> + Send + Sync;

#[derive(Clone)]
struct Pair {
    pack: Arc<Pack>,
    unpack: Arc<Unpack>,
}

thread_local! {
    static PAIRS: RefCell<Vec<Pair>> = const { RefCell::new(Vec::new()) };
}

/// What a hook made of a saved tensor.
pub(crate) struct Packed {
    what: Anything,
    unpack: Arc<Unpack>,
}

impl Packed {
    pub(crate) fn unpack(&self) -> Result<Tensor> {
        (self.unpack)(&*self.what)
    }
}

/// What the innermost hook makes of a tensor that is saved.
pub(crate) fn pack(t: &Tensor) -> Result<Option<Packed>> {
    let pair = PAIRS.with_borrow(|pairs| pairs.last().cloned());
    let Some(pair) = pair else { return Ok(None) };
    // numbers are no tensors of the user's
    if t.is_wrapped_number() {
        return Ok(None);
    }
    let version = t.writes();
    let _grad = super::mode::GradGuard::set(false);
    let _above = crate::dispatch::AboveAutograd::enter();
    let what = (pair.pack)(t)?;
    if t.writes() != version {
        return Err(AutogradError::Setting(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not be \
             modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you need to \
             perform in-place operations on the input to a pack hook."
                .into(),
        )
        .into());
    }
    Ok(Some(Packed { what, unpack: pair.unpack.clone() }))
}

/// Runs `f`, where each tensor that is saved for a gradient goes through `pack`, and through
/// `unpack` when the gradient needs it: to keep it elsewhere, in fewer bits, or to compute it
/// again. Hooks of an inner call replace those of an outer one.
///
/// ```
/// use straightline::{autograd::saved_tensors_hooks, tensor};
/// let x = tensor([3.0])?.requires_grad_(true)?;
/// let y = saved_tensors_hooks(|t| t.mul(10), |t| Ok(t.clone()), || x.mul(&x))?;
/// y.sum()?.backward()?;
/// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [60.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn saved_tensors_hooks<P: Any + Send + Sync, R>(
    pack: impl Fn(&Tensor) -> Result<P> + Send + Sync + 'static,
    unpack: impl Fn(&P) -> Result<Tensor> + Send + Sync + 'static,
    f: impl FnOnce() -> R,
) -> R {
    struct Scope;
    impl Drop for Scope {
        fn drop(&mut self) {
            let gone = PAIRS.with_borrow_mut(Vec::pop);
            drop(gone);
        }
    }
    let pair = Pair {
        pack: Arc::new(move |t| Ok(Box::new(pack(t)?) as Anything)),
        unpack: Arc::new(move |what| match what.downcast_ref::<P>() {
            Some(packed) => unpack(packed),
            None => Err(crate::Error::runtime("a saved value is not what was packed")),
        }),
    };
    PAIRS.with_borrow_mut(|pairs| pairs.push(pair));
    let _scope = Scope;
    f()
}
