//! Copies whose source is known per axis: pads and nearest neighbours, and their gradients.

use super::super::KernelError;
use super::super::nest::{self, Shared};
use super::number::{Number, with_number};
use super::planes::{Planes, each_plane};
use straightline_passes::ir::DType;

/// For each output position of an axis, the input position that it copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AxisMap {
    input: usize,
    from: Vec<usize>,
}

impl AxisMap {
    /// The map `from`, of an axis of `input` positions; `None` if one of them does not exist.
    pub fn new(input: usize, from: Vec<usize>) -> Option<AxisMap> {
        let inside = from.iter().all(|i| *i < input);
        inside.then_some(AxisMap { input, from })
    }

    /// The map of an axis that stays as it is.
    pub fn identity(n: usize) -> AxisMap {
        AxisMap {
            input: n,
            from: (0..n).collect(),
        }
    }

    /// The positions copied.
    pub fn positions(&self) -> &[usize] {
        &self.from
    }

    /// The longest run of neighbours that are copied from neighbours: where it begins, and how long
    /// it is.
    fn run(&self) -> (usize, usize) {
        let (mut best, mut begin) = ((0, 0), 0);
        for i in 0..self.from.len() {
            if i > begin && self.from[i] != self.from[i - 1] + 1 {
                begin = i;
            }
            if i + 1 - begin > best.1 {
                best = (begin, i + 1 - begin);
            }
        }
        best
    }
}

/// `out[d][h][w] = input[map0[d]][map1[h]][map2[w]]` in each plane, whatever the elements are.
///
/// # Safety
///
/// `input` is `count` planes of the maps' input sizes and may be read; `out` is as many planes of
/// their output sizes, may be written and overlaps nothing; both have one dtype.
pub unsafe fn gather_axes(
    count: usize,
    out: Planes,
    input: Planes,
    maps: &[AxisMap; 3],
) -> Result<(), KernelError> {
    debug_assert!(out.dtype == input.dtype);
    // SAFETY: as promised by the caller.
    unsafe {
        match out.dtype.size() {
            1 => gather::<u8>(count, out, input, maps),
            2 => gather::<u16>(count, out, input, maps),
            4 => gather::<u32>(count, out, input, maps),
            8 => gather::<u64>(count, out, input, maps),
            16 => gather::<u128>(count, out, input, maps),
            _ => return Err(KernelError::unsupported("gather", out.dtype)),
        }
    }
    Ok(())
}

unsafe fn gather<T: Copy>(count: usize, out: Planes, input: Planes, maps: &[AxisMap; 3]) {
    let [d, h, w] = [0, 1, 2].map(|a| &maps[a].from);
    let (rows, width) = (d.len() * h.len(), w.len());
    let (height, in_width) = (maps[1].input, maps[2].input);
    let (run, run_len) = maps[2].run();
    let (to, from, in_len) = (Shared(out.ptr), Shared(input.ptr), input.len);
    let size = size_of::<T>();
    nest::parallel(count * rows, width, &|first, last| {
        for item in first..last {
            let (plane, row) = (item / rows, item % rows);
            let in_row = d[row / h.len()] * height + h[row % h.len()];
            let to = to.at((item * width * size) as isize).cast::<T>();
            let from = from.at(((plane * in_len + in_row * in_width) * size) as isize);
            let from = from.cast_const().cast::<T>();
            // SAFETY: a row of each; the map's positions are inside of the input's row.
            unsafe {
                let one = |o: usize| to.add(o).write_unaligned(from.add(w[o]).read_unaligned());
                (0..run).for_each(one);
                if run_len > 0 {
                    std::ptr::copy_nonoverlapping(
                        from.add(w[run]).cast::<u8>(),
                        to.add(run).cast::<u8>(),
                        run_len * size,
                    );
                }
                (run + run_len..width).for_each(one);
            }
        }
    });
}

/// The gradient of [`gather_axes`]: what was copied from one place is added up there, half types in
/// `f32` if `wide`, otherwise rounding after each addition.
///
/// # Safety
///
/// As for [`gather_axes`]: `grad` has the output sizes, `out` the input sizes.
pub unsafe fn scatter_axes(
    count: usize,
    out: Planes,
    grad: Planes,
    maps: &[AxisMap; 3],
    wide: bool,
) -> Result<(), KernelError> {
    let [d, h, w] = [0, 1, 2].map(|a| &maps[a].from);
    let (height, in_width) = (maps[1].input, maps[2].input);
    let dtype = out.dtype;
    let wide = wide || !matches!(dtype, DType::F16 | DType::BF16);
    with_number!("scatter", out.dtype, A => {
        // SAFETY: as promised by the caller.
        unsafe {
            each_plane::<A, 1>(count, grad.len, [grad], out, &|_, [g], x| {
                let mut rows = g.chunks_exact(w.len().max(1));
                for id in d {
                    for ih in h {
                        let Some(row) = rows.next() else { return };
                        let at = (id * height + ih) * in_width;
                        let to = &mut x[at..at + in_width];
                        for (v, i) in row.iter().zip(w) {
                            let sum = to[*i].plus(*v);
                            to[*i] = if wide { sum } else { sum.held_as(dtype) };
                        }
                    }
                }
            });
        }
        Ok(())
    })
}
