//! A graph as an argument: what an operator of higher order calls.

use crate::Effects;
use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// A graph that an argument can hold. This crate does not know graphs; it knows that they print, and
/// that two which print alike are equal.
pub trait AnyGraph: fmt::Display + Send + Sync + UnwindSafe + RefUnwindSafe + Any {
    /// What its calls do besides computing results, all together.
    fn effects(&self) -> Effects;
}

/// A graph that is an argument of a call: a branch of `cond`, the body of a loop.
///
/// ```
/// use straightline_words::{Effects, subgraph::{AnyGraph, Subgraph}};
/// # struct Text(&'static str);
/// # impl std::fmt::Display for Text {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.0) }
/// # }
/// impl AnyGraph for Text {
///     fn effects(&self) -> Effects { Effects::PURE }
/// }
/// let body = Subgraph::new(Text("graph() { return }"));
/// assert_eq!(body, Subgraph::new(Text("graph() { return }")));
/// assert_eq!(body.get::<Text>().unwrap().0, "graph() { return }");
/// ```
#[derive(Clone)]
pub struct Subgraph(Arc<dyn AnyGraph>);

impl Subgraph {
    /// An argument that holds this graph.
    pub fn new(graph: impl AnyGraph) -> Subgraph {
        Subgraph(Arc::new(graph))
    }

    /// The graph, if it is of this type.
    pub fn get<G: AnyGraph>(&self) -> Option<&G> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// What the graph's calls do besides computing results.
    pub fn effects(&self) -> Effects {
        self.0.effects()
    }

    /// Whether both hold one graph.
    ///
    /// ```
    /// # use straightline_words::{Effects, subgraph::{AnyGraph, Subgraph}};
    /// # struct Text(&'static str);
    /// # impl std::fmt::Display for Text {
    /// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.0) }
    /// # }
    /// # impl AnyGraph for Text { fn effects(&self) -> Effects { Effects::RANDOM } }
    /// let body = Subgraph::new(Text("graph() { return }"));
    /// assert!(body.is_same(&body.clone()) && !body.is_same(&Subgraph::new(Text(""))));
    /// ```
    pub fn is_same(&self, other: &Subgraph) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl PartialEq for Subgraph {
    fn eq(&self, other: &Subgraph) -> bool {
        self.is_same(other) || self.0.to_string() == other.0.to_string()
    }
}

impl Eq for Subgraph {}

impl Hash for Subgraph {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_string().hash(state);
    }
}

/// The graph's text.
impl fmt::Display for Subgraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Subgraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subgraph({})", self.0)
    }
}
