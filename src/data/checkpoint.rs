//! Files to go on from after the process has ended, whenever that was.
//!
//! A file is written beside the place where it belongs, brought to the disk, and then renamed, which
//! happens at once or not at all; then the folder is brought to the disk. So what has the name of a
//! checkpoint is a whole one, at every moment.

use crate::error::{Error, Result};
use crate::files::load_safetensors;
use crate::files::safetensors::serialise;
use crate::nn::{Module, StateDict};
use crate::optim::{LrScheduler, Optimizer, Schedule};
use crate::tensor::{Generator, Tensor};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use straightline_catalog::DType;

/// Everything that a training consists of at a step: parameters, the states of optimiser, schedule
/// and random numbers. What goes on from it goes on bit for bit.
///
/// ```
/// use straightline::data::Checkpoint;
/// use straightline::nn::{Linear, Module};
/// use straightline::optim::{Adam, Optimizer};
/// use straightline::{Generator, Tensor};
///
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("run.safetensors");
/// let net = Linear::new(2, 2)?;
/// let optimizer = Adam::new(net.parameters(), 0.1)?;
/// Checkpoint::new(120)
///     .with_module("model", &net)?
///     .with_optimizer("optimizer", &optimizer)?
///     .with_generator("random", Generator::default_cpu())?
///     .save(&path)?;
///
/// let saved = Checkpoint::load(&path)?;
/// saved.restore_module("model", &net)?;
/// saved.restore_optimizer("optimizer", &optimizer)?;
/// saved.restore_generator("random", Generator::default_cpu())?;
/// assert_eq!(saved.step(), 120);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoint {
    step: u64,
    tensors: StateDict,
}

/// What the number of steps is called in a file.
const STEP: &str = "step";

impl Checkpoint {
    /// A checkpoint of nothing, at this step.
    pub fn new(step: u64) -> Checkpoint {
        Checkpoint { step, tensors: StateDict::new() }
    }

    /// The step.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// With copies of tensors, under a name.
    ///
    /// # Errors
    /// There is no memory for them, or they are called as others are.
    pub fn with(mut self, name: &str, tensors: &StateDict) -> Result<Checkpoint> {
        for (key, t) in tensors {
            let full = format!("{name}/{key}");
            let copy = t.detach()?.copied()?;
            ensure_value!(
                self.tensors.insert(full, copy).is_none(),
                "a checkpoint has `{name}/{key}` already"
            );
        }
        Ok(self)
    }

    /// With a module's parameters and saved buffers.
    ///
    /// # Errors
    /// As [`Checkpoint::with`].
    pub fn with_module(self, name: &str, module: &(impl Module + ?Sized)) -> Result<Checkpoint> {
        self.with(name, &module.state_dict()?)
    }

    /// With an optimiser's state and learning rates.
    ///
    /// # Errors
    /// As [`Checkpoint::with`].
    pub fn with_optimizer(self, name: &str, optimizer: &dyn Optimizer) -> Result<Checkpoint> {
        self.with(name, &optimizer.state_dict()?)
    }

    /// With where a schedule is.
    ///
    /// # Errors
    /// As [`Checkpoint::with`].
    pub fn with_scheduler<S: Schedule>(
        self,
        name: &str,
        scheduler: &LrScheduler<S>,
    ) -> Result<Checkpoint> {
        self.with(name, &scheduler.state_dict()?)
    }

    /// With where a generator's random numbers are.
    ///
    /// # Errors
    /// As [`Checkpoint::with`].
    pub fn with_generator(self, name: &str, generator: &Generator) -> Result<Checkpoint> {
        self.with(name, &[("state".to_owned(), generator.state()?)].into())
    }

    /// The tensors under a name.
    ///
    /// # Errors
    /// There are none.
    pub fn get(&self, name: &str) -> Result<StateDict> {
        let prefix = format!("{name}/");
        let found = self
            .tensors
            .iter()
            .filter_map(|(key, t)| Some((key.strip_prefix(&prefix)?.to_owned(), t.clone())));
        let found: StateDict = found.collect();
        ensure_value!(!found.is_empty(), "the checkpoint has nothing called `{name}`");
        Ok(found)
    }

    /// Copies a module's parameters and buffers back.
    ///
    /// # Errors
    /// As [`Checkpoint::get`] and [`Module::load_state_dict`].
    pub fn restore_module(&self, name: &str, module: &(impl Module + ?Sized)) -> Result<()> {
        module.load_state_dict(&self.get(name)?, true).map(drop)
    }

    /// Copies an optimiser's state and learning rates back.
    ///
    /// # Errors
    /// As [`Checkpoint::get`] and [`Optimizer::load_state_dict`].
    pub fn restore_optimizer(&self, name: &str, optimizer: &dyn Optimizer) -> Result<()> {
        optimizer.load_state_dict(&self.get(name)?)
    }

    /// Puts a schedule where it was.
    ///
    /// # Errors
    /// As [`Checkpoint::get`] and [`LrScheduler::load_state_dict`].
    pub fn restore_scheduler<S: Schedule>(
        &self,
        name: &str,
        scheduler: &LrScheduler<S>,
    ) -> Result<()> {
        scheduler.load_state_dict(&self.get(name)?)
    }

    /// Puts a generator's random numbers where they were.
    ///
    /// # Errors
    /// As [`Checkpoint::get`] and [`Generator::set_state`].
    pub fn restore_generator(&self, name: &str, generator: &Generator) -> Result<()> {
        match self.get(name)?.get("state") {
            Some(state) => generator.set_state(state),
            None => Err(Error::value(format!("`{name}` of the checkpoint is no generator's"))),
        }
    }

    /// Writes a safetensors file, which is the old one or the new one at every moment.
    ///
    /// # Errors
    /// The file cannot be written; the old one is there then.
    #[track_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let step = Tensor::with(DType::I64).literal(self.step as i64)?;
        let tensors = self.tensors.iter().map(|(name, t)| (name.as_str(), t));
        let bytes = serialise(path, tensors.chain([(STEP, &step)]))?;
        write_whole(path, &bytes).map_err(|e| Error::file(path, e))
    }

    /// Reads what [`save`](Checkpoint::save) has written.
    ///
    /// # Errors
    /// The file cannot be read, or is no checkpoint.
    #[track_caller]
    pub fn load(path: impl AsRef<Path>) -> Result<Checkpoint> {
        let path = path.as_ref();
        let mut tensors = load_safetensors(path)?;
        let step = tensors.remove(STEP).ok_or_else(|| {
            Error::file(path, "this is no checkpoint: it does not say at which step it was made")
        })?;
        Ok(Checkpoint { step: step.item::<i64>()? as u64, tensors })
    }
}

/// Writes a file beside its place, and moves it there when it is whole and on the disk.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let name = path.file_name().ok_or(std::io::ErrorKind::InvalidInput)?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}{UNFINISHED}", std::process::id()));
    let beside = folder.join(beside);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    if written.is_err() {
        // it may not even exist
        let _ = fs::remove_file(&beside);
    }
    written?;
    sync_folder(folder)
}

/// How files end that are being written.
const UNFINISHED: &str = ".unfinished";

/// Brings to the disk which files a folder has.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Other systems do so by themselves, or have no way to ask for it.
#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> std::io::Result<()> {
    Ok(())
}

/// A folder of checkpoints, of which the last ones are kept. One process at a time writes into it.
///
/// ```
/// use straightline::data::{Checkpoint, Checkpoints};
/// let folder = tempfile::tempdir().unwrap();
/// let checkpoints = Checkpoints::new(folder.path(), 2)?;
/// assert!(checkpoints.latest()?.is_none());
/// for step in [10, 20, 30] {
///     checkpoints.save(&Checkpoint::new(step))?;
/// }
/// assert_eq!(checkpoints.latest()?.unwrap().step(), 30);
/// assert_eq!(checkpoints.steps()?, [20, 30]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    keep: usize,
}

impl Checkpoints {
    /// A folder, which is made unless it is there, with so many checkpoints at most. What a process
    /// that was killed has left unfinished is removed.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    #[track_caller]
    pub fn new(folder: impl AsRef<Path>, keep: usize) -> Result<Checkpoints> {
        let folder = folder.as_ref().to_owned();
        let checkpoints = Checkpoints { folder, keep: keep.max(1) };
        let folder = &checkpoints.folder;
        fs::create_dir_all(folder).map_err(|e| Error::file(folder, e))?;
        for name in checkpoints.names()? {
            if name.starts_with(".step-") && name.ends_with(UNFINISHED) {
                let path = folder.join(&name);
                fs::remove_file(&path).map_err(|e| Error::file(&path, e))?;
            }
        }
        Ok(checkpoints)
    }

    fn names(&self) -> Result<Vec<String>> {
        let entries = fs::read_dir(&self.folder).map_err(|e| Error::file(&self.folder, e))?;
        let names = entries.map(|entry| {
            let entry = entry.map_err(|e| Error::file(&self.folder, e))?;
            Ok(entry.file_name().to_string_lossy().into_owned())
        });
        names.collect()
    }

    fn path(&self, step: u64) -> PathBuf {
        self.folder.join(format!("step-{step:012}.safetensors"))
    }

    /// The steps of which there are checkpoints, in order.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn steps(&self) -> Result<Vec<u64>> {
        let step_of = |name: &String| {
            name.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse::<u64>().ok()
        };
        let mut steps: Vec<u64> = self.names()?.iter().filter_map(step_of).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    /// Writes a checkpoint under its step, then removes those that are too old.
    ///
    /// # Errors
    /// It cannot be written; older ones are there then.
    #[track_caller]
    pub fn save(&self, checkpoint: &Checkpoint) -> Result<()> {
        checkpoint.save(self.path(checkpoint.step))?;
        let steps = self.steps()?;
        for old in &steps[..steps.len().saturating_sub(self.keep)] {
            let path = self.path(*old);
            fs::remove_file(&path).map_err(|e| Error::file(&path, e))?;
        }
        Ok(())
    }

    /// The checkpoint of the last step, if there is any. A file that cannot be read, since a disk was
    /// full or a copy has not come to its end, is warned of, and the one before it is taken.
    ///
    /// # Errors
    /// The folder cannot be read, or none of the files.
    #[track_caller]
    pub fn latest(&self) -> Result<Option<Checkpoint>> {
        let mut failed = None;
        for step in self.steps()?.iter().rev() {
            match Checkpoint::load(self.path(*step)) {
                Ok(checkpoint) => return Ok(Some(checkpoint)),
                Err(e) => {
                    tracing::warn!("the checkpoint of step {step} is left out: {e}");
                    failed.get_or_insert(e);
                }
            }
        }
        failed.map_or(Ok(None), Err)
    }
}
