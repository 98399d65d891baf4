//! What a description says, as far as the sizes of the tensors do not say it.

use super::trouble::Trouble;
use straightline::{Result, Tensor};

/// A description.
#[derive(Clone, Copy)]
pub(super) struct Words<'a>(pub(super) &'a str);

pub(super) type Activation = fn(&Tensor) -> Result<Tensor>;

const ACTIVATIONS: [(&str, Activation); 13] = [
    ("relu", |x| x.relu()),
    ("relu6", |x| x.relu6()),
    ("leaky_relu", |x| x.leaky_relu()),
    ("silu", |x| x.silu()),
    ("gelu", |x| x.gelu()),
    ("gelu_tanh", |x| x.gelu_tanh()),
    ("tanh", |x| x.tanh()),
    ("sigmoid", |x| x.sigmoid()),
    ("elu", |x| x.elu()),
    ("selu", |x| x.selu()),
    ("softplus", |x| x.softplus()),
    ("mish", |x| x.mish()),
    ("hardswish", |x| x.hardswish()),
];

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The number that a text begins with.
fn leading(text: &str) -> Option<f64> {
    let text = text.trim_start_matches([' ', '=', ':', '(']);
    let text = text.strip_prefix("of ").unwrap_or(text);
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".+-eE".contains(c)));
    let mut text = &text[..end.unwrap_or(text.len())];
    // `0.1.` ends a sentence
    while !text.is_empty() {
        if let Ok(n) = text.parse() {
            return Some(n);
        }
        text = &text[..text.len() - 1];
    }
    None
}

/// The number that a text ends with.
fn trailing(text: &str) -> Option<f64> {
    let text = text.trim_end_matches([' ', '*']);
    let from = text.rfind(|c: char| !(c.is_ascii_digit() || ".e-".contains(c)));
    text[from.map_or(0, |at| at + 1)..].parse().ok()
}

impl<'a> Words<'a> {
    /// Whether one of these stands somewhere, whatever the case.
    pub(super) fn says(self, phrases: &[&str]) -> bool {
        phrases.iter().any(|p| self.find(p).is_some())
    }

    fn find(self, phrase: &str) -> Option<usize> {
        let (text, phrase) = (self.0.as_bytes(), phrase.as_bytes());
        // no part of a word
        let ends = |a: Option<&u8>, b: Option<&u8>| {
            ![a, b].iter().all(|c| c.is_some_and(|c| is_word(char::from(*c))))
        };
        (0..(text.len() + 1).saturating_sub(phrase.len())).find(|at| {
            let (before, rest) = text.split_at(*at);
            let (found, after) = rest.split_at(phrase.len());
            found.eq_ignore_ascii_case(phrase)
                && ends(before.last(), phrase.first())
                && ends(phrase.last(), after.first())
        })
    }

    /// The number after one of these; none if none of them is there.
    pub(super) fn after(self, phrases: &[&str]) -> Result<Option<f64>, Trouble> {
        let Some((at, phrase)) = phrases.iter().find_map(|p| Some((self.find(p)?, p))) else {
            return Ok(None);
        };
        match leading(&self.0[at + phrase.len()..]) {
            Some(n) => Ok(Some(n)),
            None => Err(Trouble::Description(format!("`{phrase}`, and no number after it"))),
        }
    }

    /// The whole number after one of these.
    pub(super) fn count_after(self, phrases: &[&str]) -> Result<Option<i64>, Trouble> {
        let found = self.after(phrases)?;
        found.map(|n| whole(phrases[0], n)).transpose()
    }

    /// The number before a phrase, which has to be there.
    pub(super) fn before(self, phrase: &str) -> Result<f64, Trouble> {
        let at = self.find(phrase);
        let found = at.and_then(|at| trailing(&self.0[..at]));
        found.ok_or_else(|| Trouble::Description(format!("no number before `{phrase}`")))
    }

    /// The whole number before a phrase, or after its name for a setting.
    pub(super) fn count_before(self, phrase: &str, setting: &str) -> Result<i64, Trouble> {
        match self.count_after(&[setting])? {
            Some(n) => Ok(n),
            None => whole(phrase, self.before(phrase)?),
        }
    }

    /// The list in brackets after a phrase; none if it is not there.
    pub(super) fn list_after(self, phrase: &str) -> Result<Option<Vec<f64>>, Trouble> {
        let Some(at) = self.find(phrase) else { return Ok(None) };
        let rest = &self.0[at + phrase.len()..];
        let list = rest.trim_start().strip_prefix('[').and_then(|r| r.split_once(']'));
        let list = list.map(|(list, _)| list.split(',').map(|n| n.trim().parse().ok()).collect());
        match list {
            Some(Some(list)) => Ok(Some(list)),
            _ => Err(Trouble::Description(format!("`{phrase}`, and no list after it"))),
        }
    }

    /// What stands in the parentheses of `name(..)`.
    pub(super) fn call(self, name: &str) -> Result<Words<'a>, Trouble> {
        let unknown = || Trouble::Description(format!("nothing of `{name}(..)`"));
        let at = self.find(&format!("{name}(")).ok_or_else(unknown)? + name.len() + 1;
        let mut depth = 1;
        for (i, c) in self.0[at..].char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(Words(&self.0[at..at + i]));
            }
        }
        Err(unknown())
    }

    /// The last of the arguments of a call, a whole number.
    pub(super) fn last_argument(self, name: &str) -> Result<i64, Trouble> {
        let arguments = self.call(name)?.0;
        let last = arguments.rsplit(',').next().and_then(leading);
        let last = last.ok_or_else(|| Trouble::Description(format!("`{name}({arguments})`")))?;
        whole(name, last)
    }

    /// The one activation that is named before `noun`: of `3-4-1 tanh MLP` and `MLP` it is `tanh`.
    pub(super) fn activation_of(self, noun: &str) -> Result<Activation, Trouble> {
        let before = |at: usize| self.0[..at].trim_end().rsplit(' ').next();
        let word = self.0.find(noun).and_then(before).unwrap_or("");
        Words(word).activation()
    }

    /// The one activation that is named.
    pub(super) fn activation(self) -> Result<Activation, Trouble> {
        let text = self.0.to_ascii_lowercase();
        let mut named: Vec<&(&str, Activation)> = Vec::new();
        for word in text.split(|c| !is_word(c)) {
            let found = ACTIVATIONS.iter().find(|(name, _)| *name == word);
            if let Some(found) = found.filter(|f| named.iter().all(|n| n.0 != f.0)) {
                named.push(found);
            }
        }
        let mut names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        match (&named[..], &names[..]) {
            ([(_, f)], _) => Ok(*f),
            // the approximation with a tanh
            (_, ["gelu", "tanh"] | ["gelu", "gelu_tanh"]) => Ok(|x| x.gelu_tanh()),
            (_, names) => Err(Trouble::Description(format!(
                "`{}` where one activation is needed",
                names.join("`, `")
            ))),
        }
    }
}

fn whole(what: &str, n: f64) -> Result<i64, Trouble> {
    match n.fract() == 0.0 && n.abs() < 1e9 {
        true => Ok(n as i64),
        false => Err(Trouble::Description(format!("{n} for `{what}`, which is counted"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_where_they_stand() {
        let words = Words(
            "steps 3, conv2(h, Stride 2, groups 1). eps 1e-5, momentum 0.1. 4 heads; 10*mean(x)",
        );
        assert_eq!(words.call("conv2").unwrap().count_after(&["stride"]).unwrap(), Some(2));
        assert_eq!(words.after(&["eps"]).unwrap(), Some(1e-5));
        assert_eq!(words.after(&["momentum"]).unwrap(), Some(0.1));
        assert_eq!(words.after(&["smoothing"]).unwrap(), None);
        assert_eq!(words.count_before(" heads", "n_head").unwrap(), 4);
        assert_eq!(words.before("mean(x").unwrap(), 10.0);
        assert!(words.after(&["conv2"]).is_err());
        assert!(words.count_after(&["momentum"]).is_err());
        assert!(words.call("conv1").is_err() && words.before("layers").is_err());
        let listed = Words("class weights [1,2,0.5], ignore_index -100");
        assert_eq!(listed.list_after("class weights").unwrap(), Some(vec![1.0, 2.0, 0.5]));
        assert_eq!(listed.count_after(&["ignore_index"]).unwrap(), Some(-100));
        assert!(Words("class weights of 1").list_after("class weights").is_err());
    }

    #[test]
    fn one_activation_is_named() {
        let x = straightline::tensor([-1.0, 2.0]).unwrap();
        let same = |text: &str, y: Tensor| {
            let found = Words(text).activation().unwrap()(&x).unwrap();
            assert_eq!(found.to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap(), "{text}");
        };
        same("h = SiLU(h) * mask", x.silu().unwrap());
        same("gelu with tanh", x.gelu_tanh().unwrap());
        same("relu(h), then relu again", x.relu().unwrap());
        for text in ["relu or silu", "none at all", "relus"] {
            assert!(matches!(Words(text).activation(), Err(Trouble::Description(_))), "{text}");
        }
    }
}
