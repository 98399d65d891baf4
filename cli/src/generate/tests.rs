use super::{Arguments, Generator, Model, run};
use crate::error::Result;
use clap::Parser;
use serde::Deserialize;
use std::collections::BTreeMap;
use straightline::{Device, Tensor};

/// What the model computes in float64, by models/grammar/evaluate.py.
#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    prompt: String,
    ids: Vec<i64>,
    logits: BTreeMap<usize, f32>,
    logits_sum: f32,
    greedy: Vec<i64>,
    text: String,
    grammatical: bool,
}

fn golden() -> Golden {
    let text = include_str!("../../../models/grammar/golden.json");
    serde_json::from_str(text).expect("golden.json is what evaluate.py writes")
}

/// Command line flags as clap reads them.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

fn printed(flags: &[&str]) -> Result<String> {
    let line = Line::try_parse_from([&["generate"], flags].concat()).expect("flags parse");
    let mut out = Vec::new();
    run(&line.arguments, &mut out)?;
    Ok(String::from_utf8(out).expect("the output is text"))
}

#[test]
fn logits_and_greedy_sentences_are_the_golden_ones() -> Result<()> {
    let generator = Generator::open(None, Device::CPU)?;
    let eager = |ids: &Tensor| generator.model.logits(ids);
    let compiled = |ids: &Tensor| generator.compiled.call(ids);
    let models: [(&str, Model<'_>); 2] = [("eager", &eager), ("compiled", &compiled)];
    for (name, model) in models {
        for case in golden().cases {
            let at = format!("{name}, {:?}", case.prompt);
            let beginning = generator.beginning(&case.prompt)?;
            assert_eq!(beginning, case.ids, "{at}");

            let mut padded = beginning.clone();
            padded.resize(16, 0);
            let logits = model(&Tensor::from_slice(&padded, [1, 16])?)?.to_vec::<f32>()?;
            let row = &logits[(beginning.len() - 1) * 600..beginning.len() * 600];
            for (token, expected) in &case.logits {
                let found = row[*token];
                assert!((found - expected).abs() < 1e-4, "{at}: {token} {found} {expected}");
            }
            let sum: f32 = row.iter().sum();
            assert!((sum - case.logits_sum).abs() < 1e-2, "{at}: {sum}");

            let sentence = generator.sentence(model, &beginning, 0.0, 0)?;
            assert_eq!(sentence[beginning.len() - 1..], case.greedy, "{at}");
            let text = generator.grammar.decode(&sentence).expect("known tokens");
            assert_eq!(text, case.text);
            let verdict = generator.grammar.check(&sentence).expect("known tokens");
            assert_eq!(verdict.is_ok(), case.grammatical, "{at}");
        }
    }
    Ok(())
}

#[test]
fn the_report_says_what_was_compared() -> Result<()> {
    let text = printed(&["--sentences", "3"])?;
    assert!(text.contains("identical token for token"), "{text}");
    assert!(text.contains("3 sentences, "), "{text}");
    Ok(())
}

#[test]
fn json_is_one_object_and_the_seed_decides() -> Result<()> {
    let sentences = |seed: &str| -> Result<serde_json::Value> {
        let text = printed(&["-n", "2", "--json", "--prompt", "the owl", "--seed", seed])?;
        let value: serde_json::Value = serde_json::from_str(&text).expect("output is JSON");
        assert_eq!(value["identical"], true);
        assert_eq!(value["compiled"]["dispatches_per_token"], 0.0);
        Ok(value["sentences"].clone())
    };
    let first = sentences("5")?;
    let text = first[0]["text"].as_str().expect("a sentence is text");
    assert!(text.starts_with("The owl "), "{text}");
    assert_eq!(first, sentences("5")?);
    assert_ne!(first, sentences("6")?);
    Ok(())
}

#[test]
fn a_prompt_that_cannot_be_continued_is_refused() {
    let error = |prompt: &str| printed(&["--prompt", prompt]).unwrap_err().to_string();
    assert!(error("the gryphon").contains("\"gryphon\""));
    assert!(error("the owl sings.").contains("full stop"));
    assert!(error(&"the ".repeat(20)).contains("20 words"));
}

#[test]
fn temperatures_are_numbers_from_zero_up() {
    for bad in ["-1", "NaN", "inf", "warm"] {
        let flag = format!("--temperature={bad}");
        assert!(Line::try_parse_from(["generate", &flag]).is_err(), "{bad}");
    }
}
