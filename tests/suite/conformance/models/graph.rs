//! A graph of operator calls, as it was traced.

use super::super::case::{constant, ints, text};
use super::trouble::Trouble;
use serde_json::Value as Json;
use std::collections::HashMap;
use straightline::dispatch::schema::{FunctionSchema, SchemaType};
use straightline::dispatch::{OperatorHandle, Value, operator};
use straightline::nn::StateDict;
use straightline::{Result, Tensor};

/// An argument of a call.
#[derive(Clone)]
enum Arg {
    Constant(Value),
    /// What this node gave.
    Node(usize),
    /// A list of tensors, of which some may be absent.
    Tensors(Vec<Arg>, bool),
    /// A list of numbers, of which some are what nodes gave.
    Numbers(Vec<Arg>, SchemaType),
}

#[derive(Clone)]
enum What {
    /// The tensor of this key.
    Placeholder(String),
    Call(OperatorHandle, Vec<Arg>),
    /// One of the results of a node.
    Pick(usize, usize),
}

#[derive(Clone)]
struct Node {
    name: String,
    what: What,
    /// Sizes of the result, where there is one.
    sizes: Option<Vec<i64>>,
}

/// A result of the graph.
#[derive(Clone)]
pub(super) struct Output {
    node: Option<usize>,
    pub(super) kind: String,
    /// The key of what it is compared with.
    pub(super) key: Option<String>,
}

impl Output {
    pub(super) fn is_loss(&self) -> bool {
        self.kind == "loss" || self.key.as_deref() == Some("train.loss")
    }
}

/// A graph.
#[derive(Clone)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    pub(super) outputs: Vec<Output>,
}

struct Reader {
    nodes: Vec<Node>,
    names: HashMap<String, usize>,
}

impl Reader {
    fn node(&self, name: &str) -> std::result::Result<usize, String> {
        self.names.get(name).copied().ok_or_else(|| format!("no node `{name}` before it"))
    }

    fn arg(&self, j: &Json, ty: &SchemaType) -> std::result::Result<Arg, String> {
        if let Some(name) = j["n"].as_str() {
            return self.node(name).map(Arg::Node);
        }
        let refers = |items: &[Json]| items.iter().any(|i| i["n"].is_string());
        match j["list"].as_array() {
            Some(items) if refers(items) => {
                let element = match ty.unwrap_optional() {
                    SchemaType::List(t, _) => (**t).clone(),
                    other => return Err(format!("a list where the schema says {other}")),
                };
                let args = items.iter().map(|j| self.arg(j, &element)).collect::<Result<_, _>>()?;
                Ok(match &element {
                    SchemaType::Tensor => Arg::Tensors(args, false),
                    SchemaType::Optional(_) => Arg::Tensors(args, true),
                    other => Arg::Numbers(args, other.clone()),
                })
            }
            _ => constant(j, ty).map(Arg::Constant),
        }
    }

    fn call(&self, node: &Json) -> std::result::Result<What, String> {
        let name = text(node, "op");
        let args = node["args"].as_array().ok_or("no `args`")?;
        if name == "getitem" {
            let of = args.first().and_then(|a| a["n"].as_str()).ok_or("of no node")?;
            let at = args.get(1).and_then(|a| a["i"].as_u64()).ok_or("at no position")?;
            return Ok(What::Pick(self.node(of)?, at as usize));
        }
        let op = operator(name).map_err(|e| e.to_string())?;
        let schema: &FunctionSchema = op.schema().ok_or("the operator has no schema")?;
        let mut stack = Vec::new();
        for (i, arg) in schema.args.iter().enumerate() {
            let j = args.get(i).unwrap_or(&node["kwargs"][&arg.name]);
            let arg = self.arg(j, &arg.ty).map_err(|e| format!("{}: {e}", arg.name))?;
            stack.push(arg);
        }
        Ok(What::Call(op, stack))
    }
}

fn malformed(at: &str, what: impl Into<String>) -> Trouble {
    Trouble::Malformed { at: at.to_owned(), what: what.into() }
}

impl Graph {
    pub(super) fn read(json: &Json, at: &str) -> std::result::Result<Graph, Trouble> {
        let mut reader = Reader { nodes: Vec::new(), names: HashMap::new() };
        let nodes = json["nodes"].as_array().ok_or_else(|| malformed(at, "no nodes"))?;
        let mut outputs = None;
        for node in nodes {
            let name = text(node, "name").to_owned();
            let at = format!("{at}: {name} ({})", text(node, "op"));
            let what = match text(node, "kind") {
                "placeholder" => What::Placeholder(text(node, "source").to_owned()),
                "call" => reader.call(node).map_err(|e| malformed(&at, e))?,
                "output" => {
                    outputs = Some(Graph::outputs(&reader, node, json, &at)?);
                    break;
                }
                other => return Err(malformed(&at, format!("a node of kind `{other}`"))),
            };
            let sizes = node["meta"]["size"].is_array().then(|| ints(&node["meta"]["size"]));
            reader.names.insert(name.clone(), reader.nodes.len());
            reader.nodes.push(Node { name, what, sizes });
        }
        let outputs = outputs.ok_or_else(|| malformed(at, "no output"))?;
        Ok(Graph { nodes: reader.nodes, outputs })
    }

    fn outputs(
        reader: &Reader,
        node: &Json,
        json: &Json,
        at: &str,
    ) -> std::result::Result<Vec<Output>, Trouble> {
        let none = Vec::new();
        let listed = json["outputs"].as_array().unwrap_or(&none);
        let args = node["args"].as_array().ok_or_else(|| malformed(at, "no `args`"))?;
        // some write the results as one list
        let args = match args.as_slice() {
            [one] if one["list"].is_array() => one["list"].as_array().unwrap_or(args),
            _ => args,
        };
        if args.len() != listed.len() {
            let what = format!("{} results, {} outputs", args.len(), listed.len());
            return Err(malformed(at, what));
        }
        let output = |(arg, listed): (&Json, &Json)| {
            let node = arg["n"].as_str().map(|n| reader.node(n)).transpose();
            Ok(Output {
                node: node.map_err(|e| malformed(at, e))?,
                kind: text(listed, "kind").to_owned(),
                key: listed["key"].as_str().map(str::to_owned),
            })
        };
        args.iter().zip(listed).map(output).collect()
    }

    /// The graph of those outputs only, without the calls that they do not depend on. For graphs
    /// that write nothing.
    pub(super) fn cut(&self, wanted: impl Fn(&Output) -> bool) -> Graph {
        let outputs: Vec<Output> = self.outputs.iter().filter(|o| wanted(o)).cloned().collect();
        let mut needed = vec![false; self.nodes.len()];
        outputs.iter().filter_map(|o| o.node).for_each(|n| needed[n] = true);
        for i in (0..self.nodes.len()).rev().filter(|i| needed[*i]).collect::<Vec<_>>() {
            // the nodes that a call refers to stand before it
            let mut stack = vec![i];
            while let Some(i) = stack.pop() {
                needed[i] = true;
                self.nodes[i].what.refers(&mut |n| {
                    if !needed[n] {
                        needed[n] = true;
                        stack.push(n);
                    }
                });
            }
        }
        let mut at = vec![0; self.nodes.len()];
        let mut nodes = Vec::new();
        for (i, node) in self.nodes.iter().enumerate().filter(|(i, _)| needed[*i]) {
            at[i] = nodes.len();
            let what = node.what.moved(&at);
            nodes.push(Node { what, ..node.clone() });
        }
        let outputs = outputs.into_iter().map(|o| Output { node: o.node.map(|n| at[n]), ..o });
        Graph { nodes, outputs: outputs.collect() }
    }

    /// The keys of the tensors that it reads.
    pub(super) fn sources(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter_map(|n| match &n.what {
            What::Placeholder(key) => Some(key.as_str()),
            _ => None,
        })
    }

    /// Makes the calls on these tensors. `None` is a result that there is none of.
    pub(super) fn run(
        &self,
        given: &StateDict,
    ) -> std::result::Result<Vec<Option<Tensor>>, Trouble> {
        let mut values: Vec<Vec<Value>> = Vec::new();
        for node in &self.nodes {
            let at = || match &node.what {
                What::Call(op, _) => format!("{} ({})", node.name, op.name()),
                _ => node.name.clone(),
            };
            let got = match &node.what {
                What::Placeholder(key) => {
                    let t = given.get(key).ok_or_else(|| Trouble::Missing(key.clone()))?;
                    vec![Value::Tensor(t.clone())]
                }
                What::Pick(of, i) => {
                    let of = &values[*of];
                    let picked = match &of[..] {
                        [Value::TensorList(l)] => l.get(*i).cloned().map(Value::Tensor),
                        _ => of.get(*i).cloned(),
                    };
                    vec![picked.ok_or_else(|| malformed(&at(), "no such result"))?]
                }
                What::Call(op, args) => {
                    let mut stack = Vec::new();
                    for arg in args {
                        stack.push(arg.value(&values).map_err(|e| malformed(&at(), e))?);
                    }
                    op.call_boxed(&mut stack)
                        .map_err(|source| Trouble::Node { at: at(), source })?;
                    stack
                }
            };
            if let (Some(sizes), [Value::Tensor(t)]) = (&node.sizes, &got[..])
                && t.sizes() != sizes
            {
                let what = format!("sizes {:?}, PyTorch has {sizes:?}", t.sizes());
                return Err(Trouble::Differs { at: at(), what });
            }
            values.push(got);
        }
        let tensor = |o: &Output| o.node.and_then(|n| values[n].first()?.as_tensor().cloned());
        Ok(self.outputs.iter().map(tensor).collect())
    }
}

impl What {
    fn refers(&self, see: &mut dyn FnMut(usize)) {
        match self {
            What::Placeholder(_) => {}
            What::Pick(of, _) => see(*of),
            What::Call(_, args) => args.iter().for_each(|a| a.refers(see)),
        }
    }

    /// With the nodes at other places.
    fn moved(&self, at: &[usize]) -> What {
        match self {
            What::Placeholder(_) => self.clone(),
            What::Pick(of, i) => What::Pick(at[*of], *i),
            What::Call(op, args) => What::Call(*op, args.iter().map(|a| a.moved(at)).collect()),
        }
    }
}

impl Arg {
    fn refers(&self, see: &mut dyn FnMut(usize)) {
        match self {
            Arg::Constant(_) => {}
            Arg::Node(n) => see(*n),
            Arg::Tensors(l, _) | Arg::Numbers(l, _) => l.iter().for_each(|a| a.refers(see)),
        }
    }

    fn moved(&self, at: &[usize]) -> Arg {
        let all = |l: &[Arg]| l.iter().map(|a| a.moved(at)).collect();
        match self {
            Arg::Constant(_) => self.clone(),
            Arg::Node(n) => Arg::Node(at[*n]),
            Arg::Tensors(l, optional) => Arg::Tensors(all(l), *optional),
            Arg::Numbers(l, ty) => Arg::Numbers(all(l), ty.clone()),
        }
    }

    fn value(&self, values: &[Vec<Value>]) -> std::result::Result<Value, String> {
        match self {
            Arg::Constant(v) => Ok(v.clone()),
            Arg::Node(n) => match &values[*n][..] {
                [one] => Ok(one.clone()),
                several => Err(format!("a node of {} results as one value", several.len())),
            },
            Arg::Tensors(list, optional) => {
                let each = |a: &Arg| Ok(a.value(values)?.as_tensor().cloned());
                let list: Vec<Option<Tensor>> =
                    list.iter().map(each).collect::<std::result::Result<_, String>>()?;
                Ok(match optional {
                    true => Value::OptionalTensorList(list),
                    false => Value::TensorList(list.into_iter().flatten().collect()),
                })
            }
            Arg::Numbers(list, ty) => {
                let each = |a: &Arg| a.value(values)?.as_scalar().ok_or("no number".to_owned());
                let list = list.iter().map(each).collect::<std::result::Result<Vec<_>, _>>()?;
                Ok(match ty {
                    SchemaType::Int | SchemaType::SymInt => {
                        Value::IntList(list.into_iter().map(|s| s.as_i64()).collect())
                    }
                    SchemaType::Float => {
                        Value::DoubleList(list.into_iter().map(|s| s.as_f64()).collect())
                    }
                    _ => Value::ScalarList(list),
                })
            }
        }
    }
}
