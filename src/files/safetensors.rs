//! Loading, mapping and saving named tensors in the safetensors format.

use super::archive::Source;
use crate::error::{Error, Result};
use crate::tensor::watcher;
use crate::tensor::{Tensor, access};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use straightline_catalog::{DType, Device, layout};

fn dtype_from(d: Dtype) -> Option<DType> {
    Some(match d {
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        Dtype::I16 => DType::I16,
        Dtype::I8 => DType::I8,
        Dtype::U8 => DType::U8,
        Dtype::BOOL => DType::Bool,
        Dtype::C64 => DType::C64,
        _ => return None,
    })
}

fn dtype_to(d: DType) -> Option<Dtype> {
    Some(match d {
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I64 => Dtype::I64,
        DType::I32 | DType::QInt32 => Dtype::I32,
        DType::I16 => Dtype::I16,
        DType::I8 | DType::QInt8 => Dtype::I8,
        DType::U8 | DType::QUInt8 => Dtype::U8,
        DType::Bool => Dtype::BOOL,
        DType::C64 => Dtype::C64,
        DType::C128 => return None,
    })
}

/// Loads every tensor of a safetensors file onto the CPU, into memory of its own.
/// [`map_safetensors`] leaves them in the file.
///
/// # Errors
/// [`crate::ErrorKind::File`] with the path and the reason: no such file, a damaged header, a
/// truncated body, a dtype that is not supported (the tensor is named).
/// [`NotCaptured`](crate::ErrorKind::NotCaptured) while a function is being captured.
///
/// ```no_run
/// let weights = straightline::load_safetensors("model.safetensors")?;
/// println!("{}", weights["wte.weight"]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn load_safetensors(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>> {
    load_safetensors_on(path, Device::CPU)
}

/// [`load_safetensors`] onto a device. A GPU reads the file's bytes: there are no tensors on the CPU
/// between.
///
/// # Errors
/// As [`load_safetensors`], and what the device says: there is none, or no memory is left.
///
/// ```no_run
/// let weights = straightline::load_safetensors_on("model.safetensors", "cuda:0".parse()?)?;
/// println!("{}", weights["wte.weight"].device());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn load_safetensors_on(
    path: impl AsRef<Path>,
    device: Device,
) -> Result<BTreeMap<String, Tensor>> {
    watcher::check("load_safetensors()", "load the tensors before and close over them")?;
    let path = path.as_ref();
    let source = Source::open(path).map_err(|e| Error::file(path, e))?;
    parse(source.bytes(), device).map_err(|message| Error::file(path, message))
}

/// Maps a safetensors file: its tensors lie in the file, so that loading takes neither time nor
/// memory for them, and their pages are read when they are used. (A tensor that is not aligned to 8
/// bytes in the file is copied.)
///
/// They are read only: a call that would write one is refused
/// ([`ErrorKind::ReadOnly`](crate::ErrorKind::ReadOnly)), and [`copied`](Tensor::copied) makes a copy
/// that may be written. Whoever changes the file while its tensors are in use changes them, or ends
/// the process if it becomes shorter: write a new file beside it and rename it.
///
/// # Errors
/// As [`load_safetensors`].
///
/// ```
/// use straightline::{ErrorKind, map_safetensors, save_safetensors, tensor};
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("w.safetensors");
/// save_safetensors(&path, [("w", &tensor([1.0, 2.0])?)])?;
/// let w = &map_safetensors(&path)?["w"];
/// assert_eq!(w.mul(2)?.to_vec::<f32>()?, [2.0, 4.0]);
/// assert!(matches!(w.mul_(2).unwrap_err().kind(), ErrorKind::ReadOnly { .. }));
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn map_safetensors(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>> {
    watcher::check("map_safetensors()", "map the tensors before and close over them")?;
    let path = path.as_ref();
    let source = Source::open(path).map_err(|e| Error::file(path, e))?;
    map(path, &Arc::new(source))
}

/// Tensors that lie in a file.
pub(super) fn map(path: &Path, source: &Arc<Source>) -> Result<BTreeMap<String, Tensor>> {
    let bytes = source.bytes();
    let mut out = BTreeMap::new();
    for Entry { name, dtype, sizes, data } in
        entries(bytes).map_err(|message| Error::file(path, message))?
    {
        let start = data.as_ptr().addr().saturating_sub(bytes.as_ptr().addr());
        let memory = source.memory(start..start + data.len(), path, &name)?;
        let strides = layout::contiguous_strides(&sizes);
        let t = memory
            .tensor(dtype, &sizes, &strides, 0)
            .map_err(|e| Error::file(path, format!("tensor `{name}`: {e}")))?;
        out.insert(name, t);
    }
    Ok(out)
}

/// Whether bytes begin as a safetensors file does: the length of its header, and the header.
pub(super) fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk() else { return false };
    rest.first() == Some(&b'{') && u64::from_le_bytes(*length) <= rest.len() as u64
}

impl Tensor {
    /// Every tensor of a safetensors file held in memory (weights embedded with `include_bytes!`).
    ///
    /// # Errors
    /// As [`load_safetensors`].
    pub fn parse_safetensors(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>> {
        parse(bytes, Device::CPU).map_err(|message| Error::file(Path::new("<bytes>"), message))
    }
}

/// A tensor of a file.
struct Entry<'a> {
    name: String,
    dtype: DType,
    sizes: Vec<i64>,
    data: &'a [u8],
}

/// The tensors of a file: of dtypes that there are, as long as their sizes say, and truth values
/// that are 0 or 1.
fn entries(bytes: &[u8]) -> std::result::Result<Vec<Entry<'_>>, String> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|e| format!("not a valid safetensors file: {e}"))?;
    let mut found = Vec::new();
    for (name, view) in file.tensors() {
        let dtype = dtype_from(view.dtype()).ok_or_else(|| {
            format!(
                "tensor `{name}` has dtype {:?}, which is not supported: convert it to one of \
                 f32 f64 c64 f16 bf16 i64 i32 i16 i8 u8 bool",
                view.dtype()
            )
        })?;
        let sizes: Option<Vec<i64>> = view.shape().iter().map(|s| i64::try_from(*s).ok()).collect();
        let data = view.data();
        let sizes = sizes
            .filter(|s| {
                let strides = layout::contiguous_strides(s);
                layout::storage_bytes(dtype.size(), s, &strides, 0) == data.len()
            })
            .ok_or_else(|| format!("tensor `{name}` has sizes that no tensor can have"))?;
        if dtype == DType::Bool && data.iter().any(|b| *b > 1) {
            return Err(format!("tensor `{name}` is bool and holds bytes other than 0 and 1"));
        }
        found.push(Entry { name, dtype, sizes, data });
    }
    Ok(found)
}

fn parse(bytes: &[u8], device: Device) -> std::result::Result<BTreeMap<String, Tensor>, String> {
    let mut out = BTreeMap::new();
    for Entry { name, dtype, sizes, data } in entries(bytes)? {
        let failed = |e: Error| format!("tensor `{name}`: {e}");
        let t = Tensor::allocate_contiguous(dtype, device, &sizes).map_err(failed)?;
        fill(&t, data).map_err(failed)?;
        out.insert(name, t.mark_made_during_capture());
    }
    Ok(out)
}

/// Writes all bytes of a fresh tensor.
fn fill(t: &Tensor, data: &[u8]) -> Result<()> {
    #[cfg(feature = "cuda")]
    if t.storage().is_elsewhere() {
        return crate::tensor::on_device::upload(t, data);
    }
    let p = t.data_ptr()?;
    // SAFETY: the storage is fresh, the caller's alone, and as long as the data (the crate has
    // checked the data's length against the shape).
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), p, data.len()) };
    Ok(())
}

/// Saves named tensors; each is written in row-major order.
///
/// # Errors
/// A tensor without data, one of dtype `c128`, which the format does not have, or a file that
/// cannot be written.
///
/// ```
/// use straightline::{Tensor, load_safetensors, save_safetensors};
/// let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("w.safetensors");
/// let w = Tensor::from_slice(&[1f32, 2.0], &[2])?;
/// save_safetensors(&path, [("w", &w)])?;
/// assert_eq!(load_safetensors(&path)?["w"].to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn save_safetensors<'a, N: AsRef<str>>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (N, &'a Tensor)>,
) -> Result<()> {
    let path = path.as_ref();
    let bytes = serialise(path, tensors)?;
    std::fs::write(path, bytes).map_err(|e| Error::file(path, e))
}

/// The bytes of a file of named tensors; errors name the file.
#[track_caller]
pub(crate) fn serialise<'a, N: AsRef<str>>(
    path: &Path,
    tensors: impl IntoIterator<Item = (N, &'a Tensor)>,
) -> Result<Vec<u8>> {
    watcher::check("save_safetensors()", "return the tensors and save them outside")?;
    let mut data: Vec<(String, DType, Vec<usize>, Vec<u8>)> = Vec::new();
    for (name, t) in tensors {
        let mut t = t.resolved()?;
        if t.storage().is_elsewhere() {
            t = t.to_device(Device::CPU)?;
        }
        t.check_has_data("save_safetensors")?;
        let t = crate::ops::copy::to_contiguous(&t)?;
        let n = t.numel() as usize * t.dtype().size();
        let _guard = access::read(&[&t])?;
        // SAFETY: the tensor is contiguous, so n bytes from its first element are its own, and
        // the guard keeps them from being written.
        let bytes = unsafe { std::slice::from_raw_parts(t.data_ptr()?, n) }.to_vec();
        let sizes = t.sizes().iter().map(|s| *s as usize).collect();
        data.push((name.as_ref().to_string(), t.dtype(), sizes, bytes));
    }
    let views: Vec<(&str, TensorView<'_>)> = data
        .iter()
        .map(|(name, dtype, sizes, bytes)| {
            let known = dtype_to(*dtype).ok_or_else(|| {
                let message = format!("tensor `{name}`: the format has no {}", dtype.torch_name());
                Error::file(path, message)
            })?;
            TensorView::new(known, sizes.clone(), bytes)
                .map(|v| (name.as_str(), v))
                .map_err(|e| Error::file(path, format!("tensor `{name}`: {e}")))
        })
        .collect::<Result<_>>()?;
    safetensors::serialize(views, None).map_err(|e| Error::file(path, e))
}
