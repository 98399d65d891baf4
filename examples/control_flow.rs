//! Branches and loops that stay in a compiled function: `cargo run --release --example control_flow`.
//!
//! A recurrent cell is scanned over a sequence; a loop refines each state until it stands still; and a
//! branch on the data chooses how the loss is computed. The whole is one graph with a gradient.

use std::time::Instant;
use straightline::control_flow::{cond, map, scan, while_loop};
use straightline::{Result, Tensor, compile, manual_seed, randn, tensor};

/// The last state of a sequence, and all states.
fn encode(x: &Tensor, w: &Tensor) -> Result<(Tensor, Tensor)> {
    let step = |h: &Tensor, x: &Tensor| {
        let h = x.add(&h.matmul(w)?)?.tanh()?;
        Ok((h.clone(), h.copied()?))
    };
    scan(step, &x.select(0, 0)?.mul(0)?, x, 0, false)
}

/// Large errors count as what they are, small ones squared.
fn loss(h: &Tensor, target: &Tensor) -> Result<Tensor> {
    let error = h.sub(target)?;
    let large = error.abs()?.max()?.gt(1)?;
    cond(&large, |e| e.abs()?.sum(), |e| e.mul(e)?.sum(), &error)
}

/// Newton's steps towards the square roots, as many as it takes.
fn roots(a: &Tensor) -> Result<Tensor> {
    let goes_on = |(x, n): &(Tensor, Tensor)| {
        x.mul(x)?.sub(a)?.abs()?.max()?.gt(1e-5)?.logical_and(&n.lt(50)?)
    };
    let step = |(x, n): &(Tensor, Tensor)| Ok((x.add(&a.div(x)?)?.mul(0.5)?, n.add(1)?));
    Ok(while_loop(goes_on, step, (&a.add(1)?, &tensor(0)?))?.0)
}

fn main() -> Result<()> {
    manual_seed(1);
    let (x, w) = (randn([64, 16])?, randn([16, 16])?.mul(0.2)?);
    let target = randn([16])?.mul(0.1)?;

    let f = |x: &Tensor, w: &Tensor, target: &Tensor| {
        let (last, all) = encode(x, w)?;
        let norms = map(|h, (): &()| h.mul(h)?.sum(), &all, &())?;
        loss(&last, target)?.add(&norms.mean()?)
    };
    let compiled = compile(f);
    let w = w.requires_grad_(true)?;
    for (name, value) in
        [("eager", f(&x, &w, &target)?), ("compiled", compiled.call((&x, &w, &target))?)]
    {
        value.backward()?;
        let slope = w.grad().map(|g| g.norm()).transpose()?;
        println!("{name:9} {value}, gradient {slope:?}");
        w.set_grad(None)?;
    }

    let roots_of = compile(roots);
    println!("roots     {}", roots_of.call(&tensor([2.0, 81.0, 1e6])?)?);
    println!("graph     {}", roots_of.trace(&tensor([2.0, 81.0, 1e6])?)?.graph());

    let plain = w.detach()?;
    for (name, run) in [
        ("eager", &(|| f(&x, &plain, &target)) as &dyn Fn() -> Result<Tensor>),
        ("compiled", &|| compiled.call((&x, &plain, &target))),
    ] {
        run()?;
        let begin = Instant::now();
        for _ in 0..100 {
            run()?;
        }
        println!("{name:9} {:.1} us a call", begin.elapsed().as_secs_f64() * 1e4);
    }
    Ok(())
}
