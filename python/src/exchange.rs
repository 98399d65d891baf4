//! DLPack's table of C functions, which a type of tensors may have: an argument costs tens of
//! nanoseconds through it, and microseconds through a method of Python's.
//!
//! The table is `__dlpack_c_exchange_api__` of the type, a capsule (DLPack 1.3).

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use straightline::dlpack::{DLManagedTensorVersioned, DLTensor, Version};

/// `DLPackExchangeAPI`, with what this package uses typed.
#[repr(C)]
pub(crate) struct Table {
    version: Version,
    previous: *const Table,
    allocator: *const c_void,
    managed_from_object:
        Option<unsafe extern "C" fn(*mut c_void, *mut *mut DLManagedTensorVersioned) -> c_int>,
    managed_to_object:
        Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned, *mut *mut c_void) -> c_int>,
    tensor_from_object: Option<unsafe extern "C" fn(*mut c_void, *mut DLTensor) -> c_int>,
    work_stream: *const c_void,
}

/// The functions of one type.
#[derive(Clone, Copy)]
pub(crate) struct Exchange(&'static Table);

// SAFETY: the table is constant, and its functions may be called on any thread that is attached.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Exchange {
    /// Fills in where a tensor is, which lives as long as the object and is not resized.
    ///
    /// # Errors
    /// What the library raises: a tensor without memory, of another layout.
    pub(crate) fn borrow(
        self,
        object: &Bound<'_, PyAny>,
        out: &mut DLTensor,
    ) -> Option<PyResult<()>> {
        let f = self.0.tensor_from_object?;
        // SAFETY: the table of the object's own type; the interpreter is attached.
        let failed = unsafe { f(object.as_ptr().cast(), out) } != 0;
        Some(if failed { Err(raised(object.py())) } else { Ok(()) })
    }

    /// The tensor, to keep.
    ///
    /// # Errors
    /// As [`Exchange::borrow`].
    pub(crate) fn take(
        self,
        object: &Bound<'_, PyAny>,
    ) -> PyResult<NonNull<DLManagedTensorVersioned>> {
        let missing =
            || PyRuntimeError::new_err("the type's DLPack table has no function for this");
        let f = self.0.managed_from_object.ok_or_else(missing)?;
        let mut out = ptr::null_mut();
        // SAFETY: as in `borrow`.
        let failed = unsafe { f(object.as_ptr().cast(), &mut out) } != 0;
        NonNull::new(out).filter(|_| !failed).ok_or_else(|| raised(object.py()))
    }

    /// A tensor of the library, over memory of ours. It is given away whatever happens.
    ///
    /// # Errors
    /// What the library raises.
    pub(crate) fn give<'py>(
        self,
        py: Python<'py>,
        tensor: NonNull<DLManagedTensorVersioned>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut out = ptr::null_mut();
        let failed = match self.0.managed_to_object {
            // SAFETY: a tensor as DLPack wants it, which is the library's from here on.
            Some(f) => (unsafe { f(tensor.as_ptr(), &mut out) }) != 0,
            None => true,
        };
        if failed || out.is_null() {
            return Err(raised(py));
        }
        // SAFETY: a new reference, which the library has made.
        Ok(unsafe { Bound::from_owned_ptr(py, out.cast()) })
    }
}

fn raised(py: Python<'_>) -> PyErr {
    PyErr::take(py)
        .unwrap_or_else(|| PyRuntimeError::new_err("DLPack's function failed and did not say why"))
}

/// Of how many types what they have is remembered.
const REMEMBERED: usize = 16;

thread_local! {
    /// Types, kept alive, and their tables.
    static KNOWN: RefCell<Vec<(Py<PyType>, Option<Exchange>)>> = const { RefCell::new(Vec::new()) };
}

/// The table of the object's type, if it has one.
#[inline]
pub(crate) fn of(object: &Bound<'_, PyAny>) -> Option<Exchange> {
    // SAFETY: every object has a type.
    let ty = unsafe { ffi::Py_TYPE(object.as_ptr()) };
    let known = KNOWN.with_borrow(|all| {
        all.iter().find(|(t, _)| t.as_ptr() == ty.cast()).map(|(_, table)| *table)
    });
    known.unwrap_or_else(|| ask(&object.get_type()))
}

/// The table that a type has.
#[cold]
pub(crate) fn ask(ty: &Bound<'_, PyType>) -> Option<Exchange> {
    let table = table(ty);
    KNOWN.with_borrow_mut(|all| {
        if all.len() < REMEMBERED {
            all.push((ty.clone().unbind(), table));
        }
    });
    table
}

fn table(ty: &Bound<'_, PyType>) -> Option<Exchange> {
    let capsule = ty.getattr_opt("__dlpack_c_exchange_api__").ok().flatten()?;
    // SAFETY: the name is a constant; on failure there is an error, which is taken away.
    let mut at =
        unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), c"dlpack_exchange_api".as_ptr()) }
            .cast::<Table>()
            .cast_const();
    if at.is_null() {
        let _ = PyErr::take(ty.py());
        return None;
    }
    // older tables may follow, of which one may be of this layout
    while !at.is_null() {
        // SAFETY: DLPack: tables live as long as the process, and begin with version and predecessor.
        let table: &'static Table = unsafe { &*at };
        if table.version.major == 1 {
            let has_all = table.version.minor >= 3 || table.tensor_from_object.is_some();
            return has_all.then_some(Exchange(table));
        }
        at = table.previous;
    }
    None
}
