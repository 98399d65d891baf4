//! Making a program that shows a difference smaller.

use super::check::{Outcome, check};
use super::program::Program;

/// How many smaller programs are tried.
const TRIES: usize = 400;

/// Leaves out steps, results, calls and what inputs share, as long as a difference stays.
pub(crate) fn shrink(mut program: Program) -> Program {
    let mut tries = 0;
    let mut fails = |p: &Program| {
        tries += 1;
        tries < TRIES && matches!(check(p), Outcome::Differs(_))
    };
    loop {
        let before = program.steps.len() + program.results.len() + program.rounds.len();
        for candidates in [steps, results, rounds, inputs] {
            let mut at = 0;
            loop {
                let smaller = candidates(&program, at);
                match smaller {
                    None => break,
                    Some(p) if fails(&p) => program = p,
                    Some(_) => at += 1,
                }
            }
        }
        let pruned = program.pruned();
        if fails(&pruned) {
            program = pruned;
        }
        if program.steps.len() + program.results.len() + program.rounds.len() == before {
            return program;
        }
    }
}

/// Without a step, the last one first.
fn steps(p: &Program, at: usize) -> Option<Program> {
    let last = p.steps.len().checked_sub(1 + at)?;
    Some(p.without_step(last))
}

fn results(p: &Program, at: usize) -> Option<Program> {
    (at < p.results.len()).then(|| {
        let mut p = p.clone();
        p.results.remove(at);
        p
    })
}

fn rounds(p: &Program, at: usize) -> Option<Program> {
    let last = p.rounds.len().checked_sub(1 + at)?;
    let mut p = p.clone();
    p.rounds.remove(last);
    Some(p)
}

/// An input that is an argument, a tensor of its own, or in memory of its own, where it was not.
fn inputs(p: &Program, at: usize) -> Option<Program> {
    let shares = |i: usize| {
        let with = |k: usize| {
            k != i && p.inputs[k].same != Some(i) && p.inputs[k].base == p.inputs[i].base
        };
        p.inputs[i].same.is_none() && (0..p.inputs.len()).any(with)
    };
    let possible: Vec<(usize, usize)> = (0..p.inputs.len())
        .flat_map(|i| {
            let of = &p.inputs[i];
            let ways = [of.closed, of.same.is_some(), shares(i)];
            (0..3).filter(move |&way| ways[way]).map(move |way| (i, way))
        })
        .collect();
    let &(i, way) = possible.get(at)?;
    let mut smaller = p.clone();
    match way {
        0 => smaller.inputs[i].closed = false,
        1 => smaller.inputs[i].same = None,
        _ => {
            smaller.bases.push(p.bases[p.inputs[i].base].clone());
            let base = smaller.bases.len() - 1;
            for (k, of) in p.inputs.iter().enumerate() {
                if k == i || of.same == Some(i) {
                    smaller.inputs[k].base = base;
                }
            }
        }
    }
    Some(smaller)
}
