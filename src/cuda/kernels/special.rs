//! Special functions, element by element.

use super::{Call, Kernel, Made, converted};
use crate::cuda::copy::program;
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Tensor, access};
use straightline_catalog::{Arg, DType, Op, Scalar, TensorMeta, args, layout};
use straightline_cuda::special::{self as kernels, Function};

/// The kernel of an operator.
pub(super) fn of(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::logit => logit,
        Op::signbit => signbit,
        op => {
            function(op)?;
            pointwise
        }
    })
}

fn function(op: Op) -> Option<Function> {
    Some(match op {
        Op::digamma => Function::Digamma,
        Op::lgamma => Function::Lgamma,
        Op::polygamma => Function::Polygamma,
        Op::special_zeta => Function::Zeta,
        Op::igamma => Function::Igamma,
        Op::igammac => Function::Igammac,
        Op::erfinv => Function::Erfinv,
        Op::special_erfcx => Function::Erfcx,
        Op::special_ndtri => Function::Ndtri,
        Op::special_log_ndtr => Function::LogNdtr,
        Op::special_entr => Function::Entr,
        Op::i0 | Op::special_modified_bessel_i0 => Function::I0,
        Op::special_i0e => Function::I0e,
        Op::special_i1 | Op::special_modified_bessel_i1 => Function::I1,
        Op::special_i1e => Function::I1e,
        Op::special_bessel_j0 => Function::J0,
        Op::special_bessel_j1 => Function::J1,
        Op::special_bessel_y0 => Function::Y0,
        Op::special_bessel_y1 => Function::Y1,
        Op::special_modified_bessel_k0 => Function::K0,
        Op::special_modified_bessel_k1 => Function::K1,
        Op::special_scaled_modified_bessel_k0 => Function::K0e,
        Op::special_scaled_modified_bessel_k1 => Function::K1e,
        Op::special_spherical_bessel_j0 => Function::SphericalJ0,
        Op::special_airy_ai => Function::AiryAi,
        Op::sinc => Function::Sinc,
        Op::logaddexp2 => Function::Logaddexp2,
        Op::hypot => Function::Hypot,
        Op::copysign_Tensor => Function::Copysign,
        Op::nextafter => Function::Nextafter,
        Op::frexp_Tensor => Function::Frexp,
        Op::gcd => Function::Gcd,
        Op::lcm => Function::Lcm,
        _ => return None,
    })
}

/// An operand as a result's elements are: its dtype, sizes and strides.
fn alike(x: &Tensor, wanted: &TensorMeta) -> Result<Tensor> {
    let x = converted(x, wanted.dtype)?;
    if x.sizes() == &wanted.sizes[..] && x.strides() == &wanted.strides[..] {
        return Ok(x);
    }
    let (sizes, strides) = (wanted.sizes.clone(), wanted.strides.clone());
    let out = Tensor::allocate(wanted.dtype, x.device(), sizes, strides)?;
    aten::copy_(&out, &aten::expand(&x, &wanted.sizes, false)?, false)
}

/// A function of operands, with its number.
fn apply(call: &Call<'_>, function: Function, operands: &[&Tensor], n: i64) -> Made {
    let Some(wanted) = call.results() else { return Ok(None) };
    let Some(first) = wanted.first().filter(|m| function.computes(m.dtype)) else {
        return Ok(None);
    };
    let dense = |m: &TensorMeta| layout::is_non_overlapping_and_dense(&m.sizes, &m.strides);
    let one_order = wanted.iter().all(|m| dense(m) && m.strides == first.strides);
    if operands.len() != function.operands() || !one_order {
        return Ok(None);
    }
    let operands: Vec<Tensor> = operands.iter().map(|x| alike(x, first)).collect::<Result<_>>()?;
    let fresh =
        |m: &TensorMeta| Tensor::allocate(m.dtype, call.device, m.sizes.clone(), m.strides.clone());
    let made: Vec<Tensor> = wanted.iter().map(fresh).collect::<Result<_>>()?;
    {
        let _held = access::read(&operands.iter().collect::<Vec<_>>())?;
        let address = |t: Option<&Tensor>| t.map_or(Ok(0), Tensor::device_address);
        let addresses = [
            address(operands.first())?,
            address(operands.get(1))?,
            address(made.first())?,
            address(made.get(1))?,
        ];
        let numbers = [made.first().map_or(0, Tensor::numel), n];
        // SAFETY: the operands are held, the results fresh; all are dense and in one order.
        unsafe { kernels::apply(&call.stream()?, function, first.dtype, numbers, addresses) }
            .map_err(program)?;
    }
    Ok(Some(made.into_iter().map(Value::Tensor).collect()))
}

fn pointwise(call: &Call<'_>) -> Made {
    let Some(function) = function(call.known) else { return Ok(None) };
    let operands: Vec<&Tensor> = call.tensors.iter().collect();
    let n = call.args.first().and_then(Arg::as_int).unwrap_or(0);
    let double = operands.first().is_some_and(|x| x.dtype() == DType::F64);
    let function = match function {
        // as far as the bounds of its dtype show
        Function::Polygamma if !double => Function::PolygammaOfSingle,
        other => other,
    };
    apply(call, function, &operands, n)
}

fn logit(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::logit<Tensor>>() else { return Ok(None) };
    let (Some(wanted), x) = (call.results(), a.self_) else { return Ok(None) };
    let Some(wanted) = wanted.first().filter(|m| Function::Logit.computes(m.dtype)) else {
        return Ok(None);
    };
    let x = match a.eps {
        None => x,
        // the limits are numbers of the result's dtype
        Some(eps) if eps <= 0.5 => {
            let round = |e: f64| Scalar::Float(e).cast(wanted.dtype).as_f64();
            let low = round(eps);
            let high = Scalar::Float(round(1.0 - low));
            aten::clamp(&converted(&x, wanted.dtype)?, Some(Scalar::Float(low)), Some(high))?
        }
        Some(_) => return Ok(None),
    };
    apply(call, Function::Logit, &[&x], 0)
}

fn signbit(call: &Call<'_>) -> Made {
    let [x] = &call.tensors[..] else { return Ok(None) };
    let Some(wanted) = call.results().filter(|_| !x.dtype().is_complex()) else { return Ok(None) };
    let Some(wanted) = wanted.first() else { return Ok(None) };
    let signed = match x.dtype().is_floating() {
        true => aten::copysign_tensor(&aten::ones_like(x, None, None, None, None, None)?, x)?,
        false => x.clone(),
    };
    Ok(Some(vec![call.deliver(aten::lt_scalar(&signed, Scalar::Int(0))?, wanted)?]))
}
