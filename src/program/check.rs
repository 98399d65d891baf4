//! What a call gives, compared with what the program takes.

use super::Leaf;
use super::error::{Place, ProgramError};
use super::sizes::{Derived, Linear, Size, Symbol, admits, range};
use super::spec::{Input, InputKind};
use crate::error::Result;

/// Compares what a call gives with what the program takes.
///
/// A symbol has the size of the first input that has it by itself; one that inputs only have in
/// expressions is solved for. Its own bounds hold in the first case. In the second those of the
/// expression do: PyTorch writes `s69` from 2 on although `4*s69` is 4 in a call that it takes.
///
/// # Errors
/// The first difference.
pub(super) fn check(
    inputs: &[Input],
    symbols: &[Symbol],
    derived: &[Derived],
    given: &[Leaf],
) -> Result<()> {
    if inputs.len() != given.len() {
        let expected = inputs.iter().map(|i| i.text(symbols)).collect::<Vec<_>>().join(", ");
        let (takes, given) = (inputs.len(), given.len());
        return Err(ProgramError::InputCount { takes, given, expected }.into());
    }
    let mut call = Call { symbols, derived, bound: vec![None; symbols.len()] };
    let pairs = || inputs.iter().zip(given).enumerate();
    for (index, (input, leaf)) in pairs() {
        check_kind(index, input, leaf, symbols)?;
        each_size(index, input, leaf, |place, size, is| match size {
            Size::Symbol(s) => call.bind(*s, place, is),
            _ => Ok(()),
        })?;
    }
    for (index, (input, leaf)) in pairs() {
        each_size(index, input, leaf, |place, size, is| match size {
            Size::Sum(_) | Size::Product(_) => call.solve(size, place, is),
            _ => Ok(()),
        })?;
    }
    // what is computed from symbols, now that all of them are known
    for (index, (input, leaf)) in pairs() {
        each_size(index, input, leaf, |place, size, is| call.compare(size, place, is))?;
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

/// The sizes of one call.
struct Call<'a> {
    symbols: &'a [Symbol],
    derived: &'a [Derived],
    bound: Vec<Option<(i64, Place)>>,
}

impl Call<'_> {
    fn known(&self, symbol: usize) -> Option<i64> {
        Some(self.bound.get(symbol)?.as_ref()?.0)
    }

    /// A symbol that an input has by itself.
    fn bind(
        &mut self,
        symbol: usize,
        place: Place,
        size: i64,
    ) -> std::result::Result<(), ProgramError> {
        let symbols = self.symbols;
        let (Some(known), Some(slot)) = (symbols.get(symbol), self.bound.get_mut(symbol)) else {
            return Ok(());
        };
        match slot {
            Some((expected, _)) if *expected == size => Ok(()),
            Some((expected, first)) => Err(ProgramError::Sizes {
                place,
                size,
                expected: *expected,
                because: Some(first.to_string()),
            }),
            None if known.admits(size) => {
                *slot = Some((size, place));
                Ok(())
            }
            None => Err(ProgramError::Range {
                place,
                size,
                symbol: known.name.clone(),
                range: range(known.min, known.max),
            }),
        }
    }

    /// An expression with one symbol that is not known yet.
    fn solve(
        &mut self,
        of: &Size,
        place: Place,
        size: i64,
    ) -> std::result::Result<(), ProgramError> {
        let Some(Linear { scale, symbol: Some(symbol), shift }) =
            of.linear(&|s| self.known(s)).filter(|l| l.scale != 0)
        else {
            return Ok(());
        };
        let rest = size.checked_sub(shift);
        let value = rest.filter(|r| r.checked_rem(scale) == Some(0)).map(|r| r / scale);
        let bounded = self.derived.iter().any(|d| d.size.mentions(symbol));
        let fits = |value: &i64| {
            *value >= 0 && (bounded || self.symbols.get(symbol).is_none_or(|s| s.admits(*value)))
        };
        match (value.filter(fits), self.bound.get_mut(symbol)) {
            (Some(value), Some(slot)) => {
                *slot = Some((value, place));
                Ok(())
            }
            (None, _) => {
                let symbols = self.symbols;
                let known = symbols.get(symbol).map_or_else(String::new, ToString::to_string);
                Err(ProgramError::Form { place, size, form: of.text(symbols), symbol: known })
            }
            _ => Ok(()),
        }
    }

    /// A size that follows from others.
    fn compare(&self, of: &Size, place: Place, size: i64) -> std::result::Result<(), ProgramError> {
        if let Some(expected) = of.value(&|s| self.known(s)).filter(|n| *n != size) {
            let because = match of {
                Size::Fixed(_) => None,
                _ => Some(of.text(self.symbols)),
            };
            return Err(ProgramError::Sizes { place, size, expected, because });
        }
        for bounds in self.derived.iter().filter(|d| d.size == *of) {
            if !admits(bounds.min, bounds.max, size) {
                return Err(ProgramError::Range {
                    place,
                    size,
                    symbol: of.text(self.symbols),
                    range: range(bounds.min, bounds.max),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Tensor};

    fn product(n: i64) -> Size {
        Size::Product(vec![Size::Fixed(n), Size::Symbol(0)])
    }

    fn checked(
        sizes: &[Size],
        derived: &[Derived],
        given: &[i64],
    ) -> std::result::Result<(), String> {
        let symbols =
            ["s0", "s1"].map(|name| Symbol { name: name.into(), min: Some(2), max: Some(64) });
        let input = |size: &Size| Input {
            name: "x".into(),
            kind: InputKind::Tensor { dtype: DType::F32, sizes: vec![size.clone()] },
        };
        let inputs: Vec<Input> = sizes.iter().map(input).collect();
        let leaf = |n: &i64| Leaf::Tensor(Tensor::zeros([*n]).unwrap());
        let given: Vec<Leaf> = given.iter().map(leaf).collect();
        check(&inputs, &symbols, derived, &given).map_err(|e| e.to_string())
    }

    #[test]
    fn a_symbol_of_expressions_alone_is_solved_for() {
        let form = [product(6)];
        assert_eq!(checked(&form, &[], &[12]), Ok(()));
        let e = checked(&form, &[], &[13]).unwrap_err();
        assert!(e.contains("is 13") && e.contains("6*s0"), "{e}");
        // another expression of the same symbol
        let two = [product(6), Size::Sum(vec![Size::Symbol(0), Size::Fixed(1)])];
        assert_eq!(checked(&two, &[], &[12, 3]), Ok(()));
        let e = checked(&two, &[], &[12, 4]).unwrap_err();
        assert!(e.contains("has to be 3"), "{e}");
        // two symbols at once are not solved for, and a known one is put in
        let sum = Size::Sum(vec![Size::Symbol(0), Size::Symbol(1)]);
        assert_eq!(checked(std::slice::from_ref(&sum), &[], &[9]), Ok(()));
        assert_eq!(checked(&[Size::Symbol(1), sum.clone()], &[], &[4, 9]), Ok(()));
        assert!(checked(&[Size::Symbol(1), sum], &[], &[4, 3]).is_err());
    }

    #[test]
    fn bounds_of_expressions_hold_in_place_of_the_symbols() {
        let four = [product(4)];
        let bounds = [Derived { size: product(4), min: Some(4), max: Some(256) }];
        for (size, fits) in [(4, true), (256, true), (260, false), (0, false), (6, false)] {
            assert_eq!(checked(&four, &bounds, &[size]).is_ok(), fits, "{size}");
        }
        let e = checked(&four, &bounds, &[260]).unwrap_err();
        assert!(e.contains("4*s0 from 4 to 256"), "{e}");
        // without bounds of its own those of the symbol
        assert!(checked(&four, &[], &[4]).is_err());
    }

    #[test]
    fn a_fixed_size_is_its_own_reason() {
        let e = checked(&[Size::Fixed(2)], &[], &[1]).unwrap_err();
        assert!(e.ends_with("is 1, and has to be 2"), "{e}");
    }
}
