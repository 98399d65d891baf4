//! Padding with a constant, in a circle, and by the name of a mode.

use super::check;
use super::layout::Format;
use crate::error::{Error, ErrorKind, Result};
use crate::ops::aten;
use crate::ops::common::check_fits;
use crate::ops::copy;
use crate::ops::view;
use crate::tensor::Tensor;
use straightline_catalog::{Dims, MemoryFormat, Scalar};

/// `length` places of dimension `d` from `start` on, which are there: a view that no other operator
/// is called for.
fn part(t: &Tensor, d: usize, start: i64, length: i64) -> Result<Tensor> {
    view::slice(t, d as i64, Some(start), Some(start + length), 1)
}

/// The constant around the tensor; negative pads cut off.
pub(crate) fn constant_pad_nd(x: &Tensor, pad: &[i64], value: Scalar) -> Result<Tensor> {
    let rank = x.dim();
    check!(
        pad.len().is_multiple_of(2),
        "Length of pad must be even but instead it equals {}",
        pad.len()
    );
    check!(
        pad.len() <= 2 * rank,
        "Length of pad should be no more than twice the number of dimensions of the input. Pad length is {} while the input has {rank} dimensions.",
        pad.len()
    );
    let mut inner = x.clone();
    let mut sizes = Dims::from_slice(x.sizes());
    // where the input begins in the result
    let mut begins = Dims::from_elem(0, rank);
    for (k, around) in pad.chunks_exact(2).enumerate() {
        let (d, before, after) = (rank - 1 - k, around[0], around[1]);
        let size = sizes[d].saturating_add(before).saturating_add(after);
        let (cut_before, cut_after) = (before.min(0).saturating_neg(), after.min(0));
        let kept = sizes[d].saturating_sub(cut_before).saturating_add(cut_after);
        check!(
            size >= 0 && kept >= 0,
            "constant_pad_nd: the input size {}, plus negative padding {before} and {after}, resulted in a negative output size, which is invalid. Check dimension {d} of your input.",
            sizes[d]
        );
        if kept != sizes[d] {
            inner = part(&inner, d, cut_before, kept)?;
        }
        sizes[d] = size;
        begins[d] = before.max(0);
    }
    if pad.iter().all(|p| *p <= 0) {
        return copy::clone(&inner, None);
    }
    crate::ops::common::check_sizes(&sizes)?;
    check_fits(value, x.dtype())?;
    let strides = Format::of(x).strides(&sizes);
    let out = Tensor::allocate(x.dtype(), x.device(), sizes, strides)?;
    copy::fill_(&out, value)?;
    let mut hole = out.clone();
    for d in 0..rank {
        if hole.sizes()[d] != inner.sizes()[d] {
            hole = part(&hole, d, begins[d], inner.sizes()[d])?;
        }
    }
    if inner.numel() > 0 {
        copy::copy_into_fresh(&mut hole, &inner)?;
    }
    Ok(out)
}

pub(crate) fn pad_circular(x: &Tensor, pad: &[i64]) -> Result<Tensor> {
    let spatial = pad.len() / 2;
    let rank = x.dim();
    check!(
        pad.len().is_multiple_of(2) && spatial > 0 && (rank == spatial + 1 || rank == spatial + 2),
        "Invalid padding size, expected 1 or 2 non-padded dimensions, but got padding of length {} for an input of {rank} dimensions",
        pad.len()
    );
    let mut out = x.clone();
    for k in 0..spatial {
        let (d, before, after) = (rank - 1 - k, pad[2 * k], pad[2 * k + 1]);
        let size = x.sizes()[d];
        check!(
            before <= size && after <= size,
            "Padding value causes wrapping around more than once."
        );
        check!(
            before.saturating_add(after).saturating_add(size) >= 0,
            "Negative padding value is resulting in an empty dimension"
        );
        let d = d as i64;
        let kept = (size + before.min(0) + after.min(0)).max(0);
        if kept != size {
            let start = before.min(0).saturating_neg().min(size);
            out = aten::slice_tensor(&out, d, Some(start), Some(start + kept), 1)?;
        }
        if kept == 0 || (before <= 0 && after <= 0) {
            continue;
        }
        let mut parts = Vec::new();
        let mut left = before.max(0);
        while left > 0 {
            let n = left.min(kept);
            parts.push(aten::slice_tensor(&out, d, Some(kept - n), Some(kept), 1)?);
            left -= n;
        }
        parts.reverse();
        parts.push(out.clone());
        let mut left = after.max(0);
        while left > 0 {
            let n = left.min(kept);
            parts.push(aten::slice_tensor(&out, d, Some(0), Some(n), 1)?);
            left -= n;
        }
        out = aten::cat(&parts, d)?;
    }
    if out.same_handle(x) || !out.is_contiguous() || pad.iter().all(|p| *p <= 0) {
        return aten::clone(&out, Some(MemoryFormat::Contiguous));
    }
    Ok(out)
}

const MODES: [&str; 4] = ["reflect", "replicate", "circular", "constant"];

pub(crate) fn pad_enum(x: &Tensor, pad: &[i64], mode: i64, value: Option<f64>) -> Result<Tensor> {
    let rank = x.dim();
    check!(pad.len().is_multiple_of(2), "Padding length must be divisible by 2");
    check!(
        pad.len() <= 2 * rank,
        "Padding length should be less than or equal to two times the input dimension but got padding length {} and input of dimension {rank}",
        pad.len()
    );
    let name = usize::try_from(mode).ok().and_then(|m| MODES.get(m));
    let Some(name) = name else {
        return Err(Error::not_implemented(format!("Unrecognised padding mode {mode}")));
    };
    if *name == "constant" {
        return aten::constant_pad_nd(x, pad, Scalar::Float(value.unwrap_or(0.0)));
    }
    check!(
        value.is_none_or(|v| v == 0.0),
        "Padding mode \"{name}\" doesn't take in value argument"
    );
    let f = match (*name, pad.len(), rank) {
        ("reflect", 2, 2 | 3) => aten::reflection_pad1d,
        ("reflect", 4, 3 | 4) => aten::reflection_pad2d,
        ("reflect", 6, 4 | 5) => aten::reflection_pad3d,
        ("replicate", 2, 2 | 3) => aten::replication_pad1d,
        ("replicate", 4, 3 | 4) => aten::replication_pad2d,
        ("replicate", 6, 4 | 5) => aten::replication_pad3d,
        ("circular", 2, 2 | 3) | ("circular", 4, 3 | 4) | ("circular", 6, 4 | 5) => {
            aten::_pad_circular
        }
        _ => {
            return Err(Error::new(ErrorKind::NotImplemented(format!(
                "Padding size {} is not supported for {rank}D input tensor: the last 1, 2 or 3 dimensions can be padded, \
                 with one or two dimensions in front of them",
                pad.len()
            ))));
        }
    };
    f(x, pad)
}

pub(crate) fn pad(x: &Tensor, pad: &[i64], mode: &str, value: Option<f64>) -> Result<Tensor> {
    let Some(number) = MODES.iter().position(|m| *m == mode) else {
        return Err(Error::not_implemented(format!("Unrecognised padding mode {mode}")));
    };
    aten::_pad_enum(x, pad, number as i64, value)
}
