//! Sizes that may differ from call to call: symbols, what is computed from them, their bounds.

use std::fmt;

/// A size that may differ from call to call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// `s77`.
    pub name: String,
    /// The smallest size, if there is a bound.
    pub min: Option<i64>,
    /// The largest size, if there is a bound.
    pub max: Option<i64>,
}

impl Symbol {
    /// Whether it may be of this size.
    ///
    /// ```
    /// use straightline::program::Symbol;
    /// let symbol = Symbol { name: "s77".into(), min: Some(2), max: None };
    /// assert!(symbol.admits(2) && !symbol.admits(1));
    /// ```
    pub fn admits(&self, size: i64) -> bool {
        admits(self.min, self.max, size)
    }
}

pub(super) fn admits(min: Option<i64>, max: Option<i64>, size: i64) -> bool {
    min.is_none_or(|min| size >= min) && max.is_none_or(|max| size <= max)
}

pub(super) fn range(min: Option<i64>, max: Option<i64>) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!("from {min} to {max}"),
        (Some(min), None) => format!("from {min} on"),
        (None, Some(max)) => format!("up to {max}"),
        (None, None) => "of any size".to_owned(),
    }
}

/// `s77 from 2 to 64`.
impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, range(self.min, self.max))
    }
}

/// A size of an input.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Size {
    /// Always the same.
    Fixed(i64),
    /// A symbol, by its number among those of the program.
    Symbol(usize),
    /// Computed from symbols.
    Sum(Vec<Size>),
    /// Computed from symbols.
    Product(Vec<Size>),
    /// Something else, which is not compared at a call: its text.
    Other(String),
}

impl Size {
    /// Its value where the program's symbols have these sizes; `None` for a size that is known by its
    /// text alone.
    ///
    /// ```
    /// use straightline::program::Size;
    /// let size = Size::Sum(vec![Size::Symbol(0), Size::Fixed(-1)]);
    /// assert_eq!(size.of(&[8]), Some(7));
    /// ```
    pub fn of(&self, symbols: &[i64]) -> Option<i64> {
        self.value(&|s| symbols.get(s).copied())
    }

    /// Its value by those of symbols; `None` where one has none yet.
    pub(super) fn value(&self, symbol: &dyn Fn(usize) -> Option<i64>) -> Option<i64> {
        match self {
            Size::Fixed(n) => Some(*n),
            Size::Symbol(s) => symbol(*s),
            Size::Sum(all) => all.iter().try_fold(0i64, |n, s| n.checked_add(s.value(symbol)?)),
            Size::Product(all) => all.iter().try_fold(1i64, |n, s| n.checked_mul(s.value(symbol)?)),
            Size::Other(_) => None,
        }
    }

    /// Its text with the names of symbols.
    pub(super) fn text(&self, symbols: &[Symbol]) -> String {
        let all = |of: &[Size], sign: &str| {
            of.iter().map(|s| s.text(symbols)).collect::<Vec<_>>().join(sign)
        };
        match self {
            Size::Fixed(n) => n.to_string(),
            Size::Symbol(s) => symbols.get(*s).map_or("?".into(), |s| s.name.clone()),
            Size::Sum(of) => format!("({})", all(of, " + ")),
            Size::Product(of) => all(of, "*"),
            Size::Other(text) => text.clone(),
        }
    }

    /// As `scale * symbol + shift`, where one symbol at most has no value yet, and that to the first
    /// power.
    pub(super) fn linear(&self, symbol: &dyn Fn(usize) -> Option<i64>) -> Option<Linear> {
        let fixed = |shift| Linear { scale: 0, symbol: None, shift };
        match self {
            Size::Fixed(n) => Some(fixed(*n)),
            Size::Symbol(s) => Some(match symbol(*s) {
                Some(n) => fixed(n),
                None => Linear { scale: 1, symbol: Some(*s), shift: 0 },
            }),
            Size::Sum(all) => all.iter().try_fold(fixed(0), |sum, size| {
                let more = size.linear(symbol)?;
                if sum.symbol.is_some() && more.symbol.is_some() && sum.symbol != more.symbol {
                    return None;
                }
                Some(Linear {
                    scale: sum.scale.checked_add(more.scale)?,
                    symbol: sum.symbol.or(more.symbol),
                    shift: sum.shift.checked_add(more.shift)?,
                })
            }),
            Size::Product(all) => all.iter().try_fold(fixed(1), |product, size| {
                let more = size.linear(symbol)?;
                let (known, by) = match (product.symbol, more.symbol) {
                    (Some(_), Some(_)) => return None,
                    (Some(_), None) => (product, more.shift),
                    (None, _) => (more, product.shift),
                };
                Some(Linear {
                    scale: known.scale.checked_mul(by)?,
                    symbol: known.symbol,
                    shift: known.shift.checked_mul(by)?,
                })
            }),
            Size::Other(_) => None,
        }
    }

    /// Whether a symbol is part of it.
    pub(super) fn mentions(&self, symbol: usize) -> bool {
        match self {
            Size::Symbol(s) => *s == symbol,
            Size::Sum(all) | Size::Product(all) => all.iter().any(|s| s.mentions(symbol)),
            Size::Fixed(_) | Size::Other(_) => false,
        }
    }
}

/// `scale * symbol + shift`.
#[derive(Clone, Copy)]
pub(super) struct Linear {
    pub(super) scale: i64,
    pub(super) symbol: Option<usize>,
    pub(super) shift: i64,
}

/// The bounds of a size that is computed from symbols: `4*s69` from 4 to 256.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Derived {
    pub(crate) size: Size,
    pub(crate) min: Option<i64>,
    pub(crate) max: Option<i64>,
}

impl Derived {
    /// `4*s69 from 4 to 256`, given the program's symbols.
    pub(super) fn text(&self, symbols: &[Symbol]) -> String {
        format!("{} {}", self.size.text(symbols), range(self.min, self.max))
    }
}
