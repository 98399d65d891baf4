//! Histograms of one and of several dimensions, and reductions of segments.

use crate::error::{Error, Result};
use crate::ops::aten;
use crate::ops::copy;
use crate::ops::create::like;
use crate::ops::pointwise::special::unsupported;
use crate::ops::reduce;
use crate::ops::view;
use crate::tensor::Tensor;
use crate::tensor::launch;
use straightline_catalog::{DType, Dims, Scalar, layout};
use straightline_runtime::cpu::kernels::bins::{self as kernels, Segment};

fn refuse<T>(text: impl std::fmt::Display) -> Result<T> {
    Err(Error::runtime(format!("torch.histogramdd: {text}")))
}

/// Fresh row-major memory in `f64`.
fn wide(t: &Tensor) -> Result<Tensor> {
    copy::clone_contiguous(&copy::to_dtype(t, DType::F64)?)
}

/// Points as rows, checked with their weights.
fn points(x: &Tensor, weight: Option<&Tensor>, dims: usize) -> Result<Tensor> {
    let Some((&last, lead)) = x.sizes().split_last().filter(|(_, lead)| !lead.is_empty()) else {
        return refuse("input tensor should have at least 2 dimensions");
    };
    if dims as i64 != last {
        return refuse(format!(
            "expected {last} sequences of bin edges for a {last}-dimensional histogram but got {dims}"
        ));
    }
    if let Some(w) = weight {
        if w.dtype() != x.dtype() {
            return refuse(format!(
                "if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got input({}), and weight({})",
                x.dtype().torch_name(),
                w.dtype().torch_name()
            ));
        }
        if w.sizes() != lead {
            return refuse(format!(
                "if weight tensor is provided it should have the same shape as the input tensor excluding its innermost dimension, but got input with shape {:?} and weight with shape {:?}",
                x.sizes(),
                w.sizes()
            ));
        }
    }
    let rows: i64 = lead.iter().product();
    view::reshape_own(x, &[rows, last])
}

/// The first and the last edge of each dimension.
fn outer_edges(x: &Tensor, range: Option<&[f64]>) -> Result<Vec<(f64, f64)>> {
    let dims = x.sizes()[1] as usize;
    let mut out = Vec::with_capacity(dims);
    if let Some(range) = range {
        if range.len() != 2 * dims {
            return refuse(format!(
                "for a {dims}-dimensional histogram range should have {} elements, but got {}",
                2 * dims,
                range.len()
            ));
        }
        out.extend(range.chunks_exact(2).map(|r| (r[0], r[1])));
    } else if x.numel() == 0 || !x.storage().has_data() {
        out.resize(dims, (0.0, 1.0));
    } else {
        for d in 0..dims {
            let column = view::select(x, 1, d as i64)?;
            let of = |t: Tensor| Ok::<f64, Error>(wide(&t)?.to_vec::<f64>()?[0]);
            out.push((of(reduce::min(&column)?)?, of(reduce::max(&column)?)?));
        }
    }
    for (d, (low, high)) in out.iter_mut().enumerate() {
        if !(low.is_finite() && high.is_finite()) {
            return refuse(format!("dimension {d}'s range [{low}, {high}] is not finite"));
        }
        if *low > *high {
            return refuse("min should not exceed max");
        }
        // a range of one point is made one wide
        if *low == *high {
            (*low, *high) = (*low - 0.5, *high + 0.5);
        }
    }
    Ok(out)
}

fn linear_edges(x: &Tensor, counts: &[i64], range: Option<&[f64]>) -> Result<Vec<Tensor>> {
    if let Some(bad) = counts.iter().find(|n| **n < 1) {
        return refuse(format!("bins must be > 0, but got {bad}"));
    }
    let (dtype, device) = (Some(x.dtype()), Some(x.device()));
    (outer_edges(x, range)?.into_iter().zip(counts))
        .map(|((low, high), n)| {
            let (low, high) = (Scalar::Float(low), Scalar::Float(high));
            like::linspace(low, high, n.saturating_add(1), dtype, None, device, None)
        })
        .collect()
}

fn check_edges(x: &Tensor, edges: &[Tensor]) -> Result<()> {
    for e in edges {
        if e.dtype() != x.dtype() {
            return refuse(format!(
                "input tensor and bins tensors should have the same dtype, but got input with dtype {} and bins with dtype {}",
                x.dtype().torch_name(),
                e.dtype().torch_name()
            ));
        }
        if e.dim() != 1 {
            return refuse(format!(
                "bins tensor should have one dimension, but got {} dimensions in the bins tensor",
                e.dim()
            ));
        }
        if e.numel() == 0 {
            return refuse("bins tensor should have at least one element, but got 0 elements");
        }
    }
    Ok(())
}

/// What lies between the edges; divided by sum and volumes where `density`.
fn counted(x: &Tensor, edges: &[Tensor], weight: Option<&Tensor>, density: bool) -> Result<Tensor> {
    let sizes: Dims = edges.iter().map(|e| e.numel() - 1).collect();
    if !x.dtype().is_floating() {
        return Err(unsupported("histogramdd", x.dtype()));
    }
    crate::ops::common::check_sizes(&sizes)?;
    let mut out = Tensor::allocate_contiguous(DType::F64, x.device(), &sizes)?;
    copy::fill_(&out, Scalar::Int(0))?;
    if out.storage().has_data() && x.numel() > 0 {
        let x = wide(x)?;
        let weight = weight.map(wide).transpose()?;
        let edges: Vec<Vec<f64>> =
            edges.iter().map(|e| wide(e)?.to_vec::<f64>()).collect::<Result<_>>()?;
        let bounds: Vec<&[f64]> = edges.iter().map(Vec::as_slice).collect();
        launch::run(&mut out, (&x, weight.as_ref()), |bins, (x, weight)| {
            let (x, bins) = (x.slice::<f64>()?, bins.slice::<f64>()?);
            let weight = weight.map(|w| w.slice::<f64>()).transpose()?;
            kernels::histogram(x, &bounds, weight, bins);
            if density {
                let sum: f64 = bins.iter().sum();
                let strides = layout::contiguous_strides(&sizes);
                for (i, bin) in bins.iter_mut().enumerate() {
                    let volume = edges.iter().enumerate().fold(1.0, |v, (d, e)| {
                        let at = (i as i64 / strides[d] % sizes[d]) as usize;
                        v * (e[at + 1] - e[at])
                    });
                    *bin /= sum * volume;
                }
            }
            Ok(())
        })?;
    }
    Ok(out)
}

pub(crate) fn bin_edges(
    x: &Tensor,
    counts: &[i64],
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    _density: bool,
) -> Result<Vec<Tensor>> {
    linear_edges(&points(x, weight, counts.len())?, counts, range)
}

pub(crate) fn from_counts(
    x: &Tensor,
    counts: &[i64],
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<Tensor> {
    let p = points(x, weight, counts.len())?;
    let edges = linear_edges(&p, counts, range)?;
    copy::to_dtype(&counted(&p, &edges, weight, density)?, x.dtype())
}

pub(crate) fn from_edges(
    x: &Tensor,
    edges: &[Tensor],
    weight: Option<&Tensor>,
    density: bool,
) -> Result<Tensor> {
    let p = points(x, weight, edges.len())?;
    check_edges(x, edges)?;
    copy::to_dtype(&counted(&p, edges, weight, density)?, x.dtype())
}

/// Every element as a point, and its weight.
fn line(x: &Tensor, weight: Option<&Tensor>) -> Result<(Tensor, Option<Tensor>)> {
    let n = x.numel();
    let weight = match weight {
        Some(w) if w.sizes() != x.sizes() => {
            return Err(Error::runtime(format!(
                "torch.histogram: if weight tensor is provided it should have the same shape as the input tensor, but got input with shape {:?} and weight with shape {:?}",
                x.sizes(),
                w.sizes()
            )));
        }
        Some(w) => Some(view::reshape_own(w, &[n])?),
        None => None,
    };
    Ok((view::reshape_own(x, &[n, 1])?, weight))
}

pub(crate) fn histogram_counts(
    x: &Tensor,
    count: i64,
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    let (p, weight) = line(x, weight)?;
    let p = points(&p, weight.as_ref(), 1)?;
    let edges = linear_edges(&p, &[count], range)?;
    let hist = copy::to_dtype(&counted(&p, &edges, weight.as_ref(), density)?, x.dtype())?;
    match edges.into_iter().next() {
        Some(edges) => Ok((hist, edges)),
        None => refuse("no dimension to count along"),
    }
}

pub(crate) fn histogram_edges(
    x: &Tensor,
    edges: &Tensor,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    let (p, weight) = line(x, weight)?;
    let hist = from_edges(&p, std::slice::from_ref(edges), weight.as_ref(), density)?;
    Ok((hist, copy::clone_contiguous(edges)?))
}

pub(crate) fn histogramdd(
    x: &Tensor,
    counts: &[i64],
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Vec<Tensor>)> {
    let hist = aten::_histogramdd_from_bin_cts(x, counts, range, weight, density)?;
    let edges = aten::_histogramdd_bin_edges(x, counts, range, weight, density)?;
    Ok((hist, edges))
}

pub(crate) fn histogramdd_int(
    x: &Tensor,
    count: i64,
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Vec<Tensor>)> {
    let dims = x.sizes().last().copied().unwrap_or(0).max(0) as usize;
    histogramdd(x, &vec![count; dims], range, weight, density)
}

pub(crate) fn histogramdd_edges(
    x: &Tensor,
    edges: &[Tensor],
    _range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Vec<Tensor>)> {
    let hist = aten::_histogramdd_from_bin_tensors(x, edges, weight, density)?;
    Ok((hist, edges.to_vec()))
}

// ---- segments ---------------------------------------------------------------------------------

/// Segments of a dimension, each made one element; their lengths are given, or where each begins
/// and the last ends.
#[allow(clippy::too_many_arguments)]
pub(crate) fn segment_reduce(
    x: &Tensor,
    how: &str,
    lengths: Option<&Tensor>,
    indices: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: i64,
    unchecked: bool,
    initial: Option<Scalar>,
) -> Result<Tensor> {
    let failed = |text: String| Error::runtime(format!("segment_reduce(): {text}"));
    let refuse = |text: String| Err(failed(text));
    let axis = crate::ops::common::wrap_dim(axis, x.dim())?;
    if indices.is_some() {
        return refuse("indices based reduction is not supported yet.".into());
    }
    let (bounds, are_offsets) = match (offsets, lengths) {
        (Some(t), _) => (t, true),
        (None, Some(t)) => (t, false),
        (None, None) => return refuse("Either lengths or offsets must be defined.".into()),
    };
    let how = match how {
        "max" => Segment::Max,
        "mean" => Segment::Mean,
        "min" => Segment::Min,
        "sum" => Segment::Sum,
        "prod" => Segment::Prod,
        _ => return refuse(format!("`{how}` is none of max, mean, min, sum, prod")),
    };
    if !x.dtype().is_floating() {
        return Err(unsupported("_segment_reduce", x.dtype()));
    }
    if !matches!(bounds.dtype(), DType::I64 | DType::I32) {
        return Err(unsupported("_segment_reduce", bounds.dtype()));
    }
    if bounds.dim() != axis + 1
        || x.dim() < bounds.dim()
        || bounds.sizes()[..axis] != x.sizes()[..axis]
    {
        return refuse(format!(
            "Expected lengths or offsets of {} dimensions and sizes {:?} but for the last, got {:?}",
            axis + 1,
            &x.sizes()[..axis],
            bounds.sizes()
        ));
    }
    let given = bounds.sizes()[axis];
    let segments = if are_offsets { given - 1 } else { given };
    if segments < 0 {
        return refuse("Expected at least one offset".into());
    }
    let sizes = [&x.sizes()[..axis], &[segments], &x.sizes()[axis + 1..]].concat();
    let mut out = Tensor::allocate_contiguous(DType::F64, x.device(), &sizes)?;
    if out.storage().has_data() {
        let rows = x.sizes()[axis] as usize;
        let inner = x.sizes()[axis + 1..].iter().product::<i64>() as usize;
        let bounds = copy::to_dtype(bounds, DType::I64)?.to_vec::<i64>()?;
        let x = wide(x)?;
        launch::run(&mut out, &x, |out, x| {
            let (x, out) = (x.slice::<f64>()?, out.slice::<f64>()?);
            let (segments, initial) = (segments as usize, initial.map(Scalar::as_f64));
            for (o, bounds) in bounds.chunks_exact((given as usize).max(1)).enumerate() {
                let x = &x[o * rows * inner..(o + 1) * rows * inner];
                let mut ends: Vec<i64> = bounds.to_vec();
                if !are_offsets {
                    ends.insert(0, 0);
                    for i in 1..ends.len() {
                        ends[i] = ends[i].saturating_add(ends[i - 1]);
                    }
                    if !unchecked
                        && (bounds.iter().any(|n| *n < 0) || ends.last() != Some(&(rows as i64)))
                    {
                        return Err(failed("Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.".into()));
                    }
                }
                for (s, ends) in ends.windows(2).enumerate() {
                    let (Ok(from), Ok(to)) = (usize::try_from(ends[0]), usize::try_from(ends[1]))
                    else {
                        return Err(failed("a segment begins before the first element".into()));
                    };
                    if from > to || to > rows {
                        return Err(failed(format!(
                            "the segment {from}..{to} is not within 0..{rows}"
                        )));
                    }
                    let at = (o * segments + s) * inner;
                    kernels::segment(
                        &x[from * inner..to * inner],
                        inner,
                        how,
                        initial,
                        &mut out[at..at + inner],
                    );
                }
            }
            Ok(())
        })?;
    }
    copy::to_dtype(&out, x.dtype())
}
