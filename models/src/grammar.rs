//! The grammar that the small GPT is trained on: words to ids and back, a recogniser of its
//! sentences, and sentences drawn from it.
//!
//! Nothing about English is written here. `models/grammar/grammar.json` holds a plain context-free
//! grammar, from which the model is trained; this file reads it. The grammar must not be
//! left-recursive (checked on load), so recognising is plain recursive descent over all
//! alternatives: `Parse::ends` gives the set of positions at which a category can end, as a bit
//! mask, once per category and position.

mod draw;

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use thiserror::Error;

/// The grammar file that ships with the program.
const EMBEDDED: &str = include_str!("../grammar/grammar.json");

/// Positions are bits of a `u32`, and a sentence of n words has n + 1 of them.
const LONGEST: usize = 31;

/// What can be wrong with a grammar file, or with text and ids given to it.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum GrammarError {
    #[error("the grammar file is not what it should be: {0}")]
    Json(#[from] serde_json::Error),
    #[error("token {token:?} is listed twice")]
    DuplicateToken { token: String },
    #[error("category {category} has both words and rules")]
    DefinedTwice { category: String },
    #[error("category {category} uses {part}, which is not defined")]
    Undefined { category: String, part: String },
    #[error("category {category} has an empty rule")]
    EmptyRule { category: String },
    #[error("category {category} is left-recursive: it can begin with itself")]
    LeftRecursion { category: String },
    #[error("{word:?}, used by {category}, is not among the tokens")]
    NotAToken { category: String, word: String },
    #[error("sentences of up to {max_tokens} tokens: at most {LONGEST} are supported")]
    TooLong { max_tokens: usize },
    #[error("{word:?} is not one of the {vocabulary} words this model knows")]
    UnknownWord { word: String, vocabulary: usize },
    #[error("token id {id} is outside the vocabulary of {vocabulary}")]
    IdOutOfRange { id: i64, vocabulary: usize },
}

/// Why a sequence of tokens is not a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Violation {
    /// No sentence begins with the tokens up to and including the one at `at`.
    #[error("{word:?} (word {}) can not stand here; possible: {}", at + 1, expected.join(", "))]
    Unexpected { at: usize, word: String, expected: Vec<String> },
    /// The tokens could begin a sentence, but it does not end.
    #[error("the sentence does not end; possible next: {}", expected.join(", "))]
    Unfinished { expected: Vec<String> },
    /// There is a sentence, and then more.
    #[error("the sentence is over after {words} words, and something follows")]
    Trailing { words: usize },
    /// More tokens than a sentence may have.
    #[error("{words} words, and a sentence has at most {max_tokens}")]
    TooLong { words: usize, max_tokens: usize },
}

#[derive(Deserialize)]
struct File {
    start: String,
    max_tokens: usize,
    bos: String,
    end: String,
    tokens: Vec<String>,
    lexicon: BTreeMap<String, Vec<String>>,
    /// Alternatives as (weight when sampling, categories separated by spaces).
    rules: BTreeMap<String, Vec<(f64, String)>>,
}

enum Body {
    /// A terminal category: for every token id, whether it belongs, and the ids that do.
    Words { belongs: Vec<bool>, ids: Vec<i64> },
    /// The alternatives, each a sequence of category numbers, with their weights.
    Rules { rules: Vec<Vec<usize>>, weights: Vec<f64> },
}

struct Category {
    name: String,
    body: Body,
}

/// A context-free grammar over a fixed vocabulary.
pub struct Grammar {
    tokens: Vec<String>,
    ids: HashMap<String, i64>,
    categories: Vec<Category>,
    start: usize,
    bos: i64,
    end: i64,
    max_tokens: usize,
}

impl Grammar {
    /// The grammar that the embedded model speaks.
    pub fn embedded() -> Result<Self, GrammarError> {
        Self::from_json(EMBEDDED)
    }

    /// Reads a grammar file and verifies it.
    pub fn from_json(text: &str) -> Result<Self, GrammarError> {
        let file: File = serde_json::from_str(text)?;
        if file.max_tokens > LONGEST {
            let max_tokens = file.max_tokens;
            return Err(GrammarError::TooLong { max_tokens });
        }
        let mut ids = HashMap::new();
        for (id, token) in (0..).zip(&file.tokens) {
            if ids.insert(token.clone(), id).is_some() {
                let token = token.clone();
                return Err(GrammarError::DuplicateToken { token });
            }
        }
        let id_of = |word: &str, category: &str| {
            let missing =
                || GrammarError::NotAToken { category: category.to_owned(), word: word.to_owned() };
            ids.get(word).copied().ok_or_else(missing)
        };

        let names: Vec<&String> = file.lexicon.keys().chain(file.rules.keys()).collect();
        let mut numbers = HashMap::new();
        for (number, &name) in names.iter().enumerate() {
            if numbers.insert(name.as_str(), number).is_some() {
                let category = name.clone();
                return Err(GrammarError::DefinedTwice { category });
            }
        }
        let number_of = |part: &str, category: &str| {
            let missing =
                || GrammarError::Undefined { category: category.to_owned(), part: part.to_owned() };
            numbers.get(part).copied().ok_or_else(missing)
        };

        let mut categories = Vec::with_capacity(names.len());
        for (name, words) in &file.lexicon {
            let mut belongs = vec![false; file.tokens.len()];
            let mut members = Vec::with_capacity(words.len());
            for word in words {
                let id = id_of(word, name)?;
                belongs[id as usize] = true;
                members.push(id);
            }
            let body = Body::Words { belongs, ids: members };
            categories.push(Category { name: name.clone(), body });
        }
        for (name, alternatives) in &file.rules {
            let mut rules = Vec::with_capacity(alternatives.len());
            let mut weights = Vec::with_capacity(alternatives.len());
            for (weight, right) in alternatives {
                let parts = right.split_whitespace().map(|part| number_of(part, name));
                let parts = parts.collect::<Result<Vec<_>, _>>()?;
                if parts.is_empty() {
                    let category = name.clone();
                    return Err(GrammarError::EmptyRule { category });
                }
                rules.push(parts);
                weights.push(*weight);
            }
            let body = Body::Rules { rules, weights };
            categories.push(Category { name: name.clone(), body });
        }

        let grammar = Self {
            start: number_of(&file.start, "the file")?,
            bos: id_of(&file.bos, "the file")?,
            end: id_of(&file.end, "the file")?,
            max_tokens: file.max_tokens,
            tokens: file.tokens.clone(),
            ids: ids.clone(),
            categories,
        };
        grammar.refuse_left_recursion()?;
        Ok(grammar)
    }

    /// The number of tokens.
    pub fn vocabulary(&self) -> usize {
        self.tokens.len()
    }

    /// The id of the token that stands before every sentence.
    pub fn bos(&self) -> i64 {
        self.bos
    }

    /// The id of the token that ends every sentence.
    pub fn end(&self) -> i64 {
        self.end
    }

    /// The most tokens a sentence has, its end included and [`Grammar::bos`] not: the model's
    /// context.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// The ids of the words of `text`. `.` and `,` may cling to a word; capital letters do not
    /// matter.
    pub fn encode(&self, text: &str) -> Result<Vec<i64>, GrammarError> {
        let spaced = text.replace('.', " . ").replace(',', " , ");
        spaced.split_whitespace().map(|word| self.id(word)).collect()
    }

    fn id(&self, word: &str) -> Result<i64, GrammarError> {
        let lower = word.to_lowercase();
        [word, &lower, &capitalised(&lower)]
            .iter()
            .find_map(|form| self.ids.get(*form).copied())
            .ok_or_else(|| GrammarError::UnknownWord {
                word: word.to_owned(),
                vocabulary: self.vocabulary(),
            })
    }

    /// The tokens as a line of text: a capital first, no space before `.` and `,`. [`Grammar::bos`]
    /// is left out.
    pub fn decode(&self, ids: &[i64]) -> Result<String, GrammarError> {
        let mut line = String::new();
        for &id in ids.iter().filter(|&&id| id != self.bos) {
            let word = self.word(id)?;
            if !line.is_empty() && !matches!(word, "." | ",") {
                line.push(' ');
            }
            line.push_str(word);
        }
        Ok(capitalised(&line))
    }

    fn word(&self, id: i64) -> Result<&str, GrammarError> {
        let word = usize::try_from(id).ok().and_then(|id| self.tokens.get(id));
        word.map(String::as_str)
            .ok_or(GrammarError::IdOutOfRange { id, vocabulary: self.vocabulary() })
    }

    /// Whether the tokens (without [`Grammar::bos`]) are a sentence; if not, where they stop being
    /// one.
    pub fn check(&self, ids: &[i64]) -> Result<Result<(), Violation>, GrammarError> {
        for &id in ids {
            self.word(id)?;
        }
        if ids.len() > self.max_tokens {
            return Ok(Err(Violation::TooLong { words: ids.len(), max_tokens: self.max_tokens }));
        }
        let mut parse = Parse {
            grammar: self,
            ids,
            known: vec![None; self.categories.len() * (ids.len() + 1)],
            furthest: 0,
            expected: Vec::new(),
        };
        let ends = parse.ends(self.start, 0);
        if ends & (1 << ids.len()) != 0 {
            return Ok(Ok(()));
        }
        if ends != 0 {
            let words = ends.ilog2() as usize;
            return Ok(Err(Violation::Trailing { words }));
        }
        let Parse { furthest: at, mut expected, .. } = parse;
        expected.sort_unstable();
        let expected = expected.into_iter().map(str::to_owned).collect();
        Ok(Err(match ids.get(at) {
            Some(&id) => Violation::Unexpected { at, word: self.word(id)?.to_owned(), expected },
            None => Violation::Unfinished { expected },
        }))
    }

    /// Depth-first over "can begin with"; a category met again on the way down begins with itself.
    fn refuse_left_recursion(&self) -> Result<(), GrammarError> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        fn visit(grammar: &Grammar, number: usize, marks: &mut [Mark]) -> Result<(), GrammarError> {
            let category = &grammar.categories[number];
            match marks[number] {
                Mark::Done => return Ok(()),
                Mark::Open => {
                    let category = category.name.clone();
                    return Err(GrammarError::LeftRecursion { category });
                }
                Mark::New => marks[number] = Mark::Open,
            }
            if let Body::Rules { rules, .. } = &category.body {
                for rule in rules {
                    visit(grammar, rule[0], marks)?;
                }
            }
            marks[number] = Mark::Done;
            Ok(())
        }
        let mut marks = vec![Mark::New; self.categories.len()];
        (0..self.categories.len()).try_for_each(|number| visit(self, number, &mut marks))
    }
}

/// One run of the recogniser.
struct Parse<'a> {
    grammar: &'a Grammar,
    ids: &'a [i64],
    /// `ends` of (category, position), where it has been computed.
    known: Vec<Option<u32>>,
    /// The last position at which no word matched, and the terminal categories expected there.
    /// Descent reaches a position only after the beginning of some sentence, so this is where the
    /// sentence goes wrong.
    furthest: usize,
    expected: Vec<&'a str>,
}

impl Parse<'_> {
    /// The positions (as bits) at which `category` can end when it begins at `at`.
    fn ends(&mut self, category: usize, at: usize) -> u32 {
        let slot = category * (self.ids.len() + 1) + at;
        if let Some(mask) = self.known[slot] {
            return mask;
        }
        let grammar = self.grammar;
        let mask = match &grammar.categories[category].body {
            Body::Words { belongs, .. } => match self.ids.get(at) {
                Some(&id) if belongs[id as usize] => 1 << (at + 1),
                _ => {
                    self.missed(category, at);
                    0
                }
            },
            Body::Rules { rules, .. } => rules.iter().fold(0, |found, rule| {
                let through = |reached, &part| self.step(part, reached);
                found | rule.iter().fold(1 << at, through)
            }),
        };
        self.known[slot] = Some(mask);
        mask
    }

    /// The union of `ends` over all beginnings in the mask `reached`.
    fn step(&mut self, category: usize, mut reached: u32) -> u32 {
        let mut found = 0;
        while reached != 0 {
            found |= self.ends(category, reached.trailing_zeros() as usize);
            reached &= reached - 1;
        }
        found
    }

    fn missed(&mut self, category: usize, at: usize) {
        if at > self.furthest {
            self.furthest = at;
            self.expected.clear();
        }
        if at == self.furthest {
            self.expected.push(&self.grammar.categories[category].name);
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    match rest.next() {
        Some(first) => first.to_uppercase().chain(rest).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
