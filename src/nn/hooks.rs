//! A layer with hooks: functions that see what goes in and out, forwards and backwards.

use super::module::{Layer, Module, Visitor, VisitorMut};
use crate::autograd::{HookHandle, is_grad_enabled};
use crate::error::{Error, Result};
use crate::modes::outside;
use crate::tensor::Tensor;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Pre = Arc<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync>;
type Post = Arc<dyn Fn(&Tensor, &Tensor) -> Result<Option<Tensor>> + Send + Sync>;
type Back = Arc<dyn Fn(Option<&Tensor>, Option<&Tensor>) -> Result<Option<Tensor>> + Send + Sync>;
type BackPre = Arc<dyn Fn(Option<&Tensor>) -> Result<Option<Tensor>> + Send + Sync>;

/// A layer with hooks, in the place of the layer: what PyTorch's `register_forward_pre_hook`,
/// `register_forward_hook`, `register_full_backward_pre_hook` and `register_full_backward_hook` add
/// to a module. Names of parameters stay what they were.
///
/// Hooks of a kind run in the order in which they were registered, and each sees what those before
/// it have made. A clone has the same hooks. A compiled function runs them as it is captured, as
/// all Rust code, and is captured anew where some were added or removed.
///
/// ```
/// use straightline::nn::{Hooked, Layer, Linear, Module, Relu, Sequential};
/// use straightline::Tensor;
/// use std::sync::{Arc, Mutex};
/// let first = Hooked::new(Linear::new(2, 3)?);
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let inside = seen.clone();
/// let hook = first.register_forward_hook(move |input, output| {
///     inside.lock().unwrap().push((input.sizes().to_vec(), output.sizes().to_vec()));
///     Ok(None)
/// });
/// let net = Sequential::new().add(first).add(Relu);
/// net.forward(&Tensor::ones([4, 2])?)?;
/// hook.remove();
/// net.forward(&Tensor::ones([4, 2])?)?;
/// assert_eq!(*seen.lock().unwrap(), [(vec![4, 2], vec![4, 3])]);
/// assert_eq!(net.named_parameters()[0].0, "0.weight");
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone)]
pub struct Hooked<L> {
    layer: L,
    hooks: Arc<Mutex<Hooks>>,
}

#[derive(Default)]
struct Hooks {
    pre: Vec<(u64, Pre)>,
    post: Vec<(u64, Post)>,
    back_pre: Vec<(u64, BackPre)>,
    back: Vec<(u64, Back)>,
    /// Whether hooks are still what they are; a new one where they change.
    current: Current,
}

struct Current(Arc<AtomicBool>);

impl Default for Current {
    fn default() -> Self {
        Current(Arc::new(AtomicBool::new(true)))
    }
}

static IDS: AtomicU64 = AtomicU64::new(0);

fn lock(hooks: &Mutex<Hooks>) -> MutexGuard<'_, Hooks> {
    hooks.lock().unwrap_or_else(PoisonError::into_inner)
}

fn functions<F: Clone>(list: &[(u64, F)]) -> Vec<F> {
    list.iter().map(|(_, f)| f.clone()).collect()
}

impl<L> Hooked<L> {
    /// A layer without hooks yet.
    pub fn new(layer: L) -> Hooked<L> {
        Hooked { layer, hooks: Arc::default() }
    }

    fn add(&self, into: impl FnOnce(&mut Hooks, u64)) -> HookHandle {
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let change = |hooks: &mut Hooks| {
            let before = std::mem::take(&mut hooks.current);
            before.0.store(false, Ordering::Relaxed);
        };
        {
            let mut hooks = lock(&self.hooks);
            change(&mut hooks);
            into(&mut hooks, id);
        }
        let hooks = Arc::downgrade(&self.hooks);
        HookHandle::removed_by(move || {
            let Some(hooks) = hooks.upgrade() else { return };
            let mut hooks = lock(&hooks);
            change(&mut hooks);
            hooks.pre.retain(|(other, _)| *other != id);
            hooks.post.retain(|(other, _)| *other != id);
            hooks.back_pre.retain(|(other, _)| *other != id);
            hooks.back.retain(|(other, _)| *other != id);
        })
    }

    /// Runs `hook` on the input before the layer; what it gives takes the input's place.
    ///
    /// ```
    /// use straightline::nn::{Hooked, Layer, Relu};
    /// use straightline::tensor;
    /// let layer = Hooked::new(Relu);
    /// layer.register_forward_pre_hook(|x| x.neg().map(Some));
    /// assert_eq!(layer.forward(&tensor([1.0, -2.0])?)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn register_forward_pre_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> HookHandle {
        self.add(|hooks, id| hooks.pre.push((id, Arc::new(hook))))
    }

    /// Runs `hook` on input and output after the layer; what it gives takes the output's place. The
    /// input is what hooks before the layer have made of it.
    ///
    /// ```
    /// use straightline::nn::{Hooked, Layer, Relu};
    /// use straightline::tensor;
    /// let layer = Hooked::new(Relu);
    /// layer.register_forward_hook(|input, output| output.sub(input).map(Some));
    /// assert_eq!(layer.forward(&tensor([1.0, -2.0])?)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn register_forward_hook(
        &self,
        hook: impl Fn(&Tensor, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> HookHandle {
        self.add(|hooks, id| hooks.post.push((id, Arc::new(hook))))
    }

    /// Runs `hook` on the gradient of the output before it goes through the layer; what it gives
    /// takes the gradient's place.
    ///
    /// ```
    /// use straightline::nn::{Hooked, Layer, Relu};
    /// use straightline::tensor;
    /// let layer = Hooked::new(Relu);
    /// layer.register_full_backward_pre_hook(|grad| grad.map(|g| g.mul(10)).transpose());
    /// let x = tensor([1.0, -2.0])?.requires_grad_(true)?;
    /// layer.forward(&x)?.sum()?.backward()?;
    /// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [10.0, 0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn register_full_backward_pre_hook(
        &self,
        hook: impl Fn(Option<&Tensor>) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> HookHandle {
        self.add(|hooks, id| hooks.back_pre.push((id, Arc::new(hook))))
    }

    /// Runs `hook` on the gradients of input and output, as soon as both are there; what it gives
    /// takes the place of the input's. An input that wants no gradient has none: the hook runs as
    /// the output's gradient arrives, and gives nothing.
    ///
    /// As in PyTorch, the layer works on views of its input and gives a view of its output while
    /// there is such a hook, which must not be written in place.
    ///
    /// ```
    /// use straightline::nn::{Hooked, Layer, Relu};
    /// use straightline::tensor;
    /// let layer = Hooked::new(Relu);
    /// layer.register_full_backward_hook(|input, output| {
    ///     assert_eq!(output.unwrap().to_vec::<f32>()?, [1.0, 1.0]);
    ///     input.map(|g| g.neg()).transpose()
    /// });
    /// let x = tensor([1.0, -2.0])?.requires_grad_(true)?;
    /// layer.forward(&x)?.sum()?.backward()?;
    /// assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [-1.0, 0.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn register_full_backward_hook(
        &self,
        hook: impl Fn(Option<&Tensor>, Option<&Tensor>) -> Result<Option<Tensor>>
        + Send
        + Sync
        + 'static,
    ) -> HookHandle {
        self.add(|hooks, id| hooks.back.push((id, Arc::new(hook))))
    }

    /// The layer alone.
    pub fn into_inner(self) -> L {
        self.layer
    }
}

impl<L> Deref for Hooked<L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.layer
    }
}

impl<L> DerefMut for Hooked<L> {
    fn deref_mut(&mut self) -> &mut L {
        &mut self.layer
    }
}

impl<L: fmt::Debug> fmt::Debug for Hooked<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hooked").field(&self.layer).finish()
    }
}

impl<L: Module> Module for Hooked<L> {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'a, '_>) {
        visitor.child("", &self.layer);
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        visitor.child(&mut self.layer);
    }
}

impl<L: Layer> Layer for Hooked<L> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (pre, post, back_pre, back) = {
            let hooks = lock(&self.hooks);
            outside::asks_flag(
                &hooks.current.0,
                true,
                ["the hooks of a layer are others", "the hooks of a layer are what they were"],
            );
            let (forward, backward) = (&hooks.pre, &hooks.back_pre);
            (
                functions(forward),
                functions(&hooks.post),
                functions(backward),
                functions(&hooks.back),
            )
        };
        let mut x = x.clone();
        for hook in pre {
            x = hook(&x)?.unwrap_or(x);
        }
        let backward = Backward::new(back_pre, back);
        let x = backward.enter(&x)?;
        let mut y = self.layer.forward(&x)?;
        for hook in post {
            y = hook(&x, &y)?.unwrap_or(y);
        }
        backward.leave(&x, &y)
    }
}

/// The backward hooks of one call.
struct Backward {
    before: Vec<BackPre>,
    after: Arc<Vec<Back>>,
    /// The gradient of the output, until that of the input is there.
    output: Arc<Mutex<Option<Tensor>>>,
}

impl Backward {
    fn new(before: Vec<BackPre>, after: Vec<Back>) -> Backward {
        Backward { before, after: Arc::new(after), output: Arc::default() }
    }

    /// A view of a tensor with a node of its own.
    fn view(&self, t: &Tensor) -> Result<Option<Tensor>> {
        let hooked = !(self.before.is_empty() && self.after.is_empty());
        let wanted = hooked && is_grad_enabled() && t.requires_grad();
        wanted.then(|| t.view_as(t)).transpose()
    }

    /// What the layer gets.
    fn enter(&self, x: &Tensor) -> Result<Tensor> {
        let Some(view) = self.view(x)? else { return Ok(x.clone()) };
        let node = view.grad_fn().ok_or_else(lost)?;
        let (hooks, output) = (self.after.clone(), self.output.clone());
        node.register_prehook(move |grads| {
            let output = output.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut grad = grads.first().cloned().flatten();
            for hook in hooks.iter() {
                grad = hook(grad.as_ref(), output.as_ref())?.or(grad);
            }
            Ok(Some(vec![grad]))
        });
        Ok(view)
    }

    /// What the caller gets.
    fn leave(self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let Some(view) = self.view(y)? else { return Ok(y.clone()) };
        let node = view.grad_fn().ok_or_else(lost)?;
        let Backward { before, after, output } = self;
        let alone = !x.requires_grad();
        node.register_prehook(move |grads| {
            let mut grad = grads.first().cloned().flatten();
            for hook in &before {
                grad = hook(grad.as_ref())?.or(grad);
            }
            if alone {
                for hook in after.iter() {
                    if hook(None, grad.as_ref())?.is_some() {
                        return Err(Error::runtime(
                            "Backward hooks where the input of the layer wants no gradient must return nothing",
                        ));
                    }
                }
            } else {
                *output.lock().unwrap_or_else(PoisonError::into_inner) = grad.clone();
            }
            Ok(Some(vec![grad]))
        });
        Ok(view)
    }
}

fn lost() -> Error {
    Error::runtime("a view of a tensor that wants a gradient has no node")
}
