//! Makes graphs of runs of steps.
//!
//! A step that waits for the device, runs on the CPU or is not this crate's has to be queued at each run; the
//! longest runs of steps between such ones become graphs. This is what PyTorch's `graph_partition` does of an
//! Inductor schedule, and XLA's command buffers of a sequence of thunks; as there, a run of one launch stays as
//! it is. They know of each operator whether it can be recorded. Here that is found out: a step that can not be
//! recorded says so when it is, which does nothing, and the runs are made anew without it.

use super::queue::Run;
use super::recorded::{self, Found, Key, Part, Pool};
use super::{Loaded, Operands, Places, Program, STATE_BYTES, Stopped, Work, draws};
use crate::cuda::copy::driver;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Generator, Tensor};
use std::ops::Range;
use std::sync::Arc;
use straightline_catalog::Device;
use straightline_cuda::driver::{DriverError, Graph, Stream};
use straightline_passes::schedule::loops::{Extern, Step};

/// Why steps were not recorded.
enum Why {
    /// A step failed.
    Step(usize, Error),
    /// All of them together.
    All(DriverError),
}

impl From<DriverError> for Why {
    fn from(e: DriverError) -> Why {
        Why::All(e)
    }
}

/// A run that is to be recorded.
struct Recorder<'a> {
    pool: &'a Pool,
    loaded: &'a Loaded,
    places: &'a Places<'a>,
    device: Device,
}

impl Program {
    /// Records graphs for these addresses. `None` if there are none for now, or at all.
    pub(super) fn record(
        &self,
        stream: &Stream,
        key: Key,
        loaded: &Loaded,
        of: (&Places<'_>, Operands<'_>),
        device: Device,
    ) -> Option<Arc<Found>> {
        match self.record_all(stream, loaded, of, device) {
            Ok(found) => found.map(|found| self.recorded.keep(key, found)),
            Err(e) => {
                tracing::debug!("nothing is recorded: {e}");
                None
            }
        }
    }

    fn record_all(
        &self,
        stream: &Stream,
        loaded: &Loaded,
        (before, operands): (&Places<'_>, Operands<'_>),
        device: Device,
    ) -> Result<Option<Found>> {
        let pool = recorded::pool(stream)?;
        let turn = pool.enter();
        let layout = self.with_workspace(stream, before)?;
        loop {
            let runs = self.recorded.runs(|run| self.is_worth(run));
            if runs.is_empty() {
                return Ok(None);
            }
            let whole = runs[0] == (0..self.work.len());
            let (room, turns) = match whole {
                true => (pool.room(device, layout.bytes)?, None),
                false => {
                    let (room, turns) = self.recorded.room(stream, device, layout.bytes)?;
                    (room, Some(turns))
                }
            };
            let mut places = Places { layout, ..before.clone() };
            places.settle(room.as_ref().map_or(Ok(0), Tensor::device_address)?, operands);
            let recorder = Recorder { pool: &pool, loaded, places: &places, device };
            if let Some(parts) = self.record_runs(&recorder, &runs)? {
                drop(turn);
                return Ok(Some(Found { parts, room, layout, pool, turns }));
            }
        }
    }

    /// Whether a run of steps is worth a graph: one launch is not.
    fn is_worth(&self, run: &Range<usize>) -> bool {
        !matches!(self.work.get(run.clone()), None | Some([] | [Work::Kernel(_) | Work::Own]))
    }

    /// All steps, of which these runs are graphs. `None` if that can not be, which is known from then on.
    fn record_runs(
        &self,
        recorder: &Recorder<'_>,
        runs: &[Range<usize>],
    ) -> Result<Option<Vec<Part>>> {
        let mut parts = Vec::new();
        let (mut done, mut all) = (0, true);
        for run in runs {
            if done < run.start {
                parts.push(Part::Steps(done..run.start));
            }
            let mut begin = run.start;
            while begin < run.end {
                begin = match self.record_run(recorder, begin..run.end) {
                    Ok((graph, words)) => {
                        parts.push(Part::Graph(graph, words));
                        run.end
                    }
                    // there may be some the next time
                    Err(Why::Step(_, e)) if matches!(e.kind(), ErrorKind::DeviceMemory { .. }) => {
                        return Err(e);
                    }
                    Err(Why::Step(at, e)) => {
                        tracing::debug!("step {at}, {}, is not recorded: {e}", self.name(at));
                        self.recorded.refuse(at..at + 1);
                        all = false;
                        // whether those behind it can be is to be known as well
                        at + 1
                    }
                    Err(Why::All(e)) => {
                        tracing::debug!("steps {run:?} are not recorded: {e}");
                        self.recorded.refuse(run.clone());
                        all = false;
                        run.end
                    }
                };
            }
            done = run.end;
        }
        if done < self.work.len() {
            parts.push(Part::Steps(done..self.work.len()));
        }
        Ok(all.then_some(parts))
    }

    /// A graph of steps, and what it draws.
    fn record_run(
        &self,
        recorder: &Recorder<'_>,
        steps: Range<usize>,
    ) -> std::result::Result<(Graph, u64), Why> {
        let Recorder { pool, loaded, places, device } = *recorder;
        let stream = &pool.recording;
        let draws = draws::Recording::new(device, places.state());
        let graph = Graph::record(stream, || {
            let _current = stream.enter();
            let run = Run { stream, device, loaded, places };
            for at in steps.clone() {
                let queued = self.queue_step(run, at);
                // a step may have hidden that it waited
                let queued = queued.and_then(|()| match stream.is_recorded().map_err(driver)? {
                    true => Ok(()),
                    false => Err(Error::runtime("the step has ended the recording")),
                });
                queued.map_err(|e| Why::Step(at, e))?;
            }
            Ok::<(), Why>(())
        })?;
        Ok((graph, draws.words()))
    }

    /// Launches graphs, and queues the steps between them.
    pub(super) fn replay(&self, found: &Found, run: Run<'_>) -> std::result::Result<(), Stopped> {
        for part in &found.parts {
            match part {
                Part::Graph(graph, words) => self.launch_graph(graph, *words, run)?,
                Part::Steps(steps) => self.queue(run, steps.clone())?,
            }
        }
        Ok(())
    }

    fn launch_graph(&self, graph: &Graph, words: u64, run: Run<'_>) -> Result<()> {
        if words > 0 {
            let (seed, offset) = Generator::default_of(run.device).take(words)?;
            let mut state = [0u8; STATE_BYTES];
            state[..8].copy_from_slice(&seed.to_le_bytes());
            state[8..].copy_from_slice(&offset.to_le_bytes());
            let to = run.places.state();
            // SAFETY: it is a part of the room; the bytes have been read when this returns.
            unsafe { run.stream.to_device(to, state.as_ptr(), STATE_BYTES) }.map_err(driver)?;
        }
        // SAFETY: the addresses are those that it was recorded with; the operands are held while
        // it is queued, and serve others on this stream only after it, as does its room. Programs
        // and constants are as long there as this is.
        unsafe { graph.launch(run.stream) }.map_err(driver)
    }

    /// What a step is.
    fn name(&self, at: usize) -> String {
        match (self.work.get(at), self.schedule.steps.get(at)) {
            (Some(Work::Kernel(i)), _) => self.kernels[*i].name.clone(),
            (_, Some(Step::Extern(Extern::Matmul(_)))) => "matmul".into(),
            (_, Some(Step::Extern(Extern::Convolution(_)))) => "convolution".into(),
            (_, Some(Step::Extern(Extern::Op { op, .. }))) => op.to_string(),
            _ => "a kernel".into(),
        }
    }
}
