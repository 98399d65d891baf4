//! Counts floating point operations and bytes per operator.

use super::call::{Call, Outcome};
use super::dispatch_mode::{DispatchMode, push_mode};
use super::stack::ModeGuard;
use crate::dispatch::Value;
use crate::error::Result;
use crate::tensor::Tensor;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::rc::Rc;
use straightline_catalog::layout;
use straightline_catalog::schema::FunctionSchema;

/// What calls of an operator cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpCost {
    /// How many calls.
    pub calls: u64,
    /// Floating point operations of matrix products: `2 m n k`.
    pub flops: u64,
    /// One for each element that an element-wise operator computes, a reduction reads, or a
    /// normalisation normalises.
    pub element_ops: u64,
    /// Bytes of the operands, each tensor once and broadcast elements once.
    pub bytes_read: u64,
    /// Bytes of the results.
    pub bytes_written: u64,
}

impl AddAssign for OpCost {
    fn add_assign(&mut self, other: OpCost) {
        self.calls += other.calls;
        self.flops += other.flops;
        self.element_ops += other.element_ops;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
    }
}

/// The FLOPs of a call: its arguments and its results.
type Formula = Rc<dyn Fn(&Call<'_>, &[Value]) -> u64>;

#[derive(Default)]
struct State {
    costs: RefCell<BTreeMap<String, OpCost>>,
    formulas: RefCell<BTreeMap<String, Formula>>,
}

/// Counts, per operator, FLOPs and bytes read and written. Clones share the counts.
///
/// [`flops`](OpCost::flops) are those of matrix products, and their total is what
/// `torch.utils.flop_counter` reports for the same program; element-wise operators and reductions
/// are counted apart, by elements. Composites that arrive whole are taken apart first. Views cost
/// nothing. `Display` prints a table.
///
/// ```
/// use straightline::modes::FlopCounter;
/// use straightline::{Tensor, ops::aten};
///
/// let randn = |sizes: &[i64]| Tensor::randn(sizes);
/// let (x, w, b) = (randn(&[8, 16])?, randn(&[32, 16])?, randn(&[32])?);
/// let counter = FlopCounter::new();
/// {
///     let _guard = counter.push();
///     aten::linear(&x, &w, Some(&b))?.relu()?;
/// }
/// assert_eq!(counter.total().flops, 2 * 8 * 16 * 32);
/// assert_eq!(counter.cost("aten::relu").element_ops, 8 * 32);
/// assert_eq!(counter.cost("aten::relu").bytes_read, 8 * 32 * 4);
/// println!("{counter}");
/// # Ok::<(), straightline::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct FlopCounter(Rc<State>);

impl FlopCounter {
    /// A counter at zero.
    pub fn new() -> FlopCounter {
        FlopCounter::default()
    }

    /// Puts the counter on this thread's stack of modes.
    pub fn push(&self) -> ModeGuard {
        push_mode(self.clone())
    }

    /// Says how many FLOPs an operator of your own takes, given the call and its results. The
    /// operator is then counted as one, also if it is a composite.
    pub fn with_formula(
        self,
        op: &str,
        flops: impl Fn(&Call<'_>, &[Value]) -> u64 + 'static,
    ) -> FlopCounter {
        let formula: Formula = Rc::new(flops);
        self.0.formulas.borrow_mut().insert(op.to_string(), formula);
        self
    }

    /// The cost of an operator's calls, `aten::mm`.
    pub fn cost(&self, op: &str) -> OpCost {
        self.0.costs.borrow().get(op).copied().unwrap_or_default()
    }

    /// The costs of all operators that were called, by name.
    pub fn costs(&self) -> Vec<(String, OpCost)> {
        let costs = self.0.costs.borrow();
        costs.iter().map(|(op, c)| (op.clone(), *c)).collect()
    }

    /// The sum over all operators.
    pub fn total(&self) -> OpCost {
        let mut total = OpCost::default();
        for cost in self.0.costs.borrow().values() {
            total += *cost;
        }
        total
    }

    /// Starts again at zero.
    pub fn clear(&self) {
        self.0.costs.borrow_mut().clear();
    }
}

impl DispatchMode for FlopCounter {
    fn dispatch(&self, call: Call<'_>) -> Result<Outcome> {
        let name = call.op().name().to_string();
        let formula = self.0.formulas.borrow().get(&name).cloned();
        if formula.is_none()
            && let Some(done) = call.decompose()
        {
            return Ok(done?.into());
        }
        let values = call.forward()?;
        let mut cost = OpCost {
            calls: 1,
            flops: match formula {
                Some(formula) => formula(&call, &values),
                None => product_flops(&call),
            },
            ..OpCost::default()
        };
        let results: Vec<&Tensor> = values.iter().flat_map(Value::tensors).collect();
        if !is_view(&call, &results) {
            cost.element_ops = element_ops(&call, &results);
            cost.bytes_read = bytes_read(&call);
            cost.bytes_written = results.iter().map(|t| bytes(t)).sum();
        }
        *self.0.costs.borrow_mut().entry(name).or_default() += cost;
        Ok(values.into())
    }
}

/// `2 m n k`, times the batch, of the operands that the catalogue names.
fn product_flops(call: &Call<'_>) -> u64 {
    let names = call.op().op().map_or(&[][..], |op| op.facts().flops);
    let operands: Option<Vec<&Tensor>> =
        (names.iter()).map(|name| call.arg(name).and_then(Value::as_tensor)).collect();
    match operands.as_deref() {
        Some([a, b]) => {
            let columns = b.sizes().last().copied().unwrap_or(1);
            2 * a.numel().unsigned_abs() * columns.unsigned_abs()
        }
        // the products with keys and with values
        Some([query, key, value]) => match (query.sizes(), key.sizes(), value.sizes()) {
            (&[b, h, t, d], &[.., s, _], &[.., e]) => (2 * b * h * t * s * (d + e)).unsigned_abs(),
            _ => 0,
        },
        _ => 0,
    }
}

/// Whether the call only makes a view.
fn is_view(call: &Call<'_>, results: &[&Tensor]) -> bool {
    !call.schema().is_mutable()
        && !results.is_empty()
        && results.iter().all(|r| call.tensors().any(|t| t.shares_storage_with(r)))
}

fn element_ops(call: &Call<'_>, results: &[&Tensor]) -> u64 {
    let tagged = |tag: &str| call.op().tags().contains(&tag);
    let largest = |n: Option<i64>| n.unwrap_or(0).unsigned_abs();
    if tagged("pointwise") {
        return largest(results.iter().map(|t| t.numel()).max());
    }
    if tagged("reduction") {
        return largest(call.tensors().map(Tensor::numel).max());
    }
    0
}

/// The bytes of a tensor's elements; expanded elements count once.
fn bytes(t: &Tensor) -> u64 {
    let elements = layout::numel(&layout::once(t.sizes(), t.strides()));
    elements.unsigned_abs() * t.dtype().size() as u64
}

fn bytes_read(call: &Call<'_>) -> u64 {
    let mut seen: Vec<&Tensor> = Vec::new();
    for (i, value) in call.args().iter().enumerate() {
        if i == 0 && overwrites(call.schema()) {
            continue;
        }
        for t in value.tensors() {
            if !seen.iter().any(|s| s.is_same(t)) {
                seen.push(t);
            }
        }
    }
    seen.into_iter().map(bytes).sum()
}

/// Whether the first argument's elements are not read: it is filled, or only its shape is used.
fn overwrites(schema: &FunctionSchema) -> bool {
    match schema.name.base() {
        "copy_" | "fill_" | "zero_" => true,
        base => base.ends_with("_like") || base.starts_with("new_"),
    }
}

impl fmt::Display for FlopCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let row = |f: &mut fmt::Formatter<'_>, op: &str, c: &OpCost| {
            let share = 100.0 * c.flops as f64 / total.flops.max(1) as f64;
            writeln!(
                f,
                "{op:<32} {:>8} {:>16} {share:>6.1}% {:>14} {:>14} {:>14}",
                c.calls, c.flops, c.element_ops, c.bytes_read, c.bytes_written
            )
        };
        writeln!(
            f,
            "{:<32} {:>8} {:>16} {:>7} {:>14} {:>14} {:>14}",
            "operator", "calls", "FLOPs", "", "elements", "bytes read", "bytes written"
        )?;
        let mut costs = self.costs();
        costs.sort_by_key(|(_, c)| std::cmp::Reverse((c.flops, c.element_ops, c.bytes_read)));
        for (op, cost) in &costs {
            row(f, op, cost)?;
        }
        row(f, "total", &total)
    }
}

impl fmt::Debug for FlopCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlopCounter").field("total", &self.total()).finish_non_exhaustive()
    }
}
