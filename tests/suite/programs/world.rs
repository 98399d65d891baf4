//! A program's memory and inputs as tensors, and running the program on them.

use super::program::{Base, Input, Program, Round, Source, extent};
use super::random::Rng;
use crate::conformance::case;
use straightline::dispatch::{Value, operator};
use straightline::ops::aten;
use straightline::{DType, Error, ErrorKind, Result, Tensor};

/// The memory and the inputs of one run.
pub(crate) struct World {
    pub(crate) bases: Vec<Tensor>,
    /// In the order of the program's inputs.
    pub(crate) inputs: Vec<Tensor>,
}

/// What one call is given.
pub(crate) struct Entered {
    /// All inputs, closed-over ones among them.
    pub(crate) inputs: Vec<Tensor>,
    /// Memory that is not the world's own.
    pub(crate) apart: Vec<Tensor>,
}

/// A tensor over the whole memory of another one.
pub(crate) fn whole(dtype: DType, data: &[u8]) -> Result<Tensor> {
    case::storage(dtype, data)
}

pub(crate) fn place(base: &Tensor, input: &Input) -> Result<Tensor> {
    aten::as_strided(base, &input.sizes, &input.strides, Some(input.offset))
}

/// The elements in row-major order, as bytes.
pub(crate) fn bytes(t: &Tensor) -> Result<Vec<u8>> {
    macro_rules! of {
        ($t:ty) => {
            t.to_vec::<$t>()?.iter().flat_map(|x| x.to_le_bytes()).collect()
        };
    }
    macro_rules! pairs {
        ($t:ty) => {
            (t.to_vec::<num_complex::Complex<$t>>()?.iter())
                .flat_map(|x| [x.re.to_le_bytes(), x.im.to_le_bytes()])
                .flatten()
                .collect()
        };
    }
    Ok(match t.dtype() {
        DType::F32 => of!(f32),
        DType::F64 => of!(f64),
        DType::F16 => of!(half::f16),
        DType::BF16 => of!(half::bf16),
        DType::I64 => of!(i64),
        DType::I32 => of!(i32),
        DType::I16 => of!(i16),
        DType::I8 => of!(i8),
        DType::U8 => of!(u8),
        DType::Bool => t.to_vec::<bool>()?.into_iter().map(u8::from).collect(),
        DType::C64 => pairs!(f32),
        DType::C128 => pairs!(f64),
        DType::QInt8 | DType::QUInt8 | DType::QInt32 => {
            return Err(Error::new(ErrorKind::DType("programs have no quantized tensors".into())));
        }
    })
}

/// The numbers in memory of a dtype; real and imaginary parts one after another.
pub(crate) fn numbers(dtype: DType, data: &[u8]) -> Vec<f64> {
    macro_rules! of {
        ($t:ty) => {
            (data.chunks_exact(size_of::<$t>()))
                .map(|c| {
                    let x = <$t>::from_le_bytes(c.try_into().expect("as long as the type"));
                    #[allow(clippy::unnecessary_cast)] // of f64
                    let x = x as f64;
                    x
                })
                .collect()
        };
    }
    macro_rules! half {
        ($t:ty) => {
            (data.chunks_exact(2)).map(|c| <$t>::from_le_bytes([c[0], c[1]]).to_f64()).collect()
        };
    }
    match dtype {
        DType::F32 | DType::C64 => of!(f32),
        DType::F64 | DType::C128 => of!(f64),
        DType::F16 => half!(half::f16),
        DType::BF16 => half!(half::bf16),
        DType::I64 => of!(i64),
        DType::I32 | DType::QInt32 => of!(i32),
        DType::I16 => of!(i16),
        DType::I8 | DType::QInt8 => of!(i8),
        DType::U8 | DType::Bool | DType::QUInt8 => of!(u8),
    }
}

/// The elements of a memory in another order.
fn shuffled(base: &Base, rng: &mut Rng) -> Vec<u8> {
    let size = base.dtype.size();
    let mut order: Vec<usize> = (0..base.data.len() / size).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i + 1));
    }
    (order.iter()).flat_map(|&i| base.data[i * size..(i + 1) * size].iter().copied()).collect()
}

impl World {
    pub(crate) fn new(program: &Program) -> Result<World> {
        let bases =
            (program.bases.iter()).map(|b| whole(b.dtype, &b.data)).collect::<Result<Vec<_>>>()?;
        let mut inputs: Vec<Tensor> = Vec::new();
        for input in &program.inputs {
            inputs.push(match input.same {
                Some(k) => inputs[k].clone(),
                None => place(&bases[input.base], input)?,
            });
        }
        Ok(World { bases, inputs })
    }

    /// What the function is called with in this round.
    pub(crate) fn enter(&self, program: &Program, round: Round) -> Result<Entered> {
        let mut inputs = self.inputs.clone();
        let mut apart = Vec::new();
        match round {
            Round::Again => {}
            Round::Shuffled(seed) => {
                let mut rng = Rng::new(seed);
                for (t, base) in self.bases.iter().zip(&program.bases) {
                    t.copy_(&whole(base.dtype, &shuffled(base, &mut rng))?)?;
                }
            }
            Round::Apart(seed) => {
                let mut rng = Rng::new(seed);
                for (t, input) in inputs.iter_mut().zip(&program.inputs) {
                    if !input.closed {
                        let base = &program.bases[input.base];
                        let memory = whole(base.dtype, &shuffled(base, &mut rng))?;
                        *t = place(&memory, input)?;
                        apart.push(memory);
                    }
                }
            }
            Round::Resized { from, to } => {
                for (t, input) in inputs.iter_mut().zip(&program.inputs) {
                    if !input.closed && input.sizes.contains(&from) {
                        let (memory, of) = resized(&program.bases[input.base], input, from, to)?;
                        *t = of;
                        apart.push(memory);
                    }
                }
            }
        }
        Ok(Entered { inputs, apart })
    }
}

/// An input whose dimensions of one size have another one, its strides spread so that elements stay
/// apart if they were.
fn resized(base: &Base, input: &Input, from: i64, to: i64) -> Result<(Tensor, Tensor)> {
    let mut input = input.clone();
    let mut order: Vec<usize> = (0..input.sizes.len()).collect();
    order.sort_by_key(|&d| input.strides[d]);
    for (at, &d) in order.iter().enumerate() {
        if input.sizes[d] != from {
            continue;
        }
        input.sizes[d] = to;
        for &e in &order[at + 1..] {
            let wider = input.strides[e] * to.max(from);
            input.strides[e] = (wider + from.max(1) - 1) / from.max(1);
        }
    }
    let need = extent(&input.sizes, &input.strides, input.offset).max(0) as usize;
    let size = base.dtype.size();
    let mut data = base.data.clone();
    if data.is_empty() {
        data = vec![0; size];
    }
    while data.len() < need * size {
        data.extend_from_within(..);
    }
    let memory = whole(base.dtype, &data)?;
    let t = place(&memory, &input)?;
    Ok((memory, t))
}

/// The tensors of the stack replaced, in order.
pub(crate) fn with_tensors(stack: &[Value], next: &mut dyn FnMut(&Tensor) -> Tensor) -> Vec<Value> {
    stack
        .iter()
        .map(|v| match v {
            Value::Tensor(t) => Value::Tensor(next(t)),
            Value::TensorList(l) => Value::TensorList(l.iter().map(&mut *next).collect()),
            Value::OptionalTensorList(l) => {
                Value::OptionalTensorList(l.iter().map(|t| t.as_ref().map(&mut *next)).collect())
            }
            other => other.clone(),
        })
        .collect()
}

pub(crate) fn tensors(stack: &[Value]) -> Vec<Tensor> {
    stack.iter().flat_map(Value::tensors).cloned().collect()
}

/// One step on the values so far; its results.
pub(crate) fn step(
    program: &Program,
    k: usize,
    inputs: &[Tensor],
    values: &[Vec<Tensor>],
) -> Result<Vec<Tensor>> {
    let step = &program.steps[k];
    let mut sources = step.sources.iter();
    let mut missing = false;
    let mut stack = with_tensors(&step.stack, &mut |own| {
        let found = match sources.next() {
            Some(Source::Input(i)) => inputs.get(*i),
            Some(Source::Step(k, r)) => values[*k].get(*r),
            Some(Source::Own) | None => Some(own),
        };
        missing |= found.is_none();
        found.unwrap_or(own).clone()
    });
    if missing {
        let text = "a step before returned fewer tensors for arguments of these shapes";
        return Err(Error::new(ErrorKind::Runtime(text.into())));
    }
    operator(&step.op)?.call_boxed(&mut stack)?;
    Ok(tensors(&stack))
}

/// Runs all steps; `after` sees the results of each when it has run.
pub(crate) fn run(
    program: &Program,
    inputs: &[Tensor],
    after: &mut dyn FnMut(usize, &[Vec<Tensor>]) -> Result<()>,
) -> Result<Vec<Vec<Tensor>>> {
    let mut values: Vec<Vec<Tensor>> = Vec::new();
    for k in 0..program.steps.len() {
        let made = step(program, k, inputs, &values)?;
        values.push(made);
        after(k, &values)?;
    }
    Ok(values)
}

/// What the program returns, of all its values.
pub(crate) fn results(program: &Program, inputs: &[Tensor], values: &[Vec<Tensor>]) -> Vec<Tensor> {
    (program.results.iter())
        .filter_map(|s| match *s {
            Source::Input(i) => Some(inputs[i].clone()),
            // a step may return fewer tensors for arguments of other shapes
            Source::Step(k, r) => values[k].get(r).cloned(),
            Source::Own => None,
        })
        .collect()
}
