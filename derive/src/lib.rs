//! `#[derive(TensorTree)]` for the crate `straightline`, which re-exports it. Internal: depend on
//! `straightline` instead.

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
