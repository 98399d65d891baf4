//! Random programs: what is done next is drawn from the seed and the shapes alone, so that a program
//! does the same eagerly and while it is captured.

use std::cell::Cell;
use straightline::dispatch::{Value, call_count, operator};
use straightline::ops::aten;
use straightline::{Result, Scalar, Tensor, library, library_impl};

library!(static fuzz_outside, |m| {
    m.def("scale_(Tensor(a!) x, float by) -> ()")?;
    Ok(())
});
library_impl!(static fuzz_outside, CPU, |m| {
    m.impl_("scale_", |x: &Tensor, by: f64| {
        let before = call_count();
        x.mul_(by)?;
        CALLED.set(CALLED.get() + call_count() - before);
        Ok(())
    })?;
    Ok(())
});
library_impl!(static fuzz_outside, Meta, |m| {
    m.impl_("scale_", |_x: &Tensor, _by: f64| Ok(()))?;
    Ok(())
});

thread_local! {
    /// How often `fuzz_outside::scale_` has entered the dispatcher: what a kernel from outside calls is its own affair.
    static CALLED: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread has entered the dispatcher, that operator's kernel apart.
pub(crate) fn entered() -> u64 {
    call_count() - CALLED.get()
}

/// Numbers that depend on the seed only.
#[derive(Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number in `0..n`.
    pub(crate) fn below(&mut self, n: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % n.max(1) as u64) as i64
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as i64) as usize]
    }
}

/// A program: its seed.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    seed: u64,
}

/// Elements may lie on each other, by the strides.
fn overlaps_itself(t: &Tensor) -> bool {
    let mut dims: Vec<(i64, i64)> = t
        .strides()
        .iter()
        .copied()
        .zip(t.sizes().iter().copied())
        .collect();
    dims.retain(|(_, n)| *n != 1);
    dims.sort_unstable();
    let mut reach = 0;
    dims.iter().any(|(s, n)| {
        let on = *s <= reach;
        reach += s * (n - 1);
        on
    })
}

struct State<'a> {
    r: Rng,
    tensors: Vec<Tensor>,
    log: Vec<String>,
    outside: &'a [Tensor],
}

impl Program {
    pub(crate) fn new(seed: u64) -> Program {
        Program { seed }
    }

    /// Runs it; the results, and what was done with what outcome.
    pub(crate) fn run(
        &self,
        args: &[Tensor],
        closed_over: &[Tensor],
    ) -> Result<(Vec<Tensor>, Vec<String>)> {
        let mut s = State {
            r: Rng::new(self.seed),
            tensors: args.to_vec(),
            log: Vec::new(),
            outside: closed_over,
        };
        let steps = 3 + s.r.below(14);
        for _ in 0..steps {
            s.step();
        }
        let count = 1 + s.r.below(4);
        let mut results = Vec::new();
        for _ in 0..count {
            // late ones more often
            let back =
                s.r.below(s.tensors.len() as i64)
                    .min(s.r.below(s.tensors.len() as i64));
            results.push(s.tensors[s.tensors.len() - 1 - back as usize].clone());
        }
        Ok((results, s.log))
    }
}

impl State<'_> {
    fn any(&mut self) -> Tensor {
        if !self.outside.is_empty() && self.r.below(5) == 0 {
            return self.r.pick(self.outside).clone();
        }
        self.r.pick(&self.tensors).clone()
    }

    /// A tensor of these sizes if one is found quickly, else any.
    fn like(&mut self, sizes: &[i64]) -> Tensor {
        let mut t = self.any();
        for _ in 0..6 {
            if t.sizes() == sizes {
                break;
            }
            t = self.any();
        }
        t
    }

    fn step(&mut self) {
        let t = self.any();
        let (name, made) = match self.r.below(10) {
            0..=4 => self.view(&t),
            5..=8 => self.write(&t),
            _ => self.compute(&t),
        };
        let outcome = match &made {
            Ok(list) => {
                let shapes: Vec<String> = (list.iter())
                    .map(|t| format!("{:?}{:?}", t.sizes(), t.strides()))
                    .collect();
                shapes.join(" ")
            }
            Err(e) => format!("error {}", e.kind()),
        };
        let from = format!("{:?}{:?}@{}", t.sizes(), t.strides(), t.storage_offset());
        self.log.push(format!("{name} of {from}: {outcome}"));
        for t in made.unwrap_or_default() {
            if t.numel() > 0 && self.tensors.len() < 40 {
                self.tensors.push(t);
            }
        }
    }

    fn dim(&mut self, t: &Tensor) -> i64 {
        let d = self.r.below(t.dim().max(1) as i64);
        if self.r.below(3) == 0 {
            d - t.dim().max(1) as i64
        } else {
            d
        }
    }

    fn view(&mut self, t: &Tensor) -> (String, Result<Vec<Tensor>>) {
        let one = |r: Result<Tensor>| r.map(|t| vec![t]);
        let d = self.dim(t);
        let size = |d: i64| {
            t.sizes()
                .get(d.rem_euclid(t.dim().max(1) as i64) as usize)
                .copied()
                .unwrap_or(1)
        };
        let n = size(d);
        let r = &mut self.r;
        match r.below(22) {
            0 => ("t".into(), one(t.t())),
            1 => {
                let e = r.below(t.dim() as i64);
                (format!("transpose {d} {e}"), one(t.transpose(d, e)))
            }
            2 => {
                let mut dims: Vec<i64> = (0..t.dim() as i64).collect();
                for i in (1..dims.len()).rev() {
                    dims.swap(i, r.below(i as i64 + 1) as usize);
                }
                (format!("permute {dims:?}"), one(t.permute(&dims)))
            }
            3 | 4 => {
                let numel = t.numel();
                let factor = *r.pick(&[1, 2, 3, 4, 6]);
                let sizes = if numel % factor == 0 {
                    vec![factor, -1]
                } else {
                    vec![-1]
                };
                if r.below(2) == 0 {
                    (format!("view {sizes:?}"), one(t.view(&sizes)))
                } else {
                    (format!("reshape {sizes:?}"), one(t.reshape(&sizes)))
                }
            }
            5 | 6 => {
                let (start, step) = (r.below(n), 1 + r.below(3));
                let end = start + 1 + r.below(n - start);
                (
                    format!("slice {d} {start} {end} {step}"),
                    one(t.slice(d, start, end, step)),
                )
            }
            7 | 8 => {
                let index = r.below(n) - if r.below(2) == 0 { n } else { 0 };
                (format!("select {d} {index}"), one(t.select(d, index)))
            }
            9 => {
                let start = r.below(n);
                (
                    format!("narrow {d} {start}"),
                    one(t.narrow(d, start, 1 + r.below(n - start))),
                )
            }
            10 => ("squeeze".into(), one(t.squeeze())),
            11 => (format!("squeeze {d}"), one(aten::squeeze_dim(t, d))),
            12 => (format!("unsqueeze {d}"), one(t.unsqueeze(d))),
            13 => {
                let mut sizes = vec![1 + r.below(2)];
                sizes.extend(
                    t.sizes()
                        .iter()
                        .map(|n| if *n == 1 { 1 + n * r.below(2) } else { -1 }),
                );
                (format!("expand {sizes:?}"), one(t.expand(&sizes)))
            }
            14 => {
                let (a, b, o) = (
                    r.below(t.dim() as i64),
                    r.below(t.dim() as i64),
                    r.below(3) - 1,
                );
                (
                    format!("diagonal {o} {a} {b}"),
                    one(aten::diagonal(t, o, a, b)),
                )
            }
            15 => {
                let sizes = [1 + r.below(3), 1 + r.below(3)];
                let strides = *r.pick(&[[3, 1], [1, 3], [4, 2], [6, 2], [2, 6], [1, 4]]);
                let at = (r.below(3) > 0).then(|| r.below(12));
                (
                    format!("as_strided {sizes:?} {strides:?} {at:?}"),
                    one(aten::as_strided(t, &sizes, &strides, at)),
                )
            }
            16 => {
                let (size, step) = (1 + r.below(n), 1 + r.below(3));
                (
                    format!("unfold {d} {size} {step}"),
                    one(aten::unfold(t, d, size, step)),
                )
            }
            17 => {
                let size = 1 + r.below(n);
                (format!("split {size} {d}"), aten::split_tensor(t, size, d))
            }
            18 => {
                let first = r.below(n + 1);
                (
                    format!("split_with_sizes {first} {d}"),
                    aten::split_with_sizes(t, &[first, n - first], d),
                )
            }
            19 => (format!("unbind {d}"), aten::unbind_int(t, d)),
            20 => {
                let k = 1 + r.below(3);
                if r.below(2) == 0 {
                    (format!("chunk {k} {d}"), aten::chunk(t, k, d))
                } else {
                    (
                        format!("tensor_split {k} {d}"),
                        aten::tensor_split_sections(t, k, d),
                    )
                }
            }
            _ => match r.below(3) {
                0 => ("alias".into(), one(aten::alias(t))),
                1 => ("detach".into(), one(aten::detach(t))),
                _ => {
                    let e = r.below(t.dim() as i64);
                    (format!("movedim {d} {e}"), one(aten::movedim_int(t, d, e)))
                }
            },
        }
    }

    fn write(&mut self, t: &Tensor) -> (String, Result<Vec<Tensor>>) {
        // the order in which elements on each other are written is nobody's business
        if overlaps_itself(t)
            && !t
                .sizes()
                .iter()
                .zip(t.strides())
                .any(|(n, s)| *n > 1 && *s == 0)
        {
            return ("nothing".into(), Ok(Vec::new()));
        }
        let other = self.like(t.sizes());
        let k = self.r.below(5) - 2;
        let about = format!(
            "with {:?}{:?}@{}",
            other.sizes(),
            other.strides(),
            other.storage_offset()
        );
        let one = |r: Result<Tensor>| r.map(|t| vec![t]);
        match self.r.below(15) {
            0 | 1 => (format!("add_ {k}"), one(t.add_(k))),
            2 => (format!("mul_ {k}"), one(t.mul_(k))),
            3 | 4 => (format!("add_ {about}"), one(t.add_(&other))),
            5 => (format!("mul_ {about}"), one(t.mul_(&other))),
            6 => (format!("sub_ {about}"), one(t.sub_(&other))),
            7 | 8 => (format!("copy_ {about}"), one(t.copy_(&other))),
            9 => (format!("fill_ {k}"), one(t.fill_(k))),
            10 => ("zero_".into(), one(t.zero_())),
            11 => {
                let value = other
                    .select(0, 0)
                    .and_then(|v| v.reshape(&[-1])?.select(0, 0));
                (
                    "fill_.Tensor".into(),
                    value.and_then(|v| one(aten::fill_tensor_(t, &v))),
                )
            }
            // an `out` of another shape would be resized, which tests/suite/shape_inplace.rs is about
            12 | 13 if other.sizes() != t.sizes() => ("nothing".into(), Ok(Vec::new())),
            12 => (
                format!("maximum.out {about}"),
                out("aten::maximum.out", &[t, &other], t),
            ),
            13 => {
                let like = self.like(t.sizes());
                let x = if like.sizes() == t.sizes() {
                    like
                } else {
                    other.clone()
                };
                ("add.out".into(), out("aten::add.out", &[&x, &other], t))
            }
            // an operator that has no functional form
            _ => {
                let done = operator("fuzz_outside::scale_")
                    .and_then(|op| op.typed::<(&Tensor, f64), ()>())
                    .and_then(|op| op.call((t, k as f64)));
                (format!("scale_ {k}"), one(done.map(|()| t.clone())))
            }
        }
    }

    fn compute(&mut self, t: &Tensor) -> (String, Result<Vec<Tensor>>) {
        let other = self.like(t.sizes());
        let one = |r: Result<Tensor>| r.map(|t| vec![t]);
        match self.r.below(7) {
            0 => ("add".into(), one(t.add(&other))),
            1 => ("mul".into(), one(t.mul(2))),
            2 => ("clone".into(), one(t.copied())),
            3 => ("neg".into(), one(t.neg())),
            4 => ("relu".into(), one(t.relu())),
            5 => ("amax".into(), one(t.amax(&[0], false))),
            _ => ("contiguous".into(), one(t.contiguous())),
        }
    }
}

/// Calls an `out=` operator by its schema; does nothing where there is none.
fn out(name: &str, args: &[&Tensor], out: &Tensor) -> Result<Vec<Tensor>> {
    let Ok(op) = operator(name) else {
        return Ok(Vec::new());
    };
    let schema = op.schema().expect("an operator that was found by name");
    let mut given = args.iter();
    let mut stack: Vec<Value> = schema
        .args
        .iter()
        .map(|a| match a.name.as_str() {
            "out" => Value::from(out),
            "alpha" => Value::from(Scalar::Int(1)),
            _ => given.next().map_or(Value::None, |t| Value::from(*t)),
        })
        .collect();
    op.call_boxed(&mut stack)?;
    Ok(stack.iter().flat_map(Value::tensors).cloned().collect())
}
