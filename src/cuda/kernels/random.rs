//! Random numbers, from the generator of the device or from one of Philox that is given.

use super::{Call, Made, contiguous, converted};
use crate::cuda::copy::program;
use crate::cuda::program::draws;
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::ops::random::integers;
use crate::tensor::on_device::gpu;
use crate::tensor::{Tensor, access};
use straightline_catalog::{Arg, DType, Dims, MemoryFormat, Op, Scalar, args, layout};
use straightline_cuda::random::{self as kernels, Distribution, Philox};

/// Words of all subsequences, for one launch.
fn take(call: &Call<'_>, words: u64) -> Result<Philox> {
    draws::take(call.device, call.generator, words)
}

/// Fills memory without gaps, in its order.
fn draw(call: &Call<'_>, t: &Tensor, distribution: Distribution) -> Result<()> {
    let count = t.numel() as u64;
    let device = gpu(call.device)?;
    let from = take(call, kernels::words(device, distribution, t.dtype(), count))?;
    let _held = access::write(t, &[])?;
    let out = t.device_address()?;
    // SAFETY: the tensor is held while the fill is queued, and its memory serves others on this stream
    // only after it.
    unsafe { kernels::fill(&call.stream()?, distribution, t.dtype(), count, out, from) }
        .map_err(program)
}

/// A tensor of the same sizes without gaps, its dimensions in the same order in memory.
fn packed(t: &Tensor, dtype: DType) -> Result<Tensor> {
    let strides = layout::preserved_strides(t.sizes(), t.strides());
    Tensor::allocate(dtype, t.device(), Dims::from_slice(t.sizes()), strides)
}

/// Fills a tensor in the order of its memory. False where there are no such numbers.
fn fill_with(call: &Call<'_>, t: &Tensor, distribution: Distribution) -> Result<bool> {
    if t.dtype().is_complex() {
        // both parts have half of the variance, and the mean is real
        let (parts, mean) = match distribution {
            Distribution::Normal(mean, std) => {
                (Distribution::Normal(0.0, std / std::f64::consts::SQRT_2), mean)
            }
            other => (other, 0.0),
        };
        if !fill_with(call, &aten::view_as_real(t)?, parts)? {
            return Ok(false);
        }
        if mean != 0.0 {
            aten::add_scalar_(t, Scalar::Float(mean), Scalar::Int(1))?;
        }
        return Ok(true);
    }
    if !kernels::draws(distribution, t.dtype()) {
        return Ok(false);
    }
    if layout::is_non_overlapping_and_dense(t.sizes(), t.strides()) {
        draw(call, t, distribution)?;
    } else {
        let whole = packed(t, t.dtype())?;
        draw(call, &whole, distribution)?;
        aten::copy_(t, &whole, false)?;
    }
    Ok(true)
}

/// What a call draws, whether it fills a tensor or makes one: both have the same arguments.
fn distribution(call: &Call<'_>) -> Result<Option<Distribution>> {
    // arguments behind the tensor
    let numbers = |f: fn(&[Scalar]) -> Option<Distribution>| {
        let given = call.args.iter().skip(1).filter_map(Arg::as_scalar);
        f(&given.collect::<Vec<_>>())
    };
    Ok(match call.known {
        Op::uniform_ | Op::uniform => numbers(|n| match n {
            [a, b] => Some(Distribution::Uniform(a.as_f64(), b.as_f64())),
            _ => None,
        }),
        Op::normal_ | Op::normal_functional => numbers(|n| match n {
            [a, b] => Some(Distribution::Normal(a.as_f64(), b.as_f64())),
            _ => None,
        }),
        Op::log_normal_ | Op::log_normal => numbers(|n| match n {
            [a, b] => Some(Distribution::LogNormal(a.as_f64(), b.as_f64())),
            _ => None,
        }),
        Op::cauchy_ | Op::cauchy => numbers(|n| match n {
            [a, b] => Some(Distribution::Cauchy(a.as_f64(), b.as_f64())),
            _ => None,
        }),
        Op::exponential_ | Op::exponential => {
            numbers(|n| n.first().map(|a| Distribution::Exponential(a.as_f64())))
        }
        Op::geometric_ | Op::geometric => {
            numbers(|n| n.first().map(|a| Distribution::Geometric(a.as_f64())))
        }
        Op::bernoulli__float | Op::bernoulli_p => {
            numbers(|n| n.first().map(|a| Distribution::Bernoulli(a.as_f64())))
        }
        Op::random_ | Op::random => Some(of_integers(integers::all(call.tensors[0].dtype()))),
        Op::random__from | Op::random_from => match &call.args[1..] {
            [from, to, ..] => match (from.as_int(), to.as_int()) {
                (Some(from), to) => {
                    Some(of_integers(integers::range(from, to, call.tensors[0].dtype())?))
                }
                _ => None,
            },
            _ => None,
        },
        Op::random__to | Op::random_to => match call.args.get(1).and_then(Arg::as_int) {
            Some(to) => Some(of_integers(integers::range(0, Some(to), call.tensors[0].dtype())?)),
            None => None,
        },
        _ => None,
    })
}

fn of_integers(of: integers::Integers) -> Distribution {
    Distribution::Integers { base: of.base, count: of.count, wide: of.wide }
}

/// Operators that fill a tensor.
pub(super) fn fill(call: &Call<'_>) -> Made {
    // the Meta kernel makes the checks
    if call.results().is_none() {
        return Ok(None);
    }
    let t = &call.tensors[0];
    if let (Op::bernoulli__Tensor, [_, p]) = (call.known, &call.tensors[..]) {
        return by_probabilities(call, t, p);
    }
    let Some(distribution) = distribution(call)? else { return Ok(None) };
    let filled = t.numel() == 0 || fill_with(call, t, distribution)?;
    Ok(filled.then(|| vec![Value::Tensor(t.clone())]))
}

/// Operators that make a tensor like another one, filled.
pub(super) fn functional(call: &Call<'_>) -> Made {
    if call.results().is_none() {
        return Ok(None);
    }
    let x = &call.tensors[0];
    let format = match call.known {
        Op::bernoulli | Op::bernoulli_p => MemoryFormat::Contiguous,
        _ => MemoryFormat::Preserve,
    };
    let out = aten::empty_like(x, None, None, None, None, Some(format))?;
    match (call.known, &call.tensors[..]) {
        (Op::bernoulli, [p]) | (Op::bernoulli_Tensor, [_, p]) => {
            return by_probabilities(call, &out, p);
        }
        _ => {}
    }
    let Some(distribution) = distribution(call)? else { return Ok(None) };
    let filled = out.numel() == 0 || fill_with(call, &out, distribution)?;
    Ok(filled.then(|| vec![Value::Tensor(out)]))
}

/// 1 with the probability that each element says.
fn by_probabilities(call: &Call<'_>, t: &Tensor, p: &Tensor) -> Made {
    if t.numel() == 0 {
        return Ok(Some(vec![Value::Tensor(t.clone())]));
    }
    let wide = p.dtype() == DType::F64;
    let p = converted(p, if wide { DType::F64 } else { DType::F32 })?;
    let low = aten::ge_scalar(&p, Scalar::Int(0))?;
    let within = aten::logical_and(&low, &aten::le_scalar(&p, Scalar::Int(1))?)?;
    if !aten::item(&aten::all(&within)?)?.as_bool() {
        // the kernel of the CPU says which it is
        return Ok(None);
    }
    let out = packed(t, t.dtype())?;
    // in the same order in memory
    let given = packed(t, p.dtype())?;
    aten::copy_(&given, &aten::expand(&p, t.sizes(), false)?, false)?;
    let _held = access::read(&[&given])?;
    let distribution = Distribution::Probabilities(given.device_address()?, wide);
    if !kernels::draws(distribution, t.dtype()) {
        return Ok(None);
    }
    draw(call, &out, distribution)?;
    aten::copy_(t, &out, false)?;
    Ok(Some(vec![Value::Tensor(t.clone())]))
}

/// Normal numbers of given means and deviations.
pub(super) fn normal_of(call: &Call<'_>) -> Made {
    let Some(wanted) = call.results() else { return Ok(None) };
    let Some(wanted) = wanted.first() else { return Ok(None) };
    let (mean, std) = match (call.known, &call.tensors[..]) {
        (Op::normal_Tensor_Tensor, [mean, std]) => (Some(mean), Some(std)),
        (Op::normal_Tensor_float, [mean]) => (Some(mean), None),
        (_, [std]) => (None, Some(std)),
        _ => return Ok(None),
    };
    if let Some(std) = std.filter(|s| s.numel() > 0) {
        let fine = aten::all(&aten::ge_scalar(std, Scalar::Int(0))?)?;
        if !aten::item(&fine)?.as_bool() {
            return Ok(None);
        }
    }
    let number = |at: usize| call.args[at].as_scalar().map_or(0.0, Scalar::as_f64);
    let z = call.dense(wanted.dtype, &wanted.sizes)?;
    let deviation = if std.is_some() { 1.0 } else { number(1) };
    if z.numel() > 0 && !fill_with(call, &z, Distribution::Normal(0.0, deviation))? {
        return Ok(None);
    }
    if let Some(std) = std {
        aten::mul_tensor_(&z, std)?;
    }
    match mean {
        Some(mean) => aten::add_tensor_(&z, mean, Scalar::Int(1))?,
        None => aten::add_scalar_(&z, Scalar::Float(number(0)), Scalar::Int(1))?,
    };
    Ok(Some(vec![call.deliver(z, wanted)?]))
}

pub(super) fn native_dropout(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::native_dropout<Tensor>>() else { return Ok(None) };
    let Some(wanted) = call.results() else { return Ok(None) };
    let x = a.input;
    if x.numel() == 0 || a.train == Some(false) || !x.dtype().is_floating() {
        // other operators, and no numbers
        return crate::ops::random::dropout::native_dropout(&x, a.p, a.train)
            .map(|(out, mask)| Some(vec![Value::Tensor(out), Value::Tensor(mask)]));
    }
    let x = match layout::is_non_overlapping_and_dense(x.sizes(), x.strides()) {
        true => x,
        false => aten::clone(&x, Some(MemoryFormat::Preserve))?,
    };
    let count = x.numel() as u64;
    let (out, mask) = (packed(&x, x.dtype())?, packed(&x, DType::Bool)?);
    let keep = 1.0 - a.p;
    let scale = if keep == 0.0 { 0.0 } else { 1.0 / keep };
    let from = take(call, kernels::dropout_words(gpu(call.device)?, count))?;
    {
        let _held = access::read(&[&x])?;
        let places = [x.device_address()?, out.device_address()?, mask.device_address()?];
        // SAFETY: the operand is held, the results are fresh and as large, in the same order.
        unsafe { kernels::dropout(&call.stream()?, x.dtype(), count, [keep, scale], places, from) }
            .map_err(program)?;
    }
    let made = [out, mask].into_iter().zip(&wanted).map(|(t, m)| call.deliver(t, m));
    made.collect::<Result<Vec<Value>>>().map(Some)
}

/// A permutation: the order of random keys.
pub(super) fn permutation(call: &Call<'_>) -> Made {
    let Some(wanted) = call.results() else { return Ok(None) };
    let Some(wanted) = wanted.first() else { return Ok(None) };
    let keys = call.dense(DType::I64, &wanted.sizes)?;
    if keys.numel() == 0 {
        return Ok(Some(vec![Value::Tensor(call.dense(wanted.dtype, &wanted.sizes)?)]));
    }
    // of 2^64 keys hardly any two are equal, and then the first comes first
    draw(call, &keys, Distribution::Integers { base: 0, count: 0, wide: true })?;
    let (_, order) = aten::sort_stable(&keys, Some(true), 0, false)?;
    Ok(Some(vec![Value::Tensor(converted(&order, wanted.dtype)?)]))
}

/// Categories by their weights: without replacement the first of a race, with it the places of uniform
/// numbers among running sums.
pub(super) fn multinomial(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::multinomial<Tensor>>() else { return Ok(None) };
    let Some(wanted) = call.results() else { return Ok(None) };
    let Some(wanted) = wanted.first() else { return Ok(None) };
    let x = contiguous(&a.self_)?;
    if x.numel() == 0 || wanted.sizes.contains(&0) {
        return Ok(Some(vec![Value::Tensor(call.dense(DType::I64, &wanted.sizes)?)]));
    }
    // what is wrong with weights the kernel of the CPU says
    let fine = aten::logical_and(
        &aten::all(&aten::ge_scalar(&x, Scalar::Int(0))?)?,
        &aten::all(&aten::isfinite(&x)?)?,
    )?;
    let sums = aten::sum_dim_int_list(&x, Some(&[-1]), true, None)?;
    let some = aten::all(&aten::gt_scalar(&sums, Scalar::Int(0))?)?;
    if !aten::item(&aten::logical_and(&fine, &some)?)?.as_bool() {
        return Ok(None);
    }
    if !a.replacement || a.num_samples == 1 {
        // a category of weight w arrives after an exponential time of rate w
        let times = packed(&x, x.dtype())?;
        draw(call, &times, Distribution::Exponential(1.0))?;
        let speeds = aten::div_tensor(&x, &times)?;
        let (_, places) = aten::topk(&speeds, a.num_samples, -1, true, true)?;
        return Ok(Some(vec![Value::Tensor(places)]));
    }
    let wide = converted(&x, DType::F64)?;
    let running = aten::cumsum(&wide, -1, None)?;
    let whole = aten::slice_tensor(&running, -1, Some(-1), None, 1)?;
    let units = call.dense(DType::F64, &wanted.sizes)?;
    draw(call, &units, Distribution::Uniform(0.0, 1.0))?;
    let at = aten::mul_tensor(&units, &whole)?;
    let places = aten::searchsorted_tensor(&running, &at, false, true, None, None)?;
    // the product may be rounded to the whole sum
    let last = x.sizes().last().copied().unwrap_or(1) - 1;
    Ok(Some(vec![Value::Tensor(aten::clamp(&places, None, Some(Scalar::Int(last)))?)]))
}
