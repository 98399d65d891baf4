//! Devices: what `cuDeviceGetAttribute` says, and what each has in use.
//!
//! The numbers are those of an H100 SXM, so that a backend chooses for the mock what it chooses
//! there.

use crate::abi::Handle;

/// Multiprocessors.
pub(crate) const MULTIPROCESSORS: i32 = 132;
/// Threads of a block.
pub(crate) const BLOCK_THREADS: u32 = 1024;
/// Threads that are on a multiprocessor together.
pub(crate) const MULTIPROCESSOR_THREADS: u32 = 2048;
/// Blocks that are on a multiprocessor together.
pub(crate) const MULTIPROCESSOR_BLOCKS: u32 = 32;
/// Registers of a multiprocessor, and of a block.
pub(crate) const REGISTERS: u32 = 65_536;
/// Bytes of shared memory of a block without being asked for more.
pub(crate) const SHARED: u32 = 48 << 10;
/// Bytes of shared memory of a block that asks.
pub(crate) const SHARED_MOST: u32 = 227 << 10;
/// Bytes of shared memory of a multiprocessor.
pub(crate) const MULTIPROCESSOR_SHARED: u32 = 228 << 10;
/// Bytes that each block's shared memory costs on top.
pub(crate) const SHARED_RESERVED: u32 = 1 << 10;

/// The name that programs recognise the mock by.
pub(crate) const NAME: &str = "PTX emulator";

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    /// the primary context while it is retained
    pub(crate) primary: Option<Handle>,
    /// how often
    pub(crate) retained: usize,
    /// flags of the primary context
    pub(crate) flags: u32,
    pub(crate) default_pool: Handle,
    /// the pool of `cuMemAllocAsync`
    pub(crate) pool: Handle,
    /// bytes outside pools
    pub(crate) used: u64,
    /// bytes of graphs' allocations, now and at most
    pub(crate) graph_memory: [u64; 2],
}

impl Device {
    pub(crate) fn new(pool: Handle) -> Device {
        Device {
            primary: None,
            retained: 0,
            flags: 0,
            default_pool: pool,
            pool,
            used: 0,
            graph_memory: [0; 2],
        }
    }
}

/// A `CUdevice_attribute`; `None` for numbers that are none. Attributes that are not listed are
/// things that the mock has not: textures, managed memory, sharing between processes.
pub(crate) fn attribute(number: i32, ordinal: usize) -> Option<i32> {
    Some(match number {
        // threads of a block, in all and by dimension
        1..=3 => BLOCK_THREADS as i32,
        4 => 64,
        // blocks of a grid
        5 => i32::MAX,
        6 | 7 => 65_535,
        8 => SHARED as i32,
        // constant memory
        9 => 65_536,
        // warp
        10 => 32,
        // pitch of copies
        11 => i32::MAX,
        12 | 82 => REGISTERS as i32,
        // clock in kHz
        13 => 1_980_000,
        // alignment of textures and surfaces, of their pitch
        14 | 30 => 512,
        51 => 32,
        // copies beside kernels; copy engines
        15 => 1,
        40 => 3,
        16 => MULTIPROCESSORS,
        // several kernels at once
        31 => 1,
        32 => 1,
        33 => ordinal as i32 + 1,
        // memory clock in kHz, bus in bits, second-level cache in bytes
        36 => 2_619_000,
        37 => 5120,
        38 => 52_428_800,
        39 => MULTIPROCESSOR_THREADS as i32,
        // unified addressing
        41 => 1,
        75 => 9,
        76 => 0,
        // priorities of streams; caches
        78..=80 => 1,
        81 => MULTIPROCESSOR_SHARED as i32,
        // single to double precision
        87 => 2,
        90 | 91 => 1,
        95 => 1,
        97 => SHARED_MOST as i32,
        // pinned memory of the user's
        99 => 1,
        106 => MULTIPROCESSOR_BLOCKS as i32,
        // the part of the cache that can be kept
        108 => 32 << 20,
        109 => 128 << 20,
        111 => SHARED_RESERVED as i32,
        // memory pools
        115 => 1,
        // clusters of blocks: the interpreter has none
        120 => 0,
        // domains of memory order
        126 => 4,
        131 | 134 => -1,
        _ if (1..148).contains(&number) => 0,
        _ => return None,
    })
}
