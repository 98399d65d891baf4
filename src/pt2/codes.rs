//! The numbers that the format has for dtypes, layouts and memory formats, which are not c10's.

use straightline_catalog::{DType, Layout, MemoryFormat};

/// A dtype of the format.
///
/// # Errors
/// Its name, where this crate has none such.
pub(super) fn dtype(code: i64) -> Result<DType, String> {
    let name = match code {
        1 => return Ok(DType::U8),
        2 => return Ok(DType::I8),
        3 => return Ok(DType::I16),
        4 => return Ok(DType::I32),
        5 => return Ok(DType::I64),
        6 => return Ok(DType::F16),
        7 => return Ok(DType::F32),
        8 => return Ok(DType::F64),
        10 => return Ok(DType::C64),
        11 => return Ok(DType::C128),
        12 => return Ok(DType::Bool),
        13 => return Ok(DType::BF16),
        9 => "complex32",
        28 => "uint16",
        29 => "float8_e4m3fn",
        30 => "float8_e5m2",
        31 => "float8_e4m3fnuz",
        32 => "float8_e5m2fnuz",
        33 => "float8_e8m0fnu",
        34 => "uint32",
        35 => "uint64",
        _ => return Err(format!("dtype {code} is not known")),
    };
    Err(format!("dtype {name} is not supported: export the model with another one"))
}

/// A layout of the format.
pub(super) fn layout(code: i64) -> Result<Layout, String> {
    match code {
        7 => Ok(Layout::Strided),
        1 => Ok(Layout::Sparse),
        2 => Ok(Layout::SparseCsr),
        3 => Ok(Layout::SparseCsc),
        4 => Ok(Layout::SparseBsr),
        5 => Ok(Layout::SparseBsc),
        6 => Ok(Layout::Mkldnn),
        _ => Err(format!("layout {code} is not known")),
    }
}

/// A memory format of the format.
pub(super) fn memory_format(code: i64) -> Result<MemoryFormat, String> {
    match code {
        1 => Ok(MemoryFormat::Contiguous),
        2 => Ok(MemoryFormat::ChannelsLast),
        3 => Ok(MemoryFormat::ChannelsLast3d),
        4 => Ok(MemoryFormat::Preserve),
        _ => Err(format!("memory format {code} is not known")),
    }
}
