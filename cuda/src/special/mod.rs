//! Special functions, element by element: gamma and its kin, Bessel functions, inverses of error functions, and
//! rare functions of two operands.
//!
//! They are computed in double precision and rounded, as on the CPU, whatever the elements are: a part of the
//! throughput that single precision would have, for results that agree with the CPU's to the last digits.

use crate::driver::{Argument, Stream};
use crate::elements::{self, Kind};
use crate::programs::{self, ProgramError};
use straightline_passes::ir::DType;

#[cfg(test)]
mod tests;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $class:ident $operands:literal $body:literal;)*) => {
        /// A function of elements.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Function {
            $($(#[$doc])* $name,)*
        }

        impl Function {
            /// All of them.
            pub const ALL: &[Function] = &[$(Function::$name),*];

            /// How many operands it has.
            pub fn operands(self) -> usize {
                match self {
                    $(Function::$name => $operands,)*
                }
            }

            fn class(self) -> Class {
                match self {
                    $(Function::$name => Class::$class,)*
                }
            }

            /// A statement, or what the result is, of `x[i]` as `a`, `y[i]` as `b`, and the number `s.n`.
            fn body(self) -> &'static str {
                match self {
                    $(Function::$name => $body,)*
                }
            }
        }
    };
}

/// What a function computes with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Doubles, from and to floating-point elements.
    Double,
    /// The elements themselves, of floating point.
    Float,
    /// Integers of 64 bits.
    Integer,
}

functions! {
    /// The derivative of [`Function::Lgamma`].
    Digamma Double 1 "digamma(a)";
    /// The logarithm of the absolute value of the gamma function.
    Lgamma Double 1 "lgamma(a)";
    /// Derivatives of the digamma function, of the order `n`.
    Polygamma Double 1 "polygamma(s.n, a)";
    /// [`Function::Polygamma`], with factors that overflow in single precision.
    PolygammaOfSingle Double 1 "polygamma_of_single(s.n, a)";
    /// Hurwitz's zeta function.
    Zeta Double 2 "zeta(a, b)";
    /// The lower regularised incomplete gamma function.
    Igamma Double 2 "igamma(a, b)";
    /// The upper regularised incomplete gamma function.
    Igammac Double 2 "igammac(a, b)";
    /// The inverse of the error function.
    Erfinv Double 1 "erfinv(a)";
    /// `e^(x^2) erfc(x)`.
    Erfcx Double 1 "erfcx(a)";
    /// The quantile of the standard normal distribution.
    Ndtri Double 1 "normcdfinv(a)";
    /// The logarithm of the standard normal distribution function.
    LogNdtr Double 1 "log_ndtr(a)";
    /// `-x ln x`.
    Entr Double 1 "entr(a)";
    /// The modified Bessel function of the first kind and order 0.
    I0 Double 1 "i0_of(a)";
    /// `e^-|x|` times [`Function::I0`].
    I0e Double 1 "i0e_of(a)";
    /// The modified Bessel function of the first kind and order 1.
    I1 Double 1 "i1_of(a)";
    /// `e^-|x|` times [`Function::I1`].
    I1e Double 1 "i1e_of(a)";
    /// The Bessel function of the first kind and order 0.
    J0 Double 1 "j0_of(a)";
    /// The Bessel function of the first kind and order 1.
    J1 Double 1 "j1_of(a)";
    /// The Bessel function of the second kind and order 0.
    Y0 Double 1 "y0_of(a)";
    /// The Bessel function of the second kind and order 1.
    Y1 Double 1 "y1_of(a)";
    /// The modified Bessel function of the second kind and order 0.
    K0 Double 1 "unscaled_k(0, a)";
    /// `e^x` times [`Function::K0`].
    K0e Double 1 "scaled_k(0, a)";
    /// The modified Bessel function of the second kind and order 1.
    K1 Double 1 "unscaled_k(1, a)";
    /// `e^x` times [`Function::K1`].
    K1e Double 1 "scaled_k(1, a)";
    /// The spherical Bessel function of order 0.
    SphericalJ0 Double 1 "spherical_j0(a)";
    /// Airy's function of the first kind.
    AiryAi Double 1 "airy_ai(a)";
    /// `sin(pi x) / (pi x)`.
    Sinc Double 1 "sinc(a)";
    /// `ln(x / (1 - x))`.
    Logit Double 1 "logit(a)";
    /// `log2(2^a + 2^b)`.
    Logaddexp2 Double 2 "logaddexp2(a, b)";
    /// `sqrt(a^2 + b^2)` without overflow.
    Hypot Double 2 "hypot(a, b)";
    /// The size of `a` with the sign of `b`.
    Copysign Double 2 "copysign(a, b)";
    /// The next element towards another.
    Nextafter Float 2 "out[i] = next_of(x[i], y[i])";
    /// A fraction of size `1/2 .. 1`, and a power of two (`i32`, the second result).
    Frexp Float 1 "out[i] = parts_of(x[i], second[i])";
    /// The greatest common divisor.
    Gcd Integer 2 "gcd(a, b)";
    /// The least common multiple.
    Lcm Integer 2 "lcm(a, b)";
}

impl Function {
    /// Whether there is a kernel for elements of a dtype.
    ///
    /// ```
    /// use straightline_cuda::special::Function;
    /// use straightline_passes::ir::DType;
    /// assert!(Function::Lgamma.computes(DType::F16) && !Function::Gcd.computes(DType::F16));
    /// ```
    pub fn computes(self, dtype: DType) -> bool {
        let floats = dtype.is_floating() && elements::head(dtype).is_some();
        match self.class() {
            Class::Double | Class::Float => floats,
            Class::Integer => dtype.is_integral() && dtype != DType::Bool,
        }
    }
}

/// Queues a function of `count` elements that lie one after another, of one dtype, as are its results. `n` is
/// its number, if it has one. The addresses are those of the operands (the second one 0 where there is one
/// alone), of the results and of second results, or 0.
///
/// # Safety
///
/// The addresses lead to so many elements, memory of the stream's device until it has come so far; nothing
/// overlaps the results, but an operand that is the result itself.
///
/// # Errors
///
/// [`ProgramError`].
///
/// # Panics
///
/// If [`Function::computes`] says no.
pub unsafe fn apply(
    stream: &Stream,
    function: Function,
    dtype: DType,
    [count, n]: [i64; 2],
    addresses: [u64; 4],
) -> Result<(), ProgramError> {
    if count == 0 {
        return Ok(());
    }
    let functions = programs::functions(stream.device(), &text(function, dtype), &["special"])?;
    let [x, y, out, second] = addresses.map(Argument::Pointer);
    let arguments = [x, y, out, second, Argument::Numbers(&[count, n])];
    // SAFETY: the arguments are the kernel's, and the caller's contract.
    unsafe { functions[0].launch(stream, elements::launch(count), &arguments)? };
    Ok(())
}

fn text(function: Function, dtype: DType) -> String {
    let head = elements::head(dtype).expect("the dtype is computed with here");
    let bits = match elements::kind(dtype) {
        Some(Kind::Float(_)) => {
            let sign = 1u64 << (dtype.size() * 8 - 1);
            format!("typedef {} Bits;\n#define SIGN {sign:#x}ull\n", elements::bits_of(dtype))
        }
        _ => String::new(),
    };
    let body = function.body();
    let of = |held: &str| {
        let b = match function.operands() {
            1 => String::new(),
            _ => format!("const {held} b = ({held})value_of(y[i]); "),
        };
        format!("const {held} a = ({held})value_of(x[i]); {b}out[i] = element_of((Value)({body}))")
    };
    let apply = match function.class() {
        Class::Double => of("double"),
        Class::Integer => of("long long"),
        Class::Float => body.to_string(),
    };
    format!("{head}{bits}#define APPLY {apply}\n{}", include_str!("special.cu"))
}
