//! Weights from files: what `torch.save` and safetensors have written.
//!
//! The [guide](crate::guide::files) has a page about them. Files are mapped and used in place, and
//! whatever they say is checked against them before it is used: a damaged or hostile file is an error
//! that says what is wrong.
//!
//! | file | what |
//! |---|---|
//! | `checkpoint` | `load_checkpoint`, `load_state_dict`: values of what a pickle has built |
//! | `saved` | the tree that a checkpoint is |
//! | `pickle`, `globals`, `calls` | the machine for pickles, the names that it knows, and what they do |
//! | `safetensors` | loading, mapping and saving safetensors |
//! | `archive` | a zip archive over a memory map, whose entries are used in place |
//! | `zip` | the directory of such an archive |
//! | `error` | what can be wrong with a file |

pub(crate) mod archive;
#[cfg(test)]
mod archive_tests;
mod calls;
mod checkpoint;
mod error;
mod globals;
#[cfg(test)]
mod made;
mod pickle;
#[cfg(test)]
mod pickle_tests;
pub(crate) mod safetensors;
mod saved;
mod zip;

pub use checkpoint::{load_checkpoint, load_state_dict};
pub use error::{FileError, FileReason};
pub use safetensors::{load_safetensors, load_safetensors_on, map_safetensors, save_safetensors};
pub use saved::{Key, Saved};
