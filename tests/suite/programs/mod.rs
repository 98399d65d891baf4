//! Random programs, eager against compiled.
//!
//! A program is memory of any dtypes, tensors that lie in it (apart, over each other, repeated;
//! arguments and closed-over ones), a few operator calls, and the values that it returns. Half of
//! the calls are PyTorch's recorded ones with some tensors replaced by values of the program, and
//! dtypes, layouts, numbers and elements changed; the others are views, writes and simple
//! functions. What eager execution refuses is left out.
//!
//! The program runs eagerly and compiled, several times: on other numbers, on what the call before
//! left, on tensors of other sizes or that no longer overlap. Both must leave the same: numbers
//! (every bit where all operators promise it; else what their tolerances, carried through the
//! program, explain), dtypes, sizes, strides, offsets, which tensors are one or share memory, what
//! has been written, the random generator's state, and the class of an error.
//!
//! `PROGRAMS=100000 SEED=1 cargo test --release --test suite programs::campaign -- --ignored
//! --nocapture` runs many; a difference is made smaller and printed with its seed, which alone
//! makes the program again: `PROGRAMS=1 SEED=n`. `PROGRAM_OP=aten::add` takes recorded calls of
//! these operators only, `PROGRAM_LOG=file` leaves the seed that is being run in a file, to be read
//! after a crash.

mod check;
mod compare;
mod generate;
mod library;
mod program;
mod random;
mod shrink;
mod views;
mod world;

use check::{Outcome, check};
use generate::generate;
use library::Library;
use std::collections::{BTreeMap, BTreeSet};
use straightline_runtime::cpu::math::Isa;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

/// A sample in a process of its own for each instruction set: the default generator is seeded
/// there, and nobody else draws.
#[test]
fn compiled_programs_do_what_eager_ones_do() {
    let here = Isa::ALL.iter().filter(|isa| isa.available() == **isa);
    let children: Vec<_> = here
        .map(|isa| {
            let child = std::process::Command::new(std::env::current_exe().expect("this binary"))
                .args(["programs::campaign", "--exact", "--ignored", "--nocapture"])
                .env("STRAIGHTLINE_ISA", isa.name())
                .output();
            (isa.name(), child.expect("this binary can be started"))
        })
        .collect();
    for (isa, child) in children {
        let text = String::from_utf8_lossy(&child.stdout);
        let errors = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{isa}: {}\n{text}\n{errors}", child.status);
    }
}

#[test]
#[ignore = "seeds the default generator: runs in a process of its own"]
fn campaign() {
    let (count, first) = (setting("PROGRAMS", 120), setting("SEED", 1));
    let show = setting("SHOW", 5) as usize;
    let log = std::env::var("PROGRAM_LOG").ok();
    let library = Library::load(&std::env::var("PROGRAM_OP").unwrap_or_default());
    let (mut agreed, mut none, mut calls, mut steps) = (0u64, 0u64, 0usize, 0usize);
    let mut refused: BTreeMap<String, u64> = BTreeMap::new();
    let mut used = BTreeSet::new();
    let mut differences = Vec::new();
    for seed in first..first + count {
        if let Some(log) = &log {
            std::fs::write(log, seed.to_string()).expect("a file that can be written");
        }
        let program = generate(&library, seed);
        steps += program.steps.len();
        match check(&program) {
            Outcome::Same(n) => {
                agreed += 1;
                calls += n;
                used.extend(program.steps.into_iter().map(|s| s.op));
            }
            Outcome::NoProgram => none += 1,
            Outcome::Refused(why) => {
                let short: String = why.chars().filter(|c| !c.is_ascii_digit()).take(90).collect();
                *refused.entry(short).or_default() += 1;
            }
            Outcome::Differs(why) => {
                if differences.len() < show {
                    let small = shrink::shrink(program);
                    let why = match check(&small) {
                        Outcome::Differs(why) => why,
                        _ => why,
                    };
                    println!("seed {seed}: {why}\n{small}\n");
                } else {
                    println!("seed {seed}: {why}\n");
                }
                differences.push(seed);
            }
        }
    }
    if setting("REFUSED", 0) > 0 {
        for (why, n) in &refused {
            println!("refused {n} times: {why}");
        }
    }
    println!(
        "{agreed} programs agree in {calls} calls; {steps} steps of {} operators; {none} are none, {} are refused by name, {} \
         differ: seeds {:?}",
        used.len(),
        refused.values().sum::<u64>(),
        differences.len(),
        &differences[..differences.len().min(50)]
    );
    assert!(agreed > 0 || count < 10, "no program ran");
    assert!(differences.is_empty(), "{} programs differ", differences.len());
}
