//! Loading the mock into a test's process.

use crate::stub;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What cargo names the library.
const LIBRARY: &str = "libstraightline_mock_driver.so";
/// Its SONAME.
const CUDA: &str = "libcuda.so.1";
/// Names under which programs look for what it has, beside its own. The first ones tried are those
/// without a version: they have to be ours too, where the real libraries are installed.
const STUBS: [&str; 5] =
    ["libcuda.so", "libcublasLt.so", "libcublasLt.so.13", "libnccl.so", "libnccl.so.2"];

/// Where the libraries are.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The mock itself, as cargo built it.
    pub library: PathBuf,
    /// A folder with `libcuda.so.1`, `libcuda.so`, `libcublasLt.so`, `libcublasLt.so.13`,
    /// `libnccl.so` and `libnccl.so.2`. A process that is started with it in `LD_LIBRARY_PATH` uses the mock.
    pub folder: PathBuf,
}

/// Why the mock cannot be loaded.
#[derive(Debug)]
pub enum Error {
    /// The library is in none of the folders where it is looked for.
    NotBuilt {
        /// these folders
        folders: Vec<PathBuf>,
    },
    /// A `libcuda.so.1` is loaded already that is not this one.
    OtherDriver,
    /// The folder of [`Paths::folder`] cannot be made.
    Folder {
        /// which one
        path: PathBuf,
        /// why
        error: io::Error,
    },
    /// The dynamic linker refused.
    Linker {
        /// what it says
        message: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotBuilt { folders } => {
                write!(f, "{LIBRARY} is in none of")?;
                folders.iter().try_for_each(|folder| write!(f, " {}", folder.display()))
            }
            Error::OtherDriver => write!(f, "another {CUDA} is loaded in this process"),
            Error::Folder { path, error } => write!(f, "{}: {error}", path.display()),
            Error::Linker { message } => write!(f, "{message}"),
        }
    }
}

impl std::error::Error for Error {}

/// Finds the libraries, and writes those that only have a name.
///
/// The mock is looked for where `STRAIGHTLINE_MOCK_LIBRARY` says, and where cargo puts it: beside
/// the running program, in the folder above and in `deps`; the newest of these counts.
pub fn build_paths() -> Result<Paths, Error> {
    let mut folders = Vec::new();
    let stated = std::env::var_os("STRAIGHTLINE_MOCK_LIBRARY").map(PathBuf::from);
    if let Ok(program) = std::env::current_exe() {
        for folder in program.ancestors().skip(1).take(2) {
            folders.push(folder.to_path_buf());
            folders.push(folder.join("deps"));
        }
    }
    let built = folders.iter().map(|folder| folder.join(LIBRARY));
    // cargo leaves old ones behind where it built the library for its own sake
    let made = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    let newest = built.filter(|path| path.is_file()).max_by_key(made);
    let Some(library) = stated.filter(|path| path.is_file()).or(newest) else {
        return Err(Error::NotBuilt { folders });
    };
    let beside = library.parent().map(|parent| parent.join("straightline-mock-driver"));
    let elsewhere = std::env::temp_dir().join(format!("straightline-mock-{}", std::process::id()));
    let folder = match beside {
        Some(beside) if fill(&beside, &library).is_ok() => beside,
        _ => {
            let failed = |error| Error::Folder { path: elsewhere.clone(), error };
            fill(&elsewhere, &library).map_err(failed)?;
            elsewhere
        }
    };
    Ok(Paths { library, folder })
}

/// Writes the folder. Several processes may do so at once.
fn fill(folder: &Path, library: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let library = library.canonicalize()?;
    let name = folder.join(CUDA);
    if std::fs::read_link(&name).ok().as_deref() != Some(&*library) {
        let new = folder.join(format!("{CUDA}.{}", std::process::id()));
        let _ = std::fs::remove_file(&new);
        std::os::unix::fs::symlink(&library, &new)?;
        std::fs::rename(&new, &name)?;
    }
    for stub in STUBS {
        let (name, contents) = (folder.join(stub), stub::library(stub, CUDA));
        if std::fs::read(&name).ok().as_ref() != Some(&contents) {
            let new = folder.join(format!("{stub}.{}", std::process::id()));
            std::fs::write(&new, contents)?;
            std::fs::rename(&new, &name)?;
        }
    }
    Ok(())
}

/// Loads the mock under the names of CUDA's libraries, for the rest of the process. It has to run
/// before any of them is used; a second call gives the same mock.
pub fn preload() -> Result<Mock, Error> {
    let paths = build_paths()?;
    // SAFETY: a name, and not loading anything
    let loaded =
        unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if !loaded.is_null() && symbol(loaded, c"straightline_mock_reset").is_err() {
        return Err(Error::OtherDriver);
    }
    let mock = open(&paths.library)?;
    for stub in STUBS {
        open(&paths.folder.join(stub))?;
    }
    let [fault, reset, set, statistics] = [
        symbol(mock, c"straightline_mock_last_fault")?,
        symbol(mock, c"straightline_mock_reset")?,
        symbol(mock, c"straightline_mock_set")?,
        symbol(mock, c"straightline_mock_statistics")?,
    ];
    // SAFETY: functions of the library that was built from this crate, with these signatures
    unsafe {
        Ok(Mock {
            fault: std::mem::transmute::<*mut c_void, LastFault>(fault),
            reset: std::mem::transmute::<*mut c_void, Reset>(reset),
            set: std::mem::transmute::<*mut c_void, Set>(set),
            statistics: std::mem::transmute::<*mut c_void, Statistics>(statistics),
        })
    }
}

/// Opens a library for good, its symbols visible to all.
fn open(path: &Path) -> Result<*mut c_void, Error> {
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|error| Error::Linker { message: error.to_string() })?;
    // SAFETY: a path; the library's constructors are those of Rust's standard library
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if library.is_null() { Err(linker_error()) } else { Ok(library) }
}

fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, Error> {
    // SAFETY: a library that is open, and a name
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() { Err(linker_error()) } else { Ok(found) }
}

fn linker_error() -> Error {
    // SAFETY: gives null or text that stays until this thread's next call of the linker
    let text = unsafe { libc::dlerror() };
    let message = if text.is_null() {
        "the dynamic linker gives no reason".to_owned()
    } else {
        // SAFETY: not null (see above)
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    Error::Linker { message }
}

type LastFault = extern "C" fn(*mut c_char, usize) -> usize;
type Reset = extern "C" fn();
type Set = extern "C" fn(*const c_char, *const c_char) -> c_int;
type Statistics = extern "C" fn(*const c_char) -> u64;

/// What a test asks the mock beyond the interface of CUDA.
#[derive(Clone, Copy, Debug)]
pub struct Mock {
    fault: LastFault,
    reset: Reset,
    set: Set,
    statistics: Statistics,
}

/// A test that has the mock for itself.
#[derive(Debug)]
pub struct Alone {
    mock: Mock,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.mock.settings(&[
            ("devices", ""),
            ("memory", ""),
            ("order", ""),
            ("races", ""),
            ("patience", ""),
        ]);
    }
}

impl Mock {
    /// Why work failed last, or why a module was refused: for a kernel its name, block, thread,
    /// line and instruction. Empty if nothing failed.
    pub fn last_fault(&self) -> String {
        let length = (self.fault)(std::ptr::null_mut(), 0);
        let mut buffer = vec![0_u8; length + 1];
        (self.fault)(buffer.as_mut_ptr().cast(), buffer.len());
        buffer.truncate(length);
        String::from_utf8_lossy(&buffer).into_owned()
    }

    /// Forgets all that there is: handles of before are invalid from then on.
    pub fn reset(&self) {
        (self.reset)();
    }

    /// Waits until no other test has the mock, makes settings (`devices`, `memory`, `order`,
    /// `races`, `patience`: see [the crate](crate)) and begins anew. Tests of one process that run at once
    /// would otherwise meet in one primary context.
    pub fn alone(&self, settings: &[(&str, &str)]) -> Alone {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        self.settings(settings);
        self.reset();
        Alone { mock: *self, _turn: turn }
    }

    fn settings(&self, settings: &[(&str, &str)]) {
        for (name, value) in settings {
            let text = |text: &str| CString::new(text).unwrap_or_default();
            let (name, value) = (text(name), text(value));
            (self.set)(name.as_ptr(), value.as_ptr());
        }
    }

    /// A number by its name; `None` if there is none of this name.
    ///
    /// - of an entry point (`cuLaunchKernel`): how often it was called, and `calls`: all of them
    /// - done since the last reset: `launches` of kernels by calls, `graph_launches`, `kernels` run
    ///   (those of graphs included), what the interpreter counts of them (`instructions`,
    ///   `global_loads`, `bytes_loaded`, `widest_load`, `sectors_loaded`, `bank_conflicts`, `barriers`
    ///   ..., the names of its `Statistics`), `copies`, `copied_bytes`,
    ///   `fills`, `products` of cuBLASLt, `collectives` of NCCL, `host_functions`
    /// - there now: `queued` tasks, `allocations`, `allocated_bytes`, `pinned_bytes`, `streams`,
    ///   `events`, `graphs`, `executables`, `modules`
    pub fn statistic(&self, name: &str) -> Option<u64> {
        let name = CString::new(name).ok()?;
        Some((self.statistics)(name.as_ptr())).filter(|value| *value != u64::MAX)
    }
}
