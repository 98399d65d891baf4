//! The overlap checks that kernels make on written memory; the functional form of a call sees only
//! values.

use super::kernels::named;
use super::storage::Layout;
use super::wrapper::{covers, wrapped};
use crate::dispatch::{OperatorHandle, Value};
use crate::error::Result;
use crate::modes::outside;
use crate::ops::forms::over::Over;
use crate::tensor::Tensor;
use crate::tensor::access::{self, Overlap};
use straightline_catalog::schema::{Argument, FunctionSchema};

/// The tag of operators in place that take a tensor whose elements are one in memory along a
/// dimension: the last value stays.
const TAKES_REPEATS: &str = "takes_repeats";
/// The tag of operators in place that take operands which lie partly over what is written, and read
/// them first.
const TAKES_OVERLAPS: &str = "takes_overlaps";

/// The checks of kernels: no element is written twice, and no other argument is partly overwritten.
pub(super) fn check_overlaps(
    op: OperatorHandle,
    schema: &FunctionSchema,
    args: &[Value],
    shapes: &[Value],
) -> Result<()> {
    // an `out` of another size is given other memory
    let outs = (schema.args.iter().zip(args)).filter(|(a, _)| a.is_out());
    let outs = outs.flat_map(|(_, v)| v.tensors());
    let resized: Vec<&Tensor> = (outs.zip(shapes.iter().flat_map(Value::tensors)))
        .filter(|(out, shape)| out.sizes() != shape.sizes())
        .map(|(out, _)| out)
        .collect();
    let tagged = |tag: &str| op.tags().contains(&tag);
    let over = Over::of(op);
    for (i, v) in args.iter().enumerate() {
        if !schema.args[i].is_write() {
            continue;
        }
        let stays = |t: &&Tensor| !resized.iter().any(|r| r.same_handle(t));
        for t in v.tensors().filter(stays) {
            if !tagged(TAKES_REPEATS) {
                access::check_no_internal_overlap(t)?;
            }
            if Layout::of(t).overlaps_itself() {
                return Err(outside::limit(
                    "a write to a tensor whose elements overlap in memory cannot be captured: \
                     take a copy first (`copied()`)",
                ));
            }
            let later = (i + 1..args.len()).filter(|k| schema.args[*k].is_write());
            for other in later.flat_map(|k| args[k].tensors()) {
                let other = wrapped(other)?;
                if t.numel() > 0 && (covers(t, &other) || covers(&other, t)) {
                    return Err(outside::limit(
                        "an operator that writes one memory by two arguments, in an order of its own, \
                         cannot be captured: pass a copy (`copied()`) for one of them",
                    ));
                }
            }
            // a write by index may read an element after it has been written
            let by_index = |a: &Argument| matches!(&*a.name, "index" | "indices");
            let by_index = schema.args.iter().any(by_index);
            let is_out = schema.args[i].is_out();
            let others = (0..args.len()).filter(|k| *k != i && !(is_out && over == Over::Anything));
            for (k, other) in others.flat_map(|k| args[k].tensors().map(move |t| (k, t))) {
                let other = wrapped(other)?;
                if is_out {
                    over.check(t, &other)?;
                }
                match by_index && schema.args[k].name != "value" {
                    true => access::check_apart(t, [&other])?,
                    false if is_out || tagged(TAKES_OVERLAPS) => {}
                    false => access::check_no_partial_overlap(t, &other)?,
                }
            }
        }
    }
    Ok(())
}

/// Records how the memory that would have been written overlaps with the other operands: a call
/// refused for that overlap may be accepted another time.
#[cold]
pub(super) fn refused_write(schema: &FunctionSchema, args: &[Value]) {
    let written = (args.iter().zip(&schema.args)).filter(|(_, a)| a.is_write());
    for t in written.flat_map(|(v, _)| v.tensors()) {
        let others = args.iter().flat_map(Value::tensors);
        for other in others.filter(|o| !o.same_handle(t)) {
            if access::overlap(t, other) != Overlap::None {
                outside::matters_how_they_lie(t, other);
            }
        }
    }
}

/// Refuses a written argument that is also another argument: a kernel from outside may read one
/// after writing the other, and the functional form has values for both.
pub(super) fn check_written_apart(
    op: OperatorHandle,
    schema: &FunctionSchema,
    args: &[Value],
) -> Result<()> {
    let all: Vec<(usize, &Tensor)> =
        (args.iter().enumerate()).flat_map(|(i, v)| v.tensors().map(move |t| (i, t))).collect();
    let written = |i: usize| schema.args[i].is_write();
    for (at, (i, t)) in all.iter().enumerate() {
        let others = all.iter().enumerate().filter(|(k, _)| *k != at);
        for (_, (other, o)) in others.filter(|_| written(*i) && t.numel() > 0) {
            let o = wrapped(o)?;
            let meet = access::check_no_partial_overlap(t, &o).is_err();
            if meet || covers(t, &o) || covers(&o, t) {
                let what = format!(
                    "`{}` with an argument `{}` that it writes and that lies in the memory of argument `{}`",
                    op.name(),
                    schema.args[*i].name,
                    schema.args[*other].name
                );
                let why = "it has no functional form, and in what order it reads and writes is not known: pass a \
                           copy (`copied()`) for one of them";
                return Err(named(outside::refuse(&what, why, None), op, args));
            }
        }
    }
    Ok(())
}
