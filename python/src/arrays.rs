//! Arguments and results: objects of Python's, and what they stand for here.

use crate::errors::OrRaise;
use crate::exchange::{self, Exchange};
use crate::tensor::PyTensor;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyCapsule, PyDict, PyFloat, PyInt, PyString, PyType};
use smallvec::SmallVec;
use std::ptr::NonNull;
use straightline::Tensor;
use straightline::dlpack::{self, DLManagedTensor, DLManagedTensorVersioned, DLTensor};
use straightline::program::Leaf;
use straightline::tensor::RawTensor;

/// Which library's arrays results become: that of the first array of a call.
#[derive(Clone, Copy, Default)]
pub(crate) enum Library {
    /// One with a table of C functions: PyTorch.
    Exchange(Exchange),
    Numpy,
    Jax,
    /// Tensors of this package.
    #[default]
    Ours,
}

/// An argument that is lent for a call: where it is. Sizes and strides are copied, so that nothing of
/// it is read when the interpreter is released.
pub(crate) struct Lent {
    pub(crate) tensor: DLTensor,
    pub(crate) geometry: SmallVec<[i64; 8]>,
    pub(crate) is_row_major: bool,
    /// What holds the memory where it is not the argument's own.
    pub(crate) copy: Option<Py<PyAny>>,
}

impl Lent {
    fn of(tensor: DLTensor) -> Lent {
        let rank = usize::try_from(tensor.ndim).unwrap_or(0);
        let mut geometry = SmallVec::new();
        let is_row_major = tensor.strides.is_null();
        if rank > 0 && !tensor.shape.is_null() {
            // SAFETY: DLPack: as many sizes, and strides unless there are none, as dimensions.
            unsafe {
                geometry.extend_from_slice(std::slice::from_raw_parts(tensor.shape, rank));
                if !is_row_major {
                    geometry.extend_from_slice(std::slice::from_raw_parts(tensor.strides, rank));
                }
            }
        }
        Lent { tensor, geometry, is_row_major, copy: None }
    }

    /// Whether the memory may hold the conjugates or the negatives of the values, which DLPack does not
    /// say: complex numbers do, and what has their imaginary parts.
    fn may_be_lazy(&self) -> bool {
        let (complex, float) = (5, 2);
        match (self.tensor.dtype.code, self.tensor.dtype.bits) {
            (code, _) if code == complex => true,
            (code, 32 | 64) if code == float && !self.is_row_major => {
                let (sizes, strides) = self.geometry.split_at(self.geometry.len() / 2);
                let mut expected = 1;
                let is_dense = sizes.iter().zip(strides).rev().all(|(size, stride)| {
                    let is_dense = *size == 1 || *stride == expected;
                    expected *= size;
                    is_dense
                });
                !is_dense || expected == 1
            }
            _ => false,
        }
    }

    /// The geometry.
    ///
    /// # Errors
    /// Memory of a device, a dtype that is not supported.
    pub(crate) fn raw<'a>(
        &'a self,
        row_major: &'a mut SmallVec<[i64; 5]>,
    ) -> straightline::Result<RawTensor<'a>> {
        if self.is_row_major || self.geometry.is_empty() {
            // SAFETY: the object that it is of lives for the length of the call.
            return unsafe { self.tensor.raw(row_major) };
        }
        let (sizes, strides) = self.geometry.split_at(self.geometry.len() / 2);
        // SAFETY: as above; of a tensor without dimensions nothing else is read.
        let flat = DLTensor { ndim: 0, ..self.tensor };
        let mut none = SmallVec::new();
        // SAFETY: as above.
        let RawTensor { data, dtype, .. } = unsafe { flat.raw(&mut none) }?;
        Ok(RawTensor::new(data, dtype, sizes, strides))
    }
}

/// An argument.
pub(crate) enum Argument {
    /// For the length of the call.
    Lent(Lent),
    /// A value of this crate's.
    Leaf(Leaf),
}

/// What an object stands for in a call. The object outlives the call.
pub(crate) fn argument(
    object: &Bound<'_, PyAny>,
    library: &mut Option<Library>,
) -> PyResult<Argument> {
    if let Some(table) = exchange::of(object) {
        let mut tensor = DLTensor::empty();
        if let Some(borrowed) = table.borrow(object, &mut tensor) {
            borrowed?;
            library.get_or_insert(Library::Exchange(table));
            let mut lent = Lent::of(tensor);
            if lent.may_be_lazy()
                && let Some(plain) = resolved(object)?
            {
                table.borrow(&plain, &mut tensor).unwrap_or(Ok(()))?;
                lent = Lent { copy: Some(plain.unbind()), ..Lent::of(tensor) };
            }
            return Ok(Argument::Lent(lent));
        }
    }
    leaf(object, library).map(Argument::Leaf)
}

/// A tensor of the values of one that is lazily conjugated or negated, which PyTorch's tensors may be.
fn resolved<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    let is = |name: &Bound<'py, PyString>| match object.getattr_opt(name)? {
        Some(method) => method.call0()?.is_truthy(),
        None => Ok(false),
    };
    if !is(intern!(py, "is_conj"))? && !is(intern!(py, "is_neg"))? {
        return Ok(None);
    }
    object
        .call_method0(intern!(py, "resolve_conj"))?
        .call_method0(intern!(py, "resolve_neg"))
        .map(Some)
}

/// What an object stands for, to keep.
pub(crate) fn leaf(object: &Bound<'_, PyAny>, library: &mut Option<Library>) -> PyResult<Leaf> {
    if let Ok(t) = object.cast::<PyTensor>() {
        library.get_or_insert(Library::Ours);
        return Ok(Leaf::Tensor(t.get().tensor.clone()));
    }
    if object.is_none() {
        return Ok(Leaf::None);
    }
    if let Ok(b) = object.cast::<PyBool>() {
        return Ok(Leaf::Bool(b.is_true()));
    }
    if let Ok(n) = object.cast::<PyInt>() {
        return n.extract().map(Leaf::Int);
    }
    if let Ok(x) = object.cast::<PyFloat>() {
        return x.extract().map(Leaf::Float);
    }
    if let Ok(s) = object.cast::<PyString>() {
        return s.extract().map(Leaf::Str);
    }
    tensor(object, library).map(Leaf::Tensor)
}

/// The tensor that an array of another library is, over its memory.
pub(crate) fn tensor(object: &Bound<'_, PyAny>, library: &mut Option<Library>) -> PyResult<Tensor> {
    let py = object.py();
    if let Ok(t) = object.cast::<PyTensor>() {
        return Ok(t.get().tensor.clone());
    }
    if let Some(table) = exchange::of(object) {
        library.get_or_insert(Library::Exchange(table));
        let plain = resolved(object)?;
        let managed = table.take(plain.as_ref().unwrap_or(object))?;
        // SAFETY: just made for us.
        return unsafe { dlpack::import(managed) }.or_raise(py);
    }
    let Some(method) = object.getattr_opt("__dlpack__")? else {
        // numbers of numpy's, which are arrays without dimensions
        if let Some(array) = object.getattr_opt(intern!(py, "__array__"))? {
            return tensor(&array.call0()?, library);
        }
        let ty = object.get_type().name()?.to_string();
        return Err(PyTypeError::new_err(format!(
            "expected an array (of numpy, torch, jax or another library with `__dlpack__`), a number, a string or None, \
             and got {ty}"
        )));
    };
    library.get_or_insert_with(|| library_of(object));
    let versions = PyDict::new(py);
    versions.set_item("max_version", (1, 0))?;
    let capsule = match method.call((), Some(&versions)) {
        Err(e) if e.is_instance_of::<PyTypeError>(py) => method.call0()?,
        other => other?,
    };
    import(&capsule)
}

/// The tensor in a capsule, which is used up.
fn import(capsule: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = capsule.py();
    let capsule = capsule.cast::<PyCapsule>()?.as_ptr();
    for (name, used, versioned) in [
        (c"dltensor_versioned", c"used_dltensor_versioned", true),
        (c"dltensor", c"used_dltensor", false),
    ] {
        // SAFETY: a capsule, and constants.
        let at = unsafe {
            match ffi::PyCapsule_IsValid(capsule, name.as_ptr()) {
                0 => continue,
                _ => ffi::PyCapsule_GetPointer(capsule, name.as_ptr()),
            }
        };
        let at = NonNull::new(at).ok_or_else(|| PyTypeError::new_err("an empty DLPack capsule"))?;
        // SAFETY: as above; what is renamed is ours.
        return unsafe {
            ffi::PyCapsule_SetName(capsule, used.as_ptr());
            match versioned {
                true => dlpack::import(at.cast::<DLManagedTensorVersioned>()),
                false => dlpack::import_unversioned(at.cast::<DLManagedTensor>()),
            }
        }
        .or_raise(py);
    }
    Err(PyTypeError::new_err("`__dlpack__` returned no DLPack capsule, or one that is used up"))
}

fn library_of(object: &Bound<'_, PyAny>) -> Library {
    let module = object.get_type().module();
    let module = module.and_then(|m| m.extract::<String>()).unwrap_or_default();
    match module.split('.').next() {
        Some("numpy") => Library::Numpy,
        Some("jax" | "jaxlib") => Library::Jax,
        _ => Library::Ours,
    }
}

/// A result for a library that knows no memory that is read only: a copy of what lies in a mapped file.
fn own(py: Python<'_>, tensor: Tensor) -> PyResult<Tensor> {
    if tensor.is_read_only() { tensor.copied().or_raise(py) } else { Ok(tensor) }
}

/// Whether it is of a library that counts writes: PyTorch.
pub(crate) fn is_counted(object: &Bound<'_, PyAny>) -> bool {
    exchange::of(object).is_some()
}

/// A copy of one of numpy's arrays that no library takes as it is: with negative strides, not aligned to
/// its elements, or with bytes in the other order. Nothing for other objects.
pub(crate) fn plain_copy<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    if !matches!(library_of(object), Library::Numpy) || !object.hasattr(intern!(py, "astype"))? {
        return Ok(None);
    }
    let dtype = object.getattr(intern!(py, "dtype"))?;
    let kind: String = dtype.getattr(intern!(py, "kind"))?.extract()?;
    if !matches!(kind.as_str(), "b" | "i" | "u" | "f" | "c") {
        return Ok(None);
    }
    let native = dtype.call_method1(intern!(py, "newbyteorder"), ("=",))?;
    let order = PyDict::new(py);
    order.set_item("order", "C")?;
    object.call_method(intern!(py, "astype"), (native,), Some(&order)).map(Some)
}

impl Library {
    /// The library of a type of arrays.
    pub(crate) fn of_type(ty: &Bound<'_, PyType>) -> Library {
        exchange::ask(ty).map_or(Library::Ours, Library::Exchange)
    }

    /// The results of a call as Python has them: what shares memory goes on sharing it.
    pub(crate) fn objects<'py>(
        self,
        py: Python<'py>,
        leaves: Vec<Leaf>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let is_tensor = |leaf: &Leaf| matches!(leaf, Leaf::Tensor(_));
        let Library::Exchange(table) = self else {
            return leaves.into_iter().map(|leaf| self.object(py, leaf)).collect();
        };
        if leaves.iter().filter(|leaf| is_tensor(leaf)).count() < 2 {
            return leaves.into_iter().map(|leaf| self.object(py, leaf)).collect();
        }
        let (mut tensors, mut places) = (Vec::with_capacity(leaves.len()), Vec::new());
        for leaf in leaves {
            places.push(match leaf {
                Leaf::Tensor(t) => {
                    tensors.push(own(py, t)?);
                    None
                }
                other => Some(other),
            });
        }
        let mut handed = Tensor::into_externals(tensors).or_raise(py)?.into_iter();
        let objects = places.into_iter().map(|place| match place {
            Some(leaf) => self.object(py, leaf),
            None => match handed.next() {
                Some(t) => table.give(py, dlpack::export_external(t).or_raise(py)?),
                None => self.object(py, Leaf::None),
            },
        });
        objects.collect()
    }

    /// A result as Python has it.
    pub(crate) fn object<'py>(self, py: Python<'py>, leaf: Leaf) -> PyResult<Bound<'py, PyAny>> {
        let tensor = match leaf {
            Leaf::Tensor(t) => t,
            Leaf::None => return Ok(py.None().into_bound(py)),
            Leaf::Int(n) => return Ok(n.into_pyobject(py)?.into_any()),
            Leaf::Float(x) => return Ok(x.into_pyobject(py)?.into_any()),
            Leaf::Bool(b) => return Ok(b.into_pyobject(py)?.to_owned().into_any()),
            Leaf::Str(s) => return Ok(s.into_pyobject(py)?.into_any()),
        };
        if let Library::Exchange(table) = self {
            let managed = dlpack::export(own(py, tensor)?).or_raise(py)?;
            return table.give(py, managed);
        }
        let ours = Bound::new(py, PyTensor { tensor })?;
        match self {
            Library::Numpy if ours.get().is_for_numpy() => {
                static FROM: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                FROM.import(py, "numpy", "from_dlpack")?.call1((ours,))
            }
            Library::Jax => {
                static FROM: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                FROM.import(py, "jax.numpy", "from_dlpack")?.call1((ours,))
            }
            _ => Ok(ours.into_any()),
        }
    }
}
