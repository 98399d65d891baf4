//! Weights from files.
//!
//! | file | what |
//! |---|---|
//! | `archive` | a zip archive over a memory map, whose entries are used in place |
//! | `zip` | the directory of such an archive |
//! | `error` | what can be wrong with a file |

#[allow(dead_code, reason = "the readers of what is in archives come next")]
pub(crate) mod archive;
#[cfg(test)]
mod archive_tests;
mod error;
#[cfg(test)]
mod made;
mod zip;

pub use error::{FileError, FileReason};
