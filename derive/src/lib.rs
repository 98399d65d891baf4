//! `#[derive(TensorTree)]` and `#[derive(Module)]` for the crate `straightline`, which re-exports
//! them. Internal: depend on `straightline` instead.

mod module;
mod tensor_tree;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `straightline::TensorTree` for a struct or an enum whose fields all are tensor trees.
///
/// Fields are visited in the order of their declaration. Type parameters get a `TensorTree` bound.
/// Two values of an enum match only if they are of the same variant. A union is an error, since it
/// is not known which of its fields is active.
#[proc_macro_derive(TensorTree)]
pub fn derive_tensor_tree(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    tensor_tree::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Implements `straightline::nn::Module` for a struct whose fields are parameters, buffers, modules
/// (also in a `Vec`, an `Option`, a `Box`, an array, a `BTreeMap<String, _>`) and settings such as
/// numbers and flags, which have no parameters.
///
/// A field's name is the module's name in `state_dict()`, in the order of declaration. Attributes
/// of fields:
///
/// - `#[module(rename = "name")]`: another name; an empty one adds no level.
/// - `#[module(skip)]`: no part of the module.
/// - `#[module(training)]`: a `bool` that `train()` and `eval()` set.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    module::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
