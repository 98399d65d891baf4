//! Comparing results with what PyTorch recorded.

use super::case::{Case, decode_base64, dtype, ints, storage, text};
use serde_json::Value as Json;
use straightline::dispatch::Value;
use straightline::{DType, Tensor};

/// Tolerance of a case.
#[derive(Clone, Copy)]
pub(crate) struct Tolerance {
    rtol: f64,
    atol: f64,
}

impl Tolerance {
    pub(crate) fn of(case: &Json) -> Tolerance {
        Tolerance {
            rtol: case["tol"]["rtol"].as_f64().unwrap_or(0.0),
            atol: case["tol"]["atol"].as_f64().unwrap_or(0.0),
        }
    }
}

fn values(t: &Tensor) -> Result<Vec<f64>, String> {
    if t.dtype() == DType::I64 {
        let v = t.to_vec::<i64>().map_err(|e| e.to_string())?;
        return Ok(v.into_iter().map(|x| x as f64).collect());
    }
    t.to_dtype(DType::F64)
        .and_then(|t| t.to_vec::<f64>())
        .map_err(|e| e.to_string())
}

fn same_values(got: &Tensor, want: &Tensor, tol: Tolerance) -> Result<(), String> {
    // part by part
    if got.dtype().is_complex() {
        let parts = |t: &Tensor| {
            t.to_dtype(DType::C128)
                .and_then(|t| t.to_vec::<num_complex::Complex<f64>>())
                .map(|v| v.iter().flat_map(|x| [x.re, x.im]).collect::<Vec<_>>())
                .map_err(|e| e.to_string())
        };
        return near(&parts(got)?, &parts(want)?, tol);
    }
    near(&values(got)?, &values(want)?, tol)
}

fn near(got: &[f64], want: &[f64], tol: Tolerance) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("{} values, {} expected", got.len(), want.len()));
    }
    for (i, (x, y)) in got.iter().zip(want).enumerate() {
        let equal = x == y || (x.is_nan() && y.is_nan());
        let near = x.is_finite() && y.is_finite() && (x - y).abs() <= tol.atol + tol.rtol * y.abs();
        if !(equal || near) {
            return Err(format!("element {i}: {x:?}, expected {y:?}"));
        }
    }
    Ok(())
}

fn same_shape(got: &Tensor, want: &Json, strides: bool) -> Result<(), String> {
    let d = dtype(text(want, "t"))?;
    if got.dtype() != d {
        return Err(format!("dtype {}, expected {d}", got.dtype()));
    }
    let sizes = ints(&want["size"]);
    if got.sizes() != sizes {
        return Err(format!("sizes {:?}, expected {sizes:?}", got.sizes()));
    }
    let want_strides = ints(&want["stride"]);
    let matter = |i: &usize| sizes[*i] > 1;
    let differ = (0..sizes.len())
        .filter(matter)
        .any(|i| got.strides()[i] != want_strides[i]);
    if strides && got.numel() > 0 && differ {
        return Err(format!(
            "strides {:?}, expected {want_strides:?} (sizes {sizes:?})",
            got.strides()
        ));
    }
    Ok(())
}

/// Whether a number, flag or float is what is wanted; `None` where a tensor is wanted.
fn same_number(got: &Value, want: &Json) -> Option<bool> {
    if let Some(x) = want.get("f") {
        let x: f64 = x.as_str()?.parse().ok()?;
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
        let part = |i: usize| c[i].as_str()?.parse::<f64>().ok();
        let (re, im) = (part(0)?, part(1)?);
        return Some(matches!(got, Value::Complex(x, y) if re == *x && im == *y));
    }
    let x = want.get("b")?.as_bool()?;
    Some(matches!(got, Value::Bool(y) if x == *y))
}

/// What is checked of the results.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Dtype, sizes, strides.
    Shape,
    /// The values and which argument is handed back, too.
    Values,
}

/// The results of a call, lists laid flat as the case's outputs are.
pub(crate) fn results(case: &Case, outs: &[Value], level: Level) -> Result<(), String> {
    let want = case.json["outs"].as_array().cloned().unwrap_or_default();
    let mut got = outs.iter();
    let tol = Tolerance::of(&case.json);
    let random = case.json["nondeterministic"] == true;
    for (i, w) in want.iter().enumerate() {
        let v = got.next().ok_or_else(|| format!("result {i} is missing"))?;
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
        let list = w["list"]
            .as_array()
            .cloned()
            .unwrap_or_else(|| vec![w.clone()]);
        let tensors: Vec<&Tensor> = v.tensors().collect();
        if tensors.len() != list.len() {
            return Err(format!(
                "result {i}: {} tensors, {} expected",
                tensors.len(),
                list.len()
            ));
        }
        for (k, (t, w)) in tensors.iter().zip(&list).enumerate() {
            one(case, t, w, tol, level, random, i).map_err(|e| format!("result {}: {e}", i + k))?;
        }
    }
    Ok(())
}

fn one(
    case: &Case,
    t: &Tensor,
    w: &Json,
    tol: Tolerance,
    level: Level,
    random: bool,
    position: usize,
) -> Result<(), String> {
    if let Some(path) = w["same"].as_str() {
        let arg = case.at(path).ok_or_else(|| format!("no argument {path}"))?;
        return if level == Level::Shape || t.is_same(arg) {
            Ok(())
        } else {
            Err(format!("is not the argument {path} itself"))
        };
    }
    same_shape(t, w, true)?;
    if level == Level::Shape {
        return Ok(());
    }
    if let Some(path) = w["alias"].as_str() {
        let arg = case.at(path).ok_or_else(|| format!("no argument {path}"))?;
        if !t.shares_storage_with(arg) && t.numel() > 0 {
            return Err(format!("does not share the storage of {path}"));
        }
    }
    let weak = !case.json["weak_outs"][position.to_string()].is_null();
    if random || weak {
        return Ok(());
    }
    let expected =
        storage(t.dtype(), &decode_base64(text(w, "values"))).map_err(|e| e.to_string())?;
    same_values(t, &expected, tol)
}

/// The storages of arguments after the call.
pub(crate) fn mutations(case: &Case) -> Result<(), String> {
    let Some(mutated) = case.json["mutated"].as_object() else {
        return Ok(());
    };
    if case.json["nondeterministic"] == true {
        return Ok(());
    }
    for (path, w) in mutated {
        let t = case.at(path).ok_or_else(|| format!("no argument {path}"))?;
        let want =
            storage(t.dtype(), &decode_base64(text(w, "data"))).map_err(|e| e.to_string())?;
        let whole = straightline::ops::aten::as_strided(t, &[want.numel()], &[1], Some(0))
            .map_err(|e| e.to_string())?;
        same_values(&whole, &want, Tolerance::of(&case.json))
            .map_err(|e| format!("{path} after the call: {e}"))?;
    }
    Ok(())
}
