//! What streams and graphs do: kernels, copies, fills ...

use super::graph::Node;
use crate::abi::{FillNode, Handle};
use crate::lt::Product;
use crate::nccl::Collective;
use std::sync::Arc;

/// One piece of work: what a task of a stream or a node of a graph does.
#[derive(Clone)]
pub(crate) enum Work {
    /// only order
    Empty,
    Kernel(Kernel),
    Copy(Copy),
    Fill(FillNode),
    Host {
        function: extern "C" fn(usize),
        data: usize,
    },
    Record {
        event: Handle,
        /// which record of the event it is; a node makes its own when it runs
        number: Option<u64>,
    },
    /// a node of a graph; in a stream it is an [`Empty`](Work::Empty) task with an edge
    Wait {
        event: Handle,
    },
    /// memory begins to be valid, with contents that nobody should rely on
    Allocate {
        address: u64,
        bytes: u64,
    },
    Free {
        address: u64,
    },
    Product(Arc<Product>),
    Graph(Arc<Vec<Node>>),
    /// NCCL's, shared by the streams of all ranks
    Collective(Arc<Collective>),
}

/// A kernel with its parameters, copied when it was launched.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) function: Handle,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) parameters: Arc<[u8]>,
    pub(crate) cooperative: bool,
}

/// Where one side of a copy is.
#[derive(Clone)]
pub(crate) enum Place {
    Device(u64),
    /// host memory that is used when the copy runs; the number is of its registration, if pinned
    Host(usize, Option<u64>),
    /// host memory as it was when the copy was queued
    Staged(Arc<[u8]>),
}

/// One side of a copy: bytes from row to row and from plane to plane.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) place: Place,
    pub(crate) pitch: usize,
    pub(crate) plane: usize,
}

/// Rows of bytes from one place to another.
#[derive(Clone)]
pub(crate) struct Copy {
    pub(crate) from: Side,
    pub(crate) to: Side,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    /// if it was made by `cuGraphAddMemcpyNode`, or for `cuGraphMemcpyNodeGetParams`
    pub(crate) stated: Option<Arc<crate::abi::Copy3>>,
}

impl Side {
    /// Bytes from the first to the last that a copy touches.
    pub(crate) fn span(&self, width: usize, height: usize, depth: usize) -> usize {
        if width == 0 || height == 0 || depth == 0 {
            return 0;
        }
        (depth - 1) * self.plane + (height - 1) * self.pitch + width
    }
}

impl Copy {
    /// A copy of bytes that lie together.
    pub(crate) fn plain(to: Place, from: Place, bytes: usize) -> Copy {
        let side = |place| Side { place, pitch: bytes, plane: bytes };
        Copy { from: side(from), to: side(to), width: bytes, height: 1, depth: 1, stated: None }
    }
}

impl Work {
    /// `CUgraphNodeType`
    pub(crate) fn kind(&self) -> u32 {
        match self {
            Work::Kernel(_) | Work::Product(_) | Work::Collective(_) => 0,
            Work::Copy(_) => 1,
            Work::Fill(_) => 2,
            Work::Host { .. } => 3,
            Work::Graph(_) => 4,
            Work::Empty => 5,
            Work::Wait { .. } => 6,
            Work::Record { .. } => 7,
            Work::Allocate { .. } => 10,
            Work::Free { .. } => 11,
        }
    }

    /// Whether all that take part have called it.
    pub(crate) fn complete(&self) -> bool {
        match self {
            Work::Collective(collective) => collective.missing().is_empty(),
            _ => true,
        }
    }

    /// Whether functions of the host are called.
    pub(crate) fn calls_host(&self) -> bool {
        match self {
            Work::Host { .. } => true,
            Work::Graph(nodes) => nodes.iter().any(|node| node.work.calls_host()),
            _ => false,
        }
    }

    /// Its name in `cuGraphDebugDotPrint`.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Work::Empty => "EMPTY",
            Work::Kernel(_) => "KERNEL",
            Work::Copy(_) => "MEMCPY",
            Work::Fill(_) => "MEMSET",
            Work::Host { .. } => "HOST",
            Work::Record { .. } => "EVENT_RECORD",
            Work::Wait { .. } => "WAIT_EVENT",
            Work::Allocate { .. } => "MEM_ALLOC",
            Work::Free { .. } => "MEM_FREE",
            Work::Product(_) => "KERNEL (matrix product)",
            Work::Graph(_) => "GRAPH",
            Work::Collective(_) => "KERNEL (collective)",
        }
    }
}
