//! Copies whose source is known per axis: pads and nearest neighbours, and their gradients.

use super::super::KernelError;
use super::super::nest;
use super::super::operand::{In, Out};
use super::number::{Number, rounding, with_number};
use super::planes::Planes;

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
        AxisMap { input: n, from: (0..n).collect() }
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

/// The sizes of what comes out of the maps, and of what goes in.
fn sizes(maps: &[AxisMap; 3]) -> ([usize; 3], [usize; 3]) {
    let maps = maps.each_ref();
    (maps.map(|m| m.from.len()), maps.map(|m| m.input))
}

/// `out[d][h][w] = input[map0[d]][map1[h]][map2[w]]` in each plane, whatever the elements are.
///
/// # Errors
///
/// Operands that are not as many planes of the maps' sizes, not row-major, or not of one dtype.
pub fn gather_axes(out: Out<'_>, input: In<'_>, maps: &[AxisMap; 3]) -> Result<(), KernelError> {
    const NAME: &str = "gather";
    let (out_sizes, input_sizes) = sizes(maps);
    let p = Planes::new(NAME, out, input, out_sizes, input_sizes)?;
    match p.dtype().size() {
        1 => gather::<1>(p, maps),
        2 => gather::<2>(p, maps),
        4 => gather::<4>(p, maps),
        8 => gather::<8>(p, maps),
        16 => gather::<16>(p, maps),
        _ => Err(KernelError::unsupported(NAME, p.dtype())),
    }
}

fn gather<const N: usize>(p: Planes<'_>, maps: &[AxisMap; 3]) -> Result<(), KernelError> {
    let [d, h, w] = maps.each_ref().map(|m| &m.from[..]);
    let (rows, width) = (d.len() * h.len(), w.len());
    let (height, in_width, in_len) = (maps[1].input, maps[2].input, p.input_len);
    let (run, run_len) = maps[2].run();
    let from = p.input.bytes()?.as_chunks::<N>().0;
    let to = (p.out.bytes()?.as_chunks_mut::<N>().0, width);
    nest::parallel_chunks(p.count * rows, width, to, &|items, to| {
        for (item, to) in items.zip(to.chunks_exact_mut(width)) {
            let (plane, row) = (item / rows, item % rows);
            let in_row = d[row / h.len()] * height + h[row % h.len()];
            let from = &from[plane * in_len + in_row * in_width..][..in_width];
            let pick = |to: &mut [[u8; N]], at: &[usize]| {
                for (to, i) in to.iter_mut().zip(at) {
                    // SAFETY: a position of the map is one of the row's.
                    *to = unsafe { *from.get_unchecked(*i) };
                }
            };
            let (before, rest) = to.split_at_mut(run);
            let (side_by_side, behind) = rest.split_at_mut(run_len);
            pick(before, w);
            side_by_side.copy_from_slice(&from[w[run]..][..run_len]);
            pick(behind, &w[run + run_len..]);
        }
    });
    Ok(())
}

/// The gradient of [`gather_axes`]: what was copied from one place is added up there, half types in
/// `f32` if `wide`, otherwise rounding after each addition.
///
/// # Errors
///
/// As for [`gather_axes`]: `grad` has the output sizes, `out` the input sizes.
pub fn scatter_axes(
    out: Out<'_>,
    grad: In<'_>,
    maps: &[AxisMap; 3],
    wide: bool,
) -> Result<(), KernelError> {
    const NAME: &str = "scatter";
    let (grad_sizes, out_sizes) = sizes(maps);
    let p = Planes::new(NAME, out, grad, out_sizes, grad_sizes)?;
    let [d, h, w] = maps.each_ref().map(|m| &m.from);
    let (height, in_width) = (maps[1].input, maps[2].input);
    let (dtype, cost) = (p.dtype(), p.input_len);
    let rounding = if wide { None } else { rounding(dtype) };
    with_number!(NAME, dtype, A => {
        p.each::<A>(cost, &|_, g, x| {
            let mut rows = g.chunks_exact(w.len().max(1));
            for id in d {
                for ih in h {
                    let Some(row) = rows.next() else { return };
                    let at = (id * height + ih) * in_width;
                    let to = &mut x[at..at + in_width];
                    for (v, i) in row.iter().zip(w) {
                        to[*i] = to[*i].plus_in(rounding, *v);
                    }
                }
            }
        })
    })
}
