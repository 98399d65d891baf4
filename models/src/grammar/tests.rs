use super::*;

/// Drawn from the grammar by the trainer's sampler.
const SENTENCES: &[&str] = &[
    "Ben works softly.",
    "The sailors are very rich.",
    "Every writer might want the fresh banana.",
    "In this inn, no captain hid eagerly.",
    "After nobody finds the child, the birds run.",
    "The fox from an island smelled a sweet onion.",
    "The sheep plays and an unusually tired inventor read the story.",
    "Grace read your message.",
    "He translates a story because someone smiles.",
    "When this mouse chases all pilots, the mouse disappears.",
    "Their anxious farmer who watches the gardeners ran bravely.",
    "The owl that my quiet emperor followed should eat a potato.",
    "The inventor was outside your rather small inns.",
    "Her astronaut thinks that a queen wants the pie.",
    "A bear and my brave bird wanted this sandwich.",
    "The foxes eat the very ripe orange before they thank her.",
    "The quite happy soldier did not chase the old inventor who disappears.",
    "The king remembers the essay beyond the bridge again.",
    "The brave mice from a village do not play angrily behind an office.",
    "An honest man sings.",
];

/// Sentences with one thing wrong, and the word (from 0) at which they can no longer be saved.
const CORRUPTED: &[(&str, usize)] = &[
    ("The dogs sleeps.", 2),
    ("The sailors whom the old captain helped sings.", 7),
    ("An old dogs sleep.", 2),
    ("A old dog sleeps.", 1),
    ("An unicorn runs.", 1),
    ("A honest man sings.", 1),
    ("The dog reads a book.", 2),
    ("The man eats a ladder.", 4),
    ("The lamp sleeps.", 2),
    ("He see her.", 1),
    ("Anna gives the letter.", 4),
    ("She does not sleeps.", 3),
    ("Three cat run.", 1),
    ("Dog the sleeps.", 0),
    ("The uncles is here.", 2),
    ("The very very old dog sleeps.", 2),
];

fn grammar() -> Grammar {
    Grammar::embedded().expect("the shipped grammar is good")
}

fn verdict(text: &str) -> Result<(), Violation> {
    let grammar = grammar();
    let ids = grammar.encode(text).expect("known words");
    grammar.check(&ids).expect("ids from encode")
}

#[test]
fn the_vocabulary_is_the_models() {
    let grammar = grammar();
    assert_eq!(grammar.vocabulary(), 600);
    assert_eq!((grammar.bos(), grammar.end()), (0, 1));
    assert_eq!(grammar.max_tokens(), 16);
}

#[test]
fn accepts_sentences_drawn_from_the_grammar() {
    for text in SENTENCES {
        assert_eq!(verdict(text), Ok(()), "{text}");
    }
}

#[test]
fn rejects_corrupted_sentences_at_the_word() {
    for &(text, wrong) in CORRUPTED {
        match verdict(text) {
            Err(Violation::Unexpected { at, expected, .. }) => {
                assert_eq!(at, wrong, "{text}");
                assert!(!expected.is_empty(), "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn rejects_swapped_neighbours() {
    // No two words of this one can change places.
    let grammar = grammar();
    let ids = grammar.encode("The lazy women who sang jumped.").expect("known words");
    for i in 0..ids.len() - 1 {
        let mut swapped = ids.clone();
        swapped.swap(i, i + 1);
        let text = grammar.decode(&swapped).expect("ids of the vocabulary");
        let verdict = grammar.check(&swapped).expect("ids of the vocabulary");
        assert_eq!(verdict.is_ok(), text == "The lazy women who jumped sang.", "{text}");
    }
}

#[test]
fn says_what_could_stand_there() {
    let violation = verdict("A old dog sleeps.").expect_err("should be an");
    let text = violation.to_string();
    assert!(text.starts_with("\"old\" (word 2) can not stand here"), "{text}");
    assert!(text.contains("Adj.person.c") && !text.contains("Adj.person.v"), "{text}");
}

#[test]
fn a_sentence_must_end_once_and_in_time() {
    assert!(matches!(
        verdict("The dog sleeps"),
        Err(Violation::Unfinished { expected }) if expected.contains(&"Stop".to_owned())
    ));
    assert!(matches!(verdict(""), Err(Violation::Unfinished { .. })));
    assert_eq!(verdict("The dog sleeps. The"), Err(Violation::Trailing { words: 4 }));
    let long = "The very old dog from the small village sees the very old cat near the old bridge.";
    let (words, max_tokens) = (18, 16);
    assert_eq!(verdict(long), Err(Violation::TooLong { words, max_tokens }));
}

#[test]
fn text_survives_encoding() {
    let grammar = grammar();
    for text in SENTENCES {
        let mut ids = vec![grammar.bos()];
        ids.extend(grammar.encode(text).expect("known words"));
        assert_eq!(grammar.decode(&ids).expect("ids from encode"), *text);
    }
    // names and sentence starts, however they are written
    let plain = grammar.encode("Anna sees the dog .").expect("known words");
    assert_eq!(grammar.encode("ANNA sees The dog.").expect("known words"), plain);
    assert_eq!(grammar.encode("anna sees the dog.").expect("known words"), plain);
}

#[test]
fn unknown_words_and_ids_are_named() {
    let grammar = grammar();
    let error = grammar.encode("the quark sleeps").expect_err("no quarks here").to_string();
    assert!(error.contains("\"quark\"") && error.contains("600"), "{error}");
    for id in [-1, 600, i64::MAX] {
        assert!(matches!(grammar.decode(&[id]), Err(GrammarError::IdOutOfRange { .. })));
        assert!(matches!(grammar.check(&[id]), Err(GrammarError::IdOutOfRange { .. })));
    }
}

/// A file with the given tokens, word lists and rules; sentences start at S.
fn load(tokens: &str, lexicon: &str, rules: &str) -> Result<Grammar, GrammarError> {
    Grammar::from_json(&format!(
        r#"{{"start":"S","max_tokens":8,"bos":"^","end":".","tokens":["^",".",{tokens}],
            "lexicon":{{{lexicon}}},"rules":{{{rules}}}}}"#
    ))
}

#[test]
fn bad_grammar_files_are_refused() {
    let words = r#""A":["a"]"#;
    assert!(load(r#""a""#, words, r#""S":[[1,"A A"]]"#).is_ok());
    let error = |tokens, lexicon, rules| load(tokens, lexicon, rules).err().expect("a bad file");
    let cases = [
        (error(r#""a","a""#, words, r#""S":[[1,"A"]]"#), r#"token "a" is listed twice"#),
        (
            error(r#""a""#, words, r#""S":[[1,"A"]],"A":[[1,"S"]]"#),
            "category A has both words and rules",
        ),
        (error(r#""a""#, words, r#""S":[[1,"A B"]]"#), "category S uses B, which is not defined"),
        (error(r#""a""#, words, r#""S":[[1,""]]"#), "category S has an empty rule"),
        (
            error(r#""a""#, r#""A":["b"]"#, r#""S":[[1,"A"]]"#),
            r#""b", used by A, is not among the tokens"#,
        ),
        (
            error(r#""a""#, words, r#""S":[[1,"T A"]],"T":[[1,"S"],[1,"A"]]"#),
            "category S is left-recursive",
        ),
    ];
    for (error, message) in cases {
        assert!(error.to_string().contains(message), "{error} / {message}");
    }
    assert!(matches!(Grammar::from_json("{"), Err(GrammarError::Json(_))));
}

#[test]
fn ambiguity_and_right_recursion_are_no_problem() {
    let grammar = load(
        r#""a""#,
        r#""A":["a"],"Stop":["."]"#,
        r#""S":[[1,"L Stop"]],"L":[[1,"A"],[1,"A L"],[1,"A A L"]]"#,
    )
    .expect("a good file");
    for n in 0..=8 {
        let mut ids = vec![2; n];
        ids.push(1);
        let verdict = grammar.check(&ids).expect("ids of the vocabulary");
        assert_eq!(verdict.is_ok(), (1..=7).contains(&n), "{n}");
    }
}
