//! What holds of all operators.

use crate::dispatch::{DispatchKey, handle_of};
use straightline_catalog::entry::ENTRIES;
use straightline_catalog::schema::SchemaType;

/// Families whose operators make tensors, or work on kinds of tensors that have no gradients here.
const WITHOUT: [&str; 6] = [
    "catalog/ops/create/",
    "catalog/ops/nested.yaml",
    "catalog/ops/quantized.yaml",
    "catalog/ops/sparse.yaml",
    "catalog/ops/elsewhere.yaml",
    "catalog/ops/random/",
];

fn has_tensor(ty: &SchemaType) -> bool {
    match ty {
        SchemaType::Tensor => true,
        SchemaType::Optional(t) | SchemaType::List(t, _) => has_tensor(t),
        _ => false,
    }
}

#[test]
fn every_operator_has_formulas_or_is_said_to_have_none() {
    let mut missing = Vec::new();
    for entry in ENTRIES.iter().filter(|e| e.declares) {
        let schema = entry.op.schema();
        let op = handle_of(entry.op).unwrap();
        let skipped = op.registers(DispatchKey::CompositeImplicitAutograd)
            || schema.is_out_variant()
            || WITHOUT.iter().any(|w| entry.file.starts_with(w))
            || !schema.args.iter().any(|a| has_tensor(&a.ty))
            || !schema.returns.iter().any(|r| has_tensor(&r.ty))
            || super::by_hand::kernels().iter().any(|(by_hand, _)| *by_hand == entry.op);
        if !skipped && entry.derivative.is_none() {
            missing.push(entry.op.name());
        }
    }
    missing.retain(|op| !LISTED.contains(op));
    assert!(missing.is_empty(), "no formula and no word about it: {missing:?}");
}

/// Operators without a word: what backends from outside implement, and a call of the compiler's.
const LISTED: [&str; 3] =
    ["aten::_copy_from", "aten::_copy_from_and_resize", "prims::convert_element_type"];
