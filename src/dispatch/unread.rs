//! Results that nobody reads.
//!
//! A caller that wants one result of several says so for the length of the call, and a kernel that
//! can save work by it asks. The result is a tensor all the same, of the right sizes, whose
//! elements are whatever was in its memory. So only those may say it who know that no one else
//! sees the results: a plan whose graph has no use for them, and composites whose call comes
//! straight to this crate's kernel, past all that records, observes or rewrites calls.

use super::operator::OperatorHandle;
use crate::tensor::Tensor;
use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static UNREAD: Cell<Option<(OperatorHandle, u64)>> = const { Cell::new(None) };
}

/// Results that are not read while this lives.
pub(crate) struct Unread {
    before: Option<(OperatorHandle, u64)>,
    on_this_thread: PhantomData<*const ()>,
}

impl Unread {
    /// Results of calls of the operator, a bit for each.
    pub(crate) fn of(op: OperatorHandle, results: u64) -> Unread {
        let now = (results != 0).then_some((op, results));
        Unread { before: UNREAD.replace(now), on_this_thread: PhantomData }
    }

    /// All but one result of a call of the operator with these tensors, if it comes straight to
    /// its kernel.
    pub(crate) fn beside(op: OperatorHandle, result: u32, tensors: &[&Tensor]) -> Unread {
        Unread::of(op, if op.is_direct(tensors) { !(1 << result) } else { 0 })
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        UNREAD.set(self.before);
    }
}

/// Whether a result of the operator's kernel that runs may be read.
pub(crate) fn is_read(op: OperatorHandle, result: u32) -> bool {
    let read = UNREAD.get().is_none_or(|(of, results)| of != op || results & (1 << result) == 0);
    #[cfg(test)]
    tests::LEFT_OUT.set(tests::LEFT_OUT.get() + usize::from(!read));
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autograd::no_grad;
    use crate::compile::compile;
    use crate::dispatch::operator;
    use crate::error::Result;
    use crate::ops::aten;

    thread_local! {
        /// How often a kernel of this thread was told that a result is not read.
        pub(super) static LEFT_OUT: Cell<usize> = const { Cell::new(0) };
    }

    /// What the call gives, and how many results it left out.
    fn left_out<R>(call: impl FnOnce() -> Result<R>) -> Result<(R, usize)> {
        let before = LEFT_OUT.get();
        let result = call()?;
        Ok((result, LEFT_OUT.get() - before))
    }

    fn image(rank: usize) -> Result<Tensor> {
        let sizes = [&[2, 3][..], &[6; 3][..rank]].concat();
        crate::manual_seed(3);
        Tensor::randn(sizes)
    }

    #[test]
    fn only_the_operator_named_last_has_unread_results() -> Result<()> {
        let (pool, sort) = (operator("aten::max_pool2d_with_indices")?, operator("aten::sort")?);
        assert!(is_read(pool, 1));
        let _outer = Unread::of(pool, 2);
        assert!(!is_read(pool, 1) && is_read(pool, 0) && is_read(sort, 1));
        {
            let _inner = Unread::of(sort, 1);
            assert!(is_read(pool, 1) && !is_read(sort, 0));
            let _none = Unread::of(sort, 0);
            assert!(is_read(pool, 1) && is_read(sort, 0));
        }
        assert!(!is_read(pool, 1));
        Ok(())
    }

    #[test]
    fn a_pool_that_nothing_records_looks_for_no_positions() -> Result<()> {
        for rank in 2..=3 {
            let x = image(rank)?;
            let pool = |x: &Tensor| match rank {
                2 => x.max_pool2d(2),
                _ => x.max_pool3d(2),
            };
            let (y, count) = left_out(|| pool(&x))?;
            assert_eq!(count, 1, "{rank}");
            let leaf = x.detach()?.requires_grad_(true)?;
            let (z, count) = left_out(|| pool(&leaf))?;
            assert_eq!(count, 0, "{rank}");
            assert_eq!(y.to_vec::<f32>()?, z.to_vec::<f32>()?);
            z.sum()?.backward()?;
            let grad = leaf.grad().unwrap();
            assert_eq!(grad.sum()?.item::<f32>()?, y.numel() as f32);
            let (_, count) = left_out(|| no_grad(|| pool(&leaf)))?;
            assert_eq!(count, 1, "{rank}");
            // channels innermost: through rows
            if rank == 2 {
                let last = aten::contiguous(&x, straightline_catalog::MemoryFormat::ChannelsLast)?;
                let (w, count) = left_out(|| pool(&last))?;
                assert_eq!((w.to_vec::<f32>()?, count), (y.to_vec::<f32>()?, 1));
            }
        }
        // what the operator itself gives is read
        let x = image(2)?;
        let four = [2, 2];
        let pools = || aten::max_pool2d_with_indices(&x, &four, &four, &[0, 0], &[1, 1], false);
        let ((_, at), count) = left_out(pools)?;
        let largest = at.max()?.item::<i64>()?;
        assert!(count == 0 && (0..36).contains(&largest));
        Ok(())
    }

    #[test]
    fn a_plan_leaves_out_what_its_graph_does_not_use() -> Result<()> {
        let x = image(2)?;
        let values = compile(|x: &Tensor| x.max_pool2d(3)?.add(1));
        let places = compile(|x: &Tensor| x.adaptive_max_pool2d(2));
        let only = compile(|x: &Tensor| Ok(x.adaptive_max_pool2d(2)?.0));
        for _ in 0..2 {
            let (y, _) = left_out(|| values.call(&x))?;
            assert_eq!(y.to_vec::<f32>()?, x.max_pool2d(3)?.add(1)?.to_vec::<f32>()?);
            places.call(&x)?;
            only.call(&x)?;
        }
        assert_eq!(left_out(|| values.call(&x))?.1, 1);
        let ((y, at), count) = left_out(|| places.call(&x))?;
        assert_eq!(count, 0);
        let (want, want_at) = x.adaptive_max_pool2d(2)?;
        assert_eq!(at.to_vec::<i64>()?, want_at.to_vec::<i64>()?);
        assert_eq!(y.to_vec::<f32>()?, want.to_vec::<f32>()?);
        let (z, count) = left_out(|| only.call(&x))?;
        assert_eq!((z.to_vec::<f32>()?, count), (want.to_vec::<f32>()?, 1));
        Ok(())
    }

    #[test]
    fn calls_that_somebody_sees_are_not_direct() -> Result<()> {
        let op = operator("aten::max_pool2d_with_indices")?;
        let x = image(2)?;
        assert!(op.is_direct(&[&x]));
        let leaf = x.detach()?.requires_grad_(true)?;
        assert!(!op.is_direct(&[&leaf]) && no_grad(|| op.is_direct(&[&leaf])));
        let (direct, _) = crate::dispatch::capture(|| op.is_direct(&[&x]));
        assert!(!direct);
        Ok(())
    }
}
