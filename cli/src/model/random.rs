//! Made-up inputs. They follow from the seed and the inputs' names alone.

use super::error::{InputError, expected};
use super::options::ModelOptions;
use crate::error::Result;
use crate::workloads::data;
use straightline::program::{Input, InputKind, Leaf, Program, Size, Symbol};
use straightline::{DType, Tensor};

/// The size of what may differ from call to call, if it is allowed.
const SIZE: i64 = 2;
/// The integers of inputs that are no positions in weights: less than this.
const HIGH: i64 = 2;
/// More elements are a typing error.
const MOST: i64 = 1 << 31;

/// The sizes of the program's symbols.
pub(super) fn sizes(program: &Program, options: &ModelOptions) -> Result<Vec<i64>, InputError> {
    let symbols = program.symbols();
    for (name, size) in &options.sizes {
        let Some(symbol) = symbols.iter().find(|s| s.name == *name) else {
            let all: Vec<String> = symbols.iter().map(ToString::to_string).collect();
            let known = match all.is_empty() {
                true => "all its sizes are fixed".to_owned(),
                false => format!("it has {}", all.join(", ")),
            };
            return Err(InputError::NoSymbol { name: name.clone(), known });
        };
        if !symbol.admits(*size) || *size < 0 {
            let (name, size, range) = (name.clone(), *size, symbol.to_string());
            return Err(InputError::Range { name, size, range });
        }
        if options.sizes.iter().filter(|(other, _)| other == name).count() > 1 {
            return Err(InputError::SizeTwice { name: name.clone() });
        }
    }
    let given =
        |s: &Symbol| options.sizes.iter().find(|(name, _)| *name == s.name).map(|(_, n)| *n);
    Ok(symbols.iter().map(|s| given(s).unwrap_or_else(|| usual(s))).collect())
}

/// The size that a symbol has where the user says nothing.
fn usual(symbol: &Symbol) -> i64 {
    let size = symbol.min.map_or(SIZE, |min| min.max(SIZE));
    symbol.max.map_or(size, |max| size.min(max))
}

/// Inputs that the program takes.
pub(super) fn inputs(program: &Program, options: &ModelOptions) -> Result<Vec<Leaf>> {
    let sizes = sizes(program, options)?;
    for (name, high) in &options.highs {
        high_fits(program, name, *high)?;
    }
    let each = program.inputs().iter().enumerate();
    each.map(|(at, input)| one(program, options, &sizes, at, input)).collect()
}

fn high_fits(program: &Program, name: &str, high: i64) -> Result<(), InputError> {
    let input = program.inputs().iter().find(|i| i.name == name);
    let reason = match input.map(|i| &i.kind) {
        None => "the program has no input of that name".to_owned(),
        Some(_) if high < 1 => "the number has to be 1 or more".to_owned(),
        Some(InputKind::Tensor { dtype, .. }) if dtype.is_integral() => {
            return Ok(());
        }
        Some(_) => "the input does not consist of integers".to_owned(),
    };
    Err(InputError::High { name: name.to_owned(), reason, expected: expected(program) })
}

fn one(
    program: &Program,
    options: &ModelOptions,
    symbols: &[i64],
    at: usize,
    input: &Input,
) -> Result<Leaf> {
    let not = |reason: String| InputError::NotMadeUp { input: input.name.clone(), reason };
    let value = |size: &Size| match size.of(symbols) {
        Some(n) if n >= 0 => Ok(n),
        Some(n) => Err(not(format!("a size is {n}; another --size may help"))),
        None => Err(not(
            "a size follows from others in a way that is not known here; give it with --input"
                .into(),
        )),
    };
    Ok(match &input.kind {
        InputKind::Tensor { dtype, sizes } => {
            let sizes = sizes.iter().map(value).collect::<Result<Vec<i64>, InputError>>()?;
            let count = sizes.iter().try_fold(1i64, |n, size| n.checked_mul(*size));
            if count.is_none_or(|n| n > MOST) {
                return Err(not(format!("{sizes:?} are too many elements")).into());
            }
            let high = options.highs.iter().find(|(name, _)| *name == input.name);
            let high = high.map(|(_, n)| *n).or_else(|| program.positions_below(at));
            let stream = format!("{}.{}", options.seed(), input.name);
            Leaf::Tensor(elements(&stream, *dtype, &sizes, high.unwrap_or(HIGH))?)
        }
        InputKind::Size(size) => Leaf::Int(value(size)?),
        InputKind::Constant(constant) => constant.clone(),
        _ => {
            let reason = "the file does not say what it is; give it with --input".to_owned();
            return Err(not(reason).into());
        }
    })
}

/// Elements of a stream: floating point from -1 to 1, integers from 0, at random true or false.
fn elements(stream: &str, dtype: DType, sizes: &[i64], high: i64) -> straightline::Result<Tensor> {
    if dtype == DType::Bool {
        return data::ids(stream, sizes, 0, 2)?.to_dtype(dtype);
    }
    if dtype.is_integral() {
        // the smallest integers have seven bits
        let most = if dtype.size() == 1 { 128 } else { i64::from(i16::MAX) + 1 };
        let high = if dtype.size() < 4 { high.min(most) } else { high };
        return data::ids(stream, sizes, 0, high.max(1))?.to_dtype(dtype);
    }
    data::uniform(stream, sizes, 1.0, 0.0)?.to_dtype(dtype)
}
