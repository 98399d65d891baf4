//! Memory pools: what `cuMemAllocAsync` takes from, and what they keep between uses.
//!
//! A pool reserves memory in steps of 32 MiB. At each synchronisation it gives back what is above
//! its release threshold and not used.

use super::Driver;
use crate::abi::Handle;
use crate::code::{Code, Outcome};

/// Bytes by which a pool grows.
const STEP: u64 = 32 << 20;

/// A memory pool.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) device: usize,
    /// of the device, never destroyed
    pub(crate) standing: bool,
    /// destroyed by its owner; it goes when its last block does
    pub(crate) destroyed: bool,
    pub(crate) threshold: u64,
    pub(crate) reserved: u64,
    pub(crate) reserved_most: u64,
    pub(crate) used: u64,
    pub(crate) used_most: u64,
    /// the three attributes of reuse, which change nothing here
    pub(crate) reuse: [i32; 3],
    /// bytes that it may have; zero for no limit
    pub(crate) limit: u64,
}

impl Pool {
    pub(crate) fn new(device: usize, standing: bool) -> Pool {
        Pool {
            device,
            standing,
            destroyed: false,
            threshold: 0,
            reserved: 0,
            reserved_most: 0,
            used: 0,
            used_most: 0,
            reuse: [1; 3],
            limit: 0,
        }
    }

    /// The reserved bytes that the used ones need.
    fn needed(&self) -> u64 {
        self.used.div_ceil(STEP) * STEP
    }

    /// Gives back what is not used and above `keep`.
    pub(crate) fn trim(&mut self, keep: u64) {
        self.reserved = self.needed().max(self.reserved.min(keep)).min(self.reserved);
    }
}

impl Driver {
    /// Makes room in a pool.
    pub(crate) fn reserve(&mut self, handle: Handle, bytes: u64) -> Outcome {
        for attempt in 0..2 {
            let pool = self.pools.get(&handle).ok_or(Code::INVALID_VALUE)?;
            let (device, want) = (pool.device, pool.used + bytes);
            if pool.limit != 0 && want > pool.limit {
                return Err(Code::OUT_OF_MEMORY);
            }
            if want <= pool.reserved {
                return Ok(());
            }
            let missing = want.div_ceil(STEP) * STEP - pool.reserved;
            let available = self.available(device);
            // the last step may be a small one
            let grown = if missing <= available { missing } else { want - pool.reserved };
            if grown <= available {
                let pool = self.pools.get_mut(&handle).ok_or(Code::INVALID_VALUE)?;
                pool.reserved += grown;
                pool.reserved_most = pool.reserved_most.max(pool.reserved);
                return Ok(());
            }
            if attempt == 0 {
                self.trim_pools(device);
            }
        }
        Err(Code::OUT_OF_MEMORY)
    }

    /// Counts a block that was taken.
    pub(crate) fn take(&mut self, pool: Handle, bytes: u64) {
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.used += bytes;
            pool.used_most = pool.used_most.max(pool.used);
        }
    }

    /// Counts a block that came back.
    pub(crate) fn give(&mut self, handle: Handle, bytes: u64) {
        if let Some(pool) = self.pools.get_mut(&handle) {
            pool.used -= bytes;
            if pool.destroyed && pool.used == 0 {
                self.pools.remove(&handle);
            }
        }
    }

    /// Takes from the pools of a device what nobody uses.
    pub(crate) fn trim_pools(&mut self, device: usize) {
        for pool in self.pools.values_mut().filter(|pool| pool.device == device) {
            pool.trim(0);
        }
    }

    /// What a synchronisation does for the pools of a device.
    pub(crate) fn settle_pools(&mut self, device: usize) {
        for pool in self.pools.values_mut().filter(|pool| pool.device == device) {
            pool.trim(pool.threshold);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trimming_keeps_what_is_used_and_what_is_asked_for() {
        let mut pool = Pool::new(0, true);
        (pool.used, pool.reserved) = (STEP + 1, 5 * STEP);
        pool.trim(3 * STEP);
        assert_eq!(pool.reserved, 3 * STEP);
        pool.trim(0);
        assert_eq!(pool.reserved, 2 * STEP);
        pool.trim(9 * STEP);
        assert_eq!(pool.reserved, 2 * STEP);
    }
}
