//! What can be wrong with a file of weights.

use std::fmt;
use std::path::Path;

/// A file that cannot be read: which one, which of its entries, and why.
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
    #[error("there is no {what} at {at}")]
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
}
