//! The CUDA libraries, found while the program runs.
//!
//! Each is looked for by its exact name in these folders, then where the system's loader looks:
//! those that `STRAIGHTLINE_CUDA` lists (separated by colons), `lib64` of `CUDA_HOME` and `CUDA_PATH`,
//! those of a Python environment in use (`VIRTUAL_ENV`, `CONDA_PREFIX`) into which NVIDIA's wheels are
//! installed, and `/usr/local/cuda/lib64`. What is found is opened for good, before anything of cudarc
//! asks for it: cudarc panics where a library is missing, and takes an older one where there is one.

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::c_int;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Versions of CUDA that this crate is built for: the major one decides the libraries' names.
const MAJOR: u32 = 13;

/// Whether a library is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// Opened.
    Here {
        /// The file, if it was found in one of the folders; the system's loader has found the others.
        path: Option<PathBuf>,
        /// What the library says of itself: major, minor.
        version: (u32, u32),
    },
    /// Not usable.
    Missing {
        /// Why, and what to do.
        reason: String,
    },
}

impl Found {
    /// Whether it is there.
    ///
    /// ```
    /// use straightline_cuda::Found;
    /// assert!(!Found::Missing { reason: "no driver".into() }.is_here());
    /// ```
    pub fn is_here(&self) -> bool {
        matches!(self, Found::Here { .. })
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Here { path, version: (major, minor) } => {
                write!(f, "{major}.{minor}")?;
                path.as_ref().map_or(Ok(()), |p| write!(f, ", {}", p.display()))
            }
            Found::Missing { reason } => write!(f, "missing: {reason}"),
        }
    }
}

/// What this machine has of CUDA.
///
/// ```
/// use straightline_cuda::{Found, availability};
/// // a machine without a GPU has a reason, and nothing panics
/// if let Found::Missing { reason } = &availability().driver {
///     assert!(!reason.is_empty());
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Availability {
    /// The driver, `libcuda.so.1`: devices, memory, launches. Its version is that of the CUDA that it
    /// supports.
    pub driver: Found,
    /// The compiler of CUDA C, `libnvrtc`.
    pub nvrtc: Found,
    /// Matrix products, `libcublasLt`.
    pub cublas_lt: Found,
    /// What several GPUs do together, `libnccl`: reductions and copies among all of them.
    pub nccl: Found,
}

impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "driver    {}", self.driver)?;
        writeln!(f, "NVRTC     {}", self.nvrtc)?;
        writeln!(f, "cuBLASLt  {}", self.cublas_lt)?;
        write!(f, "NCCL      {}", self.nccl)
    }
}

/// Looks for the libraries at the first call; later ones give the same answer.
pub fn availability() -> &'static Availability {
    static FOUND: OnceLock<Availability> = OnceLock::new();
    FOUND.get_or_init(|| {
        let folders = folders();
        Availability {
            driver: driver(&folders),
            nvrtc: nvrtc(&folders),
            cublas_lt: cublas_lt(&folders),
            nccl: nccl(&folders),
        }
    })
}

fn folders() -> Vec<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let mut all: Vec<PathBuf> =
        named("STRAIGHTLINE_CUDA").iter().flat_map(std::env::split_paths).collect();
    for home in ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(named) {
        all.push(PathBuf::from(home).join("lib64"));
    }
    for prefix in ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(named) {
        let pythons = std::fs::read_dir(PathBuf::from(prefix).join("lib"));
        let mut pythons: Vec<PathBuf> =
            pythons.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        pythons.sort();
        all.extend(pythons.iter().map(|p| p.join("site-packages/nvidia/cu13/lib")));
    }
    all.push("/usr/local/cuda/lib64".into());
    all
}

/// A library that stays open.
struct Opened {
    library: &'static Library,
    path: Option<PathBuf>,
}

fn open(name: &str, folders: &[PathBuf]) -> Result<Opened, String> {
    let mut first = None;
    let places = folders.iter().map(|f| f.join(name)).filter(|p| p.exists());
    for path in places.map(Some).chain([None]) {
        let file = path.as_deref().unwrap_or(Path::new(name));
        // SAFETY: NVIDIA's libraries may be opened at any time; they start no threads that would
        // care where.
        match unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) } {
            Ok(library) => return Ok(Opened { library: Box::leak(Box::new(library)), path }),
            Err(e) => _ = first.get_or_insert_with(|| e.to_string()),
        }
    }
    Err(first.unwrap_or_default())
}

/// The version that a function of a library writes as one number.
fn version(library: &Library, function: &str) -> Result<c_int, String> {
    // SAFETY: the functions that are asked for have this signature in all versions of CUDA.
    let get = unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(function) };
    let get = get.map_err(|e| e.to_string())?;
    let mut number = 0;
    // SAFETY: as above; it writes one number.
    match unsafe { get(&mut number) } {
        0 => Ok(number),
        code => Err(format!("{function} gives error {code}")),
    }
}

fn missing(what: &str, why: impl fmt::Display, todo: &str) -> Found {
    Found::Missing { reason: format!("{what} ({why}): {todo}") }
}

fn driver(folders: &[PathBuf]) -> Found {
    let todo = "install NVIDIA's driver, 580 or newer";
    let opened = match open("libcuda.so.1", folders) {
        Ok(opened) => opened,
        Err(e) => return missing("libcuda.so.1 can not be opened", e, todo),
    };
    match version(opened.library, "cuDriverGetVersion") {
        Ok(n) if n as u32 / 1000 >= MAJOR => {
            Found::Here { path: opened.path, version: (n as u32 / 1000, n as u32 % 1000 / 10) }
        }
        Ok(n) => missing("the driver is too old", format!("it supports CUDA {}", n / 1000), todo),
        Err(e) => missing("the driver does not answer", e, todo),
    }
}

fn nvrtc(folders: &[PathBuf]) -> Found {
    let name = format!("libnvrtc.so.{MAJOR}");
    let todo = "install the CUDA toolkit, or the Python package nvidia-cuda-nvrtc, and name its folder in \
                STRAIGHTLINE_CUDA";
    // the compiler opens these by their name alone
    if let Some(folder) = folders.iter().find(|f| f.join(&name).exists()) {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        for file in names.filter(|n| n.starts_with("libnvrtc-builtins.so.13")) {
            if let Err(e) = open(&file, std::slice::from_ref(folder)) {
                tracing::debug!("{file}: {e}");
            }
        }
    }
    let opened = match open(&name, folders) {
        Ok(opened) => opened,
        Err(e) => return missing(&format!("{name} can not be opened"), e, todo),
    };
    type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    // SAFETY: the function's signature.
    let Ok(get) = (unsafe { opened.library.get::<Version>("nvrtcVersion") }) else {
        return missing(&name, "it has no nvrtcVersion", todo);
    };
    let (mut major, mut minor) = (0, 0);
    // SAFETY: it writes two numbers.
    unsafe { get(&mut major, &mut minor) };
    match major as u32 {
        MAJOR => Found::Here { path: opened.path, version: (MAJOR, minor as u32) },
        _ => missing(&name, format!("it is of CUDA {major}.{minor}"), todo),
    }
}

/// NCCL, once [`availability`] has found it.
static NCCL: OnceLock<&'static Library> = OnceLock::new();

/// The library of what several GPUs do together, if it is here.
pub(crate) fn nccl_library() -> Option<&'static Library> {
    availability().nccl.is_here().then(|| NCCL.get().copied()).flatten()
}

fn nccl(folders: &[PathBuf]) -> Found {
    let name = "libnccl.so.2";
    let todo = "install NCCL, or the Python package nvidia-nccl-cu13, and name its folder in STRAIGHTLINE_CUDA";
    let opened = match open(name, folders) {
        Ok(opened) => opened,
        Err(e) => return missing(&format!("{name} can not be opened"), e, todo),
    };
    match version(opened.library, "ncclGetVersion") {
        Ok(n) => {
            NCCL.get_or_init(|| opened.library);
            Found::Here { path: opened.path, version: (n as u32 / 10_000, n as u32 / 100 % 100) }
        }
        Err(e) => missing(name, e, todo),
    }
}

/// cuBLASLt, once [`availability`] has found it.
static CUBLAS_LT: OnceLock<&'static Library> = OnceLock::new();

/// The library of matrix products, if it is here.
pub(crate) fn cublas_lt_library() -> Option<&'static Library> {
    availability().cublas_lt.is_here().then(|| CUBLAS_LT.get().copied()).flatten()
}

fn cublas_lt(folders: &[PathBuf]) -> Found {
    let name = format!("libcublasLt.so.{MAJOR}");
    let todo = "install the CUDA toolkit, or the Python package nvidia-cublas";
    let opened = match open(&name, folders) {
        Ok(opened) => opened,
        Err(e) => return missing(&format!("{name} can not be opened"), e, todo),
    };
    // SAFETY: the function takes nothing and gives a number.
    let get =
        unsafe { opened.library.get::<unsafe extern "C" fn() -> usize>("cublasLtGetVersion") };
    match get {
        Ok(get) => {
            // SAFETY: as above.
            let n = unsafe { get() } as u32;
            CUBLAS_LT.get_or_init(|| opened.library);
            Found::Here { path: opened.path, version: (n / 10_000, n / 100 % 100) }
        }
        Err(e) => missing(&name, e, todo),
    }
}
