//! What a training loop needs around a network: batches, progress, and files to go on from.
//!
//! ```
//! use straightline::data::{DataLoader, LoaderOptions, TensorDataset};
//! use straightline::Tensor;
//! let data = TensorDataset::new((Tensor::randn([100, 8])?, Tensor::randint(0, 4, [100])?))?;
//! let loader = DataLoader::new(data, LoaderOptions::default().batch_size(32).shuffle(0).workers(2))?;
//! for epoch in 0..2 {
//!     for batch in loader.epoch(epoch)? {
//!         let (x, y) = batch?;
//!         assert_eq!(x.size(0)?, y.size(0)?);
//!     }
//! }
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! | file | what |
//! |---|---|
//! | `dataset` | examples by number; how several become a batch |
//! | `loader` | the batches of an epoch, and the threads that make them |
//! | `progress` | a bar for the terminal, curves as an image |
//! | `checkpoint` | files to go on from, bit for bit |

mod checkpoint;
mod dataset;
mod loader;
mod progress;

pub use checkpoint::{Checkpoint, Checkpoints};
pub use dataset::{Collate, Dataset, Subset, TensorDataset, TensorRows};
pub use loader::{Batches, DataLoader, LoaderOptions};
pub use progress::{Curves, Progress};
