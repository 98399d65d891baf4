//! The elements of row-major tensors as slices, with access to them held as long as they are used.

use super::Tensor;
use super::storage::{ReadGuard, WriteGuard};
use crate::error::Result;
use std::ops::{Deref, DerefMut};
use straightline_runtime::cpu::kernels::{Element, In, Out};

/// Elements to read.
pub(crate) struct Elements<'t, T> {
    slice: &'t [T],
    _guard: ReadGuard<'t>,
}

/// Elements to write.
pub(crate) struct ElementsMut<'t, T> {
    slice: &'t mut [T],
    _guard: WriteGuard<'t>,
}

impl<T> Deref for Elements<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.slice
    }
}

impl<T> Deref for ElementsMut<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.slice
    }
}

impl<T> DerefMut for ElementsMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.slice
    }
}

impl Tensor {
    /// The elements, to read.
    ///
    /// # Errors
    ///
    /// The tensor is not row-major, not aligned, without memory, of another dtype, or held by this
    /// thread to be written.
    pub(crate) fn elements<T: Element>(&self) -> Result<Elements<'_, T>> {
        let guard = self.read()?;
        // SAFETY: the memory is held, to be read, as long as the slice is there.
        let view = unsafe { In::new(self.strided()?) };
        Ok(Elements { slice: view.slice()?, _guard: guard })
    }

    /// The elements, to write; counts as a new version.
    ///
    /// # Errors
    ///
    /// As for [`Tensor::elements`], or the memory is held by this thread in any way.
    pub(crate) fn elements_mut<T: Element>(&self) -> Result<ElementsMut<'_, T>> {
        let guard = self.write()?;
        // SAFETY: the memory is held exclusively as long as the slice is there; the elements of a
        // row-major tensor have addresses of their own.
        let view = unsafe { Out::new(self.strided()?) };
        Ok(ElementsMut { slice: view.slice()?, _guard: guard })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_held() {
        let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
        {
            let read = x.elements::<f32>().unwrap();
            assert_eq!(read[..], [1.0, 2.0, 3.0, 4.0]);
            assert!(x.elements_mut::<f32>().is_err());
        }
        x.elements_mut::<f32>().unwrap()[3] = 5.0;
        assert_eq!(x.elements::<f32>().unwrap()[3], 5.0);
        assert!(x.elements::<f64>().is_err());
        assert!(x.t().unwrap().elements::<f32>().is_err());
    }
}
