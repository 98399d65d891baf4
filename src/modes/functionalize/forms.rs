//! The functional variant of an operator that writes.
//!
//! c10 pairs them by schema: `op_` and `op.out` belong to the overload of `op` that takes the same
//! arguments, the `out` ones left away; an operator that writes and is neither has `op_functional`.
//! For an operator from outside that has neither, one is [derived](super::derived). What the
//! variant returns is first what the operator returns, new values in place of written
//! arguments, and then the new values of written arguments that the operator does not return.

use super::derived;
use crate::dispatch::{self, OperatorHandle};
use crate::error::Result;
use crate::modes::outside;
use straightline_catalog::schema::{Argument, FunctionSchema, OperatorName};

/// Where a result of the functional variant goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// It is the new value of this argument.
    Written(usize),
    /// It is a plain result.
    Fresh,
}

/// What the functional variant takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// This argument of the original.
    Argument(usize),
    /// The dtype of this `out`, for a factory.
    Dtype(usize),
    /// The device of this `out`.
    Device(usize),
    /// An option of a factory that has its default.
    Nothing,
}

/// How to replace an operator that writes by a functional one.
pub(super) struct Form {
    /// The functional variant.
    pub(super) op: OperatorHandle,
    /// What it takes, in its order.
    pub(super) args: Vec<Source>,
    /// What its results are.
    pub(super) results: Vec<Target>,
    /// Whether it runs the writing operator itself, on copies.
    pub(super) runs_original: bool,
}

/// The functional variant of `op`, found through the schemas.
pub(super) fn functional_form(op: OperatorHandle, schema: &FunctionSchema) -> Result<Form> {
    let args: Vec<usize> = (0..schema.args.len()).filter(|i| !schema.args[*i].is_out()).collect();
    let mut results: Vec<Target> = (0..schema.returns.len())
        .map(|r| match schema.aliased_argument(r) {
            Some(i) if schema.args[i].is_write() => Target::Written(i),
            _ => Target::Fresh,
        })
        .collect();
    for i in 0..schema.args.len() {
        if schema.args[i].is_write() && !results.contains(&Target::Written(i)) {
            results.push(Target::Written(i));
        }
    }
    if op.is_replaced() {
        // eager execution runs that kernel, not the functional variant's
        return derived::form(op, schema, results);
    }
    let names = candidates(&schema.name);
    let fits = |f: &FunctionSchema, same_names: bool| {
        !f.is_mutable()
            && !f.is_view()
            && f.returns.len() == results.len()
            && core(f, schema).count() == args.len()
            && core(f, schema).zip(&args).all(|(a, i)| {
                let b = &schema.args[*i];
                a.ty == b.ty && (!same_names || a.name == b.name)
            })
    };
    for name in &names {
        let overloads = dispatch::overloads(name);
        let find = |same_overload: bool, same_names: bool| {
            overloads.iter().copied().find(|o| {
                (!same_overload || o.name().overload == schema.name.overload)
                    && o.schema().is_some_and(|f| fits(f, same_names))
            })
        };
        let found = find(true, true)
            .or_else(|| find(false, true))
            .or_else(|| find(true, false))
            .or_else(|| find(false, false));
        if found.is_some_and(|f| f.is_replaced()) {
            // a kernel from outside, which eager execution of the writing operator does not run
            return derived::form(op, schema, results);
        }
        if let Some(op) = found {
            let Some(f) = op.schema() else { continue };
            let args = sources(f, schema, &args);
            return Ok(Form { op, args, results, runs_original: false });
        }
    }
    // the kernel of an operator of ours may call others, and would at each replay
    if schema.name.namespace() != Some("aten") {
        return derived::form(op, schema, results);
    }
    Err(outside::limit(format!(
        "`{}` writes its arguments and cannot be captured: there is no functional operator {} that \
         takes the same arguments; define it, or write the function without this call",
        op.name(),
        names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(" or ")
    )))
}

/// Whether the functional variant `f` of `schema` takes this argument for the making of its result
/// only: the `dtype` and `device` of a factory, which `out` has.
fn is_option(f: &FunctionSchema, schema: &FunctionSchema, at: usize) -> bool {
    let name = f.args[at].name.as_str();
    matches!(name, "dtype" | "layout" | "device" | "pin_memory")
        && schema.is_out_variant()
        && schema.args.iter().all(|a| a.name != name)
}

/// The arguments of `f` that are arguments of `schema` as well.
fn core<'a>(
    f: &'a FunctionSchema,
    schema: &'a FunctionSchema,
) -> impl Iterator<Item = &'a Argument> {
    (0..f.args.len()).filter(|i| !is_option(f, schema, *i)).map(|i| &f.args[i])
}

/// Where the arguments of `f` come from.
fn sources(f: &FunctionSchema, schema: &FunctionSchema, args: &[usize]) -> Vec<Source> {
    let out = schema.args.iter().position(Argument::is_out);
    let mut args = args.iter();
    (0..f.args.len())
        .map(|i| match (is_option(f, schema, i), out) {
            (false, _) => args.next().map_or(Source::Nothing, |i| Source::Argument(*i)),
            (true, Some(out)) if f.args[i].name == "dtype" => Source::Dtype(out),
            (true, Some(out)) if f.args[i].name == "device" => Source::Device(out),
            (true, _) => Source::Nothing,
        })
        .collect()
}

/// The names that the functional variant may have, likeliest first.
fn candidates(name: &OperatorName) -> Vec<String> {
    let full = name.name.as_str();
    let base = match full.rsplit_once("::") {
        Some((ns, base)) if base.starts_with("__i") && base.ends_with("__") => {
            format!("{ns}::__{}", &base[3..])
        }
        _ if full.ends_with("__") => full.to_string(),
        _ => full.strip_suffix('_').unwrap_or(full).to_string(),
    };
    let functional = format!("{base}_functional");
    vec![base, functional]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::operator;

    fn form(name: &str) -> (String, Vec<Source>, Vec<Target>) {
        let op = operator(name).unwrap();
        let f = functional_form(op, op.schema().unwrap()).unwrap();
        (f.op.name().to_string(), f.args, f.results)
    }

    #[test]
    fn in_place_operators_have_their_functional_overload() {
        let written = vec![Target::Written(0)];
        for (op, functional, args) in [
            ("aten::add_.Tensor", "aten::add.Tensor", 3),
            ("aten::pow_.Tensor", "aten::pow.Tensor_Tensor", 2),
            ("aten::pow_.Scalar", "aten::pow.Tensor_Scalar", 2),
            ("aten::zero_", "aten::zero", 1),
            ("aten::copy_", "aten::copy", 3),
            ("aten::fill_.Scalar", "aten::fill.Scalar", 2),
        ] {
            let found = form(op);
            assert_eq!(found.0, functional, "{op}");
            assert_eq!(found.1, (0..args).map(Source::Argument).collect::<Vec<_>>());
            assert_eq!(found.2, written);
        }
    }
}
