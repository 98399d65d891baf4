//! Models written with straightline's tensors: plain structs that own their weights.
//!
//! Weights come from a [`Source`], a function from a tensor's name to the tensor, so that a file
//! with other names needs only a closure and not another model. Each layer checks the shapes it
//! gets.

pub mod bert;
pub mod grammar;
pub mod minigpt;
pub mod nn;
pub mod resnet;
pub mod sampling;

use std::collections::BTreeMap;
use straightline::{Error, ErrorKind, Result, Tensor};

/// Where a model gets its weights: name to tensor.
pub type Source<'a> = &'a mut dyn FnMut(&str) -> Result<Tensor>;

/// The tensor of this name, or an error that lists the existing ones.
pub fn find(weights: &BTreeMap<String, Tensor>, name: &str) -> Result<Tensor> {
    weights.get(name).cloned().ok_or_else(|| {
        let some: Vec<&str> = weights.keys().take(6).map(String::as_str).collect();
        let more = if weights.len() > some.len() { ", ..." } else { "" };
        Error::new(ErrorKind::Value(format!(
            "there is no tensor `{name}` among the {} weights ({}{more})",
            weights.len(),
            some.join(", ")
        )))
    })
}

/// The tensor of this name with the sizes and the floating-point dtype that the model needs.
pub fn weight(source: Source<'_>, name: &str, sizes: &[i64]) -> Result<Tensor> {
    let t = source(name)?;
    if t.sizes() != sizes {
        return Err(Error::new(ErrorKind::Shape(format!(
            "tensor `{name}` has sizes {:?}, and the model needs {sizes:?}",
            t.sizes()
        ))));
    }
    if !t.dtype().is_floating() {
        return Err(Error::new(ErrorKind::DType(format!(
            "tensor `{name}` is {}, and the model needs floating-point weights",
            t.dtype()
        ))));
    }
    Ok(t)
}
