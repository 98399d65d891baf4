//! Hooks of several tensors at once.
//!
//! Which of the tensors will get a gradient in a pass is known when it begins: the nodes that will
//! run. A pass notes them while there are such hooks at all.

use super::hooks::HookHandle;
use crate::error::Result;
use crate::tensor::Tensor;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// How many hooks of several tensors there are.
static HOOKS: AtomicUsize = AtomicUsize::new(0);

static NAMES: AtomicU64 = AtomicU64::new(0);

/// What a pass of this thread knows for hooks of several tensors.
struct Running {
    /// The nodes that will run, and the leaves: [`Edge::id`](crate::tensor::node::Edge::id).
    expected: HashSet<usize>,
    /// By hook, the gradients that have come, and how many more will.
    arrived: HashMap<u64, Arrived>,
}

struct Arrived {
    grads: Vec<Option<Tensor>>,
    missing: usize,
}

thread_local! {
    static RUNNING: RefCell<Vec<Running>> = const { RefCell::new(Vec::new()) };
}

/// A pass that has noted what will run.
pub(super) struct Noted(());

impl Drop for Noted {
    fn drop(&mut self) {
        let gone = RUNNING.with_borrow_mut(Vec::pop);
        drop(gone);
    }
}

/// Whether passes have to note what will run.
pub(super) fn any() -> bool {
    HOOKS.load(Ordering::Acquire) > 0
}

/// Notes what gradients will arrive at in a pass: nodes, and leaves.
pub(super) fn note(expected: HashSet<usize>) -> Noted {
    RUNNING.with_borrow_mut(|all| all.push(Running { expected, arrived: HashMap::new() }));
    Noted(())
}

/// A tensor of a hook. The hook in the tensor, or in its node, owns the other end of `alive`.
struct Of {
    id: usize,
    alive: Weak<()>,
}

/// What the hooks of the single tensors share.
struct Shared {
    name: u64,
    of: Vec<Of>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        HOOKS.fetch_sub(1, Ordering::Release);
    }
}

impl Shared {
    /// A gradient has come; gives all of them with the last one.
    fn arrive(&self, at: usize, grad: Option<&Tensor>) -> Option<Vec<Option<Tensor>>> {
        RUNNING.with_borrow_mut(|all| {
            let running = all.last_mut()?;
            let expected = &running.expected;
            let arrived = running.arrived.entry(self.name).or_insert_with(|| {
                let comes = |of: &&Of| of.alive.strong_count() > 0 && expected.contains(&of.id);
                let missing = self.of.iter().filter(comes).count();
                Arrived { grads: vec![None; self.of.len()], missing }
            });
            arrived.grads[at] = grad.cloned();
            arrived.missing = arrived.missing.saturating_sub(1);
            match arrived.missing {
                0 => Some(std::mem::take(&mut arrived.grads)),
                _ => None,
            }
        })
    }

    /// Whether this gradient is the first one of the pass.
    fn is_first(&self) -> bool {
        RUNNING.with_borrow_mut(|all| {
            let Some(running) = all.last_mut() else { return false };
            let arrived = Arrived { grads: Vec::new(), missing: 0 };
            running.arrived.insert(self.name, arrived).is_none()
        })
    }
}

/// Puts a hook on each tensor.
fn register(
    tensors: &[Tensor],
    each: impl Fn(&Shared, usize, Option<&Tensor>) -> Result<()> + Clone + Send + Sync + 'static,
) -> Result<HookHandle> {
    let tokens: Vec<Arc<()>> = tensors.iter().map(|_| Arc::new(())).collect();
    let of = tensors.iter().zip(&tokens).map(|(t, token)| {
        let id = t.grad_fn().map_or_else(|| t.id(), |node| node.0.id());
        Of { id, alive: Arc::downgrade(token) }
    });
    let shared = Arc::new(Shared { name: NAMES.fetch_add(1, Ordering::Relaxed), of: of.collect() });
    HOOKS.fetch_add(1, Ordering::Release);
    let mut handles = Vec::new();
    for (at, (t, token)) in tensors.iter().zip(tokens).enumerate() {
        let (shared, each) = (shared.clone(), each.clone());
        let hook = move |g: Option<&Tensor>| {
            // it lives as long as the hook
            let _token = &token;
            each(&shared, at, g).map(|()| None)
        };
        match t.register_hook(hook) {
            Ok(handle) => handles.push(handle),
            Err(e) => {
                handles.into_iter().for_each(HookHandle::remove);
                return Err(e);
            }
        }
    }
    Ok(HookHandle::of_several(handles))
}

/// Runs `hook` once in each backward pass, when the gradients of all of the tensors that get one in
/// this pass are there; those of the others are `None`. PyTorch's
/// `register_multi_grad_hook(mode="all")`.
///
/// # Errors
///
/// One of the tensors wants no gradient.
///
/// ```
/// use straightline::{autograd::register_multi_grad_hook, tensor};
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
/// let (a, b) = (tensor([1.0])?.requires_grad_(true)?, tensor([2.0])?.requires_grad_(true)?);
/// let calls = Arc::new(AtomicUsize::new(0));
/// let seen = calls.clone();
/// let hook = register_multi_grad_hook(&[a.clone(), b.clone()], move |grads| {
///     assert!(grads[0].is_some() && grads[1].is_some());
///     seen.fetch_add(1, Ordering::Relaxed);
///     Ok(())
/// })?;
/// a.mul(&b)?.sum()?.backward()?;
/// assert_eq!(calls.load(Ordering::Relaxed), 1);
/// hook.remove();
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn register_multi_grad_hook(
    tensors: &[Tensor],
    hook: impl Fn(&[Option<Tensor>]) -> Result<()> + Send + Sync + 'static,
) -> Result<HookHandle> {
    let hook = Arc::new(hook);
    register(tensors, move |shared, at, grad| match shared.arrive(at, grad) {
        Some(grads) => hook(&grads),
        None => Ok(()),
    })
}

/// Runs `hook` once in each backward pass, on the first gradient that one of the tensors gets.
/// PyTorch's `register_multi_grad_hook(mode="any")`.
///
/// # Errors
///
/// One of the tensors wants no gradient.
///
/// ```
/// use straightline::{autograd::register_any_grad_hook, tensor};
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
/// let (a, b) = (tensor([1.0])?.requires_grad_(true)?, tensor([2.0])?.requires_grad_(true)?);
/// let calls = Arc::new(AtomicUsize::new(0));
/// let seen = calls.clone();
/// register_any_grad_hook(&[a.clone(), b.clone()], move |_| {
///     seen.fetch_add(1, Ordering::Relaxed);
///     Ok(())
/// })?;
/// a.mul(&b)?.sum()?.backward()?;
/// assert_eq!(calls.load(Ordering::Relaxed), 1);
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn register_any_grad_hook(
    tensors: &[Tensor],
    hook: impl Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
) -> Result<HookHandle> {
    let hook = Arc::new(hook);
    register(tensors, move |shared, _, grad| match grad {
        Some(grad) if shared.is_first() => hook(grad),
        _ => Ok(()),
    })
}
