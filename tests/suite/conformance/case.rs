//! Reading a conformance case: JSON to values of the dispatcher.

use serde_json::Value as Json;
use straightline::dispatch::Value;
use straightline::dispatch::schema::{FunctionSchema, SchemaType};
use straightline::ops::aten;
use straightline::{DType, Device, MemoryFormat, Scalar, Tensor};

/// Why a case is not run.
pub(crate) type Skip = String;

/// Sizes, strides and offset.
pub(crate) type Geometry = (Vec<i64>, Vec<i64>, i64);

/// Where a tensor lies in its storage.
pub(crate) fn geometry(t: &Tensor) -> Geometry {
    (t.sizes().to_vec(), t.strides().to_vec(), t.storage_offset())
}

/// A tensor among the arguments, as it was given.
pub(crate) struct Given {
    pub(crate) path: String,
    pub(crate) tensor: Tensor,
    /// Sizes, strides and offset before the call.
    pub(crate) geometry: Geometry,
    /// The path of the argument whose storage it is: its own, unless it shares an earlier one's.
    pub(crate) owner: String,
    /// The whole storage as one row.
    pub(crate) row: Tensor,
    /// What the storage held, as [`bytes`] has it.
    pub(crate) held: Vec<u8>,
}

/// A call with what PyTorch made of it.
pub(crate) struct Case {
    pub(crate) op: String,
    pub(crate) id: String,
    /// The boxed arguments in schema order.
    pub(crate) stack: Vec<Value>,
    /// The path of each argument: `args.0`, `kwargs.dtype`.
    pub(crate) paths: Vec<String>,
    /// The tensors among the arguments, those of lists too; numbers that stand for tensors are
    /// none.
    pub(crate) given: Vec<Given>,
    /// Whether storages hold the recorded elements in reverse.
    reversed: bool,
    /// Where its tensors have been moved to.
    device: Option<Device>,
    pub(crate) json: Json,
}

pub(crate) fn decode_base64(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut have) = (0u32, 0);
    for c in text.bytes() {
        let v = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        bits = (bits << 6) | u32::from(v);
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    out
}

pub(crate) fn dtype(name: &str) -> Result<DType, Skip> {
    DType::from_name(name).ok_or_else(|| format!("dtype {name}"))
}

fn part(bytes: &[u8]) -> f32 {
    f32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn wide(bytes: &[u8]) -> f64 {
    f64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// The elements of a tensor in row-major order, little endian.
pub(crate) fn bytes(t: &Tensor) -> straightline::Result<Vec<u8>> {
    macro_rules! read {
        ($t:ty) => {
            t.to_vec::<$t>()?.into_iter().flat_map(<$t>::to_le_bytes).collect()
        };
    }
    Ok(match t.dtype() {
        DType::F32 => read!(f32),
        DType::F64 => read!(f64),
        DType::F16 => read!(half::f16),
        DType::BF16 => read!(half::bf16),
        DType::I64 => read!(i64),
        DType::I32 => read!(i32),
        DType::I16 => read!(i16),
        DType::I8 => read!(i8),
        DType::U8 => read!(u8),
        DType::Bool => t.to_vec::<bool>()?.into_iter().map(u8::from).collect(),
        DType::C64 => t
            .to_vec::<num_complex::Complex<f32>>()?
            .into_iter()
            .flat_map(|c| [c.re, c.im])
            .flat_map(f32::to_le_bytes)
            .collect(),
        DType::C128 => t
            .to_vec::<num_complex::Complex<f64>>()?
            .into_iter()
            .flat_map(|c| [c.re, c.im])
            .flat_map(f64::to_le_bytes)
            .collect(),
        DType::QInt8 | DType::QUInt8 | DType::QInt32 => {
            return Err(straightline::Error::new(straightline::ErrorKind::DType(
                "the cases have no quantized tensors".to_string(),
            )));
        }
    })
}

/// A contiguous tensor of the bytes.
pub(crate) fn storage(dtype: DType, bytes: &[u8]) -> straightline::Result<Tensor> {
    macro_rules! make {
        ($t:ty) => {{
            let v: Vec<$t> = bytes
                .chunks_exact(size_of::<$t>())
                .map(|c| <$t>::from_le_bytes(c.try_into().expect("chunk size")))
                .collect();
            Tensor::from_vec(v, -1)
        }};
    }
    match dtype {
        DType::F32 => make!(f32),
        DType::F64 => make!(f64),
        DType::F16 => make!(half::f16),
        DType::BF16 => make!(half::bf16),
        DType::I64 => make!(i64),
        DType::I32 => make!(i32),
        DType::I16 => make!(i16),
        DType::I8 => make!(i8),
        DType::U8 => make!(u8),
        DType::Bool => Tensor::from_vec(bytes.iter().map(|b| *b != 0).collect::<Vec<bool>>(), -1),
        DType::C64 => Tensor::from_vec(
            bytes
                .chunks_exact(8)
                .map(|c| num_complex::Complex::new(part(&c[..4]), part(&c[4..])))
                .collect::<Vec<num_complex::Complex<f32>>>(),
            -1,
        ),
        DType::C128 => Tensor::from_vec(
            bytes
                .chunks_exact(16)
                .map(|c| num_complex::Complex::new(wide(&c[..8]), wide(&c[8..])))
                .collect::<Vec<num_complex::Complex<f64>>>(),
            -1,
        ),
        DType::QInt8 | DType::QUInt8 | DType::QInt32 => Err(straightline::Error::new(
            straightline::ErrorKind::DType("the cases have no quantized tensors".to_string()),
        )),
    }
}

pub(crate) fn ints(j: &Json) -> Vec<i64> {
    j.as_array().map(|a| a.iter().filter_map(Json::as_i64).collect()).unwrap_or_default()
}

pub(crate) fn text<'a>(j: &'a Json, key: &str) -> &'a str {
    j[key].as_str().unwrap_or("")
}

/// A value that is no tensor of its own, for an argument of this type.
pub(crate) fn constant(j: &Json, ty: &SchemaType) -> Result<Value, Skip> {
    let json = serde_json::json!({"schema": "none() -> ()"});
    Case::read(json, false)?.value(j, ty, "")
}

impl Case {
    pub(crate) fn parse(line: &str) -> Result<Case, Skip> {
        let json = serde_json::from_str(line).map_err(|e| e.to_string())?;
        Case::read(json, false)
    }

    /// The same call on tensors of their own, which hold what was recorded; or, `reversed`, each
    /// storage the recorded elements from the last to the first.
    pub(crate) fn again(&self, reversed: bool) -> Result<Case, Skip> {
        let case = Case::read(self.json.clone(), reversed)?;
        match self.device {
            Some(device) => case.moved(device).map_err(|e| e.to_string()),
            None => Ok(case),
        }
    }

    fn read(json: Json, reversed: bool) -> Result<Case, Skip> {
        let schema = FunctionSchema::parse(text(&json, "schema")).map_err(|e| e.to_string())?;
        let mut case = Case {
            op: text(&json, "op").to_string(),
            id: text(&json, "id").to_string(),
            stack: Vec::new(),
            paths: Vec::new(),
            given: Vec::new(),
            reversed,
            device: None,
            json: Json::Null,
        };
        let positional = json["args"].as_array().cloned().unwrap_or_default();
        for (i, arg) in schema.args.iter().enumerate() {
            let (j, path) = match positional.get(i) {
                Some(j) => (j, format!("args.{i}")),
                None => (&json["kwargs"][&arg.name], format!("kwargs.{}", arg.name)),
            };
            let value = case.value(j, &arg.ty, &path)?;
            case.paths.push(path);
            case.stack.push(value);
        }
        case.json = json;
        Ok(case)
    }

    /// Whether they have been.
    pub(crate) fn is_moved(&self) -> bool {
        self.device.is_some()
    }

    /// The same call on tensors of another device, which lie in memory alike.
    pub(crate) fn moved(mut self, device: Device) -> straightline::Result<Case> {
        self.device = Some(device);
        let mut rows: Vec<(String, Tensor)> = Vec::new();
        for g in &mut self.given {
            let known =
                rows.iter().find(|(owner, _)| *owner == g.owner).map(|(_, row)| row.clone());
            g.row = match known {
                Some(row) => row,
                None => {
                    let row = g.row.to_device(device)?;
                    rows.push((g.owner.clone(), row.clone()));
                    row
                }
            };
            let (sizes, strides, offset) = &g.geometry;
            g.tensor = aten::as_strided(&g.row, sizes, strides, Some(*offset))?;
        }
        let mut next = self.given.iter().map(|g| g.tensor.clone());
        let mut tensor = |t: &Tensor| match t.is_wrapped_number() {
            true => t.clone(),
            false => next.next().expect("as many as there were"),
        };
        for v in &mut self.stack {
            *v = match &*v {
                Value::Tensor(t) => Value::Tensor(tensor(t)),
                Value::TensorList(l) => Value::TensorList(l.iter().map(&mut tensor).collect()),
                Value::OptionalTensorList(l) => Value::OptionalTensorList(
                    l.iter().map(|t| t.as_ref().map(&mut tensor)).collect(),
                ),
                Value::Device(_) => Value::Device(device),
                other => other.clone(),
            };
        }
        Ok(self)
    }

    /// The tensors among the arguments, in order.
    pub(crate) fn tensors(&self) -> Vec<Tensor> {
        self.stack.iter().flat_map(Value::tensors).cloned().collect()
    }

    fn tensor(&mut self, j: &Json, path: &str) -> Result<Tensor, Skip> {
        let (size, stride) = (ints(&j["size"]), ints(&j["stride"]));
        let offset = j["offset"].as_i64();
        let (owner, row, held) = match j["storage_of"].as_str() {
            Some(of) => self
                .given
                .iter()
                .find(|g| g.path == of)
                .map(|g| (g.owner.clone(), g.row.clone(), g.held.clone()))
                .ok_or_else(|| format!("storage of {of}"))?,
            None => {
                let dtype = dtype(text(j, "t"))?;
                let mut data = decode_base64(text(j, "data"));
                if self.reversed {
                    data = data.chunks_exact(dtype.size()).rev().flatten().copied().collect();
                }
                let row = storage(dtype, &data).map_err(|e| e.to_string())?;
                let held = bytes(&row).map_err(|e| e.to_string())?;
                (path.to_string(), row, held)
            }
        };
        let tensor = aten::as_strided(&row, &size, &stride, offset).map_err(|e| e.to_string())?;
        self.given.push(Given {
            path: path.to_string(),
            geometry: geometry(&tensor),
            tensor: tensor.clone(),
            owner,
            row,
            held,
        });
        Ok(tensor)
    }

    fn value(&mut self, j: &Json, ty: &SchemaType, path: &str) -> Result<Value, Skip> {
        if j.is_null() {
            return Ok(Value::None);
        }
        if j["t"].is_string() {
            return match number_of_tensor(j, ty.unwrap_optional()) {
                Some(number) => number,
                None => self.tensor(j, path).map(Value::Tensor),
            };
        }
        let object = j.as_object().ok_or("not an object")?;
        let (kind, v) = object.iter().next().ok_or("an empty object")?;
        Ok(match kind.as_str() {
            "i" if matches!(ty.unwrap_optional(), SchemaType::MemoryFormat) => {
                Value::MemoryFormat(format_of_number(v)?)
            }
            "i" => Value::Int(v.as_i64().ok_or("int")?),
            "b" => Value::Bool(v.as_bool().ok_or("bool")?),
            "f" => Value::Double(float(v)?),
            "c" => Value::Complex(float(&v[0])?, float(&v[1])?),
            "s" => Value::String(v.as_str().ok_or("string")?.to_string()),
            "dtype" => Value::DType(dtype(v.as_str().ok_or("dtype")?)?),
            "device" => Value::Device(Device::CPU),
            "layout" if v == "strided" => Value::Layout(straightline::Layout::Strided),
            "memory_format" => Value::MemoryFormat(match v.as_str() {
                Some("contiguous_format") => MemoryFormat::Contiguous,
                Some("preserve_format") => MemoryFormat::Preserve,
                Some("channels_last") => MemoryFormat::ChannelsLast,
                Some("channels_last_3d") => MemoryFormat::ChannelsLast3d,
                other => return Err(format!("memory format {other:?}")),
            }),
            "wrapped_number" => {
                let Some(s) = self.value(v, &SchemaType::Scalar, path)?.as_scalar() else {
                    return Err("a wrapped number that is not a number".into());
                };
                Value::Tensor(Tensor::wrapped_number(s).map_err(|e| e.to_string())?)
            }
            "list" => self.list(v, ty, path)?,
            other => return Err(format!("a value of kind {other}")),
        })
    }

    fn list(&mut self, v: &Json, ty: &SchemaType, path: &str) -> Result<Value, Skip> {
        let items = v.as_array().ok_or("list")?;
        let element = match ty.unwrap_optional() {
            SchemaType::List(t, _) => (**t).clone(),
            other => return Err(format!("a list where the schema says {other}")),
        };
        let mut values = Vec::new();
        for (i, j) in items.iter().enumerate() {
            values.push(self.value(j, &element, &format!("{path}.{i}"))?);
        }
        let scalars = || values.iter().filter_map(Value::as_scalar);
        Ok(match &element {
            SchemaType::Tensor => {
                Value::TensorList(values.iter().filter_map(Value::as_tensor).cloned().collect())
            }
            SchemaType::Optional(_) => {
                Value::OptionalTensorList(values.iter().map(|v| v.as_tensor().cloned()).collect())
            }
            SchemaType::Float => Value::DoubleList(scalars().map(Scalar::as_f64).collect()),
            SchemaType::Bool => Value::BoolList(scalars().map(Scalar::as_bool).collect()),
            SchemaType::Int | SchemaType::SymInt => {
                Value::IntList(scalars().map(Scalar::as_i64).collect())
            }
            SchemaType::Scalar => Value::ScalarList(scalars().collect()),
            other => return Err(format!("a list of {other}")),
        })
    }
}

/// PyTorch's Python binding takes a tensor where the schema has a number or a list of numbers, and
/// hands on what it holds.
fn number_of_tensor(j: &Json, ty: &SchemaType) -> Option<Result<Value, Skip>> {
    let elements = || -> straightline::Result<Tensor> {
        let row =
            storage(dtype(text(j, "t")).unwrap_or(DType::F32), &decode_base64(text(j, "data")))?;
        aten::as_strided(&row, &ints(&j["size"]), &ints(&j["stride"]), j["offset"].as_i64())
    };
    let whole = |t: Tensor| t.to_dtype(DType::I64)?.to_vec::<i64>();
    let list = |t: &SchemaType| matches!(t, SchemaType::Int | SchemaType::SymInt);
    let value = match ty {
        SchemaType::Int | SchemaType::SymInt => {
            elements().and_then(|t| t.to_dtype(DType::I64)?.item::<i64>()).map(Value::Int)
        }
        SchemaType::Float => {
            elements().and_then(|t| t.to_dtype(DType::F64)?.item::<f64>()).map(Value::Double)
        }
        SchemaType::List(t, _) if list(t) => elements().and_then(whole).map(Value::IntList),
        _ => return None,
    };
    Some(value.map_err(|e| e.to_string()))
}

/// The format that PyTorch's Python binding takes for this number.
fn format_of_number(v: &Json) -> Result<MemoryFormat, Skip> {
    match v.as_i64() {
        Some(0) => Ok(MemoryFormat::Contiguous),
        Some(1) => Ok(MemoryFormat::Preserve),
        Some(2) => Ok(MemoryFormat::ChannelsLast),
        Some(3) => Ok(MemoryFormat::ChannelsLast3d),
        _ => Err(format!("memory format {v}")),
    }
}

pub(crate) fn float(v: &Json) -> Result<f64, Skip> {
    match v.as_str() {
        Some("inf") => Ok(f64::INFINITY),
        Some("-inf") => Ok(f64::NEG_INFINITY),
        Some("nan") => Ok(f64::NAN),
        Some(s) => s.parse().map_err(|_| format!("float {s}")),
        None => v.as_f64().ok_or_else(|| "float".to_string()),
    }
}
