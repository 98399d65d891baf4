//! Work itself: what happens when a task's turn has come.

use super::graph::Node;
use super::memory::POISON;
use super::work::{Copy, Kernel, Place, Work};
use super::{Failure, Order, Session};
use crate::abi::FillNode;
use crate::code::Code;
use crate::door;
use std::sync::Arc;
use straightline_ptx_interpreter::{Launch, Options, WarpOrder};

/// Estimated nanoseconds: of starting a kernel or a copy.
const START: u64 = 2_000;

fn illegal(text: String) -> Failure {
    Failure { code: Code::ILLEGAL_ADDRESS, text }
}

impl Session {
    /// Does a piece of work.
    pub(crate) fn perform(&mut self, work: &Work) -> Result<(), Failure> {
        match work {
            Work::Empty | Work::Wait { .. } => Ok(()),
            Work::Kernel(kernel) => self.perform_kernel(kernel),
            Work::Copy(copy) => self.perform_copy(copy),
            Work::Fill(fill) => self.perform_fill(fill),
            Work::Host { function, data } => {
                self.counts.host_functions += 1;
                let clock = self.clock;
                self.outside(|| function(*data));
                self.clock = clock;
                Ok(())
            }
            Work::Record { event, number } => {
                let time = self.clock;
                if let Some(row) = self.events.get_mut(event)
                    && number.is_none_or(|number| number == row.record)
                {
                    row.time = Some(time);
                }
                Ok(())
            }
            Work::Allocate { address, bytes } => {
                // whoever wrote there without waiting for this loses what he wrote
                self.memory.fill(*address, &[POISON], *bytes).map_err(|error| {
                    illegal(format!(
                        "memory at {address:#x} that was allocated in a stream is gone: {error}"
                    ))
                })
            }
            Work::Free { address } => {
                if !self.release(*address) {
                    return Err(illegal(format!("memory at {address:#x} is freed twice")));
                }
                Ok(())
            }
            Work::Product(product) => {
                self.counts.products += 1;
                self.clock += START + product.estimate();
                product.compute(self)
            }
            Work::Graph(nodes) => self.perform_graph(nodes),
            Work::Collective(collective) => {
                self.counts.collectives += 1;
                self.clock += START;
                collective.compute(self)
            }
        }
    }

    fn perform_graph(&mut self, nodes: &Arc<Vec<Node>>) -> Result<(), Failure> {
        let sorted = self.sort(nodes).unwrap_or_default();
        for node in sorted.iter().filter(|node| node.enabled) {
            match &node.work {
                // a graph's memory stays until the graph goes
                Work::Free { address } => {
                    let bytes = self.block(*address).map_or(0, |(_, block)| block.bytes);
                    if self.memory.fill(*address, &[POISON], bytes).is_err() {
                        return Err(illegal(format!("memory of a graph at {address:#x} is gone")));
                    }
                }
                work => self.perform(work)?,
            }
        }
        Ok(())
    }

    fn perform_kernel(&mut self, kernel: &Kernel) -> Result<(), Failure> {
        let missing = || Failure {
            code: Code::LAUNCH_FAILED,
            text: "a queued kernel's module was unloaded before it ran".to_owned(),
        };
        // blocks and warps have no order either
        let warp_order = match self.configuration.order {
            Order::Random(_) => WarpOrder::Shuffled(self.draw(usize::MAX) as u64),
            _ => WarpOrder::Forward,
        };
        let function = self.functions.get(&kernel.function).ok_or_else(missing)?;
        let name = function.name.clone();
        let module = self.modules.get(&function.module).ok_or_else(missing)?.loaded.clone();
        let check_races = self.configuration.races;
        let options = Options { warp_order, check_races, ..Options::default() };
        let launch = Launch {
            grid: kernel.grid,
            block: kernel.block,
            dynamic_shared: kernel.shared,
            params: &kernel.parameters,
        };
        self.counts.kernels += 1;
        match straightline_ptx_interpreter::launch(
            &module,
            &name,
            &launch,
            &mut self.memory,
            &options,
        ) {
            Ok(statistics) => {
                self.counts.add(&statistics);
                // as if 132 multiprocessors did 128 instructions per nanosecond together
                self.clock += START + statistics.instructions / 16_384;
                Ok(())
            }
            Err(fault) => {
                Err(Failure { code: super::function::code_of(&fault), text: fault.to_string() })
            }
        }
    }

    fn perform_fill(&mut self, fill: &FillNode) -> Result<(), Failure> {
        let bytes = fill.element as usize;
        let pattern = fill.value.to_le_bytes();
        let pattern = &pattern[..bytes.min(4)];
        self.counts.fills += 1;
        self.clock += START + (fill.width * fill.height.max(1) * bytes) as u64 / 2_000;
        for row in 0..fill.height.max(1) {
            let to = fill.to + (row * fill.pitch) as u64;
            self.memory.fill(to, pattern, fill.width as u64).map_err(|error| {
                illegal(format!("a fill of {} elements at {to:#x}: {error}", fill.width))
            })?;
        }
        Ok(())
    }

    fn perform_copy(&mut self, copy: &Copy) -> Result<(), Failure> {
        for side in [&copy.from, &copy.to] {
            if let Place::Host(address, Some(number)) = side.place {
                self.still_pinned(address, number)?;
            }
        }
        let bytes = (copy.width * copy.height * copy.depth) as u64;
        self.counts.copies += 1;
        self.counts.copied_bytes += bytes;
        self.clock += START + bytes / 50;
        let together = |side: &super::work::Side| {
            copy.height == 1
                || side.pitch == copy.width
                    && (copy.depth == 1 || side.plane == copy.width * copy.height)
        };
        if together(&copy.from) && together(&copy.to) {
            return self.copy_row(copy, 0, 0, bytes as usize);
        }
        for plane in 0..copy.depth {
            for row in 0..copy.height {
                let from = plane * copy.from.plane + row * copy.from.pitch;
                let to = plane * copy.to.plane + row * copy.to.pitch;
                self.copy_row(copy, from, to, copy.width)?;
            }
        }
        Ok(())
    }

    /// Copies bytes that lie together, from offsets of the two places.
    fn copy_row(
        &mut self,
        copy: &Copy,
        from: usize,
        to: usize,
        bytes: usize,
    ) -> Result<(), Failure> {
        let wrong = |side: &str, address: u64, error: &dyn std::fmt::Display| {
            illegal(format!("a copy of {bytes} bytes {side} {address:#x}: {error}"))
        };
        if let (Place::Device(source), Place::Device(target)) = (&copy.from.place, &copy.to.place) {
            let (source, target) = (source + from as u64, target + to as u64);
            return self
                .memory
                .copy(target, source, bytes as u64)
                .map_err(|error| wrong(&format!("from {source:#x} to"), target, &error));
        }
        let staged;
        let data: &[u8] = match &copy.from.place {
            Place::Device(source) => {
                let source = source + from as u64;
                let mut data = vec![0; bytes];
                self.memory
                    .read(source, &mut data)
                    .map_err(|error| wrong("from", source, &error))?;
                staged = data;
                &staged
            }
            Place::Host(source, _) => {
                // SAFETY: pinned memory that is still pinned (see above), or memory that the caller
                // of a copy keeps until the copy has run
                staged = unsafe { door::read_host(source + from, bytes) };
                &staged
            }
            Place::Staged(data) => match data.get(from..from + bytes) {
                Some(data) => data,
                None => return Err(illegal("a copy is larger than what was staged".to_owned())),
            },
        };
        match &copy.to.place {
            Place::Device(target) => {
                let target = target + to as u64;
                self.memory.write(target, data).map_err(|error| wrong("to", target, &error))
            }
            Place::Host(target, _) => {
                // SAFETY: as for the source; `data` is a copy of our own
                unsafe { door::write_host(target + to, data) };
                Ok(())
            }
            Place::Staged(_) => Err(illegal("a copy to what was staged".to_owned())),
        }
    }
}
