//! Programs that are put together call by call: graphs of other tools, such as `torch.fx`.

use super::body::{Results, Slot, Term as Inner};
use super::build::{BodyBuilder, Missing};
use super::node::{Given, GivenTerm, Node};
use super::{
    Body, Fate, Input, InputKind, Output, Parts, Program, Source, Symbol, Trees, Weight, WeightKind,
};
use crate::dispatch::Value;
use crate::error::Result;
use crate::tensor::Tensor;
use std::sync::Arc;

/// A value of a graph that is being built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueId(Slot);

/// An argument of a call.
#[derive(Clone, Debug)]
pub enum Term {
    /// A value of this graph.
    Of(ValueId),
    /// A constant.
    Constant(Value),
    /// A list or a tuple.
    List(Vec<Term>),
    /// A graph, for a call of higher order.
    Graph(ProgramGraph),
}

/// A finished graph, which calls of higher order are given.
#[derive(Clone, Debug)]
pub struct ProgramGraph {
    body: Arc<Body>,
    missing: Arc<Missing>,
}

/// A call that is added to a graph.
#[derive(Clone, Debug, Default)]
pub struct ProgramCall<'a> {
    /// The name of the result, in errors and in the program's text.
    pub name: &'a str,
    /// What is called: `aten::add.Tensor`, `higher_order.cond`, `_operator.mul`.
    pub target: &'a str,
    /// The line of the model that the call came from.
    pub line: Option<&'a str>,
    /// Arguments by position.
    pub args: Vec<Term>,
    /// Arguments by name.
    pub kwargs: Vec<(String, Term)>,
    /// Whether the result is a tuple even where there is only one.
    pub is_tuple: bool,
}

/// Builds a [`Program`] call by call.
///
/// ```
/// use straightline::dispatch::Value;
/// use straightline::program::{InputKind, ProgramBuilder, ProgramCall, Term, WeightKind};
/// use straightline::tensor;
/// let mut p = ProgramBuilder::new("scaled");
/// let x = p.input("x", InputKind::Any);
/// let w = p.weight("w", WeightKind::Parameter, tensor([10.0, 100.0])?);
/// let y = p.call(ProgramCall {
///     name: "y",
///     target: "aten::mul.Tensor",
///     args: vec![Term::Of(x), Term::Of(w)],
///     ..Default::default()
/// })?;
/// let program = p.finish(vec![Term::Of(y), Term::Constant(Value::None)])?;
/// let results = program.run([&tensor([1.0, 2.0])?])?;
/// assert_eq!(results[0].tensor()?.to_vec::<f32>()?, [10.0, 200.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Debug)]
pub struct ProgramBuilder {
    name: String,
    body: BodyBuilder,
    missing: Missing,
    inputs: Vec<Input>,
    weights: Vec<Weight>,
    sources: Vec<Source>,
    symbols: Vec<Symbol>,
    trees: Option<Trees>,
}

impl ProgramBuilder {
    /// Nothing yet.
    pub fn new(name: impl Into<String>) -> ProgramBuilder {
        ProgramBuilder {
            name: name.into(),
            body: BodyBuilder::default(),
            missing: Missing::default(),
            inputs: Vec::new(),
            weights: Vec::new(),
            sources: Vec::new(),
            symbols: Vec::new(),
            trees: None,
        }
    }

    /// A size that may differ from call to call; its number, for [`Size::Symbol`](super::Size::Symbol).
    pub fn symbol(&mut self, name: &str, min: Option<i64>, max: Option<i64>) -> usize {
        self.symbols.push(Symbol { name: name.to_owned(), min, max });
        self.symbols.len() - 1
    }

    /// Says how arguments and results nest.
    pub fn trees(&mut self, trees: Trees) {
        self.trees = Some(trees);
    }

    /// An input, after those that there are.
    pub fn input(&mut self, name: &str, kind: InputKind) -> ValueId {
        self.inputs.push(Input { name: name.to_owned(), kind });
        self.sources.push(Source::User(self.inputs.len() - 1));
        ValueId(self.body.input(name))
    }

    /// A tensor that belongs to the program.
    pub fn weight(&mut self, name: &str, kind: WeightKind, tensor: Tensor) -> ValueId {
        self.weights.push(Weight { name: name.to_owned(), kind, tensor });
        self.sources.push(Source::Weight(self.weights.len() - 1));
        ValueId(self.body.input(name))
    }

    /// A call. Its result is a value, or a tuple of several, of which `_operator.getitem` takes one.
    ///
    /// # Errors
    /// [`ProgramError::Node`](super::ProgramError::Node): arguments that do not fit. A target that is
    /// not there is an error of [`ProgramBuilder::finish`], which names all of them.
    pub fn call(&mut self, call: ProgramCall<'_>) -> Result<ValueId> {
        add(&mut self.body, &mut self.missing, call)
    }

    /// The program, with what it returns.
    ///
    /// # Errors
    /// [`ProgramError::Unsupported`](super::ProgramError::Unsupported): targets that are not there.
    pub fn finish(self, outputs: Vec<Term>) -> Result<Program> {
        self.missing.check()?;
        let terms = outputs.into_iter().map(value).collect::<Result<Vec<_>>>()?;
        let body = self.body.finish(terms);
        let outputs = body
            .outputs
            .iter()
            .map(|t| Output { name: body.term(t), is_tensor: matches!(t, Inner::Slot(_)) });
        Ok(Program::new(Parts {
            name: self.name,
            origin: "built".to_owned(),
            symbols: self.symbols,
            derived: Vec::new(),
            inputs: self.inputs,
            weights: self.weights,
            outputs: outputs.collect(),
            sources: self.sources,
            fates: vec![Fate::Result; body.outputs.len()],
            body,
            trees: self.trees,
        }))
    }
}

/// Builds a graph that a call of higher order is given.
///
/// ```
/// use straightline::program::{GraphBuilder, InputKind, ProgramBuilder, ProgramCall, Term};
/// use straightline::tensor;
/// let branch = |target| {
///     let mut g = GraphBuilder::new();
///     let v = g.input("v");
///     let y = g.call(ProgramCall { name: "y", target, args: vec![Term::Of(v)], ..Default::default() })?;
///     g.finish(vec![Term::Of(y)])
/// };
/// let (sin, cos) = (branch("aten::sin")?, branch("aten::cos")?);
/// let mut p = ProgramBuilder::new("either");
/// let (pred, x) = (p.input("pred", InputKind::Any), p.input("x", InputKind::Any));
/// let y = p.call(ProgramCall {
///     name: "y",
///     target: "higher_order.cond",
///     args: vec![Term::Of(pred), Term::Graph(sin), Term::Graph(cos), Term::List(vec![Term::Of(x)])],
///     ..Default::default()
/// })?;
/// let program = p.finish(vec![Term::Of(y)])?;
/// let results = program.run([&tensor(false)?, &tensor([0.0])?])?;
/// assert_eq!(results[0].tensor()?.to_vec::<f32>()?, [1.0]);
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Default, Debug)]
pub struct GraphBuilder {
    body: BodyBuilder,
    missing: Missing,
}

impl GraphBuilder {
    /// Nothing yet.
    pub fn new() -> GraphBuilder {
        GraphBuilder::default()
    }

    /// An input, after those that there are.
    pub fn input(&mut self, name: &str) -> ValueId {
        ValueId(self.body.input(name))
    }

    /// As [`ProgramBuilder::call`].
    ///
    /// # Errors
    /// As there.
    pub fn call(&mut self, call: ProgramCall<'_>) -> Result<ValueId> {
        add(&mut self.body, &mut self.missing, call)
    }

    /// The graph, with what it returns.
    ///
    /// # Errors
    /// A graph among what it returns.
    pub fn finish(self, outputs: Vec<Term>) -> Result<ProgramGraph> {
        let outputs = outputs.into_iter().map(value).collect::<Result<Vec<_>>>()?;
        Ok(ProgramGraph {
            body: Arc::new(self.body.finish(outputs)),
            missing: Arc::new(self.missing),
        })
    }
}

fn add(body: &mut BodyBuilder, missing: &mut Missing, call: ProgramCall<'_>) -> Result<ValueId> {
    let node = Node { name: call.name, target: call.target, line: call.line };
    let by_position = call.args.into_iter().map(|t| (String::new(), false, t));
    let by_name = call.kwargs.into_iter().map(|(name, t)| (name, true, t));
    let given = by_position.chain(by_name).map(|(name, is_keyword, t)| {
        let what = match t {
            Term::Graph(graph) => {
                missing.add(&graph.missing);
                GivenTerm::Graph(graph.body)
            }
            other => GivenTerm::Term(value(other)?),
        };
        Ok(Given { name, is_keyword, what })
    });
    let given = given.collect::<Result<Vec<_>>>()?;
    // the call itself may read a value of this name
    let slot = body.reserve(call.name);
    let results = if call.is_tuple { Results::Tuple(slot) } else { Results::One(slot) };
    body.call(node, given, results, missing)?;
    Ok(ValueId(slot))
}

fn value(term: Term) -> Result<Inner> {
    Ok(match term {
        Term::Of(ValueId(slot)) => Inner::Slot(slot),
        Term::Constant(value) => Inner::Value(value),
        Term::List(all) => Inner::List(all.into_iter().map(value).collect::<Result<_>>()?),
        Term::Graph(_) => {
            return Err(crate::Error::type_error("a graph stands where a value is expected"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor;

    fn call<'a>(name: &'a str, target: &'a str, args: Vec<Term>) -> ProgramCall<'a> {
        ProgramCall { name, target, args, ..Default::default() }
    }

    #[test]
    fn tuples_sizes_and_branches() {
        let mut p = ProgramBuilder::new("all");
        let x = p.input("x", InputKind::Any);
        let int = |n| Term::Constant(Value::Int(n));
        let rows = p.call(call("rows", "aten::sym_size.int", vec![Term::Of(x), int(0)])).unwrap();
        let half =
            p.call(call("half", "_operator.floordiv", vec![Term::Of(rows), int(2)])).unwrap();
        let both = p
            .call(call(
                "both",
                "aten::split_with_sizes",
                vec![Term::Of(x), Term::List(vec![Term::Of(half), Term::Of(half)])],
            ))
            .unwrap();
        let second =
            p.call(call("second", "_operator.getitem", vec![Term::Of(both), int(1)])).unwrap();
        let top = p.call(call("top", "aten::max.dim", vec![Term::Of(second), int(0)])).unwrap();
        let at = p.call(call("at", "_operator.getitem", vec![Term::Of(top), int(1)])).unwrap();
        let mut yes = GraphBuilder::new();
        let v = yes.input("v");
        let sin = yes.call(call("s", "aten::sin", vec![Term::Of(v)])).unwrap();
        let yes = yes.finish(vec![Term::Of(sin)]).unwrap();
        let mut no = GraphBuilder::new();
        let v = no.input("v");
        let same = no.call(call("s", "aten::mul.Tensor", vec![Term::Of(v), int(1)])).unwrap();
        let no = no.finish(vec![Term::Of(same)]).unwrap();
        let pred = p.call(call("pred", "aten::gt.Scalar", vec![Term::Of(at), int(0)])).unwrap();
        let chosen = ProgramCall {
            is_tuple: true,
            ..call(
                "chosen",
                "higher_order.cond",
                vec![
                    Term::Of(pred),
                    Term::Graph(yes),
                    Term::Graph(no),
                    Term::List(vec![Term::Of(second)]),
                ],
            )
        };
        let chosen = p.call(chosen).unwrap();
        let chosen =
            p.call(call("first", "_operator.getitem", vec![Term::Of(chosen), int(0)])).unwrap();
        let program = p.finish(vec![Term::Of(chosen), Term::Of(half)]).unwrap();
        let f =
            program.compile(crate::CompileOptions { eager_fallback: false, ..Default::default() });
        for (x, expected) in [
            ([1.0f32, 2.0, 3.0, 4.0], [3f32.sin(), 4f32.sin()]),
            ([1.0, 2.0, 4.0, 3.0], [4.0, 3.0]),
        ] {
            let x = tensor(x).unwrap();
            for results in
                [program.run([&x]).unwrap(), f.call([&x]).unwrap(), f.call([&x]).unwrap()]
            {
                let got = results[0].tensor().unwrap().to_vec::<f32>().unwrap();
                assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{got:?}");
                assert_eq!(results[1].to_string(), "2");
            }
        }
        assert!(program.to_string().contains("second = _operator.getitem(both, 1)"), "{program}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let mut p = ProgramBuilder::new("wrong");
        let x = p.input("x", InputKind::Any);
        for target in ["aten::no_such", "aten::no_such", "mine::other"] {
            p.call(call("y", target, vec![Term::Of(x)])).unwrap();
        }
        let e = p.finish(vec![]).unwrap_err().to_string();
        assert!(
            e.contains("2 operators") && e.contains("`aten::no_such` (2 times), `mine::other`"),
            "{e}"
        );
        let mut p = ProgramBuilder::new("wrong");
        let x = p.input("x", InputKind::Any);
        let named = |name: &str| ProgramCall {
            kwargs: vec![(name.to_owned(), Term::Constant(Value::Int(1)))],
            line: Some("File \"m.py\", line 3, in forward: y = x + 1"),
            ..call("y", "aten::add.Tensor", vec![Term::Of(x)])
        };
        for (name, says) in
            [("beta", "no argument `beta`"), ("alpha", "argument `other` is missing")]
        {
            let e = p.call(named(name)).unwrap_err().to_string();
            assert!(e.contains(says) && e.contains("node `y`") && e.contains("m.py"), "{e}");
        }
        let e = p.call(call(
            "y",
            "aten::transpose.int",
            vec![Term::Of(x), Term::Constant(Value::Double(0.5)), Term::Constant(Value::Int(1))],
        ));
        assert!(
            e.unwrap_err().to_string().contains("argument `dim0`: expected int, and got float")
        );
    }

    #[test]
    fn errors_of_calls_name_the_node_and_the_models_line() {
        let mut p = ProgramBuilder::new("failing");
        let x = p.input("x", InputKind::Any);
        let at = p.input("at", InputKind::Any);
        let taken = ProgramCall {
            line: Some("File \"m.py\", line 7, in forward: return x[at]"),
            ..call(
                "taken",
                "aten::index_select",
                vec![Term::Of(x), Term::Constant(Value::Int(0)), Term::Of(at)],
            )
        };
        let taken = p.call(taken).unwrap();
        let program = p.finish(vec![Term::Of(taken)]).unwrap();
        let f = program.compile(Default::default());
        let x = tensor([1.0, 2.0]).unwrap();
        let (good, bad, wrong) =
            (tensor([1i64]).unwrap(), tensor([2i64]).unwrap(), tensor([1.5]).unwrap());
        f.call([&x, &good]).unwrap();
        for e in [
            program.run([&x, &bad]),
            f.call([&x, &bad]),
            f.call([&x, &wrong]),
            program.run([&x, &wrong]),
        ] {
            let e = e.unwrap_err();
            assert_eq!(
                e.source_line(),
                Some("node `taken`, File \"m.py\", line 7, in forward: return x[at]"),
                "{e}"
            );
            assert_eq!(e.op(), Some("aten::index_select"));
        }
    }
}
