//! `run`: a model file called once, and what it gives.

use crate::bench::duration;
use crate::error::{CliError, Result, plain};
use crate::model::{self, Model, ModelOptions};
use crate::progress;
use crate::workloads::{self, Setting};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use straightline::program::{CompiledProgram, Leaf, Program};
use straightline::{CompileEvent, CompileOptions, ErrorKind, Tensor, save_safetensors};

/// Runs a model file: a program that PyTorch has exported with torch.export.save
#[derive(Debug, clap::Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Options {
    /// The model file
    #[arg(value_name = "MODEL.pt2")]
    model_file: String,
    /// Saves the results, by their names; tensors that the call writes are not among them
    #[arg(long, value_name = "FILE.safetensors")]
    output: Option<PathBuf>,
    /// Calls one operator after the other instead of compiling
    #[arg(long)]
    eager: bool,
    #[command(flatten)]
    model: ModelOptions,
}

/// Calls after the first one: as many as fit in this time.
const LATER: Duration = Duration::from_millis(200);
const MOST_CALLS: usize = 20;
/// Tensors that the call has written, of which the values are shown.
const MOST_WRITTEN: usize = 12;

pub(crate) fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    if let Some(path) = &options.output {
        check_folder(path)?;
        let read = [Some(Path::new(&options.model_file)), options.model.input.as_deref()];
        not_read(path, read.into_iter().flatten())?;
    }
    if let Some(error) = workload(&options.model_file) {
        return Err(error);
    }
    let working = progress::spinner(format!("loading {}", options.model_file));
    // the first call of any operator registers all of them
    let (_, start) = timed(|| Ok(Tensor::scalar(0.0)?.neg()?))?;
    let (program, loading) = timed(|| model::load(&options.model_file, &options.model))?;
    model::needed(&program, &options.model)?;
    let model = Model::new(program, &options.model)?;
    // before a call may write them
    let inputs = inputs_shown(&model, &options.model)?;

    let call = Call::new(&model, options.eager);
    working.now(if options.eager { "the first call" } else { "capture and compilation" });
    model.start.restore()?;
    let (results, first) = timed(|| Ok(kept(call.call(&model.inputs)?)?)).map_err(|e| match e {
        CliError::Library(e) if matches!(e.kind(), ErrorKind::DataDependent { .. }) => {
            CliError::Usage(format!("{}; `--eager` runs the model without compiling it", plain(&e)))
        }
        other => other,
    })?;
    let written = model.start.changed()?;
    working.now("later calls");
    let later = later(&call, &model)?;
    drop(working);

    write!(out, "{}{inputs}", heading(&model.program))?;
    writeln!(out, "results")?;
    for (output, leaf) in model.program.outputs().iter().zip(&results) {
        match leaf {
            // the name of a constant is its value
            Leaf::Tensor(_) => writeln!(out, "  {}", model::line(&output.name, leaf)?)?,
            constant => writeln!(out, "  the constant {constant}")?,
        }
    }
    if !written.is_empty() {
        writeln!(out, "written by the call")?;
        let all = written.len();
        for (name, tensor) in written.into_iter().take(MOST_WRITTEN) {
            writeln!(out, "  {}", model::line(&name, &tensor.into())?)?;
        }
        if all > MOST_WRITTEN {
            writeln!(out, "  and {} more", all - MOST_WRITTEN)?;
        }
    }
    let us = |d: Duration| duration(d.as_secs_f64() * 1e6);
    writeln!(out, "time")?;
    writeln!(out, "  start       {}, all operators are registered", us(start))?;
    writeln!(out, "  loading     {}", us(loading))?;
    writeln!(out, "  first call  {}{}", us(first), call.note())?;
    writeln!(out, "  later call  {}", us(later))?;
    if let Some(path) = &options.output {
        let saved = save(&model.program, &results, path)?;
        writeln!(out, "saved {} to {}", model::count(saved, "tensor"), path.display())?;
    }
    Ok(())
}

/// The error for the name of a workload, whose inputs and results have no names.
fn workload(name: &str) -> Option<CliError> {
    let known = match workloads::one(name, &Setting::default()) {
        Ok(_) => !model::is_model(name) && !model::may_be_file(name),
        Err(e) => matches!(e, CliError::AmbiguousWorkload { .. }),
    };
    known.then(|| {
        CliError::Usage(format!(
            "`{name}` is a workload, which bench, dump, trace, profile and explain take; run takes a model file \
             (FILE.pt2)"
        ))
    })
}

fn timed<T>(f: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let began = Instant::now();
    let value = f()?;
    Ok((value, began.elapsed()))
}

/// What a call runs.
enum Call<'a> {
    Eager(&'a Program),
    Compiled(CompiledProgram),
}

impl<'a> Call<'a> {
    fn new(model: &'a Model, eager: bool) -> Call<'a> {
        match eager {
            true => Call::Eager(&model.program),
            false => Call::Compiled(model.program.compile(CompileOptions::default())),
        }
    }

    fn call(&self, inputs: &Vec<Leaf>) -> straightline::Result<Vec<Leaf>> {
        match self {
            Call::Eager(program) => program.run(inputs),
            Call::Compiled(compiled) => compiled.call(inputs),
        }
    }

    /// What the first call was.
    fn note(&self) -> String {
        let Call::Compiled(compiled) = self else { return ", eager".to_owned() };
        let fallback = compiled.explain().events.into_iter().find_map(|event| match event {
            CompileEvent::EagerFallback { reason } => Some(reason),
            _ => None,
        });
        match fallback {
            Some(reason) => format!(", eager, since it cannot be compiled: {reason}"),
            None => ", with capture and compilation".to_owned(),
        }
    }
}

/// The results as they are now: later calls may write what they share memory with.
fn kept(results: Vec<Leaf>) -> straightline::Result<Vec<Leaf>> {
    let each = results.into_iter().map(|leaf| match leaf {
        Leaf::Tensor(t) => Ok(Leaf::Tensor(t.detach()?.copied()?)),
        constant => Ok(constant),
    });
    each.collect()
}

/// The median of a few calls, each from the start.
fn later(call: &Call<'_>, model: &Model) -> Result<Duration> {
    let mut all = Vec::new();
    let began = Instant::now();
    while all.is_empty() || began.elapsed() < LATER && all.len() < MOST_CALLS {
        model.start.restore()?;
        let (results, took) = timed(|| Ok(call.call(&model.inputs)?))?;
        drop(results);
        all.push(took);
    }
    all.sort_unstable();
    Ok(all.get(all.len() / 2).copied().unwrap_or_default())
}

/// `mlp: 24 calls, 7 weights (1.2 kB)`.
fn heading(program: &Program) -> String {
    let weights = program.weights();
    let size = |t: &Tensor| t.numel() as f64 * t.dtype().size() as f64;
    let total: f64 = weights.iter().map(|w| size(&w.tensor)).sum();
    let held = match weights.len() {
        0 => "no weights".to_owned(),
        n => format!("{} ({})", model::count(n, "weight"), model::bytes(total)),
    };
    format!("{}: {}, {held}\n", program.name(), model::count(program.calls(), "call"))
}

/// The inputs with the beginning of their values.
fn inputs_shown(model: &Model, options: &ModelOptions) -> Result<String> {
    if model.inputs.is_empty() {
        return Ok("no inputs\n".to_owned());
    }
    let from = match &options.input {
        Some(path) => format!(", from {}", path.display()),
        None if model.inputs.iter().any(|i| matches!(i, Leaf::Tensor(_))) => {
            format!(", made up from seed {}", options.seed())
        }
        None => String::new(),
    };
    let mut text = format!("inputs{from}\n");
    for (input, leaf) in model.program.inputs().iter().zip(&model.inputs) {
        text.push_str(&format!("  {}\n", model::line(&input.name, leaf)?));
    }
    Ok(text)
}

/// A file that cannot be written is told before the model runs.
fn check_folder(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let message = match (folder.is_dir(), path.is_dir()) {
        (_, true) => "the results are saved to a file, and this is a folder",
        (false, _) => "the results cannot be saved there: there is no such folder",
        _ => return Ok(()),
    };
    Err(CliError::File { path: path.display().to_string(), message: message.to_owned() })
}

/// Refuses to write over what the command reads.
fn not_read<'a>(path: &Path, read: impl Iterator<Item = &'a Path>) -> Result<()> {
    let Ok(at) = path.canonicalize() else { return Ok(()) };
    for other in read {
        if other.canonicalize().is_ok_and(|other| other == at) {
            let message = "the results would be written over what is read: give another file";
            return Err(CliError::File {
                path: path.display().to_string(),
                message: message.to_owned(),
            });
        }
    }
    Ok(())
}

/// Saves the results that are tensors; how many.
fn save(program: &Program, results: &[Leaf], path: &Path) -> Result<usize> {
    let mut names = BTreeSet::new();
    let mut all: Vec<(String, &Tensor)> = Vec::new();
    for (at, (output, leaf)) in program.outputs().iter().zip(results).enumerate() {
        if let Leaf::Tensor(t) = leaf {
            // one value may be several results
            let mut name = output.name.clone();
            while !names.insert(name.clone()) {
                name = format!("{name}.{at}");
            }
            all.push((name, t));
        }
    }
    let count = all.len();
    save_safetensors(path, all)?;
    Ok(count)
}
