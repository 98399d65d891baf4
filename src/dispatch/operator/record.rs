//! A registered kernel as the tables hold it.

use crate::dispatch::error::{DispatchError, Site};
use crate::dispatch::kernel::{self, Erased, Kernel};
use crate::dispatch::slots::{Occupant, Standing};
use std::ptr;
use std::sync::{LazyLock, PoisonError};

/// A registered kernel. Records are never freed: a call that loaded one may run while it is
/// deregistered, so what a registration leaves behind stays in the dispatcher's graveyard.
pub(in crate::dispatch) struct Record {
    // what a call reads comes first
    pub(super) unboxed: Option<Erased>,
    pub(super) functor: *const (),
    pub(super) standing: Standing,
    pub(in crate::dispatch) kernel: Kernel,
    pub(in crate::dispatch) site: Site,
}

impl Occupant for Record {
    #[inline(always)]
    fn standing(&self) -> Standing {
        self.standing
    }
}

// SAFETY: the functor is part of `kernel`, which is `Send + Sync` and lives as long as the record.
unsafe impl Send for Record {}
// SAFETY: as above.
unsafe impl Sync for Record {}

impl Record {
    pub(in crate::dispatch) fn new(kernel: Kernel, site: Site) -> &'static Record {
        let standing = match (kernel.is_fallthrough(), kernel.only_records()) {
            (true, _) => Standing::Fallthrough,
            (false, true) => Standing::Recording,
            (false, false) => Standing::Kernel,
        };
        Record::with(kernel, site, standing)
    }

    /// What fills a slot that no registration fills.
    fn nothing(kernel: Kernel) -> &'static Record {
        Record::with(kernel, Site::caller(), Standing::Nothing)
    }

    fn with(kernel: Kernel, site: Site, standing: Standing) -> &'static Record {
        let (unboxed, functor) = match kernel.unboxed() {
            Some((f, functor)) => (Some(f), functor),
            None => (None, ptr::null()),
        };
        Box::leak(Box::new(Record { unboxed, functor, standing, kernel, site }))
    }
}

pub(super) static MISSING: LazyLock<&'static Record> = LazyLock::new(|| {
    Record::nothing(Kernel::boxed(|op, keys, stack| {
        // if arguments are missing or wrong, the keys mean nothing
        if let Some(schema) = op.schema() {
            kernel::check_tensors(op, schema, stack)?;
        }
        if let Some(gone) = op.gone() {
            return Err(gone.into());
        }
        let missing = op.missing_kernel(keys);
        let report = op.0.report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Err(match report {
            Some(report) => report(&missing),
            None => DispatchError::MissingKernel(Box::new(missing)).into(),
        })
    }))
});

pub(super) static AMBIGUOUS: LazyLock<&'static Record> = LazyLock::new(|| {
    Record::nothing(Kernel::boxed(|op, _, _| {
        let op = op.name().to_string();
        Err(DispatchError::AmbiguousAutogradOther { op }.into())
    }))
});
