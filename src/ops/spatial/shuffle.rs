//! Shuffles of pixels and channels: views, a permutation, and a copy.

use super::check;
use super::layout::Format;
use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use straightline_catalog::MemoryFormat;

/// A fresh tensor in the memory format of `like`.
fn fresh(x: &Tensor, like: &Tensor) -> Result<Tensor> {
    let format = match (Format::of(like), x.dim()) {
        (Format::ChannelsLast, 4) => MemoryFormat::ChannelsLast,
        (Format::ChannelsLast, 5) => MemoryFormat::ChannelsLast3d,
        _ => MemoryFormat::Contiguous,
    };
    aten::clone(x, Some(format))
}

fn check_factor(what: &str, x: &Tensor, factor: i64) -> Result<()> {
    check!(
        x.dim() >= 3,
        "{what} expects input to have at least 3 dimensions, but got input with {} dimension(s)",
        x.dim()
    );
    check!(
        factor > 0 && factor.checked_mul(factor).is_some(),
        "{what} expects a positive factor, but got {factor}"
    );
    Ok(())
}

pub(crate) fn pixel_shuffle(x: &Tensor, factor: i64) -> Result<Tensor> {
    check_factor("pixel_shuffle", x, factor)?;
    let lead = x.dim() - 3;
    let (c, h, w) = (x.sizes()[lead], x.sizes()[lead + 1], x.sizes()[lead + 2]);
    check!(
        c % (factor * factor) == 0,
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)={c} is not divisible by {}",
        factor * factor
    );
    let c = c / (factor * factor);
    let mut split = x.sizes()[..lead].to_vec();
    let mut joined = split.clone();
    split.extend([c, factor, factor, h, w]);
    joined.extend([c, h * factor, w * factor]);
    let n = lead as i64;
    let mut order: Vec<i64> = (0..n).collect();
    order.extend([n, n + 3, n + 1, n + 4, n + 2]);
    let moved = aten::permute(&aten::reshape(x, &split)?, &order)?;
    let moved = aten::clone(&moved, Some(MemoryFormat::Contiguous))?;
    laid_out(aten::view(&moved, &joined)?, x)
}

pub(crate) fn pixel_unshuffle(x: &Tensor, factor: i64) -> Result<Tensor> {
    check_factor("pixel_unshuffle", x, factor)?;
    let lead = x.dim() - 3;
    let (c, h, w) = (x.sizes()[lead], x.sizes()[lead + 1], x.sizes()[lead + 2]);
    check!(
        h % factor == 0 && w % factor == 0,
        "pixel_unshuffle expects height and width to be divisible by downscale_factor, but input.size(-2)={h} and input.size(-1)={w} are not divisible by {factor}"
    );
    let mut split = x.sizes()[..lead].to_vec();
    let mut joined = split.clone();
    split.extend([c, h / factor, factor, w / factor, factor]);
    joined.extend([c * factor * factor, h / factor, w / factor]);
    let n = lead as i64;
    let mut order: Vec<i64> = (0..n).collect();
    order.extend([n, n + 2, n + 4, n + 1, n + 3]);
    let moved = aten::permute(&aten::reshape(x, &split)?, &order)?;
    let moved = aten::clone(&moved, Some(MemoryFormat::Contiguous))?;
    laid_out(aten::view(&moved, &joined)?, x)
}

/// A fresh row-major tensor, in the memory format of `like`.
fn laid_out(x: Tensor, like: &Tensor) -> Result<Tensor> {
    match Format::of(like) {
        Format::ChannelsLast => fresh(&x, like),
        Format::Contiguous => Ok(x),
    }
}

pub(crate) fn channel_shuffle(x: &Tensor, groups: i64) -> Result<Tensor> {
    check!(
        x.dim() > 2,
        "channel_shuffle expects input with > 2 dims, but got input with sizes {:?}",
        x.sizes()
    );
    let c = x.sizes()[1];
    check!(
        groups > 0,
        "Number of groups to divide channels in must be positive. Value of groups:{groups}"
    );
    check!(
        c % groups == 0,
        "Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
    );
    let mut split = vec![x.sizes()[0], groups, c / groups];
    split.extend_from_slice(&x.sizes()[2..]);
    let moved = aten::transpose_int(&aten::reshape(x, &split)?, 1, 2)?;
    let moved = aten::clone(&moved, Some(MemoryFormat::Contiguous))?;
    laid_out(aten::view(&moved, x.sizes())?, x)
}
