//! A zip archive over a memory map, whose entries are used in place.

use super::error::{FileError, FileReason};
use super::zip::{self, Place};
use crate::error::Result;
use crate::tensor::{ExternalMemory, Tensor};
use memmap2::{Mmap, MmapMut, MmapOptions};
use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use straightline_catalog::{DType, layout};

/// The bytes of a file.
pub(super) enum Source {
    /// Mapped: pages come from the file when they are read. Nothing here writes them. Where another
    /// library is lent a part and writes it although it is said to be read only (PyTorch does not ask),
    /// it has a page of its own from then on, and the file stays as it is.
    Private(MmapMut),
    /// The same where the system allows no such map, as it may for files larger than its memory.
    Map(Mmap),
    /// In memory.
    Memory(Cow<'static, [u8]>),
}

impl Source {
    /// Maps a file.
    pub(super) fn open(path: &Path) -> std::io::Result<Source> {
        // a pipe would be waited for
        let meta = std::fs::metadata(path)?;
        if !meta.is_file() {
            let what =
                if meta.is_dir() { "this is a folder" } else { "this is a pipe or a device" };
            let message = format!("{what}, and a file is needed");
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, message));
        }
        let file = std::fs::File::open(path)?;
        // SAFETY: the map is only read. Another process that writes or truncates the file meanwhile
        // is the known risk of every memory map, which the documentation of what is public says.
        match unsafe { MmapOptions::new().no_reserve_swap().map_copy(&file) } {
            Ok(map) => Ok(Source::Private(map)),
            // SAFETY: as above.
            Err(_) => Ok(Source::Map(unsafe { Mmap::map(&file) }?)),
        }
    }

    /// All of them.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Source::Private(map) => map,
            Source::Map(map) => map,
            Source::Memory(bytes) => bytes,
        }
    }

    /// A part of them as memory that is only read; errors call it `entry`, of the file at `path`.
    ///
    /// Whoever makes tensors of `bool` over it has looked at the bytes.
    ///
    /// # Errors
    /// No memory for the copy of what is not aligned.
    pub(super) fn memory(
        self: &Arc<Self>,
        part: Range<usize>,
        path: &Path,
        entry: &str,
    ) -> Result<ExternalMemory> {
        let bytes = self.bytes().get(part).unwrap_or_default();
        let file = path.file_name().unwrap_or(path.as_os_str());
        let called = format!("`{entry}` of {}", file.display());
        let (data, keep): (*const u8, Box<dyn Any + Send + Sync>) =
            match bytes.as_ptr().addr().is_multiple_of(ALIGNMENT) {
                true => (bytes.as_ptr(), Box::new(Arc::clone(self))),
                false => {
                    let length = bytes.len() as u64;
                    let copy = aligned(bytes).map_err(|_| {
                        FileError::of_entry(path, entry, FileReason::Memory { bytes: length })
                    })?;
                    (copy.as_ptr().cast(), Box::new(copy))
                }
            };
        // SAFETY: `keep` is the source, of which these bytes are a part and which nobody writes, or a
        // copy of them in memory that does not move with its owner. Those that make tensors of `bool`
        // see to it that their bytes are 0 or 1.
        unsafe { ExternalMemory::read_only(data, bytes.len(), called, keep) }
    }
}

/// A zip archive, the entries of which are stored as they are: PyTorch writes them so. One that is
/// compressed is refused when it is asked for.
///
/// PyTorch puts everything into one folder, named after the file; some of its older archives have
/// none. Names here are those below that folder: without it, if all entries are in it.
pub(crate) struct Archive {
    path: PathBuf,
    source: Arc<Source>,
    /// The folder that all entries are in, with its slash.
    root: String,
    /// Where entries are, by their names below the root.
    entries: BTreeMap<String, Place>,
    /// Entries that tensors lie over, by their places: one memory for all tensors of an entry.
    memories: Mutex<BTreeMap<usize, Weights>>,
}

/// An entry as memory for tensors.
#[derive(Clone)]
struct Weights {
    memory: ExternalMemory,
    /// The first byte, and the last one, that is neither 0 nor 1, if that was asked.
    not_bool: Option<Option<(usize, usize)>>,
}

/// How the data of an entry is aligned, so that tensors of every dtype can lie over it.
const ALIGNMENT: usize = 8;

impl Archive {
    /// Maps an archive and reads its directory.
    ///
    /// # Errors
    /// [`ErrorKind::Archive`](crate::ErrorKind::Archive): there is no such file, it is no zip
    /// archive, or one that is damaged.
    pub(crate) fn open(path: &Path) -> Result<Archive> {
        let source = Source::open(path).map_err(|e| FileError::new(path, e))?;
        Archive::of(path.to_owned(), Arc::new(source))
    }

    /// An archive that is in memory; `name` stands for its path.
    ///
    /// # Errors
    /// As [`Archive::open`].
    #[cfg(test)]
    pub(crate) fn from_bytes(
        name: impl Into<PathBuf>,
        bytes: impl Into<Cow<'static, [u8]>>,
    ) -> Result<Archive> {
        Archive::of(name.into(), Arc::new(Source::Memory(bytes.into())))
    }

    /// The archive in these bytes.
    pub(super) fn of(path: PathBuf, source: Arc<Source>) -> Result<Archive> {
        let found = zip::directory(source.bytes());
        let mut entries = found.map_err(|(entry, reason)| match entry {
            Some(entry) => FileError::of_entry(&path, entry, reason),
            None => FileError::new(&path, reason),
        })?;
        let root = root(&entries);
        if !root.is_empty() {
            let below = entries.into_iter();
            entries = below.map(|(mut name, at)| (name.split_off(root.len()), at)).collect();
        }
        Ok(Archive { path, source, root, entries, memories: Mutex::default() })
    }

    /// The file, or what stands for it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all entries, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Whether there is such an entry.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The bytes of an entry; nothing, if there is no such entry or it is compressed.
    pub(crate) fn entry(&self, name: &str) -> Option<&[u8]> {
        let place = self.entries.get(name).filter(|place| place.method == 0)?;
        self.source.bytes().get(place.range.clone())
    }

    /// The bytes of an entry that has to be there.
    ///
    /// # Errors
    /// There is no such entry, or it is compressed.
    pub(crate) fn bytes(&self, name: &str) -> Result<&[u8]> {
        let range = self.range(name)?;
        Ok(self.source.bytes().get(range).unwrap_or_default())
    }

    /// An error about an entry.
    #[cold]
    pub(crate) fn error(&self, entry: &str, reason: impl Into<FileReason>) -> Box<FileError> {
        FileError::of_entry(&self.path, entry, reason)
    }

    /// A tensor over an entry, which calls may only read; sizes, strides and offset are in elements.
    /// Tensors over one entry share its memory.
    ///
    /// # Errors
    /// There is no such entry; sizes, strides and offset do not fit it
    /// ([`ExternalMemory::tensor`]); bytes of `bool` that are neither 0 nor 1.
    pub(crate) fn tensor(
        &self,
        name: &str,
        dtype: DType,
        sizes: &[i64],
        strides: &[i64],
        offset: i64,
    ) -> Result<Tensor> {
        let memory = self.memory(name)?;
        if dtype == DType::Bool && sizes.iter().all(|s| *s >= 0) {
            // the memory refuses strides and offsets below 0, too
            let until = layout::storage_bytes(1, sizes, strides, offset);
            let from = usize::try_from(offset).unwrap_or(0);
            self.check_bool(name, from..until)?;
        }
        memory.tensor(dtype, sizes, strides, offset)
    }

    /// An entry as memory that is only read, kept alive by the map. It is made once.
    ///
    /// Tensors of `bool` are made by [`Archive::tensor`], which looks at their bytes.
    ///
    /// # Errors
    /// There is no such entry, or no memory for the copy of one that is not aligned.
    pub(crate) fn memory(&self, name: &str) -> Result<ExternalMemory> {
        let range = self.range(name)?;
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = memories.get(&range.start) {
            return Ok(known.memory.clone());
        }
        let called = format!("{}{name}", self.root);
        let memory = self.source.memory(range.clone(), &self.path, &called)?;
        memories.insert(range.start, Weights { memory: memory.clone(), not_bool: None });
        Ok(memory)
    }

    /// Where an entry is.
    fn range(&self, name: &str) -> Result<Range<usize>> {
        let reason = match self.entries.get(name) {
            Some(Place { range, method: 0 }) => return Ok(range.clone()),
            Some(Place { method, .. }) => FileReason::Compressed { method: *method },
            None => FileReason::Missing,
        };
        Err(self.error(name, reason).into())
    }

    /// Refuses bytes of `bool` that are neither 0 nor 1. All bytes are looked at once, however many
    /// tensors lie over them.
    fn check_bool(&self, name: &str, wanted: Range<usize>) -> Result<()> {
        let range = self.range(name)?;
        let bytes = self.source.bytes().get(range.clone()).unwrap_or_default();
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let known = memories.get_mut(&range.start).and_then(|w| w.not_bool.as_mut());
        let found = match known {
            Some(found) => *found,
            None => {
                let first = bytes.iter().position(|b| *b > 1);
                let last = bytes.iter().rposition(|b| *b > 1);
                let found = first.zip(last);
                if let Some(weights) = memories.get_mut(&range.start) {
                    weights.not_bool = Some(found);
                }
                found
            }
        };
        match found {
            Some((first, last)) if wanted.start <= last && first < wanted.end => {
                let value = bytes.get(first).copied().unwrap_or_default();
                Err(self.error(name, FileReason::NotBool { at: first as u64, value }).into())
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive")
            .field("path", &self.path)
            .field("entries", &self.entries.len())
            .finish_non_exhaustive()
    }
}

/// The folder that all entries are in, with its slash; nothing if there is none.
fn root(entries: &BTreeMap<String, Place>) -> String {
    let first = entries.keys().next().and_then(|name| name.split_once('/'));
    let Some((folder, _)) = first else { return String::new() };
    let root = format!("{folder}/");
    match entries.keys().all(|name| name.starts_with(&root)) {
        true => root,
        false => String::new(),
    }
}

/// A copy in memory that is aligned for every dtype.
fn aligned(bytes: &[u8]) -> std::result::Result<Vec<u64>, std::collections::TryReserveError> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len().div_ceil(ALIGNMENT))?;
    let words = bytes.chunks(ALIGNMENT).map(|chunk| {
        let mut word = [0; ALIGNMENT];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        u64::from_ne_bytes(word)
    });
    copy.extend(words);
    Ok(copy)
}
