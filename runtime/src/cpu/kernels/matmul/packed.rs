//! Products with a right factor that was packed before: weights.
//!
//! [`PackedB`] holds the matrix in panels of the machine's microkernel; [`matmul_packed`]
//! multiplies by it and finishes each tile while it is in registers or in the first cache: `out =
//! activation(a @ b + bias) + residual`.
//!
//! Numerics: each sum is one chain of fused multiply-adds in the order of `k`, or for bf16 what
//! [`straightline_microkernels::pairs`] says; bias, activation and residual follow, each rounded. The
//! bits do not depend on the number of threads, nor on how many rows are multiplied at once.

use super::activate::{Activate, Epilogue};
use super::blocked::{Blocked, Blocks, Right, Source};
use super::drive::{Ending, Left, Panels, Product, Target};
use super::half::{self, Half, Halves};
use super::micro::{Kernels, Native};
use super::pack::{Lines, pack, packed_len};
use super::{MatMut, MatRef, MatmulError, pairs};
use crate::cpu::math::simd::Lane;
use ::half::{bf16, f16};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::Activation;

/// A right factor in panels.
pub struct PackedB {
    dtype: DType,
    k: usize,
    n: usize,
    data: Lines,
}

impl PackedB {
    /// Packs a `k` by `n` matrix with any strides (in elements). f16 is widened, and bf16 unless
    /// the machine multiplies pairs of it.
    ///
    /// # Errors
    ///
    /// If `dtype` is not a float type.
    ///
    /// # Safety
    ///
    /// The view is valid to read as `dtype`.
    pub unsafe fn pack(
        dtype: DType,
        k: usize,
        n: usize,
        ptr: *const u8,
        row_stride: isize,
        col_stride: isize,
    ) -> Result<PackedB, MatmulError> {
        let mut packed = PackedB { dtype, k, n, data: Lines::new(0) };
        if !dtype.is_floating() {
            return Err(MatmulError::DType { dtype });
        }
        // SAFETY: the caller's contract.
        unsafe { packed.repack(ptr, row_stride, col_stride) };
        Ok(packed)
    }

    /// Packs new values of the same dtype and sizes into the same memory.
    ///
    /// # Safety
    ///
    /// As [`PackedB::pack`].
    pub unsafe fn repack(&mut self, ptr: *const u8, row_stride: isize, col_stride: isize) {
        let b = MatRef::new(ptr, (self.k, self.n), (row_stride, col_stride));
        // SAFETY: the caller's contract.
        unsafe {
            match self.dtype {
                DType::F64 => self.fill::<f64>(b),
                DType::F16 => self.fill_from(&Halves::<f16>::new(b)),
                DType::BF16 => match pairs::kernels() {
                    Some(kernels) => {
                        self.data.grow(pairs::packed_bytes(self.k, self.n));
                        pairs::pack_right(kernels, b, self.data.ptr_mut());
                    }
                    None => self.fill_from(&Halves::<bf16>::new(b)),
                },
                _ => self.fill::<f32>(b),
            }
        }
    }

    /// # Safety
    ///
    /// `b` is valid to read as `T`.
    unsafe fn fill<T: Native>(&mut self, b: MatRef) {
        let panel = T::kernels().panel;
        self.data.grow(packed_len(self.k, self.n, panel) * size_of::<T>());
        // SAFETY: the room was just made.
        unsafe { pack::<T>(b, panel, self.data.ptr_mut()) }
    }

    /// # Safety
    ///
    /// The factor is valid to read in the sizes of this one.
    unsafe fn fill_from(&mut self, b: &impl Source<f32>) {
        let panel = f32::kernels().panel;
        self.data.grow(packed_len(self.k, self.n, panel) * size_of::<f32>());
        // SAFETY: the room was just made.
        unsafe { b.pack((0, self.k), (0, self.n), panel, self.data.ptr_mut()) }
    }

    /// The dtype of the matrix that was packed, and of everything it is multiplied with.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its rows.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Its columns.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.data.bytes()
    }
}

/// `c = activation(a @ b + bias) + residual`, where `a` has `m` rows of `b.k()` contiguous elements
/// and `c` rows of `b.n()` contiguous elements; row strides count elements.
///
/// # Safety
///
/// `a` is valid to read, `c` to write, the epilogue's pointers to read, all as `b.dtype()` and
/// aligned for it. Nothing overlaps `c`, except that the residual may be `c` itself.
pub unsafe fn matmul_packed(
    m: usize,
    a_ptr: *const u8,
    a_row_stride: isize,
    b: &PackedB,
    c_ptr: *mut u8,
    c_row_stride: isize,
    epilogue: Epilogue,
) {
    let a = MatRef::new(a_ptr, (m, b.k), (a_row_stride, 1));
    let c = MatMut::new(c_ptr, (m, b.n), (c_row_stride, 1));
    // SAFETY: the caller's contract.
    unsafe { matmul_packed_strided(a, b, c, epilogue) }
}

/// [`matmul_packed`] for an `a` with any strides. The rows of `c` are contiguous, as rows of one
/// element always are.
///
/// # Panics
///
/// If the sizes do not fit, or `c.col_stride` is not one where it matters.
///
/// # Safety
///
/// As [`matmul_packed`].
pub unsafe fn matmul_packed_strided(a: MatRef, b: &PackedB, c: MatMut, epilogue: Epilogue) {
    let contiguous = c.col_stride == 1 || c.cols <= 1;
    assert!(a.cols == b.k && c.cols == b.n && a.rows == c.rows && contiguous);
    let c = MatMut { col_stride: 1, ..c };
    // SAFETY: the caller's contract.
    unsafe {
        match b.dtype {
            DType::F64 => run::<f64>(f64::kernels(), a, b, c, epilogue),
            DType::F16 => run_half::<f16>(a, b, c, epilogue),
            DType::BF16 => match pairs::kernels() {
                Some(kernels) => pairs::packed(kernels, a, b.data.ptr(), c, epilogue),
                None => run_half::<bf16>(a, b, c, epilogue),
            },
            _ => run::<f32>(f32::kernels(), a, b, c, epilogue),
        }
    }
}

/// # Safety
///
/// As [`matmul_packed`], `b` holds `T` in panels of `kernels`.
unsafe fn run<T: Native + Lane>(
    kernels: &'static Kernels<T>,
    a: MatRef,
    b: &PackedB,
    c: MatMut,
    epilogue: Epilogue,
) {
    let (residual, residual_row) = epilogue.residual.unwrap_or((std::ptr::null(), 0));
    let residual = MatRef::new(residual, (a.rows, b.n), (residual_row, 1));
    let has_residual = epilogue.residual.is_some();
    let activation = epilogue.activation;
    let plain = activation == Activation::None;
    let finished = |tile: Target<T>, rows: (usize, usize), cols: (usize, usize)| {
        let task = Activate {
            activation,
            c: tile.ptr,
            c_row: tile.row,
            residual: if has_residual {
                residual.at::<T>(rows.0, cols.0)
            } else {
                std::ptr::null()
            },
            residual_row,
            rows: rows.1 - rows.0,
            cols: cols.1 - cols.0,
        };
        // SAFETY: the finished tile, which nobody else touches, and its part of the residual.
        unsafe { task.run() }
    };
    let (m, n, k) = (a.rows, b.n, b.k);
    let a = Left { ptr: a.ptr.cast::<T>(), row: a.row_stride, step: a.col_stride, tiled: false };
    let panels = Panels {
        ptr: b.data.ptr(),
        step: kernels.panel as isize,
        panel: (k * kernels.panel) as isize,
    };
    let c = Target { ptr: c.ptr.cast(), row: c.row_stride };
    let ending = Ending {
        bias: epilogue.bias.map_or(std::ptr::null(), <*const u8>::cast),
        residual: if plain { residual.ptr.cast() } else { std::ptr::null() },
        residual_row,
        finished: if plain { None } else { Some(&finished) },
    };
    // SAFETY: the caller's contract.
    unsafe {
        if m <= kernels.max_rows() {
            return Product { kernels, m, n, k, a, b: panels, c, ending }.run();
        }
        let b: Right<'_, T, MatRef> = Right::Panels(panels);
        let blocks = Blocks::of::<T>(kernels.panel);
        Blocked { kernels, m, n, k, a, b, c, blocks, ending }.run()
    }
}

/// f16 and bf16: everything in f32, rounded once at the end.
///
/// # Safety
///
/// As [`matmul_packed`].
unsafe fn run_half<T: Half>(a: MatRef, b: &PackedB, c: MatMut, epilogue: Epilogue) {
    let (m, n) = (a.rows, b.n);
    if m == 0 || n == 0 {
        return;
    }
    let of_residual = if epilogue.residual.is_some() { m * n } else { 0 };
    half::with_f32(m * a.cols + m * n + n + of_residual, |wide_a| {
        let sums = wide_a.wrapping_add(m * a.cols);
        let wide_bias = sums.wrapping_add(m * n);
        let wide_residual = wide_bias.wrapping_add(n);
        // SAFETY: the caller's contract; the copies are dense and live until the end.
        unsafe {
            let a = half::widen::<T>(a, wide_a);
            let dense = |ptr, rows, row, to| {
                half::widen::<T>(MatRef::new(ptr, (rows, n), (row, 1)), to).ptr
            };
            let bias = epilogue.bias.map(|ptr| dense(ptr, 1, 0, wide_bias));
            let residual = epilogue.residual.map(|(ptr, row)| dense(ptr, m, row, wide_residual));
            let target = MatMut::row_major(sums.cast(), m, n);
            let wide = Epilogue {
                bias,
                activation: epilogue.activation,
                residual: residual.map(|ptr| (ptr, n as isize)),
            };
            run::<f32>(f32::kernels(), a, b, target, wide);
            for i in 0..m {
                let to = c.at::<T>(i, 0).cast();
                crate::cpu::kernels::half::narrow(T::DTYPE, to, sums.wrapping_add(i * n), n);
            }
        }
    });
}
