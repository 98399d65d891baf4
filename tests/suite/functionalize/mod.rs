//! Programs of views and writes, eager against compiled: values, strides, errors and aliasing.

mod derived;
mod program;
mod traces;
mod world;

use program::Program;
use std::sync::{Arc, Mutex};
use straightline::{Tensor, compile};
use straightline_passes::ir::verify::verify;
use world::World;

/// Runs the program of a seed in two worlds; says what differs.
fn differential(seed: u64) -> Result<(), String> {
    let program = Program::new(seed);
    let (eager, compiled) = (World::new(seed), World::new(seed));
    let log = Arc::new(Mutex::new(Vec::new()));
    let run = {
        let (closed, log) = (compiled.closed_over.clone(), log.clone());
        compile(move |args: &Vec<Tensor>| {
            let (results, said) = program.run(args, &closed)?;
            *log.lock().unwrap() = said;
            Ok(results)
        })
    };
    // errors about arguments that overlap, which the program passes over, are not guarded
    let mut overlap_mattered = false;
    for round in 0..3 {
        if round == 2 && overlap_mattered {
            break;
        }
        let fail = |what: String| format!("seed {seed}, round {round}: {what}");
        let (a, b) = if round == 2 {
            // the arguments apart from each other
            (eager.apart(seed), compiled.apart(seed))
        } else {
            eager.refill(seed + round);
            compiled.refill(seed + round);
            (eager.arguments.clone(), compiled.arguments.clone())
        };
        let (want, said) = program
            .run(&a, &eager.closed_over)
            .map_err(|e| fail(e.to_string()))?;
        let got = run.call(&b).map_err(|e| {
            fail(format!(
                "{e}\neager: {said:#?}\ncapture: {:#?}",
                log.lock().unwrap()
            ))
        })?;
        overlap_mattered |= said.iter().any(|s| s.contains("and the written-to tensor"));
        let captured = log.lock().unwrap().clone();
        let at = said.iter().zip(&captured).position(|(x, y)| x != y);
        if let Some(i) = at {
            return Err(fail(format!(
                "step {i}: eager {}, captured {}",
                said[i], captured[i]
            )));
        }
        world::same_results(&want, &got, (&eager, &a), (&compiled, &b))
            .map_err(|e| fail(format!("{e}\n{said:#?}")))?;
        if round == 1 {
            let before = program::entered();
            run.call(&b).map_err(|e| fail(e.to_string()))?;
            if program::entered() != before {
                return Err(fail("a replay entered the dispatcher".into()));
            }
            program
                .run(&a, &eager.closed_over)
                .map_err(|e| fail(e.to_string()))?;
        }
        if round == 0 {
            let traced = run.trace(&b).map_err(|e| fail(e.to_string()))?;
            verify(traced.graph()).map_err(|e| fail(e.to_string()))?;
        }
    }
    Ok(())
}

fn seeds(range: std::ops::Range<u64>) {
    let outcome = |seed| match std::panic::catch_unwind(|| differential(seed)) {
        Ok(result) => result.err(),
        Err(_) => Some(format!("seed {seed} panics")),
    };
    let failed: Vec<String> = range.filter_map(outcome).collect();
    let few = failed[..failed.len().min(4)].join("\n\n");
    assert!(
        failed.is_empty(),
        "{} programs differ:\n{few}",
        failed.len()
    );
}

#[test]
fn random_programs_agree_with_eager() {
    seeds(0..400);
}

/// `FUNCTIONALIZE_SEEDS=1000..60000 cargo test --release --test functionalize -- --ignored`
#[test]
#[ignore = "long; takes its seeds from the environment"]
fn many_random_programs_agree_with_eager() {
    let text = std::env::var("FUNCTIONALIZE_SEEDS").unwrap_or_else(|_| "1000..3000".into());
    let (from, to) = text.split_once("..").expect("FROM..TO");
    seeds(from.parse().expect("a number")..to.parse().expect("a number"));
}
