//! Kernels of modes for single operators, those that exist and those to come.

use crate::dispatch::{DispatchKey, Kernel, Library, RegistrationEvent, on_registered};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// For every operator of `aten`, registers the kernels that `kernels` has for its name as soon as
/// it is defined, and takes them back when it goes.
pub(super) fn register(
    kernels: impl Fn(&str) -> Vec<(DispatchKey, Kernel)> + Send + Sync + 'static,
) {
    let held: Mutex<HashMap<String, Vec<Library>>> = Mutex::default();
    let listener = on_registered(move |event| {
        let (op, defined) = match event {
            RegistrationEvent::Defined(op) => (op, true),
            RegistrationEvent::Removed(op) => (op, false),
        };
        if op.name().namespace() != Some("aten") {
            return;
        }
        let full = op.name().to_string();
        let name = full.as_str();
        if !defined {
            // the libraries go after the lock
            let gone = held.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
            return drop(gone);
        }
        for (key, kernel) in kernels(name) {
            let registered = Library::implementation("aten", key).and_then(|mut library| {
                library.impl_(name, kernel)?;
                Ok(library)
            });
            match registered {
                Ok(library) => held
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .entry(name.to_string())
                    .or_default()
                    .push(library),
                // an operator from outside has this name and other types, and gets no kernel
                Err(e) => tracing::warn!("no kernel for `{full}` at {key}: {e}"),
            }
        }
    });
    // for the life of the process
    std::mem::forget(listener);
}
