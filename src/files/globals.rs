//! The names that a pickle of plain data and tensors may mention, and what they are.

use straightline_catalog::DType;

/// A name that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    OrderedDict,
    DefaultDict,
    /// `dict`, and `Counter`.
    Dict,
    Set,
    ByteArray,
    /// `_codecs.encode`, by which protocol 2 writes bytes.
    Encode,
    /// A type of Python's that is not called, such as what makes the values of a `defaultdict`.
    Type,
    Size,
    Device,
    /// `torch.serialization._get_layout`.
    Layout,
    DType(DTypeName),
    /// Another constant of PyTorch's.
    Constant(&'static &'static str),
    /// A class of storages of a dtype.
    Storage(DTypeName),
    UntypedStorage,
    /// The class.
    Tensor,
    /// `_rebuild_tensor_v2`.
    Tensor2,
    /// `_rebuild_tensor_v3`, whose dtype is given.
    Tensor3,
    /// The class, and the functions that make one of a tensor.
    Parameter,
    /// `_rebuild_from_type_v2`, for tensors with attributes.
    FromType,
    /// A function that makes a tensor which cannot be read.
    Dead(Dead),
}

/// Tensors that cannot be read: known, so that an error can say where one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dead {
    Sparse,
    Quantized,
    Nested,
    Meta,
    Elsewhere,
    Wrapper,
}

impl Dead {
    /// What it is, and what to do.
    pub(super) fn what(self) -> &'static str {
        match self {
            Dead::Sparse => {
                "a sparse tensor: save it with `.to_dense()`, or its indices and values"
            }
            Dead::Quantized => {
                "a quantized tensor: save it with `.dequantize()`, or its `.int_repr()`"
            }
            Dead::Nested => "a nested tensor: save its parts with `.unbind()`",
            Dead::Meta => "a tensor on the device `meta`, which has no data: save the real one",
            Dead::Elsewhere => {
                "a tensor of a device that keeps its data elsewhere: save it with `.cpu()`"
            }
            Dead::Wrapper => "a tensor of a subclass that holds others: save those",
        }
    }
}

/// A dtype of PyTorch's, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DTypeName(&'static (&'static str, Option<DType>));

impl DTypeName {
    /// With the module, `torch.float32`.
    pub(super) fn name(self) -> &'static str {
        self.0.0
    }

    /// The crate's dtype.
    pub(super) fn dtype(self) -> Option<DType> {
        self.0.1
    }

    /// How many bytes an element has.
    pub(super) fn size(self) -> u64 {
        self.dtype().map_or(1, |d| d.size() as u64)
    }

    fn find(name: &str) -> Option<DTypeName> {
        DTYPES.iter().find(|d| d.0.strip_prefix("torch.") == Some(name)).map(DTypeName)
    }
}

/// All dtypes of PyTorch.
static DTYPES: [(&str, Option<DType>); 47] = [
    ("torch.float32", Some(DType::F32)),
    ("torch.float64", Some(DType::F64)),
    ("torch.float16", Some(DType::F16)),
    ("torch.bfloat16", Some(DType::BF16)),
    ("torch.int64", Some(DType::I64)),
    ("torch.int32", Some(DType::I32)),
    ("torch.int16", Some(DType::I16)),
    ("torch.int8", Some(DType::I8)),
    ("torch.uint8", Some(DType::U8)),
    ("torch.bool", Some(DType::Bool)),
    ("torch.complex64", Some(DType::C64)),
    ("torch.complex128", Some(DType::C128)),
    ("torch.complex32", None),
    ("torch.bcomplex32", None),
    ("torch.uint16", None),
    ("torch.uint32", None),
    ("torch.uint64", None),
    ("torch.float8_e4m3fn", None),
    ("torch.float8_e4m3fnuz", None),
    ("torch.float8_e5m2", None),
    ("torch.float8_e5m2fnuz", None),
    ("torch.float8_e8m0fnu", None),
    ("torch.float4_e2m1fn_x2", None),
    ("torch.qint8", None),
    ("torch.quint8", None),
    ("torch.qint32", None),
    ("torch.quint4x2", None),
    ("torch.quint2x4", None),
    ("torch.bits1x8", None),
    ("torch.bits2x4", None),
    ("torch.bits4x2", None),
    ("torch.bits8", None),
    ("torch.bits16", None),
    ("torch.int1", None),
    ("torch.int2", None),
    ("torch.int3", None),
    ("torch.int4", None),
    ("torch.int5", None),
    ("torch.int6", None),
    ("torch.int7", None),
    ("torch.uint1", None),
    ("torch.uint2", None),
    ("torch.uint3", None),
    ("torch.uint4", None),
    ("torch.uint5", None),
    ("torch.uint6", None),
    ("torch.uint7", None),
];

/// Layouts, memory formats and schemes of quantization.
static CONSTANTS: [&str; 16] = [
    "torch.strided",
    "torch.sparse_coo",
    "torch.sparse_csr",
    "torch.sparse_csc",
    "torch.sparse_bsr",
    "torch.sparse_bsc",
    "torch.jagged",
    "torch.contiguous_format",
    "torch.channels_last",
    "torch.channels_last_3d",
    "torch.preserve_format",
    "torch.per_tensor_affine",
    "torch.per_tensor_symmetric",
    "torch.per_channel_affine",
    "torch.per_channel_symmetric",
    "torch.per_channel_affine_float_qparams",
];

impl Global {
    /// What a name is, if it is one of these.
    pub(super) fn find(module: &str, name: &str) -> Option<Global> {
        Some(match (module, name) {
            ("collections", "OrderedDict") => Global::OrderedDict,
            ("collections", "defaultdict") => Global::DefaultDict,
            ("collections", "Counter") => Global::Dict,
            ("builtins" | "__builtin__", name) => match name {
                "dict" => Global::Dict,
                "set" | "frozenset" => Global::Set,
                "bytearray" => Global::ByteArray,
                "list" | "tuple" | "str" | "unicode" | "bytes" | "int" | "long" | "float"
                | "bool" => Global::Type,
                _ => return None,
            },
            ("_codecs", "encode") => Global::Encode,
            ("torch", "Size") => Global::Size,
            ("torch", "device") => Global::Device,
            ("torch", "Tensor") => Global::Tensor,
            ("torch.serialization", "_get_layout") => Global::Layout,
            ("torch.storage", "UntypedStorage") | ("torch", "UntypedStorage") => {
                Global::UntypedStorage
            }
            ("torch.nn.parameter", "Parameter") => Global::Parameter,
            ("torch._tensor", "_rebuild_from_type_v2") => Global::FromType,
            ("torch._utils", name) => match name {
                "_rebuild_tensor_v2" => Global::Tensor2,
                "_rebuild_tensor_v3" => Global::Tensor3,
                "_rebuild_parameter" | "_rebuild_parameter_with_state" => Global::Parameter,
                "_rebuild_sparse_tensor" | "_rebuild_sparse_csr_tensor" => {
                    Global::Dead(Dead::Sparse)
                }
                "_rebuild_qtensor" => Global::Dead(Dead::Quantized),
                "_rebuild_nested_tensor" => Global::Dead(Dead::Nested),
                "_rebuild_meta_tensor_no_storage" => Global::Dead(Dead::Meta),
                "_rebuild_device_tensor_from_numpy" | "_rebuild_device_tensor_from_cpu_tensor" => {
                    Global::Dead(Dead::Elsewhere)
                }
                "_rebuild_wrapper_subclass" => Global::Dead(Dead::Wrapper),
                _ => return None,
            },
            ("torch", name) => {
                if let Some(dtype) = DTypeName::find(name) {
                    return Some(Global::DType(dtype));
                }
                if let Some(found) =
                    CONSTANTS.iter().find(|c| c.strip_prefix("torch.") == Some(name))
                {
                    return Some(Global::Constant(found));
                }
                let dtype = match name.strip_suffix("Storage")? {
                    "Float" => "float32",
                    "Double" => "float64",
                    "Half" => "float16",
                    "BFloat16" => "bfloat16",
                    "Long" => "int64",
                    "Int" => "int32",
                    "Short" => "int16",
                    "Char" => "int8",
                    "Byte" => "uint8",
                    "Bool" => "bool",
                    "ComplexFloat" => "complex64",
                    "ComplexDouble" => "complex128",
                    "QInt8" => "qint8",
                    "QUInt8" => "quint8",
                    "QInt32" => "qint32",
                    "QUInt4x2" => "quint4x2",
                    "QUInt2x4" => "quint2x4",
                    _ => return None,
                };
                Global::Storage(DTypeName::find(dtype)?)
            }
            _ => return None,
        })
    }

    /// The text that it stands for as a value of a checkpoint.
    pub(super) fn constant(self) -> Option<&'static str> {
        match self {
            Global::DType(dtype) => Some(dtype.name()),
            Global::Constant(name) => Some(name),
            _ => None,
        }
    }
}
