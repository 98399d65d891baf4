//! A CUDA driver without a GPU: `libcuda.so.1`, `libcublasLt.so.13` and `libnccl.so.2` over a PTX
//! interpreter.
//!
//! Programs that load CUDA's libraries when they start to use them (cudarc, for one) run on it
//! unchanged: contexts, streams, events, memory pools, pinned memory, modules from PTX, launches,
//! graphs, cuBLASLt's products, and NCCL's collectives in one process. It is for tests: what is asked of a program by the rules of
//! CUDA and seldom noticed on a GPU has consequences here.
//!
//! # How a test loads it
//!
//! ```no_run
//! let mock = straightline_mock_driver::preload().unwrap();
//! // from here on cudarc finds it: dlopen("libcuda.so.1") gives what is loaded under that name
//! assert_eq!(mock.statistic("launches"), Some(0));
//! ```
//!
//! [`preload`] opens the `libstraightline_mock_driver.so` that cargo built beside the test (a
//! dependency on this crate builds it) and keeps it open. It has to run before the first call of a
//! CUDA library. [`build_paths`] says where the libraries are, for processes that are started with
//! `LD_PRELOAD`.
//!
//! # What it does otherwise than a GPU
//!
//! - Work of a stream runs late, by default when the host waits for it, and only with what it
//!   depends on. `STRAIGHTLINE_MOCK_ORDER` is `lazy`, `eager` (at the call) or `random:SEED`, which
//!   shuffles blocks and warps of kernels as well. A host that polls pinned memory and never calls
//!   the driver meanwhile gets on only in the eager order.
//! - New memory holds bytes of `0xFF`: a NaN in every format. Addresses are not used again.
//! - A kernel that faults breaks its context, as on a GPU; [`Mock::last_fault`] is a sentence with
//!   thread and line.
//! - Event times are estimates on a clock that only work moves.
//! - `STRAIGHTLINE_MOCK_DEVICES` is the number of devices (2), `STRAIGHTLINE_MOCK_MEMORY` the bytes
//!   of each (2 GiB), `STRAIGHTLINE_MOCK_RACES=0` allows races in shared memory.
//!   `STRAIGHTLINE_MOCK_PATIENCE` is how many seconds a host waits for ranks of NCCL that have not
//!   called a collective (10).
//! - There is no managed memory, no virtual memory management, nothing shared between processes,
//!   no textures. Kernels cannot use pinned host memory, and no access of a kernel to another
//!   device's memory is refused.

mod abi;
mod code;
mod door;
mod driver;
mod entries;
mod lt;
mod nccl;
mod preload;
mod stub;

pub use preload::{Alone, Error, Mock, Paths, build_paths, preload};

/// The layouts of the structs that entry points take, for a test that compares them.
#[doc(hidden)]
pub mod layouts {
    pub use crate::abi::{
        Access, AllocationNode, Copy2, Copy3, Edge, FillNode, HostNode, Instantiation, KernelNode,
        LaunchAttribute, LaunchConfiguration, Location, NodeParameters, PoolProperties,
        UpdateResult, Uuid,
    };
}
