//! Bags of embeddings, and their gradients.

use super::{Call, Kernel, Made, compact, contiguous, converted, rows};
use crate::cuda::copy::program;
use crate::dispatch::Value;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::{Tensor, access};
use straightline_catalog::{DType, Op, Scalar, args};
use straightline_cuda::bags::{self as kernels, Bags, Mode, computes};

/// The kernel of an operator.
pub(super) fn of(op: Op) -> Option<Kernel> {
    Some(match op {
        Op::_embedding_bag | Op::_embedding_bag_forward_only => forward,
        Op::_embedding_bag_backward => backward,
        Op::_embedding_bag_dense_backward => dense_backward,
        _ => return None,
    })
}

fn mode_of(mode: i64) -> Option<Mode> {
    [Mode::Sum, Mode::Mean, Mode::Max].get(usize::try_from(mode).ok()?).copied()
}

fn numbers(t: &Tensor) -> Result<Tensor> {
    contiguous(&converted(t, DType::I64)?)
}

/// Whether offsets begin at 0, do not decrease and end within so many samples. Waits for the answer.
fn ascending(offsets: &Tensor, samples: i64) -> Result<bool> {
    let n = offsets.numel();
    let first = aten::eq_scalar(&aten::narrow(offsets, 0, 0, 1)?, Scalar::Int(0))?;
    let last = aten::le_scalar(&aten::narrow(offsets, 0, n - 1, 1)?, Scalar::Int(samples))?;
    let (low, high) = (aten::narrow(offsets, 0, 0, n - 1)?, aten::narrow(offsets, 0, 1, n - 1)?);
    let between = aten::all(&aten::le_tensor(&low, &high)?)?;
    let ends = aten::logical_and(&first, &last)?;
    Ok(aten::item(&aten::all(&aten::logical_and(&ends, &between)?)?)?.as_bool())
}

/// The bag of each sample, by where the bags begin.
fn bag_of_each(call: &Call<'_>, offsets: &Tensor, samples: i64) -> Result<Tensor> {
    let (dtype, device) = (Some(DType::I64), Some(call.device));
    let each = aten::arange(Scalar::Int(samples), dtype, None, device, None)?;
    let behind = compact::search(call, offsets, None, &each, true)?;
    aten::sub_scalar(&behind, Scalar::Int(1), Scalar::Int(1))
}

fn forward(call: &Call<'_>) -> Made {
    // both operators have these arguments
    let Some(a) = call.read::<args::_embedding_bag<Tensor>>() else { return Ok(None) };
    let (Some(wanted), Some(mode)) = (call.results(), mode_of(a.mode)) else { return Ok(None) };
    let ([of_out, of_bags, of_sizes, of_largest], &[height, width]) =
        (&wanted[..], a.weight.sizes())
    else {
        return Ok(None);
    };
    let (samples, given) = (a.indices.numel(), a.offsets.numel());
    let count = given - i64::from(a.include_last_offset);
    if !computes(a.weight.dtype()) || width == 0 || count <= 0 {
        return Ok(None);
    }
    let (of_samples, offsets) = (numbers(&a.indices)?, numbers(&a.offsets)?);
    // the CPU says what is wrong
    if !ascending(&offsets, samples)? || !rows::within(&of_samples, 0, height)? {
        return Ok(None);
    }
    let begins = match a.include_last_offset {
        true => offsets.clone(),
        false => {
            let end = call.dense(DType::I64, &[1])?;
            aten::cat(&[offsets.clone(), aten::fill_scalar_(&end, Scalar::Int(samples))?], 0)?
        }
    };
    let dtype = a.weight.dtype();
    let b = Bags { dtype, mode, count, samples, width, padding: a.padding_idx };
    let table = contiguous(&a.weight)?;
    let factors = a.per_sample_weights.as_ref().map(contiguous).transpose()?;
    let out = call.dense(dtype, &of_out.sizes)?;
    // sums need no sizes, which are as many as there are offsets perhaps
    let sizes = aten::zero_(&call.dense(DType::I64, &of_sizes.sizes)?)?;
    let largest = match mode {
        Mode::Max => Some(call.dense(DType::I64, &of_largest.sizes)?),
        _ => None,
    };
    {
        let held: Vec<&Tensor> = [&table].into_iter().chain(&factors).collect();
        let _held = access::read(&held)?;
        let address = |t: Option<&Tensor>| t.map_or(Ok(0), Tensor::device_address);
        let addresses = [
            table.device_address()?,
            of_samples.device_address()?,
            begins.device_address()?,
            address(factors.as_ref())?,
            out.device_address()?,
            address(Some(&sizes).filter(|_| mode != Mode::Sum))?,
            address(largest.as_ref())?,
        ];
        // SAFETY: the operands are held or this call's own, without gaps; the samples are rows of the table, and
        // the begins are in order.
        unsafe { kernels::bags(&call.stream()?, &b, addresses) }.map_err(program)?;
    }
    let bags = match of_bags.sizes[..] == [0] {
        true => call.dense(DType::I64, &[0])?,
        false => bag_of_each(call, &offsets, samples)?,
    };
    let largest = largest.unwrap_or_else(|| sizes.clone());
    let number = |t: &Tensor, m| call.deliver(converted(t, of_bags.dtype)?, m);
    Ok(Some(vec![
        call.deliver(out, of_out)?,
        number(&bags, of_bags)?,
        number(&sizes, of_sizes)?,
        number(&aten::clone(&largest, None)?, of_largest)?,
    ]))
}

fn backward(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::_embedding_bag_backward<Tensor>>() else { return Ok(None) };
    if a.sparse || call.results().is_none() || a.offsets.numel() == 0 {
        return Ok(None);
    }
    let bag_of = match a.offset2bag.numel() == 0 && a.indices.numel() != 0 {
        true => bag_of_each(call, &numbers(&a.offsets)?, a.indices.numel())?,
        false => a.offset2bag,
    };
    let grad = aten::_embedding_bag_dense_backward(
        &a.grad,
        &a.indices,
        &bag_of,
        &a.bag_size,
        &a.maximum_indices,
        a.num_weights,
        a.scale_grad_by_freq,
        a.mode,
        a.per_sample_weights.as_ref(),
        a.padding_idx,
    )?;
    Ok(Some(vec![Value::Tensor(grad)]))
}

fn dense_backward(call: &Call<'_>) -> Made {
    let Some(a) = call.read::<args::_embedding_bag_dense_backward<Tensor>>() else {
        return Ok(None);
    };
    let (Some(wanted), Some(mode)) = (call.results(), mode_of(a.mode)) else { return Ok(None) };
    let (Some(wanted), &[count, width]) = (wanted.first(), a.grad.sizes()) else {
        return Ok(None);
    };
    if !computes(a.grad.dtype()) || count == 0 || width == 0 || a.indices.numel() == 0 {
        return Ok(None);
    }
    let grad = contiguous(&converted(&a.grad, a.grad.dtype().opmath())?)?;
    let sizes = numbers(&a.bag_size)?;
    let sums = match mode {
        Mode::Max => {
            let rows = numbers(&a.maximum_indices)?;
            if rows.sizes() != [count, width] || sizes.numel() < count {
                return Ok(None);
            }
            if !rows::within(&rows, 0, a.num_weights)? {
                return Ok(None);
            }
            let (dtype, device) = (Some(DType::I64), Some(call.device));
            let columns = aten::arange(Scalar::Int(width), dtype, None, device, None)?;
            let keys = aten::mul_scalar(&rows, Scalar::Int(width))?;
            let keys = aten::add_tensor(&keys, &columns, Scalar::Int(1))?;
            // bags of nothing have no largest row
            let none = aten::eq_scalar(&aten::narrow(&sizes, 0, 0, count)?, Scalar::Int(0))?;
            let beyond = Scalar::Int(a.num_weights * width);
            let keys = aten::masked_fill_scalar(&keys, &aten::unsqueeze(&none, 1)?, beyond)?;
            let (keys, rows) = (aten::reshape(&keys, &[-1])?, aten::reshape(&grad, &[-1])?);
            compact::sums_by(call, &keys, a.num_weights * width, &rows, 1)?
        }
        _ => {
            let (rows, bag_of) = (numbers(&a.indices)?, numbers(&a.offset2bag)?);
            let samples = rows.numel();
            let fits = bag_of.numel() == samples && (mode == Mode::Sum || sizes.numel() >= count);
            let there = |t: &Tensor, n| rows::within(t, 0, n);
            if !fits || !there(&rows, a.num_weights)? || !there(&bag_of, count)? {
                return Ok(None);
            }
            let factors = match &a.per_sample_weights {
                Some(f) if f.numel() != samples => return Ok(None),
                Some(f) => Some(contiguous(&converted(f, grad.dtype())?)?),
                None => None,
            };
            let counts = match a.scale_grad_by_freq {
                true => {
                    let all = compact::counts(call, &rows, a.num_weights)?;
                    Some(aten::index_select(&all, 0, &rows)?)
                }
                false => None,
            };
            let (dtype, padding) = (grad.dtype(), a.padding_idx);
            let b = Bags { dtype, mode, count, samples, width, padding };
            let shares = call.dense(dtype, &[samples, width])?;
            let address = |t: Option<&Tensor>| t.map_or(Ok(0), Tensor::device_address);
            {
                let held: Vec<&Tensor> =
                    [&grad, &bag_of, &sizes].into_iter().chain(&factors).collect();
                let _held = access::read(&held)?;
                let addresses = [
                    grad.device_address()?,
                    bag_of.device_address()?,
                    sizes.device_address()?,
                    address(factors.as_ref())?,
                    address(counts.as_ref())?,
                    shares.device_address()?,
                ];
                // SAFETY: the operands are held or this call's own, without gaps; the bags are the gradient's.
                unsafe { kernels::shares(&call.stream()?, &b, addresses) }.map_err(program)?;
            }
            // the row that does not count is beyond all
            let keys = match padding < 0 {
                true => rows,
                false => {
                    let out = aten::eq_scalar(&rows, Scalar::Int(padding))?;
                    aten::masked_fill_scalar(&rows, &out, Scalar::Int(a.num_weights))?
                }
            };
            compact::sums_by(call, &keys, a.num_weights, &shares, width)?
        }
    };
    let sums = aten::reshape(&sums, &wanted.sizes)?;
    Ok(Some(vec![call.deliver(converted(&sums, wanted.dtype)?, wanted)?]))
}
