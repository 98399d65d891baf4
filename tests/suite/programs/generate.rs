//! Making programs.

use super::library::Library;
use super::program::{Base, Input, Made, Program, Round, Source, Step, extent};
use super::random::Rng;
use super::views;
use super::world::{bytes, place, tensors, whole, with_tensors};
use crate::conformance::case::Case;
use straightline::dispatch::{Value, operator};
use straightline::ops::aten;
use straightline::{DType, Result, Tensor, manual_seed};

/// Every dtype that dense tensors have.
pub(crate) fn dtypes() -> impl Iterator<Item = DType> {
    DType::ALL.into_iter().chain(DType::COMPLEX)
}

/// Values of more elements are not worked on.
const LARGE: i64 = 5000;

struct Maker<'a> {
    library: &'a Library,
    r: Rng,
    program: Program,
    bases: Vec<Tensor>,
    /// What steps can work on, with where it comes from.
    values: Vec<(Source, Tensor)>,
}

/// A program that eager execution accepted when it was made.
pub(crate) fn generate(library: &Library, seed: u64) -> Program {
    let mut m = Maker {
        library,
        r: Rng::new(seed),
        program: Program {
            seed,
            bases: Vec::new(),
            inputs: Vec::new(),
            steps: Vec::new(),
            results: Vec::new(),
            rounds: Vec::new(),
        },
        bases: Vec::new(),
        values: Vec::new(),
    };
    manual_seed(seed);
    // recorded calls alone, views and writes alone, or both
    let recorded = *m.r.of(&[100, 0, 50]);
    let length = if recorded == 100 {
        1 + m.r.below(6)
    } else {
        m.small_world();
        2 + m.r.below(12)
    };
    for _ in 0..3 * length {
        if m.program.steps.len() == length {
            break;
        }
        let made = if m.r.below(100) < recorded || m.values.is_empty() {
            m.recorded()
        } else {
            m.fitting()
        };
        if let Some((op, stack, sources)) = made {
            m.add(op, stack, sources);
        }
    }
    m.finish()
}

/// Elements may lie on each other, by the strides.
fn overlaps_itself(t: &Tensor) -> bool {
    let mut dims: Vec<(i64, i64)> = (t.strides().iter().copied())
        .zip(t.sizes().iter().copied())
        .filter(|(_, n)| *n != 1)
        .collect();
    dims.sort_unstable();
    let mut reach = 0;
    // by a stride of 0 every write is refused
    dims.iter().any(|(s, n)| {
        let on = *s > 0 && *s <= reach;
        reach += s * (n - 1);
        on
    })
}

impl Maker<'_> {
    /// A few memories with inputs that lie here and there in them.
    fn small_world(&mut self) {
        let all: Vec<DType> = dtypes().collect();
        let dtype = match self.r.below(3) {
            0 => DType::F32,
            _ => *self.r.of(&all),
        };
        for _ in 0..1 + self.r.below(3) {
            let dtype = match self.r.below(5) {
                0 => *self.r.of(&all),
                _ => dtype,
            };
            let numbers: Vec<f64> = (0..24).map(|_| self.r.int(17) as f64 - 8.0).collect();
            let of = Tensor::from_vec(numbers, -1).and_then(|t| bytes(&t.to_dtype(dtype)?));
            let base = of.expect("24 numbers");
            self.base(dtype, base).expect("memory for 24 numbers");
        }
        for _ in 0..1 + self.r.below(4) {
            let base = self.r.below(self.bases.len());
            let (sizes, strides, offset) = match self.r.below(8) {
                0 => (vec![24], vec![1], 0),
                1 => (vec![4, 6], vec![6, 1], 0),
                2 => (vec![4, 2, 3], vec![1, 12, 4], 0),
                3 => (vec![3, 4], vec![4, 1], 0),
                4 => (vec![4, 3], vec![3, 1], 6),
                5 => (vec![4, 3], vec![6, 2], self.r.int(2)),
                6 => (vec![3, 4], vec![0, 2], self.r.int(9)),
                _ => (vec![6], vec![4], self.r.int(4)),
            };
            let same = match self.program.inputs.len() {
                0 => None,
                n => self.r.one_in(8).then(|| self.r.below(n)),
            };
            let input = match same {
                Some(k) => self.program.inputs[k].clone(),
                None => Input { base, sizes, strides, offset, closed: false, same: None },
            };
            let input = Input {
                closed: self.r.one_in(3),
                same: same.map(|k| self.program.inputs[k].same.unwrap_or(k)),
                ..input
            };
            self.input(input).expect("it lies in its memory");
        }
    }

    fn base(&mut self, dtype: DType, data: Vec<u8>) -> Result<usize> {
        self.bases.push(whole(dtype, &data)?);
        self.program.bases.push(Base { dtype, data });
        Ok(self.bases.len() - 1)
    }

    fn input(&mut self, input: Input) -> Result<(Source, Tensor)> {
        let t = match input.same {
            Some(k) => (self.values.iter())
                .find(|(s, _)| *s == Source::Input(k))
                .map_or_else(|| place(&self.bases[input.base], &input), |(_, t)| Ok(t.clone()))?,
            None => place(&self.bases[input.base], &input)?,
        };
        let source = Source::Input(self.program.inputs.len());
        self.program.inputs.push(input);
        self.values.push((source, t.clone()));
        Ok((source, t))
    }

    /// A value, late ones more often; of these sizes if one is found quickly.
    fn any(&mut self, like: Option<&[i64]>) -> (Source, Tensor) {
        let n = self.values.len();
        let mut at = 0;
        for _ in 0..6 {
            let back = self.r.below(n).min(self.r.below(n));
            at = n - 1 - back;
            if like.is_none_or(|s| self.values[at].1.sizes() == s) {
                break;
            }
        }
        self.values[at].clone()
    }

    /// A view, a write or a simple function of values.
    fn fitting(&mut self) -> Option<(String, Vec<Value>, Vec<Source>)> {
        let (_, x) = self.any(None);
        let (_, other) = self.any(Some(x.sizes()));
        let (_, third) = self.any(Some(x.sizes()));
        let (op, stack) = match self.r.below(10) {
            0..=4 => views::view(&x, &mut self.r),
            5..=7 => views::write(&x, &other, &third, &mut self.r),
            _ => views::compute(&x, &other, &mut self.r),
        }?;
        let sources = tensors(&stack)
            .iter()
            .map(|t| {
                let of = self.values.iter().find(|(_, v)| v.is_same(t));
                of.map(|(s, _)| *s)
            })
            .collect::<Option<Vec<_>>>()?;
        Some((op, stack, sources))
    }

    /// A recorded call, some of its tensors replaced.
    fn recorded(&mut self) -> Option<(String, Vec<Value>, Vec<Source>)> {
        let op = self.r.below(self.library.operators());
        let which = self.r.below(self.library.cases(op));
        let Case { op, stack, .. } = self.library.case(op, which)?;
        let own = tensors(&stack);
        let dtype = (self.r.one_in(4)).then(|| {
            let all: Vec<DType> = dtypes().collect();
            *self.r.of(&all)
        });
        let from = (own.iter().map(Tensor::dtype)).find(|d| d.is_floating() || d.is_complex());
        let mut placed: Vec<(usize, usize)> = Vec::new();
        let mut given = Vec::new();
        for (i, t) in own.iter().enumerate() {
            let t = match dtype {
                Some(d) if Some(t.dtype()) == from && !t.is_wrapped_number() => {
                    t.to_dtype(d).ok()?
                }
                _ => t.clone(),
            };
            given.push(self.argument(&t, &own[..i], &mut placed).ok()?);
        }
        let mut each = given.iter();
        let mut stack = with_tensors(&stack, &mut |t| {
            each.next().map_or_else(|| t.clone(), |(_, t)| t.clone())
        });
        if self.r.one_in(8) {
            self.change(&mut stack);
        }
        Some((op, stack, given.into_iter().map(|(s, _)| s).collect()))
    }

    /// What a step works on where the recorded call has this tensor.
    fn argument(
        &mut self,
        t: &Tensor,
        before: &[Tensor],
        placed: &mut Vec<(usize, usize)>,
    ) -> Result<(Source, Tensor)> {
        if t.is_wrapped_number() {
            return Ok((Source::Own, t.clone()));
        }
        let fits = |v: &Tensor| v.dtype() == t.dtype() && v.sizes() == t.sizes();
        let fitting: Vec<usize> =
            (0..self.values.len()).filter(|&i| fits(&self.values[i].1)).collect();
        if !fitting.is_empty() && self.r.below(4) > 0 {
            return Ok(self.values[*self.r.of(&fitting)].clone());
        }
        if !self.values.is_empty() && self.r.one_in(10) {
            // of another dtype or other sizes: eager execution decides
            return Ok(self.any(Some(t.sizes())));
        }
        let position = placed.len();
        let shared = (before.iter().zip(placed.iter())).find(|(b, _)| b.shares_storage_with(t));
        if let Some((_, &(_, base))) = shared
            && base != usize::MAX
        {
            let input = Input {
                base,
                sizes: t.sizes().to_vec(),
                strides: t.strides().to_vec(),
                offset: t.storage_offset(),
                closed: self.r.one_in(4),
                same: None,
            };
            placed.push((position, base));
            return self.input(input);
        }
        let closed = self.r.one_in(4);
        let of_dtype: Vec<usize> =
            (0..self.bases.len()).filter(|&b| self.bases[b].dtype() == t.dtype()).collect();
        if !of_dtype.is_empty() && self.r.one_in(6) {
            // somewhere in memory that is there already
            let base = *self.r.of(&of_dtype);
            let (strides, offset) = self.layout(t.sizes(), true);
            if extent(t.sizes(), &strides, offset) <= self.bases[base].numel() {
                placed.push((position, usize::MAX));
                return self.input(Input {
                    base,
                    sizes: t.sizes().to_vec(),
                    strides,
                    offset,
                    closed,
                    same: None,
                });
            }
        }
        let recorded = !self.r.one_in(4);
        let (strides, offset) = if recorded {
            (t.strides().to_vec(), t.storage_offset())
        } else {
            let repeat = self.r.one_in(4);
            self.layout(t.sizes(), repeat)
        };
        let mut data = self.memory(t, &strides, offset)?;
        self.sprinkle(t.dtype(), &mut data);
        let base = self.base(t.dtype(), data)?;
        placed.push((position, if recorded { base } else { usize::MAX }));
        self.input(Input { base, sizes: t.sizes().to_vec(), strides, offset, closed, same: None })
    }

    /// Strides and offset for these sizes: dimensions in any order, gaps, perhaps a repeated
    /// dimension.
    fn layout(&mut self, sizes: &[i64], repeat: bool) -> (Vec<i64>, i64) {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        if self.r.one_in(2) {
            for i in (1..order.len()).rev() {
                order.swap(i, self.r.below(i + 1));
            }
        } else {
            order.reverse();
        }
        let mut step = if self.r.one_in(4) { 2 } else { 1 };
        let mut strides = vec![1; sizes.len()];
        for &d in &order {
            strides[d] = step;
            step *= sizes[d].max(1);
            step += i64::from(self.r.one_in(6));
        }
        if repeat && !sizes.is_empty() && self.r.one_in(3) {
            strides[self.r.below(sizes.len())] = 0;
        }
        (strides, if self.r.one_in(2) { 0 } else { self.r.int(4) })
    }

    /// Memory in which a tensor of this geometry has the elements of `t`.
    fn memory(&self, t: &Tensor, strides: &[i64], offset: i64) -> Result<Vec<u8>> {
        let n = extent(t.sizes(), strides, offset).max(1);
        let base = Tensor::with(t.dtype()).zeros([n])?;
        let (mut to, mut from) =
            (aten::as_strided(&base, t.sizes(), strides, Some(offset))?, t.clone());
        for (d, &s) in strides.iter().enumerate() {
            // along a repeated dimension all elements are the first one
            if s == 0 && t.sizes()[d] > 1 {
                to = to.narrow(d as i64, 0, 1)?;
                from = from.narrow(d as i64, 0, 1)?;
            }
        }
        // a recorded tensor may lie on itself in other ways
        if to.copy_(&from).is_err() {
            let flat = aten::as_strided(t, &[n], &[1], Some(0))?;
            return bytes(&flat);
        }
        bytes(&base)
    }

    /// Here and there an element at the margin of what the dtype has.
    fn sprinkle(&mut self, dtype: DType, data: &mut [u8]) {
        let n = data.len() / dtype.size();
        if n == 0 || dtype == DType::Bool || !self.r.one_in(8) {
            return;
        }
        const FLOATS: [f64; 10] = [
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            -0.0,
            0.0,
            1e30,
            1e-40,
            65504.0,
            -3e38,
            1e-310,
        ];
        let special = |r: &mut Rng| -> Result<Vec<u8>> {
            let of = if dtype.is_floating() || dtype.is_complex() {
                Tensor::from_vec([*r.of(&FLOATS)], -1)?.to_dtype(dtype)?
            } else {
                Tensor::from_vec([*r.of(&[i64::MIN, i64::MAX, -1, 0, 127, 128])], -1)?
                    .to_dtype(dtype)?
            };
            bytes(&of)
        };
        for _ in 0..1 + self.r.below(3) {
            let at = self.r.below(n) * dtype.size();
            if let Ok(element) = special(&mut self.r) {
                data[at..at + dtype.size()].copy_from_slice(&element);
            }
        }
    }

    /// One argument that is no tensor changed.
    fn change(&mut self, stack: &mut [Value]) {
        let at = self.r.below(stack.len());
        let all: Vec<DType> = dtypes().collect();
        let r = &mut self.r;
        match &mut stack[at] {
            Value::Int(n) if n.abs() < 1000 => *n = *r.of(&[-2, -1, 0, 1, 2, *n + 1, *n - 1]),
            Value::Bool(b) => *b = !*b,
            Value::Double(x) => {
                *x = match views::number(r) {
                    straightline::Scalar::Int(i) => i as f64,
                    s => s.as_f64(),
                };
            }
            Value::DType(d) => *d = *r.of(&all),
            Value::IntList(l) if !l.is_empty() => {
                let k = r.below(l.len());
                if l[k].abs() < 1000 {
                    l[k] = *r.of(&[-1, 0, 1, 2, l[k] + 1, l[k] - 1]);
                }
            }
            _ => {}
        }
    }

    /// Runs the call, and keeps it if eager execution takes it and gives what can be compared.
    fn add(&mut self, op: String, stack: Vec<Value>, sources: Vec<Source>) {
        let Ok(handle) = operator(&op) else {
            return;
        };
        let Some(schema) = handle.schema() else {
            return;
        };
        let writes = schema.is_mutable();
        // the order in which one memory is written by two arguments concerns nobody; running
        // statistics are written too
        let mut written: Vec<&Tensor> = Vec::new();
        for (value, arg) in stack.iter().zip(&schema.args) {
            for t in value.tensors() {
                let is_written = arg.is_write() || op.contains("batch_norm");
                if arg.is_write() && overlaps_itself(t) {
                    return;
                }
                if is_written && written.iter().any(|w| w.shares_storage_with(t)) {
                    return;
                }
                if is_written {
                    written.push(t);
                }
            }
        }
        let mut results = stack.clone();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            handle.call_boxed(&mut results)
        }));
        match done {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => panic!("eager {op} panicked on {stack:?}"),
        }
        let results = tensors(&results);
        let made: Result<Vec<Made>> = (results.iter())
            .map(|t| Ok(Made { dtype: t.dtype(), sizes: t.sizes().to_vec(), data: bytes(t)? }))
            .collect();
        let Ok(made) = made else {
            return;
        };
        if made.is_empty() && !writes {
            return;
        }
        let k = self.program.steps.len();
        for (r, t) in results.into_iter().enumerate() {
            let known = self.values.iter().any(|(_, v)| v.is_same(&t));
            if t.numel() <= LARGE && !known {
                self.values.push((Source::Step(k, r), t));
            }
        }
        self.program.steps.push(Step { op, stack, sources, made });
    }

    fn finish(mut self) -> Program {
        let all: Vec<Source> = (self.program.steps.iter().enumerate())
            .flat_map(|(k, s)| (0..s.made.len()).map(move |r| Source::Step(k, r)))
            .collect();
        let r = &mut self.r;
        let p = &mut self.program;
        p.results = if r.one_in(3) || all.len() < 2 {
            all
        } else {
            let mut some: Vec<Source> = (0..1 + r.below(4)).map(|_| *r.of(&all)).collect();
            // what the last step made is most likely not used by another one
            some.push(all[all.len() - 1]);
            some
        };
        if !p.inputs.is_empty() && r.one_in(6) {
            p.results.push(Source::Input(r.below(p.inputs.len())));
        }
        p.rounds = vec![Round::Shuffled(p.seed ^ 0xf111), Round::Again];
        match r.below(6) {
            0 => p.rounds.push(Round::Apart(p.seed ^ 0xa9a7)),
            1 => {
                let sizes: Vec<i64> =
                    (p.inputs.iter()).flat_map(|i| i.sizes.iter().copied()).collect();
                if !sizes.is_empty() {
                    let from = *r.of(&sizes);
                    let to = *r.of(&[from + 1, (from - 1).max(0), 2 * from, 1]);
                    p.rounds.push(Round::Resized { from, to });
                }
            }
            2 => p.rounds.clear(),
            _ => {}
        }
        if p.rounds.len() > 2 {
            p.rounds.push(Round::Shuffled(p.seed ^ 0x1a57));
        }
        self.program
    }
}
