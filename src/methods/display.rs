//! Printing tensors as PyTorch prints them.
//!
//! Four digits of precision, a common width, scientific notation where the range calls for it,
//! `...` beyond 1000 elements with three items kept at each edge, 80 columns. The rules are those
//! of `torch._tensor_str` with its default print options.

use crate::tensor::Tensor;
use crate::tensor::watcher;
use num_complex::Complex;
use std::fmt;
use straightline_catalog::{DType, Scalar, default_dtype};

const PRECISION: usize = 4;
const THRESHOLD: i64 = 1000;
const EDGE_ITEMS: i64 = 3;
pub(super) const LINE_WIDTH: usize = 80;

/// How each element is written.
struct Format {
    floating: bool,
    integral_values: bool,
    scientific: bool,
    width: usize,
    /// Of complex numbers: how the imaginary part is written.
    imaginary: Option<Box<Format>>,
}

impl Format {
    fn new(values: &[Scalar], floating: bool) -> Format {
        let mut format = Format {
            floating,
            integral_values: true,
            scientific: false,
            width: 1,
            imaginary: None,
        };
        if values.iter().any(|v| v.is_complex()) {
            let part = |f: fn((f64, f64)) -> f64| {
                let of: Vec<Scalar> = values.iter().map(|v| f(v.as_complex()).into()).collect();
                Format::new(&of, true)
            };
            format = part(|x| x.0);
            format.imaginary = Some(Box::new(part(|x| x.1)));
            return format;
        }
        if !floating {
            format.fit(values);
            return format;
        }
        // infinities, NaN and zeros have no say in the width
        let finite: Vec<Scalar> = values
            .iter()
            .copied()
            .filter(|v| v.as_f64().is_finite() && v.as_f64() != 0.0)
            .collect();
        if finite.is_empty() {
            return format;
        }
        let sizes = || finite.iter().map(|v| v.as_f64().abs());
        let max = sizes().fold(0.0, f64::max);
        let min = sizes().fold(f64::INFINITY, f64::min);
        format.integral_values = sizes().all(|v| v.ceil() == v);
        format.scientific = if format.integral_values {
            max / min > 1000.0 || max > 1e8
        } else {
            max / min > 1000.0 || max > 1e8 || min < 1e-4
        };
        format.fit(&finite);
        format
    }

    fn fit(&mut self, values: &[Scalar]) {
        self.width = values.iter().map(|v| self.text(*v).len()).max().unwrap_or(1);
    }

    fn text(&self, v: Scalar) -> String {
        match v {
            Scalar::Bool(b) => if b { "True" } else { "False" }.into(),
            Scalar::Int(i) if !self.floating => i.to_string(),
            Scalar::Complex(re, im) => {
                let re = self.text(Scalar::Float(re));
                let im = match &self.imaginary {
                    Some(format) => format.text(Scalar::Float(im)),
                    None => im.to_string(),
                };
                let sign = if im.starts_with('-') { "" } else { "+" };
                format!("{re:>width$}{sign}{im}j", width = self.width)
            }
            v => {
                let x = v.as_f64();
                if x.is_nan() {
                    "nan".into()
                } else if x.is_infinite() {
                    if x > 0.0 { "inf" } else { "-inf" }.into()
                } else if self.scientific {
                    scientific(x)
                } else if self.integral_values {
                    format!("{x:.0}.")
                } else {
                    format!("{x:.PRECISION$}")
                }
            }
        }
    }
}

/// C's `%.4e`: at least two exponent digits, with a sign.
fn scientific(x: f64) -> String {
    let s = format!("{x:.PRECISION$e}");
    let (mantissa, exponent) = s.split_once('e').unwrap_or((&s, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(d) => ('-', d),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// The positions of a dimension that are printed; `None` is the ellipsis.
fn shown(size: i64, summarize: bool) -> Vec<Option<i64>> {
    if summarize && size > 2 * EDGE_ITEMS {
        (0..EDGE_ITEMS).map(Some).chain([None]).chain((size - EDGE_ITEMS..size).map(Some)).collect()
    } else {
        (0..size).map(Some).collect()
    }
}

struct Printer<'a> {
    sizes: &'a [i64],
    values: &'a [Scalar],
    format: Format,
    summarize: bool,
}

impl Printer<'_> {
    fn write(&self, out: &mut String, dim: usize, base: i64, indent: usize) {
        if dim == self.sizes.len() {
            out.push_str(&self.format.text(self.values[base as usize]));
            return;
        }
        if dim + 1 == self.sizes.len() {
            return self.write_row(out, base, indent);
        }
        let step: i64 = self.sizes[dim + 1..].iter().product();
        out.push('[');
        for (n, i) in shown(self.sizes[dim], self.summarize).iter().enumerate() {
            if n > 0 {
                out.push(',');
                out.push_str(&"\n".repeat(self.sizes.len() - dim - 1));
                out.push_str(&" ".repeat(indent + 1));
            }
            match i {
                Some(i) => self.write(out, dim + 1, base + i * step, indent + 1),
                None => out.push_str("..."),
            }
        }
        out.push(']');
    }

    fn write_row(&self, out: &mut String, base: i64, indent: usize) {
        let width = self.format.width;
        let imaginary = (self.format.imaginary.as_ref()).map_or(0, |f| f.width + 1);
        let per_line = ((LINE_WIDTH.saturating_sub(indent)) / (width + imaginary + 2)).max(1);
        out.push('[');
        let last = self.sizes[self.sizes.len() - 1];
        for (n, i) in shown(last, self.summarize).iter().enumerate() {
            if n > 0 {
                out.push(',');
                if n % per_line == 0 {
                    out.push('\n');
                    out.push_str(&" ".repeat(indent + 1));
                } else {
                    out.push(' ');
                }
            }
            match i {
                Some(i) => {
                    let text = self.format.text(self.values[(base + i) as usize]);
                    out.push_str(&" ".repeat(width.saturating_sub(text.len())));
                    out.push_str(&text);
                }
                None => out.push_str(" ..."),
            }
        }
        out.push(']');
    }
}

impl Tensor {
    /// Every element in row-major order, whatever the dtype.
    #[track_caller]
    pub(crate) fn to_scalars(&self) -> crate::Result<Vec<Scalar>> {
        fn wrap<T: crate::tensor::Element>(
            t: &Tensor,
            f: impl Fn(T) -> Scalar,
        ) -> crate::Result<Vec<Scalar>> {
            Ok(t.to_vec::<T>()?.into_iter().map(f).collect())
        }
        match self.dtype() {
            DType::F32 => wrap(self, |x: f32| Scalar::Float(f64::from(x))),
            DType::F64 => wrap(self, Scalar::Float),
            DType::F16 => wrap(self, |x: half::f16| Scalar::Float(x.to_f64())),
            DType::BF16 => wrap(self, |x: half::bf16| Scalar::Float(x.to_f64())),
            DType::I64 => wrap(self, Scalar::Int),
            DType::I32 | DType::QInt32 => wrap(self, |x: i32| Scalar::Int(i64::from(x))),
            DType::I16 => wrap(self, |x: i16| Scalar::Int(i64::from(x))),
            DType::I8 | DType::QInt8 => wrap(self, |x: i8| Scalar::Int(i64::from(x))),
            DType::U8 | DType::QUInt8 => wrap(self, |x: u8| Scalar::Int(i64::from(x))),
            DType::Bool => wrap(self, Scalar::Bool),
            DType::C64 => wrap(self, |x: Complex<f32>| x.into()),
            DType::C128 => wrap(self, |x: Complex<f64>| x.into()),
        }
    }

    fn suffix(&self, has_data: bool) -> String {
        let mut s = String::new();
        if !self.device().is_cpu() || self.is_fake() {
            s += &format!(", device='{}'", self.device());
        }
        if !has_data || self.numel() == 0 {
            s += &format!(", size=({})", list(self.sizes()));
        }
        if !goes_without_saying(self.dtype()) || self.numel() == 0 {
            s += &format!(", dtype=torch.{}", self.dtype().torch_name());
        }
        if self.requires_grad() {
            s += ", requires_grad=True";
        }
        s
    }
}

/// Sizes as the inside of a Python tuple.
pub(super) fn list(sizes: &[i64]) -> String {
    let items: Vec<String> = sizes.iter().map(i64::to_string).collect();
    match &items[..] {
        [one] => format!("{one},"),
        _ => items.join(", "),
    }
}

/// The elements of a plain tensor, in lines that begin at a column.
pub(super) fn body(t: &Tensor, indent: usize) -> crate::Result<String> {
    if t.numel() == 0 {
        return Ok("[]".to_string());
    }
    let values = t.to_scalars()?;
    let summarize = t.numel() > THRESHOLD;
    let visible = if summarize { visible_values(t.sizes(), &values) } else { values.clone() };
    let printer = Printer {
        sizes: t.sizes(),
        values: &values,
        format: Format::new(&visible, t.dtype().is_floating()),
        summarize,
    };
    let mut text = String::new();
    printer.write(&mut text, 0, 0, indent);
    Ok(text)
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if watcher::check_read(self, "printing a tensor", None).is_err() {
            // the error waits for the end of the capture: printing must not fail
            return write!(f, "tensor(...{})", self.suffix(false));
        }
        if self.is_fake() {
            return write!(f, "FakeTensor(...{})", self.suffix(false));
        }
        let elsewhere = !self.device().is_cpu() && !self.device().is_meta();
        if self.has_math_bits() && self.device().is_cpu() {
            return match self.resolved() {
                Ok(values) => values.fmt(f),
                Err(e) => write!(f, "tensor(<{e}>)"),
            };
        }
        if !self.storage().has_data()
            && let Some(text) = self.text_of_kind()
        {
            return f.write_str(&text);
        }
        if self.numel() == 0 && (elsewhere || self.storage().has_data()) {
            return write!(f, "tensor([]{})", self.suffix(true));
        }
        // what another device holds is read through a copy
        if !elsewhere && !self.storage().has_data() {
            return write!(f, "tensor(...{})", self.suffix(false));
        }
        match body(self, "tensor(".len()) {
            Ok(text) => write!(f, "tensor({text}{})", self.suffix(true)),
            Err(e) => {
                let why = e.to_string();
                let why = why.lines().next().unwrap_or_default();
                write!(f, "tensor(<{why}>{})", self.suffix(false))
            }
        }
    }
}

fn visible_values(sizes: &[i64], values: &[Scalar]) -> Vec<Scalar> {
    let mut at: Vec<i64> = vec![0];
    for &size in sizes {
        let keep = shown(size, true);
        at = at
            .iter()
            .flat_map(|base| keep.iter().flatten().map(move |i| base * size + i))
            .collect();
    }
    at.into_iter().map(|i| values[i as usize]).collect()
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Tensor({}{:?}, strides {:?}, {})",
            self.dtype(),
            self.sizes(),
            self.strides(),
            self.device()
        )
    }
}

/// Whether a tensor of this dtype is printed without it, since literals make such tensors.
pub(super) fn goes_without_saying(dtype: DType) -> bool {
    let default = default_dtype();
    [default, default.to_complex(), DType::I64, DType::Bool].contains(&dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected texts are what PyTorch 2.x prints for the same values.
    #[test]
    fn prints_as_pytorch() {
        let t = |v: &[f32], s: &[i64]| Tensor::from_slice(v, s).unwrap().to_string();
        assert_eq!(t(&[1.0, 2.0, 3.0], &[3]), "tensor([1., 2., 3.])");
        assert_eq!(t(&[1.5, -2.0], &[2]), "tensor([ 1.5000, -2.0000])");
        assert_eq!(t(&[3.0], &[]), "tensor(3.)");
        assert_eq!(t(&[1.0, 2.0, 3.0, 4.0], &[2, 2]), "tensor([[1., 2.],\n        [3., 4.]])");
        assert_eq!(t(&[1e-5, 1.0], &[2]), "tensor([1.0000e-05, 1.0000e+00])");
        assert_eq!(t(&[f32::NAN, f32::INFINITY, 1.0], &[3]), "tensor([nan, inf, 1.])");
        assert_eq!(t(&[], &[0]), "tensor([], size=(0,), dtype=torch.float32)");
        let i = Tensor::from_slice(&[1i32, 200], &[2]).unwrap();
        assert_eq!(i.to_string(), "tensor([  1, 200], dtype=torch.int32)");
        let b = Tensor::from_slice(&[true, false], &[2]).unwrap();
        assert_eq!(b.to_string(), "tensor([ True, False])");
    }

    #[test]
    fn prints_complex_numbers_as_pytorch() {
        let t = |v: &[(f32, f32)], s: &[i64]| {
            let v: Vec<Complex<f32>> = v.iter().map(|x| Complex::new(x.0, x.1)).collect();
            Tensor::from_slice(&v, s).unwrap().to_string()
        };
        assert_eq!(
            t(&[(1.0, 2.0), (-3.5, -0.25)], &[2]),
            "tensor([ 1.0000+2.0000j, -3.5000-0.2500j])"
        );
        assert_eq!(t(&[(1.0, -0.0)], &[]), "tensor(1.-0.j)");
        assert_eq!(
            t(&[(1.0, f32::NAN), (1e6, 10.0)], &[2, 1]),
            "tensor([[1.0000e+00+nanj],\n        [1.0000e+06+10.j]])"
        );
    }

    #[test]
    fn summarizes_long_tensors() {
        let v: Vec<f32> = (0..2000).map(|x| x as f32).collect();
        let s = Tensor::from_slice(&v, &[2000]).unwrap().to_string();
        assert_eq!(
            s,
            "tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n        1.9990e+03])"
        );
    }
}
