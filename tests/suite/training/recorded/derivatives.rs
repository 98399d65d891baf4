//! Runs that train nothing: gradients of samples, ensembles, and matrices of second derivatives.

use super::compare;
use super::facts::{Run, number};
use super::trouble::Trouble;
use super::words::Activation;
use super::{Mode, compiled_only};
use straightline::func::{grad, hessian, jacfwd, jacrev, jvp, vjp, vmap};
use straightline::nn::StateDict;
use straightline::{DType, Result, Tensor, compile};

/// A function of tensors by name, called as the mode says.
fn called(
    mode: Mode,
    f: impl Fn(&StateDict) -> Result<StateDict> + Send + Sync + 'static,
    given: &StateDict,
) -> std::result::Result<StateDict, Trouble> {
    if mode == Mode::Eager {
        return Ok(f(given)?);
    }
    let f = compile(f);
    let got = f.call(given)?;
    compiled_only(&f)?;
    Ok(got)
}

/// A multilayer perceptron of parameters by name.
fn mlp(p: &StateDict, x: &Tensor, between: Activation) -> Result<Tensor> {
    let mut h = x.clone();
    for i in 0.. {
        let Some(weight) = p.get(&format!("layers.{i}.weight")) else { break };
        if i > 0 {
            h = between(&h)?;
        }
        h = h.linear(weight, p.get(&format!("layers.{i}.bias")))?;
    }
    Ok(h)
}

fn under(prefix: &str, all: &StateDict) -> StateDict {
    let named = all.iter();
    named.filter_map(|(k, t)| Some((k.strip_prefix(prefix)?.to_owned(), t.clone()))).collect()
}

fn labelled(prefix: &str, all: StateDict) -> impl Iterator<Item = (String, Tensor)> {
    let prefix = prefix.to_owned();
    all.into_iter().map(move |(k, t)| (format!("{prefix}{k}"), t))
}

/// `vmap(grad(loss))`, and an ensemble.
pub(super) fn per_sample(run: &Run, dtype: DType, mode: Mode) -> std::result::Result<(), Trouble> {
    let between = run.words()?.activation()?;
    let mut given = run.part("", dtype)?;
    let recorded: StateDict = ["persample.", "ensemble_out"]
        .iter()
        .flat_map(|part| labelled(part, under(part, &given)))
        .collect();
    given.retain(|k, _| !recorded.contains_key(k));
    run.tensor("x").and(run.tensor("y")).and(run.tensor("ensemble_out"))?;
    let f = move |given: &StateDict| {
        let (p, x, y) = (under("init.", given), &given["x"], &given["y"]);
        let loss = |p: &StateDict, x: &Tensor, y: &Tensor| {
            mlp(p, &x.unsqueeze(0)?, between)?.cross_entropy(y.unsqueeze(0)?)
        };
        let of_sample = |(x, y): &(Tensor, Tensor)| grad(|p: &StateDict| loss(p, x, y))(&p);
        let samples = vmap(of_sample)(&(x.clone(), y.clone()))?;
        let models = under("ensemble.", given);
        let together = vmap(|p: &StateDict| mlp(p, x, between))(&models)?;
        let results = labelled("persample.", samples);
        Ok(results.chain([("ensemble_out".to_owned(), together)]).collect::<StateDict>())
    };
    let got = called(mode, f, &given)?;
    let allowed = run.allowed("max_over_max")?;
    compare_all(&got, &recorded, |at, found, expected| {
        compare::tensor(at, found, expected, |largest| allowed * largest)
    })
}

fn compare_all(
    got: &StateDict,
    recorded: &StateDict,
    compare: impl Fn(&str, &Tensor, &Tensor) -> std::result::Result<(), Trouble>,
) -> std::result::Result<(), Trouble> {
    for (name, expected) in recorded {
        let found = got.get(name).ok_or_else(|| Trouble::Missing(format!("a rule for {name}")))?;
        compare(name, found, expected)?;
    }
    Ok(())
}

/// The functions that are described.
const FUNCTIONS: [&str; 3] = [
    "f(x) = logsumexp(A sin(x) + c*x) + sum(x^3)/6",
    "G(x) = tanh(A x)*sum(x)",
    "mse(mean) on mlp.x, mlp.y",
];

/// Second derivatives in all ways: each of them has to give what is recorded.
pub(super) fn hessians(run: &Run, dtype: DType, mode: Mode) -> std::result::Result<(), Trouble> {
    let words = run.words()?;
    for function in FUNCTIONS {
        if !words.says(&[function]) {
            return Err(Trouble::Description(format!("another function than `{function}`")));
        }
    }
    let between = words.activation_of("MLP")?;
    let given = run.part("", dtype)?;
    for name in ["A", "c", "x0", "v", "mlp.x", "mlp.y"] {
        run.tensor(name)?;
    }
    let mut names: Vec<String> = Vec::new();
    for i in 0.. {
        let both = ["weight", "bias"].map(|part| format!("layers.{i}.{part}"));
        let there = |n: &&String| given.contains_key(&format!("mlp.init.{n}"));
        let found: Vec<String> = both.iter().filter(there).cloned().collect();
        if found.is_empty() {
            break;
        }
        names.extend(found);
    }
    let results = ["f", "grad", "hessian", "hvp", "G", "jac_of_G"];
    let of_mlp = ["mlp.loss", "mlp.grad", "mlp.hessian"];
    let recorded: StateDict = (results.iter().chain(&of_mlp))
        .map(|name| run.tensor(name).map(|t| ((*name).to_owned(), t.clone())))
        .collect::<std::result::Result<_, _>>()?;
    let tol = run.object("tol")?;
    let limit = |key: &str| {
        number(key, tol.get(key).ok_or_else(|| Trouble::Missing(format!("tol.{key}")))?)
    };
    let (rtol, atol) = (limit("rtol")?, limit("atol")?);
    for way in Way::ALL {
        let own = names.clone();
        let got = called(mode, move |given| derivatives(given, &own, between, way), &given)?;
        compare_all(&got, &recorded, |at, found, expected| {
            compare::close(&format!("{at}, {way:?}"), found, expected, rtol, atol)
        })?;
    }
    Ok(())
}

/// Which mode differentiates, outside and inside.
#[derive(Clone, Copy, Debug)]
enum Way {
    ForwardOfReverse,
    ReverseOfReverse,
    ForwardOfForward,
    ReverseOfForward,
}

impl Way {
    const ALL: [Way; 4] = [
        Way::ForwardOfReverse,
        Way::ReverseOfReverse,
        Way::ForwardOfForward,
        Way::ReverseOfForward,
    ];

    fn hessian(self, f: impl Fn(&Tensor) -> Result<Tensor>, x: &Tensor) -> Result<Tensor> {
        match self {
            Way::ForwardOfReverse => hessian(f)(x),
            Way::ReverseOfReverse => jacrev(jacrev(f))(x),
            Way::ForwardOfForward => jacfwd(jacfwd(f))(x),
            Way::ReverseOfForward => jacrev(jacfwd(f))(x),
        }
    }

    fn jacobian(self, f: impl Fn(&Tensor) -> Result<Tensor>, x: &Tensor) -> Result<Tensor> {
        match self {
            Way::ForwardOfReverse | Way::ForwardOfForward => jacfwd(f)(x),
            Way::ReverseOfReverse | Way::ReverseOfForward => jacrev(f)(x),
        }
    }

    /// The Hessian times a vector.
    fn product(
        self,
        f: impl Fn(&Tensor) -> Result<Tensor>,
        x: &Tensor,
        v: &Tensor,
    ) -> Result<Tensor> {
        let along = |x: &Tensor| jvp(&f, x, v).map(|(_, slope)| slope);
        match self {
            Way::ForwardOfReverse => Ok(jvp(grad(&f), x, v)?.1),
            Way::ReverseOfReverse => vjp(grad(&f), x)?.1.call(v),
            Way::ForwardOfForward => jacfwd(along)(x),
            Way::ReverseOfForward => grad(along)(x),
        }
    }
}

fn derivatives(
    given: &StateDict,
    names: &[String],
    between: Activation,
    way: Way,
) -> Result<StateDict> {
    let (a, c) = (&given["A"], &given["c"]);
    let f = |x: &Tensor| {
        let inner = a.matmul(x.sin()?)?.add(c.mul(x)?)?;
        inner.logsumexp(0)?.add(x.pow(3)?.sum()?.div(6)?)
    };
    let g = |x: &Tensor| a.matmul(x)?.tanh()?.mul(x.sum()?);
    let (x, v) = (&given["x0"], &given["v"]);
    let parameters: Vec<&Tensor> = names.iter().map(|n| &given[&format!("mlp.init.{n}")]).collect();
    let loss = |flat: &Tensor| {
        let (mut p, mut at) = (StateDict::new(), 0);
        for (name, t) in names.iter().zip(&parameters) {
            p.insert(name.clone(), flat.narrow(0, at, t.numel())?.view(t.sizes())?);
            at += t.numel();
        }
        mlp(&p, &given["mlp.x"], between)?.mse_loss(&given["mlp.y"])
    };
    let rows = parameters.iter().map(|t| t.flatten()).collect::<Result<Vec<_>>>()?;
    let flat = Tensor::cat(rows, 0)?;
    let results = [
        ("f", f(x)?),
        ("grad", grad(f)(x)?),
        ("hessian", way.hessian(f, x)?),
        ("hvp", way.product(f, x, v)?),
        ("G", g(x)?),
        ("jac_of_G", way.jacobian(g, x)?),
        ("mlp.loss", loss(&flat)?),
        ("mlp.grad", grad(&loss)(&flat)?),
        ("mlp.hessian", way.hessian(&loss, &flat)?),
    ];
    Ok(results.into_iter().map(|(name, t)| (name.to_owned(), t)).collect())
}
