//! The executable form of a compiled graph.
