//! Graphs as text that somebody has changed: they are refused, or lowered and compiled; nothing
//! panics, and what is printed parses back. `GRAPHS=20000 SEED=1 cargo test --release --test suite
//! graph_texts::` changes many.

use crate::hostile::Dice;
use straightline::ops::aten;
use straightline::{DType, Graph, Result, Tensor, Traced, compile};

fn texts() -> Result<Vec<String>> {
    let (x, w) = (Tensor::randn([2, 3])?, Tensor::randn([4, 3])?);
    let image = Tensor::randn([1, 2, 4, 4])?;
    let text = |f: fn(&Tensor, &Tensor) -> Result<Vec<Tensor>>, a: &Tensor, b: &Tensor| {
        let traced = compile(f).trace((a, b))?;
        Ok::<_, straightline::Error>(traced.graph().to_string())
    };
    Ok(vec![
        text(|x, w| Ok(vec![x.linear(w, None)?.gelu()?.softmax(-1)?]), &x, &w)?,
        text(
            |x, w| {
                x.i(0)?.mul_(2)?;
                Ok(vec![x.sum()?, w.i(..2)?.t()?.contiguous()?])
            },
            &x,
            &w,
        )?,
        text(
            |x, w| {
                let at = straightline::tensor([[0i64, 1, 0]])?;
                let normal = x.layer_norm([3])?;
                Ok(vec![normal, w.cumsum(0)?, x.gather(0, at)?, Tensor::cat([x, w], 0)?])
            },
            &x,
            &w,
        )?,
        text(
            |x, w| {
                let y = aten::conv2d(x, w, None, &[1, 1], &[1, 1], &[1, 1], 1)?.relu()?;
                Ok(vec![y, x.max_pool2d([2, 2])?])
            },
            &image,
            &Tensor::randn([2, 2, 3, 3])?,
        )?,
        text(
            |x, w| {
                let s = x.expand([3, 2, 3])?;
                let bits = w.to(DType::I32)?.bitwise_and(3)?;
                let parts =
                    vec![s.add(1)?, s.unfold(2, 2, 1)?.mul(2)?, x.flip([0])?, x.pad([1, 1])?];
                let found =
                    vec![bits, w.amax([1])?, w.max_dim(1)?.1, w.sort(0, false)?.0, w.var_dim(0)?];
                Ok([parts, found].concat())
            },
            &x,
            &w,
        )?,
        text(
            |x, w| {
                let y = x.matmul(w.t()?)?;
                let z = y.view([1, 2, 4])?.add(1)?;
                let seen = aten::as_strided(&z, &[2, 2], &[4, 1], None)?;
                Ok(vec![seen.mul(2)?, aten::view_dtype(&y, DType::I32)?, Tensor::rand([3])?])
            },
            &x,
            &w,
        )?,
    ])
}

/// The words and numbers of a text.
fn words(text: &str) -> Vec<std::ops::Range<usize>> {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let mut found = Vec::new();
    let mut begin = None;
    for (i, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (begin, inside(c)) {
            (None, true) => begin = Some(i),
            (Some(from), false) => {
                found.push(from..i);
                begin = None;
            }
            _ => {}
        }
    }
    found
}

const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "4",
    "6",
    "24",
    "9223372036854775807",
    "-9223372036854775808",
    "1099511627776",
    "null",
    "true",
    "1.5",
];
const DTYPES: [&str; 10] =
    ["f32", "i64", "bool", "f64", "i32", "bf16", "c64", "u8", "f16", "qint8"];

fn changed(text: &str, dice: &mut Dice) -> String {
    let words = words(text);
    let at = words[dice.below(words.len())].clone();
    let word = &text[at.clone()];
    let another = text[words[dice.below(words.len())].clone()].to_owned();
    let instead = match dice.below(4) {
        _ if word.parse::<i64>().is_ok() => NUMBERS[dice.below(NUMBERS.len())].to_owned(),
        _ if DTYPES.contains(&word) => DTYPES[dice.below(DTYPES.len())].to_owned(),
        0 => String::new(),
        1 => "aten::relu".to_owned(),
        2 => {
            // without a line
            let lines: Vec<&str> = text.lines().collect();
            let gone = dice.below(lines.len());
            let kept = lines.iter().enumerate().filter(|(i, _)| *i != gone);
            return kept.map(|(_, line)| format!("{line}\n")).collect();
        }
        _ => another,
    };
    let mut text = text.to_owned();
    text.replace_range(at, &instead);
    text
}

#[test]
fn a_changed_text_is_refused_or_compiled() {
    let setting = |name: &str, default| {
        let value = std::env::var(name).ok();
        value.map_or(default, |s| s.parse().expect("a number"))
    };
    let (graphs, seed): (u64, u64) = (setting("GRAPHS", 1500), setting("SEED", 0));
    let texts = texts().unwrap();
    let mut ends = [0; 4];
    for number in seed..seed + graphs {
        let mut dice = Dice(number);
        let mut text = texts[dice.below(texts.len())].clone();
        for _ in 0..1 + dice.below(3) {
            text = changed(&text, &mut dice);
        }
        let through = || {
            let Ok(graph) = Graph::parse(&text) else {
                return 0;
            };
            let printed = graph.to_string();
            let again = Graph::parse(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
            assert_eq!(again.to_string(), printed);
            let Ok(lowered) = Traced::from_graph(graph).lower() else {
                return 1;
            };
            match lowered.compile() {
                Ok(_) => 3,
                Err(_) => 2,
            }
        };
        let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(through));
        ends[end.unwrap_or_else(|_| panic!("SEED={number} GRAPHS=1:\n{text}"))] += 1;
    }
    // of all kinds there are some
    assert!(ends[0] > 0 && ends[1] > 0 && ends[3] > 0, "{ends:?}");
}
