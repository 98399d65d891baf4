//! Wrappers of the functions of a custom operator: a check of what they return, and the default for
//! a missing fake function.

use super::error::{CustomOpError, refuse};
use crate::dispatch::kernel::Kernel;
use crate::dispatch::operator::OperatorHandle;
use crate::dispatch::value::{Stack, Value};
use crate::error::Result;
use straightline_catalog::schema::FunctionSchema;

/// Without a fake function: an operator that returns nothing, or only arguments that it writes, has
/// no shapes to compute.
pub(super) fn trivial_fake(op: OperatorHandle, stack: &mut Stack) -> Result<()> {
    let no_fake = || {
        let op = op.name().to_string();
        refuse(CustomOpError::NoFakeImpl { op })
    };
    let schema = op.schema().ok_or_else(no_fake)?;
    let echoes: Option<Vec<usize>> = (0..schema.returns.len())
        .map(|r| schema.aliased_argument(r).filter(|a| schema.args[*a].is_write()))
        .collect();
    let (Some(echoes), Some(base)) = (echoes, stack.len().checked_sub(schema.args.len())) else {
        return Err(no_fake());
    };
    let args = stack.split_off(base);
    stack.extend(echoes.into_iter().map(|a| args[a].clone()));
    Ok(())
}

/// The kernel with a check of what it returns: new tensors, or the arguments that the schema names.
pub(super) fn guarded(kernel: Kernel) -> Kernel {
    Kernel::boxed(move |op, keys, stack| {
        let schema = op.schema().filter(|s| !s.is_view());
        let inputs: Vec<Value> = match schema {
            Some(s) => stack[stack.len().saturating_sub(s.args.len())..].to_vec(),
            None => Vec::new(),
        };
        kernel.call_boxed(op, keys, stack)?;
        match schema {
            Some(s) => {
                let outputs = &stack[stack.len().saturating_sub(s.returns.len())..];
                check_outputs(op, s, &inputs, outputs)
            }
            None => Ok(()),
        }
    })
}

fn check_outputs(
    op: OperatorHandle,
    schema: &FunctionSchema,
    inputs: &[Value],
    outputs: &[Value],
) -> Result<()> {
    let name = || op.name().to_string();
    for (r, output) in outputs.iter().enumerate() {
        let returned = schema.aliased_argument(r);
        if let Some(a) = returned {
            let same = match (output, &inputs[a]) {
                (Value::Tensor(out), Value::Tensor(input)) => out.is_same(input),
                _ => true,
            };
            if !same {
                return Err(refuse(CustomOpError::MustReturnArgument {
                    op: name(),
                    output: r,
                    argument: schema.args[a].name.clone(),
                }));
            }
            continue;
        }
        let named = |a: usize| format!("argument `{}`", schema.args[a].name);
        let others = (inputs.iter().enumerate())
            .map(|(a, v)| (named(a), v))
            .chain((outputs[..r].iter().enumerate()).map(|(o, v)| (format!("output {o}"), v)));
        for (with, other) in others {
            let shared = (output.tensors())
                .any(|t| other.tensors().any(|o| t.is_same(o) || t.shares_storage_with(o)));
            if shared {
                return Err(refuse(CustomOpError::OutputAliases { op: name(), output: r, with }));
            }
        }
    }
    Ok(())
}
