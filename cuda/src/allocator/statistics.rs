//! How much memory there is.

/// An amount that changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    /// What it is.
    pub now: u64,
    /// The most that it was.
    pub peak: u64,
    /// All that was ever added.
    pub total: u64,
}

impl Amount {
    pub(super) fn add(&mut self, n: u64) {
        self.now += n;
        self.total += n;
        self.peak = self.peak.max(self.now);
    }

    pub(super) fn take(&mut self, n: u64) {
        self.now = self.now.saturating_sub(n);
    }
}

/// The figures of a device's allocator: PyTorch's `memory_stats`, of which the names are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Blocks in use.
    pub allocation: Amount,
    /// Segments.
    pub segment: Amount,
    /// Bytes of blocks in use, rounded as they are.
    pub allocated: Amount,
    /// Bytes that were asked for.
    pub requested: Amount,
    /// Bytes of segments.
    pub reserved: Amount,
    /// Bytes of blocks in use, and of those that wait for work of other streams.
    pub active: Amount,
    /// Allocations that were tried again after cached segments had been given back.
    pub retries: u64,
    /// Allocations that failed.
    pub out_of_memory: u64,
}

impl Statistics {
    pub(super) fn reset_peaks(&mut self) {
        for amount in [
            &mut self.allocation,
            &mut self.segment,
            &mut self.allocated,
            &mut self.requested,
            &mut self.reserved,
            &mut self.active,
        ] {
            amount.peak = amount.now;
        }
    }
}
