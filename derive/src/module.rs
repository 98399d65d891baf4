//! What `#[derive(Module)]` writes: each field is shown to the visitor under its name.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Error, Generics, LitStr, Member, Result, parse_quote};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(
            input.ident.span(),
            "`Module` is derived for structs; an enum or a union has no fields that are always there",
        ));
    };
    let mut visit = Vec::new();
    let mut visit_mut = Vec::new();
    for (member, field) in data.fields.members().zip(&data.fields) {
        match Role::of(&member, &field.attrs)? {
            Role::Skipped => {}
            Role::Training => {
                visit_mut.push(quote!(__visitor.training(&mut self.#member);));
            }
            Role::Part(label) => {
                visit.push(quote!(__visitor.child(#label, &self.#member);));
                visit_mut.push(quote!(__visitor.child(&mut self.#member);));
            }
        }
    }
    let generics = with_bounds(input.generics.clone());
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables, clippy::all, clippy::pedantic)]
        impl #impl_generics ::straightline::nn::Module for #name #type_generics #where_clause {
            fn visit<'__module>(
                &'__module self,
                __visitor: &mut ::straightline::nn::Visitor<'__module, '_>,
            ) {
                #(#visit)*
            }

            fn visit_mut(&mut self, __visitor: &mut ::straightline::nn::VisitorMut<'_>) {
                #(#visit_mut)*
            }
        }
    })
}

/// What a field is to its module.
enum Role {
    /// Parameters, buffers or modules, under this name.
    Part(String),
    /// The flag that `train()` and `eval()` set.
    Training,
    /// Nothing.
    Skipped,
}

impl Role {
    fn of(member: &Member, attributes: &[Attribute]) -> Result<Role> {
        let mut role = Role::Part(match member {
            // `r#type` is called `type`
            Member::Named(ident) => {
                let ident = ident.to_string();
                ident.strip_prefix("r#").unwrap_or(&ident).to_owned()
            }
            Member::Unnamed(index) => index.index.to_string(),
        });
        for attribute in attributes.iter().filter(|a| a.path().is_ident("module")) {
            attribute.parse_nested_meta(|meta| {
                role = if meta.path.is_ident("skip") {
                    Role::Skipped
                } else if meta.path.is_ident("training") {
                    Role::Training
                } else if meta.path.is_ident("rename") {
                    let label = meta.value()?.parse::<LitStr>()?;
                    if label.value().contains('.') {
                        let message = "a dot separates the names of modules in each other";
                        return Err(Error::new(label.span(), message));
                    }
                    Role::Part(label.value())
                } else {
                    return Err(meta.error("expected `skip`, `training` or `rename = \"name\"`"));
                };
                Ok(())
            })?;
        }
        Ok(role)
    }
}

/// Asks every type parameter to be a module, as `#[derive(Clone)]` does with `Clone`.
fn with_bounds(mut generics: Generics) -> Generics {
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::straightline::nn::Module));
    }
    generics
}

#[cfg(test)]
mod tests {
    use super::expand;
    use syn::parse_str;

    fn expanded(source: &str) -> syn::Result<String> {
        Ok(expand(&parse_str(source)?)?.to_string())
    }

    #[test]
    fn fields_have_their_names_and_others_on_request() {
        let code = expanded(
            "struct Net { r#in: Linear, #[module(rename = \"h\")] hidden: Linear, \
             #[module(skip)] cache: Cache, #[module(training)] training: bool }",
        )
        .expect("a struct can be derived");
        assert!(code.contains("child (\"in\" , & self . r#in)"), "{code}");
        assert!(code.contains("child (\"h\" , & self . hidden)"), "{code}");
        assert!(code.contains("training (& mut self . training)"), "{code}");
        assert!(!code.contains("cache"), "{code}");
    }

    #[test]
    fn an_enum_and_unknown_words_are_refused() {
        assert!(expanded("enum E { A }").unwrap_err().to_string().contains("structs"));
        let error = expanded("struct S { #[module(frozen)] a: Linear }").unwrap_err();
        assert!(error.to_string().contains("expected `skip`"), "{error}");
        let error = expanded("struct S { #[module(rename = \"a.b\")] a: Linear }").unwrap_err();
        assert!(error.to_string().contains("dot"), "{error}");
    }
}
