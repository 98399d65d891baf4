//! The structs of the interface are laid out as cudarc has them, which has them from `cuda.h`.

use cudarc::driver::sys;
use std::mem::{align_of, offset_of, size_of};
use straightline_mock_driver::layouts;

macro_rules! same {
    ($($ours:ident = $theirs:ident { $($field:ident : $their_field:ident),* })*) => {
        $(
            assert_eq!(size_of::<layouts::$ours>(), size_of::<sys::$theirs>(), stringify!($theirs));
            assert_eq!(align_of::<layouts::$ours>(), align_of::<sys::$theirs>(), stringify!($theirs));
            $(assert_eq!(
                offset_of!(layouts::$ours, $field),
                offset_of!(sys::$theirs, $their_field),
                "{}.{}", stringify!($theirs), stringify!($their_field)
            );)*
        )*
    };
}

#[test]
fn structs_are_those_of_the_header() {
    same! {
        Uuid = CUuuid {}
        Location = CUmemLocation { id: id }
        PoolProperties = CUmemPoolProps { location: location, security: win32SecurityAttributes }
        Access = CUmemAccessDesc { flags: flags }
        KernelNode = CUDA_KERNEL_NODE_PARAMS_v2_st {
            function: func, grid: gridDimX, block: blockDimX, shared: sharedMemBytes,
            parameters: kernelParams, extra: extra, kernel: kern, context: ctx
        }
        FillNode = CUDA_MEMSET_NODE_PARAMS_st {
            to: dst, pitch: pitch, value: value, element: elementSize, width: width, height: height
        }
        AllocationNode = CUDA_MEM_ALLOC_NODE_PARAMS_v1_st {
            accesses: accessDescs, count: accessDescCount, bytes: bytesize, address: dptr
        }
        NodeParameters = CUgraphNodeParams_st { kind: type_, value: __bindgen_anon_1 }
        HostNode = CUDA_HOST_NODE_PARAMS_st { function: fn_, data: userData }
        Copy3 = CUDA_MEMCPY3D_st { to: dstXInBytes, width: WidthInBytes, depth: Depth }
        Copy2 = CUDA_MEMCPY2D_st { to: dstXInBytes, width: WidthInBytes, height: Height }
        LaunchAttribute = CUlaunchAttribute_st { id: id, value: value }
        LaunchConfiguration = CUlaunchConfig_st {
            block: blockDimX, shared: sharedMemBytes, stream: hStream, attributes: attrs,
            count: numAttrs
        }
        Instantiation = CUDA_GRAPH_INSTANTIATE_PARAMS_st {
            stream: hUploadStream, node: hErrNode_out, result: result_out
        }
        UpdateResult = CUgraphExecUpdateResultInfo_st { node: errorNode, from: errorFromNode }
        Edge = CUgraphEdgeData_st {}
    }
}
