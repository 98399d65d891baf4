//! From the format's graph to a program's.

use super::codes;
use super::schema::{
    Argument, Graph, NamedArgument, Node, OptionalTensor, SymArgument, TensorName,
};
use crate::dispatch::Value;
use crate::program::{
    Body, BodyBuilder, BodyTerm as Term, Given, GivenTerm, Missing, Node as Site, ProgramError,
    Results, Slot,
};
use std::sync::Arc;
use straightline_catalog::Device;

/// How deep graphs may nest.
const DEPTH: usize = 16;

/// The graph of a program, or one that a call is given.
pub(super) fn body(
    graph: &Graph,
    missing: &mut Missing,
    depth: usize,
) -> Result<Body, ProgramError> {
    let mut builder = BodyBuilder::default();
    for (at, input) in graph.inputs.iter().enumerate() {
        match value_name(input) {
            Some(name) => builder.input(name),
            // a constant: its place is there, and nobody reads it
            None => builder.input(&format!("input {at}")),
        };
    }
    for (at, node) in graph.nodes.iter().enumerate() {
        call(&mut builder, node, at, missing, depth)?;
    }
    let term = |output| {
        term(&builder, output).map_err(|reason| ProgramError::Description {
            entry: "the outputs of the graph".into(),
            reason,
        })
    };
    let outputs = graph.outputs.iter().map(term).collect::<Result<_, _>>()?;
    Ok(builder.finish(outputs))
}

/// The name of a value that an argument stands for.
pub(super) fn value_name(argument: &Argument) -> Option<&str> {
    match argument {
        Argument::AsTensor(t) | Argument::AsOptionalTensor(OptionalTensor::AsTensor(t)) => {
            Some(&t.name)
        }
        Argument::AsSymInt(SymArgument::AsName(name))
        | Argument::AsSymBool(SymArgument::AsName(name))
        | Argument::AsSymFloat(SymArgument::AsName(name)) => Some(name),
        Argument::AsCustomObj(object) => Some(&object.name),
        _ => None,
    }
}

fn call(
    builder: &mut BodyBuilder,
    node: &Node,
    at: usize,
    missing: &mut Missing,
    depth: usize,
) -> Result<(), ProgramError> {
    let numbered = format!("#{at}");
    let line = node.metadata.get("stack_trace").and_then(|trace| innermost(trace));
    let name = node.name.as_deref().or_else(|| node.outputs.first().and_then(value_name));
    let site =
        Site { name: name.unwrap_or(&numbered), target: &node.target, line: line.as_deref() };
    let mut given = Vec::with_capacity(node.inputs.len());
    for NamedArgument { name, arg, kind } in &node.inputs {
        let what = match arg {
            Argument::AsGraph(inner) => {
                if depth >= DEPTH {
                    return Err(site.error(format!("graphs nest deeper than {DEPTH}")));
                }
                let inner = body(&inner.graph, missing, depth + 1)
                    .map_err(|e| site.error(format!("in graph `{}`: {e}", inner.name)))?;
                GivenTerm::Graph(Arc::new(inner))
            }
            arg => GivenTerm::Term(term(builder, arg).map_err(|why| {
                site.error(match name.is_empty() {
                    true => why,
                    false => format!("argument `{name}`: {why}"),
                })
            })?),
        };
        given.push(Given { name: name.clone(), is_keyword: *kind == Some(2), what });
    }
    let results = results(builder, node).map_err(|why| site.error(why))?;
    builder.call(site, given, results, missing)
}

/// Where the results go. One that is a list has an entry for each element.
fn results(builder: &mut BodyBuilder, node: &Node) -> Result<Results, String> {
    let higher = node.target.starts_with("torch.ops.higher_order.");
    if let [one] = &node.outputs[..]
        && let Some(name) = value_name(one)
        && !higher
    {
        return Ok(Results::One(builder.define(name)));
    }
    let mut slots: Vec<Option<Slot>> = Vec::new();
    for output in &node.outputs {
        match output {
            Argument::AsTensors(all) => {
                slots.extend(all.iter().map(|t| Some(builder.define(&t.name))));
            }
            Argument::AsOptionalTensors(all) => {
                for one in all {
                    slots.push(match one {
                        OptionalTensor::AsTensor(t) => Some(builder.define(&t.name)),
                        OptionalTensor::AsNone(_) => None,
                    });
                }
            }
            Argument::AsSymInts(all) => {
                for one in all {
                    slots.push(match one {
                        SymArgument::AsName(name) => Some(builder.define(name)),
                        _ => None,
                    });
                }
            }
            Argument::AsNone(_)
            | Argument::AsInt(_)
            | Argument::AsBool(_)
            | Argument::AsFloat(_) => {
                slots.push(None);
            }
            other => match value_name(other) {
                Some(name) => slots.push(Some(builder.define(name))),
                None => return Err(format!("results of this kind are not supported: {other:?}")),
            },
        }
    }
    Ok(Results::Each(slots))
}

/// An argument as a program has it.
pub(super) fn term(builder: &BodyBuilder, argument: &Argument) -> Result<Term, String> {
    let read = |name: &str| {
        builder
            .slot(name)
            .map(Term::Slot)
            .ok_or_else(|| format!("`{name}` is read before it is defined"))
    };
    let tensor = |t: &TensorName| read(&t.name);
    let optional = |t: &OptionalTensor| match t {
        OptionalTensor::AsTensor(t) => read(&t.name),
        OptionalTensor::AsNone(_) => Ok(Term::Value(Value::None)),
    };
    let number = |n: &SymArgument| match n {
        SymArgument::AsName(name) => read(name),
        SymArgument::AsInt(n) => Ok(Term::Value(Value::Int(*n))),
        SymArgument::AsBool(b) => Ok(Term::Value(Value::Bool(*b))),
        SymArgument::AsFloat(x) => Ok(Term::Value(Value::Double(x.value()?))),
    };
    let value = |v: Value| Ok(Term::Value(v));
    match argument {
        Argument::AsNone(_) => value(Value::None),
        Argument::AsTensor(t) => tensor(t),
        Argument::AsTensors(all) => list(all, tensor),
        Argument::AsInt(n) => value(Value::Int(*n)),
        Argument::AsInts(all) => value(Value::IntList(all.clone())),
        Argument::AsFloat(x) => value(Value::Double(x.value()?)),
        Argument::AsFloats(all) => list(all, |x| Ok(Term::Value(Value::Double(x.value()?)))),
        Argument::AsString(s) => value(Value::String(s.clone())),
        Argument::AsStrings(all) => list(all, |s| Ok(Term::Value(Value::String(s.clone())))),
        Argument::AsSymInt(n) | Argument::AsSymBool(n) | Argument::AsSymFloat(n) => number(n),
        Argument::AsSymInts(all) | Argument::AsSymBools(all) | Argument::AsSymFloats(all) => {
            list(all, number)
        }
        Argument::AsScalarType(code) => value(Value::DType(codes::dtype(*code)?)),
        Argument::AsMemoryFormat(code) => value(Value::MemoryFormat(codes::memory_format(*code)?)),
        Argument::AsLayout(code) => value(Value::Layout(codes::layout(*code)?)),
        Argument::AsDevice(device) => {
            let text = match device.index {
                Some(index) => format!("{}:{index}", device.kind),
                None => device.kind.clone(),
            };
            let device: Device = text.parse().map_err(|e| format!("{e}"))?;
            value(Value::Device(device))
        }
        Argument::AsBool(b) => value(Value::Bool(*b)),
        Argument::AsBools(all) => value(Value::BoolList(all.clone())),
        Argument::AsOptionalTensor(t) => optional(t),
        Argument::AsOptionalTensors(all) => list(all, optional),
        Argument::AsComplex(c) => value(Value::Complex(c.real.value()?, c.imag.value()?)),
        Argument::AsNestedTensors(all) => list(all, |inner| list(inner, tensor)),
        Argument::AsIntLists(all) => list(all, |l| Ok(Term::Value(Value::IntList(l.clone())))),
        Argument::AsFloatLists(all) => {
            list(all, |l| list(l, |x| Ok(Term::Value(Value::Double(x.value()?)))))
        }
        Argument::AsGraph(graph) => {
            Err(format!("graph `{}` stands where a value is expected", graph.name))
        }
        Argument::AsCustomObj(object) => Err(format!(
            "`{}` is an object of a class of TorchScript, which is not supported",
            object.name
        )),
        Argument::AsOperator(name) => {
            Err(format!("operator `{name}` as an argument is not supported"))
        }
        Argument::AsStringToArgument(_) => {
            Err("a dictionary as an argument is not supported".into())
        }
    }
}

fn list<T>(all: &[T], f: impl Fn(&T) -> Result<Term, String>) -> Result<Term, String> {
    all.iter().map(f).collect::<Result<Vec<_>, _>>().map(Term::List)
}

/// The innermost line of a stack trace of Python: `File "model.py", line 12, in forward: x = f(x)`.
fn innermost(trace: &str) -> Option<String> {
    let mut lines = trace.lines().map(str::trim).filter(|l| !l.is_empty());
    let file = lines.clone().rfind(|l| l.starts_with("File "))?;
    lines.find(|l| *l == file);
    Some(match lines.find(|l| !l.starts_with("File ")) {
        Some(code) => format!("{file}: {code}"),
        None => file.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_own_line_is_found() {
        let trace = "  File \"a.py\", line 3, in forward\n    x = self.inner(x)\n  File \"b.py\", line 9, in forward\n    return x @ y\n";
        assert_eq!(innermost(trace).unwrap(), "File \"b.py\", line 9, in forward: return x @ y");
        assert_eq!(
            innermost("File \"b.py\", line 9, in f").unwrap(),
            "File \"b.py\", line 9, in f"
        );
        assert_eq!(innermost("nothing"), None);
    }
}
