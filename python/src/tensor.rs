//! `straightline.Tensor`: results where no other library asked for them.

use crate::arrays;
use crate::errors::OrRaise;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ffi::CStr;
use straightline::dlpack::{self, DLManagedTensor, DLManagedTensorVersioned};
use straightline::{DType, Tensor};

/// A tensor on the CPU. It is taken by everything that takes DLPack: `numpy.from_dlpack(t)`,
/// `torch.from_dlpack(t)`.
#[pyclass(frozen, name = "Tensor", module = "straightline")]
pub(crate) struct PyTensor {
    pub(crate) tensor: Tensor,
}

impl PyTensor {
    /// Whether numpy has its dtype.
    pub(crate) fn is_for_numpy(&self) -> bool {
        self.tensor.dtype() != DType::BF16
    }
}

const VERSIONED: &CStr = c"dltensor_versioned";
const UNVERSIONED: &CStr = c"dltensor";

/// Gives back a tensor that nobody has taken out of its capsule.
unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule of ours; one that is used up has another name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 0 {
            return;
        }
        let at = ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr())
            .cast::<DLManagedTensorVersioned>();
        if let Some(deleter) = at.as_ref().and_then(|m| m.deleter) {
            deleter(at);
        }
    }
}

/// The same from before versions.
unsafe extern "C" fn drop_unversioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, UNVERSIONED.as_ptr()) == 0 {
            return;
        }
        let at = ffi::PyCapsule_GetPointer(capsule, UNVERSIONED.as_ptr()).cast::<DLManagedTensor>();
        if let Some(deleter) = at.as_ref().and_then(|m| m.deleter) {
            deleter(at);
        }
    }
}

#[pymethods]
impl PyTensor {
    /// Tensor(array): over the memory of an array of another library, through DLPack.
    #[new]
    fn new(array: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        Ok(PyTensor { tensor: arrays::tensor(array, &mut None)? })
    }

    /// The sizes.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.sizes())
    }

    /// The strides, in elements.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.strides())
    }

    /// The elements: ``"float32"``.
    #[getter]
    fn dtype(&self) -> String {
        self.tensor.dtype().torch_name().to_owned()
    }

    /// How many dimensions there are.
    #[getter]
    fn ndim(&self) -> usize {
        self.tensor.dim()
    }

    /// The only element.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        use straightline::program::Leaf;
        let t = &self.tensor;
        let leaf = match t.dtype() {
            _ if t.numel() != 1 => {
                return Err(PyValueError::new_err(format!(
                    "a tensor of sizes {:?} has not one element: use numpy()",
                    t.sizes()
                )));
            }
            DType::Bool => Leaf::Bool(t.item().or_raise(py)?),
            d if d.is_floating() => {
                Leaf::Float(t.to_dtype(DType::F64).and_then(|t| t.item()).or_raise(py)?)
            }
            DType::C64 | DType::C128 => {
                return Err(PyTypeError::new_err("complex numbers: use numpy() first"));
            }
            _ => Leaf::Int(t.to_dtype(DType::I64).and_then(|t| t.item()).or_raise(py)?),
        };
        arrays::Library::Ours.object(py, leaf)
    }

    /// The tensor as numpy's array, over the same memory.
    fn numpy<'py>(slf: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyAny>> {
        if !slf.get().is_for_numpy() {
            return Err(PyTypeError::new_err(
                "numpy has no bfloat16: use torch.from_dlpack, or convert the result in the model",
            ));
        }
        slf.py().import("numpy")?.getattr("from_dlpack")?.call1((slf,))
    }

    /// As an array of numpy's: ``numpy.asarray(t)``.
    #[pyo3(signature = (dtype=None, *, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, PyTensor>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = PyTensor::numpy(slf)?;
        let array = match dtype {
            Some(dtype) if !array.getattr("dtype")?.eq(&dtype)? => {
                array.call_method1("astype", (dtype,))?
            }
            _ if copy == Some(true) => array.call_method0("copy")?,
            _ => array,
        };
        Ok(array)
    }

    fn __len__(&self) -> PyResult<usize> {
        match self.tensor.sizes().first() {
            Some(size) => Ok(usize::try_from(*size).unwrap_or(0)),
            None => Err(PyTypeError::new_err("len() of a tensor without dimensions")),
        }
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        self.item(py)?.extract()
    }

    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.item(py)?.call_method0("__int__")
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.item(py)?.is_truthy()
    }

    /// DLPack's protocol.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some((device, _)) = dl_device.filter(|(device, _)| *device != 1) {
            return Err(PyBufferError::new_err(format!(
                "the tensor is on the CPU, and device {device} is asked for"
            )));
        }
        if stream.is_some_and(|s| !s.is_none()) {
            return Err(PyBufferError::new_err("a tensor on the CPU has no stream"));
        }
        let shared = match copy {
            Some(true) => self.tensor.copied(),
            // SAFETY: who takes the memory keeps to Python's rules for arrays that are shared: what
            // is written by one is seen by the other, and not by two threads at once.
            _ => unsafe { self.tensor.share_external() },
        }
        .or_raise(py)?;
        let versioned = max_version.is_some_and(|(major, _)| major >= 1);
        // SAFETY: names are constants; the capsule has the tensor from here on.
        let capsule = unsafe {
            match versioned {
                true => {
                    let managed = dlpack::export(shared).or_raise(py)?;
                    ffi::PyCapsule_New(
                        managed.as_ptr().cast(),
                        VERSIONED.as_ptr(),
                        Some(drop_versioned),
                    )
                }
                false => {
                    let managed = dlpack::export_unversioned(shared).or_raise(py)?;
                    ffi::PyCapsule_New(
                        managed.as_ptr().cast(),
                        UNVERSIONED.as_ptr(),
                        Some(drop_unversioned),
                    )
                }
            }
        };
        // SAFETY: a new reference, or null with an error.
        unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
    }

    /// DLPack's number of the CPU.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }

    fn __repr__(&self) -> String {
        self.tensor.to_string()
    }
}
