//! Sizes as PyTorch writes them: of inputs as sympy's `srepr`, `Mul(Integer(2), Symbol('s0'))`, of
//! bounds as its text, `2*s0 + 1`.

use crate::program::{Derived, Size, Symbol};
use std::collections::HashMap;

/// The symbols of a program, by name.
#[derive(Default)]
pub(super) struct Symbols {
    all: Vec<Symbol>,
    places: HashMap<String, usize>,
}

impl Symbols {
    /// The number of a symbol, which may be new.
    fn place(&mut self, name: &str) -> usize {
        if let Some(at) = self.places.get(name) {
            return *at;
        }
        let at = self.all.len();
        self.all.push(Symbol { name: name.to_owned(), min: None, max: None });
        self.places.insert(name.to_owned(), at);
        at
    }

    /// Reads an expression; symbols that are new are added. What is not a sum or a product of integers
    /// and symbols is kept as text.
    pub(super) fn size(&mut self, text: &str) -> Size {
        let mut parser = Parser { text, symbols: self, depth: 0 };
        match parser.expression() {
            Some(size) if parser.text.trim().is_empty() => size,
            _ => Size::Other(text.to_owned()),
        }
    }

    /// Notes bounds: of a symbol, or of an expression of symbols that there are.
    pub(super) fn bound(
        &mut self,
        text: &str,
        min: Option<i64>,
        max: Option<i64>,
        derived: &mut Vec<Derived>,
    ) {
        if is_name(text) {
            let at = self.place(text);
            (self.all[at].min, self.all[at].max) = (min, max);
        } else if let Some(size) = self.sum(text) {
            derived.push(Derived { size, min, max });
        }
    }

    /// `2*s0 + 1`; nothing where it is something else.
    fn sum(&self, text: &str) -> Option<Size> {
        let text = text.replace(" - ", " + -");
        let mut terms = text.split(" + ").map(|term| self.product(term));
        let first = terms.next()??;
        let mut all = vec![first];
        for term in terms {
            all.push(term?);
        }
        Some(if all.len() == 1 { all.remove(0) } else { Size::Sum(all) })
    }

    fn product(&self, text: &str) -> Option<Size> {
        let one = |text: &str| match text.parse() {
            Ok(n) => Some(Size::Fixed(n)),
            Err(_) => self.places.get(text).map(|at| Size::Symbol(*at)),
        };
        let (sign, text) = match text.strip_prefix('-').filter(|rest| rest.parse::<i64>().is_err())
        {
            Some(rest) => (Some(Size::Fixed(-1)), rest),
            None => (None, text),
        };
        let factors = text.split('*').map(|factor| one(factor.trim()));
        let mut all: Vec<Size> = factors.collect::<Option<_>>()?;
        all.splice(0..0, sign);
        Some(if all.len() == 1 { all.remove(0) } else { Size::Product(all) })
    }

    pub(super) fn into_all(self) -> Vec<Symbol> {
        self.all
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// How deep expressions nest.
const DEPTH: usize = 32;

struct Parser<'a, 's> {
    text: &'a str,
    symbols: &'s mut Symbols,
    depth: usize,
}

impl<'a> Parser<'a, '_> {
    fn expression(&mut self) -> Option<Size> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let (head, rest) = self.text.trim_start().split_once('(')?;
        self.text = rest;
        let size = match head {
            "Integer" => Size::Fixed(self.until_close()?.trim().parse().ok()?),
            "Symbol" => {
                let inside = self.until_close()?;
                let name = inside.trim_start().strip_prefix('\'')?.split('\'').next()?;
                Size::Symbol(self.symbols.place(name))
            }
            "Mul" => Size::Product(self.list()?),
            "Add" => Size::Sum(self.list()?),
            _ => return None,
        };
        self.depth -= 1;
        Some(size)
    }

    fn until_close(&mut self) -> Option<&'a str> {
        let (inside, rest) = self.text.split_once(')')?;
        self.text = rest;
        Some(inside)
    }

    fn list(&mut self) -> Option<Vec<Size>> {
        let mut all = vec![self.expression()?];
        loop {
            let text = self.text.trim_start();
            if let Some(rest) = text.strip_prefix(',') {
                self.text = rest;
                all.push(self.expression()?);
            } else {
                self.text = text.strip_prefix(')')?;
                return Some(all);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read() {
        let mut symbols = Symbols::default();
        let s = "Symbol('s77', positive=True, integer=True)";
        assert_eq!(symbols.size(s), Size::Symbol(0));
        assert_eq!(symbols.size("Integer(-3)"), Size::Fixed(-3));
        let product = symbols.size(&format!("Mul(Integer(2), {s})"));
        assert_eq!(product, Size::Product(vec![Size::Fixed(2), Size::Symbol(0)]));
        let sum = symbols.size(&format!("Add(Mul(Integer(2), {s}), Symbol('u0'), Integer(1))"));
        assert!(matches!(&sum, Size::Sum(all) if all.len() == 3));
        assert_eq!(symbols.all.len(), 2);
        for odd in [
            "FloorDiv(Integer(3), Integer(2))",
            "Mul(",
            "Mul()",
            "Integer(x)",
            "",
            "Integer(1) Integer(2)",
        ] {
            assert_eq!(symbols.size(odd), Size::Other(odd.to_owned()), "{odd}");
        }
        let deep = format!("{}Integer(1){}", "Add(".repeat(200), ")".repeat(200));
        assert!(matches!(symbols.size(&deep), Size::Other(_)));
    }

    #[test]
    fn bounds_are_those_of_symbols_or_of_expressions() {
        let mut symbols = Symbols::default();
        symbols.size("Symbol('s0')");
        let mut derived = Vec::new();
        let mut bound = |text: &str| {
            symbols.bound(text, Some(4), Some(256), &mut derived);
            derived.pop().map(|d| d.size)
        };
        let s = Size::Symbol(0);
        assert_eq!(bound("4*s0"), Some(Size::Product(vec![Size::Fixed(4), s.clone()])));
        let sum = |n| Some(Size::Sum(vec![s.clone(), Size::Fixed(n)]));
        assert_eq!(bound("s0 + 1"), sum(1));
        assert_eq!(bound("s0 - 1"), sum(-1));
        let negative = Size::Product(vec![Size::Fixed(-1), s.clone()]);
        assert_eq!(bound("3 - s0"), Some(Size::Sum(vec![Size::Fixed(3), negative])));
        for other in ["s0**2", "s0//2", "FloorDiv(s0, 2)", "4*s9", "", "(s0 + 1)*2"] {
            assert_eq!(bound(other), None, "{other}");
        }
        assert_eq!(bound("u7"), None);
        let all = symbols.into_all();
        assert_eq!((all[1].name.as_str(), all[1].max), ("u7", Some(256)));
        assert_eq!(all.len(), 2);
    }
}
