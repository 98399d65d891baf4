//! Listeners that are told when operators are defined and removed.

use super::dispatcher::dispatcher;
use super::operator::OperatorHandle;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What happened to an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegistrationEvent {
    /// It has a schema now. Kernels may have been registered before, and more may follow.
    Defined(OperatorHandle),
    /// It is about to lose its schema, which can still be read.
    Removed(OperatorHandle),
}

pub(super) type Listener = dyn Fn(RegistrationEvent) + Send + Sync;
pub(super) type Listeners = Vec<Arc<Listener>>;

/// Tells all listeners; the dispatcher's lock is not held, so that they may call and register.
pub(super) fn tell(listeners: &Listeners, event: RegistrationEvent) {
    for listener in listeners {
        // a panic must not escape: the registration still has to be recorded, and libraries are
        // dropped during panics too
        if catch_unwind(AssertUnwindSafe(|| listener(event))).is_err() {
            tracing::error!("a listener panicked when it was told {event:?}");
        }
    }
}

/// Ends the listening of [`on_registered`] when dropped.
#[must_use = "listening ends where the guard is dropped"]
pub struct ListenerGuard(Arc<Listener>);

impl fmt::Debug for ListenerGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListenerGuard")
    }
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        dispatcher().remove_listener(&self.0);
    }
}

/// Calls `listener` for every operator that is defined, existing ones included, and for every one
/// that is removed. Kernels are not reported. A listener may call operators and register. A later
/// panic of a listener is logged, and does not stop the registration that it was told of.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use straightline::dispatch::{Library, RegistrationEvent, on_registered};
///
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let log = seen.clone();
/// let guard = on_registered(move |event| {
///     if let RegistrationEvent::Defined(op) = event {
///         log.lock().expect("no listener panics").push(op.name().to_string());
///     }
/// });
/// // what was there before is told first
/// assert!(seen.lock().unwrap().contains(&"aten::add.Tensor".to_string()));
///
/// let mut lib = Library::new("docs_listener")?;
/// lib.def("f(Tensor x) -> Tensor")?;
/// assert_eq!(seen.lock().unwrap().last().unwrap(), "docs_listener::f");
/// drop(guard);
/// lib.def("g(Tensor x) -> Tensor")?;
/// assert_eq!(seen.lock().unwrap().last().unwrap(), "docs_listener::f");
/// # Ok::<(), straightline::Error>(())
/// ```
pub fn on_registered(
    listener: impl Fn(RegistrationEvent) + Send + Sync + 'static,
) -> ListenerGuard {
    let listener: Arc<Listener> = Arc::new(listener);
    let guard = ListenerGuard(listener.clone());
    for op in dispatcher().add_listener(listener.clone()) {
        listener(RegistrationEvent::Defined(op));
    }
    guard
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::{Library, operator};

    #[test]
    fn registrations_survive_listeners_that_panic() {
        let _guard = on_registered(|event| {
            let (RegistrationEvent::Defined(op) | RegistrationEvent::Removed(op)) = event;
            assert!(op.name().namespace() != Some("t_panicking_listener"));
        });
        let mut lib = Library::new("t_panicking_listener").expect("a new namespace");
        lib.def("f(Tensor x) -> Tensor").expect("it is defined");
        assert!(operator("t_panicking_listener::f").is_ok());
        drop(lib);
        assert!(operator("t_panicking_listener::f").is_err());
    }
}
