//! Does the signature of a kernel fit a schema: counts and types, not names or defaults.

use super::{FunctionSchema, SchemaType};

/// How two schemas differ. Positions are counted from one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum SchemaMismatch {
    #[error("The number of arguments is different. {expected} vs {inferred}.")]
    ArgumentCount { expected: usize, inferred: usize },
    #[error("The number of returns is different. {expected} vs {inferred}.")]
    ReturnCount { expected: usize, inferred: usize },
    #[error("Type mismatch in argument {position}: {expected} vs {inferred}")]
    Argument {
        position: usize,
        expected: String,
        inferred: String,
    },
    #[error("Type mismatch in return {position}: {expected} vs {inferred}")]
    Return {
        position: usize,
        expected: String,
        inferred: String,
    },
}

/// The type as a kernel sees it: sizes are hints, and a symbolic integer is an integer.
fn kernel_type(ty: &SchemaType) -> SchemaType {
    match ty {
        SchemaType::SymInt | SchemaType::DeviceIndex => SchemaType::Int,
        SchemaType::SymBool => SchemaType::Bool,
        SchemaType::List(t, _) => kernel_type(t).list(),
        SchemaType::Optional(t) => kernel_type(t).optional(),
        SchemaType::Tuple(types) => SchemaType::Tuple(types.iter().map(kernel_type).collect()),
        SchemaType::Dict(k, v) => {
            SchemaType::Dict(Box::new(kernel_type(k)), Box::new(kernel_type(v)))
        }
        other => other.clone(),
    }
}

impl FunctionSchema {
    /// The first difference between this schema and the types that a kernel has, if any.
    pub fn mismatch(&self, args: &[SchemaType], returns: &[SchemaType]) -> Option<SchemaMismatch> {
        if self.args.len() != args.len() {
            return Some(SchemaMismatch::ArgumentCount {
                expected: self.args.len(),
                inferred: args.len(),
            });
        }
        if self.returns.len() != returns.len() {
            return Some(SchemaMismatch::ReturnCount {
                expected: self.returns.len(),
                inferred: returns.len(),
            });
        }
        for (i, (arg, inferred)) in self.args.iter().zip(args).enumerate() {
            if kernel_type(&arg.ty) != kernel_type(inferred) {
                return Some(SchemaMismatch::Argument {
                    position: i + 1,
                    expected: arg.ty.to_string(),
                    inferred: inferred.to_string(),
                });
            }
        }
        for (i, (ret, inferred)) in self.returns.iter().zip(returns).enumerate() {
            // a `Tensor` that is returned may be undefined: gradients that were not asked for
            let undefined =
                ret.ty == SchemaType::Tensor && *inferred == SchemaType::Tensor.optional();
            if !undefined && kernel_type(&ret.ty) != kernel_type(inferred) {
                return Some(SchemaMismatch::Return {
                    position: i + 1,
                    expected: ret.ty.to_string(),
                    inferred: inferred.to_string(),
                });
            }
        }
        None
    }
}
