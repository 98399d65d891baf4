//! What a collective does when all of its ranks are there.

use super::element::{Element, Reduction};
use crate::code::Code;
use crate::driver::{Driver, Failure};

/// Which one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    AllReduce(Reduction),
    AllGather,
    ReduceScatter(Reduction),
    Broadcast(usize),
    Reduce(Reduction, usize),
    /// from the first of its two ranks to the second
    Transfer,
}

/// Where a rank's data is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) send: u64,
    pub(crate) receive: u64,
}

/// A collective, as far as its ranks have called it.
#[derive(Clone, Debug)]
pub(crate) struct Collective {
    pub(crate) kind: Kind,
    pub(crate) element: Element,
    /// elements: of a rank's part where there are parts
    pub(crate) count: usize,
    /// by rank
    pub(crate) parts: Vec<Option<Part>>,
}

impl Collective {
    /// Ranks that have not called it.
    pub(crate) fn missing(&self) -> Vec<usize> {
        (0..self.parts.len()).filter(|rank| self.parts[*rank].is_none()).collect()
    }

    /// Does it.
    pub(crate) fn compute(&self, driver: &mut Driver) -> Result<(), Failure> {
        let parts: Vec<Part> = self.parts.iter().flatten().copied().collect();
        let ranks = parts.len();
        let part = self.count * self.element.bytes();
        let read = |driver: &Driver, rank: usize, bytes: usize| {
            let mut data = vec![0; bytes];
            match driver.memory.read(parts[rank].send, &mut data) {
                Ok(()) => Ok(data),
                Err(error) => Err(self.failure("sends", rank, &error)),
            }
        };
        let all = |driver: &Driver, bytes| {
            (0..ranks).map(|rank| read(driver, rank, bytes)).collect::<Result<Vec<_>, _>>()
        };
        let write = |driver: &mut Driver, rank: usize, data: &[u8]| {
            let to = parts[rank].receive;
            driver.memory.write(to, data).map_err(|error| self.failure("receives", rank, &error))
        };
        match self.kind {
            Kind::AllReduce(reduction) => {
                let result = self.element.reduce(reduction, &all(driver, part)?);
                (0..ranks).try_for_each(|rank| write(driver, rank, &result))
            }
            Kind::Reduce(reduction, root) => {
                let result = self.element.reduce(reduction, &all(driver, part)?);
                write(driver, root, &result)
            }
            Kind::AllGather => {
                let result = all(driver, part)?.concat();
                (0..ranks).try_for_each(|rank| write(driver, rank, &result))
            }
            Kind::ReduceScatter(reduction) => {
                let result = self.element.reduce(reduction, &all(driver, part * ranks)?);
                (0..ranks).try_for_each(|rank| write(driver, rank, &result[rank * part..][..part]))
            }
            Kind::Broadcast(root) => {
                let data = read(driver, root, part)?;
                (0..ranks).try_for_each(|rank| write(driver, rank, &data))
            }
            Kind::Transfer => {
                let data = read(driver, 0, part)?;
                write(driver, 1, &data)
            }
        }
    }

    fn failure(&self, what: &str, rank: usize, error: &dyn std::fmt::Display) -> Failure {
        let text = format!("NCCL's {:?}, what rank {rank} {what}: {error}", self.kind);
        Failure { code: Code::ILLEGAL_ADDRESS, text }
    }
}
