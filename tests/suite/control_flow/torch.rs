//! Against PyTorch's own values (`tests/data/control_flow.py`).

use super::*;
use std::collections::HashMap;
use straightline::autograd::grad;
use straightline::control_flow::{cond, map, scan, while_loop};
use straightline::{Result, compile, tensor};

/// The tensors of each line.
fn recorded() -> HashMap<&'static str, Vec<Tensor>> {
    let lines = include_str!("../../data/control_flow.txt").lines();
    let line = |line: &'static str| {
        let (name, rest) = line.split_once(' ').expect("a name");
        (name, rest.split('|').map(read).collect())
    };
    lines.map(line).collect()
}

fn read(text: &str) -> Tensor {
    let (head, elements) = text.split_once(':').expect("sizes and elements");
    let (kind, sizes) = head.split_at(1);
    let sizes: Vec<i64> = match sizes {
        "-" => Vec::new(),
        sizes => sizes.split('x').map(|n| n.parse().unwrap()).collect(),
    };
    match kind {
        "i" => {
            let all: Vec<i64> = elements.split(',').map(|x| x.parse().unwrap()).collect();
            Tensor::from_vec(all, sizes).unwrap()
        }
        _ => {
            let all: Vec<f32> = elements.split(',').map(|x| x.parse().unwrap()).collect();
            Tensor::from_vec(all, sizes).unwrap()
        }
    }
}

/// The sum of squares of all results.
fn squares(results: &[Tensor]) -> Result<Tensor> {
    results.iter().try_fold(tensor(0.0)?, |sum, r| sum.add(&r.mul(r)?.sum()?))
}

/// Compares results and gradients, eagerly and compiled.
fn graded<F>(name: &str, f: F, inputs: &[Tensor])
where
    F: Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + Clone + 'static,
{
    let expected = recorded();
    let compiled = compile({
        let f = f.clone();
        move |inputs: &Vec<Tensor>| f(inputs)
    });
    let leaves = || -> Vec<Tensor> {
        inputs.iter().map(|x| x.copied().unwrap().requires_grad_(true).unwrap()).collect()
    };
    for way in 0..3 {
        let leaves = leaves();
        let results = match way {
            0 => f(&leaves).unwrap(),
            _ => compiled.call(&leaves).unwrap(),
        };
        assert_eq!(results.len(), expected[name].len(), "{name}");
        results.iter().zip(&expected[name]).for_each(|(a, b)| close(a, b));
        let grads = grad(&[squares(&results).unwrap()], &leaves).unwrap();
        let of = &expected[&*format!("{name}.grads")];
        grads.iter().zip(of).for_each(|(a, b)| close(a, b));
    }
    captured(&compiled, 1);
}

fn weights() -> Tensor {
    tensor([[0.5, -0.25, 1.0], [0.75, 0.1, -0.6], [-0.3, 0.9, 0.2]]).unwrap()
}

fn of_sign() -> [(&'static str, Tensor); 2] {
    [("yes", tensor([0.5, 1.5, -0.25]).unwrap()), ("no", tensor([-0.5, -1.5, 0.25]).unwrap())]
}

#[test]
fn branches() {
    for (sign, x) in of_sign() {
        let f = |all: &[Tensor]| {
            let yes = |(x, w): &(Tensor, Tensor)| w.matmul(x)?.sin()?.mul(x);
            let no = |(x, w): &(Tensor, Tensor)| x.matmul(w)?.exp()?.sub(x);
            Ok(vec![cond(&all[0].sum()?.gt(0)?, yes, no, (&all[0], &all[1]))?])
        };
        graded(&format!("cond_{sign}"), f, &[x, weights()]);
    }
}

#[test]
fn branches_in_branches() {
    for (sign, x) in of_sign() {
        let f = |all: &[Tensor]| {
            let yes =
                |x: &Tensor| cond(&x.select(0, 0)?.gt(1)?, |x| x.mul(x), |x| x.tanh(), x)?.add(1);
            Ok(vec![cond(&all[0].sum()?.gt(0)?, yes, |x| x.abs()?.add(1)?.log(), &all[0])?])
        };
        graded(&format!("nested_{sign}"), f, &[x]);
    }
}

#[test]
fn loops() {
    let expected = recorded();
    let newton = |i: &Tensor, x: &Tensor, a: &Tensor| {
        let goes_on = |(i, x, a): &(Tensor, Tensor, Tensor)| {
            i.lt(20)?.logical_and(&x.mul(x)?.sub(a)?.abs()?.max()?.gt(1e-6)?)
        };
        let turn = |(i, x, a): &(Tensor, Tensor, Tensor)| {
            Ok((i.add(1)?, x.add(&a.div(x)?)?.mul(0.5)?, a.copied()?))
        };
        while_loop(goes_on, turn, (i, x, a))
    };
    let (i, x, a) =
        (tensor(0i64).unwrap(), straightline::ones([3]).unwrap(), tensor([2.0, 3.0, 5.0]).unwrap());
    let compiled = compile(newton);
    for (i, x, a) in [newton(&i, &x, &a).unwrap(), compiled.call((&i, &x, &a)).unwrap()] {
        [i, x, a].iter().zip(&expected["while_newton"]).for_each(|(a, b)| close(a, b));
    }
    captured(&compiled, 1);
    let none = |i: &Tensor, x: &Tensor| {
        while_loop(|(i, _): &(Tensor, Tensor)| i.lt(0), |(i, x)| Ok((i.add(1)?, x.sin()?)), (i, x))
    };
    let (i, x) = (tensor(3i64).unwrap(), tensor([0.0, 1.0, 2.0, 3.0]).unwrap());
    for (i, x) in [none(&i, &x).unwrap(), compile(none).call((&i, &x)).unwrap()] {
        [i, x].iter().zip(&expected["while_none"]).for_each(|(a, b)| close(a, b));
    }
}

fn slices() -> [Tensor; 2] {
    [
        tensor([[0.1, 0.2], [-0.3, 0.4], [0.5, -0.6], [0.7, 0.8]]).unwrap(),
        tensor([[0.6, -0.4], [0.3, 0.8]]).unwrap(),
    ]
}

#[test]
fn scans() {
    for reverse in [false, true] {
        for dim in [0, 1] {
            let f = move |all: &[Tensor]| {
                let step = |h: &Tensor, x: &Tensor| {
                    let h = x.add(&h.matmul(&all[2])?)?.tanh()?;
                    Ok((h.clone(), h.mul(x)?))
                };
                let xs = if dim == 0 { all[1].clone() } else { all[1].t()? };
                let (h, ys) = scan(step, &all[0], &xs, dim, reverse)?;
                Ok(vec![h, ys])
            };
            let [xs, cell] = slices();
            let name = format!("scan_{dim}_{}", if reverse { "reverse" } else { "forward" });
            graded(&name, f, &[tensor([0.25, -0.5]).unwrap(), xs, cell]);
        }
    }
}

#[test]
fn maps() {
    let f = |all: &[Tensor]| Ok(vec![map(|x, w| w.matmul(x)?.sin()?.add(x), &all[0], &all[1])?]);
    graded("map", f, &slices());
}
