//! Random numbers of work that is recorded.
//!
//! A graph has its kernels' arguments in it, so what it draws can not begin where the generator stands. While
//! steps are recorded, nothing is taken from the generator: kernels are given an address, at which they find
//! a seed and an offset when they run, and what comes before theirs in the same graph. A replay takes the words
//! of the whole graph and writes where they begin, in front of its launch. (This is PyTorch's
//! `PhiloxCudaState`; the offset within a graph is its `offset_intragraph_`.) A graph thus draws what its steps
//! would draw if they were called.

use crate::error::{Error, Result};
use crate::tensor::Generator;
use std::cell::Cell;
use straightline_catalog::Device;
use straightline_cuda::random::Philox;

#[derive(Clone, Copy)]
struct State {
    device: Device,
    /// Where a replay writes the seed and the offset.
    address: u64,
    /// What the steps so far draw of each subsequence.
    words: u64,
}

thread_local! {
    static STATE: Cell<Option<State>> = const { Cell::new(None) };
}

/// Steps are recorded on this thread as long as it lives.
pub(super) struct Recording(Option<State>);

impl Recording {
    /// For a device, with an address of its memory.
    pub(super) fn new(device: Device, address: u64) -> Recording {
        Recording(STATE.replace(Some(State { device, address, words: 0 })))
    }

    /// The words of each subsequence that have been drawn.
    pub(super) fn words(&self) -> u64 {
        STATE.get().map_or(0, |state| state.words)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        STATE.set(self.0);
    }
}

/// What would let a graph do once what is to be done at each replay is an error while steps are recorded.
pub(in crate::cuda) fn check_repeats(what: &str) -> Result<()> {
    match STATE.get() {
        Some(_) => Err(Error::runtime(format!("{what} can not be recorded"))),
        None => Ok(()),
    }
}

/// Words for a launch: of the device's generator, or of the one that is given.
pub(in crate::cuda) fn take(
    device: Device,
    generator: Option<&Generator>,
    words: u64,
) -> Result<Philox> {
    if let Some(mut state) = STATE.get() {
        if generator.is_some() || state.device != device {
            check_repeats("what a generator of its own draws")?;
        }
        let from = Philox { seed: 0, offset: state.words, state: state.address };
        state.words += words;
        STATE.set(Some(state));
        return Ok(from);
    }
    let (seed, offset) = match generator {
        Some(generator) => generator.take(words)?,
        None => Generator::default_of(device).take(words)?,
    };
    Ok(Philox { seed, offset, state: 0 })
}
