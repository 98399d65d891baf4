//! What a program says about its inputs, weights and results.

use super::Leaf;
use super::error::{Place, ProgramError};
use crate::error::Result;
use crate::tensor::Tensor;
use std::fmt;
use straightline_catalog::DType;

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
        self.min.is_none_or(|min| size >= min) && self.max.is_none_or(|max| size <= max)
    }

    fn range(&self) -> String {
        match (self.min, self.max) {
            (Some(min), Some(max)) => format!("from {min} to {max}"),
            (Some(min), None) => format!("from {min} on"),
            (None, Some(max)) => format!("up to {max}"),
            (None, None) => "of any size".to_owned(),
        }
    }
}

/// `s77 from 2 to 64`.
impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.range())
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
    fn value(&self, symbol: &dyn Fn(usize) -> Option<i64>) -> Option<i64> {
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
}

/// What an input is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum InputKind {
    /// A tensor of this dtype, whose sizes are as described.
    Tensor {
        /// Its elements.
        dtype: DType,
        /// Its sizes.
        sizes: Vec<Size>,
    },
    /// A number that stands for a size.
    Size(Size),
    /// A value that is part of the program: a call gives the same.
    Constant(Leaf),
    /// Something whose description is not known: it is taken as it is.
    Any,
}

/// An input of a program.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: InputKind,
}

impl Input {
    /// `x: f32[s77, 8]`, given the program's symbols.
    ///
    /// ```
    /// use straightline::pt2;
    /// let program = pt2::load("tests/data/pt2/transformer_encoder.pt2")?;
    /// assert_eq!(program.inputs()[0].text(program.symbols()), "src: f32[2, s98, 32]");
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn text(&self, symbols: &[Symbol]) -> String {
        let Input { name, kind } = self;
        format!("{name}: {}", kind.text(symbols))
    }
}

impl InputKind {
    fn text(&self, symbols: &[Symbol]) -> String {
        match self {
            InputKind::Tensor { dtype, sizes } => {
                let sizes: Vec<String> = sizes.iter().map(|s| s.text(symbols)).collect();
                format!("{dtype}[{}]", sizes.join(", "))
            }
            InputKind::Size(size) => size.text(symbols),
            InputKind::Constant(value) => format!("the constant {value}"),
            InputKind::Any => "anything".to_owned(),
        }
    }
}

/// What a weight is to the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WeightKind {
    /// What is trained.
    Parameter,
    /// State that is no parameter, such as running statistics.
    Buffer {
        /// Whether a state dict has it.
        persistent: bool,
    },
    /// A tensor that the model's code made.
    Constant,
}

/// A tensor that belongs to a program.
#[derive(Clone, Debug)]
pub struct Weight {
    /// Its name in the model: `encoder.layers.0.weight`.
    pub name: String,
    /// What it is.
    pub kind: WeightKind,
    /// Its values. Where they lie in a mapped file, they can only be read.
    pub tensor: Tensor,
}

/// A result of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// The value's name, or the text of a constant.
    pub name: String,
    /// Whether it is a tensor.
    pub is_tensor: bool,
}

/// Compares what a call gives with what the program takes.
///
/// # Errors
/// The first difference.
pub(super) fn check(inputs: &[Input], symbols: &[Symbol], given: &[Leaf]) -> Result<()> {
    if inputs.len() != given.len() {
        let expected = inputs.iter().map(|i| i.text(symbols)).collect::<Vec<_>>().join(", ");
        let (takes, given) = (inputs.len(), given.len());
        return Err(ProgramError::InputCount { takes, given, expected }.into());
    }
    let mut bound: Vec<Option<(i64, Place)>> = vec![None; symbols.len()];
    let pairs = || inputs.iter().zip(given).enumerate();
    for (index, (input, leaf)) in pairs() {
        check_kind(index, input, leaf, symbols)?;
        each_size(index, input, leaf, |place, size, is| match size {
            Size::Symbol(s) => bind(symbols, &mut bound, *s, place, is),
            _ => Ok(()),
        })?;
    }
    // what is computed from symbols, when all of them are known
    let known = |s: usize| Some(bound.get(s)?.as_ref()?.0);
    for (index, (input, leaf)) in pairs() {
        each_size(index, input, leaf, |place, size, is| match size.value(&known) {
            Some(expected) if expected != is => {
                let because = size.text(symbols);
                Err(ProgramError::Sizes { place, size: is, expected, because })
            }
            _ => Ok(()),
        })?;
    }
    Ok(())
}

fn check_kind(index: usize, input: &Input, leaf: &Leaf, symbols: &[Symbol]) -> Result<()> {
    let fits = match (&input.kind, leaf) {
        (InputKind::Tensor { dtype, sizes }, Leaf::Tensor(t)) => {
            t.dtype() == *dtype && t.dim() == sizes.len()
        }
        (InputKind::Constant(value), given) => value.is_same_constant(given),
        (InputKind::Size(_), Leaf::Int(_)) | (InputKind::Any, _) => true,
        _ => false,
    };
    if fits {
        return Ok(());
    }
    Err(ProgramError::Input {
        index,
        name: input.name.clone(),
        given: leaf.to_string(),
        expected: input.kind.text(symbols),
    }
    .into())
}

/// Calls `f` with each size of an input that was given, and what the program says of it.
fn each_size(
    index: usize,
    input: &Input,
    leaf: &Leaf,
    mut f: impl FnMut(Place, &Size, i64) -> std::result::Result<(), ProgramError>,
) -> std::result::Result<(), ProgramError> {
    let place = |dim| Place { index, name: input.name.clone(), dim };
    match (&input.kind, leaf) {
        (InputKind::Tensor { sizes, .. }, Leaf::Tensor(t)) => {
            let pairs = sizes.iter().zip(t.sizes()).enumerate();
            pairs.into_iter().try_for_each(|(dim, (size, is))| f(place(Some(dim)), size, *is))
        }
        (InputKind::Size(size), Leaf::Int(is)) => f(place(None), size, *is),
        _ => Ok(()),
    }
}

fn bind(
    symbols: &[Symbol],
    bound: &mut [Option<(i64, Place)>],
    symbol: usize,
    place: Place,
    size: i64,
) -> std::result::Result<(), ProgramError> {
    let (Some(known), Some(slot)) = (symbols.get(symbol), bound.get_mut(symbol)) else {
        return Ok(());
    };
    match slot {
        Some((expected, _)) if *expected == size => Ok(()),
        Some((expected, first)) => Err(ProgramError::Sizes {
            place,
            size,
            expected: *expected,
            because: first.to_string(),
        }),
        None if known.admits(size) => {
            *slot = Some((size, place));
            Ok(())
        }
        None => Err(ProgramError::Range {
            place,
            size,
            symbol: known.name.clone(),
            range: known.range(),
        }),
    }
}
