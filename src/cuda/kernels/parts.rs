//! Operators that are a few others, each of which has loops.

use super::{Call, Kernel, Made, converted, losses, margins, norms, rows};
use crate::dispatch::Value;
use crate::ops::aten;
use crate::ops::matmul::product;
use crate::tensor::Tensor;
use straightline_catalog::{Arg, DType, Op, Scalar, args};

/// What an operator is made of.
pub(super) fn of(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::aminmax => aminmax,
        Op::count_nonzero | Op::count_nonzero_dim_IntList => count_nonzero,
        Op::trace => trace,
        Op::dot => dot,
        Op::adaptive_max_pool2d_backward
        | Op::adaptive_max_pool3d_backward
        | Op::max_pool2d_with_indices_backward
        | Op::max_pool3d_with_indices_backward => to_places,
        Op::index_Tensor => masks,
        Op::max_unpool2d | Op::max_unpool3d => unpool,
        Op::_int_mm => int_mm,
        Op::addbmm_ => addbmm_,
        _ => return losses::of(op).or_else(|| margins::of(op)).or_else(|| norms::of(op)),
    })
}

fn aminmax(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::aminmax<Tensor>>() else { return Ok(None) };
    if call.results().is_none() {
        return Ok(None);
    }
    let dims = a.dim.as_slice();
    let (least, most) =
        (aten::amin(&a.self_, dims, a.keepdim)?, aten::amax(&a.self_, dims, a.keepdim)?);
    Ok(Some(vec![Value::Tensor(least), Value::Tensor(most)]))
}

fn count_nonzero(call: &Call<'_>) -> Made {
    let read = match call.known {
        Op::count_nonzero => call
            .read::<args::count_nonzero<Tensor>>()
            .map(|a| (a.self_, a.dim.map_or_else(Vec::new, |dim| vec![dim]))),
        _ => call.read::<args::count_nonzero_dim_IntList<Tensor>>().map(|a| (a.self_, a.dim)),
    };
    let Some((x, dims)) = read else { return Ok(None) };
    if call.results().is_none() || x.dtype().is_complex() {
        return Ok(None);
    }
    let some = aten::ne_scalar(&x, Scalar::Int(0))?;
    Ok(Some(vec![Value::Tensor(aten::sum_dim_int_list(&some, Some(&dims), false, None)?)]))
}

fn trace(call: &Call<'_>) -> Made {
    let [x] = &call.tensors[..] else { return Ok(None) };
    if call.results().is_none() || x.dtype().is_complex() {
        return Ok(None);
    }
    let diagonal = aten::diagonal(x, 0, 0, 1)?;
    Ok(Some(vec![Value::Tensor(aten::sum(&diagonal, None)?)]))
}

fn dot(call: &Call<'_>) -> Made {
    let [x, y] = &call.tensors[..] else { return Ok(None) };
    if call.results().is_none() || x.dtype().is_complex() {
        return Ok(None);
    }
    let wide = if x.dtype().is_floating() { x.dtype().opmath() } else { x.dtype() };
    let products = aten::mul_tensor(&converted(x, wide)?, &converted(y, wide)?)?;
    let sum = aten::sum_dim_int_list(&products, None, false, Some(wide))?;
    Ok(Some(vec![Value::Tensor(converted(&sum, x.dtype())?)]))
}

/// Elements put to their places in planes of zeros.
fn unpool(call: &Call<'_>) -> Made {
    let ([x, places], Some(wanted)) = (&call.tensors[..], call.results()) else { return Ok(None) };
    let rank = if call.known == Op::max_unpool2d { 2 } else { 3 };
    let Some(wanted) = wanted.first().filter(|m| x.numel() > 0 && m.sizes.len() >= rank) else {
        return Ok(None);
    };
    let plane: i64 = wanted.sizes[wanted.sizes.len() - rank..].iter().product();
    // the CPU says what is beyond
    if !rows::within(places, 0, plane)? {
        return Ok(None);
    }
    let zeros = aten::zero_(&call.dense(x.dtype(), &wanted.sizes)?)?;
    let zeros = aten::reshape(&zeros, &[-1, plane])?;
    let planes = zeros.sizes()[0];
    let flat = |t: &Tensor| aten::reshape(t, &[planes, -1]);
    let put = aten::scatter_src(&zeros, 1, &flat(places)?, &flat(x)?)?;
    Ok(Some(vec![call.deliver(aten::reshape(&put, &wanted.sizes)?, wanted)?]))
}

/// A tensor that broadcasts to the result becomes as large. (In place it has the same arguments.)
fn addbmm_(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::addbmm<Tensor>>() else { return Ok(None) };
    let (x, b) = (&a.self_, &a.batch2);
    product::addbmm_(x, &a.batch1, b, a.beta, a.alpha).map(|t| Some(vec![Value::Tensor(t)]))
}

/// A product of bytes with sums of 32 bits.
fn int_mm(call: &Call<'_>) -> Made {
    let ([a, b], Some(_)) = (&call.tensors[..], call.results()) else { return Ok(None) };
    let wide = |t: &Tensor| converted(t, DType::I32);
    Ok(Some(vec![Value::Tensor(aten::mm(&wide(a)?, &wide(b)?)?)]))
}

/// Gradients that go to places of their planes, of two dimensions or three.
fn to_places(call: &Call<'_>) -> Made {
    let [grad, x, places] = &call.tensors[..] else { return Ok(None) };
    let Some(wanted) = call.results() else { return Ok(None) };
    let flat_ones = [Op::adaptive_max_pool2d_backward, Op::max_pool2d_with_indices_backward];
    let rank = if flat_ones.contains(&call.known) { 2 } else { 3 };
    let none = grad.numel() == 0 || !grad.dtype().is_floating();
    let (Some(wanted), false) = (wanted.first(), none) else { return Ok(None) };
    let flat = |t: &Tensor| {
        let planes: i64 = t.sizes()[..t.dim() - rank].iter().product();
        aten::reshape(t, &[planes, -1])
    };
    let zeros = flat(&call.dense(grad.dtype(), x.sizes())?)?;
    aten::zero_(&zeros)?;
    let sums = aten::scatter_add(&zeros, 1, &flat(places)?, &flat(grad)?)?;
    Ok(Some(vec![call.deliver(aten::reshape(&sums, x.sizes())?, wanted)?]))
}

/// Indices of which some are masks: the places where these are true, a list for each of their dimensions.
pub(super) fn masks(call: &Call<'_>) -> Made {
    let (Some(Value::Tensor(x)), Some(Value::OptionalTensorList(_)), Some(Arg::Tensors(list))) =
        (call.values.first(), call.values.get(1), call.args.get(1))
    else {
        return Ok(None);
    };
    let is_mask = |t: &Tensor| matches!(t.dtype(), DType::Bool | DType::U8);
    let list: Vec<Option<Tensor>> =
        list.iter().map(|i| i.map(|i| call.tensors[i as usize].clone())).collect();
    if !list.iter().flatten().any(is_mask) {
        return Ok(None);
    }
    let mut places: Vec<Option<Tensor>> = Vec::new();
    for index in list {
        match index {
            Some(mask) if is_mask(&mask) => {
                let dims = places.len()..places.len() + mask.dim();
                // what does not fit is for the CPU to say
                if x.sizes().get(dims) != Some(mask.sizes()) || mask.dim() == 0 {
                    return Ok(None);
                }
                let found = aten::nonzero(&mask)?;
                for d in 0..mask.dim() as i64 {
                    places.push(Some(aten::select_int(&found, 1, d)?));
                }
            }
            other => places.push(other),
        }
    }
    let made = match (call.known, call.values) {
        (Op::index_Tensor, _) => aten::index_tensor(x, &places)?,
        (_, [_, _, Value::Tensor(values), Value::Bool(accumulate)]) => {
            aten::index_put(x, &places, values, *accumulate)?
        }
        _ => return Ok(None),
    };
    Ok(Some(vec![Value::Tensor(made)]))
}
