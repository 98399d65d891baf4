//! Complex numbers, which loops do not compute with: by operators on their real and imaginary parts.
//!
//! What moves elements moves the parts of each together, as one more dimension of real numbers.

use super::{Call, Kernel, Made, converted};
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::ops::common::wrap_dim;
use crate::tensor::Tensor;
use straightline_catalog::{DType, Op, Scalar, TensorMeta, args, layout};

const ONE: Scalar = Scalar::Int(1);

/// What an operator is made of, of complex numbers.
pub(super) fn of(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::add_Tensor | Op::sub_Tensor => add,
        Op::mul_Tensor => mul,
        Op::neg | Op::conj_physical => sign,
        Op::abs => abs,
        Op::complex => of_parts,
        Op::polar => of_size_and_angle,
        Op::mm | Op::bmm => product,
        Op::addmm | Op::baddbmm => product_and_more,
        Op::sum_dim_IntList | Op::mean_dim => sum,
        Op::index_select | Op::flip | Op::cat => moved,
        Op::where_self => choice,
        Op::zero_ | Op::fill__Scalar => filled,
        Op::diagonal_scatter | Op::select_scatter | Op::slice_scatter => scattered,
        _ => return None,
    })
}

/// Real and imaginary parts; of real numbers there are none of the latter.
struct Parts {
    re: Tensor,
    im: Option<Tensor>,
}

fn parts(x: &Tensor, real: DType) -> Result<Parts> {
    if !x.dtype().is_complex() {
        return Ok(Parts { re: converted(x, real)?, im: None });
    }
    let all = aten::view_as_real(x)?;
    let part = |i| converted(&aten::select_int(&all, -1, i)?, real);
    Ok(Parts { re: part(0)?, im: Some(part(1)?) })
}

/// A result of its parts.
fn joined(call: &Call<'_>, re: &Tensor, im: Option<&Tensor>, wanted: &TensorMeta) -> Made {
    let (sizes, strides) = (wanted.sizes.clone(), wanted.strides.clone());
    let out = Tensor::allocate(wanted.dtype, call.device, sizes, strides)?;
    let all = aten::view_as_real(&out)?;
    aten::copy_(&aten::select_int(&all, -1, 0)?, re, false)?;
    let to = aten::select_int(&all, -1, 1)?;
    match im {
        Some(im) => aten::copy_(&to, im, false)?,
        None => aten::zero_(&to)?,
    };
    Ok(Some(vec![Value::Tensor(out)]))
}

/// The type of the only result, which is complex.
fn wanted(call: &Call<'_>) -> Option<TensorMeta> {
    let [wanted] = <[TensorMeta; 1]>::try_from(call.results()?.into_vec()).ok()?;
    wanted.dtype.is_complex().then_some(wanted)
}

fn two(call: &Call<'_>) -> Result<Option<(TensorMeta, Parts, Parts)>> {
    let (Some(wanted), [x, y, ..]) = (wanted(call), &call.tensors[..]) else { return Ok(None) };
    let real = wanted.dtype.to_real();
    Ok(Some((wanted, parts(x, real)?, parts(y, real)?)))
}

fn add(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::add_Tensor<Tensor>>() else { return Ok(None) };
    let Some((wanted, x, y)) = two(call)? else { return Ok(None) };
    let add = match call.known {
        Op::add_Tensor => aten::add_tensor,
        _ => aten::sub_tensor,
    };
    // a product of complex numbers as well, in which infinities meet zeros
    let (c, d) = match a.alpha {
        Scalar::Complex(re, im) => (Scalar::Float(re), Scalar::Float(im)),
        re => (re, Scalar::Int(0)),
    };
    let mut re = aten::mul_scalar(&y.re, c)?;
    let mut im = aten::mul_scalar(&y.re, d)?;
    if let Some(of_y) = &y.im {
        re = aten::sub_tensor(&re, &aten::mul_scalar(of_y, d)?, ONE)?;
        im = aten::add_tensor(&im, &aten::mul_scalar(of_y, c)?, ONE)?;
    }
    let im = match &x.im {
        Some(of_x) => add(of_x, &im, ONE)?,
        None if call.known == Op::add_Tensor => im,
        None => aten::neg(&im)?,
    };
    joined(call, &add(&x.re, &re, ONE)?, Some(&im), &wanted)
}

/// A product of some kind: (a + bi) (c + di) = (ac - bd) + (ad + bc) i.
fn by(
    x: &Parts,
    y: &Parts,
    times: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<(Tensor, Option<Tensor>)> {
    let re = times(&x.re, &y.re)?;
    Ok(match (&x.im, &y.im) {
        (Some(b), Some(d)) => {
            let re = aten::sub_tensor(&re, &times(b, d)?, ONE)?;
            let im = aten::add_tensor(&times(&x.re, d)?, &times(b, &y.re)?, ONE)?;
            (re, Some(im))
        }
        (Some(b), None) => (re, Some(times(b, &y.re)?)),
        (None, Some(d)) => (re, Some(times(&x.re, d)?)),
        (None, None) => (re, None),
    })
}

fn mul(call: &Call<'_>) -> Made {
    let Some((wanted, x, y)) = two(call)? else { return Ok(None) };
    let (re, im) = by(&x, &y, aten::mul_tensor)?;
    joined(call, &re, im.as_ref(), &wanted)
}

fn product(call: &Call<'_>) -> Made {
    let Some((wanted, x, y)) = two(call)? else { return Ok(None) };
    let times = if call.known == Op::mm { aten::mm } else { aten::bmm };
    let (re, im) = by(&x, &y, times)?;
    joined(call, &re, im.as_ref(), &wanted)
}

/// With a tensor that is added as it is.
fn product_and_more(call: &Call<'_>) -> Made {
    // of batches too
    let Some(a) = call.read::<args::addmm<Tensor>>() else { return Ok(None) };
    let plain = [a.beta, a.alpha].iter().all(|s| *s == ONE || *s == Scalar::Float(1.0));
    let (Some(wanted), true) = (wanted(call), plain) else { return Ok(None) };
    let times = if call.known == Op::addmm { aten::mm } else { aten::bmm };
    let sum = aten::add_tensor(&times(&a.mat1, &a.mat2)?, &a.self_, ONE)?;
    Ok(Some(vec![call.deliver(sum, &wanted)?]))
}

fn sign(call: &Call<'_>) -> Made {
    let (Some(wanted), [x]) = (wanted(call), &call.tensors[..]) else { return Ok(None) };
    let Parts { re, im } = parts(x, wanted.dtype.to_real())?;
    let re = if call.known == Op::neg { aten::neg(&re)? } else { re };
    let im = im.map(|im| aten::neg(&im)).transpose()?;
    joined(call, &re, im.as_ref(), &wanted)
}

fn abs(call: &Call<'_>) -> Made {
    let (Some(all), [x]) = (call.results(), &call.tensors[..]) else { return Ok(None) };
    let (Some(wanted), true) = (all.first(), x.dtype().is_complex()) else { return Ok(None) };
    let Parts { re, im: Some(im) } = parts(x, wanted.dtype)? else { return Ok(None) };
    Ok(Some(vec![call.deliver(aten::hypot(&re, &im)?, wanted)?]))
}

fn of_parts(call: &Call<'_>) -> Made {
    let (Some(wanted), [re, im]) = (wanted(call), &call.tensors[..]) else { return Ok(None) };
    joined(call, re, Some(im), &wanted)
}

fn of_size_and_angle(call: &Call<'_>) -> Made {
    let (Some(wanted), [size, angle]) = (wanted(call), &call.tensors[..]) else { return Ok(None) };
    let re = aten::mul_tensor(size, &aten::cos(angle)?)?;
    let im = aten::mul_tensor(size, &aten::sin(angle)?)?;
    joined(call, &re, Some(&im), &wanted)
}

fn sum(call: &Call<'_>) -> Made {
    // of means too
    let Some(a) = call.read::<args::sum_dim_IntList<Tensor>>() else { return Ok(None) };
    let Some(wanted) = wanted(call) else { return Ok(None) };
    let x = parts(&a.self_, wanted.dtype.to_real())?;
    let sum = match call.known {
        Op::mean_dim => aten::mean_dim,
        _ => aten::sum_dim_int_list,
    };
    let of = |x: &Tensor| sum(x, a.dim.as_deref(), a.keepdim, None);
    let im = x.im.as_ref().map(of).transpose()?;
    joined(call, &of(&x.re)?, im.as_ref(), &wanted)
}

fn choice(call: &Call<'_>) -> Made {
    let (Some(wanted), [mask, x, y]) = (wanted(call), &call.tensors[..]) else { return Ok(None) };
    let real = wanted.dtype.to_real();
    let (x, y) = (parts(x, real)?, parts(y, real)?);
    let im = |p: &Parts| match &p.im {
        Some(im) => Ok(im.clone()),
        None => aten::zeros_like(&p.re, None, None, None, None, None),
    };
    let re = aten::where_self(mask, &x.re, &y.re)?;
    joined(call, &re, Some(&aten::where_self(mask, &im(&x)?, &im(&y)?)?), &wanted)
}

fn moved(call: &Call<'_>) -> Made {
    let Some(wanted) = wanted(call) else { return Ok(None) };
    let real = |x: &Tensor| aten::view_as_real(&converted(x, wanted.dtype)?);
    let made = match call.known {
        Op::index_select => {
            let Some(a) = call.read::<args::index_select<Tensor>>() else { return Ok(None) };
            if a.self_.dim() == 0 {
                return Ok(None);
            }
            let dim = wrap_dim(a.dim, a.self_.dim())? as i64;
            aten::index_select(&real(&a.self_)?, dim, &a.index)?
        }
        Op::flip => {
            let Some(a) = call.read::<args::flip<Tensor>>() else { return Ok(None) };
            let dims = a.dims.iter().map(|d| Ok(wrap_dim(*d, a.self_.dim())? as i64));
            aten::flip(&real(&a.self_)?, &dims.collect::<Result<Vec<i64>>>()?)?
        }
        _ => {
            let Some(a) = call.read::<args::cat<Tensor>>() else { return Ok(None) };
            let Some(first) = a.tensors.first().filter(|t| t.dim() > 0) else { return Ok(None) };
            // vectors of nothing have no dimension to join
            if a.tensors.iter().any(|t| t.dim() != first.dim()) {
                return Ok(None);
            }
            let dim = wrap_dim(a.dim, first.dim())? as i64;
            aten::cat(&a.tensors.iter().map(real).collect::<Result<Vec<Tensor>>>()?, dim)?
        }
    };
    let made = aten::view_as_complex(&super::contiguous(&made)?)?;
    Ok(Some(vec![call.deliver(made, &wanted)?]))
}

fn filled(call: &Call<'_>) -> Made {
    let [x] = &call.tensors[..] else { return Ok(None) };
    let value = call.args.get(1).and_then(straightline_catalog::Arg::as_scalar);
    let (re, im) = match value.unwrap_or(Scalar::Int(0)) {
        Scalar::Complex(re, im) => (Scalar::Float(re), Scalar::Float(im)),
        re => (re, Scalar::Int(0)),
    };
    if !x.dtype().is_complex() {
        return Ok(None);
    }
    let all = aten::view_as_real(x)?;
    aten::fill_scalar_(&aten::select_int(&all, -1, 0)?, re)?;
    aten::fill_scalar_(&aten::select_int(&all, -1, 1)?, im)?;
    Ok(Some(vec![Value::Tensor(x.clone())]))
}

/// A copy of a tensor, gaps and all, of which a view is written.
fn scattered(call: &Call<'_>) -> Made {
    let [x, source] = &call.tensors[..] else { return Ok(None) };
    if call.results().is_none() || layout::repeats(x.sizes(), x.strides()) {
        return Ok(None);
    }
    let begin = x.storage_offset();
    let row = call.dense(x.dtype(), &[layout::storage_extent(x.sizes(), x.strides(), begin)])?;
    let out = aten::as_strided(&row, x.sizes(), x.strides(), Some(begin))?;
    aten::copy_(&out, x, false)?;
    let view = match call.known {
        Op::diagonal_scatter => {
            let Some(a) = call.read::<args::diagonal_scatter<Tensor>>() else { return Ok(None) };
            aten::diagonal(&out, a.offset, a.dim1, a.dim2)?
        }
        Op::select_scatter => {
            let Some(a) = call.read::<args::select_scatter<Tensor>>() else { return Ok(None) };
            aten::select_int(&out, a.dim, a.index)?
        }
        _ => {
            let Some(a) = call.read::<args::slice_scatter<Tensor>>() else { return Ok(None) };
            aten::slice_tensor(&out, a.dim, a.start, a.end, a.step)?
        }
    };
    aten::copy_(&view, source, false)?;
    Ok(Some(vec![Value::Tensor(out)]))
}
