//! How kernels of our own are written for a dtype: the types of its elements and of its values.

use crate::driver::Launch;
use crate::emit;
use straightline_passes::ir::DType;

/// A launch of a kernel whose threads take an element after another, of so many.
pub(crate) fn launch(count: i64) -> Launch {
    const THREADS: u32 = 256;
    const BLOCKS: i64 = 1 << 30;
    let blocks = ((count + i64::from(THREADS) - 1) / i64::from(THREADS)).clamp(1, BLOCKS) as u32;
    Launch { blocks: [blocks, 1, 1], threads: [THREADS, 1, 1], shared_bytes: 0 }
}

/// The head of a program for elements of a dtype: the prelude, and below it
///
/// - `Element`, as it lies in memory;
/// - `Value`, what is computed with (`float` for the halves, `int` for the narrow integers);
/// - `Value value_of(Element)` and `Element element_of(Value)`, which rounds;
/// - `Value number_of(double)`.
///
/// `None` for dtypes that kernels do not compute with.
pub(crate) fn head(dtype: DType) -> Option<String> {
    let types = emit::value_types(dtype)?;
    let (prelude, element, value) = (types.prelude, types.element, types.value);
    let (widened, narrowed) = (types.widened("e"), types.narrowed("v"));
    Some(format!(
        "{prelude}
typedef {element} Element;
typedef {value} Value;
__device__ __forceinline__ Value value_of(Element e) {{ return {widened}; }}
__device__ __forceinline__ Element element_of(Value v) {{ return {narrowed}; }}
__device__ __forceinline__ Value number_of(double v) {{ return (Value)v; }}
"
    ))
}

/// The unsigned type of so many bytes, for elements that are moved or compared by their bits.
pub(crate) fn bits_of(dtype: DType) -> &'static str {
    emit::type_of_size(dtype.size())
}

/// How the bits of a dtype are ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Unsigned,
    Signed,
    /// With the bits of infinity, above which there is NaN.
    Float(u64),
}

/// `None` for complex numbers and others without an order.
pub(crate) fn kind(dtype: DType) -> Option<Kind> {
    Some(match dtype {
        DType::Bool | DType::U8 => Kind::Unsigned,
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => Kind::Signed,
        DType::F16 => Kind::Float(0x7c00),
        DType::BF16 => Kind::Float(0x7f80),
        DType::F32 => Kind::Float(0x7f80_0000),
        DType::F64 => Kind::Float(0x7ff0_0000_0000_0000),
        _ => return None,
    })
}

/// The head of a program that orders elements by their bits: `Key`, and `Key key_of(Key bits)`, which is
/// greater where the element is. All NaN are one, above all numbers; both zeros are one.
pub(crate) fn keys(dtype: DType) -> Option<String> {
    let key = bits_of(dtype);
    let sign = 1u64 << (dtype.size() * 8 - 1);
    let body = match kind(dtype)? {
        Kind::Unsigned => "return e;".to_string(),
        Kind::Signed => format!("return (Key)(e ^ (Key){sign:#x}ull);"),
        Kind::Float(infinity) => format!(
            "const Key size = (Key)(e & (Key){:#x}ull);
    if (size > (Key){infinity:#x}ull) return (Key)~(Key)0;
    return e & (Key){sign:#x}ull && size ? (Key)~e : (Key)(size | (Key){sign:#x}ull);",
            sign - 1
        ),
    };
    Some(format!(
        "typedef {key} Key;
__device__ __forceinline__ Key key_of(Key e) {{
    {body}
}}
"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_an_order_has_keys() {
        assert!(keys(DType::C64).is_none() && head(DType::C64).is_none());
        for dtype in [DType::Bool, DType::I16, DType::BF16, DType::F64] {
            assert!(keys(dtype).is_some() && head(dtype).is_some());
        }
    }
}
