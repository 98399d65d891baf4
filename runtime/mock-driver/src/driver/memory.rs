//! Memory: what each device has allocated, and host memory that is pinned.
//!
//! New device memory holds a pattern that is a NaN in every floating-point format, so that a
//! program that counts on zeros is noticed.

use super::{Driver, Failure, new_number};
use crate::abi::Handle;
use crate::code::{Code, Outcome};
use crate::door::Address;
use std::alloc::Layout;

/// What new memory holds.
pub(crate) const POISON: u8 = 0xFF;

/// Who counts the bytes of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// `cuMemAlloc`
    Device,
    /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`
    Pool(Handle),
    /// a node of a graph: kept as long as the graph and what is made of it
    Graph(Handle),
}

/// A block of device memory.
#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    pub(crate) bytes: u64,
    pub(crate) device: usize,
    pub(crate) context: Handle,
    pub(crate) owner: Owner,
    /// `CU_POINTER_ATTRIBUTE_BUFFER_ID`
    pub(crate) number: u64,
    /// `cuMemFreeAsync` was called
    pub(crate) freed: bool,
}

/// Host memory that a device reads and writes when a copy runs.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    pub(crate) bytes: usize,
    pub(crate) context: Handle,
    pub(crate) flags: u32,
    pub(crate) number: u64,
    /// allocated by `cuMemHostAlloc`, with this layout
    pub(crate) layout: Option<Layout>,
}

impl Driver {
    /// Bytes that a device can still give; pools keep what they have reserved.
    pub(crate) fn available(&self, device: usize) -> u64 {
        let reserved: u64 = self
            .pools
            .values()
            .filter(|pool| pool.device == device)
            .map(|pool| pool.reserved)
            .sum();
        let graphs = self.devices[device].graph_memory[0];
        self.configuration.memory.saturating_sub(self.devices[device].used + reserved + graphs)
    }

    /// A block of a device, its contents poisoned.
    pub(crate) fn allocate(
        &mut self,
        context: Handle,
        device: usize,
        bytes: u64,
        owner: Owner,
    ) -> Outcome<u64> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let counted = bytes.div_ceil(512) * 512;
        match owner {
            Owner::Device | Owner::Graph(_) => {
                if self.available(device) < counted {
                    // as the driver does: what pools keep and nobody uses goes back
                    self.trim_pools(device);
                }
                if self.available(device) < counted {
                    return Err(Code::OUT_OF_MEMORY);
                }
            }
            Owner::Pool(pool) => self.reserve(pool, counted)?,
        }
        let address = self.memory.allocate(bytes).map_err(|_| Code::OUT_OF_MEMORY)?;
        if !matches!(owner, Owner::Pool(_)) {
            // that of pools when its turn in the stream comes
            self.memory.fill(address, &[POISON], bytes).map_err(|_| Code::UNKNOWN)?;
        }
        match owner {
            Owner::Device => self.devices[device].used += counted,
            Owner::Pool(pool) => self.take(pool, counted),
            Owner::Graph(_) => {
                let [now, most] = &mut self.devices[device].graph_memory;
                *now += counted;
                *most = (*most).max(*now);
            }
        }
        let number = new_number();
        self.allocations
            .insert(address, Allocation { bytes, device, context, owner, number, freed: false });
        Ok(address)
    }

    /// Gives a block back; `false` if there is none at the address.
    pub(crate) fn release(&mut self, address: u64) -> bool {
        let Some(block) = self.allocations.remove(&address) else { return false };
        let counted = block.bytes.div_ceil(512) * 512;
        match block.owner {
            Owner::Device => self.devices[block.device].used -= counted,
            Owner::Pool(pool) => self.give(pool, counted),
            Owner::Graph(_) => self.devices[block.device].graph_memory[0] -= counted,
        }
        let _ = self.memory.free(address);
        true
    }

    /// The block in which an address lies, with its first address.
    pub(crate) fn block(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (&base, block) = self.allocations.range(..=address).next_back()?;
        (address - base < block.bytes).then_some((base, block))
    }

    /// The memory that a module's variable lies in, or a block: first address and bytes.
    pub(crate) fn extent(&self, address: u64) -> Option<(u64, u64)> {
        match self.block(address) {
            Some((base, block)) => Some((base, block.bytes)),
            None => self.memory.allocation(address),
        }
    }

    /// Whether a call may name these bytes of device memory.
    pub(crate) fn check(&self, address: u64, bytes: usize) -> Outcome {
        if bytes == 0 {
            return Ok(());
        }
        if self.block(address).is_some_and(|(_, block)| block.freed) {
            return Err(Code::INVALID_VALUE);
        }
        match self.extent(address) {
            Some((base, length)) if bytes as u64 <= length - (address - base) => Ok(()),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// The pinned range that holds these bytes of host memory.
    pub(crate) fn pinned_at(&self, address: Address, bytes: usize) -> Option<(Address, &Pinned)> {
        let (&base, range) = self.pinned.range(..=address).next_back()?;
        (address - base + bytes.max(1) <= range.bytes).then_some((base, range))
    }

    /// Pinned memory of our own.
    pub(crate) fn allocate_pinned(
        &mut self,
        context: Handle,
        bytes: usize,
        flags: u32,
    ) -> Outcome<Address> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let layout = Layout::from_size_align(bytes, 4096).map_err(|_| Code::INVALID_VALUE)?;
        // SAFETY: the layout has a size
        let memory = unsafe { std::alloc::alloc(layout) };
        if memory.is_null() {
            return Err(Code::OUT_OF_MEMORY);
        }
        // SAFETY: just allocated with so many bytes
        unsafe { memory.write_bytes(POISON, bytes) };
        let address = memory.expose_provenance();
        let number = new_number();
        self.pinned.insert(address, Pinned { bytes, context, flags, number, layout: Some(layout) });
        Ok(address)
    }

    /// Pins memory of the caller's.
    pub(crate) fn register(
        &mut self,
        context: Handle,
        address: Address,
        bytes: usize,
        flags: u32,
    ) -> Outcome {
        if address == 0 || bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        let before = self.pinned.range(..end).next_back();
        if before.is_some_and(|(base, range)| base + range.bytes > address) {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        let number = new_number();
        self.pinned.insert(address, Pinned { bytes, context, flags, number, layout: None });
        Ok(())
    }

    /// Takes a pinned range away, and its memory if it is ours.
    pub(crate) fn unpin(&mut self, address: Address) {
        let Some(range) = self.pinned.remove(&address) else { return };
        if let Some(layout) = range.layout {
            let memory = std::ptr::with_exposed_provenance_mut::<u8>(address);
            // SAFETY: allocated by `allocate_pinned` with this layout, and no range has it any more
            unsafe { std::alloc::dealloc(memory, layout) };
        }
    }

    /// Whether a copy may still use host memory that was pinned when it was queued.
    pub(crate) fn still_pinned(&self, address: Address, number: u64) -> Result<(), Failure> {
        match self.pinned_at(address, 1) {
            Some((_, range)) if range.number == number => Ok(()),
            _ => Err(Failure {
                code: Code::ILLEGAL_ADDRESS,
                text: format!(
                    "a queued copy uses pinned host memory at {address:#x} that was freed before it ran"
                ),
            }),
        }
    }
}
