//! cuBLASLt's functions, by their names in the library that the loader has opened, and the objects that
//! they make.

use crate::driver::{Device, DriverError, Stream};
use crate::loader;
use crate::products::Workspace;
use cudarc::cublaslt::sys::{
    cublasComputeType_t as Compute, cublasLtEpilogue_t as Epilogues,
    cublasLtMatmulDescAttributes_t as OfProduct, cublasLtMatmulHeuristicResult_t as Heuristic,
    cublasLtMatmulPreferenceAttributes_t as OfPreference,
    cublasLtMatrixLayoutAttribute_t as OfLayout, cudaDataType as Kind,
};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock, PoisonError};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::Activation;

pub(super) use cudarc::cublaslt::sys::cublasLtMatmulAlgo_t as Algorithm;

/// A call of cuBLASLt failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BlasError {
    /// By itself.
    #[error("{call} gives {status} on cuda:{device}")]
    Status {
        /// The library's function.
        call: &'static str,
        /// The name of its status, such as `CUBLAS_STATUS_EXECUTION_FAILED`.
        status: String,
        /// The device.
        device: u32,
    },
    /// The driver, for it.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// A status by its name.
fn name(status: c_int) -> String {
    let known = match status {
        1 => "NOT_INITIALIZED",
        3 => "ALLOC_FAILED",
        7 => "INVALID_VALUE",
        8 => "ARCH_MISMATCH",
        11 => "MAPPING_ERROR",
        13 => "EXECUTION_FAILED",
        14 => "INTERNAL_ERROR",
        15 => "NOT_SUPPORTED",
        16 => "LICENSE_ERROR",
        _ => return format!("status {status}"),
    };
    format!("CUBLAS_STATUS_{known}")
}

const SUCCESS: c_int = 0;
/// What a heuristic says where there is no algorithm.
const NO_ALGORITHM: [c_int; 3] = [7, 8, 15];

/// A handle of the library's.
type Raw = *mut c_void;
type Create = unsafe extern "C" fn(*mut Raw) -> c_int;
type Destroy = unsafe extern "C" fn(Raw) -> c_int;
type Set = unsafe extern "C" fn(Raw, c_int, *const c_void, usize) -> c_int;

macro_rules! functions {
    ($($field:ident $name:literal: $type:ty;)*) => {
        /// The functions.
        pub(super) struct Library {
            $($field: $type,)*
            handles: Mutex<HashMap<u32, &'static Handle>>,
        }

        impl Library {
            fn of(library: &libloading::os::unix::Library) -> Result<Library, libloading::Error> {
                Ok(Library {
                    // SAFETY: these functions have these signatures in all libraries of this major
                    // version, and the library stays open.
                    $($field: unsafe { *library.get::<$type>($name)? },)*
                    handles: Mutex::default(),
                })
            }
        }
    };
}

functions! {
    create "cublasLtCreate": Create;
    create_operation "cublasLtMatmulDescCreate": unsafe extern "C" fn(*mut Raw, c_int, c_int) -> c_int;
    destroy_operation "cublasLtMatmulDescDestroy": Destroy;
    set_operation "cublasLtMatmulDescSetAttribute": Set;
    create_layout "cublasLtMatrixLayoutCreate": unsafe extern "C" fn(*mut Raw, c_int, u64, u64, i64) -> c_int;
    destroy_layout "cublasLtMatrixLayoutDestroy": Destroy;
    set_layout "cublasLtMatrixLayoutSetAttribute": Set;
    create_preference "cublasLtMatmulPreferenceCreate": Create;
    destroy_preference "cublasLtMatmulPreferenceDestroy": Destroy;
    set_preference "cublasLtMatmulPreferenceSetAttribute": Set;
    heuristic "cublasLtMatmulAlgoGetHeuristic": unsafe extern "C" fn(
        Raw, Raw, Raw, Raw, Raw, Raw, Raw, c_int, *mut Heuristic, *mut c_int,
    ) -> c_int;
    product "cublasLtMatmul": unsafe extern "C" fn(
        Raw, Raw, *const c_void, *const c_void, Raw, *const c_void, Raw, *const c_void, *const c_void, Raw,
        *mut c_void, Raw, *const Algorithm, *mut c_void, usize, Raw,
    ) -> c_int;
}

/// The library, if it is here and has all that is used of it.
pub(super) fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let find = || {
        let made = Library::of(loader::cublas_lt_library()?);
        made.inspect_err(|e| tracing::warn!("cuBLASLt is not used: {e}")).ok()
    };
    LIBRARY.get_or_init(find).as_ref()
}

/// The type of elements.
pub(super) fn kind(dtype: DType) -> Kind {
    match dtype {
        DType::F64 => Kind::CUDA_R_64F,
        DType::F16 => Kind::CUDA_R_16F,
        DType::BF16 => Kind::CUDA_R_16BF,
        _ => Kind::CUDA_R_32F,
    }
}

fn checked(call: &'static str, device: u32, status: c_int) -> Result<(), BlasError> {
    match status {
        SUCCESS => Ok(()),
        status => Err(BlasError::Status { call, status: name(status), device }),
    }
}

/// No device is meant.
const NONE: u32 = 0;

/// The library's state on a device; it stays for as long as the process.
pub(super) struct Handle {
    device: &'static Device,
    raw: Raw,
}

// SAFETY: the library's handle may be used by any thread.
unsafe impl Send for Handle {}
// SAFETY: as above, by several at once.
unsafe impl Sync for Handle {}

macro_rules! object {
    ($name:ident, $destroy:ident, $doc:literal) => {
        #[doc = $doc]
        pub(super) struct $name {
            library: &'static Library,
            raw: Raw,
        }

        // SAFETY: descriptions are memory of the host that no thread owns.
        unsafe impl Send for $name {}
        // SAFETY: what changes them is called by one thread at a time: each is made by one, and
        // where a bias is, is set under a lock.
        unsafe impl Sync for $name {}

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: it was created, and nobody else destroys it.
                unsafe { (self.library.$destroy)(self.raw) };
            }
        }
    };
}

object!(Descriptor, destroy_operation, "What is computed.");
object!(Layout, destroy_layout, "How a batch of matrices lies.");
object!(Preference, destroy_preference, "What an algorithm may use.");

/// Sets an attribute.
///
/// # Safety
///
/// `set` is of the kind of object that `raw` is, and the attribute a `T`.
unsafe fn set<T>(
    function: (Set, &'static str),
    raw: Raw,
    attribute: c_int,
    value: T,
) -> Result<(), BlasError> {
    // SAFETY: the caller's contract; the value is read before the function returns.
    let status = unsafe { (function.0)(raw, attribute, (&raw const value).cast(), size_of::<T>()) };
    checked(function.1, NONE, status)
}

impl Descriptor {
    pub(super) fn new(
        library: &'static Library,
        dtype: DType,
        tf32: bool,
    ) -> Result<Descriptor, BlasError> {
        let compute = match dtype {
            DType::F64 => Compute::CUBLAS_COMPUTE_64F,
            _ if tf32 => Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
            _ => Compute::CUBLAS_COMPUTE_32F,
        };
        let scale = if dtype == DType::F64 { Kind::CUDA_R_64F } else { Kind::CUDA_R_32F };
        let mut raw = null_mut();
        // SAFETY: it writes a handle.
        let status =
            unsafe { (library.create_operation)(&mut raw, compute as c_int, scale as c_int) };
        checked("cublasLtMatmulDescCreate", NONE, status)?;
        Ok(Descriptor { library, raw })
    }

    fn set<T>(&self, attribute: OfProduct, value: T) -> Result<(), BlasError> {
        let function = (self.library.set_operation, "cublasLtMatmulDescSetAttribute");
        // SAFETY: the callers below give each attribute what it is.
        unsafe { set(function, self.raw, attribute as c_int, value) }
    }

    pub(super) fn transposed(&self, a: bool, b: bool) -> Result<(), BlasError> {
        // `CUBLAS_OP_N` and `CUBLAS_OP_T`
        self.set(OfProduct::CUBLASLT_MATMUL_DESC_TRANSA, c_int::from(a))?;
        self.set(OfProduct::CUBLASLT_MATMUL_DESC_TRANSB, c_int::from(b))
    }

    pub(super) fn epilogue(&self, bias: bool, activation: Activation) -> Result<(), BlasError> {
        let which = match (activation, bias) {
            (Activation::Relu, false) => Epilogues::CUBLASLT_EPILOGUE_RELU,
            (Activation::Relu, true) => Epilogues::CUBLASLT_EPILOGUE_RELU_BIAS,
            (Activation::GeluTanh, false) => Epilogues::CUBLASLT_EPILOGUE_GELU,
            (Activation::GeluTanh, true) => Epilogues::CUBLASLT_EPILOGUE_GELU_BIAS,
            (_, false) => Epilogues::CUBLASLT_EPILOGUE_DEFAULT,
            (_, true) => Epilogues::CUBLASLT_EPILOGUE_BIAS,
        };
        self.set(OfProduct::CUBLASLT_MATMUL_DESC_EPILOGUE, which as c_int)
    }

    /// Where the bias is.
    pub(super) fn bias(&self, address: u64) -> Result<(), BlasError> {
        self.set(OfProduct::CUBLASLT_MATMUL_DESC_BIAS_POINTER, address)
    }
}

impl Layout {
    /// A batch, of so many, each so far from the one before, of matrices by columns.
    pub(super) fn new(
        library: &'static Library,
        kind: Kind,
        [rows, cols]: [i64; 2],
        leading: i64,
        (batch, step): (i64, i64),
    ) -> Result<Layout, BlasError> {
        let mut raw = null_mut();
        let create = library.create_layout;
        // SAFETY: it writes a handle.
        let status = unsafe { create(&mut raw, kind as c_int, rows as u64, cols as u64, leading) };
        checked("cublasLtMatrixLayoutCreate", NONE, status)?;
        let layout = Layout { library, raw };
        let function = (library.set_layout, "cublasLtMatrixLayoutSetAttribute");
        let count = OfLayout::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT as c_int;
        let distance = OfLayout::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET as c_int;
        // SAFETY: the first attribute is a number of 32 bits, the second one of 64.
        unsafe {
            set(function, raw, count, batch as i32)?;
            set(function, raw, distance, step)?;
        }
        Ok(layout)
    }
}

/// One and the factor of the matrix that is added.
pub(super) enum Factors {
    F32([f32; 2]),
    F64([f64; 2]),
}

impl Factors {
    fn places(&self) -> [*const c_void; 2] {
        match self {
            Factors::F32(both) => both.each_ref().map(|f| std::ptr::from_ref(f).cast()),
            Factors::F64(both) => both.each_ref().map(|f| std::ptr::from_ref(f).cast()),
        }
    }
}

/// The pieces of a product.
pub(super) struct Call<'a> {
    pub(super) operation: &'a Descriptor,
    /// Of `a`, `b`, `c` and `d`.
    pub(super) layouts: &'a [Layout; 4],
    pub(super) addresses: [u64; 4],
    pub(super) factors: Factors,
    pub(super) algorithm: &'a Algorithm,
    pub(super) workspace: Workspace,
}

impl Library {
    /// The state on a device, made at the first call.
    pub(super) fn handle(
        &'static self,
        device: &'static Device,
    ) -> Result<&'static Handle, BlasError> {
        let mut all = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.get(&device.ordinal()) {
            return Ok(found);
        }
        device.make_current()?;
        let mut raw = null_mut();
        // SAFETY: the device's context is current; it writes a handle.
        checked("cublasLtCreate", device.ordinal(), unsafe { (self.create)(&mut raw) })?;
        let made: &'static Handle = Box::leak(Box::new(Handle { device, raw }));
        all.insert(device.ordinal(), made);
        Ok(made)
    }

    /// The algorithm that is thought the fastest, and its workspace; `None` if there is none.
    pub(super) fn algorithm(
        &'static self,
        handle: &Handle,
        operation: &Descriptor,
        layouts: &[Layout; 4],
        workspace: u64,
        alignment: [u32; 4],
    ) -> Result<Option<(Algorithm, usize)>, BlasError> {
        let mut raw = null_mut();
        // SAFETY: it writes a handle.
        let status = unsafe { (self.create_preference)(&mut raw) };
        checked("cublasLtMatmulPreferenceCreate", handle.device.ordinal(), status)?;
        let preference = Preference { library: self, raw };
        let function = (self.set_preference, "cublasLtMatmulPreferenceSetAttribute");
        use OfPreference::*;
        let aligned = [
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ];
        // SAFETY: the bytes are a number of 64 bits, the alignments are of 32.
        unsafe {
            let most = CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES as c_int;
            set(function, preference.raw, most, workspace)?;
            for (attribute, bytes) in aligned.into_iter().zip(alignment) {
                set(function, preference.raw, attribute as c_int, bytes)?;
            }
        }
        handle.device.make_current()?;
        let [a, b, c, d] = layouts.each_ref().map(|l| l.raw);
        let (mut found, mut count) = (std::mem::MaybeUninit::<Heuristic>::zeroed(), 0);
        // SAFETY: all of them live; there is room for one result, of which zero is a value.
        let status = unsafe {
            let to = found.as_mut_ptr();
            let of = preference.raw;
            (self.heuristic)(handle.raw, operation.raw, a, b, c, d, of, 1, to, &mut count)
        };
        if NO_ALGORITHM.contains(&status) || status == SUCCESS && count == 0 {
            return Ok(None);
        }
        checked("cublasLtMatmulAlgoGetHeuristic", handle.device.ordinal(), status)?;
        // the state of a result is read as the number that it is
        let state = std::mem::offset_of!(Heuristic, state);
        // SAFETY: the library has written a result; only the algorithm and the bytes, which are
        // numbers, are read as what they are.
        let (state, algorithm, bytes) = unsafe {
            let at = found.as_ptr();
            let state = at.cast::<u8>().add(state).cast::<c_int>().read();
            (state, (&raw const (*at).algo).read(), (&raw const (*at).workspaceSize).read())
        };
        Ok((state == SUCCESS).then_some((algorithm, bytes)))
    }

    /// Queues a product.
    ///
    /// # Safety
    ///
    /// The addresses lead to matrices of these layouts on the stream's device, of which `handle` is, until
    /// the stream has come so far.
    pub(super) unsafe fn product(
        &self,
        handle: &Handle,
        stream: &Stream,
        call: &Call<'_>,
    ) -> Result<(), BlasError> {
        handle.device.make_current()?;
        let [alpha, beta] = call.factors.places();
        let pointer =
            |address: u64| std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
        let [a, b, c, d] = call.addresses.map(pointer);
        let layouts = call.layouts.each_ref().map(|l| l.raw);
        let workspace = match call.workspace.bytes {
            0 => null_mut(),
            _ => pointer(call.workspace.address),
        };
        let algorithm: *const Algorithm = call.algorithm;
        // SAFETY: the caller's contract; factors and descriptions are read before it returns.
        let status = unsafe {
            (self.product)(
                handle.raw,
                call.operation.raw,
                alpha,
                a.cast_const(),
                layouts[0],
                b.cast_const(),
                layouts[1],
                beta,
                c.cast_const(),
                layouts[2],
                d,
                layouts[3],
                algorithm,
                workspace,
                call.workspace.bytes,
                stream.handle(),
            )
        };
        checked("cublasLtMatmul", handle.device.ordinal(), status)?;
        stream.queued("cublasLtMatmul")?;
        Ok(())
    }
}
