//! The rows of the generated table of operators, and how they become registrations.

use super::structured;
use super::variants::OutRules;
use crate::dispatch::{DispatchKey, IntoKernel, Kernel, Library};
use crate::error::Result;

/// The variants that an `out` variant serves, and the rules of its `out`.
type Served = (Names, OutRules);
/// A key, and what makes the kernel there.
type AtKey = (DispatchKey, fn() -> Kernel);
type Names = &'static [&'static str];

/// What one entry of the yaml files registers.
///
/// A table that a loop walks, not a function of thousands of calls: such a function took the
/// compiler longer than all kernels of a family.
pub(crate) struct Registered {
    /// The file of the entry and the line in it.
    pub(crate) at: (&'static str, u32),
    pub(crate) name: &'static str,
    /// The schema and its tags, unless another entry declares the operator.
    pub(crate) schema: Option<(&'static str, Names)>,
    /// Of an `out` variant: the variants that it serves.
    pub(crate) structured: Option<Served>,
    pub(crate) kernels: &'static [AtKey],
}

impl Registered {
    /// Defines the operator, unless another entry does, and registers its kernels.
    pub(crate) fn register(&self, library: &mut Library) -> Result<()> {
        let (file, line) = self.at;
        library.at(file, line);
        if let Some((schema, tags)) = self.schema {
            library.def_with_tags(schema, tags)?;
        }
        if let Some((of, rules)) = self.structured {
            structured::register(library, self.name, of, rules)?;
        }
        for (key, kernel) in self.kernels {
            library.impl_at(self.name, *key, kernel())?;
        }
        Ok(())
    }
}

/// A kernel of the table.
pub(crate) fn kernel<M>(f: impl IntoKernel<M>) -> Kernel {
    f.into_kernel()
}
