//! Reductions.

use super::{CallView, Lowered, Lowerer, wrap_dim};
use crate::ir::Op;
use crate::ir::promote::{accumulated, int_to_float};
use crate::ir::{DType, Dims, Scalar};
use crate::schedule::Target;
use crate::schedule::loops::{BinaryOp, ReduceOp};
use crate::schedule::program::{Def, V};
use smallvec::{SmallVec, smallvec};

/// A reduction to few results is cut into partial ones from this many elements on, so that
/// threads can share it.
const SPLIT_FROM: i64 = 1 << 16;
/// Fewer results than this leave threads idle.
const FEW_RESULTS: i64 = 8;
/// The largest number of partial results per result.
const MAX_PARTS: i64 = 64;
/// A reduction of columns is cut into parts of at most this many rows (a page each, and the first
/// level of the address cache has about a hundred), and of no fewer than the other.
const MAX_ROWS: i64 = 64;
const MIN_ROWS: i64 = 16;
/// Rows of fewer elements share pages.
const WIDE_ROW: i64 = 512;
/// Smaller matrices stay in the second-level cache.
const COLUMNS_FROM: i64 = 1 << 19;

/// A GPU has work for this many blocks (two for each multiprocessor of a large one).
const BLOCKS: i64 = 264;
/// Elements that a block shares at least, of a row and of a column.
const OF_ROW: i64 = 1 << 12;
const OF_COLUMN: i64 = 256;
/// Columns of a block.
const COLUMNS: i64 = 32;

/// Into how many parts, at most, elements are cut whose sizes these are: whole slices along the first
/// dimensions, so that a value of such sizes can be computed where it is read, if possible.
fn parts(sizes: &[i64], most: i64) -> Option<i64> {
    let divisor = |n: i64, most: i64| (2..=most).rev().find(|p| n % p == 0);
    let mut slices = 1;
    for n in sizes {
        if slices * n > most {
            slices *= divisor(*n, most / slices).unwrap_or(1);
            break;
        }
        slices *= n;
    }
    match slices {
        1 => divisor(sizes.iter().product(), most),
        slices => Some(slices),
    }
}

fn identity(op: ReduceOp) -> Option<Scalar> {
    Some(match op {
        ReduceOp::Sum => Scalar::Int(0),
        ReduceOp::Prod => Scalar::Int(1),
        ReduceOp::Any => Scalar::Bool(false),
        ReduceOp::All => Scalar::Bool(true),
        ReduceOp::Max | ReduceOp::Min => return None,
    })
}

impl Lowerer<'_> {
    pub(super) fn reduction(&mut self, c: &CallView) -> Option<Lowered> {
        let x = self.tensor(c, 0)?;
        let rank = self.p.sizes(x).len();
        let every = || -> SmallVec<[usize; 2]> { (0..rank).collect() };
        // `dim=None` and `dim=[]` mean every dimension
        let dims = || -> Option<SmallVec<[usize; 2]>> {
            let list = c.ints("dim").unwrap_or_default();
            if list.is_empty() || rank == 0 {
                return Some(every());
            }
            let mut dims: SmallVec<[usize; 2]> =
                list.into_iter().map(|d| wrap_dim(d, rank)).collect::<Option<_>>()?;
            dims.sort_unstable();
            Some(dims)
        };
        let keep = c.bool("keepdim").unwrap_or(false);
        let one = |v: V| -> Option<Lowered> { Some(smallvec![v]) };
        match c.op {
            Op::sum | Op::sum_dim_IntList => {
                one(self.accumulate(c, ReduceOp::Sum, x, dims()?, keep)?)
            }
            Op::prod | Op::prod_dim_int => {
                one(self.accumulate(c, ReduceOp::Prod, x, dims()?, keep)?)
            }
            Op::mean | Op::mean_dim => one(self.mean(c, x, dims()?, keep)?),
            Op::amax | Op::max => one(self.reduced(ReduceOp::Max, x, dims()?, keep)?),
            Op::amin | Op::min => one(self.reduced(ReduceOp::Min, x, dims()?, keep)?),
            Op::any | Op::any_dim | Op::any_dims => {
                let x = self.p.cast(x, DType::Bool);
                one(self.reduced(ReduceOp::Any, x, dims()?, keep)?)
            }
            Op::all | Op::all_dim | Op::all_dims => {
                let x = self.p.cast(x, DType::Bool);
                one(self.reduced(ReduceOp::All, x, dims()?, keep)?)
            }
            Op::argmax | Op::argmin => {
                one(self.arg_reduced(c.op == Op::argmax, x, dims()?, keep)?)
            }
            Op::max_dim | Op::min_dim => {
                let max = c.op == Op::max_dim;
                let op = if max { ReduceOp::Max } else { ReduceOp::Min };
                let value = self.reduced(op, x, dims()?, keep)?;
                let index = self.arg_reduced(max, x, dims()?, keep)?;
                Some(smallvec![value, index])
            }
            _ => None,
        }
    }

    /// `sum` or `prod`, in the dtype of the result; half types accumulate in `f32`.
    fn accumulate(
        &mut self,
        c: &CallView,
        op: ReduceOp,
        x: V,
        dims: SmallVec<[usize; 2]>,
        keep: bool,
    ) -> Option<V> {
        let dtype = match c.dtype().is_floating() {
            true => c.dtype(),
            false => accumulated(c.dtype()),
        };
        // the elements are of the result's dtype before they are added: a narrow one has rounded
        // them, and truth is not what a cast to an integer leaves
        let x = self.p.cast(x, c.dtype());
        let x = self.p.cast(x, dtype.opmath());
        let r = self.reduced(op, x, dims, keep)?;
        Some(self.p.cast(r, c.dtype()))
    }

    fn mean(&mut self, c: &CallView, x: V, dims: SmallVec<[usize; 2]>, keep: bool) -> Option<V> {
        let count: i64 = dims.iter().map(|d| self.p.sizes(x)[*d]).product();
        let compute = int_to_float(c.dtype()).opmath();
        let x = self.p.cast(x, compute);
        let sum = self.reduced(ReduceOp::Sum, x, dims, keep)?;
        let sizes = self.p.get(sum).sizes.clone();
        let n = self.p.constant(Scalar::Float(count as f64), compute, &sizes);
        let mean = self.p.binary(BinaryOp::Div, sum, n);
        Some(self.p.cast(mean, c.dtype()))
    }

    fn reduced(&mut self, op: ReduceOp, x: V, dims: SmallVec<[usize; 2]>, keep: bool) -> Option<V> {
        let dtype = self.p.dtype(x);
        let from = self.p.get(x).sizes.clone();
        let sizes: Dims = (0..from.len()).filter(|d| !dims.contains(d)).map(|d| from[d]).collect();
        let r = if from.contains(&0) {
            self.p.constant(identity(op)?, dtype, &sizes)
        } else if dims.iter().all(|d| from[*d] == 1) {
            // nothing to fold: a view of the same elements
            let same = self.p.reshape(x, &sizes);
            match op == ReduceOp::Sum && (dtype.is_floating() || dtype.is_complex()) {
                // but a sum starts at 0, and 0 + -0 is 0
                true => {
                    let zero = self.p.constant(Scalar::Int(0), dtype, &sizes);
                    self.p.binary(BinaryOp::Add, zero, same)
                }
                false => same,
            }
        } else {
            let (x, dims) = self.partial(op, x, dims.clone(), &sizes);
            self.p.push(dtype, &sizes, Def::Reduce { op, src: x, dims })
        };
        Some(if keep { self.p.keep_dims(r, &dims) } else { r })
    }

    /// Cuts a long reduction over the last dimensions in two.
    fn partial(
        &mut self,
        op: ReduceOp,
        x: V,
        dims: SmallVec<[usize; 2]>,
        results: &[i64],
    ) -> (V, SmallVec<[usize; 2]>) {
        let sizes = self.p.get(x).sizes.clone();
        let lead = results.len();
        let count: i64 = dims.iter().map(|d| sizes[*d]).product();
        let n = self.p.numel(x);
        let trailing = dims.iter().enumerate().all(|(i, d)| *d == lead + i);
        let few = n / count;
        let most = match self.target {
            Target::Cpu if n >= SPLIT_FROM && few < FEW_RESULTS => MAX_PARTS,
            Target::Cpu => 1,
            Target::Gpu => (BLOCKS * 2 / few.max(1)).min(count / OF_ROW),
        };
        match parts(&dims.iter().map(|d| sizes[*d]).collect::<Vec<_>>(), most) {
            Some(parts) if trailing && few > 0 && most > 1 => {
                let mut shape = Dims::from_slice(results);
                shape.push(parts);
                let partial_sizes = shape.clone();
                shape.push(count / parts);
                let cut = self.p.reshape(x, &shape);
                let dtype = self.p.dtype(x);
                let src = cut;
                let last: SmallVec<[usize; 2]> = smallvec![lead + 1];
                let def = Def::Reduce { op, src, dims: last };
                let part = self.p.push(dtype, &partial_sizes, def);
                self.p.values[part.i()].barrier = true;
                (part, smallvec![lead])
            }
            _ => self.partial_columns(op, x, dims, results),
        }
    }

    /// Cuts a long reduction over the first dimensions in two. On a CPU each part reads rows that the
    /// processor's address cache covers: a column of thousands of distant rows misses at every element.
    fn partial_columns(
        &mut self,
        op: ReduceOp,
        x: V,
        dims: SmallVec<[usize; 2]>,
        results: &[i64],
    ) -> (V, SmallVec<[usize; 2]>) {
        let leading = dims.iter().enumerate().all(|(i, d)| i == *d);
        let count: i64 = dims.iter().map(|d| self.p.sizes(x)[*d]).product();
        let width: i64 = results.iter().product();
        let rows = match self.target {
            Target::Cpu
                if count >= 4 * MAX_ROWS && width >= WIDE_ROW && count * width >= COLUMNS_FROM =>
            {
                (MIN_ROWS..=MAX_ROWS).rev().find(|r| count % r == 0)
            }
            Target::Cpu => None,
            Target::Gpu => {
                let blocks = width.div_euclid(COLUMNS).max(1);
                let most = (BLOCKS * 2 / blocks).min(count / OF_COLUMN);
                (2..=most).rev().find(|p| count % p == 0).map(|p| count / p)
            }
        };
        match rows {
            Some(rows) if leading && width > 0 => {
                let parts = count / rows;
                let cut: Dims = [parts, rows].iter().chain(results).copied().collect();
                let partial_sizes: Dims = [parts].iter().chain(results).copied().collect();
                let src = self.p.reshape(x, &cut);
                let dtype = self.p.dtype(x);
                let dims: SmallVec<[usize; 2]> = smallvec![1];
                let part = self.p.push(dtype, &partial_sizes, Def::Reduce { op, src, dims });
                self.p.values[part.i()].barrier = true;
                (part, smallvec![0])
            }
            _ => (x, dims),
        }
    }

    fn arg_reduced(
        &mut self,
        max: bool,
        x: V,
        dims: SmallVec<[usize; 2]>,
        keep: bool,
    ) -> Option<V> {
        let from = self.p.get(x).sizes.clone();
        if from.contains(&0) {
            return None;
        }
        let sizes: Dims = (0..from.len()).filter(|d| !dims.contains(d)).map(|d| from[d]).collect();
        let r = if dims.iter().all(|d| from[*d] == 1) {
            self.p.constant(Scalar::Int(0), DType::I64, &sizes)
        } else {
            let dims = dims.clone();
            self.p.push(DType::I64, &sizes, Def::ArgReduce { max, src: x, dims })
        };
        Some(if keep { self.p.keep_dims(r, &dims) } else { r })
    }
}
