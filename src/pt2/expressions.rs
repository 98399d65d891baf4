//! Sizes written as sympy's `srepr`: `Mul(Integer(2), Symbol('s0', positive=True, integer=True))`.

use crate::program::{Size, Symbol};

/// Reads an expression; symbols that are new are added. What is not a sum or a product of integers
/// and symbols is kept as text.
pub(super) fn size(text: &str, symbols: &mut Vec<Symbol>) -> Size {
    let mut parser = Parser { text, symbols, depth: 0 };
    match parser.expression() {
        Some(size) if parser.text.trim().is_empty() => size,
        _ => Size::Other(text.to_owned()),
    }
}

/// The number of a symbol.
pub(super) fn symbol(name: &str, symbols: &mut Vec<Symbol>) -> usize {
    symbols.iter().position(|s| s.name == name).unwrap_or_else(|| {
        symbols.push(Symbol { name: name.to_owned(), min: None, max: None });
        symbols.len() - 1
    })
}

/// How deep expressions nest.
const DEPTH: usize = 32;

struct Parser<'a> {
    text: &'a str,
    symbols: &'a mut Vec<Symbol>,
    depth: usize,
}

impl<'a> Parser<'a> {
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
                Size::Symbol(symbol(name, self.symbols))
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
        let mut symbols = Vec::new();
        let s = "Symbol('s77', positive=True, integer=True)";
        assert_eq!(size(s, &mut symbols), Size::Symbol(0));
        assert_eq!(size("Integer(-3)", &mut symbols), Size::Fixed(-3));
        let product = size(&format!("Mul(Integer(2), {s})"), &mut symbols);
        assert_eq!(product, Size::Product(vec![Size::Fixed(2), Size::Symbol(0)]));
        let sum =
            size(&format!("Add(Mul(Integer(2), {s}), Symbol('u0'), Integer(1))"), &mut symbols);
        assert!(matches!(&sum, Size::Sum(all) if all.len() == 3));
        assert_eq!(symbols.len(), 2);
        for odd in [
            "FloorDiv(Integer(3), Integer(2))",
            "Mul(",
            "Mul()",
            "Integer(x)",
            "",
            "Integer(1) Integer(2)",
        ] {
            assert_eq!(size(odd, &mut symbols), Size::Other(odd.to_owned()), "{odd}");
        }
        let deep = format!("{}Integer(1){}", "Add(".repeat(200), ")".repeat(200));
        assert!(matches!(size(&deep, &mut symbols), Size::Other(_)));
    }
}
