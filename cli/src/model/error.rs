//! What can be wrong with inputs.

use straightline::program::Program;

/// Inputs that the program does not take, or that cannot be made up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error(
        "{program} needs inputs: give --input FILE.safetensors, or --random for made-up ones (--size SYMBOL=N sets \
         their sizes). {expected}"
    )]
    NoneGiven { program: String, expected: String },
    #[error("{path} has no tensor for {}. {expected}", .missing.join(", "))]
    Missing { path: String, missing: Vec<String>, expected: String },
    #[error("{path} has {}, which the program does not take. {expected}", few(.unknown))]
    Unknown { path: String, unknown: Vec<String>, expected: String },
    #[error("{path} has two tensors for input `{input}`: `{first}` and `{second}`")]
    Twice { path: String, input: String, first: String, second: String },
    #[error("{path}: `{tensor}` is {given}, and input `{input}` is {takes}: give a single element")]
    NoNumber { path: String, tensor: String, given: String, input: String, takes: String },
    #[error("{path}: {reason}. {expected}")]
    Unfit { path: String, reason: String, expected: String },
    #[error("--size {name}: the program has no size of that name; {known}")]
    NoSymbol { name: String, known: String },
    #[error("--size {name}={size}: the program was exported for {range}")]
    Range { name: String, size: i64, range: String },
    #[error("--size {name} is given twice")]
    SizeTwice { name: String },
    #[error("--high {name}: {reason}. {expected}")]
    High { name: String, reason: String, expected: String },
    #[error("input `{input}` cannot be made up: {reason}")]
    NotMadeUp { input: String, reason: String },
}

/// The first of some names.
fn few(names: &[String]) -> String {
    const FEW: usize = 6;
    let first: Vec<&str> = names.iter().take(FEW).map(String::as_str).collect();
    match names.len() {
        n if n > FEW => format!("{} and {} more", first.join(", "), n - FEW),
        _ => first.join(", "),
    }
}

/// What the program takes, for messages.
pub(super) fn expected(program: &Program) -> String {
    let symbols = program.symbols();
    let inputs = program.inputs();
    if inputs.is_empty() {
        return "The program takes no inputs".to_owned();
    }
    let lines =
        inputs.iter().enumerate().map(|(i, input)| format!("\n  {i}  {}", input.text(symbols)));
    let mut text = format!("The program takes{}", lines.collect::<String>());
    if !symbols.is_empty() {
        let all: Vec<String> = symbols.iter().map(ToString::to_string).collect();
        text.push_str(&format!("\nwith {}", all.join(", ")));
    }
    text
}
