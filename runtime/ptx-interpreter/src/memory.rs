use std::collections::{BTreeMap, VecDeque};

use thiserror::Error;

/// What fresh memory is filled with, so that a read of what was never written shows.
pub const POISON: u8 = 0xA5;

const FIRST_ADDRESS: u64 = 0x10_0000_0000;
const ALIGNMENT: u64 = 256;
/// Between two allocations, so that an overrun meets no neighbour.
const GAP: u64 = 1 << 20;
/// How many freed ranges are remembered.
const QUARANTINE: usize = 4096;

/// An access or a request that device memory refuses.
///
/// ```
/// use straightline_ptx_interpreter::{DeviceMemory, MemoryError};
///
/// let mut memory = DeviceMemory::new(1 << 20);
/// let address = memory.allocate(16)?;
/// let refused = memory.write(address + 12, &[0; 8]).unwrap_err();
/// assert!(refused.to_string().ends_with("it ends 4 bytes past the allocation of 16 bytes at 0x1000000000"));
/// memory.free(address)?;
/// assert!(matches!(memory.free(address), Err(MemoryError::DoubleFree { .. })));
/// # Ok::<(), MemoryError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// More was asked for than is left.
    #[error("{requested} bytes were asked for, {free} of {total} are free")]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes left.
        free: u64,
        /// Bytes of the whole device.
        total: u64,
    },
    /// An allocation of no bytes.
    #[error("an allocation of 0 bytes")]
    EmptyAllocation,
    /// Some byte of the access lies in no allocation.
    #[error("{bytes} bytes at {address:#x} are out of bounds: {}", miss(*address, *bytes, *nearest))]
    OutOfBounds {
        /// First byte of the access.
        address: u64,
        /// Its length.
        bytes: u64,
        /// Base and length of the live allocation that is nearest.
        nearest: Option<(u64, u64)>,
    },
    /// The access touches an allocation that was freed.
    #[error("{bytes} bytes at {address:#x} were freed: the allocation of {} bytes at {:#x} is gone", freed.1, freed.0)]
    UseAfterFree {
        /// First byte of the access.
        address: u64,
        /// Its length.
        bytes: u64,
        /// Base and length of the allocation as it was.
        freed: (u64, u64),
    },
    /// An allocation is freed a second time.
    #[error("the allocation of {bytes} bytes at {address:#x} is freed twice")]
    DoubleFree {
        /// Its base.
        address: u64,
        /// Its length.
        bytes: u64,
    },
    /// No allocation begins at the address that is freed.
    #[error("no allocation begins at {address:#x}")]
    NotAllocated {
        /// The address.
        address: u64,
    },
}

fn miss(address: u64, bytes: u64, nearest: Option<(u64, u64)>) -> String {
    let Some((base, length)) = nearest else {
        return "nothing is allocated".to_owned();
    };
    let allocation = format!("the allocation of {length} bytes at {base:#x}");
    let (end, last) = (base.saturating_add(length), address.saturating_add(bytes));
    if address >= end {
        format!("it begins {} bytes past {allocation}", address - end)
    } else if address >= base {
        format!("it ends {} bytes past {allocation}", last.saturating_sub(end))
    } else if address < 4096 {
        format!("a null pointer; nearest is {allocation}")
    } else {
        format!("it begins {} bytes before {allocation}", base - address)
    }
}

/// The memory of the device: allocations at addresses that are never used again.
///
/// Addresses are multiples of 256, with gaps between allocations. Fresh memory holds [`POISON`].
///
/// ```
/// use straightline_ptx_interpreter::{DeviceMemory, POISON};
///
/// let mut memory = DeviceMemory::new(1 << 20);
/// let address = memory.allocate(8)?;
/// assert_eq!(address % 256, 0);
/// memory.write(address, &[1, 2, 3, 4])?;
/// let mut bytes = [0; 8];
/// memory.read(address, &mut bytes)?;
/// assert_eq!(bytes, [1, 2, 3, 4, POISON, POISON, POISON, POISON]);
/// # Ok::<(), straightline_ptx_interpreter::MemoryError>(())
/// ```
#[derive(Debug, Clone)]
pub struct DeviceMemory {
    live: BTreeMap<u64, Box<[u8]>>,
    freed: VecDeque<(u64, u64)>,
    next: u64,
    used: u64,
    total: u64,
}

impl Default for DeviceMemory {
    /// A device of 16 GiB.
    fn default() -> DeviceMemory {
        DeviceMemory::new(16 << 30)
    }
}

impl DeviceMemory {
    /// A device of so many bytes. They are taken from the host as they are allocated.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::DeviceMemory;
    /// assert_eq!(DeviceMemory::new(4096).total(), 4096);
    /// ```
    pub fn new(total_bytes: u64) -> DeviceMemory {
        DeviceMemory {
            live: BTreeMap::new(),
            freed: VecDeque::new(),
            next: FIRST_ADDRESS,
            used: 0,
            total: total_bytes,
        }
    }

    /// A new allocation, its address a multiple of 256. Errors: no bytes, or more than are free.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::{DeviceMemory, MemoryError};
    /// let mut memory = DeviceMemory::new(4096);
    /// memory.allocate(4000)?;
    /// let refused = memory.allocate(97);
    /// assert_eq!(refused, Err(MemoryError::OutOfMemory { requested: 97, free: 96, total: 4096 }));
    /// # Ok::<(), MemoryError>(())
    /// ```
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::EmptyAllocation);
        }
        let free = self.total - self.used;
        let refused = MemoryError::OutOfMemory { requested: bytes, free, total: self.total };
        if bytes > free {
            return Err(refused);
        }
        let Ok(length) = usize::try_from(bytes) else { return Err(refused) };
        let mut contents = Vec::new();
        if contents.try_reserve_exact(length).is_err() {
            return Err(refused);
        }
        contents.resize(length, POISON);
        let address = self.next;
        self.next = (address + bytes).next_multiple_of(ALIGNMENT) + GAP;
        self.used += bytes;
        self.live.insert(address, contents.into_boxed_slice());
        Ok(address)
    }

    /// Gives an allocation back; the address is that of its first byte.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::{DeviceMemory, MemoryError};
    /// let mut memory = DeviceMemory::new(4096);
    /// let address = memory.allocate(8)?;
    /// memory.free(address)?;
    /// assert!(matches!(memory.read(address, &mut [0]), Err(MemoryError::UseAfterFree { .. })));
    /// # Ok::<(), MemoryError>(())
    /// ```
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        if let Some(contents) = self.live.remove(&address) {
            let bytes = contents.len() as u64;
            self.used -= bytes;
            if self.freed.len() == QUARANTINE {
                self.freed.pop_front();
            }
            self.freed.push_back((address, bytes));
            return Ok(());
        }
        match self.freed.iter().find(|freed| freed.0 == address) {
            Some(&(_, bytes)) => Err(MemoryError::DoubleFree { address, bytes }),
            None => Err(MemoryError::NotAllocated { address }),
        }
    }

    /// Reads as many bytes as `into` holds.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::DeviceMemory;
    /// # let mut memory = DeviceMemory::new(4096);
    /// let address = memory.allocate(4)?;
    /// memory.write(address, &7u32.to_le_bytes())?;
    /// let mut bytes = [0; 4];
    /// memory.read(address, &mut bytes)?;
    /// assert_eq!(u32::from_le_bytes(bytes), 7);
    /// # Ok::<(), straightline_ptx_interpreter::MemoryError>(())
    /// ```
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        into.copy_from_slice(self.slice(address, into.len() as u64)?);
        Ok(())
    }

    /// Writes the bytes of `from`.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::DeviceMemory;
    /// # let mut memory = DeviceMemory::new(4096);
    /// let address = memory.allocate(4)?;
    /// assert!(memory.write(address, &[0; 5]).is_err());
    /// # Ok::<(), straightline_ptx_interpreter::MemoryError>(())
    /// ```
    pub fn write(&mut self, address: u64, from: &[u8]) -> Result<(), MemoryError> {
        self.slice_mut(address, from.len() as u64)?.copy_from_slice(from);
        Ok(())
    }

    /// Copies within the device. The ranges may overlap: the destination gets what the source held.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::DeviceMemory;
    /// # let mut memory = DeviceMemory::new(4096);
    /// let address = memory.allocate(4)?;
    /// memory.write(address, &[1, 2, 3, 4])?;
    /// memory.copy(address + 1, address, 3)?;
    /// let mut bytes = [0; 4];
    /// memory.read(address, &mut bytes)?;
    /// assert_eq!(bytes, [1, 1, 2, 3]);
    /// # Ok::<(), straightline_ptx_interpreter::MemoryError>(())
    /// ```
    pub fn copy(&mut self, to: u64, from: u64, bytes: u64) -> Result<(), MemoryError> {
        if bytes == 0 {
            return Ok(());
        }
        let (source, start) = self.locate(from, bytes)?;
        let (target, offset) = self.locate(to, bytes)?;
        let length = bytes as usize;
        if source == target {
            if let Some(contents) = self.live.get_mut(&source) {
                contents.copy_within(start..start + length, offset);
            }
        } else if let Some(mut contents) = self.live.get_mut(&target).map(std::mem::take) {
            if let Some(read) = self.live.get(&source) {
                contents[offset..offset + length].copy_from_slice(&read[start..start + length]);
            }
            self.live.insert(target, contents);
        }
        Ok(())
    }

    /// Writes `pattern` `count` times, one after the other.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::DeviceMemory;
    /// # let mut memory = DeviceMemory::new(4096);
    /// let address = memory.allocate(4)?;
    /// memory.fill(address, &[1, 2], 2)?;
    /// let mut bytes = [0; 4];
    /// memory.read(address, &mut bytes)?;
    /// assert_eq!(bytes, [1, 2, 1, 2]);
    /// # Ok::<(), straightline_ptx_interpreter::MemoryError>(())
    /// ```
    pub fn fill(&mut self, address: u64, pattern: &[u8], count: u64) -> Result<(), MemoryError> {
        if pattern.is_empty() || count == 0 {
            return Ok(());
        }
        let range = self.slice_mut(address, (pattern.len() as u64).saturating_mul(count))?;
        match pattern {
            [byte] => range.fill(*byte),
            _ => range.chunks_exact_mut(pattern.len()).for_each(|at| at.copy_from_slice(pattern)),
        }
        Ok(())
    }

    /// Base and length of the live allocation that holds the address.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::DeviceMemory;
    /// # let mut memory = DeviceMemory::new(4096);
    /// let address = memory.allocate(8)?;
    /// assert_eq!(memory.allocation(address + 7), Some((address, 8)));
    /// assert_eq!(memory.allocation(address + 8), None);
    /// # Ok::<(), straightline_ptx_interpreter::MemoryError>(())
    /// ```
    pub fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        let (&base, contents) = self.live.range(..=address).next_back()?;
        let bytes = contents.len() as u64;
        (address - base < bytes).then_some((base, bytes))
    }

    /// Bytes that are allocated.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::DeviceMemory;
    /// # let mut memory = DeviceMemory::new(4096);
    /// let address = memory.allocate(8)?;
    /// assert_eq!(memory.in_use(), 8);
    /// memory.free(address)?;
    /// assert_eq!(memory.in_use(), 0);
    /// # Ok::<(), straightline_ptx_interpreter::MemoryError>(())
    /// ```
    pub fn in_use(&self) -> u64 {
        self.used
    }

    /// Bytes of the device.
    ///
    /// ```
    /// assert_eq!(straightline_ptx_interpreter::DeviceMemory::default().total(), 16 << 30);
    /// ```
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many allocations are live.
    ///
    /// ```
    /// # use straightline_ptx_interpreter::DeviceMemory;
    /// # let mut memory = DeviceMemory::new(4096);
    /// memory.allocate(8)?;
    /// memory.allocate(8)?;
    /// assert_eq!(memory.allocations(), 2);
    /// # Ok::<(), straightline_ptx_interpreter::MemoryError>(())
    /// ```
    pub fn allocations(&self) -> usize {
        self.live.len()
    }

    /// The bytes of one range.
    pub(crate) fn slice(&self, address: u64, bytes: u64) -> Result<&[u8], MemoryError> {
        if bytes == 0 {
            return Ok(&[]);
        }
        if let Some((base, contents)) = self.live.range(..=address).next_back() {
            let start = (address - base) as usize;
            if let Some(range) =
                start.checked_add(bytes as usize).and_then(|end| contents.get(start..end))
            {
                return Ok(range);
            }
        }
        Err(self.refusal(address, bytes))
    }

    pub(crate) fn slice_mut(&mut self, address: u64, bytes: u64) -> Result<&mut [u8], MemoryError> {
        if bytes == 0 {
            return Ok(&mut []);
        }
        let (base, start) = self.locate(address, bytes)?;
        let contents = self.live.get_mut(&base).map_or(&mut [][..], |contents| contents);
        Ok(&mut contents[start..start + bytes as usize])
    }

    /// The live allocation around an address, with its base.
    pub(crate) fn around(&self, address: u64) -> Option<(u64, &[u8])> {
        let (&base, contents) = self.live.range(..=address).next_back()?;
        Some((base, contents))
    }

    pub(crate) fn around_mut(&mut self, address: u64) -> Option<(u64, &mut [u8])> {
        let (&base, contents) = self.live.range_mut(..=address).next_back()?;
        Some((base, contents))
    }

    fn locate(&self, address: u64, bytes: u64) -> Result<(u64, usize), MemoryError> {
        if let Some((&base, contents)) = self.live.range(..=address).next_back() {
            let (start, length) = (address - base, contents.len() as u64);
            if start.checked_add(bytes).is_some_and(|end| end <= length) {
                return Ok((base, start as usize));
            }
        }
        Err(self.refusal(address, bytes))
    }

    /// Why a range is refused.
    pub(crate) fn refusal(&self, address: u64, bytes: u64) -> MemoryError {
        let last = address.saturating_add(bytes.max(1));
        let touches = |&&(base, length): &&(u64, u64)| address < base + length && last > base;
        if self.allocation(address).is_none()
            && let Some(&freed) = self.freed.iter().rev().find(touches)
        {
            return MemoryError::UseAfterFree { address, bytes, freed };
        }
        let mut below = self.live.range(..=address).map(|(&base, held)| (base, held.len() as u64));
        let mut above = self.live.range(address..).map(|(&base, held)| (base, held.len() as u64));
        let (below, above) = (below.next_back(), above.next());
        let nearest = match (below, above) {
            (Some(low), Some(high)) => {
                let past = address.saturating_sub(low.0 + low.1);
                Some(if past <= high.0 - address { low } else { high })
            }
            (low, high) => low.or(high),
        };
        MemoryError::OutOfBounds { address, bytes, nearest }
    }
}
