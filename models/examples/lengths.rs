//! Serves sentences of many lengths with one compiled encoder.
//!
//! ```sh
//! cargo run --release -p straightline-models --example lengths -- FOLDER [LENGTHS]
//! ```
//!
//! FOLDER has the weights of all-MiniLM-L6-v2 (the example `minilm` says where to get them). LENGTHS,
//! 200 by default, is how many lengths are served. What the code for many lengths costs is compared
//! with code that was made for one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use straightline::{CompileOptions, DynamicSizes, Result, Tensor, compile, compile_with};
use straightline_models::bert::Bert;

/// Token ids of a sentence, and a mask that keeps all of them.
fn sentence(length: i64) -> Result<(Tensor, Tensor)> {
    let ids: Vec<i64> = (0..length).map(|i| 1000 + i * 7919 % 20_000).collect();
    Ok((Tensor::from_vec(ids, [1, length])?, Tensor::ones([1, length])?))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn time(mut call: impl FnMut() -> Result<Tensor>) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..15 {
        let begin = Instant::now();
        call()?;
        times.push(begin.elapsed());
    }
    Ok(median(times))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: lengths FOLDER [LENGTHS]")?);
    let count: usize = arguments.next().map_or(Ok(200), |n| n.parse())?;
    let bert = Arc::new(Bert::load(&folder)?);
    let of = |bert: &Arc<Bert>| {
        let bert = bert.clone();
        move |(ids, mask): &(Tensor, Tensor)| bert.embed(ids, mask)
    };
    let encode = compile(of(&bert));
    // spread over 5..=505, in no order
    let lengths: Vec<i64> = (0..count as i64).map(|i| 5 + i * 211 % 501).collect();
    let (mut first, mut eager) = (Vec::new(), Vec::new());
    for &length in &lengths {
        let inputs = sentence(length)?;
        let begin = Instant::now();
        let embedding = encode.call(&inputs)?;
        first.push((length, begin.elapsed()));
        let expected = encode.eager(&inputs)?;
        let apart = embedding.sub(&expected)?.abs()?.max()?.to_vec::<f32>()?[0];
        if apart > 1e-4 {
            return Err(format!("length {length}: eager and compiled differ by {apart}").into());
        }
        eager.push(apart);
    }
    let different: BTreeSet<i64> = lengths.iter().copied().collect();
    println!(
        "{} lengths from {} to {}: {} codes, {} variants, largest difference to eager {:.1e}",
        different.len(),
        different.first().unwrap_or(&0),
        different.last().unwrap_or(&0),
        encode.codes(),
        encode.variants(),
        eager.iter().fold(0f32, |a, b| a.max(*b)),
    );
    for v in encode.explain().variants.iter().filter(|v| v.code_of.is_none()) {
        println!("  variant {}: code of its own; {}", v.number, v.misfits.join("; "));
    }
    println!("\nlength  first call  later, one code for all  code for it alone  ratio");
    let never = CompileOptions { dynamic: DynamicSizes::Never, ..CompileOptions::default() };
    for (length, took) in first.iter().rev().take(6) {
        let inputs = sentence(*length)?;
        let alone = compile_with(never.clone(), of(&bert));
        alone.call(&inputs)?;
        let (shared, alone) = (time(|| encode.call(&inputs))?, time(|| alone.call(&inputs))?);
        println!(
            "{length:6}  {:7.2} ms  {:20.3} ms  {:14.3} ms  {:5.2}",
            took.as_secs_f64() * 1e3,
            shared.as_secs_f64() * 1e3,
            alone.as_secs_f64() * 1e3,
            shared.as_secs_f64() / alone.as_secs_f64()
        );
    }
    Ok(())
}
