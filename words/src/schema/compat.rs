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
    Argument { position: usize, expected: String, inferred: String },
    #[error("Type mismatch in return {position}: {expected} vs {inferred}")]
    Return { position: usize, expected: String, inferred: String },
}

/// Whether a kernel sees the types as one: sizes are hints, and a symbolic integer is an integer.
fn alike(a: &SchemaType, b: &SchemaType) -> bool {
    use SchemaType as T;
    match (a, b) {
        (T::Int | T::SymInt | T::DeviceIndex, T::Int | T::SymInt | T::DeviceIndex)
        | (T::Bool | T::SymBool, T::Bool | T::SymBool) => true,
        (T::List(a, _), T::List(b, _)) | (T::Optional(a), T::Optional(b)) => alike(a, b),
        (T::Tuple(a), T::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
        }
        (T::Dict(k, v), T::Dict(l, w)) => alike(k, l) && alike(v, w),
        (a, b) => a == b,
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
            if !alike(&arg.ty, inferred) {
                return Some(SchemaMismatch::Argument {
                    position: i + 1,
                    expected: arg.ty.to_string(),
                    inferred: inferred.to_string(),
                });
            }
        }
        for (i, (ret, inferred)) in self.returns.iter().zip(returns).enumerate() {
            // a `Tensor` that is returned may be undefined: gradients that were not asked for
            let undefined = ret.ty == SchemaType::Tensor
                && matches!(inferred, SchemaType::Optional(t) if **t == SchemaType::Tensor);
            if !undefined && !alike(&ret.ty, inferred) {
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
