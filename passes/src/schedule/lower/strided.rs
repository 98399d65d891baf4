//! Operators that see the storage of their operand: `as_strided`, its inverse, and that of
//! `diagonal`.

use super::{CallView, Lowerer, wrap_dim};
use crate::ir::Op;
use crate::ir::args::{self, Arguments as _};
use crate::ir::view::Affine;
use crate::ir::{Arg, TensorMeta};
use crate::ir::{Dims, Scalar, layout};
use crate::schedule::program::V;

/// The dimensions of a dense tensor from the slowest to the fastest; `None` if its elements do
/// not fill a block of storage.
fn storage_order(sizes: &[i64], strides: &[i64]) -> Option<Vec<usize>> {
    if !layout::is_non_overlapping_and_dense(sizes, strides) {
        return None;
    }
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    // strides of dimensions of size 1 do not matter
    order.sort_by_key(|d| (std::cmp::Reverse(strides[*d]), sizes[*d] != 1));
    Some(order)
}

/// The one stride between neighbours when the dimensions are walked in `order`.
fn common_stride(sizes: &[i64], strides: &[i64], order: &[usize]) -> Option<i64> {
    let mut dims =
        (order.iter().rev()).map(|d| (sizes[*d], strides[*d])).filter(|(size, _)| *size != 1);
    let Some((mut run, stride)) = dims.next() else {
        return Some(1);
    };
    for (size, s) in dims {
        if s != run * stride {
            return None;
        }
        run *= size;
    }
    (stride > 0).then_some(stride)
}

impl Lowerer<'_> {
    /// The elements in the order of the storage, where they fill it.
    fn flattened(&mut self, x: V, meta: &TensorMeta) -> Option<V> {
        let order = storage_order(&meta.sizes, &meta.strides)?;
        let x = self.permuted(x, &order)?;
        Some(self.p.reshape(x, &[meta.numel()]))
    }

    /// Elements in the order of the storage, as a tensor of that type.
    fn unflattened(&mut self, flat: V, meta: &TensorMeta) -> Option<V> {
        let order = storage_order(&meta.sizes, &meta.strides)?;
        let sizes: Vec<i64> = order.iter().map(|d| meta.sizes[*d]).collect();
        let x = self.p.reshape(flat, &sizes);
        let mut back = vec![0; order.len()];
        for (i, d) in order.into_iter().enumerate() {
            back[d] = i;
        }
        self.permuted(x, &back)
    }

    /// `as_strided` and its inverse, no other call, of complex numbers: calls of the runtime's
    /// kernels, on the elements in the order of the storage.
    pub(super) fn strided_call(&mut self, c: &CallView) -> Option<V> {
        let scatters = match c.op {
            Op::as_strided => false,
            Op::as_strided_scatter => true,
            _ => return None,
        };
        let (x, m) = (self.tensor(c, 0)?, self.meta(c, 0)?.clone());
        let result = c.results.first()?.clone();
        let row_major = |sizes: &[i64]| TensorMeta {
            sizes: Dims::from_slice(sizes),
            strides: layout::contiguous_strides(sizes),
            ..result.clone()
        };
        let order = storage_order(&m.sizes, &m.strides)?;
        let x = self.permuted(x, &order)?;
        let ordered = row_major(self.p.sizes(x));
        let args = vec![Arg::Tensor(0), Arg::None];
        let x = self.extern_call(Op::clone, args, vec![x], vec![ordered])[0];
        let flat = self.p.reshape(x, &[m.numel()]);
        let mut args = vec![Arg::Tensor(0)];
        let (mut inputs, sizes) = (vec![flat], m.numel());
        if scatters {
            args.push(Arg::Tensor(1));
            inputs.push(self.tensor(c, 1)?);
        }
        let (size, stride) = (c.ints("size")?, c.ints("stride")?);
        let offset = c.int("storage_offset").unwrap_or(0);
        args.extend([Arg::Ints(size), Arg::Ints(stride), Arg::Scalar(Scalar::Int(offset))]);
        if scatters {
            let flat = self.extern_call(c.op, args, inputs, vec![row_major(&[sizes])])[0];
            return self.unflattened(flat, &result);
        }
        Some(self.extern_call(c.op, args, inputs, vec![row_major(&result.sizes)])[0])
    }

    /// Whether a kernel would have to see the storage of an operand whose elements do not lie there
    /// row by row, which operands of calls do.
    pub(super) fn sees_storage(&self, c: &CallView) -> bool {
        let seen = match c.op {
            Op::as_strided => c.results.first(),
            Op::as_strided_scatter => self.meta(c, 1),
            _ => None,
        };
        let lies = |m: &TensorMeta| layout::is_contiguous(&m.sizes, &m.strides);
        seen.is_some_and(|m| m.numel() != 0) && !self.meta(c, 0).is_some_and(lies)
    }

    pub(super) fn as_strided(&mut self, c: &CallView) -> Option<V> {
        let a: args::as_strided<V> = self.args(c)?;
        let m = self.meta(c, 0)?.clone();
        let offset = a.storage_offset.unwrap_or(0);
        let extent = layout::storage_extent(c.sizes(), &a.stride, offset);
        if extent > m.numel() || offset < 0 || c.sizes().contains(&0) {
            return None;
        }
        let flat = self.flattened(a.self_, &m)?;
        let mut at = Affine::at(offset);
        at.terms = (a.stride.iter().zip(c.sizes()).enumerate())
            .filter(|(_, (s, n))| **s != 0 && **n != 1)
            .map(|(d, (s, _))| (d, *s))
            .collect();
        Some(self.p.view(flat, c.sizes(), vec![at]))
    }

    pub(super) fn as_strided_scatter(&mut self, c: &CallView) -> Option<V> {
        let a: args::as_strided_scatter<V> = self.args(c)?;
        let (sizes, strides) = (a.size, a.stride);
        let (src, m) = (a.src, self.meta(c, 0)?.clone());
        let offset = a.storage_offset.unwrap_or(0);
        if sizes.contains(&0) || sizes.len() != strides.len() || offset < 0 {
            return None;
        }
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|d| std::cmp::Reverse(strides[*d]));
        let flat = self.flattened(a.self_, &m)?;
        let flat = match common_stride(&sizes, &strides, &order) {
            Some(step) => {
                let src = self.permuted(src, &order)?;
                let src = self.p.reshape(src, &[layout::numel(&sizes)]);
                self.scatter(flat, src, 0, offset, step)
            }
            // the runtime's kernel; on one dimension, which lies in memory as it is counted
            None => {
                let meta = TensorMeta {
                    sizes: Dims::from_slice(&[m.numel()]),
                    strides: Dims::from_slice(&[1]),
                    ..m.clone()
                };
                let call = args::as_strided_scatter {
                    self_: 0,
                    src: 1,
                    size: sizes,
                    stride: strides,
                    storage_offset: Some(offset),
                };
                self.extern_call(c.op, call.write(), vec![flat, src], vec![meta])[0]
            }
        };
        self.unflattened(flat, c.results.first()?)
    }

    /// The diagonal of a row-major matrix lies in it at equal distances.
    pub(super) fn diagonal_scatter(&mut self, c: &CallView) -> Option<V> {
        let args::diagonal_scatter { self_: x, src, offset, dim1, dim2 } = self.args(c)?;
        let rank = c.sizes().len();
        let (a, b) = (wrap_dim(dim1, rank)?, wrap_dim(dim2, rank)?);
        if c.sizes().contains(&0) || self.p.sizes(src).contains(&0) {
            return Some(x);
        }
        let mut order: Vec<usize> = (0..rank).filter(|d| *d != a && *d != b).collect();
        order.extend([a, b]);
        let (rows, columns) = (c.sizes()[a], c.sizes()[b]);
        let matrices = self.permuted(x, &order)?;
        let mut lead: Vec<i64> = order[..rank - 2].iter().map(|d| c.sizes()[*d]).collect();
        lead.push(rows * columns);
        let flat = self.p.reshape(matrices, &lead);
        let start = offset.max(0) + (-offset).max(0) * columns;
        let flat = self.scatter(flat, src, rank - 2, start, columns + 1);
        let sizes: Vec<i64> = order.iter().map(|d| c.sizes()[*d]).collect();
        let matrices = self.p.reshape(flat, &sizes);
        let mut back = vec![0; rank];
        for (i, d) in order.into_iter().enumerate() {
            back[d] = i;
        }
        self.permuted(matrices, &back)
    }
}
