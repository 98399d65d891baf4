//! The shape of a reduction, and what each way of folding it starts from.

use crate::cpu::kernels::Strided;
use crate::cpu::kernels::nest::Nest;
use smallvec::SmallVec;
use straightline_passes::ir::DType;

/// A row is folded in blocks of this many elements.
pub(super) const BLOCK: usize = 2048;

pub(super) type Dims = SmallVec<[i64; 6]>;

pub(super) fn row_major(sizes: &[i64]) -> Dims {
    let mut strides: Dims = SmallVec::from_elem(1, sizes.len());
    for d in (0..sizes.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * sizes[d + 1].max(1);
    }
    strides
}

/// The dimensions of a reduction: which are kept, and which are folded.
pub(super) struct Geometry {
    /// Over the kept elements: the accumulators (row-major) and the input.
    pub(super) kept: Nest<2>,
    /// Over the folded elements of one output.
    pub(super) folded: Nest<1>,
}

pub(super) fn geometry(
    out: &Strided<'_>,
    a: &Strided<'_>,
    acc: *mut u8,
    acc_dtype: DType,
) -> Geometry {
    let (mut ks, mut kin, mut kout): (Dims, Dims, Dims) = Default::default();
    let (mut fs, mut fin): (Dims, Dims) = Default::default();
    let strides = row_major(out.sizes);
    for d in 0..a.sizes.len() {
        if out.sizes[d] == a.sizes[d] {
            ks.push(a.sizes[d]);
            kin.push(a.strides[d]);
            kout.push(strides[d]);
        } else {
            fs.push(a.sizes[d]);
            fin.push(a.strides[d]);
        }
    }
    let input = |sizes, strides| Strided { ptr: a.ptr, dtype: a.dtype, sizes, strides };
    let accumulators = Strided { ptr: acc, dtype: acc_dtype, sizes: &ks, strides: &kout };
    // sorted by the input, which is the larger one
    let kept = Nest::new(&[input(&ks, &kin), accumulators]);
    Geometry { kept, folded: Nest::new(&[input(&fs, &fin)]) }
}

/// Writes `n` copies of an accumulator.
pub(super) unsafe fn repeat(p: *mut u8, bits: u64, size: usize, n: usize) {
    for i in 0..n {
        // SAFETY: as promised by the caller.
        unsafe {
            let to = p.add(i * size);
            match size {
                1 => to.write(bits as u8),
                4 => to.cast::<u32>().write_unaligned(bits as u32),
                _ => to.cast::<u64>().write_unaligned(bits),
            }
        }
    }
}

/// The nest of the folded elements of the output whose input starts at `p`.
pub(super) fn folded_from(folded: &Nest<1>, p: *mut u8) -> Nest<1> {
    let mut nest = folded.clone();
    nest.ptrs = [p];
    nest
}
