//! Planes of tensors, brought into the type that they are computed in, and split among threads.

use super::super::KernelError;
use super::super::nest;
use super::super::operand::{self, In, Out, ask};
use super::number::Number;
use straightline_passes::ir::DType;

/// A result and an operand of one dtype, both row-major: `count` planes each, one after another.
pub(super) struct Planes<'a> {
    pub(super) count: usize,
    pub(super) out: Out<'a>,
    /// The elements of one plane of the result.
    pub(super) out_len: usize,
    pub(super) input: In<'a>,
    /// The elements of one plane of the operand.
    pub(super) input_len: usize,
}

impl<'a> Planes<'a> {
    /// The operands as planes of these sizes.
    pub(super) fn new(
        kernel: &'static str,
        out: Out<'a>,
        input: In<'a>,
        out_sizes: [usize; 3],
        input_sizes: [usize; 3],
    ) -> Result<Planes<'a>, KernelError> {
        operand::apart(kernel, &[input])?;
        operand::same_dtype(kernel, &[&out.raw(), &input.raw()])?;
        operand::row_major(kernel, &[&out.raw(), &input.raw()])?;
        let out_len = product(kernel, out_sizes)?;
        let input_len = product(kernel, input_sizes)?;
        let count = out.numel().checked_div(out_len).unwrap_or(0);
        let fits = |n: usize, len: usize| count.checked_mul(len) == Some(n);
        // with nothing to compute, nothing is read
        let fits = fits(out.numel(), out_len) && (count == 0 || fits(input.numel(), input_len));
        ask(kernel, fits, "as many planes as its result has")?;
        Ok(Planes { count, out, out_len, input, input_len })
    }

    pub(super) fn dtype(&self) -> DType {
        self.out.dtype()
    }

    /// Calls `body(plane, input, out)` for each plane; `out` comes zeroed. `cost` is the work of
    /// one plane in element operations. The dtype computes in `A`.
    pub(super) fn each<A: Number>(
        self,
        cost: usize,
        body: &(impl Fn(usize, &[A], &mut [A]) + Sync),
    ) -> Result<(), KernelError> {
        self.each_with(cost, &mut [], &|plane, x, y, _| body(plane, x, y))
    }

    /// As [`Planes::each`], with each plane's share of the indices, which come zeroed too.
    pub(super) fn each_with<A: Number>(
        self,
        cost: usize,
        indices: &mut [i64],
        body: &(impl Fn(usize, &[A], &mut [A], &mut [i64]) + Sync),
    ) -> Result<(), KernelError> {
        self.each_in(cost, indices, &|| (), &|plane, x, y, at, ()| body(plane, x, y, at))
    }

    /// As [`Planes::each_with`], with what a thread makes by `start` and keeps from plane to plane.
    pub(super) fn each_in<A: Number, S>(
        mut self,
        cost: usize,
        indices: &mut [i64],
        start: &(impl Fn() -> S + Sync),
        body: &(impl Fn(usize, &[A], &mut [A], &mut [i64], &mut S) + Sync),
    ) -> Result<(), KernelError> {
        let (dtype, count, out_len) = (self.dtype(), self.count, self.out_len);
        let source = Source::new(self.input, self.input_len)?;
        let at_len = indices.len().checked_div(count).unwrap_or(0);
        let indices = (indices, at_len);
        let fill = |plane: usize, x: &mut [A], y: &mut [A], at: &mut [i64], kept: &mut S| {
            y.fill(A::ZERO);
            at.fill(0);
            body(plane, source.plane(plane, x), y, at, kept);
        };
        if A::is(dtype)
            && let Ok(out) = self.out.again().slice::<A>()
        {
            let out = (out, out_len);
            nest::parallel_pieces(count, cost, out, indices, &|planes, out, indices| {
                let (mut x, mut kept) = (source.scratch(), start());
                for (k, plane) in planes.enumerate() {
                    let y = &mut out[k * out_len..][..out_len];
                    fill(plane, &mut x, y, &mut indices[k * at_len..][..at_len], &mut kept);
                }
            });
            return Ok(());
        }
        let bytes_len = out_len * dtype.size();
        let out = (self.out.bytes()?, bytes_len);
        nest::parallel_pieces(count, cost, out, indices, &|planes, out, indices| {
            let (mut x, mut y, mut kept) = (source.scratch(), vec![A::ZERO; out_len], start());
            for (k, plane) in planes.enumerate() {
                fill(plane, &mut x, &mut y, &mut indices[k * at_len..][..at_len], &mut kept);
                A::store(dtype, &mut out[k * bytes_len..][..bytes_len], &y);
            }
        });
        Ok(())
    }
}

/// The planes of an operand; where it is not of the type, or not aligned, through a scratch.
struct Source<'a, A> {
    direct: Option<&'a [A]>,
    bytes: &'a [u8],
    dtype: DType,
    len: usize,
}

impl<'a, A: Number> Source<'a, A> {
    fn new(input: In<'a>, len: usize) -> Result<Source<'a, A>, KernelError> {
        let dtype = input.dtype();
        Ok(Source {
            direct: A::is(dtype).then(|| input.slice().ok()).flatten(),
            bytes: input.bytes()?,
            dtype,
            len,
        })
    }

    fn scratch(&self) -> Vec<A> {
        vec![A::ZERO; if self.direct.is_some() { 0 } else { self.len }]
    }

    fn plane<'s>(&self, plane: usize, scratch: &'s mut [A]) -> &'s [A]
    where
        'a: 's,
    {
        if let Some(x) = self.direct {
            return &x[plane * self.len..][..self.len];
        }
        let len = self.len * self.dtype.size();
        A::load(self.dtype, &self.bytes[plane * len..][..len], scratch);
        scratch
    }
}

/// How many elements tensors of these sizes have.
pub(super) fn product(
    kernel: &'static str,
    sizes: impl IntoIterator<Item = usize>,
) -> Result<usize, KernelError> {
    let n = sizes.into_iter().try_fold(1usize, usize::checked_mul);
    n.ok_or_else(|| KernelError::operands(kernel, "sizes that can be counted"))
}

/// The last `spatial` sizes, three of them: missing ones in front are 1.
pub(super) fn volume(
    kernel: &'static str,
    sizes: &[i64],
    spatial: usize,
) -> Result<[usize; 3], KernelError> {
    let fits = spatial <= sizes.len().min(3);
    ask(kernel, fits, "planes of up to three dimensions")?;
    let mut volume = [1; 3];
    for (to, n) in volume.iter_mut().zip(sizes.iter().rev().take(spatial)) {
        *to = *n as usize;
    }
    volume.reverse();
    Ok(volume)
}
