//! Distances between the rows of two matrices, in any norm, and their gradients. Rows are
//! contiguous; sums are kept in `f64`.

use super::real::Real;
use crate::cpu::threads;

/// Which norm: `p` of `(sum of |x - y|^p)^(1/p)`.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Norm {
    Count,
    One,
    Two,
    Largest,
    Power(f64),
}

impl Norm {
    fn of(p: f64) -> Norm {
        match p {
            0.0 => Norm::Count,
            1.0 => Norm::One,
            2.0 => Norm::Two,
            f64::INFINITY => Norm::Largest,
            p => Norm::Power(p),
        }
    }

    fn distance<T: Real>(self, x: &[T], y: &[T]) -> f64 {
        let differences = x.iter().zip(y).map(|(x, y)| (x.wide() - y.wide()).abs());
        match self {
            // NaN differs from everything
            Norm::Count => differences.map(|d| f64::from(u8::from(d != 0.0))).sum(),
            Norm::One => differences.sum(),
            Norm::Two => differences.map(|d| d * d).sum::<f64>().sqrt(),
            Norm::Largest => differences.fold(0.0, |m, d| if d > m || d.is_nan() { d } else { m }),
            Norm::Power(p) => differences.map(|d| d.powf(p)).sum::<f64>().powf(1.0 / p),
        }
    }

    /// The derivative by an element of `x` that differs by `d` from that of `y`, times `g`.
    fn derivative(self, d: f64, g: f64, distance: f64) -> f64 {
        let sign = if d == 0.0 { 0.0 } else { d.signum() };
        match self {
            Norm::Count => 0.0,
            Norm::One => g * sign,
            _ if distance == 0.0 => 0.0,
            Norm::Two => g * d / distance,
            Norm::Largest => {
                if d.abs() == distance {
                    g * sign
                } else {
                    0.0
                }
            }
            Norm::Power(_) if d == 0.0 => 0.0,
            Norm::Power(p) if p < 1.0 => sign * d.abs().powf(p - 1.0) * g / distance.powf(p - 1.0),
            Norm::Power(p) if p < 2.0 => sign * d.abs().powf(p - 1.0) * g / distance.powf(p - 1.0),
            Norm::Power(p) => d * d.abs().powf(p - 2.0) * g / distance.powf(p - 1.0),
        }
    }
}

/// Writes the distance of each row of `x` to each row of `y`, `width` elements each; `out` has a
/// row per row of `x`.
pub fn pairs<T: Real>(x: &[T], y: &[T], width: usize, p: f64, out: &mut [T]) {
    let norm = Norm::of(p);
    if width == 0 {
        return out.fill(T::narrow(0.0));
    }
    let cols = y.len() / width;
    if cols == 0 {
        return;
    }
    let target = Rows(out.as_mut_ptr());
    let grain = (1 << 15) / (cols * width).max(1) + 1;
    threads::parallel_ranges(x.len() / width, grain, &|begin, end| {
        for i in begin..end {
            // SAFETY: rows of the result, each written by one thread.
            let row = unsafe { std::slice::from_raw_parts_mut(target.at(i * cols), cols) };
            for (o, y) in row.iter_mut().zip(y.chunks_exact(width)) {
                *o = T::narrow(norm.distance(&x[i * width..(i + 1) * width], y));
            }
        }
    });
}

struct Rows<T>(*mut T);

// SAFETY: the threads of one call write different rows.
unsafe impl<T: Send> Sync for Rows<T> {}

impl<T> Rows<T> {
    fn at(&self, i: usize) -> *mut T {
        self.0.wrapping_add(i)
    }
}

/// The gradient of [`pairs`] by `x`.
pub fn pairs_backward<T: Real>(
    grad: &[T],
    x: &[T],
    y: &[T],
    width: usize,
    p: f64,
    distances: &[T],
    out: &mut [T],
) {
    let norm = Norm::of(p);
    if width == 0 {
        return;
    }
    let cols = y.len() / width;
    let mut sums = vec![0.0; width];
    for (i, (x, out)) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)).enumerate() {
        sums.fill(0.0);
        for (j, y) in y.chunks_exact(width).enumerate() {
            let (g, distance) = (grad[i * cols + j].wide(), distances[i * cols + j].wide());
            for (s, (x, y)) in sums.iter_mut().zip(x.iter().zip(y)) {
                *s += norm.derivative(difference(*x, *y), g, distance);
            }
        }
        for (o, s) in out.iter_mut().zip(&sums) {
            *o = T::narrow(*s);
        }
    }
}

/// The difference, rounded as the element type has it: it is compared with a rounded distance.
fn difference<T: Real>(x: T, y: T) -> f64 {
    T::narrow(x.wide() - y.wide()).wide()
}

/// The distances between the rows of one matrix: row 0 to 1, 2, ..., row 1 to 2 ...
pub fn among<T: Real>(x: &[T], width: usize, p: f64, out: &mut [T]) {
    let norm = Norm::of(p);
    if width == 0 {
        return out.fill(T::narrow(0.0));
    }
    let rows = x.chunks_exact(width);
    let pairs = rows
        .enumerate()
        .flat_map(|(i, a)| x[(i + 1) * width..].chunks_exact(width).map(move |b| (a, b)));
    for (o, (a, b)) in out.iter_mut().zip(pairs) {
        *o = T::narrow(norm.distance(a, b));
    }
}

/// The gradient of [`among`].
pub fn among_backward<T: Real>(
    grad: &[T],
    x: &[T],
    width: usize,
    p: f64,
    distances: &[T],
    out: &mut [T],
) {
    let norm = Norm::of(p);
    if width == 0 {
        return;
    }
    let n = x.len() / width;
    let mut sums = vec![0.0; x.len()];
    let mut k = 0;
    for i in 0..n {
        for j in i + 1..n {
            let (g, distance) = (grad[k].wide(), distances[k].wide());
            for e in 0..width {
                let d = difference(x[i * width + e], x[j * width + e]);
                let derivative = norm.derivative(d, g, distance);
                sums[i * width + e] += derivative;
                sums[j * width + e] -= derivative;
            }
            k += 1;
        }
    }
    for (o, s) in out.iter_mut().zip(sums) {
        *o = T::narrow(s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_of_a_triangle() {
        let (x, y) = ([0.0f32, 0.0], [3.0f32, 4.0, 0.0, 0.0]);
        for (p, want) in [(0.0, 2.0), (1.0, 7.0), (2.0, 5.0), (f64::INFINITY, 4.0)] {
            let mut out = [9f32; 2];
            pairs(&x, &y, 2, p, &mut out);
            assert_eq!(out, [want, 0.0], "{p}");
        }
        let mut out = [0f32; 1];
        among(&y, 2, 2.0, &mut out);
        assert_eq!(out, [5.0]);
        let mut grad = [0f32; 4];
        among_backward(&[1.0], &y, 2, 2.0, &out, &mut grad);
        assert_eq!(grad, [0.6, 0.8, -0.6, -0.8]);
    }
}
