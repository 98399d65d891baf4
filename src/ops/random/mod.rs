//! Fills with random numbers: uniform, normal, of other distributions, Bernoulli.
//!
//! The in-place operators fill memory; the functional forms are what they become in a graph, and
//! draw anew at each replay without the dispatcher. Both take the same numbers of the generator.
//! Integers and choices have files of their own.

pub(crate) mod choice;
pub(crate) mod dropout;
pub(crate) mod factory;
mod fill;
pub(crate) mod integers;
pub(crate) mod rrelu;

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::copy;
use crate::ops::foreign::is_foreign;
use crate::ops::pointwise;
use crate::ops::random::fill::{fill_parts, fill_random};
use crate::tensor::launch;
use crate::tensor::{Generator, Tensor, access};
use straightline_catalog::{DType, Device, Dims, Layout, MemoryFormat, Scalar};
use straightline_runtime::cpu::kernels::random_distributions::{self as dist, Distribution};
use straightline_runtime::cpu::kernels::{random, random_normal};

/// A tensor like `t` for the functional forms. Plans call these, so our own memory is taken without
/// the dispatcher; `None` where a backend must make the tensor and fill it.
fn fresh(t: &Tensor, format: MemoryFormat) -> Result<Option<Tensor>> {
    if !copy::has_memory_of_ours(t.device()) || is_foreign(t) {
        return Ok(None);
    }
    let strides = copy::format_strides(t, Some(format))?;
    let sizes = Dims::from_slice(t.sizes());
    Tensor::allocate(t.dtype(), t.device(), sizes, strides).map(Some)
}

/// The functional form of an operator that fills: fresh memory, filled.
macro_rules! functional {
    ($($name:ident $inplace:path, $dispatched:ident $format:ident ($($arg:ident: $t:ty),*));* $(;)?) => {$(
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
    uniform uniform_, uniform_ Preserve (from: f64, to: f64);
    random_functional crate::ops::random::integers::random_, random_ Preserve ();
    random_from crate::ops::random::integers::random_from_, random_from_ Preserve (from: i64, to: Option<i64>);
    random_to crate::ops::random::integers::random_to_, random_to_ Preserve (to: i64);
    exponential exponential_, exponential_ Preserve (lambd: f64);
    geometric geometric_, geometric_ Preserve (p: f64);
    log_normal log_normal_, log_normal_ Preserve (mean: f64, std: f64);
    cauchy cauchy_, cauchy_ Preserve (median: f64, sigma: f64);
    bernoulli_p bernoulli_float_, bernoulli_float_ Contiguous (p: f64);
    bernoulli_tensor bernoulli_tensor_, bernoulli_tensor_ Preserve (p: &Tensor);
);

// ---- uniform and normal -----------------------------------------------------------------------

/// The numbers of a dtype: the largest, and what PyTorch's messages call it.
fn largest(dtype: DType) -> (f64, &'static str) {
    match dtype {
        DType::F16 => (65504.0, "c10::Half"),
        DType::BF16 => (f64::from(half::bf16::MAX), "c10::BFloat16"),
        DType::F32 | DType::C64 => (f64::from(f32::MAX), "float"),
        _ => (f64::MAX, "double"),
    }
}

fn check_bounds(t: &Tensor, from: f64, to: f64) -> Result<()> {
    ensure_not_implemented!(
        t.dtype().is_floating() || t.dtype().is_complex(),
        "\"check_uniform_bounds\" not implemented for {}",
        t.dtype().torch_name()
    );
    let (max, name) = largest(t.dtype());
    for (which, x) in [("from", from), ("to", to)] {
        ensure!((-max..=max).contains(&x), "{which} is out of bounds for {name}");
    }
    if from > to {
        return Err(Error::runtime(format!(
            "uniform_ expects to return a [from, to) range, but found from={from} > to={to}"
        )));
    }
    if to - from > max {
        return Err(Error::runtime(format!(
            "uniform_ expects to-from <= std::numeric_limits<{name}>::max(), but found to={to} and from={from}"
        )));
    }
    Ok(())
}

pub(crate) fn uniform_(
    t: &Tensor,
    from: f64,
    to: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check_bounds(t, from, to)?;
    fill_parts(t, generator, |out, stream| random::uniform(out, stream, from, to))
}

fn check_normal(t: &Tensor) -> Result<()> {
    let made = t.dtype().is_floating() || t.dtype().is_complex();
    if made || t.numel() == 0 {
        return Ok(());
    }
    Err(Error::not_implemented(format!(
        "\"normal_kernel_cpu\" not implemented for {}",
        t.dtype().torch_name()
    )))
}

/// `normal_`, where `blocks` says whether 16 elements and more are drawn in blocks: whether the
/// tensor that is asked for is row-major.
fn fill_normal(
    t: &Tensor,
    [mean, std]: [f64; 2],
    generator: Option<&Generator>,
    blocks: bool,
) -> Result<Tensor> {
    if std.is_nan() || std < 0.0 {
        return Err(Error::runtime(format!("normal expects std >= 0.0, but found std {std}")));
    }
    check_normal(t)?;
    if t.numel() == 0 {
        return Ok(t.clone());
    }
    let complex = t.dtype().is_complex();
    // both parts of a complex number have half of the variance, and the mean is real
    let (part_mean, part_std) =
        if complex { (0.0, std / std::f64::consts::SQRT_2) } else { (mean, std) };
    fill_parts(t, generator, |out, stream| {
        random_normal::normal(out, stream, part_mean, part_std, blocks)
    })?;
    if complex && mean != 0.0 {
        pointwise::add_scalar_(t, Scalar::Float(mean), Scalar::Int(1))?;
    }
    Ok(t.clone())
}

pub(crate) fn normal_(
    t: &Tensor,
    mean: f64,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    fill_normal(t, [mean, std], generator, t.is_contiguous())
}

pub(crate) fn normal_functional(
    t: &Tensor,
    mean: f64,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    if let Some(out) = fresh(t, MemoryFormat::Preserve)? {
        return fill_normal(&out, [mean, std], generator, t.is_contiguous());
    }
    let out = aten::empty_like(t, None, None, None, None, None)?;
    aten::normal_(&out, mean, std, generator)
}

// ---- distributions ----------------------------------------------------------------------------

/// Fills with numbers of a distribution.
fn draw(t: &Tensor, generator: Option<&Generator>, distribution: Distribution) -> Result<Tensor> {
    fill_random(t, generator, |out, stream| {
        dist::fill(out, stream, distribution);
        Ok(())
    })
}

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
    ensure!(positive, "exponential_ expects lambda > 0.0, but found lambda={lambda}");
    check_continuous(t, "Exponential")?;
    draw(t, generator, Distribution::Exponential { lambda })
}

pub(crate) fn geometric_(t: &Tensor, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let fits = p > 0.0 && p < 1.0;
    ensure!(fits, "geometric_ expects p to be in (0, 1), but got p={p}");
    ensure_not_implemented!(
        t.dtype() != DType::Bool,
        "\"geometric_cpu\" not implemented for 'Bool'"
    );
    draw(t, generator, Distribution::Geometric { p })
}

pub(crate) fn log_normal_(
    t: &Tensor,
    mean: f64,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let positive = std > 0.0;
    ensure!(positive, "log_normal_ expects std > 0.0, but found std={std}");
    check_continuous(t, "Log normal")?;
    draw(t, generator, Distribution::LogNormal { mean, std })
}

pub(crate) fn cauchy_(
    t: &Tensor,
    median: f64,
    sigma: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let positive = sigma > 0.0;
    ensure!(positive, "cauchy_ expects sigma > 0.0, but found sigma={sigma}");
    check_continuous(t, "Cauchy")?;
    draw(t, generator, Distribution::Cauchy { median, sigma })
}

// ---- Bernoulli --------------------------------------------------------------------------------

fn check_probability(p: f64) -> Result<()> {
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    Err(Error::runtime(format!("bernoulli_ expects p to be in [0, 1], but got p={p}")))
}

pub(crate) fn bernoulli_float_(
    t: &Tensor,
    p: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check_probability(p)?;
    fill_random(t, generator, |out, stream| {
        random::bernoulli(out, stream, p);
        Ok(())
    })
}

fn check_probabilities(p: &Tensor) -> Result<()> {
    if !p.dtype().is_floating() && p.numel() > 0 {
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
    let mut p = crate::ops::view::expand(p, t.sizes(), true)?;
    if !t.storage().has_data() || t.numel() == 0 {
        return Ok(t.clone());
    }
    let given = p.clone();
    let _whole = access::whole(&[t], &[&given])?;
    let wide = copy::to_dtype(&p, DType::F64)?;
    if let Some(bad) = wide.to_vec::<f64>()?.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        return Err(Error::runtime(format!(
            "bernoulli expects each probability to be in [0, 1], but got {bad}"
        )));
    }
    if p.shares_storage_with(t) {
        p = copy::clone_contiguous(&p)?;
    }
    t.check_real()?;
    launch::run(launch::Written(t), &p, |out, p| {
        let mut stream = generator.unwrap_or(Generator::default_cpu()).lock();
        Ok(random::bernoulli_of(out, p, &mut stream)?)
    })?;
    Ok(t.clone())
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

fn check_std(std: &Tensor) -> Result<()> {
    if std.storage().has_data() && std.numel() > 0 {
        let wide = copy::to_dtype(std, DType::F64)?;
        ensure!(
            !wide.to_vec::<f64>()?.iter().any(|s| s.is_nan() || *s < 0.0),
            "normal expects all elements of std >= 0.0"
        );
    }
    Ok(())
}

fn standard_normal(like: &Tensor, sizes: &[i64], generator: Option<&Generator>) -> Result<Tensor> {
    check_normal(like)?;
    let out = Tensor::allocate_contiguous(like.dtype(), like.device(), sizes)?;
    normal_(&out, 0.0, 1.0, generator)
}

pub(crate) fn normal_tensor_tensor(
    mean: &Tensor,
    std: &Tensor,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check_std(std)?;
    let sizes = crate::ops::common::broadcast(&[mean, std])?;
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
    normal_(&z, 0.0, std, generator)?;
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
