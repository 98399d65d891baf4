//! Inputs and results as lines of text.

use straightline::program::Leaf;
use straightline::{Result, Scalar, Tensor};

/// How many elements are shown.
const SHOWN: i64 = 6;

/// `x: f32[2, 8]  0.25 -1 0.5 ...`.
pub(crate) fn line(name: &str, leaf: &Leaf) -> Result<String> {
    match leaf {
        Leaf::Tensor(t) => Ok(format!("{name}: {}  {}", kind(t), beginning(t)?)),
        constant => Ok(format!("{name}: {constant}")),
    }
}

/// `f32[2, 8]`.
pub(super) fn kind(t: &Tensor) -> String {
    format!("{}{:?}", t.dtype(), t.sizes())
}

/// The first elements.
fn beginning(t: &Tensor) -> Result<String> {
    if t.numel() == 0 {
        return Ok("no elements".to_owned());
    }
    let first = t.detach()?.reshape(&[-1])?.narrow(0, 0, t.numel().min(SHOWN))?;
    let each = (0..first.numel()).map(|i| Ok(number(first.narrow(0, i, 1)?.item::<Scalar>()?)));
    let mut text = each.collect::<Result<Vec<String>>>()?.join(" ");
    if t.numel() > SHOWN {
        text.push_str(" ...");
    }
    Ok(text)
}

/// A number in few digits.
fn number(n: Scalar) -> String {
    match n {
        Scalar::Float(x) if x == 0.0 || !x.is_finite() => n.to_string(),
        Scalar::Float(x) if (1e-3..1e6).contains(&x.abs()) => {
            let digits = (3 - x.abs().log10().floor() as i64).clamp(0, 6) as usize;
            format!("{x:.digits$}")
        }
        Scalar::Float(x) => format!("{x:.3e}"),
        Scalar::Complex(re, im) => {
            let sign = if im.is_sign_negative() { "" } else { "+" };
            let [re, im] = [re, im].map(|part| number(Scalar::Float(part)));
            format!("{re}{sign}{im}j")
        }
        other => other.to_string(),
    }
}

/// `3 weights`.
pub(crate) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// `1.5 MB`.
pub(crate) fn bytes(n: f64) -> String {
    match n {
        n if n < 1e3 => format!("{n:.0} bytes"),
        n if n < 1e6 => format!("{:.1} kB", n / 1e3),
        n if n < 1e9 => format!("{:.1} MB", n / 1e6),
        n => format!("{:.2} GB", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use straightline::{DType, tensor};

    #[test]
    fn numbers_are_short() {
        for (x, text) in [
            (0.0, "0.0"),
            (1.0, "1.000"),
            (-0.123_456_7, "-0.1235"),
            (123_456.7, "123457"),
            (1.5e-7, "1.500e-7"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(number(Scalar::Float(x)), text);
        }
        assert_eq!(number(Scalar::Complex(1.0, -2.0)), "1.000-2.000j");
        assert_eq!(number(Scalar::Int(-3)), "-3");
    }

    #[test]
    fn lines() {
        let x = tensor([[1i64, 2, 3, 4], [5, 6, 7, 8]]).unwrap();
        assert_eq!(line("x", &x.clone().into()).unwrap(), "x: i64[2, 4]  1 2 3 4 5 6 ...");
        let half = x.to_dtype(DType::Bool).unwrap().narrow(0, 0, 0).unwrap();
        assert_eq!(line("y", &half.into()).unwrap(), "y: bool[0, 4]  no elements");
        assert_eq!(line("n", &3.into()).unwrap(), "n: 3");
        assert_eq!(bytes(999.0), "999 bytes");
        assert_eq!(bytes(1_250_000.0), "1.2 MB");
    }
}
