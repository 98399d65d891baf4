//! Calls whose results have sizes that depend on data, while a function is captured.

use super::{RECORDING, Recording, in_subgraph, to_arg, value_of};
use crate::dispatch::{OperatorHandle, Value, meta};
use crate::error::{Error, ErrorKind, Result};
use crate::modes::{dependent, outside};
use straightline_catalog::Arg;
use straightline_catalog::schema::{Return, SchemaType};
use straightline_passes::ir::graph::ValueRef;

/// Why a function of a branch or a loop has no such call.
const IN_A_BODY: &str = "a function of `control_flow` returns the same sizes whichever branch or turn it is: make the call \
     before the branch or loop, or keep all elements and a mask (`where`)";

/// The results of a call whose sizes depend on data, as this call of the function has them, if it is
/// captured for one.
#[cold]
pub(super) fn results(op: OperatorHandle, args: &[Value], e: &Error) -> Option<Result<Vec<Value>>> {
    let tensors = |r: &Return| match &r.ty {
        SchemaType::List(of, _) => **of == SchemaType::Tensor,
        ty => *ty == SchemaType::Tensor,
    };
    let asks = matches!(e.kind(), ErrorKind::DataDependent { .. })
        && op.schema().is_some_and(|s| s.returns.iter().all(tensors));
    if asks && in_subgraph() {
        let what = format!("`{}`, whose results have sizes that depend on data,", op.name());
        return Some(Err(outside::refuse(&what, IN_A_BODY, None)));
    }
    let answers = dependent::answers().filter(|_| asks)?;
    let given: Result<Vec<Arg<ValueRef>>> =
        args.iter().map(|v| to_arg(op.name(), v, &mut value_of)).collect();
    let results = outside::apart(|| {
        // the thread records nothing meanwhile
        struct Back(Option<Recording>);
        impl Drop for Back {
            fn drop(&mut self) {
                RECORDING.set(self.0.take());
            }
        }
        let recording = Back(RECORDING.take());
        let graph = recording.0.as_ref().map(|r| &r.graph)?;
        Some(given.and_then(|given| answers.results(dependent::count(), op, &given, graph)))
    })?;
    let like = |v: Value| v.map_tensors(|t| Ok(meta::to_meta(t)));
    Some(results.and_then(|all| all.into_iter().map(like).collect()))
}
