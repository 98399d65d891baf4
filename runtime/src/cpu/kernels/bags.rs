//! Rows of a table added up: the derivative of an embedding, bags of embeddings and their
//! derivative.
//!
//! Tables and results are row-major matrices of `f32` or `f64` (half types are widened before);
//! rows and bags are given as numbers and checked here.

use super::KernelError;
use super::operand::{Element, In, Out, ask};
use straightline_passes::ir::DType;

/// How the rows of a bag become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Added.
    Sum,
    /// Added and divided by how many they are.
    Mean,
    /// The largest of each column.
    Max,
}

/// What is in each bag.
#[derive(Clone, Copy, Debug)]
pub struct Bags<'a> {
    /// The row of the table for each sample.
    pub rows: &'a [i64],
    /// The first sample of each bag.
    pub starts: &'a [i64],
    /// One behind the last sample of the last bag.
    pub end: usize,
    /// A factor for each sample.
    pub factors: Option<&'a [f64]>,
    /// A row that does not count; none if negative.
    pub padding: i64,
}

/// The values of a forward call that its derivative needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// How many rows each bag counts; 0 for sums, which do not need it.
    pub sizes: Vec<i64>,
    /// For [`Mode::Max`] the row that each element came from, otherwise as `sizes`.
    pub maxima: Vec<i64>,
}

fn check(index: i64, size: i64) -> Result<usize, KernelError> {
    if (0..size).contains(&index) {
        Ok(index as usize)
    } else {
        Err(KernelError::IndexOutOfRange { index, size })
    }
}

/// Arithmetic that both table types have.
trait Float: Copy + PartialOrd {
    fn zero() -> Self;
    /// `self + x * factor`
    fn add_scaled(self, x: Self, factor: f64) -> Self;
    fn divided(self, by: f64) -> Self;
}

macro_rules! float {
    ($($t:ty)+) => {$(
        impl Float for $t {
            fn zero() -> Self {
                0.0
            }
            #[inline(always)]
            fn add_scaled(self, x: Self, factor: f64) -> Self {
                self + x * factor as $t
            }
            fn divided(self, by: f64) -> Self {
                self / by as $t
            }
        }
    )+};
}
float!(f32 f64);

macro_rules! integer {
    ($($t:ty)+) => {$(
        impl Float for $t {
            fn zero() -> Self {
                0
            }
            fn add_scaled(self, x: Self, factor: f64) -> Self {
                // as a conversion of the product
                self.wrapping_add((x as f64 * factor) as $t)
            }
            fn divided(self, by: f64) -> Self {
                (self as f64 / by) as $t
            }
        }
    )+};
}
integer!(u8 i8 i16 i32 i64);

/// Rows and columns; operands that are not matrices are refused later.
fn shape(sizes: &[i64]) -> (i64, usize) {
    (sizes.first().copied().unwrap_or(0), sizes.get(1).map_or(0, |n| *n as usize))
}

/// Two row-major matrices as wide as each other, and their heights.
fn matrices<'a, T: Element>(
    kernel: &'static str,
    out: Out<'a>,
    from: In<'a>,
) -> Result<(&'a mut [T], &'a [T]), KernelError> {
    let matrices = out.sizes().len() == 2 && from.sizes().len() == 2;
    ask(kernel, matrices && out.sizes()[1] == from.sizes()[1], "matrices of the same width")?;
    Ok((out.slice()?, from.slice()?))
}

macro_rules! with_number {
    ($name:expr, $dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $t = f32;
                $body
            }
            DType::F64 => {
                type $t = f64;
                $body
            }
            DType::U8 => {
                type $t = u8;
                $body
            }
            DType::I8 => {
                type $t = i8;
                $body
            }
            DType::I16 => {
                type $t = i16;
                $body
            }
            DType::I32 => {
                type $t = i32;
                $body
            }
            DType::I64 => {
                type $t = i64;
                $body
            }
            other => return Err(KernelError::unsupported($name, other)),
        }
    };
}

/// How often each row is used.
fn frequencies(rows: &[i64], n: usize) -> Vec<u32> {
    let mut counts = vec![0; n];
    for row in rows {
        if let Some(count) = usize::try_from(*row).ok().and_then(|r| counts.get_mut(r)) {
            *count += 1;
        }
    }
    counts
}

/// `out[rows[i]] += grad[i]`, but for the row `padding`; each divided by how often its row is used
/// if `by_frequency`.
pub fn add_rows(
    out: Out<'_>,
    grad: In<'_>,
    rows: &[i64],
    padding: i64,
    by_frequency: bool,
) -> Result<(), KernelError> {
    let (height, width) = shape(out.sizes());
    let floating = out.dtype().is_floating();
    with_number!("embedding_backward", out.dtype(), T => {
        let (to, from) = matrices::<T>("embedding_backward", out, grad)?;
        ask("embedding_backward", rows.len() * width <= from.len(), "a row of the gradient for each")?;
        let counts = if by_frequency { frequencies(rows, height as usize) } else { Vec::new() };
        for (i, row) in rows.iter().enumerate() {
            if *row == padding {
                continue;
            }
            let row = check(*row, height)?;
            let factor = counts.get(row).map_or(1.0, |c| 1.0 / f64::from(*c));
            // a number of the gradient's dtype, as PyTorch's: of integers, nothing is left of a
            // share
            let factor = if floating { factor } else { factor.trunc() };
            let to = &mut to[row * width..][..width];
            for (x, y) in to.iter_mut().zip(&from[i * width..][..width]) {
                *x = x.add_scaled(*y, factor);
            }
        }
    });
    Ok(())
}

/// The bag of each of `n` samples.
pub fn bag_of_each(starts: &[i64], n: usize) -> Vec<i64> {
    let mut out = Vec::with_capacity(n);
    let mut bag = 0;
    for i in 0..n as i64 {
        while bag + 1 < starts.len() && starts[bag + 1] <= i {
            bag += 1;
        }
        out.push(bag as i64);
    }
    out
}

/// The rows of each bag as one.
pub fn forward(
    mode: Mode,
    out: Out<'_>,
    table: In<'_>,
    bags: &Bags<'_>,
) -> Result<Found, KernelError> {
    let (height, width) = shape(table.sizes());
    let count = bags.starts.len();
    let mut found = Found {
        sizes: vec![0; count],
        maxima: vec![0; if mode == Mode::Max { count * width } else { 0 }],
    };
    for row in bags.rows {
        check(*row, height)?;
    }
    with_number!("embedding_bag", out.dtype(), T => {
        let (to, from) = matrices::<T>("embedding_bag", out, table)?;
        ask("embedding_bag", count * width <= to.len(), "a row of the result for each bag")?;
        for bag in 0..count {
            let first = bags.starts[bag] as usize;
            let last = bags.starts.get(bag + 1).map_or(bags.end, |s| *s as usize).min(bags.rows.len());
            let to = &mut to[bag * width..][..width];
            to.fill(T::zero());
            let mut size = 0;
            for (i, &row) in bags.rows.iter().enumerate().take(last).skip(first) {
                if row == bags.padding {
                    continue;
                }
                let x = &from[row as usize * width..][..width];
                if mode == Mode::Max {
                    let places = &mut found.maxima[bag * width..][..width];
                    for ((t, x), place) in to.iter_mut().zip(x).zip(places) {
                        if size == 0 || *x > *t {
                            *t = *x;
                            *place = row;
                        }
                    }
                } else {
                    let factor = bags.factors.map_or(1.0, |f| f[i]);
                    for (t, x) in to.iter_mut().zip(x) {
                        *t = t.add_scaled(*x, factor);
                    }
                }
                size += 1;
            }
            if mode == Mode::Mean && size > 1 {
                for t in to.iter_mut() {
                    *t = t.divided(f64::from(size));
                }
            }
            if mode != Mode::Sum {
                found.sizes[bag] = i64::from(size);
            }
        }
    });
    if mode != Mode::Max {
        found.maxima = found.sizes.clone();
    }
    Ok(found)
}

/// What [`backward`] needs to know about the forward call.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a> {
    /// The row of the table for each sample.
    pub rows: &'a [i64],
    /// The bag of each sample.
    pub bag_of: &'a [i64],
    /// The size of each bag.
    pub sizes: &'a [i64],
    /// The row that each element of a maximum came from.
    pub maxima: &'a [i64],
    /// A factor for each sample.
    pub factors: Option<&'a [f64]>,
    /// A row that does not count; none if negative.
    pub padding: i64,
    /// Whether each row's share is divided by how often it is used.
    pub by_frequency: bool,
}

/// The derivative by the table, added to `out`.
pub fn backward(
    mode: Mode,
    out: Out<'_>,
    grad: In<'_>,
    saved: &Saved<'_>,
) -> Result<(), KernelError> {
    let (height, width) = shape(out.sizes());
    let (bags, _) = shape(grad.sizes());
    with_number!("embedding_bag_backward", out.dtype(), T => {
        let (to, from) = matrices::<T>("embedding_bag_backward", out, grad)?;
        if mode == Mode::Max {
            for (k, (row, g)) in saved.maxima.iter().zip(from.iter()).enumerate() {
                if saved.sizes.get(k / width.max(1)).is_some_and(|s| *s == 0) {
                    continue;
                }
                let t = &mut to[check(*row, height)? * width + k % width];
                *t = t.add_scaled(*g, 1.0);
            }
            return Ok(());
        }
        let counts = match saved.by_frequency {
            true => frequencies(saved.rows, height as usize),
            false => Vec::new(),
        };
        for (i, (row, bag)) in saved.rows.iter().zip(saved.bag_of).enumerate() {
            if *row == saved.padding {
                continue;
            }
            let (row, bag) = (check(*row, height)?, check(*bag, bags)?);
            let mut factor = saved.factors.and_then(|f| f.get(i)).copied().unwrap_or(1.0);
            if let Some(count) = counts.get(row) {
                factor /= f64::from(*count);
            }
            if mode == Mode::Mean
                && let Some(size) = saved.sizes.get(bag)
                && *size != 0
            {
                factor /= *size as f64;
            }
            let to = &mut to[row * width..][..width];
            for (t, g) in to.iter_mut().zip(&from[bag * width..][..width]) {
                *t = t.add_scaled(*g, factor);
            }
        }
    });
    Ok(())
}
