//! Spectra over time: windows, `stft` and its inverse.

use crate::error::Result;
use crate::ops::aten;
use crate::tensor::Tensor;
use std::f64::consts::PI;
use straightline_catalog::{DType, Device, Layout, Scalar};

// ---- windows ----------------------------------------------------------------------------------

/// Where a window is made.
#[derive(Clone, Copy)]
struct Place {
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pinned: Option<bool>,
}

/// A window of so many samples. A periodic one is the first part of one that is longer by one.
fn window(
    name: &str,
    length: i64,
    periodic: bool,
    place: Place,
    values: impl FnOnce(Tensor, i64) -> Result<Tensor>,
) -> Result<Tensor> {
    let Place { dtype, layout, device, pinned } = place;
    let dtype = dtype.unwrap_or_else(crate::default_dtype);
    ensure_dtype!(
        dtype.is_floating() || dtype.is_complex(),
        "{name} expects floating point dtypes, got: {dtype}"
    );
    ensure!(length >= 0, "{name} requires non-negative window_length, got window_length={length}");
    let ones = |n| aten::ones(&[n], Some(dtype), layout, device, pinned);
    if length <= 1 {
        return ones(length);
    }
    let all = length + i64::from(periodic);
    let at = aten::arange(Scalar::Int(all), Some(dtype), layout, device, pinned)?;
    let made = values(at, all)?;
    if periodic { aten::narrow(&made, 0, 0, length) } else { Ok(made) }
}

/// `shift + scale * cos(at * step)`
fn cosine(at: &Tensor, step: f64, scale: f64, shift: f64) -> Result<Tensor> {
    let wave = aten::cos(&aten::mul_scalar(at, Scalar::Float(step))?)?;
    let wave = aten::mul_scalar(&wave, Scalar::Float(scale))?;
    aten::add_scalar(&wave, Scalar::Float(shift), Scalar::Int(1))
}

fn hamming(n: i64, periodic: bool, alpha: f64, beta: f64, place: Place) -> Result<Tensor> {
    window("hamming_window", n, periodic, place, |at, all| {
        cosine(&at, 2.0 * PI / (all - 1) as f64, -beta, alpha)
    })
}

fn hann(n: i64, periodic: bool, place: Place) -> Result<Tensor> {
    window("hann_window", n, periodic, place, |at, all| {
        cosine(&at, 2.0 * PI / (all - 1) as f64, -0.5, 0.5)
    })
}

fn blackman(n: i64, periodic: bool, place: Place) -> Result<Tensor> {
    window("blackman_window", n, periodic, place, |at, all| {
        let at = aten::mul_scalar(&at, Scalar::Float(PI / (all - 1) as f64))?;
        let fast = cosine(&at, 4.0, 0.08, 0.0)?;
        super::add(&fast, &cosine(&at, 2.0, -0.5, 0.42)?)
    })
}

fn bartlett(n: i64, periodic: bool, place: Place) -> Result<Tensor> {
    window("bartlett_window", n, periodic, place, |at, all| {
        // up to 1 in the middle, and down again
        let up = aten::mul_scalar(&at, Scalar::Float(2.0 / (all - 1) as f64))?;
        let down = aten::rsub_scalar(&up, Scalar::Float(2.0), Scalar::Int(1))?;
        aten::minimum(&up, &down)
    })
}

fn kaiser(n: i64, periodic: bool, beta: f64, place: Place) -> Result<Tensor> {
    window("kaiser_window", n, periodic, place, |at, all| {
        // I0(beta sqrt(1 - x^2)) / I0(beta), x from -1 to 1
        let x = aten::mul_scalar(&at, Scalar::Float(2.0 / (all - 1) as f64))?;
        let x = aten::sub_scalar(&x, Scalar::Int(1), Scalar::Int(1))?;
        let rest = aten::rsub_scalar(&aten::mul_tensor(&x, &x)?, Scalar::Int(1), Scalar::Int(1))?;
        let rest = aten::clamp(&rest, Some(Scalar::Int(0)), None)?;
        let inner = aten::mul_scalar(&aten::sqrt(&rest)?, Scalar::Float(beta))?;
        let whole = aten::full_like(&x, Scalar::Float(beta), None, None, None, None, None)?;
        aten::div_tensor(&aten::i0(&inner)?, &aten::i0(&whole)?)
    })
}

macro_rules! windows {
    ($($name:ident ($($arg:ident: $ty:ty),*) $of:ident($($given:expr),*);)*) => {$(
        #[allow(clippy::too_many_arguments)]
        pub(crate) fn $name(
            n: i64,
            $($arg: $ty,)*
            dtype: Option<DType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pinned: Option<bool>,
        ) -> Result<Tensor> {
            $of(n, $($given,)* Place { dtype, layout, device, pinned })
        }
    )*};
}

// the numbers are PyTorch's defaults
windows! {
    hann_window() hann(true);
    hann_window_periodic(periodic: bool) hann(periodic);
    hamming_window() hamming(true, 0.54, 0.46);
    hamming_window_periodic(periodic: bool) hamming(periodic, 0.54, 0.46);
    hamming_window_periodic_alpha(periodic: bool, alpha: f64) hamming(periodic, alpha, 0.46);
    hamming_window_periodic_alpha_beta(periodic: bool, alpha: f64, beta: f64) hamming(periodic, alpha, beta);
    blackman_window() blackman(true);
    blackman_window_periodic(periodic: bool) blackman(periodic);
    bartlett_window() bartlett(true);
    bartlett_window_periodic(periodic: bool) bartlett(periodic);
    kaiser_window() kaiser(true, 12.0);
    kaiser_window_periodic(periodic: bool) kaiser(periodic, 12.0);
    kaiser_window_beta(periodic: bool, beta: f64) kaiser(periodic, beta);
}

// ---- transforms over time ---------------------------------------------------------------------

/// The window of a transform as long as the transform: ones where none is given, zeros around it.
fn padded_window(
    window: Option<&Tensor>,
    like: &Tensor,
    length: i64,
    n_fft: i64,
) -> Result<Option<Tensor>> {
    let left = (n_fft - length) / 2;
    let window = match window {
        Some(w) => w.clone(),
        None if length == n_fft => return Ok(None),
        None => {
            let dtype = Some(like.dtype().to_real());
            aten::ones(&[length], dtype, None, Some(like.device()), None)?
        }
    };
    if length == n_fft {
        return Ok(Some(window));
    }
    let padding = [left, n_fft - length - left];
    Ok(Some(aten::constant_pad_nd(&window, &padding, Scalar::Int(0))?))
}

fn norm(normalized: bool) -> i64 {
    i64::from(normalized)
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn stft(
    x: &Tensor,
    n_fft: i64,
    hop: Option<i64>,
    win: Option<i64>,
    window: Option<&Tensor>,
    normalized: bool,
    onesided: Option<bool>,
    return_complex: Option<bool>,
    align: Option<bool>,
) -> Result<Tensor> {
    stft_center(
        x,
        n_fft,
        hop,
        win,
        window,
        false,
        "constant",
        normalized,
        onesided,
        return_complex,
        align,
    )
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn stft_center(
    x: &Tensor,
    n_fft: i64,
    hop: Option<i64>,
    win: Option<i64>,
    window: Option<&Tensor>,
    center: bool,
    pad_mode: &str,
    normalized: bool,
    onesided: Option<bool>,
    return_complex: Option<bool>,
    align: Option<bool>,
) -> Result<Tensor> {
    let hop = hop.unwrap_or(n_fft / 4);
    let win = win.unwrap_or(n_fft);
    ensure!(
        !center || align.is_none(),
        "stft align_to_window should only be set when center = false"
    );
    let complex_window = window.is_some_and(|w| w.dtype().is_complex());
    let complex = x.dtype().is_complex() || complex_window;
    ensure!(
        return_complex.is_some() || complex,
        "stft requires the return_complex parameter be given for real inputs, and will further require \
         that return_complex=True in a future PyTorch release."
    );
    ensure_dtype!(
        x.dtype().is_floating() || x.dtype().is_complex(),
        "stft expected a tensor of floating point or complex values, got {}",
        x.dtype()
    );
    ensure_shape!(
        x.dim() == 1 || x.dim() == 2,
        "stft expected a 1D or 2D tensor, got one with {} dimensions",
        x.dim()
    );
    ensure!(hop > 0, "stft expected hop_length > 0, but got hop_length={hop}");
    ensure!(
        0 < win && win <= n_fft,
        "stft expected 0 < win_length <= n_fft, but got win_length={win} and n_fft={n_fft}"
    );
    if let Some(w) = window {
        ensure_shape!(
            w.sizes() == [win],
            "stft expected a 1D window tensor of size equal to win_length={win}, but got window with \
             size {:?}",
            w.sizes()
        );
    }
    let mut rows = if x.dim() == 1 { aten::unsqueeze(x, 0)? } else { x.clone() };
    if center {
        // padding by reflection wants a dimension of channels
        let around = [n_fft / 2, n_fft / 2];
        rows = aten::squeeze_dim(
            &aten::pad(&aten::unsqueeze(&rows, 0)?, &around, pad_mode, None)?,
            0,
        )?;
    } else if align == Some(true) {
        let around = (n_fft - win) / 2;
        rows = aten::constant_pad_nd(&rows, &[around, n_fft - win - around], Scalar::Int(0))?;
    }
    let length = rows.sizes()[1];
    ensure!(
        0 < n_fft && n_fft <= length,
        "stft expected 0 < n_fft <= {length}, but got n_fft={n_fft}"
    );
    let onesided = onesided.unwrap_or(!complex);
    ensure!(!(onesided && complex), "Cannot have onesided output if window or input is complex");
    let mut frames = aten::unfold(&rows, 1, n_fft, hop)?;
    if let Some(window) = padded_window(window, x, win, n_fft)? {
        frames = aten::mul_tensor(&frames, &window)?;
    }
    let spectra = if complex {
        let dtype = frames.dtype().to_complex();
        let frames = aten::to_dtype(&frames, dtype, false, false, None)?;
        aten::_fft_c2c(&frames, &[2], norm(normalized), true)?
    } else {
        aten::_fft_r2c(&frames, &[2], norm(normalized), onesided)?
    };
    let mut out = aten::transpose_int(&spectra, 1, 2)?;
    if x.dim() == 1 {
        out = aten::squeeze_dim(&out, 0)?;
    }
    if return_complex.unwrap_or(complex) { Ok(out) } else { aten::view_as_real(&out) }
}

/// The sum of overlapping frames.
fn overlapped(frames: &Tensor, sizes: &[i64], hop: i64) -> Result<Tensor> {
    let n = frames.sizes()[2];
    aten::unfold_backward(frames, sizes, 1, n, hop)
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn istft(
    x: &Tensor,
    n_fft: i64,
    hop: Option<i64>,
    win: Option<i64>,
    window: Option<&Tensor>,
    center: bool,
    normalized: bool,
    onesided: Option<bool>,
    length: Option<i64>,
    return_complex: bool,
) -> Result<Tensor> {
    let hop = hop.unwrap_or(n_fft / 4);
    let win = win.unwrap_or(n_fft);
    ensure_dtype!(
        x.dtype().is_complex(),
        "istft requires a complex-valued input tensor matching the output from stft with \
         return_complex=True."
    );
    ensure_shape!(
        x.numel() > 0 && (x.dim() == 2 || x.dim() == 3),
        "istft expected a tensor of two or three dimensions that has elements, but got sizes {:?}",
        x.sizes()
    );
    let rows = if x.dim() == 2 { aten::unsqueeze(x, 0)? } else { x.clone() };
    let (batch, frequencies, frames) = (rows.sizes()[0], rows.sizes()[1], rows.sizes()[2]);
    let onesided = onesided.unwrap_or(frequencies != n_fft);
    let expected = if onesided { n_fft / 2 + 1 } else { n_fft };
    ensure_shape!(
        frequencies == expected,
        "istft expected the frequency dimension (3rd to the last) of the input tensor to match {} when \
         onesided={onesided}, {expected}, but got {frequencies}",
        if onesided { "n_fft / 2 + 1" } else { "n_fft" }
    );
    ensure!(
        0 < hop && hop <= win,
        "istft expected 0 < hop_length <= win_length, got hop_length={hop} and win_length={win}"
    );
    ensure!(
        0 < win && win <= n_fft,
        "istft expected 0 < win_length <= n_fft, got win_length={win} and n_fft={n_fft}"
    );
    if let Some(w) = window {
        ensure_shape!(
            w.sizes() == [win],
            "Invalid window shape. window has to be 1D and length of `win_length`"
        );
        ensure!(
            return_complex || !w.dtype().is_complex(),
            "Complex windows are incompatible with return_complex=False"
        );
    }
    let window = match padded_window(window, x, win, n_fft)? {
        Some(window) => window,
        None => aten::ones(&[n_fft], Some(x.dtype().to_real()), None, Some(x.device()), None)?,
    };
    let spectra = aten::transpose_int(&rows, 1, 2)?;
    let mode = if normalized { 1 } else { 2 };
    let pieces = if return_complex {
        ensure!(!onesided, "Cannot have onesided output if window or input is complex");
        aten::_fft_c2c(&spectra, &[2], mode, false)?
    } else {
        let half = aten::narrow(&spectra, 2, 0, n_fft / 2 + 1)?;
        aten::_fft_c2r(&half, &[2], mode, n_fft)?
    };
    let all = n_fft + hop * (frames - 1);
    let signal = overlapped(&aten::mul_tensor(&pieces, &window)?, &[batch, all], hop)?;
    let squares = aten::mul_tensor(&window, &window)?;
    let squares = aten::expand(&aten::reshape(&squares, &[1, 1, -1])?, &[1, frames, n_fft], false)?;
    let envelope = overlapped(&squares, &[1, all], hop)?;
    let start = if center { n_fft / 2 } else { 0 };
    let end = match length {
        Some(length) => (start + length).min(all),
        None if center => all - n_fft / 2,
        None => all,
    };
    let signal = super::part(&signal, 1, start, Some(end))?;
    let envelope = super::part(&envelope, 1, start, Some(end))?;
    let covered = aten::gt_scalar(&aten::abs(&envelope)?, Scalar::Float(1e-11))?;
    aten::_assert_async_msg(
        &aten::all(&covered)?,
        "istft: windows that overlap leave samples that none of them reaches (window overlap add min is 0)",
    )?;
    let mut out = aten::div_tensor(&signal, &envelope)?;
    if x.dim() == 2 {
        out = aten::squeeze_dim(&out, 0)?;
    }
    // longer than the frames reach: zeros
    let missing = length.map_or(0, |length| length - (end - start));
    if missing > 0 { aten::constant_pad_nd(&out, &[0, missing], Scalar::Int(0)) } else { Ok(out) }
}

/// The frequencies of a transform's results, in cycles for each unit of the distance `d`.
pub(crate) fn fftfreq(
    n: i64,
    d: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pinned: Option<bool>,
) -> Result<Tensor> {
    let dtype = Some(dtype.unwrap_or_else(crate::default_dtype));
    let range = |from, to| {
        aten::arange_start(Scalar::Int(from), Scalar::Int(to), dtype, layout, device, pinned)
    };
    ensure!(n >= 0, "fftfreq expects a number of samples, and this is {n}");
    let both = aten::cat(&[range(0, (n + 1) / 2)?, range(-(n / 2), 0)?], 0)?;
    aten::mul_scalar(&both, Scalar::Float(1.0 / (n as f64 * d)))
}

/// [`fftfreq`] of the half that transforms of real numbers give.
pub(crate) fn rfftfreq(
    n: i64,
    d: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pinned: Option<bool>,
) -> Result<Tensor> {
    let dtype = Some(dtype.unwrap_or_else(crate::default_dtype));
    ensure!(n >= 0, "rfftfreq expects a number of samples, and this is {n}");
    let half = aten::arange(Scalar::Int(n / 2 + 1), dtype, layout, device, pinned)?;
    aten::mul_scalar(&half, Scalar::Float(1.0 / (n as f64 * d)))
}
