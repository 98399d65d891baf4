//! Properties of a schema: does it write, is it in-place, is it a view.

use super::{AliasInfo, FunctionSchema, SchemaType};

/// All annotations of a value, outermost first.
fn levels(alias: &AliasInfo) -> Vec<&AliasInfo> {
    let mut out = vec![alias];
    let mut i = 0;
    while i < out.len() {
        out.extend(out[i].elements.iter());
        i += 1;
    }
    out
}

impl FunctionSchema {
    /// Whether some argument is written.
    pub fn is_mutable(&self) -> bool {
        self.args.iter().any(|a| a.is_write())
    }

    /// An in-place operator: one return, which is the first argument, written; no other argument
    /// is annotated.
    pub fn is_inplace(&self) -> bool {
        let Some((first, rest)) = self.args.split_first() else {
            return false;
        };
        first.is_write()
            && rest.iter().all(|a| a.alias.is_none())
            && matches!(&self.returns[..], [r] if r.alias.as_ref().is_some_and(|a| a.write))
    }

    /// Whether some argument is an `out` argument: keyword-only and written.
    pub fn is_out_variant(&self) -> bool {
        self.args.iter().any(|a| a.is_out())
    }

    /// Whether a return shares an alias set with an argument that is not written.
    pub fn is_view(&self) -> bool {
        let shared: Vec<&str> = self
            .args
            .iter()
            .filter_map(|a| a.alias.as_ref())
            .flat_map(levels)
            .filter(|a| !a.write)
            .flat_map(|a| a.before.iter().map(String::as_str))
            .collect();
        self.returns
            .iter()
            .filter_map(|r| r.alias.as_ref())
            .flat_map(levels)
            .filter(|a| !a.write)
            .any(|a| a.before.iter().any(|s| shared.contains(&s.as_str())))
    }

    /// The index of the argument that return `ret` aliases, where the schema says so.
    pub fn aliased_argument(&self, ret: usize) -> Option<usize> {
        let sets: Vec<&String> = levels(self.returns.get(ret)?.alias.as_ref()?)
            .into_iter()
            .flat_map(|a| &a.before)
            .collect();
        self.args.iter().position(|arg| {
            arg.alias.as_ref().is_some_and(|a| {
                levels(a).iter().any(|l| l.before.iter().any(|s| sets.contains(&s)))
            })
        })
    }

    /// Whether the schema contains a type variable; such schemas are for `aten` and `prim` only.
    pub fn has_type_variables(&self) -> bool {
        self.args
            .iter()
            .map(|a| &a.ty)
            .chain(self.returns.iter().map(|r| &r.ty))
            .any(SchemaType::has_variables)
    }
}

impl SchemaType {
    /// Whether values of this type are tensors that take part in dispatch: `Tensor`, `Tensor?`,
    /// `Tensor[]` and `Tensor?[]`. `Tensor[]?` does not.
    pub fn is_dispatch_relevant(&self) -> bool {
        match self {
            SchemaType::Tensor => true,
            SchemaType::Optional(t) => **t == SchemaType::Tensor,
            SchemaType::List(t, _) => *t.unwrap_optional() == SchemaType::Tensor,
            _ => false,
        }
    }

    fn has_variables(&self) -> bool {
        match self {
            SchemaType::Var(_) => true,
            SchemaType::List(t, _)
            | SchemaType::Optional(t)
            | SchemaType::Future(t)
            | SchemaType::RRef(t)
            | SchemaType::Await(t) => t.has_variables(),
            SchemaType::Tuple(types) => types.iter().any(SchemaType::has_variables),
            SchemaType::Dict(k, v) => k.has_variables() || v.has_variables(),
            _ => false,
        }
    }
}
