//! Functional forms of operators from outside that write and have none: PyTorch's
//! `auto_functionalized`.
//!
//! The derived operator takes what the original takes, writes nothing, and returns what the
//! original returns and after that the new values of what the original writes. Its kernel runs the
//! original on copies. It is defined when a capture first needs it, and removed with the original.

use super::forms::{Form, Source, Target};
use super::storage::lock;
use crate::dispatch::{
    DispatchKey, DispatchKeySet, Kernel, Library, OperatorHandle, RegistrationEvent, Stack, Value,
    on_registered,
};
use crate::error::{Error, Result};
use crate::modes::outside;
use crate::ops::copy;
use crate::tensor::Tensor;
use std::sync::{Arc, Mutex, Once};
use straightline_catalog::schema::{FunctionSchema, OperatorName, Return, SchemaType};

/// The suffix of the original's name.
const SUFFIX: &str = "_auto_functionalized";

/// The namespace for this crate's operators with kernels from outside.
const REPLACED: &str = "replaced";

/// The suffix of its overload: by ATen's naming rule, an overload that is `out` or ends in it would
/// write.
const OVERLOAD_SUFFIX: &str = "_functional";

/// A derived operator's original, and what the results are.
#[derive(Clone)]
pub(crate) struct Derived {
    pub(crate) original: OperatorHandle,
    op: OperatorHandle,
    results: Arc<[Target]>,
}

/// A derived operator for as long as its original is there.
struct Known {
    derived: Derived,
    _library: Library,
}

static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// The derived operator with this handle, if it is one.
pub(crate) fn derived(op: OperatorHandle) -> Option<Derived> {
    if !op.name().name.ends_with(SUFFIX) {
        return None;
    }
    let known = lock(&KNOWN);
    let found = known.iter().find(|k| k.derived.op == op);
    found.map(|k| k.derived.clone())
}

/// The form of an operator that has no functional variant of its own; `results` are what its
/// results and the new values of its arguments are.
pub(super) fn form(
    op: OperatorHandle,
    schema: &FunctionSchema,
    results: Vec<Target>,
) -> Result<Form> {
    check(schema, &results)?;
    let args = (0..schema.args.len()).map(Source::Argument).collect();
    let derived = define(op, schema, &results)?;
    Ok(Form { op: derived.op, args, results, runs_original: true })
}

fn check(schema: &FunctionSchema, results: &[Target]) -> Result<()> {
    let aliased = schema.returns.iter().zip(results).any(|(r, target)| {
        *target == Target::Fresh && r.alias.as_ref().is_some_and(|a| !a.is_empty())
    });
    let number = schema.returns.iter().zip(results).any(|(r, target)| {
        *target == Target::Fresh && !r.ty.is_dispatch_relevant() && r.ty != SchemaType::None
    });
    let text = match () {
        () if aliased => {
            "it writes an argument and returns a view of one: return a clone instead, and take the \
             alias annotation off the return"
        }
        () if number => {
            "it returns a value that is no tensor, which there is none of while a function is captured: \
             call it outside `compile()`"
        }
        () if schema.vararg || schema.varret => "its schema has `...`",
        () if (schema.args.iter()).any(|a| a.is_write() && !a.ty.is_dispatch_relevant()) => {
            "it writes an argument that is no tensor and no list of tensors"
        }
        () => return Ok(()),
    };
    Err(outside::limit(format!(
        "`{}` cannot be captured: {text}. Its schema is `{schema}`",
        schema.name
    )))
}

/// The operator that represents a call of this one's kernel in a graph. Under the original's name,
/// rewriting and scheduling would replace the kernel by the built-in form.
pub(crate) fn called(op: OperatorHandle, schema: &FunctionSchema) -> Result<OperatorHandle> {
    let results = vec![Target::Fresh; schema.returns.len()];
    check(schema, &results)?;
    Ok(define(op, schema, &results)?.op)
}

/// The derived operator, defined on first use.
fn define(op: OperatorHandle, schema: &FunctionSchema, results: &[Target]) -> Result<Derived> {
    forget_with_the_original();
    let mut known = lock(&KNOWN);
    if let Some(k) = known.iter().find(|k| k.derived.original == op) {
        return Ok(k.derived.clone());
    }
    let functional = functional_schema(schema, results);
    let mut library = Library::fragment(functional.name.namespace().unwrap_or_default())?;
    let derived = Derived {
        original: op,
        op: library.def_with_tags(&functional.to_string(), op.tags())?,
        results: results.into(),
    };
    let mut base = functional.name.base().to_string();
    if !functional.name.overload.is_empty() {
        base = format!("{base}.{}", functional.name.overload);
    }
    library.impl_at(&base, DispatchKey::CompositeExplicitAutograd, kernel(derived.clone()))?;
    known.push(Known { derived: derived.clone(), _library: library });
    Ok(derived)
}

/// The name of the derived operator. For this crate's operators it is in a separate namespace,
/// since it runs a kernel from outside, about which nothing is known.
fn derived_name(name: &OperatorName) -> String {
    match name.name.split_once("::") {
        Some((namespace @ ("aten" | "prims"), base)) => {
            format!("{REPLACED}::{namespace}_{base}{SUFFIX}")
        }
        _ => format!("{}{SUFFIX}", name.name),
    }
}

fn functional_schema(schema: &FunctionSchema, results: &[Target]) -> FunctionSchema {
    let name = &schema.name;
    let overload = match &*name.overload {
        "" => String::new(),
        of => format!("{of}{OVERLOAD_SUFFIX}"),
    };
    let mut functional =
        FunctionSchema { name: OperatorName::new(derived_name(name), overload), ..schema.clone() };
    for a in &mut functional.args {
        a.alias = None;
    }
    functional.returns = (results.iter().enumerate())
        .map(|(r, target)| match target {
            Target::Fresh => schema.returns[r].clone(),
            Target::Written(i) => {
                Return { name: None, ty: schema.args[*i].ty.clone(), alias: None }
            }
        })
        .collect();
    functional
}

/// Removes the derived operators of removed operators.
fn forget_with_the_original() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let listener = on_registered(|event| {
            if let RegistrationEvent::Removed(op) = event {
                let gone = {
                    let mut known = lock(&KNOWN);
                    let at = known.iter().position(|k| k.derived.original == op);
                    at.map(|at| known.remove(at))
                };
                // its library takes the lock again
                drop(gone);
            }
        });
        // for the life of the process
        std::mem::forget(listener);
    });
}

/// The kernel: the original's, on copies of what it writes.
fn kernel(derived: Derived) -> Kernel {
    Kernel::boxed(move |op, keys, stack| {
        let arguments = op.arity()?;
        let mut args = stack.split_off(stack.len().saturating_sub(arguments));
        for i in derived.written() {
            args[i] = args[i].map_tensors(|t| copy::clone(t, None))?;
        }
        let kernel = derived.original.kernel_for(keys.highest_priority_key())?;
        stack.extend(derived.run(&kernel, keys, args)?);
        Ok(())
    })
}

impl Derived {
    /// The arguments that the original writes.
    fn written(&self) -> impl Iterator<Item = usize> {
        self.results.iter().filter_map(|t| match t {
            Target::Written(i) => Some(*i),
            Target::Fresh => None,
        })
    }

    /// Runs a kernel of the original on arguments that it may write. The results are those of the
    /// derived operator.
    pub(crate) fn run(
        &self,
        kernel: &Kernel,
        keys: DispatchKeySet,
        mut args: Stack,
    ) -> Result<Stack> {
        for i in self.written() {
            // a value given twice becomes two tensors if the kernel writes one of them
            let holders = |t: &Tensor| {
                let all = args.iter().flat_map(Value::tensors);
                all.filter(|o| o.shares_storage_with(t)).count()
            };
            args[i] = args[i].map_tensors(|t| match holders(t) {
                0 | 1 => Ok(t.clone()),
                _ => copy::clone(t, None),
            })?;
        }
        let mut stack = args.clone();
        kernel.call_boxed(self.original, keys, &mut stack)?;
        let mut returned = stack.into_iter();
        let mut results = Stack::new();
        for (r, target) in self.results.iter().enumerate() {
            // the first of them stand for what the original returns
            let value = returned.next();
            results.push(match (target, value) {
                (Target::Written(i), _) => args[*i].clone(),
                (Target::Fresh, Some(value)) => value,
                (Target::Fresh, None) => {
                    return Err(Error::compile(format!(
                        "`{}` did not return result {r} of its schema",
                        self.original.name()
                    )));
                }
            });
        }
        Ok(results)
    }
}
