//! Random programs over all operators, eager against compiled.
//!
//! A program is a few operator calls. Each starts as one of PyTorch's recorded calls, which is valid by itself; some of its
//! tensors are then replaced by values of earlier calls with the same dtype and sizes. Calls that eager execution
//! refuses are dropped. The compiled program must return what the eager one does and leave its arguments alike.
//!
//! `PROGRAMS=100000 SEED=1 cargo test --release --test suite programs -- --nocapture` runs many; a difference is shrunk and
//! printed with its seed.

mod check;
mod generate;
mod library;

use check::{Outcome, check};
use generate::{Program, generate};
use library::Library;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(default)
}

/// Leaves out calls as long as the difference stays.
fn shrink(library: &Library, mut program: Program) -> Program {
    let mut at = program.steps.len();
    while at > 0 {
        at -= 1;
        let Some(smaller) = program.without(at) else {
            continue;
        };
        if matches!(check(library, &smaller), Outcome::Differs(_)) {
            program = smaller;
            at = at.min(program.steps.len());
        }
    }
    program
}

#[test]
fn compiled_programs_do_what_eager_ones_do() {
    let _drawing = crate::support::drawing();
    let (count, first) = (setting("PROGRAMS", 100), setting("SEED", 1));
    let show = setting("SHOW", 5) as usize;
    let only = std::env::var("PROGRAM_OP").unwrap_or_default();
    let library = Library::load(&only);
    let (mut ran, mut calls, mut differences) = (0u64, 0usize, Vec::new());
    let mut used = std::collections::HashSet::new();
    for seed in first..first + count {
        let program = generate(&library, seed);
        calls += program.steps.len();
        used.extend(program.steps.iter().map(|s| library.name(s.call)));
        match check(&library, &program) {
            Outcome::Same => ran += 1,
            Outcome::Differs(why) => {
                if differences.len() < show {
                    let small = shrink(&library, program);
                    let why = match check(&library, &small) {
                        Outcome::Differs(why) => why,
                        Outcome::Same => why,
                    };
                    println!("seed {seed}: {why}\n{}", small.display(&library));
                }
                differences.push(seed);
            }
        }
    }
    println!(
        "{ran} programs of {calls} calls of {} operators agree, {} differ: seeds {:?}",
        used.len(),
        differences.len(),
        &differences[..differences.len().min(50)]
    );
    assert!(ran > 0, "no program ran");
    assert!(
        differences.is_empty(),
        "{} programs differ",
        differences.len()
    );
}
