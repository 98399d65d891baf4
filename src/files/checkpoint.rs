//! Checkpoints: what `torch.save` has written, read without running any of it.

use super::archive::{Archive, Source};
use super::error::{FileError, FileReason};
use super::globals::DTypeName;
use super::pickle::{self, Node, Pickle, Value};
use super::saved::{Key, Saved};
use super::{safetensors, zip};
use crate::error::Result;
use crate::tensor::{Tensor, watcher};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use straightline_catalog::layout;

/// Loads what `torch.save` has written (`.pt`, `.pth`, `.bin`): a state dict, or a checkpoint with
/// anything else in it that is plain data. A safetensors file is read as a dict of its tensors.
///
/// **No code runs.** A pickle may name functions of Python; those that make tensors and containers
/// are known here, and every other name is refused with its place in the file: modules, objects of
/// your own, scalars of numpy.
///
/// **Tensors lie in the file.** It is mapped, so loading takes neither time nor memory for them, and
/// their pages are read when they are used. Strides, offsets and shared memory are kept. They are
/// read only: a call that would write one is refused ([`ErrorKind::ReadOnly`](crate::ErrorKind::ReadOnly)),
/// and [`copied`](Tensor::copied) makes a copy that may be written. As
/// [`Module::load_state_dict`](crate::nn::Module::load_state_dict) copies into the module's own
/// parameters, it takes them as they are. Whoever changes the file while its tensors are in use
/// changes them, or ends the process if it becomes shorter: write a new file beside it and rename it.
///
/// All tensors are on the CPU and require no gradients, wherever they were saved.
///
/// # Errors
/// [`ErrorKind::Archive`](crate::ErrorKind::Archive) with what is wrong and where: no such file, a
/// damaged one, a file of PyTorch before 1.6 or of TorchScript, big-endian numbers, names that are
/// not known, tensors that are sparse or quantized or of a dtype that the crate does not have.
/// [`NotCaptured`](crate::ErrorKind::NotCaptured) while a function is being captured.
///
/// ```no_run
/// let saved = straightline::load_checkpoint("checkpoint.pt")?;
/// print!("{saved}");
/// let epoch = saved.get("epoch").and_then(|e| e.as_int());
/// let weights = saved.get("model").unwrap_or(&saved).state_dict()?;
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn load_checkpoint(path: impl AsRef<Path>) -> Result<Saved> {
    watcher::check("load_checkpoint()", "load the file before and close over its tensors")?;
    load(path.as_ref())
}

/// Loads the tensors of a file by their names, whatever wrote it: a state dict of `torch.save`
/// (`.pt`, `.pth`, `.bin`) or a safetensors file. Its content says which one it is.
///
/// It is [`load_checkpoint`], with the same tensors that lie in the file, and then
/// [`Saved::state_dict`]: where a checkpoint has its state dict at `"model"`, names begin with
/// `model.`, and `load_checkpoint(path)?.get("model")` has it without.
///
/// # Errors
/// As [`load_checkpoint`] and [`Saved::state_dict`].
///
/// ```
/// use straightline::{ErrorKind, load_state_dict, save_safetensors, tensor};
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("w.bin");
/// save_safetensors(&path, [("w", &tensor([1.0, 2.0])?)])?;
/// let w = &load_state_dict(&path)?["w"];
/// assert_eq!(w.mul(2)?.to_vec::<f32>()?, [2.0, 4.0]);
/// assert!(matches!(w.mul_(2).unwrap_err().kind(), ErrorKind::ReadOnly { .. }));
/// w.copied()?.mul_(2)?;
/// # Ok::<(), straightline::Error>(())
/// ```
#[track_caller]
pub fn load_state_dict(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>> {
    watcher::check("load_state_dict()", "load the file before and close over its tensors")?;
    load(path.as_ref())?.state_dict()
}

impl Saved {
    /// Reads a file that is in memory, as [`load_checkpoint`] does: weights embedded with
    /// `include_bytes!`, or what came over a network. Its tensors lie in these bytes.
    ///
    /// # Errors
    /// As [`load_checkpoint`].
    ///
    /// ```
    /// use straightline::ErrorKind;
    /// use straightline::files::{FileReason, Saved};
    /// let error = Saved::parse(b"\x80\x02}.".as_slice()).unwrap_err();
    /// let ErrorKind::Archive(found) = error.kind() else { panic!("{error}") };
    /// assert!(matches!(found.reason, FileReason::Legacy { .. }));
    /// ```
    #[track_caller]
    pub fn parse(bytes: impl Into<Cow<'static, [u8]>>) -> Result<Saved> {
        watcher::check("Saved::parse()", "read the weights before and close over them")?;
        read(Path::new("<bytes>"), Arc::new(Source::Memory(bytes.into())))
    }
}

fn load(path: &Path) -> Result<Saved> {
    let source = Source::open(path).map_err(|e| FileError::new(path, e))?;
    read(path, Arc::new(source))
}

/// Reads a file, whatever it is.
pub(super) fn read(path: &Path, source: Arc<Source>) -> Result<Saved> {
    let bytes = source.bytes();
    // a safetensors file may begin with the bytes of a pickle, a pickle not with those of the other
    if safetensors::is_safetensors(bytes) {
        let tensors = safetensors::map(path, &source)?;
        let items = tensors.into_iter().map(|(name, t)| (Key::Text(name.into()), Saved::Tensor(t)));
        return Ok(Saved::Dict(items.collect()));
    }
    if let Some(what) = legacy(bytes).filter(|_| !zip::is_zip(bytes)) {
        return Err(FileError::new(path, FileReason::Legacy { what }).into());
    }
    unpack(&Archive::of(path.to_owned(), source)?)
}

/// What a file of PyTorch before 1.6 is.
fn legacy(bytes: &[u8]) -> Option<&'static str> {
    // a protocol from 1 on; a pickle without one begins with the number as a text
    if matches!(bytes, [0x80, 1..=5, ..]) {
        return Some("a bare pickle");
    }
    (bytes.get(257..262) == Some(b"ustar")).then_some("a tar archive")
}

/// Reads the checkpoint in an archive.
pub(super) fn unpack(archive: &Archive) -> Result<Saved> {
    let not =
        |what, instead| FileError::new(archive.path(), FileReason::NotCheckpoint { what, instead });
    if archive.has("constants.pkl") {
        let instead = "in Python, save `torch.jit.load(path).state_dict()`";
        return Err(not("a program of TorchScript", instead).into());
    }
    if archive.has("archive_format") {
        let instead = "in Python, save `torch.export.load(path).state_dict`";
        return Err(not("an exported program (`.pt2`)", instead).into());
    }
    let entry = "data.pkl";
    let program = archive.bytes(entry)?;
    // files of PyTorch before 2.1 do not say
    if archive.has("byteorder")
        && let order = archive.bytes("byteorder")?
        && order != b"little"
    {
        let order = String::from_utf8_lossy(order).chars().take(40).collect();
        return Err(archive.error("byteorder", FileReason::ByteOrder { order }).into());
    }
    let pickle = pickle::run(program).map_err(|reason| archive.error(entry, reason))?;
    let mut reader = Reader {
        archive,
        pickle: &pickle,
        bytes: program.len(),
        budget: pickle.budget,
        texts: vec![None; pickle.texts.len()],
        tensors: HashMap::new(),
        place: Vec::new(),
    };
    reader.value(pickle.root)
}

/// How deep values may lie in others.
const LEVELS: usize = 100;
/// How many dimensions a tensor may have, as in PyTorch.
const DIMENSIONS: usize = 64;
/// How long the name of a storage may be; PyTorch counts them.
const KEY: usize = 100;

/// A step on the way to a value.
#[derive(Clone)]
enum Step {
    Key(Key),
    Place(usize),
}

/// Makes values of what a pickle has built.
struct Reader<'a> {
    archive: &'a Archive,
    pickle: &'a Pickle<'a>,
    /// How long the pickle is.
    bytes: usize,
    /// How many values may still be made: what the pickle uses twice is there twice.
    budget: usize,
    /// Texts that have been used.
    texts: Vec<Option<Arc<str>>>,
    /// Tensors that have been made, by their nodes.
    tensors: HashMap<u32, Tensor>,
    place: Vec<Step>,
}

impl Reader<'_> {
    /// Where the value is that is being made.
    #[cold]
    fn here(&self) -> String {
        // how deep it is there matters less than where it begins
        const STEPS: usize = 12;
        let mut path = String::new();
        for step in self.place.iter().take(STEPS) {
            if !path.is_empty() {
                path.push('.');
            }
            match step {
                Step::Key(key) => path.extend(key.to_string().chars().take(200)),
                Step::Place(place) => path.push_str(&place.to_string()),
            }
        }
        if self.place.len() > STEPS {
            path.push_str(&format!(" and {} deeper", self.place.len() - STEPS));
        }
        path
    }

    #[cold]
    fn error(&self, reason: FileReason) -> Box<FileError> {
        self.archive.error("data.pkl", reason)
    }

    #[cold]
    fn is(&self, what: &'static str) -> Box<FileError> {
        self.error(FileReason::Value { place: self.here(), what })
    }

    /// Counts values that are made.
    fn charge(&mut self, values: usize) -> Result<()> {
        match self.budget.checked_sub(values) {
            Some(left) => self.budget = left,
            None => {
                return Err(self.error(FileReason::Expands { bytes: self.bytes as u64 }).into());
            }
        }
        Ok(())
    }

    fn text(&mut self, number: u32) -> Arc<str> {
        let pickle = self.pickle;
        match self.texts.get_mut(number as usize) {
            Some(slot) => slot.get_or_insert_with(|| pickle.text(number).into()).clone(),
            None => "".into(),
        }
    }

    fn value(&mut self, value: Value) -> Result<Saved> {
        self.charge(1)?;
        Ok(match value {
            Value::None => Saved::None,
            Value::Bool(value) => Saved::Bool(value),
            Value::Int(number) => Saved::Int(number.into()),
            Value::Float(number) => Saved::Float(number),
            Value::Text(number) => Saved::Text(self.text(number)),
            Value::Global(global) => match global.constant() {
                Some(name) => Saved::Constant(name.into()),
                None => {
                    return Err(self.is("a function or a class, and no data: leave it out").into());
                }
            },
            Value::Node(number) => self.node(number)?,
        })
    }

    fn node(&mut self, number: u32) -> Result<Saved> {
        if self.place.len() >= LEVELS {
            let reason = FileReason::TooDeep { place: self.here(), levels: LEVELS };
            return Err(self.error(reason).into());
        }
        let pickle = self.pickle;
        let Some(node) = pickle.node(number) else {
            return Err(self.is("not there").into());
        };
        Ok(match node {
            Node::Tuple(parts) => Saved::Tuple(self.parts(parts)?),
            Node::List(parts) => Saved::List(self.parts(parts)?),
            Node::Set(parts) => Saved::Set(self.parts(parts)?),
            Node::Dict(items) => Saved::Dict(self.dict(items)?),
            Node::Bytes(bytes) => {
                self.charge(bytes.len())?;
                Saved::Bytes((*bytes).into())
            }
            Node::Latin1(text) => {
                let text = pickle.text(*text);
                self.charge(text.len())?;
                let bytes: Option<Arc<[u8]>> =
                    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
                Saved::Bytes(bytes.ok_or_else(|| self.is("bytes with characters above 255"))?)
            }
            Node::Long(number) => Saved::Int(*number),
            Node::Constant(text) => Saved::Constant(self.text(*text)),
            Node::Device(text, number) => {
                let name = pickle.text(*text);
                self.charge(name.len())?;
                Saved::Constant(format!("{name}:{number}").into())
            }
            Node::Storage(_) => {
                return Err(self.is("a storage: save a tensor over it instead").into());
            }
            Node::Tensor(tensor) => {
                if let Some(known) = self.tensors.get(&number) {
                    return Ok(Saved::Tensor(known.clone()));
                }
                let made = self.tensor(tensor)?;
                self.tensors.insert(number, made.clone());
                Saved::Tensor(made)
            }
            Node::Dead(dead) => return Err(self.is(dead.what()).into()),
        })
    }

    fn parts(&mut self, parts: &[Value]) -> Result<Vec<Saved>> {
        // each counts when it is made
        let mut made = Vec::with_capacity(parts.len().min(self.budget));
        for (place, value) in parts.iter().enumerate() {
            self.place.push(Step::Place(place));
            made.push(self.value(*value)?);
            self.place.pop();
        }
        Ok(made)
    }

    fn dict(&mut self, items: &[(Value, Value)]) -> Result<Vec<(Key, Saved)>> {
        // equal texts have equal numbers, so that keys are compared without reading them
        let mut places: HashMap<(u8, u64), usize> = HashMap::new();
        let mut last: Vec<(Key, Value)> = Vec::with_capacity(items.len().min(self.budget));
        for (key, value) in items {
            let (number, key) = match *key {
                Value::Text(text) => ((0, u64::from(text)), Key::Text(self.text(text))),
                Value::Int(number) => ((1, number as u64), Key::Int(number)),
                Value::Bool(value) => ((2, value.into()), Key::Bool(value)),
                Value::None => ((3, 0), Key::None),
                _ => {
                    let what = "a dict with keys that are neither texts nor integers: save a list of pairs";
                    return Err(self.is(what).into());
                }
            };
            match places.get(&number).and_then(|place| last.get_mut(*place)) {
                Some(slot) => slot.1 = *value,
                None => {
                    places.insert(number, last.len());
                    last.push((key, *value));
                }
            }
        }
        // the others count when they are made
        self.charge(items.len() - last.len())?;
        let mut made = Vec::with_capacity(last.len().min(self.budget));
        for (key, value) in last {
            self.place.push(Step::Key(key.clone()));
            let value = self.value(value)?;
            self.place.pop();
            made.push((key, value));
        }
        Ok(made)
    }

    /// The integers of a tuple, each of which is not negative.
    fn integers(&self, value: Value) -> Result<Vec<i64>> {
        let found = match value {
            Value::Node(number) => match self.pickle.node(number) {
                Some(Node::Tuple(parts) | Node::List(parts)) if parts.len() <= DIMENSIONS => parts
                    .iter()
                    .map(|part| match part {
                        Value::Int(number @ 0..) => Some(*number),
                        _ => None,
                    })
                    .collect(),
                _ => None,
            },
            _ => None,
        };
        let what = "a tensor whose sizes and strides are no more than 64 numbers from 0 on";
        Ok(found.ok_or_else(|| self.is(what))?)
    }

    fn tensor(&self, tensor: &pickle::Tensor) -> Result<Tensor> {
        let Some(dtype) = tensor.dtype.dtype() else {
            let (place, dtype) = (self.here(), tensor.dtype.name());
            return Err(self.error(FileReason::DType { tensor: place, dtype }).into());
        };
        let (sizes, strides) = (self.integers(tensor.sizes)?, self.integers(tensor.strides)?);
        let key = self.pickle.text(tensor.storage.key);
        if key.len() > KEY {
            return Err(self.is("a tensor whose storage has a long name").into());
        }
        let entry = format!("data/{key}");
        let bytes = self.archive.bytes(&entry)?.len() as u64;
        let element = tensor.storage.dtype.map_or(1, DTypeName::size);
        let said = (tensor.storage.elements as u64).saturating_mul(element);
        if said > bytes {
            let reason = FileReason::Storage { tensor: self.here(), said, bytes };
            return Err(self.error(reason).into());
        }
        let fits = sizes.len() == strides.len()
            && tensor.offset >= 0
            && layout::checked_extent(&sizes, &strides, tensor.offset)
                .and_then(|elements| (elements as u64).checked_mul(dtype.size() as u64))
                .is_some_and(|reached| reached <= bytes);
        if !fits {
            let offset = tensor.offset;
            let tensor = self.here();
            let reason = FileReason::Outside { tensor, dtype, sizes, strides, offset, bytes };
            return Err(self.error(reason).into());
        }
        let made = self.archive.tensor(&entry, dtype, &sizes, &strides, tensor.offset)?;
        Ok(match tensor.neg || tensor.conj && dtype.is_complex() {
            true => made.with_math_bits(tensor.conj && dtype.is_complex(), tensor.neg),
            false => made,
        })
    }
}
