//! Tensors made of nothing but their shape.

pub(crate) mod factory;
pub(crate) mod like;
