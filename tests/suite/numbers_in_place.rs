//! A number that the functional form of an operator refuses is refused by its in-place form, which
//! compiles to it.

use straightline::dispatch::schema::{FunctionSchema, SchemaType};
use straightline::dispatch::{OperatorHandle, Value, all_operators};
use straightline::{DType, Result, Tensor};

const NUMBERS: [f64; 6] = [f64::NAN, f64::INFINITY, 1e30, -1e30, 300.0, 2.0];

/// Whether all arguments are tensors and numbers, with at least one number.
fn is_simple(schema: &FunctionSchema) -> bool {
    let known = |t: &SchemaType| matches!(t, SchemaType::Tensor | SchemaType::Scalar);
    schema.args.iter().all(|a| known(&a.ty))
        && schema.args.iter().any(|a| a.ty == SchemaType::Scalar)
}

fn call(op: OperatorHandle, dtype: DType, number: f64) -> Result<()> {
    let schema = op.schema().expect("it has one");
    let mut stack = Vec::new();
    for a in &schema.args {
        stack.push(match a.ty {
            SchemaType::Tensor => Value::Tensor(Tensor::with(dtype).ones([2, 2])?),
            _ => Value::Double(number),
        });
    }
    op.call_boxed(&mut stack)
}

#[test]
fn as_in_the_functional_form() {
    let mut pairs = 0;
    let all = all_operators();
    for inplace in &all {
        let name = inplace.name();
        let Some(functional) = name.name.strip_suffix('_') else {
            continue;
        };
        let twin = |op: &&OperatorHandle| {
            op.name().name == functional && op.name().overload == name.overload
        };
        let (Some(schema), Some(functional)) = (inplace.schema(), all.iter().find(twin)) else {
            continue;
        };
        if !name.name.starts_with("aten::") || !is_simple(schema) || functional.schema().is_none() {
            continue;
        }
        pairs += 1;
        for dtype in [DType::U8, DType::I8, DType::I64, DType::F16, DType::F32] {
            for number in NUMBERS {
                let refused = call(*functional, dtype, number).err();
                let in_place = call(*inplace, dtype, number).err();
                let Some(why) = refused else { continue };
                assert!(
                    in_place.is_some(),
                    "{name} of {dtype} takes {number}; {} does not: {why}",
                    functional.name()
                );
            }
        }
    }
    assert!(pairs > 20, "{pairs} operators");
}
