//! Programs that are compiled once: kept in memory for each device, and on disk.
//!
//! A program is its text. On disk a binary is under a name made of text, options, target and NVRTC's
//! version, with all of these in the file, so that no chance of equal names matters. The folder is
//! `STRAIGHTLINE_CUDA_CACHE`, or `straightline/cuda` in `XDG_CACHE_HOME` or `~/.cache`; where it can not
//! be used, programs are compiled in each process.

use crate::allocator::AllocationError;
use crate::driver::{Device, DriverError, Function, Module};
use crate::goldens;
use crate::loader::{Found, availability};
use crate::nvrtc::{self, Binary, CompileError, Target};
use std::collections::HashMap;
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The name of the device that interprets PTX instead of running machine code.
pub const EMULATOR: &str = "PTX emulator";

/// Why there is no program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProgramError {
    /// NVRTC has not compiled it.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The driver has not loaded it.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// There is no memory for what it needs beside its results.
    #[error(transparent)]
    Memory(#[from] AllocationError),
}

type Functions = Arc<[Function]>;

/// The kernels of a program, in the order of their names here; compiled if it is new.
///
/// # Errors
///
/// [`ProgramError`].
pub fn functions(
    device: &'static Device,
    text: &str,
    names: &[&str],
) -> Result<Functions, ProgramError> {
    static LOADED: OnceLock<Mutex<HashMap<(u32, String), Module>>> = OnceLock::new();
    let loaded = LOADED.get_or_init(Mutex::default);
    let key = (device.ordinal(), text.to_string());
    let lock = || loaded.lock().unwrap_or_else(PoisonError::into_inner);
    let found = lock().get(&key).cloned();
    let module = match found {
        Some(module) => module,
        None => {
            // two threads may compile the same program at first
            let module = Module::load(device, &binary(text, target(device))?)?;
            lock().entry(key).or_insert(module).clone()
        }
    };
    let all: Result<Vec<Function>, DriverError> =
        names.iter().map(|name| module.function(name)).collect();
    Ok(all?.into())
}

/// The kernels of programs by what decides their texts, which take longer to write and to compare than
/// a launch takes.
pub(crate) struct Known<K>(OnceLock<Mutex<HashMap<(u32, K), Functions>>>);

impl<K: Eq + Hash> Known<K> {
    pub(crate) const fn new() -> Known<K> {
        Known(OnceLock::new())
    }

    /// As [`functions`]; `text` is asked for where the program is new.
    pub(crate) fn functions<E: From<ProgramError>>(
        &self,
        device: &'static Device,
        key: K,
        names: &[&str],
        text: impl FnOnce() -> Result<String, E>,
    ) -> Result<Functions, E> {
        let known = self.0.get_or_init(Mutex::default);
        let key = (device.ordinal(), key);
        let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lock().get(&key) {
            return Ok(found.clone());
        }
        let made = functions(device, &text()?, names)?;
        Ok(lock().entry(key).or_insert(made).clone())
    }
}

/// What programs for a device are compiled to.
fn target(device: &Device) -> Target {
    let properties = device.properties();
    match properties.name == EMULATOR {
        true => Target::Ptx { capability: properties.capability },
        false => Target::Cubin { capability: properties.capability },
    }
}

/// The binary of a program: from disk, or compiled and put there.
///
/// # Errors
///
/// [`CompileError`].
pub fn binary(text: &str, target: Target) -> Result<Binary, CompileError> {
    if let (Target::Ptx { .. }, Some(folder)) = (target, goldens::folder()) {
        return goldens::binary(&folder, text, target);
    }
    let version = match &availability().nvrtc {
        Found::Here { version, .. } => *version,
        Found::Missing { .. } => (0, 0),
    };
    let head = head(text, target, version);
    if let Some(code) = remembered(&head) {
        return Ok(Binary { target, code, resources: Vec::new(), took: Duration::ZERO });
    }
    let binary = nvrtc::compile(text, target)?;
    remember(&head, &binary.code);
    Ok(binary)
}

/// Bytes that are kept on disk by a key, beside the programs.
pub(crate) fn remembered(key: &str) -> Option<Vec<u8>> {
    kept(std::fs::read(file_of(key)?).ok()?, key)
}

/// Keeps bytes on disk by a key, if that is possible.
pub(crate) fn remember(key: &str, bytes: &[u8]) {
    if let Some(file) = file_of(key)
        && let Err(e) = keep(&file, key, bytes)
    {
        tracing::debug!("{}: {e}", file.display());
    }
}

fn file_of(key: &str) -> Option<PathBuf> {
    folder().map(|f| f.join(name(key)))
}

/// Whether there is a compiler, or a folder of what one has made.
///
/// ```
/// use straightline_cuda::{availability, programs};
/// assert!(programs::are_made() || !availability().nvrtc.is_here());
/// ```
pub fn are_made() -> bool {
    availability().nvrtc.is_here() || goldens::folder().is_some()
}

/// What decides a binary.
pub(crate) fn head(text: &str, target: Target, (major, minor): (u32, u32)) -> String {
    format!("{target} {major}.{minor} {}\n{text}", nvrtc::OPTIONS.join(" "))
}

/// The name of its file.
pub(crate) fn name(head: &str) -> String {
    format!("{:016x}{:016x}", hash(head, 0), hash(head, 1))
}

/// A number of a text, the same in every build.
pub(crate) fn digest(text: &str) -> u64 {
    hash(text, 0)
}

/// FNV-1a, from one of two beginnings.
fn hash(text: &str, which: u64) -> u64 {
    hash_of(text.as_bytes(), which)
}

fn hash_of(bytes: &[u8], which: u64) -> u64 {
    let begin = 0xcbf2_9ce4_8422_2325 ^ which.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bytes.iter().fold(begin, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

fn folder() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = || named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|h| h.join(".cache")));
    named("STRAIGHTLINE_CUDA_CACHE").or_else(|| cache().map(|c| c.join("straightline/cuda")))
}

/// The code of a file, if it is of this head.
fn kept(file: Vec<u8>, head: &str) -> Option<Vec<u8>> {
    let (length, rest) = file.split_first_chunk::<8>()?;
    let (sum, rest) = rest.split_first_chunk::<8>()?;
    let (mine, code) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let whole = u64::from_le_bytes(*sum) == hash_of(code, 0);
    (whole && mine == head.as_bytes()).then(|| code.to_vec())
}

/// Writes a file beside its place and moves it there, so that nobody sees half of it.
fn keep(file: &std::path::Path, head: &str, code: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let beside = file.with_extension(format!("{}-{count}", std::process::id()));
    let length = (head.len() as u64).to_le_bytes();
    let sum = hash_of(code, 0).to_le_bytes();
    std::fs::write(&beside, [&length[..], &sum, head.as_bytes(), code].concat())?;
    std::fs::rename(&beside, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_of_its_own_text_alone() {
        let folder = std::env::temp_dir().join(format!("straightline-{}", std::process::id()));
        let file = folder.join("program");
        keep(&file, "head", b"code").unwrap();
        let bytes = std::fs::read(&file).unwrap();
        assert_eq!(kept(bytes.clone(), "head").as_deref(), Some(&b"code"[..]));
        assert_eq!(kept(bytes.clone(), "haed"), None);
        assert_eq!(kept(bytes[..10].to_vec(), "head"), None);
        assert_eq!(kept(bytes[..bytes.len() - 1].to_vec(), "head"), None);
        assert_eq!(kept(Vec::new(), "head"), None);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
