//! Calls whose results have sizes that depend on data, while a function is captured.
//!
//! A graph has numbers for sizes, and a stand-in has no data. So whoever captures a function for a
//! call says what results such a call of an operator has in it; the tracer asks here.

use crate::dispatch::{OperatorHandle, Value};
use crate::error::Result;
use std::cell::RefCell;
use std::rc::Rc;
use straightline_catalog::Arg;
use straightline_passes::ir::graph::{Graph, NodeId, ValueRef};

/// Knows the results of such calls.
pub(crate) trait Answers {
    /// The results of the call after `before` others of this kind. What it is given are values of the
    /// graph, which has the calls before it.
    fn results(
        &self,
        before: usize,
        op: OperatorHandle,
        args: &[Arg<ValueRef>],
        graph: &Graph,
    ) -> Result<Vec<Value>>;
}

thread_local! {
    static ANSWERS: RefCell<Option<Rc<dyn Answers>>> = const { RefCell::new(None) };
    /// The calls that have been asked about, in the graph that is being recorded.
    static ASKED: RefCell<Vec<NodeId>> = const { RefCell::new(Vec::new()) };
}

/// Has these answers given while `f` runs.
pub(crate) fn answering<R>(answers: Rc<dyn Answers>, f: impl FnOnce() -> R) -> R {
    struct Before(Option<Rc<dyn Answers>>);
    impl Drop for Before {
        fn drop(&mut self) {
            ANSWERS.set(self.0.take());
        }
    }
    let _before = Before(ANSWERS.replace(Some(answers)));
    f()
}

/// Who answers on this thread.
pub(crate) fn answers() -> Option<Rc<dyn Answers>> {
    ANSWERS.with_borrow(Clone::clone)
}

/// How many calls have been asked about.
pub(crate) fn count() -> usize {
    ASKED.with_borrow(Vec::len)
}

/// Notes the node of such a call.
pub(crate) fn note(call: NodeId) {
    ASKED.with_borrow_mut(|all| all.push(call));
}

/// The nodes of such calls in the order in which they were made; none from now on.
pub(crate) fn take() -> Vec<NodeId> {
    ASKED.take()
}
