//! Vector math functions, each defined once.
