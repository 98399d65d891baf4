//! A product without its addresses, as cuBLASLt sees it.

use crate::products::{Matrices, Options, Product};
use straightline_passes::ir::DType;
use straightline_passes::schedule::loops::Activation;

/// How a batch of matrices lies: elements from one column to the next, and from one matrix to the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Leading {
    pub(super) leading: i64,
    pub(super) batch: i64,
}

/// A factor, as it lies in memory or transposed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Factor {
    pub(super) transposed: bool,
    pub(super) lies: Leading,
}

/// `d = a b + c`, by columns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Shape {
    pub(super) dtype: DType,
    pub(super) tf32: bool,
    pub(super) batch: i64,
    /// Rows and columns of `d`, and the inner dimension.
    pub(super) sizes: [i64; 3],
    pub(super) a: Factor,
    pub(super) b: Factor,
    /// The residual, where it is added there.
    pub(super) c: Option<Leading>,
    pub(super) d: Leading,
    /// Whether the factors are the product's in the other order, transposed.
    pub(super) turned: bool,
    /// Whether the bias is added there.
    pub(super) bias: bool,
    /// The activation that is computed there.
    pub(super) activation: Activation,
    /// Of the four, in bytes.
    pub(super) alignment: [u32; 4],
}

/// A matrix by columns, if its rows are neighbours and its columns do not overlap.
fn by_columns(sizes: [i64; 2], strides: [i64; 2]) -> Option<i64> {
    let ([rows, cols], [row, col]) = (sizes, strides);
    let least = rows.max(1);
    let leading = if cols <= 1 { least } else { col };
    ((row == 1 || rows <= 1) && leading >= least).then_some(leading)
}

fn leading(batch: i64, sizes: [i64; 2], m: &Matrices, [row, col]: [usize; 2]) -> Option<Leading> {
    let step = if batch == 1 { 0 } else { m.strides[0] };
    let leading = by_columns(sizes, [m.strides[row], m.strides[col]])?;
    (step >= 0).then_some(Leading { leading, batch: step })
}

/// A factor of these sizes whose rows and columns are these dimensions of the operand's.
fn factor(batch: i64, sizes: [i64; 2], m: &Matrices, [row, col]: [usize; 2]) -> Option<Factor> {
    if let Some(lies) = leading(batch, sizes, m, [row, col]) {
        return Some(Factor { transposed: false, lies });
    }
    let lies = leading(batch, [sizes[1], sizes[0]], m, [col, row])?;
    Some(Factor { transposed: true, lies })
}

/// The largest power of two, up to 256, that an address is a multiple of.
fn alignment(address: u64) -> u32 {
    1 << address.trailing_zeros().min(8)
}

impl Shape {
    /// `None` if cuBLASLt has no such layout.
    pub(super) fn of(p: &Product, options: Options) -> Option<Shape> {
        let [m, n, k] = p.sizes;
        if !p.dtype.is_floating() {
            return None;
        }
        if k == 0 || p.sizes.iter().chain([&p.batch]).any(|s| i32::try_from(*s).is_err()) {
            return None;
        }
        // the result by rows is its transpose by columns: dimensions of the operands change their places
        let turned = leading(p.batch, [n, m], &p.c, [2, 1]);
        let (sizes, by, d) = match turned {
            Some(d) => ([n, m, k], [2, 1], d),
            None => ([m, n, k], [1, 2], leading(p.batch, [m, n], &p.c, [1, 2])?),
        };
        let (left, right) = if turned.is_some() { (&p.b, &p.a) } else { (&p.a, &p.b) };
        let a = factor(p.batch, [sizes[0], k], left, by)?;
        let b = factor(p.batch, [k, sizes[1]], right, by)?;
        let (then, narrow) = (p.then, p.dtype != DType::F64);
        // epilogues are those of the rows of `d`, and not for f64
        let packed = then.bias.filter(|b| (b.stride == 1 || n == 1) && b.address % 16 == 0);
        let bias = packed.filter(|_| turned.is_some() && narrow);
        let before = then.bias.is_none() || bias.is_some();
        let activation = match then.activation {
            Activation::Relu if options.relu && before && narrow => Activation::Relu,
            Activation::GeluTanh if before && narrow => Activation::GeluTanh,
            _ => Activation::None,
        };
        let last = before && then.activation == Activation::None;
        let residual = then.residual.filter(|_| last);
        let c = residual.and_then(|r| leading(p.batch, [sizes[0], sizes[1]], &r, by));
        let added = residual.filter(|_| c.is_some()).map_or(p.c.address, |r| r.address);
        Some(Shape {
            dtype: p.dtype,
            tf32: options.tf32 && p.dtype == DType::F32,
            batch: p.batch,
            sizes,
            a,
            b,
            c,
            d,
            turned: turned.is_some(),
            bias: bias.is_some(),
            activation,
            alignment: [left.address, right.address, added, p.c.address].map(alignment),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::{Epilogue, Vector};

    fn product(strides: [[i64; 3]; 3]) -> Product {
        let [a, b, c] = strides.map(|strides| Matrices { address: 512, strides });
        let then = Epilogue::default();
        Product { dtype: DType::F32, batch: 2, sizes: [3, 5, 7], a, b, c, then }
    }

    #[test]
    fn operands_by_rows_and_by_columns_are_taken_as_they_lie() {
        let rows = product([[21, 7, 1], [35, 5, 1], [15, 5, 1]]);
        let shape = Shape::of(&rows, Options::default()).unwrap();
        assert!(shape.turned && !shape.a.transposed && !shape.b.transposed);
        assert_eq!((shape.sizes, shape.d), ([5, 3, 7], Leading { leading: 5, batch: 15 }));
        let b_turned = product([[21, 7, 1], [0, 1, 7], [15, 5, 1]]);
        let shape = Shape::of(&b_turned, Options::default()).unwrap();
        assert!(shape.a.transposed);
        assert_eq!(shape.a.lies, Leading { leading: 7, batch: 0 });
        let columns = product([[21, 1, 3], [35, 1, 7], [15, 1, 3]]);
        let shape = Shape::of(&columns, Options::default()).unwrap();
        assert!(!shape.turned && !shape.a.transposed && !shape.b.transposed);
    }

    #[test]
    fn gaps_within_both_dimensions_overlaps_and_nothing_to_sum_are_left_to_others() {
        let gaps = product([[42, 14, 2], [35, 5, 1], [15, 5, 1]]);
        assert_eq!(Shape::of(&gaps, Options::default()), None);
        let expanded = product([[21, 0, 1], [35, 5, 1], [15, 5, 1]]);
        assert_eq!(Shape::of(&expanded, Options::default()), None);
        let none = Product { sizes: [3, 5, 0], ..product([[0, 0, 1], [0, 5, 1], [15, 5, 1]]) };
        assert_eq!(Shape::of(&none, Options::default()), None);
        let backwards = product([[21, -7, 1], [35, 5, 1], [15, 5, 1]]);
        assert_eq!(Shape::of(&backwards, Options::default()), None);
    }

    #[test]
    fn an_epilogue_is_taken_as_far_as_it_goes() {
        let bias = Some(Vector { address: 256, stride: 1 });
        let of = |dtype: DType, activation, residual: bool, options| {
            let plain = product([[21, 7, 1], [35, 5, 1], [15, 5, 1]]);
            let residual = residual.then_some(plain.c);
            let then = Epilogue { bias, activation, residual };
            let shape = Shape::of(&Product { dtype, then, ..plain }, options).unwrap();
            (shape.bias, shape.activation, shape.c.is_some())
        };
        let (plain, relu) = (Options::default(), Options { relu: true, ..Options::default() });
        use Activation::*;
        assert_eq!(of(DType::BF16, None, true, plain), (true, None, true));
        assert_eq!(of(DType::F32, GeluTanh, true, plain), (true, GeluTanh, false));
        assert_eq!(of(DType::F32, GeluErf, false, plain), (true, None, false));
        assert_eq!(of(DType::F32, Relu, false, plain), (true, None, false));
        assert_eq!(of(DType::F32, Relu, false, relu), (true, Relu, false));
        assert_eq!(of(DType::F64, GeluTanh, false, plain), (false, None, false));
    }

    #[test]
    fn addresses_are_as_aligned_as_they_are() {
        assert_eq!([512, 256, 16, 20].map(alignment), [256, 256, 16, 4]);
    }
}
