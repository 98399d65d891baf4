//! Calls with memory of others: geometry and addresses in place of tensors.

use super::compiled::Compiled;
use super::tree::TensorTree;
use crate::error::Result;
use crate::tensor::{RawTensor, Tensor};
use smallvec::SmallVec;
use std::sync::PoisonError;

/// What stands for one argument of a call in a row of arguments.
pub trait RowElement: TensorTree {
    /// The argument that is this tensor.
    fn from_tensor(t: Tensor) -> Self;

    /// Takes the tensor out; what is none comes back.
    ///
    /// # Errors
    /// It is none.
    fn into_tensor(self) -> std::result::Result<Tensor, Self>;

    /// The tensor, if it is one.
    fn as_tensor(&self) -> Option<&Tensor>;
}

impl RowElement for Tensor {
    fn from_tensor(t: Tensor) -> Self {
        t
    }

    fn into_tensor(self) -> std::result::Result<Tensor, Self> {
        Ok(self)
    }

    fn as_tensor(&self) -> Option<&Tensor> {
        Some(self)
    }
}

/// An argument of [`Compiled::call_external`].
#[derive(Clone, Debug)]
pub enum ExternalInput<'a, T> {
    /// Memory of somebody else's.
    Memory(RawTensor<'a>),
    /// A value of this crate's.
    Value(T),
}

/// How many rows are kept: one for each of so many threads that call at once.
const KEPT: usize = 64;

/// The arguments of a call, some of which lie over lent memory. Dropping it ends the loans.
struct Row<T: RowElement> {
    elements: Vec<T>,
    /// Which of them are lent.
    lent: SmallVec<[bool; 16]>,
}

impl<T: RowElement> Row<T> {
    /// Arguments of an earlier call, to be used again.
    fn of(elements: Vec<T>) -> Row<T> {
        let lent = elements.iter().map(|t| t.as_tensor().is_some()).collect();
        Row { elements, lent }
    }

    /// Puts an argument in its place, over the tensor that was lent there before, if it can be.
    ///
    /// # Safety
    ///
    /// Its memory is valid until the row is dropped, or its loans are ended.
    unsafe fn place(&mut self, at: usize, argument: ExternalInput<'_, T>) -> Result<()> {
        let (value, lent) = match argument {
            ExternalInput::Memory(raw) => {
                let there = self.elements.get(at).and_then(T::as_tensor);
                if let Some(there) = there
                    // SAFETY: the caller's contract; elements that are tensors were lent.
                    && unsafe { there.lend_again(&raw) }
                {
                    return Ok(());
                }
                // SAFETY: the caller's contract.
                (T::from_tensor(unsafe { Tensor::lent(&raw) }?), true)
            }
            ExternalInput::Value(value) => (value, false),
        };
        match (self.elements.get_mut(at), self.lent.get_mut(at)) {
            (Some(there), Some(was_lent)) => (*there, *was_lent) = (value, lent),
            _ => {
                self.elements.push(value);
                self.lent.push(lent);
            }
        }
        Ok(())
    }

    /// Ends the loans; what can be lent again. Tensors of the caller's are no part of that, nor what
    /// stands behind them.
    fn ended(&mut self) -> Vec<T> {
        let elements = std::mem::take(&mut self.elements);
        let ended = |(t, lent): (&T, &bool)| match t.as_tensor() {
            Some(t) => *lent && t.end_loan_in_place(),
            None => true,
        };
        let first = elements.iter().zip(&self.lent).position(|both| !ended(both));
        match first {
            None => elements,
            Some(first) => self.ended_from(elements, first),
        }
    }

    /// [`Row::ended`] where somebody has kept something, or an argument was none that is lent.
    #[cold]
    fn ended_from(&self, mut elements: Vec<T>, first: usize) -> Vec<T> {
        let rest = elements.split_off(first);
        for (element, lent) in rest.into_iter().zip(&self.lent[first..]) {
            if let (true, Ok(t)) = (lent, element.into_tensor()) {
                t.end_loan();
            }
        }
        elements
    }
}

impl<T: RowElement> Drop for Row<T> {
    fn drop(&mut self) {
        self.ended();
    }
}

impl<T: RowElement, O: TensorTree> Compiled<Vec<T>, O> {
    /// Calls the function with memory of others, without a tensor, or a copy, for each argument: the
    /// tensors of an earlier call with such sizes are used again. The results are the crate's own; an
    /// argument that is returned, or a view of one, is a copy.
    ///
    /// # Errors
    /// As [`Compiled::call`]; arguments that make no tensor.
    ///
    /// # Safety
    ///
    /// For the length of the call the memory of each argument may be read, and written unless it is
    /// said to be read only; nobody else writes it meanwhile, nor reads it if the function writes it.
    /// No argument that the function writes shares memory with another one. Bytes of `bool` are 0
    /// or 1.
    ///
    /// ```
    /// use straightline::compile::ExternalInput;
    /// use straightline::{DType, Tensor, compile, tensor::RawTensor};
    /// let f = compile(|x: &[Tensor]| x[0].mul(&x[1])?.add(1.0));
    /// let (a, b) = ([1f32, 2.0, 3.0], [4f32, 5.0, 6.0]);
    /// let raw = |of: &[f32; 3]| RawTensor::read_only(of.as_ptr().cast(), DType::F32, &[3], &[1]);
    /// let arguments = [ExternalInput::Memory(raw(&a)), ExternalInput::Memory(raw(&b))];
    /// // SAFETY: the arrays outlive the call, and nobody writes them.
    /// let y = unsafe { f.call_external(arguments) }?;
    /// assert_eq!(y.to_vec::<f32>()?, [5.0, 11.0, 19.0]);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub unsafe fn call_external<'a>(
        &self,
        arguments: impl IntoIterator<Item = ExternalInput<'a, T>>,
    ) -> Result<O> {
        let loans = self.loans();
        let kept = loans.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut row = Row::of(kept.unwrap_or_default());
        let mut count = 0;
        for argument in arguments {
            // SAFETY: the caller's contract; the loans end before this returns.
            unsafe { row.place(count, argument) }?;
            count += 1;
        }
        row.elements.truncate(count);
        row.lent.truncate(count);
        let result = self.call(&row.elements);
        let ended = row.ended();
        let mut kept = loans.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push(ended);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, compile, tensor};

    fn raw(of: &[f32]) -> ExternalInput<'_, Tensor> {
        let sizes: &[i64] = match of.len() {
            2 => &[2],
            3 => &[3],
            _ => &[4],
        };
        ExternalInput::Memory(RawTensor::new(
            of.as_ptr().cast_mut().cast(),
            DType::F32,
            sizes,
            &[1],
        ))
    }

    #[test]
    fn calls_with_memory_are_calls_with_tensors() {
        let f = compile(|x: &[Tensor]| x[0].mul(&x[1])?.sub(1.0));
        let (a, b, c) = ([1f32, 2.0, 3.0], [4f32, 5.0, 6.0], [1f32, 1.0, 2.0]);
        for (x, y, expected) in
            [(&a, &b, [3.0, 9.0, 17.0]), (&b, &c, [3.0, 4.0, 11.0]), (&a, &a, [0.0, 3.0, 8.0])]
        {
            // SAFETY: the arrays outlive the calls, which only read.
            let z = unsafe { f.call_external([raw(x), raw(y)]) }.unwrap();
            assert_eq!(z.to_vec::<f32>().unwrap(), expected);
        }
        let mixed = [raw(&a), ExternalInput::Value(tensor([2.0, 2.0, 2.0]).unwrap())];
        // SAFETY: as above.
        let z = unsafe { f.call_external(mixed) }.unwrap();
        assert_eq!(z.to_vec::<f32>().unwrap(), [1.0, 3.0, 5.0]);
        // other sizes, then the first ones
        // SAFETY: as above.
        let z = unsafe { f.call_external([raw(&a[..2]), raw(&b[..2])]) }.unwrap();
        assert_eq!(z.to_vec::<f32>().unwrap(), [3.0, 9.0]);
        // SAFETY: as above.
        assert!(unsafe { f.call_external([raw(&a[..2]), raw(&b)]) }.is_err());
        // SAFETY: as above.
        let z = unsafe { f.call_external([raw(&a), raw(&b)]) }.unwrap();
        assert_eq!(z.to_vec::<f32>().unwrap(), [3.0, 9.0, 17.0]);
    }

    #[test]
    fn nothing_of_the_caller_is_kept() {
        let f = compile(|x: &[Tensor]| Ok((x[0].clone(), x[0].narrow(0, 1, 1)?, x[0].add(1)?)));
        let mut a = [1f32, 2.0];
        for _ in 0..3 {
            // SAFETY: the array outlives the calls.
            let (same, view, sum) = unsafe { f.call_external([raw(&a)]) }.unwrap();
            a = [8.0, 9.0];
            std::hint::black_box(&a);
            assert_eq!(same.to_vec::<f32>().unwrap(), [1.0, 2.0]);
            assert_eq!(view.to_vec::<f32>().unwrap(), [2.0]);
            assert_eq!(sum.to_vec::<f32>().unwrap(), [2.0, 3.0]);
            a = [1.0, 2.0];
        }
    }

    #[test]
    fn arguments_are_written_where_they_may_be() {
        let f = compile(|x: &[Tensor]| x[0].add_(&x[1]));
        let (mut a, b) = ([1f32, 2.0], [10f32, 20.0]);
        for _ in 0..2 {
            let written = ExternalInput::Memory(RawTensor::new(
                a.as_mut_ptr().cast(),
                DType::F32,
                &[2],
                &[1],
            ));
            // SAFETY: the arrays outlive the calls.
            unsafe { f.call_external([written, raw(&b)]) }.unwrap();
        }
        assert_eq!(a, [21.0, 42.0]);
        let fixed =
            ExternalInput::Memory(RawTensor::read_only(a.as_ptr().cast(), DType::F32, &[2], &[1]));
        // SAFETY: as above.
        let e = unsafe { f.call_external([fixed, raw(&b)]) }.unwrap_err();
        assert!(matches!(e.kind(), crate::ErrorKind::ReadOnly { .. }), "{e}");
        assert_eq!(a, [21.0, 42.0]);
    }

    #[test]
    fn many_threads_call_at_once() {
        let f = compile(|x: &[Tensor]| x[0].mul(&x[1]));
        std::thread::scope(|s| {
            for n in 0..8 {
                let f = &f;
                s.spawn(move || {
                    let (a, b) = ([n as f32, 1.0, 2.0], [2f32, 3.0, n as f32]);
                    for _ in 0..200 {
                        // SAFETY: the arrays outlive the calls, which only read.
                        let z = unsafe { f.call_external([raw(&a), raw(&b)]) }.unwrap();
                        assert_eq!(
                            z.to_vec::<f32>().unwrap(),
                            [2.0 * n as f32, 3.0, 2.0 * n as f32]
                        );
                    }
                });
            }
        });
    }
}
