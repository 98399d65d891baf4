//! Raw strided views of matrices.

/// A matrix to read: base pointer, sizes, and strides counted in elements (zero and negative
/// allowed).
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the struct's sentence names each field
pub struct MatRef {
    pub ptr: *const u8,
    pub rows: usize,
    pub cols: usize,
    pub row_stride: isize,
    pub col_stride: isize,
}

/// A matrix to write, with strides counted in elements. No two of its elements may share an
/// address.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // as above
pub struct MatMut {
    pub ptr: *mut u8,
    pub rows: usize,
    pub cols: usize,
    pub row_stride: isize,
    pub col_stride: isize,
}

impl MatRef {
    /// A view with the given strides.
    pub fn new(
        ptr: *const u8,
        (rows, cols): (usize, usize),
        (row_stride, col_stride): (isize, isize),
    ) -> MatRef {
        MatRef { ptr, rows, cols, row_stride, col_stride }
    }

    /// A dense matrix whose rows follow one another.
    pub fn row_major(ptr: *const u8, rows: usize, cols: usize) -> MatRef {
        MatRef::new(ptr, (rows, cols), (cols as isize, 1))
    }

    /// The transposed view.
    #[must_use]
    pub fn t(self) -> MatRef {
        MatRef {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// The view moved by a number of elements of `T`.
    pub(super) fn offset<T>(self, elements: isize) -> MatRef {
        MatRef { ptr: self.ptr.cast::<T>().wrapping_offset(elements).cast(), ..self }
    }

    /// The address of an element.
    #[inline(always)]
    pub(super) fn at<T>(&self, row: usize, col: usize) -> *const T {
        self.ptr
            .cast::<T>()
            .wrapping_offset(row as isize * self.row_stride + col as isize * self.col_stride)
    }

    /// Rows `begin..end` and columns `left..right`.
    pub(super) fn block<T>(self, rows: (usize, usize), cols: (usize, usize)) -> MatRef {
        MatRef {
            ptr: self.at::<T>(rows.0, cols.0).cast(),
            rows: rows.1 - rows.0,
            cols: cols.1 - cols.0,
            ..self
        }
    }
}

impl MatMut {
    /// A view with the given strides.
    pub fn new(
        ptr: *mut u8,
        (rows, cols): (usize, usize),
        (row_stride, col_stride): (isize, isize),
    ) -> MatMut {
        MatMut { ptr, rows, cols, row_stride, col_stride }
    }

    /// A dense matrix whose rows follow one another.
    pub fn row_major(ptr: *mut u8, rows: usize, cols: usize) -> MatMut {
        MatMut::new(ptr, (rows, cols), (cols as isize, 1))
    }

    /// The transposed view.
    #[must_use]
    pub fn t(self) -> MatMut {
        MatMut {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// The same elements to read.
    pub fn as_ref(self) -> MatRef {
        MatRef::new(self.ptr, (self.rows, self.cols), (self.row_stride, self.col_stride))
    }

    /// The view moved by a number of elements of `T`.
    pub(super) fn offset<T>(self, elements: isize) -> MatMut {
        MatMut { ptr: self.ptr.cast::<T>().wrapping_offset(elements).cast(), ..self }
    }

    /// The address of an element.
    #[inline(always)]
    pub(super) fn at<T>(&self, row: usize, col: usize) -> *mut T {
        self.as_ref().at::<T>(row, col).cast_mut()
    }

    /// Rows `begin..end` and columns `left..right`.
    pub(super) fn block<T>(self, rows: (usize, usize), cols: (usize, usize)) -> MatMut {
        MatMut {
            ptr: self.at::<T>(rows.0, cols.0).cast(),
            rows: rows.1 - rows.0,
            cols: cols.1 - cols.0,
            ..self
        }
    }
}

// SAFETY: a view is an address and numbers; what may be done with it is the contract of the
// functions that take it.
unsafe impl Send for MatRef {}
// SAFETY: as above.
unsafe impl Sync for MatRef {}
// SAFETY: as above.
unsafe impl Send for MatMut {}
// SAFETY: as above.
unsafe impl Sync for MatMut {}
