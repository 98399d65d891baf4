//! What follows the sums of a product that is in memory already, from the same definitions as the
//! eager operators, on the widest vectors of the machine.

use super::activate::Activate;
use super::element::{Element, Float};
use super::{MatMut, MatRef};
use crate::cpu::kernels::{half, nest};
use crate::cpu::math::simd::Lane;
use ::half::{bf16, f16};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::Activation;

/// `out = activation(out) + residual`, each rounded to the dtype.
///
/// # Safety
///
/// The views are valid, of a floating `dtype`. Nobody else uses the result meanwhile; the residual
/// may be the result itself, element for element.
pub unsafe fn finish(dtype: DType, activation: Activation, out: MatMut, residual: Option<MatRef>) {
    // along the rows where they lie in memory
    let (out, residual) = match out.col_stride != 1 && out.row_stride == 1 {
        true => (out.t(), residual.map(MatRef::t)),
        false => (out, residual),
    };
    // an activation is some twenty operations
    let cost = out.cols.saturating_mul(if activation == Activation::None { 1 } else { 16 });
    nest::parallel(out.rows, cost, &|first, last| {
        let part = (first, last);
        // SAFETY: the caller's contract, for rows that no other thread is given.
        unsafe {
            match dtype {
                DType::F64 => rows::<f64>(activation, out, residual, part),
                DType::F16 => half_rows::<f16>(dtype, activation, out, residual, part),
                DType::BF16 => half_rows::<bf16>(dtype, activation, out, residual, part),
                _ => rows::<f32>(activation, out, residual, part),
            }
        }
    });
}

/// # Safety
///
/// As [`finish`], for these rows of a matrix of `T`.
unsafe fn rows<T: Float + Lane>(
    activation: Activation,
    out: MatMut,
    residual: Option<MatRef>,
    part: (usize, usize),
) {
    let out = out.block::<T>(part, (0, out.cols));
    let residual = residual.map(|r| r.block::<T>(part, (0, r.cols)));
    let side_by_side = |col_stride: isize| col_stride == 1 || out.cols <= 1;
    if side_by_side(out.col_stride) && residual.is_none_or(|r| side_by_side(r.col_stride)) {
        let (row, cols) = (out.row_stride, out.cols);
        let follow = |row_stride: isize| row_stride == cols as isize;
        // rows that follow one another are a single one, with a single end
        let single = follow(row) && residual.is_none_or(|r| follow(r.row_stride));
        let task = Activate {
            activation,
            c: out.ptr.cast::<T>(),
            c_row: row,
            residual: residual.map_or(std::ptr::null(), |r| r.ptr.cast()),
            residual_row: residual.map_or(0, |r| r.row_stride),
            rows: if single { 1 } else { out.rows },
            cols: if single { out.rows * cols } else { cols },
        };
        // SAFETY: the caller's contract.
        unsafe { task.run() };
        return;
    }
    let mut row = vec![T::default(); out.cols];
    let mut other = vec![T::default(); if residual.is_some() { out.cols } else { 0 }];
    for i in 0..out.rows {
        // SAFETY: elements of the views, by the caller's contract.
        unsafe {
            row.iter_mut().enumerate().for_each(|(j, x)| *x = *out.at::<T>(i, j));
            if let Some(r) = residual {
                other.iter_mut().enumerate().for_each(|(j, x)| *x = *r.at::<T>(i, j));
            }
            activate_row(activation, &mut row, residual.is_some().then_some(&other));
            row.iter().enumerate().for_each(|(j, x)| *out.at::<T>(i, j) = *x);
        }
    }
}

/// One row of scratch.
fn activate_row<T: Float + Lane>(activation: Activation, row: &mut [T], residual: Option<&Vec<T>>) {
    if let Some(r) = residual {
        assert_eq!(r.len(), row.len());
    }
    let task = Activate {
        activation,
        c: row.as_mut_ptr(),
        c_row: 0,
        residual: residual.map_or(std::ptr::null(), |r| r.as_ptr()),
        residual_row: 0,
        rows: 1,
        cols: row.len(),
    };
    // SAFETY: two slices of this length, apart.
    unsafe { task.run() }
}

/// The half types: each step in f32, and rounded.
///
/// # Safety
///
/// As [`finish`], for these rows of a matrix of `T`, which is `dtype`.
unsafe fn half_rows<T: Element<Acc = f32>>(
    dtype: DType,
    activation: Activation,
    out: MatMut,
    residual: Option<MatRef>,
    part: (usize, usize),
) {
    let (mut row, mut other) = (vec![0f32; out.cols], vec![0f32; out.cols]);
    let mut rounded = vec![0u16; out.cols];
    for i in part.0..part.1 {
        // SAFETY: elements of the views, by the caller's contract.
        unsafe {
            load::<T>(dtype, &mut row, out.as_ref(), i);
            activate_row(activation, &mut row, None);
            if let Some(r) = residual {
                let bytes = rounded.as_mut_ptr().cast::<u8>();
                half::narrow(dtype, bytes, row.as_ptr(), row.len());
                half::widen(dtype, row.as_mut_ptr(), bytes, row.len());
                load::<T>(dtype, &mut other, r, i);
                activate_row(Activation::None, &mut row, Some(&other));
            }
            if out.col_stride == 1 {
                half::narrow(dtype, out.at::<u16>(i, 0).cast(), row.as_ptr(), row.len());
            } else {
                for (j, x) in row.iter().enumerate() {
                    *out.at::<T>(i, j) = T::round(*x);
                }
            }
        }
    }
}

/// # Safety
///
/// A row of a valid view of `T`, which is `dtype`, as long as `to`.
unsafe fn load<T: Element<Acc = f32>>(dtype: DType, to: &mut [f32], from: MatRef, i: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        if from.col_stride == 1 {
            half::widen(dtype, to.as_mut_ptr(), from.at::<T>(i, 0).cast(), to.len());
        } else {
            to.iter_mut().enumerate().for_each(|(j, x)| *x = (*from.at::<T>(i, j)).widen());
        }
    }
}
