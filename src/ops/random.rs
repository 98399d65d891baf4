//! Random numbers beyond `uniform_` and `normal_`: integers, Bernoulli and other distributions, permutations, categories.
//!
//! The in-place operators fill memory; the functional forms are what they become in a graph, and draw anew at each
//! replay without the dispatcher.

use super::composite::is_foreign;
use super::factory::{computed_on, memory_like, on_device};
use super::{copy, pointwise};
use crate::error::{Error, Result};
use crate::ops::aten;
use crate::tensor::{Generator, Tensor, access};
use straightline_passes::ir::{DType, Device, Dims, Layout, MemoryFormat, Scalar};
use straightline_runtime::cpu::kernels::random;
use straightline_runtime::cpu::kernels::random_distributions as dist;

fn generator_or_default(generator: Option<&Generator>) -> &Generator {
    generator.unwrap_or(Generator::default_cpu())
}

/// Fills with `make` of 64 random bits each.
fn draw(
    t: &Tensor,
    generator: Option<&Generator>,
    make: &(dyn Fn(u64) -> f64 + Sync),
) -> Result<Tensor> {
    if t.storage().has_data() {
        let _guard = access::write(t, &[])?;
        let count = dist::draw_counters(t.numel() as usize);
        let (seed, offset) = generator_or_default(generator).advance(count);
        // SAFETY: the tensor is held exclusively.
        unsafe { dist::draw(t.strided()?, seed, offset, make)? };
    }
    Ok(t.clone())
}

/// Fresh memory for the functional forms: the tensor's own order of dimensions, or row-major.
fn fresh(t: &Tensor, format: MemoryFormat) -> Result<Option<Tensor>> {
    if format == MemoryFormat::Preserve {
        return memory_like(t);
    }
    if !copy::has_memory_of_ours(t.device()) || is_foreign(t) {
        return Ok(None);
    }
    Tensor::allocate_contiguous(t.dtype(), t.device(), t.sizes()).map(Some)
}

// ---- integers ---------------------------------------------------------------------------------

/// The smallest and the largest integer that a dtype takes part in random draws with.
fn bounds(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::Bool => (0.0, 1.0),
        DType::U8 => (0.0, 255.0),
        DType::I8 => (-128.0, 127.0),
        DType::I16 => (f64::from(i16::MIN), f64::from(i16::MAX)),
        DType::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        DType::F16 => (-65504.0, 65504.0),
        _ => (i64::MIN as f64, i64::MAX as f64),
    }
}

/// The last integer below which a dtype holds all, and so the end of an open range.
fn last_of(dtype: DType) -> i64 {
    match dtype {
        DType::F64 => 1 << 53,
        DType::F32 => 1 << 24,
        DType::F16 => 1 << 11,
        DType::BF16 => 1 << 8,
        DType::Bool => 1,
        DType::U8 => i64::from(u8::MAX),
        DType::I8 => i64::from(i8::MAX),
        DType::I16 => i64::from(i16::MAX),
        DType::I32 => i64::from(i32::MAX),
        _ => i64::MAX,
    }
}

fn check_bound(name: &str, value: i64, dtype: DType) -> Result<()> {
    let (low, high) = bounds(dtype);
    if (low..=high).contains(&(value as f64)) {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name} is out of bounds for {}",
        dtype.torch_name()
    )))
}

fn check_below(from: i64, to: i64) -> Result<()> {
    if from < to {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}"
    )))
}

/// The first integer of a range and how many there are, 0 standing for 2^64.
fn range(from: i64, to: Option<i64>, dtype: DType) -> Result<(i64, u64)> {
    check_bound("from", from, dtype)?;
    match to {
        Some(to) => {
            check_below(from, to)?;
            check_bound("to - 1", to - 1, dtype)?;
            Ok((from, to.wrapping_sub(from) as u64))
        }
        None if from == i64::MIN => Ok((from, 0)),
        None => {
            let last = last_of(dtype);
            if from > last {
                return Err(Error::runtime(format!(
                    "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, \
                     but got from={from} > to_inc={last}"
                )));
            }
            Ok((from, (last.wrapping_sub(from) as u64).wrapping_add(1)))
        }
    }
}

fn fill_integers(
    t: &Tensor,
    (low, count): (i64, u64),
    generator: Option<&Generator>,
) -> Result<Tensor> {
    if t.storage().has_data() {
        let _guard = access::write(t, &[])?;
        let counters = dist::draw_counters(t.numel() as usize);
        let (seed, offset) = generator_or_default(generator).advance(counters);
        let make = |bits| dist::integer_in(bits, low, count);
        // SAFETY: the tensor is held exclusively.
        unsafe { dist::draw_integers(t.strided()?, seed, offset, &make)? };
    }
    Ok(t.clone())
}

pub(crate) fn random_(t: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    fill_integers(t, range(0, None, t.dtype())?, generator)
}

pub(crate) fn random_from_(
    t: &Tensor,
    from: i64,
    to: Option<i64>,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    fill_integers(t, range(from, to, t.dtype())?, generator)
}

pub(crate) fn random_to_(t: &Tensor, to: i64, generator: Option<&Generator>) -> Result<Tensor> {
    fill_integers(t, range(0, Some(to), t.dtype())?, generator)
}

/// The functional form of an operator that fills: fresh memory, filled.
macro_rules! functional {
    ($($name:ident $inplace:ident $dispatched:ident $format:ident ($($arg:ident: $t:ty),*));* $(;)?) => {$(
        pub(crate) fn $name(t: &Tensor, $($arg: $t,)* generator: Option<&Generator>) -> Result<Tensor> {
            if let Some(out) = fresh(t, MemoryFormat::$format)? {
                return $inplace(&out, $($arg,)* generator);
            }
            let format = Some(MemoryFormat::$format);
            let out = aten::empty_like(t, None, None, None, None, format)?;
            aten::$dispatched(&out, $($arg,)* generator)
        }
    )*};
}
functional!(
    random_functional random_ random_ Preserve ();
    random_from random_from_ random_from_ Preserve (from: i64, to: Option<i64>);
    random_to random_to_ random_to_ Preserve (to: i64);
    exponential exponential_ exponential_ Preserve (lambd: f64);
    geometric geometric_ geometric_ Preserve (p: f64);
    log_normal log_normal_ log_normal_ Preserve (mean: f64, std: f64);
    cauchy cauchy_ cauchy_ Preserve (median: f64, sigma: f64);
    bernoulli_p bernoulli_float_ bernoulli_float_ Contiguous (p: f64);
    bernoulli_tensor bernoulli_tensor_ bernoulli_tensor_ Preserve (p: &Tensor);
);

// ---- distributions ----------------------------------------------------------------------------

fn check_continuous(t: &Tensor, name: &str) -> Result<()> {
    if t.dtype().is_floating() {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name} distribution is a continuous probability distribution. dtype must be a floating point but you specified {}",
        t.dtype().torch_name()
    )))
}

pub(crate) fn exponential_(
    t: &Tensor,
    lambda: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let positive = lambda > 0.0;
    if !positive {
        return Err(Error::runtime(format!(
            "exponential_ expects lambda > 0.0, but found lambda={lambda}"
        )));
    }
    check_continuous(t, "Exponential")?;
    // of (0, 1]: no element is 0, which is divided by
    draw(t, generator, &|bits| {
        -(dist::unit(bits) + 2f64.powi(-53)).ln() / lambda
    })
}

pub(crate) fn geometric_(t: &Tensor, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let fits = p > 0.0 && p < 1.0;
    if !fits {
        return Err(Error::runtime(format!(
            "geometric_ expects p to be in (0, 1), but got p={p}"
        )));
    }
    if t.dtype() == DType::Bool {
        return Err(Error::not_implemented(
            "\"geometric_cpu\" not implemented for 'Bool'",
        ));
    }
    let scale = (-p).ln_1p().recip();
    draw(t, generator, &|bits| {
        ((1.0 - dist::unit(bits)).ln() * scale).ceil().max(1.0)
    })
}

pub(crate) fn log_normal_(
    t: &Tensor,
    mean: f64,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let positive = std > 0.0;
    if !positive {
        return Err(Error::runtime(format!(
            "log_normal_ expects std > 0.0, but found std={std}"
        )));
    }
    check_continuous(t, "Log normal")?;
    draw(t, generator, &|bits| {
        // Box-Muller: a length and an angle of 32 bits each
        let scale = 2f64.powi(-32);
        let length = ((bits >> 32) as f64 + 1.0) * scale;
        let angle = (bits & 0xffff_ffff) as f64 * scale * std::f64::consts::TAU;
        ((-2.0 * length.ln()).sqrt() * angle.cos() * std + mean).exp()
    })
}

pub(crate) fn cauchy_(
    t: &Tensor,
    median: f64,
    sigma: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let positive = sigma > 0.0;
    if !positive {
        return Err(Error::runtime(format!(
            "cauchy_ expects sigma > 0.0, but found sigma={sigma}"
        )));
    }
    check_continuous(t, "Cauchy")?;
    draw(t, generator, &|bits| {
        let u = dist::unit(bits) + 2f64.powi(-54);
        median + sigma * (std::f64::consts::PI * (u - 0.5)).tan()
    })
}

// ---- Bernoulli --------------------------------------------------------------------------------

pub(crate) fn bernoulli_float_(
    t: &Tensor,
    p: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::runtime(format!(
            "bernoulli_ expects p to be in [0, 1], but got p={p}"
        )));
    }
    if t.storage().has_data() {
        let _guard = access::write(t, &[])?;
        let count = random::counters(DType::F32, t.numel() as usize);
        let (seed, offset) = generator_or_default(generator).advance(count);
        // SAFETY: the tensor is held exclusively.
        unsafe { random::bernoulli(t.strided()?, seed, offset, p)? };
    }
    Ok(t.clone())
}

fn check_probabilities(p: &Tensor) -> Result<()> {
    if !p.dtype().is_floating() {
        return Err(Error::not_implemented(format!(
            "\"bernoulli_tensor_cpu_p_\" not implemented for {}",
            p.dtype().torch_name()
        )));
    }
    Ok(())
}

pub(crate) fn bernoulli_tensor_(
    t: &Tensor,
    p: &Tensor,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check_probabilities(p)?;
    let p = super::view::expand(p, t.sizes(), true)?;
    if !t.storage().has_data() {
        return Ok(t.clone());
    }
    let wide = copy::to_dtype(&p, DType::F64)?;
    if let Some(bad) = wide
        .to_vec::<f64>()?
        .iter()
        .find(|p| !(0.0..=1.0).contains(*p))
    {
        return Err(Error::runtime(format!(
            "bernoulli expects each probability to be in [0, 1], but got {bad}"
        )));
    }
    let noise = Tensor::allocate_contiguous(DType::F64, t.device(), t.sizes())?;
    draw(&noise, generator, &dist::unit)?;
    let hit = pointwise::lt(&noise, &wide)?;
    copy::copy_(t, &hit, false)
}

/// 1 with the probability that each element says.
pub(crate) fn bernoulli(p: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    check_probabilities(p)?;
    if let Some(out) = fresh(p, MemoryFormat::Contiguous)? {
        return bernoulli_tensor_(&out, p, generator);
    }
    let format = Some(MemoryFormat::Contiguous);
    let out = aten::empty_like(p, None, None, None, None, format)?;
    aten::bernoulli_tensor_(&out, p, generator)
}

// ---- normal numbers of given means and deviations ---------------------------------------------

fn check_normal(t: &Tensor) -> Result<()> {
    if t.dtype().is_floating() {
        return Ok(());
    }
    Err(Error::not_implemented(format!(
        "\"normal_kernel_cpu\" not implemented for {}",
        t.dtype().torch_name()
    )))
}

fn check_std(std: &Tensor) -> Result<()> {
    if std.storage().has_data() && std.numel() > 0 {
        let wide = copy::to_dtype(std, DType::F64)?;
        if wide.to_vec::<f64>()?.iter().any(|s| s.is_nan() || *s < 0.0) {
            return Err(Error::runtime("normal expects all elements of std >= 0.0"));
        }
    }
    Ok(())
}

fn standard_normal(like: &Tensor, sizes: &[i64], generator: Option<&Generator>) -> Result<Tensor> {
    check_normal(like)?;
    let out = Tensor::allocate_contiguous(like.dtype(), like.device(), sizes)?;
    super::factory::normal_(&out, 0.0, 1.0, generator)
}

pub(crate) fn normal_tensor_tensor(
    mean: &Tensor,
    std: &Tensor,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check_std(std)?;
    let sizes = super::common::broadcast(&[mean, std])?;
    let z = standard_normal(mean, &sizes, generator)?;
    pointwise::mul_(&z, std)?;
    pointwise::add_(&z, mean, Scalar::Int(1))
}

pub(crate) fn normal_tensor_float(
    mean: &Tensor,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check_normal(mean)?;
    let z = Tensor::allocate_contiguous(mean.dtype(), mean.device(), mean.sizes())?;
    super::factory::normal_(&z, 0.0, std, generator)?;
    pointwise::add_(&z, mean, Scalar::Int(1))
}

pub(crate) fn normal_float_tensor(
    mean: f64,
    std: &Tensor,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check_std(std)?;
    let z = standard_normal(std, std.sizes(), generator)?;
    pointwise::mul_(&z, std)?;
    pointwise::add_scalar_(&z, Scalar::Float(mean), Scalar::Int(1))
}

#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(crate) fn normal_float_float(
    mean: f64,
    std: f64,
    size: &[i64],
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let t = aten::empty_memory_format(size, dtype, layout, device, pin_memory, None)?;
    aten::normal_(&t, mean, std, generator)
}

// ---- choices ----------------------------------------------------------------------------------

fn check_weights(rows: &[f64], categories: usize, samples_with: bool) -> Result<()> {
    for row in rows.chunks_exact(categories) {
        if row.iter().any(|w| !w.is_finite() || *w < 0.0) {
            return Err(Error::runtime(if samples_with {
                "invalid multinomial distribution (encountering probability entry < 0, infinity or NaN)"
            } else {
                "probability tensor contains either `inf`, `nan` or element < 0"
            }));
        }
        let total = row.iter().sum::<f64>();
        if total <= 0.0 {
            return Err(Error::runtime(
                "invalid multinomial distribution (sum of probabilities <= 0)",
            ));
        }
    }
    Ok(())
}

/// Positions along the last dimension, as probable as the weights there.
pub(crate) fn multinomial(
    weights: &Tensor,
    samples: i64,
    replacement: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    if !(1..=2).contains(&weights.dim()) {
        return Err(Error::runtime("prob_dist must be 1 or 2 dim"));
    }
    if !weights.dtype().is_floating() {
        return Err(Error::runtime(format!(
            "multinomial only supports floating-point dtypes for input, got: {}",
            weights.dtype().torch_name()
        )));
    }
    if samples <= 0 {
        return Err(Error::runtime("cannot sample n_sample <= 0 samples"));
    }
    let (lead, categories) = match *weights.sizes() {
        [n] => (None, n),
        [rows, n, ..] => (Some(rows), n),
        [] => (None, 0),
    };
    if !replacement && samples > categories {
        return Err(Error::runtime(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
        ));
    }
    if categories == 0 {
        return Err(Error::runtime("multinomial: there are no categories"));
    }
    if categories > 1 << 24 {
        return Err(Error::runtime("number of categories cannot exceed 2^24"));
    }
    let sizes: Dims = lead.into_iter().chain([samples]).collect();
    let out = Tensor::allocate_contiguous(DType::I64, weights.device(), &sizes)?;
    if out.storage().has_data() && out.numel() > 0 {
        let numbers = copy::to_dtype(weights, DType::F64)?.to_vec::<f64>()?;
        check_weights(&numbers, categories as usize, replacement)?;
        let rows = lead.unwrap_or(1) as usize;
        let per_row = if replacement { samples } else { categories } as usize;
        let count = dist::draw_counters(rows * per_row);
        let (seed, offset) = generator_or_default(generator).advance(count);
        let (categories, samples) = (categories as usize, samples as usize);
        let drawn = dist::multinomial(&numbers, categories, samples, replacement, seed, offset);
        let drawn = Tensor::from_slice(&drawn, &sizes)?;
        copy::copy_(&out, &drawn, false)?;
    }
    Ok(out)
}

pub(crate) fn randperm_generator(
    n: i64,
    generator: Option<&Generator>,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or(DType::I64);
    super::common::check_sizes(&[n])?;
    if dtype == DType::Bool {
        return Err(Error::not_implemented(
            "\"randperm\" not implemented for 'Bool'",
        ));
    }
    if !dtype.is_floating() && n > 0 && (n - 1) as f64 > bounds(dtype).1 {
        return Err(Error::runtime(format!(
            "value cannot be converted to type {} without overflow",
            dtype.torch_name()
        )));
    }
    let t = Tensor::allocate_contiguous(dtype, computed_on(device), &[n])?;
    if t.storage().has_data() {
        let count = dist::draw_counters(n as usize);
        let (seed, offset) = generator_or_default(generator).advance(count);
        let drawn = Tensor::from_vec(dist::permutation(n as usize, seed, offset))?;
        copy::copy_(&t, &drawn, false)?;
    }
    on_device(t, device)
}

pub(crate) fn randperm(
    n: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    randperm_generator(n, None, dtype, layout, device, pin_memory)
}
