//! The stack of transforms that a thread is in. The innermost sees a call first.

use crate::autograd::Randomness;
use crate::dispatch::{DispatchKey, DispatchKeySet, ForceKeySetGuard, TlsKeySets, ensure_built_in};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a layer does with calls.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// The tensors that are batched have `size` samples.
    Vmap { size: i64, randomness: Randomness },
    /// Calls are recorded; below, grad mode is what it was outside.
    /// `inference` says that they are in inference mode there.
    Grad { outer: bool, forward: bool, inference: bool },
    /// Calls carry tangents on; below, they do or do not as outside.
    Jvp { forward: bool, inference: bool },
}

/// A transform that runs.
pub(super) struct Layer {
    /// No other layer has or had it.
    pub(super) id: u64,
    /// Its position, from 1.
    pub(super) level: usize,
    pub(super) kind: Kind,
    /// Cleared when it ends; its wrappers know it.
    pub(super) alive: Arc<AtomicBool>,
}

thread_local! {
    static LAYERS: RefCell<Vec<Rc<Layer>>> = const { RefCell::new(Vec::new()) };
}

/// The keys that are included while there are layers.
const KEYS: DispatchKeySet = DispatchKeySet::of(&[
    DispatchKey::FuncTorchDynamicLayerFrontMode,
    DispatchKey::FuncTorchDynamicLayerBackMode,
]);

/// A layer on its thread's stack, until it is dropped.
pub(super) struct Entered {
    pub(super) layer: Rc<Layer>,
    on_this_thread: PhantomData<*const ()>,
}

fn include(on: bool) {
    let now = TlsKeySets::current();
    let included = if on { now.included | KEYS } else { now.included - KEYS };
    TlsKeySets { included, ..now }.apply();
}

/// Puts a layer on the stack.
pub(super) fn enter(kind: Kind) -> Entered {
    static IDS: AtomicU64 = AtomicU64::new(1);
    // the function may call functions of the user's before any operator
    ensure_built_in();
    let layer = LAYERS.with_borrow_mut(|layers| {
        let layer = Rc::new(Layer {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            level: layers.len() + 1,
            kind,
            alive: Arc::new(AtomicBool::new(true)),
        });
        layers.push(layer.clone());
        layer
    });
    include(true);
    Entered { layer, on_this_thread: PhantomData }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.layer.alive.store(false, Ordering::Release);
        let id = self.layer.id;
        let empty = LAYERS.try_with(|layers| {
            let mut layers = layers.borrow_mut();
            layers.retain(|l| l.id != id);
            layers.is_empty()
        });
        if empty == Ok(true) {
            include(false);
        }
    }
}

/// The layer that sees calls first.
pub(super) fn innermost() -> Option<Rc<Layer>> {
    LAYERS.with_borrow(|layers| layers.last().cloned())
}

/// The innermost layer of which something holds.
pub(super) fn find(f: &dyn Fn(&Layer) -> bool) -> Option<Rc<Layer>> {
    LAYERS.with_borrow(|layers| layers.iter().rev().find(|l| f(l)).cloned())
}

/// The layers, outermost first, with their levels.
pub(super) fn all() -> Vec<(usize, Kind)> {
    LAYERS.with_borrow(|layers| layers.iter().map(|l| (l.level, l.kind)).collect())
}

/// Runs `f` without a layer and those above it, under the keys `keys`.
pub(super) fn below<R>(layer: &Layer, keys: TlsKeySets, f: impl FnOnce() -> R) -> R {
    struct PutBack(Vec<Rc<Layer>>);
    impl Drop for PutBack {
        fn drop(&mut self) {
            let taken = std::mem::take(&mut self.0);
            let _ = LAYERS.try_with(|layers| layers.borrow_mut().extend(taken));
        }
    }
    let (taken, empty) = LAYERS.with_borrow_mut(|layers| {
        let at = layers.iter().position(|l| l.id == layer.id).unwrap_or(layers.len());
        let taken = layers.split_off(at);
        (taken, layers.is_empty())
    });
    let _back = PutBack(taken);
    let included = if empty { keys.included - KEYS } else { keys.included | KEYS };
    let _keys = ForceKeySetGuard::new(TlsKeySets { included, ..keys });
    f()
}
