//! Runs PTX on the CPU: CUDA kernels are tested without a GPU.
//!
//! [`Module::parse`] reads the text that NVRTC emits, [`Module::load`] places its variables in
//! [`DeviceMemory`], [`launch`] runs a kernel over a grid. Warps of 32 threads run in lockstep, warps
//! interleave at barriers. What a GPU lets pass in silence is a [`Fault`] with the block, the thread
//! and the line of the PTX: accesses out of bounds or misaligned, use after free, races in shared
//! memory, barriers and shuffles that not all threads reach, endless loops.
//!
//! ```
//! use straightline_ptx_interpreter::{DeviceMemory, Launch, Module, Options, launch};
//!
//! let module = Module::parse(
//!     ".version 9.0
//!      .target sm_90
//!      .address_size 64
//!      .visible .entry double(.param .u64 out)
//!      {
//!          .reg .b32 %r<4>;
//!          .reg .b64 %rd<4>;
//!          ld.param.u64 %rd1, [out];
//!          cvta.to.global.u64 %rd2, %rd1;
//!          mov.u32 %r1, %tid.x;
//!          mul.wide.u32 %rd3, %r1, 4;
//!          add.s64 %rd2, %rd2, %rd3;
//!          shl.b32 %r2, %r1, 1;
//!          st.global.u32 [%rd2], %r2;
//!          ret;
//!      }",
//! )?;
//! let mut memory = DeviceMemory::default();
//! let loaded = module.load(&mut memory)?;
//! let out = memory.allocate(40 * 4)?;
//! let grid = Launch { grid: [1; 3], block: [40, 1, 1], dynamic_shared: 0, params: &out.to_le_bytes() };
//! let statistics = launch(&loaded, "double", &grid, &mut memory, &Options::default())?;
//! assert_eq!((statistics.global_stores, statistics.bytes_stored), (40, 160));
//! let mut last = [0; 4];
//! memory.read(out + 39 * 4, &mut last)?;
//! assert_eq!(u32::from_le_bytes(last), 78);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod decode;
mod execute;
mod fault;
mod memory;
mod module;
mod number;
mod parse;
mod program;
mod run;
mod table;

pub use fault::{Assertion, Fault, FaultKind, Limit, RaceKind};
pub use memory::{DeviceMemory, MemoryError, POISON};
pub use module::{Kernel, Loaded, Module, Param, Variable};
pub use parse::ParseError;
pub use run::{Launch, Options, Statistics, WarpOrder, launch};
pub use table::supported;
