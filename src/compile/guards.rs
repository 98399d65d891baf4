//! What must be true of a call for a variant to serve it.

use crate::dispatch::{DispatchKeySet, TlsKeySets};
use crate::modes::autocast;
use crate::tensor::Tensor;
use std::fmt;
use straightline_passes::ir::graph::TensorMeta;

/// Everything that capture took for granted.
#[derive(Clone, Debug)]
pub(super) struct Guards {
    inputs: Vec<InputGuard>,
    tls: TlsKeySets,
    /// The low precisions, where autocast was on.
    autocast: u64,
    /// Inputs that the function writes: nothing else may share their memory.
    written: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq)]
struct InputGuard {
    meta: TensorMeta,
    keys: DispatchKeySet,
    requires_grad: bool,
    wrapped_number: bool,
}

impl InputGuard {
    fn of(t: &Tensor) -> InputGuard {
        InputGuard {
            meta: t.meta(),
            keys: t.key_set(),
            requires_grad: t.requires_grad(),
            wrapped_number: t.is_wrapped_number(),
        }
    }

    #[inline]
    fn holds(&self, t: &Tensor) -> bool {
        self.meta.dtype == t.dtype()
            && self.meta.device == t.device()
            && self.meta.sizes.as_slice() == t.sizes()
            && self.meta.strides.as_slice() == t.strides()
            && self.keys == t.key_set()
            && self.requires_grad == t.requires_grad()
            && self.wrapped_number == t.is_wrapped_number()
    }
}

/// Why a variant did not serve a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardMiss {
    /// The variant.
    pub variant: usize,
    /// What differs, in a sentence.
    pub reason: String,
}

impl fmt::Display for GuardMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "variant {} does not fit: {}", self.variant, self.reason)
    }
}

impl Guards {
    pub(super) fn new(inputs: &[&Tensor], tls: TlsKeySets, written: Vec<usize>) -> Guards {
        Guards {
            inputs: inputs.iter().map(|t| InputGuard::of(t)).collect(),
            tls,
            autocast: autocast::fingerprint(tls),
            written,
        }
    }

    /// Whether the variant serves these inputs on this thread.
    #[inline]
    pub(super) fn hold(&self, inputs: &[&Tensor], tls: TlsKeySets) -> bool {
        self.inputs.len() == inputs.len()
            && self.tls == tls
            && (self.autocast == 0 || self.autocast == autocast::fingerprint(tls))
            && self.inputs.iter().zip(inputs).all(|(g, t)| g.holds(t))
            && (self.written.is_empty() || self.aliased(inputs).is_none())
    }

    /// A written input that shares its memory with another input.
    fn aliased(&self, inputs: &[&Tensor]) -> Option<(usize, usize)> {
        self.written.iter().find_map(|w| {
            (0..inputs.len())
                .find(|i| i != w && inputs[*i].shares_storage_with(inputs[*w]))
                .map(|i| (*w, i))
        })
    }

    /// Why the guards do not hold.
    pub(super) fn explain_miss(&self, inputs: &[&Tensor], tls: TlsKeySets) -> String {
        if self.inputs.len() != inputs.len() {
            return format!("{} tensor inputs, was {}", inputs.len(), self.inputs.len());
        }
        if self.tls != tls {
            return format!(
                "the thread's dispatch keys are +{} -{}, were +{} -{}",
                tls.included, tls.excluded, self.tls.included, self.tls.excluded
            );
        }
        if self.autocast != autocast::fingerprint(tls) {
            return "autocast has another low precision".to_string();
        }
        for (i, (g, t)) in self.inputs.iter().zip(inputs).enumerate() {
            let now = InputGuard::of(t);
            if g.keys != now.keys {
                return format!("input {i} has keys {}, had {}", now.keys, g.keys);
            }
            if g.meta.dtype != now.meta.dtype {
                return format!("input {i} is {}, was {}", now.meta.dtype, g.meta.dtype);
            }
            if g.meta.device != now.meta.device {
                return format!(
                    "input {i} is on {}, was on {}",
                    now.meta.device, g.meta.device
                );
            }
            if g.meta.sizes != now.meta.sizes {
                return format!(
                    "input {i} has sizes {:?}, had {:?}",
                    now.meta.sizes.as_slice(),
                    g.meta.sizes.as_slice()
                );
            }
            if g.meta.strides != now.meta.strides {
                return format!(
                    "input {i} has strides {:?}, had {:?}",
                    now.meta.strides.as_slice(),
                    g.meta.strides.as_slice()
                );
            }
            if g.requires_grad != now.requires_grad {
                return format!(
                    "input {i} has requires_grad={}, was {}",
                    now.requires_grad, g.requires_grad
                );
            }
            if g.wrapped_number != now.wrapped_number {
                return format!("input {i} stands for a bare number, or did");
            }
        }
        match self.aliased(inputs) {
            Some((w, i)) => {
                format!("input {w} is written and shares its memory with input {i}")
            }
            None => "nothing differs".into(),
        }
    }
}

impl fmt::Display for Guards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, g) in self.inputs.iter().enumerate() {
            writeln!(
                f,
                "  input {i}: {}{:?} strides {:?} on {}{}",
                g.meta.dtype,
                g.meta.sizes.as_slice(),
                g.meta.strides.as_slice(),
                g.meta.device,
                if self.written.contains(&i) {
                    ", written: no other input may share its memory"
                } else {
                    ""
                }
            )?;
        }
        writeln!(
            f,
            "  thread: included {}, excluded {}",
            self.tls.included, self.tls.excluded
        )
    }
}
