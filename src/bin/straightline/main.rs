//! cli
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the generate command will use it")
)]
mod grammar;
fn main() {}
