//! Comparing what an eager and a compiled run left.

use super::program::Program;
use super::world::{bytes, numbers};
use straightline::ops::{Tolerance, tolerance};
use straightline::{DType, Tensor};

/// Everything that one call leaves: its results, its inputs and the memory of both.
pub(crate) struct Left {
    pub(crate) results: Vec<Tensor>,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) memory: Vec<Tensor>,
}

impl Left {
    fn all(&self) -> impl Iterator<Item = (String, &Tensor)> {
        let named = |what: &'static str, l: &'static str| move |i: usize| format!("{what} {i}{l}");
        let (r, i, m) = (
            named("result", ""),
            named("input", " after the call"),
            named("memory", " after the call"),
        );
        (self.results.iter().enumerate().map(move |(k, t)| (r(k), t)))
            .chain(self.inputs.iter().enumerate().map(move |(k, t)| (i(k), t)))
            .chain(self.memory.iter().enumerate().map(move |(k, t)| (m(k), t)))
    }
}

/// A difference, and whether it is one of numbers that rounding may explain.
pub(crate) struct Difference {
    pub(crate) text: String,
    pub(crate) rounding: bool,
}

fn exactly(text: String) -> Difference {
    Difference { text, rounding: false }
}

/// The dtype of a part of a complex number.
fn part(dtype: DType) -> DType {
    match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        other => other,
    }
}

/// How far apart numbers of the program may be without a second look; `None` where all operators
/// promise every bit.
fn bounds(program: &Program, dtype: DType) -> Option<(f64, f64)> {
    let mut all: Option<(f64, f64)> = None;
    for step in &program.steps {
        let class = tolerance(&step.op).unwrap_or(Tolerance::Exact);
        let (rtol, atol) = match class {
            Tolerance::Exact => continue,
            // the same seed draws the same numbers
            Tolerance::Random => Tolerance::Pointwise.bounds(part(dtype)),
            other => other.bounds(part(dtype)),
        };
        let (r, a) = all.unwrap_or((0.0, 0.0));
        all = Some((rtol.max(r), atol.max(a)));
    }
    all
}

/// Compares two runs: geometry, aliasing, then numbers, by the perturbed runs' spread where
/// rounding can matter.
pub(crate) fn same(program: &Program, want: &Left, got: &Left) -> Result<(), Difference> {
    if want.results.len() != got.results.len() {
        return Err(exactly(format!(
            "{} results, eager {}",
            got.results.len(),
            want.results.len()
        )));
    }
    for ((name, w), (_, g)) in want.all().zip(got.all()) {
        geometry(w, g).map_err(|e| exactly(format!("{name} {e}")))?;
        // `slice_scatter` and its kind leave as much room before a result as there is before their
        // operand, eagerly
        let given = want.inputs.iter().chain(&want.memory);
        let fresh = !given.into_iter().any(|t| t.shares_storage_with(w));
        let roomy = |op: &str| op.contains("_scatter") || op == "aten::copy";
        let roomy = fresh && program.steps.iter().any(|s| roomy(&s.op));
        if g.storage_offset() != w.storage_offset() && !roomy {
            return Err(exactly(format!(
                "{name} has storage offset {}, eager {}",
                g.storage_offset(),
                w.storage_offset()
            )));
        }
    }
    related(want, got).map_err(exactly)?;
    for ((name, w), (_, g)) in want.all().zip(got.all()) {
        values(program, w, g)
            .map_err(|d| Difference { text: format!("{name}, {}", d.text), ..d })?;
    }
    Ok(())
}

fn geometry(want: &Tensor, got: &Tensor) -> Result<(), String> {
    if got.dtype() != want.dtype() || got.sizes() != want.sizes() {
        return Err(format!(
            "is {}{:?}, eager {}{:?}",
            got.dtype(),
            got.sizes(),
            want.dtype(),
            want.sizes()
        ));
    }
    let bits = |t: &Tensor| (t.is_conj(), t.is_neg());
    if bits(got) != bits(want) {
        return Err(format!("is (conjugate, negative) {:?}, eager {:?}", bits(got), bits(want)));
    }
    let matter = |i: &usize| got.sizes()[*i] > 1;
    let differ = (0..got.dim()).filter(matter).any(|i| got.strides()[i] != want.strides()[i]);
    if got.numel() > 0 && differ {
        return Err(format!(
            "of sizes {:?} has strides {:?}, eager {:?}",
            got.sizes(),
            got.strides(),
            want.strides()
        ));
    }
    Ok(())
}

/// Which tensors are one, and which share memory at which distance.
fn related(want: &Left, got: &Left) -> Result<(), String> {
    let list =
        |l: &Left| -> Vec<(String, Tensor)> { l.all().map(|(n, t)| (n, t.clone())).collect() };
    let (ours, theirs) = (list(want), list(got));
    for i in 0..ours.len() {
        for k in 0..i {
            let relation = |t: &[(String, Tensor)]| {
                let (a, b) = (&t[i].1, &t[k].1);
                let at = |t: &Tensor| t.storage_offset() * t.dtype().size() as i64;
                (a.is_same(b), a.shares_storage_with(b).then_some(at(a) - at(b)))
            };
            if relation(&ours) != relation(&theirs) {
                return Err(format!(
                    "{} and {} are (one tensor, bytes apart in one memory) {:?}, eager {:?}",
                    ours[i].0,
                    ours[k].0,
                    relation(&theirs),
                    relation(&ours)
                ));
            }
        }
    }
    Ok(())
}

fn values(program: &Program, want: &Tensor, got: &Tensor) -> Result<(), Difference> {
    let read = |t: &Tensor| bytes(t).map_err(|e| exactly(format!("unreadable: {e}")));
    let (w, g) = (read(want)?, read(got)?);
    if w == g {
        return Ok(());
    }
    let dtype = want.dtype();
    let (w, g) = (numbers(dtype, &w), numbers(dtype, &g));
    let bounds = bounds(program, dtype);
    let size = largest(&w);
    for (i, (y, x)) in w.iter().zip(&g).enumerate() {
        let near = match bounds {
            None => x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan(),
            Some((rtol, atol)) => {
                // sums cancel: what is left of one is as exact as its largest part
                x == y
                    || x.is_nan() && y.is_nan()
                    || (x - y).abs() <= atol + rtol * y.abs().max(size)
            }
        };
        if !near {
            return Err(Difference {
                text: format!("element {i}: {x:?}, eager {y:?}"),
                rounding: bounds.is_some(),
            });
        }
    }
    Ok(())
}

/// The largest absolute value that is finite.
pub(crate) fn largest(l: &[f64]) -> f64 {
    (l.iter().filter(|x| x.is_finite())).fold(0.0f64, |m, x| m.max(x.abs()))
}

/// Whether the compiled run lies within what the program makes of small disturbances: what
/// `disturbed` runs left is compared with what the undisturbed one did.
pub(crate) fn explained(program: &Program, want: &Left, got: &Left, disturbed: &[Left]) -> bool {
    let read = |t: &Tensor| bytes(t).map(|b| numbers(t.dtype(), &b)).unwrap_or_default();
    let all = |l: &Left| -> Vec<Vec<f64>> { l.all().map(|(_, t)| read(t)).collect() };
    let dtypes: Vec<DType> = want.all().map(|(_, t)| t.dtype()).collect();
    let (want, got) = (all(want), all(got));
    let others: Vec<Vec<Vec<f64>>> = disturbed.iter().map(all).collect();
    if others.iter().any(|o| o.len() != want.len()) {
        return true;
    }
    (0..want.len()).all(|t| {
        let (w, g) = (&want[t], &got[t]);
        let differs = |x: f64, y: f64| x != y && !(x.is_nan() && y.is_nan());
        let moved = others
            .iter()
            .any(|o| o[t].len() != w.len() || o[t].iter().zip(w).any(|(x, y)| differs(*x, *y)));
        let discrete = !dtypes[t].is_floating() && !dtypes[t].is_complex();
        if discrete && moved {
            return true;
        }
        let (rtol, atol) = bounds(program, dtypes[t]).unwrap_or((0.0, 0.0));
        let size = largest(w);
        (0..w.len()).all(|i| {
            if !differs(w[i], g[i]) {
                return true;
            }
            let mut spread = 0.0f64;
            for o in &others {
                let d = (o[t][i] - w[i]).abs();
                if differs(o[t][i], w[i]) && !d.is_finite() {
                    return true;
                }
                spread = if d.is_nan() { spread } else { spread.max(d) };
            }
            (g[i] - w[i]).abs() <= 10.0 * spread + atol + rtol * w[i].abs().max(size)
        })
    })
}
