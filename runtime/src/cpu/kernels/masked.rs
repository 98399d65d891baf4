//! What is where a mask is true: how many elements, which, and at which places.

use super::KernelError;
use crate::cpu::kernels::operand::{In, Out};

/// How many elements of a mask, a row-major one of `bool`, are true.
pub fn count_true(mask: In<'_>) -> Result<usize, KernelError> {
    Ok(count(mask.bytes()?))
}

fn count(mask: &[u8]) -> usize {
    // sums of bytes are vectors; none overflows
    let blocks = mask.chunks(255).map(|block| {
        let sum = block.iter().map(|is| u8::from(*is != 0)).sum::<u8>();
        usize::from(sum)
    });
    blocks.sum()
}

/// The row-major places where a mask is true, in order.
pub fn true_places(mask: In<'_>) -> Result<Vec<i64>, KernelError> {
    let mask = mask.bytes()?;
    let mut places = vec![0; count(mask)];
    keep(&mut places, 0.., mask);
    Ok(places)
}

/// The elements of `x` where `mask`, of as many elements, is true, in row-major order. `out` has as many
/// as are true; the elements may have any dtype, and all operands are row-major.
pub fn masked_select(out: Out<'_>, x: In<'_>, mask: In<'_>) -> Result<(), KernelError> {
    let size = out.raw().dtype.size();
    let (mask, out, x) = (mask.bytes()?, out.bytes()?, x.bytes()?);
    match size {
        1 => elements::<1>(out, x, mask),
        2 => elements::<2>(out, x, mask),
        4 => elements::<4>(out, x, mask),
        8 => elements::<8>(out, x, mask),
        _ => elements::<16>(out, x, mask),
    }
    Ok(())
}

fn elements<const SIZE: usize>(out: &mut [u8], x: &[u8], mask: &[u8]) {
    keep(out.as_chunks_mut::<SIZE>().0, x.as_chunks::<SIZE>().0.iter().copied(), mask);
}

/// Writes each element and keeps those where the mask is true: without a branch, which no processor
/// could predict.
fn keep<T>(out: &mut [T], from: impl IntoIterator<Item = T>, mask: &[u8]) {
    let mut n = 0;
    for (value, is) in from.into_iter().zip(mask) {
        // all have been found
        let Some(place) = out.get_mut(n) else { return };
        *place = value;
        n += usize::from(*is != 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::integer::Bool8;
    use crate::cpu::kernels::operand::tests::{input, output};

    #[test]
    fn elements_and_places_where_a_mask_is_true() {
        for n in [0usize, 1, 7, 254, 255, 256, 1000] {
            for every in [1, 2, 3, 2000] {
                let is = |i: usize| (i * 7).is_multiple_of(every);
                let mask: Vec<Bool8> = (0..n).map(|i| Bool8::new(is(i))).collect();
                let want: Vec<i64> = (0..n as i64).filter(|i| is(*i as usize)).collect();
                assert_eq!(count_true(input(&mask)).unwrap(), want.len());
                assert_eq!(true_places(input(&mask)).unwrap(), want);
                let x: Vec<f64> = (0..n).map(|i| i as f64 / 2.0).collect();
                let mut out = vec![0.0; want.len()];
                masked_select(output(&mut out), input(&x), input(&mask)).unwrap();
                assert!(out.iter().zip(&want).all(|(x, i)| *x == *i as f64 / 2.0));
                let x: Vec<i16> = (0..n as i16).collect();
                let mut out = vec![0i16; want.len()];
                masked_select(output(&mut out), input(&x), input(&mask)).unwrap();
                assert!(out.iter().zip(&want).all(|(x, i)| i64::from(*x) == *i));
            }
        }
    }
}
