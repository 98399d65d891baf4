//! `dump`: a workload, a model file or a graph file at one stage of its compilation.

use super::export;
use crate::error::{CliError, Result};
use crate::model;
use crate::progress;
use crate::workloads::{self, Setting};
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use straightline::{Executable, Lowered, Traced, cuda};
use straightline_passes::ir::graph::Graph;
use straightline_passes::ir::verify::structure;

/// Prints one stage of the compilation of a workload, a model file or a graph file
#[derive(Debug, clap::Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Options {
    /// A workload's name or the beginning of one name, a model file, or a file with a graph's text
    /// (FILE.sl)
    #[arg(value_name = "WORKLOAD|MODEL.pt2|FILE.sl")]
    what: String,
    /// Which stage
    #[arg(long, value_enum, default_value_t = Stage::Captured)]
    stage: Stage,
    /// How to write it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The compute capability of the GPU for `ptx` and `sass`: 90 is 9.0
    #[arg(long, value_name = "CAPABILITY", default_value_t = 90)]
    arch: u32,
    #[command(flatten)]
    setting: Setting,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Stage {
    /// Of a model file: sizes, inputs, weights and calls, as the file has them
    Program,
    /// The graph as it was captured (or read from the file)
    Captured,
    /// The graph after decomposition and simplification
    Rewritten,
    /// Fused kernels and calls of runtime kernels, as loops over buffers
    Loops,
    /// Cranelift's intermediate code
    Clif,
    /// The machine code, disassembled
    Asm,
    /// What a call does: steps, buffers, sizes
    Plan,
    /// The function on a GPU: CUDA C of its kernels
    Cuda,
    /// The same as NVRTC compiles it
    Ptx,
    /// The same as machine code, disassembled by `nvdisasm`
    Sass,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Format {
    /// For people; a graph in this form can be read again
    Text,
    /// Graphviz: for the graphs, the loops and the plan
    Dot,
    /// For programs
    Json,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", format!("{self:?}").to_lowercase())
    }
}

pub(crate) fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    let path = Path::new(&options.what);
    let is_graph = path.extension().is_some_and(|e| e == "sl") || path.is_file();
    let text = if options.stage == Stage::Program {
        program(options)?
    } else if is_graph && !model::is_model(&options.what) {
        let traced = Traced::from_graph(read(path)?);
        render(&traced, options).map_err(|e| match e {
            // the message does not name the graph otherwise
            CliError::Library(e) => file_error(path, e.to_string()),
            e => e,
        })?
    } else {
        let _progress = progress::spinner(format!("compiling {}", options.what));
        let workload = workloads::one(&options.what, &options.setting)?;
        render(&workload.require(&options.setting)?.compile().trace()?, options)?
    };
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        writeln!(out)?;
    }
    Ok(())
}

/// A model file as it is.
fn program(options: &Options) -> Result<String> {
    let Options { what, format, setting, stage, .. } = options;
    if !model::is_model(what) {
        return Err(CliError::Usage(format!(
            "`{what}` is no model file (FILE.pt2): only these have a stage `{stage}`"
        )));
    }
    if *format != Format::Text {
        return Err(CliError::NoSuchFormat {
            stage: stage.to_string(),
            format: format!("{format:?}").to_lowercase(),
            available: "text".to_owned(),
        });
    }
    Ok(model::load(what, &setting.model)?.to_string())
}

fn file_error(path: &Path, message: String) -> CliError {
    CliError::File { path: path.display().to_string(), message }
}

/// Reads a graph. What its operators say of it is asked at each stage.
fn read(path: &Path) -> Result<Graph> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        let what = match e.kind() {
            std::io::ErrorKind::InvalidData => {
                "it is no text, and a graph that `dump` has printed was expected".to_owned()
            }
            _ => e.to_string(),
        };
        file_error(path, what)
    })?;
    let graph = Graph::parse(&text).map_err(|e| file_error(path, e.to_string()))?;
    structure(&graph).map_err(|e| file_error(path, e.to_string()))?;
    Ok(graph)
}

fn render(traced: &Traced, options: &Options) -> Result<String> {
    let Options { stage, format, arch, .. } = *options;
    if stage == Stage::Captured {
        traced.check()?;
        return Ok(graph(traced.graph(), format));
    }
    if matches!(stage, Stage::Cuda | Stage::Ptx | Stage::Sass) {
        let there = traced.on(cuda::device(0)).lower()?.compile()?;
        return of_gpu(&there, stage, format, arch);
    }
    let lowered = traced.lower()?;
    match stage {
        Stage::Captured | Stage::Rewritten => Ok(graph(lowered.graph(), format)),
        Stage::Loops => Ok(match format {
            Format::Text => lowered.to_string(),
            Format::Dot => export::dot(lowered.schedule()),
            Format::Json => pretty(&export::json(lowered.schedule(), true)),
        }),
        Stage::Plan => plan(&lowered, format),
        _ => code(&lowered, stage, format),
    }
}

fn graph(graph: &Graph, format: Format) -> String {
    match format {
        Format::Text => graph.to_string(),
        Format::Dot => graph.to_dot(),
        Format::Json => graph.to_json(),
    }
}

fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}")
}

fn plan(lowered: &Lowered, format: Format) -> Result<String> {
    if format == Format::Dot {
        return Ok(export::dot(lowered.schedule()));
    }
    let executable = lowered.compile()?;
    if format == Format::Text {
        return Ok(executable.to_string());
    }
    let mut value = export::json(lowered.schedule(), false);
    value["code_bytes"] = executable.code_bytes().into();
    Ok(pretty(&value))
}

/// The code of a function on a GPU.
fn of_gpu(there: &Executable, stage: Stage, format: Format, arch: u32) -> Result<String> {
    if format == Format::Dot {
        return Err(no_dot(stage));
    }
    let text = match stage {
        Stage::Ptx => {
            let target = cuda::Target::Ptx { capability: arch };
            String::from_utf8_lossy(&there.binary(target)?.unwrap_or_default()).into_owned()
        }
        Stage::Sass => {
            let target = cuda::Target::Cubin { capability: arch };
            disassembled(&there.binary(target)?.unwrap_or_default())?
        }
        _ => there.cuda().unwrap_or_default().to_owned(),
    };
    Ok(match format {
        Format::Json => {
            pretty(&serde_json::json!({ "stage": stage.to_string(), "arch": arch, "text": text }))
        }
        _ => text,
    })
}

/// What `nvdisasm` says of machine code: that of `CUDA_HOME`, or of the path.
fn disassembled(cubin: &[u8]) -> Result<String> {
    let beside = std::env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin/nvdisasm"));
    let tool = beside.filter(|p| p.is_file()).unwrap_or_else(|| "nvdisasm".into());
    let path = std::env::temp_dir().join(format!("straightline-{}.cubin", std::process::id()));
    std::fs::write(&path, cubin).map_err(|e| file_error(&path, e.to_string()))?;
    let ran = Command::new(&tool).arg(&path).output();
    std::fs::remove_file(&path).map_err(|e| file_error(&path, e.to_string()))?;
    let ran = ran.map_err(|e| {
        CliError::Usage(format!(
            "machine code is disassembled by `{}`, which can not be run ({e}): it is in the CUDA toolkit, and in the \
             Python package nvidia-cuda-nvdisasm; put it in the path",
            tool.display()
        ))
    })?;
    match ran.status.success() {
        true => Ok(String::from_utf8_lossy(&ran.stdout).into_owned()),
        false => Err(CliError::Usage(format!(
            "{}: {}",
            tool.display(),
            String::from_utf8_lossy(&ran.stderr).trim()
        ))),
    }
}

fn no_dot(stage: Stage) -> CliError {
    CliError::NoSuchFormat {
        stage: stage.to_string(),
        format: "dot".to_owned(),
        available: "text or json".to_owned(),
    }
}

fn code(lowered: &Lowered, stage: Stage, format: Format) -> Result<String> {
    if format == Format::Dot {
        return Err(no_dot(stage));
    }
    let executable = lowered.compile_with_text(true)?;
    if executable.cuda().is_some() {
        return Err(CliError::Usage(format!(
            "the graph is of a GPU, for which there is no stage `{stage}`: take `cuda`, `ptx` or `sass`"
        )));
    }
    let text = match stage {
        Stage::Asm => executable.asm(),
        _ => executable.clif(),
    };
    let text = text.unwrap_or_default();
    Ok(match format {
        Format::Json => pretty(&serde_json::json!({
            "stage": stage.to_string(),
            "code_bytes": executable.code_bytes(),
            "text": text,
        })),
        _ => text.to_owned(),
    })
}
