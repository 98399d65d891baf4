//! What `#[derive(TensorTree)]` writes.
//!
//! A struct is treated as an enum of one variant: each variant gives one arm to the three `match`
//! expressions that are the bodies of `visit`, `map` and `matches`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields, Generics, Ident, Member, Result, parse_quote};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let variants: Vec<Variant> = match &input.data {
        Data::Struct(data) => vec![Variant::new(quote!(Self), None, &data.fields)],
        Data::Enum(data) => data
            .variants
            .iter()
            .map(|v| {
                let ident = &v.ident;
                Variant::new(quote!(Self::#ident), Some(ident), &v.fields)
            })
            .collect(),
        Data::Union(data) => {
            return Err(Error::new(
                data.union_token.span,
                "`TensorTree` cannot be derived for a union: nothing tells which field is alive; use an enum",
            ));
        }
    };
    let generics = with_bounds(input.generics.clone());
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();

    // an enum without variants is matched by `match *self {}`; a reference to one cannot be.
    let subject = if variants.is_empty() { quote!(*self) } else { quote!(self) };
    let visit = variants.iter().map(Variant::visit_arm);
    let map = variants.iter().map(Variant::map_arm);
    let matches = if variants.is_empty() {
        quote!(match *self {})
    } else {
        let arms = variants.iter().map(Variant::matches_arm);
        let otherwise = (variants.len() > 1).then(|| variant_mismatch(&variants));
        quote!(match (self, other) { #(#arms)* #otherwise })
    };

    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables, clippy::all, clippy::pedantic)]
        impl #impl_generics ::straightline::TensorTree for #name #type_generics #where_clause {
            #[inline]
            fn visit<'__tree>(
                &'__tree self,
                __f: &mut dyn ::core::ops::FnMut(&'__tree ::straightline::Tensor),
            ) {
                match #subject { #(#visit)* }
            }

            #[inline]
            fn map(
                &self,
                __f: &mut dyn ::core::ops::FnMut(&::straightline::Tensor) -> ::straightline::Tensor,
            ) -> Self {
                match #subject { #(#map)* }
            }

            #[inline]
            fn matches(
                &self,
                other: &Self,
            ) -> ::core::option::Option<::std::string::String> {
                #matches
            }
        }
    })
}

/// Asks every type parameter to be a tensor tree, as `#[derive(Clone)]` does with `Clone`.
fn with_bounds(mut generics: Generics) -> Generics {
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::straightline::TensorTree));
    }
    generics
}

/// The arm for two values of different variants.
fn variant_mismatch(variants: &[Variant]) -> TokenStream {
    let names = |value: TokenStream| {
        let arms = variants.iter().map(|v| {
            let (path, name) = (&v.path, v.name.as_deref().unwrap_or_default());
            quote!(#path { .. } => #name,)
        });
        quote!(match #value { #(#arms)* })
    };
    let (new, old) = (names(quote!(self)), names(quote!(other)));
    quote! {
        _ => ::core::option::Option::Some(
            ::std::format!("variant `{}`, was `{}`", #new, #old),
        ),
    }
}

/// One variant of an enum, or a struct.
struct Variant {
    /// `Self` or `Self::Name`. Every kind of variant can be written with braces after it.
    path: TokenStream,
    name: Option<String>,
    fields: Vec<Field>,
}

struct Field {
    member: Member,
    /// What the field is called in a sentence: ``field `eps` `` or `field 0`.
    label: String,
    /// The names that it is bound to, in the value and in the one it is compared with.
    new: Ident,
    old: Ident,
}

impl Variant {
    fn new(path: TokenStream, name: Option<&Ident>, fields: &Fields) -> Variant {
        let fields = fields.members().enumerate().map(|(i, member)| Field {
            label: match &member {
                Member::Named(ident) => {
                    // `r#type` is called `type`.
                    let ident = ident.to_string();
                    format!("field `{}`", ident.strip_prefix("r#").unwrap_or(&ident))
                }
                Member::Unnamed(index) => format!("field {}", index.index),
            },
            member,
            new: format_ident!("__new_{i}"),
            old: format_ident!("__old_{i}"),
        });
        Variant { path, name: name.map(Ident::to_string), fields: fields.collect() }
    }

    fn pattern(&self, binding: impl Fn(&Field) -> &Ident) -> TokenStream {
        let path = &self.path;
        let fields = self.fields.iter().map(|field| {
            let (member, ident) = (&field.member, binding(field));
            quote!(#member: #ident)
        });
        quote!(#path { #(#fields),* })
    }

    fn visit_arm(&self) -> TokenStream {
        let pattern = self.pattern(|field| &field.new);
        let fields = self.fields.iter().map(|field| &field.new);
        quote!(#pattern => { #(::straightline::TensorTree::visit(#fields, __f);)* })
    }

    fn map_arm(&self) -> TokenStream {
        let (path, pattern) = (&self.path, self.pattern(|field| &field.new));
        let fields = self.fields.iter().map(|field| {
            let (member, new) = (&field.member, &field.new);
            quote!(#member: ::straightline::TensorTree::map(#new, __f))
        });
        quote!(#pattern => #path { #(#fields),* },)
    }

    fn matches_arm(&self) -> TokenStream {
        let new = self.pattern(|field| &field.new);
        let old = self.pattern(|field| &field.old);
        let fields = self.fields.iter().map(|field| {
            let Field { label, new, old, .. } = field;
            quote! {
                if let ::core::option::Option::Some(__what) =
                    ::straightline::TensorTree::matches(#new, #old)
                {
                    return ::core::option::Option::Some(
                        ::std::format!("{}: {}", #label, __what),
                    );
                }
            }
        });
        quote! {
            (#new, #old) => {
                #(#fields)*
                ::core::option::Option::None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::expand;
    use syn::parse_str;

    fn expanded(source: &str) -> syn::Result<String> {
        Ok(expand(&parse_str(source)?)?.to_string())
    }

    #[test]
    fn a_union_is_refused_with_a_reason() {
        let error = expanded("union Either { a: f32, b: u32 }").unwrap_err();
        assert!(error.to_string().contains("cannot be derived for a union"));
    }

    #[test]
    fn type_parameters_are_bounded_and_bounds_kept() {
        let code = expanded("struct S<'a, T: Clone, const N: usize>(&'a T) where T: Send;");
        let code = code.expect("a struct can be derived");
        assert!(
            code.contains("impl < 'a , T : Clone + :: straightline :: TensorTree , const N : usize > :: straightline :: TensorTree for S < 'a , T , N > where T : Send"),
            "{code}"
        );
    }

    #[test]
    fn raw_names_are_called_by_their_plain_names() {
        let code = expanded("struct S { r#type: bool }").expect("a struct can be derived");
        assert!(code.contains("\"field `type`\""), "{code}");
    }
}
