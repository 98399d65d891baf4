//! The order in which the dimensions of a result lie in memory.

use straightline::{Result, Tensor};

/// The tensor, dense with its dimensions in this order, from the outermost to the innermost; a copy if
/// it was not. What is no order of its dimensions asks for nothing.
///
/// # Errors
/// No memory for the copy.
pub(crate) fn ordered(t: Tensor, order: &[usize]) -> Result<Tensor> {
    if is_ordered(t.sizes(), t.strides(), order) {
        return Ok(t);
    }
    let mut inverse = vec![0i64; order.len()];
    for (at, d) in order.iter().enumerate() {
        inverse[*d] = at as i64;
    }
    let order: Vec<i64> = order.iter().map(|d| *d as i64).collect();
    t.permute(&order)?.contiguous()?.permute(&inverse)
}

fn is_ordered(sizes: &[i64], strides: &[i64], order: &[usize]) -> bool {
    let mut dims = order.to_vec();
    dims.sort_unstable();
    if sizes.contains(&0) || !dims.into_iter().eq(0..sizes.len()) {
        return true;
    }
    let mut expected = 1;
    order.iter().rev().all(|d| {
        let is_dense = sizes[*d] == 1 || strides[*d] == expected;
        expected *= sizes[*d];
        is_dense
    })
}
