//! What can be wrong with a file of weights.

use std::fmt;
use std::path::Path;
use straightline_catalog::DType;

/// A file that cannot be read: which one, which of its entries, and why.
///
/// ```
/// use straightline::{ErrorKind, load_state_dict};
/// use straightline::files::FileReason;
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("weights.pt");
/// std::fs::write(&path, "no weights").unwrap();
/// let error = load_state_dict(&path).unwrap_err();
/// let ErrorKind::Archive(found) = error.kind() else { panic!("{error}") };
/// assert!(matches!(found.reason, FileReason::NotAnArchive { .. }));
/// assert!(found.path.ends_with("weights.pt") && found.entry.is_none());
/// ```
#[derive(Debug)]
pub struct FileError {
    /// The file.
    pub path: String,
    /// The entry of the archive, where it is about one.
    pub entry: Option<String>,
    /// What is wrong.
    pub reason: FileReason,
}

impl FileError {
    /// An error about a file as a whole.
    #[cold]
    pub(crate) fn new(path: &Path, reason: impl Into<FileReason>) -> Box<FileError> {
        Box::new(FileError { path: path.display().to_string(), entry: None, reason: reason.into() })
    }

    /// An error about an entry of an archive.
    #[cold]
    pub(crate) fn of_entry(
        path: &Path,
        entry: impl Into<String>,
        reason: impl Into<FileReason>,
    ) -> Box<FileError> {
        Box::new(FileError {
            path: path.display().to_string(),
            entry: Some(entry.into()),
            reason: reason.into(),
        })
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path)?;
        if let Some(entry) = &self.entry {
            write!(f, "entry `{}`: ", entry.escape_debug())?;
        }
        write!(f, "{}", self.reason)
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.reason)
    }
}

/// What is wrong with a file. Positions and lengths are in bytes; positions count from the beginning
/// of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileReason {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is no zip archive.
    #[error("this is no zip archive: its {bytes} bytes do not end in the directory of one")]
    NotAnArchive {
        /// How long the file is.
        bytes: u64,
    },
    /// It begins as an archive and does not end as one.
    #[error(
        "the archive is cut off: it begins as a zip archive, and its {bytes} bytes do not end in a directory"
    )]
    CutOff {
        /// How long the file is.
        bytes: u64,
    },
    /// Something lies outside of the file, or of the part of it where it belongs.
    #[error("{what} has {bytes} bytes at {at}, and must end at {end}")]
    Truncated {
        /// What does.
        what: &'static str,
        /// Where it begins.
        at: u64,
        /// How long it is.
        bytes: u64,
        /// Where it has to end.
        end: u64,
    },
    /// A record is not where the directory says that it is.
    #[error("{what} should be at {at}, and is not there")]
    NoRecord {
        /// The record.
        what: &'static str,
        /// Where it should be.
        at: u64,
    },
    /// Two places that say the same thing differ.
    #[error("{what} is {one} in one place, and {other} in another")]
    Contradiction {
        /// What they say.
        what: &'static str,
        /// What it is here.
        one: u64,
        /// What it is there.
        other: u64,
    },
    /// The archive is a part of several.
    #[error("the archive is spread over {disks} files: join them first")]
    SeveralDisks {
        /// How many, as far as it says.
        disks: u64,
    },
    /// An entry is encrypted, or changed in another way.
    #[error("it is encrypted (flags {flags:#06x})")]
    Encrypted {
        /// The flags that say so.
        flags: u16,
    },
    /// An entry is compressed.
    #[error(
        "it is compressed (method {method}): PyTorch stores entries as they are, so that they can be mapped; \
         unpack the archive and pack it without compression (`zip -0`)"
    )]
    Compressed {
        /// The number of the method.
        method: u16,
    },
    /// A name that no entry may have.
    #[error("the name is not allowed: {why}")]
    Name {
        /// Why not.
        why: &'static str,
    },
    /// A name that two entries have.
    #[error("there are several entries of this name")]
    Duplicate,
    /// Two entries share bytes.
    #[error("it overlaps with `{}`", .other.escape_debug())]
    Overlap {
        /// The other one.
        other: String,
    },
    /// The directory calls an entry something else than the entry itself does.
    #[error("before its data it is called `{}`", .local.escape_debug())]
    NameDiffers {
        /// What it is called there.
        local: String,
    },
    /// An entry that has to be there is not.
    #[error("there is no such entry")]
    Missing,
    /// No memory for a copy of an entry.
    #[error("no memory for the {bytes} bytes of its copy")]
    Memory {
        /// How many bytes it has.
        bytes: u64,
    },
    /// Bytes of `bool` that are neither 0 nor 1.
    #[error("byte {at} of it is {value}, and truth values are 0 or 1")]
    NotBool {
        /// Which byte of the entry.
        at: u64,
        /// What it is.
        value: u8,
    },
    /// A file of PyTorch before 1.6, or one written with `_use_new_zipfile_serialization=False`.
    #[error(
        "this is {what} as PyTorch wrote it before 1.6: convert it in Python with \
         `torch.save(torch.load(old, weights_only=True), new)`"
    )]
    Legacy {
        /// What it is.
        what: &'static str,
    },
    /// An archive of something else.
    #[error("this is {what}, and no checkpoint: {instead}")]
    NotCheckpoint {
        /// What it is.
        what: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// Numbers in another byte order.
    #[error("its numbers are in byte order `{}`, and are read in `little`: save it on such a machine", .order.escape_debug())]
    ByteOrder {
        /// The order.
        order: String,
    },
    /// The pickle names something that is neither a tensor nor plain data.
    #[error("at byte {at} the pickle names `{}`, {}", .name.escape_debug(), Advice(.name))]
    Refused {
        /// What it names, `module.name`.
        name: String,
        /// At which byte of the pickle.
        at: u64,
    },
    /// An instruction that pickles of tensors do not have.
    #[error(
        "at byte {at} the pickle has instruction {opcode:#04x}, which pickles of plain data do not have"
    )]
    Instruction {
        /// The instruction.
        opcode: u8,
        /// At which byte of the pickle.
        at: u64,
    },
    /// The pickle is damaged.
    #[error("the pickle is damaged at byte {at}: {what}")]
    Pickle {
        /// What is wrong.
        what: &'static str,
        /// At which byte of the pickle.
        at: u64,
    },
    /// The pickle uses values again and again, so that they would fill the memory.
    #[error(
        "the pickle of {bytes} bytes uses what it has made so often that it would be much larger than itself"
    )]
    Expands {
        /// How long it is.
        bytes: u64,
    },
    /// Values in values in values, or a value that contains itself.
    #[error("{} is in {levels} others: either nested too deeply, or a part of itself", Place(.place))]
    TooDeep {
        /// Where it is.
        place: String,
        /// How many levels are read.
        levels: usize,
    },
    /// A value that is no data of a checkpoint.
    #[error("{} is {what}", Place(.place))]
    Value {
        /// Where it is.
        place: String,
        /// What it is, and what to do.
        what: &'static str,
    },
    /// A tensor of a dtype that the crate does not have.
    #[error("tensor {} has dtype {dtype}, which is not supported: convert it before saving", Place(.tensor))]
    DType {
        /// Where the tensor is.
        tensor: String,
        /// Its dtype.
        dtype: &'static str,
    },
    /// A tensor that reaches outside of its memory.
    #[error(
        "tensor {} of {dtype}{sizes:?} with strides {strides:?} at element {offset} does not lie in the {bytes} bytes \
         of its storage", Place(.tensor)
    )]
    Outside {
        /// Where the tensor is.
        tensor: String,
        /// Its dtype.
        dtype: DType,
        /// Its sizes.
        sizes: Vec<i64>,
        /// Its strides.
        strides: Vec<i64>,
        /// Its first element.
        offset: i64,
        /// How many bytes its storage has.
        bytes: u64,
    },
    /// A storage is shorter than the pickle says.
    #[error("tensor {} is said to lie in a storage of {said} bytes, which has {bytes}", Place(.tensor))]
    Storage {
        /// Where the tensor is.
        tensor: String,
        /// How many bytes the pickle says.
        said: u64,
        /// How many there are.
        bytes: u64,
    },
}

/// What to do about a name.
struct Advice<'a>(&'a str);

impl fmt::Display for Advice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("and a checkpoint is made of tensors and plain data alone, so that reading it runs no code: ")?;
        f.write_str(match self.0.starts_with("numpy") {
            true => "before saving, turn numpy's scalars into Python's with `.item()`, and arrays into tensors",
            false => {
                "save the state of the model and not the model, `torch.save(model.state_dict(), path)`, and leave out \
                 other objects"
            }
        })
    }
}

/// Where a value is.
struct Place<'a>(&'a str);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => f.write_str("at the top"),
            place => write!(f, "`{}`", place.escape_debug()),
        }
    }
}
