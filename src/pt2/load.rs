//! From an archive to a program.

use super::codes;
use super::expressions::Symbols;
use super::graph::{self, value_name};
use super::json::json;
use super::schema::{
    Argument, ExportedProgram, InputSpec, OutputSpec, SymArgument, SymInt, TensorMeta, TensorName,
    Versioned,
};
use super::weights::Weights;
use crate::error::{Error, Result};
use crate::files::archive::Archive;
use crate::program::{
    Fate, Input, InputKind, Leaf, Missing, Output, Parts, Program, ProgramError, Size, Source,
    Trees, Weight, WeightKind, written,
};
use crate::tensor::watcher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// The major version of the schema that can be read.
const MAJOR: i64 = 8;

/// Which program, and how it is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The program's name, where an archive has several; without it there must be one, or one that is
    /// called `model`.
    pub model: Option<String>,
}

pub(super) fn load(path: &Path, options: &Options) -> Result<Program> {
    watcher::check("pt2::load()", "load the program before and close over it")?;
    let archive = Archive::open(path)?;
    let name = model_name(&archive, options)?;
    let entry = format!("models/{name}.json");
    check_archive(&archive)?;
    if !archive.has(&entry) {
        return Err(no_model(&archive, &name));
    }
    let bytes = archive.bytes(&entry)?;
    let Versioned { schema_version } = json(&entry, bytes)?;
    if schema_version.major != MAJOR {
        return Err(ProgramError::Version {
            entry,
            found: format!("{}.{}", schema_version.major, schema_version.minor),
            supported: "8",
            advice: "export the model with a release of PyTorch that writes it (2.8 to 2.15)",
        }
        .into());
    }
    let exported: ExportedProgram = json(&entry, bytes)?;
    program(&archive, &name, &entry, &exported)
}

/// The name of the archive's program.
fn model_name(archive: &Archive, options: &Options) -> Result<String> {
    let stem = |name: &str| name.strip_prefix("models/")?.strip_suffix(".json").map(str::to_owned);
    let all: Vec<String> = archive.names().filter_map(stem).collect();
    if let Some(name) = &options.model {
        if !all.is_empty() && !all.contains(name) {
            let reason = format!("there is no program `{name}`, but: {}", all.join(", "));
            return Err(ProgramError::Description { entry: "models/".into(), reason }.into());
        }
        return Ok(name.clone());
    }
    match &all[..] {
        [one] => Ok(one.clone()),
        several if several.iter().any(|n| n == "model") => Ok("model".into()),
        [] => Err(no_model(archive, "model")),
        several => Err(ProgramError::Description {
            entry: "models/".into(),
            reason: format!("there are several programs, say which one: {}", several.join(", ")),
        }
        .into()),
    }
}

/// The error of an archive without the program.
fn no_model(archive: &Archive, name: &str) -> Error {
    let has = |prefix: &str| archive.names().any(|n| n.starts_with(prefix));
    let reason = if has("data/aotinductor/") {
        "the archive is a package of AOTInductor, machine code without a graph: save the program itself with \
         `torch.export.save`"
    } else if has("serialized_exported_program.json") {
        "the archive is of PyTorch 2.7 or before: load it there and save it again with `torch.export.save` of a later \
         release"
    } else if has("constants.pkl") {
        "the archive is a program of TorchScript, which is not read: export the model with `torch.export`"
    } else if has("data.pkl") {
        "the archive is a checkpoint of `torch.save` and no program: `load_checkpoint` reads it"
    } else {
        "the archive has no such entry, and so no program: `torch.export.save` writes one"
    };
    let elsewhere = archive.names().find(|n| n.ends_with(&format!("/models/{name}.json")));
    if let Some(elsewhere) = elsewhere {
        let other = archive.names().find(|n| n.split('/').next() != elsewhere.split('/').next());
        let reason = format!(
            "all entries of an archive are in one folder, and here are `{elsewhere}` and `{}`",
            other.unwrap_or_default()
        );
        return ProgramError::Description { entry: elsewhere.to_owned(), reason }.into();
    }
    ProgramError::Description { entry: format!("models/{name}.json"), reason: reason.into() }.into()
}

/// Checks what the archive says about itself.
fn check_archive(archive: &Archive) -> Result<()> {
    let text =
        |entry: &str| archive.entry(entry).map(|b| String::from_utf8_lossy(b).trim().to_owned());
    let description = |entry: &str, reason: String| -> Error {
        ProgramError::Description { entry: entry.to_owned(), reason }.into()
    };
    if let Some(format) = text("archive_format").filter(|f| f != "pt2") {
        return Err(description(
            "archive_format",
            format!("the format is `{format}`, and not `pt2`"),
        ));
    }
    if let Some(found) = text("archive_version").filter(|v| v != "0") {
        return Err(ProgramError::Version {
            entry: "archive_version".into(),
            found,
            supported: "0",
            advice: "save the program with an earlier release of PyTorch",
        }
        .into());
    }
    if let Some(order) = text("byteorder").filter(|o| o != "little") {
        return Err(description(
            "byteorder",
            format!(
                "the bytes are in {order}-endian order, and only little-endian archives are read"
            ),
        ));
    }
    Ok(())
}

fn program(
    archive: &Archive,
    name: &str,
    entry: &str,
    exported: &ExportedProgram,
) -> Result<Program> {
    let graph = &exported.graph_module.graph;
    let signature = &exported.graph_module.signature;
    let in_entry = |reason: String| ProgramError::Description { entry: entry.to_owned(), reason };
    let fits = |n: usize, specs: usize, what: &str| match n == specs {
        true => Ok(()),
        false => Err(in_entry(format!("the graph has {n} {what}, and the signature {specs}"))),
    };
    fits(graph.inputs.len(), signature.input_specs.len(), "inputs")?;
    fits(graph.outputs.len(), signature.output_specs.len(), "outputs")?;
    let mut missing = Missing::default();
    let body = graph::body(graph, &mut missing, 0)?;
    missing.check()?;

    let mut symbols = Symbols::default();
    let mut named = Vec::new();
    let mut inputs = Vec::new();
    let mut sources = Vec::new();
    for (argument, spec) in graph.inputs.iter().zip(&signature.input_specs) {
        let mut weight = |arg: &TensorName, name: &str, kind| {
            named.push((name.to_owned(), kind));
            same_value(argument, &arg.name).map_err(in_entry)?;
            Ok::<_, ProgramError>(Source::Weight(named.len() - 1))
        };
        sources.push(match spec {
            InputSpec::Parameter(p) => weight(&p.arg, &p.parameter_name, WeightKind::Parameter)?,
            InputSpec::Buffer(b) => {
                weight(&b.arg, &b.buffer_name, WeightKind::Buffer { persistent: b.persistent })?
            }
            InputSpec::TensorConstant(c) => {
                weight(&c.arg, &c.tensor_constant_name, WeightKind::Constant)?
            }
            InputSpec::UserInput(user) => {
                let kind = input_kind(
                    &user.arg,
                    &graph.tensor_values,
                    &graph.sym_int_values,
                    &mut symbols,
                )
                .map_err(in_entry)?;
                let input = value_name(&user.arg).or_else(|| value_name(argument));
                let name = input.map_or_else(|| format!("input {}", inputs.len()), str::to_owned);
                inputs.push(Input { name, kind });
                Source::User(inputs.len() - 1)
            }
            InputSpec::ConstantInput(constant) => {
                let value = leaf(&constant.value).map_err(in_entry)?;
                inputs
                    .push(Input { name: constant.name.clone(), kind: InputKind::Constant(value) });
                Source::User(inputs.len() - 1)
            }
            InputSpec::CustomObj(_) => {
                let reason =
                    "an input is an object of a class of TorchScript, which is not supported";
                return Err(in_entry(reason.into()).into());
            }
            InputSpec::Token(_) => Source::Nothing,
        });
    }
    let mut derived = Vec::new();
    for (text, range) in &exported.range_constraints {
        // PyTorch traces with sizes from 2 on, and takes 0 and 1 at calls unless the model says more
        let min = range.min_val.filter(|min| *min > 2);
        symbols.bound(text, min, range.max_val, &mut derived);
    }

    let mut outputs = Vec::new();
    let mut fates = Vec::new();
    let places: HashMap<&str, usize> =
        named.iter().enumerate().rev().map(|(at, (name, _))| (name.as_str(), at)).collect();
    let weight_at = |name: &str| places.get(name).copied();
    let input_places: HashMap<&str, usize> =
        inputs.iter().enumerate().rev().map(|(at, i)| (i.name.as_str(), at)).collect();
    for (argument, spec) in graph.outputs.iter().zip(&signature.output_specs) {
        let written = match spec {
            OutputSpec::BufferMutation(m) => Some(&m.arg),
            OutputSpec::ParameterMutation(m) => Some(&m.arg),
            OutputSpec::UserInputMutation(m) => Some(&m.arg),
            _ => None,
        };
        written.map_or(Ok(()), |arg| same_value(argument, &arg.name)).map_err(in_entry)?;
        let known = |at: Option<usize>, what: &str, name: &str| {
            at.ok_or_else(|| {
                in_entry(format!("{what} `{name}` is written, and is no {what} of the program"))
            })
        };
        fates.push(match spec {
            OutputSpec::UserOutput(user) => {
                outputs.push(output(&user.arg));
                Fate::Result
            }
            OutputSpec::LossOutput(loss) => {
                outputs.push(Output { name: loss.arg.name.clone(), is_tensor: true });
                Fate::Result
            }
            OutputSpec::BufferMutation(m) => {
                Fate::Weight(known(weight_at(&m.buffer_name), "buffer", &m.buffer_name)?)
            }
            OutputSpec::ParameterMutation(m) => {
                Fate::Weight(known(weight_at(&m.parameter_name), "parameter", &m.parameter_name)?)
            }
            OutputSpec::UserInputMutation(m) => {
                let at = input_places.get(m.user_input_name.as_str()).copied();
                Fate::User(known(at, "input", &m.user_input_name)?)
            }
            OutputSpec::Token(_) => Fate::Nothing,
            OutputSpec::GradientToParameter(_) | OutputSpec::GradientToUserInput(_) => {
                let reason = "it is a program with its own gradients, which is not supported: export the forward pass";
                return Err(in_entry(format!("{}: {reason}", value_name(argument).unwrap_or("an output"))).into());
            }
        });
    }

    let mut weights = Weights::read(archive, name)?;
    let written_at = written(&body, &sources, &fates).weights;
    let written: BTreeSet<String> =
        written_at.iter().filter_map(|at| weights.entry_of(&named[*at].0)).collect();
    let all = named.into_iter().map(|(name, kind)| {
        let tensor = weights.tensor(&name, &written)?;
        Ok(Weight { name, kind, tensor })
    });
    let weights = all.collect::<Result<Vec<_>>>()?;
    let trees = exported.graph_module.module_call_graph.iter().find(|m| m.fqn.is_empty());
    let trees = trees.and_then(|m| m.signature.as_ref());
    let torch = &exported.torch_version;
    let origin = match exported.verifiers.join(", ") {
        ir if ir.is_empty() => format!("torch {torch}"),
        ir => format!("torch {torch}, {ir} IR"),
    };
    let name = match archive.path().file_stem() {
        Some(stem) if name == "model" => stem.to_string_lossy().into_owned(),
        _ => name.to_owned(),
    };
    Ok(Program::new(Parts {
        name,
        origin,
        symbols: symbols.into_all(),
        derived,
        inputs,
        weights,
        outputs,
        sources,
        fates,
        body,
        trees: trees.map(|s| Trees {
            inputs: s.in_spec.clone(),
            outputs: s.out_spec.clone(),
            names: s.forward_arg_names.clone().unwrap_or_default(),
        }),
    }))
}

/// Signature and graph have to speak of one value.
fn same_value(argument: &Argument, name: &str) -> Result<(), String> {
    match value_name(argument) {
        Some(of_graph) if of_graph == name => Ok(()),
        of_graph => Err(format!(
            "the signature has `{name}` where the graph has `{}`",
            of_graph.unwrap_or("a constant")
        )),
    }
}

fn input_kind(
    argument: &Argument,
    tensors: &BTreeMap<String, TensorMeta>,
    numbers: &BTreeMap<String, SymInt>,
    symbols: &mut Symbols,
) -> Result<InputKind, String> {
    let mut size = |n: &SymInt| match n {
        SymInt::AsInt(n) => Size::Fixed(*n),
        SymInt::AsExpr(e) => symbols.size(&e.expr_str),
    };
    Ok(match argument {
        Argument::AsTensor(t) => {
            let meta = tensors.get(&t.name);
            let meta = meta.ok_or_else(|| format!("input `{}` is not described", t.name))?;
            InputKind::Tensor {
                dtype: codes::dtype(meta.dtype).map_err(|e| format!("input `{}`: {e}", t.name))?,
                sizes: meta.sizes.iter().map(size).collect(),
            }
        }
        Argument::AsSymInt(SymArgument::AsName(name)) => match numbers.get(name) {
            Some(n) => InputKind::Size(size(n)),
            None => InputKind::Any,
        },
        Argument::AsSymBool(_) | Argument::AsSymFloat(_) => InputKind::Any,
        constant => InputKind::Constant(leaf(constant)?),
    })
}

/// A constant.
fn leaf(argument: &Argument) -> Result<Leaf, String> {
    Ok(match argument {
        Argument::AsNone(_) => Leaf::None,
        Argument::AsInt(n) | Argument::AsSymInt(SymArgument::AsInt(n)) => Leaf::Int(*n),
        Argument::AsFloat(x) => Leaf::Float(x.value()?),
        Argument::AsBool(b) => Leaf::Bool(*b),
        Argument::AsString(s) => Leaf::Str(s.clone()),
        other => return Err(format!("constants of this kind are not supported: {other:?}")),
    })
}

fn output(argument: &Argument) -> Output {
    match (argument, value_name(argument)) {
        (Argument::AsTensor(t), _) => Output { name: t.name.clone(), is_tensor: true },
        (_, Some(name)) => Output { name: name.to_owned(), is_tensor: false },
        (constant, None) => {
            let name = leaf(constant).map_or_else(|_| "?".to_owned(), |l| l.to_string());
            Output { name, is_tensor: false }
        }
    }
}
