//! Comparing results with what PyTorch recorded.

use super::case::{
    Case, Geometry, Given, bytes, decode_base64, dtype, float, geometry, ints, storage, text,
};
use super::vectors::Kind;
use serde_json::Value as Json;
use straightline::dispatch::{Value, operator};
use straightline::ops::aten;
use straightline::{DType, Device, Tensor};

/// Tolerance of a case.
#[derive(Clone, Copy)]
pub(crate) struct Tolerance {
    rtol: f64,
    atol: f64,
}

impl Tolerance {
    /// Of results that are computed in other ways from other numbers than those that PyTorch was
    /// given: enough to tell them from the results of the recorded numbers.
    pub(crate) fn coarse(want: &Tensor) -> Tolerance {
        let largest = match Elements::of(want) {
            Ok(Elements::Floating(v)) => {
                v.iter().filter(|x| x.is_finite()).fold(0.0, |m, x| x.abs().max(m))
            }
            _ => 0.0,
        };
        Tolerance { rtol: 0.05, atol: 1e-4 + 0.02 * largest }
    }

    #[allow(dead_code, reason = "the tool compares no batches")]
    /// Of results that are computed in another order from the same numbers.
    pub(crate) fn of_order(case: &Json, want: &Tensor) -> Tolerance {
        let (own, coarse) = (Tolerance::of(case), Tolerance::coarse(want));
        let by = match want.dtype() {
            DType::F16 | DType::BF16 => 2.0,
            _ => 1e-3,
        };
        Tolerance { rtol: own.rtol.max(coarse.rtol * by), atol: own.atol.max(coarse.atol * by) }
    }

    /// With `by` more of an absolute difference.
    pub(crate) fn raised(self, by: f64) -> Tolerance {
        let atol = self.atol + by;
        Tolerance { atol, ..self }
    }

    pub(crate) fn of(case: &Json) -> Tolerance {
        Tolerance {
            rtol: case["tol"]["rtol"].as_f64().unwrap_or(0.0),
            atol: case["tol"]["atol"].as_f64().unwrap_or(0.0),
        }
    }
}

/// The elements of a tensor in row-major order, whole numbers as such: `f64` does not hold all of
/// `i64`.
enum Elements {
    Whole(Vec<i64>),
    /// Of complex numbers the real and the imaginary part of each.
    Floating(Vec<f64>),
}

impl Elements {
    fn of(t: &Tensor) -> straightline::Result<Elements> {
        let t = &t.to_device(Device::CPU)?;
        let d = t.dtype();
        Ok(if d.is_complex() {
            let v = t.to_dtype(DType::C128)?;
            let v = v.to_vec::<num_complex::Complex<f64>>()?;
            Elements::Floating(v.iter().flat_map(|x| [x.re, x.im]).collect())
        } else if d.is_floating() {
            Elements::Floating(t.to_dtype(DType::F64)?.to_vec()?)
        } else {
            Elements::Whole(t.to_dtype(DType::I64)?.to_vec()?)
        })
    }
}

/// Compares the elements of two tensors of one dtype.
pub(crate) fn same_values(got: &Tensor, want: &Tensor, tol: Tolerance) -> Result<(), String> {
    let elements = |t: &Tensor| Elements::of(t).map_err(|e| e.to_string());
    match (elements(got)?, elements(want)?) {
        (Elements::Whole(got), Elements::Whole(want)) => near(&got, &want, |x, y| x == y),
        (Elements::Floating(got), Elements::Floating(want)) => near(&got, &want, |x, y| {
            let within = (x - y).abs() <= tol.atol + tol.rtol * y.abs();
            x == y || (x.is_nan() && y.is_nan()) || (x.is_finite() && y.is_finite() && within)
        }),
        _ => Err(format!("dtype {}, expected {}", got.dtype(), want.dtype())),
    }
}

fn near<T: Copy + std::fmt::Debug>(
    got: &[T],
    want: &[T],
    near: impl Fn(T, T) -> bool,
) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("{} values, {} expected", got.len(), want.len()));
    }
    match got.iter().zip(want).position(|(x, y)| !near(*x, *y)) {
        None => Ok(()),
        Some(i) => Err(format!("element {i}: {:?}, expected {:?}", got[i], want[i])),
    }
}

/// Dtype, sizes, strides and offset, of dimensions of size 1 and of tensors without elements too.
fn same_shape(got: &Tensor, want: &Json) -> Result<(), String> {
    let d = dtype(text(want, "t"))?;
    if got.dtype() != d {
        return Err(format!("dtype {}, expected {d}", got.dtype()));
    }
    let want = (ints(&want["size"]), ints(&want["stride"]), want["offset"].as_i64().unwrap_or(0));
    same_geometry(&geometry(got), &want)
}

pub(crate) fn same_geometry(got: &Geometry, want: &Geometry) -> Result<(), String> {
    if got.0 != want.0 {
        return Err(format!("sizes {:?}, expected {:?}", got.0, want.0));
    }
    if got.1 != want.1 {
        return Err(format!("strides {:?}, expected {:?} (sizes {:?})", got.1, want.1, want.0));
    }
    if got.2 != want.2 {
        return Err(format!("offset {}, expected {}", got.2, want.2));
    }
    Ok(())
}

/// Whether a number, flag or float is what is wanted; `None` where a tensor is wanted.
fn same_number(got: &Value, want: &Json) -> Option<bool> {
    if let Some(x) = want.get("f") {
        let x = float(x).ok()?;
        return Some(matches!(got, Value::Double(y) if x == *y || (x.is_nan() && y.is_nan())));
    }
    if let Some(x) = want.get("i") {
        let x = x.as_i64().or_else(|| x.as_str()?.parse().ok())?;
        // PyTorch's dtypes travel as their `ScalarType` numbers
        return Some(match got {
            Value::Int(y) => x == *y,
            Value::DType(d) => x == i64::from(*d as u8),
            _ => false,
        });
    }
    if let Some(c) = want.get("c") {
        let part = |i: usize| float(&c[i]).ok();
        let (re, im) = (part(0)?, part(1)?);
        return Some(matches!(got, Value::Complex(x, y) if re == *x && im == *y));
    }
    let x = want.get("b")?.as_bool()?;
    Some(matches!(got, Value::Bool(y) if x == *y))
}

/// What is checked of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Dtypes, sizes, strides, offsets, and what is whose memory: there is no data.
    Shape,
    /// The values, too.
    Values,
}

/// A call that was made.
pub(crate) struct Call<'a> {
    pub(crate) case: &'a Case,
    /// The tensors that it was given, as they are afterwards, in the order of [`Case::given`].
    pub(crate) args: Vec<Tensor>,
    pub(crate) outs: &'a [Value],
    pub(crate) level: Level,
}

impl Call<'_> {
    /// Compares the results and the arguments with what PyTorch left.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.results()?;
        self.arguments()?;
        self.made_of_vectors()
    }

    /// What its vectors make of the matrix, of an operator that has them among its results.
    fn made_of_vectors(&self) -> Result<(), String> {
        let outs: Vec<&Tensor> = self.outs.iter().flat_map(Value::tensors).collect();
        match self.vectors() {
            Some(kind) if self.level == Level::Values && !self.random() => {
                kind.check(self.at("args.0")?, &outs, Tolerance::of(&self.case.json))
            }
            _ => Ok(()),
        }
    }

    /// Of matrices without elements the vectors are what they are.
    fn vectors(&self) -> Option<Kind> {
        let kind = Kind::of(&self.case.op, &self.case.stack)?;
        (self.at("args.0").ok()?.numel() > 0).then_some(kind)
    }

    /// Whether the argument is the place of a result that consists of vectors.
    fn holds_vectors(&self, path: &str) -> bool {
        let outs = self.case.json["outs"].as_array();
        let place = outs.and_then(|o| o.iter().position(|o| o["same"] == path));
        place.is_some_and(|i| self.vectors().is_some_and(|kind| kind.has_vectors(i)))
    }

    fn random(&self) -> bool {
        self.case.json["nondeterministic"] == true
    }

    /// The argument at a path.
    fn at(&self, path: &str) -> Result<&Tensor, String> {
        let mut given = self.case.given.iter();
        let i = given.position(|g| g.path == path);
        i.map(|i| &self.args[i]).ok_or_else(|| format!("no argument {path}"))
    }

    /// The results, lists laid flat as the case's outputs are.
    fn results(&self) -> Result<(), String> {
        let want = self.case.json["outs"].as_array().ok_or("the case has no results")?;
        if self.outs.len() != want.len() {
            return Err(format!("{} results, {} expected", self.outs.len(), want.len()));
        }
        for (i, (v, w)) in self.outs.iter().zip(want).enumerate() {
            if w.is_null() {
                if v.is_none() {
                    continue;
                }
                return Err(format!("result {i}: {v:?}, expected None"));
            }
            if let Some(same) = same_number(v, w) {
                if same {
                    continue;
                }
                return Err(format!("result {i}: {v:?}, expected {w}"));
            }
            let list = match &w["list"] {
                Json::Array(l) => l.as_slice(),
                _ => std::slice::from_ref(w),
            };
            let tensors: Vec<&Tensor> = v.tensors().collect();
            if tensors.len() != list.len() {
                return Err(format!(
                    "result {i}: {} tensors, {} expected",
                    tensors.len(),
                    list.len()
                ));
            }
            for (k, (t, w)) in tensors.iter().zip(list).enumerate() {
                self.result(t, w, i).map_err(|e| format!("result {}: {e}", i + k))?;
            }
        }
        Ok(())
    }

    fn result(&self, t: &Tensor, w: &Json, position: usize) -> Result<(), String> {
        if let Some(path) = w["same"].as_str() {
            // its dtype, geometry and elements are those of the argument after the call
            return match t.is_same(self.at(path)?) {
                true => Ok(()),
                false => Err(format!("is not the argument {path} itself")),
            };
        }
        same_shape(t, w)?;
        if let Some((g, _)) = self.inputs().find(|(_, arg)| t.is_same(arg)) {
            return Err(format!("is the argument {} itself", g.path));
        }
        if t.numel() > 0 {
            self.memory(t, w["alias"].as_str())?;
        }
        if self.level == Level::Shape || self.random() {
            return Ok(());
        }
        if self.vectors().is_some_and(|kind| kind.has_vectors(position)) {
            return Ok(());
        }
        let weak = &self.case.json["weak_outs"][position.to_string()];
        if !weak.is_null() {
            return self.gathers(t, weak["gather"].as_i64().zip(weak["dim"].as_i64()));
        }
        let data = decode_base64(text(w, "values"));
        let expected = storage(t.dtype(), &data).map_err(|e| e.to_string())?;
        let same = same_values(t, &expected, Tolerance::of(&self.case.json));
        match self.chosen_along(position).filter(|_| !t.device().is_cpu()) {
            Some(dim) if same.is_err() => self.gathers(t, Some((0, dim))),
            _ => same,
        }
    }

    /// The dimension along which a result says where elements were chosen, if nothing says which of equal
    /// ones: then another device may choose another one.
    fn chosen_along(&self, position: usize) -> Option<i64> {
        let op = operator(&self.case.op).ok()?;
        let schema = op.schema()?;
        let names = schema.returns.iter().filter_map(|r| r.name.as_deref());
        let argument = |name| {
            let at = schema.args.iter().position(|a| a.name == name)?;
            self.case.stack.get(at)
        };
        let stable = matches!(argument("stable"), Some(Value::Bool(true)));
        match argument("dim") {
            Some(Value::Int(dim)) if position == 1 && !stable => {
                names.eq(["values", "indices"]).then_some(*dim)
            }
            _ => None,
        }
    }

    fn inputs(&self) -> impl Iterator<Item = (&Given, &Tensor)> {
        self.case.given.iter().zip(&self.args)
    }

    /// Whether a result lies in the memory of the argument that it should lie in, and of no other.
    fn memory(&self, t: &Tensor, alias: Option<&str>) -> Result<(), String> {
        if let Some(path) = alias {
            return match t.shares_storage_with(self.at(path)?) {
                true => Ok(()),
                false => Err(format!("does not share the storage of {path}")),
            };
        }
        match self.inputs().find(|(_, arg)| t.shares_storage_with(arg)) {
            None => Ok(()),
            Some((g, _)) => Err(format!("shares the storage of {}, should have its own", g.path)),
        }
    }

    /// Indices among equal elements: any will do that gather the first result.
    fn gathers(&self, indices: &Tensor, of: Option<(i64, i64)>) -> Result<(), String> {
        let (arg, dim) = of.ok_or("indices of which the case does not say what they gather")?;
        let from = self.at(&format!("args.{arg}"))?;
        // the dimension may be gone
        let flat = indices.dim() < from.dim();
        let gather = || match flat {
            true => {
                let found = aten::gather(from, dim, &aten::unsqueeze(indices, dim)?, false)?;
                aten::squeeze_dim(&found, dim)
            }
            false => aten::gather(from, dim, indices, false),
        };
        let found = gather().map_err(|e| e.to_string())?;
        let first = self.outs[0].as_tensor().ok_or("no tensor to gather")?;
        same_values(&found, first, Tolerance::of(&Json::Null))
            .map_err(|e| format!("gathers other elements: {e}"))
    }

    /// The arguments after the call: those that were written as recorded, the others as they were.
    fn arguments(&self) -> Result<(), String> {
        let none = serde_json::Map::new();
        let mutated = self.case.json["mutated"].as_object().unwrap_or(&none);
        for path in mutated.keys() {
            self.at(path)?;
        }
        for (g, t) in self.inputs() {
            let written = mutated.get(&g.path);
            match written {
                Some(w) => same_shape(t, w),
                None => same_geometry(&geometry(t), &g.geometry),
            }
            .and_then(|()| match written {
                _ if self.level == Level::Shape => Ok(()),
                Some(_) if self.random() || self.holds_vectors(&g.path) => Ok(()),
                Some(w) => self.written(t, w),
                None => self.untouched(g, mutated),
            })
            .map_err(|e| format!("{} after the call: {e}", g.path))?;
        }
        Ok(())
    }

    fn written(&self, t: &Tensor, w: &Json) -> Result<(), String> {
        let want =
            storage(t.dtype(), &decode_base64(text(w, "data"))).map_err(|e| e.to_string())?;
        let whole =
            aten::as_strided(t, &[want.numel()], &[1], Some(0)).map_err(|e| e.to_string())?;
        same_values(&whole, &want, Tolerance::of(&self.case.json))
    }

    /// To the bit, unless the memory is that of an argument which is written.
    fn untouched(&self, g: &Given, mutated: &serde_json::Map<String, Json>) -> Result<(), String> {
        let shares = |o: &Given| o.owner == g.owner && mutated.contains_key(&o.path);
        if self.case.given.iter().any(shares) {
            return Ok(());
        }
        let exact = Tolerance { rtol: 0.0, atol: 0.0 };
        let values = || {
            let held = storage(g.row.dtype(), &g.held).map_err(|e| e.to_string())?;
            same_values(&g.row, &held, exact)
        };
        match bytes(&g.row).map_err(|e| e.to_string())? == g.held {
            true => Ok(()),
            // what a GPU writes of a NaN is its own NaN, with other bits
            false if !g.row.device().is_cpu() && values().is_ok() => Ok(()),
            false => Err("its memory changed, should be as it was".to_string()),
        }
    }
}
