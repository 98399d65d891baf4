//! A program: memory, tensors in it, operator calls on them, and which values it returns. All of it
//! is data, so that it can be run in several worlds, made smaller and printed.

use std::fmt::Write as _;
use straightline::DType;
use straightline::dispatch::Value;

/// Memory of its own, with what is in it when the program starts.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) dtype: DType,
    pub(crate) data: Vec<u8>,
}

/// A tensor that the program is given.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) base: usize,
    pub(crate) sizes: Vec<i64>,
    pub(crate) strides: Vec<i64>,
    pub(crate) offset: i64,
    /// Closed over by the compiled function, instead of handed to it.
    pub(crate) closed: bool,
    /// The very same tensor as this earlier input.
    pub(crate) same: Option<usize>,
}

/// Where a tensor comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// An input.
    Input(usize),
    /// The result of a step, by its position among the tensors that the step returns.
    Step(usize, usize),
    /// The tensor in the step's own arguments: a number that was wrapped.
    Own,
}

/// One operator call.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) op: String,
    /// The boxed arguments; its tensors only mark places.
    pub(crate) stack: Vec<Value>,
    /// For each tensor of the arguments, in order.
    pub(crate) sources: Vec<Source>,
    /// The value of each result when the program was made, as memory: what takes its place once
    /// this step is left out.
    pub(crate) made: Vec<Made>,
}

/// A value as it was when the program was made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) dtype: DType,
    pub(crate) sizes: Vec<i64>,
    pub(crate) data: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) seed: u64,
    pub(crate) bases: Vec<Base>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) steps: Vec<Step>,
    pub(crate) results: Vec<Source>,
    /// What the calls after the first one are given.
    pub(crate) rounds: Vec<Round>,
}

/// One call of the compiled function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// The memory as the program has it, its elements in another order.
    Shuffled(u64),
    /// What the call before left.
    Again,
    /// The arguments in memory of their own, apart from each other and from closed-over tensors.
    Apart(u64),
    /// Every argument's dimensions of one size get another size.
    Resized { from: i64, to: i64 },
}

/// Row-major strides.
pub(crate) fn contiguous(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; sizes.len()];
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d] * sizes[d].max(1);
    }
    strides
}

/// How many elements of its memory a tensor of this geometry needs.
pub(crate) fn extent(sizes: &[i64], strides: &[i64], offset: i64) -> i64 {
    if sizes.contains(&0) {
        return offset;
    }
    let reach: i64 = sizes.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum();
    offset + reach + 1
}

impl Program {
    /// The program without a step, whose results become inputs; nothing else is changed.
    pub(crate) fn without_step(&self, at: usize) -> Program {
        let mut p = self.clone();
        let gone = p.steps.remove(at);
        let mut inputs: Vec<Option<usize>> = vec![None; gone.made.len()];
        let mut moved = |s: &mut Source, bases: &mut Vec<Base>, all: &mut Vec<Input>| match *s {
            Source::Step(k, r) if k == at => {
                let input = *inputs[r].get_or_insert_with(|| {
                    let made = &gone.made[r];
                    bases.push(Base { dtype: made.dtype, data: made.data.clone() });
                    all.push(Input {
                        base: bases.len() - 1,
                        sizes: made.sizes.clone(),
                        strides: contiguous(&made.sizes),
                        offset: 0,
                        closed: false,
                        same: None,
                    });
                    all.len() - 1
                });
                *s = Source::Input(input);
            }
            Source::Step(k, r) if k > at => *s = Source::Step(k - 1, r),
            _ => {}
        };
        p.results.retain(|s| !matches!(s, Source::Step(k, _) if *k == at));
        for step in &mut p.steps {
            for s in &mut step.sources {
                moved(s, &mut p.bases, &mut p.inputs);
            }
        }
        for s in &mut p.results {
            moved(s, &mut p.bases, &mut p.inputs);
        }
        p
    }

    /// The program without the inputs that nothing uses, and without memory that no input lies in.
    pub(crate) fn pruned(&self) -> Program {
        let mut p = self.clone();
        let used = |p: &Program, i: usize| {
            let of = p.steps.iter().flat_map(|s| &s.sources).chain(&p.results);
            of.into_iter().any(|s| *s == Source::Input(i))
        };
        for i in (0..p.inputs.len()).rev() {
            if used(&p, i) || p.inputs.iter().any(|other| other.same == Some(i)) {
                continue;
            }
            p.inputs.remove(i);
            for same in p.inputs.iter_mut().filter_map(|other| other.same.as_mut()) {
                *same -= usize::from(*same > i);
            }
            let all = p.steps.iter_mut().flat_map(|s| &mut s.sources);
            for s in all.chain(&mut p.results) {
                if let Source::Input(k) = s
                    && *k > i
                {
                    *k -= 1;
                }
            }
        }
        for b in (0..p.bases.len()).rev() {
            if p.inputs.iter().any(|i| i.base == b) {
                continue;
            }
            p.bases.remove(b);
            for i in &mut p.inputs {
                i.base -= usize::from(i.base > b);
            }
        }
        p
    }

    fn name(&self, s: Source) -> String {
        match s {
            Source::Input(i) if self.inputs[i].closed => format!("w{i}"),
            Source::Input(i) => format!("x{i}"),
            Source::Step(k, 0) if self.steps[k].made.len() == 1 => format!("%{k}"),
            Source::Step(k, r) => format!("%{k}.{r}"),
            Source::Own => "its own number".into(),
        }
    }

    fn argument(&self, v: &Value, sources: &mut dyn Iterator<Item = Source>) -> String {
        let mut next = |t: &straightline::Tensor| match sources.next() {
            Some(Source::Own) | None => format!("number({t})"),
            Some(s) => self.name(s),
        };
        match v {
            Value::Tensor(t) => next(t),
            Value::TensorList(l) => {
                format!("[{}]", l.iter().map(next).collect::<Vec<_>>().join(", "))
            }
            Value::OptionalTensorList(l) => {
                let each: Vec<String> =
                    (l.iter()).map(|t| t.as_ref().map_or("None".into(), &mut next)).collect();
                format!("[{}]", each.join(", "))
            }
            Value::IntList(l) => format!("{l:?}"),
            Value::Int(n) => n.to_string(),
            Value::Double(x) => format!("{x:?}"),
            Value::Bool(b) => b.to_string(),
            other => format!("{other:?}"),
        }
    }
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, input) in self.inputs.iter().enumerate() {
            let base = &self.bases[input.base];
            writeln!(
                f,
                "  {}: {}{:?} strides {:?} offset {}, in memory {} of {} elements{}",
                self.name(Source::Input(i)),
                base.dtype,
                input.sizes,
                input.strides,
                input.offset,
                input.base,
                base.data.len() / base.dtype.size(),
                (input.same).map_or(String::new(), |k| format!(", the same tensor as input {k}")),
            )?;
        }
        for (i, base) in self.bases.iter().enumerate() {
            let mut text = String::new();
            let all = super::world::numbers(base.dtype, &base.data);
            for x in all.iter().take(24) {
                write!(text, "{x} ")?;
            }
            let finite = all.iter().filter(|x| x.is_finite());
            let largest = finite.clone().fold(0.0f64, |m, x| m.max(x.abs()));
            let odd = all.len() - finite.count();
            writeln!(f, "  memory {i} (up to {largest:e}, {odd} not finite): {text}")?;
        }
        for (k, step) in self.steps.iter().enumerate() {
            let mut sources = step.sources.iter().copied();
            let args: Vec<String> =
                (step.stack.iter()).map(|v| self.argument(v, &mut sources)).collect();
            let made: Vec<String> =
                (step.made.iter()).map(|m| format!("{}{:?}", m.dtype, m.sizes)).collect();
            writeln!(f, "  %{k} = {}({})  // {}", step.op, args.join(", "), made.join(", "))?;
        }
        let results: Vec<String> = self.results.iter().map(|s| self.name(*s)).collect();
        writeln!(f, "  return {}", results.join(", "))?;
        write!(f, "  calls after the first: {:?}", self.rounds)
    }
}
