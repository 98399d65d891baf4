//! Rules for one operator under one mode or wrapper type: what `register_torch_dispatch` registers.

use super::{Call, Outcome};
use crate::dispatch::{OperatorHandle, operator};
use crate::error::Result;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

type Rule = Arc<dyn Fn(&dyn Any, Call<'_>) -> Result<Outcome> + Send + Sync>;
type Key = (OperatorHandle, TypeId);

/// Newest last.
type Rules = HashMap<Key, Vec<(u64, Rule)>>;

static RULES: LazyLock<RwLock<Rules>> = LazyLock::new(RwLock::default);
/// How many rules exist; if none, handlers skip the look-up.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Takes a rule back when dropped; [`RuleGuard::leak`] keeps it.
#[must_use = "the rule ends where its guard is dropped"]
pub struct RuleGuard {
    key: Key,
    id: u64,
}

impl fmt::Debug for RuleGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleGuard").field("op", &self.key.0).finish_non_exhaustive()
    }
}

impl RuleGuard {
    /// Keeps the rule for the life of the process.
    pub fn leak(self) {
        std::mem::forget(self);
    }
}

impl Drop for RuleGuard {
    fn drop(&mut self) {
        let mut rules = RULES.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = rules.get_mut(&self.key) {
            list.retain(|(id, _)| *id != self.id);
            COUNT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Registers `rule` to run in place of the handler of mode or wrapper type `T` for an operator. So
/// a custom operator can define how existing modes treat it, without a change in them. The newest
/// rule wins.
///
/// ```
/// use straightline::modes::{Call, DispatchMode, Outcome, push_mode, register_rule};
/// use straightline::{Result, Tensor};
///
/// struct Forbid;
/// impl DispatchMode for Forbid {
///     fn dispatch(&self, call: Call<'_>) -> Result<Outcome> {
///         Ok(Outcome::NotImplemented)
///     }
/// }
///
/// let x = Tensor::from_vec([-1f32], 1)?;
/// let _mode = push_mode(Forbid);
/// assert!(x.relu().is_err());
/// let rule = register_rule("aten::relu", |_: &Forbid, call| Ok(call.forward()?.into()))?;
/// assert_eq!(x.relu()?.to_vec::<f32>()?, [0.0]);
/// drop(rule);
/// assert!(x.relu().is_err());
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// # Errors
///
/// There is no such operator.
pub fn register_rule<T: 'static>(
    op: &str,
    rule: impl Fn(&T, Call<'_>) -> Result<Outcome> + Send + Sync + 'static,
) -> Result<RuleGuard> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let key = (operator(op)?, TypeId::of::<T>());
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let rule: Rule = Arc::new(move |handler, call| match handler.downcast_ref::<T>() {
        Some(handler) => rule(handler, call),
        None => Ok(Outcome::NotImplemented),
    });
    let mut rules = RULES.write().unwrap_or_else(PoisonError::into_inner);
    rules.entry(key).or_default().push((id, rule));
    COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(RuleGuard { key, id })
}

/// The rule of an operator for a type of handler.
pub(super) fn find<T: 'static>(op: OperatorHandle) -> Option<Rule> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let rules = RULES.read().unwrap_or_else(PoisonError::into_inner);
    let list = rules.get(&(op, TypeId::of::<T>()))?;
    list.last().map(|(_, rule)| rule.clone())
}
