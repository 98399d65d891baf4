//! The structs of `cuda.h` (13.0) that entry points take by address. Their sizes and offsets are
//! compared with cudarc's in the tests.

use std::ffi::{c_int, c_uint};

/// What a `CUstream`, `CUcontext`, `CUevent` ... is here: a number that names a row of a table, so
/// that a destroyed one is noticed. Zero is none.
pub(crate) type Handle = usize;

/// `CUhostFn`.
pub(crate) type HostFunction = Option<extern "C" fn(usize)>;

/// `CUuuid`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Uuid(pub [u8; 16]);

/// `CUmemLocation`: type 1 is a device.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Location {
    /// `CUmemLocationType`
    pub kind: c_int,
    /// ordinal of the device
    pub id: c_int,
}

/// `CUmemPoolProps`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PoolProperties {
    /// `CUmemAllocationType`
    pub allocation: c_int,
    /// `CUmemAllocationHandleType`
    pub handles: c_int,
    /// where the memory is
    pub location: Location,
    /// of other systems
    pub security: usize,
    /// zero for no limit
    pub max_size: usize,
    /// unused
    pub reserved: [u8; 56],
}

/// `CUmemAccessDesc`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Access {
    /// for whom
    pub location: Location,
    /// 0 none, 1 read, 3 read and write
    pub flags: c_int,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KernelNode {
    /// `CUfunction`
    pub function: Handle,
    /// blocks
    pub grid: [c_uint; 3],
    /// threads
    pub block: [c_uint; 3],
    /// dynamic, bytes
    pub shared: c_uint,
    /// `void **`: one pointer for each parameter
    pub parameters: usize,
    /// `void **`: parameters as one buffer
    pub extra: usize,
    /// `CUkernel`
    pub kernel: Handle,
    /// `CUcontext`
    pub context: Handle,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FillNode {
    /// first byte
    pub to: u64,
    /// bytes from row to row
    pub pitch: usize,
    /// pattern
    pub value: c_uint,
    /// bytes of the pattern: 1, 2 or 4
    pub element: c_uint,
    /// elements in a row
    pub width: usize,
    /// rows
    pub height: usize,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AllocationNode {
    /// of which pool it could be
    pub pool: PoolProperties,
    /// the first of `count`
    pub accesses: *const Access,
    /// how many devices are given access
    pub count: usize,
    /// how much
    pub bytes: usize,
    /// out: where it is
    pub address: u64,
}

/// `CUgraphNodeParams`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NodeParameters {
    /// `CUgraphNodeType`
    pub kind: c_uint,
    /// unused
    pub reserved: [c_int; 3],
    /// a union
    pub value: [u64; 29],
    /// unused
    pub rest: i64,
}

/// `CUDA_HOST_NODE_PARAMS`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HostNode {
    /// what is called
    pub function: HostFunction,
    /// with what
    pub data: usize,
}

/// One side of a [`Copy3`].
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CopySide {
    /// offset within a row
    pub x: usize,
    /// offset in rows
    pub y: usize,
    /// offset in planes
    pub z: usize,
    /// unused
    pub lod: usize,
    /// `CUmemorytype`: 1 host, 2 device, 3 array, 4 unified
    pub kind: c_uint,
    /// address if it is host memory
    pub host: usize,
    /// address if it is device memory
    pub device: u64,
    /// `CUarray`
    pub array: usize,
    /// unused
    pub reserved: usize,
    /// bytes from row to row
    pub pitch: usize,
    /// rows from plane to plane
    pub height: usize,
}

/// `CUDA_MEMCPY3D`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Copy3 {
    /// source
    pub from: CopySide,
    /// destination
    pub to: CopySide,
    /// bytes in a row
    pub width: usize,
    /// rows
    pub height: usize,
    /// planes
    pub depth: usize,
}

/// One side of a [`Copy2`].
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CopySide2 {
    /// offset within a row
    pub x: usize,
    /// offset in rows
    pub y: usize,
    /// `CUmemorytype`
    pub kind: c_uint,
    /// address if it is host memory
    pub host: usize,
    /// address if it is device memory
    pub device: u64,
    /// `CUarray`
    pub array: usize,
    /// bytes from row to row
    pub pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Copy2 {
    /// source
    pub from: CopySide2,
    /// destination
    pub to: CopySide2,
    /// bytes in a row
    pub width: usize,
    /// rows
    pub height: usize,
}

impl Copy2 {
    /// As a copy of one plane.
    pub(crate) fn deepen(&self) -> Copy3 {
        let side = |side: &CopySide2| CopySide {
            x: side.x,
            y: side.y,
            kind: side.kind,
            host: side.host,
            device: side.device,
            array: side.array,
            pitch: side.pitch,
            height: self.height,
            ..CopySide::default()
        };
        Copy3 {
            from: side(&self.from),
            to: side(&self.to),
            width: self.width,
            height: self.height,
            depth: 1,
        }
    }
}

/// `CUlaunchAttribute`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LaunchAttribute {
    /// `CUlaunchAttributeID`
    pub id: c_uint,
    /// unused
    pub padding: c_uint,
    /// a union of 64 bytes
    pub value: [u64; 8],
}

/// `CUlaunchConfig`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LaunchConfiguration {
    /// blocks
    pub grid: [c_uint; 3],
    /// threads
    pub block: [c_uint; 3],
    /// dynamic, bytes
    pub shared: c_uint,
    /// `CUstream`
    pub stream: Handle,
    /// the first of `count`
    pub attributes: *const LaunchAttribute,
    /// how many attributes
    pub count: c_uint,
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Instantiation {
    /// `CUgraphInstantiate_flags`
    pub flags: u64,
    /// uploads are queued here
    pub stream: Handle,
    /// out: what failed
    pub node: Handle,
    /// out: `CUgraphInstantiateResult`
    pub result: c_uint,
}

/// `CUgraphExecUpdateResultInfo`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct UpdateResult {
    /// `CUgraphExecUpdateResult`
    pub result: c_uint,
    /// the node that cannot be updated
    pub node: Handle,
    /// where an edge begins that differs
    pub from: Handle,
}

/// `CUgraphEdgeData`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Edge(pub [u8; 8]);
