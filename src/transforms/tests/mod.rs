//! The programs of the reference, and what PyTorch gives for them.

mod batches;
mod programs;
