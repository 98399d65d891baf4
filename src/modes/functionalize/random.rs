//! Operators that fill with random numbers, as a graph holds them.
//!
//! A fill takes its numbers in the order of the tensor's memory, and the plan decides the layout of
//! memory in a graph. So capture expresses the order by views: the functional operator fills
//! row-major memory, whose dimensions are then put back in their places.

use super::kernels::drawn_in_order;
use crate::dispatch::{Kernel, handle_of};
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Generator, Tensor};
use smallvec::SmallVec;
use straightline_catalog::{DType, Device, Dims, MemoryFormat, Op, Scalar, layout};

/// The dimensions from the one with the largest steps in memory to the one with the smallest.
fn memory_order(t: &Tensor) -> SmallVec<[i64; 6]> {
    let mut order: SmallVec<[i64; 6]> = (0..t.dim() as i64).collect();
    order.sort_by_key(|d| std::cmp::Reverse(t.strides()[*d as usize]));
    order
}

fn in_order(t: &Tensor, order: &[i64]) -> Dims {
    order.iter().map(|d| t.sizes()[*d as usize]).collect()
}

/// Row-major memory for the elements of a tensor in the order of its own, or a view of such memory
/// that has gaps.
fn row_major(t: &Tensor, order: &[i64], gaps: bool) -> Result<Tensor> {
    dense(&in_order(t, order), t.dtype(), t.device(), gaps)
}

/// Row-major memory of these sizes, or a view of such memory that has gaps.
fn dense(sizes: &[i64], dtype: DType, device: Device, gaps: bool) -> Result<Tensor> {
    let mut sizes = Dims::from_slice(sizes);
    if gaps {
        sizes.push(2);
    }
    let (dtype, device) = (Some(dtype), Some(device));
    let like = aten::empty_memory_format(&sizes, dtype, None, device, None, None)?;
    if gaps { aten::select_int(&like, -1, 0) } else { Ok(like) }
}

/// Writes the drawn numbers in the order of memory.
fn put(t: &Tensor, order: &[i64], drawn: &Tensor) -> Result<Tensor> {
    let mut back: SmallVec<[i64; 6]> = SmallVec::from_elem(0, order.len());
    for (at, d) in order.iter().enumerate() {
        back[*d as usize] = at as i64;
    }
    let ordered = order.is_sorted();
    let drawn = if ordered { drawn.clone() } else { aten::permute(drawn, &back)? };
    aten::copy_(t, &drawn, false)
}

/// The captured forms: the functional operator of row-major memory.
macro_rules! traced {
    ($($name:ident $functional:ident ($($arg:ident: $t:ty),*);)*) => {$(
        pub(crate) fn $name(t: &Tensor, $($arg: $t,)* generator: Option<&Generator>) -> Result<Tensor> {
            let order = memory_order(t);
            let drawn = aten::$functional(&row_major(t, &order, false)?, $($arg,)* generator)?;
            put(t, &order, &drawn)
        }
    )*};
}
traced! {
    uniform_ uniform (from: f64, to: f64);
    random_ random ();
    random_from_ random_from (from: i64, to: Option<i64>);
    random_to_ random_to (to: i64);
    exponential_ exponential (lambd: f64);
    geometric_ geometric (p: f64);
    log_normal_ log_normal (mean: f64, std: f64);
    cauchy_ cauchy (median: f64, sigma: f64);
    bernoulli_float_ bernoulli_p (p: f64);
}

/// Whether a fill meets gaps. A conjugate or negative view is filled by way of a copy, which has
/// none.
fn has_gaps(t: &Tensor) -> bool {
    match t.is_conj() || t.is_neg() {
        true => {
            !layout::is_contiguous(t.sizes(), &layout::preserved_strides(t.sizes(), t.strides()))
        }
        false => !t.is_contiguous(),
    }
}

/// The captured functional forms: where the order of memory is not that of the dimensions, by the
/// captured in-place form.
macro_rules! in_order {
    ($($name:ident $in_place:ident;)*) => {$(
        pub(crate) fn $name() -> Kernel {
            drawn_in_order(|| handle_of(Op::$in_place))
        }
    )*};
}
in_order! {
    uniform uniform_;
    normal_functional normal_;
    random random_;
    random_from random__from;
    random_to random__to;
    exponential exponential_;
    geometric geometric_;
    log_normal log_normal_;
    cauchy cauchy_;
    bernoulli_tensor bernoulli__Tensor;
}

/// Normal numbers are drawn differently for a tensor that is not row-major, and a graph must do the
/// same.
pub(crate) fn normal_(
    t: &Tensor,
    mean: f64,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    if t.dtype().is_complex() {
        return complex_normal_(t, [mean, std], generator);
    }
    let order = memory_order(t);
    let like = row_major(t, &order, has_gaps(t))?;
    let drawn = aten::normal_functional(&like, mean, std, generator)?;
    put(t, &order, &drawn)
}

/// Both parts of each number one after another: a graph has gaps, which say how to draw, in real
/// memory only.
fn complex_normal_(
    t: &Tensor,
    [mean, std]: [f64; 2],
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let order = memory_order(t);
    let mut sizes = in_order(t, &order);
    sizes.push(2);
    let parts = t.dtype().to_real();
    let like = dense(&sizes, parts, t.device(), has_gaps(t))?;
    let std = std / std::f64::consts::SQRT_2;
    let drawn = aten::normal_functional(&like, 0.0, std, generator)?;
    let dense = aten::contiguous(&drawn, MemoryFormat::Contiguous)?;
    let mut drawn = aten::view_as_complex(&dense)?;
    if mean != 0.0 {
        drawn = aten::add_scalar(&drawn, Scalar::Float(mean), Scalar::Int(1))?;
    }
    put(t, &order, &drawn)
}

pub(crate) fn bernoulli_tensor_(
    t: &Tensor,
    p: &Tensor,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let order = memory_order(t);
    let p = aten::permute(&aten::expand(p, t.sizes(), false)?, &order)?;
    let drawn = aten::bernoulli_tensor(&row_major(t, &order, false)?, &p, generator)?;
    put(t, &order, &drawn)
}
