//! The operand of a raw kernel, and what can go wrong inside one.

use straightline_passes::ir::DType;

/// A strided tensor in memory, as the kernels see it.
///
/// The memory is borrowed without a lifetime; the caller of a kernel guarantees its validity (see
/// each kernel's safety section). Elements need not be aligned.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// The first element (storage offset applied).
    pub ptr: *mut u8,
    /// The element type.
    pub dtype: DType,
    /// The sizes.
    pub sizes: &'a [i64],
    /// The strides in elements, one per size; never negative.
    pub strides: &'a [i64],
}

impl<'a> Strided<'a> {
    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.sizes.iter().product::<i64>() as usize
    }

    /// Whether the elements lie side by side in row-major order.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        if self.sizes.contains(&0) {
            return true;
        }
        let mut expect = 1;
        for (&size, &stride) in self.sizes.iter().zip(self.strides).rev() {
            if size != 1 {
                if stride != expect {
                    return false;
                }
                expect *= size;
            }
        }
        true
    }

    /// Whether every element is the same one (all strides that matter are 0).
    #[inline]
    pub fn is_broadcast_scalar(&self) -> bool {
        self.sizes.iter().zip(self.strides).all(|(&size, &stride)| size == 1 || stride == 0)
    }

    /// The stride of a dimension in bytes. Along a dimension of one element, where it is not walked,
    /// it may be anything.
    #[inline]
    pub(crate) fn byte_stride(&self, dim: usize) -> isize {
        (self.strides[dim] as isize).wrapping_mul(self.dtype.size() as isize)
    }
}

/// What data, or a combination of operation and dtype, can make a kernel refuse.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KernelError {
    /// An integer was divided by zero.
    #[error("integer division or modulo by zero")]
    DivisionByZero,
    /// An integer was raised to a negative power (scalar exponents only).
    #[error("integers to negative integer powers are not allowed")]
    NegativePower,
    /// An index points outside of the dimension that it indexes.
    #[error("index {index} is out of range for a dimension of size {size}")]
    IndexOutOfRange {
        /// The index found.
        index: i64,
        /// The size of the dimension.
        size: i64,
    },
    /// The operation has no meaning for this dtype.
    #[error("{op} is not implemented for {}", dtype.torch_name())]
    UnsupportedDType {
        /// The operation.
        op: String,
        /// The dtype.
        dtype: DType,
    },
    /// A reduction that has no identity was asked of no elements.
    #[error("{op}: cannot reduce over a dimension of no elements, the operation has no identity")]
    EmptyReduction {
        /// The operation.
        op: String,
    },
    /// The operands violate the kernel's requirements: a mistake of its caller.
    #[error("{kernel} takes {wants}")]
    Operands {
        /// The kernel.
        kernel: &'static str,
        /// What it asks of its operands.
        wants: &'static str,
    },
    /// No memory for a temporary.
    #[error(transparent)]
    OutOfMemory(#[from] crate::memory::OutOfMemory),
}

impl Strided<'_> {
    /// Whether the elements lie as Rust wants them: complex ones as their parts, or there are none.
    #[inline]
    pub(crate) fn is_aligned(&self) -> bool {
        // a power of two, which spares a division
        self.ptr.addr() & (self.dtype.to_real().size() - 1) == 0 || self.numel() == 0
    }
}

impl KernelError {
    #[cold]
    pub(crate) fn operands(kernel: &'static str, wants: &'static str) -> Self {
        KernelError::Operands { kernel, wants }
    }

    #[cold]
    pub(crate) fn unsupported(op: impl std::fmt::Debug, dtype: DType) -> Self {
        KernelError::UnsupportedDType { op: format!("{op:?}").to_lowercase(), dtype }
    }
}
