//! The rows of the generated table of operators, and how they become registrations.

use crate::dispatch::{DispatchKey, IntoKernel, Kernel, Library};
use crate::error::Result;
use crate::ops::forms::structured;
use straightline_catalog::entry::Entry;

/// A key, and what makes the kernel there.
type AtKey = (DispatchKey, fn(&Entry) -> Kernel);

/// What one entry of the catalogue registers.
///
/// A table that a loop walks, not a function of thousands of calls: such a function took the
/// compiler longer than all kernels of a family.
pub(crate) struct Registered {
    pub(crate) entry: &'static Entry,
    pub(crate) kernels: &'static [AtKey],
}

impl Registered {
    /// Defines the operator, unless another entry does, and registers its kernels.
    pub(crate) fn register(&self, library: &mut Library) -> Result<()> {
        let entry = self.entry;
        library.at(entry.file, entry.line);
        if entry.declares {
            library.declare(entry.op)?;
        }
        structured::register(library, entry)?;
        for (key, kernel) in self.kernels {
            library.impl_at(entry.op.unqualified(), *key, kernel(entry))?;
        }
        Ok(())
    }
}

/// A kernel of the table.
pub(crate) fn kernel<M>(f: impl IntoKernel<M>) -> Kernel {
    f.into_kernel()
}
